//! `holdfast migrate …`: arguments in, the crate's functions called, results shown.
//!
//! For data that no appliance owns: a document in a file, perhaps with stores beside it. An upgrade of an appliance does
//! the same by itself.

mod files;
mod skeleton;
mod views;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ::migrate::{Limits, Migrated, Options, Registry, RegistryError};
use clap::{Args, Subcommand};
use logic::exit::Exit;
use logic::period::Period;

use self::files::{DataFile, Scratch};
use self::skeleton::Language;
use self::views::{StatusView, WalkView};
use crate::cli::Global;
use crate::failure::{Failure, Result};
use crate::output;

#[derive(Debug, Args)]
pub struct MigrateCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show the path, and the keys that each migration would change; change nothing
    Plan(Walk),
    /// Migrate the data, and write it back when all of it went well
    Run(Walk),
    /// Say which version the data has, and what is to be done
    Status {
        #[command(flatten)]
        inputs: Inputs,
    },
    /// Write the beginning of a migration, which runs and changes nothing
    New {
        /// <target>-<version>[-words], such as appliance-3-rename-port
        name: String,
        #[arg(long, value_enum, default_value_t)]
        language: Language,
        /// Where to put it
        #[arg(long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
    },
}

#[derive(Debug, Args)]
struct Inputs {
    /// The directory with the migrations of a release
    #[arg(long, value_name = "DIR")]
    migrations: PathBuf,
    /// The data, as a document of kind MigrationData
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// The version that the release wants, where it has no migration to it
    #[arg(long, value_name = "VERSION")]
    newest: Option<u32>,
}

#[derive(Debug, Args)]
struct Walk {
    #[command(flatten)]
    inputs: Inputs,
    /// The directory with the stores of the data
    #[arg(long, value_name = "DIR")]
    stores: Option<PathBuf>,
    /// How long each migration may take
    #[arg(long, value_name = "TIME", default_value_t = Period::from(Limits::default().time))]
    timeout: Period,
    /// How much memory each migration may use, in MiB
    #[arg(long, value_name = "MIB", default_value_t = Limits::default().memory >> 20)]
    memory: u64,
    /// How many processes and threads each migration may have
    #[arg(long, value_name = "N", default_value_t = Limits::default().processes)]
    processes: u32,
    /// Something else that migrations may read; may be given again
    #[arg(long, value_name = "PATH")]
    readable: Vec<PathBuf>,
    /// Run migrations even where nothing keeps them from the network or from writing elsewhere
    #[arg(long)]
    allow_unconfined: bool,
}

impl MigrateCommand {
    pub fn run(self, global: &Global) -> Result<Exit> {
        match self.verb {
            Verb::Plan(walk) => walk.plan(global),
            Verb::Run(walk) => walk.run(global),
            Verb::Status { inputs } => {
                let file = DataFile::read(&inputs.data)?;
                let view = StatusView::of(&file.document, &inputs.registry(&file)?);
                output::show(&view, global.output)?;
                Ok(Exit::Done)
            }
            Verb::New { name, language, dir } => {
                let path = skeleton::write(&name, language, &dir)?;
                output::print(&format!("{}\n", path.display()));
                Ok(Exit::Done)
            }
        }
    }
}

impl Inputs {
    fn registry(&self, file: &DataFile) -> Result<Registry> {
        if !self.migrations.is_dir() {
            return Err(Failure {
                exit: Exit::NotFound,
                error: format!("there is no directory {}", self.migrations.display()),
                causes: vec![],
                hint: "name the directory with the migrations; it may be empty".to_owned(),
            });
        }
        let mut registry = Registry::new();
        registry.discover(&self.migrations)?;
        if let Some(newest) = self.newest {
            registry.state_newest(file.document.target, newest);
        }
        Ok(registry)
    }
}

impl Walk {
    fn plan(&self, global: &Global) -> Result<Exit> {
        let file = DataFile::read(&self.inputs.data)?;
        let scratch = Scratch::temporary()?;
        let migrated = self.walk(&file, scratch.path())?;
        output::show(&WalkView::of(&file.document, &migrated, false), global.output)?;
        Ok(Exit::Done)
    }

    fn run(&self, global: &Global) -> Result<Exit> {
        // Locked before it is read: what is written back must be made of what is there.
        let _lock = files::lock(&self.inputs.data)?;
        let mut file = DataFile::read(&self.inputs.data)?;
        let scratch = Scratch::beside(&self.inputs.data);
        let migrated = self.walk(&file, scratch.path())?;
        let view = WalkView::of(&file.document, &migrated, true);
        if migrated.changed() {
            if let Some(stores) = &self.stores {
                migrated
                    .install_stores(stores)
                    .map_err(|error| Failure::new(Exit::MigrationFailed, &error, error.hint()))?;
            }
            // The last step: until here the data has its old version, and everything can be done again.
            file.document.data = migrated.data;
            file.write()?;
        }
        output::show(&view, global.output)?;
        Ok(Exit::Done)
    }

    fn walk(&self, file: &DataFile, scratch: &Path) -> Result<Migrated> {
        let registry = self.inputs.registry(file)?;
        if let Some(stores) = self.stores.as_ref().filter(|stores| !stores.is_dir()) {
            return Err(Failure {
                exit: Exit::NotFound,
                error: format!("there is no directory {}", stores.display()),
                causes: vec![],
                hint: "name the directory with the stores, or leave it out".to_owned(),
            });
        }
        let stop = stop_flag();
        let options = Options {
            limits: Limits {
                time: self.timeout.get(),
                memory: self.memory.saturating_mul(1 << 20),
                processes: self.processes,
                ..Limits::default()
            },
            stop: Some(&stop),
            readable: self.readable.clone(),
            allow_unconfined: self.allow_unconfined,
        };
        let document = &file.document;
        let migrated =
            registry.run(document.target, &document.data, self.stores.as_deref(), scratch, &options)?;
        if self.stores.is_none()
            && let Some(store) = migrated.stores.first()
        {
            return Err(Failure::usage(
                format!("a migration made the store {}, and there is no place for it", store.name),
                "name the directory of the stores with --stores",
            ));
        }
        Ok(migrated)
    }
}

/// Set by the signals that ask to stop.
fn stop_flag() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
        // Without a handler the signal ends the process at once; nothing is written before the end.
        let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
    }
    stop
}

impl From<::migrate::Error> for Failure {
    fn from(error: ::migrate::Error) -> Self {
        Self::new(error.exit(), &error, error.hint())
    }
}

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Self {
        Self::new(Exit::Refused, &error, error.hint())
    }
}
