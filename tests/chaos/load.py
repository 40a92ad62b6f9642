"""Load with a fixed rate of arrivals over kept connections, in a process of its own: a tool for being right, not for being
fast. Every request has an id of its own and leaves one line in a record: what became of it as the client saw it.

  python3 load.py <plan file>        JSON; commands are lines on standard input: stop

Plan: ports, obeys_ready, rate per second, seconds, mix {kind: weight}, tokens file, name, record.
Kinds are rows of KINDS. A record line: id kind status ms port how began (the system's monotonic clock, s)
  status 0: no whole answer; how: ok, retried (a kept connection was closed under it before any answer and a fresh one
  answered; only what is idempotent), or what went wrong.
obeys_ready: while the /ready of a port says anything but 200, no request is sent there, and while none is ready none
at all, as from behind a balancer.
"""
import asyncio
import collections
import json
import os
import random
import re
import select
import subprocess
import sys
import time

Row = collections.namedtuple("Row", "id kind status ms port how began")
PATIENCE_S = 20
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.I)
CHUNK = re.compile(rb"([0-9a-f]+)[^\r\n]*\r\n", re.I)
READY_EVERY_S = 0.05


def get(path):
    return lambda load, user, id: (b"GET", path(load, user), b"")


def upload(load, user, id):
    return b"POST", b"/timeseries/up?office=SWT&data_source=MANUAL", load.bodies[load.chance.randrange(len(load.bodies))]


def authorize(load, user, id):
    said = {"jwt_token": load.tokens[user].decode(), "resource": "timeseries", "action": "read",
            "context": {"office_id": "SWT"}}
    return b"POST", b"/authorize", json.dumps(said).encode()


# kind: what is sent; idempotent ones may be sent again on a fresh connection when a kept one ends under them
KINDS = {
    "cached": get(lambda load, user: b"/timeseries/a?office=SWT"),
    "hot": get(lambda load, user: b"/timeseries/a?office=SWT"),
    "unique": get(lambda load, user: b"/timeseries/u%d?office=SWT" % load.next_number()),
    "public": get(lambda load, user: b"/ping"),
    "other": get(lambda load, user: b"/other/timeseries/a?office=SWT"),
    "denied": get(lambda load, user: b"/timeseries/a?office=LRL"),
    "bad_token": get(lambda load, user: b"/timeseries/a?office=SWT"),
    "bytes": get(lambda load, user: b"/bytes/%d?office=SWT" % (65536 << load.chance.randrange(3))),
    "late": get(lambda load, user: b"/timeseries/late?ms=%d&office=SWT" % load.chance.randrange(50, 400)),
    "upload": upload,
    "authorize": authorize,
    "slow": None,
    "websocket": None,
}
HOT_USERS = 50


class Connection(asyncio.Protocol):
    """One kept connection, one request at a time."""

    def __init__(self, load, port):
        self.load, self.port = load, port
        self.ask = None
        self.buffer = b""
        self.used = False
        self.closing = False

    def connection_made(self, transport):
        self.transport = transport
        self.load.open.add(self)

    def is_live(self):
        """Kept, and the other side has not ended it: what did not reach the event loop yet counts."""
        if self.transport.is_closing():
            return False
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not poll.poll(0)

    def send(self, ask):
        self.ask, self.buffer, self.closing = ask, b"", False
        self.transport.write(ask.bytes)

    def data_received(self, data):
        if not self.ask:
            self.transport.abort()  # an answer nobody asked for
            self.load.unasked += 1
            return
        self.buffer += data
        end = self.whole()
        if end:
            self.done()

    def whole(self):
        """The end of a whole final answer in the buffer, 0 when more must come."""
        while True:
            at = self.buffer.find(b"\r\n\r\n")
            if at < 0:
                return 0
            self.status = int(self.buffer[9:12])
            if self.status >= 200:
                break
            self.buffer = self.buffer[at + 4:]
        head = self.buffer[:at].lower()
        self.closing = b"\r\nconnection: close" in head
        length = LENGTH.search(head)
        if length:
            return at + 4 + int(length[1]) if len(self.buffer) >= at + 4 + int(length[1]) else 0
        if b"\r\ntransfer-encoding: chunked" in head:
            return len(self.buffer) if self.buffer.endswith(b"0\r\n\r\n") else 0
        return at + 4 if self.status in (204, 304) else 0

    def done(self):
        ask, self.ask, self.buffer = self.ask, None, b""
        self.used = True
        ask.ended(self.status, "retried" if ask.again else "ok")
        if self.closing:
            self.transport.close()
        else:
            self.load.idle[self.port].append(self)

    def connection_lost(self, error):
        load = self.load
        load.open.discard(self)
        if not self.ask:
            if self in load.idle[self.port]:
                load.idle[self.port].remove(self)
            return
        ask, self.ask = self.ask, None
        if self.used and not self.buffer and ask.idempotent and not ask.again:
            ask.again = True
            load.start(ask, fresh=True)
            return
        crossed = self.used and not self.buffer  # with the end of an idle connection, perhaps
        ask.ended(0, "crossed" if crossed else "reset" if error else "closed" if not self.buffer else "broken")


class Ask:
    """One request and what became of it."""
    __slots__ = ("load", "id", "kind", "bytes", "idempotent", "again", "began", "port", "timer", "connection")

    def __init__(self, load, id, kind, data, idempotent):
        self.load, self.id, self.kind, self.bytes, self.idempotent = load, id, kind, data, idempotent
        self.again = False
        self.began = time.monotonic()
        self.port = self.connection = None
        self.timer = asyncio.get_running_loop().call_later(PATIENCE_S, self.late)

    def late(self):
        if self.connection:
            self.connection.ask = None
            self.connection.transport.abort()
        self.ended(0, "no answer")

    def ended(self, status, how):
        if self.timer:
            self.timer.cancel()
            self.timer = None
            self.load.note(self.id, self.kind, status, self.began, self.port, how)


class Load:
    def __init__(self, plan):
        self.plan = plan
        self.chance = random.Random(plan.get("seed", 1))
        with open(plan["tokens"], encoding="ascii") as file:
            self.tokens = [line.split()[1].encode() for line in file]
        self.ports = plan["ports"]
        self.ready = {port: True for port in self.ports}
        self.idle = {port: [] for port in self.ports}
        self.open, self.unasked = set(), 0
        self.n = self.numbers = self.turn = self.out = 0
        self.bodies = [os.urandom(size) for size in plan.get("bodies", (20000, 70000, 300000))]
        self.record = open(plan["record"], "w", encoding="ascii")
        self.stopping = False

    def next_number(self):
        self.numbers += 1
        return self.numbers

    def note(self, id, kind, status, began, port, how):
        self.out -= 1
        self.record.write("%s %s %d %.1f %s %s %.4f\n" % (
            id, kind, status, (time.monotonic() - began) * 1000, port, how.replace(" ", "_"), began))

    def able(self):
        return [port for port in self.ports if self.ready[port]]

    def pick_port(self):
        able = self.able() or self.ports
        self.turn += 1
        return able[self.turn % len(able)]

    def head(self, method, path, id, user, more=b""):
        token = b"Authorization: Bearer %s\r\n" % self.tokens[user] if user is not None else b""
        return b"%s %s HTTP/1.1\r\nHost: chaos\r\nX-Request-Id: %s\r\n%s%s\r\n" % (method, path, id.encode(), token, more)

    def one(self, kind, user=None):
        self.n += 1
        self.out += 1
        id = f"{self.plan['name']}-{self.n}"
        if user is None:
            user = self.chance.randrange(min(HOT_USERS, len(self.tokens)) if kind != "cached" else len(self.tokens))
        if kind == "slow":
            asyncio.ensure_future(self.slow(id, user))
            return
        if kind == "websocket":
            asyncio.ensure_future(self.websocket(id, user))
            return
        method, path, body = KINDS[kind](self, user, id)
        more = b"Content-Length: %d\r\n" % len(body) if method == b"POST" else b""
        data = self.head(method, path, id, None if kind in ("public", "authorize") else user, more)
        if kind == "bad_token":
            data = data.replace(b"\r\nHost", b"\r\nHost").replace(self.tokens[user], self.tokens[user][:-8] + b"AAAAAAAA")
        self.start(Ask(self, id, kind, data + body, method == b"GET"))

    def start(self, ask, fresh=False):
        ask.port = self.pick_port()
        idle = self.idle[ask.port]
        while idle and not fresh:
            connection = idle.pop()
            if connection.is_live():
                ask.connection = connection
                connection.send(ask)
                return
        asyncio.ensure_future(self.dial(ask))

    async def dial(self, ask):
        try:
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: Connection(self, ask.port), "127.0.0.1", ask.port)
        except OSError as error:
            ask.ended(0, "refused" if isinstance(error, ConnectionRefusedError) else "unreachable")
            return
        if not ask.timer:  # it was given up meanwhile
            connection.transport.abort()
            return
        ask.connection = connection
        connection.send(ask)

    async def slow(self, id, user):
        """A client on a thin line: sends its head in pieces and reads a large answer in pieces."""
        began, port, status, how = time.monotonic(), self.pick_port(), 0, "broken"
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=8192)
            data = self.head(b"GET", b"/bytes/400000?office=SWT", id, user, b"Connection: close\r\n")
            for at in range(0, len(data), 200):
                writer.write(data[at:at + 200])
                await asyncio.sleep(0.05)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
            left = int(LENGTH.search(head)[1])
            while left:
                piece = await asyncio.wait_for(reader.read(min(left, 16384)), PATIENCE_S)
                if not piece:
                    raise ConnectionError
                left -= len(piece)
                await asyncio.sleep(0.02)
            status, how = int(head[9:12]), "ok"
            writer.close()
        except (OSError, EOFError, asyncio.TimeoutError) as error:
            how = type(error).__name__
        self.note(id, "slow", status, began, port, how)

    async def websocket(self, id, user):
        """An upgrade, some messages there and back, an end."""
        began, port, status, how = time.monotonic(), self.pick_port(), 0, "broken"
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(self.head(b"GET", b"/ws/timeseries?office=SWT", id, user,
                                   b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                                   b"Sec-WebSocket-Key: MTIzNDU2Nzg5MDEyMzQ1Ng==\r\n"))
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
            status = int(head[9:12])
            if status == 101:
                for n in range(5):
                    message = b"\x81\x85\0\0\0\0five%d" % n
                    writer.write(message)
                    if await asyncio.wait_for(reader.readexactly(len(message)), PATIENCE_S) != message:
                        raise ConnectionError
                    await asyncio.sleep(0.1)
            how = "ok"
            writer.close()
        except (OSError, EOFError, asyncio.TimeoutError) as error:
            status, how = 0, type(error).__name__
        self.note(id, "websocket", status, began, port, how)

    async def watch_ready(self, port):
        """What a balancer does: asks /ready over and over."""
        ask = b"GET /ready HTTP/1.1\r\nHost: chaos\r\nConnection: close\r\n\r\n"
        while not self.stopping:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(ask)
                self.ready[port] = (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 200")
                writer.close()
            except (OSError, EOFError, asyncio.TimeoutError):
                self.ready[port] = False
            await asyncio.sleep(READY_EVERY_S)

    async def run(self):
        plan, loop = self.plan, asyncio.get_running_loop()
        watches = [asyncio.ensure_future(self.watch_ready(port)) for port in self.ports if plan.get("obeys_ready")]
        began, sent = loop.time(), 0
        kinds, weights = zip(*plan["mix"].items())
        if "users" in plan:  # each of these once, in order
            for user in range(plan["users"]):
                self.one(kinds[0], user)
                if plan.get("rate") and user % 10 == 9:
                    await asyncio.sleep(max(0, began + user / plan["rate"] - loop.time()))
        while "users" not in plan and not self.stopping and loop.time() - began < plan["seconds"]:
            due = int((loop.time() - began) * plan["rate"])
            for kind in self.chance.choices(kinds, weights, k=max(0, due - sent)) if self.able() else ():
                self.one(kind)
            sent = max(sent, due)
            await asyncio.sleep(0.01)
        took = loop.time() - began
        end = loop.time() + PATIENCE_S + 2
        while self.out and loop.time() < end:
            await asyncio.sleep(0.02)
        self.stopping = True
        for watch in watches:
            watch.cancel()
        for connection in list(self.open):
            connection.transport.close()
        self.record.close()
        print(json.dumps({"sent": self.n, "took_s": took, "unasked": self.unasked, "unended": self.out}), flush=True)


async def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        load = Load(json.load(file))

    def on_word():
        if not sys.stdin.buffer.raw.read(100):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        load.stopping = True
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), on_word)
    print("{}", flush=True)
    await load.run()


class Client:
    """The same as a child of a test: starts at once; end() gives what came of it."""
    made = 0

    def __init__(self, parts, ports, mix, rate=500, seconds=3600, users=None, crowd=5000, seed=1, **more):
        Client.made += 1
        self.name = f"c{os.getpid()}-{Client.made}"
        self.record = os.path.join(parts.folder.name, self.name)
        plan = {"ports": list(ports), "mix": mix, "rate": rate, "seconds": seconds, "seed": seed, "name": self.name,
                "record": self.record, "tokens": parts.tokens_file(crowd), **more}
        if users:
            plan["users"] = users
        with open(self.record + ".plan", "w", encoding="utf-8") as file:
            json.dump(plan, file)
        self.child = subprocess.Popen([sys.executable, os.path.abspath(__file__), self.record + ".plan"],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.child.stdout.readline()

    def tell_stop(self):
        self.child.stdin.write(b"stop\n")
        self.child.stdin.flush()

    def end(self, stop=True):
        """Lets it finish what is out; all Rows."""
        if stop and self.child.poll() is None:
            self.tell_stop()
        self.summary = json.loads(self.child.stdout.readline())
        self.child.stdin.close()
        self.child.stdout.close()
        self.child.wait(30)
        assert self.summary["unended"] == 0 and self.summary["unasked"] == 0, self.summary
        with open(self.record, encoding="ascii") as file:
            rows = [line.split() for line in file]
        return [Row(id, kind, int(status), float(ms), int(port), how, float(began))
                for id, kind, status, ms, port, how, began in rows]

    def kill(self):
        self.child.kill()
        self.child.wait()


if __name__ == "__main__":
    asyncio.run(main())
