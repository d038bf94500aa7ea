//! Images that are up to no good, or broken: refused with a reason, while the rest goes on.

use std::io::{Read, Write};

use crate::support::World;
use tar::EntryType;
use testkit::image::{Form, Image, Layer, Layout, METADATA, Packing, header, release_metadata};
use testkit::registry::Scratch;

fn image(layers: Vec<Layer>) -> Image {
    Image { form: Form::Oci, arch: "amd64".into(), labels: vec![], layers }
}

/// An archive of entries whose headers are written as given.
fn archive(entries: &[(tar::Header, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(vec![]);
    for (header, content) in entries {
        archive.append(header, *content).unwrap();
    }
    archive.into_inner().unwrap()
}

/// Two GiB of nothing in an entry, packed as it is written: neither side ever holds it.
fn huge(path: &str, kind: EntryType, packing: Packing) -> Layer {
    const SIZE: u64 = 2 << 30;
    let head = header(path, SIZE, kind);
    let mut content = head.as_bytes().chain(std::io::repeat(0).take(SIZE + 1024));
    let packed = match packing {
        Packing::Zstd => zstd::encode_all(content, 1).unwrap(),
        _ => {
            let mut writer = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
            std::io::copy(&mut content, &mut writer).unwrap();
            writer.finish().unwrap()
        }
    };
    Layer::of_packed(packed, packing)
}

/// One bad image beside a good one: what is noted about it.
async fn refused(name: &str, bad: Image, limits: impl Fn(&mut graph::settings::Limits)) -> String {
    let scratch = Scratch::new("hostile");
    let mut layout = Layout::create(&scratch.join("layout"));
    let good = layout.image(&Image::release("1.0.0", &[], "amd64", Form::Oci, Packing::Gzip));
    layout.tag(&good, "good");
    layout.tag(&layout.image(&bad), "bad");
    let mut world = World::of(format!("oci:{}", layout.path.display()));
    limits(&mut world.settings.limits);
    for restart in [false, true] {
        if restart {
            world.restart();
        }
        world.scrape().await.unwrap();
        assert_eq!(world.names(), ["1.0.0+amd64"], "{name}");
    }
    let notes = world.notes();
    let [("bad-release", text)] = &notes[..] else { panic!("{name}: {notes:?}") };
    assert!(text.contains("bad"), "{text}");
    text.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn bombs_are_refused() {
    let small = |limits: &mut graph::settings::Limits| limits.layer_bytes = 16 << 20;
    for packing in [Packing::Gzip, Packing::Zstd] {
        let bomb = huge("zeros", EntryType::Regular, packing);
        let text = refused("a file of zeros", image(vec![bomb]), small).await;
        assert!(text.contains("unpacks to more than 16777216 bytes"), "{text}");
    }
    // Bytes that are no archive, and do not end.
    let mut writer = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    (0..64).for_each(|_| writer.write_all(&vec![1; 1 << 20]).unwrap());
    let text =
        refused("no archive", image(vec![Layer::of_packed(writer.finish().unwrap(), Packing::Gzip)]), small);
    let text = text.await;
    assert!(text.contains("cannot be unpacked"), "{text}");

    // Headers are held in memory, so they have a limit of their own.
    for kind in [EntryType::GNULongName, EntryType::XHeader] {
        let text = refused("a long header", image(vec![huge("x", kind, Packing::Gzip)]), |_| {}).await;
        assert!(text.contains("headers of an entry"), "{text}");
    }
    // A manifest that promises too much is not even followed.
    let layer = Layer::of_archive(&vec![0; 32 << 20], Packing::Plain);
    let text = refused("a large layer", image(vec![layer]), small).await;
    assert!(text.contains("more than 16777216 bytes"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_of_very_many_entries_is_refused() {
    let one = header("a", 0, EntryType::Regular);
    let mut writer = zstd::Encoder::new(vec![], 1).unwrap();
    (0..1_000_001).for_each(|_| writer.write_all(one.as_bytes()).unwrap());
    writer.write_all(&[0; 1024]).unwrap();
    let layer = Layer::of_packed(writer.finish().unwrap(), Packing::Zstd);
    let text = refused("many entries", image(vec![layer]), |_| {}).await;
    assert!(text.contains("more than 1000000 entries"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_metadata_file_of_two_gibibytes_is_refused() {
    let text = refused("large", image(vec![huge(METADATA, EntryType::Regular, Packing::Gzip)]), |_| {}).await;
    assert!(text.contains("is 2147483648 bytes long"), "{text}");

    // The same, as a sparse file that takes no room in the archive.
    let mut sparse = tar::Header::new_gnu();
    sparse.set_path(METADATA).unwrap();
    sparse.set_size(512);
    sparse.set_mode(0o644);
    sparse.set_entry_type(EntryType::GNUSparse);
    let gnu = sparse.as_gnu_mut().unwrap();
    gnu.realsize.copy_from_slice(b"20000000000\0");
    gnu.sparse[0].offset.copy_from_slice(b"17777777000\0");
    gnu.sparse[0].numbytes.copy_from_slice(b"00000001000\0");
    sparse.set_cksum();
    let layer = Layer::of_archive(&archive(&[(sparse, &[b' '; 512])]), Packing::Gzip);
    let text = refused("sparse", image(vec![layer]), |_| {}).await;
    assert!(text.contains("is not a regular file"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_that_climb_out_are_refused() {
    let metadata = release_metadata("2.0.0", &[]);
    for path in
        ["../escape", "a/../../escape", "/escape", "release-manifests/../release-manifests/release-metadata"]
    {
        let climbing = (header(path, 0, EntryType::Regular), &b""[..]);
        let fine = (header(METADATA, metadata.len() as u64, EntryType::Regular), &metadata[..]);
        let layer = Layer::of_archive(&archive(&[fine, climbing]), Packing::Gzip);
        let text = refused(path, image(vec![layer]), |_| {}).await;
        assert!(text.contains("leads out of the image"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_a_file_is_not_read_in_its_place() {
    for kind in [EntryType::Symlink, EntryType::Link, EntryType::Fifo, EntryType::Char, EntryType::Directory]
    {
        let mut entry = header(METADATA, 0, kind);
        entry.set_link_name("/etc/passwd").unwrap();
        entry.set_cksum();
        let below = Layer::of(&[(METADATA, &release_metadata("2.0.0", &[]))], Packing::Gzip);
        let above = Layer::of_archive(&archive(&[(entry, b"")]), Packing::Gzip);
        let text = refused("a link", image(vec![below, above]), |_| {}).await;
        assert!(text.contains("is not a regular file"), "{kind:?}: {text}");
    }
    // Nor in the place of its directory.
    let mut entry = header("release-manifests", 0, EntryType::Symlink);
    entry.set_link_name("/etc").unwrap();
    entry.set_cksum();
    let layer = Layer::of_archive(&archive(&[(entry, b"")]), Packing::Plain);
    let text = refused("a link", image(vec![layer]), |_| {}).await;
    assert!(text.contains("is not a regular file"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_archives_and_metadata_are_refused_with_a_reason() {
    let whole = Layer::of(&[(METADATA, &release_metadata("2.0.0", &[]))], Packing::Gzip);
    let broken = Layer::of_packed(vec![0x1f, 0x8b, 9, 9], Packing::Gzip);
    let text = refused("no gzip", image(vec![whole, broken]), |_| {}).await;
    assert!(text.contains("cannot be unpacked"), "{text}");
    let long = format!(r#"{{"kind":"cincinnati-metadata-v0","version":"2.0.0","x":"{}"}}"#, "x".repeat(4096));
    for (content, why) in [
        ("{", "cannot be read"),
        (r#"{"kind":"cincinnati-metadata-v0","version":"two"}"#, "cannot be read"),
        (r#"{"kind":"cincinnati-metadata-v9","version":"2.0.0"}"#, "cannot be read"),
        (long.as_str(), "up to 1024 are read"),
    ] {
        let layer = Layer::of(&[(METADATA, content.as_bytes())], Packing::Gzip);
        let text = refused(content, image(vec![layer]), |limits| limits.metadata_bytes = 1024).await;
        assert!(text.contains(why), "{text}");
    }
    let mut odd = Image::release("2.0.0", &[], "AMD 64", Form::Oci, Packing::Gzip);
    odd.arch = "AMD 64".into();
    let text = refused("an architecture", odd, |_| {}).await;
    assert!(text.contains("is not an architecture"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_by_a_limit_ends_with_the_limit() {
    let scratch = Scratch::new("hostile");
    let mut layout = Layout::create(&scratch.join("layout"));
    layout.tag(&layout.image(&Image::release("1.0.0", &[], "amd64", Form::Oci, Packing::Gzip)), "a");
    let mut world = World::of(format!("oci:{}", layout.path.display()));
    world.settings.limits.metadata_bytes = 10;
    world.scrape().await.unwrap();
    assert_eq!((world.names().len(), world.notes().len()), (0, 1));
    world.restart();
    world.settings.limits.metadata_bytes = 1000;
    world.scrape().await.unwrap();
    assert_eq!((world.names().len(), world.notes().len()), (1, 0));
}
