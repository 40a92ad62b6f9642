"""The same odd bytes through Doorward, nginx and haproxy in front of the same upstream. Asserted is what Doorward makes
of it: a refusal before anything is sent, or exactly the messages meant, framed so that no reader doubts them. What the
others make of it is written to build/differential.md where the three differ; a peer that is not installed is left
out."""
import concurrent.futures
import os
import re

import pytest

import differential
import harness
from general import ROUTES, settings

H = b"Host: api.test\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
TABLE = os.path.join(harness.ROOT, "build", "differential.md")


def get(lines=b"", target=b"/pub/x", host=H, version=b"HTTP/1.1"):
    return b"GET " + target + b" " + version + b"\r\n" + host + lines + b"\r\n"


def post(lines, body, version=b"HTTP/1.1"):
    return b"POST /pub/x " + version + b"\r\n" + H + lines + b"\r\n" + body


def length(n):
    return b"Content-Length: " + n + b"\r\n"


# What must become of a case with Doorward: statuses that it answers, then the messages that the upstream sees as
# (target, framing, body). A status of 400 and above is a refusal of Doorward's own: nothing behind it is read.
HELLO = ("/pub/x", "length", b"hello")
IN_CHUNKS = ("/pub/x", "chunked", b"hello")
X, Y = ("/pub/x", "none", b""), ("/pub/y", "none", b"")
NEXT = get(target=b"/pub/y")

REQUESTS = [
    # --- framing
    ("length and chunked", post(length(b"5") + CHUNKED, b"0\r\n\r\n") + NEXT, [400], []),
    ("chunked and length", post(CHUNKED + length(b"5"), b"0\r\n\r\n") + NEXT, [400], []),
    ("two lengths", post(length(b"5") + length(b"6"), b"hello!"), [400], []),
    ("the same length twice", post(length(b"5") * 2, b"hello"), [400], []),
    ("a list of equal lengths", post(length(b"5, 5"), b"hello"), [400], []),
    ("length with a sign", post(length(b"+5"), b"hello"), [400], []),
    ("length below zero", post(length(b"-5"), b"hello"), [400], []),
    ("length in hexadecimal", post(length(b"0x5"), b"hello"), [400], []),
    ("length with an underscore", post(length(b"1_0"), b"helloworld"), [400], []),
    ("length with a vertical tab", post(length(b"\x0b5"), b"hello"), [400], []),
    ("length over 2^64", post(length(b"18446744073709551621"), b"hello"), [400], []),
    ("length with zeros", post(length(b"005"), b"hello"), [200], [HELLO]),
    ("length in quotes", post(length(b'"5"'), b"hello"), [400], []),
    ("length, an empty value", post(length(b""), b"hello"), [400], []),
    ("length, space before the colon", post(b"Content-Length : 5\r\n", b"hello"), [400], []),
    ("coding, space before the colon", post(b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"), [400], []),
    ("coding xchunked", post(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"), [501], []),
    ("coding gzip, chunked", post(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"), [501], []),
    ("coding chunked, identity", post(b"Transfer-Encoding: chunked, identity\r\n", b"0\r\n\r\n"), [400, 501], []),
    ("coding identity and a length", post(b"Transfer-Encoding: identity\r\n" + length(b"5"), b"hello"), [400], []),
    ("coding twice", post(CHUNKED * 2, b"0\r\n\r\n"), [400], []),
    ("coding in capitals", post(b"TRANSFER-ENCODING: Chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n"), [200], [IN_CHUNKS]),
    ("coding behind a tab", post(b"Transfer-Encoding:\tchunked\r\n", b"5\r\nhello\r\n0\r\n\r\n"), [200], [IN_CHUNKS]),
    ("coding with a comma in front", post(b"Transfer-Encoding: ,chunked\r\n", b"0\r\n\r\n"), [400, 501], []),
    ("coding with a parameter", post(b"Transfer-Encoding: chunked;a=b\r\n", b"0\r\n\r\n"), [400, 501], []),
    ("coding with a NUL", post(b"Transfer-Encoding: chunked\0\r\n", b"0\r\n\r\n"), [400], []),
    ("coding in HTTP/1.0", post(CHUNKED, b"0\r\n\r\n", b"HTTP/1.0"), [400], []),
    ("coding folded", post(b"Transfer-Encoding:\r\n chunked\r\n", b"0\r\n\r\n"), [400], []),
    ("coding with underscores", post(b"Transfer_Encoding: chunked\r\n" + length(b"5"), b"hello"), [400], []),
    ("a body with GET", get(length(b"5")) + b"hello", [200], [HELLO]),
    # --- line ends
    ("bare LF everywhere", b"GET /pub/x HTTP/1.1\nHost: api.test\n\n", [400], []),
    ("bare LF behind the request line", b"GET /pub/x HTTP/1.1\n" + H + b"\r\n", [400], []),
    ("bare LF between headers", get(b"A: 1\nB: 2\r\n"), [400], []),
    ("bare LF as the empty line", b"GET /pub/x HTTP/1.1\r\n" + H + b"\n", [400], []),
    ("bare CR in a value", get(b"A: 1\rB: 2\r\n"), [400], []),
    ("CR CR LF", get(b"A: 1\r\r\n"), [400], []),
    ("CR LF CR X", b"GET /pub/x HTTP/1.1\r\n" + H + b"\rX\r\n\r\n", [400], []),
    ("empty lines in front", b"\r\n\r\n" + get(), [200], [X]),
    ("a bare LF in front", b"\n" + get(), [400], []),
    ("LF in a name", get(b"A\nB: 1\r\n"), [400], []),
    # --- headers
    ("folded by a space", get(b"A: 1\r\n 2\r\n"), [400], []),
    ("folded by a tab", get(b"A: 1\r\n\t2\r\n"), [400], []),
    ("the first line folded", b"GET /pub/x HTTP/1.1\r\n A: 1\r\n" + H + b"\r\n", [400], []),
    ("no colon", get(b"A\r\n"), [400], []),
    ("an empty name", get(b": 1\r\n"), [400], []),
    ("a space in a name", get(b"A B: 1\r\n"), [400], []),
    ("a NUL in a value", get(b"A: 1\x002\r\n"), [400], []),
    ("a NUL in a name", get(b"A\0: 1\r\n"), [400], []),
    ("a control in a value", get(b"A: \x01\r\n"), [400], []),
    ("a high byte in a name", get(b"\xc0A: 1\r\n"), [400], []),
    ("Connection names Content-Length", post(b"Connection: Content-Length\r\n" + length(b"5"), b"hello"), [400], []),
    ("Connection names Host", get(b"Connection: Host\r\n"), [400], []),
    ("Upgrade to h2c", get(b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n"), [200],
     [X]),
    ("Expect something", post(b"Expect: nothing\r\n" + length(b"5"), b"hello"), [417], []),
    # --- hosts
    ("no Host", get(host=b""), [400], []),
    ("two Hosts", get(b"Host: evil.test\r\n"), [400], []),
    ("an empty Host", get(host=b"Host:\r\n"), [400], []),
    ("Host with a space", get(host=b"Host: a b\r\n"), [400], []),
    ("Host with a path", get(host=b"Host: api.test/x\r\n"), [400], []),
    ("Host with a user", get(host=b"Host: a@api.test\r\n"), [400], []),
    ("a list of Hosts", get(host=b"Host: api.test,evil.test\r\n"), [400], []),
    ("Host with a port that is none", get(host=b"Host: api.test:99999x\r\n"), [400], []),
    ("Host with port 65536", get(host=b"Host: api.test:65536\r\n"), [400], []),
    ("Host with two ports", get(host=b"Host: api.test:80:81\r\n"), [400], []),
    ("Host that is a port", get(host=b"Host: :80\r\n"), [400], []),
    ("Host with an escape", get(host=b"Host: api%2etest\r\n"), [400], []),
    ("Host with half a bracket", get(host=b"Host: [::1\r\n"), [400], []),
    ("Host with text behind the bracket", get(host=b"Host: [::1]evil.test\r\n"), [400], []),
    ("Host, an IPv6 address", get(host=b"Host: [::1]:80\r\n"), [200], [("/pub/x", "none", b"")]),
    # --- versions
    ("HTTP/0.9", b"GET /pub/x\r\n\r\n", [400, 505], []),
    ("HTTP/1.2", get(version=b"HTTP/1.2"), [400, 505], []),
    ("HTTP/2.0", get(version=b"HTTP/2.0"), [400, 505], []),
    ("HTTP/1.01", get(version=b"HTTP/1.01"), [400, 505], []),
    ("http/1.1", get(version=b"http/1.1"), [400, 505], []),
    ("HTTP /1.1", get(version=b"HTTP /1.1"), [400, 505], []),
    ("HTTP/1.0 without Host", get(host=b"", version=b"HTTP/1.0"), [200], [X]),
    # --- forms
    ("absolute form", get(target=b"http://api.test/pub/x"), [200], [X]),
    ("absolute form of another host", get(target=b"http://evil.test/pub/x"), [400], []),
    ("absolute form with a user", get(target=b"http://a@api.test/pub/x"), [400], []),
    ("a fragment", get(target=b"/pub/x#a"), [400], []),
    ("a backslash", get(target=b"/pub\\x"), [400], []),
    ("an encoded slash", get(target=b"/pub%2fx"), [400], []),
    ("dot segments", get(target=b"/other/../pub/x"), [400], []),
    ("encoded dot segments", get(target=b"/other/%2e%2e/pub/x"), [400], []),
    ("an empty segment", get(target=b"//pub/x"), [400], []),
    ("an encoded letter", get(target=b"/p%75b/x"), [200], [X]),
    ("an encoded NUL", get(target=b"/pub/x%00"), [400], []),
    ("no slash", get(target=b"pub/x"), [400], []),
    ("a raw high byte", get(target=b"/pub/\xff"), [400], []),
    ("two spaces before the target", get(target=b" /pub/x"), [400], []),
    ("CONNECT", b"CONNECT api.test:443 HTTP/1.1\r\n" + H + b"\r\n", [405], []),
    ("asterisk", get(target=b"*"), [400], []),
    # --- chunks
    ("chunk with an extension", post(CHUNKED, b"5;a=b\r\nhello\r\n0\r\n\r\n"), [200], [IN_CHUNKS]),
    ("chunk ended by a bare LF", post(CHUNKED, b"5\nhello\r\n0\r\n\r\n"), [400], None),
    ("chunk data ended by a bare LF", post(CHUNKED, b"5\r\nhello\n0\r\n\r\n"), [400], None),
    ("chunk size in 0x", post(CHUNKED, b"0x5\r\nhello\r\n0\r\n\r\n"), [400], None),
    ("chunk size with a sign", post(CHUNKED, b"+5\r\nhello\r\n0\r\n\r\n"), [400], None),
    ("chunk size behind a space", post(CHUNKED, b" 5\r\nhello\r\n0\r\n\r\n"), [400], None),
    ("chunk size before a space", post(CHUNKED, b"5 \r\nhello\r\n0\r\n\r\n"), [400], None),
    ("chunk size over 64 bits", post(CHUNKED, b"10000000000000005\r\nhello\r\n0\r\n\r\n"), [400], None),
    ("chunk longer than it says", post(CHUNKED, b"5\r\nhello!\r\n0\r\n\r\n"), [400], None),
    ("chunk size with zeros", post(CHUNKED, b"0005\r\nhello\r\n000\r\n\r\n"), [200], [IN_CHUNKS]),
    ("chunk extension with a bare LF", post(CHUNKED, b"5;a\nb\r\nhello\r\n0\r\n\r\n"), [400], None),
    ("chunk extension with a bare CR", post(CHUNKED, b"5;a\rb\r\nhello\r\n0\r\n\r\n"), [400], None),
    ("a length as a trailer", post(CHUNKED, b"5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n"), [200, 400], None),
    ("a bare LF behind the last chunk", post(CHUNKED, b"5\r\nhello\r\n0\r\n\n") + NEXT, [400], None),
    # --- pipelining
    ("two good ones", get() + NEXT, [200, 200], [X, Y]),
    ("a good and a bad one", get() + post(length(b"5") + CHUNKED, b"0\r\n\r\n") + NEXT, [200, 400], [X]),
    ("a body, then one", post(length(b"5"), b"hello") + NEXT, [200, 200], [HELLO, Y]),
    ("chunks, then one", post(CHUNKED, b"5\r\nhello\r\n0\r\n\r\n") + NEXT, [200, 200], [IN_CHUNKS, Y]),
    ("close, then one", get(b"Connection: close\r\n") + NEXT, [200], [X]),
    ("HTTP/1.0, then one", get(version=b"HTTP/1.0") + NEXT, [200], [X]),
    ("an empty line between", get() + b"\r\n" + NEXT, [200, 200], [X, Y]),
    ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), [400], []),
    ("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400, 405, 505], []),
]

OK = b"HTTP/1.1 200 OK\r\n"


def ok(lines, body):
    return OK + lines + b"\r\n" + body


# What the client must have of an answer: (status, body), None for 502.
ANSWERS = [
    ("a length", ok(length(b"5"), b"hello"), (200, b"hello")),
    ("chunks", ok(CHUNKED, b"5\r\nhello\r\n0\r\n\r\n"), (200, b"hello")),
    ("until the end", ok(b"", b"hello"), (200, b"hello")),
    ("length and chunked", ok(length(b"5") + CHUNKED, b"5\r\nhello\r\n0\r\n\r\n"), None),
    ("two lengths", ok(length(b"5") + length(b"6"), b"hello!"), None),
    ("the same length twice", ok(length(b"5") * 2, b"hello"), None),
    ("length with a sign", ok(length(b"+5"), b"hello"), None),
    ("length below zero", ok(length(b"-1"), b""), None),
    ("length over 2^64", ok(length(b"18446744073709551621"), b"hello"), None),
    ("coding gzip, chunked", ok(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"), None),
    ("coding xchunked", ok(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"), None),
    ("chunked in HTTP/1.0", b"HTTP/1.0 200 OK\r\n" + CHUNKED + b"\r\n5\r\nhello\r\n0\r\n\r\n", None),
    ("bare LF everywhere", b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", None),
    ("bare LF behind the status", b"HTTP/1.1 200 OK\nContent-Length: 5\r\n\r\nhello", None),
    ("a folded header", ok(b"A: 1\r\n 2\r\n" + length(b"5"), b"hello"), None),
    ("a NUL in a value", ok(b"A: \0\r\n" + length(b"5"), b"hello"), None),
    ("a space before the colon", ok(b"Content-Length : 5\r\n", b"hello"), None),
    ("no colon", ok(b"A\r\n" + length(b"5"), b"hello"), None),
    ("an empty name", ok(b": 1\r\n" + length(b"5"), b"hello"), None),
    ("HTTP/2.0", b"HTTP/2.0 200 OK\r\n" + length(b"5") + b"\r\nhello", None),
    ("HTTP/0.9", b"<html>hello</html>", None),
    ("two digits of status", b"HTTP/1.1 20 OK\r\n" + length(b"5") + b"\r\nhello", None),
    ("four digits of status", b"HTTP/1.1 2000 OK\r\n" + length(b"5") + b"\r\nhello", None),
    ("status 099", b"HTTP/1.1 099 OK\r\n" + length(b"5") + b"\r\nhello", None),
    ("no phrase", b"HTTP/1.1 200\r\n" + length(b"5") + b"\r\nhello", (200, b"hello")),
    ("204 with a body", b"HTTP/1.1 204 No Content\r\n" + length(b"5") + b"\r\nhello", (204, b"")),
    ("204 in chunks", b"HTTP/1.1 204 No Content\r\n" + CHUNKED + b"\r\n5\r\nhello\r\n0\r\n\r\n", (204, b"")),
    ("304 with a body", b"HTTP/1.1 304 Not Modified\r\n" + length(b"5") + b"\r\nhello", (304, b"")),
    ("101 that nobody asked for", b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhello", None),
    ("two answers", ok(length(b"5"), b"hello") + ok(length(b"4"), b"evil"), (200, b"hello")),
    ("an empty line in front", b"\r\n" + ok(length(b"5"), b"hello"), None),
]


class Front:
    """One proxy with an upstream of its own."""

    def __init__(self, name, port, upstream):
        self.name, self.port, self.upstream = name, port, upstream

    def request(self, data):
        self.upstream.reset()
        return differential.exchange(self.port, data, self.upstream)

    def answer(self, data):
        self.upstream.reset(data)
        return differential.exchange(self.port, get(), self.upstream)


@pytest.fixture(scope="module")
def fronts(module_doorward, issuer):
    engine = harness.Policy()
    upstreams = [differential.Upstream() for _ in range(3)]
    daemon = module_doorward(settings(f"http://127.0.0.1:{upstreams[0].port}", engine.url, issuer, routes=ROUTES,
                                      upstream={"host": "preserve"}))
    daemon.wait_ready()
    made = [Front("doorward", daemon.port, upstreams[0])]
    peers = []
    for name, upstream in zip(differential.PEERS, upstreams[1:]):
        if differential.program(name):
            peers.append(differential.Peer(name, upstream.port))
            made.append(Front(name, peers[-1].port, upstream))
    yield made
    for part in [*peers, *upstreams, engine]:
        part.stop()


def play(fronts, cases, kind):
    """{name: {case: what was seen}}; the proxies at once, the cases of each in turn."""
    def all_of(front):
        return {name: getattr(front, kind)(data) for name, data, *_ in cases}
    with concurrent.futures.ThreadPoolExecutor(len(fronts)) as pool:
        return dict(zip([f.name for f in fronts], pool.map(all_of, fronts)))


def tell(title, seen, cases, words, mode):
    """The part of the table with the cases that the proxies take in different ways."""
    rows = [f"\n## {title}\n", "| case | " + " | ".join(seen) + " |", "|---" * (len(seen) + 1) + "|"]
    for name, *_ in cases:
        said = [words(of[name]) for of in seen.values()]
        if len(set(said)) > 1:
            rows.append(f"| {name} | " + " | ".join(s.replace("|", "\\|") for s in said) + " |")
    with open(TABLE, mode, encoding="utf-8") as file:
        file.write("\n".join(rows) + "\n")
    print("\n".join(rows))


def fault_of(seen, statuses, messages):
    """What is wrong with how Doorward took a case; None when nothing is."""
    if messages is None:  # a body that breaks off: of the head nobody knows any more, but no whole message
        if seen.statuses not in [[s] for s in statuses]:
            return "another status"
        if 200 not in seen.statuses and seen.forwarded:
            return "a whole message went up"
        return next((read.doubt for read in seen.reads if read.doubt), None)
    final = statuses[-1] if messages or len(statuses) == 1 else statuses
    wanted = [[s] for s in final] if isinstance(final, list) else [statuses]
    if seen.statuses not in wanted:
        return "another status"
    if [(m.target, m.framing, m.body) for m in seen.forwarded] != messages or \
            not all(re.fullmatch(r"api\.test|\[::1\]:80|127\.0\.0\.1:\d+", m.host) for m in seen.forwarded):
        return "other messages"
    return next((read.doubt or f"more behind: {read.rest!r}" for read in seen.reads if read.doubt or read.rest), None)


def test_requests(fronts):
    seen = play(fronts, REQUESTS, "request")
    os.makedirs(os.path.dirname(TABLE), exist_ok=True)
    tell("Requests that are taken in different ways", seen, REQUESTS, differential.Seen.summary, "w")
    wrong = [(name, fault, seen["doorward"][name].summary()) for name, _, statuses, messages in REQUESTS
             if (fault := fault_of(seen["doorward"][name], statuses, messages))]
    assert not wrong, "\n".join(map(str, wrong))
    assert len(REQUESTS) >= 60


def body_of(answered):
    """(status, body) as a strict client reads it, and what is left over; None when it is not whole."""
    head, mark, rest = answered.partition(b"\r\n\r\n")
    if not mark:
        return None
    status, _, lines = harness.head_of(head.decode("latin-1"))
    names = {name.lower(): value for name, value in lines}
    if status in (204, 304):
        return (status, b""), rest
    if names.get("transfer-encoding") == "chunked":
        taken = differential.chunked(rest)
        return taken and ((status, taken[0]), taken[1])
    size = int(names["content-length"]) if "content-length" in names else len(rest)
    return ((status, rest[:size]), rest[size:]) if len(rest) >= size else None


def words_of_answer(seen):
    try:
        read = body_of(seen.answered)
    except (ValueError, IndexError):
        read = None
    if read is None:
        return f"not whole: {seen.answered[-60:]!r}" if seen.answered else "nothing"
    (status, body), rest = read
    own = status >= 500
    return f"{status} {'of its own' if own else body!r}" + (f", then {rest[:40]!r}" if rest else "")


def test_answers(fronts):
    seen = play(fronts, ANSWERS, "answer")
    tell("Answers that are taken in different ways", seen, ANSWERS, words_of_answer, "a")
    wrong = []
    for name, _, wanted in ANSWERS:
        read = body_of(seen["doorward"][name].answered)
        if not read or read[1] or (read[0] != wanted if wanted else read[0][0] != 502):
            wrong.append((name, seen["doorward"][name].answered))
    assert not wrong, "\n".join(map(str, wrong))
    assert len(ANSWERS) >= 25
