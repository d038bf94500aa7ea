//! What an image turns out to be: a release, or not one and why. The same for registries and layouts, for the forms
//! of OCI and of Docker.
//!
//! A [`Verdict`] follows from bytes whose digests fit, and from nothing else: it holds for ever, and may be kept.

use std::collections::{BTreeMap, BTreeSet};

use logic::graph::{Arch, ReleaseName, labels};
use oci::layers::{self, LayerLimits, Said};
use oci::manifest::{Descriptor, ImageConfig, Manifest};
use oci::path::ImagePath;
use oci::repository::Repository;
use oci::{FetchError, chain};
use serde::{Deserialize, Serialize};

use super::metadata::parse_release_metadata;
use crate::settings::Limits;
use trust::digest::Digest;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Release(Found),
    /// Some other image.
    Other {
        reason: String,
    },
    /// Something that cannot be used as it is.
    Refused {
        reason: String,
    },
}

/// A release, without where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    pub name: ReleaseName,
    pub metadata: BTreeMap<String, String>,
    pub previous: Vec<String>,
    pub next: Vec<String>,
}

/// What verdicts depend on beside the bytes.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    pub(super) metadata_path: ImagePath,
    pub(super) metadata_bytes: u64,
    pub(super) layer_bytes: u64,
    pub(super) config_bytes: u64,
}

impl Rules {
    pub(super) fn new(metadata_path: ImagePath, limits: &Limits) -> Self {
        Self {
            metadata_path,
            metadata_bytes: limits.metadata_bytes,
            layer_bytes: limits.layer_bytes,
            config_bytes: limits.manifest_bytes,
        }
    }

    /// A release stays one as long as the same file makes it one.
    pub(super) fn of_releases(&self) -> String {
        self.metadata_path.to_string()
    }

    /// What was refused is looked at again when a limit was changed.
    pub(super) fn of_refusals(&self) -> String {
        let Self { metadata_path, metadata_bytes, layer_bytes, config_bytes } = self;
        format!("{metadata_path} {metadata_bytes} {layer_bytes} {config_bytes}")
    }
}

/// A manifest, read: a verdict, or which image decides.
pub(super) enum Step {
    Verdict(Verdict),
    /// As the child says, under its own name.
    Same(Digest),
    /// As the child says, for several architectures.
    Multi(Digest),
}

/// Reads the image of a digest. Of a list it says only which child decides: that may be known already.
pub(super) async fn read(
    repository: &Repository,
    digest: &Digest,
    rules: &Rules,
) -> Result<Step, FetchError> {
    let bytes = repository.manifest(digest).await?;
    let manifest = match Manifest::parse(&bytes) {
        Ok(manifest) => manifest,
        Err(error) => return Ok(Step::Verdict(Verdict::Refused { reason: chain(&error) })),
    };
    match manifest {
        Manifest::List(entries) => Ok(list(entries)),
        Manifest::Image { config, layers } => {
            single(repository, &config, &layers, rules).await.map(Step::Verdict)
        }
    }
}

/// Of the children, the first by digest decides: it does not depend on the order in which a tool wrote them.
fn list(entries: Vec<Descriptor>) -> Step {
    let real = entries.into_iter().filter(Descriptor::is_real).map(|entry| entry.digest);
    let mut real: BTreeSet<Digest> = real.collect();
    match (real.len(), real.pop_first()) {
        (1, Some(only)) => Step::Same(only),
        (_, Some(first)) => Step::Multi(first),
        (_, None) => Step::Verdict(Verdict::Other { reason: "it is a list without an image".to_owned() }),
    }
}

async fn single(
    repository: &Repository,
    config: &Descriptor,
    layers: &[Descriptor],
    rules: &Rules,
) -> Result<Verdict, FetchError> {
    let content = match find_metadata(repository, layers, rules).await? {
        Ok(Some(content)) => content,
        Ok(None) => return Ok(Verdict::Other { reason: format!("it holds no {}", rules.metadata_path) }),
        Err(reason) => return Ok(Verdict::Refused { reason }),
    };
    let refused = |reason: String| Ok(Verdict::Refused { reason });
    let (name, file) = match parse_release_metadata(&content) {
        Ok(parsed) => parsed,
        Err(error) => return refused(chain(&error)),
    };
    if config.size > rules.config_bytes {
        return refused(format!("its configuration is {} bytes long", config.size));
    }
    let config = match ImageConfig::parse(&repository.small_blob(config).await?) {
        Ok(config) => config,
        Err(error) => return refused(format!("its configuration cannot be read: {error}")),
    };
    let arch = match config.architecture.as_str() {
        "" => None,
        text => match Arch::parse(text) {
            Ok(arch) => Some(arch),
            Err(error) => return refused(error.to_string()),
        },
    };
    let mut metadata = file.metadata;
    let own = config.labels().filter(|(key, _)| key.starts_with(labels::PREFIX));
    metadata.extend(own.map(|(key, value)| (key.clone(), value.clone())));
    let name = name.or_arch(arch.as_ref());
    Ok(Verdict::Release(Found { name, metadata, previous: file.previous, next: file.next }))
}

/// From the last layer to the first, because the last one wins: those below a hit need not be fetched.
async fn find_metadata(
    repository: &Repository,
    layers: &[Descriptor],
    rules: &Rules,
) -> Result<Result<Option<Vec<u8>>, String>, FetchError> {
    let limits = LayerLimits { layer_bytes: rules.layer_bytes, file_bytes: rules.metadata_bytes };
    for layer in layers.iter().rev().filter(|layer| layer.is_file_layer()) {
        let refused = |error: layers::LayerError| format!("layer {}: {}", layer.digest, chain(&error));
        if layer.size > limits.layer_bytes {
            return Ok(Err(refused(layers::LayerError::Bytes { limit: limits.layer_bytes })));
        }
        let wanted = rules.metadata_path.clone();
        let said = repository.layer(layer, move |source| layers::find_file(source, &wanted, limits));
        match said.await? {
            Ok(Said::Content(content)) => return Ok(Ok(Some(content))),
            Ok(Said::Gone) => return Ok(Ok(None)),
            Ok(Said::Nothing) => {}
            Err(error) => return Ok(Err(refused(error))),
        }
    }
    Ok(Ok(None))
}

/// What a list is, by what its child is.
pub(super) fn as_multi(child: &Verdict) -> Verdict {
    match child {
        Verdict::Release(found) => {
            let name = ReleaseName::new(found.name.version.clone(), Some(Arch::multi()));
            Verdict::Release(Found { name, ..found.clone() })
        }
        other => other.clone(),
    }
}
