//! The names of what happens, for the path to a counter-example.

use logic::guard::{Branch, Effect, Seq, Wanted};

use super::cast::Listing;

/// How something that takes several effects ended: at which of them, counted from 0, and what that one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Done,
    PowerLostBefore(u8, &'static str),
    PowerLostInside(u8, &'static str),
    KilledBefore(u8, &'static str),
    KilledInside(u8, &'static str),
    Failed(u8, &'static str),
    FailedInside(u8, &'static str),
    FailedAndUndone(u8, &'static str),
    FailedInsideAndUndone(u8, &'static str),
}

#[derive(Debug, Clone)]
#[expect(dead_code, reason = "the fields are there to be printed")]
pub enum Event {
    Boot(usize),
    SoftReboot(usize),
    Reboot,
    PreRun { listing: Listing, branch: Branch, end: End },
    Run(End),
    Healthy { listing: Listing, prune: End },
    Unhealthy,
    Prune { listing: Listing, end: End },
    MarkAsHealthy(usize),
    RestoreNow { wanted: Wanted, end: End },
    RestoreOnNextBoot(Wanted),
    CancelRestore,
    RemoveDataByHand,
    CopyBackupByHand(Seq),
}

pub fn name_of(effect: &Effect) -> &'static str {
    match effect {
        Effect::RecordBoot { .. } => "RecordBoot",
        Effect::Begin(_) => "Begin",
        Effect::End => "End",
        Effect::Build { .. } => "Build",
        Effect::Commit(_) => "Commit",
        Effect::Relabel { .. } => "Relabel",
        Effect::Forget { .. } => "Forget",
        Effect::Move { .. } => "Move",
        Effect::Exchange { .. } => "Exchange",
        Effect::Remove { .. } => "Remove",
        Effect::StampAssumed { .. } => "StampAssumed",
        Effect::StampMigrating { .. } => "StampMigrating",
        Effect::RunMigration { .. } => "RunMigration",
        Effect::StampMigrated { .. } => "StampMigrated",
        Effect::PinRequest { .. } => "PinRequest",
        Effect::ClearRequest => "ClearRequest",
        Effect::FinishPreRun { .. } => "FinishPreRun",
    }
}
