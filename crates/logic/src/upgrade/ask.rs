//! What may begin: an upgrade, a rollback, a resumption; or the rule that forbids it, and the way out.

use std::cmp::Ordering;

use super::record::{Kind, Point, Transaction};
use super::release::{Image, ImageId, SnapshotId};
use super::way::{Recovery, Step, Way, recovery};
use crate::exit::Exit;

/// What there is, as the backend and the records say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Present<'a> {
    /// The release in force.
    pub current: &'a Image,
    pub point: Option<&'a Point>,
    /// The transaction in progress, if its own process is dead.
    pub interrupted: Option<&'a Transaction>,
    /// Images on disk.
    pub images: &'a [ImageId],
    /// Snapshots that are whole, with the image that each says to be of.
    pub snapshots: &'a [(SnapshotId, ImageId)],
    /// Names and makers of the appliance's workloads.
    pub workloads: &'a [(String, Image)],
    /// The appliance answers, and is the release that `current` says.
    pub ready: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Begin it.
    Begin,
    /// That release is there already.
    Nothing,
}

/// What somebody wants of an appliance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wish {
    Upgrade,
    Resume,
    RollBack,
    /// That it runs, or is left alone in good order.
    Start,
}

/// What comes first, where a transaction was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TakeUp {
    /// Go on to the end of the way it is on, then see to the wish.
    GoOn,
    /// Undo it, then see to the wish.
    Undo,
    /// Take it forward again from its snapshot, if [`may_resume`] lets: that is the wish.
    Again,
    /// Undo it, or go on doing so: that is the wish.
    UndoOnly,
    Refuse,
}

/// What a wish means for an interrupted transaction. One that had not changed anything is cleared away by any wish, one
/// that is over is finished by any.
pub fn take_up(wish: Wish, transaction: &Transaction) -> TakeUp {
    let back = transaction.way == Way::Back;
    // From then on the old release may have run, and written: going back to the snapshot again would lose that.
    let returned = back && transaction.done.contains(&Step::Revert);
    match wish {
        _ if transaction.committed => TakeUp::GoOn,
        Wish::RollBack if back && transaction.snapshot_taken => TakeUp::UndoOnly,
        _ if returned => TakeUp::GoOn,
        _ if !transaction.snapshot_taken && back => TakeUp::GoOn,
        _ if !transaction.snapshot_taken => TakeUp::Undo,
        Wish::Resume => TakeUp::Again,
        Wish::RollBack if transaction.begin.kind == Kind::Rollback && !back => TakeUp::Again,
        Wish::RollBack => TakeUp::UndoOnly,
        Wish::Upgrade if back => TakeUp::GoOn,
        Wish::Upgrade => TakeUp::Refuse,
        Wish::Start => match recovery(transaction) {
            Recovery::GoOn => TakeUp::GoOn,
            Recovery::Undo => TakeUp::Undo,
        },
    }
}

/// How an interrupted transaction goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// The new release serves already: only the books are behind.
    Commit,
    /// Back to the snapshot, and forward from there.
    Again,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{asked} is older than {current}, which is there")]
    Older { asked: String, current: String, point: Option<String> },
    #[error("{asked} has the build id of {current}, which is there, and other content")]
    SameBuild { asked: String, current: String },
    #[error("an upgrade from {from} to {to} was interrupted")]
    Interrupted { from: String, to: String },
    #[error("nothing is in progress: {current} is in force")]
    NothingToResume { current: String },
    #[error("there is no release to go back to: {current} is in force")]
    NoPoint { current: String },
    #[error("the rollback point is not one of {current}, which is in force: it was left for {left_for}")]
    OtherPoint { current: String, left_for: String },
    #[error("the snapshot {snapshot} of {release} is gone")]
    SnapshotGone { snapshot: SnapshotId, release: String },
    #[error("the snapshot {snapshot} is of {found}, not of {release}")]
    OtherSnapshot { snapshot: SnapshotId, found: ImageId, release: String },
    #[error("the image of {release} is gone")]
    ImageGone { release: String },
    #[error("workloads made by a release newer than {release} exist: {}", names.join(", "))]
    NewerWorkloads { release: String, names: Vec<String> },
}

impl Refusal {
    pub fn exit(&self) -> Exit {
        match self {
            Self::NothingToResume { .. } | Self::NoPoint { .. } => Exit::NotFound,
            _ => Exit::Refused,
        }
    }

    /// The way out; `name` is the appliance's.
    pub fn hint(&self, name: &str) -> String {
        match self {
            Self::Older { asked, point: Some(point), .. } if asked == point => {
                format!("`holdfast upgrade {name} --rollback` leads back to it")
            }
            Self::Older { .. } => "a newer release has a larger build id".to_owned(),
            Self::SameBuild { .. } => "give the release a build id of its own".to_owned(),
            Self::Interrupted { .. } => format!(
                "`holdfast upgrade {name} --resume` finishes it, `holdfast upgrade {name} --rollback` undoes it"
            ),
            Self::NothingToResume { .. } => {
                format!("`holdfast upgrade {name} --release REF` begins an upgrade")
            }
            Self::NoPoint { .. } => "one step back is possible after an upgrade, once".to_owned(),
            Self::OtherPoint { .. } | Self::SnapshotGone { .. } | Self::OtherSnapshot { .. } => {
                format!(
                    "upgrade to a good release instead; `holdfast appliance inspect {name}` shows what is there"
                )
            }
            Self::ImageGone { .. } => {
                "bring a release with a larger build id; without its image the old one cannot run".to_owned()
            }
            Self::NewerWorkloads { names, .. } => format!(
                "`holdfast appliance workload rm {name} {}` removes them",
                names.first().map(String::as_str).unwrap_or_default()
            ),
        }
    }
}

fn interrupted(transaction: &Transaction) -> Refusal {
    let begin = &transaction.begin;
    Refusal::Interrupted { from: begin.from.version.to_string(), to: begin.to.version.to_string() }
}

/// Whether an upgrade to an image may begin. Whatever was interrupted before it had changed anything has been cleared
/// away by now.
pub fn may_upgrade(present: &Present<'_>, to: &Image) -> Result<Ask, Refusal> {
    if let Some(transaction) = present.interrupted {
        return Err(interrupted(transaction));
    }
    let (asked, current) = (to.version.to_string(), present.current.version.to_string());
    match to.version.age(&present.current.version) {
        Ordering::Equal if to.id == present.current.id => Ok(Ask::Nothing),
        Ordering::Equal => Err(Refusal::SameBuild { asked, current }),
        Ordering::Less => {
            let point = present.point.map(|point| point.image.version.to_string());
            Err(Refusal::Older { asked, current, point })
        }
        Ordering::Greater => Ok(Ask::Begin),
    }
}

/// Where a rollback leads. An interrupted upgrade is undone instead, and asked about with its own snapshot.
pub fn may_roll_back<'a>(present: &Present<'a>) -> Result<&'a Point, Refusal> {
    let current = present.current.version.to_string();
    let point = present.point.ok_or_else(|| Refusal::NoPoint { current: current.clone() })?;
    if point.left_for.id != present.current.id {
        let left_for = point.left_for.version.to_string();
        return Err(Refusal::OtherPoint { current, left_for });
    }
    can_return(present, &point.snapshot, &point.image)?;
    Ok(point)
}

/// Whether an interrupted transaction may be taken forward again.
pub fn may_resume(present: &Present<'_>) -> Result<Begun, Refusal> {
    let nothing = || Refusal::NothingToResume { current: present.current.version.to_string() };
    let transaction =
        present.interrupted.filter(|transaction| transaction.snapshot_taken).ok_or_else(nothing)?;
    let begin = &transaction.begin;
    if present.ready && present.current.id == begin.to.id && recovery(transaction) == Recovery::GoOn {
        return Ok(Begun::Commit);
    }
    match begin.kind {
        Kind::Upgrade => can_return(present, &begin.snapshot, &begin.from)?,
        Kind::Rollback => {
            let point = begin.point.as_ref().ok_or_else(nothing)?;
            can_return(present, &point.snapshot, &point.image)?;
        }
    }
    Ok(Begun::Again)
}

/// What it takes to go back to a snapshot: the snapshot, the release it is of, and nothing that only a newer release
/// understands.
pub(super) fn can_return(present: &Present<'_>, snapshot: &SnapshotId, image: &Image) -> Result<(), Refusal> {
    let release = image.version.to_string();
    match present.snapshots.iter().find(|(id, _)| id == snapshot) {
        None => return Err(Refusal::SnapshotGone { snapshot: snapshot.clone(), release }),
        Some((_, of)) if *of != image.id => {
            return Err(Refusal::OtherSnapshot { snapshot: snapshot.clone(), found: of.clone(), release });
        }
        Some(_) => {}
    }
    if !present.images.contains(&image.id) {
        return Err(Refusal::ImageGone { release });
    }
    let newer = present.workloads.iter().filter(|(_, maker)| maker.version.is_newer_than(&image.version));
    let names: Vec<String> = newer.map(|(name, _)| name.clone()).collect();
    if names.is_empty() { Ok(()) } else { Err(Refusal::NewerWorkloads { release, names }) }
}
