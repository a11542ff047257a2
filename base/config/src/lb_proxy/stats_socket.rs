//! `[[stats-socket]]`: Unix sockets for HAProxy's runtime commands.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Time;

/// A Unix socket for HAProxy's runtime commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StatsSocket {
    /// The path. Root, lb-proxy's own user and the group of the file may connect; in a directory with the set-group-ID
    /// bit that is the directory's group.
    #[schemars(extend("x-reload" = "restart"))]
    pub path: PathBuf,
    /// The commands that it allows.
    #[serde(default)]
    #[schemars(extend("x-reload" = "restart"))]
    pub level: StatsLevel,
    /// How long a client may be silent; its `set timeout cli` changes that.
    #[serde(default = "timeout")]
    #[schemars(extend("x-reload" = "restart"))]
    pub timeout: Time,
}

/// The commands that a stats socket allows, by HAProxy's names.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum StatsLevel {
    /// Figures, without the addresses of clients.
    User,
    /// Everything that changes nothing.
    #[default]
    Operator,
    /// Changes too: states, weights and limits of servers, and the end of sessions.
    Admin,
}

impl fmt::Display for StatsLevel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::User => "user",
            Self::Operator => "operator",
            Self::Admin => "admin",
        })
    }
}

fn timeout() -> Time {
    Time::clamped(Duration::from_secs(10))
}

impl StatsSocket {
    /// A socket with the defaults.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self {
            path,
            level: StatsLevel::default(),
            timeout: timeout(),
        }
    }
}
