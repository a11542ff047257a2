//! A query and its sender, as programs read them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use dns_wire::Name;
use ipnet::IpNet;

/// One query, as `who`, `qname`, `dh` and similar variables show it.
#[derive(Clone, Debug)]
pub struct Client {
    /// The sender.
    pub who: SocketAddr,
    /// The address and port that the query came to.
    pub local: SocketAddr,
    /// The EDNS client subnet (RFC 7871), if the query has one and the settings trust it.
    pub subnet: Option<IpNet>,
    /// The question's name, in the client's letter case.
    pub qname: Name,
    /// The header of the query.
    pub header: [u8; 12],
    /// Whether it came over TCP or another stream.
    pub tcp: bool,
    /// Whether it asks for DNSSEC records.
    pub dnssec_ok: bool,
    /// The EDNS UDP payload size, if the query has EDNS.
    pub payload_size: Option<u16>,
}

impl Client {
    /// The address that answers are tailored to: the client subnet's network if there is one,
    /// else the sender's.
    #[must_use]
    pub fn best_who(&self) -> IpAddr {
        self.subnet
            .map_or_else(|| self.who.ip().to_canonical(), |subnet| subnet.network())
    }

    /// A made-up client, for runs without a query.
    pub(crate) fn sample(owner: &Name) -> Self {
        Self {
            who: SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 53_000),
            local: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 53),
            subnet: None,
            qname: sample_name(owner),
            header: [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0],
            tcp: false,
            dnssec_ok: false,
            payload_size: Some(1232),
        }
    }
}

/// A name below a wildcard, or the name itself.
fn sample_name(owner: &Name) -> Name {
    if owner.is_wildcard()
        && let Some(parent) = owner.parent()
        && let Ok(name) = parent.prepend(b"sample")
    {
        return name;
    }
    owner.clone()
}
