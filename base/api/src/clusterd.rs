//! The detail of clusterd's status.

use std::collections::BTreeMap;

use cluster::{Freshness, Key, Kind, Object};
use serde::{Deserialize, Serialize};

/// The source of the objects, the objects by kind, and the subscribers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// The service in a few words: `12 services, 3 nodes`.
    pub serves: String,
    /// The generation of the last snapshot: it grows with each change.
    pub generation: u64,
    /// The freshness of the least fresh kind.
    pub freshness: Freshness,
    /// The source.
    pub source: Source,
    /// Every kind.
    pub kinds: Vec<KindDetail>,
    /// The last snapshot on disk.
    pub state: StateFile,
    /// The addresses that Services get.
    #[serde(default)]
    pub addresses: Addresses,
    /// The addresses that subscribers connect to.
    pub listeners: Vec<String>,
    /// The services that watch.
    pub subscribers: Vec<Subscriber>,
}

/// The addresses of Services of type `LoadBalancer`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// Whether this clusterd writes them to the API.
    pub leads: bool,
    /// The clusterd that does; none before one is known, and with manifests.
    pub holder: Option<String>,
    /// How many Services have of each pool.
    pub given: BTreeMap<String, usize>,
    /// The Services that wait for one, 1,000 at most.
    pub waiting: Vec<WaitingService>,
    /// Why the last attempt to write failed.
    pub problem: Option<String>,
}

/// A Service that waits for an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingService {
    /// Its namespace and name.
    pub service: String,
    /// Why it waits.
    pub reason: String,
}

/// The source of the objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// `api` or `manifests`.
    pub kind: String,
    /// The addresses of the API in the order of preference, or the directory of the manifests.
    pub places: Vec<String>,
    /// The minor version of the API server (`34` of 1.34); none before it has answered.
    pub minor_version: Option<u32>,
    /// The problems of the source: files that cannot be read, credentials that cannot be used.
    pub problems: Vec<String>,
}

/// The objects of a kind, and how they are followed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindDetail {
    /// The kind.
    pub kind: Kind,
    /// Whether the objects are those that the source has now.
    pub freshness: Freshness,
    /// How many objects there are.
    pub objects: usize,
    /// For how many objects there is no room.
    pub without_room: usize,
    /// Whether a watch is open; always false for manifests.
    pub watching: bool,
    /// The address of the API in use.
    pub address: Option<String>,
    /// The resource version that the watch has reached.
    pub version: String,
    /// Seconds since the API last sent anything of the kind; none before the first time.
    pub heard_seconds_ago: Option<f64>,
    /// How often a whole list was read.
    pub lists: u64,
    /// Why the last attempt failed; none while the API answers.
    pub problem: Option<String>,
}

/// The last snapshot on disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StateFile {
    /// Its path.
    pub path: String,
    /// The generation that is on disk; 0 before the first write.
    pub generation: u64,
    /// The reason why the last attempt to write it failed.
    pub problem: Option<String>,
}

/// A service that watches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscriber {
    /// Its name.
    pub name: String,
    /// The generation that it was sent.
    pub generation: u64,
    /// When it subscribed (RFC 3339).
    pub since: String,
}

/// A line of `clusterd watch --json`: an object that was added, changed or deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// When the line was printed (RFC 3339).
    pub time: String,
    /// The generation that has the change.
    pub generation: u64,
    /// Whether the object is there.
    pub change: ChangeKind,
    /// The name of the object.
    pub key: Key,
    /// The object; none when it was deleted.
    pub object: Option<Object>,
}

/// Whether an object of a change is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// It was added, or has changed.
    Put,
    /// It was deleted.
    #[serde(rename = "gone")]
    Deleted,
}
