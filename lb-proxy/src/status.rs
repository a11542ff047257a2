//! The output of `status`: as JSON from the running proxy, and in lines for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use api::Status;
use api::lb_proxy::{
    Backend, Cluster, Connections, Decision, Detail, FlowTable, Frontend, FrontendTally, Healthd,
    Kernel, Origin, Path, Probe, Protocol, RefusedNode, RefusedService, Resolving, Server, Service,
    Session, Vip,
};
use balance::pool::Reason;
use balance::table;
use config_text::counted;
use daemon::clock;
use daemon::config::HumanDuration;
use daemon::decision;
use daemon::run::headline;
use l4::datagram;
use l4::relay::Engine;
use proto::health::Liveness;
use proto::lease::{Leases, Rule, State};
use proto::link::Link;
use vrrp_net::status::RouterStatus;

use crate::config::{self, Config};
use crate::datagrams::Datagrams;
use crate::kernel_path;
use crate::leases;
use crate::server_state::Override;
use crate::table_builder::{ServerKey, View};

/// The most sessions of the kernel that are counted: this bounds the cost, a tenth of a second
/// at most. With more, there are at least this many.
const MOST_COUNTED: usize = 65_536;

/// The proxy's own state.
#[derive(Debug)]
pub struct Report {
    /// The data path.
    pub engine: Arc<Engine>,
    /// The sources of the status.
    pub view: Arc<View>,
    /// The stream from healthd.
    pub link: Link,
    /// The nodes of the cluster; none where it is not followed.
    pub cluster: Option<Cluster>,
    /// The names of servers; none where there are none.
    pub resolving: Option<Resolving>,
    /// Frontends for datagrams.
    pub(crate) datagrams: Datagrams,
    /// The kernel's rules, if there are any.
    pub kernel: Option<netfilter::Status>,
    /// Virtual routers.
    pub routers: Vec<RouterStatus>,
    /// Their leases, as healthd says.
    pub leases: Arc<Leases>,
}

impl Report {
    /// The detail of the status.
    #[must_use]
    pub fn detail(&self) -> Detail {
        let now = clock::now();
        let counters = self.engine.counters();
        let listening = self.engine.listening();
        let config = self.view.config.as_deref();
        let frontends = config.map_or(&[][..], |config| &config.frontends);
        let flows = self.datagrams.status();
        let frontends = frontends
            .iter()
            .map(|frontend| self.frontend(frontend, &listening, &flows));
        let forwarded = self.forwarded();
        let backends = self.view.table.backends.iter();
        let backends = backends.map(|backend| self.backend(backend, now));
        Detail {
            sessions: load(&counters.sessions),
            most_sessions: self.engine.most_sessions(),
            accepted: load(&counters.accepted),
            frontends: frontends.collect(),
            backends: backends.collect(),
            vips: self
                .routers
                .iter()
                .map(|router| vip(router, &self.leases, now))
                .collect(),
            services: services(config),
            kernel: self.kernel.as_ref().map(|status| kernel(status, forwarded)),
            healthd: self.link.state().map(|state| Healthd {
                connected: state.connected,
                error: state.error,
                age_seconds: self.link.age().map(|age| age.as_secs_f64()),
                generation: self.view.snapshot.generation,
                stand_in: self.view.snapshot.stands_in,
            }),
            cluster: self.cluster.clone(),
            resolving: self.resolving.clone(),
        }
    }

    /// How many sessions of each frontend the kernel forwards; none where it does not tell.
    fn forwarded(&self) -> BTreeMap<String, u64> {
        let mut sessions = BTreeMap::new();
        let (Some(_), Some(config)) = (&self.kernel, &self.view.config) else {
            return sessions;
        };
        let frontends = kernel_path::frontends(config, &self.view.table);
        let listed = netfilter::Sessions::new(&frontends).list(MOST_COUNTED, |_| true);
        for session in listed.unwrap_or_default() {
            *sessions.entry(session.frontend.to_string()).or_default() += 1;
        }
        sessions
    }

    fn frontend(
        &self,
        frontend: &config::Frontend,
        listening: &[(Arc<str>, SocketAddr)],
        flows: &[datagram::Status],
    ) -> Frontend {
        let name = &frontend.name;
        let bound = listening.iter().filter(|(of, _)| of == name);
        let bound = bound.map(|(_, address)| *address);
        let bound = bound.chain(self.datagrams.listening(name));
        let bound: Vec<String> = bound.map(|address| address.to_string()).collect();
        let listen = match bound.is_empty() {
            false => bound,
            true => frontend.listen.iter().map(ToString::to_string).collect(),
        };
        let able = self.view.abilities.get(format!("frontend:{name}").as_str());
        let flows = flows.iter().find(|status| status.frontend == *name);
        let known = self.view.table.frontend(name);
        Frontend {
            name: name.to_string(),
            protocol: match frontend.protocol {
                config::Protocol::Tcp => Protocol::Tcp,
                config::Protocol::Udp => Protocol::Udp,
            },
            path: match frontend.path {
                config::Path::User => Path::User,
                config::Path::Kernel | config::Path::KernelPreferred => Path::Kernel,
            },
            listen,
            able: able.copied(),
            flows: flows.and_then(|status| u64::try_from(status.flows).ok()),
            flows_opened: flows.map(|status| status.counts.opened),
            tally: known.map(|known| frontend_tally(&known.tally)),
        }
    }

    fn backend(&self, backend: &table::Backend, now: Instant) -> Backend {
        let pool = &backend.pool;
        let explained = pool.explain(now);
        let servers = pool
            .servers
            .iter()
            .zip(explained)
            .map(|(server, explained)| {
                let key = (Arc::clone(&pool.name), Arc::clone(&server.name));
                let history = self.view.histories.get(&key);
                let tally = &server.load.tally;
                Server {
                    name: server.name.to_string(),
                    address: server.address.to_string(),
                    state: history.map(|history| history.verdict.name().to_owned()),
                    since_seconds: history
                        .map(|history| now.saturating_duration_since(history.since).as_secs()),
                    chosen: explained.reason.is_chosen(),
                    why: self.why(&key, &explained.reason),
                    origin: self.server(&key).and_then(|server| server.origin),
                    decisions: self.decisions(&key),
                    avoided_seconds: server.avoided(now).map(|left| left.as_secs_f64()),
                    probe: self.probe(&key),
                    weight: server.weight,
                    backup: server.backup,
                    sessions: explained.sessions,
                    limit: explained.limit,
                    total: server.load.total(),
                    connect_errors: load(&tally.connect_errors),
                    resets: load(&tally.resets),
                    bytes_in: load(&tally.bytes_in),
                    bytes_out: load(&tally.bytes_out),
                }
            });
        Backend {
            name: pool.name.to_string(),
            usable: pool.n_usable(),
            queued: pool.queue.waiting(),
            servers: servers.collect(),
        }
    }

    fn server(&self, key: &ServerKey) -> Option<&config::Server> {
        let config = self.view.config.as_deref()?;
        config.server(&key.0, &key.1)
    }

    /// Why new sessions go to a server, or do not.
    fn why(&self, key: &ServerKey, reason: &Reason) -> String {
        let said = self.view.overrides.get(key);
        let has_decision = said.is_some_and(|said| said.state.is_some());
        let is_cordoned = self.server(key).is_some_and(|server| server.is_cordoned);
        match (reason, has_decision) {
            (Reason::Drain, false) if is_cordoned => {
                "its node is cordoned, or about to be deleted".to_owned()
            }
            _ => reason.to_string(),
        }
    }

    /// The decisions of operators about a server.
    fn decisions(&self, key: &ServerKey) -> Vec<Decision> {
        let said = self.view.overrides.get(key);
        let decisions = said.into_iter().flat_map(Override::decisions);
        let decision = |(decided, terms)| Decision {
            decided,
            terms: decision::shown(terms),
        };
        decisions.map(decision).collect()
    }

    /// healthd's last result about a server.
    fn probe(&self, key: &ServerKey) -> Option<Probe> {
        let target = self.server(key)?.target.as_ref()?;
        let status = self.view.snapshot.watched(target);
        Some(Probe {
            target: target.to_string(),
            liveness: status.map(|status| status.liveness),
            admin: status.map(|status| status.admin),
            reason: status.map(|status| status.reason.clone()),
            latency_ms: status.map(|status| status.latency.as_secs_f64() * 1e3),
        })
    }
}

fn frontend_tally(tally: &table::FrontendTally) -> FrontendTally {
    FrontendTally {
        sessions: load(&tally.sessions),
        most_sessions: load(&tally.most_sessions),
        total: load(&tally.total),
        denied: load(&tally.denied),
        limited: load(&tally.limited),
        rejected: load(&tally.rejected),
        bytes_in: load(&tally.bytes_in),
        bytes_out: load(&tally.bytes_out),
    }
}

fn vip(router: &RouterStatus, leases: &Leases, now: Instant) -> Vip {
    let machine = &router.machine;
    let settings = &machine.settings;
    let addresses = settings.addresses.iter();
    Vip {
        name: settings.name.to_string(),
        interface: settings.interface.to_string(),
        router_id: settings.router_id,
        addresses: addresses.map(|it| it.address.to_string()).collect(),
        state: machine.state.to_string(),
        since_seconds: machine
            .since
            .map(|since| now.saturating_duration_since(since).as_secs()),
        priority: machine.priority,
        faults: machine.faults.iter().map(ToString::to_string).collect(),
        active: machine.active.map(|heard| heard.source.to_string()),
        active_priority: machine.active.map(|heard| heard.priority),
        handing_over: machine.is_handing_over,
        lease: router.lease.as_ref().map(|name| lease(name, leases)),
        overruled: machine.counters.overruled,
        advertisements_sent: machine.counters.advert_sent,
        advertisements_received: machine.counters.advert_rcvd,
        became_active: machine.counters.become_master,
        duplicates: machine.counters.duplicates,
    }
}

/// The lease of a virtual router, in words.
fn lease(name: &str, leases: &Leases) -> String {
    match (leases.rule, leases.states.get(name)) {
        (Rule::FewNodes | Rule::Alone | Rule::Away, _) => {
            format!("none: VRRP alone decides ({})", leases::word(leases.rule))
        }
        (_, Some(State::Own { .. })) => "own".to_owned(),
        (Rule::Leases, Some(State::Other { holder, .. })) => format!("held by {holder}"),
        (Rule::Leases, _) => "free".to_owned(),
        (Rule::Awaited | Rule::CutOff, _) => format!("none: {}", leases::word(leases.rule)),
    }
}

fn services(config: Option<&Config>) -> Vec<Service> {
    let services = config.into_iter().flat_map(|config| &config.services);
    let service = |service: &config::Service| Service {
        name: service.name.to_string(),
        pool: service.pool.to_string(),
        addresses: service.addresses.iter().map(ToString::to_string).collect(),
    };
    services.map(service).collect()
}

fn kernel(status: &netfilter::Status, sessions: BTreeMap<String, u64>) -> Kernel {
    let connections = status.connections.iter().map(|one| Connections {
        frontend: one.frontend.to_string(),
        server: one.server.to_string(),
        total: one.total,
    });
    Kernel {
        changes: status.changes,
        failures: status.failures,
        repairs: status.repairs,
        forgotten: status.forgotten,
        error: status.error.clone(),
        flow_table: flow_table(&status.flow_table),
        connections: connections.collect(),
        sessions,
    }
}

fn flow_table(flow_table: &netfilter::FlowTable) -> Option<FlowTable> {
    match flow_table {
        netfilter::FlowTable::Off => None,
        netfilter::FlowTable::Absent(reason) => Some(FlowTable {
            used: false,
            reason: Some(reason.clone()),
            devices: None,
        }),
        netfilter::FlowTable::Used(devices) => Some(FlowTable {
            used: true,
            reason: None,
            devices: Some(devices.names().map(str::to_owned).collect()),
        }),
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

//--- For people

/// The status of a running proxy, in lines.
#[must_use]
pub fn render(status: &Status<Detail>) -> String {
    let mut text = headline(status);
    if let Some(detail) = &status.detail {
        // Writing to a string does not fail.
        let _written = write_detail(&mut text, detail);
    }
    text
}

fn write_kernel(text: &mut String, kernel: &Kernel) -> std::fmt::Result {
    for (frontend, n) in &kernel.sessions {
        let sessions = counted(*n, "session");
        writeln!(text, "the kernel forwards {sessions} of {frontend}")?;
    }
    match &kernel.flow_table {
        Some(FlowTable {
            used: true,
            devices,
            ..
        }) => {
            let devices = devices.as_deref().unwrap_or_default().join(" ");
            writeln!(
                text,
                "established connections use the kernel's flow table, from {devices}"
            )?;
        }
        Some(FlowTable { reason, .. }) => writeln!(
            text,
            "the kernel has NO flow table: {}",
            reason.as_deref().unwrap_or_default()
        )?,
        None => {}
    }
    if let Some(error) = &kernel.error {
        writeln!(
            text,
            "the kernel's rules are NOT as they should be: {error}"
        )?;
    }
    Ok(())
}

fn write_detail(text: &mut String, detail: &Detail) -> std::fmt::Result {
    writeln!(
        text,
        "sessions {} of {} at a time, {} accepted",
        detail.sessions, detail.most_sessions, detail.accepted,
    )?;
    for frontend in &detail.frontends {
        write_frontend(text, frontend)?;
    }
    for backend in &detail.backends {
        write_backend(text, backend)?;
    }
    for vip in &detail.vips {
        write_vip(text, vip)?;
    }
    for service in &detail.services {
        let Service { name, pool, .. } = service;
        let addresses = service.addresses.join(" ");
        writeln!(text, "service {name} has {addresses} of pool {pool}")?;
    }
    if let Some(kernel) = &detail.kernel {
        write_kernel(text, kernel)?;
    }
    if let Some(resolving) = &detail.resolving {
        write_resolving(text, resolving)?;
    }
    if let Some(cluster) = &detail.cluster {
        write_cluster(text, cluster)?;
    }
    match &detail.healthd {
        Some(healthd) if healthd.connected => writeln!(text, "healthd is connected"),
        Some(healthd) => {
            let since = match healthd.age_seconds {
                _ if healthd.stand_in => "lb-proxy probes the servers itself".to_owned(),
                Some(age) => format!("its findings of {} ago hold", seconds(age)),
                None => "every server counts as up".to_owned(),
            };
            let error = &healthd.error;
            writeln!(text, "healthd is NOT connected ({error}); {since}")
        }
        None => writeln!(text, "healthd is not asked"),
    }
}

fn write_resolving(text: &mut String, resolving: &Resolving) -> std::fmt::Result {
    for named in &resolving.names {
        writeln!(text, "{named}")?;
    }
    let nameservers = resolving.nameservers.join(" ");
    writeln!(text, "{nameservers} resolve names of servers")
}

fn write_cluster(text: &mut String, cluster: &Cluster) -> std::fmt::Result {
    for followed in &cluster.backends {
        let (backend, nodes) = (&followed.backend, followed.nodes.join(" and "));
        writeln!(text, "backend {backend} follows the {nodes} of the cluster")?;
        for RefusedNode { node, why } in &followed.refused {
            writeln!(text, "  {node} may NOT join: {why}")?;
        }
        if let Some(held) = &followed.held {
            let servers = held.servers.join(" ");
            let left = HumanDuration(Duration::from_secs(held.seconds));
            writeln!(
                text,
                "  the cluster would take {servers} out, more than half of {}; this counts if it lasts {left} more",
                counted(held.of, "server")
            )?;
        }
    }
    for RefusedService { service, why } in &cluster.refused_services {
        writeln!(
            text,
            "service {service} of the cluster is NOT served: {why}"
        )?;
    }
    match (cluster.connected, cluster.age_seconds) {
        (true, _) => writeln!(text, "clusterd is connected"),
        (false, Some(age)) => writeln!(
            text,
            "clusterd is NOT connected ({}); the servers are those of {} ago",
            cluster.error,
            seconds(age)
        ),
        (false, None) => writeln!(
            text,
            "clusterd is NOT connected ({}); the servers are those of the configuration",
            cluster.error
        ),
    }
}

fn write_frontend(text: &mut String, frontend: &Frontend) -> std::fmt::Result {
    let kind = match (frontend.protocol, frontend.path) {
        (Protocol::Tcp, Path::User) => String::new(),
        (protocol, path) => format!(" ({}, {} path)", protocol.name(), path.name()),
    };
    let listen = frontend.listen.join(" ");
    write!(text, "frontend {} on {listen}{kind}", frontend.name)?;
    let tally = frontend.tally.unwrap_or_default();
    match frontend.flows {
        Some(flows) => {
            let opened = frontend.flows_opened.unwrap_or_default();
            write!(text, ": {}, {opened} in all", counted(flows, "flow"))?;
        }
        None if frontend.tally.is_some() => {
            let sessions = counted(tally.sessions, "session");
            write!(text, ": {sessions}, {} in all", tally.total)?;
        }
        None => {}
    }
    for (count, words) in [
        (tally.denied, "denied"),
        (tally.limited, "over their limit"),
        (tally.rejected, "rejected"),
    ] {
        if count > 0 {
            write!(text, ", {count} {words}")?;
        }
    }
    match frontend.able {
        Some(false) => writeln!(text, "  NO SERVER"),
        _ => writeln!(text),
    }
}

fn write_vip(text: &mut String, vip: &Vip) -> std::fmt::Result {
    write!(
        text,
        "vip {} {} on {} (router {}): {}",
        vip.name,
        vip.addresses.join(" "),
        vip.interface,
        vip.router_id,
        vip.state,
    )?;
    if let Some(since) = vip.since_seconds {
        write!(text, " for {}", HumanDuration(Duration::from_secs(since)))?;
    }
    write!(text, ", priority {}", vip.priority)?;
    match &vip.active {
        Some(active) if vip.state != "active" => write!(text, ", {active} is active")?,
        _ => {}
    }
    if !vip.faults.is_empty() {
        write!(text, "  {}", vip.faults.join("; "))?;
    }
    if let Some(lease) = &vip.lease {
        write!(text, ", lease {lease}")?;
    }
    if vip.duplicates > 0 {
        write!(text, "  ANOTHER NODE HAS THE ADDRESS TOO")?;
    }
    writeln!(text)
}

fn write_backend(text: &mut String, backend: &Backend) -> std::fmt::Result {
    let queued = match backend.queued {
        0 => String::new(),
        n => format!(", {n} wait"),
    };
    writeln!(
        text,
        "backend {}: {} of {}{queued}",
        backend.name,
        backend.usable,
        counted(backend.servers.len(), "server")
    )?;
    for server in &backend.servers {
        let learned = match server.origin {
            Some(Origin::Learned) => " (learned)",
            Some(Origin::Resolved) => " (resolved)",
            Some(Origin::Written | Origin::Both) | None => "",
        };
        let (name, address, why) = (&server.name, &server.address, &server.why);
        write!(text, "  {name} {address}{learned} {why}")?;
        // It says itself how long it is avoided.
        if let (Some(since), None) = (server.since_seconds, server.avoided_seconds) {
            write!(text, " for {}", HumanDuration(Duration::from_secs(since)))?;
        }
        let sessions = counted(server.sessions, "session");
        write!(text, ", {sessions}, {} in all", server.total)?;
        if server.connect_errors > 0 {
            let errors = counted(server.connect_errors, "failed connect");
            write!(text, ", {errors}")?;
        }
        if let Some(probe) = &server.probe {
            match (probe.liveness, &probe.reason) {
                (Some(Liveness::Down), Some(reason)) => {
                    write!(text, " ({}: {reason})", probe.target)?;
                }
                (None, _) => write!(text, " (nothing known yet)")?,
                _ => {}
            }
        }
        writeln!(text)?;
        for Decision { decided, terms } in &server.decisions {
            writeln!(text, "    an operator said {decided}{terms}")?;
        }
    }
    Ok(())
}

/// The output of `sessions`.
#[must_use]
pub fn render_sessions(sessions: &[Session]) -> String {
    let mut text = String::new();
    for session in sessions {
        // Writing to a string does not fail.
        let _written = write_session(&mut text, session);
    }
    text
}

fn write_session(text: &mut String, session: &Session) -> std::fmt::Result {
    let place = |backend: &Option<String>, server: &Option<String>| match (backend, server) {
        (Some(backend), Some(server)) => format!("{backend}/{server}"),
        (Some(backend), None) => backend.clone(),
        _ => "-".to_owned(),
    };
    match session {
        Session::Forwarded(session) => writeln!(
            text,
            "- {} -> {} {} {}, by the kernel",
            session.client,
            session.frontend,
            place(&session.backend, &session.server),
            session.state,
        ),
        Session::Flow(flow) => writeln!(
            text,
            "- {} -> {} {} flow idle {}, {} in, {} out",
            flow.client,
            flow.frontend,
            flow.server,
            seconds(flow.idle_seconds),
            flow.requests,
            flow.responses,
        ),
        Session::Relayed(session) => writeln!(
            text,
            "{} {} -> {} {} {} {}, {} in, {} out",
            session.id,
            session.client,
            session.frontend,
            place(&session.backend, &session.server),
            session.state,
            seconds(session.age_seconds),
            session.bytes_in,
            session.bytes_out,
        ),
    }
}

/// Whole seconds, as people read them.
fn seconds(seconds: f64) -> HumanDuration {
    HumanDuration(Duration::try_from_secs_f64(seconds.trunc()).unwrap_or_default())
}
