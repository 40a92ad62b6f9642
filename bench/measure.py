"""How an arm is run once, and whether that counts.

A line's `rejected` is None when the run counts: all that was due was done, without an error, with as many requests at the
API (and questions to the policy engine, where that is known) as answers, and the generator was on time."""
import http.client
import subprocess
import time
import traceback

import arms
from lab import Used

PATH = "/api/things/1"
LATE_P99_US = 1000
CONNECTIONS = 32
SPARE_S = 240  # what all repetitions instead of rejected ones may take together
SHOWN = ("cpu_us", "rps", "anonymous_kib", "p50_us", "p99_us", "bytes_each", "grown_bytes")  # while it runs


class Bench:
    """A laboratory, a ledger, and how long it may take. full: True for figures that are kept."""

    def __init__(self, lab, ledger, full):
        self.lab = lab
        self.ledger = ledger
        self.full = full
        self.lines = []
        self.begun = time.monotonic()
        self.spare_s = SPARE_S if full else 0
        self.short = []  # in words: the arms of which fewer runs count than should
        self.lacking = set()  # parts with an arm of which not even half do

    def pick(self, full, quick):
        return full if self.full else quick

    def add(self, **line):
        line = self.ledger.add(dict(line, at_s=round(time.monotonic() - self.begun, 1)))
        self.lines.append(line)
        word = f"REJECTED: {line['rejected']}" if line["rejected"] else ", ".join(
            f"{key} {line[key]}" for key in SHOWN if line.get(key) is not None)
        print(f"  {line['part']}, {line['arm']}, {line['repetition'] + 1}: {word}", flush=True)
        return line

    def rotated(self, names, repetition):
        """Every repetition in another order; those that are not installed are left out."""
        names = [n for n in names if arms.there(n.split(":")[0])]
        k = repetition % len(names)
        order = names[k:] + names[:k]
        return order if repetition % 2 == 0 else order[::-1]

    def one_request(self, path=PATH, token=None, name="one"):
        return self.lab.requests([("GET", path, "Bearer " + (token or self.lab.token))], name)

    def each(self, part, names, repetitions, run, **more):
        """run(name) gives a line's values; what it raises is a rejected line. Where runs were rejected there are more
        repetitions, up to twice as many, until enough of each arm count or the time to spare is used up."""
        counted, took_s = dict.fromkeys(self.rotated(names, 0), 0), 0
        for repetition in range(2 * repetitions):
            if repetition >= repetitions:
                if min(counted.values()) >= repetitions or took_s > self.spare_s:
                    break
                self.spare_s -= took_s
            begun = time.monotonic()
            for name in self.rotated(names, repetition):
                try:
                    values = run(name)
                except (RuntimeError, OSError, ValueError, subprocess.SubprocessError, http.client.HTTPException) as error:
                    values = {"rejected": str(error) or type(error).__name__}
                except Exception as error:  # pylint: disable=broad-except  # a mistake of ours costs this run, not the part
                    traceback.print_exc()
                    values = {"rejected": f"{type(error).__name__}: {error}"}
                line = self.add(part=part, arm=name, repetition=repetition, **more, **values)
                counted[name] += not line["rejected"]
            took_s = time.monotonic() - begun
        if min(counted.values(), default=0) * 2 < repetitions:
            self.lacking.add(part)
        self.short += [f"{part}, {n}: {c} of {repetitions} runs count" for n, c in counted.items() if c < repetitions]


def why_rejected(said, seen):
    """said: bench_load's open run, or total_of a closed one; seen: requests at the API, None where they do not go there."""
    warm = said.get("warm", {"completed": 0, "errors": 0, "scheduled": 0, "status": {"2xx": 0}})
    if said["errors"] or warm["errors"] or said.get("connect_errors"):
        return f"{said['errors'] + warm['errors']} errors, {said.get('connect_errors', 0)} at connecting"
    if said["completed"] != said["scheduled"] or said.get("unfinished"):
        return f"{said['scheduled']} were due, {said['completed']} done"
    if said["status"]["2xx"] != said["completed"]:
        return f"answers were refusals: {said['status']}"
    if seen is not None and seen != said["completed"] + warm["completed"]:
        return f"{said['completed'] + warm['completed']} answers, but {seen} requests at the API"
    if said["latency"]["overflow"]:
        return f"{said['latency']['overflow']} answers took more than the histogram holds"
    if "lateness" in said and said["lateness"]["p99_us"] >= LATE_P99_US:
        return f"the generator was late: p99 {said['lateness']['p99_us'] / 1000:.1f} ms"
    return None


def must_be_judged(values):
    """Doorward's: every request at the API had a grant, else the line is rejected."""
    if not values["rejected"] and values["grants"] != values["upstream_requests"]:
        values["rejected"] = f"{values['upstream_requests']} requests at the API, but {values['grants']} grants"
    return values


def total_of(said):
    """A closed run of several stages, for why_rejected."""
    stages = said["stages"]
    total = {key: sum(s[key] for s in stages) for key in ("scheduled", "completed", "errors")}
    total["status"] = {key: sum(s["status"][key] for s in stages) for key in stages[0]["status"]}
    total["latency"] = {"overflow": sum(s["latency"]["overflow"] for s in stages)}
    total["connect_errors"] = said["connect_errors"]
    return total


# --- one run: the values of its line ---------------------------------------------------------------------------------------

def run_wrk(bench, proxy, api, seconds, path=PATH, warm_s=2):
    """The values of a line. wrk stops with requests still out, one per connection."""
    lab = bench.lab
    lab.wrk(proxy.port, path, warm_s, CONNECTIONS)
    proxy.ready()
    before = api.settled()
    with Used(proxy) as used:
        said = lab.wrk(proxy.port, path, seconds, CONNECTIONS)
    after = api.settled()
    seen = after["requests"] - before["requests"]
    rejected = said["wrk_errors"] or None
    if not rejected and not 0 <= seen - said["requests"] <= CONNECTIONS:
        rejected = f"{said['requests']} answers, but {seen} requests at the API"
    return dict(said, **used.values, config=proxy.config, upstream_requests=seen, grants=after["counted"] - before["counted"],
                rejected=rejected, cpu_us=round(used.values["cpu_s"] * 1e6 / said["requests"], 2))


def run_open(bench, proxy, api, requests, rate, seconds, warmup, connections=64):
    seen = api.settled()
    with Used(proxy) as used:
        said = bench.lab.load(proxy.port, requests, rate=rate, connections=connections, seconds=seconds, warmup=warmup)
    now = api.counters()
    done = said["completed"] + said["warm"]["completed"]
    values = {"rejected": why_rejected(said, now["requests"] - seen["requests"]), "said": said, "config": proxy.config,
              "payload": bench.lab.asked(requests), "upstream_requests": now["requests"] - seen["requests"],
              "grants": now["counted"] - seen["counted"], **used.values}
    if proxy.process and done:
        values["cpu_us"] = round(used.values["cpu_s"] * 1e6 / done, 2)
    for p in ("p50", "p95", "p99", "p999"):
        values[f"{p}_us"] = said["latency"][f"{p}_us"]
    return values


def closed(bench, proxy, api, requests, users_n, requests_n, engine=None, **options):
    """So many requests by that many users without a thought; exact in every count."""
    seen, asked = api.settled(), engine.counters() if engine else None
    with Used(proxy) as used:
        said = bench.lab.load(proxy.port, requests, stages=f"{users_n}:600", requests_n=requests_n, **options)
    stage = said["stages"][0]
    now = api.counters()
    rejected = why_rejected(total_of(said), now["requests"] - seen["requests"])
    if not rejected and stage["completed"] != requests_n:
        rejected = f"{requests_n} were wanted, {stage['completed']} done in time"
    values = {"rejected": rejected, "said": said,
              "config": proxy.config, "payload": bench.lab.asked(requests),
              "upstream_requests": now["requests"] - seen["requests"], "grants": now["counted"] - seen["counted"], **used.values,
              "rps": round(stage["completed"] / said["elapsed_s"], 1), "p50_us": stage["latency"]["p50_us"],
              "p99_us": stage["latency"]["p99_us"]}
    if engine:
        values["asked"] = engine.counters()["requests"] - asked["requests"]
    if proxy.process:
        values["cpu_us"] = round(used.values["cpu_s"] * 1e6 / max(1, stage["completed"]), 2)
    return values
