//! A source of tagged images: what its tags point at now, and which releases that makes.
//!
//! A failure to fetch one image never changes what is known of it: the tag keeps the release that it last had, the
//! failure is noted, and the next look tries again.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use logic::graph::release::Origin;
use logic::graph::{Harvest, Notes, Place, Release, labels};
use oci::repository::Repository;
use oci::signatures::is_said_of_another;
use oci::{FetchError, chain};
use regex::Regex;
use tokio::task::JoinSet;

use super::cache::{Cache, Tags};
use super::image::{Rules, Verdict};
use super::reader::{Reader, Shared, Turns, blocking, interrupted};
use trust::digest::Digest;

pub(super) struct Tagged {
    /// Position in the configuration.
    pub(super) index: usize,
    /// For messages, and for the cache.
    pub(super) address: String,
    /// What payloads begin with.
    pub(super) payload_repository: String,
    pub(super) filter: Option<Regex>,
    pub(super) rules: Rules,
    pub(super) at_once: usize,
}

/// What a look at a source gave.
pub(crate) struct Look {
    pub(crate) harvest: Harvest,
    /// Digests whose verdicts are still of use.
    pub(crate) seen: HashSet<Digest>,
    pub(crate) tags: usize,
}

impl Tagged {
    pub(super) async fn look(
        &self,
        repository: &Arc<Repository>,
        cache: &Arc<Cache>,
    ) -> Result<Look, Arc<FetchError>> {
        let mut listed = repository.tags().await?;
        // Signatures and the like say something of another image; they are none.
        listed.retain(|(tag, _)| !is_said_of_another(tag));
        if let Some(filter) = &self.filter {
            listed.retain(|(tag, _)| filter.is_match(tag));
        }
        let (known, cache_too) = (self.address.clone(), Arc::clone(cache));
        let known = blocking(move || cache_too.tags(&known)).await?;

        let turns = Arc::new(Turns::new(self.at_once));
        let pointed = self.resolve(repository, &listed, &turns).await;
        let digests: BTreeSet<Digest> =
            pointed.iter().filter_map(|digest| digest.as_ref().ok().cloned()).collect();
        let mut verdicts = self.read(repository, cache, digests, &turns).await;
        // All failed: that is the source's failure, not that of each image. The first one says most.
        let failed = |digest: &Shared<Digest>| match digest {
            Ok(digest) => verdicts.get(digest).and_then(|verdict| verdict.as_ref().err()).cloned(),
            Err(error) => Some(Arc::clone(error)),
        };
        if let Some(error) = pointed.first().and_then(failed)
            && pointed.iter().all(|digest| failed(digest).is_some())
        {
            return Err(error);
        }
        let mut decided =
            Decided { source: self, cache, known: &known, now: Tags::new(), notes: Notes::default() };
        let mut first_tags: BTreeMap<Digest, String> = BTreeMap::new();
        for ((tag, _), pointed) in listed.iter().zip(pointed) {
            if let Some((digest, kept)) = decided.decide(tag, pointed, &verdicts) {
                // Two tags on one image are one release, under the tag that sorts first.
                first_tags.entry(digest.clone()).or_insert_with(|| tag.clone());
                if let Some(kept) = kept {
                    verdicts.insert(digest, Ok(kept));
                }
            }
        }
        let Decided { now, mut notes, .. } = decided;
        let (address, cache_too) = (self.address.clone(), Arc::clone(cache));
        let seen = first_tags.keys().cloned().collect();
        blocking(move || cache_too.set_tags(&address, now)).await?;

        let mut releases = vec![];
        for (digest, tag) in first_tags {
            let Some(Ok(verdict)) = verdicts.remove(&digest) else { continue };
            match self.release(&tag, &digest, verdict) {
                Ok(release) => releases.push(release),
                Err(verdict) => self.note_other(&mut notes, &tag, &digest, &verdict),
            }
        }
        let harvest = Harvest { releases, notes, ..Harvest::default() };
        Ok(Look { harvest, seen, tags: listed.len() })
    }

    /// In the order of `listed`.
    async fn resolve(
        &self,
        repository: &Arc<Repository>,
        listed: &[(String, Option<Digest>)],
        turns: &Arc<Turns>,
    ) -> Vec<Shared<Digest>> {
        let mut tasks = JoinSet::new();
        let mut pointed: Vec<Shared<Digest>> =
            listed.iter().map(|(_, digest)| digest.clone().ok_or_else(interrupted)).collect();
        for (position, (tag, digest)) in listed.iter().enumerate() {
            if digest.is_none() {
                let (repository, tag, turns) = (Arc::clone(repository), tag.clone(), Arc::clone(turns));
                tasks.spawn(async move { (position, turns.ask(repository.resolve(&tag)).await) });
            }
        }
        while let Some(done) = tasks.join_next().await {
            if let Ok((position, digest)) = done {
                pointed[position] = digest;
            }
        }
        pointed
    }

    async fn read(
        &self,
        repository: &Arc<Repository>,
        cache: &Arc<Cache>,
        digests: BTreeSet<Digest>,
        turns: &Arc<Turns>,
    ) -> HashMap<Digest, Shared<Arc<Verdict>>> {
        let reader = Arc::new(Reader::new(repository, cache, &self.rules, turns));
        let mut tasks = JoinSet::new();
        for digest in digests {
            let reader = Arc::clone(&reader);
            tasks.spawn(async move {
                let verdict = reader.verdict(digest.clone()).await;
                (digest, verdict)
            });
        }
        tasks.join_all().await.into_iter().collect()
    }

    fn release(&self, tag: &str, digest: &Digest, verdict: Arc<Verdict>) -> Result<Release, Arc<Verdict>> {
        let Verdict::Release(found) = &*verdict else { return Err(verdict) };
        let mut metadata = found.metadata.clone();
        metadata.insert(labels::MANIFEST_REF.to_owned(), digest.to_string());
        Ok(Release {
            name: found.name.clone(),
            payload: format!("{}@{digest}", self.payload_repository),
            metadata,
            previous: found.previous.clone(),
            next: found.next.clone(),
            origin: Origin { source: self.index, tag: tag.to_owned(), digest: digest.to_string() },
        })
    }

    fn note_other(&self, notes: &mut Notes, tag: &str, digest: &Digest, verdict: &Verdict) {
        let place = self.place(tag);
        match verdict {
            Verdict::Other { reason } => notes.warning("not-a-release", place, format!("{digest}: {reason}")),
            Verdict::Refused { reason } => notes.error("bad-release", place, format!("{digest}: {reason}")),
            Verdict::Release(_) => {}
        }
    }

    fn place(&self, tag: &str) -> Place {
        Place::Release(format!("{} {tag}", self.address).trim_end().to_owned())
    }
}

/// Goes through the tags: which image each stands for in this look.
struct Decided<'a> {
    source: &'a Tagged,
    cache: &'a Cache,
    known: &'a Tags,
    now: Tags,
    notes: Notes,
}

impl Decided<'_> {
    /// The image that a tag stands for, and its verdict where that is not among the new ones.
    fn decide(
        &mut self,
        tag: &str,
        pointed: Shared<Digest>,
        verdicts: &HashMap<Digest, Shared<Arc<Verdict>>>,
    ) -> Option<(Digest, Option<Arc<Verdict>>)> {
        let verdict = pointed.as_ref().map(|digest| verdicts.get(digest));
        let (error, changed) = match (&pointed, verdict) {
            (Ok(digest), Ok(Some(Ok(_)))) => {
                self.now.insert(key(tag, digest), digest.clone());
                return Some((digest.clone(), None));
            }
            (Ok(digest), Ok(Some(Err(error)))) => (Arc::clone(error), Some(digest)),
            (Ok(digest), _) => (interrupted(), Some(digest)),
            (Err(error), _) => (Arc::clone(error), None),
        };
        let last = self.known.get(tag).cloned();
        let last = last.and_then(|digest| Some((self.cache.get(&digest, &self.source.rules)?, digest)));
        let why = chain(&*error);
        let text = match (changed, &last) {
            (Some(digest), Some(_)) => {
                format!(
                    "it now points at {digest}, which could not be fetched; what it was before is kept: {why}"
                )
            }
            (Some(digest), None) => format!("it points at {digest}, which could not be fetched: {why}"),
            (None, Some(_)) => {
                format!("what it points at could not be asked; what it was before is kept: {why}")
            }
            (None, None) => format!("what it points at could not be asked: {why}"),
        };
        let place = self.source.place(tag);
        match (changed, &last) {
            // Most likely nothing is missing.
            (None, Some(_)) => self.notes.warning("fetch-failed", place, text),
            _ => self.notes.error("fetch-failed", place, text),
        }
        let (verdict, digest) = last?;
        self.now.insert(tag.to_owned(), digest.clone());
        Some((digest, Some(Arc::new(verdict))))
    }
}

/// Images without a tag are known by their digest.
fn key(tag: &str, digest: &Digest) -> String {
    if tag.is_empty() { digest.to_string() } else { tag.to_owned() }
}
