//! Changing the configuration of an appliance.

use std::sync::atomic::Ordering;

use logic::upgrade::Wish;
use serde_json::{Map, Value};

use super::take_up::first;
use super::upgrade::can_be_started;
use crate::appliance::Held;
use crate::error::{Error, Result};
use crate::transaction::{Options, Witness, tidy};

#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// Secrets as `{"$secret": TEXT}`.
    pub set: Map<String, Value>,
    pub unset: Vec<String>,
    /// Start it again with the new configuration, and put the old one back if it does not become ready.
    pub restart: bool,
}

/// True: the new configuration is in use.
pub fn configure(
    held: &mut Held,
    changes: &Changes,
    options: &Options,
    witness: &dyn Witness,
) -> Result<bool> {
    first(held, Wish::Start, options, witness)?;
    let appliance = &held.appliance;
    let before = appliance.configuration()?;
    let mut after = before.clone();
    for key in &changes.unset {
        after.values.remove(key);
    }
    after.values.extend(changes.set.clone());
    if after == before && !changes.restart {
        return Ok(true);
    }
    let manifest = appliance.manifest(&before.release.id)?;
    let release = appliance.layout.release(&before.release.id);
    can_be_started(&manifest, &release, &after, appliance)?;
    after.save(&appliance.layout)?;
    let on = appliance.backend.describe()?.on;
    if on && changes.restart {
        let restart = || -> Result<()> {
            appliance.backend.power_off()?;
            appliance.backend.power_on()?;
            Ok(appliance.backend.wait_ready(options.timeout, witness.stop())?)
        };
        if let Err(error) = restart() {
            witness.note("it does not become ready with it; putting the old configuration back");
            before.save(&appliance.layout)?;
            appliance.backend.power_off()?;
            appliance.backend.power_on()?;
            appliance.backend.wait_ready(options.timeout, witness.abandon())?;
            tidy(appliance)?;
            let why = crate::transaction::chain(&error);
            if witness.stop().load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            let hint = "the old configuration is in force; the appliance's log says more".to_owned();
            return Err(Error::Rule { why: format!("it is not ready with this configuration: {why}"), hint });
        }
    }
    tidy(appliance)?;
    Ok(!on || changes.restart)
}
