//! What the admin port of a manager shows.

use std::sync::Arc;

use http::StatusCode;
use logic::images::FileState;
use service::Page;
use service::admin::Pages;

use super::service::Manager;

pub fn pages(manager: Arc<Manager>) -> impl Pages {
    move |path| match path {
        "/livez" => Some((StatusCode::OK, "ok\n".to_owned())),
        "/readyz" if manager.stopping.is_cancelled() => {
            Some((StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned()))
        }
        "/readyz" => match manager.registry.disk.check() {
            Ok(()) => Some((StatusCode::OK, "ok\n".to_owned())),
            Err(error) => Some((StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n"))),
        },
        "/metrics" => Some((StatusCode::OK, metrics(&manager))),
        _ => None,
    }
}

fn metrics(manager: &Manager) -> String {
    let statuses: Vec<_> = manager
        .registry
        .all()
        .into_iter()
        .map(|entry| entry.status(manager.work.sending(&entry.id)))
        .collect();
    let mut page = Page::new("holdfast_images");
    page.head("images", "gauge", "Images of this disk, by state.");
    for state in FileState::ALL {
        let count = statuses.iter().filter(|status| status.state == state).count();
        page.line("images", &[("state", state.name())], count);
    }
    let sum = |of: fn(&logic::images::FileStatus) -> u64| statuses.iter().map(of).sum::<u64>();
    page.head("verified_bytes", "gauge", "Bytes of images that are here, verified.");
    page.line("verified_bytes", &[], sum(|status| status.bytes));
    page.head("receiving_bytes_per_second", "gauge", "How fast bytes come, over all images.");
    page.line("receiving_bytes_per_second", &[], sum(|status| status.rate));
    page.head("sends", "gauge", "Sends under way.");
    page.line("sends", &[], sum(|status| u64::from(status.sending)));
    if let Ok(room) = manager.registry.disk.room() {
        page.head("disk_free_bytes", "gauge", "Free on the disk.");
        page.line("disk_free_bytes", &[], room.free);
    }
    page.finish()
}
