//! The inputs and the outputs of the timekeeper.

use time_model::sample::root_distance;
use time_model::settings::SelectOptions;
use time_model::time::{RawTime, Span, UnixTime};
use time_model::view::{Leap, SourceMode};

/// A source, as long as it is known. Numbers are the caller's and are not used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u32);

/// One measurement of a source: the time of its clock when the raw clock showed `at`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// The middle of the exchange.
    pub at: RawTime,
    /// The source's wall time less the raw time at `at`, in nanoseconds. It is about the Unix time of the boot, and as
    /// constant as the two clocks run alike.
    pub ahead: i64,
    /// The round trip without what the server took, in seconds; 0 of a reference clock.
    pub delay: f64,
    /// Errors of stamps and precisions, own and the server's, in seconds.
    pub dispersion: f64,
    /// The server's own round trip to the primary source, in seconds.
    pub root_delay: f64,
    /// The server's own error, in seconds.
    pub root_dispersion: f64,
    /// Its stratum; 0 of a reference clock.
    pub stratum: u8,
    /// The leap second that it announces.
    pub leap: Leap,
    /// Its own reference ID.
    pub reference_id: u32,
    /// When it was last told what time it is.
    pub reference_time: UnixTime,
    /// The reference ID of the own address as seen by this server: the smaller one of two orphans is the system peer. 0 if
    /// there is none.
    pub local_reference_id: u32,
}

impl Sample {
    /// The bound on its error, in seconds, as chronyd shows it for a source: the path from here to the primary source, and
    /// the errors on all of it.
    #[must_use]
    pub fn root_distance(&self) -> f64 {
        root_distance(
            self.root_delay + self.delay,
            self.root_dispersion + self.dispersion,
        )
    }
}

/// The result of a sample; chrony's tests B and C and our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It counts.
    Good,
    /// The round trip is above `maxdelayratio` times the shortest (test B).
    DelayRatio,
    /// It is above the quantile of `maxdelayquant` (test C).
    DelayDeviation,
    /// Older than the newest one, or not a number.
    Disordered,
    /// A leap second is so close that sources may have inserted it or not.
    LeapSecond,
    /// It is at odds with everything known; a few more of these and what is known goes.
    Contradiction,
    /// There is no such source.
    Unknown,
}

/// How a source is weighed.
#[derive(Clone, Debug, PartialEq)]
pub struct Weighing {
    /// A server or a reference clock.
    pub mode: SourceMode,
    /// `noselect`, `prefer`, `trust`, `require`.
    pub select: SelectOptions,
    /// Signed with a key.
    pub authenticated: bool,
    /// `minpoll`.
    pub minpoll: i8,
    /// `maxpoll`.
    pub maxpoll: i8,
    /// `polltarget`.
    pub polltarget: u32,
    /// `maxdelayratio`.
    pub max_delay_ratio: Option<f64>,
    /// `maxdelayquant`.
    pub max_delay_quantile: Option<f64>,
    /// `mindelay`: the shortest round trip, in seconds, where it is known.
    pub min_delay: Option<f64>,
    /// `asymmetry` of jitter, from −0.5 to 0.5.
    pub asymmetry: Option<f64>,
    /// `offset`: added to what is measured, in seconds.
    pub offset: f64,
    /// `maxsamples`.
    pub max_samples: Option<u32>,
    /// `stratum` that is added, of a reference clock.
    pub stratum: u8,
    /// `copy`: a client that follows it has the reference ID that it has itself.
    pub copy: bool,
}

impl Default for Weighing {
    fn default() -> Self {
        Self {
            mode: SourceMode::Server,
            select: SelectOptions::default(),
            authenticated: false,
            minpoll: 6,
            maxpoll: 10,
            polltarget: 8,
            max_delay_ratio: None,
            max_delay_quantile: None,
            min_delay: None,
            asymmetry: None,
            offset: 0.0,
            max_samples: None,
            stratum: 0,
            copy: false,
        }
    }
}

/// The frequency, kept between runs in a drift file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Drift {
    /// By how much the clock gains, in parts per million; positive if fast.
    pub ppm: f64,
    /// Bound on the error, in parts per million.
    pub skew: f64,
}

/// The result of a time that was entered; the signs are chrony's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Entered {
    /// By how much the clock was fast, in seconds; with several entries, by the line through them.
    pub offset: f64,
    /// By how much its frequency was found to be higher, in parts per million.
    pub frequency_change: f64,
    /// The frequency from here on, in parts per million; positive if fast.
    pub frequency: f64,
}

/// A leap second that is known: from `at` on, TAI is ahead of UTC by `tai_offset` seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeapSecond {
    /// The first moment after it.
    pub at: UnixTime,
    /// TAI − UTC from then on, in seconds.
    pub tai_offset: i32,
}

/// Effects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    /// Make the wall clock gain this many parts per billion on the raw clock; all of it, frequency and slew. The caller reports
    /// the rate that the kernel took with [`applied`](super::Timekeeper::applied).
    SetRate(f64),
    /// Add this to the wall clock at once.
    Step(Span),
    /// Tell the kernel how good its clock is.
    SetStatus(Status),
    /// Keep the frequency.
    SaveDrift(Drift),
    /// Say what happened.
    Note(Note),
    /// The correction is beyond `maxchange`: end the program.
    GiveUp(Span),
}

/// How good the kernel's clock is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Status {
    /// Whether it is synchronised; the kernel copies a synchronised clock to the real-time clock.
    pub synchronised: bool,
    /// Leap second that the kernel has to insert or delete at the end of the day; `Normal` where it is not the kernel's business.
    pub leap: Leap,
    /// Bound on the error, in seconds.
    pub max_error: f64,
    /// Estimated error, in seconds.
    pub estimated_error: f64,
    /// TAI − UTC, in seconds, where it is known.
    pub tai_offset: Option<i32>,
}

/// Events, for logs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Note {
    /// This source leads.
    Selected(SourceId),
    /// Nothing was heard for long: the clock runs on with the frequency of a longer time, so much fast.
    FellBack {
        /// In parts per million.
        ppm: f64,
    },
    /// No source can be selected.
    NothingSelectable,
    /// Sources disagree and none has a majority.
    NoMajority,
    /// Fewer than `minsources` agree.
    TooFewSources {
        /// The number of them.
        n_agreeing: u32,
    },
    /// This source disagrees with the majority.
    Falseticker(SourceId),
    /// This source gives a time before the last known one, or too long after it.
    Impossible(SourceId),
    /// This source contradicted itself, and what was known of it is gone.
    SourceReset(SourceId),
    /// The clock was wrong by this beside what was being corrected (more than `logchange`); positive if slow.
    Offset(Span),
    /// The clock was stepped.
    Stepped(Span),
    /// A correction beyond `maxchange` was passed over.
    ChangeIgnored(Span),
    /// A leap second comes at the end of the day, or does not come after all.
    LeapAnnounced(Leap),
    /// It has passed.
    LeapPassed(Leap),
    /// The own time is given.
    LocalActivated {
        /// As this stratum.
        stratum: u8,
    },
    /// It is no longer.
    LocalEnded,
    /// No source is reached, and the clock runs on with what it learned.
    Holdover,
    /// The state of another process is known from now on.
    Inherited {
        /// How long ago it was left.
        age: Span,
    },
}

/// The reference for a client, and its change until the next one is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reference {
    /// Leap second at hand; `Unsynchronised` if there is no time to give.
    pub leap: Leap,
    /// Stratum; 16 if there is no time to give.
    pub stratum: u8,
    /// The reference ID of the system peer; 127.127.1.1 for the own time, 0 for none.
    pub reference_id: u32,
    /// When the clock was last told what time it is.
    pub reference_time: UnixTime,
    /// Round trip to the primary source, in seconds.
    pub root_delay: f64,
    /// Error collected on the way, in seconds, at `at`.
    pub root_dispersion: f64,
    /// By how much it grows, in seconds per second.
    pub dispersion_rate: f64,
    /// When, on the wall clock.
    pub at: UnixTime,
    /// The seconds to add to the wall clock at `at` to get the time of this agent: the rest of a slew, or everything if the
    /// clock is left alone.
    pub offset: f64,
    /// By how much that grows, in seconds per second.
    pub offset_rate: f64,
    /// When it grows no more.
    pub offset_ends: UnixTime,
}

impl Default for Reference {
    /// There is no time to give.
    fn default() -> Self {
        Self {
            leap: Leap::Unsynchronised,
            stratum: 16,
            reference_id: 0,
            reference_time: UnixTime(0),
            root_delay: 0.0,
            root_dispersion: 0.0,
            dispersion_rate: 0.0,
            at: UnixTime(0),
            offset: 0.0,
            offset_rate: 0.0,
            offset_ends: UnixTime(i64::MAX),
        }
    }
}

impl Reference {
    /// Whether there is time to give.
    #[inline]
    #[must_use]
    pub fn is_synchronised(&self) -> bool {
        self.leap != Leap::Unsynchronised
    }

    /// Root dispersion at a later moment of the wall clock, in seconds.
    #[inline]
    #[must_use]
    pub fn root_dispersion_at(&self, wall: UnixTime) -> f64 {
        self.root_dispersion + self.dispersion_rate * (wall - self.at).seconds().max(0.0)
    }

    /// The time of this agent when the wall clock shows `wall`.
    #[inline]
    #[must_use]
    pub fn time_at(&self, wall: UnixTime) -> UnixTime {
        let elapsed = (wall.min(self.offset_ends) - self.at).seconds();
        wall + Span::from_seconds(self.offset + self.offset_rate * elapsed)
    }
}
