//! The stories of one appliance, told for every backend that can run them.

use std::fs;

use serde_json::Value;

use crate::upgrade::site::{Kind, Release, Site};

fn old() -> Release {
    Release::of(10)
}

fn new() -> Release {
    Release::of(20).with_data(2)
}

pub fn upgrade_without_migration<K: Kind>() {
    let site = Site::<K>::new();
    site.create(&old());
    site.serves(&old());
    site.put("bread", "two");
    site.upgrade(&Release::of(20));
    site.serves(&Release::of(20));
    assert_eq!(site.note("bread").as_deref(), Some("two"));
    let seen = site.inspect();
    assert_eq!(seen["dataVersion"], Value::from(1));
    assert_eq!(seen["rollbackTo"], Value::from(old().version()));
    assert_eq!(seen["history"][0]["committed"], Value::from(true));
    // The same again: nothing to do.
    site.upgrade(&Release::of(20));
}

pub fn upgrade_with_migration<K: Kind>() {
    let site = Site::<K>::new();
    site.create(&old());
    site.put("bread", "two");
    let last = Release::of(30).with_data(4);
    site.upgrade(&last);
    site.serves(&last);
    assert_eq!(site.note("bread").as_deref(), Some("two"));
    let seen = site.inspect();
    assert_eq!(seen["dataVersion"], Value::from(4));
    assert_eq!(seen["configuration"]["title4"], Value::from("Shopping"));
    assert_eq!(seen["configuration"]["password"], Value::from("(secret)"));
    assert_eq!(seen["applied"].as_array().unwrap().len(), 3);
}

pub fn roll_back<K: Kind>() {
    let site = Site::<K>::new();
    site.create(&old());
    site.put("bread", "two");
    site.ends(&["upgrade", "shop", "--rollback"], 3);
    site.upgrade(&new());
    site.put("bread", "three");
    site.ok(&["upgrade", "shop", "--rollback"]);
    site.serves(&old());
    assert_eq!(site.note("bread").as_deref(), Some("two"), "the data of before");
    let seen = site.inspect();
    assert_eq!((&seen["dataVersion"], &seen["rollbackTo"]), (&Value::from(1), &Value::Null));
    assert_eq!(seen["configuration"]["title1"], Value::from("Shopping"));
    assert_eq!(seen["images"].as_array().unwrap().len(), 1, "the new image is gone");
    assert_eq!(seen["snapshots"].as_array().unwrap().len(), 0);
    site.ends(&["upgrade", "shop", "--rollback"], 3);
    // A new upgrade starts clean.
    site.upgrade(&new());
    site.serves(&new());
}

pub fn roll_back_with_a_new_workload<K: Kind>() {
    let site = Site::<K>::new();
    site.create(&old());
    site.ok(&["appliance", "workload", "create", "shop", "before", "--", "sleep", "1000"]);
    site.upgrade(&new());
    site.ok(&["appliance", "workload", "create", "shop", "after", "--", "sleep", "1000"]);
    let refused = site.ends(&["upgrade", "shop", "--rollback"], 4);
    assert!(refused.err.contains("after") && !refused.err.contains("before"), "{}", refused.err);
    site.serves(&new());
    site.ok(&["appliance", "workload", "rm", "shop", "after", "--force"]);
    site.ok(&["upgrade", "shop", "--rollback"]);
    site.serves(&old());
    let listed = site.ok(&["appliance", "workload", "ls", "shop"]);
    assert!(listed.out.contains("before"), "{}", listed.out);
}

pub fn resume_before_the_snapshot<K: Kind>() {
    let site = Site::<K>::new();
    site.create(&old());
    site.put("bread", "two");
    let reference = site.release(&new());
    site.killed_at(&["upgrade", "shop", "--release", &reference], "stage");
    site.ends(&["upgrade", "shop", "--resume"], 3);
    site.serves(&old());
    assert_eq!(site.note("bread").as_deref(), Some("two"));
    site.state_is("up-to-date");
    site.upgrade(&new());
    site.serves(&new());
}

pub fn resume_after_success<K: Kind>() {
    let site = Site::<K>::new();
    site.create(&old());
    site.ends(&["upgrade", "shop", "--resume"], 3);
    site.upgrade(&new());
    let refused = site.ends(&["upgrade", "shop", "--resume"], 3);
    assert!(refused.err.contains(&new().version()), "{}", refused.err);
    site.serves(&new());
}

pub fn resume_without_the_old_image<K: Kind>() {
    let site = Site::<K>::new();
    site.create(&old());
    let reference = site.release(&new());
    site.killed_at(&["upgrade", "shop", "--release", &reference], "migrate");
    site.state_is("interrupted");
    let image = site.image(&old());
    let kept = site.root.join("kept");
    fs::rename(&image, &kept).unwrap();
    let refused = site.ends(&["upgrade", "shop", "--resume"], 4);
    assert!(refused.err.contains("is gone"), "{}", refused.err);
    fs::rename(&kept, &image).unwrap();
    site.ok(&["upgrade", "shop", "--resume"]);
    site.serves(&new());
}

pub fn resume_and_roll_back_after_it<K: Kind>() {
    let site = Site::<K>::new();
    site.create(&old());
    site.put("bread", "two");
    let reference = site.release(&new());
    site.killed_at(&["upgrade", "shop", "--release", &reference], "migrate");
    site.state_is("interrupted");
    let refused = site.ends(&["upgrade", "shop", "--release", &reference], 4);
    assert!(refused.err.contains("--resume"), "{}", refused.err);
    site.ok(&["upgrade", "shop", "--resume"]);
    site.serves(&new());
    assert_eq!(site.note("bread").as_deref(), Some("two"));
    assert_eq!(site.inspect()["configuration"]["title2"], Value::from("Shopping"));
    site.ok(&["upgrade", "shop", "--rollback"]);
    site.serves(&old());
    assert_eq!(site.note("bread").as_deref(), Some("two"));
}

pub fn a_failed_upgrade_puts_everything_back<K: Kind>() {
    let site = Site::<K>::new();
    site.create(&old());
    site.put("bread", "two");
    site.upgrade(&Release::of(15));
    let before = site.inspect();
    let reference = site.release(&new().never_ready());
    let failed = site.ends(&["upgrade", "shop", "--release", &reference, "--timeout", "4s"], 9);
    assert!(failed.err.contains("prove-ready"), "{}", failed.err);
    site.serves(&Release::of(15));
    assert_eq!(site.note("bread").as_deref(), Some("two"));
    let after = site.inspect();
    for same in ["release", "configuration", "dataVersion", "images", "snapshots", "rollbackTo", "state"] {
        assert_eq!(before[same], after[same], "{same}");
    }
    // The point of the upgrade before is as good as it was.
    site.ok(&["upgrade", "shop", "--rollback"]);
    site.serves(&old());
}

pub fn an_appliance_that_is_off_is_upgraded_and_stays_off<K: Kind>() {
    let site = Site::<K>::new();
    site.create(&old());
    site.put("bread", "two");
    site.ok(&["appliance", "stop", "shop"]);
    site.upgrade(&new());
    let seen = site.inspect();
    assert_eq!(
        (&seen["on"], &seen["release"]["version"]),
        (&Value::from(false), &Value::from(new().version()))
    );
    assert!(site.get("/version").is_none(), "something answers");
    site.ok(&["appliance", "start", "shop"]);
    site.serves(&new());
    assert_eq!(site.note("bread").as_deref(), Some("two"));
}

/// All of them for one backend, each a test.
#[macro_export]
macro_rules! stories {
    ($kind:ty: $($story:ident),+ $(,)?) => {
        $(#[test]
        fn $story() {
            $crate::upgrade::scenarios::$story::<$kind>();
        })+
    };
    // For a backend that takes too long for `make test`.
    ($kind:ty, prove $level:literal: $($story:ident),+ $(,)?) => {
        $(#[test]
        #[ignore = $level]
        fn $story() {
            $crate::upgrade::scenarios::$story::<$kind>();
        })+
    };
}
