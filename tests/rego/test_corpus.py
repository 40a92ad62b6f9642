"""What Rego can do, answered by both engines. A difference that known.json has not fails, and so does one that it has and
that is not there."""
import corpus
import engines
import pytest


@pytest.fixture(scope="module")
def opa():
    server = engines.Opa(corpus.FOLDER)
    yield server
    server.stop()


def differences(opa, name):
    """{(file.rule, number of the input): what either says}."""
    lines, rules = corpus.inputs(name), corpus.rules(name)
    paths = [f"data.corpus.{name.replace('_helpers', '.helpers')}.{rule}" for rule in rules]
    answers = engines.ours(corpus.files(name), paths, lines)
    assert isinstance(answers, list), answers
    found = {}
    for number, (line, row) in enumerate(zip(lines, answers)):
        for rule, path, mine in zip(rules, paths, row):
            real = opa.ask(path, line)
            if not engines.agree(real, mine):
                found[f"{name}.{rule}", number] = f"\n   input {line}\n   OPA   {real}\n   ours  {mine}"
    return found


@pytest.mark.parametrize("name", [name for name in corpus.NAMES if corpus.inputs(name)])
def test_same_answers(opa, name):
    found = differences(opa, name)
    known = {case for case in corpus.known_cases() if case[0].startswith(name + ".")}
    new = [f"{case}: {what}" for case, what in found.items() if case not in known]
    gone = sorted(known - found.keys())
    assert not new, f"{len(new)} differ that known.json does not list:\n" + "\n".join(new)
    assert not gone, f"known.json lists what does not differ: {gone}"


def test_known_cases_exist():
    rules = {f"{name}.{rule}": len(corpus.inputs(name)) for name in corpus.NAMES for rule in corpus.rules(name)}
    assert [case for case, number in corpus.known_cases() if number >= rules.get(case, 0)] == []
