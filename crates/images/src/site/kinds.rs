//! The kinds of objects that a site stores.

use std::collections::BTreeMap;

use logic::images::{
    BackingImage, BackingImageManager, Disk, DiskId, ImageName, Metadata, Object, Site, Volume,
};
use serde::{Deserialize, Serialize};
use store::{Kind, Objects};

use super::state::Shared;

pub(super) const API_VERSION: &str = "holdfast.dev/v1alpha1";

macro_rules! kind {
    ($marker:ident, $name:literal, $object:ty) => {
        #[derive(Debug, Clone, Copy)]
        pub(super) struct $marker;
        impl Kind for $marker {
            const NAME: &'static str = $name;
            type Object = $object;
        }
    };
}

kind!(Images, "BackingImage", BackingImage);
kind!(Managers, "BackingImageManager", BackingImageManager);
kind!(Disks, "Disk", Disk);
kind!(Volumes, "Volume", Volume);
kind!(Tokens, "Token", TokenObject);

/// A kind that the loop looks at.
pub(super) trait Viewed: Kind {
    type Key: Ord + Clone + std::fmt::Display + Send + Sync;
    fn map(site: &mut Site) -> &mut BTreeMap<Self::Key, Self::Object>;
    fn metadata(object: &mut Self::Object) -> &mut Metadata;
    fn objects(shared: &Shared) -> &Objects<Self>
    where
        Self: Sized;
}

macro_rules! viewed {
    ($marker:ident, $key:ty, $field:ident) => {
        impl Viewed for $marker {
            type Key = $key;
            fn map(site: &mut Site) -> &mut BTreeMap<$key, Self::Object> {
                &mut site.$field
            }
            fn metadata(object: &mut Self::Object) -> &mut Metadata {
                &mut object.metadata
            }
            fn objects(shared: &Shared) -> &Objects<Self> {
                &shared.$field
            }
        }
    };
}

viewed!(Images, ImageName, images);
viewed!(Managers, String, managers);
viewed!(Disks, DiskId, disks);
viewed!(Volumes, ImageName, volumes);

pub(super) type TokenObject = Object<TokenSpec, TokenStatus>;

/// What its holder may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Grant {
    /// Everything.
    Admin,
    /// Look at everything, change nothing.
    Reader,
    /// Bring a manager into the site, and nothing else.
    Join,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TokenSpec {
    pub role: Grant,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Of the secret, which is nowhere but with its holder.
    pub sha256: String,
    /// Milliseconds since 1970; none: it does not end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TokenStatus {}
