use crate::{answered, ask, create};
use doorward_rego::eval::{Limits, Outcome, Policies};
use std::time::Duration;

fn policies(body: &str) -> Policies {
    create(&[("p.rego", &format!("package p\n{body}\n"))], "data.p.r").unwrap_or_else(|findings| panic!("{findings}"))
}

fn within() -> Limits {
    Limits { time: Duration::from_secs(20), answer_bytes: 0 }
}

#[test]
fn plain_rules_are_compiled() {
    for body in [
        "r := 1",
        "r if input.a",
        "default r := false\nr if input.a == 1\nr if { not input.b; \"x\" in input.l }",
        "r contains x if some x in input.l\nr contains \"a\" if input.a\nr contains input.b",
        "r contains [k, v] if some k, v in input.o",
        "r := lower(x) if { x := input.a; is_string(x) } else := \"none\" if { input.b } else := {}",
        "r if { every k, x in input.l { x > k; not x == 7 } }",
        "r := f(input.a) if f(input.a) > 1\nf(x) := y if { y := x + 1; y != 3 } else := 3 if x == 2",
        "r if f(1)\nf(x) if x == 1\nf(x) if x == input.a",
        "r := {\"a\": input.a, \"s\": {1, 2} | t, \"n\": -1}\nt contains 3",
        "r := input.o[input.a][0].b if data.p.s.a == 1\ns := {\"a\": 1}",
        "r if { some x in input.l; x == input.a; some y in x; y in s }\ns := {1}",
        "import rego.v1\nr if time.now_ns() > 1",
        "default r := {\"allow\": false, \"why\": [\"no\", {\"n\": null}]}\nr := {\"allow\": true} if input.a",
        "r := {\"allow\": true} if { some x in input.l; x == 1 }\nr := {\"allow\": true} if input.b",
    ] {
        assert!(policies(body).is_compiled(), "{body}");
    }
}

/// What the machine would get wrong, or what nobody looked at.
#[test]
fn others_are_interpreted() {
    for body in [
        "r := 1 if input.a\nr := 2 if input.b",         // a clash would be undefined
        "default r := 1\nr := x if some x in input.l",  // the last of a loop would win
        "r := 1 if { some x in input.l; x } else := 2", // a loop that never holds would end the chain
        "r contains x + 1 if some x in input.l",        // an error would leave the loop behind
        "r if { some x in input.l; x - 1 == 0 }",
        "r := [1] if input.a\nr := {1} if input.b",
        "r := {\"a\": 1} if input.a\nr := {\"a\": 2} if input.b",
        "r if every x in input.l { x - 1 == 0 }",
        "r if { every x in [] { x == input.a }; not input.a == 1 }", // the input would be of no value
        "r := [x | some x in input.l]",
        "r := {x | some x in input.l}",
        "r := {k: v | some k, v in input.o}",
        "r if input.a with input.a as 1",
        "r if { x = input.a; x == 1 }",
        "r if input.l[_] == 1",
        "r if { some i; input.l[i] == 1 }",
        "r if { [x, y] := input.l; x == y }",
        "r if { x := 1, y in input.l; x }",
        "r[k] := v if some k, v in input.o",
        "r.a.b if input.a",
        "r if f(input.a)\nf(1) if input.b\nf(2) if input.c",
        "r if f(input.a)\nf([x]) if x",
        "r if f(input.a)\ndefault f(_) := false\nf(x) if x == 1",
        "r := f(input.a)\nf(x) := 1 if x\nf(x) := x if x == 1",
        "r if { print(input.a); true }",
        "r if walk(input.a, [input.b, input.c])",
        "r if { count(input.l, n); n == 1 }",
        "r := data.p",
        "import data.q as s\nr if s.a",
        "r := {input.a: 1}",
        "r if input.a % 2 == 0",
        "r if not input.a + 1",
        "r if not data.q[input.k].z", // rules below data.q
        "r if not data[input.k].s.z\ns := {\"z\": true}",
        "r if not data.p[`s`].z\ns := {\"z\": true}",
        "r if f(1, 2, 3, 4, 5, 6, 7, 8, 9)\nf(a, b, c, d, e, g, h, i, j) if a",
    ] {
        let files =
            [("p.rego", format!("package p\n{body}\n")), ("q.rego", "package q\ns := {\"z\": true}".to_string())];
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let Ok(policies) = create(&files, "data.p.r") else { continue };
        assert!(!policies.is_compiled(), "{body}");
    }
}

/// Each of these was wrong in the machine before what `plain` and `strict` do about it.
#[test]
fn what_is_undefined_fails_a_body() {
    for (body, input, expected) in [
        ("r := input.role if input.k else := \"guest\"", r#"{"k": 1}"#, answered("\"guest\"")),
        ("default r := true\nr := input.verdict if input.k else := false", r#"{"k": 1}"#, answered("false")),
        (
            "r if not blocked(input.id)\nblocked(id) := input.blocks[id] if input.k else := true",
            r#"{"k": 1, "id": "eve"}"#,
            Outcome::Undefined,
        ),
        ("r := input.n / input.z if input.k else := \"else\"", r#"{"k": 1, "n": 4, "z": 0}"#, answered("\"else\"")),
        ("r := 1 if input.zz else := s if input.k else := 2\ns if input.nothing", r#"{"k": 1}"#, answered("2")),
        ("r := {\"a\": 1 in input.xs} if input.k else := 2", r#"{"k": 1}"#, answered("2")),
        ("r := input.a if not input.k else := 2", r#"{}"#, answered("2")),
        ("r := input.a if x := input.k else := 2", r#"{"k": 1}"#, answered("2")),
        ("r := input.a if {\n\tnot input.k # why\n\n\tx := [1] # so\n} else := 2", r#"{}"#, answered("2")),
        ("r := x if { x := input.k } else := 2", r#"{"k": false}"#, answered("false")),
        (
            "r := 1 if { every x in s { x > 5 } } else := input.a if { every x in s { x < 5 } } else := 3\ns := {1, 2}",
            r#"{"a": 7}"#,
            answered("7"),
        ),
        (
            "r contains x if { some x in input.l; f(x) }\nf(y) if { some z in y; z == 2 }",
            r#"{"l": [[1], [], [2]]}"#,
            answered("[[2]]"),
        ),
        ("r if { x := input.n; not x == 1 }", "{}", Outcome::Undefined),
        ("r if { x := to_number(input.a); not x < 18 }", r#"{"a": "x"}"#, Outcome::Undefined),
        ("r if { x := input.n; true }", "{}", Outcome::Undefined),
        ("r if x := input.n", "{}", Outcome::Undefined),
        ("r if x := input.n", r#"{"n": 1}"#, answered("true")),
        ("r if x := \"a\" # why", "{}", answered("true")),
        ("r if {\n\tx := {\"a\": input.n}\n\tx.a == 1\n}", r#"{"n": 1}"#, answered("true")),
        ("r := [input.n, 1]", "{}", Outcome::Undefined),
        ("r contains input.n\nr contains 1", "{}", answered("[1]")),
        ("r contains {\"a\": input.n}\nr contains 1", "{}", answered("[1]")),
        ("r if f(input.n)\nf(x) := true", "{}", Outcome::Undefined),
        ("r if not f(input.n)\nf(x) := true", "{}", Outcome::Undefined),
        ("r if { x := false; not x }", "{}", answered("true")),
        ("r := x if x := null", "{}", answered("null")),
        ("r if { v := 1 in input.l; not v }", "{}", Outcome::Undefined),
        ("r if { v := 1 in input.l; not v }", r#"{"l": [2]}"#, answered("true")),
        ("r if every x in input.l { x == 1 }", "{}", Outcome::Undefined),
        ("r if every x in input.l { x == 1 }", r#"{"l": []}"#, answered("true")),
        ("r if { every x in [] { x == 1 }; input.a == 1 }", r#"{"a": 1}"#, answered("true")),
    ] {
        assert!(policies(body).is_compiled(), "{body}");
        assert_eq!(ask(body, input), expected, "{body}");
        let mut interpreted = policies(body);
        interpreted.interpret();
        assert_eq!(interpreted.eval(input, &within()), expected, "{body}, interpreted");
    }
}

#[test]
fn nothing_is_left_of_the_input_before() {
    let mut policies =
        policies("r := {\"who\": input.user, \"roles\": roles}\nroles contains x if some x in input.roles");
    let mut other = policies.again();
    assert!(policies.is_compiled() && other.is_compiled());
    for one in [&mut policies, &mut other] {
        assert_eq!(one.eval(r#"{"user": 1, "roles": ["a"]}"#, &within()), answered(r#"{"roles":["a"],"who":1}"#));
        assert_eq!(one.eval(r#"{"user": 2}"#, &within()), answered(r#"{"roles":[],"who":2}"#));
        assert_eq!(one.eval("{}", &within()), Outcome::Undefined);
    }
}

#[test]
fn time_is_limited() {
    let rules: String =
        (1..=20).map(|n| format!("s{n} contains [x, {n}] if {{ some y in s{}; some x in y }}\n", n - 1)).collect();
    let text = format!("r if count(s20) > 0\ns0 := [numbers.range(1, 100000) | true]\n{rules}");
    let text = text.replace("[numbers.range(1, 100000) | true]", "[numbers.range(1, 200000)]");
    let mut policies = policies(&text);
    assert!(policies.is_compiled());
    let outcome = policies.eval("{}", &Limits { time: Duration::from_millis(30), answer_bytes: 0 });
    assert!(matches!(outcome, Outcome::Limit(_)), "{outcome:?}");
    let mut small = self::policies("r := input.a");
    let limits = Limits { time: Duration::ZERO, answer_bytes: 8 };
    assert!(small.is_compiled());
    assert!(matches!(small.eval(r#"{"a": "0123456789"}"#, &limits), Outcome::Limit(_)));
    assert_eq!(small.eval(r#"{"a": "0"}"#, &limits), answered("\"0\""));
}
