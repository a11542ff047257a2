//! `[resolvers]`.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Time;
use crate::{DnsAddress, HumanDuration, Whole};

/// The most servers that lb-proxy asks.
pub const NAMESERVERS: usize = 8;

/// The lookups of servers that have DNS names, by HAProxy's words. While no resolver answers, the servers stay as they are;
/// at a start there are none until one answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Resolvers {
    /// The DNS servers to ask, at most 8, one after the other until one answers. The default is dns-recursor on this node.
    pub nameservers: Vec<DnsAddress>,
    /// The number of queries to one server before the next one.
    pub resolve_retries: Whole<u8, 1, 10>,
    /// The time that a query has.
    pub timeout_retry: Time,
    /// The shortest time between two lookups of a name, and the time after one that failed.
    pub timeout_resolve: Time,
    /// The longest time between two lookups of a name. Between both, the TTL of the answer counts.
    pub hold_valid: Time,
    /// How long the servers of a name stay when it does not exist any more, or has no addresses.
    pub hold_nx: HumanDuration,
    /// How long a server stays that an answer lacks.
    pub hold_obsolete: HumanDuration,
}

impl Default for Resolvers {
    fn default() -> Self {
        let own = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), DnsAddress::PORT);
        Self {
            nameservers: vec![DnsAddress(own)],
            resolve_retries: Whole::clamped(3),
            timeout_retry: Time::clamped(Duration::from_secs(1)),
            timeout_resolve: Time::clamped(Duration::from_secs(1)),
            hold_valid: Time::clamped(Duration::from_secs(10)),
            hold_nx: HumanDuration(Duration::from_secs(30)),
            hold_obsolete: HumanDuration(Duration::ZERO),
        }
    }
}
