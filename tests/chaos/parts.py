"""The real parts of the chaos tests and the daemons among them: Redis, OPA with the real policies, the issuer, the API
(service.py), and a switchable fault (faults.py) in front of each."""
import os
import re
import sys
import tempfile
import threading
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))

import harness  # noqa: E402
from certificates import Authority  # noqa: E402
from general import merged  # noqa: E402
from tools import free_port  # noqa: E402

from faults import Faults  # noqa: E402
from service import Service  # noqa: E402

# What a test waits for is shorter than what the options default to; failures.py names them.
TIMEOUTS = {"redis.timeout_ms": 100, "policy.timeout_ms": 600, "context.timeout_ms": 700,
            "upstream.connect_timeout_ms": 400, "upstream.response_timeout_ms": 800}
OFFICE = "office=SWT"


class Parts:
    """Everything but daemons; lives as long as the test session."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="chaos-")
        self.record = os.path.join(self.folder.name, "forwarded")
        self.faults = Faults()
        self.redis = harness.Redis()
        self.opa = harness.Opa(os.path.join(harness.ROOT, "policies", "cwms"))
        self.issuer = harness.Issuer()
        self.service = Service(free_port(), self.record)
        self.second = Service(free_port(), self.record, "b")
        self.ports, self.targets, self.secure = {}, {}, {}
        for name, target, speaks, framed in (
                ("redis", self.redis.port, "resp", True), ("policy", self.opa.port, "http", True),
                ("context", self.service.port, "http", True), ("issuer", self.issuer.port, "http", True),
                ("upstream", self.service.port, "api", False), ("upstream2", self.second.port, "api", False)):
            self.ports[name] = free_port()
            self.faults.link(name, self.ports[name], target, speaks, framed)
            self.targets[name] = (target, speaks)
        self.tokens, self.users_made = {}, 0

    def secure_port(self, name):
        """The same behind a certificate of an authority that nobody trusts."""
        if not self.secure:
            self.files = Authority(self.folder.name, "stranger").issue("127.0.0.1")
        if name not in self.secure:
            self.secure[name] = free_port()
            self.faults.link("secure " + name, self.secure[name], *self.targets[name], files=self.files)
        return self.secure[name]

    def url(self, name):
        return f"http://127.0.0.1:{self.ports[name]}"

    def heal(self):
        for name in self.ports:
            self.faults.heal(name)

    def token(self, user):
        """A dam operator's of office SWT, made once."""
        if user not in self.tokens:
            self.tokens[user] = self.issuer.token(user, algorithm="ES256", lifetime_s=14400)
        return self.tokens[user]

    def rotate_keys(self):
        """New ones sign from now on; all the old ones stay in the set."""
        server = self.issuer.server
        with server.lock:
            server.retired = [*server.retired, *server.keys.values()]
            server.new_keys()

    def fresh_user(self):
        self.users_made += 1
        return f"fresh-{self.users_made}"

    def tokens_file(self, crowd):
        """A line each: user and token."""
        path = os.path.join(self.folder.name, f"tokens-{crowd}")
        if not os.path.exists(path):
            with open(path, "w", encoding="ascii") as file:
                for n in range(crowd):
                    file.write(f"user-{n} {self.token(f'user-{n}')}\n")
        return path

    def config(self, **more):
        """All calls go by way of the faults but those to the upstream `other`."""
        said = {
            "listen": {"trusted_proxies": ["127.0.0.0/8"], "max_connections": 4000},
            "upstream": {"url": self.url("upstream") + "/cwms-data"},
            "upstreams": {"other": {"url": self.service.url + "/cwms-data"}},
            "tokens": {"name_claim": "preferred_username", "issuers": [{
                "issuer": self.issuer.name, "jwks_url": self.issuer.jwks_url.replace(
                    str(self.issuer.port), str(self.ports["issuer"])),
                "audiences": ["cwms"], "algorithms": ["ES256", "RS256"]}]},
            "context": {"url": self.url("context") + "/cwms-data/user/profile", "shape": "builtin:cwms/context.jq",
                        "memory_ttl_s": 3600},
            "redis": {"url": f"redis://127.0.0.1:{self.ports['redis']}", "key_prefix": "chaos:"},
            "policy": {"url": self.url("policy") + "/v1/data/cwms/authz/allow"},
            "decisions": {"ttl_s": 3600},
            "grant": {"header": "x-cwms-auth-context", "shape": "builtin:cwms/grant.jq"},
            "authorize": {"path_prefix": "/cwms-data/"},
            "serve": {"public_endpoints": True, "probe_interval_ms": 500},
            "routes": [
                {"prefix": "/ping", "access": "public", "upstream": "other"},
                {"prefix": "/other", "upstream": "other", "resource": "$2"},
                {"prefix": "/ws", "websocket": "on", "resource": "$2"},
                {"prefix": "/bytes", "resource": "timeseries"},
                {"prefix": "/"},
            ],
        }
        for name, value in TIMEOUTS.items():
            section, option = name.split(".")
            said[section][option] = value
        return merged(said, more)

    def stop(self):
        self.faults.stop()
        self.service.kill()
        self.second.kill()
        self.issuer.stop()
        self.opa.stop()
        self.redis.stop()
        self.folder.cleanup()


class Daemon(harness.Doorward):
    """A daemon whose log goes to a file: hundreds of thousands of lines are read once, at the end."""

    def __init__(self, config, **more):
        self.log_file = tempfile.NamedTemporaryFile(prefix="chaos-log-")
        super().__init__(config, **more)

    def start(self):
        with open(self.log_file.name, "ab") as file:
            self.process = harness.Process([harness.BIN, *self.arguments], self.env, file)
        self.reader = threading.Thread(target=lambda: None)
        self.reader.start()

    def restart(self):
        """After it was killed: the same port, the same log."""
        self.start()
        self.wait()

    def log_bytes(self):
        with open(self.log_file.name, "rb") as file:
            return file.read()

    def wait_for_line(self, *texts, seconds=5, since=0):
        """A log line that has all of the texts in it; of a|b one."""
        wanted = [[one.encode() for one in text.split("|")] for text in texts]

        def found():
            with open(self.log_file.name, "rb") as file:
                file.seek(since)
                for line in file:
                    if all(any(one in line for one in either) for either in wanted):
                        return line
            return None
        return harness.eventually(found, f"a log line with {texts}", seconds)

    def log_size(self):
        return os.path.getsize(self.log_file.name)

    def metrics_text(self, headers=None):
        return harness.http("GET", self.admin + "/metrics", headers=headers).decode()

    def counts(self, name, headers=None):
        """{label text: value} of one metric."""
        pattern = re.compile(rf"^{name}(?:\{{(.*)\}})? (\S+)$", re.M)
        return {m[1] or "": float(m[2]) for m in pattern.finditer(self.metrics_text(headers))}

    def counts_logged(self, name):
        """counts(), and the log has a line of all that was answered so far: it is written a moment after the answer."""
        id = f"scrape-{uuid.uuid4()}"
        found = self.counts(name, {"X-Request-Id": id})
        self.wait_for_line(id)
        return found

    def flush(self):
        harness.http("POST", self.admin + "/cache/flush", b'{"all":true}', {"Content-Type": "application/json"})

    def lines_are_json(self):
        with open(self.log_file.name, "rb") as file:
            for line in file:
                assert line.startswith(b"{") and line.endswith(b"}\n"), line[:200]


class Daemons:
    """Starts daemons for a test and ends them all, loudly when one did not end well."""

    def __init__(self):
        self.started = []

    def __call__(self, config, **more):
        daemon = Daemon(config, **more)
        self.started.append(daemon)
        return daemon

    def finish(self):
        errors = []
        for daemon in self.started:
            try:
                daemon.stop()
                daemon.lines_are_json()
            except AssertionError as error:
                errors.append(error)
            daemon.log_file.close()
        if errors:
            raise errors[0]
