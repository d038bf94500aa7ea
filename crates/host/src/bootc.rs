//! `bootc status --json`: `org.containers.bootc/v1` and the `v1alpha1` before it, on ostree or composefs. Pure.
//!
//! With ostree, a deployment is named as ostree does: `<stateroot>-<checksum>.<serial>`. With composefs there
//! is neither stateroot nor serial: the digest of the image is the whole identity (bootc keeps one state
//! directory per digest), so the name is `composefs-<digest>`.

use serde::Deserialize;

use crate::error::{Error, json};
use crate::listing::{Entry, Listing, malformed};

const ORIGIN: &str = "the output of bootc status";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    api_version: String,
    kind: String,
    #[serde(default)]
    spec: Spec,
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Spec {
    boot_order: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    staged: Option<BootEntry>,
    booted: Option<BootEntry>,
    rollback: Option<BootEntry>,
    #[serde(default)]
    other_deployments: Vec<BootEntry>,
    #[serde(default)]
    rollback_queued: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BootEntry {
    #[serde(default)]
    pinned: bool,
    ostree: Option<Ostree>,
    composefs: Option<Composefs>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ostree {
    /// Not there in early versions.
    stateroot: Option<String>,
    checksum: String,
    deploy_serial: u32,
}

#[derive(Deserialize)]
struct Composefs {
    verity: String,
}

/// `osname` is the name in the kernel's `ostree=` argument, for the old layout that does not say it; without
/// either the name is not guessed, since it becomes part of what backups are filed under.
pub fn parse_bootc(text: &str, osname: Option<&str>) -> Result<Listing, Error> {
    let document: Document = json(ORIGIN, text)?;
    if document.kind != "BootcHost" || !document.api_version.starts_with("org.containers.bootc/v1") {
        let Document { api_version, kind, .. } = document;
        return Err(malformed(ORIGIN, format!("it is a {kind} of {api_version}, not a BootcHost of v1")));
    }
    let status = document.status;
    let named = |entry: BootEntry| named(entry, osname);
    let staged = status.staged.map(named).transpose()?.map(|entry| Entry { staged: true, ..entry });
    let booted = status.booted.map(named).transpose()?.map(|entry| Entry { booted: true, ..entry });
    let rollback = status.rollback.map(named).transpose()?.map(|entry| Entry { rollback: true, ..entry });
    let others = status.other_deployments.into_iter().map(named).collect::<Result<Vec<_>, _>>()?;

    // Slots, not a list: a queued rollback is what boots next, otherwise the staged one is.
    let queued = status.rollback_queued || document.spec.boot_order.as_deref() == Some("rollback");
    let order = if queued { [rollback, staged, booted] } else { [staged, booted, rollback] };
    Listing::new(ORIGIN, order.into_iter().flatten().chain(others).collect())
}

fn named(entry: BootEntry, osname: Option<&str>) -> Result<Entry, Error> {
    let (id, osname) = match (entry.ostree, entry.composefs) {
        (Some(ostree), _) => {
            let Some(osname) = ostree.stateroot.or(osname.map(str::to_owned)) else {
                let what = "it does not name the stateroot, nor does the kernel command line";
                return Err(malformed(ORIGIN, what.to_owned()));
            };
            (format!("{osname}-{}.{}", ostree.checksum, ostree.deploy_serial), Some(osname))
        }
        (None, Some(composefs)) => (format!("composefs-{}", composefs.verity), None),
        (None, None) => {
            return Err(malformed(ORIGIN, "a deployment has neither ostree nor composefs".to_owned()));
        }
    };
    Ok(Entry { pinned: entry.pinned, ..Entry::new(ORIGIN, id, osname)? })
}
