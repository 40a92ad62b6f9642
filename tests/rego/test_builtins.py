"""Every built-in function that OPA has: in the corpus, where both engines give the same answers, or refused at load with
file and line. None is an error of a request."""
import json
import random
import re
import subprocess

import corpus
import engines
import pytest

# What the compiler makes of the language itself: `in`, print statements, cases of tests.
OF_THE_COMPILER = {"internal.member_2", "internal.member_3", "internal.print", "internal.test_case"}
ODD = [None, True, False, 0, 1, -1, 2.5, 10**20, "", "a", "1", "é\U0001f600", "2026-03-10T12:30:00Z", "[", "10.0.0.0/30", [], [1, 2],
       ["a", "b"], [["a"]], [None], {}, {"a": 1}, {"a": ["b"], "b": []}, [{"op": "add", "path": "/a", "value": 1}], "UTC", "{}"]
TRIES = 150


def capabilities():
    done = subprocess.run([engines.program(), "capabilities", "--current"], capture_output=True, check=True)
    return {each["name"]: each for each in json.loads(done.stdout)["builtins"]}


def in_corpus(builtin, text):
    symbol = {"eq": "=", "assign": ":="}.get(builtin["name"]) or builtin.get("infix")
    return bool(symbol and f" {symbol} " in text) or bool(re.search(rf"(?<![\w.]){re.escape(builtin['name'])}\(", text))


def call(builtin):
    """A policy that calls it with what the input gives."""
    arguments = ", ".join(f"input[{i}]" for i in range(len(builtin["decl"].get("args", []))))
    return f"package one\n\nvalue := x if {{\n\tx := {builtin['name']}({arguments})\n}}\n"


@pytest.fixture(scope="module")
def builtins():
    return {name: each for name, each in capabilities().items() if name not in OF_THE_COMPILER}


@pytest.fixture(scope="module")
def covered(builtins):
    text = "\n".join(corpus.source(name) for name in corpus.NAMES)
    return {name for name, each in builtins.items() if in_corpus(each, text)}


def test_each_is_compared_or_refused(builtins, covered, tmp_path):
    refused = set(corpus.known()["builtins"])
    assert sorted(builtins.keys() - covered - refused) == [], "neither in the corpus nor listed as refused"
    assert sorted(refused - builtins.keys()) == [], "OPA has not these"
    assert sorted(refused & covered) == []
    print(f"{len(covered)} of {len(builtins)} built-in functions compared, {len(refused)} refused at load")
    for name in sorted(refused):
        file = tmp_path / "one.rego"
        file.write_text(call(builtins[name]))
        error = engines.load_error([str(file)], "data.one.value")
        assert error and re.search(r"one\.rego:4", error), f"{name}: {error}"


def test_odd_arguments_are_no_errors(builtins, covered, tmp_path):
    """Whatever a request puts into a call, the outcome is a value or none, but for what known.json has as errors."""
    failing = set()
    made = random.Random(7)
    for name in sorted(covered):
        if "infix" in builtins[name] or name in ("eq", "assign", "print", "walk"):  # walk is no value: refused/
            continue
        file = tmp_path / "one.rego"
        file.write_text(call(builtins[name]))
        n = len(builtins[name]["decl"].get("args", []))
        odd = [value for value in ODD if value != 10**20 or not name.startswith("numbers.range")]
        lines = [json.dumps(made.choices(odd, k=n)) for _ in range(TRIES)]
        answers = engines.ours([str(file)], ["data.one.value"], lines)
        assert isinstance(answers, list), f"{name}: {answers}"
        odd_answers = [answer for (answer,) in answers if "result" not in answer and answer != engines.UNDEFINED]
        failing |= {name} if odd_answers else set()
    assert failing == set(corpus.known()["failing"])
