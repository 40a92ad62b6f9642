use crate::{answered, create, file, refused};
use doorward_rego::eval::{Limits, Policies};

const R: &str = "package p\nr := data.a";

fn value(files: &[(&str, &str)]) -> String {
    let mut all = vec![("p.rego", R)];
    all.extend(files);
    let mut policies = create(&all, "data.p.r").unwrap();
    match policies.eval("{}", &Limits::default()) {
        doorward_rego::eval::Outcome::Answered(text) => text,
        other => format!("{other:?}"),
    }
}

#[test]
fn data_stands_at_the_path_of_its_folder() {
    assert_eq!(value(&[("a/b/data.json", "[1]"), ("a/data.yaml", "c: {d: x}")]), r#"{"b":[1],"c":{"d":"x"}}"#);
    assert_eq!(value(&[("data.json", r#"{"a": 12345678901234567890}"#)]), "12345678901234567890");
    assert_eq!(value(&[("other.json", r#"{"a": 1}"#)]), "Undefined");
}

#[test]
fn data_that_clashes_is_refused() {
    let clash = |a: (&str, &str), b: (&str, &str)| refused(&[("p.rego", R), a, b], "data.p.r");
    let error = clash(("a/data.json", "{\"x\": 1}"), ("data.json", "{\"a\": {\"x\": 1}}"));
    assert_eq!(error, "data.json: another file has data at a/x as well");
    assert_eq!(clash(("data.json", "[]"), ("x", "")), "data.json: data at the root is an object");
    assert!(clash(("data.json", "{"), ("x", "")).starts_with("data.json: "));
    assert!(clash(("data.yaml", "a: ["), ("x", "")).starts_with("data.yaml: "));
    assert_eq!(
        clash(("data.json", "{\"p\": {\"r\": 1}}"), ("x", "")),
        "p.rego:2:1: data.p.r is a rule, and there is data at the same place"
    );
    assert!(clash(("data.json", "{\"p\": 1}"), ("x", "")).contains("data at the same place"));
}

#[test]
fn every_file_that_does_not_parse_is_named() {
    let error = refused(&[("a.rego", "package a\nx := ["), ("b.rego", "package b\n\n%")], "data.a.x");
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 2, "{error}");
    assert!(lines[0].starts_with("a.rego:2:") && lines[1].starts_with("b.rego:3:"), "{error}");
    let files = vec![file("c.rego", b"package c\n# \xff")];
    assert_eq!(Policies::create(files, "data.c").err().unwrap(), ["c.rego: no UTF-8"]);
    assert_eq!(
        refused(&[("c.rego", "\u{feff}package c\n")], "data.c"),
        "c.rego:1:1: a byte order mark: save the file as UTF-8 without one"
    );
}

#[test]
fn rego_v0_is_refused() {
    assert!(refused(&[("p.rego", "package p\nr { input.x }")], "data.p.r").starts_with("p.rego:2:"));
    assert!(refused(&[("p.rego", "package p\nr[x] { x := 1 }")], "data.p.r").starts_with("p.rego:2:"));
    let mut policies = create(&[("p.rego", "package p\nimport rego.v1\nr if 1 in input.x")], "data.p.r").unwrap();
    assert_eq!(policies.eval(r#"{"x": [1]}"#, &Limits::default()), answered("true"));
}

#[test]
fn the_rule_must_be_there() {
    let files = [("p.rego", "package p.q\nr := 1\nf(x) := x\no[k] := 1 if some k in [\"a\"]\n")];
    for rule in ["", "p.q.r", "data", "data.", "data.p..q", "data.p.q.s", "data.x", "data.p.q.r.s.t", "data.p.q[0]"] {
        if rule != "data.p.q.r.s.t" {
            assert!(refused(&files, rule).starts_with(&format!("{rule}: ")), "{rule}");
        }
    }
    assert_eq!(refused(&files, "data.p.q.f"), "data.p.q.f: is a function, no rule");
    let ask = |rule: &str| create(&files, rule).unwrap().eval("{}", &Limits::default());
    assert_eq!(ask("data.p.q.r"), answered("1"));
    assert_eq!(ask("data.p[\"q\"].r"), answered("1"));
    assert_eq!(ask("data.p.q"), answered(r#"{"o":{"a":1},"r":1}"#));
    assert_eq!(ask("data.p.q.o.a"), answered("1"));
    assert_eq!(ask("data.p.q.o.b"), doorward_rego::eval::Outcome::Undefined);
}

#[test]
fn tests_are_left_out() {
    let files = [("p.rego", "package p\nr := 1"), ("p_test.rego", "this is nothing")];
    create(&files, "data.p.r").unwrap();
}

#[test]
fn the_revision_is_of_the_contents() {
    let of = |files: &[(&str, &str)]| create(files, "data.p.r").unwrap().revision;
    let (a, b) = (("p.rego", "package p\nr := data.x"), ("data.json", "{\"x\": 1}"));
    assert_ne!(of(&[a, b]), 0);
    assert_eq!(of(&[a, b]), of(&[b, a]));
    assert_eq!(of(&[a, b]), of(&[a, b, ("p_test.rego", "package p_test")]));
    assert_ne!(of(&[a, b]), of(&[a, ("data.json", "{\"x\": 2}")]));
    assert_ne!(of(&[a, b]), of(&[a, b, (".manifest", "{\"revision\": \"7\"}")]));
    assert_ne!(
        of(&[a, b, (".manifest", "{\"revision\": \"8\"}")]),
        of(&[a, b, (".manifest", "{\"revision\": \"7\"}")])
    );
}
