"""Dependencies that fail are left alone for a while and come back by themselves; a request waits for all of them within
one budget."""
import time

import harness
from general import settings

QUICK = {"failures": 3, "rest_ms": 300, "max_rest_ms": 1000}


def events(daemon, name, **fields):
    return [line for line in list(daemon.lines)
            if line.get("event") == name and all(line.get(k) == v for k, v in fields.items())]


def shown(daemon, dependency):
    return daemon.metric("doorward_breaker_state", admin=True, dependency=dependency)


def until_it_rests(daemon, code, paths, bearer=None):
    """Asks until it is refused without a call; the answer."""
    for path in paths:
        answer = daemon.curl(path, authorization=bearer)
        assert answer.status == 503 and answer.json["code"] == code, answer
        if daemon.log(answer.request_id)["detail"] == "resting after failures":
            return answer
    raise AssertionError("it never rests")


def test_the_engine_rests_and_is_back(doorward, recorder, issuer):
    engine = harness.Opa(harness.ROOT + "/policies/example")
    recorder.reset()
    daemon = doorward(settings(recorder.url, engine.url, issuer, breakers=QUICK,
                               policy={"url": engine.url + "/v1/data/example/authz/allow"}))
    assert daemon.curl("/0").status in (200, 403)
    engine.stop()
    answer = until_it_rests(daemon, "policy_unavailable", (f"/{n}" for n in range(1, 20)))
    assert answer.header("Retry-After") == "1"
    assert shown(daemon, "policy") >= 1
    assert daemon.curl("/pub").status == 200  # who does not need it is not held up
    before = len(recorder.seen)
    began = time.monotonic()
    for n in range(20):
        assert daemon.curl(f"/rest{n}").status == 503
    assert time.monotonic() - began < 5
    assert len(recorder.seen) == before
    engine.start()
    harness.eventually(lambda: daemon.curl("/back").status in (200, 403), "the engine is asked again", 5)
    assert shown(daemon, "policy") == 0
    states = [line["state"] for line in events(daemon, "breaker", dependency="policy")]
    assert states[0] == "open" and states[-2:] == ["half_open", "closed"]
    assert events(daemon, "breaker", state="open")[0]["why"] == "failures in a row"
    assert daemon.metric("doorward_breaker_opened_total", admin=True, dependency="policy") == states.count("open")
    assert daemon.metric("doorward_dependency_failures_total", admin=True, dependency="policy", kind="resting") >= 1
    engine.stop()


def test_the_profile_api_rests_and_is_back(doorward, recorder, engine, issuer, upstream):
    says = {"status": b"503 Service Unavailable", "body": b""}

    def script(conversation):
        while conversation.request():
            conversation.send(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" %
                              (says["status"], len(says["body"]), says["body"]))
    profiles = upstream(script)
    engine.reset()
    engine.says({"result": True})
    recorder.reset()
    daemon = doorward(settings(recorder.url, engine.url, issuer, breakers=QUICK,
                               context={"url": profiles.url + "/profile", "memory_ttl_s": 0}))
    bearer = issuer.bearer("damop")
    until_it_rests(daemon, "context_unavailable", ["/x"] * 10, bearer)
    asked = len(profiles.requests())
    assert asked == 3
    assert daemon.curl("/x").status == 200  # who sends no credential has no profile
    says.update(status=b"200 OK", body=b'{"id":"damop","username":"damop","roles":[],"offices":[]}')
    harness.eventually(lambda: daemon.curl("/x", authorization=bearer).status == 200, "the API is asked again", 5)
    assert shown(daemon, "context") == 0


def test_a_bad_answer_to_one_question_takes_nothing_away(doorward, recorder, engine, issuer):
    """The engine fails at one path, again and again: the others do not notice."""
    engine.reset()
    engine.says(lambda q: (500, {"code": "internal_error"}) if q["request"]["path"].startswith("/bad")
                else {"result": True})
    recorder.reset()
    daemon = doorward(settings(recorder.url, engine.url, issuer, breakers=QUICK))
    for n in range(10):
        assert daemon.curl(f"/bad{n}").json["code"] == "policy_unavailable"
    assert daemon.curl("/good").status == 200
    assert shown(daemon, "policy") == 0


def test_one_budget(doorward, engine, issuer, upstream):
    """Profile, engine and API are each within their own time; together they are not, wherever it is used up."""
    profile = b'{"id":"damop","username":"damop","roles":[],"offices":[]}'
    slow = {"profile": 0, "policy": 0, "api": 0}

    def profiles(conversation):
        while conversation.request():
            time.sleep(slow["profile"])
            conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(profile), profile))

    def api(conversation):
        while conversation.request():
            time.sleep(slow["api"])
            conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    def judge(_):
        time.sleep(slow["policy"])
        return {"result": {"allow": True, "ttl": 0}}
    engine.reset()
    engine.says(judge)
    daemon = doorward(settings(upstream(api).url, engine.url, issuer, listen={"budget_ms": 1500},
                               context={"url": upstream(profiles).url + "/profile", "memory_ttl_s": 0}))
    bearer = issuer.bearer("damop")
    assert daemon.curl("/x", authorization=bearer).status == 200
    for step, times in (("forward", (0.6, 0.6, 2)), ("decide", (0.8, 2, 0)), ("identify", (2, 0, 0)),
                        ("forward", (0.6, 0.6, 0.6))):
        slow.update(zip(slow, times))
        began = time.monotonic()
        answer = daemon.curl("/x", authorization=bearer)
        took = time.monotonic() - began
        assert answer.status == 504 and answer.json["code"] == "budget_exceeded", answer
        assert 1.4 < took < 2.5, took
        line = daemon.log(answer.request_id)
        assert line["step"] == step and line["reason"] == "budget_exceeded"
        time.sleep(max(times))  # what was asked comes to its end
    slow.update(profile=0.3, policy=0.3, api=0.3)
    assert daemon.curl("/x", authorization=bearer).status == 200
