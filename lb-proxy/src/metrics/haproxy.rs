//! HAProxy's own exporter's names (addons/promex), with its labels and meaning, so that dashboards and
//! alerts for HAProxy go on. What it counts and this proxy does not have is absent.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use daemon_base::metrics::{Labels, Page, float, labels};
use proto::health::{Liveness, TargetKind, TargetStatus};

use super::load;
use crate::keeper::View;
use crate::pool::{Pool, Server};
use crate::relay::Engine;
use crate::standing::{History, Verdict};
use crate::table::FrontendTally;

pub(super) fn encode(
    page: &mut Page<'_, '_>,
    view: &View,
    engine: &Engine,
    now: Instant,
) -> fmt::Result {
    process(page, engine)?;
    frontends(page, view)?;
    backends(page, view)?;
    servers(page, view, now)
}

fn process(page: &mut Page<'_, '_>, engine: &Engine) -> fmt::Result {
    let counters = engine.counters();
    let sessions = float(load(&counters.sessions));
    page.gauge(
        "haproxy_process_current_connections",
        "Open sessions",
        sessions,
    )?;
    let limit = float(engine.most_sessions());
    page.gauge(
        "haproxy_process_max_connections",
        "Sessions at a time",
        limit,
    )?;
    let accepted = load(&counters.accepted);
    page.counter(
        "haproxy_process_connections",
        "Connections accepted",
        accepted,
    )?;
    let spliced = load(&counters.spliced_bytes);
    page.counter(
        "haproxy_process_spliced_bytes_out",
        "Bytes that went through pipes",
        spliced,
    )
}

/// A count of a frontend.
type OfFrontend = fn(&FrontendTally) -> u64;

/// A count of a backend.
type OfPool = fn(&Pool) -> u64;

/// A count of a server.
type OfServer = fn(&Server) -> u64;

//--- Frontends

fn frontends(page: &mut Page<'_, '_>, view: &View) -> fmt::Result {
    let all = &view.table.frontends;
    let named = |name: &str| labels(&[("proxy", name)]);
    let mut status = Vec::new();
    for frontend in all {
        for (state, is_in) in [("DOWN", 0.0), ("UP", 1.0)] {
            let names = [("proxy", &*frontend.name), ("state", state)];
            status.push((labels(&names), is_in));
        }
    }
    page.gauges("haproxy_frontend_status", "Whether it accepts", status)?;
    let gauges: [(&str, &str, OfFrontend); 2] = [
        ("haproxy_frontend_current_sessions", "Open sessions", |t| {
            load(&t.sessions)
        }),
        (
            "haproxy_frontend_max_sessions",
            "The most there were",
            |t| load(&t.most_sessions),
        ),
    ];
    for (name, help, of) in gauges {
        let values = all.iter().map(|f| (named(&f.name), float(of(&f.tally))));
        page.gauges(name, help, values.collect())?;
    }
    let limits = all
        .iter()
        .filter_map(|frontend| Some((named(&frontend.name), f64::from(frontend.max_connections?))));
    page.gauges(
        "haproxy_frontend_limit_sessions",
        "Sessions at a time",
        limits.collect(),
    )?;
    let counters: [(&str, &str, OfFrontend); 6] = [
        ("haproxy_frontend_sessions", "Sessions", |t| {
            load(&t.total).saturating_sub(load(&t.denied) + load(&t.limited))
        }),
        (
            "haproxy_frontend_connections",
            "Connections accepted",
            |t| load(&t.total),
        ),
        ("haproxy_frontend_bytes_in", "Bytes from clients", |t| {
            load(&t.bytes_in)
        }),
        ("haproxy_frontend_bytes_out", "Bytes to clients", |t| {
            load(&t.bytes_out)
        }),
        (
            "haproxy_frontend_denied_connections",
            "Connections denied",
            |t| load(&t.denied) + load(&t.limited),
        ),
        (
            "haproxy_frontend_request_errors",
            "Connections rejected",
            |t| load(&t.rejected),
        ),
    ];
    for (name, help, of) in counters {
        let values = all.iter().map(|f| (named(&f.name), of(&f.tally)));
        page.counters(name, help, values.collect())?;
    }
    Ok(())
}

//--- Backends

fn backends(page: &mut Page<'_, '_>, view: &View) -> fmt::Result {
    let pools: Vec<&Arc<Pool>> = view.table.backends.iter().map(|b| &b.pool).collect();
    let named = |pool: &Pool| labels(&[("proxy", &*pool.name)]);
    let mut status = Vec::new();
    for pool in &pools {
        let up = pool.n_usable() > 0;
        for (state, is_in) in [("DOWN", !up), ("UP", up)] {
            let names = [("proxy", &*pool.name), ("state", state)];
            status.push((labels(&names), f64::from(u8::from(is_in))));
        }
    }
    page.gauges(
        "haproxy_backend_status",
        "Whether a server may be chosen",
        status,
    )?;
    let gauges: [(&str, &str, OfPool); 6] = [
        (
            "haproxy_backend_active_servers",
            "Servers that are up",
            |p| of_group(p, false),
        ),
        (
            "haproxy_backend_backup_servers",
            "Backup servers that are up",
            |p| of_group(p, true),
        ),
        ("haproxy_backend_current_sessions", "Open sessions", |p| {
            p.servers.iter().map(|s| u64::from(s.load.sessions())).sum()
        }),
        (
            "haproxy_backend_current_queue",
            "Connections that wait",
            |p| p.queue.waiting().into(),
        ),
        ("haproxy_backend_max_queue", "The most that waited", |p| {
            p.queue.most_waiting().into()
        }),
        (
            "haproxy_backend_weight",
            "The weight of servers that are up",
            |p| {
                let up = p.servers.iter().filter(|server| server.standing.is_up());
                up.map(|server| u64::from(server.weight)).sum()
            },
        ),
    ];
    for (name, help, of) in gauges {
        let values = pools.iter().map(|pool| (named(pool), float(of(pool))));
        page.gauges(name, help, values.collect())?;
    }
    backend_counts(page, &pools)
}

fn backend_counts(page: &mut Page<'_, '_>, pools: &[&Arc<Pool>]) -> fmt::Result {
    let named = |pool: &Pool| labels(&[("proxy", &*pool.name)]);
    let counters: [(&str, &str, OfPool); 6] = [
        ("haproxy_backend_sessions", "Sessions", |p| {
            sum(p, |s| s.load.total())
        }),
        ("haproxy_backend_bytes_in", "Bytes from clients", |p| {
            sum(p, |s| load(&s.load.tally.bytes_in))
        }),
        ("haproxy_backend_bytes_out", "Bytes to clients", |p| {
            sum(p, |s| load(&s.load.tally.bytes_out))
        }),
        (
            "haproxy_backend_connection_errors",
            "Connections not made",
            |p| sum(p, |s| load(&s.load.tally.connect_errors)),
        ),
        (
            "haproxy_backend_retry_warnings",
            "Attempts after a failed one",
            |p| sum(p, |s| load(&s.load.tally.retries)),
        ),
        (
            "haproxy_backend_redispatch_warnings",
            "Sessions sent to another server",
            |p| sum(p, |s| load(&s.load.tally.redispatches)),
        ),
    ];
    for (name, help, of) in counters {
        let values = pools.iter().map(|pool| (named(pool), of(pool)));
        page.counters(name, help, values.collect())?;
    }
    Ok(())
}

fn of_group(pool: &Pool, backup: bool) -> u64 {
    let group = pool.servers.iter().filter(|server| server.backup == backup);
    let up = group.filter(|server| server.standing.is_up());
    u64::try_from(up.count()).unwrap_or(u64::MAX)
}

fn sum(pool: &Pool, of: impl Fn(&Server) -> u64) -> u64 {
    pool.servers.iter().map(|server| of(server)).sum()
}

//--- Servers

/// One server, and what is known of it.
struct Row<'a> {
    names: Labels,
    server: &'a Server,
    history: Option<History>,
    probe: Option<&'a TargetStatus>,
    /// Its probe is a connect, and nothing more.
    connects_only: bool,
}

fn rows(view: &View) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    let config = view.config.as_deref();
    for backend in &view.table.backends {
        for server in &backend.pool.servers {
            let key = (Arc::clone(&backend.pool.name), Arc::clone(&server.name));
            let configured = config.and_then(|config| config.server(&key.0, &key.1));
            let target = configured.and_then(|server| server.target.as_ref());
            rows.push(Row {
                names: labels(&[("proxy", &*key.0), ("server", &*key.1)]),
                server,
                history: view.histories.get(&key).copied(),
                probe: target.and_then(|target| view.snapshot.status(target)),
                connects_only: target.is_some_and(|target| target.kind == TargetKind::Tcp),
            });
        }
    }
    rows
}

fn servers(page: &mut Page<'_, '_>, view: &View, now: Instant) -> fmt::Result {
    let rows = rows(view);
    statuses(page, &rows)?;
    let gauges: [(&str, &str, OfServer); 3] = [
        ("haproxy_server_current_sessions", "Open sessions", |s| {
            s.load.sessions().into()
        }),
        ("haproxy_server_max_sessions", "The most there were", |s| {
            s.load.most_sessions().into()
        }),
        ("haproxy_server_weight", "The weight", |s| s.weight.into()),
    ];
    for (name, help, of) in gauges {
        let values = rows
            .iter()
            .map(|row| (row.names.clone(), float(of(row.server))));
        page.gauges(name, help, values.collect())?;
    }
    let limits = rows
        .iter()
        .filter_map(|row| Some((row.names.clone(), f64::from(row.server.max_connections?))));
    page.gauges(
        "haproxy_server_limit_sessions",
        "Sessions at a time",
        limits.collect(),
    )?;
    let counters: [(&str, &str, OfServer); 8] = [
        ("haproxy_server_sessions", "Sessions", |s| s.load.total()),
        ("haproxy_server_loadbalanced", "Times chosen", |s| {
            s.load.total()
        }),
        ("haproxy_server_bytes_in", "Bytes from clients", |s| {
            load(&s.load.tally.bytes_in)
        }),
        ("haproxy_server_bytes_out", "Bytes to clients", |s| {
            load(&s.load.tally.bytes_out)
        }),
        (
            "haproxy_server_connection_attempts",
            "Attempts to connect",
            |s| load(&s.load.tally.connects) + load(&s.load.tally.connect_errors),
        ),
        (
            "haproxy_server_connection_errors",
            "Connections not made",
            |s| load(&s.load.tally.connect_errors),
        ),
        (
            "haproxy_server_retry_warnings",
            "Attempts after a failed one",
            |s| load(&s.load.tally.retries),
        ),
        (
            "haproxy_server_redispatch_warnings",
            "Sessions after another server failed",
            |s| load(&s.load.tally.redispatches),
        ),
    ];
    for (name, help, of) in counters {
        let values = rows.iter().map(|row| (row.names.clone(), of(row.server)));
        page.counters(name, help, values.collect())?;
    }
    checks(page, &rows, now)
}

fn statuses(page: &mut Page<'_, '_>, rows: &[Row<'_>]) -> fmt::Result {
    let mut status = Vec::new();
    for row in rows {
        let verdict = row.history.map(|history| history.verdict);
        for (state, of) in [
            ("DOWN", Verdict::Down),
            ("UP", Verdict::Up),
            ("MAINT", Verdict::Maintenance),
            ("DRAIN", Verdict::Drain),
        ] {
            let mut names = row.names.clone();
            names.push(("state", state.to_owned()));
            status.push((names, f64::from(u8::from(verdict == Some(of)))));
        }
    }
    page.gauges("haproxy_server_status", "The state of servers", status)
}

/// What healthd finds stands for HAProxy's own checks.
fn checks(page: &mut Page<'_, '_>, rows: &[Row<'_>], now: Instant) -> fmt::Result {
    let mut status = Vec::new();
    let mut durations = Vec::new();
    for row in rows {
        let Some(probe) = row.probe else { continue };
        // HAProxy's words: layer 4 is a connect, layer 7 what was said over it.
        let states = match row.connects_only {
            true => ["INI", "L4OK", "L4CON"],
            false => ["INI", "L7OK", "L7STS"],
        };
        for (state, of) in states
            .into_iter()
            .zip([Liveness::Unknown, Liveness::Up, Liveness::Down])
        {
            let mut names = row.names.clone();
            names.push(("state", state.to_owned()));
            let is_in = f64::from(u8::from(probe.liveness == of));
            status.push((names, is_in));
        }
        durations.push((row.names.clone(), probe.latency.as_secs_f64()));
    }
    page.gauges(
        "haproxy_server_check_status",
        "What the last probe found",
        status,
    )?;
    let help = "How long the last probe took";
    page.gauges("haproxy_server_check_duration_seconds", help, durations)?;
    let known = || {
        rows.iter()
            .filter_map(|row| Some((row.names.clone(), row.history?)))
    };
    let changes = known().map(|(names, history)| {
        let ago = now.saturating_duration_since(history.since);
        (names, ago.as_secs_f64())
    });
    let help = "Since the state last changed";
    page.gauges(
        "haproxy_server_check_last_change_seconds",
        help,
        changes.collect(),
    )?;
    let downs = known().map(|(names, history)| (names, history.n_downs));
    page.counters(
        "haproxy_server_check_up_down",
        "Times it went down",
        downs.collect(),
    )?;
    let downtime = known().map(|(names, history)| (names, history.downtime(now).as_secs_f64()));
    page.float_counters(
        "haproxy_server_downtime_seconds",
        "Time it was down",
        downtime.collect(),
    )
}
