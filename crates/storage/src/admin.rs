//! The admin port: /livez, /readyz, /metrics.

use std::net::SocketAddr;
use std::sync::Arc;

use http::StatusCode;
use tokio::net::TcpListener;

use crate::error::Error;
use crate::metrics::Metrics;

/// Serves for as long as it is polled.
pub async fn serve(address: SocketAddr, metrics: Arc<Metrics>) -> Result<(), Error> {
    let listener = TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })?;
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "listening");
    }
    service::admin::serve(listener, move |path| page(path, &metrics)).await;
    Ok(())
}

fn page(path: &str, metrics: &Metrics) -> Option<(StatusCode, String)> {
    match path {
        "/livez" => Some((StatusCode::OK, "ok\n".to_owned())),
        "/readyz" => Some(match metrics.is_at_work() {
            Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
            Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        }),
        "/metrics" => Some((StatusCode::OK, metrics.text())),
        _ => None,
    }
}
