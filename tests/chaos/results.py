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


if __name__ == "__main__":
    sys.stdout.write("")
