//! The parts of a configuration that every daemon has: `[log]`, `[admin]` and `drain`.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

use super::HumanDuration;
use crate::log::{Format, Level, LogSettings};

/// How long a daemon may take to finish what it has begun.
const DEFAULT_DRAIN: Duration = Duration::from_secs(10);

/// `[log]` as people write it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LogSpec {
    /// Events of this level and above; `info` unless given.
    pub level: Option<Level>,
    /// `text` (the default) or `json`.
    pub format: Option<Format>,
}

/// `[admin]` as people write it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct AdminSpec {
    /// The admin listener's address, or `"none"`; each service has its own default.
    pub listen: Option<AdminListen>,
}

/// The admin listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminListen {
    /// Nowhere: there is none.
    None,
    /// At this address.
    At(SocketAddr),
}

impl<'de> Deserialize<'de> for AdminListen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(AdminListenVisitor)
    }
}

struct AdminListenVisitor;

impl de::Visitor<'_> for AdminListenVisitor {
    type Value = AdminListen;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an address with its port, as in \"127.0.0.1:9402\", or \"none\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<AdminListen, E> {
        if text == "none" {
            return Ok(AdminListen::None);
        }
        text.parse()
            .map(AdminListen::At)
            .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// The part of the config that every daemon has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Common {
    /// How to log. Taken up on reload.
    pub log: LogSettings,
    /// The admin listener. Fixed for the life of the process.
    pub admin: Option<SocketAddr>,
    /// How long draining may take. Taken up on reload.
    pub drain: Duration,
}

impl Common {
    /// Fills in what was not written.
    #[must_use]
    pub fn new(
        log: LogSpec,
        admin: AdminSpec,
        drain: Option<HumanDuration>,
        default_admin: SocketAddr,
    ) -> Self {
        Self {
            log: LogSettings {
                level: log.level.unwrap_or_default(),
                format: log.format.unwrap_or_default(),
            },
            admin: match admin.listen {
                None => Some(default_admin),
                Some(AdminListen::None) => None,
                Some(AdminListen::At(address)) => Some(address),
            },
            drain: drain.map_or(DEFAULT_DRAIN, Duration::from),
        }
    }

    /// The defaults of a daemon whose configuration says nothing of all this.
    #[must_use]
    pub fn with_admin(default_admin: SocketAddr) -> Self {
        Self::new(
            LogSpec::default(),
            AdminSpec::default(),
            None,
            default_admin,
        )
    }
}
