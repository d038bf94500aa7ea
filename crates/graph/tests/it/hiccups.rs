//! A registry that fails now and then, in every way: a release is what it is, or what it was; never anything else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{World, counted};
use graph::current::State;
use graph::scrape::Outcome;
use testkit::flaky_proxy::{Asked, Fault, FlakyProxy};
use testkit::image::{Descriptor, Form, Image, Layout, Packing};
use testkit::registry::{Registry, Scratch};

const REPOSITORY: &str = "releases";

struct Stage {
    registry: Registry,
    proxy: FlakyProxy,
    layout: Layout,
    _scratch: Scratch,
}

impl Stage {
    fn new() -> Self {
        let (registry, scratch) = (Registry::start(), Scratch::new("images"));
        let proxy = FlakyProxy::start(registry.address);
        let layout = Layout::create(&scratch.join("layout"));
        Self { registry, proxy, layout, _scratch: scratch }
    }

    fn put(&self, version: &str, tag: &str) -> Descriptor {
        let image = Image::release(version, &[], "amd64", Form::Oci, Packing::Gzip);
        let image = self.layout.image(&image);
        self.registry.put(&self.layout, &image, REPOSITORY, tag);
        image
    }

    fn world(&self) -> World {
        World::of(format!("registry:http://{}/{REPOSITORY}", self.proxy.address))
    }
}

fn is_get_of(asked: &Asked, part: &str) -> bool {
    asked.method == "GET" && asked.path.contains(part)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_passes_after_a_while_is_not_even_noted() {
    type MakeFault = fn() -> Fault;
    let faults: [(&str, MakeFault); 5] = [
        ("hang up", || Fault::Hangup),
        ("unavailable", || Fault::status(503)),
        ("too many requests", || Fault::Answer(429, vec![("retry-after".into(), "1".into())], vec![])),
        ("cut", || Fault::Cut),
        ("garbled", || Fault::Garble),
    ];
    let stage = Stage::new();
    stage.put("1.0.0", "a");
    stage.put("1.0.1", "b");
    for (name, fault) in faults {
        for part in ["/tags/list", "/manifests/", "/blobs/"] {
            let mut world = stage.world();
            let mut seen = std::collections::BTreeSet::new();
            // Each thing fails the first time that it is asked for.
            stage.proxy.plan(move |asked| match is_get_of(asked, part) && seen.insert(asked.path.clone()) {
                true => fault(),
                false => Fault::None,
            });
            world.scrape().await.unwrap();
            assert_eq!(world.names(), ["1.0.0+amd64", "1.0.1+amd64"], "{name} {part}");
            assert_eq!(world.notes(), [], "{name} {part}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_cannot_be_fetched_is_noted_and_tried_again_and_the_rest_is_served() {
    let stage = Stage::new();
    stage.put("1.0.0", "good");
    let bad = stage.put("1.0.1", "bad");
    for fault in [Fault::Hangup, Fault::status(500), Fault::status(404), Fault::Cut, Fault::Garble] {
        for part in [format!("/manifests/{}", bad.digest), "/blobs/".to_owned()] {
            let mut world = stage.world();
            // Blobs of the good one are known already when those of the bad one fail.
            if part == "/blobs/" {
                stage.proxy.plan(|_| Fault::None);
                world.settings.sources[0].tags = Some("good".into());
                world.scrape().await.unwrap();
                world.restart();
                world.settings.sources[0].tags = None;
            }
            let (failing, wanted) = (fault.clone(), part.clone());
            stage.proxy.plan(move |asked| match is_get_of(asked, &wanted) {
                true => failing.clone(),
                false => Fault::None,
            });
            world.scrape().await.unwrap();
            assert_eq!(world.names(), ["1.0.0+amd64"], "{fault:?} {part}");
            let notes = world.notes();
            assert!(matches!(&notes[..], [("fetch-failed", text)] if text.contains("bad")), "{notes:?}");

            stage.proxy.plan(|_| Fault::None);
            assert_eq!(world.scrape().await.unwrap(), Outcome::Published);
            assert_eq!(world.names(), ["1.0.0+amd64", "1.0.1+amd64"], "{fault:?} {part}");
            assert_eq!(world.notes(), []);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_release_stays_what_it_was_while_the_registry_fails() {
    let stage = Stage::new();
    stage.put("1.0.0", "steady");
    stage.put("1.0.1", "moving");
    let mut world = stage.world();
    world.scrape().await.unwrap();

    // What a tag points at can't be asked: most likely nothing changed.
    stage.proxy.plan(|asked| match asked.path.ends_with("/moving") {
        true => Fault::status(500),
        false => Fault::None,
    });
    for restart in [false, true] {
        if restart {
            world.restart();
        }
        world.scrape().await.unwrap();
        assert_eq!(world.names(), ["1.0.0+amd64", "1.0.1+amd64"]);
        let notes = world.notes();
        assert!(matches!(&notes[..], [("fetch-failed", text)] if text.contains("warning")), "{notes:?}");
    }

    // It points at something new, which can't be fetched: that is missing, and the old one is kept.
    let new = stage.put("1.0.2", "moving");
    let manifest = format!("/manifests/{}", new.digest);
    stage.proxy.plan(move |asked| match is_get_of(asked, &manifest) {
        true => Fault::Garble,
        false => Fault::None,
    });
    for restart in [false, true] {
        if restart {
            world.restart();
        }
        world.scrape().await.unwrap();
        assert_eq!(world.names(), ["1.0.0+amd64", "1.0.1+amd64"]);
        let notes = world.notes();
        assert!(matches!(&notes[..], [("fetch-failed", text)] if text.contains("error")), "{notes:?}");
    }
    stage.proxy.plan(|_| Fault::None);
    world.scrape().await.unwrap();
    assert_eq!(world.names(), ["1.0.0+amd64", "1.0.2+amd64"]);
    assert_eq!(world.notes(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_list_of_tags_the_last_good_graph_stays() {
    let stage = Stage::new();
    stage.put("1.0.0", "a");
    let mut world = stage.world();
    stage.proxy.plan(|_| Fault::status(500));
    world.scrape().await.unwrap_err();
    assert!(matches!(&*world.current.load(), State::Nothing { reason } if reason.contains("500")));

    stage.proxy.plan(|_| Fault::None);
    world.scrape().await.unwrap();
    for part in ["/tags/list", "/manifests/"] {
        stage.proxy.plan(move |asked| match asked.path.contains(part) {
            true => Fault::status(502),
            false => Fault::None,
        });
        world.scrape().await.unwrap_err();
        assert_eq!(world.names(), ["1.0.0+amd64"]);
        let state = world.current.load();
        assert!(matches!(&*state, State::Graph { stale: Some(why), .. } if why.contains("502")), "{part}");
        stage.proxy.plan(|_| Fault::None);
        world.scrape().await.unwrap();
        assert!(matches!(&*world.current.load(), State::Graph { stale: None, .. }), "{part}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_stops_answering_is_not_asked_about_every_tag() {
    let tags: Vec<_> = (0..500).map(|number| format!("\"t{number}\"")).collect();
    let list = format!(r#"{{"name":"x","tags":[{}]}}"#, tags.join(","));
    let registry = FlakyProxy::alone(move |asked| match asked.path.contains("/tags/list") {
        true => Fault::Answer(200, vec![], list.clone().into_bytes()),
        false => Fault::Hangup,
    });
    let mut world = World::of(format!("registry:http://{}/{REPOSITORY}", registry.address));
    world.settings.limits.retries = 0;
    let error = oci::chain(&world.scrape().await.unwrap_err());
    assert!(error.contains("cannot fetch tag"), "{error}");
    let asked = registry.take_log().len();
    assert!(asked < 100, "{asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_tags_comes_in_pages() {
    let stage = Stage::new();
    for tag in ["a", "b", "c"] {
        stage.put(&format!("1.0.{}", tag.as_bytes()[0]), tag);
    }
    let page = |tag: &str, next: Option<&str>| {
        // Registries behind a proxy name themselves as they like.
        let link = next.map(|next| {
            format!("<http://inner.example/v2/{REPOSITORY}/tags/list?last={next}>; rel=\"next\"")
        });
        let headers = link.map(|link| ("link".to_owned(), link)).into_iter().collect();
        Fault::Answer(200, headers, format!(r#"{{"name":"x","tags":["{tag}"]}}"#).into_bytes())
    };
    stage.proxy.plan(move |asked| match asked.path.split_once("/tags/list?").map(|(_, query)| query) {
        Some("last=a") => page("b", Some("b")),
        Some("last=b") => page("c", None),
        Some(_) => page("a", Some("a")),
        None => Fault::None,
    });
    let mut world = stage.world();
    world.scrape().await.unwrap();
    assert_eq!(world.names().len(), 3);
    assert_eq!(counted(&stage.proxy.take_log()).0, 3);

    // Pages that never end are no list.
    stage.proxy.plan(move |asked| match asked.path.contains("/tags/list") {
        true => page("a", Some("a")),
        false => Fault::None,
    });
    let error = oci::chain(&world.scrape().await.unwrap_err());
    assert!(error.contains("nothing new"), "{error}");
    assert_eq!(world.names().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_of_another_service_is_asked_for_only_when_it_changed() {
    let answers = Arc::new(AtomicUsize::new(0));
    let (counting, document) = (
        Arc::clone(&answers),
        r#"{"nodes":[{"version":"1.0.0","payload":"a@b","metadata":{}},
        {"version":"1.0.1","payload":"c@d"}],"edges":[[0,1],[1,7]]}"#,
    );
    let service = FlakyProxy::alone(move |asked| match asked.header("if-none-match") {
        Some("\"x\"") => Fault::status(304),
        _ => {
            counting.fetch_add(1, Ordering::Relaxed);
            Fault::Answer(200, vec![("etag".into(), "\"x\"".into())], document.into())
        }
    });
    let mut world = World::of(format!("graph:http://{}/v1/graph", service.address));
    world.scrape().await.unwrap();
    assert_eq!(world.names(), ["1.0.0", "1.0.1"]);
    assert_eq!(world.snapshot().graph.edge_count(), (1, 0));
    let notes = world.notes();
    assert!(matches!(&notes[..], [("bad-edge", _)]), "{notes:?}");
    assert_eq!(world.scrape().await.unwrap(), Outcome::Unchanged);
    assert_eq!((answers.load(Ordering::Relaxed), service.take_log().len()), (1, 2));

    service.plan(|_| Fault::status(500));
    world.scrape().await.unwrap_err();
    assert_eq!(world.names().len(), 2);
    service.plan(|_| Fault::Answer(200, vec![], br#"{"version":9,"nodes":[],"edges":[]}"#.to_vec()));
    let error = oci::chain(&world.scrape().await.unwrap_err());
    assert!(error.contains("version 9"), "{error}");
}
