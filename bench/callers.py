"""Who calls: users as in the reference's own scenarios, and callers of whom nothing is known yet."""
import json

import arms
from lab import PROXY_CORE, SECRET, Used, hmac_token
from measure import CONNECTIONS, PATH, closed, total_of, why_rejected

# --- the reference's scenarios: users who think ------------------------------------------------------------------------

THINK_MS = {"uncached": 500}  # else 100


def scenario_requests(bench, scenario):
    lab = bench.lab
    bearer = "Bearer " + lab.token
    if scenario == "health":
        return lab.requests([("GET", "/health")], "health")
    if scenario == "authorize":
        body = json.dumps({"resource": "things", "action": "read", "jwt_token": lab.token}, separators=(",", ":"))
        return lab.requests([("POST", "/authorize", "", body)], "authorize")
    if scenario == "cached":
        return lab.requests([("GET", PATH, bearer)], "cached")
    return lab.requests([("GET", "/api/things/{n}", bearer)], "uncached")


def users(bench):
    """5, 20, 50 and then 1000 users, each thinking for a while: /health, /authorize, an authorized GET that is known or not."""
    api = bench.lab.api()
    ramp, hold = bench.pick((1, 2.5), (0.5, 1.3))
    counts = [5, 20, 50, 1000]
    stages = ",".join(f"{n}:{ramp},{n}:{hold}" for n in counts)

    def run(name):
        arm, scenario = name.split(": ")
        requests = scenario_requests(bench, scenario)
        proxy = arms.direct(bench.lab, api.port) if arm == "direct" else arms.doorward(
            bench.lab, api.port, serve={"public_endpoints": True, "probe_interval_ms": 3600000})
        with bench.lab.running(proxy):
            seen = api.counters()["requests"]
            with Used(proxy) as used:
                said = bench.lab.load(proxy.port, requests, stages=stages, think_ms=THINK_MS.get(scenario, 100))
            seen = api.counters()["requests"] - seen if scenario in ("cached", "uncached") else None
        total = total_of(said)
        held = [dict(said["stages"][i], rps=round(said["stages"][i]["completed"] / hold, 1))
                for i in range(1, len(said["stages"]), 2)]
        return {"think_ms": THINK_MS.get(scenario, 100), "rejected": why_rejected(total, seen), "stages": held,
                "config": proxy.config, "payload": bench.lab.asked(requests), **used.values,
                "cpu_us": round(used.values["cpu_s"] * 1e6 / max(1, total["completed"]), 2)}

    names = [f"{arm}: {s}" for s in ("health", "authorize", "cached", "uncached") for arm in ("direct", "doorward")
             if arm == "doorward" or s == "cached"]  # the API has no /health, and all its URLs are alike
    bench.each("users", names, bench.pick(5, 1), run)


# --- what is not known yet ---------------------------------------------------------------------------------------------

POLICY = "package bench\n\nallow if {\n\tinput.user.id == \"bench\"\n\tinput.action == \"read\"\n}\n"


def unique(bench):
    """Each URL is a new one: a question to the policy engine each time. With a stub that says yes, and with the real OPA."""
    lab, api, engine = bench.lab, bench.lab.api(), bench.lab.engine()
    requests = lab.requests([("GET", "/api/things/{n}", "Bearer " + lab.token)], "unique")
    opa = lab.opa("bench", lab.write("bench.rego", POLICY))

    def run(name):
        asks_stub = name != "doorward, OPA"
        start = arms.ARMS.get(name) or (lambda lab, port: arms.doorward(lab, port, policy={"url": opa.url + "/v1/data/bench/allow"}))
        with lab.running(start(lab, api.port)) as proxy:
            closed(bench, proxy, api, requests, CONNECTIONS, 2000)
            values = closed(bench, proxy, api, requests, CONNECTIONS, bench.pick(30000, 10000), engine if asks_stub else None,
                            first=1000000)
        if asks_stub and not values["rejected"] and values["asked"] != values["upstream_requests"]:
            values["rejected"] = f"{values['upstream_requests']} requests, but {values['asked']} questions"
        return values

    names = ["nginx auth_request, asked", "caddy forward_auth", "doorward"] + (["doorward, OPA"] if opa else [])
    bench.each("unique", names, bench.pick(5, 2), run, connections=CONNECTIONS)


def miss(bench):
    """Our own part of a miss: a user, context and decision that nobody knows yet. Engine and profiles answer at once; what a
    call to them takes by itself, from the proxy's core, is measured beside it."""
    lab, api, count = bench.lab, bench.lab.api(), bench.pick(4000, 1000)
    lines = [("GET", PATH, "Bearer " + hmac_token(iss="many", sub=f"u{i}")) for i in range(count + 500)]
    requests = {"unknown": lab.requests(lines, "unknown"), "known": lab.requests(lines[:1], "known"),
                "a call": lab.requests([("POST", "/v1/data/bench/allow", "", '{"input":{}}')], "call")}

    def run(name):
        if name == "a call":
            return closed(bench, arms.direct(lab, lab.engine().port), lab.engine(), requests[name], 1, count, core=PROXY_CORE)
        config = {"context": {"url": f"http://127.0.0.1:{lab.profiles().port}/profile"},
                  "tokens": {"issuers": [arms.issuer(lab), arms.issuer(lab, "many", SECRET)]}}
        with lab.running(arms.doorward(lab, api.port, **config)) as proxy:
            closed(bench, proxy, api, requests[name], 1, 500)
            return closed(bench, proxy, api, requests[name], 1, count, first=500)

    bench.each("miss", ["doorward: known", "doorward: unknown", "direct: a call"], bench.pick(5, 3),
               lambda name: run(name.split(": ")[1]))
