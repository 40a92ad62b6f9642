"""The API of the chaos tests, made to be killed: a sample like demo/api.py, but quick, and it keeps its own record of
what was forwarded to it, a line each that is with the kernel before the request is answered.

  python3 service.py <port> <record file> <name>

  GET /cwms-data/user/profile   a dam operator's profile for whoever the token names (it was the proxy's to verify it)
  GET /cwms-data/ws/...         a WebSocket that sends back whatever bytes come
  GET /cwms-data/bytes/N        N bytes;  ANY ...?ms=N  answers after that long
  ANY ...                       200, {"length": of the body}
  GET /__stats                  profiles asked, most at once, since the last time;  GET /__delay/N  of profiles, ms
"""
import asyncio
import base64
import hashlib
import json
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from tools import eventually, http, opened  # noqa: E402

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
GRANT = re.compile(rb"\r\nx-cwms-auth-context:", re.I)
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.I)
CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.I)
ID = re.compile(rb"\r\nx-request-id: *([^\r]*)", re.I)
TOKEN = re.compile(rb"\r\nauthorization: *bearer [^.]*\.([^.]*)\.", re.I)
LAST_CHUNK = b"0\r\n\r\n"


class State:
    def __init__(self, record, name):
        self.record = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.name = name.encode()
        self.delay_s = 0.0
        self.asked, self.out, self.most_out = {}, 0, 0

    def stats(self):
        seen = {"profiles": sum(self.asked.values()), "most_of_one": max(self.asked.values(), default=0),
                "most_out": self.most_out}
        self.asked, self.most_out = {}, self.out
        return json.dumps(seen).encode()


class Connection(asyncio.Protocol):
    state = None

    def connection_made(self, transport):
        self.transport = transport
        self.buffer, self.head = b"", None
        self.left, self.taken, self.tail = 0, 0, b""
        self.waiting, self.tunnel = False, False

    def data_received(self, data):
        if self.tunnel:
            self.transport.write(data)
            return
        self.buffer += data
        while not (self.waiting or self.tunnel) and self.turn():
            pass

    def turn(self):
        """One step over what was read; False when more must come."""
        if self.head is None:
            head, mark, rest = self.buffer.partition(b"\r\n\r\n")
            if not mark:
                return False
            self.head, self.buffer, self.taken, self.tail = head, rest, 0, b""
            length = LENGTH.search(head)
            self.left = -1 if CHUNKED.search(head) else int(length[1]) if length else 0
            self.note()
            if b"\r\nexpect:" in head.lower():
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self.left == 0:
            self.answer()
            return True
        if not self.buffer:
            return False
        if self.left < 0:  # chunked: nobody pipelines behind it here
            self.taken += len(self.buffer)
            self.tail, self.buffer = (self.tail + self.buffer)[-5:], b""
            if self.tail == LAST_CHUNK:
                self.left = 0
            return True
        piece = self.buffer[:self.left]
        self.buffer = self.buffer[len(piece):]
        self.left -= len(piece)
        self.taken += len(piece)
        return True

    def note(self):
        target = self.target()
        if target.startswith((b"/__", b"/cwms-data/user/profile")):
            return
        found = ID.search(self.head)
        if not found:  # a probe
            return
        os.write(self.state.record, b"%s %s %s %d %s\n" % (
            found[1], self.head.split(b" ", 1)[0], target.split(b"?")[0], len(GRANT.findall(self.head)),
            self.state.name))

    def target(self):
        return self.head.split(b" ", 2)[1]

    def answer(self):
        target = self.target()
        if target.startswith(b"/cwms-data/user/profile"):
            self.profile()
        elif target.startswith(b"/__stats"):
            self.send(self.state.stats())
        elif target.startswith(b"/__delay/"):
            self.state.delay_s = int(target[9:]) / 1000
            self.send(b"{}")
        elif b"\r\nupgrade: websocket" in self.head.lower():
            self.upgrade()
        elif target.startswith(b"/cwms-data/bytes/"):
            self.send(b"x" * int(target[17:].split(b"?")[0]))
        elif b"?ms=" in target:
            self.later(int(target.split(b"?ms=")[1].split(b"&")[0]) / 1000, b"{}")
        else:
            self.send(b'{"length":%d}' % self.taken)

    def later(self, seconds, body, done=None):
        self.waiting = True

        def go_on():
            self.waiting = False
            if done:
                done()
            if not self.transport.is_closing():
                self.send(body)
                while not (self.waiting or self.tunnel) and self.turn():
                    pass
        asyncio.get_running_loop().call_later(seconds, go_on)

    def profile(self):
        state, token = self.state, TOKEN.search(self.head)
        if not token:
            self.send(b"{}", b"401 Unauthorized")
            return
        text = token[1]
        name = json.loads(base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4)))["preferred_username"]
        body = json.dumps({"user-name": name.upper(), "cac-auth": True, "roles": {"SWT": ["dam_operator"]},
                           "persona": "dam_operator", "shift-start": 0, "shift-end": 24, "timezone": "UTC"}).encode()
        state.asked[name] = state.asked.get(name, 0) + 1
        state.out += 1
        state.most_out = max(state.most_out, state.out)

        def done():
            state.out -= 1
        if state.delay_s:
            self.later(state.delay_s, body, done)
        else:
            done()
            self.send(body)

    def upgrade(self):
        key = re.search(rb"\r\nsec-websocket-key: *([^\r]*)", self.head, re.I)[1]
        accept = base64.b64encode(hashlib.sha1(key + MAGIC).digest())
        self.transport.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             b"Sec-WebSocket-Accept: %s\r\n\r\n" % accept)
        self.tunnel = True
        if self.buffer:
            self.transport.write(self.buffer)

    def send(self, body, status=b"200 OK"):
        self.transport.write(b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nX-Member: %s\r\n\r\n%s"
                             % (status, len(body), self.state.name, b"" if self.head.startswith(b"HEAD") else body))
        self.head = None


async def serve(port, record, name):
    Connection.state = State(record, name)
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


class Service:
    """The same as a child of a test; several share a record."""

    def __init__(self, port, record, name="a"):
        self.port, self.record, self.name = port, record, name
        self.url = f"http://127.0.0.1:{port}"
        self.start()

    def start(self):
        self.child = subprocess.Popen([sys.executable, os.path.abspath(__file__), str(self.port), self.record, self.name],
                                      stdin=subprocess.DEVNULL)
        eventually(lambda: opened(self.port), "the API listens")

    def stats(self):
        return json.loads(http("GET", self.url + "/__stats"))

    def delay_profiles(self, ms):
        http("GET", f"{self.url}/__delay/{ms}")

    def kill(self):
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
