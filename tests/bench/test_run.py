"""bench/run from its arguments to the report, with the one part that needs no other programs."""

import importlib.machinery
import importlib.util
import json
import os
import signal
import subprocess
import time

import pytest

import measure
from conftest import PROGRAMS, ROOT

TWO_CORES = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")


def the_run():
    loader = importlib.machinery.SourceFileLoader("bench_run", str(ROOT / "bench/run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_run", loader))
    loader.exec_module(module)
    return module


@TWO_CORES
def test_from_arguments_to_report(tmp_path):
    book, page = tmp_path / "ledger.jsonl", tmp_path / "page.md"
    done = subprocess.run([ROOT / "bench/run", "--quick", "--parts", "micro", "--build", PROGRAMS.parent, "--ledger", book,
                           "--report", page], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    *lines, end = [json.loads(line) for line in book.read_text().splitlines()]
    assert (end["ended"], end["parts"], end["failed"]) == ("micro", ["micro"], None)
    assert {line["part"] for line in lines} == {"micro"} and len({line["arm"] for line in lines}) >= 10
    assert all(line["commit"] and line["versions"]["doorward"].startswith("doorward") for line in lines)
    assert "control path: forward-94, p50" in done.stdout and "| forward-94 |" in page.read_text()


def test_what_is_no_part_is_refused(tmp_path):
    done = subprocess.run([ROOT / "bench/run", "--parts", "nonsense", "--ledger", tmp_path / "l"], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 2 and "unknown parts ['nonsense']" in done.stderr and not (tmp_path / "l").exists()


class Book:
    """A ledger that keeps what it is given."""

    def __init__(self):
        self.lines = []

    def add(self, line):
        self.lines.append(line)
        return line


def test_a_run_that_raises_is_a_rejected_line_and_the_next_one_follows():
    def run(name):
        if name == "doorward, bad":
            raise ZeroDivisionError("of ours")
        if name == "doorward, ill":
            raise RuntimeError("does not answer")
        return {"rejected": None}

    bench = measure.Bench(None, Book(), True)
    bench.spare_s = -1
    bench.each("cost", ["doorward, bad", "doorward", "doorward, ill"], 2, run)
    said = {(line["arm"], line["rejected"]) for line in bench.lines}
    assert said == {("doorward", None), ("doorward, bad", "ZeroDivisionError: of ours"), ("doorward, ill", "does not answer")}
    assert len(bench.lines) == 6
    assert bench.lacking == {"cost"}
    assert bench.short == ["cost, doorward, bad: 0 of 2 runs count", "cost, doorward, ill: 0 of 2 runs count"]


def test_there_are_more_repetitions_where_runs_are_rejected_while_there_is_time():
    fates = iter(["late", None, None, None])
    bench = measure.Bench(None, Book(), True)
    bench.each("cost", ["doorward"], 2, lambda _: {"rejected": next(fates)})
    assert [line["rejected"] for line in bench.lines] == ["late", None, None] and not bench.short and not bench.lacking


def test_a_part_that_fails_is_told_and_the_next_one_follows(capsys):
    run, bench = the_run(), measure.Bench(None, Book(), True)

    def fails(b):
        b.add(part="one", arm="doorward", repetition=0, rejected=None)
        raise KeyError("what is not there")

    run.PARTS = {"one": (fails, 1, 1), "two": (lambda b: b.add(part="two half", arm="a", repetition=0, rejected=None), 1, 1)}
    assert run.measure(bench, ["one", "two"], False) == ["one: KeyError: 'what is not there'"]
    ends = [line for line in bench.ledger.lines if "ended" in line]
    assert [(line["ended"], line["parts"], line["failed"]) for line in ends] == [
        ("one", ["one"], "KeyError: 'what is not there'"), ("two", ["two half"], None)]
    assert "== two: planned 1 s" in capsys.readouterr().out


@pytest.mark.parametrize("quick", [False, True])
def test_the_plan_is_within_its_bounds(quick):
    run = the_run()
    spare = 0 if quick else measure.SPARE_S
    assert sum(run.planned(name, quick) for name in run.PARTS) + spare <= run.MOST_S[quick]


def of_session(leader):
    """The processes of its session that run."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(pid))
    return found


@TWO_CORES
def test_told_to_end_it_leaves_nothing_behind(tmp_path):
    if not (PROGRAMS.parent / "doorward").exists():
        pytest.skip("no doorward beside the measuring programs")
    book = tmp_path / "ledger.jsonl"
    with open(tmp_path / "out", "wb") as out:
        process = subprocess.Popen([ROOT / "bench/run", "--quick", "--parts", "miss,users", "--build", PROGRAMS.parent,
                                    "--ledger", book, "--report", tmp_path / "page.md"], stdout=out, stderr=out,
                                   start_new_session=True, env=dict(os.environ, TMPDIR=str(tmp_path)))
    until = time.monotonic() + 120
    while not (book.exists() and book.read_text().count("\n")) or len(of_session(process.pid)) < 5:
        assert process.poll() is None and time.monotonic() < until, (tmp_path / "out").read_text()
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    assert of_session(process.pid) == [] and not list(tmp_path.glob("doorward-bench-*"))
    assert all(json.loads(line)["run"] for line in book.read_text().splitlines())
