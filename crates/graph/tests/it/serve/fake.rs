//! A service of somebody else: answers what a test tells it to, and writes down what it was asked.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

#[derive(Debug, Clone)]
pub struct Asked {
    pub uri: String,
    pub headers: HeaderMap,
}

#[derive(Debug, Clone)]
pub struct Told {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
    pub after: Duration,
}

impl Told {
    pub fn ok(body: impl Into<String>) -> Self {
        Self { status: 200, headers: vec![], body: body.into(), after: Duration::ZERO }
    }

    pub fn status(status: u16) -> Self {
        Self { status, ..Self::ok("{}") }
    }

    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub fn after(mut self, wait: Duration) -> Self {
        self.after = wait;
        self
    }
}

pub struct Fake {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    told: Arc<Mutex<Told>>,
}

impl Fake {
    pub async fn new(told: Told) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let fake = Self { url, asked: Arc::default(), told: Arc::new(Mutex::new(told)) };
        let (asked, told) = (Arc::clone(&fake.asked), Arc::clone(&fake.told));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (asked, told) = (Arc::clone(&asked), Arc::clone(&told));
                let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                    let uri = request.uri().to_string();
                    asked.lock().unwrap().push(Asked { uri, headers: request.headers().clone() });
                    let told = told.lock().unwrap().clone();
                    async move {
                        tokio::time::sleep(told.after).await;
                        let mut response = Response::builder().status(told.status);
                        for (name, value) in told.headers {
                            response = response.header(name, value);
                        }
                        Ok::<_, Infallible>(response.body(Full::new(Bytes::from(told.body))).unwrap())
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        fake
    }

    pub fn tell(&self, told: Told) {
        *self.told.lock().unwrap() = told;
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}
