//! A new appliance.

use disk::Lock;
use logic::migrate::Target;
use logic::upgrade::{ApplianceName, Image};
use serde_json::{Map, Value};

use super::Bring;
use super::upgrade::can_be_started;
use crate::appliance::{Appliance, BackendKind, Identity};
use crate::backend::{self, files::Files};
use crate::configuration::Configuration;
use crate::error::{Error, Result};
use crate::history::now;
use crate::layout::Layout;
use crate::release;
use crate::settings::Settings;
use crate::transaction::{Witness, remove_tree};
use crate::{Held, migration};

/// How often a directory may be cleared away by others before it is theirs.
const ATTEMPTS: usize = 10;

pub struct Create<'a> {
    pub settings: &'a Settings,
    pub name: ApplianceName,
    pub backend: BackendKind,
    pub reference: &'a str,
    /// Secrets as `{"$secret": TEXT}`.
    pub values: Map<String, Value>,
    pub bring: &'a Bring<'a>,
}

/// It exists once its record is written, which is the last thing: whatever a try before has left is cleared away. Of two
/// who make the same one, the first to have its lock goes on.
pub fn create(create: Create<'_>, witness: &dyn Witness) -> Result<Held> {
    let layout = Layout::new(&create.settings.directory, &create.name);
    let exists = || layout.appliance().exists();
    if exists() {
        return Err(Error::Exists { name: create.name });
    }
    let lock = take(&layout, &create.name)?;
    if exists() {
        return Err(Error::Exists { name: create.name });
    }
    let made = clear(&layout).and_then(|()| make(&create, &layout, witness));
    if made.is_err() {
        let _ = remove_tree(layout.root());
    }
    made?.hold_by(lock)
}

fn take(layout: &Layout, name: &ApplianceName) -> Result<Lock> {
    for _ in 0..ATTEMPTS {
        Files::new(layout.clone()).make_root()?;
        match Lock::try_acquire(&layout.lock()) {
            Ok(Some(lock)) => return Ok(lock),
            Ok(None) => break,
            // Somebody whose try failed has cleared it away meanwhile.
            Err(_) if !layout.root().exists() => {}
            Err(error) => return Err(error.into()),
        }
    }
    let holder = Lock::holder(&layout.lock()).ok().flatten();
    Err(Error::Busy { name: name.clone(), holder })
}

/// All but the lock.
fn clear(layout: &Layout) -> Result<()> {
    let failed = |error| disk::Error::io(disk::Operation::List, layout.root(), error);
    for entry in std::fs::read_dir(layout.root()).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path != layout.lock() {
            remove_tree(&path)?;
        }
    }
    Ok(())
}

fn make(create: &Create<'_>, layout: &Layout, witness: &dyn Witness) -> Result<Appliance> {
    Files::new(layout.clone()).lay_out()?;
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
    can_be_started(&manifest, &incoming, &configuration, &appliance)?;
    appliance.backend.stage_image(&image.id, &incoming)?;
    configuration.save(layout)?;
    appliance.backend.reconfigure(&image.id)?;
    appliance.keep_identity()?;
    Ok(appliance)
}
