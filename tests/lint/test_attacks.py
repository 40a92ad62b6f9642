"""tests/README.md says which tests hold which attack: what it names is there, and no kind stands without a test."""
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "tests" / "README.md"


def sections(text):
    """{title: [(file, [names])]}"""
    found = {}
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        title, body = part.split("\n", 1)
        named = []
        for word in re.findall(r"`([^`]+)`", body):
            if re.fullmatch(r"tests/\S+\.(py|c)", word):
                named.append((word, []))
            elif re.fullmatch(r"\w+", word) and named and (word.islower() or "_" in word):
                named[-1][1].append(word)
        found[title] = named
    return found


def faults(page, root):
    for title, named in sections(page).items():
        if not named:
            yield f"{title}: no test is named"
        for file, names in named:
            if not (root / file).is_file():
                yield f"{file} is not there"
                continue
            text = (root / file).read_text(encoding="utf-8")
            if not names and "/fuzz/" not in file:
                yield f"{file}: no test of it is named"
            run = r"def {0}\(" if file.endswith(".py") else r"^static void {0}\(void \*\*state\)"
            yield from (f"{file}: no test {name}" for name in names if not re.search(run.format(name), text, re.M))


def test_what_is_named_exists():
    page = PAGE.read_text(encoding="utf-8")
    assert len(sections(page)) >= 7
    assert list(faults(page, ROOT)) == []


@pytest.mark.parametrize("page,fault", [
    ("## A\n- x: y\n", "A: no test is named"),
    ("## A\n- x: `tests/e2e/test_none.py` `test_a`\n", "tests/e2e/test_none.py is not there"),
    ("## A\n- x: `tests/e2e/test_log.py` `test_nothing`\n", "tests/e2e/test_log.py: no test test_nothing"),
    ("## A\n- x: `tests/unit/base/test_log.c` `drain`\n", "tests/unit/base/test_log.c: no test drain"),
    ("## A\n- x: `tests/e2e/test_log.py`\n", "tests/e2e/test_log.py: no test of it is named"),
])
def test_sees_what_is_wrong(page, fault):
    assert list(faults(page, ROOT)) == [fault]
