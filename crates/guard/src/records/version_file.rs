//! `<data>/version.json`: what the data is, and whose.
//!
//! The document's two fields, with the owner's boot and the state of a migration added. Its older way to say that a
//! migration is under way, in the version field itself, is understood on reading.

use logic::guard::{BootId, DataRecord, DataState, Owner, Seq};
use logic::host::DeploymentId;
use logic::version::Version;
use serde::{Deserialize, Serialize};

/// No honest record is larger.
pub const LIMIT: u64 = 64 * 1024;

#[derive(Debug, Serialize, Deserialize)]
struct Shape {
    microshift: String,
    deployment: DeploymentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot: Option<BootId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seq: Option<Seq>,
    #[serde(default)]
    state: State,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    migration: Option<Migration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    #[default]
    Ok,
    Migrating,
    Failed,
}

#[derive(Debug, Serialize, Deserialize)]
struct Migration {
    from: Version,
    to: Version,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base: Option<Seq>,
}

pub fn parse(bytes: &[u8]) -> Result<DataRecord, String> {
    let shape: Shape = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let owner = Owner { deployment: shape.deployment, seq: shape.seq };
    if let Some((failed, from, to)) = spelled_out(&shape.microshift) {
        let (from, to) = (parse_version(from)?, parse_version(to)?);
        let base = shape.migration.and_then(|migration| migration.base);
        let state = DataState::Tainted { failed, from: from.clone(), to, base };
        return Ok(DataRecord { version: from, owner, state });
    }
    let version = parse_version(&shape.microshift)?;
    let state = match (shape.state, shape.migration) {
        (State::Ok, _) => DataState::Ok,
        (state, Some(Migration { from, to, base })) => {
            DataState::Tainted { failed: state == State::Failed, from, to, base }
        }
        (_, None) => return Err("it says that a migration was under way, but not which".to_owned()),
    };
    Ok(DataRecord { version, owner, state })
}

fn parse_version(text: &str) -> Result<Version, String> {
    Version::parse(text).map_err(|error| error.to_string())
}

/// `migrating-from-4.13.0-to-4.14.0`, `failed-migrating-from-…`.
fn spelled_out(text: &str) -> Option<(bool, &str, &str)> {
    let failed = text.starts_with("failed-");
    let rest = text.strip_prefix("failed-").unwrap_or(text).strip_prefix("migrating-from-")?;
    let (from, to) = rest.split_once("-to-")?;
    Some((failed, from, to))
}

pub fn render(record: &DataRecord, boot: Option<&BootId>) -> Vec<u8> {
    let (state, migration) = match &record.state {
        DataState::Ok => (State::Ok, None),
        DataState::Tainted { failed, from, to, base } => (
            if *failed { State::Failed } else { State::Migrating },
            Some(Migration { from: from.clone(), to: to.clone(), base: *base }),
        ),
    };
    super::health_file::to_json(&Shape {
        microshift: record.version.to_string(),
        deployment: record.owner.deployment.clone(),
        boot: boot.cloned(),
        seq: record.owner.seq,
        state,
        migration,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    #[test]
    fn the_documents_two_fields_are_enough() {
        let record = parse(br#"{"microshift": "4.14.0", "deployment": "rhel-d1"}"#).unwrap();
        assert_eq!(record.version, version("4.14.0"));
        assert_eq!(record.owner.seq, None);
        assert_eq!(record.state, DataState::Ok);
    }

    #[test]
    fn fields_of_a_later_version_are_ignored() {
        let text = br#"{"microshift": "4.14.0", "deployment": "rhel-d1", "colour": {"deep": ["red"]}}"#;
        assert!(parse(text).is_ok());
    }

    #[test]
    fn a_migration_in_the_version_field_is_understood() {
        let text = br#"{"microshift": "failed-migrating-from-4.13.2-to-4.14.0", "deployment": "rhel-d2"}"#;
        let record = parse(text).unwrap();
        assert_eq!(record.version, version("4.13.2"));
        let DataState::Tainted { failed, to, base, .. } = record.state else { panic!("not tainted") };
        assert!(failed);
        assert_eq!((to, base), (version("4.14.0"), None));
    }

    #[test]
    fn what_is_written_is_read_back() {
        for state in [
            DataState::Ok,
            DataState::Tainted {
                failed: true,
                from: version("4.13.0"),
                to: version("4.14.1"),
                base: Some(7),
            },
        ] {
            let owner = Owner { deployment: DeploymentId::new("rhel-d1.0").unwrap(), seq: Some(9) };
            let record = DataRecord { version: version("4.13.0"), owner, state };
            assert_eq!(parse(&render(&record, Some(&BootId::new("b1")))), Ok(record));
        }
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        for text in [
            "",
            "{}",
            "[]",
            "null",
            "{\"microshift\": 4}",
            "{\"microshift\": \"4.14.0\", \"deployment\": \"../etc\"}",
            "{\"microshift\": \"latest\", \"deployment\": \"d\"}",
            "{\"microshift\": \"4.14.0\", \"deployment\": \"d\", \"state\": \"migrating\"}",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
