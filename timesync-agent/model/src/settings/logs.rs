//! Files of what happened.

use std::path::PathBuf;

/// Files of what happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a word of its own in the configuration"
)]
pub struct LogSettings {
    /// `logdir`: the directory; without one nothing is written.
    pub directory: Option<PathBuf>,
    /// `logbanner`: lines between headings; 0 is no heading.
    pub banner: u32,
    /// `rawmeasurements`: every response.
    pub raw_measurements: bool,
    /// `measurements`: every sample.
    pub measurements: bool,
    /// `selection`.
    pub selection: bool,
    /// `statistics`: every update of a source's estimate.
    pub statistics: bool,
    /// `tracking`: every update of the clock.
    pub tracking: bool,
    /// `rtc`.
    pub rtc: bool,
    /// `refclocks`.
    pub refclocks: bool,
    /// `tempcomp`.
    pub temperature: bool,
}

impl LogSettings {
    /// Whether anything is to be written.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.raw_measurements
            || self.measurements
            || self.selection
            || self.statistics
            || self.tracking
            || self.refclocks
            || self.temperature
    }
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            directory: None,
            banner: 32,
            raw_measurements: false,
            measurements: false,
            selection: false,
            statistics: false,
            tracking: false,
            rtc: false,
            refclocks: false,
            temperature: false,
        }
    }
}
