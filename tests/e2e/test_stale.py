"""An allow and a context past their time: used while they are asked for again, up to a hard end, and never against
what the engine or the API says."""
import os
import threading
import time

import pytest

import harness
from general import settings

ALLOW = "package authz\nallow := %s\n"
PROFILE = "/cwms-data/user/profile"


@pytest.fixture
def own_opa(tmp_path):
    """A real engine of this test, that it may kill."""
    server = harness.Opa(os.fspath(tmp_path))
    server.put("authz", ALLOW % "true")
    yield server
    server.stop()


def ask(proxy, status=200, path="/x", **how):
    answer = proxy.curl(path, **how)
    assert answer.status == status, answer
    return answer, proxy.log(answer.request_id)


def test_the_engine_dies(doorward, recorder, own_opa, issuer):
    recorder.reset()
    proxy = doorward(settings(recorder.url, own_opa.url, issuer,
                              decisions={"ttl_s": 1, "deny_ttl_s": 1, "stale_s": 3, "jitter": 0}))
    _, line = ask(proxy)
    kept = time.monotonic()
    assert line["decision_from"] == "policy" and "stale" not in line
    own_opa.stop()
    time.sleep(1.1)
    while time.monotonic() - kept < 3:
        _, line = ask(proxy)
        assert (line["decision_from"], line["stale"], line["decision"]) == ("memory", True, "allow")
        assert line["ms"] < 500
        time.sleep(0.2)
    assert proxy.metric("doorward_cache_stale_total", admin=True, cache_type="decision") >= 5
    time.sleep(max(0, kept + 4.1 - time.monotonic()))
    forwarded = len(recorder.seen)
    answer, line = ask(proxy, 503)
    assert answer.json["code"] == "policy_unavailable" and "stale" not in line
    assert len(recorder.seen) == forwarded
    own_opa.start()
    own_opa.put("authz", ALLOW % "true")
    harness.eventually(lambda: proxy.curl("/x").status == 200, "it is asked again when it is back", 10)


def test_a_new_policy_is_seen_by_the_first_question(doorward, recorder, own_opa, issuer):
    recorder.reset()
    proxy = doorward(settings(recorder.url, own_opa.url, issuer,
                              decisions={"ttl_s": 1, "deny_ttl_s": 60, "stale_s": 60, "jitter": 0}))
    ask(proxy)
    own_opa.put("authz", ALLOW % "false")
    time.sleep(1.1)
    _, line = ask(proxy)
    assert line["stale"], "the one that starts the question"
    harness.eventually(lambda: proxy.curl("/x").status == 403, "and the next is denied", 2)
    _, line = ask(proxy, 403)
    assert "stale" not in line and line["reason"] == "policy_denied"
    own_opa.put("authz", ALLOW % "true")
    ask(proxy, 403)


def test_one_question_for_many_who_hit_it(doorward, recorder, engine, issuer):
    recorder.reset()
    engine.reset()
    engine.says({"result": True})
    proxy = doorward(settings(recorder.url, engine.url, issuer, policy={"timeout_ms": 20000},
                              decisions={"ttl_s": 1, "deny_ttl_s": 1, "stale_s": 60, "jitter": 0}))
    ask(proxy)
    time.sleep(1.1)
    go_on = threading.Event()
    engine.says(lambda question: go_on.wait(15) and {"result": {"allow": True, "ttl": 60}})
    try:
        for _ in range(10):
            assert ask(proxy)[1]["stale"]
    finally:
        go_on.set()
    harness.eventually(lambda: "stale" not in ask(proxy)[1], "renewed", 5)
    assert len(engine.questions()) == 2
    engine.says({"result": True})


def test_the_api_dies_and_then_rejects(doorward, api, engine, issuer):
    """The API in trouble changes nothing until the hard end; what it says is heard by the first who asks."""
    engine.reset()
    engine.says({"result": True})
    proxy = doorward(settings(f"http://127.0.0.1:{api.port}", engine.url, issuer, tokens={"anonymous": "refuse"},
                              routes=[{"prefix": "/cwms-data"}],
                              context={"url": f"http://127.0.0.1:{api.port}{PROFILE}", "memory_ttl_s": 1,
                                       "shape": "builtin:cwms/context.jq", "stale_s": 30, "jitter": 0}))
    bearer = issuer.bearer("damop")
    _, line = ask(proxy, path="/cwms-data/x", authorization=bearer)
    assert line["context_from"] == "api" and "stale" not in line
    api.set(profile_status=500)
    for _ in range(3):
        time.sleep(1.1)
        _, line = ask(proxy, path="/cwms-data/x", authorization=bearer)
        assert (line["context_from"], line["stale"]) == ("memory", True)
    assert api.profiles_asked() == 4 and proxy.metric("doorward_cache_stale_total", admin=True, cache_type="memory") == 3
    api.set(profile_status=401)
    time.sleep(1.1)
    ask(proxy, path="/cwms-data/x", authorization=bearer)
    harness.eventually(lambda: proxy.curl("/cwms-data/x", authorization=bearer).status == 401, "rejected", 2)


def test_flush_ends_it(doorward, recorder, engine, issuer):
    recorder.reset()
    engine.reset()
    engine.says({"result": True})
    proxy = doorward(settings(recorder.url, engine.url, issuer,
                              decisions={"ttl_s": 1, "deny_ttl_s": 1, "stale_s": 60, "jitter": 0}))
    ask(proxy)
    engine.says((503, b""))
    time.sleep(1.1)
    assert ask(proxy)[1]["stale"]
    assert harness.curl(proxy.admin + "/cache/flush", data=b'{"all":true}').status == 200
    ask(proxy, 503)
