//! A program that embeds the migrations of its own data: two Rust types, registered for one target.
//!
//! `cargo run -p migrate --example migrations -- data.json` migrates a document in memory, shows what each step
//! changed, installs new stores where a directory of stores is named, and prints the new document.

use std::error::Error;
use std::path::Path;

use migrate::{Document, Failure, Input, Migration, Options, Output, Registry, Target, Work};
use serde_json::json;

/// Version 2: one port became a list of listeners.
struct ListListeners;

impl Migration for ListListeners {
    fn name(&self) -> &str {
        "list-listeners"
    }

    /// Changes when the migration does, and once it was released it never does.
    fn digest(&self) -> &str {
        "list-listeners/1"
    }

    fn migrate(&self, input: &Input<'_>, _work: &Work<'_>) -> Result<Output, Failure> {
        let mut values = input.values.clone();
        let port = values.remove("port").ok_or("there is no port to begin with")?;
        values.insert("listeners".to_owned(), json!([{ "port": port }]));
        Ok(values.into())
    }
}

/// Version 3: images are counted in the store. The old store stays as it is; the new one is a copy of it.
struct CountImages;

impl Migration for CountImages {
    fn name(&self) -> &str {
        "count-images"
    }

    fn digest(&self) -> &str {
        "count-images/1"
    }

    fn migrate(&self, input: &Input<'_>, work: &Work<'_>) -> Result<Output, Failure> {
        let Some(stores) = input.stores else {
            return Ok(Output {
                notes: vec!["there are no stores".to_owned()],
                ..input.values.clone().into()
            });
        };
        let old = std::fs::read_to_string(stores.join("images.v1"))?;
        let new = format!("count {}\n{old}", old.lines().count());
        std::fs::write(work.new_stores()?.join("images.v3"), new)?;
        Ok(Output {
            // Workloads that were made before can't be asked for their image any more.
            unavailable: vec!["image-history".to_owned()],
            ..input.values.clone().into()
        })
    }
}

/// The document as it is to be written. A program that keeps its data writes it last: that makes it the new version.
pub fn migrated(data: &Path, stores: Option<&Path>) -> Result<Document, Box<dyn Error>> {
    let document = Document::parse(&std::fs::read(data)?)?;

    let mut registry = Registry::new();
    registry.register(Target::Appliance, 2, Box::new(ListListeners))?;
    registry.register(Target::Appliance, 3, Box::new(CountImages))?;

    let plan = registry.plan(document.target, document.data.version, &document.data.applied)?;
    eprintln!("{plan}");
    let scratch = std::env::temp_dir().join(format!("migrations-example-{}", std::process::id()));
    let migrated = registry.run(document.target, &document.data, stores, &scratch, &Options::default())?;
    for step in &migrated.steps {
        eprintln!("{} {}", step.version, step.name);
        step.changes.iter().for_each(|change| eprintln!("  {change}"));
    }
    if let Some(stores) = stores {
        migrated.install_stores(stores)?;
    }
    let _ = std::fs::remove_dir_all(scratch);
    Ok(Document { target: document.target, data: migrated.data })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let data = arguments.next().ok_or("name the file with the data")?;
    let stores = arguments.next();
    let document = migrated(Path::new(&data), stores.as_deref().map(Path::new))?;
    println!("{}", document.to_json().trim_end());
    Ok(())
}
