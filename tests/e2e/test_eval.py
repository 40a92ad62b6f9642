"""`doorward eval`: one request explained without being sent, by the steps that serve."""
import base64
import hashlib
import hmac
import json
import os
import re
import select
import socket
import subprocess
import time

import pytest

import harness
from general import grant_of, lines_of, merged, settings

SECRET = "a-secret-of-more-than-thirty-two-bytes"
PROFILE = {"id": "7", "name": "Ann", "roles": ["editor"]}


class Trap:
    """A listener that nobody may come to."""

    def __init__(self):
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen()
        self.port = self.socket.getsockname()[1]
        self.url = f"http://localhost:{self.port}"

    def saw_somebody(self):
        return bool(select.select([self.socket], [], [], 0)[0])


@pytest.fixture
def trap():
    one = Trap()
    yield one
    assert not one.saw_somebody(), "something was connected without --network"
    one.socket.close()


def config_of(trap, **more):
    """Everything that could be asked stands behind the trap."""
    return merged({
        "upstream": {"url": trap.url + "/base", "health": {"path": "/alive"}},
        "tokens": {"name_claim": "name", "issuers": [
            {"issuer": "https://far.example", "jwks_url": trap.url + "/keys", "audiences": ["api"],
             "algorithms": ["RS256", "ES256", "EdDSA"]},
            {"issuer": "https://near.example", "secret": SECRET, "any_audience": True, "algorithms": ["HS256"]}]},
        "context": {"url": trap.url + "/me"},
        "redis": {"url": f"redis://:redis-password@localhost:{trap.port}"},
        "policy": {"url": trap.url + "/v1/data/authz/allow", "authorization": "Bearer engine-secret", "query": []},
        "routes": [{"path": "/pub", "access": "public"}, {"prefix": "/me", "access": "authenticated"},
                   {"prefix": "/things", "methods": ["GET", "POST"]}],
    }, more)


class Ran:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def report(self):
        return json.loads(self.out)


@pytest.fixture
def explain(tmp_path):
    """explain(config, *arguments, json=True): one run; claims= and profile= are documents or texts that become files."""
    def run(config, *arguments, as_json=True, **documents):
        more = ["--json"] if as_json else []
        for name, document in documents.items():
            path = tmp_path / f"{name}.json"
            path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
            more += ["--" + name.replace("_", "-"), str(path)]
        return Ran(*harness.run_once("eval", *more, *arguments, config=config, seconds=60))
    return run


def encoded(part):
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def hs256(claims, secret=SECRET, header=None):
    parts = [{"alg": "HS256", **(header or {})}, {"exp": int(time.time()) + 300, **claims}]
    text = ".".join(encoded(json.dumps(part).encode()) for part in parts)
    return text + "." + encoded(hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest())


def test_a_public_route_needs_nothing(trap, explain):
    ran = explain(config_of(trap), "-H", "Cookie: session=1", "-H", "X-Auth-Context: forged", "GET", "/pub?x=1")
    assert ran.code == 0 and ran.err == ""
    report = ran.report
    assert report["outcome"] == "allowed"
    assert report["route"]["access"] == "public" and report["credential"]["kind"] == "not looked at"
    assert report["sent"]["method"] == "GET" and report["sent"]["target"] == "/base/pub?x=1"
    assert report["sent"]["to"] == [trap.url + "/base"]
    assert report["sent"]["removed"] == ["X-Auth-Context"]
    assert f"Host: localhost:{trap.port}" in report["sent"]["added"]
    assert report["sent"]["passed_on"] == ["Cookie: (not shown)"]


@pytest.mark.parametrize("arguments, status, reason", [
    (("GET", "/things"), 401, "credential_missing"),
    (("DELETE", "/things"), 405, "method_not_allowed"),
    (("GET", "/nowhere"), 404, "no_route"),
    (("GET", "/things/../pub"), 400, "ambiguous_path"),
    (("-H", "Host: a b", "GET", "/pub"), 400, "invalid_host"),
    (("--token", "no-token", "GET", "/things"), 401, "token_malformed"),
])
def test_refusals_as_they_would_be_answered(trap, explain, arguments, status, reason):
    ran = explain(config_of(trap), *arguments)
    refusal = ran.report["refusal"]
    assert (ran.code, refusal["status"], refusal["reason"]) == (1, status, reason)
    assert refusal["body"]["code"] == reason and ran.report["outcome"] == "refused"


def test_what_we_answer_ourselves(trap, explain):
    ran = explain(config_of(trap), "GET", "/health")
    assert (ran.code, ran.report["outcome"], ran.report["route"]) == (0, "answered", {"endpoint": "/health"})
    ran = explain(config_of(trap, cors={"origins": ["https://a.example"]}), "-H", "Origin: https://a.example", "-H",
                  "Access-Control-Request-Method: GET", "OPTIONS", "/things")
    assert (ran.code, ran.report["answer"]) == (0, {"status": 204})


def test_a_signature_is_checked_where_the_key_is_here(trap, explain):
    claims = {"iss": "https://near.example", "sub": "u-1", "name": "ann"}
    ran = explain(config_of(trap), "--token", hs256(claims, header={"kid": "k1"}), "GET", "/me", profile=PROFILE)
    said = ran.report["credential"]
    assert ran.code == 0 and said["signature"] == "checked" and said["accepted"] is True
    assert (said["issuer"], said["kid"], said["sub"], said["name"]) == ("https://near.example", "k1", "u-1", "ann")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z", said["expires"])
    ran = explain(config_of(trap), "--token", hs256(claims, "another secret, just as long as ours"), "GET", "/me")
    assert ran.code == 1 and ran.report["refusal"]["reason"] == "token_signature"
    assert ran.report["credential"]["accepted"] is False and ran.report["credential"]["sub"] == "u-1"


@pytest.fixture
def far(trap, issuer):
    """A configuration whose issuer is the one of the tests, with its keys behind the trap."""
    def make(**more):
        return config_of(trap, **merged({"tokens": {"name_claim": "preferred_username", "issuers": [
            {"issuer": issuer.name, "jwks_url": trap.url + "/keys", "audiences": ["cwms"],
             "algorithms": ["RS256", "ES256"]}]}}, more))
    return make


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
@pytest.mark.parametrize("flaw", [None, "signature", "key"])
def test_without_network_a_far_signature_is_not_checked_and_that_is_said(far, issuer, explain, algorithm, flaw):
    token = issuer.token("m5hectest", algorithm=algorithm, flaw=flaw)
    ran = explain(far(), "--token", token, "GET", "/me", profile=PROFILE)
    said = ran.report["credential"]
    assert ran.code == 0 and said["signature"].startswith("not checked") and "--network" in said["signature"]
    assert (said["algorithm"], said["name"], said["accepted"]) == (algorithm, "m5hectest", True)
    assert "not checked" in explain(far(), "--token", token, "GET", "/me", as_json=False, profile=PROFILE).out


@pytest.mark.parametrize("flaw, reason", [
    ("expired", "token_expired"), ("not_yet", "token_not_yet_valid"), ("audience", "token_audience"),
    ("issuer", "token_issuer"), ("none", "token_algorithm"), ("hs256", "token_algorithm")])
def test_without_network_all_else_of_a_token_is_checked(far, issuer, explain, flaw, reason):
    ran = explain(far(), "--token", issuer.token("m5hectest", flaw=flaw), "GET", "/me", profile=PROFILE)
    assert (ran.code, ran.report["refusal"]["reason"]) == (1, reason)


def test_with_network_a_far_signature_is_checked(explain, issuer, recorder, engine):
    config = settings(recorder.url, engine.url, issuer)
    for flaw, code in ((None, 0), ("signature", 1), ("kid", 1)):
        ran = explain(config, "--network", "--token", issuer.token("m5hectest", flaw=flaw), "GET", "/me")
        assert ran.code == code and ran.report["credential"]["signature"] == "checked", flaw


def test_claims_in_place_of_a_token(trap, explain):
    claims = {"iss": "https://far.example", "sub": "u-1", "name": "ann"}
    ran = explain(config_of(trap), "GET", "/me", claims=claims, profile=PROFILE)
    assert ran.code == 0 and ran.report["credential"]["name"] == "ann"
    assert ran.report["credential"]["kind"] == "claims" and ran.report["credential"]["signature"].startswith("none")
    near = explain(config_of(trap), "GET", "/me", claims={**claims, "iss": "https://near.example"}, profile=PROFILE)
    assert near.code == 0
    for wrong, reason in (({"exp": 1}, "token_expired"), ({"aud": "b"}, "token_audience"), ({"name": 1}, "token_subject"),
                          ({"iss": "https://no.example"}, "token_issuer")):
        ran = explain(config_of(trap), "GET", "/me", claims={**claims, **wrong}, profile=PROFILE)
        assert (ran.code, ran.report["refusal"]["reason"]) == (1, reason), wrong


def test_the_context_is_shaped_as_ever(trap, explain, tmp_path):
    claims = {"iss": "https://far.example", "sub": "u-1"}
    (tmp_path / "shape.jq").write_text("{id: .user, roles: [.groups[] | ascii_downcase]}", encoding="utf-8")
    config = config_of(trap, context={"shape": str(tmp_path / "shape.jq")})
    ran = explain(config, "GET", "/me", claims=claims, profile={"user": "u", "groups": ["A", "B"]})
    assert ran.report["context"]["user"] == {"id": "u", "roles": ["a", "b"]}
    assert ran.report["context"]["from"].startswith("--profile")
    for document, reason in (("no JSON", "context_malformed"), ({"user": "u", "groups": 1}, "context_malformed"),
                             ({"user": "x" * 3000000, "groups": []}, "context_unavailable")):
        ran = explain(config, "GET", "/me", claims=claims, profile=document)
        assert (ran.code, ran.report["refusal"]["reason"]) == (1, reason)


def test_what_was_not_asked_is_said(trap, explain):
    claims = {"iss": "https://far.example", "sub": "u-1"}
    ran = explain(config_of(trap), "GET", "/things", claims=claims)
    assert (ran.code, ran.report["outcome"], ran.report["context"]["from"]) == (3, "open", "not asked")
    assert "--profile" in ran.report["missing"]
    ran = explain(config_of(trap), "GET", "/things?a=1&a=2", claims=claims, profile=PROFILE)
    assert (ran.code, ran.report["outcome"]) == (3, "open")
    assert ran.report["decision"]["from"] == "not asked, needs --network" and "--network" in ran.report["missing"]
    assert ran.report["input"]["user"] == PROFILE and ran.report["input"]["request"]["query"] == {"a": ["1", "2"]}


def test_claims_are_no_credential_for_the_api(explain, issuer, recorder, engine):
    config = settings(recorder.url, engine.url, issuer, context={"url": recorder.url + "/me"})
    recorder.reset()
    ran = explain(config, "--network", "GET", "/me", claims={"sub": "u-1"})
    assert ran.code == 3 and "--profile" in ran.report["missing"] and recorder.targets() == []


def test_the_decision_and_what_would_be_sent_are_those_of_the_daemon(doorward, explain, issuer, recorder, engine):
    """The same request, once explained and once served: the same question, the same grant, the same head."""
    config = settings(recorder.url, engine.url, issuer, strip_headers=["X-Internal"])
    engine.says({"result": {"allow": True, "filters": {"a": 1}, "ttl": 30}})
    engine.reset()
    recorder.reset()
    token = issuer.token("m5hectest")
    headers = ["-H", "X-Internal: 1", "-H", "X-Mine: 2", "-H", "Host: localhost"]
    ran = explain(config, "--network", "--token", token, *headers, "GET", "/things/5?x=%20y")
    assert ran.code == 0, ran.out
    assert recorder.seen == [], "nothing is sent"
    (asked,) = engine.questions()
    report = ran.report
    assert report["input"] == asked, "the very bytes, timestamp and request id among them"

    daemon = doorward(config)
    assert daemon.curl("/things/5?x=%20y", *headers, authorization="Bearer " + token).status == 200
    served = engine.questions()[-1]
    for question in (asked, served):
        del question["context"]["timestamp"], question["request"]["id"]
    assert asked == served
    head = recorder.last[0]
    grant, shown = grant_of(head), report["grant"]["value"]
    for one in (grant, shown):
        del one["timestamp"]
        one["policy"].pop("decision_id", None)
        one.get("decision", {}).pop("id", None)
    assert grant == shown and report["grant"]["header"] == "x-auth-context"
    sent = report["sent"]
    assert head.startswith(f"{sent['method']} {sent['target']} HTTP/1.1\r\n".encode())
    names = sorted(name.lower() for name, _ in lines_of(head))
    told = [line.split(":")[0].lower() for line in sent["added"] + sent["passed_on"]]
    assert sorted(told) == [name for name in names if name not in ("accept", "user-agent")]
    assert sent["removed"] == ["X-Internal"]


def test_a_denial(explain, issuer, recorder, engine):
    engine.says({"result": {"allow": False, "reason": "not on Sundays"}})
    ran = explain(settings(recorder.url, engine.url, issuer), "--network", "GET", "/x")
    assert (ran.code, ran.report["refusal"]["reason"]) == (1, "policy_denied")
    assert ran.report["decision"]["allow"] is False and ran.report["decision"]["reason"] == "not on Sundays"
    assert ran.report["refusal"]["body"]["message"] == "not on Sundays" and "grant" not in ran.report


def test_an_engine_that_is_away(explain, issuer, recorder):
    config = settings(recorder.url, f"http://127.0.0.1:{harness.free_port()}", issuer)
    ran = explain(config, "--network", "GET", "/x")
    assert (ran.code, ran.report["refusal"]["reason"]) == (1, "policy_unavailable")


@pytest.mark.parametrize("form", ["json", "base64url", "jws"])
def test_grants_are_shown_decoded(trap, explain, form, tmp_path):
    grant = {"format": form}
    if form == "jws":
        subprocess.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out",
                        f"{tmp_path}/k.pem"], check=True, capture_output=True)
        grant.update(key_file=f"{tmp_path}/k.pem", issuer="https://doorward.example")
    ran = explain(config_of(trap, grant=grant), "GET", "/me", claims={"iss": "https://far.example", "sub": "u"},
                  profile=PROFILE)
    shown = ran.report["grant"]
    assert ran.code == 0 and shown["format"] == form and shown["value"]["user"]["id"] == "7"
    assert "x-auth-context: (the grant above)" in ran.report["sent"]["added"]
    if form == "jws":
        assert shown["signed"]["alg"] == "ES256" and shown["value"]["iss"] == "https://doorward.example"
        assert not re.search(r"eyJ[\w-]+\.eyJ", ran.out), "whoever has a signed grant is believed by the API"


CANARIES = ["redis-password", "engine-secret", SECRET, "service-secret", "admin-secret", "cookie-canary", "proxy-canary"]


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("flaw", [None, "signature", "expired", "audience", "none", "kid"])
def test_no_secret_is_shown(far, issuer, explain, as_json, flaw):
    token = issuer.token("m5hectest", flaw=flaw)
    config = far(admin={"address": "127.0.0.1:1", "token": "admin-secret"},
                 context={"service_url": "http://localhost:1/{name}", "service_authorization": "Bearer service-secret"})
    headers = ["-H", "Cookie: cookie-canary", "-H", "Proxy-Authorization: proxy-canary", "-H", f"Authorization: Bearer {token}"]
    for target in ("/pub", "/me", "/things", "/nowhere", "/things/%2e%2e"):
        ran = explain(config, *headers, "GET", target, as_json=as_json, profile=PROFILE)
        for part in [*CANARIES, token, *[p for p in token.split(".") if len(p) > 8]]:
            assert part not in ran.out + ran.err, target


def test_a_token_from_a_file_or_standard_input(trap, explain, tmp_path):
    claims = {"iss": "https://near.example", "sub": "u-1"}
    ran = explain(config_of(trap), "GET", "/me", token_file=hs256(claims) + "\n", profile=PROFILE)
    assert ran.code == 0 and ran.report["credential"]["sub"] == "u-1"
    ran = explain(config_of(trap), "--token", "Bearer " + hs256(claims), "GET", "/me", profile=PROFILE)
    assert ran.code == 0
    ran = explain(config_of(trap, tokens={"api_keys": True}), "--token", "apikey abc-canary", "GET", "/me", profile=PROFILE)
    assert ran.code == 0 and ran.report["credential"]["kind"] == "API key" and "abc-canary" not in ran.out


def test_nothing_of_a_profile_reaches_the_terminal_as_it_is(trap, explain):
    ran = explain(config_of(trap), "GET", "/me", claims={"iss": "https://far.example", "sub": "u"}, as_json=False,
                  profile={"id": "\x1b]0;owned\x07", "\x1b[2J": ["\u202e"]})
    assert ran.code == 0
    assert not re.search(r"[^\n\x20-\x7e]", ran.out) and "\\u001B" in ran.out


def test_for_people(trap, explain):
    ran = explain(config_of(trap), "GET", "/pub", as_json=False)
    assert ran.out.startswith("request\n  method        GET\n  target        /pub\n")
    assert "\n  access        public\n" in ran.out and ran.out.endswith("outcome         allowed\n")


@pytest.mark.parametrize("arguments, said", [
    ((), "usage:"), (("GET",), "usage:"), (("GET", "/a", "b"), "usage:"), (("--nonsense", "GET", "/"), "usage:"),
    (("GET", "/a b"), "PATH has a space"), (("GE T", "/"), "METHOD is one word"), (("GET", "/\r\nX: y"), "control"),
    (("GET", "things"), "PATH begins with /: things"), (("-H", "nothing", "GET", "/"), "-H takes"), (("-H", "A: b\r\nC: d", "GET", "/"), "-H takes"),
    (("-H", "Content-Length: 3", "POST", "/"), "without its body"),
    (("--token", "a", "--token", "b", "GET", "/"), "more than one credential"),
    (("--token", "a", "-H", "authorization: b", "GET", "/"), "more than one credential"),
    (("--token-file", "/nowhere", "GET", "/"), "/nowhere: no such file"),
])
def test_wrong_usage(trap, explain, arguments, said):
    ran = explain(config_of(trap), *arguments)
    assert ran.code == 2 and said in ran.err and ran.out == ""


def test_a_profile_that_nobody_asks_for_is_said(trap, explain):
    ran = explain(config_of(trap, context={"url": None}), "GET", "/pub", profile=PROFILE)
    assert ran.code == 0 and "--profile is not used: without context.url" in ran.err


def test_wrong_claims(trap, explain):
    assert explain(config_of(trap), "GET", "/me", claims="[]").code == 2
    ran = explain(config_of(trap), "GET", "/me", claims={"sub": "u"})
    assert ran.code == 2 and "several issuers" in ran.err
    ran = explain(config_of(trap), "--token", "a", "GET", "/me", claims={"iss": "https://far.example", "sub": "u"})
    assert ran.code == 2 and "either claims or a credential" in ran.err


def test_a_bad_configuration(trap, explain):
    ran = explain(config_of(trap, policy={"nonsense": 1}), "GET", "/pub")
    assert ran.code == 78 and "nonsense" in ran.err and ran.out == ""
    ran = explain(config_of(trap, context={"shape": "/nowhere.jq"}), "GET", "/pub")
    assert ran.code == 78


def test_help():
    code, out, _ = harness.run_once("eval", "--help")
    assert code == 0 and "--token-file" in out
    assert "doorward eval" in harness.run_once("--help")[1]


needs_engine = pytest.mark.skipif("regorus" not in harness.run_once("--version")[1],
                                  reason="built without the engine (DOORWARD_EMBEDDED_REGO)")
EXAMPLE = os.path.join(harness.ROOT, "policies", "example")


@needs_engine
@pytest.mark.parametrize("method, target, roles, code", [
    ("GET", "/things", [], 0), ("POST", "/things", [], 1), ("POST", "/things", ["writer"], 0), ("GET", "/admin", [], 1)])
def test_policies_of_this_process_decide_without_a_network(trap, explain, opa, method, target, roles, code):
    config = config_of(trap, policy={"url": None, "authorization": None, "path": EXAMPLE, "rule": "data.example.authz.allow"},
                       routes=[{"prefix": "/"}])
    ran = explain(config, method, target, claims={"iss": "https://far.example", "sub": "u"},
                  profile={"id": "7", "roles": roles})
    report = ran.report
    assert ran.code == code, ran.out
    decision = report["decision"]
    assert "regorus" in decision["engine"] and decision["rule"] == "data.example.authz.allow"
    assert decision["compiled"] is True
    answer = json.loads(harness.http("POST", opa.url + "/v1/data/example/authz/allow",
                                     json.dumps({"input": report["input"]}).encode()))
    assert {"allow": decision["allow"], "reason": decision["reason"]} == answer["result"], "as OPA says of the same input"
    assert ("grant" in report) == (code == 0)


@needs_engine
def test_policies_that_do_not_compile(trap, explain, tmp_path):
    (tmp_path / "p.rego").write_text("package p\n\nallow := nobody\n", encoding="utf-8")
    ran = explain(config_of(trap, policy={"url": None, "authorization": None, "path": str(tmp_path / "p.rego"),
                                          "rule": "data.p.allow"}), "GET", "/pub")
    assert ran.code == 78 and "p.rego:3:10" in ran.err
