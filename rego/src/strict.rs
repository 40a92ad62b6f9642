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
//! A list is undefined when one of its members is, and holds otherwise. Lines stay what they are; the column of an error in
//! an evaluation is that of the rewritten line. `==` is unification in OPA's eyes, whose operands stay inside of the `not`.
use crate::check::{Rules, alias};
use crate::names;
use regorus::unstable::{AssignOp, BoolOp, Expr, Literal, LiteralStmt, Module, Query, Ref, Rule, RuleHead};
use std::collections::BTreeSet;
use std::ops::Range;

struct Rewrite<'a> {
    source: &'a str,
    /// First names of what is no variable of a body.
    documents: BTreeSet<String>,
    /// What is put in where, in the order of the text; of two at one place, the later goes behind.
    inserts: Vec<(usize, String)>,
}

/// The module's text with what has to be rewritten; None when that is nothing.
pub fn rewrite(module: &Module, rules: &Rules) -> Option<String> {
    let source = module.package.span.source.clone();
    let package = names::static_path(&module.package.refr);
    let mut documents: BTreeSet<String> = ["input", "data"].map(String::from).into();
    documents.extend(module.imports.iter().filter_map(alias));
    documents.extend(rules.below(&package).filter_map(|path| path.get(package.len()).cloned()));
    let mut rewrite = Rewrite { source: source.get_contents(), documents, inserts: Vec::new() };
    module.policy.iter().for_each(|rule| rewrite.rule(rule));
    if rewrite.inserts.is_empty() {
        return None;
    }
    Some(rewrite.text(0..rewrite.source.len()))
}

impl Rewrite<'_> {
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
        for body in bodies {
            body.assign.iter().for_each(|assign| self.expr(&assign.value));
            self.query(&body.query);
        }
    }

    fn query(&mut self, query: &Query) {
        for stmt in &query.stmts {
            self.stmt(stmt, query);
        }
    }

    fn stmt(&mut self, stmt: &LiteralStmt, query: &Query) {
        stmt.with_mods.iter().for_each(|with| self.expr(&with.r#as));
        match &stmt.literal {
            Literal::SomeVars { .. } => {}
            Literal::SomeIn { key, value, collection, .. } => {
                key.iter().chain([value, collection]).for_each(|expr| self.expr(expr));
            }
            Literal::Every { domain, query, .. } => {
                self.expr(domain);
                self.query(query);
            }
            Literal::Expr { expr, .. } => match expr.as_ref() {
                Expr::Membership { key: None, .. } => self.children(expr), // false is as good as undefined
                _ => self.expr(expr),
            },
            Literal::NotExpr { expr, .. } => self.negation(stmt, expr, query),
        }
    }

    fn negation(&mut self, stmt: &LiteralStmt, expr: &Ref<Expr>, query: &Query) {
        self.children(expr);
        let mut outside = Vec::new();
        self.outside(expr, &mut outside);
        if outside.is_empty() {
            return;
        }
        let list = self.list(&outside);
        let whole = self.widened(stmt.span.start, stmt.span.end);
        let with = stmt
            .with_mods
            .first()
            .map_or(String::new(), |with| format!(" {}", self.flat(self.widened(with.span.start, stmt.span.end))));
        // `if not …` without braces is a query that begins with its statement.
        let is_bare = query.span.start == stmt.span.start;
        let brace = if is_bare { "{ " } else { "" };
        self.insert(whole.start, format!("{brace}[{list}]{with}; "));
        if is_bare {
            self.insert(whole.end, " }".into());
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
            _ => {}
        }
        children(expr).into_iter().for_each(|child| self.expr(child));
    }

    fn insert(&mut self, at: usize, text: String) {
        self.inserts.push((at, text));
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
        let mut inserts: Vec<&(usize, String)> =
            self.inserts.iter().filter(|(at, _)| range.start <= *at && *at <= range.end).collect();
        inserts.sort_by_key(|(at, _)| *at);
        let mut text = String::new();
        let mut from = range.start;
        for (at, more) in inserts {
            text.push_str(self.source.get(from..*at).unwrap_or_default());
            text.push_str(more);
            from = *at;
        }
        text.push_str(self.source.get(from..range.end).unwrap_or_default());
        text
    }
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
