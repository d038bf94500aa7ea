//! `holdfast status`: what is known about this machine, over all parts that keep something on it.

use ::upgrade::commands::{self, Overview};
use logic::exit::Exit;
use serde::Serialize;

use crate::agent;
use crate::appliance::ApplianceList;
use crate::cli::Global;
use crate::config;
use crate::failure::{Failure, Result};
use crate::guard::{self, Facts};
use crate::output::{self, Show};
use crate::services::{self, Service};

/// A part that cannot say anything does not keep the others from it; how the command ends says that it could not.
pub fn run(facts: &Facts, global: &Global) -> Result<Exit> {
    let config = config::load(global.config.as_deref())?.config;
    let listed = commands::list(&config.upgrade, None).map_err(Failure::from);
    // Of a machine that has none, nothing is said.
    let agent = match config.agent.directory.join("books.json").exists() {
        true => Some(agent::status(&config.agent, &config.upgrade)?),
        false => None,
    };
    let services = services::of(&config);
    let device = guard::known(facts, global);
    match (device, listed) {
        (Ok(device), Ok(appliances)) => {
            let appliances = ApplianceList { appliances };
            output::show(&Status { device: Some(device), appliances, agent, services }, global.output)?;
            Ok(Exit::Done)
        }
        // A machine that has appliances and an agent, or serves others, and no device that guard looks after.
        (Err(_), Ok(appliances)) if agent.is_some() || !services.is_empty() => {
            let appliances = ApplianceList { appliances };
            output::show(&Status { device: None, appliances, agent, services }, global.output)?;
            Ok(Exit::Done)
        }
        (Ok(device), Err(failure)) => {
            output::show(&device, global.output)?;
            Err(failure)
        }
        (Err(failure), Ok(appliances)) if !appliances.is_empty() => {
            output::show(&ApplianceList { appliances }, global.output)?;
            Err(failure)
        }
        (Err(failure), _) => Err(failure),
    }
}

#[derive(Serialize)]
struct Status {
    #[serde(flatten)]
    device: Option<guard::Status>,
    #[serde(flatten)]
    appliances: ApplianceList,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<agent::Status>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    services: Vec<Service>,
}

impl Show for Status {
    const KIND: &'static str = "Status";

    fn table(&self, wide: bool) -> String {
        let appliances: &[Overview] = &self.appliances.appliances;
        let sections = [
            self.device.as_ref().map(|device| device.table(wide)),
            (!appliances.is_empty()).then(|| self.appliances.table(wide)),
            self.agent.as_ref().map(|agent| agent.table(wide)),
            (!self.services.is_empty()).then(|| services::shown(&self.services)),
        ];
        sections.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    fn names(&self) -> Vec<String> {
        let device = self.device.as_ref().map(Show::names).unwrap_or_default();
        [device, self.appliances.names()].concat()
    }
}
