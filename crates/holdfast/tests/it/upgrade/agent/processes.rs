//! Who was started by whom.

use std::fs;

use rustix::process::Pid;

pub fn children(of: Pid) -> Vec<Pid> {
    // Each thread has its own.
    let threads = fs::read_dir(format!("/proc/{}/task", of.as_raw_nonzero())).into_iter().flatten().flatten();
    let text: String = threads
        .map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default())
        .collect();
    text.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// Children, and theirs.
pub fn below(of: Pid) -> Vec<Pid> {
    children(of).into_iter().flat_map(|child| [vec![child], below(child)].concat()).collect()
}

/// How it was called.
pub fn words_of(pid: Pid) -> String {
    let words = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ").trim_end().to_owned()
}

/// What has ended and was not asked for its end yet does not.
pub fn runs(pid: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains("(zombie)"))
}
