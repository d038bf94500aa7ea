//! Signed releases for tests: an OCI layout of release images, each with its metadata and a tree of files, signed with
//! OpenPGP (`signatures/` in the layout) and with cosign-style keys (a tag beside the image), by the real `gpg` and `openssl`.
//!
//! ```no_run
//! # use testkit::{gpg::Gpg, image::Layer, registry::Scratch, releases::{CosignKey, Release, Releases}};
//! let scratch = Scratch::new("releases");
//! let gpg = Gpg::new();
//! gpg.key("vendor", "ed25519", "never"); // the public half: gpg.export("vendor")
//! let site = CosignKey::new(&scratch.0, "p256"); // the public half: site.public_file(), site.public()
//! let mut releases = Releases::create(&scratch.join("releases"));
//! for (version, previous) in [("1.0.0", &[][..]), ("2.0.0", &["1.0.0"])] {
//!     let image = releases.add(&Release::new(version, previous).file("bin/tool", 0o755, b"#!/bin/sh\n"));
//!     releases.sign_openpgp(&image.digest, &gpg, "vendor");
//!     releases.sign_cosign(&image.digest, &site);
//! }
//! println!("{}", releases.reference("2.0.0")); // oci:DIR@sha256:…
//! ```

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine as _;
use serde_json::json;

use crate::gpg::Gpg;
use crate::image::{Descriptor, Form, Image, Layer, Layout, METADATA, Packing, header, release_metadata};
use crate::registry::Registry;

/// What cosign calls its payloads.
pub const PAYLOAD_TYPE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
pub const SIGNATURE_ANNOTATION: &str = "dev.cosignproject.cosign/signature";

/// One release to be.
#[derive(Debug, Clone)]
pub struct Release {
    pub version: String,
    pub arch: String,
    /// The lowest first: a layer of files, then one with what makes it a release.
    pub layers: Vec<Layer>,
    files: Vec<(String, u32, Vec<u8>)>,
    metadata: Vec<u8>,
}

impl Release {
    /// For this machine.
    pub fn new(version: &str, previous: &[&str]) -> Self {
        let arch = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self {
            version: version.to_owned(),
            arch: arch.to_owned(),
            layers: vec![],
            files: vec![],
            metadata: release_metadata(version, previous),
        }
    }

    /// A file of its tree; the directories that it is in are made.
    pub fn file(mut self, path: &str, mode: u32, content: &[u8]) -> Self {
        self.files.push((path.to_owned(), mode, content.to_vec()));
        self
    }

    /// All files below a directory of this machine, with their modes.
    pub fn tree(mut self, directory: &Path) -> Self {
        let mut left = vec![directory.to_owned()];
        while let Some(next) = left.pop() {
            for entry in fs::read_dir(&next).expect("a directory of files") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    left.push(path);
                    continue;
                }
                let inside = path.strip_prefix(directory).expect("a path below").to_string_lossy();
                let mode = fs::metadata(&path).expect("a file").permissions().mode() & 0o777;
                let content = fs::read(&path).expect("a file");
                self.files.push((inside.into_owned(), mode, content));
            }
        }
        self.files.sort();
        self
    }

    /// A layer of its own below the files: for what a tool would not write.
    pub fn layer(mut self, layer: Layer) -> Self {
        self.layers.push(layer);
        self
    }

    /// Instead of what it would say of itself.
    pub fn metadata(mut self, content: &[u8]) -> Self {
        self.metadata = content.to_vec();
        self
    }

    pub fn image(&self) -> Image {
        let mut archive = tar::Builder::new(vec![]);
        let mut append = |path: &str, mode: u32, content: &[u8]| {
            let mut head = header(path, content.len() as u64, tar::EntryType::Regular);
            head.set_mode(mode);
            head.set_cksum();
            archive.append(&head, content).expect("a layer");
        };
        self.files.iter().for_each(|(path, mode, content)| append(path, *mode, content));
        append(METADATA, 0o644, &self.metadata);
        let mut layers = self.layers.clone();
        layers.push(Layer::of_archive(&archive.into_inner().expect("a layer"), Packing::Gzip));
        Image { form: Form::Oci, arch: self.arch.clone(), labels: vec![], layers }
    }
}

/// A key pair as cosign uses them, made by `openssl`.
pub struct CosignKey {
    private: PathBuf,
    public: PathBuf,
    ed25519: bool,
}

impl CosignKey {
    /// `algorithm` is `p256`, `ed25519`, or `rsaBITS`.
    pub fn new(directory: &Path, algorithm: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let (private, public) =
            (directory.join(format!("key-{number}.pem")), directory.join(format!("key-{number}.pub")));
        let size = algorithm.strip_prefix("rsa").map(|bits| format!("rsa_keygen_bits:{bits}"));
        let kind: Vec<&str> = match (algorithm, &size) {
            ("p256", _) => vec!["EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
            ("p384", _) => vec!["EC", "-pkeyopt", "ec_paramgen_curve:P-384"],
            ("ed25519", _) => vec!["ED25519"],
            (_, Some(size)) => vec!["RSA", "-pkeyopt", size],
            _ => panic!("no key is of the algorithm {algorithm}"),
        };
        let (private_name, public_name) = (private.to_string_lossy(), public.to_string_lossy());
        openssl(&[&["genpkey", "-quiet", "-out", &private_name, "-algorithm"][..], &kind].concat());
        openssl(&["pkey", "-in", &private_name, "-pubout", "-out", &public_name]);
        Self { private, public, ed25519: algorithm == "ed25519" }
    }

    pub fn public_file(&self) -> &Path {
        &self.public
    }

    /// In PEM.
    pub fn public(&self) -> Vec<u8> {
        fs::read(&self.public).expect("a public key")
    }

    pub fn private_file(&self) -> &Path {
        &self.private
    }

    pub fn sign(&self, payload: &[u8]) -> Vec<u8> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let (input, output) = (
            self.private.with_extension(format!("in-{number}")),
            self.private.with_extension(format!("out-{number}")),
        );
        fs::write(&input, payload).expect("what is to be signed");
        let key = self.private.to_string_lossy();
        let (input_name, output_name) = (input.to_string_lossy(), output.to_string_lossy());
        if self.ed25519 {
            let arguments =
                ["pkeyutl", "-sign", "-rawin", "-inkey", &key, "-in", &input_name, "-out", &output_name];
            openssl(&arguments);
        } else {
            openssl(&["dgst", "-sha256", "-sign", &key, "-out", &output_name, &input_name]);
        }
        let signature = fs::read(&output).expect("a signature");
        let _ = fs::remove_file(input);
        let _ = fs::remove_file(output);
        signature
    }
}

fn openssl(arguments: &[&str]) {
    let output = Command::new("openssl").args(arguments).output().expect("openssl is needed");
    assert!(output.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// What is signed, in the form that `kind` names.
pub fn claims(digest: &str, kind: &str) -> Vec<u8> {
    let claims = json!({
        "critical": {
            "identity": { "docker-reference": "registry.example/releases" },
            "image": { "docker-manifest-digest": digest },
            "type": kind,
        },
        "optional": null,
    });
    claims.to_string().into_bytes()
}

pub const COSIGN: &str = "cosign container image signature";
pub const ATOMIC: &str = "atomic container signature";

/// `sha256-HEX.sig`.
pub fn signature_tag(digest: &str) -> String {
    format!("{}.sig", digest.replace(':', "-"))
}

/// A layout directory with releases; each is tagged with its version.
pub struct Releases {
    pub layout: Layout,
    images: Vec<(String, Descriptor)>,
    /// By the digest that they are filed under.
    cosign: Vec<(String, Vec<u8>, Vec<u8>)>,
}

impl Releases {
    pub fn create(path: &Path) -> Self {
        let layout = Layout::create(path);
        layout.write();
        Self { layout, images: vec![], cosign: vec![] }
    }

    pub fn add(&mut self, release: &Release) -> Descriptor {
        let image = self.layout.image(&release.image());
        self.layout.tag(&image, &release.version);
        self.images.push((release.version.clone(), image.clone()));
        image
    }

    /// Of several platforms.
    pub fn add_list(&mut self, version: &str, releases: &[Release]) -> Descriptor {
        let children: Vec<_> = releases.iter().map(|release| self.layout.image(&release.image())).collect();
        let list = self.layout.list(&children, Form::Oci);
        self.layout.tag(&list, version);
        self.images.push((version.to_owned(), list.clone()));
        list
    }

    pub fn get(&self, version: &str) -> &Descriptor {
        let found = self.images.iter().find(|(known, _)| known == version);
        &found.unwrap_or_else(|| panic!("there is no release {version}")).1
    }

    /// `oci:DIR@sha256:…`.
    pub fn reference(&self, version: &str) -> String {
        format!("oci:{}@{}", self.layout.path.display(), self.get(version).digest)
    }

    /// Adds a signature to the store in the layout.
    pub fn sign_openpgp(&self, digest: &str, gpg: &Gpg, name: &str) {
        self.file_openpgp(digest, &gpg.sign(name, &claims(digest, ATOMIC)));
    }

    /// Files bytes as a signature of `digest`, whatever they are.
    pub fn file_openpgp(&self, digest: &str, signature: &[u8]) {
        let directory = self.signatures().join(digest.replace(':', "="));
        fs::create_dir_all(&directory).expect("a signature store");
        let number = fs::read_dir(&directory).expect("a signature store").count() + 1;
        fs::write(directory.join(format!("signature-{number}")), signature).expect("a signature");
    }

    pub fn signatures(&self) -> PathBuf {
        self.layout.path.join("signatures")
    }

    /// Adds a signature to the image beside the image.
    pub fn sign_cosign(&mut self, digest: &str, key: &CosignKey) {
        let payload = claims(digest, COSIGN);
        let signature = key.sign(&payload);
        self.file_cosign(digest, &payload, &signature);
    }

    /// Files a payload and a signature under `digest`, whatever they are.
    pub fn file_cosign(&mut self, digest: &str, payload: &[u8], signature: &[u8]) {
        self.cosign.push((digest.to_owned(), payload.to_vec(), signature.to_vec()));
        let filed = self.cosign.iter().filter(|(of, ..)| of == digest);
        let layers: Vec<_> = filed
            .map(|(_, payload, signature)| {
                let signature = base64::engine::general_purpose::STANDARD.encode(signature);
                json!({
                    "mediaType": PAYLOAD_TYPE, "digest": self.layout.blob(payload), "size": payload.len(),
                    "annotations": { SIGNATURE_ANNOTATION: signature },
                })
            })
            .collect();
        let image = self.layout.artifact(&layers);
        self.layout.retag(&image, &signature_tag(digest));
        self.images.retain(|(tag, _)| *tag != signature_tag(digest));
        self.images.push((signature_tag(digest), image));
    }

    /// Uploads all releases and the signatures beside them.
    pub fn push(&self, registry: &Registry, repository: &str) {
        for (tag, image) in &self.images {
            registry.put(&self.layout, image, repository, tag);
        }
    }
}
