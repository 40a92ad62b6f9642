//! Rego policies, evaluated in the process: the crate regorus behind `include/rego.h`.
//!
//! `abi` is the C side and the only unsafe code; `load` reads the files of a policy, `bundle` opens the archives among
//! them; `check` refuses at load what the engine would only find out during an evaluation, `patterns` what it would match
//! or negate too loosely; `strict` rewrites what the engine
//! takes for an answer and OPA for undefined; `eval` answers: plain rules (`plain`) by the engine's register machine
//! (`machine`), others by its interpreter; `testing` runs the rules named `test_…`, interpreted.
//!
//! The language is Rego v1, as in OPA 1.x without `--v0-compatible`: `import rego.v1` and `future.keywords` mean nothing
//! more, a bundle whose manifest asks for v0 is refused. Built-in functions that fail are undefined, as in OPA without
//! `strict-builtin-errors`.
//!
//! Refused at load, as OPA does: what does not parse; unsafe variables; recursion; calls of functions that are nowhere, or
//! with another number of arguments; rules that clash with rules, packages or data; imports of the same name, or of
//! neither `data` nor `input`; a default that is no constant; data at one place from two files; bundles whose roots
//! overlap, or that hold what their roots do not permit.
//!
//! Refused here, though OPA has it: objects as patterns; the built-in functions that regorus has not, or that ask the host or the network
//! (`http.send`, `opa.runtime`, `io.jwt.*`, `crypto.*`, `net.lookup_ip_addr`, `graphql.*`, `rego.*`, `json.match_schema`,
//! …); signed bundles, delta bundles, bundles with WebAssembly.
//!
//! Not found at load, though OPA refuses it: arguments of a type that a built-in function never takes (the call is
//! undefined), variables of `some` that nothing uses, or nothing binds (the body is undefined).
//!
//! Different from OPA: arithmetic and the operators of sets on values of another type fail the evaluation, where OPA's are
//! undefined; whole numbers beyond 64 bits lose their last digits, and 1.0 is written as 1; a comprehension may not declare a variable of a
//! rule's name (refused at load).
//!
//! A built-in function runs to its end: the limit of time is looked at between them.

pub mod abi;
pub mod bundle;
pub mod check;
pub mod eval;
pub mod load;
mod machine;
mod names;
mod patterns;
mod plain;
mod refs;
mod strict;
pub mod testing;
