"""The corpus: small policies, each rule of which is a case for each of the inputs at its head; and the differences between
the engines that are known, which docs/rego.md lists."""
import glob
import json
import os
import re

import engines

FOLDER = os.path.join(engines.HERE, "corpus")
BAD = os.path.join(engines.HERE, "bad")
REFUSED = os.path.join(engines.HERE, "refused")
KNOWN = os.path.join(engines.HERE, "known.json")
NAMES = sorted(os.path.basename(file)[:-5] for file in glob.glob(os.path.join(FOLDER, "*.rego")))
HEAD = re.compile(r"^(?:default )?([a-z]\w*)(?:\.\w+)*(?:\[\w+\])?(?: (?:if|:=|contains)|\.\w+|\[|$)", re.M)


def source(name):
    with open(os.path.join(FOLDER, name + ".rego"), encoding="utf-8") as file:
        return file.read()


def inputs(name):
    return re.findall(r"^# input: (.*)$", source(name), re.M)


def rules(name):
    """First names of the rules that are no functions, in their order."""
    return list(dict.fromkeys(name for name in HEAD.findall(source(name)) if name not in ("package", "import", "default")))


def files(name):
    """The policy, and what it imports."""
    return [os.path.join(FOLDER, other + ".rego") for other in NAMES if other == name or other.startswith(name + "_helpers")]


def known():
    with open(KNOWN, encoding="utf-8") as file:
        return json.load(file)


def known_cases():
    """{(file.rule, number of the input)} of everything in known.json."""
    return {(case, number) for row in known()["answers"] for case, numbers in row["cases"].items() for number in numbers}
