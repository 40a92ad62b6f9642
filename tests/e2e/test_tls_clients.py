"""https to those whom we ask: the real engine, and a profile API and an issuer over TLS. Whom each is trusted by, what
is shown to it, and in which words a bad certificate is told where an operator looks."""
import http.server
import json
import socket
import ssl
import threading

import pytest

import harness
from certificates import Authority
from general import settings
from peers import opa_program
from tools import Process, opened

PROFILE = {"id": "damop", "username": "damop", "roles": [], "offices": []}


class SecureOpa(harness.Opa):
    """The real engine over TLS; trusted_clients: it asks for certificates of that authority."""

    def __init__(self, files, trusted_clients=None):
        self.files, self.trusted_clients = files, trusted_clients
        super().__init__(harness.ROOT + "/policies/example")
        self.url = f"https://127.0.0.1:{self.port}"

    def start(self):
        program = [opa_program(), "run", "--server", "--disable-telemetry", "--addr", f"127.0.0.1:{self.port}",
                   "--log-level", "error", "--ignore", "*_test.rego", "--tls-cert-file", self.files[0],
                   "--tls-private-key-file", self.files[1]]
        if self.trusted_clients:
            program += ["--tls-ca-cert-file", self.trusted_clients, "--authentication", "tls"]
        self.process = Process(program + [self.policies])
        harness.eventually(lambda: opened(self.port), "OPA listens", 30)


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.asked.append(self.path)
        body = json.dumps(self.server.documents[self.path]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class SecurePeer(http.server.ThreadingHTTPServer):
    """Documents by path over TLS."""
    daemon_threads = True

    def __init__(self, files, documents, trusted_clients=None):
        self.documents, self.asked = documents, []
        super().__init__(("127.0.0.1", 0), Answers)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files)
        if trusted_clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(trusted_clients)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def handle_error(self, request, client_address):
        """A handshake that failed, on either side. What the client sent behind it is read, so that it gets to read the
        alert before the connection is reset."""
        raw = socket.socket(fileno=request.detach())
        raw.settimeout(1)
        try:
            while raw.recv(65536):
                pass
        except OSError:
            pass
        raw.close()

    def stop(self):
        self.shutdown()
        self.server_close()


class Papers:
    """Certificates of every kind, made once."""

    def __init__(self, folder):
        self.ours, self.other = Authority(folder, "ours"), Authority(folder, "other")
        here = ["127.0.0.1"]
        self.good = self.ours.issue("here", sans=here)
        self.expired = self.ours.issue("old", sans=here, not_after_past=True)
        self.elsewhere = self.ours.issue("elsewhere", sans=["elsewhere.test", "10.9.8.7"])
        self.foreign = self.other.issue("foreign", sans=here)
        self.lonely = (self.ours.file, self.ours.key_file)
        self.client = self.ours.issue("client", client=True)
        self.stranger = self.other.issue("stranger", client=True)


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    return Papers(tmp_path_factory.mktemp("papers"))


STRANGE = "the peer does not know the authority of our certificate"
CASES = {
    # what the server shows, whom we trust, what we show, whether it asks for that, what is said of it (None: nothing)
    "good": ("good", "ours", None, False, None),
    "good_and_client": ("good", "ours", "client", True, None),
    "client_not_asked_for": ("good", "ours", "client", False, None),
    "not_trusted": ("good", "other", None, False, "unable to get local issuer certificate"),
    "trusted_by_nobody": ("good", None, None, False, "unable to get local issuer certificate"),
    "expired": ("expired", "ours", None, False, "certificate has expired"),
    "another_name": ("elsewhere", "ours", None, False, "the certificate is for another name"),
    "self_signed": ("lonely", "other", None, False, "self-signed certificate"),
    "no_client": ("good", "ours", None, True, "the peer asks for a certificate of ours"),
    "strange_client": ("good", "ours", "stranger", True, STRANGE),
}


# With TLS 1.3 the reset behind the peer's alert may overtake it; and not all have the same alert for a stranger.
BROKE_OFF = "the peer broke off right behind the TLS handshake: perhaps it wants another certificate of ours"
OTHER_WORDS = {STRANGE: (BROKE_OFF, "the peer does not take our certificate"), CASES["no_client"][-1]: (BROKE_OFF,)}


def is_said(text, said):
    return text == said or text in OTHER_WORDS.get(said, ())


def of(papers, name):
    """(files of the server, our tls, authority that clients must be of or None, what is said)."""
    shown, trusted, client, asks, said = CASES[name]
    tls = {}
    if trusted:
        tls["ca_file"] = getattr(papers, trusted).file
    if client:
        tls["certificate_file"], tls["key_file"] = getattr(papers, client)
    return getattr(papers, shown), tls, papers.ours.file if asks else None, said


def state_of(daemon, kind):
    return [row for row in json.loads(daemon.curl("/ready").body)["dependencies"] if row["kind"] == kind][0]


def probed(daemon, kind):
    return harness.eventually(lambda: [row for row in [state_of(daemon, kind)] if "not probed" not in row["state"]],
                              f"{kind} is probed")[0]


@pytest.mark.parametrize("name", CASES)
def test_engine(doorward, papers, recorder, issuer, name):
    files, tls, clients, said = of(papers, name)
    engine = SecureOpa(files, clients)
    recorder.reset()
    try:
        daemon = doorward(settings(recorder.url, engine.url, issuer, policy={
            "url": engine.url + "/v1/data/example/authz/allow", "tls": tls, "on_error": "allow"}))
        row = probed(daemon, "policy")
        answer = daemon.curl("/x")
        if said is None:
            assert row["ok"] and answer.status in (200, 403), (row, answer)
            return
        assert not row["ok"] and is_said(row["state"], said)
        # on_error: allow is for an engine that cannot be reached; one that is not who it should be opens nothing
        assert answer.status == 503 and answer.json["code"] == "policy_unavailable" and not recorder.seen
        assert is_said(daemon.log(answer.request_id)["detail"], said)
        down = [line for line in list(daemon.lines) if line.get("event") == "dependency_down"]
        assert any(line["dependency"] == "policy" and is_said(line["detail"], said) for line in down)
        assert daemon.metric("doorward_dependency_failures_total", admin=True, dependency="policy", kind="tls") == 1
    finally:
        engine.stop()


@pytest.mark.parametrize("name", CASES)
def test_profile_api(doorward, papers, recorder, engine, issuer, name):
    files, tls, clients, said = of(papers, name)
    peer = SecurePeer(files, {"/profile": PROFILE}, clients)
    engine.reset()
    engine.says({"result": True})
    recorder.reset()
    try:
        daemon = doorward(settings(recorder.url, engine.url, issuer,
                                   context={"url": peer.url + "/profile", "tls": tls}))
        answer = daemon.curl("/x", authorization=issuer.bearer("damop"))
        if said is None:
            assert answer.status == 200 and peer.asked == ["/profile"]
            return
        assert answer.status == 503 and answer.json["code"] == "context_unavailable"
        assert is_said(daemon.log(answer.request_id)["detail"], said)
        assert not peer.asked and not recorder.seen  # the credential went nowhere
        assert daemon.metric("doorward_dependency_failures_total", admin=True, dependency="context", kind="tls") == 1
    finally:
        peer.stop()


@pytest.mark.parametrize("name", CASES)
def test_issuer(doorward, papers, recorder, engine, issuer, name):
    files, tls, clients, said = of(papers, name)
    peer = SecurePeer(files, {"/keys": issuer.server.key_set()}, clients)
    engine.reset()
    engine.says({"result": True})
    recorder.reset()
    try:
        config = settings(recorder.url, engine.url, issuer)
        config["tokens"]["issuers"][0].update(jwks_url=peer.url + "/keys", tls=tls)
        daemon = doorward(config)
        row = harness.eventually(lambda: [r for r in [state_of(daemon, "issuer")] if r["state"] != "no keys"],
                                 "the keys are asked for")[0]
        answer = daemon.curl("/x", authorization=issuer.bearer("damop"))
        if said is None:
            assert row["ok"] and answer.status == 200
            return
        assert not row["ok"] and is_said(row["state"], said)
        assert answer.status == 503 and answer.json["code"] == "keys_unavailable"
        failed = [line for line in list(daemon.lines) if line.get("event") == "keys_failed"]
        assert len(failed) == 1 and failed[0]["kind"] == "tls" and is_said(failed[0]["error"], said)
        assert not recorder.seen
    finally:
        peer.stop()


@pytest.mark.parametrize("part,more", [("policy", {}), ("redis", {"url": "rediss://127.0.0.1:1"})])
def test_a_key_that_is_not_the_certificates_is_told_at_the_start(papers, recorder, engine, issuer, part, more):
    config = settings(recorder.url, engine.url, issuer, **{part: {
        **more, "tls": {"certificate_file": papers.client[0], "key_file": papers.stranger[1]}}})
    status, _, said = harness.run_once("--check", config=config)
    assert status == 78
    assert part + ".tls: key: it does not belong to the certificate" in said
    assert "PRIVATE" not in said
