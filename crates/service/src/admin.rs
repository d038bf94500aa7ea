//! A plain port for liveness, readiness and metrics. It answers GET with what a function says, and can't be kept busy:
//! connections are few, short, and closed after their answer.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

const CONNECTIONS: usize = 64;
/// From the first byte to the last.
const PATIENCE: Duration = Duration::from_secs(10);
/// hyper refuses to work with less.
const REQUEST_BYTES: usize = 8 << 10;
/// After a connection could not be accepted, such as for want of file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// What a path has to say; none where there is nothing under it.
pub trait Pages: Fn(&str) -> Option<(StatusCode, String)> + Send + Sync + 'static {}
impl<F: Fn(&str) -> Option<(StatusCode, String)> + Send + Sync + 'static> Pages for F {}

/// Serves until it is dropped.
pub async fn serve(listener: TcpListener, pages: impl Pages) {
    let pages = Arc::new(pages);
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // Never closed, so this always comes.
        let Ok(permit) = Arc::clone(&free).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let pages = Arc::clone(&pages);
                tokio::spawn(async move {
                    // Whoever takes longer is cut off; there is nobody to tell.
                    let _ = tokio::time::timeout(PATIENCE, connection(stream, pages)).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(cause = %error, "a connection can't be accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

async fn connection<P: Pages>(stream: TcpStream, pages: Arc<P>) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let answer = answer(&request, &*pages);
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(REQUEST_BYTES)
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), answer);
    if let Err(error) = connection.await {
        tracing::debug!(cause = %error, "an admin connection broke");
    }
}

fn answer(request: &Request<Incoming>, pages: &impl Pages) -> Response<Full<Bytes>> {
    let (status, text) = match *request.method() {
        Method::GET | Method::HEAD => pages(request.uri().path())
            .unwrap_or_else(|| (StatusCode::NOT_FOUND, "there is nothing here\n".to_owned())),
        _ => (StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}
