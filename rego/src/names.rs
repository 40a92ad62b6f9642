//! Paths and places in a form that people read.
use regorus::unstable::{Expr, Ref, Span};

/// FILE:LINE:COLUMN.
pub fn place(span: &Span) -> String {
    format!("{}:{}:{}", span.source.get_path(), span.line, span.col)
}

/// Where an expression begins. The engine's own span of a call or a reference is where its last part does.
pub fn start(expr: &Ref<Expr>) -> &Span {
    match expr.as_ref() {
        Expr::Call { fcn: first, .. } | Expr::RefDot { refr: first, .. } | Expr::RefBrack { refr: first, .. } => {
            start(first)
        }
        other => other.span(),
    }
}

/// The engine draws its errors over several lines (`--> FILE:LINE:COLUMN`, the line, `error: what`): one line of each.
pub fn plain(error: &anyhow::Error) -> String {
    let text = error.to_string();
    let mut findings = Vec::new();
    let mut at: Option<&str> = None;
    for line in text.lines() {
        if let Some(place) = line.trim_start().strip_prefix("--> ") {
            at = Some(place);
        } else if let (Some(place), Some((_, what))) = (at, line.split_once("error: ")) {
            findings.push(format!("{place}: {what}"));
            at = None;
        }
    }
    if findings.is_empty() {
        return text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    findings.join("\n")
}

/// The parts of a reference, `None` for what is only known at evaluation. A root that is no variable: no parts.
pub fn parts(refr: &Ref<Expr>) -> Vec<Option<String>> {
    let mut parts = Vec::new();
    let mut at = refr;
    loop {
        match at.as_ref() {
            Expr::Var { span, .. } => {
                parts.push(Some(span.text().to_string()));
                break;
            }
            Expr::RefDot { refr, field, .. } => {
                parts.push(Some(field.0.text().to_string()));
                at = refr;
            }
            Expr::RefBrack { refr, index, .. } => {
                parts.push(match index.as_ref() {
                    Expr::String { value, .. } | Expr::RawString { value, .. } => {
                        value.as_string().ok().map(|text| text.to_string())
                    }
                    _ => None,
                });
                at = refr;
            }
            _ => return Vec::new(),
        }
    }
    parts.reverse();
    parts
}

/// The parts of a reference up to the first that is not known before an evaluation.
pub fn static_path(refr: &Ref<Expr>) -> Vec<String> {
    parts(refr).into_iter().map_while(|part| part).collect()
}

/// data.a.b, or data.a["b-c"] where a part is no identifier.
pub fn path_text(path: &[String]) -> String {
    let mut text = String::from("data");
    for part in path {
        let mut bytes = part.bytes();
        let is_name = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
            && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if is_name {
            text.push('.');
            text.push_str(part);
        } else {
            text.push_str(&format!("[{}]", serde_json::Value::from(part.as_str())));
        }
    }
    text
}

/// The parts of what `path_text` writes; None for anything else.
pub fn parse_path(text: &str) -> Option<Vec<String>> {
    let mut rest = text.strip_prefix("data")?;
    let mut path = Vec::new();
    while !rest.is_empty() {
        let (part, behind) = if let Some(inside) = rest.strip_prefix('[') {
            let (quoted, behind) = inside.split_once("\"]")?;
            (serde_json::from_str(&format!("{quoted}\"")).ok()?, behind)
        } else {
            let name = rest.strip_prefix('.')?;
            let end = name.find(['.', '[']).unwrap_or(name.len());
            let (name, behind) = name.split_at(end);
            (name.to_string(), behind)
        };
        if part.is_empty() {
            return None;
        }
        path.push(part);
        rest = behind;
    }
    Some(path)
}
