//! From a site to what its nodes start services with: units, quadlets, Ignition, manifests.

use crate::render::{NodeFile, Output};
use crate::secrets::Secrets;
use crate::site::{Node, Site};

/// Quadlets of a node.
pub(crate) fn quadlet(_site: &Site, _node: &Node) -> Vec<NodeFile> {
    Vec::new()
}

/// Plain units of a node.
pub(crate) fn units(_site: &Site, _node: &Node) -> Vec<NodeFile> {
    Vec::new()
}

/// Ignition for each node.
pub(crate) fn ignition(_site: &Site, _secrets: &Secrets) -> Vec<Output> {
    Vec::new()
}

/// `MachineConfigs`, one for each role.
pub(crate) fn machineconfig(_site: &Site, _secrets: &Secrets) -> Vec<Output> {
    Vec::new()
}

/// Butane for each node.
pub(crate) fn butane(_site: &Site, _secrets: &Secrets) -> Vec<Output> {
    Vec::new()
}
