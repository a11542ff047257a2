//! HAProxy's own exporter's names (addons/promex), with its labels and meaning, so that dashboards and
//! alerts for HAProxy continue. Values that this proxy does not have are absent: failed checks, which
//! healthd counts, and averages and rates, which a scraper computes from the counters.

mod backend;
mod server;

use std::fmt;
use std::time::Instant;

use balance::pool::Server;
use balance::table::FrontendTally;
use daemon::metrics::{Page, float, labels};
use l4::access_log::Log;
use l4::relay::Engine;

use super::load;
use crate::server_state::Verdict;
use crate::table_builder::View;

pub(super) fn encode(
    page: &mut Page<'_, '_>,
    view: &View,
    engine: &Engine,
    log: &Log,
    now: Instant,
) -> fmt::Result {
    process(page, engine, log)?;
    frontends(page, view)?;
    backend::backends(page, view, now)?;
    server::servers(page, view, now)
}

fn process(page: &mut Page<'_, '_>, engine: &Engine, log: &Log) -> fmt::Result {
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
    )?;
    let listeners = u64::try_from(engine.listening().len()).unwrap_or(u64::MAX);
    let help = "Addresses that are listened on";
    page.gauge("haproxy_process_listeners", help, float(listeners))?;
    page.counter(
        "haproxy_process_dropped_logs",
        "Records of the access log that were dropped",
        log.dropped(),
    )
}

/// HAProxy's words for the states of servers.
const STATES: [(&str, Verdict); 4] = [
    ("DOWN", Verdict::Down),
    ("UP", Verdict::Up),
    ("MAINT", Verdict::Maintenance),
    ("DRAIN", Verdict::Drain),
];

/// A count of a frontend.
type OfFrontend = fn(&FrontendTally) -> u64;

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

/// Connections that were begun.
fn attempts(server: &Server) -> u64 {
    let tally = &server.load.tally;
    load(&tally.connects) + load(&tally.connect_errors)
}
