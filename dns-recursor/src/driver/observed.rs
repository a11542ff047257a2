//! The counters and states of the driver, for status and metrics.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use dns_resolve::resolver::{Counts, Known, UpstreamView};

use crate::totals;

/// The counters and states of the driver, for status and metrics.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The resolver's counters.
    pub counts: Counts,
    /// Questions in flight.
    pub n_flights: usize,
    /// The knowledge of zones from the root downwards.
    pub known: Known,
    /// Every upstream.
    pub upstreams: Vec<UpstreamView>,
    /// Responses by upstream and response code.
    pub responses: BTreeMap<(SocketAddr, u16), Latency>,
    /// Exchanges that ended without a response, by upstream.
    pub losses: BTreeMap<SocketAddr, u64>,
    /// The number of times that each upstream became absent.
    pub absences: BTreeMap<SocketAddr, u64>,
    /// NOTIFYs that have dropped a zone from the cache.
    pub notified: u64,
    /// Denials that the last good answer has won over.
    pub outlasted: u64,
    /// Entries that were learned from sick upstreams, and dropped when these were back.
    pub forgotten: u64,
}

/// The times that responses took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// By bucket; the last is above all bounds.
    pub buckets: [u64; totals::BUCKETS + 1],
    /// The sum, in microseconds.
    pub micros: u64,
}

impl Latency {
    pub(crate) fn add(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get_mut(totals::bucket(micros)) {
            *bucket += 1;
        }
        self.micros = self.micros.saturating_add(micros);
    }
}
