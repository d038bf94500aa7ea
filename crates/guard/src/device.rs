//! One device as guard sees it: what it was told about the host and the workload, and what its records say.
//!
//! Reading changes nothing, so a dry run and a status page see exactly what `pre-run` would.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use disk::Journal;
use logic::guard::{
    BootId, Boots, Copies, CopyRecord, Data, Effect, Metadata, Observed, Operation, Place, Policy, Recorded,
    Seq, Step, Unfinished, effects,
};
use logic::host::Host;
use logic::version::Version;
use serde::{Deserialize, Serialize};

use crate::error::{Doing, Error, Result, While};
use crate::layout::Layout;
use crate::migration::Migration;
use crate::records::copy_file::{self, Records};
use crate::records::health_file::{self, HealthFile};
use crate::records::replicated::{self, Kept};
use crate::records::{request_file, version_file};

/// What the caller knows about the host and the workload.
#[derive(Debug, Clone)]
pub struct Device {
    pub layout: Layout,
    pub host: Host,
    pub boot: BootId,
    pub program: Version,
    pub policy: Policy,
    pub migration: Migration,
    /// Threads that copy: 0 as many as suit, 1 everything in one fixed order.
    pub threads: usize,
}

/// What the journal holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JournalEntry {
    Begin(Box<Operation>),
    /// This tree is about to take the data's place: if it is there, the exchange has happened.
    Exchange(TreeMark),
    /// The contents of the data directory are about to change places, one by one: from here on it goes forward.
    Swap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeMark {
    ino: u64,
    subvolume: Option<u64>,
}

impl TreeMark {
    pub fn of(path: &Path) -> Result<Self, disk::Error> {
        let id = disk::tree::identity(path)?;
        Ok(Self { ino: id.ino, subvolume: id.subvolume })
    }
}

/// All that is known, with what only the executor and people need.
#[derive(Debug)]
pub struct Survey {
    pub observed: Observed,
    pub health: HealthFile,
    pub records: Records,
    /// What is odd, but no reason to stop.
    pub notes: Vec<String>,
}

impl Device {
    pub fn survey(&self) -> Result<Survey> {
        let layout = &self.layout;
        let mut notes = Vec::new();
        let (health, metadata) = self.read_health(&mut notes)?;
        let journal = Journal::<JournalEntry>::read(&layout.journal());
        let (journal, metadata) = match journal {
            Ok(journal) => (journal, metadata),
            Err(error @ (disk::Error::JournalDamaged { .. } | disk::Error::TooLarge { .. })) => {
                (vec![], Metadata::Damaged { file: ".journal".to_owned(), why: error.to_string() })
            }
            Err(error) => return Err(error).during(Doing::Records),
        };
        let records = copy_file::load_all(&layout.records()).during(Doing::Records)?;
        for (path, why) in &records.unreadable {
            notes.push(format!("{} can't be understood ({why}): its copy is left alone", path.display()));
        }
        let unfinished = self.unfinished(&journal, &records);
        let claimed = unfinished.as_ref().map(|unfinished| claims(&unfinished.operation)).unwrap_or_default();
        let copies = self.copies(&records, &claimed);
        let data = self.read_data(&journal, &mut notes)?;
        let request = match replicated_request(layout)? {
            Ok(request) => request,
            Err(why) => {
                notes.push(format!("next-boot.json can't be understood ({why}) and is passed over"));
                None
            }
        };
        let foreign = self.foreign(&copies, &claimed)?;
        let observed = Observed {
            host: self.host.clone(),
            boot: self.boot.clone(),
            program: self.program.clone(),
            policy: self.policy.clone(),
            metadata,
            data,
            boots: health.boots.clone(),
            copies: Copies::new(copies),
            request,
            leftovers: self.leftovers(&claimed)?,
            unfinished,
            last_number: records.last_number,
            foreign,
        };
        Ok(Survey { observed, health, records, notes })
    }

    fn read_health(&self, notes: &mut Vec<String>) -> Result<(HealthFile, Metadata)> {
        let path = self.layout.health();
        let kept = replicated::read(&path, health_file::LIMIT, HealthFile::parse).during(Doing::Records)?;
        Ok(match kept {
            Kept::Whole(file) => (file, Metadata::Readable),
            Kept::Second(file, why) => {
                notes.push(format!("health.json is damaged ({why}): its second copy is used"));
                (file, Metadata::Readable)
            }
            Kept::Damaged(why) => {
                (HealthFile::default(), Metadata::Damaged { file: "health.json".to_owned(), why })
            }
            Kept::Missing => (self.read_older_health(notes)?, Metadata::Readable),
        })
    }

    /// Without `health.json`: its second copy, or a file that the document calls `health.yaml`.
    fn read_older_health(&self, notes: &mut Vec<String>) -> Result<HealthFile> {
        let path = self.layout.health();
        type Parse = fn(&[u8]) -> Result<HealthFile, String>;
        let others: [(std::path::PathBuf, Parse); 2] = [
            (replicated::second(&path), HealthFile::parse),
            (path.with_extension("yaml"), HealthFile::parse_yaml),
        ];
        for (other, parse) in others {
            let Some(bytes) =
                disk::durable::read_limited(&other, health_file::LIMIT).during(Doing::Records)?
            else {
                continue;
            };
            match parse(&bytes) {
                Ok(file) => {
                    notes.push(format!("health.json is missing: {} is used", other.display()));
                    return Ok(file);
                }
                Err(why) => notes.push(format!("{} can't be understood ({why})", other.display())),
            }
        }
        Ok(HealthFile::default())
    }

    fn unfinished(&self, journal: &[JournalEntry], records: &Records) -> Option<Unfinished> {
        let operation = journal.iter().find_map(|entry| match entry {
            JournalEntry::Begin(operation) => Some((**operation).clone()),
            _ => None,
        })?;
        let committed = |number: Seq| records.files.iter().any(|file| file.record.number == number);
        let decided = match &operation {
            Operation::Backup { copy, .. } => committed(copy.number),
            Operation::MoveAside { copy } => exists(&self.layout.path(&copy.place)),
            Operation::Discard { .. } => true,
            Operation::Restore { .. } => journal.iter().any(|entry| match entry {
                JournalEntry::Begin(_) => false,
                JournalEntry::Swap => true,
                JournalEntry::Exchange(mark) => TreeMark::of(&self.layout.data).is_ok_and(|now| now == *mark),
            }),
        };
        Some(Unfinished { operation, decided })
    }

    /// Committed copies whose trees are there, or will be once the interrupted operation is ended.
    fn copies(&self, records: &Records, claimed: &BTreeSet<String>) -> Vec<CopyRecord> {
        let known = records.files.iter().map(|file| file.record.clone());
        known
            .filter(|copy| claimed.contains(&key(&copy.place)) || exists(&self.layout.path(&copy.place)))
            .collect()
    }

    fn read_data(&self, journal: &[JournalEntry], notes: &mut Vec<String>) -> Result<Data> {
        let layout = &self.layout;
        // A file system of its own brings a directory that nobody put there.
        let is_reserved = |name: &std::ffi::OsStr| {
            name.to_string_lossy().starts_with(disk::RESERVED_PREFIX)
                || (layout.data_is_mount && name == "lost+found")
        };
        let is_empty = match fs::read_dir(&layout.data) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => {
                return Err(disk::Error::io(disk::Operation::List, &layout.data, error))
                    .during(Doing::Records);
            }
            Ok(entries) => !entries.flatten().any(|entry| !is_reserved(&entry.file_name())),
        };
        let swapping = journal.contains(&JournalEntry::Swap);
        if is_empty && !swapping {
            return Ok(Data::Absent);
        }
        // In the middle of an exchange of contents, the record that counts may still be on its way in.
        let incoming = journal.iter().find_map(|entry| match entry {
            JournalEntry::Begin(operation) if swapping => match **operation {
                Operation::Restore { incoming, .. } => Some(incoming),
                _ => None,
            },
            _ => None,
        });
        let arriving = incoming.map(|number| layout.path(&Place::Incoming(number)).join("version.json"));
        let path = arriving.filter(|path| exists(path)).unwrap_or_else(|| layout.version());
        let kept =
            replicated::read(&path, version_file::LIMIT, version_file::parse).during(Doing::Records)?;
        Ok(Data::Present(match kept {
            Kept::Whole(record) => Recorded::Known(record),
            Kept::Second(record, why) => {
                notes.push(format!("version.json is damaged ({why}): its second copy is used"));
                Recorded::Known(record)
            }
            Kept::Missing => Recorded::Missing,
            Kept::Damaged(why) => Recorded::Damaged(why),
        }))
    }

    /// Half-built trees that no operation claims.
    fn leftovers(&self, claimed: &BTreeSet<String>) -> Result<Vec<Place>> {
        let mut places = Vec::new();
        for name in names(&self.layout.staging())? {
            places.extend(name.parse().ok().map(Place::Staging));
        }
        let (dir, prefix) = self.layout.incoming_names();
        for name in names(&dir)? {
            places.extend(name.strip_prefix(&prefix).and_then(|n| n.parse().ok()).map(Place::Incoming));
        }
        places.retain(|place| !claimed.contains(&key(place)));
        places.sort_by_key(key);
        Ok(places)
    }

    /// Names in the backups directory that are neither guard's files nor its copies.
    fn foreign(&self, copies: &[CopyRecord], claimed: &BTreeSet<String>) -> Result<Vec<String>> {
        const OWN: [&str; 5] =
            ["health.json", "health.yaml", "actions.log", "actions.log.1", "next-boot.json"];
        let own: BTreeSet<String> =
            copies.iter().map(|copy| key(&copy.place)).chain(claimed.iter().cloned()).collect();
        let mut foreign = names(&self.layout.backups)?;
        foreign.retain(|name| {
            !name.starts_with('.')
                && !OWN.contains(&name.as_str())
                && !own.contains(&format!("backups/{name}"))
        });
        Ok(foreign)
    }

    /// Every number that data, copies or the journal refer to keeps its boot on record.
    pub fn trim(&self, boots: &mut Boots, seen: &Observed) {
        let owner = seen.data.record().and_then(|record| record.owner.seq);
        let needed = |seq: Seq| {
            owner == Some(seq)
                || seen.copies.iter().any(|copy| copy.owner.seq == Some(seq) || copy.made_in == seq)
        };
        boots.trim(needed, Boots::SHOWN);
    }
}

fn replicated_request(layout: &Layout) -> Result<Result<Option<logic::guard::RestoreRequest>, String>> {
    let bytes = match disk::durable::read_limited(&layout.request(), request_file::LIMIT) {
        Err(error @ disk::Error::TooLarge { .. }) => return Ok(Err(error.to_string())),
        bytes => bytes.during(Doing::Records)?,
    };
    Ok(bytes.map(|bytes| request_file::parse(&bytes)).transpose())
}

/// One spelling per place, to compare by; what stands in the backups directory begins with `backups/`.
fn key(place: &Place) -> String {
    match place {
        Place::Data => "data".to_owned(),
        Place::Incoming(number) => format!("incoming/{number}"),
        Place::Staging(number) => format!("staging/{number}"),
        Place::Generation(deployment, number) => format!("generation/{deployment}/{number}"),
        Place::Current(deployment) => format!("backups/{deployment}"),
        Place::LastHealthy(deployment) => format!("backups/last_healthy__{deployment}"),
        Place::Aside(name) => format!("backups/{name}"),
    }
}

/// The places that an operation works on, finished or undone.
fn claims(operation: &Operation) -> BTreeSet<String> {
    let mut claimed = BTreeSet::new();
    let begin = Step::Operate(operation.clone());
    let undo = Step::Recover { operation: operation.clone(), finish: false };
    for effect in effects(&begin).iter().chain(&effects(&undo)) {
        match effect {
            Effect::Build { from, to } | Effect::Move { from, to } => claimed.extend([key(from), key(to)]),
            Effect::Remove { place } | Effect::Relabel { place, .. } => drop(claimed.insert(key(place))),
            Effect::Exchange { incoming } => drop(claimed.insert(key(&Place::Incoming(*incoming)))),
            Effect::Commit(copy) => drop(claimed.insert(key(&copy.place))),
            _ => {}
        }
    }
    claimed.remove(&key(&Place::Data));
    claimed
}

pub(crate) fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn names(dir: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
        entries => entries.map_err(|error| Error::Failed {
            doing: Doing::Records,
            source: disk::Error::io(disk::Operation::List, dir, error),
        })?,
    };
    let mut names: Vec<_> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}
