//! Backends, by the names of HAProxy's exporter.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use balance::pool::{Pool, Server};
use daemon::metrics::{Page, float, labels};

use super::{STATES, attempts};
use crate::metrics::load;
use crate::table_builder::View;

/// A count of a backend.
type OfPool = fn(&Pool) -> u64;

pub(super) fn backends(page: &mut Page<'_, '_>, view: &View, now: Instant) -> fmt::Result {
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
    counts(page, &pools)?;
    histories(page, view, now)
}

fn counts(page: &mut Page<'_, '_>, pools: &[&Arc<Pool>]) -> fmt::Result {
    let named = |pool: &Pool| labels(&[("proxy", &*pool.name)]);
    let counters: [(&str, &str, OfPool); 10] = [
        ("haproxy_backend_sessions", "Sessions", |p| {
            sum(p, |s| s.load.total())
        }),
        (
            "haproxy_backend_loadbalanced",
            "Times a server was chosen",
            |p| sum(p, |s| s.load.total()),
        ),
        (
            "haproxy_backend_connection_attempts",
            "Attempts to connect",
            |p| sum(p, attempts),
        ),
        (
            "haproxy_backend_client_aborts",
            "Sessions that the client broke off",
            |p| sum(p, |s| load(&s.load.tally.client_aborts)),
        ),
        (
            "haproxy_backend_server_aborts",
            "Sessions that the server broke off",
            |p| sum(p, |s| load(&s.load.tally.server_aborts)),
        ),
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

/// How backends have fared, and how many of their servers are in which state.
fn histories(page: &mut Page<'_, '_>, view: &View, now: Instant) -> fmt::Result {
    let known = || {
        let backends = view.backends.iter();
        backends.map(|(name, history)| (labels(&[("proxy", &**name)]), history))
    };
    let changes = known().map(|(names, history)| {
        let ago = now.saturating_duration_since(history.since);
        (names, ago.as_secs_f64())
    });
    page.gauges(
        "haproxy_backend_check_last_change_seconds",
        "Since the state last changed",
        changes.collect(),
    )?;
    let downs = known().map(|(names, history)| (names, history.n_downs));
    page.counters(
        "haproxy_backend_check_up_down",
        "Times there was no server to choose",
        downs.collect(),
    )?;
    let downtime = known().map(|(names, history)| (names, history.downtime(now).as_secs_f64()));
    page.float_counters(
        "haproxy_backend_downtime_seconds",
        "Time without a server to choose",
        downtime.collect(),
    )?;
    let mut states = Vec::new();
    for name in view.backends.keys() {
        for (state, of) in STATES {
            let all = view.histories.iter();
            let in_it =
                all.filter(|((backend, _), history)| backend == name && history.verdict == of);
            let n_in_it = u64::try_from(in_it.count()).unwrap_or(u64::MAX);
            let names = labels(&[("proxy", &**name), ("state", state)]);
            states.push((names, float(n_in_it)));
        }
    }
    let help = "How many servers are in a state";
    page.gauges("haproxy_backend_agg_server_status", help, states)
}

fn of_group(pool: &Pool, backup: bool) -> u64 {
    let group = pool.servers.iter().filter(|server| server.backup == backup);
    let up = group.filter(|server| server.standing.is_up());
    u64::try_from(up.count()).unwrap_or(u64::MAX)
}

fn sum(pool: &Pool, of: impl Fn(&Server) -> u64) -> u64 {
    pool.servers.iter().map(|server| of(server)).sum()
}
