//! The names that the configuration gives, hosts files and response policies.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{HumanDuration, Ip, Whole};

/// The port of a probe.
pub type ProbePort = Whole<u16, 1>;

/// A name with addresses or an alias. Another type of record is answered with no data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct GivenName {
    /// The name. `*.` before it means all names below, at any depth; the deepest such name decides, and one without `*.` comes
    /// before it.
    pub name: String,
    /// Its addresses.
    #[serde(default)]
    pub addresses: Vec<Ip>,
    /// Instead of addresses: the name whose records it has (CNAME). dns-recursor resolves that like the name of a query.
    #[serde(default)]
    pub alias: Option<String>,
    /// The TTL.
    #[serde(default = "GivenName::default_ttl")]
    pub ttl: HumanDuration,
    /// The TCP port by which healthd probes the addresses. dns-recursor leaves out an address that is down or drained. When none of
    /// a family (IPv4, IPv6) is up, it answers with all of them. Without healthd all count as up.
    #[serde(default)]
    pub probe_port: Option<ProbePort>,
    /// Whether the addresses have the name in the reverse zone (PTR). A name with `*.` is never there.
    #[serde(default = "crate::yes")]
    pub reverse: bool,
}

impl GivenName {
    /// A name with addresses, and the defaults.
    #[must_use]
    pub fn new(name: impl Into<String>, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        Self {
            name: name.into(),
            addresses: addresses.into_iter().map(Ip).collect(),
            alias: None,
            ttl: Self::default_ttl(),
            probe_port: None,
            reverse: true,
        }
    }

    const fn default_ttl() -> HumanDuration {
        HumanDuration(Duration::from_secs(60))
    }
}

/// Names of hosts files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Hosts {
    /// The files, in the form of /etc/hosts. dns-recursor reads a file again when it changes. A line that is wrong is logged and
    /// left out; while a file is not there, it has no names.
    #[schemars(extend("x-example" = "[\"/etc/hosts\"]"))]
    pub files: Vec<PathBuf>,
    /// The TTL.
    pub ttl: HumanDuration,
    /// Whether the addresses have the first name of their line in the reverse zone (PTR).
    pub reverse: bool,
}

impl Default for Hosts {
    fn default() -> Self {
        Self {
            files: Vec::new(),
            ttl: HumanDuration(Duration::from_secs(60)),
            reverse: true,
        }
    }
}

/// Rules for names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ResponsePolicy {
    /// The file: a master file with `zone`, otherwise a list. A list has a name a line, which means the name and all below
    /// (`*.` before it: only those below), lines of a hosts file, which mean their names alone, or `||name^`.
    pub file: PathBuf,
    /// The name of the response policy zone (RPZ) in the file. dns-recursor honours rules for the names of queries, for clients
    /// (`rpz-client-ip`) and for addresses of answers (`rpz-ip`); it counts those for name servers, and leaves them out. Rules for clients and
    /// names decide before a query is resolved.
    #[serde(default)]
    pub zone: Option<String>,
    /// The consequence of a rule.
    #[serde(default)]
    pub action: PolicyAction,
}

/// The consequence of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyAction {
    /// That of the zone's records; NXDOMAIN for a list.
    #[default]
    Given,
    /// The name does not exist (NXDOMAIN).
    Nxdomain,
    /// The name has no records of the type.
    Nodata,
    /// The query is answered as if there were no further rules.
    Passthru,
    /// There is no response.
    Drop,
    /// Over UDP the response is empty and truncated, so that the client asks again over TCP, where there is no rule.
    TcpOnly,
    /// The addresses are 0.0.0.0 and ::.
    NullAddress,
}
