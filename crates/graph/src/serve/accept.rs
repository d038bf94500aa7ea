//! What a client accepts: media types and encodings, with their weights. A header that can't be read counts as absent,
//! because a client that gets its graph is better off than one that gets a lesson.

use hyper::HeaderMap;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, HeaderName};

/// The two names of the same document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaType {
    Json,
    Cincinnati,
}

impl MediaType {
    pub const ALL: [Self; 2] = [Self::Json, Self::Cincinnati];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Cincinnati => "application/vnd.redhat.cincinnati.v1+json",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encodings {
    /// The client would rather have gzip, or as soon.
    pub gzip: bool,
    pub identity: bool,
}

/// Which of the media types a client wants most; none where it wants neither.
pub fn media_type(headers: &HeaderMap) -> Option<MediaType> {
    let Some(list) = list(headers, &ACCEPT) else { return Some(MediaType::Json) };
    let mut best: Option<(u16, u8, MediaType)> = None;
    for kind in MediaType::ALL {
        // The most specific entry that names a type gives its weight.
        let named = entries(&list).filter_map(|(name, weight)| Some((specificity(name, kind)?, weight)));
        let Some((specific, weight)) = named.max_by_key(|(specific, _)| *specific) else { continue };
        let better = best.is_none_or(|(other, how, _)| (weight, specific) > (other, how));
        if weight > 0 && better {
            best = Some((weight, specific, kind));
        }
    }
    best.map(|(_, _, kind)| kind)
}

pub fn encodings(headers: &HeaderMap) -> Encodings {
    let Some(list) = list(headers, &ACCEPT_ENCODING) else {
        return Encodings { gzip: false, identity: true };
    };
    let weight = |names: &[&str]| {
        entries(&list).find(|(name, _)| names.iter().any(|wanted| name.eq_ignore_ascii_case(wanted)))
    };
    let any = weight(&["*"]).map(|(_, weight)| weight);
    let gzip = weight(&["gzip", "x-gzip"]).map(|(_, weight)| weight).or(any).unwrap_or(0);
    // What is not said about the plain form is that it may come, but only after all that was asked for.
    let identity = weight(&["identity"]).map(|(_, weight)| weight);
    Encodings {
        gzip: gzip > 0 && identity.is_none_or(|identity| gzip >= identity),
        identity: identity.or(any.filter(|&any| any == 0)) != Some(0),
    }
}

/// All lines of a header as one; none where it is absent, empty, or not ASCII.
fn list<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<std::borrow::Cow<'a, str>> {
    let mut lines = headers.get_all(name).iter();
    let first = lines.next()?.to_str().ok()?;
    let mut all = std::borrow::Cow::Borrowed(first);
    for line in lines {
        let all = all.to_mut();
        all.push(',');
        all.push_str(line.to_str().ok()?);
    }
    (!all.trim().is_empty()).then_some(all)
}

/// Names and weights in thousandths. An entry whose weight can't be read is passed over.
fn entries(list: &str) -> impl Iterator<Item = (&str, u16)> {
    list.split(',').filter_map(|entry| {
        let mut parts = entry.split(';').map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty())?;
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let Some(text) = weight else { return Some((name, 1000)) };
        let number: f32 = text.trim().parse().ok()?;
        (0.0..=1.0).contains(&number).then_some((name, (number * 1000.0).round() as u16))
    })
}

fn specificity(name: &str, kind: MediaType) -> Option<u8> {
    if name.eq_ignore_ascii_case(kind.as_str()) {
        Some(2)
    } else if name.eq_ignore_ascii_case("application/*") {
        Some(1)
    } else {
        (name == "*/*" || name == "*").then_some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn headers(name: HeaderName, lines: &[&[u8]]) -> HeaderMap {
        let values = lines.iter().map(|line| HeaderValue::from_bytes(line).unwrap());
        values.map(|value| (name.clone(), value)).collect()
    }

    #[test]
    fn the_heaviest_media_type_wins_and_the_most_specific_entry_gives_the_weight() {
        use MediaType::{Cincinnati, Json};
        for (line, expected) in [
            ("application/json", Some(Json)),
            ("application/vnd.redhat.cincinnati.v1+json", Some(Cincinnati)),
            ("*/*", Some(Json)),
            ("", Some(Json)),
            ("application/*", Some(Json)),
            ("text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8", Some(Json)),
            ("application/json;q=0.5, application/vnd.redhat.cincinnati.v1+json", Some(Cincinnati)),
            ("application/json, application/vnd.redhat.cincinnati.v1+json;q=0.9", Some(Json)),
            ("application/json, application/vnd.redhat.cincinnati.v1+json", Some(Json)),
            ("application/json;q=0, */*", Some(Cincinnati)),
            ("*/*, application/vnd.redhat.cincinnati.v1+json", Some(Cincinnati)),
            ("APPLICATION/JSON ; charset=utf-8 ; q=1.0", Some(Json)),
            ("text/html", None),
            ("application/json;q=0", None),
            ("*/*;q=0", None),
            ("application/json;q=2, text/html", None),
        ] {
            assert_eq!(media_type(&headers(ACCEPT, &[line.as_bytes()])), expected, "{line}");
        }
        assert_eq!(media_type(&HeaderMap::new()), Some(Json));
        assert_eq!(media_type(&headers(ACCEPT, &[b"text/html", b"application/json"])), Some(Json));
    }

    #[test]
    fn a_header_that_is_not_ascii_counts_as_absent() {
        assert_eq!(media_type(&headers(ACCEPT, &["text/hütte".as_bytes()])), Some(MediaType::Json));
        assert_eq!(media_type(&headers(ACCEPT, &[b"text/html", b"\xff\xfe"])), Some(MediaType::Json));
        let encodings = encodings(&headers(ACCEPT_ENCODING, &[b"gz\xefp"]));
        assert_eq!(encodings, Encodings { gzip: false, identity: true });
    }

    #[test]
    fn encodings_are_weighed() {
        for (line, gzip, identity) in [
            ("gzip", true, true),
            ("gzip, deflate, br", true, true),
            ("br", false, true),
            ("gzip;q=0", false, true),
            ("*", true, true),
            ("*;q=0", false, false),
            ("gzip;q=0.5, identity;q=0.8", false, true),
            ("gzip, identity;q=0", true, false),
            ("identity;q=0.5, *;q=0", false, true),
            ("gzip;q=1, *;q=0", true, false),
        ] {
            let found = encodings(&headers(ACCEPT_ENCODING, &[line.as_bytes()]));
            assert_eq!(found, Encodings { gzip, identity }, "{line}");
        }
    }
}
