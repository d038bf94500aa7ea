//! The calls of `qemu-img`. Formats are always given, and nothing here lets it guess.

use std::path::Path;
use std::time::Duration;

use logic::images::{Format, ImageName};
use program::{Invocation, Limits, Overflow, run_limited};

use super::error::{Result, VolumeError};

/// None of these reads a disk whole but `check`, which reads its tables.
const WITHIN: Duration = Duration::from_secs(120);
/// What it prints is for people.
const OUTPUT: usize = 64 << 10;

fn format(format: Format) -> &'static str {
    match format {
        Format::Raw => "raw",
        Format::Qcow2 => "qcow2",
    }
}

pub fn create(overlay: &Path, base: &str, base_format: Format, size: u64) -> Result<()> {
    let size = size.to_string();
    let overlay = overlay.as_os_str();
    run(
        "create",
        ["create", "-q", "-f", "qcow2", "-F", format(base_format), "-b", base, "--"],
        [overlay, size.as_ref()],
    )
}

/// Has the overlay stand on this image from now on. What it held of its own stays.
pub fn stand_on(overlay: &Path, base: &str, base_format: Format) -> Result<()> {
    let options = ["rebase", "-q", "-u", "-f", "qcow2", "-F", format(base_format), "-b", base, "--"];
    run("rebase", options, [overlay.as_os_str()])
}

pub fn check(overlay: &Path) -> Result<()> {
    run("check", ["check", "-q", "-f", "qcow2", "--"], [overlay.as_os_str()])
}

/// Makes the disk larger.
pub fn grow(overlay: &Path, size: u64) -> Result<()> {
    let size = size.to_string();
    run("resize", ["resize", "-q", "-f", "qcow2", "--"], [overlay.as_os_str(), size.as_ref()])
}

/// Whoever writes to a volume holds a lock on it, which `qemu-img` asks for.
pub fn not_in_use(name: &ImageName, overlay: &Path) -> Result<()> {
    match run("info", ["info", "-f", "qcow2", "--"], [overlay.as_os_str()]) {
        Err(VolumeError::Qemu { why, .. }) if is_locked(&why) => {
            Err(VolumeError::InUse { name: name.clone() })
        }
        done => done,
    }
}

/// `Failed to get shared "write" lock`. No name of a volume has these marks in it.
fn is_locked(said: &str) -> bool {
    said.contains("\" lock") || said.contains("Failed to lock byte")
}

fn run<const N: usize, const M: usize>(
    what: &'static str,
    options: [&str; N],
    operands: [&std::ffi::OsStr; M],
) -> Result<()> {
    let invocation = Invocation::new("qemu-img").args(options).args(operands).env("LC_ALL", "C");
    let limits =
        Limits { timeout: Some(WITHIN), max_output: OUTPUT, overflow: Overflow::Trim, ..Limits::default() };
    let finished =
        run_limited(&invocation, &limits).map_err(|error| VolumeError::NoQemu { why: error.to_string() })?;
    if finished.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&finished.stderr).trim().replace('\n', "; ");
    let why = if said.is_empty() { finished.ending() } else { said };
    Err(VolumeError::Qemu { what, why })
}
