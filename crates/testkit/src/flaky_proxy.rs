//! A proxy in front of an HTTP server: it counts what is asked, and fails what it is told to.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub method: String,
    /// With the query.
    pub path: String,
    /// Lower-case names.
    pub headers: Vec<(String, String)>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Debug, Clone)]
pub enum Fault {
    None,
    /// Answered here, with further header lines and a body.
    Answer(u16, Vec<(String, String)>, Vec<u8>),
    /// The connection ends before an answer.
    Hangup,
    /// The body ends in the middle, where its length promised more.
    Cut,
    /// Status and length as they should be, other bytes.
    Garble,
    /// Half of the body, and then nothing, until whoever asks is gone.
    Stall,
}

impl Fault {
    pub fn status(status: u16) -> Self {
        Self::Answer(status, vec![], vec![])
    }
}

type Plan = Box<dyn FnMut(&Asked) -> Fault + Send>;

pub struct FlakyProxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    /// None: there is nothing behind it.
    upstream: Option<SocketAddr>,
    plan: Mutex<Plan>,
    log: Mutex<Vec<Asked>>,
}

impl FlakyProxy {
    pub fn start(upstream: SocketAddr) -> Self {
        Self::serve(Some(upstream), Box::new(|_| Fault::None))
    }

    /// A server of its own: what is not answered by the plan is a 404.
    pub fn alone(plan: impl FnMut(&Asked) -> Fault + Send + 'static) -> Self {
        Self::serve(None, Box::new(plan))
    }

    fn serve(upstream: Option<SocketAddr>, plan: Plan) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port for the proxy");
        let address = listener.local_addr().expect("the proxy's address");
        let shared = Arc::new(Shared { upstream, plan: Mutex::new(plan), log: Mutex::default() });
        let serving = Arc::clone(&shared);
        // It ends with the test's process.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&serving);
                thread::spawn(move || {
                    let _ = shared.answer(client);
                });
            }
        });
        Self { address, shared }
    }

    /// From now on.
    pub fn plan(&self, plan: impl FnMut(&Asked) -> Fault + Send + 'static) {
        *self.shared.plan.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(plan);
    }

    /// What was asked since the last call.
    pub fn take_log(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.shared.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Shared {
    fn answer(&self, mut client: TcpStream) -> io::Result<()> {
        client.set_read_timeout(Some(Duration::from_secs(60)))?;
        let (head, early) = read_head(&mut client)?;
        let asked = parse(&head);
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push(asked.clone());
        let fault = (self.plan.lock().unwrap_or_else(PoisonError::into_inner))(&asked);
        let upstream = match (&fault, self.upstream) {
            (Fault::Hangup, _) => return Ok(()),
            (Fault::Answer(status, headers, body), _) => return reply(&mut client, *status, headers, body),
            (_, None) => return reply(&mut client, 404, &[], b""),
            (_, Some(upstream)) => upstream,
        };
        let mut server = TcpStream::connect(upstream)?;
        server.write_all(&request(&asked))?;
        let length = asked.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0_usize);
        server.write_all(&early)?;
        io::copy(&mut (&mut client).take((length - early.len().min(length)) as u64), &mut server)?;
        let (head, mut body) = read_head(&mut server)?;
        client.write_all(&head)?;
        match fault {
            Fault::Cut | Fault::Garble | Fault::Stall => {
                server.read_to_end(&mut body)?;
                let half = body.len() / 2;
                match fault {
                    Fault::Cut => client.write_all(&body[..half]),
                    Fault::Stall => {
                        client.write_all(&body[..half])?;
                        client.read(&mut [0]).map(|_| ())
                    }
                    _ => {
                        body[half..].iter_mut().for_each(|byte| *byte ^= 0x55);
                        client.write_all(&body)
                    }
                }
            }
            _ => {
                client.write_all(&body)?;
                io::copy(&mut server, &mut client).map(|_| ())
            }
        }
    }
}

/// Up to the blank line, and what came behind it.
fn read_head(stream: &mut TcpStream) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut bytes = vec![];
    let mut piece = [0; 4096];
    loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let rest = bytes.split_off(at + 4);
            return Ok((bytes, rest));
        }
        match stream.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            got => bytes.extend_from_slice(&piece[..got]),
        }
    }
}

fn parse(head: &[u8]) -> Asked {
    let text = String::from_utf8_lossy(head).into_owned();
    let mut lines = text.lines();
    let mut words = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let header = |line: &str| {
        let (key, value) = line.split_once(':')?;
        Some((key.to_lowercase(), value.trim().to_owned()))
    };
    Asked { method, path, headers: lines.filter_map(header).collect() }
}

fn request(asked: &Asked) -> Vec<u8> {
    let mut head = format!("{} {} HTTP/1.1\r\n", asked.method, asked.path);
    for (key, value) in asked.headers.iter().filter(|(key, _)| key != "connection") {
        head += &format!("{key}: {value}\r\n");
    }
    head += "connection: close\r\n\r\n";
    head.into_bytes()
}

fn reply(client: &mut TcpStream, status: u16, headers: &[(String, String)], body: &[u8]) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    for (key, value) in headers {
        head += &format!("{key}: {value}\r\n");
    }
    head += "\r\n";
    client.write_all(head.as_bytes())?;
    client.write_all(body)
}
