//! The real registry, with images pushed by the real `skopeo`: every form, many of them, and what a look costs.

use std::collections::BTreeSet;
use std::thread;

use crate::support::{World, counted};
use graph::scrape::Outcome;
use testkit::flaky_proxy::FlakyProxy;
use testkit::image::{Form, Image, Layer, Layout, METADATA, Packing, release_metadata};
use testkit::registry::{Registry, Scratch};

const REPOSITORY: &str = "test/releases";

fn address(host: &str) -> String {
    format!("registry:http://{host}/{REPOSITORY}")
}

#[tokio::test(flavor = "multi_thread")]
async fn images_of_every_form_become_releases() {
    let (registry, scratch) = (Registry::start(), Scratch::new("images"));
    let mut layout = Layout::create(&scratch.join("layout"));
    let plain = Image::release("1.0.0", &[], "amd64", Form::Oci, Packing::Plain);
    let gzip = Image::release("1.0.1", &["1.0.0"], "amd64", Form::Oci, Packing::Gzip);
    let zstd = Image::release("1.0.2", &["1.0.1"], "arm64", Form::Oci, Packing::Zstd)
        .label("io.openshift.upgrades.graph.release.channels", "stable");
    for (image, tag) in [(&plain, "plain"), (&gzip, "gzip"), (&zstd, "zstd")] {
        layout.tag(&layout.image(image), tag);
    }
    let children: Vec<_> = ["amd64", "arm64", "s390x"]
        .map(|arch| layout.image(&Image::release("1.1.0", &[], arch, Form::Oci, Packing::Gzip)))
        .into();
    let multi = layout.list(&children, Form::Oci);
    layout.tag(&multi, "multi");
    let alone = layout.image(&Image::release("1.2.0", &[], "ppc64le", Form::Oci, Packing::Gzip));
    let list_of_one = layout.list(&[alone], Form::Oci);
    layout.tag(&list_of_one, "one");

    registry.push(&layout, "plain", REPOSITORY, "plain-oci", Form::Oci);
    registry.push(&layout, "gzip", REPOSITORY, "gzip-docker", Form::Docker);
    registry.push(&layout, "zstd", REPOSITORY, "zstd-oci", Form::Oci);
    registry.push(&layout, "multi", REPOSITORY, "multi-docker", Form::Docker);
    registry.push(&layout, "one", REPOSITORY, "one-oci", Form::Oci);
    // What skopeo would not write: zstd in Docker's form.
    let docker = Image::release("1.3.0", &[], "amd64", Form::Docker, Packing::Zstd);
    registry.put(&layout, &layout.image(&docker), REPOSITORY, "zstd-docker");

    let mut world = World::of(address(&registry.host()));
    assert_eq!(world.scrape().await.unwrap(), Outcome::Published);
    assert_eq!(world.notes(), []);
    let releases = world.releases();
    let names: Vec<_> = releases.keys().map(String::as_str).collect();
    let expected =
        ["1.0.0+amd64", "1.0.1+amd64", "1.0.2+arm64", "1.1.0+multi", "1.2.0+ppc64le", "1.3.0+amd64"];
    assert_eq!(names, expected);
    let list_payload = format!("{}/{REPOSITORY}@{}", registry.host(), list_of_one.digest);
    assert_eq!(releases["1.2.0+ppc64le"], list_payload);

    let snapshot = world.snapshot();
    let labelled = &snapshot.graph.nodes()[2].metadata;
    assert_eq!(labelled["io.openshift.upgrades.graph.release.channels"], "stable");
    let digest = releases["1.0.2+arm64"].rsplit_once('@').unwrap().1;
    assert_eq!(labelled["io.openshift.upgrades.graph.release.manifestref"], digest);
    assert_eq!(labelled["url"], "https://example.org/1.0.2");
    assert_eq!(snapshot.graph.plain(0), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tags_on_one_manifest_are_one_release_and_fetched_once() {
    let (registry, scratch) = (Registry::start(), Scratch::new("images"));
    let layout = Layout::create(&scratch.join("layout"));
    let image = layout.image(&Image::release("1.0.0", &[], "amd64", Form::Oci, Packing::Gzip));
    for tag in ["latest", "1.0.0", "1.0"] {
        registry.put(&layout, &image, REPOSITORY, tag);
    }
    // One of a list's images, which decides about the list, has a tag of its own.
    let other = layout.image(&Image::release("1.1.0", &[], "amd64", Form::Oci, Packing::Gzip));
    let another = layout.image(&Image::release("1.1.0", &[], "arm64", Form::Oci, Packing::Gzip));
    let first = if other.digest < another.digest { &other } else { &another };
    registry.put(&layout, &layout.list(&[other.clone(), another.clone()], Form::Oci), REPOSITORY, "multi");
    registry.put(&layout, first, REPOSITORY, "single");

    let proxy = FlakyProxy::start(registry.address);
    let mut world = World::of(address(&proxy.address.to_string()));
    world.scrape().await.unwrap();
    let names = world.names();
    assert_eq!(names, ["1.0.0+amd64".to_owned(), format!("1.1.0+{}", first.arch), "1.1.0+multi".to_owned()]);
    assert_eq!(world.notes(), []);
    // Manifests: the image, the list, its first child. Blobs: of two images, the last layer and the configuration.
    let log = proxy.take_log();
    assert_eq!(counted(&log), (1, 5, 3, 4), "{log:#?}");
    let distinct: BTreeSet<_> = log.iter().map(|asked| (&asked.method, &asked.path)).collect();
    assert_eq!(distinct.len(), log.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_layer_wins_and_removals_hold() {
    let (registry, scratch) = (Registry::start(), Scratch::new("images"));
    let layout = Layout::create(&scratch.join("layout"));
    let layer = |version: &str| Layer::of(&[(METADATA, &release_metadata(version, &[]))], Packing::Gzip);
    let image = |layers| Image { form: Form::Oci, arch: "amd64".into(), labels: vec![], layers };
    let unrelated =
        || Layer::of(&[("release-manifests/image-references", b"{}"), ("a", b"b")], Packing::Zstd);
    let removed = |path: &str| Layer::of(&[(path, b"")], Packing::Gzip);
    let put = |tag: &str, layers| registry.put(&layout, &layout.image(&image(layers)), REPOSITORY, tag);
    put("replaced", vec![layer("1.0.0"), layer("2.0.0"), unrelated()]);
    put("lowest", vec![layer("3.0.0"), unrelated(), unrelated()]);
    put("removed", vec![layer("4.0.0"), removed("release-manifests/.wh.release-metadata")]);
    put("directory-removed", vec![layer("5.0.0"), removed(".wh.release-manifests")]);
    put("hidden", vec![layer("6.0.0"), removed("release-manifests/.wh..wh..opq")]);
    let both = [(METADATA, &release_metadata("7.0.0", &[])[..]), ("release-manifests/.wh..wh..opq", b"")];
    put("renewed", vec![layer("7.0.1"), Layer::of(&both, Packing::Gzip)]);
    put("other-removed", vec![layer("8.0.0"), removed("release-manifests/.wh.release-metadata.old")]);

    let mut world = World::of(address(&registry.host()));
    world.scrape().await.unwrap();
    assert_eq!(world.names(), ["2.0.0+amd64", "3.0.0+amd64", "7.0.0+amd64", "8.0.0+amd64"]);
    let notes = world.notes();
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes.iter().all(|(code, _)| *code == "not-a-release"), "{notes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_fetched_twice_and_an_unchanged_look_costs_one_head_per_tag() {
    let (registry, scratch) = (Registry::start(), Scratch::new("images"));
    let layout = Layout::create(&scratch.join("layout"));
    let put = |version: &str| {
        let image = Image::release(version, &[], "amd64", Form::Docker, Packing::Gzip);
        registry.put(&layout, &layout.image(&image), REPOSITORY, version);
    };
    for version in ["1.0.0", "1.0.1", "1.0.2", "1.0.3"] {
        put(version);
    }
    // Some other image is not looked at again either.
    let other = Layer::of(&[("a", b"b")], Packing::Gzip);
    let other = Image { form: Form::Oci, arch: "amd64".into(), labels: vec![], layers: vec![other] };
    registry.put(&layout, &layout.image(&other), REPOSITORY, "other");

    let proxy = FlakyProxy::start(registry.address);
    let mut world = World::of(address(&proxy.address.to_string()));
    assert_eq!(world.scrape().await.unwrap(), Outcome::Published);
    assert_eq!(counted(&proxy.take_log()), (1, 5, 5, 9));

    let (snapshot, before) = (world.snapshot(), world.snapshot().confirmed.get());
    assert_eq!(world.scrape().await.unwrap(), Outcome::Unchanged);
    assert_eq!(counted(&proxy.take_log()), (1, 5, 0, 0));
    assert!(std::sync::Arc::ptr_eq(&snapshot, &world.snapshot()), "nothing was rebuilt");
    assert!(snapshot.confirmed.get() > before);

    world.restart();
    assert_eq!(world.scrape().await.unwrap(), Outcome::Published);
    assert_eq!(counted(&proxy.take_log()), (1, 5, 0, 0), "after a restart");
    assert_eq!(world.names().len(), 4);
    assert_eq!(world.notes().len(), 1);

    put("1.0.4");
    assert_eq!(world.scrape().await.unwrap(), Outcome::Published);
    assert_eq!(counted(&proxy.take_log()), (1, 6, 1, 2), "only what is new");
    assert_eq!(world.names().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_entry_of_the_cache_is_fetched_again_and_the_others_are_not() {
    let (registry, scratch) = (Registry::start(), Scratch::new("images"));
    let layout = Layout::create(&scratch.join("layout"));
    for version in ["1.0.0", "1.0.1", "1.0.2"] {
        let image = Image::release(version, &[], "amd64", Form::Oci, Packing::Gzip);
        registry.put(&layout, &layout.image(&image), REPOSITORY, version);
    }
    let proxy = FlakyProxy::start(registry.address);
    let mut world = World::of(address(&proxy.address.to_string()));
    world.scrape().await.unwrap();
    let releases = world.releases();
    proxy.take_log();

    world.restart();
    let file = world.settings.cache_dir.join("releases.v1");
    let text = std::fs::read_to_string(&file).unwrap();
    // One version is another now, and the last line is torn.
    let text = text.replace("https://example.org/1.0.1", "https://example.org/6.6.6");
    std::fs::write(&file, &text[..text.len() - 40]).unwrap();
    world.scrape().await.unwrap();
    assert_eq!(world.releases(), releases);
    let (_, _, manifests, _) = counted(&proxy.take_log());
    assert!((1..=2).contains(&manifests), "{manifests}");
    world.restart();
    world.scrape().await.unwrap();
    assert_eq!(counted(&proxy.take_log()), (1, 3, 0, 0), "mended");

    // What no source has any more is dropped.
    let size = std::fs::metadata(&file).unwrap().len();
    world.restart();
    world.settings.sources[0].tags = Some("^1.0.[01]$".into());
    world.scrape().await.unwrap();
    assert_eq!(world.names().len(), 2);
    assert!(std::fs::metadata(&file).unwrap().len() < size);
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_releases_of_several_architectures_in_mixed_forms() {
    const VERSIONS: usize = 140;
    let (registry, scratch) = (Registry::start(), Scratch::new("images"));
    let layout_path = scratch.join("layout");
    let architectures = ["amd64", "arm64", "s390x", "multi"];
    let packings = [Packing::Gzip, Packing::Zstd, Packing::Plain];
    thread::scope(|scope| {
        for (part, arch) in architectures.into_iter().enumerate() {
            let (registry, path) = (&registry, layout_path.join(arch));
            scope.spawn(move || {
                let mut layout = Layout::create(&path);
                for patch in 0..VERSIONS {
                    let version = format!("1.{}.{}", patch / 20, patch % 20);
                    let before = format!("1.{}.{}", patch / 20, (patch % 20).saturating_sub(1));
                    let previous: &[&str] = if patch % 20 == 0 { &[] } else { &[&before] };
                    let form = if patch % 2 == 0 { Form::Oci } else { Form::Docker };
                    let release = |arch: &str| {
                        layout.image(&Image::release(&version, previous, arch, form, packings[patch % 3]))
                    };
                    let image = match arch {
                        "multi" => layout.list(&[release("amd64"), release("arm64")], form),
                        arch => release(arch),
                    };
                    let tag = format!("{version}-{arch}");
                    // A few dozen by skopeo, which takes its time.
                    if patch % 20 == part * 2 {
                        layout.tag(&image, &tag);
                        registry.push(&layout, &tag, REPOSITORY, &tag, form);
                    } else {
                        registry.put(&layout, &image, REPOSITORY, &tag);
                    }
                }
            });
        }
    });
    let proxy = FlakyProxy::start(registry.address);
    let mut world = World::of(address(&proxy.address.to_string()));
    world.scrape().await.unwrap();
    assert_eq!(world.notes(), []);
    let all = VERSIONS * architectures.len();
    assert!(all >= 500);
    assert_eq!(world.names().len(), all);
    for arch in architectures {
        let of_arch = world.names().iter().filter(|name| name.ends_with(&format!("+{arch}"))).count();
        assert_eq!(of_arch, VERSIONS, "{arch}");
    }
    let (plain, conditional) = world.snapshot().graph.edge_count();
    assert_eq!((plain, conditional), (all - all / 20, 0));

    proxy.take_log();
    world.restart();
    world.scrape().await.unwrap();
    assert_eq!(counted(&proxy.take_log()), (1, all, 0, 0));
    assert_eq!(world.names().len(), all);
}
