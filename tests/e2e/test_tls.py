"""TLS at the listener: what is spoken and what is refused, by the real openssl and curl; whose certificate is asked for;
a certificate that is renewed under connections; what does not speak TLS at all."""
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest

import harness
from certificates import Authority
from general import is_sanitized, merged, settings
from scripted import TlsUpstream

QUICK_MS = 700
LOOK_S = 14  # files are looked at every 10 s


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pair(authority):
    return authority.issue("proxy.test", sans=["proxy.test", "127.0.0.1"])


class Started:
    """Starts daemons that speak TLS; those are asked for their health on the admin address."""

    def __init__(self, start, base):
        self.start, self.base = start, base

    def __call__(self, pair, config=None, **tls):
        certificate, key = pair
        config = merged(self.base, config or {})
        config = merged(config, {"listen": {"tls": {"certificate_file": certificate, "key_file": key, **tls}}})
        daemon = self.start(config, wait=False)

        def healthy():
            assert daemon.process.alive(), daemon.process.stderr()
            return harness.opened(daemon.admin_port)
        harness.eventually(healthy, "it listens")
        return daemon


@pytest.fixture
def start(doorward, recorder, engine, issuer):
    recorder.reset()
    engine.reset()
    engine.says({"result": True})
    return Started(doorward, settings(recorder.url, engine.url, issuer))


@pytest.fixture(scope="module")
def secure(module_doorward, recorder, engine, issuer, pair):
    """One for the tests that change nothing of it."""
    base = settings(recorder.url, engine.url, issuer, listen={"header_timeout_ms": QUICK_MS})
    return Started(module_doorward, base)(pair)


def s_client(port, *arguments, said="", cafile=None, name="proxy.test"):
    """(exit status, everything openssl told)."""
    trust = ["-CAfile", cafile, "-verify_return_error"] if cafile else []
    ran = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-servername", name, *trust,
                          *arguments], input=said.encode(), capture_output=True, timeout=20, check=False)
    return ran.returncode, (ran.stdout + ran.stderr).decode("latin-1")


def connect(port, authority, pair=None, version=None, timeout_s=harness.PATIENCE_S):
    context = ssl.create_default_context(cafile=authority.file)
    if pair:
        context.load_cert_chain(*pair)
    if version:
        context.minimum_version = context.maximum_version = version
    plain = socket.create_connection(("127.0.0.1", port), timeout_s)
    return context.wrap_socket(plain, server_hostname="proxy.test")


GET = b"GET /pub HTTP/1.1\r\nHost: proxy.test\r\n\r\n"


def answer(sock):
    got = b""
    while b"\r\n\r\n" not in got:
        more = sock.recv(65536)
        if not more:
            return got
        got += more
    head, _, body = got.partition(b"\r\n\r\n")
    length = int(re.search(rb"content-length: *(\d+)", head.lower()).group(1))
    while len(body) < length:
        body += sock.recv(65536)
    return head + b"\r\n\r\n" + body


def https(daemon, authority, path, *arguments, data=None, max_time_s=30):
    return harness.curl(f"https://127.0.0.1:{daemon.port}{path}", "--cacert", authority.file, *arguments, data=data,
                        max_time_s=max_time_s)


def failures(daemon, reason, before=0.0):
    """Waits for one more failed handshake of that reason."""
    return harness.eventually(lambda: daemon.metric("doorward_tls_handshakes_failed_total", admin=True, side="client",
                                                    reason=reason) > before, f"a failed handshake: {reason}")


def failed(daemon, reason):
    return daemon.metric("doorward_tls_handshakes_failed_total", admin=True, side="client", reason=reason)


def test_a_request(secure, recorder, authority):
    recorder.reset()
    got = https(secure, authority, "/pub?x=1")
    assert got.status == 200 and got.body == b"ok"
    head = recorder.last[0]
    assert b"\r\nX-Forwarded-Proto: https\r\n" in head and b"\r\nX-Forwarded-For: 127.0.0.1\r\n" in head
    line = secure.log(got.request_id)
    assert line["tls"] == "TLSv1.3" and "client_certificate" not in line
    expiry = secure.metric("doorward_tls_certificate_expiry_seconds", admin=True, name="listen")
    assert 29 * 86400 < expiry - time.time() < 31 * 86400
    with connect(secure.port, authority) as sock:
        for _ in range(3):
            sock.sendall(GET)
            assert answer(sock).endswith(b"ok")


def test_admin_stays_plain(secure):
    assert harness.curl(secure.admin + "/health").status == 200


@pytest.mark.parametrize("version, spoken", [("-tls1", False), ("-tls1_1", False), ("-tls1_2", True),
                                             ("-tls1_3", True)])
def test_versions(secure, authority, version, spoken):
    status, told = s_client(secure.port, version, "-cipher", "DEFAULT:@SECLEVEL=0", cafile=authority.file)
    assert (status == 0) is spoken, told
    assert ("Cipher is (NONE)" in told) is not spoken
    if not spoken:
        assert re.search("alert protocol version|no protocols available", told), told


@pytest.mark.parametrize("cipher", ["AES128-SHA", "AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-SHA", "DES-CBC3-SHA", "aNULL",
                                    "ECDHE-ECDSA-AES256-SHA384", "NULL", "EXPORT", "RC4", "PSK", "SRP"])
def test_weak_ciphers(secure, cipher):
    status, told = s_client(secure.port, "-tls1_2", "-cipher", cipher + ":@SECLEVEL=0")
    assert status != 0 and re.search("handshake failure|no cipher match|no ciphers available", told), told


@pytest.mark.parametrize("offered, chosen", [(None, None), ("http/1.1", "http/1.1"), ("h2,http/1.1", "http/1.1"),
                                             ("h2", False), ("http/1.0", False), ("h2,spdy/3", False)])
def test_alpn(secure, offered, chosen):
    status, told = s_client(secure.port, *(["-alpn", offered] if offered else []))
    if chosen is False:
        assert status != 0 and "no application protocol" in told, told
    else:
        assert status == 0 and (f"ALPN protocol: {chosen}" if chosen else "No ALPN negotiated") in told, told


def test_no_compression_no_renegotiation(secure):
    before = failed(secure, "protocol")
    status, told = s_client(secure.port, "-tls1_2", "-comp", "-legacy_renegotiation", said="R\nR\n")
    assert "Compression: NONE" in told and "RENEGOTIATING" in told, told
    assert "no renegotiation" in told and status != 0, told
    assert failed(secure, "protocol") == before
    secure.check()


def test_chain(start, authority, tmp_path):
    middle = Authority(tmp_path, "middle", signed_by=authority)
    daemon = start(middle.issue("proxy.test", sans=["proxy.test", "127.0.0.1"], rsa=True))
    status, told = s_client(daemon.port, "-showcerts", cafile=authority.file)
    assert status == 0 and told.count("BEGIN CERTIFICATE") == 2, told
    assert https(daemon, authority, "/pub").status == 200


def test_resumption(secure, authority):
    context = ssl.create_default_context(cafile=authority.file)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    session = None
    for again in (False, True):
        plain = socket.create_connection(("127.0.0.1", secure.port), 5)
        with context.wrap_socket(plain, server_hostname="proxy.test", session=session) as sock:
            assert sock.session_reused is again
            sock.sendall(GET)
            assert answer(sock).endswith(b"ok")
            session = sock.session


def test_slow_handshakes_are_cut(secure, authority):
    """In the time of a head, whether nothing comes, part of a hello, or a byte now and then."""
    before = failed(secure, "timeout")
    hello = bytes.fromhex("16030100c8010000c40303") + bytes(40)
    began = time.monotonic()
    socks = []
    for said in (b"", hello[:1], hello):
        sock = socket.create_connection(("127.0.0.1", secure.port), 10)
        sock.sendall(said)
        socks.append(sock)
    for _ in range(4):
        time.sleep(QUICK_MS / 1000 / 5)
        socks[1].sendall(b"\x03")
    for sock in socks:
        assert sock.recv(100) == b"", "closed, and nothing said"
        sock.close()
    assert time.monotonic() - began < QUICK_MS / 1000 + 3
    failures(secure, "timeout", before + 2)
    with connect(secure.port, authority) as sock:  # the time of a head goes on behind the handshake
        sock.sendall(GET[:10])
        assert answer(sock).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("said", [GET, b"\x00" * 300, b"\x80\x2e\x01\x03\x01\x00", b"SSH-2.0-OpenSSH_9.2\r\n",
                                  b"\xff\xfe\xfd" * 500])
def test_what_is_no_tls(secure, said):
    before = failed(secure, "not_tls")
    with socket.create_connection(("127.0.0.1", secure.port), 10) as sock:
        sock.sendall(said)
        assert sock.recv(1000) == b"", "an end in order, and nothing said"
    failures(secure, "not_tls", before)
    lines = [line for line in list(secure.lines) if line.get("event") == "tls_handshake_failed"]
    assert lines[-1]["reason"] == "not_tls" and lines[-1]["client"] == "127.0.0.1"


def test_broken_hellos(secure, authority):
    """A real hello with one byte that is another, cut, doubled: an alert or an end, never an answer."""
    listener = socket.create_server(("127.0.0.1", 0))
    child = subprocess.Popen(["openssl", "s_client", "-connect", "127.0.0.1:%d" % listener.getsockname()[1]],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    sock, _ = listener.accept()
    hello = sock.recv(65536)
    sock.close()
    listener.close()
    child.wait(10)
    for i in range(0, len(hello), 7):
        broken = hello[:i] + bytes([hello[i] ^ 0x55]) + hello[i + 1:]
        with socket.create_connection(("127.0.0.1", secure.port), 10) as sock:
            sock.sendall(broken)
            sock.shutdown(socket.SHUT_WR)
            got = b""
            while more := sock.recv(65536):
                got += more
            assert b"HTTP/" not in got
    secure.check()
    assert https(secure, authority, "/pub").status == 200


def test_a_hello_that_is_announced_too_long(secure):
    """Nine bytes make OpenSSL take memory for as much as they say: refused before."""
    before = failed(secure, "protocol")
    for size, longer in ((16384, False), (16385, True), (131396, True)):
        head = b"\x01" + size.to_bytes(3, "big")
        for pieces in ((b"\x16\x03\x01\x00\x04" + head,), [bytes([b]) for b in b"\x16\x03\x01\x00\x04" + head],
                       [b"\x16\x03\x01\x00\x01" + head[i:i + 1] for i in range(4)]):
            with socket.create_connection(("127.0.0.1", secure.port), 10) as sock:
                for piece in pieces:
                    sock.sendall(piece)
                sock.settimeout(10 if longer else 0.2)
                if longer:
                    assert sock.recv(100) == b"", "closed at once, and nothing said"
                else:
                    with pytest.raises(TimeoutError):
                        sock.recv(100)
    failures(secure, "protocol", before + 5)


def test_wrong_name_is_the_clients_to_refuse(secure, authority):
    before = failed(secure, "alert")
    context = ssl.create_default_context(cafile=authority.file)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLCertVerificationError):
        context.wrap_socket(socket.create_connection(("127.0.0.1", secure.port)), server_hostname="other.test")
    failures(secure, "alert", before)


# whose certificate is asked for


@pytest.fixture(scope="module")
def clients(authority, tmp_path_factory):
    other = Authority(tmp_path_factory.mktemp("other"), "other")
    return {"good": authority.issue("/O=Example/CN=lock, \"one\"", client=True),
            "foreign": other.issue("lock", client=True),
            "expired": authority.issue("old lock", client=True, not_after_past=True),
            "server": authority.issue("not a client", sans=["a.test"])}


def certificate_arguments(pair):
    return ["--cert", pair[0], "--key", pair[1]] if pair else []


def refused(daemon, authority, pair):
    """curl's fault."""
    with pytest.raises(AssertionError) as fault:
        https(daemon, authority, "/pub", *certificate_arguments(pair))
    return str(fault.value)


SUBJECT = 'CN=lock\\, \\"one\\",O=Example'


@pytest.mark.parametrize("asked", ["optional", "required"])
def test_client_certificates(start, authority, pair, clients, engine, issuer, asked):
    daemon = start(pair, client_ca_file=authority.file, client_certificates=asked)
    bearer = ["-H", "Authorization: " + issuer.bearer("ann")] if "ann" in harness.USERS else []
    got = https(daemon, authority, "/x", *certificate_arguments(clients["good"]), *bearer)
    assert got.status == 200
    assert daemon.log(got.request_id)["client_certificate"] == SUBJECT
    assert engine.questions()[-1]["source"] == {"certificate": {"subject": SUBJECT}}
    got = https(daemon, authority, "/x", *certificate_arguments(clients["good"]), *bearer)
    assert daemon.log(got.request_id)["decision_from"] == "memory"
    asked_before = len(engine.questions())
    if asked == "optional":
        got = https(daemon, authority, "/x", *bearer)
        assert got.status == 200 and "client_certificate" not in daemon.log(got.request_id)
        assert len(engine.questions()) == asked_before + 1, "a question of its own"
        assert "source" not in engine.questions()[-1]
    else:
        assert "certificate required" in refused(daemon, authority, None)
        failures(daemon, "certificate")
    for name, why in (("foreign", "unknown ca"), ("expired", "certificate expired"), ("server", "certificate")):
        assert why in refused(daemon, authority, clients[name])
    lines = [line["detail"] for line in list(daemon.lines) if line.get("event") == "tls_handshake_failed"]
    assert "unable to get local issuer certificate" in lines and "certificate has expired" in lines
    assert harness.run_once("--probe", "--config", daemon.config_file)[0] == 0


def test_not_asked(secure, authority, clients, engine):
    """One that nobody asked for is not sent, and none gets into a question."""
    engine.reset()
    assert https(secure, authority, "/x", *certificate_arguments(clients["good"])).status == 200
    assert "source" not in engine.questions()[-1]


def test_policy_decides_by_certificate(start, authority, pair, clients, engine):
    daemon = start(pair, client_ca_file=authority.file, client_certificates="optional")
    engine.says(lambda question: {"result": question.get("source", {}).get("certificate", {}).get("subject") == SUBJECT})
    for _ in range(2):
        assert https(daemon, authority, "/x", *certificate_arguments(clients["good"])).status == 200
        assert https(daemon, authority, "/x").status == 403


# bodies, renewal, the end


SIZE = 200 * 1000 * 1000
PIECE = os.urandom(1 << 16)


def pour(send, each=lambda: None):
    for at in range(0, SIZE, len(PIECE)):
        send(PIECE[:min(len(PIECE), SIZE - at)])
        if at % (1 << 24) == 0:
            each()


def sink_and_source(conversation):
    """Takes a body without keeping it, then sends one as large."""
    head = conversation.until(b"\r\n\r\n")
    if b"content-length" in head.lower():
        got = len(conversation.received) - conversation.taken
        while got < SIZE and (more := conversation.socket.recv(1 << 18)):
            got += len(more)
        conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n%09d" % got)
    elif head:
        conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % SIZE)
        pour(conversation.send)


@pytest.mark.parametrize("inner", ["http", "https"])
def test_large_bodies(start, authority, pair, inner):
    """200 MB each way, a reader that pauses: memory stays bounded."""
    api = (TlsUpstream(pair, sink_and_source) if inner == "https" else harness.ScriptedUpstream(sink_and_source))
    daemon = start(pair, config={"upstream": {"url": api.url, "tls": {"ca_file": authority.file} if inner == "https" else
                                              None}})
    https(daemon, authority, "/health")
    before, most = daemon.rss_kib(), [0]

    def look():
        most[0] = max(most[0], daemon.rss_kib() - before)
        time.sleep(0.02)
    with connect(daemon.port, authority) as sock:
        sock.sendall(GET)
        got = 0
        while got < SIZE:
            more = sock.recv(1 << 20)
            assert more
            if got >> 24 != (got + len(more)) >> 24:
                look()
            got += len(more)
        assert got - SIZE < 300
    with connect(daemon.port, authority) as sock:
        sock.sendall(b"POST /pub HTTP/1.1\r\nHost: proxy.test\r\nContent-Length: %d\r\n\r\n" % SIZE)
        pour(sock.sendall, look)
        assert answer(sock).endswith(b"%09d" % SIZE)
    api.stop()
    if not is_sanitized(harness.BIN):
        assert most[0] < 4096, f"{most[0]} KiB more than before"


def put(pair, certificate, key):
    """As renewals do: a new file under the name."""
    for source, target in ((certificate, pair[0]), (key, pair[1])):
        shutil.copy(source, target + ".new")
        os.replace(target + ".new", target)


def serial(port, authority):
    with connect(port, authority) as sock:
        return sock.getpeercert()["serialNumber"]


def test_renewal(start, authority, tmp_path):
    """A pair that does not belong together changes nothing and is told once; the right one is shown to new connections,
    and those that are there go on."""
    first, second = (authority.issue("proxy.test", sans=["proxy.test", "127.0.0.1"]) for _ in range(2))
    used = str(tmp_path / "listen.pem"), str(tmp_path / "listen.key")
    put(used, *first)
    daemon = start(used)
    old = serial(daemon.port, authority)
    kept = connect(daemon.port, authority)
    kept.sendall(GET)
    assert answer(kept).endswith(b"ok")

    put(used, second[0], first[1])
    warnings = harness.eventually(lambda: [line for line in list(daemon.lines) if line["event"] == "certificate_kept"],
                                  "the warning", LOOK_S)
    assert len(warnings) == 1 and warnings[0]["level"] == "warn"
    assert "it does not belong to the certificate" in json.dumps(warnings[0])
    assert serial(daemon.port, authority) == old

    put(used, *second)
    harness.eventually(lambda: any(line["event"] == "certificate_renewed" for line in list(daemon.lines)), "renewed", LOOK_S)
    new = serial(daemon.port, authority)
    assert new != old
    kept.sendall(GET)
    assert answer(kept).endswith(b"ok"), "the connection from before goes on"
    kept.close()
    with open(used[1], encoding="ascii") as file:
        for line in file.read().splitlines()[1:-1]:
            assert line not in daemon.log_text()


def test_renewal_when_told(start, authority, tmp_path):
    """SIGHUP reads the files at once; a pair that does not belong together changes nothing; TLS connections go on."""
    first, second = (authority.issue("proxy.test", sans=["proxy.test", "127.0.0.1"]) for _ in range(2))
    used = str(tmp_path / "listen.pem"), str(tmp_path / "listen.key")
    put(used, *first)
    daemon = start(used)
    old = serial(daemon.port, authority)
    kept = connect(daemon.port, authority)
    put(used, second[0], first[1])
    daemon.process.child.send_signal(signal.SIGHUP)
    harness.eventually(lambda: "it does not belong to the certificate" in daemon.log_text(), "told")
    assert serial(daemon.port, authority) == old
    put(used, *second)
    daemon.process.child.send_signal(signal.SIGHUP)
    harness.eventually(lambda: serial(daemon.port, authority) != old, "another certificate", 5)
    kept.sendall(GET)
    assert answer(kept).endswith(b"ok"), "the connection from before goes on"
    kept.close()


def test_who_came_before_more_was_asked_ends_with_the_next_answer(start, authority, pair, clients):
    """A connection without a certificate is not kept for ever by one who keeps it busy, once certificates are required."""
    daemon = start(pair, client_ca_file=authority.file, client_certificates="optional")
    without, shown = connect(daemon.port, authority), connect(daemon.port, authority, clients["good"])
    for sock in (without, shown):
        sock.sendall(GET)
        assert answer(sock).endswith(b"ok")
    with open(daemon.config_file, encoding="utf-8") as file:
        config = json.load(file)
    config["listen"]["tls"]["client_certificates"] = "required"
    with open(daemon.config_file, "w", encoding="utf-8") as file:
        json.dump(config, file)
    daemon.process.child.send_signal(signal.SIGHUP)
    harness.eventually(lambda: daemon.log_text().count('"reloaded"') == 1, "reloaded")
    for sock in (without, shown):
        sock.sendall(GET)
        assert b"\r\nConnection: close\r\n" in answer(sock)
        assert sock.recv(100) == b""
        sock.close()
    again = connect(daemon.port, authority, clients["good"])
    daemon.process.child.send_signal(signal.SIGHUP)
    harness.eventually(lambda: daemon.log_text().count('"reloaded"') == 2, "reloaded")
    for _ in range(2):
        again.sendall(GET)
        assert answer(again).endswith(b"ok"), "nothing else is asked"
    again.close()


def test_expired_is_shown_and_told(start, authority):
    daemon = start(authority.issue("proxy.test", not_after_past=True))
    line = harness.eventually(lambda: [line for line in list(daemon.lines) if line["event"] == "certificate_expired"],
                              "the warning")[0]
    assert line["level"] == "warn"
    assert daemon.metric("doorward_tls_certificate_expiry_seconds", admin=True, name="listen") < time.time()
    status, told = s_client(daemon.port, cafile=authority.file)
    assert status != 0 and "certificate has expired" in told


def test_what_cannot_be_used_is_refused_at_start(recorder, engine, issuer, authority, pair, tmp_path):
    other = authority.issue("other.test")
    text = tmp_path / "text.pem"
    text.write_text("nothing of that kind\n")
    locked = tmp_path / "locked.key"
    subprocess.run(["openssl", "pkcs8", "-topk8", "-in", pair[1], "-out", locked, "-passout", "pass:secret"], check=True)
    for certificate, key, more, why in (
            (pair[0], other[1], {}, "key: it does not belong to the certificate"),
            (str(text), pair[1], {}, "certificate: not a certificate in PEM"),
            (pair[0], str(locked), {}, "key: it needs a passphrase"),
            (pair[0], pair[1], {"client_ca_file": str(text), "client_certificates": "optional"}, "ca: not a certificate")):
        config = settings(recorder.url, engine.url, issuer, listen={
            "address": "127.0.0.1:0", "tls": {"certificate_file": certificate, "key_file": key, **more}})
        status, _, stderr = harness.run_once("--check", config=config)
        assert status == 78 and why in stderr and "listen.tls" in stderr, stderr
        assert "secret" not in stderr


def test_probe(secure):
    assert harness.run_once("--probe", "--config", secure.config_file)[0] == 0


def test_too_many(start, authority, pair):
    """Over the cap the answer comes in TLS too."""
    daemon = start(pair, config={"listen": {"max_connections": 2}})
    held = [connect(daemon.port, authority) for _ in range(2)]
    with connect(daemon.port, authority) as sock:
        assert answer(sock).startswith(b"HTTP/1.1 503 ")
    for sock in held:
        sock.close()


def test_websocket(start, authority, pair):
    """Bytes both ways in TLS on both sides, both ends told in TLS."""
    def echo(conversation):
        head = conversation.until(b"\r\n\r\n")
        if b"Upgrade" not in head:
            return
        conversation.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                          b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
        while data := conversation.socket.recv(65536):
            conversation.send(data)
    api = TlsUpstream(pair, echo)
    daemon = start(pair, config={"upstream": {"url": api.url, "tls": {"ca_file": authority.file}},
                                 "routes": [{"prefix": "/pub", "access": "public", "websocket": "on"}]})
    with connect(daemon.port, authority) as sock:
        sock.sendall(b"GET /pub HTTP/1.1\r\nHost: proxy.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        got = b""
        while not got.endswith(b"\r\n\r\n"):
            got += sock.recv(1)
        assert got.startswith(b"HTTP/1.1 101 ")
        for n in (1, 1000, 300000):
            sender = threading.Thread(target=sock.sendall, args=(PIECE[:n] if n <= len(PIECE) else PIECE * 5,))
            sender.start()
            left = n if n <= len(PIECE) else 5 * len(PIECE)
            while left:
                left -= len(sock.recv(left))
            sender.join()
    api.stop()


def test_drain(start, authority, pair, recorder):
    """On SIGTERM what is under way ends in order, a handshake that is under way may still ask, an idle connection is told the
    end by TLS."""
    def slow(conversation, head, body):
        time.sleep(0.5)
        conversation.send(harness.OK_ANSWER)
    daemon = start(pair)
    idle, busy, early = (connect(daemon.port, authority) for _ in range(3))
    for sock in (idle, busy):
        sock.sendall(GET)
        assert answer(sock).endswith(b"ok")
    recorder.reset(slow)
    busy.sendall(GET)
    harness.eventually(lambda: recorder.seen, "the request is there")
    daemon.process.child.send_signal(signal.SIGTERM)
    early.sendall(GET)
    assert idle.recv(100) == b"", "an end in order"
    assert answer(busy).endswith(b"ok") and busy.recv(100) == b""
    assert answer(early).endswith(b"ok") and early.recv(100) == b""
    for sock in (idle, busy, early):
        sock.close()
    assert daemon.process.child.wait(10) == 0
    daemon.ended_as_told()
