"""The budget: what a callgrind profile says is read right, and what became dearer is said."""

import pytest

import budget

PROFILE = """
ob=(1) /x/build/release/bench/bench_micro
fl=(1) build/release/../../bench/micro/main.c
fn=(1) measured_run
10 5
fi=(2) build/release/../../src/http/target.c
11 7
fe=(1)
12 1
cfi=(3) build/release/../../src/base/json.c
cfn=(2) json_text
calls=3 20
13 1000
fl=(3)
fn=(2)
20 100
+1 10
-1 10
* 1
fi=(4) /usr/include/x86_64-linux-gnu/bits/string_fortified.h
30 1000
fl=(5) build/release/../../tests/flow/memory.c
fn=(3) memory_pump
40 500
fi=(4)
31 500
fl=(6) /usr/share/llhttp/llhttp.c
fn=(4) llhttp__internal_execute
cob=(2) /usr/lib/libcrypto.so.3
cfn=(5) SHA256
calls=1 0
50 9
50 20000
ob=(2)
fl=(7) ???
fn=(5)
0 30000
ob=(3) /usr/lib/libc.so.6
fl=(8) ./string/memcpy.S
fn=(6) memcpy
1 400000
"""


def test_costs_go_to_whose_they_are():
    counts = budget.Reader().read(PROFILE.splitlines())
    assert counts == {"ours": 7 + 100 + 10 + 10 + 1 + 1000, "llhttp": 20000, "crypto": 30000, "rest": 400000,
                      "harness": 5 + 1 + 500 + 500}


LIBRARIES = {"llhttp": "9", "crypto": "3", "rest": "glibc 2"}
COUNTS = {"ours": 1000, "llhttp": 1000, "crypto": 1000, "rest": 1000}
BUDGET = {"libraries": LIBRARIES, "pieces": {"a": COUNTS}}


@pytest.mark.parametrize("counts,libraries,complaints", [
    (COUNTS, LIBRARIES, 0),
    ({**COUNTS, "ours": 1030}, LIBRARIES, 0),
    ({**COUNTS, "ours": 1033}, LIBRARIES, 1),
    ({**COUNTS, "ours": 1}, LIBRARIES, 0),
    ({**COUNTS, "crypto": 1100, "rest": 1100}, LIBRARIES, 2),
    ({**COUNTS, "crypto": 1100}, {**LIBRARIES, "crypto": "4"}, 0),
    ({**COUNTS, "crypto": 1100, "ours": 1100}, {**LIBRARIES, "crypto": "4"}, 1),
])
def test_what_became_dearer_is_said(counts, libraries, complaints):
    said = []
    assert len(budget.compare({"a": counts}, BUDGET, libraries, said.append)) == complaints
    assert any("lower its budget" in line for line in said) == (counts["ours"] == 1)
    assert any(line.startswith("not held: crypto") for line in said) == (libraries != LIBRARIES)


def test_a_piece_without_budget_is_a_complaint():
    assert budget.compare({"a": COUNTS, "b": COUNTS}, BUDGET, LIBRARIES, lambda _: None) == ["b has no budget"]
