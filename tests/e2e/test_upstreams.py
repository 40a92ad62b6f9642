"""Several addresses behind one upstream, real ones: killed, revived, slow, silent and ill under a stream of requests."""
import collections
import socket
import threading
import time

import pytest

import harness
from backend import Backend
from general import merged

QUICK = {"failures": 3, "rest_ms": 300, "max_rest_ms": 1000}


@pytest.fixture
def backends():
    made = []

    def make(*names, **more):
        made.extend(Backend(name, **more) for name in names)
        return made[-len(names):]
    yield make
    for backend in made:
        backend.process.end(9)


@pytest.fixture
def balanced(doorward, engine, issuer):
    """A daemon before those backends; what is given is of the upstream."""
    def make(backends, more=None, **upstream):
        return doorward(merged({
            "upstream": {"urls": [b.url for b in backends], "balance": "round_robin", "connect_timeout_ms": 2000,
                         **upstream},
            "tokens": {"issuers": [{"issuer": issuer.name, "jwks_url": issuer.jwks_url, "audiences": ["cwms"],
                                    "algorithms": ["RS256"]}]},
            "policy": {"url": engine.url + "/v1/data/authz/allow"},
            "breakers": QUICK,
            "serve": {"probe_interval_ms": 200},
            "routes": [{"prefix": "/", "access": "public"}]}, more or {}))
    return make


def who(daemon, path="/x"):
    answer = daemon.curl(path)
    assert answer.status == 200, answer
    return answer.body.decode()


def counted(daemon, n, path="/x"):
    return collections.Counter(who(daemon, path) for _ in range(n))


def members(daemon):
    rows = daemon.curl("/ready").json["dependencies"]
    return {row["address"]: row for row in rows if row["kind"] == "upstream"}


class Stream:
    """Requests one after the other on a few connections of their own, until it is stopped; all outcomes."""

    def __init__(self, daemon, connections=4, method="GET"):
        self.outcomes, self.stopping = collections.Counter(), threading.Event()
        self.request = f"{method} /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".encode()
        self.threads = [threading.Thread(target=self.run, args=(daemon.port,)) for _ in range(connections)]
        for thread in self.threads:
            thread.start()

    def run(self, port):
        with socket.create_connection(("127.0.0.1", port), 10) as s, s.makefile("rb") as file:
            while not self.stopping.is_set():
                s.sendall(self.request)
                status = int(file.readline().split(b" ", 2)[1])
                size = 0
                while (line := file.readline()) not in (b"\r\n", b""):
                    if line.lower().startswith(b"content-length:"):
                        size = int(line.split(b":")[1])
                body = file.read(size).decode()
                self.outcomes[body if status == 200 else f"{status} {body}"] += 1
                time.sleep(0.002)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(20)
            assert not thread.is_alive()
        return self.outcomes


def test_in_turn_and_by_load(balanced, backends):
    pair = backends("a", "b")
    daemon = balanced(pair)
    assert counted(daemon, 20) == {"a": 10, "b": 10}
    line = daemon.log(daemon.curl("/x").request_id)
    assert line["upstream"] == line["upstream_address"] and line["upstream"] in [b.authority for b in pair]
    daemon = balanced(pair, balance="least_inflight")
    assert counted(daemon, 20) == {"a": 10, "b": 10}
    pair[0].control(delay_ms=100)
    stream = Stream(daemon, 8)
    time.sleep(2)
    outcomes = stream.stop()
    assert set(outcomes) == {"a", "b"} and outcomes["a"] * 3 < outcomes["b"], outcomes


def test_the_slow_one_gets_less(balanced, backends):
    pair = backends("a", "b")
    daemon = balanced(pair, balance="fastest")
    pair[0].control(delay_ms=60)
    stream = Stream(daemon, 2)
    time.sleep(3)
    outcomes = stream.stop()
    assert set(outcomes) == {"a", "b"} and outcomes["a"] * 5 < outcomes["b"], outcomes
    pair[0].control(delay_ms=0)  # it is seen to be fast again, without a hand
    pair[1].control(delay_ms=60)
    harness.eventually(lambda: counted(daemon, 20)["a"] > 14, "a is the fast one now", 40)


@pytest.mark.parametrize("balance", ["round_robin", "least_inflight", "fastest"])
def test_one_dies_and_comes_back(balanced, backends, balance):
    """Not one error for what may be sent twice, and the one that is back is used again."""
    pair = backends("a", "b")
    daemon = balanced(pair, balance=balance)
    stream = Stream(daemon)
    for _ in range(3):
        time.sleep(0.4)
        pair[0].kill()
        time.sleep(0.8)
        served = pair[1].control()["served"]
        pair[0].start()
        harness.eventually(lambda: pair[0].control()["served"] > 5, "it is used again", 10)
        assert pair[1].control()["served"] > served
    outcomes = stream.stop()
    assert set(outcomes) == {"a", "b"}, outcomes
    assert daemon.metric("doorward_upstream_ejections_total", admin=True, upstream="default") >= 1
    assert sum(outcomes.values()) > 500


def test_posts_go_elsewhere_where_nothing_was_sent(balanced, backends):
    """One is down already: no POST is lost, and none is sent twice."""
    pair = backends("a", "b")
    daemon = balanced(pair)
    pair[0].kill()
    stream = Stream(daemon, method="POST")
    time.sleep(1.5)
    outcomes = stream.stop()
    assert set(outcomes) == {"b"}, outcomes
    assert pair[1].control()["served"] == outcomes["b"]


def test_all_die_and_come_back(balanced, backends):
    for names in (("a",), ("a", "b")):
        group = backends(*names)
        daemon = balanced(group, more={"breakers": {"rest_ms": 1000, "max_rest_ms": 30000}})
        who(daemon)
        for backend in group:
            backend.kill()
        end = time.monotonic() + 4
        details = set()
        while time.monotonic() < end:
            began = time.monotonic()
            answer = daemon.curl("/x")
            assert (answer.status, answer.json["code"]) == (502, "upstream_unreachable")
            assert time.monotonic() - began < 1
            details.add(daemon.log(answer.request_id)["detail"])
            time.sleep(0.02)
        assert details == {"connection refused", "resting after failures"}
        assert daemon.curl("/ready").status == 503
        for backend in group:
            backend.start()
        began = time.monotonic()
        harness.eventually(lambda: daemon.curl("/x").status == 200, "it is seen that it is back", 10)
        assert time.monotonic() - began < 2.5  # about one second, on a busy machine
        harness.eventually(lambda: daemon.curl("/ready").status == 200, "ready again", 10)
        harness.eventually(lambda: set(counted(daemon, 6)) == set(names), "all are used again", 10)


def test_a_silent_one_is_left_alone(balanced, backends):
    """It takes connections and says nothing: a few requests wait for it in vain, then nobody does."""
    pair = backends("a", "b")
    daemon = balanced(pair, response_timeout_ms=300)
    counted(daemon, 4)
    pair[0].pause()
    answers = [daemon.curl("/x") for _ in range(20)]
    late = [a for a in answers if a.status == 504]
    assert 1 <= len(late) <= 6 and all(a.status in (200, 504) for a in answers)
    assert daemon.metric("doorward_upstream_members", admin=True, upstream="default", state="limited") == 1
    row = members(daemon)[pair[0].authority]
    assert row["tier"] == "limited" and row["breaker"] in ("open", "half_open")
    pair[0].go_on()
    harness.eventually(lambda: set(counted(daemon, 6)) == {"a", "b"}, "it is back", 15)


def test_answers_of_a_failing_one(balanced, backends):
    pair = backends("a", "b")
    daemon = balanced(pair)
    pair[0].control(status=503)
    statuses = [daemon.curl("/x").status for _ in range(20)]
    assert 3 <= statuses.count(503) <= 6 and set(statuses) == {200, 503}
    pair[1].control(status=503)  # the last one: what it says is the answer
    assert daemon.curl("/x").status == 503
    answer = daemon.curl("/x")
    assert answer.status == 503 and answer.body == b"b"
    pair[0].control(status=200)
    pair[1].control(status=500)  # an answer like any
    harness.eventually(lambda: {daemon.curl("/x").status for _ in range(6)} == {200, 500}, "both are used", 10)


def test_health_checks(balanced, backends):
    pair = backends("a", "b")
    daemon = balanced(pair, health={"path": "/up", "interval_ms": 100, "timeout_ms": 500})
    assert set(counted(daemon, 6)) == {"a", "b"}
    pair[0].control(health=500)
    harness.eventually(lambda: not members(daemon)[pair[0].authority]["ok"], "it is seen to be ill", 10)
    harness.eventually(lambda: members(daemon)[pair[0].authority]["tier"] == "unhealthy", "it is out", 10)
    assert counted(daemon, 10) == {"b": 10}
    assert daemon.curl("/ready").status == 200  # one is enough
    assert daemon.metric("doorward_upstream_members", admin=True, upstream="default", state="unhealthy") == 1
    pair[1].control(health=404)
    harness.eventually(lambda: daemon.curl("/ready").status == 503, "none is left", 10)
    answer = daemon.curl("/x")
    assert (answer.status, answer.json["code"]) == (502, "upstream_unreachable")
    assert daemon.log(answer.request_id)["detail"] == "no address passes its health check"
    pair[0].control(health=204)
    pair[1].control(health=302)
    harness.eventually(lambda: set(counted(daemon, 6)) == {"a", "b"} if daemon.curl("/x").status == 200 else None,
                       "both are back", 10)
    pair[1].pause()  # no answer in time
    harness.eventually(lambda: members(daemon)[pair[1].authority]["tier"] == "unhealthy", "it is out", 10)
    assert counted(daemon, 6) == {"a": 6}
    pair[1].go_on()


def test_no_more_than_may_be_there(balanced, backends):
    pair = backends("a", "b")
    daemon = balanced(pair, max_inflight=4)
    for backend in pair:
        backend.control(delay_ms=1500)
    clients = [daemon.client() for _ in range(4)]
    for client in clients:
        client.send(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
    harness.eventually(lambda: daemon.metric("doorward_upstream_inflight", admin=True, upstream="default") == 4, "out")
    for _ in range(10):
        answer = daemon.curl("/x")
        assert (answer.status, answer.json["code"]) == (503, "upstream_overloaded")
        assert answer.header("Retry-After")
    harness.eventually(lambda: daemon.metric("doorward_upstream_inflight", admin=True, upstream="default") == 0, "back")
    assert daemon.metric("doorward_upstream_ejections_total", admin=True, upstream="default") == 0
    for client in clients:
        client.close()


class Moody:
    """The only address of an upstream, by path: silent, closed, garbage, an upload that is waited for, else well."""

    def __init__(self):
        self.server = harness.ScriptedUpstream(self.script)
        self.url = self.server.url

    @staticmethod
    def script(conversation):
        while request := conversation.until(b"\r\n\r\n"):
            if b"/silent" in request:
                conversation.more()
                return
            if b"/closed" in request:
                return
            if b"/garbage" in request:
                conversation.send(b"no HTTP\r\n\r\n")
                return
            if request.startswith(b"POST"):
                conversation.exactly(1000)
            conversation.send(harness.OK_ANSWER)


@pytest.fixture
def moody():
    one = Moody()
    yield one
    one.server.stop()


def test_who_asks_for_what_fails_takes_the_only_address_from_nobody(balanced, moody):
    """Whatever one client brings about: many silences that end at the same time while others are answered, and endless
    closings and garbage."""
    daemon = balanced([moody], response_timeout_ms=1500)
    silent = [daemon.client() for _ in range(8)]
    for client in silent:
        client.send(b"GET /silent HTTP/1.1\r\nHost: a\r\n\r\n")
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        assert daemon.curl("/x").status == 200
    for client in silent:
        assert client.until(b"\r\n").startswith(b"HTTP/1.1 504 ")
        client.close()
    for path in ("/closed", "/garbage"):
        for _ in range(10):
            assert daemon.curl(path, "-X", "POST").status == 502
            assert daemon.curl(path).status == 502
        assert daemon.curl("/x").status == 200
    assert daemon.metric("doorward_upstream_ejections_total", admin=True, upstream="default") == 0


def test_a_trial_that_takes_its_time_keeps_nobody_out(balanced, moody):
    """An upload that never ends, begun when the only address may be tried again."""
    daemon = balanced([moody], response_timeout_ms=300, more={"breakers": {"rest_ms": 1000}})
    for _ in range(3):
        assert daemon.curl("/silent").status == 504
    assert daemon.curl("/x").status == 502
    time.sleep(1.3)
    client = daemon.client()
    client.send(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n.")
    time.sleep(0.1)
    assert daemon.curl("/x").status == 502
    harness.eventually(lambda: daemon.curl("/x").status == 200, "another trial", 3)
    client.close()


def test_a_name(balanced, backends):
    """localhost, whatever it has of addresses here, and an API on one of them: nobody notices."""
    [only] = backends("a")
    only.url = f"http://localhost:{only.port}"
    daemon = balanced([only])
    assert counted(daemon, 5) == {"a": 5}
    line = daemon.log(daemon.curl("/x").request_id)
    assert (line["upstream"], line["upstream_address"]) == (f"localhost:{only.port}", f"127.0.0.1:{only.port}")
    daemon.wait_ready()
    told = [entry for entry in daemon.lines if entry["level"] != "info" and entry["event"] != "open_files"]
    assert not told, told
    assert list(members(daemon)) == [f"127.0.0.1:{only.port}"]


def test_no_such_name(balanced, backends):
    [other] = backends("a")
    other.url = "http://no-such-name.invalid:80"
    daemon = balanced([other])
    answer = daemon.curl("/x")
    assert (answer.status, answer.json["code"]) == (502, "upstream_unreachable")
    assert daemon.log(answer.request_id)["detail"] in ("the name cannot be resolved",
                                                       "the name was not resolved in time")
    assert daemon.curl("/ready").status == 503
    assert [row["state"] for row in members(daemon).values()] == ["the name cannot be resolved"]


def test_labels_are_bounded(balanced, backends):
    pair = backends("a", "b")
    daemon = balanced(pair)
    counted(daemon, 4)
    text = "\n".join(f"{name} {sorted(labels)}" for name, labels in daemon.metrics(admin=True))
    assert all(b.authority not in text and str(b.port) not in text for b in pair)
