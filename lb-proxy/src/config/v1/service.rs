//! `[[pool]]` and `[[service]]`.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use balance::table::{AcceptProxy, Route, SideOptions, Sources};
use daemon::acl::Cidrs;
use l4_core::flow;
use vrrp::priority::{
    DEFAULT_FALL, DEFAULT_HOLD_DOWN, DEFAULT_RISE, Effect, PrioritySettings, Tracked, WhenUnable,
};
use vrrp::settings::{DEFAULT_INTERVAL, DEFAULT_PRIORITY, Peers, RouterSettings, VirtualAddress};

use super::Reader;
use super::spec::{AnnounceSpec, FamilySpec, PoolSpec, PortSpec, ServiceSpec, Spec};
use super::vip::{announce, by_family, family_without_peer, notify};
use crate::config::{Backend, Frontend, KernelRules, Path, Protocol, Role, Service, Vip};
use crate::service_addresses::{
    AddressPool, AddressRange, AddressRequest, assign_addresses, assign_router_ids,
};

impl Reader<'_> {
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

    /// The request of each service, with its place in the list; both families are two requests.
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
        if let Some(family) = family_without_peer(&router) {
            self.problem(
                spec.name.span(),
                format!(
                    "no peer of its pool is of {family}, as its address is: it would not become active"
                ),
            );
        }
        // The pool's are for services of both families.
        let addresses = router.addresses.iter().map(|entry| entry.address.is_ipv6());
        let families: BTreeSet<bool> = addresses.collect();
        if let Peers::Unicast(peers) = &mut router.peers {
            peers.retain(|peer| families.contains(&peer.is_ipv6()));
        }
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

/// A service can serve while the backend of each port can.
fn required(port: &PortSpec) -> Tracked {
    Tracked {
        name: format!("backend:{}", port.backend.get_ref()).into(),
        effect: Effect::Required,
        rise: DEFAULT_RISE,
        fall: DEFAULT_FALL,
    }
}
