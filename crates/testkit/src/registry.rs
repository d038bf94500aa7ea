//! The real `docker-registry` on a loopback port, and images pushed into it by the real `skopeo`.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use base64::Engine as _;

use crate::image::{Form, Layout};

/// The user of a registry with basic authentication.
pub const USER: &str = "alice";
pub const PASSWORD: &str = "wonderland";
/// Of the password, in the one form that the registry takes; made with the least work it allows.
const PASSWORD_HASH: &str = "$2b$04$HUrPExN7L.Qds4hyJ87O6ebIzODDIaGyzGLa9g.OzkQPp.9//Ejiu";

/// A directory that goes with its value.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        // In memory where there is such a place: what is tested here is not the disk.
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let path = parent.join(format!("holdfast-{name}-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a scratch directory");
        Self(path)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// How a registry lets people in.
#[derive(Default)]
pub struct Options {
    pub basic_auth: bool,
    /// Certificate and key, PEM.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Where tokens are had, and the certificate (PEM) of who signs them.
    pub tokens: Option<(String, PathBuf)>,
}

pub struct Registry {
    pub address: SocketAddr,
    options: Options,
    scratch: Scratch,
    process: Child,
    /// Repository and digest of what [`Self::put`] uploaded: each once, because the registry denies for a moment what it
    /// has when that comes a second time.
    uploaded: Mutex<HashMap<String, Arc<OnceLock<()>>>>,
}

/// By the configuration that lies there.
fn serve(scratch: &Scratch) -> Child {
    let log = fs::File::options().create(true).append(true).open(scratch.join("log")).expect("a log");
    Command::new("docker-registry")
        .arg("serve")
        .arg(scratch.join("config.yml"))
        .env_remove("REGISTRY_HTTP_ADDR")
        .stdout(log.try_clone().expect("a log"))
        .stderr(log)
        .stdin(Stdio::null())
        .spawn()
        .expect("docker-registry is needed: install the package of that name")
}

impl Registry {
    pub fn start() -> Self {
        Self::with(Options::default())
    }

    pub fn with(options: Options) -> Self {
        let scratch = Scratch::new("registry");
        // Between finding a free port and taking it, somebody else may.
        for _ in 0..10 {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
            let address = free.local_addr().expect("its number");
            drop(free);
            let config = scratch.join("config.yml");
            fs::write(&config, configuration(&scratch, address, &options)).expect("a configuration");
            let mut process = serve(&scratch);
            for _ in 0..600 {
                if TcpStream::connect(address).is_ok() && process.try_wait().expect("its state").is_none() {
                    let uploaded = Mutex::default();
                    return Self { address, options, scratch, process, uploaded };
                }
                if process.try_wait().expect("its state").is_some() {
                    break;
                }
                thread::sleep(Duration::from_millis(50));
            }
            let _ = process.kill();
            let _ = process.wait();
        }
        let log = fs::read_to_string(scratch.join("log")).unwrap_or_default();
        panic!("docker-registry does not start:\n{log}");
    }

    /// `kill -9`, whatever it was answering.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// After [`Self::kill`], with what was pushed before.
    pub fn start_again(&mut self) {
        self.process = serve(&self.scratch);
        for _ in 0..600 {
            if TcpStream::connect(self.address).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("docker-registry does not start again");
    }

    /// It answers nobody until [`Self::resume`].
    pub fn pause(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    pub fn resume(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.process), signal)
            .expect("a process");
    }

    /// `127.0.0.1:PORT`.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Pushes what a layout has under a tag. `form` is what it becomes: `skopeo` converts.
    pub fn push(&self, layout: &Layout, layout_tag: &str, repository: &str, tag: &str, form: Form) {
        let mut command = Command::new("skopeo");
        command.args(["--insecure-policy", "copy", "--quiet", "--all"]);
        command.args(["--format", if form == Form::Oci { "oci" } else { "v2s2" }]);
        if self.options.basic_auth || self.options.tokens.is_some() {
            command.args(["--dest-creds", &format!("{USER}:{PASSWORD}")]);
        }
        let output = command
            .arg("--dest-tls-verify=false")
            .arg(format!("oci:{}:{layout_tag}", layout.path.display()))
            .arg(format!("docker://{}/{repository}:{tag}", self.host()))
            .output()
            .expect("skopeo is needed: install the package of that name");
        assert!(output.status.success(), "skopeo: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Uploads a blob as it is, without authentication: for many, and for what `skopeo` would not push.
    pub fn put_blob(&self, repository: &str, digest: &str, bytes: &[u8]) {
        let (status, head) = self.ask("POST", &format!("/v2/{repository}/blobs/uploads/"), "", b"");
        assert_eq!(status, 202, "{head}");
        let location = head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case("location").then(|| value.trim().to_owned())
        });
        let location = location.expect("where to upload");
        let path = location.split_once("/v2/").map(|(_, rest)| format!("/v2/{rest}")).expect("a path");
        let joint = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{joint}digest={digest}");
        let (status, head) = self.ask("PUT", &path, "application/octet-stream", bytes);
        assert_eq!(status, 201, "{head}");
    }

    /// Uploads a manifest as it is under a tag or a digest.
    pub fn put_manifest(&self, repository: &str, reference: &str, media_type: &str, bytes: &[u8]) {
        let (status, head) =
            self.ask("PUT", &format!("/v2/{repository}/manifests/{reference}"), media_type, bytes);
        assert_eq!(status, 201, "{head}");
    }

    /// Uploads an image with all that it needs, in the form that the layout has it in.
    pub fn put(&self, layout: &Layout, image: &crate::image::Descriptor, repository: &str, tag: &str) {
        let read = |digest: &str| fs::read(layout.blob_path(digest)).expect("a blob of the layout");
        let bytes = read(&image.digest);
        let manifest: serde_json::Value = serde_json::from_slice(&bytes).expect("a manifest");
        let digest_of = |value: &serde_json::Value| value["digest"].as_str().expect("a digest").to_owned();
        for child in manifest["manifests"].as_array().into_iter().flatten() {
            let child = crate::image::Descriptor {
                digest: digest_of(child),
                media_type: if child["mediaType"] == Form::Oci.manifest() {
                    Form::Oci.manifest()
                } else {
                    Form::Docker.manifest()
                },
                ..image.clone()
            };
            self.put(layout, &child, repository, &child.digest.clone());
        }
        let blobs = manifest["layers"].as_array().into_iter().flatten().chain(manifest.get("config"));
        for digest in blobs.map(digest_of) {
            let name = format!("{repository}@{digest}");
            let mut uploaded = self.uploaded.lock().unwrap_or_else(PoisonError::into_inner);
            let once = Arc::clone(uploaded.entry(name).or_default());
            drop(uploaded);
            once.get_or_init(|| self.put_blob(repository, &digest, &read(&digest)));
        }
        self.put_manifest(repository, tag, image.media_type, &bytes);
    }

    fn ask(&self, method: &str, path: &str, media_type: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).expect("the registry");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: {media_type}\r\n\
             content-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).expect("a request");
        let mut answer = vec![];
        stream.read_to_end(&mut answer).expect("an answer");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, answer)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn configuration(scratch: &Scratch, address: SocketAddr, options: &Options) -> String {
    let mut text = format!(
        "version: 0.1\nlog:\n  level: warn\nstorage:\n  filesystem:\n    rootdirectory: {}\n\
         http:\n  addr: {address}\n",
        scratch.join("data").display()
    );
    if let Some((certificate, key)) = &options.tls {
        text += &format!("  tls:\n    certificate: {}\n    key: {}\n", certificate.display(), key.display());
    }
    if options.basic_auth {
        let file = scratch.join("htpasswd");
        fs::write(&file, format!("{USER}:{PASSWORD_HASH}\n")).expect("htpasswd");
        text += &format!("auth:\n  htpasswd:\n    realm: test\n    path: {}\n", file.display());
    }
    if let Some((realm, certificate)) = &options.tokens {
        text += &format!(
            "auth:\n  token:\n    realm: {realm}\n    service: test\n    issuer: test\n    rootcertbundle: {}\n",
            certificate.display()
        );
    }
    text
}

/// A docker `config.json` with one user for one host.
pub fn docker_config(path: &Path, host: &str, user: &str, password: &str) {
    let auth = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    fs::write(path, format!(r#"{{"auths":{{"{host}":{{"auth":"{auth}"}}}}}}"#)).expect("a config.json");
}

/// An authority of its own, and a certificate for 127.0.0.1 by it: `ca.pem`, `server.pem`, `server.key`.
pub fn certificates(directory: &Path) {
    let run = |arguments: &[&str]| {
        let output = Command::new("openssl").current_dir(directory).args(arguments).output();
        let output = output.expect("openssl is needed");
        assert!(output.status.success(), "openssl: {}", String::from_utf8_lossy(&output.stderr));
    };
    let new_key = ["-newkey", "rsa:2048", "-nodes"];
    let ca = ["req", "-x509", "-days", "30", "-subj", "/CN=test ca", "-keyout", "ca.key", "-out", "ca.pem"];
    run(&[&ca[..], &new_key].concat());
    let request = ["req", "-subj", "/CN=127.0.0.1", "-keyout", "server.key", "-out", "server.csr"];
    run(&[&request[..], &new_key].concat());
    fs::write(directory.join("server.ext"), "subjectAltName=IP:127.0.0.1\n").expect("extensions");
    run(&[
        "x509",
        "-req",
        "-in",
        "server.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        "30",
        "-extfile",
        "server.ext",
        "-out",
        "server.pem",
    ]);
}
