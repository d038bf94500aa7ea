//! From a query string to what a client asks for. Nothing here looks at a graph: a channel or an architecture that is
//! well-formed and unknown is an answer of no releases, not a mistake.

use std::borrow::Cow;

use logic::graph::{Arch, ReleaseName};

/// Longer query strings are refused.
const QUERY_BYTES: usize = 8 << 10;
/// More parameters are refused.
const PARAMETERS: usize = 64;
/// No channel, and no id of a client, is longer.
const VALUE_BYTES: usize = 256;

/// The parameters of a request, decoded, each at most once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

/// What a client of the policy asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked<'a> {
    /// As the client wrote it, and known to be a version where it is there at all.
    pub version: Option<Cow<'a, str>>,
    pub channel: Cow<'a, str>,
    /// As the client wrote it, and known to be well-formed.
    pub arch: Option<Cow<'a, str>>,
    pub id: Option<Cow<'a, str>>,
    pub whole_channel: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadQuery {
    /// Names, sorted.
    #[error("mandatory client parameters missing: {}", .0.join(", "))]
    Missing(Vec<String>),
    #[error("parameter {0:?} is given more than once")]
    Repeated(String),
    #[error("more than {PARAMETERS} parameters")]
    TooMany,
    #[error("the query is longer than {QUERY_BYTES} bytes")]
    TooLong,
    #[error("invalid {name}: {why}")]
    Invalid { name: &'static str, why: String },
}

impl BadQuery {
    /// The word for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Missing(_) => "missing_params",
            _ => "invalid_params",
        }
    }
}

impl<'a> Query<'a> {
    pub fn parse(raw: &'a str) -> Result<Self, BadQuery> {
        if raw.len() > QUERY_BYTES {
            return Err(BadQuery::TooLong);
        }
        let mut pairs: Vec<(Cow<'a, str>, Cow<'a, str>)> = Vec::with_capacity(8);
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = decode(pair);
            if pairs.len() == PARAMETERS {
                return Err(BadQuery::TooMany);
            }
            if pairs.iter().any(|(other, _)| *other == name) {
                return Err(BadQuery::Repeated(name.chars().take(80).collect()));
            }
            pairs.push((name, value));
        }
        Ok(Self { pairs })
    }

    /// An empty value says as little as none.
    pub fn get(&self, name: &str) -> Option<&Cow<'a, str>> {
        self.pairs.iter().find(|(other, value)| other == name && !value.is_empty()).map(|(_, value)| value)
    }

    /// All of them in one order, as a key and for passing on.
    pub fn sorted(&self) -> String {
        let mut pairs = self.pairs.clone();
        pairs.sort();
        form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
    }

    /// What is asked, if all that is required is there and well-formed.
    pub fn asked(&self, required: &[String]) -> Result<Asked<'a>, BadQuery> {
        let (mut channel, mut version, mut arch, mut id, mut view) = (None, None, None, None, None);
        for (name, value) in self.pairs.iter().filter(|(_, value)| !value.is_empty()) {
            match &**name {
                "channel" => channel = Some(value),
                "version" => version = Some(value),
                "arch" => arch = Some(value),
                "id" => id = Some(value),
                "view" => view = Some(value),
                _ => {}
            }
        }
        let whole_channel = view.is_some_and(|view| view == "full");
        let given = |name: &str| match name {
            "channel" => channel.is_some(),
            "version" => version.is_some(),
            "id" => id.is_some(),
            name => self.get(name).is_some(),
        };
        // A policy can't do without these, whatever the list says.
        let needed = if whole_channel { &["channel"][..] } else { &["channel", "version"] };
        let needed = required.iter().map(String::as_str).chain(needed.iter().copied());
        let mut missing: Vec<&str> = needed.filter(|name| !given(name)).collect();
        let Some(channel) = channel.filter(|_| missing.is_empty()) else {
            missing.sort_unstable();
            missing.dedup();
            return Err(BadQuery::Missing(missing.into_iter().map(str::to_owned).collect()));
        };
        let id = id.cloned();
        if id.as_ref().is_some_and(|id| id.len() > VALUE_BYTES) {
            return Err(BadQuery::Invalid { name: "id", why: format!("longer than {VALUE_BYTES} bytes") });
        }
        Ok(Asked {
            version: version.map(checked_version).transpose()?,
            channel: checked_channel(channel)?,
            arch: arch.map(checked_arch).transpose()?,
            id,
            whole_channel,
        })
    }
}

/// As forms are written. Nearly all parameters stand for themselves, and those cost nothing.
fn decode(pair: &str) -> (Cow<'_, str>, Cow<'_, str>) {
    if !pair.bytes().any(|byte| byte == b'%' || byte == b'+') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        return (Cow::Borrowed(name), Cow::Borrowed(value));
    }
    form_urlencoded::parse(pair.as_bytes()).next().unwrap_or_default()
}

fn checked_version<'a>(text: &Cow<'a, str>) -> Result<Cow<'a, str>, BadQuery> {
    // A plus sign that was not escaped arrives as a blank, and versions have none.
    let text = if text.contains(' ') { Cow::Owned(text.trim().replace(' ', "+")) } else { text.clone() };
    // What is known to be one by its looks need not be parsed: this is asked with every request.
    if plain_version(&text) {
        return Ok(text);
    }
    match ReleaseName::parse(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(BadQuery::Invalid { name: "version", why: error.to_string() }),
    }
}

/// Three numbers, short enough and without leading zeros.
fn plain_version(text: &str) -> bool {
    let number = |part: &str| {
        (1..=9).contains(&part.len())
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part.len() == 1 || !part.starts_with('0'))
    };
    let mut parts = text.split('.');
    parts.by_ref().take(3).filter(|part| number(part)).count() == 3 && parts.next().is_none()
}

fn checked_channel<'a>(text: &Cow<'a, str>) -> Result<Cow<'a, str>, BadQuery> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if text.len() <= VALUE_BYTES && text.bytes().all(fits) {
        return Ok(text.clone());
    }
    let why = "expected letters, digits, dots, dashes and underscores".to_owned();
    Err(BadQuery::Invalid { name: "channel", why })
}

fn checked_arch<'a>(text: &Cow<'a, str>) -> Result<Cow<'a, str>, BadQuery> {
    match Arch::parse(text) {
        Ok(_) => Ok(text.clone()),
        Err(error) => Err(BadQuery::Invalid { name: "arch", why: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required() -> Vec<String> {
        ["version", "id", "channel"].map(str::to_owned).to_vec()
    }

    fn asked(raw: &str) -> Result<Asked<'_>, BadQuery> {
        Query::parse(raw)?.asked(&required())
    }

    #[test]
    fn all_missing_parameters_are_named_in_order() {
        let error = asked("version=4.16.1").unwrap_err();
        assert_eq!(error.to_string(), "mandatory client parameters missing: channel, id");
        assert_eq!(error.kind(), "missing_params");
        let error = asked("").unwrap_err();
        assert_eq!(error.to_string(), "mandatory client parameters missing: channel, id, version");
        let error = asked("version=1.0.0&channel=&id=x").unwrap_err();
        assert_eq!(error.to_string(), "mandatory client parameters missing: channel");
    }

    #[test]
    fn a_channel_needs_no_dash_and_an_unknown_architecture_is_well_formed() {
        let asked = asked("channel=stable&version=4.16.1&arch=64&id=x").unwrap();
        assert_eq!((&*asked.channel, asked.arch.as_deref()), ("stable", Some("64")));
        assert!(!asked.whole_channel);
    }

    #[test]
    fn what_is_malformed_is_named() {
        for (raw, name) in [
            ("channel=stable&version=4.16&id=x", "version"),
            ("channel=stable&version=4.016.1&id=x", "version"),
            ("channel=stable&version=4.16.1.2&id=x", "version"),
            ("channel=a/b&version=4.16.1&id=x", "channel"),
            ("channel=a&version=4.16.1&id=x&arch=a+b", "arch"),
            ("channel=a&channel=b&version=4.16.1&id=x", "channel"),
            ("a=1&channel=b&version=4.16.1&id=x&a=2", "\"a\""),
        ] {
            let error = asked(raw).unwrap_err();
            assert_eq!(error.kind(), "invalid_params", "{raw}");
            assert!(error.to_string().contains(name), "{raw}: {error}");
        }
    }

    #[test]
    fn a_plus_sign_may_be_escaped_or_not() {
        for raw in ["4.16.1%2Bamd64", "4.16.1+amd64"] {
            let raw = format!("channel=a&id=x&version={raw}");
            assert_eq!(asked(&raw).unwrap().version.as_deref(), Some("4.16.1+amd64"));
        }
    }

    #[test]
    fn the_shortcut_for_versions_agrees_with_the_parser() {
        for text in
            ["1.2.3", "0.0.0", "01.2.3", "1.2", "1.2.3.4", "1..3", "1.2.3-rc", "10.20.30", "a.b.c", ""]
        {
            assert!(!plain_version(text) || ReleaseName::parse(text).is_ok(), "{text}");
        }
        assert!(plain_version("4.16.15"));
    }

    #[test]
    fn parameters_are_split_as_forms_are() {
        for raw in ["a=1&b=2", "a", "a=", "=a", "&&a=b=c&", "a=%20+&b=ü", "%26=%3D", "a=%ff"] {
            let expected: Vec<_> = form_urlencoded::parse(raw.as_bytes()).collect();
            assert_eq!(Query::parse(raw).unwrap().pairs, expected, "{raw}");
        }
    }

    #[test]
    fn there_is_a_limit_on_everything() {
        let many: String = (0..100).map(|number| format!("p{number}=1&")).collect();
        assert_eq!(Query::parse(&many), Err(BadQuery::TooMany));
        assert_eq!(Query::parse(&"a".repeat(9000)), Err(BadQuery::TooLong));
        let raw = format!("channel=a&version=1.0.0&id={}", "x".repeat(300));
        assert!(asked(&raw).is_err());
    }

    #[test]
    fn parameters_are_passed_on_in_one_order_whatever_they_are() {
        let query = Query::parse("b=%2B&a=x+y&ü=1").unwrap();
        assert_eq!(query.sorted(), "a=x+y&b=%2B&%C3%BC=1");
    }
}
