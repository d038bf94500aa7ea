//! The configuration: `/usr/lib/holdfast/*.toml`, over it `/etc/holdfast/*.toml`, over both the environment
//! (`HOLDFAST_GUARD_MAX_SKEW`, two underscores for a table: `HOLDFAST_GUARD_RETENTION__KEEP`), and over all the
//! flags. A key that nobody knows is an error that names the file and the line.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::failure::{Failure, Result};

const DIRECTORIES: [&str; 2] = ["/usr/lib/holdfast", "/etc/holdfast"];
/// No configuration is larger.
const LIMIT: u64 = 1 << 20;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    pub agent: ::agent::settings::Settings,
    pub graph: ::graph::settings::Settings,
    pub guard: ::guard::settings::Settings,
    pub images: ::images::settings::Settings,
    pub storage: ::storage::settings::Settings,
    pub upgrade: ::upgrade::settings::Settings,
}

/// The parts that the environment can configure: `HOLDFAST_PART_KEY`.
const PARTS: [&str; 6] = ["agent", "graph", "guard", "images", "storage", "upgrade"];

/// Where a part of the configuration came from.
pub struct Loaded {
    pub config: Config,
    pub files: Vec<PathBuf>,
    pub variables: Vec<String>,
}

pub fn load(only: Option<&Path>) -> Result<Loaded> {
    let files = match only {
        Some(file) => vec![file.to_owned()],
        None => DIRECTORIES.iter().flat_map(|dir| toml_files(Path::new(dir))).collect(),
    };
    let mut merged = Table::new();
    for file in &files {
        let text = read(file)?;
        // Each file is checked alone first: only then does an error have a line.
        parse(&text, &file.display().to_string())?;
        let table: Table =
            toml::from_str(&text).map_err(|error| broken(&file.display().to_string(), &text, &error))?;
        merge(&mut merged, table);
    }
    let mut variables = Vec::new();
    for (name, value) in std::env::vars_os() {
        if let Some((name, table)) = from_environment(&name, &value)? {
            let text = toml::to_string(&table).unwrap_or_default();
            parse(&text, &format!("environment variable {name}"))?;
            merge(&mut merged, table);
            variables.push(name);
        }
    }
    let text = toml::to_string(&merged).unwrap_or_default();
    let config = parse(&text, "the configuration as a whole")?;
    variables.sort();
    Ok(Loaded { config, files, variables })
}

fn toml_files(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return vec![] };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files
}

fn read(file: &Path) -> Result<String> {
    let unreadable = |why: String| {
        Failure::usage(format!("can't read {}: {why}", file.display()), "check the path given with --config")
    };
    let bytes =
        disk::durable::read_limited(file, LIMIT).map_err(|error| unreadable(::guard::error_chain(&error)))?;
    let bytes = bytes.ok_or_else(|| unreadable("it does not exist".to_owned()))?;
    String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8".to_owned()))
}

fn parse(text: &str, origin: &str) -> Result<Config> {
    toml::from_str(text).map_err(|error| broken(origin, text, &error))
}

fn broken(origin: &str, text: &str, error: &toml::de::Error) -> Failure {
    let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let place = line.map_or_else(String::new, |line| format!(":{line}"));
    Failure::usage(
        format!("{origin}{place}: {}", error.message()),
        "`holdfast config show` prints every key with its value",
    )
}

fn merge(into: &mut Table, from: Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => merge(old, new),
            (_, value) => drop(into.insert(key, value)),
        }
    }
}

/// `HOLDFAST_GUARD_COPY_THREADS=1` is `guard.copy-threads = 1`. A variable of no part is somebody else's.
fn from_environment(name: &OsString, value: &OsString) -> Result<Option<(String, Table)>> {
    let Some(name) = name.to_str() else { return Ok(None) };
    let lower = name.to_lowercase();
    let key = |part: &str| lower.strip_prefix("holdfast_")?.strip_prefix(part)?.strip_prefix('_');
    let Some((part, key)) = PARTS.iter().find_map(|part| Some((*part, key(part)?))) else { return Ok(None) };
    let value = value.to_str().ok_or_else(|| {
        Failure::usage(format!("{name} is not UTF-8"), "set it to plain text, or use the flag")
    })?;
    let keys = key.split("__").map(|part| part.replace('_', "-"));
    let table = std::iter::once(part.to_owned())
        .chain(keys)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .fold(scalar(value), |inner, part| Value::Table([(part, inner)].into_iter().collect()));
    match table {
        Value::Table(table) => Ok(Some((name.to_owned(), table))),
        _ => Ok(None),
    }
}

/// Whole numbers, truth values and lists are what they look like; all else is text (a version is not a number).
fn scalar(text: &str) -> Value {
    if let Ok(number) = text.parse::<i64>() {
        return Value::Integer(number);
    }
    if let Ok(truth) = text.parse::<bool>() {
        return Value::Boolean(truth);
    }
    if text.starts_with('[')
        && let Ok(mut table) = toml::from_str::<Table>(&format!("list = {text}"))
        && let Some(list) = table.remove("list")
    {
        return list;
    }
    Value::String(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_is_an_error_with_file_and_line() {
        let failure = parse("[guard]\nmax-skew = 2\nmaximum = 3\n", "x.toml").unwrap_err();
        assert!(failure.error.starts_with("x.toml:3: unknown field `maximum`"), "{}", failure.error);
    }

    #[test]
    fn a_later_file_changes_only_what_it_names() {
        let mut merged: Table =
            toml::from_str("[guard]\nmax-skew = 2\n[guard.retention]\naside-max = 9\n").unwrap();
        merge(&mut merged, toml::from_str("[guard.retention]\nkeep = \"all\"\n").unwrap());
        let config = parse(&toml::to_string(&merged).unwrap(), "merged").unwrap();
        assert_eq!((config.guard.max_skew, config.guard.retention.aside_max), (2, 9));
    }

    #[test]
    fn the_environment_reaches_every_key() {
        for (name, value, expected) in [
            ("HOLDFAST_GUARD_COPY_THREADS", "1", "[guard]\ncopy-threads = 1\n"),
            ("HOLDFAST_GUARD_RETENTION__KEEP", "all", "[guard.retention]\nkeep = \"all\"\n"),
            ("HOLDFAST_GUARD_WORKLOAD_VERSION", "4.14", "[guard]\nworkload-version = \"4.14\"\n"),
            ("HOLDFAST_GRAPH_SOURCES", "[\"oci:/x\"]", "[graph]\nsources = [\"oci:/x\"]\n"),
            ("HOLDFAST_GUARD_BLOCKED_VERSIONS", "[\"4.13\"]", "[guard]\nblocked-versions = [\"4.13\"]\n"),
        ] {
            let (_, table) = from_environment(&name.into(), &value.into()).unwrap().unwrap();
            assert_eq!(toml::to_string(&table).unwrap(), expected);
            parse(expected, name).unwrap();
        }
    }
}
