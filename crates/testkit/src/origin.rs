//! A web server with one file, which misbehaves on demand: what images are pulled from.
//!
//! It serves `GET` at any path, with ranges, from memory and as fast as the network is; each request takes the next fault that
//! was planned, or none.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

const STEP: usize = 256 << 10;

#[derive(Debug, Clone)]
pub enum Fault {
    None,
    /// Nothing more is sent after so many bytes of the body, and the connection stays.
    StallAfter(u64),
    /// The connection ends after so many bytes of the body.
    CutAfter(u64),
    /// A status without a body, with further header lines.
    Status(u16, Vec<(&'static str, String)>),
    /// Status 200, and a page.
    Page,
    /// Status 200, and this text.
    Text(String),
    /// A length that is not the body's: what lies beyond is zeros.
    Length(u64),
    /// Bytes that differ from the file's at one place.
    Flipped(u64),
}

#[derive(Debug, Clone)]
pub struct Served {
    pub content: Arc<Vec<u8>>,
    pub etag: Option<String>,
    pub last_modified: Option<String>,
    pub content_type: &'static str,
    /// Without, every answer is the whole file.
    pub ranges: bool,
    /// `Content-Length`; otherwise the body comes in chunks.
    pub length: bool,
    /// Bytes a second; zero: no limit.
    pub rate: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub path: String,
    pub range: Option<String>,
    pub if_range: Option<String>,
    pub authorization: Option<String>,
}

#[derive(Debug)]
struct Shared {
    served: Mutex<Served>,
    faults: Mutex<VecDeque<Fault>>,
    asked: Mutex<Vec<Asked>>,
    sent: AtomicU64,
    connections: AtomicUsize,
}

/// Serves until the process ends.
#[derive(Debug, Clone)]
pub struct Origin {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

impl Origin {
    pub fn start(content: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let served = Served {
            content: Arc::new(content),
            etag: Some("\"first\"".into()),
            last_modified: None,
            content_type: "application/octet-stream",
            ranges: true,
            length: true,
            rate: 0,
        };
        let shared = Arc::new(Shared {
            served: Mutex::new(served),
            faults: Mutex::default(),
            asked: Mutex::default(),
            sent: AtomicU64::new(0),
            connections: AtomicUsize::new(0),
        });
        let behind = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&behind);
                thread::spawn(move || {
                    shared.connections.fetch_add(1, Ordering::Relaxed);
                    let _ = converse(&stream, &shared);
                });
            }
        });
        Self { address, shared }
    }

    pub fn url(&self) -> String {
        format!("http://{}/image", self.address)
    }

    /// What the configuration must allow.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Changes what is served from now on.
    pub fn set(&self, change: impl FnOnce(&mut Served)) {
        change(&mut lock(&self.shared.served));
    }

    /// Another file in its place, with another ETag.
    pub fn replace(&self, content: Vec<u8>) {
        self.set(|served| {
            served.content = Arc::new(content);
            served.etag = served.etag.as_ref().map(|etag| format!("{}-next\"", etag.trim_end_matches('"')));
        });
    }

    /// The next requests fail like this, one each.
    pub fn plan(&self, faults: impl IntoIterator<Item = Fault>) {
        lock(&self.shared.faults).extend(faults);
    }

    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.shared.asked).clone()
    }

    /// Bytes of bodies, over all requests.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::SeqCst)
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn converse(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let Some(asked) = request(&mut reader)? else { return Ok(()) };
        lock(&shared.asked).push(asked.clone());
        let fault = lock(&shared.faults).pop_front().unwrap_or(Fault::None);
        let served = lock(&shared.served).clone();
        if !answer(stream, shared, &asked, &fault, &served)? {
            return Ok(());
        }
    }
}

fn request(reader: &mut impl BufRead) -> io::Result<Option<Asked>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).unwrap_or("/").to_owned();
    let mut asked = Asked { path, range: None, if_range: None, authorization: None };
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            return Ok(Some(asked));
        }
        if let Some((name, value)) = line.split_once(':') {
            let value = Some(value.trim().to_owned());
            match name.to_ascii_lowercase().as_str() {
                "range" => asked.range = value,
                "if-range" => asked.if_range = value,
                "authorization" => asked.authorization = value,
                _ => {}
            }
        }
    }
}

/// Whether the connection may be used again.
fn answer(
    mut out: &TcpStream,
    shared: &Shared,
    asked: &Asked,
    fault: &Fault,
    served: &Served,
) -> io::Result<bool> {
    let size = served.content.len() as u64;
    match fault {
        Fault::Status(status, headers) => {
            let mut head = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n");
            headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
            out.write_all(format!("{head}\r\n").as_bytes())?;
            return Ok(true);
        }
        Fault::Page | Fault::Text(_) => {
            let page = match fault {
                Fault::Text(text) => text,
                _ => "<!DOCTYPE html><title>503</title>Come back later.",
            };
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {}\r\ncontent-length: {}\r\n\r\n",
                served.content_type,
                page.len()
            );
            out.write_all(format!("{head}{page}").as_bytes())?;
            return Ok(true);
        }
        _ => {}
    }
    let same = match &asked.if_range {
        Some(condition) => {
            [&served.etag, &served.last_modified].into_iter().flatten().any(|known| known == condition)
        }
        None => true,
    };
    let range = asked.range.as_deref().filter(|_| served.ranges && same).and_then(|text| parse(text, size));
    let mut head = match &range {
        Some(range) if range.start >= size => {
            out.write_all(
                format!("HTTP/1.1 416 x\r\ncontent-range: bytes */{size}\r\ncontent-length: 0\r\n\r\n")
                    .as_bytes(),
            )?;
            return Ok(true);
        }
        Some(range) => {
            format!("HTTP/1.1 206 x\r\ncontent-range: bytes {}-{}/{size}\r\n", range.start, range.end - 1)
        }
        None => "HTTP/1.1 200 OK\r\n".to_owned(),
    };
    let range = range.unwrap_or(0..size);
    let said = match fault {
        Fault::Length(length) => *length,
        _ => range.end - range.start,
    };
    head.push_str(&format!("content-type: {}\r\n", served.content_type));
    for (name, value) in [("etag", &served.etag), ("last-modified", &served.last_modified)] {
        if let Some(value) = value {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    head.push_str(&if served.length {
        format!("content-length: {said}\r\n\r\n")
    } else {
        "transfer-encoding: chunked\r\n\r\n".into()
    });
    out.write_all(head.as_bytes())?;
    send(out, shared, range, said, fault, served)
}

fn send(
    mut out: &TcpStream,
    shared: &Shared,
    range: Range<u64>,
    said: u64,
    fault: &Fault,
    served: &Served,
) -> io::Result<bool> {
    let end = range.start + said;
    let stop = match fault {
        Fault::StallAfter(bytes) | Fault::CutAfter(bytes) => (range.start + bytes).min(end),
        _ => end,
    };
    let mut at = range.start;
    while at < stop {
        let step = (stop - at).min(STEP as u64);
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(served.content.len());
        let to = from.saturating_add(usize::try_from(step).unwrap_or(0)).min(served.content.len());
        let mut piece = std::borrow::Cow::Borrowed(&served.content[from..to]);
        if let Fault::Flipped(place) = fault
            && (at..at + step).contains(place)
        {
            piece.to_mut()[usize::try_from(place - at).unwrap_or(0)] ^= 1;
        }
        if (piece.len() as u64) < step {
            piece.to_mut().resize(usize::try_from(step).unwrap_or(0), 0);
        }
        if !served.length {
            out.write_all(format!("{step:x}\r\n").as_bytes())?;
        }
        // First: whoever has a byte finds it counted.
        shared.sent.fetch_add(step, Ordering::SeqCst);
        if let Err(error) = out.write_all(&piece) {
            shared.sent.fetch_sub(step, Ordering::SeqCst);
            return Err(error);
        }
        if !served.length {
            out.write_all(b"\r\n")?;
        }
        at += step;
        if served.rate > 0 {
            thread::sleep(Duration::from_secs_f64(step as f64 / served.rate as f64));
        }
    }
    match fault {
        Fault::StallAfter(_) => {
            // Longer than any test waits; the other side hangs up.
            thread::sleep(Duration::from_secs(600));
            return Ok(false);
        }
        Fault::CutAfter(_) => return Ok(false),
        _ => {}
    }
    if !served.length {
        out.write_all(b"0\r\n\r\n")?;
    }
    Ok(true)
}

fn parse(text: &str, size: u64) -> Option<Range<u64>> {
    let (start, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let start = start.parse().ok()?;
    let end = if last.is_empty() { size } else { last.parse::<u64>().ok()?.saturating_add(1).min(size) };
    Some(start..end)
}
