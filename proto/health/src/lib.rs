//! Targets, what is known of them, and reports of clocks, as healthd and its subscribers mean them.
//!
//! A [`Target`] that exists can be probed, a [`TargetStatus`] always has a meaning. How they travel is the
//! crate `proto`'s. Never does I/O and never reads a clock.

#![warn(missing_docs)]

mod clock;
mod endpoint;
mod tcp_check;
mod verdict;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

pub use clock::{ClockReport, ClockState, Leap};
pub use endpoint::{Endpoint, EndpointError, HealthdArg};
pub use tcp_check::{CheckStep, Content, Expectation};
pub use verdict::{Basis, NodeFinding, Verdict};

/// A target of probes. Its identity is all of it: two equal targets share one probe and one state.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// How it is probed.
    pub kind: TargetKind,
    /// The address.
    pub address: SocketAddr,
    /// The address to probe from; any when `None`.
    pub source: Option<IpAddr>,
}

impl Target {
    /// A TCP target.
    #[must_use]
    pub const fn tcp(address: SocketAddr) -> Self {
        Self {
            kind: TargetKind::Tcp,
            address,
            source: None,
        }
    }
}

/// A short form for logs and status: `tcp 192.168.7.13:6443`.
impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.address)?;
        match &self.kind {
            TargetKind::Http(probe) | TargetKind::Https(probe) => f.write_str(&probe.path),
            TargetKind::Grpc { service } if !service.is_empty() => write!(f, " {service}"),
            TargetKind::Dns(probe) => write!(f, " {}", probe.name),
            TargetKind::Tcp
            | TargetKind::TcpCheck(_)
            | TargetKind::Grpc { .. }
            | TargetKind::Ntp => Ok(()),
        }
    }
}

/// How a target is probed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TargetKind {
    /// Up when a TCP connection is accepted.
    Tcp,
    /// Up when a conversation over TCP goes as it should.
    TcpCheck(Vec<CheckStep>),
    /// Up when an HTTP response is the expected one.
    Http(HttpProbe),
    /// The same over TLS.
    Https(HttpProbe),
    /// Up when `grpc.health.v1` says SERVING.
    Grpc {
        /// The service asked about; the server as a whole when empty.
        service: String,
    },
    /// Up when the server answers a DNS query as expected.
    Dns(DnsProbe),
    /// Up when the server answers with a synchronised clock.
    Ntp,
}

impl TargetKind {
    /// The kind's name on command lines, in logs and in metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::TcpCheck(_) => "tcp-check",
            Self::Http(_) => "http",
            Self::Https(_) => "https",
            Self::Grpc { .. } => "grpc",
            Self::Dns(_) => "dns",
            Self::Ntp => "ntp",
        }
    }
}

/// An HTTP request and what is expected of the response.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HttpProbe {
    /// The method.
    pub method: String,
    /// The `Host` header, and over TLS the server name; the address when empty.
    pub host: String,
    /// Path and query.
    pub path: String,
    /// The status that means up.
    pub status: u16,
    /// Text that the body must contain.
    pub body: Option<String>,
    /// The `User-Agent` header; healthd's own when empty.
    pub user_agent: String,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// How many octets of the body are read at most; healthd's own bound when `None`.
    pub byte_limit: Option<u64>,
    /// Over TLS: how the server's certificate is checked.
    pub verify: Verify,
}

impl Default for HttpProbe {
    fn default() -> Self {
        Self {
            method: "GET".to_owned(),
            host: String::new(),
            path: "/".to_owned(),
            status: 200,
            body: None,
            user_agent: String::new(),
            headers: Vec::new(),
            byte_limit: None,
            verify: Verify::System,
        }
    }
}

/// How a TLS server's certificate is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verify {
    /// Against the system's certificate authorities.
    #[default]
    System,
    /// Not at all.
    Off,
    /// Against the authorities in this PEM file on healthd's host.
    Ca(String),
}

/// A DNS query and what is expected of the response.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DnsProbe {
    /// The name asked for, in master-file text; the root when `.`.
    pub name: String,
    /// The type asked for.
    pub rtype: u16,
    /// The response code that means up; any answer will do when `None`.
    pub rcode: Option<u16>,
}

impl Default for DnsProbe {
    fn default() -> Self {
        Self {
            name: ".".to_owned(),
            rtype: 6,
            rcode: None,
        }
    }
}

//--- Schedules

/// When a target is probed, and how many results in a row make a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Schedule {
    /// Between the starts of two probes.
    pub interval: Duration,
    /// Between probes while results contradict the state but have not changed it yet.
    pub fast_interval: Duration,
    /// For one probe, from start to verdict.
    pub timeout: Duration,
    /// How many good results make a target up.
    pub rise: u32,
    /// How many bad results make a target down.
    pub fall: u32,
}

impl Schedule {
    /// No target is probed more often than this: a probe costs its target something too.
    pub const MIN_INTERVAL: Duration = Duration::from_millis(100);

    /// This schedule with what a deviation gives in place of its own values.
    ///
    /// The result is one that can be kept: no interval below the least one, no fast interval above the
    /// interval, and at least one result for each change.
    #[must_use]
    pub fn with(self, deviation: &Deviation) -> Self {
        let interval = deviation.interval.unwrap_or(self.interval);
        let interval = interval.max(Self::MIN_INTERVAL);
        let fast = deviation.fast_interval.unwrap_or(self.fast_interval);
        Self {
            interval,
            fast_interval: fast.clamp(Self::MIN_INTERVAL, interval),
            timeout: deviation.timeout.unwrap_or(self.timeout),
            rise: deviation.rise.unwrap_or(self.rise).max(1),
            fall: deviation.fall.unwrap_or(self.fall).max(1),
        }
    }

    /// The shortest time in which a target in this state can leave it, as a rule: the first result that
    /// contradicts the state comes within one interval, and the further ones follow at the fast interval.
    #[must_use]
    pub fn time_to_change(&self, liveness: Liveness) -> Duration {
        let results = match liveness {
            Liveness::Up => self.fall,
            Liveness::Down => self.rise,
            Liveness::Unknown => return Duration::ZERO,
        };
        let further = self.fast_interval.min(self.interval);
        self.interval
            .saturating_add(further.saturating_mul(results.saturating_sub(1)))
    }
}

/// The schedule of a site that says nothing else. A target that refuses is down one interval and 200 ms after it
/// failed, at the latest, and one lost packet flips nothing.
impl Default for Schedule {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(2),
            fast_interval: Duration::from_millis(200),
            timeout: Duration::from_secs(1),
            rise: 2,
            fall: 2,
        }
    }
}

/// The values of a schedule that one subscriber wants otherwise than the site; the site's where `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Deviation {
    /// As [`Schedule::interval`].
    pub interval: Option<Duration>,
    /// As [`Schedule::fast_interval`].
    pub fast_interval: Option<Duration>,
    /// As [`Schedule::timeout`].
    pub timeout: Option<Duration>,
    /// As [`Schedule::rise`].
    pub rise: Option<u32>,
    /// As [`Schedule::fall`].
    pub fall: Option<u32>,
}

impl Deviation {
    /// The site's schedule, as it is.
    pub const NONE: Self = Self {
        interval: None,
        fast_interval: None,
        timeout: None,
        rise: None,
        fall: None,
    };

    /// Whether everything is as the site has it.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// This deviation, with the values of another one where it gives none.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            interval: self.interval.or(other.interval),
            fast_interval: self.fast_interval.or(other.fast_interval),
            timeout: self.timeout.or(other.timeout),
            rise: self.rise.or(other.rise),
            fall: self.fall.or(other.fall),
        }
    }
}

/// In the words of configuration files: `interval 500ms, fall 3`.
impl std::fmt::Display for Deviation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let times = [
            ("interval", self.interval),
            ("fast-interval", self.fast_interval),
            ("timeout", self.timeout),
        ];
        let times = times
            .into_iter()
            .filter_map(|(name, time)| Some(format!("{name} {}ms", time?.as_millis())));
        let counts = [("rise", self.rise), ("fall", self.fall)];
        let counts = counts
            .into_iter()
            .filter_map(|(name, count)| Some(format!("{name} {}", count?)));
        let all: Vec<String> = times.chain(counts).collect();
        f.write_str(&all.join(", "))
    }
}

/// A target as a subscriber watches it.
///
/// Without a deviation the subscriber sees the state of the target itself. With one it sees a *view*: the state
/// that the same results make by its own rise, fall and timeout.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Watched {
    /// The target.
    pub target: Target,
    /// The values that differ from the site's schedule.
    pub deviation: Deviation,
}

impl From<Target> for Watched {
    fn from(target: Target) -> Self {
        Self {
            target,
            deviation: Deviation::NONE,
        }
    }
}

impl std::fmt::Display for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.deviation.is_none() {
            true => self.target.fmt(f),
            false => write!(f, "{} ({})", self.target, self.deviation),
        }
    }
}

//--- States

/// The liveness that probes found.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Liveness {
    /// Not one probe has ended yet.
    #[default]
    Unknown,
    /// Up.
    Up,
    /// Down.
    Down,
}

impl std::fmt::Display for Liveness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown",
            Self::Up => "up",
            Self::Down => "down",
        })
    }
}

/// The operator's decision.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum AdminState {
    /// Counts as its probes say.
    #[default]
    Ready,
    /// Finishes what it has and gets nothing new.
    Drain,
    /// Counts as down.
    Maintenance,
}

impl std::fmt::Display for AdminState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ready => "ready",
            Self::Drain => "drain",
            Self::Maintenance => "maintenance",
        })
    }
}

/// The terms of an operator's decision. Times are since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// The time of the decision, if it is known.
    pub since: Option<Duration>,
    /// The end, after which the decision does not hold; `None` for a decision that an operator ends.
    pub until: Option<Duration>,
    /// The reason; may be empty.
    pub reason: String,
    /// The operator; may be empty.
    pub by: String,
}

impl Terms {
    /// Whether the decision has ended by this time.
    #[must_use]
    pub fn is_over(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// The status of one target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetStatus {
    /// The liveness that probes found.
    pub liveness: Liveness,
    /// The operator's decision.
    pub admin: AdminState,
    /// When the liveness last changed.
    pub since: Option<SystemTime>,
    /// When the last probe ended.
    pub last_check: Option<SystemTime>,
    /// How long the last probe took.
    pub latency: Duration,
    /// The reason that the last probe gave.
    pub reason: String,
    /// The liveness is from before healthd's restart, and no probe has confirmed it yet.
    pub warm: bool,
    /// The generation of the last change.
    pub generation: u64,
    /// The schedule that makes the liveness.
    pub schedule: Schedule,
    /// Why the liveness is what it is; `None` from a healthd that exchanges no findings with others about the target.
    pub verdict: Option<Verdict>,
}

impl TargetStatus {
    /// The liveness that choosers of targets use: that of probes, unless an operator took the target out.
    #[must_use]
    pub const fn effective(&self) -> Liveness {
        match self.admin {
            AdminState::Ready => self.liveness,
            AdminState::Drain | AdminState::Maintenance => Liveness::Down,
        }
    }

    /// Whether something new may be sent to the target.
    #[must_use]
    pub const fn is_usable(&self) -> bool {
        matches!(self.effective(), Liveness::Up)
    }
}

/// The status of a set of targets at one generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Grows with every change; 0 before the first word from healthd.
    pub generation: u64,
    /// Each target's status.
    pub targets: BTreeMap<Target, TargetStatus>,
    /// The views of targets, for subscribers with a deviation.
    pub views: BTreeMap<Watched, TargetStatus>,
    /// Whether the subscriber's own probes made it, because healthd is away. Its generation is 0 then: it is of none of
    /// healthd's.
    pub stands_in: bool,
}

impl Snapshot {
    /// The status of one target.
    #[must_use]
    pub fn status(&self, target: &Target) -> Option<&TargetStatus> {
        self.targets.get(target)
    }

    /// The liveness that choosers use; `Unknown` for a target that is not in the snapshot.
    #[must_use]
    pub fn liveness(&self, target: &Target) -> Liveness {
        self.status(target)
            .map_or(Liveness::Unknown, TargetStatus::effective)
    }

    /// The status of a target as a subscriber watches it.
    #[must_use]
    pub fn watched(&self, watched: &Watched) -> Option<&TargetStatus> {
        match watched.deviation.is_none() {
            true => self.status(&watched.target),
            false => self.views.get(watched),
        }
    }

    /// Takes in the status of a target as a subscriber watches it.
    pub fn insert(&mut self, watched: Watched, status: TargetStatus) {
        match watched.deviation.is_none() {
            true => self.targets.insert(watched.target, status),
            false => self.views.insert(watched, status),
        };
    }

    /// This snapshot, which follows `before` on another stream, without what healthd forgot.
    ///
    /// healthd comes back from a restart with the state that it last wrote to disk, or with none. A target
    /// that it has not probed since keeps the liveness that the subscriber heard before.
    #[must_use]
    pub fn keep_known(mut self, before: &Self) -> Self {
        for (target, status) in &mut self.targets {
            status.keep_known(before.targets.get(target));
        }
        for (watched, status) in &mut self.views {
            status.keep_known(before.views.get(watched));
        }
        self
    }
}

impl TargetStatus {
    fn keep_known(&mut self, before: Option<&Self>) {
        if !self.warm && self.liveness != Liveness::Unknown {
            return;
        }
        if let Some(known) = before.filter(|known| known.liveness != Liveness::Unknown) {
            *self = Self {
                admin: self.admin,
                schedule: self.schedule,
                ..known.clone()
            };
        }
    }
}

/// Why a message of the contract is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HealthError {
    /// The address is no IP address.
    #[error("{0:?} is no IP address")]
    Address(String),
    /// The port is not between 1 and 65535.
    #[error("{0} is no port")]
    Port(u32),
    /// There is no probe in the target, or one of a later version.
    #[error("the target does not say how to probe it")]
    Kind,
    /// A step of a conversation says nothing, or more than this version knows.
    #[error("a step of the check says nothing that is known")]
    Step,
    /// A status that no HTTP server sends.
    #[error("{0} is no HTTP status")]
    Status(u32),
    /// A number beyond what its field means.
    #[error("{0} is out of range for {1}")]
    Range(u32, &'static str),
    /// The reporter of a clock has no name, or none that can be shown.
    #[error("the reporter's name is not 1 to 64 letters without control characters")]
    Reporter,
    /// The bytes are no message of the contract.
    #[error("not a health message")]
    Malformed,
}

#[cfg(test)]
mod tests;
