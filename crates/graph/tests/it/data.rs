//! Graph data from where it really comes: a directory, git, an image; with the real `git` and the real `gpg`.

use crate::data_support;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::data_support::{Scratch, layout, layout_digest, web};
use graph::data::{DataError, DataSource, check};
use graph::settings::Settings;
use oci::chain;
use testkit::gpg::Gpg;

fn settings(scratch: &Scratch, graph_data: String) -> Settings {
    Settings { graph_data: Some(graph_data), cache_dir: scratch.path("cache"), ..Settings::default() }
}

fn open(settings: &Settings) -> DataSource {
    DataSource::open(settings).unwrap().unwrap()
}

/// The versions of the first channel after a load, or that nothing changed.
async fn load(source: &mut DataSource) -> Result<Option<Vec<String>>, String> {
    let loaded = source.load().await.map_err(|error| {
        assert!(!error.hint().is_empty());
        chain(&error)
    })?;
    Ok(loaded.map(|(data, _)| data.channels[0].versions.iter().map(|(name, _)| name.to_string()).collect()))
}

fn versions(list: &[&str]) -> Result<Option<Vec<String>>, String> {
    Ok(Some(list.iter().map(|version| (*version).to_owned()).collect()))
}

fn write_data(root: &Path, versions: &str) {
    fs::create_dir_all(root.join("channels")).unwrap();
    fs::create_dir_all(root.join("blocked-edges")).unwrap();
    fs::write(root.join("version"), "1.0.0\n").unwrap();
    fs::write(root.join("channels/stable.yaml"), format!("name: stable\nversions: [{versions}]\n")).unwrap();
}

#[tokio::test]
async fn a_directory_is_read_again_only_when_something_in_it_changed() {
    let scratch = Scratch::new();
    let root = scratch.path("data");
    write_data(&root, "1.0.0");
    let mut source = open(&settings(&scratch, root.display().to_string()));
    assert_eq!(source.revision(), None);
    assert_eq!(load(&mut source).await, versions(&["1.0.0"]));
    let first = source.revision().map(str::to_owned);
    assert_eq!(load(&mut source).await, Ok(None));
    // Written again with the same content, and beside it what is not graph data.
    write_data(&root, "1.0.0");
    fs::write(root.join("notes.txt"), "x").unwrap();
    assert_eq!(load(&mut source).await, Ok(None));
    write_data(&root, "1.0.1");
    assert_eq!(load(&mut source).await, versions(&["1.0.1"]));
    assert_ne!(source.revision().map(str::to_owned), first);
    // What can't be read does not count as what was read last.
    fs::write(root.join("version"), "2.0.0").unwrap();
    assert!(load(&mut source).await.unwrap_err().contains("1.x"));
    fs::remove_dir_all(&root).unwrap();
    assert!(matches!(source.load().await, Err(DataError::Read { .. })));
    write_data(&root, "1.0.1");
    assert_eq!(load(&mut source).await, Ok(None));
}

#[tokio::test]
async fn links_are_followed_in_the_directory_and_not_out_of_it() {
    let scratch = Scratch::new();
    let root = scratch.path("data");
    write_data(&root, "1.0.0");
    fs::write(scratch.path("outside.yaml"), "name: outside\nversions: []\n").unwrap();
    // As volumes of configuration are laid out.
    fs::create_dir(root.join("..data")).unwrap();
    fs::write(root.join("..data/inside.yaml"), "name: inside\nversions: []\n").unwrap();
    symlink("../..data/inside.yaml", root.join("channels/inside.yaml")).unwrap();
    symlink(scratch.path("outside.yaml"), root.join("channels/outside.yaml")).unwrap();
    symlink("nowhere", root.join("channels/nowhere.yaml")).unwrap();
    symlink("/dev/zero", root.join("channels/zero.yaml")).unwrap();
    fs::create_dir(root.join("channels/folder.yaml")).unwrap();
    let mut source = open(&settings(&scratch, root.display().to_string()));
    let (data, notes) = source.load().await.unwrap().unwrap();
    let names: Vec<&str> = data.channels.iter().map(|channel| channel.name.as_str()).collect();
    assert_eq!(names, ["inside", "stable"]);
    let strays: Vec<String> = notes.iter().map(|note| note.place.to_string()).collect();
    let expected = ["folder", "nowhere", "outside", "zero"].map(|name| format!("channels/{name}.yaml"));
    assert_eq!(strays, expected);
}

#[tokio::test]
async fn a_directory_beyond_the_limits_is_refused_as_a_whole() {
    let scratch = Scratch::new();
    let root = scratch.path("data");
    write_data(&root, "1.0.0");
    let mut settings = settings(&scratch, root.display().to_string());
    settings.limits.graph_data_bytes = 20;
    assert!(matches!(open(&settings).load().await, Err(DataError::TooLarge { .. })));
    settings.limits.graph_data_bytes = 1 << 20;
    settings.limits.graph_data_files = 1;
    assert!(matches!(open(&settings).load().await, Err(DataError::TooManyFiles(1))));
}

#[test]
fn check_finds_mistakes_in_files_and_between_them() {
    let scratch = Scratch::new();
    let root = scratch.path("data");
    write_data(&root, "1.0.0");
    assert!(check(&root).is_empty());
    fs::write(root.join("version"), "7").unwrap();
    fs::write(root.join("channels/fast-1.yaml"), "name: fast-1\nversions: [1.0.0]\ntarget: 1.0.5\n").unwrap();
    fs::write(root.join("channels/README"), "").unwrap();
    fs::write(root.join("blocked-edges/a.yaml"), "to: 9.0.0\nfrom: (\n").unwrap();
    let found: Vec<String> =
        check(&root).iter().map(|note| format!("{} {}", note.code, note.place)).collect();
    assert_eq!(
        found,
        [
            "bad-pattern blocked-edges/a.yaml:2",
            "layout version:1",
            "target-not-approved channels/fast-1.yaml:3",
            "stray-file channels/README",
            "unknown-version blocked-edges/a.yaml:1",
        ]
    );
    let missing = check(&scratch.path("nowhere"));
    assert_eq!(missing.iter().map(|note| note.code).collect::<Vec<_>>(), ["unreadable"]);
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.net", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn commit(root: &Path, versions: &str) -> String {
    write_data(root, versions);
    git(root, &["add", "-A"]);
    git(root, &["commit", "-q", "--allow-empty", "-m", "change"]);
    git(root, &["rev-parse", "HEAD"])
}

#[tokio::test]
async fn a_repository_is_read_again_only_when_its_commit_changed() {
    let scratch = Scratch::new();
    let root = scratch.path("repository");
    fs::create_dir(&root).unwrap();
    git(&root, &["init", "-q"]);
    let first = commit(&root, "1.0.0");
    let settings = settings(&scratch, format!("git+file://{}", root.display()));
    let mut source = open(&settings);
    assert_eq!(load(&mut source).await, versions(&["1.0.0"]));
    assert_eq!(source.revision(), Some(first.as_str()));
    assert_eq!(load(&mut source).await, Ok(None));
    let second = commit(&root, "1.0.1");
    assert_eq!(load(&mut source).await, versions(&["1.0.1"]));
    assert_eq!(source.revision(), Some(second.as_str()));
    // History that was written anew is followed, too.
    git(&root, &["reset", "-q", "--hard", &first]);
    assert_eq!(load(&mut source).await, versions(&["1.0.0"]));
    // A new process finds the cache of the one before, and another branch.
    git(&root, &["checkout", "-q", "-b", "release/2"]);
    commit(&root, "2.0.0");
    git(&root, &["checkout", "-q", "main"]);
    let branch =
        Settings { graph_data: Some(format!("git+file://{}#release/2", root.display())), ..settings };
    assert_eq!(load(&mut open(&branch)).await, versions(&["2.0.0"]));
    // A cache that was damaged is made again.
    let objects = scratch.path("cache/graph-data.git/objects");
    let packs: Vec<_> =
        fs::read_dir(objects.join("pack")).unwrap().flatten().map(|entry| entry.path()).collect();
    packs
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "pack"))
        .for_each(|path| fs::write(path, "").unwrap_or(()));
    let loose = fs::read_dir(&objects).unwrap().flatten().map(|entry| entry.path());
    loose
        .filter(|path| path.file_name().unwrap().len() == 2)
        .for_each(|path| fs::remove_dir_all(path).unwrap());
    let mut source = open(&branch);
    assert_eq!(load(&mut source).await, versions(&["2.0.0"]));
    // The repository goes: an error that says so, and what was loaded stays loaded.
    fs::remove_dir_all(&root).unwrap();
    let error = load(&mut source).await.unwrap_err();
    assert!(error.contains("git fetch failed"), "{error}");
}

#[tokio::test]
async fn nothing_in_a_repository_is_run_or_followed() {
    let scratch = Scratch::new();
    let root = scratch.path("repository");
    fs::create_dir(&root).unwrap();
    git(&root, &["init", "-q"]);
    let trace = scratch.path("ran");
    write_data(&root, "1.0.0");
    symlink("/etc/passwd", root.join("channels/passwd.yaml")).unwrap();
    fs::write(root.join(".gitattributes"), "* filter=evil\n").unwrap();
    fs::write(root.join("channels/notes.txt"), "").unwrap();
    commit(&root, "1.0.0");
    let hook = root.join(".git/hooks/post-checkout");
    fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", trace.display())).unwrap();
    let mut source = open(&settings(&scratch, format!("git+file://{}", root.display())));
    let (_, notes) = source.load().await.unwrap().unwrap();
    let strays: Vec<String> = notes.iter().map(|note| note.place.to_string()).collect();
    assert_eq!(strays, ["channels/notes.txt", "channels/passwd.yaml"]);
    assert!(!trace.exists());
    let refused = DataSource::open(&settings(&scratch, format!("git+ext::sh -c touch% {}", trace.display())));
    assert!(matches!(refused, Err(DataError::Git(_))));
}

#[tokio::test]
async fn a_repository_is_read_over_the_network_and_a_host_that_says_nothing_is_given_up() {
    let scratch = Scratch::new();
    let root = scratch.path("served/repository");
    fs::create_dir_all(&root).unwrap();
    git(&root, &["init", "-q"]);
    let first = commit(&root, "1.0.0");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // Not by way of `git`, whose end the daemon would outlive.
    let daemon = Command::new(Path::new(&git(&root, &["--exec-path"])).join("git-daemon"))
        .args(["--export-all", "--listen=127.0.0.1", &format!("--port={port}"), "--reuseaddr"])
        .arg(format!("--base-path={}", scratch.path("served").display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut daemon = scratch.child(daemon.unwrap());
    data_support::wait_for(|| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let mut source = open(&settings(&scratch, format!("git+git://127.0.0.1:{port}/repository#main")));
    assert_eq!(load(&mut source).await, versions(&["1.0.0"]));
    assert_eq!(source.revision(), Some(first.as_str()));
    commit(&root, "1.0.1");
    assert_eq!(load(&mut source).await, versions(&["1.0.1"]));
    daemon.stop();
    data_support::wait_for(|| std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    let error = load(&mut source).await.unwrap_err();
    assert!(error.contains("git fetch failed"), "{error}");

    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let mut settings = settings(&scratch, format!("git+git://{address}/repository"));
    settings.limits.fetch_timeout = logic::period::Period::seconds(1);
    let error = load(&mut open(&settings)).await.unwrap_err();
    assert!(error.contains("git fetch took longer than 1 s"), "{error}");
    // It is stopped, and not only left alone: its connection closes.
    let (mut connection, _) = silent.accept().unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    std::io::Read::read_to_end(&mut connection, &mut vec![]).unwrap();
}

#[tokio::test]
async fn an_image_is_read_again_only_when_its_digest_changed() {
    let scratch = Scratch::new();
    let (data, image) = (scratch.path("data"), scratch.path("image"));
    write_data(&data, "1.0.0");
    layout(&image, "latest", &data, "");
    let mut source = open(&settings(&scratch, format!("image:oci:{}:latest", image.display())));
    assert_eq!(load(&mut source).await, versions(&["1.0.0"]));
    assert_eq!(source.revision(), Some(layout_digest(&image).as_str()));
    assert_eq!(load(&mut source).await, Ok(None));
    // Below the top, as other builders of such images put it.
    write_data(&data, "1.0.1");
    layout(&image, "latest", &data, "var/lib/graph-data/");
    assert_eq!(load(&mut source).await, versions(&["1.0.1"]));
    assert!(!scratch.path("cache/graph-data.image").exists());
}

#[tokio::test]
async fn an_image_must_be_signed_by_a_given_key_and_what_was_good_stays_until_then() {
    let scratch = Scratch::new();
    let gpg = Gpg::new();
    let (data, image, store) = (scratch.path("data"), scratch.path("image"), scratch.path("store"));
    gpg.key("trusted", "ed25519", "never");
    gpg.key("stranger", "ed25519", "never");
    let key = scratch.path("key.asc");
    fs::write(&key, gpg.export("trusted")).unwrap();
    write_data(&data, "1.0.0");
    layout(&image, "latest", &data, "");
    let mut settings = settings(&scratch, format!("image:oci:{}:latest", image.display()));
    settings.graph_data_keys = vec![key];
    assert!(matches!(DataSource::open(&settings), Err(DataError::Image(_))), "keys, and nowhere to look");
    settings.graph_data_signatures = Some(store.display().to_string());
    let mut source = open(&settings);
    let digest = layout_digest(&image);
    let place = |digest: &str, n: usize| store.join(digest.replace(':', "=")).join(format!("signature-{n}"));
    let put = |digest: &str, n: usize, content: &[u8]| {
        let path = place(digest, n);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    let refused = async |source: &mut DataSource, why: &str| {
        let error = load(source).await.unwrap_err();
        assert!(error.contains(why), "{error}");
    };

    refused(&mut source, "there is no signature of sha256:").await;
    put(&digest, 1, b"not a signature");
    refused(&mut source, "not an OpenPGP signature").await;
    put(&digest, 1, &gpg.sign("stranger", &data_support::claims(&digest)));
    refused(&mut source, "not signed by a trusted key").await;
    let other = format!("sha256:{}", "0".repeat(64));
    put(&digest, 1, &gpg.sign("trusted", &data_support::claims(&other)));
    refused(&mut source, "it is for another image").await;
    put(&digest, 1, &gpg.sign("trusted", b"{\"critical\":{}}"));
    refused(&mut source, "not a container signature").await;
    let mut good = gpg.sign("trusted", &data_support::claims(&digest));
    put(&digest, 2, &good);
    assert_eq!(load(&mut source).await, versions(&["1.0.0"]));
    assert_eq!(load(&mut source).await, Ok(None));

    // A new image that nobody signed: refused, each time, and the revision is that of the old one.
    write_data(&data, "1.0.1");
    layout(&image, "latest", &data, "");
    let newer = layout_digest(&image);
    refused(&mut source, "there is no signature").await;
    refused(&mut source, "there is no signature").await;
    assert_eq!(source.revision(), Some(digest.as_str()));
    // The old one's signature does not do.
    put(&newer, 1, &good);
    refused(&mut source, "it is for another image").await;
    let at = good.len() / 2;
    good[at] ^= 1;
    put(&newer, 1, &good);
    assert!(load(&mut source).await.is_err());
    put(&newer, 1, &gpg.sign("trusted", &data_support::claims(&newer)));
    assert_eq!(load(&mut source).await, versions(&["1.0.1"]));

    // The same store behind a URL.
    settings.graph_data_signatures = Some(web(&store));
    assert_eq!(load(&mut open(&settings)).await, versions(&["1.0.1"]));
    fs::remove_dir_all(&store).unwrap();
    refused(&mut open(&settings), "there is no signature").await;
}

fn skopeo(gpg: &Gpg, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("skopeo").args(arguments).env("GNUPGHOME", gpg.home()).output().unwrap();
    assert!(output.status.success(), "skopeo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[tokio::test]
async fn an_image_in_a_real_registry_that_skopeo_signed_is_accepted() {
    let scratch = Scratch::new();
    let gpg = Gpg::new();
    let (data, image, store) = (scratch.path("data"), scratch.path("image"), scratch.path("store"));
    gpg.key("publisher", "ed25519", "never");
    fs::write(scratch.path("key.asc"), gpg.export("publisher")).unwrap();
    write_data(&data, "1.0.0");
    layout(&image, "latest", &data, "");
    let registry = testkit::registry::Registry::start();
    let reference = format!("{}/graph-data:latest", registry.host());
    let (from, to) = (format!("oci:{}:latest", image.display()), format!("docker://{reference}"));
    skopeo(&gpg, &["copy", "--quiet", "--insecure-policy", "--dest-tls-verify=false", &from, &to]);

    let mut settings = settings(&scratch, format!("image:http://{reference}"));
    settings.graph_data_keys = vec![scratch.path("key.asc")];
    settings.graph_data_signatures = Some(store.display().to_string());
    let mut source = open(&settings);
    assert!(load(&mut source).await.unwrap_err().contains("there is no signature"));

    let manifest = scratch.path("manifest.json");
    fs::write(&manifest, skopeo(&gpg, &["inspect", "--raw", "--tls-verify=false", &to])).unwrap();
    let manifest = manifest.display().to_string();
    let digest = String::from_utf8(skopeo(&gpg, &["manifest-digest", &manifest])).unwrap();
    let place = store.join(digest.trim().replace(':', "="));
    fs::create_dir_all(&place).unwrap();
    let signature = place.join("signature-1").display().to_string();
    let fingerprint = gpg.fingerprint("publisher");
    skopeo(&gpg, &["standalone-sign", &manifest, &reference, &fingerprint, "--output", &signature]);
    assert_eq!(load(&mut source).await, versions(&["1.0.0"]));
    assert_eq!(source.revision(), Some(digest.trim()));
    assert_eq!(load(&mut source).await, Ok(None));
}
