"""Every input has its bound, and who goes over one, or is slow, harms nobody else."""
import select
import signal
import socket
import threading
import time

import pytest

import harness
from general import is_sanitized, settings

HEAD = b"GET /pub/x HTTP/1.1\r\nHost: a\r\n"


@pytest.fixture(scope="module")
def running(module_doorward, recorder, engine, issuer):
    return module_doorward(settings(recorder.url, engine.url, issuer, listen={
        "max_header_bytes": 4096, "max_headers": 20, "max_target_bytes": 1024, "max_body_bytes": 100000,
        "header_timeout_ms": 500, "idle_timeout_ms": 700, "body_idle_timeout_ms": 500}))


@pytest.fixture
def proxy(running, recorder):
    recorder.reset()
    return running


def test_target(proxy, recorder):
    def get(n):
        return proxy.client().send(b"GET /pub/" + b"a" * (n - 5) + b" HTTP/1.1\r\nHost: a\r\n\r\n").answer()
    assert get(1024).status == 200
    for n in (1025, 4000, 20000):
        answer = get(n)
        assert (answer.status, answer.json["code"]) == (414, "target_too_long")
        assert answer.header("connection") == "close"
    assert len(recorder.seen) == 1


def test_target_without_an_end(proxy):
    """Refused as soon as it is over the bound, not when it ends."""
    client = proxy.client().send(b"GET /pub/" + b"a" * 10000)
    assert client.answer().status == 414


def test_head(proxy, recorder):
    def get(n):
        filler = n - len(HEAD) - len(b"X-A: \r\n\r\n")
        return proxy.client().send(HEAD + b"X-A: " + b"a" * filler + b"\r\n\r\n").answer()
    assert get(4000).status == 200
    for n in (4200, 6000, 60000):
        answer = get(n)
        assert (answer.status, answer.json["code"]) == (431, "headers_too_large"), n
    assert len(recorder.seen) == 1
    assert proxy.client().send(HEAD + b"X-A: " + b"a" * 10000).answer().status == 431, "without an end"


def test_header_lines(proxy):
    def get(n):
        return proxy.client().send(HEAD + b"X: 1\r\n" * (n - 1) + b"\r\n").answer()
    assert get(20).status == 200
    for n in (21, 500):
        answer = get(n)
        assert (answer.status, answer.json["code"]) == (431, "headers_too_large"), n


@pytest.mark.parametrize("path", ["/pub/x", "/x"])
def test_body_with_a_length(proxy, recorder, path):
    """Known from the head: refused before a byte of it is read."""
    assert proxy.curl(path, data=b"x" * 100000).status == 200
    recorder.reset()
    answer = proxy.client().send(f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 100001\r\n\r\n".encode()).answer()
    assert (answer.status, answer.json["code"], answer.header("connection")) == (413, "body_too_large", "close")
    assert recorder.seen == []
    answer = proxy.client().send(





                                 b"POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 999999999\r\n\r\n").answer()
    assert answer.status == 413, "no 100 before it"


def test_chunked_body(proxy, recorder):
    chunk = b"3e8\r\n" + b"x" * 1000 + b"\r\n"
    start = b"POST /pub/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert proxy.client().send(start + chunk * 100 + b"0\r\n\r\n").answer().status == 200
    recorder.reset()
    client = proxy.client().send(start)
    try:
        for _ in range(101):
            client.send(chunk)
    except OSError:
        pass
    answer = client.answer()
    assert (answer.status, answer.json["code"]) == (413, "body_too_large")
    assert recorder.seen == [], "the API never had a whole body"


def test_own_endpoints_bodies(proxy):
    assert harness.curl(proxy.admin + "/authorize", data=b"x" * 70000).status in (400, 413)


# --- time ---------------------------------------------------------------

def closed_after(client, least_s, most_s):
    began = time.monotonic()
    got = client.all()
    took = time.monotonic() - began
    assert least_s <= took <= most_s, took
    return got


def test_head_timeout(proxy):
    """From the first byte to the end of the head, however busily bytes come."""
    for pieces in ([], [b"G"], [HEAD], [HEAD + b"X-A: 1\r\n"]):
        client = proxy.client().send(*pieces)
        got = closed_after(client, 0.3, 1.6)
        assert got == b"" or got.startswith(b"HTTP/1.1 408 "), got
        if pieces:
            assert b'"code":"header_timeout"' in got
    client = proxy.client()
    began = time.monotonic()
    with pytest.raises(OSError):
        while True:
            client.send(b"GET /pub/" if time.monotonic() - began < 0.1 else b"a")
            time.sleep(0.05)
            assert time.monotonic() - began < 3, "a byte now and then keeps it open"
            if select_readable(client):
                assert client.all().startswith(b"HTTP/1.1 408 ")
                raise OSError


def select_readable(client):
    return bool(select.select([client.socket], [], [], 0)[0])


def test_idle_timeout(proxy):
    client = proxy.client().send(HEAD + b"\r\n")
    assert client.answer().status == 200
    assert closed_after(client, 0.4, 2) == b""


def test_asked_before_the_idle_end(proxy):
    """The loop was late: the time of the idle connection is over, but the next request came before it was."""
    client = proxy.client().send(HEAD + b"\r\n")
    assert client.answer().status == 200
    proxy.process.child.send_signal(signal.SIGSTOP)
    client.send(HEAD + b"\r\n")
    time.sleep(1)
    proxy.process.child.send_signal(signal.SIGCONT)
    assert client.answer().status == 200
    assert closed_after(client, 0.3, 2) == b"", "and then its time is as before"


@pytest.mark.parametrize("path", ["/pub/x", "/x"])
def test_body_that_stops(proxy, recorder, path):
    client = proxy.client().send(f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\nhello".encode())
    got = closed_after(client, 0.3, 3.6)
    assert got.startswith(b"HTTP/1.1 408 ") and b'"code":"body_timeout"' in got
    assert recorder.seen == []


def test_slow_body_that_goes_on(proxy, recorder):
    client = proxy.client().send(b"POST /pub/x HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n")
    client.send(*[b"x"] * 8, delay_s=0.12)
    assert client.answer().status == 200 and recorder.last[1] == b"x" * 8


def test_silent_api(doorward, recorder, engine, issuer):
    recorder.answer = lambda conversation, head, body: time.sleep(3)
    daemon = doorward(settings(recorder.url, engine.url, issuer, upstream={"response_timeout_ms": 300}))
    began = time.monotonic()
    answer = daemon.curl("/pub/x")
    assert (answer.status, answer.json["code"]) == (504, "upstream_timeout") and time.monotonic() - began < 2
    assert daemon.log(answer.request_id)["reason"] == "upstream_timeout"
    recorder.reset()


def test_api_that_takes_no_connection(doorward, engine, issuer):
    """A full backlog: no refusal, no answer."""
    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    fillers = []
    for _ in range(4):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(full.getsockname())
        fillers.append(s)
    time.sleep(0.1)
    daemon = doorward(settings("http://127.0.0.1:%d" % full.getsockname()[1], engine.url, issuer,
                               upstream={"connect_timeout_ms": 300}))
    answer = daemon.curl("/pub/x")
    assert (answer.status, answer.json["code"]) == (502, "upstream_unreachable")
    for s in (*fillers, full):
        s.close()


# --- connections --------------------------------------------------------

def alone(daemon):
    """Who asked before has gone: the only connection is the one that asks."""
    harness.eventually(lambda: daemon.metric("doorward_active_connections", admin=True) == 1, "all are gone")
    time.sleep(0.1)


def test_max_connections(doorward, recorder, engine, issuer):
    daemon = doorward(settings(recorder.url, engine.url, issuer, listen={"max_connections": 20}))
    alone(daemon)
    held = [daemon.client().send(HEAD + b"\r\n") for _ in range(20)]
    assert {c.answer().status for c in held} == {200}
    over = daemon.client()
    got = over.all()
    assert got.startswith(b"HTTP/1.1 503 ") and b"Retry-After" in got and b'"code":"too_many_connections"' in got
    assert harness.curl(daemon.admin + "/metrics").status == 200, "operators still get in"
    assert held[0].send(HEAD + b"\r\n").answer().status == 200
    for c in held[:10]:
        c.close()
    harness.eventually(lambda: daemon.curl("/pub/x").status == 200, "there is room again")


def test_max_connections_of_one_address(doorward, recorder, engine, issuer):
    daemon = doorward(settings(recorder.url, engine.url, issuer, listen={"max_connections_per_address": 3}))
    alone(daemon)
    held = [daemon.client().send(HEAD + b"\r\n") for _ in range(3)]
    assert {c.answer().status for c in held} == {200}
    got = daemon.client().all()
    assert got.startswith(b"HTTP/1.1 429 ") and b'"code":"overloaded"' in got
    other = socket.create_connection(("127.0.0.1", daemon.port), 5, source_address=("127.0.0.9", 0))
    other.sendall(HEAD + b"Connection: close\r\n\r\n")
    assert other.recv(100).startswith(b"HTTP/1.1 200 ")
    other.close()
    held[0].close()
    harness.eventually(lambda: daemon.curl("/pub/x").status == 200, "there is room again")


def test_max_requests_of_one_connection(doorward, recorder, engine, issuer):
    daemon = doorward(settings(recorder.url, engine.url, issuer, listen={"max_requests_per_connection": 3}))
    client = daemon.client()
    answers = [client.send(HEAD + b"\r\n").answer() for _ in range(3)]
    assert [a.header("connection") for a in answers] == [None, None, "close"]
    assert client.all() == b""


def test_a_thousand_slow_senders(doorward, recorder, engine, issuer):
    """Heads byte by byte, bodies byte by byte: their memory is what they sent, and others are served as if alone."""
    daemon = doorward(settings(recorder.url, engine.url, issuer, listen={
        "header_timeout_ms": 60000, "body_idle_timeout_ms": 60000, "max_connections": 2000}))
    assert daemon.curl("/pub/x").status == 200
    start = b"POST /slow/x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\nX-A: "
    clients = [daemon.client() for _ in range(1000)]
    before = daemon.rss_kib()
    stop, statuses = threading.Event(), []

    def others():
        client = daemon.client()
        while not stop.is_set():
            began = time.monotonic()
            status = client.send(HEAD + b"\r\n").answer().status
            statuses.append((status, time.monotonic() - began))
            time.sleep(0.005)
        client.close()
    thread = threading.Thread(target=others)
    thread.start()
    for i in range(len(start) - 1):
        for client in clients if i % 10 == 0 else clients[i % 10::10]:
            client.send(start[i:i + 1])
    for client in clients[:300]:
        client.send(b"x" * 500)
    harness.eventually(lambda: len(statuses) > 20, "others are served meanwhile")
    stop.set()
    thread.join()
    grown = daemon.rss_kib() - before
    assert {s for s, _ in statuses} == {200}
    assert sorted(t for _, t in statuses)[len(statuses) // 2] < 0.1
    if not is_sanitized(harness.BIN):
        assert grown < 6 * 1024, f"{grown} KiB for 1000 connections"
    for client in clients:
        client.close()
    harness.eventually(lambda: daemon.metric("doorward_active_connections", admin=True) <= 2, "they are gone")
