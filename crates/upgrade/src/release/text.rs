//! Words in a release that stand for something on this machine.

use std::collections::BTreeMap;
use std::path::Path;

use super::error::Error;

/// What words stand for: `{release}`, `{data}`, `{run}`, `{config.KEY}`.
#[derive(Debug, Clone, Default)]
pub struct Words(BTreeMap<String, String>);

impl Words {
    pub fn set(&mut self, word: &str, value: impl Into<String>) -> &mut Self {
        self.0.insert(word.to_owned(), value.into());
        self
    }

    pub fn set_path(&mut self, word: &str, path: &Path) -> &mut Self {
        self.set(word, path.display().to_string())
    }
}

/// Replaces each `{word}`; `{{` and `}}` stand for the brackets themselves.
pub fn expand(text: &str, words: &Words) -> Result<String, Error> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        if let Some(after) = from.strip_prefix("{{").or_else(|| from.strip_prefix("}}")) {
            out.push_str(&from[..1]);
            rest = after;
            continue;
        }
        let unknown = |word: &str| Error::UnknownWord { word: word.to_owned(), text: text.to_owned() };
        let inner = from.strip_prefix('{').ok_or_else(|| unknown("}"))?;
        let (word, after) = inner.split_once('}').ok_or_else(|| unknown(inner))?;
        out.push_str(words.0.get(word).ok_or_else(|| unknown(word))?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_replaced_and_unknown_ones_are_errors() {
        let mut words = Words::default();
        words.set("data", "/d").set("config.port", "80");
        assert_eq!(expand("a {data}:{config.port} {{x}}", &words).unwrap(), "a /d:80 {x}");
        for bad in ["{nothing}", "{data", "}", "{config.}"] {
            assert!(expand(bad, &words).is_err(), "{bad}");
        }
    }
}
