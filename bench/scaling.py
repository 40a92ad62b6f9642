"""Several workers: what a second one brings on two cores, which load, API and policy engine have to share with it.

So twice the rate cannot come of it. What can come is reckoned beside: with one worker a request takes so much CPU of the proxy
and so much of all others, and two cores have two seconds of CPU a second. Next to it a peer, with one and with two: haproxy for
a cached request, which is cheap; nginx asking each time for one that is not known, of which most is the proxy's own work."""
import arms
from lab import BOTH_CORES, Used, cpu_s
from measure import PATH, must_be_judged, total_of, why_rejected

USERS = 64  # connections: enough that the kernel spreads them over two sockets nearly evenly

ARMS = {
    "cached": {"haproxy": lambda lab, api, n: arms.haproxy(lab, api, threads=n, core=BOTH_CORES)},
    "unique": {"nginx auth_request, asked": lambda lab, api, n: arms.nginx(lab, api, "asked", workers=n, core=BOTH_CORES)},
}


def doorward(lab, api, n):
    return arms.doorward(lab, api, core=BOTH_CORES, workers=n)


def measured(bench, proxy, api, engine, requests):
    """The values of a line: what the proxy used and what the others did, per request."""
    seconds, warm_s, lab = bench.pick(4, 2), 1, bench.lab
    lab.load(proxy.port, requests, core=BOTH_CORES, stages=f"{USERS}:{warm_s}")
    proxy.ready()
    seen, stubs = api.settled(), [api.process.pid, engine.process.pid]
    stubs_s, each_s = cpu_s(stubs), [cpu_s([pid]) for pid in proxy.pids]
    with Used(proxy) as used:
        said = lab.load(proxy.port, requests, core=BOTH_CORES, stages=f"{USERS}:{seconds}", first=1000000)
    stubs_s, each_s = cpu_s(stubs) - stubs_s, [cpu_s([pid]) - was for pid, was in zip(proxy.pids, each_s)]
    now, stage, values = api.counters(), said["stages"][0], used.values
    del values["others_on_proxy_core"]  # there is none
    done = max(1, stage["completed"])
    return {"rejected": why_rejected(total_of(said), now["requests"] - seen["requests"]), "said": said, "config": proxy.config,
            "payload": lab.asked(requests), "upstream_requests": now["requests"] - seen["requests"],
            "grants": now["counted"] - seen["counted"], **values, "rps": round(stage["completed"] / said["elapsed_s"], 1),
            "p50_us": stage["latency"]["p50_us"], "p99_us": stage["latency"]["p99_us"],
            "cpu_us": round(values["cpu_s"] * 1e6 / done, 2), "load_us": round(said["cpu_s"] * 1e6 / done, 2),
            "stubs_us": round(stubs_s * 1e6 / done, 2), "processes_cpu_s": [round(s, 3) for s in each_s]}


def scaling(bench):
    """One worker and two, of ours and of a peer, with all of them on both cores."""
    lab, api, engine = bench.lab, bench.lab.api(), bench.lab.engine()
    for kind, peers in ARMS.items():
        starts = dict(peers, doorward=doorward)
        path = PATH if kind == "cached" else "/api/things/{n}"
        requests = lab.requests([("GET", path, "Bearer " + lab.token)], kind)

        def run(name, starts=starts, requests=requests):
            arm, _, n = name.rpartition(": ")
            with lab.on_both_cores([api, engine]), lab.running(starts[arm](lab, api.port, int(n))) as proxy:
                values = measured(bench, proxy, api, engine, requests)
            return must_be_judged(values) if arm == "doorward" else values

        bench.each(f"scaling {kind}", [f"{arm}: {n}" for arm in starts for n in (1, 2)], bench.pick(5, 2), run,
                   connections=USERS)
