//! What makes a directory a layout, beside its blobs.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use trust::digest::Digest;

use super::error::SaveError;
use crate::layout::REF_NAME;
use crate::manifest::{Manifest, OCI_INDEX, OCI_MANIFEST};

/// Of a layout of one's own, with an image or two in it.
const LIMIT: u64 = 1 << 20;

/// Directories and the marker.
pub(super) async fn begin(layout: &Path) -> Result<(), SaveError> {
    let layout = layout.to_owned();
    blocking(move || {
        for name in ["blobs/sha256", "blobs/sha512", super::blob::BEGUN] {
            let path = layout.join(name);
            std::fs::create_dir_all(&path).map_err(|source| SaveError::File { path, source })?;
        }
        let marker = layout.join("oci-layout");
        if marker.exists() {
            return Ok(());
        }
        write(marker, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        write(layout.join("index.json"), &index(vec![]))
    })
    .await
}

pub(super) async fn keep(path: &Path, bytes: Vec<u8>) -> Result<(), SaveError> {
    let path = path.to_owned();
    blocking(move || write(path, &bytes)).await
}

/// Names an image, all of which is there.
pub(super) async fn add(
    layout: &Path,
    manifest: &(Digest, Vec<u8>),
    tag: Option<&str>,
) -> Result<(), SaveError> {
    let ((digest, bytes), layout) = (manifest.clone(), layout.to_owned());
    let tag = tag.map(str::to_owned);
    blocking(move || {
        let is_list = matches!(Manifest::parse(&bytes), Ok(Manifest::List(_)));
        let said: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let plain = if is_list { OCI_INDEX } else { OCI_MANIFEST };
        let kind = said["mediaType"].as_str().unwrap_or(plain);
        let mut entry = json!({ "mediaType": kind, "digest": digest.as_str(), "size": bytes.len() });
        if let Some(tag) = &tag {
            entry["annotations"] = json!({ REF_NAME: tag });
        }
        let path = layout.join("index.json");
        let known = disk::durable::read_limited(&path, LIMIT);
        let known = known.map_err(|source| SaveError::Disk { path: path.clone(), source })?;
        let known: Value = known.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        let mut entries = known["manifests"].as_array().cloned().unwrap_or_default();
        let name = |entry: &Value| entry["annotations"][REF_NAME].as_str().map(str::to_owned);
        entries.retain(|other| match &tag {
            Some(tag) => name(other).as_ref() != Some(tag),
            None => name(other).is_some() || other["digest"] != entry["digest"],
        });
        entries.push(entry);
        write(path, &index(entries))
    })
    .await
}

fn index(entries: Vec<Value>) -> Vec<u8> {
    json!({ "schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": entries }).to_string().into_bytes()
}

fn write(path: PathBuf, bytes: &[u8]) -> Result<(), SaveError> {
    disk::durable::write_durably(&path, bytes).map_err(|source| SaveError::Disk { path, source })
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SaveError> + Send + 'static,
) -> Result<T, SaveError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(SaveError::Interrupted))
}
