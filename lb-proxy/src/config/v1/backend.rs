//! `[[backend]]`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use balance::pool::{Algorithm, MAX_SERVERS, MAX_WEIGHT, ServerSettings, Settings};
use balance::table::{OnDown, OnUp, Policy, SendProxy};
use proto::health::{DnsProbe, HttpProbe, Schedule, TargetKind, Verify};
use toml::Spanned;

use super::spec::{
    BackendSpec, BalanceSpec, CheckField, CheckSpec, OnDownSpec, OnUpSpec, SendProxySpec,
    ServerSpec, Spec,
};
use super::{Reader, above_zero};
use crate::config::{Backend, Check, Protocol, Role, Server};

/// Probes as OpenShift's documentation has them: a server is out 6 s after it fails, and back after 4 s.
const SCHEDULE: Schedule = Schedule {
    interval: Duration::from_secs(2),
    fast_interval: Duration::from_secs(1),
    timeout: Duration::from_secs(2),
    rise: 2,
    fall: 3,
};

impl Reader<'_> {
    pub(super) fn backends(&mut self, spec: &Spec, roles: &BTreeMap<String, Role>) -> Vec<Backend> {
        let datagrams: BTreeSet<&str> = datagram_backends(spec);
        let mut known = BTreeSet::new();
        let mut backends = Vec::new();
        for spec in &spec.backend {
            let name = self.name(&spec.name);
            if !known.insert(Arc::clone(&name)) {
                self.problem(spec.name.span(), format!("there are two backends `{name}`"));
            }
            let role = roles.get(&*name).copied().unwrap_or_default();
            let udp = datagrams.contains(&*name);
            backends.push(self.backend(spec, name, role, udp));
        }
        backends
    }

    fn backend(&mut self, spec: &BackendSpec, name: Arc<str>, role: Role, udp: bool) -> Backend {
        let check = match &spec.check {
            Some(CheckField::None) => None,
            Some(CheckField::As(check)) => self.check(check, role, udp),
            None => self.check(&CheckSpec::default(), role, udp),
        };
        if spec.server.len() > MAX_SERVERS {
            self.problem(
                spec.name.span(),
                format!("a backend has {MAX_SERVERS} servers at most"),
            );
        }
        Backend {
            algorithm: match (spec.balance, role) {
                (Some(BalanceSpec::RoundRobin), _) => Algorithm::RoundRobin,
                (Some(BalanceSpec::LeastConnections), _) | (None, Role::Api) => {
                    Algorithm::LeastConnections
                }
                (Some(BalanceSpec::RandomOfTwo), _) => Algorithm::RandomOfTwo,
                (Some(BalanceSpec::Source), _) | (None, Role::Ingress) => Algorithm::Source,
                // A flow of datagrams stays where it is when every node chooses alike.
                (None, Role::Plain) if udp => Algorithm::Source,
                (None, Role::Plain) => Algorithm::RoundRobin,
            },
            fail_open: spec.fail_open,
            all_backups: spec.all_backups,
            queue: spec.queue.unwrap_or(Settings::QUEUE),
            policy: self.policy(spec, role),
            servers: self.servers(spec, check.as_ref()),
            check,
            name,
        }
    }

    fn policy(&mut self, spec: &BackendSpec, role: Role) -> Policy {
        let default = Policy::default();
        Policy {
            send_proxy: match spec.send_proxy {
                SendProxySpec::No => SendProxy::No,
                SendProxySpec::V1 => SendProxy::V1,
                SendProxySpec::V2 => SendProxy::V2,
            },
            connect_timeout: self.time(spec.connect_timeout.as_ref(), default.connect_timeout),
            retries: spec.retries.unwrap_or(default.retries),
            queue_timeout: self.time(spec.queue_timeout.as_ref(), default.queue_timeout),
            idle_timeout: spec.idle_timeout.and_then(above_zero),
            client_fin: spec.client_fin.and_then(above_zero),
            server_fin: spec.server_fin.and_then(above_zero),
            server: self.side(&spec.connection),
            on_down: match (spec.on_down, role) {
                (Some(OnDownSpec::Finish), _) | (None, Role::Plain) => OnDown::Finish,
                // A watch on an API server that is gone would hang until its client gives up.
                (Some(OnDownSpec::Reset), _) | (None, Role::Api | Role::Ingress) => OnDown::Reset,
            },
            on_up: match spec.on_up {
                OnUpSpec::Reset => OnUp::Reset,
                OnUpSpec::Finish => OnUp::Finish,
            },
            source_address: spec.source_address,
        }
    }

    //--- Servers

    fn servers(&mut self, spec: &BackendSpec, check: Option<&Check>) -> Vec<Server> {
        let mut known = BTreeSet::new();
        let mut servers = Vec::new();
        for server in &spec.server {
            let name = self.name(&server.name);
            if !known.insert(Arc::clone(&name)) {
                self.problem(
                    server.name.span(),
                    format!("there are two servers `{name}`"),
                );
            }
            servers.extend(self.server(server, spec, check, name));
        }
        servers
    }

    fn server(
        &mut self,
        spec: &ServerSpec,
        backend: &BackendSpec,
        check: Option<&Check>,
        name: Arc<str>,
    ) -> Option<Server> {
        let address = self.address(&spec.address)?;
        if address.ip().is_unspecified() || address.port() == 0 {
            self.problem(
                spec.address.span(),
                "is not an address that can be connected to",
            );
        }
        if backend
            .source_address
            .is_some_and(|source| source.is_ipv4() != address.is_ipv4())
        {
            self.problem(
                spec.address.span(),
                "is of another family than the backend's `source-address`",
            );
        }
        let weight = spec
            .weight
            .as_ref()
            .map_or(ServerSettings::WEIGHT, |n| *n.get_ref());
        if let Some(written) = spec.weight.as_ref().filter(|_| weight > MAX_WEIGHT) {
            self.problem(written.span(), format!("a weight is 0 to {MAX_WEIGHT}"));
        }
        let max_connections = spec.max_connections.as_ref();
        let max_connections = max_connections.or(backend.max_connections.as_ref());
        let slow_start = spec.slow_start.or(backend.slow_start);
        let mut target = check
            .filter(|_| spec.check)
            .map(|check| check.target(address));
        if let (Some(target), Some(port)) = (&mut target, &spec.check_port) {
            target.address.set_port(*port.get_ref());
        }
        Some(Server {
            name,
            address,
            weight,
            backup: spec.backup,
            max_connections: self.at_least_one(max_connections),
            slow_start: slow_start.map_or(Duration::ZERO, Duration::from),
            target,
            maintenance: spec.maintenance,
        })
    }

    //--- Check

    fn check(&mut self, spec: &CheckSpec, role: Role, udp: bool) -> Option<Check> {
        let kind = match (&spec.kind, role) {
            (Some(kind), _) => kind.get_ref().as_str(),
            (None, Role::Api) => "https",
            // A TCP probe of a port for datagrams would find everybody down.
            (None, Role::Ingress | Role::Plain) if udp => "none",
            (None, Role::Ingress | Role::Plain) => "tcp",
        };
        self.refuse_leftovers(spec, kind);
        let kind = match kind {
            "none" => return None,
            "tcp" => TargetKind::Tcp,
            "ntp" => TargetKind::Ntp,
            "http" => TargetKind::Http(self.http(spec, role)),
            "https" => TargetKind::Https(HttpProbe {
                verify: self.verify(spec, role),
                ..self.http(spec, role)
            }),
            "grpc" => TargetKind::Grpc {
                service: text(spec.service.as_ref()).unwrap_or_default(),
            },
            "dns" => TargetKind::Dns(DnsProbe {
                name: text(spec.name.as_ref()).unwrap_or_else(|| ".".to_owned()),
                ..DnsProbe::default()
            }),
            other => {
                let words = format!(
                    "unknown kind `{other}`: tcp, http, https, grpc, dns, ntp and none are known"
                );
                self.problem(spec.kind.as_ref().map_or(0..0, Spanned::span), words);
                return None;
            }
        };
        if let Some(port) = spec.port.as_ref().filter(|port| *port.get_ref() == 0) {
            self.problem(port.span(), "0 is no port");
        }
        Some(Check {
            kind,
            port: spec.port.as_ref().map(|port| *port.get_ref()),
            schedule: self.schedule(spec),
        })
    }

    fn schedule(&mut self, spec: &CheckSpec) -> Schedule {
        let interval = self.time(spec.interval.as_ref(), SCHEDULE.interval);
        if let Some(written) = spec
            .interval
            .as_ref()
            .filter(|_| interval < Schedule::MIN_INTERVAL)
        {
            self.problem(written.span(), "at least 100ms is needed");
        }
        let fast = self.time(
            spec.fast_interval.as_ref(),
            SCHEDULE.fast_interval.min(interval),
        );
        if let Some(written) = spec.fast_interval.as_ref().filter(|_| fast > interval) {
            self.problem(
                written.span(),
                "the fast interval is longer than the interval",
            );
        }
        Schedule {
            interval,
            fast_interval: fast,
            timeout: self.time(spec.timeout.as_ref(), SCHEDULE.timeout),
            rise: self
                .at_least_one(spec.rise.as_ref())
                .unwrap_or(SCHEDULE.rise),
            fall: self
                .at_least_one(spec.fall.as_ref())
                .unwrap_or(SCHEDULE.fall),
        }
    }

    fn http(&mut self, spec: &CheckSpec, role: Role) -> HttpProbe {
        if let Some(status) = &spec.status
            && !(100..1000).contains(status.get_ref())
        {
            self.problem(status.span(), "no HTTP status");
        }
        if let Some(path) = &spec.path
            && !path.get_ref().starts_with('/')
        {
            self.problem(path.span(), "a path begins with /");
        }
        let default = HttpProbe::default();
        let path = match role {
            Role::Api => "/readyz".to_owned(),
            Role::Ingress | Role::Plain => default.path,
        };
        HttpProbe {
            method: text(spec.method.as_ref()).unwrap_or(default.method),
            host: text(spec.host.as_ref()).unwrap_or(default.host),
            path: text(spec.path.as_ref()).unwrap_or(path),
            status: spec
                .status
                .as_ref()
                .map_or(default.status, |status| *status.get_ref()),
            body: text(spec.body.as_ref()).filter(|body| !body.is_empty()),
            ..HttpProbe::default()
        }
    }

    fn verify(&mut self, spec: &CheckSpec, role: Role) -> Verify {
        let ca_file = text(spec.ca_file.as_ref());
        let Some(verify) = &spec.verify else {
            return match (ca_file, role) {
                (Some(file), _) => Verify::Ca(file),
                // Its certificate is the cluster's own.
                (None, Role::Api) => Verify::Off,
                (None, Role::Ingress | Role::Plain) => Verify::System,
            };
        };
        match (verify.get_ref().as_str(), ca_file) {
            ("system", None) => Verify::System,
            ("none" | "off", None) => Verify::Off,
            ("ca", Some(file)) => Verify::Ca(file),
            ("ca", None) => {
                self.problem(verify.span(), "`ca-file` is missing");
                Verify::System
            }
            ("system" | "none" | "off", Some(_)) => {
                self.problem(verify.span(), "with `ca-file`, `verify` is \"ca\"");
                Verify::System
            }
            _ => {
                self.problem(
                    verify.span(),
                    "one of \"system\", \"ca\" and \"none\" is needed",
                );
                Verify::System
            }
        }
    }

    /// Keys that the check's kind does not take mean something else than their writer thinks.
    fn refuse_leftovers(&mut self, spec: &CheckSpec, kind: &str) {
        let http = ["http", "https"];
        let keys: [Key<'_>; 8] = [
            ("method", spec.method.as_ref(), &http),
            ("path", spec.path.as_ref(), &http),
            ("host", spec.host.as_ref(), &http),
            ("body", spec.body.as_ref(), &http),
            ("verify", spec.verify.as_ref(), &["https"]),
            ("ca-file", spec.ca_file.as_ref(), &["https"]),
            ("service", spec.service.as_ref(), &["grpc"]),
            ("name", spec.name.as_ref(), &["dns"]),
        ];
        let mut spans: Vec<_> = keys
            .iter()
            .filter(|(_, _, kinds)| !kinds.contains(&kind))
            .filter_map(|(key, value, _)| Some((*key, (*value)?.span())))
            .collect();
        if let Some(status) = spec.status.as_ref().filter(|_| !http.contains(&kind)) {
            spans.push(("status", status.span()));
        }
        for (key, span) in spans {
            self.problem(span, format!("a check of kind {kind} has no `{key}`"));
        }
    }
}

/// A key's name, its value if it is written, and the kinds of checks that have it.
type Key<'a> = (&'static str, Option<&'a Spanned<String>>, &'a [&'a str]);

/// The backends that datagrams go to.
fn datagram_backends(spec: &Spec) -> BTreeSet<&str> {
    let frontends = spec.frontend.iter().filter_map(|frontend| {
        let is_udp = Protocol::from(frontend.protocol) == Protocol::Udp;
        frontend.backend.as_ref().filter(|_| is_udp)
    });
    let ports = spec.service.iter().flat_map(|service| &service.port);
    let ports = ports.filter(|port| Protocol::from(port.protocol) == Protocol::Udp);
    frontends
        .chain(ports.map(|port| &port.backend))
        .map(|name| name.get_ref().as_str())
        .collect()
}

fn text(value: Option<&Spanned<String>>) -> Option<String> {
    value.map(|value| value.get_ref().clone())
}
