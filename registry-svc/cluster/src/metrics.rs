//! What replication counts.

use daemon::metrics::Metrics as Daemon;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use registry_facts::name::NodeName;

use super::acknowledge::Outcome;
use super::fetch::Landing;

/// Records of other nodes that were applied.
pub const APPLIED: &str = "outpost_registry_replica_records_applied";
/// Records that wait for their content.
pub const WAITING: &str = "outpost_registry_replica_records_waiting";
/// Records set aside because nobody had their content.
pub const SET_ASIDE: &str = "outpost_registry_replica_records_set_aside";
/// Records refused because their stamp is too far in the future.
pub const FUTURE: &str = "outpost_registry_replica_future_stamps";
/// Records a peer has and this node has not.
pub const LAG: &str = "outpost_registry_replica_lag_records";
/// Whether a peer's journal is followed.
pub const CONNECTED: &str = "outpost_registry_replica_connected";
/// Blobs that this node holds and a peer does not, at the last comparison.
pub const MISSING_BLOBS: &str = "outpost_registry_replica_missing_blobs";
/// Registers and blobs that differed at the last comparison.
pub const DIFFERENCES: &str = "outpost_registry_replica_differences";
/// Transfers from peers by how they ended.
pub const TRANSFERS: &str = "outpost_registry_replica_transfers";
/// Octets fetched from peers.
pub const FETCHED: &str = "outpost_registry_replica_fetched_bytes";
/// Reads of clients that a peer answered.
pub const READ_THROUGH: &str = "outpost_registry_read_through";
/// Requests passed on to the node that has the upload session.
pub const FORWARDED: &str = "outpost_registry_forwarded_requests";
/// Writes by how they were acknowledged.
pub const ACKNOWLEDGED: &str = "outpost_registry_acknowledged_writes";

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

/// What replication counts; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    pub(super) applied: Counter,
    pub(super) waiting: Gauge,
    pub(super) set_aside: Counter,
    pub(super) future: Counter,
    pub(super) read_through: Counter,
    pub(super) forwarded: Counter,
    fetched: Counter,
    lag: Family<PeerLabel, Gauge>,
    connected: Family<PeerLabel, Gauge>,
    missing_blobs: Family<PeerLabel, Gauge>,
    differences: Family<PeerLabel, Gauge>,
    transfers: Family<OutcomeLabel, Counter>,
    acknowledged: Family<OutcomeLabel, Counter>,
}

impl Metrics {
    /// Has them shown.
    pub fn register(&self, daemon: &Daemon) {
        daemon.register(
            APPLIED,
            "Records of other nodes that were applied",
            self.applied.clone(),
        );
        daemon.register(
            WAITING,
            "Records that wait for their content",
            self.waiting.clone(),
        );
        daemon.register(
            SET_ASIDE,
            "Records set aside because nobody had their content",
            self.set_aside.clone(),
        );
        daemon.register(
            FUTURE,
            "Records refused because their stamp is too far in the future",
            self.future.clone(),
        );
        daemon.register(
            LAG,
            "Records a peer has and this node has not",
            self.lag.clone(),
        );
        daemon.register(
            CONNECTED,
            "Whether a peer's journal is followed",
            self.connected.clone(),
        );
        daemon.register(
            MISSING_BLOBS,
            "Blobs that this node holds and a peer does not, at the last comparison",
            self.missing_blobs.clone(),
        );
        daemon.register(
            DIFFERENCES,
            "Registers and blobs that differed at the last comparison",
            self.differences.clone(),
        );
        daemon.register(
            TRANSFERS,
            "Transfers from peers by how they ended",
            self.transfers.clone(),
        );
        daemon.register(FETCHED, "Octets fetched from peers", self.fetched.clone());
        daemon.register(
            READ_THROUGH,
            "Reads of clients that a peer answered",
            self.read_through.clone(),
        );
        daemon.register(
            FORWARDED,
            "Requests passed on to the node that has the upload session",
            self.forwarded.clone(),
        );
        daemon.register(
            ACKNOWLEDGED,
            "Writes by how they were acknowledged",
            self.acknowledged.clone(),
        );
    }

    pub(super) fn fetched(&self, octets: usize) {
        self.fetched.inc_by(octets as u64);
    }

    pub(super) fn landed(&self, landing: &Landing) {
        let outcome = match landing {
            Landing::Held => "held",
            Landing::Denied => "denied",
            Landing::Unreachable => "unreachable",
            Landing::Corrupt => "corrupt",
            Landing::NoRoom => "no_room",
        };
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
