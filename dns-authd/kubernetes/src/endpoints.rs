//! The endpoints of a Service that take traffic, and those of them that are up.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use cluster::{AddressType, EndpointPort, EndpointSlice, Protocol, Service};
use dns_wire::Name;

use crate::options::Options;

/// The places that healthd knows to be down.
pub(crate) type Down = BTreeSet<SocketAddr>;

/// An endpoint that takes traffic, at one address.
pub(crate) struct Place<'a> {
    pub(crate) address: IpAddr,
    pub(crate) name: Name,
    /// May be empty.
    pub(crate) hostname: &'a str,
    pub(crate) ports: &'a [EndpointPort],
    /// The address with the first TCP port, which is what healthd can probe; `None` without one, or if nothing is probed.
    pub(crate) probed: Option<SocketAddr>,
    is_down: bool,
}

impl<'a> Place<'a> {
    /// The same endpoint by another name.
    pub(crate) const fn named(&self, name: Name) -> Self {
        Self { name, ..*self }
    }
}

/// The endpoints that take traffic, in the order of the slices.
pub(crate) fn places<'a>(
    service: &Service,
    slices: &[&'a EndpointSlice],
    owner: &Name,
    (options, down): (&Options, &Down),
) -> Vec<Place<'a>> {
    let mut places = Vec::new();
    let is_probed = options.probes(service);
    let slices = slices
        .iter()
        .filter(|slice| slice.address_type != AddressType::Fqdn);
    for slice in slices {
        let mut ports = slice.ports.iter();
        let port = ports.find(|port| port.protocol == Protocol::Tcp && port.port != 0);
        let port = port.filter(|_| is_probed).map(|port| port.port);
        let endpoints = slice.endpoints.iter();
        for endpoint in endpoints.filter(|one| one.ready || service.publish_not_ready) {
            for address in &endpoint.addresses {
                let hostname = &endpoint.hostname;
                let pod = endpoint.pod.rsplit('/').next().unwrap_or_default();
                let label = match (!hostname.is_empty(), options.endpoint_pod_names) {
                    (true, _) => hostname.clone(),
                    (false, true) if !pod.is_empty() => pod.to_owned(),
                    _ => dashed(*address),
                };
                let probed = port.map(|port| SocketAddr::new(*address, port));
                if let Ok(name) = owner.prepend(label.as_bytes()) {
                    places.push(Place {
                        address: *address,
                        name,
                        hostname,
                        ports: &slice.ports,
                        probed,
                        is_down: probed.is_some_and(|place| down.contains(&place)),
                    });
                }
            }
        }
    }
    places
}

/// Those that healthd does not know to be down; all of them if it knows that of all.
pub(crate) fn living<'p, 'a>(places: Vec<&'p Place<'a>>) -> Vec<&'p Place<'a>> {
    let is_down = |place: &&Place<'_>| place.is_down;
    match places.iter().all(is_down) || !places.iter().any(is_down) {
        true => places,
        false => places.into_iter().filter(|place| !is_down(place)).collect(),
    }
}

/// The addresses of the pods of a Service that lie in its namespace and do not end.
pub(crate) fn pods(service: &Service, slices: &[&EndpointSlice]) -> Vec<IpAddr> {
    let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
    let own = endpoints.filter(|endpoint| {
        let namespace = endpoint.pod.split_once('/').map(|(namespace, _)| namespace);
        namespace == Some(&service.meta.namespace) && !endpoint.terminating
    });
    own.flat_map(|endpoint| endpoint.addresses.iter().copied())
        .collect()
}

/// An address as a label: `10-128-0-7`, `fd02--7`. A label does not end with a dash.
pub(crate) fn dashed(address: IpAddr) -> String {
    let mut label = address.to_string().replace(['.', ':'], "-");
    if label.ends_with('-') {
        label.push('0');
    }
    label
}
