//! What OPA refuses when it compiles and the engine only finds out while it evaluates, or never: functions that are
//! nowhere, recursion, rules that clash. regorus leaves these to the evaluation, where a missing function would be an
//! error of one request, and recursion the end of the stack.
use crate::load::Finding;
use crate::names;
use crate::patterns;
use crate::refs;
use regorus::Value;
use regorus::unstable::{Expr, Import, Module, Ref, Rule, RuleHead, Span};
use std::collections::{BTreeMap, BTreeSet};

/// Components below `data`.
pub type Path = Vec<String>;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Complete,
    Object,
    Set,
    Function(usize),
}

pub struct Definition {
    pub kind: Kind,
    pub is_default: bool,
    pub span: Span,
}

/// All rules by the known part of their path.
#[derive(Default)]
pub struct Rules {
    pub by_path: BTreeMap<Path, Vec<Definition>>,
}

impl Rules {
    pub fn function(&self, path: &[String]) -> Option<usize> {
        self.by_path.get(path)?.iter().find_map(|definition| match definition.kind {
            Kind::Function(arity) => Some(arity),
            _ => None,
        })
    }

    /// Rules whose path begins with this one, itself left out.
    pub fn below(&self, path: &[String]) -> impl Iterator<Item = &Path> {
        self.by_path
            .range(path.to_vec()..)
            .map(|(at, _)| at)
            .take_while(|at| at.starts_with(path))
            .filter(|at| at.len() > path.len())
    }

    fn add(&mut self, package: &[String], rule: &Rule) {
        let (refr, kind, is_default, span) = match rule {
            Rule::Spec { head: RuleHead::Compr { refr, .. }, span, .. } => {
                let is_object = names::parts(refr).contains(&None);
                (refr, if is_object { Kind::Object } else { Kind::Complete }, false, span)
            }
            Rule::Spec { head: RuleHead::Set { refr, .. }, span, .. } => {
                let is_object = names::parts(refr).contains(&None);
                (refr, if is_object { Kind::Object } else { Kind::Set }, false, span)
            }
            Rule::Spec { head: RuleHead::Func { refr, args, .. }, span, .. } => {
                (refr, Kind::Function(args.len()), false, span)
            }
            Rule::Default { refr, args, span, .. } if args.is_empty() => (refr, Kind::Complete, true, span),
            Rule::Default { refr, args, span, .. } => (refr, Kind::Function(args.len()), true, span),
        };
        let mut path = package.to_vec();
        path.extend(names::static_path(refr));
        self.by_path.entry(path).or_default().push(Definition { kind, is_default, span: span.clone() });
    }
}

/// All rules, when nothing is wrong with them; every finding otherwise.
pub fn check(modules: &[Ref<Module>], data: &Value) -> Result<Rules, Vec<Finding>> {
    let mut rules = Rules::default();
    let mut findings = Vec::new();
    for module in modules {
        let package = names::static_path(&module.package.refr);
        for rule in &module.policy {
            rules.add(&package, rule);
            findings.extend(constant_default(rule));
        }
        findings.extend(imports(&module.imports));
    }
    findings.extend(imports_of_packages(modules, &rules));
    for (path, definitions) in &rules.by_path {
        findings.extend(clash(&rules, path, definitions));
        findings.extend(clash_with_data(path, definitions, data));
    }
    findings.extend(modules.iter().filter_map(|module| clash_with_package(&rules, module)));
    findings.extend(refs::check(modules, &rules));
    findings.extend(patterns::check(modules));
    if findings.is_empty() { Ok(rules) } else { Err(findings) }
}

fn finding(span: &Span, what: &str) -> Finding {
    format!("{}: {what}", names::place(span))
}

fn clash(rules: &Rules, path: &Path, definitions: &[Definition]) -> Option<Finding> {
    let first = definitions.first()?;
    let kinds: BTreeSet<Kind> = definitions.iter().map(|definition| definition.kind).collect();
    let at = |definition: &Definition, what: &str| {
        Some(finding(&definition.span, &format!("{} {what}", names::path_text(path))))
    };
    if kinds.len() > 1 {
        let other = definitions.iter().find(|definition| definition.kind != first.kind)?;
        return at(
            other,
            &format!("is a rule of another kind, or has other arguments, at {}", names::place(&first.span)),
        );
    }
    let mut defaults = definitions.iter().filter(|definition| definition.is_default).skip(1);
    if let Some(second) = defaults.next() {
        return at(second, "has a default already");
    }
    if first.kind == Kind::Object {
        let is_partial = |below: &&Path| {
            rules
                .by_path
                .get(*below)
                .is_some_and(|all| all.iter().any(|one| matches!(one.kind, Kind::Object | Kind::Set)))
        };
        if let Some(below) = rules.below(path).find(is_partial) {
            let place = names::place(&rules.by_path.get(below)?.first()?.span);
            return at(
                first,
                &format!(
                    "has variable keys, and {} at {place} has members of its own: without any it would not be undefined; \
                     give it another name",
                    names::path_text(below)
                ),
            );
        }
    }
    if first.kind != Kind::Object {
        if let Some(below) = rules.below(path).next() {
            return at(first, &format!("is a rule, and so is {} inside it", names::path_text(below)));
        }
    }
    None
}

/// A rule may not stand where data stands, nor below data that is no object.
fn clash_with_data(path: &Path, definitions: &[Definition], data: &Value) -> Option<Finding> {
    let mut at = data;
    for part in path {
        match at.as_object() {
            Ok(object) => at = object.get(&Value::from(part.as_str()))?,
            Err(_) => break,
        }
    }
    Some(finding(
        &definitions.first()?.span,
        &format!("{} is a rule, and there is data at the same place", names::path_text(path)),
    ))
}

fn clash_with_package(rules: &Rules, module: &Module) -> Option<Finding> {
    let package = names::static_path(&module.package.refr);
    let (path, there) = (1..=package.len()).find_map(|n| rules.by_path.get_key_value(package.get(..n)?))?;
    let place = names::place(&there.first()?.span);
    Some(finding(
        names::start(&module.package.refr),
        &format!("package {} and the rule {} at {place} clash", names::path_text(&package), names::path_text(path)),
    ))
}

/// The name an import has in its module.
pub fn alias(import: &Import) -> Option<String> {
    match &import.r#as {
        Some(name) => Some(name.text().to_string()),
        None => names::static_path(&import.refr).pop(),
    }
}

fn imports(imports: &[Import]) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for import in imports {
        let span = names::start(&import.refr);
        let path = names::static_path(&import.refr);
        match path.first().map(String::as_str) {
            Some("rego" | "future") => continue,
            Some("data" | "input") => {}
            _ => findings.push(finding(span, "an import begins with data, input, rego or future")),
        }
        if let Some(name) = alias(import) {
            if !seen.insert(name.clone()) {
                findings.push(finding(span, &format!("{name} is imported already")));
            }
        }
    }
    findings
}

/// The engine takes the imports of one file for those of all files of its package, and looks for rules and built-in
/// functions of their names first or last.
fn imports_of_packages(modules: &[Ref<Module>], rules: &Rules) -> Vec<Finding> {
    let mut seen: BTreeMap<(Path, String), Path> = BTreeMap::new();
    let mut findings = Vec::new();
    for module in modules {
        let package = names::static_path(&module.package.refr);
        for import in &module.imports {
            let (target, Some(name)) = (names::static_path(&import.refr), alias(import)) else { continue };
            if matches!(target.first().map(String::as_str), Some("rego" | "future")) {
                continue;
            }
            let span = names::start(&import.refr);
            let own: Path = package.iter().cloned().chain([name.clone()]).collect();
            let is_elsewhere = |other: &&Ref<Module>| {
                names::static_path(&other.package.refr) == package
                    && !other.imports.iter().any(|import| alias(import).as_ref() == Some(&name))
            };
            if refs::is_namespace(&name) && modules.iter().any(|other| is_elsewhere(&other)) {
                findings
                    .push(finding(span, &format!("{name} is the name of built-in functions: import it `as` another")));
            }
            if rules.by_path.contains_key(&own) || rules.below(&own).next().is_some() {
                findings.push(finding(span, &format!("{name} is a rule of this package: import it `as` another name")));
            }
            if seen.insert((package.clone(), name.clone()), target.clone()).is_some_and(|other| other != target) {
                let what = format!(
                    "{name} is imported from elsewhere by another file of this package: import it `as` another name"
                );
                findings.push(finding(span, &what));
            }
        }
    }
    findings
}

fn constant_default(rule: &Rule) -> Option<Finding> {
    let Rule::Default { value, .. } = rule else { return None };
    let what = variable(value)?;
    Some(finding(&what, "a default is a constant"))
}

/// The first thing of a value that only an evaluation knows. Comprehensions are constants in OPA's eyes.
fn variable(value: &Ref<Expr>) -> Option<Span> {
    match value.as_ref() {
        Expr::Var { .. } | Expr::Call { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } => {
            Some(names::start(value).clone())
        }
        Expr::Array { items, .. } | Expr::Set { items, .. } => items.iter().find_map(variable),
        Expr::Object { fields, .. } => {
            fields.iter().find_map(|(_, key, value)| variable(key).or_else(|| variable(value)))
        }
        _ => None,
    }
}
