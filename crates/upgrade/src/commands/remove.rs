//! Removing an appliance, with all that it has.

use crate::appliance::Held;
use crate::error::{Error, Result};
use crate::transaction::remove_tree;
use crate::workload;

/// One that runs or has workloads is removed only by `force`.
pub fn remove(held: Held, force: bool) -> Result<()> {
    let Held { appliance, .. } = &held;
    let (name, layout) = (appliance.identity.name.clone(), appliance.layout.clone());
    let workloads = workload::list(&layout)?;
    let on = appliance.backend.describe()?.on;
    if !force && (on || !workloads.is_empty()) {
        let why = match on {
            true => format!("{name} runs"),
            false => format!("{name} has {} workloads", workloads.len()),
        };
        let hint =
            format!("`holdfast appliance stop {name}` stops it; --force removes it with all that it has");
        return Err(Error::Rule { why, hint });
    }
    for record in &workloads {
        workload::stop(&layout, &record.name)?;
    }
    appliance.backend.power_off()?;
    // From here on it does not exist; the rest is tidying.
    let path = layout.appliance();
    std::fs::remove_file(&path).map_err(|e| disk::Error::io(disk::Operation::Remove, &path, e))?;
    disk::durable::sync_dir(layout.root())?;
    remove_tree(layout.root())
}
