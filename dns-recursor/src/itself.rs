//! Where this server itself is reached: what is asked there comes back in a circle.
//!
//! Never looks anything up: which addresses are the node's is said by whoever makes one.

use std::net::SocketAddr;

use ipnet::IpNet;

/// Where this server itself is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Itself {
    listening: Vec<SocketAddr>,
    of_this_node: Vec<IpNet>,
}

impl Itself {
    /// It listens on these addresses, and these are the node's.
    #[must_use]
    pub const fn new(listening: Vec<SocketAddr>, of_this_node: Vec<IpNet>) -> Self {
        Self {
            listening,
            of_this_node,
        }
    }

    /// Whether it hears what is sent to this address. All addresses are those of the node, and of one
    /// family: a listener on `[::]` takes no IPv4, and what is sent to an address of IPv4 written in IPv6 is.
    #[must_use]
    pub fn hears(&self, address: SocketAddr) -> bool {
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
            let itself = Itself::new(vec![address(listen)], own.to_vec());
            assert_eq!(itself.hears(address(asked)), expected, "{listen} {asked}");
        }
    }
}
