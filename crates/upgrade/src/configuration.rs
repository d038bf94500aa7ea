//! The configuration of an appliance: values, the version of the data that they and the stores beside them are in, and
//! the release that wrote it. Part of the state: a snapshot captures it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use logic::migrate::Applied;
use logic::upgrade::Image;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::release::Words;
use crate::secrets::{self, Key, KeyId};

const LIMIT: u64 = 64 << 20;

/// As it is used: secrets are in clear, each as `{"$secret": TEXT}`.
#[derive(Clone, PartialEq)]
pub struct Configuration {
    pub release: Image,
    pub data_version: u32,
    pub applied: Vec<Applied>,
    pub values: Map<String, Value>,
}

/// As it is on disk.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    api_version: String,
    kind: String,
    release: Image,
    data_version: u32,
    applied: Vec<Applied>,
    key: KeyId,
    values: Map<String, Value>,
}

const API_VERSION: &str = "holdfast/v1";
const KIND: &str = "Configuration";

impl Configuration {
    pub fn load(layout: &Layout) -> Result<Self> {
        let document = read(&layout.configuration())?;
        let values = Key::load(layout, &document.key)?.open(&document.values)?;
        let Document { release, data_version, applied, .. } = document;
        Ok(Self { release, data_version, applied, values })
    }

    /// Sealed with a key of its own, on disk when this returns.
    pub fn save(&self, layout: &Layout) -> Result<()> {
        let key = Key::make(layout)?;
        let document = Document {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            release: self.release.clone(),
            data_version: self.data_version,
            applied: self.applied.clone(),
            values: key.seal(&self.values)?,
            key: key.id,
        };
        let path = layout.configuration();
        let text = serde_json::to_vec_pretty(&document)
            .map_err(|error| Error::Damaged { path: path.clone(), why: error.to_string() })?;
        disk::durable::write_durably_with(&path, |file| {
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
            std::io::Write::write_all(file, &text)
        })?;
        Ok(())
    }

    /// What words stand for in the release at `release`: `{config.KEY}` for texts, numbers and truth values at the top
    /// level. Secrets are not for command lines.
    pub fn words(&self, layout: &Layout, release: &Path) -> Words {
        let mut words = Words::default();
        words.set_path("release", release).set_path("data", &layout.data()).set_path("run", &layout.run());
        for (key, value) in &self.values {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                Value::Bool(truth) => truth.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => continue,
            };
            words.set(&format!("config.{key}"), text);
        }
        words
    }

    /// For the program itself: secrets in clear.
    pub fn plain(&self) -> Value {
        fn plain(value: &Value) -> Value {
            match (secrets::secret(value), value) {
                (Some(text), _) => Value::String(text.to_owned()),
                (None, Value::Object(map)) => {
                    map.iter().map(|(key, value)| (key.clone(), plain(value))).collect()
                }
                (None, Value::Array(items)) => items.iter().map(plain).collect(),
                (None, other) => other.clone(),
            }
        }
        plain(&Value::Object(self.values.clone()))
    }

    /// For people: secrets hidden.
    pub fn shown(&self) -> Value {
        fn shown(value: &Value) -> Value {
            match value {
                Value::Object(map) if map.contains_key(secrets::MARK) => json!("(secret)"),
                Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), shown(value))).collect(),
                Value::Array(items) => items.iter().map(shown).collect(),
                other => other.clone(),
            }
        }
        shown(&Value::Object(self.values.clone()))
    }
}

/// The key that a configuration in a state directory is sealed with.
pub fn key_of(state: &Path) -> Result<KeyId> {
    Ok(read(&state.join("configuration.json"))?.key)
}

fn read(path: &Path) -> Result<Document> {
    let damaged = |why: String| Error::Damaged { path: path.to_owned(), why };
    let bytes =
        disk::durable::read_limited(path, LIMIT)?.ok_or_else(|| damaged("it is not there".to_owned()))?;
    // Before the rest of it, so that a newer form is told from a damaged one.
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    match (value["apiVersion"].as_str(), value["kind"].as_str()) {
        (Some(API_VERSION), Some(KIND)) => {}
        (Some(other), Some(KIND)) => {
            return Err(Error::NewerThanProgram { path: path.to_owned(), found: other.to_owned() });
        }
        _ => return Err(damaged("it is no configuration".to_owned())),
    }
    serde_json::from_value(value).map_err(|error| damaged(error.to_string()))
}
