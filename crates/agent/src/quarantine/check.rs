//! The judgement on an image: the order of the steps is the promise.

use logic::agent::{Target, may_follow};
use oci::manifest::Platform;
use oci::save;
use oci::{Access, Extent, ImageReference, Limits};
use semver::Version;
use trust::digest::Digest;

use super::carried::ReleaseKeys;
use super::keys::Trust;
use super::refusal::{Refusal, blocking};
use super::{Checked, Quarantine, metadata, signatures};

impl Quarantine {
    /// Whether the image in quarantine is the one of the target's digest, is signed by who must have signed it, and may follow
    /// `running` by its own word. Its tree is there only after the first two; the keys that it carries can be used.
    pub async fn check(&self, target: &Target, running: &Version, trust: &Trust) -> Result<Checked, Refusal> {
        let digest = Digest::parse(target.digest());
        let digest = digest.map_err(|_| Refusal::ByTag { image: target.image.clone() })?;
        let text = || digest.to_string();
        let (layout, limits, platform) = (self.image(), Limits::default(), Platform::here());

        let not_whole = |source| Refusal::NotWhole { digest: text(), source: Box::new(source) };
        let manifests = save::prove(&layout, &digest, &platform, &limits).await.map_err(not_whole)?;

        let signed_by = self.signed_by(&digest, &manifests, trust).await?;

        let reference = format!("oci:{}@{digest}", layout.display());
        let unpack = async {
            let reference = ImageReference::in_layout(&layout);
            let source = reference.open(&Access::default(), &limits).await?;
            let image = source.image_for(&digest, &platform).await?;
            image.unpack(&self.tree(), Extent::Whole, &limits).await
        };
        unpack.await.map_err(|source| Refusal::Unpack { digest: text(), source: Box::new(source) })?;

        let (tree, of) = (self.tree(), text());
        let read = move || {
            let metadata = metadata::read(&tree);
            let metadata = metadata.map_err(|source| Refusal::NoRelease { digest: of.clone(), source })?;
            let keys = ReleaseKeys::read(&tree);
            Ok((metadata, keys.map_err(|source| Refusal::BadKeys { digest: of, source: Box::new(source) })?))
        };
        let (metadata, keys) = blocking(read).await?;
        may_follow(&metadata, &target.version, target.by, running)
            .map_err(|source| Refusal::CannotFollow { digest: text(), source: Box::new(source) })?;
        Ok(Checked { digest: text(), reference, tree: self.tree(), metadata, keys, signed_by })
    }

    async fn signed_by(
        &self,
        digest: &Digest,
        manifests: &[Digest],
        trust: &Trust,
    ) -> Result<Vec<String>, Refusal> {
        let trust = trust.clone();
        let keyrings = blocking(move || Ok(trust.keyrings()?)).await?;
        let Some(keyrings) = keyrings else { return Ok(vec![]) };
        if keyrings.0.is_empty() {
            return Err(Refusal::NoKeys { digest: digest.to_string() });
        }
        let verdict = signatures::judge(&self.image(), &keyrings, manifests).await;
        let agreed = verdict.agreed();
        agreed.ok_or_else(|| Refusal::Unsigned { digest: digest.to_string(), verdict, troubles: vec![] })
    }
}
