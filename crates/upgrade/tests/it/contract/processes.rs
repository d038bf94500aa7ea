//! Which processes there are, by what the kernel says about them.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

fn all() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

pub fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// The program that keeps its data in `data`, and all that came of it: they have its environment.
pub fn of_program(data: &Path) -> Vec<u32> {
    let mark = format!("HOLDFAST_DATA_DIR={}\0", data.display());
    let has = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(mark.len()).any(|window| window == mark.as_bytes())
    };
    all().filter(|pid| has(pid) && is_alive(*pid)).collect()
}

/// Supervisor and keeper of what lies in `dir`: it is their last argument.
pub fn supervisors(dir: &Path) -> Vec<u32> {
    let mark = format!("\0{}\0", dir.display());
    let has =
        |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default().ends_with(mark.as_bytes());
    all().filter(|pid| has(pid) && is_alive(*pid)).collect()
}

pub fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

pub fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

/// Waits for what must come, with a limit only for the case that it does not.
pub fn until(what: &str, mut true_at_last: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !true_at_last() {
        assert!(Instant::now() < limit, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
