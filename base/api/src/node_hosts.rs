//! The detail of the status of `dns-recursor node-hosts`.

use serde::{Deserialize, Serialize};

/// The hosts file, and the services in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detail {
    /// The hosts file.
    pub path: String,
    /// The lines of the block.
    pub entries: usize,
    /// How the file was written last: `replaced`, or `in place` with the reason; none before the first write.
    pub way: Option<String>,
    /// When the file was last found as it should be, or written so, in seconds since 1970.
    pub right_at: Option<u64>,
    /// The number of writes.
    pub writes: u64,
    /// How often another program changed the file at the same time.
    pub conflicts: u64,
    /// The number of writes that have failed.
    pub failures: u64,
    /// Why the file is not as it should be; none when it is.
    pub problem: Option<String>,
    /// The servers that get the queries, in this order.
    pub nameservers: Vec<String>,
    /// The services.
    pub services: Vec<Service>,
}

/// A service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// The name that queries have.
    pub name: String,
    /// IPv4.
    pub ipv4: Family,
    /// IPv6.
    pub ipv6: Family,
}

/// A family of addresses of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Family {
    /// The addresses in the file.
    pub addresses: Vec<String>,
    /// Seconds since the last answer; none before the first one.
    pub answered_ago: Option<u64>,
    /// Whether the last answer was that there are no addresses.
    pub denied: bool,
    /// Why the last lookup has failed; none when it has not.
    pub failure: Option<String>,
}
