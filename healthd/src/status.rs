//! The `detail` of `/status`, and the text that `healthd status` prints from it.

use std::time::{Duration, UNIX_EPOCH};

use config_text::counted;
use daemon::calendar::Timestamp;
use daemon::config::HumanDuration;
use daemon::run::headline;
use proto::health::Liveness;
use serde_json::{Value, json};

use crate::wire_form;
use liveness::clocks::Clock;
use liveness::monitor::Monitor;
use liveness::now::Now;
use liveness::table::Entry;

/// Everything an operator would ask the monitor.
#[must_use]
pub fn detail(monitor: &Monitor, listeners: &[String], now: Now) -> Value {
    let (in_flight, limit) = monitor.in_flight();
    let subscribers = monitor.subscribers().map(|subscriber| {
        json!({
            "name": subscriber.name,
            "targets": subscriber.n_targets(),
            "since": time(Some(subscriber.since)),
        })
    });
    json!({
        "serves": serves(monitor),
        "generation": monitor.generation(),
        "listeners": listeners,
        "probes": { "in_flight": in_flight, "limit": limit },
        "subscribers": subscribers.collect::<Vec<_>>(),
        "targets": monitor.table().entries().map(target).collect::<Vec<_>>(),
        "clocks": monitor.clocks().iter().map(|one| clock(one, now)).collect::<Vec<_>>(),
    })
}

/// The service in a few words: `9 targets, 6 up`.
#[must_use]
pub fn serves(monitor: &Monitor) -> String {
    let up = |entry: &&Entry| entry.state.liveness() == Liveness::Up;
    let n_up = monitor.table().entries().filter(up).count();
    format!("{}, {n_up} up", counted(monitor.table().len(), "target"))
}

fn target(entry: &Entry) -> Value {
    json!({
        "id": wire_form::fingerprint(&entry.target),
        "target": entry.target.to_string(),
        "kind": entry.target.kind.name(),
        "address": entry.target.address.to_string(),
        "liveness": entry.state.liveness().to_string(),
        "warm": entry.state.is_warm(),
        "admin": entry.admin.to_string(),
        "since": time(entry.since),
        "last_check": time(entry.last_check),
        "latency_seconds": entry.latency.as_secs_f64(),
        "interval": HumanDuration(entry.target.schedule.interval).to_string(),
        "reason": entry.reason,
        "transitions": entry.counts.n_transitions,
    })
}

fn clock(clock: &Clock, now: Now) -> Value {
    let report = &clock.report;
    json!({
        "reporter": report.reporter,
        "state": report.state.name(),
        "stale": clock.is_stale(now.steady),
        "age_seconds": clock.age(now.steady).as_secs_f64(),
        "since": time(Some(clock.since)),
        "offset_seconds": seconds(report.offset),
        "root_distance_seconds": report.root_distance.as_secs_f64(),
        "stratum": report.stratum,
        "leap": report.leap.name(),
        "sources": report.n_sources,
        "selectable_sources": report.n_selectable,
        "reference": report.reference,
    })
}

#[expect(
    clippy::cast_precision_loss,
    reason = "exact to the nanosecond for a hundred days"
)]
fn seconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn time(since_1970: Option<Duration>) -> Value {
    since_1970.map_or(Value::Null, |time| {
        Timestamp(UNIX_EPOCH + time).to_string().into()
    })
}

//--- Words

/// The status as lines for people.
#[must_use]
pub fn render(status: &Value) -> String {
    let mut text = headline(status);
    let detail = status.get("detail").unwrap_or(&Value::Null);
    text.push_str(&format!(
        "{}, generation {}\n",
        word(detail, "serves"),
        detail
            .get("generation")
            .and_then(Value::as_u64)
            .unwrap_or(0)
    ));
    for subscriber in rows(detail, "subscribers") {
        text.push_str(&format!(
            "  watched by {}: {} since {}\n",
            word(subscriber, "name"),
            counted(
                subscriber
                    .get("targets")
                    .and_then(Value::as_u64)
                    .unwrap_or(0),
                "target"
            ),
            word(subscriber, "since")
        ));
    }
    let width = rows(detail, "targets")
        .map(|target| word(target, "target").chars().count())
        .max();
    for target in rows(detail, "targets") {
        text.push_str(&row(target, width.unwrap_or(0)));
    }
    for clock in rows(detail, "clocks") {
        text.push_str(&clock_row(clock));
    }
    text
}

/// A clock in words: `clock of master-0: locked to 192.0.2.1, stratum 3, …`.
fn clock_row(clock: &Value) -> String {
    format!(
        "  clock of {}: {}, since {}\n",
        word(clock, "reporter"),
        clock_words(clock),
        word(clock, "since")
    )
}

/// How good a clock is, in a line.
pub(crate) fn clock_words(clock: &Value) -> String {
    let number = |key: &str| clock.get(key).and_then(Value::as_f64).unwrap_or(0.0);
    let count = |key: &str| clock.get(key).and_then(Value::as_u64).unwrap_or(0);
    let reference = match word(clock, "reference") {
        "" | "-" => String::new(),
        reference => format!(" to {reference}"),
    };
    let leap = match word(clock, "leap") {
        "normal" | "not synchronised" | "-" => String::new(),
        leap => format!(", leap: {leap}"),
    };
    let stale = match clock.get("stale").and_then(Value::as_bool) {
        Some(true) => format!(", not heard of for {:.0} s", number("age_seconds")),
        _ => String::new(),
    };
    format!(
        "{}{reference}, stratum {}, offset {:+.3} ms, root distance {:.3} ms, {} of {}{leap}{stale}",
        word(clock, "state"),
        count("stratum"),
        number("offset_seconds") * 1e3,
        number("root_distance_seconds") * 1e3,
        count("selectable_sources"),
        counted(count("sources"), "source"),
    )
}

fn row(target: &Value, width: usize) -> String {
    let admin = match word(target, "admin") {
        "ready" => String::new(),
        other => format!(", {other}"),
    };
    let warm = match target.get("warm").and_then(Value::as_bool) {
        Some(true) => ", from before the restart",
        _ => "",
    };
    let latency = target.get("latency_seconds").and_then(Value::as_f64);
    format!(
        "  {:<7} {:<width$}  {:>8.1} ms  since {}  {}{admin}{warm}\n",
        word(target, "liveness"),
        word(target, "target"),
        latency.unwrap_or(0.0) * 1000.0,
        word(target, "since"),
        word(target, "reason"),
    )
}

/// The entries of a list; none when there is no such list.
pub(crate) fn rows<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value
        .get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// A text, or `-` when there is none.
pub(crate) fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_a_table_of_targets() {
        let status = json!({
            "service": "healthd", "version": "0.1.0", "revision": "abc", "state": "serving",
            "ready": true, "uptime_seconds": 9.0,
            "detail": {
                "serves": "1 target, 0 up", "generation": 7,
                "subscribers": [{"name": "dns-authd", "targets": 1, "since": "2026-11-21T09:30:00.000Z"}],
                "targets": [{
                    "target": "tcp 192.168.7.13:6443", "liveness": "down", "warm": true, "admin": "drain",
                    "since": "2026-11-21T09:31:00.000Z", "latency_seconds": 0.0123,
                    "reason": "connection refused",
                }],
            },
        });
        assert_eq!(
            render(&status),
            "healthd 0.1.0 (abc), serving, ready, up 9s\n\
             1 target, 0 up, generation 7\n  \
             watched by dns-authd: 1 target since 2026-11-21T09:30:00.000Z\n  \
             down    tcp 192.168.7.13:6443      12.3 ms  since 2026-11-21T09:31:00.000Z  \
             connection refused, drain, from before the restart\n"
        );
        assert!(render(&json!({})).contains('?'), "nothing is no panic");
    }
}
