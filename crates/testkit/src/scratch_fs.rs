//! Real file systems on loop devices, which can be filled, reset to a known state, and cut from power.
//!
//! Needs root and the mkfs tools. What is missing is a panic that names it, never a test left out.
//! Every file system has a directory of its own with the image and the mount point; both go when the value
//! is dropped, also by a panic. What a killed test run left behind is swept by the next one.

mod directory;
mod image;
mod mounting;

use crate::kernel;
use directory::ScratchDirectory;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Which file system to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FsKind {
    Xfs { reflink: bool },
    Ext4,
    Btrfs,
}

impl FsKind {
    /// The smallest size that its mkfs accepts, rounded up to what leaves room for a test.
    pub fn smallest(self) -> u64 {
        let mebibytes = match self {
            FsKind::Xfs { .. } => 320,
            FsKind::Ext4 => 16,
            FsKind::Btrfs => 128,
        };
        mebibytes << 20
    }

    fn name_in_kernel(self) -> &'static str {
        match self {
            FsKind::Xfs { .. } => "xfs",
            FsKind::Ext4 => "ext4",
            FsKind::Btrfs => "btrfs",
        }
    }

    fn make(self, image: &Path) {
        let (tool, package, options): (_, _, &[&str]) = match self {
            FsKind::Xfs { reflink: true } => ("mkfs.xfs", "xfsprogs", &["-q", "-K", "-m", "reflink=1"]),
            FsKind::Xfs { reflink: false } => ("mkfs.xfs", "xfsprogs", &["-q", "-K", "-m", "reflink=0"]),
            // Nothing is left for a kernel thread to initialise later: it would write at moments of its own.
            FsKind::Ext4 => (
                "mkfs.ext4",
                "e2fsprogs",
                &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"],
            ),
            FsKind::Btrfs => ("mkfs.btrfs", "btrfs-progs", &["-q", "-K", "-f"]),
        };
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        for attempts_left in (0..20).rev() {
            let output = match Command::new(tool).args(options).arg(image).env("PATH", &path).output() {
                Ok(output) => output,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    panic!("{tool} is missing: install the Debian package {package}")
                }
                Err(error) => panic!("cannot run {tool}: {error}"),
            };
            if output.status.success() {
                return;
            }
            let complaint = String::from_utf8_lossy(&output.stderr);
            // mkfs.btrfs looks at every mounted loop device, and stumbles over one that is going away.
            let stumbled = complaint.contains("cannot check mount status");
            assert!(stumbled && attempts_left > 0, "{tool} {} failed: {complaint}", image.display());
        }
    }
}

/// A mounted file system of its own. Dropping it unmounts it and removes its image.
#[derive(Debug)]
pub struct ScratchFs {
    kind: FsKind,
    directory: ScratchDirectory,
    mount_point: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The number of the loop device: `/dev/loopN`.
    loop_number: u32,
    /// The power is off already; what the disk held at that moment is in the image or beside it.
    power_is_off: bool,
}

/// The content of an unmounted file system, to be mounted any number of times.
#[derive(Debug)]
pub struct Image {
    kind: FsKind,
    directory: ScratchDirectory,
}

impl ScratchFs {
    /// Makes and mounts a new file system. `size` is what it believes to have; the image is sparse.
    pub fn new(kind: FsKind, size: u64) -> ScratchFs {
        ScratchFs::made_in(ScratchDirectory::new(size), kind, size)
    }

    /// The same with the image on a disk, never in memory: for measurements.
    pub fn on_disk(kind: FsKind, size: u64) -> ScratchFs {
        ScratchFs::made_in(ScratchDirectory::on_disk(), kind, size)
    }

    fn made_in(directory: ScratchDirectory, kind: FsKind, size: u64) -> ScratchFs {
        require_root();
        let image = File::create(directory.image()).and_then(|file| file.set_len(size));
        image.unwrap_or_else(|error| panic!("cannot make an image of {size} bytes: {error}"));
        kind.make(&directory.image());
        ScratchFs::mounted(kind, directory, None)
    }

    /// Mounts a copy of the image at a place of its own. Several copies can be mounted at the same time
    /// (for btrfs that takes Linux 6.7).
    pub fn from_image(image: &Image) -> ScratchFs {
        ScratchFs::copied_from(image, None)
    }

    /// The same at a given, existing and empty directory, for data that holds absolute paths.
    pub fn from_image_at(image: &Image, mount_point: &Path) -> ScratchFs {
        ScratchFs::copied_from(image, Some(mount_point))
    }

    fn copied_from(image: &Image, mount_point: Option<&Path>) -> ScratchFs {
        require_root();
        let directory = ScratchDirectory::new(image.size());
        image::copy(&image.directory.image(), &directory.image());
        ScratchFs::mounted(image.kind, directory, mount_point)
    }

    fn mounted(kind: FsKind, directory: ScratchDirectory, mount_point: Option<&Path>) -> ScratchFs {
        let mount_point = mount_point.map_or_else(|| directory.mount_point(), Path::to_path_buf);
        let state = Mutex::new(State { loop_number: u32::MAX, power_is_off: false });
        let scratch = ScratchFs { kind, directory, mount_point, state };
        scratch.mount();
        scratch
    }

    /// Where it is mounted. Stays the same across power cuts and resets.
    pub fn path(&self) -> &Path {
        &self.mount_point
    }

    pub fn kind(&self) -> FsKind {
        self.kind
    }

    /// Keeps the present content as a state to come back to. Unmounts for a moment, so nothing on it may
    /// be open: only an unmounted file system is known to be complete on its disk.
    pub fn snapshot_image(&self) -> Image {
        self.unmount();
        let directory = ScratchDirectory::new(image::size(&self.directory.image()));
        image::copy(&self.directory.image(), &directory.image());
        self.mount();
        Image { kind: self.kind, directory }
    }

    /// Throws the present content away and brings that of the image to the same place.
    pub fn reset(&self, image: &Image) {
        assert_eq!(self.kind, image.kind, "the image is of another kind of file system");
        self.unmount();
        image::copy(&image.directory.image(), &self.directory.image());
        self.mount();
    }

    /// Switches the power off and leaves everything else as it is: no later write reaches the disk, and
    /// nothing that is only in memory does. May be called while a traced command is stopped inside a
    /// system call, before it is killed: closing its files must not flush them. `power_cut` goes on from here.
    pub fn power_off(&self) {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if std::mem::replace(&mut state.power_is_off, true) {
            return;
        }
        match self.kind {
            // The ioctl stops all IO of the file system. NOLOGFLUSH: not even the log that is still in
            // memory is written, so what was not synced is lost as it is with the power.
            FsKind::Xfs { .. } | FsKind::Ext4 => {
                let shut_down =
                    File::open(self.path()).and_then(|root| kernel::shut_down_without_flush(&root));
                shut_down
                    .unwrap_or_else(|error| panic!("cannot shut {} down: {error}", self.path().display()));
            }
            // btrfs has no such ioctl. What its disk holds is the backing file as it is now: the loop
            // driver has written every completed request into the page cache of that file, where the copy
            // reads it. Nothing may be synced first, since that is what a power cut does not do.
            FsKind::Btrfs => {
                mounting::copy_between_writes(
                    state.loop_number,
                    &self.directory.image(),
                    &self.directory.kept_image(),
                );
            }
        }
    }

    /// Cuts the power and switches it on again: the file system as the next boot finds it, recovered from
    /// its log and mounted at the same place. Everything that has files open on it must be dead.
    ///
    /// The disk keeps what it was given, in the order in which it was given it: losing or reordering
    /// requests inside the disk's own cache is not simulated.
    pub fn power_cut(self) -> ScratchFs {
        self.power_off();
        self.unmount();
        if self.kind == FsKind::Btrfs {
            let back = std::fs::rename(self.directory.kept_image(), self.directory.image());
            back.unwrap_or_else(|error| panic!("cannot take the kept image: {error}"));
        }
        self.mount();
        self
    }

    /// Takes all space but about `leave_bytes` with one file, whose path is returned: removing it makes
    /// the room again.
    pub fn fill(&self, leave_bytes: u64) -> PathBuf {
        image::fill(self.path(), leave_bytes)
    }

    fn mount(&self) {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let image = self.directory.image();
        state.loop_number = mounting::mount(&image, &self.mount_point, self.kind.name_in_kernel());
        state.power_is_off = false;
    }

    fn unmount(&self) {
        mounting::unmount(&self.mount_point);
    }
}

impl Drop for ScratchFs {
    fn drop(&mut self) {
        mounting::unmount_at_any_price(&self.mount_point);
    }
}

impl Image {
    pub fn kind(&self) -> FsKind {
        self.kind
    }

    fn size(&self) -> u64 {
        image::size(&self.directory.image())
    }
}

fn require_root() {
    assert!(
        nix::unistd::geteuid().is_root(),
        "scratch file systems need root: run the tests with sudo (make test does)"
    );
}
