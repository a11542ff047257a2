//! The configuration of registry-svc.

mod names;
mod others;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::renewal::Renewal;
use crate::{
    Address, Admin, ByteSize, DurationWithin, Every, HumanDuration, Log, Networks, OneOrMany,
    Positive, SizeWithin, Whole,
};

pub use names::{
    DEFAULT_SERVICE, Hours, Realm, RepositoryPrefix, ServerName, ServiceName, WebhookName,
};
pub use others::{Acknowledge, Cluster, EventAction, HourlyRate, Ignore, Mirror, S3, Webhook};

pub use crate::nodes::{NodeFiles, NodeName, Peer, everywhere};

/// The port of registry-svc's admin listener.
pub const ADMIN_PORT: u16 = 9405;

/// The port for clients.
pub const PORT: u16 = 5443;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A second, in milliseconds.
const SECOND: u64 = 1000;
/// An hour, in milliseconds.
const HOUR: u64 = 3600 * SECOND;
/// A day, in milliseconds.
const DAY: u64 = 24 * HOUR;

/// A certificate, for the manual.
const TLS: &str = r#"
[tls]
certificates = [
  { certificate = "/etc/outpost/registry.pem", key = "/etc/outpost/registry.key" },
]
"#;

/// Rules, for the manual.
const RULES: &str = r#"
[[access.rule]]
repositories = ["ocp4/**", "mirror/**"]
users = ["*"]
actions = ["pull"]
anonymous = ["pull"]
"#;

/// Quotas, for the manual.
const QUOTAS: &str = r#"
[[space.quota]]
repositories = "dev/**"
size = "20GiB"
"#;

/// Certificates for clients that other nodes have ready, for the manual.
const RENEWAL: &str = r#"
[renewal]
days = 30
certificate = "/etc/outpost/registry-svc/pki/served.crt"
later = "/etc/outpost/registry-svc/pki/later"
renewed = "/var/lib/outpost/registry/served.crt"
"#;

/// A node beside two others, for the manual.
const CLUSTER: &str = r#"
[cluster]
node = "master-0"
peers = [
  { name = "master-1", address = "192.168.7.14:5444" },
  { name = "master-2", address = "192.168.7.15:5444" },
]
ca = "/etc/outpost/cluster.pem"
certificate = "/etc/outpost/master-0.pem"
key = "/etc/outpost/master-0.key"
"#;

/// A mirror, for the manual.
const MIRRORS: &str = r#"
[[mirror]]
upstream = "https://registry.example.org"
prefix = "quay"
namespace = "registry.example.org"
credentials = "/etc/outpost/upstream.credentials"
ca = "/etc/outpost/upstream.pem"
"#;

/// A webhook, for the manual.
const WEBHOOKS: &str = r#"
[[webhook]]
name = "deployer"
url = "https://deploy.example.org/events"
headers = { Authorization = "Bearer secret" }
ignore = { actions = ["pull"], media-types = ["application/octet-stream"] }
ca = "/etc/outpost/webhooks.pem"
"#;

/// An object store, for the manual.
const OBJECT_STORE: &str = r#"
[s3]
bucket = "registry"
endpoint = "https://s3.example.org"
access-key-file = "/etc/outpost/s3.access"
secret-key-file = "/etc/outpost/s3.secret"
ca = "/etc/outpost/s3.pem"
"#;

/// The configuration of registry-svc.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct RegistrySvc {
    /// Addresses to listen on. registry-svc uses sockets that systemd hands over under the name `registry` instead.
    #[schemars(extend("x-reload" = "restart"))]
    pub listen: Vec<Address>,
    /// Whether registry-svc serves plain HTTP, without `[tls]`. docker and podman accept that only from loopback, or from
    /// a registry that their configuration calls "insecure".
    #[schemars(extend("x-reload" = "restart"))]
    pub plain: bool,
    /// The addresses of load balancers: a connection from one of them has to begin with a PROXY header (version 1 or 2), as
    /// lb-proxy sends it with `send-proxy = "v2"`. The address in the header then counts as the client's, in limits and in
    /// the log. registry-svc closes a connection from a load balancer without a header, and one from another address with
    /// one. A client on the node of a load balancer has its address: it has to connect through the load balancer too.
    #[schemars(extend("x-reload" = "restart"))]
    pub accept_proxy_from: Networks,
    /// The directory of blobs, the journal of names and tags, upload sessions and the index. registry-svc must own it
    /// alone. Never put it below `/var/lib/containers`, which `crio wipe` empties.
    #[schemars(extend("x-reload" = "restart"))]
    pub root: PathBuf,
    /// The number of threads of the data path, at most 256; 0 is one per core.
    #[schemars(extend("x-reload" = "restart"))]
    pub workers: usize,
    /// Whether registry-svc refuses every request that would change something, with 405 UNSUPPORTED. It does so in any case
    /// while `root` is on a read-only file system.
    pub read_only: bool,
    /// Whether registry-svc logs each request at `info`. Otherwise it logs them at `debug`.
    pub log_requests: bool,
    /// How long registry-svc lets running transfers finish when it stops. Upload sessions survive a restart in any case.
    pub drain: HumanDuration,
    /// The log.
    pub log: Log,
    /// The admin listener, which also serves the page of repositories. Every client that reaches it can read; only
    /// clients on loopback can change something.
    pub admin: Admin<ADMIN_PORT>,
    /// Encryption. The file needs this table, or `plain = true`. registry-svc reads changed certificates again; open
    /// connections stay open.
    #[schemars(extend("x-example" = TLS, "x-needed" = true))]
    pub tls: Option<Tls>,
    /// Access. Without users (`htpasswd`, `certificates`) every client may do everything, as with docker-registry;
    /// `registry-svc check` warns of it if other hosts can reach the registry.
    pub access: Access,
    /// Bounds of requests.
    pub limits: Limits,
    /// Bounds of the disk.
    pub space: Space,
    /// Garbage collection.
    pub sweep: Sweep,
    /// How registry-svc reads blobs again to find damaged ones. It puts a damaged blob aside and fetches it from another
    /// node.
    pub scrub: Scrub,
    /// The index of names and tags. registry-svc builds it from the journal, and builds it again if it may be wrong.
    #[schemars(extend("x-reload" = "restart"))]
    pub index: Index,
    /// Other nodes: each holds the whole content and takes every request. registry-svc reads changed certificate files
    /// again by itself.
    #[schemars(extend("x-reload" = "restart", "x-example" = CLUSTER))]
    pub cluster: Option<Cluster>,
    /// Certificates for clients that the other nodes have ready for this one. The nodes of `[cluster]` give them to each other:
    /// each a short-lived one, when the one before is about to end, and none to a node whose certificate for nodes is revoked.
    #[schemars(extend("x-reload" = "restart", "x-example" = RENEWAL))]
    pub renewal: Option<Renewal>,
    /// Mirrors: registry-svc fetches content of other registries when a client asks for it, and keeps it.
    #[schemars(extend("x-reload" = "restart", "x-example" = MIRRORS))]
    pub mirror: Vec<Mirror>,
    /// Webhooks: receivers of events about pushes, pulls, mounts and deletions, in distribution's envelope. Events that
    /// cannot be delivered wait on disk, ten thousand at most.
    #[schemars(extend("x-example" = WEBHOOKS))]
    pub webhook: Vec<Webhook>,
    /// An object store for blobs, instead of the disk. Journal, index and uploads stay in the root.
    #[schemars(extend("x-reload" = "restart", "x-example" = OBJECT_STORE))]
    pub s3: Option<S3>,
}

impl Default for RegistrySvc {
    fn default() -> Self {
        Self {
            listen: everywhere(PORT).map(Address).to_vec(),
            plain: false,
            accept_proxy_from: Networks::default(),
            root: "/var/lib/outpost/registry".into(),
            workers: 0,
            read_only: false,
            log_requests: false,
            drain: HumanDuration(Duration::from_secs(10)),
            log: Log::default(),
            admin: Admin::default(),
            tls: None,
            access: Access::default(),
            limits: Limits::default(),
            space: Space::default(),
            sweep: Sweep::default(),
            scrub: Scrub::default(),
            index: Index::default(),
            cluster: None,
            renewal: None,
            mirror: Vec::new(),
            webhook: Vec::new(),
            s3: None,
        }
    }
}

//--- Encryption

/// Encryption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tls {
    /// Certificates with their keys, at least one. A client gets the certificate for the server name that it sends, exact
    /// names before patterns (`*.example.org`), or else the first certificate.
    pub certificates: Vec<Certificate>,
    /// The authority that signs certificates of clients, in PEM. `[access]` says what their users may do.
    pub client_ca: Option<PathBuf>,
    /// Whether clients need a certificate.
    pub client_certificates: ClientCertificates,
    /// Whether registry-svc offers HTTP/2 beside HTTP/1.1.
    pub http2: bool,
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            certificates: Vec::new(),
            client_ca: None,
            client_certificates: ClientCertificates::default(),
            http2: true,
        }
    }
}

/// A certificate with its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Certificate {
    /// The certificate chain, in PEM, the server's own certificate first.
    pub certificate: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
    /// The server names that get this certificate. Default: the names in it.
    #[serde(default)]
    pub names: Vec<ServerName>,
}

/// Whether clients need a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClientCertificates {
    /// Clients may connect without one.
    #[default]
    Optional,
    /// registry-svc ends the handshake of a client without one.
    Required,
}

//--- Access

/// Access.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Access {
    /// A file of users and passwords, as `htpasswd -B` or `registry-svc password` write it; only bcrypt. registry-svc reads
    /// it again when it changes.
    #[schemars(extend("x-example" = "\"/etc/outpost/registry.users\""))]
    pub htpasswd: Option<PathBuf>,
    /// The name in a client certificate that is the user's. All but `"none"` need a `client-ca` in `[tls]`.
    pub certificates: CertificateName,
    /// The rights of anonymous clients. Default: `"none"` with users, else `"pull"`. `"all"` lets every client that
    /// reaches the registry overwrite and delete every image.
    #[schemars(extend("x-example" = "\"none\""))]
    pub anonymous: Option<Anonymous>,
    /// The rights of users for repositories that no rule matches. Default: all rights without rules, none with rules.
    #[schemars(extend("x-example" = "[\"pull\", \"push\", \"delete\"]"))]
    pub default: Option<Vec<Action>>,
    /// Users with all rights, and groups of such users, as `"@ops"`.
    pub admins: Vec<String>,
    /// Groups and their members, as in `{ ops = ["alice", "bob"] }`.
    pub groups: BTreeMap<String, Vec<String>>,
    /// The name of this registry in challenges and tokens; the same on every node.
    pub service: ServiceName,
    /// Tokens: a client sends its password once and gets a token for one repository.
    pub token: Token,
    /// Rules. Only the longest pattern that matches a repository decides (the one with the most characters that are no
    /// wildcards; rules with the same pattern add up). `*` matches within one path component, `**` any number of
    /// components, `?` one character. A change of the rules also restricts tokens that were issued before.
    #[schemars(extend("x-example" = RULES))]
    pub rule: Vec<Rule>,
}

/// The name in a client certificate that is a user's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CertificateName {
    /// Certificates identify no user.
    #[default]
    None,
    /// The subject's common name; its organizations are groups.
    CommonName,
    /// The first DNS name.
    Dns,
    /// The first URI.
    Uri,
}

/// The rights of anonymous clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Anonymous {
    /// None.
    None,
    /// Pull.
    Pull,
    /// Pull and push.
    Push,
    /// Pull, push and delete.
    All,
}

/// A right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// To read manifests, tags and blobs.
    Pull,
    /// To write them.
    Push,
    /// To remove them.
    Delete,
}

/// The shortest lifetime of a token, in milliseconds: clients rely on a minute (distribution's token authentication).
pub const MIN_TOKEN: u64 = 60 * SECOND;

/// Tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Token {
    /// Whether registry-svc issues tokens. Otherwise a client sends its password with each request.
    pub enabled: bool,
    /// The private key (Ed25519, PEM, mode 0600). Default: `token.key` in the root; registry-svc makes it if it is missing,
    /// with the public key in `token.pub` beside it. Nodes accept each other's tokens if they share one key, or if each
    /// trusts the others' public keys.
    #[schemars(extend("x-example" = "\"/etc/outpost/registry-token.key\""))]
    pub key: Option<PathBuf>,
    /// Public keys of the other nodes.
    pub trusted: Vec<PathBuf>,
    /// The lifetime of a token.
    pub lifetime: DurationWithin<MIN_TOKEN, DAY>,
    /// The lifetime of a refresh token. A new password also ends a refresh token.
    pub refresh: DurationWithin<MIN_TOKEN, { 366 * DAY }>,
    /// The URL from which clients fetch tokens. Default: `/token` at the name that the client used.
    #[schemars(extend("x-example" = "\"https://registry.ocp4.redhat.ren:5443/token\""))]
    pub realm: Option<Realm>,
}

impl Default for Token {
    fn default() -> Self {
        Self {
            enabled: true,
            key: None,
            trusted: Vec::new(),
            lifetime: DurationWithin::clamped(Duration::from_mins(5)),
            refresh: DurationWithin::clamped(Duration::from_hours(30 * 24)),
            realm: None,
        }
    }
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rule {
    /// The patterns of its repositories.
    pub repositories: OneOrMany<String>,
    /// The users; `"*"` is every user.
    #[serde(default)]
    pub users: Vec<String>,
    /// The groups.
    #[serde(default)]
    pub groups: Vec<String>,
    /// The rights of these users and groups: `"pull"`, `"push"` and `"delete"`.
    #[serde(default)]
    pub actions: Vec<Action>,
    /// The rights of anonymous clients.
    #[serde(default)]
    pub anonymous: Vec<Action>,
}

//--- Bounds

/// The shortest time of a bound of requests, in milliseconds.
pub const MIN_TIMEOUT: u64 = 100;

/// A time within which a client has to act.
pub type Timeout = DurationWithin<MIN_TIMEOUT, HOUR>;

/// Bounds of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// The largest manifest.
    pub manifest: SizeWithin<{ 64 * KIB }, { 64 * MIB }>,
    /// The largest blob. Default: unlimited.
    #[schemars(extend("x-example" = "\"64GiB\""))]
    pub blob: Option<SizeWithin<MIB>>,
    /// The largest number of upload sessions; more get 429, and clients try again.
    pub uploads: Positive<usize>,
    /// The largest number of connections. One client address has an eighth of them, and when all are taken, the oldest idle
    /// one of the address that has the most gives way to a new one.
    #[schemars(extend("x-reload" = "restart"))]
    pub connections: Positive<usize>,
    /// How long a TLS handshake may take.
    #[schemars(extend("x-reload" = "restart"))]
    pub head_timeout: Timeout,
    /// How long a body may pause.
    #[schemars(extend("x-reload" = "restart"))]
    pub body_timeout: Timeout,
    /// How long a connection of HTTP/1.1 may be idle; the head of a request has ten seconds at most. A connection of HTTP/2
    /// stays open as long as the client answers pings. While over half of the connections are taken, idle ones end sooner.
    #[schemars(extend("x-reload" = "restart"))]
    pub idle_timeout: Timeout,
    /// References of a manifest that may be missing.
    pub sparse: Sparse,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            manifest: SizeWithin::clamped(8 * MIB),
            blob: None,
            uploads: Whole::clamped(256),
            connections: Whole::clamped(10_000),
            head_timeout: DurationWithin::clamped(Duration::from_secs(5)),
            body_timeout: DurationWithin::clamped(Duration::from_mins(1)),
            idle_timeout: DurationWithin::clamped(Duration::from_mins(2)),
            sparse: Sparse::Refused,
        }
    }
}

/// References of a manifest that may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sparse {
    /// None.
    #[default]
    Refused,
    /// Manifests of an index: platforms that oc-mirror did not mirror.
    Indexes,
    /// Manifests of an index, and blobs.
    All,
}

/// A percentage.
pub type Percent = Whole<u8, 1, 100>;

/// Bounds of the disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Space {
    /// The percentage of the disk at which `registry-svc status` and `/readyz` warn.
    pub warn: Percent,
    /// The percentage of the disk at which registry-svc refuses pushes, with 507.
    pub stop: Percent,
    /// The space that stays free whatever the percentages are.
    pub free: ByteSize,
    /// The reserve with which deletions and the journal work on a full disk.
    pub reserve: ByteSize,
    /// The largest size of each repository that matches. The longest pattern decides (the one with the most characters
    /// that are no wildcards), and of equals the smallest size. registry-svc refuses more, with 403.
    #[schemars(extend("x-example" = QUOTAS))]
    pub quota: Vec<Quota>,
}

impl Default for Space {
    fn default() -> Self {
        Self {
            warn: Whole::clamped(85),
            stop: Whole::clamped(95),
            free: ByteSize(2 * GIB),
            reserve: ByteSize(64 * MIB),
            quota: Vec::new(),
        }
    }
}

/// The largest size of some repositories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Quota {
    /// The pattern of the repositories.
    pub repositories: String,
    /// The largest size of each of them.
    pub size: ByteSize,
}

//--- Work in the background

/// How long something stays: at most a year.
pub type Stay = DurationWithin<0, { 365 * DAY }>;

/// Garbage collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Sweep {
    /// How often registry-svc looks for blobs without a reference; `"never"` leaves it to `registry-svc gc`.
    pub interval: Every<SECOND>,
    /// How long such a blob stays before it goes to the trash. Ages here are times in which registry-svc runs: a clock that
    /// jumps ends none, and of the time between two runs an hour counts at most. Running pushes are always safe. With `[cluster]` it is at
    /// least `"1d"`, and registry-svc deletes content that repositories name only while every peer is connected and was
    /// heard: a peer that is away may have received a push that needs it. Remove a node that is permanently gone from
    /// `peers`. A client that finds a blob already there asks only one node for it, and the other nodes do not notice. If
    /// one of them deletes the blob at that moment, the registry refuses the manifest because the blob is missing; push
    /// again.
    pub grace: Stay,
    /// How long it stays in the trash.
    pub trash: Stay,
    /// The treatment of manifests without a tag.
    pub untagged: Untagged,
    /// How long an upload session may rest.
    pub uploads: Stay,
    /// How long a damaged file stays in the quarantine. It leaves a day after its blob is whole again, if that is sooner.
    pub quarantine: Stay,
    /// The largest size of the quarantine: the oldest files leave first. 0 keeps none.
    pub quarantine_size: ByteSize,
}

impl Default for Sweep {
    fn default() -> Self {
        Self {
            interval: Every(Some(Duration::from_hours(6))),
            grace: DurationWithin::clamped(Duration::from_hours(2)),
            trash: DurationWithin::clamped(Duration::from_hours(24)),
            untagged: Untagged::default(),
            uploads: DurationWithin::clamped(Duration::from_hours(24)),
            quarantine: DurationWithin::clamped(Duration::from_hours(30 * 24)),
            quarantine_size: ByteSize(4 * GIB),
        }
    }
}

/// The treatment of manifests without a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Untagged {
    /// They stay: clients pull from mirrors by digest.
    #[default]
    Keep,
    /// registry-svc deletes them when they are older than `grace`.
    Delete,
}

/// How registry-svc reads blobs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scrub {
    /// How often registry-svc reads all blobs and compares their digests; `"never"` leaves it to `registry-svc scrub`.
    pub interval: Every<SECOND>,
    /// Bytes per second.
    pub rate: SizeWithin<{ 64 * KIB }>,
}

impl Default for Scrub {
    fn default() -> Self {
        Self {
            interval: Every(Some(Duration::from_hours(7 * 24))),
            rate: SizeWithin::clamped(32 * MIB),
        }
    }
}

/// The index of names and tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Index {
    /// The kind.
    pub kind: IndexKind,
    /// The memory of the index on disk.
    pub cache: SizeWithin<MIB, { 64 * GIB }>,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            kind: IndexKind::default(),
            cache: SizeWithin::clamped(64 * MIB),
        }
    }
}

/// The kind of index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IndexKind {
    /// In memory; registry-svc reads the journal at each start.
    #[default]
    Memory,
    /// On disk; after a crash registry-svc builds it again, which takes about four times as long.
    Sled,
}
