"""The daemon under test, and all that the end-to-end tests stand on under one name.

Nothing here decides whether a test passes but Doorward.stop(): exit 0 on SIGTERM, no sanitizer report, nothing on
standard output that is not a JSON line.
"""
import json
import os
import re
import signal
import subprocess
import tempfile
import threading

from clients import Answer, RawClient, curl, head_of, raw
from peers import TABLE, USERS, Api, Issuer, Opa, Policy, Redis
from scripted import OK_ANSWER, Conversation, ScriptedUpstream, always
from tools import PATIENCE_S, ROOT, Process, eventually, free_port, http, opened

__all__ = ["BIN", "OK_ANSWER", "PATIENCE_S", "ROOT", "TABLE", "USERS", "Answer", "Api", "Conversation", "Doorward",
           "Issuer", "Opa", "Policy", "Process", "RawClient", "Redis", "ScriptedUpstream", "Starter", "always", "curl",
           "eventually", "free_port", "head_of", "http", "opened", "raw", "run_once"]

BIN = os.environ.get("DOORWARD_BIN", os.path.join(ROOT, "build", "dev", "doorward"))
REPORT = re.compile(r"Sanitizer|runtime error:|CHECK|assert", re.I)


class Doorward:
    """A running daemon. config: a mapping (written as JSON, which is YAML) or YAML text, None for no file: then `port`
    says where the variables put it."""

    def __init__(self, config=None, env=None, arguments=(), wait=True, port=None):
        self.folder = tempfile.TemporaryDirectory(prefix="doorward-")
        self.port, self.admin_port = port or free_port(), free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.admin = f"http://127.0.0.1:{self.admin_port}"
        self.env = {"PATH": os.environ.get("PATH", ""), "ASAN_OPTIONS": "exitcode=99:detect_leaks=1",
                    "UBSAN_OPTIONS": "print_stacktrace=1"}
        for name in ("LSAN_OPTIONS", "LD_LIBRARY_PATH", "GCOV_PREFIX", "GCOV_PREFIX_STRIP"):
            if name in os.environ:
                self.env[name] = os.environ[name]
        self.arguments = list(arguments)
        if config is not None:
            self.write_config(config)
        else:  # several run at once: the one thing that the reference's variables cannot say
            self.env["DOORWARD_ADMIN_ADDRESS"] = f"127.0.0.1:{self.admin_port}"
        for name, value in (env or {}).items():
            self.env[name] = str(value)
            if value is None:
                del self.env[name]
        self.lines, self.strays = [], []
        self.stopped = False
        self.start()
        if wait:
            self.wait()

    def write_config(self, config):
        if not isinstance(config, str):
            config = json.loads(json.dumps(config))
            config.setdefault("listen", {}).setdefault("address", f"127.0.0.1:{self.port}")
            config.setdefault("admin", {}).setdefault("address", f"127.0.0.1:{self.admin_port}")
            config = json.dumps(config, indent=1)
        else:
            config = config.replace("@PORT@", str(self.port)).replace("@ADMIN@", str(self.admin_port))
        self.config_file = os.path.join(self.folder.name, "doorward.yaml")
        with open(self.config_file, "w", encoding="utf-8") as file:
            file.write(config)
        self.arguments += ["--config", self.config_file]

    def start(self):
        self.process = Process([BIN, *self.arguments], self.env, subprocess.PIPE)
        self.reader = threading.Thread(target=self.read_log, args=(self.process.child.stdout,), daemon=True)
        self.reader.start()

    def read_log(self, stdout):
        for line in stdout:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.strays.append(line)

    def wait(self):
        """Until /health answers."""
        def healthy():
            assert self.process.alive(), f"it ended with {self.process.child.returncode}: {self.process.stderr()}"
            try:
                return http("GET", self.base + "/health")
            except OSError:
                return False
        eventually(healthy, "doorward answers /health")

    def wait_ready(self, seconds=PATIENCE_S):
        eventually(lambda: self.curl("/ready").status == 200, "doorward is ready", seconds)

    # requests

    def curl(self, path, *arguments, data=None, authorization=None, method=None, max_time_s=30):
        more = list(arguments)
        if authorization:
            more += ["-H", f"Authorization: {authorization}"]
        if method == "HEAD":
            more += ["-I"]
        elif method:
            more += ["-X", method]
        return curl(self.base + path, *more, data=data, max_time_s=max_time_s)

    def raw(self, *pieces, **how):
        return raw(self.port, *pieces, **how)

    def client(self):
        return RawClient(self.port)

    # what it says of itself

    def log(self, request_id, seconds=5):
        """The access line of a request."""
        def found():
            return [line for line in list(self.lines) if line.get("request_id") == request_id and "status" in line]
        return eventually(found, f"access line of {request_id}", seconds)[0]

    def log_text(self):
        return "\n".join(json.dumps(line) for line in list(self.lines)) + b"".join(self.strays).decode("latin-1") + \
            self.process.stderr()

    def metrics(self, admin=False):
        """{(name, frozenset of label pairs): value}"""
        text = curl((self.admin if admin else self.base) + "/metrics").body.decode()
        found = {}
        for line in text.splitlines():
            if line.startswith("#") or not line.strip():
                continue
            parts = re.fullmatch(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)", line)
            assert parts, f"not a line of the text format: {line!r}"
            labels = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', parts.group(2) or "")
            key = (parts.group(1), frozenset(labels))
            assert key not in found, f"twice: {line!r}"
            found[key] = float(parts.group(3))
        return found

    def metric(self, name, /, admin=False, **labels):
        """The sum over all series of the name that carry these labels."""
        want = set(labels.items())
        return sum(v for (n, have), v in self.metrics(admin).items() if n == name and want <= have)

    def rss_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))

    def open_fds(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    # its end

    def check(self):
        """It runs, and no sanitizer has spoken."""
        assert self.process.alive(), f"it ended with {self.process.child.poll()}: {self.process.stderr()}"
        assert not REPORT.search(self.process.stderr()), self.process.stderr()

    def ended_as_told(self):
        """The test has sent SIGTERM itself."""
        self.stop(early=True)

    def stop(self, expected=0, early=False):
        if self.stopped:
            return
        self.stopped = True
        early = None if early else self.process.child.poll()
        status = self.process.end(signal.SIGTERM, 40)
        self.reader.join(5)
        stderr = self.process.stderr()
        self.folder.cleanup()
        assert early is None, f"it ended by itself with {early}: {stderr}"
        assert status is not None, f"it did not end on SIGTERM: {stderr}"
        assert not REPORT.search(stderr), stderr
        assert status == expected, f"exit {status}: {stderr}"
        assert not self.strays, f"not JSON on standard output: {self.strays[:3]}"


def run_once(*arguments, config=None, env=None, seconds=PATIENCE_S):
    """The binary for what ends by itself (--check, --version, …): (exit status, stdout, stderr)."""
    with tempfile.TemporaryDirectory() as folder:
        if config is not None:
            path = os.path.join(folder, "doorward.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(config if isinstance(config, str) else json.dumps(config))
            arguments = (*arguments, "--config", path)
        ran = subprocess.run([BIN, *arguments], env={"PATH": os.environ.get("PATH", ""), **(env or {})},
                             stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False)
        return ran.returncode, ran.stdout.decode(), ran.stderr.decode()


class Starter:
    """Starts daemons for a test or a module and ends them all, loudly when one did not end well."""

    def __init__(self):
        self.started = []

    def __call__(self, *args, **kwargs):
        daemon = Doorward(*args, **kwargs)
        self.started.append(daemon)
        return daemon

    def finish(self):
        errors = []
        for daemon in self.started:
            try:
                daemon.stop()
            except AssertionError as error:
                errors.append(error)
        if errors:
            raise errors[0]
