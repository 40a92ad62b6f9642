"""Small tools of the end-to-end tests: ports, patience, child processes."""
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATIENCE_S = 15  # for what should take moments; the machine may be busy


_given = set()


def free_port():
    """Below the range that the kernel takes for outgoing connections, and never the same twice."""
    while True:
        port = random.randrange(20000, 32000)
        if port in _given:
            continue
        _given.add(port)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def eventually(condition, what, seconds=PATIENCE_S):
    """Waits until condition() is true and returns its value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def opened(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def http(method, url, body=None, headers=None):
    """For the peers' own control endpoints, not for what is under test."""
    request = urllib.request.Request(url, body, headers or {}, method=method)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return answer.read()


class Process:
    """A child with its standard error kept in a file."""

    def __init__(self, arguments, env=None, stdout=subprocess.DEVNULL):
        self.stderr_file = tempfile.TemporaryFile()
        self.child = subprocess.Popen(arguments, env=env, stdin=subprocess.DEVNULL, stdout=stdout,
                                      stderr=self.stderr_file)
        self.pid = self.child.pid

    def alive(self):
        return self.child.poll() is None

    def stderr(self):
        size = os.fstat(self.stderr_file.fileno()).st_size
        return os.pread(self.stderr_file.fileno(), size, 0).decode("utf-8", "replace")

    def end(self, number=signal.SIGTERM, seconds=PATIENCE_S):
        if self.alive():
            self.child.send_signal(number)
        try:
            return self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            return None
