"""The policies of this tree, answered by both engines for thousands of inputs: every rule of their packages, interpreted in
one question, and each by itself, compiled, as the proxy asks. REGO_SEED=n tries others."""
import glob
import os
import re
from concurrent.futures import ThreadPoolExecutor

import engines
import inputs
import pytest

SEED = int(os.environ.get("REGO_SEED", "20260310"))
INPUTS = 10000
PARTS = 2  # as many at a time
PACKAGES = ["cwms", "example"]


def rules_of(files):
    """Names of what is no function."""
    text = "\n".join(open(file, encoding="utf-8").read() for file in files)
    return sorted(set(re.findall(r"^(?:default )?([a-z]\w*)(?= |\[)(?! *\()", text, re.M)) - {"package", "import", "default"})


def copied(name, folder):
    """The policy with a clock that the input sets, and a rule over all its rules."""
    files = []
    for file in sorted(glob.glob(os.path.join(engines.ROOT, "policies", name, "*.rego"))):
        if file.endswith("_test.rego"):
            continue
        with open(file, encoding="utf-8") as original:
            text = original.read().replace("time.now_ns()", "input.at")
        files.append(os.path.join(folder, f"{name}_{os.path.basename(file)}"))
        with open(files[-1], "w", encoding="utf-8") as copy:
            copy.write(text)
    names = rules_of(files)
    files.append(os.path.join(folder, f"{name}_all.rego"))
    with open(files[-1], "w", encoding="utf-8") as wrapper:
        wrapper.write(f"package differential.{name}\n\n")
        wrapper.writelines(f'rules[name] := data.{name}.authz.{rule} if name := "{rule}"\n\n' for rule in names)
    return files, names


@pytest.fixture(scope="module")
def policies(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("policies"))
    return folder, {name: copied(name, folder) for name in PACKAGES}


@pytest.fixture(scope="module")
def servers(policies):
    started = [engines.Opa(policies[0]) for _ in range(PARTS)]
    yield started
    for server in started:
        server.stop()


@pytest.mark.parametrize("name", PACKAGES)
def test_every_rule(policies, servers, name):
    print(f"REGO_SEED={SEED}")
    files, names = policies[1][name]
    every, each = f"data.differential.{name}.rules", [f"data.{name}.authz.{rule}" for rule in names]
    lines = inputs.lines(SEED, INPUTS)
    assert all(one["compiled"] for one in engines.loads(files, each)), "each rule by itself goes through the register machine"

    def differences(part):
        found = []
        mine = lines[part::PARTS]
        answers = engines.ours(files, [every, *each], mine)
        assert isinstance(answers, list), answers
        for line, (ours_all, *ours_each) in zip(mine, answers):
            opa = servers[part].ask(every, line)
            compiled = {"result": {rule: one["result"] for rule, one in zip(names, ours_each) if "result" in one}}
            failed = [one for one in ours_each if one.keys() - {"result", "undefined"}]
            if failed or not engines.agree(opa, ours_all, True) or not engines.agree(opa, compiled, True):
                found.append(tell(line, opa, ours_all, failed or compiled))
        return found

    with ThreadPoolExecutor(PARTS) as pool:
        found = sum(pool.map(differences, range(PARTS)), [])
    assert not found, f"{len(found)} of {len(lines)} differ (REGO_SEED={SEED}), the first:\n" + "\n".join(found[:5])
    assert "allow" in names and len(lines) == INPUTS


def tell(line, opa, ours_all, compiled):
    if all("result" in one for one in (opa, ours_all, compiled) if isinstance(one, dict)) and isinstance(compiled, dict):
        three = [one["result"] for one in (opa, ours_all, compiled)]
        where = {key: [one.get(key, "undefined") for one in three] for key in set().union(*three)}
        odd = {key: said for key, said in where.items() if not all(engines.same(said[0], one, True) for one in said[1:])}
        return f"{line}\n   OPA, interpreted, compiled: {odd}"
    return f"{line}\n   OPA: {opa}\n   interpreted: {ours_all}\n   compiled: {compiled}"
