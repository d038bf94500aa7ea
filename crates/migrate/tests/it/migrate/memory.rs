//! Rust migrations: values in memory, stores by copy.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use logic::exit::Exit;
use migrate::{Applied, Error, Options, Refusal, Registry, RegistryError, StoreError, Target};
use serde_json::json;

use crate::migrate::support::{Scratch, appliance, data, names, plain, values};

#[test]
fn data_goes_along_the_path_and_the_input_stays_as_it_was() {
    let scratch = Scratch::new();
    let registry = appliance(vec![
        (
            2,
            values("two", |values| {
                let port = values.remove("port").unwrap();
                values.insert("listen".into(), json!({"port": port}));
            }),
        ),
        (
            3,
            values("three", |values| {
                values["listen"]["tls"] = json!(true);
            }),
        ),
    ]);
    let before = data(1, json!({"port": 80, "key": {"$secret": "xyzzy-1"}}));
    let kept = before.clone();
    let done = registry.run(Target::Appliance, &before, None, &scratch.0, &Options::default()).unwrap();
    assert_eq!(before, kept);
    assert_eq!(done.data.version, 3);
    assert_eq!(
        done.data.values,
        *json!({"listen": {"port": 80, "tls": true}, "key": {"$secret": "xyzzy-1"}}).as_object().unwrap()
    );
    assert_eq!(
        done.data.applied,
        [Applied { version: 2, digest: "two".into() }, Applied { version: 3, digest: "three".into() }]
    );
    let changes =
        |step: usize| -> Vec<String> { done.steps[step].changes.iter().map(ToString::to_string).collect() };
    assert_eq!(changes(0), [r#"+ listen = {"port":80}"#, "- port = 80"]);
    assert_eq!(changes(1), ["+ listen.tls = true"]);
    let again = registry.run(Target::Appliance, &done.data, None, &scratch.0, &Options::default()).unwrap();
    assert!(!again.changed());
    assert_eq!(again.data, done.data);
}

#[test]
fn a_migration_that_fails_or_panics_leaves_no_version_and_no_files() {
    for bad in ["fails", "panics"] {
        let scratch = Scratch::new();
        let stores = scratch.dir("stores");
        let work = scratch.0.join("work");
        let registry = appliance(vec![
            (
                2,
                plain("two", |input, work| {
                    fs::write(work.new_stores()?.join("metadata.v2"), "2")?;
                    Ok(input.values.clone().into())
                }),
            ),
            (
                3,
                plain("three", move |input, _| {
                    let secret = input.values["key"]["$secret"].as_str().unwrap().to_owned();
                    if bad == "panics" {
                        panic!("no idea what {secret} is")
                    }
                    Err(format!("no idea what {secret} is").into())
                }),
            ),
        ]);
        let before = data(1, json!({"key": {"$secret": "xyzzy-1"}}));
        let error =
            registry.run(Target::Appliance, &before, Some(&stores), &work, &Options::default()).unwrap_err();
        assert_eq!(error.exit(), Exit::MigrationFailed);
        assert_eq!(error.to_string(), "the migration of appliance data to version 3 (three) failed");
        let Error::Failed { source, .. } = &error else { panic!("{error:?}") };
        assert!(source.to_string().ends_with("no idea what (secret) is"), "{source}");
        assert!(names(&stores).is_empty() && names(&work).is_empty());
    }
}

#[test]
fn a_chain_stops_when_it_is_asked_to() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let scratch = Scratch::new();
    let registry = appliance(vec![
        (2, values("two", |_| STOP.store(true, Ordering::Relaxed))),
        (3, values("three", |_| unreachable!())),
    ]);
    let options = Options { stop: Some(&STOP), ..Options::default() };
    let error = registry.run(Target::Appliance, &data(1, json!({})), None, &scratch.0, &options).unwrap_err();
    assert!(matches!(error, Error::Stopped { version: 3, .. }), "{error:?}");
    assert_eq!(error.exit(), Exit::Interrupted);
}

#[test]
fn data_newer_than_the_release_is_refused_and_a_release_can_state_its_version() {
    let scratch = Scratch::new();
    let mut registry = Registry::new();
    let run = |registry: &Registry| {
        registry.run(Target::Workload, &data(7, json!({})), None, &scratch.0, &Options::default())
    };
    let error = run(&registry).unwrap_err();
    assert!(matches!(error, Error::Refused(Refusal::Newer { data: 7, newest: 1, .. })), "{error:?}");
    assert_eq!(error.exit(), Exit::Refused);
    registry.state_newest(Target::Workload, 7);
    assert!(!run(&registry).unwrap().changed());
    assert_eq!((registry.newest(Target::Workload), registry.newest(Target::Appliance)), (7, 1));
}

/// Copies the newest version of a store forward, with a line added.
fn forward(version: u32) -> Box<dyn migrate::Migration> {
    plain(&format!("to-{version}"), move |input, work| {
        let old =
            fs::read_to_string(input.stores.ok_or("no stores")?.join(format!("metadata.v{}", input.from)))?;
        fs::write(work.new_stores()?.join(format!("metadata.v{version}")), format!("{old}+{version}"))?;
        Ok(input.values.clone().into())
    })
}

#[test]
fn stores_are_copied_forward_and_later_steps_see_what_earlier_ones_made() {
    let scratch = Scratch::new();
    let (stores, work) = (scratch.dir("stores"), scratch.0.join("work"));
    fs::write(stores.join("metadata.v1"), "1").unwrap();
    fs::write(stores.join("other"), "as it is").unwrap();
    let registry = appliance(vec![(2, forward(2)), (3, forward(3)), (4, forward(4))]);
    let run =
        || registry.run(Target::Appliance, &data(1, json!({})), Some(&stores), &work, &Options::default());
    let done = run().unwrap();
    assert_eq!(names(&stores), ["metadata.v1", "other"], "nothing is there before it is installed");
    assert_eq!(done.steps[2].stores, ["metadata.v4"]);
    done.install_stores(&stores).unwrap();
    assert_eq!(names(&stores), ["metadata.v1", "metadata.v2", "metadata.v3", "metadata.v4", "other"]);
    let read = |name: &str| fs::read_to_string(stores.join(name)).unwrap();
    assert_eq!((read("metadata.v1"), read("metadata.v4")), ("1".into(), "1+2+3+4".into()));

    // The upgrade died before the new version was recorded: the same again is fine, something else is not.
    done.install_stores(&stores).unwrap();
    run().unwrap().install_stores(&stores).unwrap();
    fs::write(stores.join("metadata.v3"), "somebody else's").unwrap();
    let error = run().unwrap().install_stores(&stores).unwrap_err();
    assert!(matches!(&error, StoreError::Exists { path } if path.ends_with("metadata.v3")), "{error:?}");
    assert_eq!(read("metadata.v3"), "somebody else's");
}

#[test]
fn stores_come_from_another_file_system_too() {
    let Ok(elsewhere) = tempdir_on_another_file_system() else {
        eprintln!("left out: /dev/shm is not another file system here");
        return;
    };
    let scratch = Scratch::new();
    let stores = scratch.dir("stores");
    fs::write(stores.join("metadata.v1"), "1").unwrap();
    let registry = appliance(vec![(2, forward(2))]);
    let run = || {
        registry.run(Target::Appliance, &data(1, json!({})), Some(&stores), &elsewhere.0, &Options::default())
    };
    run().unwrap().install_stores(&stores).unwrap();
    run().unwrap().install_stores(&stores).unwrap();
    assert_eq!(names(&stores), ["metadata.v1", "metadata.v2"]);
    fs::write(stores.join("metadata.v2"), "x").unwrap();
    let error = run().unwrap().install_stores(&stores).unwrap_err();
    assert!(matches!(error, StoreError::Exists { .. }), "{error:?}");
    assert_eq!(names(&stores), ["metadata.v1", "metadata.v2"]);
}

fn tempdir_on_another_file_system() -> std::io::Result<Scratch> {
    use std::os::unix::fs::MetadataExt;
    let shm = Path::new("/dev/shm");
    if fs::metadata(shm)?.dev() == fs::metadata(std::env::temp_dir())?.dev() {
        return Err(std::io::ErrorKind::Unsupported.into());
    }
    let dir = shm.join(format!("holdfast-migrate-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    Ok(Scratch(dir))
}

#[test]
fn a_store_that_is_not_named_after_its_version_is_refused() {
    for (name, make) in [
        ("metadata.v3", (|path: &Path| fs::write(path, "x")) as fn(&Path) -> std::io::Result<()>),
        ("metadata", |path| fs::write(path, "x")),
        (".v2", |path| fs::write(path, "x")),
        ("dir.v2", |path| fs::create_dir(path)),
        ("link.v2", |path| std::os::unix::fs::symlink("/etc/passwd", path)),
    ] {
        let scratch = Scratch::new();
        let registry = appliance(vec![(
            2,
            plain("two", move |input, work| {
                make(&work.new_stores()?.join(name))?;
                Ok(input.values.clone().into())
            }),
        )]);
        let error = registry
            .run(Target::Appliance, &data(1, json!({})), None, &scratch.0.join("work"), &Options::default())
            .unwrap_err();
        assert!(matches!(error, Error::Stores { .. }), "{name}: {error:?}");
        assert!(!error.hint().is_empty());
    }
}

#[test]
fn each_version_has_exactly_one_migration() {
    let mut registry = appliance(vec![(2, values("two", |_| {}))]);
    let again = registry.register(Target::Appliance, 2, values("another", |_| {})).unwrap_err();
    assert_eq!(again.to_string(), "there are two migrations of appliance data to version 2: two and another");
    registry.register(Target::Workload, 2, values("two", |_| {})).unwrap();
    let first = registry.register(Target::Workload, 1, values("one", |_| {})).unwrap_err();
    assert!(matches!(first, RegistryError::BadVersion { version: 1, .. }));
}

fn script(dir: &Path, name: &str, mode: u32) {
    fs::write(dir.join(name), "#!/bin/sh\n").unwrap();
    fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn the_executables_of_a_release_are_found_and_nothing_is_left_out_silently() {
    let scratch = Scratch::new();
    let dir = scratch.dir("migrations");
    script(&dir, "appliance-3-rename-port", 0o755);
    script(&dir, "appliance-002.sh", 0o755);
    script(&dir, "workload-2", 0o755);
    let mut registry = Registry::new();
    assert_eq!(registry.discover(&dir).unwrap(), 3);
    let path = registry.plan(Target::Appliance, 1, &[]).unwrap();
    assert_eq!(path.to_string(), "1 → 2 → 3");
    assert_eq!(path.steps[1].name, "appliance-3-rename-port");
    assert_eq!(
        path.steps[1].digest,
        "sha256:a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf"
    );
    assert_eq!(Registry::new().discover(&scratch.0.join("none")).unwrap(), 0);

    for (name, mode, says) in [
        ("README", 0o644, "is not named like a migration"),
        ("appliance-4", 0o644, "is not executable"),
        ("appliance-03-again", 0o755, "there are two migrations of appliance data to version 3"),
    ] {
        script(&dir, name, mode);
        let error = Registry::new().discover(&dir).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert!(!error.hint().is_empty());
        fs::remove_file(dir.join(name)).unwrap();
    }
    fs::create_dir(dir.join("appliance-4")).unwrap();
    assert!(matches!(Registry::new().discover(&dir), Err(RegistryError::NotAFile { .. })));
}
