//! Until the machine says that it is ready, or is gone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::serial::{self, Search};
use super::vm::Vm;
use crate::backend::{Error, Result};
use crate::release::{Probe, expand};

pub fn wait(vm: &Vm, timeout: Option<Duration>, stop: &AtomicBool) -> Result<()> {
    let (readiness, _release, words) = vm.asked()?;
    let timeout = timeout.unwrap_or(readiness.timeout.get());
    let interval: Duration = readiness.interval.get();
    let until = Instant::now() + timeout;
    let run = vm.run();
    let mut search = match &readiness.probe {
        Probe::Serial { text } => Search::new(&expand(text, &words)?),
        _ => Search::new("is ready"),
    };
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        // Before the look: what it said before its end is there by then.
        let on = vm.is_on()?;
        let found = search.look(&run).unwrap_or(false);
        serial::trim(&run)?;
        if !on {
            return Err(Error::Ended { last: serial::last_words(&run) });
        }
        if found {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(Error::NotReady { after: timeout, last: serial::last_words(&run) });
        }
        thread::sleep(interval);
    }
}
