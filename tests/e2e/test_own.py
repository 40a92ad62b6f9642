"""Endpoints of our own in the general configuration: what they say, on which port, to whom, and that it is true."""
import base64
import json
import os
import re
import signal

import pytest

import harness
from general import grant_of, settings

PROFILE = "/cwms-data/user/profile"
TOKEN = "an-admin-token-of-enough-bytes"
ROUTES = [{"prefix": "/pub", "access": "public"}, {"prefix": "/cwms-data"}]


@pytest.fixture(scope="module")
def running(module_doorward, recorder, engine, issuer):
    return module_doorward(settings(recorder.url, engine.url, issuer, routes=ROUTES, serve={"service": "gate"}))


@pytest.fixture
def proxy(running, recorder, engine):
    recorder.reset()
    engine.reset()
    engine.says({"result": True})
    return running


def admin(daemon, path, *arguments, **how):
    return harness.curl(daemon.admin + path, *arguments, **how)


def flush(daemon, what, status=200):
    answer = admin(daemon, "/cache/flush", data=json.dumps(what).encode() if not isinstance(what, bytes) else what)
    assert answer.status == status, answer
    return answer


# --- where they are -------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("method,path,main,on_admin", [
    ("GET", "/health", 200, 200), ("HEAD", "/health", 200, 200), ("POST", "/health", 405, 405),
    ("GET", "/ready", 200, 200), ("GET", "/metrics", 404, 200), ("GET", "/metrics/json", 404, 200),
    ("HEAD", "/metrics", 404, 200), ("POST", "/metrics", 404, 405), ("GET", "/authorize", 404, 405),
    ("POST", "/authorize", 404, 400), ("POST", "/cache/flush", 404, 400), ("GET", "/cache/flush", 404, 405),
    ("GET", "/health/", 404, 404), ("GET", "/healthx", 404, 404), ("GET", "/%68ealth", 200, 200),
    ("GET", "/", 404, 404), ("GET", "/cwms-data/x", 200, 404), ("GET", "/pub/x", 200, 404),
])
def test_places(proxy, recorder, method, path, main, on_admin):
    data = b"" if method == "POST" else None
    for base, status in ((proxy.base, main), (proxy.admin, on_admin)):
        answer = harness.curl(base + path, *(["-I"] if method == "HEAD" else ["-X", method]), data=data)
        assert answer.status == status, (base, answer)
        if status == 405:
            assert answer.header("allow")
        if status >= 400 and method != "HEAD":
            assert answer.json["code"]
    assert recorder.targets() == ([path] if main == 200 and path in ("/cwms-data/x", "/pub/x") else [])


def test_health(proxy):
    answer = proxy.curl("/health")
    assert set(answer.json) == {"status", "timestamp", "service"}
    assert (answer.json["status"], answer.json["service"]) == ("healthy", "gate")
    assert answer.header("cache-control") == "no-store"


def test_own_endpoints_with_a_grant_header_or_a_body(proxy):
    assert proxy.curl("/health", "-H", "X-Auth-Context: forged", method="GET", data=b"x" * 1000).status == 200


def test_no_admin_address(doorward, recorder, engine, issuer):
    daemon = doorward(settings(recorder.url, engine.url, issuer, admin={"address": ""}))
    assert daemon.curl("/health").status == 200 and not harness.opened(daemon.admin_port)


def test_public_endpoints(doorward, recorder, engine, issuer):
    daemon = doorward(
    settings(
        recorder.url,
        engine.url,
        issuer,
        serve={
            "public_endpoints": True,
             "metrics_prefix": "gate_"}))
    assert daemon.metric("gate_http_requests_total", route="/health") >= 1
    assert daemon.curl("/metrics/json").status == 200
    assert daemon.curl("/authorize", data=b'{"resource":"x","action":"read"}').status == 200
    assert daemon.curl("/cache/flush", data=b'{"all":true}').body == b"ok", "a route's path, not ours"


# --- /ready ---------------------------------------------------------------------------------------------------------

def ready(daemon, status):
    def look():
        answer = daemon.curl("/ready")
        return answer.status == status and answer
    answer = harness.eventually(look, f"/ready is {status}", 8)
    assert answer.json["status"] == ("ready" if status == 200 else "not-ready")
    return {row["kind"]: row for row in answer.json["dependencies"]}, answer.json


def test_ready_says_what_is_missing(doorward, api, engine, issuer, redis):
    own_redis = harness.Redis()
    daemon = doorward(settings(f"http://127.0.0.1:{api.port}/cwms-data", engine.url, issuer,
                               serve={"probe_interval_ms": 200},
                               redis={"url": own_redis.url}))
    rows, whole = ready(daemon, 200)
    assert set(rows) == {"upstream", "policy", "issuer", "redis"} and not whole["degraded"] and not whole["draining"]
    assert all(row["ok"] and row["state"] and row["age_ms"] >= 0 and row["name"] for row in rows.values())
    troubles = [
        (lambda: api.set(root_status=500), "upstream", lambda: api.set(root_status=404)),
        (lambda: engine.says((500, {})), "policy", lambda: engine.says({"result": False})),
        (lambda: engine.says({}), "policy", lambda: engine.says({"result": True})),
        (lambda: engine.says({"result": None}), "policy", lambda: engine.says({"result": True})),
        (lambda: engine.says(b"garbage"), "policy", lambda: engine.says({"result": True})),
    ]
    for begin, kind, end in troubles:
        begin()
        rows, whole = ready(daemon, 503)
        assert [k for k, row in rows.items() if not row["ok"]] == [kind]
        assert (whole["downstream"] == "unavailable") == (kind == "upstream")
        assert daemon.curl("/health").status == 200
        end()
        ready(daemon, 200)
    told = [(line["event"], line["dependency"], line.get("name")) for line in daemon.lines if "dependency" in line]
    for event in ("dependency_down", "dependency_up"):
        assert (event, "upstream", "default") in told and (event, "policy", None) in told
    own_redis.stop()
    harness.eventually(lambda: ready(daemon, 200)[1]["degraded"], "Redis down is degraded, still ready")


def test_ready_asks_nobody(proxy, engine):
    """Probes run in the background; a thousand who ask cause none."""
    proxy.wait_ready()
    before = len(engine.server.asked)
    for _ in range(20):
        assert proxy.curl("/ready").status == 200
    assert len(engine.server.asked) == before


def test_ready_asks_no_policy_where_no_route_needs_one(doorward, recorder, engine, issuer):
    """Then none is missing; one that a reload brings is, until it answers."""
    engine.reset()
    config = settings(recorder.url, engine.url, issuer, routes=[{"prefix": "/pub", "access": "public"}])
    with_policy = json.dumps(config)
    del config["policy"]
    daemon = doorward(config)
    rows, _ = ready(daemon, 200)
    assert set(rows) == {"upstream", "issuer"}
    engine.says((500, {}))
    with open(daemon.config_file, encoding="utf-8") as file:
        current = json.load(file)
    for policy, status in ((json.loads(with_policy)["policy"], 503), (None, 200)):
        current.pop("policy", None)
        current.update({"policy": policy} if policy else {})
        with open(daemon.config_file, "w", encoding="utf-8") as file:
            json.dump(current, file)
        os.kill(daemon.process.pid, signal.SIGHUP)
        harness.eventually(lambda: ("policy" in ready(daemon, status)[0]) is bool(policy), "the row comes and goes")


def test_upstream_down(doorward, engine, issuer):
    engine.says({"result": True})
    daemon = doorward(settings("http://127.0.0.1:%d" % harness.free_port(), engine.url, issuer))
    rows, _ = ready(daemon, 503)
    assert not rows["upstream"]["ok"]
    answer = daemon.curl("/pub/x")
    assert (answer.status, answer.json["code"]) == (502, "upstream_unreachable")


# --- metrics --------------------------------------------------------------------------------------------------------

TYPES = {"counter", "gauge", "histogram"}


def parse(text):
    """The text format, strictly: {name: (type, {labels: value})}."""
    families, current = {}, None
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split(" ", 3)[2]
            assert current not in families and line.split(" ", 3)[3]
            families[current] = [None, {}]
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current and kind in TYPES
            families[name][0] = kind
        else:
            found = re.fullmatch(
    r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (\S+)', line)
            assert found, line
            name, labels, value = found.groups()
            base = re.sub(r"_(bucket|sum|count)$", "", name) if families[current][0] == "histogram" else name
            assert base == current, line
            key = (name, tuple(sorted(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or ""))))
            assert key not in families[current][1], "twice: " + line
            families[current][1][key] = float(value)
    return families


def test_metrics_are_valid(proxy):
    for path in ("/cwms-data/x", "/pub/x", "/health", "/nowhere",
                 "/cwms-data/..", '/cwms-data/a"b', "/cwms-data/%22%0A%5C"):
        proxy.curl(path)
    answer = admin(proxy, "/metrics")
    assert answer.header("content-type").startswith("text/plain; version=0.0.4")
    families = parse(answer.body.decode())
    assert all(name.startswith("doorward_") for name in families)
    for name, (kind, series) in families.items():
        if kind == "counter":
            assert name.endswith("_total") and all(v >= 0 for v in series.values())
        if kind == "histogram":
            check_histogram(name, series)
    text = harness.run_once("--print-metrics")[1].encode()
    assert all(name.removeprefix("doorward_").encode() in text for name in families), "all are documented"


def check_histogram(name, series):
    groups = {}
    for (part, labels), value in series.items():
        rest = tuple(pair for pair in labels if pair[0] != "le")
        le = dict(labels).get("le")
        groups.setdefault(rest, {})[le if part.endswith("_bucket") else part] = value
    for group in groups.values():
        buckets = [(float(le), v) for le, v in group.items() if not le.startswith(name)]
        ordered = [v for _, v in sorted(buckets)]
        assert ordered == sorted(ordered) and ordered[-1] == group["+Inf"] == group[name + "_count"]
        assert group[name + "_sum"] >= 0


def test_metrics_count(proxy, engine, issuer):
    before = proxy.metrics(admin=True)

    def grown(name, **labels):
        want = set(labels.items())
        total = {n: sum(v for (m, have), v in found.items() if m == "doorward_" + name and want <= have)
                 for n, found in (("before", before), ("after", after))}
        return total["after"] - total["before"]
    bearer = issuer.bearer("damop")
    for _ in range(3):
        proxy.curl("/cwms-data/counted", authorization=bearer)
    proxy.curl("/pub/x", method="HEAD")
    proxy.curl("/nowhere")
    proxy.curl("/cwms-data/x", authorization="Bearer x")
    engine.says({"result": False})
    proxy.curl("/cwms-data/denied")
    engine.says({})
    proxy.curl("/cwms-data/undefined")
    after = proxy.metrics(admin=True)
    assert grown("http_requests_total", route="/cwms-data", method="GET", status_code="200") == 3
    assert grown("http_requests_total", route="/pub", method="HEAD", status_code="200") == 1
    assert grown("http_requests_total", route="none", status_code="404") == 1
    assert grown("http_requests_total", status_code="401") == 1
    assert grown("http_requests_total", status_code="403") == 2
    assert grown("http_request_duration_seconds_count", route="/cwms-data", status_code="200") == 3
    assert grown("http_request_duration_seconds_sum") > 0
    assert grown("opa_evaluations_total", decision="allow", resource="cwms-data") == 1
    assert grown("opa_evaluations_total", decision="deny") == 1
    assert grown("opa_evaluations_total", decision="error") == 1
    assert grown("opa_cache_hits_total") == 2 and grown("opa_cache_misses_total") == 3
    assert grown("authorization_decisions_total", decision="allow") == 3
    assert grown("cache_hits_total", cache_type="token") == 2
    assert grown("requests_ended_total", reason="forwarded") == 4
    assert grown("requests_ended_total", reason="token_malformed") == 1
    assert grown("requests_ended_total", reason="policy_denied") == 1
    assert grown("requests_ended_total", reason="policy_undefined") == 1
    assert grown("requests_ended_total", reason="no_route") == 1
    assert grown("api_calls_total", status="200") == 4
    assert after[("doorward_process_resident_memory_bytes", frozenset())] > 1 << 20
    assert after[("doorward_process_open_fds", frozenset())] >= 5
    assert after[("doorward_active_connections", frozenset())] >= 1


def test_metrics_json(proxy):
    document = admin(proxy, "/metrics/json").json
    assert set(document) == {"timestamp", "metrics"} and isinstance(document["metrics"], list)
    names = {m["name"] for m in document["metrics"]}
    assert set(parse(admin(proxy, "/metrics").body.decode())) == names


def test_key_and_pool_gauges(proxy, issuer):
    proxy.curl("/pub/x")
    assert proxy.metric("doorward_keys", admin=True, issuer=issuer.name) == 2
    assert 0 <= proxy.metric("doorward_keys_age_seconds", admin=True, issuer=issuer.name) < 300
    assert proxy.metric("doorward_upstream_open_connections", admin=True, upstream="default") >= 1
    assert proxy.metric("doorward_breaker_state", admin=True) >= 0


# --- /authorize -----------------------------------------------------------------------------------------------------

def authorize(daemon, question, status=200):
    answer = admin(
    daemon,
    "/authorize",
    data=question if isinstance(
        question,
         bytes) else json.dumps(question).encode())
    assert answer.status == status, answer
    return answer.json


def test_authorize(proxy, engine, issuer, recorder):
    engine.says({"result": {"allow": False, "reason": "no"}})
    told = authorize(proxy, {"resource": "things", "action": "delete", "jwt_token": issuer.token("damop"),
                             "context": {"office_id": "SWT", "method": "GET", "path": "/other"}})
    assert told["decision"]["allow"] is False and told["decision"]["reason"] == "no" and told["decision"]["decision_id"]
    assert told["user"]["username"] == "damop"
    (question,) = engine.questions()
    assert (question["resource"], question["action"]) == ("things", "delete")
    assert question["context"]["method"] == "DELETE" and question["context"]["path"] == "/things"
    assert question["context"]["office_id"] == "SWT"
    engine.says({"result": True})
    assert authorize(proxy, {"resource": "a", "action": "read"})["user"]["id"] == "anonymous"
    assert recorder.seen == []


@pytest.mark.parametrize("question", [
    b"", b"{", b"[]", b'"x"', {"resource": "a"}, {"action": "read"}, {"resource": "", "action": "read"},
    {"resource": "a", "action": "fly"}, {"resource": 5, "action": "read"}, {
        "resource": "a", "action": "read", "context": []},
    {"resource": "a", "action": "read", "user": {"id": "root"}}, {"resource": "a", "action": "read", "jwt_token": 5},
    b'{"resource":"a","action":"read","action":"delete"}',
    b'{"resource":"a","action":"read","x":"' + b"a" * 70000 + b'"}',
])
def test_authorize_malformed(proxy, engine, question):
    answer = admin(proxy, "/authorize", data=question if isinstance(question, bytes) else json.dumps(question).encode())
    assert answer.status in (400, 413) and engine.questions() == []


def test_authorize_bad_token(proxy, issuer):
    told = authorize(
    proxy, {
        "resource": "a", "action": "read", "jwt_token": issuer.token(
            "damop", flaw="signature")}, 401)
    assert told["code"] == "token_signature"


# --- flushing -------------------------------------------------------------------------------------------------------

@pytest.fixture
def with_profiles(doorward, session_api, engine, issuer, redis, api):
    """Profiles of the API, kept for long in memory and Redis; a policy that wants a role."""
    redis.command("FLUSHALL")
    engine.reset()
    engine.says(lambda question: {"result": "dam_operator" in question["user"].get("roles", [])})
    daemon = doorward(settings(f"http://127.0.0.1:{api.port}", engine.url, issuer, routes=ROUTES,
                               redis={"url": redis.url},
                               context={"url": f"http://127.0.0.1:{api.port}{PROFILE}",
                                        "shape": "builtin:cwms/context.jq",
                                        "memory_ttl_s": 3600}, decisions={"ttl_s": 3600, "deny_ttl_s": 3600}))
    harness.eventually(lambda: not daemon.curl("/ready").json["degraded"], "Redis is connected")
    return daemon


def subject_of(token):
    return json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))["sub"]


def demote(api, user):
    api.server.users[user]["profile"] = {**api.server.users[user]["profile"], "roles": {"SWT": ["CWMS Users"]}}


@pytest.mark.parametrize("what", ["all", "issuer", "subject"])
def test_flush_makes_a_role_change_visible(with_profiles, api, issuer, what):
    proxy, bearer = with_profiles, issuer.bearer("damop")
    path = "/cwms-data/timeseries?office=SWT"
    assert proxy.curl(path, authorization=bearer).status == 200
    demote(api, "damop")
    assert proxy.curl(path, authorization=bearer).status == 200, "kept"
    flush(proxy, {"all": {"all": True}, "issuer": {"issuer": issuer.name},
                  "subject": {"issuer": issuer.name, "subject": subject_of(bearer)}}[what])
    assert proxy.curl(path, authorization=bearer).status == 403
    assert api.profiles_asked() == 2


@pytest.mark.parametrize("what", ["all", "issuer", "subject"])
def test_flush_makes_a_policy_change_visible(with_profiles, engine, issuer, what):
    """The same caller, the same question: what was decided before is asked again."""
    proxy, token = with_profiles, issuer.token("damop")
    assert proxy.curl("/cwms-data/x", authorization="Bearer " + token).status == 200
    engine.says({"result": False})
    assert proxy.curl("/cwms-data/x", authorization="Bearer " + token).status == 200, "kept"
    flush(proxy, {"all": {"all": True}, "issuer": {"issuer": issuer.name},
                  "subject": {"issuer": issuer.name, "subject": subject_of(token)}}[what])
    assert proxy.curl("/cwms-data/x", authorization="Bearer " + token).status == 403


def test_flush_of_others_leaves_me(with_profiles, api, issuer):
    proxy, bearer = with_profiles, issuer.bearer("damop")
    assert proxy.curl("/cwms-data/x", authorization=bearer).status == 200
    demote(api, "damop")
    for what in ({"issuer": issuer.name, "subject": "somebody"}, {"issuer": "https://other.test"},
                 {"issuer": "https://other.test", "subject": "damop"}):
        flush(proxy, what)
        assert proxy.curl("/cwms-data/x", authorization=bearer).status == 200
    assert api.profiles_asked() == 1


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"true", b'{"all":false}', b'{"all":1}',
                                  b'{"all":true,"issuer":"x"}',
                                  b'{"subject":"x"}', b'{"issuer":5}', b'{"issuer":"x","subject":5}',
                                  b'{"issuer":"x","x":1}',
                                  b'{"all":true} x', b'{"all":true,"all":true}'])
def test_flush_malformed(proxy, body):
    assert flush(proxy, body, 400).json["code"] == "invalid_body"


# --- the admin token ------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def guarded(module_doorward, recorder, engine, issuer, tmp_path_factory):
    file = tmp_path_factory.mktemp("secret") / "token"
    file.write_text(TOKEN + "\n")
    return module_doorward(settings(recorder.url, engine.url, issuer, admin={"token_file": str(file)}))


@pytest.mark.parametrize("given,status", [
    (None, 401), ("Bearer " + TOKEN, 200), ("bearer " + TOKEN,
     200), ("Bearer " + TOKEN[:-1], 401), ("Bearer " + TOKEN + "x", 401),
    ("Bearer", 401), ("Basic " + TOKEN, 401), (TOKEN, 401), ("Bearer " + TOKEN.upper(), 401),
])
def test_admin_token(guarded, given, status):
    for path, data in (("/metrics", None), ("/metrics/json", None), ("/cache/flush", b'{"all":true}'),
                       ("/authorize", b'{"resource":"a","action":"read"}')):
        answer = admin(guarded, path, *(["-H", "Authorization: " + given] if given else []), data=data)
        assert answer.status == status, (path, answer)
        if status == 401:
            assert answer.header("www-authenticate").startswith("Bearer")
    assert admin(guarded, "/health").status == admin(guarded, "/ready").status == 200
    assert TOKEN not in guarded.log_text()


def test_admin_beyond_loopback_needs_a_token(recorder, engine, issuer):
    status, _, stderr = harness.run_once("--check", config=settings(recorder.url, engine.url, issuer,
                                                                    admin={"address": "0.0.0.0:9901"}))
    assert status == 78 and "admin.address" in stderr


def test_grant_of_an_own_endpoint_does_not_exist(proxy, recorder):
    proxy.curl("/health")
    assert recorder.seen == []
    proxy.curl("/cwms-data/x")
    assert grant_of(recorder.last[0])["policy"]["allow"] is True
