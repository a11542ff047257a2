//! System calls of the thread that keeps the time: clocks, sockets with timestamps, timers.
//!
//! All of them go through the C library, by calls that a network simulator replaces: plain datagram sockets, `poll` and
//! `timerfd`, one buffer per message. No `epoll`, no `sendmmsg`, nothing of std's network, no system call of its own.

pub mod clock;
mod datagram;
pub mod other_daemons;
pub mod socket;
pub mod timer;

use std::io;
use std::os::fd::RawFd;

use rustix::rand::{GetRandomFlags, getrandom};

pub use sys::wait::Events;

/// Waits until one of these is ready, without a timeout. Writes the state of each beside it.
///
/// # Errors
///
/// The kernel refuses; a signal is no error.
pub fn wait(descriptors: &mut [(RawFd, Events)]) -> io::Result<()> {
    sys::wait::poll(descriptors)
}

/// From here on SIGTERM and SIGINT do not end the process but wake [`wait`], and [`is_stopped`] says so.
///
/// # Errors
///
/// The kernel refuses.
pub fn stop_on_signals() -> io::Result<()> {
    sys::wait::stop_on_signals()
}

/// Whether one of these came.
#[must_use]
pub fn is_stopped() -> bool {
    sys::wait::is_stopped()
}

/// An unpredictable seed.
///
/// # Errors
///
/// The kernel has none.
pub fn seed() -> io::Result<[u8; 16]> {
    let mut octets = [0_u8; 16];
    if getrandom(&mut octets, GetRandomFlags::empty())? == octets.len() {
        Ok(octets)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}
