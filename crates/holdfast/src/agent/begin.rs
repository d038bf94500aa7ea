//! Puts an agent together from the configuration: the appliance that it moves, the site that it fetches through, its desk.

use std::sync::Arc;

use ::agent::desk::Files;
use ::agent::metrics::Metrics;
use ::agent::quarantine::{Quarantine, Sources};
use ::agent::settings::Settings;
use ::agent::{Agent, Ended, Stop};
use ::upgrade::Appliance;
use logic::exit::Exit;
use logic::upgrade::ApplianceName;
use semver::Version;

use super::host::{self, Host};
use super::itself::Itself;
use super::site::Site;
use crate::appliance::options;
use crate::cli::Global;
use crate::config;
use crate::failure::{Failure, Result};

pub struct Parts {
    pub settings: Settings,
    pub metrics: Arc<Metrics>,
    pub itself: Arc<Itself>,
    host: Host,
    sources: Sources,
    quarantine: Quarantine,
    id: String,
}

impl Parts {
    pub fn of(settings: Settings, global: &Global) -> Result<Self> {
        let config = config::load(global.config.as_deref())?.config;
        let mut upgrade = config.upgrade;
        upgrade.directory = std::path::absolute(&upgrade.directory)
            .map_err(|error| Failure::new(Exit::Usage, &error, "see directory in [upgrade]"))?;
        let itself = Arc::new(Itself::new(&settings.directory));
        let host = Host {
            name: appliance(&settings, &upgrade)?,
            options: options(&upgrade, None, global),
            itself: Arc::clone(&itself),
            reserve: settings.reserve,
            storage: config.storage,
            settings: upgrade,
        };
        std::fs::create_dir_all(&settings.directory)
            .map_err(|error| unusable(&settings, &error.to_string()))?;
        let id = id(&settings)?;
        let site = Site::of(&settings)?;
        let sources = Sources::of(&settings, site.map(|site| Arc::new(site) as _)).map_err(|error| {
            Failure::new(Exit::Usage, &error, "see signatures, ca-file and proxy in [agent]")
        })?;
        let quarantine = Quarantine::open(&settings.directory.join("quarantine"))
            .map_err(|error| unusable(&settings, &error.to_string()))?;
        Ok(Self { settings, metrics: Arc::default(), itself, host, sources, quarantine, id })
    }

    /// Until it is stopped, or the request is seen to. Whoever calls holds the lock of the desk.
    pub fn run(self, stop: &Arc<Stop>, until: Option<&str>) -> Result<Ended> {
        let runtime = runtime()?;
        runtime.block_on(async {
            let signals = {
                let stop = Arc::clone(stop);
                tokio::spawn(async move {
                    service::terminated().await;
                    stop.stop();
                })
            };
            let ended = self.within(stop, until).await;
            signals.abort();
            ended
        })
    }

    /// The same inside a runtime.
    pub async fn within(self, stop: &Arc<Stop>, until: Option<&str>) -> Result<Ended> {
        let desk = Files::watched(&self.settings.directory);
        let agent = Agent {
            machine: self.host,
            desk,
            quarantine: self.quarantine,
            sources: self.sources,
            settings: self.settings,
            id: self.id,
            stop: Arc::clone(stop),
            metrics: self.metrics,
        };
        Ok(agent.run(until).await?)
    }
}

/// One thread: what an agent does is wait.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Unexpected, &error, "see the limits on file descriptors"))
}

fn unusable(settings: &Settings, why: &str) -> Failure {
    Failure {
        exit: Exit::Usage,
        error: format!("{}: {why}", settings.directory.display()),
        causes: vec![],
        hint: "give the agent a directory of its own with --state".to_owned(),
    }
}

/// What runs now, where that can be told.
pub fn running(settings: &Settings, upgrade: &::upgrade::settings::Settings) -> Option<Version> {
    let name = appliance(settings, upgrade).ok()?;
    let appliance = Appliance::open(upgrade, &name).ok()?;
    host::running(&appliance).ok().map(|running| running.version)
}

/// The one that is named, or the only one.
fn appliance(settings: &Settings, upgrade: &::upgrade::settings::Settings) -> Result<ApplianceName> {
    let hint = "set appliance in [agent]; `holdfast appliance create` makes one";
    if let Some(name) = &settings.appliance {
        return ApplianceName::parse(name).map_err(|error| Failure::new(Exit::Usage, &error, hint));
    }
    let names = ::upgrade::names(&upgrade.directory)?;
    match <[ApplianceName; 1]>::try_from(names) {
        Ok([name]) => Ok(name),
        Err(names) => Err(Failure {
            exit: Exit::NotFound,
            error: format!(
                "there are {} appliances in {}, and the agent is not told which one is meant",
                names.len(),
                upgrade.directory.display()
            ),
            causes: vec![],
            hint: hint.to_owned(),
        }),
    }
}

/// By which graph services know this machine: made once.
fn id(settings: &Settings) -> Result<String> {
    let path = settings.directory.join("id");
    let failed = |error: disk::Error| unusable(settings, &error.to_string());
    if let Some(bytes) = disk::durable::read_limited(&path, 100).map_err(failed)?
        && let Some(id) =
            std::str::from_utf8(&bytes).ok().and_then(|text| uuid::Uuid::parse_str(text.trim()).ok())
    {
        return Ok(id.to_string());
    }
    let id = uuid::Uuid::new_v4().to_string();
    disk::durable::write_durably(&path, id.as_bytes()).map_err(failed)?;
    Ok(id)
}
