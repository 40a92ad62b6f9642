"""How much: memory at rest and under way, and whether a request costs more when there is more of something."""
import contextlib
import http.server
import socket
import threading
import time

import arms
from lab import GRANT, SECRET, hmac_token, memory_kib
from measure import CONNECTIONS, PATH, closed, run_open

BIG = 2_000_000


def anonymous_bytes(proxy):
    return memory_kib(proxy.pids)[1] * 1024


def fill(bench, proxy, api, first, n):
    """So many URLs that were not asked for before; what went wrong, or None."""
    requests = bench.lab.requests([("GET", "/api/things/{n}", "Bearer " + bench.lab.token)], "fill")
    return closed(bench, proxy, api, requests, CONNECTIONS, n, first=first)["rejected"]


# --- memory ------------------------------------------------------------------------------------------------------------

def at_start(bench, api):
    with bench.lab.running(arms.doorward(bench.lab, api.port), path="/health", token=False) as proxy:
        rss, anonymous = memory_kib(proxy.pids)
        return {"rejected": None, "rss_kib": rss, "anonymous_kib": anonymous, "config": proxy.config}


@contextlib.contextmanager
def idle_connections(port, n, head):
    """So many that have asked once, were answered, and wait."""
    opened = []
    try:
        for _ in range(n):
            s = socket.create_connection(("127.0.0.1", port), timeout=10)
            s.sendall(head)
            got = b""
            while b"\r\n\r\n" not in got:
                got += s.recv(4096)
            length = int(got.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            left = length - len(got.split(b"\r\n\r\n", 1)[1])
            while left:
                left -= len(s.recv(65536))
            opened.append(s)
        yield
    finally:
        for s in opened:
            s.close()


def per_connection(bench, api):
    n = bench.pick(10000, 1000)
    head = f"GET {PATH} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {bench.lab.token}\r\n\r\n".encode()
    with bench.lab.running(arms.doorward(bench.lab, api.port)) as proxy:
        with idle_connections(proxy.port, 100, head):
            time.sleep(0.3)
        before = anonymous_bytes(proxy)
        with idle_connections(proxy.port, n, head):
            time.sleep(0.5)
            more = anonymous_bytes(proxy) - before
    return {"rejected": None, "connections": n, "bytes_each": round(more / n, 1)}


def per_decision(bench, api):
    n = bench.pick(100000, 20000)
    decisions = {"ttl_s": 3600, "max_entries": BIG, "max_bytes": 1 << 32}
    with bench.lab.running(arms.doorward(bench.lab, api.port, decisions=decisions)) as proxy:
        rejected = fill(bench, proxy, api, 0, 2000)
        before = anonymous_bytes(proxy)
        rejected = rejected or fill(bench, proxy, api, 2000, n)
        more = anonymous_bytes(proxy) - before
        grant = grant_bytes(bench)
    return {"rejected": rejected, "decisions": n, "grant_bytes": grant, "key_bytes": 32,
            "bytes_each": round(more / n - 32 - grant, 1)}


def grant_bytes(bench):
    """How long the grant of such a request is, as an API that looks at it has it."""
    seen = []

    class Looks(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            seen.append(len(self.headers.get(GRANT, "")))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Looks) as api:
        threading.Thread(target=api.serve_forever, daemon=True).start()
        with bench.lab.running(arms.doorward(bench.lab, api.server_port), path="/api/things/123456"):
            api.shutdown()
    return max(seen)


def a_million_urls(bench, api):
    entries, half, whole = bench.pick((100000, 300000, 1000000), (5000, 15000, 50000))
    with bench.lab.running(arms.doorward(bench.lab, api.port, decisions={"ttl_s": 3600, "max_entries": entries})) as proxy:
        rejected = fill(bench, proxy, api, 0, half)
        before = anonymous_bytes(proxy)
        rejected = rejected or fill(bench, proxy, api, half, whole - half)
        after = anonymous_bytes(proxy)
    return {"rejected": rejected, "urls": whole, "max_entries": entries, "anonymous_before_bytes": before,
            "anonymous_kib": after // 1024, "grown_bytes": after - before}


class Peak:
    """The most anonymous memory inside the block, above what it was at its beginning."""

    def __init__(self, proxy):
        self.proxy = proxy

    def __enter__(self):
        self.before = self.most = anonymous_bytes(self.proxy)
        self.over = threading.Event()
        self.watcher = threading.Thread(target=self.watch)
        self.watcher.start()
        return self

    def watch(self):
        while not self.over.wait(0.02):
            self.most = max(self.most, anonymous_bytes(self.proxy))

    def __exit__(self, *_):
        self.over.set()
        self.watcher.join()


def big_bodies(bench, _api):
    """As much up and down as is asked for, between ends that take what comes."""
    size = bench.pick(1 << 30, 1 << 28)
    api = bench.lab.api(answer_bytes=size)
    bearer = f"Host: a\r\nAuthorization: Bearer {bench.lab.token}\r\n"
    with bench.lab.running(arms.doorward(bench.lab, api.port), path="/health", token=False) as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as s:
            seen = api.counters()["bytes_in"]
            with Peak(proxy) as peak:
                s.sendall(f"POST /api/up HTTP/1.1\r\n{bearer}Content-Length: {size}\r\n\r\n".encode())
                piece = bytes(1 << 20)
                for _ in range(size >> 20):
                    s.sendall(piece)
                got, head = 0, b""
                while b"\r\n\r\n" not in head:
                    head += s.recv(65536)
                got = len(head.split(b"\r\n\r\n", 1)[1])
                while got < size:
                    n = len(s.recv(1 << 20))
                    if n == 0:
                        break
                    got += n
            up = api.counters()["bytes_in"] - seen
    rejected = None if (up, got) == (size, size) else f"{up} bytes went up and {got} down of {size}"
    return {"rejected": rejected, "body_bytes": size, "grown_bytes": peak.most - peak.before}


MEMORY = {"at start": at_start, "idle connection": per_connection, "cached decision": per_decision,
          "distinct URLs": a_million_urls, "big bodies": big_bodies}


def memory(bench):
    api = bench.lab.api()

    def run(name):
        return MEMORY[name.split(": ")[1]](bench, api)

    long = "doorward: distinct URLs"  # minutes: once
    bench.each("memory", [n for n in map("doorward: {}".format, MEMORY) if n != long], bench.pick(3, 1), run)
    bench.each("memory", [long], 1, run)


# --- growth: the same request where there is little and where there is much ---------------------------------------------

def routes(bench, n, api):
    """The same ten requests, spread over all routes."""
    lab = bench.lab
    table = [{"prefix": f"/api/r{i}"} for i in range(n)] + [{"path": "/api/ready", "access": "public"}]
    lines = [("GET", f"/api/r{i * n // 10}/x", "Bearer " + lab.token) for i in range(10)]
    requests = lab.requests(lines, "routes")
    with lab.running(arms.doorward(lab, api.port, routes=table)) as proxy:
        return twice(bench, proxy, api, requests)


def twice(bench, proxy, api, requests, **options):
    closed(bench, proxy, api, requests, CONNECTIONS, bench.pick(20000, 5000), **options)
    return closed(bench, proxy, api, requests, CONNECTIONS, bench.pick(100000, 20000), **options)


def connections(bench, n, api):
    """5000 arrivals a second, each on the connection that has rested longest."""
    with bench.lab.running(arms.doorward(bench.lab, api.port)) as proxy:
        return run_open(bench, proxy, api, bench.one_request(), 5000, bench.pick(6, 3), 2, n)


class Filled:
    """A process for each size, filled once, which takes minutes, and then measured in every repetition. Requests go over all
    that it knows, in turn, each time from where the last one ended."""

    def __init__(self, bench, api, stack):
        self.bench, self.api, self.stack, self.kept = bench, api, stack, {}

    def start(self, n):
        config = {"decisions": {"ttl_s": 7200, "jitter": 0, "max_entries": BIG, "max_bytes": 1 << 33}}
        proxy = arms.doorward(self.bench.lab, self.api.port, name=f"filled-{n}", **config)
        self.stack.enter_context(self.bench.lab.running(proxy))
        return [proxy, fill(self.bench, proxy, self.api, 0, n), 0]

    def run(self, n):
        bench, lab = self.bench, self.bench.lab
        if n not in self.kept:
            self.kept[n] = self.start(n)
        proxy, rejected, first = self.kept[n]
        requests = lab.requests([("GET", "/api/things/{n}", "Bearer " + lab.token)], "decisions")
        asked = lab.engine().counters()["requests"]
        values = twice(bench, proxy, self.api, requests, cycle=n, first=first)
        self.kept[n][2] = (first + bench.pick(100000, 20000)) % n
        if lab.engine().counters()["requests"] != asked:
            rejected = rejected or "not all of them were in memory"
        return dict(values, rejected=rejected or values["rejected"])


def issuers(bench, n, api):
    """Tokens of ten issuers, spread over all that are trusted."""
    lab = bench.lab
    lines = [("GET", PATH, "Bearer " + hmac_token(iss=f"i{i * n // 10}")) for i in range(10)]
    config = {"tokens": {"issuers": [arms.issuer(lab)] + [arms.issuer(lab, f"i{i}", SECRET) for i in range(n)]}}
    with lab.running(arms.doorward(lab, api.port, **config)) as proxy:
        return twice(bench, proxy, api, lab.requests(lines, "issuers"))


GROWTH = {"routes": (routes, 10, 10000, 10000), "connections": (connections, 10, 10000, 2000),
          "decisions": (None, 1000, 1000000, 50000), "issuers": (issuers, 1, 100, 100)}


def growth(bench):
    """Each thing once with little and once with much of it, side by side; the middle shows the way between."""
    api = bench.lab.api()
    for what, (run, least, most, most_quick) in GROWTH.items():
        most = bench.pick(most, most_quick)
        sizes = [least, most] if not bench.full else [least, round((least * most) ** 0.5), most]
        names = [f"doorward: {what}: {n}" for n in sizes]
        with contextlib.ExitStack() as stack:
            one = Filled(bench, api, stack).run if run is None else lambda n, r=run: r(bench, n, api)
            bench.each("growth", names, bench.pick(5, 2), lambda name, o=one: o(int(name.split(": ")[2])))
