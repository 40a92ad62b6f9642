//! Walks all expressions: every call must find its function, and no rule may depend on itself.
use crate::check::{Path, Rules, alias};
use crate::load::Finding;
use crate::names;
use crate::patterns;
use regorus::unstable::{AssignOp, BUILTINS, Expr, Literal, LiteralStmt, Module, Query, Ref, Rule, RuleHead, Span};
use std::collections::{BTreeMap, BTreeSet};

pub type Names = BTreeSet<String>;

/// One module's rules are walked with what its names mean.
struct Walk<'a> {
    rules: &'a Rules,
    package: Path,
    imports: BTreeMap<String, Vec<String>>,
    /// What the rule at hand refers to, `None` where any key may stand.
    uses: Vec<Vec<Option<String>>>,
    findings: Vec<Finding>,
    /// Names of the query walked last that may be variables it binds.
    mentioned: Names,
    /// In the value of a rule, which the engine does not look at: the names that its body may bind.
    closed: Option<Names>,
}

pub fn check(modules: &[Ref<Module>], rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut edges: BTreeMap<&Path, BTreeSet<&Path>> = BTreeMap::new();
    for module in modules {
        let imports =
            module.imports.iter().filter_map(|import| Some((alias(import)?, names::static_path(&import.refr))));
        let mut walk = Walk {
            rules,
            package: names::static_path(&module.package.refr),
            imports: imports
                .filter(|(_, path)| path.first().is_some_and(|root| root == "data" || root == "input"))
                .collect(),
            uses: Vec::new(),
            findings: Vec::new(),
            mentioned: Names::new(),
            closed: None,
        };
        for rule in &module.policy {
            let mut path = walk.package.clone();
            path.extend(names::static_path(walk.rule(rule)));
            let uses = std::mem::take(&mut walk.uses);
            if let Some((path, _)) = rules.by_path.get_key_value(&path) {
                edges.entry(path).or_default().extend(uses.iter().flat_map(|used| matching(rules, used)));
            }
        }
        findings.append(&mut walk.findings);
    }
    findings.extend(cycle(rules, &edges));
    findings
}

/// The rules that a reference may lead to: those it ends in, goes through, or that lie below it.
fn matching<'a>(rules: &'a Rules, used: &[Option<String>]) -> Vec<&'a Path> {
    let fits = |path: &&Path| path.iter().zip(used).all(|(part, used)| used.as_ref().is_none_or(|used| used == part));
    match used.first() {
        Some(Some(first)) => {
            let from = rules.by_path.range(vec![first.clone()]..).map(|(path, _)| path);
            from.take_while(|path| path.first() == Some(first)).filter(fits).collect()
        }
        _ => rules.by_path.keys().filter(fits).collect(),
    }
}

fn cycle(rules: &Rules, edges: &BTreeMap<&Path, BTreeSet<&Path>>) -> Option<Finding> {
    let mut done = BTreeSet::new();
    for start in edges.keys() {
        let mut trail = Vec::new();
        if let Some(circle) = visit(start, edges, &mut done, &mut trail) {
            let span = &rules.by_path.get(circle.first().copied()?)?.first()?.span;
            let names: Vec<String> = circle.iter().map(|path| names::path_text(path)).collect();
            return Some(format!("{}: recursion: {}", names::place(span), names.join(" > ")));
        }
    }
    None
}

/// Depth first without the machine's stack, which a long chain of rules would fill.
fn visit<'a>(
    start: &'a Path,
    edges: &BTreeMap<&'a Path, BTreeSet<&'a Path>>,
    done: &mut BTreeSet<&'a Path>,
    trail: &mut Vec<&'a Path>,
) -> Option<Vec<&'a Path>> {
    let next = |path: &Path| edges.get(path).map(|set| set.iter().copied().collect::<Vec<_>>()).unwrap_or_default();
    if done.contains(start) {
        return None;
    }
    let mut open = vec![next(start)];
    trail.push(start);
    while let Some(rest) = open.last_mut() {
        match rest.pop() {
            Some(path) => {
                if let Some(at) = trail.iter().position(|there| *there == path) {
                    let mut circle = trail.split_off(at);
                    circle.push(path);
                    return Some(circle);
                }
                if !done.contains(path) {
                    trail.push(path);
                    open.push(next(path));
                }
            }
            None => {
                open.pop();
                done.extend(trail.pop());
            }
        }
    }
    None
}

impl Walk<'_> {
    /// Walks one rule; its name.
    fn rule<'r>(&mut self, rule: &'r Rule) -> &'r Ref<Expr> {
        let none = Names::new();
        let (head, bodies) = match rule {
            Rule::Default { refr, value, .. } => {
                self.expr(value, &none);
                return refr;
            }
            Rule::Spec { head, bodies, .. } => (head, bodies),
        };
        let mut arguments = Names::new();
        if let RuleHead::Func { args, .. } = head {
            args.iter().for_each(|arg| variables(arg, &mut arguments));
        }
        self.mentioned.clear();
        for body in bodies {
            let inside = self.query(&body.query, &arguments);
            if let Some(assign) = &body.assign {
                self.expr(&assign.value, &inside);
            }
        }
        // The head's own value belongs to the first body.
        let inside = bodies.first().map_or(arguments.clone(), |body| declared(&body.query, &arguments));
        let (refr, value) = match head {
            RuleHead::Compr { refr, assign, .. } => (refr, assign.as_ref().map(|assign| &assign.value)),
            RuleHead::Func { refr, args, assign, .. } => {
                args.iter().for_each(|arg| self.expr(arg, &inside));
                (refr, assign.as_ref().map(|assign| &assign.value))
            }
            RuleHead::Set { refr, key, .. } => (refr, key.as_ref()),
        };
        if let Some(value) = value {
            self.closed = Some(std::mem::take(&mut self.mentioned));
            self.expr(value, &inside);
            self.closed = None;
        }
        self.indexes(refr, &inside);
        refr
    }

    /// Walks a query; the names known inside of it.
    fn query(&mut self, query: &Query, outside: &Names) -> Names {
        self.closed = None;
        let inside = declared(query, outside);
        for stmt in &query.stmts {
            self.stmt(stmt, &inside);
        }
        inside
    }

    /// The names inside of a comprehension, for its term.
    fn comprehension(&mut self, query: &Query, outside: &Names) -> Names {
        let closed = self.closed.take();
        let outer = std::mem::take(&mut self.mentioned);
        let inside = self.query(query, outside);
        self.closed = closed.map(|known| &known | &self.mentioned);
        self.mentioned.extend(outer);
        inside
    }

    fn stmt(&mut self, stmt: &LiteralStmt, names: &Names) {
        match &stmt.literal {
            Literal::SomeVars { .. } => {}
            Literal::SomeIn { key, value, collection, .. } => {
                key.iter().chain([value, collection]).for_each(|expr| self.expr(expr, names));
            }
            Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } => self.expr(expr, names),
            Literal::Every { key, value, domain, query, .. } => {
                self.expr(domain, names);
                let mut inside = names.clone();
                inside.extend(key.iter().chain([value]).map(|span| span.text().to_string()));
                self.query(query, &inside);
            }
        }
        for with in &stmt.with_mods {
            self.expr(&with.r#as, names);
            self.indexes(&with.refr, names);
            self.with_target(&with.refr);
        }
    }

    /// `with` replaces the input, data, or a function.
    fn with_target(&mut self, refr: &Ref<Expr>) {
        let path = names::static_path(refr);
        let is_document = path.first().is_some_and(|root| root == "data" || root == "input");
        let through_import = path.first().is_some_and(|root| self.imports.contains_key(root));
        if !is_document && !through_import && self.arity(&path).is_none() {
            self.finding(
                names::start(refr),
                &format!("with: {} is neither input, data nor a function", path.join(".")),
            );
        }
    }

    fn expr(&mut self, expr: &Ref<Expr>, names: &Names) {
        let closed = self.closed.clone();
        self.parts(expr, names);
        self.closed = closed;
    }

    fn parts(&mut self, expr: &Ref<Expr>, names: &Names) {
        match expr.as_ref() {
            Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } => {
                self.reference(expr, names);
                self.closed = None; // a variable in brackets runs over what is there
                self.indexes(expr, names);
            }
            Expr::Call { fcn, params, .. } => {
                self.call(fcn, params);
                params.iter().for_each(|param| self.expr(param, names));
            }
            Expr::Array { items, .. } | Expr::Set { items, .. } => items.iter().for_each(|item| self.expr(item, names)),
            Expr::Object { fields, .. } => {
                for (_, key, value) in fields {
                    self.expr(key, names);
                    self.expr(value, names);
                }
            }
            Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. } => {
                let inside = self.comprehension(query, names);
                self.expr(term, &inside);
            }
            Expr::ObjectCompr { key, value, query, .. } => {
                let inside = self.comprehension(query, names);
                self.expr(key, &inside);
                self.expr(value, &inside);
            }
            Expr::UnaryExpr { expr, .. } => self.expr(expr, names),
            Expr::BinExpr { lhs, rhs, .. }
            | Expr::BoolExpr { lhs, rhs, .. }
            | Expr::ArithExpr { lhs, rhs, .. }
            | Expr::AssignExpr { lhs, rhs, .. } => {
                self.expr(lhs, names);
                self.expr(rhs, names);
            }
            Expr::Membership { key, value, collection, .. } => {
                key.iter().chain([value, collection]).for_each(|expr| self.expr(expr, names));
            }
            Expr::String { .. }
            | Expr::RawString { .. }
            | Expr::Number { .. }
            | Expr::Bool { .. }
            | Expr::Null { .. } => {}
        }
    }

    /// What stands in the brackets of a reference, and what it begins with when that is no variable.
    fn indexes(&mut self, refr: &Ref<Expr>, names: &Names) {
        let mut at = refr;
        loop {
            match at.as_ref() {
                Expr::RefDot { refr, .. } => at = refr,
                Expr::RefBrack { refr, index, .. } => {
                    self.expr(index, names);
                    at = refr;
                }
                Expr::Var { .. } => return,
                _ => return self.expr(at, names),
            }
        }
    }

    fn reference(&mut self, refr: &Ref<Expr>, names: &Names) {
        let parts = names::parts(refr);
        let Some(Some(root)) = parts.first() else { return };
        let rest = parts.get(1..).unwrap_or_default();
        if names.contains(root) || root == "input" {
            return;
        }
        if root == "data" {
            self.data(refr, rest.to_vec());
        } else if let Some(target) = self.imports.get(root) {
            if target.first().is_some_and(|root| root == "data") {
                self.data(refr, target.iter().skip(1).cloned().map(Some).chain(rest.iter().cloned()).collect());
            }
        } else {
            // A name of this package, or a variable that the engine has an eye on.
            let own: Path = self.package.iter().chain([root]).cloned().collect();
            if self.closed.as_ref().is_some_and(|known| !known.contains(root))
                && !self.rules.by_path.contains_key(&own)
                && self.rules.below(&own).next().is_none()
            {
                self.finding(names::start(refr), &format!("variable {root} is unsafe: nothing gives it a value"));
            }
            self.mentioned.insert(root.clone());
            self.uses.push(self.package.iter().cloned().map(Some).chain(parts.iter().cloned()).collect());
        }
    }

    /// A reference to data. The engine does not evaluate rules of the package at hand that a variable part leads to, and a raw
    /// text is a variable part for it.
    fn data(&mut self, refr: &Ref<Expr>, path: Vec<Option<String>>) {
        if has_raw(refr) {
            self.finding(names::start(refr), "a raw string in a reference to data: write it in double quotes");
        }
        // A variable part behind a rule's own path is a key of its value, as anywhere.
        let known = path.iter().take_while(|part| part.is_some()).count();
        let is_own = |found: &&Path| found.starts_with(&self.package) && found.len() > known;
        if known < path.len() && matching(self.rules, &path).iter().any(is_own) {
            self.finding(
                names::start(refr),
                "a reference with a variable part that may lead to rules of its own package: name the rules",
            );
        }
        self.uses.push(path);
    }

    /// The path of the function that a name means, when it is one of the policies'.
    fn function(&self, name: &[String]) -> Option<Path> {
        let (root, rest) = name.split_first()?;
        if root == "data" {
            return Some(rest.to_vec());
        }
        if let Some(target) = self.imports.get(root) {
            return Some(target.iter().skip(1).chain(rest).cloned().collect());
        }
        let path: Path = self.package.iter().chain(name).cloned().collect();
        self.rules.function(&path).map(|_| path)
    }

    /// How many arguments a function takes; `None`: there is none of that name.
    fn arity(&self, name: &[String]) -> Option<usize> {
        match self.function(name) {
            Some(path) => self.rules.function(&path),
            None => builtin(&name.join(".")),
        }
    }

    fn call(&mut self, fcn: &Ref<Expr>, params: &[Ref<Expr>]) {
        let given = params.len();
        let span = names::start(fcn);
        let parts: Option<Vec<String>> = names::parts(fcn).into_iter().collect();
        let name = parts.unwrap_or_default();
        if let Some(path) = self.function(&name) {
            self.uses.push(path.into_iter().map(Some).collect());
        }
        let shown = name.join(".");
        if shown == "print" {
            return;
        }
        if shown == "walk" && given == 1 {
            self.finding(span, "walk as a value gives nothing in this engine: write `walk(x, [path, value])`");
        }
        match self.arity(&name) {
            None => self
                .finding(span, &format!("{shown}: no such function; it is neither a rule nor built into this engine")),
            // One more is where the answer goes.
            Some(arity) if given != arity && given != arity + 1 => {
                self.finding(span, &format!("{shown} takes {arity} arguments, not {given}"));
            }
            Some(arity) if given > arity => {
                params.last().into_iter().for_each(|answer| patterns::pattern(answer, &mut self.findings));
            }
            Some(_) => {}
        }
    }

    fn finding(&mut self, span: &Span, what: &str) {
        self.findings.push(format!("{}: {what}", names::place(span)));
    }
}

fn has_raw(refr: &Ref<Expr>) -> bool {
    match refr.as_ref() {
        Expr::RefBrack { refr, index, .. } => matches!(index.as_ref(), Expr::RawString { .. }) || has_raw(refr),
        Expr::RefDot { refr, .. } => has_raw(refr),
        _ => false,
    }
}

/// Is this the name before the dot of built-in functions?
pub fn is_namespace(name: &str) -> bool {
    BUILTINS.keys().any(|builtin| builtin.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

/// The number of arguments of a built-in function; those with `__` are the engine's own.
pub fn builtin(name: &str) -> Option<usize> {
    if name.starts_with("__") {
        return None;
    }
    BUILTINS.get(name).map(|(_, arity)| usize::from(*arity))
}

/// The names that a query declares, with those of outside. Their order does not matter in Rego.
fn declared(query: &Query, outside: &Names) -> Names {
    let mut names = outside.clone();
    for stmt in &query.stmts {
        match &stmt.literal {
            Literal::SomeVars { vars, .. } => names.extend(vars.iter().map(|span| span.text().to_string())),
            Literal::SomeIn { key, value, .. } => {
                key.iter().chain([value]).for_each(|expr| variables(expr, &mut names))
            }
            Literal::Expr { expr, .. } => {
                if let Expr::AssignExpr { op: AssignOp::ColEq, lhs, .. } = expr.as_ref() {
                    variables(lhs, &mut names);
                }
            }
            Literal::NotExpr { .. } | Literal::Every { .. } => {}
        }
    }
    names
}

/// The variables of a pattern.
pub fn variables(pattern: &Ref<Expr>, into: &mut Names) {
    match pattern.as_ref() {
        Expr::Var { span, .. } => {
            into.insert(span.text().to_string());
        }
        Expr::Array { items, .. } | Expr::Set { items, .. } => items.iter().for_each(|item| variables(item, into)),
        Expr::Object { fields, .. } => fields.iter().for_each(|(_, _, value)| variables(value, into)),
        _ => {}
    }
}
