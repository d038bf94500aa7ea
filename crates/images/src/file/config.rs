//! `backing.cfg`: what a whole image is. It is written last, so that its being there says that all the rest is.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use disk::durable;
use logic::images::{Format, ImageId, ImageName, Seal};
use serde::{Deserialize, Serialize};

use super::error::FileError;

pub(super) const NAME: &str = "backing.cfg";
const LIMIT: u64 = 64 << 10;

/// What kind of image it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub format: Format,
    /// What a machine sees of it.
    pub virtual_size: u64,
}

/// When a file was last changed: seconds and nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Modified(i64, i64);

impl Modified {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self(metadata.mtime(), metadata.mtime_nsec())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Config {
    pub name: ImageName,
    pub uuid: ImageId,
    #[serde(flatten)]
    pub seal: Sealed,
    pub chunks: usize,
    pub generation: u64,
    pub format: Format,
    pub virtual_size: u64,
    pub modified: Modified,
}

/// As [`Seal`], among other fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sealed {
    pub size: u64,
    pub root: logic::images::Hash,
    pub sha256: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha512: Option<String>,
}

impl From<Seal> for Sealed {
    fn from(Seal { size, root, sha256, sha512 }: Seal) -> Self {
        Self { size, root, sha256, sha512 }
    }
}

impl From<Sealed> for Seal {
    fn from(Sealed { size, root, sha256, sha512 }: Sealed) -> Self {
        Self { size, root, sha256, sha512 }
    }
}

impl Config {
    /// `None` where there is none for this image that makes sense: the chunks decide then.
    pub(super) fn read(dir: &Path, name: &ImageName, uuid: &ImageId) -> Result<Option<Self>, FileError> {
        let bytes = match durable::read_limited(&dir.join(NAME), LIMIT) {
            Ok(bytes) => bytes.unwrap_or_default(),
            Err(disk::Error::TooLarge { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let config = serde_json::from_slice::<Self>(&bytes).ok();
        Ok(config.filter(|config| config.name == *name && config.uuid == *uuid))
    }

    pub(super) fn write(&self, dir: &Path) -> Result<(), FileError> {
        let path = dir.join(NAME);
        let bytes =
            serde_json::to_vec(self).map_err(|source| disk::Error::Encode { path: path.clone(), source })?;
        Ok(durable::write_durably(&path, &bytes)?)
    }

    pub(super) fn shape(&self) -> Shape {
        Shape { format: self.format, virtual_size: self.virtual_size }
    }

    /// Whether nobody touched the file since it was whole.
    pub(super) fn fits(&self, metadata: &Metadata) -> bool {
        metadata.len() == self.seal.size && Modified::of(metadata) == self.modified
    }
}
