//! The detail of healthd's status.

use health::{AdminState, ClockState, Leap, Liveness, Verdict};
use serde::{Deserialize, Serialize};

use crate::Terms;

/// The targets that healthd probes, their subscribers, and the clocks of the site.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// The service in a few words: `9 targets, 6 up`.
    pub serves: String,
    /// The generation of the liveness: it grows with each change.
    pub generation: u64,
    /// The addresses that subscribers connect to.
    pub listeners: Vec<String>,
    /// The probes under way.
    pub probes: Probes,
    /// The services that ask for targets.
    pub subscribers: Vec<Subscriber>,
    /// The decisions of operators that differ from `ready`.
    #[serde(default)]
    pub decisions: Vec<Decision>,
    /// Every target, in the order of their names.
    pub targets: Vec<Target>,
    /// The clocks that time services report.
    pub clocks: Vec<Clock>,
    /// The other nodes, where healthd exchanges findings with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,
}

/// The exchange of findings with other nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// The name of this node.
    pub node: String,
    /// Whether this node is in contact with the others.
    pub contact: Contact,
    /// For how many seconds it has.
    pub contact_seconds: f64,
    /// The other nodes.
    pub peers: Vec<Peer>,
    /// The leases that are known, such as those of virtual addresses.
    #[serde(default)]
    pub leases: Vec<Lease>,
}

/// A lease that a majority of the nodes grants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Its name.
    pub name: String,
    /// The node that has it, as far as this node knows.
    pub holder: Option<String>,
}

/// Whether a node is in contact with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contact {
    /// It has just started, and has not heard a majority yet.
    Joining,
    /// A majority is heard, this node included.
    Connected,
    /// No majority is heard, but a majority of machines answers: the other healthds are away.
    Alone,
    /// No majority answers.
    CutOff,
}

impl std::fmt::Display for Contact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Joining => "joining",
            Self::Connected => "connected",
            Self::Alone => "alone",
            Self::CutOff => "cut off",
        })
    }
}

/// Another node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Whether its findings count.
    pub heard: bool,
    /// Seconds since it was last heard; `None` before the first time.
    pub heard_seconds: Option<f64>,
    /// How many findings of it are kept.
    pub findings: usize,
    /// How many of its messages and findings were ignored: repeated, late, or more than are kept.
    pub ignored: u64,
    /// Why it is not connected; empty while it is.
    pub error: String,
}

/// The probes under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probes {
    /// How many there are now.
    pub in_flight: usize,
    /// The most there may be.
    pub limit: usize,
}

/// A service that asks for targets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscriber {
    /// Its name.
    pub name: String,
    /// How many targets it asks for.
    pub targets: usize,
    /// When it subscribed (RFC 3339).
    pub since: Option<String>,
    /// For how many further targets there is no room: they are unknown to it.
    #[serde(default)]
    pub waiting: usize,
    /// The first of those.
    #[serde(default)]
    pub first_waiting: Vec<String>,
}

/// A target and its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The fingerprint of the target: it names the target in metrics and events.
    pub id: String,
    /// The target as commands name it, such as `tcp 192.0.2.13:6443`.
    pub target: String,
    /// `tcp`, `http`, `https`, `grpc`, `dns` or `ntp`.
    pub kind: String,
    /// The IP address and port.
    pub address: String,
    /// The state that the probes found: those of the site, or those of this node.
    pub liveness: Liveness,
    /// Whether the state is from before a restart, and no probe has confirmed it yet.
    pub warm: bool,
    /// The operator's decision.
    pub admin: AdminState,
    /// When the state changed last (RFC 3339).
    pub since: Option<String>,
    /// When the target was probed last (RFC 3339).
    pub last_check: Option<String>,
    /// How long the last probe took.
    pub latency_seconds: f64,
    /// The interval between probes, such as `2s`: the site's, or the shortest that a subscriber states.
    pub interval: String,
    /// The result of the last probe, in words.
    pub reason: String,
    /// How often the state has changed.
    pub transitions: u64,
    /// The generation of the last change of its status.
    #[serde(default)]
    pub generation: u64,
    /// The good results in a row that make it up.
    #[serde(default)]
    pub rise: u32,
    /// The bad results in a row that make it down.
    #[serde(default)]
    pub fall: u32,
    /// Subscribers that see it by a schedule of their own.
    #[serde(default)]
    pub deviations: Vec<Deviation>,
    /// Why the state is what it is, where healthd exchanges findings about it with other nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

/// A decision of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The IP address that it concerns, with a port unless it concerns all of them.
    pub place: String,
    /// The state that it sets.
    pub state: AdminState,
    /// Its terms.
    #[serde(flatten)]
    pub terms: Terms,
}

/// The answer to an operator's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marked {
    /// How many targets it concerns at present.
    pub targets: usize,
    /// The generation from which on it holds.
    pub generation: u64,
}

/// A target as subscribers with another schedule than the site's see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deviation {
    /// The values that differ, such as `fall 1`.
    pub schedule: String,
    /// How many subscribers see it so; 0 soon after the last one has left.
    pub subscribers: usize,
    /// The state, by these values.
    pub liveness: Liveness,
    /// When that state changed last (RFC 3339).
    pub since: Option<String>,
    /// The generation of its last change.
    pub generation: u64,
}

/// The answer of `GET /events`: the last changes, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    /// How many changes there were since the start; the oldest are forgotten.
    pub total: u64,
    /// Those that are kept.
    pub events: Vec<Event>,
}

/// A change in a target, a decision, or the contact with other nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When it happened (RFC 3339).
    pub at: String,
    /// The changed thing, such as `tcp 192.0.2.13:6443`.
    pub what: String,
    /// Its new state in a word.
    pub state: String,
    /// The reason, in words; may be empty.
    pub why: String,
    /// The operator who decided it; empty where probes decide.
    pub by: String,
}

/// A clock that a time service reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// The node whose clock it is.
    pub reporter: String,
    /// How good the time is.
    pub state: ClockState,
    /// Whether the reports have stopped.
    pub stale: bool,
    /// Seconds since the last report.
    pub age_seconds: f64,
    /// When the state changed last (RFC 3339).
    pub since: Option<String>,
    /// The offset to the reference; positive when the clock is fast.
    pub offset_seconds: f64,
    /// The root distance (RFC 5905 §11.1).
    pub root_distance_seconds: f64,
    /// The stratum (RFC 5905 §7.3).
    pub stratum: u8,
    /// The leap second at hand.
    pub leap: Leap,
    /// How many sources the clock has.
    pub sources: u32,
    /// How many of them can be selected.
    pub selectable_sources: u32,
    /// The reference, as `chronyc tracking` shows it.
    pub reference: String,
}
