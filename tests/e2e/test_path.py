"""Judged is sent: whatever the target, the policy and the API are given the same path, or nobody is and the answer is
400. Then: which route serves it, what is taken off its front, what stands before it."""
import random
import re
from urllib.parse import unquote_to_bytes

import pytest

import harness
from general import settings

ROUTES = [
    {"prefix": "/"},
    {"prefix": "/keep", "path_policy": {"encoded_slashes": "keep", "path_parameters": "keep"}},
    {"prefix": "/slash", "path_policy": {"encoded_slashes": "keep"}},
    {"prefix": "/param", "path_policy": {"path_parameters": "keep"}},
    {"prefix": "/keep/apart", "path_policy": {"encoded_slashes": "keep", "path_parameters": "keep"}},
    {"prefix": "/strip", "strip": True},
    {"prefix": "/part/of", "strip": "/part"},
    {"prefix": "/base", "upstream": "based"},
    {"prefix": "/both", "upstream": "based", "strip": True},
    {"path": "/exact", "name": "exact", "methods": ["GET", "PUT"]},
    {"prefix": "/exact/below", "name": "below", "methods": ["POST"]},
    {"prefix": "/exact/below/deeper", "name": "deeper"},
    {"prefix": "/named", "resource": "things"},
    {"prefix": "/second", "resource": "$2"},
]
NARROW = [{"path": "/only", "access": "public"}, {"prefix": "/tree", "access": "public"}]


@pytest.fixture(scope="module")
def running(module_doorward, recorder, engine, issuer):
    return module_doorward(settings(
        recorder.url, engine.url, issuer, routes=ROUTES, decisions={"ttl_s": 0, "deny_ttl_s": 0},
        upstreams={"based": {"url": recorder.url + "/api/v1/"}}, policy={"query": ["office_id|office", "class"]}))


@pytest.fixture(scope="module")
def narrow(module_doorward, recorder, engine, issuer):
    return module_doorward(settings(recorder.url, engine.url, issuer, routes=NARROW))


@pytest.fixture
def proxy(running, recorder, engine):
    recorder.reset()
    engine.reset()
    return running


def ask(client, target, method=b"GET"):
    raw = target if isinstance(target, bytes) else target.encode()
    return client.send(method + b" " + raw + b" HTTP/1.1\r\nHost: api.test\r\n\r\n").answer()


def check(proxy, recorder, engine, target):
    """None when it was refused and nobody saw it; else the path that policy and API both got."""
    client = proxy.client()
    answer = ask(client, target)
    client.close()
    if answer.status == 400:
        assert recorder.seen == [] and engine.questions() == []
        return None
    assert answer.status == 200, answer
    (question,), (sent,) = engine.questions(), recorder.targets()
    path, mark, query = sent.partition("?")
    assert question["context"]["path"] == (f"{path}?{query}" if query else path)
    assert question["request"]["path"] == path
    assert question["request"]["segments"] == [unquote_to_bytes(s).decode() for s in path.split("/") if s]
    raw = target.encode() if isinstance(target, str) else target
    assert raw.partition(b"?")[1:] == (mark.encode(), query.encode())
    return path


SAME = object()

# (target, the path both got; None is 400)
TARGETS = [
    ("/", SAME), ("/a", SAME), ("/a/b/c", SAME), ("/a/", SAME), ("/a/b/", SAME), ("/A/b", SAME), ("/a.b", SAME),
    ("/.a", SAME), ("/..a", SAME), ("/a..", SAME), ("/a...", SAME), ("/...", SAME), ("/-._~", SAME), ("/a:b@c", SAME),
    ("/!$&'()*+,=", SAME), ("/a+b", SAME), ("/a%20b", SAME), ("/a%2Bb", SAME), ("/a%3Fb", SAME), ("/a%23b", SAME),
    ("/a%26b", SAME), ("/a%3Db", SAME), ("/a%25b", SAME), ("/%252e%252e/a", SAME), ("/a%252Fb", SAME), ("/a%2500",
        SAME),
    ("/caf%C3%A9", SAME), ("/%E2%82%AC", SAME), ("/%F0%9F%98%80", SAME), ("/a%0Ab", SAME), ("/a%7Fb", SAME),
    ("/" + "a" * 4000, SAME), ("/" + "/".join("abcdefgh" * 8), SAME),
    ("/%61", "/a"), ("/%41/b", "/A/b"), ("/a%2Db", "/a-b"), ("/a%2db", "/a-b"), ("/a%2Eb", "/a.b"), ("/a%5Fb", "/a_b"),
    ("/a%7Eb", "/a~b"), ("/%30", "/0"), ("/a%c3%a9", "/a%C3%A9"), ("/a%3fb", "/a%3Fb"), ("/%74imeseries",
        "/timeseries"),
    ("/%2561", SAME), ("/%2Ea", "/.a"), ("/%2E%2E%2E", "/..."),
    ("/.", None), ("/..", None), ("/./a", None), ("/../a", None), ("/a/./b", None), ("/a/../b", None), ("/a/.", None),
    ("/a/..", None), ("/a/./", None), ("/a/../", None), ("/%2e", None), ("/%2E%2e/a", None), ("/.%2e/a", None),
    ("/a/%2e./b", None), ("/a/%2e", None), ("/a/%2E%2E/", None), ("/a/%2e%2e", None),
    ("//", None), ("//a", None), ("/a//", None), ("/a//b", None), ("/a///", None), ("///", None),
    ("/a%00", None), ("/%00", None), ("/a%00b/c", None), ("/a%2fb", None), ("/a%2Fb", None), ("/%2F", None),
    ("/a%5cb", None), ("/a%5Cb", None), ("/a\\b", None), ("/\\", None), ("/a/..\\b", None), ("/..%2f..%2fa", None),
    ("/..%5c..%5ca", None), ("/a%2F..%2Fb", None), ("/a;b", None), ("/a;", None), ("/;", None), ("/a;x=1/b", None),
    ("/..;/a", None), ("/a/..;x/b", None), ("/a%3Bb", None), ("/a%3bb", None), ("/%2e%2e;/a", None),
    ("/a%", None), ("/a%2", None), ("/a%2/b", None), ("/a%zz", None), ("/a%g0", None), ("/a%0g", None), ("/%%61", None),
    ("/a%u0061", None), ("/%x41", None), ("/a%80", None), ("/a%ff", None), ("/a%C3", None), ("/a%C3%28", None),
    ("/a%C0%AE%C0%AE", None), ("/%c0%ae%c0%ae/a", None), ("/%C0%AF", None), ("/%E0%80%AF", None), ("/%ED%A0%80", None),
    ("/%F4%90%80%80", None), ("/%F8%88%80%80%80", None), ("/a|b",
     None), ("/a^b", None), ("/a`b", None), ("/a{b}", None),
    ("/a<b>", None), ('/a"b', None), ("/a[b]", None), ("/a#b", None), ("/a#", None), ("/a?b#c", None),
    (b"/caf\xc3\xa9", None), (b"/a\xff", None), (b"/a?b=\xc3\xa9", None), (b"/a\x7f", None), (b"/a\x01b", None),
    ("/a?b=%zz", SAME), ("/a?", SAME), ("/a?b", SAME), ("/a?b=c&b=d", SAME), ("/a?b=/../c", SAME), ("/a?//b", SAME),
    ("/a?b=%00", SAME), ("/a?x[0]=1", SAME), ("/a?b=%2F", SAME), ("/a?b=c?d", SAME), ("/a?&&b", SAME), ("/a?;b", SAME),
    ("/a?b=|", None), ('/a?b="', None), ("/a?b=\\", None),
    ("/keep/a%2fb", "/keep/a%2Fb"), ("/keep/a%5Cb", SAME), ("/keep/a;b=1", SAME), ("/keep/a%3bb", "/keep/a%3Bb"),
    ("/keep/%2F", SAME), ("/keep/a%2F", SAME),
    ("/keep/..%2fa", None), ("/keep/a%2F..", None), ("/keep/a%2F..%2Fb", None), ("/keep/..;x/a", None),
    ("/keep/a%2f%2e%2e", None), ("/keep/..%5Ca", None), ("/keep/.;/a", None), ("/keep/a;/..", None), ("/keep/a%00",
        None),
    ("/keep/;x", None), ("/keep/a//b", None), ("/keep/%2e%2e%2fa", None), ("/keep/a;%2F..", None),
    ("/slash/a%2Fb", SAME), ("/slash/a;b", None), ("/param/a;b", SAME), ("/param/a%2Fb", None),
    ("/keep/apart;x", None), ("/keep/apart%3bx", None), ("/keep/apart;x/a", None), ("/keep/apart%2Fa", None),
    ("/keep/apart%5ca", None), ("/keep/%2Fapart/a", None), ("/keep/apart;x%2Fa", None), ("/keep/apar%74;", None),
    ("/keep/apart/a%2Fb;c", SAME), ("/keep/apartment;x%2Fa", SAME), ("/keep/a%2Fapart;x", SAME),
    ("/keepnot/a%2Fb", None), ("/%6Beep/a%2Fb", "/keep/a%2Fb"), ("/kee%70/a;b", "/keep/a;b"),
]


def test_there_are_enough():
    assert len(TARGETS) >= 100 and len({t for t, _ in TARGETS}) == len(TARGETS)


@pytest.mark.parametrize("target,expected", TARGETS, ids=[repr(t)[:60] for t, _ in TARGETS])
def test_judged_is_sent(proxy, recorder, engine, target, expected):
    if expected is SAME:
        expected = target.partition("?")[0]
    assert check(proxy, recorder, engine, target) == expected


PIECES = ["/", "/", "/", "a", "keep", "/keep/", "slash", "param", ".", "..", "%2e", "%2E", "%2f", "%2F", "%5c", "\\",
          ";",
          "%3b", "%00", "%", "%2", "%25", "%252e", "%61", "%C3%A9", "%c0%ae", "%ff", "+", "?", "=", "&", "#", "*", ":",
          "@",
          "~", "|", "%20"]


def test_a_thousand_made_up_targets(running, recorder, engine):
    """Whatever the target: 400, or one reading, in which no segment is empty, a dot, or breaks off."""
    chance = random.Random(20261130)
    outcomes = {True: 0, False: 0}
    for _ in range(1000):
        target = "/" + "".join(chance.choice(PIECES) for _ in range(chance.randrange(1, 8)))
        recorder.reset()
        engine.reset()
        path = check(running, recorder, engine, target)
        outcomes[path is None] += 1
        if path is None:
            continue
        for segment in path[1:].removesuffix("/").split("/") if path != "/" else []:
            text = unquote_to_bytes(segment).decode()
            assert "\0" not in text and re.sub(r";.*", "", text) not in ("", ".", ".."), (target, path)
            assert not set(re.split(r"[/\\]", text)) & {".", ".."}, (target, path)
    assert min(outcomes.values()) > 100, outcomes


@pytest.mark.parametrize("target,sent", [
    ("/strip/a", "/a"), ("/strip", "/"), ("/strip/", "/"), ("/strip/a/b/?q", "/a/b/?q"), ("/strip?q", "/?q"),
    ("/%73trip/a", "/a"), ("/stripper/a", "/stripper/a"), ("/part/of/a", "/of/a"), ("/part/of", "/of"),
    ("/part/a", "/part/a"), ("/base/a", "/api/v1/base/a"), ("/base", "/api/v1/base"), ("/base/", "/api/v1/base/"),
    ("/both/a?b=c", "/api/v1/a?b=c"), ("/both", "/api/v1"), ("/both/", "/api/v1/"), ("/both?q", "/api/v1?q"),
])
def test_strip_and_base(proxy, recorder, engine, target, sent):
    assert ask(proxy.client(), target).status == 200
    assert recorder.targets() == [sent]
    (question,) = engine.questions()
    assert question["request"]["path"] == target.split("?")[0].replace("%73", "s"), "judged is the whole path"


@pytest.mark.parametrize("method,target,status,route,allow", [
    ("GET", "/exact", 200, "exact", None), ("HEAD", "/exact", 200, "exact", None), ("GET", "/exact/", 200, "exact",
        None),
    ("PUT", "/exact", 200, "exact", None), ("POST", "/exact", 405, "exact", {"GET", "PUT"}),
    ("OPTIONS", "/exact", 405, "exact", {"GET", "PUT"}), ("GET", "/exact/x", 200, "/", None),
    ("GET", "/exactly", 200, "/", None), ("GET", "/Exact", 200, "/", None), ("POST", "/exact/below", 200, "below",
        None),
    ("POST", "/exact/below/", 200, "below", None), ("POST", "/exact/below/x", 200, "below", None),
    ("GET", "/exact/below/x", 405, "below", {"POST"}), ("DELETE", "/exact/below/deeper/x", 200, "deeper", None),
    ("GET", "/exact/belowx", 200, "/", None), ("GET", "/%65xact",
     200, "exact", None), ("TRACE", "/exact", 405, "exact", None),
])
def test_routes(proxy, method, target, status, route, allow):
    client = proxy.client()
    answer = client.send(f"{method} {target} HTTP/1.1\r\nHost: api.test\r\n\r\n".encode()).answer(method)
    assert answer.status == status
    line = proxy.log(answer.request_id)
    assert line["route"] == route
    if allow:
        assert set(re.split(r",\s*", answer.header("allow"))) - {"HEAD"} == allow
        assert answer.json["code"] == "method_not_allowed"
    client.close()


@pytest.mark.parametrize("target,status", [
    ("/only", 200), ("/only/", 200), ("/only/x", 404), ("/onl", 404), ("/tree", 200), ("/tree/", 200), ("/tree/x/y",
        200),
    ("/treex", 404), ("/", 404), ("/TREE", 404), ("/metrics", 404), ("/tree/../only", 400), ("/nowhere/..", 400),
])
def test_what_no_route_names_is_404(narrow, recorder, target, status):
    recorder.reset()
    answer = ask(narrow.client(), target)
    assert answer.status == status
    if status == 404:
        assert answer.json["code"] == "no_route" and recorder.seen == []
        assert narrow.log(answer.request_id)["route"] == "none"


@pytest.mark.parametrize("method,target,resource,action", [
    ("GET", "/a/b", "a", "read"), ("HEAD", "/a", "a", "read"), ("POST", "/a", "a", "create"), ("PUT", "/a", "a",
        "update"),
    ("PATCH", "/a", "a", "update"), ("DELETE", "/a", "a", "delete"), ("OPTIONS", "/a", "a", "unknown"),
    ("GET", "/", "unknown", "read"), ("GET", "/named/x/y", "things", "read"), ("GET", "/second/one/two", "one", "read"),
    ("GET", "/second", "unknown", "read"), ("GET", "/caf%C3%A9", "café", "read"), ("GET", "/a%20b", "a b", "read"),
])
def test_resource_and_action(proxy, engine, method, target, resource, action):
    client = proxy.client()
    assert client.send(f"{method} {target} HTTP/1.1\r\nHost: api.test\r\n\r\n".encode()).answer(method).status == 200
    (question,) = engine.questions()
    assert (question["resource"], question["action"]) == (resource, action)
    assert question["context"]["method"] == question["request"]["method"] == method


@pytest.mark.parametrize("query,params,lifted", [
    ("", {}, {}), ("a=1", {"a": "1"}, {}), ("a=1&a=2&b=3", {
     "a": ["1", "2"], "b": "3"}, {}), ("a=b+c", {"a": "b c"}, {}),
    ("a=b%2Bc", {"a": "b+c"}, {}), ("a", {"a": ""}, {}), ("a=", {"a": ""}, {}), ("=a", {"": "a"}, {}),
    ("%61=1", {"a": "1"}, {}), ("a=1&%61=2", {"a": ["1", "2"]}, {}
     ), ("a=%C3%A9", {"a": "é"}, {}), ("&&a=1&", {"a": "1"}, {}),
    ("a=%zz", {"a": "%zz"}, {}), ("a=%FF", {"a": "%FF"}, {}), ("a=%00", {"a": "%00"}, {}),
    ("office=SWT", {"office": "SWT"}, {"office_id": "SWT"}
     ), ("office_id=SWT", {"office_id": "SWT"}, {"office_id": "SWT"}),
    ("office=A&office_id=A", {"office": "A", "office_id": "A"}, {
     "office_id": "A"}), ("class=x", {"class": "x"}, {"class": "x"}),
    ("%6Fffice=A", {"office": "A"}, {"office_id": "A"}), ("Office=A", {"Office": "A"}, {}),
    ("method=POST&path=/x&class=", {"method": "POST", "path": "/x", "class": ""}, {"class": ""}),
    ("office=A&office_id=B", None, None), ("office=A&office=A", None, None), ("office=%zz", None, None),
    ("office=%FF", None, None), ("class=a&class=b", None, None), ("office=A&%6Fffice=B", None, None),
    ("o%zzffice=A", None, None), ("%c1%afffice=A", None, None), ("x%FF=A", None, None), ("a%25b=1", {"a%b": "1"}, {}),
    ("x=1;office=A", None, None), ("x;office_id=A", None, None), ("office=A;office=B", None, None), ("x=1%3Bclass", None, None),
    ("x=%FF;%6Fffice=A", None, None), ("x=%zz;cl%61ss=A", None, None), ("x=%C3%A9;%6Fffice=A", None, None),
    ("x=a;b", {"x": "a;b"}, {}), ("x=1;officer=A", {"x": "1;officer=A"}, {}),
    ("office=%00", None, None), ("class=a&c%6Cass=a", None, None), ("office=+A&office_id=A", None, None),
])
def test_query(proxy, recorder, engine, query, params, lifted):
    answer = ask(proxy.client(), "/a?" + query)
    if params is None:
        assert (answer.status, answer.json["code"]) == (400, "ambiguous_query")
        assert recorder.seen == [] and engine.questions() == []
        return
    assert answer.status == 200 and recorder.targets() == ["/a?" + query]
    (question,) = engine.questions()
    assert question["request"]["query"] == question["context"]["query"] == params
    assert {k: v for k, v in question["context"].items() if k in ("office_id", "class")} == lifted
    assert (question["context"]["method"], question["context"]["path"].split("?")[0]) == ("GET", "/a")


def test_a_long_target_is_414(proxy, recorder):
    assert ask(proxy.client(), "/" + "a" * 8191).status == 200
    answer = ask(proxy.client(), "/" + "a" * 8192)
    assert (answer.status, answer.json["code"]) == (414, "target_too_long")


def test_unlisted_hosts_are_421(module_doorward, recorder, engine, issuer):
    daemon = module_doorward(settings(recorder.url, engine.url, issuer, listen={"hosts": ["api.test",
        "other.test:8443"]}),
                             wait=False)
    harness.eventually(lambda: harness.opened(daemon.port), "it listens")
    for host, status in [("api.test", 200), ("API.TEST", 200), ("api.test:3001", 200), ("other.test:8443", 200),
                         ("other.test", 421), ("other.test:1", 421), ("evil.test", 421), ("api.test.evil", 421),
                         ("127.0.0.1", 421)]:
        got = daemon.client().send(b"GET /pub/x HTTP/1.1\r\nHost: " + host.encode() + b"\r\n\r\n").answer()
        assert got.status == status, host
        if status == 421:
            assert got.json["code"] == "host_unknown"
    got = daemon.client().send(b"GET http://evil.test/pub/x HTTP/1.1\r\nHost: evil.test\r\n\r\n").answer()
    assert got.status == 421
    assert harness.curl(daemon.admin + "/metrics").status == 200, "the names are the main port's"
    for path in ("/health", "/ready"):  # asked of an address by who looks after it
        assert daemon.client().send(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()).answer().status in (200, 503)
    assert harness.run_once("--probe", "--config", daemon.config_file)[0] == 0, "the probe names a listed host"
