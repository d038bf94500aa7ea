//! A directory that goes away, a layout of one image, a file server, and the real `gpg`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use trust::digest::Digest;

pub struct Scratch(PathBuf);

fn fresh(what: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("hf-{what}-{}-{n}", std::process::id()));
    fs::create_dir_all(&path).unwrap();
    path
}

impl Scratch {
    pub fn new() -> Self {
        Self(fresh("data"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn child(&self, child: Child) -> Running {
        Running(child)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that ends with the test.
pub struct Running(Child);

impl Running {
    pub fn stop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

pub fn wait_for(ready: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !ready() {
        assert!(Instant::now() < end, "it never came up");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An OCI layout with one image, under `tag`, of one layer that holds `data` below `prefix`.
pub fn layout(root: &Path, tag: &str, data: &Path, prefix: &str) {
    let _ = fs::remove_dir_all(root);
    fs::create_dir_all(root.join("blobs/sha256")).unwrap();
    fs::write(root.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
    let put = |content: &[u8]| {
        let digest = Digest::sha256(content);
        fs::write(root.join("blobs/sha256").join(digest.parts().1), content).unwrap();
        (digest.to_string(), content.len())
    };
    let mut tar = tar::Builder::new(vec![]);
    tar.append_dir_all(if prefix.is_empty() { "." } else { prefix }, data).unwrap();
    let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    packed.write_all(&tar.into_inner().unwrap()).unwrap();
    let (layer, layer_size) = put(&packed.finish().unwrap());
    let (config, config_size) =
        put(br#"{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}"#);
    let oci = "application/vnd.oci.image";
    let (manifest, manifest_size) = put(format!(
        r#"{{"schemaVersion":2,"mediaType":"{oci}.manifest.v1+json",
            "config":{{"mediaType":"{oci}.config.v1+json","digest":"{config}","size":{config_size}}},
            "layers":[{{"mediaType":"{oci}.layer.v1.tar+gzip","digest":"{layer}","size":{layer_size}}}]}}"#
    )
    .as_bytes());
    let index = format!(
        r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"{oci}.manifest.v1+json","digest":"{manifest}",
        "size":{manifest_size},"annotations":{{"org.opencontainers.image.ref.name":"{tag}"}}}}]}}"#
    );
    fs::write(root.join("index.json"), index).unwrap();
}

/// Of its one image.
pub fn layout_digest(root: &Path) -> String {
    let index: serde_json::Value =
        serde_json::from_slice(&fs::read(root.join("index.json")).unwrap()).unwrap();
    index["manifests"][0]["digest"].as_str().unwrap().to_owned()
}

pub fn claims(digest: &str) -> Vec<u8> {
    let text = format!(
        r#"{{"critical":{{"type":"atomic container signature","image":{{"docker-manifest-digest":"{digest}"}},
        "identity":{{"docker-reference":"registry.example/graph-data:latest"}}}},"optional":{{}}}}"#
    );
    text.into_bytes()
}

/// Serves a directory until the process ends; its address.
pub fn web(root: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let root = root.to_owned();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let mut lines = BufReader::new(&connection).lines().map_while(Result::ok);
            let request = lines.next().unwrap_or_default();
            let _ = lines.by_ref().take_while(|line| !line.is_empty()).count();
            let path = request.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
            let (status, body) = match fs::read(root.join(path)) {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", vec![]),
            };
            let head =
                format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = (&connection).write_all(&[head.as_bytes(), &body].concat());
        }
    });
    format!("http://{address}")
}
