"""TCP proxies between the daemon and what it depends on, whose faults are switched while they run. They live in a
process of their own, so that a busy test does not slow them.

  python3 faults.py        commands are JSON lines on standard input, each is answered with one line

Faults, by where they strike:
  name in     pass · refuse · connect_reset · connect_hang · request_reset · answer_reset · answer_hang · cut_hang · slow ·
  FAULTS      half_closed · garbage · oversized · wrong_type · status_NNN (of Redis an error reply)
A host that dies takes its connections along: refuse, connect_reset and connect_hang end those that stand. Connections
that a fault has struck stay as they are when it is healed: silent ones are never answered again.
"""
import asyncio
import json
import os
import re
import socket
import ssl
import struct
import subprocess
import sys
import threading

SLOW_BYTES = {"resp": 1, "http": 16, "api": 8}
SLOW_EVERY_S = 0.1
FAULTS = ("refuse", "connect_reset", "connect_hang", "request_reset", "answer_reset", "answer_hang", "cut_hang", "slow",
          "half_closed", "garbage", "oversized", "wrong_type", "status_400", "status_503")
OF_THE_HOST = ("refuse", "connect_reset", "connect_hang")
OF_THE_ANSWER = ("pass", "answer_reset", "cut_hang", "slow")  # what comes from the real one, or a part of it

ENDLESS = 4 << 20  # over every bound of the daemon


def http_answer(status, body, head=b""):
    return b"HTTP/1.1 %d Fault\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s" % (
        status, head, len(body), body)


def canned(speaks, fault):
    """The bytes that answer one request. speaks: http (a document is wanted), api (any answer is passed on), resp."""
    if fault.startswith("status_"):
        status = int(fault[7:])
        if speaks == "resp":
            return b"-NOPERM not this user\r\n" if status < 500 else b"-LOADING the dataset\r\n"
        return http_answer(status, b'{"message":"fault"}')
    if speaks == "resp":
        return {"garbage": b"HTTP/1.1 400 Bad Request\r\n\r\n", "wrong_type": b"*2\r\n:1\r\n$1\r\nx\r\n",
                "oversized": b"$%d\r\n" % ENDLESS + b"x" * ENDLESS + b"\r\n"}[fault]
    if fault == "garbage":
        return b"\x00\xfe\xff\r\nnot HTTP at all\r\n\r\n" if speaks == "api" else http_answer(200, b'{"result": tru')
    if fault == "wrong_type":
        return b"+PONG\r\n" if speaks == "api" else http_answer(200, b'{"result":"true","keys":{},"user-name":[]}')
    if speaks == "api":
        return http_answer(200, b"{}", b"X-Long: " + b"x" * ENDLESS + b"\r\n")
    return http_answer(200, b'{"result":"' + b"x" * ENDLESS + b'"}')


class Framing:
    """Counts whole requests: heads with a Content-Length, or commands of Redis."""

    def __init__(self, speaks):
        self.take = self.resp if speaks == "resp" else self.http
        self.buffer = b""

    def feed(self, data):
        self.buffer += data
        n = 0
        while self.take():
            n += 1
        return n

    def http(self):
        head, mark, rest = self.buffer.partition(b"\r\n\r\n")
        length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.I)
        size = int(length[1]) if length else 0
        if not mark or len(rest) < size:
            return False
        self.buffer = rest[size:]
        return True

    def resp(self):
        lines, at = re.match(rb"\*(\d+)\r\n", self.buffer), 0
        if not lines:
            return False
        at = lines.end()
        for _ in range(int(lines[1])):
            bulk = re.compile(rb"\$(\d+)\r\n").match(self.buffer, at)
            if not bulk or len(self.buffer) < bulk.end() + int(bulk[1]) + 2:
                return False
            at = bulk.end() + int(bulk[1]) + 2
        self.buffer = self.buffer[at:]
        return True


def break_off(transport):
    """The peer sees a reset, not an end."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


class Behind(asyncio.Protocol):
    """The connection to the real one."""

    def __init__(self, front):
        self.front = front

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.front.answered(data)

    def connection_lost(self, _):
        self.front.behind_is_gone()


class Front(asyncio.Protocol):
    """A connection of the daemon."""

    def __init__(self, link):
        self.link = link
        self.behind, self.held = None, b""
        self.framing = Framing(link.speaks)
        self.dead = False  # struck: nothing more comes of it
        self.slowly = b""
        self.busy = 0

    def connection_made(self, transport):
        self.transport = transport
        self.link.fronts.add(self)
        self.link.accepted += 1
        if self.link.fault == "connect_reset":
            break_off(transport)
            return
        asyncio.ensure_future(self.connect())

    async def connect(self):
        try:
            _, self.behind = await asyncio.get_running_loop().create_connection(
                lambda: Behind(self), *self.link.target)
        except OSError:
            if self.link.fault in OF_THE_ANSWER:
                break_off(self.transport)
            return
        if self.held:
            self.behind.transport.write(self.held)
        if self.transport.is_closing():
            self.behind.transport.abort()

    def data_received(self, data):
        link = self.link
        if self.dead:
            return
        whole = self.framing.feed(data) if link.framed else 0
        if link.fault in OF_THE_ANSWER:
            link.asked(self, whole)
            if self.behind:
                self.behind.transport.write(data)
            else:
                self.held += data
            return
        if link.framed and not whole:
            return
        self.strike(link.fault, whole)

    def strike(self, fault, n):
        if fault == "answer_hang":
            self.dead = True
        elif fault == "half_closed":
            self.dead = True
            self.transport.write_eof()
        elif fault == "request_reset":
            break_off(self.transport)
        else:
            self.transport.write(canned(self.link.speaks, fault) * n)

    def answered(self, data):
        link = self.link
        if self.dead:
            return
        link.answered(self)
        if link.fault in ("answer_reset", "cut_hang"):
            self.dead = True
            self.transport.write(data[:max(1, len(data) // 2)])
            if link.fault == "answer_reset":
                asyncio.get_running_loop().call_later(0.02, break_off, self.transport)
        elif link.fault == "slow" or self.slowly:
            started = bool(self.slowly)
            self.slowly += data
            if not started:
                self.drip()
        else:
            self.transport.write(data)

    def drip(self):
        if self.transport.is_closing():
            return
        if self.link.fault != "slow":
            self.transport.write(self.slowly)
            self.slowly = b""
            return
        n = SLOW_BYTES[self.link.speaks]
        self.transport.write(self.slowly[:n])
        self.slowly = self.slowly[n:]
        if self.slowly:
            asyncio.get_running_loop().call_later(SLOW_EVERY_S, self.drip)

    def behind_is_gone(self):
        if not self.dead and not self.transport.is_closing():
            self.transport.close()

    def eof_received(self):
        return False

    def connection_lost(self, _):
        self.link.fronts.discard(self)
        self.link.answered(self)
        if self.behind:
            self.behind.transport.close()


class Link:
    """One proxy. framed: requests are told apart; without it bytes only pass (uploads, tunnels). files: of a certificate
    and its key; then it speaks TLS in front."""

    def __init__(self, port, target, speaks, files=None):
        self.port, self.target, self.speaks = port, target, speaks
        self.tls = None
        if files:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(*files)
        self.framed = True
        self.fault = "pass"
        self.fronts, self.server, self.full = set(), None, []
        self.accepted = self.requests = self.out = self.most_out = 0

    def asked(self, front, n):
        self.requests += n
        if n and not front.busy:
            front.busy = 1
            self.out += 1
            self.most_out = max(self.most_out, self.out)

    def answered(self, front):
        self.out -= front.busy
        front.busy = 0

    def listener(self, backlog):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", self.port))
        sock.listen(backlog)
        return sock

    def fill(self):
        """A listener that nobody empties: once its queue is full the kernel drops who knocks."""
        self.full = [self.listener(0)]
        for _ in range(4):
            knock = socket.socket()
            knock.setblocking(False)
            knock.connect_ex(("127.0.0.1", self.port))
            self.full.append(knock)

    async def close(self):
        for sock in self.full:
            sock.close()
        self.full = []
        if self.server:
            self.server.close()
            self.server = None

    async def turn_to(self, fault):
        self.fault = fault
        if fault in OF_THE_HOST or not self.server:
            await self.close()
        if fault in OF_THE_HOST:
            for front in list(self.fronts):
                break_off(front.transport)
        if fault == "connect_hang":
            self.fill()
        elif fault != "refuse" and not self.server:
            self.server = await asyncio.get_running_loop().create_server(
                lambda: Front(self), sock=self.listener(4096), ssl=self.tls)

    def stats(self):
        seen = {"accepted": self.accepted, "requests": self.requests, "most_out": self.most_out,
                "open": len(self.fronts)}
        self.accepted = self.requests = 0
        self.most_out = self.out
        return seen


async def obey(links, word):
    if "target" in word:
        links[word["link"]] = Link(word["port"], word["target"], word["speaks"], word.get("files"))
        await links[word["link"]].turn_to("pass")
    link = links[word["link"]]
    if "framed" in word:
        link.framed = word["framed"]
    if "fault" in word:
        await link.turn_to(word["fault"])
    return link.stats() if word.get("stats") else {}


async def main():
    links = {}
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while True:
        line = await reader.readline()
        if not line:
            return
        try:
            print(json.dumps(await obey(links, json.loads(line))), flush=True)
        except Exception as error:  # told to who asked, who stops the test
            print(json.dumps({"error": repr(error)}), flush=True)


class Faults:
    """The same as a child of a test."""

    def __init__(self):
        self.child = subprocess.Popen([sys.executable, os.path.abspath(__file__)], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE)
        self.lock = threading.Lock()

    def tell(self, **word):
        with self.lock:
            self.child.stdin.write(json.dumps(word).encode() + b"\n")
            self.child.stdin.flush()
            answer = json.loads(self.child.stdout.readline())
        assert "error" not in answer, (word, answer)
        return answer

    def link(self, name, port, target, speaks, framed=True, files=None):
        self.tell(link=name, port=port, target=["127.0.0.1", target], speaks=speaks, framed=framed, files=files)

    def set(self, name, fault):
        self.tell(link=name, fault=fault)

    def heal(self, name):
        self.set(name, "pass")

    def stats(self, name):
        """Since the last time it was asked: connections, whole requests, most that were out at once."""
        return self.tell(link=name, stats=True)

    def stop(self):
        self.child.kill()
        self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()


if __name__ == "__main__":
    asyncio.run(main())
