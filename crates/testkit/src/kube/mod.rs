//! A real kube-apiserver on a real etcd, and the company it keeps: a controller manager, one who plays the kubelet,
//! webhooks, an aggregated API server, a proxy that throttles. All of it on loopback, in directories of its own, gone with its value.
//!
//! What waits for a process blocks; what talks to the API is async, on the caller's runtime. The servers in
//! here run on a runtime of their own, so that they answer whatever the test is doing.
//!
//! Nothing here knows the code that it is there to judge.

pub mod aggregated;
pub mod any;
pub mod api_server;
pub mod built_in;
pub mod client;
pub mod cluster;
pub mod controller_manager;
pub mod etcd;
pub mod https;
pub mod keys;
pub mod killed;
pub mod kubelet;
mod process;
pub mod program;
pub mod stored;
pub mod throttle;
pub mod webhook;
pub mod widgets;

use std::future::Future;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, mpsc};

pub use aggregated::AggregatedServer;
pub use any::AnyCluster;
pub use api_server::{ApiServer, Authorization, Options, User};
pub use built_in::BuiltIn;
pub use client::Client;
pub use cluster::Cluster;
pub use controller_manager::ControllerManager;
pub use etcd::Etcd;
pub use keys::Keys;
pub use killed::Killed;
pub use kubelet::Kubelet;
pub use program::Kubernetes;
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
