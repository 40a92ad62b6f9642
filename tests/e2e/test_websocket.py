"""WebSockets (RFC 6455): relayed on routes that say so, judged like any request, ended with the token, never unasked."""
import base64
import hashlib
import os
import time

import pytest

from general import Recorder, grant_of, settings, values

KEY = base64.b64encode(bytes(range(16)))
ACCEPT = base64.b64encode(hashlib.sha1(KEY + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
SWITCH = (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
          ACCEPT + b"\r\n\r\n")
ROUTES = [{"prefix": "/ws", "websocket": "on"}, {"prefix": "/long", "websocket": "outlives_token"},
          {"prefix": "/open", "access": "public", "websocket": "on"}, {"prefix": "/plain"}]


def handshake(path, **more):
    lines = {"Host": "x", "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": KEY.decode(),
             "Sec-WebSocket-Version": "13", **more}
    return (f"GET {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items() if v is not None) + "\r\n").encode()


def echo(conversation, head, _body):
    """Switches, says hello in the same write, then echoes until the other side ends."""
    conversation.send(SWITCH + b"hello")
    while True:
        data = conversation.more()
        if not data:
            return False
        conversation.send(data)


@pytest.fixture(scope="module")
def api():
    peer = Recorder()
    yield peer
    peer.stop()


@pytest.fixture
def proxy(api, policy, issuer, doorward):
    api.reset(echo)
    return doorward(settings(api.url, policy.url, issuer, routes=ROUTES, tokens={"leeway_s": 0},
                             listen={"websocket_idle_timeout_ms": 1500}))


def test_bytes_pass_both_ways_and_the_grant_goes_along(proxy, api):
    client = proxy.client().send(handshake("/ws/a?x=1", **{"Sec-WebSocket-Protocol": "chat"}))
    answer = client.answer()
    assert (answer.status, answer.header("upgrade"), answer.header("connection")) == (101, "websocket", "Upgrade")
    assert answer.header("sec-websocket-accept") == ACCEPT.decode()
    assert client.exactly(5) == b"hello"
    head = api.last[0]
    assert head.startswith(b"GET /ws/a?x=1 HTTP/1.1\r\n")
    assert values(head, "connection") == ["Upgrade"] and values(head, "upgrade") == ["websocket"]
    assert values(head, "sec-websocket-protocol") == ["chat"]
    assert grant_of(head)["user"]["id"] == "anonymous"
    big = os.urandom(3_000_000)
    client.send(big)
    assert client.exactly(len(big)) == big
    client.half_close()
    assert client.all() == b""
    line = proxy.log(answer.request_id)
    assert (line["status"], line["reason"], line["bytes_in"], line["bytes_out"]) == (101, "forwarded", len(big), len(big) + 5)


def test_denied_is_never_switched(proxy, api, policy):
    policy.says({"result": False})
    client = proxy.client().send(handshake("/ws/a"))
    assert client.answer().status == 403
    assert api.seen == []


@pytest.mark.parametrize("path, more", [
    ("/plain/a", {}),
    ("/ws/a", {"Upgrade": "h2c"}),
    ("/ws/a", {"Upgrade": "websocket, h2c"}),
    ("/ws/a", {"Connection": "close"}),
    ("/ws/a", {"Sec-WebSocket-Key": None}),
    ("/ws/a", {"Sec-WebSocket-Version": "8"}),
    ("/ws/a", {"Content-Length": "5"}),
])
def test_what_is_no_handshake_of_ours_goes_without_upgrade(proxy, api, path, more):
    """And a 101 that answers it all the same is 502."""
    api.reset(SWITCH)
    client = proxy.client().send(handshake(path, **more) + (b"12345" if "Content-Length" in more else b""))
    answer = client.answer()
    assert answer.status == 502 and answer.json["code"] == "upstream_malformed"
    assert values(api.last[0], "upgrade") == [] and values(api.last[0], "connection") == []


@pytest.mark.parametrize("switch", [
    SWITCH.replace(b"Upgrade: websocket", b"Upgrade: h2c"),
    SWITCH.replace(b"Connection: Upgrade\r\n", b""),
    SWITCH.replace(b"Sec-WebSocket-Accept", b"X-Accept"),
    SWITCH.replace(b"HTTP/1.1", b"HTTP/1.0"),
])
def test_a_wrong_switch_is_502(proxy, api, switch):
    api.reset(switch)
    assert proxy.client().send(handshake("/ws/a")).answer().status == 502


def test_a_refusal_by_the_api_passes(proxy, api):
    api.reset(b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\nSec-WebSocket-Version: 13\r\n\r\nno")
    client = proxy.client().send(handshake("/ws/a"))
    answer = client.answer()
    assert (answer.status, answer.body) == (426, b"no")
    api.reset()
    assert client.send(b"GET /plain HTTP/1.1\r\nHost: x\r\n\r\n").answer().status == 200


def test_ended_when_the_token_expires(proxy, issuer):
    token = issuer.bearer("m5hectest", lifetime_s=2)
    kept = proxy.client().send(handshake("/long/a", Authorization=token))
    cut = proxy.client().send(handshake("/ws/a", Authorization=token))
    assert (kept.answer().status, cut.answer().status) == (101, 101)
    assert (kept.exactly(5), cut.exactly(5)) == (b"hello", b"hello")
    until = time.monotonic() + 6
    cut_at = None
    while time.monotonic() < until and cut_at is None:
        kept.send(b"k")
        assert kept.exactly(1) == b"k"
        try:
            cut.send(b"c")
            cut.exactly(1)
        except (EOFError, ConnectionError):
            cut_at = time.monotonic()
        time.sleep(0.1)
    assert cut_at is not None
    kept.send(b"k")
    assert kept.exactly(1) == b"k"
    assert [line for line in proxy.lines if line.get("status") == 101 and line["reason"] == "token_expired"]


def test_idle_time_of_its_own(proxy):
    client = proxy.client().send(handshake("/open/a"))
    assert client.answer().status == 101 and client.exactly(5) == b"hello"
    for _ in range(4):
        time.sleep(0.7)
        assert client.send(b"x").exactly(1) == b"x"
    begun = time.monotonic()
    assert client.all() == b""
    assert 1 < time.monotonic() - begun < 4


def test_either_side_ends_the_other(proxy, api):
    api.reset(lambda conversation, head, body: conversation.send(SWITCH + b"bye") or False)
    client = proxy.client().send(handshake("/ws/a"))
    assert client.answer().status == 101
    assert client.all() == b"bye"
