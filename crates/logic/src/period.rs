//! A length of time as people write it in a configuration: `500ms`, `30s`, `5m`, `1h30m`, `2d`.
//!
//! Own type, because a bare number would leave the unit to guessing and jiff's serde support would be the only
//! use of that feature.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Period(Duration);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a length of time: write a number and a unit (ms, s, m, h, d), like \"30s\" or \"1m30s\""
)]
pub struct BadPeriod {
    pub text: String,
}

/// Largest first, as they must follow each other.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
/// A year: nothing that a device waits for takes longer, and sums of instants can't overflow.
const MAX_MILLIS: u64 = 365 * 86_400_000;

impl Period {
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    pub fn get(self) -> Duration {
        self.0
    }

    pub fn is_zero(self) -> bool {
        self.0.is_zero()
    }
}

/// To the millisecond, which is as fine as it is written.
impl From<Duration> for Period {
    fn from(length: Duration) -> Self {
        let millis = u64::try_from(length.as_millis()).unwrap_or(MAX_MILLIS);
        Self(Duration::from_millis(millis.min(MAX_MILLIS)))
    }
}

impl FromStr for Period {
    type Err = BadPeriod;

    fn from_str(text: &str) -> Result<Self, BadPeriod> {
        millis(text)
            .map(|millis| Self(Duration::from_millis(millis)))
            .ok_or_else(|| BadPeriod { text: text.to_owned() })
    }
}

fn millis(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0_u64;
    let mut units = UNITS.iter();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        let letters = rest[digits..].find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len() - digits);
        let name = &rest[digits..digits + letters];
        // Advancing one iterator keeps the units in falling order, each at most once.
        let (_, factor) = units.find(|(unit, _)| *unit == name)?;
        total = total.checked_add(number.checked_mul(*factor)?)?;
        rest = &rest[digits + letters..];
    }
    (total <= MAX_MILLIS).then_some(total)
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.0.as_millis() as u64;
        if left == 0 {
            return f.write_str("0s");
        }
        for (unit, factor) in UNITS {
            if left >= factor {
                write!(f, "{}{unit}", left / factor)?;
                left %= factor;
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for Period {
    type Error = BadPeriod;
    fn try_from(text: String) -> Result<Self, BadPeriod> {
        text.parse()
    }
}

impl From<Period> for String {
    fn from(period: Period) -> Self {
        period.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read_and_written_back() {
        for (text, millis, back) in [
            ("30s", 30_000, "30s"),
            ("300s", 300_000, "5m"),
            ("1m30s", 90_000, "1m30s"),
            ("500ms", 500, "500ms"),
            ("1h", 3_600_000, "1h"),
            ("2d12h", 216_000_000, "2d12h"),
            ("0s", 0, "0s"),
        ] {
            let period: Period = text.parse().unwrap();
            assert_eq!(period.get(), Duration::from_millis(millis), "{text}");
            assert_eq!(period.to_string(), back);
            assert_eq!(period.to_string().parse(), Ok(period));
        }
    }

    #[test]
    fn what_leaves_room_for_doubt_is_refused() {
        for text in
            ["", "30", "s", "30 s", "-1s", "1.5s", "1s1m", "1s1s", "5min", "99999999999999999999s", "400d"]
        {
            assert_eq!(text.parse::<Period>(), Err(BadPeriod { text: text.into() }), "{text}");
        }
    }
}
