//! A registry that is slow, fails, lies or dies in the middle: waited for or refused, with its reason.

use serde_json::Value;
use testkit::flaky_proxy::{Asked, Fault, FlakyProxy};
use testkit::image::Form;

use super::world::{Published, World};
use crate::upgrade::site::{Release, Slot};

fn second() -> Release {
    Release::of(2).with_data(2)
}

impl World<Slot> {
    /// The graph is made from the registry itself; agents are sent to this one before it.
    fn behind_proxy(&mut self) -> FlakyProxy {
        let proxy = FlakyProxy::start(self.registry().address);
        let (from, agents) = (self.registry().host(), proxy.address);
        self.source = format!(
            "{{ address = \"registry:http://{from}/shop\", payload-repository = \"http://{agents}/shop\" }}"
        );
        proxy
    }

    /// While it fetches, its status has a line with all of this.
    fn says(&self, words: &[&str]) {
        self.site.wait("it says so", || {
            let status = self.run(&["agent", "status"]).out;
            status.lines().any(|line| words.iter().all(|word| line.contains(word)))
        });
        assert_eq!(self.agent_state(), "fetching", "{}", self.log());
        assert!(self.attempts().is_empty(), "{:#}", self.books());
        self.site.serves(&Release::of(1));
    }

    fn moved(&self) {
        self.ends_as(&second(), "completed");
        self.site.serves(&second());
        self.nothing_left();
    }
}

/// The release is on offer, and agents are sent to a proxy.
fn on_offer() -> (World<Slot>, FlakyProxy) {
    let mut world = World::<Slot>::new().with_registry();
    let proxy = world.behind_proxy();
    world.publish(&second());
    world.start_graph();
    (world, proxy)
}

impl World<Slot> {
    /// Whether the layer of the release is asked for.
    fn layer(&self) -> impl Fn(&Asked) -> bool + Clone + Send + 'static {
        let manifest = self.releases.layout.blob_path(&self.releases.get("2.0.0").digest);
        let manifest: Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
        let path = format!("/blobs/{}", manifest["layers"][0]["digest"].as_str().unwrap());
        move |asked| asked.path.ends_with(&path)
    }
}

#[test]
fn a_registry_that_answers_500_is_waited_for() {
    let (mut world, proxy) = on_offer();
    proxy.plan(|_| Fault::status(500));
    world.automatic().start_agent();
    world.says(&["trouble", "answered 500", "it is tried again by itself"]);
    proxy.plan(|_| Fault::None);
    world.moved();
}

#[test]
fn a_slow_registry_is_waited_for_and_how_far_it_is_is_shown() {
    let (mut world, proxy) = on_offer();
    let is_layer = world.layer();
    proxy.plan(move |asked| if is_layer(asked) { Fault::Stall } else { Fault::None });
    world.automatic().start_agent();
    world.says(&["fetching, to 2.0.0", " %)"]);
    // Whoever is told to stop does not wait for it.
    world.stop_agent();
    proxy.plan(|_| Fault::None);
    world.start_agent();
    world.moved();
}

#[test]
fn a_registry_that_is_killed_over_half_a_blob_is_waited_for_and_gone_on_with() {
    let (mut world, proxy) = on_offer();
    let (is_cut, is_layer) = (world.layer(), world.layer());
    proxy.plan(move |asked| if is_cut(asked) { Fault::Cut } else { Fault::None });
    world.automatic().start_agent();
    let goes_on = |asked: &Asked| is_layer(asked) && asked.header("range").is_some();
    world.site.wait("half of it is there", || proxy.take_log().iter().any(goes_on));
    world.registry_mut().kill();
    world.says(&["trouble", "cannot fetch", "it is tried again by itself"]);
    proxy.take_log();
    proxy.plan(|_| Fault::None);
    world.registry_mut().start_again();
    world.moved();
    let asked = proxy.take_log();
    assert!(asked.iter().any(goes_on), "{asked:#?}");
}

#[test]
fn other_bytes_than_those_of_the_digest_are_refused() {
    let (mut world, proxy) = on_offer();
    let is_layer = world.layer();
    let digest = world.releases.get("2.0.0").digest.clone();
    let other = world.publish(&Release::of(3).with_data(2));
    let other = std::fs::read(world.releases.layout.blob_path(&other)).unwrap();
    let refused = |world: &World<Slot>| {
        let done = world.ends(&["agent", "update", "--to", "2.0.0"], 4);
        assert!(done.err.contains("is not what its digest says"), "{}\n{}", done.err, world.log());
        world.ends_as(&second(), "refused");
        world.nothing_left();
        world.site.serves(&Release::of(1));
    };
    // Another image, where this one is meant.
    let of_another =
        Fault::Answer(200, vec![("content-type".to_owned(), Form::Oci.manifest().to_owned())], other);
    let is_it = move |asked: &Asked| asked.path.ends_with(&format!("/manifests/{digest}"));
    proxy.plan(move |asked| if is_it(asked) { of_another.clone() } else { Fault::None });
    refused(&world);
    proxy.plan(move |asked| if is_layer(asked) { Fault::Garble } else { Fault::None });
    refused(&world);
}

#[test]
fn a_tag_that_is_moved_moves_nobody() {
    let (mut world, _proxy) = on_offer();
    let offered = world.releases.get("2.0.0").digest.clone();
    world.ends(&["agent", "pause"], 0);
    world.automatic().start_agent();
    world
        .site
        .wait("it is on offer", || world.run(&["agent", "status", "-o", "wide"]).out.contains(&offered));
    world.kill_graph();
    // Of this one nothing is known to who has read the graph, and nobody has signed it.
    let unknown = Published { signed: false, ..Published::rightly(&second()) };
    let moved = world.publish_as(&second().never_ready(), &unknown);
    assert_ne!(moved, offered);
    world.ends(&["agent", "resume"], 0);
    world.moved();
    assert!(world.attempts()[0]["image"].as_str().unwrap().ends_with(&offered), "{:#}", world.books());
}

#[test]
fn a_registry_that_stands_still_is_waited_for() {
    let mut world = World::<Slot>::new().with_registry();
    world.automatic();
    world.publish(&second());
    world.start_graph();
    world.registry().pause();
    world.start_agent();
    world.site.wait("it fetches", || world.agent_state() == "fetching");
    world.site.serves(&Release::of(1));
    world.registry().resume();
    world.moved();
}

#[test]
fn a_registry_that_is_killed_while_it_is_asked_is_waited_for() {
    let mut world = World::<Slot>::new().with_registry();
    world.automatic();
    world.publish(&second());
    world.start_graph();
    // It has taken the question, and dies over it.
    world.registry().pause();
    world.start_agent();
    world.site.wait("it fetches", || world.agent_state() == "fetching");
    world.registry_mut().kill();
    world.says(&["trouble", "cannot", "it is tried again by itself"]);
    world.registry_mut().start_again();
    world.moved();
}
