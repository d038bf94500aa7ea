//! The services that this machine is configured for, and whether somebody answers where they listen: whoever started them.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde::Serialize;

use crate::config::Config;
use crate::output::table;
use crate::up;

/// They are on this machine: who does not answer by then is not there.
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Debug, Serialize)]
pub struct Service {
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<SocketAddr>,
    state: &'static str,
}

pub fn of(config: &Config) -> Vec<Service> {
    let all = [
        ("graph", Some(config.graph.listen)),
        ("images", Some(config.images.listen)),
        ("storage", config.storage.admin),
    ];
    let here = all.into_iter().filter(|(name, _)| up::missing(name, config).is_none());
    here.map(|(name, address)| Service { name, address, state: state(address) }).collect()
}

fn state(address: Option<SocketAddr>) -> &'static str {
    match address.map(|address| TcpStream::connect_timeout(&address, PATIENCE)) {
        Some(Ok(_)) => "answers",
        Some(Err(_)) => "does not answer",
        None => "not known: it has no admin address",
    }
}

pub fn shown(services: &[Service]) -> String {
    let row = |service: &Service| {
        let address = service.address.map_or_else(|| "-".to_owned(), |address| address.to_string());
        vec![service.name.to_owned(), address, service.state.to_owned()]
    };
    table(&["SERVICE", "ADDRESS", "STATE"], &services.iter().map(row).collect::<Vec<_>>())
}
