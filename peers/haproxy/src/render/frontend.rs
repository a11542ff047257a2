//! Frontends of HAProxy as frontends of lb-proxy.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use cidrs::Cidrs;
use config::lb_proxy::{AcceptProxy, Frontend, Role, Time};
use config::{Address, Class, Networks};

use super::{Site, positive};
use crate::bind::Bind;
use crate::proxy::Proxy;
use crate::rules::{Routes, Sources, sources};
use crate::source_limits::{SourceLimits, Tables};

impl Site<'_, '_> {
    pub(super) fn frontends(&mut self) -> Vec<Frontend> {
        let mut frontends = Vec::new();
        let tables = Tables::of(self.proxies);
        let mut limiting = BTreeSet::new();
        for proxy in self.proxies.iter().filter(|proxy| proxy.is_frontend()) {
            let routes = self.routes(proxy);
            // Sockets that differ in more than their address are frontends of their own.
            let mut groups: Vec<(&Bind, Vec<SocketAddr>)> = Vec::new();
            for bind in &proxy.binds {
                let key = |bind: &Bind| (bind.accepts_proxy, bind.max_connections);
                match groups.iter_mut().find(|(first, _)| key(first) == key(bind)) {
                    Some((_, sockets)) => sockets.extend(&bind.sockets),
                    None => groups.push((bind, bind.sockets.clone())),
                }
            }
            let n_groups = groups.len();
            for (number, (bind, sockets)) in (1..).zip(groups) {
                let name = match number {
                    1 => proxy.name.to_owned(),
                    _ => format!("{}-{number}", proxy.name),
                };
                let (rules, acls) = (&proxy.tcp_requests, &proxy.acls);
                let has_ipv6 = sockets.iter().any(SocketAddr::is_ipv6);
                let mut limits = SourceLimits::new(&tables, proxy.name, n_groups > 1, has_ipv6);
                let accepts_proxy = bind.accepts_proxy;
                let sources = sources(rules, acls, accepts_proxy, &mut limits, &mut self.notes);
                let mut frontend = frontend(name, &sockets, &routes, &sources);
                if bind.accepts_proxy {
                    frontend.accept_proxy = AcceptProxy::Required;
                }
                if let Some(how) = role_in_words(frontend.role) {
                    let what = format!("frontend {}", frontend.name);
                    self.notes.differs(Class::Behaviour, &proxy.at, &what, how);
                }
                let limit = bind.max_connections.or(proxy.max_connections);
                frontend.limits = limits.limits;
                limiting.extend(limits.tables_of_limits());
                frontend.max_connections = limit.and_then(positive);
                if let Some(delay) = proxy.inspect_delay.filter(|_| !routes.routes.is_empty()) {
                    frontend.inspect_timeout = Time::clamped(delay);
                }
                frontends.push(frontend);
            }
        }
        self.unused_tables(&limiting);
        frontends
    }

    /// Says which stick tables are lost: those that no limit is made of.
    fn unused_tables(&mut self, limiting: &BTreeSet<String>) {
        for proxy in self.proxies {
            let line = proxy.stick_table;
            let unused = line.filter(|_| !limiting.contains(proxy.name));
            if let Some(line) = unused {
                let reason =
                    "there are no stick tables but for limits of sources; see `source` of balance";
                self.notes
                    .lost(Class::Behaviour, line.position(), &line.text(), reason);
            }
        }
    }

    /// The targets of connections to `proxy`, without those that are not there.
    fn routes(&mut self, proxy: &Proxy<'_>) -> Routes {
        const GONE: &str = "there is no such backend";
        let own = (!proxy.servers.is_empty()).then(|| proxy.name.to_owned());
        let default = match proxy.default_backend {
            // A `listen` section uses its own servers last.
            Some((name, at)) if !self.backend_exists(name) => {
                let what = format!("default_backend {name}");
                self.notes.lost(Class::Behaviour, at, &what, GONE);
                own
            }
            Some((name, _)) => Some(name.to_owned()),
            None => own,
        };
        let mut routes = Routes::new(&proxy.use_backends, default, &proxy.acls, &mut self.notes);
        for name in routes.backends() {
            if !self.backend_exists(name) {
                let what = format!("use_backend {name}");
                self.notes.lost(Class::Behaviour, &proxy.at, &what, GONE);
            }
        }
        routes
            .routes
            .retain(|route| self.backend_exists(&route.backend));
        routes.default = routes
            .default
            .filter(|backend| self.backend_exists(backend));
        if routes.default.is_none() && routes.routes.is_empty() {
            let what = format!("frontend {}", proxy.name);
            let how = "nothing is left that it could lead to";
            self.notes.differs(Class::Behaviour, &proxy.at, &what, how);
        }
        routes
    }
}

fn frontend(name: String, sockets: &[SocketAddr], routes: &Routes, sources: &Sources) -> Frontend {
    let networks = |list: &[ipnet::IpNet]| list.iter().copied().collect::<Networks>();
    let (allow_from, deny_from) = match &sources.allow {
        // An empty list would let every client in.
        Some(allow) if allow.is_empty() => (Networks::default(), Networks(Cidrs::any())),
        Some(allow) => (networks(allow), networks(&sources.deny)),
        None => (Networks::default(), networks(&sources.deny)),
    };
    Frontend {
        role: role(sockets),
        backend: routes.default.clone(),
        route: routes.routes.clone(),
        route_order: routes.order,
        allow_from,
        deny_from,
        ..Frontend::new(name, sockets.iter().copied().map(Address).collect())
    }
}

/// OpenShift's use of these ports.
fn role(sockets: &[SocketAddr]) -> Role {
    let has = |wanted: &[u16]| sockets.iter().any(|socket| wanted.contains(&socket.port()));
    if has(&[6443, 22_623]) {
        Role::Api
    } else if has(&[80, 443]) {
        Role::Ingress
    } else {
        Role::Plain
    }
}

/// The consequence of a role; its other defaults are written out in the backend.
fn role_in_words(role: Role) -> Option<&'static str> {
    match role {
        Role::Api => Some(
            "its port makes it `role = \"api\"`: lb-proxy resets sessions of a server that goes down, so that watches \
             connect again at once; `on-down = \"finish\"` in the backend keeps them",
        ),
        Role::Ingress => Some(
            "its port makes it `role = \"ingress\"`: sessions of a server that goes down stay, as with HAProxy",
        ),
        Role::Plain => None,
    }
}
