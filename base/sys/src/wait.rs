//! Waiting in a thread: poll, timers, counters that wake it, signals that end its loop.
//!
//! `poll` and `eventfd` are the C library's own, which a simulator replaces; rustix calls `ppoll`, and `eventfd2` by its number.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

use crate::checked;

const NANOSECONDS: i64 = 1_000_000_000;

/// The state of a descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Something to read.
    pub readable: bool,
    /// A stamp of what was sent, or an error.
    pub error: bool,
}

/// Waits until one of the descriptors is ready; a signal ends the wait, with none ready.
pub fn poll(descriptors: &mut [(RawFd, Events)]) -> io::Result<()> {
    let mut polled: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|(descriptor, _)| polled(*descriptor))
        .collect();
    match call(&mut polled, -1) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            // None of what an interrupted call left is of meaning.
            polled.iter_mut().for_each(|polled| polled.revents = 0);
        }
        Err(error) => return Err(error),
    }
    for ((_, events), polled) in descriptors.iter_mut().zip(&polled) {
        *events = Events {
            readable: polled.revents & libc::POLLIN != 0,
            error: polled.revents & (libc::POLLPRI | libc::POLLERR) != 0,
        };
    }
    Ok(())
}

/// Whether there is something to read, without waiting.
pub fn is_readable(descriptor: impl AsFd) -> io::Result<bool> {
    let mut polled = [polled(descriptor.as_fd().as_raw_fd())];
    call(&mut polled, 0)?;
    let [polled] = polled;
    Ok(polled.revents & libc::POLLIN != 0)
}

fn polled(descriptor: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd: descriptor,
        events: libc::POLLIN | libc::POLLPRI,
        revents: 0,
    }
}

fn call(polled: &mut [libc::pollfd], timeout: i32) -> io::Result<i32> {
    let n = libc::nfds_t::try_from(polled.len()).unwrap_or(0);
    // SAFETY: The array is as long as is said, and the kernel writes to its elements alone.
    checked(unsafe { libc::poll(polled.as_mut_ptr(), n, timeout) })
}

//--- Timers and counters

/// A timer that can be waited for.
pub fn timer() -> io::Result<OwnedFd> {
    // A network simulator makes no timer with another flag. The descriptor is closed in programs that this one executes by a
    // call of its own.
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
    fcntl_setfd(&timer, FdFlags::CLOEXEC)?;
    Ok(timer)
}

/// Starts a timer that expires once, after `nanoseconds`, at least one.
pub fn set_timer(timer: impl AsFd, nanoseconds: i64) -> io::Result<()> {
    let nanoseconds = nanoseconds.max(1);
    let once = libc::itimerspec {
        it_interval: libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        it_value: libc::timespec {
            tv_sec: nanoseconds / NANOSECONDS,
            tv_nsec: nanoseconds % NANOSECONDS,
        },
    };
    let timer = timer.as_fd().as_raw_fd();
    // rustix asks for the old time as well, which a simulator does not know.
    // SAFETY: The descriptor is borrowed, the kernel reads the new time alone, and it writes no old one to a null pointer.
    checked(unsafe { libc::timerfd_settime(timer, 0, &raw const once, ptr::null_mut()) })?;
    Ok(())
}

/// A counter by which another thread wakes one that [polls](poll).
pub fn counter() -> io::Result<OwnedFd> {
    // SAFETY: The call has numbers for its arguments.
    let counter = checked(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
    // SAFETY: The kernel has just made this descriptor, and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(counter) })
}

/// Adds one to a counter. A full counter wakes its reader anyway.
pub fn count(counter: impl AsFd) {
    let _full = rustix::io::write(counter, &1_u64.to_ne_bytes());
}

/// Reads a timer or a counter, so that the next poll waits for it again.
pub fn clear(descriptor: impl AsFd) {
    // One that has nothing says so, which is as well.
    let _nothing = rustix::io::read(descriptor, &mut [0_u8; 8]);
}

//--- Tasks

/// A descriptor whose reads the runtime waits for.
#[cfg(feature = "tokio")]
pub fn watched(descriptor: OwnedFd) -> io::Result<tokio::io::unix::AsyncFd<OwnedFd>> {
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    // SAFETY: An `OwnedFd` owns one descriptor, which stays open and the same until it is dropped, with the
    // `AsyncFd`.
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    watched.map_err(Into::into)
}

//--- Signals

/// A signal came that asks for the end.
static STOPPED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_signal(_: libc::c_int) {
    STOPPED.store(true, Ordering::Release);
}

/// Whether SIGTERM or SIGINT came since [`stop_on_signals`].
#[must_use]
pub fn is_stopped() -> bool {
    STOPPED.load(Ordering::Acquire)
}

/// Notes SIGTERM and SIGINT instead of ending the process. They interrupt a wait.
pub fn stop_on_signals() -> io::Result<()> {
    // SAFETY: `sigaction` is numbers, an empty set of signals and a pointer, and all of them may be zero.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = note_signal as extern "C" fn(libc::c_int) as usize;
    for signal in [libc::SIGTERM, libc::SIGINT] {
        // SAFETY: The handler only stores to an atomic, which is safe wherever it interrupts.
        checked(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_and_a_counter_wake_once() {
        let (timer, counter) = (timer().unwrap(), counter().unwrap());
        assert!(!is_readable(&timer).unwrap() && !is_readable(&counter).unwrap());
        set_timer(&timer, 0).unwrap();
        let mut all = [
            (timer.as_raw_fd(), Events::default()),
            (counter.as_raw_fd(), Events::default()),
        ];
        poll(&mut all).unwrap();
        let readable = all.map(|(_, events)| events.readable);
        assert_eq!(readable, [true, false]);
        clear(&timer);
        count(&counter);
        count(&counter);
        poll(&mut all).unwrap();
        assert_eq!(all.map(|(_, events)| events.readable), [false, true]);
        clear(&counter);
        clear(&counter);
        assert!(!is_readable(&counter).unwrap());
    }
}
