//! The parts of a configuration that every daemon has: `[log]`, `[admin]` and `drain`.

use std::net::SocketAddr;
use std::time::Duration;

use ::config::{Admin, AdminListen, Log};
use serde::Deserialize;

use super::HumanDuration;

/// How long a daemon may take to finish what it has begun.
const DEFAULT_DRAIN: Duration = Duration::from_secs(10);

/// `[admin]` of a service whose configuration is not in the crate `config` yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct AdminSpec {
    /// The admin listener's address, or `"none"`; each service has its own default.
    pub listen: Option<AdminListen>,
}

/// The part of the config that every daemon has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Common {
    /// How to log. Taken up on reload.
    pub log: Log,
    /// The admin listener. Fixed for the life of the process.
    pub admin: Option<SocketAddr>,
    /// How long draining may take. Taken up on reload.
    pub drain: Duration,
}

impl Common {
    /// The part of a service's configuration.
    #[must_use]
    pub const fn of<const PORT: u16>(log: Log, admin: Admin<PORT>, drain: HumanDuration) -> Self {
        Self {
            log,
            admin: admin.listen.address(),
            drain: drain.0,
        }
    }

    /// Fills in what was not written.
    #[must_use]
    pub fn new(
        log: Log,
        admin: AdminSpec,
        drain: Option<HumanDuration>,
        default_admin: SocketAddr,
    ) -> Self {
        Self {
            log,
            admin: match admin.listen {
                None => Some(default_admin),
                Some(listen) => listen.address(),
            },
            drain: drain.map_or(DEFAULT_DRAIN, Duration::from),
        }
    }

    /// The defaults of a daemon whose configuration says nothing of all this.
    #[must_use]
    pub fn with_admin(default_admin: SocketAddr) -> Self {
        Self::new(Log::default(), AdminSpec::default(), None, default_admin)
    }
}
