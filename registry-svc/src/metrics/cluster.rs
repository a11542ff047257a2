//! Metrics of replication.

use daemon::metrics::Metrics;
use registry_cluster::counters::Counters;

/// Records of other nodes that were applied.
pub const APPLIED: &str = "outpost_registry_replica_records_applied";
/// Records that wait for their content.
pub const WAITING: &str = "outpost_registry_replica_records_waiting";
/// Records set aside because no node had their content.
pub const SET_ASIDE: &str = "outpost_registry_replica_records_set_aside";
/// Records whose stamp is ahead of the time here.
pub const FUTURE: &str = "outpost_registry_replica_future_stamps";
/// How far a peer's clock is ahead of this node's.
pub const CLOCK: &str = "outpost_registry_replica_clock_seconds";
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

/// Has replication shown.
pub fn register(counters: &Counters, daemon: &Metrics) {
    daemon.register(
        APPLIED,
        "Records of other nodes that were applied",
        counters.applied.clone(),
    );
    daemon.register(
        WAITING,
        "Records that wait for their content",
        counters.waiting.clone(),
    );
    daemon.register(
        SET_ASIDE,
        "Records set aside because no node had their content",
        counters.set_aside.clone(),
    );
    daemon.register(
        FUTURE,
        "Records whose date is ahead of this node's time; they are applied",
        counters.future.clone(),
    );
    daemon.register(
        CLOCK,
        "How far a peer's clock is ahead of this node's, in seconds",
        counters.clock.clone(),
    );
    daemon.register(
        LAG,
        "Records a peer has and this node has not",
        counters.lag.clone(),
    );
    daemon.register(
        CONNECTED,
        "Whether a peer's journal is followed",
        counters.connected.clone(),
    );
    daemon.register(
        MISSING_BLOBS,
        "Blobs that this node holds and a peer does not, at the last comparison",
        counters.missing_blobs.clone(),
    );
    daemon.register(
        DIFFERENCES,
        "Registers and blobs that differed at the last comparison",
        counters.differences.clone(),
    );
    daemon.register(
        TRANSFERS,
        "Transfers from peers by how they ended",
        counters.transfers.clone(),
    );
    daemon.register(
        FETCHED,
        "Octets fetched from peers",
        counters.fetched.clone(),
    );
    daemon.register(
        READ_THROUGH,
        "Reads of clients that a peer answered",
        counters.read_through.clone(),
    );
    daemon.register(
        FORWARDED,
        "Requests passed on to the node that has the upload session",
        counters.forwarded.clone(),
    );
    daemon.register(
        ACKNOWLEDGED,
        "Writes by how they were acknowledged",
        counters.acknowledged.clone(),
    );
}
