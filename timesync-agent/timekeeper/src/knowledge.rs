//! The knowledge of true time, and its sources.

use crate::terms::SourceId;
use time_model::time::{RawTime, Reading, Span};

/// The combined estimate of all sources.
#[derive(Clone, Copy, Debug)]
pub(super) struct Knowledge {
    pub(super) at: RawTime,
    /// True time less raw time at `at`, in nanoseconds, and what is less than a nanosecond in seconds.
    pub(super) ahead: i64,
    pub(super) frequency: f64,
    /// The offset.
    pub(super) deviation: f64,
}

impl Knowledge {
    /// True time less wall time, in seconds.
    pub(super) fn offset(&self, now: Reading) -> f64 {
        let gained = self.frequency * (now.raw - self.at).seconds();
        let ahead = self
            .ahead
            .saturating_sub(now.wall.0.saturating_sub(now.raw.0));
        Span(ahead).seconds() + gained
    }

    /// From a moment on it gains otherwise.
    pub(super) fn turn(&mut self, frequency: f64, at: RawTime) {
        let gained = self.frequency * (at - self.at).seconds();
        self.ahead = self.ahead.saturating_add(Span::from_seconds(gained).0);
        self.at = at;
        self.frequency = frequency;
    }
}

/// The root values of the system peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Root {
    /// None if another process heard it.
    pub(super) source: Option<SourceId>,
    pub(super) reference_id: u32,
    pub(super) stratum: u8,
    pub(super) at: Reading,
    pub(super) delay: f64,
    pub(super) dispersion: f64,
    /// It is another orphan, and nothing stands behind its time.
    pub(super) orphan: bool,
}
