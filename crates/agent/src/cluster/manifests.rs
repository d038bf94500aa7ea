//! The Kubernetes manifests in a release: `release-manifests/*.yaml`, `*.yml` and `*.json`, in the order of their names. What they
//! mean to a cluster is its own business; the list for the storage gate, which is beside them, is none of them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::precondition::SUPPORTED_STORAGE;
use crate::quarantine::MANIFESTS as DIRECTORY;

/// Beyond what any release has, by far.
const FILES: usize = 10_000;
const OBJECTS: usize = 20_000;
const FILE_BYTES: u64 = 8 << 20;
const BYTES: u64 = 256 << 20;

/// An object that is part of the agent itself.
const AGENT: &str = "holdfast.dev/agent";
/// An object that the release takes away, as OpenShift's releases write it.
const DELETE: &str = "release.openshift.io/delete";

#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Its name, without its directory.
    pub file: String,
    pub object: Value,
}

#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("can't read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{file} is not {form}: {why}")]
    Form { file: String, form: &'static str, why: String },
    #[error("{file}: document {number} {why}")]
    NoObject { file: String, number: usize, why: &'static str },
    #[error("{file} is {bytes} bytes, and {limit} are the limit")]
    TooLarge { file: String, bytes: u64, limit: u64 },
    #[error("there are more than {0} {1} in the release")]
    TooMany(usize, &'static str),
}

impl Manifest {
    fn is_annotated(&self, name: &str) -> bool {
        let annotations = &self.object["metadata"]["annotations"];
        annotations[name].as_str() == Some("true")
    }

    pub fn is_of_the_agent(&self) -> bool {
        self.is_annotated(AGENT)
    }

    pub fn is_to_go(&self) -> bool {
        self.is_annotated(DELETE)
    }

    pub fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    pub fn namespace(&self) -> Option<&str> {
        self.object["metadata"]["namespace"].as_str()
    }

    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// `0000_50_x.yaml: Deployment shop/server`
    pub fn what(&self) -> String {
        let place = self.namespace().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        format!("{}: {} {place}{}", self.file, self.kind(), self.name())
    }
}

/// All of them: those of the agent first, the others as their files are named.
pub fn read(tree: &Path) -> Result<Vec<Manifest>, ManifestError> {
    let directory = tree.join(DIRECTORY);
    let unread = |path: &Path| {
        let path = path.to_owned();
        move |source| ManifestError::Read { path, source }
    };
    let mut names = vec![];
    for entry in fs::read_dir(&directory).map_err(unread(&directory))? {
        let entry = entry.map_err(unread(&directory))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // A link could lead out of the release.
        let is_file = entry.file_type().map_err(unread(&entry.path()))?.is_file();
        if is_file && form_of(&name).is_some() && name != SUPPORTED_STORAGE {
            names.push(name);
        }
        if names.len() > FILES {
            return Err(ManifestError::TooMany(FILES, "manifests"));
        }
    }
    names.sort();
    let (mut manifests, mut read) = (vec![], 0);
    for name in names {
        let path = directory.join(&name);
        let bytes = fs::metadata(&path).map_err(unread(&path))?.len();
        read += bytes;
        if bytes > FILE_BYTES || read > BYTES {
            let limit = if bytes > FILE_BYTES { FILE_BYTES } else { BYTES };
            return Err(ManifestError::TooLarge { file: name, bytes, limit });
        }
        let text = fs::read_to_string(&path).map_err(unread(&path))?;
        parse(&name, &text, &mut manifests)?;
        if manifests.len() > OBJECTS {
            return Err(ManifestError::TooMany(OBJECTS, "objects"));
        }
    }
    // Stable: otherwise they stay in order.
    manifests.sort_by_key(|manifest| !manifest.is_of_the_agent());
    Ok(manifests)
}

fn form_of(name: &str) -> Option<&'static str> {
    match name.rsplit_once('.')?.1 {
        "yaml" | "yml" => Some("YAML"),
        "json" => Some("JSON"),
        _ => None,
    }
}

fn parse(file: &str, text: &str, into: &mut Vec<Manifest>) -> Result<(), ManifestError> {
    let documents: Vec<Value> = match form_of(file) {
        Some("JSON") => vec![serde_json::from_str(text).map_err(|error| ManifestError::Form {
            file: file.to_owned(),
            form: "JSON",
            why: error.to_string(),
        })?],
        _ => serde_saphyr::from_multiple(text).map_err(|error| ManifestError::Form {
            file: file.to_owned(),
            form: "YAML",
            // The rest is a picture of the place.
            why: error.to_string().lines().next().unwrap_or_default().to_owned(),
        })?,
    };
    for (number, document) in documents.into_iter().enumerate() {
        match document {
            Value::Null => {}
            Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
                let Some(Value::Array(items)) = list.remove("items") else { continue };
                for item in items {
                    into.push(object(file, number + 1, item)?);
                }
            }
            document => into.push(object(file, number + 1, document)?),
        }
    }
    Ok(())
}

fn object(file: &str, number: usize, object: Value) -> Result<Manifest, ManifestError> {
    let bad = |why| Err(ManifestError::NoObject { file: file.to_owned(), number, why });
    let text =
        |pointer: &str| object.pointer(pointer).and_then(Value::as_str).is_some_and(|it| !it.is_empty());
    if !object.is_object() {
        return bad("is no object");
    }
    for (pointer, why) in [
        ("/apiVersion", "has no apiVersion"),
        ("/kind", "has no kind"),
        ("/metadata/name", "has no metadata.name"),
    ] {
        if !text(pointer) {
            return bad(why);
        }
    }
    Ok(Manifest { file: file.to_owned(), object })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let tree = std::env::temp_dir().join(format!("holdfast-manifests-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&tree);
        fs::create_dir_all(tree.join(DIRECTORY)).unwrap();
        for (name, text) in files {
            fs::write(tree.join(DIRECTORY).join(name), text).unwrap();
        }
        tree
    }

    fn named(name: &str) -> String {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: shop}}\n")
    }

    #[test]
    fn they_come_in_the_order_of_their_files_and_the_agents_own_come_first() {
        let agent = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: agent\n  annotations: {holdfast.dev/agent: \"true\"}\n";
        let list = r#"{"kind": "List", "items": [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "d"}}]}"#;
        let tree = release(
            "order",
            &[
                ("0000_50_b.yaml", &format!("{}---\n{}---\n", named("b"), named("c"))),
                ("0000_10_a.yml", &named("a")),
                ("0000_90_agent.yaml", agent),
                ("0000_70_d.json", list),
                ("release-metadata", "{}"),
                (SUPPORTED_STORAGE, "[]"),
                ("notes.txt", "no manifest"),
            ],
        );
        std::os::unix::fs::symlink("/etc/passwd", tree.join(DIRECTORY).join("0000_00_link.yaml")).unwrap();
        let all: Vec<String> = read(&tree).unwrap().iter().map(Manifest::what).collect();
        let expected = [
            "0000_90_agent.yaml: Deployment agent",
            "0000_10_a.yml: ConfigMap shop/a",
            "0000_50_b.yaml: ConfigMap shop/b",
            "0000_50_b.yaml: ConfigMap shop/c",
            "0000_70_d.json: Secret d",
        ];
        assert_eq!(all, expected);
        fs::remove_dir_all(tree).unwrap();
    }

    #[test]
    fn what_is_no_object_is_named_with_its_file() {
        for (text, said) in [
            ("- 1\n", "document 1 is no object"),
            ("kind: X\nmetadata: {name: x}\n", "document 1 has no apiVersion"),
            ("apiVersion: v1\nkind: X\nmetadata: {}\n", "document 1 has no metadata.name"),
            ("a: [\n", "x.yaml is not YAML"),
        ] {
            let tree = release("bad", &[("x.yaml", text)]);
            let error = read(&tree).unwrap_err().to_string();
            assert!(error.starts_with("x.yaml") && error.contains(said), "{error}");
            fs::remove_dir_all(tree).unwrap();
        }
    }

    #[test]
    fn a_file_that_unfolds_without_end_is_refused() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let before = format!("*a{}, ", level - 1).repeat(9);
            text.push_str(&format!("a{level}: &a{level} [{}]\n", before.trim_end_matches(", ")));
        }
        let tree = release("bomb", &[("x.yaml", &text)]);
        assert!(matches!(read(&tree), Err(ManifestError::Form { .. })));
        fs::remove_dir_all(tree).unwrap();
    }
}
