//! Wakes the loop: a timer, and a counter that other threads add to.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use time_model::time::Span;

use sys::wait;

/// A timer that goes off once.
#[derive(Debug)]
pub struct Timer(OwnedFd);

impl Timer {
    /// One that is not set.
    ///
    /// # Errors
    ///
    /// There is no descriptor left.
    pub fn new() -> io::Result<Self> {
        wait::timer().map(Self)
    }

    /// Lets it go off after this; at once if that is no time.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn set(&self, after: Span) -> io::Result<()> {
        wait::set_timer(&self.0, after.0)
    }

    /// It has gone off.
    pub fn clear(&self) {
        wait::clear(&self.0);
    }

    /// The descriptor to wait for.
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Lets another thread wake the loop.
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    /// A new one.
    ///
    /// # Errors
    ///
    /// There is no descriptor left.
    pub fn new() -> io::Result<Self> {
        wait::counter().map(Self)
    }

    /// Wakes the loop.
    pub fn wake(&self) {
        wait::count(&self.0);
    }

    /// It is awake.
    pub fn clear(&self) {
        wait::clear(&self.0);
    }

    /// The descriptor to wait for.
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
