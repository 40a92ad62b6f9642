//! Answers: one rule, one input after the other.
use crate::check::{Kind, Rules};
use crate::load::{self, File, Finding};
use crate::machine::Machine;
use crate::names;
use regorus::utils::limits::ExecutionTimerConfig;
use regorus::{Engine, Value};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// Steps of an evaluation between two looks at the clock: a step takes a microsecond at most, unless it is one call of a
/// built-in function over much data.
pub const STEPS: NonZeroU32 = NonZeroU32::new(32).unwrap();

#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// None where zero, both.
    pub time: Duration,
    pub answer_bytes: usize,
}

#[derive(Debug, PartialEq)]
pub enum Outcome {
    Failed(String),
    Undefined,
    Answered(String),
    Limit(String),
}

/// Policies and data with the rule that is asked for.
pub struct Policies {
    /// Compiled, and never asked: what an evaluation leaves behind when it fails is thrown away for a copy of it. The
    /// compiled policies and the data are shared by all copies.
    base: Engine,
    engine: Engine,
    entry: Entry,
    machine: Option<Machine>,
    pub revision: u64,
}

#[derive(Clone)]
enum Entry {
    Rule(String),
    /// A package, or a part of a rule's value: asked as a query, which is slower.
    Query(String),
}

impl Policies {
    pub fn create(files: Vec<File>, rule: &str) -> Result<Policies, Vec<Finding>> {
        let loaded = load::load(files, false)?;
        let entry = entry(&loaded.rules, rule).map_err(|finding| vec![finding])?;
        let machine = match &entry {
            Entry::Rule(text) => names::parse_path(text).and_then(|path| Machine::compile(&loaded, &path)),
            Entry::Query(_) => None,
        };
        Ok(Policies { base: loaded.engine.clone(), engine: loaded.engine, entry, machine, revision: loaded.revision })
    }

    pub fn again(&self) -> Policies {
        let (base, entry) = (self.base.clone(), self.entry.clone());
        let machine = self.machine.as_ref().and_then(Machine::again);
        Policies { engine: base.clone(), base, entry, machine, revision: self.revision }
    }

    /// Is the rule evaluated by the register machine?
    pub fn is_compiled(&self) -> bool {
        self.machine.is_some()
    }

    /// Evaluates by the interpreter from now on.
    pub fn interpret(&mut self) {
        self.machine = None;
    }

    /// Forgets whatever an evaluation left behind.
    pub fn reset(&mut self) {
        self.engine = self.base.clone();
        self.machine = self.machine.as_ref().and_then(Machine::again);
    }

    pub fn eval(&mut self, input: &str, limits: &Limits) -> Outcome {
        let input = match Value::from_json_str(input) {
            Ok(input) => input,
            Err(e) => return Outcome::Failed(format!("the input: {}", names::plain(&e))),
        };
        let begun = Instant::now();
        if let Some(machine) = &mut self.machine {
            let value = machine.eval(limits, input.clone());
            if let Some(outcome) = over(limits, begun) {
                return outcome;
            }
            if let Some(value) = value {
                return said(value, limits);
            }
        }
        let outcome = match &self.entry {
            Entry::Rule(path) => answer(&mut self.engine, limits, input, |engine| engine.eval_rule(path.clone())),
            Entry::Query(text) => answer(&mut self.engine, limits, input, |engine| query(engine, text)),
        };
        if matches!(outcome, Outcome::Failed(_) | Outcome::Limit(_)) {
            self.reset();
        }
        outcome
    }
}

fn entry(rules: &Rules, rule: &str) -> Result<Entry, Finding> {
    let fail = |what: &str| Err(format!("{rule}: {what}"));
    let Some(path) = names::parse_path(rule).filter(|path| !path.is_empty()) else {
        return fail("no path of a rule; that is data.package.rule");
    };
    let text = names::path_text(&path);
    match rules.by_path.get(&path).and_then(|definitions| definitions.first()) {
        Some(definition) if matches!(definition.kind, Kind::Function(_)) => fail("is a function, no rule"),
        Some(_) => Ok(Entry::Rule(text)),
        None => {
            let inside_a_rule = (1..path.len()).any(|n| {
                path.get(..n).is_some_and(|above| {
                    rules.by_path.get(above).is_some_and(|all| !all.iter().any(|d| matches!(d.kind, Kind::Function(_))))
                })
            });
            if !inside_a_rule && rules.below(&path).next().is_none() {
                return fail("there is no such rule, nor a package of that name");
            }
            Ok(Entry::Query(text))
        }
    }
}

fn query(engine: &mut Engine, text: &str) -> anyhow::Result<Value> {
    let mut results = engine.eval_query(text.to_string(), false)?.result;
    let first = results.first_mut().and_then(|result| result.expressions.first_mut());
    Ok(first.map_or(Value::Undefined, |expression| std::mem::replace(&mut expression.value, Value::Undefined)))
}

/// One evaluation under limits. What was printed stays in the engine.
pub fn value(
    engine: &mut Engine,
    limits: &Limits,
    input: Value,
    ask: impl FnOnce(&mut Engine) -> anyhow::Result<Value>,
) -> Result<Value, Outcome> {
    if limits.time.is_zero() {
        engine.clear_execution_timer_config();
    } else {
        engine.set_execution_timer_config(ExecutionTimerConfig { limit: limits.time, check_interval: STEPS });
    }
    engine.set_input(input);
    let begun = Instant::now();
    let result = ask(engine);
    if let Some(outcome) = over(limits, begun) {
        return Err(outcome);
    }
    result.map_err(|e| Outcome::Failed(names::plain(&e)))
}

/// The clock decides, not the error: the engine loses the kind of an error that passes through a function, and may even go
/// on without it.
fn over(limits: &Limits, begun: Instant) -> Option<Outcome> {
    let is_over = !limits.time.is_zero() && begun.elapsed() > limits.time;
    is_over.then(|| Outcome::Limit(format!("over its time of {} ms", limits.time.as_secs_f64() * 1e3)))
}

fn answer(
    engine: &mut Engine,
    limits: &Limits,
    input: Value,
    ask: impl FnOnce(&mut Engine) -> anyhow::Result<Value>,
) -> Outcome {
    let result = value(engine, limits, input, ask);
    let _ = engine.take_prints(); // nobody reads them here
    match result {
        Err(outcome) => outcome,
        Ok(value) => said(value, limits),
    }
}

fn said(value: Value, limits: &Limits) -> Outcome {
    if value == Value::Undefined {
        return Outcome::Undefined;
    }
    match serde_json::to_string(&value) {
        Err(e) => Outcome::Failed(format!("the answer: {e}")),
        Ok(text) if limits.answer_bytes > 0 && text.len() > limits.answer_bytes => {
            Outcome::Limit(format!("an answer of more than {} bytes", limits.answer_bytes))
        }
        Ok(text) => Outcome::Answered(text),
    }
}
