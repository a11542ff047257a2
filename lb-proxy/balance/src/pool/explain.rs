//! Why a server is chosen or not.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Eligibility, Pool, Server, slow_start};

/// The explanation of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The server.
    pub server: Arc<str>,
    /// Whether it is chosen, and why.
    pub reason: Reason,
    /// Its sessions.
    pub sessions: u32,
    /// How many it may have at this moment.
    pub limit: Option<u32>,
}

/// Whether a server is chosen, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Chosen.
    Chosen {
        /// Its share of connections in thousandths, as weights have it.
        share: u32,
    },
    /// Chosen, and still less than its weight says.
    SlowStart {
        /// Its share of connections in thousandths.
        share: u32,
        /// How much of its weight counts, in percent.
        percent: u32,
        /// How long until all of it does.
        left: Duration,
    },
    /// A backup server, chosen because no other is up.
    BackupChosen {
        /// Its share of connections in thousandths.
        share: u32,
    },
    /// Down, and chosen because no server is up.
    FailOpen {
        /// Its share of connections in thousandths.
        share: u32,
    },
    /// Its last connection has failed, and healthd does not probe it.
    Avoided {
        /// How long until it is tried again.
        left: Duration,
    },
    /// As many sessions as it may have.
    Full,
    /// A backup server while others are up.
    Backup,
    /// A backup server behind another one.
    LaterBackup,
    /// Its weight is 0.
    NoWeight,
    /// Keeps its sessions and gets none.
    Drain,
    /// Taken out manually.
    Maintenance,
    /// Its probes fail.
    Down,
}

impl Pool {
    /// The explanation of each server, in order.
    #[must_use]
    pub fn explain(&self, now: Instant) -> Vec<Explanation> {
        (0..)
            .zip(&self.servers)
            .map(|(index, server)| Explanation {
                server: Arc::clone(&server.name),
                reason: self.reason(index, server, now),
                sessions: server.load.sessions(),
                limit: server.limit(now),
            })
            .collect()
    }

    fn reason(&self, index: u16, server: &Server, now: Instant) -> Reason {
        match server.eligibility {
            Eligibility::Drain => return Reason::Drain,
            Eligibility::Maintenance => return Reason::Maintenance,
            _ if server.weight == 0 => return Reason::NoWeight,
            Eligibility::Up { .. } | Eligibility::Down => {}
        }
        let tier = self.tiers.first().filter(|tier| tier.contains(index));
        let Some(tier) = tier else {
            return if server.eligibility == Eligibility::Down {
                Reason::Down
            } else {
                Reason::Backup
            };
        };
        let alone = server.backup && !self.all_backups;
        if alone && self.members(tier).next().map(|(first, _)| first) != Some(index) {
            return Reason::LaterBackup;
        }
        if !server.has_room(now) {
            return Reason::Full;
        }
        if let Some(left) = server.avoided(now) {
            return Reason::Avoided { left };
        }
        let total: u64 = if alone {
            server.effective_weight(now)
        } else {
            self.members(tier)
                .map(|(_, server)| server.effective_weight(now))
                .sum()
        };
        let share = server.effective_weight(now) * 1000 / total.max(1);
        let share = u32::try_from(share).unwrap_or(1000);
        let of_weight = server.share(now);
        if server.eligibility == Eligibility::Down {
            Reason::FailOpen { share }
        } else if of_weight < slow_start::FULL {
            let until = server.slow_until().unwrap_or(now);
            Reason::SlowStart {
                share,
                percent: of_weight * 100 / slow_start::FULL,
                left: until.saturating_duration_since(now),
            }
        } else if server.backup {
            Reason::BackupChosen { share }
        } else {
            Reason::Chosen { share }
        }
    }
}

impl Reason {
    /// True when the server gets connections.
    #[must_use]
    pub fn is_chosen(&self) -> bool {
        matches!(
            self,
            Self::Chosen { .. }
                | Self::SlowStart { .. }
                | Self::BackupChosen { .. }
                | Self::FailOpen { .. }
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousandths = |share: u32| format!("{}.{} %", share / 10, share % 10);
        match self {
            Self::Chosen { share } => {
                write!(formatter, "chosen for {}", thousandths(*share))
            }
            Self::SlowStart {
                share,
                percent,
                left,
            } => write!(
                formatter,
                "chosen for {}: slow start at {percent} % of its weight, {} s to go",
                thousandths(*share),
                left.as_secs() + 1
            ),
            Self::BackupChosen { share } => write!(
                formatter,
                "backup, chosen for {}: no other server is up",
                thousandths(*share)
            ),
            Self::FailOpen { share } => write!(
                formatter,
                "down, chosen for {} all the same: no server is up (fail-open)",
                thousandths(*share)
            ),
            Self::Avoided { left } => write!(
                formatter,
                "avoided for {} s more: its last connection failed",
                left.as_secs() + 1
            ),
            Self::Full => formatter.write_str("not chosen: as many sessions as it may have"),
            Self::Backup => formatter.write_str("not chosen: backup, and others are up"),
            Self::LaterBackup => {
                formatter.write_str("not chosen: backup behind another one that is up")
            }
            Self::NoWeight => formatter.write_str("not chosen: its weight is 0"),
            Self::Drain => formatter.write_str("not chosen: drains"),
            Self::Maintenance => formatter.write_str("not chosen: in maintenance"),
            Self::Down => formatter.write_str("not chosen: down"),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            server,
            reason,
            sessions,
            ..
        } = self;
        match self.limit {
            Some(limit) => write!(
                formatter,
                "{server}: {reason} ({sessions} of {limit} sessions)"
            ),
            None => write!(formatter, "{server}: {reason} ({sessions} sessions)"),
        }
    }
}
