"""How it starts, how it ends, what it says on the command line and with which exit code."""
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

import harness
from general import settings


@pytest.fixture(autouse=True)
def clean(recorder, engine):
    recorder.reset()
    engine.says({"result": True})


def slow(seconds):
    def script(conversation, head, body):
        time.sleep(seconds)
        conversation.send(harness.OK_ANSWER)
    return script


def ended(daemon):
    """It drains and ends by itself: another signal would cut it short."""
    daemon.process.child.wait(harness.PATIENCE_S)
    daemon.ended_as_told()


class Load:
    """200 requests a second; half on kept connections, half on one each. `failed`: sent and not answered."""

    def __init__(self, daemon):
        self.daemon, self.stop = daemon, threading.Event()
        self.answered, self.failed = [], []
        self.threads = [threading.Thread(target=self.run, args=(i % 2 == 0,)) for i in range(20)]
        for thread in self.threads:
            thread.start()

    def run(self, keeps):
        client = None
        while not self.stop.is_set():
            began, used = time.monotonic(), client is not None
            try:
                client = client or self.daemon.client()
            except OSError:
                return  # nobody listens any more: another instance has it
            try:
                answer = client.send(b"GET /x HTTP/1.1\r\nHost: a\r\n" +
                                     (b"" if keeps else b"Connection: close\r\n") + b"\r\n").answer()
                self.answered.append(answer.status)
                if not keeps or answer.header("connection") == "close":
                    client.close()
                    client = None
            except (OSError, EOFError) as error:
                client.close()
                client = None
                if not (used and keeps):  # a kept connection may end while nobody asks: RFC 9112 9.3.1 repeats then
                    self.failed.append(repr(error))
            time.sleep(max(0, 0.1 - (time.monotonic() - began)))

    def finish(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(10)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_no_request_is_lost(doorward, recorder, engine, issuer, number):
    recorder.answer = slow(0.05)
    daemon = doorward(settings(recorder.url, engine.url, issuer))
    load = Load(daemon)
    time.sleep(0.7)
    os.kill(daemon.process.pid, number)
    ended(daemon)
    load.finish()
    assert load.failed == []
    assert set(load.answered) == {200} and len(load.answered) > 80
    events = [x["event"] for x in daemon.lines]
    assert "draining" in events and events[-1] == "ended"
    assert len([x for x in daemon.lines if x["event"] == "request" and x["route"] == "/"]) == len(load.answered)


class Balanced(Load):
    """500 requests a second of clients behind a balancer that asks /ready each 100 ms, as those do: who is not ready gets
    nothing new 200 ms later. Whatever was sent and not answered has failed, also on kept connections."""

    def __init__(self, daemon, threads=25):
        self.daemon, self.stop, self.away = daemon, threading.Event(), threading.Event()
        self.answered, self.failed, self.told = [], [], 0
        self.watch = threading.Thread(target=self.watches)
        self.threads = [threading.Thread(target=self.run, args=(i % 2 == 0,)) for i in range(threads)] + [self.watch]
        for thread in self.threads:
            thread.start()

    def watches(self):
        while not self.stop.is_set():
            try:
                ready = self.daemon.curl("/ready").status == 200
            except OSError:
                ready = False
            if not ready:
                time.sleep(0.2)
                self.away.set()
                return
            time.sleep(0.1)

    def run(self, keeps):
        client = None
        while not self.stop.is_set() and not self.away.is_set():
            began = time.monotonic()
            try:
                client = client or self.daemon.client()
                answer = client.send(b"GET /x HTTP/1.1\r\nHost: a\r\n" +
                                     (b"" if keeps else b"Connection: close\r\n") + b"\r\n").answer()
                self.answered.append(answer.status)
                told = answer.header("connection") == "close"
                self.told += told and keeps
                if told:
                    client.close()
                    client = None
            except (OSError, EOFError) as error:
                self.failed.append(repr(error))
                if client:
                    client.close()
                client = None
            time.sleep(max(0, 0.05 - (time.monotonic() - began)))
        if client:
            client.close()


def test_behind_a_balancer_nothing_fails(doorward, recorder, engine, issuer):
    recorder.answer = slow(0.01)
    daemon = doorward(settings(recorder.url, engine.url, issuer, listen={"drain_delay_ms": 1500}))
    daemon.wait_ready()
    load = Balanced(daemon)
    time.sleep(1)
    began = time.monotonic()
    os.kill(daemon.process.pid, signal.SIGTERM)
    ended(daemon)
    took = time.monotonic() - began
    load.finish()
    assert load.failed == []
    assert load.away.is_set() and load.told > 5, "kept connections were told to end"
    assert set(load.answered) == {200} and len(load.answered) > 200
    assert 1.4 < took < 6
    lines = [x for x in daemon.lines if x["event"] == "request" and x["route"] == "/"]
    assert len(lines) == len(load.answered), "each is in the log that was written to its end"


def test_the_delay_serves_and_says_so(doorward, recorder, engine, issuer):
    daemon = doorward(settings(recorder.url, engine.url, issuer, listen={"drain_delay_ms": 1000}))
    daemon.wait_ready()
    idle = daemon.client().send(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
    assert idle.answer().header("connection") is None
    assert daemon.metric("doorward_draining", admin=True) == 0
    daemon.process.child.send_signal(signal.SIGTERM)
    harness.eventually(lambda: daemon.curl("/ready").status == 503, "not ready")
    assert daemon.curl("/ready").json["draining"] is True
    assert daemon.metric("doorward_draining", admin=True) == 1
    fresh = daemon.client().send(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n").answer()
    assert (fresh.status, fresh.header("connection")) == (200, "close")
    answer = idle.send(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n").answer()
    assert (answer.status, answer.header("connection")) == (200, "close")
    assert idle.all() == b""
    ended(daemon)
    assert not harness.opened(daemon.port)


def test_no_delay_at_the_keyboard(doorward, recorder, engine, issuer):
    daemon = doorward(settings(recorder.url, engine.url, issuer, listen={"drain_delay_ms": 60000}))
    began = time.monotonic()
    daemon.process.child.send_signal(signal.SIGINT)
    ended(daemon)
    assert time.monotonic() - began < 3


def test_the_second_signal_cuts_the_delay(doorward, recorder, engine, issuer):
    daemon = doorward(settings(recorder.url, engine.url, issuer, listen={"drain_delay_ms": 60000}))
    daemon.process.child.send_signal(signal.SIGTERM)
    harness.eventually(lambda: daemon.curl("/ready").status == 503, "not ready")
    daemon.process.child.send_signal(signal.SIGTERM)
    assert daemon.process.child.wait(3) == 1
    daemon.stop(expected=1, early=True)


def test_what_waits_in_the_kernel_is_served(doorward, recorder, engine, issuer):
    """Connected and sent before the signal, not accepted yet."""
    daemon = doorward(settings(recorder.url, engine.url, issuer))
    daemon.process.child.send_signal(signal.SIGSTOP)
    clients = [daemon.client().send(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n") for _ in range(50)]
    daemon.process.child.send_signal(signal.SIGTERM)
    daemon.process.child.send_signal(signal.SIGCONT)
    answers = [client.answer() for client in clients]
    assert {(a.status, a.header("connection")) for a in answers} == {(200, "close")}
    for client in clients:
        client.close()
    ended(daemon)


def test_a_long_answer_is_finished(doorward, recorder, engine, issuer):
    def script(conversation, head, body):
        conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", *[b"x"] * 10, delay_s=0.06)
    recorder.answer = script
    daemon = doorward(settings(recorder.url, engine.url, issuer))
    client = daemon.client().send(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
    client.until(b"\r\n\r\n")
    daemon.process.child.send_signal(signal.SIGTERM)
    harness.eventually(lambda: not harness.opened(daemon.port), "it listens no more")
    assert client.exactly(10) == b"x" * 10
    assert client.all() == b""
    ended(daemon)


def test_the_second_signal_ends_at_once(doorward, recorder, engine, issuer):
    recorder.answer = slow(20)
    daemon = doorward(settings(recorder.url, engine.url, issuer))
    client = daemon.client().send(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
    harness.eventually(lambda: recorder.seen, "the API has it")
    daemon.process.child.send_signal(signal.SIGTERM)
    harness.eventually(lambda: not harness.opened(daemon.port), "it listens no more")
    assert daemon.process.alive()
    began = time.monotonic()
    daemon.process.child.send_signal(signal.SIGTERM)
    assert daemon.process.child.wait(5) == 1
    assert time.monotonic() - began < 2
    client.all()
    daemon.stop(expected=1, early=True)
    assert daemon.lines[-1]["event"] == "ended"


def test_the_drain_has_an_end(doorward, recorder, engine, issuer):
    recorder.answer = slow(20)
    daemon = doorward(settings(recorder.url, engine.url, issuer, listen={"drain_timeout_ms": 300}))
    daemon.client().send(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
    harness.eventually(lambda: recorder.seen, "the API has it")
    began = time.monotonic()
    daemon.process.child.send_signal(signal.SIGTERM)
    assert daemon.process.child.wait(5) == 1
    assert 0.2 < time.monotonic() - began < 3
    daemon.stop(expected=1, early=True)


def test_idle_connections_do_not_hold_it(doorward, recorder, engine, issuer):
    daemon = doorward(settings(recorder.url, engine.url, issuer))
    clients = [daemon.client() for _ in range(5)]
    for client in clients[:3]:
        client.send(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n").answer()
    began = time.monotonic()
    daemon.process.child.send_signal(signal.SIGTERM)
    ended(daemon)
    assert time.monotonic() - began < 2
    assert [c.all() for c in clients] == [b""] * 5


@pytest.mark.parametrize("which", ["listen", "admin"])
def test_port_in_use(recorder, engine, issuer, which):
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    config = settings(recorder.url, engine.url, issuer, listen={"address": f"127.0.0.1:{harness.free_port()}"},
                      admin={"address": f"127.0.0.1:{harness.free_port()}"})
    config[which]["address"] = f"127.0.0.1:{port}"
    status, stdout, stderr = harness.run_once(config=config)
    assert status == 1 and str(port) in stderr and "address already in use" in stderr
    assert all(json.loads(line) for line in stdout.splitlines())
    taken.close()


def test_a_reload_while_it_starts(doorward, recorder, engine, issuer, tmp_path):
    """Not the end of it: until its handler stands, the signal waits."""
    file, port = str(tmp_path / "pipe"), harness.free_port()
    os.mkfifo(file)
    daemon = doorward(None, arguments=["--config", file], port=port, wait=False)
    with open(file, "w", encoding="utf-8") as pipe:  # comes back when it reads
        daemon.process.child.send_signal(signal.SIGHUP)
        time.sleep(0.1)
        pipe.write(json.dumps(settings(recorder.url, engine.url, issuer, listen={"address": f"127.0.0.1:{port}"})))
    daemon.wait()
    harness.eventually(lambda: [x for x in daemon.lines if x["event"] == "reload_refused"], "it was heard")


# --- the command line ---------------------------------------------------

def test_version():
    status, stdout, stderr = harness.run_once("--version")
    assert status == 0 and stderr == ""
    assert re.match(r"doorward \d+\.\d+\.\d+", stdout)
    for library in ("libuv", "llhttp", "libcurl", "OpenSSL", "jansson", "hiredis", "libjwt", "libyaml", "libjq"):
        assert library in stdout, library


def test_help_and_usage():
    status, stdout, stderr = harness.run_once("--help")
    assert status == 0 and "--config" in stdout and stderr == ""
    for wrong in (["--nonsense"], ["extra"], ["--config"]):
        status, stdout, stderr = harness.run_once(*wrong)
        assert status == 2 and stdout == "" and "usage" in stderr


def test_check(recorder, engine, issuer):
    status, stdout, stderr = harness.run_once("--check", config=settings(recorder.url, engine.url, issuer))
    assert (status, stderr) == (0, "") and "valid" in stdout


def test_probe(doorward, recorder, engine, issuer):
    daemon = doorward(settings(recorder.url, engine.url, issuer))
    assert harness.run_once("--probe", "--config", daemon.config_file)[0] == 0
    with open(daemon.config_file, encoding="utf-8") as file:
        config = json.load(file)
    config["listen"]["address"] = f"127.0.0.1:{harness.free_port()}"
    status, _, stderr = harness.run_once("--probe", config=config)
    assert status == 1 and "no answer" in stderr
    silent = socket.create_server(("127.0.0.1", 0))
    config["listen"]["address"] = "127.0.0.1:%d" % silent.getsockname()[1]
    assert harness.run_once("--probe", config=config, seconds=20)[0] == 1, "it does not wait for ever"
    silent.close()


BAD = """\
listen:
  address: 127.0.0.1:99999
  header_timeout_ms: soon
  no_such_key: 1
upstream:
  url: http://127.0.0.1:7001
  host: sideways
tokens:
  issuers:
    - issuer: https://issuer.test
      jwks_file: /no/such/file.json
      audiences: [a]
policy:
  url: http://127.0.0.1:8181/v1/data/a
cors:
  origins: ['*']
  credentials: true
decisions:
  jitter: 7
routes:
  - prefix: /
  - prefix: /
  - prefix: no-slash
"""


def test_every_error_at_once_with_its_line():
    status, stdout, stderr = harness.run_once("--check", config=BAD)
    assert status == 78 and stdout == ""
    for line, key in [(2, "listen.address"), (3, "listen.header_timeout_ms"), (4, "listen.no_such_key"), (7,
        "upstream.host"),
                      (11, "jwks_file"), (17, "cors.credentials"), (19, "decisions.jitter"), (22, "routes[1]"), (23,
                          "routes[2]")]:
        assert re.search(rf"doorward\.yaml:{line}\b.*{re.escape(key)}", stderr), (line, key, stderr)
    assert harness.run_once(config=BAD)[0] == 78, "without --check too"


@pytest.mark.parametrize("text", ["a: [", "a: b: c", "\t- a", "- a", "", "null", "{a: 1, a: 2}", "a: &x [*x]",
                                  "a: ${NOT_SET}",
                                  "listen: {address: 127.0.0.1:1, address: 127.0.0.1:2}", "\xff",
                                  "a: !!python/object x",
                                  "x: " + "[" * 5000])
def test_what_is_no_configuration(text):
    status, stdout, stderr = harness.run_once("--check", config=text)
    assert status == 78 and stderr.strip() and stdout == ""


def test_file_that_is_missing():
    status, _, stderr = harness.run_once("--check", "--config", "/no/such/file.yaml")
    assert status == 78 and "/no/such/file.yaml" in stderr


def test_variables_win_and_unknown_ones_are_a_warning(recorder, engine, issuer):
    config = settings(recorder.url, engine.url, issuer, log={"level": "warn"})
    status, stdout, stderr = harness.run_once("--print-config", config=config, env={
        "DOORWARD_LOG_LEVEL": "error", "DOORWARD_PORT": "tcp://10.0.0.1:80", "DOORWARD_STRIP_HEADERS": "x-a,x-b",
        "UNRELATED": "x"})
    assert status == 0
    assert re.search(r"level: *\"?error\"?.*DOORWARD_LOG_LEVEL", stdout), stdout
    assert "x-a" in stdout and "x-b" in stdout
    assert len([x for x in stderr.splitlines() if "DOORWARD_PORT" in x]) == 1 and "UNRELATED" not in stderr
    status, _, stderr = harness.run_once("--check", config=config, env={"DOORWARD_LOG_LEVEL": "loud"})
    assert status == 78 and "DOORWARD_LOG_LEVEL" in stderr


def test_secrets_are_masked_and_leave_the_environment(doorward, recorder, engine, issuer, tmp_path):
    file = tmp_path / "admin"
    file.write_text("canary-admin-token-1234\n")
    config = settings(recorder.url, engine.url, issuer, admin={"token_file": str(file)},
                      redis={"url": "redis://:${REDIS_PASSWORD}@127.0.0.1:1"})
    env = {"REDIS_PASSWORD": "canary-redis", "DOORWARD_POLICY_AUTHORIZATION": "Bearer canary-policy"}
    status, stdout, stderr = harness.run_once("--print-config", config=config, env=env)
    assert status == 0 and "canary" not in stdout + stderr
    daemon = doorward(config, env=env)
    with open(f"/proc/{daemon.process.pid}/environ", "rb") as given:
        assert b"canary-policy" not in given.read()
    assert daemon.curl("/x").status == 200
    assert "canary" not in daemon.log_text()


def test_defaults_in_the_file(recorder, engine, issuer):
    config = settings(recorder.url, engine.url, issuer, serve={"service": "${NAME:-fallback}"})
    assert "fallback" in harness.run_once("--print-config", config=config)[1]
    assert "given" in harness.run_once("--print-config", config=config, env={"NAME": "given"})[1]


@pytest.mark.parametrize("option,has", [("--print-options", "policy.timeout_ms"), ("--print-sample", "listen:"),
                                        ("--print-reasons", "policy_denied"), ("--print-metrics",
                                            "http_requests_total")])
def test_printed_tables(option, has):
    status, stdout, stderr = harness.run_once(option)
    assert status == 0 and has in stdout and stderr == ""


def test_a_closed_pipe_is_told():
    read, write = os.pipe()
    os.close(read)
    ran = subprocess.run([harness.BIN, "--print-options"], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert ran.returncode != 0
