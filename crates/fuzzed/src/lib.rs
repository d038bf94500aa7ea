//! The fuzz targets: one function for each reader of outside input. It calls the reader with any bytes, and panics if
//! the reader breaks a promise. `scripts/fuzz` searches for inputs that make a target panic; the tests of this crate
//! run each target over the inputs in `fuzz/corpus`.
//!
//! Nothing here ships. A target must be deterministic: it uses no clock, no files and no network.

use std::sync::LazyLock;
use std::time::{Duration, UNIX_EPOCH};

use graph::data::files;
use graph::data::tree::Tree;
use graph::serve::query::Query;
use graph::source::metadata::parse_release_metadata;
use images::file::shape_of;
use images::identity::Token;
use images::qcow2::Header;
use images::transfer::frame::{Ask, LARGEST, LARGEST_DATA, Tell, data_head, to_read};
use logic::migrate::{Change, Secrets, diff, is_secret};
use migrate::{Document, Named};
use oci::layers::{LayerLimits, Said, find_file};
use oci::manifest::{ImageConfig, Manifest};
use oci::path::ImagePath;
use serde_json::Map;
use trust::container_signature;
use trust::cosign;
use trust::digest::Digest;
use trust::openpgp::Keyring;

/// Calls one reader with any bytes, and panics if the reader breaks a promise.
pub type Target = fn(&[u8]);

/// All targets, by name. The inputs of a target are in `fuzz/corpus/<name>`.
pub const TARGETS: &[(&str, Target)] = &[
    ("chunk_frames", chunk_frames),
    ("cosign", cosign),
    ("graph_data", graph_data),
    ("image", image),
    ("migration_answer", migration_answer),
    ("migration_data", migration_data),
    ("qcow2", qcow2),
    ("query", query),
    ("release_metadata", release_metadata),
    ("signature", signature),
    ("token", token),
];

/// The longest prefix that is UTF-8, for readers of text.
fn text_of(bytes: &[u8]) -> &str {
    bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}

/// Messages on a link for chunks, in both directions. The input is one frame: its length, its kind, its body.
pub fn chunk_frames(bytes: &[u8]) {
    let Some(([a, b, c, d, kind], rest)) = bytes.split_first_chunk() else { return };
    let length = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
    // The same order as on a link: a frame that is too long is refused before its body is read.
    let Ok(wanted) = to_read(*kind, length) else { return };
    assert!(wanted <= LARGEST);
    let body = &rest[..rest.len().min(wanted)];
    if let Ok(ask) = Ask::read(*kind, body) {
        let mut out = Vec::new();
        ask.write(&mut out);
        assert_eq!(Ask::read(out[4], &out[5..]).as_ref(), Ok(&ask));
    }
    match data_head(*kind, length, body) {
        Some(Tell::Data { length, .. }) => assert!(length <= LARGEST_DATA),
        Some(_) => panic!("the head of a data frame was read as another message"),
        None => {
            if let Ok(tell) = Tell::read(*kind, body) {
                let mut out = Vec::new();
                tell.write(&mut out);
                assert_eq!(Tell::read(out[4], &out[5..]).as_ref(), Ok(&tell));
            }
        }
    }
}

/// Cosign signatures and their keys. The first line of the input is a signature, the rest is a payload. Only the one
/// signed payload is ever accepted.
pub fn cosign(bytes: &[u8]) {
    const KEY: &[u8] = include_bytes!("../signed/cosign.pub");
    /// The only text that was ever signed with the key.
    const PAYLOAD: &[u8] = include_bytes!("../signed/cosign.payload");
    static KEYS: LazyLock<Vec<cosign::PublicKey>> =
        LazyLock::new(|| cosign::PublicKey::read_all(KEY).expect("the committed key can be read"));

    let image = Digest::sha256(b"a manifest");
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (signature, payload) =
        (String::from_utf8_lossy(&bytes[..end]), bytes.get(end + 1..).unwrap_or_default());
    if cosign::verify(payload, &signature, &KEYS, std::slice::from_ref(&image)).is_ok() {
        assert_eq!(payload, PAYLOAD);
    }
    assert!(cosign::verify(payload, &signature, &KEYS, &[Digest::sha256(b"another")]).is_err());
    if let Ok(keys) = cosign::PublicKey::read_all(bytes) {
        let _ = cosign::verify(PAYLOAD, &signature, &keys, &[image]);
    }
}

/// One file of graph data. It is read, or noted as unreadable; the other files are read in any case. The first byte of
/// the input selects the file's path; it is taken modulo 4, so that it can be a letter in inputs written by hand.
pub fn graph_data(bytes: &[u8]) {
    let Some((kind, content)) = bytes.split_first() else { return };
    let path = match kind % 4 {
        0 => "channels/fuzzed.yaml",
        1 => "blocked-edges/fuzzed.yaml",
        2 => "raw/metadata.json",
        _ => "version",
    };
    let mut tree = Tree::default();
    tree.insert("version".into(), b"1.0.0".to_vec());
    tree.insert("channels/good.yaml".into(), b"name: good\nversions: [1.0.0]\n".to_vec());
    tree.insert(path.into(), content.to_vec());
    let Ok((data, notes)) = files::read(&tree) else {
        assert_eq!(path, "version", "only the version makes a tree unreadable");
        return;
    };
    // A channel of the same name may come first and take its place.
    assert!(data.channels.iter().any(|channel| channel.name == "good"));
    let lines =
        content.split(|byte| *byte == b'\n').count() + content.iter().filter(|byte| **byte == b'\r').count();
    for note in notes.iter() {
        if let logic::graph::Place::File { path: noted, line: Some(line) } = &note.place
            && noted == path
        {
            assert!((1..=lines + 1).contains(line), "line {line} of {lines}: {note}");
        }
        assert!(!note.to_string().contains('\n'), "{note}");
    }
    let _ = logic::graph::lint::lint(&data);
}

/// Manifests, configurations and layers of images, from a registry or a layout.
pub fn image(bytes: &[u8]) {
    const LIMITS: LayerLimits = LayerLimits { layer_bytes: 1 << 20, file_bytes: 1 << 10 };

    let _ = Manifest::parse(bytes);
    let _ = ImageConfig::parse(bytes).map(|config| config.labels().count());
    let Ok(wanted) = ImagePath::parse("etc/release") else { return };
    if let Ok(Said::Content(content)) = find_file(bytes, &wanted, LIMITS) {
        assert!(content.len() as u64 <= LIMITS.file_bytes);
    }
}

/// Answers of a release's executables.
pub fn migration_answer(bytes: &[u8]) {
    let Ok(output) = migrate::parse_answer(bytes) else { return };
    assert!(output.notes.iter().chain(&output.unavailable).all(|line| !line.chars().any(char::is_control)));
    assert!(diff(&output.values, &output.values).is_empty());
    let secrets = Secrets::of(&output.values);
    for change in diff(&Map::new(), &output.values) {
        // A change is shown on one line, without anything that has the form of a secret.
        assert!(!change.to_string().contains('\n'));
        let Change::Added { after } = &change.change else {
            panic!("every change to an empty map is an addition")
        };
        assert!(!is_secret(after));
        let _ = secrets.hide(&change.key);
    }
}

/// Documents with data to migrate, and names of migrations.
pub fn migration_data(bytes: &[u8]) {
    if let Ok(name) = std::str::from_utf8(bytes)
        && let Ok(named) = Named::parse(name)
    {
        assert!(name.starts_with(named.target.as_str()));
    }
    let Ok(document) = Document::parse(bytes) else { return };
    let again = Document::parse(document.to_json().as_bytes()).expect("a written document can be read");
    assert_eq!(again, document);
    let data = &document.data;
    if let Ok(path) = logic::migrate::path(document.target, data.version, &data.applied, &[], data.version) {
        assert!(path.is_empty());
    }
}

/// The first bytes of a disk image. An image that refers to another file is refused.
pub fn qcow2(bytes: &[u8]) {
    let header = Header::read(bytes);
    let shape = shape_of(bytes, bytes.len() as u64, None);
    if let Ok(Some(header)) = header
        && (header.backing_file.is_some() || header.external_data)
    {
        assert!(shape.is_err(), "an image that refers to another file was accepted");
    }
}

/// Query strings of clients.
pub fn query(bytes: &[u8]) {
    let Ok(query) = Query::parse(text_of(bytes)) else { return };
    let sorted = query.sorted();
    // The sorted form has the same meaning. Its escapes may make it longer than the limit.
    if let Ok(again) = Query::parse(&sorted) {
        assert_eq!(again.sorted(), sorted);
    }
    let required = ["channel", "id", "version"].map(str::to_owned);
    let _ = query.asked(&required);
    if let Ok(asked) = query.asked(&[]) {
        assert!(!asked.channel.is_empty());
    }
}

/// `release-manifests/release-metadata` of an image.
pub fn release_metadata(bytes: &[u8]) {
    if let Ok((name, metadata)) = parse_release_metadata(bytes) {
        assert_eq!(
            (&name.version.major, &name.version.minor),
            (&metadata.version.major, &metadata.version.minor)
        );
    }
}

/// OpenPGP signatures and keys. Only the one signed text is ever accepted.
pub fn signature(bytes: &[u8]) {
    const KEY: &[u8] = include_bytes!("../signed/key.asc");
    /// The only text that was ever signed with the key.
    const TEXT: &[u8] = include_bytes!("../signed/text");
    static KEYS: LazyLock<Keyring> =
        LazyLock::new(|| Keyring::read(KEY).expect("the committed key can be read"));

    let now = UNIX_EPOCH + Duration::from_secs(2_000_000_000);
    if let Ok(message) = KEYS.verify_message(bytes, now) {
        assert_eq!(message.content, TEXT);
    }
    let _ = KEYS.verify_detached(TEXT, bytes, now);
    assert!(KEYS.verify_detached(b"another text", bytes, now).is_err());
    let _ = container_signature::verify(bytes, &KEYS, &Digest::sha256(b""), now);
    let _ = container_signature::claims(bytes);
    if let Ok(keys) = Keyring::read(bytes) {
        let _ = keys.verify_detached(TEXT, bytes, now);
    }
}

/// Tokens, typed by a person or sent by a client.
pub fn token(bytes: &[u8]) {
    if let Ok(token) = text_of(bytes).parse::<Token>() {
        assert_eq!(token.to_string().parse(), Ok(token.clone()));
        assert!(!format!("{token:?}").contains(&token.secret) || token.id.contains(&token.secret));
    }
}
