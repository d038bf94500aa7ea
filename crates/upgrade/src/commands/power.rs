//! Starting and stopping. A start finishes or undoes what was interrupted.

use logic::upgrade::Wish;

use super::take_up::first;
use crate::appliance::Held;
use crate::error::{Error, Result};
use crate::transaction::{Options, Witness};

/// Runs and is ready when this returns. True: it was not on before.
pub fn start(held: &mut Held, options: &Options, witness: &dyn Witness) -> Result<bool> {
    first(held, Wish::Start, options, witness)?;
    held.appliance.want(true)?;
    let backend = &held.appliance.backend;
    let was_on = backend.describe()?.on;
    if !was_on {
        backend.power_on()?;
    }
    backend.wait_ready(options.timeout, witness.stop())?;
    Ok(!was_on)
}

/// Nothing of it runs when this returns; its workloads do. True: it was on before.
///
/// `for_good`: it stays off when the machine starts again.
pub fn stop(held: &mut Held, for_good: bool, options: &Options, witness: &dyn Witness) -> Result<bool> {
    match first(held, Wish::Start, options, witness) {
        // It is not in good order, and can be stopped all the same.
        Err(error @ Error::Stuck { .. }) => witness.note(&crate::transaction::chain(&error)),
        other => drop(other?),
    }
    if for_good {
        held.appliance.want(false)?;
    }
    let was_on = held.appliance.backend.describe()?.on;
    held.appliance.backend.power_off()?;
    Ok(was_on)
}
