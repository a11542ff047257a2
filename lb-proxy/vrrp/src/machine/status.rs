//! The status of a machine.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::event::{Fault, Lease, State};
use crate::packet::Refusal;
use crate::settings::RouterSettings;

/// One virtual router at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its settings.
    pub settings: Arc<RouterSettings>,
    /// Its state.
    pub state: State,
    /// Since when; `None` before it was started.
    pub since: Option<Instant>,
    /// Why it cannot be active.
    pub faults: Vec<Fault>,
    /// The priority it advertises, or would.
    pub priority: u8,
    /// The address it advertises from.
    pub source: Option<IpAddr>,
    /// The active router, as far as this node knows: itself, or the one it heard last.
    pub active: Option<Heard>,
    /// The interval of the active router.
    pub interval: Duration,
    /// Whether it is handing over.
    pub is_handing_over: bool,
    /// The lease of the addresses.
    pub lease: Lease,
    /// The counters.
    pub counters: Counters,
}

/// An active router that was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Its address.
    pub source: IpAddr,
    /// Its priority.
    pub priority: u8,
    /// When it was heard last.
    pub at: Instant,
}

/// Counts since the start. The names are those of keepalived's statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Advertisements accepted.
    pub advert_rcvd: u64,
    /// Advertisements sent.
    pub advert_sent: u64,
    /// Times it became active.
    pub become_master: u64,
    /// Times it ceased to be active.
    pub release_master: u64,
    /// Advertisements received from a router that stopped.
    pub pri_zero_rcvd: u64,
    /// Advertisements sent to say that this router stopped.
    pub pri_zero_sent: u64,
    /// Advertisements of lower priority received while active.
    pub lower_rcvd: u64,
    /// Advertisements of others that were overruled by this node's lease.
    pub overruled: u64,
    /// Times another node was seen to have an address that this node holds.
    pub duplicates: u64,
    /// Times this node found that it had not run in time.
    pub pauses: u64,
    refused: [u64; Refusal::ALL.len()],
}

impl Counters {
    /// Datagrams refused for a reason.
    #[must_use]
    pub fn refused(&self, refusal: Refusal) -> u64 {
        let counts = Refusal::ALL.iter().zip(self.refused);
        counts
            .filter(|(kind, _)| **kind == refusal)
            .map(|(_, count)| count)
            .sum()
    }

    pub(super) fn count_refused(&mut self, refusal: Refusal) {
        for (kind, count) in Refusal::ALL.iter().zip(&mut self.refused) {
            if *kind == refusal {
                *count += 1;
            }
        }
    }
}
