//! Stands between two managers and counts, or flips a bit.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use wire::images::Peer;

use super::fixture::Manager;

pub struct Proxy {
    address: String,
    passed: Arc<AtomicU64>,
    /// After how many bytes a bit of what the manager sends is flipped; zero when it was, or is not to be.
    flips: Arc<AtomicU64>,
}

impl Proxy {
    pub fn to(manager: &Manager) -> Self {
        Self::that_flips(manager, 0)
    }

    /// One bit, once so many bytes have come from the manager.
    pub fn that_flips(manager: &Manager, after: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let passed = Arc::new(AtomicU64::new(0));
        let flips = Arc::new(AtomicU64::new(after));
        let flip = Arc::clone(&flips);
        let (target, counted) = (manager.serving.address.clone(), Arc::clone(&passed));
        thread::spawn(move || {
            for from in listener.incoming().flatten() {
                let Ok(to) = TcpStream::connect(&target) else { continue };
                let (back, forth) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                let (counted, flip) = (Arc::clone(&counted), Arc::clone(&flip));
                thread::spawn(move || pass(from, forth, &AtomicU64::new(0), &AtomicU64::new(0)));
                thread::spawn(move || pass(to, back, &counted, &flip));
            }
        });
        Self { address, passed, flips }
    }

    /// The manager, by way of the proxy.
    pub fn peer(&self, manager: &Manager) -> Peer {
        Peer { address: self.address.clone(), ..manager.peer() }
    }

    /// Bytes from the manager to whoever connected.
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    #[allow(dead_code, reason = "the benchmarks use this file as well")]
    pub fn has_flipped(&self) -> bool {
        self.flips.load(Ordering::Relaxed) == 0
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, counted: &AtomicU64, flip: &AtomicU64) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read) = from.read(&mut buffer) {
        let passed = counted.fetch_add(read as u64, Ordering::Relaxed) + read as u64;
        let due = flip.load(Ordering::Relaxed);
        if read > 0 && due > 0 && passed > due {
            flip.store(0, Ordering::Relaxed);
            buffer[read / 2] ^= 1;
        }
        if read == 0 || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
