//! Runs the rules named `test_…`, as `opa test` does.
use crate::eval::{self, Limits, Outcome};
use crate::load::{self, File, Finding};
use crate::names;
use crate::refs;
use regorus::unstable::{Expr, Literal, LiteralStmt, Module, Ref, Rule, RuleHead};
use regorus::{Engine, Value};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

pub struct Test {
    pub name: String,
    pub place: String,
    /// Why it failed, and what it printed.
    pub message: String,
    pub passed: bool,
    pub skipped: bool,
    /// Of a rule `test_x[case]`: how many it has, and how many of them failed.
    pub cases: usize,
    pub failed_cases: usize,
    pub took: Duration,
}

pub fn run(files: Vec<File>, limits: &Limits, mut on_test: impl FnMut(&Test)) -> Result<(), Vec<Finding>> {
    let base = load::load(files, true)?.engine;
    let mut engine = base.clone();
    let modules = engine.get_modules().clone();
    let mut seen = BTreeSet::new();
    for module in &modules {
        for rule in &module.policy {
            let Rule::Spec {
                head: RuleHead::Compr { refr, .. } | RuleHead::Func { refr, .. } | RuleHead::Set { refr, .. },
                ..
            } = rule.as_ref()
            else {
                continue;
            };
            let mut path = names::static_path(&module.package.refr);
            let own = names::static_path(refr);
            let last = own.last().map_or("", String::as_str);
            let skipped = last.starts_with("todo_test_");
            if !skipped && !last.starts_with("test_") {
                continue;
            }
            path.extend(own.iter().cloned());
            let name = names::path_text(&path);
            if !seen.insert(name.clone()) {
                continue;
            }
            let span = rule.span();
            let place = format!("{}:{}", span.source.get_path(), span.line);
            let mut test = Test {
                name,
                place,
                message: String::new(),
                passed: false,
                skipped,
                cases: 0,
                failed_cases: 0,
                took: Duration::ZERO,
            };
            if !skipped {
                engine = base.clone(); // a test that fails may leave something behind
                run_one(&mut engine, limits, module, rule, &mut test);
            }
            on_test(&test);
        }
    }
    Ok(())
}

fn run_one(engine: &mut Engine, limits: &Limits, module: &Module, rule: &Rule, test: &mut Test) {
    let begun = Instant::now();
    let name = test.name.clone();
    let result = eval::value(engine, limits, Value::Undefined, |engine| engine.eval_rule(name));
    test.took = begun.elapsed();
    let mut lines = match result {
        Err(Outcome::Failed(what) | Outcome::Limit(what)) => vec![what],
        Err(_) | Ok(Value::Undefined) => vec!["undefined".to_string()],
        Ok(Value::Bool(false)) => vec!["false".to_string()],
        Ok(value) => {
            let (cases, failed) = failed_cases(engine, limits, module, rule, &value);
            test.cases = cases;
            test.failed_cases = if cases > 0 { failed.len() } else { 0 };
            failed
        }
    };
    test.passed = lines.is_empty();
    lines.extend(engine.take_prints().unwrap_or_default());
    test.message = lines.join("\n");
}

/// A rule `test_x[case]` has one outcome for each case that its body names, and a case without one has failed. The cases
/// are what the body's first statements bind, up to the one that binds the last variable of the case. How many there are, 0
/// when the rule has none, and what is to be said of those that failed.
fn failed_cases(engine: &Engine, limits: &Limits, module: &Module, rule: &Rule, value: &Value) -> (usize, Vec<String>) {
    let Some(text) = cases(module, rule) else { return (0, Vec::new()) };
    let mut engine = engine.clone();
    let ask = |engine: &mut Engine| {
        engine.add_policy("cases".into(), text)?;
        let mut path = names::static_path(&module.package.refr);
        path.push(CASES.into());
        engine.eval_rule(names::path_text(&path))
    };
    let cases = match eval::value(&mut engine, limits, Value::Undefined, ask) {
        Ok(cases) => cases,
        Err(Outcome::Failed(what) | Outcome::Limit(what)) => return (0, vec![format!("its cases: {what}")]),
        Err(_) => return (0, Vec::new()),
    };
    let failed = |case: &Value| {
        let found = case.as_array().ok().map(|keys| keys.iter().fold(value, |at, key| &at[key]));
        matches!(found, None | Some(Value::Undefined | Value::Bool(false)))
    };
    let all = cases.as_set().map(|set| set.iter().cloned().collect::<Vec<_>>()).unwrap_or_default();
    if all.is_empty() {
        return (0, vec!["no case".to_string()]);
    }
    (all.len(), all.iter().filter(|case| failed(case)).map(|case| format!("case {case}")).collect())
}

const CASES: &str = "doorward_test_cases";

/// A policy with the set of all cases, each the list of its keys; None when the rule has no cases.
fn cases(module: &Module, rule: &Rule) -> Option<String> {
    let Rule::Spec { head: RuleHead::Compr { refr, .. }, bodies, .. } = rule else { return None };
    let keys = keys(refr);
    let mut wanted = BTreeSet::new();
    keys.iter().for_each(|key| refs::variables(key, &mut wanted));
    let stmts = &bodies.first()?.query.stmts;
    let first = stmts.first()?;
    let last = stmts.iter().find(|stmt| {
        binds(stmt).iter().for_each(|name| {
            wanted.remove(name);
        });
        wanted.is_empty()
    })?;
    if keys.is_empty() {
        return None;
    }
    let source = first.span.source.get_contents();
    let text = |from: u32, to: u32| source.get(from as usize..to as usize);
    let imports: Vec<&str> =
        module.imports.iter().filter_map(|import| line_of(source, import.span.start as usize)).collect();
    let keys: Vec<&str> = keys.iter().map(|key| key.span().text()).collect();
    Some(format!(
        "package {}\n{}\n{CASES} contains [{}] if {{\n{}\n}}\n",
        module.package.refr.span().text(),
        imports.join("\n"),
        keys.join(", "),
        text(first.span.start, last.span.end)?,
    ))
}

fn line_of(source: &str, at: usize) -> Option<&str> {
    let begin = source.get(..at)?.rfind('\n').map_or(0, |n| n + 1);
    source.get(begin..)?.lines().next()
}

/// The keys in brackets behind a rule's name.
fn keys(refr: &Ref<Expr>) -> Vec<Ref<Expr>> {
    match refr.as_ref() {
        Expr::RefBrack { refr, index, .. } if !matches!(index.as_ref(), Expr::String { .. }) => {
            let mut before = keys(refr);
            before.push(index.clone());
            before
        }
        _ => Vec::new(),
    }
}

fn binds(stmt: &LiteralStmt) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    match &stmt.literal {
        Literal::SomeIn { key, value, .. } => {
            key.iter().chain([value]).for_each(|expr| refs::variables(expr, &mut names))
        }
        Literal::Expr { expr, .. } => {
            if let Expr::AssignExpr { lhs, rhs, .. } = expr.as_ref() {
                refs::variables(lhs, &mut names);
                refs::variables(rhs, &mut names);
            }
        }
        _ => {}
    }
    names
}
