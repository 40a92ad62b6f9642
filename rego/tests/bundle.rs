use crate::{answered, file};
use doorward_rego::eval::{Limits, Policies};
use doorward_rego::load::File;
use flate2::{Compression, write::GzEncoder};
use std::io::Write;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// One entry with its name as it is given: the tar crate itself would refuse to write some of them.
fn entry(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_entry_type(tar::EntryType::new(kind));
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn bundle(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes: Vec<u8> = entries.iter().flat_map(|(name, text)| entry(name, b'0', text.as_bytes())).collect();
    bytes.resize(bytes.len() + 1024, 0);
    gzip(&bytes)
}

fn create(files: Vec<File>) -> Result<Policies, String> {
    Policies::create(files, "data.p.r").map_err(|findings| findings.join("\n"))
}

fn refused(bytes: Vec<u8>) -> String {
    create(vec![file("b.tar.gz", bytes)]).err().expect("it should have been refused")
}

#[test]
fn a_bundle_is_opened() {
    let bytes = bundle(&[
        ("/.manifest", r#"{"revision": "1", "roots": ["p", "x/y"]}"#),
        ("/p/p.rego", "package p\nr := data.x.y.z"),
        ("./x/y/data.json", r#"{"z": 7}"#),
        ("p/p_test.rego", "no policy"),
        ("p/readme.md", "text"),
    ]);
    let mut policies = create(vec![file("b.tar.gz", bytes)]).unwrap();
    assert_eq!(policies.eval("{}", &Limits::default()), answered("7"));
}

#[test]
fn two_bundles_may_not_own_the_same() {
    let a =
        |manifest: &str| file("a.tar.gz", bundle(&[("p.rego", "package p\nr := data.q.s"), (".manifest", manifest)]));
    let b = |manifest: &str| file("b.tar.gz", bundle(&[("q.rego", "package q\ns := 1"), (".manifest", manifest)]));
    let mut policies = create(vec![a(r#"{"roots": ["p"]}"#), b(r#"{"roots": ["q"]}"#)]).unwrap();
    assert_eq!(policies.eval("{}", &Limits::default()), answered("1"));
    for (one, other) in [("{}", r#"{"roots": ["q"]}"#), (r#"{"roots": ["p", "q/a"]}"#, r#"{"roots": ["q"]}"#)] {
        let error = create(vec![a(one), b(other)]).err().unwrap();
        assert!(error.contains("b.tar.gz/.manifest: its roots overlap"), "{error}");
    }
}

#[test]
fn a_bundle_stays_inside_its_roots() {
    let error = refused(bundle(&[(".manifest", r#"{"roots": ["q"]}"#), ("p.rego", "package p\nr := 1")]));
    assert_eq!(error, "b.tar.gz/p.rego:1:9: the bundle's roots do not permit package p");
    let manifest = (".manifest", r#"{"roots": ["p", "a/b"]}"#);
    let error =
        refused(bundle(&[manifest, ("p.rego", "package p\nr := 1"), ("data.json", r#"{"a": {"b": 1, "c": 2}}"#)]));
    assert_eq!(error, "b.tar.gz/data.json: the bundle's roots do not permit data at a/c");
}

#[test]
fn what_is_not_understood_is_refused() {
    let with = |name: &str, text: &str| refused(bundle(&[("p.rego", "package p\nr := 1"), (name, text)]));
    assert!(with(".signatures.json", "{}").contains("signed"));
    assert!(with("patch.json", "{}").contains("delta"));
    assert!(with(".manifest", "[]").contains("b.tar.gz/.manifest: "));
    assert!(with(".manifest", "{").contains("b.tar.gz/.manifest: "));
    assert!(with(".manifest", r#"{"roots": "p"}"#).contains("roots"));
    assert!(with(".manifest", r#"{"roots": [1]}"#).contains("roots"));
    assert!(with(".manifest", r#"{"rego_version": 0}"#).contains("v1"));
    assert!(with(".manifest", r#"{"file_rego_versions": {"/p.rego": 0}}"#).contains("v1"));
    assert!(with(".manifest", r#"{"wasm": [{"entrypoint": "p/r"}]}"#).contains("WebAssembly"));
}

#[test]
fn hostile_archives_are_refused() {
    let one = |name: &str, kind: u8| {
        let mut bytes = entry(name, kind, b"package p\nr := 1\n");
        bytes.resize(bytes.len() + 1024, 0);
        refused(gzip(&bytes))
    };
    for name in ["../p.rego", "a/../../p.rego", "/../p.rego", "..", "a/.."] {
        assert!(one(name, b'0').contains("leads out"), "{name}");
    }
    for kind in [b'1', b'2', b'3', b'4', b'6'] {
        assert!(one("p.rego", kind).contains("no regular file"), "{}", kind as char);
    }
    assert!(one("\u{0}", b'0').contains("leads out"));
    assert!(refused(b"plain text".to_vec()).starts_with("b.tar.gz: "));
    assert!(refused(Vec::new()).starts_with("b.tar.gz: "));
    assert!(refused(gzip(b"no archive at all")).starts_with("b.tar.gz: "));
    let whole = bundle(&[("p.rego", &"# much text\n".repeat(5000))]);
    assert!(refused(whole[..whole.len() / 2].to_vec()).starts_with("b.tar.gz: "));
}

#[test]
fn a_bomb_is_not_unpacked() {
    let zeros = vec![0; 65 << 20];
    let mut inside = entry("data.json", b'0', &zeros);
    inside.resize(inside.len() + 1024, 0);
    assert!(refused(gzip(&inside)).contains("67108864 bytes"));
    // Nothing but padding behind the end.
    let mut behind = entry("p.rego", b'0', b"package p\nr := 1");
    behind.extend(zeros);
    assert!(refused(gzip(&behind)).contains("67108864 bytes"));
    let many: Vec<u8> = (0..10_001).flat_map(|i| entry(&format!("{i}.md"), b'0', b"")).collect();
    assert!(refused(gzip(&many)).contains("more than 10000 files"));
    // A size that the archive does not have.
    let mut lies = entry("p.rego", b'0', b"package p\nr := 1");
    let mut header = tar::Header::from_byte_slice(&lies[..512]).clone();
    header.set_size(1 << 40);
    header.set_cksum();
    lies[..512].copy_from_slice(header.as_bytes());
    assert!(refused(gzip(&lies)).starts_with("b.tar.gz: "));
}
