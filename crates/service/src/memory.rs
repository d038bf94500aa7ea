//! What a program that mostly sleeps takes of memory.
#![allow(unsafe_code)]

use std::fs;

use rustix::mm::{Advice, madvise};

/// Unmaps the program's own code. Starting takes more of it than working, and the kernel maps sixteen pages for every one that
/// is touched; what is needed again is mapped again, from the page cache.
pub fn forget_the_start() {
    let Ok(maps) = fs::read_to_string("/proc/self/maps") else { return };
    let Ok(program) = fs::read_link("/proc/self/exe") else { return };
    let program = program.to_string_lossy();
    for (start, length) in maps.lines().filter_map(|line| code(line, &program)) {
        // SAFETY: a private mapping of a file that was never written to (it is `r-xp`): the next access reads the same bytes
        // from the same file. That it fails is no matter.
        let _ =
            unsafe { madvise(std::ptr::with_exposed_provenance_mut(start), length, Advice::LinuxDontNeed) };
    }
}

/// Where a line of `maps` says that code of this program is.
fn code(line: &str, program: &str) -> Option<(usize, usize)> {
    let (range, rest) = line.split_once(' ')?;
    if !rest.starts_with("r-xp ") || !rest.trim_end().ends_with(program) {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    Some((start, end.checked_sub(start)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_the_program_is_forgotten_and_it_goes_on() {
        let line =
            "55b85cf36000-55b85f242000 r-xp 00a30000 fe:00 5387160                    /usr/bin/holdfast";
        assert_eq!(code(line, "/usr/bin/holdfast"), Some((0x55b8_5cf3_6000, 0x230_c000)));
        assert_eq!(code(line, "/usr/bin/other"), None);
        assert_eq!(code(&line.replace("r-xp", "r--p"), "/usr/bin/holdfast"), None, "it may be relocated");
        let before = resident();
        forget_the_start();
        assert!(resident() < before);
        assert_eq!(code("", "x"), None);
    }

    /// Of files, in kB.
    fn resident() -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssFile:")).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse().unwrap()
    }
}
