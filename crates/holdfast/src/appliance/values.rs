//! Values of a configuration on the command line.

use std::io::Read;
use std::str::FromStr;

use ::upgrade::secrets::MARK;
use logic::exit::Exit;
use serde_json::{Map, Value, json};

use crate::failure::{Failure, Result};

/// No secret is larger.
const SECRET_LIMIT: u64 = 1 << 20;

#[derive(Debug, Clone)]
pub struct KeyValue {
    key: String,
    value: Value,
}

fn split(text: &str) -> Result<(&str, &str), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !key.starts_with('$') => Ok((key, value)),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

impl FromStr for KeyValue {
    type Err = String;

    /// Numbers, truth values, lists and maps are what they look like; all else is text.
    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = split(text)?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        Ok(Self { key: key.to_owned(), value })
    }
}

/// A secret: where it comes from. Its own text is not shown by `Debug`.
#[derive(Clone)]
pub struct Secret {
    pub key: String,
    from: String,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}=(secret)", self.key)
    }
}

impl FromStr for Secret {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (key, from) = split(text).map_err(|_| "write KEY=@FILE, KEY=- or KEY=VALUE".to_owned())?;
        Ok(Self { key: key.to_owned(), from: from.to_owned() })
    }
}

impl Secret {
    /// Without the newline at its end, which editors add.
    pub fn read(&self) -> Result<String> {
        let failed = |error: &dyn std::error::Error| {
            Failure::new(Exit::Usage, error, format!("give the secret {} as KEY=@FILE or KEY=-", self.key))
        };
        let text = match self.from.as_str() {
            "-" => {
                let mut text = String::new();
                let read = std::io::stdin().take(SECRET_LIMIT).read_to_string(&mut text);
                read.map_err(|error| failed(&error))?;
                text
            }
            from => match from.strip_prefix('@') {
                Some(path) => std::fs::read_to_string(path).map_err(|error| failed(&error))?,
                None => from.to_owned(),
            },
        };
        Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
    }
}

pub fn map(set: &[KeyValue], secrets: &[Secret]) -> Result<Map<String, Value>> {
    let mut values: Map<String, Value> = set.iter().map(|one| (one.key.clone(), one.value.clone())).collect();
    for secret in secrets {
        values.insert(secret.key.clone(), json!({ MARK: secret.read()? }));
    }
    Ok(values)
}
