"""The reference proxy's faults, gone: one test each, in drop-in mode with the real OPA and the demo's API."""
import json
import threading
import time

import pytest

import harness

FORGED_GRANT = json.dumps({"policy": {"allow": True}, "user": {"id": "ADMIN", "roles": ["system_admin"]}})


@pytest.fixture
def start(doorward, api, opa, redis):
    """start(env): a daemon of the test's own, in drop-in mode, with an empty Redis."""
    redis.command("FLUSHALL")

    def make(policy_url=None, **env):
        port = harness.free_port()
        return doorward(port=port, env={"CWMS_API_URL": api.url, "OPA_URL": policy_url or opa.url,
                                        "REDIS_URL": redis.url, "HOST": "127.0.0.1", "PORT": port, **env})
    return make


@pytest.fixture(scope="module")
def running(module_doorward, session_api, opa, redis):
    redis.command("FLUSHALL")
    port = harness.free_port()
    return module_doorward(port=port, env={"CWMS_API_URL": session_api.url, "OPA_URL": opa.url, "HOST": "127.0.0.1",
                                           "REDIS_URL": redis.url, "PORT": port})


@pytest.fixture
def proxy(running, api):
    return running


# "The token is decoded, never verified, and the context is cached under the name in it."
@pytest.mark.parametrize("flaw", ["key", "kid", "signature", "none", "hs256", "issuer", "expired"])
def test_forged_token_gets_nothing(proxy, api, issuer, flaw):
    assert proxy.curl("/cwms-data/timeseries?f=1", authorization=issuer.bearer("admin")).status == 200
    answer = proxy.curl("/cwms-data/timeseries?f=1", authorization=issuer.bearer("admin", flaw=flaw))
    assert answer.status == 401
    assert answer.header("www-authenticate").startswith("Bearer")
    assert 'error="invalid_token"' in answer.header("www-authenticate")
    assert len(api.forwarded()) == 1


def test_tampered_claims_get_nothing(proxy, api, issuer):
    """A good token of one user with another's name written into it."""
    import tokens
    head, payload, signature = issuer.token("viewer").split(".")
    claims = json.loads(tokens.decode(payload))
    claims["preferred_username"] = "admin"
    forged = f"{head}.{tokens.encode(json.dumps(claims).encode())}.{signature}"
    assert proxy.curl("/cwms-data/timeseries?t=1", authorization=issuer.bearer("admin")).status == 200
    assert proxy.curl("/cwms-data/timeseries?t=1", authorization="Bearer " + forged).status == 401
    assert len(api.forwarded()) == 1


# "An x-test-user header from anybody becomes the user."
def test_no_user_from_a_header(proxy, api):
    claim = json.dumps({"id": "ADMIN", "username": "admin", "roles": ["system_admin"], "offices": ["HQ"],
                        "authenticated": True})
    for name in ("x-test-user", "X-Test-User", "x-user", "x-forwarded-user", "remote-user"):
        assert proxy.curl("/cwms-data/timeseries?x=1", "-H", f"{name}: {claim}").status == 403
    assert proxy.curl("/cwms-data/offices?x=1", "-H", f"x-test-user: {claim}").status == 200
    assert api.forwarded()[-1]["grant"]["user"]["id"] == "anonymous"


# "What is not exactly on the list passes unjudged."
@pytest.mark.parametrize("path,status", [
    ("/cwms-data/timeseries", 403), ("/cwms-data/timeseries/", 403), ("/cwms-data/timeseries/a/b", 403),
    ("/cwms-data/timeseries/?a=1", 403), ("/cwms-data/%74imeseries", 403), ("/cwms-data/timeserie%73/", 403),
    ("/%63wms-data/timeseries", 403), ("/cwms-data//timeseries", 400), ("//cwms-data/timeseries", 400),
    ("/cwms-data/timeseries//", 400), ("/cwms-data/./timeseries", 400), ("/cwms-data/x/../timeseries", 400),
    ("/cwms-data/x/%2e%2e/timeseries", 400), ("/cwms-data%2ftimeseries", 404), ("/cwms-data/timeseries%2f", 400),
    ("/cwms-data/timeseries%00", 400), ("/cwms-data/%2574imeseries", 200), ("/cwms-data\\timeseries", 400),
    ("/cwms-data/timeseries%5c", 400), ("/cwms-data/docs/../timeseries", 400), ("/cwms-data/timeseries#x", 400),
    ("/cwms-data/timeseries%", 400), ("/cwms-data/timeseries;v=1", 400), ("/cwms-data/timeseries%3bv=1", 400),
    ("/cwms-data/timeseries;v=1/a", 400), ("/cwms-data;v=1/timeseries", 404), ("/cwms-data/timeseries/a;b", 403),
    ("/cwms-data/levels/a;b", 200), ("/cwms-data/timeserie%73;/a", 400),
])
def test_no_way_around_the_list(proxy, api, path, status):
    answer = proxy.raw(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    got = int(answer.split(b" ")[1])
    seen = api.forwarded()
    assert got == status, answer
    if status != 200:
        assert not seen
    else:
        assert [s["target"] for s in seen] == [path]


@pytest.mark.parametrize("name", ["x-cwms-auth-context", "X-CWMS-Auth-Context", "x_cwms_auth_context",
                                  "X-CWMS_AUTH-CONTEXT", "x.cwms.auth.context"])
@pytest.mark.parametrize("path", ["/cwms-data/levels", "/cwms-data/docs", "/cwms-data/offices"])
def test_clients_grant_is_removed(proxy, api, path, name):
    answer = proxy.curl(path, "-H", f"{name}: {FORGED_GRANT}", "-H", f"{name}: again")
    assert answer.status == 200
    (seen,) = api.forwarded()
    assert seen["grants"] == (1 if path.endswith("offices") else 0)
    alike = [value for key, value in seen["header_lines"]
             if key.lower().replace("_", "-").replace(".", "-") == "x-cwms-auth-context"]
    assert len(alike) == seen["grants"]
    assert "system_admin" not in json.dumps(seen)


def test_client_cannot_have_the_grant_dropped(proxy, api):
    """Connection names the header: the hop's headers go before the grant is put in."""
    assert proxy.curl("/cwms-data/offices?hop=1", "-H", "Connection: x-cwms-auth-context").status == 200
    assert api.forwarded()[0]["grants"] == 1


# "Role changes do not change the decision key."
def test_role_change_changes_the_decision(start, api, issuer, redis):
    proxy = start(DOORWARD_CONTEXT_MEMORY_TTL_S=0)
    token = issuer.bearer("viewer")
    assert proxy.curl("/cwms-data/timeseries?office=SWT", authorization=token).status == 200
    api.server.users["viewer"]["profile"]["roles"] = {"SWT": ["Somebody Else"]}
    redis.command("FLUSHALL")
    assert proxy.curl("/cwms-data/timeseries?office=SWT", authorization=token).status == 403
    api.server.users["viewer"]["profile"]["roles"] = {"SWT": ["Viewer Users"]}
    redis.command("FLUSHALL")
    assert proxy.curl("/cwms-data/timeseries?office=SWT", authorization=token).status == 200


# "CACHE_MAX_SIZE is not used, the map has no bound."
def test_cache_is_bounded(start, policy):
    proxy = start(policy.url, CACHE_MAX_SIZE=10)
    for i in range(40):
        assert proxy.curl(f"/cwms-data/offices?n={i}").status == 200
    policy.reset()
    assert proxy.curl("/cwms-data/offices?n=39").status == 200
    assert not policy.questions()
    assert proxy.curl("/cwms-data/offices?n=0").status == 200
    assert len(policy.questions()) == 1
    entries = [value for (name, labels), value in proxy.metrics().items()
               if name == "authorizer_proxy_cache_entries" and ("cache_type", "decision") in labels]
    assert entries and entries[0] <= 10


# "Decisions that depend on time are cached regardless."
def test_time_bounds_a_decision(start, policy):
    proxy = start(policy.url)
    policy.says({"result": {"allow": True, "ttl": 0}})
    for _ in range(2):
        assert proxy.curl("/cwms-data/offices?ttl=0").status == 200
    assert len(policy.questions()) == 2
    policy.reset()
    policy.says({"result": {"allow": True, "ttl": 2}})
    for _ in range(2):
        assert proxy.curl("/cwms-data/offices?ttl=2").status == 200
    assert len(policy.questions()) == 1
    time.sleep(2.2)
    policy.says({"result": {"allow": False, "reason": "too late"}})
    answer = proxy.curl("/cwms-data/offices?ttl=2")
    assert (answer.status, answer.json["message"]) == (403, "too late")


def test_time_bounds_the_real_policys_decision(start, api, opa, issuer):
    engine = harness.Policy(behind=opa.url)
    try:
        proxy = start(engine.url)
        path, token = "/cwms-data/timeseries?office=SWT&data_source=MANUAL", issuer.bearer("damop")
        assert proxy.curl(path, authorization=token, method="POST").status == 200
        asked = json.loads(harness.http("POST", opa.url + "/v1/data/cwms/authz/allow",
                                        json.dumps({"input": engine.questions()[0]}).encode()))
        assert 0 <= asked["result"]["ttl"] <= 300
    finally:
        engine.stop()


# "Redis down at start stops it."
def test_redis_may_come_later(start, api, issuer):
    port = harness.free_port()
    proxy = start(REDIS_URL=f"redis://127.0.0.1:{port}", DOORWARD_CONTEXT_MEMORY_TTL_S=0,
                  DOORWARD_TOKENS_ISSUERS=issuer.as_option())
    proxy.wait_ready()
    assert proxy.curl("/cwms-data/offices?r=1", authorization=issuer.bearer("hec")).status == 200
    assert proxy.curl("/ready").json["degraded"] is True
    redis = harness.Redis(port)
    try:
        def used():
            assert proxy.curl("/cwms-data/offices?r=2", authorization=issuer.bearer("hec")).status == 200
            return redis.keys()
        harness.eventually(used, "the context is in Redis")
    finally:
        redis.stop()
    assert proxy.curl("/cwms-data/offices?r=3", authorization=issuer.bearer("hec")).status == 200


# "Readiness never fails."
def test_readiness_fails(start, policy):
    upstream_port = harness.free_port()
    proxy = start(policy.url, CWMS_API_URL=f"http://127.0.0.1:{upstream_port}/cwms-data",
                  DOORWARD_SERVE_PROBE_INTERVAL_MS=100)
    answer = proxy.curl("/ready")
    assert answer.status == 503
    assert answer.json["status"] == "not-ready"
    assert answer.json["downstream"] == "unavailable"
    assert proxy.curl("/health").status == 200


def test_readiness_follows_the_api_and_the_policy(start, api, policy):
    proxy = start(policy.url, DOORWARD_SERVE_PROBE_INTERVAL_MS=100)
    proxy.wait_ready()
    api.set(root_status=500)
    harness.eventually(lambda: proxy.curl("/ready").status == 503, "not ready: the API fails")
    api.set(root_status=404)
    proxy.wait_ready()
    policy.says({})
    harness.eventually(lambda: proxy.curl("/ready").status == 503, "not ready: the policy is undefined")
    policy.says({"result": False})
    proxy.wait_ready()
    policy.says((500, b"down"))
    harness.eventually(lambda: proxy.curl("/ready").status == 503, "not ready: the engine fails")


# "Raw paths are metric labels."
def test_paths_are_no_labels(proxy, issuer):
    proxy.curl("/cwms-data/levels/x")
    before = {key for key in proxy.metrics()}
    for i in range(30):
        proxy.curl(f"/cwms-data/levels/secret-{i}")
        proxy.curl(f"/cwms-data/res-{i}/x")
        proxy.curl(f"/elsewhere-{i}")
        proxy.curl(f"/cwms-data/timeseries/row-{i}")
    after = proxy.metrics()
    assert len(set(after) - before) < 40
    assert not [key for key in after if "secret-" in str(key) or "res-" in str(key) or "row-" in str(key) or
                "elsewhere" in str(key)]


# "The duration histogram is never filled."
def test_durations_are_filled(proxy):
    proxy.curl("/cwms-data/slow?ms=120")
    found = proxy.metrics()
    prefix = "authorizer_proxy_http_request_duration_seconds"
    counts = {labels: v for (name, labels), v in found.items() if name == prefix + "_count"}
    totals = {labels: v for (name, labels), v in found.items() if name == "authorizer_proxy_http_requests_total"}
    assert counts and counts == totals
    assert sum(v for (name, _), v in found.items() if name == prefix + "_sum") >= 0.12
    for labels, count in counts.items():
        infinite = found[(prefix + "_bucket", labels | {("le", "+Inf")})]
        assert infinite == count
        buckets = [(float(dict(ls)["le"]), v) for (name, ls), v in found.items()
                   if name == prefix + "_bucket" and labels < ls]
        assert [v for _, v in sorted(buckets)] == sorted(v for _, v in buckets)


# "Tokens and all headers in the debug log."
def test_debug_log_has_no_secrets(start, api, issuer):
    proxy = start(LOG_LEVEL="debug", CWMS_API_KEY="our-own-service-key-4711")
    good, bad = issuer.token("damop"), issuer.token("damop", flaw="signature")
    for token in (good, bad):
        answer = proxy.curl("/cwms-data/timeseries?office=SWT", "-H", "Cookie: session=cookie-secret-1", "-H",
                            "X-Api-Key: header-secret-2", authorization="Bearer " + token)
        proxy.log(answer.request_id)
    answer = proxy.curl("/cwms-data/levels", authorization="apikey key-secret-3", method="POST", data=b"body-secret-4")
    proxy.log(answer.request_id)
    proxy.curl("/authorize", method="POST", data=json.dumps(
        {"resource": "offices", "action": "read", "jwt_token": good}).encode())
    proxy.curl("/cwms-data/levels?password=query-secret-5")
    time.sleep(0.3)
    text = proxy.log_text()
    for secret in (good, bad, good.split(".")[1], good.split(".")[2], bad.split(".")[2], "our-own-service-key",
                   "cookie-secret-1", "header-secret-2", "key-secret-3", "body-secret-4", "query-secret-5"):
        assert secret not in text


# "SIGTERM drops requests in flight."
def test_sigterm_drains(start, api):
    proxy = start()
    answers = []

    def ask():
        answers.append(proxy.curl("/cwms-data/slow?ms=1500"))
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    harness.eventually(lambda: len(api.seen("/cwms-data/slow")) == 4, "requests are in flight")
    idle = proxy.client()
    idle.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert idle.answer().status == 200
    proxy.process.child.terminate()
    assert idle.all() == b""  # an idle connection is closed at once
    harness.eventually(lambda: not harness.opened(proxy.port), "no new connections")
    for thread in threads:
        thread.join()
    assert [a.status for a in answers] == [200] * 4
    assert proxy.process.child.wait(harness.PATIENCE_S) == 0
    proxy.ended_as_told()


# "Any origin is reflected with credentials."
def test_origins_get_no_credentials(proxy, start):
    for arguments in ([], ["-X", "OPTIONS", "-H", "Access-Control-Request-Method: GET"]):
        answer = proxy.curl("/cwms-data/offices", "-H", "Origin: https://evil.example", *arguments)
        assert answer.header("access-control-allow-origin") == "https://evil.example"
        assert answer.header("access-control-allow-credentials") is None
    named = start(DOORWARD_CORS_ORIGINS="https://app.example", DOORWARD_CORS_CREDENTIALS="true")
    answer = named.curl("/cwms-data/offices", "-H", "Origin: https://app.example")
    assert answer.header("access-control-allow-origin") == "https://app.example"
    assert answer.header("access-control-allow-credentials") == "true"
    answer = named.curl("/cwms-data/offices", "-H", "Origin: https://evil.example")
    assert answer.header("access-control-allow-origin") is None
    assert answer.header("access-control-allow-credentials") is None


# "HEAD maps to no action."
def test_head_reads(proxy, api, issuer):
    answer = proxy.curl("/cwms-data/timeseries?office=SWT", method="HEAD", authorization=issuer.bearer("viewer"))
    assert answer.status == 200
    assert api.forwarded()[0]["method"] == "HEAD"
    assert proxy.curl("/cwms-data/timeseries?office=SPK", method="HEAD",
                      authorization=issuer.bearer("viewer")).status == 403
