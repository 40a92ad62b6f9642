"""https to the upstream: whom we trust, what we show, and that each kind of bad certificate is a refusal that says which
and why."""
import socket
import ssl
import time
import warnings

import pytest

import harness
from certificates import Authority
from general import merged, settings
from scripted import OK_ANSWER, TlsUpstream


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("other"), "other")


@pytest.fixture
def api():
    """api(pair, script, ca_file): an API in TLS, closed at the end."""
    made = []

    def make(*arguments, **more):
        made.append(TlsUpstream(*arguments, **more))
        return made[-1]
    yield make
    for peer in made:
        peer.stop()


@pytest.fixture
def start(doorward, engine, issuer):
    def make(api, *, config=None, **tls):
        return doorward(merged(settings(api.url, engine.url, issuer, upstream={"tls": tls}), config or {}))
    return make


def refused(daemon, path="/pub"):
    """(reason, detail) of a request that got 502."""
    got = daemon.curl(path)
    assert got.status == 502, got
    line = daemon.log(got.request_id)
    assert line["reason"] == got.json["code"] and "\"cause\"" not in str(got.body)
    return line["reason"], line["detail"]


def failed(daemon, reason):
    return daemon.metric("doorward_tls_handshakes_failed_total", admin=True, side="upstream", reason=reason)


def requests(peer):
    """Those of clients, not our own checks."""
    return [c for c in peer.conversations if b"X-Request-Id" in c.received]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_good(start, api, authority, version):
    peer = api(authority.issue("api.test", sans=["127.0.0.1"]))
    peer.context.maximum_version = version
    daemon = start(peer, ca_file=authority.file)
    for _ in range(5):
        assert daemon.curl("/pub").body == b"ok"
    assert daemon.curl("/pub", data=b"x" * 100000).body == b"ok"
    assert len(requests(peer)) == 1, "one connection for all"
    assert daemon.metric("doorward_upstream_reused_total", admin=True) == 5
    daemon.wait_ready()


def test_by_name(start, api, authority):
    """Of the host in the URL, or of tls.server_name; it is sent as SNI."""
    peer = api(authority.issue("localhost"))
    names = []
    peer.context.sni_callback = lambda sock, name, context: names.append(name)
    peer.url = f"https://localhost:{peer.port}"
    daemon = start(peer, ca_file=authority.file)
    assert daemon.curl("/pub").status == 200
    assert set(names) == {"localhost"}
    peer = api(authority.issue("*.inner.test"))
    peer.context.sni_callback = lambda sock, name, context: names.append(name)
    names.clear()
    daemon = start(peer, ca_file=authority.file, server_name="api.inner.test")
    assert daemon.curl("/pub").status == 200
    assert set(names) == {"api.inner.test"}
    assert peer.conversations[-1].received.count(b"\r\nHost: 127.0.0.1:") == 1


def test_bad_certificates(start, api, authority, other, tmp_path):
    alone = Authority(tmp_path, "127.0.0.1")
    sans = ["127.0.0.1"]
    for pair, trusted, name, why in (
            (authority.issue("api.test", sans=["api.test"]), authority, None, "the certificate is not for 127.0.0.1"),
            (authority.issue("127.0.0.1", sans=["127.0.0.2"]), authority, None, "the certificate is not for 127.0.0.1"),
            (authority.issue("api.test", sans=["x.api.test"]), authority, "api.test", "the certificate is not for api.test"),
            (authority.issue("api.test", sans=[]), authority, "api.test", "the certificate is not for api.test"),
            (authority.issue("old", sans=sans, not_after_past=True), authority, None, "certificate has expired"),
            (authority.issue("api.test", sans=sans, client=True), authority, None,
             "unsuitable certificate purpose"),
            (other.issue("api.test", sans=sans), authority, None, "unable to get local issuer certificate"),
            (authority.issue("api.test", sans=sans), None, None, "unable to get local issuer certificate"),
            ((alone.file, alone.key_file), authority, "127.0.0.1", "self-signed certificate")):
        peer = api(pair)
        tls = {"ca_file": trusted.file} if trusted else {}
        daemon = start(peer, **tls, **({"server_name": name} if name else {}))
        assert refused(daemon) == ("upstream_certificate", why)
        assert failed(daemon, "certificate") >= 1
        assert not any(c.received for c in peer.conversations), "nothing was said to it"
        ready = daemon.curl("/ready")
        assert ready.status == 503
        daemon.stop()


def test_no_tls_there(start, authority, upstream):
    peer = upstream()
    peer.url = f"https://127.0.0.1:{peer.port}"
    daemon = start(peer, ca_file=authority.file)
    reason, detail = refused(daemon)
    assert (reason, detail) == ("upstream_unreachable", "no TLS handshake in time"), "it waits for the end of a head"


def test_plain_answer_is_no_answer(start, authority, upstream):
    """A server of HTTP that answers what it takes for a request."""
    def script(conversation):
        conversation.more()
        conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno")
        conversation.more()
    peer = upstream(script)
    peer.url = f"https://127.0.0.1:{peer.port}"
    daemon = start(peer, ca_file=authority.file)
    assert refused(daemon) == ("upstream_unreachable", "the peer does not speak TLS")
    assert failed(daemon, "not_tls") >= 1


def test_nothing_in_common(start, api, authority):
    peer = api(authority.issue("api.test", sans=["127.0.0.1"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        peer.context.minimum_version = ssl.TLSVersion.TLSv1
        peer.context.maximum_version = ssl.TLSVersion.TLSv1_1
    peer.context.set_ciphers("DEFAULT:@SECLEVEL=0")
    daemon = start(peer, ca_file=authority.file)
    reason, detail = refused(daemon)
    assert reason == "upstream_unreachable" and "protocol" in detail
    assert failed(daemon, "alert") + failed(daemon, "protocol") >= 1


def test_silent_handshake(start, authority, upstream):
    peer = upstream(lambda conversation: time.sleep(20))
    peer.url = f"https://127.0.0.1:{peer.port}"
    daemon = start(peer, ca_file=authority.file, config={"upstream": {"connect_timeout_ms": 400}})
    began = time.monotonic()
    reason, detail = refused(daemon)
    assert time.monotonic() - began < 3
    assert reason == "upstream_unreachable" and detail == "no TLS handshake in time"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_our_certificate(start, api, authority, other, version):
    def peer_of():
        peer = api(authority.issue("api.test", sans=["127.0.0.1"]), ca_file=authority.file)
        peer.context.maximum_version = version
        return peer
    good, bad = authority.issue("doorward", client=True), other.issue("doorward", client=True)
    daemon = start(peer_of(), ca_file=authority.file, certificate_file=good[0], key_file=good[1])
    assert daemon.curl("/pub").status == 200
    assert daemon.metric("doorward_tls_certificate_expiry_seconds", admin=True, name="default") > time.time()
    for pair in (None, bad):
        more = {"certificate_file": pair[0], "key_file": pair[1]} if pair else {}
        daemon = start(peer_of(), ca_file=authority.file, **more)
        reason, detail = refused(daemon)
        if pair and reason == "upstream_closed" and version == ssl.TLSVersion.TLSv1_3:
            continue  # its alert came behind our request, which it did not read: then the kernel may drop it with a reset
        assert reason == "upstream_certificate", detail
        assert detail == ("the peer refused: unknown ca" if pair else "the peer wants a certificate, and none is configured")


def test_cut_answers_look_cut(start, api, authority):
    """An answer that only the end delimits could have been cut by anybody on the way, unless TLS was told the end."""
    def script(conversation):
        head, _ = conversation.request()
        conversation.send(b"HTTP/1.1 200 OK\r\n\r\npart of it")
        if b"/whole" in head:
            conversation.socket.unwrap()
        else:
            conversation.socket.shutdown(socket.SHUT_RDWR)
    peer = api(authority.issue("api.test", sans=["127.0.0.1"]), script)
    peer.context.options |= getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
    daemon = start(peer, ca_file=authority.file)
    assert daemon.curl("/pub/whole").body == b"part of it"
    with pytest.raises(AssertionError, match="curl 18"):
        daemon.curl("/pub/cut")
    lines = harness.eventually(lambda: [line for line in list(daemon.lines) if line.get("path") == "/pub/cut"], "its line")
    assert lines[0]["reason"] == "upstream_closed" and lines[0]["detail"] == "the peer ended without a close_notify"


def test_bytes_of_records_in_pieces(start, api, authority):
    """Records of one byte, and answers in many."""
    body = bytes(range(256)) * 40

    def script(conversation):
        while conversation.request():
            whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            conversation.send_bytewise(whole[:300])
            conversation.send(*[whole[at:at + 999] for at in range(300, len(whole), 999)])
    peer = api(authority.issue("api.test", sans=["127.0.0.1"]), script)
    daemon = start(peer, ca_file=authority.file)
    for _ in range(3):
        assert daemon.curl("/pub").body == body


def test_idle_connections_that_end(start, api, authority):
    """The API ends an idle connection in order: the next request goes out on a fresh one."""
    def script(conversation):
        conversation.request()
        conversation.send(OK_ANSWER)
        conversation.socket.unwrap()
    peer = api(authority.issue("api.test", sans=["127.0.0.1"]), script)
    daemon = start(peer, ca_file=authority.file)
    for _ in range(10):
        assert daemon.curl("/pub").status == 200


def test_bad_files_are_refused_at_start(engine, issuer, authority, tmp_path):
    pair, second = authority.issue("a"), authority.issue("b")
    text = tmp_path / "text"
    text.write_text("nothing\n")
    for tls, why in (({"ca_file": str(text)}, "ca: not a certificate in PEM"),
                     ({"certificate_file": pair[0], "key_file": second[1]}, "key: it does not belong to the certificate")):
        config = settings("https://api.test", engine.url, issuer, upstream={"tls": tls})
        status, _, stderr = harness.run_once("--check", config=config)
        assert status == 78 and "upstream.tls" in stderr and why in stderr, stderr
