//! The answers of registry-svc: its status, its content, and the results of sweeps and scrubs.

use serde::{Deserialize, Serialize};

/// The detail of registry-svc's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// The addresses of the registry.
    pub listen: Vec<String>,
    /// Whether clients connect with TLS.
    pub tls: bool,
    /// The directory of the content.
    pub root: String,
    /// The name of the node.
    pub node: String,
    /// Whether the registry accepts no push.
    pub read_only: bool,
    /// Whether that is because the disk is read-only.
    #[serde(default)]
    pub read_only_disk: bool,
    /// Requests since the start.
    pub requests: Requests,
    /// The content when it was counted last; none before the first count.
    pub held: Option<Held>,
    /// The other nodes; none for a registry that stands alone.
    pub cluster: Option<Cluster>,
    /// Sweeps and scrubs.
    pub upkeep: Upkeep,
    /// Content that was damaged on the disk.
    #[serde(default)]
    pub damage: Damage,
    /// The journal of names and tags.
    #[serde(default)]
    pub journal: Journal,
    /// The damage to the journal that the start found; none when it was whole.
    #[serde(default)]
    pub recovered: Option<Recovered>,
    /// The room on the disk.
    pub space: Space,
    /// The endpoints of events.
    pub webhooks: Vec<Webhook>,
}

/// The journal of names and tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// Whether the disk has it twice.
    pub kept_twice: bool,
    /// Records that the start put back from the copy, because the journal had lost them.
    pub records_put_back: u64,
}

/// Manifests that no repository has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unnamed {
    /// Whether the journal was damaged, and the damaged one lies aside.
    pub journal_damaged: bool,
    /// The manifests, in the order of their digests.
    pub manifests: Vec<UnnamedManifest>,
    /// How many more there are.
    pub more: usize,
}

/// A manifest that no repository has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnnamedManifest {
    /// Its digest.
    pub digest: String,
    /// Its media type.
    pub media_type: String,
    /// When its file was written.
    pub written: String,
    /// Content that it needs and the disk lacks.
    pub missing: Vec<String>,
    /// Names, as `REPOSITORY:TAG` or `REPOSITORY`, that the damaged journal may have had for it.
    pub proposals: Vec<String>,
}

/// A damaged journal that was replaced at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovered {
    /// The damage, with its place.
    pub damage: String,
    /// The directory that the damaged journal was moved to.
    pub set_aside: String,
    /// Records that were read from it and are in the new journal.
    pub records: u64,
}

/// Requests since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// How many were answered.
    pub answered: u64,
    /// Bytes from clients.
    pub received_bytes: u64,
    /// Bytes to clients.
    pub sent_bytes: u64,
}

/// The content of the registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The number of repositories.
    pub repositories: usize,
    /// The sums over them.
    #[serde(flatten)]
    pub sum: Holding,
}

/// A sum of content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// The number of tags.
    pub tags: u64,
    /// The number of manifests.
    pub manifests: u64,
    /// The number of blobs.
    pub blobs: u64,
    /// The size of the blobs, shared ones once.
    pub bytes: u64,
}

/// The other nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// This node.
    pub node: String,
    /// The fault of this node's clock, by those of the others; none while they agree.
    #[serde(default)]
    pub clock: Option<String>,
    /// Records that wait for content.
    pub records_waiting: usize,
    /// Blobs that are fetched now.
    pub fetching: usize,
    /// Blobs that no node has.
    pub missing_blobs: usize,
    /// The other nodes.
    pub peers: Vec<Peer>,
    /// All nodes beside this one that were ever named, also those that were forgotten.
    #[serde(default)]
    pub members: Vec<Member>,
    /// Whether the other nodes have forgotten this one, which begins again at its next start.
    #[serde(default)]
    pub begins_anew: bool,
}

/// The answer of `GET /nodes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nodes {
    /// All nodes beside the one that answers that were ever named.
    pub nodes: Vec<Member>,
}

/// A node of the site, or one that was forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its address; none when neither the journal nor the configuration has one.
    pub address: Option<String>,
    /// Whether it is one of the site's; else it was forgotten.
    pub member: bool,
    /// Whether the configuration of this node names it.
    pub configured: bool,
    /// When it was forgotten last (RFC 3339); none when it never was.
    pub forgotten: Option<String>,
    /// When it was connected last (RFC 3339); none when it never was.
    pub seen: Option<String>,
    /// Whether sweeps keep content until it is heard.
    pub holds_deletion: bool,
}

/// Another node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Whether it is connected.
    pub connected: bool,
    /// The reason when it is not connected; empty else.
    pub error: String,
    /// The time since it was heard, such as `3s`.
    pub heard: Option<String>,
    /// Records that this node lacks.
    pub behind: u64,
    /// For how long it has lacked any, such as `3s`; none while it lacks none.
    #[serde(default)]
    pub behind_for: Option<String>,
    /// The reason why it lacks them; empty while it lacks none.
    #[serde(default)]
    pub behind_because: String,
    /// How far its clock is from this node's, such as `3d ahead`; none while they agree.
    #[serde(default)]
    pub clock: Option<String>,
    /// Records that the other node lacks.
    pub lacks: Option<u64>,
    /// Differences between the two.
    pub differences: u64,
    /// Blobs that the other node misses.
    pub missing_blobs: u64,
}

/// Content that was damaged on the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// Blobs that were found damaged or missing since the start.
    pub found: u64,
    /// Those of them that are whole again.
    pub healed: u64,
    /// Blobs that are not whole yet.
    pub waiting: usize,
    /// The first blobs that are not whole yet.
    pub blobs: Vec<DamagedBlob>,
    /// Damaged files in the quarantine; none when the disk cannot be asked.
    pub quarantined: Option<usize>,
    /// Their size.
    #[serde(default)]
    pub quarantined_bytes: u64,
}

/// A blob that is not whole yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedBlob {
    /// Its digest.
    pub digest: String,
    /// The reason.
    pub reason: String,
}

/// The room on the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// `enough`, `scarce` or `full`.
    pub standing: String,
    /// The free bytes; none when the disk cannot be asked.
    pub free_bytes: Option<u64>,
    /// All bytes.
    pub total_bytes: Option<u64>,
}

/// An endpoint of events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    /// Its name.
    pub name: String,
    /// Its URL.
    pub url: String,
    /// Events that wait for it.
    pub waiting: usize,
    /// Events that it has accepted.
    pub delivered: u64,
    /// Events that were dropped.
    pub dropped: u64,
    /// Failures since the last event that it accepted.
    pub failures_in_a_row: u32,
    /// The last error.
    pub error: Option<String>,
}

//--- Sweeps and scrubs

/// The answer of `GET /upkeep`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Upkeep {
    /// The running tasks.
    pub running: Vec<Running>,
    /// The last sweep.
    pub last_sweep: Option<Last<SweepReport>>,
    /// The last scrub.
    pub last_scrub: Option<Last<ScrubReport>>,
}

/// The answer of `POST /upkeep`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The number of the task.
    pub number: u64,
}

/// A running task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Running {
    /// `sweep`, `dry-run`, `scrub` or `verify`.
    pub task: String,
    /// Its number.
    pub number: u64,
    /// Seconds since it began.
    pub seconds: f64,
    /// Bytes that a scrub has read.
    pub read_bytes: Option<u64>,
}

/// The last task of a kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Last<R> {
    /// Its number.
    pub number: u64,
    /// `sweep`, `dry-run`, `scrub` or `verify`.
    pub task: String,
    /// Its result.
    pub report: Outcome<R>,
}

/// The result of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Outcome<R> {
    /// It could not be done.
    Failed {
        /// The reason.
        error: String,
    },
    /// It was done.
    Done(R),
}

/// Some blobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// How many.
    pub blobs: u64,
    /// Their size.
    pub bytes: u64,
}

/// The result of a sweep, or of a dry run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SweepReport {
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// Manifests that keep their content.
    pub manifests: u64,
    /// Manifests that were deleted because no tag leads to them.
    pub untagged_deleted: u64,
    /// Uploads that no client continued.
    pub uploads_expired: usize,
    /// Blobs on the disk.
    pub blobs: u64,
    /// Not needed, and moved to the trash.
    pub trashed: Amount,
    /// Not needed, and too young to go.
    pub young: Amount,
    /// Not needed by a manifest, but perhaps by a client soon.
    pub wanted: Amount,
    /// In the trash before, and still.
    pub in_trash: Amount,
    /// In the trash for long enough, and kept until every other node has been heard.
    pub waiting_for_nodes: Amount,
    /// Links that were stated again because a manifest needs them.
    pub links_restated: u64,
    /// The digests of manifests that cannot be read. Everything that their repositories have stays.
    #[serde(default)]
    pub unreadable_manifests: Vec<String>,
    /// Deleted from the trash.
    pub deleted: Amount,
    /// Damaged files deleted from the quarantine.
    #[serde(default)]
    pub quarantine_deleted: Amount,
    /// The duration.
    pub seconds: f64,
    /// The result in lines.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// The result of a scrub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Whether everything is as it should be, or is again.
    pub whole: bool,
    /// Blobs that were read.
    pub blobs: u64,
    /// Their size.
    pub bytes: u64,
    /// Manifests that were read.
    pub manifests: u64,
    /// The digests of damaged blobs.
    pub damaged: Vec<String>,
    /// How many of them were repaired.
    pub repaired: u64,
    /// Blobs that cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// Content that manifests lack.
    pub missing: Vec<Missing>,
    /// The duration.
    pub seconds: f64,
    /// The result in lines.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// A blob that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreadable {
    /// Its digest.
    pub digest: String,
    /// The reason.
    pub error: String,
}

/// Content that a manifest lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The manifest.
    pub manifest: String,
    /// The content.
    pub digest: String,
}

//--- Content

/// The answer of `GET /repositories`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repositories {
    /// The repositories.
    pub repositories: Vec<Repository>,
    /// The sums over them; shared content counts once.
    pub total: Holding,
}

/// A repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    /// Its name.
    pub name: String,
    /// Its content.
    #[serde(flatten)]
    pub held: Holding,
}

/// The answer of `GET /tags`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tags {
    /// The repository.
    pub repository: String,
    /// Its tags.
    pub tags: Vec<Tag>,
}

/// A tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// The tag.
    pub tag: String,
    /// The digest of its manifest.
    pub digest: String,
    /// When it was pushed (RFC 3339).
    pub pushed: String,
    /// The media type of the manifest; none while the manifest is on its way here.
    #[serde(rename = "mediaType", default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The size of the manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// The answer of `GET /manifest`; `D` is the manifest itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest<D> {
    /// The repository.
    pub repository: String,
    /// The digest.
    pub digest: String,
    /// The media type.
    pub media_type: String,
    /// The size.
    pub size: u64,
    /// The tags that lead to it.
    pub tags: Vec<String>,
    /// The artifact type.
    pub artifact_type: Option<String>,
    /// The digest of its subject.
    pub subject: Option<String>,
    /// The manifests whose subject it is.
    pub referrers: Vec<Referrer>,
    /// The digests of content that is missing.
    pub missing: Vec<String>,
    /// The manifest itself.
    pub manifest: D,
}

/// A manifest that refers to another as its subject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Referrer {
    /// Its digest.
    pub digest: String,
    /// Its media type.
    pub media_type: String,
    /// Its size.
    pub size: u64,
    /// Its artifact type.
    pub artifact_type: Option<String>,
}

/// The parts of a manifest that are shown (OCI image specification, image manifest and image index).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Document {
    /// The configuration.
    pub config: Option<Descriptor>,
    /// The layers.
    pub layers: Vec<Descriptor>,
    /// The manifests of an index.
    pub manifests: Vec<Descriptor>,
    /// The blobs of an artifact manifest.
    pub blobs: Vec<Descriptor>,
}

/// A descriptor (OCI image specification).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Descriptor {
    /// The media type.
    pub media_type: Option<String>,
    /// The digest.
    pub digest: String,
    /// The size.
    pub size: u64,
    /// The platform.
    pub platform: Option<Platform>,
}

/// A platform (OCI image specification).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Platform {
    /// The operating system.
    pub os: String,
    /// The architecture.
    pub architecture: String,
}

/// The answer of `GET /diff`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Differences {
    /// The differences between two nodes.
    pub differences: Vec<Difference>,
}

/// A difference between two nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The blob, manifest or tag.
    pub what: String,
    /// The state on this node; empty when it has nothing.
    pub here: String,
    /// The state on the other node; empty when it has nothing.
    pub there: String,
}
