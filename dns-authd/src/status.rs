//! The status of the server: as JSON for programs, as text for people.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use api::Status;
use api::cluster_nodes::Nodes;
use api::dns_authd::{
    Catalog, Certainty, Detail, Health, HealthState, Kubernetes, LiveSet, Secondary, Zone,
    ZoneChange, ZoneDifference, ZoneHistory, ZoneState, Zones,
};
use config_text::counted;
use daemon::run::headline;
use dns_answer::tally::{RCODES, TRANSPORTS};
use dns_cluster::Findings;
use dns_kubernetes::RefusedHostname;
use proto::cluster::Kind;
use proto::cluster::link::Link as ClusterLink;
use proto::link::Link;

use crate::metrics::Totals;
use crate::publisher::{Reports, ZoneReport};
use crate::secondary::Views;
use dns_programs::LiveReport;

/// The most zones that the status lists; `zone list` has all.
const SHOWN_ZONES: usize = 50;

/// The most left out records of a zone that are shown; the JSON has more.
const SHOWN_LEFT_OUT: usize = 10;

/// The server at one moment.
#[must_use]
pub fn detail(
    reports: &Reports,
    secondaries: &Views,
    catalogs: &[Catalog],
    totals: &Totals,
    link: &Link,
    cluster: (&ClusterLink, &Findings),
) -> Detail {
    let sum = totals.sum();
    let transports = TRANSPORTS.iter().map(|(_, name)| (*name).to_owned());
    let rcodes = RCODES.iter().map(|(_, name)| *name).chain(["other"]);
    // Those in trouble first: they are why an operator looks.
    let mut shown: Vec<&ZoneReport> = reports.zones.iter().map(|zone| &**zone).collect();
    shown.sort_by_key(|zone| zone.state == ZoneState::Loaded);
    let count = |state| {
        let zones = reports.zones.iter();
        zones.filter(|zone| zone.state == state).count()
    };
    Detail {
        queries: transports
            .zip(sum.queries.iter().map(|row| row.iter().sum()))
            .collect(),
        responses: rcodes
            .map(str::to_owned)
            .zip(sum.rcodes)
            .filter(|(_, count)| *count > 0)
            .collect(),
        truncated: sum.truncated,
        live_answers: sum.live,
        zones: Zones {
            loaded: count(ZoneState::Loaded),
            stale: count(ZoneState::Stale),
            failed: count(ZoneState::Failed),
            held: count(ZoneState::Held),
            loading: count(ZoneState::Loading),
            loads: reports.loads.clone(),
            shown: shown
                .into_iter()
                .take(SHOWN_ZONES)
                .map(|report| zone(report, secondaries))
                .collect(),
        },
        health: health(reports, link),
        kubernetes: kubernetes(cluster),
        nodes: None,
        catalogs: catalogs.to_vec(),
    }
}

/// Every zone.
#[must_use]
pub fn zones(reports: &Reports, secondaries: &Views) -> Vec<Zone> {
    let reports = reports.zones.iter();
    reports.map(|one| zone(one, secondaries)).collect()
}

fn zone(report: &ZoneReport, secondaries: &Views) -> Zone {
    let loaded = report
        .loaded
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Zone {
        name: report.name.to_string(),
        file: report.file.as_ref().map(|file| file.display().to_string()),
        state: report.state,
        serial: report.serial,
        records: report.records,
        memory: report.memory,
        loaded: loaded.map(|loaded| loaded.as_secs()),
        held: report.held.clone(),
        rollback: report.rollback.clone(),
        updates: report.updates(),
        flattened: report.flattened,
        problems: report.problems.clone(),
        warnings: report.warnings.clone(),
        n_left_out: report.left_out.count,
        left_out: report
            .left_out
            .first
            .iter()
            .map(ToString::to_string)
            .collect(),
        live: report.live.iter().map(|set| live_set(set)).collect(),
        secondary: secondaries.get(&report.name).cloned(),
    }
}

fn live_set(set: &LiveReport) -> LiveSet {
    LiveSet {
        owner: set.owner.to_string(),
        rtype: set.rtype.to_string(),
        certainty: certainty(set),
        members: set.members.clone(),
        ttl: set.ttl,
        messages: set.messages.clone(),
    }
}

/// The certainty of a live set.
pub(crate) const fn certainty(set: &LiveReport) -> Certainty {
    match set.certainty {
        Some(dns_lua::Certainty::Known) => Certainty::Known,
        Some(dns_lua::Certainty::AllDown) => Certainty::AllDown,
        Some(dns_lua::Certainty::Unknown) => Certainty::Unknown,
        None => Certainty::Failed,
    }
}

/// The connection to healthd.
pub(crate) fn health(reports: &Reports, link: &Link) -> Health {
    let targets = reports.n_targets;
    match link.state() {
        None => Health {
            targets,
            ..Health::default()
        },
        Some(state) => Health {
            state: match state.connected {
                true => HealthState::Connected,
                false => HealthState::Disconnected,
            },
            error: Some(state.error),
            targets,
            age_seconds: link.age().map(|age| age.as_secs_f64()),
            stand_in: link.current().stands_in,
        },
    }
}

fn kubernetes((link, findings): (&ClusterLink, &Findings)) -> Option<Kubernetes> {
    let state = link.state()?;
    let snapshot = link.current();
    Some(Kubernetes {
        connected: state.connected,
        error: state.error,
        generation: snapshot.generation,
        freshness: snapshot.least_fresh().name().to_owned(),
        services: snapshot.count(Kind::Service),
        endpoint_slices: snapshot.count(Kind::EndpointSlice),
        age_seconds: link.age().map(|age| age.as_secs_f64()),
        hostnames: findings.hostnames,
        n_refused: findings.n_refused,
        refused: findings.refused.iter().map(refused).collect(),
        probed: findings.probed,
        unprobed: findings.unprobed,
    })
}

fn refused(refused: &RefusedHostname) -> String {
    let RefusedHostname {
        service,
        hostname,
        reason,
    } = refused;
    format!("{service} does not have {hostname}: {reason}")
}

//--- Text

/// The status as people read it. `now` is for ages.
#[must_use]
pub fn render(status: &Status<Detail>, now: SystemTime) -> String {
    let mut text = headline(status);
    if let Some(detail) = &status.detail {
        // Writing to a string cannot fail.
        let _written = write_detail(&mut text, detail, now);
    }
    text
}

fn write_detail(text: &mut String, detail: &Detail, now: SystemTime) -> std::fmt::Result {
    let counted_by_name = |counts: &std::collections::BTreeMap<String, u64>| {
        let counts = counts.iter().filter(|(_, count)| **count > 0);
        let words: Vec<String> = counts
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        words.join(", ")
    };
    match counted_by_name(&detail.queries) {
        none if none.is_empty() => writeln!(text, "queries    none yet")?,
        queries => writeln!(text, "queries    {queries}")?,
    }
    match counted_by_name(&detail.responses) {
        none if none.is_empty() => {}
        responses => writeln!(text, "responses  {responses}")?,
    }
    writeln!(text, "healthd    {}", health_text(&detail.health))?;
    if let Some(kubernetes) = &detail.kubernetes {
        write_kubernetes(text, kubernetes)?;
    }
    if let Some(nodes) = &detail.nodes {
        writeln!(text, "nodes      {}", nodes_text(nodes))?;
        dns_cluster::nodes::view::write(text, nodes, "    ")?;
    }
    for catalog in &detail.catalogs {
        write_catalog(text, catalog)?;
    }
    let zones = &detail.zones;
    writeln!(
        text,
        "zones      {} loaded, {} stale, {} failed, {} held back, {} loading",
        zones.loaded, zones.stale, zones.failed, zones.held, zones.loading
    )?;
    if !zones.loads.running.is_empty() {
        let (running, waiting) = (zones.loads.running.join(" "), zones.loads.waiting);
        writeln!(text, "reading    {running}, {waiting} waiting")?;
    }
    zones
        .shown
        .iter()
        .try_for_each(|zone| write_zone(text, zone, now))
}

fn write_catalog(text: &mut String, catalog: &Catalog) -> std::fmt::Result {
    let Catalog { name, members, .. } = catalog;
    let zones = counted(*members, "zone");
    let what = match catalog.is_read {
        true => format!("{zones} served from it"),
        false => format!("lists {zones}"),
    };
    writeln!(text, "catalog    {name}  {what}")?;
    if let Some(error) = &catalog.error {
        writeln!(text, "    broken, its zones stay as they are: {error}")?;
    }
    for conflict in &catalog.conflicts {
        writeln!(text, "    conflict: {conflict}")?;
    }
    match catalog.n_conflicts.saturating_sub(catalog.conflicts.len()) {
        0 => Ok(()),
        more => writeln!(text, "    and {more} more"),
    }
}

/// The list of `/zones` as people read it.
#[must_use]
pub fn render_zones(zones: &[Zone], now: SystemTime) -> String {
    let mut text = String::new();
    for zone in zones {
        // Writing to a string cannot fail.
        let _written = write_zone(&mut text, zone, now);
    }
    text
}

fn health_text(health: &Health) -> String {
    let targets = counted(health.targets, "target");
    match health.state {
        HealthState::Off => format!("off, {targets}"),
        HealthState::Connected => format!("connected, {targets}"),
        HealthState::Disconnected => {
            let age = health.age_seconds.map_or_else(
                || "no snapshot yet".to_owned(),
                |age| format!("last snapshot {age:.0} s ago"),
            );
            let error = health.error.as_deref().unwrap_or_default();
            let targets = match health.stand_in {
                true => format!("{targets} probed by dns-authd itself"),
                false => targets,
            };
            format!("disconnected, {targets}, {age}: {error}")
        }
    }
}

fn write_kubernetes(text: &mut String, kubernetes: &Kubernetes) -> std::fmt::Result {
    writeln!(text, "clusterd   {}", kubernetes_text(kubernetes))?;
    if kubernetes.hostnames + kubernetes.n_refused > 0 {
        let names = counted(kubernetes.hostnames, "name");
        writeln!(text, "    {names} by annotations")?;
    }
    for refused in &kubernetes.refused {
        writeln!(text, "    {refused}")?;
    }
    match kubernetes
        .n_refused
        .saturating_sub(kubernetes.refused.len())
    {
        0 => {}
        more => writeln!(text, "    and {more} more")?,
    }
    if kubernetes.probed > 0 {
        let probed = counted(kubernetes.probed, "endpoint");
        let unprobed = match kubernetes.unprobed {
            0 => String::new(),
            more => format!(", {more} more are not"),
        };
        writeln!(text, "    {probed} probed by healthd{unprobed}")?;
    }
    Ok(())
}

fn kubernetes_text(kubernetes: &Kubernetes) -> String {
    let objects = format!(
        "{}, {}",
        counted(kubernetes.services, "Service"),
        counted(kubernetes.endpoint_slices, "slice")
    );
    let (generation, freshness) = (kubernetes.generation, &kubernetes.freshness);
    let snapshot = format!("generation {generation}, {freshness}, {objects}");
    match (kubernetes.connected, kubernetes.age_seconds) {
        (true, _) => format!("connected, {snapshot}"),
        (false, Some(age)) => {
            let error = &kubernetes.error;
            format!("disconnected, last heard of {age:.0} s ago, {snapshot}: {error}")
        }
        (false, None) => format!("disconnected, no snapshot yet: {}", kubernetes.error),
    }
}

fn nodes_text(nodes: &Nodes) -> String {
    match (nodes.connected, nodes.age_seconds) {
        (true, _) => format!("clusterd is connected, generation {}", nodes.generation),
        (false, Some(age)) => format!(
            "clusterd is NOT connected, last heard of {age:.0} s ago: {}",
            nodes.error
        ),
        (false, None) => format!("clusterd is NOT connected: {}", nodes.error),
    }
}

fn write_zone(text: &mut String, zone: &Zone, now: SystemTime) -> std::fmt::Result {
    let now = now
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| now.as_secs());
    let age = match zone.loaded {
        Some(loaded) => format!("loaded {} ago", ago(now.saturating_sub(loaded))),
        None => "never loaded".to_owned(),
    };
    writeln!(
        text,
        "  {}  {}  serial {}  {}  {age}",
        zone.name,
        zone.state.name(),
        zone.serial,
        counted(zone.records, "record"),
    )?;
    if let Some(secondary) = &zone.secondary {
        write_secondary(text, secondary, now)?;
    }
    if let Some(held) = &zone.held {
        let records = counted(held.records, "record");
        writeln!(text, "    held back: serial {}, {records}", held.serial)?;
        for reason in &held.reasons {
            writeln!(text, "      {reason}")?;
        }
        writeln!(
            text,
            "      publish it: dns-authd zone accept {}",
            zone.name
        )?;
    }
    if let Some(rollback) = &zone.rollback {
        writeln!(text, "    {rollback}")?;
    }
    if let Some(updates) = &zone.updates {
        writeln!(text, "    {updates}")?;
    }
    if let Some(serial) = zone.flattened {
        writeln!(text, "    flattened for secondaries: serial {serial}")?;
    }
    for problem in &zone.problems {
        writeln!(text, "    problem: {problem}")?;
    }
    if zone.n_left_out > 0 {
        writeln!(text, "    left out: {}", counted(zone.n_left_out, "record"))?;
    }
    for problem in zone.left_out.iter().take(SHOWN_LEFT_OUT) {
        writeln!(text, "      {problem}")?;
    }
    for set in &zone.live {
        let members = match set.members.is_empty() {
            true => "nothing".to_owned(),
            false => set.members.join(" "),
        };
        writeln!(
            text,
            "    {} {}  {}  {members}  ttl {}",
            set.owner,
            set.rtype,
            set.certainty.name(),
            set.ttl,
        )?;
        for message in &set.messages {
            writeln!(text, "      {message}")?;
        }
    }
    Ok(())
}

fn write_secondary(text: &mut String, secondary: &Secondary, now: u64) -> std::fmt::Result {
    let primaries = secondary.primaries.join(" ");
    let checked = match secondary.checked {
        Some(checked) => format!("current {} ago", ago(now.saturating_sub(checked))),
        None => "never transferred".to_owned(),
    };
    let next = match secondary.running {
        true => "asks now".to_owned(),
        false => format!("asks in {}", ago(secondary.next.saturating_sub(now))),
    };
    let expiry = match (secondary.expired, secondary.expires) {
        (true, _) => ", EXPIRED: queries get SERVFAIL".to_owned(),
        (false, Some(at)) => format!(", expires in {}", ago(at.saturating_sub(now))),
        (false, None) => String::new(),
    };
    writeln!(text, "    from {primaries}: {checked}, {next}{expiry}")?;
    match &secondary.error {
        Some(error) => writeln!(text, "      not refreshed: {error}"),
        None => Ok(()),
    }
}

//--- History

/// The answer of `/zones/history` as people read it.
#[must_use]
pub fn render_history(history: &ZoneHistory, now: SystemTime) -> String {
    let now = now
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| now.as_secs());
    let mut lines = vec![format!("{}  serial {}", history.zone, history.serial)];
    lines.extend(history.rollback.iter().map(ToString::to_string));
    if history.changes.is_empty() {
        lines.push("  no earlier version is kept".to_owned());
    }
    lines.extend(history.changes.iter().map(|change| {
        let ZoneChange {
            from,
            to,
            published,
            removed,
            added,
        } = change;
        let age = ago(now.saturating_sub(*published));
        format!("  {from} -> {to}  {age} ago  -{removed} +{added}")
    }));
    lines.join("\n")
}

/// The answer of `/zones/diff` as people read it.
#[must_use]
pub fn render_difference(difference: &ZoneDifference) -> String {
    let ZoneDifference { zone, from, to, .. } = difference;
    let held = if difference.held { ", held back" } else { "" };
    let mut lines = vec![format!("{zone}  {from} -> {to}{held}")];
    lines.extend(difference.removed.iter().map(|line| format!("-{line}")));
    lines.extend(difference.added.iter().map(|line| format!("+{line}")));
    lines.join("\n")
}

fn ago(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
