//! `[[pool]]` and `[[service]]`.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ::config::lb_proxy::{self as file, Family};
use ::config::{Whole, at};
use balance::table::Sources;
use ipnet::IpNet;
use l4_core::flow;
use tls_routes::RouteRules;
use vrrp::priority::{DEFAULT_FALL, DEFAULT_RISE, Effect, Tracked};
use vrrp::settings::Peers;

use super::Reader;
use super::vip::{family_without_peer, router};
use crate::config::{Backend, Frontend, KernelRules, Path, Protocol, Service, Vip};
use crate::service_addresses::{AddressPool, AddressRequest, assign_addresses, assign_router_ids};

impl Reader<'_, '_> {
    /// Gives each service its address, a virtual router for it, and frontends for its ports.
    pub(super) fn services(
        &mut self,
        frontends: &mut Vec<Frontend>,
        vips: &mut Vec<Vip>,
        backends: &[Backend],
    ) -> Vec<Service> {
        let file = self.file;
        let pools = self.pools();
        for (index, service) in file.service.iter().enumerate() {
            let name = service.name.as_str();
            if vips.iter().any(|vip| *vip.router.name == *name) {
                let words = format!("`{name}` is the name of a virtual IP already");
                self.problem(&at!["service", index, "name"], words);
            }
        }
        let requests = self.requests(&pools);
        let held = vips.iter().flat_map(|vip| &vip.router.addresses);
        let reserved: BTreeSet<IpAddr> = held.map(|held| held.address).collect();
        let only: Vec<AddressRequest> = requests.iter().map(|(_, one)| one.clone()).collect();
        let results = assign_addresses(&pools, &only, &reserved);
        let router_ids = self.service_router_ids(vips);
        let mut given: Vec<Vec<IpAddr>> = vec![Vec::new(); file.service.len()];
        for ((index, _), result) in requests.iter().zip(results) {
            match (result, given.get_mut(*index)) {
                (Ok(address), Some(given)) => given.push(address),
                (Err(refusal), _) => {
                    self.missing(&at!["service", *index, "name"], refusal.to_string());
                }
                _ => {}
            }
        }
        let mut services = Vec::new();
        for (index, ((one, addresses), router_id)) in
            file.service.iter().zip(given).zip(router_ids).enumerate()
        {
            let holder = addresses.first().and_then(|address| {
                let holds =
                    |pool: &&file::Pool| pool.addresses.iter().any(|r| r.contains(*address));
                file.pool.iter().find(holds)
            });
            let (Some(holder), Some(router_id)) = (holder, router_id) else {
                continue;
            };
            self.service_vips(vips, (index, one), holder, router_id, &addresses);
            let own = self.service_frontends((index, one), &addresses, backends);
            services.push(Service {
                name: one.name.as_str().into(),
                pool: holder.name.as_str().into(),
                frontends: own.iter().map(|f| Arc::clone(&f.name)).collect(),
                addresses,
            });
            frontends.extend(own);
        }
        services
    }

    fn pools(&mut self) -> Vec<AddressPool> {
        let mut pools: Vec<AddressPool> = Vec::new();
        for (index, spec) in self.file.pool.iter().enumerate() {
            let at_name = at!["pool", index, "name"];
            let name = self.name(&spec.name, &at_name);
            if pools.iter().any(|pool| pool.name == name) {
                self.problem(&at_name, format!("there are two pools `{name}`"));
            }
            pools.push(AddressPool {
                name,
                ranges: spec.addresses.clone(),
                automatic: spec.automatic && spec.cluster.is_none(),
            });
            if spec.cluster.is_some() && self.file.cluster.is_none() {
                let way = at!["pool", index, "cluster"];
                self.missing(&way, "it needs the table `[cluster]`");
            }
            if spec.lease && spec.cluster.is_none() {
                let way = at!["pool", index, "lease"];
                self.problem(&way, "`lease` is for addresses of the cluster");
            }
            if spec.lease && self.file.health.endpoint.0.is_none() {
                let words = "a lease needs [health] `endpoint`: healthd grants it";
                self.missing(&at!["pool", index, "lease"], words);
            }
        }
        pools
    }

    /// The request of each service, with its place in the list; both families are two requests.
    fn requests(&mut self, pools: &[AddressPool]) -> Vec<(usize, AddressRequest)> {
        let mut known = BTreeSet::new();
        let mut requests = Vec::new();
        for (index, spec) in self.file.service.iter().enumerate() {
            let at_name = at!["service", index, "name"];
            let name = self.name(&spec.name, &at_name);
            if !known.insert(Arc::clone(&name)) {
                self.problem(&at_name, format!("there are two services `{name}`"));
            }
            if let Some(pool) = &spec.pool
                && !pools.iter().any(|known| *known.name == **pool)
            {
                let words = format!("there is no pool `{pool}`");
                self.missing(&at!["service", index, "pool"], words);
                continue;
            }
            let named = spec.pool.as_deref();
            let mut of_cluster = self.file.pool.iter().filter(|pool| pool.cluster.is_some());
            if let Some(pool) = of_cluster.find(|pool| Some(pool.name.as_str()) == named) {
                let words = format!("pool `{}` is for Services of the cluster", pool.name);
                self.problem(&at!["service", index, "pool"], words);
                continue;
            }
            let wanted = spec.address.map(|address| address.0);
            let families: &[bool] = match (spec.family, wanted) {
                (_, Some(IpAddr::V4(_))) | (Family::Ipv4, None) => &[false],
                (_, Some(IpAddr::V6(_))) | (Family::Ipv6, None) => &[true],
                (Family::Both, None) => &[false, true],
            };
            for &ipv6 in families {
                let request = AddressRequest {
                    service: Arc::clone(&name),
                    pool: spec.pool.as_deref().map(Arc::from),
                    wanted,
                    ipv6,
                };
                requests.push((index, request));
            }
        }
        requests
    }

    fn service_router_ids(&mut self, vips: &[Vip]) -> Vec<Option<u8>> {
        let specs = &self.file.service;
        let written = specs.iter().filter_map(|spec| spec.router_id);
        let taken = vips.iter().map(|vip| vip.router.router_id);
        let reserved: BTreeSet<u8> = written.map(Whole::get).chain(taken).collect();
        let open = specs.iter().filter(|spec| spec.router_id.is_none());
        let names: Vec<Arc<str>> = open.map(|spec| spec.name.as_str().into()).collect();
        let mut assigned = assign_router_ids(&names, &reserved).into_iter();
        let mut ids = Vec::new();
        for (index, spec) in specs.iter().enumerate() {
            let id = match spec.router_id {
                Some(id) => Some(id.get()),
                None => assigned.next().flatten(),
            };
            if id.is_none() {
                let words = "no virtual router number is left: there are 255 on a link";
                self.problem(&at!["service", index, "name"], words);
            }
            ids.push(id);
        }
        ids
    }

    fn service_vips(
        &mut self,
        vips: &mut Vec<Vip>,
        (index, spec): (usize, &file::Service),
        pool: &file::Pool,
        router_id: u8,
        addresses: &[IpAddr],
    ) {
        let at_name = at!["service", index, "name"];
        let alone = |address: &IpAddr| file::VirtualAddress(IpNet::from(*address));
        let vip = file::Vip {
            priority: pool.priority,
            interval: pool.interval,
            peers: pool.peers.clone(),
            notify: pool.notify.clone(),
            ..file::Vip::new(
                &spec.name,
                addresses.iter().map(alone).collect(),
                &pool.interface,
            )
        };
        let mut router = router(&vip, router_id);
        if let Some(family) = family_without_peer(&router) {
            let words = format!(
                "no peer of its pool is of {family}, as its address is: it would not become active"
            );
            self.missing(&at_name, words);
        }
        // The pool's are for services of both families.
        let families: BTreeSet<bool> = addresses.iter().map(IpAddr::is_ipv6).collect();
        if let Peers::Unicast(peers) = &mut router.peers {
            peers.retain(|peer| families.contains(&peer.is_ipv6()));
        }
        let tracked: Vec<Tracked> = spec.port.iter().map(required).collect();
        self.family_vips(vips, router, &vip, &tracked, &at_name);
    }

    fn service_frontends(
        &mut self,
        (index, spec): (usize, &file::Service),
        addresses: &[IpAddr],
        backends: &[Backend],
    ) -> Vec<Frontend> {
        let mut frontends = Vec::new();
        for (place, port) in spec.port.iter().enumerate() {
            let number = port.port.get();
            let suffix = match port.protocol {
                Protocol::Tcp => "",
                Protocol::Udp => "/udp",
            };
            if !backends.iter().any(|known| *known.name == *port.backend) {
                continue;
            }
            let at_allow = at!["service", index, "port", place, "allow-from"];
            let listen = addresses.iter().map(|ip| SocketAddr::new(*ip, number));
            let default = file::Frontend::new("", Vec::new());
            frontends.push(Frontend {
                name: format!("{}:{number}{suffix}", spec.name).into(),
                listen: listen.collect(),
                protocol: port.protocol,
                path: port.path,
                role: default.role,
                accept_proxy: default.accept_proxy,
                sources: Sources {
                    allow: self.some_networks(&port.allow_from, &at_allow),
                    ..Sources::default()
                },
                limits: None,
                max_connections: None,
                routes: RouteRules::default(),
                backend: Some(port.backend.as_str().into()),
                inspect_timeout: default.inspect_timeout.get(),
                client: Default::default(),
                log: default.log,
                flows: flow::Settings::default(),
                kernel: KernelRules {
                    allow: match port.path {
                        Path::User => None,
                        Path::Kernel | Path::KernelPreferred => {
                            self.kernel_networks(&port.allow_from, &at_allow)
                        }
                    },
                    ..KernelRules::default()
                },
            });
        }
        frontends
    }
}

/// A service can serve while the backend of each port can.
fn required(port: &file::ServicePort) -> Tracked {
    Tracked {
        name: format!("backend:{}", port.backend).into(),
        effect: Effect::Required,
        rise: DEFAULT_RISE,
        fall: DEFAULT_FALL,
    }
}
