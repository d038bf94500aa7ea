//! The tables of docs/benchmarks.md: one per part, between its two markers.

use std::fs;
use std::time::Duration;

/// One line of a table.
pub struct Row {
    pub what: String,
    pub measured: String,
    pub bar: String,
    pub detail: String,
    pub holds: bool,
}

impl Row {
    /// Medians against each other; less is better.
    #[allow(dead_code)] // Not every benchmark that has a table has one of these.
    pub fn ratio(
        what: &str,
        ours: &mut [Duration],
        theirs: &mut [Duration],
        bar: f64,
        names: (&str, &str),
    ) -> Self {
        let (ours, theirs) = (median(ours), median(theirs));
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        Self {
            what: what.to_owned(),
            measured: format!("{ratio:.2}"),
            bar: format!("≤ {bar}"),
            detail: format!(
                "{} {:.3} s, {} {:.3} s",
                names.0,
                ours.as_secs_f64(),
                names.1,
                theirs.as_secs_f64()
            ),
            holds: ratio <= bar,
        }
        .said()
    }

    /// For whoever watches.
    pub fn said(self) -> Self {
        eprintln!("  {}: {} (bar {})", self.what, self.measured, self.bar);
        self
    }

    pub fn holds(&self) -> bool {
        self.holds
    }

    pub fn table(rows: &[Row]) -> String {
        let mut text = "| | measured | bar | in detail |\n| --- | --- | --- | --- |\n".to_owned();
        for row in rows {
            let missed = if row.holds { "" } else { " **missed**" };
            text.push_str(&format!(
                "| {} | {}{missed} | {} | {} |\n",
                row.what, row.measured, row.bar, row.detail
            ));
        }
        text
    }
}

pub fn median<T: Copy + PartialOrd>(values: &mut [T]) -> T {
    values.sort_by(|one, other| one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal));
    values[values.len() / 2]
}

/// What the command line asks for: rows whose name has one of its words in it, or all of them.
pub struct Wanted(Vec<String>);

impl Wanted {
    /// cargo adds words that begin with dashes.
    pub fn from_arguments() -> Self {
        Self(std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect())
    }

    pub fn has(&self, what: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|word| what.contains(word.as_str()))
    }
}

/// The page has a section per part, between its two markers. Rows that were not measured stay as they are.
pub fn write_section(part: &str, rows: &[Row], wanted: &Wanted) {
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/benchmarks.md");
    let (begin, end) = (format!("<!-- {part}: begin -->\n"), format!("<!-- {part}: end -->\n"));
    let page = fs::read_to_string(PAGE).expect("docs/benchmarks.md");
    let (before, rest) = page.split_once(&begin).expect("the marker before the table");
    let (old, after) = rest.split_once(&end).expect("the marker after the table");
    let measured = Row::table(rows);
    let table = if wanted.0.is_empty() { measured } else { merged(old, &measured) };
    fs::write(PAGE, format!("{before}{begin}\n{table}\n{end}{after}"))
        .expect("docs/benchmarks.md can be written");
}

/// The old table with the measured rows in their places.
fn merged(old: &str, measured: &str) -> String {
    let name = |line: &str| line.split('|').nth(1).map(|name| name.trim().to_owned());
    let line = |line: &str| {
        let new = measured.lines().skip(2).find(|new| name(new) == name(line));
        format!("{}\n", new.unwrap_or(line))
    };
    old.trim().lines().map(line).collect()
}
