"""Bodies of any size pass through a small buffer, both ways, and who goes away in the middle is told to the other
side."""
import hashlib
import json
import socket
import subprocess
import threading
import time

import pytest

import harness
from general import is_sanitized, settings, values

MIB = 1 << 20
SIZE = 200 * MIB
BLOCK = bytes(range(256)) * 256
GROWTH_KIB = 2048


@pytest.fixture(scope="module")
def running(module_doorward, session_api, recorder, engine, issuer):
    """/cwms-data is the sample API, which digests what it gets; the rest is raw bytes."""
    daemon = module_doorward(settings(recorder.url, engine.url, issuer,
                                      upstreams={"api": {"url": f"http://127.0.0.1:{session_api.port}"}},
                                      routes=[{"prefix": "/cwms-data", "upstream": "api"}, {"prefix": "/"},
                                              {"prefix": "/pub", "access": "public"}]))
    for path in ("/cwms-data/bytes/3000000", "/cwms-data/x"):
        daemon.curl(path)  # what is allocated once is allocated now
    daemon.curl("/cwms-data/x", data=b"x" * 3000000)
    return daemon


@pytest.fixture
def proxy(running, recorder, engine, api):
    recorder.reset()
    engine.says({"result": True})
    return running


class Watch:
    """The most resident memory over what it was at the start, while the block runs."""

    def __init__(self, daemon):
        self.daemon, self.most, self.done = daemon, 0, threading.Event()

    def __enter__(self):
        self.before = self.daemon.rss_kib()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        return self

    def look(self):
        while not self.done.is_set():
            self.most = max(self.most, self.daemon.rss_kib() - self.before)
            time.sleep(0.005)

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        if not is_sanitized(harness.BIN):
            assert self.most <= GROWTH_KIB, f"{self.most} KiB more"


def digest(size):
    sha = hashlib.sha256()
    for _ in range(size // len(BLOCK)):
        sha.update(BLOCK)
    return sha.hexdigest()


def read_body(client, sha, chunked, size):
    """Feeds a body to the digest without keeping it."""
    def take(n):
        while n:
            if not client.buffer:
                client.buffer = client.socket.recv(min(n, 1 << 18) if n > 1 << 16 else 1 << 16)
                assert client.buffer, "broke off"
            piece, client.buffer = client.buffer[:n], client.buffer[n:]
            sha.update(piece)
            n -= len(piece)
    if not chunked:
        return take(size)
    while True:
        n = int(client.until(b"\r\n"), 16)
        if n == 0:
            return client.until(b"\r\n")
        take(n)
        client.exactly(2)


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_200_mib_down(proxy, chunked):
    sha, client = hashlib.sha256(), proxy.client()
    with Watch(proxy):
        client.send(
    b"GET /cwms-data/bytes/%d%s HTTP/1.1\r\nHost: a\r\n\r\n" %
     (SIZE, b"?chunked=1" if chunked else b""))
        status, _, lines = harness.head_of(client.until(b"\r\n\r\n").decode())
        names = {k.lower(): v for k, v in lines}
        assert status == 200
        assert names.get("transfer-encoding") == "chunked" if chunked else names["content-length"] == str(SIZE)
        read_body(client, sha, chunked, SIZE)
    assert sha.hexdigest() == digest(SIZE)
    assert client.send(





                       b"GET /cwms-data/x HTTP/1.1\r\nHost: a\r\n\r\n").answer().status == 200, "the connection lives on"
    client.close()
    line = proxy.log(dict(lines)["X-Request-Id"])
    assert line["bytes_out"] == SIZE


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_200_mib_up(proxy, chunked):
    client = proxy.client()
    client.socket.settimeout(30)
    with Watch(proxy):
        client.send(b"PUT /cwms-data/x HTTP/1.1\r\nHost: a\r\n" +
                    (b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % SIZE) + b"\r\n\r\n")
        piece = b"%x\r\n%s\r\n" % (len(BLOCK), BLOCK) if chunked else BLOCK
        for _ in range(SIZE // len(BLOCK)):
            client.send(piece)
        if chunked:
            client.send(b"0\r\n\r\n")
        answer = client.answer()
    assert answer.status == 200
    assert answer.json["body"] == {"length": SIZE, "sha256": digest(SIZE)}
    assert proxy.log(answer.request_id)["bytes_in"] == SIZE
    client.close()


def test_slow_reader(proxy, recorder):
    """The API is held back, not buffered for."""
    sent = []

    def script(conversation, head, body):
        conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (64 * MIB))
        for _ in range(64 * MIB // len(BLOCK)):
            conversation.send(BLOCK)
            sent.append(len(BLOCK))
    recorder.answer = script
    client = harness.RawClient.__new__(harness.RawClient)
    client.socket, client.buffer = socket.socket(), b""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    client.socket.settimeout(harness.PATIENCE_S)
    client.socket.connect(("127.0.0.1", proxy.port))
    with Watch(proxy):
        client.send(b"GET /pub/x HTTP/1.1\r\nHost: a\r\n\r\n")
        time.sleep(0.4)
        held_at = sum(sent)
        time.sleep(0.2)
        assert sum(sent) == held_at < 32 * MIB, "it stands still"
        sha = hashlib.sha256()
        client.until(b"\r\n\r\n")
        read_body(client, sha, False, 64 * MIB)
    assert sha.hexdigest() == digest(64 * MIB)
    client.close()


def test_slow_api(proxy):
    """The client is held back while the API does not read; nothing is lost."""
    go, got = threading.Event(), []

    def script(conversation):
        head = conversation.until(b"\r\n\r\n")
        if b"X-Request-Id" not in head:
            return conversation.send(b"HTTP/1.1 204 No Content\r\n\r\n")
        go.wait(10)
        first = conversation.received[conversation.taken:]
        sha, left = hashlib.sha256(first), 32 * MIB - len(first)
        while left:
            piece = conversation.socket.recv(65536)
            sha.update(piece)
            left -= len(piece)
        got.append(sha.hexdigest())
        conversation.send(harness.OK_ANSWER)
    peer = harness.ScriptedUpstream(script)
    daemon = harness.Doorward(settings(peer.url, proxy_policy(proxy), proxy_issuer(proxy)))
    client, sent = daemon.client(), []

    def upload():
        client.send(b"PUT /pub/x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (32 * MIB))
        for _ in range(32 * MIB // len(BLOCK)):
            client.send(BLOCK)
            sent.append(len(BLOCK))
    thread = threading.Thread(target=upload)
    try:
        with Watch(daemon):
            thread.start()
            time.sleep(0.4)
            held_at = sum(sent)
            time.sleep(0.2)
            assert sum(sent) == held_at < 24 * MIB, "it stands still"
            go.set()
            thread.join()
            assert client.answer().body == b"ok"
        assert got == [digest(32 * MIB)]
    finally:
        go.set()
        client.close()
        daemon.stop()
        peer.stop()


def proxy_policy(daemon):
    with open(daemon.config_file, encoding="utf-8") as file:
        return json.load(file)["policy"]["url"].split("/v1/")[0]


def proxy_issuer(daemon):
    with open(daemon.config_file, encoding="utf-8") as file:
        row = json.load(file)["tokens"]["issuers"][0]
    return type("Named", (), {"name": row["issuer"], "jwks_url": row["jwks_url"]})


@pytest.mark.parametrize("how", ["reset", "close"])
def test_upload_broken_off(proxy, recorder, how):
    """The API must not take half a body for a whole one."""
    client = proxy.client().send(b"PUT /pub/x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1000)
    harness.eventually(lambda: any(b"x" * 1000 in c.received for c in recorder.peer.conversations), "some has arrived")
    conversation = recorder.peer.conversations[-1]
    getattr(client, how)()
    harness.eventually(conversation.ended.is_set, "the API's side ended")
    assert recorder.seen == []
    line = harness.eventually(lambda: [x for x in proxy.lines if x.get("reason") == "client_gone"], "logged")[-1]
    assert line["status"] == 499
    assert proxy.curl("/pub/x").status == 200


def test_half_close_is_not_gone(proxy, recorder):
    """Who has said all may still listen."""
    recorder.answer = lambda conversation, head, body: conversation.send(b"", harness.OK_ANSWER, delay_s=0.2)
    assert proxy.raw(b"GET /pub/x HTTP/1.1\r\nHost: a\r\n\r\n", half_close=True).endswith(b"ok")


def test_download_broken_off(proxy, recorder):
    ended = threading.Event()

    def script(conversation, head, body):
        try:
            conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1 << 40))
            while True:
                conversation.send(BLOCK)
        except OSError:
            ended.set()
        return False
    recorder.answer = script
    client = proxy.client().send(b"GET /pub/x HTTP/1.1\r\nHost: a\r\n\r\n")
    request_id = dict(harness.head_of(client.until(b"\r\n\r\n").decode())[2])["X-Request-Id"]
    client.exactly(100000)
    client.reset()
    assert ended.wait(5), "the API is told to stop"
    line = proxy.log(request_id)
    assert (line["reason"], line["status"]) == ("client_gone", 499)


def test_client_gone_before_the_answer(proxy, recorder):
    ended = threading.Event()

    def script(conversation, head, body):
        conversation.more()
        ended.set()
        return False
    recorder.answer = script
    client = proxy.client().send(b"GET /pub/x HTTP/1.1\r\nHost: a\r\n\r\n")
    harness.eventually(lambda: recorder.seen, "it arrived")
    client.reset()
    assert ended.wait(5), "the upstream request is cancelled"


# --- Expect: 100-continue -----------------------------------------------

def heads_of(daemon, path, *arguments, size=100000):
    ran = subprocess.run(["curl", "-sS", "-i", "--http1.1", "--expect100-timeout", "8", "-H", "Expect: 100-continue",
                                  *arguments, "--data-binary", "@-", daemon.base + path], input=b"x" * size,
                                 capture_output=True, check=True)
    return ran.stdout


def test_continue_comes_from_the_api(proxy):
    began = time.monotonic()
    got = heads_of(proxy, "/cwms-data/x")
    assert got.startswith(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert got[got.rindex(b"HTTP/1.1 "):].startswith(b"HTTP/1.1 200 OK\r\n")
    assert b'"length": 100000' in got and time.monotonic() - began < 5


def test_a_refusal_is_the_final_answer(proxy, engine, recorder, issuer):
    """Nothing of the body is asked for: neither after a denial of ours nor after one of the API's."""
    engine.says({"result": False})
    began = time.monotonic()
    got = heads_of(proxy, "/denied")
    assert got.startswith(b"HTTP/1.1 403 ") and b"100 Continue" not in got
    assert heads_of(proxy, "/x", "-H", "Authorization: Bearer x").startswith(b"HTTP/1.1 401 ")
    assert recorder.seen == recorder.broken == []
    seen = []

    def refuses(conversation):
        seen.append(conversation.until(b"\r\n\r\n"))
        conversation.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
        seen.append(conversation.more())
    peer = harness.ScriptedUpstream(refuses)
    daemon = harness.Doorward(settings(peer.url, proxy_policy(proxy), proxy_issuer(proxy)))
    try:
        got = heads_of(daemon, "/pub/x")
        assert got.startswith(b"HTTP/1.1 413 ") and got.endswith(b"big")
        assert values([s for s in seen if b"POST" in s][0], "expect") == ["100-continue"]
        assert not any(b"xxx" in s for s in seen)
    finally:
        daemon.stop()
        peer.stop()
    assert time.monotonic() - began < 6


def test_continue_for_our_own_endpoint(proxy):
    ran = subprocess.run(["curl", "-sS", "-i", "--http1.1", "-H", "Expect: 100-continue", "--expect100-timeout", "8",
                                  "-d", '{"resource":"a","action":"read"}', proxy.admin + "/authorize"],
                                 capture_output=True, check=True)
    assert ran.stdout.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


def test_ranges_are_the_apis_affair(proxy, recorder):
    recorder.answer = (b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 2-4/10\r\nContent-Length: 3\r\n"
                       b"Accept-Ranges: bytes\r\nETag: \"a\"\r\n\r\ncde")
    answer = proxy.curl("/pub/x", "-r", "2-4", "-H", "If-Range: \"a\"")
    assert (answer.status, answer.body, answer.header("content-range")) == (206, b"cde", "bytes 2-4/10")
    assert values(recorder.last[0], "range") == ["bytes=2-4"] and values(recorder.last[0], "if-range") == ['"a"']


@pytest.mark.parametrize("encoding", ["gzip", "br"])
def test_encodings_pass_untouched(proxy, recorder, encoding):
    body = b"\x1f\x8b\x08not really\x00\xff"
    recorder.answer = (b"HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n" % (encoding.encode(),
        len(body))
                       + body)
    answer = proxy.curl("/pub/x", "-H", "Accept-Encoding: " + encoding)
    assert (answer.body, answer.header("content-encoding")) == (body, encoding)
