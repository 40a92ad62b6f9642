use crate::{answered, ask, create};
use doorward_rego::eval::{Limits, Outcome};
use std::time::Duration;

fn within(ms: u64) -> Limits {
    Limits { time: Duration::from_millis(ms), answer_bytes: 0 }
}

#[test]
fn answers_are_json() {
    assert_eq!(ask("r := {2, 1, \"a\"}", "{}"), answered(r#"[1,2,"a"]"#));
    assert_eq!(ask("r := {1: {true: null}}", "{}"), answered(r#"{"1":{"true":null}}"#));
    assert_eq!(
        ask("r := [1.5, 1e3, 18446744073709551615, -0, \"\\u0000é\"]", "{}"),
        answered("[1.5,1000,18446744073709551615,0,\"\\u0000é\"]")
    );
    assert_eq!(ask("r := input", r#"{"b": 1, "a": [1.0, "x"]}"#), answered(r#"{"a":[1,"x"],"b":1}"#));
    assert_eq!(ask("r if input.x", "{}"), Outcome::Undefined);
    assert_eq!(ask("r := input", "null"), answered("null"));
}

#[test]
fn a_built_in_function_that_fails_is_undefined() {
    for call in [
        "lower(input.x)",
        "to_number(\"x\")",
        "count(input.x)",
        "time.parse_rfc3339_ns(\"soon\")",
        "json.unmarshal(\"{\")",
        "regex.match(\"[\", \"a\")",
        "1 / input.zero",
        "net.cidr_contains(\"x\", \"y\")",
        "object.get(input.x, \"a\", 1)",
        "sprintf(\"%d\", input.x)",
        "base64.decode(\"*\")",
        "semver.compare(\"a\", \"b\")",
        "numbers.range(1.5, 2)",
        "startswith(1, input.x)",
        "units.parse_bytes(\"x\")",
        "substring(\"a\", -1, 1)",
        "hex.decode(\"g\")",
        "uuid.parse(\"x\")",
        "glob.match(1, [], \"a\")",
    ] {
        assert_eq!(
            ask(&format!("default r := \"none\"\nr := {call}"), r#"{"x": 1, "zero": 0}"#),
            answered("\"none\""),
            "{call}"
        );
    }
    // One that fails takes no other value of the set with it.
    assert_eq!(ask("r contains 1\nr contains lower(input.x)", r#"{"x": 1}"#), answered("[1]"));
}

#[test]
fn rules_that_disagree_are_an_error() {
    let outcome = ask("r := 1 if input.x\nr := 2 if input.y", r#"{"x": true, "y": true}"#);
    let Outcome::Failed(text) = outcome else { panic!("{outcome:?}") };
    assert!(text.starts_with("p.rego:"), "{text}");
}

#[test]
fn time_stands_still_within_an_evaluation() {
    let body = "r if { a := [time.now_ns() | some x in numbers.range(1, 3000); x > 0]; min(a) == max(a) }";
    assert_eq!(ask(body, "{}"), answered("true"));
    let mut policies = create(&[("p.rego", "package p\nr := time.now_ns()")], "data.p.r").unwrap();
    let first = policies.eval("{}", &Limits::default());
    std::thread::sleep(Duration::from_millis(2));
    assert_ne!(first, policies.eval("{}", &Limits::default()));
}

#[test]
fn nothing_is_left_of_the_input_before() {
    let text = "package p
r := {\"who\": who, \"roles\": roles, \"twice\": twice(input.n), \"match\": regex.match(input.re, input.s), \"with\": w}
who := input.user
default who := \"nobody\"
roles contains role if some role in input.roles
twice(x) := x * 2
w := v if v := who with input.user as \"other\"
";
    let mut policies = create(&[("p.rego", text)], "data.p.r").unwrap();
    let ann = r#"{"user": "ann", "roles": ["a"], "n": 1, "re": "^a", "s": "abc"}"#;
    let bob = r#"{"roles": ["b"], "n": 2, "re": "^b", "s": "abc"}"#;
    let of_ann = answered(r#"{"match":true,"roles":["a"],"twice":2,"who":"ann","with":"other"}"#);
    let of_bob = answered(r#"{"match":false,"roles":["b"],"twice":4,"who":"nobody","with":"other"}"#);
    for _ in 0..3 {
        assert_eq!(policies.eval(ann, &within(20_000)), of_ann);
        assert_eq!(policies.eval(bob, &within(20_000)), of_bob);
        assert_eq!(policies.eval("{}", &within(20_000)), Outcome::Undefined);
        assert!(matches!(policies.eval("{", &within(20_000)), Outcome::Failed(_)));
    }
}

#[test]
fn nothing_is_left_of_one_that_failed() {
    let text = "package p
r := x if x := inner with input.a as 1 with data.d as 5
inner := input.a + data.d if not bad
inner := 0 if bad
inner := 1 if bad
default bad := false
bad if input.bad
";
    let mut policies = create(&[("p.rego", text), ("data.json", "{\"d\": 1}")], "data.p.r").unwrap();
    let mut other = policies.again();
    for _ in 0..3 {
        assert!(matches!(policies.eval(r#"{"bad": true}"#, &within(20_000)), Outcome::Failed(_)));
        assert_eq!(policies.eval(r#"{"bad": false}"#, &within(20_000)), answered("6"));
        assert_eq!(other.eval(r#"{}"#, &within(20_000)), answered("6"));
    }
}

#[test]
fn time_is_limited() {
    let endless = [
        "r := count([1 | some x in numbers.range(1, 3000); some y in numbers.range(1, 3000); some z in numbers.range(1, 3000); x * y * z == 0])",
        "f(x) := 1 if { some y in numbers.range(1, 3000); some z in numbers.range(1, 3000); x * y * z == 0 }\nf(x) := 2\nr := [f(x) | some x in numbers.range(1, 3000)]",
        "r if every x in numbers.range(1, 3000) { every y in numbers.range(1, 3000) { every z in numbers.range(1, 3000) { x * y * z > 0 } } }",
    ];
    for body in endless {
        let mut policies = create(&[("p.rego", &format!("package p\n{body}"))], "data.p.r").unwrap();
        for _ in 0..2 {
            assert_eq!(policies.eval("{}", &within(10)), Outcome::Limit("over its time of 10 ms".into()), "{body}");
        }
    }
}

#[test]
fn answers_are_limited() {
    let mut policies = create(&[("p.rego", "package p\nr := input.x")], "data.p.r").unwrap();
    let limits = Limits { time: Duration::ZERO, answer_bytes: 5 };
    assert_eq!(policies.eval(r#"{"x": "abc"}"#, &limits), answered("\"abc\""));
    assert_eq!(policies.eval(r#"{"x": "abcd"}"#, &limits), Outcome::Limit("an answer of more than 5 bytes".into()));
}

#[test]
fn deep_inputs_do_not_fill_the_stack() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(matches!(ask("r := input", &deep), Outcome::Failed(_)));
    let inside = format!("{{\"x\": {}}}", serde_json::to_string(&deep).unwrap());
    assert_eq!(ask("r := json.unmarshal(input.x)", &inside), Outcome::Undefined);
}

#[test]
fn copies_serve_other_threads() {
    let policies =
        create(&[("p.rego", "package p\nr := input.x * data.n"), ("data.json", "{\"n\": 3}")], "data.p.r").unwrap();
    let threads: Vec<_> = (0..4)
        .map(|i| {
            let mut mine = policies.again();
            std::thread::spawn(move || {
                for n in 0..200 {
                    let got = mine.eval(&format!("{{\"x\": {}}}", n * i), &Limits::default());
                    assert_eq!(got, answered(&(n * i * 3).to_string()));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn printing_goes_nowhere() {
    let mut policies = create(&[("p.rego", "package p\nr if { print(\"x\", input) }")], "data.p.r").unwrap();
    assert_eq!(policies.eval("{}", &Limits::default()), answered("true"));
}

/// OPA looks up the operands of a negation outside of it; tests/rego/corpus/operands.rego asks OPA.
#[test]
fn a_negation_of_what_is_undefined_does_not_hold() {
    let rules = "f(x) := x > 3\ndeny if input.d\nroles := {\"a\": true}\n";
    for body in [
        "not input.n > 100",
        "not input.x in input.xs",
        "not \"a\" in input.xs",
        "not startswith(lower(input.s), \"a\")",
        "not f(input.n)",
        "not f(deny)",
        "not roles[input.role]",
        "not input.n > 100 with input.m as 1",
        "not [input.n] == [1]",
        "not f(\n\t\tinput.n # a number\n\t)",
        "every x in [1] { not input.n > x }",
        "count([x | some x in [1]; not input.n > x]) == 1",
        "input.k, input.n in {\"a\": 1}",
        "x := 1 in input.xs; not x",
        "(1 in input.xs) == false",
    ] {
        for form in [
            format!("{rules}r if {body}"),
            format!("{rules}r if {{ {body} }}"),
            format!("r := 1 if {{ input.z }} else := 2 if {body}\n{rules}"),
        ] {
            if !(form.contains("if x := 1 in") || form.contains("else := 2 if x")) {
                assert_eq!(ask(&form, "{}"), Outcome::Undefined, "{form}");
            }
        }
    }
    assert_eq!(ask("r := 4 in input.xs", "{}"), Outcome::Undefined);
    assert_eq!(ask("r := 4 in input.xs", r#"{"xs": [1]}"#), answered("false"));
    // What is defined stays as it was, and so does what OPA leaves inside.
    for body in
        ["not input.n", "not input.n == 1", "not input.a.b.c", "not deny", "not [1 | input.n] == [1]", "not f(2)"]
    {
        assert_eq!(ask(&format!("{rules}r if {body}"), "{}"), answered("true"), "{body}");
    }
    assert_eq!(ask("r if not input.n > 100", r#"{"n": 1}"#), answered("true"));
    assert_eq!(ask("r if not input.x in input.xs", r#"{"x": "é", "xs": ["e"]}"#), answered("true"));
}

/// The engine runs `every` too early, or makes a loop of it, and takes a rule's value apart from its body.
#[test]
fn variables_are_tied_to_their_statements() {
    let input = r#"{"k": "nobody", "z": "a", "b": 1, "ks": [1], "xs": ["x"], "o": {"a": 2, "b": 1}, "w": {"admin": true}, "deny": {"b": true}}"#;
    for (body, expected) in [
        ("r := input.w[x] if { x := input.k } else := \"no\"", answered("\"no\"")),
        ("r := input.w[x] if { x := lower(input.k) } else := false if { input.b }", answered("false")),
        ("r := input.w[x] if x := input.k else := false", answered("false")),
        ("r := input.o[x] if { x := input.z } else := \"no\"", answered("2")),
        ("r := f(input.k)\nf(k) := input.w[x] if { x := lower(k) } else := false", answered("false")),
        ("r if not f(input.k)\nf(k) := input.w[k] if input.b else := true", Outcome::Undefined),
        ("r := {\"a\": input.w[x],\n\t\"b\": 1} if { x := input.k } else := {\"c\": 2}", answered(r#"{"c":2}"#)),
        ("r if { z := input.z; x := z; every k in input.ks { input.o[x] == k } }", Outcome::Undefined),
        ("r if { z := input.z; x := z; every k in input.ks { not x == k } }", answered("true")),
        ("r if { z := input.z; x := z; every k in {\"a\": 1, \"b\": 1} { input.o[x] == k } }", Outcome::Undefined),
        ("r if { z := input.z; x := z; input.o[x] == 2 }", answered("true")),
        ("r if every k in input.xs { not input.o[k].b == 1 }", answered("true")),
        ("r if every k in input.xs { not input.deny[k] }", answered("true")),
        ("r if every k in [\"b\"] { not input.deny[k] }", Outcome::Undefined),
        ("r if every i, k in input.xs { input.xs[i] == k }", answered("true")),
        ("r if { x := input.xs[0]; every k in (input.xs) { k == x } }", answered("true")),
        ("r if { x := input.xs[0]; every k in ( ([\"x\"]) ) { k == x } }", answered("true")),
        ("r if { x := input.xs[0]; every k in ({\"a\": \"x\"}) { k == x } }", answered("true")),
        ("r if { x := input.xs[0]; every k in ({\"x\"} | {\"y\"}) { k == x } }", Outcome::Undefined),
        ("r := input.z if input.z in [\"a\"] in [true] else := 2", answered("\"a\"")),
        ("r := input.nowhere if not input.z in [\"b\"] in [true] else := 2", answered("2")),
        ("r if every k in input.xs { every j in [0] { input.xs[j] == k } }", answered("true")),
    ] {
        assert_eq!(ask(body, input), expected, "{body}");
        let mut policies = create(&[("p.rego", &format!("package p\n{body}\n"))], "data.p.r").unwrap();
        policies.interpret();
        assert_eq!(policies.eval(input, &within(20_000)), expected, "{body}, interpreted");
    }
}

/// The engine gives up all members of a set or object for one that is undefined.
#[test]
fn one_undefined_member_takes_no_other_with_it() {
    let input = r#"{"l": ["x", 1], "g": [{"o": 1}, {"b": 1}], "n": [1, "x"]}"#;
    for (body, expected) in [
        ("r contains lower(x) if some x in input.l", r#"["x"]"#),
        ("r contains lower(x) if { some x in input.n; [1 | true] == [1] }", r#"["x"]"#),
        ("r contains (lower(x)) if { some x in input.n; [1 | true] == [1] }", r#"["x"]"#),
        ("r contains {\"a\": lower(x)} if { some x in input.l; [1 | true] == [1] }", r#"[{"a":"x"}]"#),
        ("r contains [\"é\", lower(x)] if { some x in input.l; [1 | true] == [1] }", r#"[["é","x"]]"#),
        ("r contains lower(input.l[_])", r#"["x"]"#),
        ("r contains input.g[i].o", "[1]"),
        ("r contains input.g[i].o # all\nr contains 7", "[1,7]"),
        ("r contains x.o if { x := input.g[_] }", "[1]"),
        ("r contains x.o if x := input.g[_]", "[1]"),
        ("r := input.g[i].o", "1"),
        ("r := x.o if { some x in input.g }", "1"),
        ("r := lower(x) if some x in input.n", "\"x\""),
        ("r[x] := lower(x) if { some x in input.l }", r#"{"x":"x"}"#),
        ("r[k] := x.o if some k, x in input.g", r#"{"0":1}"#),
        ("r[x.o] := k if some k, x in input.g", r#"{"1":0}"#),
        ("r[input.g[i].o] := input.g[i].o", r#"{"1":1}"#),
        ("r := f(1)\nf(_) := x.o if { some x in input.g }", "1"),
        ("r := f(input.g)\nf(g) := g[_].o", "1"),
    ] {
        assert_eq!(ask(body, input), answered(expected), "{body}");
    }
}

/// The engine takes `with` for what is defined, in the order of the text, and for all that stands behind `some … in`.
#[test]
fn replacements_are_taken_first() {
    let input = r#"{"a": 1, "b": 3, "o": {}, "l": ["q", "k"]}"#;
    for (body, expected) in [
        ("r if { input.a with input.o as input.zz with input.b as 2 }", Outcome::Undefined),
        ("r if input.a with input.o as input.zz with input.b as 2", Outcome::Undefined),
        ("r if not input.zz with input.o as input.zz with input.b as 2", Outcome::Undefined),
        ("r if not input.b > 4 with input.o as input.zz with input.b as 2", Outcome::Undefined),
        ("r if not input.b > 4 with input.o as {\"x\": 1} with input.b as input.a", answered("true")),
        ("r if input.a with input as {\"a\": 1, \"b\": input.zz} with input.b as 2", Outcome::Undefined),
        ("r if input.a with input # all\n\tas # this\n\t{\"a\": [input.b]}", answered("true")),
        ("r := x if { x := input.a with input.o as input.zz with input.b as 2 }", Outcome::Undefined),
        ("r := [1 | input.a with input.o as input.zz with input.b as 2]", answered("[]")),
        ("r if { every x in input.l { x } with input.o as input.zz with input.b as 2 }", Outcome::Undefined),
        ("r := [x, y] if { some x in input.l with input.l as [7]; y := input.l }", answered(r#"[7,["q","k"]]"#)),
        ("r := [x, y] if { some _, x in {\"k\": input.b} with input.b as 4; y := input.b }", answered("[4,3]")),
        ("r := [x | some x in input.l with input.l as [7]; some y in input.l; y != 9]", answered("[7,7]")),
        ("f(_) := 1\nr := x if { x := input.b with f as 2 with input.b as f(1) }", answered("1")),
        ("f(_) := 1\ng(_) := 2\nr := x if { x := f(1) with f as g }", answered("2")),
        ("f(_) := 1\nr if { f(1) with f as input.zz with input.b as 1 }", Outcome::Undefined),
        ("s := 1\nr := x if { x := input.b with data.p.s as 2 with input.b as s }", answered("1")),
    ] {
        assert_eq!(ask(body, input), expected, "{body}");
    }
}

/// The engine gives variables in brackets and patterns a value where it meets them first, even in a negation or a closure.
#[test]
fn variables_have_their_values_from_where_they_are_bound() {
    let input = r#"{"a": "x", "n": 1, "p": ["x", "y"], "q": [["x", 1]], "o": {}, "oo": {"x": 1}}"#;
    for body in [
        "walk(input.a, [_, v]); not input.o[v]",
        "lower(input.a, v); not input.o[v]",
        "f(input.a, v); not input.o[v]",
        "w = input.p[_]; v = w; not input.o[v]",
        "not input.o[v]; v = input.p[_]",
        "not input.o[v]; input.oo[v] = 1",
        "not input.o[[v, 1]]; v = input.p[_]",
        "not v = 3; v = input.p[_]",
        "not [v, 1] = [3, 1]; v = input.p[_]",
        "count([1 | v = 3]) == 0; v = input.p[_]",
        "count([1 | [v, 2] = input.q[_]]) == 0; v = input.p[_]",
        "count([1 | input.o[v]]) == 0; v = input.p[_]",
        "count([1 | not input.o[v]]) == 1; v = input.p[_]",
        "count([1 | walk(input.o, [_, v])]) == 0; v = input.p[_]",
        "every x in input.p { not input.o[v][x] }; v = input.p[_]",
        "every x in input.p { not v = input.o[x] }; v = input.p[_]",
        "every x in [v] { v = x }; v = input.p[_]",
        "every x in [\"x\"] { y = x; y == v }; v = \"x\"",
        "every x in input.q { [v, _] = x }; v = input.p[_]",
    ] {
        let text = format!("bad contains v if {{ {body} }}\nr if count(bad) == 0\nf(x) := x");
        assert_eq!(ask(&text, input), Outcome::Undefined, "{body}");
    }
    for (body, expected) in [
        ("v = input.p[_]; count([k | [k, v] = [\"q\", input.p[_]]]) == 1", r#"["x","y"]"#),
        ("v = input.p[_]; count([1 | f(v, v)]) == 1", r#"["x","y"]"#),
        ("input.p[_]; some v; input.oo[v] == 1", r#"["x"]"#),
        ("input.p[_]; some i\n\tsome v\n\tinput.p[i] = v; i in [0]; input.n in [1]", r#"["x"]"#),
        ("input.a in input.p; count([i | input.p[_]; some i; input.p[i]]) == 4; v = input.a", r#"["x"]"#),
        ("walk(input.a, [_, v]); every x in input.p { every _ in input.p { input.p[_] == x } }", r#"["x"]"#),
    ] {
        let text = format!("r contains v if {{ {body} }}\nf(x) := x");
        assert_eq!(ask(&text, input), answered(expected), "{body}");
    }
}

#[test]
fn partial_objects_without_members_are_empty() {
    for (body, expected) in [
        ("g[k] contains v if some k, v in input.o", "{}"),
        ("g[k].b := v if some k, v in input.o", "{}"),
        ("g[k][v] := 1 if some k, v in input.o", "{}"),
        ("g[k][v] contains 1 if some k, v in input.o # none", "{}"),
        ("g.b[k] contains v if some k, v in input.o", r#"{"b":{}}"#),
        ("g.b[k] := v if some k, v in input.o", r#"{"b":{}}"#),
    ] {
        assert_eq!(ask(&format!("r := g\n{body}"), r#"{"o": {}}"#), answered(expected), "{body}");
        assert_eq!(ask(&format!("r if not g\n{body}"), r#"{"o": {}}"#), Outcome::Undefined, "{body}");
    }
    assert_eq!(ask("r := g\ng[k] contains v if some k, v in input", r#"{"a": 1}"#), answered(r#"{"a":[1]}"#));
    assert_eq!(ask("r := g\ng[k].b := v if some k, v in input", r#"{"a": 1}"#), answered(r#"{"a":{"b":1}}"#));
}

#[test]
fn errors_keep_their_lines() {
    let text = "package p\nr if {\n\tnot startswith(\n\t\tlower(input.s),\n\t\t\"a\",\n\t)\n\tinput.n + 1 == 2\n}\n";
    let mut policies = create(&[("p.rego", text)], "data.p.r").unwrap();
    policies.interpret();
    let Outcome::Failed(what) = policies.eval(r#"{"s": "b", "n": "x"}"#, &Limits::default()) else { panic!() };
    assert!(what.starts_with("p.rego:7:"), "{what}");
}

#[test]
fn patterns_and_numbers_are_read_in_full() {
    assert_eq!(ask(r"r := regex.match(`^(?i)AB\d{2}\w\b\s$`, input)", "\"ab12c \""), answered("true"));
    assert_eq!(ask("r := input", "1773278094308876220000000000000"), answered("1.7732780943088761e+30"));
}
