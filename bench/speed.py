"""How fast: what a warm authorized request costs and what its user waits for, next to the peers."""
import json
import subprocess

import arms
from lab import memory_kib
from measure import CONNECTIONS, PATH, closed, must_be_judged, run_open, run_wrk

# --- what a request costs: closed loop, CPU --------------------------------------------------------------------------

def cost(bench):
    """A cached authorized GET, next to what the peers take."""
    api = bench.lab.api()
    names = ["haproxy", "nginx", "nginx auth_request", "nginx auth_request, cached", "caddy forward_auth", "doorward"]
    if bench.full:
        names += ["doorward, access log"]

    def run(name):
        with bench.lab.running(arms.ARMS[name](bench.lab, api.port)) as proxy:
            values = run_wrk(bench, proxy, api, bench.pick(5, 3), warm_s=bench.pick(2, 1))
        return must_be_judged(values) if name.startswith("doorward") else values

    bench.each("cost", names, bench.pick(5, 3), run, connections=CONNECTIONS, answer_bytes=1024, path=PATH)


CHAIN = {  # each step has what the one before has, and one thing more
    "nothing": {"access": "public"},
    "+ token": {"access": "authenticated"},
    "+ context": {"access": "authenticated", "profiles": True},
    "+ decision": {"access": "authorized", "profiles": True},
    "+ access log": {"access": "authorized", "profiles": True, "log": True},
}


def start_chain(bench, name, api):
    options = dict(CHAIN[name])
    if options.pop("profiles", False):
        options["context"] = {"url": f"http://127.0.0.1:{bench.lab.profiles().port}/profile", "memory_ttl_s": 3600}
    return arms.doorward(bench.lab, api.port, **options)


def chain(bench):
    """What each step of a request adds: CPU in a closed loop, and waiting at 2000/s."""
    api, requests = bench.lab.api(), bench.one_request()
    names = [f"doorward: {step}" for step in CHAIN]

    def run(name):
        with bench.lab.running(start_chain(bench, name.split(": ")[1], api)) as proxy:
            return run_wrk(bench, proxy, api, bench.pick(4, 2), warm_s=1)

    def run_waiting(name):
        with bench.lab.running(start_chain(bench, name.split(": ")[1], api)) as proxy:
            return run_open(bench, proxy, api, requests, 2000, bench.pick(4, 2), 1)

    bench.each("chain", names, bench.pick(5, 2), run, connections=CONNECTIONS)
    bench.each("chain wait", names, bench.pick(5, 2), run_waiting, rate=2000, connections=64)


# --- what a user waits for: fixed arrivals -----------------------------------------------------------------------------

def open_arm(bench, name, api, requests, rate, seconds, warmup, connections):
    with bench.lab.running(arms.ARMS[name](bench.lab, api.port)) as proxy:
        values = run_open(bench, proxy, api, requests, rate, seconds, warmup, connections)
    return must_be_judged(values) if name.startswith("doorward") else values


def wait(bench):
    """Direct and through each proxy, in the same repetition, at fixed rates."""
    api, requests = bench.lab.api(), bench.one_request()
    for rate in (2000, 8000):
        names = ["direct", "haproxy", "doorward"]
        if bench.full:
            names += ["nginx", "nginx auth_request"] if rate == 2000 else ["nginx"]
        bench.each(f"wait {rate}", names, bench.pick(5, 3),
                   lambda name, r=rate: open_arm(bench, name, api, requests, r, bench.pick(7, 3), bench.pick(1.5, 1), 64),
                   rate=rate, connections=64)


def trial(bench):
    """A router's published trials: 10,000 arrivals a second, 256 sockets, an API of 1 ms, a fresh process each time."""
    api, requests = bench.lab.api(delay_us=1000), bench.one_request()
    bench.each("trial", ["direct", "haproxy", "doorward"], bench.pick(5, 3),
               lambda name: open_arm(bench, name, api, requests, 10000, bench.pick(15, 3), bench.pick(5, 1), 256),
               rate=10000, connections=256, delay_us=1000)


def sustained(bench):
    """The same for 60 s, with full authorization: does it grow? All sockets are busy at once before, as they are whenever the machine
    stops for a moment: what that takes is kept, and is no growth."""
    api, requests = bench.lab.api(delay_us=1000), bench.one_request()

    def run(_name):
        with bench.lab.running(arms.doorward(bench.lab, api.port)) as proxy:
            closed(bench, proxy, api, requests, 256, bench.pick(50000, 20000))
            before = memory_kib(proxy.pids)[1]
            values = run_open(bench, proxy, api, requests, 10000, bench.pick(60, 6), 1, 256)
        return dict(must_be_judged(values), anonymous_before_kib=before)

    bench.each("sustained", ["doorward"], 1, run, rate=10000, connections=256, delay_us=1000)


# --- without sockets ---------------------------------------------------------------------------------------------------

def micro(bench):
    """The pieces of a request in this process."""
    program = f"{bench.lab.programs}/bench_micro"
    listed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    for repetition in range(bench.pick(5, 3)):
        for name in (line.split()[0] for line in listed.splitlines()):
            done = subprocess.run(["taskset", "-c", "1", program, name, "2000"], capture_output=True, text=True, check=True)
            said = json.loads(done.stdout)
            bench.add(part="micro", arm=name, repetition=repetition, rejected=None, what=said["what"], said=said["time"],
                      p50_us=said["time"]["p50_us"], p99_us=said["time"]["p99_us"])
