//! The system calls that a sandboxed program has no business with, as a filter for the kernel. Pure.
//!
//! A list of what is denied, not of what is allowed: migrations are written in any language, and an interpreter that
//! meets a refusal it never expected fails in ways that nobody understands. The walls are the namespaces and Landlock;
//! this takes away the tools for climbing.

use libc::sock_filter;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: Option<u32> = None;

/// System calls of x32 have this bit, and numbers of their own below it.
#[cfg(target_arch = "x86_64")]
const X32: Option<u32> = Some(0x4000_0000);
#[cfg(not(target_arch = "x86_64"))]
const X32: Option<u32> = None;

const DENIED: [libc::c_long; 56] = [
    // Mounts, roots, namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    // Files by handle go past every path.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // A ring does what its own list of calls says, sockets among them.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Other processes, and the kernel's insides.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_lookup_dcookie,
    libc::SYS_syslog,
    libc::SYS_fanotify_init,
    libc::SYS_seccomp,
    // The machine itself.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_mbind,
    libc::SYS_set_mempolicy,
];

/// Owners, modes, times and attributes of files. Landlock guards their contents and names only.
#[cfg(target_arch = "x86_64")]
const METADATA: &[libc::c_long] = &[
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_chown,
    libc::SYS_fchown,
    libc::SYS_lchown,
    libc::SYS_fchownat,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
];
#[cfg(not(target_arch = "x86_64"))]
const METADATA: &[libc::c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
];

const NEW_NAMESPACES: u32 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u32;

/// Offsets into `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
/// The lower half of the first argument; both architectures keep it first.
const FIRST_ARGUMENT: u32 = 16;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const ANSWER: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
const NOT_PERMITTED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
/// The C library then uses `clone`, whose flags can be seen.
const NOT_THERE: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

fn plain(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

/// `answer` where the test holds, else on with the next instruction after it.
fn when(code: u16, k: u32, answer: u32) -> [sock_filter; 2] {
    [sock_filter { code, jt: 0, jf: 1, k }, plain(ANSWER, answer)]
}

/// Where the test does not hold, `length` instructions are skipped.
fn only_when(code: u16, k: u32, length: u8) -> sock_filter {
    sock_filter { code, jt: 0, jf: length, k }
}

/// The filter, or `None` on an architecture whose numbers are not known here. Where memory is counted, files in memory
/// are denied: they belong to no process. Where only Landlock guards the files of others, so are the changes that Landlock
/// does not see.
pub(crate) fn filter(memory_is_counted: bool, keep_metadata: bool) -> Option<Vec<sock_filter>> {
    let number = |call: libc::c_long| call as u32;
    let mut filter = vec![plain(LOAD, ARCH), sock_filter { code: EQUAL, jt: 1, jf: 0, k: ARCHITECTURE? }];
    filter.push(plain(ANSWER, KILL));
    filter.push(plain(LOAD, NUMBER));
    if let Some(x32) = X32 {
        filter.extend(when(AT_LEAST, x32, NOT_PERMITTED));
    }
    // Sockets within the machine, which its own network namespace and file system keep to itself.
    filter.push(only_when(EQUAL, number(libc::SYS_socket), 4));
    filter.push(plain(LOAD, FIRST_ARGUMENT));
    filter.extend(when(EQUAL, libc::AF_UNIX as u32, ALLOW));
    filter.push(plain(ANSWER, NOT_PERMITTED));
    filter.push(only_when(EQUAL, number(libc::SYS_clone), 4));
    filter.push(plain(LOAD, FIRST_ARGUMENT));
    filter.extend(when(ANY_BIT, NEW_NAMESPACES, NOT_PERMITTED));
    filter.push(plain(ANSWER, ALLOW));
    filter.extend(when(EQUAL, number(libc::SYS_clone3), NOT_THERE));
    if memory_is_counted {
        filter.extend(when(EQUAL, number(libc::SYS_memfd_create), NOT_PERMITTED));
    }
    let metadata = METADATA.iter().filter(|_| keep_metadata);
    for call in DENIED.iter().chain(metadata) {
        filter.extend(when(EQUAL, number(*call), NOT_PERMITTED));
    }
    filter.push(plain(ANSWER, ALLOW));
    Some(filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's reading of a filter, as far as this one goes.
    fn judge(filter: &[sock_filter], arch: u32, number: u32, argument: u32) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let it = filter[at];
            let jump = |holds: bool| 1 + usize::from(if holds { it.jt } else { it.jf });
            at += match it.code {
                LOAD => {
                    value = match it.k {
                        NUMBER => number,
                        ARCH => arch,
                        FIRST_ARGUMENT => argument,
                        other => panic!("offset {other}"),
                    };
                    1
                }
                EQUAL => jump(value == it.k),
                AT_LEAST => jump(value >= it.k),
                ANY_BIT => jump(value & it.k != 0),
                ANSWER => return it.k,
                other => panic!("instruction {other}"),
            };
        }
    }

    #[test]
    fn calls_are_judged_by_number_and_where_needed_by_argument() {
        let (Some(filter), Some(arch)) = (filter(true, true), ARCHITECTURE) else { return };
        let judge = |number: libc::c_long, argument: libc::c_int| {
            judge(&filter, arch, number as u32, argument as u32)
        };
        for call in DENIED {
            assert_eq!(judge(call, 0), NOT_PERMITTED, "{call}");
        }
        for family in
            [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_PACKET, libc::AF_VSOCK, 0, -1]
        {
            assert_eq!(judge(libc::SYS_socket, family), NOT_PERMITTED, "{family}");
        }
        assert_eq!(judge(libc::SYS_socket, libc::AF_UNIX), ALLOW);
        assert_eq!(judge(libc::SYS_clone, libc::SIGCHLD | libc::CLONE_VM), ALLOW);
        assert_eq!(judge(libc::SYS_clone, libc::SIGCHLD | libc::CLONE_NEWUSER), NOT_PERMITTED);
        assert_eq!(judge(libc::SYS_clone3, 0), NOT_THERE);
        for call in [libc::SYS_read, libc::SYS_openat, libc::SYS_execve, libc::SYS_socketpair, libc::SYS_mmap]
        {
            assert_eq!(judge(call, 2), ALLOW, "{call}");
        }
    }

    #[test]
    fn other_architectures_and_number_spaces_are_no_way_around() {
        let (Some(filter), Some(arch)) = (filter(true, true), ARCHITECTURE) else { return };
        assert_eq!(judge(&filter, arch ^ 1, libc::SYS_read as u32, 0), KILL);
        if let Some(x32) = X32 {
            assert_eq!(judge(&filter, arch, x32 | 41, 2), NOT_PERMITTED);
        }
    }
}
