//! What an appliance is, and who may change it: its record, its lock, its books.

use std::path::Path;
use std::time::Duration;

use disk::{Journal, Lock};
use logic::upgrade::{ApplianceName, Image, ImageId, Point, Record, Transaction};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::backend::{self, Backend};
use crate::configuration::Configuration;
use crate::error::{Error, Result};
use crate::history::now;
use crate::layout::Layout;
use crate::release::{self, Kubernetes, Manifest};
use crate::settings::Settings;

const LIMIT: u64 = 1 << 20;
/// Whoever looks whether it is held does so for an instant only.
const ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(20);
const API_VERSION: &str = "holdfast/v1";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendKind {
    Slot,
    Vm,
    Ostree,
}

impl BackendKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Slot => "slot",
            Self::Vm => "vm",
            Self::Ostree => "ostree",
        }
    }

    /// Whether a release has a payload for it.
    pub fn fits(self, manifest: &Manifest) -> Result<(), release::Error> {
        let there = match self {
            Self::Slot => manifest.slot.is_some(),
            Self::Vm => manifest.vm.is_some(),
            Self::Ostree => manifest.ostree.is_some(),
        };
        if there { Ok(()) } else { Err(release::Error::OtherBackend { backend: self.name() }) }
    }

    /// What is in the data that a release asks to be stored anew; the data of a machine or of a host is out of reach.
    pub fn kubernetes(self, manifest: &Manifest) -> Option<&Kubernetes> {
        manifest.slot.as_ref().filter(|_| self == Self::Slot)?.kubernetes.as_ref()
    }
}

/// `appliance.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Identity {
    pub api_version: String,
    pub kind: String,
    pub name: ApplianceName,
    pub backend: BackendKind,
    pub created: String,
    /// Whether it should run when the machine does.
    pub wanted_on: bool,
}

impl Identity {
    pub fn new(name: ApplianceName, backend: BackendKind, created: String) -> Self {
        let (api_version, kind) = (API_VERSION.to_owned(), "Appliance".to_owned());
        Self { api_version, kind, name, backend, created, wanted_on: false }
    }
}

/// An appliance, to be looked at. Whoever changes it holds it: see [`Appliance::hold`].
pub struct Appliance {
    pub identity: Identity,
    pub layout: Layout,
    pub backend: Box<dyn Backend>,
}

/// The one who may change it.
pub struct Held {
    pub appliance: Appliance,
    pub journal: Journal<Record>,
    /// The transaction of a process that is dead.
    pub interrupted: Option<Transaction>,
    _lock: Lock,
}

impl Appliance {
    pub fn open(settings: &Settings, name: &ApplianceName) -> Result<Self> {
        let layout = Layout::new(&settings.directory, name);
        let identity: Identity =
            read(&layout.appliance())?.ok_or_else(|| Error::NoAppliance { name: name.clone() })?;
        if identity.api_version != API_VERSION {
            return Err(Error::NewerThanProgram { path: layout.appliance(), found: identity.api_version });
        }
        let backend = backend::open(&layout, identity.backend, settings)?;
        Ok(Self { identity, layout, backend })
    }

    /// As [`Appliance::open`], also where its record is damaged: what it was is told by the rest. For whoever wants no more
    /// of it than that it ends.
    pub fn open_damaged(settings: &Settings, name: &ApplianceName) -> Result<Self> {
        let layout = Layout::new(&settings.directory, name);
        match Self::open(settings, name) {
            Err(Error::Damaged { path, .. }) if path == layout.appliance() => {
                let kind = backend::kind_of(&layout);
                let backend = backend::open(&layout, kind, settings)?;
                Ok(Self { identity: Identity::new(name.clone(), kind, now()), layout, backend })
            }
            other => other,
        }
    }

    pub fn name(&self) -> &str {
        self.identity.name.as_str()
    }

    /// Takes the lock. It ends with its process, so that a dead owner's does not hold, and a live one's does.
    pub fn hold(self) -> Result<Held> {
        let lock = self.lock()?;
        self.hold_by(lock)
    }

    /// Of whoever has the lock already.
    pub(crate) fn hold_by(self, lock: Lock) -> Result<Held> {
        let (journal, records) = Journal::open(&self.layout.journal())?;
        let interrupted = Transaction::from_records(&records);
        Ok(Held { appliance: self, journal, interrupted, _lock: lock })
    }

    fn lock(&self) -> Result<Lock> {
        let path = self.layout.lock();
        for _ in 0..ATTEMPTS {
            if let Some(lock) = Lock::try_acquire(&path)? {
                return Ok(lock);
            }
            std::thread::sleep(PAUSE);
        }
        let holder = Lock::holder(&path).ok().flatten();
        Err(Error::Busy { name: self.identity.name.clone(), holder })
    }

    /// Whether somebody holds it now.
    pub fn is_held(&self) -> Result<bool> {
        Ok(Lock::is_held(&self.layout.lock())?)
    }

    /// What is in progress, for whoever only looks.
    pub fn transaction(&self) -> Result<Option<Transaction>> {
        Ok(Transaction::from_records(&Journal::<Record>::read(&self.layout.journal())?))
    }

    pub fn point(&self) -> Result<Option<Point>> {
        read(&self.layout.point())
    }

    pub fn configuration(&self) -> Result<Configuration> {
        Configuration::load(&self.layout)
    }

    /// What a release on disk says of itself.
    pub fn manifest(&self, image: &ImageId) -> Result<Manifest> {
        Ok(release::read(&self.layout.release(image))?)
    }

    /// The release in force.
    pub fn current(&self) -> Result<Image> {
        let id = self.backend.describe()?.current.ok_or(backend::Error::NoCurrent)?;
        let version = id
            .version()
            .map_err(|error| Error::Damaged { path: self.layout.current(), why: error.to_string() })?;
        Ok(Image { id, version })
    }

    pub fn keep_identity(&self) -> Result<()> {
        write(&self.layout.appliance(), &self.identity)
    }

    /// Whether it should run from now on whenever the machine does.
    pub fn want(&mut self, on: bool) -> Result<()> {
        if self.identity.wanted_on != on {
            self.identity.wanted_on = on;
            self.keep_identity()?;
        }
        Ok(())
    }
}

/// The names of all appliances, sorted.
pub fn names(directory: &Path) -> Result<Vec<ApplianceName>> {
    let failed = |source| disk::Error::io(disk::Operation::List, directory, source);
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(failed(error).into()),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().into_string().ok().and_then(|name| ApplianceName::parse(&name).ok());
        if let Some(name) = name
            && entry.path().join("appliance.json").exists()
        {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let Some(bytes) = disk::durable::read_limited(path, LIMIT)? else { return Ok(None) };
    let damaged = |error: serde_json::Error| Error::Damaged { path: path.to_owned(), why: error.to_string() };
    serde_json::from_slice(&bytes).map(Some).map_err(damaged)
}

pub(crate) fn write(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec_pretty(value)
        .map_err(|error| Error::Damaged { path: path.to_owned(), why: error.to_string() })?;
    Ok(disk::durable::write_durably(path, &text)?)
}
