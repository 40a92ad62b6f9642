"""policy.path: Rego evaluated in the process: the same answers, reasons and grants as by OPA, and no engine beside it."""
import json
import os
import re
import threading
import time

import pytest

import harness
from general import grant_of, merged, settings
from personas import MAY, WHAT_IF

pytestmark = pytest.mark.skipif(
    "regorus" not in harness.run_once("--version")[1], reason="built without the engine (DOORWARD_EMBEDDED_REGO)")

POLICY = """package t.authz

default other := false

first := input.request.segments[0]

decision := {"allow": true, "reason": "as it should"} if first == "yes"
decision := {"allow": false, "reason": "not you"} if first == "no"
decision := "allow" if first == "odd"
decision := clash if first == "clash"
decision := {"allow": slow} if first == "slow"
decision := now_is_now if first == "time"
decision := {"allow": long} if first == "long"

clash := true if first == "clash"
clash := false if input.action == "read"

long if {
	some i in numbers.range(1, 10000)
	some j in numbers.range(1, 10000)
	i * j < 0
}

slow if count([x | some i in numbers.range(1, 5000); some j in numbers.range(1, 5000); x := i * j]) > 0

now_is_now if abs(time.now_ns() - time.parse_rfc3339_ns(input.context.timestamp)) < 60000000000
"""
BROKEN = "package t.authz\n\ndecision := {\n"
UNKNOWN = "package t.authz\n\nother := true\n"
RULE = "data.t.authz.decision"


class Policies:
    """A folder of policies that a test writes to."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.write(POLICY)

    def write(self, text, name="authz.rego"):
        """As a careful editor does: whole or not at all."""
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(path + ".new", path)


@pytest.fixture
def policies(tmp_path):
    return Policies(tmp_path)


def embedded(recorder, issuer, path, /, **more):
    """No OPA anywhere: a URL that nobody listens at would be asked by a mistake only."""
    return settings(recorder.url, "", issuer, **merged(
        {"policy": {"url": None, "path": str(path), "rule": RULE}, "listen": {"budget_ms": 0}}, more))


@pytest.fixture(scope="module", params=[0, 2], ids=["on the loop", "2 threads"])
def running(module_doorward, recorder, issuer, tmp_path_factory, request):
    policies = Policies(tmp_path_factory.mktemp("policies"))
    return module_doorward(embedded(recorder, issuer, policies.folder, policy={"eval_limit_ms": 200, "threads": request.param},
                                    authorize={"what_if": True}))


@pytest.fixture
def proxy(running, recorder):
    recorder.reset()
    return running


def ask(daemon, path, status, code=None, **how):
    answer = daemon.curl(path, **how)
    assert answer.status == status, (path, answer.status, answer.body)
    if code:
        assert daemon.log(answer.request_id)["reason"] == code
    return answer


def events(daemon, name):
    return [x for x in list(daemon.lines) if x["event"] == name]


# --- what it says -----------------------------------------------------------------------------------------------------

def test_an_allow_and_its_grant(proxy, recorder, issuer):
    ask(proxy, "/yes/1", 200, authorization=issuer.bearer("damop"))
    grant = grant_of(recorder.last[0])
    assert grant["policy"]["reason"] == "as it should"
    ask(proxy, "/yes/1", 200, authorization=issuer.bearer("damop"))


@pytest.mark.parametrize("path, status, code", [
    ("/no", 403, "policy_denied"), ("/nothing", 403, "policy_undefined"), ("/odd", 403, "policy_malformed"),
    ("/clash", 503, "policy_failed"), ("/slow", 503, "policy_limit")])
def test_all_else_is_refused(proxy, recorder, path, status, code):
    ask(proxy, path, status, code)
    ask(proxy, path, status, code)
    assert not recorder.seen


def test_the_denials_own_reason(proxy):
    assert ask(proxy, "/no/2", 403).json["message"] == "not you"


def test_an_allow_is_remembered(proxy):
    before = proxy.metric("doorward_opa_evaluations_total", admin=True)
    for _ in range(3):
        ask(proxy, "/yes/remembered", 200)
    assert proxy.metric("doorward_opa_evaluations_total", admin=True) == before + 1
    proxy.log(ask(proxy, "/yes/remembered", 200).request_id)


def test_the_clock(proxy):
    ask(proxy, "/time", 200)


def test_a_failure_is_told_without_the_input(doorward, policies, recorder, issuer):
    daemon = doorward(embedded(recorder, issuer, policies.folder))
    ask(daemon, "/clash/secret-of-the-path", 503, "policy_failed", authorization=issuer.bearer("damop"))
    (line,) = harness.eventually(lambda: events(daemon, "policy_evaluation_failed"), "it is told")
    assert line["level"] == "warn" and re.fullmatch(r"authz\.rego:\d+:\d+", line["detail"]), line
    ask(daemon, "/slow/secret-of-the-path", 503, "policy_limit")


def test_failures_are_counted(proxy):
    ask(proxy, "/clash/counted", 503)
    ask(proxy, "/slow/counted", 503)
    assert proxy.metric("doorward_dependency_failures_total", admin=True, dependency="policy", kind="failed") > 0
    assert proxy.metric("doorward_dependency_failures_total", admin=True, dependency="policy", kind="limit") > 0
    assert proxy.metric("doorward_opa_evaluation_duration_seconds_count", admin=True, decision="error") > 0


def test_others_are_served_after_a_slow_one(proxy):
    ask(proxy, "/slow/others", 503, "policy_limit")
    ask(proxy, "/yes/others", 200)


def test_what_if(proxy):
    answer = harness.curl(proxy.admin + "/authorize", data=json.dumps(
        {"resource": "yes", "action": "read", "user": {"id": "X"}}).encode())
    assert answer.status == 200, answer


def test_ready_and_health_say_which(proxy):
    for answer in (proxy.curl("/health").json["policy"],
                   next(x for x in proxy.curl("/ready").json["dependencies"] if x["kind"] == "policy")):
        assert answer["rule"] == RULE
        assert answer["engine"].startswith("regorus ")
        assert answer["compiled"] is False, "its definitions say different things"
        assert re.fullmatch("[0-9a-f]{16}", answer["revision"])


# --- what is refused at the start ---------------------------------------------------------------------------------------

def check(config):
    return harness.run_once("--check", config=config)


@pytest.mark.parametrize("text, place", [
    (BROKEN, r"authz\.rego:\d+:\d+: "), (UNKNOWN, None),
    (POLICY.replace("count(", "no_such_function("), r"authz\.rego:\d+:\d+: ")])
def test_check_names_file_and_line(policies, recorder, issuer, text, place):
    policies.write(text)
    code, out, err = check(embedded(recorder, issuer, policies.folder))
    assert code == 78, (out, err)
    wanted = r"^policy\.path: " + re.escape(policies.folder) + "/" + place if place else r"^policy\.rule: data\.t\.authz\.decision: "
    assert re.search(wanted, err, re.M), err


def test_check_of_a_good_one(policies, recorder, issuer):
    assert check(embedded(recorder, issuer, policies.folder)) == (0, "the configuration is valid\n", "")
    assert check(embedded(recorder, issuer, os.path.join(policies.folder, "authz.rego")))[0] == 0
    assert check(embedded(recorder, issuer, "x", policy={"path": None, "url": "file:" + policies.folder}))[0] == 0


@pytest.mark.parametrize("threads", [0, 2])
def test_one_request_is_explained_without_asking_anybody(policies, recorder, issuer, threads):
    config = embedded(recorder, issuer, policies.folder, policy={"threads": threads})
    for path, code, allow in (("/yes", 0, True), ("/no", 1, False)):
        got, out, err = harness.run_once("eval", "--json", "GET", path, config=config)
        decision = json.loads(out)["decision"]
        assert (got, decision["rule"], decision["allow"]) == (code, RULE, allow), (out, err)


# --- reload -------------------------------------------------------------------------------------------------------------

def revision(daemon):
    return next(x for x in daemon.curl("/ready").json["dependencies"] if x["kind"] == "policy")["revision"]


def hangup(daemon, event):
    before = len(events(daemon, event))
    os.kill(daemon.process.pid, 1)
    harness.eventually(lambda: len(events(daemon, event)) > before, event)
    return events(daemon, event)[-1]


@pytest.mark.parametrize("workers", [1, 2])
def test_reload(doorward, policies, recorder, issuer, workers):
    """What was decided by the old policy is gone at once; a bad policy changes nothing."""
    recorder.reset()
    daemon = doorward(embedded(recorder, issuer, policies.folder, workers=workers))
    harness.eventually(lambda: events(daemon, "started"), "started")
    for _ in range(8):
        ask(daemon, "/yes", 200)
        ask(daemon, "/no", 403)
    first = revision(daemon)
    policies.write(BROKEN)
    line = hangup(daemon, "reload_refused")
    assert any("authz.rego:" in error and error.startswith("policy.path: ") for error in line["errors"])
    assert revision(daemon) == first
    for _ in range(8):
        ask(daemon, "/yes", 200)
    policies.write(POLICY.replace('"yes"', '"was-no"').replace('"no"', '"yes"'))
    line = hangup(daemon, "reloaded")
    assert line["changed"] == ["policy.path"]

    def all_follow():
        return revision(daemon) != first
    harness.eventually(all_follow, "the new revision")
    harness.eventually(lambda: all(daemon.curl("/yes").status == 403 for _ in range(16)), "all workers follow")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_changed_file_is_taken(doorward, policies, recorder, issuer, workers):
    """All or nothing, without a signal; what stands in the configuration's own file meanwhile is not looked at."""
    recorder.reset()
    daemon = doorward(embedded(recorder, issuer, policies.folder, workers=workers))
    harness.eventually(lambda: events(daemon, "started"), "started")
    with open(daemon.config_file, "a", encoding="utf-8") as file:
        file.write("not yaml: [")
    ask(daemon, "/yes", 200)
    first = revision(daemon)
    policies.write(BROKEN)
    line = harness.eventually(lambda: events(daemon, "reload_refused"), "it is refused")[0]
    assert re.match(r"policy\.path: .*authz\.rego:\d+:\d+: ", line["errors"][0]), line
    assert revision(daemon) == first
    ask(daemon, "/yes", 200)
    policies.write(POLICY.replace('"yes"', '"was-no"').replace('"no"', '"yes"'))
    line = harness.eventually(lambda: events(daemon, "reloaded"), "it is taken")[0]
    assert line["changed"] == ["policy.path"]
    harness.eventually(lambda: all(daemon.curl("/yes").status == 403 for _ in range(16)), "all workers follow")
    assert revision(daemon) != first
    assert len(events(daemon, "reload_refused")) == 1, "each state is told once"
    assert daemon.metric("doorward_config_reloads_total", admin=True, result="refused") == 1
    assert daemon.metric("doorward_config_reloads_total", admin=True, result="ok") == 1


def test_a_folder_that_goes_is_told_and_changes_nothing(doorward, policies, recorder, issuer):
    recorder.reset()
    daemon = doorward(embedded(recorder, issuer, policies.folder))
    os.rename(policies.folder, policies.folder + "-away")
    line = harness.eventually(lambda: events(daemon, "reload_refused"), "it is told")[0]
    assert "no such file or folder" in line["errors"][0] and "policy.path" in line["errors"][0]
    time.sleep(3)
    ask(daemon, "/yes", 200)
    os.rename(policies.folder + "-away", policies.folder)
    policies.write(POLICY + "# changed\n")
    harness.eventually(lambda: events(daemon, "reloaded"), "it is taken")
    assert len(events(daemon, "reload_refused")) == 1, "once"


def test_a_bundle(doorward, policies, recorder, issuer, tmp_path):
    import tarfile  # noqa: PLC0415
    recorder.reset()
    bundle = tmp_path / "bundle.tar.gz"
    with tarfile.open(bundle, "w:gz") as tar:
        tar.add(os.path.join(policies.folder, "authz.rego"), "t/authz.rego")
    daemon = doorward(embedded(recorder, issuer, bundle))
    ask(daemon, "/yes", 200)
    ask(daemon, "/no", 403, "policy_denied")


def test_data_beside_the_policy(doorward, policies, recorder, issuer):
    recorder.reset()
    policies.write('{"paths": ["a", "b"]}', "lists/data.json")
    policies.write("package t.authz\n\ndecision := input.request.segments[0] in data.lists.paths\n")
    daemon = doorward(embedded(recorder, issuer, policies.folder))
    ask(daemon, "/a", 200)
    ask(daemon, "/c", 403)


# --- on threads -----------------------------------------------------------------------------------------------------------

@pytest.fixture
def threaded(doorward, policies, recorder, issuer):
    """threaded(threads=2, ...): the options of policy."""
    def start(threads=2, workers=1, **policy):
        recorder.reset()
        daemon = doorward(embedded(recorder, issuer, policies.folder, workers=workers, policy={"threads": threads, **policy}))
        harness.eventually(lambda: events(daemon, "started"), "started")
        return daemon
    return start


def send(daemon, path):
    return daemon.client().send(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


def inflight(daemon, n):
    harness.eventually(lambda: daemon.metric("doorward_dependency_inflight", admin=True, dependency="policy") == n,
                       f"{n} questions are out")


def evaluations(daemon):
    return daemon.metric("doorward_opa_evaluations_total", admin=True)


def reason_of(daemon, answer):
    return answer.status, daemon.log(answer.request_id)["reason"]


def unanswered(client):
    client.socket.setblocking(False)
    try:
        return client.socket.recv(1) is None
    except BlockingIOError:
        return True
    finally:
        client.socket.settimeout(harness.PATIENCE_S)


def test_others_are_served_while_a_thread_evaluates(threaded):
    daemon = threaded(eval_limit_ms=6000, timeout_ms=20000)
    ask(daemon, "/yes/known", 200)
    slow = send(daemon, "/long")
    inflight(daemon, 1)
    assert daemon.curl("/health").status == 200
    ask(daemon, "/yes/known", 200)
    ask(daemon, "/yes/new", 200)  # by the other thread
    assert unanswered(slow)
    assert reason_of(daemon, slow.answer()) == (503, "policy_limit")
    inflight(daemon, 0)


@pytest.mark.parametrize("workers", [1, 2])
def test_two_hundred_questions(threaded, workers):
    daemon = threaded(workers=workers, max_inflight=8, timeout_ms=60000, eval_limit_ms=5000)
    paths = [f"/{'yes' if i % 3 else 'no'}/{i}" for i in range(200)]
    clients = [send(daemon, path) for path in paths]
    assert [client.answer().status for client in clients] == [200 if i % 3 else 403 for i in range(200)]
    assert evaluations(daemon) == 200
    inflight(daemon, 0)
    assert daemon.metric("doorward_dependency_waiting", admin=True, dependency="policy") == 0
    for client in clients:
        client.close()


def test_one_evaluation_for_equal_questions(threaded):
    daemon = threaded(eval_limit_ms=4000, timeout_ms=20000)
    clients = [send(daemon, "/long") for _ in range(50)]
    assert {reason_of(daemon, client.answer()) for client in clients} == {(503, "policy_limit")}
    assert evaluations(daemon) == 1


def test_the_line_has_an_end(threaded):
    daemon = threaded(threads=1, max_inflight=1, max_waiting=0, eval_limit_ms=6000, timeout_ms=20000)
    slow = send(daemon, "/long")
    inflight(daemon, 1)
    ask(daemon, "/yes/full", 503, "policy_overloaded")
    assert reason_of(daemon, slow.answer()) == (503, "policy_limit")
    ask(daemon, "/yes/full", 200)


def test_the_clients_time_is_policy_timeout_ms(threaded):
    """Also of who has a thread, or waits for one; the thread is free again when the evaluation ends."""
    daemon = threaded(threads=1, eval_limit_ms=3000, timeout_ms=200)
    slow, behind = send(daemon, "/long"), send(daemon, "/yes/behind")
    for client in (slow, behind):
        assert reason_of(daemon, client.answer()) == (504, "policy_timeout")
    harness.eventually(lambda: daemon.curl("/yes/after").status == 200, "the thread is free")
    assert daemon.metric("doorward_dependency_failures_total", admin=True, dependency="policy", kind="resting") == 0


def test_a_client_that_goes(threaded):
    daemon = threaded(threads=1, eval_limit_ms=4000, timeout_ms=20000)
    slow = send(daemon, "/long")
    inflight(daemon, 1)
    waiting = send(daemon, "/yes/goes")
    inflight(daemon, 2)
    waiting.reset()
    inflight(daemon, 1)  # what it waited for is not evaluated
    slow.reset()
    inflight(daemon, 0)  # what a thread has is, and counted
    assert evaluations(daemon) == 1
    ask(daemon, "/yes/stays", 200)
    assert evaluations(daemon) == 2


def test_reloads_under_load(threaded, policies):
    daemon = threaded(eval_limit_ms=3000, timeout_ms=20000)
    stop, wrong, answered = threading.Event(), [], [0]

    def run(name):
        client, i = daemon.client(), 0
        while not stop.is_set():
            i += 1
            client.send(f"GET /yes/{name}/{i} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            answer = client.answer()
            answered[0] += 1
            if answer.status != 200:
                wrong.append(answer)
        client.close()
    slow = send(daemon, "/long")
    inflight(daemon, 1)
    others = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for other in others:
        other.start()
    for i in range(5):
        policies.write(POLICY + f"# {i}\n")
        hangup(daemon, "reloaded")
    assert reason_of(daemon, slow.answer()) == (503, "policy_limit")  # as it began
    slow.close()
    stop.set()
    for other in others:
        other.join()
    assert not wrong, wrong[:3]
    assert answered[0] > 10
    inflight(daemon, 0)


def test_threads_come_and_go_by_a_reload(threaded):
    daemon = threaded(threads=0)
    ask(daemon, "/yes", 200)
    with open(daemon.config_file, encoding="utf-8") as file:
        config = json.load(file)
    for threads in (3, 1, 0, 2):
        config["policy"]["threads"] = threads
        with open(daemon.config_file, "w", encoding="utf-8") as file:
            json.dump(config, file)
        assert hangup(daemon, "reloaded")["changed"] == ["policy.threads"]
        ask(daemon, "/yes", 200)
        ask(daemon, "/slow", 503, "policy_limit")


def test_told_to_end_while_threads_evaluate(threaded):
    """All are answered first."""
    daemon = threaded(eval_limit_ms=4000, timeout_ms=30000)
    clients = [send(daemon, path) for path in ("/long/1", "/long/2", "/yes/1", "/no/1")]
    inflight(daemon, 4)
    os.kill(daemon.process.pid, 15)
    assert [client.answer().status for client in clients] == [503, 503, 200, 403]
    harness.eventually(lambda: not daemon.process.alive(), "it ended")
    daemon.ended_as_told()
    assert events(daemon, "ended")[0]["detail"] == "drained"


def test_told_to_end_with_an_evaluation_for_nobody(threaded):
    """Its end is not waited for: the thread is left where it is."""
    daemon = threaded(eval_limit_ms=60000, timeout_ms=60000)
    slow = send(daemon, "/long")
    inflight(daemon, 1)
    slow.reset()
    harness.eventually(lambda: [x for x in list(daemon.lines) if x.get("path") == "/long"], "it is gone")
    daemon.stop()


# --- beside the real OPA --------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def pair(module_doorward, session_api, opa):
    """The drop-in twice: with OPA, and with the same policies in the process."""
    def start(more):
        port = harness.free_port()
        daemon = module_doorward(env={"CWMS_API_URL": session_api.url, "HOST": "127.0.0.1", "PORT": port,
                                      "DOORWARD_AUTHORIZE_WHAT_IF": "true", **more}, port=port)
        daemon.wait_ready()
        return daemon
    return (start({"OPA_URL": opa.url}),
            start({"OPA_URL": "http://127.0.0.1:9", "DOORWARD_POLICY_PATH": os.path.join(harness.ROOT, "policies", "cwms"),
                   "DOORWARD_POLICY_RULE": "data.cwms.authz.allow"}))


def seen_by_the_api(api, answer):
    """The grant without what is chance and time."""
    if answer.status != 200:
        return None
    header = next(v for k, v in api.forwarded()[-1]["headers"].items() if k.lower() == "x-cwms-auth-context")
    return {k: v for k, v in json.loads(header).items() if k not in ("timestamp", "policy")} | {
        "policy": {k: v for k, v in json.loads(header).get("policy", {}).items() if k != "decision_id"}}


def test_the_same_answers_and_grants_as_by_opa(pair, api, issuer):
    bearers = {}
    allowed = 0
    for user, method, query, _ in MAY:
        if user and user not in bearers:
            bearers[user] = issuer.bearer(user)
        outcomes = []
        for daemon in pair:
            answer = daemon.curl("/cwms-data/timeseries" + (query and "?" + query), method=method,
                                 authorization=bearers.get(user), data=b"{}" if method in ("POST", "PUT", "PATCH") else None)
            outcomes.append((answer.status, seen_by_the_api(api, answer)))
        assert outcomes[0] == outcomes[1], (user, method, query)
        allowed += outcomes[0][0] == 200
    assert allowed > 10


def test_the_same_answers_to_what_if_questions(pair):
    now = time.time_ns()

    def at(values):
        return {k: now + v if k.endswith("_ns") else v for k, v in values.items()}
    for name, user, resource, action, context, allow in WHAT_IF:
        outcomes = []
        for daemon in pair:
            answer = daemon.curl("/authorize", data=json.dumps(
                {"resource": resource, "action": action, "user": at(user), "context": at(context)}).encode())
            assert answer.status == 200, (name, answer)
            outcomes.append({k: v for k, v in answer.json.items() if k != "timestamp"} | {
                "decision": {k: v for k, v in answer.json["decision"].items() if k != "decision_id"}})
        assert outcomes[0] == outcomes[1], name
        assert outcomes[0]["decision"]["allow"] is allow, name
