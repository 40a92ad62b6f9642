"""SIGHUP: another configuration in force at once, or nothing changes; what is under way ends as it began."""
import json
import os
import signal
import socket
import threading
import time

import pytest

import harness
from general import is_sanitized, merged, settings, values


@pytest.fixture(autouse=True)
def clean(recorder, engine):
    recorder.reset()
    engine.says({"result": True})


class Running:
    """A daemon whose file can be rewritten."""

    def __init__(self, start, config, **how):
        self.config = config
        self.daemon = start(config, **how)
        self.daemon.wait_ready()

    def write(self, config):
        text = config
        if not isinstance(config, str):
            self.config = config
            full = merged({"listen": {"address": f"127.0.0.1:{self.daemon.port}"},
                           "admin": {"address": f"127.0.0.1:{self.daemon.admin_port}"}}, config)
            text = json.dumps(full, indent=1)
        with open(self.daemon.config_file, "w", encoding="utf-8") as file:
            file.write(text)

    def events(self, name):
        return [x for x in list(self.daemon.lines) if x["event"] == name]

    def hangup(self, event):
        """Sends SIGHUP and waits for that event; gives its line."""
        before = len(self.events(event))
        os.kill(self.daemon.process.pid, signal.SIGHUP)
        harness.eventually(lambda: len(self.events(event)) > before, event)
        return self.events(event)[-1]

    def reload(self, **more):
        self.write(merged(self.config, more))
        return self.hangup("reloaded")

    def configuration(self):
        return self.daemon.curl("/ready").json["configuration"]


@pytest.fixture
def running(doorward, recorder, engine, issuer):
    return Running(doorward, settings(recorder.url, engine.url, issuer))


def status(daemon, path, authorization=None):
    return daemon.curl(path, authorization=authorization).status


def test_nothing_changed(running, recorder, engine, issuer):
    daemon = running.daemon
    token = "Bearer " + issuer.token("alice")
    assert status(daemon, "/x", token) == 200
    asked, first = len(engine.questions()), running.configuration()
    client = daemon.client()
    assert client.send(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n").answer().status == 200
    asked = len(engine.questions())
    for i in range(3):
        line = running.hangup("reloaded")
        assert (line["revision"], line["changed"], line["digest"]) == (i + 2, [], first["digest"])
    assert running.configuration()["revision"] == 4 and running.configuration()["digest"] == first["digest"]
    assert status(daemon, "/x", token) == 200
    assert client.send(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n").answer().status == 200, "the connection stayed open"
    assert len(engine.questions()) == asked, "decisions are known still"
    assert daemon.metric("doorward_config_revision", admin=True) == 4
    assert daemon.metric("doorward_config_reloads_total", admin=True, result="ok") == 3


def test_routes_timeouts_cors_and_log(running, recorder):
    daemon = running.daemon
    assert status(daemon, "/pub/x") == 200
    assert daemon.curl("/pub/x", "-H", "Origin: https://a.test").header("access-control-allow-origin") is None
    line = running.reload(routes=[{"prefix": "/new", "access": "public"}], cors={"origins": ["https://a.test"]},
                          listen={"max_body_bytes": 3}, log={"level": "debug"}, strip_headers=["x-mine"])
    assert set(line["changed"]) >= {"routes[0].prefix", "routes[1]", "routes[2]", "cors.origins", "listen.max_body_bytes",
                                    "log.level", "strip_headers"}
    assert status(daemon, "/pub/x") == 404
    answer = daemon.curl("/new/x", "-H", "Origin: https://a.test", "-H", "X-Mine: 1")
    assert answer.status == 200 and answer.header("access-control-allow-origin") == "https://a.test"
    assert values(recorder.last[0], "x-mine") == []
    assert daemon.curl("/new/x", data=b"abcd").status == 413


def test_an_upstream_that_moves(running, recorder, upstream):
    daemon = running.daemon
    other = upstream()
    assert status(daemon, "/x") == 200
    seen = len(recorder.seen)
    running.reload(upstream={"url": other.url})
    assert status(daemon, "/x") == 200
    assert len(recorder.seen) == seen
    running.reload(upstream={"url": recorder.url})
    assert status(daemon, "/x") == 200
    assert len(recorder.seen) == seen + 1


def test_connections_to_the_api_are_kept(running):
    daemon = running.daemon
    assert status(daemon, "/x") == 200
    dials = daemon.metric("doorward_upstream_dials_total", admin=True)
    running.reload(log={"query": True})
    assert status(daemon, "/x") == 200
    assert daemon.metric("doorward_upstream_dials_total", admin=True) == dials


def test_another_policy(running, engine):
    daemon = running.daemon
    assert status(daemon, "/x") == 200
    asked = len(engine.questions())
    assert status(daemon, "/x") == 200
    assert len(engine.questions()) == asked
    engine.says({"result": False})
    assert status(daemon, "/x") == 200, "what was decided holds"
    running.reload(policy={"url": engine.url + "/v1/data/authz/other"})
    assert status(daemon, "/x") == 403, "under another policy it was never decided"
    engine.says({"result": True})
    running.reload(decisions={"deny_ttl_s": 1})
    assert status(daemon, "/x") == 200


def test_caches_that_begin_anew_are_counted_on(running, engine):
    """What was evicted of a cache that went stays counted, and the new one's comes to it."""
    daemon = running.daemon
    running.reload(decisions={"max_entries": 2})
    name, evicted = "doorward_cache_evictions_total", []
    for n in range(3):
        for i in range(6 - n):
            assert status(daemon, f"/x/{n}/{i}") == 200
        evicted.append(daemon.metric(name, admin=True, cache_type="decision"))
        running.reload(policy={"url": f"{engine.url}/v1/data/authz/other{n}"})
    assert evicted == sorted(evicted) and evicted[0] == 4 and evicted[-1] > 4


def test_a_grant_in_another_shape(running, recorder, tmp_path):
    daemon = running.daemon
    shape = tmp_path / "shape.jq"
    shape.write_text('{a: 1}')
    running.reload(grant={"shape": str(shape), "header": "x-grant"})
    assert status(daemon, "/x") == 200
    assert values(recorder.last[0], "x-grant") == ['{"a":1}']
    shape.write_text('{b: 2}')
    line = running.hangup("reloaded")
    assert line["changed"] == ["grant.shape"], "the contents of the file count"
    assert status(daemon, "/x") == 200
    assert values(recorder.last[0], "x-grant") == ['{"b":2}']


def test_issuers(running, issuer):
    daemon = running.daemon
    token = "Bearer " + issuer.token("alice")
    issuers = running.config["tokens"]["issuers"]
    assert status(daemon, "/x", token) == 200
    running.reload(tokens={"issuers": [dict(issuers[0], audiences=["other"])]})
    answer = daemon.curl("/x", authorization=token)
    assert answer.status == 401 and answer.json["code"] == "token_audience"
    secret = {"issuer": "https://second.test", "secret": "0123456789abcdef0123456789abcdef", "audiences": ["cwms"],
              "algorithms": ["HS256"]}
    running.reload(tokens={"issuers": [secret]})
    assert daemon.curl("/x", authorization=token).json["code"] == "token_issuer"
    running.reload(tokens={"issuers": [secret, issuers[0]]})
    harness.eventually(lambda: status(daemon, "/x", token) == 200, "its keys are there again")


def test_keys_are_not_asked_for_again(running, issuer):
    token = "Bearer " + issuer.token("alice")
    assert status(running.daemon, "/x", token) == 200
    loaded = len(running.events("keys_loaded"))
    running.reload(log={"query": True})
    assert status(running.daemon, "/x", token) == 200
    assert len(running.events("keys_loaded")) == loaded


def test_the_address_moves(running):
    daemon, port = running.daemon, harness.free_port()
    client = daemon.client()
    assert client.send(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n").answer().status == 200
    running.reload(listen={"address": f"127.0.0.1:{port}"})
    assert harness.http("GET", f"http://127.0.0.1:{port}/health")
    assert not harness.opened(daemon.port)
    assert client.send(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n").answer().status == 200, "who was connected is served"
    running.reload(listen={"address": f"127.0.0.1:{daemon.port}"}, admin={"address": ""})
    assert status(daemon, "/x") == 200
    assert not harness.opened(daemon.admin_port) and not harness.opened(port)
    client.close()


def test_secrets_from_files_and_variables(doorward, recorder, engine, issuer, tmp_path):
    file = tmp_path / "token"
    file.write_text("first-admin-token-0000")
    config = settings(recorder.url, engine.url, issuer, admin={"token_file": str(file)})
    running = Running(doorward, config, env={"DOORWARD_POLICY_AUTHORIZATION": "Bearer of-a-variable"})
    daemon = running.daemon

    def admin(token):
        return harness.curl(daemon.admin + "/metrics", "-H", "Authorization: Bearer " + token).status
    assert admin("first-admin-token-0000") == 200
    file.write_text("second-admin-token-111")
    line = running.hangup("reloaded")
    assert line["changed"] == ["admin.token"], "the variable's secret is the same still"
    assert admin("first-admin-token-0000") == 401 and admin("second-admin-token-111") == 200
    assert "admin-token" not in daemon.log_text() and "of-a-variable" not in daemon.log_text()


def test_what_is_wrong_changes_nothing(running, engine, tmp_path):
    daemon = running.daemon
    before = running.configuration()
    running.write("listen:\n  adress: 127.0.0.1:1\nroutes:\n  - prefix: nothing\n")
    line = running.hangup("reload_refused")
    assert any("doorward.yaml:2: listen.adress" in x for x in line["errors"]), line
    assert any("doorward.yaml:4: routes[0].prefix" in x for x in line["errors"]), line
    os.unlink(daemon.config_file)
    assert "no such file" in running.hangup("reload_refused")["errors"][0]
    shape = tmp_path / "bad.jq"
    shape.write_text("{a: ")
    good = running.config
    running.write(merged(good, {"grant": {"shape": str(shape)}}))
    assert "bad.jq" in running.hangup("reload_refused")["errors"][0]
    running.config = good
    taken = socket.create_server(("127.0.0.1", 0))
    address = "127.0.0.1:%d" % taken.getsockname()[1]
    running.write(merged(running.config, {"listen": {"address": address}, "policy": {"url": engine.url + "/other"}}))
    line = running.hangup("reload_refused")
    assert "address already in use" in line["errors"][0]
    taken.close()
    assert running.configuration() == before
    assert status(daemon, "/x") == 200
    assert daemon.metric("doorward_config_reloads_total", admin=True, result="refused") == 4
    assert daemon.metric("doorward_config_revision", admin=True) == 1


def test_what_only_a_start_can_change(running, redis):
    running.write(merged(running.config, {"redis": {"url": redis.url, "key_prefix": "b:"},
                                          "serve": {"metrics_prefix": "other_"}, "log": {"query": True}}))
    line = running.hangup("reloaded")
    assert line["changed"] == ["log.query"]
    kept = running.events("reload_partly")[-1]["options"]
    assert kept == ["redis.url", "redis.key_prefix", "serve.metrics_prefix"]
    assert running.daemon.metric("doorward_config_revision", admin=True) == 2
    assert status(running.daemon, "/x") == 200


def test_contexts_in_redis_are_not_mixed(doorward, redis, api, engine, issuer, tmp_path):
    """Another shape makes other contexts of the same profile: those of before are not taken."""
    redis.command("FLUSHALL")
    shape = tmp_path / "shape.jq"
    shape.write_text('{id: ."user-name", kind: "one"}')
    url = f"http://127.0.0.1:{api.port}"
    running = Running(doorward, settings(url, engine.url, issuer, redis={"url": redis.url, "timeout_ms": 500}, context={
        "url": url + "/cwms-data/user/profile", "shape": str(shape), "memory_ttl_s": 0}, decisions={"ttl_s": 0}))

    def kind(source):
        answer = running.daemon.curl("/cwms-data/x", authorization=issuer.bearer("damop"))
        assert answer.status == 200, answer
        assert running.daemon.log(answer.request_id)["context_from"] == source
        return engine.questions()[-1]["user"]["kind"]
    harness.eventually(lambda: not running.daemon.curl("/ready").json["degraded"], "Redis is there")
    assert kind("api") == "one" and kind("redis") == "one"
    shape.write_text('{id: ."user-name", kind: "two"}')
    running.hangup("reloaded")
    assert kind("api") == "two" and kind("redis") == "two"
    running.reload(log={"query": True})
    assert kind("redis") == "two", "what means the same is found"


@pytest.mark.parametrize("shared", [False, True])
def test_another_claim_names_somebody_else(doorward, redis, api, engine, issuer, shared):
    """Whose name is in another claim of a token does not get the context that was kept for the bearer of that name."""
    redis.command("FLUSHALL")
    url = f"http://127.0.0.1:{api.port}"
    more = {"redis": {"url": redis.url, "timeout_ms": 500}} if shared else {}
    running = Running(doorward, settings(url, engine.url, issuer, decisions={"ttl_s": 0}, tokens={"name_claim": "preferred_username"},
                                         context={"url": url + "/cwms-data/user/profile", "shape": "builtin:cwms/context.jq"}, **more))

    def asked_for(token):
        assert running.daemon.curl("/cwms-data/x", authorization="Bearer " + token).status == 200
        return engine.questions()[-1]["user"]["id"]
    if shared:
        harness.eventually(lambda: not running.daemon.curl("/ready").json["degraded"], "Redis is there")
    assert asked_for(issuer.token("damop")) == "DAMOP"
    token = issuer.token("viewer", claims={"nick": "damop"})
    body = json.dumps({"resource": "x", "action": "read", "jwt_token": token}).encode()
    began_before = harness.RawClient(running.daemon.admin_port).send(
        b"POST /authorize HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body), body[:9], delay_s=0.2)
    time.sleep(0.2)
    running.reload(tokens={"name_claim": "nick"})
    assert began_before.send(body[9:]).answer().status == 200
    assert engine.questions()[-1]["user"]["id"] == "VIEWER"
    assert asked_for(token) == "VIEWER"


def test_a_pipe_that_nobody_writes_to(running):
    """Whoever opens one waits for its writer; nobody else may wait for that."""
    file = running.daemon.config_file
    os.remove(file)
    os.mkfifo(file)
    assert "nobody writes to the pipe" in running.hangup("reload_refused")["errors"][0]
    assert status(running.daemon, "/pub/x") == 200


def test_a_request_ends_as_it_began(running, recorder, engine, upstream):
    """While its answer, its decision and its upload are on their way, all of it changes."""
    daemon = running.daemon
    go, other = threading.Event(), upstream()

    def slow(conversation, head, body):
        go.wait(10)
        conversation.send(harness.OK_ANSWER)
    recorder.answer = slow
    waiting = daemon.client().send(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
    upload = daemon.client().send(b"POST /pub/x HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
    harness.eventually(lambda: len(recorder.seen) == 1, "the API has the first")
    running.reload(upstream={"url": other.url}, routes=[{"prefix": "/only", "access": "public"}],
                   listen={"max_body_bytes": 1}, policy={"url": engine.url + "/v1/data/none"})
    assert status(daemon, "/x") == 404
    upload.send(b"def")
    harness.eventually(lambda: len(recorder.seen) == 2, "the API has the upload")
    go.set()
    assert waiting.answer().status == 200
    assert upload.answer().status == 200
    assert waiting.send(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n").answer().status == 404, "the next begins with the new"
    waiting.close()
    upload.close()


def test_two_at_once_and_one_while_it_ends(running, recorder):
    daemon = running.daemon
    for _ in range(2):
        os.kill(daemon.process.pid, signal.SIGHUP)
    harness.eventually(lambda: running.events("reloaded"), "reloaded")
    recorder.answer = lambda conversation, head, body: (time.sleep(1), conversation.send(harness.OK_ANSWER))[1]
    client = daemon.client().send(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
    harness.eventually(lambda: recorder.seen, "the API has it")
    os.kill(daemon.process.pid, signal.SIGTERM)
    harness.eventually(lambda: running.events("draining"), "draining")
    assert running.hangup("reload_ignored")["detail"] == "draining"
    assert client.answer().status == 200
    daemon.process.child.wait(harness.PATIENCE_S)
    daemon.ended_as_told()


def test_a_hundred_under_load(running, recorder, engine, upstream):
    """Every part changes back and forth; no request fails, nothing grows."""
    daemon, other = running.daemon, upstream()
    token_file = os.path.join(daemon.folder.name, "shape.jq")
    with open(token_file, "w", encoding="utf-8") as file:
        file.write("{a: .user.id}")
    base = running.config
    forms = [{}, {"upstream": {"url": other.url}}, {"policy": {"url": engine.url + "/v1/data/authz/other"}},
             {"grant": {"shape": token_file}}, {"listen": {"idle_timeout_ms": 5000, "budget_ms": 0}},
             {"upstreams": {"more": {"url": other.url}}}, {"tokens": {"leeway_s": 3}}, {"breakers": {"failures": 7}},
             {"context": {"memory_ttl_s": 7}}, {"decisions": {"max_entries": 100}}]
    stop, failed, answered = threading.Event(), [], []

    def run():
        client = daemon.client()
        while not stop.is_set():
            try:
                answer = client.send(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n").answer()
                answered.append(answer.status)
                if answer.header("connection") == "close":
                    client.close()
                    client = daemon.client()
            except (OSError, EOFError) as error:
                failed.append(repr(error))
                client = daemon.client()
            time.sleep(0.005)
        client.close()
    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    sizes = []
    for i in range(100):
        running.write(merged(base, forms[i % len(forms)]))
        running.hangup("reloaded")
        if i in (29, 99):
            sizes.append((daemon.open_fds(), daemon.rss_kib()))
    stop.set()
    for thread in threads:
        thread.join(10)
    assert failed == [] and set(answered) == {200} and len(answered) > 500
    assert sizes[1][0] <= sizes[0][0] + 4, sizes
    if not is_sanitized(harness.BIN):  # it keeps what is freed for a while
        assert sizes[1][1] <= sizes[0][1] + 2000, sizes
    assert daemon.metric("doorward_config_revision", admin=True) == 101


def test_killed_and_started_again(doorward, recorder, engine, issuer):
    """Nothing on disk or in the kernel keeps the next one from the same address; only what was in flight is lost."""
    config = settings(recorder.url, engine.url, issuer)
    daemon = doorward(config)
    daemon.wait_ready()
    stop, lost, answered = threading.Event(), [], []

    def run():
        while not stop.is_set():
            try:
                client = daemon.client()
            except OSError:
                time.sleep(0.01)
                continue  # nobody listens at the moment: not sent
            try:
                answered.append(client.send(b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").answer().status)
            except (OSError, EOFError):
                lost.append(time.monotonic())
            client.close()
            time.sleep(0.01)
    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        time.sleep(0.4)
        daemon.process.child.kill()
        daemon.process.child.wait()
        killed = time.monotonic()
        daemon.reader.join(5)
        daemon.start()
        daemon.wait()
        assert time.monotonic() - killed < 5
        assert all(at < time.monotonic() for at in lost)
    time.sleep(0.4)
    stop.set()
    for thread in threads:
        thread.join(10)
    assert set(answered) == {200} and len(answered) > 50
    assert len(lost) <= 3 * 8, "no more than what was in flight each time"


def test_without_a_file(doorward, recorder, engine, redis):
    """All of it from variables, one with a password that is no longer in the environment."""
    port = harness.free_port()
    daemon = doorward(env={"CWMS_API_URL": recorder.url + "/cwms-data", "OPA_URL": engine.url, "HOST": "127.0.0.1",
                           "PORT": port, "REDIS_URL": redis.url.replace("redis://", "redis://:secret@")},
                      arguments=["--drop-in"], port=port)
    for i in range(2):
        os.kill(daemon.process.pid, signal.SIGHUP)
        harness.eventually(lambda n=i + 1: len([x for x in list(daemon.lines) if x["event"] == "reloaded"]) == n, "reloaded")
    assert [x["changed"] for x in daemon.lines if x["event"] == "reloaded"] == [[], []]
    assert not [x for x in daemon.lines if x["event"] == "reload_partly"]
    assert daemon.curl("/health").status == 200
