use crate::{create, refused};

/// What is said of a policy of package p, without the file's name.
fn said(body: &str) -> String {
    let text = format!("package p\n{body}\n");
    refused(&[("p.rego", &text)], "data.p.r").replace("p.rego:", "")
}

fn accepted(files: &[(&str, &str)]) {
    create(files, "data.p.r").map(|_| ()).unwrap();
}

#[test]
fn functions_that_are_nowhere() {
    for name in [
        "http.send",
        "opa.runtime",
        "io.jwt.decode",
        "io.jwt.verify_rs256",
        "crypto.sha256",
        "net.lookup_ip_addr",
        "rego.metadata.rule",
        "graphql.parse",
        "json.match_schema",
        "any",
        "all",
        "re_match",
        "nowhere",
        "test.sleep",
        "__builtin_sets.union",
        "providers.aws.sign_req",
        "q.f",
        "data.q.f",
    ] {
        let expected = format!("2:6: {name}: no such function; it is neither a rule nor built into this engine");
        assert_eq!(said(&format!("r := {name}(1)")), expected);
    }
    // Wherever it stands, and though it would never be reached.
    for body in [
        "r if not nowhere(1)",
        "r := [x | x := nowhere(1)]",
        "r := {x: 1 | some x in nowhere(1)}",
        "r if every x in [1] { nowhere(x) }",
        "r := 1 if { false } else := nowhere(2)",
        "r := input[nowhere(1)].x",
        "r if { input.x with input.y as nowhere(1) }",
        "r := {\"a\": [nowhere(1)]}",
        "f(x) := nowhere(x)\nr := 1",
        "r contains nowhere(1)",
        "r[nowhere(1)] := 1",
        "default r := false\nr if 1 < nowhere(1)",
        "r if 1 in nowhere(1)",
        "r := -nowhere(1)",
    ] {
        assert!(said(body).contains("nowhere: no such function"), "{body}: {}", said(body));
    }
    assert!(said("r if { true with nowhere as 1 }").contains("with: nowhere is neither"));
    // A rule is no function.
    assert!(said("s := 1\nr := s(1)").contains("s: no such function"));
}

#[test]
fn the_number_of_arguments() {
    assert_eq!(said("r := lower(1, 2, 3)"), "2:6: lower takes 1 arguments, not 3");
    assert_eq!(said("f(x, y) := x + y\nr := f(1)"), "3:6: f takes 2 arguments, not 1");
    accepted(&[("p.rego", "package p\nf(x) := x\nr if { f(1, y); y == 1; lower(\"A\", z); z == \"a\" }")]);
}

#[test]
fn functions_of_other_packages() {
    let lib = ("q.rego", "package q.time\nf(x) := x\n");
    accepted(&[lib, ("p.rego", "package p\nimport data.q.time\nr := time.f(1)")]);
    accepted(&[lib, ("p.rego", "package p\nimport data.q as other\nr := other.time.f(1)")]);
    accepted(&[lib, ("p.rego", "package p\nr := data.q.time.f(1)")]);
    // As in OPA: the import takes the name of the built-in functions.
    let text = refused(&[lib, ("p.rego", "package p\nimport data.q.time\nr := time.now_ns()")], "data.p.r");
    assert!(text.contains("time.now_ns: no such function"), "{text}");
}

#[test]
fn recursion() {
    for body in [
        "r := r",
        "r if not r",
        "f(x) := f(x - 1)\nr := f(1)",
        "r := s\ns := [t | t := u]\nu if data.p.r",
        "r := data.p",
        "r := data.p[input.x]",
        "r := data[input.x].r",
        "o.a := o.b if o.a\no.b := 1\nr := 1",
        "s.a := 1\ns.b := r\nr := s.b if s.a",
        "o[k] := o.b if some k in [\"a\"]\nr := o.a",
        "f(x) := y if y := g(x)\ng(x) := z if f(x, z)\nr := 1",
        "r if { true with input as r }",
    ] {
        assert!(said(body).contains(": recursion: data.p."), "{body}: {}", said(body));
    }
    assert_eq!(said("r := s\ns := r"), "2:1: recursion: data.p.r > data.p.s > data.p.r");
    let other = ("q.rego", "package q\nimport data.p\ns := p.r");
    assert!(refused(&[other, ("p.rego", "package p\nimport data.q as z\nr := z.s")], "data.p.r").contains("recursion"));
    // Names that only look like the rule.
    for body in [
        "f(r) := r\nr := f(1)",
        "s := 1\nr if { every r in input { r == 1 } }",
        "r := input.r",
        "r := data.q[input.x]",
        "r := data[input.x].s",
        "r := 1 if { q := 1; q == 1 } else := 2",
    ] {
        accepted(&[("p.rego", &format!("package p\n{body}\n"))]);
    }
}

#[test]
fn rules_that_clash() {
    for body in [
        "r := 1\nr contains 2",
        "r := {}\nr[x] := 1 if some x in input",
        "r(x) := x\nr := 1",
        "f(x) := x\nf(x, y) := x\nr := 1",
        "default r := 1\ndefault r := 2",
        "default f(_) := 1\nf(x, y) := x\nr := 1",
    ] {
        let text = said(body);
        assert!(text.contains("another kind") || text.contains("a default already"), "{body}: {text}");
    }
    assert!(said("r := {}\nr.s := 1").contains("data.p.r is a rule, and so is data.p.r.s inside it"));
    let text = refused(&[("a.rego", "package p\nr := 1"), ("b.rego", "package p.r\ns := 1")], "data.p.r");
    assert!(text.contains("package data.p.r and the rule data.p.r"), "{text}");
    // Bodies of one rule, also over several files, are no clash.
    accepted(&[("a.rego", "package p\ndefault r := false\nr if input.x"), ("b.rego", "package p\nr if input.y")]);
    accepted(&[("a.rego", "package p\nr contains 1"), ("b.rego", "package p\nr contains 2")]);
}

#[test]
fn imports() {
    let lib = ("q.rego", "package q\ns := 1");
    let with = |text: &str| refused(&[lib, ("p.rego", text)], "data.p.r");
    assert!(with("package p\nimport data.q\nimport data.x.q\nr := q").contains("p.rego:3:8: q is imported already"));
    assert!(with("package p\nimport q.s\nr := s").starts_with("p.rego:2:"));
}

#[test]
fn what_the_engine_itself_refuses() {
    for body in [
        "r := x",
        "r if not x > 1",
        "r := [x | y := 1]",
        "r := x if y := 1",
        "r contains x if y := 1",
        "f(x) := y\nr := 1",
    ] {
        let text = format!("package p\n{body}\n");
        let error = create(&[("p.rego", &text)], "data.p.r").map(|_| ()).err();
        assert!(error.as_ref().is_some_and(|error| error.contains("unsafe")), "{body}: {error:?}");
    }
    for body in [
        "r := x if x = 1",
        "r := x if [x, _] = input",
        "r := [y, x] if { some x in input; walk(input, [_, y]) }",
        "r := [x | x = input[_]]",
        "r := [[x, y] | some y in input] if x := 1",
        "r := input[i]",
        "r := input[_].x",
        "f(x) := [x, y] if y := 2\nr := f(1)",
        "r contains x if some x in input",
        "r[k] := v if some k, v in input",
        "s := 1\nr := s",
        "s.t := 1\nr := s",
        "r := {k: v | v := input[k]}",
        "r := x if { f(1, x) }\nf(x) := x",
    ] {
        accepted(&[("p.rego", &format!("package p\n{body}\n"))]);
    }
    assert!(said("r if { x := 1; x := 2 }").starts_with("2:"), "{}", said("r if { x := 1; x := 2 }"));
    assert!(said("r if { input := 1 }").contains("shadow"));
    assert!(said("default r := input.x").contains("a default is a constant"));
    assert!(said("default r := [1, lower(\"A\")]").contains("a default is a constant"));
}

#[test]
fn objects_as_patterns() {
    for body in [
        "r if {\"a\": x} = input.o",
        "r if input.o = {\"a\": _}",
        "r := x if {\"a\": x} := input.o",
        "r if [{\"a\": x}] = [input.o]",
        "r if [{\"a\": 1}] = [input.x[i]]\nr if [{\"a\": 1}, 2] = [input.o, x]",
        "f({\"a\": 1}) := true\nr := 1",
        "f([{\"a\": x}]) := x\nr := 1",
        "r if { some {\"a\": x} in input.xs }",
        "r if { some [{}, _] in input.xs }",
        "r if { some {\"a\": 1}, _ in input.xs }",
        "r if input.o[{\"a\": x}]",
        "r if walk(input, [_, {\"a\": 1}])",
        "r := [x | {\"a\": x} = input.o]",
        "r if { every y in [1] { {\"a\": x} = input.o; x == y } }",
        "r if { y := 1; {\"a\": y} = input.o }",
    ] {
        assert!(said(body).contains("an object as a pattern is matched loosely"), "{body}: {}", said(body));
    }
    assert!(said("r if {\"a\": x} = input.o").starts_with("2:6: an object"));
    for body in [
        "r := x if { y := 1; x := {\"a\": y} }",
        "r if { y := 1; {\"a\": y} == input.o }",
        "r if { y := 1; x = {\"a\": y + 1}; x.a == 2 }",
        "r if input.o = {\"a\": 1}",
        "r if { x := input.o; x = {\"a\": 1} }",
        "f(y) if input.o = {\"a\": y}\nr := 1",
        "r := object.get(input, \"a\", {\"b\": 1})",
        "r if { y := 1; is_object({\"a\": y}) }",
    ] {
        accepted(&[("p.rego", &format!("package p\n{body}\n"))]);
    }
}

#[test]
fn partial_rules_in_partial_rules() {
    for body in [
        "g[k] := 1 if some k in input\ng.a[k] := 1 if some k in input",
        "g.a contains 1 if input.x\ng[k] contains 1 if some k in input",
    ] {
        assert!(said(body).contains("has members of its own"), "{body}: {}", said(body));
    }
    accepted(&[("p.rego", "package p\nr := g\ng[k] := 1 if some k in input\ng.a := 1 if input.x")]);
}

#[test]
fn walk_as_a_value() {
    for body in ["r := [p | [p, _] = walk(input)]", "r if not walk(input)[0]", "r := [v | some v in walk(input)]"] {
        assert!(said(body).contains("walk as a value gives nothing"), "{body}: {}", said(body));
    }
    accepted(&[("p.rego", "package p\nr := [p | walk(input, [p, _])]\n")]);
}

#[test]
fn unsafe_below_not() {
    for (body, name) in [
        ("r if not input.o[_] == 1", "_"),
        ("r if not input.o[k] == 1", "k"),
        ("r if not input.n > input.xs[_]", "_"),
        ("r if not startswith(input.xs[_], \"a\")", "_"),
        ("r if { some k; not input.o[k] }", "k"),
        ("s := 1\nr if { some s; not s }", "s"),
        ("r if { some _, v in input.xs; not input.o[_] == v }", "_"),
        ("r := [1 | not input.o[_]]", "_"),
        ("r if { every _ in [1] { not input.o[_] } }", "_"),
        ("r if not input.o with input.x as input.y[_]", "_"),
        ("f(_) if not input.o[_]\nr := 1", "_"),
        ("r if { false } else if not input.o[_]", "_"),
        ("r if { count([k | input.o[k]]) > 0; not input.o[k] }", "k"),
    ] {
        assert!(said(body).contains(&format!("var {name} is unsafe")), "{body}: {}", said(body));
    }
    for body in [
        "r if { input.o[k]; not input.p[k] == 1 }",
        "r if not count([1 | input.o[_] == 1]) > 0",
        "r if not count([k | some k; input.o[k] == 1]) > 0",
        "r if { every k, v in input.o { not input.p[k] == v } }",
        "f(x, [y]) if not x == y\nr := 1",
        "r if { walk(input, [path, value]); not path == value }",
        "s := 1\nr if not s",
        "r if { [a, b] = input.xs; not a == b }",
        "r if { some i; x = input.xs[i]; not x }",
        "r[k] := 1 if { some k, _ in input.o; not input.p[k] }",
    ] {
        accepted(&[("p.rego", &format!("package p\n{body}\n"))]);
    }
}

#[test]
fn what_the_engine_would_look_up_elsewhere() {
    for (body, wanted) in [
        ("r if not data[input.k].s.z\ns := {\"z\": true}", "p.rego:2:10: a reference with a variable part"),
        ("r if not data.p[input.k].z\ns := {\"z\": true}", "p.rego:2:10: a reference with a variable part"),
        ("r if { x := input.k; not data[x].s }\ns := 1", "p.rego:2:26: a reference with a variable part"),
        ("import data.p as me\nr if me[input.k]\ns := 1", "p.rego:3:6: a reference with a variable part"),
        ("r[{\"k\": c.i}.k] := 1 if some c in input.c", "p.rego:2:3: an object in the key"),
        ("r[[c, {\"n\": 1}]] := 1 if some c in input.c", "p.rego:2:"),
        ("r if not data.q[`s`].z", "p.rego:2:10: a raw string"),
        ("import data.q as s\nr if s.a\ns := 1", "p.rego:2:8: s is a rule of this package"),
    ] {
        let said = refused(&[("p.rego", &format!("package p\n{body}\n"))], "data.p.r");
        assert!(said.starts_with(wanted), "{body}: {said}");
    }
    let files = |other: &str| {
        let first = "package p\nimport data.q as regex\nr if regex.x";
        refused(&[("a.rego", first), ("b.rego", &format!("package p\n{other}\n"))], "data.p.r")
    };
    assert!(
        files("s if regex.match(\"a\", input.s)").starts_with("a.rego:2:8: regex is the name of built-in functions")
    );
    assert!(
        files("import data.other as regex\ns if regex.y").starts_with("b.rego:2:8: regex is imported from elsewhere")
    );
    // Behind a rule's own path a variable part is a key of its value.
    let key = "package p\nr if not data.p.roles[input.role]\nroles := {\"admin\": true}";
    assert!(create(&[("p.rego", key)], "data.p.r").is_ok());
    // Where each file imports the same it means the same, and other packages' rules may be looked up.
    let fine = [
        ("a.rego", "package p\nimport data.q as regex\nr if regex.x"),
        ("b.rego", "package p\nimport data.q as regex\ns := 1"),
    ];
    assert!(create(&fine, "data.p.r").is_ok());
    assert!(
        create(&[("p.rego", "package p\nr if data.q[input.k]"), ("q.rego", "package q\ns := 1")], "data.p.r").is_ok()
    );
}
