//! A small appliance for tests: an HTTP server on loopback that keeps notes, in a file per version of their form, and
//! misbehaves on demand.
//!
//! `GET /version`, `GET /ready`, `GET /pid`, `GET|PUT /notes/KEY`. Notes are `KEY=VALUE` lines in `notes.vN`, where N is
//! the version of the data that it is told to be of; it reads that file only, and will not start beside a newer one.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

type Outcome<T> = Result<T, Box<dyn Error>>;

const LONGEST_BODY: usize = 1 << 20;

struct Options {
    data: PathBuf,
    port: u16,
    version: String,
    data_version: u32,
    misbehave: Vec<String>,
    crash_after: Option<Duration>,
}

fn main() -> ExitCode {
    match options().and_then(|options| serve(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("notes: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Outcome<Options> {
    let mut options = Options {
        data: PathBuf::new(),
        port: 0,
        version: String::new(),
        data_version: 1,
        misbehave: vec![],
        crash_after: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "--data" => options.data = value()?.into(),
            "--port" => options.port = value()?.parse()?,
            "--version" => options.version = value()?,
            "--data-version" => options.data_version = value()?.parse()?,
            // crash-at-start, crash-after-first-answer, never-ready, leave-a-child, hide-a-child, print-a-lot,
            // notify, show-config
            "--misbehave" => options.misbehave.push(value()?),
            "--crash-after" => options.crash_after = Some(Duration::from_secs_f64(value()?.parse()?)),
            _ => return Err(format!("{flag} is not known").into()),
        }
    }
    Ok(options)
}

impl Options {
    fn does(&self, what: &str) -> bool {
        self.misbehave.iter().any(|one| one == what)
    }

    fn file(&self) -> PathBuf {
        self.data.join(format!("notes.v{}", self.data_version))
    }
}

fn serve(options: &Options) -> Outcome<()> {
    if options.does("crash-at-start") {
        return Err("told to crash".into());
    }
    refuse_newer(options)?;
    if let Some(after) = options.crash_after {
        std::thread::spawn(move || {
            std::thread::sleep(after);
            std::process::exit(4);
        });
    }
    if options.does("leave-a-child") {
        Command::new("sleep").arg("1000").spawn()?;
    }
    if options.does("hide-a-child") {
        // In a session of its own, by a parent that ends.
        Command::new("sh")
            .args(["-c", "setsid sleep 1000 & setsid sh -c 'sleep 1000 & sleep 1000' &"])
            .spawn()?;
    }
    if options.does("print-a-lot") {
        let line = "x".repeat(99);
        let out = std::io::stdout();
        let mut out = out.lock();
        for _ in 0..120_000 {
            writeln!(out, "{line}")?;
        }
    }
    if options.does("show-config") {
        let path = std::env::var("HOLDFAST_CONFIG")?;
        let config = fs::read_to_string(path)?;
        println!("config of {} bytes", config.len());
        fs::write(options.data.join("seen"), config.len().to_string())?;
        if fs::OpenOptions::new()
            .append(true)
            .open(std::env::var("HOLDFAST_CONFIG")?)
            .and_then(|mut f| f.write_all(b"x"))
            .is_ok()
        {
            return Err("the configuration could be changed".into());
        }
    }
    let listener = TcpListener::bind(("127.0.0.1", options.port))?;
    println!("notes {} on {}", options.version, listener.local_addr()?);
    if options.does("notify") {
        let socket = std::env::var("NOTIFY_SOCKET")?;
        UnixDatagram::unbound()?.send_to(b"STATUS=open\nREADY=1", socket)?;
    }
    for stream in listener.incoming() {
        // Whoever hangs up in the middle has no claim to an answer.
        let _ = answer(stream?, options);
    }
    Ok(())
}

fn refuse_newer(options: &Options) -> Outcome<()> {
    for entry in fs::read_dir(&options.data)? {
        let name = entry?.file_name();
        let version =
            name.to_str().and_then(|name| name.strip_prefix("notes.v")).and_then(|v| v.parse::<u32>().ok());
        if version.is_some_and(|version| version > options.data_version) {
            return Err(format!("{} is newer than {}", name.display(), options.data_version).into());
        }
    }
    Ok(())
}

fn answer(stream: TcpStream, options: &Options) -> Outcome<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse::<usize>()?.min(LONGEST_BODY);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut words = first.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, text) = reply(method, path, &String::from_utf8(body)?, options)?;
    let length = text.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    (&stream).write_all(format!("{head}{text}").as_bytes())?;
    if options.does("crash-after-first-answer") {
        std::process::exit(3);
    }
    Ok(())
}

fn reply(method: &str, path: &str, body: &str, options: &Options) -> Outcome<(&'static str, String)> {
    let found = |text: String| Ok(("200 OK", text));
    match (method, path.strip_prefix("/notes/")) {
        ("GET", None) if path == "/version" => found(options.version.clone()),
        ("GET", None) if path == "/pid" => found(std::process::id().to_string()),
        ("GET", None) if path == "/ready" && options.does("never-ready") => {
            Ok(("503 Service Unavailable", "not yet".to_owned()))
        }
        ("GET", None) if path == "/ready" => found("ready".to_owned()),
        ("GET", Some(key)) => match load(&options.file())?.remove(key) {
            Some(value) => found(value),
            None => Ok(("404 Not Found", String::new())),
        },
        ("PUT", Some(key)) => {
            let mut notes = load(&options.file())?;
            notes.insert(key.to_owned(), body.replace('\n', " "));
            save(options, &notes)?;
            found(String::new())
        }
        _ => Ok(("404 Not Found", String::new())),
    }
}

fn load(path: &Path) -> Outcome<BTreeMap<String, String>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        other => other?,
    };
    let notes = text.lines().filter_map(|line| line.split_once('='));
    Ok(notes.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}

/// Acknowledged only when it is on disk.
fn save(options: &Options, notes: &BTreeMap<String, String>) -> Outcome<()> {
    let text: String = notes.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    let next = options.data.join("next");
    let mut file = fs::File::create(&next)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(next, options.file())?;
    Ok(fs::File::open(&options.data)?.sync_all()?)
}
