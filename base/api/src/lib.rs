//! The answers of daemons at `/status`, in types.
//!
//! [`Status`] is what every daemon answers; `detail` is the part of one service, in the module of that
//! service. The daemon fills the type, `status` prints it, the page shows it, `outpost status` and the
//! tests read it. A key that stands here stays: other programs read the same JSON.

pub mod cluster_nodes;
pub mod clusterd;
pub mod dns_authd;
pub mod dns_recursor;
pub mod explain;
pub mod healthd;
pub mod lb_proxy;
pub mod node_hosts;
pub mod outpost;
pub mod registry_svc;
pub mod timesync_agent;
pub mod top;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The terms of an operator's decision; as text, they follow the decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// When it was taken (RFC 3339).
    pub since: Option<String>,
    /// When it ends by itself (RFC 3339); `None` for never.
    pub until: Option<String>,
    /// The reason that the operator gave; may be empty.
    pub reason: String,
    /// The operator; may be empty.
    pub by: String,
}

impl fmt::Display for Terms {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(since) = &self.since {
            write!(formatter, " since {since}")?;
        }
        if let Some(until) = &self.until {
            write!(formatter, " until {until}")?;
        }
        if !self.by.is_empty() {
            write!(formatter, " by {}", self.by)?;
        }
        if !self.reason.is_empty() {
            write!(formatter, ": {}", self.reason)?;
        }
        Ok(())
    }
}

/// The answer of `GET /status`; `D` is the part of the service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status<D> {
    /// The name of the service, such as `dns-authd`.
    pub service: String,
    /// The slot of the process: `a` or `b`; none outside slots.
    pub slot: Option<String>,
    /// The Unix socket at which the process takes changes (`serve --admin-socket`).
    #[serde(default)]
    pub admin_socket: Option<String>,
    /// The version of the program.
    pub version: String,
    /// The revision that the program was built from.
    pub revision: String,
    /// The process ID.
    pub pid: u32,
    /// The stage of the life of the process.
    pub state: State,
    /// Seconds since the process started.
    pub uptime_seconds: f64,
    /// Whether `/readyz` answers 200.
    pub ready: bool,
    /// Why the daemon is not ready; empty when it is.
    pub reasons: Vec<String>,
    /// Problems of a daemon that is ready all the same.
    pub notes: Vec<String>,
    /// The places of the listeners for streams: TCP, TLS, QUIC, and Unix sockets.
    #[serde(default)]
    pub streams: Vec<Streams>,
    /// The part of the service; none while it starts, or is too busy to answer.
    pub detail: Option<D>,
}

impl<D> Status<D> {
    /// The status of a process that has just begun to serve; in tests, the head of any status.
    #[must_use]
    pub fn serving(service: &str, detail: D) -> Self {
        Self {
            service: service.to_owned(),
            slot: None,
            admin_socket: None,
            version: "0.1.0".to_owned(),
            revision: "abc".to_owned(),
            pid: 1,
            state: State::Serving,
            uptime_seconds: 9.0,
            ready: true,
            reasons: Vec::new(),
            notes: Vec::new(),
            streams: Vec::new(),
            detail: Some(detail),
        }
    }
}

/// The places of a listener, or of several that share them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streams {
    /// The name of the listener, such as `dns-tcp`.
    pub listener: String,
    /// All places.
    pub places: u64,
    /// Those that only other nodes of the site take.
    pub reserved_for_nodes: u64,
    /// Those that only the node itself takes.
    pub reserved_for_node: u64,
    /// The places that are taken.
    pub open: u64,
    /// Those of them that other nodes have.
    pub open_of_nodes: u64,
    /// Those of them that the node itself has.
    pub open_of_node: u64,
    /// Streams that got no place, by the reason: `full`, `source`, `network`, `handshakes`.
    pub refused: BTreeMap<String, u64>,
    /// Streams that had to give their places back, by the reason: `displaced` for another one, or for their time:
    /// `silent`, `handshake`, `request`, `slow`, `idle`, `stalled`.
    pub ended: BTreeMap<String, u64>,
}

impl Streams {
    /// Whether places are few, or have been.
    #[must_use]
    pub fn is_pressed(&self) -> bool {
        let free = self.places.saturating_sub(self.open);
        free < self.places / 4 || !self.refused.is_empty() || self.ended.contains_key("displaced")
    }
}

impl fmt::Display for Streams {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            listener,
            places,
            open,
            ..
        } = self;
        write!(formatter, "{listener}: {open} of {places} places are taken")?;
        for (mark, by_reason, what) in [
            ("; ", &self.refused, "streams refused"),
            (", ", &self.ended, "ended"),
        ] {
            let sum: u64 = by_reason.values().sum();
            let reasons = by_reason.iter().map(|(reason, n)| format!("{n} {reason}"));
            let reasons: Vec<String> = reasons.collect();
            write!(formatter, "{mark}{sum} {what}")?;
            if sum > 0 {
                write!(formatter, " ({})", reasons.join(", "))?;
            }
        }
        Ok(())
    }
}

/// A stage of the life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The process opens sockets and loads data.
    Starting,
    /// The process serves.
    Serving,
    /// The process serves, and reads its configuration again.
    Reloading,
    /// The process finishes what has begun.
    Draining,
}

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Starting => "starting",
            Self::Serving => "serving",
            Self::Reloading => "reloading",
            Self::Draining => "draining",
        })
    }
}
