//! A new appliance.

use logic::migrate::Target;
use logic::upgrade::{ApplianceName, Image};
use serde_json::{Map, Value};

use super::Bring;
use super::upgrade::words_are_known;
use crate::appliance::{Appliance, BackendKind, Identity};
use crate::backend;
use crate::configuration::Configuration;
use crate::error::{Error, Result};
use crate::history::now;
use crate::layout::Layout;
use crate::release;
use crate::settings::Settings;
use crate::transaction::{Witness, remove_tree};
use crate::{Held, migration};

pub struct Create<'a> {
    pub settings: &'a Settings,
    pub name: ApplianceName,
    pub backend: BackendKind,
    pub reference: &'a str,
    /// Secrets as `{"$secret": TEXT}`.
    pub values: Map<String, Value>,
    pub bring: &'a Bring<'a>,
}

/// It exists once its record is written, which is the last thing: whatever a try before has left is cleared away.
pub fn create(create: Create<'_>, witness: &dyn Witness) -> Result<Held> {
    let layout = Layout::new(&create.settings.directory, &create.name);
    if layout.appliance().exists() {
        return Err(Error::Exists { name: create.name });
    }
    remove_tree(layout.root())?;
    let made = make(&create, &layout, witness);
    if made.is_err() {
        let _ = remove_tree(layout.root());
    }
    made?.hold()
}

fn make(create: &Create<'_>, layout: &Layout, witness: &dyn Witness) -> Result<Appliance> {
    backend::files::Files::new(layout.clone()).lay_out()?;
    let incoming = layout.incoming();
    let digest = (create.bring)(create.reference, &incoming, witness.stop())?;
    let manifest = release::read(&incoming)?;
    create.backend.fits(&manifest)?;
    let image = Image::new(manifest.version.clone(), &digest);
    let registry = migration::registry(&incoming, &manifest)?;
    let configuration = Configuration {
        release: image.clone(),
        data_version: registry.newest(Target::Appliance),
        applied: vec![],
        values: create.values.clone(),
    };
    let identity = Identity::new(create.name.clone(), create.backend, now());
    let appliance = Appliance {
        identity,
        layout: layout.clone(),
        backend: backend::open(layout, create.backend, create.settings)?,
    };
    words_are_known(&manifest, &configuration, &appliance)?;
    appliance.backend.stage_image(&image.id, &incoming)?;
    configuration.save(layout)?;
    appliance.backend.reconfigure(&image.id)?;
    appliance.keep_identity()?;
    Ok(appliance)
}
