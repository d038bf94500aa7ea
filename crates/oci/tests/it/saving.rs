//! An image in a layout of one's own: whole, verified, and nothing fetched twice.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use oci::manifest::Platform;
use oci::save::{Bringing, Heard, Order, Saved, prove, save};
use oci::{Access, Blobs, ImageReference, Limits, SaveError, chain};
use testkit::flaky_proxy::{Asked, Fault, FlakyProxy};
use testkit::image::{Layer, Packing};
use testkit::registry::{Registry, Scratch};
use testkit::releases::{Release, Releases};
use trust::digest::Digest;

const REPOSITORY: &str = "releases";
/// Longer than what is written at once.
const LONG: usize = 5 << 20;

fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

struct Stage {
    scratch: Scratch,
    releases: Releases,
    registry: Option<Registry>,
    proxy: FlakyProxy,
}

impl Stage {
    fn new() -> Self {
        let scratch = Scratch::new("saving");
        let mut releases = Releases::create(&scratch.join("published"));
        let long = Layer::of(&[("usr/lib/data", &noise(LONG))], Packing::Plain);
        releases.add(&Release::new("1.0.0", &[]).layer(long).file("bin/tool", 0o755, b"x"));
        let registry = Registry::start();
        releases.push(&registry, REPOSITORY);
        let proxy = FlakyProxy::start(registry.address);
        Self { scratch, releases, registry: Some(registry), proxy }
    }

    fn saved(&self) -> PathBuf {
        self.scratch.join("saved")
    }

    fn digest(&self) -> Digest {
        Digest::parse(&self.releases.get("1.0.0").digest).unwrap()
    }

    async fn save_with(&self, blobs: Option<&dyn Blobs>, limits: &Limits) -> Result<Saved, SaveError> {
        let reference = format!("http://{}/{REPOSITORY}@{}", self.proxy.address, self.digest());
        save_to(&reference, &self.saved(), blobs, limits, &|_| {}).await
    }

    async fn save(&self) -> Result<Saved, SaveError> {
        self.save_with(None, &quick()).await
    }

    async fn proved(&self) -> bool {
        prove(&self.saved(), &self.digest(), &Platform::here(), &Limits::default()).await.is_ok()
    }

    /// Of the long layer.
    fn long(&self) -> (String, u64) {
        let path = self.releases.layout.blob_path(self.digest().as_str());
        let manifest: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let layer = &manifest["layers"][0];
        (layer["digest"].as_str().unwrap().to_owned(), layer["size"].as_u64().unwrap())
    }
}

fn quick() -> Limits {
    Limits { retries: 2, ..Limits::default() }
}

async fn save_to(
    reference: &str,
    into: &Path,
    blobs: Option<&dyn Blobs>,
    limits: &Limits,
    heard: &(dyn Fn(Heard) + Send + Sync),
) -> Result<Saved, SaveError> {
    let source = ImageReference::parse(reference).unwrap().open(&Access::default(), limits).await.unwrap();
    let platform = Platform::here();
    let order = Order { into, platform: &platform, tag: None, limits, reserve: 0, blobs, heard };
    save(&source, &source.digest().await.unwrap(), &order).await
}

fn is_blob(asked: &Asked) -> bool {
    asked.path.contains("/blobs/")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_saved_whole_and_a_second_time_nobody_is_asked() {
    let stage = Stage::new();
    let told = Mutex::new(vec![]);
    let reference = format!("http://{}/{REPOSITORY}@{}", stage.proxy.address, stage.digest());
    let heard = |heard: Heard| {
        if let Heard::Here(here, total) = heard {
            told.lock().unwrap().push((here, total));
        }
    };
    let saved = save_to(&reference, &stage.saved(), None, &quick(), &heard).await.unwrap();
    assert_eq!((&saved.digest, &saved.manifest), (&stage.digest(), &stage.digest()));
    let told = told.into_inner().unwrap();
    assert_eq!((told[0], *told.last().unwrap()), ((0, saved.bytes), (saved.bytes, saved.bytes)));
    assert!(told.is_sorted() && told.len() > 4, "{told:?}");
    assert!(stage.proved().await);
    // What others make of it.
    let layout = format!("oci:{}", stage.saved().display());
    let inspected = Command::new("skopeo").args(["inspect", "--raw", &layout]).output().unwrap();
    assert!(inspected.status.success(), "{}", String::from_utf8_lossy(&inspected.stderr));
    assert_eq!(Digest::sha256(&inspected.stdout), stage.digest());

    stage.proxy.take_log();
    stage.save().await.unwrap();
    assert_eq!(stage.proxy.take_log(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_list_the_image_for_this_machine_comes_along_and_no_other() {
    let scratch = Scratch::new("saving");
    let mut releases = Releases::create(&scratch.join("published"));
    let here = Release::new("1.0.0", &[]);
    let mut elsewhere = Release::new("1.0.0", &[]).file("bin/other", 0o755, b"y");
    elsewhere.arch = "s390x".to_owned();
    let list = releases.add_list("1.0.0", &[elsewhere, here]);
    let saved = scratch.join("saved");
    let done = save_to(&releases.reference("1.0.0"), &saved, None, &quick(), &|_| {}).await.unwrap();
    assert_eq!(done.digest.as_str(), list.digest);
    assert_ne!(done.manifest, done.digest);
    // The list, the manifest, the configuration and the layer.
    assert_eq!(fs::read_dir(saved.join("blobs/sha256")).unwrap().count(), 4);
    let chain = prove(&saved, &done.digest, &Platform::here(), &Limits::default()).await.unwrap();
    assert_eq!(chain, [done.digest.clone(), done.manifest]);
    let other = Platform { architecture: "riscv64".to_owned(), os: "linux".to_owned() };
    let error = prove(&saved, &done.digest, &other, &Limits::default()).await.unwrap_err();
    assert!(error.to_string().contains("not made for riscv64"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_broke_off_goes_on_where_it_did() {
    let stage = Stage::new();
    let (long, size) = stage.long();
    // More often than anything else is tried again: each time it comes further, and so it goes on.
    let (cut, mut times) = (long.clone(), 0);
    stage.proxy.plan(move |asked| {
        let is_long = asked.path.ends_with(&cut);
        times += usize::from(is_long);
        if is_long && times <= 5 { Fault::Cut } else { Fault::None }
    });
    stage.save().await.unwrap();
    assert!(stage.proved().await);
    let log = stage.proxy.take_log();
    let ranges: Vec<Option<&str>> =
        log.iter().filter(|asked| asked.path.ends_with(&long)).map(|asked| asked.header("range")).collect();
    assert!(ranges.len() > 3 && ranges[0].is_none(), "{ranges:?}");
    assert!(ranges[1..].iter().all(Option::is_some), "{ranges:?}");
    let from = |range: &str| range.trim_start_matches("bytes=").trim_end_matches('-').parse::<u64>().unwrap();
    let starts: Vec<u64> = ranges[1..].iter().flatten().map(|range| from(range)).collect();
    assert!(starts.is_sorted() && starts[0] >= size / 2 - 1, "{starts:?} of {size}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_knows_no_ranges_is_asked_for_all_of_it() {
    let stage = Stage::new();
    let (long, size) = stage.long();
    let begun = stage.saved().join(".holdfast-begun").join(long.replace(':', "-"));
    let whole = fs::read(stage.releases.layout.blob_path(&long)).unwrap();
    for refusing in [false, true] {
        fs::create_dir_all(begun.parent().unwrap()).unwrap();
        fs::write(&begun, &whole[..1000]).unwrap();
        let _ = fs::remove_file(stage.saved().join("blobs").join(long.replace(':', "/")));
        let (long, whole) = (long.clone(), whole.clone());
        stage.proxy.plan(move |asked| match asked.header("range") {
            Some(_) if asked.path.ends_with(&long) && refusing => Fault::status(416),
            Some(_) if asked.path.ends_with(&long) => Fault::Answer(200, vec![], whole.clone()),
            _ => Fault::None,
        });
        let saved = stage.save().await.unwrap();
        assert!(stage.proved().await && saved.bytes >= size);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_begun_with_other_bytes_is_begun_anew() {
    let stage = Stage::new();
    let (long, size) = stage.long();
    let begun = stage.saved().join(".holdfast-begun").join(long.replace(':', "-"));
    for length in [1000, size, size + 1] {
        let _ = fs::remove_dir_all(stage.saved());
        fs::create_dir_all(begun.parent().unwrap()).unwrap();
        fs::write(&begun, vec![7; usize::try_from(length).unwrap()]).unwrap();
        stage.save().await.unwrap();
        assert!(stage.proved().await, "{length}");
    }
    // So is a blob that lost its bytes.
    let blob = stage.saved().join("blobs").join(long.replace(':', "/"));
    for bytes in [vec![], vec![7; usize::try_from(size).unwrap()]] {
        fs::write(&blob, bytes).unwrap();
        assert!(!stage.proved().await);
        stage.proxy.take_log();
        stage.save().await.unwrap();
        assert_eq!(stage.proxy.take_log().iter().filter(|asked| is_blob(asked)).count(), 1);
        assert!(stage.proved().await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_bytes_than_the_digests_are_refused_for_good_and_a_registry_in_trouble_is_not() {
    let mut stage = Stage::new();
    for (fault, passing, text) in [
        (Fault::Garble, false, "is not what its digest says"),
        (Fault::status(500), true, "answered 500"),
        (Fault::Hangup, true, "cannot fetch"),
        (Fault::status(404), false, "answered 404"),
    ] {
        for only_blobs in [false, true] {
            let _ = fs::remove_dir_all(stage.saved());
            let fault = fault.clone();
            stage
                .proxy
                .plan(move |asked| if only_blobs && !is_blob(asked) { Fault::None } else { fault.clone() });
            let error = stage.save().await.unwrap_err();
            assert_eq!(error.is_passing(), passing, "{error:?}");
            assert!(chain(&error).contains(text), "{}", chain(&error));
            assert!(!stage.proved().await);
            // Nothing that is wrong has a blob's name.
            for entry in fs::read_dir(stage.saved().join("blobs/sha256")).unwrap() {
                let path = entry.unwrap().path();
                let name = format!("sha256:{}", path.file_name().unwrap().to_str().unwrap());
                assert_eq!(Digest::sha256(&fs::read(&path).unwrap()).as_str(), name);
            }
        }
    }
    drop(stage.registry.take());
    stage.proxy.plan(|_| Fault::None);
    let error = stage.save().await.unwrap_err();
    assert!(error.is_passing(), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_has_a_limit() {
    let stage = Stage::new();
    type Tighten = fn(&mut Limits);
    let cases: [(Tighten, &str); 3] = [
        (|limits| limits.manifest_bytes = 100, "longer than 100 bytes"),
        (|limits| limits.layer_bytes = 1 << 20, "up to 1048576 are fetched"),
        (|limits| limits.image_bytes = 1 << 20, "up to 1048576 are fetched"),
    ];
    for (tighten, text) in cases {
        let _ = fs::remove_dir_all(stage.saved());
        let mut limits = quick();
        tighten(&mut limits);
        stage.proxy.take_log();
        let error = stage.save_with(None, &limits).await.unwrap_err();
        assert!(!error.is_passing() && chain(&error).contains(text), "{}", chain(&error));
        assert!(!stage.proxy.take_log().iter().any(is_blob));
    }
}

/// Brings what it was told to, and keeps what it was asked for.
struct Neighbour {
    content: Result<Option<Vec<u8>>, String>,
    asked: Mutex<Vec<String>>,
}

impl Blobs for Neighbour {
    fn bring<'a>(
        &'a self,
        repository: &'a str,
        digest: &'a Digest,
        size: u64,
        into: &'a Path,
    ) -> Bringing<'a> {
        Box::pin(async move {
            self.asked.lock().unwrap().push(format!("{repository} {digest} {size}"));
            match &self.content {
                Ok(Some(content)) if size == content.len() as u64 => {
                    fs::write(into, content).map(|()| true).map_err(|error| error.to_string())
                }
                Ok(_) => Ok(false),
                Err(why) => {
                    fs::write(into, b"half").unwrap();
                    Err(why.clone())
                }
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_is_brought_by_a_neighbour_and_believed_only_if_it_is_the_right_one() {
    let stage = Stage::new();
    let (long, size) = stage.long();
    let right = fs::read(stage.releases.layout.blob_path(&long)).unwrap();
    let wrong = vec![7; right.len()];
    for (content, comes_from_neighbour) in [
        (Ok(Some(right)), true),
        (Ok(Some(wrong)), false),
        (Ok(None), false),
        (Err("asleep".to_owned()), false),
    ] {
        let _ = fs::remove_dir_all(stage.saved());
        stage.proxy.take_log();
        let neighbour = Neighbour { content, asked: Mutex::default() };
        stage.save_with(Some(&neighbour), &quick()).await.unwrap();
        assert!(stage.proved().await);
        let log = stage.proxy.take_log();
        let fetched = log.iter().any(|asked| asked.path.ends_with(&long));
        assert_eq!(fetched, !comes_from_neighbour);
        let asked = neighbour.asked.into_inner().unwrap();
        // Layers only, and by the name of where they are from.
        assert_eq!(asked.len(), 2);
        assert_eq!(asked[0], format!("http://{}/{REPOSITORY} {long} {size}", stage.proxy.address));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layout_is_named_by_its_only_image_whatever_is_signed_beside_it() {
    let scratch = Scratch::new("saving");
    let mut releases = Releases::create(&scratch.join("published"));
    let directory = scratch.join("published");
    let only = ImageReference::parse(&format!("oci:{}", directory.display())).unwrap();
    let source = only.open(&Access::default(), &Limits::default()).await.unwrap();
    let none = source.digest().await.unwrap_err();
    assert!(none.to_string().contains("holds 0 images"), "{none}");
    let image = releases.add(&Release::new("1.0.0", &[]));
    releases.layout.tag(&image, "latest");
    releases.file_cosign(&image.digest, b"{}", b"x");
    assert_eq!(source.digest().await.unwrap().as_str(), image.digest);
    releases.add(&Release::new("2.0.0", &[]));
    let two = source.digest().await.unwrap_err();
    assert!(two.to_string().contains("holds 2 images: write which one is meant"), "{two}");
}
