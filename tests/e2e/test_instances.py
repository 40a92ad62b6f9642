"""Several instances that share one Redis: what one of them flushes, and what changes in Redis, is gone from all of them
at once; and what is missed while one is cut off is made up for."""
import base64
import json
import socket
import time

import pytest

import harness
from general import settings

PROFILE = "/cwms-data/user/profile"
PATH = "/cwms-data/x"
AT_ONCE_S = 1


@pytest.fixture(scope="module")
def shared():
    """A Redis of this module, that it may restart."""
    server = harness.Redis()
    yield server
    server.stop()


def tracking(shared, clients=2):
    """Each instance has one connection that is tracked, and one that listens."""
    listed = shared.command("CLIENT", "LIST", "TYPE", "normal").decode().splitlines()
    tracked = [line for line in listed if "t" in line.split(" flags=", 1)[1].split(" ", 1)[0]]
    listeners = shared.command("PUBSUB", "NUMSUB", "doorward:flush")[1]
    return len(tracked) == clients and listeners == clients


def connected(*proxies):
    def all_are():
        rows = [r for p in proxies for r in p.curl("/ready").json["dependencies"] if r["kind"] == "redis"]
        return len(rows) == len(proxies) and all(r["ok"] for r in rows)
    harness.eventually(all_are, "connected to Redis", 20)


@pytest.fixture(scope="module")
def running(module_doorward, session_api, engine, issuer, shared):
    """Everything is kept for long: what goes has been told to go."""
    def one():
        return module_doorward(settings(
            f"http://127.0.0.1:{session_api.port}", engine.url, issuer, routes=[{"prefix": "/cwms-data"}],
            context={"url": f"http://127.0.0.1:{session_api.port}{PROFILE}", "shape": "builtin:cwms/context.jq",
                     "memory_ttl_s": 600}, tokens={"anonymous": "refuse"},
            decisions={"ttl_s": 600, "deny_ttl_s": 600}, redis={"url": shared.url, "timeout_ms": 500}))
    return one(), one()


@pytest.fixture
def pair(running, api, engine, shared):
    engine.reset()
    engine.says({"result": True})
    shared.command("FLUSHALL")
    harness.eventually(lambda: tracking(shared), "both are told", 20)
    time.sleep(0.2)  # what FLUSHALL put in doubt has been read
    return running


def ask(proxy, issuer, user="damop", status=200):
    answer = proxy.curl(PATH, authorization=issuer.bearer(user))
    assert answer.status == status, answer
    line = proxy.log(answer.request_id)
    return line["context_from"], line["decision_from"]


def warm(proxies, issuer, *users):
    """What one stores is news to the other: it is read once more then."""
    def all_are():
        return all([ask(p, issuer, u) == ("memory", "memory") for p in proxies for u in users])
    harness.eventually(lambda: all_are() and all_are(), "everything is in memory")


def subject_of(issuer, user="damop"):
    """{"issuer", "subject"} as the token names them."""
    part = issuer.token(user).split(".")[1]
    return {"issuer": issuer.name, "subject": json.loads(base64.urlsafe_b64decode(part + "=="))["sub"]}


def flush(proxy, body):
    answer = harness.curl(proxy.admin + "/cache/flush", data=json.dumps(body).encode())
    assert answer.status == 200 and answer.json["flushed"] is True
    return answer.json["published"]


def soon(condition, what):
    harness.eventually(condition, what, AT_ONCE_S)


def keys_of(shared):
    return [k for k in shared.keys() if k.startswith("doorward:v1:")]


def test_a_subject_is_flushed_everywhere(pair, api, engine, issuer):
    a, b = pair
    warm(pair, issuer, "damop", "water")
    asked = len(engine.questions())
    api.server.users["damop"]["profile"] = {**api.server.users["damop"]["profile"], "roles": {"SWT": ["Changed"]}}
    assert flush(a, subject_of(issuer))
    soon(lambda: ask(b, issuer) != ("memory", "memory"), "gone from the other one")
    assert ask(a, issuer)[1] in ("memory", "policy")
    assert len(engine.questions()) > asked
    assert all("Changed" in q["user"]["roles"] for q in engine.questions()[asked:])
    assert ask(b, issuer, "water") == ("memory", "memory"), "the others stay"
    assert ask(a, issuer, "water") == ("memory", "memory")


def test_tokens_and_decisions_go_too(pair, issuer):
    """A new context is not all: the same one is asked about again."""
    a, b = pair
    bearer = issuer.bearer("damop")

    def from_memory(proxy):
        hits = proxy.metric("doorward_cache_hits_total", admin=True, cache_type="token")
        line = proxy.log(proxy.curl(PATH, authorization=bearer).request_id)
        return (proxy.metric("doorward_cache_hits_total", admin=True, cache_type="token") > hits, line["context_from"],
                line["decision_from"])

    for body in (subject_of(issuer), {"issuer": issuer.name}, {"all": True}):
        from_memory(b)
        assert from_memory(b) == (True, "memory", "memory")
        told = b.metric("doorward_cache_invalidations_total", admin=True, cause="flush")
        assert flush(a, body)
        soon(lambda: b.metric("doorward_cache_invalidations_total", admin=True, cause="flush") > told, "told")
        assert from_memory(b) == (False, "api", "policy")


def test_no_name_goes_through_redis(pair, issuer, shared):
    a, _ = pair
    heard = socket.create_connection(("127.0.0.1", shared.port))
    heard.sendall(b"SUBSCRIBE doorward:flush\r\n")
    heard.settimeout(5)
    heard.recv(1000)
    flush(a, subject_of(issuer))
    text = heard.recv(1000).decode()
    heard.close()
    assert "context" in text and issuer.name not in text
    assert subject_of(issuer)["subject"] not in text and "damop" not in text.lower()


def test_a_key_that_is_changed_by_others(pair, issuer, shared):
    a, b = pair
    warm(pair, issuer, "damop")
    (key,) = keys_of(shared)
    value = json.loads(shared.command("GET", key))
    value["context"]["roles"] = ["changed"]
    shared.command("SETEX", key, 100, json.dumps(value))
    for proxy in pair:
        soon(lambda p=proxy: ask(p, issuer)[0] == "redis", "read again")
        assert ask(proxy, issuer) == ("memory", "memory")


def test_the_watch_is_killed(pair, issuer, shared):
    a, b = pair
    warm(pair, issuer, "damop")
    shared.command("CLIENT", "KILL", "TYPE", "pubsub")
    soon(lambda: b.metric("doorward_cache_invalidations_total", admin=True, cause="doubt") > 0, "seen")
    assert ask(b, issuer)[0] in ("redis", "api", "memory")
    harness.eventually(lambda: tracking(shared), "listening again", 20)
    time.sleep(0.2)
    warm(pair, issuer, "damop")
    assert flush(a, subject_of(issuer))
    soon(lambda: ask(b, issuer) != ("memory", "memory"), "and it is told again")


def test_all_contexts_are_dropped_when_the_watch_breaks(pair, issuer, shared):
    _, b = pair
    warm(pair, issuer, "damop")
    (key,) = keys_of(shared)
    lines = shared.command("CLIENT", "LIST", "TYPE", "pubsub").decode().splitlines()
    assert len(lines) == 2
    shared.command("CLIENT", "KILL", "TYPE", "pubsub")
    soon(lambda: ask(b, issuer) == ("redis", "memory"), "contexts are read again, decisions stay: no flush was missed")
    assert key in shared.keys()


def test_a_flush_that_was_missed(pair, issuer, shared):
    """Counted in Redis while nobody listened."""
    _, b = pair
    warm(pair, issuer, "damop")
    missed = b.metric("doorward_cache_invalidations_total", admin=True, cause="missed")
    shared.command("INCR", "doorward:flushes")
    shared.command("CLIENT", "KILL", "TYPE", "pubsub")
    soon(lambda: ask(b, issuer)[1] == "policy", "decisions are asked for again")
    assert b.metric("doorward_cache_invalidations_total", admin=True, cause="missed") > missed


def test_flushed_while_redis_is_away(pair, issuer, shared):
    a, b = pair
    warm(pair, issuer, "damop")
    shared.stop()
    try:
        harness.eventually(lambda: not flush(a, subject_of(issuer)), "not told", 5)
        assert ask(a, issuer)[1] == "policy"
    finally:
        shared.start()
    connected(a, b)
    harness.eventually(lambda: tracking(shared), "told again", 20)
    harness.eventually(lambda: shared.command("GET", "doorward:generation") is not None, "what was owed is paid", 5)
    raised = b.metric("doorward_cache_invalidations_total", admin=True)
    assert raised > 0
    warm(pair, issuer, "damop")
    assert flush(a, {"all": True})
    soon(lambda: ask(b, issuer) != ("memory", "memory"), "and all is as before")


def test_flushall(pair, issuer, shared):
    a, b = pair
    warm(pair, issuer, "damop")
    assert flush(a, {"issuer": issuer.name, "subject": "nobody"})
    shared.command("FLUSHALL")
    for proxy in pair:
        soon(lambda p=proxy: ask(p, issuer) != ("memory", "memory"), "all is in doubt")


def test_ten_thousand_keys_at_once(pair, issuer, shared):
    a, b = pair
    warm(pair, issuer, "damop", "water")
    script = """for i = 1, 10000 do redis.call('SET', 'doorward:v1:0:' .. string.format('%064x', i), 'x', 'EX', 60) end"""
    told = b.metric("doorward_cache_invalidations_total", admin=True, cause="key")
    shared.command("EVAL", script, 0)
    slowest = 0
    end = time.monotonic() + 10
    while b.metric("doorward_cache_invalidations_total", admin=True, cause="key") < told + 10000:
        began = time.monotonic()
        assert b.curl("/health").status == 200
        slowest = max(slowest, time.monotonic() - began)
        assert time.monotonic() < end
    assert slowest < 1, "the loop turned all the time"
    assert ask(b, issuer) == ("memory", "memory"), "what did not change stays"
