//! `blocked-edges/*.yaml`.
//!
//! A block holds clients back from something that somebody knows to be bad. So whatever is wrong with the rest of a
//! file, as long as it can be seen which release it is about, the ways there are held back until it is mended: too
//! many clients wait, none goes where it must not.

use std::collections::HashMap;
use std::sync::LazyLock;

use logic::graph::data::{Block, MatchingRule, PromQl, Risk};
use logic::graph::{Notes, Place, ReleaseName};
use regex::{Regex, RegexBuilder};
use serde::de::{IgnoredAny, MapAccess};

use super::yaml::{self, Text};

#[derive(Debug, Default)]
struct File {
    to: Option<Text>,
    from: Option<Text>,
    url: Option<Text>,
    name: Option<Text>,
    message: Option<Text>,
    rules: Option<serde_saphyr::Spanned<Vec<serde_saphyr::Spanned<yaml::Read<Rule>>>>>,
}

impl yaml::Document for File {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "to" => self.to = map.next_value()?,
            "from" => self.from = map.next_value()?,
            "url" => self.url = map.next_value()?,
            "name" => self.name = map.next_value()?,
            "message" => self.message = map.next_value()?,
            "matchingRules" => self.rules = map.next_value()?,
            // For the people and programs that write these files.
            "fixedIn" | "autoExtend" => drop(map.next_value::<IgnoredAny>()?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[derive(Debug, Default)]
struct Rule {
    kind: Option<Text>,
    promql: Option<serde_saphyr::Spanned<yaml::Read<Query>>>,
}

impl yaml::Document for Rule {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "type" => self.kind = map.next_value()?,
            "promql" => self.promql = map.next_value()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[derive(Debug, Default)]
struct Query {
    promql: Option<Text>,
}

impl yaml::Document for Query {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "promql" => self.promql = map.next_value()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Reads blocks; many have the same pattern, which is made once.
#[derive(Debug, Default)]
pub struct Reader {
    patterns: HashMap<String, Result<Regex, String>>,
}

/// No pattern needs more, compiled.
const PATTERN_LIMIT: usize = 1 << 20;

const HELD: &str = "until this is mended, nothing may move there";

impl Reader {
    /// None where it can't be seen which release the file is about.
    pub fn read(&mut self, path: &str, bytes: &[u8], notes: &mut Notes) -> Option<Block> {
        let at = |line: Option<usize>| Place::File { path: path.to_owned(), line };
        let file = match yaml::read::<File>(bytes) {
            Ok(file) => file,
            Err(mistake) => {
                let Some((to, line)) = release_in(bytes) else {
                    let text = format!("the block is left out: {}", mistake.text);
                    notes.error("bad-yaml", at(mistake.line), text);
                    return None;
                };
                notes.error("bad-yaml", at(mistake.line), format!("{}; {HELD} ({to})", mistake.text));
                return Some(Block { to, from: everything(), risk: None, place: at(Some(line)) });
            }
        };
        for key in &file.unknown {
            notes.warning("unknown-key", at(yaml::line(key)), format!("blocks have no {:?}", key.value));
        }
        let Some(to) = &file.document.to else {
            notes.error("missing-key", at(None), "the block is left out: it has no `to`");
            return None;
        };
        let place = at(yaml::line(to));
        let release = match ReleaseName::parse(&to.value) {
            Ok(release) => release,
            Err(error) => {
                notes.error("bad-version", place, format!("the block is left out: {error}"));
                return None;
            }
        };
        let from = self.from(file.document.from.as_ref(), &at, notes);
        let risk = risk(&file.document, &at, &place, notes);
        Some(Block { to: release, from, risk, place })
    }

    fn from(
        &mut self,
        from: Option<&Text>,
        at: &impl Fn(Option<usize>) -> Place,
        notes: &mut Notes,
    ) -> Regex {
        let Some(from) = from else {
            notes.error("missing-key", at(None), format!("it has no `from`; {HELD}"));
            return everything();
        };
        if from.value.is_empty() {
            let text = format!("`from` is empty: write .* if everything is meant; {HELD}");
            notes.error("bad-pattern", at(yaml::line(from)), text);
            return everything();
        }
        match self.pattern(&from.value) {
            Ok(pattern) => pattern,
            Err(error) => {
                notes.error("bad-pattern", at(yaml::line(from)), format!("`from`: {error}; {HELD}"));
                everything()
            }
        }
    }

    fn pattern(&mut self, text: &str) -> Result<Regex, String> {
        let compile = || {
            let made = RegexBuilder::new(text).size_limit(PATTERN_LIMIT).build();
            // The last line says what is wrong; those before it draw an arrow.
            made.map_err(|error| error.to_string().lines().last().unwrap_or_default().trim().to_owned())
        };
        self.patterns.entry(text.to_owned()).or_insert_with(compile).clone()
    }
}

fn everything() -> Regex {
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| Regex::new(".*").expect("two characters"));
    PATTERN.clone()
}

/// The risk of a conditional block; None where the block is plain, or must be until it is mended.
fn risk(file: &File, at: &impl Fn(Option<usize>) -> Place, place: &Place, notes: &mut Notes) -> Option<Risk> {
    let File { url, name, message, rules, .. } = file;
    let filled = |text: &Option<Text>| text.as_ref().is_some_and(|text| !text.value.trim().is_empty());
    let parts = [("url", filled(url)), ("name", filled(name)), ("message", filled(message))];
    let some_rules = rules.as_ref().is_some_and(|rules| !rules.value.is_empty());
    let parts = parts.into_iter().chain([("matchingRules", some_rules)]);
    let (there, missing): (Vec<_>, Vec<_>) = parts.partition(|(_, there)| *there);
    if there.is_empty() {
        return None;
    }
    let (Some(url), Some(name), Some(message), Some(rules), true) =
        (url, name, message, rules, missing.is_empty())
    else {
        let missing: Vec<&str> = missing.into_iter().map(|(key, _)| key).collect();
        let text = format!("half a condition, without {}; {HELD}", missing.join(", "));
        notes.error("half-condition", place.clone(), text);
        return None;
    };
    let mut matching_rules = vec![];
    for rule in &rules.value {
        let place = at(yaml::line(rule));
        for key in &rule.value.unknown {
            notes.warning("unknown-key", at(yaml::line(key)), format!("rules have no {:?}", key.value));
        }
        matching_rules.push(matching_rule(&rule.value.document, &place, notes)?);
    }
    Some(Risk {
        url: url.value.clone(),
        name: name.value.clone(),
        message: message.value.clone(),
        matching_rules,
    })
}

/// None where a client could not evaluate it.
fn matching_rule(rule: &Rule, place: &Place, notes: &mut Notes) -> Option<MatchingRule> {
    let Some(kind) = &rule.kind else {
        notes.error("bad-rule", place.clone(), format!("a rule without a `type`; {HELD}"));
        return None;
    };
    let query = rule.promql.as_ref().and_then(|query| query.value.document.promql.as_ref());
    let query = query.map(|text| text.value.clone()).filter(|text| !text.trim().is_empty());
    match (kind.value.as_str(), &query) {
        ("PromQL", None) => {
            notes.error("bad-rule", place.clone(), format!("a PromQL rule without a query; {HELD}"));
            return None;
        }
        ("Always", Some(_)) => {
            notes.warning("bad-rule", place.clone(), "a rule that always matches has a query");
        }
        ("PromQL" | "Always", _) => {}
        (other, _) => {
            let text = format!("{other:?} is a type of rule that is not known here; it is passed on");
            notes.warning("unknown-rule", place.clone(), text);
        }
    }
    Some(MatchingRule { kind: kind.value.clone(), promql: query.map(|promql| PromQl { promql }) })
}

/// Which release a file is about that is not YAML: what stands behind `to:` at the start of a line.
fn release_in(bytes: &[u8]) -> Option<(ReleaseName, usize)> {
    let text = String::from_utf8_lossy(bytes);
    text.lines().enumerate().find_map(|(line, text)| {
        let value = text.strip_prefix("to:")?;
        let value = value.split(" #").next().unwrap_or(value).trim().trim_matches(['"', '\'']);
        Some((ReleaseName::parse(value).ok()?, line + 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_a_pattern() {
        assert!(everything().is_match("1.0.0+amd64"));
    }
}
