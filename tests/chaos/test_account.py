"""The accountant sees what must not be: a test that cannot fail proves nothing."""
import json

import pytest

from account import Account
from load import Row


def row(id, kind="cached", status=200, how="ok"):
    return Row(id, kind, status, 1.0, 1, how, 0.0)


def line(id, status=200, decision="allow", reason="forwarded", **more):
    return {"event": "request", "request_id": id, "status": status, "reason": reason, "decision": decision, **more}


def account(tmp_path, rows, lines, arrived):
    record = tmp_path / "record"
    record.write_text("".join(f"{id} GET {path} {grants} a\n" for id, path, grants in arrived))
    text = "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in lines).encode()
    return Account(rows, [text], record)


PATH = "/cwms-data/timeseries/a"
GOOD = ([row("c-1"), row("c-2", "denied", 403)],
        [line("c-1"), line("c-2", 403, "deny", "policy_denied"), {**line("x-1", reason="answered"), "decision": None}],
        [("c-1", PATH, 1)])


def test_all_is_well(tmp_path):
    seen = account(tmp_path, *GOOD)
    seen.check_log(died=False)
    seen.check_allowed()
    seen.check_metrics({'reason="forwarded"': 1.0, 'reason="policy_denied"': 1.0})


@pytest.mark.parametrize("rows, lines, arrived", [
    (GOOD[0], GOOD[1], [*GOOD[2], ("c-2", PATH, 1)]),
    (GOOD[0], [line("c-1", decision="deny"), GOOD[1][1]], GOOD[2]),
    (GOOD[0], GOOD[1], [("c-1", PATH, 0)]),
    (GOOD[0], GOOD[1], [("c-1", PATH, 2)]),
    (GOOD[0], GOOD[1], [*GOOD[2], *GOOD[2]]),
    (GOOD[0], GOOD[1], []),
    (GOOD[0], GOOD[1][1:], GOOD[2]),
], ids=["forwarded and denied", "no allow", "no grant", "two grants", "twice", "never arrived", "no line"])
def test_what_reached_the_api(tmp_path, rows, lines, arrived):
    with pytest.raises(AssertionError):
        account(tmp_path, rows, lines, arrived).check_allowed()


@pytest.mark.parametrize("rows, lines", [
    (GOOD[0], GOOD[1][1:]),
    (GOOD[0], [*GOOD[1], line("c-1")]),
    (GOOD[0], [line("c-1", 503), GOOD[1][1]]),
    (GOOD[0], [*GOOD[1], line("c-9")]),
    ([*GOOD[0], row("c-3", status=0, how="broken")], GOOD[1]),
], ids=["no line", "two lines", "another status", "of nobody", "broken off without a line"])
def test_the_log(tmp_path, rows, lines):
    with pytest.raises(AssertionError):
        account(tmp_path, rows, lines, GOOD[2]).check_log(died=False)


def test_the_metrics(tmp_path):
    with pytest.raises(AssertionError):
        account(tmp_path, *GOOD).check_metrics({'reason="forwarded"': 2.0, 'reason="policy_denied"': 1.0})
