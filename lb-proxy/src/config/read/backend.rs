//! `[[backend]]`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use ::config::healthd::Verify as Authorities;
use ::config::lb_proxy::{self as file, HealthCheck, Kind};
use ::config::{DurationWithin, Whole, at};
use balance::pool::{Algorithm, MAX_SERVERS};
use balance::table::{OnDown, Policy};
use cluster_members::MOST_LEARNED;
use name_lookup::entry;
use proto::health::{CheckStep, Deviation, DnsProbe, HttpProbe, TargetKind, Verify};
use server_names::names::Entry;
use tcp_check::Conversation;

use super::Reader;
use crate::config::{Backend, Check, Protocol, Role, Server};

impl Reader<'_, '_> {
    pub(super) fn backends(&mut self, roles: &BTreeMap<String, Role>) -> Vec<Backend> {
        let datagrams = datagram_backends(self.file);
        let mut known = BTreeSet::new();
        let mut backends = Vec::new();
        for (index, spec) in self.file.backend.iter().enumerate() {
            let at_name = at!["backend", index, "name"];
            let name = self.name(&spec.name, &at_name);
            if !known.insert(Arc::clone(&name)) {
                self.problem(&at_name, format!("there are two backends `{name}`"));
            }
            if spec.most_servers() > MAX_SERVERS {
                let words = format!("a backend has {MAX_SERVERS} servers at most");
                self.problem(&at_name, words);
            }
            self.follow(index, spec);
            let role = roles.get(&*name).copied().unwrap_or_default();
            let udp = datagrams.contains(&*name);
            backends.push(self.backend(index, spec, name, (role, udp)));
        }
        backends
    }

    fn backend(
        &mut self,
        index: usize,
        spec: &file::Backend,
        name: Arc<str>,
        (role, udp): (Role, bool),
    ) -> Backend {
        let check = self.check(index, spec.check.as_ref(), role, udp);
        Backend {
            algorithm: spec.balance.unwrap_or(match role {
                Role::Api => Algorithm::LeastConnections,
                Role::Ingress => Algorithm::Source,
                // A flow of datagrams stays where it is when every node chooses alike.
                Role::Plain if udp => Algorithm::Source,
                Role::Plain => Algorithm::RoundRobin,
            }),
            fail_open: spec.fail_open,
            all_backups: spec.all_backups,
            queue: spec.queue,
            policy: Policy {
                on_down: spec.on_down.unwrap_or(match role {
                    // A router that stops fails its check first, and serves the sessions that it has for a while.
                    Role::Plain | Role::Ingress => OnDown::Finish,
                    // A watch on an API server that is gone would hang until its client gives up.
                    Role::Api => OnDown::Reset,
                }),
                ..Policy::of(spec)
            },
            servers: self.servers(index, spec, check.as_ref()),
            named: self.named(index, spec),
            check,
            name,
        }
    }

    /// Checks that nodes may join a backend.
    fn follow(&mut self, index: usize, spec: &file::Backend) {
        let Some(follow) = &spec.follow else {
            return;
        };
        let way = at!["backend", index, "follow"];
        match &self.file.cluster {
            None => self.missing(&way, "it needs the table `[cluster]`"),
            Some(cluster) if cluster.networks.is_empty() => {
                let words = "no node may join: `networks` of `[cluster]` is empty";
                self.missing(&way, words);
            }
            Some(_) => {}
        }
        if follow.nodes.is_empty() {
            let words = "no nodes are followed; write some, as in nodes = [\"masters\"]";
            self.missing(&at!["backend", index, "follow", "nodes"], words);
        }
        let most = MAX_SERVERS - MOST_LEARNED;
        if spec.most_servers() > most {
            let words =
                format!("a backend that follows nodes has {most} servers of its own at most");
            self.problem(&way, words);
        }
    }

    //--- Servers

    fn servers(
        &mut self,
        index: usize,
        backend: &file::Backend,
        check: Option<&Check>,
    ) -> Vec<Server> {
        let mut known = BTreeSet::new();
        let mut servers = Vec::new();
        for (place, spec) in backend.server.iter().enumerate() {
            let at_name = at!["backend", index, "server", place, "name"];
            let name = self.name(&spec.name, &at_name);
            if !known.insert(Arc::clone(&name)) {
                self.problem(&at_name, format!("there are two servers `{name}`"));
            }
            let at_address = at!["backend", index, "server", place, "address"];
            let Some(address) = spec.address.ip() else {
                continue;
            };
            if spec.servers.is_some() {
                let words = "an IP address is one server; only a name stands for several";
                self.problem(&at!["backend", index, "server", place, "servers"], words);
            }
            if address.ip().is_unspecified() || address.port() == 0 {
                let words = "is not an address that can be connected to";
                self.problem(&at_address, words);
            }
            let source = backend.source_address;
            if source.is_some_and(|source| source.is_ipv4() != address.is_ipv4()) {
                let words = "is of another family than the backend's `source-address`";
                self.problem(&at_address, words);
            }
            servers.push(server((name, address), spec, backend, check));
        }
        servers
    }

    /// The servers with DNS names.
    fn named(&mut self, index: usize, backend: &file::Backend) -> Vec<Entry> {
        let mut named = Vec::new();
        for (place, spec) in backend.server.iter().enumerate() {
            if spec.address.ip().is_some() {
                continue;
            }
            match entry(backend, spec) {
                Some(entry) => named.push(entry),
                None => {
                    let words = "is too long for a DNS name";
                    let way = at!["backend", index, "server", place, "address"];
                    self.problem(&way, words);
                }
            }
        }
        named
    }

    //--- Check

    fn check(
        &mut self,
        index: usize,
        written: Option<&HealthCheck>,
        role: Role,
        udp: bool,
    ) -> Option<Check> {
        let default = HealthCheck::default();
        let spec = written.unwrap_or(&default);
        let kind = spec.kind.unwrap_or(match role {
            Role::Api => Kind::Https,
            // A TCP probe of a port for datagrams would find every server down.
            Role::Ingress | Role::Plain if udp => Kind::None,
            Role::Ingress | Role::Plain => Kind::Tcp,
        });
        self.refuse_leftovers(index, spec, kind);
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let kind = match kind {
            Kind::None => return None,
            Kind::Tcp => TargetKind::Tcp,
            Kind::TcpCheck => TargetKind::TcpCheck(self.steps(index, spec)),
            Kind::Ntp => TargetKind::Ntp,
            Kind::Http => TargetKind::Http(self.http(index, spec, role)),
            Kind::Https => TargetKind::Https(HttpProbe {
                verify: self.verify(index, spec, role),
                ..self.http(index, spec, role)
            }),
            Kind::Grpc => TargetKind::Grpc {
                service: text(&spec.service),
            },
            Kind::Dns => {
                let default = DnsProbe::default();
                TargetKind::Dns(DnsProbe {
                    name: spec.name.clone().unwrap_or(default.name),
                    ..default
                })
            }
        };
        Some(Check {
            kind,
            port: spec.port.map(Whole::get),
            deviation: self.deviation(index, spec),
        })
    }

    fn steps(&mut self, index: usize, spec: &HealthCheck) -> Vec<CheckStep> {
        let written = spec.steps.iter().flatten();
        let steps: Result<Vec<_>, _> = written.map(::config::CheckStep::step).collect();
        let steps = steps.map_err(str::to_owned);
        match steps.and_then(|steps| Conversation::new(&steps).map(|_| steps)) {
            Ok(steps) => steps,
            Err(words) => {
                self.problem(&at!["backend", index, "check", "steps"], words);
                Vec::new()
            }
        }
    }

    fn deviation(&mut self, index: usize, spec: &HealthCheck) -> Deviation {
        let interval = spec.interval.map(DurationWithin::get);
        let fast_interval = spec.fast_interval.map(DurationWithin::get);
        if interval.is_some_and(|longest| fast_interval > Some(longest)) {
            let way = at!["backend", index, "check", "fast-interval"];
            self.problem(&way, "the fast interval is longer than the interval");
        }
        Deviation {
            interval,
            fast_interval,
            timeout: spec.timeout.map(DurationWithin::get),
            rise: spec.rise.map(Whole::get),
            fall: spec.fall.map(Whole::get),
        }
    }

    fn http(&mut self, index: usize, spec: &HealthCheck, role: Role) -> HttpProbe {
        let default = HttpProbe::default();
        if spec
            .path
            .as_ref()
            .is_some_and(|path| !path.starts_with('/'))
        {
            let way = at!["backend", index, "check", "path"];
            self.problem(&way, "a path begins with /");
        }
        let path = match role {
            Role::Api => "/readyz".to_owned(),
            Role::Ingress | Role::Plain => default.path,
        };
        HttpProbe {
            method: spec.method.clone().unwrap_or(default.method),
            host: spec.host.clone().unwrap_or(default.host),
            path: spec.path.clone().unwrap_or(path),
            status: spec.status.map_or(default.status, Whole::get),
            body: spec.body.clone().filter(|body| !body.is_empty()),
            ..HttpProbe::default()
        }
    }

    fn verify(&mut self, index: usize, spec: &HealthCheck, role: Role) -> Verify {
        let way = at!["backend", index, "check", "verify"];
        match (spec.verify, spec.ca_file.clone()) {
            (None | Some(Authorities::Ca), Some(file)) => Verify::Ca(file),
            (None, None) => match role {
                // Its certificate is the cluster's own.
                Role::Api => Verify::Off,
                Role::Ingress | Role::Plain => Verify::System,
            },
            (Some(Authorities::System), None) => Verify::System,
            (Some(Authorities::None), None) => Verify::Off,
            (Some(Authorities::Ca), None) => {
                self.missing(&way, "`ca-file` is missing");
                Verify::System
            }
            (Some(Authorities::System | Authorities::None), Some(_)) => {
                self.problem(&way, "with `ca-file`, `verify` is \"ca\"");
                Verify::System
            }
        }
    }

    /// Keys that the check's kind does not take mean something else than their writer thinks.
    fn refuse_leftovers(&mut self, index: usize, spec: &HealthCheck, kind: Kind) {
        let http: &[Kind] = &[Kind::Http, Kind::Https];
        let https: &[Kind] = &[Kind::Https];
        let keys: [(&str, bool, &[Kind]); 10] = [
            ("steps", spec.steps.is_some(), &[Kind::TcpCheck]),
            ("method", spec.method.is_some(), http),
            ("path", spec.path.is_some(), http),
            ("host", spec.host.is_some(), http),
            ("status", spec.status.is_some(), http),
            ("body", spec.body.is_some(), http),
            ("verify", spec.verify.is_some(), https),
            ("ca-file", spec.ca_file.is_some(), https),
            ("service", spec.service.is_some(), &[Kind::Grpc]),
            ("name", spec.name.is_some(), &[Kind::Dns]),
        ];
        for (key, is_written, kinds) in keys {
            // Without its kind, which was wrong, a check is of another than its writer meant.
            if is_written && !kinds.contains(&kind) {
                let words = format!("a check of kind {} has no `{key}`", kind.name());
                self.missing(&at!["backend", index, "check", key], words);
            }
        }
    }
}

/// A server of a backend, by its name and address.
pub(crate) fn server(
    (name, address): (Arc<str>, SocketAddr),
    spec: &file::Server,
    backend: &file::Backend,
    check: Option<&Check>,
) -> Server {
    let check = check.filter(|_| spec.check);
    let mut target = check.map(|check| check.target(address));
    if let (Some(target), Some(port)) = (&mut target, spec.check_port) {
        target.target.address.set_port(port.get());
    }
    let max_connections = spec.max_connections.or(backend.max_connections);
    Server {
        name,
        address,
        weight: spec.weight.get(),
        backup: spec.backup,
        max_connections: max_connections.map(Whole::get),
        slow_start: spec.slow_start.or(backend.slow_start).unwrap_or_default().0,
        target,
        maintenance: spec.maintenance,
        origin: None,
        is_cordoned: false,
    }
}

/// The backends that datagrams go to.
fn datagram_backends(file: &file::LbProxy) -> BTreeSet<&str> {
    let frontends = file.frontend.iter().filter_map(|frontend| {
        let is_udp = frontend.protocol == Protocol::Udp;
        frontend.backend.as_deref().filter(|_| is_udp)
    });
    let ports = file.service.iter().flat_map(|service| &service.port);
    let ports = ports.filter(|port| port.protocol == Protocol::Udp);
    frontends
        .chain(ports.map(|port| port.backend.as_str()))
        .collect()
}
