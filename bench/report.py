"""The report: Markdown and plots, from the ledger alone. In the file it stands between two marks; what is written around them
stays. By hand: bench/report.py [LEDGER [REPORT]]"""
import os
import sys
import traceback

import histogram
import ledger as ledger_of
import plot
from figures import PERCENTILES, Figures, median, spread
from verdicts import HEAD, Verdicts, show, worst

HERE = os.path.dirname(os.path.abspath(__file__))
BEGIN, END = "<!-- measured: from here to the other mark by bench/report.py -->", "<!-- measured: end -->"
REFERENCE_UNIQUE_RPS, REFERENCE_CPU_US = 1660, 127  # measured once, elsewhere: it is not among the arms


def table(head, rows):
    line = "| " + " | ".join(head) + " |\n|" + "---|" * len(head) + "\n"
    return line + "".join("| " + " | ".join(str(cell) for cell in row) + " |\n" for row in rows) + "\n"


def _share(f, arm):
    """How much of its core the proxy used."""
    return median(sorted(line["cpu_s"] / line["used_s"] for line in f.of("cost", arm) if line.get("used_s")))


def rate_on_one_core(f, base, least):
    """values, limit, form and note for Verdicts.add: nothing is said of a rate that load and API kept down."""
    ratios, share = f.ratios("cost", "doorward", base, "rps"), _share(f, "doorward")
    if ratios and median(ratios) < least and share is not None and share < 0.95:
        return ratios, None, "{:.2f}", f"the proxy used {share:.0%} of its core: load and API, on the other, were the narrow place"
    return ratios, least, "{:.2f}", ""


# --- each part: its text, and what it says of the goals ----------------------------------------------------------------

def cost(f, v, plots):
    ours = f.values("cost", "doorward", "cpu_us")
    for base, limit in (("haproxy", 1.0), ("nginx", 0.75), ("nginx auth_request", 0.6)):
        ratios = f.ratios("cost", "doorward", base)
        over = base == "haproxy" and ratios and median(ratios) > 1.25
        v.add("1", f"CPU per request ÷ {base}", ratios, limit, note="over 1.25: not done" if over else "")
    v.add("1", "CPU per request ÷ the reference's", [us / REFERENCE_CPU_US for us in ours], 0.25,
          note=f"against {REFERENCE_CPU_US} µs, published: not measured in this run")
    for base, least in (("haproxy", 1.0), ("nginx", 1 / 0.75), ("nginx auth_request", 1 / 0.6)):
        v.add("1", f"req/s on one core ÷ {base}", *rate_on_one_core(f, base, least), least=True)
    rows, shown = [], []
    for arm in f.arms("cost"):
        values = f.values("cost", arm, "cpu_us")
        if not values:
            rows.append((arm, "no run counts") + ("",) * 7)
            continue
        shown.append((arm, median(values), values[0], values[-1], arm.startswith("doorward")))
        rows.append((arm, spread(values), f"{f.median('cost', arm, 'rps'):,.0f}",
                     f"{_share(f, arm):.0%}",
                     spread(f.values("cost", arm, "kernel_share"), "{:.0%}"),
                     f"{f.median('cost', arm, 'rss_kib') / 1024:.1f}", spread(f.ratios("cost", arm, "haproxy"), "{:.2f}"), spread(f.ratios("cost", arm, "nginx"), "{:.2f}")))
    if shown:
        plots["cost"] = plot.bars("CPU of a cached authorized GET, µs (range)", sorted(shown, key=lambda row: row[1]))
    return ("### What a request costs\n\nA cached authorized GET, 1 KiB answer, closed loop, 32 connections, one core; median "
            "(range); the ratios are of pairs in the same repetition. Where a proxy does not use all of its core, load and API "
            "were the narrow place, and its req/s say nothing.\n\n" +
            table(["", "CPU µs/req", "req/s", "of its core", "in the kernel", "RSS MB", "CPU ÷ haproxy", "÷ nginx"], rows))


def waiting(f, v, plots, part, title):
    rows = []
    for arm in f.arms(part):
        cells = [spread(f.added(part, arm, f"{p}_us") if arm != "direct" else f.values(part, arm, f"{p}_us"), "{:.0f}")
                 for p in PERCENTILES]
        rows.append((arm if arm != "direct" else "direct (whole, not added)", *cells, len(f.of(part, arm))))
    series = {}
    for arm in f.arms(part):
        lines = f.of(part, arm)
        if lines:
            merged = histogram.merged([line["said"]["latency"] for line in lines])
            series[arm] = [(i, histogram.quantile_us(merged, q)) for i, q in enumerate((0.5, 0.9, 0.95, 0.99, 0.999))]
    if series:
        plots[part.replace(" ", "-")] = plot.lines(f"Latency from the due time, µs: {title}", series,
                                                   ["p50", "p90", "p95", "p99", "p99.9"])
    return f"{title}: added µs over direct, median (range)\n\n" + table(["", *PERCENTILES, "runs that count"], rows)


def wait(f, v, plots):
    text = "### What a user waits\n\nFixed arrivals, latency from the moment a request was due; direct and proxied in the same " \
           "repetition. Added is the difference of the two percentiles, not a percentile of differences.\n\n"
    for rate in (2000, 8000):
        for p in PERCENTILES:
            v.add("2", f"added {p} at {rate}/s, µs", f.added(f"wait {rate}", "doorward", f"{p}_us"),
                  median(f.added(f"wait {rate}", "haproxy", f"{p}_us")), "{:.0f}", "haproxy's in the same run",
                  part=f"wait {rate}")
    v.add("published", "overhead: added p50 at 2000/s, ms", _ms(f.added("wait 2000", "doorward", "p50_us")), 0.2, "{:.3f}",
          part="wait 2000")
    for part in f.parts("wait "):
        rate = part.split()[1]
        text += waiting(f, v, plots, part, f"{rate} a second, 64 connections")
    return text


def _ms(us):
    return [value / 1e3 for value in us]


def trial(f, v, plots):
    added = f.added("trial", "doorward", "p95_us")
    theirs = f.added("trial", "haproxy", "p95_us")
    v.add("published", "trial: added p95, the worst trial, ms", _ms(added), 0.5, "{:.3f}", pick=worst)
    v.add("published", "trial: added p95, ms", _ms(added), median(theirs) / 1e3 if theirs else None, "{:.3f}",
          "haproxy's in the same run")
    lines = f.of("sustained", "doorward")
    grown = sorted(line["anonymous_kib"] - line["anonymous_before_kib"] for line in lines)
    v.add("published", "trial: RSS after 60 s of it, MB", sorted(line["rss_kib"] / 1024 for line in lines), 32, "{:.1f}",
          part="sustained")
    v.add("published", "trial: grown meanwhile, KiB", grown, 256, "{:.0f}", part="sustained")
    text = "### A router's trials\n\n10,000 arrivals a second, 256 sockets, an API of 1 ms, a fresh process each time, full " \
           "authorization (published: added p95 0.70–1.08 ms).\n\n" + waiting(f, v, plots, "trial", "10,000 a second, 1 ms API")
    for line in f.of("sustained", "doorward"):
        grown = line["anonymous_kib"] - line["anonymous_before_kib"]
        text += f"Sustained for {line['said']['seconds']:.0f} s: p95 {line['p95_us'] / 1000:.2f} ms, RSS " \
                f"{line['rss_kib'] / 1024:.1f} MB, anonymous memory grew by {grown} KiB (published: 2.29 ms, 427 MB).\n\n"
    return text


def users(f, v, plots):
    rows, series = [], {}
    for arm in f.arms("users"):
        for i, first in enumerate(f.of("users", arm)[0]["stages"] if f.of("users", arm) else []):
            stages = [line["stages"][i] for line in f.of("users", arm)]
            rps = median(sorted(s["rps"] for s in stages))
            series.setdefault(arm, []).append((first["users"], rps))
            rows.append((arm, first["users"], f"{rps:,.0f}",
                         *(f"{median(sorted(s['latency'][f'{p}_us'] for s in stages)) / 1000:.2f}" for p in PERCENTILES),
                         sum(s["errors"] for s in stages),
                         spread(f.values("users", arm, "cpu_us") if arm.startswith("doorward") else []),
                         spread([kib / 1024 for kib in f.values("users", arm, "rss_kib")])))
    if series:
        plots["users"] = plot.lines("Requests a second as users come", series)
    for scenario in ("health", "authorize", "cached", "uncached"):
        arm = f"doorward: {scenario}"
        points = dict(series.get(arm, []))
        think = f.of("users", arm)[0]["think_ms"] if points else 100
        v.add("published", f"overhead: {scenario}, of what 1000 thinking users can ask for",
              points[1000] / (1000 / think * 1000) if 1000 in points else None, 0.95, least=True,
              note="no run counts that had an error; the reference levels off at 180 req/s")
    return "### The reference's scenarios\n\nUsers who think 100 ms between requests (uncached: 500 ms), 5, 20, 50, then 1000; " \
           "latencies in ms; CPU and memory are of the whole way, all users together.\n\n" + table(
               ["", "users", "req/s", *PERCENTILES, "errors", "CPU µs/req", "RSS MB"], rows)


NOT_SEEN_US = 10


def chain(f, v, plots):
    steps = ["nothing", "+ token", "+ context", "+ decision", "+ access log"]
    rows = []
    for before, step in zip([None, *steps], steps):
        arm, base = f"doorward: {step}", f"doorward: {before}"
        more = f.pairs("chain", arm, base, "cpu_us", lambda a, b: a - b) if before else []
        slower = f.pairs("chain wait", arm, base, "p95_us", lambda a, b: a - b) if before else []
        rows.append((step, spread(f.values("chain", arm, "cpu_us")), spread(more),
                     spread(f.values("chain wait", arm, "p95_us"), "{:.0f}"), spread(slower, "{:.0f}")))
        if before:
            v.add("published", f"chain: {step}, µs CPU more", more, 3, "{:.1f}")
            v.add("published", f"chain: {step}, µs more at p95, 2000/s", slower, NOT_SEEN_US, "{:.0f}", part="chain wait",
                  note=f"no visible p95: {NOT_SEEN_US} µs cannot be told from chance here")
    v.cannot("published", "chain: + tracing, µs CPU more", "at most 3.0", "there is none: `traceparent` passes through")
    v.cannot("published", "chain: CPU with export ÷ without", "at most 1.05", "spans are not exported")
    return "### What each step adds\n\nOne process for each; CPU per request in a closed loop, p95 at 2000/s.\n\n" + table(
        ["", "CPU µs/req", "more than before", "p95 µs", "more than before"], rows) + \
        "Tracing is not among them: spans are not exported yet, `traceparent` passes through.\n\n"


def unique(f, v, plots):
    for arm, engine in (("doorward, OPA", "real OPA"), ("doorward", "stub engine")):
        v.add("3", f"unique URLs, {engine}: CPU per request, µs", f.values("unique", arm, "cpu_us"), 180, "{:.0f}")
    for arm, engine, note in (("doorward, OPA", "real OPA", "; OPA shares its core with load and API here"),
                              ("doorward", "stub engine", " with OPA")):
        v.add("3", f"unique URLs, {engine}: rate ÷ the reference's",
              [rps / REFERENCE_UNIQUE_RPS for rps in f.values("unique", arm, "rps")], 4, least=True,
              note=f"against {REFERENCE_UNIQUE_RPS}/s, published: not measured in this run{note}")
    rows = [(arm, spread(f.values("unique", arm, "cpu_us"), "{:.0f}"), spread(f.values("unique", arm, "rps"), "{:,.0f}"),
             f"{(f.median('unique', arm, 'p50_us') or 0) / 1000:.2f}") for arm in f.arms("unique")]
    return "### Unique URLs\n\nA question to the policy engine each time, 32 connections.\n\n" + table(
        ["", "CPU µs/req", "req/s", "p50 ms"], rows)


def miss(f, v, plots):
    known, unknown = (f.median("miss", f"doorward: {name}", "p50_us") for name in ("known", "unknown"))
    call = f.median("miss", "direct: a call", "p50_us")
    ours = unknown - 2 * call if None not in (known, unknown, call) else None
    cpu = f.median("miss", "doorward: unknown", "cpu_us")
    v.add("published", "overhead: our own part of a miss, ms", None if ours is None else ours / 1e3, 0.3, "{:.3f}",
          note="of medians")
    rows = [(name, spread(f.values("miss", name, "p50_us"), "{:.0f}"), spread(f.values("miss", name, "cpu_us"), "{:.0f}"))
            for name in f.arms("miss")]
    return "### A miss\n\nOne user after another, one at a time: known, or with token, context and decision all unknown " \
           "(profile and engine answer at once). Our own part is what is left of p50 without two such calls, the way to the API included" + (
               f": {ours:.0f} µs. CPU of the whole request: {cpu:.0f} µs.\n\n" if ours and cpu else ".\n\n") + table(
               ["", "p50 µs", "CPU µs/req"], rows)


def embedded(f, v, plots):
    rows, shown, engines = [], [], ("embedded", "OPA, loopback", "OPA, UNIX socket")
    policies = sorted({arm.split(": ")[1] for arm in f.arms("embedded")})
    for policy in policies or ["cwms"]:
        inside, *outside = (f"doorward: {policy}: {engine}" for engine in engines)
        v.add("embedded", f"{policy}: an unknown path, CPU in all, µs", f.values("embedded", inside, "all_us"), 150, "{:.0f}")
        v.add("embedded", f"{policy}: p50 over that of a known path, µs", f.values("embedded", inside, "added_us"), 150, "{:.0f}")
        for arm in outside:
            v.add("embedded", f"{policy}: {arm.split(': ')[2]} ÷ embedded, CPU in all", f.ratios("embedded", arm, inside, "all_us"), 5,
                  "{:.1f}", least=True)
        for arm in (inside, *outside):
            name, values = arm.partition(": ")[2], f.values("embedded", arm, "all_us")
            if not values:
                rows.append((name, "no run counts") + ("",) * 8)
                continue
            shown.append((name, median(values), values[0], values[-1], arm == inside))
            cells = [spread(f.values("embedded", arm, key), form) for key, form in (
                ("cpu_us", "{:.0f}"), ("opa_us", "{:.0f}"), ("rps", "{:,.0f}"), ("single_p50_us", "{:.0f}"),
                ("single_p99_us", "{:.0f}"), ("added_us", "{:.0f}"), ("single_all_us", "{:.0f}"))]
            cells.insert(2, spread(f.ratios("embedded", arm, inside, "all_us"), "{:.1f}"))
            rows.append((name, *cells))
    if shown:
        plots["embedded"] = plot.bars("CPU of a path not asked before, Doorward and OPA together, µs (range)", shown)
    return "### Policies inside, or asked\n\nA path that nobody asked for yet, of a known user: decided by the policies of `policies/` in " \
           "the process, or by the real OPA with the same ones, over loopback or a UNIX socket. First 32 connections, each URL a new " \
           "one: what a request costs, and how many go in a second (OPA shares its core with load and API). Then one request at a " \
           "time: how long it takes, the way to the API included, what of it is over the p50 of a known path, and its CPU, which is " \
           "more where all go to sleep in between.\n\n" + table(
               ["", "CPU µs", "of OPA", "in all ÷ embedded", "unique URLs/s", "single p50 µs", "p99 µs", "over a known path", "CPU in all"], rows)


def calls(f, v, plots):
    rows = []
    for arm in dict.fromkeys(arm.rpartition(": ")[0] for arm in f.arms("calls")):
        at = {n: f.of("calls", f"{arm}: {n}") for n in (1, 8, 32)}
        named = sorted(((n, name) for line in at[32] for name, n in line["calls"].items() if n >= 0.05), reverse=True)
        rows.append((arm, *(spread(f.values("calls", f"{arm}: {n}", "calls_each"), "{:.2f}") for n in at),
                     ", ".join(f"{n:.2f} `{name}`" for n, name in named)))
    return "### System calls of a warm request\n\nA cached authorized GET, counted by strace over thousands of them, by the number of " \
           "connections (wrk).\n\n" + table(["", "1", "8", "32", "which (32)"], rows)


def instructions(f, v, plots):
    rows = []
    for arm in sorted(f.arms("instructions")):
        for line in f.of("instructions", arm):
            said = line["instructions"]
            rows.append((arm.split(": ")[1], line["what"], *(f"{n:,}" for n in said.values()), f"{sum(said.values()):,}"))
    return "### Instructions of its pieces\n\nBy callgrind over `bench_micro`, with what every x86-64 machine has: SHA-256 in software " \
           "(`bench/budget.py`; CI holds them against `bench/budget.json`). `rest` is the C library, jansson, libuv.\n\n" + table(
               ["piece", "what", "ours", "llhttp", "OpenSSL", "rest", "together"], rows)


MICRO_LIMITS = {"forward-94": (5, 15), "forward-4096": (5, 15), "forward-cold": (None, None)}


def micro(f, v, plots):
    rows = []
    for arm, limits in MICRO_LIMITS.items():
        for p, limit in zip(("p50", "p99"), limits):
            v.add("published", f"control path: {arm}, {p}, µs", f.values("micro", arm, f"{p}_us"), limit,
                  note="" if limit else "no limit asked; cold, without network")
    for arm in f.arms("micro"):
        if not f.of("micro", arm):
            continue
        p50, p99 = f.values("micro", arm, "p50_us"), f.values("micro", arm, "p99_us")
        rows.append((arm, f.of("micro", arm)[0]["what"], spread(p50, "{:.2f}"), spread(p99, "{:.2f}")))
    return "### A guard's control path\n\nIn one process, no network (published: 97 µs and 101 µs at p50, 132 and 111 at " \
           "p99, for bodies of 94 and 4096 bytes).\n\n" + table(["piece", "what", "p50 µs", "p99 µs"], rows)


MEMORY = ("at start", "idle connection", "cached decision", "distinct URLs", "big bodies")


def memory(f, v, plots):
    def most(name, key, per=1):
        return [value / per for value in f.values("memory", f"doorward: {name}", key)]

    million, bodies = f.of("memory", "doorward: distinct URLs"), most("big bodies", "body_bytes", 1 << 30)
    v.add("4", "anonymous memory after start, MB", most("at start", "anonymous_kib", 1024), 6, "{:.1f}", pick=worst)
    v.add("4", "for an idle connection, KiB", most("idle connection", "bytes_each", 1024), 6, "{:.1f}", pick=worst)
    v.add("4", "for a cached decision beside key and grant, B", most("cached decision", "bytes_each"), 600, "{:.0f}", pick=worst)
    v.add("4", f"grown over {million[0]['urls'] if million else 1000000:,} distinct URLs, MB",
          most("distinct URLs", "grown_bytes", 1 << 20), 1, "{:.2f}", "after the cache was full", pick=worst)
    v.add("4", "while bodies of 1 GiB pass, MiB", most("big bodies", "grown_bytes", 1 << 20), 1, "{:.2f}",
          f"{bodies[-1]:.2f} GiB each way" if bodies else "", pick=worst)
    rows = [(name, spread(most(name, "anonymous_kib"), "{:,.0f}"), spread(most(name, "bytes_each"), "{:,.0f}"),
             spread(most(name, "grown_bytes"), "{:,.0f}"), len(f.of("memory", f"doorward: {name}"))) for name in MEMORY]
    return "### Memory\n\nAnonymous memory of the process. A decision is counted beside its key of 32 bytes and its grant.\n\n" + table(
        ["", "KiB", "bytes for each", "bytes grown", "runs that count"], rows)


def growth(f, v, plots):
    found = {}
    for arm in f.arms("growth"):
        _, what, n = arm.split(": ")
        found.setdefault(what, []).append(int(n))
    rows, series = [], {}
    for what in ("routes", "connections", "decisions", "issuers"):
        sizes = sorted(found.get(what, []))
        if len(sizes) < 2:
            v.add("5", f"{what}: CPU per request, much ÷ little", None, 1.1)
            continue
        least = f"doorward: {what}: {sizes[0]}"
        for n in sizes:
            arm = f"doorward: {what}: {n}"
            ratio = f.ratios("growth", arm, least)
            rows.append((what, f"{n:,}", spread(f.values("growth", arm, "cpu_us")), spread(ratio, "{:.2f}")))
            if ratio:
                series.setdefault(what, []).append((n, median(ratio)))
        v.add("5", f"{what}: {sizes[0]:,} → {sizes[-1]:,}, CPU per request", f.ratios("growth", arm, least), 1.1)
    if series:
        plots["growth"] = plot.lines("CPU per request against the least", series, log_y=False)
    return "### More of everything\n\nConnections: 5,000 arrivals a second, each on the connection that has rested longest, so that the proxy " \
           "sleeps in between and is woken, which makes a request dearer; the others: 32 connections, closed loop.\n\n" + table(["", "how many", "CPU µs/req", "÷ the least"], rows)


def scaling(f, v, plots):
    texts, bars = [], []
    for kind, peer in (("cached", "haproxy"), ("unique", "nginx auth_request, asked")):
        part = f"scaling {kind}"
        found = {arm: scaled(f, part, arm) for arm in ("doorward", peer)}
        ours, theirs = found["doorward"], found[peer]
        v.add("workers", f"{kind}: CPU per request, 2 workers ÷ 1", [one["cpu"] for one in ours], 1.05, part=part,
              note=f"{peer}: " + spread([one["cpu"] for one in theirs], "{:.2f}"))
        v.add("workers", f"{kind}: rate, 2 workers ÷ 1, of what two cores leave", sorted(one["reached"] for one in ours), 0.9,
              part=part, least=True, note=f"{peer}: " + spread(sorted(one["reached"] for one in theirs), "{:.2f}"))
        both = sorted(a["rate"] / b["rate"] for a in ours for b in theirs if a["repetition"] == b["repetition"])
        v.add("workers", f"{kind}: rate, 2 workers ÷ 1, ÷ that of {peer}", both, 0.95, part=part, least=True)
        bars += [(f"{kind}: {arm}", median(rates), rates[0], rates[-1], arm == "doorward")
                 for arm, rates in ((arm, sorted(one["rate"] for one in found[arm])) for arm in found) if rates]
        rows = []
        for arm in found:
            for n in (1, 2):
                name = f"{arm}: {n}"
                rows.append((name, *(spread(f.values(part, name, key), form) for key, form in (
                    ("rps", "{:,.0f}"), ("cpu_us", "{:.1f}"), ("load_us", "{:.1f}"), ("stubs_us", "{:.1f}"))), *(
                        (spread(sorted(one[key] for one in found[arm]), "{:.2f}") for key in ("rate", "possible"))
                        if n == 2 else ("", ""))))
        texts.append(f"{kind.capitalize()}:\n\n" + table(["workers or threads", "req/s", "CPU µs/req", "of the load", "of API and engine",
                                                       "rate ÷ with one", "possible"], rows))
    if bars:
        plots["scaling"] = plot.bars("Rate with two workers against one, on two cores that all share (range)", bars)
    return "### Two workers\n\nProxy, load, API and policy engine share two cores, none pinned; 64 connections, closed loop. " \
           "What a request takes of all of them with one worker says what rate two cores leave, and so what a second worker can " \
           "bring: that is `possible`. Cached, the proxy's own part is the smaller one; unique URLs are asked of the engine each " \
           "time.\n\n" + "".join(texts)


def scaled(f, part, arm):
    """Of each repetition in which both count: how CPU and rate with two relate to those with one, and to what was possible."""
    ones, found = {line["repetition"]: line for line in f.of(part, f"{arm}: 1")}, []
    for two in f.of(part, f"{arm}: 2"):
        one = ones.get(two["repetition"])
        if not one or not one["rps"] or not one["cpu_us"]:
            continue
        possible = min(2 / (one["cpu_us"] + one["load_us"] + one["stubs_us"]), 2 / one["cpu_us"]) * 1e6 / one["rps"]
        found.append({"repetition": two["repetition"], "cpu": two["cpu_us"] / one["cpu_us"], "rate": two["rps"] / one["rps"],
                      "possible": possible, "reached": two["rps"] / one["rps"] / possible})
    return sorted(found, key=lambda one: one["cpu"])


PARTS = [cost, wait, trial, users, chain, unique, miss, embedded, calls, instructions, micro, memory, growth, scaling]


def machine(f, path):
    if not f.used:
        return "Nothing was measured.\n\n"
    newest = max(f.used, key=lambda line: line["run"])
    runs = sorted({line["run"] for line in f.used})
    rejected = [line for line in f.used if line["rejected"]]
    text = f"Made from the ledger, SHA-256 `{ledger_of.digest(path)}`: {len(f.used)} runs of arms, {len(rejected)} of them " \
           f"rejected; {'full length' if newest['mode'] == 'full' else 'quick, not to be quoted'}. {newest['cores']} cores, {newest['cpu']}, " \
           f"Linux {newest['kernel']}; measured {', '.join(runs)} at commit " \
           f"{', '.join(sorted({line['commit'][:12] + (' (changed)' if line['dirty'] else '') for line in f.used}))}; " \
           f"compiled with `{newest['flags']}`.\n\n"
    versions = [line.strip() if key in line.lower() or key == "doorward" else f"{key} {line.strip()}"
                for key, said in newest["versions"].items() for line in said.split("\n")[:3 if key == "doorward" else 1] if line.strip()]
    return text + "Versions: " + "; ".join(version for version in versions if version) + ".\n\n"


def rejections(f):
    rows = {}
    for line in f.used:
        if line["rejected"]:
            key = line["part"], line["arm"], line["rejected"]
            rows[key] = rows.get(key, 0) + 1
    if not rows:
        return ""
    return "### Runs that do not count\n\n" + table(["part", "arm", "why", "runs"],
                                                  [(*key, n) for key, n in sorted(rows.items())])


def sources(f):
    """Of each part the run that is shown: the last whole one."""
    rows = []
    for part in f.parts():
        lines = [line for line in f.used if line["part"] == part]
        first = lines[0]
        rows.append((part, first["run"], f"`{first['commit'][:12]}`" + (" (changed)" if first["dirty"] else ""),
                     f.source(part).rpartition("lines ")[2], len(lines), sum(bool(line["rejected"]) for line in lines),
                     ", ".join(filter(None, (first["mode"], f.lacks(first["run"], part))))))
    return "### Where the figures are from\n\nLines of the ledger: `sed -n 5p bench/ledger.jsonl` shows the fifth.\n\n" + table(
        ["part", "measured", "commit", "lines", "runs", "rejected", "length"], rows)


def make(path):
    """(Markdown, {name: SVG}, the verdicts' rows)"""
    f, plots, texts = Figures(ledger_of.read(path)), {}, []
    v = Verdicts(f)
    there = {line["part"].split()[0] for line in f.used}
    for part in PARTS:
        name = v.part = part.__name__
        try:
            text = part(f, v, plots)
        except Exception as error:  # pylint: disable=broad-except  # what one part lacks must not cost the others
            traceback.print_exc()
            text = f"### {name}\n\nCould not be told: {type(error).__name__}: {error}\n\n"
            v.cannot("?", name, "–", "the report failed here")
        if name in there:
            texts.append(text)
    busy = median(sorted(line["others_on_proxy_core"] for line in f.used if "others_on_proxy_core" in line)) or 0
    notes = f"Others took {busy:.0%} of the proxy's core in the middle of all runs; only ratios say much.\n\n" if busy > 0.05 else ""
    goals = "### Goals\n\nWhat we set ourselves: (1) an authorized request that was asked before costs no more than plain proxying " \
            "elsewhere; (2) nor does its user wait longer; (3) one that was not asked before; (4) memory; (5) what does not grow. " \
            "`published`: what others published of their proxies, measured anew in their way (each part says whose figures; those " \
            "of a proxy on Node, which Doorward replaces, are called the reference's). `workers`: what a second process brings; " \
            "`embedded`: policies in the process against the same ones asked of OPA.\n\nA figure is the median of what the repetitions gave, with the least and the most, or the worst of so " \
            "many. `from` is a part and its lines in the ledger.\n\n" + table(HEAD, v.sorted())
    return machine(f, path) + notes + goals + "".join(texts) + rejections(f) + sources(f), plots, v.sorted()


def write(path, report):
    """Writes the report and its plots, prints the verdicts; 0."""
    if not os.path.exists(path):
        print("nothing was measured")
        return 1
    text, plots, rows = make(path)
    folder = os.path.splitext(report)[0]
    os.makedirs(folder, exist_ok=True)
    for name, svg in plots.items():
        with open(f"{folder}/{name}.svg", "w", encoding="utf-8") as f:
            f.write(svg)
    shown = "".join(f"![{name}]({os.path.basename(folder)}/{name}.svg)\n" for name in plots)
    before, after = "# Performance\n\n", ""
    if os.path.exists(report):
        with open(report, encoding="utf-8") as f:
            old = f.read()
        if BEGIN in old and END in old:
            before, after = old.split(BEGIN)[0], old.split(END)[1]
    with open(report, "w", encoding="utf-8") as f:
        f.write(f"{before}{BEGIN}\n\n{text}{shown}\n{END}{after or chr(10)}")
    show(rows)
    print(f"\nreport: {os.path.relpath(report)}; ledger: {os.path.relpath(path)}, SHA-256 {ledger_of.digest(path)}")
    return 0


if __name__ == "__main__":
    given = sys.argv[1:]
    root = os.path.dirname(HERE)
    sys.exit(write(given[0] if given else f"{HERE}/ledger.jsonl", given[1] if len(given) > 1 else f"{root}/docs/performance.md"))
