//! Queries that have no response yet.

use std::collections::HashMap;

use dns_cache::instant::Instant;

use super::upstreams::UpstreamId;
use super::{ExchangeId, FlightId};
use crate::exchange::Sent;
use crate::forward::Protocol;

/// The flight or the probe that waits for an exchange's response.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Flight(FlightId),
    Probe,
    /// The addresses of the root's servers (RFC 9609).
    Priming,
}

/// A query and its state.
pub(super) struct Pending {
    pub(super) purpose: Purpose,
    pub(super) upstream: UpstreamId,
    pub(super) sent: Sent,
    pub(super) at: Instant,
    pub(super) protocol: Protocol,
    /// The response takes longer than usual.
    pub(super) overdue: bool,
    /// The labels of its name, when that is only a part of the question's.
    pub(super) hidden: Option<usize>,
    /// TCP is used because the letter case differed over UDP.
    pub(super) case_in_doubt: bool,
}

/// All exchanges by id. Ids are never used twice.
#[derive(Default)]
pub(super) struct Exchanges {
    pending: HashMap<ExchangeId, Pending>,
    last: u64,
}

impl Exchanges {
    pub(super) fn open(&mut self, pending: Pending) -> ExchangeId {
        self.last += 1;
        let id = ExchangeId(self.last);
        self.pending.insert(id, pending);
        id
    }

    pub(super) fn get(&self, id: ExchangeId) -> Option<&Pending> {
        self.pending.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ExchangeId) -> Option<&mut Pending> {
        self.pending.get_mut(&id)
    }

    pub(super) fn remove(&mut self, id: ExchangeId) -> Option<Pending> {
        self.pending.remove(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    #[cfg(test)]
    pub(super) fn n_probes(&self) -> usize {
        let probes = self.pending.values();
        probes
            .filter(|pending| !matches!(pending.purpose, Purpose::Flight(_)))
            .count()
    }
}
