//! How images and disks are shown.

use std::collections::BTreeMap;

use logic::images::{
    BackingImage, BackingImageManager, Disk, FileState, Format, ManagerState, OnDisk, Source,
};
use serde::Serialize;

use crate::output::{Show, bytes, fields, table};

fn format_name(format: Option<Format>) -> &'static str {
    match format {
        Some(Format::Raw) => "raw",
        Some(Format::Qcow2) => "qcow2",
        None => "",
    }
}

fn source(image: &BackingImage) -> String {
    match &image.spec.source {
        Source::Url { url } => url.clone(),
        Source::Upload {} => "upload".to_owned(),
    }
}

/// In a few words: on how many disks, and what goes on.
pub fn summary(image: &BackingImage) -> String {
    if image.metadata.deletion_timestamp.is_some() {
        return "being removed".to_owned();
    }
    let wanted = image.spec.disks.len();
    if wanted == 0 && image.status.disks.is_empty() {
        return "on no disk yet".to_owned();
    }
    let count = |state| image.status.disks.values().filter(|on| on.state == state).count();
    let mut parts = vec![format!("downloaded {}/{wanted}", count(FileState::Downloaded))];
    for (state, name) in [
        (FileState::Downloading, "downloading"),
        (FileState::Failed, "failed"),
        (FileState::Unknown, "unknown"),
    ] {
        match count(state) {
            0 => {}
            number => parts.push(format!("{name} {number}")),
        }
    }
    parts.join(", ")
}

#[derive(Serialize)]
pub struct ImageList {
    items: Vec<BackingImage>,
}

impl ImageList {
    pub fn of(items: Vec<BackingImage>) -> Self {
        Self { items }
    }
}

impl Show for ImageList {
    const KIND: &'static str = "BackingImageList";

    fn table(&self, wide: bool) -> String {
        let row = |image: &BackingImage| {
            let size = image.status.seal.as_ref().map_or_else(String::new, |seal| bytes(seal.size));
            let format = format_name(image.status.format.or(image.spec.format)).to_owned();
            let mut row = vec![image.metadata.name.clone(), summary(image), size, format, source(image)];
            if wide {
                row.insert(1, image.status.uuid.as_ref().map_or_else(String::new, ToString::to_string));
                let seal = image.status.seal.as_ref().map(|seal| seal.sha256.clone());
                row.push(seal.or_else(|| image.spec.checksum.clone()).unwrap_or_default());
            }
            row
        };
        let rows: Vec<Vec<String>> = self.items.iter().map(row).collect();
        if wide {
            table(&["NAME", "UUID", "STATE", "SIZE", "FORMAT", "SOURCE", "CHECKSUM"], &rows)
        } else {
            table(&["NAME", "STATE", "SIZE", "FORMAT", "SOURCE"], &rows)
        }
    }

    fn names(&self) -> Vec<String> {
        self.items.iter().map(|image| image.metadata.name.clone()).collect()
    }
}

#[derive(Serialize)]
pub struct ImageView {
    #[serde(flatten)]
    image: BackingImage,
    #[serde(skip)]
    places: BTreeMap<String, String>,
}

impl ImageView {
    pub fn of(image: BackingImage, disks: &[Disk]) -> Self {
        let place = |disk: &Disk| (disk.metadata.name.clone(), place(disk));
        Self { image, places: disks.iter().map(place).collect() }
    }
}

/// Where a disk is, for people.
pub fn place(disk: &Disk) -> String {
    format!("{}:{}", disk.spec.node, disk.spec.path)
}

fn progress(on: &OnDisk) -> String {
    let mut text = match on.state {
        FileState::Downloading => format!("downloading {}%", on.progress),
        state => state.name().to_owned(),
    };
    if on.state == FileState::Downloading && on.rate > 0 {
        text.push_str(&format!(", {}/s", bytes(on.rate)));
        if let Some(seconds) = on.remaining_seconds {
            text.push_str(&format!(", {} left", logic::period::Period::seconds(seconds)));
        }
    }
    text
}

impl Show for ImageView {
    const KIND: &'static str = "BackingImage";

    fn table(&self, wide: bool) -> String {
        let (image, status) = (&self.image, &self.image.status);
        let mut rows =
            vec![("name", image.metadata.name.clone()), ("state", summary(image)), ("source", source(image))];
        let mut add = |key, value: Option<String>| rows.extend(value.map(|value| (key, value)));
        add("uuid", status.uuid.as_ref().map(ToString::to_string));
        let format = format_name(status.format.or(image.spec.format));
        add("format", Some(format.to_owned()).filter(|format| !format.is_empty()));
        add("size", status.seal.as_ref().map(|seal| bytes(seal.size)));
        add("virtual size", status.virtual_size.map(bytes));
        add("on disk", status.real_size.map(bytes));
        let sealed = status.seal.as_ref().map(|seal| seal.sha256.clone());
        add("checksum", sealed.or_else(|| image.spec.checksum.clone()));
        add("puller", status.puller.as_ref().filter(|_| wide).map(|puller| self.place(puller.disk.as_str())));
        let mut text = fields(&rows);
        if !status.disks.is_empty() {
            let row = |(disk, on): (&logic::images::DiskId, &OnDisk)| {
                let mut row = vec![self.place(disk.as_str()), progress(on), on.reason.clone()];
                if wide {
                    row.insert(0, disk.to_string());
                    row.insert(3, on.sources.join(", "));
                }
                row
            };
            let rows: Vec<Vec<String>> = status.disks.iter().map(row).collect();
            let head: &[&str] = if wide {
                &["UUID", "DISK", "STATE", "FROM", "REASON"]
            } else {
                &["DISK", "STATE", "REASON"]
            };
            text.push('\n');
            text.push_str(&table(head, &rows));
        }
        text
    }

    fn names(&self) -> Vec<String> {
        vec![self.image.metadata.name.clone()]
    }
}

impl ImageView {
    fn place(&self, disk: &str) -> String {
        self.places.get(disk).cloned().unwrap_or_else(|| disk.to_owned())
    }
}

#[derive(Serialize)]
pub struct DiskList {
    items: Vec<DiskRow>,
}

#[derive(Serialize)]
struct DiskRow {
    #[serde(flatten)]
    disk: Disk,
    manager: Option<ManagerRow>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ManagerRow {
    state: ManagerState,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    address: Option<String>,
    version: String,
    api_version: u32,
}

impl DiskList {
    pub fn of(disks: Vec<Disk>, managers: &[BackingImageManager]) -> Self {
        // Of several managers of one disk, the one that runs is the one that counts; what is wrong with another is told as well.
        let manager = |disk: &Disk| {
            let of_disk = || managers.iter().filter(|it| it.spec.disk.as_str() == disk.metadata.name);
            let counts = of_disk().max_by_key(|it| it.status.state == ManagerState::Running)?;
            let wrong = of_disk().find(|it| it.status.state == ManagerState::Error).unwrap_or(counts);
            let reason = [counts, wrong].map(|it| &it.status.reason).into_iter().find(|it| !it.is_empty());
            Some(ManagerRow {
                state: counts.status.state,
                reason: reason.cloned().unwrap_or_default(),
                address: counts.status.address.clone(),
                version: counts.spec.program.version.clone(),
                api_version: counts.status.api_version,
            })
        };
        Self { items: disks.into_iter().map(|disk| DiskRow { manager: manager(&disk), disk }).collect() }
    }
}

fn manager_state(state: ManagerState) -> &'static str {
    match state {
        ManagerState::Stopped => "stopped",
        ManagerState::Starting => "starting",
        ManagerState::Running => "running",
        ManagerState::Error => "error",
        ManagerState::Unknown => "unknown",
    }
}

impl Show for DiskList {
    const KIND: &'static str = "DiskList";

    fn table(&self, wide: bool) -> String {
        let row = |row: &DiskRow| {
            let (disk, status) = (&row.disk, &row.disk.status);
            let manager = row.manager.as_ref();
            let state = match (status.ready, manager) {
                (true, Some(manager)) => manager_state(manager.state),
                (true, None) => "ready",
                (false, _) => "not ready",
            };
            let reason = if status.reason.is_empty() {
                manager.map_or_else(String::new, |manager| manager.reason.clone())
            } else {
                status.reason.clone()
            };
            let mut cells = vec![
                disk.metadata.name.clone(),
                place(disk),
                state.to_owned(),
                bytes(status.free),
                bytes(status.size),
                reason,
            ];
            if wide {
                let address = manager.and_then(|manager| manager.address.clone()).unwrap_or_default();
                let version = manager.map_or_else(String::new, |manager| manager.version.clone());
                cells.splice(5..5, [address, version]);
            }
            cells
        };
        let rows: Vec<Vec<String>> = self.items.iter().map(row).collect();
        let head: &[&str] = if wide {
            &["UUID", "DISK", "STATE", "FREE", "SIZE", "ADDRESS", "VERSION", "REASON"]
        } else {
            &["UUID", "DISK", "STATE", "FREE", "SIZE", "REASON"]
        };
        table(head, &rows)
    }

    fn names(&self) -> Vec<String> {
        self.items.iter().map(|row| row.disk.metadata.name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use logic::images::{DiskId, ImageSpec, ImageStatus, Metadata};

    use super::*;

    fn image(states: &[FileState]) -> BackingImage {
        let disk = |number: usize| {
            DiskId::parse(&format!("1b4e28ba-2fa1-41d2-883f-0016d3cca4{number:02x}")).unwrap()
        };
        let on = |state| OnDisk {
            lasting: false,
            state,
            reason: String::new(),
            progress: 40,
            bytes: 4 << 20,
            rate: 1 << 20,
            remaining_seconds: Some(6),
            sources: vec![],
        };
        BackingImage {
            metadata: Metadata {
                name: "debian".into(),
                resource_version: String::new(),
                creation_timestamp: String::new(),
                deletion_timestamp: None,
            },
            spec: ImageSpec {
                source: Source::Url { url: "https://example.com/x".into() },
                format: None,
                checksum: None,
                disks: (0..states.len()).map(disk).collect(),
            },
            status: ImageStatus {
                disks: states.iter().enumerate().map(|(number, state)| (disk(number), on(*state))).collect(),
                ..ImageStatus::default()
            },
        }
    }

    #[test]
    fn a_summary_says_how_many_have_it_and_what_is_wrong() {
        use FileState::{Downloaded, Downloading, Failed};
        assert_eq!(summary(&image(&[])), "on no disk yet");
        assert_eq!(summary(&image(&[Downloaded, Downloaded])), "downloaded 2/2");
        assert_eq!(
            summary(&image(&[Downloaded, Downloading, Failed])),
            "downloaded 1/3, downloading 1, failed 1"
        );
    }

    #[test]
    fn a_disk_that_downloads_shows_rate_and_time_left() {
        let view = ImageView::of(image(&[FileState::Downloading]), &[]);
        assert!(view.table(false).contains("downloading 40%, 1.0 MiB/s, 6s left"), "{}", view.table(false));
    }
}
