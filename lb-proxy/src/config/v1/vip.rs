//! `[[vip]]`, `[[pool]]` and `[[service]]`.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use daemon_base::acl::Cidrs;
use toml::Spanned;

use super::Reader;
use super::above_zero;
use super::spec::{
    AnnounceSpec, ChecksumSpec, FamilySpec, PoolSpec, PortSpec, ServiceSpec, Spec, VipSpec,
    WhenUnableSpec,
};
use crate::config::{
    Backend, Frontend, KernelRules, Path, Protocol, Role, Service, Tracked as TrackedThing, Vip,
};
use crate::datagram::flow;
use crate::service_addresses::{
    AddressPool, AddressRange, AddressRequest, assign_addresses, assign_router_ids,
};
use crate::table::{AcceptProxy, Route, SideOptions, Sources};
use crate::vrrp::checksum::ChecksumForm;
use crate::vrrp::notify::{DEFAULT_LIMIT, Notify};
use crate::vrrp::openshift::ClusterRouterIds;
use crate::vrrp::packet::{Authentication, Version};
use crate::vrrp::priority::{
    DEFAULT_FALL, DEFAULT_HOLD_DOWN, DEFAULT_RISE, Effect, PrioritySettings, Tracked, WhenUnable,
};
use crate::vrrp::settings::{
    Announce, DEFAULT_INTERVAL, DEFAULT_PRIORITY, Peers, Preempt, RouterSettings, VirtualAddress,
};

impl Reader<'_> {
    pub(super) fn vips(
        &mut self,
        specs: &[VipSpec],
        cluster: Option<&str>,
        frontends: &[Frontend],
        backends: &[Backend],
    ) -> Vec<Vip> {
        let mut known = BTreeSet::new();
        let mut vips = Vec::new();
        for spec in specs {
            let name = self.name(&spec.name);
            if !known.insert(Arc::clone(&name)) {
                self.problem(
                    spec.name.span(),
                    format!("there are two virtual IPs `{name}`"),
                );
            }
            let tracked = self.tracked(spec, &name, frontends, backends);
            let Some(router_id) = self.router_id(spec, cluster) else {
                continue;
            };
            let whole = self.router(spec, &name, router_id);
            for router in by_family(whole) {
                for fault in router.faults() {
                    self.problem(spec.name.span(), fault.to_string());
                }
                vips.push(Vip {
                    priority: PrioritySettings {
                        base: router.priority,
                        tracked: tracked.clone(),
                        hold_down: spec.hold_down.map_or(DEFAULT_HOLD_DOWN, Duration::from),
                        when_unable: match spec.when_unable {
                            WhenUnableSpec::Yield => WhenUnable::Yield,
                            WhenUnableSpec::Release => WhenUnable::Release,
                        },
                    },
                    router,
                    notify: spec.notify.clone().map(notify),
                });
            }
        }
        vips
    }

    fn router(&mut self, spec: &VipSpec, name: &Arc<str>, router_id: u8) -> RouterSettings {
        let addresses = self.virtual_addresses(spec.addresses.get_ref());
        if spec.addresses.get_ref().is_empty() {
            self.problem(spec.addresses.span(), "a virtual IP needs an address");
        }
        let interface = spec.interface.get_ref().as_str();
        let mut router = RouterSettings::new(Arc::clone(name), interface, router_id, addresses);
        router.version = match spec.version {
            Some(2) => Version::V2,
            None | Some(3) => Version::V3,
            Some(other) => {
                self.problem(spec.name.span(), format!("VRRP has no version {other}"));
                Version::V3
            }
        };
        router.priority = spec.priority.unwrap_or(DEFAULT_PRIORITY);
        router.interval = spec.interval.map_or(DEFAULT_INTERVAL, Duration::from);
        router.peers = self.peers(spec.peers.as_deref());
        router.preempt = match spec.preempt {
            true => Preempt::After(spec.preempt_delay.map_or(Duration::ZERO, Duration::from)),
            false => Preempt::Never,
        };
        router.authentication = match &spec.password {
            None => Authentication::None,
            Some(password) => Authentication::password(password),
        };
        router.checksum = match spec.checksum {
            ChecksumSpec::PseudoHeader => ChecksumForm::PseudoHeader,
            ChecksumSpec::Rfc => ChecksumForm::Rfc,
        };
        router.checksum_strict = spec.checksum_strict;
        router.peers_only = spec.peers_only;
        router.source = spec.source;
        router.group = spec
            .group
            .as_ref()
            .map(|group| group.get_ref().as_str().into());
        router.announce = announce(spec.announce, router.interval);
        router.probe = spec.probe;
        router
    }

    /// As written, else as OpenShift has it for the cluster.
    fn router_id(&mut self, spec: &VipSpec, cluster: Option<&str>) -> Option<u8> {
        let of_cluster = cluster.and_then(|cluster| {
            let ids = ClusterRouterIds::of(cluster);
            match Role::from(spec.role) {
                Role::Api => Some(ids.api),
                Role::Ingress => Some(ids.ingress),
                Role::Plain => None,
            }
        });
        let written = spec.router_id.as_ref().map(|id| *id.get_ref());
        let id = written.or(of_cluster);
        if id.is_none() {
            self.problem(
                spec.name.span(),
                "a virtual IP needs a `router-id`, or a `role` and [openshift] `cluster` to compute it from",
            );
        }
        id
    }

    fn virtual_addresses(&mut self, list: &[Spanned<String>]) -> Vec<VirtualAddress> {
        let mut addresses = Vec::new();
        for text in list {
            match parse_virtual(text.get_ref()) {
                Some(address) => addresses.push(address),
                None => self.problem(
                    text.span(),
                    format!("`{}` is no address, as in 192.168.7.100/24", text.get_ref()),
                ),
            }
        }
        addresses
    }

    fn peers(&mut self, list: Option<&[Spanned<String>]>) -> Peers {
        let Some(list) = list else {
            return Peers::Multicast;
        };
        let mut peers = Vec::new();
        for text in list {
            match text.get_ref().parse() {
                Ok(address) => peers.push(address),
                Err(_) => self.problem(text.span(), format!("`{}` is no address", text.get_ref())),
            }
        }
        Peers::Unicast(peers)
    }

    //--- What decides the priority

    fn tracked(
        &mut self,
        spec: &VipSpec,
        name: &Arc<str>,
        frontends: &[Frontend],
        backends: &[Backend],
    ) -> Vec<Tracked> {
        let rise = spec.rise.map_or(DEFAULT_RISE, Duration::from);
        let fall = spec.fall.map_or(DEFAULT_FALL, Duration::from);
        let mut tracked = Vec::new();
        match &spec.track {
            Some(list) => {
                for what in list {
                    let is_there = self.is_there(what, frontends, backends);
                    if is_there {
                        tracked.push(Tracked {
                            name: what.get_ref().as_str().into(),
                            effect: Effect::Required,
                            rise,
                            fall,
                        });
                    }
                }
            }
            // What is called alike is what it is for.
            None if frontends.iter().any(|frontend| frontend.name == *name) => {
                tracked.push(Tracked {
                    name: format!("frontend:{name}").into(),
                    effect: Effect::Required,
                    rise,
                    fall,
                });
            }
            None => {}
        }
        for weigh in &spec.weigh {
            if !self.is_there(&weigh.what, frontends, backends) {
                continue;
            }
            if !(-253..=253).contains(weigh.weight.get_ref()) || *weigh.weight.get_ref() == 0 {
                self.problem(weigh.weight.span(), "a weight is -253 to 253, and not 0");
            }
            tracked.push(Tracked {
                name: weigh.what.get_ref().as_str().into(),
                effect: Effect::Weight(*weigh.weight.get_ref()),
                rise: weigh.rise.map_or(rise, Duration::from),
                fall: weigh.fall.map_or(fall, Duration::from),
            });
        }
        tracked
    }

    fn is_there(
        &mut self,
        what: &Spanned<String>,
        frontends: &[Frontend],
        backends: &[Backend],
    ) -> bool {
        let words = match TrackedThing::parse(what.get_ref()) {
            Some(TrackedThing::Frontend(name)) => {
                if frontends.iter().any(|frontend| frontend.name == name) {
                    return true;
                }
                format!("there is no frontend `{name}`")
            }
            Some(TrackedThing::Backend(name)) => {
                if backends.iter().any(|backend| backend.name == name) {
                    return true;
                }
                format!("there is no backend `{name}`")
            }
            None => "what is tracked is `frontend:NAME` or `backend:NAME`".to_owned(),
        };
        self.problem(what.span(), words);
        false
    }

    //--- Services

    /// Gives each service its address, a virtual router for it, and frontends for its ports.
    pub(super) fn services(
        &mut self,
        spec: &Spec,
        frontends: &mut Vec<Frontend>,
        vips: &mut Vec<Vip>,
        backends: &[Backend],
    ) -> Vec<Service> {
        let pools = self.pools(&spec.pool);
        for service in &spec.service {
            let name = service.name.get_ref().as_str();
            if vips.iter().any(|vip| *vip.router.name == *name) {
                self.problem(
                    service.name.span(),
                    format!("`{name}` is the name of a virtual IP already"),
                );
            }
        }
        let requests = self.requests(&spec.service, &pools);
        let held = vips.iter().flat_map(|vip| &vip.router.addresses);
        let reserved: BTreeSet<IpAddr> = held.map(|held| held.address).collect();
        let only: Vec<AddressRequest> = requests.iter().map(|(_, one)| one.clone()).collect();
        let results = assign_addresses(&pools, &only, &reserved);
        let router_ids = self.service_router_ids(&spec.service, vips);
        let mut given: Vec<Vec<IpAddr>> = vec![Vec::new(); spec.service.len()];
        for ((index, _), result) in requests.iter().zip(results) {
            match (result, given.get_mut(*index), spec.service.get(*index)) {
                (Ok(address), Some(given), _) => given.push(address),
                (Err(refusal), _, Some(service)) => {
                    self.problem(service.name.span(), refusal.to_string());
                }
                _ => {}
            }
        }
        let mut services = Vec::new();
        for ((one, addresses), router_id) in spec.service.iter().zip(given).zip(router_ids) {
            let holder = addresses.first().and_then(|address| {
                let holds = |pool: &&AddressPool| pool.ranges.iter().any(|r| r.contains(*address));
                let pool = pools.iter().find(holds)?;
                let name = pool.name.as_ref();
                spec.pool.iter().find(|spec| spec.name.get_ref() == name)
            });
            let (Some(holder), Some(router_id)) = (holder, router_id) else {
                continue;
            };
            vips.extend(self.service_vips(one, holder, router_id, &addresses));
            let own = self.service_frontends(one, &addresses, backends);
            services.push(Service {
                name: one.name.get_ref().as_str().into(),
                pool: holder.name.get_ref().as_str().into(),
                frontends: own.iter().map(|f| Arc::clone(&f.name)).collect(),
                addresses,
            });
            frontends.extend(own);
        }
        services
    }

    fn pools(&mut self, specs: &[PoolSpec]) -> Vec<AddressPool> {
        let mut pools: Vec<AddressPool> = Vec::new();
        for spec in specs {
            let name = self.name(&spec.name);
            if pools.iter().any(|pool| pool.name == name) {
                self.problem(spec.name.span(), format!("there are two pools `{name}`"));
            }
            let mut ranges: Vec<AddressRange> = Vec::new();
            for text in &spec.addresses {
                match text.get_ref().parse() {
                    Ok(range) => ranges.push(range),
                    Err(error) => {
                        let error: crate::service_addresses::AddressRangeError = error;
                        self.problem(text.span(), error.to_string());
                    }
                }
            }
            pools.push(AddressPool {
                name,
                ranges,
                automatic: spec.automatic,
            });
        }
        pools
    }

    /// What each service asks for, with its place in the list; both families are two requests.
    fn requests(
        &mut self,
        specs: &[ServiceSpec],
        pools: &[AddressPool],
    ) -> Vec<(usize, AddressRequest)> {
        let mut known = BTreeSet::new();
        let mut requests = Vec::new();
        for (index, spec) in specs.iter().enumerate() {
            let name = self.name(&spec.name);
            if !known.insert(Arc::clone(&name)) {
                self.problem(spec.name.span(), format!("there are two services `{name}`"));
            }
            if let Some(pool) = &spec.pool
                && !pools.iter().any(|known| *known.name == **pool.get_ref())
            {
                self.problem(
                    pool.span(),
                    format!("there is no pool `{}`", pool.get_ref()),
                );
                continue;
            }
            let wanted = spec.address.as_ref().map(|address| *address.get_ref());
            let families: &[bool] = match (spec.family, wanted) {
                (_, Some(IpAddr::V4(_))) | (FamilySpec::Ipv4, None) => &[false],
                (_, Some(IpAddr::V6(_))) | (FamilySpec::Ipv6, None) => &[true],
                (FamilySpec::Both, None) => &[false, true],
            };
            for &ipv6 in families {
                requests.push((
                    index,
                    AddressRequest {
                        service: Arc::clone(&name),
                        pool: spec
                            .pool
                            .as_ref()
                            .map(|pool| pool.get_ref().as_str().into()),
                        wanted,
                        ipv6,
                    },
                ));
            }
        }
        requests
    }

    fn service_router_ids(&mut self, specs: &[ServiceSpec], vips: &[Vip]) -> Vec<Option<u8>> {
        let written = specs
            .iter()
            .filter_map(|spec| Some(*spec.router_id.as_ref()?.get_ref()));
        let taken = vips.iter().map(|vip| vip.router.router_id);
        let reserved: BTreeSet<u8> = written.chain(taken).collect();
        let open: Vec<&ServiceSpec> = specs.iter().filter(|s| s.router_id.is_none()).collect();
        let names: Vec<Arc<str>> = open
            .iter()
            .map(|s| s.name.get_ref().as_str().into())
            .collect();
        let mut assigned = assign_router_ids(&names, &reserved).into_iter();
        let mut exhausted: Vec<Range<usize>> = Vec::new();
        let ids = specs
            .iter()
            .map(|spec| match &spec.router_id {
                Some(id) => Some(*id.get_ref()),
                None => {
                    let id = assigned.next().flatten();
                    if id.is_none() {
                        exhausted.push(spec.name.span());
                    }
                    id
                }
            })
            .collect();
        for span in exhausted {
            self.problem(
                span,
                "no virtual router number is left: there are 255 on a link",
            );
        }
        ids
    }

    fn service_vips(
        &mut self,
        spec: &ServiceSpec,
        pool: &PoolSpec,
        router_id: u8,
        addresses: &[IpAddr],
    ) -> Vec<Vip> {
        let addresses = addresses.iter().map(|address| VirtualAddress {
            address: *address,
            prefix_length: if address.is_ipv6() { 128 } else { 32 },
        });
        let name: Arc<str> = spec.name.get_ref().as_str().into();
        let interface = pool.interface.get_ref().as_str();
        let mut router = RouterSettings::new(name, interface, router_id, addresses.collect());
        router.priority = pool.priority.unwrap_or(DEFAULT_PRIORITY);
        router.interval = pool.interval.map_or(DEFAULT_INTERVAL, Duration::from);
        router.announce = announce(AnnounceSpec::default(), router.interval);
        router.peers = self.peers(pool.peers.as_deref());
        let base = router.priority;
        let mut vips = Vec::new();
        for router in by_family(router) {
            for fault in router.faults() {
                self.problem(spec.name.span(), fault.to_string());
            }
            vips.push(Vip {
                router,
                priority: PrioritySettings {
                    base,
                    tracked: spec.port.iter().map(required).collect(),
                    hold_down: DEFAULT_HOLD_DOWN,
                    when_unable: WhenUnable::Yield,
                },
                notify: pool.notify.clone().map(notify),
            });
        }
        vips
    }

    fn service_frontends(
        &mut self,
        spec: &ServiceSpec,
        addresses: &[IpAddr],
        backends: &[Backend],
    ) -> Vec<Frontend> {
        let mut frontends = Vec::new();
        for port in &spec.port {
            let number = *port.port.get_ref();
            if number == 0 {
                self.problem(port.port.span(), "0 is no port");
            }
            let protocol = Protocol::from(port.protocol);
            let suffix = match protocol {
                Protocol::Tcp => "",
                Protocol::Udp => "/udp",
            };
            let backend: Arc<str> = port.backend.get_ref().as_str().into();
            if !backends.iter().any(|known| known.name == backend) {
                continue;
            }
            frontends.push(Frontend {
                name: format!("{}:{number}{suffix}", spec.name.get_ref()).into(),
                listen: addresses
                    .iter()
                    .map(|address| SocketAddr::new(*address, number))
                    .collect(),
                protocol,
                path: port.path.map_or(Path::User, Path::from),
                role: Role::Plain,
                accept_proxy: AcceptProxy::No,
                sources: Sources {
                    allow: match port.allow_from.is_empty() {
                        true => None,
                        false => Some(self.networks(&port.allow_from)),
                    },
                    deny: Cidrs::none(),
                },
                limits: None,
                max_connections: None,
                names: Vec::new(),
                backend: Some(backend),
                inspect_timeout: Route::INSPECT_TIMEOUT,
                client: SideOptions::default(),
                log: true,
                flows: flow::Settings::default(),
                kernel: KernelRules {
                    allow: self.kernel_networks(&port.allow_from),
                    ..KernelRules::default()
                },
            });
        }
        frontends
    }
}

fn notify(script: PathBuf) -> Notify {
    Notify {
        script,
        limit: DEFAULT_LIMIT,
    }
}

/// A service can serve while the backend of each port can.
fn required(port: &PortSpec) -> Tracked {
    Tracked {
        name: format!("backend:{}", port.backend.get_ref()).into(),
        effect: Effect::Required,
        rise: DEFAULT_RISE,
        fall: DEFAULT_FALL,
    }
}

fn announce(spec: AnnounceSpec, interval: Duration) -> Announce {
    let default = Announce::default();
    Announce {
        count: spec.count.unwrap_or(default.count),
        again_after: match spec.again_after {
            None => default.again_after,
            Some(time) => above_zero(time),
        },
        refresh: match spec.refresh {
            None => Some((3 * interval).max(SHORTEST_REFRESH)),
            Some(time) => above_zero(time),
        },
    }
}

/// How often addresses are announced at most, where nothing is written.
///
/// Where a network that was cut in two heals, the router that yields may do so without a word, as
/// keepalived does; then nobody is told that what half of the network has learnt is wrong. So a cache
/// is set right in the time that a takeover may last.
const SHORTEST_REFRESH: Duration = Duration::from_secs(1);

/// A virtual router is of one family (RFC 9568 §1): addresses of both are two, which move together.
fn by_family(whole: RouterSettings) -> Vec<RouterSettings> {
    let of = |ipv6: bool| {
        let mut router = whole.clone();
        router
            .addresses
            .retain(|entry| entry.address.is_ipv6() == ipv6);
        if let Peers::Unicast(peers) = &mut router.peers {
            peers.retain(|peer| peer.is_ipv6() == ipv6);
        }
        router.source = router.source.filter(|source| source.is_ipv6() == ipv6);
        router
    };
    let is_mixed = whole.addresses.iter().any(|entry| entry.address.is_ipv6())
        && whole.addresses.iter().any(|entry| entry.address.is_ipv4());
    if !is_mixed {
        return vec![whole];
    }
    let (mut four, mut six) = (of(false), of(true));
    six.name = format!("{}-ipv6", whole.name).into();
    let group = whole
        .group
        .clone()
        .unwrap_or_else(|| Arc::clone(&whole.name));
    four.group = Some(Arc::clone(&group));
    six.group = Some(group);
    vec![four, six]
}

/// `192.168.7.100/24`; without a length, the address alone.
fn parse_virtual(text: &str) -> Option<VirtualAddress> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length.parse().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let longest = if address.is_ipv6() { 128 } else { 32 };
    Some(VirtualAddress {
        address,
        prefix_length: length.unwrap_or(longest),
    })
}
