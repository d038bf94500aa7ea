//! The way of an image into quarantine.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use agent::quarantine::{Quarantine, Refusal, Sources, Trust};
use testkit::flaky_proxy::{Asked, Fault, FlakyProxy};
use testkit::image::{Layer, Packing};
use testkit::registry::Registry;
use testkit::releases::Release;
use testkit::scratch_fs::{FsKind, ScratchFs};

use crate::quarantine::stage::Stage;

const REPOSITORY: &str = "releases";

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

/// With a layer of so many bytes.
fn heavy(length: usize) -> Release {
    Stage::two().layer(Layer::of(&[("usr/lib/data", &noise(length))], Packing::Plain))
}

/// A signed release in a real registry, behind a proxy.
fn published(length: usize) -> (Stage, Registry, FlakyProxy, String) {
    let mut stage = Stage::new();
    let image = stage.publish(&heavy(length));
    let registry = Registry::start();
    stage.releases.push(&registry, REPOSITORY);
    // OpenPGP's are in no registry.
    let store = stage.releases.signatures().display().to_string();
    let settings = agent::settings::Settings { signatures: vec![store], ..Default::default() };
    let limits = stage.sources.limits.clone();
    stage.sources = Sources { limits, reserve: 0, ..Sources::of(&settings, None).unwrap() };
    let proxy = FlakyProxy::start(registry.address);
    let reference = format!("http://{}/{REPOSITORY}@{}", proxy.address, image.digest);
    (stage, registry, proxy, reference)
}

fn is_blob(asked: &Asked) -> bool {
    asked.path.contains("/blobs/")
}

/// Longer than anything that is not the heavy layer.
fn heavy_layer(stage: &Stage) -> String {
    let path = stage.releases.layout.blob_path(&stage.releases.get("2.0.0").digest);
    let manifest: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    manifest["layers"][0]["digest"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_in_trouble_is_waited_for_and_nothing_is_lost_by_it() {
    let (mut stage, _registry, proxy, image) = published(3 << 20);
    let heavy = heavy_layer(&stage);
    stage.sources.limits.fetch_timeout = Duration::from_secs(1);
    stage.sources.limits.retries = 0;
    let at_heavy = heavy.clone();
    for (fault, only_heavy) in [
        (Fault::status(500), false),
        (Fault::Hangup, false),
        (Fault::status(503), true),
        (Fault::Cut, true),
        // Too slow to be alive.
        (Fault::Stall, true),
    ] {
        let (fault, heavy) = (fault.clone(), at_heavy.clone());
        proxy.plan(
            move |asked| {
                if only_heavy && !asked.path.ends_with(&heavy) { Fault::None } else { fault.clone() }
            },
        );
        let refusal = stage.fetch(&image).await.unwrap_err();
        assert!(refusal.is_passing(), "{refusal:?}");
        assert_eq!(refusal.way_out(), "it is tried again by itself");
    }
    proxy.plan(|_| Fault::None);
    proxy.take_log();
    assert!(stage.take(&image).await.is_ok());
    // What is fetched now is the rest of the heavy layer.
    let log = proxy.take_log();
    let blobs: Vec<&Asked> = log.iter().filter(|asked| is_blob(asked)).collect();
    assert!(blobs.iter().all(|asked| !asked.path.ends_with(&heavy) || asked.header("range").is_some()));
    assert!(blobs.iter().any(|asked| asked.path.ends_with(&heavy)));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_bytes_than_the_digests_are_refused_whoever_serves_them() {
    let (mut stage, registry, proxy, image) = published(1 << 20);
    // Another image under the tag: nobody asks for the tag.
    let other = stage.releases.add(&Release::new("2.0.0", &["1.0.0"]).file("evil", 0o755, b"x"));
    registry.put(&stage.releases.layout, &other, REPOSITORY, "2.0.0");
    assert!(stage.take(&image).await.is_ok());
    stage.quarantine.clear().await.unwrap();

    // Another image in place of the manifest, or of every blob.
    let bytes = fs::read(stage.releases.layout.blob_path(&other.digest)).unwrap();
    let serve = move |asked: &Asked| match asked.path.contains("/manifests/sha256:") {
        true => Fault::Answer(200, vec![], bytes.clone()),
        false => Fault::None,
    };
    proxy.plan(serve);
    let refusal = stage.refused(&image, "is not what its digest says").await;
    assert!(matches!(refusal, Refusal::Fetch { .. }), "{refusal:?}");
    let heavy = heavy_layer(&stage);
    proxy.plan(move |asked| if asked.path.ends_with(&heavy) { Fault::Garble } else { Fault::None });
    stage.refused(&image, "is not what its digest says").await;
}

/// Fetches what the environment says, and is killed while it does.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by another test, as a process of its own"]
async fn child_process_that_fetches() {
    let Some(image) = std::env::var_os("FETCH") else { return };
    let (directory, key) = (std::env::var_os("QUARANTINE").unwrap(), std::env::var_os("KEY").unwrap());
    let trust = Trust { keys: vec![PathBuf::from(key)], ..Trust::default() };
    let quarantine = Quarantine::open(&PathBuf::from(directory)).unwrap();
    quarantine.fetch(image.to_str().unwrap(), &Sources::default(), &trust, &|_, _| {}).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_middle_it_goes_on_where_it_was() {
    let (mut stage, _registry, proxy, image) = published(6 << 20);
    stage.trust.keys = vec![stage.site.public_file().to_owned()];
    let heavy = heavy_layer(&stage);
    let stalled = heavy.clone();
    proxy.plan(move |asked| if asked.path.ends_with(&stalled) { Fault::Stall } else { Fault::None });
    let directory = stage.scratch.join("state/quarantine");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "quarantine::bringing::child_process_that_fetches"])
        .env("FETCH", &image)
        .env("QUARANTINE", &directory)
        .env("KEY", stage.site.public_file())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begun = directory.join("image/.holdfast-begun").join(heavy.replace(':', "-"));
    let mut half = 0;
    for _ in 0..600 {
        half = fs::metadata(&begun).map_or(0, |about| about.len());
        if half >= 2 << 20 {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(half >= 2 << 20, "{half}");

    proxy.plan(|_| Fault::None);
    proxy.take_log();
    assert!(stage.take(&image).await.is_ok());
    let log = proxy.take_log();
    let asked: Vec<&Asked> =
        log.iter().filter(|asked| is_blob(asked) && asked.path.ends_with(&heavy)).collect();
    assert_eq!(asked.len(), 1);
    let from =
        asked[0].header("range").unwrap().trim_start_matches("bytes=").trim_end_matches('-').to_owned();
    assert!(from.parse::<u64>().unwrap() >= half, "{from}");
    // The rest of what was there stayed.
    let manifests = log.iter().filter(|asked| asked.path.contains("/manifests/")).count();
    assert_eq!(manifests, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_waited_for_and_is_not_made_fuller() {
    let (mut stage, _registry, proxy, image) = published(7 << 20);
    let disk = ScratchFs::new(FsKind::Ext4, FsKind::Ext4.smallest());
    let directory = disk.path().join("quarantine");
    stage.quarantine = Quarantine::open(&directory).unwrap();

    // There is room for the image, and not for what is in it.
    stage.fetch(&image).await.unwrap();
    let refusal = stage.check(&image).await.unwrap_err();
    assert!(matches!(refusal, Refusal::Unpack { .. }) && refusal.is_passing(), "{refusal:?}");
    assert!(refusal.way_out().contains("make room"), "{refusal}");
    stage.quarantine.clear().await.unwrap();

    // There is none for the image: nobody is asked for it.
    let filler = disk.path().join("filler");
    let free = rustix::fs::statvfs(disk.path()).unwrap();
    let most = free.f_bavail * free.f_frsize - (4 << 20);
    fs::write(&filler, vec![7; usize::try_from(most).unwrap()]).unwrap();
    proxy.take_log();
    let refusal = stage.fetch(&image).await.unwrap_err();
    assert!(matches!(refusal, Refusal::Fetch { .. }) && refusal.is_passing(), "{refusal:?}");
    assert!(
        oci::chain(&refusal).contains("are free") && refusal.way_out().contains("make room"),
        "{refusal}"
    );
    let heavy = heavy_layer(&stage);
    assert!(!proxy.take_log().iter().any(|asked| asked.path.ends_with(&heavy)));
    fs::remove_file(&filler).unwrap();
    // Nor is what must stay free for others.
    stage.sources.reserve = 1 << 30;
    let refusal = stage.fetch(&image).await.unwrap_err();
    assert!(
        oci::chain(&refusal).contains("beside 1073741824 that stay free") && refusal.is_passing(),
        "{refusal}"
    );
    stage.sources.reserve = 0;
    stage.fetch(&image).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_serves_signatures_of_both_kinds_and_progress_is_told() {
    let (stage, _registry, proxy, image) = published(3 << 20);
    let told = std::sync::Mutex::new(vec![]);
    let heard = |here: u64, of: u64| told.lock().unwrap().push((here, of));
    stage.quarantine.fetch(&image, &stage.sources, &stage.trust, &heard).await.unwrap();
    let told = told.into_inner().unwrap();
    let last = *told.last().unwrap();
    assert!(told.is_sorted() && last.0 == last.1 && last.0 > 3 << 20, "{told:?}");
    assert_eq!(stage.check(&image).await.unwrap().signed_by.len(), 2);
    // All of it is here: a registry that is gone is not missed.
    proxy.plan(|_| Fault::Hangup);
    proxy.take_log();
    assert!(stage.take(&image).await.is_ok());
    assert_eq!(proxy.take_log(), []);
}
