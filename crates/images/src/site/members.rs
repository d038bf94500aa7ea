//! Managers that join from other machines, and say again and again that they are there.

use logic::images::{
    BackingImageManager, Disk, DiskSpec, ManagerSpec, ManagerState, NodeName, Process, Role as Kind,
    manager_name,
};
use tracing::info;
use wire::site::{Join, Joined, Register, Registered};

use super::disks::moved_managers;
use super::kinds::{Disks, Managers};
use super::rest::{Failure, Reason};
use super::state::{Shared, fresh_report, now};
use crate::identity::Role;

/// Seconds between registrations.
const AGAIN_AFTER: u64 = 5;
const LONGEST_TEXT: usize = 4096;

/// A certificate for a manager. Who asks was checked before.
pub(super) fn join(shared: &Shared, request: &Join) -> Result<Joined, Failure> {
    not_this_machine(shared, &request.node)?;
    let role = Role::Manager(request.disk.clone());
    let certificate = shared
        .authority
        .issue(&request.request, &role, &[request.node.to_string()])
        .map_err(|error| Failure::new(Reason::Invalid, error.to_string()).hint(error.hint()))?;
    info!(disk = %request.disk, node = %request.node, "a manager joined");
    Ok(Joined { certificate, authority: shared.authority.pem().to_owned() })
}

/// Disks of the site's own machine are looked after by its own processes: what joins under its name would be taken for one of
/// them, and never be used.
fn not_this_machine(shared: &Shared, node: &NodeName) -> Result<(), Failure> {
    if *node != shared.view().rules.node {
        return Ok(());
    }
    let text = format!("the site's own machine is called {node}");
    Err(Failure::new(Reason::Refused, text).hint(
        "give the manager another name with --node NAME; a disk of the site's machine is given to `image serve` with --disk",
    ))
}

/// `from`: the disk of the caller's certificate.
pub(super) async fn register(shared: &Shared, from: &Role, request: Register) -> Result<Registered, Failure> {
    if *from != Role::Manager(request.disk.clone()) {
        let text = format!("the certificate is for {from}, not for disk {}", request.disk);
        return Err(
            Failure::new(Reason::Forbidden, text).hint("join with a token for the disk that is there now")
        );
    }
    not_this_machine(shared, &request.node)?;
    let (oldest, newest) = shared.view().rules.api;
    if request.api_version < oldest || request.api_min_version > newest {
        let text = format!(
            "the manager speaks API {} to {}, this site {oldest} to {newest}",
            request.api_min_version, request.api_version
        );
        return Err(Failure::new(Reason::Refused, text)
            .hint(format!("run Holdfast {} there", shared.view().rules.program.version)));
    }
    let long = [&request.path, &request.address, &request.program.path, &request.program.version];
    if long.iter().any(|text| text.len() > LONGEST_TEXT) {
        return Err(Failure::new(Reason::Invalid, "a text of the registration is too long"));
    }
    let _admission = shared.admission.lock().await;
    place(shared, &request).await?;
    let name = manager_name(&request.disk, &request.program);
    let known = shared.view().site.managers.get(&name).cloned();
    let wanted = match known {
        Some(manager) if manager.is_deleted() => false,
        Some(_) => {
            heard(shared, &name, &request);
            true
        }
        None => admit(shared, &name, &request).await?,
    };
    Ok(Registered { wanted, again_after: AGAIN_AFTER })
}

/// The disk is where its manager says. A disk that answers in one place can't be in another.
async fn place(shared: &Shared, request: &Register) -> Result<(), Failure> {
    let spec = DiskSpec { node: request.node.clone(), path: request.path.clone() };
    let known = shared.view().site.disks.get(&request.disk).cloned();
    let disk = match known {
        None => shared.disks.create(&Disk::new(request.disk.as_str(), spec)).await?,
        Some(disk) if disk.spec == spec => return Ok(()),
        Some(disk) => {
            let answers = shared.view().site.managers_of(&request.disk).any(|(_, manager)| {
                manager.spec.node != request.node && manager.status.state == ManagerState::Running
            });
            if answers {
                let text = format!("disk {} is on node {}, and answers there", request.disk, disk.spec.node);
                return Err(Failure::new(Reason::Conflict, text)
                    .hint("if the disk was copied, remove holdfast-disk.cfg from the copy; if it moved, wait a moment"));
            }
            info!(disk = %request.disk, from = %disk.spec.node, to = %request.node, "a disk has moved");
            shared.disks.update_spec(&Disk { spec, ..disk }).await?
        }
    };
    moved_managers(shared, &request.disk, &disk).await?;
    shared.adopt::<Disks>(&request.disk, disk);
    Ok(())
}

fn heard(shared: &Shared, name: &str, request: &Register) {
    let mut view = shared.view();
    let report = view.site.reports.entry(name.to_owned()).or_insert_with(|| fresh_report(Process::Elsewhere));
    // Its disk was here before: a child of this process registers with nobody.
    if !matches!(report.process, Process::Elsewhere) {
        *report = fresh_report(Process::Elsewhere);
        shared.children.stop(name);
    }
    let moved = report.address.as_deref() != Some(request.address.as_str());
    if moved {
        // Another process, at least: what was heard of the one before does not count, and time to answer begins.
        *report = fresh_report(Process::Elsewhere);
        report.address = Some(request.address.clone());
        report.heard = now();
        drop(view);
        shared.wake.notify_one();
    }
}

/// A manager that was not known. An old one is of use only if its disk has no default one yet.
async fn admit(shared: &Shared, name: &str, request: &Register) -> Result<bool, Failure> {
    let spec = ManagerSpec {
        disk: request.disk.clone(),
        path: request.path.clone(),
        node: request.node.clone(),
        program: request.program.clone(),
        images: std::collections::BTreeMap::new(),
        removed: std::collections::BTreeMap::new(),
    };
    let mut object = BackingImageManager::new(name, spec);
    {
        let view = shared.view();
        let default = view.site.default_of(&view.rules, &request.disk);
        if let Some((other, manager)) = default {
            if view.rules.role(&object) != Kind::Default {
                return Ok(false);
            }
            if manager.status.state == ManagerState::Running {
                let text = format!("disk {} has the default manager {other} already", request.disk);
                return Err(
                    Failure::new(Reason::Conflict, text).hint("run one manager of a version on a disk")
                );
            }
        }
        // It begins with what the ones before were to have and to remove.
        for (_, before) in view.site.managers_of(&request.disk) {
            object.spec.images.extend(before.spec.images.clone());
            object.spec.removed.extend(before.spec.removed.clone());
        }
    }
    let object = shared.managers.create(&object).await?;
    info!(manager = name, node = %request.node, version = %request.program.version, "a manager registered");
    shared.view().site.reports.insert(name.to_owned(), fresh_report(Process::Elsewhere));
    heard(shared, name, request);
    shared.adopt::<Managers>(&name.to_owned(), object);
    Ok(true)
}
