"""Five thousand users, all caches flushed at once, all of them back in the same moment: every one is served, by a bounded
number of calls at a time and one call for each."""
import re
import time

import pytest

import harness
from account import Account
from load import Client
from results import note

USERS = 5000
# All of them stand in one queue: what a call may take is what the last of them waits.
PATIENT = {"context": {"timeout_ms": 30000}, "policy": {"timeout_ms": 30000},
           "upstream": {"connect_timeout_ms": 10000, "response_timeout_ms": 30000}, "listen": {"max_connections": 6000}}
CAP = 64


@pytest.mark.parametrize("redis", [pytest.param(True, marks=pytest.mark.long), False], ids=["with Redis", "without"])
def test_stampede(redis, parts, doorward, request):
    daemon = doorward(parts.config(**PATIENT, **({} if redis else {"redis": None})))
    daemon.wait_ready()
    warm = Client(parts, [daemon.port], {"cached": 1}, users=USERS, rate=1500).end(stop=False)
    assert {row.status for row in warm} == {200}
    for name in ("policy", "context"):
        parts.faults.stats(name)
    parts.service.stats()
    parts.service.delay_profiles(20)
    before = daemon.counts("doorward_opa_evaluations_total")

    daemon.flush()
    began = time.monotonic()
    crowd = Client(parts, [daemon.port], {"cached": 1}, users=USERS, rate=0).end(stop=False)
    took_s = time.monotonic() - began
    parts.service.delay_profiles(0)

    account = Account(crowd, [daemon.log_bytes()], parts.record)
    assert account.by_status() == {200: USERS}, account.by_status()
    account.check_log()
    account.check_allowed()
    profiles, policy, context = parts.service.stats(), parts.faults.stats("policy"), parts.faults.stats("context")
    asked = sum(daemon.counts("doorward_opa_evaluations_total").values()) - sum(before.values())
    assert profiles["profiles"] == USERS and profiles["most_of_one"] == 1, profiles
    assert asked == USERS
    assert 2 <= profiles["most_out"] <= CAP and context["most_out"] <= CAP, (profiles, context)
    assert 2 <= policy["most_out"] <= CAP + 1, policy  # and one of readiness
    text = daemon.metrics_text()
    waiting = [float(n) for n in re.findall(r"^doorward_dependency_waiting\{.*\} (\S+)$", text, re.M)]
    assert waiting and not any(waiting), "the queues are empty"
    note(request, "stampede", redis=redis, users=USERS, took_s=round(took_s, 1), status=account.by_status(),
         profile_calls=profiles["profiles"], most_profile_calls_at_once=profiles["most_out"], questions=int(asked),
         most_questions_at_once=policy["most_out"], ms=account.slowest())


def test_who_leaves_the_queue_makes_room(parts, doorward):
    """Clients that give up while they wait cost the engine nothing, and nobody else a place."""
    daemon = doorward(parts.config(policy={"max_inflight": 1, "max_waiting": 20, "timeout_ms": 5000}))
    daemon.wait_ready()
    token = parts.token("warm")

    def ask(n):
        return daemon.client().send(f"GET /timeseries/leave{n}?office=SWT HTTP/1.1\r\nHost: a\r\n"
                                    f"Authorization: Bearer {token}\r\n\r\n".encode())
    assert ask("").answer().status == 200
    parts.faults.set("policy", "answer_hang")
    gone = [ask(n) for n in range(21)]
    refused = harness.eventually(lambda: ask("more").answer(), "an answer")
    assert refused.status == 503 and refused.json["code"] == "policy_overloaded"
    for client in gone[1:]:
        client.reset()
    harness.eventually(lambda: daemon.counts("doorward_dependency_waiting")['dependency="policy"'] == 0, "all are gone")
    parts.faults.set("policy", "refuse")  # which ends the one that is out
    assert gone[0].answer().status == 503
    parts.faults.heal("policy")
    kept = [ask(f"kept{n}") for n in range(20)]
    answers = [client.answer() for client in kept]
    assert [answer.status for answer in answers] == [200] * 20, answers
