//! When updates may begin: `02:00-05:00`, `sat,sun 22:00-04:00`, in the machine's own time.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Weekday {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

use Weekday::{Fri, Mon, Sat, Sun, Thu, Tue, Wed};

const WEEK: [Weekday; 7] = [Mon, Tue, Wed, Thu, Fri, Sat, Sun];
const DAY: u16 = 24 * 60;

impl Weekday {
    fn name(self) -> &'static str {
        ["mon", "tue", "wed", "thu", "fri", "sat", "sun"][self as usize]
    }

    fn before(self) -> Self {
        WEEK[(self as usize + 6) % 7]
    }
}

/// A local time, to the minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub day: Weekday,
    /// Since midnight.
    pub minute: u16,
}

/// From the first minute until before the last one; past midnight if it ends earlier than it begins. The days are those on
/// which it begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Window {
    days: Vec<Weekday>,
    from: u16,
    to: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a window for updates: write it like \"02:00-05:00\" or \"sat,sun 22:00-04:00\"")]
pub struct BadWindow(String);

impl Window {
    pub fn is_open(&self, now: Moment) -> bool {
        let begins_on = |day| self.days.is_empty() || self.days.contains(&day);
        if self.from < self.to {
            return begins_on(now.day) && (self.from..self.to).contains(&now.minute);
        }
        (begins_on(now.day) && now.minute >= self.from)
            || (begins_on(now.day.before()) && now.minute < self.to)
    }
}

impl FromStr for Window {
    type Err = BadWindow;

    fn from_str(text: &str) -> Result<Self, BadWindow> {
        parse(text).ok_or_else(|| BadWindow(text.chars().take(80).collect()))
    }
}

fn parse(text: &str) -> Option<Window> {
    let (days, hours) = text.trim().rsplit_once(' ').map_or(("", text.trim()), |(days, hours)| (days, hours));
    let day = |name: &str| WEEK.into_iter().find(|day| day.name().eq_ignore_ascii_case(name.trim()));
    let days = match days.trim() {
        "" => vec![],
        names => names.split(',').map(day).collect::<Option<Vec<_>>>()?,
    };
    let (from, to) = hours.split_once('-')?;
    let (from, to) = (minute(from)?, minute(to)?);
    // A window without length is a mistake; one of a whole day is 00:00-24:00.
    (from != to && from < DAY).then_some(Window { days, from, to })
}

fn minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let number = |text: &str| (text.len() == 2).then(|| text.parse::<u16>().ok()).flatten();
    let (hour, minute) = (number(hour)?, number(minute)?);
    (minute < 60 && hour * 60 + minute <= DAY).then_some(hour * 60 + minute)
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days: Vec<_> = self.days.iter().map(|day| day.name()).collect();
        if !days.is_empty() {
            write!(f, "{} ", days.join(","))?;
        }
        let (from, to) = (self.from, self.to);
        write!(f, "{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, to / 60, to % 60)
    }
}

impl TryFrom<String> for Window {
    type Error = BadWindow;
    fn try_from(text: String) -> Result<Self, BadWindow> {
        text.parse()
    }
}

impl From<Window> for String {
    fn from(window: Window) -> String {
        window.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(window: &str, day: Weekday, time: &str) -> bool {
        let window: Window = window.parse().unwrap();
        window.is_open(Moment { day, minute: minute(time).unwrap() })
    }

    #[test]
    fn a_window_is_open_from_its_first_minute_until_before_its_last() {
        assert!(open("02:00-05:00", Mon, "02:00") && open("02:00-05:00", Sun, "04:59"));
        assert!(!open("02:00-05:00", Mon, "05:00") && !open("02:00-05:00", Mon, "01:59"));
        assert!(open("00:00-24:00", Wed, "23:59"));
    }

    #[test]
    fn a_window_past_midnight_belongs_to_the_day_on_which_it_begins() {
        let window = "sat 22:00-04:00";
        assert!(open(window, Sat, "23:00") && open(window, Sun, "03:59"));
        assert!(!open(window, Sat, "03:00") && !open(window, Sun, "22:30") && !open(window, Mon, "01:00"));
    }

    #[test]
    fn a_window_is_written_as_it_is_read() {
        for text in ["02:00-05:00", "sat,sun 22:00-04:00", "fri 00:00-24:00"] {
            assert_eq!(text.parse::<Window>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "2-5",
            "02:00",
            "02:00-02:00",
            "25:00-26:00",
            "24:00-02:00",
            "someday 01:00-02:00",
            "02:60-03:00",
        ] {
            assert!(bad.parse::<Window>().is_err(), "{bad:?}");
        }
    }
}
