"""The pages made from the tables in the code are those in docs/."""
import json
import os
import re
import subprocess

import pytest
import yaml

from certificates import Authority
from harness import BIN, ROOT, run_once

PAGES = {
    "--print-options": "docs/options.md",
    "--print-sample": "docs/sample.yaml",
    "--print-reasons": "docs/reasons.md",
    "--print-metrics": "docs/metrics.md",
}


@pytest.mark.parametrize("option, page", PAGES.items())
def test_page_is_what_the_program_prints(option, page):
    printed = subprocess.run([BIN, option], capture_output=True, check=True, timeout=20)
    with open(os.path.join(ROOT, page), encoding="utf-8") as kept:
        assert printed.stdout.decode() == kept.read(), f"make docs: {page} is not what doorward {option} prints"


def test_sample_is_a_valid_configuration():
    checked = subprocess.run([BIN, "--check", "--config", os.path.join(ROOT, "docs/sample.yaml")], capture_output=True, timeout=20)
    assert checked.returncode == 0, checked.stderr.decode()


def blocks(language, page="README.md"):
    with open(os.path.join(ROOT, page), encoding="utf-8") as page:
        return [text for of, text in re.findall(r"^```(\w*)\n(.*?)^```$", page.read(), re.M | re.S) if of == language]


@pytest.mark.skipif("regorus" not in run_once("--version")[1], reason="this build has no policy engine in it")
def test_first_example_of_the_readme(tmp_path):
    """Each line of what is said to be printed is printed, in that order."""
    (tmp_path / "door.yaml").write_text(blocks("yaml")[0])
    (tmp_path / "door.rego").write_text(blocks("rego")[0])
    said = next(text for text in blocks("") if "ann.json" in text)
    commands = re.split(r"^\$ ", said, flags=re.M)[1:]
    assert len(commands) == 3
    for command in commands:
        command, _, expected = command.partition("\n")
        ran = subprocess.run(command.replace("doorward", BIN, 1) if command.startswith("doorward") else command, shell=True,
                             cwd=tmp_path, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False,
                             timeout=20)
        assert ran.stderr == ""
        printed = iter(ran.stdout.splitlines())
        for line in expected.splitlines():
            assert line in printed, f"{command} does not print {line!r} there"


@pytest.mark.skipif("regorus" not in run_once("--version")[1], reason="this build has no policy engine in it")
@pytest.mark.parametrize("roles, outcome", [(["reader"], "allowed"), (["writer"], "refused")])
def test_first_example_of_the_page_on_policies(tmp_path, roles, outcome):
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "example.rego").write_text(blocks("rego", "docs/policies.md")[0])
    (tmp_path / "doorward.yaml").write_text(blocks("yaml", "docs/policies.md")[0])
    (tmp_path / "claims.json").write_text(json.dumps({"iss": "https://id.example", "aud": "api", "sub": "ann", "roles": roles}))
    ran = subprocess.run([BIN, "eval", "--config", "doorward.yaml", "--claims", "claims.json", "--json", "GET", "/things"], cwd=tmp_path,
                         env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False, timeout=20)
    said = json.loads(ran.stdout)
    assert said["outcome"] == outcome, ran.stdout
    # and what that page says of the input
    assert said["input"].keys() == {"user", "token", "resource", "action", "request", "context"}
    assert said["input"]["request"].keys() == {"method", "path", "segments", "query", "host", "id"}
    assert {"id", "username", "authenticated", "issuer", "roles"} == said["input"]["user"].keys()


def test_configurations_in_the_readme_are_valid(tmp_path):
    """The third one there is the second with TLS, more addresses and sentinels: it stands in place of its parts."""
    first, second = [yaml.safe_load(text) for text in blocks("yaml")[1:]]
    authority = Authority(tmp_path)
    names = dict(zip(("chain.pem", "key.pem"), authority.issue("doorward.test")), **{"api-ca.pem": authority.file})
    whole = json.dumps({**first, **second})
    for name, file in names.items():
        assert f'"{name}"' in whole
        whole = whole.replace(f'"{name}"', json.dumps(str(file)))
    for config in json.dumps(first), whole:
        status, _, said = run_once("--check", config=config, env={"REDIS_PASSWORD": "x"})
        assert status == 0 and not said, said
