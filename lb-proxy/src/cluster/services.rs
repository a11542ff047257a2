//! The Services of the cluster that have an address of a pool: the frontends that listen for them, where their traffic goes, and which node
//! may hold the address.
//!
//! clusterd gives the addresses, and every node reads the same ones from its snapshot. Each address is a virtual router of its own,
//! so that a node can hold it that can serve it: with `externalTrafficPolicy: Local` one that has an endpoint.
//!
//! Never decides which address a Service has.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ::config::lb_proxy::{self as file, AddressRange, Forward, Server as ServerSpec};
use balance::pool::{Algorithm, MAX_SERVERS};
use balance::table::{OnDown, Policy, Sources};
use cluster_addresses::KEEPALIVED_GROUP;
use daemon::acl::Cidrs;
use ipnet::IpNet;
use l4_core::flow;
use proto::cluster::{
    EndpointSlice, Freshness, Kind, Node, Object, Protocol as KubernetesProtocol, Service,
    ServicePort, ServiceType, Snapshot,
};
use proto::health::{Deviation, HttpProbe, TargetKind};
use tls_routes::RouteRules;
use vrrp::priority::{
    DEFAULT_FALL, DEFAULT_HOLD_DOWN, Effect, PrioritySettings, Tracked, WhenUnable,
};
use vrrp_net::notify::{DEFAULT_LIMIT, Notify};

use crate::config::{
    Backend, Check, Config, Frontend, KernelRules, Path, Protocol, Server, Service as Served, Vip,
    lease_name, router, server,
};
use api::lb_proxy::Origin;

/// The annotation for the networks of clients that Kubernetes had before the field.
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
/// The taint of a node that is about to be removed.
const REMOVED: &str = "ToBeDeletedByClusterAutoscaler";
/// The change of the priority when one of several Services at an address has no endpoint.
const WEIGHT: i16 = -20;
/// How long a backend has to be good before it counts: an endpoint that is ready has passed the probes of its pod.
const RISE: Duration = Duration::ZERO;
/// The most Services that are refused and named.
const MOST_REFUSED: usize = 1000;

/// The additions of the Services of the cluster to a configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct Learned {
    pub(super) frontends: Vec<Frontend>,
    pub(super) backends: Vec<Backend>,
    pub(super) vips: Vec<Vip>,
    pub(super) services: Vec<Served>,
    /// Services, or ports of them, that are not served, and why.
    pub(super) refused: Vec<(String, String)>,
}

impl Learned {
    /// Adds all to a configuration but the frontends that are not bound.
    pub(super) fn add_to(self, config: &mut Config, unbound: &BTreeSet<Arc<str>>) {
        let frontends = self.frontends.into_iter();
        let bound = frontends.filter(|frontend| !unbound.contains(&frontend.name));
        config.frontends.extend(bound);
        config.backends.extend(self.backends);
        config.vips.extend(self.vips);
        config.services.extend(self.services);
    }

    /// Whether both come to the same.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let frontends = |learned: &Self| -> Vec<_> {
            let each = learned.frontends.iter().map(|frontend| {
                let allow = frontend.sources.allow.as_ref();
                let allow = allow.map(|allow| allow.entries().collect::<Vec<_>>());
                (Arc::clone(&frontend.name), frontend.listen.clone(), allow)
            });
            each.collect()
        };
        let backends = |learned: &Self| -> Vec<_> {
            let each = learned.backends.iter().map(|backend| {
                let servers = backend.servers.iter().map(|server| {
                    let target = server.target.clone();
                    (
                        Arc::clone(&server.name),
                        server.address,
                        server.is_cordoned,
                        target,
                    )
                });
                let servers: Vec<_> = servers.collect();
                (Arc::clone(&backend.name), backend.algorithm, servers)
            });
            each.collect()
        };
        self.services == other.services
            && self.refused == other.refused
            && self.vips == other.vips
            && frontends(self) == frontends(other)
            && backends(self) == backends(other)
    }
}

/// Makes what serves the Services; `node` is the name of this node in the cluster.
pub(super) fn learn(written: &Config, snapshot: &Snapshot, node: &str) -> Learned {
    let pools = written.file.pool.iter();
    let pools: Vec<(&file::Pool, Forward)> = pools
        .filter_map(|pool| Some((pool, pool.cluster?)))
        .collect();
    if pools.is_empty() || snapshot.freshness(Kind::Service) == Freshness::Unread {
        return Learned::default();
    }
    let mut services: Vec<&Service> = snapshot
        .of_kind(Kind::Service)
        .filter_map(|object| match &**object {
            Object::Service(service) => Some(&**service),
            _ => None,
        })
        .filter(|service| !addresses(service).is_empty())
        .collect();
    services.sort_by_key(|service| {
        let meta = &service.meta;
        (&meta.created, &meta.namespace, &meta.name)
    });
    let picture = Picture::new(written, snapshot, &services, node);
    let mut making = Making {
        written,
        pools,
        picture,
        learned: Learned::default(),
        places: BTreeSet::new(),
        holds: BTreeMap::new(),
    };
    for service in services {
        making.add(service);
    }
    making.hold_addresses();
    making.learned
}

/// The addresses that a Service is reached at: those of its status and, as the keepalived operator has it, the external ones
/// of a Service with a group.
fn addresses(service: &Service) -> Vec<IpAddr> {
    let has_group = service.meta.annotations.contains_key(KEEPALIVED_GROUP);
    let given = service.ingress.iter().filter_map(|point| point.ip);
    let given = given.filter(|_| service.kind == ServiceType::LoadBalancer);
    let external = service.external_ips.iter().copied();
    let mut all: Vec<IpAddr> = Vec::new();
    for address in given.chain(external.filter(|_| has_group)) {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    all
}

/// The parts of a snapshot that Services need.
struct Picture<'a> {
    slices: BTreeMap<(&'a str, &'a str), Vec<&'a EndpointSlice>>,
    nodes: Vec<&'a Node>,
    networks: Vec<IpNet>,
    /// This node's name in the cluster.
    node: &'a str,
}

impl<'a> Picture<'a> {
    fn new(
        written: &Config,
        snapshot: &'a Snapshot,
        services: &[&'a Service],
        node: &'a str,
    ) -> Self {
        let wanted: BTreeSet<(&str, &str)> = services
            .iter()
            .map(|service| (service.meta.namespace.as_str(), service.meta.name.as_str()))
            .collect();
        let mut slices: BTreeMap<_, Vec<&EndpointSlice>> = BTreeMap::new();
        for object in snapshot.of_kind(Kind::EndpointSlice) {
            if let Object::EndpointSlice(slice) = &**object {
                let key = (slice.meta.namespace.as_str(), slice.service.as_str());
                if wanted.contains(&key) {
                    slices.entry(key).or_default().push(slice);
                }
            }
        }
        let nodes = snapshot.of_kind(Kind::Node);
        let nodes = nodes.filter_map(|object| match &**object {
            Object::Node(node) => Some(node),
            _ => None,
        });
        let nodes: Vec<&Node> = nodes.collect();
        let node = own_name(&nodes, node);
        let cluster = written.file.cluster.as_ref();
        let networks = cluster.map_or(&[][..], |cluster| &cluster.networks);
        Self {
            slices,
            nodes,
            networks: networks.iter().copied().map(IpNet::from).collect(),
            node,
        }
    }

    /// The endpoints of a port: those that are ready, else those that end and still serve, as kube-proxy does.
    fn endpoints(&self, service: &Service, port: &ServicePort, is_v6: bool) -> Vec<SocketAddr> {
        let mut ready = BTreeMap::new();
        let mut ending = BTreeMap::new();
        let key = (service.meta.namespace.as_str(), service.meta.name.as_str());
        for slice in self.slices.get(&key).into_iter().flatten() {
            let mut ports = slice.ports.iter();
            let found = ports.find(|one| one.name == port.name && one.protocol == port.protocol);
            let Some(number) = found.map(|one| one.port).filter(|number| *number > 0) else {
                continue;
            };
            for endpoint in &slice.endpoints {
                // Several addresses are one endpoint; kube-proxy takes the first.
                let first = endpoint.addresses.first();
                let Some(address) = first.filter(|address| address.is_ipv6() == is_v6) else {
                    continue;
                };
                if service.external_local && endpoint.node != self.node {
                    continue;
                }
                let place = SocketAddr::new(*address, number);
                if endpoint.ready {
                    ready.insert(place, ());
                } else if endpoint.serving && endpoint.terminating {
                    ending.insert(place, ());
                }
            }
        }
        let chosen = if ready.is_empty() { ending } else { ready };
        chosen.into_keys().collect()
    }

    /// The family of the endpoints that serve an address: that of the address, or the other one if no endpoint has it.
    fn family(&self, service: &Service, is_v6: bool) -> bool {
        let key = (service.meta.namespace.as_str(), service.meta.name.as_str());
        let has = |is_v6: bool| {
            let slices = self.slices.get(&key).into_iter().flatten();
            let mut endpoints = slices.flat_map(|slice| &slice.endpoints);
            endpoints.any(|endpoint| {
                let mut addresses = endpoint.addresses.iter();
                addresses.any(|address| address.is_ipv6() == is_v6)
            })
        };
        match !has(is_v6) && has(!is_v6) {
            true => !is_v6,
            false => is_v6,
        }
    }

    /// The address of a node with which it may serve.
    fn address(&self, node: &Node, is_v6: bool) -> Option<IpAddr> {
        let internal = node
            .addresses
            .iter()
            .filter(|entry| entry.kind == "InternalIP");
        let mut parsed = internal.filter_map(|entry| entry.address.parse::<IpAddr>().ok());
        parsed.find(|address| {
            let is_near = self.networks.is_empty()
                || self
                    .networks
                    .iter()
                    .any(|network| network.contains(address));
            address.is_ipv6() == is_v6 && is_near
        })
    }

    fn own_address(&self, is_v6: bool) -> Option<IpAddr> {
        let mut nodes = self.nodes.iter();
        let own = nodes.find(|node| node.meta.name == self.node)?;
        self.address(own, is_v6)
    }

    /// The nodes whose port may be used, and whether they take new connections.
    fn node_ports(&self, is_v6: bool) -> Vec<(&str, IpAddr, bool)> {
        let stays = |node: &&&Node| {
            !node.meta.deleting && node.taints.iter().all(|taint| taint.key != REMOVED)
        };
        let nodes: Vec<_> = self
            .nodes
            .iter()
            .filter(stays)
            .filter_map(|node| {
                let address = self.address(node, is_v6)?;
                Some((node.meta.name.as_str(), address, node.unschedulable))
            })
            .collect();
        // If every node is cordoned, they serve.
        let all_cordoned = nodes.iter().all(|(.., cordoned)| *cordoned);
        let nodes = nodes.into_iter();
        nodes
            .map(|(name, address, cordoned)| (name, address, cordoned && !all_cordoned))
            .collect()
    }
}

/// The name of a node in the cluster, where it may be longer than that of the host: `m0.example.org` for `m0`.
fn own_name<'a>(nodes: &[&'a Node], host: &'a str) -> &'a str {
    let names = || nodes.iter().map(|node| node.meta.name.as_str());
    if names().any(|name| name == host) {
        return host;
    }
    let mut longer = names().filter(|name| name.split('.').next() == Some(host));
    match (longer.next(), longer.next()) {
        (Some(only), None) => only,
        _ => host,
    }
}

/// A pool, and for each Service the backends that have to have a server.
type Holding<'a> = (&'a file::Pool, Vec<Vec<Arc<str>>>);

/// A server: its name, its address, and whether its node takes no new connections.
type ServerPlace = (String, SocketAddr, bool);

struct Making<'a> {
    written: &'a Config,
    pools: Vec<(&'a file::Pool, Forward)>,
    picture: Picture<'a>,
    learned: Learned,
    /// The places that something listens on.
    places: BTreeSet<(SocketAddr, bool)>,
    /// By address.
    holds: BTreeMap<IpAddr, Holding<'a>>,
}

impl<'a> Making<'a> {
    fn refuse(&mut self, name: &str, why: impl Into<String>) {
        if self.learned.refused.len() < MOST_REFUSED {
            self.learned.refused.push((name.to_owned(), why.into()));
        }
    }

    fn add(&mut self, service: &'a Service) {
        let name = format!("{}/{}", service.meta.namespace, service.meta.name);
        let mut held: Vec<(IpAddr, &'a file::Pool, Forward)> = Vec::new();
        for address in addresses(service) {
            let has = |range: &AddressRange| range.contains(address);
            let mut pools = self.pools.iter();
            let pool = pools.find(|(pool, _)| pool.addresses.iter().any(has));
            let Some((pool, forward)) = pool.copied() else {
                continue;
            };
            match self.is_written(address) {
                true => self.refuse(&name, format!("{address} is in the configuration already")),
                false => held.push((address, pool, forward)),
            }
        }
        let Some((first, pool, forward)) = held.first().copied() else {
            return;
        };
        let allow = match source_ranges(service) {
            Ok(allow) => allow,
            Err(why) => return self.refuse(&name, why),
        };
        let addresses: Vec<IpAddr> = held.iter().map(|(address, ..)| *address).collect();
        let is_v6 = match forward {
            Forward::NodePorts => first.is_ipv6(),
            Forward::Endpoints | Forward::KubeProxy => {
                self.picture.family(service, first.is_ipv6())
            }
        };
        let (mut backends, mut frontends) = (Vec::new(), Vec::new());
        for port in &service.ports {
            match self.port(service, (&name, port), forward, is_v6) {
                Ok(backend) => {
                    backends.push(Arc::clone(&backend.name));
                    if forward != Forward::KubeProxy {
                        let frontend = self.frontend(&backend, port, &addresses, allow.clone());
                        match frontend {
                            Some(frontend) => frontends.push(frontend),
                            None => {
                                let words = format!("port {} is in use", port.port);
                                self.refuse(&name, words);
                                backends.pop();
                                continue;
                            }
                        }
                    }
                    self.learned.backends.push(backend);
                }
                Err(why) => self.refuse(&name, why),
            }
        }
        if backends.is_empty() {
            return;
        }
        for (address, pool, _) in held {
            let (_, services) = self.holds.entry(address).or_insert((pool, Vec::new()));
            services.push(backends.clone());
        }
        self.learned.services.push(Served {
            name: name.into(),
            addresses,
            pool: pool.name.as_str().into(),
            frontends: frontends.iter().map(|one| Arc::clone(&one.name)).collect(),
        });
        self.learned.frontends.extend(frontends);
    }

    /// Whether the file has an address as a virtual IP.
    fn is_written(&self, address: IpAddr) -> bool {
        let mut held = self
            .written
            .vips
            .iter()
            .flat_map(|vip| &vip.router.addresses);
        held.any(|entry| entry.address == address)
    }

    /// The backend of a port.
    fn port(
        &self,
        service: &Service,
        (name, port): (&str, &ServicePort),
        forward: Forward,
        is_v6: bool,
    ) -> Result<Backend, String> {
        let (suffix, is_tcp) = match (port.protocol, forward) {
            (KubernetesProtocol::Tcp, _) => ("", true),
            (KubernetesProtocol::Udp, _) => ("/udp", false),
            (KubernetesProtocol::Sctp, Forward::KubeProxy) => ("/sctp", false),
            (KubernetesProtocol::Sctp, _) => {
                return Err(format!("port {}: SCTP is not served", port.port));
            }
        };
        let name: Arc<str> = format!("{name}:{}{suffix}", port.port).into();
        let is_known = |known: &Arc<str>| *known == name;
        let mut backends = self.written.backends.iter();
        let mut frontends = self.written.frontends.iter();
        if backends.any(|known| is_known(&known.name))
            || frontends.any(|known| is_known(&known.name))
        {
            return Err(format!("`{name}` is a name in the configuration already"));
        }
        let spec = file::Backend::new(&*name);
        let (check, places) = self.servers(service, port, forward, is_v6)?;
        let check = check.filter(|check| is_tcp || check.port.is_some());
        let servers = places.into_iter().take(MAX_SERVERS);
        let servers = servers.map(|(server_name, address, is_cordoned)| {
            let learned = ServerSpec::new(&server_name, address);
            Server {
                origin: Some(Origin::Learned),
                is_cordoned,
                ..server(
                    (server_name.as_str().into(), address),
                    &learned,
                    &spec,
                    check.as_ref(),
                )
            }
        });
        Ok(Backend {
            algorithm: match service.client_affinity || !is_tcp {
                true => Algorithm::Source,
                false => Algorithm::RoundRobin,
            },
            fail_open: spec.fail_open,
            all_backups: spec.all_backups,
            queue: spec.queue,
            policy: Policy {
                on_down: OnDown::Finish,
                ..Policy::of(&spec)
            },
            servers: servers.collect(),
            named: Vec::new(),
            check,
            name,
        })
    }

    /// The servers of a port, and how they are probed.
    fn servers(
        &self,
        service: &Service,
        port: &ServicePort,
        forward: Forward,
        is_v6: bool,
    ) -> Result<(Option<Check>, Vec<ServerPlace>), String> {
        let endpoints = self.picture.endpoints(service, port, is_v6);
        let tcp = Check {
            kind: TargetKind::Tcp,
            port: None,
            deviation: Deviation::default(),
        };
        // kube-proxy says there whether it has endpoints of its own.
        let local = (service.external_local && service.health_check_node_port > 0).then(|| Check {
            kind: TargetKind::Http(HttpProbe {
                path: "/healthz".to_owned(),
                ..HttpProbe::default()
            }),
            port: Some(service.health_check_node_port),
            deviation: Deviation::default(),
        });
        let number = match forward {
            Forward::Endpoints => 0,
            Forward::NodePorts if port.node_port == 0 => {
                return Err(format!("port {} has no node port", port.port));
            }
            Forward::NodePorts => port.node_port,
            Forward::KubeProxy => port.port,
        };
        let own = |check: Option<Check>| {
            let own = self
                .picture
                .own_address(is_v6)
                .filter(|_| !endpoints.is_empty());
            let server = own.map(|ip| {
                (
                    self.picture.node.to_owned(),
                    SocketAddr::new(ip, number),
                    false,
                )
            });
            (check, server.into_iter().collect())
        };
        Ok(match (forward, service.external_local) {
            (Forward::NodePorts, true) => own(local.or(Some(tcp))),
            (Forward::KubeProxy, true) => own(local),
            (Forward::NodePorts, false) => {
                let nodes = self.picture.node_ports(is_v6).into_iter();
                let nodes = nodes.map(|(name, ip, cordoned)| {
                    (name.to_owned(), SocketAddr::new(ip, number), cordoned)
                });
                (Some(tcp), nodes.collect())
            }
            (Forward::Endpoints, _) | (Forward::KubeProxy, false) => {
                let check = (forward == Forward::Endpoints).then_some(tcp);
                let named = endpoints
                    .iter()
                    .map(|place| (place.ip().to_string(), *place, false));
                (check, named.collect())
            }
        })
    }

    /// The frontend of a port; none when something listens there already.
    fn frontend(
        &mut self,
        backend: &Backend,
        port: &ServicePort,
        addresses: &[IpAddr],
        allow: Option<Cidrs>,
    ) -> Option<Frontend> {
        let protocol = match port.protocol {
            KubernetesProtocol::Udp => Protocol::Udp,
            KubernetesProtocol::Tcp | KubernetesProtocol::Sctp => Protocol::Tcp,
        };
        let listen = addresses.iter().map(|ip| SocketAddr::new(*ip, port.port));
        let listen: Vec<SocketAddr> = listen.collect();
        let written = self.written.frontends.iter();
        let mut written = written.filter(|frontend| frontend.protocol == protocol);
        let is_written = written.any(|frontend| {
            let mut places = frontend.listen.iter();
            places.any(|place| listen.contains(place))
        });
        let places: Vec<(SocketAddr, bool)> = listen
            .iter()
            .map(|place| (*place, protocol == Protocol::Udp))
            .collect();
        if is_written || places.iter().any(|place| self.places.contains(place)) {
            return None;
        }
        self.places.extend(places);
        let default = file::Frontend::new("", Vec::new());
        Some(Frontend {
            name: Arc::clone(&backend.name),
            listen,
            protocol,
            path: Path::User,
            role: default.role,
            accept_proxy: default.accept_proxy,
            sources: Sources {
                allow,
                ..Sources::default()
            },
            limits: None,
            max_connections: None,
            routes: RouteRules::default(),
            backend: Some(Arc::clone(&backend.name)),
            inspect_timeout: default.inspect_timeout.get(),
            client: Default::default(),
            log: default.log,
            flows: flow::Settings::default(),
            kernel: KernelRules::default(),
        })
    }

    //--- Virtual routers

    fn hold_addresses(&mut self) {
        let taken = self.written.vips.iter().map(|vip| vip.router.router_id);
        let taken: BTreeSet<u8> = taken.collect();
        let holds = std::mem::take(&mut self.holds);
        let wanted: Vec<(IpAddr, u128)> = holds
            .iter()
            .map(|(address, (pool, _))| (*address, place(pool, *address)))
            .collect();
        let ids = router_ids(&wanted, &taken);
        for (address, (pool, services)) in holds {
            let Some(id) = ids.get(&address) else {
                let words = "no virtual router number is left: there are 255 on a link";
                self.refuse(&format!("address {address}"), words);
                continue;
            };
            match vip(pool, address, *id, &services) {
                Ok(vip) => self.learned.vips.push(vip),
                Err(why) => self.refuse(&format!("address {address}"), why),
            }
        }
    }
}

/// The place of an address among those of its pool.
fn place(pool: &file::Pool, address: IpAddr) -> u128 {
    let mut before = 0_u128;
    for range in &pool.addresses {
        if range.contains(address) {
            return before.saturating_add(distance(range.first(), address));
        }
        before = before.saturating_add(range.size());
    }
    before
}

fn distance(first: IpAddr, address: IpAddr) -> u128 {
    let number = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    number(address).saturating_sub(number(first))
}

/// A virtual router number for each address. It follows from the place of the address in its pool, so that it is the same on every
/// node whatever Services there are; only where a number is taken, another one is searched for.
fn router_ids(wanted: &[(IpAddr, u128)], reserved: &BTreeSet<u8>) -> BTreeMap<IpAddr, u8> {
    let number = |place: u128| u8::try_from(place % 255 + 1).unwrap_or(1);
    let mut taken = reserved.clone();
    let mut ids = BTreeMap::new();
    for (address, place) in wanted {
        if taken.insert(number(*place)) {
            ids.insert(*address, number(*place));
        }
    }
    for (address, place) in wanted {
        if ids.contains_key(address) {
            continue;
        }
        let mut others = (1..255).map(|step| number(place.wrapping_add(step)));
        if let Some(id) = others.find(|id| !taken.contains(id)) {
            taken.insert(id);
            ids.insert(*address, id);
        }
    }
    ids
}

/// The virtual router of an address.
fn vip(
    pool: &file::Pool,
    address: IpAddr,
    router_id: u8,
    services: &[Vec<Arc<str>>],
) -> Result<Vip, String> {
    let alone = file::VirtualAddress(IpNet::from(address));
    let mut peers = pool.peers.clone();
    if let Some(peers) = &mut peers {
        let n_all = peers.len();
        peers.retain(|peer| peer.0.is_ipv6() == address.is_ipv6());
        if peers.is_empty() && n_all > 0 {
            let words =
                "no peer of its pool is of the family of the address: it would not become active";
            return Err(words.to_owned());
        }
    }
    let spec = file::Vip {
        priority: pool.priority,
        interval: pool.interval,
        peers,
        lease: pool.lease,
        ..file::Vip::new(format!("address:{address}"), vec![alone], &pool.interface)
    };
    let router = router(&spec, router_id);
    if let Some(fault) = router.faults().first() {
        return Err(fault.to_string());
    }
    // If several Services have one address, one without endpoints does not take it from the others.
    let effect = match services.len() {
        1 => Effect::Required,
        _ => Effect::Weight(WEIGHT),
    };
    let tracked = services.iter().flatten().map(|backend| Tracked {
        name: format!("backend:{backend}").into(),
        effect,
        rise: RISE,
        fall: DEFAULT_FALL,
    });
    Ok(Vip {
        priority: PrioritySettings {
            base: router.priority,
            tracked: tracked.collect(),
            hold_down: DEFAULT_HOLD_DOWN,
            when_unable: WhenUnable::Yield,
        },
        lease: pool.lease.then(|| lease_name(&router)),
        notify: pool.notify.clone().map(|script| Notify {
            script,
            limit: DEFAULT_LIMIT,
        }),
        router,
    })
}

/// The clients that may connect; none for all. A list with a mistake admits no client, and is refused.
fn source_ranges(service: &Service) -> Result<Option<Cidrs>, String> {
    let annotated = service.meta.annotations.get(SOURCE_RANGES);
    let annotated = annotated.map(|text| text.split(',').map(str::trim).collect::<Vec<_>>());
    let list: Vec<&str> = match service.source_ranges.is_empty() {
        false => service
            .source_ranges
            .iter()
            .map(|text| text.trim())
            .collect(),
        true => annotated.unwrap_or_default(),
    };
    let list: Vec<&str> = list.into_iter().filter(|text| !text.is_empty()).collect();
    if list.is_empty() {
        return Ok(None);
    }
    for text in &list {
        if text.parse::<IpNet>().is_err() && text.parse::<IpAddr>().is_err() {
            return Err(format!(
                "loadBalancerSourceRanges has {text:?}, which is no network"
            ));
        }
    }
    let networks = Cidrs::parse(&list.join(","));
    networks.map(Some).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
