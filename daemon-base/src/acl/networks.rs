//! The networks this node is connected to, from the kernel's tables in `/proc/self/net`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Networks with a direct route (IPv4) or an address (IPv6), loopback always among them.
pub(super) fn connected() -> Vec<IpNet> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let mut networks = loopback();
    networks.extend(ipv4_routes(&read("/proc/self/net/route")));
    networks.extend(ipv6_addresses(&read("/proc/self/net/if_inet6")));
    networks.sort_unstable();
    networks.dedup();
    networks
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

/// Addresses: `address index prefix scope flags name`, all but the name in hexadecimal.
fn ipv6_addresses(table: &str) -> impl Iterator<Item = IpNet> {
    table.lines().filter_map(|line| {
        let mut columns = line.split_ascii_whitespace();
        let bits = u128::from_str_radix(columns.next()?, 16).ok()?;
        let length = u8::from_str_radix(columns.nth(1)?, 16).ok()?;
        let network = Ipv6Net::new(Ipv6Addr::from_bits(bits), length).ok()?;
        Some(IpNet::from(network.trunc()))
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
        let found: Vec<_> = ipv6_addresses(table).collect();
        assert_eq!(found, nets(&["fd00::/64", "::1/128"]));
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
