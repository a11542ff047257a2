//! The answers of dns-authd: its status, its zones, and the result of a reload.

use std::fmt;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cluster_nodes::Nodes;

/// The detail of dns-authd's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// Queries by transport: `udp`, `tcp`, `tls`, `https`, `quic`.
    pub queries: BTreeMap<String, u64>,
    /// Responses by response code; codes without a response are left out.
    pub responses: BTreeMap<String, u64>,
    /// Responses that were truncated (RFC 1035 §4.1.1, TC).
    pub truncated: u64,
    /// Answers of live sets.
    pub live_answers: u64,
    /// The zones.
    pub zones: Zones,
    /// The connection to healthd.
    pub health: Health,
    /// The cluster whose names are served.
    #[serde(default)]
    pub kubernetes: Option<Kubernetes>,
    /// The nodes of the cluster that LUA records name.
    #[serde(default)]
    pub nodes: Option<Nodes>,
    /// The catalogs.
    #[serde(default)]
    pub catalogs: Vec<Catalog>,
}

/// A catalog zone (RFC 9432).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catalog {
    /// Its name.
    pub name: String,
    /// Whether it is read, so that its zones are served; else it is written.
    pub is_read: bool,
    /// How many zones it has: those that are served from it, or those that it lists.
    pub members: usize,
    /// The first zones that it lists and that are not served from it, with the reason.
    pub conflicts: Vec<String>,
    /// How many there are.
    pub n_conflicts: usize,
    /// Why its newest version is broken and changes nothing.
    pub error: Option<String>,
}

/// The zones by state, and the first of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Zones {
    /// How many are loaded.
    pub loaded: usize,
    /// How many are stale.
    pub stale: usize,
    /// How many have failed.
    pub failed: usize,
    /// How many have a new version that waits until an operator accepts it.
    #[serde(default)]
    pub held: usize,
    /// How many are being loaded for the first time: their names get SERVFAIL.
    #[serde(default)]
    pub loading: usize,
    /// The loads, those of zones in service too.
    #[serde(default)]
    pub loads: Loads,
    /// The first 50, those with problems first.
    pub shown: Vec<Zone>,
}

/// The loads of zones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loads {
    /// The names of the zones whose files are being read.
    pub running: Vec<String>,
    /// The number of zones that wait for that.
    pub waiting: usize,
}

/// The state of a zone's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ZoneState {
    /// The served data is that of its files.
    Loaded,
    /// Its files are broken; the data before them is served.
    Stale,
    /// Its files are broken and were never loaded: its names get SERVFAIL.
    Failed,
    /// Its files have a doubtful new version, which waits until an operator accepts it; the data before it is
    /// served.
    Held,
    /// Its files are being read for the first time, or wait for that: its names get SERVFAIL.
    Loading,
}

impl ZoneState {
    /// The state in a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loaded => "loaded",
            Self::Stale => "stale",
            Self::Failed => "failed",
            Self::Held => "held",
            Self::Loading => "loading",
        }
    }
}

/// A new version of a zone that is held back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldVersion {
    /// Its serial.
    pub serial: u32,
    /// Its number of records.
    pub records: usize,
    /// The reasons to doubt it.
    pub reasons: Vec<String>,
}

/// A zone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Zone {
    /// Its name, with the final dot.
    pub name: String,
    /// Its file.
    pub file: Option<String>,
    /// Its state.
    pub state: ZoneState,
    /// The served serial.
    pub serial: u32,
    /// The number of served records.
    pub records: usize,
    /// The memory of the records, in octets.
    pub memory: usize,
    /// When the served data was loaded, in seconds since 1970; none when it never was.
    pub loaded: Option<u64>,
    /// The version of its files that is held back.
    #[serde(default)]
    pub held: Option<HeldVersion>,
    /// The older version that was published again, until its files change.
    #[serde(default)]
    pub rollback: Option<Rollback>,
    /// The updates that are laid over its files.
    #[serde(default)]
    pub updates: Option<Updates>,
    /// The serial of its flattened version, for name servers that cannot run LUA records.
    #[serde(default)]
    pub flattened: Option<u32>,
    /// Errors of its files.
    pub problems: Vec<String>,
    /// Warnings of its files.
    pub warnings: Vec<String>,
    /// The number of records that are left out because something in them is unknown.
    #[serde(default)]
    pub n_left_out: usize,
    /// The first of them, and the unknown word in each.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// Its live sets.
    pub live: Vec<LiveSet>,
    /// Its primaries, if it is transferred from them.
    #[serde(default)]
    pub secondary: Option<Secondary>,
}

/// An older version of a zone that was published again, with a higher serial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollback {
    /// The serial of the older version.
    pub to: u32,
    /// The serial of the version of the zone's files, which is set aside until they change.
    pub file: u32,
    /// When, in seconds since 1970.
    pub since: u64,
}

impl fmt::Display for Rollback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { to, file, .. } = self;
        write!(
            f,
            "rolled back: the records of serial {to} are served, and serial {file} of the zone's files is set aside until they change"
        )
    }
}

/// The updates (RFC 2136) that are laid over the files of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Updates {
    /// The serial of the version of its files.
    pub file: u32,
    /// How many records of the files they take away.
    pub removed: usize,
    /// How many records they add.
    pub added: usize,
}

impl fmt::Display for Updates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            removed,
            added,
        } = self;
        write!(
            f,
            "updated: {added} records added to serial {file} of the zone's files, {removed} taken away; `dns-authd zone sync` writes them into the file"
        )
    }
}

/// The versions of a zone that were published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneHistory {
    /// The name of the zone.
    pub zone: String,
    /// The serial in service.
    pub serial: u32,
    /// The older version that was published again, until the zone's files change.
    pub rollback: Option<Rollback>,
    /// The changes that are kept, the newest first.
    pub changes: Vec<ZoneChange>,
}

/// The step from one published version of a zone to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneChange {
    /// The serial before.
    pub from: u32,
    /// The serial after.
    pub to: u32,
    /// When it was published, in seconds since 1970.
    pub published: u64,
    /// How many records went, the SOA record left out.
    pub removed: usize,
    /// How many records came, the SOA record left out.
    pub added: usize,
}

/// The difference between two versions of a zone, each record as a line of a master file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneDifference {
    /// The name of the zone.
    pub zone: String,
    /// The serial before.
    pub from: u32,
    /// The serial after.
    pub to: u32,
    /// Whether the version after is one that is held back.
    pub held: bool,
    /// The records that go.
    pub removed: Vec<String>,
    /// The records that come.
    pub added: Vec<String>,
}

/// The state of a zone that is transferred from other servers. Times are in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secondary {
    /// The servers.
    pub primaries: Vec<String>,
    /// Whether one of them is being asked.
    pub running: bool,
    /// Whether the data has expired: the zone's names get SERVFAIL.
    pub expired: bool,
    /// When the data was last known to be current.
    pub checked: Option<u64>,
    /// When dns-authd asks them next.
    pub next: u64,
    /// When the data expires if no primary responds.
    pub expires: Option<u64>,
    /// Why the last question failed.
    pub error: Option<String>,
}

/// A set of records that follows liveness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveSet {
    /// The owner name.
    pub owner: String,
    /// The type of its records.
    #[serde(rename = "type")]
    pub rtype: String,
    /// How sure the answer is.
    pub certainty: Certainty,
    /// The members of the answer.
    pub members: Vec<String>,
    /// The TTL of the answer, in seconds.
    pub ttl: u32,
    /// Messages of its programs.
    pub messages: Vec<String>,
}

/// How sure the answer of a live set is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Certainty {
    /// The liveness of all members is known.
    #[serde(rename = "known")]
    Known,
    /// No member is up: all are answered.
    #[serde(rename = "all down")]
    AllDown,
    /// The liveness of some members is unknown.
    #[serde(rename = "unknown")]
    Unknown,
    /// The program has failed: there is no answer.
    #[serde(rename = "failed")]
    Failed,
}

impl Certainty {
    /// The certainty in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::AllDown => "all down",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
        }
    }
}

/// The connection to healthd.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// The state of the connection.
    pub state: HealthState,
    /// The last error of the connection.
    #[serde(default)]
    pub error: Option<String>,
    /// The number of targets that the zones ask for.
    pub targets: usize,
    /// Seconds since the last snapshot.
    #[serde(default)]
    pub age_seconds: Option<f64>,
    /// Whether dns-authd probes the targets itself, because healthd is away.
    #[serde(default)]
    pub stand_in: bool,
}

/// The cluster whose names are served, as clusterd has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kubernetes {
    /// Whether clusterd is connected; otherwise its last snapshot holds.
    pub connected: bool,
    /// The last error of the connection; empty while connected.
    pub error: String,
    /// The generation of the snapshot; 0 before the first one.
    pub generation: u64,
    /// The freshness of the snapshot's oldest kind of objects: `unread`, `old` or `current`.
    pub freshness: String,
    /// The number of Services.
    pub services: usize,
    /// The number of slices of endpoints.
    pub endpoint_slices: usize,
    /// Seconds since clusterd was last heard of.
    pub age_seconds: Option<f64>,
    /// The number of names that Services have by annotations.
    #[serde(default)]
    pub hostnames: usize,
    /// The number of names that Services ask for by annotations and do not have.
    #[serde(default)]
    pub n_refused: usize,
    /// The first of them, each with its reason.
    #[serde(default)]
    pub refused: Vec<String>,
    /// The number of endpoints that healthd probes for dns-authd.
    #[serde(default)]
    pub probed: usize,
    /// The number of endpoints that are too many for that.
    #[serde(default)]
    pub unprobed: usize,
}

/// The state of the connection to healthd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HealthState {
    /// healthd is not used.
    #[default]
    Off,
    /// Connected.
    Connected,
    /// Not connected: the last snapshot holds.
    Disconnected,
}

/// The result of a reload for one zone, in the answer of `POST /zones/reload`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Reloaded {
    /// The zone is loaded.
    Loaded {
        /// The name of the zone.
        zone: String,
        /// Its serial.
        serial: u32,
        /// Its number of records.
        records: usize,
    },
    /// Its new version is held back; the zone stays as it was.
    Held {
        /// The name of the zone.
        zone: String,
        /// The version.
        held: HeldVersion,
    },
    /// Its files are broken; the zone stays as it was.
    Broken {
        /// The name of the zone.
        zone: String,
        /// Errors of its files.
        problems: Vec<String>,
    },
}
