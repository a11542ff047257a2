//! What an association is told of the node: its clocks, its keys, and what its own clients are told.

use crate::keys::KeyRing;
use time_model::time::{RawTime, Reading, UnixTime};
use time_model::view::StampSource;
use timekeeper::Reference;

/// When a datagram passed, on the raw clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RawStamp {
    /// When.
    pub at: RawTime,
    /// Who read the clock.
    pub by: StampSource,
    /// Bound on the error of the reading, in seconds.
    pub error: f64,
}

/// What an association needs to know of the node.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Both clocks.
    pub now: Reading,
    /// By how much the wall clock gains on the raw clock, in parts per billion.
    pub rate: f64,
    /// Precision of the wall clock, in seconds.
    pub precision: f64,
    /// Keys.
    pub keys: &'a KeyRing,
    /// What clients are told, if there can be any.
    pub told: Option<&'a Reference>,
}

impl Context<'_> {
    /// What the wall clock showed, or would have if it had not been touched since.
    #[must_use]
    pub fn wall(&self, raw: RawTime) -> UnixTime {
        self.now.wall_at(raw, self.rate)
    }

    /// What the raw clock showed.
    #[must_use]
    pub fn raw(&self, wall: UnixTime) -> RawTime {
        self.now.raw_at(wall, self.rate)
    }
}
