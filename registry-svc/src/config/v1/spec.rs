//! The keys of the file.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use daemon::config::{AdminSpec, ByteSize, HumanDuration, LogSpec};
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

type Text = Spanned<String>;
type Time = Spanned<HumanDuration>;
type Size = Spanned<ByteSize>;

/// The file as a whole.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Spec {
    pub(super) log: LogSpec,
    pub(super) admin: AdminSpec,
    pub(super) drain: Option<HumanDuration>,
    pub(super) listen: Option<Spanned<Vec<SocketAddr>>>,
    pub(super) plain: Option<Spanned<bool>>,
    pub(super) root: Option<PathBuf>,
    pub(super) workers: usize,
    pub(super) read_only: bool,
    pub(super) log_requests: bool,
    pub(super) tls: Option<Spanned<TlsSpec>>,
    pub(super) access: AccessSpec,
    pub(super) limits: LimitsSpec,
    pub(super) space: SpaceSpec,
    pub(super) sweep: SweepSpec,
    pub(super) scrub: ScrubSpec,
    pub(super) index: IndexSpec,
    pub(super) cluster: Option<ClusterSpec>,
    pub(super) mirror: Vec<MirrorSpec>,
    pub(super) webhook: Vec<WebhookSpec>,
    pub(super) s3: Option<S3Spec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct TlsSpec {
    pub(super) certificates: Vec<CertificateSpec>,
    pub(super) client_ca: Option<PathBuf>,
    pub(super) client_certificates: ClientSpec,
    pub(super) http2: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct CertificateSpec {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    #[serde(default)]
    pub(super) names: Vec<Text>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ClientSpec {
    #[default]
    Optional,
    Required,
}

//--- Access

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct AccessSpec {
    pub(super) htpasswd: Option<PathBuf>,
    pub(super) certificates: Option<Spanned<CertificatesSpec>>,
    pub(super) anonymous: Option<AnonymousSpec>,
    pub(super) default: Option<Vec<ActionSpec>>,
    pub(super) admins: Vec<Text>,
    pub(super) groups: BTreeMap<String, Vec<String>>,
    pub(super) service: Option<Text>,
    pub(super) token: TokenSpec,
    pub(super) rule: Vec<RuleSpec>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CertificatesSpec {
    None,
    CommonName,
    Dns,
    Uri,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum AnonymousSpec {
    None,
    Pull,
    Push,
    All,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ActionSpec {
    Pull,
    Push,
    Delete,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct TokenSpec {
    pub(super) enabled: Option<bool>,
    pub(super) key: Option<PathBuf>,
    pub(super) trusted: Vec<PathBuf>,
    pub(super) lifetime: Option<Time>,
    pub(super) refresh: Option<Time>,
    pub(super) realm: Option<Text>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RuleSpec {
    pub(super) repositories: Spanned<Texts>,
    #[serde(default)]
    pub(super) users: Vec<Text>,
    #[serde(default)]
    pub(super) groups: Vec<Text>,
    #[serde(default)]
    pub(super) actions: Vec<ActionSpec>,
    #[serde(default)]
    pub(super) anonymous: Vec<ActionSpec>,
}

/// One text or a list of them.
#[derive(Debug)]
pub(super) struct Texts(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextsVisitor)
    }
}

struct TextsVisitor;

impl<'de> Visitor<'de> for TextsVisitor {
    type Value = Texts;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string or a list of strings")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Texts, E> {
        Ok(Texts(vec![text.to_owned()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Texts, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = sequence.next_element()? {
            texts.push(text);
        }
        Ok(Texts(texts))
    }
}

//--- Bounds

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LimitsSpec {
    pub(super) manifest: Option<Size>,
    pub(super) blob: Option<Size>,
    pub(super) uploads: Option<Spanned<usize>>,
    pub(super) connections: Option<Spanned<usize>>,
    pub(super) head_timeout: Option<Time>,
    pub(super) body_timeout: Option<Time>,
    pub(super) idle_timeout: Option<Time>,
    pub(super) sparse: SparseSpec,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SparseSpec {
    #[default]
    Refused,
    Indexes,
    All,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct SpaceSpec {
    pub(super) warn: Option<Spanned<u8>>,
    pub(super) stop: Option<Spanned<u8>>,
    pub(super) free: Option<ByteSize>,
    pub(super) reserve: Option<ByteSize>,
    pub(super) quota: Vec<QuotaSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct QuotaSpec {
    pub(super) repositories: Text,
    pub(super) size: ByteSize,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct SweepSpec {
    pub(super) interval: Option<Text>,
    pub(super) grace: Option<Time>,
    pub(super) trash: Option<Time>,
    pub(super) untagged: UntaggedSpec,
    pub(super) uploads: Option<Time>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum UntaggedSpec {
    #[default]
    Keep,
    Delete,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ScrubSpec {
    pub(super) interval: Option<Text>,
    pub(super) rate: Option<Size>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct IndexSpec {
    pub(super) kind: IndexKindSpec,
    pub(super) cache: Option<Size>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum IndexKindSpec {
    #[default]
    Sled,
    Memory,
}

//--- Others

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ClusterSpec {
    pub(super) node: Text,
    #[serde(default)]
    pub(super) listen: Option<Vec<SocketAddr>>,
    #[serde(default)]
    pub(super) peers: Vec<PeerSpec>,
    pub(super) ca: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    #[serde(default)]
    pub(super) acknowledge: AcknowledgeSpec,
    #[serde(default)]
    pub(super) acknowledge_timeout: Option<HumanDuration>,
    #[serde(default)]
    pub(super) compare: Option<Time>,
    #[serde(default)]
    pub(super) rate: Option<Size>,
    #[serde(default)]
    pub(super) fetches: Option<Spanned<usize>>,
    #[serde(default)]
    pub(super) clock_bound: Option<Time>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct PeerSpec {
    pub(super) name: Text,
    pub(super) address: Text,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum AcknowledgeSpec {
    #[default]
    MajorityOfReachable,
    Strict,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct MirrorSpec {
    pub(super) upstream: Spanned<Texts>,
    pub(super) prefix: Text,
    #[serde(default)]
    pub(super) namespace: Option<String>,
    #[serde(default)]
    pub(super) ttl: Option<HumanDuration>,
    #[serde(default)]
    pub(super) credentials: Option<PathBuf>,
    #[serde(default)]
    pub(super) ca: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct WebhookSpec {
    pub(super) name: Text,
    pub(super) url: Text,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) timeout: Option<Time>,
    #[serde(default)]
    pub(super) threshold: Option<Spanned<u32>>,
    #[serde(default)]
    pub(super) backoff: Option<Time>,
    #[serde(default)]
    pub(super) ignore: IgnoreSpec,
    #[serde(default)]
    pub(super) ca: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct IgnoreSpec {
    pub(super) media_types: Vec<String>,
    pub(super) actions: Vec<Text>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct S3Spec {
    pub(super) bucket: String,
    #[serde(default)]
    pub(super) endpoint: Option<Text>,
    #[serde(default)]
    pub(super) region: Option<String>,
    #[serde(default)]
    pub(super) prefix: String,
    pub(super) access_key_file: PathBuf,
    pub(super) secret_key_file: PathBuf,
    #[serde(default)]
    pub(super) ca: Option<PathBuf>,
    #[serde(default)]
    pub(super) allow_http: bool,
}
