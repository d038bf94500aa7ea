//! How images and signatures are reached.

use std::sync::Arc;

use oci::signatures::SignatureStore;
use oci::{Access, Blobs, Limits};

use super::refusal::Refusal;
use crate::settings::Settings;

#[derive(Default)]
pub struct Sources {
    pub access: Access,
    pub limits: Limits,
    /// Bytes that are left free on the disk.
    pub reserve: u64,
    /// Who may have layers nearer than the registry.
    pub blobs: Option<Arc<dyn Blobs>>,
    /// Where OpenPGP signatures are, beside those that come with the image.
    pub stores: Vec<SignatureStore>,
}

impl Sources {
    pub fn of(settings: &Settings, blobs: Option<Arc<dyn Blobs>>) -> Result<Self, Refusal> {
        let access = Access {
            credentials: settings.credentials.clone(),
            ca_file: settings.ca_file.clone(),
            proxy: settings.proxy.clone(),
        };
        let limits = Limits::default();
        let open = |place: &String| {
            let opened = SignatureStore::open(place, &access, &limits);
            opened.map_err(|source| Refusal::Store { place: place.clone(), source: Box::new(source) })
        };
        let stores = settings.signatures.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { access, limits, reserve: settings.reserve, blobs, stores })
    }
}
