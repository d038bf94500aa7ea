//! The two clocks. What other machines or later boots compare with is the wall clock, which may jump; what this process
//! measures for itself is the time since boot, which never goes back and also passes while the machine sleeps.

use std::time::Duration;

use jiff::Timestamp;

/// Seconds since 1970.
pub fn wall() -> i64 {
    Timestamp::now().as_second()
}

pub fn since_boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}
