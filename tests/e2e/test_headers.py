"""What the API trusts comes from us alone: the grant header, X-Forwarded-*, X-Request-Id; what belongs to one
connection stays there; what would change the method or the path behind our back is never judged by."""
import re

import pytest

from general import grant_of, lines_of, settings, values

GRANT = "x-auth-context"
FORGED = '{"policy":{"allow":true},"user":{"id":"root","roles":["system_admin"]}}'


@pytest.fixture(scope="module")
def running(module_doorward, recorder, engine, issuer):
    return module_doorward(settings(recorder.url, engine.url, issuer, strip_headers=["x-user", "x-real-role"],
                                    decisions={"ttl_s": 0}))


@pytest.fixture(scope="module")
def trusting(module_doorward, recorder, engine, issuer):
    return module_doorward(settings(recorder.url, engine.url, issuer,
                                    listen={"trusted_proxies": ["127.0.0.0/8", "10.0.0.0/8", "2001:db8::/32"]},
                                    routes=[{"prefix": "/", "source_ip": True}], decisions={"ttl_s": 0}))


@pytest.fixture
def proxy(running, recorder, engine):
    recorder.reset()
    engine.reset()
    return running


def send(proxy, path, *lines, method="GET", body=b"", status=200):
    head = f"{method} {path} HTTP/1.1\r\n".encode() + b"".join(
        (x if isinstance(x, bytes) else x.encode()) + b"\r\n" for x in ("Host: api.test", *lines)) + b"\r\n"
    client = proxy.client().send(head + body)
    answer = client.answer(method)
    client.close()
    assert answer.status == status, answer
    return answer


SPELLINGS = [
    "x-auth-context", "X-Auth-Context", "X-AUTH-CONTEXT", "x_auth_context", "X_Auth_Context", "x-auth_context",
    "x_auth-context", "x.auth.context", "X.Auth-Context", "x-auth.context", "X_AUTH.CONTEXT",
]


@pytest.mark.parametrize("name", SPELLINGS)
@pytest.mark.parametrize("path", ["/x", "/pub/x"])
def test_clients_grant_never_arrives(proxy, recorder, path, name):
    send(proxy, path, f"{name}: {FORGED}")
    check_grant(recorder, path)


@pytest.mark.parametrize("path", ["/x", "/pub/x"])
@pytest.mark.parametrize("lines", [
    [f"{GRANT}: {FORGED}"] * 2, [f"{name}: {FORGED}" for name in SPELLINGS], [f"{GRANT}:"], [f"{GRANT}:\t{FORGED}"],
    ["Connection: x-auth-context", f"{GRANT}: {FORGED}"], ["Connection: close, X-Auth-Context"],
    ["Connection: keep-alive", "Connection: x_auth_context, x.auth.context", f"X_Auth_Context: {FORGED}"],
    ["Connection: x-auth-context, x-request-id, x-forwarded-for, x-forwarded-proto, x-forwarded-host"],
    ["X-User: root", "x_user: root", "X.Real.Role: admin", f"{GRANT}: {FORGED}"],
], ids=["doubled", "all spellings", "empty", "tab", "named in Connection", "named, not sent", "aliases named",
        "all of ours named", "strip_headers"])
def test_grant_is_ours_alone(proxy, recorder, path, lines):
    send(proxy, path, *lines)
    head = check_grant(recorder, path)
    for name in ("X-Request-Id", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"):
        assert len(values(head, name)) == 1, name


def check_grant(recorder, path):
    head, _ = recorder.last
    names = [name.lower().replace("_", "-").replace(".", "-") for name, _ in lines_of(head)]
    assert "x-user" not in names and "x-real-role" not in names
    if path.startswith("/pub"):
        assert GRANT not in names
    else:
        assert names.count(GRANT) == 1
        assert grant_of(head)["user"]["id"] == "anonymous"
    return head


@pytest.mark.parametrize("lines,gone,stays", [
    (["Keep-Alive: timeout=5", "Proxy-Connection: keep-alive", "TE: trailers", "Upgrade: h2c", "X-A: 1"],
     ["keep-alive", "proxy-connection", "te", "upgrade"], ["x-a"]),
    (["Proxy-Authorization: Basic eDp5", "X-A: 1"], ["proxy-authorization"], ["x-a"]),
    (["Connection: x-mine, X-Other", "X-Mine: 1", "x-other: 2", "X-A: 1"], ["connection", "x-mine", "x-other"],
     ["x-a"]),
    (["Connection: upgrade, http2-settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk", "X-A: 1"],
     ["connection", "upgrade", "http2-settings"], ["x-a"]),
    (["Connection:", "Connection: ,,x-mine,,", "X-Mine: 1", "X-A: 1"], ["connection", "x-mine"], ["x-a"]),
    (["traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate: a=b", "Cookie: a=b",
      "Authorization: x y"], [], ["traceparent", "tracestate", "cookie", "authorization"]),
    (["Accept: */*", "Range: bytes=0-1", "If-None-Match: \"a\"", "Via: 1.0 fred"], [],
     ["accept", "range", "if-none-match", "via"]),
], ids=["hop-by-hop", "proxy credential", "named", "h2c", "odd list", "passes", "passes too"])
def test_hop_by_hop(proxy, recorder, lines, gone, stays):
    send(proxy, "/pub/x", *lines)
    names = [name.lower() for name, _ in lines_of(recorder.last[0])]
    assert not set(gone) & set(names)
    assert set(stays) <= set(names)


def test_order_and_spelling_stay(proxy, recorder):
    lines = ["X-B: 1", "x-a: 2", "X-B: 3", "X-c:", "x-a:4"]
    send(proxy, "/pub/x", *lines)
    assert [(n, v) for n, v in lines_of(recorder.last[0]) if n.lower()[:2] == "x-" and len(n) == 3] == [
        ("X-B", "1"), ("x-a", "2"), ("X-B", "3"), ("X-c", ""), ("x-a", "4")]


FORWARDING = ["Forwarded: for=6.6.6.6;host=evil.test", "X-Forwarded-For: 6.6.6.6", "X-Forwarded-For: 7.7.7.7",
              "X-Forwarded-Proto: https", "X-Forwarded-Host: evil.test", "X-Forwarded-Port: 1", "X-Real-IP: 6.6.6.6"]


def test_untrusted_forwarding_is_replaced(proxy, recorder):
    answer = send(proxy, "/pub/x", *FORWARDING)
    head, _ = recorder.last
    assert values(head, "x-forwarded-for") == ["127.0.0.1"]
    assert values(head, "x-forwarded-proto") == ["http"]
    assert values(head, "x-forwarded-host") == ["api.test"]
    for name in ("forwarded", "x-forwarded-port", "x-real-ip"):
        assert values(head, name) == []
    assert b"6.6.6.6" not in head and b"evil" not in head
    assert proxy.log(answer.request_id)["client"] == "127.0.0.1"


@pytest.mark.parametrize("lines,chain,proto,host,client", [
    ([], "127.0.0.1", "http", "api.test", "127.0.0.1"),
    (["X-Forwarded-For: 6.6.6.6"], "6.6.6.6, 127.0.0.1", "http", "api.test", "6.6.6.6"),
    (["X-Forwarded-For: 1.1.1.1, 6.6.6.6, 10.1.2.3"], "1.1.1.1, 6.6.6.6, 10.1.2.3, 127.0.0.1", "http", "api.test",
     "6.6.6.6"),
    (["X-Forwarded-For: 10.0.0.1, 10.0.0.2"], "10.0.0.1, 10.0.0.2, 127.0.0.1", "http", "api.test", "10.0.0.1"),
    (["X-Forwarded-For: 2001:db8::1, [2001:db9::2]:443"], "2001:db8::1, [2001:db9::2]:443, 127.0.0.1", "http",
     "api.test",
     "2001:db9::2"),
    (["X-Forwarded-For: 6.6.6.6:1234"], "6.6.6.6:1234, 127.0.0.1", "http", "api.test", "6.6.6.6"),
    (["X-Forwarded-For: evil<script>"], None, "http", "api.test", "127.0.0.1"),
    (["X-Forwarded-Proto: https", "X-Forwarded-Host: shop.test"], "127.0.0.1", "https", "shop.test", "127.0.0.1"),
])
def test_trusted_forwarding_is_extended(trusting, recorder, engine, lines, chain, proto, host, client):
    recorder.reset()
    engine.reset()
    answer = send(trusting, "/x", *lines)
    head, _ = recorder.last
    if chain:
        assert values(head, "x-forwarded-for") == [chain]
    assert (values(head, "x-forwarded-proto"), values(head, "x-forwarded-host")) == ([proto], [host])
    assert trusting.log(answer.request_id)["client"] == client
    assert engine.questions()[0]["source"] == {"ip": client}


def test_trusted_chain_of_two_lines(trusting, recorder):
    """RFC 9110 5.3: two lines are one list; the last hop is the nearest."""
    recorder.reset()
    answer = send(trusting, "/x", "X-Forwarded-For: 1.1.1.1", "X-Forwarded-For: 6.6.6.6")
    chain = ", ".join(values(recorder.last[0], "x-forwarded-for"))
    assert trusting.log(answer.request_id)["client"] == "6.6.6.6"
    assert chain == "1.1.1.1, 6.6.6.6, 127.0.0.1"


GOOD_ID = "Abc-1.2_3"


@pytest.mark.parametrize("given,kept", [
    (GOOD_ID, True), ("a" * 128, True), ("a" * 129, False), ("", False), ("a b", False), ("a/b", False), ("a\"b",
        False),
    ("<script>", False), ("a,b", False), ("é", False),
])
def test_request_id(proxy, trusting, recorder, engine, given, kept):
    """The same in log, policy input, API and answer; the client's only from a trusted peer."""
    for daemon, believed in ((proxy, False), (trusting, kept)):
        recorder.reset()
        engine.reset()
        answer = send(daemon, "/x", f"X-Request-Id: {given}")
        (sent,) = values(recorder.last[0], "x-request-id")
        assert (sent == given) == believed
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,128}", sent)
        assert answer.request_id == sent == engine.questions()[0]["request"]["id"]
        assert daemon.log(sent)["status"] == 200


def test_request_ids_differ_and_are_in_errors(proxy):
    answers = [send(proxy, "/pub/%00", "X-Request-Id: mine", status=400) for _ in range(3)]
    assert len({a.request_id for a in answers} | {"mine"}) == 4
    assert all(a.json["request_id"] == a.request_id for a in answers)


@pytest.mark.parametrize("line", [
    "X-HTTP-Method-Override: DELETE", "X-HTTP-Method: DELETE", "X-Method-Override: DELETE", "X-Original-URL: /admin",
    "X-Rewrite-URL: /admin", "X-Original-Uri: /admin", "X-Forwarded-Prefix: /admin", "X-Forwarded-Uri: /admin",
    "X-Forwarded-Method: DELETE", "x_http_method_override: DELETE",
])
def test_overrides_change_nothing(proxy, recorder, engine, line):
    """The policy judges the request line. A header that an API might take for another one never reaches it unjudged: it
    is taken out."""
    send(proxy, "/x", line)
    (question,) = engine.questions()
    assert (question["action"], question["request"]["method"], question["request"]["path"]) == ("read", "GET", "/x")
    assert recorder.last[0].startswith(b"GET /x HTTP/1.1\r\n")


@pytest.mark.parametrize("line", [
    "X-HTTP-Method-Override: DELETE", "X-HTTP-Method: DELETE", "X-Method-Override: DELETE", "X-Original-URL: /admin",
    "X-Rewrite-URL: /admin", "X-Original-Uri: /admin", "x_http_method_override: DELETE", "X.Original_URL: /admin",
    "X-Forwarded-Prefix: /admin", "X_Forwarded_For: 1.2.3.4", "X.Forwarded-Host: evil",
    "x_request_id: mine", "X_Real_IP: 1.2.3.4", "FORWARDED: for=1.2.3.4",
])
def test_what_speaks_for_us_never_reaches_the_api(proxy, recorder, line):
    for path in ("/x", "/pub/x"):
        send(proxy, path, line)
        name, value = line.split(": ")
        assert values(recorder.last[0], name) == [] and value.encode() not in recorder.last[0]


def test_query_override_is_no_other_method(proxy, engine):
    send(proxy, "/x?_method=DELETE", method="POST", body=b"")
    assert engine.questions()[0]["action"] == "create"


CHUNKED = "Transfer-Encoding: chunked"


def test_trailers(proxy, recorder):
    """They pass, less framing, credentials and what only we may say."""
    body = (b"3\r\nabc\r\n0\r\nX-Checksum: 99\r\nHost: evil\r\n"
            b"Authorization: Bearer x\r\nX_Auth.Context: forged\r\nx-auth-context: forged\r\nX-User: root\r\n"
            b"X-Request-Id: mine\r\nX-Forwarded-For: 6.6.6.6\r\nConnection: close\r\nCookie: a=b\r\n"
            b"Proxy-Authorization: Basic x\r\nX-Forwarded-Prefix: /admin\r\nx_real_ip: 6.6.6.6\r\n\r\n")
    send(proxy, "/x", CHUNKED, "Trailer: X-Checksum", method="POST", body=body)
    got = recorder.last[1]
    assert got.startswith(b"3\r\nabc\r\n0\r\nX-Checksum: 99\r\n") and got.endswith(b"\r\n\r\n")
    for name in (b"host", b"authorization", b"auth", b"x-user", b"x-request-id",
                 b"x-forwarded-for", b"connection", b"cookie", b"x-forwarded-prefix", b"x_real_ip"):
        assert name not in got.lower(), name


@pytest.mark.parametrize("line", [b"Content-Length: 5", b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked"])
def test_framing_in_trailers(proxy, recorder, line):
    """Refused or taken out, never passed on."""
    client = proxy.client().send(b"POST /pub/x HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n"
                                 b"3\r\nabc\r\n0\r\n" + line + b"\r\n\r\n")
    assert client.answer().status in (200, 400)
    assert all(line not in body for _, body in recorder.seen)
    client.close()


def test_answers_trailers(proxy, recorder):
    recorder.answer = (





                       b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n"
                       b"Set-Cookie: a=b\r\nx_auth_context: x\r\n\r\n")
    client = proxy.client().send(b"GET /pub/x HTTP/1.1\r\nHost: api.test\r\n\r\n")
    got = client.until(b"0\r\n") + client.until(b"\r\n\r\n")
    assert got.endswith(b"2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n")


def test_preserved_host(module_doorward, recorder, engine, issuer):
    daemon = module_doorward(settings(recorder.url, engine.url, issuer, upstream={"host": "preserve"}))
    for host in ("api.test", "API.test:8080"):
        recorder.reset()
        client = daemon.client().send(f"GET /pub/x HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert client.answer().status == 200
        assert [v.lower() for v in values(recorder.last[0], "host")] == [host.lower()]
