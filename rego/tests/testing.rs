use crate::file;
use doorward_rego::eval::Limits;
use doorward_rego::testing::run;
use std::time::Duration;

/// Every test as one line: what it came to, its name, its place, its message.
fn outcome(text: &str, limits: &Limits) -> Vec<String> {
    let mut lines = Vec::new();
    let files = vec![file("p.rego", "package p\nr if input.x"), file("p_test.rego", text)];
    run(files, limits, |test| {
        let what = if test.skipped {
            "skipped"
        } else if test.passed {
            "passed"
        } else {
            "failed"
        };
        lines.push(format!("{what} {} {} {}", test.name, test.place, test.message).trim_end().to_string());
    })
    .unwrap();
    lines
}

#[test]
fn what_passes_is_defined_and_not_false() {
    let text = "package p_test
import data.p
test_a if p.r with input as {\"x\": true}
test_b if not p.r with input as {\"x\": true}
test_c := false
test_d := 0
todo_test_e := false
not_a_test := false
helper(x) := x
test_f contains 1
test_g := 1 if { true }
test_g := 2 if { true }
";
    assert_eq!(
        outcome(text, &Limits::default())[..6],
        [
            "passed data.p_test.test_a p_test.rego:3",
            "failed data.p_test.test_b p_test.rego:4 undefined",
            "failed data.p_test.test_c p_test.rego:5 false",
            "passed data.p_test.test_d p_test.rego:6",
            "skipped data.p_test.todo_test_e p_test.rego:7",
            "passed data.p_test.test_f p_test.rego:10",
        ]
    );
    let last = outcome(text, &Limits::default()).pop().unwrap();
    assert!(last.starts_with("failed data.p_test.test_g p_test.rego:11 p_test.rego:12:"), "{last}");
}

#[test]
fn every_case_must_hold() {
    let text = "package p_test
import data.p
test_all[name] if {
\tsome name, x in {\"one\": true, \"two\": 7}
\tp.r with input as {\"x\": x}
}
test_some[name] if {
\tsome name, x in {\"one\": true, \"two\": false, \"three\": null}
\tx == true
}
test_none[name] if {
\tsome name in []
}
test_fixed[\"a\"] if false
";
    assert_eq!(
        outcome(text, &Limits::default()),
        [
            "passed data.p_test.test_all p_test.rego:3",
            "failed data.p_test.test_some p_test.rego:7 case [\"three\"]\ncase [\"two\"]",
            "failed data.p_test.test_none p_test.rego:11 no case",
        ]
    );
}

#[test]
fn cases_are_counted() {
    let text = "package p_test
test_some[name] if {
\tsome name, x in {\"one\": true, \"two\": false, \"three\": null}
\tx == true
}
test_none[name] if {
\tsome name in []
}
test_plain if false
";
    let mut counts = Vec::new();
    run(vec![file("p_test.rego", text)], &Limits::default(), |test| counts.push((test.cases, test.failed_cases)))
        .unwrap();
    assert_eq!(counts, [(3, 2), (0, 0), (0, 0)]);
}

#[test]
fn what_is_printed_is_told() {
    let text = "package p_test\ntest_a if {\n\tprint(\"seen\", [1])\n\tfalse\n}";
    assert_eq!(
        outcome(text, &Limits::default()),
        ["failed data.p_test.test_a p_test.rego:2 undefined\np_test.rego:3: seen [1]"]
    );
}

#[test]
fn a_test_without_end_fails() {
    let text = "package p_test
test_a if { some x in numbers.range(1, 3000); some y in numbers.range(1, 3000); some z in numbers.range(1, 3000); x * y * z == 0 }
test_b := true";
    let limits = Limits { time: Duration::from_millis(20), answer_bytes: 0 };
    assert_eq!(outcome(text, &limits)[0], "failed data.p_test.test_a p_test.rego:2 over its time of 20 ms");
}
