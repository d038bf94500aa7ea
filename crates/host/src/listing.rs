//! What any of the sources listed, and the one decision about it: which is booted, which is the rollback.

use logic::host::{DeploymentId, Host};

use crate::error::Error;

/// More than this is not a list of deployments (ostree itself keeps two or three).
const MAX_DEPLOYMENTS: usize = 1000;

/// One deployment as its source described it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub id: DeploymentId,
    /// Which operating system's data it shares: a rollback stays within it. `None` where there is only one.
    pub osname: Option<String>,
    pub booted: bool,
    pub staged: bool,
    pub pinned: bool,
    /// The source itself calls it the rollback.
    pub rollback: bool,
}

impl Entry {
    pub(crate) fn new(origin: &str, id: String, osname: Option<String>) -> Result<Self, Error> {
        let id =
            DeploymentId::new(id).map_err(|source| Error::BadName { origin: origin.to_owned(), source })?;
        Ok(Self { id, osname, booted: false, staged: false, pinned: false, rollback: false })
    }
}

/// What one source listed, in boot order (what would boot next comes first).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    pub entries: Vec<Entry>,
}

impl Listing {
    /// Later mentions of a deployment only add their marks to the first.
    pub(crate) fn new(origin: &str, entries: Vec<Entry>) -> Result<Self, Error> {
        if entries.len() > MAX_DEPLOYMENTS {
            return Err(malformed(origin, format!("it lists {} deployments", entries.len())));
        }
        let mut listing = Self::default();
        for entry in entries {
            match listing.entries.iter_mut().find(|known| known.id == entry.id) {
                Some(known) => {
                    known.booted |= entry.booted;
                    known.staged |= entry.staged;
                    known.pinned |= entry.pinned;
                    known.rollback |= entry.rollback;
                }
                None => listing.entries.push(entry),
            }
        }
        if listing.entries.iter().filter(|entry| entry.booted).count() > 1 {
            return Err(malformed(origin, "it marks more than one deployment as booted".to_owned()));
        }
        Ok(listing)
    }

    pub fn booted(&self) -> Option<&DeploymentId> {
        self.entries.iter().find(|entry| entry.booted).map(|entry| &entry.id)
    }

    /// The host, once it is known what is booted: `given` from outside if it is, else what the source marked.
    pub fn into_host(self, origin: &str, given: Option<&DeploymentId>) -> Result<Host, Error> {
        let origin = || origin.to_owned();
        let booted = match (given, self.booted()) {
            (Some(given), _) => given.clone(),
            (None, Some(marked)) => marked.clone(),
            (None, None) if self.entries.is_empty() => return Err(Error::NothingListed { origin: origin() }),
            (None, None) => return Err(Error::NothingBooted { origin: origin() }),
        };
        let position = self.entries.iter().position(|entry| entry.id == booted);
        if position.is_none() && !self.entries.is_empty() {
            return Err(Error::BootedNotListed { origin: origin(), booted });
        }
        let rollback = position.and_then(|position| self.rollback(position));
        let staged = self.entries.iter().find(|entry| entry.staged && entry.id != booted);
        let pinned = self.entries.iter().filter(|entry| entry.pinned);
        Ok(Host {
            rollback,
            staged: staged.map(|entry| entry.id.clone()),
            pinned: pinned.map(|entry| entry.id.clone()).collect(),
            deployments: self.entries.iter().map(|entry| entry.id.clone()).collect(),
            booted,
        })
    }

    /// As the source says; else what ostree calls the rollback: the first one after the booted one in boot
    /// order, of the same operating system, that is not merely staged.
    fn rollback(&self, booted: usize) -> Option<DeploymentId> {
        let said = self.entries.iter().find(|entry| entry.rollback);
        let osname = &self.entries[booted].osname;
        let next = self.entries[booted + 1..].iter().find(|entry| !entry.staged && entry.osname == *osname);
        said.or(next).filter(|entry| entry.id != self.entries[booted].id).map(|entry| entry.id.clone())
    }
}

pub(crate) fn malformed(origin: &str, what: String) -> Error {
    Error::Malformed { origin: origin.to_owned(), what, excerpt: String::new() }
}
