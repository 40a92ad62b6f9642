"""The load generator says what is so: every request is made, once, and counted; times are neither too short nor rounded
away; a server that stands still is seen by all who were due meanwhile; and the generator's own faults are told apart."""

import http.server
import os
import signal
import statistics
import threading
import time

import pytest

import histogram

GET = "GET\t/things/1\tBearer a.b.c"
OPEN = ("--rate", "500", "--connections", "8", "--warmup", "0.2", "--seconds", "1")


def serve(handler):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer(self, status=200, body=b"ok", *headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_every_arrival_is_asked_once(stub, load):
    server = stub("--count", "Bearer a.b.c")
    said = load(server.port, [GET], *OPEN)
    assert (said["scheduled"], said["completed"], said["warm"]["completed"]) == (500, 500, 100)
    assert (said["errors"], said["unfinished"], said["status"]["2xx"]) == (0, 0, 500)
    assert said["latency"]["n"] == said["lateness"]["n"] == 500  # the warm-up is in neither
    assert server.counters()["requests"] == server.counters()["counted"] == 600
    assert said["connects"] == 8 and server.counters()["connections"] >= 8
    assert said["elapsed_s"] >= 0.99


def test_known_delays_are_measured_to_three_digits(stub, load):
    """Nothing is faster than the server's delay; the fastest of many is that delay and little more on any machine."""
    for delay_us in (1000, 50000):
        said = load(stub("--delay-us", str(delay_us)).port, [GET], "--rate", "100", "--connections", "16", "--seconds",
                    "1")["latency"]
        assert delay_us <= said["min_us"] < delay_us + 1000
        pairs = histogram.counts(said)
        assert sum(n for _, n in pairs) == said["n"]
        assert all(histogram.width_ns(lower) <= max(1, lower / 1000) for lower, _ in pairs)
        for name, q in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            assert histogram.quantile_us(said, q) == pytest.approx(said[f"{name}_us"], abs=0.001)
        assert histogram.counts(histogram.pack(said)) == pairs


def test_two_delays_have_two_humps(load):
    class TwoDelays(Handler):
        def do_GET(self):
            time.sleep(0.1 if self.path == "/slow" else 0.01)
            self.answer()

    said = load(serve(TwoDelays).server_port, ["GET\t/fast"] * 3 + ["GET\t/slow"], "--rate", "40", "--connections", "20",
                "--seconds", "1")["latency"]
    assert said["n"] == 40
    assert sum(n for lower, n in histogram.counts(said) if lower >= 99_000_000) >= 10
    assert said["min_us"] >= 10_000 and said["p99_us"] >= 100_000


def test_who_was_due_while_the_server_stood_still_waited(stub, load):
    """A closed loop would have had a few slow requests, one per connection: coordinated omission. Due were 300 of them,
    one after the other, and half of those waited for more than half of it."""
    server = stub()
    process = load.start(server.port, [GET], "--rate", "1000", "--connections", "4", "--seconds", "2")
    time.sleep(0.7)
    os.kill(server.process.pid, signal.SIGSTOP)
    time.sleep(0.3)
    os.kill(server.process.pid, signal.SIGCONT)
    said = load.finish(process)
    assert said["scheduled"] == said["completed"] == 2000
    waited = sum(n for lower, n in histogram.counts(said["latency"]) if lower >= 100_000_000)
    assert 150 <= waited, "the stall hit only those that were out"
    assert said["latency"]["p99_us"] > 200_000
    late = sum(n for lower, n in histogram.counts(said["lateness"]) if lower >= 100_000_000)
    assert late < waited / 2, "the server's fault is not the generator's"


def test_a_generator_that_stands_still_is_late(stub, load):
    process = load.start(stub().port, [GET], "--rate", "500", "--connections", "4", "--seconds", "1.5")
    time.sleep(0.6)
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    process.send_signal(signal.SIGCONT)
    said = load.finish(process)
    assert said["completed"] == 750
    assert said["lateness"]["max_us"] >= 250_000 and said["lateness"]["p99_us"] > 1000  # such a run is rejected
    assert said["latency"]["max_us"] >= 250_000  # and counts against the server all the same


def test_requests_are_used_in_turn_and_numbered(load):
    seen = []

    class Notes(Handler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            seen.append((self.command, self.path, self.headers.get("Authorization"), body, self.headers["Host"]))
            self.answer()
        do_GET = do_PUT = do_POST

    load(serve(Notes).server_port, ["GET\t/a/{n}/b", "PUT\t/p\tapikey x", "POST\t/q\t\thello"], "--rate", "20",
         "--connections", "1", "--seconds", "0.3", "--first", "9", "--host", "front.test")
    host = "front.test"
    expected = [("GET", "/a/9/b", None, b"", host), ("PUT", "/p", "apikey x", b"", host), ("POST", "/q", None, b"hello", host),
                ("GET", "/a/12/b", None, b"", host), ("PUT", "/p", "apikey x", b"", host),
                ("POST", "/q", None, b"hello", host)]
    assert seen == expected


def test_numbers_begin_again(load):
    seen = []

    class Notes(Handler):
        def do_GET(self):
            seen.append(self.path)
            self.answer()

    load(serve(Notes).server_port, ["GET\t/{n}"], "--stages", "1:30", "--requests-n", "7", "--first", "2", "--cycle", "3")
    assert seen == ["/2", "/0", "/1", "/2", "/0", "/1", "/2"]


def test_failures_and_odd_answers_are_counted(load):
    class Odd(Handler):
        def do_GET(self):
            kind = self.path[1:]
            if kind == "break":
                self.close_connection = True
            elif kind == "close":
                self.answer(200, b"last", ("Connection", "close"))
                self.close_connection = True
            elif kind == "chunked":
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.write(b"5\r\nhello\r\n0\r\n\r\n")
            elif kind == "until-end":
                self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\nto the end")
                self.close_connection = True
            elif kind == "garbage":
                self.wfile.write(b"nonsense\r\n\r\n")
            else:
                self.answer(int(kind), b"")

        def do_HEAD(self):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()

    kinds = ["200", "404", "503", "break", "close", "chunked", "until-end", "garbage", "204"]
    lines = [f"GET\t/{kind}" for kind in kinds] + ["HEAD\t/"]
    said = load(serve(Odd).server_port, lines, "--rate", "100", "--connections", "3", "--seconds", "1")
    assert said["scheduled"] == 100 and said["unfinished"] == 0
    assert (said["completed"], said["errors"]) == (80, 20)
    assert (said["status"]["2xx"], said["status"]["4xx"], said["status"]["5xx"]) == (60, 10, 10)


def test_what_is_never_answered_is_unfinished_and_nobody_there_is_said(load):
    class Silent(Handler):
        def do_GET(self):
            time.sleep(60)

    said = load(serve(Silent).server_port, [GET], "--rate", "10", "--connections", "2", "--seconds", "0.5")
    assert (said["scheduled"], said["completed"], said["unfinished"]) == (5, 0, 5)
    process = load.start(1, [GET], *OPEN)
    process.communicate(timeout=60)
    assert process.returncode == 1


def test_users_come_think_and_go(stub, load):
    server = stub("--delay-us", "1000")
    said = load(server.port, [GET], "--stages", "2:1,8:0.2,8:1,1:0.2", "--think-ms", "20")
    stages = said["stages"]
    assert [s["users"] for s in stages] == [2, 8, 8, 1]
    assert sum(s["completed"] for s in stages) == server.counters()["requests"] and all(s["errors"] == 0 for s in stages)
    assert 10 <= stages[0]["completed"] <= 2 * 1000 / 21 + 4  # no user is faster than answer and thought
    assert stages[0]["completed"] < stages[2]["completed"] <= 8 * 1000 / 21 + 16
    assert said["connects"] == 8 and server.counters()["connections"] >= 8
    assert all(s["latency"]["min_us"] >= 1000 for s in stages)


def test_users_make_so_many_requests_and_no_more(stub, load):
    server = stub()
    said = load(server.port, ["GET\t/{n}"], "--stages", "16:60", "--requests-n", "5000")
    assert said["stages"][0]["completed"] == server.counters()["requests"] == 5000
    assert said["elapsed_s"] < 60


def test_bodies_of_any_size_both_ways(stub, load):
    server = stub("--answer-bytes", "300000")
    said = load(server.port, ["POST\t/\t\t" + "y" * 200_000], "--stages", "4:30", "--requests-n", "40")
    assert said["stages"][0]["completed"] == 40 and said["stages"][0]["bytes"] > 40 * 300_000
    assert server.counters()["bytes_in"] == 40 * 200_000


compares = pytest.mark.skipif("BENCH_COMPARE" not in os.environ, reason="compares times: scripts/bench check runs it")


@compares
def test_as_wrk_has_it(stub, load):
    """The same closed loop: 16 connections to a server of 2 ms. Medians of three turns."""
    from compare import wrk
    server = stub("--delay-us", "2000")
    ours, theirs = [], []
    for _ in range(3):
        before = server.counters()["requests"]
        said = wrk(server.port, 16, 2)
        assert 0 <= server.counters()["requests"] - before - said["requests"] <= 16  # those that were out at its end
        theirs.append(said)
        before = server.counters()["requests"]
        stage = load(server.port, [GET], "--stages", "16:2")["stages"][0]
        assert stage["completed"] == server.counters()["requests"] - before
        ours.append({"requests": stage["completed"], "p50_us": stage["latency"]["p50_us"]})
    for key in ("requests", "p50_us"):
        assert statistics.median(o[key] for o in ours) == pytest.approx(statistics.median(t[key] for t in theirs), rel=0.15)


@compares
def test_as_vegeta_has_it(stub, load):
    """The same arrivals: 500 a second to a server of 5 ms."""
    from compare import vegeta
    server = stub("--delay-us", "5000")
    ours, theirs = [], []
    for _ in range(3):
        before = server.counters()["requests"]
        said = vegeta(server.port, 500, 2)
        assert said["requests"] == server.counters()["requests"] - before  # on a busy machine fewer than were due
        assert said["success"] == 1
        theirs.append(said["latencies"]["50th"] / 1e3)
        said = load(server.port, [GET], "--rate", "500", "--connections", "16", "--seconds", "2")
        assert said["completed"] == 1000
        ours.append(said["latency"]["p50_us"])
    assert statistics.median(ours) == pytest.approx(statistics.median(theirs), rel=0.15)
