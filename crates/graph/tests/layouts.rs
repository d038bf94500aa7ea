//! Layout directories, graph files, and trees taken out of images.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may stop at the first surprise, too")]

mod support;

use std::fs;

use graph::settings::Limits;
use graph::source::http::Access;
use graph::source::reference::{ImageError, ImageReference};
use support::World;
use testkit::image::{Form, Image, Layer, Layout, Packing, header};
use testkit::registry::{Registry, Scratch};

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
    let error = graph::source::error::chain(&world.scrape().await.unwrap_err());
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

fn tree() -> Image {
    let link = |path: &str| {
        let mut link = header(path, 0, tar::EntryType::Symlink);
        link.set_link_name("/etc").unwrap();
        link.set_cksum();
        link
    };
    let mut archive = tar::Builder::new(vec![]);
    archive.append(&header("channels", 0, tar::EntryType::Directory), &b""[..]).unwrap();
    archive.append(&link("link"), &b""[..]).unwrap();
    let links = archive.into_inner().unwrap();
    let layers = vec![
        Layer::of(
            &[("version", b"1.0.0"), ("channels/a.yaml", b"a"), ("channels/b.yaml", b"b")],
            Packing::Gzip,
        ),
        Layer::of_archive(&links, Packing::Plain),
        Layer::of(
            &[("version", b"1.1.0"), ("channels/.wh.b.yaml", b""), ("link/inside", b"x")],
            Packing::Zstd,
        ),
    ];
    Image { form: Form::Oci, arch: "amd64".into(), labels: vec![], layers }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_is_taken_out_of_an_image_by_any_reference() {
    let (registry, scratch) = (Registry::start(), Scratch::new("tree"));
    let mut layout = Layout::create(&scratch.join("layout"));
    let image = layout.image(&tree());
    let list = layout.list(std::slice::from_ref(&image), Form::Oci);
    layout.tag(&list, "latest");
    registry.put(&layout, &list, "data", "latest");
    let host = registry.host();
    for reference in [
        format!("http://{host}/data:latest"),
        format!("http://{host}/data@{}", list.digest),
        format!("oci:{}:latest", layout.path.display()),
    ] {
        let into = scratch.join("into");
        let _ = fs::remove_dir_all(&into);
        fs::create_dir(&into).unwrap();
        let limits = Limits::default();
        let source =
            ImageReference::parse(&reference).unwrap().open(&Access::default(), &limits).await.unwrap();
        let digest = source.digest().await.unwrap();
        assert_eq!(digest.as_str(), list.digest);
        let image = source.image(&digest).await.unwrap();
        assert_eq!(image.layers.len(), 3);
        image.extract(&into, &limits).await.unwrap();
        assert_eq!(fs::read_to_string(into.join("version")).unwrap(), "1.1.0");
        assert_eq!(fs::read_to_string(into.join("channels/a.yaml")).unwrap(), "a");
        assert!(!into.join("channels/b.yaml").exists());
        assert!(into.join("link").symlink_metadata().unwrap().is_dir(), "a link is never made");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_has_limits() {
    let scratch = Scratch::new("tree");
    let mut layout = Layout::create(&scratch.join("layout"));
    layout.tag(&layout.image(&tree()), "latest");
    let climbing = Layer::of(&[("../escape", b"x")], Packing::Gzip);
    let climbing = Image { layers: vec![climbing], ..tree() };
    layout.tag(&layout.image(&climbing), "climbing");
    type Tighten = fn(&mut Limits);
    let cases: [(&str, Tighten, &str); 3] = [
        ("latest", |limits| limits.graph_data_files = 3, "more than"),
        ("latest", |limits| limits.graph_data_bytes = 6, "bytes long"),
        ("climbing", |_| {}, "leads out"),
    ];
    for (tag, limit, why) in cases {
        let mut limits = Limits::default();
        limit(&mut limits);
        let reference = ImageReference::parse(&format!("oci:{}:{tag}", layout.path.display())).unwrap();
        let source = reference.open(&Access::default(), &limits).await.unwrap();
        let image = source.image(&source.digest().await.unwrap()).await.unwrap();
        let into = scratch.join("into");
        fs::create_dir_all(&into).unwrap();
        let error = image.extract(&into, &limits).await.unwrap_err();
        assert!(matches!(error, ImageError::Layer { .. }));
        let text = graph::source::error::chain(&error);
        assert!(text.contains(why), "{text}");
        assert!(!scratch.join("escape").exists());
    }
}

#[test]
fn references_are_read_or_say_what_is_missing() {
    for (text, name) in [
        ("registry.example/a/b:1.0", "registry.example/a/b"),
        ("http://127.0.0.1:5000/a:latest", "127.0.0.1:5000/a"),
        ("oci:/srv/x:latest", "/srv/x"),
    ] {
        assert_eq!(ImageReference::parse(text).unwrap().name(), name);
    }
    for text in
        ["registry.example/a", "a", "registry.example/a@sha256:x", "oci:dir", "oci::tag", "127.0.0.1:5000/a"]
    {
        assert!(ImageReference::parse(text).is_err(), "{text}");
    }
}
