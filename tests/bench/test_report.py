"""The report says what the ledger holds and nothing else; runs that do not count are in the ledger, and only there."""

import hashlib
import json
import xml.dom.minidom

import pytest

import histogram
import ledger
import measure
import report
from figures import Figures

COMMON = {"host": "h", "kernel": "k", "cpu": "c", "cores": 2, "commit": "0" * 40, "dirty": False, "flags": "-O2",
          "versions": {"doorward": "doorward 1"}}


def line(part="cost", arm="doorward", repetition=0, mode="full", run="2026-01-01", rejected=None, **values):
    return dict(COMMON, part=part, arm=arm, repetition=repetition, mode=mode, run=run, rejected=rejected, **values)


def priced(arm, cpu_us, **more):
    return line(arm=arm, cpu_us=cpu_us, rps=1e6 / cpu_us, rss_kib=10240, cpu_s=0.9, used_s=1, **more)


def verdicts(lines, tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    text, plots, rows = report.make(path)
    return text, plots, {row[1]: row for row in rows}


def test_ratios_are_of_pairs_and_verdicts_follow(tmp_path):
    lines = [priced("haproxy", 20, repetition=0), priced("haproxy", 40, repetition=1), priced("haproxy", 30, repetition=2),
             priced("doorward", 22, repetition=0), priced("doorward", 40, repetition=1), priced("doorward", 33, repetition=2),
             priced("nginx", 100, repetition=0)]
    text, plots, rows = verdicts(lines, tmp_path)
    assert rows["CPU per request ÷ haproxy"][2:6] == ("1.10", "at most 1.00", "missed", "1.10 (1.00–1.10)")
    assert rows["CPU per request ÷ nginx"][2:5] == ("0.22", "at most 0.75", "met")
    assert rows["CPU per request ÷ nginx auth_request"][2:5] == ("–", "at most 0.60", "not measured")
    assert "| doorward | 33.0 (22.0–40.0) |" in text
    xml.dom.minidom.parseString(plots["cost"])


def test_what_was_rejected_counts_nowhere_and_is_said(tmp_path):
    lines = [priced("haproxy", 20), priced("doorward", 10), priced("doorward", 1, repetition=1, rejected="the generator was late")]
    text, _, rows = verdicts(lines, tmp_path)
    assert rows["CPU per request ÷ haproxy"][2] == "0.50"
    assert "| cost | doorward | the generator was late | 1 |" in text and "3 runs of arms, 1 of them rejected" in text


def test_the_newest_full_run_of_each_part_is_shown():
    lines = [priced("doorward", 1, run="1", mode="full"), priced("doorward", 2, run="2", mode="full"),
             priced("doorward", 3, run="3", mode="quick"), line(part="unique", run="3", mode="quick", cpu_us=4),
             dict(COMMON, arm="doorward", cpu_us_per_request=9)]  # of before there were parts
    figures = Figures(lines)
    assert figures.values("cost", "doorward", "cpu_us") == [2]
    assert figures.values("unique", "doorward", "cpu_us") == [4]


def test_added_is_the_difference_in_the_same_repetition(tmp_path):
    def waited(arm, repetition, p50):
        steps = {"counts": [[int(p50 * 1000), 10]], "overflow": 0, "max_us": p50}
        return line(part="wait 2000", arm=arm, repetition=repetition, p50_us=p50, p95_us=p50, p99_us=p50,
                    said={"latency": steps})

    lines = [waited(arm, i, base + more) for i, base in enumerate((100, 200, 300))
             for arm, more in (("direct", 0), ("haproxy", 60 + i), ("doorward", 50 + i))]
    _, plots, rows = verdicts(lines, tmp_path)
    assert rows["added p50 at 2000/s, µs"][2:5] == ("51", "at most 61", "met")
    assert rows["reference: added p50 at 2000/s, ms"][2:5] == ("0.051", "at most 0.200", "met")
    xml.dom.minidom.parseString(plots["wait-2000"])


def test_the_report_stands_between_its_marks_with_the_ledgers_digest(tmp_path, capsys):
    path, page = tmp_path / "ledger.jsonl", tmp_path / "performance.md"
    path.write_text(json.dumps(priced("doorward", 10)) + "\n")
    report.write(path, page)
    page.write_text("# Mine\n\n" + page.read_text().split("# Performance\n\n")[1] + "\nafter it\n")
    path.write_text(path.read_text() + json.dumps(priced("haproxy", 10)) + "\n")
    assert report.write(path, page) == 0
    text = page.read_text()
    assert text.startswith("# Mine\n\n<!-- measured") and text.endswith("\nafter it\n") and text.count("### Verdicts") == 1
    assert hashlib.sha256(path.read_bytes()).hexdigest() in text
    assert "![cost](performance/cost.svg)" in text and (tmp_path / "performance/cost.svg").exists()
    assert "CPU per request ÷ haproxy" in capsys.readouterr().out


def test_the_ledger_only_grows_and_packs_histograms(tmp_path):
    path = tmp_path / "ledger.jsonl"
    book = ledger.Ledger(path, COMMON)
    book.add({"arm": "a", "said": {"latency": {"counts": [[1, 2]], "max_us": 1}}, "config": "x" * 5000})
    first = path.read_bytes()
    book.add({"arm": "b"})
    assert path.read_bytes().startswith(first)
    lines = ledger.read(path)
    assert isinstance(lines[0]["said"]["latency"]["counts"], str)
    assert histogram.counts(lines[0]["said"]["latency"]) == [[1, 2]] and lines[0]["config"] == "5000 bytes"
    assert lines[0]["config_sha256"] == hashlib.sha256(b"x" * 5000).hexdigest() and lines[1]["cpu"] == "c"


def test_histograms_are_kept_whole():
    pairs = [[0, 1], [5, 300], [2047, 1], [2048, 70000], [1_000_960, 2], [59_995_324_416, 1]]
    for lower, _ in pairs:
        assert histogram.lower_of(histogram.step_of(lower)) == lower
    kept = histogram.pack({"counts": pairs, "max_us": 6e7})
    assert histogram.counts(kept) == pairs and isinstance(kept["counts"], str)


SAID = {"scheduled": 10, "completed": 10, "errors": 0, "unfinished": 0, "connect_errors": 0, "status": {"2xx": 10},
        "latency": {"overflow": 0}, "lateness": {"p99_us": 999}, "warm": {"completed": 2, "errors": 0}}


@pytest.mark.parametrize("change,seen,why", [
    ({}, 12, None),
    ({}, None, None),
    ({}, 13, "requests at the API"),
    ({"errors": 1}, 12, "errors"),
    ({"connect_errors": 1}, 12, "at connecting"),
    ({"warm": {"completed": 1, "errors": 1}}, 12, "errors"),
    ({"completed": 9}, 11, "were due"),
    ({"unfinished": 1}, 12, "were due"),
    ({"status": {"2xx": 9, "5xx": 1}}, 12, "refusals"),
    ({"latency": {"overflow": 1}}, 12, "histogram"),
    ({"lateness": {"p99_us": 1000}}, 12, "late"),
])
def test_which_runs_count(change, seen, why):
    said = measure.why_rejected({**SAID, **change}, seen)
    assert said is None if why is None else why in said
