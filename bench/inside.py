"""What a warm request is made of: system calls, counted by strace while it runs, and instructions of its pieces, counted by
callgrind (budget.py says how). Counts, not times: what else the machine does hardly moves them."""
import contextlib
import re
import signal
import subprocess
import time

import arms
import budget
from measure import PATH

ROW = re.compile(r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+)(?: +\d+)? +(\w+)$", re.M)  # % time, seconds, usecs/call, calls, errors, name


@contextlib.contextmanager
def counted(lab, proxy):
    """What strace counts inside the block, of all threads: a list that is filled at its end."""
    file, found = f"{lab.dir}/strace", []
    command = ["strace", "-c", "-f", "-o", file] + [word for pid in proxy.pids for word in ("-p", str(pid))]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        process.stderr.readline()  # "attached"
        yield found
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
        process.stderr.close()
    with open(file, encoding="utf-8") as f:
        found += [(name, int(calls)) for calls, name in ROW.findall(f.read()) if name != "total"]


def calls(bench):
    """The system calls of a cached authorized GET."""
    lab, api = bench.lab, bench.lab.api()

    def run(name):
        arm, connections = name.split(": ")
        with lab.running(arms.ARMS[arm](lab, api.port)) as proxy:
            lab.wrk(proxy.port, PATH, 1, int(connections))
            before = api.settled()["requests"]
            with counted(lab, proxy) as found:
                time.sleep(0.2)
                lab.wrk(proxy.port, PATH, 2, int(connections))
            requests = api.settled()["requests"] - before
        each = {name: round(calls / requests, 3) for name, calls in found}
        return {"rejected": None if requests > 1000 else f"{requests} requests", "config": proxy.config, "calls": each,
                "calls_each": round(sum(each.values()), 2)}

    bench.each("calls", [f"{arm}: {n}" for arm in ("doorward", "doorward, access log", "haproxy", "nginx") for n in bench.pick((1, 8, 32), (32,))], 1, run)


def instructions(bench):
    """The pieces of a request."""
    whats = dict(line.split(None, 1) for line in budget.output(f"{bench.lab.programs}/bench_micro").splitlines())

    def run(name):
        piece = name.split(": ")[1]
        said = budget.count(bench.lab.programs, piece)
        return {"rejected": None, "instructions": said, "what": whats[piece]}

    bench.each("instructions", [f"doorward: {piece}" for piece in bench.pick(budget.PIECES, ["forward", "answer"])], 1, run)


def inside(bench):
    calls(bench)
    instructions(bench)
