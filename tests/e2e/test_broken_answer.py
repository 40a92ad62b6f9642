"""An answer that breaks off must not look whole, least of all to a client for whom the end of the connection ends it."""
import pytest

from general import REQUEST_ID, settings

PARTS = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
}


@pytest.fixture
def proxy(upstream, policy, issuer, doorward, request):
    def script(conversation):
        while conversation.request():
            conversation.send(PARTS[request.param])
            conversation.more()  # until the test has the half
            conversation.reset()
            return
    return doorward(settings(upstream(script).url, policy.url, issuer, upstream={"response_timeout_ms": 500}))


@pytest.mark.parametrize("proxy", PARTS, indirect=True)
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_breaks_off(proxy, version):
    client = proxy.client().send(f"GET /pub/x HTTP/{version}\r\nHost: x\r\n\r\n".encode())
    head = client.until(b"half")
    if version == "1.0":
        with pytest.raises(ConnectionResetError):
            while client.socket.recv(100):
                pass
    else:
        assert b"\r\n0\r\n" not in client.all()
    assert proxy.log(REQUEST_ID.search(head).group(1).decode())["reason"] == "upstream_timeout"
