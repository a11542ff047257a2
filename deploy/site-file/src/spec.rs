//! A site file as people write it. The meaning of values, and whether they fit together, is for
//! [`super::build`].

use std::path::PathBuf;

use daemon::config::{ByteSize, HumanDuration};
use serde::Deserialize;
use toml::Spanned;

use site::{Role, VipRole};

/// A text with its place.
pub(super) type Text = Spanned<String>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Spec {
    pub(super) name: Text,
    pub(super) domain: Text,
    pub(super) networks: Spanned<Vec<Text>>,
    #[serde(default)]
    pub(super) gateways: Vec<Text>,
    pub(super) clients: Option<Vec<Text>>,
    pub(super) interface: Option<Text>,
    pub(super) pki: Option<PathBuf>,
    #[serde(default)]
    pub(super) node: Vec<NodeSpec>,
    #[serde(default)]
    pub(super) dns: DnsSpec,
    #[serde(default)]
    pub(super) record: Vec<RecordSpec>,
    #[serde(default)]
    pub(super) time: TimeSpec,
    #[serde(default)]
    pub(super) vip: Vec<VipSpec>,
    #[serde(default)]
    pub(super) registry: RegistrySpec,
    #[serde(default)]
    pub(super) publish: Vec<PublishSpec>,
    #[serde(default)]
    pub(super) platform: PlatformSpec,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct NodeSpec {
    pub(super) name: Text,
    pub(super) role: RoleSpec,
    pub(super) address: Option<Text>,
    #[serde(default)]
    pub(super) addresses: Vec<Text>,
    pub(super) interface: Option<Text>,
    pub(super) services: Option<Vec<Text>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RoleSpec {
    Master,
    Worker,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct DnsSpec {
    pub(super) upstreams: Vec<Text>,
    pub(super) ttl: Option<Spanned<u32>>,
    pub(super) contact: Option<Text>,
    pub(super) serial: Option<u32>,
    pub(super) refresh: Option<Text>,
    pub(super) retry: Option<Text>,
    pub(super) expire: Option<Text>,
    pub(super) minimum: Option<Text>,
    pub(super) name_servers: Option<Vec<NameServerSpec>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct NameServerSpec {
    pub(super) name: Text,
    pub(super) address: Text,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RecordSpec {
    pub(super) name: Text,
    pub(super) address: Option<Text>,
    #[serde(default)]
    pub(super) addresses: Vec<Text>,
    pub(super) ttl: Option<Spanned<u32>>,
    #[serde(rename = "type")]
    pub(super) rtype: Option<Text>,
    pub(super) value: Option<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct TimeSpec {
    pub(super) servers: Vec<Text>,
    pub(super) correct_clock: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct VipSpec {
    pub(super) name: Text,
    pub(super) role: Option<Spanned<VipRoleSpec>>,
    pub(super) address: Option<Text>,
    #[serde(default)]
    pub(super) addresses: Vec<Text>,
    pub(super) router_id: Option<Spanned<u8>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum VipRoleSpec {
    Api,
    Ingress,
    Plain,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RegistrySpec {
    pub(super) names: Option<Vec<Text>>,
    pub(super) port: Option<Spanned<u16>>,
    pub(super) cluster_port: Option<Spanned<u16>>,
    pub(super) users: Option<Spanned<PathBuf>>,
    pub(super) anonymous_pull: Option<bool>,
    pub(super) quota: Vec<QuotaSpec>,
    pub(super) mirror: Vec<MirrorSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct QuotaSpec {
    pub(super) repositories: Text,
    pub(super) size: Spanned<ByteSize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct MirrorSpec {
    pub(super) prefix: Text,
    pub(super) upstream: Option<Text>,
    #[serde(default)]
    pub(super) upstreams: Vec<Text>,
    pub(super) namespace: Option<Text>,
    pub(super) ttl: Option<HumanDuration>,
    pub(super) credentials: Option<Spanned<PathBuf>>,
    pub(super) ca: Option<Spanned<PathBuf>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct PublishSpec {
    pub(super) name: Text,
    pub(super) port: Option<Spanned<u16>>,
    pub(super) proxy_port: Option<Spanned<u16>>,
    pub(super) names: Option<Vec<Text>>,
    pub(super) role: Option<VipRoleSpec>,
    pub(super) vip: Option<Text>,
    pub(super) offered_by: Option<Vec<RoleSpec>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct PlatformSpec {
    pub(super) openshift: Option<Text>,
    pub(super) podman: Option<Text>,
}

impl From<RoleSpec> for Role {
    fn from(spec: RoleSpec) -> Self {
        match spec {
            RoleSpec::Master => Self::Master,
            RoleSpec::Worker => Self::Worker,
        }
    }
}

impl From<VipRoleSpec> for VipRole {
    fn from(spec: VipRoleSpec) -> Self {
        match spec {
            VipRoleSpec::Api => Self::Api,
            VipRoleSpec::Ingress => Self::Ingress,
            VipRoleSpec::Plain => Self::Plain,
        }
    }
}
