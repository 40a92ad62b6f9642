"""Drop-in mode, started with nothing but the reference proxy's variables: its endpoints, its questions to the policy
and the header the API gets, field by field, for every persona."""
import json
import re
import time

import pytest

import harness
from personas import MAY, SEEN, WHAT_IF

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


@pytest.fixture(scope="module")
def engine(opa):
    """The real OPA behind a peer that keeps the questions."""
    peer = harness.Policy(behind=opa.url)
    yield peer
    peer.stop()


@pytest.fixture(scope="module")
def running(module_doorward, session_api, engine, redis):
    redis.command("FLUSHALL")
    port = harness.free_port()
    daemon = module_doorward(env={"CWMS_API_URL": session_api.url, "OPA_URL": engine.url, "REDIS_URL": redis.url,
                                  "HOST": "127.0.0.1", "PORT": port}, port=port)
    daemon.wait_ready()
    return daemon


@pytest.fixture
def proxy(running, api, engine):
    engine.reset()
    return running


@pytest.fixture
def bearer(issuer):
    kept = {}

    def make(user):
        if user and user not in kept:
            kept[user] = issuer.bearer(user)
        return kept.get(user)
    return make


def without_nulls(mapping):
    return {key: value for key, value in mapping.items() if value is not None}


def iso(text):
    return bool(ISO.fullmatch(text))


# --- 1. endpoints of its own -----------------------------------------------------------------------------------------

def test_health(proxy):
    answer = proxy.curl("/health")
    assert answer.status == 200
    assert answer.header("content-type").startswith("application/json")
    assert answer.json["status"] == "healthy"
    assert answer.json["service"] == "authorizer-proxy"
    assert iso(answer.json["timestamp"])


def test_ready(proxy):
    answer = proxy.curl("/ready")
    assert answer.status == 200
    assert answer.json["status"] == "ready"
    assert answer.json["downstream"] == "available"
    assert iso(answer.json["timestamp"])


def test_metrics_text(proxy):
    answer = proxy.curl("/metrics")
    assert answer.status == 200
    assert answer.header("content-type").startswith("text/plain")
    assert "# TYPE authorizer_proxy_http_requests_total counter" in answer.body.decode()
    assert proxy.metrics()


def test_metrics_json(proxy):
    document = proxy.curl("/metrics/json").json
    assert iso(document["timestamp"])
    assert isinstance(document["metrics"], list) and document["metrics"]
    assert "authorizer_proxy_http_requests_total" in json.dumps(document["metrics"])


@pytest.mark.parametrize("path", ["/", "/other", "/cwms-datax", "/cwms-dat", "/healthy"])
def test_not_found(proxy, api, path):
    answer = proxy.curl(path)
    assert answer.status == 404
    assert answer.json["error"] == "Not Found"
    assert answer.json["message"]
    assert answer.json["request_id"] == answer.request_id
    assert not api.forwarded()


# --- 2. proxied requests ---------------------------------------------------------------------------------------------

@pytest.mark.parametrize("path", ["/cwms-data/health", "/cwms-data/docs", "/cwms-data/docs/x/y", "/cwms-data/swagger",
                                  "/cwms-data/swagger/ui.html", "/cwms-data/levels?office=SPK",
                                  "/cwms-data/status/418"])
def test_not_listed_passes_without_grant(proxy, api, engine, path):
    answer = proxy.curl(path, "-H", "x-cwms-auth-context: {\"user\":{\"roles\":[\"system_admin\"]}}")
    assert answer.status == (418 if path.endswith("418") else 200)
    (seen,) = api.forwarded()
    assert seen["target"] == path
    assert seen["grants"] == 0
    assert not engine.questions()


def test_root_of_the_api_passes(proxy, api):
    for path in ("/cwms-data", "/cwms-data/"):
        assert proxy.curl(path).status == 200
        assert [s for s in api.seen(path) if s["method"] == "GET"][-1]["grants"] == 0


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_any_method_with_its_body(proxy, api, method):
    body = b"\0\xff body " * 1000
    answer = proxy.curl("/cwms-data/levels", "-H", "Content-Type: application/x-test", method=method,
                        data=None if method in ("GET", "OPTIONS") else body)
    assert answer.status == 200
    (seen,) = api.forwarded()
    assert seen["method"] == method
    if method not in ("GET", "OPTIONS"):
        assert seen["body"]["length"] == len(body)
        assert seen["headers"]["content-type"] == "application/x-test"


@pytest.mark.parametrize("user", SEEN, ids=str)
def test_header_of_each_user(proxy, api, bearer, user):
    """GET /offices is anybody's, so that every user's header can be seen."""
    before = time.time()
    answer = proxy.curl("/cwms-data/offices?limit=1", authorization=bearer(user))
    assert answer.status == 200, answer
    (seen,) = api.forwarded()
    assert seen["grants"] == 1
    assert seen["target"] == "/cwms-data/offices?limit=1"
    assert seen["headers"].get("authorization") == ("present" if user else None)
    grant = seen["grant"]
    assert without_nulls(grant["user"]) == without_nulls(SEEN[user]["user"])
    assert grant["constraints"] == SEEN[user]["constraints"]
    assert set(grant) == {"policy", "user", "constraints", "context", "timestamp"}
    assert set(grant["policy"]) == {"allow", "decision_id"}
    assert grant["policy"]["allow"] is True
    assert isinstance(grant["policy"]["decision_id"], str) and grant["policy"]["decision_id"]
    assert grant["context"] in ({}, None)
    assert iso(grant["timestamp"])
    made = time.strptime(grant["timestamp"][:19], "%Y-%m-%dT%H:%M:%S")
    assert before - 400 < time.mktime(made) - time.timezone < time.time() + 1


def test_header_is_one_line_of_ascii(proxy, api, bearer):
    api.server.users["plain"]["profile"]["user-name"] = "Plain.Üser\u2028"
    try:
        proxy.curl("/cwms-data/offices?ascii=1", authorization=bearer("plain"))
        (seen,) = api.forwarded()
        value = seen["headers"]["x-cwms-auth-context"]
        assert value.isascii() and value.isprintable()
    finally:
        api.reset()


@pytest.mark.parametrize("user,method,query,allowed", MAY)
def test_who_may_what(proxy, api, bearer, user, method, query, allowed):
    path = "/cwms-data/timeseries" + ("?" + query if query else "")
    answer = proxy.curl(path, authorization=bearer(user), method=method)
    seen = api.forwarded()
    if allowed:
        assert answer.status == 200, answer
        assert [s["target"] for s in seen] == [path]
        assert seen[0]["method"] == method
        assert seen[0]["grant"]["user"]["id"] == SEEN[user]["user"]["id"]
        assert seen[0]["grant"]["policy"]["allow"] is True
    else:
        assert answer.status == 403, answer
        assert answer.json["error"] == "Forbidden"
        assert answer.json["message"]
        assert not seen


def test_denial_gives_the_policys_reason(proxy, bearer):
    answer = proxy.curl("/cwms-data/timeseries?office=SWT&data_source=MANUAL&why=1", authorization=bearer("damop-off"),
                        method="POST")
    assert answer.status == 403
    assert answer.json["message"] == "Outside of the shift."
    assert answer.json["code"] == "policy_denied"


INPUTS = [
    ("GET", "/cwms-data/timeseries?office=SWT&a=1", "timeseries", "read",
     {"query": {"office": "SWT", "a": "1"}, "office_id": "SWT"}),
    ("HEAD", "/cwms-data/timeseries?office_id=SPK", "timeseries", "read",
     {"query": {"office_id": "SPK"}, "office_id": "SPK"}),
    ("POST", "/cwms-data/timeseries?data_source=MANUAL&classification=public", "timeseries", "create",
     {"query": {"data_source": "MANUAL", "classification": "public"}, "data_source": "MANUAL",
      "classification": "public"}),
    ("PUT", "/cwms-data/timeseries/x%20y/versions", "timeseries", "update", {"query": {}}),
    ("PATCH", "/cwms-data/offices/SWT", "offices", "update", {"query": {}}),
    ("DELETE", "/cwms-data/offices?begin=a+b&end=%C3%BC", "offices", "delete",
     {"query": {"begin": "a b", "end": "ü"}}),
    ("OPTIONS", "/cwms-data/offices", "offices", "unknown", {"query": {}}),
    ("PROPFIND", "/cwms-data/offices", "offices", "unknown", {"query": {}}),
]


@pytest.mark.parametrize("method,path,resource,action,context", INPUTS)
def test_policy_input(proxy, engine, bearer, method, path, resource, action, context):
    proxy.curl(path, authorization=bearer("viewer"), method=method)
    (question,) = engine.questions()
    assert question["resource"] == resource
    assert question["action"] == action
    given = dict(question["context"])
    assert iso(given.pop("timestamp"))
    wanted = {"method": method, "path": path, **context}
    assert without_nulls(given) == wanted
    assert question["user"] == {
        "id": "VIEWER", "username": "VIEWER", "email": "viewer@usace.mil", "roles": ["Viewer Users"],
        "offices": ["SWT", "LRL"], "primary_office": "SWT", "authenticated": True,
        "ts_privileges": SEEN["viewer"]["user"]["ts_privileges"]}


def test_policy_is_asked_at_the_references_path(proxy, engine):
    proxy.curl("/cwms-data/offices?path=1")
    (target,) = {q["target"] for q in engine.server.asked if "path=1" in json.dumps(q["input"])}
    assert target.split("?")[0] == "/v1/data/cwms/authz/allow"


def test_anonymous_input(proxy, engine):
    assert proxy.curl("/cwms-data/offices?who=nobody").status == 200
    (question,) = engine.questions()
    assert question["user"] == {"id": "anonymous", "username": "anonymous", "roles": [], "offices": [],
                                "authenticated": False}


def test_decision_is_kept(proxy, engine, bearer):
    for _ in range(3):
        assert proxy.curl("/cwms-data/offices?kept=1", authorization=bearer("hec")).status == 200
    assert len(engine.questions()) == 1
    proxy.curl("/cwms-data/offices?kept=2", authorization=bearer("hec"))
    proxy.curl("/cwms-data/offices?kept=1", authorization=bearer("admin"))
    assert len(engine.questions()) == 3


def test_profile_is_asked_once_and_not_kept_under_a_name(proxy, api, redis, issuer):
    """Nothing is verified here, so no name opens a kept context: not in Redis for 1800 s, as the reference does it."""
    token = issuer.bearer("water", lifetime_s=600)
    for i in range(3):
        assert proxy.curl(f"/cwms-data/offices?once={i}", authorization=token).status == 200
    assert api.profiles_asked() == 1
    (asked,) = api.seen("/cwms-data/user/profile")
    assert asked["headers"]["authorization"] == "present"
    for key in redis.keys():
        assert "water" not in key.lower()
        assert 0 < redis.command("TTL", key) <= 30


def test_profile_unknown_is_anonymous(proxy, api, bearer):
    """A good token whose user the API does not know."""
    assert proxy.curl("/cwms-data/offices?ghost=1", authorization=bearer("ghost")).status == 200
    (seen,) = api.forwarded()
    assert seen["grant"]["user"]["id"] == "anonymous"
    assert proxy.curl("/cwms-data/timeseries?office=SWT&ghost=1", authorization=bearer("ghost")).status == 403


def test_profile_failing_is_503(proxy, api, issuer):
    api.set(profile_status=500)
    answer = proxy.curl("/cwms-data/offices?down=1", authorization=issuer.bearer("hec", lifetime_s=601))
    assert answer.status == 503
    assert answer.header("retry-after")
    assert not api.forwarded()


def test_api_key(proxy, api):
    answer = proxy.curl("/cwms-data/timeseries?office=SWT&data_source=AUTOMATED", method="POST",
                        authorization="apikey demo-collector-key")
    assert answer.status == 200
    assert api.forwarded()[0]["grant"]["user"]["id"] == "COLLECTOR"
    assert proxy.curl("/cwms-data/offices?key=bad", authorization="apikey nobodys").status == 401


def test_query_is_sent_as_it_came(proxy, api):
    target = "/cwms-data/offices?b=2&a=%7e%2F+x&b=3&&=&empty="
    assert proxy.curl(target).status == 200
    assert api.forwarded()[0]["target"] == target


@pytest.mark.parametrize("query", ["office=SWT&office=SPK", "office=SWT&office_id=SPK", "office=%FF", "office=%G1",
                                   "classification=public&classification=sensitive"])
def test_ambiguous_query(proxy, api, bearer, query):
    answer = proxy.curl("/cwms-data/timeseries?" + query, authorization=bearer("admin"))
    assert answer.status == 400
    assert answer.json["code"] == "ambiguous_query"
    assert not api.forwarded()


def test_apis_answers_pass(proxy, api):
    for status in (204, 301, 404, 409, 500, 503):
        answer = proxy.curl(f"/cwms-data/status/{status}")
        assert answer.status == status
    assert proxy.curl("/cwms-data/levels").header("x-api") == "demo"


def test_cors(proxy, api):
    origin = "https://app.example"
    preflight = proxy.curl("/cwms-data/timeseries", "-H", f"Origin: {origin}", "-H",
                           "Access-Control-Request-Method: PUT", "-H", "Access-Control-Request-Headers: authorization",
                           method="OPTIONS")
    assert preflight.status in (200, 204)
    assert preflight.header("access-control-allow-origin") == origin
    methods = {m.strip() for m in preflight.header("access-control-allow-methods").split(",")}
    assert methods == {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
    assert "authorization" in preflight.header("access-control-allow-headers").lower()
    assert not api.forwarded()
    for path, status in (("/cwms-data/offices", 200), ("/cwms-data/timeseries", 403), ("/nowhere", 404)):
        answer = proxy.curl(path, "-H", f"Origin: {origin}")
        assert answer.status == status
        assert answer.header("access-control-allow-origin") == origin
        assert "origin" in ",".join(answer.all("vary")).lower()


# --- 4. POST /authorize ----------------------------------------------------------------------------------------------

def authorize(proxy, question, authorization=None):
    data = question if isinstance(question, bytes) else json.dumps(question).encode()
    return proxy.curl("/authorize", "-H", "Content-Type: application/json", data=data, method="POST",
                      authorization=authorization)


@pytest.mark.parametrize("user", SEEN, ids=str)
def test_authorize_by_token(proxy, engine, bearer, user):
    question = {"resource": "offices", "action": "read"}
    if user:
        question["jwt_token"] = bearer(user).split(" ")[1]
    answer = authorize(proxy, question)
    assert answer.status == 200, answer
    document = answer.json
    assert set(document) == {"decision", "user", "constraints", "timestamp"}
    assert document["decision"]["allow"] is True
    assert isinstance(document["decision"]["decision_id"], str) and document["decision"]["decision_id"]
    assert document["decision"]["reason"]
    wanted = dict(SEEN[user]["user"])
    del wanted["ts_privileges"]
    assert without_nulls(document["user"]) == without_nulls(wanted)
    assert document["constraints"] == SEEN[user]["constraints"]
    assert iso(document["timestamp"])


@pytest.mark.parametrize("action,method", [("read", "GET"), ("create", "POST"), ("update", "PUT"),
                                           ("delete", "DELETE")])
def test_authorize_input(proxy, engine, bearer, action, method):
    question = {"resource": "levels", "action": action, "jwt_token": bearer("viewer").split(" ")[1],
                "context": {"office_id": "SWT", "data_source": "MANUAL", "created_ns": 5, "timestamp_ns": 7,
                            "more": [1]}}
    answer = authorize(proxy, question)
    assert answer.json["decision"]["allow"] is (action == "read")
    (asked,) = engine.questions("VIEWER")
    context = dict(asked["context"])
    assert iso(context.pop("timestamp"))
    assert without_nulls(context) == {"method": method, "path": "/cwms-data/levels", "query": {}, "office_id": "SWT",
                                      "data_source": "MANUAL", "created_ns": 5, "timestamp_ns": 7, "more": [1]}
    assert (asked["resource"], asked["action"]) == ("levels", action)


def with_times(value):
    """Ages and spans of the table to times from now."""
    now = time.time_ns()
    return {k: now + v if k.endswith("_ns") else v for k, v in value.items()}


@pytest.mark.parametrize("name,user,resource,action,context,allowed", WHAT_IF, ids=[w[0] for w in WHAT_IF])
def test_authorize_what_if(proxy, api, name, user, resource, action, context, allowed):
    answer = authorize(proxy, {"resource": resource, "action": action, "user": with_times(user),
                               "context": with_times(context)})
    assert answer.status == 200, answer
    assert answer.json["decision"]["allow"] is allowed
    assert answer.json["user"]["id"] == user["id"]
    assert answer.json["user"]["roles"] == user["roles"]
    assert not api.profiles_asked() and not api.forwarded()


@pytest.mark.parametrize("question", [
    {}, {"resource": "offices"}, {"action": "read"}, {"resource": "", "action": "read"},
    {"resource": "offices", "action": "look"}, {"resource": "offices", "action": ["read"]},
    {"resource": 1, "action": "read"}, [], "text", b"{", b"", b'{"resource":"offices","action":"read"} x',
], ids=repr)
def test_authorize_malformed(proxy, engine, question):
    answer = authorize(proxy, question)
    assert answer.status == 400, answer
    assert answer.json["error"] == "Bad Request"
    assert not engine.questions()


def test_authorize_context_cannot_replace_what_is_judged(proxy, engine):
    authorize(proxy, {"resource": "levels", "action": "delete", "user": {"id": "X", "roles": []},
                      "context": {"method": "GET", "path": "/health", "query": {"a": "1"}, "user": {"id": "Y"},
                                  "timestamp": "1970-01-01T00:00:00Z"}})
    (asked,) = engine.questions("X")
    assert asked["context"]["method"] == "DELETE"
    assert asked["context"]["path"] == "/cwms-data/levels"
    assert asked["context"]["query"] == {}
    assert not asked["context"]["timestamp"].startswith("1970")
    assert asked["user"]["id"] == "X"


def test_authorize_bad_token_is_401(proxy, issuer):
    for bad in ("nonsense", issuer.token("damop", flaw="expired"), issuer.token("damop", flaw="key")):
        answer = authorize(proxy, {"resource": "offices", "action": "read", "jwt_token": bad})
        assert answer.status == 401, answer
        assert bad not in answer.body.decode()


def test_authorize_what_if_is_not_kept(proxy, engine):
    question = {"resource": "levels", "action": "read", "user": {"id": "W", "username": "W", "roles": []}}
    for _ in range(2):
        assert authorize(proxy, question).json["decision"]["allow"] is False
    assert len(engine.questions("W")) == 2


# --- 5. metrics ------------------------------------------------------------------------------------------------------

# Redis is used once names are verified: its metric stands in test_dropin_variables.
REFERENCE_METRICS = {
    "http_request_duration_seconds": {"method", "route", "status_code"},
    "http_requests_total": {"method", "route", "status_code"},
    "opa_evaluation_duration_seconds": {"resource", "action", "decision"},
    "opa_evaluations_total": {"resource", "action", "decision"},
    "cache_hits_total": {"cache_type"},
    "cache_misses_total": {"cache_type"},
    "api_call_duration_seconds": {"endpoint", "status"},
    "api_calls_total": {"endpoint", "status"},
    "authorization_decisions_total": {"decision", "resource"},
    "active_connections": set(),
    "opa_cache_hits_total": set(),
    "opa_cache_misses_total": set(),
}


@pytest.mark.parametrize("name", REFERENCE_METRICS)
def test_reference_metrics(proxy, issuer, name):
    for _ in range(2):
        proxy.curl("/cwms-data/offices?metrics=1", authorization=issuer.bearer("hec"))
    histogram = name.endswith("_duration_seconds")
    full = "authorizer_proxy_" + name
    series = [labels for (n, labels) in proxy.metrics() if n == (full + "_count" if histogram else full)]
    assert series, f"{full} has no series"
    for labels in series:
        assert {key for key, _ in labels} == REFERENCE_METRICS[name]


def test_metrics_count(proxy, engine, bearer):
    def now():
        decisions = "authorizer_proxy_authorization_decisions_total"
        return {
            "allow": proxy.metric(decisions, decision="allow", resource="offices"),
            "deny": proxy.metric(decisions, decision="deny", resource="offices"),
            "asked": proxy.metric("authorizer_proxy_opa_evaluations_total", resource="offices"),
            "hits": proxy.metric("authorizer_proxy_opa_cache_hits_total"),
            "misses": proxy.metric("authorizer_proxy_opa_cache_misses_total"),
        }
    before = now()
    for _ in range(3):
        proxy.curl("/cwms-data/offices?counted=1", authorization=bearer("hec"))
    proxy.curl("/cwms-data/offices?counted=1", authorization=bearer("viewer"), method="DELETE")
    after = now()
    assert {k: after[k] - before[k] for k in after} == {"allow": 3, "deny": 1, "asked": 2, "hits": 2, "misses": 2}
