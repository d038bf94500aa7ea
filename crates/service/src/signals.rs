//! What asks a service to stop.

use tokio::signal::unix::{SignalKind, signal};

/// SIGTERM or SIGINT.
pub async fn terminated() {
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::warn!("signals can't be waited for");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}
