//! Virtual router numbers: those that OpenShift's own keepalived takes for a cluster, and clashes.
//!
//! Two virtual routers of one number on one link see each other's advertisements and, where addresses
//! are not compared, take turns in having no holder. OpenShift computes its numbers from the cluster's
//! name (`baremetal-runtimecfg`, `PopulateVRIDs`), so a site can tell before the first packet.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::settings::RouterSettings;

/// The numbers of a cluster's virtual routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterRouterIds {
    /// The number for the API's address.
    pub api: u8,
    /// The number for the ingress's address.
    pub ingress: u8,
}

impl ClusterRouterIds {
    /// As OpenShift has them for a cluster of this name.
    #[must_use]
    pub fn of(cluster: &str) -> Self {
        // The sum is 238 at most: neither addition overflows.
        let api = fletcher8(&format!("{cluster}-api")) + 1;
        let ingress = fletcher8(&format!("{cluster}-ingress")) + 1;
        // They never meet, though OpenShift looks: the suffixes differ by one in the low sum.
        Self { api, ingress }
    }
}

/// Fletcher's checksum of 8 bits as OpenShift computes it: 0 to 238.
#[must_use]
pub fn fletcher8(text: &str) -> u8 {
    let step = |(low, high): (u8, u8), octet: u8| {
        let low = low.wrapping_add(octet) % 15;
        (low, (high + low) % 15)
    };
    let (low, high) = text.bytes().fold((0, 0), step);
    high << 4 | low
}

/// Two virtual routers that would disturb each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clash {
    /// Both are configured here.
    Routers {
        /// One.
        first: Arc<str>,
        /// The other.
        second: Arc<str>,
        /// Their number.
        router_id: u8,
        /// Their interface.
        interface: Arc<str>,
    },
    /// One address is in two virtual routers.
    Address {
        /// One.
        first: Arc<str>,
        /// The other.
        second: Arc<str>,
        /// The address.
        address: IpAddr,
    },
    /// OpenShift's keepalived takes this number on the same link.
    Cluster {
        /// Configured here.
        router: Arc<str>,
        /// Its number.
        router_id: u8,
        /// `api` or `ingress`.
        role: &'static str,
    },
    /// Members of one group have other priorities: it may find no place where all can be active.
    GroupPriority {
        /// One.
        first: Arc<str>,
        /// The other.
        second: Arc<str>,
        /// Their group.
        group: Arc<str>,
    },
}

impl fmt::Display for Clash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Routers {
                first,
                second,
                router_id,
                interface,
            } => write!(
                formatter,
                "{first} and {second} both have router id {router_id} on {interface}"
            ),
            Self::Address {
                first,
                second,
                address,
            } => write!(formatter, "{first} and {second} both have {address}"),
            Self::Cluster {
                router,
                router_id,
                role,
            } => write!(
                formatter,
                "{router} has router id {router_id}, which OpenShift takes for the cluster's {role} address"
            ),
            Self::GroupPriority {
                first,
                second,
                group,
            } => write!(
                formatter,
                "{first} and {second} of group {group} have different priorities"
            ),
        }
    }
}

/// Everything that clashes. A router that is named after one of the cluster's addresses, or that
/// stands in for it, may have its number: pass `cluster` only where OpenShift's keepalived runs as well.
#[must_use]
pub fn clashes(routers: &[RouterSettings], cluster: Option<&str>) -> Vec<Clash> {
    let mut found = Vec::new();
    for (index, first) in routers.iter().enumerate() {
        for second in routers.iter().skip(index + 1) {
            found.extend(between(first, second));
        }
        if let Some(cluster) = cluster {
            let ids = ClusterRouterIds::of(cluster);
            let taken = [("api", ids.api), ("ingress", ids.ingress)];
            let same = taken.into_iter().filter(|(_, id)| *id == first.router_id);
            found.extend(same.map(|(role, router_id)| Clash::Cluster {
                router: Arc::clone(&first.name),
                router_id,
                role,
            }));
        }
    }
    found
}

fn between(first: &RouterSettings, second: &RouterSettings) -> Vec<Clash> {
    let names = || (Arc::clone(&first.name), Arc::clone(&second.name));
    let mut found = Vec::new();
    if first.is_same_router(second) {
        let (first_name, second_name) = names();
        found.push(Clash::Routers {
            first: first_name,
            second: second_name,
            router_id: first.router_id,
            interface: Arc::clone(&first.interface),
        });
    }
    let has = |address| {
        second
            .addresses
            .iter()
            .any(|entry| entry.address == address)
    };
    for address in first.addresses.iter().map(|entry| entry.address) {
        if has(address) {
            let (first, second) = names();
            found.push(Clash::Address {
                first,
                second,
                address,
            });
        }
    }
    if let Some(group) = &first.group
        && second.group.as_ref() == Some(group)
        && first.priority != second.priority
    {
        let (first, second) = names();
        found.push(Clash::GroupPriority {
            first,
            second,
            group: Arc::clone(group),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::VirtualAddress;

    #[test]
    fn fletcher_is_of_four_bits_twice() {
        assert_eq!(fletcher8(""), 0);
        // 'a' = 97 = 6 * 15 + 7.
        assert_eq!(fletcher8("a"), 0x77);
        // 'b' = 98: low (7 + 98) % 15 = 0, high (7 + 0) % 15 = 7.
        assert_eq!(fletcher8("ab"), 0x70);
        // What it can be at most leaves room for two additions.
        assert!((0..=u8::MAX).all(|octet| fletcher8(&char::from(octet).to_string()) <= 238));
    }

    /// Clusters whose rendered keepalived.conf people have published in bug reports.
    #[test]
    fn numbers_are_those_of_clusters_in_the_field() {
        let ids = ClusterRouterIds::of("oc2-yw674");
        assert_eq!((ids.api, ids.ingress), (1, 223));
        assert_eq!(ClusterRouterIds::of("piyushv6").api, 214);
    }

    #[test]
    fn a_cluster_never_gets_one_number_twice() {
        for number in 0..500 {
            let ids = ClusterRouterIds::of(&format!("cluster-{number}"));
            assert_ne!(ids.api, ids.ingress);
            assert!((1..=239).contains(&ids.api) && (1..=239).contains(&ids.ingress));
        }
    }

    fn router(name: &str, router_id: u8, address: &str) -> RouterSettings {
        let entry = VirtualAddress {
            address: address.parse().unwrap(),
            prefix_length: 24,
        };
        RouterSettings::new(name, "eth0", router_id, vec![entry])
    }

    fn shown(routers: &[RouterSettings], cluster: Option<&str>) -> Vec<String> {
        let found = clashes(routers, cluster);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn one_number_on_one_link_clashes() {
        let api = router("api", 51, "192.168.7.100");
        let apps = router("apps", 51, "192.168.7.101");
        assert_eq!(
            shown(&[api.clone(), apps.clone()], None),
            ["api and apps both have router id 51 on eth0"]
        );
        let mut elsewhere = apps.clone();
        elsewhere.interface = "eth1".into();
        assert_eq!(shown(&[api.clone(), elsewhere], None), [""; 0]);
        // Each family has its own routers (RFC 9568 §1).
        assert_eq!(shown(&[api, router("v6", 51, "fd00::1")], None), [""; 0]);
    }

    #[test]
    fn one_address_in_two_routers_clashes() {
        let api = router("api", 51, "192.168.7.100");
        let copy = router("copy", 52, "192.168.7.100");
        assert_eq!(
            shown(&[api, copy], None),
            ["api and copy both have 192.168.7.100"]
        );
    }

    #[test]
    fn the_clusters_numbers_clash() {
        let api = router("api", 1, "192.168.7.100");
        let apps = router("apps", 223, "192.168.7.101");
        let free = router("free", 9, "192.168.7.102");
        assert_eq!(
            shown(&[api, apps, free], Some("oc2-yw674")),
            [
                "api has router id 1, which OpenShift takes for the cluster's api address",
                "apps has router id 223, which OpenShift takes for the cluster's ingress address",
            ]
        );
    }

    #[test]
    fn a_group_of_different_priorities_clashes() {
        let mut four = router("four", 51, "192.168.7.100");
        let mut six = router("six", 51, "fd00::1");
        four.group = Some("both".into());
        six.group = Some("both".into());
        six.priority = 99;
        let routers = [four, six];
        assert_eq!(
            shown(&routers, None),
            ["four and six of group both have different priorities"]
        );
    }
}
