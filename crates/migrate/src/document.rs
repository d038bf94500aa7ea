//! Data as a document: `{"apiVersion", "kind": "MigrationData", "target", "dataVersion", "applied": […], "values": {…}}`.
//! For people and programs that keep no appliance; pure, and strict: a key that is not understood is an error.

use logic::migrate::{Applied, Target};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::executable::API_VERSION;
use crate::run::Data;

const KIND: &str = "MigrationData";

#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub target: Target,
    pub data: Data,
}

#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    #[error("it is not a document with data to migrate")]
    NotADocument(#[source] serde_json::Error),
    #[error("its {key} is {found:?}, not {expected:?}")]
    OfAnotherKind { key: &'static str, found: String, expected: &'static str },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Written {
    api_version: String,
    kind: String,
    target: Target,
    data_version: u32,
    #[serde(default)]
    applied: Vec<Applied>,
    values: Map<String, Value>,
}

impl Document {
    pub fn parse(bytes: &[u8]) -> Result<Self, DocumentError> {
        let written: Written = serde_json::from_slice(bytes).map_err(DocumentError::NotADocument)?;
        for (key, found, expected) in
            [("apiVersion", &written.api_version, API_VERSION), ("kind", &written.kind, KIND)]
        {
            if found != expected {
                let found = found.chars().take(80).collect();
                return Err(DocumentError::OfAnotherKind { key, found, expected });
            }
        }
        let Written { target, data_version: version, applied, values, .. } = written;
        Ok(Self { target, data: Data { version, applied, values } })
    }

    /// As text that ends with a newline.
    pub fn to_json(&self) -> String {
        let Data { version, applied, values } = self.data.clone();
        let written = Written {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            target: self.target,
            data_version: version,
            applied,
            values,
        };
        // Nothing in there can fail to be written: keys are text, and numbers were read or made by serde_json.
        serde_json::to_string_pretty(&written).unwrap_or_default() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{
  "apiVersion": "holdfast/v1",
  "kind": "MigrationData",
  "target": "appliance",
  "dataVersion": 2,
  "applied": [
    {
      "version": 2,
      "digest": "sha256:aa"
    }
  ],
  "values": {
    "port": 80
  }
}
"#;

    #[test]
    fn a_document_is_written_as_it_was_read() {
        let document = Document::parse(TEXT.as_bytes()).unwrap();
        assert_eq!((document.target, document.data.version), (Target::Appliance, 2));
        assert_eq!(document.to_json(), TEXT);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (find, put) in [
            ("holdfast/v1", "holdfast.dev/v2"),
            ("MigrationData", "MigrationInput"),
            ("appliance", "container"),
            ("\"dataVersion\": 2", "\"dataVersion\": -2"),
            ("\"dataVersion\": 2", "\"dataVersion\": 2, \"extra\": 1"),
            ("\"dataVersion\": 2,", ""),
            ("{\n    \"port\": 80\n  }", "[]"),
            ("sha256:aa\"", "sha256:aa\", \"x\": 1"),
        ] {
            assert!(TEXT.contains(find));
            assert!(Document::parse(TEXT.replacen(find, put, 1).as_bytes()).is_err(), "{put}");
        }
    }
}
