//! The networks this node is connected to and its own addresses, from the kernel's tables in
//! `/proc/self/net`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Networks with a direct route (IPv4) or an address (IPv6), loopback always among them.
pub(super) fn connected() -> Vec<IpNet> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let mut networks = loopback();
    networks.extend(ipv4_routes(&read("/proc/self/net/route")));
    networks.extend(
        ipv6_interfaces(&read("/proc/self/net/if_inet6")).map(|it| IpNet::from(it.trunc())),
    );
    networks.sort_unstable();
    networks.dedup();
    networks
}

/// This node's own, always with loopback: addresses, and ranges that are routed to it
/// as a whole.
pub(super) fn own() -> Vec<IpNet> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let mut own = loopback();
    own.extend(ipv4_local(&read("/proc/self/net/fib_trie")));
    own.extend(
        ipv6_interfaces(&read("/proc/self/net/if_inet6"))
            .map(|it| IpNet::from(Ipv6Net::from(it.addr()))),
    );
    own.sort_unstable();
    own.dedup();
    own
}

fn loopback() -> Vec<IpNet> {
    [
        IpNet::new(Ipv4Addr::LOCALHOST.into(), 8),
        IpNet::new(Ipv6Addr::LOCALHOST.into(), 128),
    ]
    .into_iter()
    .flatten()
    .map(|network| network.trunc())
    .collect()
}

/// Routes without a gateway: `Iface Destination Gateway Flags … Mask …`, addresses as the kernel
/// holds them in memory, in hexadecimal.
fn ipv4_routes(table: &str) -> impl Iterator<Item = IpNet> {
    /// The route goes through a gateway (linux/route.h, `RTF_GATEWAY`).
    const GATEWAY: u16 = 0x0002;
    table.lines().skip(1).filter_map(|line| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[_, destination, _, flags, _, _, _, mask, ..] = columns.as_slice() else {
            return None;
        };
        if u16::from_str_radix(flags, 16).ok()? & GATEWAY != 0 {
            return None;
        }
        let address = |text| {
            let bits = u32::from_str_radix(text, 16).ok()?;
            Some(Ipv4Addr::from(bits.to_ne_bytes()))
        };
        let network = Ipv4Net::with_netmask(address(destination)?, address(mask)?).ok()?;
        (network.prefix_len() > 0).then_some(network.trunc().into())
    })
}

/// The addresses that the kernel delivers here: a line `|-- address`, and below it the routes to it, as in `/32 host LOCAL`.
fn ipv4_local(trie: &str) -> Vec<IpNet> {
    let mut local = Vec::new();
    let mut address = None;
    for line in trie.lines().map(str::trim) {
        if let Some(leaf) = line.strip_prefix("|-- ") {
            address = leaf.parse::<Ipv4Addr>().ok();
        } else if let Some((length, "host LOCAL")) = line.split_once(' ')
            && let (Some(address), Some(length)) = (address, length.strip_prefix('/'))
            && let Ok(length) = length.parse()
            && let Ok(network) = Ipv4Net::new(address, length)
        {
            local.push(network.into());
        }
    }
    local
}

/// Addresses: `address index prefix scope flags name`, all but the name in hexadecimal.
fn ipv6_interfaces(table: &str) -> impl Iterator<Item = Ipv6Net> {
    table.lines().filter_map(|line| {
        let mut columns = line.split_ascii_whitespace();
        let bits = u128::from_str_radix(columns.next()?, 16).ok()?;
        let length = u8::from_str_radix(columns.nth(1)?, 16).ok()?;
        Ipv6Net::new(Ipv6Addr::from_bits(bits), length).ok()
    })
}

/// True for networks that only the node's own site can be in.
pub(super) fn is_private(address: IpAddr) -> bool {
    match address {
        // RFC 6598 shares 100.64.0.0/10 among the customers of a provider: not the site's own.
        IpAddr::V4(address) => {
            address.is_private() || address.is_loopback() || address.is_link_local()
        }
        IpAddr::V6(address) => {
            address.is_unique_local() || address.is_loopback() || address.is_unicast_link_local()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn direct_routes_are_networks_and_gateways_are_not() {
        let table = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\n\
                     eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                     eth0\t0007A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
                     eth1\t0000000A\t0107A8C0\t0003\t0\t0\t0\t000000FF\t0\t0\t0\n\
                     tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0\n\
                     broken line\n";
        let expected = if cfg!(target_endian = "little") {
            nets(&["192.168.7.0/24"])
        } else {
            ipv4_routes(table).collect()
        };
        assert_eq!(ipv4_routes(table).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn addresses_of_interfaces_give_their_networks() {
        let table = "fd000000000000000000000000000002 04 40 00 82     eth0\n\
                     00000000000000000000000000000001 01 80 10 80       lo\n\
                     zz 01 80 10 80 lo\n";
        let found: Vec<_> = ipv6_interfaces(table).collect();
        let networks: Vec<IpNet> = found.iter().map(|it| IpNet::from(it.trunc())).collect();
        assert_eq!(networks, nets(&["fd00::/64", "::1/128"]));
        let addresses: Vec<IpNet> = found
            .iter()
            .map(|it| IpNet::from(Ipv6Net::from(it.addr())))
            .collect();
        assert_eq!(addresses, nets(&["fd00::2/128", "::1/128"]));
    }

    #[test]
    fn what_is_delivered_here_is_the_nodes_own() {
        let trie = "Local:\n  \
                    +-- 0.0.0.0/0 3 0 5\n     \
                    |-- 0.0.0.0\n        \
                    /0 universe UNICAST\n     \
                    |-- 127.0.0.0\n           \
                    /8 host LOCAL\n     \
                    |-- 192.0.2.0\n        \
                    /24 link UNICAST\n     \
                    |-- 192.0.2.2\n        \
                    /32 host LOCAL\n     \
                    |-- 192.0.2.255\n        \
                    /32 link BROADCAST\n     \
                    |-- 198.51.100.0\n        \
                    /24 host LOCAL\n        \
                    /32 link BROADCAST\n     \
                    |-- nonsense\n        \
                    /32 host LOCAL\n";
        let expected = nets(&["127.0.0.0/8", "192.0.2.2/32", "198.51.100.0/24"]);
        assert_eq!(ipv4_local(trie), expected);
    }

    #[test]
    fn an_address_that_packets_leave_from_is_the_nodes_own() {
        let own = own();
        for network in nets(&["127.0.0.0/8", "::1/128"]) {
            assert!(own.contains(&network), "{network} in {own:?}");
        }
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        // No packet leaves; a machine without a route has no such address.
        if socket.connect("192.0.2.1:9").is_ok() {
            let address = socket.local_addr().unwrap().ip();
            assert!(
                own.iter().any(|it| it.contains(&address)),
                "{address} in {own:?}"
            );
        }
    }

    #[test]
    fn loopback_is_always_among_them() {
        let networks = connected();
        for network in nets(&["127.0.0.0/8", "::1/128"]) {
            assert!(networks.contains(&network), "{network} in {networks:?}");
        }
    }

    #[test]
    fn only_private_networks_are_the_sites_own() {
        for (address, expected) in [
            ("10.1.2.3", true),
            ("172.16.0.1", true),
            ("192.168.7.13", true),
            ("127.0.0.53", true),
            ("169.254.1.1", true),
            ("100.64.0.1", false),
            ("8.8.8.8", false),
            ("fd00::1", true),
            ("fe80::1", true),
            ("::1", true),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_private(address.parse().unwrap()), expected, "{address}");
        }
    }
}
