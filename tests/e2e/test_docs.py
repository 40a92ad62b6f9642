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


def test_configurations_in_the_readme_are_valid(tmp_path):
    """The second one there is the first with TLS, more addresses and sentinels: it stands in place of its parts."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as page:
        first, second = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", page.read(), re.S)]
    authority = Authority(tmp_path)
    names = dict(zip(("chain.pem", "key.pem"), authority.issue("doorward.test")), **{"api-ca.pem": authority.file})
    whole = json.dumps({**first, **second})
    for name, file in names.items():
        assert f'"{name}"' in whole
        whole = whole.replace(f'"{name}"', json.dumps(str(file)))
    for config in json.dumps(first), whole:
        status, _, said = run_once("--check", config=config, env={"REDIS_PASSWORD": "x"})
        assert status == 0 and not said, said
