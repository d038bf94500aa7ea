//! A whole root tree out of an image: what is in it, and that nothing gets out of it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use oci::layers::LayerError;
use oci::manifest::Platform;
use oci::{Access, Extent, FetchError, ImageError, ImageReference, Limits, chain};
use tar::EntryType;
use testkit::flaky_proxy::{Fault, FlakyProxy};
use testkit::image::{Form, Image, Layer, Layout, Packing, header};
use testkit::registry::{Registry, Scratch};

enum Is<'a> {
    Dir(u32),
    File(u32, &'a [u8]),
    Symlink(&'a str),
    Link(&'a str),
    Kind(EntryType),
}

use Is::{Dir, File, Kind, Link, Symlink};

fn layer(entries: &[(&str, Is<'_>)]) -> Layer {
    let mut archive = tar::Builder::new(vec![]);
    for (path, is) in entries {
        let (kind, mode, target, content) = match is {
            Dir(mode) => (EntryType::Directory, *mode, "", &b""[..]),
            File(mode, content) => (EntryType::Regular, *mode, "", *content),
            Symlink(target) => (EntryType::Symlink, 0o777, *target, &b""[..]),
            Link(target) => (EntryType::Link, 0o644, *target, &b""[..]),
            Kind(kind) => (*kind, 0o644, "", &b""[..]),
        };
        let mut head = header(path, content.len() as u64, kind);
        head.set_mode(mode);
        head.set_uid(1234);
        head.set_gid(4321);
        head.set_mtime(1_000_000_000);
        head.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
        head.set_cksum();
        archive.append(&head, content).unwrap();
    }
    Layer::of_archive(&archive.into_inner().unwrap(), Packing::Gzip)
}

fn image(arch: &str, layers: Vec<Layer>) -> Image {
    Image { form: Form::Oci, arch: arch.to_owned(), labels: vec![], layers }
}

struct Stage {
    scratch: Scratch,
    layout: Layout,
}

impl Stage {
    fn new() -> Self {
        let scratch = Scratch::new("whole");
        let layout = Layout::create(&scratch.join("layout"));
        Self { scratch, layout }
    }

    fn target(&self) -> PathBuf {
        self.scratch.join("into")
    }

    async fn unpack(
        &mut self,
        layers: Vec<Layer>,
        extent: Extent,
        limits: &Limits,
    ) -> Result<(), ImageError> {
        let image = self.layout.image(&image("amd64", layers));
        let tag = format!("t{}", image.digest.split_once(':').unwrap().1);
        self.layout.tag(&image, &tag);
        fetch(&format!("oci:{}:{tag}", self.layout.path.display()), &self.target(), extent, limits).await
    }

    async fn whole(&mut self, layers: Vec<Layer>) -> Result<(), ImageError> {
        self.unpack(layers, Extent::Whole, &Limits::default()).await
    }
}

async fn fetch(reference: &str, into: &Path, extent: Extent, limits: &Limits) -> Result<(), ImageError> {
    let source = ImageReference::parse(reference).unwrap().open(&Access::default(), limits).await.unwrap();
    let image = source.image_for(&source.digest().await?, &Platform::here()).await?;
    image.unpack(into, extent, limits).await
}

/// Paths below a directory, sorted.
fn listed(root: &Path) -> Vec<String> {
    let (mut found, mut left) = (vec![], vec![root.to_owned()]);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.symlink_metadata().unwrap().is_dir() {
                left.push(path.clone());
            }
            found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
        }
    }
    found.sort();
    found
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o7777
}

fn sample() -> Vec<Layer> {
    vec![
        layer(&[
            ("usr", Dir(0o755)),
            ("usr/bin", Dir(0o555)),
            ("usr/bin/tool", File(0o755, b"one")),
            ("usr/bin/su", File(0o4755, b"su")),
            ("usr/bin/same", Link("usr/bin/tool")),
            ("bin", Symlink("usr/bin")),
            ("tmp", Dir(0o1777)),
            ("etc/a", File(0o600, b"a")),
            ("etc/b", File(0o644, b"b")),
            ("var/cache/old", File(0o644, b"old")),
            ("var/cache/sub/old", File(0o644, b"old")),
            ("kind", File(0o644, b"a file")),
        ]),
        layer(&[
            ("etc/.wh.b", File(0o644, b"")),
            ("bin/late", File(0o700, b"through the link")),
            ("usr/lib/tool", Link("usr/bin/tool")),
            ("usr/bin/tool", File(0o711, b"two")),
            ("var/cache/new", File(0o644, b"new")),
            ("var/cache/sub/new", File(0o644, b"new")),
            // After what it must not remove, as no writer of layers should.
            ("var/cache/.wh..wh..opq", File(0o644, b"")),
            ("kind/is/now", File(0o644, b"a directory")),
            ("void", Symlink("/no/such/file")),
        ]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_tree_has_modes_links_and_removals() {
    let mut stage = Stage::new();
    let into = stage.target();
    stage.whole(sample()).await.unwrap();
    let expected = [
        "bin",
        "etc",
        "etc/a",
        "kind",
        "kind/is",
        "kind/is/now",
        "tmp",
        "usr",
        "usr/bin",
        "usr/bin/late",
        "usr/bin/same",
        "usr/bin/su",
        "usr/bin/tool",
        "usr/lib",
        "usr/lib/tool",
        "var",
        "var/cache",
        "var/cache/new",
        "var/cache/sub",
        "var/cache/sub/new",
        "void",
    ];
    assert_eq!(listed(&into), expected);
    let text = |path: &str| fs::read_to_string(into.join(path)).unwrap();
    assert_eq!(
        (text("usr/bin/tool"), text("usr/bin/same"), text("usr/lib/tool")),
        ("two".into(), "one".into(), "one".into())
    );
    let inode = |path: &str| into.join(path).symlink_metadata().unwrap().ino();
    assert_eq!(inode("usr/bin/same"), inode("usr/lib/tool"));
    assert_eq!(fs::read_link(into.join("bin")).unwrap(), Path::new("usr/bin"));
    assert_eq!(fs::read_link(into.join("void")).unwrap(), Path::new("/no/such/file"));
    let modes = ["usr/bin/tool", "usr/bin/su", "usr/bin/late", "etc/a", "tmp", "usr/bin", "usr/lib"];
    let modes = modes.map(|path| mode(&into.join(path)));
    assert_eq!(modes, [0o711, 0o755, 0o700, 0o600, 0o1777, 0o755, 0o755]);
    let tool = into.join("usr/bin/tool").symlink_metadata().unwrap();
    assert_eq!((tool.mtime(), tool.uid()), (1_000_000_000, fs::metadata("/proc/self").unwrap().uid()));
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_and_setuid_are_kept_when_asked_for() {
    let mut stage = Stage::new();
    let (into, limits) = (stage.target(), Limits::default());
    let unpacked = stage.unpack(sample(), Extent::WithOwners, &limits).await;
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        let text = chain(&unpacked.unwrap_err());
        assert!(text.contains("not permitted"), "{text}");
        return;
    }
    unpacked.unwrap();
    let su = into.join("usr/bin/su").symlink_metadata().unwrap();
    assert_eq!((su.uid(), su.gid(), mode(&into.join("usr/bin/su"))), (1234, 4321, 0o4755));
    assert_eq!(into.join("bin").symlink_metadata().unwrap().uid(), 1234);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_list_the_image_for_this_machine_is_taken() {
    let stage = Stage::new();
    let registry = Registry::start();
    let here = Platform::here().architecture;
    let of =
        |arch: &str| stage.layout.image(&image(arch, vec![layer(&[("arch", File(0o644, arch.as_bytes()))])]));
    let children: Vec<_> = ["s390x", "mips", &here, "riscv32"].map(of).into();
    registry.put(&stage.layout, &stage.layout.list(&children, Form::Oci), "r", "all");
    registry.put(&stage.layout, &stage.layout.list(&children[..2], Form::Oci), "r", "others");
    let (host, limits) = (registry.host(), Limits::default());
    fetch(&format!("http://{host}/r:all"), &stage.target(), Extent::Whole, &limits).await.unwrap();
    assert_eq!(fs::read_to_string(stage.target().join("arch")).unwrap(), here);
    let error =
        fetch(&format!("http://{host}/r:others"), &stage.target(), Extent::Whole, &limits).await.unwrap_err();
    assert!(
        matches!(&error, ImageError::Platform { architecture, .. } if *architecture == here),
        "{error:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn links_of_earlier_layers_are_no_way_out() {
    let mut stage = Stage::new();
    let outside = stage.scratch.join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("victim"), "as it was").unwrap();
    fs::create_dir(outside.join("directory")).unwrap();
    let (there, victim) = (outside.to_str().unwrap(), outside.join("victim"));
    let lower = || {
        layer(&[
            ("absolute", Symlink(there)),
            ("up", Symlink("../../../../../../..")),
            ("file", Symlink(victim.to_str().unwrap())),
            ("proc", Symlink("/proc/self/root")),
        ])
    };
    // Followed inside the tree, or refused because nothing is there.
    stage
        .whole(vec![lower(), layer(&[("up/escape", File(0o644, b"x")), ("file", File(0o666, b"mine"))])])
        .await
        .unwrap();
    assert_eq!(listed(&stage.target()), ["absolute", "escape", "file", "proc", "up"]);
    for bad in [
        layer(&[("absolute/victim", File(0o644, b"x"))]),
        layer(&[("proc/victim", File(0o644, b"x"))]),
        layer(&[("file/below", File(0o644, b"x"))]),
        layer(&[("stolen", Link("absolute/victim"))]),
        layer(&[("stolen", Link("../outside/victim"))]),
        layer(&[("stolen", Link(victim.to_str().unwrap()))]),
        layer(&[("stolen", Link("nothing"))]),
        layer(&[("stolen", Link("stolen"))]),
        layer(&[("stolen", Symlink(""))]),
    ] {
        let error = stage.whole(vec![lower(), bad]).await.unwrap_err();
        assert!(
            matches!(error, ImageError::Layer { source: LayerError::Path(_) | LayerError::Link { .. }, .. }),
            "{error:?}"
        );
    }
    // Removals have nothing to remove there, either.
    stage
        .whole(vec![
            lower(),
            layer(&[
                ("absolute/.wh.victim", File(0o644, b"")),
                ("absolute/.wh..wh..opq", File(0o644, b"")),
                ("absolute", Dir(0o700)),
                ("file", Dir(0o700)),
                ("file/inside", File(0o600, b"x")),
            ]),
        ])
        .await
        .unwrap();
    assert_eq!(listed(&outside), ["directory", "victim"]);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "as it was");
    assert_eq!((mode(&victim) & 0o077, stage.scratch.join("escape").exists()), (0o044, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_climb_and_devices_are_refused() {
    let mut stage = Stage::new();
    for path in ["../escape", "a/../../escape", "/escape", "a/.wh...", "a/.wh.."] {
        let error = stage.whole(vec![layer(&[(path, File(0o644, b"x"))])]).await.unwrap_err();
        let text = chain(&error);
        assert!(text.contains("leads out of the image"), "{path}: {text}");
    }
    for kind in [EntryType::Char, EntryType::Block, EntryType::Fifo] {
        let error = stage.whole(vec![layer(&[("dev/sda", Kind(kind))])]).await.unwrap_err();
        assert!(matches!(error, ImageError::Layer { source: LayerError::Special { .. }, .. }), "{error:?}");
    }
    // As GNU tar writes it with `--sparse --format=posix`: its content is not what a plain reader takes it for.
    let mut archive = tar::Builder::new(vec![]);
    archive.append_pax_extensions([("GNU.sparse.major", &b"1"[..])]).unwrap();
    archive.append(&header("sparse", 3, EntryType::Regular), &b"map"[..]).unwrap();
    let sparse = Layer::of_archive(&archive.into_inner().unwrap(), Packing::Plain);
    let error = stage.whole(vec![sparse]).await.unwrap_err();
    assert!(matches!(error, ImageError::Layer { source: LayerError::Special { .. }, .. }), "{error:?}");
    assert!(!stage.scratch.join("escape").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sparse_file_is_unpacked_with_its_holes_and_within_the_limit() {
    let mut sparse = tar::Header::new_gnu();
    sparse.set_path("sparse").unwrap();
    sparse.set_size(512);
    sparse.set_mode(0o644);
    sparse.set_entry_type(EntryType::GNUSparse);
    let gnu = sparse.as_gnu_mut().unwrap();
    gnu.set_real_size(1 << 20);
    gnu.sparse[0].offset.copy_from_slice(b"00003777000\0");
    gnu.sparse[0].numbytes.copy_from_slice(b"00000001000\0");
    sparse.set_cksum();
    let mut archive = tar::Builder::new(vec![]);
    archive.append(&sparse, &[7; 512][..]).unwrap();
    let layer = || Layer::of_archive(&archive.get_ref().clone(), Packing::Plain);
    let mut stage = Stage::new();
    stage.whole(vec![layer()]).await.unwrap();
    let content = fs::read(stage.target().join("sparse")).unwrap();
    assert_eq!((content.len(), content[0], content[content.len() - 1]), (1 << 20, 0, 7));
    let limits = Limits { tree_bytes: 1 << 19, ..Limits::default() };
    let text = chain(&stage.unpack(vec![layer()], Extent::Whole, &limits).await.unwrap_err());
    assert!(text.contains("is 1048576 bytes long"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_a_limit_on_bytes_entries_and_the_length_of_paths() {
    let mut stage = Stage::new();
    let tree = || vec![layer(&[("a/b/c", File(0o644, b"12345")), ("a/b/d", File(0o644, b"12345"))])];
    let limits = |bytes, entries| Limits { tree_bytes: bytes, tree_entries: entries, ..Limits::default() };
    // Directories that only paths name count, too.
    stage.unpack(tree(), Extent::Whole, &limits(10, 4)).await.unwrap();
    let text = chain(&stage.unpack(tree(), Extent::Whole, &limits(10, 3)).await.unwrap_err());
    assert!(text.contains("more than 3 files"), "{text}");
    let text = chain(&stage.unpack(tree(), Extent::Whole, &limits(9, 4)).await.unwrap_err());
    assert!(text.contains("a/b/d is 5 bytes long"), "{text}");

    let mut archive = tar::Builder::new(vec![]);
    let mut head = tar::Header::new_gnu();
    head.set_size(0);
    archive.append_data(&mut head, "long/".repeat(820), &b""[..]).unwrap();
    let long = Layer::of_archive(&archive.into_inner().unwrap(), Packing::Zstd);
    let text = chain(&stage.whole(vec![long]).await.unwrap_err());
    assert!(text.contains("is too long"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_that_cannot_be_read_makes_no_tree_with_a_hole() {
    let mut stage = Stage::new();
    let layout = &mut stage.layout;
    let whole = layout.image(&image("amd64", vec![layer(&[("a", File(0o644, b"x"))])]));
    let manifest = fs::read_to_string(layout.blob_path(&whole.digest)).unwrap();
    let odd = manifest.replace("image.layer.v1.tar+gzip", "image.layer.v1.other");
    let mut descriptor = whole.clone();
    (descriptor.digest, descriptor.size) = (layout.blob(odd.as_bytes()), odd.len());
    layout.tag(&descriptor, "odd");
    let reference = format!("oci:{}:odd", layout.path.display());
    let error = fetch(&reference, &stage.target(), Extent::Whole, &Limits::default()).await.unwrap_err();
    assert!(matches!(error, ImageError::Layer { source: LayerError::MediaType(_), .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_garbled_on_the_way_leaves_nothing_behind() {
    let stage = Stage::new();
    let registry = Registry::start();
    let proxy = FlakyProxy::start(registry.address);
    let large = vec![7; 1 << 20];
    let layers = vec![layer(&[("a", File(0o644, &large)), ("b", File(0o644, b"b"))])];
    registry.put(&stage.layout, &stage.layout.image(&image("amd64", layers)), "r", "t");
    let reference = format!("http://{}/r:t", proxy.address);
    let limits = Limits { retries: 1, ..Limits::default() };
    for fault in [Fault::Cut, Fault::Garble, Fault::Hangup] {
        let (mut first, failing) = (true, fault.clone());
        proxy.plan(move |asked| match asked.path.contains("/blobs/") && std::mem::take(&mut first) {
            true => failing.clone(),
            false => Fault::None,
        });
        fs::create_dir_all(stage.target().join("left/behind")).unwrap();
        fetch(&reference, &stage.target(), Extent::Whole, &limits).await.unwrap();
        assert_eq!(listed(&stage.target()), ["a", "b"], "{fault:?}");
        assert_eq!(fs::read(stage.target().join("a")).unwrap(), large);
    }
    proxy.plan(|asked| if asked.path.contains("/blobs/") { Fault::Garble } else { Fault::None });
    let error = fetch(&reference, &stage.target(), Extent::Whole, &limits).await.unwrap_err();
    assert!(matches!(error, ImageError::Fetch(FetchError::Mismatch { .. })), "{error:?}");
}
