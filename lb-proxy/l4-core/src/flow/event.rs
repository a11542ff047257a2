//! Inputs and outputs of flows.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use balance::pool::Server;
use config::lb_proxy as file;

use super::NONE;

/// How flows of one frontend end, and how many there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// A flow in which nothing moves has ended after this long.
    pub idle_timeout: Duration,
    /// Flows at a time.
    pub max_flows: usize,
    /// Datagrams of a client after which the next chooses again, as nginx's `proxy_requests`.
    pub requests: Option<u32>,
    /// Responses to each request after which a flow has ended, as nginx's `proxy_responses`.
    pub responses: Option<u32>,
}

impl Settings {
    /// Whether flows end by the number of datagrams, so that each has to come alone.
    #[must_use]
    pub fn counts_datagrams(&self) -> bool {
        self.requests.is_some() || self.responses.is_some()
    }

    /// The settings of a configuration.
    #[must_use]
    pub fn of(flows: &file::Flows) -> Self {
        Self {
            idle_timeout: flows.idle.get(),
            max_flows: flows.most.get(),
            requests: flows.requests.map(config::Whole::get),
            responses: flows.responses.map(config::Whole::get),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::of(&file::Flows::default())
    }
}

/// Names a flow; never two that exist at the same time, and again only after 2³² others in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// An output: something to do.
#[derive(Debug)]
pub enum Output {
    /// Make the way to a server.
    Open {
        /// The flow.
        flow: FlowId,
        /// The server.
        server: Arc<Server>,
    },
    /// Send the datagram that was handled to the flow's server.
    Forward {
        /// This flow.
        flow: FlowId,
    },
    /// The flow has ended: nothing goes that way any more.
    Close {
        /// This flow.
        flow: FlowId,
        /// Why.
        reason: Ending,
    },
    /// Drop the datagram that was handled.
    Drop(Dropped),
    /// A server refused a datagram.
    Refused {
        /// The server.
        server: Arc<Server>,
    },
}

/// Why a flow has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Nothing moved.
    Idle,
    /// As many requests or responses as there may be.
    Complete,
    /// Another needed the room.
    Evicted,
    /// Its server is gone, down or taken out.
    ServerGone,
    /// Its server refused a datagram.
    Refused,
    /// There is no way to the server: no socket, no route.
    NoWay,
    /// Its source may no longer send.
    Denied,
    /// Ended manually.
    Killed,
}

/// Why a datagram is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// No server may be chosen.
    Nobody,
    /// Each server has as many sessions as it may.
    Full,
    /// Its source may not send.
    Denied,
    /// Its source sends from too many addresses.
    Limited,
}

/// The counters; they only go up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Flows that began.
    pub opened: u64,
    /// Flows that ended because nothing moved.
    pub idle: u64,
    /// Flows that were complete.
    pub complete: u64,
    /// Flows that made room for others.
    pub evicted: u64,
    /// Flows whose server went.
    pub moved: u64,
    /// Flows whose server refused a datagram.
    pub refused: u64,
    /// Flows to whose server there was no way.
    pub no_way: u64,
    /// Datagrams dropped because there was no server.
    pub nobody: u64,
    /// Datagrams dropped because each server was full.
    pub full: u64,
}

/// A flow as it stands.
#[derive(Debug, Clone)]
pub struct FlowInfo {
    /// The flow's number.
    pub id: FlowId,
    /// The client's address.
    pub client: SocketAddr,
    /// The address it sends to, if that is known.
    pub local: Option<IpAddr>,
    /// The server of its datagrams.
    pub server: Arc<Server>,
    /// Datagrams from the client.
    pub requests: u64,
    /// Datagrams to the client.
    pub responses: u64,
    /// How long nothing has moved.
    pub idle: Duration,
}

impl Counts {
    /// Adds what `other` has counted.
    pub fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.idle += other.idle;
        self.complete += other.complete;
        self.evicted += other.evicted;
        self.moved += other.moved;
        self.refused += other.refused;
        self.no_way += other.no_way;
        self.nobody += other.nobody;
        self.full += other.full;
    }
}

//--- Flow names

impl FlowId {
    /// The place it has, which no other flow has at the same time.
    #[must_use]
    pub fn index(self) -> usize {
        usize::try_from(self.index).unwrap_or(usize::MAX)
    }

    /// As one number.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// From that number.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        let half = |bits: u64| u32::try_from(bits & 0xffff_ffff).unwrap_or(NONE);
        Self {
            index: half(bits),
            generation: half(bits >> 32),
        }
    }
}
