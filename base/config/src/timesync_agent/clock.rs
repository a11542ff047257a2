//! `[selection]`, `[clock]`, `[leap]` and `[local]`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Number;
use crate::{As, LONGEST_SPAN, Real, Seconds, Whole};

/// Selection of sources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Selection {
    /// The number of sources that must agree.
    #[serde(rename = "minsources", with = "As::<Whole<usize, 1, 1000>>")]
    pub min_sources: usize,
    /// The largest root distance of a source that may be followed.
    #[serde(rename = "maxdistance", with = "As::<Seconds>")]
    pub max_distance: f64,
    /// The largest jitter of a source that may be followed.
    #[serde(rename = "maxjitter", with = "As::<Seconds>")]
    pub max_jitter: f64,
    /// Sources within this many times the distance of the best one are combined with it; 0 combines none.
    #[serde(rename = "combinelimit", with = "As::<Real<0, 1_000_000_000>>")]
    pub combine_limit: f64,
    /// Another source must be closer by this distance to replace the selected one.
    #[serde(rename = "reselectdist", with = "As::<Seconds>")]
    pub reselect_distance: f64,
    /// The distance that one stratum adds.
    #[serde(rename = "stratumweight", with = "As::<Seconds>")]
    pub stratum_weight: f64,
    /// Whether timesync-agent refuses a source that gives a time before the last known one: the release of this version, or
    /// the last change of the drift file less a day, whichever is later. An island's own time is not refused. If the drift
    /// file is wrong, remove it and restart the service.
    #[serde(rename = "last-known")]
    pub last_known: bool,
    /// timesync-agent refuses a source without a key that gives a time later than the last known one by more than this: the
    /// longest time that the machine is off. Reference clocks are not refused.
    #[serde(rename = "longest-absence", with = "As::<Seconds>")]
    pub longest_absence: f64,
    /// The use of sources without a key beside sources with one.
    #[serde(rename = "authselectmode")]
    pub authentication: AuthSelectMode,
}

impl Default for Selection {
    fn default() -> Self {
        Self {
            min_sources: 1,
            max_distance: 3.0,
            max_jitter: 1.0,
            combine_limit: 3.0,
            reselect_distance: 1e-4,
            stratum_weight: 1e-3,
            last_known: true,
            // Five years.
            longest_absence: 157_680_000.0,
            authentication: AuthSelectMode::Mix,
        }
    }
}

/// The role of authentication in selection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthSelectMode {
    /// Only sources with a key are selected.
    Require,
    /// Sources without a key are selected while there is none with one.
    Prefer,
    /// Beside sources without a key, those with one and reference clocks are required and trusted.
    #[default]
    Mix,
    /// A key makes no difference.
    Ignore,
}

/// Correction of the clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Clock {
    /// The file that keeps the frequency over restarts. In a second file, the same name with `.reference`, a process leaves
    /// its reference to the next one, which is synchronised at once if it starts within five minutes.
    #[serde(rename = "driftfile")]
    #[schemars(extend("x-example" = "\"/var/lib/chrony/drift\""))]
    pub drift_file: Option<PathBuf>,
    /// The shortest time between two writes of it.
    #[serde(rename = "driftfile-interval", with = "As::<Seconds>")]
    pub drift_file_interval: f64,
    /// timesync-agent steps the clock instead of slewing it if the offset exceeds `threshold`, in the first `limit` updates.
    /// Without this key it never steps the clock.
    #[schemars(extend("x-example" = "[clock.makestep]\nthreshold = \"1s\"\nlimit = 3"))]
    pub makestep: Option<MakeStep>,
    /// After `delay` updates, timesync-agent ignores a correction larger than `offset` `ignore` times, and then ends. The
    /// rest of an earlier correction does not count.
    #[serde(rename = "maxchange")]
    #[schemars(extend("x-example" = "[clock.maxchange]\noffset = \"1000s\"\ndelay = 1\nignore = 2"))]
    pub max_change: Option<MaxChange>,
    /// The fastest slew, in parts per million.
    #[serde(rename = "maxslewrate", with = "As::<Real<1, 100_000_000, 1000>>")]
    pub max_slew_rate: f64,
    /// The largest plausible frequency, in parts per million.
    #[serde(rename = "maxdrift", with = "As::<Real<0, 500_000>>")]
    pub max_drift: f64,
    /// The largest uncertainty of a frequency that is used, in parts per million.
    #[serde(rename = "maxupdateskew", with = "As::<Real<0, 1_000_000>>")]
    pub max_update_skew: f64,
    /// How much the frequency may change by itself, in parts per million.
    #[serde(rename = "maxclockerror", with = "As::<Real<0, 1_000_000>>")]
    pub max_clock_error: f64,
    /// A larger ratio corrects more slowly and disturbs the frequency less.
    #[serde(rename = "corrtimeratio", with = "As::<Real<1, 1_000_000_000, 1000>>")]
    pub correction_time_ratio: f64,
    /// The precision of the clock. Default: timesync-agent measures it.
    #[serde(
        rename = "clockprecision",
        with = "As::<Option<Seconds<1, 1_000_000_000>>>"
    )]
    #[schemars(extend("x-example" = "\"100ns\""))]
    pub precision: Option<f64>,
    /// Whether the kernel copies the time to the real-time clock every eleven minutes, after the first source was heard.
    pub rtcsync: bool,
    /// Without sources for a long time, timesync-agent uses average frequencies over 2^min to 2^max seconds.
    #[serde(rename = "fallbackdrift")]
    #[schemars(extend("x-example" = "[clock.fallbackdrift]\nmin = 16\nmax = 19"))]
    pub fallback_drift: Option<FallbackDrift>,
    /// Smooth time for clients. Once the frequency is well known, the served time follows corrections of this clock with at
    /// most this frequency and this wander, and the reference ID is 127.127.1.255 meanwhile. With `leap-only` it smears only
    /// leap seconds: the numbers of the example, mode `slew` in `[leap]` and a `maxslewrate` of 1000 spread one over
    /// 62,500 s, without an announcement. All servers of a client must do the same.
    #[schemars(extend("x-example" = "[clock.smoothtime]\nmax-frequency = 400.0\nmax-wander = 0.001024\nleap-only = true"))]
    pub smoothtime: Option<SmoothTime>,
    /// Correction of the frequency by a temperature T from a file, in parts per million: k0 + (T - t0) k1 + (T - t0)^2 k2, or
    /// by interpolation between `points`. A correction above 10 ppm is ignored. `tracking` and the drift file show the
    /// frequency without it.
    #[serde(rename = "tempcomp")]
    #[schemars(extend("x-example" = "[clock.tempcomp]\nfile = \"/sys/class/hwmon/hwmon0/temp2_input\"\ninterval = \"30s\"\nt0 = 26000.0\nk1 = 0.000183"))]
    pub temperature: Option<TemperatureCompensation>,
    /// Whether the time may be entered with chronyc's `settime`. `chronyc manual on` and `manual off` change it until the
    /// configuration is read again.
    pub manual: bool,
    /// timesync-agent logs corrections that are larger than this.
    #[serde(rename = "logchange", with = "As::<Seconds>")]
    pub log_change: f64,
}

impl Default for Clock {
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
            manual: false,
            log_change: 1.0,
        }
    }
}

/// The condition of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MakeStep {
    /// The offset above which timesync-agent steps the clock.
    #[serde(with = "As::<Seconds>")]
    pub threshold: f64,
    /// The number of updates of the clock in which it does. Default: all.
    #[serde(default, with = "As::<Option<Number<1>>>")]
    pub limit: Option<u32>,
}

/// The condition of giving up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MaxChange {
    /// The largest correction.
    #[serde(with = "As::<Seconds>")]
    pub offset: f64,
    /// The number of updates of the clock before the condition holds.
    #[serde(with = "As::<Number>")]
    pub delay: u32,
    /// The number of larger corrections that are ignored first. Default: all.
    #[serde(default, with = "As::<Option<Number>>")]
    pub ignore: Option<u32>,
}

/// Intervals over which the frequency is averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FallbackDrift {
    /// The shortest, as a power of two in seconds.
    #[serde(with = "As::<Whole<i8, 1, 24>>")]
    pub min: i8,
    /// The longest, which is not below `min`.
    #[serde(with = "As::<Whole<i8, 1, 24>>")]
    pub max: i8,
}

/// Smooth time for clients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SmoothTime {
    /// The largest frequency, in parts per million.
    #[serde(with = "As::<Real<0, 1_000_000>>")]
    pub max_frequency: f64,
    /// The largest change of the frequency, in parts per million and second.
    #[serde(with = "As::<Real<0, 1_000_000>>")]
    pub max_wander: f64,
    /// Whether only leap seconds are smoothed.
    #[serde(default)]
    pub leap_only: bool,
}

/// A coefficient of the temperature.
type Coefficient = Real<-1_000_000_000_000, 1_000_000_000_000>;

/// Frequency by temperature.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TemperatureCompensation {
    /// The file of the temperature.
    pub file: PathBuf,
    /// The time between two readings.
    #[serde(with = "As::<Seconds<100_000_000, LONGEST_SPAN>>")]
    pub interval: f64,
    /// A file of points, with a temperature and a frequency on each of its lines. It replaces the four numbers.
    #[serde(default)]
    pub points: Option<PathBuf>,
    /// The temperature t0.
    #[serde(default, with = "As::<Coefficient>")]
    pub t0: f64,
    /// The frequency at t0.
    #[serde(default, with = "As::<Coefficient>")]
    pub k0: f64,
    /// The linear term.
    #[serde(default, with = "As::<Coefficient>")]
    pub k1: f64,
    /// The quadratic term.
    #[serde(default, with = "As::<Coefficient>")]
    pub k2: f64,
}

/// Leap seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Leap {
    /// The source of leap seconds: a time zone of the system. timesync-agent reads it every hour; it must contain the leap
    /// second of 2012.
    #[serde(rename = "timezone")]
    #[schemars(extend("x-example" = "\"right/UTC\""))]
    pub time_zone: Option<String>,
    /// A list as IERS publishes it, for a system without the time zone. Default: the system's.
    #[schemars(extend("x-example" = "\"/usr/share/zoneinfo/leap-seconds.list\""))]
    pub list: Option<PathBuf>,
    /// The way in which a leap second is applied.
    pub mode: LeapMode,
}

/// The way in which a leap second is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LeapMode {
    /// The kernel applies it.
    #[default]
    System,
    /// timesync-agent steps the clock.
    Step,
    /// timesync-agent slews the clock once the leap second has passed.
    Slew,
    /// timesync-agent corrects the clock as for any other offset.
    Ignore,
}

/// The node's own time, for when there is no other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Local {
    /// The stratum to serve.
    #[serde(with = "As::<Whole<u8, 1, 15>>")]
    pub stratum: u8,
    /// timesync-agent serves the node's own time when the root distance is above this.
    #[serde(with = "As::<Seconds>")]
    pub distance: f64,
    /// Whether, of several nodes that list each other as servers, the one with the smallest reference ID leads and the
    /// others follow. When it fails, the next one leads.
    pub orphan: bool,
    /// timesync-agent serves the node's own time only after the root distance was once below this; 0 is at once.
    #[serde(with = "As::<Seconds>")]
    pub activate: f64,
    /// How long to wait after the last update.
    #[serde(rename = "waitsynced", with = "As::<Seconds>")]
    pub wait_synchronised: f64,
    /// How long to wait after a start without any update.
    #[serde(rename = "waitunsynced", with = "As::<Seconds>")]
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
