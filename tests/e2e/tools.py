"""Small tools of the end-to-end tests: ports, patience, child processes."""
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATIENCE_S = 15  # for what should take moments; the machine may be busy


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


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
