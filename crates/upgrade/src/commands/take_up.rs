//! What comes first where a transaction was interrupted, and what is observed to decide on the rest.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use logic::upgrade::{Image, ImageId, Point, Present, SnapshotId, TakeUp, Transaction, Way, Wish, take_up};

use crate::appliance::{Appliance, Held};
use crate::error::Result;
use crate::transaction::{Carrier, End, Options, Witness, tidy};
use crate::workload;

/// Long enough for an appliance that is ready to say so.
const A_MOMENT: Duration = Duration::from_secs(3);

/// What became of an interrupted transaction before the wish itself is seen to.
pub(super) enum First {
    /// There is none (any more).
    Clear(Option<End>),
    /// That was the wish.
    Done(End),
    /// The wish is to take it forward again.
    Again,
    Refused,
}

pub(super) fn first(held: &mut Held, wish: Wish, options: &Options, witness: &dyn Witness) -> Result<First> {
    let Some(transaction) = &held.interrupted else {
        // What a process that died before it began anything has left.
        tidy(&held.appliance)?;
        return Ok(First::Clear(None));
    };
    let what = take_up(wish, transaction);
    let untouched = !transaction.power_touched;
    match what {
        TakeUp::Refuse => return Ok(First::Refused),
        TakeUp::Again => return Ok(First::Again),
        TakeUp::GoOn | TakeUp::Undo | TakeUp::UndoOnly => {}
    }
    let verb = match (what, transaction.way, transaction.committed) {
        (_, _, true) => "finishing",
        (TakeUp::GoOn, Way::Forward | Way::Again, _) => "going on with",
        _ => "undoing",
    };
    if !untouched {
        let (from, to) = (&transaction.begin.from.version, &transaction.begin.to.version);
        witness.note(&format!("{verb} what was interrupted: from {from} to {to}"));
    }
    let mut carrier = Carrier::take_over(held, options, witness)?;
    if what != TakeUp::GoOn {
        carrier.undo("it was interrupted")?;
    }
    let end = carrier.run()?;
    Ok(if what == TakeUp::UndoOnly { First::Done(end) } else { First::Clear(Some(end)) })
}

/// What there is, owned; [`Observed::present`] is what `logic` is asked with.
pub(super) struct Observed {
    pub current: Image,
    pub on: bool,
    pub point: Option<Point>,
    images: Vec<ImageId>,
    snapshots: Vec<(SnapshotId, ImageId)>,
    workloads: Vec<(String, Image)>,
    pub ready: bool,
}

pub(super) fn observe(appliance: &Appliance) -> Result<Observed> {
    let description = appliance.backend.describe()?;
    let workloads = workload::list(&appliance.layout)?;
    Ok(Observed {
        current: appliance.current()?,
        // One that should run and does not (its supervisor was killed) is one that runs: what is asked of it is proved.
        on: description.on || appliance.identity.wanted_on,
        point: appliance.point()?,
        images: description.images,
        snapshots: description.snapshots.into_iter().filter_map(|it| Some((it.id, it.image?))).collect(),
        workloads: workloads.into_iter().map(|record| (record.name.to_string(), record.release)).collect(),
        ready: false,
    })
}

impl Observed {
    pub fn present<'a>(&'a self, interrupted: Option<&'a Transaction>) -> Present<'a> {
        Present {
            current: &self.current,
            point: self.point.as_ref(),
            interrupted,
            images: &self.images,
            snapshots: &self.snapshots,
            workloads: &self.workloads,
            ready: self.ready,
        }
    }

    /// Asks the appliance, too.
    pub fn with_readiness(mut self, appliance: &Appliance) -> Self {
        let never = AtomicBool::new(false);
        let on = appliance.backend.describe().is_ok_and(|description| description.on);
        self.ready = on && appliance.backend.wait_ready(Some(A_MOMENT), &never).is_ok();
        self
    }
}
