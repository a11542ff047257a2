//! The lists of nodes that nodes of the cluster join: those behind the names of the site's zone.

use ::config::Ip;
use ::config::nodes::{ClusterNodes, ListMember, NodeList};
use site::{Node, Published, Site};

/// The list of the members of etcd.
pub(super) const ETCD: &str = "etcd";

/// The most names `etcd-N`: etcd has seven members at most.
pub(super) const MOST_ETCD: usize = 7;

/// The lists that the site's zone names.
pub(super) fn lists(site: &Site) -> Vec<NodeList> {
    let published = site.published.iter().filter_map(|published| {
        let nodes = followed(site, published)?;
        let members = members(site.offering(published));
        Some(list(published.frontend(), nodes, members))
    });
    let etcd = follows_etcd(site).then(|| {
        list(
            ETCD.to_owned(),
            vec![ClusterNodes::Masters],
            members(site.masters()),
        )
    });
    published.chain(etcd).collect()
}

/// The nodes of the cluster that join those behind the names of what is published; none for names of a virtual IP.
pub(super) fn followed(site: &Site, published: &Published) -> Option<Vec<ClusterNodes>> {
    let nodes = site.cluster.as_ref()?.followed(published);
    let mut vips = site.vips.iter();
    let is_held = vips.any(|vip| published.vip.as_ref() == Some(&vip.name));
    let has_names = !published.names.is_empty();
    (has_names && !is_held && !nodes.is_empty()).then_some(nodes)
}

/// Whether masters of the cluster get a name `etcd-N`.
pub(super) fn follows_etcd(site: &Site) -> bool {
    let cluster = site.cluster.as_ref();
    let follows = cluster.is_some_and(|it| it.follow.contains(&ClusterNodes::Masters));
    follows && site.platform.openshift.is_some()
}

/// The virtual IPs of the site, with which no node joins.
pub(super) fn virtual_ips(site: &Site) -> Vec<Ip> {
    let addresses = site.vips.iter().flat_map(|vip| &vip.addresses);
    addresses.map(|address| Ip(address.addr())).collect()
}

fn list(name: String, nodes: Vec<ClusterNodes>, members: Vec<ListMember>) -> NodeList {
    NodeList {
        name,
        nodes,
        members,
    }
}

fn members<'a>(nodes: impl Iterator<Item = &'a Node>) -> Vec<ListMember> {
    let member = |node: &Node| {
        let name = node.name.clone();
        let addresses = node.addresses.clone().into_iter();
        addresses.map(move |address| ListMember {
            name: name.clone(),
            address: Ip(address),
        })
    };
    nodes.flat_map(member).collect()
}
