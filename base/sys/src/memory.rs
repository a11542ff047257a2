//! Memory that was freed, given back to the system.
//!
//! The C library keeps what is freed for the next request. After reading a file that is parsed into
//! far more than what is kept of it, that can be most of a process.

/// Gives freed memory back to the system, as far as the C library can. Takes some milliseconds for
/// each gigabyte.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) takes no pointers, and locks the allocator itself.
    let _released = unsafe { libc::malloc_trim(0) };
}
