//! The kernel's clocks, and the way they are steered.
//!
//! These are the C library's calls, which a simulator replaces.

use std::io;
use std::mem;

use crate::checked;

const NANOSECONDS: i64 = 1_000_000_000;

/// Attempts to read both clocks; the quickest counts.
const TRIES: usize = 3;

/// A clock that every kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The time of day, since 1970 (`CLOCK_REALTIME`).
    Wall,
    /// Never steps, and is slewed with the time of day (`CLOCK_MONOTONIC`).
    Monotonic,
    /// Never steps and is never slewed (`CLOCK_MONOTONIC_RAW`).
    Raw,
    /// Never steps, and counts while the machine sleeps (`CLOCK_BOOTTIME`).
    Boot,
}

/// Reads a clock, in nanoseconds.
#[must_use]
pub fn read(clock: Clock) -> i64 {
    let id = match clock {
        Clock::Wall => libc::CLOCK_REALTIME,
        Clock::Monotonic => libc::CLOCK_MONOTONIC,
        Clock::Raw => libc::CLOCK_MONOTONIC_RAW,
        Clock::Boot => libc::CLOCK_BOOTTIME,
    };
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: The kernel writes to a `timespec` of ours, and does not fail of clocks that every kernel has.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    time.tv_sec
        .saturating_mul(NANOSECONDS)
        .saturating_add(time.tv_nsec)
}

/// The raw and the wall clock at one moment, as nearly as can be.
#[must_use]
pub fn raw_and_wall() -> (i64, i64) {
    let mut best = (i64::MAX, (0, 0));
    for _ in 0..TRIES {
        let before = read(Clock::Raw);
        let wall = read(Clock::Wall);
        let took = read(Clock::Raw) - before;
        if took < best.0 {
            best = (took, (before + took / 2, wall));
        }
    }
    best.1
}

/// A change of the clock that changes nothing, for the caller to fill in.
#[must_use]
pub fn no_adjustment() -> libc::timex {
    // SAFETY: `timex` is numbers alone, and all of them may be zero.
    unsafe { mem::zeroed() }
}

/// Changes the clock as `modes` says, and reads its state. Returns the clock's state
/// (`TIME_OK`, `TIME_INS`).
pub fn adjust(adjustment: &mut libc::timex) -> io::Result<i32> {
    // SAFETY: The kernel reads and writes a `timex` of ours.
    checked(unsafe { libc::adjtimex(adjustment) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forwards() {
        for clock in [Clock::Wall, Clock::Monotonic, Clock::Raw, Clock::Boot] {
            assert!(read(clock) > 0, "{clock:?}");
        }
        let before = read(Clock::Raw);
        let (raw, wall) = raw_and_wall();
        assert!(before <= raw && raw <= read(Clock::Raw));
        assert!(wall > 1_700_000_000 * NANOSECONDS);
    }

    #[test]
    fn to_change_nothing_is_to_read() {
        let mut state = no_adjustment();
        assert!(adjust(&mut state).is_ok());
        assert!(state.tick > 0);
    }
}
