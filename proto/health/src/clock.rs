//! Reports of clocks, as typed values.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How good the time of a node is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
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
    /// The node gives its own time.
    Local,
}

impl ClockState {
    /// All there are, from the worst to the best and then the island's.
    pub const ALL: [Self; 5] = [
        Self::Unsynchronised,
        Self::Syncing,
        Self::Locked,
        Self::Holdover,
        Self::Local,
    ];

    /// The state's name in status and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unsynchronised => "unsynchronised",
            Self::Syncing => "syncing",
            Self::Locked => "locked",
            Self::Holdover => "holdover",
            Self::Local => "local",
        }
    }
}

impl std::fmt::Display for ClockState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// A leap second at hand (RFC 5905 §7.3, LI).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum Leap {
    /// None.
    #[default]
    #[serde(rename = "normal")]
    Normal,
    /// The last minute of the day has 61 seconds.
    #[serde(rename = "insert second")]
    Insert,
    /// The last minute of the day has 59 seconds.
    #[serde(rename = "delete second")]
    Delete,
    /// The clock is not synchronised.
    #[serde(rename = "not synchronised")]
    Unsynchronised,
}

impl Leap {
    /// The name in status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Insert => "insert second",
            Self::Delete => "delete second",
            Self::Unsynchronised => "not synchronised",
        }
    }
}

impl std::fmt::Display for Leap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// A clock, as the one who keeps it sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockReport {
    /// The node's name.
    pub reporter: String,
    /// How good its time is.
    pub state: ClockState,
    /// The estimated offset of the clock, in nanoseconds; positive if it is slow.
    pub offset: i64,
    /// Bound on its error.
    pub root_distance: Duration,
    /// The stratum in responses to clients; 0 for none.
    pub stratum: u8,
    /// A leap second at hand.
    pub leap: Leap,
    /// Sources that are configured.
    pub n_sources: u32,
    /// Those of them that could be followed.
    pub n_selectable: u32,
    /// The system peer; empty when there is none.
    pub reference: String,
    /// How long this holds without another report.
    pub valid: Duration,
}
