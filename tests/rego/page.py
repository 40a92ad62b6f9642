"""docs/rego.md, written from what the tests in this folder compare.

  python3 page.py        prints docs/rego.md
"""
import sys

import corpus

HEAD = """# Policies inside the process, and OPA

Rego v1 as OPA {version} has it gives the same answers when it is evaluated inside the process, undefined included: the
language (rules, `else`, `default`, comprehensions, `some`, `every`, `in`, `with`, partial sets and objects, functions),
the order of values and of iteration, numbers, and {compared} of OPA's {all} built-in functions, but for what the two tables
below list. What is not the same is refused when the policies are loaded, with file and line: {refused} built-in functions,
and what OPA's compiler refuses; or it stands in a table. Nothing here is from memory: `tests/rego` asks both engines, with
{inputs} generated inputs for each of `policies/cwms` and `policies/example` (every rule) and {cases} cases of a corpus; it fails
when something differs that is not listed, and when something listed no longer differs.

A built-in function that fails leaves its rule undefined, in both (OPA without `--strict-builtin-errors`). Two values of one
rule are an error of the evaluation, in both: the request is refused.
"""
ANSWERS = """
## Other answers

| what | OPA | inside the process |
|---|---|---|
"""
LOADS = """
## Taken here, refused by OPA

`opa check` before a deployment finds all of these.

| what | what happens here |
|---|---|
"""
REFUSED = """
## Refused here, taken by OPA

| what |
|---|
"""
BUILTINS = """
## Built-in functions that are refused

A policy that calls one of them is not loaded; OPA over HTTP (`policy.url`) has them all.

"""
END = """
This page is written from the list that the tests hold both engines against (`tests/rego/known.json`; `make docs`).
"""


def lines_of(names, width=124):
    """Names in code font, wrapped."""
    lines, line = [], ""
    for name in names:
        word = f"`{name}`" + ("," if name != names[-1] else "")
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "\n".join([*lines, line]) + "\n"


def page():
    known = corpus.known()
    cases = sum(len(corpus.rules(name)) * len(corpus.inputs(name)) for name in corpus.NAMES)
    text = HEAD.format(version=known["opa"], compared=known["compared"], all=known["compared"] + len(known["builtins"]),
                       refused=len(known["builtins"]), inputs="10,000", cases=f"{cases:,}")
    text += ANSWERS + "".join(f"| {row['what']} | {row['opa']} | {row['ours']} |\n" for row in known["answers"])
    text += LOADS + "".join(f"| {row['what']} | {row['ours']} |\n" for row in known["loads"])
    text += REFUSED + "".join(f"| {row['what']} |\n" for row in known["refused"])
    return text + BUILTINS + lines_of(known["builtins"]) + END


if __name__ == "__main__":
    sys.stdout.write(page())
