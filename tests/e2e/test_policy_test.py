"""`doorward test`: tests of policies, with the verdicts and counts of `opa test`."""
import json
import os
import re
import subprocess

import pytest

import harness
from peers import opa_program

HAS_ENGINE = "regorus" in harness.run_once("--version")[1]
needs_engine = pytest.mark.skipif(not HAS_ENGINE, reason="built without the engine (DOORWARD_EMBEDDED_REGO)")

POLICY = "package a\n\nx := 1\n\nok(n) if n == x\n"
TESTS = """package a_test

import data.a

test_ok if a.x == 1

test_bad if a.x == 2

todo_test_later if a.x == 3

test_prints if {
	print("seen", a.x)
	a.x == 2
}

test_cases[name] if {
	some name, n in {"one": 1, "two": 2, "three": 3}
	a.ok(n)
}

test_good_cases[name] if {
	some name, n in {"one": 1, "uno": 1}
	a.ok(n)
}
"""


def run(*arguments, seconds=240):
    return harness.run_once("test", *arguments, seconds=seconds)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.rego").write_text(POLICY, encoding="utf-8")
    (tmp_path / "a_test.rego").write_text(TESTS, encoding="utf-8")
    return tmp_path


def leaves(test):
    """Of a test of OPA's: how many of its cases passed and failed; itself where it has none."""
    below = test.get("sub_results")
    if below:
        found = [leaves(one) for one in below.values()]
        return sum(p for p, _ in found), sum(f for _, f in found)
    failed = bool(test.get("fail") or test.get("error"))
    return int(not failed), int(failed)


def of_opa(*paths):
    """{name: (passed, failed)} and whether it was skipped, by the real OPA."""
    ran = subprocess.run([opa_program(), "test", "--timeout", "120s", "--format", "json", *map(str, paths)],
                         capture_output=True, check=False)
    return {f"{t['package']}.{t['name']}": "skipped" if t.get("skip") else leaves(t) for t in json.loads(ran.stdout)}


def of_us(*paths):
    code, out, err = run("--json", *map(str, paths))
    assert code in (0, 1), err
    report = json.loads(out)
    verdicts = {}
    for test in report["tests"]:
        cases, failed = test.get("cases", 1), test.get("failed_cases", int(test["outcome"] == "failed"))
        verdicts[test["name"]] = "skipped" if test["outcome"] == "skipped" else (cases - failed, failed)
    assert report["passed"] == sum(v[0] for v in verdicts.values() if v != "skipped")
    assert report["failed"] == sum(v[1] for v in verdicts.values() if v != "skipped")
    return verdicts


@needs_engine
def test_the_same_verdicts_as_opa_on_what_fails(folder):
    ours = of_us(folder)
    assert ours == of_opa(folder)
    assert ours["data.a_test.test_cases"] == (1, 2) and ours["data.a_test.todo_test_later"] == "skipped"


@needs_engine
def test_the_same_verdicts_as_opa_on_our_policies():
    policies = os.path.join(harness.ROOT, "policies")
    ours = of_us(policies)
    assert ours == of_opa(policies)
    assert sum(passed for passed, _ in ours.values()) == 332 and not any(failed for _, failed in ours.values())


@needs_engine
def test_only_what_fails_is_told(folder):
    code, out, _ = run(str(folder))
    assert code == 1
    assert re.search(rf"^data\.a_test\.test_bad: FAIL \(\d+\.\d{{3}} ms\)  {folder}/a_test\.rego:7$", out, re.M)
    assert "data.a_test.todo_test_later: SKIPPED" in out and "seen 1" in out
    assert "test_ok" not in out and "test_good_cases" not in out
    assert out.endswith("\n4 passed, 4 failed, 1 skipped\n")
    assert "data.a_test.test_ok: PASS" in run("-v", str(folder))[1]


@needs_engine
def test_all_pass(folder):
    (folder / "a_test.rego").write_text("package a_test\n\ntest_x if data.a.x == 1\n", encoding="utf-8")
    assert run(str(folder)) == (0, "1 passed, 0 failed\n", "")
    assert run(str(folder / "a.rego"), str(folder / "a_test.rego"))[0] == 0
    assert run("--run", "test_x$", str(folder))[0] == 0


@needs_engine
def test_that_none_ran_is_no_success(folder):
    code, out, _ = run(str(folder / "a.rego"))
    assert (code, out) == (1, "no test ran\n0 passed, 0 failed\n")
    assert run("--run", "nothing", str(folder))[:2] == (1, "no test ran\n0 passed, 0 failed\n")
    code, out, _ = run("--run", "later", str(folder))
    assert (code, out.splitlines()[-1]) == (1, "0 passed, 0 failed, 1 skipped"), "a test that is skipped has not passed"


@needs_engine
def test_some_by_name(folder):
    code, out, _ = run("-v", "-r", r"test_(ok|good)", str(folder))
    assert code == 0 and out.endswith("3 passed, 0 failed\n") and "test_bad" not in out


@needs_engine
def test_data_stands_where_its_folder_says(folder):
    (folder / "limits").mkdir()
    (folder / "limits" / "data.json").write_text('{"most": 7}', encoding="utf-8")
    (folder / "a_test.rego").write_text("package a_test\n\ntest_x if data.limits.most == 7\n", encoding="utf-8")
    assert run(str(folder))[0] == 0
    assert of_us(folder) == of_opa(folder)


@needs_engine
@pytest.mark.parametrize("text, place", [("package a\n\ny := \n", "a.rego:"), ("package a\n\ny := nobody\n", "a.rego:3:6")])
def test_what_does_not_load_is_named(folder, text, place):
    (folder / "a.rego").write_text(text, encoding="utf-8")
    code, out, err = run(str(folder))
    assert (code, out) == (78, "") and err.startswith(f"{folder}/{place}"), err


@needs_engine
@pytest.mark.parametrize("path, said", [("/nowhere", "no such file or folder"), ("/etc/hostname", "neither a .rego file")])
def test_what_is_not_there(path, said):
    code, out, err = run(path)
    assert (code, out) == (78, "") and err.startswith(f"doorward test: {path}: {said}")


@needs_engine
def test_a_test_that_never_ends(folder):
    (folder / "a_test.rego").write_text(
        "package a_test\n\ntest_x if count([1 | some i in numbers.range(1, 20000); some j in numbers.range(1, 20000); i == j])"
        " == 20000\n", encoding="utf-8")
    code, out, _ = run("--timeout", "1", str(folder))
    assert code == 1 and "0 passed, 1 failed" in out


@needs_engine
def test_what_a_policy_prints_is_no_command_to_the_terminal(folder):
    (folder / "a_test.rego").write_text('package a_test\n\ntest_x if {\n\tprint("\\u001b[2J")\n\tfalse\n}\n', encoding="utf-8")
    assert "\x1b" not in run(str(folder))[1]
    assert "\x1b" not in run("--json", str(folder))[1]


@pytest.mark.parametrize("arguments", [(), ("--nonsense", "a"), ("--run", "[", "a"), ("--timeout", "0", "a")])
def test_wrong_usage(arguments):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "") and err


def test_help():
    assert "--timeout" in run("--help")[1] and "doorward test" in harness.run_once("--help")[1]


@pytest.mark.skipif(HAS_ENGINE, reason="built with the engine")
def test_without_the_engine(folder):
    code, out, err = run(str(folder))
    assert (code, out) == (1, "") and "DOORWARD_EMBEDDED_REGO" in err
