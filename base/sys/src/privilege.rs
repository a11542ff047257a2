//! Dropping privileges: capabilities, and system calls (`seccomp(2)`).

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};

/// The highest number of a capability that any kernel has.
const HIGHEST: u32 = 63;

/// The permitted capabilities of this thread, one bit each.
pub fn permitted() -> io::Result<u64> {
    Ok(capabilities(None)?.permitted.bits())
}

/// Sets the permitted and effective capabilities of this thread, and clears the inheritable ones.
pub fn keep_capabilities(bits: u64) -> io::Result<()> {
    let kept = CapabilitySet::from_bits_retain(bits);
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, sets)?)
}

/// Removes all capabilities but these from the bounding set, as far as the kernel allows it.
pub fn drop_bounds(kept: u64) {
    for number in (0..=HIGHEST).filter(|number| kept & 1 << number == 0) {
        let one = CapabilitySet::from_bits_retain(1 << number);
        // Fails beyond the last capability, and for those who have none to lose.
        let _kept = remove_capability_from_bounding_set(one);
    }
}

/// Keeps programs that this process executes from gaining privileges.
pub fn no_new_privileges() -> io::Result<()> {
    Ok(set_no_new_privs(true)?)
}

/// Installs a filter of system calls for all threads of the process. It cannot be removed.
pub fn install_filter(program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: The kernel reads the program, and has copied it before the call returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const program,
        )
    };
    match result {
        0 => Ok(()),
        // A thread has a filter of its own, which cannot be replaced.
        1.. => Err(io::ErrorKind::ResourceBusy.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads have capabilities of their own, so a test does not take those of others.
    #[test]
    fn a_thread_keeps_what_it_keeps() {
        std::thread::spawn(|| {
            let before = permitted().unwrap();
            keep_capabilities(before & 1).unwrap();
            assert_eq!(permitted().unwrap(), before & 1);
            drop_bounds(0);
            no_new_privileges().unwrap();
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_filter_without_an_instruction_is_refused() {
        assert!(install_filter(&[]).is_err());
    }
}
