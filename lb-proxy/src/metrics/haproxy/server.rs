//! Servers, and what healthd finds of them, by the names of HAProxy's exporter.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use balance::pool::Server;
use daemon::metrics::{Labels, Page, float, labels};
use proto::health::{Liveness, TargetKind, TargetStatus};

use super::{STATES, attempts};
use crate::metrics::load;
use crate::server_state::History;
use crate::table_builder::View;

/// A count of a server.
type OfServer = fn(&Server) -> u64;

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
                probe: target.and_then(|target| view.snapshot.watched(target)),
                connects_only: target.is_some_and(|it| it.target.kind == TargetKind::Tcp),
            });
        }
    }
    rows
}

pub(super) fn servers(page: &mut Page<'_, '_>, view: &View, now: Instant) -> fmt::Result {
    let rows = rows(view);
    statuses(page, &rows)?;
    let gauges: [(&str, &str, OfServer); 6] = [
        // Connections wait for any server of a backend, never for one.
        (
            "haproxy_server_current_queue",
            "None waits for one server",
            |_| 0,
        ),
        (
            "haproxy_server_max_queue",
            "None has waited for one server",
            |_| 0,
        ),
        ("haproxy_server_uweight", "The weight", |s| s.weight.into()),
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
    counts(page, &rows)?;
    checks(page, &rows, now)
}

fn counts(page: &mut Page<'_, '_>, rows: &[Row<'_>]) -> fmt::Result {
    let counters: [(&str, &str, OfServer); 10] = [
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
            attempts,
        ),
        (
            "haproxy_server_client_aborts",
            "Sessions that the client broke off",
            |s| load(&s.load.tally.client_aborts),
        ),
        (
            "haproxy_server_server_aborts",
            "Sessions that the server broke off",
            |s| load(&s.load.tally.server_aborts),
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
    Ok(())
}

fn statuses(page: &mut Page<'_, '_>, rows: &[Row<'_>]) -> fmt::Result {
    let mut status = Vec::new();
    for row in rows {
        let verdict = row.history.map(|history| history.verdict);
        for (state, of) in STATES {
            let mut names = row.names.clone();
            names.push(("state", state.to_owned()));
            status.push((names, f64::from(u8::from(verdict == Some(of)))));
        }
    }
    page.gauges("haproxy_server_status", "The state of servers", status)
}

/// healthd's findings stand for HAProxy's own checks.
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
        "The last probe's finding",
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
