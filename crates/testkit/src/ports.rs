//! Ports for servers that are started later, or again.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A port on which nobody listens. Not of the range from which the system takes the ports of outgoing
/// connections: a server that is down for a moment must find its port again.
pub fn free_port() -> u16 {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
        let mixed =
            std::process::id().wrapping_mul(7919).wrapping_add(number.wrapping_mul(104_729)) ^ (now >> 4);
        let port = 20_000 + u16::try_from(mixed % 12_000).expect("a small number");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}
