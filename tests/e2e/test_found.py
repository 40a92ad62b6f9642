"""Odd cases that were found by attack, each once."""
import json
import signal

import pytest

import harness
from general import settings


def choked(daemon):
    """A client that asked for more than it reads, until nothing more is read of it."""
    client = daemon.client()
    client.socket.settimeout(1)
    try:
        while True:
            client.send(b"GET /no-such-endpoint-of-ours HTTP/1.1\r\nHost: a\r\n\r\n" * 200)
    except TimeoutError:
        return client


def test_a_client_that_breaks_off_during_a_drain(doorward, recorder, engine, issuer):
    """With the listeners closed all that was left was the moment in which a failed write is told, which kept nothing
    running: the process took itself for drained with a connection still open, and aborted."""
    daemon = doorward(settings(recorder.url, engine.url, issuer, routes=[{"prefix": "/pub"}], log={"level": "info"}))
    client = choked(daemon)
    daemon.process.child.send_signal(signal.SIGTERM)
    harness.eventually(lambda: not harness.opened(daemon.port), "it drains")
    client.reset()
    daemon.process.child.wait(harness.PATIENCE_S)
    daemon.ended_as_told()


def test_a_long_question_does_not_push_its_line_out_of_the_log(doorward, recorder, engine, issuer):
    daemon = doorward(settings(recorder.url, engine.url, issuer, serve={"public_endpoints": True},
                               authorize={"what_if": True}))
    long = "\x7f" * 30000
    for question in ({"resource": long * 2}, {"resource": "x", "user": {"id": long}}):
        body = json.dumps({"action": "read", **question}, ensure_ascii=False).encode()
        answer = daemon.curl("/authorize", data=body, method="POST")
        assert answer.status == 200
        assert daemon.log(answer.request_id)["step"] == "answer"


def test_one_request_id_whatever_the_api_sends(doorward, recorder, engine, issuer):
    daemon = doorward(settings(recorder.url, engine.url, issuer))
    recorder.answer = (b"HTTP/1.1 200 OK\r\nX-Request-Id: one\r\nx-request-id: two\r\nX-Request-ID: three\r\n"
                       b"Content-Length: 0\r\n\r\n")
    answer = daemon.client().send(b"GET /pub HTTP/1.1\r\nHost: a\r\n\r\n").answer()
    assert daemon.log(answer.header("x-request-id"))["status"] == 200


def test_large_answers_that_nobody_reads(doorward, recorder, engine, issuer):
    """Each stands whole in memory, 5 MB once enough resources were asked for: only so many of them at a time."""
    daemon = doorward(settings(recorder.url, engine.url, issuer, serve={"public_endpoints": True}))
    client = daemon.client()
    for i in range(1000):
        body = json.dumps({"action": "read", "resource": f"{i}" + "x" * 120}).encode()
        client.send(b"POST /authorize HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body), body)
        assert client.answer().status == 200
    readers = [daemon.client().send(b"GET /metrics/json HTTP/1.1\r\nHost: a\r\n\r\n") for _ in range(20)]
    harness.eventually(lambda: daemon.curl("/metrics").status == 503, "too many are unread")
    assert daemon.curl("/health").status == 200
    assert harness.curl(daemon.admin + "/metrics").status == 200
    small = json.dumps({"action": "read", "resource": "x"}).encode()
    assert daemon.curl("/authorize", data=small, method="POST").status == 200, "a small answer takes nobody's place"
    for reader in readers:
        reader.close()
    harness.eventually(lambda: daemon.curl("/metrics").status == 200, "nobody is waited for")


def test_every_name_of_a_long_policy_query_is_guarded(doorward, recorder, engine, issuer):
    """Of the 32 names that may be configured the policy got 16; the rest could be repeated at will."""
    names = [f"n{i}" for i in range(32)]
    daemon = doorward(settings(recorder.url, engine.url, issuer, policy={"query": names}))
    engine.reset()
    assert daemon.curl("/x?" + "&".join(f"{name}=1" for name in names)).status == 200
    (question,) = engine.questions()
    assert {name: question["context"].get(name) for name in names} == dict.fromkeys(names, "1")
    for name in names:
        assert daemon.curl(f"/x?{name}=1&{name}=2").status == 400, name


def test_a_subject_of_dots_is_not_asked_for(doorward, upstream, recorder, engine, issuer):
    """/users/.. is the API's root: it would be asked for with the service credential."""
    api = upstream(harness.always(b'HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{"id":"somebody"}'))
    daemon = doorward(settings(recorder.url, engine.url, issuer, context={
        "service_url": api.url + "/users/{name}", "service_authorization": "${KEY}"}), env={"KEY": "apikey ours"})
    recorder.reset()
    for name, status in (("..", 403), (".", 403), ("...", 200)):
        token = issuer.bearer("ann", claims={"sub": name})
        assert daemon.curl("/x", authorization=token).status == status, name
    assert api.requests() == [b"GET /users/... HTTP/1.1\r\n"]
