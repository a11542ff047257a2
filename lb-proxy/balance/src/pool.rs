//! The servers of one backend, and the choice among them.
//!
//! A [`Pool`] is a snapshot: a change of a server's standing or weight makes a new one
//! ([`Registry::pool`]). The longer-lived parts, the [`Load`] of each server, the turn and the
//! waiting line, are shared by successive snapshots.
//!
//! Servers are chosen from the first of these groups that has a server this connection has not tried:
//!
//! 1. servers that are up,
//! 2. backup servers that are up: the first of them, or all with [`Pool::all_backups`],
//! 3. with [`Pool::fail_open`] and no server up, servers that are down, then backup servers that are
//!    down.
//!
//! Never chosen: weight 0, drain, maintenance. A server that healthd does not probe and whose last connection has failed is
//! avoided for a while: it is chosen if there is no other in any group.
//!
//! Never reads a clock, waits or allocates for a choice.

mod attempt;
mod choose;
mod explain;
mod failures;
mod hash;
mod load;
mod maglev;
mod registry;
mod slow_start;
mod tier;
mod turns;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use config::lb_proxy::{Balance as Algorithm, MAX_WEIGHT};

pub use self::choose::Wait;
pub use self::explain::{Explanation, Reason};
pub use self::failures::Failure;
pub use self::hash::mix;
pub use self::load::{Load, Slot, Tally};
pub use self::registry::{Registry, ServerSettings, Settings};

use self::maglev::Maglev;
use self::registry::Turn;
use self::tier::Tier;
use crate::queue::Queue;

/// The most servers of one pool; those beyond are never chosen.
pub const MAX_SERVERS: usize = 4095;

/// The servers of one backend.
#[derive(Debug)]
pub struct Pool {
    /// Its name.
    pub name: Arc<str>,
    /// Its servers, in the order in which they are configured.
    pub servers: Vec<Arc<Server>>,
    /// How one is chosen.
    pub algorithm: Algorithm,
    /// With no server up, choose among those that are down.
    pub fail_open: bool,
    /// Choose among all backup servers, not the first alone.
    pub all_backups: bool,
    /// Connections that wait for a server with room.
    pub queue: Arc<Queue>,
    /// Groups to choose from, the best first.
    tiers: Vec<Tier>,
    /// The turn.
    turn: Arc<Turn>,
    /// When the last server has reached its whole share; none if all have.
    slow_until: Option<Instant>,
}

/// One server as it stands in a snapshot.
#[derive(Debug, Clone)]
pub struct Server {
    /// Its name, which no other of the pool has.
    pub name: Arc<str>,
    /// Its address.
    pub address: SocketAddr,
    /// Its share of connections, from 0 to [`MAX_WEIGHT`].
    pub weight: u16,
    /// Chosen only when no other server is up.
    pub backup: bool,
    /// Sessions at a time.
    pub max_connections: Option<u32>,
    /// How long it takes to its whole weight and limit once it is back.
    pub slow_start: Duration,
    /// Whether it may be chosen.
    pub eligibility: Eligibility,
    /// Its eligibility is what probes find now: its own failures do not count beside them.
    pub is_probed: bool,
    /// Its load; shared by successive snapshots.
    pub load: Arc<Load>,
}

/// Whether a server may be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eligibility {
    /// It may. So may one of which nothing is known: a proxy that knows nothing serves.
    Up {
        /// Since when, if it was down before; a slow start counts from here.
        since: Option<Instant>,
    },
    /// Keeps the sessions it has.
    Drain,
    /// Taken out manually.
    Maintenance,
    /// Its probes fail.
    Down,
}

/// The known facts about a connection.
#[derive(Debug, Clone, Copy)]
pub struct Hint {
    /// The client's address.
    pub source: IpAddr,
    /// A random number.
    pub random: u64,
}

/// Servers that one connection has tried in vain.
///
/// Remembers servers, not places in a snapshot, so it outlives a change of servers. Beyond
/// [`Tried::CAPACITY`] the one tried the longest ago is forgotten.
#[derive(Debug, Clone, Default)]
pub struct Tried {
    servers: [u32; Self::CAPACITY],
    added: usize,
}

/// The outcome of a choice.
#[derive(Debug)]
pub enum Choice {
    /// This one; it counts the session already.
    Take {
        /// The server's index in the pool.
        index: usize,
        /// Counts the session until dropped.
        slot: Slot,
    },
    /// There are servers, and each has as many sessions as it may.
    Full,
    /// No server may be chosen, or each that may has been tried.
    Nobody,
}

//--- Server

impl Server {
    /// How many sessions it may have at this moment.
    #[must_use]
    #[inline]
    pub fn limit(&self, now: Instant) -> Option<u32> {
        let max = self.max_connections?;
        Some(slow_start::limit(max, self.share(now)))
    }

    /// True when it has room for one more session.
    #[must_use]
    #[inline]
    pub fn has_room(&self, now: Instant) -> bool {
        self.limit(now)
            .is_none_or(|limit| self.load.sessions() < limit)
    }

    /// How much longer it is avoided because its last connection has failed.
    #[must_use]
    #[inline]
    pub fn avoided(&self, now: Instant) -> Option<Duration> {
        match self.is_probed {
            true => None,
            false => self.load.avoided(now),
        }
    }

    /// Its part of its weight and limit, of [`slow_start::FULL`].
    fn share(&self, now: Instant) -> u32 {
        match self.eligibility {
            Eligibility::Up { since } => slow_start::share(since, self.slow_start, now),
            Eligibility::Drain | Eligibility::Maintenance | Eligibility::Down => slow_start::FULL,
        }
    }

    /// Its weight in units of which [`slow_start::FULL`] make one.
    fn effective_weight(&self, now: Instant) -> u64 {
        u64::from(self.weight) * u64::from(self.share(now))
    }

    /// When its slow start is over, if it has one.
    fn slow_until(&self) -> Option<Instant> {
        match self.eligibility {
            Eligibility::Up { since: Some(since) } if !self.slow_start.is_zero() => {
                since.checked_add(self.slow_start)
            }
            _ => None,
        }
    }
}

impl Eligibility {
    /// True when it is up.
    #[must_use]
    #[inline]
    pub fn is_up(&self) -> bool {
        matches!(self, Self::Up { .. })
    }

    /// True when its sessions may continue.
    #[must_use]
    #[inline]
    pub fn keeps_sessions(&self) -> bool {
        matches!(self, Self::Up { .. } | Self::Drain)
    }
}

//--- Tried

impl Tried {
    /// How many servers are remembered.
    pub const CAPACITY: usize = 15;

    /// Remembers `server`.
    pub fn add(&mut self, server: &Server) {
        if self.contains(server) {
            return;
        }
        let at = self.added % Self::CAPACITY;
        if let Some(place) = self.servers.get_mut(at) {
            *place = server.load.id();
            self.added += 1;
        }
    }

    /// True when `server` was tried.
    #[must_use]
    #[inline]
    pub fn contains(&self, server: &Server) -> bool {
        // No server has id 0, which stands in places that are free.
        !self.is_empty() && self.servers.contains(&server.load.id())
    }

    /// True when none was.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.added == 0
    }

    /// Forgets them all.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
pub(crate) mod tests;
