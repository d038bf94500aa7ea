//! What an image that was carried in claims to be: for the books, before anything of it is believed.

use logic::graph::release::ReleaseName;
use oci::layers::{LayerLimits, Said, find_file};
use oci::manifest::Platform;
use oci::path::ImagePath;
use oci::{ImageReference, ImageVersion};
use semver::Version;

use super::Quarantine;
use super::fetch::opened;
use super::metadata::{self, MetadataError};
use super::refusal::Refusal;
use super::sources::Sources;

impl Quarantine {
    /// The digest of an image, and the version that it claims. Only layouts may be named by a tag, or by nothing where there is
    /// one image in them: nobody changes a stick while it is read. Nothing is kept of it.
    pub async fn identify(&self, image: &str, sources: &Sources) -> Result<(String, Version), Refusal> {
        let reference = ImageReference::parse(image).map_err(Refusal::Reference)?;
        if let (ImageReference::Registry { .. }, ImageVersion::Tag(_)) = (&reference, reference.version()) {
            return Err(Refusal::ByTag { image: image.to_owned() });
        }
        let source = opened(&reference, image, sources).await?;
        let ask = |source| Refusal::Ask { image: image.to_owned(), source };
        let digest = source.digest().await.map_err(ask)?;
        let found = source.image_for(&digest, &Platform::here()).await;
        let found = found.map_err(|source| {
            let source = Box::new(source.into());
            Refusal::Fetch { image: image.to_owned(), source }
        })?;
        let no_release = |source| Refusal::NoRelease { digest: digest.to_string(), source };
        let limits = LayerLimits { layer_bytes: sources.limits.layer_bytes, file_bytes: metadata::LIMIT };
        // The uppermost that says anything decides.
        for layer in found.layers.iter().rev() {
            let said = found.read_layer(layer, move |bytes| {
                let wanted = ImagePath::parse(metadata::FILE)?;
                find_file(bytes, &wanted, limits)
            });
            let said = said.await.map_err(ask)?;
            match said.map_err(|source| no_release(MetadataError::Layers(source)))? {
                Said::Nothing => {}
                Said::Gone => break,
                Said::Content(bytes) => {
                    let said = metadata::parse(&bytes).map_err(no_release)?;
                    let name = ReleaseName::parse(&said.version.to_string());
                    let version = name.map_or(said.version, |name| name.version);
                    return Ok((digest.to_string(), version));
                }
            }
        }
        Err(no_release(MetadataError::Missing))
    }
}
