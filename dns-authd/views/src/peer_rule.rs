//! Settings for some name servers.

use std::net::IpAddr;

use cidrs::Cidrs;
use dns_wire::Name;

/// A value for some name servers and zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerRule<T> {
    /// The addresses of the servers; all without any.
    pub networks: Option<Cidrs>,
    /// The keys of which a server has one; whether it has one does not matter without any.
    pub keys: Vec<Name>,
    /// The zones; all without any.
    pub zones: Vec<Name>,
    /// The value.
    pub value: T,
}

impl<T> PeerRule<T> {
    /// Whether it is of a zone.
    #[must_use]
    pub fn is_of(&self, zone: &Name) -> bool {
        self.zones.is_empty() || self.zones.contains(zone)
    }

    /// Whether it is for a server at this address, with some key.
    #[must_use]
    pub fn is_at(&self, server: IpAddr) -> bool {
        let networks = self.networks.as_ref();
        networks.is_none_or(|networks| networks.contains(server))
    }

    /// Whether it is for the server at this address, which has signed with this key.
    #[must_use]
    pub fn is_for(&self, server: IpAddr, key: Option<&Name>) -> bool {
        let has_key = self.keys.is_empty() || key.is_some_and(|key| self.keys.contains(key));
        has_key && self.is_at(server)
    }
}
