//! Secrets in values: a value of the form `{"$secret": …}`. They pass through migrations and are never shown.
//!
//! A migration may move a secret, unwrap it or put it into a note. That is why what is shown is searched for the words
//! of the secrets that are known, not only for their form.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The key that makes a map a secret.
pub const SECRET_KEY: &str = "$secret";
/// What is shown instead.
pub const HIDDEN: &str = "(secret)";

/// Shorter words are hidden where they are the whole of a text, but not searched for inside others: everything
/// contains them.
const SHORTEST_PART: usize = 4;

pub fn is_secret(value: &Value) -> bool {
    value.as_object().is_some_and(|map| map.contains_key(SECRET_KEY))
}

/// The words that must not be shown.
#[derive(Debug, Clone, Default)]
pub struct Secrets(BTreeSet<String>);

impl Secrets {
    pub fn of(values: &Map<String, Value>) -> Self {
        let mut secrets = Self::default();
        secrets.learn(values);
        secrets
    }

    /// Adds the secrets of more values.
    pub fn learn(&mut self, values: &Map<String, Value>) {
        values.values().for_each(|value| self.learn_from(value));
    }

    pub(super) fn learn_from(&mut self, value: &Value) {
        match value {
            Value::Object(map) if map.contains_key(SECRET_KEY) => {
                map.values().for_each(|inside| self.keep(inside));
            }
            Value::Object(map) => map.values().for_each(|inside| self.learn_from(inside)),
            Value::Array(list) => list.iter().for_each(|inside| self.learn_from(inside)),
            _ => {}
        }
    }

    fn keep(&mut self, value: &Value) {
        match value {
            Value::String(word) if !word.is_empty() => {
                self.0.insert(word.clone());
            }
            Value::Number(number) => {
                self.0.insert(number.to_string());
            }
            Value::Object(map) => map.values().for_each(|inside| self.keep(inside)),
            Value::Array(list) => list.iter().for_each(|inside| self.keep(inside)),
            _ => {}
        }
    }

    /// The text without the secrets in it.
    pub fn hide(&self, text: &str) -> String {
        if self.0.contains(text) {
            return HIDDEN.to_owned();
        }
        // The longest first: a secret that is the beginning of another must not leave the other's end behind.
        let mut words: Vec<&String> = self.0.iter().filter(|word| word.len() >= SHORTEST_PART).collect();
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        words.into_iter().fold(text.to_owned(), |text, word| {
            if text.contains(word.as_str()) { text.replace(word.as_str(), HIDDEN) } else { text }
        })
    }

    /// The value without the secrets in it.
    pub fn without(&self, value: &Value) -> Value {
        match value {
            secret if is_secret(secret) => HIDDEN.into(),
            Value::Object(map) => map
                .iter()
                .map(|(key, value)| (self.hide(key), self.without(value)))
                .collect::<Map<_, _>>()
                .into(),
            Value::Array(list) => list.iter().map(|value| self.without(value)).collect(),
            Value::String(text) => self.hide(text).into(),
            Value::Number(number) if self.0.contains(&number.to_string()) => HIDDEN.into(),
            other => other.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_secret_is_hidden_in_its_form_and_by_its_words() {
        let secrets = Secrets::of(&map(json!({
            "password": {"$secret": "hunter2!"},
            "list": [{"inner": {"$secret": {"user": "root", "pin": 417_288}}}],
            "plain": "hunter"
        })));
        assert_eq!(secrets.hide("hunter2!"), "(secret)");
        assert_eq!(secrets.hide("url=http://root:hunter2!@x"), "url=http://(secret):(secret)@x");
        assert_eq!(
            secrets.without(&json!({"a": [{"$secret": "new"}], "n": 417_288})),
            json!({"a": ["(secret)"], "n": "(secret)"})
        );
        assert_eq!(secrets.hide("hunter"), "hunter");
    }

    #[test]
    fn short_secrets_are_hidden_whole_and_long_ones_before_their_beginnings() {
        let secrets = Secrets::of(&map(
            json!({"a": {"$secret": "ab"}, "b": {"$secret": "abcd"}, "c": {"$secret": "abcdef"}}),
        ));
        assert_eq!(secrets.hide("ab"), "(secret)");
        assert_eq!(secrets.hide("cabin"), "cabin");
        assert_eq!(secrets.hide("xabcdefx"), "x(secret)x");
    }
}
