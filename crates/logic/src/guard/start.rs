//! May the workload start now? What `run` asks, after `pre-run` and whatever an administrator has done since.

use serde::Serialize;

use super::boots::{PreRun, Seq};
use super::data::{Data, DataState, Recorded};
use super::observed::Observed;
use crate::version::{Fit, Version, fit};

/// Why the workload may not start. In each case another `pre-run` helps, or says what does.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case", tag = "because")]
pub enum NotReady {
    #[error("this boot has not been prepared")]
    NotPrepared,
    #[error("something was interrupted and not yet recovered")]
    Unfinished,
    #[error("the data is of {data}, the program is {program}")]
    Misfit { data: Version, program: Version },
    /// It was unjudged, or worse, when this boot was prepared; the workload would change the only copy.
    #[error("the data was found healthy since this boot was prepared, and there is no backup of it")]
    VouchedSince,
}

/// The number of this boot, if the workload may start in it.
pub fn may_start(seen: &Observed) -> Result<Seq, NotReady> {
    let boot = seen.boots.find(&seen.boot, &seen.host.booted).ok_or(NotReady::NotPrepared)?;
    if boot.pre_run != PreRun::Ready {
        return Err(NotReady::NotPrepared);
    }
    if seen.unfinished.is_some() {
        return Err(NotReady::Unfinished);
    }
    let record = match &seen.data {
        Data::Absent => return Ok(boot.seq),
        // A boot that started clean may have left files without a record if it was cut off right there.
        Data::Present(Recorded::Missing) if boot.ran => return Ok(boot.seq),
        Data::Present(Recorded::Known(record)) if record.state == DataState::Ok => record,
        Data::Present(_) => return Err(NotReady::NotPrepared),
    };
    if fit(&record.version, &seen.program, seen.policy.max_skew, &seen.policy.blocked) != Fit::AsIs {
        let (data, program) = (record.version.clone(), seen.program.clone());
        return Err(NotReady::Misfit { data, program });
    }
    let owner = record.owner.seq.and_then(|seq| seen.boots.get(seq));
    let is_owed = owner.is_some_and(|owner| owner.seq != boot.seq && owner.vouched);
    if is_owed && seen.copies.kept_copy_of(record, &seen.boots).is_none() {
        return Err(NotReady::VouchedSince);
    }
    Ok(boot.seq)
}
