//! How the C library's allocator treats large blocks: by itself it begins to keep them after the first was freed, and
//! pages and bodies of ever other sizes then leave holes of megabytes. The only module of this part with `unsafe`.
#![allow(unsafe_code)]

/// Blocks from this size on go back to the system when they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: libc::c_int = 64 * 1024;

pub(crate) fn give_back_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it sets a number inside the allocator, which takes its own lock for it. Whether it does is no matter.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}
