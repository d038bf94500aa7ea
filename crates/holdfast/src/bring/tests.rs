//! Images from a real registry and from layouts, directories, and everything that can keep them from coming.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;
use std::sync::Arc;

use testkit::flaky_proxy::{Fault, FlakyProxy};
use testkit::image::{Descriptor, Form, Image, Layer, Layout, Packing};
use testkit::registry::{Registry, Scratch};

use super::*;

struct Stage {
    scratch: Scratch,
    layout: Layout,
    access: Access,
    stop: AtomicBool,
}

impl Stage {
    fn new() -> Self {
        let scratch = Scratch::new("bring");
        let layout = Layout::create(&scratch.join("layout"));
        // Without this, those of whoever runs the tests would be used.
        let none = scratch.join("none.json");
        fs::write(&none, "{}").unwrap();
        let access = Access { credentials: Some(none), ..Access::default() };
        Self { scratch, layout, access, stop: AtomicBool::new(false) }
    }

    fn image(&self, files: &[(&str, &[u8])]) -> Descriptor {
        let layers = vec![Layer::of(files, Packing::Gzip)];
        self.layout.image(&Image {
            form: Form::Oci,
            arch: Platform::here().architecture,
            labels: vec![],
            layers,
        })
    }

    fn target(&self) -> PathBuf {
        self.scratch.join("into")
    }

    /// Into a new directory, with a word with a registry once only.
    fn bring(&self, reference: &str) -> Result<Brought, BringError> {
        let _ = fs::remove_dir_all(self.target());
        let limits = Limits { retries: 0, ..Limits::default() };
        bring_within(reference, &self.access, &limits, &self.target(), &self.stop)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.target().join(path)).unwrap()
    }
}

#[test]
fn an_image_is_brought_from_a_registry_by_tag_and_by_digest_and_from_a_layout() {
    let mut stage = Stage::new();
    let registry = Registry::start();
    let image = stage.image(&[("bin/server", b"new"), ("etc/release", b"7")]);
    let list = stage.layout.list(std::slice::from_ref(&image), Form::Oci);
    registry.put(&stage.layout, &list, "appliance", "7");
    stage.layout.tag(&list, "7");
    let host = registry.host();
    for reference in [
        format!("http://{host}/appliance:7"),
        format!("http://{host}/appliance@{}", list.digest),
        format!("oci:{}:7", stage.layout.path.display()),
    ] {
        assert_eq!(stage.bring(&reference).unwrap().digest, list.digest, "{reference}");
        assert_eq!((stage.read("bin/server"), stage.read("etc/release")), ("new".into(), "7".into()));
    }
    let occupied = bring("oci:x:y", &stage.access, &stage.target(), &stage.stop).unwrap_err();
    assert!(matches!(occupied, BringError::Occupied { .. }), "{occupied:?}");
}

#[test]
fn a_directory_is_copied_and_its_digest_is_that_of_the_copy() {
    let stage = Stage::new();
    let make = |name: &str| {
        let root = stage.scratch.join(name);
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::write(root.join("bin/server"), "new").unwrap();
        fs::set_permissions(root.join("bin/server"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("bin/server", root.join("start")).unwrap();
        root
    };
    let (one, other) = (make("one"), make("other"));
    let digest = |path: &Path| stage.bring(path.to_str().unwrap()).unwrap().digest;
    let first = digest(&one);
    assert!(first.starts_with("sha256:"), "{first}");
    assert_eq!((stage.read("bin/server"), first == digest(&other)), ("new".into(), true));

    // Whatever counts changes it, and nothing else.
    fs::write(other.join("bin/server"), "New").unwrap();
    assert_ne!(first, digest(&other));
    fs::write(other.join("bin/server"), "new").unwrap();
    assert_eq!(first, digest(&other));
    fs::set_permissions(other.join("bin/server"), fs::Permissions::from_mode(0o744)).unwrap();
    assert_ne!(first, digest(&other));
    fs::set_permissions(other.join("bin/server"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(other.join("start")).unwrap();
    symlink("bin/Server", other.join("start")).unwrap();
    assert_ne!(first, digest(&other));
    fs::remove_file(other.join("start")).unwrap();
    symlink("bin/server", other.join("start")).unwrap();
    fs::create_dir(other.join("empty")).unwrap();
    assert_ne!(first, digest(&other));
}

#[test]
fn every_failure_has_its_exit_code() {
    let mut stage = Stage::new();
    let registry = Registry::start();
    let proxy = FlakyProxy::start(registry.address);
    let image = stage.image(&[("a", b"a")]);
    registry.put(&stage.layout, &image, "r", "t");
    stage.layout.tag(&image, "t");
    let layout = stage.layout.path.display().to_string();
    let reference = format!("http://{}/r:t", proxy.address);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();

    let exit = |reference: &str| {
        let error = stage.bring(reference).unwrap_err();
        assert!(!error.hint().is_empty());
        (error.exit(), oci::chain(&error))
    };
    for (reference, expected) in [
        ("r", Exit::Usage),
        ("oci:nowhere", Exit::NotFound),
        (&format!("http://{nobody}/r:t"), Exit::TryAgain),
        (&format!("http://{}/r:other", proxy.address), Exit::NotFound),
        (&format!("http://{}/other:t", proxy.address), Exit::NotFound),
        (&format!("oci:{layout}:other"), Exit::NotFound),
        ("oci:/no/such/layout:t", Exit::NotFound),
        ("/no/such/directory", Exit::NotFound),
        ("./no/such:directory", Exit::NotFound),
    ] {
        let (found, text) = exit(reference);
        assert_eq!(found, expected, "{reference}: {text}");
    }
    for (fault, expected) in [
        (Fault::status(503), Exit::TryAgain),
        (Fault::Hangup, Exit::TryAgain),
        (Fault::Cut, Exit::TryAgain),
        (Fault::Garble, Exit::Refused),
    ] {
        proxy.plan(move |asked| if asked.path.contains("/blobs/") { fault.clone() } else { Fault::None });
        let (found, text) = exit(&reference);
        assert_eq!(found, expected, "{text}");
    }
    proxy.plan(|_| Fault::status(401));
    assert_eq!(exit(&reference).0, Exit::Refused);
}

/// Serves the image of a layout as `r:t`, and stops in the middle of a blob.
fn halting(layout: &Layout, image: &Descriptor, halted: impl Fn() + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (blobs, digest, halted) = (layout.path.join("blobs/sha256"), image.digest.clone(), Arc::new(halted));
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (blobs, digest, halted) = (blobs.clone(), digest.clone(), Arc::clone(&halted));
            std::thread::spawn(move || answer(client, &blobs, &digest, &*halted));
        }
    });
    address
}

fn answer(mut client: TcpStream, blobs: &Path, digest: &str, halted: &dyn Fn()) {
    let mut lines = BufReader::new(client.try_clone().unwrap()).lines().map_while(Result::ok);
    let request = lines.next().unwrap_or_default();
    let _ = lines.take_while(|line| !line.is_empty()).count();
    let path = request.split(' ').nth(1).unwrap_or_default();
    let wanted = path.rsplit('/').next().unwrap_or_default().replace("sha256:", "");
    let wanted = if wanted == "t" { digest.replace("sha256:", "") } else { wanted };
    let bytes = fs::read(blobs.join(wanted)).unwrap();
    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", bytes.len());
    client.write_all(head.as_bytes()).unwrap();
    if request.starts_with("HEAD") {
        return;
    }
    if !path.contains("/blobs/") {
        return client.write_all(&bytes).unwrap();
    }
    client.write_all(&bytes[..bytes.len() / 2]).unwrap();
    halted();
    // Until the other side goes away.
    let _ = client.set_read_timeout(None);
    let _ = std::io::Read::read(&mut client, &mut [0]);
}

#[test]
fn a_stop_ends_a_fetch_that_would_wait_for_ever() {
    let stage = Stage::new();
    // Not to be compressed, so that half of it is not all of it.
    let noise: Vec<u8> = (0..1_u32 << 18).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let image = stage.image(&[("a", b"a"), ("noise", &noise)]);
    let stop = Arc::new(AtomicBool::new(false));
    let halted = Arc::clone(&stop);
    let server = halting(&stage.layout, &image, move || halted.store(true, Ordering::Relaxed));
    let error = bring(&format!("http://{server}/r:t"), &stage.access, &stage.target(), &stop).unwrap_err();
    assert_eq!(error.exit(), Exit::Interrupted, "{error:?}");
    // Nobody is at work there any more.
    fs::remove_dir_all(stage.target()).unwrap();

    let directory = stage.scratch.join("directory");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("a"), "a").unwrap();
    let error = bring(directory.to_str().unwrap(), &stage.access, &stage.target(), &stop).unwrap_err();
    assert_eq!(error.exit(), Exit::Interrupted, "{error:?}");
}

/// A file system of one mebibyte, in memory.
struct Small(PathBuf);

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_called_that() {
    let mut stage = Stage::new();
    let small = Small(stage.scratch.join("small"));
    fs::create_dir(&small.0).unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "small"]).arg(&small.0).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        eprintln!("LEFT OUT: a full disk: file systems can be mounted by root only");
        return;
    }
    let image = stage.image(&[("large", &vec![1; 4 << 20])]);
    stage.layout.tag(&image, "large");
    let directory = stage.scratch.join("directory");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("large"), vec![1; 4 << 20]).unwrap();
    let layout = format!("oci:{}:large", stage.layout.path.display());
    for (number, reference) in [&layout, directory.to_str().unwrap()].into_iter().enumerate() {
        let into = small.0.join(number.to_string());
        let error = bring(reference, &stage.access, &into, &stage.stop).unwrap_err();
        assert!(matches!(error, BringError::NoRoom { .. }), "{error:?}");
        fs::remove_dir_all(&into).unwrap();
    }
}
