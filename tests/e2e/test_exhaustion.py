"""Crowds and misers: thousands who send or read slowly or not at all, floods over every cap, no descriptors left,
bodies of a gibibyte. What is held of each is bounded, others are served meanwhile, and after it all is as before."""
import resource
import socket
import time

import pytest

import flood
import harness
from general import settings
from flood import MIB, Crowd, Others, Plain

pytestmark = pytest.mark.skipif(flood.plain_binary() is None, reason="a build without sanitizers is not there")

HEAD = b"GET /pub/x HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture(scope="module")
def upstream_of_many():
    peer = flood.Upstream()
    yield peer
    peer.stop()


@pytest.fixture
def start(upstream_of_many, engine, issuer):
    """start(listen options): a daemon of the plain build before the upstream of many."""
    started = []

    def make(**listen):
        started.append(Plain(settings(upstream_of_many.url, engine.url, issuer, listen=listen)))
        started[-1].wait_ready()
        return started[-1]
    yield make
    for daemon in started:
        daemon.stop()


def gone(daemon, but=0):
    """Nobody is connected but who asks, and `but` others."""
    harness.eventually(lambda: daemon.metric("doorward_active_connections", admin=True) <= 1 + but, "they are gone", 30)


def test_2000_slow_heads(start):
    """A byte now and then: each is told its time is over, counted from its first byte, not from its last."""
    daemon = start(header_timeout_ms=4000)
    with daemon.grows_at_most(2000 * 8), Others(daemon), Crowd(daemon.port, 2000) as crowd:
        took = 0
        for i in range(0, 14):
            took = crowd.send(HEAD[i:i + 1])
            time.sleep(0.5)
        harness.eventually(lambda: crowd.closed() == 2000, "all of them are told", 30)
        assert took < 2000, "sending on keeps nobody"
    gone(daemon)


def test_1000_slow_readers(start, upstream_of_many):
    """Of 8 MiB each; what waits for them stays with the API, not in memory here."""
    daemon = start(body_idle_timeout_ms=60000)
    ask = b"GET /pub/%d HTTP/1.1\r\nHost: a\r\n\r\n" % (8 * MIB)
    with daemon.grows_at_most(1000 * 256), Others(daemon), Crowd(daemon.port, 1000, buffer_bytes=4096) as crowd:
        assert crowd.send(ask) == 1000
        got = 0
        for _ in range(6):
            time.sleep(0.5)
            got += crowd.read_some(4096)
        harness.eventually(lambda: got or crowd.read_some(4096), "what they read comes")
        assert crowd.closed_now() == 0
    gone(daemon)
    harness.eventually(lambda: len(upstream_of_many.open) < 300, "the API is left in peace", 30)


def test_100_who_stop_reading(start, upstream_of_many):
    daemon = start(body_idle_timeout_ms=1500)
    ask = b"GET /pub/%d HTTP/1.1\r\nHost: a\r\n\r\n" % (64 * MIB)
    with Others(daemon), Crowd(daemon.port, 100, buffer_bytes=4096) as crowd:
        assert crowd.send(ask) == 100
        harness.eventually(lambda: daemon.metric("doorward_active_connections", admin=True) <= 3, "they are let go", 30)
        harness.eventually(lambda: len(upstream_of_many.open) < 60, "and so is the API", 30)


def test_flood_over_all_connections(start):
    daemon = start(max_connections=300, idle_timeout_ms=60000)
    with Crowd(daemon.port, 300) as held:
        assert held.send(HEAD) == 300
        harness.eventually(lambda: held.read_some(4096) == 0, "they have their answers")
        with Crowd(daemon.port, 1000) as crowd:
            crowd.send(HEAD)
            harness.eventually(lambda: crowd.closed() == 1000, "all over the cap are turned away", 30)
            assert held.send(HEAD) == 300
            assert harness.curl(daemon.admin + "/health").status == 200
    gone(daemon)
    assert daemon.curl("/pub/x").status == 200


def test_flood_from_one_address(start):
    daemon = start(max_connections_per_address=100, max_connections=2000)
    with Others(daemon, source="127.0.0.9"), Crowd(daemon.port, 1500, source="127.0.0.2") as crowd:
        crowd.send(HEAD)
        harness.eventually(lambda: crowd.closed() >= 1400, "all but the first 100 are turned away", 30)
        assert crowd.closed() == 1400
    gone(daemon)


def ask_health(sock):
    sock.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
    return sock.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_no_descriptors_left(start):
    """Who is connected is served, the loop does not spin, and with descriptors back all is as before."""
    daemon = start(idle_timeout_ms=60000)
    with socket.create_connection(("127.0.0.1", daemon.port), harness.PATIENCE_S) as kept:
        assert ask_health(kept)
        limit = daemon.open_fds() + 40
        daemon.limit_descriptors(limit)
        with Crowd(daemon.port, 400) as crowd:
            crowd.send(HEAD[:10])
            harness.eventually(lambda: daemon.open_fds() >= limit - 1, "they are all taken")
            before = daemon.cpu_s()
            for _ in range(10):
                time.sleep(0.2)
                assert ask_health(kept)
            assert daemon.cpu_s() - before < 1, "it spins"
            assert daemon.open_fds() >= limit - 1
            kept.sendall(HEAD)
            assert kept.recv(4096)[:9] == b"HTTP/1.1 ", "some answer, whether or not the API could be reached"
        harness.eventually(lambda: daemon.curl("/pub/x").status == 200, "served again")
        gone(daemon, but=1)
        assert ask_health(kept)


@pytest.mark.parametrize("hard,now,warns", [(16000, 8512, False), (1024, 1024, True)], ids=["enough", "too few"])
def test_descriptors_at_start(upstream_of_many, engine, issuer, hard, now, warns):
    """It takes what it may have, and says when that is less than its connections can need."""
    config = settings(upstream_of_many.url, engine.url, issuer, listen={"max_connections": 4000})
    daemon = Plain(config, descriptors=(512, hard))
    soft, _ = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
    said = [line for line in daemon.lines if line.get("event") == "open_files"]
    daemon.stop()
    assert soft == now and len(said) == warns
    assert not said or (said[0]["may"], said[0]["need"]) == (hard, 8512)


def test_gibibyte_each_way(start, upstream_of_many):
    daemon = start()
    size = 1 << 30
    zeros = flood.Sparse(size)
    scratch = bytearray(MIB)

    def download(n):
        with socket.create_connection(("127.0.0.1", daemon.port), 60) as sock:
            sock.sendall(b"GET /pub/%d HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % n)
            got = 0
            while more := sock.recv_into(scratch):
                got += more
        assert n < got < n + 1024

    def upload(n):
        before = upstream_of_many.taken
        with socket.create_connection(("127.0.0.1", daemon.port), 60) as sock:
            sock.sendall(b"POST /pub/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % n)
            assert sock.sendfile(zeros.file, 0, n) == n
            assert sock.recv(4096).startswith(b"HTTP/1.1 200 ")
        assert upstream_of_many.taken - before == n

    for way in (download, upload):
        way(64 * MIB)
        with daemon.grows_at_most(1024):
            way(size)


def test_memory_is_flat_over_connections(start):
    """Opened, used and closed, by turns in order and by reset."""
    daemon = start()

    def turn(n):
        for i in range(n):
            with socket.create_connection(("127.0.0.1", daemon.port), harness.PATIENCE_S) as sock:
                sock.sendall(HEAD if i % 4 else HEAD[:20])
                if i % 4:
                    assert sock.recv(4096).startswith(b"HTTP/1.1 200 ")
                if i % 3 == 0:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    turn(1500)
    gone(daemon)
    with daemon.grows_at_most(512):
        turn(6000)
        gone(daemon)
    assert daemon.open_fds() < 60
