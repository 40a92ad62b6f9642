//! Which rules are plain enough for the engine's register machine (`machine`).
//!
//! The machine evaluates what it is given several times faster than the interpreter, and says more than OPA in places: two
//! values of a rule are no error for it, a loop's last value wins, an error inside a loop leaves the loop behind. So it is
//! given only rules of which every part is listed here, each part read in its source and compared with OPA and with the
//! interpreter by tests; everything else is interpreted.
//!
//!   rules        complete, of one definition, or of several that all have the same constant; sets by `contains`;
//!                functions of plain arguments, with the same limits; a default that is a constant; `else`
//!   statements   expressions, `not`, `some … in`, `every`, `x := …`
//!   expressions  all but comprehensions, `with`, `=`, `k, v in …`, variables that run over keys, `print`, `walk`
//!
//! Loops bring more limits: a rule that has one gives a constant or is a set, has no `else`, and no arithmetic, which can
//! fail. A name is one thing only: a local variable may not have the name of a rule, and nothing is imported. A reference
//! to data that has a variable part does not lead to rules.
use crate::check::{Kind, Path, Rules};
use crate::names;
use crate::patterns::name;
use crate::refs::{self, Names};
use regorus::unstable::{AssignOp, BoolOp, Expr, Literal, LiteralStmt, Module, Query, Ref, Rule, RuleBody, RuleHead};
use std::collections::{BTreeMap, BTreeSet};

/// Arguments that one call can have in the machine.
const MOST_ARGUMENTS: usize = 8;
/// Built-in functions that are no functions of their arguments for the engine.
const SPECIAL: [&str; 3] = ["print", "trace", "walk"];

pub struct Plain<'a> {
    rules: &'a Rules,
    definitions: BTreeMap<Path, Vec<(&'a Module, &'a Rule)>>,
    /// Packages of which a file imports something: the engine takes its imports for those of all files.
    importing: BTreeSet<Path>,
    /// `some … in` and `every` of all rules looked at.
    pub loops: usize,
}

/// What one body's names mean.
struct Meaning<'a> {
    package: &'a [String],
    documents: Names,
    bound: Names,
    /// The body has a loop: nothing in it may fail.
    in_loop: bool,
}

impl<'a> Plain<'a> {
    pub fn new(modules: &'a [Ref<Module>], rules: &'a Rules) -> Plain<'a> {
        let mut definitions: BTreeMap<Path, Vec<(&Module, &Rule)>> = BTreeMap::new();
        for module in modules {
            let package = names::static_path(&module.package.refr);
            for rule in &module.policy {
                let path = package.iter().cloned().chain(names::static_path(name(rule))).collect();
                definitions.entry(path).or_default().push((module, rule));
            }
        }
        let imports = |module: &&Ref<Module>| {
            let mut roots = module.imports.iter().map(|import| names::static_path(&import.refr).into_iter().next());
            roots.any(|root| !matches!(root.as_deref(), Some("rego" | "future")))
        };
        let importing = modules.iter().filter(imports).map(|module| names::static_path(&module.package.refr)).collect();
        Plain { rules, definitions, importing, loops: 0 }
    }

    /// Does the rule have a default?
    pub fn has_default(&self, path: &Path) -> bool {
        self.all(path).iter().any(|(_, rule)| matches!(rule, Rule::Default { .. }))
    }

    fn all(&self, path: &Path) -> Vec<(&'a Module, &'a Rule)> {
        self.definitions.get(path).cloned().unwrap_or_default()
    }

    /// Is everything of this rule plain? Not of the rules that it uses.
    pub fn rule(&mut self, path: &Path) -> bool {
        let all = self.all(path);
        let specs = all.iter().filter(|(_, rule)| matches!(rule, Rule::Spec { .. })).count();
        specs > 0
            && all.iter().all(|(module, rule)| self.definition(module, rule))
            && (specs == 1 || is_set(&all) || same_constant(&all))
    }

    fn definition(&mut self, module: &Module, rule: &Rule) -> bool {
        let package = names::static_path(&module.package.refr);
        if !matches!(name(rule).as_ref(), Expr::Var { .. }) || self.importing.contains(&package) {
            return false;
        }
        let (head, bodies) = match rule {
            Rule::Default { args, value, .. } => return args.is_empty() && constant(value).is_some(),
            Rule::Spec { head, bodies, .. } => (head, bodies),
        };
        if !bodies.iter().skip(1).all(|body| body.is_else) || bodies.first().is_some_and(|body| body.is_else) {
            return false;
        }
        let mut documents: Names = ["input", "data"].map(String::from).into();
        documents.extend(self.rules.below(&package).filter_map(|path| path.get(package.len()).cloned()));
        let mut arguments = Names::new();
        if let RuleHead::Func { args, .. } = head {
            let are_names = args.iter().all(|arg| match arg.as_ref() {
                Expr::Var { span, .. } => {
                    span.text() != "_" && !documents.contains(span.text()) && arguments.insert(span.text().to_string())
                }
                _ => false,
            });
            if !are_names || args.is_empty() || args.len() > MOST_ARGUMENTS {
                return false;
            }
        }
        let (is_a_set, value) = match head {
            RuleHead::Compr { assign, .. } | RuleHead::Func { assign, .. } => {
                (false, assign.as_ref().map(|assign| &assign.value))
            }
            RuleHead::Set { key, .. } => (true, key.as_ref()),
        };
        if is_a_set && (value.is_none() || bodies.len() > 1) {
            return false;
        }
        let names = |bound, in_loop| Meaning { package: &package, documents: documents.clone(), bound, in_loop };
        if bodies.is_empty() {
            return value.is_some_and(|value| self.expr(value, &names(arguments.clone(), false)));
        }
        bodies.iter().enumerate().all(|(i, body)| {
            let in_loop = loops(&body.query);
            let Some(bound) = declared(&body.query, &arguments, &documents) else { return false };
            let names = names(bound, in_loop);
            let value = body.assign.as_ref().map(|assign| &assign.value).or(if i == 0 { value } else { None });
            let is_constant = value.is_none_or(|value| constant(value).is_some());
            let ends = !in_loop || is_a_set || (bodies.len() == 1 && is_constant);
            let is_defined = is_constant
                || value.is_some_and(
                    |value| matches!(value.as_ref(), Expr::Var { span, .. } if names.bound.contains(span.text())),
                );
            let goes_on = i + 1 == bodies.len() || is_defined;
            ends && goes_on && value.is_none_or(|value| self.expr(value, &names)) && self.query(&body.query, &names)
        })
    }

    fn query(&mut self, query: &Query, names: &Meaning) -> bool {
        query.stmts.iter().enumerate().all(|(i, stmt)| self.stmt(stmt, query.stmts.get(i + 1), names))
    }

    fn stmt(&mut self, stmt: &LiteralStmt, next: Option<&LiteralStmt>, names: &Meaning) -> bool {
        if !stmt.with_mods.is_empty() {
            return false;
        }
        match &stmt.literal {
            Literal::SomeVars { .. } => false,
            Literal::SomeIn { collection, .. } => {
                self.loops += 1;
                self.expr(collection, names)
            }
            Literal::Expr { expr, .. } => match expr.as_ref() {
                Expr::AssignExpr { op: AssignOp::ColEq, lhs, rhs, .. } => {
                    self.expr(rhs, names) && next.is_some_and(|next| is_guard(next, lhs))
                }
                _ => self.expr(expr, names),
            },
            // Where arithmetic fails, the machine fails the body around it, and not what is negated.
            Literal::NotExpr { expr, .. } => !matches!(expr.as_ref(), Expr::ArithExpr { .. }) && self.expr(expr, names),
            Literal::Every { key, value, domain, query, .. } => {
                self.loops += 1;
                let own: Names = key.iter().chain([value]).map(|span| span.text().to_string()).collect();
                let is_new = own.iter().all(|name| !names.documents.contains(name) && !names.bound.contains(name));
                let inside = Meaning {
                    package: names.package,
                    documents: names.documents.clone(),
                    bound: &names.bound | &own,
                    in_loop: true,
                };
                let are_conditions = query.stmts.iter().all(|stmt| match &stmt.literal {
                    Literal::Expr { expr, .. } => !matches!(expr.as_ref(), Expr::AssignExpr { .. }),
                    literal => matches!(literal, Literal::NotExpr { .. }),
                });
                !names.in_loop
                    && is_new
                    && own.len() == 1 + usize::from(key.is_some())
                    && are_conditions
                    && self.expr(domain, names)
                    && self.query(query, &inside)
            }
        }
    }

    fn expr(&self, expr: &Ref<Expr>, names: &Meaning) -> bool {
        match expr.as_ref() {
            Expr::String { .. }
            | Expr::RawString { .. }
            | Expr::Number { .. }
            | Expr::Bool { .. }
            | Expr::Null { .. } => true,
            Expr::Var { span, .. } => names.documents.contains(span.text()) || names.bound.contains(span.text()),
            Expr::Array { items, .. } | Expr::Set { items, .. } => items.iter().all(|item| self.expr(item, names)),
            Expr::Object { fields, .. } => {
                let mut seen = Names::new();
                fields.iter().all(|(_, key, value)| {
                    let key = constant(key).and_then(|key| key.as_str().map(String::from));
                    key.is_some_and(|key| seen.insert(key)) && self.expr(value, names)
                })
            }
            Expr::Call { fcn, params, .. } => {
                self.function(fcn, params.len(), names) && params.iter().all(|param| self.expr(param, names))
            }
            Expr::UnaryExpr { expr, .. } => matches!(expr.as_ref(), Expr::Number { .. }),
            Expr::RefDot { refr, .. } => self.leads_to_values(expr) && self.expr(refr, names),
            Expr::RefBrack { refr, index, .. } => {
                let is_raw = matches!(index.as_ref(), Expr::RawString { .. }); // a variable part for the engine
                !is_raw && self.leads_to_values(expr) && self.expr(refr, names) && self.expr(index, names)
            }
            Expr::BinExpr { lhs, rhs, .. } | Expr::BoolExpr { lhs, rhs, .. } => {
                self.expr(lhs, names) && self.expr(rhs, names)
            }
            Expr::ArithExpr { lhs, rhs, .. } => !names.in_loop && self.expr(lhs, names) && self.expr(rhs, names),
            Expr::Membership { key: None, value, collection, .. } => {
                self.expr(value, names) && self.expr(collection, names)
            }
            Expr::Membership { .. }
            | Expr::AssignExpr { .. }
            | Expr::ArrayCompr { .. }
            | Expr::SetCompr { .. }
            | Expr::ObjectCompr { .. } => false,
        }
    }

    /// Is this no reference to data whose variable part may be the name of a rule?
    fn leads_to_values(&self, refr: &Ref<Expr>) -> bool {
        let (parts, known) = (names::parts(refr), names::static_path(refr));
        match known.split_first() {
            Some((root, path)) if root == "data" && known.len() < parts.len() => {
                self.rules.below(path).next().is_none()
            }
            _ => true,
        }
    }

    /// One more argument would be a pattern for the answer.
    fn function(&self, fcn: &Ref<Expr>, given: usize, names: &Meaning) -> bool {
        let path = names::static_path(fcn);
        if path.len() != names::parts(fcn).len() || path.first().is_none_or(|root| names.bound.contains(root)) {
            return false;
        }
        let own: Path = names.package.iter().chain(&path).cloned().collect();
        let arity = match self.rules.function(&own) {
            Some(arity) => Some(arity),
            None if names.documents.contains(&path[0]) => None, // data.a.f, or a rule's name before a built-in's
            None if SPECIAL.contains(&path.join(".").as_str()) => None,
            None => refs::builtin(&path.join(".")),
        };
        arity == Some(given) && given <= MOST_ARGUMENTS
    }
}

fn is_set(all: &[(&Module, &Rule)]) -> bool {
    all.iter().all(|(_, rule)| matches!(rule, Rule::Spec { head: RuleHead::Set { .. }, .. }))
}

/// Do all bodies of all definitions give one constant?
fn same_constant(all: &[(&Module, &Rule)]) -> bool {
    let mut values = Vec::new();
    for (_, rule) in all {
        let Rule::Spec { head: RuleHead::Compr { assign, .. } | RuleHead::Func { assign, .. }, bodies, .. } = rule
        else {
            if matches!(rule, Rule::Default { .. }) {
                continue;
            }
            return false;
        };
        let of_head = assign.as_ref().map(|assign| &assign.value);
        let of_body = |(i, body): (usize, &RuleBody)| {
            let own = body.assign.as_ref().map(|assign| &assign.value);
            own.or(if i == 0 { of_head } else { None }).map_or(Some(serde_json::Value::Bool(true)), constant)
        };
        if bodies.is_empty() {
            values.push(of_head.and_then(constant));
        }
        values.extend(bodies.iter().enumerate().map(of_body));
    }
    values.iter().all(|value| value.is_some() && Some(value) == values.first())
}

/// A value that is there before any evaluation: a scalar, or a list or object of such, by texts.
fn constant(expr: &Ref<Expr>) -> Option<serde_json::Value> {
    match expr.as_ref() {
        Expr::String { value, .. }
        | Expr::RawString { value, .. }
        | Expr::Number { value, .. }
        | Expr::Bool { value, .. } => serde_json::to_value(value).ok(),
        Expr::Null { .. } => Some(serde_json::Value::Null),
        Expr::Array { items, .. } => items.iter().map(constant).collect(),
        Expr::Object { fields, .. } => {
            let mut members = serde_json::Map::new();
            for (_, key, value) in fields {
                let key = constant(key)?.as_str().map(String::from)?;
                if members.insert(key, constant(value)?).is_some() {
                    return None;
                }
            }
            Some(members.into())
        }
        _ => None,
    }
}

fn loops(query: &Query) -> bool {
    query.stmts.iter().any(|stmt| matches!(stmt.literal, Literal::SomeIn { .. }))
}

/// The variables of a body with the arguments; none where a name has two meanings.
fn declared(query: &Query, arguments: &Names, documents: &Names) -> Option<Names> {
    let mut bound = arguments.clone();
    let mut add = |expr: &Ref<Expr>| match expr.as_ref() {
        Expr::Var { span, .. } if span.text() == "_" => true,
        Expr::Var { span, .. } => !documents.contains(span.text()) && bound.insert(span.text().to_string()),
        _ => false,
    };
    for stmt in &query.stmts {
        let is_plain = match &stmt.literal {
            Literal::SomeIn { key, value, .. } => key.iter().chain([value]).all(&mut add),
            Literal::Expr { expr, .. } => match expr.as_ref() {
                Expr::AssignExpr { lhs, .. } => add(lhs),
                _ => true,
            },
            _ => true,
        };
        if !is_plain {
            return None;
        }
    }
    Some(bound)
}

/// `x == x` fails where x is undefined; `strict` puts it behind `x := …`, which does not fail in the machine.
fn is_guard(stmt: &LiteralStmt, variable: &Ref<Expr>) -> bool {
    let Expr::Var { span: name, .. } = variable.as_ref() else { return false };
    let is_it = |expr: &Ref<Expr>| matches!(expr.as_ref(), Expr::Var { span, .. } if span.text() == name.text());
    match &stmt.literal {
        Literal::Expr { expr, .. } => match expr.as_ref() {
            Expr::BoolExpr { op: BoolOp::Eq, lhs, rhs, .. } => is_it(lhs) && is_it(rhs),
            _ => false,
        },
        _ => false,
    }
}

/// A rule that the machine can be asked for.
pub fn is_asked(rules: &Rules, path: &Path) -> bool {
    rules.by_path.get(path).is_some_and(|all| all.iter().all(|one| matches!(one.kind, Kind::Complete | Kind::Set)))
}
