"""layouts.txt: one rule in every way that people write one - over lines, with comments, in parentheses, with odd names and inputs -
each with an input in front, answered as OPA answers it. What the engine is given is the rewritten text (rego/src/strict.rs)."""
import os
import re

import engines
import pytest

FILE = os.path.join(engines.HERE, "layouts.txt")


def cases():
    """[(input, text of a policy of package p)]"""
    with open(FILE, encoding="utf-8", newline="") as file:
        return [block.strip("\n").partition("\n")[::2] for block in file.read().split("\n----\n") if block.strip()]


@pytest.fixture(scope="module")
def policies(tmp_path_factory):
    """(folder, [(file, rule, input)]): each in a package of its own, so that one OPA has them all."""
    folder, found = str(tmp_path_factory.mktemp("layouts")), []
    for number, (line, text) in enumerate(cases()):
        name = f"l{number}"
        file = os.path.join(folder, name + ".rego")
        with open(file, "w", encoding="utf-8", newline="") as out:
            out.write(re.sub(r"\bdata\.p\b", f"data.{name}", re.sub(r"^package p\b", f"package {name}", text, flags=re.M)))
        found.append((file, f"data.{name}.r", line))
    return folder, found


def test_same_answers(policies):
    folder, found = policies
    server = engines.Opa(folder)
    try:
        differ = []
        for file, rule, line in found:
            answers, real = engines.ours([file], [rule], [line]), server.ask(rule, line)
            mine = answers[0][0] if isinstance(answers, list) else {"refused": answers}
            if not engines.agree(real, mine, True):
                differ.append(f"input {line}\n{open(file, encoding='utf-8').read()}\n   OPA   {real}\n   ours  {mine}")
        assert not differ, f"{len(differ)} of {len(found)} differ:\n" + "\n\n".join(differ)
    finally:
        server.stop()
    assert len(found) > 250
