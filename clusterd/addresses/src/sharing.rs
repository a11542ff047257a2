//! The Services that may have one address together.

use std::collections::{BTreeMap, BTreeSet};

use cluster::Service;

use crate::ServiceKey;

/// The keys of `MetalLB`: Services with the same one may share.
const METALLB: [&str; 2] = [
    "metallb.io/allow-shared-ip",
    "metallb.universe.tf/allow-shared-ip",
];
/// Cilium's.
const CILIUM: &str = "lbipam.cilium.io/sharing-key";
/// Cilium's, for Services of other namespaces: their names separated by commas, or `*`.
const CILIUM_NAMESPACES: &str = "lbipam.cilium.io/sharing-cross-namespace";

/// A Service that has an address, with everything that decides who else may have it.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) service: ServiceKey,
    key: Option<String>,
    /// The other namespaces that it shares with; none for all.
    namespaces: Option<BTreeSet<String>>,
    ports: BTreeSet<(&'static str, u16)>,
    /// The labels of the pods, if traffic stays on its node: then the Services need the same nodes.
    local: Option<BTreeMap<String, String>>,
}

impl Holder {
    pub(crate) fn of(service: &Service) -> Self {
        let annotation = |key: &str| service.meta.annotations.get(key).cloned();
        let metallb = METALLB.iter().find_map(|key| annotation(key));
        let (key, namespaces) = match metallb {
            Some(key) => (Some(key), None),
            None => {
                let names = annotation(CILIUM_NAMESPACES).unwrap_or_default();
                let names: BTreeSet<String> = names
                    .split(',')
                    .map(|name| name.trim().to_owned())
                    .collect();
                let namespaces = (!names.contains("*")).then_some(names);
                (annotation(CILIUM), namespaces)
            }
        };
        let ports = service.ports.iter();
        Self {
            key: key.filter(|key| !key.is_empty()),
            namespaces,
            ports: ports
                .map(|port| (port.protocol.name(), port.port))
                .collect(),
            local: service.external_local.then(|| service.selector.clone()),
            ..Self::alone(service)
        }
    }

    /// One that does not share.
    pub(crate) fn alone(service: &Service) -> Self {
        Self {
            service: (service.meta.namespace.clone(), service.meta.name.clone()),
            key: None,
            namespaces: None,
            ports: BTreeSet::new(),
            local: None,
        }
    }

    pub(crate) fn is(&self, service: &Service) -> bool {
        self.service.0 == service.meta.namespace && self.service.1 == service.meta.name
    }

    /// Whether both may have one address: the same key, no port in common, and the same nodes.
    pub(crate) fn shares_with(&self, other: &Self) -> bool {
        let is_same_key = self.key.is_some() && self.key == other.key;
        let admits = |one: &Self, namespace: &String| {
            one.service.0 == *namespace
                || one
                    .namespaces
                    .as_ref()
                    .is_none_or(|namespaces| namespaces.contains(namespace))
        };
        is_same_key
            && admits(self, &other.service.0)
            && admits(other, &self.service.0)
            && self.ports.is_disjoint(&other.ports)
            && self.local == other.local
    }
}
