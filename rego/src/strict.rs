//! Makes the engine as strict as OPA with operands that are undefined.
//!
//! OPA looks up the operands of a negated call or comparison, and the keys of a negated reference, outside of the `not`:
//! `not input.n > 100` is undefined without `input.n`. And its `in` is undefined when an operand is. For regorus the
//! negation holds, and `in` is false, or even true (`k, v in o` with neither `v` nor `o[k]`): policies would allow what OPA
//! denies. Such places are rewritten in the text before the engine compiles it:
//!
//!   `not input.n > 100 with data.a as 1` is `[(input.n)] with data.a as 1; not input.n > 100 with data.a as 1`
//!   `v := input.x in input.xs`           is `v := [(input.x in input.xs), (input.x), (input.xs)][0]`
//!
//! It loses the order of statements around `every`, which it takes to need no more than its domain, and around `x := z`. In
//! a rule with `else` the head's value is not tied to its own body, nor needs to be defined for the chain to end. And one
//! member of a set or object that is undefined takes all others with it:
//!
//!   `every k in input.ks { o[x] == k }`   is `every k in [input.ks, x][0] { o[x] == k }`
//!   `every k in xs { o[k] == 1 }`         is `every k in xs { o[[k][0]] == 1 }`, else a loop over `o`
//!   `x := z`                              is `x := [z][0]`
//!   `r := o[x] if { x := k } else := 1`   is `r := __value if { x := k; __value := o[x] } else := 1`
//!   `r contains x.a if some x in xs`      is `r contains __value if { some x in xs; __value := x.a }`
//!
//! It takes `with` for what is defined when only the last value is, a value after what was replaced before it, and `with` of
//! a `some … in` for all that follows. And it gives a variable its value where it first meets it as an index or in a
//! pattern, be it in a negation, in the domain of `every` or in a query inside the one that binds it:
//!
//!   `p with input.a as x.a`               is `__taken1 := x.a; p with input.a as __taken1`
//!   `some x in xs with input.a as 1`      is `__taken1 := xs with input.a as 1; some x in __taken1`
//!   `x = xs[_]; not o[x]`                 is `x = xs[_]; not o[[x][0]]`
//!   `x = xs[_]; count([1 | x = 3]) == 0`  is `x = xs[_]; count([1 | __taken1 = 3; __taken1 == x]) == 0`
//!
//! A partial object of more than one variable part, or of sets, is undefined for it without members: one more definition
//! (`r[__key] := {} if { some __key in [] }`, behind the last line) makes it `{}`.
//!
//! For the register machine (`machine`), which goes on after `x := input.n` without `input.n`, there is a second text in
//! which `x == x` stands behind it.
//!
//! A list is undefined when one of its members is, and holds otherwise. Lines stay what they are, but behind an operand of
//! several lines with a comment; the column of an error in an evaluation is that of the rewritten line. `==` is unification
//! in OPA's eyes, whose operands stay inside of the `not`.
use crate::check::{Path, Rules, alias};
use crate::names;
use crate::patterns::binds;
use crate::refs::{self, Names, variables};
use regorus::unstable::{
    AssignOp, BoolOp, Expr, Literal, LiteralStmt, Module, Query, Ref, Rule, RuleAssign, RuleBody, RuleHead, Span,
    WithModifier,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

struct Rewrite<'a> {
    source: &'a str,
    /// First names of what is no variable of a body.
    documents: BTreeSet<String>,
    /// What stands in place of what; of two at one place, the later goes behind.
    edits: Vec<(Range<usize>, String)>,
    guards: bool,
    /// A statement that is to stand behind the one that begins there.
    tail: Option<(u32, String)>,
    /// Variables of the bodies around what is looked at.
    bound: Names,
    /// Those of them that belong to an `every`.
    own: Names,
    /// Those of them that `some … in` or `:=` before, or an argument, gave their value.
    firm: Names,
    /// Those of them that come from around the query at hand.
    outer: Names,
    /// Nothing gets its value in what is looked at, neither in the query at hand.
    closed: bool,
    /// What is to stand behind the statement at hand.
    behind: String,
    rules: &'a Rules,
    package: Path,
    imports: BTreeMap<String, Path>,
    /// Values that were put into variables before their statements.
    taken: usize,
}

/// The value of a rule, a variable of its body.
const VALUE: &str = "__value";

/// The module's text with what has to be rewritten; None when that is nothing. guards: for the register machine.
pub fn rewrite(module: &Module, rules: &Rules, guards: bool) -> Option<String> {
    let source = module.package.span.source.clone();
    let package = names::static_path(&module.package.refr);
    let mut documents: BTreeSet<String> = ["input", "data"].map(String::from).into();
    documents.extend(module.imports.iter().filter_map(alias));
    documents.extend(rules.below(&package).filter_map(|path| path.get(package.len()).cloned()));
    let mut rewrite = Rewrite {
        source: source.get_contents(),
        documents,
        edits: Vec::new(),
        guards,
        tail: None,
        bound: Names::new(),
        own: Names::new(),
        firm: Names::new(),
        outer: Names::new(),
        closed: false,
        behind: String::new(),
        rules,
        imports: module.imports.iter().filter_map(|one| Some((alias(one)?, names::static_path(&one.refr)))).collect(),
        package,
        taken: 0,
    };
    module.policy.iter().for_each(|rule| rewrite.rule(rule));
    rewrite.without_members(module);
    if rewrite.edits.is_empty() {
        return None;
    }
    Some(rewrite.text(0..rewrite.source.len()))
}

impl Rewrite<'_> {
    /// Gives partial objects of more than one variable part, or of sets, a definition that has no members.
    fn without_members(&mut self, module: &Module) {
        let mut paths: BTreeSet<Path> = BTreeSet::new();
        for rule in &module.policy {
            let Rule::Spec { head: RuleHead::Compr { refr, .. } | RuleHead::Set { refr, .. }, .. } = rule.as_ref()
            else {
                continue;
            };
            let (parts, path) = (names::parts(refr), names::static_path(refr));
            let is_set = matches!(rule.as_ref(), Rule::Spec { head: RuleHead::Set { .. }, .. });
            if !path.is_empty() && path.len() + usize::from(!is_set) < parts.len() {
                paths.insert(path);
            }
        }
        for path in paths {
            let (first, rest) = path.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
            let rest: String =
                rest.iter().map(|part| format!("[{}]", serde_json::Value::from(part.as_str()))).collect();
            self.insert(self.source.len(), format!("\n{first}{rest}[__key] := {{}} if {{ some __key in [] }}"));
        }
    }

    fn rule(&mut self, rule: &Rule) {
        let Rule::Spec { head, bodies, .. } = rule else { return }; // a default is a constant
        match head {
            RuleHead::Compr { refr, assign, .. } => {
                self.expr(refr);
                assign.iter().for_each(|assign| self.expr(&assign.value));
            }
            RuleHead::Func { args, assign, .. } => {
                args.iter().for_each(|arg| self.expr(arg));
                assign.iter().for_each(|assign| self.expr(&assign.value));
            }
            RuleHead::Set { refr, key, .. } => {
                self.expr(refr);
                key.iter().for_each(|key| self.expr(key));
            }
        }
        self.bound.clear();
        if let RuleHead::Func { args, .. } = head {
            args.iter().for_each(|arg| variables(arg, &mut self.bound));
        }
        self.firm = self.bound.clone();
        let runs = has_runs(head, bodies);
        if runs && bodies.is_empty() {
            let statements = self.values(head, None, true);
            if let Some((first, rest)) = statements.split_first() {
                let end = self.head_end(head);
                let text = rest.iter().fold(first.clone(), |text, more| format!("{text}; {more}"));
                self.insert(end, format!(" if {{ {text} }}"));
            }
        }
        for (i, body) in bodies.iter().enumerate() {
            body.assign.iter().for_each(|assign| self.expr(&assign.value));
            if let (true, Some(last)) = (runs || bodies.len() > 1, body.query.stmts.last()) {
                let statements = self.values(head, body.assign.as_ref(), i == 0);
                let text: String = statements.iter().map(|statement| format!("; {statement}")).collect();
                self.tail = Some((last.span.start, text)).filter(|(_, text)| !text.is_empty());
            }
            self.query(&body.query);
        }
    }

    /// Puts variables in the place of what a head, or a body's own value, says and may be undefined; the statements that
    /// give them their values.
    fn values(&mut self, head: &RuleHead, own: Option<&RuleAssign>, is_first: bool) -> Vec<String> {
        let mut found: Vec<(Range<usize>, String)> = Vec::new();
        let (refr, of_head, key) = match head {
            RuleHead::Compr { refr, assign, .. } => (Some(refr), assign.as_ref(), None),
            RuleHead::Func { assign, .. } => (None, assign.as_ref(), None),
            RuleHead::Set { refr, key, .. } => (Some(refr), None, key.as_ref()),
        };
        if is_first {
            let mut at = refr;
            while let Some(Expr::RefBrack { refr, index, .. }) = at.map(|refr| refr.as_ref()) {
                if self.may_be_undefined(index) {
                    found.push((self.range(index), format!("__key{}", found.len())));
                }
                at = Some(refr);
            }
            if let Some(refr) = refr.filter(|_| key.is_some_and(|key| self.may_be_undefined(key))) {
                // The engine's span of an object begins at its last member; `contains` stands before the key.
                let end = self.head_end(head);
                if let Some(start) = self.after("contains", self.range(refr).end..end) {
                    found.push((start..end, VALUE.into()));
                }
            }
        }
        let assign = own.or(of_head.filter(|_| is_first));
        if let Some(assign) = assign.filter(|assign| self.may_be_undefined(&assign.value)) {
            let whole = self.widened(assign.span.start, assign.span.end);
            let operator = if assign.op == AssignOp::ColEq { 2 } else { 1 };
            found.push((whole.start + operator..whole.end, VALUE.into()));
        }
        let mut statements = Vec::new();
        for (range, name) in found {
            let guard = if self.guards { format!("; {name} == {name}") } else { String::new() };
            statements.push(format!("{name} := {}{guard}", self.flat(range.clone()).trim_start()));
            self.edits.retain(|(at, _)| at.start < range.start || at.end > range.end);
            let is_index = name != VALUE;
            self.edits.push((range, if is_index { name } else { format!(" {name}") }));
        }
        statements
    }

    fn head_end(&self, head: &RuleHead) -> usize {
        let (RuleHead::Compr { span, .. } | RuleHead::Func { span, .. } | RuleHead::Set { span, .. }) = head;
        self.widened(span.start, span.end).end
    }

    fn query(&mut self, query: &Query) {
        let outside = self.bound.clone();
        let outer = std::mem::replace(&mut self.outer, outside.clone());
        let (firm, closed) = (self.firm.clone(), std::mem::take(&mut self.closed));
        for stmt in &query.stmts {
            let mut declared = Names::new();
            binds(&stmt.literal, &mut declared, &mut self.bound);
        }
        let behind = std::mem::take(&mut self.behind);
        for stmt in &query.stmts {
            self.stmt(stmt, query);
            self.closed = false;
            if let Literal::SomeIn { .. } | Literal::Expr { .. } = stmt.literal {
                binds(&stmt.literal, &mut self.firm, &mut Names::new());
            }
            if self.tail.as_ref().is_some_and(|(start, _)| *start == stmt.span.start) {
                self.around(stmt, query, String::new(), "");
            }
        }
        self.declarations(query);
        self.bound = outside;
        (self.outer, self.firm, self.closed, self.behind) = (outer, firm, closed, behind);
    }

    /// Puts `some x` first: behind a loop the engine would find it declared twice.
    fn declarations(&mut self, query: &Query) {
        let Some(first) = query.stmts.first() else { return };
        for stmt in query.stmts.iter().skip(1) {
            let Literal::SomeVars { vars, .. } = &stmt.literal else { continue };
            let is_new = |span: &Span| !self.outer.contains(span.text()) && !self.documents.contains(span.text());
            if stmt.with_mods.is_empty() && vars.iter().all(is_new) {
                let names: Vec<&str> = vars.iter().map(|span| span.text()).collect();
                self.edits.push((self.widened(stmt.span.start, stmt.span.end), "true".into()));
                let start = self.widened(first.span.start, first.span.end).start;
                self.insert_first(start, format!("some {}; ", names.join(", ")));
            }
        }
    }

    fn stmt(&mut self, stmt: &LiteralStmt, query: &Query) {
        let before = self.replacements(stmt);
        let mut is_done = false;
        match &stmt.literal {
            Literal::SomeVars { .. } => {}
            Literal::SomeIn { key, value, collection, .. } => {
                key.iter().chain([value, collection]).for_each(|expr| self.expr(expr));
                if let Some(with) = stmt.with_mods.first() {
                    is_done = true;
                    let collection = self.collection(value, with, stmt);
                    self.around(stmt, query, format!("{before}{collection}"), "");
                }
            }
            Literal::Every { key, value, domain, query, .. } => {
                self.closed = true;
                self.expr(domain);
                let own: BTreeSet<&str> = key.iter().chain([value]).map(|span| span.text()).collect();
                let (bound, outside, firm) = (self.bound.clone(), self.own.clone(), self.firm.clone());
                self.firm.extend(own.iter().map(|name| name.to_string()));
                self.bound.extend(own.iter().map(|name| name.to_string()));
                self.own.extend(own.iter().map(|name| name.to_string()));
                self.query(query);
                (self.bound, self.own, self.firm) = (bound, outside, firm);
                self.every(own, value, domain, query);
            }
            Literal::Expr { expr, .. } => match expr.as_ref() {
                Expr::Membership { key: None, .. } => self.children(expr), // false is as good as undefined
                Expr::AssignExpr { op: AssignOp::ColEq, lhs, rhs, .. } => {
                    self.expr(expr);
                    is_done |= self.assignment(stmt, lhs, rhs, query, &before);
                }
                _ => self.expr(expr),
            },
            Literal::NotExpr { expr, .. } => is_done |= self.negation(stmt, expr, query, &before),
        }
        if !is_done && !(before.is_empty() && self.behind.is_empty()) {
            self.around(stmt, query, before, "");
        }
    }

    /// Takes the values of `with` before its statement; the statements that do it.
    fn replacements(&mut self, stmt: &LiteralStmt) -> String {
        let mut statements = String::new();
        for with in &stmt.with_mods {
            self.expr(&with.r#as);
            if self.is_taken(&with.r#as) {
                let whole = self.widened(with.span.start, with.span.end);
                if let Some(start) = self.after("as", self.range(&with.refr).end..whole.end) {
                    statements.push_str(&self.take(start..whole.end, ""));
                }
            }
        }
        statements
    }

    /// The collection of `some … in` taken before the statement, and `with` from it.
    fn collection(&mut self, value: &Ref<Expr>, with: &WithModifier, stmt: &LiteralStmt) -> String {
        let withs = self.widened(with.span.start, stmt.span.end);
        let Some(start) = self.after("in", self.range(value).end..withs.start) else { return String::new() };
        let modifiers = self.flat(withs.clone());
        self.edits.retain(|(at, _)| at.start < withs.start || at.end > withs.end);
        self.edits.push((withs.clone(), String::new()));
        self.take(start..withs.start, &modifiers)
    }

    /// Puts a variable in a place; the statement that gives it its value.
    fn take(&mut self, range: Range<usize>, modifiers: &str) -> String {
        self.taken += 1;
        let name = format!("__taken{}", self.taken);
        let statement = format!("{name} := {} {modifiers}; ", self.flat(range.clone()).trim());
        self.edits.retain(|(at, _)| at.start < range.start || at.end > range.end);
        self.edits.push((range, format!(" {name} ")));
        statement
    }

    /// Not what has a value in any case, nor a function.
    fn is_taken(&self, value: &Ref<Expr>) -> bool {
        let path = names::static_path(value);
        let Some((root, rest)) = path.split_first() else {
            return !matches!(
                value.as_ref(),
                Expr::String { .. }
                    | Expr::RawString { .. }
                    | Expr::Number { .. }
                    | Expr::Bool { .. }
                    | Expr::Null { .. }
            );
        };
        let is_function = self.rules.function(&self.target(&path)).is_some();
        !is_function && (self.documents.contains(root) || (self.bound.contains(root) && !rest.is_empty()))
    }

    /// Where the text behind a keyword begins; before the keyword are blanks and comments.
    fn after(&self, keyword: &str, range: Range<usize>) -> Option<usize> {
        let mut rest = self.source.get(range.clone())?.trim_start_matches([']', ')', '"', '`']).trim_start();
        while let Some(comment) = rest.strip_prefix('#') {
            rest = comment.split_once('\n')?.1.trim_start();
        }
        rest.strip_prefix(keyword).map(|rest| range.end - rest.len())
    }

    fn negation(&mut self, stmt: &LiteralStmt, expr: &Ref<Expr>, query: &Query, before: &str) -> bool {
        self.closed = true;
        self.children(expr);
        let mut outside = Vec::new();
        self.outside(expr, &mut outside);
        if outside.is_empty() {
            return false;
        }
        let list = self.list(&outside);
        let with = stmt
            .with_mods
            .first()
            .map_or(String::new(), |with| format!(" {}", self.flat(self.widened(with.span.start, stmt.span.end))));
        self.around(stmt, query, format!("{before}[{list}]{with}; "), "");
        true
    }

    fn assignment(
        &mut self,
        stmt: &LiteralStmt,
        variable: &Ref<Expr>,
        value: &Ref<Expr>,
        query: &Query,
        before: &str,
    ) -> bool {
        if matches!(value.as_ref(), Expr::Var { span, .. } if !self.documents.contains(span.text())) {
            self.in_list(value);
        }
        if let (true, Expr::Var { span, .. }) = (self.guards, variable.as_ref()) {
            let name = span.text();
            self.around(stmt, query, before.to_string(), &format!("; {name} == {name}"));
            return true;
        }
        false
    }

    /// Ties it to the variables that its body takes from around it.
    fn every(&mut self, own: BTreeSet<&str>, value: &Span, domain: &Ref<Expr>, query: &Query) {
        let (mut inside, mut mentioned) = (Names::new(), Names::new());
        for stmt in &query.stmts {
            binds(&stmt.literal, &mut inside, &mut Names::new());
        }
        mentions(query, &mut mentioned);
        mentioned.remove("_"); // each is a variable of its own
        let needed: Vec<&String> = mentioned
            .iter()
            .filter(|name| self.bound.contains(*name) && !inside.contains(*name) && !own.contains(name.as_str()))
            .collect();
        // The engine's span of an object begins at its last member, and parentheses are in none; `in` stands before the
        // domain and the body behind it.
        let mut end = self.range(domain).end;
        let behind = self.source.get(end..query.span.start as usize).unwrap_or_default();
        if behind.chars().all(|c| c == ')' || c.is_whitespace()) {
            end += behind.rfind(')').map_or(0, |last| last + 1);
        }
        let start = self.after("in", value.end as usize..end);
        if let (false, Some(start)) = (needed.is_empty(), start) {
            self.insert_first(start, " [".into());
            let names: Vec<&str> = needed.iter().map(|name| name.as_str()).collect();
            self.insert(end, format!(", {}][0]", names.join(", ")));
        }
    }

    /// Puts statements before and behind one. `if not …` without braces is a query that begins with its statement.
    fn around(&mut self, stmt: &LiteralStmt, query: &Query, before: String, behind: &str) {
        let whole = self.widened(stmt.span.start, stmt.span.end);
        let (open, close) = if query.span.start == stmt.span.start { ("{ ", " }") } else { ("", "") };
        let behind = format!("{behind}{}", std::mem::take(&mut self.behind));
        let tail = self.tail.take_if(|(start, _)| *start == stmt.span.start).map_or(String::new(), |(_, text)| text);
        let (before, behind) = (format!("{open}{before}"), format!("{behind}{tail}{close}"));
        if !before.is_empty() {
            self.insert_first(whole.start, before);
        }
        if !behind.is_empty() {
            self.insert(whole.end, behind);
        }
    }

    /// What OPA looks up outside of a negation of this.
    fn outside<'e>(&self, expr: &'e Ref<Expr>, into: &mut Vec<&'e Ref<Expr>>) {
        match expr.as_ref() {
            Expr::BoolExpr { op: BoolOp::Eq, lhs, rhs, .. } | Expr::AssignExpr { op: AssignOp::Eq, lhs, rhs, .. } => {
                for side in [lhs, rhs] {
                    match side.as_ref() {
                        Expr::RefDot { .. } | Expr::RefBrack { .. } | Expr::Var { .. } => self.outside(side, into),
                        _ => self.operand(side, into),
                    }
                }
            }
            Expr::RefDot { refr, .. } => self.base(refr, into),
            Expr::RefBrack { refr, index, .. } => {
                self.base(refr, into);
                self.operand(index, into);
            }
            Expr::Var { .. } => {}
            _ => children(expr).into_iter().for_each(|child| self.operand(child, into)),
        }
    }

    fn base<'e>(&self, refr: &'e Ref<Expr>, into: &mut Vec<&'e Ref<Expr>>) {
        match refr.as_ref() {
            Expr::RefDot { .. } | Expr::RefBrack { .. } | Expr::Var { .. } => self.outside(refr, into),
            _ => self.operand(refr, into),
        }
    }

    /// Of a literal its members: the engine's span of an object begins at its last one.
    fn operand<'e>(&self, expr: &'e Ref<Expr>, into: &mut Vec<&'e Ref<Expr>>) {
        match expr.as_ref() {
            Expr::Array { .. } | Expr::Set { .. } | Expr::Object { .. } => {
                children(expr).into_iter().for_each(|child| self.operand(child, into));
            }
            _ if self.may_be_undefined(expr) => into.push(expr),
            _ => {}
        }
    }

    fn may_be_undefined(&self, expr: &Ref<Expr>) -> bool {
        match expr.as_ref() {
            Expr::Var { span, .. } => self.documents.contains(span.text()),
            Expr::Array { .. } | Expr::Set { .. } | Expr::Object { .. } => {
                children(expr).into_iter().any(|child| self.may_be_undefined(child))
            }
            Expr::ArrayCompr { .. } | Expr::SetCompr { .. } | Expr::ObjectCompr { .. } => false,
            Expr::String { .. }
            | Expr::RawString { .. }
            | Expr::Number { .. }
            | Expr::Bool { .. }
            | Expr::Null { .. } => false,
            _ => true,
        }
    }

    fn expr(&mut self, expr: &Ref<Expr>) {
        self.children(expr);
        let Expr::Membership { .. } = expr.as_ref() else { return };
        let mut operands = Vec::new();
        children(expr).into_iter().for_each(|child| self.operand(child, &mut operands));
        if operands.is_empty() {
            return;
        }
        let list = self.list(&operands);
        let whole = self.range(expr);
        self.insert(whole.start, "[(".into());
        self.insert(whole.end, format!("), {list}][0]"));
    }

    fn children(&mut self, expr: &Ref<Expr>) {
        match expr.as_ref() {
            Expr::ArrayCompr { query, .. } | Expr::SetCompr { query, .. } | Expr::ObjectCompr { query, .. } => {
                self.query(query);
            }
            Expr::RefBrack { index, .. } => self.known(index, false),
            Expr::AssignExpr { op: AssignOp::Eq, lhs, rhs, .. } => {
                [lhs, rhs].into_iter().for_each(|side| self.known(side, true));
            }
            Expr::Call { fcn, params, .. } => {
                let has_answer = self.arity(fcn).is_some_and(|arity| params.len() > arity);
                params.last().into_iter().for_each(|last| self.known(last, has_answer));
            }
            _ => {}
        }
        children(expr).into_iter().for_each(|child| self.expr(child));
    }

    /// The engine would give a value to variables in brackets and of patterns, where OPA has it from elsewhere.
    fn known(&mut self, pattern: &Ref<Expr>, is_pattern: bool) {
        if let Expr::Var { span, .. } = pattern.as_ref() {
            if is_pattern && self.own.contains(span.text()) {
                return self.in_list(pattern);
            }
        }
        self.knowns(pattern, is_pattern);
    }

    fn in_list(&mut self, expr: &Ref<Expr>) {
        let whole = self.range(expr);
        self.insert(whole.start, "[".into());
        self.insert(whole.end, "][0]".into());
    }

    fn knowns(&mut self, pattern: &Ref<Expr>, is_pattern: bool) {
        match pattern.as_ref() {
            Expr::Var { span, .. } if span.text() != "_" => {
                let name = span.text();
                let is_elsewhere = (self.closed || self.outer.contains(name)) && self.bound.contains(name);
                if (!is_elsewhere || self.firm.contains(name)) && !self.own.contains(name) {
                    return;
                }
                if is_pattern && !self.closed {
                    let whole = self.range(pattern);
                    self.taken += 1;
                    let other = format!("__taken{}", self.taken);
                    self.behind.push_str(&format!("; {other} == {name}"));
                    self.edits.push((whole, other));
                } else {
                    self.in_list(pattern);
                }
            }
            Expr::Array { items, .. } => items.iter().for_each(|item| self.knowns(item, is_pattern)),
            _ => {}
        }
    }

    fn arity(&self, function: &Ref<Expr>) -> Option<usize> {
        let path = names::static_path(function);
        self.rules.function(&self.target(&path)).or_else(|| refs::builtin(&path.join(".")))
    }

    /// Where a name leads to, below data.
    fn target(&self, path: &[String]) -> Path {
        let Some((root, rest)) = path.split_first() else { return Path::new() };
        match self.imports.get(root) {
            Some(target) => target.iter().skip(1).chain(rest).cloned().collect(),
            None if root == "data" => rest.to_vec(),
            None => self.package.iter().chain(path).cloned().collect(),
        }
    }

    fn insert(&mut self, at: usize, text: String) {
        self.edits.push((at..at, text));
    }

    /// Before what is put in there already.
    fn insert_first(&mut self, at: usize, text: String) {
        self.edits.insert(0, (at..at, text));
    }

    fn range(&self, expr: &Ref<Expr>) -> Range<usize> {
        self.widened(expr.span().start, expr.span().end)
    }

    /// The engine leaves the quotes of a text out of its span, and so of all that begins or ends with one.
    fn widened(&self, start: u32, end: u32) -> Range<usize> {
        let (start, end) = (start as usize, end as usize);
        let is_quote = |at: Option<usize>| {
            at.and_then(|at| self.source.as_bytes().get(at)).is_some_and(|byte| matches!(byte, b'"' | b'`'))
        };
        let start = if is_quote(start.checked_sub(1)) { start - 1 } else { start };
        start..if is_quote(Some(end)) { end + 1 } else { end }
    }

    /// The members of a list. Without its parentheses a union would make the list a comprehension: `[a | b]`.
    fn list(&self, members: &[&Ref<Expr>]) -> String {
        let texts: Vec<String> = members.iter().map(|expr| format!("({})", self.flat(self.range(expr)))).collect();
        texts.join(", ")
    }

    /// A part of the text as it is rewritten, on one line where that can be.
    fn flat(&self, range: Range<usize>) -> String {
        let text = self.text(range);
        if text.contains(['#', '`']) { text } else { text.replace(['\n', '\r'], " ") }
    }

    /// A part of the text as it is rewritten. What is put in at its start or end belongs to it when it was put there for
    /// something inside of it, and all that is known by now is.
    fn text(&self, range: Range<usize>) -> String {
        let mut edits: Vec<&(Range<usize>, String)> =
            self.edits.iter().filter(|(at, _)| range.start <= at.start && at.end <= range.end).collect();
        edits.sort_by_key(|(at, _)| at.start);
        let mut text = String::new();
        let mut from = range.start;
        for (at, more) in edits {
            text.push_str(self.source.get(from..at.start).unwrap_or_default());
            text.push_str(more);
            from = at.end;
        }
        text.push_str(self.source.get(from..range.end).unwrap_or_default());
        text
    }
}

/// May a rule have its value more than once in an evaluation? Not of rules with several definitions.
fn has_runs(head: &RuleHead, bodies: &[RuleBody]) -> bool {
    let in_head = match head {
        RuleHead::Compr { refr, assign, .. } => may_run(refr) || assign.iter().any(|assign| may_run(&assign.value)),
        RuleHead::Func { assign, .. } => assign.iter().any(|assign| may_run(&assign.value)),
        RuleHead::Set { refr, key, .. } => may_run(refr) || key.iter().any(may_run),
    };
    let in_body = |body: &RuleBody| {
        body.query.stmts.iter().any(|stmt| match &stmt.literal {
            Literal::SomeIn { .. } | Literal::SomeVars { .. } => true,
            Literal::Expr { expr, .. } => may_run(expr),
            Literal::NotExpr { .. } | Literal::Every { .. } => false,
        })
    };
    in_head || bodies.iter().any(in_body)
}

/// Is there a variable that may run over keys, or a function that gives many values?
fn may_run(expr: &Ref<Expr>) -> bool {
    match expr.as_ref() {
        Expr::RefBrack { index, .. } if !matches!(index.as_ref(), Expr::String { .. } | Expr::Number { .. }) => true,
        Expr::Call { fcn, .. } if names::static_path(fcn) == ["walk"] => true,
        _ => children(expr).into_iter().any(may_run),
    }
}

/// All variables of a query and of what is inside of it.
fn mentions(query: &Query, into: &mut Names) {
    for stmt in &query.stmts {
        stmt.with_mods.iter().for_each(|with| mentioned(&with.r#as, into));
        match &stmt.literal {
            Literal::SomeVars { .. } => {}
            Literal::SomeIn { key, value, collection, .. } => {
                key.iter().chain([value, collection]).for_each(|expr| mentioned(expr, into));
            }
            Literal::Every { domain, query, .. } => {
                mentioned(domain, into);
                mentions(query, into);
            }
            Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } => mentioned(expr, into),
        }
    }
}

fn mentioned(expr: &Ref<Expr>, into: &mut Names) {
    match expr.as_ref() {
        Expr::Var { span, .. } => {
            into.insert(span.text().to_string());
        }
        Expr::ArrayCompr { query, .. } | Expr::SetCompr { query, .. } | Expr::ObjectCompr { query, .. } => {
            mentions(query, into);
        }
        _ => {}
    }
    children(expr).into_iter().for_each(|child| mentioned(child, into));
}

/// The expressions that an expression is made of, in the order of the text; of a comprehension its term.
pub fn children(expr: &Ref<Expr>) -> Vec<&Ref<Expr>> {
    match expr.as_ref() {
        Expr::Array { items, .. } | Expr::Set { items, .. } => items.iter().collect(),
        Expr::Object { fields, .. } => fields.iter().flat_map(|(_, key, value)| [key, value]).collect(),
        Expr::ArrayCompr { term, .. } | Expr::SetCompr { term, .. } => vec![term],
        Expr::ObjectCompr { key, value, .. } => vec![key, value],
        Expr::Call { params, .. } => params.iter().collect(),
        Expr::UnaryExpr { expr, .. } => vec![expr],
        Expr::RefDot { refr, .. } => vec![refr],
        Expr::RefBrack { refr, index, .. } => vec![refr, index],
        Expr::BinExpr { lhs, rhs, .. }
        | Expr::BoolExpr { lhs, rhs, .. }
        | Expr::ArithExpr { lhs, rhs, .. }
        | Expr::AssignExpr { lhs, rhs, .. } => vec![lhs, rhs],
        Expr::Membership { key, value, collection, .. } => key.iter().chain([value, collection]).collect(),
        Expr::Var { .. }
        | Expr::String { .. }
        | Expr::RawString { .. }
        | Expr::Number { .. }
        | Expr::Bool { .. }
        | Expr::Null { .. } => Vec::new(),
    }
}
