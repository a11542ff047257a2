//! What the nodes are.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use super::Random;
use super::network::{Network, Node};
use crate::checksum::ChecksumForm;
use crate::packet::{Authentication, PRIORITY_OWNER, Version};
use crate::settings::{Peers, Preempt, RouterSettings, VirtualAddress};

/// What all nodes of a site have in common.
#[derive(Clone, Copy, Debug)]
struct Site {
    n_nodes: usize,
    version: Version,
    interval: Duration,
    /// Whether some have half the interval.
    mixed: bool,
    /// Whether each router is of IPv6; more than one make a group.
    families: &'static [bool],
    unicast: bool,
    /// The node that no other has among its peers.
    unregistered: Option<usize>,
    /// The priority of all.
    equal: Option<u8>,
    owner: Option<usize>,
    authentication: Authentication,
    n_addresses: u8,
    preempting: bool,
}

/// Fills the network with nodes; says the longest interval.
pub(super) fn populate(network: &mut Network) -> Duration {
    let site = Site::draw(&mut network.random);
    for index in 0..site.n_nodes {
        let node = site.node(index, &mut network.random);
        network.nodes.push(node);
    }
    site.interval
}

impl Site {
    fn draw(random: &mut Random) -> Self {
        let n_nodes = 2 + random.index(4);
        let version = if random.percent(25) {
            Version::V2
        } else {
            Version::V3
        };
        let v3 = version == Version::V3;
        let milliseconds = if v3 {
            random.pick(&[20, 100, 200, 1000])
        } else {
            random.pick(&[1000, 2000])
        };
        let families: &[&[bool]] = if v3 {
            &[&[false], &[true], &[false, true]]
        } else {
            &[&[false]]
        };
        Self {
            n_nodes,
            version,
            interval: Duration::from_millis(milliseconds),
            mixed: v3 && random.percent(20),
            families: random.pick(families),
            unicast: random.percent(40),
            unregistered: random.percent(30).then(|| random.index(n_nodes)),
            equal: random.percent(20).then_some(100),
            owner: random.percent(8).then(|| random.index(n_nodes)),
            authentication: if !v3 && random.percent(50) {
                Authentication::password("ocp4_api_vip")
            } else {
                Authentication::None
            },
            n_addresses: random.pick(&[1, 2, 3]),
            preempting: random.percent(60),
        }
    }

    fn node(&self, index: usize, random: &mut Random) -> Node {
        let mut settings = RouterSettings::new(format!("{index}"), "eth0", 51, Vec::new());
        settings.version = self.version;
        settings.interval = self.interval;
        if self.mixed && random.percent(50) {
            settings.interval = self.interval / 2;
        }
        let drawn = 2 + u8::try_from(random.below(253)).unwrap();
        settings.priority = if self.owner == Some(index) {
            PRIORITY_OWNER
        } else {
            self.equal.unwrap_or(drawn)
        };
        settings.preempt = if self.preempting {
            Preempt::After(Duration::ZERO)
        } else {
            random.pick(&[
                Preempt::After(Duration::ZERO),
                Preempt::After(3 * self.interval),
                Preempt::Never,
            ])
        };
        settings.checksum = random.pick(&[ChecksumForm::PseudoHeader, ChecksumForm::Rfc]);
        settings.authentication = self.authentication;
        settings.group = (self.families.len() > 1).then(|| "both".into());
        let routers = self.families.iter().map(|ipv6| {
            let mut settings = settings.clone();
            let first = VirtualAddress {
                address: virtual_address(*ipv6),
                prefix_length: 24,
            };
            let addresses = (0..self.n_addresses).map(|by| next_address(first, by));
            settings.addresses = addresses.collect();
            settings.peers = self.peers(index, *ipv6);
            Arc::new(settings)
        });
        let sources = self.families.iter().map(|ipv6| source(index, *ipv6));
        Node::new(sources.collect(), routers.collect())
    }

    fn peers(&self, index: usize, ipv6: bool) -> Peers {
        if !self.unicast {
            return Peers::Multicast;
        }
        let is_known = |other: usize| self.n_nodes == 2 || self.unregistered != Some(other);
        let others = (0..self.n_nodes).filter(|other| *other != index && is_known(*other));
        Peers::Unicast(others.map(|other| source(other, ipv6)).collect())
    }
}

fn source(node: usize, ipv6: bool) -> IpAddr {
    let last = u8::try_from(node + 13).unwrap();
    if ipv6 {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, u16::from(last)).into()
    } else {
        Ipv4Addr::new(192, 168, 7, last).into()
    }
}

fn virtual_address(ipv6: bool) -> IpAddr {
    if ipv6 {
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x100).into()
    } else {
        Ipv4Addr::new(192, 168, 7, 100).into()
    }
}

/// Another address beside it.
pub(super) fn next_address(entry: VirtualAddress, by: u8) -> VirtualAddress {
    let address = match entry.address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() + u32::from(by)).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() + u128::from(by)).into(),
    };
    VirtualAddress { address, ..entry }
}
