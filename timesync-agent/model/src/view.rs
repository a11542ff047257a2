//! The view of the engine: one value, made at one instant and never changed.
//!
//! The poll loop publishes it; status, metrics, chronyc's protocol and healthd read it. Words are chronyc's where it has one.

use std::net::IpAddr;

use crate::settings::SelectOptions;
use crate::time::{RawTime, Reading, Span, UnixTime};

/// Whether the last minute of the day has 60 seconds (RFC 5905 §7.3, LI).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leap {
    /// 60.
    #[default]
    Normal,
    /// 61.
    Insert,
    /// 59.
    Delete,
    /// The clock is not synchronised.
    Unsynchronised,
}

/// How good the time of this node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockState {
    /// No time from anywhere.
    #[default]
    Unsynchronised,
    /// Samples come, and the clock is on its way.
    Syncing,
    /// The clock follows its sources.
    Locked,
    /// Sources are gone; the clock runs on with the frequency that was learned.
    Holdover,
    /// This node gives its own time (`local`).
    Local,
}

/// Everything, at one moment.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// When.
    pub now: Reading,
    /// How good the time is.
    pub state: ClockState,
    /// The clock and what it follows.
    pub tracking: Tracking,
    /// Each source, in the order of the configuration.
    pub sources: Vec<SourceView>,
    /// Names that have no address yet.
    pub n_unresolved: u32,
    /// Clocks that follow a grandmaster of PTP.
    pub ptp: Vec<PtpView>,
    /// How clients are served smooth time, if that was asked for.
    pub smoothing: Option<SmoothingView>,
    /// Times that an operator has entered, the oldest first.
    pub manual: Vec<ManualView>,
}

/// A time that an operator has entered; `chronyc manual list`. Offsets are positive if the clock was fast.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ManualView {
    /// When, by the clock as it has been corrected since.
    pub at: UnixTime,
    /// By how much the clock was wrong, by what is known now, in seconds.
    pub offset: f64,
    /// By how much it was when the time was entered, in seconds.
    pub original_offset: f64,
    /// The distance from the line through all entries when the last one came or went, in seconds.
    pub residual: f64,
}

/// How clients are served smooth time; `chronyc smoothing`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SmoothingView {
    /// Whether corrections are smoothed by now.
    pub active: bool,
    /// Leap seconds alone are.
    pub leap_only: bool,
    /// The time for clients less the time of the clock, in seconds.
    pub offset: f64,
    /// By how much that becomes less, in parts per million.
    pub frequency: f64,
    /// By how much the frequency grows in a second, in parts per million.
    pub wander: f64,
    /// Since the last correction, in seconds.
    pub since: f64,
    /// Until nothing is left, in seconds.
    pub left: f64,
}

/// The clock and what it follows; `chronyc tracking`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tracking {
    /// Reference ID; 127.127.1.1 for the own clock, 0 for none.
    pub reference_id: u32,
    /// Address of the source that leads.
    pub address: Option<IpAddr>,
    /// Stratum for clients; 0 for none.
    pub stratum: u8,
    /// Leap second at hand.
    pub leap: Leap,
    /// When the clock was last told what time it is.
    pub reference_time: UnixTime,
    /// The remaining correction, in seconds; positive if the clock is slow (behind true time).
    pub correction: f64,
    /// The remaining correction at the last update, before the update.
    pub update_offset: f64,
    /// The part that the last update added, in seconds; positive if the clock was slow.
    pub last_offset: f64,
    /// Long-term average of the offset, in seconds.
    pub rms_offset: f64,
    /// By how much the clock would gain without correction, in parts per million; positive if fast.
    pub frequency: f64,
    /// The frequency that the system peer would add, in parts per million.
    pub residual_frequency: f64,
    /// Bound on the error of the frequency, in parts per million.
    pub skew: f64,
    /// Round trip to the primary source, in seconds (RFC 5905 §7.3).
    pub root_delay: f64,
    /// Error collected on the way to the primary source, in seconds (RFC 5905 §7.3), as of now.
    pub root_dispersion: f64,
    /// Between the last two updates, in seconds.
    pub update_interval: f64,
    /// Updates so far.
    pub n_updates: u64,
    /// Steps so far.
    pub n_steps: u64,
}

/// The kind of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceMode {
    /// An NTP server.
    #[default]
    Server,
    /// A peer in symmetric mode.
    Peer,
    /// A clock of this machine.
    ReferenceClock,
}

/// The result of selection for a source; chronyc's second column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceState {
    /// `?`: no reply, or none that can be used, or not allowed to be selected.
    #[default]
    Unselectable,
    /// `x`: disagrees with the majority.
    Falseticker,
    /// `~`: varies too much.
    TooVariable,
    /// `-`: agrees, and is not combined.
    Outlier,
    /// `+`: combined with the best.
    Combined,
    /// `*`: leads.
    Best,
}

/// One source; `chronyc sources`, `sourcestats` and `ntpdata`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceView {
    /// As the configuration has it: name, address or reference clock.
    pub name: String,
    /// The address; none for a reference clock.
    pub address: Option<IpAddr>,
    /// Reference ID; a reference clock has its own, a server one derived from its address.
    pub reference_id: u32,
    /// The kind.
    pub mode: SourceMode,
    /// The result of selection.
    pub state: SourceState,
    /// Its stratum.
    pub stratum: u8,
    /// Polling interval, as a power of two in seconds.
    pub poll: i8,
    /// The last eight polls, the newest in the lowest bit; set when answered.
    pub reach: u8,
    /// Whether it is polled at all.
    pub online: bool,
    /// Whether it is in a burst.
    pub burst: bool,
    /// When the last sample was taken.
    pub last_sample: Option<RawTime>,
    /// Offset of the last sample as corrected since, in seconds; positive if the clock is slow.
    pub adjusted_offset: f64,
    /// Offset of the last sample as measured, in seconds.
    pub measured_offset: f64,
    /// Root distance of the last sample, in seconds: its own error and what the server says of its own.
    pub root_distance: f64,
    /// Statistics of its samples.
    pub statistics: SourceStatistics,
    /// The details of selection.
    pub selection: SelectionView,
    /// The key that its packets are signed with, if they are to be.
    pub key: Option<KeyView>,
    /// The last valid packet and what it said; none before the first one and for reference clocks.
    pub packet: Option<PacketView>,
}

/// The details of selection for a source; `chronyc selectdata`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SelectionView {
    /// Why it is selected or not.
    pub reason: Reason,
    /// Options as the configuration has them.
    pub configured: SelectOptions,
    /// And as they count, once it was seen which sources are authenticated.
    pub effective: SelectOptions,
    /// By what factor it was nearer than the leading one, over time.
    pub score: f64,
    /// True time less wall time lies between these by its word, in seconds.
    pub low: f64,
    /// The upper one.
    pub high: f64,
}

/// Why a source is selected or not; chronyc's letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reason {
    /// `N`: it is for show.
    NoSelect,
    /// `M`: it has too few samples.
    NoSamples,
    /// `s`: it has no time itself, or has never said so.
    #[default]
    Unsynchronised,
    /// `d`: its root distance is above `maxdistance`.
    Distance,
    /// `~`: it is too variable.
    Jitter,
    /// `w`: it contradicts itself, and others do not.
    WaitsSamples,
    /// `S`: it did not answer for long.
    Stale,
    /// `O`: it is an orphan.
    Orphan,
    /// `T`: trusted sources say otherwise.
    Untrusted,
    /// `x`: the majority says otherwise.
    Falseticker,
    /// `x`: it gives a time before the last known one, or too long after it.
    Impossible,
    /// `W`: too few agree.
    WaitsSources,
    /// `P`: others are preferred.
    NotPreferred,
    /// `D`: it is far off beside the one that leads.
    Distant,
    /// `L`: its frequency is another one.
    Outlier,
    /// `+`: it is combined.
    Combined,
    /// `*`: it leads.
    Best,
}

impl Reason {
    /// As chronyc shows it.
    #[must_use]
    pub const fn letter(self) -> u8 {
        match self {
            Self::NoSelect => b'N',
            Self::NoSamples => b'M',
            Self::Unsynchronised => b's',
            Self::Distance => b'd',
            Self::Jitter => b'~',
            Self::WaitsSamples => b'w',
            Self::Stale => b'S',
            Self::Orphan => b'O',
            Self::Untrusted => b'T',
            Self::Falseticker | Self::Impossible => b'x',
            Self::WaitsSources => b'W',
            Self::NotPreferred => b'P',
            Self::Distant => b'D',
            Self::Outlier => b'L',
            Self::Combined => b'+',
            Self::Best => b'*',
        }
    }
}

/// A key, but for its secret; `chronyc authdata`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyView {
    /// Its number.
    pub id: u32,
    /// chrony's number of its algorithm; 0 if there is no such key.
    pub kind: u16,
    /// The length of its secret in bits.
    pub bits: u16,
}

/// Statistics over the samples of a source; `chronyc sourcestats`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SourceStatistics {
    /// Samples that count.
    pub n_samples: u32,
    /// Runs of residuals of the same sign.
    pub n_runs: u32,
    /// From the oldest to the newest.
    pub span: Span,
    /// Estimated residual frequency, in parts per million.
    pub frequency: f64,
    /// Bound on its error, in parts per million.
    pub skew: f64,
    /// Estimated offset now, in seconds; positive if the clock is slow.
    pub offset: f64,
    /// Bound on its error, in seconds.
    pub offset_error: f64,
    /// Standard deviation of samples, in seconds.
    pub deviation: f64,
}

/// How a timestamp came about; chronyc's letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StampSource {
    /// `D`: the process read the clock.
    #[default]
    Daemon,
    /// `K`: the kernel.
    Kernel,
    /// `H`: the network card.
    Hardware,
}

/// The last valid packet of a source and its counters; `chronyc ntpdata`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PacketView {
    /// Port of the source.
    pub port: u16,
    /// Own address.
    pub local_address: Option<IpAddr>,
    /// LI.
    pub leap: Leap,
    /// VN.
    pub version: u8,
    /// Mode, RFC 5905 figure 10.
    pub mode: u8,
    /// Stratum.
    pub stratum: u8,
    /// Poll, as a power of two in seconds.
    pub poll: i8,
    /// Precision, as a power of two in seconds.
    pub precision: i8,
    /// Root delay, in seconds.
    pub root_delay: f64,
    /// Root dispersion, in seconds.
    pub root_dispersion: f64,
    /// Reference ID.
    pub reference_id: u32,
    /// Reference timestamp.
    pub reference_time: UnixTime,
    /// Offset, in seconds; positive if the clock is slow.
    pub offset: f64,
    /// Round trip, in seconds.
    pub delay: f64,
    /// Dispersion of the sample, in seconds.
    pub dispersion: f64,
    /// The time that the server took to answer, in seconds.
    pub response_time: f64,
    /// Asymmetry of jitter, from −0.5 to 0.5.
    pub jitter_asymmetry: f64,
    /// Tests passed, chrony's bits: 1, 2, 3, 5, 6, 7, A, B, C, D from the highest of ten.
    pub tests: u16,
    /// In interleaved mode.
    pub interleaved: bool,
    /// With a key.
    pub authenticated: bool,
    /// How the time of sending was taken.
    pub transmit_stamp: StampSource,
    /// How the time of arrival was taken.
    pub receive_stamp: StampSource,
    /// Packets sent.
    pub n_sent: u32,
    /// Packets received.
    pub n_received: u32,
    /// Packets received that were valid.
    pub n_valid: u32,
    /// Packets that gave a sample.
    pub n_good: u32,
}

/// A clock that follows a grandmaster of PTP (IEEE 1588).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PtpView {
    /// Its place among the reference clocks.
    pub clock: usize,
    /// The program that speaks the protocol: `ptp4l`, or this one.
    pub process: &'static str,
    /// The interface; empty while it is unknown.
    pub interface: String,
    /// The role of the port.
    pub role: PtpRole,
    /// Whether the grandmaster is followed.
    pub state: PtpState,
    /// offsetFromMaster as last measured, in seconds: positive if this node is ahead, as PTP has it.
    pub offset: Option<f64>,
    /// The largest of them, by magnitude, in seconds.
    pub max_offset: f64,
    /// meanDelay, in seconds.
    pub delay: Option<f64>,
    /// By how much the local clock gains on the grandmaster, in parts per million, as last estimated.
    pub frequency: Option<f64>,
    /// clockClass of the grandmaster; that of this clock without one.
    pub class: u8,
    /// grandmasterIdentity.
    pub grandmaster: Option<[u8; 8]>,
    /// domainNumber.
    pub domain: u8,
    /// stepsRemoved.
    pub steps_removed: u16,
    /// currentUtcOffset, where it is valid, in seconds.
    pub utc_offset: Option<i32>,
    /// Measurements so far.
    pub n_measured: u64,
}

/// The role of a port; numbers and names of `openshift_ptp_interface_role`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PtpRole {
    /// PASSIVE.
    Passive = 0,
    /// SLAVE: it follows a master.
    Slave = 1,
    /// MASTER: others follow it.
    Master = 2,
    /// FAULTY.
    Faulty = 3,
    /// Anything else.
    #[default]
    Unknown = 4,
    /// LISTENING: it waits for a master.
    Listening = 5,
}

/// Whether a grandmaster is followed; numbers and names of `openshift_ptp_clock_state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PtpState {
    /// FREERUN: none was there, or it is gone for long.
    #[default]
    FreeRun = 0,
    /// LOCKED: measurements come.
    Locked = 1,
    /// HOLDOVER: they came until a moment ago.
    Holdover = 2,
}
