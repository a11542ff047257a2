//! The records of one Service, and those of the whole domain.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use cluster::{EndpointPort, EndpointSlice, Protocol, Service, ServiceType};
use config::dns_authd::PodNames;
use config_text::Position;
use dns_wire::{Class, Name, Type};
use dns_zone::{Record, RecordData};

use crate::endpoints::{Down, Place, living, places, pods};
use crate::options::Options;

/// The version of the specification, and the TTL that its example has.
const SCHEMA: &[u8] = b"\x051.1.0";
const SCHEMA_TTL: u32 = 28_800;

/// The timers of the SOA record, as CoreDNS has them: refresh, retry, expire.
const TIMERS: [u32; 3] = [7200, 1800, 86_400];

/// The sum of the weights of a name's SRV records, as CoreDNS has it.
const WEIGHTS: usize = 100;

/// The names of the domain that records are made of.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// `svc.DOMAIN`.
    pub(crate) svc: Name,
    /// `pod.DOMAIN`.
    pub(crate) pod: Name,
    /// `endpoints.DOMAIN`.
    pub(crate) endpoints: Name,
    /// `ns.dns.DOMAIN`.
    pub(crate) server: Name,
    /// `hostmaster.DOMAIN`.
    host_master: Name,
    /// The place in a file that records of a cluster do not have.
    position: Position,
}

impl Names {
    /// The names of a domain; a domain that is too long for them has its own name everywhere.
    pub(crate) fn of(domain: &Name) -> Self {
        let below = |labels: &[&str]| {
            let name = labels
                .iter()
                .rev()
                .try_fold(domain.clone(), |name, label| name.prepend(label.as_bytes()));
            name.unwrap_or_else(|_| domain.clone())
        };
        Self {
            svc: below(&["svc"]),
            pod: below(&["pod"]),
            endpoints: below(&["endpoints"]),
            server: below(&["ns", "dns"]),
            host_master: below(&["hostmaster"]),
            position: Position {
                file: Path::new("clusterd").into(),
                line: 0,
                column: 0,
            },
        }
    }

    pub(crate) fn record(&self, owner: &Name, ttl: u32, rtype: Type, rdata: Vec<u8>) -> Record {
        Record {
            owner: owner.clone(),
            ttl,
            class: Class::IN,
            data: RecordData::Wire {
                rtype,
                rdata: rdata.into(),
            },
            position: self.position.clone(),
        }
    }

    /// The SOA record of a zone.
    pub(crate) fn soa(&self, apex: &Name, serial: u32, ttl: u32) -> Record {
        let mut rdata = [self.server.as_wire(), self.host_master.as_wire()].concat();
        let [refresh, retry, expire] = TIMERS;
        for number in [serial, refresh, retry, expire, ttl] {
            rdata.extend_from_slice(&number.to_be_bytes());
        }
        self.record(apex, ttl, Type::SOA, rdata)
    }

    /// The records of the apex of a zone.
    pub(crate) fn apex(&self, apex: &Name, serial: u32, options: &Options) -> Vec<Record> {
        let server = self.server.as_wire().to_vec();
        vec![
            self.soa(apex, serial, options.ttl),
            self.record(apex, options.ttl, Type::NS, server),
        ]
    }

    /// The records of the domain that come from no object.
    pub(crate) fn fixed(&self, options: &Options) -> Vec<Record> {
        let servers = options.name_servers.iter();
        let mut records: Vec<Record> = servers
            .map(|address| self.address(&self.server, options.ttl, *address))
            .collect();
        if let Ok(version) = options.domain.prepend(b"dns-version") {
            records.push(self.record(&version, SCHEMA_TTL, Type::TXT, SCHEMA.to_vec()));
        }
        records
    }

    pub(crate) fn address(&self, owner: &Name, ttl: u32, address: IpAddr) -> Record {
        match address {
            IpAddr::V4(address) => self.record(owner, ttl, Type::A, address.octets().to_vec()),
            IpAddr::V6(address) => self.record(owner, ttl, Type::AAAA, address.octets().to_vec()),
        }
    }

    pub(crate) fn alias(&self, owner: &Name, ttl: u32, target: &Name) -> Record {
        self.record(owner, ttl, Type::CNAME, target.as_wire().to_vec())
    }

    fn service(&self, owner: &Name, ttl: u32, weight: u16, (port, target): (u16, &Name)) -> Record {
        let numbers = [0, weight, port];
        let mut rdata: Vec<u8> = numbers.into_iter().flat_map(u16::to_be_bytes).collect();
        rdata.extend_from_slice(target.as_wire());
        self.record(owner, ttl, Type::SRV, rdata)
    }
}

/// The names that one Service has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rendered {
    /// The records below `svc`.
    pub(crate) records: Vec<Record>,
    /// Names that exist without a record.
    pub(crate) empty: Vec<Name>,
    /// The names of addresses, in reverse zones.
    pub(crate) reverse: Vec<Pointer>,
    /// The addresses of its pods that have a name below `pod`.
    pub(crate) pods: Vec<IpAddr>,
    /// The records below `endpoints`, and a name there without one.
    pub(crate) endpoints: Vec<Record>,
    pub(crate) empty_endpoints: Option<Name>,
    /// The places that healthd is to probe.
    pub(crate) probed: BTreeSet<SocketAddr>,
}

/// The name of an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pointer {
    pub(crate) address: IpAddr,
    /// Whether the address is that of a Service. Its name excludes those of endpoints, as in CoreDNS.
    pub(crate) is_service: bool,
    pub(crate) target: Name,
}

/// Renders a Service with its slices.
pub(crate) fn render(
    service: &Service,
    slices: &[&EndpointSlice],
    (names, options): (&Names, &Options),
    down: &Down,
) -> Rendered {
    let mut rendered = Rendered::default();
    let Some(owner) = owner_of(service, &names.svc) else {
        // The API takes no such name; a manifest may have it.
        return rendered;
    };
    if options.pods == PodNames::Verified {
        rendered.pods = pods(service, slices);
    }
    if service.kind == ServiceType::ExternalName {
        // An address is no name: such a Service has none, as in CoreDNS.
        if service.external_name.parse::<IpAddr>().is_err()
            && let Ok(target) = Name::parse(&service.external_name)
            && !target.is_root()
        {
            rendered
                .records
                .push(names.alias(&owner, options.ttl, &target));
        }
        return rendered;
    }
    let places = places(service, slices, &owner, (options, down));
    if options.ignore_empty_service && !service.headless && places.is_empty() {
        return rendered;
    }
    let mut writer = Writer {
        names,
        ttl: options.ttl,
        records: &mut rendered.records,
    };
    if service.headless {
        let all = living(places.iter().collect());
        writer.endpoints(&owner, &all);
        for (label, protocol) in named_ports(places.iter().flat_map(|place| place.ports)) {
            if let Some(name) = service_name(&owner, &label, protocol) {
                writer.ports(&name, &all, Some((&label, protocol)));
            }
        }
    } else {
        writer.service_at(&owner, service, &service.cluster_ips);
        if rendered.records.is_empty() {
            rendered.empty.push(owner.clone());
        }
        let addresses = service.cluster_ips.iter();
        rendered.reverse.extend(addresses.map(|address| Pointer {
            address: *address,
            is_service: true,
            target: owner.clone(),
        }));
    }
    let mut by_name: BTreeMap<&Name, Vec<&Place<'_>>> = BTreeMap::new();
    for place in &places {
        by_name.entry(&place.name).or_default().push(place);
    }
    let mut writer = Writer {
        names,
        ttl: options.ttl,
        records: &mut rendered.records,
    };
    for (name, places) in by_name {
        writer.endpoints(name, &living(places));
    }
    rendered.reverse.extend(pointers(service, &places));
    if options.probes(service) {
        let probed = places.iter().filter_map(|place| place.probed);
        rendered.probed = probed.collect();
    }
    rendered
}

/// The names of endpoints' addresses.
fn pointers(service: &Service, places: &[Place<'_>]) -> impl Iterator<Item = Pointer> {
    let with_pointer = places
        .iter()
        .filter(|place| service.headless || !place.hostname.is_empty());
    with_pointer.map(|place| Pointer {
        address: place.address,
        is_service: false,
        target: place.name.clone(),
    })
}

/// The name of a Service below another one; `None` if it would be too long.
pub(crate) fn owner_of(service: &Service, above: &Name) -> Option<Name> {
    let namespace = above.prepend(service.meta.namespace.as_bytes()).ok()?;
    namespace.prepend(service.meta.name.as_bytes()).ok()
}

/// The records of a Service in the zone of external names.
pub(crate) fn render_external(
    service: &Service,
    apex: &Name,
    names: &Names,
    options: &Options,
) -> Vec<Record> {
    let Some(owner) = owner_of(service, apex) else {
        return Vec::new();
    };
    let given = service.ingress.iter().filter_map(|ingress| ingress.ip);
    let addresses: Vec<IpAddr> = service.external_ips.iter().copied().chain(given).collect();
    let mut records = Vec::new();
    if addresses.is_empty() {
        let mut hosts = service
            .ingress
            .iter()
            .filter(|ingress| !ingress.hostname.is_empty());
        // A name has one alias at most.
        let target = hosts
            .next()
            .and_then(|ingress| Name::parse(&ingress.hostname).ok());
        let target = target.filter(|target| !target.is_root());
        records.extend(target.map(|target| names.alias(&owner, options.ttl, &target)));
        return records;
    }
    let mut writer = Writer {
        names,
        ttl: options.ttl,
        records: &mut records,
    };
    writer.service_at(&owner, service, &addresses);
    records
}

/// The names of the ports, each with its protocol, once.
pub(crate) fn named_ports<'p>(
    ports: impl Iterator<Item = &'p EndpointPort>,
) -> Vec<(String, Protocol)> {
    let mut named: Vec<(String, Protocol)> = Vec::new();
    for port in ports.filter(|port| !port.name.is_empty()) {
        let name = port.name.to_ascii_lowercase();
        let mut known = named.iter();
        if !known.any(|(other, protocol)| *other == name && *protocol == port.protocol) {
            named.push((name, port.protocol));
        }
    }
    named
}

/// `_PORT._PROTOCOL.OWNER`.
pub(crate) fn service_name(owner: &Name, port: &str, protocol: Protocol) -> Option<Name> {
    let protocol = format!("_{}", protocol.name().to_ascii_lowercase());
    let name = owner.prepend(protocol.as_bytes()).ok()?;
    name.prepend(format!("_{port}").as_bytes()).ok()
}

/// The weight of each of `n` records; CoreDNS counts every address and port, also those that share a record.
fn weight(n: usize) -> u16 {
    let share = WEIGHTS / n.max(1);
    u16::try_from(share.max(1)).unwrap_or(1)
}

/// Writes the records of addresses and ports.
pub(crate) struct Writer<'w> {
    pub(crate) names: &'w Names,
    pub(crate) ttl: u32,
    pub(crate) records: &'w mut Vec<Record>,
}

impl Writer<'_> {
    /// The addresses of endpoints at a name, and all their ports.
    pub(crate) fn endpoints(&mut self, owner: &Name, places: &[&Place<'_>]) {
        self.addresses(owner, places.iter().map(|place| place.address));
        self.ports(owner, places, None);
    }

    /// Addresses at a name.
    pub(crate) fn addresses(&mut self, owner: &Name, addresses: impl Iterator<Item = IpAddr>) {
        let records = addresses.map(|address| self.names.address(owner, self.ttl, address));
        self.records.extend(records);
    }

    /// The ports of endpoints at a name: those of one name and protocol, or all. With all, an endpoint without a port
    /// counts for the weights.
    pub(crate) fn ports(
        &mut self,
        owner: &Name,
        places: &[&Place<'_>],
        only: Option<(&str, Protocol)>,
    ) {
        let is_asked = |port: &&EndpointPort| {
            only.is_none_or(|(name, protocol)| {
                port.protocol == protocol && port.name.eq_ignore_ascii_case(name)
            })
        };
        let count = |place: &&Place<'_>| match place.ports.is_empty() {
            true => usize::from(only.is_none()),
            false => place.ports.iter().filter(is_asked).count(),
        };
        let weight = weight(places.iter().map(count).sum());
        for place in places {
            // Port 0 stands for all of them, which no SRV record can say.
            let ports = place.ports.iter().filter(is_asked);
            for port in ports.filter(|port| port.port != 0) {
                let at = (port.port, &place.name);
                let record = self.names.service(owner, self.ttl, weight, at);
                self.records.push(record);
            }
        }
    }

    /// One port of a target with this number of addresses.
    pub(crate) fn port(&mut self, owner: &Name, port: u16, target: &Name, n_addresses: usize) {
        let weight = weight(n_addresses);
        let record = self.names.service(owner, self.ttl, weight, (port, target));
        self.records.push(record);
    }

    /// Addresses of a Service at a name, and its ports.
    pub(crate) fn service_at(&mut self, owner: &Name, service: &Service, addresses: &[IpAddr]) {
        self.addresses(owner, addresses.iter().copied());
        let n_addresses = addresses.len();
        if n_addresses == 0 {
            return;
        }
        let all = weight(service.ports.len() * n_addresses);
        for port in &service.ports {
            let at = (port.port, owner);
            let record = self.names.service(owner, self.ttl, all, at);
            self.records.push(record);
            if port.name.is_empty() {
                continue;
            }
            if let Some(name) = service_name(owner, &port.name, port.protocol) {
                self.port(&name, port.port, owner, n_addresses);
            }
        }
    }
}
