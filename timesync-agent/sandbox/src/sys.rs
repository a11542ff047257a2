//! The system calls by which others are given up.
//!
//! One of the files with unsafe code.
#![expect(unsafe_code, reason = "prctl, capset and seccomp have no safe wrapper")]

use std::io;

use super::filter::Instruction;

/// `_LINUX_CAPABILITY_VERSION_3`: two halves of 32 bits.
const VERSION: u32 = 0x2008_0522;

/// The highest number of a capability that any kernel has.
const HIGHEST: u32 = 63;

/// `struct __user_cap_header_struct`.
#[repr(C)]
struct Header {
    version: u32,
    /// 0 is the thread that calls.
    thread: i32,
}

/// `struct __user_cap_data_struct`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// What this thread is permitted.
pub(super) fn permitted() -> io::Result<u64> {
    let mut header = header();
    let mut halves = [Half::default(); 2];
    // SAFETY: The kernel writes two halves, which is what this version has.
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, halves.as_mut_ptr()) };
    checked(result)?;
    let [low, high] = halves;
    Ok(u64::from(high.permitted) << 32 | u64::from(low.permitted))
}

/// Leaves this thread with these, permitted and effective, and none that is inherited.
pub(super) fn set_capabilities(bits: u64) -> io::Result<()> {
    let mut header = header();
    let half = |bits: u32| Half {
        effective: bits,
        permitted: bits,
        inheritable: 0,
    };
    let halves = [
        half(u32::try_from(bits & 0xffff_ffff).unwrap_or_default()),
        half(u32::try_from(bits >> 32).unwrap_or_default()),
    ];
    // SAFETY: The kernel reads two halves, which is what this version has.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, halves.as_ptr()) };
    checked(result)
}

/// Nothing that this thread executes has others than these, where the kernel lets it say so.
pub(super) fn drop_bounds(kept: u64) {
    for number in (0..=HIGHEST).filter(|number| kept & 1 << number == 0) {
        // SAFETY: Plain numbers. It fails beyond the last capability, and for those who have none to lose.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(number), 0, 0, 0) };
    }
}

/// Nothing that is executed gains privileges.
pub(super) fn no_new_privileges() -> io::Result<()> {
    let one: libc::c_ulong = 1;
    let none: libc::c_ulong = 0;
    // SAFETY: Plain numbers.
    let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, one, none, none, none) };
    checked(result.into())
}

/// Installs a filter for all threads of the process.
pub(super) fn install(program: &[Instruction]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: program.as_ptr().cast_mut().cast(),
    };
    // SAFETY: The kernel reads the program, whose instructions have its layout; it is copied before the call returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const program,
        )
    };
    if result > 0 {
        // A thread has a filter of its own, which cannot be replaced.
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    checked(result)
}

const fn header() -> Header {
    Header {
        version: VERSION,
        thread: 0,
    }
}

fn checked(result: libc::c_long) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
