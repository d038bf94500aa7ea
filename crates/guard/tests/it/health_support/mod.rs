//! A small HTTP server on the loopback device that gives prepared answers, with TLS if asked to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

pub struct Reply {
    pub status: u16,
    pub body: Vec<u8>,
    /// Close before the whole body is out.
    pub cut_at: Option<usize>,
}

impl Reply {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, body: body.into(), cut_at: None }
    }

    pub fn cut(body: impl Into<Vec<u8>>, at: usize) -> Self {
        Self { cut_at: Some(at), ..Self::new(200, body) }
    }
}

pub struct Asked {
    pub path: String,
    pub authorization: Option<String>,
}

pub struct Server {
    pub port: u16,
    pub paths: Arc<Mutex<Vec<String>>>,
}

pub enum Tls {
    Off,
    On,
    /// Clients must show a certificate of the CA.
    Mutual,
}

pub fn tls_file(name: &str) -> String {
    format!("{}/tests/fixtures/health/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

impl Server {
    /// `answer` gets the request and how many came before it. The threads end with the process.
    pub fn start(tls: Tls, answer: impl Fn(&Asked, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(AtomicUsize::new(0));
        let paths = Arc::new(Mutex::new(Vec::new()));
        let server = Self { port, paths: paths.clone() };
        let config = server_config(tls);
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, config) = (answer.clone(), config.clone());
                let (requests, paths) = (requests.clone(), paths.clone());
                std::thread::spawn(move || {
                    let serve = |stream: &mut dyn ReadWrite| {
                        let Some(asked) = read_request(stream) else { return };
                        paths.lock().unwrap().push(asked.path.clone());
                        let reply = answer(&asked, requests.fetch_add(1, Ordering::SeqCst));
                        write_reply(stream, &reply);
                    };
                    match config {
                        Some(config) => {
                            let connection = ServerConnection::new(config).unwrap();
                            let mut stream = StreamOwned::new(connection, stream);
                            serve(&mut stream);
                            stream.conn.send_close_notify();
                            let _ = stream.flush();
                        }
                        None => serve(&mut { stream }),
                    }
                });
            }
        });
        server
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

fn read_request(stream: &mut dyn ReadWrite) -> Option<Asked> {
    let mut reader = BufReader::with_capacity(1, stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut authorization = None;
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            return Some(Asked { path, authorization });
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("authorization")
        {
            authorization = Some(value.trim().to_owned());
        }
    }
}

fn write_reply(stream: &mut dyn ReadWrite, reply: &Reply) {
    let head = format!(
        "HTTP/1.1 {} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        reply.status,
        reply.body.len()
    );
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(&reply.body[..reply.cut_at.unwrap_or(reply.body.len())]);
    let _ = stream.flush();
}

fn server_config(tls: Tls) -> Option<Arc<ServerConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
    let builder = match tls {
        Tls::Off => return None,
        Tls::On => builder.with_no_client_auth(),
        Tls::Mutual => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_file(tls_file("ca.pem")).unwrap()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        }
    };
    let chain = vec![CertificateDer::from_pem_file(tls_file("server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(tls_file("server.key")).unwrap();
    Some(Arc::new(builder.with_single_cert(chain, key).unwrap()))
}

/// A port on which nothing listens.
pub fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
