//! Sockets that the service manager has opened for this process (sd-daemon(3)).

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::FdFlags;

/// The first inherited descriptor (`SD_LISTEN_FDS_START`).
const FIRST: RawFd = 3;

/// More sockets than any unit has; a larger count is a mistake in the environment.
const MAX: usize = 1024;

/// Set once the descriptors have an owner.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes the descriptors that `LISTEN_FDS` announces to the process `LISTEN_PID`, and keeps them from child
/// processes. None when they are another process's, and on a second call.
///
/// Must run before the process opens descriptors of its own.
///
/// # Errors
///
/// When they are too many, or one that is announced is not open.
pub fn take(listen_pid: Option<u32>, listen_fds: usize) -> io::Result<Vec<OwnedFd>> {
    if listen_pid != Some(std::process::id()) || listen_fds == 0 {
        return Ok(Vec::new());
    }
    if TAKEN.swap(true, Ordering::AcqRel) {
        return Ok(Vec::new());
    }
    if listen_fds > MAX {
        return Err(io::Error::other(format!(
            "LISTEN_FDS announces {listen_fds} sockets, more than {MAX}"
        )));
    }
    (FIRST..).take(listen_fds).map(own).collect()
}

/// Takes ownership of an open descriptor and keeps it from child processes.
fn own(descriptor: RawFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{descriptor}");
    if std::fs::symlink_metadata(path).is_err() {
        return Err(io::Error::other(format!(
            "LISTEN_FDS announces descriptor {descriptor}, which is not open"
        )));
    }
    // SAFETY: The descriptor is open. The service manager opened it for this process (`LISTEN_PID`
    // is its id) before it started; `TAKEN` lets this run once, so nothing else owns it.
    let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
    rustix::io::fcntl_setfd(&owned, FdFlags::CLOEXEC)?;
    Ok(owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_another_process_are_left_alone() {
        assert!(take(None, 1).unwrap().is_empty());
        assert!(take(Some(u32::MAX), 1).unwrap().is_empty());
        assert!(take(Some(std::process::id()), 0).unwrap().is_empty());
    }
}
