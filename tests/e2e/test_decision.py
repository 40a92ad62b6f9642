"""What the policy's answer opens, what it does not, how long it is remembered, and what happens when there is none."""
import collections
import json
import time

import pytest

import harness
from fast import FastPeer
from general import grant_of, is_sanitized, settings


@pytest.fixture(scope="module")
def running(module_doorward, recorder, engine, issuer):
    """One that keeps denials a second, so that no test waits long."""
    return module_doorward(settings(recorder.url, engine.url, issuer, policy={"timeout_ms": 500,
        "max_response_bytes": 4096},
                                    decisions={"ttl_s": 60, "deny_ttl_s": 1, "jitter": 0}))


@pytest.fixture(autouse=True)
def says_yes(engine):
    engine.reset()
    engine.says({"result": True})


@pytest.fixture
def proxy(running, recorder, engine):
    recorder.reset()
    harness.curl(running.admin + "/cache/flush", data=b'{"all":true}')
    return running


def ask(proxy, status=200, path="/x", **how):
    answer = proxy.curl(path, **how)
    assert answer.status == status, answer
    return answer


GOOD = {"allow": True}
ANSWERS = [
    # the engine's answer, status, code, how often it is asked for two requests
    ({"result": True}, 200, None, 1),
    ({"result": {"allow": True}}, 200, None, 1),
    ({"result": {**GOOD, "reason": "because", "more": [1]}}, 200, None, 1),
    ({"result": {**GOOD, "ttl": 60}}, 200, None, 1),
    ({"result": {**GOOD, "ttl": 0}}, 200, None, 2),
    ({"result": False}, 403, "policy_denied", 1),
    ({"result": {"allow": False}}, 403, "policy_denied", 1),
    ({"result": {"allow": False, "ttl": 0}}, 403, "policy_denied", 2),
    ({}, 403, "policy_undefined", 2),
    ({"decision_id": "x"}, 403, "policy_undefined", 2),
    ({"result": None}, 403, "policy_malformed", 2),
    ({"result": "true"}, 403, "policy_malformed", 2),
    ({"result": "allow"}, 403, "policy_malformed", 2),
    ({"result": 1}, 403, "policy_malformed", 2),
    ({"result": [True]}, 403, "policy_malformed", 2),
    ({"result": []}, 403, "policy_malformed", 2),
    ({"result": {}}, 403, "policy_malformed", 2),
    ({"result": {"allow": "true"}}, 403, "policy_malformed", 2),
    ({"result": {"allow": 1}}, 403, "policy_malformed", 2),
    ({"result": {"allow": None}}, 403, "policy_malformed", 2),
    ({"result": {"Allow": True}}, 403, "policy_malformed", 2),
    ({"result": {"allowed": True}}, 403, "policy_malformed", 2),
    ({"result": {**GOOD, "ttl": -1}}, 403, "policy_malformed", 2),
    ({"result": {**GOOD, "ttl": "60"}}, 403, "policy_malformed", 2),
    ({"result": {**GOOD, "filters": "all"}}, 403, "policy_malformed", 2),
    ({"result": {**GOOD, "headers": []}}, 403, "policy_malformed", 2),
    ({"result": {**GOOD, "constraints": 1}}, 403, "policy_malformed", 2),
    ({"result": {**GOOD, "reason": 5}}, 403, "policy_malformed", 2),
    (b'{"result":true,"result":false}', 503, "policy_garbage", 2),
    (b'{"result":{"allow":false,"allow":true}}', 503, "policy_garbage", 2),
    (b"", 503, "policy_garbage", 2),
    (b"true", 503, "policy_garbage", 2),
    (b"[]", 503, "policy_garbage", 2),
    (b'{"result":true', 503, "policy_garbage", 2),
    (b'{"result":true} x', 503, "policy_garbage", 2),
    (b"<html>", 503, "policy_garbage", 2),
    (b'{"result":true,"x":"' + b"a" * 5000 + b'"}', 503, "policy_garbage", 2),
    ((500, {"result": True}), 503, "policy_unavailable", 2),
    ((404, {"result": True}), 503, "policy_unavailable", 2),
    ((401, {"result": True}), 503, "policy_unavailable", 2),
    ((201, {"result": True}), 503, "policy_unavailable", 2),
    ((302, {"result": True}), 503, "policy_unavailable", 2),
]


@pytest.mark.parametrize("says,status,code,questions", ANSWERS, ids=[str(a[0])[:50] for a in ANSWERS])
def test_answers(proxy, recorder, engine, says, status, code, questions):
    engine.says(says)
    for _ in range(2):
        answer = ask(proxy, status)
        line = proxy.log(answer.request_id)
        if code:
            assert answer.json["code"] == line["reason"] == code
            assert line["step"] == "decide"
        assert (answer.header("retry-after") is not None) == (status == 503)
    assert len(engine.questions()) == questions
    assert len(recorder.seen) == (2 if status == 200 else 0)
    assert set(proxy.metrics(admin=True))  # and its numbers are still readable
    engine.says({"result": True})
    if status != 403 or questions == 2:
        ask(proxy, 200, "/x")


def test_denial_says_why(proxy, engine):
    engine.says({"result": {"allow": False, "reason": "Not in \"your\" office.\n<b>é"}})
    assert ask(proxy, 403).json["message"] == "Not in \"your\" office.\n<b>é"
    assert ask(proxy, 403).json["message"] == "Not in \"your\" office.\n<b>é", "also from memory"


def test_too_slow_is_504(proxy, recorder, engine):
    engine.says(lambda question: time.sleep(0.9) or {"result": True})
    began = time.monotonic()
    answer = ask(proxy, 504)
    assert answer.json["code"] == "policy_timeout" and time.monotonic() - began < 0.85
    assert recorder.seen == []
    engine.says({"result": True})
    ask(proxy, 200)


@pytest.mark.parametrize("ttl,waits,questions", [(1, 1.3, 2), (2, 0.2, 1)])
def test_ttl_of_the_answer(proxy, engine, ttl, waits, questions):
    engine.says({"result": {"allow": True, "ttl": ttl}})
    ask(proxy)
    time.sleep(waits)
    ask(proxy)
    assert len(engine.questions()) == questions


def test_denials_are_kept_shorter(proxy, engine):
    engine.says({"result": False})
    ask(proxy, 403)
    ask(proxy, 403)
    assert len(engine.questions()) == 1
    engine.says({"result": True})
    harness.eventually(lambda: proxy.curl("/x").status == 200, "the denial is over", 3)


def test_what_the_key_is_made_of(proxy, engine, issuer):
    """Another path, query, method, host or user is another question; time, request id and other headers are not."""
    bearers = [issuer.bearer("damop"), issuer.bearer("water")]
    asked = [{}, {"path": "/y"}, {"path": "/x/"}, {"path": "/x?"}, {"path": "/x?a=1"}, {"path": "/x?a=2"},
             {"method": "POST"}, {"method": "HEAD"}, {"authorization": bearers[0]}, {"authorization": bearers[1]}]
    for how in asked:
        ask(proxy, **how)
    assert ask(proxy, path="/x").status == 200
    different = len(engine.questions())
    assert different in (len(asked), len(asked) - 1), "/x? may be /x"
    proxy.curl("/x", "-H", "Host: other.test")
    assert len(engine.questions()) == different + 1
    for how in asked:
        ask(proxy, **how)
        proxy.curl(how.get("path", "/x"), "-H", "X-A: 1", "-H", "X-Request-Id: abc")
    assert len(engine.questions()) == different + 1


def test_filters_reach_the_api(proxy, recorder, engine):
    engine.says({"result": {"allow": True, "reason": "ok", "filters": {"offices": ["SWT"]}, "headers": {"a": "b"},
                            "constraints": {"max": 5}, "context": {"x": None}}})
    ask(proxy)
    grant = grant_of(recorder.last[0])
    assert grant["filters"] == {"offices": ["SWT"]} and grant["headers"] == {"a": "b"}
    assert grant["constraints"] == {"max": 5} and grant["context"] == {"x": None}
    assert grant["policy"]["allow"] is True and grant["policy"]["reason"] == "ok" and grant["policy"]["decision_id"]
    ask(proxy)
    assert grant_of(recorder.last[0]) == grant, "the same decision, the same grant, its time and id too"


def test_input(proxy, engine, issuer):
    """The document of the contract, whole."""
    engine.says({"result": True})
    answer = ask(proxy, path="/a/b%20c?q=1&q=2&z=", authorization=issuer.bearer("damop"))
    (question,) = engine.questions()
    assert set(question) == {"user", "resource", "action", "context", "request"}
    context = question["context"]
    assert context.pop("timestamp").endswith("Z")
    assert context == {"method": "GET", "path": "/a/b%20c?q=1&q=2&z=", "query": {"q": ["1", "2"], "z": ""}}
    assert question["request"] == {"method": "GET", "path": "/a/b%20c", "segments": ["a", "b c"],
                                   "query": {"q": ["1", "2"], "z": ""}, "host": proxy.base[7:], "id": answer.request_id}
    assert (question["resource"], question["action"], question["user"]["username"]) == ("a", "read", "damop")
    asked = [a for a in engine.server.asked if a["input"] == question or a["input"]["request"] == question["request"]]
    assert asked[0]["target"] == "/v1/data/authz/allow?provenance=true"
    assert asked[0]["headers"]["Content-Type"] == "application/json"


def test_engine_down_is_503(doorward, recorder, issuer):
    recorder.reset()
    daemon = doorward(settings(recorder.url, "http://127.0.0.1:%d" % harness.free_port(), issuer))
    for _ in range(3):
        answer = ask(daemon, 503)
        assert answer.json["code"] == "policy_unavailable" and int(answer.header("retry-after")) >= 1
    assert recorder.seen == []
    assert daemon.curl("/ready").status == 503
    assert daemon.metric("doorward_dependency_failures_total", admin=True, dependency="policy", kind="unreachable") >= 3


def test_too_many_questions(doorward, recorder, engine, issuer):
    recorder.reset()
    engine.says(lambda question: time.sleep(0.4) or {"result": True})
    daemon = doorward(settings(recorder.url, engine.url, issuer, policy={"max_inflight": 2, "max_waiting": 0}))
    daemon.wait_ready()
    clients = [daemon.client().send(b"GET /x/%d HTTP/1.1\r\nHost: a\r\n\r\n" % i) for i in range(5)]
    answers = [client.answer() for client in clients]
    assert collections.Counter(a.status for a in answers) == {200: 2, 503: 3}
    assert {a.json["code"] for a in answers if a.status == 503} == {"policy_overloaded"}


# --- on_error: allow ----------------------------------------------------

def test_bypass_when_refused(doorward, recorder, issuer):
    recorder.reset()
    daemon = doorward(settings(recorder.url, "http://127.0.0.1:%d" % harness.free_port(), issuer,
                               policy={"on_error": "allow"}))
    for n in range(1, 4):
        answer = ask(daemon)
        grant = grant_of(recorder.last[0])
        assert grant["policy"]["bypassed"] is True and grant["policy"]["allow"] is True
        line = daemon.log(answer.request_id)
        assert line["bypassed"] is True and line["decision_from"] == "policy"
        assert daemon.metric("doorward_authorization_bypassed_total", admin=True) == n, "once a request, never kept"
    assert [x for x in daemon.lines if x["event"] == "authorization_bypassed" and x["level"] == "warn"]


def test_bypass_when_unresolvable(doorward, recorder, issuer):
    recorder.reset()
    daemon = doorward(settings(recorder.url, "http://no-such-host.invalid:8181", issuer,
                               policy={"on_error": "allow", "timeout_ms": 5000}))
    ask(daemon)
    assert grant_of(recorder.last[0])["policy"]["bypassed"] is True


@pytest.mark.parametrize("says,status", [
    ({"result": False}, 403), ({}, 403), ({"result": "true"}, 403), ((500, {"result": True}), 503), (b"garbage", 503),
    (b'{"x":"' + b"a" * 2000000 + b'"}', 503), (lambda question: time.sleep(0.6) or {"result": True}, 504),
    ((404, {}), 503),
], ids=["denied", "undefined", "malformed", "500", "garbage", "oversized", "slow", "404"])
def test_bypass_is_for_silence_only(module_doorward, recorder, engine, issuer, says, status, request):
    if not hasattr(request.module, "bypassing"):
        request.module.bypassing = module_doorward(settings(recorder.url, engine.url, issuer, decisions={"ttl_s": 0,
            "deny_ttl_s": 0},
                                                            policy={"on_error": "allow", "timeout_ms": 300}))
    recorder.reset()
    engine.says(says)
    ask(request.module.bypassing, status)
    assert recorder.seen == []


def test_our_own_cap_is_no_bypass(doorward, recorder, engine, issuer):
    recorder.reset()
    engine.says(lambda question: time.sleep(0.4) or {"result": True})
    daemon = doorward(settings(recorder.url, engine.url, issuer, policy={"on_error": "allow", "max_inflight": 1,
                                                                            "max_waiting": 0}))
    daemon.wait_ready()
    clients = [daemon.client().send(b"GET /x/%d HTTP/1.1\r\nHost: a\r\n\r\n" % i) for i in range(3)]
    assert sorted(client.answer().status for client in clients) == [200, 503, 503]


# --- revisions, flushes, bounds -----------------------------------------

def revised(revision, allow=True):
    return {"result": allow, "provenance": {"version": "1.6.0", "bundles": {"main": {"revision": revision}}}}


def test_a_new_bundle_drops_old_decisions(doorward, recorder, engine, issuer):
    """After revision_grace_s, and also those that nobody asked for since."""
    daemon = doorward(settings(recorder.url, engine.url, issuer, decisions={"revision_grace_s": 1, "ttl_s": 60}))
    engine.reset()
    engine.says(revised("1"))
    ask(daemon, path="/a")
    ask(daemon, path="/b")
    engine.says(revised("2", allow=False))
    ask(daemon, path="/a")
    ask(daemon, 403, path="/c")
    assert len(engine.questions()) == 3
    harness.eventually(lambda: daemon.curl("/a").status == 403, "the old decision is gone", 4)
    ask(daemon, 403, path="/b")
    ask(daemon, 403, path="/c")
    assert len(engine.questions()) == 5, "those of the new revision stay"


def test_the_tokens_end_is_the_decisions(doorward, recorder, engine, issuer):
    """Kept 60 s by the policy, but no longer than the token that was judged."""
    daemon = doorward(settings(recorder.url, engine.url, issuer, tokens={"leeway_s": 0}))
    engine.reset()
    bearer = issuer.bearer("damop", lifetime_s=2)
    assert daemon.curl("/x", authorization=bearer).status == 200
    harness.eventually(lambda: daemon.curl("/x", authorization=bearer).status == 401, "the token ends", 5)
    assert daemon.curl("/x", authorization=issuer.bearer("damop", lifetime_s=60)).status == 200
    assert len(engine.questions()) == 2


def test_route_ttl(doorward, recorder, engine, issuer):
    daemon = doorward(settings(recorder.url, engine.url, issuer, decisions={"jitter": 0},
                               routes=[{"prefix": "/short", "decision_ttl_s": 1}, {"prefix": "/"}]))
    engine.reset()
    for path in ("/short/x", "/long"):
        ask(daemon, path=path)
    time.sleep(1.2)
    for path in ("/short/x", "/long"):
        ask(daemon, path=path)
    assert [q["request"]["path"] for q in engine.questions()] == ["/short/x", "/long", "/short/x"]


def test_the_cache_is_bounded(doorward, issuer):
    """50,000 URLs (10,000 where a sanitizer watches), each another decision and another resource:
    bytes stay under the bound, memory stays where it was."""
    policy = FastPeer(json.dumps({"result": {"allow": True, "filters": {
                      "note": "x" * 200}}}).encode(), "application/json")
    api = FastPeer(b"ok")
    bound, total = 1 << 20, 10000 if is_sanitized(harness.BIN) else 50000
    try:
        daemon = doorward(settings(api.url, policy.url, issuer, decisions={"max_bytes": bound}, log={"access": False}))
        daemon.wait_ready()
        rss = []
        clients = [daemon.client() for _ in range(50)]
        for first in range(0, total, total // 5):
            for at in range(first, first + total // 5, len(clients)):
                for i, client in enumerate(clients):
                    client.send(b"GET /r%d/x HTTP/1.1\r\nHost: a\r\n\r\n" % (at + i))
                assert {client.answer().status for client in clients} == {200}
            rss.append(daemon.rss_kib())
            assert bound / 2 < daemon.metric("doorward_cache_bytes", admin=True, cache_type="decision") <= bound
        assert daemon.metric("doorward_cache_evictions_total", admin=True, cache_type="decision") > total * 0.8
        assert daemon.metric("doorward_opa_cache_misses_total", admin=True) == total
        text = harness.curl(daemon.admin + "/metrics").body
        assert b'resource="other"' in text and len(text) < 1 << 22, "a resource of the path is no label without bound"
        if total == 50000:
            assert rss[-1] - rss[2] < 1024, rss  # by then /metrics has been as long as it gets
    finally:
        policy.stop()
        api.stop()
