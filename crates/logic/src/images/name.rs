//! What things are called. Names become parts of paths and addresses, so they are checked once, here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {what}: {rule}")]
pub struct BadName {
    text: String,
    what: &'static str,
    rule: &'static str,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $check:path) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            pub fn parse(text: &str) -> Result<Self, BadName> {
                if $check(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(BadName { text: text.chars().take(100).collect(), what: $what, rule: $rule })
                }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = BadName;
            fn from_str(text: &str) -> Result<Self, BadName> {
                Self::parse(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadName;
            fn try_from(text: String) -> Result<Self, BadName> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }
    };
}

name!(
    /// What people call an image or a volume.
    ImageName,
    "a name",
    "use up to 63 lower-case letters, digits, dots and hyphens, with a letter or a digit at both ends",
    is_name
);
name!(
    /// Tells an image from another one that had its name before. Stored before anything else is done with it.
    ImageId,
    "an image's uuid",
    "expected 36 lower-case hexadecimal digits and hyphens, like 1b4e28ba-2fa1-41d2-883f-0016d3cca427",
    is_uuid
);
name!(
    /// Stands on the disk itself, and goes with it to another node.
    DiskId,
    "a disk's uuid",
    "expected 36 lower-case hexadecimal digits and hyphens, like 1b4e28ba-2fa1-41d2-883f-0016d3cca427",
    is_uuid
);
name!(
    /// A machine. Disks of one node can copy from each other without the network.
    NodeName,
    "a node's name",
    "use up to 253 lower-case letters, digits, dots and hyphens, with a letter or a digit at both ends",
    is_node
);

fn is_name(text: &str) -> bool {
    is_dns(text, 63)
}

fn is_node(text: &str) -> bool {
    is_dns(text, 253)
}

fn is_dns(text: &str, longest: usize) -> bool {
    let alphanumeric = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9');
    text.len() <= longest
        && text.bytes().all(|byte| alphanumeric(&byte) || matches!(byte, b'.' | b'-'))
        && text.as_bytes().first().is_some_and(alphanumeric)
        && text.as_bytes().last().is_some_and(alphanumeric)
        && !text.contains("..")
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_not_leave_its_directory() {
        for bad in ["", ".", "..", "a/b", "../a", "-a", "a-", "A", "a..b", "a b", "é", &"a".repeat(64)] {
            assert!(ImageName::parse(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "debian-12.5", "0", &"a".repeat(63)] {
            assert!(ImageName::parse(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn a_uuid_has_one_spelling() {
        assert!(DiskId::parse("1b4e28ba-2fa1-41d2-883f-0016d3cca427").is_ok());
        for bad in ["1B4E28BA-2fa1-41d2-883f-0016d3cca427", "1b4e28ba2fa141d2883f0016d3cca427", ""] {
            assert!(DiskId::parse(bad).is_err(), "{bad:?}");
        }
    }
}
