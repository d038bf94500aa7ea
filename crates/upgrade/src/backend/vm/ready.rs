//! Until the machine says that it is ready, or is gone.
//!
//! Its ports are QEMU's on this side: they accept also while nobody in the machine does. So a probe that wants no more
//! than a connection is not satisfied before QEMU says that the machine has taken one.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::json;

use super::machine::{COMMAND, Machine};
use super::serial::{self, Search};
use crate::backend::{Error, Result};
use crate::readiness::{self, Life, Prober};
use crate::release::{Probe, Readiness, Words, expand};

const CONNECT: Duration = Duration::from_secs(1);

pub struct Asked<'a> {
    pub machine: &'a Machine,
    pub run: PathBuf,
    pub release: &'a Path,
    pub readiness: Readiness,
    pub words: Words,
}

/// What the machine is seen to do, where it is not asked.
enum Sign {
    None,
    Said(Search),
    Takes(SocketAddr),
}

pub fn wait(asked: &Asked<'_>, timeout: Option<Duration>, stop: &AtomicBool) -> Result<()> {
    let Asked { machine, run, readiness, words, .. } = asked;
    let mut sign = sign(&readiness.probe, words)?;
    // What is seen is not asked for as well.
    let told = Probe::Serial { text: String::new() };
    let probe = if matches!(sign, Sign::None) { &readiness.probe } else { &told };
    let prober = Prober::new(probe, asked.release, words)?;
    let timeout = timeout.unwrap_or(readiness.timeout.get());
    readiness::wait(&prober, timeout, readiness.interval.get(), stop, &mut || life(machine, run, &mut sign))
}

fn sign(probe: &Probe, words: &Words) -> Result<Sign> {
    Ok(match probe {
        Probe::Serial { text } => Sign::Said(Search::new(&expand(text, words)?)),
        Probe::Tcp { address } => match expand(address, words)?.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Sign::Takes(address),
            _ => Sign::None,
        },
        Probe::Notify => {
            let what = "it cannot be asked whether it is ready".to_owned();
            return Err(Error::Machine { what, why: "a virtual machine has no NOTIFY_SOCKET".to_owned() });
        }
        Probe::Http { .. } | Probe::Command { .. } => Sign::None,
    })
}

fn life(machine: &Machine, run: &Path, sign: &mut Sign) -> Result<Life> {
    // Before the look: what it said before its end is there by then.
    let on = machine.is_on()?;
    let ready = match sign {
        Sign::None => false,
        Sign::Said(search) => search.look(run).unwrap_or(false),
        Sign::Takes(address) => on && takes(machine, *address).unwrap_or(false),
    };
    serial::trim(run)?;
    let said = serial::last_words(run);
    if !on {
        return Err(Error::Ended { last: if said.is_empty() { "it is off".to_owned() } else { said } });
    }
    Ok(Life { generation: Some(machine.generation()), ready, said })
}

/// Whether a connection gets through to the machine.
fn takes(machine: &Machine, address: SocketAddr) -> Option<bool> {
    let _connection = TcpStream::connect_timeout(&address, CONNECT).ok()?;
    let mut qmp = machine.control(COMMAND).ok()?;
    let arguments = json!({"command-line": "info usernet"});
    let answer = qmp.execute("human-monitor-command", arguments, COMMAND).ok()?;
    answer.as_str().map(|table| established(table, address.port()))
}

/// `TCP[ESTABLISHED] 13 127.0.0.1 8080 10.0.2.15 80 0 0`: the fourth is the port on this side.
fn established(table: &str, port: u16) -> bool {
    table.lines().any(|line| {
        let mut words = line.split_ascii_whitespace();
        words.next() == Some("TCP[ESTABLISHED]") && words.nth(2) == Some(port.to_string().as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_connection_that_the_machine_has_taken_counts() {
        let table = "Hub -1 (net):\n  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ\n  \
                     TCP[SYN_SENT]      19       127.0.0.1 24880       10.0.2.15    80     0     0\n  \
                     TCP[ESTABLISHED]   20       127.0.0.1 24881       10.0.2.15    81     0     0\n  \
                     TCP[HOST_FORWARD]  12       127.0.0.1 24880       10.0.2.15    80     0     0\n";
        assert!(!established(table, 24_880));
        assert!(established(table, 24_881));
    }
}
