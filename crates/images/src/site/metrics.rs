//! What a site counts, and its page of metrics.

use logic::images::{FileState, ManagerState};
use service::{Counter, Page};

use super::state::Shared;

#[derive(Debug, Default)]
pub(super) struct Metrics {
    pub passes: Counter,
    pub conflicts: Counter,
    pub calls: Counter,
    pub calls_failed: Counter,
    pub hand_overs: Counter,
    pub starts: Counter,
    pub requests: Counter,
    pub requests_refused: Counter,
}

pub(super) fn page(shared: &Shared) -> String {
    let mut page = Page::new("holdfast_images");
    let metrics = &shared.metrics;
    for (name, counter, help) in [
        ("passes_total", &metrics.passes, "Looks at the whole site."),
        ("conflicts_total", &metrics.conflicts, "Writes that somebody else was faster with."),
        ("calls_total", &metrics.calls, "Calls of managers."),
        ("calls_failed_total", &metrics.calls_failed, "Calls of managers that failed."),
        ("hand_overs_total", &metrics.hand_overs, "Hand-overs from old managers."),
        ("manager_starts_total", &metrics.starts, "Manager processes started on this machine."),
        ("requests_total", &metrics.requests, "Requests to the API."),
        ("requests_refused_total", &metrics.requests_refused, "Requests without a good token."),
    ] {
        page.head(name, "counter", help);
        page.line(name, &[], counter.get());
    }
    let view = shared.view();
    page.head("managers", "gauge", "Managers by their state.");
    for state in ManagerState::ALL {
        let count = view.site.managers.values().filter(|manager| manager.status.state == state).count();
        page.line("managers", &[("state", state.name())], count);
    }
    page.head("copies", "gauge", "Copies of images on disks by their state.");
    for state in FileState::ALL {
        let disks = view.site.images.values().flat_map(|image| image.status.disks.values());
        page.line("copies", &[("state", state.name())], disks.filter(|disk| disk.state == state).count());
    }
    page.head("images", "gauge", "Images.");
    page.line("images", &[], view.site.images.len());
    page.head("volumes", "gauge", "Volumes.");
    page.line("volumes", &[], view.site.volumes.len());
    page.head("disk_free_bytes", "gauge", "Free bytes of disks.");
    for (id, disk) in &view.site.disks {
        page.line(
            "disk_free_bytes",
            &[("disk", id.as_str()), ("node", disk.spec.node.as_str())],
            disk.status.free,
        );
    }
    page.finish()
}
