"""Other people's load generators: what they say, in our words."""

import json
import os
import re
import shutil
import subprocess

UNITS = {"us": 1, "ms": 1e3, "s": 1e6}


def wrk(port, connections, seconds):
    text = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", f"http://127.0.0.1:{port}/"],
                          capture_output=True, text=True, check=True).stdout
    value, unit = re.search(r"50%\s+([\d.]+)(us|ms|s)\n", text).groups()
    return {"requests": int(re.search(r"(\d+) requests in", text)[1]), "p50_us": float(value) * UNITS[unit]}


def vegeta(port, rate, seconds):
    program = shutil.which("vegeta") or os.path.expanduser("~/go/bin/vegeta")
    attack = subprocess.run([program, "attack", f"-rate={rate}", f"-duration={seconds}s"],
                            input=f"GET http://127.0.0.1:{port}/\n".encode(), capture_output=True, check=True)
    report = subprocess.run([program, "report", "-type=json"], input=attack.stdout, capture_output=True, check=True)
    return json.loads(report.stdout)
