//! The services of a site that a node can run, in the order in which they start.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::Role;
use crate::nearest;

/// A service of the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// Probes the masters and publishes what is up.
    Healthd,
    /// Watches the Kubernetes API, in a site that has a cluster.
    Clusterd,
    /// Answers for the site's own zone.
    DnsAuthd,
    /// Resolves names for clients; forwards the site's zone to `dns-authd`.
    DnsRecursor,
    /// Accepts the connections of clients; passes each to a master that is up.
    LbProxy,
    /// Keeps the images of the site.
    RegistrySvc,
    /// Gives the site its time.
    TimesyncAgent,
}

impl Service {
    /// Every service, in the order in which they start; they stop in reverse.
    pub const ALL: [Self; 7] = [
        Self::Healthd,
        Self::Clusterd,
        Self::DnsAuthd,
        Self::DnsRecursor,
        Self::LbProxy,
        Self::RegistrySvc,
        Self::TimesyncAgent,
    ];

    /// The services of a node of a role, unless the node names others. Masters of a site with a cluster run clusterd.
    #[must_use]
    pub fn of(role: Role, has_cluster: bool) -> Vec<Self> {
        match role {
            Role::Master => {
                let runs = |service: &Self| has_cluster || *service != Self::Clusterd;
                Self::ALL.into_iter().filter(runs).collect()
            }
            Role::Worker => vec![Self::TimesyncAgent],
        }
    }

    /// The name of the service, of its package and of its binary.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Healthd => "healthd",
            Self::Clusterd => "clusterd",
            Self::DnsAuthd => "dns-authd",
            Self::DnsRecursor => "dns-recursor",
            Self::LbProxy => "lb-proxy",
            Self::RegistrySvc => "registry-svc",
            Self::TimesyncAgent => "timesync-agent",
        }
    }

    /// A description in one line.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Healthd => {
                "Probes every target of a site once, and tells all services what is up"
            }
            Self::Clusterd => {
                "Watches the Kubernetes API once, and tells all services what the cluster has"
            }
            Self::DnsAuthd => "Answers for the zones of a site, with the nodes that are up",
            Self::DnsRecursor => "Resolves names for the nodes of a site and their clients",
            Self::LbProxy => {
                "Balances connections to the nodes of a site, and holds its virtual addresses"
            }
            Self::RegistrySvc => "Keeps the container images of a site, alike on every node",
            Self::TimesyncAgent => "Keeps the clocks of a site together, and gives it the time",
        }
    }
}

/// A text that is no name of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownService(String);

impl fmt::Display for UnknownService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "unknown service `{}`, ", self.0)?;
        let known = Service::ALL.map(Service::name);
        match nearest(&self.0, known) {
            Some(meant) => write!(formatter, "did you mean `{meant}`?"),
            None => write!(formatter, "known are {}", known.join(", ")),
        }
    }
}

impl std::error::Error for UnknownService {}

impl FromStr for Service {
    type Err = UnknownService;

    fn from_str(text: &str) -> Result<Self, UnknownService> {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|service| service.name() == text);
        found.ok_or_else(|| UnknownService(text.to_owned()))
    }
}

impl fmt::Display for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl Serialize for Service {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Service {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Service {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Service".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": Self::ALL.map(Self::name) })
    }
}
