//! The bodies of the site's API for people and scripts, as clients send and read them.
//!
//! ```text
//! GET    /v1/images                 List<BackingImage>; ?watch=true: a line of JSON (Event) for each change
//! POST   /v1/images[?copies=N|all]  Create → BackingImage
//! GET    /v1/images/NAME            BackingImage
//! DELETE /v1/images/NAME            BackingImage, with its deletionTimestamp
//! POST   /v1/images/NAME/cleanup    Disks → BackingImage: removed from these disks
//! POST   /v1/images/NAME/spread     Disks or Copies → BackingImage: wanted on more disks
//! PUT    /v1/images/NAME/content    the bytes, of an image that is uploaded → BackingImage
//! GET    /v1/images/NAME/content    the bytes
//! GET    /v1/volumes                List<Volume>
//! POST   /v1/volumes[?url=…]        CreateVolume → Volume
//! DELETE /v1/volumes/NAME           Volume, with its deletionTimestamp
//! GET    /v1/disks  /v1/managers    List<Disk>, List<BackingImageManager>
//! GET    /v1/tokens                 List<Token>
//! POST   /v1/tokens                 NewToken → MadeToken: the only time that it is told
//! DELETE /v1/tokens/ID
//! ```
//!
//! Whatever is refused is answered with [`crate::site::Status`].

use std::collections::BTreeSet;

use logic::images::{DiskId, Format, ImageName, Metadata, Source};
use serde::{Deserialize, Serialize};

/// An object with its `apiVersion` and `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kinded<T> {
    #[serde(default)]
    pub api_version: String,
    #[serde(default)]
    pub kind: String,
    #[serde(flatten)]
    pub object: T,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct List<T> {
    #[serde(default)]
    pub api_version: String,
    #[serde(default)]
    pub kind: String,
    pub items: Vec<T>,
}

/// A line of a watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "object", rename_all = "UPPERCASE")]
pub enum Event<T> {
    /// There now; a watch begins with these.
    Added(T),
    Modified(T),
    Deleted(T),
    /// Nothing happened for a while.
    Bookmark(serde_json::Value),
    /// The watch has to begin anew.
    Error(crate::site::Status),
}

/// What is to be made. A whole document may be sent; what it is follows from where it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct New<S> {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    api_version: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    kind: String,
    pub metadata: Named,
    pub spec: S,
}

impl<S> New<S> {
    pub fn of(name: ImageName, spec: S) -> Self {
        Self { api_version: String::new(), kind: String::new(), metadata: Named { name }, spec }
    }
}

pub type Create = New<CreateSpec>;
pub type CreateVolume = New<NewVolume>;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateSpec {
    pub source: Source,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// Without, the site chooses as many as `copies` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disks: Option<BTreeSet<DiskId>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Named {
    pub name: ImageName,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewVolume {
    pub backing_image: ImageName,
    /// One that has the image, or the emptiest, unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskId>,
    /// As large as its image, unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// It is restored: it waits for the bytes of its overlay.
    #[serde(default)]
    pub upload: bool,
}

/// Which disks: these, or as many as that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Disks {
    Disks(Vec<DiskId>),
    /// A number, or `all`.
    Copies(String),
}

/// What the holder of a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grant {
    /// Everything.
    Admin,
    /// Look at everything, change nothing.
    Reader,
    /// Bring a manager into the site, and nothing else.
    Join,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewToken {
    pub role: Grant,
    /// Whom it was made for, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Without end, unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
}

/// A token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    pub metadata: Metadata,
    pub spec: TokenSpec,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenSpec {
    pub role: Grant,
    #[serde(default)]
    pub description: String,
    /// Milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MadeToken {
    /// The whole of it.
    pub token: String,
}
