"""A path that nobody asked for yet: decided by policies in the process, or by the real OPA that has the same ones, asked over
loopback or over a UNIX socket. User and context are known."""
import json

import arms
from lab import ROOT, cpu_s
from measure import CONNECTIONS, closed

ENGINES = ("embedded", "OPA, loopback", "OPA, UNIX socket")
USER = {"id": "bench", "username": "bench", "roles": ["water_manager"], "offices": ["SWT"]}
POLICIES = {"example": ("example.authz.allow", "/api/things/{n}"), "cwms": ("cwms.authz.allow", "/timeseries/{n}?office_id=SWT")}


def policy_of(name, opa):
    """The option `policy`; opa: the base of its URL, or None for policies in the process."""
    rule = POLICIES[name][0]
    where = {"url": f"{opa}/v1/data/{rule.replace('.', '/')}"} if opa else {"path": f"{ROOT}/policies/{name}", "rule": f"data.{rule}"}
    return {"query": ["office_id"], **where}


def embedded(bench):
    """One request after the other, which says how long one takes; then as many as go, which says what one costs."""
    lab, api = bench.lab, bench.lab.api()
    profiles = lab.stub("--answer", json.dumps(USER, separators=(",", ":")))

    def run(name):
        _, policy, engine = name.split(": ")
        opa = None if engine == "embedded" else lab.opa(policy, f"{ROOT}/policies/{policy}", "UNIX" in engine)
        path = POLICIES[policy][1]
        new = lab.requests([("GET", path, "Bearer " + lab.token)], "new")
        known = bench.one_request(path.replace("{n}", "0"), name="known")
        proxy = arms.doorward(lab, api.port, policy=policy_of(policy, opa and opa.url), routes=[{"prefix": "/", "access": "authorized"}],
                              context={"url": f"http://127.0.0.1:{profiles.port}/profile"})

        def load(requests, users, count, first):
            """closed(), and what OPA used for each."""
            pids = opa.pids() if opa else []
            before = cpu_s(pids)
            values = closed(bench, proxy, api, requests, users, count, first=first)
            return values, round((cpu_s(pids) - before) * 1e6 / count, 2)

        with lab.running(proxy, path.replace("{n}", "0")):
            load(new, CONNECTIONS, 2000, 1)
            of_known, _ = load(known, 1, bench.pick(3000, 1000), 0)
            single, single_opa_us = load(new, 1, bench.pick(3000, 1000), 100000)
            values, opa_us = load(new, CONNECTIONS, bench.pick(10000, 4000), 1000000)
        return {**values, "rejected": of_known["rejected"] or single["rejected"] or values["rejected"], "opa_us": opa_us,
                "all_us": round(values["cpu_us"] + opa_us, 2), "single": single["said"], "single_p50_us": single["p50_us"],
                "single_p99_us": single["p99_us"], "single_all_us": round(single["cpu_us"] + single_opa_us, 2),
                "added_us": round(single["p50_us"] - of_known["p50_us"], 2)}

    engines = ENGINES if lab.opa_program() else ENGINES[:1]
    bench.each("embedded", [f"doorward: {policy}: {engine}" for policy in POLICIES for engine in engines], bench.pick(5, 1), run)
