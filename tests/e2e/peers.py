"""The daemon's peers: the real Redis and OPA, the demo's API and issuer, a policy engine that says what it is told.

Everything listens on 127.0.0.1, on ports the kernel picks.
"""
import collections
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

from tools import PATIENCE_S, ROOT, Process, eventually, free_port, http, opened

sys.path.insert(0, os.path.join(ROOT, "demo"))

import api as demo_api  # noqa: E402
import issuer as demo_issuer  # noqa: E402
import server as demo_server  # noqa: E402

with open(os.path.join(ROOT, "demo", "users.json"), encoding="utf-8") as _file:
    TABLE = json.load(_file)
USERS = TABLE["users"]


class Redis:
    def __init__(self, port=None):
        self.port = port or free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self.process = None
        self.start()

    def start(self):
        program = shutil.which("redis-server")
        assert program, "redis-server is not installed"
        self.process = Process([program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly",
                                "no", "--dir", tempfile.gettempdir(), "--logfile", os.devnull])
        eventually(lambda: opened(self.port), "redis listens")

    def stop(self):
        self.process.end(signal.SIGKILL)

    def command(self, *words):
        """One command over a connection of its own: bytes, int, None or a list of them."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as s:
            encoded = [w if isinstance(w, bytes) else str(w).encode() for w in words]
            s.sendall(b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in encoded))
            with s.makefile("rb") as file:
                return self.reply(file)

    def reply(self, file):
        kind, rest = file.read(1), file.readline().rstrip()
        if kind == b"*":
            return [self.reply(file) for _ in range(int(rest))]
        if kind == b"$":
            return None if int(rest) < 0 else file.read(int(rest) + 2)[:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        return int(rest) if kind == b":" else rest

    def keys(self):
        return [k.decode() for k in self.command("KEYS", "*")]


def opa_program():
    found = os.environ.get("OPA") or shutil.which("opa")
    if not found and shutil.which("go"):
        path = subprocess.run(["go", "env", "GOPATH"], capture_output=True, text=True, check=True).stdout.strip()
        found = os.path.join(path, "bin", "opa")
    assert found and os.path.exists(found), "OPA is not there: set OPA=/path/to/opa"
    return found


class Opa:
    """The real engine with a folder of policies."""

    def __init__(self, policies, port=None):
        self.port = port or free_port()
        self.policies = policies
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        self.process = Process([opa_program(), "run", "--server", "--disable-telemetry", "--addr",
                                f"127.0.0.1:{self.port}", "--log-level", "error", "--ignore", "*_test.rego",
                                self.policies])
        eventually(self.healthy, "OPA is healthy", 30)

    def healthy(self):
        assert self.process.alive(), self.process.stderr()
        try:
            http("GET", self.url + "/health")
            return True
        except OSError:
            return False

    def stop(self):
        self.process.end()

    def put(self, name, rego):
        http("PUT", f"{self.url}/v1/policies/{name}", rego.encode(), {"Content-Type": "text/plain"})


class Peer:
    """A demo server on a thread of this process, so that tests read and change its state directly."""

    def __init__(self, server):
        self.server = server
        self.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Issuer(Peer):
    def __init__(self, audience="cwms"):
        super().__init__(demo_issuer.Issuer(("127.0.0.1", 0), USERS, audience))
        self.name = self.server.name
        self.jwks_url = self.name + "/protocol/openid-connect/certs"

    def token(self, user, **more):
        return self.server.token(user, **more)

    def bearer(self, user, **more):
        return "Bearer " + self.token(user, **more)

    def as_option(self, **more):
        """The value of DOORWARD_TOKENS_ISSUERS that names this issuer."""
        return json.dumps([{"issuer": self.name, "jwks_url": self.jwks_url, "audiences": ["cwms"],
                            "algorithms": ["RS256", "ES256"], **more}])

    def asked(self):
        """How often the key set was fetched."""
        return self.server.seen[self.jwks_url.split(str(self.port), 1)[1]]


class Api(Peer):
    def __init__(self, issuer=None):
        super().__init__(demo_api.Api(("127.0.0.1", 0), json.loads(json.dumps(TABLE)), issuer and issuer.name))
        self.url = f"http://127.0.0.1:{self.port}/cwms-data"

    def reset(self):
        """Users, settings and memory as at the start."""
        with self.server.lock:
            self.server.seen.clear()
        self.server.settings = {}
        self.server.users = {name: dict(user) for name, user in json.loads(json.dumps(USERS)).items()}

    def set(self, **settings):
        self.server.settings.update(settings)

    def seen(self, path=None):
        with self.server.lock:
            return [s for s in self.server.seen if path is None or s["path"] == path]

    def forwarded(self):
        """What came through the proxy: all but its own questions for profiles and its probes."""
        return [s for s in self.seen() if s["path"] not in ("/cwms-data", "/cwms-data/", "/cwms-data/user/profile")]

    def profiles_asked(self):
        return len(self.seen("/cwms-data/user/profile"))


class PolicyRequests(demo_server.Handler):
    def serve(self):
        engine, body = self.server, self.body()
        question = json.loads(body)["input"] if body else None
        engine.asked.append({"target": self.path, "headers": dict(self.headers.items()), "input": question})
        if engine.behind:
            return self.answer(200, raw=http("POST", engine.behind + self.path, body))
        answer = engine.says(question) if callable(engine.says) else engine.says
        status, document = answer if isinstance(answer, tuple) else (200, answer)
        return self.answer(status, raw=document if isinstance(document, bytes) else json.dumps(document).encode())


class PolicyServer(demo_server.Server):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), PolicyRequests)
        self.asked = collections.deque(maxlen=10000)
        self.behind = None
        self.says = {"result": True}


class Policy(Peer):
    """A policy engine that keeps every question and answers what it is told: a document, bytes, (status, either), or a
    function of the input. With behind=URL it passes each question on to a real engine."""

    def __init__(self, says=None, behind=None):
        super().__init__(PolicyServer())
        self.url = f"http://127.0.0.1:{self.port}"
        self.server.behind = behind
        if says is not None:
            self.says(says)

    def says(self, answer):
        self.server.says = answer

    def questions(self, user=None):
        """Inputs asked so far, without probes, oldest first."""
        found = [q["input"] for q in list(self.server.asked) if q["input"] and not self.is_probe(q["input"])]
        return [q for q in found if user is None or q["user"].get("id") == user]

    @staticmethod
    def is_probe(question):
        return question.get("request", {}).get("id") in (None, "probe")

    def reset(self):
        self.server.asked.clear()
