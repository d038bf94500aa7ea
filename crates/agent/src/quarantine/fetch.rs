//! Bringing an image into quarantine, and what is signed of it: first what is signed, because an image that nobody signed need
//! not be fetched at all.

use oci::manifest::Platform;
use oci::save::{self, Heard, Order};
use oci::{ImageReference, ImageSource, ImageVersion};
use trust::digest::Digest;

use super::keys::Trust;
use super::refusal::Refusal;
use super::signatures::Gathering;
use super::sources::Sources;
use super::{Quarantine, refusal};

impl Quarantine {
    /// Brings what is missing of an image that is named by its digest, and of its signatures. `heard` is told how many bytes
    /// are here, and of how many.
    pub async fn fetch(
        &self,
        image: &str,
        sources: &Sources,
        trust: &Trust,
        heard: &(dyn Fn(u64, u64) + Send + Sync),
    ) -> Result<(), Refusal> {
        let reference = ImageReference::parse(image).map_err(Refusal::Reference)?;
        let ImageVersion::Digest(digest) = reference.version().clone() else {
            return Err(Refusal::ByTag { image: image.to_owned() });
        };
        let source = opened(&reference, image, sources).await?;
        let platform = Platform::here();
        let told = |said: Heard| match said {
            Heard::Here(here, of) => heard(here, of),
            Heard::NotBrought { digest, why } => {
                tracing::warn!(layer = digest.as_str(), cause = why, "a layer comes from the registry");
            }
        };
        let into = self.image();
        let order = Order {
            into: &into,
            platform: &platform,
            tag: None,
            limits: &sources.limits,
            reserve: sources.reserve,
            blobs: sources.blobs.as_deref(),
            heard: &told,
        };
        let failed = |source| Refusal::Fetch { image: image.to_owned(), source: Box::new(source) };
        let manifests = save::manifests(&source, &digest, &order).await.map_err(failed)?;
        self.fetch_signatures(&reference, &source, &manifests, sources, trust).await?;
        save::save(&source, &digest, &order).await.map_err(failed)?;
        Ok(())
    }

    async fn fetch_signatures(
        &self,
        reference: &ImageReference,
        source: &ImageSource,
        manifests: &[Digest],
        sources: &Sources,
        trust: &Trust,
    ) -> Result<(), Refusal> {
        let trust = trust.clone();
        let keyrings = refusal::blocking(move || Ok(trust.keyrings()?)).await?;
        let Some(keyrings) = keyrings else { return Ok(()) };
        Gathering { layout: self.image(), keyrings, manifests }.run(reference, source, sources).await
    }
}

pub(super) async fn opened(
    reference: &ImageReference,
    image: &str,
    sources: &Sources,
) -> Result<ImageSource, Refusal> {
    let opened = reference.open(&sources.access, &sources.limits).await;
    opened.map_err(|source| Refusal::Ask { image: image.to_owned(), source })
}
