"""Clients of the end-to-end tests: the real curl, and sockets that send exactly what they are given."""
import json
import os
import socket
import subprocess
import tempfile
import time

from tools import PATIENCE_S


class Answer:
    """A status, header lines in order, a body."""

    def __init__(self, status, lines, body, reason=""):
        self.status = status
        self.reason = reason
        self.lines = lines
        self.body = body

    def all(self, name):
        return [value for key, value in self.lines if key.lower() == name.lower()]

    def header(self, name, default=None):
        values = self.all(name)
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else default

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def request_id(self):
        return self.header("x-request-id")

    def __repr__(self):
        return f"<{self.status} {self.lines} {self.body[:300]!r}>"


def head_of(text):
    """(status, reason, [(name, value)]) of one head."""
    first, *rest = text.rstrip("\r\n").split("\r\n")
    parts = first.split(" ", 2)
    lines = [tuple(part.strip() for part in line.split(":", 1)) for line in rest if ":" in line]
    return int(parts[1]), parts[2] if len(parts) > 2 else "", lines


def curl(url, *arguments, data=None, max_time_s=30):
    """The real curl: the final answer, whatever 1xx came before it."""
    with tempfile.TemporaryDirectory() as folder:
        heads, body = os.path.join(folder, "heads"), os.path.join(folder, "body")
        command = ["curl", "-sS", "-q", "--http1.1", "--noproxy", "*", "--path-as-is", "-g", "--max-time",
                   str(max_time_s), "-D", heads, "-o", body, *arguments]
        if data is not None:
            command += ["--data-binary", "@-"]
        ran = subprocess.run([*command, url], input=data, capture_output=True, check=False)
        assert ran.returncode == 0, f"curl {ran.returncode}: {ran.stderr.decode()}"
        with open(heads, encoding="latin-1", newline="") as file:
            blocks = [b for b in file.read().split("\r\n\r\n") if b.startswith("HTTP/")]
        status, reason, lines = head_of(blocks[-1])
        content = b""
        if os.path.exists(body) and "-I" not in arguments:
            with open(body, "rb") as file:
                content = file.read()
        return Answer(status, lines, content, reason)


class RawClient:
    """A socket that sends exactly what it is given."""

    def __init__(self, port, timeout_s=PATIENCE_S):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def send(self, *pieces, delay_s=0.0):
        for i, piece in enumerate(pieces):
            if i and delay_s:
                time.sleep(delay_s)
            self.socket.sendall(piece)
        return self

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)
        return self

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def close(self):
        self.socket.close()

    def all(self):
        """Everything until the other side closes."""
        while True:
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                data = b""
            if not data:
                taken, self.buffer = self.buffer, b""
                return taken
            self.buffer += data

    def until(self, mark):
        while mark not in self.buffer:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError(f"closed after {self.buffer!r}")
            self.buffer += data
        end = self.buffer.index(mark) + len(mark)
        taken, self.buffer = self.buffer[:end], self.buffer[end:]
        return taken

    def exactly(self, size):
        while len(self.buffer) < size:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError(f"closed after {self.buffer!r}")
            self.buffer += data
        taken, self.buffer = self.buffer[:size], self.buffer[size:]
        return taken

    def answer(self, method="GET"):
        """The next answer, 1xx heads included as answers of their own."""
        status, reason, lines = head_of(self.until(b"\r\n\r\n").decode("latin-1"))
        answer = Answer(status, lines, b"", reason)
        if method == "HEAD" or status < 200 or status in (204, 304):
            return answer
        if "chunked" in (answer.header("transfer-encoding") or "").lower():
            while True:
                size = int(self.until(b"\r\n").split(b";")[0], 16)
                if size == 0:
                    while self.until(b"\r\n") != b"\r\n":
                        pass
                    return answer
                answer.body += self.exactly(size)
                self.exactly(2)
        if answer.header("content-length") is not None:
            answer.body = self.exactly(int(answer.header("content-length")))
        else:
            answer.body = self.all()
        return answer


def raw(port, *pieces, delay_s=0.0, half_close=False):
    """Sends bytes on a connection of its own and returns all that comes back until it is closed."""
    client = RawClient(port).send(*pieces, delay_s=delay_s)
    if half_close:
        client.half_close()
    try:
        return client.all()
    finally:
        client.close()
