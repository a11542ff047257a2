//! What clients are told of the clock, as laws over time: made where the clock is kept, evaluated wherever a request is answered.

use crate::time::{Span, UnixTime};
use crate::view::Leap;

/// The clock as clients see it. Moments that it takes are on the wall clock of this node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reference {
    /// When the values below held; they change at their rates since.
    pub since: UnixTime,
    /// Leap second at hand; `Unsynchronised` if there is no time to tell.
    pub leap: Leap,
    /// Own stratum, from 1 to 15; 0 if there is no time to tell.
    pub stratum: u8,
    /// Who is followed.
    pub reference_id: u32,
    /// When the clock was last told what time it is.
    pub reference_time: UnixTime,
    /// Round trip to the primary source, in seconds.
    pub root_delay: f64,
    /// Error collected on the way to the primary source, in seconds.
    pub root_dispersion: f64,
    /// By how much that grows, in seconds per second.
    pub dispersion_rate: f64,
    /// What the wall clock lacks, in seconds: added to every stamp that a client is given. Positive if the clock is slow. While
    /// the clock is slewed this is what is left of it; where the clock is not touched, all of its estimated offset.
    pub correction: f64,
    /// By how much that changes, in seconds per second.
    pub correction_rate: f64,
    /// The correction changes until then and not any more (a slew has an end).
    pub correction_until: UnixTime,
}

impl Default for Reference {
    /// No time to tell.
    fn default() -> Self {
        Self {
            since: UnixTime(0),
            leap: Leap::Unsynchronised,
            stratum: 0,
            reference_id: 0,
            reference_time: UnixTime(0),
            root_delay: 0.0,
            root_dispersion: 0.0,
            dispersion_rate: 0.0,
            correction: 0.0,
            correction_rate: 0.0,
            correction_until: UnixTime(i64::MAX),
        }
    }
}

impl Reference {
    /// Whether there is time to tell.
    #[must_use]
    pub fn is_synchronised(&self) -> bool {
        self.leap != Leap::Unsynchronised && (1..16).contains(&self.stratum)
    }

    /// Root dispersion at a moment, in seconds; never less than it was.
    #[must_use]
    pub fn root_dispersion_at(&self, wall: UnixTime) -> f64 {
        let elapsed = (wall - self.since).seconds().max(0.0);
        self.root_dispersion + elapsed * self.dispersion_rate
    }

    /// True time, as far as it is known, at a moment of the wall clock.
    #[must_use]
    pub fn corrected(&self, wall: UnixTime) -> UnixTime {
        let elapsed = (wall.min(self.correction_until) - self.since).seconds();
        wall + Span::from_seconds(self.correction + elapsed.max(0.0) * self.correction_rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SECOND;

    const START: UnixTime = UnixTime(1_800_000_000 * SECOND);

    #[test]
    fn dispersion_grows_and_never_shrinks() {
        let reference = Reference {
            since: START,
            root_dispersion: 0.001,
            dispersion_rate: 1e-6,
            ..Reference::default()
        };
        let at = |seconds| reference.root_dispersion_at(START + Span(seconds * SECOND));
        assert!((at(0) - 0.001).abs() < 1e-12);
        assert!((at(1000) - 0.002).abs() < 1e-12);
        assert!((at(-1000) - 0.001).abs() < 1e-12, "before it was made");
    }

    #[test]
    fn a_slew_is_anticipated_until_its_end() {
        let reference = Reference {
            since: START,
            correction: 0.1,
            correction_rate: -0.01,
            correction_until: START + Span(10 * SECOND),
            ..Reference::default()
        };
        for (after, left) in [(0, 100), (1, 90), (9, 10), (10, 0), (11, 0), (1000, 0)] {
            let wall = START + Span(after * SECOND);
            let corrected = reference.corrected(wall);
            let error = corrected - wall - Span(left * 1_000_000);
            assert!(error.0.abs() <= 1, "{after} s: {error:?}");
        }
    }
}
