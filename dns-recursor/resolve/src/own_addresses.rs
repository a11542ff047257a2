//! The addresses that no referral leads to: those of this server itself, from which a query would come back in a circle, and those that
//! the operator bars.
//!
//! Never looks anything up. The caller knows the addresses of the node.

use std::net::SocketAddr;

use cidrs::Cidrs;
use ipnet::IpNet;

/// The addresses on which this server receives queries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnAddresses {
    listening: Vec<SocketAddr>,
    of_this_node: Vec<IpNet>,
    barred: Cidrs,
}

impl OwnAddresses {
    /// `listening` are the sockets' addresses, `of_this_node` those of the node's interfaces.
    #[must_use]
    pub fn new(listening: Vec<SocketAddr>, of_this_node: Vec<IpNet>) -> Self {
        Self {
            listening,
            of_this_node,
            barred: Cidrs::default(),
        }
    }

    /// The same, and networks that no referral leads to.
    #[must_use]
    pub fn and_barred(self, barred: Cidrs) -> Self {
        Self { barred, ..self }
    }

    /// Whether no referral leads to an address.
    #[must_use]
    pub fn bars(&self, address: SocketAddr) -> bool {
        self.barred.contains(address.ip()) || self.contains(address)
    }

    /// Whether a query sent to this address arrives at this server. A listener on all addresses includes
    /// those of the node, of its own family: one on `[::]` receives no IPv4. An IPv4 address written in
    /// IPv6 is IPv4.
    #[must_use]
    pub fn contains(&self, address: SocketAddr) -> bool {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        self.listening.iter().any(|listen| {
            let everywhere = listen.ip().is_unspecified()
                && listen.is_ipv4() == address.is_ipv4()
                && self
                    .of_this_node
                    .iter()
                    .any(|own| own.contains(&address.ip()));
            listen.port() == address.port() && (listen.ip() == address.ip() || everywhere)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_is_on_those_of_its_node_and_on_no_others() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let own = ["127.0.0.0/8", "192.0.2.2/32", "::1/128"].map(|text| text.parse().unwrap());
        for (listen, asked, expected) in [
            ("0.0.0.0:53", "192.0.2.2:53", true),
            ("0.0.0.0:53", "192.0.2.3:53", false),
            ("0.0.0.0:53", "192.0.2.2:5301", false),
            ("0.0.0.0:53", "[::1]:53", false),
            ("[::]:53", "[::1]:53", true),
            ("[::]:53", "127.0.0.1:53", false),
            ("192.0.2.9:53", "192.0.2.9:53", true),
            ("192.0.2.9:53", "[::ffff:192.0.2.9]:53", true),
            ("0.0.0.0:53", "[::ffff:192.0.2.2]:53", true),
        ] {
            let own = OwnAddresses::new(vec![address(listen)], own.to_vec());
            assert_eq!(own.contains(address(asked)), expected, "{listen} {asked}");
        }
    }

    #[test]
    fn a_barred_network_is_no_address_of_its_own() {
        let barred = Cidrs::from_items(["192.0.2.0/24", "!192.0.2.128/25"]).unwrap();
        let own = OwnAddresses::default().and_barred(barred);
        for (asked, expected) in [
            ("192.0.2.1:53", true),
            ("[::ffff:192.0.2.1]:53", true),
            ("192.0.2.129:53", false),
            ("198.51.100.1:53", false),
        ] {
            let asked: SocketAddr = asked.parse().unwrap();
            assert_eq!((own.bars(asked), own.contains(asked)), (expected, false));
        }
    }
}
