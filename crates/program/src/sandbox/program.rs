//! The last steps before a process becomes the program: it gives up what it could do.
//!
//! It runs between fork and exec: system calls only.

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::board::Stage;
use super::enter::{At, Step};
use super::kernel;
use super::landlock::{self, Access};
use super::prepare::Prepared;

/// What root keeps: enough for files of other owners in the places that it may write, and for becoming one of them.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID);

/// The kernel knows about forty, and says when there are no more.
const MOST_CAPABILITIES: u32 = 64;

const RESERVED_OVER_USED: u64 = 4;

impl Prepared {
    pub(super) fn become_program(&mut self) -> Step {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).at(Stage::Rights)?;
        self.limit().at(Stage::Rlimit)?;
        rustix::process::chdir(&*self.work).at(Stage::Directory)?;
        drop_rights().at(Stage::Rights)?;
        rustix::thread::set_no_new_privs(true).at(Stage::Rights)?;
        if self.landlock > 0 {
            self.restrict_files().at(Stage::Landlock)?;
            self.protections.landlock = self.landlock;
        }
        kernel::close_range(3, u32::MAX, kernel::CLOSE_ON_EXEC).at(Stage::Rights)?;
        let filter = if self.protections.private_root { &self.filter } else { &self.stricter_filter };
        if let Some(filter) = filter {
            // A kernel without seccomp says EINVAL or ENOSYS; whether that matters is judged below.
            self.protections.system_calls = kernel::load_filter(filter).is_ok();
        }
        self.board.protected(self.protections);
        if !self.allow_unconfined && !self.protections.suffice() {
            return Err((Stage::Unconfined, Errno::PERM));
        }
        Ok(())
    }

    /// Limits can be lowered by anybody; where they are lower already, they stay.
    fn limit(&self) -> Result<(), Errno> {
        // Where memory is counted this only holds off a rush between two counts. Programs reserve more than they use.
        let reserved = if self.protections.counted { RESERVED_OVER_USED } else { 1 };
        let address_space = self.memory.map(|bytes| (Resource::As, bytes.saturating_mul(reserved)));
        for (resource, limit) in self.rlimits.iter().chain(&address_space) {
            let now = rustix::process::getrlimit(*resource).maximum.unwrap_or(u64::MAX);
            let limit = Some(now.min(*limit));
            rustix::process::setrlimit(*resource, Rlimit { current: limit, maximum: limit })?;
        }
        Ok(())
    }

    fn restrict_files(&self) -> Result<(), Errno> {
        let version = self.landlock;
        let ruleset = kernel::landlock_ruleset(&landlock::ruleset(version), landlock::length(version))?;
        let allow = |path: &std::ffi::CStr, access: Access, is_file: bool| {
            let place = rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            kernel::landlock_allow(&ruleset, &place, landlock::allowed(access, is_file, version))
        };
        for shown in &self.shown {
            allow(&shown.place.source, shown.place.access, shown.place.is_file)?;
        }
        if self.protections.private_root {
            allow(c"/tmp", Access::Write, false)?;
            let _ = allow(c"/proc", Access::Read, false);
        } else {
            // Not private: to look things up, as interpreters do, but not to write.
            let _ = allow(c"/proc/self", Access::Read, false);
        }
        kernel::landlock_restrict(&ruleset)
    }
}

fn drop_rights() -> Result<(), Errno> {
    let sets = rustix::thread::capabilities(None)?;
    if sets.permitted.is_empty() {
        return Ok(());
    }
    if sets.effective.contains(CapabilitySet::SETPCAP) {
        for number in 0..MOST_CAPABILITIES {
            let kept = KEPT.bits() >> number & 1 == 1;
            if !kept && !kernel::drop_capability(number)? {
                break;
            }
        }
    }
    let kept = sets.permitted & KEPT;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets)
}
