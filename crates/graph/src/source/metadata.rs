//! The file that makes an image a release.

use logic::graph::ReleaseName;
use logic::graph::release::{BadName, ReleaseMetadata};

/// Where it is in an image, unless the configuration says otherwise.
pub const DEFAULT_PATH: &str = "release-manifests/release-metadata";

#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    #[error("the release metadata cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Name(#[from] BadName),
}

/// The name that the file claims (with an architecture only if the version has one), and all that it says.
pub fn parse_release_metadata(bytes: &[u8]) -> Result<(ReleaseName, ReleaseMetadata), MetadataError> {
    let metadata: ReleaseMetadata = serde_json::from_slice(bytes)?;
    Ok((ReleaseName::parse(&metadata.version.to_string())?, metadata))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_as_publishers_write_it() {
        let text = br#"{"kind":"cincinnati-metadata-v0","version":"4.16.15","previous":["4.15.18"],"next":[],
            "metadata":{"url":"https://example.org","description":null},"later":1}"#;
        let (name, metadata) = parse_release_metadata(text).unwrap();
        assert_eq!((name.to_string().as_str(), name.arch), ("4.16.15", None));
        assert_eq!(metadata.previous, ["4.15.18"]);
        assert_eq!(metadata.metadata.len(), 1);
    }

    #[test]
    fn what_is_not_metadata_is_refused() {
        for text in [
            "",
            "{}",
            r#"{"kind":"other","version":"1.0.0"}"#,
            r#"{"kind":"cincinnati-metadata-v0","version":"1.0"}"#,
            r#"{"kind":"cincinnati-metadata-v0","version":"1.0.0+a.b"}"#,
            r#"{"kind":"cincinnati-metadata-v0","version":"1.0.0","previous":"x"}"#,
        ] {
            assert!(parse_release_metadata(text.as_bytes()).is_err(), "{text}");
        }
    }
}
