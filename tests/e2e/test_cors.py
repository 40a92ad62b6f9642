"""CORS where it is configured, and where it is the API's affair."""
import pytest

import harness
from general import settings

LISTED, OTHER = "https://app.test", "https://evil.test"
API_CORS = (b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: https://evil.test\r\nAccess-Control-Allow-Credentials: true\r\n"
            b"Access-Control-Allow-Methods: *\r\nAccess-Control-Expose-Headers: x-a\r\nVary: Accept\r\nContent-Length: 2\r\n\r\nok")


@pytest.fixture(autouse=True)
def clean(recorder, engine):
    recorder.reset()
    engine.reset()
    engine.says({"result": True})


@pytest.fixture(scope="module")
def strict(module_doorward, recorder, engine, issuer):
    return module_doorward(settings(recorder.url, engine.url, issuer, tokens={"anonymous": "refuse"}, cors={
        "origins": [LISTED, "http://localhost:3000"], "credentials": True, "methods": ["GET", "PUT"],
        "headers": ["authorization", "x-a"], "expose": ["x-request-id", "etag"], "max_age_s": 77}))


@pytest.fixture(scope="module")
def open_to_all(module_doorward, recorder, engine, issuer):
    return module_doorward(settings(recorder.url, engine.url, issuer, cors={"origins": ["*"]}))


@pytest.fixture(scope="module")
def silent(module_doorward, recorder, engine, issuer):
    return module_doorward(settings(recorder.url, engine.url, issuer))


def allowed(answer):
    return {k.lower(): v for k, v in answer.lines if k.lower().startswith("access-control-")}


def names(value):
    return {x.strip().lower() for x in (value or "").split(",")}


def ask(proxy, path="/x", *lines, origin=None, method="GET", asked=None):
    head = [f"{method} {path} HTTP/1.1", "Host: a", *lines]
    head += [f"Origin: {origin}"] if origin else []
    head += [f"Access-Control-Request-Method: {asked}"] if asked else []
    client = proxy.client().send(("\r\n".join(head) + "\r\n\r\n").encode())
    answer = client.answer(method)
    client.close()
    return answer


@pytest.mark.parametrize("path", ["/x", "/pub/x", "/nowhere/at/all", "/me"])
def test_preflight_comes_before_everything(strict, recorder, engine, path):
    answer = ask(strict, path, "Access-Control-Request-Headers: x-b", origin=LISTED, method="OPTIONS", asked="PUT")
    assert answer.status in (200, 204) and answer.body == b""
    got = allowed(answer)
    assert got["access-control-allow-origin"] == LISTED and got["access-control-allow-credentials"] == "true"
    assert names(got["access-control-allow-methods"]) == {"get", "put"}
    assert names(got["access-control-allow-headers"]) == {"authorization", "x-a"}
    assert got["access-control-max-age"] == "77"
    assert "origin" in names(answer.header("vary"))
    assert recorder.seen == [] and engine.questions() == []


@pytest.mark.parametrize("origin", [OTHER, "null", LISTED + ".evil.test", LISTED.upper(), "http://app.test",
                                    LISTED + "/",
                                    "https://app.test:8443", "file://"])
def test_preflight_of_others(strict, recorder, origin):
    answer = ask(strict, "/x", origin=origin, method="OPTIONS", asked="GET")
    assert "access-control-allow-origin" not in allowed(answer)
    assert "origin" in names(answer.header("vary")) and recorder.seen == []


def test_other_options_are_requests(strict, recorder):
    assert ask(strict, "/pub/x", origin=LISTED, method="OPTIONS").body == b"ok"
    assert ask(strict, "/pub/x", "Access-Control-Request-Method: GET", method="OPTIONS").body == b"ok"
    assert len(recorder.seen) == 2
    assert ask(strict, "/x", method="OPTIONS").status == 401


def test_answers_of_the_api(strict, recorder):
    """Ours replace the API's; its Vary stays beside ours."""
    recorder.answer = API_CORS
    answer = ask(strict, "/pub/x", origin=LISTED)
    assert allowed(answer) == {"access-control-allow-origin": LISTED, "access-control-allow-credentials": "true",
                               "access-control-expose-headers": "x-request-id, etag"}
    assert {"origin", "accept"} <= set.union(*(names(v) for v in answer.all("vary")))
    for origin in (OTHER, None):
        answer = ask(strict, "/pub/x", origin=origin)
        assert allowed(answer) == {} and "origin" in set.union(*(names(v) for v in answer.all("vary")))


@pytest.mark.parametrize("path,status,lines", [
    ("/x", 401, []), ("/x", 400, ["Authorization: Bearer a", "Authorization: Bearer b"]), ("/x/..", 400, []),
    ("/pub/%zz", 400, []),
])
def test_our_own_refusals_can_be_read(strict, path, status, lines):
    answer = ask(strict, path, *lines, origin=LISTED)
    assert answer.status == status
    assert allowed(answer)["access-control-allow-origin"] == LISTED
    assert allowed(ask(strict, path, *lines, origin=OTHER)) == {}


def test_502_and_403_can_be_read(strict, recorder, engine, issuer):
    recorder.answer = b"garbage\r\n\r\n"
    answer = ask(strict, "/pub/x", origin=LISTED)
    assert answer.status == 502 and allowed(answer)["access-control-allow-origin"] == LISTED
    engine.says({"result": False})
    answer = ask(strict, "/x", "Authorization: " + issuer.bearer("damop"), origin=LISTED)
    assert answer.status == 403 and allowed(answer)["access-control-allow-origin"] == LISTED


def test_star_reflects_without_credentials(open_to_all):
    for origin in (LISTED, OTHER, "null"):
        got = allowed(ask(open_to_all, "/x", origin=origin))
        assert got["access-control-allow-origin"] in (origin, "*") and "access-control-allow-credentials" not in got
        got = allowed(ask(open_to_all, "/x", origin=origin, method="OPTIONS", asked="DELETE"))
        assert "delete" in names(got["access-control-allow-methods"])


def test_not_configured_it_is_the_apis(silent, recorder):
    recorder.answer = API_CORS
    answer = ask(silent, "/pub/x", origin=OTHER, method="OPTIONS", asked="GET")
    assert answer.body == b"ok" and allowed(answer)["access-control-allow-origin"] == "https://evil.test"
    assert answer.header("vary") == "Accept"
    assert len(recorder.seen) == 1
    assert allowed(ask(silent, "/x/..", origin=OTHER)) == {}


def test_endpoints_of_our_own(strict):
    answer = ask(strict, "/health", origin=LISTED)
    assert answer.status == 200 and allowed(answer)["access-control-allow-origin"] == LISTED


def test_no_page_reads_the_admin_address(open_to_all):
    """It asks no token on loopback: any page in a browser on this machine would have read metrics and flushed caches."""
    answer = harness.curl(open_to_all.admin + "/metrics", "-H", "Origin: " + OTHER)
    assert answer.status == 200 and allowed(answer) == {}
    answer = harness.curl(open_to_all.admin + "/cache/flush", "-X", "OPTIONS", "-H", "Origin: " + OTHER,
                          "-H", "Access-Control-Request-Method: POST")
    assert answer.status == 405 and allowed(answer) == {}


def test_credentials_with_a_star_are_refused(recorder, engine, issuer):
    status, _, stderr = harness.run_once("--check", config=settings(
        recorder.url, engine.url, issuer, cors={"origins": ["*"], "credentials": True}))
    assert status == 78 and "cors.credentials" in stderr
