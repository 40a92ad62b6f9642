"""Mixed load while every part is killed, stopped, cut off and made to lie, by chance: nothing leaks, every request is
accounted for, nothing is forwarded without an allow, and afterwards all is as before, without a hand."""
import json
import random
import signal
import statistics
import time

import harness
from account import Account
from general import is_sanitized, merged
from load import Client
from results import note
from trouble import Trouble, real_parts

MIX = {"cached": 55, "unique": 12, "public": 5, "other": 5, "denied": 5, "bad_token": 3, "bytes": 3, "late": 3, "upload": 3,
       "authorize": 4, "slow": 0.6, "websocket": 0.8}
RATE = 200
CALM_S = 10  # after the last trouble; then everything must be right
SERVED = {"denied": 403, "bad_token": 401, "websocket": 101}
NEVER = {"denied": (200, 201), "bad_token": (200, 201, 403)}
CAP = 16  # calls to the engine and to the profile API at a time: so many connections are kept to each
KIB = 1024


def config(parts):
    """Short lives and small caches, so that all that can come and go does, and small answers, so that the oversized ones
    of many calls at once do not pass for a leak."""
    return merged(parts.config(), {
        "upstream": {"url": None, "urls": [f"http://127.0.0.1:{parts.ports[link]}/cwms-data"
                                           for link in ("upstream", "upstream2")], "idle_timeout_ms": 2000},
        "upstreams": {"other": {"idle_timeout_ms": 2000}},
        "context": {"memory_ttl_s": 8, "memory_entries": 400, "max_inflight": CAP, "max_bytes": 65536},
        "decisions": {"ttl_s": 15, "max_entries": 500}, "policy": {"max_inflight": CAP, "max_response_bytes": 65536},
        "tokens": {"cache_entries": 400}, "breakers": {"max_rest_ms": 3000},
        "listen": {"idle_timeout_ms": 5000, "budget_ms": 10000}})


def sizes(daemon):
    heap = daemon.counts("doorward_process_heap_used_bytes")[""]
    return {"rss_kib": daemon.rss_kib(), "heap_kib": int(heap) // KIB, "fds": daemon.open_fds(),
            "handles": int(daemon.counts("doorward_loop_handles")[""]),
            "deadlines": int(daemon.counts("doorward_loop_deadlines")[""])}


def quiet(daemon):
    """What is left when nobody has asked for anything for a while."""
    time.sleep(7)
    return sizes(daemon)


def reload(daemon):
    """With another number in it each time, so that there is something to take over."""
    with open(daemon.config_file, encoding="utf-8") as file:
        said = json.load(file)
    said["decisions"]["ttl_s"] = 10 + (said["decisions"]["ttl_s"] + 1) % 10
    with open(daemon.config_file, "w", encoding="utf-8") as file:
        json.dump(said, file)
    daemon.process.child.send_signal(signal.SIGHUP)


def run(parts, daemon, seconds, seed):
    """(rows, what was done, sizes along the way, when all was well again)"""
    client = Client(parts, [daemon.port], MIX, rate=RATE, crowd=800, seed=seed)
    time.sleep(min(10, seconds / 6))
    more = [("flush of all caches", daemon.flush), ("rotation of keys, old ones kept", parts.rotate_keys),
            ("reload", lambda: reload(daemon))]
    trouble = Trouble(parts, real_parts(parts), seed, more=more)
    samples, end = [], time.monotonic() + seconds
    while time.monotonic() < end and not trouble.failure:
        time.sleep(min(2, seconds / 20))
        samples.append(daemon.rss_kib())
        daemon.check()
    done = trouble.end()
    well = time.monotonic()
    time.sleep(CALM_S + 5)
    return client.end(), done, samples, well


def check_memory(samples, seconds):
    """The last quarter against the second. In a short soak the worst crowd may come after the second."""
    quarter = len(samples) // 4
    early, late = statistics.median(samples[quarter:2 * quarter]), statistics.median(samples[-quarter:])
    if not is_sanitized(harness.BIN):
        assert late <= early * 1.1 + (6 if seconds >= 300 else 20) * KIB, f"{early} KiB became {late} KiB"
    return int(early), int(late)


def check_kinds(rows):
    """Trouble makes refusals, never another answer."""
    for row in rows:
        assert row.status not in NEVER.get(row.kind, ()), row
        assert row.status in (0, SERVED.get(row.kind, 200), 403, 502, 503, 504), row


def test_soak(session_parts, doorward, request):
    parts = session_parts
    seconds = request.config.getoption("--seconds") or 30
    seed = request.config.getoption("--seed") or random.randrange(1 << 30)
    print(f"seed {seed}")
    daemon = doorward(config(parts))
    daemon.wait_ready()
    Client(parts, [daemon.port], MIX, rate=RATE, seconds=3, crowd=800).end(stop=False)
    before = quiet(daemon)
    rows, done, samples, well = run(parts, daemon, seconds, seed)
    after = quiet(daemon)

    dropped = int(daemon.counts("doorward_log_lines_dropped_total").get("", 0))
    counts = daemon.counts_logged("doorward_requests_ended_total")
    account = Account(rows, [daemon.log_bytes()], parts.record)
    seen = {"seconds": seconds, "seed": seed, "rate": RATE, "requests": len(rows), "done": done,
            "status": account.by_status(), "reasons": dict(account.reasons.most_common()),
            "broken_off": len(account.lost()), "crossed": len(account.crossed()), "lines_dropped": dropped, "before": before, "after": after}
    print(json.dumps(seen), samples[::30])
    account.check_log(died=False, dropped=dropped)
    assert len(account.crossed()) <= 1 + len(rows) // 10000, account.crossed()[:5]
    account.check_metrics(counts, dropped)
    account.check_allowed()
    check_kinds(rows)
    wrong = [row for row in rows if row.began > well + CALM_S and row.status != SERVED.get(row.kind, 200)]
    assert not wrong, f"not well again after {CALM_S} s: {wrong[:5]}"
    seen["rss_kib_early"], seen["rss_kib_late"] = check_memory(samples, seconds)
    if not is_sanitized(harness.BIN):
        assert after["heap_kib"] <= before["heap_kib"] + 4 * KIB, (before, after)
    assert after["fds"] <= before["fds"] + 2 * CAP + 6, (before, after)
    assert after["handles"] <= before["handles"] + 6, (before, after)
    assert after["deadlines"] <= before["deadlines"] + 6, (before, after)
    note(request, "soak", **seen, forwarded_without_allow=0, not_accounted_for=0)
