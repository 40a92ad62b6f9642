//! The C side: `include/rego.h`. All unsafe code is here, and nothing but the passing of memory is.
use crate::eval::{Limits, Outcome, Policies};
use crate::load::File;
use crate::testing;
use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_char, c_void};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::time::Duration;
use std::{ptr, slice};

#[repr(C)]
pub struct RegoText {
    p: *mut c_char,
    n: usize,
}

#[repr(C)]
pub struct RegoFile {
    name: *const c_char,
    name_n: usize,
    bytes: *const c_void,
    n: usize,
}

#[repr(C)]
pub struct RegoLimits {
    time_us: u64,
    answer_bytes: usize,
}

#[repr(C)]
pub struct RegoTest {
    name: *const c_char,
    place: *const c_char,
    message: *const c_char,
    passed: bool,
    skipped: bool,
    cases: usize,
    failed_cases: usize,
    took_ns: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegoOutcome {
    Failed,
    Undefined,
    Answered,
    Limit,
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs what may panic; a panic is an error like others, and is not printed. Only its place is told: its text may hold
/// what the input holds.
fn guard<T>(what: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                others(info);
            } else if let Some(at) = info.location() {
                let file = at.file().rsplit('/').next().unwrap_or_default();
                PLACE.set(format!("{file}:{}", at.line()));
            }
        }));
    });
    let before = GUARDED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(what));
    GUARDED.set(before);
    result.map_err(|_| format!("the engine failed inside, at {}", PLACE.take()))
}

/// Safety: `p` has `n` readable bytes, or n is 0.
unsafe fn bytes<'a>(p: *const c_void, n: usize) -> &'a [u8] {
    if p.is_null() || n == 0 { &[] } else { unsafe { slice::from_raw_parts(p.cast::<u8>(), n) } }
}

/// Safety: as the header says of rego_create.
unsafe fn files(files: *const RegoFile, n: usize) -> Result<Vec<File>, Vec<String>> {
    if files.is_null() || n == 0 {
        return Ok(Vec::new());
    }
    let one = |file: &RegoFile| {
        let name = unsafe { bytes(file.name.cast(), file.name_n) };
        let name = String::from_utf8(name.to_vec())
            .map_err(|_| vec![format!("{}: the name is no UTF-8", String::from_utf8_lossy(name))])?;
        Ok(File { name, bytes: unsafe { bytes(file.bytes, file.n) }.to_vec() })
    };
    unsafe { slice::from_raw_parts(files, n) }.iter().map(one).collect()
}

/// Safety: `limits` is null or as the header says.
unsafe fn limits(limits: *const RegoLimits) -> Limits {
    let Some(limits) = (unsafe { limits.as_ref() }) else { return Limits::default() };
    Limits { time: Duration::from_micros(limits.time_us), answer_bytes: limits.answer_bytes }
}

/// Hands a text to the caller, with a zero behind its end. Safety: `out` is null or may be written.
unsafe fn give(out: *mut RegoText, text: String) {
    if out.is_null() {
        return;
    }
    let n = text.len();
    let mut bytes = text.into_bytes();
    bytes.push(0);
    let p = Box::into_raw(bytes.into_boxed_slice()).cast::<c_char>();
    unsafe { out.write(RegoText { p, n }) };
}

fn lines(result: Result<Result<(), Vec<String>>, String>) -> Option<String> {
    match result {
        Ok(Ok(())) => None,
        Ok(Err(findings)) => Some(findings.join("\n")),
        Err(panic) => Some(panic),
    }
}

/// # Safety
/// As rego.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rego_create(
    list: *const RegoFile,
    n: usize,
    rule: *const c_char,
    rule_n: usize,
    error: *mut RegoText,
) -> *mut Policies {
    let mut made = ptr::null_mut();
    let result = guard(|| {
        let rule = String::from_utf8_lossy(unsafe { bytes(rule.cast(), rule_n) });
        let policies = Policies::create(unsafe { files(list, n) }?, &rule)?;
        made = Box::into_raw(Box::new(policies));
        Ok(())
    });
    let Some(text) = lines(result) else { return made };
    unsafe { give(error, text) };
    ptr::null_mut()
}

/// # Safety
/// As rego.h says. NULL when even copying failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rego_again(r: *const Policies) -> *mut Policies {
    let made = guard(|| unsafe { r.as_ref() }.map(|policies| Box::into_raw(Box::new(policies.again()))));
    made.ok().flatten().unwrap_or(ptr::null_mut())
}

/// # Safety
/// As rego.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rego_free(r: *mut Policies) {
    if !r.is_null() {
        let _ = guard(|| drop(unsafe { Box::from_raw(r) }));
    }
}

/// # Safety
/// As rego.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rego_revision(r: *const Policies) -> u64 {
    unsafe { r.as_ref() }.map_or(0, |policies| policies.revision)
}

/// # Safety
/// As rego.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rego_is_compiled(r: *const Policies) -> bool {
    unsafe { r.as_ref() }.is_some_and(Policies::is_compiled)
}

/// # Safety
/// As rego.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rego_eval(
    r: *mut Policies,
    input: *const c_char,
    n: usize,
    within: *const RegoLimits,
    text: *mut RegoText,
) -> RegoOutcome {
    let Some(policies) = (unsafe { r.as_mut() }) else {
        unsafe { give(text, "no policies".into()) };
        return RegoOutcome::Failed;
    };
    let result = guard(|| match std::str::from_utf8(unsafe { bytes(input.cast(), n) }) {
        Ok(input) => policies.eval(input, &unsafe { limits(within) }),
        Err(_) => Outcome::Failed("the input is no UTF-8".into()),
    });
    let (outcome, said) = match result {
        Ok(Outcome::Failed(what)) => (RegoOutcome::Failed, what),
        Ok(Outcome::Undefined) => (RegoOutcome::Undefined, String::new()),
        Ok(Outcome::Answered(answer)) => (RegoOutcome::Answered, answer),
        Ok(Outcome::Limit(what)) => (RegoOutcome::Limit, what),
        Err(panic) => {
            let _ = guard(|| policies.reset());
            (RegoOutcome::Failed, panic)
        }
    };
    unsafe { give(text, said) };
    outcome
}

type OnTest = unsafe extern "C" fn(*const RegoTest, *mut c_void);

/// # Safety
/// As rego.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rego_test(
    list: *const RegoFile,
    n: usize,
    within: *const RegoLimits,
    on_test: Option<OnTest>,
    arg: *mut c_void,
    error: *mut RegoText,
) -> bool {
    let text = |text: &str| CString::new(text.replace('\0', " ")).unwrap_or_default();
    let tell = |test: &testing::Test| {
        let (name, place, message) = (text(&test.name), text(&test.place), text(&test.message));
        let told = RegoTest {
            name: name.as_ptr(),
            place: place.as_ptr(),
            message: message.as_ptr(),
            passed: test.passed,
            skipped: test.skipped,
            cases: test.cases,
            failed_cases: test.failed_cases,
            took_ns: u64::try_from(test.took.as_nanos()).unwrap_or(u64::MAX),
        };
        if let Some(on_test) = on_test {
            unsafe { on_test(&told, arg) };
        }
    };
    let result = guard(|| testing::run(unsafe { files(list, n) }?, &unsafe { limits(within) }, tell));
    let Some(text) = lines(result) else { return true };
    unsafe { give(error, text) };
    false
}

/// # Safety
/// As rego.h says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rego_text_free(t: *mut RegoText) {
    let Some(text) = (unsafe { t.as_mut() }) else { return };
    if !text.p.is_null() {
        let slice = ptr::slice_from_raw_parts_mut(text.p.cast::<u8>(), text.n + 1);
        drop(unsafe { Box::from_raw(slice) });
    }
    *text = RegoText { p: ptr::null_mut(), n: 0 };
}

#[unsafe(no_mangle)]
pub extern "C" fn rego_version() -> *const c_char {
    c"regorus 0.14.1".as_ptr()
}

#[cfg(test)]
mod tests {
    use super::guard;

    #[test]
    fn a_panic_is_an_error_that_tells_its_place_only() {
        let failed: Result<(), String> = guard(|| panic!("a {}", "secret"));
        assert!(
            failed.clone().is_err_and(|text| text.starts_with("the engine failed inside, at abi.rs:")),
            "{failed:?}"
        );
        assert_eq!(guard(|| 1), Ok(1));
    }
}
