//! Keys that a release brings along: whom its successor must be signed by, besides those who are configured.

use std::fs;

use testkit::releases::CosignKey;

use super::world::{Published, World, version};
use crate::upgrade::site::{Release, Slot};

#[test]
fn whom_the_running_release_trusts_must_have_signed_too() {
    let mut world = World::<Slot>::new();
    let directory = world.site.root.join("builder");
    fs::create_dir_all(&directory).unwrap();
    let builder = CosignKey::new(&directory, "p256");
    let keys = Some(fs::read(builder.public_file()).unwrap());
    let (second, third) = (Release::of(2), Release::of(3));
    world.publish_as(&second, &Published { keys, ..Published::rightly(&second) });
    world.start_graph();
    // Release 1 has no keys of its own: those that are configured are enough.
    world.ends(&["agent", "update", "--to", &version(&second)], 0);
    world.site.serves(&second);

    let digest = world.publish(&third);
    let known = || world.run(&["agent", "check"]).out.contains(&version(&third));
    world.site.wait("the graph has it", known);
    let done = world.ends(&["agent", "update", "--to", &version(&third)], 4);
    assert!(done.err.contains("release-keys"), "it names the keyring that does not agree: {}", done.err);
    world.nothing_left();
    world.site.serves(&second);

    world.releases.sign_cosign(&digest, &builder);
    world.ends(&["agent", "update", "--to", &version(&third)], 0);
    world.site.serves(&third);
}
