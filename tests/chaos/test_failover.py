"""What has a second one fails over under load: no request fails for Redis' sake, and for the API's sake only what was on
its way to the member that died."""
import signal
import threading
import time

import pytest

import harness
from account import Account
from general import merged
from load import Client
from redis_modes import Cluster, Sentinels
from results import note

RATE = 200
MIX = {"cached": 70, "unique": 10, "public": 5, "denied": 5, "bad_token": 2, "bytes": 3, "late": 3, "authorize": 2}
EXPECTED = {"denied": 403, "bad_token": 401}
# Contexts are forgotten at once, so that each request looks into Redis; the machine may be busy.
PATIENT = {"context": {"memory_ttl_s": 0, "timeout_ms": 5000}, "policy": {"timeout_ms": 5000},
           "upstream": {"connect_timeout_ms": 3000, "response_timeout_ms": 8000}, "serve": {"probe_interval_ms": 500}}


def wrong_ones(rows):
    return [row for row in rows if row.status != EXPECTED.get(row.kind, 200)]


def told(account, request, what, rows, **more):
    account.check_log(died=False)
    account.check_allowed()
    note(request, what, rate=RATE, requests=len(rows), status=account.by_status(),
         failed=len(wrong_ones(rows)), lost=len(account.lost()), ms=account.slowest(["cached"]), **more)


@pytest.mark.parametrize("mode, how", [
    ("sentinel", "killed"), pytest.param("sentinel", "hung", marks=pytest.mark.long), ("cluster", "killed")])
def test_redis_fails_over(mode, how, parts, doorward, request):
    """Its requests go on with the profile API meanwhile, and none of them fails."""
    group = Sentinels() if mode == "sentinel" else Cluster()
    try:
        said = {"url": f"redis://{group.name}", "sentinels": group.addresses} if mode == "sentinel" else \
            {"url": f"redis://{group.nodes[0].address}", "cluster": True, "nodes": group.addresses[1:]}
        daemon = doorward(merged(parts.config(), {**PATIENT, "redis": {**said, "timeout_ms": 200}}))
        daemon.wait_ready()
        client = Client(parts, [daemon.port], MIX, rate=RATE, crowd=200)
        time.sleep(3)
        old = group.kill_master() if how == "killed" else group.pause_master()
        began = time.monotonic()
        new = group.failed_over(old)
        agreed = time.monotonic()

        def used():
            keys = new.command("DBSIZE")
            new.command("FLUSHDB")
            return keys > 0
        new.command("FLUSHDB")
        harness.eventually(used, "the new master is written to")
        again = time.monotonic()
        time.sleep(2)
        group.revive()
        time.sleep(3)
        rows = client.end()
        account = Account(rows, [daemon.log_bytes()], parts.record)
        assert not wrong_ones(rows), wrong_ones(rows)[:5]
        told(account, request, f"Redis by {mode}: the master {how}", rows,
             seconds_until_another_was_named=round(agreed - began, 1), seconds_until_it_was_used=round(again - agreed, 1))
    finally:
        group.stop()


def test_a_member_of_the_api_dies(parts, doorward, request):
    """Of two members one is killed and revived, three times: what was on its way to it may fail, nothing else."""
    config = merged(parts.config(), {**PATIENT, "upstream": {
        **PATIENT["upstream"], "url": None,
        "urls": [f"http://127.0.0.1:{service.port}/cwms-data" for service in (parts.service, parts.second)]},
        "context": {"memory_ttl_s": 60, "timeout_ms": 5000}})
    daemon = doorward(config)
    daemon.wait_ready()
    client = Client(parts, [daemon.port], MIX, rate=RATE, crowd=200)
    kills = []
    for _ in range(3):
        time.sleep(2)
        kills.append(time.monotonic())
        parts.second.kill()
        time.sleep(2)
        parts.second.start()
    time.sleep(3)
    began = time.monotonic()
    time.sleep(3)
    rows = client.end()
    account = Account(rows, [daemon.log_bytes()], parts.record)
    failed = wrong_ones(rows)
    on_its_way = [row for row in failed if any(row.began <= kill + 0.2 and row.began + row.ms / 1000 >= kill - 0.1
                                               for kill in kills)]
    assert len(failed) == len(on_its_way), [row for row in failed if row not in on_its_way][:5]
    assert {row.status for row in failed} <= {502, 0}
    members = {arrived[3] for row in rows if row.began > began for arrived in account.forwarded.get(row.id, ())}
    assert members == {"a", "b"}, "the revived one is used again"
    told(account, request, "a member of the API killed", rows, killed=len(kills),
         sent_again=int(sum(daemon.counts("doorward_upstream_retries_total").values())))


def test_the_engine_dies(parts, doorward, request):
    """Decisions in memory go on; others are refused at once or in time; afterwards it is asked again, without a hand."""
    daemon = doorward(merged(parts.config(), {**PATIENT, "context": {"memory_ttl_s": 60, "timeout_ms": 5000}}))
    daemon.wait_ready()
    Client(parts, [daemon.port], {"cached": 1}, users=200, rate=300, crowd=200).end(stop=False)
    client = Client(parts, [daemon.port], {**MIX, "late": 0, "bytes": 0, "denied": 0, "authorize": 0}, rate=RATE,
                    crowd=200)
    time.sleep(1)
    parts.opa.process.end(signal.SIGKILL)
    time.sleep(3)
    parts.opa.start()
    back = time.monotonic()
    time.sleep(6)
    rows = client.end()
    account = Account(rows, [daemon.log_bytes()], parts.record)
    failed = wrong_ones(rows)
    assert {row.kind for row in failed} <= {"unique"} and {row.status for row in failed} <= {503}, account.by_kind()
    late = [row for row in failed if row.began > back + 3]
    assert failed and not late, late[:5]
    told(account, request, "the policy engine killed", rows, killed=1)


def test_keys_rotate(parts, doorward, request):
    """The issuer changes its keys while tokens of the old and of the new ones are used: none of either fails."""
    daemon = doorward(merged(parts.config(), PATIENT))
    daemon.wait_ready()
    client = Client(parts, [daemon.port], MIX, rate=RATE, crowd=200)
    time.sleep(2)
    parts.rotate_keys()
    answers, lock = [], threading.Lock()

    def newcomer(n):
        token = parts.issuer.token(f"new-{n}", algorithm="ES256")
        got = daemon.client().send(f"GET /timeseries/a?office=SWT HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}"
                                   f"\r\n\r\n".encode()).answer()
        with lock:
            answers.append(got.status)
    crowd = [threading.Thread(target=newcomer, args=(n,)) for n in range(40)]
    parts.faults.stats("issuer")
    for one in crowd:
        one.start()
    for one in crowd:
        one.join(20)
    assert answers == [200] * 40
    assert parts.faults.stats("issuer")["requests"] == 1, "one fetch for all who came with the new key"
    time.sleep(2)
    rows = client.end()
    assert not wrong_ones(rows), wrong_ones(rows)[:5]
    told(Account(rows, [daemon.log_bytes()], parts.record), request, "keys rotated", rows, newcomers=40,
         fetches_of_keys=1)
