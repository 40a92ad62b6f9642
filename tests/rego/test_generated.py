"""Policies made by chance, answered by both engines, each rule asked for by itself: what is plain enough for the register
machine must have OPA's answer, whatever it is made of; and so must what only the interpreter evaluates, but for errors.
REGO_SEED=n tries others."""
import json
import os
import subprocess

import engines
import generated
import pytest

SEED = int(os.environ.get("REGO_SEED", "20260310"))
POLICIES = int(os.environ.get("REGO_POLICIES", "400"))
LOOSE = POLICIES // 2
INPUTS = 24


def taken_by_opa(folder):
    """The files that OPA compiles: those it refuses are removed."""
    said = subprocess.run([engines.program(), "check", "--format", "json", "--max-errors", "100000", folder], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False).stdout.decode()
    for error in json.loads(said).get("errors", []) if said.strip() else []:
        for file in (error["location"]["file"], error["location"]["file"].replace("_other.rego", ".rego")):
            if os.path.exists(file):
                os.remove(file)
    return {file[:-5] for file in os.listdir(folder)}


@pytest.fixture(scope="module")
def policies(tmp_path_factory):
    """(folder, [(name, rules)]) of those that both engines take."""
    folder = str(tmp_path_factory.mktemp("generated"))
    made = generated.policies(SEED, POLICIES)
    for name, text, _ in made:
        with open(os.path.join(folder, name + ".rego"), "w", encoding="utf-8") as file:
            file.write(text)
    taken = taken_by_opa(folder)
    taken = taken_by_opa(folder) if len(taken) < POLICIES else taken  # an error can hide another
    return folder, [(name, rules) for name, _, rules in made if name in taken]


@pytest.fixture(scope="module")
def opa(policies):
    server = engines.Opa(policies[0])
    yield server
    server.stop()


def test_same_answers(policies, opa):
    print(f"REGO_SEED={SEED}")
    folder, named = policies
    lines = generated.inputs(SEED, INPUTS)
    found, asked, compiled, failed = [], 0, 0, 0
    for name, rules in named:
        file = os.path.join(folder, name + ".rego")
        paths = [f"data.{name}.{rule}" for rule in rules]
        loads = engines.loads([file], paths)
        if "error" in loads[0]:
            continue
        asked += len(paths)
        compiled += sum(one["compiled"] for one in loads)
        for line, row in zip(lines, engines.ours([file], paths, lines)):
            for path, mine, load in zip(paths, row, loads):
                if "error" in mine and not load["compiled"]:
                    failed += 1  # arithmetic on what is no number fails where it is interpreted: docs/rego.md
                    continue
                real = opa.ask(path, line)
                if not engines.agree(real, mine):
                    found.append(f"{path} ({'compiled' if load['compiled'] else 'interpreted'})\n   input {line}\n   OPA   {real}\n"
                                 f"   ours  {mine}\n{open(file, encoding='utf-8').read()}")
    print(f"{len(named)} policies, {asked} rules, {compiled} of them compiled, {failed} answers failed")
    assert not found, f"{len(found)} differ (REGO_SEED={SEED}), the first:\n" + "\n".join(found[:3])
    assert asked > 2 * POLICIES and compiled > asked / 4


@pytest.fixture(scope="module")
def loose_policies(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("loose"))
    made = generated.loose_policies(SEED, LOOSE)
    for name, texts, _ in made:
        for suffix, text in zip(["", "_other"], texts):
            with open(os.path.join(folder, f"{name}{suffix}.rego"), "w", encoding="utf-8") as file:
                file.write(text)
    taken, before = taken_by_opa(folder), 2 * LOOSE
    while len(taken) < before:
        taken, before = taken_by_opa(folder), len(taken)
    return folder, [(name, rules) for name, _, rules in made if rules and {name, name + "_other"} <= taken]


@pytest.fixture(scope="module")
def loose_opa(loose_policies):
    server = engines.Opa(loose_policies[0])
    yield server
    server.stop()


def unordered(value):
    """Sets and objects have another order in OPA: docs/rego.md."""
    if isinstance(value, list):
        return sorted((unordered(one) for one in value), key=lambda one: json.dumps(one, default=str, sort_keys=True))
    return {key: unordered(one) for key, one in value.items()} if isinstance(value, dict) else value


def test_loose_policies_have_the_same_answers(loose_policies, loose_opa):
    print(f"REGO_SEED={SEED}")
    folder, named = loose_policies
    lines = generated.loose_inputs(SEED, INPUTS // 2)
    found, asked, refused, failed = [], 0, 0, 0
    for name, rules in named:
        files = [os.path.join(folder, f"{name}{suffix}.rego") for suffix in ("", "_other")]
        paths = [f"data.{name}.{rule}" for rule in rules]
        if engines.load_error(files, paths[0]):
            refused += 1
            continue
        asked += len(paths)
        for line, row in zip(lines, engines.ours(files, paths, lines)):
            for path, mine in zip(paths, row):
                if "error" in mine:
                    failed += 1  # the evaluation fails sooner than OPA's: docs/rego.md
                    continue
                real = loose_opa.ask(path, line)
                if "error" in real and mine == engines.UNDEFINED:
                    continue  # the engine need not have looked at the rules that disagree
                if not engines.agree(unordered(real), unordered(mine)):
                    found.append(f"{path}\n   input {line}\n   OPA   {real}\n   ours  {mine}\n{open(files[0], encoding='utf-8').read()}")
    print(f"{len(named)} policies, {refused} refused, {asked} rules, {failed} answers failed")
    assert not found, f"{len(found)} differ (REGO_SEED={SEED}), the first:\n" + "\n".join(found[:3])
    assert asked > LOOSE / 2 and failed < asked * len(lines) / 10 and refused < len(named) / 4
