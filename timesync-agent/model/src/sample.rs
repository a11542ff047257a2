//! Samples of clocks and NICs: when a packet passed, and the time of a reference clock.

use crate::time::{RawTime, UnixTime};
use crate::view::{Leap, StampSource};

/// Root distance, in seconds: half of the root delay and the root dispersion (RFC 5905 §11.2).
#[must_use]
pub fn root_distance(delay: f64, dispersion: f64) -> f64 {
    delay / 2.0 + dispersion
}

/// When a datagram passed, as the wall clock showed it then.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stamp {
    /// When.
    pub wall: UnixTime,
    /// The same on the raw clock, where that was measured and not the wall clock.
    pub raw: Option<RawTime>,
    /// The reader of the clock.
    pub by: StampSource,
    /// Bound on the error of the reading, in seconds.
    pub error: f64,
}

/// One sample of a reference clock, made from many readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockSample {
    /// The middle of what it was made from.
    pub at: RawTime,
    /// Wall time of the clock − raw time, in nanoseconds.
    pub ahead: i64,
    /// In seconds.
    pub dispersion: f64,
    /// `delay`, in seconds.
    pub delay: f64,
    /// `precision`, in seconds.
    pub precision: f64,
    /// `stratum`.
    pub stratum: u8,
    /// Leap second at hand.
    pub leap: Leap,
    /// `refid`.
    pub reference_id: u32,
}
