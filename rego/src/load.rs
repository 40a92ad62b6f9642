//! From files to an engine that has their policies and data.
use crate::bundle::{self, Manifest};
use crate::check;
use crate::names;
use crate::strict;
use regorus::{Engine, PolicyLengthConfig, Value};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::{NonZeroU32, NonZeroUsize};

/// One line for the operator: where, and what is wrong.
pub type Finding = String;

#[derive(Clone, Debug)]
pub struct File {
    /// Its path relative to the root, with `/` between.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// Policies and data, read and checked.
pub struct Loaded {
    pub engine: Engine,
    pub rules: check::Rules,
    pub revision: u64,
    /// For the register machine: files with their texts, and the data.
    pub guarded: Vec<(String, String)>,
    pub data: Value,
}

/// The files of one bundle, or those that stand beside all bundles.
struct Source {
    /// What comes before a name in messages.
    prefix: String,
    manifest: Option<Manifest>,
    files: Vec<File>,
}

const MAX_COLUMNS: NonZeroU32 = NonZeroU32::new(1 << 16).unwrap();
const MAX_BYTES: NonZeroUsize = NonZeroUsize::new(16 << 20).unwrap();
const MAX_LINES: NonZeroUsize = NonZeroUsize::new(1 << 20).unwrap();

/// Reads all files; every finding of the first stage that has any.
pub fn load(files: Vec<File>, with_tests: bool) -> Result<Loaded, Vec<Finding>> {
    let sources = sources(files, with_tests)?;
    let mut engine = new_engine();
    let mut findings = overlaps(&sources);
    let mut data = Value::new_object();
    for source in &sources {
        for file in &source.files {
            let done = if file.name.ends_with(".rego") {
                add_policy(&mut engine, source, file)
            } else if let Some(folder) = data_folder(&file.name) {
                add_data(&mut data, source, file, folder)
            } else {
                Ok(())
            };
            findings.extend(done.err());
        }
    }
    if !findings.is_empty() {
        return Err(findings);
    }
    let modules = engine.get_modules().clone();
    let rules = check::check(&modules, &data)?;
    let mut engine = new_engine();
    let mut guarded = Vec::new();
    for module in &modules {
        let source = &module.package.span.source;
        let text = |guards| strict::rewrite(module, &rules, guards).unwrap_or_else(|| source.get_contents().clone());
        engine.add_policy(source.get_path().clone(), text(false)).map_err(|e| vec![names::plain(&e)])?;
        guarded.push((source.get_path().clone(), text(true)));
    }
    engine.add_data(data.clone()).map_err(|e| vec![names::plain(&e)])?;
    // The engine compiles at its first question; what it refuses then belongs here.
    engine.eval_query("true".into(), false).map_err(|e| vec![names::plain(&e)])?;
    Ok(Loaded { engine, rules, revision: revision(&sources), guarded, data })
}

pub fn new_engine() -> Engine {
    let mut engine = Engine::new();
    engine.set_strict_builtin_errors(false);
    engine.set_gather_prints(true);
    engine.set_policy_length_config(PolicyLengthConfig {
        max_col: MAX_COLUMNS,
        max_file_bytes: MAX_BYTES,
        max_lines: MAX_LINES,
    });
    engine
}

fn sources(files: Vec<File>, with_tests: bool) -> Result<Vec<Source>, Vec<Finding>> {
    let (bundles, plain): (Vec<File>, Vec<File>) = files.into_iter().partition(|file| bundle::is_bundle(&file.name));
    let mut sources = Vec::new();
    let mut findings = Vec::new();
    let mut add = |prefix: String, mut files: Vec<File>, is_bundle: bool| {
        files.retain(|file| with_tests || !file.name.ends_with("_test.rego"));
        files.sort_by(|a, b| a.name.cmp(&b.name));
        let about = files.iter().find(|file| file.name == ".manifest");
        let manifest = if is_bundle || about.is_some() {
            match bundle::manifest(&prefix, about) {
                Ok(manifest) => Some(manifest),
                Err(finding) => return Some(format!("{prefix}{finding}")),
            }
        } else {
            None
        };
        for (name, what) in [
            (".signatures.json", "the bundle is signed, and signatures are not verified here"),
            ("patch.json", "a delta bundle is not read here"),
        ] {
            if is_bundle && files.iter().any(|file| file.name == name) {
                return Some(format!("{prefix}{name}: {what}"));
            }
        }
        sources.push(Source { prefix, manifest, files });
        None
    };
    findings.extend(add(String::new(), plain, false));
    for file in bundles {
        match bundle::unpack(&file.name, &file.bytes) {
            Ok(files) => findings.extend(add(format!("{}/", file.name), files, true)),
            Err(finding) => findings.push(finding),
        }
    }
    if findings.is_empty() { Ok(sources) } else { Err(findings) }
}

fn overlaps(sources: &[Source]) -> Vec<Finding> {
    let manifests: Vec<&Manifest> = sources.iter().filter_map(|source| source.manifest.as_ref()).collect();
    let mut findings = Vec::new();
    for (i, a) in manifests.iter().enumerate() {
        for b in manifests.iter().skip(i + 1).filter(|b| a.overlaps(b)) {
            findings.push(format!("{}.manifest: its roots overlap with those of {}.manifest", b.name, a.name));
        }
    }
    findings
}

fn text<'a>(source: &Source, file: &'a File) -> Result<&'a str, Finding> {
    std::str::from_utf8(&file.bytes).map_err(|_| format!("{}{}: no UTF-8", source.prefix, file.name))
}

fn add_policy(engine: &mut Engine, source: &Source, file: &File) -> Result<(), Finding> {
    let name = format!("{}{}", source.prefix, file.name);
    let text = text(source, file)?;
    if text.starts_with('\u{feff}') {
        return Err(format!("{name}:1:1: a byte order mark: save the file as UTF-8 without one"));
    }
    engine.add_policy(name, text.to_string()).map_err(|e| names::plain(&e))?;
    let (Some(manifest), Some(module)) = (&source.manifest, engine.get_modules().last()) else {
        return Ok(());
    };
    let package = names::static_path(&module.package.refr);
    if !manifest.permits(&package) {
        let place = names::place(names::start(&module.package.refr));
        return Err(format!("{place}: the bundle's roots do not permit package {}", package.join(".")));
    }
    Ok(())
}

/// The folder whose data a file is, when it is data.
fn data_folder(name: &str) -> Option<&str> {
    let (folder, base) = name.rsplit_once('/').unwrap_or(("", name));
    matches!(base, "data.json" | "data.yaml" | "data.yml").then_some(folder)
}

fn add_data(data: &mut Value, source: &Source, file: &File, folder: &str) -> Result<(), Finding> {
    let name = format!("{}{}", source.prefix, file.name);
    let text = text(source, file)?;
    let read = if file.name.ends_with(".json") { Value::from_json_str(text) } else { Value::from_yaml_str(text) };
    let mut value = read.map_err(|e| format!("{name}: {}", names::plain(&e)))?;
    let path: Vec<String> = folder.split('/').filter(|part| !part.is_empty()).map(String::from).collect();
    if path.is_empty() && value.as_object().is_err() {
        return Err(format!("{name}: data at the root is an object"));
    }
    for part in path.iter().rev() {
        let mut outer = Value::new_object();
        if let Ok(object) = outer.as_object_mut() {
            object.insert(Value::from(part.as_str()), value);
        }
        value = outer;
    }
    if let Some(manifest) = &source.manifest {
        if let Some(path) = outside(&value, manifest, &mut Vec::new()) {
            return Err(format!("{name}: the bundle's roots do not permit data at {}", path.join("/")));
        }
    }
    merge(data, value, &mut Vec::new())
        .map_err(|path| format!("{name}: another file has data at {} as well", path.join("/")))
}

/// The path of the first value that no root covers.
fn outside(value: &Value, manifest: &Manifest, path: &mut Vec<String>) -> Option<Vec<String>> {
    if manifest.permits(path) {
        return None;
    }
    let above = manifest.roots.iter().any(|root| root.starts_with(path));
    match value.as_object() {
        Ok(object) if above => object.iter().find_map(|(key, value)| {
            path.push(key_text(key));
            let found = outside(value, manifest, path);
            path.pop();
            found
        }),
        _ => Some(path.clone()),
    }
}

/// Puts one document into another; the path where both have a value that is no object. OPA merges so too.
fn merge(into: &mut Value, value: Value, path: &mut Vec<String>) -> Result<(), Vec<String>> {
    let (Ok(object), Ok(more)) = (into.as_object_mut(), value.as_object()) else {
        return Err(path.clone());
    };
    for (key, value) in more.iter() {
        match object.get_mut(key) {
            Some(there) => {
                path.push(key_text(key));
                merge(there, value.clone(), path)?;
                path.pop();
            }
            None => {
                object.insert(key.clone(), value.clone());
            }
        }
    }
    Ok(())
}

fn key_text(key: &Value) -> String {
    key.as_string().map_or_else(|_| key.to_string(), |text| text.to_string())
}

/// A digest of what all files hold; SipHash with its fixed keys, so that every process has the same.
fn revision(sources: &[Source]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for source in sources {
        source.prefix.hash(&mut hasher);
        for file in &source.files {
            file.name.hash(&mut hasher);
            file.bytes.hash(&mut hasher);
        }
    }
    hasher.finish().max(1)
}
