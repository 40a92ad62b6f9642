//! What the crate promises, by its Rust side; the C side has tests/unit/rego.
mod bundle;
mod check;
mod eval;
mod load;
mod machine;
mod testing;

use doorward_rego::eval::{Limits, Outcome, Policies};
use doorward_rego::load::File;
use std::time::Duration;

fn file(name: &str, text: impl AsRef<[u8]>) -> File {
    File { name: name.to_string(), bytes: text.as_ref().to_vec() }
}

fn create(files: &[(&str, &str)], rule: &str) -> Result<Policies, String> {
    let files = files.iter().map(|(name, text)| file(name, text)).collect();
    Policies::create(files, rule).map_err(|findings| findings.join("\n"))
}

/// The one policy of `package p` with this body, and the answer of its rule `r`.
fn ask(body: &str, input: &str) -> Outcome {
    let text = format!("package p\n{body}\n");
    match create(&[("p.rego", &text)], "data.p.r") {
        Ok(mut policies) => policies.eval(input, &Limits { time: Duration::from_secs(20), answer_bytes: 0 }),
        Err(findings) => panic!("{findings}"),
    }
}

fn answered(text: &str) -> Outcome {
    Outcome::Answered(text.to_string())
}

fn refused(files: &[(&str, &str)], rule: &str) -> String {
    create(files, rule).err().expect("it should have been refused")
}
