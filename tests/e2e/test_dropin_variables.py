"""The reference's variables, each with what it does, and what decides whether drop-in mode is on."""
import json
import time

import pytest

import harness


@pytest.fixture
def start(doorward, api, policy, redis):
    redis.command("FLUSHALL")

    def make(wait=True, without=(), arguments=(), **env):
        port = harness.free_port()
        given = {"CWMS_API_URL": api.url, "OPA_URL": policy.url, "REDIS_URL": redis.url, "HOST": "127.0.0.1",
                 "PORT": port, **env}
        for name in without:
            given.pop(name)
        return doorward(port=port, env=given, wait=wait, arguments=arguments)
    return make


def printed(env, *arguments):
    status, out, err = harness.run_once("--print-config", *arguments, env=env)
    assert status == 0, err
    return out


def test_defaults():
    """Both names that turn it on, and nothing else."""
    text = printed({"CWMS_API_URL": "http://localhost:7001/cwms-data", "OPA_URL": "http://localhost:8181"})
    for value in ("0.0.0.0:3001", "http://localhost:7001/cwms-data", "30000",
                  "http://localhost:8181/v1/data/cwms/authz/allow", "redis://localhost:6379", "300", "1000",
                  "/cwms-data/timeseries", "/cwms-data/offices", "x-cwms-auth-context", "1800"):
        assert value in text, value


@pytest.mark.parametrize("env,arguments", [({}, ["--drop-in"]), ({"DOORWARD_DROP_IN": "1"}, [])])
def test_asked_for(env, arguments):
    assert "http://localhost:8181/v1/data/cwms/authz/allow" in printed(env, *arguments)


def test_nothing_but_the_references_variables(start, api):
    """HOST left out: it listens everywhere; what is not the reference's has its default too."""
    if harness.opened(9901):
        pytest.skip("something listens at the default address of the operators' endpoints")
    proxy = start(without=["HOST"], DOORWARD_ADMIN_ADDRESS=None)
    assert proxy.curl("/cwms-data/offices").status == 200
    assert harness.curl(f"http://127.0.0.2:{proxy.port}/health").status == 200
    assert harness.curl("http://127.0.0.1:9901/ready").status == 200


def test_whitelist(start, api, policy):
    policy.says({"result": False})
    proxy = start(OPA_WHITELIST_ENDPOINTS=json.dumps(["/cwms-data/levels", "/cwms-data/a/b", "/cwms-data/health"]))
    for path, status in {"/cwms-data/levels": 403, "/cwms-data/levels/x": 403, "/cwms-data/levelsx": 200,
                         "/cwms-data/a/b": 403, "/cwms-data/a/b/c": 403, "/cwms-data/a": 200, "/cwms-data/a/c": 200,
                         "/cwms-data/timeseries": 200, "/cwms-data/offices": 200, "/cwms-data/docs": 200}.items():
        assert proxy.curl(path).status == status, path


@pytest.mark.parametrize("value", ["", "[", '["/cwms-data/x", 1]', '{"a": 1}', '["relative"]'])
def test_whitelist_malformed(value):
    env = {"CWMS_API_URL": "http://localhost:7001/cwms-data", "OPA_URL": "http://localhost:8181",
           "OPA_WHITELIST_ENDPOINTS": value}
    status, _, err = harness.run_once("--check", env=env)
    if value == "":  # as if it were not set
        assert status == 0
    else:
        assert status == 78
        assert "OPA_WHITELIST_ENDPOINTS" in err


@pytest.mark.parametrize("name,value", [("PORT", "x"), ("PORT", "70000"), ("CWMS_API_TIMEOUT", "soon"),
                                        ("CACHE_TTL_SECONDS", "-1"), ("CACHE_MAX_SIZE", "many"), ("OPA_URL", "nowhere"),
                                        ("CWMS_API_URL", "ftp://x"), ("REDIS_URL", "http://x"), ("LOG_LEVEL", "loud"),
                                        ("BYPASS_AUTH", "maybe")])
def test_malformed(name, value):
    env = {"CWMS_API_URL": "http://localhost:7001/cwms-data", "OPA_URL": "http://localhost:8181", name: value}
    status, _, err = harness.run_once("--check", env=env)
    assert status == 78
    assert name in err, err


def test_api_timeout(start, api):
    proxy = start(CWMS_API_TIMEOUT=300)
    answer = proxy.curl("/cwms-data/slow?ms=3000")
    assert answer.status == 504
    assert answer.json["error"] == "Gateway Timeout"
    assert answer.json["code"] == "upstream_timeout"


def test_api_unreachable(start):
    proxy = start(CWMS_API_URL=f"http://127.0.0.1:{harness.free_port()}/cwms-data")
    answer = proxy.curl("/cwms-data/levels")
    assert answer.status == 502
    assert answer.json["error"] == "Bad Gateway"


def test_api_base_path(start, api):
    """The part behind the prefix goes behind the URL's own path."""
    proxy = start(CWMS_API_URL=f"http://127.0.0.1:{api.port}/cwms-data/base")
    assert proxy.curl("/cwms-data/offices/SWT?a=1").status == 200
    assert [s["target"] for s in api.forwarded() if s["method"] == "GET"][-1] == "/cwms-data/base/offices/SWT?a=1"


def test_policy_path(start, policy):
    proxy = start(OPA_POLICY_PATH="/v1/data/other/rule")
    assert proxy.curl("/cwms-data/offices").status == 200
    assert {q["target"].split("?")[0] for q in policy.server.asked} == {"/v1/data/other/rule"}


def test_policy_url_with_a_slash(start, policy):
    proxy = start(OPA_URL=policy.url + "/")
    assert proxy.curl("/cwms-data/offices").status == 200
    assert {q["target"].split("?")[0] for q in policy.server.asked} == {"/v1/data/cwms/authz/allow"}


@pytest.mark.parametrize("answer,status,code", [
    ({"result": True}, 200, None), ({"result": False}, 403, "policy_denied"),
    ({"result": {"allow": True}}, 200, None), ({"result": {"allow": False, "reason": "no"}}, 403, "policy_denied"),
    ({}, 403, "policy_undefined"), ({"result": None}, 403, None), ({"result": "true"}, 403, "policy_malformed"),
    ({"result": 1}, 403, "policy_malformed"), ({"result": {"allow": "true"}}, 403, "policy_malformed"),
    ({"result": {"allow": 1}}, 403, "policy_malformed"), ({"result": {}}, 403, None),
    ({"result": [True]}, 403, "policy_malformed"), (b"garbage", 503, "policy_garbage"), (b"", 503, "policy_garbage"),
    ((500, {"result": True}), 503, None), ((404, {"result": True}), 503, None),
    (b'{"result":false,"result":true}', 503, "policy_garbage"),
], ids=repr)
def test_policys_answer(start, policy, answer, status, code):
    proxy = start()
    policy.says(answer)
    got = proxy.curl("/cwms-data/offices")
    assert got.status == status
    if code:
        assert got.json["code"] == code


def test_policys_answer_reaches_the_api(start, api, policy):
    policy.says({"result": {"allow": True, "reason": "because", "headers": {"x-extra": "1"},
                            "filters": {"office": ["SWT"]}, "constraints": {"embargo_rules": {"a": 1}}}})
    assert start().curl("/cwms-data/offices").status == 200
    grant = api.forwarded()[0]["grant"]
    assert grant["constraints"]["office"] == ["SWT"]
    assert grant["context"] == {"x-extra": "1"}


@pytest.mark.parametrize("bypass,status", [("true", 200), ("false", 503), ("", 503)])
def test_bypass(start, api, bypass, status):
    proxy = start(OPA_URL=f"http://127.0.0.1:{harness.free_port()}", BYPASS_AUTH=bypass)
    answer = proxy.curl("/cwms-data/timeseries")
    assert answer.status == status
    if status == 200:
        assert api.forwarded()[0]["grant"]["policy"]["bypassed"] is True
        assert proxy.metric("authorizer_proxy_authorization_bypassed_total") == 1
    else:
        assert answer.header("retry-after")


@pytest.mark.parametrize("answer", [{"result": False}, b"garbage", (500, b"")], ids=repr)
def test_bypass_is_for_silence_only(start, api, policy, answer):
    policy.says(answer)
    assert start(BYPASS_AUTH="true").curl("/cwms-data/timeseries").status in (403, 503)
    assert not api.forwarded()


def test_cache_ttl(start, policy):
    proxy = start(CACHE_TTL_SECONDS=1)
    for _ in range(2):
        assert proxy.curl("/cwms-data/offices").status == 200
    assert len(policy.questions()) == 1
    time.sleep(1.2)
    assert proxy.curl("/cwms-data/offices").status == 200
    assert len(policy.questions()) == 2


def test_no_redis(start, api, issuer):
    proxy = start(REDIS_URL="")
    token = issuer.bearer("hec")
    for i in range(3):
        assert proxy.curl(f"/cwms-data/offices?n={i}", authorization=token).status == 200
    assert api.profiles_asked() == 1


def test_log_level(start):
    proxy = start(LOG_LEVEL="error")
    proxy.curl("/cwms-data/levels")
    time.sleep(0.3)
    assert not [line for line in proxy.lines if line.get("level") in ("debug", "info")]


def test_redis_keeps_verified_contexts(start, api, issuer, redis):
    proxy = start(DOORWARD_TOKENS_ISSUERS=issuer.as_option())
    proxy.wait_ready()
    for i in range(3):
        token = issuer.bearer("water", lifetime_s=60 + i)
        assert proxy.curl(f"/cwms-data/offices?n={i}", authorization=token).status == 200
    assert api.profiles_asked() == 1
    (key,) = redis.keys()
    assert 1600 < redis.command("TTL", key) <= 1800  # less what chance takes off (context.jitter)
    durations = [labels for name, labels in proxy.metrics()
                 if name == "authorizer_proxy_cache_operation_duration_seconds_count"]
    assert durations and all({key for key, _ in labels} == {"operation", "result"} for labels in durations)
    other = start(DOORWARD_TOKENS_ISSUERS=issuer.as_option())  # another process finds it there
    other.wait_ready()
    assert other.curl("/cwms-data/offices?o=1", authorization=issuer.bearer("water")).status == 200
    assert api.profiles_asked() == 1
    assert api.forwarded()[-1]["grant"]["user"]["id"] == "WATER"


def test_service_key_asks_for_verified_names(start, api, issuer):
    """With an issuer's keys the names are verified, and the service key may ask for them."""
    proxy = start(CWMS_API_KEY=harness.TABLE["service_key"], DOORWARD_TOKENS_ISSUERS=issuer.as_option())
    proxy.wait_ready()
    answer = proxy.curl("/cwms-data/offices", authorization=issuer.bearer("water", algorithm="ES256"))
    assert answer.status == 200
    assert [s["target"] for s in api.seen("/cwms-data/users/water")] == ["/cwms-data/users/water?include-roles=true"]
    assert api.forwarded()[-1]["grant"]["user"]["id"] == "WATER"
    for flaw in ("key", "kid", "signature", "none", "hs256", "issuer", "audience", "expired", "not_yet"):
        refused = proxy.curl("/cwms-data/offices", authorization=issuer.bearer("water", flaw=flaw))
        assert refused.status == 401, flaw


def test_service_key_asks_for_nobody_unverified(start, api, issuer):
    proxy = start(CWMS_API_KEY=harness.TABLE["service_key"])
    assert proxy.curl("/cwms-data/offices", authorization=issuer.bearer("water", flaw="key")).status == 401
    assert not api.seen("/cwms-data/users/water")
