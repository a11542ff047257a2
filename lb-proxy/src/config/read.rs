//! From the keys of the file to frontends, backends and virtual IPs, and the rules between them.

mod backend;
mod frontend;
mod service;
mod vip;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use ::config::lb_proxy::{LbProxy, NAMESERVERS};
use ::config::{Check, Networks, Step, at};
use daemon::acl::Cidrs;

use super::{Backend, Frontend, Protocol, Role, Service, Vip};
pub(crate) use backend::server;
pub(crate) use vip::{lease_name, router};

/// The most servers with DNS names: lb-proxy asks for each every few seconds.
const MOST_NAMES: usize = 1024;

/// The parts of a configuration.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) frontends: Vec<Frontend>,
    pub(super) backends: Vec<Backend>,
    pub(super) vips: Vec<Vip>,
    pub(super) services: Vec<Service>,
    pub(super) warnings: Vec<String>,
}

/// Makes the parts, and says everything that is wrong with them and where.
pub(super) fn parts(file: &LbProxy, check: &mut Check<'_>) -> Parts {
    let mut reader = Reader {
        file,
        is_partial: check.n_problems() > 0,
        check,
        warnings: Vec::new(),
    };
    let roles = reader.roles();
    let backends = reader.backends(&roles);
    let mut frontends = reader.frontends();
    reader.backends_exist(&backends);
    let mut vips = reader.vips(&frontends, &backends);
    let services = reader.services(&mut frontends, &mut vips, &backends);
    reader.addresses_once(&frontends);
    reader.stats_sockets();
    reader.resolvers(&backends);
    reader.monitors(&frontends, &backends);
    Parts {
        frontends,
        backends,
        vips,
        services,
        warnings: reader.warnings,
    }
}

struct Reader<'a, 'c> {
    file: &'a LbProxy,
    check: &'a mut Check<'c>,
    /// Whether wrong values were left out, so that a part that is missing may be one of them.
    is_partial: bool,
    warnings: Vec<String>,
}

impl Reader<'_, '_> {
    /// The role of each backend in OpenShift: that of the first frontend that leads there.
    fn roles(&mut self) -> BTreeMap<String, Role> {
        let mut roles = BTreeMap::new();
        for (index, frontend) in self.file.frontend.iter().enumerate() {
            let role = frontend.role;
            if role == Role::Plain {
                continue;
            }
            let mut claim = |name: &str, way: &[Step<'_>]| {
                let known = *roles.entry(name.to_owned()).or_insert(role);
                if known != role {
                    let words =
                        "is the backend of the API and of the ingress; they have different rules";
                    self.check.problem(way, words);
                }
            };
            // A backend that is routed to by name has another role, unless it has no other route.
            match &frontend.backend {
                Some(backend) => claim(backend, &at!["frontend", index, "backend"]),
                None => {
                    for (place, route) in frontend.route.iter().enumerate() {
                        let way = at!["frontend", index, "route", place, "backend"];
                        claim(&route.backend, &way);
                    }
                }
            }
        }
        roles
    }

    /// A page has a path, an address of its own, and backends that are there.
    fn monitors(&mut self, frontends: &[Frontend], backends: &[Backend]) {
        let tcp = frontends
            .iter()
            .filter(|frontend| frontend.protocol == Protocol::Tcp);
        let mut taken: BTreeSet<SocketAddr> =
            tcp.flat_map(|frontend| frontend.listen.clone()).collect();
        for (index, monitor) in self.file.monitor.iter().enumerate() {
            if !monitor.path.starts_with('/') {
                self.problem(&at!["monitor", index, "path"], "a path begins with /");
            }
            if monitor.listen.is_empty() {
                self.missing(
                    &at!["monitor", index, "listen"],
                    "a monitor listens somewhere",
                );
            }
            for (place, address) in monitor.listen.iter().enumerate() {
                if address.0.port() != 0 && !taken.insert(address.0) {
                    let words = format!("a frontend or another monitor listens on {address}");
                    self.problem(&at!["monitor", index, "listen", place], words);
                }
            }
            for (place, need) in monitor.needs.iter().enumerate() {
                let way = at!["monitor", index, "needs", place, "backend"];
                self.backend_exists(&need.backend, backends, &way);
            }
        }
    }

    /// Names need a resolver, and a bounded number of lookups.
    fn resolvers(&mut self, backends: &[Backend]) {
        let n_names: usize = backends.iter().map(|backend| backend.named.len()).sum();
        let n_servers = self.file.resolvers.nameservers.len();
        let way = at!["resolvers", "nameservers"];
        if n_servers > NAMESERVERS {
            let words = format!("lb-proxy asks at most {NAMESERVERS} resolvers");
            self.problem(&way, words);
        } else if n_servers == 0 && n_names > 0 {
            self.missing(
                &way,
                "servers have DNS names, and there is no resolver to ask",
            );
        }
        if n_names > MOST_NAMES {
            let words = format!("at most {MOST_NAMES} servers have DNS names; use `servers`");
            self.problem(&at!["backend"], words);
        }
    }

    /// Two sockets at one path would fight for it.
    fn stats_sockets(&mut self) {
        let mut known = BTreeSet::new();
        let swap = self.file.swap.socket();
        for (index, socket) in self.file.stats_socket.iter().enumerate() {
            let path = socket.path.as_path();
            if !known.insert(path) || swap == Some(path) {
                let words = format!("{} is another socket already", path.display());
                self.problem(&at!["stats-socket", index, "path"], words);
            }
        }
    }

    //--- Values

    fn problem(&mut self, way: &[Step<'_>], message: impl Into<String>) {
        self.check.problem(way, message);
    }

    /// A problem that may follow from a wrong value elsewhere, and is left out when there is one.
    fn missing(&mut self, way: &[Step<'_>], message: impl Into<String>) {
        if !self.is_partial {
            self.check.problem(way, message);
        }
    }

    fn warning(&mut self, way: &[Step<'_>], message: impl fmt::Display) {
        let place = self.check.position(way);
        self.warnings.push(format!("{place}: {message}"));
    }

    /// A name that can be typed on a command line and stand in a URL.
    fn name(&mut self, name: &str, way: &[Step<'_>]) -> Arc<str> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
        if name.is_empty() || !name.bytes().all(plain) {
            let words = "a name is of letters, digits and `-` `_` `.` `:` `/`";
            self.problem(way, words);
        }
        name.into()
    }

    /// The networks of a list; its odd entries become warnings.
    fn networks(&mut self, list: &Networks, way: &[Step<'_>]) -> Cidrs {
        for warning in list.warnings() {
            self.warning(way, warning);
        }
        list.0.clone()
    }
}
