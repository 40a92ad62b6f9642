"""workers: 2: several processes that look like one: all serve, one that dies is replaced, one view of metrics and
readiness, one flush, one reload, one drain; whole lines; nobody is left behind."""
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
from general import is_sanitized, merged, settings

NEW = b"GET /pub/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
KEPT = b"GET /pub/x HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture(autouse=True)
def clean(recorder, engine):
    recorder.reset()
    engine.says({"result": True})


class Team:
    """A daemon with workers, and its file."""

    def __init__(self, start, config, **how):
        self.config = config
        self.daemon = start(config, **how)
        self.pid = self.daemon.process.pid
        self.wait_started()

    def wait_started(self):
        harness.eventually(lambda: self.events("started"), "all workers have started")
        self.daemon.wait_ready()

    def events(self, name, **fields):
        return [x for x in list(self.daemon.lines) if x["event"] == name and fields.items() <= x.items()]

    def pids(self):
        """{number: pid} of the workers."""
        return {row["worker"]: row["pid"] for row in self.ready()["workers"]}

    def ready(self):
        return json.loads(harness.curl(self.daemon.admin + "/ready").body)

    def children(self):
        with open(f"/proc/{self.pid}/task/{self.pid}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]

    def kill(self, number, signum=signal.SIGKILL):
        pid = self.pids()[number]
        os.kill(pid, signum)
        return pid

    def wait_restarted(self, number, times=1):
        harness.eventually(lambda: len(self.events("worker_restarted", of_worker=number)) >= times, "another worker")

    def served(self):
        """{worker: access lines}"""
        found = {}
        for line in self.events("request", path="/pub/x"):
            found[line["worker"]] = found.get(line["worker"], 0) + 1
        return found

    def flush(self):
        return harness.curl(self.daemon.admin + "/cache/flush", data=b'{"all":true}', max_time_s=10)


def team_settings(recorder, engine, issuer, **more):
    return merged(settings(recorder.url, engine.url, issuer, workers=2), more)


@pytest.fixture
def team(doorward, recorder, engine, issuer):
    return Team(doorward, team_settings(recorder, engine, issuer))


def get(daemon, request=NEW):
    client = daemon.client()
    try:
        return client.send(request).answer().status
    finally:
        client.close()


def serve_all(team, n=2, most=400):
    """New connections until n workers have served some; how many."""
    sent = 0
    while sent < most:
        assert get(team.daemon) == 200
        sent += 1
        if sent % 20 == 0 and len(team.served()) >= n:
            break
    harness.eventually(lambda: sum(team.served().values()) >= sent, "all access lines")
    return sent


def is_gone(pid):
    return not os.path.exists(f"/proc/{pid}")


def test_all_serve_and_their_sum_is_what_was_asked(team):
    sent = serve_all(team)
    assert set(team.served()) == {1, 2}
    for path in ("", "/json"):
        answer = harness.curl(team.daemon.admin + "/metrics" + path)
        assert answer.status == 200
    assert team.daemon.metric("doorward_http_requests_total", admin=True, route="/pub", status_code="200") == sent
    assert team.daemon.metric("doorward_http_request_duration_seconds_count", admin=True, route="/pub") == sent
    metrics = team.daemon.metrics(admin=True)
    rss = {dict(labels)["worker"]: v for (name, labels), v in metrics.items()
           if name == "doorward_process_resident_memory_bytes"}
    assert set(rss) == {"1", "2", "supervisor"} and min(rss.values()) > 1e6
    assert metrics[("doorward_workers", frozenset({("state", "running")}))] == 2


def test_alone_there_is_no_supervisor(doorward, recorder, engine, issuer):
    daemon = doorward(team_settings(recorder, engine, issuer, workers=1))
    daemon.wait_ready()
    assert daemon.curl("/pub/x").status == 200
    with open(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/children", encoding="ascii") as file:
        assert file.read() == ""
    assert "workers" not in daemon.curl("/ready").json
    assert not any("worker" in line for line in list(daemon.lines))
    assert not any(dict(labels).get("worker") for _, labels in daemon.metrics(admin=True))


def test_auto_is_as_many_as_cores(doorward, recorder, engine, issuer):
    daemon = doorward(team_settings(recorder, engine, issuer, workers="auto"))
    daemon.wait_ready()
    cores = len(os.sched_getaffinity(0))
    assert len(daemon.curl("/ready").json.get("workers", [0])) == cores


class Load:
    """Requests on new connections, until stopped; what became of each."""

    def __init__(self, daemon, threads=4):
        self.daemon, self.stopping = daemon, threading.Event()
        self.good, self.failed, self.answered = 0, [], []
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run) for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def run(self):
        while not self.stopping.is_set():
            try:
                status = get(self.daemon)
                with self.lock:
                    self.answered.append(status)
            except (OSError, EOFError) as error:
                with self.lock:
                    self.failed.append(error)
            time.sleep(0.002)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        return self.answered, self.failed


def test_one_is_killed_under_load(team):
    """Nothing but what it had in hand is lost; who waited in its queue is served by its successor."""
    serve_all(team)
    load = Load(team.daemon)
    try:
        for i in range(3):
            harness.eventually(lambda: len(load.answered) > 50 * (i + 1), "load")
            team.kill(1 + i % 2)
            team.wait_restarted(1 + i % 2, 1 + i // 2)
            time.sleep(0.1)
    finally:
        answered, failed = load.stop()
    assert set(answered) == {200}
    assert len(failed) <= 3 * 4, failed  # of each, what four clients had in hand
    died = team.events("worker_died")
    assert [line["detail"] for line in died] == ["killed by SIGKILL"] * 3
    assert team.daemon.metric("doorward_worker_restarts_total", admin=True, cause="signal") == 3
    team.daemon.wait_ready()
    assert len(team.children()) == 2


def test_what_the_dead_counted_stays_counted(team):
    sent = serve_all(team)
    time.sleep(1.6)  # it is asked for once a second
    team.kill(1)
    team.wait_restarted(1)
    assert team.daemon.metric("doorward_http_requests_total", admin=True, route="/pub") == sent


def test_one_that_keeps_dying_rests_and_others_take_its_connections(team):
    for i in range(5):
        team.kill(2)
        harness.eventually(lambda: len(team.events("worker_died", of_worker=2)) == i + 1, "it died")
        if i < 4:
            team.wait_restarted(2, i + 1)
    rests = [line["restart_in_ms"] for line in team.events("worker_died")]
    assert rests[0] == 0 and rests[-1] > 500, rests
    began = time.monotonic()
    for _ in range(40):  # while it rests, half of them come to its socket
        assert get(team.daemon) == 200
    assert not team.events("worker_restarted", of_worker=2)[4:], "the rest was over before it was tried"
    assert time.monotonic() - began < 5
    body = team.ready()
    assert body["status"] == "not-ready" and [x["state"] for x in body["workers"]] == ["running", "down"]
    team.wait_restarted(2, 5)
    team.daemon.wait_ready()
    serve_all(team)


def test_one_that_hangs_hangs_nobody(team):
    serve_all(team)
    time.sleep(1.6)  # what it counted is asked for once a second
    pid = team.kill(1, signal.SIGSTOP)
    try:
        harness.eventually(lambda: team.events("worker_silent", of_worker=1), "it is found silent")
        answer = harness.curl(team.daemon.admin + "/ready", max_time_s=5)
        assert answer.status == 503
        assert {x["worker"]: x["state"] for x in answer.json["workers"]} == {1: "stuck", 2: "running"}
        # what it told last still counts
        assert team.daemon.metric("doorward_http_requests_total", admin=True, route="/pub") == len(team.events("request", path="/pub/x"))
        # a flush that not all have done is not said to be done
        flush = team.flush()
        assert flush.status == 503 and flush.json["code"] == "worker_silent"
        for _ in range(30):
            assert get(team.daemon) == 200
    finally:
        os.kill(pid, signal.SIGCONT)
    harness.eventually(lambda: team.events("worker_answers_again", of_worker=1), "it answers again")
    team.daemon.wait_ready()
    assert team.flush().json["flushed"] is True
    assert not team.events("worker_died")


def test_flush_reaches_all(team, engine, issuer):
    """What was decided in one worker is asked again in each after a flush."""
    bearer = issuer.bearer("m5hectest")
    clients = [team.daemon.client() for _ in range(24)]  # some to each
    request = f"GET /x HTTP/1.1\r\nHost: a\r\nAuthorization: {bearer}\r\n\r\n".encode()

    def asked():
        before = len(engine.questions())
        for client in clients:
            assert client.send(request).answer().status == 200
        return len(engine.questions()) - before
    asked()
    workers = {line["worker"] for line in team.events("request", path="/x")}
    assert harness.eventually(lambda: {line["worker"] for line in team.events("request", path="/x")} == {1, 2}, "both"), workers
    assert asked() == 0
    assert team.flush().json["flushed"] is True
    assert asked() == 2  # once a worker: caches are each one's own
    for client in clients:
        client.close()


def test_reload_is_the_same_everywhere(team, recorder):
    team.config = merged(team.config, {"serve": {"service": "renamed"}})
    full = merged({"listen": {"address": f"127.0.0.1:{team.daemon.port}"},
                   "admin": {"address": f"127.0.0.1:{team.daemon.admin_port}"}}, team.config)
    clients = [team.daemon.client() for _ in range(24)]
    with open(team.daemon.config_file, "w", encoding="utf-8") as file:
        json.dump(full, file)
    os.kill(team.pid, signal.SIGHUP)
    harness.eventually(lambda: team.events("reloaded"), "reloaded")
    with open(team.daemon.config_file, "w", encoding="utf-8") as file:
        file.write("broken: [")  # nobody reads it before the next SIGHUP
    assert len(team.events("reloaded")) == 1 and team.events("reloaded")[0]["changed"] == ["serve.service"]

    def names():
        return [client.send(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n").answer().json["service"] for client in clients]
    harness.eventually(lambda: set(names()) == {"renamed"}, "all have it")
    assert team.daemon.metric("doorward_config_revision", admin=True) == 2
    assert team.daemon.metric("doorward_config_reloads_total", admin=True, result="ok") == 1
    for client in clients:
        client.close()
    # who comes later has what is in force
    digest = team.ready()["configuration"]["digest"]
    for number in (1, 2):
        team.kill(number)
        team.wait_restarted(number)
    team.daemon.wait_ready()
    for _ in range(20):
        configuration = team.daemon.curl("/ready").json["configuration"]
        assert (configuration["revision"], configuration["digest"]) == (2, digest)
    # and what is refused changes nothing
    os.kill(team.pid, signal.SIGHUP)
    harness.eventually(lambda: team.events("reload_refused"), "refused")
    assert len(team.events("reload_refused")) == 1
    assert team.daemon.metric("doorward_config_revision", admin=True) == 2
    assert team.daemon.curl("/health").json["service"] == "renamed"


def test_reload_to_another_port(team):
    port = harness.free_port()
    full = merged(team.config, {"listen": {"address": f"127.0.0.1:{port}"},
                                "admin": {"address": f"127.0.0.1:{team.daemon.admin_port}"}})
    with open(team.daemon.config_file, "w", encoding="utf-8") as file:
        json.dump(full, file)
    old = team.daemon.port
    os.kill(team.pid, signal.SIGHUP)
    harness.eventually(lambda: team.events("reloaded"), "reloaded")
    team.daemon.port = port
    team.daemon.base = f"http://127.0.0.1:{port}"
    serve_all(team)
    harness.eventually(lambda: not harness.opened(old), "nobody listens on the old port")
    team.kill(1)
    team.wait_restarted(1)
    serve_all(team)


def test_drain_is_one(doorward, recorder, engine, issuer):
    """Not ready at once, still serving; then what is under way is finished by all, and the exit is 0."""
    team = Team(doorward, team_settings(recorder, engine, issuer, listen={"drain_delay_ms": 700}))
    release = threading.Event()

    def slow(conversation, head, body):
        release.wait(10)
        conversation.send(harness.OK_ANSWER)
    recorder.reset(slow)
    clients = [team.daemon.client() for _ in range(16)]
    for client in clients:
        client.send(KEPT)
    harness.eventually(lambda: len(recorder.seen) == 16, "all are at the API")
    children = team.children()
    os.kill(team.pid, signal.SIGTERM)
    harness.eventually(lambda: team.daemon.curl("/ready").status == 503, "not ready")
    assert team.daemon.curl("/health").status == 200
    harness.eventually(lambda: not harness.opened(team.daemon.port), "nobody is let in any more")
    assert team.daemon.process.alive()
    release.set()
    for client in clients:
        assert client.answer().status == 200
        client.close()
    assert team.daemon.process.child.wait(harness.PATIENCE_S) == 0
    assert all(is_gone(pid) for pid in children)
    team.daemon.ended_as_told()
    assert len(team.events("worker_ended", detail="exit 0")) == 2


def test_a_second_signal_ends_all(doorward, recorder, engine, issuer):
    team = Team(doorward, team_settings(recorder, engine, issuer))
    recorder.reset(lambda conversation, head, body: time.sleep(5) or False)
    client = team.daemon.client().send(KEPT)
    harness.eventually(lambda: len(recorder.seen) == 1, "it is at the API")
    children = team.children()
    os.kill(team.pid, signal.SIGTERM)
    harness.eventually(lambda: team.events("draining"), "drains")
    os.kill(team.pid, signal.SIGTERM)
    assert team.daemon.process.child.wait(harness.PATIENCE_S) == 1
    assert all(is_gone(pid) for pid in children)
    client.close()
    team.daemon.stop(expected=1, early=True)


def test_without_a_supervisor_workers_finish_and_end(doorward, recorder, engine, issuer):
    team = Team(doorward, team_settings(recorder, engine, issuer))
    release = threading.Event()

    def slow(conversation, head, body):
        release.wait(10)
        conversation.send(harness.OK_ANSWER)
    recorder.reset(slow)
    clients = [team.daemon.client().send(KEPT) for _ in range(8)]
    harness.eventually(lambda: len(recorder.seen) == 8, "all are at the API")
    children = team.children()
    os.kill(team.pid, signal.SIGKILL)
    harness.eventually(lambda: not harness.opened(team.daemon.port), "nobody is let in any more")
    release.set()
    for client in clients:
        assert client.answer().status == 200
        client.close()
    harness.eventually(lambda: all(is_gone(pid) for pid in children), "no orphan is left")
    team.daemon.stop(expected=-signal.SIGKILL, early=True)


def test_a_signal_to_the_whole_group(doorward, recorder, engine, issuer):
    """A service manager or a terminal signals every process: that is one drain, not two."""
    for round_, signum in enumerate([signal.SIGTERM] * 12 + [signal.SIGINT] * 2):
        team = Team(doorward, team_settings(recorder, engine, issuer))
        everybody = [team.pid, *team.children()]
        for pid in everybody if round_ % 2 else reversed(everybody):
            try:
                os.kill(pid, signum)
            except ProcessLookupError:  # it has ended already
                pass
            time.sleep(round_ % 12 * 0.0003)  # to some it comes while they close
        assert team.daemon.process.child.wait(harness.PATIENCE_S) == 0
        team.daemon.ended_as_told()
        assert team.events("ended", detail="drained") and not team.events("ending_now")
        assert all(is_gone(pid) for pid in everybody[1:])


def test_drop_in_has_one_view_on_its_port(doorward, api, policy, redis):
    port = harness.free_port()
    daemon = doorward(port=port, env={"CWMS_API_URL": api.url, "OPA_URL": policy.url, "REDIS_URL": redis.url,
                                      "HOST": "127.0.0.1", "PORT": port, "DOORWARD_WORKERS": 2})
    daemon.wait_ready()
    asked = 0
    for _ in range(30):
        answer = daemon.curl("/authorize", "-H", "Content-Type: application/json", data=b'{"resource":"offices","action":"read"}')
        assert answer.status == 200
        asked += 1
    assert {line["worker"] for line in list(daemon.lines) if line.get("path") == "/authorize"} <= {1, 2}
    assert daemon.metric("authorizer_proxy_http_requests_total", route="/authorize") == asked
    assert [x["ready"] for x in daemon.curl("/ready").json["workers"]] == [True, True]


def test_sigterm_to_one_is_its_own_end(team):
    pid = team.kill(1, signal.SIGTERM)
    team.wait_restarted(1)
    assert is_gone(pid) and team.events("worker_died")[0]["detail"] == "exit 0"
    serve_all(team)


def test_start_that_cannot_be(doorward, recorder, engine, issuer):
    """One message, from whoever finds it, and the code of a single process."""
    taken = socket.create_server(("127.0.0.1", 0))
    config = team_settings(recorder, engine, issuer, listen={"address": f"127.0.0.1:{taken.getsockname()[1]}"},
                           admin={"address": f"127.0.0.1:{harness.free_port()}"})
    code, out, err = harness.run_once(config=config)
    assert code == 1 and re.fullmatch(r"doorward: cannot listen on 127.0.0.1 port \d+: address already in use\n", err), err
    taken.close()
    first = doorward(team_settings(recorder, engine, issuer))
    config["listen"]["address"] = f"127.0.0.1:{first.port}"  # another one of us does not take half of it away
    code, out, err = harness.run_once(config=config)
    assert code == 1 and "address already in use" in err


def test_port_0_is_one_port_for_all(doorward, recorder, engine, issuer):
    daemon = doorward(team_settings(recorder, engine, issuer, listen={"address": "127.0.0.1:0"}), wait=False)
    started = harness.eventually(lambda: [x for x in list(daemon.lines) if x["event"] == "started"], "started")[0]
    assert started["port"] > 0 and started["workers"] == 2
    daemon.port, daemon.base = started["port"], f"http://127.0.0.1:{started['port']}"
    daemon.wait_ready()


def test_lines_stay_whole(team, recorder):
    """Long lines of both at once: none inside another (a line that is no JSON is a stray), none missing."""
    long = "/pub/" + "x" * 6000  # longer than what a pipe takes as one piece
    request = f"GET {long} HTTP/1.1\r\nHost: a\r\n\r\n".encode()

    def run():
        client = team.daemon.client()
        for _ in range(150):
            assert client.send(request).answer().status == 200
        client.close()
    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    dropped = team.daemon.metric("doorward_log_lines_dropped_total", admin=True)
    harness.eventually(lambda: len(team.events("request", path=long)) >= 8 * 150 - dropped, "every line")
    assert len(team.events("request", path=long)) + dropped == 8 * 150, "none is lost uncounted"
    assert not team.daemon.strays
    assert {line["worker"] for line in team.events("request", path=long)} == {1, 2}


def test_secrets_are_nowhere_to_be_read(doorward, recorder, engine, issuer):
    secret = "correct-horse-battery-staple"
    team = Team(doorward, team_settings(recorder, engine, issuer), env={"DOORWARD_ADMIN_TOKEN": secret})
    bearer = ("-H", f"Authorization: Bearer {secret}")
    os.kill(team.pid, signal.SIGHUP)
    harness.eventually(lambda: team.events("reloaded"), "reloaded")
    team.kill(1)
    team.wait_restarted(1)
    assert harness.curl(team.daemon.admin + "/metrics", *bearer).status == 200
    for pid in [team.pid, *team.children()]:
        for name in ("environ", "cmdline"):
            with open(f"/proc/{pid}/{name}", "rb") as file:
                assert secret.encode() not in file.read(), (pid, name)
        for number in os.listdir(f"/proc/{pid}/fd"):
            name = f"/proc/{pid}/fd/{number}"
            if "memfd" in os.readlink(name):  # metrics are; a configuration is gone when it has been read
                with open(name, "rb") as file:
                    assert secret.encode() not in file.read()
    assert secret not in team.daemon.log_text()


def descriptors(pid):
    folder = f"/proc/{pid}/fd"
    return [os.readlink(os.path.join(folder, name)) for name in os.listdir(folder)]


def test_nothing_grows_by_deaths_and_reloads(team):
    """Descriptors of the supervisor and of workers, after many of each."""
    def count():
        time.sleep(1.2)
        return len(descriptors(team.pid)), max(len(descriptors(pid)) for pid in team.children())
    for _ in range(2):
        team.kill(1)
        harness.eventually(lambda: team.daemon.curl("/ready").status == 200, "ready")
    before = count()
    for i in range(10):
        os.kill(team.pid, signal.SIGHUP)
        harness.eventually(lambda: len(team.events("reloaded")) == i + 1, "reloaded")
        assert team.flush().status == 200
        assert harness.curl(team.daemon.admin + "/metrics").status == 200
    team.kill(2)
    team.wait_restarted(2)
    team.daemon.wait_ready()
    after = count()
    assert after[0] <= before[0] and after[1] <= before[1] + 2, (before, after)
    with open(f"/proc/{team.pid}/status", encoding="ascii") as file:
        assert "Z (zombie)" not in file.read()
    states = subprocess.run(["ps", "-o", "stat=", "--ppid", str(team.pid)], capture_output=True, check=True, text=True)
    assert "Z" not in states.stdout


@pytest.mark.skipif(is_sanitized(harness.BIN), reason="a sanitizer's memory says nothing")
def test_supervisor_is_small(team):
    assert team.daemon.rss_kib() < 32 * 1024
