import os

import engines
import page


def test_page():
    with open(os.path.join(engines.ROOT, "docs", "rego.md"), encoding="utf-8") as file:
        assert file.read() == page.page(), "make docs: docs/rego.md is not what tests/rego/known.json says"
