"""The pages made from the tables in the code are those in docs/."""
import os
import subprocess

import pytest

from harness import BIN, ROOT

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
