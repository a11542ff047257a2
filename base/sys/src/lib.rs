//! System calls that have no safe wrapper elsewhere, each made safe here.
//!
//! This is the one crate with unsafe code; all others deny it. A call that rustix, socket2 or std already
//! make safe is used through them: rustix with its feature `use-libc`, so that every call here is a symbol
//! of the C library, which a simulator of clocks and networks may replace.
//!
//! | module | holds |
//! | --- | --- |
//! | [`address`] | socket addresses as the kernel writes them |
//! | [`control`] | control messages of datagrams, read and written |
//! | [`source`] | the local address of a reply |
//! | [`message`] | one datagram with its control messages |
//! | [`batch`] | many datagrams with one call, answered in place |
//! | [`option`] | options of sockets that are numbers |
//! | [`tcp`] | the peer's acknowledgements and window of a connection |
//! | [`link`] | frames of the link layer |
//! | [`nic`] | requests to NICs |
//! | [`clock`] | the kernel's clocks, and the way they are steered |
//! | [`wait`] | poll, timers, counters that wake a thread, signals that end a loop |
//! | [`device`] | requests to devices |
//! | [`shared`] | memory that is shared with other programs |
//! | [`peer`] | the process at the other end of a Unix socket |
//! | [`privilege`] | capabilities and filters of system calls |
//! | [`inherit`] | sockets from the service manager |
//! | [`memory`] | freed memory, returned to the system |
//!
//! Never decides, logs, or knows a protocol.

#![warn(missing_docs)]
#![expect(
    unsafe_code,
    reason = "the one crate that makes system calls without a safe wrapper; each call says why it is sound"
)]

pub mod address;
pub mod batch;
pub mod clock;
pub mod control;
pub mod device;
pub mod inherit;
pub mod link;
pub mod memory;
pub mod message;
pub mod nic;
pub mod option;
pub mod peer;
pub mod privilege;
pub mod shared;
pub mod source;
pub mod tcp;
pub mod wait;

use std::io;

/// The result of a call, or its error.
fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// A length as the kernel counts it.
fn length_of(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Copies as much as fits.
fn copy(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}
