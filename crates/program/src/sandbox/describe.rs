//! What a sandboxed program may do, and which protections were in force while it ran.

use std::fmt;
use std::path::PathBuf;

#[derive(Debug, Clone)]
pub struct Sandbox {
    /// Shown read-only, where they are; beside the system's programs and libraries.
    pub readable: Vec<PathBuf>,
    /// The only places that can be written, beside a private `/tmp`. The first is where the program starts, unless the
    /// invocation says otherwise.
    pub writable: Vec<PathBuf>,
    /// Bytes, of all its processes together.
    pub memory: Option<u64>,
    /// Processes and threads at a time.
    pub processes: Option<u32>,
    /// Bytes of one file.
    pub file_size: Option<u64>,
    /// Run it even where it can't be kept from the network or from writing elsewhere.
    pub allow_unconfined: bool,
}

impl Sandbox {
    /// With nothing to write to and no limits yet.
    pub fn new() -> Self {
        Self {
            readable: vec![],
            writable: vec![],
            memory: None,
            processes: None,
            file_size: None,
            allow_unconfined: false,
        }
    }
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

/// What kept the program in its place. Which of them there are depends on the kernel and on who runs it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Protections {
    /// Its own network, processes, mounts, host name and System V objects.
    pub namespaces: bool,
    /// A file system of its own, made of the few places it may see.
    pub private_root: bool,
    /// The version of Landlock that limits what files it may use; 0 where the kernel has none.
    pub landlock: u32,
    /// System calls that it has no business with are refused.
    pub system_calls: bool,
    /// Its processes are counted, and its memory.
    pub counted: bool,
    /// The kernel gives it no more than a number of processes.
    pub process_ceiling: bool,
}

impl Protections {
    pub fn no_network(&self) -> bool {
        self.namespaces || self.system_calls
    }

    pub fn no_writing_elsewhere(&self) -> bool {
        self.private_root || self.landlock > 0
    }

    /// Without these it is not run, unless somebody says so.
    pub fn suffice(&self) -> bool {
        self.no_network() && self.no_writing_elsewhere()
    }

    const NAMESPACES: u32 = 1;
    const PRIVATE_ROOT: u32 = 2;
    const SYSTEM_CALLS: u32 = 4;
    const COUNTED: u32 = 8;
    const PROCESS_CEILING: u32 = 16;
    const LANDLOCK_SHIFT: u32 = 16;

    /// As one word, for the board.
    pub(crate) fn bits(&self) -> u32 {
        let bit = |set: bool, bit: u32| if set { bit } else { 0 };
        bit(self.namespaces, Self::NAMESPACES)
            | bit(self.private_root, Self::PRIVATE_ROOT)
            | bit(self.system_calls, Self::SYSTEM_CALLS)
            | bit(self.counted, Self::COUNTED)
            | bit(self.process_ceiling, Self::PROCESS_CEILING)
            | self.landlock.min(0xffff) << Self::LANDLOCK_SHIFT
    }

    pub(crate) fn from_bits(bits: u32) -> Self {
        Self {
            namespaces: bits & Self::NAMESPACES != 0,
            private_root: bits & Self::PRIVATE_ROOT != 0,
            system_calls: bits & Self::SYSTEM_CALLS != 0,
            counted: bits & Self::COUNTED != 0,
            process_ceiling: bits & Self::PROCESS_CEILING != 0,
            landlock: bits >> Self::LANDLOCK_SHIFT,
        }
    }
}

impl fmt::Display for Protections {
    /// `namespaces, private root, Landlock 7, system call filter, counted processes, process ceiling`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let landlock = format!("Landlock {}", self.landlock);
        let words = [
            (self.namespaces, "namespaces"),
            (self.private_root, "private root"),
            (self.landlock > 0, &landlock),
            (self.system_calls, "system call filter"),
            (self.counted, "counted processes"),
            (self.process_ceiling, "process ceiling"),
        ];
        let words: Vec<&str> = words.into_iter().filter_map(|(there, word)| there.then_some(word)).collect();
        if words.is_empty() { f.write_str("none") } else { f.write_str(&words.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protections_survive_the_board_and_say_what_they_are() {
        let all = Protections {
            namespaces: true,
            private_root: true,
            landlock: 7,
            system_calls: true,
            counted: true,
            process_ceiling: true,
        };
        for some in [
            all,
            Protections::default(),
            Protections { landlock: 3, system_calls: true, ..Protections::default() },
        ] {
            assert_eq!(Protections::from_bits(some.bits()), some);
        }
        assert_eq!(
            all.to_string(),
            "namespaces, private root, Landlock 7, system call filter, counted processes, process ceiling"
        );
        assert_eq!(Protections::default().to_string(), "none");
    }

    #[test]
    fn without_a_network_wall_and_a_wall_for_files_nothing_suffices() {
        let some = |namespaces, private_root, landlock, system_calls| {
            Protections { namespaces, private_root, landlock, system_calls, ..Protections::default() }
                .suffice()
        };
        assert!(some(true, true, 0, false) && some(false, false, 1, true));
        assert!(
            !some(false, false, 0, true) && !some(false, false, 1, false) && !some(false, false, 0, false)
        );
    }
}
