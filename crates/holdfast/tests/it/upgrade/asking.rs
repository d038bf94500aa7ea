//! Where releases come from, what `ls` says of an appliance, and what a rollback is refused for.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use testkit::image::{Form, Image, Layer, Layout, Packing};
use testkit::registry::Registry;

use crate::upgrade::site::{Release, Site, Slot};

fn old() -> Release {
    Release::of(10)
}

fn new() -> Release {
    Release::of(20).with_data(2)
}

/// The release of a directory as an image in a layout, packed by the system's own `tar`.
fn packed(
    site: &Site<Slot>,
    layout: &mut Layout,
    release: &Release,
    tag: &str,
) -> testkit::image::Descriptor {
    let dir = site.release(release);
    let tar = Command::new("tar").args(["-C", &dir, "--owner=0", "--group=0", "-c", "."]).output().unwrap();
    assert!(tar.status.success());
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let layers = vec![Layer::of_archive(&tar.stdout, Packing::Gzip)];
    let image = layout.image(&Image { form: Form::Oci, arch: arch.to_owned(), labels: vec![], layers });
    layout.tag(&image, tag);
    image
}

#[test]
fn a_release_comes_from_a_layout_or_a_registry_as_from_a_directory() {
    let site = Site::<Slot>::new();
    site.create(&old());
    site.put("bread", "two");
    let path = site.root.join("layout");
    let mut layout = Layout::create(&path);
    packed(&site, &mut layout, &new(), "two");
    let last = Release::of(30).with_data(3);
    let image = packed(&site, &mut layout, &last, "three");
    site.ok(&["upgrade", "shop", "--release", "oci:layout:two"]);
    site.serves(&new());
    let registry = Registry::start();
    registry.put(&layout, &image, "shop", "three");
    let reference = format!("http://{}/shop:three", registry.host());
    site.ok(&["upgrade", "shop", "--release", &reference]);
    site.serves(&last);
    assert_eq!(site.note("bread").as_deref(), Some("two"));
    drop(registry);
    let gone = format!("{reference}4");
    site.ends(&["upgrade", "shop", "--release", &gone], 75);
    site.ends(&["upgrade", "shop", "--release", "oci:layout:four"], 3);
    site.serves(&last);
}

#[test]
fn a_list_says_how_each_appliance_stands() {
    let site = Site::<Slot>::new();
    site.create(&old());
    let listed = |words: &[&str]| site.ok(words).out;
    assert!(listed(&["appliance", "ls"]).contains("up to date"));
    let reference = site.release(&new());
    let offered = listed(&["appliance", "ls", "--release", &reference]);
    assert!(offered.contains(&format!("upgradeable to {}", new().version())), "{offered}");
    site.killed_at(&["upgrade", "shop", "--release", &reference], "migrate");
    assert!(listed(&["appliance", "ls"]).contains("interrupted on the way to"));
    site.ok(&["upgrade", "shop", "--resume"]);
    assert!(listed(&["appliance", "ls"]).contains(&old().version()), "what a rollback leads to");
    // Written by a Holdfast of tomorrow.
    let path = site.appliance().join("appliance.json");
    let kept = fs::read(&path).unwrap();
    let mut identity: Value = serde_json::from_slice(&kept).unwrap();
    identity["apiVersion"] = json!("holdfast/v9");
    fs::write(&path, identity.to_string()).unwrap();
    assert!(listed(&["appliance", "ls"]).contains("newer than this program"));
    site.ends(&["upgrade", "shop", "--rollback"], 4);
    fs::write(&path, kept).unwrap();
}

#[test]
fn a_rollback_that_would_not_lead_back_is_refused_and_says_why() {
    let site = Site::<Slot>::new();
    site.create(&old());
    site.upgrade(&new());
    let dir = site.appliance();
    let aside = site.root.join("aside");
    let refused = |why: &str| {
        let done = site.ends(&["upgrade", "shop", "--rollback"], 4);
        assert!(done.err.contains(why), "{why}: {}", done.err);
        site.serves(&new());
    };
    let image = site.image(&old());
    fs::rename(&image, &aside).unwrap();
    refused("the image of");
    fs::rename(&aside, &image).unwrap();

    let snapshot = fs::read_dir(dir.join("snapshots")).unwrap().next().unwrap().unwrap().path();
    let mark = snapshot.join("snapshot.json");
    let kept = fs::read_to_string(&mark).unwrap();
    fs::write(&mark, kept.replace(&old().version(), &new().version())).unwrap();
    refused("the snapshot");
    fs::write(&mark, kept).unwrap();

    let point = dir.join("point.json");
    let kept = fs::read_to_string(&point).unwrap();
    fs::write(&point, kept.replace(&new().version(), &Release::of(15).version())).unwrap();
    refused("the rollback point is not one of");
    fs::write(&point, kept).unwrap();
    site.ok(&["upgrade", "shop", "--rollback"]);
    site.serves(&old());
}

#[test]
fn the_status_of_the_machine_names_its_appliances() {
    let site = Site::<Slot>::new();
    site.create(&Release::of(10));
    let status = |deployments: &str, more: &[&str]| {
        fs::write(site.root.join("deployments.json"), deployments).unwrap();
        let mut command = site.command(&["status"]);
        command.args(more).env("HOLDFAST_GUARD_DEPLOYMENTS", site.root.join("deployments.json"));
        command.env("HOLDFAST_GUARD_DATA_DIR", site.root.join("device"));
        command.env("HOLDFAST_GUARD_BACKUPS_DIR", site.root.join("backups"));
        command.env("HOLDFAST_GUARD_WORKLOAD_VERSION", "4.14.0").env("HOLDFAST_GUARD_BOOT_ID", "b1");
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let device = r#"{"booted":"d1","rollback":"d2","deployments":["d1","d2"]}"#;
    let (code, shown) = status(device, &[]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("d1") && shown.contains("shop") && shown.contains("up to date"), "{shown}");
    let (_, shown) = status(device, &["-o", "json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(
        (&shown["booted"], &shown["appliances"][0]["name"]),
        (&"d1".into(), &"shop".into()),
        "{shown:#}"
    );
    // Where guard knows nothing, appliances are shown all the same.
    let (code, shown) = status("", &[]);
    assert!(code != Some(0) && shown.contains("shop"), "{code:?}: {shown}");
}
