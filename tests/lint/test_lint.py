"""The house rules hold in this tree; and each rule sees what breaks it."""

from pathlib import Path

import pytest

import lint

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tree():
    return lint.Tree(ROOT)


@pytest.mark.parametrize("rule", lint.RULES, ids=lambda rule: rule.__name__)
def test_house_rule(tree, rule):
    complaints = list(rule(tree))
    assert not complaints, "\n" + "\n".join(complaints)


def test_there_is_something_to_check(tree):
    assert {lint.room_of(path) for path in tree.files("src/**/*.c")} >= set(lint.ROOMS)
    assert len(tree.files("include/**/*.h")) > 20
    assert "-Wconversion" in lint.warning_flags(ROOT)


HEADER = "/* a */\n#ifndef BASE_A_H\n#define BASE_A_H\n\nint a_get(void);\n\n#endif\n"
SOURCE = '/* a */\n#include "base/a.h"\n\nint a_get(void)\n{\n    return 1;\n}\n'
GOOD = {"include/base/a.h": HEADER, "src/base/a.c": SOURCE}


def with_line(text, line):
    """The source with one more include line, behind its own."""
    return text.replace('#include "base/a.h"\n', f'#include "base/a.h"\n{line}\n')


def proxy_source(line):
    return {"include/proxy/p.h": "/* p */\n#ifndef PROXY_P_H\n#define PROXY_P_H\n\n#endif\n",
            "src/proxy/p.c": f'/* p */\n#include "proxy/p.h"\n{line}\n'}


BAD = [
    ("rooms", {"src/base/a.c": with_line(SOURCE, '#include "proxy/p.h"')}, "may not include proxy/"),
    ("rooms", {"include/base/a.h": HEADER.replace("int a", '#include "io/loop.h"\nint a')}, "may not include io/"),
    ("rooms", {"src/base/a.c": with_line(SOURCE, '#include "a.h"')}, "does not name its room"),
    ("rooms", {"src/base/a.c": with_line(SOURCE, '#include "base/b.h"')}, "is not there"),
    ("rooms", {"src/base/a.c": with_line(SOURCE, "#include <base/a.h>")}, "is ours"),
    ("rooms", {"src/attic/a.c": SOURCE}, "stands in no room"),
    ("doors", {"src/base/a.c": with_line(SOURCE, "#include <uv.h>")}, "<uv.h> does not come in here"),
    ("doors", {"include/base/a.h": HEADER.replace("int a", "#include <jansson.h>\nint a")}, "<jansson.h>"),
    ("doors", {"src/base/a.c": with_line(SOURCE, "#  include <glib.h>")}, "<glib.h> has no door"),
    ("doors", proxy_source("#include <openssl/evp.h>"), "<openssl/evp.h>"),
    ("doors", proxy_source("#include <hiredis/async.h>"), "<hiredis/async.h>"),
    ("doors", proxy_source("#include <jv.h>"), "<jv.h>"),
    ("doors", proxy_source("#include <yaml.h>"), "<yaml.h>"),
    ("doors", proxy_source("#include <curl/curl.h>"), "<curl/curl.h>"),
    ("doors", proxy_source("#include <jwt.h>"), "<jwt.h>"),
    ("doors", proxy_source("#include <llhttp.h>"), "<llhttp.h>"),
    ("file_lengths", {"src/base/a.c": SOURCE + "\n" * 494}, "501 lines"),
    ("function_lengths", {"src/base/a.c": SOURCE.replace("    return 1;\n", "    ;\n" * 78)}, "81 lines"),
    ("function_lengths", {"tests/unit/base/test_a.c": SOURCE.replace("    return 1;\n", "    ;\n" * 78)}, "81 lines"),
    ("opening_comments", {"src/base/a.c": SOURCE[len("/* a */\n"):]}, "src/base/a.c:1"),
    ("own_header", {"src/base/b.c": SOURCE}, "has no header include/base/b.h"),
    ("own_header", {"src/base/a.c": SOURCE.replace("#include", "#include <stdio.h>\n#include", 1)}, "come first"),
    ("own_header", {"src/base/a.c": "/* a */\n"}, "come first"),
    ("guards", {"include/base/a.h": HEADER.replace("BASE_A_H", "A_H")}, "BASE_A_H"),
    ("guards", {"include/base/a.h": HEADER.replace("#define BASE_A_H\n", "")}, "BASE_A_H"),
    ("no_struct_typedefs", {"src/base/a.c": SOURCE + "typedef struct x x_t;\n"}, "src/base/a.c:8"),
    ("headers_alone", {"include/base/a.h": HEADER.replace("void", "size_t n")}, "size_t"),
    ("headers_alone", {"include/base/a.h": HEADER.replace("void", "")}, "strict-prototypes"),
]


def make(folder, files):
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return lint.Tree(folder)


def run(rule, tree):
    if rule == "headers_alone":
        return list(lint.headers_alone(tree, ["-std=c11", f"-I{tree.root}/include", *lint.warning_flags(ROOT), "-Werror"]))
    return list(getattr(lint, rule)(tree))


@pytest.mark.parametrize("rule", [rule.__name__ for rule in lint.RULES])
def test_rule_lets_good_pass(tmp_path, rule):
    assert run(rule, make(tmp_path, GOOD)) == []


@pytest.mark.parametrize("rule,files,what", BAD)
def test_rule_sees_what_breaks_it(tmp_path, rule, files, what):
    complaints = run(rule, make(tmp_path, {**GOOD, **files}))
    assert len(complaints) == 1 and what in complaints[0], complaints


def test_limits_are_met_exactly(tmp_path):
    full = SOURCE.replace("    return 1;\n", "    ;\n" * 77)  # 80 lines of function
    tree = make(tmp_path, {**GOOD, "src/base/a.c": full + "\n" * (500 - full.count("\n"))})
    assert run("function_lengths", tree) == [] and run("file_lengths", tree) == []
