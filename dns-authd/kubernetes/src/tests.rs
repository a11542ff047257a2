//! The names of a cluster, asked for as clients do.

mod changes;
mod health;
mod hostnames;
mod names;
mod skydns;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use cluster::{
    AddressType, Endpoint, EndpointPort, EndpointSlice, Freshness, Ingress, Kind, Meta, Namespace,
    Object, Protocol, Service, ServicePort, ServiceType, Snapshot, TargetPort,
};
use config::dns_authd::Kubernetes;
use dns_answer::shared_list::SharedList;
use dns_answer::table::{Origin, Parts, Served, Table};
use dns_answer::testing::{Expected, Line, ask, canonical, decode, query, records};
use dns_answer::{Settings, Transport};
use dns_wire::hash::Seed;
use dns_wire::{Name, Type};
use dns_zone::{RecordData, Zone};

use crate::{Change, Cluster, Options, PARTS};
use config::dns_authd::PodNames;

const SEED: Seed = Seed(0x5eed);

/// The serial of the first snapshot.
const NOW: u32 = 1_700_000_000;

/// A server of the zones of one cluster.
struct Server {
    cluster: Cluster,
    options: Arc<Options>,
    snapshot: Snapshot,
    served: Vec<Served>,
    /// A zone above the domain and the reverse zones.
    above: Option<Arc<Served>>,
}

impl Server {
    fn new(snapshot: &Snapshot, file: &Kubernetes) -> Self {
        let options = Arc::new(Options::of(file).unwrap());
        let served = options.apexes().zip(Cluster::splits(&options));
        let nothing: Vec<Arc<Zone>> = Vec::new();
        let served = served.map(|(apex, split)| Served {
            apex: apex.clone(),
            zone: None,
            parts: Some(Parts {
                split,
                zones: SharedList::new(&nothing),
                falls_through: options.fallthrough && options.reverse.contains(apex),
                computed_pods: (options.pods == PodNames::Insecure && *apex == options.domain)
                    .then_some(options.ttl),
            }),
            live: Arc::default(),
            origin: Origin::Configured,
            view: None,
            access: None,
        });
        let mut server = Self {
            cluster: Cluster::new(Arc::clone(&options), SEED),
            served: served.collect(),
            options,
            snapshot: snapshot.clone(),
            above: None,
        };
        server.take(NOW);
        server
    }

    /// Takes the snapshot as it is; returns the number of parts of each changed zone.
    fn take(&mut self, now: u32) -> Vec<(usize, usize)> {
        let changes = self.cluster.take(&Arc::new(self.snapshot.clone()), now);
        let changes = changes.unwrap();
        let counts = changes
            .iter()
            .map(|change| (change.zone, change.parts.len()));
        let counts = counts.collect();
        for change in changes {
            self.apply(change);
        }
        counts
    }

    fn apply(&mut self, change: Change) {
        let served = self.served.get_mut(change.zone).unwrap();
        let parts = served.parts.as_mut().unwrap();
        if let Some(empty) = change.empty {
            parts.zones = SharedList::new(&vec![empty; PARTS]);
        }
        parts.zones = parts.zones.replace(change.parts);
        served.zone = Some(change.root);
    }

    fn ask(&self, name: &str, rtype: &str) -> Expected {
        let served = self.served.iter().map(|served| {
            Arc::new(Served {
                apex: served.apex.clone(),
                zone: served.zone.clone(),
                parts: served.parts.clone(),
                live: Arc::default(),
                origin: Origin::Configured,
                view: None,
                access: None,
            })
        });
        let served: Vec<Arc<Served>> = served.chain(self.above.clone()).collect();
        let snapshot = dns_answer::Snapshot {
            table: Table::new(SEED, &served),
            views: dns_answer::ViewTables::default(),
            settings: Settings::default(),
        };
        let name: Name = name.parse().unwrap();
        let query = query(&name, rtype.parse().unwrap());
        decode(&ask(&snapshot, &query, Transport::Tcp))
    }

    /// Asks, and compares the code and the answer section.
    fn answers(&self, name: &str, rtype: &str, rcode: u16, wanted: &str) {
        let response = self.ask(name, rtype);
        assert_eq!(response.rcode, rcode, "{name} {rtype}: {response:?}");
        assert_eq!(response.answer, lines(wanted), "{name} {rtype}");
        if rcode == 3 || (rcode == 0 && wanted.is_empty()) {
            let serial = self.cluster.serial();
            let zone = self.zone_of(name);
            let soa = format!(
                "{zone} 5 SOA ns.dns.cluster.local. hostmaster.cluster.local. {serial} 7200 1800 86400 5"
            );
            assert_eq!(response.authority, lines(&soa), "{name} {rtype}");
        }
    }

    fn zone_of(&self, name: &str) -> String {
        let name: Name = name.parse().unwrap();
        let within = self.options.apexes().filter(|apex| name.is_within(apex));
        let closest = within.max_by_key(|apex| apex.n_labels());
        closest.map(ToString::to_string).unwrap()
    }

    fn put(&mut self, object: Object) {
        self.snapshot.put(object);
    }
}

/// Lines as `OWNER TTL TYPE DATA`.
fn lines(text: &str) -> BTreeSet<Line> {
    let all = records(text).into_iter().map(|record| {
        let RecordData::Wire { rtype, rdata } = record.data else {
            panic!("tests have no programs");
        };
        let owner = record.owner.to_lowercase();
        (owner, rtype, record.ttl, canonical(rtype, &rdata))
    });
    all.collect()
}

//--- Objects

fn meta(name: &str) -> Meta {
    Meta {
        namespace: "testns".to_owned(),
        name: name.to_owned(),
        ..Meta::default()
    }
}

fn namespace(name: &str) -> Object {
    let mut meta = meta(name);
    meta.namespace = String::new();
    Object::Namespace(Namespace { meta })
}

/// A Service with cluster IPs, or a headless one without; a port is `NAME/PROTOCOL/NUMBER`.
fn service(name: &str, addresses: &[&str], ports: &[&str]) -> Service {
    Service {
        meta: meta(name),
        headless: addresses.is_empty(),
        cluster_ips: addresses.iter().map(|address| ip(address)).collect(),
        ports: ports
            .iter()
            .map(|port| {
                let (name, protocol, port) = port_of(port);
                ServicePort {
                    name,
                    protocol,
                    port,
                    target: TargetPort::Number(port),
                    node_port: 0,
                    app_protocol: String::new(),
                }
            })
            .collect(),
        ..Service::default()
    }
}

fn external(name: &str, target: &str) -> Object {
    let mut service = service(name, &[], &[]);
    service.kind = ServiceType::ExternalName;
    service.external_name = target.to_owned();
    Object::Service(Box::new(service))
}

/// A slice of a Service; an endpoint is `ADDRESS`, `HOSTNAME=ADDRESS` or `!ADDRESS` for one that is not ready.
fn slice(service: &str, number: u32, endpoints: &[&str], ports: &[&str]) -> Object {
    let endpoints: Vec<Endpoint> = endpoints.iter().map(|text| endpoint(text)).collect();
    let is_six = endpoints
        .first()
        .is_some_and(|endpoint| endpoint.addresses.iter().any(IpAddr::is_ipv6));
    Object::EndpointSlice(EndpointSlice {
        meta: meta(&format!("{service}-{number}")),
        service: service.to_owned(),
        address_type: match is_six {
            true => AddressType::IPv6,
            false => AddressType::IPv4,
        },
        endpoints,
        ports: ports
            .iter()
            .map(|port| {
                let (name, protocol, port) = port_of(port);
                EndpointPort {
                    name,
                    protocol,
                    port,
                    app_protocol: String::new(),
                }
            })
            .collect(),
    })
}

fn endpoint(text: &str) -> Endpoint {
    let (ready, text) = match text.strip_prefix('!') {
        Some(rest) => (false, rest),
        None => (true, text),
    };
    let (hostname, address) = text.split_once('=').unwrap_or(("", text));
    Endpoint {
        addresses: vec![ip(address)],
        ready,
        serving: ready,
        hostname: hostname.to_owned(),
        pod: format!("testns/pod-{}", crate::endpoints::dashed(ip(address))),
        ..Endpoint::default()
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn port_of(text: &str) -> (String, Protocol, u16) {
    let mut words = text.split('/');
    let mut word = || words.next().unwrap();
    let (name, protocol, port) = (word(), word(), word());
    let protocol = match protocol {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => Protocol::Sctp,
    };
    (name.to_owned(), protocol, port.parse().unwrap())
}

/// The objects of the tests of CoreDNS's kubernetes plugin.
fn objects() -> Snapshot {
    let http = &["http/tcp/80"];
    let mut snapshot = Snapshot::default();
    for kind in Kind::ALL {
        snapshot.set_freshness(kind, Freshness::Current);
    }
    let services = [
        service("svc1", &["10.0.0.1"], http),
        service("svcempty", &["10.0.0.1"], http),
        service("svc6", &["1234:abcd::1"], http),
        service("svc-dual-stack", &["10.0.0.3", "10::3"], http),
        service("hdls1", &[], http),
        service("hdlsprtls", &[], &[]),
        service("none-ready", &[], http),
    ];
    for service in services {
        snapshot.put(Object::Service(Box::new(service)));
    }
    for object in [
        namespace("testns"),
        external("external", "ext.interwebs.test"),
        external("external-to-service", "svc1.testns.svc.cluster.local."),
        external("external-address", "192.0.2.1"),
        slice("svc1", 1, &["ep1a=172.0.0.1"], http),
        slice(
            "hdls1",
            1,
            &[
                "172.0.0.2",
                "172.0.0.3",
                "dup-name=172.0.0.4",
                "dup-name=172.0.0.5",
                "!172.0.0.6",
            ],
            http,
        ),
        slice("hdls1", 2, &["5678:abcd::1", "5678:abcd::2"], http),
        slice("hdlsprtls", 1, &["172.0.0.20"], &[]),
        slice("none-ready", 1, &["!172.0.0.30"], http),
    ] {
        snapshot.put(object);
    }
    snapshot
}
