//! What the driver has seen, for status and metrics.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dns_resolve::resolver::{Counts, UpstreamView};

use crate::totals;

/// What the driver sees, for status and metrics.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// What the resolver counted.
    pub counts: Counts,
    /// Questions under way.
    pub n_flights: usize,
    /// Every upstream.
    pub upstreams: Vec<UpstreamView>,
    /// Responses by upstream and response code.
    pub responses: BTreeMap<(SocketAddr, u16), Latency>,
    /// Exchanges that ended without a response, by upstream.
    pub losses: BTreeMap<SocketAddr, u64>,
    /// How often each upstream became absent.
    pub absences: BTreeMap<SocketAddr, u64>,
}

/// How long responses took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// By bucket; the last is above all bounds.
    pub buckets: [u64; totals::BUCKETS + 1],
    /// All together, in microseconds.
    pub micros: u64,
}

impl Latency {
    pub(super) fn add(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get_mut(totals::bucket(micros)) {
            *bucket += 1;
        }
        self.micros = self.micros.saturating_add(micros);
    }
}

/// What the driver has seen so far.
pub fn lock(observed: &Mutex<Observed>) -> MutexGuard<'_, Observed> {
    // Replaced as a whole, so a panic elsewhere leaves it whole.
    observed.lock().unwrap_or_else(PoisonError::into_inner)
}
