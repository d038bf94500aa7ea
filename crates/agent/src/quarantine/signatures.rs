//! Signatures of the image in quarantine: brought there from wherever they are, and judged by what is there.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use oci::manifest::Platform;
use oci::save::{self, Order};
use oci::signatures::{Beside, SignatureStore, beside, signature_name, tag_beside};
use oci::{Access, ImageReference, ImageSource, ImageVersion, Limits, chain};
use trust::digest::Digest;
use trust::keyring::{Keyrings, Signature, Verdict};

use super::refusal::{Refusal, blocking};
use super::sources::Sources;

/// In a layout, and so in quarantine: a signature store, for what has no place in a layout's own form.
const STORE: &str = "signatures";
/// Of one signature beside an image, and of all of them.
const ONE: u64 = 1 << 20;
const ALL: u64 = 4 << 20;

/// What the keyrings say, by what is in quarantine. The digests stand for the same image: its list, and the image of that for
/// this machine.
pub(super) async fn judge(layout: &Path, keyrings: &Keyrings, digests: &[Digest]) -> Verdict {
    keyrings.judge(digests, &kept(layout, digests).await, SystemTime::now())
}

/// All signatures in quarantine. What cannot be read does not count, and that is all that need be said of it.
async fn kept(layout: &Path, digests: &[Digest]) -> Vec<Signature> {
    let mut kept = vec![];
    let store = SignatureStore::Directory(layout.join(STORE));
    let source = ImageReference::in_layout(layout).open(&Access::default(), &Limits::default()).await;
    for digest in digests {
        if let Ok(source) = &source {
            let found = beside(source, digest).await.unwrap_or_default();
            let as_signature =
                |one: Beside| Signature::Cosign { payload: one.payload, signature: one.signature };
            kept.extend(found.into_iter().map(as_signature));
        }
        let found = store.all(digest).await.unwrap_or_default();
        kept.extend(found.into_iter().map(Signature::OpenPgp));
    }
    kept
}

/// Brings signatures, until every keyring has one that counts.
pub(super) struct Gathering<'a> {
    pub layout: PathBuf,
    pub keyrings: Keyrings,
    pub manifests: &'a [Digest],
}

/// Somebody who could not be asked.
struct Trouble {
    text: String,
    passing: bool,
}

impl Gathering<'_> {
    pub(super) async fn run(
        &self,
        reference: &ImageReference,
        source: &ImageSource,
        sources: &Sources,
    ) -> Result<(), Refusal> {
        let digest = || self.manifests.first().map(ToString::to_string).unwrap_or_default();
        if self.keyrings.0.is_empty() {
            return Err(Refusal::NoKeys { digest: digest() });
        }
        if self.agree().await {
            return Ok(());
        }
        let mut troubles = self.bring_beside(source, sources).await?;
        // Those that came with a layout need no network, and come first.
        let own = match reference {
            ImageReference::Layout { directory, .. } => {
                Some(SignatureStore::Directory(directory.join(STORE)))
            }
            ImageReference::Registry { .. } => None,
        };
        let mut seen = vec![];
        for store in own.iter().chain(&sources.stores) {
            if self.agree().await {
                return Ok(());
            }
            for manifest in self.manifests {
                match store.all(manifest).await {
                    Ok(found) => seen.extend(self.keep(manifest, found).await?),
                    Err(error) => {
                        let text = format!("{}: {}", store.name(), chain(&error));
                        troubles.push(Trouble { text, passing: error.is_passing() });
                    }
                }
            }
        }
        seen.extend(kept(&self.layout, self.manifests).await);
        let verdict = self.keyrings.judge(self.manifests, &seen, SystemTime::now());
        if verdict.agreed().is_some() {
            return Ok(());
        }
        let passing = troubles.iter().any(|trouble| trouble.passing);
        let (digest, troubles) = (digest(), troubles.into_iter().map(|trouble| trouble.text).collect());
        Err(match passing {
            true => Refusal::SignaturesAway { digest, verdict, troubles },
            false => Refusal::Unsigned { digest, verdict, troubles },
        })
    }

    async fn agree(&self) -> bool {
        judge(&self.layout, &self.keyrings, self.manifests).await.agreed().is_some()
    }

    /// From the tag beside the image, which is an image of its own. That there is no room for it says nothing about who signed.
    async fn bring_beside(&self, source: &ImageSource, sources: &Sources) -> Result<Vec<Trouble>, Refusal> {
        let limits =
            Limits { layer_bytes: ONE, image_bytes: ALL, manifest_bytes: ONE, ..sources.limits.clone() };
        let mut troubles = vec![];
        for manifest in self.manifests {
            let tag = tag_beside(manifest);
            let signatures = match source.at(ImageVersion::Tag(tag.clone())).digest().await {
                Ok(signatures) => signatures,
                Err(error) if error.is_missing() => continue,
                Err(error) => {
                    troubles.push(Trouble { text: chain(&error), passing: error.is_passing() });
                    continue;
                }
            };
            let platform = Platform::here();
            let order = Order {
                into: &self.layout,
                platform: &platform,
                tag: Some(&tag),
                limits: &limits,
                reserve: sources.reserve,
                blobs: None,
                heard: &|_| {},
            };
            match save::save(source, &signatures, &order).await {
                Ok(_) => {}
                Err(error) if error.is_out_of_space() => {
                    return Err(Refusal::Fetch { image: tag, source: Box::new(error) });
                }
                Err(error) => troubles.push(Trouble { text: chain(&error), passing: error.is_passing() }),
            }
        }
        Ok(troubles)
    }

    /// Keeps those that count for a keyring: the others would only be in their way. Gives the others.
    async fn keep(&self, manifest: &Digest, found: Vec<Vec<u8>>) -> Result<Vec<Signature>, Refusal> {
        let top = self.layout.join(STORE);
        let known = SignatureStore::Directory(top.clone()).all(manifest).await.unwrap_or_default();
        let (mut new, mut others) = (vec![], vec![]);
        for signature in found.into_iter().filter(|one| !known.contains(one)) {
            let one = [Signature::OpenPgp(signature.clone())];
            let verdict = self.keyrings.judge(self.manifests, &one, SystemTime::now());
            if verdict.0.iter().any(|(_, said)| said.is_ok()) {
                new.push(signature);
            } else {
                others.extend(one);
            }
        }
        let manifest = manifest.clone();
        blocking(move || {
            for (position, signature) in new.iter().enumerate() {
                let path = top.join(signature_name(&manifest, known.len() + position + 1));
                let parent = path.parent().unwrap_or(&top);
                std::fs::create_dir_all(parent)
                    .map_err(|source| Refusal::Directory { path: parent.to_owned(), source })?;
                disk::durable::write_durably(&path, signature)
                    .map_err(|source| Refusal::Keep { path, source })?;
            }
            Ok(others)
        })
        .await
    }
}
