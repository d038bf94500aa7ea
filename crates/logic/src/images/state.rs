//! How one image on one disk is, as managers report it.

use serde::{Deserialize, Serialize};

use super::{ImageId, Seal};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileState {
    /// Known, and nothing was fetched yet.
    #[default]
    Pending,
    Downloading,
    /// Every chunk was verified, and the seal matches. The only state in which the file may be used.
    Downloaded,
    Failed,
    /// The node or the disk is gone, or the file was changed and is being verified again.
    Unknown,
}

impl FileState {
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::Downloading, Self::Downloaded, Self::Failed, Self::Unknown];

    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Downloading => "downloading",
            Self::Downloaded => "downloaded",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    Raw,
    Qcow2,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileStatus {
    pub uuid: ImageId,
    pub state: FileState,
    /// Why it is in this state, in words. Empty where the state says it all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// It failed, and would fail again: it is not tried again by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lasting: bool,
    /// Of the whole, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Verified so far.
    #[serde(default)]
    pub bytes: u64,
    /// Bytes a second, lately.
    #[serde(default)]
    pub rate: u64,
    /// Addresses that bytes come from now: a peer's, or the origin's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Sends of this image under way.
    #[serde(default)]
    pub sending: u32,
    /// Whether this manager pulls it from its origin.
    #[serde(default)]
    pub pulling: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<Seal>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_size: Option<u64>,
    /// Blocks that the file takes on its disk, in bytes.
    #[serde(default)]
    pub real_size: u64,
}

impl FileStatus {
    pub fn new(uuid: ImageId, state: FileState, reason: impl Into<String>) -> Self {
        Self {
            uuid,
            state,
            reason: reason.into(),
            lasting: false,
            size: None,
            bytes: 0,
            rate: 0,
            sources: Vec::new(),
            sending: 0,
            pulling: false,
            seal: None,
            format: None,
            virtual_size: None,
            real_size: 0,
        }
    }

    /// Whole percent.
    pub fn progress(&self) -> u8 {
        match (self.state, self.size) {
            (FileState::Downloaded, _) => 100,
            (_, Some(size)) if size > 0 => {
                // Not 100 before it is downloaded: the seal may still not match.
                u8::try_from((u128::from(self.bytes) * 100 / u128::from(size)).min(99)).unwrap_or(99)
            }
            _ => 0,
        }
    }

    /// Seconds that remain at this rate.
    pub fn remaining(&self) -> Option<u64> {
        let left = self.size?.saturating_sub(self.bytes);
        (self.state == FileState::Downloading && self.rate > 0).then(|| left.div_ceil(self.rate))
    }
}
