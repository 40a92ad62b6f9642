"""Policies that OPA refuses to compile (bad/): refused here at load as well, with file and line, or listed in known.json. And
policies that OPA takes and that are refused here (refused/)."""
import os
import re
import urllib.error

import corpus
import engines
import pytest


@pytest.fixture(scope="module")
def opa(tmp_path_factory):
    server = engines.Opa(str(tmp_path_factory.mktemp("empty")))
    yield server
    server.stop()


def opa_takes(opa, path):
    with open(path, encoding="utf-8") as file:
        try:
            opa.put("one.rego", file.read())
            return True
        except urllib.error.HTTPError as refusal:
            assert refusal.code == 400
            return False


def errors_of(folder, package):
    names = sorted(os.listdir(folder))
    return {name[:-5]: engines.load_error([os.path.join(folder, name)], f"data.{package}.allow") for name in names}


def vague(errors):
    return {name: error for name, error in errors.items() if error and not re.search(rf"{name}\.rego:\d+", error)}


def test_opa_takes_one_kind_only(opa):
    assert [name for name in os.listdir(corpus.BAD) if opa_takes(opa, os.path.join(corpus.BAD, name))] == []
    assert [name for name in os.listdir(corpus.REFUSED) if not opa_takes(opa, os.path.join(corpus.REFUSED, name))] == []


def test_refused_by_both():
    errors = errors_of(corpus.BAD, "bad")
    taken = {name for name, error in errors.items() if error is None}
    known = {name for row in corpus.known()["loads"] for name in row["policies"]}
    assert sorted(taken - known) == [], "OPA refuses these, and known.json does not list them"
    assert sorted(known - taken) == [], "known.json lists these, and they are refused"
    assert vague(errors) == {}, "these say no line"


def test_refused_here_alone():
    errors = errors_of(corpus.REFUSED, "refused")
    assert [name for name, error in errors.items() if error is None] == [], "taken now: they belong into the corpus"
    assert vague(errors) == {}, "these say no line"
    assert errors.keys() == {name for row in corpus.known()["refused"] for name in row["policies"]}
