//! The scope of rendered units: one node, or all nodes of a role.
//!
//! A `MachineConfig` is for a role, so what it brings has to do on each of its nodes: a unit is there
//! when any of them needs it, and conditions on files decide whether it starts.

use std::net::IpAddr;

use crate::config::lb_proxy::{self, Frontend};
use site::service::Service;
use site::{Node, Role, Site};

/// Some nodes of a site that get the same units.
#[derive(Clone, Debug)]
pub(super) struct Scope<'a> {
    /// The site.
    pub(super) site: &'a Site,
    /// The nodes: at least one.
    pub(super) nodes: Vec<&'a Node>,
    /// Whether each node has to find out itself which of them it is.
    pub(super) is_role: bool,
}

impl<'a> Scope<'a> {
    /// One node.
    pub(super) fn node(site: &'a Site, node: &'a Node) -> Self {
        Self {
            site,
            nodes: vec![node],
            is_role: false,
        }
    }

    /// All nodes of a role; nothing if there is none.
    pub(super) fn role(site: &'a Site, role: Role) -> Option<Self> {
        let nodes: Vec<&Node> = site.nodes.iter().filter(|node| node.role == role).collect();
        (!nodes.is_empty()).then_some(Self {
            site,
            nodes,
            is_role: true,
        })
    }

    /// The services that at least one of the nodes runs, in the order in which they start.
    pub(super) fn services(&self) -> impl Iterator<Item = Service> {
        Service::ALL
            .into_iter()
            .filter(|&service| self.runs(service))
    }

    /// Whether one of the nodes runs a service.
    pub(super) fn runs(&self, service: Service) -> bool {
        self.nodes
            .iter()
            .any(|node| node.services.contains(&service))
    }

    /// Whether OpenShift is on the nodes.
    pub(super) fn is_openshift(&self) -> bool {
        self.site.platform.openshift.is_some()
    }

    /// Whether the site has IPv6 at all. A host may have been told to do without, where sockets of
    /// that family cannot be made.
    pub(super) fn has_ipv6(&self) -> bool {
        let of_nodes = self.site.nodes.iter().flat_map(|node| &node.addresses);
        let of_vips = self.site.vips.iter().flat_map(|vip| &vip.addresses);
        of_nodes
            .copied()
            .chain(of_vips.map(ipnet::IpNet::addr))
            .any(|address| address.is_ipv6())
    }

    /// The offers that lb-proxy balances on at least one of the nodes.
    pub(super) fn frontends(&self) -> Vec<Frontend> {
        let mut all = Vec::new();
        for node in &self.nodes {
            for frontend in lb_proxy::frontends(self.site, node) {
                if !all.contains(&frontend) {
                    all.push(frontend);
                }
            }
        }
        all
    }

    /// Whether the nodes replace the time server that the system came with.
    pub(super) fn keeps_time(&self) -> bool {
        self.runs(Service::TimesyncAgent) && self.site.time.correct_clock
    }
}

/// The nodes of the site that answer DNS, `node` first.
///
/// Always addresses that other machines can use too, never 127.0.0.1: pods copy the node's
/// resolv.conf.
pub(super) fn resolvers(site: &Site, node: Option<&Node>) -> Vec<IpAddr> {
    let runs = |node: &&Node| node.services.contains(&Service::DnsRecursor);
    let own = site
        .nodes
        .iter()
        .filter(|candidate| node.is_some_and(|node| node.name == candidate.name));
    let others = site
        .nodes
        .iter()
        .filter(|candidate| node.is_none_or(|node| node.name != candidate.name));
    own.chain(others)
        .filter(runs)
        .map(Node::address)
        .take(MAX_RESOLVERS)
        .collect()
}

/// More are not read from resolv.conf (`MAXNS` of resolv.h).
const MAX_RESOLVERS: usize = 3;
