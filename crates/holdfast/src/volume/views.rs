//! How volumes are shown.

use std::collections::BTreeMap;

use logic::images::{Disk, Volume, VolumeState};
use serde::Serialize;

use crate::image::place;
use crate::output::{Show, bytes, fields, table};

fn places(disks: &[Disk]) -> BTreeMap<String, String> {
    disks.iter().map(|disk| (disk.metadata.name.clone(), place(disk))).collect()
}

fn state(volume: &Volume) -> &'static str {
    match (&volume.metadata.deletion_timestamp, volume.status.state) {
        (Some(_), _) => "being removed",
        (None, VolumeState::Waiting) => "waiting",
        (None, VolumeState::Ready) => "ready",
        (None, VolumeState::Failed) => "failed",
    }
}

#[derive(Serialize)]
pub struct VolumeList {
    items: Vec<Volume>,
    #[serde(skip)]
    places: BTreeMap<String, String>,
}

impl VolumeList {
    pub fn of(items: Vec<Volume>, disks: &[Disk]) -> Self {
        Self { items, places: places(disks) }
    }
}

impl Show for VolumeList {
    const KIND: &'static str = "VolumeList";

    fn table(&self, wide: bool) -> String {
        let row = |volume: &Volume| {
            let disk = volume.spec.disk.as_str();
            let mut row = vec![
                volume.metadata.name.clone(),
                state(volume).to_owned(),
                volume.spec.backing_image.to_string(),
                self.places.get(disk).cloned().unwrap_or_else(|| disk.to_owned()),
                volume.status.reason.clone(),
            ];
            if wide {
                row.push(volume.status.path.clone().unwrap_or_default());
            }
            row
        };
        let rows: Vec<Vec<String>> = self.items.iter().map(row).collect();
        if wide {
            table(&["NAME", "STATE", "IMAGE", "DISK", "REASON", "PATH"], &rows)
        } else {
            table(&["NAME", "STATE", "IMAGE", "DISK", "REASON"], &rows)
        }
    }

    fn names(&self) -> Vec<String> {
        self.items.iter().map(|volume| volume.metadata.name.clone()).collect()
    }
}

#[derive(Serialize)]
pub struct VolumeView {
    #[serde(flatten)]
    volume: Volume,
    #[serde(skip)]
    place: String,
}

impl VolumeView {
    pub fn of(volume: Volume, disks: &[Disk]) -> Self {
        let disk = volume.spec.disk.as_str();
        let place = places(disks).remove(disk).unwrap_or_else(|| disk.to_owned());
        Self { volume, place }
    }
}

impl Show for VolumeView {
    const KIND: &'static str = "Volume";

    fn table(&self, _wide: bool) -> String {
        let volume = &self.volume;
        let mut rows = vec![
            ("name", volume.metadata.name.clone()),
            ("state", state(volume).to_owned()),
            ("image", volume.spec.backing_image.to_string()),
            ("disk", self.place.clone()),
        ];
        let mut add = |key, value: Option<String>| rows.extend(value.map(|value| (key, value)));
        add("reason", Some(volume.status.reason.clone()).filter(|reason| !reason.is_empty()));
        add("size", volume.spec.size.map(bytes));
        add("path", volume.status.path.clone());
        fields(&rows)
    }

    fn names(&self) -> Vec<String> {
        vec![self.volume.metadata.name.clone()]
    }
}
