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
    assert rows["CPU per request ÷ haproxy"][2:6] == ("1.10 (1.00–1.10)", "at most 1.00", "missed", "cost, lines 1–7")
    assert rows["CPU per request ÷ nginx"][2:5] == ("0.22", "at most 0.75", "met")
    assert rows["CPU per request ÷ nginx auth_request"][2:5] == ("–", "at most 0.60", "not measured")
    assert rows["unique URLs, stub engine: CPU per request, µs"][4:] == ("not measured", "", "this part was not run")
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


def ended(part, run, failed=None, mode="full", lacking=()):
    return dict(COMMON, ended=part, parts=[part], lacking=list(lacking), failed=failed, took_s=1, run=run, mode=mode)


def test_of_each_part_the_last_run_that_came_to_its_end_is_shown(tmp_path):
    lines = [priced("doorward", 1, run="1"), ended("cost", "1"), priced("doorward", 2, run="2"), ended("cost", "2"),
             priced("doorward", 3, run="3"), ended("cost", "3", failed="OSError: no more files"),
             priced("doorward", 4, run="4"),  # and was stopped
             priced("doorward", 8, run="7", rejected="late"), ended("cost", "7", lacking=["cost"]),
             priced("doorward", 5, run="5", mode="quick"), ended("cost", "5", mode="quick"),
             line(part="unique", run="6", cpu_us=7, rps=10, p50_us=1, commit="b" * 40)]
    figures = Figures(lines)
    assert figures.values("cost", "doorward", "cpu_us") == [2] and not figures.lacks("2", "cost")
    assert figures.values("unique", "doorward", "cpu_us") == [7] and figures.lacks("6", "unique") == "did not come to its end"
    assert figures.lacks("7", "cost") == "too few runs count"
    text, _, rows = verdicts(lines, tmp_path)
    assert "| cost | 2 | `000000000000` | 3–3 | 1 | 0 | full |" in text
    assert "| unique | 6 | `bbbbbbbbbbbb` | 12–12 | 1 | 0 | full, did not come to its end |" in text
    assert rows["unique URLs, stub engine: CPU per request, µs"][2:6] == ("7", "at most 180", "met", "unique, lines 12–12")


def test_nothing_that_lacks_costs_the_report(tmp_path):
    """Each part with arms of which no run counts, and nothing at all."""
    arms = {"cost": "doorward", "wait 2000": "direct", "trial": "doorward", "sustained": "doorward", "users": "doorward: cached",
            "chain": "doorward: nothing", "chain wait": "doorward: nothing", "unique": "doorward", "miss": "doorward: known",
            "micro": "forward-94", "memory": "doorward: at start", "growth": "doorward: routes: 10",
            "scaling cached": "doorward: 1"}
    bad = [line(part=part, arm=arm, rejected="it was late") for part, arm in arms.items()]
    bad.append(line(part="growth", arm="doorward: routes: 100", rejected="it was late"))
    for lines in (bad, bad[:1], [{}]):
        text, _, rows = verdicts(lines, tmp_path)
        assert "Could not be told" not in text and {row[4] for row in rows.values()} == {"not measured"}
    _, _, rows = verdicts(bad, tmp_path)
    assert rows["CPU per request ÷ haproxy"][6] == "rejected: it was late"


def test_what_a_second_worker_brings_is_held_against_what_could_come(tmp_path):
    def one(arm, n, rps, cpu_us, others=20):
        return line(part="scaling unique", arm=f"{arm}: {n}", rps=rps, cpu_us=cpu_us, load_us=others / 2, stubs_us=others / 2)

    peer = "nginx auth_request, asked"
    lines = [one("doorward", 1, 10000, 100), one("doorward", 2, 16000, 103), one(peer, 1, 10000, 100), one(peer, 2, 12000, 120)]
    text, plots, rows = verdicts(lines, tmp_path)
    xml.dom.minidom.parseString(plots["scaling"])
    assert rows["unique: CPU per request, 2 workers ÷ 1"][2:5] == ("1.03", "at most 1.05", "met")
    # two cores, 120 µs for each request: 16,667 a second at most, 1.67 times the rate of one
    assert rows["unique: rate, 2 workers ÷ 1, of what two cores leave"][2:5] == ("0.96", "at least 0.90", "met")
    assert rows[f"unique: rate, 2 workers ÷ 1, ÷ that of {peer}"][2] == "1.33"
    assert "| doorward: 2 | 16,000 | 103.0 | 10.0 | 10.0 | 1.60 | 1.67 |" in text


def test_an_unknown_path_is_held_against_the_same_policy_asked_of_opa(tmp_path):
    def one(engine, cpu_us, opa_us, added):
        return line(part="embedded", arm=f"doorward: cwms: {engine}", cpu_us=cpu_us, opa_us=opa_us, all_us=cpu_us + opa_us,
                    rps=1e6 / cpu_us, single_p50_us=added + 60, single_p99_us=2 * added, added_us=added, single_all_us=cpu_us + opa_us + 50)

    lines = [one("embedded", 80, 0, 140), one("OPA, loopback", 100, 340, 400), one("OPA, UNIX socket", 90, 300, 380)]
    text, plots, rows = verdicts(lines, tmp_path)
    assert rows["cwms: an unknown path, CPU in all, µs"][2:5] == ("80", "at most 150", "met")
    assert rows["cwms: p50 over that of a known path, µs"][2:5] == ("140", "at most 150", "met")
    assert rows["cwms: OPA, loopback ÷ embedded, CPU in all"][2:5] == ("5.5", "at least 5.0", "met")
    assert rows["cwms: OPA, UNIX socket ÷ embedded, CPU in all"][2:5] == ("4.9", "at least 5.0", "missed")
    assert "| cwms: OPA, loopback | 100 | 340 | 5.5 | 10,000 | 460 | 800 | 400 | 490 |" in text
    xml.dom.minidom.parseString(plots["embedded"])


def test_a_rate_that_load_and_api_kept_down_says_nothing(tmp_path):
    def at(arm, rps, cpu_s):
        return dict(priced(arm, 10), rps=rps, cpu_s=cpu_s)

    _, _, rows = verdicts([at("haproxy", 100, 1), at("doorward", 90, 0.8)], tmp_path)
    assert rows["req/s on one core ÷ haproxy"][2:5] == ("0.90", "–", "no verdict")
    assert "80% of its core" in rows["req/s on one core ÷ haproxy"][6]
    _, _, rows = verdicts([at("haproxy", 100, 1), at("doorward", 90, 1)], tmp_path)
    assert rows["req/s on one core ÷ haproxy"][2:5] == ("0.90", "at least 1.00", "missed")


def test_added_is_the_difference_in_the_same_repetition(tmp_path):
    def waited(arm, repetition, p50):
        steps = {"counts": [[int(p50 * 1000), 10]], "overflow": 0, "max_us": p50}
        return line(part="wait 2000", arm=arm, repetition=repetition, p50_us=p50, p95_us=p50, p99_us=p50,
                    said={"latency": steps})

    lines = [waited(arm, i, base + more) for i, base in enumerate((100, 200, 300))
             for arm, more in (("direct", 0), ("haproxy", 60 + i), ("doorward", 50 + i))]
    _, plots, rows = verdicts(lines, tmp_path)
    assert rows["added p50 at 2000/s, µs"][2:5] == ("51 (50–52)", "at most 61", "met")
    assert rows["overhead: added p50 at 2000/s, ms"][2:5] == ("0.051 (0.050–0.052)", "at most 0.200", "met")
    xml.dom.minidom.parseString(plots["wait-2000"])


def test_the_report_stands_between_its_marks_with_the_ledgers_digest(tmp_path, capsys):
    path, page = tmp_path / "ledger.jsonl", tmp_path / "performance.md"
    path.write_text(json.dumps(priced("doorward", 10)) + "\n")
    report.write(path, page)
    page.write_text("# Mine\n\n" + page.read_text().split("# Performance\n\n")[1] + "\nafter it\n")
    path.write_text(path.read_text() + json.dumps(priced("haproxy", 10)) + "\n")
    assert report.write(path, page) == 0
    text = page.read_text()
    assert text.startswith("# Mine\n\n<!-- measured") and text.endswith("\nafter it\n") and text.count("### Goals") == 1
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


def test_a_line_that_was_cut_off_spoils_no_other(tmp_path, capsys):
    path = tmp_path / "ledger.jsonl"
    path.write_text('{"arm": "a"}\n{"arm": "b", "sa')
    ledger.Ledger(path, COMMON).add({"arm": "c"})
    assert [one.get("arm") for one in ledger.read(path)] == ["a", None, "c"]
    assert "ledger.jsonl:2: cut off" in capsys.readouterr().err


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
