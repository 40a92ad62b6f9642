"""The pages of docs/ that are made from the tables here are in step with them."""
import os

import failures
import results


def test_failures():
    with open(os.path.join(results.ROOT, "docs", "failures.md"), encoding="utf-8") as file:
        assert file.read() == failures.page(), "make docs: docs/failures.md is not what tests/chaos/failures.py says"


def test_reliability():
    with open(os.path.join(results.ROOT, "docs", "reliability.md"), encoding="utf-8") as file:
        assert file.read() == results.page(results.kept()), "make docs: docs/reliability.md is not made of its results"
