//! Trees of files taken out of images.

use std::fs;

use oci::{Access, Extent, ImageError, ImageReference, Limits};
use testkit::image::{Form, Image, Layer, Layout, Packing, header};
use testkit::registry::{Registry, Scratch};

fn tree() -> Image {
    let link = |path: &str| {
        let mut link = header(path, 0, tar::EntryType::Symlink);
        link.set_link_name("/etc").unwrap();
        link.set_cksum();
        link
    };
    let mut archive = tar::Builder::new(vec![]);
    archive.append(&header("channels", 0, tar::EntryType::Directory), &b""[..]).unwrap();
    archive.append(&link("link"), &b""[..]).unwrap();
    let links = archive.into_inner().unwrap();
    let layers = vec![
        Layer::of(
            &[("version", b"1.0.0"), ("channels/a.yaml", b"a"), ("channels/b.yaml", b"b")],
            Packing::Gzip,
        ),
        Layer::of_archive(&links, Packing::Plain),
        Layer::of(
            &[("version", b"1.1.0"), ("channels/.wh.b.yaml", b""), ("link/inside", b"x")],
            Packing::Zstd,
        ),
    ];
    Image { form: Form::Oci, arch: "amd64".into(), labels: vec![], layers }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_is_taken_out_of_an_image_by_any_reference() {
    let (registry, scratch) = (Registry::start(), Scratch::new("tree"));
    let mut layout = Layout::create(&scratch.join("layout"));
    let image = layout.image(&tree());
    let list = layout.list(std::slice::from_ref(&image), Form::Oci);
    layout.tag(&list, "latest");
    registry.put(&layout, &list, "data", "latest");
    let host = registry.host();
    for reference in [
        format!("http://{host}/data:latest"),
        format!("http://{host}/data@{}", list.digest),
        format!("oci:{}:latest", layout.path.display()),
    ] {
        let into = scratch.join("into");
        let _ = fs::remove_dir_all(&into);
        fs::create_dir(&into).unwrap();
        let limits = Limits::default();
        let source =
            ImageReference::parse(&reference).unwrap().open(&Access::default(), &limits).await.unwrap();
        let digest = source.digest().await.unwrap();
        assert_eq!(digest.as_str(), list.digest);
        let image = source.image(&digest).await.unwrap();
        assert_eq!(image.layers.len(), 3);
        image.unpack(&into, Extent::PlainFiles, &limits).await.unwrap();
        assert_eq!(fs::read_to_string(into.join("version")).unwrap(), "1.1.0");
        assert_eq!(fs::read_to_string(into.join("channels/a.yaml")).unwrap(), "a");
        assert!(!into.join("channels/b.yaml").exists());
        assert!(into.join("link").symlink_metadata().unwrap().is_dir(), "a link is never made");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_has_limits() {
    let scratch = Scratch::new("tree");
    let mut layout = Layout::create(&scratch.join("layout"));
    layout.tag(&layout.image(&tree()), "latest");
    let climbing = Layer::of(&[("../escape", b"x")], Packing::Gzip);
    let climbing = Image { layers: vec![climbing], ..tree() };
    layout.tag(&layout.image(&climbing), "climbing");
    type Tighten = fn(&mut Limits);
    let cases: [(&str, Tighten, &str); 3] = [
        ("latest", |limits| limits.tree_entries = 3, "more than"),
        ("latest", |limits| limits.tree_bytes = 6, "bytes long"),
        ("climbing", |_| {}, "leads out"),
    ];
    for (tag, limit, why) in cases {
        let mut limits = Limits::default();
        limit(&mut limits);
        let reference = ImageReference::parse(&format!("oci:{}:{tag}", layout.path.display())).unwrap();
        let source = reference.open(&Access::default(), &limits).await.unwrap();
        let image = source.image(&source.digest().await.unwrap()).await.unwrap();
        let into = scratch.join("into");
        fs::create_dir_all(&into).unwrap();
        let error = image.unpack(&into, Extent::PlainFiles, &limits).await.unwrap_err();
        assert!(matches!(error, ImageError::Layer { .. }));
        let text = oci::chain(&error);
        assert!(text.contains(why), "{text}");
        assert!(!scratch.join("escape").exists());
    }
}

#[test]
fn references_are_read_or_say_what_is_missing() {
    for (text, name) in [
        ("registry.example/a/b:1.0", "registry.example/a/b"),
        ("http://127.0.0.1:5000/a:latest", "127.0.0.1:5000/a"),
        ("oci:/srv/x:latest", "/srv/x"),
        ("oci:/srv/x", "/srv/x"),
        ("oci:/srv/a@b:latest", "/srv/a@b"),
        ("oci:/srv/a:b/x", "/srv/a:b/x"),
        (&format!("oci:/srv/x@sha256:{}", "0a".repeat(32)), "/srv/x"),
    ] {
        assert_eq!(ImageReference::parse(text).unwrap().name(), name);
    }
    for text in [
        "registry.example/a",
        "a",
        "registry.example/a@sha256:x",
        "oci:",
        "oci::tag",
        "oci:dir:",
        "oci:dir@sha256:x",
        &format!("oci:@sha256:{}", "0a".repeat(32)),
        "127.0.0.1:5000/a",
    ] {
        assert!(ImageReference::parse(text).is_err(), "{text}");
    }
}
