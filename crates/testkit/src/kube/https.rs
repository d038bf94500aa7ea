//! An HTTPS server on loopback that can be taken down and brought back on the same port.

use std::convert::Infallible;
use std::error::Error;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};
use tokio::task::{JoinHandle, JoinSet};

use super::{Keys, RUNTIME, lock, wait_for};
use crate::ports::free_port;

pub struct Request {
    pub method: Method,
    /// With the query.
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

pub type Body = BoxBody<Bytes, Box<dyn Error + Send + Sync>>;

pub enum Reply {
    Answer(Response<Body>),
    /// The connection ends without an answer, and with all else that it carries.
    Cut,
}

impl Reply {
    pub fn json(status: u16, value: &Value) -> Self {
        Self::of(status, "application/json", value.to_string())
    }

    pub fn text(status: u16, text: &str) -> Self {
        Self::of(status, "text/plain; charset=utf-8", text.to_owned())
    }

    fn of(status: u16, media_type: &str, body: String) -> Self {
        let response =
            Response::builder().status(status).header("content-type", media_type).body(whole(body.into()));
        Self::Answer(response.expect("an answer"))
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Self::Answer(response) = &mut self {
            response.headers_mut().insert(name, value.parse().expect("the value of a header"));
        }
        self
    }
}

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never: Infallible| match never {}).boxed()
}

pub type Work = Pin<Box<dyn Future<Output = Reply> + Send>>;
pub type Handler = Arc<dyn Fn(Request) -> Work + Send + Sync>;

pub struct Https {
    port: u16,
    tls: tokio_rustls::TlsAcceptor,
    handler: Handler,
    running: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

impl Https {
    pub fn start(keys: &Keys, handler: Handler) -> Self {
        let tls = tokio_rustls::TlsAcceptor::from(keys.server_tls());
        let server = Self { port: free_port(), tls, handler, running: Mutex::default() };
        server.up();
        server
    }

    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// From when this returns, connections are refused, and none of before is left.
    pub fn down(&self) {
        let Some((stop, task)) = lock(&self.running).take() else { return };
        wait_for(async move {
            let _ = stop.send(());
            let _ = task.await;
        });
    }

    pub fn up(&self) {
        let mut running = lock(&self.running);
        if running.is_some() {
            return;
        }
        let port = self.port;
        let listener = wait_for(async move {
            for _ in 0..50 {
                if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
                    return listener;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            panic!("port {port} is taken");
        });
        let (stop, stopped) = oneshot::channel();
        let task = RUNTIME.spawn(serve(listener, self.tls.clone(), Arc::clone(&self.handler), stopped));
        *running = Some((stop, task));
    }
}

impl Drop for Https {
    fn drop(&mut self) {
        // Not waited for: a value may go while the runtime that would be waited on is busy with it.
        if let Some((stop, _)) = lock(&self.running).take() {
            let _ = stop.send(());
        }
    }
}

async fn serve(
    listener: TcpListener,
    tls: tokio_rustls::TlsAcceptor,
    handler: Handler,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let (tls, handler) = (tls.clone(), Arc::clone(&handler));
                connections.spawn(async move {
                    let _ = stream.set_nodelay(true);
                    let Ok(stream) = tls.accept(stream).await else { return };
                    connection(TokioIo::new(stream), handler).await;
                });
            }
        }
    }
    drop(listener);
    connections.shutdown().await;
}

async fn connection(
    stream: TokioIo<tokio_rustls::server::TlsStream<tokio::net::TcpStream>>,
    handler: Handler,
) {
    let cut = Arc::new(Notify::new());
    let service = service_fn(|request: hyper::Request<hyper::body::Incoming>| {
        let (handler, cut) = (Arc::clone(&handler), Arc::clone(&cut));
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let path = head.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
            match handler(Request { method: head.method, path, headers: head.headers, body }).await {
                Reply::Answer(response) => Ok::<_, hyper::Error>(response),
                Reply::Cut => {
                    cut.notify_one();
                    std::future::pending().await
                }
            }
        }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    tokio::select! {
        _ = builder.serve_connection(stream, service) => {}
        () = cut.notified() => {}
    }
}
