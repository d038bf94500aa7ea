//! Layout directories and graph files.

use crate::support;
use std::fs;

use crate::support::World;
use testkit::image::{Form, Image, Layout, Packing};
use testkit::registry::Scratch;
use testkit::releases::{Release, Releases};

#[tokio::test(flavor = "multi_thread")]
async fn a_layout_is_read_with_names_without_and_in_nested_indexes() {
    let scratch = Scratch::new("layout");
    let mut layout = Layout::create(&scratch.join("layout"));
    let release = |version: &str, arch: &str| Image::release(version, &[], arch, Form::Oci, Packing::Zstd);
    layout.tag(&layout.image(&release("1.0.0", "amd64")), "named");
    layout.tag(&layout.image(&release("1.0.1", "amd64")), "");
    layout.tag(&layout.image(&release("1.0.2", "amd64")), "");
    // An index without a name that holds none either is an image of several platforms.
    let children = [layout.image(&release("1.1.0", "amd64")), layout.image(&release("1.1.0", "arm64"))];
    layout.tag(&layout.list(&children, Form::Oci), "");
    // One that holds names is a shelf.
    let inner = layout.image(&release("1.2.0", "s390x"));
    let shelf = format!(
        r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"{}","digest":"{}","size":{},
            "annotations":{{"org.opencontainers.image.ref.name":"inner"}}}}]}}"#,
        inner.media_type, inner.digest, inner.size
    );
    let mut shelf_entry = inner.clone();
    shelf_entry.digest = layout.blob(shelf.as_bytes());
    shelf_entry.media_type = Form::Oci.list();
    shelf_entry.size = shelf.len();
    layout.tag(&shelf_entry, "");
    // Attestations do not make an image one of several platforms.
    let mut attestation = layout.image(&release("9.9.9", "unknown"));
    attestation.arch = "unknown".into();
    let alone = layout.image(&release("1.3.0", "arm64"));
    layout.tag(&layout.list(&[attestation, alone], Form::Oci), "attested");

    let mut world = World::of(format!("oci:{}", layout.path.display()));
    world.settings.sources[0].payload_repository = Some("registry.example/mirror".into());
    world.scrape().await.unwrap();
    assert_eq!(world.notes(), []);
    let expected = ["1.0.0+amd64", "1.0.1+amd64", "1.0.2+amd64", "1.1.0+multi", "1.2.0+s390x", "1.3.0+arm64"];
    assert_eq!(world.names(), expected);
    assert_eq!(world.releases()["1.2.0+s390x"], format!("registry.example/mirror@{}", inner.digest));
}

#[tokio::test(flavor = "multi_thread")]
async fn payloads_of_a_layout_are_found_from_anywhere_and_signatures_are_no_releases() {
    let scratch = Scratch::new("layout");
    let mut releases = Releases::create(&scratch.join("layout"));
    let image = releases.add(&Release::new("1.0.0", &[]));
    releases.file_cosign(&image.digest, b"{}", b"x");
    let here = std::env::current_dir().unwrap();
    let up = "../".repeat(here.components().count() - 1);
    let relative = format!("{up}{}", releases.layout.path.strip_prefix("/").unwrap().display());
    let mut world = World::of(format!("oci:{relative}"));
    world.scrape().await.unwrap();
    assert_eq!(world.notes(), []);
    let payload = world.releases().into_values().next().unwrap();
    assert!(payload.starts_with("oci:/"), "{payload}");
    let reference = oci::ImageReference::parse(&payload).unwrap();
    let source = reference.open(&oci::Access::default(), &oci::Limits::default()).await.unwrap();
    let digest = source.digest().await.unwrap();
    assert_eq!(
        (digest.as_str(), source.image(&digest).await.unwrap().layers.len()),
        (image.digest.as_str(), 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_garbled_blob_of_a_layout_is_not_believed() {
    let scratch = Scratch::new("layout");
    let mut layout = Layout::create(&scratch.join("layout"));
    layout.tag(&layout.image(&Image::release("1.0.0", &[], "amd64", Form::Oci, Packing::Gzip)), "good");
    let bad = layout.image(&Image::release("1.0.1", &[], "amd64", Form::Oci, Packing::Gzip));
    layout.tag(&bad, "bad");
    let path = layout.blob_path(&bad.digest);
    let right = fs::read_to_string(&path).unwrap();
    fs::write(&path, right.replace("amd64", "arm64") + " ").unwrap();
    let mut world = World::of(format!("oci:{}", layout.path.display()));
    world.scrape().await.unwrap();
    assert_eq!(world.names(), ["1.0.0+amd64"]);
    assert_eq!(world.notes()[0].0, "fetch-failed");
    fs::write(&path, right).unwrap();
    world.scrape().await.unwrap();
    assert_eq!(world.names().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_sources_make_one_graph_and_one_that_fails_fails_the_look() {
    let scratch = Scratch::new("layout");
    let mut layout = Layout::create(&scratch.join("layout"));
    layout.tag(&layout.image(&Image::release("1.0.1", &["1.0.0"], "amd64", Form::Oci, Packing::Gzip)), "a");
    let file = scratch.join("graph.json");
    fs::write(&file, r#"{"nodes":[{"version":"1.0.0+amd64","payload":"a@b","metadata":{}}],"edges":[]}"#)
        .unwrap();
    let layout_source = support::source(format!("oci:{}", layout.path.display()));
    let mut world = World::new(vec![layout_source, support::source(format!("graph:{}", file.display()))]);
    world.scrape().await.unwrap();
    assert_eq!(world.names(), ["1.0.0+amd64", "1.0.1+amd64"]);
    assert_eq!(world.snapshot().graph.edge_count(), (1, 0));
    let counters = world.scraper().source_counters();
    assert_eq!(counters.len(), 2);

    fs::write(&file, "{").unwrap();
    let error = oci::chain(&world.scrape().await.unwrap_err());
    assert!(error.contains("graph.json"), "{error}");
    assert_eq!(world.names().len(), 2);
    let failures = counters[1].1.failures.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(failures, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scraper_looks_again_when_told_to_and_stops_when_told_to() {
    let scratch = Scratch::new("layout");
    let mut layout = Layout::create(&scratch.join("layout"));
    layout.tag(&layout.image(&Image::release("1.0.0", &[], "amd64", Form::Oci, Packing::Gzip)), "a");
    let mut world = World::of(format!("oci:{}", layout.path.display()));
    let (current, again) = (world.current.clone(), world.scraper().again());
    let scraper = world.take_scraper();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(scraper.run(async {
        let _ = stopped.await;
    }));
    let nodes = || match &*current.load() {
        graph::current::State::Graph { snapshot, .. } => snapshot.graph.nodes().len(),
        graph::current::State::Nothing { .. } => 0,
    };
    while nodes() != 1 {
        tokio::task::yield_now().await;
    }
    layout.tag(&layout.image(&Image::release("1.0.1", &[], "amd64", Form::Oci, Packing::Gzip)), "b");
    again.notify_one();
    while nodes() != 2 {
        tokio::task::yield_now().await;
    }
    stop.send(()).unwrap();
    running.await.unwrap();
}
