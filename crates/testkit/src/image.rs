//! Images for tests, written as OCI layout directories: layers in every packing, manifests in the forms of OCI and of
//! Docker, lists of them, and layers that are up to no good.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Oci,
    Docker,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    Plain,
    Gzip,
    Zstd,
}

impl Form {
    pub fn manifest(self) -> &'static str {
        match self {
            Self::Oci => "application/vnd.oci.image.manifest.v1+json",
            Self::Docker => "application/vnd.docker.distribution.manifest.v2+json",
        }
    }

    pub fn list(self) -> &'static str {
        match self {
            Self::Oci => "application/vnd.oci.image.index.v1+json",
            Self::Docker => "application/vnd.docker.distribution.manifest.list.v2+json",
        }
    }

    fn config(self) -> &'static str {
        match self {
            Self::Oci => "application/vnd.oci.image.config.v1+json",
            Self::Docker => "application/vnd.docker.container.image.v1+json",
        }
    }

    fn layer(self, packing: Packing) -> &'static str {
        match (self, packing) {
            (Self::Oci, Packing::Plain) => "application/vnd.oci.image.layer.v1.tar",
            (Self::Oci, Packing::Gzip) => "application/vnd.oci.image.layer.v1.tar+gzip",
            (Self::Oci, Packing::Zstd) => "application/vnd.oci.image.layer.v1.tar+zstd",
            (Self::Docker, Packing::Plain) => "application/vnd.docker.image.rootfs.diff.tar",
            (Self::Docker, Packing::Gzip) => "application/vnd.docker.image.rootfs.diff.tar.gzip",
            (Self::Docker, Packing::Zstd) => "application/vnd.docker.image.rootfs.diff.tar.zstd",
        }
    }
}

/// A layer: the archive, and how it is packed.
#[derive(Debug, Clone)]
pub struct Layer {
    packed: Vec<u8>,
    packing: Packing,
    /// Of the archive before it was packed.
    archive_digest: String,
}

impl Layer {
    /// Of files, in this order.
    pub fn of(files: &[(&str, &[u8])], packing: Packing) -> Self {
        let mut archive = tar::Builder::new(vec![]);
        for (path, content) in files {
            archive
                .append(&header(path, content.len() as u64, tar::EntryType::Regular), *content)
                .expect("a layer");
        }
        Self::of_archive(&archive.into_inner().expect("a layer"), packing)
    }

    /// Of an archive as it is.
    pub fn of_archive(archive: &[u8], packing: Packing) -> Self {
        let packed = match packing {
            Packing::Plain => archive.to_vec(),
            Packing::Gzip => {
                let mut writer = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
                writer.write_all(archive).and_then(|()| writer.finish()).expect("gzip")
            }
            Packing::Zstd => zstd::encode_all(archive, 1).expect("zstd"),
        };
        Self { packed, packing, archive_digest: digest(archive) }
    }

    /// Bytes that claim to be a packed archive.
    pub fn of_packed(packed: Vec<u8>, packing: Packing) -> Self {
        Self { archive_digest: digest(&packed), packed, packing }
    }
}

/// A header of an entry, whose path is written as given: tools would not write every one.
pub fn header(path: &str, size: u64, kind: tar::EntryType) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    let name = &mut header.as_old_mut().name;
    assert!(path.len() < name.len(), "{path} is too long for a plain header");
    name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_size(size);
    header.set_mode(0o644);
    header.set_entry_type(kind);
    header.set_cksum();
    header
}

/// One image for one platform.
#[derive(Debug, Clone)]
pub struct Image {
    pub form: Form,
    pub arch: String,
    pub labels: Vec<(String, String)>,
    pub layers: Vec<Layer>,
}

/// What a manifest is called by in lists.
#[derive(Debug, Clone)]
pub struct Descriptor {
    pub digest: String,
    pub media_type: &'static str,
    pub size: usize,
    pub arch: String,
}

impl Descriptor {
    fn json(&self) -> Value {
        let os = if self.arch == "unknown" { "unknown" } else { "linux" };
        json!({
            "mediaType": self.media_type, "digest": self.digest, "size": self.size,
            "platform": { "architecture": self.arch, "os": os },
        })
    }
}

pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// The content of a release's metadata file.
pub fn release_metadata(version: &str, previous: &[&str]) -> Vec<u8> {
    let content = json!({
        "kind": "cincinnati-metadata-v0", "version": version, "previous": previous, "next": [],
        "metadata": { "url": format!("https://example.org/{version}"), "description": null },
    });
    content.to_string().into_bytes()
}

/// Where release images hold it.
pub const METADATA: &str = "release-manifests/release-metadata";

impl Image {
    /// A release: a base layer, and one with its metadata.
    pub fn release(version: &str, previous: &[&str], arch: &str, form: Form, packing: Packing) -> Self {
        let base = Layer::of(&[("bin/base", arch.as_bytes())], packing);
        let top = Layer::of(&[("bin/tool", b"x"), (METADATA, &release_metadata(version, previous))], packing);
        Self { form, arch: arch.to_owned(), labels: vec![], layers: vec![base, top] }
    }

    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.push((key.to_owned(), value.to_owned()));
        self
    }
}

/// An OCI layout directory under construction.
pub struct Layout {
    pub path: PathBuf,
    entries: Vec<Value>,
}

impl Layout {
    pub fn create(path: &Path) -> Self {
        fs::create_dir_all(path.join("blobs/sha256")).expect("a layout directory");
        fs::write(path.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).expect("oci-layout");
        Self { path: path.to_owned(), entries: vec![] }
    }

    pub fn blob(&self, bytes: &[u8]) -> String {
        let digest = digest(bytes);
        fs::write(self.blob_path(&digest), bytes).expect("a blob");
        digest
    }

    pub fn blob_path(&self, digest: &str) -> PathBuf {
        self.path.join("blobs").join(digest.replace(':', "/"))
    }

    pub fn image(&self, image: &Image) -> Descriptor {
        let labels: serde_json::Map<String, Value> =
            image.labels.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        let archives: Vec<_> = image.layers.iter().map(|layer| &layer.archive_digest).collect();
        let config = json!({
            "architecture": image.arch, "os": "linux", "config": { "Labels": labels },
            "rootfs": { "type": "layers", "diff_ids": archives },
        });
        let config = config.to_string();
        let layers: Vec<Value> = image.layers.iter().map(|layer| {
            let media_type = image.form.layer(layer.packing);
            json!({ "mediaType": media_type, "digest": self.blob(&layer.packed), "size": layer.packed.len() })
        }).collect();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": image.form.manifest(),
            "config": {
                "mediaType": image.form.config(), "digest": self.blob(config.as_bytes()), "size": config.len(),
            },
            "layers": layers,
        });
        self.descriptor(&manifest, image.form.manifest(), &image.arch)
    }

    pub fn list(&self, children: &[Descriptor], form: Form) -> Descriptor {
        let children: Vec<_> = children.iter().map(Descriptor::json).collect();
        let list = json!({ "schemaVersion": 2, "mediaType": form.list(), "manifests": children });
        self.descriptor(&list, form.list(), "")
    }

    fn descriptor(&self, manifest: &Value, media_type: &'static str, arch: &str) -> Descriptor {
        let bytes = manifest.to_string();
        let digest = self.blob(bytes.as_bytes());
        Descriptor { digest, media_type, size: bytes.len(), arch: arch.to_owned() }
    }

    pub fn tag(&mut self, image: &Descriptor, tag: &str) {
        let mut entry = json!({ "mediaType": image.media_type, "digest": image.digest, "size": image.size });
        if !tag.is_empty() {
            entry["annotations"] = json!({ "org.opencontainers.image.ref.name": tag });
        }
        self.entries.push(entry);
        self.write();
    }

    /// As [`Self::tag`], for a tag that may be there already.
    pub fn retag(&mut self, image: &Descriptor, tag: &str) {
        self.entries.retain(|entry| entry["annotations"]["org.opencontainers.image.ref.name"] != tag);
        self.tag(image, tag);
    }

    /// An image that is no tree of files: its layers are given as they stand in its manifest.
    pub fn artifact(&self, layers: &[Value]) -> Descriptor {
        let config = json!({ "architecture": "", "os": "", "rootfs": { "type": "layers", "diff_ids": [] } });
        let config = config.to_string();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": Form::Oci.manifest(),
            "config": {
                "mediaType": Form::Oci.config(), "digest": self.blob(config.as_bytes()), "size": config.len(),
            },
            "layers": layers,
        });
        self.descriptor(&manifest, Form::Oci.manifest(), "")
    }

    /// The index, with what was tagged so far.
    pub fn write(&self) {
        let index = json!({ "schemaVersion": 2, "manifests": self.entries });
        fs::write(self.path.join("index.json"), index.to_string()).expect("index.json");
    }
}
