//! Children that end when we do, however that is: killed, too.
#![allow(unsafe_code)]

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use tokio::process::Command;

/// The thread that starts the child must last: it is what the kernel looks at.
pub fn end_with_us(command: &mut Command, signal: Signal) {
    let parent = getpid();
    // SAFETY: only system calls between fork and exec, no memory is allocated and no lock taken.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(signal))?;
            // Had we ended before that call, nobody would have sent it.
            match getppid() == Some(parent) {
                true => Ok(()),
                false => Err(rustix::io::Errno::SRCH.into()),
            }
        });
    }
}
