//! Who signed what, and what it says of itself.

use std::fs;

use agent::quarantine::{Refusal, Sources, Trust};
use agent::settings::Settings;
use logic::agent::By;
use semver::Version;
use tar::EntryType;
use testkit::flaky_proxy::{Fault, FlakyProxy};
use testkit::image::{Form, Image, Layer, Layout, Packing, header, release_metadata};
use testkit::registry::Registry;
use testkit::releases::{ATOMIC, COSIGN, CosignKey, Release, claims};

use crate::quarantine::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_all_keyrings_signed_is_unpacked_and_says_what_it_is() {
    let mut stage = Stage::new();
    let image = stage.publish(&Stage::two());
    let reference = stage.releases.reference("2.0.0");
    let checked = stage.take(&reference).await.unwrap();
    assert_eq!(checked.digest, image.digest);
    assert_eq!(checked.metadata.version, Version::new(2, 0, 0));
    assert_eq!(checked.signed_by.len(), 2);
    assert_eq!(checked.signed_by[0], stage.gpg.fingerprint("vendor"));
    assert!(checked.signed_by[1].starts_with("sha256:"));
    assert_eq!(fs::read(checked.tree.join("bin/tool")).unwrap(), b"#!/bin/sh\n");
    // Whoever unpacks it again needs the quarantine only.
    let again = oci::ImageReference::parse(&checked.reference).unwrap();
    let again = again.open(&oci::Access::default(), &oci::Limits::default()).await.unwrap();
    assert_eq!(again.digest().await.unwrap().as_str(), image.digest);
    // So does whoever judges it again: the stick is gone.
    fs::rename(stage.scratch.join("published"), stage.scratch.join("away")).unwrap();
    assert_eq!(stage.take(&reference).await.unwrap().signed_by, checked.signed_by);
    stage.quarantine.clear().await.unwrap();
    stage.quarantine.clear().await.unwrap();
    assert!(stage.fetch(&reference).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_image_for_several_platforms_list_or_image_may_be_signed() {
    let mut stage = Stage::new();
    let mut elsewhere = Stage::two();
    elsewhere.arch = "s390x".to_owned();
    let list = stage.releases.add_list("2.0.0", &[elsewhere, Stage::two()]);
    // The vendor signs the image, the site the list.
    let own = stage.releases.layout.image(&Stage::two().image());
    stage.releases.sign_openpgp(&own.digest, &stage.gpg, "vendor");
    stage.releases.sign_cosign(&list.digest, &stage.site);
    let reference = stage.releases.reference("2.0.0");
    assert_eq!(stage.take(&reference).await.unwrap().digest, list.digest);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_nobody_signed_is_not_even_fetched() {
    let mut stage = Stage::new();
    stage.releases.add(&Stage::two());
    let registry = Registry::start();
    stage.releases.push(&registry, "releases");
    let proxy = FlakyProxy::start(registry.address);
    let image = format!("http://{}/releases@{}", proxy.address, stage.releases.get("2.0.0").digest);
    let refusal = stage.refused(&image, "there is no signature of it").await;
    assert!(matches!(refusal, Refusal::Unsigned { .. }));
    assert!(!proxy.take_log().iter().any(|asked| asked.path.contains("/blobs/")));
    // Unless signatures are not asked for.
    stage.trust.unsigned = true;
    assert_eq!(stage.take(&image).await.unwrap().signed_by, Vec::<String>::new());
    // No key at all is nobody to trust, and not everybody.
    stage.quarantine.clear().await.unwrap();
    stage.trust = Trust::default();
    stage.refused(&image, "no key is trusted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_do_not_count() {
    let mut stage = Stage::new();
    let image = stage.releases.add(&Stage::two());
    stage.gpg.key("stranger", "ed25519", "never");
    stage.releases.sign_openpgp(&image.digest, &stage.gpg, "stranger");
    stage.releases.sign_cosign(&image.digest, &CosignKey::new(&stage.scratch.0, "p256"));
    stage.releases.file_openpgp(&image.digest, b"nonsense");
    let reference = stage.releases.reference("2.0.0");
    stage.refused(&reference, "not signed by a trusted key").await;
    // One of both is not enough, whichever it is; and the one that is missing is named.
    stage.releases.sign_openpgp(&image.digest, &stage.gpg, "vendor");
    let refusal = stage.refused(&reference, "key-").await.to_string();
    assert!(refusal.contains(&format!("signed by {}", stage.gpg.fingerprint("vendor"))), "{refusal}");
    stage.releases.sign_cosign(&image.digest, &stage.site);
    assert!(stage.take(&reference).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_for_another_digest_does_not_count() {
    let mut stage = Stage::new();
    let signed = stage.publish(&Release::new("1.5.0", &["1.0.0"])).digest;
    let image = stage.releases.add(&Stage::two());
    // The right documents by the right people, filed under the wrong image.
    let message = stage.gpg.sign("vendor", &claims(&signed, ATOMIC));
    stage.releases.file_openpgp(&image.digest, &message);
    let payload = claims(&signed, COSIGN);
    let signature = stage.site.sign(&payload);
    stage.releases.file_cosign(&image.digest, &payload, &signature);
    let reference = stage.releases.reference("2.0.0");
    stage.refused(&reference, &format!("it is for another image: {signed}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_judged_is_judged_again_with_the_bytes_that_are_there() {
    let mut stage = Stage::new();
    let image = stage.publish(&Stage::two());
    let reference = stage.releases.reference("2.0.0");
    let layout = stage.scratch.join("state/quarantine/image");
    let manifest = fs::read_to_string(stage.releases.layout.blob_path(&image.digest)).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let layer = manifest["layers"][0]["digest"].as_str().unwrap().replace(':', "/");
    for spoilt in [layer, image.digest.replace(':', "/")] {
        stage.fetch(&reference).await.unwrap();
        let path = layout.join("blobs").join(spoilt);
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
        let refusal = stage.check(&reference).await.unwrap_err();
        assert!(matches!(refusal, Refusal::NotWhole { .. }), "{refusal:?}");
        assert!(!refusal.is_passing() && !stage.tree().exists());
        stage.quarantine.clear().await.unwrap();
    }
    // Signatures that were lost, or that another keyring asks for.
    stage.fetch(&reference).await.unwrap();
    fs::remove_dir_all(layout.join("signatures")).unwrap();
    let refusal = stage.check(&reference).await.unwrap_err();
    assert!(matches!(refusal, Refusal::Unsigned { .. }) && !stage.tree().exists(), "{refusal:?}");
    let only_site = Trust { keys: vec![stage.site.public_file().to_owned()], ..Trust::default() };
    let target = stage.target(&reference);
    assert!(stage.quarantine.check(&target, &Version::new(1, 0, 0), &only_site).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_must_be_the_one_that_was_asked_for_and_must_know_the_running_one() {
    let mut stage = Stage::new();
    let other = stage.publish(&Release::new("2.1.0", &["1.0.0"])).digest;
    let unknown = stage.publish(&Release::new("2.0.0", &["1.5.0"])).digest;
    let nonsense = stage.publish(&Stage::two().metadata(b"{}")).digest;
    let long = stage.publish(&Stage::two().metadata(&vec![b' '; 2 << 20])).digest;
    let path = stage.releases.layout.path.display().to_string();
    for (digest, why) in [
        (other, "it says that it is release 2.1.0, and 2.0.0 was asked for"),
        (unknown, "does not list the running 1.0.0 under `previous`: it lists 1.5.0"),
        (nonsense, "release-metadata makes no sense"),
        (long, "longer than 1048576 bytes"),
    ] {
        stage.refused(&format!("oci:{path}@{digest}"), why).await;
    }
}

fn layer(path: &str, kind: EntryType, target: &str) -> Layer {
    let mut archive = tar::Builder::new(vec![]);
    let mut head = header(path, 0, kind);
    head.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
    head.set_cksum();
    archive.append(&head, &b""[..]).unwrap();
    Layer::of_archive(&archive.into_inner().unwrap(), Packing::Gzip)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_cannot_have_the_machines_own_files_read_or_written() {
    let mut stage = Stage::new();
    // Metadata that would do, outside.
    let outside = stage.scratch.join("o");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("release-metadata"), release_metadata("2.0.0", &["1.0.0"])).unwrap();
    let (outside, file) = (outside.to_str().unwrap(), format!("{}/release-metadata", outside.display()));
    for (layers, why) in [
        (vec![layer("release-manifests", EntryType::Symlink, outside)], "through a link"),
        (vec![layer("release-manifests/release-metadata", EntryType::Symlink, &file)], "through a link"),
        (vec![layer("release-manifests/release-metadata", EntryType::Link, &file)], "leads out of the image"),
        (vec![layer("release-manifests/release-metadata", EntryType::Fifo, "")], "is a device"),
        (vec![layer("release-manifests/release-metadata", EntryType::Directory, "")], "no plain file"),
        (vec![Layer::of(&[("../../../escape", b"x")], Packing::Gzip)], "leads out of the image"),
        (vec![Layer::of(&[("/escape", b"x")], Packing::Gzip)], "leads out of the image"),
        (
            vec![Layer::of(&[("other", b"x")], Packing::Gzip)],
            "there is no release-manifests/release-metadata",
        ),
    ] {
        let arch = Stage::two().arch;
        let image = stage.releases.layout.image(&Image { form: Form::Oci, arch, labels: vec![], layers });
        stage.sign(&image.digest);
        let path = stage.releases.layout.path.display().to_string();
        stage.refused(&format!("oci:{path}@{}", image.digest), why).await;
    }
    assert!(!stage.scratch.join("escape").exists() && !stage.scratch.join("state/escape").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_carried_in_names_itself_and_must_be_newer() {
    let mut stage = Stage::new();
    let image = stage.publish(&Stage::two());
    let path = stage.scratch.join("published").display().to_string();
    for name in [format!("oci:{path}"), format!("oci:{path}:2.0.0"), stage.releases.reference("2.0.0")] {
        let (digest, version) = stage.quarantine.identify(&name, &stage.sources).await.unwrap();
        assert_eq!((digest.as_str(), version), (image.digest.as_str(), Version::new(2, 0, 0)));
    }
    let reference = stage.releases.reference("2.0.0");
    stage.fetch(&reference).await.unwrap();
    let mut target = stage.target(&reference);
    target.by = By::Offline;
    assert!(stage.quarantine.check(&target, &Version::new(1, 0, 0), &stage.trust).await.is_ok());
    let refusal = stage.quarantine.check(&target, &Version::new(2, 0, 0), &stage.trust).await.unwrap_err();
    assert!(oci::chain(&refusal).contains("not newer than the running 2.0.0"), "{refusal:?}");

    // Of two, one must be named; a tag of a registry is no name; and not every image is a release.
    stage
        .releases
        .layout
        .tag(&stage.releases.layout.image(&Stage::two().file("x", 0o644, b"").image()), "other");
    for (name, why) in [
        (format!("oci:{path}"), "holds 2 images"),
        (format!("oci:{path}:3.0.0"), "holds no image"),
        ("registry.example/releases:2.0.0".to_owned(), "named by a tag"),
        ("nonsense".to_owned(), "cannot be named so"),
    ] {
        let refusal = stage.quarantine.identify(&name, &stage.sources).await.unwrap_err();
        assert!(oci::chain(&refusal).contains(why), "{}", oci::chain(&refusal));
    }
    let refusal = stage.fetch("registry.example/releases:2.0.0").await.unwrap_err();
    assert!(matches!(refusal, Refusal::ByTag { .. }) && !refusal.is_passing());
    let mut plain = Layout::create(&stage.scratch.join("plain"));
    plain.tag(
        &plain.image(&Image {
            form: Form::Oci,
            arch: Stage::two().arch,
            labels: vec![],
            layers: vec![Layer::of(&[("x", b"")], Packing::Gzip)],
        }),
        "",
    );
    let name = format!("oci:{}", plain.path.display());
    let refusal = stage.quarantine.identify(&name, &stage.sources).await.unwrap_err();
    assert!(matches!(refusal, Refusal::NoRelease { .. }), "{refusal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_store_is_asked_when_it_is_needed_and_waited_for_when_it_is_away() {
    let mut stage = Stage::new();
    let image = stage.releases.add(&Stage::two());
    stage.releases.sign_cosign(&image.digest, &stage.site);
    let signature = stage.gpg.sign("vendor", &claims(&image.digest, ATOMIC));
    let away = FlakyProxy::alone(|_| Fault::status(500));
    let name = format!("/sigs/{}/signature-1", image.digest.replace(':', "="));
    let there = FlakyProxy::alone(move |asked| {
        if asked.path == name { Fault::Answer(200, vec![], signature.clone()) } else { Fault::None }
    });
    let place = |proxy: &FlakyProxy| format!("http://{}/sigs", proxy.address);
    let mut settings = Settings { signatures: vec![place(&away)], ..Settings::default() };
    stage.sources = Sources::of(&settings, None).unwrap();
    let reference = stage.releases.reference("2.0.0");
    let refusal = stage.take(&reference).await.unwrap_err();
    assert!(matches!(refusal, Refusal::SignaturesAway { .. }) && refusal.is_passing(), "{refusal:?}");
    assert!(refusal.to_string().contains("answered 500"), "{refusal}");
    // Another one has it; it was kept, and nobody is asked again.
    settings.signatures.push(place(&there));
    stage.sources = Sources::of(&settings, None).unwrap();
    assert!(stage.take(&reference).await.is_ok());
    away.take_log();
    there.take_log();
    assert!(stage.take(&reference).await.is_ok());
    assert_eq!((away.take_log(), there.take_log()), (vec![], vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn keyrings_are_files_or_directories_and_a_mistake_in_them_is_told() {
    let mut stage = Stage::new();
    let image = stage.publish(&Stage::two());
    let reference = stage.releases.reference("2.0.0");
    let directory = stage.scratch.join("keys.d");
    fs::create_dir_all(&directory).unwrap();
    stage.trust.keys = vec![directory.clone()];
    stage.refused(&reference, "there is no key in").await;
    fs::write(directory.join("other.pub"), CosignKey::new(&stage.scratch.0, "ed25519").public()).unwrap();
    fs::write(directory.join(".hidden"), "nothing").unwrap();
    stage.refused(&reference, "not signed by a trusted key").await;
    fs::write(directory.join("vendor.gpg"), stage.gpg.run(&["--export", "vendor"], b"")).unwrap();
    let checked = stage.take(&reference).await.unwrap();
    assert_eq!(checked.signed_by, [stage.gpg.fingerprint("vendor")]);
    assert_eq!(checked.digest, image.digest);
    fs::write(directory.join("README"), "keys").unwrap();
    stage.refused(&reference, "README holds no keys").await;
    stage.trust.keys = vec![stage.scratch.join("missing")];
    stage.refused(&reference, "missing").await;
}
