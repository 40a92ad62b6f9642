"""HTTP/1.1 on both sides, byte by byte: which requests are refused and what of the others the API gets; which of its
answers are relayed and which become 502; and that the next request is clean whatever came before."""
import re
import time

import pytest

import harness
from general import ROUTES, settings, without_id

H = b"Host: api.test\r\n"
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
SMUGGLED = b"GET /pub/smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n"


def answers_early(conversation):
    while conversation.until(b"\r\n\r\n"):
        conversation.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")


@pytest.fixture(scope="module")
def running(module_doorward, recorder, engine, issuer):
    early = harness.ScriptedUpstream(answers_early)
    yield module_doorward(settings(
        recorder.url, engine.url, issuer, listen={"header_timeout_ms": 2000}, upstreams={"early": {"url": early.url}},
        routes=[*ROUTES, {"prefix": "/early", "access": "public", "upstream": "early"}]))
    early.stop()


@pytest.fixture
def proxy(running, recorder):
    recorder.reset()
    return running


def refused(proxy, recorder, data, status, code):
    """One error answer, closed behind it; nothing of it, nor of what came behind it, is forwarded."""
    got = proxy.raw(data + SMUGGLED)
    status_line, reason, lines = harness.head_of(got.split(b"\r\n\r\n")[0].decode("latin-1"))
    answer = harness.Answer(status_line, lines, got.split(b"\r\n\r\n", 1)[1], reason)
    assert answer.status == status, answer
    assert len(STATUS.findall(got)) == 1, got
    assert answer.header("content-type") == "application/json; charset=utf-8"
    assert answer.header("connection") == "close"
    assert len(answer.body) == int(answer.header("content-length"))
    assert set(answer.json) == {"error", "message", "code", "request_id"}
    assert answer.json["code"] == code
    assert answer.json["request_id"] == answer.request_id
    line = proxy.log(answer.request_id)
    assert line["reason"] == code and line["status"] == status
    assert recorder.seen == []
    return answer


def post(*lines, body=b"", version=b"1.1"):
    return b"POST /pub/x HTTP/" + version + b"\r\n" + H + b"".join(x + b"\r\n" for x in lines) + b"\r\n" + body


def get(*lines):
    return b"GET /pub/x HTTP/1.1\r\n" + b"".join(x + b"\r\n" for x in lines) + b"\r\n"


MALFORMED, FRAMING, HOST, HEADER = "malformed_request", "ambiguous_framing", "invalid_host", "invalid_header"
CHUNKED = b"Transfer-Encoding: chunked"

REFUSED = [
    ("cl+te", post(b"Content-Length: 5", CHUNKED, body=b"0\r\n\r\n"), 400, FRAMING),
    ("te+cl", post(CHUNKED, b"Content-Length: 5", body=b"0\r\n\r\n"), 400, FRAMING),
    ("two lengths", post(b"Content-Length: 5", b"Content-Length: 6", body=b"hello"), 400, FRAMING),
    ("the same length twice", post(b"Content-Length: 5", b"content-length: 5", body=b"hello"), 400, FRAMING),
    ("lengths by comma", post(b"Content-Length: 5, 5", body=b"hello"), 400, FRAMING),
    ("length +5", post(b"Content-Length: +5", body=b"hello"), 400, FRAMING),
    ("length -5", post(b"Content-Length: -5", body=b"hello"), 400, FRAMING),
    ("length 0x5", post(b"Content-Length: 0x5", body=b"hello"), 400, FRAMING),
    ("length 5 5", post(b"Content-Length: 5 5", body=b"hello"), 400, FRAMING),
    ("length 5.0", post(b"Content-Length: 5.0", body=b"hello"), 400, FRAMING),
    ("length empty", post(b"Content-Length:", body=b"hello"), 400, FRAMING),
    ("length of 20 digits", post(b"Content-Length: 99999999999999999999"), 400, FRAMING),
    ("length over 64 bits", post(b"Content-Length: 18446744073709551621", body=b"hello"), 400, FRAMING),
    ("te twice", post(CHUNKED, CHUNKED, body=b"0\r\n\r\n"), 400, FRAMING),
    ("chunked, chunked", post(CHUNKED + b", chunked", body=b"0\r\n\r\n"), 400, FRAMING),
    ("gzip, chunked", post(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"), 501, "transfer_coding_unknown"),
    ("chunked, identity", post(CHUNKED + b", identity", body=b"0\r\n\r\n"), 400, FRAMING),
    ("identity", post(b"Transfer-Encoding: identity", b"Content-Length: 5", body=b"hello"), 400, FRAMING),
    ("gzip", post(b"Transfer-Encoding: gzip", body=b"0\r\n\r\n"), 501, "transfer_coding_unknown"),
    ("xchunked", post(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n"), 501, "transfer_coding_unknown"),
    ("te empty", post(b"Transfer-Encoding:", body=b"0\r\n\r\n"), 400, FRAMING),
    ("te quoted", post(b'Transfer-Encoding: "chunked"', body=b"0\r\n\r\n"), 400, FRAMING),
    ("te with vertical tab", post(b"Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n"), 400, None),
    ("te with a parameter", post(CHUNKED + b";q=1", body=b"0\r\n\r\n"), 400, FRAMING),
    ("length with _", post(b"Content_Length: 5", body=b"hello"), 400, FRAMING),
    ("te with .", post(b"Transfer.Encoding: chunked", body=b"0\r\n\r\n"), 400, FRAMING),
    ("te in HTTP/1.0", post(CHUNKED, body=b"0\r\n\r\n", version=b"1.0"), 400, FRAMING),
    ("te, space before the colon", post(b"Transfer-Encoding : chunked", body=b"0\r\n\r\n"), 400, None),
    ("te, tab before the colon", post(b"Transfer-Encoding\t: chunked", body=b"0\r\n\r\n"), 400, None),
    ("length, space before the colon", post(b"Content-Length : 5", body=b"hello"), 400, None),
    ("folded te", post(b"Transfer-Encoding:\r\n chunked", body=b"0\r\n\r\n"), 400, MALFORMED),
    ("folded line", get(b"Host: api.test", b"X-A: 1", b" 2"), 400, MALFORMED),
    ("folded with a tab", get(b"Host: api.test", b"X-A: 1", b"\t2"), 400, MALFORMED),
    ("line begins with a space", get(b" Host: api.test"), 400, MALFORMED),
    ("bare LF behind the request line", b"GET /pub/x HTTP/1.1\n" + H + b"\r\n", 400, MALFORMED),
    ("bare LF behind a header", b"GET /pub/x HTTP/1.1\r\nHost: api.test\nX-A: 1\r\n\r\n", 400, MALFORMED),
    ("bare LF as the empty line", b"GET /pub/x HTTP/1.1\r\nHost: api.test\r\n\n", 400, MALFORMED),
    ("all bare LF", b"GET /pub/x HTTP/1.1\nHost: api.test\n\n", 400, MALFORMED),
    ("bare CR in a value", get(b"Host: api.test", b"X-A: 1\rX-B: 2"), 400, None),
    ("bare CR behind the request line", b"GET /pub/x HTTP/1.1\r" + H + b"\r\n", 400, None),
    ("CR LF CR X", b"GET /pub/x HTTP/1.1\r\nHost: api.test\r\n\rX\r\n\r\n", 400, None),
    ("NUL in a value", get(b"Host: api.test", b"X-A: a\0b"), 400, None),
    ("NUL in a name", get(b"Host: api.test", b"X\0A: ab"), 400, None),
    ("NUL in the target", b"GET /pub/\0x HTTP/1.1\r\n" + H + b"\r\n", 400, None),
    ("control in a value", get(b"Host: api.test", b"X-A: a\x01b"), 400, None),
    ("DEL in a value", get(b"Host: api.test", b"X-A: a\x7fb"), 400, None),
    ("no colon", get(b"Host: api.test", b"X-A"), 400, None),
    ("empty name", get(b"Host: api.test", b": 1"), 400, HEADER),
    ("space in a name", get(b"Host: api.test", b"X A: 1"), 400, None),
    ("parenthesis in a name", get(b"Host: api.test", b"X(A): 1"), 400, None),
    ("no Host", get(b"X-A: 1"), 400, HOST),
    ("two Hosts", get(b"Host: api.test", b"Host: api.test"), 400, HOST),
    ("two different Hosts", get(b"Host: api.test", b"hOST: other.test"), 400, HOST),
    ("empty Host", get(b"Host:"), 400, HOST),
    ("Host with a path", get(b"Host: api.test/x"), 400, HOST),
    ("Host with a user", get(b"Host: me@api.test"), 400, HOST),
    ("Hosts by comma", get(b"Host: api.test, other.test"), 400, HOST),
    ("Host with a space", get(b"Host: api test"), 400, HOST),
    ("Host, space before the colon", get(b"Host : api.test"), 400, None),
    ("HTTP/2.0", b"GET /pub/x HTTP/2.0\r\n" + H + b"\r\n", 505, "http_version"),
    ("HTTP/1.2", b"GET /pub/x HTTP/1.2\r\n" + H + b"\r\n", 505, "http_version"),
    ("HTTP/0.9 with a version", b"GET /pub/x HTTP/0.9\r\n" + H + b"\r\n", 505, "http_version"),
    ("HTTP/0.9 without", b"GET /pub/x\r\n\r\n", 400, None),
    ("HTTP/11", b"GET /pub/x HTTP/11\r\n" + H + b"\r\n", 400, MALFORMED),
    ("HTTP/1.10", b"GET /pub/x HTTP/1.10\r\n" + H + b"\r\n", 400, MALFORMED),
    ("http/1.1", b"GET /pub/x http/1.1\r\n" + H + b"\r\n", 400, None),
    ("two spaces before the target", b"GET  /pub/x HTTP/1.1\r\n" + H + b"\r\n", 400, None),
    ("tab before the version", b"GET /pub/x\tHTTP/1.1\r\n" + H + b"\r\n", 400, None),
    ("space behind the version", b"GET /pub/x HTTP/1.1 \r\n" + H + b"\r\n", 400, MALFORMED),
    ("space before the method", b" GET /pub/x HTTP/1.1\r\n" + H + b"\r\n", 400, None),
    ("method in lower case", b"get /pub/x HTTP/1.1\r\n" + H + b"\r\n", 400, None),
    ("no method", b"/pub/x HTTP/1.1\r\n" + H + b"\r\n", 400, None),
    ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100), 400, MALFORMED),
    ("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, None),
    ("SSH", b"SSH-2.0-OpenSSH_9.2\r\n", 400, None),
    ("binary", bytes(range(128, 256)) * 4, 400, MALFORMED),
    ("absolute form, another Host", b"GET http://other.test/pub/x HTTP/1.1\r\n" + H + b"\r\n", 400, HOST),
    ("absolute form, another port", b"GET http://api.test:81/pub/x HTTP/1.1\r\n" + H + b"\r\n", 400, HOST),
    ("absolute form, no Host", b"GET http://api.test/pub/x HTTP/1.1\r\n\r\n", 400, HOST),
    ("absolute form with a user", b"GET http://me@api.test/pub/x HTTP/1.1\r\n" + H + b"\r\n", 400, "invalid_target"),
    ("absolute form of ftp", b"GET ftp://api.test/pub/x HTTP/1.1\r\n" + H + b"\r\n", 400, "invalid_target"),
    ("no slash", b"GET pub/x HTTP/1.1\r\n" + H + b"\r\n", 400, None),
    ("asterisk with GET", b"GET * HTTP/1.1\r\n" + H + b"\r\n", 400, None),
    ("a fragment", b"GET /pub/x#a HTTP/1.1\r\n" + H + b"\r\n", 400, "invalid_target"),
    ("Connection names Host", get(b"Host: api.test", b"Connection: host"), 400, HEADER),
    ("Connection names Content-Length", post(b"Content-Length: 5", b"Connection: close, content-length", body=b"hello"),
     400, HEADER),
    ("Connection names Transfer-Encoding", post(CHUNKED, b"Connection: Transfer-Encoding", body=b"0\r\n\r\n"), 400,
     HEADER),
    ("Connection names Authorization", get(b"Host: api.test", b"Authorization: Bearer x", b"Connection: Authorization"),
     400, HEADER),
    ("another expectation", post(b"Content-Length: 5", b"Expect: 200-ok", body=b"hello"), 417, "expectation_failed"),
]


@pytest.mark.parametrize("data,status,code", [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_refused(proxy, recorder, data, status, code):
    if code is None:  # which of the codes for it is left open; the status is not
        got = proxy.raw(data + SMUGGLED)
        code = re.search(rb'"code":"(\w+)"', got).group(1).decode()
    refused(proxy, recorder, data, status, code)


def test_connect_is_no_method_here(proxy, recorder):
    got = proxy.raw(b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\nConnection: close\r\n\r\n")
    status, _, lines = harness.head_of(got.split(b"\r\n\r\n")[0].decode())
    assert status == 405 and "GET" in dict(lines)["Allow"]
    assert b'"code":"method_not_allowed"' in got and recorder.seen == []


def test_options_of_the_server_is_answered(proxy, recorder):
    answer = proxy.client().send(b"OPTIONS * HTTP/1.1\r\n" + H + b"\r\n").answer()
    assert answer.status in (200, 204) and "OPTIONS" in answer.header("allow")
    assert recorder.seen == []


def test_a_refused_request_is_the_last(proxy, recorder):
    """A good request, then a bad one, then what must not be read as a third."""
    got = proxy.raw(get(b"Host: api.test") + post(b"Content-Length: 3", CHUNKED) + SMUGGLED)
    assert STATUS.findall(got) == [b"200", b"400"]
    assert recorder.targets() == ["/pub/x"]


BAD_CHUNKS = [b"5\nhello\r\n0\r\n\r\n", b"0x5\r\nhello\r\n0\r\n\r\n", b"+5\r\nhello\r\n0\r\n\r\n", b"-5\r\nhello\r\n",
              b"g\r\nhello\r\n0\r\n\r\n", b"fffffffffffffffff\r\nhello", b"5\r\nhelloworld\r\n0\r\n\r\n",
              b"5\r\nhello\n0\r\n\r\n", b" 5\r\nhello\r\n0\r\n\r\n", b"5 \r\nhello\r\n0\r\n\r\n", b"\r\nhello\r\n",
              b"5\r\nhello\r\n0\r\nX-A : 1\r\n\r\n", b"5\r\nhello\r\n0\r\nX-A: \0\r\n\r\n",
              b"5;\x01\r\nhello\r\n0\r\n\r\n",
              b"5" + b";a=" + b"b" * 200000 + b"\r\nhello\r\n0\r\n\r\n"]


@pytest.mark.parametrize("body", BAD_CHUNKS, ids=[repr(b[:24]) for b in BAD_CHUNKS])
def test_bad_chunks(proxy, recorder, body):
    """The API may have had the head and good chunks, never the end of a body that it then takes for whole."""
    got = proxy.raw(post(CHUNKED, body=body) + SMUGGLED)
    assert STATUS.findall(got) == [b"400"], got
    assert recorder.seen == []


# --- what the API gets ------------------------------------------------------------------------------------------------

OURS = b"X-Request-Id: ID\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n"
OURS_HOST = OURS + b"X-Forwarded-Host: api.test\r\n"

SENT = [
    ("plain", b"GET /pub/x?a=1&b=%20 HTTP/1.1\r\n" + H + b"X-A: 1\r\nx-b:2\r\nX-A:  3 \t\r\n\r\n",
     b"GET /pub/x?a=1&b=%20", b"X-A: 1\r\nx-b: 2\r\nX-A: 3\r\n", OURS_HOST, b""),
    ("empty lines before it", b"\r\n\r\nGET /pub/x HTTP/1.1\r\n" + H + b"\r\n", b"GET /pub/x", b"", OURS_HOST, b""),
    ("absolute form", b"GET http://API.test/pub/x?y HTTP/1.1\r\n" + H + b"\r\n", b"GET /pub/x?y", b"", OURS_HOST, b""),
    ("empty query", b"GET /pub/x? HTTP/1.1\r\n" + H + b"\r\n", b"GET /pub/x?", b"", OURS_HOST, b""),
    ("HTTP/1.0 without Host", b"GET /pub/x HTTP/1.0\r\n\r\n", b"GET /pub/x", b"", OURS, b""),
    ("upper case Host", b"GET /pub/x HTTP/1.1\r\nHOST: API.TEST\r\n\r\n", b"GET /pub/x", b"", OURS_HOST, b""),
    ("a length", post(b"Content-Length: 5", b"X-A: 1", body=b"hello"), b"POST /pub/x",
     b"Content-Length: 5\r\nX-A: 1\r\n", OURS_HOST, b"hello"),
    ("a length with zeros", post(b"Content-Length: 0005", body=b"hello"), b"POST /pub/x",
     b"Content-Length: 0005\r\n", OURS_HOST, b"hello"),
    ("length 0", post(b"Content-Length: 0"), b"POST /pub/x", b"Content-Length: 0\r\n", OURS_HOST, b""),
    ("chunks", post(b"tRANSFER-eNCODING:  CHUNKED ", body=b"3;x=y\r\nabc\r\n0A\r\n0123456789\r\n000\r\n\r\n"),
     b"POST /pub/x", b"", b"Transfer-Encoding: chunked\r\n" + OURS_HOST, b"3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n"),
    ("no chunk", post(CHUNKED, body=b"0\r\n\r\n"), b"POST /pub/x", b"", b"Transfer-Encoding: chunked\r\n" + OURS_HOST,
     b"0\r\n\r\n"),
    ("a body with GET", b"GET /pub/x HTTP/1.1\r\n" + H + b"Content-Length: 5\r\n\r\nhello", b"GET /pub/x",
     b"Content-Length: 5\r\n", OURS_HOST, b"hello"),
    ("latin-1 in a value", get(b"Host: api.test", b"X-A: caf\xe9 \xff"), b"GET /pub/x", b"X-A: caf\xe9 \xff\r\n",
     OURS_HOST, b""),
    ("empty value", get(b"Host: api.test", b"X-A:"), b"GET /pub/x", b"X-A: \r\n", OURS_HOST, b""),
    ("odd but good name", get(b"Host: api.test", b"!#$%&'*+-.^_`|~9: 1"), b"GET /pub/x", b"!#$%&'*+-.^_`|~9: 1\r\n",
     OURS_HOST, b""),
]


@pytest.mark.parametrize("delay_s", [0, 0.001], ids=["at once", "bytewise"])
@pytest.mark.parametrize("data,line,as_sent,ours,body", [s[1:] for s in SENT], ids=[s[0] for s in SENT])
def test_sent(proxy, recorder, data, line, as_sent, ours, body, delay_s):
    client = proxy.client().send(*([bytes([b]) for b in data] if delay_s else [data]), delay_s=delay_s)
    assert client.answer().body == b"ok"
    head, got = recorder.last
    host = b"Host: 127.0.0.1:%d\r\n" % recorder.port
    assert without_id(head) == line + b" HTTP/1.1\r\n" + host + as_sent + ours + b"\r\n"
    assert b"".join(chunk_data(got)) == b"".join(chunk_data(body)) if b"Transfer-Encoding" in ours else got == body
    client.close()


def chunk_data(body):
    while body and not body.startswith(b"0\r\n"):
        size, body = body.split(b"\r\n", 1)
        yield body[:int(size, 16)]
        body = body[int(size, 16) + 2:]


def test_pipelined_requests_in_order(proxy, recorder):
    client = proxy.client()
    client.send(b"".join(b"GET /pub/%d HTTP/1.1\r\n" % i + H + b"\r\n" for i in range(50)) +
                b"POST /pub/last HTTP/1.1\r\n" + H + b"Content-Length: 3\r\n\r\nabc")
    assert [client.answer().status for _ in range(51)] == [200] * 51
    assert recorder.targets() == [f"/pub/{i}" for i in range(50)] + ["/pub/last"]
    assert recorder.last[1] == b"abc"


def test_http10_closes_unless_asked(proxy, recorder):
    assert proxy.raw(b"GET /pub/x HTTP/1.0\r\n\r\n").endswith(b"\r\n\r\nok")
    client = proxy.client()
    for _ in range(2):
        answer = client.send(b"GET /pub/x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").answer()
        assert answer.body == b"ok" and answer.header("connection") == "keep-alive"


# --- answers ----------------------------------------------------------------------------------------------------------

def ok(*lines, body=b"", first=b"HTTP/1.1 200 OK"):
    return first + b"\r\n" + b"".join(x + b"\r\n" for x in lines) + b"\r\n" + body


ID = b"X-Request-Id: ID\r\n"
BIG = b"X-Big: " + b"b" * 70000

# (name, method, answer, closes behind it, what the client gets: None is 502 upstream_malformed, "closed" 502
# upstream_closed, "interim" the same behind a 100)
ANSWERS = [
    ("length", b"GET", ok(b"Content-Length: 5", b"X-A: 1", b"Set-Cookie: a=1", b"Set-Cookie: b=2", body=b"hello"),
     False,
     b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n" + ID + b"\r\nhello"),
    ("its own phrase", b"GET", ok(b"Content-Length: 0", first=b"HTTP/1.1 299 As You Like It"), False,
     b"HTTP/1.1 299 As You Like It\r\nContent-Length: 0\r\n" + ID + b"\r\n"),
    ("500", b"GET", ok(b"Content-Length: 4", body=b"oops", first=b"HTTP/1.1 500 Internal Server Error"), False,
     b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\n" + ID + b"\r\noops"),
    ("its 401 with its challenge", b"GET", ok(b"Content-Length: 0", b"WWW-Authenticate: Basic realm=api",
                                              first=b"HTTP/1.1 401 Unauthorized"), False,
     b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nWWW-Authenticate: Basic realm=api\r\n" + ID + b"\r\n"),
    ("HEAD with a length", b"HEAD", ok(b"Content-Length: 5"), False,
     b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n" + ID + b"\r\n"),
    ("HEAD without", b"HEAD", ok(b"X-A: 1"), False, b"HTTP/1.1 200 OK\r\nX-A: 1\r\n" + ID + b"\r\n"),
    ("204", b"GET", ok(b"X-A: 1", first=b"HTTP/1.1 204 No Content"), False,
     b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n" + ID + b"\r\n"),
    ("304 with a length", b"GET", ok(b"Content-Length: 5", b"ETag: \"a\"", first=b"HTTP/1.1 304 Not Modified"), False,
     b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: \"a\"\r\n" + ID + b"\r\n"),
    ("100, then it", b"GET", b"HTTP/1.1 100 Continue\r\n\r\n" + ok(b"Content-Length: 2", body=b"ok"), False,
     b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + ID + b"\r\nok"),
    ("103 twice, then it", b"GET", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 2 + ok(b"Content-Length: 0"),
     False,
     b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 2 +
     b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + ID + b"\r\n"),
    ("chunks", b"GET", ok(CHUNKED, body=b"5;a=b\r\nhello\r\n0\r\n\r\n"), False,
     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + ID + b"\r\n5\r\nhello\r\n0\r\n\r\n"),
    ("until the end", b"GET", ok(b"X-A: 1", body=b"hello"), True,
     b"HTTP/1.1 200 OK\r\nX-A: 1\r\nTransfer-Encoding: chunked\r\n" + ID + b"\r\n5\r\nhello\r\n0\r\n\r\n"),
    ("HTTP/1.0 until the end", b"GET", ok(body=b"hello", first=b"HTTP/1.0 200 OK"), True,
     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + ID + b"\r\n5\r\nhello\r\n0\r\n\r\n"),
    ("Connection: close", b"GET", ok(b"Content-Length: 2", b"Connection: close", body=b"ok"), True,
     b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + ID + b"\r\nok"),
    ("hop-by-hop headers", b"GET", ok(b"Connection: X-Mine, keep-alive", b"X-Mine: 1", b"Keep-Alive: timeout=5",
                                      b"Proxy-Authenticate: Basic", b"Upgrade: h2c", b"Content-Length: 2", body=b"ok"),
     False, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + ID + b"\r\nok"),
    ("its X-Request-Id is ours", b"GET", ok(b"X-Request-Id: theirs", b"Content-Length: 0"), False,
     b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + ID + b"\r\n"),
    ("overlong", b"GET", ok(b"Content-Length: 2", body=b"okHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"), False,
     b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + ID + b"\r\nok"),
    ("a body with HEAD", b"HEAD", ok(b"Content-Length: 5", body=b"hello"), False,
     b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n" + ID + b"\r\n"),
    ("a body with 204", b"GET", ok(body=b"hello", first=b"HTTP/1.1 204 No Content"), False,
     b"HTTP/1.1 204 No Content\r\n" + ID + b"\r\n"),
    ("length and chunks", b"GET", ok(b"Content-Length: 5", CHUNKED, body=b"0\r\n\r\n"), False, None),
    ("two lengths", b"GET", ok(b"Content-Length: 5", b"Content-Length: 6", body=b"hello"), False, None),
    ("length -1", b"GET", ok(b"Content-Length: -1"), False, None),
    ("length of letters", b"GET", ok(b"Content-Length: five", body=b"hello"), False, None),
    ("unknown coding", b"GET", ok(b"Transfer-Encoding: gzip", body=b"hello"), True, None),
    ("101 unasked", b"GET", ok(b"Upgrade: h2c", b"Connection: upgrade", first=b"HTTP/1.1 101 Switching Protocols"),
     False,
     None),
    ("HTTP/2.0", b"GET", ok(b"Content-Length: 0", first=b"HTTP/2.0 200 OK"), False, None),
    ("status of two digits", b"GET", ok(b"Content-Length: 0", first=b"HTTP/1.1 20 OK"), False, None),
    ("status of four digits", b"GET", ok(b"Content-Length: 0", first=b"HTTP/1.1 2000 OK"), False, None),
    ("status of letters", b"GET", ok(b"Content-Length: 0", first=b"HTTP/1.1 abc OK"), False, None),
    ("garbage", b"GET", b"SSH-2.0-OpenSSH_9.2\r\n\r\n", False, None),
    ("binary", b"GET", bytes(range(256)), False, None),
    ("bare LF", b"GET", b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", False, None),
    ("folded", b"GET", ok(b"X-A: 1", b" 2", b"Content-Length: 0"), False, None),
    ("NUL in a value", b"GET", ok(b"X-A: a\0b", b"Content-Length: 0"), False, None),
    ("empty name", b"GET", ok(b": 1", b"Content-Length: 0"), False, None),
    ("space before the colon", b"GET", ok(b"Content-Length : 5", body=b"hello"), False, None),
    ("head over all bounds", b"GET", ok(BIG, b"Content-Length: 0"), False, None),
    ("300 lines", b"GET", ok(*[b"X-%d: 1" % i for i in range(300)], b"Content-Length: 0"), False, None),
    ("nothing", b"GET", b"", True, "closed"),
    ("half a status line", b"GET", b"HTTP/1.1 20", True, "closed"),
    ("half a head", b"GET", b"HTTP/1.1 200 OK\r\nContent-Le", True, "closed"),
    ("100 and no more", b"POST", b"HTTP/1.1 100 Continue\r\n\r\n", True, "interim"),
]


def plays(answer, closes, bytewise=False):
    def script(conversation, head, body):
        if bytewise:
            conversation.send_bytewise(answer)
        else:
            conversation.send(answer)
        return not closes
    return script


@pytest.mark.parametrize("bytewise", [False, True], ids=["at once", "bytewise"])
@pytest.mark.parametrize("method,answer,closes,gets", [a[1:] for a in ANSWERS], ids=[a[0] for a in ANSWERS])
def test_answers(proxy, recorder, method, answer, closes, gets, bytewise):
    """Relayed as they should be, or 502; and the next request on the same connection has its own answer."""
    if bytewise and len(answer) > 1000:
        pytest.skip("too long to send byte by byte")
    recorder.answer = plays(answer, closes, bytewise)
    client = proxy.client().send(method + b" /pub/x HTTP/1.1\r\n" + H + b"\r\n")
    if isinstance(gets, bytes):
        if bytewise:  # how the body was cut into chunks is chance then
            got = [client.answer(method.decode()) for _ in range(gets.count(b"HTTP/1.1 "))]
            want = body_of(gets)
            assert got[-1].body == want and got[-1].status == int(gets.split(b"HTTP/1.1 ")[-1][:3])
        else:
            got = client.until(b"X-Request-Id: ")
            got += b"ID" + client.until(b"\r\n")[-2:]
            got += client.exactly(len(gets) - len(got))
            assert got == gets
    else:
        final = client.answer()
        if gets == "interim":
            assert final.status == 100
            final = client.answer()
        assert final.status == 502, final
        assert final.json["code"] == ("upstream_malformed" if gets is None else "upstream_closed")
        assert proxy.log(final.request_id)["reason"] == final.json["code"]
    if bytewise and method == b"HEAD":
        time.sleep(0.3)  # the body that should not be has come: behind the next request it would be taken for its answer
    recorder.answer = ok(b"Content-Length: 4", body=b"next")
    following = client.send(b"GET /pub/next HTTP/1.1\r\n" + H + b"\r\n").answer()
    assert (following.status, following.body) == (200, b"next")
    targets = recorder.targets()
    assert targets[0] == "/pub/x" and targets[-1] == "/pub/next"
    assert len(targets) <= (3 if gets == "closed" else 2), "closed at once on a kept connection: one more try, no more"
    client.close()


def body_of(message):
    final = message[message.rindex(b"HTTP/1.1 "):]
    head, body = final.split(b"\r\n\r\n", 1)
    return b"".join(chunk_data(body)) if b"Transfer-Encoding" in head else body


BROKEN = [
    ("short", ok(b"Content-Length: 10", body=b"hello"), b"hello", "upstream_closed"),
    ("chunks without an end", ok(CHUNKED, body=b"5\r\nhello\r\n"), b"5\r\nhello\r\n", "upstream_closed"),
    ("half a chunk", ok(CHUNKED, body=b"5\r\nhel"), b"3\r\nhel\r\n", "upstream_closed"),
    ("a bad chunk", ok(CHUNKED, body=b"5\r\nhelloXX"), b"5\r\nhello\r\n", "upstream_malformed"),
]


@pytest.mark.parametrize("answer,body,reason", [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_broken_answers_look_broken(proxy, recorder, answer, body, reason):
    """The head is out already: the client must see that the body is not whole."""
    def script(conversation, head, _):
        at = answer.index(b"\r\n\r\n") + 4
        conversation.send(answer[:at], answer[at:], delay_s=0.05)
        return False
    recorder.answer = script
    got = proxy.raw(b"GET /pub/x HTTP/1.1\r\n" + H + b"\r\n")
    head, rest = got.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert not rest.endswith(b"0\r\n\r\n") and body.startswith(rest)
    line = proxy.log(re.search(rb"X-Request-Id: (\w+)", head).group(1).decode())
    assert line["reason"] == reason and line["status"] == 200
    recorder.reset()
    assert proxy.curl("/pub/x").status == 200


def test_early_answer_reaches_the_client(proxy):
    """The API refuses in the middle of a body: the client has the answer at once, and is told that it was the last."""
    client = proxy.client().send(b"POST /early/x HTTP/1.1\r\n" + H + b"Content-Length: 1000000\r\n\r\n" + b"x" * 10)
    answer = client.answer()
    assert (answer.status, answer.body, answer.header("connection")) == (413, b"big", "close")
    assert client.all() == b""
    client.close()


def test_until_the_end_for_http10(proxy, recorder):
    recorder.answer = plays(ok(CHUNKED, body=b"5\r\nhello\r\n0\r\n\r\n"), False)
    got = proxy.raw(b"GET /pub/x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert got.endswith(b"\r\n\r\nhello") and b"Transfer-Encoding" not in got and b"Connection: close" in got


def test_unasked_answer_poisons_nothing(proxy, recorder):
    """Bytes that come on an idle connection close it."""
    def script(conversation, head, body):
        conversation.send(ok(b"Content-Length: 2", body=b"ok"))
        if b"/pub/first" in head:
            conversation.send(ok(b"Content-Length: 4", body=b"evil"), delay_s=0.05)
    recorder.answer = script
    assert proxy.curl("/pub/first").body == b"ok"
    for _ in range(5):
        assert proxy.curl("/pub/next").body == b"ok"
