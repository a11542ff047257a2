//! The node's state as an association needs it: its clocks, its keys, and the time for its own clients.

use crate::keys::KeyRing;
use time_model::time::{RawTime, Reading, UnixTime};
use time_model::view::StampSource;
use timekeeper::Reference;

/// When a datagram passed, on the raw clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RawStamp {
    /// When.
    pub at: RawTime,
    /// The reader of the clock.
    pub by: StampSource,
    /// Bound on the error of the reading, in seconds.
    pub error: f64,
}

/// The state of the node.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Both clocks.
    pub now: Reading,
    /// By how much the wall clock gains on the raw clock, in parts per billion.
    pub rate: f64,
    /// The learned part of it, without what slews the clock for a while.
    pub frequency: f64,
    /// Bound on the error of that, in seconds per second.
    pub skew: f64,
    /// Precision of the wall clock, in seconds.
    pub precision: f64,
    /// Keys.
    pub keys: &'a KeyRing,
    /// The time for clients, if the node can have any.
    pub told: Option<&'a Reference>,
}

impl Context<'_> {
    /// The wall time of a raw time, if the wall clock was not touched since.
    #[must_use]
    pub fn wall(&self, raw: RawTime) -> UnixTime {
        self.now.wall_at(raw, self.rate)
    }

    /// The raw time of a wall time.
    #[must_use]
    pub fn raw(&self, wall: UnixTime) -> RawTime {
        self.now.raw_at(wall, self.rate)
    }
}
