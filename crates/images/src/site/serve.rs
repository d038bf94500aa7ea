//! Connections of people and of managers that join, on one port: TLS with the site's certificate, and plain HTTP as well where
//! the port can be reached from this machine only.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use tracing::{debug, info, warn};

use super::rest::Speech;
use crate::identity::role_of;
use crate::listen::begins_as_tls;

/// At once; more wait in the kernel's queue.
const CONNECTIONS: usize = 1024;
const HANDSHAKE: Duration = Duration::from_secs(10);
/// For the head of a request.
const HEAD: Duration = Duration::from_secs(15);
const HEAD_BYTES: usize = 64 << 10;
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// For requests that are under way when the service stops.
const DRAIN: Duration = Duration::from_secs(5);

pub(super) async fn serve(
    listener: TcpListener,
    tls: watch::Receiver<Arc<ServerConfig>>,
    router: Router,
    stop: CancellationToken,
) {
    let local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // Never closed, so this always comes.
        let Ok(permit) = Arc::clone(&free).acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(cause = %error, "a connection can't be accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        let (tls, router, stop) = (Arc::clone(&tls.borrow()), router.clone(), stop.clone());
        tokio::spawn(async move {
            begin(stream, from, local, tls, router, stop).await;
            drop(permit);
        });
    }
    let all = u32::try_from(CONNECTIONS).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(DRAIN, free.acquire_many(all)).await;
}

async fn begin(
    mut stream: TcpStream,
    from: SocketAddr,
    local: bool,
    tls: Arc<ServerConfig>,
    router: Router,
    stop: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    match begins_as_tls(&stream).await {
        Ok(true) => {
            let accepting = tokio::time::timeout(HANDSHAKE, TlsAcceptor::from(tls).accept(stream));
            match accepting.await {
                Ok(Ok(stream)) => {
                    let role = role_of(stream.get_ref().1.peer_certificates());
                    connection(stream, Speech { role }, router, stop).await;
                }
                Ok(Err(error)) => info!(%from, cause = %error, "a connection was refused"),
                Err(_) => info!(%from, "a connection was refused: its handshake took too long"),
            }
        }
        Ok(false) if local => connection(stream, Speech { role: None }, router, stop).await,
        Ok(false) => {
            let text = "this port speaks TLS: use https://\n";
            let answer = format!(
                "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
                text.len()
            );
            let _ = tokio::time::timeout(HANDSHAKE, stream.write_all(answer.as_bytes())).await;
        }
        Err(error) => debug!(%from, cause = %error, "a connection broke"),
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    speech: Speech,
    router: Router,
    stop: CancellationToken,
) {
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(speech.clone());
        router.clone().oneshot(request)
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEAD_BYTES);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(64).keep_alive_interval(HEAD);
    let serving = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            match tokio::time::timeout(DRAIN, serving.as_mut()).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        debug!(cause = %error, "a connection broke");
    }
}
