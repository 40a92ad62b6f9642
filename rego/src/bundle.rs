//! Opens the bundles among the files: `*.tar.gz` in memory, with what its manifest says.
use crate::load::{File, Finding};
use serde_json::Value as Json;
use std::io::Read;

/// What a bundle may hold unpacked, so that a small file cannot fill the memory.
const UNPACKED: u64 = 64 << 20;
const ENTRIES: usize = 10_000;

/// What a manifest says that matters here.
#[derive(Debug)]
pub struct Manifest {
    pub name: String,
    /// Paths of data that the bundle owns; one empty path is all of it.
    pub roots: Vec<Vec<String>>,
}

impl Manifest {
    pub fn permits(&self, path: &[String]) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }

    pub fn overlaps(&self, other: &Manifest) -> bool {
        let mut pairs = self.roots.iter().flat_map(|a| other.roots.iter().map(move |b| (a, b)));
        pairs.any(|(a, b)| a.starts_with(b) || b.starts_with(a))
    }
}

pub fn is_bundle(name: &str) -> bool {
    name.ends_with(".tar.gz")
}

/// The regular files of an archive, by their paths inside it.
pub fn unpack(name: &str, bytes: &[u8]) -> Result<Vec<File>, Finding> {
    let fail = |what: String| format!("{name}: {what}");
    // One byte over the cap is read, so that a full archive and a larger one can be told apart.
    let mut limited = flate2::read::MultiGzDecoder::new(bytes).take(UNPACKED + 1);
    let mut files = Vec::new();
    let mut archive = tar::Archive::new(&mut limited);
    for entry in archive.entries().map_err(|e| fail(format!("no tar.gz: {e}")))? {
        let mut entry = entry.map_err(|e| fail(format!("no tar.gz, or larger than {UNPACKED} bytes: {e}")))?;
        let raw = entry.path_bytes().into_owned();
        let path = String::from_utf8(raw).map_err(|_| fail("a name inside is no UTF-8".into()))?;
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            continue;
        }
        if !kind.is_file() {
            return Err(fail(format!("{path} is no regular file")));
        }
        let path = inner_path(&path).ok_or_else(|| fail(format!("{path} leads out of the bundle")))?;
        if files.len() >= ENTRIES {
            return Err(fail(format!("more than {ENTRIES} files")));
        }
        let mut content = Vec::new();
        entry
            .read_to_end(&mut content)
            .map_err(|e| fail(format!("{path}: larger than {UNPACKED} bytes, or cut: {e}")))?;
        files.push(File { name: path, bytes: content });
    }
    // What stands behind the last entry counts as well.
    std::io::copy(&mut limited, &mut std::io::sink()).map_err(|e| fail(format!("no gzip: {e}")))?;
    if limited.limit() == 0 {
        return Err(fail(format!("larger than {UNPACKED} bytes when unpacked")));
    }
    Ok(files)
}

/// A path without what means nothing (`/` in front, `.`); None when it climbs.
fn inner_path(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    (!parts.is_empty() && !parts.contains(&"..") && !path.contains('\0')).then(|| parts.join("/"))
}

/// Reads a manifest; without one, a bundle owns everything.
pub fn manifest(bundle: &str, file: Option<&File>) -> Result<Manifest, Finding> {
    let Some(file) = file else {
        return Ok(Manifest { name: bundle.to_string(), roots: vec![Vec::new()] });
    };
    let fail = |what: String| format!("{}: {what}", file.name);
    let json: Json = serde_json::from_slice(&file.bytes).map_err(|e| fail(e.to_string()))?;
    if !json.is_object() {
        return Err(fail("a manifest is an object".into()));
    }
    let v0 = |v: &Json| v.as_i64() == Some(0);
    let files_v0 = json["file_rego_versions"].as_object().is_some_and(|files| files.values().any(v0));
    if v0(&json["rego_version"]) || files_v0 {
        return Err(fail("rego_version 0: only Rego v1 is spoken here".into()));
    }
    if json["wasm"].as_array().is_some_and(|wasm| !wasm.is_empty()) {
        return Err(fail("wasm: WebAssembly is not run here".into()));
    }
    let roots = match &json["roots"] {
        Json::Null => vec![Vec::new()],
        Json::Array(roots) => roots
            .iter()
            .map(|root| root.as_str().map(root_path).ok_or_else(|| fail("roots: a root is a text".into())))
            .collect::<Result<_, _>>()?,
        _ => return Err(fail("roots: they are a list".into())),
    };
    Ok(Manifest { name: bundle.to_string(), roots })
}

fn root_path(root: &str) -> Vec<String> {
    root.split('/').filter(|part| !part.is_empty()).map(String::from).collect()
}
