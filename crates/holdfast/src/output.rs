//! Data on stdout, in the form that was asked for. Tables have no borders; documents carry `apiVersion` and `kind`.

use std::io::Write;

use clap::ValueEnum;
use logic::exit::Exit;
use serde::Serialize;

use crate::failure::{Failure, Result};

pub const API_VERSION: &str = "holdfast/v1";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    #[default]
    Table,
    Wide,
    Json,
    Yaml,
    Name,
    /// A picture for Graphviz, where there is one
    Dot,
    /// A picture for Mermaid, where there is one
    Mermaid,
    /// A picture, where there is one
    Svg,
}

impl Format {
    pub fn is_picture(self) -> bool {
        matches!(self, Self::Dot | Self::Mermaid | Self::Svg)
    }
}

#[derive(Serialize)]
struct Document<'a, T> {
    #[serde(rename = "apiVersion")]
    api_version: &'a str,
    kind: &'a str,
    #[serde(flatten)]
    body: &'a T,
}

/// Something that can be shown in every form.
pub trait Show: Serialize {
    const KIND: &'static str;
    fn table(&self, wide: bool) -> String;
    /// One name a line.
    fn names(&self) -> Vec<String>;
}

pub fn show<T: Show>(what: &T, format: Format) -> Result<()> {
    let document = Document { api_version: API_VERSION, kind: T::KIND, body: what };
    let text = match format {
        Format::Table => what.table(false),
        Format::Wide => what.table(true),
        Format::Json => serde_json::to_string_pretty(&document).map_err(|error| unprintable(&error))? + "\n",
        // By way of JSON values: flattened and tagged shapes come out the same in both.
        Format::Yaml => {
            let value = serde_json::to_value(&document).map_err(|error| unprintable(&error))?;
            serde_saphyr::to_string(&value).map_err(|error| unprintable(&error))?
        }
        Format::Dot | Format::Mermaid | Format::Svg => return Err(no_picture()),
        Format::Name => what.names().iter().map(|name| format!("{name}\n")).collect(),
    };
    print(&text);
    Ok(())
}

/// Only `graph show` has pictures.
pub fn no_picture() -> Failure {
    Failure::usage("there is no picture of this", "use -o table, wide, json, yaml or name")
}

fn unprintable(error: &dyn std::error::Error) -> Failure {
    Failure::new(Exit::Unexpected, error, "try another output format with -o")
}

/// A reader that has gone away (`| head`) is no reason to fail. A result that is lost in another way is: whoever reads
/// the rest of it must not take it for the whole, so the command ends here.
pub fn print(text: &str) {
    let mut stdout = std::io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!(
                "error: the result can't be written\ncause: {error}\nhint: see whether the disk is full"
            );
            std::process::exit(Exit::Unexpected.code().into());
        }
        _ => {}
    }
}

/// Columns as wide as their widest cell; the last one runs free.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let header: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
    let all: Vec<&Vec<String>> = std::iter::once(&header).chain(rows).collect();
    let width =
        |column: usize| all.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..header.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in all {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("   ").trim_end());
        text.push('\n');
    }
    text
}

/// `key   value` lines.
pub fn fields(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    rows.iter().map(|(key, value)| format!("{key:<width$}   {value}\n")).collect()
}

pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} B"),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_lines_up_and_trails_no_blanks() {
        let rows = vec![vec!["a".to_owned(), "long one".to_owned()], vec!["bcd".to_owned(), String::new()]];
        assert_eq!(table(&["X", "YY"], &rows), "X     YY\na     long one\nbcd\n");
    }

    #[test]
    fn sizes_are_read_at_a_glance() {
        assert_eq!(bytes(17), "17 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
    }
}
