//! The zones that lead from the addresses of a site's networks to names (RFC 1035 §3.5, RFC 3596
//! §2.5).
//!
//! A node's address has the node's name and no other: a host that has no name yet asks what it is
//! called. Other addresses have every name that the site file gives them.
//!
//! A zone ends at a whole label. A network that does not gets the zones of its parts, each whole,
//! that hold a name; only one that is smaller than the last label has a zone larger than itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use ipnet::IpNet;

use site::Site;

/// A zone of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReverseZone {
    /// Its apex, without a final dot.
    pub(super) name: String,
    /// Each address with its names, fully qualified without a final dot.
    entries: BTreeMap<IpAddr, Vec<String>>,
    /// How many labels of an address are the apex's.
    n_labels: usize,
}

/// The reverse zones of a site that hold at least one name, in the order of their names.
pub(super) fn zones(site: &Site) -> Vec<ReverseZone> {
    let mut zones: BTreeMap<String, ReverseZone> = BTreeMap::new();
    for (address, names) in names(site) {
        let Some(network) = network_of(site, address) else {
            continue;
        };
        let n_labels = n_labels(network);
        let name = reverse_name(address, 0, n_labels);
        let zone = zones.entry(name.clone()).or_insert_with(|| ReverseZone {
            name,
            entries: BTreeMap::new(),
            n_labels,
        });
        zone.entries.insert(address, names);
    }
    zones.into_values().collect()
}

/// Renders a zone, whose head is that of the site's zone.
pub(super) fn render(site: &Site, zone: &ReverseZone) -> String {
    let mut text = super::zone::head(site, &zone.name, "The names of addresses");
    text.push('\n');
    for (address, names) in &zone.entries {
        let label = reverse_name(*address, zone.n_labels, usize::MAX);
        for name in names {
            // Writing to a `String` cannot fail.
            let _infallible = writeln!(text, "{label:<15} IN PTR   {name}.");
        }
    }
    text
}

/// The names of every address that has one.
fn names(site: &Site) -> BTreeMap<IpAddr, Vec<String>> {
    let mut names: BTreeMap<IpAddr, Vec<String>> = BTreeMap::new();
    let full = |name: &str| match name {
        "@" => site.domain.clone(),
        name => format!("{name}.{}", site.domain),
    };
    let mut add = |address: IpAddr, name: String| {
        let of_address = names.entry(address).or_default();
        if !of_address.contains(&name) {
            of_address.push(name);
        }
    };
    for vip in &site.vips {
        // A wildcard is no name of an address.
        let published = site
            .published
            .iter()
            .filter(|published| published.vip.as_ref() == Some(&vip.name))
            .flat_map(|published| &published.names)
            .filter(|name| *name != "@" && !name.starts_with('*'));
        for name in published {
            for address in &vip.addresses {
                add(address.addr(), full(name));
            }
        }
    }
    for host in site.hosts.iter().chain(&site.zone.name_servers) {
        if !host.name.starts_with('*') {
            add(host.address, full(&host.name));
        }
    }
    for node in &site.nodes {
        for address in &node.addresses {
            names.insert(*address, vec![full(&node.name)]);
        }
    }
    names
}

/// The smallest of the site's networks that an address is in.
fn network_of(site: &Site, address: IpAddr) -> Option<IpNet> {
    let networks = site.networks.iter();
    networks
        .filter(|network| network.contains(&address))
        .max_by_key(|network| network.prefix_len())
        .copied()
}

/// How many labels the apex of a network's zones has beside those of the tree: whole ones, and one
/// less than an address at most, which is a label of its own.
fn n_labels(network: IpNet) -> usize {
    let (bits, most) = match network {
        IpNet::V4(_) => (8, 3),
        IpNet::V6(_) => (4, 31),
    };
    usize::from(network.prefix_len())
        .div_ceil(bits)
        .clamp(1, most)
}

/// Labels `from` to `to` of an address, counted from the tree's root and written from the other
/// end; with the tree itself when `from` is 0.
fn reverse_name(address: IpAddr, from: usize, to: usize) -> String {
    let (labels, tree): (Vec<String>, _) = match address {
        IpAddr::V4(address) => {
            let octets = address.octets();
            (octets.iter().map(u8::to_string).collect(), "in-addr.arpa")
        }
        IpAddr::V6(address) => {
            let nibbles = address.octets().into_iter();
            let nibbles = nibbles.flat_map(|octet| [octet >> 4, octet & 15]);
            (
                nibbles.map(|nibble| format!("{nibble:x}")).collect(),
                "ip6.arpa",
            )
        }
    };
    let to = to.min(labels.len());
    let chosen = labels.into_iter().take(to).skip(from);
    let mut name: Vec<String> = chosen.collect();
    name.reverse();
    if from == 0 {
        name.push(tree.to_owned());
    }
    name.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use site::{Vip, VipRole};

    fn records(site: &Site) -> Vec<(String, Vec<String>)> {
        let zones = zones(site);
        let of_zone = |zone: &ReverseZone| {
            let text = render(site, zone);
            let lines = text.lines().filter(|line| line.contains(" PTR "));
            let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
            (zone.name.clone(), lines.map(words).collect())
        };
        zones.iter().map(of_zone).collect()
    }

    #[test]
    fn a_node_has_one_name_and_other_hosts_have_all_of_theirs() {
        let records = records(&Site::example());
        assert_eq!(records.len(), 1);
        let (zone, lines) = &records[0];
        assert_eq!(zone, "7.168.192.in-addr.arpa");
        assert_eq!(
            lines,
            &[
                "1 IN PTR yum.ocp4.redhat.ren.",
                "1 IN PTR nexus.ocp4.redhat.ren.",
                "11 IN PTR helper.ocp4.redhat.ren.",
                "11 IN PTR git.ocp4.redhat.ren.",
                "13 IN PTR master-0.ocp4.redhat.ren.",
                "14 IN PTR master-1.ocp4.redhat.ren.",
                "15 IN PTR master-2.ocp4.redhat.ren.",
                "16 IN PTR worker-0.ocp4.redhat.ren.",
                "17 IN PTR worker-1.ocp4.redhat.ren.",
                "18 IN PTR worker-2.ocp4.redhat.ren.",
                "177 IN PTR tmp-registry.ocp4.redhat.ren.",
            ]
        );
    }

    #[test]
    fn zones_end_at_whole_labels() {
        for (network, address, zone, label) in [
            (
                "192.168.7.0/24",
                "192.168.7.13",
                "7.168.192.in-addr.arpa",
                "13",
            ),
            ("10.0.0.0/8", "10.1.2.3", "10.in-addr.arpa", "3.2.1"),
            ("10.1.0.0/20", "10.1.9.3", "9.1.10.in-addr.arpa", "3"),
            ("10.1.2.128/25", "10.1.2.200", "2.1.10.in-addr.arpa", "200"),
            ("10.1.2.3/32", "10.1.2.3", "2.1.10.in-addr.arpa", "3"),
            ("0.0.0.0/0", "10.1.2.3", "10.in-addr.arpa", "3.2.1"),
            (
                "2001:db8::/32",
                "2001:db8::14",
                "8.b.d.0.1.0.0.2.ip6.arpa",
                "4.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0",
            ),
            (
                "2001:db8::/31",
                "2001:db8::14",
                "8.b.d.0.1.0.0.2.ip6.arpa",
                "4.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0",
            ),
        ] {
            let mut site = Site::example();
            site.networks = vec![network.parse().unwrap()];
            site.nodes.truncate(1);
            site.nodes[0].addresses = vec![address.parse().unwrap()];
            site.hosts.clear();
            site.zone.name_servers.clear();
            let line = format!("{label} IN PTR master-0.ocp4.redhat.ren.");
            assert_eq!(
                records(&site),
                [(zone.to_owned(), vec![line])],
                "{network} {address}"
            );
        }
    }

    #[test]
    fn a_virtual_ip_has_the_names_that_stand_for_it() {
        let mut site = Site::example();
        site.hosts.clear();
        site.nodes.truncate(1);
        site.vips = vec![Vip {
            name: "api".to_owned(),
            role: VipRole::Api,
            addresses: vec!["192.168.7.100/24".parse().unwrap()],
            router_id: None,
        }];
        for published in &mut site.published {
            published.vip = (published.role == VipRole::Api).then(|| "api".to_owned());
        }
        let records = records(&site);
        assert_eq!(
            records[0].1,
            [
                "13 IN PTR master-0.ocp4.redhat.ren.",
                "100 IN PTR api.ocp4.redhat.ren.",
                "100 IN PTR api-int.ocp4.redhat.ren.",
            ]
        );
    }

    #[test]
    fn addresses_outside_the_networks_are_somebody_elses() {
        let mut site = Site::example();
        site.networks = vec!["172.16.0.0/24".parse().unwrap()];
        assert_eq!(zones(&site), []);
    }
}
