//! `[[frontend]]`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ::config::lb_proxy as file;
use ::config::{Networks, Step, Whole, at, nearest};
use balance::limits::{self, Rules};
use balance::table::{SideOptions, Sources};
use daemon::acl::Cidrs;
use ipnet::IpNet;
use l4_core::flow;
use tls_routes::RouteRules;

use super::Reader;
use crate::config::{Backend, Frontend, KernelRules, Path, Protocol, SourceLimits};

impl Reader<'_, '_> {
    pub(super) fn frontends(&mut self) -> Vec<Frontend> {
        let mut known = BTreeSet::new();
        let mut frontends = Vec::new();
        for (index, spec) in self.file.frontend.iter().enumerate() {
            let at_name = at!["frontend", index, "name"];
            let name = self.name(&spec.name, &at_name);
            if !known.insert(Arc::clone(&name)) {
                self.problem(&at_name, format!("there are two frontends `{name}`"));
            }
            if spec.listen.is_empty() {
                let way = at!["frontend", index, "listen"];
                self.missing(&way, "a frontend listens somewhere");
            }
            if spec.backend.is_none() && spec.route.is_empty() {
                self.missing(&at_name, "a frontend needs a `backend` or a `route`");
            }
            frontends.push(self.frontend(index, spec, name));
            self.refuse_what_its_path_cannot(index, spec);
        }
        frontends
    }

    fn frontend(&mut self, index: usize, spec: &file::Frontend, name: Arc<str>) -> Frontend {
        Frontend {
            name,
            listen: spec.listen.iter().map(|address| address.0).collect(),
            protocol: spec.protocol,
            path: spec.path,
            role: spec.role,
            accept_proxy: spec.accept_proxy,
            sources: Sources {
                allow: self.some_networks(&spec.allow_from, &at!["frontend", index, "allow-from"]),
                deny: self
                    .some_networks(&spec.deny_from, &at!["frontend", index, "deny-from"])
                    .unwrap_or_default(),
            },
            limits: spec.limits.as_ref().map(source_limits),
            max_connections: spec.max_connections.map(Whole::get),
            routes: self.routes(index, spec),
            backend: spec.backend.as_deref().map(Arc::from),
            inspect_timeout: spec.inspect_timeout.get(),
            client: SideOptions::of(&spec.client),
            log: spec.log,
            flows: flow::Settings::of(&spec.flows),
            kernel: match spec.path {
                Path::Kernel | Path::KernelPreferred => KernelRules {
                    allow: self
                        .kernel_networks(&spec.allow_from, &at!["frontend", index, "allow-from"]),
                    deny: self
                        .kernel_networks(&spec.deny_from, &at!["frontend", index, "deny-from"])
                        .unwrap_or_default(),
                    masquerade: spec.masquerade,
                },
                Path::User => KernelRules::default(),
            },
        }
    }

    /// The networks of a list; none when it is empty.
    pub(super) fn some_networks(&mut self, list: &Networks, way: &[Step<'_>]) -> Option<Cidrs> {
        let is_written = list.entries().next().is_some();
        is_written.then(|| self.networks(list, way))
    }

    fn routes(&mut self, index: usize, spec: &file::Frontend) -> RouteRules {
        let (rules, faults) = tls_routes::read(spec.route_order, &spec.route);
        for fault in faults {
            let route = at!["frontend", index, "route", fault.route];
            match fault.value {
                Some((key, at)) => {
                    self.problem(&[&route[..], &at![key, at]].concat(), fault.reason);
                }
                None => self.missing(&[&route[..], &at!["backend"]].concat(), fault.reason),
            }
        }
        rules
    }

    /// Networks as the kernel takes them; none when the list is empty.
    pub(super) fn kernel_networks(
        &mut self,
        list: &Networks,
        way: &[Step<'_>],
    ) -> Option<Vec<IpNet>> {
        let mut networks = Vec::new();
        for (place, text) in list.entries().enumerate() {
            let address = text.parse::<IpAddr>().map(IpNet::from);
            match address.or_else(|_| text.parse::<IpNet>()) {
                Ok(network) => networks.push(network.trunc()),
                Err(_) => {
                    let way = [way, &at![place]].concat();
                    let words = "the kernel path takes plain networks, as in 192.168.7.0/24";
                    self.problem(&way, words);
                }
            }
        }
        list.entries().next().map(|_| networks)
    }

    /// Keys that would be passed over in silence mean something else than their writer thinks.
    fn refuse_what_its_path_cannot(&mut self, index: usize, spec: &file::Frontend) {
        let kernel = spec.path != Path::User;
        let udp = spec.protocol == Protocol::Udp;
        for key in ["accept-proxy", "route", "inspect-timeout"] {
            let way = match key {
                "route" => at!["frontend", index, "route", 0, "backend"].to_vec(),
                key => at!["frontend", index, key].to_vec(),
            };
            if !self.check.has(&way) {
                continue;
            }
            if kernel {
                let words = format!("the kernel cannot do `{key}`: use path = \"user\"");
                self.problem(&way, words);
            } else if udp {
                self.problem(&way, format!("datagrams have no `{key}`"));
            }
        }
        let mut refuse = |key: &str, is_wrong: bool, words: &str| {
            let way = at!["frontend", index, key];
            if is_wrong && self.check.has(&way) {
                self.check.problem(&way, words);
            }
        };
        for key in ["limits", "max-connections"] {
            let words = format!("the kernel cannot do `{key}`: use path = \"user\"");
            refuse(key, kernel, &words);
        }
        let words = "`masquerade` is for path = \"kernel\"";
        refuse("masquerade", !kernel, words);
        let words = "`flows` is for protocol = \"udp\"";
        refuse("flows", !udp, words);
    }

    //--- All together

    /// Every backend that is named has to be there.
    pub(super) fn backends_exist(&mut self, backends: &[Backend]) {
        let file = self.file;
        for (index, frontend) in file.frontend.iter().enumerate() {
            if let Some(name) = &frontend.backend {
                self.backend_exists(name, backends, &at!["frontend", index, "backend"]);
            }
            for (place, route) in frontend.route.iter().enumerate() {
                let way = at!["frontend", index, "route", place, "backend"];
                self.backend_exists(&route.backend, backends, &way);
            }
        }
        for (index, service) in file.service.iter().enumerate() {
            for (place, port) in service.port.iter().enumerate() {
                let way = at!["service", index, "port", place, "backend"];
                self.backend_exists(&port.backend, backends, &way);
            }
        }
    }

    pub(super) fn backend_exists(&mut self, name: &str, backends: &[Backend], way: &[Step<'_>]) {
        if backends.iter().any(|backend| *backend.name == *name) {
            return;
        }
        let words = match nearest(name, backends.iter().map(|backend| &*backend.name)) {
            Some(meant) => format!("there is no backend `{name}`, did you mean `{meant}`?"),
            None => format!("there is no backend `{name}`"),
        };
        self.missing(way, words);
    }

    /// Two frontends on one address would fight for it.
    pub(super) fn addresses_once(&mut self, frontends: &[Frontend]) {
        let mut taken: BTreeMap<(bool, SocketAddr), Arc<str>> = BTreeMap::new();
        for (index, frontend) in frontends.iter().enumerate() {
            let udp = frontend.protocol == Protocol::Udp;
            for (place, address) in frontend.listen.iter().enumerate() {
                if address.port() == 0 {
                    continue;
                }
                let name = &frontend.name;
                let Some(before) = taken.insert((udp, *address), Arc::clone(name)) else {
                    continue;
                };
                let words = match before == *name {
                    true => format!("frontend {name} listens on {address} twice"),
                    false => format!("frontends {before} and {name} both listen on {address}"),
                };
                // The frontends of services are behind those of the file.
                match index < self.file.frontend.len() {
                    true => self.problem(&at!["frontend", index, "listen", place], words),
                    false => self.problem(&at!["service"], words),
                }
            }
        }
    }
}

fn source_limits(spec: &file::Limits) -> SourceLimits {
    SourceLimits {
        rules: Rules {
            connections: spec.connections.map(Whole::get),
            rate: spec.rate,
        },
        sources: spec.sources.min(limits::MAX_CAPACITY),
    }
}
