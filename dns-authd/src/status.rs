//! The status of the server: as JSON for programs, as text for people.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use config_text::counted;
use daemon::run::headline_untyped;
use dns_answer::tally::{RCODES, TRANSPORTS};
use dns_lua::Certainty;
use serde_json::{Value, json};

use crate::health::Link;
use crate::metrics::Totals;
use crate::programs::LiveReport;
use crate::publisher::{Reports, State, ZoneReport};

/// The most zones that the status lists; `zone list` has all.
const SHOWN_ZONES: usize = 50;

/// The server at one moment.
#[must_use]
pub fn value(reports: &Reports, totals: &Totals, link: &Link) -> Value {
    let sum = totals.sum();
    let queries: serde_json::Map<String, Value> = TRANSPORTS
        .iter()
        .zip(sum.queries)
        .map(|((_, name), row)| ((*name).to_owned(), json!(row.iter().sum::<u64>())))
        .collect();
    let rcodes = RCODES.iter().map(|(_, name)| *name).chain(["other"]);
    let responses: serde_json::Map<String, Value> = rcodes
        .zip(sum.rcodes)
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (name.to_owned(), json!(count)))
        .collect();
    // Those in trouble first: they are why an operator looks.
    let mut zones: Vec<&ZoneReport> = reports.zones.iter().map(|zone| &**zone).collect();
    zones.sort_by_key(|zone| zone.state == State::Loaded);
    let count = |state| {
        reports
            .zones
            .iter()
            .filter(|zone| zone.state == state)
            .count()
    };
    let shown = zones.iter().take(SHOWN_ZONES).map(|zone| zone_value(zone));
    json!({
        "queries": queries,
        "responses": responses,
        "truncated": sum.truncated,
        "live_answers": sum.live,
        "zones": {
            "loaded": count(State::Loaded),
            "stale": count(State::Stale),
            "failed": count(State::Failed),
            "shown": shown.collect::<Vec<_>>(),
        },
        "health": health_value(reports, link),
    })
}

/// Every zone.
#[must_use]
pub fn zones(reports: &Reports) -> Value {
    let zones = reports.zones.iter().map(|zone| zone_value(zone));
    json!(zones.collect::<Vec<_>>())
}

fn zone_value(zone: &ZoneReport) -> Value {
    let loaded = zone
        .loaded
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    json!({
        "name": zone.name.to_string(),
        "file": zone.file.as_ref().map(|file| file.display().to_string()),
        "state": zone.state.name(),
        "serial": zone.serial,
        "records": zone.records,
        "memory": zone.memory,
        "loaded": loaded.map(|loaded| loaded.as_secs()),
        "problems": zone.problems,
        "warnings": zone.warnings,
        "live": zone.live.iter().map(live_value).collect::<Vec<_>>(),
    })
}

fn live_value(set: &LiveReport) -> Value {
    let certainty = match set.certainty {
        Some(Certainty::Known) => "known",
        Some(Certainty::AllDown) => "all down",
        Some(Certainty::Unknown) => "unknown",
        None => "failed",
    };
    json!({
        "owner": set.owner.to_string(),
        "type": set.rtype.to_string(),
        "certainty": certainty,
        "members": set.members,
        "ttl": set.ttl,
        "messages": set.messages,
    })
}

fn health_value(reports: &Reports, link: &Link) -> Value {
    match link.state() {
        None => json!({ "state": "off", "targets": reports.n_targets }),
        Some(state) => json!({
            "state": if state.connected { "connected" } else { "disconnected" },
            "error": state.error,
            "targets": reports.n_targets,
            "age_seconds": link.age().map(|age| age.as_secs_f64()),
        }),
    }
}

//--- Text

/// The answer of `/status` as people read it. `now` is for ages.
#[must_use]
pub fn render(answer: &Value, now: SystemTime) -> String {
    let mut text = String::new();
    let detail = answer.get("detail").unwrap_or(answer);
    let line = |text: &mut String, words: &str| {
        text.push_str(words);
        text.push('\n');
    };
    if answer.get("service").is_some() {
        text.push_str(&headline_untyped(answer));
    }
    let count = |value: &Value, key: &str| value.get(key).and_then(Value::as_u64).unwrap_or(0);
    let queries = detail.get("queries").and_then(Value::as_object);
    let queries: Vec<String> = queries
        .into_iter()
        .flatten()
        .filter(|(_, count)| count.as_u64() != Some(0))
        .map(|(transport, count)| format!("{count} {transport}"))
        .collect();
    let queries = if queries.is_empty() {
        "none yet".to_owned()
    } else {
        queries.join(", ")
    };
    line(&mut text, &format!("queries    {queries}"));
    let responses = detail.get("responses").and_then(Value::as_object);
    let responses: Vec<String> = responses
        .into_iter()
        .flatten()
        .map(|(rcode, count)| format!("{count} {rcode}"))
        .collect();
    if !responses.is_empty() {
        line(&mut text, &format!("responses  {}", responses.join(", ")));
    }
    let health = detail.get("health").unwrap_or(&Value::Null);
    line(&mut text, &format!("healthd    {}", health_text(health)));
    let zones = detail.get("zones").unwrap_or(&Value::Null);
    line(
        &mut text,
        &format!(
            "zones      {} loaded, {} stale, {} failed",
            count(zones, "loaded"),
            count(zones, "stale"),
            count(zones, "failed")
        ),
    );
    let shown = zones.get("shown").and_then(Value::as_array);
    for zone in shown.into_iter().flatten() {
        push_zone(&mut text, zone, now);
    }
    text
}

/// The list of `/zones` as people read it.
#[must_use]
pub fn render_zones(zones: &Value, now: SystemTime) -> String {
    let mut text = String::new();
    for zone in zones.as_array().into_iter().flatten() {
        push_zone(&mut text, zone, now);
    }
    text
}

fn health_text(health: &Value) -> String {
    let targets = health.get("targets").and_then(Value::as_u64).unwrap_or(0);
    let targets = counted(targets, "target");
    let state = string(health, "state");
    match state {
        "disconnected" => {
            let age = health.get("age_seconds").and_then(Value::as_f64);
            let age = age.map_or_else(
                || "no snapshot yet".to_owned(),
                |age| format!("last snapshot {age:.0} s ago"),
            );
            let error = string(health, "error");
            format!("disconnected, {targets}, {age}: {error}")
        }
        state => format!("{state}, {targets}"),
    }
}

fn push_zone(text: &mut String, zone: &Value, now: SystemTime) {
    let number = |key: &str| zone.get(key).and_then(Value::as_u64).unwrap_or(0);
    let now = now
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| now.as_secs());
    let age = match zone.get("loaded").and_then(Value::as_u64) {
        Some(loaded) => format!("loaded {} ago", ago(now.saturating_sub(loaded))),
        None => "never loaded".to_owned(),
    };
    // Writing to a string cannot fail.
    let _written = writeln!(
        text,
        "  {}  {}  serial {}  {}  {age}",
        string(zone, "name"),
        string(zone, "state"),
        number("serial"),
        counted(number("records"), "record"),
    );
    for problem in strings(zone, "problems") {
        let _written = writeln!(text, "    problem: {problem}");
    }
    let live = zone.get("live").and_then(Value::as_array);
    for set in live.into_iter().flatten() {
        let members: Vec<&str> = strings(set, "members").collect();
        let members = if members.is_empty() {
            "nothing".to_owned()
        } else {
            members.join(" ")
        };
        let _written = writeln!(
            text,
            "    {} {}  {}  {members}  ttl {}",
            string(set, "owner"),
            string(set, "type"),
            string(set, "certainty"),
            set.get("ttl").and_then(Value::as_u64).unwrap_or(0),
        );
        for message in strings(set, "messages") {
            let _written = writeln!(text, "      {message}");
        }
    }
}

fn string<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

fn strings<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v str> {
    let items = value.get(key).and_then(Value::as_array);
    items.into_iter().flatten().filter_map(Value::as_str)
}

fn ago(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
