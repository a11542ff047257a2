//! The further names of OpenShift 3, whose nodes answered by `SkyDNS`: every name below a Service leads to it, and `endpoints.DOMAIN`
//! has the endpoints of every Service, also of one with cluster IPs.
//!
//! The names of the specification come first: these are added where they leave a name free. SRV records have the priority and the
//! weights of the specification.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use cluster::{EndpointSlice, Protocol, Service, ServiceType};
use dns_wire::Name;
use dns_zone::Record;

use crate::endpoints::{Down, Place, living, places};
use crate::options::Options;
use crate::render::{Names, Rendered, Writer, named_ports, owner_of, service_name};

/// The offset basis of FNV-1a with 32 bits. `SkyDNS` names an endpoint without a hostname by this hash of its address.
const FNV_BASIS: u32 = 0x811c_9dc5;
/// Its prime.
const FNV_PRIME: u32 = 0x0100_0193;

/// Adds the names to those that a Service has by the specification.
pub(crate) fn add(
    service: &Service,
    slices: &[&EndpointSlice],
    (names, options): (&Names, &Options),
    down: &Down,
    rendered: &mut Rendered,
) {
    let (Some(owner), Some(endpoints)) = (
        owner_of(service, &names.svc),
        owner_of(service, &names.endpoints),
    ) else {
        return;
    };
    if !service.headless && rendered.records.is_empty() {
        return;
    }
    if service.kind == ServiceType::ExternalName {
        let wildcard = owner.prepend(b"*").ok();
        let aliases = wildcard.and_then(|owner| {
            let alias = rendered.records.first()?.clone();
            Some(Record { owner, ..alias })
        });
        rendered.records.extend(aliases);
        return;
    }
    let places = places(service, slices, &owner, (options, down));
    let all = living(places.iter().collect());
    let mut writer = Writer {
        names,
        ttl: options.ttl,
        records: &mut rendered.records,
    };
    match service.headless {
        true => add_to_headless(&owner, &places, &mut writer),
        false => add_to_cluster_ips(&owner, service, &mut writer),
    }
    below_prefix(&owner, &all, &mut writer);
    let mut writer = Writer {
        names,
        ttl: options.ttl,
        records: &mut rendered.endpoints,
    };
    let named = places.iter().filter_map(|place| {
        let name = endpoints.prepend(label(place).as_bytes()).ok()?;
        Some(place.named(name))
    });
    let named: Vec<Place<'_>> = named.collect();
    let all = living(named.iter().collect());
    writer.endpoints(&endpoints, &all);
    for (name, places) in by_label(&endpoints, &named) {
        let places = living(places);
        writer.endpoints(&name, &places);
        wildcard(&name, addresses(&places), &mut writer);
    }
    for (port, protocol) in ports_of(&named) {
        if let Some(name) = service_name(&endpoints, &port, protocol) {
            writer.ports(&name, &all, Some((&port, protocol)));
        }
    }
    below_ports(&endpoints, &all, &mut writer);
    below_prefix(&endpoints, &all, &mut writer);
    if rendered.endpoints.is_empty() {
        rendered.empty_endpoints = Some(endpoints);
    }
}

/// Every name below a Service with cluster IPs leads to these, and `_PROTOCOL` has all its ports.
fn add_to_cluster_ips(owner: &Name, service: &Service, writer: &mut Writer<'_>) {
    let cluster_ips = || service.cluster_ips.iter().copied();
    let mut names = BTreeSet::from([owner.clone()]);
    for record in writer.records.iter() {
        let below = (owner.n_labels() + 1)..=record.owner.n_labels();
        names.extend(below.map(|n_labels| record.owner.suffix(n_labels)));
    }
    let mut of_ports = BTreeSet::new();
    for port in service.ports.iter().filter(|port| !port.name.is_empty()) {
        if let Some(of_port) = service_name(owner, &port.name, port.protocol) {
            let of_protocol = of_port.suffix(owner.n_labels() + 1);
            writer.port(&of_protocol, port.port, owner, service.cluster_ips.len());
            of_ports.extend([of_port, of_protocol]);
        }
    }
    for name in &of_ports {
        writer.addresses(name, cluster_ips());
    }
    names.extend(of_ports);
    for name in &names {
        wildcard(name, cluster_ips(), writer);
    }
}

/// The endpoints of a headless Service have the names of `SkyDNS` too, and every name below one leads to it.
fn add_to_headless(owner: &Name, places: &[Place<'_>], writer: &mut Writer<'_>) {
    for (name, places) in by_label(owner, places) {
        let places = living(places);
        if places.iter().any(|place| place.name != name) {
            writer.addresses(&name, addresses(&places));
        }
        wildcard(&name, addresses(&places), writer);
    }
    let all = living(places.iter().collect());
    below_ports(owner, &all, writer);
}

/// The addresses of the endpoints that have a port, at its name, and all ports of a protocol at `_PROTOCOL`.
fn below_ports(owner: &Name, places: &[&Place<'_>], writer: &mut Writer<'_>) {
    let named = named_ports(places.iter().flat_map(|place| place.ports));
    let mut of_protocols: BTreeMap<Name, BTreeSet<IpAddr>> = BTreeMap::new();
    for (port, protocol) in named {
        let Some(name) = service_name(owner, &port, protocol) else {
            continue;
        };
        let with_port = places.iter().filter(|place| {
            let mut ports = place.ports.iter();
            ports.any(|one| one.protocol == protocol && one.name.eq_ignore_ascii_case(&port))
        });
        let found: BTreeSet<IpAddr> = with_port.map(|place| place.address).collect();
        writer.addresses(&name, found.iter().copied());
        let of_protocol = name.suffix(owner.n_labels() + 1);
        writer.ports(&of_protocol, places, Some((&port, protocol)));
        of_protocols.entry(of_protocol).or_default().extend(found);
    }
    for (name, found) in of_protocols {
        writer.addresses(&name, found.into_iter());
    }
}

/// `_endpoints` below a Service, and every name below that, has its endpoints.
fn below_prefix(owner: &Name, places: &[&Place<'_>], writer: &mut Writer<'_>) {
    if let Ok(name) = owner.prepend(b"_endpoints") {
        writer.addresses(&name, addresses(places));
        wildcard(&name, addresses(places), writer);
    }
}

fn wildcard(above: &Name, addresses: impl Iterator<Item = IpAddr>, writer: &mut Writer<'_>) {
    if let Ok(name) = above.prepend(b"*") {
        writer.addresses(&name, addresses);
    }
}

fn addresses<'p>(places: &'p [&Place<'_>]) -> impl Iterator<Item = IpAddr> + use<'p> {
    let mut seen = BTreeSet::new();
    let addresses: Vec<IpAddr> = places.iter().map(|place| place.address).collect();
    addresses
        .into_iter()
        .filter(move |address| seen.insert(*address))
}

/// The endpoints by their names in `SkyDNS` below a name.
fn by_label<'p, 'a>(above: &Name, places: &'p [Place<'a>]) -> BTreeMap<Name, Vec<&'p Place<'a>>> {
    let mut by_label: BTreeMap<Name, Vec<&Place<'_>>> = BTreeMap::new();
    for place in places {
        if let Ok(name) = above.prepend(label(place).as_bytes()) {
            by_label.entry(name).or_default().push(place);
        }
    }
    by_label
}

fn ports_of(places: &[Place<'_>]) -> Vec<(String, Protocol)> {
    named_ports(places.iter().flat_map(|place| place.ports))
}

/// The hostname of an endpoint, or the hash of its address.
fn label(place: &Place<'_>) -> String {
    if !place.hostname.is_empty() {
        return place.hostname.to_owned();
    }
    let text = place.address.to_string();
    let hash = text.bytes().fold(FNV_BASIS, |hash, octet| {
        (hash ^ u32::from(octet)).wrapping_mul(FNV_PRIME)
    });
    format!("{hash:x}")
}
