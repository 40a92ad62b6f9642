//! Refuses what would allow more here than OPA allows, because the engine matches or negates loosely.
//!
//! An object in a pattern matches objects with more members, where OPA wants just these: `f({"a": 1})`,
//! `[x, {"a": 1}] = …`, `{"a": x} = …`, `some {"a": x} in …`, `s[{"a": x}]`. And a negation of something that has a variable
//! of no value (`not input.o[_] == 1`) holds, where OPA does not compile it.
use crate::check::alias;
use crate::load::Finding;
use crate::names;
use crate::refs::{Names, variables};
use crate::strict::children;
use regorus::unstable::{AssignOp, Expr, Literal, LiteralStmt, Module, Query, Ref, Rule, RuleHead};

#[derive(Clone, Default)]
struct Scope {
    /// First names of what is no variable of a body.
    documents: Names,
    /// Variables that have a value.
    bound: Names,
}

impl Scope {
    fn declare(&mut self, names: &Names) {
        for name in names {
            self.documents.remove(name);
            self.bound.remove(name);
        }
    }

    fn knows(&self, name: &str) -> bool {
        self.documents.contains(name) || self.bound.contains(name)
    }
}

pub fn check(modules: &[Ref<Module>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for module in modules {
        let scope = Scope { documents: documents(module, modules), bound: Names::new() };
        module.policy.iter().for_each(|rule| self::rule(rule, &scope, &mut findings));
    }
    findings
}

fn documents(module: &Module, modules: &[Ref<Module>]) -> Names {
    let package = names::static_path(&module.package.refr);
    let mut names: Names = ["input", "data"].map(String::from).into();
    names.extend(module.imports.iter().filter_map(alias));
    for other in modules.iter().filter(|other| names::static_path(&other.package.refr) == package) {
        names.extend(other.policy.iter().filter_map(|rule| names::static_path(name(rule)).into_iter().next()));
    }
    names
}

/// The reference that names a rule.
pub fn name(rule: &Rule) -> &Ref<Expr> {
    match rule {
        Rule::Default { refr, .. } => refr,
        Rule::Spec { head, .. } => match head {
            RuleHead::Compr { refr, .. } | RuleHead::Func { refr, .. } | RuleHead::Set { refr, .. } => refr,
        },
    }
}

fn rule(rule: &Rule, scope: &Scope, findings: &mut Vec<Finding>) {
    let (head, bodies) = match rule {
        Rule::Default { value, .. } => return expr(value, scope, scope, findings),
        Rule::Spec { head, bodies, .. } => (head, bodies),
    };
    let mut arguments = scope.clone();
    if let RuleHead::Func { args, .. } = head {
        let mut names = Names::new();
        args.iter().for_each(|arg| variables(arg, &mut names));
        names.remove("_");
        arguments.bound.extend(names);
        args.iter().for_each(|arg| pattern(arg, findings));
    }
    let mut first = None;
    for body in bodies {
        let inside = query(&body.query, &arguments, findings);
        body.assign.iter().for_each(|assign| expr(&assign.value, &inside, &inside, findings));
        first.get_or_insert(inside);
    }
    if let RuleHead::Compr { refr, .. } | RuleHead::Set { refr, .. } = head {
        object_in_key(refr, findings);
    }
    let inside = first.unwrap_or(arguments); // the head's own value belongs to the first body
    match head {
        RuleHead::Compr { refr, assign, .. } | RuleHead::Func { refr, assign, .. } => {
            expr(refr, &inside, &inside, findings);
            assign.iter().for_each(|assign| expr(&assign.value, &inside, &inside, findings));
        }
        RuleHead::Set { refr, key, .. } => {
            expr(refr, &inside, &inside, findings);
            key.iter().for_each(|key| expr(key, &inside, &inside, findings));
        }
    }
}

/// The engine's span of an object is not all of it, so that `strict` cannot move it into the body, where it must be defined.
fn object_in_key(refr: &Ref<Expr>, findings: &mut Vec<Finding>) {
    match refr.as_ref() {
        Expr::RefBrack { refr, index, .. } => {
            if let Some(place) = has_object(index) {
                findings.push(format!("{place}: an object in the key of a rule: name it in the body, `k := {{…}}`"));
            }
            object_in_key(refr, findings);
        }
        Expr::RefDot { refr, .. } => object_in_key(refr, findings),
        _ => {}
    }
}

fn has_object(expr: &Ref<Expr>) -> Option<String> {
    match expr.as_ref() {
        Expr::Object { span, .. } => Some(names::place(span)),
        _ => children(expr).into_iter().find_map(has_object),
    }
}

/// Looks at a query; what is known inside of it. The order of its statements does not matter in Rego.
fn query(query: &Query, outside: &Scope, findings: &mut Vec<Finding>) -> Scope {
    let mut outer = outside.clone();
    let mut values = Names::new();
    for stmt in &query.stmts {
        let mut declared = Names::new();
        binds(&stmt.literal, &mut declared, &mut values);
        outer.declare(&declared);
    }
    values.remove("_");
    let mut inner = outer.clone();
    inner.bound.extend(values);
    query.stmts.iter().for_each(|stmt| self::stmt(stmt, &outer, &inner, findings));
    inner
}

/// The names that a statement declares, and those to which it gives a value.
pub fn binds(literal: &Literal, declared: &mut Names, values: &mut Names) {
    match literal {
        Literal::SomeVars { vars, .. } => declared.extend(vars.iter().map(|span| span.text().to_string())),
        Literal::SomeIn { key, value, collection, .. } => {
            key.iter().chain([value]).for_each(|expr| variables(expr, declared));
            values.extend(declared.iter().cloned());
            indexes(collection, values);
        }
        Literal::Expr { expr, .. } => {
            if let Expr::AssignExpr { op, lhs, rhs, .. } = expr.as_ref() {
                match op {
                    AssignOp::ColEq => variables(lhs, declared),
                    AssignOp::Eq => [lhs, rhs].into_iter().for_each(|side| variables(side, values)),
                }
                values.extend(declared.iter().cloned());
            }
            indexes(expr, values);
        }
        Literal::NotExpr { .. } | Literal::Every { .. } => {}
    }
}

/// Variables in brackets, and where a call's answer goes; the engine finds an argument that has no value.
fn indexes(expr: &Ref<Expr>, values: &mut Names) {
    match expr.as_ref() {
        Expr::RefBrack { index, .. } => variables(index, values),
        Expr::Call { params, .. } => params.last().into_iter().for_each(|last| variables(last, values)),
        Expr::ArrayCompr { .. } | Expr::SetCompr { .. } | Expr::ObjectCompr { .. } => return,
        _ => {}
    }
    children(expr).into_iter().for_each(|child| indexes(child, values));
}

/// outer: what is known before the query begins.
fn stmt(stmt: &LiteralStmt, outer: &Scope, inner: &Scope, findings: &mut Vec<Finding>) {
    stmt.with_mods.iter().for_each(|with| expr(&with.r#as, outer, inner, findings));
    match &stmt.literal {
        Literal::SomeVars { .. } => {}
        Literal::SomeIn { key, value, collection, .. } => {
            key.iter().chain([value]).for_each(|part| pattern(part, findings));
            expr(collection, outer, inner, findings);
        }
        Literal::Every { key, value, domain, query, .. } => {
            expr(domain, outer, inner, findings);
            let names: Names = key.iter().chain([value]).map(|span| span.text().to_string()).collect();
            let mut inside = inner.clone();
            inside.declare(&names);
            inside.bound.extend(names.into_iter().filter(|name| name != "_"));
            self::query(query, &inside, findings);
        }
        Literal::Expr { expr: whole, .. } => statement(whole, outer, inner, findings),
        Literal::NotExpr { expr: whole, .. } => {
            statement(whole, outer, inner, findings);
            unsafe_variables(whole, inner, findings);
            stmt.with_mods.iter().for_each(|with| unsafe_variables(&with.r#as, inner, findings));
        }
    }
}

fn statement(whole: &Ref<Expr>, outer: &Scope, inner: &Scope, findings: &mut Vec<Finding>) {
    match whole.as_ref() {
        Expr::AssignExpr { op: AssignOp::ColEq, lhs, .. } => pattern(lhs, findings),
        Expr::AssignExpr { op: AssignOp::Eq, lhs, rhs, .. } => {
            // A variable alone takes, or is compared with, the whole.
            let is_open = |side: &Ref<Expr>| !matches!(side.as_ref(), Expr::Var { .. }) && has_open(side, outer);
            if is_open(lhs) || is_open(rhs) {
                pattern(lhs, findings);
                pattern(rhs, findings);
            }
        }
        _ => {}
    }
    expr(whole, outer, inner, findings);
}

fn expr(at: &Ref<Expr>, outer: &Scope, inner: &Scope, findings: &mut Vec<Finding>) {
    match at.as_ref() {
        Expr::RefBrack { index, .. } if has_open(index, outer) => pattern(index, findings),
        Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. } => {
            let inside = self::query(query, inner, findings);
            return expr(term, &inside, &inside, findings);
        }
        Expr::ObjectCompr { key, value, query, .. } => {
            let inside = self::query(query, inner, findings);
            return [key, value].into_iter().for_each(|part| expr(part, &inside, &inside, findings));
        }
        _ => {}
    }
    children(at).into_iter().for_each(|child| expr(child, outer, inner, findings));
}

/// Whether a pattern has a variable that may be without a value.
fn has_open(pattern: &Ref<Expr>, outer: &Scope) -> bool {
    let mut names = Names::new();
    variables(pattern, &mut names);
    names.iter().any(|name| !outer.knows(name))
}

/// Refuses the first object of a pattern.
pub fn pattern(pattern: &Ref<Expr>, findings: &mut Vec<Finding>) {
    if let Some(place) = object(pattern) {
        findings.push(format!(
            "{place}: an object as a pattern is matched loosely by this engine: bind the whole and compare its members, \
             e.g. `o := input.o; x := o.a; count(o) == 1`"
        ));
    }
}

fn object(pattern: &Ref<Expr>) -> Option<String> {
    match pattern.as_ref() {
        Expr::Object { span, .. } => Some(names::place(span)),
        Expr::Array { items, .. } | Expr::Set { items, .. } => items.iter().find_map(object),
        _ => None,
    }
}

/// Variables of a comprehension are its own.
fn unsafe_variables(expr: &Ref<Expr>, known: &Scope, findings: &mut Vec<Finding>) {
    match expr.as_ref() {
        Expr::Var { span, .. } if !known.knows(span.text()) => {
            findings.push(format!("{}: var {} is unsafe", names::place(span), span.text()));
        }
        Expr::ArrayCompr { .. } | Expr::SetCompr { .. } | Expr::ObjectCompr { .. } => {}
        _ => children(expr).into_iter().for_each(|child| unsafe_variables(child, known, findings)),
    }
}
