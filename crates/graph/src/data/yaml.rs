//! YAML with lines: mappings whose entries are taken one by one, so that unknown keys are told rather than lost.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_saphyr::{MessageFormatter as _, Spanned, UserMessageFormatter};

pub type Text = Spanned<String>;

/// What is wrong with a document, in one line, and where.
#[derive(Debug)]
pub struct Mistake {
    pub line: Option<usize>,
    pub text: String,
}

/// A document that is read entry by entry.
pub trait Document: Default {
    /// Takes the value of a key from `map`; false, and nothing taken, if the key is not known.
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error>;
}

/// A document, and the keys in it that mean nothing.
#[derive(Debug, Default)]
pub struct Read<T> {
    pub document: T,
    pub unknown: Vec<Text>,
}

pub fn read<T: Document>(bytes: &[u8]) -> Result<Read<T>, Mistake> {
    let text = std::str::from_utf8(bytes).map_err(|error| Mistake {
        line: Some(line_at(bytes, error.valid_up_to())),
        text: "not UTF-8".into(),
    })?;
    let options = serde_saphyr::options! { with_snippet: false };
    let read: Result<Option<Read<T>>, _> = serde_saphyr::from_str_with_options(text, options);
    match read {
        Ok(read) => Ok(read.unwrap_or_default()),
        Err(error) => {
            let error = error.without_snippet();
            let line =
                error.location().and_then(|at| usize::try_from(at.line()).ok()).filter(|line| *line > 0);
            let said = UserMessageFormatter.format_message(error);
            // On one line, whatever a file puts into it.
            let text = said.chars().take(300).map(|c| if c.is_control() { ' ' } else { c }).collect();
            Err(Mistake { line, text })
        }
    }
}

/// Lines are counted from 1.
pub fn line_at(bytes: &[u8], position: usize) -> usize {
    1 + bytes.iter().take(position).filter(|byte| **byte == b'\n').count()
}

pub fn line<T>(value: &Spanned<T>) -> Option<usize> {
    usize::try_from(value.referenced.line()).ok().filter(|line| *line > 0)
}

impl<'de, T: Document> Deserialize<'de> for Read<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Document> Visitor<'de> for Entries<T> {
            type Value = Read<T>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("keys with values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Read<T>, A::Error> {
                let mut read = Read { document: T::default(), unknown: vec![] };
                while let Some(key) = map.next_key::<Text>()? {
                    if !read.document.take(&key.value, &mut map)? {
                        map.next_value::<IgnoredAny>()?;
                        read.unknown.push(key);
                    }
                }
                Ok(read)
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}
