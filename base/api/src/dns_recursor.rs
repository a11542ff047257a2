//! The detail of dns-recursor's status.

use serde::{Deserialize, Serialize};

/// Queries, the cache, the routes and their upstreams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// The number of queries.
    pub queries: u64,
    /// The answers by source.
    pub answers: Answers,
    /// The cache.
    pub cache: Cache,
    /// Validation by DNSSEC, if some zone is validated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dnssec: Option<Dnssec>,
    /// Recursion, if some zone is resolved from the root's servers downwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recursion: Option<Recursion>,
    /// Names of the configuration and of files, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<Names>,
    /// Questions that wait for upstreams.
    pub questions_under_way: usize,
    /// The routes of the forward table.
    pub zones: Vec<Zone>,
    /// The upstreams of all routes.
    pub upstreams: Vec<Upstream>,
    /// Whether healthd is connected; none when it is not used.
    pub healthd_connected: Option<bool>,
    /// The cache on disk, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_file: Option<CacheFile>,
    /// The cluster whose forwards are learned, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
    /// The query log, while queries are logged or an operator's command is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_log: Option<QueryLog>,
    /// dnstap, if messages are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dnstap: Option<Dnstap>,
}

/// The query log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryLog {
    /// Whether queries are logged.
    pub enabled: bool,
    /// The classes of responses that are logged.
    pub classes: Vec<String>,
    /// The most lines in a second.
    pub rate: u32,
    /// The seconds that are left of an operator's command; none without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<u64>,
    /// Lines since the start.
    pub lines: u64,
    /// Queries that were left out since the start.
    pub left_out: u64,
}

/// The stream of dnstap messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dnstap {
    /// The socket or the file.
    pub to: String,
    /// Whether it takes messages.
    pub open: bool,
    /// Messages that were written.
    pub written: u64,
    /// Messages that had no room, or were lost with the reader.
    pub dropped: u64,
}

/// The cluster whose forwards are learned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Whether clusterd is connected; otherwise its last forwards stay.
    pub connected: bool,
    /// The last error of the connection; empty while connected.
    pub error: String,
    /// The generation of the last snapshot; 0 before the first one.
    pub generation: u64,
    /// The freshness of the object: `unread`, `old` or `current`.
    pub freshness: String,
    /// Whether the forwards are those of the disk, from before the start: clusterd has said nothing since.
    #[serde(default)]
    pub saved: bool,
    /// The zones that the object forwards, also those that the configuration forwards itself.
    pub zones: Vec<String>,
    /// The reason why the object is not followed; its earlier forwards stay.
    pub problem: Option<String>,
    /// Parts of the object that have no effect.
    pub remarks: Vec<String>,
}

/// Answers by source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// From fresh entries of the cache.
    pub cache: u64,
    /// From stale entries (RFC 8767).
    pub stale: u64,
    /// From upstreams.
    pub resolved: u64,
    /// From this server itself.
    pub local: u64,
    /// From names of the configuration and of hosts files.
    #[serde(default)]
    pub names: u64,
    /// From response policies.
    #[serde(default)]
    pub policy: u64,
    /// By DNS64, of A records in the place of AAAA records.
    #[serde(default)]
    pub dns64: u64,
}

/// The entries of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// The number of answers.
    pub positive: usize,
    /// The number of denials (RFC 2308).
    pub negative: usize,
    /// The memory of both, in octets.
    pub bytes: usize,
}

/// Recursion from the root's servers downwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recursion {
    /// The addresses of the root's servers.
    pub root_servers: usize,
    /// Whether one of them has said which they are; until then they are those of the hints.
    pub primed: bool,
    /// The delegated zones whose servers are known.
    pub delegations: usize,
}

/// Validation by DNSSEC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dnssec {
    /// The zones with a trust anchor.
    pub trust_anchors: Vec<String>,
    /// The zones whose keys are followed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed: Vec<ManagedZone>,
    /// The zones with a negative trust anchor, and when it ends: those of the configuration, and forwarded zones that are not
    /// validated.
    pub negative_trust_anchors: Vec<String>,
    /// The zones whose keys are known, or that are known to be unsigned.
    #[serde(default)]
    pub known_zones: usize,
    /// The signed denials that answer for further names.
    #[serde(default)]
    pub denials: usize,
    /// Answers that were made from these.
    #[serde(default)]
    pub denied: u64,
    /// Answers that were secure.
    pub secure: u64,
    /// Answers from zones without signatures.
    pub insecure: u64,
    /// Answers that were bogus.
    pub bogus: u64,
    /// Answers whose keys could not be had.
    pub indeterminate: u64,
}

/// A zone whose keys are followed (RFC 5011).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagedZone {
    /// The zone.
    pub zone: String,
    /// Its keys.
    pub keys: Vec<ManagedKey>,
    /// When its last set with a trusted signature came, in seconds since 1970; none before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_at: Option<u64>,
    /// The seconds until the next question for its keys.
    pub next_in_seconds: u64,
    /// The questions that brought such a set.
    pub good: u64,
    /// The questions that did not.
    pub failed: u64,
    /// The reason why the last question did not, or why the zone has no trust anchor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A key of a zone whose keys are followed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagedKey {
    /// Its tag.
    pub tag: u16,
    /// The number of its algorithm.
    pub algorithm: u8,
    /// Its state: pending, valid, missing, revoked or removed; initial for one of the configuration that was not seen yet.
    pub state: String,
    /// The seconds until a pending key counts, if every set has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_seconds: Option<u64>,
}

/// Names of the configuration and of files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// The names of the configuration.
    pub given: usize,
    /// The names that only hosts files have.
    pub hosts: usize,
    /// The files.
    pub files: Vec<NameFile>,
    /// The probed addresses that are left out.
    pub down: Vec<String>,
}

/// A file with names or rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameFile {
    /// The path.
    pub path: String,
    /// Whether it is a response policy, and no hosts file.
    pub is_policy: bool,
    /// The lines of a hosts file, or the rules of a response policy.
    pub entries: usize,
    /// The entries that are wrong or not honoured.
    pub left_out: usize,
    /// When it was read, in seconds since 1970.
    pub read_at: u64,
    /// The reason why it was not read since.
    pub problem: Option<String>,
}

/// The cache on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheFile {
    /// The path.
    pub path: String,
    /// The entries that were read from it since the start.
    pub restored: usize,
    /// The time since it was written by this process.
    pub written_seconds_ago: Option<u64>,
    /// The entries that were written.
    pub entries: u64,
    /// The reason why it was not read or written.
    pub problem: Option<String>,
}

/// A route of the forward table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// The zone.
    pub zone: String,
    /// The source of its answers: forward, forward-first or recurse.
    #[serde(default)]
    pub mode: String,
    /// Whether this server asks its upstreams for recursion.
    pub recursive: bool,
    /// Whether none of its upstreams answers.
    pub down: bool,
    /// The mode of validation: off, process or validate.
    #[serde(default)]
    pub dnssec: String,
    /// The addresses of its upstreams.
    pub upstreams: Vec<String>,
    /// Whether the zone was learned from the cluster; otherwise it is written.
    #[serde(default)]
    pub learned: bool,
}

/// An upstream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Upstream {
    /// Its IP address and port.
    pub address: String,
    /// Its state.
    pub state: Fitness,
    /// The reason of its absence, in words.
    pub why: Option<String>,
    /// Seconds since the state changed.
    pub since_seconds: u64,
    /// The smoothed round trip, in milliseconds.
    pub round_trip_ms: Option<f64>,
}

/// The state of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Fitness {
    /// It answers.
    #[serde(rename = "good")]
    Good,
    /// It left questions unanswered; this server asks it after the good ones.
    #[serde(rename = "in doubt")]
    Doubtful,
    /// It does not answer.
    #[serde(rename = "absent")]
    Absent,
}

impl Fitness {
    /// The state in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Doubtful => "in doubt",
            Self::Absent => "absent",
        }
    }
}
