#!/usr/bin/python3
"""Counts the instructions of the hot pieces and holds them against bench/budget.json.

    bench/budget.py [--update] [--programs build/release/bench]

Counts, not times: callgrind runs each piece of bench_micro a fixed number of times and counts what happens inside it. They
are the same on every run and every x86-64 machine, but not from another compiler, so that there is a budget for each
compiler's major version; one that has none is said and let pass. What is ours is held always. llhttp, OpenSSL and the C
library have their own counts, held only where their versions are those of the budget; they are made to use the
instructions that every such machine has. A piece may cost 3 % more than its budget. --update writes what was counted as
the new budget, to be committed with the reason."""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BUDGET = f"{HERE}/budget.json"
PIECES = ["parse", "target", "token", "context", "decision-key", "decision", "cache", "grant", "head", "forward", "answer",
          "forward-94", "forward-4096"]
PARTS = ["ours", "llhttp", "crypto", "rest"]
ROUNDS = 400
TOLERANCE = 0.03
ENVIRONMENT = {"OPENSSL_ia32cap": "~0x1000080000000000:0x0",  # no AVX, no XOP, no AVX2, no SHA extensions
               "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2_Usable,-AVX2,-AVX_Fast_Unaligned_Load,-ERMS,-FSRM"}
OURS = re.compile(r"(^|/)(src|include)/(base|conf|io|http|remote|authz|proxy)/[^/]+$")


def output(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip()


def environment_of(programs):
    """What the counts hang on: (the compiler and machine, the libraries' versions)."""
    said = output(f"{programs}/../doorward", "--version")
    compiler = re.search(r"\((\w+) (\d+)", said)
    libraries = {"llhttp": re.search(r"^llhttp (.*)$", said, re.M)[1], "crypto": re.search(r"^OpenSSL (\S+)", said, re.M)[1],
                 "rest": " ".join(output("getconf", "GNU_LIBC_VERSION").split())}
    return f"{os.uname().machine}, {compiler[1]} {compiler[2]}", libraries


class Reader:
    """The self costs of a callgrind profile, by part. Names are given once and then by number."""

    def __init__(self):
        self.names = {}
        self.counts = dict.fromkeys([*PARTS, "harness"], 0)

    def name(self, kind, text):
        number, _, given = text.partition(" ")
        if given:
            self.names[kind, number] = given
        return self.names.get((kind, number), text)

    def part(self, thing, home, file):
        if "llhttp" in thing or "/llhttp/" in file:
            return "llhttp"
        if "libcrypto" in thing:
            return "crypto"
        if "bench_micro" not in thing:
            return "rest"
        where = home if file.startswith(("/usr/include", "/usr/lib", "?")) else file  # what was inlined from there
        return "ours" if OURS.search(where) else "harness"

    def read(self, lines):
        thing = home = file = ""
        calls = False
        for line in lines:
            line = line.rstrip("\n")
            key, equals, text = line.partition("=")
            if equals and key in ("ob", "fl", "fi", "fe", "fn", "cob", "cfi", "cfl", "cfn"):
                name = self.name({"o": "ob", "f": "fn" if key.endswith("fn") else "fl"}[key.lstrip("c")[0]], text)
                if key == "ob":
                    thing = name
                elif key == "fl":
                    home = file = name
                elif key in ("fi", "fe"):
                    file = name
            elif equals and key == "calls":
                calls = True  # the next line is what the callee cost, which stands with the callee too
            elif line[:1] in "+-*0123456789" and line:
                if not calls:
                    self.counts[self.part(thing, home, file)] += int(line.split()[1])
                calls = False
        return self.counts


def count(programs, piece):
    """Instructions of one round, by part."""
    with tempfile.NamedTemporaryFile(prefix="doorward-budget-") as profile:
        done = subprocess.run(["valgrind", "--tool=callgrind", "--toggle-collect=measured_run", "--compress-strings=yes",
                               f"--callgrind-out-file={profile.name}", f"{programs}/bench_micro", piece, str(ROUNDS)],
                              capture_output=True, text=True, env=dict(os.environ, **ENVIRONMENT), check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{piece}: {done.stderr.strip().splitlines()[-1:]}")
        with open(profile.name, encoding="utf-8") as f:
            counts = Reader().read(f)
    return {part: round(counts[part] / ROUNDS) for part in PARTS}


def compare(counted, budget, libraries, say=print):
    """Says each piece against its budget; the complaints."""
    complaints = []
    held = [p for p in PARTS if p == "ours" or libraries[p] == budget["libraries"][p]]
    for part in set(PARTS) - set(held):
        say(f"not held: {part}, {libraries[part]} here and {budget['libraries'][part]} in the budget")
    say(f"{'instructions':16}" + "".join(f"{part:>9}{'budget':>9}" for part in PARTS))
    for piece, counts in counted.items():
        allowed = budget["pieces"].get(piece)
        if not allowed:
            complaints.append(f"{piece} has no budget")
            continue
        say(f"{piece:16}" + "".join(f"{counts[p]:9}{allowed[p]:9}" for p in PARTS))
        for part in held:
            if counts[part] > allowed[part] * (1 + TOLERANCE) + 2:
                complaints.append(f"{piece}: {part} costs {counts[part]} instructions, its budget is {allowed[part]}")
            elif counts[part] < allowed[part] * (1 - TOLERANCE) - 2:
                say(f"  {piece}: {part} became cheaper: lower its budget with --update")
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--programs", default=f"{HERE}/../build/release/bench")
    args = parser.parse_args()
    where, libraries = environment_of(args.programs)
    with open(BUDGET, encoding="utf-8") as f:
        budgets = json.load(f)
    if where not in budgets and not args.update:
        print(f"budget: skipped: none for {where}, only for {'; '.join(budgets)} (--update makes one)")
        return 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        counted = dict(zip(PIECES, pool.map(lambda piece: count(args.programs, piece), PIECES)))
    if args.update:
        budgets[where] = {"libraries": libraries, "pieces": counted}
        with open(BUDGET, "w", encoding="utf-8") as f:
            f.write(json.dumps(budgets, indent=1) + "\n")
        print(f"budget: written for {where}")
        return 0
    complaints = compare(counted, budgets[where], libraries)
    print("\n".join(f"budget: {c}" for c in complaints) or f"budget: kept ({where})")
    if complaints:
        print("budget: worth it? then: scripts/budget --update, and say why in the commit")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
