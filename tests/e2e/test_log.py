"""The log: one line one JSON object whatever the bytes, never a secret, and it never makes a request wait."""
import json
import os
import re
import subprocess
import time

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

import harness
from general import merged, settings

CANARY = "canary" + "Zq7"


@pytest.fixture(scope="module")
def running(module_doorward, recorder, engine, issuer):
    return module_doorward(settings(recorder.url, engine.url, issuer, log={"level": "debug", "query": True},
                                    policy={"query": ["office_id|office"]},
                                    listen={"trusted_proxies": ["127.0.0.1/32"]}))


@pytest.fixture
def proxy(running, recorder, engine):
    recorder.reset()
    engine.reset()
    engine.says({"result": True})
    return running


ODD = [bytes([b]) for b in range(256) if b not in b"\r\n"] + [b"\xc3\xa9", b"\xe2\x80\xa8", b"\xf0\x9f\x98\x80",
                                                              b"\xed\xa0\x80",
                                                             b'","level":"error', b"\\u0000", b"\x1b[31m", b"%0A",
                                                             b"${x}"]


def test_any_bytes_are_one_json_line(proxy, recorder):
    """In the path, the query, a header, Host, the method, X-Request-Id, X-Forwarded-For, Authorization."""
    before = len(proxy.lines)
    requests = []
    for odd in ODD:
        requests += [b"GET /pub/a" + odd + b"b HTTP/1.1\r\nHost: a\r\n\r\n",
                     b"GET /pub/x?a" + odd + b"b HTTP/1.1\r\nHost: a\r\n\r\n",
                     b"GET /pub/x HTTP/1.1\r\nHost: a\r\nX-A: a" + odd + b"b\r\nX-Request-Id: a" + odd +
                     b"\r\nX-Forwarded-For: 1" + odd + b"\r\n\r\n",
                     b"GET /pub/x HTTP/1.1\r\nHost: a\r\nX" + odd + b": 1\r\n\r\n",
                     b"GET /pub/x HTTP/1.1\r\nHost: a" + odd + b"\r\n\r\n",
                     b"GET /x HTTP/1.1\r\nHost: a\r\nAuthorization: a" + odd + b"b\r\n\r\n",
                     b"G" + odd + b"T /pub/x HTTP/1.1\r\nHost: a\r\n\r\n"]
    answers = []
    for request in requests:
        client = proxy.client().send(request)
        answers.append(client.answer())
        client.close()
    assert {a.status for a in answers} <= {200, 400, 401, 405, 505}
    for answer in answers:
        if answer.status != 200:
            json.loads(answer.body)
    harness.eventually(lambda: len([x for x in proxy.lines[before:] if x.get("route", "/health") != "/health"])
                       == len(requests), "a line each")
    assert proxy.strays == []
    for line in proxy.lines[before:]:
        assert {"time", "level", "event"} <= set(line)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
        assert line["level"] in ("debug", "info", "warn", "error")


def test_the_access_line(proxy, engine, issuer):
    engine.says({"result": {"allow": True, "ttl": 60}})
    bearer = issuer.bearer("damop")
    first = proxy.log(proxy.curl("/things/5?a=1", authorization=bearer, data=b"hello").request_id)
    again = proxy.log(proxy.curl("/things/5?a=1", authorization=bearer, data=b"hello").request_id)
    same = {"event": "request", "level": "info", "client": "127.0.0.1", "method": "POST", "path": "/things/5",
            "query": "a=1",
            "status": 200, "reason": "forwarded", "step": "forward", "route": "/", "issuer": issuer.name,
            "resource": "things",
            "action": "create", "decision": "allow", "bytes_in": 5, "bytes_out": 2, "context_from": None,
            "decision_id": first["decision_id"]}
    for line in (first, again):
        assert {k: line.get(k) for k in same} == {**same, "context_from": line["context_from"]}
        assert line["subject"] and line["upstream"].startswith("127.0.0.1:")
        assert 0 < line["ms"] < 5000 and line["decision_age_ms"] >= 0
    assert (first["decision_from"], again["decision_from"]) == ("policy", "memory")
    assert (first["context_from"], again["context_from"]) == ("token", "memory")
    assert "decide" in first["waited_ms"] and "decide" not in again.get("waited_ms", {})
    engine.says({"result": False})
    denied = proxy.log(proxy.curl("/things/6", authorization=bearer).request_id)
    assert (
    denied["decision"],
    denied["reason"],
    denied["step"],
    denied["status"]) == (
        "deny",
        "policy_denied",
        "decide",
         403)
    assert "upstream" not in denied and "policy_reason" not in denied
    engine.says({"result": {"allow": False, "reason": "Not your office."}})
    told = proxy.curl("/things/8", authorization=bearer)
    assert told.json["message"] == proxy.log(told.request_id)["policy_reason"] == "Not your office."
    engine.says({"result": {"allow": False, "reason": "no" * 5000}})
    told = proxy.log(proxy.curl("/things/9", authorization=bearer).request_id)
    assert len(told["policy_reason"]) < 600, "it does not push its own line out of the log"
    for target, detail in (("/things/a%2Fb", "path_policy.encoded_slashes"), ("/things/a;b", "path_policy.path_parameters"),
                           ("/things//a", "segment"), ("/things/x?office=a&office=b", "policy.query: office_id"),
                           ("/things/x?" + "&".join("abcdefgh" * 40), "too many parameters")):
        assert detail in proxy.log(proxy.curl(target).request_id)["detail"], target
    refused = proxy.log(proxy.curl("/things/7", authorization="Bearer x").request_id)
    assert refused["reason"] == "token_malformed" and refused["detail"] and "subject" not in refused


def test_levels(doorward, recorder, engine, issuer):
    engine.says({"result": True})
    quiet = doorward(settings(recorder.url, engine.url, issuer, log={"level": "warn"}))
    silent = doorward(settings(recorder.url, engine.url, issuer, log={"level": "off"}))
    plain = doorward(settings(recorder.url, engine.url, issuer))
    dumb = doorward(settings(recorder.url, engine.url, issuer, log={"access": False}))
    recorder.answer = b"garbage\r\n\r\n"
    for daemon in (quiet, silent, plain, dumb):
        assert daemon.curl("/pub/x?secret=1").status == 502
        assert daemon.curl("/pub/%zz").status == 400
    recorder.reset()
    harness.eventually(lambda: quiet.lines and len(plain.lines) > 3, "written")
    time.sleep(0.1)
    assert [x["reason"] for x in quiet.lines if x["event"] == "request"] == ["upstream_malformed"]
    assert silent.lines == []
    assert [x["status"] for x in plain.lines if x["event"] == "request" and x["route"] != "/health"] == [502, 400]
    assert "secret" not in plain.log_text(), "no query unless asked"
    assert dumb.lines and not [x for x in dumb.lines if x["event"] == "request"]


# --- secrets ------------------------------------------------------------

class Told:
    """A peer that gives every question the same answer."""

    def __init__(self):
        self.answer = harness.OK_ANSWER
        self.peer = harness.ScriptedUpstream(self.script)
        self.url, self.stop = self.peer.url, self.peer.stop

    def script(self, conversation):
        while conversation.request():
            conversation.send(self.answer)


@pytest.fixture
def with_secrets(doorward, recorder, engine, issuer, tmp_path):
    """Every secret there is has the canary in it; every dependency that can be in trouble is."""
    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
    recorder.reset()
    files = {"key": key, "admin": CANARY + "-admin-token", "policy": f"Bearer {CANARY}-policy",
             "redis": f"redis://:{CANARY}-redis@127.0.0.1:{harness.free_port()}", "hmac": CANARY * 8,
             "service": f"apikey {CANARY}-service"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    api = Told()
    config = settings(recorder.url, engine.url, issuer, log={"level": "debug", "query": True},
                      admin={"token_file": str(tmp_path / "admin")}, redis={"url_file": str(tmp_path / "redis")},
                      grant={"format": "jws", "key_file": str(tmp_path / "key")},
                      context={"memory_ttl_s": 0, "url": api.url + "/profile", "service_url": api.url + "/users/{name}",
                               "service_authorization_file": str(tmp_path / "service")}, tokens={"api_keys": True})
    config["policy"]["authorization_file"] = str(tmp_path / "policy")
    config["tokens"]["issuers"].append(
        {"issuer": "https://hmac.test", "secret_file": str(tmp_path / "hmac"), "audiences": ["cwms"]})
    daemon = doorward(merged(config, {"decisions": {"ttl_s": 0}}))
    yield daemon, api, key
    api.stop()


def test_no_secret_is_ever_written(with_secrets, engine, issuer, recorder):
    daemon, api, key = with_secrets
    secrets = [CANARY, key.splitlines()[1]]
    answers = []

    def ask(path="/x", *more, authorization=None, **how):
        answers.append(daemon.curl(path, *more, "-H", f"Cookie: session={CANARY}", "-H", f"X-Api-Key: {CANARY}",
                                   authorization=authorization, **how))
        return answers[-1]
    good = issuer.bearer("damop", claims={"jti": CANARY})
    profile = b'{"id":"ann","password":"%s"}' % CANARY.encode()
    troubles = [
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(profile), profile),
        b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 9\r\n\r\n" + CANARY.encode(),
        b"HTTP/1.1 500 " + CANARY.encode() +
        b"\r\nX-A: " + CANARY.encode() + b"\r\nContent-Length: 9\r\n\r\n" + CANARY.encode(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" + CANARY.encode(), CANARY.encode() + b"\r\n\r\n",
    ]
    for trouble in troubles:
        api.answer = trouble
        secrets.append(issuer.token("damop", claims={"n": len(secrets)}))
        ask(authorization="Bearer " + secrets[-1])
        ask(authorization=f"apikey {CANARY}-key")
    api.answer = troubles[0]
    for says in ({"result": True}, {"result": False}, {"result": CANARY}, (500, {"x": CANARY}), CANARY.encode(), {}):
        engine.says(says)
        ask(authorization=good, data=f"password={CANARY}".encode())
    engine.says({"result": True})
    for flaw in ("expired", "audience", "issuer", "key", "kid", "signature", "none", "hs256"):
        secrets.append(issuer.token("damop", flaw=flaw))
        ask(authorization="Bearer " + secrets[-1])
    for value in (f"Basic {CANARY}", f"Bearer {CANARY}", f"{CANARY} x", f"Bearer {CANARY}, Bearer {CANARY}", CANARY):
        ask(authorization=value)
    for trouble in (b"HTTP/1.1 200 OK\r\nSet-Cookie: %s\r\nBad: \0\r\n\r\n" %
                    CANARY.encode(), CANARY.encode() + b"\r\n\r\n", b""):
        recorder.answer = (lambda bad: lambda c, h, b: c.send(bad) or False)(trouble)
        ask("/pub/x", "-H", f"Proxy-Authorization: Basic {CANARY}")
    recorder.reset()
    for path in ("/metrics", "/metrics/json", "/cache/flush", "/authorize"):
        for value in (f"Bearer {CANARY}-wrong", f"Bearer {CANARY}-admin-token"):
            answers.append(harness.curl(daemon.admin + path, "-H", "Authorization: " + value,
                                        data=None if "metrics" in path else json.dumps(
                                            {"resource": "a", "action": "read", "jwt_token": secrets[-1]}).encode()))
    answers += [daemon.curl("/ready"), daemon.curl("/health"), daemon.curl("/.well-known/jwks.json")]
    assert len({a.status for a in answers}) >= 6, "all sorts of ends were reached"
    daemon.log(answers[-4].request_id)
    said = daemon.log_text() + "".join(repr(a.lines) + a.body.decode("latin-1") for a in answers)
    for secret in secrets:
        parts = [secret, *([secret.split(".")[2]] if secret.count(".") == 2 else [])]
        assert not any(part and part in said for part in parts), secret


# --- a reader that is slow, or gone -------------------------------------

class Unread:
    """A daemon whose standard output nobody reads."""

    def __init__(self, config):
        self.read, write = os.pipe()
        self.port, self.admin_port = harness.free_port(), harness.free_port()
        config = merged(
    config, {
        "listen": {
            "address": f"127.0.0.1:{self.port}"}, "admin": {
                "address": f"127.0.0.1:{self.admin_port}"}})
        self.config = f"/tmp/doorward-unread-{os.getpid()}-{self.port}.yaml"
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump(config, file)
        self.child = subprocess.Popen([harness.BIN, "--config", self.config], stdout=write, stderr=subprocess.PIPE)
        os.close(write)
        harness.eventually(lambda: harness.opened(self.port), "it listens")

    def dropped(self):
        text = harness.curl(f"http://127.0.0.1:{self.admin_port}/metrics").body.decode()
        found = re.search(r"^doorward_log_lines_dropped_total(?:\{\})? (\S+)$", text, re.M)
        return float(found.group(1)) if found else 0

    def ask(self, count):
        client = harness.RawClient(self.port)
        for _ in range(count // 50):
            client.send(b"GET /pub/x?%s HTTP/1.1\r\nHost: a\r\n\r\n" % (b"a" * 500) * 50)
            assert {client.answer().status for _ in range(50)} == {200}
        client.close()

    def finish(self):
        os.unlink(self.config)
        self.child.terminate()
        assert self.child.wait(harness.PATIENCE_S) == 0, self.child.stderr.read()
        stderr = self.child.stderr.read().decode()
        self.child.stderr.close()
        assert not harness.REPORT.search(stderr), stderr


def test_full_pipe(recorder, engine, issuer):
    """Requests go on, whole lines are dropped and counted; once it is read again, what comes is whole lines."""
    recorder.reset()
    daemon = Unread(settings(recorder.url, engine.url, issuer, log={"query": True}))
    try:
        daemon.ask(1000)
        dropped = daemon.dropped()
        assert dropped > 100
        os.set_blocking(daemon.read, False)

        def read_all():
            got = b""
            while True:
                try:
                    more = os.read(daemon.read, 1 << 20)
                except BlockingIOError:
                    return got
                if not more:
                    return got
                got += more
        got, quiet = read_all(), 0
        daemon.ask(50)
        while quiet < 3:  # each question is a turn of the loop, and each turn a try to write what waits
            more = read_all()
            quiet = 0 if len(more) > 2000 else quiet + 1
            got += more
            harness.curl(f"http://127.0.0.1:{daemon.port}/health")
        time.sleep(0.1)
        got += read_all()
        lines = [json.loads(line) for line in got.splitlines()]
        assert got.endswith(b"\n")
        written = len([x for x in lines if x["event"] == "request" and x["path"] == "/pub/x"])
        assert 100 < written < 1050
        assert written + daemon.dropped() >= 1050 > written, "what is not there is counted"
    finally:
        daemon.finish()
        os.close(daemon.read)


def test_reader_gone(recorder, engine, issuer):
    recorder.reset()
    daemon = Unread(settings(recorder.url, engine.url, issuer))
    os.close(daemon.read)
    try:
        daemon.ask(500)
        assert daemon.dropped() > 300
    finally:
        daemon.finish()
