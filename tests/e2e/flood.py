"""Crowds for the tests of exhaustion: an upstream that serves thousands at once from one thread, bodies as large as one
likes without a byte of them in memory, clients by the thousand, and what the kernel says a process costs."""
import contextlib
import os
import re
import resource
import selectors
import socket
import tempfile
import threading
import time

import harness
from general import is_sanitized

MIB = 1 << 20


def plain_binary():
    """A build whose resident memory says something; None when there is none."""
    if not is_sanitized(harness.BIN):
        return harness.BIN
    path = os.path.join(harness.ROOT, "build", "dev", "doorward")
    return path if os.path.exists(path) else None


class Plain(harness.Doorward):
    """A daemon of the build without sanitizers; descriptors: the soft and the hard limit that it is started with."""

    def __init__(self, *args, descriptors=None, **kwargs):
        self.descriptors = descriptors
        super().__init__(*args, **kwargs)

    def program(self):
        if not self.descriptors:
            return plain_binary()
        path = os.path.join(self.folder.name, "limited")
        with open(path, "w", encoding="ascii") as file:
            soft, hard = self.descriptors
            file.write(f'#!/bin/sh\nulimit -S -n {soft} && ulimit -H -n {hard} && exec {plain_binary()} "$@"\n')
        os.chmod(path, 0o755)
        return path

    def start(self):
        used, harness.BIN = harness.BIN, self.program()
        try:
            super().start()
        finally:
            harness.BIN = used

    def limit_descriptors(self, n):
        resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (n, n))

    def status_kib(self, name):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return int(re.search(name + r":\s+(\d+)", file.read())[1])

    @contextlib.contextmanager
    def grows_at_most(self, kib):
        """The peak of the resident memory within, over what is resident at its beginning."""
        with open(f"/proc/{self.process.pid}/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
        before = self.status_kib("VmRSS")
        yield
        grown = self.status_kib("VmHWM") - before
        print(f"resident memory: {grown} KiB more than {before} KiB at its peak, {kib} may be")
        assert grown <= kib, f"{grown} KiB more than {before} KiB"

    def cpu_s(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Sparse:
    """A file of zeros that takes no room."""

    def __init__(self, size):
        self.file = tempfile.TemporaryFile()
        self.file.truncate(size)
        self.size = size


class Upstream:
    """Answers GET /pub/N with N bytes of nothing, anything else with two, and takes bodies without keeping them. One
    thread for all connections; a connection whose reader is slow waits for it."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.listener.setblocking(False)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.zeros = Sparse(2 << 30)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.open, self.taken, self.running = set(), 0, True
        self.scratch = bytearray(MIB)
        threading.Thread(target=self.turn, daemon=True).start()

    def turn(self):
        while self.running:
            for key, events in self.selector.select(0.2):
                if key.fileobj is self.listener:
                    self.accept()
                    continue
                try:
                    self.serve(key.fileobj, key.data, events)
                except BlockingIOError:
                    pass
                except (OSError, EOFError):
                    self.close(key.fileobj)

    def accept(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                sock, _ = self.listener.accept()
                sock.setblocking(False)
                self.open.add(sock)
                self.selector.register(sock, selectors.EVENT_READ, {"head": b"", "body": 0, "left": 0})

    def serve(self, sock, state, events):
        if events & selectors.EVENT_WRITE and state["left"]:
            self.send(sock, state)
            return
        size = sock.recv_into(self.scratch)
        if size == 0:
            raise EOFError
        if state["body"]:
            self.take_body(sock, state, size)
            return
        state["head"] += bytes(self.scratch[:size])
        head, mark, rest = state["head"].partition(b"\r\n\r\n")
        if not mark:
            return
        state["head"] = b""
        length = re.search(rb"\r\ncontent-length: (\d+)", head, re.I)
        if length and int(length[1]):
            state["body"] = int(length[1])
            self.take_body(sock, state, len(rest))
            return
        wanted = re.match(rb"GET /pub/(\d+) ", head)
        if not wanted:
            sock.sendall(harness.OK_ANSWER)
            return
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n" % wanted[1])
        state["left"] = state["size"] = int(wanted[1])
        self.send(sock, state)

    def take_body(self, sock, state, size):
        self.taken += size
        state["body"] -= size
        if state["body"] == 0:
            sock.sendall(harness.OK_ANSWER)

    def send(self, sock, state):
        try:
            for _ in range(16):
                if state["left"] == 0:
                    break
                at = state["size"] - state["left"]
                state["left"] -= os.sendfile(sock.fileno(), self.zeros.file.fileno(), at, min(state["left"], 4 * MIB))
        except BlockingIOError:
            pass
        wants = selectors.EVENT_READ | (selectors.EVENT_WRITE if state["left"] else 0)
        self.selector.modify(sock, wants, state)

    def close(self, sock):
        self.selector.unregister(sock)
        self.open.discard(sock)
        sock.close()

    def stop(self):
        self.running = False
        self.listener.close()


class Crowd:
    """Many connections of one kind; they end with the block."""

    def __init__(self, port, n, source=None, buffer_bytes=None):
        self.sockets = []
        for i in range(n):
            sock = socket.socket()
            if buffer_bytes:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
            if source:
                sock.bind((source, 0))
            sock.settimeout(harness.PATIENCE_S)
            sock.connect(("127.0.0.1", port))
            sock.setblocking(False)
            self.sockets.append(sock)
            if i % 200 == 199:
                time.sleep(0.02)  # the backlog of a listener is shorter than the crowd

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for sock in self.sockets:
            sock.close()

    def send(self, data):
        """To all of them; how many took it."""
        taken = 0
        for sock in self.sockets:
            with contextlib.suppress(OSError):
                sock.sendall(data)
                taken += 1
        return taken

    def read_some(self, size):
        got = 0
        for sock in self.sockets:
            with contextlib.suppress(OSError):
                got += len(sock.recv(size))
        return got

    def closed_now(self):
        """How many of them were closed, without reading what waits for them."""
        n = 0
        for sock in self.sockets:
            try:
                n += sock.recv(1, socket.MSG_PEEK) == b""
            except BlockingIOError:
                pass
            except OSError:
                n += 1
        return n

    def closed(self):
        """How many of them the other side has closed, whatever it said before."""
        n = 0
        for sock in self.sockets:
            try:
                while sock.recv(65536):
                    pass
                n += 1
            except BlockingIOError:
                pass
            except OSError:
                n += 1
        return n


class Others:
    """Somebody else who asks all the while, and keeps how long each answer took."""

    def __init__(self, daemon, path="/pub/other", source=None):
        self.daemon, self.path, self.source = daemon, path, source
        self.took_s, self.wrong = [], []
        self.running = threading.Event()

    def ask(self):
        began = time.monotonic()
        try:
            sock = socket.create_connection(("127.0.0.1", self.daemon.port), harness.PATIENCE_S,
                                            (self.source, 0) if self.source else None)
            with sock:
                sock.sendall(f"GET {self.path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
                got = sock.recv(65536)
            if not got.startswith(b"HTTP/1.1 200 "):
                self.wrong.append(got[:80])
        except OSError as error:
            self.wrong.append(error)
        self.took_s.append(time.monotonic() - began)

    def go_on(self):
        while not self.running.wait(0.05):
            self.ask()

    def __enter__(self):
        self.thread = threading.Thread(target=self.go_on, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.running.set()
        self.thread.join(harness.PATIENCE_S)
        if kind is None:
            assert not self.wrong and self.took_s, self.wrong[:3]
            middle = sorted(self.took_s)[len(self.took_s) // 2]
            assert middle < 1, f"half of the others waited {middle} s or longer"
