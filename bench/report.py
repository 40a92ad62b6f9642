"""The report: Markdown and plots, from the ledger alone. In the file it stands between two marks; what is written around them
stays. By hand: bench/report.py [LEDGER [REPORT]]"""
import os
import sys

import histogram
import ledger as ledger_of
import plot
from figures import PERCENTILES, Figures, median, spread

HERE = os.path.dirname(os.path.abspath(__file__))
BEGIN, END = "<!-- measured: from here to the other mark by bench/report.py -->", "<!-- measured: end -->"
REFERENCE_UNIQUE_RPS, REFERENCE_CPU_US = 1660, 127  # measured once, elsewhere: it is not among the arms
SAID = {None: "not measured", True: "met", False: "missed"}


def table(head, rows):
    line = "| " + " | ".join(head) + " |\n|" + "---|" * len(head) + "\n"
    return line + "".join("| " + " | ".join(str(cell) for cell in row) + " |\n" for row in rows) + "\n"


class Verdicts:
    def __init__(self):
        self.rows = []

    def add(self, goal, what, value, limit, form="{:.2f}", note=""):
        """Met when value <= limit; either may be None: not measured."""
        met = None if value is None or limit is None else value <= limit
        self.rows.append((goal, what, "–" if value is None else form.format(value),
                          "–" if limit is None else "at most " + form.format(limit), SAID[met], note))

    def add_least(self, goal, what, value, limit, form="{:.2f}", note=""):
        met = None if value is None else value >= limit
        self.rows.append((goal, what, "–" if value is None else form.format(value), "at least " + form.format(limit),
                          SAID[met], note))


# --- each part: its text, and what it says of the goals ----------------------------------------------------------------

def cost(f, v, plots):
    ours = f.values("cost", "doorward", "cpu_us")
    for base, limit in (("haproxy", 1.0), ("nginx", 0.75), ("nginx auth_request", 0.6)):
        v.add("1", f"CPU per request ÷ {base}", median(f.ratios("cost", "doorward", base)), limit,
              note=spread(f.ratios("cost", "doorward", base), "{:.2f}"))
    v.add("1", "CPU per request ÷ the reference's", median(ours) / REFERENCE_CPU_US if ours else None, 0.25,
          note=f"against {REFERENCE_CPU_US} µs measured elsewhere: not in this run")
    rows, shown = [], []
    for arm in f.arms("cost"):
        values = f.values("cost", arm, "cpu_us")
        if not values:
            rows.append((arm, "no run counts") + ("",) * 6)
            continue
        shown.append((arm, median(values), values[0], values[-1], arm.startswith("doorward")))
        rows.append((arm, spread(values), f"{f.median('cost', arm, 'rps'):,.0f}",
                     f"{median(sorted(line['cpu_s'] / line['used_s'] for line in f.of('cost', arm))):.0%}",
                     f"{f.median('cost', arm, 'rss_kib') / 1024:.1f}", spread(f.ratios("cost", arm, "haproxy"), "{:.2f}"), spread(f.ratios("cost", arm, "nginx"), "{:.2f}")))
    if shown:
        plots["cost"] = plot.bars("CPU of a cached authorized GET, µs (range)", sorted(shown, key=lambda row: row[1]))
    return ("### What a request costs\n\nA cached authorized GET, 1 KiB answer, closed loop, 32 connections, one core; median "
            "(range); the ratios are of pairs in the same repetition. Where a proxy does not use all of its core, load and API "
            "were the narrow place, and its req/s say nothing.\n\n" +
            table(["", "CPU µs/req", "req/s", "of its core", "RSS MB", "CPU ÷ haproxy", "÷ nginx"], rows))


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
    for part in f.parts("wait "):
        rate = part.split()[1]
        for p in PERCENTILES:
            v.add("2", f"added {p} at {rate}/s, µs", median(f.added(part, "doorward", f"{p}_us")),
                  median(f.added(part, "haproxy", f"{p}_us")), "{:.0f}", "haproxy's in the same run")
        text += waiting(f, v, plots, part, f"{rate} a second, 64 connections")
    v.add("published", "reference: added p50 at 2000/s, ms", _ms(median(f.added("wait 2000", "doorward", "p50_us"))), 0.2,
          "{:.3f}")
    return text


def _ms(us):
    return None if us is None else us / 1e3


def trial(f, v, plots):
    added = f.added("trial", "doorward", "p95_us")
    v.add("published", "router: added p95 in every trial, ms", _ms(added[-1]) if added else None, 0.5, "{:.3f}",
          "the worst trial")
    v.add("published", "router: added p95, ms", _ms(median(added)), _ms(median(f.added("trial", "haproxy", "p95_us"))), "{:.3f}",
          "haproxy's in the same run")
    text = "### A router's trials\n\n10,000 arrivals a second, 256 sockets, an API of 1 ms, a fresh process each time, full " \
           "authorization (published: added p95 0.70–1.08 ms).\n\n" + waiting(f, v, plots, "trial", "10,000 a second, 1 ms API")
    for line in f.of("sustained", "doorward"):
        grown = line["anonymous_kib"] - line["anonymous_before_kib"]
        v.add("published", "router: RSS after 60 s of it, MB", line["rss_kib"] / 1024, 32, "{:.1f}")
        v.add("published", "router: grown meanwhile, KiB", grown, 256, "{:.0f}")
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
                         sum(s["errors"] for s in stages)))
    if series:
        plots["users"] = plot.lines("Requests a second as users come", series)
    for scenario in ("health", "authorize", "cached", "uncached"):
        arm = f"doorward: {scenario}"
        points = dict(series.get(arm, []))
        think = f.of("users", arm)[0]["think_ms"] if points else 100
        v.add_least("published", f"reference: {scenario}, of what 1000 thinking users can ask for",
                    points[1000] / (1000 / think * 1000) if 1000 in points else None, 0.95,
                    note="the reference levels off at 180 req/s")
    return "### The reference's scenarios\n\nUsers who think 100 ms between requests (uncached: 500 ms), 5, 20, 50, then 1000; " \
           "latencies in ms.\n\n" + table(["", "users", "req/s", *PERCENTILES, "errors"], rows)


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
            v.add("published", f"chain: {step}, µs CPU more", median(more), 3, "{:.1f}", spread(more))
    return "### What each step adds\n\nOne process for each; CPU per request in a closed loop, p95 at 2000/s.\n\n" + table(
        ["", "CPU µs/req", "more than before", "p95 µs", "more than before"], rows) + \
        "Tracing is not among them: spans are not exported yet, `traceparent` passes through.\n\n"


def unique(f, v, plots):
    v.add("3", "unique URLs: CPU per request, µs", f.median("unique", "doorward", "cpu_us"), 180, "{:.0f}")
    rps = f.median("unique", "doorward, OPA", "rps")
    v.add_least("3", "unique URLs, real OPA: rate ÷ the reference's", rps / REFERENCE_UNIQUE_RPS if rps else None, 4,
                note=f"against {REFERENCE_UNIQUE_RPS}/s measured elsewhere; OPA shares its core with load and API here")
    rps = f.median("unique", "doorward", "rps")
    v.add_least("3", "unique URLs, stub engine: rate ÷ the reference's", rps / REFERENCE_UNIQUE_RPS if rps else None, 4,
                note=f"against {REFERENCE_UNIQUE_RPS}/s measured elsewhere with OPA")
    rows = [(arm, spread(f.values("unique", arm, "cpu_us"), "{:.0f}"), spread(f.values("unique", arm, "rps"), "{:,.0f}"),
             f"{(f.median('unique', arm, 'p50_us') or 0) / 1000:.2f}") for arm in f.arms("unique")]
    return "### Unique URLs\n\nA question to the policy engine each time, 32 connections.\n\n" + table(
        ["", "CPU µs/req", "req/s", "p50 ms"], rows)


def miss(f, v, plots):
    known, unknown = (f.median("miss", f"doorward: {name}", "p50_us") for name in ("known", "unknown"))
    call = f.median("miss", "direct: a call", "p50_us")
    ours = unknown - 2 * call if None not in (known, unknown, call) else None
    cpu = f.median("miss", "doorward: unknown", "cpu_us")
    v.add("published", "reference: our own part of a miss, ms", _ms(ours), 0.3, "{:.3f}")
    rows = [(name, spread(f.values("miss", name, "p50_us"), "{:.0f}"), spread(f.values("miss", name, "cpu_us"), "{:.0f}"))
            for name in f.arms("miss")]
    return "### A miss\n\nOne user after another, one at a time: known, or with token, context and decision all unknown " \
           "(profile and engine answer at once). Our own part is what is left of p50 without two such calls, the way to the API included" + (
               f": {ours:.0f} µs, of which {cpu:.0f} µs are CPU.\n\n" if ours and cpu else ".\n\n") + table(
               ["", "p50 µs", "CPU µs/req"], rows)


MICRO_LIMITS = {"forward-94": (5, 15), "forward-4096": (5, 15)}


def micro(f, v, plots):
    rows = []
    for arm in f.arms("micro"):
        p50, p99 = f.values("micro", arm, "p50_us"), f.values("micro", arm, "p99_us")
        rows.append((arm, f.of("micro", arm)[0]["what"], spread(p50, "{:.2f}"), spread(p99, "{:.2f}")))
        for p, values, limit in zip(("p50", "p99"), (p50, p99), MICRO_LIMITS.get(arm, ())):
            v.add("published", f"guard: {arm}, {p}, µs", median(values), limit)
    return "### A guard's control path\n\nIn one process, no network (published: 97 µs and 101 µs at p50, 132 and 111 at " \
           "p99, for bodies of 94 and 4096 bytes).\n\n" + table(["piece", "what", "p50 µs", "p99 µs"], rows)


def memory(f, v, plots):
    def most(name, key, per=1):
        values = f.values("memory", f"doorward: {name}", key)
        return values[-1] / per if values else None

    million = f.of("memory", "doorward: distinct URLs")
    v.add("4", "anonymous memory after start, MB", most("at start", "anonymous_kib", 1024), 6, "{:.1f}")
    v.add("4", "for an idle connection, KiB", most("idle connection", "bytes_each", 1024), 6, "{:.1f}")
    v.add("4", "for a cached decision beside key and grant, B", most("cached decision", "bytes_each"), 600, "{:.0f}")
    v.add("4", f"grown over {million[0]['urls'] if million else 1000000:,} distinct URLs, MB",
          most("distinct URLs", "grown_bytes", 1 << 20), 1, "{:.2f}", "after the cache was full")
    v.add("4", "while bodies of 1 GiB pass, MiB", most("big bodies", "grown_bytes", 1 << 20), 1, "{:.2f}",
          f"{most('big bodies', 'body_bytes', 1 << 30) or 0:.2f} GiB each way")
    return ""


def growth(f, v, plots):
    found = {}
    for arm in f.arms("growth"):
        _, what, n = arm.split(": ")
        found.setdefault(what, []).append(int(n))
    rows, series = [], {}
    for what, sizes in found.items():
        sizes.sort()
        least = f"doorward: {what}: {sizes[0]}"
        for n in sizes:
            arm = f"doorward: {what}: {n}"
            ratio = f.ratios("growth", arm, least)
            rows.append((what, f"{n:,}", spread(f.values("growth", arm, "cpu_us")), spread(ratio, "{:.2f}")))
            if ratio:
                series.setdefault(what, []).append((n, median(ratio)))
        if len(sizes) > 1:
            v.add("5", f"{what}: {sizes[0]:,} → {sizes[-1]:,}, CPU per request", median(f.ratios("growth", arm, least)), 1.1,
                  note=spread(f.ratios("growth", arm, least), "{:.2f}"))
    if series:
        plots["growth"] = plot.lines("CPU per request against the least", series, log_y=False)
    return "### More of everything\n\n" + table(["", "how many", "CPU µs/req", "÷ the least"], rows)


PARTS = [cost, wait, trial, users, chain, unique, miss, micro, memory, growth]


def machine(f, path):
    newest = max(f.used, key=lambda line: line["run"])
    runs = sorted({line["run"] for line in f.used})
    rejected = [line for line in f.used if line["rejected"]]
    text = f"Made from the ledger, SHA-256 `{ledger_of.digest(path)}`: {len(f.used)} runs of arms, {len(rejected)} of them " \
           f"rejected; {'full length' if newest['mode'] == 'full' else 'quick, not to be quoted'}. {newest['cores']} cores, {newest['cpu']}, " \
           f"Linux {newest['kernel']}; measured {', '.join(runs)} at commit " \
           f"{', '.join(sorted({line['commit'][:12] + (' (changed)' if line['dirty'] else '') for line in f.used}))}; " \
           f"compiled with `{newest['flags']}`.\n\n"
    versions = [line.strip() for key, said in newest["versions"].items()
                for line in said.split("\n")[:3 if key == "doorward" else 1]]
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


def make(path):
    """(Markdown, {name: SVG}, the verdicts' rows)"""
    f, v, plots, texts = Figures(ledger_of.read(path)), Verdicts(), {}, []
    there = {line["part"].split()[0] for line in f.used}
    for part in PARTS:
        if part.__name__ in there:
            texts.append(part(f, v, plots))
    busy = median(sorted(line["others_on_proxy_core"] for line in f.used if "others_on_proxy_core" in line)) or 0
    notes = f"Others took {busy:.0%} of the proxy's core in the middle of all runs; only ratios say much.\n\n" if busy > 0.05 else ""
    v.rows.sort(key=lambda row: row[0])
    verdicts = table(["goal", "what", "measured", "asked", "verdict", ""], v.rows)
    return machine(f, path) + notes + "### Verdicts\n\n" + verdicts + "".join(texts) + rejections(f), plots, v.rows


def show(rows):
    print(f"{'goal':10} {'what':58} {'measured':>10} {'asked':>16}  verdict")
    for goal, what, value, limit, said, note in rows:
        print(f"{goal:10} {what:58} {value:>10} {limit:>16}  {said:12} {note}")


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
