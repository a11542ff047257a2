//! Counters of replication.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use registry_facts::name::NodeName;

use registry_cluster_core::acknowledge::Outcome;

/// A peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PeerLabel {
    /// Its name.
    pub peer: String,
}

/// How something ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OutcomeLabel {
    /// One of a few words.
    pub outcome: &'static str,
}

/// Counters of replication; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Records of other nodes that were applied.
    pub applied: Counter,
    /// Records that wait for their content.
    pub waiting: Gauge,
    /// Records set aside because no node had their content.
    pub set_aside: Counter,
    /// Records of other nodes whose stamp is ahead of the time here.
    pub future: Counter,
    /// Reads of clients that a peer answered.
    pub read_through: Counter,
    /// Requests passed on to the node that has the upload session.
    pub forwarded: Counter,
    /// Octets fetched from peers.
    pub fetched: Counter,
    /// Records that a peer has and this node does not.
    pub lag: Family<PeerLabel, Gauge>,
    /// How far a peer's clock is ahead of this node's, in seconds.
    pub clock: Family<PeerLabel, Gauge>,
    /// Whether a peer's journal is followed.
    pub connected: Family<PeerLabel, Gauge>,
    /// Blobs that this node holds and a peer does not, at the last comparison.
    pub missing_blobs: Family<PeerLabel, Gauge>,
    /// Registers and blobs that differed at the last comparison.
    pub differences: Family<PeerLabel, Gauge>,
    /// Transfers from peers by how they ended.
    pub transfers: Family<OutcomeLabel, Counter>,
    /// Writes by how they were acknowledged.
    pub acknowledged: Family<OutcomeLabel, Counter>,
}

impl Counters {
    pub(super) fn fetched(&self, octets: usize) {
        self.fetched.inc_by(octets as u64);
    }

    pub(super) fn landed(&self, outcome: &'static str) {
        self.transfers
            .get_or_create(&OutcomeLabel { outcome })
            .inc();
    }

    pub(super) fn acknowledged(&self, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Enough => "enough",
            Outcome::Fewer => "fewer",
            Outcome::Refused => "refused",
        };
        self.acknowledged
            .get_or_create(&OutcomeLabel { outcome })
            .inc();
    }

    pub(super) fn connected(&self, peer: &NodeName, connected: bool) {
        self.connected
            .get_or_create(&label(peer))
            .set(i64::from(connected));
    }

    pub(super) fn lag(&self, peer: &NodeName, records: u64) {
        self.lag.get_or_create(&label(peer)).set(signed(records));
    }

    pub(super) fn clock(&self, peer: &NodeName, seconds: i64) {
        self.clock.get_or_create(&label(peer)).set(seconds);
    }

    pub(super) fn compared(&self, peer: &NodeName, differences: u64, missing_blobs: u64) {
        self.differences
            .get_or_create(&label(peer))
            .set(signed(differences));
        self.missing_blobs
            .get_or_create(&label(peer))
            .set(signed(missing_blobs));
    }
}

fn label(peer: &NodeName) -> PeerLabel {
    PeerLabel {
        peer: peer.as_str().to_owned(),
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
