//! Names of metrics, and what they are read from.
//!
//! Metrics for dashboards of HAProxy and keepalived are there under their names, in `haproxy` and
//! `keepalived`; everything is there as `lb_proxy_*`.

mod haproxy;
mod keepalived;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use balance::pool::Server;
use balance::table::FrontendTally;
use daemon::clock;
use daemon::latest::Reader;
use daemon::metrics::{Labels, Page, float, labels};
use l4::access_log::Log;
use l4::relay::Engine;
use netfilter::FlowTable;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use proto::lease::{Leases, State as LeaseState};
use proto::link::Link;
use vrrp::machine::State;

use crate::cluster::ClusterServers;
use crate::datagrams::Datagrams;
use crate::health::FailureReports;
use crate::kernel_path::KernelPath;
use crate::leases::why_vrrp_alone;
use crate::stats_socket::Board;
use crate::table_builder::{TableBuilder, View};
use crate::vips::VipBoard;

use crate::server_state::{History, Verdict};

/// Sessions that are open.
pub const SESSIONS: &str = "lb_proxy_sessions";
/// How many sessions there may be at a time.
pub const SESSIONS_LIMIT: &str = "lb_proxy_sessions_limit";
/// Connections accepted.
pub const ACCEPTED: &str = "lb_proxy_accepted_connections";
/// How often nothing was accepted for a moment, for want of descriptors or memory.
pub const ACCEPT_ERRORS: &str = "lb_proxy_accept_errors";
/// Times a listener rested because its frontend or the process was full.
pub const FULL: &str = "lb_proxy_full";
/// Bytes that went through pipes.
pub const SPLICED: &str = "lb_proxy_spliced_bytes";
/// Sessions taken over from a predecessor.
pub const ADOPTED: &str = "lb_proxy_adopted_sessions";
/// Sessions of a frontend that are open.
pub const FRONTEND_SESSIONS: &str = "lb_proxy_frontend_sessions";
/// Connections accepted by a frontend.
pub const FRONTEND_CONNECTIONS: &str = "lb_proxy_frontend_connections";
/// Connections refused for their source address.
pub const FRONTEND_DENIED: &str = "lb_proxy_frontend_denied_connections";
/// Connections refused for the rate or number of their source.
pub const FRONTEND_LIMITED: &str = "lb_proxy_frontend_limited_connections";
/// Connections closed before a backend was known.
pub const FRONTEND_REJECTED: &str = "lb_proxy_frontend_rejected_connections";
/// Bytes from clients.
pub const FRONTEND_RECEIVED: &str = "lb_proxy_frontend_received_bytes";
/// Bytes to clients.
pub const FRONTEND_SENT: &str = "lb_proxy_frontend_sent_bytes";
/// Whether a frontend has a server to choose.
pub const FRONTEND_ABLE: &str = "lb_proxy_frontend_able";
/// Connections refused by `limit`: connections or rate.
pub const SOURCE_REFUSALS: &str = "lb_proxy_source_refusals";
/// Connections that were not counted, or forgotten, because the table of sources was full.
pub const SOURCES_LOST: &str = "lb_proxy_sources_lost";
/// Servers of a backend that may be chosen.
pub const BACKEND_USABLE: &str = "lb_proxy_backend_usable_servers";
/// Connections that wait for a server with room.
pub const BACKEND_QUEUED: &str = "lb_proxy_backend_queued";
/// Connections that have waited.
pub const BACKEND_WAITS: &str = "lb_proxy_backend_waits";
/// Connections refused because too many waited.
pub const BACKEND_OVERFLOWS: &str = "lb_proxy_backend_queue_overflows";
/// The state of a server by `state`: 1 for the one it is in.
pub const SERVER_STATE: &str = "lb_proxy_server_state";
/// The weight of a server.
pub const SERVER_WEIGHT: &str = "lb_proxy_server_weight";
/// Sessions of a server that are open.
pub const SERVER_SESSIONS: &str = "lb_proxy_server_sessions";
/// Sessions a server got.
pub const SERVER_TOTAL: &str = "lb_proxy_server_assigned_sessions";
/// Connections that were not made.
pub const SERVER_CONNECT_ERRORS: &str = "lb_proxy_server_connect_errors";
/// Connections that were made.
pub const SERVER_CONNECTS: &str = "lb_proxy_server_connects";
/// Time it took to connect, in all.
pub const SERVER_CONNECT_SECONDS: &str = "lb_proxy_server_connect_seconds";
/// Sessions a server got after another had failed.
pub const SERVER_REDISPATCHES: &str = "lb_proxy_server_redispatches";
/// Sessions that were reset because the server went away.
pub const SERVER_RESETS: &str = "lb_proxy_server_resets";
/// Bytes from clients.
pub const SERVER_RECEIVED: &str = "lb_proxy_server_received_bytes";
/// Bytes to clients.
pub const SERVER_SENT: &str = "lb_proxy_server_sent_bytes";
/// Whether a server is avoided because its last connection has failed.
pub const SERVER_AVOIDED: &str = "lb_proxy_server_avoided";
/// How long a server was down.
pub const SERVER_DOWNTIME: &str = "lb_proxy_server_downtime_seconds";
/// Servers that a DNS name stands for.
pub const NAME_SERVERS: &str = "lb_proxy_name_servers";
/// Whether the last lookup of a name has an answer.
pub const NAME_RESOLVED: &str = "lb_proxy_name_resolved";
/// How old the last answer is.
pub const NAME_AGE: &str = "lb_proxy_name_age_seconds";
/// Lookups of names by `result`.
pub const NAME_LOOKUPS: &str = "lb_proxy_name_lookups";
/// Flows of datagrams.
pub const FLOWS: &str = "lb_proxy_flows";
/// Events of flows by `event`.
pub const FLOW_EVENTS: &str = "lb_proxy_flow_events";
/// Connections that the kernel forwarded.
pub const KERNEL_CONNECTIONS: &str = "lb_proxy_kernel_connections";
/// Changes of the kernel's rules by `result`.
pub const KERNEL_CHANGES: &str = "lb_proxy_kernel_rule_changes";
/// Changes of the kernel's rules that changed elements alone.
pub const KERNEL_ELEMENT_CHANGES: &str = "lb_proxy_kernel_element_changes";
/// Whether the kernel's rules are as they should be.
pub const KERNEL_CURRENT: &str = "lb_proxy_kernel_rules_current";
/// Whether established connections go by the kernel's flow table.
pub const KERNEL_FLOW_TABLE: &str = "lb_proxy_kernel_flow_table";
/// The state of a virtual router by `state`: 1 for the one it is in.
pub const VRRP_STATE: &str = "lb_proxy_vrrp_state";
/// The priority that a virtual router advertises, or would.
pub const VRRP_PRIORITY: &str = "lb_proxy_vrrp_priority";
/// Events of a virtual router by `event`.
pub const VRRP_EVENTS: &str = "lb_proxy_vrrp_events";
/// Whether this node has the lease of a virtual router.
pub const VRRP_LEASE: &str = "lb_proxy_vrrp_lease";
/// Whether virtual routers that need leases go by advertisements.
pub const VRRP_ALONE: &str = "lb_proxy_vrrp_alone";
/// Records of the access log by `result`.
pub const LOG_RECORDS: &str = "lb_proxy_access_log_records";
/// Whether healthd is connected; absent when it is not asked.
pub const HEALTHD_CONNECTED: &str = "lb_proxy_healthd_connected";
/// Whether lb-proxy probes the servers itself; absent when healthd is not asked.
pub const HEALTHD_STAND_IN: &str = "lb_proxy_healthd_stand_in";
/// How old what healthd said may be.
pub const HEALTHD_AGE: &str = "lb_proxy_healthd_age_seconds";
/// HAProxy's runtime commands by `result`.
pub const STATS_COMMANDS: &str = "lb_proxy_stats_commands";
/// Whether a stats socket is bound, by `path`.
pub const STATS_SOCKET: &str = "lb_proxy_stats_socket";
/// Failed connects that healthd was not told of.
pub const REPORTS_DROPPED: &str = "lb_proxy_reports_dropped";

/// Shows the proxy to a scraper.
#[derive(Debug)]
pub struct Scrape {
    /// The data path.
    pub engine: Arc<Engine>,
    /// The sources of the page.
    pub builder: Arc<TableBuilder>,
    /// The servers that have DNS names.
    pub(crate) cluster: Arc<ClusterServers>,
    /// The stream from healthd.
    pub link: Link,
    /// The reports to healthd.
    pub reports: Arc<FailureReports>,
    /// The access log.
    pub log: Log,
    /// Frontends for datagrams.
    pub(crate) datagrams: Datagrams,
    /// The kernel's rules.
    pub(crate) kernel: KernelPath,
    /// Virtual routers.
    pub(crate) routers: VipBoard,
    /// Their leases.
    pub(crate) leases: Reader<Leases>,
    /// HAProxy's runtime commands.
    pub(crate) stats: Arc<Board>,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page::new(&mut encoder);
        let view = self.builder.view();
        let now = clock::now();
        self.process(&mut page)?;
        frontends(&mut page, &view)?;
        sources(&mut page, &view)?;
        backends(&mut page, &view)?;
        servers(&mut page, &view, now)?;
        self.names(&mut page)?;
        self.flows(&mut page)?;
        self.rules(&mut page)?;
        let routers = self.routers.routers();
        vrrp(&mut page, &routers)?;
        let mut leases = self.leases.clone();
        leases.refresh();
        self::leases(&mut page, &routers, &leases.shared())?;
        self.health(&mut page)?;
        haproxy::encode(&mut page, &view, &self.engine, &self.log, now)?;
        keepalived::encode(&mut page, &routers)
    }
}

impl Scrape {
    fn process(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let counters = self.engine.counters();
        page.gauge(SESSIONS, "Open sessions", float(load(&counters.sessions)))?;
        let limit = float(self.engine.most_sessions());
        page.gauge(SESSIONS_LIMIT, "Sessions at a time", limit)?;
        for (name, help, counter) in [
            (ACCEPTED, "Connections accepted", &counters.accepted),
            (
                ACCEPT_ERRORS,
                "Pauses in accepting for want of descriptors or memory",
                &counters.accept_errors,
            ),
            (FULL, "Times a listener rested", &counters.full),
            (
                SPLICED,
                "Bytes that went through pipes",
                &counters.spliced_bytes,
            ),
            (ADOPTED, "Sessions taken over", &counters.adopted),
        ] {
            page.counter(name, help, load(counter))?;
        }
        let log = [
            ("written", self.log.written()),
            ("dropped", self.log.dropped()),
        ];
        let by_result = |(result, n)| (labels(&[("result", result)]), n);
        let records = log.map(by_result);
        page.counters(LOG_RECORDS, "Records of the access log", records.into())?;
        let commands = self.stats.by_result().map(by_result);
        page.counters(
            STATS_COMMANDS,
            "Runtime commands at stats sockets",
            commands.into(),
        )?;
        let sockets = self.stats.sockets().map(|(path, _, is_up)| {
            let labels = labels(&[("path", path.as_str())]);
            (labels, f64::from(u8::from(is_up)))
        });
        page.gauges(
            STATS_SOCKET,
            "Whether a stats socket is bound",
            sockets.collect(),
        )
    }

    fn flows(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let status = self.datagrams.status();
        let mut flows = Vec::new();
        let mut events = Vec::new();
        for front in &status {
            let name = &*front.frontend;
            let n_flows = u64::try_from(front.flows).unwrap_or(u64::MAX);
            flows.push((labels(&[("frontend", name)]), float(n_flows)));
            let (counts, lost) = (&front.counts, &front.lost);
            for (event, count) in [
                ("opened", counts.opened),
                ("idle", counts.idle),
                ("complete", counts.complete),
                ("evicted", counts.evicted),
                ("moved", counts.moved),
                ("refused", counts.refused),
                ("no-way", counts.no_way),
                ("nobody", counts.nobody),
                ("full", counts.full),
                ("truncated", lost.truncated),
                ("queue-full", lost.queue_full),
                ("too-long", lost.too_long),
                ("unsent", lost.unsent),
                ("undelivered", lost.undelivered),
            ] {
                events.push((labels(&[("frontend", name), ("event", event)]), count));
            }
        }
        page.gauges(FLOWS, "Flows of datagrams", flows)?;
        page.counters(FLOW_EVENTS, "Events of flows", events)
    }

    fn rules(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let Some(status) = self.kernel.status() else {
            return Ok(());
        };
        let connections = status.connections.iter().map(|one| {
            let names = [("frontend", &*one.frontend), ("server", &*one.server)];
            (labels(&names), one.total)
        });
        let help = "Connections that the kernel forwarded";
        page.counters(KERNEL_CONNECTIONS, help, connections.collect())?;
        let changes = [
            ("made", status.changes),
            ("failed", status.failures),
            ("repaired", status.repairs),
        ];
        let changes = changes.map(|(result, n)| (labels(&[("result", result)]), n));
        page.counters(
            KERNEL_CHANGES,
            "Changes of the kernel's rules",
            changes.into(),
        )?;
        page.counter(
            KERNEL_ELEMENT_CHANGES,
            "Changes of the kernel's rules that changed elements of maps and sets alone",
            status.element_changes,
        )?;
        let current = f64::from(u8::from(status.error.is_none()));
        page.gauge(
            KERNEL_CURRENT,
            "Whether the rules are as they should be",
            current,
        )?;
        let used = match status.flow_table {
            FlowTable::Off => return Ok(()),
            FlowTable::Absent(_) => 0.0,
            FlowTable::Used(_) => 1.0,
        };
        let help = "Whether established connections go by the kernel's flow table";
        page.gauge(KERNEL_FLOW_TABLE, help, used)
    }

    /// The servers that have DNS names; nothing where there are none.
    fn names(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let Some(resolving) = self.cluster.resolving() else {
            return Ok(());
        };
        let names = || {
            let names = resolving.names.iter();
            names.map(|named| {
                let both = [("backend", &*named.backend), ("server", &*named.server)];
                (labels(&both), named)
            })
        };
        let servers = names().map(|(labels, named)| {
            let servers = u32::try_from(named.servers).unwrap_or(u32::MAX);
            (labels, f64::from(servers))
        });
        let help = "Servers that a DNS name stands for";
        page.gauges(NAME_SERVERS, help, servers.collect())?;
        let resolved = names().map(|(labels, named)| {
            let is_found = named.state == "found";
            (labels, f64::from(u8::from(is_found)))
        });
        let help = "Whether the last lookup of a DNS name has found addresses";
        page.gauges(NAME_RESOLVED, help, resolved.collect())?;
        let ages = names().filter_map(|(labels, named)| Some((labels, named.age_seconds?)));
        page.gauges(NAME_AGE, "Age of the last answer", ages.collect())?;
        let results = self.cluster.lookups().by_result();
        let results = results.map(|(result, n)| (labels(&[("result", result)]), n));
        page.counters(NAME_LOOKUPS, "Lookups of DNS names", results.into())
    }

    fn health(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let dropped = self.reports.n_dropped();
        page.counter(REPORTS_DROPPED, "Failed connects not reported", dropped)?;
        let Some(state) = self.link.state() else {
            return Ok(());
        };
        let connected = f64::from(u8::from(state.connected));
        page.gauge(HEALTHD_CONNECTED, "Whether healthd is connected", connected)?;
        let stands_in = f64::from(u8::from(self.link.current().stands_in));
        let help = "Whether lb-proxy probes the servers itself, because healthd is away";
        page.gauge(HEALTHD_STAND_IN, help, stands_in)?;
        match self.link.age() {
            Some(age) => page.gauge(HEALTHD_AGE, "Age of what healthd said", age.as_secs_f64()),
            None => Ok(()),
        }
    }
}

/// A counter of a frontend.
type OfFrontend = fn(&FrontendTally) -> &AtomicU64;

/// A counter of a server.
type OfServer = fn(&Server) -> u64;

fn frontends(page: &mut Page<'_, '_>, view: &View) -> fmt::Result {
    let all = &view.table.frontends;
    let named = |name: &str| labels(&[("frontend", name)]);
    let sessions = all.iter().map(|frontend| {
        let sessions = load(&frontend.tally.sessions);
        (named(&frontend.name), float(sessions))
    });
    page.gauges(FRONTEND_SESSIONS, "Open sessions", sessions.collect())?;
    let able = view.abilities.iter().filter_map(|(name, able)| {
        let name = name.strip_prefix("frontend:")?;
        Some((named(name), f64::from(u8::from(*able))))
    });
    page.gauges(
        FRONTEND_ABLE,
        "Whether there is a server to choose",
        able.collect(),
    )?;
    let counters: [(&str, &str, OfFrontend); 6] = [
        (FRONTEND_CONNECTIONS, "Connections accepted", |t| &t.total),
        (FRONTEND_DENIED, "Connections denied", |t| &t.denied),
        (FRONTEND_LIMITED, "Connections over a limit", |t| &t.limited),
        (FRONTEND_REJECTED, "Connections rejected", |t| &t.rejected),
        (FRONTEND_RECEIVED, "Bytes from clients", |t| &t.bytes_in),
        (FRONTEND_SENT, "Bytes to clients", |t| &t.bytes_out),
    ];
    for (name, help, of) in counters {
        let values = all.iter().map(|f| (named(&f.name), load(of(&f.tally))));
        page.counters(name, help, values.collect())?;
    }
    Ok(())
}

fn sources(page: &mut Page<'_, '_>, view: &View) -> fmt::Result {
    let mut refusals = Vec::new();
    let mut lost = Vec::new();
    for frontend in &view.table.frontends {
        let Some(limits) = &frontend.limits else {
            continue;
        };
        let tally = limits.tally();
        let name = &*frontend.name;
        for (limit, counter) in [
            ("connections", &tally.refused_connections),
            ("rate", &tally.refused_rate),
        ] {
            let names = [("frontend", name), ("limit", limit)];
            refusals.push((labels(&names), load(counter)));
        }
        for (how, counter) in [
            ("uncounted", &tally.uncounted),
            ("forgotten", &tally.forgotten),
        ] {
            lost.push((labels(&[("frontend", name), ("how", how)]), load(counter)));
        }
    }
    page.counters(
        SOURCE_REFUSALS,
        "Connections over a source's limit",
        refusals,
    )?;
    page.counters(SOURCES_LOST, "Sources the table had no room for", lost)
}

fn backends(page: &mut Page<'_, '_>, view: &View) -> fmt::Result {
    let pools: Vec<_> = view
        .table
        .backends
        .iter()
        .map(|backend| &backend.pool)
        .collect();
    let named = |name: &str| labels(&[("backend", name)]);
    let usable = pools.iter().map(|pool| {
        let usable = u64::try_from(pool.n_usable()).unwrap_or(u64::MAX);
        (named(&pool.name), float(usable))
    });
    page.gauges(
        BACKEND_USABLE,
        "Servers that may be chosen",
        usable.collect(),
    )?;
    let queued = pools
        .iter()
        .map(|pool| (named(&pool.name), f64::from(pool.queue.waiting())));
    page.gauges(BACKEND_QUEUED, "Connections that wait", queued.collect())?;
    let waits = pools
        .iter()
        .map(|pool| (named(&pool.name), pool.queue.total()));
    page.counters(BACKEND_WAITS, "Connections that waited", waits.collect())?;
    let overflows = pools
        .iter()
        .map(|pool| (named(&pool.name), pool.queue.overflows()));
    page.counters(
        BACKEND_OVERFLOWS,
        "Connections that found no room to wait",
        overflows.collect(),
    )
}

fn servers(page: &mut Page<'_, '_>, view: &View, now: Instant) -> fmt::Result {
    let mut all = Vec::new();
    for backend in &view.table.backends {
        for server in &backend.pool.servers {
            let names = labels(&[("backend", &*backend.pool.name), ("server", &*server.name)]);
            let key = (Arc::clone(&backend.pool.name), Arc::clone(&server.name));
            all.push((names, server, view.histories.get(&key).copied()));
        }
    }
    let mut states = Vec::new();
    for (names, _, history) in &all {
        for verdict in [
            Verdict::Up,
            Verdict::Drain,
            Verdict::Maintenance,
            Verdict::Down,
        ] {
            let mut names = names.clone();
            names.push(("state", verdict.name().to_owned()));
            let is_in = history.is_some_and(|history| history.verdict == verdict);
            states.push((names, f64::from(u8::from(is_in))));
        }
    }
    page.gauges(SERVER_STATE, "The state of servers", states)?;
    let weights = all
        .iter()
        .map(|(names, server, _)| (names.clone(), f64::from(server.weight)));
    page.gauges(SERVER_WEIGHT, "The weight of servers", weights.collect())?;
    let sessions = all.iter();
    let sessions =
        sessions.map(|(names, server, _)| (names.clone(), f64::from(server.load.sessions())));
    page.gauges(SERVER_SESSIONS, "Open sessions", sessions.collect())?;
    server_counts(page, &all, now)
}

/// A server with the labels of its samples, and what became of it.
type Row<'a> = (Labels, &'a Arc<Server>, Option<History>);

fn server_counts(page: &mut Page<'_, '_>, all: &[Row<'_>], now: Instant) -> fmt::Result {
    let counters: [(&str, &str, OfServer); 7] = [
        (SERVER_TOTAL, "Sessions assigned", |s| s.load.total()),
        (SERVER_CONNECT_ERRORS, "Connections not made", |s| {
            load(&s.load.tally.connect_errors)
        }),
        (SERVER_CONNECTS, "Connections made", |s| {
            load(&s.load.tally.connects)
        }),
        (
            SERVER_REDISPATCHES,
            "Sessions after another server failed",
            |s| load(&s.load.tally.redispatches),
        ),
        (SERVER_RESETS, "Sessions reset", |s| {
            load(&s.load.tally.resets)
        }),
        (SERVER_RECEIVED, "Bytes from clients", |s| {
            load(&s.load.tally.bytes_in)
        }),
        (SERVER_SENT, "Bytes to clients", |s| {
            load(&s.load.tally.bytes_out)
        }),
    ];
    for (name, help, of) in counters {
        let values = all
            .iter()
            .map(|(names, server, _)| (names.clone(), of(server)));
        page.counters(name, help, values.collect())?;
    }
    let connect = all.iter().map(|(names, server, _)| {
        let micros = load(&server.load.tally.connect_microseconds);
        (names.clone(), float(micros) / 1e6)
    });
    page.float_counters(
        SERVER_CONNECT_SECONDS,
        "Time it took to connect",
        connect.collect(),
    )?;
    let avoided = all.iter().map(|(names, server, _)| {
        let is_avoided = server.avoided(now).is_some();
        (names.clone(), f64::from(u8::from(is_avoided)))
    });
    page.gauges(
        SERVER_AVOIDED,
        "Whether a server is avoided because its last connection has failed",
        avoided.collect(),
    )?;
    let downtime = all.iter().filter_map(|(names, _, history)| {
        Some((names.clone(), history.as_ref()?.downtime(now).as_secs_f64()))
    });
    page.float_counters(
        SERVER_DOWNTIME,
        "Time servers were down",
        downtime.collect(),
    )
}

fn vrrp(page: &mut Page<'_, '_>, routers: &[vrrp_net::status::RouterStatus]) -> fmt::Result {
    let mut states = Vec::new();
    let mut priorities = Vec::new();
    let mut events = Vec::new();
    for router in routers {
        let name = &**router.name();
        let machine = &router.machine;
        for state in [
            State::Initialize,
            State::Backup,
            State::Active,
            State::Fault,
        ] {
            let names = [("router", name), ("state", &*state.to_string())];
            let is_in = f64::from(u8::from(machine.state == state));
            states.push((labels(&names), is_in));
        }
        priorities.push((labels(&[("router", name)]), f64::from(machine.priority)));
        let (counters, tally) = (&machine.counters, &router.tally);
        for (event, count) in [
            ("announcements", tally.announcements),
            ("send-errors", tally.send_errors),
            ("restored", tally.restored),
            ("address-errors", tally.address_errors),
            ("notify-failures", tally.notify_failures),
            ("duplicates", counters.duplicates),
            ("pauses", counters.pauses),
            ("lower-heard", counters.lower_rcvd),
            ("overruled", counters.overruled),
        ] {
            events.push((labels(&[("router", name), ("event", event)]), count));
        }
    }
    page.gauges(VRRP_STATE, "The state of virtual routers", states)?;
    page.gauges(
        VRRP_PRIORITY,
        "The priority that virtual routers advertise",
        priorities,
    )?;
    page.counters(VRRP_EVENTS, "Events of virtual routers", events)
}

/// Whether leases decide, and which this node has.
fn leases(
    page: &mut Page<'_, '_>,
    routers: &[vrrp_net::status::RouterStatus],
    leases: &Leases,
) -> fmt::Result {
    let with_lease = routers
        .iter()
        .filter_map(|router| Some((router, router.lease.as_ref()?)));
    let held: Vec<_> = with_lease
        .map(|(router, lease)| {
            let is_own = matches!(leases.states.get(lease), Some(LeaseState::Own { .. }));
            (
                labels(&[("router", &**router.name())]),
                f64::from(u8::from(is_own)),
            )
        })
        .collect();
    if held.is_empty() {
        return Ok(());
    }
    page.gauges(
        VRRP_LEASE,
        "Whether this node has the lease of a virtual router",
        held,
    )?;
    let alone = u8::from(why_vrrp_alone(leases.rule).is_some());
    let help = "Whether virtual routers that need leases go by advertisements";
    page.gauge(VRRP_ALONE, help, f64::from(alone))
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
