"""bench/run from its arguments to the report, with the one part that needs no other programs."""

import json
import os
import subprocess

import pytest

from conftest import PROGRAMS, ROOT


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_from_arguments_to_report(tmp_path):
    book, page = tmp_path / "ledger.jsonl", tmp_path / "page.md"
    done = subprocess.run([ROOT / "bench/run", "--quick", "--parts", "micro", "--build", PROGRAMS.parent, "--ledger", book,
                           "--report", page], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in book.read_text().splitlines()]
    assert {line["part"] for line in lines} == {"micro"} and len({line["arm"] for line in lines}) >= 10
    assert all(line["commit"] and line["versions"]["doorward"].startswith("doorward") for line in lines)
    assert "guard: forward-94, p50" in done.stdout and "| forward-94 |" in page.read_text()


def test_what_is_no_part_is_refused(tmp_path):
    done = subprocess.run([ROOT / "bench/run", "--parts", "nonsense", "--ledger", tmp_path / "l"], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 2 and "unknown parts ['nonsense']" in done.stderr and not (tmp_path / "l").exists()
