"""The measuring programs under test: those of BENCH_DIR, else of build/release/bench."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(os.environ.get("BENCH_DIR", ROOT / "build/release/bench"))
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(ROOT / "tests/e2e"))


def free_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Stub:
    def __init__(self, *arguments):
        self.port = free_port()
        self.process = subprocess.Popen([PROGRAMS / "bench_stub", "--listen", f"127.0.0.1:{self.port}", *arguments])
        until = time.monotonic() + 20
        while True:
            try:
                self.counters()
                return
            except OSError:
                assert self.process.poll() is None and time.monotonic() < until
                time.sleep(0.02)

    def counters(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/stub/counters", timeout=20) as answer:
            return json.load(answer)

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


@pytest.fixture
def stub():
    """stub(arguments…): one that runs until the test is over."""
    made = []

    def make(*arguments):
        made.append(Stub(*arguments))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture
def load(tmp_path):
    """load(port, lines of the requests file, arguments…): what bench_load says."""
    def run(port, lines, *arguments):
        return finish(start(port, lines, *arguments))

    def start(port, lines, *arguments):
        requests = tmp_path / "requests"
        requests.write_text("".join(line + "\n" for line in lines))
        return subprocess.Popen([PROGRAMS / "bench_load", "--to", f"127.0.0.1:{port}", "--requests", requests, *arguments],
                                stdout=subprocess.PIPE, text=True)

    def finish(process):
        text, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        return json.loads(text)

    run.start, run.finish = start, finish
    return run
