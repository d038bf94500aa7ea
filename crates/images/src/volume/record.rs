//! What a volume is, beside its overlay: `volume.cfg`.

use std::path::Path;

use logic::images::{Format, ImageId, ImageName};
use serde::{Deserialize, Serialize};

use super::error::{Damaged, Result};
use super::{Base, OVERLAY};

const FILE: &str = "volume.cfg";
const LIMIT: u64 = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub name: ImageName,
    pub image: ImageName,
    pub image_uuid: ImageId,
    pub image_format: Format,
    pub image_virtual_size: u64,
    pub virtual_size: u64,
}

impl Record {
    pub(super) fn new(name: &ImageName, base: &Base, virtual_size: u64) -> Self {
        Self {
            name: name.clone(),
            image: base.name.clone(),
            image_uuid: base.uuid.clone(),
            image_format: base.format,
            image_virtual_size: base.virtual_size,
            virtual_size,
        }
    }

    pub(super) fn base(&self) -> Base {
        Base {
            name: self.image.clone(),
            uuid: self.image_uuid.clone(),
            format: self.image_format,
            virtual_size: self.image_virtual_size,
        }
    }

    pub(super) fn write(&self, directory: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        Ok(disk::durable::write_durably(&directory.join(FILE), &text)?)
    }

    /// None, if there is no such volume. A directory with another name in it than its own is damaged.
    pub(super) fn read(directory: &Path, name: &ImageName) -> Result<Option<Self>> {
        let Some(bytes) = disk::durable::read_limited(&directory.join(FILE), LIMIT)? else { return Ok(None) };
        let damaged = |why: String| Damaged { name: name.clone(), why, overlay: directory.join(OVERLAY) };
        let record: Self = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if record.name != *name {
            return Err(damaged(format!("it is the record of {}", record.name)).into());
        }
        Ok(Some(record))
    }
}
