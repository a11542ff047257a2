//! Nodes, with their roles and addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cluster_members::{MASTER_LABELS, REMOTE_LABEL};
use serde_json::Value;
use site::Role;

use super::{Learner, is_inside, items, text};
use crate::draft::{DraftNode, MAX_NODES};

/// The group of slices of endpoints.
const DISCOVERY: &str = "discovery.k8s.io";
/// The label by which a slice names its Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// The Service that stands for the API servers.
const API_SERVICE: &str = "kubernetes";
/// The label with the operating system of a node.
const SYSTEM_LABEL: &str = "kubernetes.io/os";

/// The internal addresses of a node, in the order in which it has them.
pub(super) fn internal(node: &Value) -> Vec<IpAddr> {
    let addresses = items(node, "/status/addresses");
    addresses
        .filter(|address| text(address, "/type") == "InternalIP")
        .filter_map(|address| text(address, "/address").parse().ok())
        .collect()
}

/// Whether a node has the label; its value has no meaning.
fn has_label(node: &Value, name: &str) -> bool {
    let labels = node.pointer("/metadata/labels");
    labels.is_some_and(|labels| labels.get(name).is_some())
}

/// Whether a node belongs to the control plane.
pub(super) fn is_master(node: &Value) -> bool {
    MASTER_LABELS.iter().any(|label| has_label(node, label))
}

/// Why a node is none of the site's.
fn stranger(node: &Value) -> Option<String> {
    if has_label(node, REMOTE_LABEL) {
        return Some(format!(
            "it is away from the site, by its label {REMOTE_LABEL}"
        ));
    }
    let labels = node.pointer("/metadata/labels");
    let system = labels.and_then(|labels| labels.get(SYSTEM_LABEL));
    match system.and_then(Value::as_str) {
        None | Some("linux") => {}
        Some(system) => return Some(format!("it runs {system}")),
    }
    let is_going = node.pointer("/metadata/deletionTimestamp");
    is_going
        .is_some_and(|at| !at.is_null())
        .then(|| "its deletion has begun".to_owned())
}

impl Learner<'_> {
    /// The nodes that are no strangers.
    pub(super) fn machines(&self) -> impl Iterator<Item = &Value> {
        let nodes = self.objects.all("", "Node");
        nodes.filter(|node| stranger(node).is_none())
    }

    /// The nodes of the cluster that are machines of the site.
    pub(super) fn nodes(&mut self) {
        let mut nodes: Vec<&Value> = self.objects.all("", "Node").collect();
        nodes.sort_by_key(|node| (!is_master(node), text(node, "/metadata/name")));
        let n_nodes = nodes.len();
        let most = usize::try_from(MAX_NODES).unwrap_or(usize::MAX);
        if n_nodes > most {
            let n_left = n_nodes - most;
            self.draft.note(&format!(
                "not carried: {n_left} nodes beyond {most}; add those that run services of the site"
            ));
        }
        for node in nodes.into_iter().take(most) {
            self.node(node);
        }
        let is_master = |node: &DraftNode| node.role == Some(Role::Master);
        if !self.draft.nodes.iter().any(is_master) {
            self.not_learned(
                "masters",
                "no Node has a label of the control plane, which may run elsewhere; --master gives them",
            );
        }
        self.servers_without_node();
    }

    fn node(&mut self, node: &Value) {
        let name = text(node, "/metadata/name").to_owned();
        if let Some(why) = stranger(node) {
            self.draft
                .note(&format!("not carried: the node {name}: {why}"));
            return;
        }
        let role = match is_master(node) {
            true => Role::Master,
            false => Role::Worker,
        };
        let addresses = self.addresses_of(&name, node);
        let is_known = |known: &DraftNode| {
            let short = name.split('.').next();
            let has_address = known
                .addresses
                .iter()
                .any(|address| addresses.contains(address));
            known.name == name || Some(known.name.as_str()) == short || has_address
        };
        // Flags come first.
        if !self.draft.nodes.iter().any(is_known) {
            self.draft.nodes.push(DraftNode {
                name,
                role: Some(role),
                addresses,
            });
        }
    }

    /// The address of each family by which the others reach a node: in a network of the site, and no virtual IP. A node that holds
    /// a virtual IP may have it among its own.
    fn addresses_of(&mut self, name: &str, node: &Value) -> Vec<IpAddr> {
        let all = internal(node);
        let given = self.draft.api_vips.iter().chain(&self.draft.ingress_vips);
        let vips: Vec<IpAddr> = given.chain(&self.vips).copied().collect();
        let networks = &self.draft.networks;
        let good: Vec<IpAddr> = all
            .iter()
            .copied()
            .filter(|address| !vips.contains(address))
            .filter(|address| networks.is_empty() || is_inside(networks, *address))
            .collect();
        let of_family = |is_v4: bool| good.iter().find(|address| address.is_ipv4() == is_v4);
        let chosen: Vec<IpAddr> = [true, false]
            .into_iter()
            .filter_map(of_family)
            .copied()
            .collect();
        if chosen.is_empty() {
            let why = match all.first() {
                None => "it has no internal address".to_owned(),
                Some(first) => format!("{first} is in no network of the nodes"),
            };
            self.not_learned(&format!("the address of the node {name}"), &why);
        }
        chosen
    }

    /// Names API servers that no Node stands for.
    fn servers_without_node(&mut self) {
        let slices = self
            .objects
            .all(DISCOVERY, "EndpointSlice")
            .filter(|slice| {
                let service = slice.pointer("/metadata/labels");
                let service = service.and_then(|labels| labels.get(SERVICE_LABEL));
                service.and_then(Value::as_str) == Some(API_SERVICE)
                    && text(slice, "/metadata/namespace") == "default"
            });
        let of_slices = slices
            .flat_map(|slice| items(slice, "/endpoints"))
            .flat_map(|endpoint| items(endpoint, "/addresses"));
        let addresses: BTreeSet<IpAddr> = of_slices
            .filter_map(|address| address.as_str()?.parse().ok())
            .collect();
        let known: Vec<IpAddr> = self.objects.all("", "Node").flat_map(internal).collect();
        for address in addresses.into_iter().filter(|one| !known.contains(one)) {
            let why =
                "an API server answers there, and no Node has the address; --master gives a master";
            self.not_learned(&format!("the machine at {address}"), why);
        }
    }
}
