//! Others that registry-svc deals with: nodes, mirrors, webhooks and an object store.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DAY, HOUR, Hours, KIB, RepositoryPrefix, SECOND, WebhookName};
use crate::nodes::{NodeFiles, Peer, everywhere};
use crate::{
    Address, DurationWithin, HttpUrl, HumanDuration, OneOrMany, Positive, SizeWithin, Whole,
};

//--- Nodes

/// The port for nodes.
const NODE_PORT: u16 = 5444;

/// The other nodes of the site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cluster {
    /// The name of this node. Never change it: the journal contains it.
    pub node: String,
    /// Addresses to listen on for other nodes. registry-svc uses sockets that systemd hands over under the name `cluster`
    /// instead.
    #[serde(default = "Cluster::default_listen")]
    pub listen: Vec<Address>,
    /// The other nodes, at most 15.
    #[serde(default)]
    pub peers: Vec<Peer>,
    /// The authority that signs the nodes' certificates, in PEM.
    pub ca: PathBuf,
    /// The certificate of this node, with its name, in PEM.
    pub certificate: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
    /// The nodes that have to hold a push before registry-svc acknowledges it.
    #[serde(default)]
    pub acknowledge: Acknowledge,
    /// How long registry-svc waits for them.
    #[serde(default = "Cluster::default_acknowledge_timeout")]
    pub acknowledge_timeout: HumanDuration,
    /// How often nodes compare their content and fetch differences.
    #[serde(default = "Cluster::default_compare")]
    pub compare: DurationWithin<SECOND, DAY>,
    /// Bytes per second of fetches in the background. Default: unlimited. It does not slow a fetch for which a client
    /// waits.
    pub rate: Option<SizeWithin<{ 64 * KIB }>>,
    /// Other rates at some hours of the day, in UTC, as in `[{ hours = "7-19", rate = "1MiB" }]`. The first whose hours it
    /// is holds, else `rate`.
    #[serde(default)]
    pub hourly_rates: Vec<HourlyRate>,
    /// The number of blobs to fetch in the background at a time. Those of more than 64 MiB take half of these places at
    /// most. Blobs of up to 1 MiB need none and wait for no larger one.
    #[serde(default = "Cluster::default_fetches")]
    pub fetches: Positive<usize>,
    /// How far the clocks of nodes may differ. A node whose clock differs more from the others' says so in `/readyz` and
    /// `status`, and dates its records by their clocks. Records are never refused or delayed for their date.
    #[serde(default = "Cluster::default_clock_bound")]
    pub clock_bound: DurationWithin<SECOND, DAY>,
}

impl Cluster {
    /// A node with the defaults.
    #[must_use]
    pub fn new(node: impl Into<String>, files: NodeFiles) -> Self {
        Self {
            node: node.into(),
            listen: Self::default_listen(),
            peers: Vec::new(),
            ca: files.ca,
            certificate: files.certificate,
            key: files.key,
            acknowledge: Acknowledge::default(),
            acknowledge_timeout: Self::default_acknowledge_timeout(),
            compare: Self::default_compare(),
            rate: None,
            hourly_rates: Vec::new(),
            fetches: Self::default_fetches(),
            clock_bound: Self::default_clock_bound(),
        }
    }

    /// The files with which it proves its name.
    #[must_use]
    pub fn files(&self) -> NodeFiles {
        NodeFiles {
            ca: self.ca.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone(),
        }
    }

    fn default_listen() -> Vec<Address> {
        everywhere(NODE_PORT).map(Address).to_vec()
    }

    const fn default_acknowledge_timeout() -> HumanDuration {
        HumanDuration(Duration::from_secs(5))
    }

    fn default_compare() -> DurationWithin<SECOND, DAY> {
        DurationWithin::clamped(Duration::from_mins(10))
    }

    fn default_fetches() -> Positive<usize> {
        Whole::clamped(4)
    }

    fn default_clock_bound() -> DurationWithin<SECOND, DAY> {
        DurationWithin::clamped(Duration::from_hours(1))
    }
}

/// A rate at some hours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HourlyRate {
    /// The hours of the day, in UTC.
    pub hours: Hours,
    /// Bytes per second of fetches in the background.
    pub rate: SizeWithin<{ 64 * KIB }>,
}

/// The nodes that have to hold a push.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Acknowledge {
    /// The majority of all nodes, or all that can be reached when those are fewer; the response then has a Warning header.
    #[default]
    MajorityOfReachable,
    /// The majority of all nodes; without it registry-svc responds 503.
    Strict,
}

//--- Mirrors

/// A mirror.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Mirror {
    /// The URL of the upstream registry, or several to try in order.
    pub upstream: OneOrMany<HttpUrl>,
    /// The prefix of the mirrored repositories: `quay/NAME` here is `NAME` at the upstream.
    pub prefix: RepositoryPrefix,
    /// The value of `?ns=`, with which containerd names the registry that it wants. Requests with it come here too, without
    /// the prefix.
    pub namespace: Option<String>,
    /// How long registry-svc serves a tag before it asks the upstream again. While the upstream is away, it serves the last
    /// known content.
    #[serde(default = "Mirror::default_ttl")]
    pub ttl: HumanDuration,
    /// A file with `user:password`.
    pub credentials: Option<PathBuf>,
    /// The authority that signs the upstream's certificate, in PEM, if it is not public.
    pub ca: Option<PathBuf>,
}

impl Mirror {
    /// A mirror with the defaults.
    #[must_use]
    pub fn new(upstreams: Vec<HttpUrl>, prefix: RepositoryPrefix) -> Self {
        Self {
            upstream: OneOrMany(upstreams),
            prefix,
            namespace: None,
            ttl: Self::default_ttl(),
            credentials: None,
            ca: None,
        }
    }

    const fn default_ttl() -> HumanDuration {
        HumanDuration(Duration::from_mins(5))
    }
}

//--- Webhooks

/// The shortest time of a webhook, in milliseconds.
const MIN_WEBHOOK_TIME: u64 = 10;

/// A receiver of events about pushes, pulls, mounts and deletions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Webhook {
    /// The name, in logs and metrics.
    pub name: WebhookName,
    /// The URL that gets the events.
    pub url: HttpUrl,
    /// Headers of each request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// How long a response may take.
    #[serde(default = "Webhook::default_timeout")]
    pub timeout: DurationWithin<MIN_WEBHOOK_TIME, HOUR>,
    /// The number of failures in a row after which registry-svc pauses.
    #[serde(default = "Webhook::default_threshold")]
    pub threshold: Positive<u32>,
    /// The length of the pause, which doubles each time, up to an hour.
    #[serde(default = "Webhook::default_backoff")]
    pub backoff: DurationWithin<MIN_WEBHOOK_TIME, HOUR>,
    /// Events that registry-svc does not send.
    #[serde(default)]
    pub ignore: Ignore,
    /// The authority that signs the receiver's certificate, in PEM, if it is not public.
    pub ca: Option<PathBuf>,
}

impl Webhook {
    /// A webhook with the defaults.
    #[must_use]
    pub fn new(name: WebhookName, url: HttpUrl) -> Self {
        Self {
            name,
            url,
            headers: BTreeMap::new(),
            timeout: Self::default_timeout(),
            threshold: Self::default_threshold(),
            backoff: Self::default_backoff(),
            ignore: Ignore::default(),
            ca: None,
        }
    }

    fn default_timeout() -> DurationWithin<MIN_WEBHOOK_TIME, HOUR> {
        DurationWithin::clamped(Duration::from_secs(5))
    }

    fn default_threshold() -> Positive<u32> {
        Whole::clamped(5)
    }

    fn default_backoff() -> DurationWithin<MIN_WEBHOOK_TIME, HOUR> {
        DurationWithin::clamped(Duration::from_secs(1))
    }
}

/// Events that registry-svc does not send.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ignore {
    /// Media types of manifests and blobs.
    pub media_types: Vec<String>,
    /// Actions: `"push"`, `"pull"`, `"mount"` and `"delete"`.
    pub actions: Vec<EventAction>,
}

/// The action that an event reports, by distribution's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EventAction {
    /// A client pushed a manifest or a blob.
    Push,
    /// A client pulled one.
    Pull,
    /// A client mounted a blob of another repository.
    Mount,
    /// A client deleted a manifest, a tag or a blob.
    Delete,
}

impl EventAction {
    /// The word in the file and in events.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Pull => "pull",
            Self::Mount => "mount",
            Self::Delete => "delete",
        }
    }
}

//--- The object store

/// The object store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct S3 {
    /// The bucket.
    pub bucket: String,
    /// The URL of the object store. Default: the provider's own.
    pub endpoint: Option<HttpUrl>,
    /// The region.
    #[serde(default = "S3::default_region")]
    pub region: String,
    /// The prefix of every key.
    #[serde(default)]
    pub prefix: String,
    /// A file with the access key.
    pub access_key_file: PathBuf,
    /// A file with the secret key.
    pub secret_key_file: PathBuf,
    /// The authority that signs the object store's certificate, in PEM, if it is not public.
    pub ca: Option<PathBuf>,
    /// Whether registry-svc may use plain HTTP.
    #[serde(default)]
    pub allow_http: bool,
}

impl S3 {
    fn default_region() -> String {
        "us-east-1".to_owned()
    }
}
