"""What came of the chaos tests: a JSON line each in docs/reliability.jsonl, of which docs/reliability.md is made.

  python3 results.py        prints docs/reliability.md
"""
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FILE = os.path.join(ROOT, "docs", "reliability.jsonl")


def commit():
    found = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                           check=False)
    return found.stdout.strip() or "unknown"


def note(request, what, **seen):
    """Prints a result, and adds it to the file of --results."""
    from general import is_sanitized
    from harness import BIN
    line = json.dumps({"what": what, "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "commit": commit(),
                       "build": "sanitizers" if is_sanitized(BIN) else "plain", **seen})
    print(line)
    path = request.config.getoption("--results")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(line + "\n")


HEAD = """# What was killed, what users saw, what was lost

Made by `make docs` from [reliability.jsonl](reliability.jsonl), a line for each result: the last of each kind stands here,
and each is a test that passed. `RESULTS=docs/reliability.jsonl scripts/chaos full` adds to it; what a failing part means
for a request stands in [failures.md](failures.md). Real Redis, OPA and an issuer, with the load and the API on the same
machine of two cores as everything else: times say little, counts say all.

"Lost" are requests without a whole answer. Every request has an id, by which the client's record, the access log, the
API's own record and the metrics are joined: each answered request has one access line with the status that the client
saw, the lines of each reason are as many as its metric says, and whatever reached the API has a line with `allow`.
"""


def counts(found):
    return ", ".join(f"{name}: {n:,}" for name, n in found.items())


def last_of_each(lines):
    """{(what, build, more that tells kinds apart): line}, in the order they first came."""
    found = {}
    for line in lines:
        found[line["what"], line["build"], line.get("redis"), line.get("seconds")] = line
    return list(found.values())


def stamp(line):
    return f"{line['when'][:10]}, `{line['commit']}`, {line['build']}"


def soak(line):
    out = [f"### {line['seconds']:,} seconds ({stamp(line)})\n", "| | |", "|---|---|",
           f"| requests | {line['requests']:,}, {line['rate']} a second, seed {line['seed']} |",
           f"| done to the parts | {counts(line['done'])} |",
           f"| users saw | {counts(line['status'])} (0: broken off with the API that answered) |",
           f"| reasons in the log | {counts(line['reasons'])} |",
           f"| broken off | {line['broken_off']:,}, {line.get('crossed', 0)} of them crossed with the end of an idle connection |",
           f"| forwarded without an allow | {line['forwarded_without_allow']} |",
           f"| not accounted for once in log and metrics | {line['not_accounted_for']} |",
           f"| resident memory, second and last quarter | {line['rss_kib_early']:,} KiB, {line['rss_kib_late']:,} KiB |"]
    for name, title in (("heap_kib", "memory in use, KiB"), ("fds", "descriptors"), ("handles", "handles of the loop"),
                        ("deadlines", "deadlines")):
        if name in line["before"]:
            out.append(f"| {title} at rest, before and after | {line['before'][name]}, {line['after'][name]} |")
    return "\n".join(out) + "\n"


def stampede(line):
    return (f"| {line['users']:,} users, {'with' if line['redis'] else 'without'} Redis | {counts(line['status'])} | "
            f"{line['profile_calls']:,}, {line['most_profile_calls_at_once']} at once | "
            f"{line['questions']:,}, {line['most_questions_at_once']} at once | {line['took_s']} s | {stamp(line)} |")


ENDINGS = {"ended": "ended", "killed": "killed", "seconds_to_end": "s to end", "seconds_down": "s down",
           "lost_in_flight": "lost in flight", "lost_while_nobody_listened": "lost while nobody listened",
           "lost_otherwise": "lost otherwise", "uploads_and_streams_finished": "uploads and streams finished",
           "failed": "refused or failed", "seconds_until_another_was_named": "s until another was named",
           "seconds_until_it_was_used": "s from there until it was used", "sent_again": "sent again",
           "newcomers": "newcomers with a new key", "fetches_of_keys": "fetches of keys"}


def ending(line):
    more = ", ".join(f"{title} {line[name]}" for name, title in ENDINGS.items() if name in line)
    lost = line.get("lost", line.get("lost_in_flight", 0) + line.get("lost_while_nobody_listened", 0))
    return f"| {line['what']} | {line['requests']:,} | {counts(line['status'])} | {lost} | {more} | {stamp(line)} |"


def page(lines):
    lines = last_of_each(lines)
    out = [HEAD, "## Soak\n",
           "Mixed load (cached, unique, denied, forged, uploads, downloads, slow readers, WebSockets, `/authorize`) while parts "
           "are\nkilled, stopped, cut off and made to lie, one or two at a time, and caches are flushed and keys rotated.\n"]
    out += [soak(line) for line in lines if line["what"] == "soak"]
    out += ["## Stampede\n", "All caches flushed, and every user back in the same moment.\n",
            "| who | they saw | profile calls | questions | all served after | |", "|---|---|---|---|---|---|"]
    out += [stampede(line) for line in lines if line["what"] == "stampede"]
    out += ["\n## Endings and fail-overs under load\n", "| what | requests | users saw | lost | | |",
            "|---|---|---|---|---|---|"]
    out += [ending(line) for line in lines if line["what"] not in ("soak", "stampede")]
    return "\n".join(out) + "\n"


def kept():
    with open(FILE, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


if __name__ == "__main__":
    sys.stdout.write(page(kept()))
