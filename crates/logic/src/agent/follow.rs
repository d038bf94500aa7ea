//! Whether a release may follow the one that runs, by what it says of itself. A graph may promise more; the release's own word
//! is the one that its makers tested.

use semver::{BuildMetadata, Version};

use super::machine::By;
use crate::graph::release::{ReleaseMetadata, ReleaseName};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CannotFollow {
    #[error("it says that it is release {found}, and {wanted} was asked for")]
    OtherVersion { found: Version, wanted: Version },
    #[error("it is release {found}, which is not newer than the running {running}")]
    NotNewer { found: Version, running: Version },
    #[error("release {found} does not list the running {running} under `previous`: {listed}")]
    NotPrevious { found: Version, running: Version, listed: String },
}

/// Of those that it lists, how many are told.
const TOLD: usize = 8;

/// One that was carried in must be newer, too: there is no graph that would know of a way back. The part of a version behind
/// `+` names an architecture, and decides nothing here: which image fits the machine was decided when it was fetched.
pub fn may_follow(
    said: &ReleaseMetadata,
    wanted: &Version,
    by: By,
    running: &Version,
) -> Result<(), CannotFollow> {
    let (found, wanted, running) = (plain(&said.version), plain(wanted), plain(running));
    if found != wanted {
        return Err(CannotFollow::OtherVersion { found, wanted });
    }
    if by == By::Offline && found <= running {
        return Err(CannotFollow::NotNewer { found, running });
    }
    let is_running = |text: &String| ReleaseName::parse(text).is_ok_and(|name| name.version == running);
    if said.previous.iter().any(is_running) {
        return Ok(());
    }
    let short = |text: &String| text.chars().take(40).collect::<String>();
    let listed: Vec<String> = said.previous.iter().take(TOLD).map(short).collect();
    let listed = match said.previous.len() {
        0 => "it lists none".to_owned(),
        count if count > TOLD => format!("it lists {} and {} more", listed.join(", "), count - TOLD),
        _ => format!("it lists {}", listed.join(", ")),
    };
    Err(CannotFollow::NotPrevious { found, running, listed })
}

fn plain(version: &Version) -> Version {
    Version { build: BuildMetadata::EMPTY, ..version.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(said: &str, previous: &[&str], wanted: &str, by: By, running: &str) -> Result<(), String> {
        let document = serde_json::json!({
            "kind": "cincinnati-metadata-v0", "version": said, "previous": previous,
        });
        let said: ReleaseMetadata = serde_json::from_value(document).unwrap();
        let version = |text: &str| Version::parse(text).unwrap();
        may_follow(&said, &version(wanted), by, &version(running)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_release_follows_what_it_lists_if_it_is_the_one_that_was_asked_for() {
        assert_eq!(judged("2.0.0", &["1.0.0"], "2.0.0", By::Automatic, "1.0.0"), Ok(()));
        assert_eq!(judged("2.0.0+amd64", &["1.5.0", "1.0.0+amd64"], "2.0.0", By::Person, "1.0.0"), Ok(()));
        assert_eq!(judged("2.0.0", &["1.0.0"], "2.0.0", By::Offline, "1.0.0+amd64"), Ok(()));
        assert_eq!(judged("1.0.0", &["1.0.0-rc.1"], "1.0.0", By::Offline, "1.0.0-rc.1"), Ok(()));
    }

    #[test]
    fn what_it_says_otherwise_is_told() {
        for (said, previous, wanted, by, running, why) in [
            (
                "2.1.0",
                &["1.0.0"][..],
                "2.0.0",
                By::Automatic,
                "1.0.0",
                "release 2.1.0, and 2.0.0 was asked for",
            ),
            ("2.0.0", &[], "2.0.0", By::Automatic, "1.0.0", "under `previous`: it lists none"),
            ("2.0.0", &["1.1.0", "x"], "2.0.0", By::Person, "1.0.0", "it lists 1.1.0, x"),
            ("1.0.0", &["1.0.0"], "1.0.0", By::Offline, "1.0.0", "not newer than the running 1.0.0"),
            ("1.0.0", &["2.0.0"], "1.0.0", By::Offline, "2.0.0", "not newer"),
            ("2.0.0-rc.1", &["2.0.0"], "2.0.0-rc.1", By::Offline, "2.0.0", "not newer"),
        ] {
            let text = judged(said, previous, wanted, by, running).unwrap_err();
            assert!(text.contains(why), "{text}");
        }
        let many: Vec<String> = (0..100).map(|n| format!("0.{n}.0")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let text = judged("2.0.0", &many, "2.0.0", By::Person, "1.0.0").unwrap_err();
        assert!(text.ends_with("0.7.0 and 92 more"), "{text}");
    }
}
