//! The clock discipline, and the local time that is served when there is no other.

use std::path::PathBuf;

/// The clock discipline.
#[derive(Clone, Debug, PartialEq)]
pub struct ClockSettings {
    /// `driftfile`: the frequency, kept between runs.
    pub drift_file: Option<PathBuf>,
    /// `driftfile … interval`: shortest time between two writes of it, in seconds.
    pub drift_file_interval: f64,
    /// `makestep`: when to step; never unless given.
    pub makestep: Option<MakeStep>,
    /// `maxchange`: beyond which the program gives up.
    pub max_change: Option<MaxChange>,
    /// `maxslewrate`, in parts per million; at most 100,000.
    pub max_slew_rate: f64,
    /// `maxdrift`: bound on the frequency, in parts per million.
    pub max_drift: f64,
    /// `maxupdateskew`: skew above which a frequency is not used, in parts per million.
    pub max_update_skew: f64,
    /// `maxclockerror`: by how much the frequency may change on its own, in parts per million.
    pub max_clock_error: f64,
    /// `corrtimeratio`: how long a correction takes, in intervals between corrections.
    pub correction_time_ratio: f64,
    /// `clockprecision` in seconds; measured at start unless given.
    pub precision: Option<f64>,
    /// `rtcsync`: let the kernel copy the time to the real-time clock.
    pub rtcsync: bool,
    /// `fallbackdrift`: intervals, as powers of two in seconds, over which the frequency is averaged for when sources go.
    pub fallback_drift: Option<FallbackDrift>,
    /// `smoothtime`: the served time changes slowly.
    pub smoothtime: Option<SmoothTime>,
    /// `tempcomp`: frequency by temperature.
    pub temperature: Option<TemperatureCompensation>,
    /// `logchange`: corrections above this, in seconds, are worth a line.
    pub log_change: f64,
}

impl Default for ClockSettings {
    fn default() -> Self {
        Self {
            drift_file: None,
            drift_file_interval: 3600.0,
            makestep: None,
            max_change: None,
            max_slew_rate: 1e6 / 12.0,
            max_drift: 500_000.0,
            max_update_skew: 1000.0,
            max_clock_error: 1.0,
            correction_time_ratio: 3.0,
            precision: None,
            rtcsync: false,
            fallback_drift: None,
            smoothtime: None,
            temperature: None,
            log_change: 1.0,
        }
    }
}

/// When to step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MakeStep {
    /// Corrections above this many seconds.
    pub threshold: f64,
    /// The number of updates of the clock; `None` is always.
    pub limit: Option<u32>,
}

/// When to give up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaxChange {
    /// A correction above this many seconds.
    pub offset: f64,
    /// The number of updates of the clock before it takes effect.
    pub delay: u32,
    /// The number of excesses that are ignored before; `None` is all of them.
    pub ignore: Option<u32>,
}

/// Intervals over which the frequency is averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FallbackDrift {
    /// The shortest, as a power of two in seconds.
    pub min: i8,
    /// The longest.
    pub max: i8,
}

/// How slowly served time changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmoothTime {
    /// Frequency offset, in parts per million.
    pub max_frequency: f64,
    /// Change of frequency, in parts per million and second.
    pub max_wander: f64,
    /// For leap seconds alone.
    pub leap_only: bool,
}

/// Frequency by temperature.
#[derive(Clone, Debug, PartialEq)]
pub struct TemperatureCompensation {
    /// The file of the temperature.
    pub file: PathBuf,
    /// How often, in seconds.
    pub interval: f64,
    /// The frequency that follows from it.
    pub law: TemperatureLaw,
}

/// Frequency, in parts per million, by the number that is read.
#[derive(Clone, Debug, PartialEq)]
pub enum TemperatureLaw {
    /// k0 + (t − t0)·k1 + (t − t0)²·k2.
    Quadratic {
        /// t0
        t0: f64,
        /// k0
        k0: f64,
        /// k1
        k1: f64,
        /// k2
        k2: f64,
    },
    /// Points of a file.
    Points(PathBuf),
}

/// Leap seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeapSettings {
    /// `leapsectz`: the name of a time zone with leap seconds.
    pub time_zone: Option<String>,
    /// `leapseclist`: a file in the form of the IERS.
    pub list: Option<PathBuf>,
    /// `leapsecmode`.
    pub mode: LeapMode,
}

/// The inserter of a leap second, and the way it is inserted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeapMode {
    /// The kernel.
    #[default]
    System,
    /// This program, in one step.
    Step,
    /// This program, by slewing once it has passed.
    Slew,
    /// The clock is corrected as for any other offset.
    Ignore,
}

/// Give the own time when there is no other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Local {
    /// As this stratum; from 1 to 15.
    pub stratum: u8,
    /// `distance`: once the root distance is above, in seconds.
    pub distance: f64,
    /// `orphan`: one of several that name each other leads, that with the smallest reference ID.
    pub orphan: bool,
    /// `activate`: not before the root distance was below this; 0 is at once.
    pub activate: f64,
    /// `waitsynced`: seconds without update before it is used, once the clock was synchronised.
    pub wait_synchronised: f64,
    /// `waitunsynced`: the same while it never was.
    pub wait_unsynchronised: f64,
}

impl Default for Local {
    fn default() -> Self {
        Self {
            stratum: 10,
            distance: 1.0,
            orphan: false,
            activate: 0.0,
            wait_synchronised: 0.0,
            wait_unsynchronised: 0.0,
        }
    }
}
