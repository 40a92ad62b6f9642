"""Where the caller's context comes from: memory, the real Redis, the API's profile; and that none of the three being
away, slow or wrong is worse than it must be."""
import json
import os
import re
import shutil
import socket
import tempfile
import threading
import time

import pytest

import harness
from general import settings

PROFILE = "/cwms-data/user/profile"
ROUTES = [{"prefix": "/me", "access": "authenticated"}, {"prefix": "/cwms-data"}]


def config_of(api, policy_url, issuer, redis_url=None, **more):
    config = settings("http://127.0.0.1:%d" % api.port, policy_url, issuer, routes=ROUTES,
                      context={"url": f"http://127.0.0.1:{api.port}{PROFILE}", "shape": "builtin:cwms/context.jq",
                               "memory_ttl_s": 0, "timeout_ms": 1000},
                      tokens={"anonymous": "refuse"}, decisions={"ttl_s": 0, "deny_ttl_s": 0})
    if redis_url:
        config["redis"] = {"url": redis_url, "timeout_ms": 200}
    for section, values in more.items():
        config.setdefault(section, {}).update(values)
    return config


@pytest.fixture(scope="module")
def running(module_doorward, session_api, engine, issuer, redis):
    """Nothing in memory: each request asks Redis."""
    daemon = module_doorward(config_of(session_api, engine.url, issuer, redis.url))
    wait_for_redis(daemon)
    return daemon


@pytest.fixture
def proxy(running, api, engine, redis):
    redis.command("FLUSHALL")
    engine.reset()
    return running


def wait_for_redis(daemon, there=True):
    def state():
        rows = daemon.curl("/ready").json["dependencies"]
        return [r["ok"] for r in rows if r["kind"] == "redis"] == [there]
    harness.eventually(state, f"Redis connected: {there}")


def ask(daemon, issuer, user="damop", status=200, path="/cwms-data/x"):
    answer = daemon.curl(path, authorization=issuer.bearer(user))
    assert answer.status == status, answer
    return answer, daemon.log(answer.request_id)



def test_miss_then_redis(proxy, api, engine, issuer, redis):
    _, line = ask(proxy, issuer)
    assert line["context_from"] == "api" and api.profiles_asked() == 1
    (key,) = harness.eventually(lambda: [k for k in redis.keys() if redis.command("TYPE", k) == b"string"
                                         and redis.command("GET", k).startswith(b"{")], "stored")
    assert key.startswith("doorward:") and "damop" not in key.lower()
    assert 0 < redis.command("TTL", key) <= 1800
    value = json.loads(redis.command("GET", key))
    assert value["context"]["id"] == "DAMOP"
    for _ in range(2):
        _, line = ask(proxy, issuer)
        assert line["context_from"] == "redis"
    assert api.profiles_asked() == 1
    users = [q["user"] for q in engine.questions()]
    assert users[0] == users[1] == users[2], "from the API or from Redis, the same context"
    ask(proxy, issuer, "water")
    assert api.profiles_asked() == 2


@pytest.mark.parametrize("spoil", [
    lambda v: b"", lambda v: b"garbage", lambda v: b"{", lambda v: b"null", lambda v: b"[]", lambda v: v[:- \
        1], lambda v: b"\xff" * 50,
    lambda v: json.dumps({**json.loads(v), "sub": "somebody"}).encode(),
    lambda v: json.dumps({**json.loads(v), "iss": "https://other.test"}).encode(),
    lambda v: json.dumps({**json.loads(v), "v": 2}).encode(),
    lambda v: json.dumps({**json.loads(v), "context": {}}).encode(),
    lambda v: json.dumps({**json.loads(v), "context": {"id": ""}}).encode(),
    lambda v: json.dumps({**json.loads(v), "context": "root"}).encode(),
    lambda v: json.dumps({**json.loads(v), "stored": "now"}).encode(),
    lambda v: json.dumps({**json.loads(v), "stored": 0}).encode(),
    lambda v: json.dumps(json.loads(v)["context"]).encode(),
    lambda v: b'{"context":{"id":"root"},' + v[1:],
    lambda v: b"[" * 100000,
], ids=["empty", "text", "half", "null", "list", "cut", "binary", "another subject", "another issuer",
        "another version",
        "empty context", "no id", "context is a text", "time is a text", "too old", "no envelope", "a name twice",
        "deep"])
def test_values_that_are_no_context_of_this_subject(proxy, api, issuer, redis, spoil):
    """Ignored and replaced: who can write to Redis says nothing about others."""
    ask(proxy, issuer)
    (key,) = harness.eventually(lambda: [k for k in redis.keys() if redis.command("GET", k).startswith(b"{")], "stored")
    good = redis.command("GET", key)
    redis.command("SET", key, spoil(good))
    _, line = ask(proxy, issuer)
    assert (line["context_from"], line["status"]) == ("api", 200) and api.profiles_asked() == 2
    harness.eventually(lambda: json.loads(redis.command("GET", key) or b"0").get("context", {}).get("id") == "DAMOP"
                       if redis.command("GET", key).startswith(b"{") else False, "replaced")


def test_values_of_another_type(proxy, api, issuer, redis):
    ask(proxy, issuer)
    (key,) = harness.eventually(lambda: [k for k in redis.keys() if redis.command("GET", k).startswith(b"{")], "stored")
    redis.command("DEL", key)
    redis.command("LPUSH", key, "x")
    _, line = ask(proxy, issuer)
    assert line["context_from"] == "api", "an error reply is a miss"
    redis.command("DEL", key)


PROFILES = [
    ({"profile_status": 401}, 401, "credential_rejected"), ({"profile_status": 403}, 503, "context_unavailable"),
    ({"profile_status": 404}, 403, "context_unknown"), ({"profile_status": 500}, 503, "context_unavailable"),
    ({"profile_status": 503}, 503, "context_unavailable"), ({"profile_status": 302}, 503, "context_unavailable"),
    ({"profile_raw": "garbage"}, 503, "context_malformed"), ({"profile_raw": ""}, 503, "context_malformed"),
    ({"profile_raw": "[]"}, 503, "context_malformed"), ({"profile_raw": "null"}, 503, "context_malformed"),
    ({"profile_raw": '{"user-name":"a","user-name":"root"}'}, 503, "context_malformed"),
    ({"profile_raw": '{"user-name":"' + "a" * 1100000 + '"}'}, 503, "context_unavailable"),
    ({"profile_delay_ms": 1500}, 503, "context_unavailable"),
]


@pytest.mark.parametrize("trouble,status,reason", PROFILES, ids=[str(p[0])[:40] for p in PROFILES])
def test_profile_trouble(proxy, api, issuer, redis, trouble, status, reason):
    """Told as what it is, kept nowhere, and over at once when it is over."""
    api.set(**trouble)
    answer, line = ask(proxy, issuer, status=status)
    assert answer.json["code"] == line["reason"] == reason
    assert (answer.header("retry-after") is not None) == (status == 503)
    if status == 401:
        assert 'error="invalid_token"' in answer.header("www-authenticate")
    assert [s for s in api.seen() if s["path"] == "/cwms-data/x"] == []
    api.server.settings = {}
    _, line = ask(proxy, issuer)
    assert line["context_from"] == "api"


def test_unknown_caller_is_anonymous_where_those_are_judged(doorward, api, engine, issuer):
    engine.reset()
    daemon = doorward(config_of(api, engine.url, issuer, tokens={"anonymous": "judge"}))
    api.set(profile_status=404)
    ask(daemon, issuer)
    assert engine.questions()[0]["user"]["id"] == "anonymous"
    ask(daemon, issuer, status=403, path="/me")


def test_no_redis_configured(doorward, api, engine, issuer):
    daemon = doorward(config_of(api, engine.url, issuer, context={"memory_ttl_s": 1}))
    assert ask(daemon, issuer)[1]["context_from"] == "api"
    assert ask(daemon, issuer)[1]["context_from"] == "memory"
    assert harness.eventually(lambda: ask(daemon, issuer)[1]["context_from"] == "api", "the context's time is over", 4)


def test_redis_not_there_at_start(doorward, api, engine, issuer):
    port = harness.free_port()
    daemon = doorward(config_of(api, engine.url, issuer, f"redis://127.0.0.1:{port}"))
    ready = daemon.curl("/ready")
    harness.eventually(lambda: daemon.curl("/ready").status == 200, "ready without Redis")
    ready = daemon.curl("/ready").json
    assert ready["degraded"] is True and ready["status"] == "ready"
    began = time.monotonic()
    for _ in range(5):
        assert ask(daemon, issuer)[1]["context_from"] == "api"
    assert time.monotonic() - began < 5
    late = harness.Redis(port)
    try:
        wait_for_redis(daemon)
        ask(daemon, issuer)
        harness.eventually(lambda: ask(daemon, issuer)[1]["context_from"] == "redis", "Redis is used")
        assert daemon.curl("/ready").json["degraded"] is False
    finally:
        late.stop()


class Guarded:
    """A Redis that asks for a password."""

    def __init__(self, password):
        self.port = harness.free_port()
        self.process = harness.Process([shutil.which("redis-server"), "--port", str(self.port), "--bind", "127.0.0.1",
                                        "--save", "", "--requirepass", password, "--dir", tempfile.gettempdir(),
                                        "--logfile", os.devnull])
        harness.eventually(lambda: harness.opened(self.port), "redis listens")

    def stop(self):
        self.process.end()


def test_redis_with_a_password(doorward, api, engine, issuer):
    """The right one works; with a wrong one or none Redis is done without, and no log has any of them."""
    server = Guarded("geheim-canary")
    try:
        right = doorward(config_of(api, engine.url, issuer, f"redis://:geheim-canary@127.0.0.1:{server.port}/3"))
        wait_for_redis(right)
        ask(right, issuer)
        harness.eventually(lambda: ask(right, issuer)[1]["context_from"] == "redis", "Redis is used")
        for url in (f"redis://:wrong-canary@127.0.0.1:{server.port}", f"redis://127.0.0.1:{server.port}"):
            daemon = doorward(config_of(api, engine.url, issuer, url, log={"level": "debug"}))
            for _ in range(3):
                assert ask(daemon, issuer)[1]["context_from"] == "api"
            assert "canary" not in daemon.log_text() + daemon.curl("/ready").body.decode()
        assert "canary" not in right.log_text()
    finally:
        server.stop()


def test_redis_that_hangs(doorward, api, engine, issuer):
    """It accepts and says nothing: the deadline passes, then the breaker rests it; requests go on."""
    silent = socket.create_server(("127.0.0.1", 0), backlog=64)
    daemon = doorward(config_of(api, engine.url, issuer, "redis://127.0.0.1:%d" % silent.getsockname()[1]))
    for _ in range(6):
        assert ask(daemon, issuer)[1]["context_from"] == "api"
    began = time.monotonic()
    for _ in range(5):
        ask(daemon, issuer)
    assert time.monotonic() - began < 5 * 0.2 + 3
    silent.close()


def test_redis_killed_and_restarted_under_load(doorward, api, engine, issuer):
    server = harness.Redis()
    daemon = doorward(config_of(api, engine.url, issuer, server.url))
    wait_for_redis(daemon)
    bearer, statuses, done = issuer.bearer("damop"), [], threading.Event()

    def load():
        client = daemon.client()
        while not done.is_set():
            client.send(f"GET /cwms-data/x HTTP/1.1\r\nHost: a\r\nAuthorization: {bearer}\r\n\r\n".encode())
            statuses.append(client.answer().status)
        client.close()
    threads = [threading.Thread(target=load) for _ in range(8)]
    for t in threads:
        t.start()
    try:
        for _ in range(2):
            time.sleep(0.3)
            server.stop()
            time.sleep(0.4)
            server.start()
            wait_for_redis(daemon)
        harness.eventually(lambda: daemon.log(daemon.curl("/cwms-data/x", authorization=bearer).request_id)
                           ["context_from"] == "redis", "Redis is used again")
    finally:
        done.set()
        for t in threads:
            t.join(10)
        server.stop()
    assert set(statuses) == {200} and len(statuses) > 50


def opa_count(opa):
    text = harness.http("GET", opa.url + "/metrics").decode()
    return sum(int(float(v)) for v in re.findall(
        r'http_request_duration_seconds_count\{[^}]*handler="v1/data"[^}]*\} (\S+)', text))


def test_single_flight(doorward, api, issuer, opa):
    """512 requests at once of one caller for one thing: one profile call, one question to the real OPA."""
    opa.put("flight", 'package flight\ndefault allow := false\nallow if input.user.id == "DAMOP"\n')
    config = config_of(api, opa.url, issuer, context={"memory_ttl_s": 60}, decisions={"ttl_s": 60})
    config["policy"]["url"] = opa.url + "/v1/data/flight/allow"
    daemon = doorward(config)
    daemon.wait_ready()
    api.set(profile_delay_ms=300)
    before = opa_count(opa)
    request = f"GET /cwms-data/x HTTP/1.1\r\nHost: a\r\nAuthorization: {issuer.bearer('damop')}\r\n\r\n".encode()
    clients = [daemon.client() for _ in range(512)]
    for client in clients:
        client.send(request)
    assert [client.answer().status for client in clients] == [200] * 512
    assert api.profiles_asked() == 1
    assert opa_count(opa) - before == 1
    for client in clients[:256]:  # and one who leaves cancels nobody
        client.close()
    assert len([s for s in api.seen() if s["path"] == "/cwms-data/x"]) == 512


def test_a_waiter_that_leaves_cancels_nobody(doorward, api, engine, issuer):
    daemon = doorward(config_of(api, engine.url, issuer))
    api.set(profile_delay_ms=400)
    request = f"GET /cwms-data/x HTTP/1.1\r\nHost: a\r\nAuthorization: {issuer.bearer('damop')}\r\n\r\n".encode()
    clients = [daemon.client().send(request) for _ in range(10)]
    time.sleep(0.1)
    for client in clients[:5]:
        client.reset()
    assert [client.answer().status for client in clients[5:]] == [200] * 5
    assert api.profiles_asked() == 1


def test_too_many_profile_calls(doorward, api, engine, issuer):
    daemon = doorward(config_of(api, engine.url, issuer, context={"max_inflight": 2, "max_waiting": 0}))
    api.set(profile_delay_ms=500)
    clients = [daemon.client().send(





                                    f"GET /cwms-data/x HTTP/1.1\r\nHost: a\r\nAuthorization: {issuer.bearer(u)}\r\n\r\n".encode())
               for u in ("damop", "water", "manager", "viewer")]
    answers = [client.answer() for client in clients]
    assert sorted(a.status for a in answers) == [200, 200, 503, 503]
    assert {a.json["code"] for a in answers if a.status == 503} == {"context_overloaded"}


def test_claims_are_the_context_without_a_profile(doorward, api, engine, issuer):
    engine.reset()
    config = config_of(api, engine.url, issuer)
    del config["context"]
    config["tokens"]["claims"] = ["scope", "groups"]
    daemon = doorward(config)
    token = "Bearer " + issuer.token("ann", claims={"groups": ["a", "b"], "email": "ann@example.org", "sub": "s-1"})
    answer = daemon.curl("/cwms-data/x", authorization=token)
    assert answer.status == 200 and daemon.log(answer.request_id)["context_from"] == "token"
    (question,) = engine.questions()
    assert question["user"]["id"] == "s-1" and question["user"]["groups"] == ["a", "b"]
    assert question["token"] == {"scope": "openid profile", "groups": ["a", "b"]}
    assert api.profiles_asked() == 0
