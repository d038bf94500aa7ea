//! A real kube-apiserver on a real etcd, and the company it keeps: webhooks, an aggregated API server, a
//! proxy that throttles. All of it on loopback, in directories of its own, gone with its value.
//!
//! What waits for a process blocks; what talks to the API is async, on the caller's runtime. The servers in
//! here run on a runtime of their own, so that they answer whatever the test is doing.
//!
//! Nothing here knows the code that it is there to judge.

pub mod aggregated;
pub mod any;
pub mod api_server;
pub mod client;
pub mod cluster;
pub mod etcd;
pub mod https;
pub mod keys;
mod process;
pub mod stored;
pub mod throttle;
pub mod webhook;
pub mod widgets;

use std::future::Future;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{SystemTime, UNIX_EPOCH};

pub use aggregated::AggregatedServer;
pub use any::AnyCluster;
pub use api_server::{ApiServer, Authorization, Options, User};
pub use client::Client;
pub use cluster::Cluster;
pub use etcd::Etcd;
pub use keys::Keys;
pub use stored::{storage_hash, stored_version};
pub use throttle::{Asked, Fault, Throttle};
pub use webhook::{AdmissionWebhook, Conversion, ConversionWebhook};
pub use widgets::{WIDGETS, WIDGETS_GROUP, widget, widgets_crd, widgets_path};

static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    // Two providers of cryptography in one tree would panic at the first handshake; there is this one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("testkit-kube")
        .enable_all()
        .build()
        .expect("a runtime")
});

/// Every client begins here: the provider of cryptography comes with the runtime, and no proxy is asked.
fn http() -> reqwest::ClientBuilder {
    let _ = &*RUNTIME;
    reqwest::Client::builder().no_proxy()
}

/// Waits for what runs on the runtime of the harness. Good inside another runtime too, where it blocks.
fn wait_for<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    RUNTIME.spawn(async move {
        let _ = done.send(work.await);
    });
    result.recv().expect("the harness panicked: see above")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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
