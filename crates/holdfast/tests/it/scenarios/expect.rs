//! What a story expects of the files, as the document describes them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use testkit::device::{Contents, Device, contents, visible_names};

type Checked = Result<(), String>;

pub fn check(device: &Device, what: &str, rest: &str, said: &str) -> Checked {
    let rest = rest.split_whitespace().collect::<Vec<_>>().join(" ");
    match what {
        "version" => same(&rest, &version(&device.data())?),
        "data" => same(&sorted(&rest), &spelled(contents(&device.data()).as_ref())),
        "health" => same(&rest, &health(device)?),
        "backups" => same(&sorted(&rest), &listed(device)),
        "copy" => copy(device, &rest),
        "said" => match said.contains(&rest) {
            true => Ok(()),
            false => Err(format!("nobody said {rest:?}, only:\n{said}")),
        },
        _ => Err(format!("what is {what:?}?")),
    }
}

fn same(expected: &str, found: &str) -> Checked {
    match expected == found {
        true => Ok(()),
        false => Err(format!("\n  expected {expected}\n  found    {found}")),
    }
}

fn sorted(words: &str) -> String {
    words.split(' ').collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ")
}

fn spelled(contents: Option<&Contents>) -> String {
    match contents {
        Some(contents) if !contents.is_empty() => {
            let words: BTreeSet<_> = contents.iter().map(|(name, text)| format!("{name}={text}")).collect();
            words.into_iter().collect::<Vec<_>>().join(" ")
        }
        _ => "none".to_owned(),
    }
}

pub fn read_json(path: &Path) -> Result<Option<Value>, String> {
    match fs::read(path) {
        Err(_) => Ok(None),
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| format!("{} is not JSON: {error}", path.display())),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    value[key].as_str().ok_or_else(|| format!("{key} is missing in {value}"))
}

/// `4.14.0 rhel-d1`, with the state behind it where that is not "ok".
fn version(data: &Path) -> Result<String, String> {
    let Some(record) = read_json(&data.join("version.json"))? else { return Ok("none".to_owned()) };
    let plain = format!("{} {}", text(&record, "microshift")?, text(&record, "deployment")?);
    Ok(match record["state"].as_str() {
        None | Some("ok") => plain,
        Some(state) => format!("{plain} {state}"),
    })
}

fn health(device: &Device) -> Result<String, String> {
    let Some(file) = read_json(&device.backups().join("health.json"))? else { return Ok("none".to_owned()) };
    let entries = file["deployments"].as_array().ok_or("health.json has no deployments")?;
    let entries = entries.iter().map(|entry| {
        let last_boot = text(entry, "last_boot")?;
        let shape: String = last_boot.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        if shape != "0000-00-00 00:00:00" {
            return Err(format!("last_boot is {last_boot:?}"));
        }
        Ok(format!("{} {} {}", text(entry, "id")?, text(entry, "microshift")?, text(entry, "system")?))
    });
    Ok(entries.collect::<Result<Vec<_>, String>>()?.join("; "))
}

/// The log is always there, and the document leaves it out of its lists.
fn listed(device: &Device) -> String {
    let mut names = visible_names(&device.backups());
    names.remove("actions.log");
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.into_iter().collect::<Vec<_>>().join(" "),
    }
}

fn copy(device: &Device, rest: &str) -> Checked {
    let (name, rest) = rest.split_once(' ').ok_or("a name and what is in it")?;
    let (files, of) = match rest.split_once(" of ") {
        Some((files, of)) => (files, Some(of)),
        None => (rest, None),
    };
    let tree = device.backups().join(name);
    let found = contents(&tree).ok_or_else(|| format!("there is no copy {name}"))?;
    same(&sorted(files), &spelled(Some(&found)))?;
    of.map_or(Ok(()), |of| same(of, &version(&tree)?))
}
