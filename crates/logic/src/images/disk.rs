//! The disk controller: whether a disk can be worked with, how full it is, and when it is forgotten.

use super::{Disk, DiskId, DiskStatus, ManagerState, Rules, Site, Step};

/// Free space is shown in steps of this, so that it is not written down at every block.
const COARSE: u64 = 16 << 20;

pub fn next(site: &Site, rules: &Rules, id: &DiskId) -> Option<Step> {
    let disk = site.disks.get(id)?;
    if disk.is_deleted() {
        let wanted = site.images.values().any(|image| image.spec.disks.contains(id));
        let used = site.volumes.values().any(|volume| volume.spec.disk == *id);
        let managed = site.managers_of(id).next().is_some();
        return (!wanted && !used && !managed).then(|| Step::RemoveDisk(id.clone()));
    }
    let status = status(site, rules, id, disk);
    (status != disk.status).then(|| Step::SetDiskStatus(id.clone(), status))
}

fn status(site: &Site, rules: &Rules, id: &DiskId, disk: &Disk) -> DiskStatus {
    let (ready, reason) = if disk.spec.node == rules.node {
        match site.probes.get(id) {
            Some(Ok(())) => (true, String::new()),
            Some(Err(why)) => (false, why.clone()),
            None => (false, "it is not configured on this machine now".to_owned()),
        }
    } else {
        let answers = |state: ManagerState| state == ManagerState::Running;
        match site.managers_of(id).any(|(_, manager)| answers(manager.status.state)) {
            true => (true, String::new()),
            false => (false, "no manager of this disk answers".to_owned()),
        }
    };
    let mut spaces = site.managers_of(id).filter_map(|(key, _)| site.reports.get(key)?.space);
    let (free, size) = spaces.next().unwrap_or((disk.status.free, disk.status.size));
    DiskStatus { ready, reason, free: free / COARSE * COARSE, size }
}
