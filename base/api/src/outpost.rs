//! The output of `outpost status --json`.

use serde::{Deserialize, Serialize};

use crate::State;

/// A node: its services, and the targets that healthd finds down.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The name of the node.
    pub node: String,
    /// The bundle that is installed; none where there is none, or it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<Bundle>,
    /// The services that the node has.
    #[serde(default)]
    pub services: Vec<Service>,
    /// The services whose state is unknown.
    #[serde(default)]
    pub unknown: Vec<Unknown>,
    /// The targets that healthd finds down.
    #[serde(default)]
    pub down: Vec<Down>,
    /// The reason why the liveness is unknown; none when healthd answered, or the node has no healthd.
    #[serde(default)]
    pub healthd_error: Option<String>,
}

/// The bundle that is installed on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    /// Its generation.
    pub generation: u64,
    /// The highest generation that the node has had.
    pub highest: u64,
}

/// A node of a site, as `outpost status --site` and `outpost explain --site` list it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Reached<T> {
    /// The node did not answer.
    Unreachable {
        /// The name of the node.
        node: String,
        /// The reason.
        error: String,
    },
    /// The node's answer.
    Node(T),
}

/// A service whose state is unknown: whether the node has it is unknown too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknown {
    /// The name of the service.
    pub service: String,
    /// The reason.
    pub error: String,
}

/// A target that healthd finds down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Down {
    /// The target, such as `tcp 192.0.2.13:6443`.
    pub target: Option<String>,
    /// The result of the last probe, in words.
    pub reason: String,
}

/// A service of a node. The facts about its process are none when the process does not answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// The name of the service.
    pub service: String,
    /// The slot on record: `a` or `b`.
    pub live: String,
    /// The version of the process.
    #[serde(default)]
    pub version: Option<String>,
    /// The revision of the process.
    #[serde(default)]
    pub revision: Option<String>,
    /// The stage of its life.
    #[serde(default)]
    pub state: Option<State>,
    /// Whether it is ready.
    #[serde(default)]
    pub ready: Option<bool>,
    /// Seconds since it started.
    #[serde(default)]
    pub uptime_seconds: Option<f64>,
    /// Why it is not ready.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// Its slots.
    #[serde(default)]
    pub slots: Vec<Slot>,
    /// The queues of its sockets in the kernel.
    #[serde(default)]
    pub queues: Vec<Queue>,
    /// The last swap.
    #[serde(default)]
    pub last: Option<LastSwap>,
}

/// A slot: a place for one version of a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slot {
    /// `a` or `b`.
    pub slot: String,
    /// The state of its unit, as systemd names it (`ActiveState`).
    pub active: String,
    /// The detail of that state (`SubState`).
    #[serde(default)]
    pub sub: String,
    /// The result of the unit (`Result`).
    #[serde(default)]
    pub result: String,
    /// How often systemd started it again.
    #[serde(default)]
    pub restarts: u64,
    /// Seconds since the process reported progress.
    #[serde(default)]
    pub watchdog_age_seconds: Option<f64>,
    /// The version in the slot.
    #[serde(default)]
    pub version: Option<String>,
    /// The identity of its image.
    #[serde(default)]
    pub image: Option<String>,
}

/// The queue of a socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// `udp` or `tcp`.
    pub kind: String,
    /// The IP address and port.
    pub address: String,
    /// Octets of datagrams, or connections, that wait.
    pub waiting: u64,
    /// Datagrams that the kernel dropped because the queue was full.
    pub dropped: u64,
}

/// The versions and the swaps of a service on a node, as `outpost history --json` lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// The name of the service.
    pub service: String,
    /// The slot on record: `a` or `b`.
    pub live: String,
    /// The versions that the node keeps, the one that runs last. A rollback goes to the one before it.
    pub versions: Vec<Version>,
    /// The largest number of versions that the node keeps.
    pub limit: usize,
    /// The last swaps, the newest last.
    pub swaps: Vec<LastSwap>,
}

/// A version of a service that has served on a node, and whose image the node keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The version on the image.
    pub version: String,
    /// The revision on the image.
    pub revision: String,
    /// The identity of the image: the digest of its configuration.
    pub image: String,
    /// The SHA-256 of the image's archive.
    pub archive: String,
    /// When it was put on record, in seconds since 1970; none for a version that no swap brought.
    #[serde(default)]
    pub since: Option<u64>,
    /// When another version replaced it, in seconds since 1970.
    #[serde(default)]
    pub until: Option<u64>,
}

/// The end of a swap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastSwap {
    /// The outcome in a word: `swapped`, `kept`, …
    pub outcome: String,
    /// The reason, when the swap did not go as it should.
    #[serde(default)]
    pub reason: Option<String>,
    /// When it ended, in seconds since 1970.
    pub ended: u64,
    /// The version that was to serve.
    #[serde(default)]
    pub version: Option<String>,
    /// The identity of its image.
    #[serde(default)]
    pub image: Option<String>,
}

/// A step of a swap, as `outpost swap --json` prints it: one a line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SwapStep {
    /// The name of the service.
    pub service: String,
    /// The step: `load`, `start`, `watch`, …
    pub step: String,
    /// The slot of the step; none for `verify`.
    pub slot: Option<String>,
    /// `ok`, `failed` or `interrupted`.
    pub result: String,
    /// The deed in words, or the error.
    pub said: String,
    /// How long it took.
    pub took_seconds: f64,
    /// The last lines that the process logged, when the step failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Vec<String>>,
    /// The command that shows the rest of its log, when the step failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look_at: Option<String>,
}

/// The end of a swap, as `outpost swap --json` prints it in the last line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwapEnd {
    /// The name of the service.
    pub service: String,
    /// The outcome in a word: `swapped`, `kept`, …
    pub outcome: String,
    /// The slot on record: `a` or `b`.
    pub live: String,
    /// The reason, when the swap did not go as it should.
    pub reason: Option<String>,
}

/// The site that `outpost up` runs, as `outpost status --json --run-dir` prints it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UpSite {
    /// The name of the site.
    pub site: String,
    /// Its domain.
    pub domain: String,
    /// The IP address and port of its resolver.
    pub dns: String,
    /// Whether every service is ready.
    pub ready: bool,
    /// Seconds since it started.
    pub uptime_seconds: u64,
    /// The services that run.
    pub services: Vec<UpService>,
    /// The masters that `outpost up` plays.
    pub masters: Vec<UpMaster>,
}

/// A service that `outpost up` runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UpService {
    /// The name of the service.
    pub name: String,
    /// The state in a word: `starting`, `ready`, `not ready`, `died`, …
    pub state: String,
    /// The reason for the state, if there is more to say.
    pub reason: Option<String>,
    /// The process, while it has one.
    pub pid: Option<u32>,
    /// Seconds since that process started.
    pub uptime_seconds: Option<u64>,
    /// How often it started after the first time.
    pub restarts: u32,
    /// A summary of what it serves.
    pub serves: String,
    /// How much of that per second.
    pub rate: Option<f64>,
}

/// A master that `outpost up` plays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpMaster {
    /// The name of the node.
    pub name: String,
    /// Its IP address.
    pub address: String,
    /// Whether the user took it down.
    pub taken_down: bool,
    /// The ports that it offers.
    pub offers: Vec<UpOffer>,
}

/// A port of a master.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpOffer {
    /// Its name, such as `api`.
    pub what: String,
    /// The port.
    pub port: u16,
    /// The liveness, from healthd: `up`, `down` or `unknown`.
    pub state: String,
}
