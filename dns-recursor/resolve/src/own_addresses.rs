//! The addresses of this server itself. A query sent there would come back in a circle.
//!
//! Never looks anything up. The caller knows the addresses of the node.

use std::net::SocketAddr;

use ipnet::IpNet;

/// The addresses on which this server receives queries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnAddresses {
    listening: Vec<SocketAddr>,
    of_this_node: Vec<IpNet>,
}

impl OwnAddresses {
    /// `listening` are the sockets' addresses, `of_this_node` those of the node's interfaces.
    #[must_use]
    pub const fn new(listening: Vec<SocketAddr>, of_this_node: Vec<IpNet>) -> Self {
        Self {
            listening,
            of_this_node,
        }
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
}
