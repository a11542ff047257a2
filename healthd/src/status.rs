//! The `detail` of `/status`, and the text that `healthd status` prints from it.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use api::Status;
pub(crate) use api::explain::healthd::verdict_words;
use api::healthd::{
    Clock, Contact, Decision, Detail, Deviation, Exchange, Lease, Peer, Probes, Subscriber, Target,
};
use config_text::counted;
use daemon::calendar::Timestamp;
use daemon::config::HumanDuration;
use daemon::decision;
use daemon::run::headline;

use exchange::members::{self, PeerId};
use proto::health::{AdminState, Leap, Liveness};

use crate::wire_form;
use liveness::admin_rules::{self, Scope};
use liveness::clocks;
use liveness::monitor::Monitor;
use liveness::now::Now;
use liveness::table::{Entry, Seen};

/// Everything an operator would ask the monitor; with why other nodes are not heard.
#[must_use]
pub fn detail(
    monitor: &Monitor,
    listeners: &[String],
    peer_errors: &BTreeMap<PeerId, String>,
    now: Now,
) -> Detail {
    let (in_flight, limit) = monitor.in_flight();
    let subscribers = monitor.subscribers().map(|subscriber| Subscriber {
        name: subscriber.name.clone(),
        targets: subscriber.n_targets(),
        since: time(Some(subscriber.since)),
        waiting: subscriber.n_waiting(),
        first_waiting: subscriber
            .waiting()
            .take(NAMED)
            .map(ToString::to_string)
            .collect(),
    });
    Detail {
        serves: serves(monitor),
        generation: monitor.generation(),
        listeners: listeners.to_owned(),
        probes: Probes { in_flight, limit },
        subscribers: subscribers.collect(),
        decisions: monitor.table().rules().iter().map(decision).collect(),
        targets: monitor
            .table()
            .entries()
            .map(|entry| target(monitor, entry))
            .collect(),
        clocks: monitor.clocks().iter().map(|one| clock(one, now)).collect(),
        exchange: exchange(monitor, peer_errors, now),
    }
}

/// The other nodes, where there are some.
fn exchange(monitor: &Monitor, errors: &BTreeMap<PeerId, String>, now: Now) -> Option<Exchange> {
    let members = monitor.exchanged()?.members();
    let (contact, since) = members.contact();
    let settings = members.settings();
    let peers = (0..).zip(members.peers()).map(|(number, peer)| Peer {
        name: peer.name.clone(),
        heard: peer.is_heard(settings.silence, now.steady),
        heard_seconds: peer
            .heard()
            .map(|heard| now.steady.saturating_duration_since(heard).as_secs_f64()),
        findings: peer.n_findings(),
        ignored: peer.n_ignored(),
        error: errors.get(&PeerId(number)).cloned().unwrap_or_default(),
    });
    Some(Exchange {
        node: settings.node.clone(),
        contact: contact_of(contact),
        contact_seconds: now.steady.saturating_duration_since(since).as_secs_f64(),
        peers: peers.collect(),
        // They are no matter of the monitor.
        leases: Vec::new(),
    })
}

/// The contact with the other nodes, as the status shows it.
pub(crate) const fn contact_of(contact: members::Contact) -> Contact {
    match contact {
        members::Contact::Joining => Contact::Joining,
        members::Contact::Connected => Contact::Connected,
        members::Contact::Alone => Contact::Alone,
        members::Contact::CutOff => Contact::CutOff,
    }
}

/// The service in a few words: `9 targets, 6 up`.
#[must_use]
pub fn serves(monitor: &Monitor) -> String {
    let up = |entry: &&Entry| entry.liveness() == Liveness::Up;
    let n_up = monitor.table().entries().filter(up).count();
    format!("{}, {n_up} up", counted(monitor.table().len(), "target"))
}

/// Targets without room that are named.
const NAMED: usize = 8;

/// A target and its state.
pub(crate) fn target(monitor: &Monitor, entry: &Entry) -> Target {
    let seen = Seen::from(entry);
    let schedule = seen.schedule();
    let views = monitor.views(&entry.target);
    Target {
        id: wire_form::fingerprint(&entry.target),
        target: entry.target.to_string(),
        kind: entry.target.kind.name().to_owned(),
        address: entry.target.address.to_string(),
        liveness: seen.liveness(),
        warm: seen.is_warm(),
        admin: entry.admin,
        since: time(seen.since()),
        last_check: time(entry.last_check),
        latency_seconds: entry.latency.as_secs_f64(),
        interval: HumanDuration(schedule.interval).to_string(),
        reason: seen.reason(),
        transitions: entry.counts.n_transitions,
        generation: entry.changed,
        rise: schedule.rise,
        fall: schedule.fall,
        deviations: views.map(deviation).collect(),
        verdict: seen.verdict(),
    }
}

/// A decision, with its place.
pub(crate) fn decision((scope, decision): (Scope, &admin_rules::Decision)) -> Decision {
    Decision {
        place: scope.to_string(),
        state: decision.state,
        terms: decision::shown(&decision.terms),
    }
}

fn deviation((seen, subscribers): (Seen<'_>, usize)) -> Deviation {
    Deviation {
        schedule: seen.deviation().to_string(),
        subscribers,
        liveness: seen.liveness(),
        since: time(seen.since()),
        generation: seen.changed(),
    }
}

fn clock(clock: &clocks::Clock, now: Now) -> Clock {
    let report = &clock.report;
    Clock {
        reporter: report.reporter.clone(),
        state: report.state,
        stale: clock.is_stale(now.steady),
        age_seconds: clock.age(now.steady).as_secs_f64(),
        since: time(Some(clock.since)),
        offset_seconds: seconds(report.offset),
        root_distance_seconds: report.root_distance.as_secs_f64(),
        stratum: report.stratum,
        leap: report.leap,
        sources: report.n_sources,
        selectable_sources: report.n_selectable,
        reference: report.reference.clone(),
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "exact to the nanosecond for a hundred days"
)]
pub(crate) fn seconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn time(since_1970: Option<Duration>) -> Option<String> {
    since_1970.map(|time| Timestamp(UNIX_EPOCH + time).to_string())
}

//--- Words

/// The status as lines for people.
#[must_use]
pub fn render(status: &Status<Detail>) -> String {
    let mut text = headline(status);
    let Some(detail) = &status.detail else {
        return text;
    };
    text.push_str(&format!(
        "{}, generation {}\n",
        detail.serves, detail.generation
    ));
    for subscriber in &detail.subscribers {
        text.push_str(&format!(
            "  watched by {}: {} since {}\n",
            subscriber.name,
            counted(subscriber.targets, "target"),
            or_dash(subscriber.since.as_deref())
        ));
        if subscriber.waiting > 0 {
            text.push_str(&format!("    {}\n", without_room(subscriber)));
        }
    }
    for decision in &detail.decisions {
        text.push_str(&format!("  {}\n", decision_words(decision)));
    }
    if let Some(exchange) = &detail.exchange {
        text.push_str(&format!("  {}\n", exchange_words(exchange)));
        for peer in &exchange.peers {
            text.push_str(&format!("    {}\n", peer_words(peer)));
        }
        for lease in &exchange.leases {
            text.push_str(&format!("    {}\n", lease_words(lease)));
        }
    }
    let width = |target: &Target| target.target.chars().count();
    let widest = detail.targets.iter().map(width).max().unwrap_or(0);
    for target in &detail.targets {
        text.push_str(&row(target, widest));
        if let Some(verdict) = &target.verdict {
            text.push_str(&format!("          {}\n", verdict_words(verdict)));
        }
        for deviation in &target.deviations {
            text.push_str(&format!("          {}\n", deviation_words(deviation)));
        }
    }
    for clock in &detail.clocks {
        text.push_str(&clock_row(clock));
    }
    text
}

/// The targets of a subscriber for which there is no room.
pub(crate) fn without_room(subscriber: &Subscriber) -> String {
    let named = subscriber.first_waiting.join(", ");
    let further = match subscriber
        .waiting
        .saturating_sub(subscriber.first_waiting.len())
    {
        0 => String::new(),
        further => format!(" and {further} more"),
    };
    let targets = counted(subscriber.waiting, "target");
    format!("no room for {targets}, unknown to it: {named}{further}")
}

/// Whether this node is in contact with the others, in a line.
pub(crate) fn exchange_words(exchange: &Exchange) -> String {
    format!(
        "{} among {} nodes: {} for {:.0} s",
        exchange.node,
        exchange.peers.len() + 1,
        exchange.contact,
        exchange.contact_seconds
    )
}

/// A lease, in a line.
pub(crate) fn lease_words(lease: &Lease) -> String {
    match &lease.holder {
        Some(holder) => format!("lease {}: {holder}", lease.name),
        None => format!("lease {}: free", lease.name),
    }
}

/// Another node, in a line.
pub(crate) fn peer_words(peer: &Peer) -> String {
    let ignored = match peer.ignored {
        0 => String::new(),
        ignored => format!(", {ignored} ignored"),
    };
    let heard = match (peer.heard, peer.heard_seconds) {
        (true, _) => "heard".to_owned(),
        (false, Some(seconds)) => format!("not heard for {seconds:.0} s"),
        (false, None) => "not heard".to_owned(),
    };
    let error = match peer.error.as_str() {
        "" => String::new(),
        error => format!(": {error}"),
    };
    let findings = counted(peer.findings, "finding");
    format!("{}: {heard}, {findings}{ignored}{error}", peer.name)
}

/// A deviation in a line: `down to 1 subscriber with fall 1, since …, generation 7`.
pub(crate) fn deviation_words(deviation: &Deviation) -> String {
    format!(
        "{} to {} with {}, since {}, generation {}",
        deviation.liveness,
        counted(deviation.subscribers, "subscriber"),
        deviation.schedule,
        or_dash(deviation.since.as_deref()),
        deviation.generation,
    )
}

/// A clock in words: `clock of master-0: locked to 192.0.2.1, stratum 3, …`.
fn clock_row(clock: &Clock) -> String {
    format!(
        "  clock of {}: {}, since {}\n",
        clock.reporter,
        clock_words(clock),
        or_dash(clock.since.as_deref())
    )
}

/// How good a clock is, in a line.
pub(crate) fn clock_words(clock: &Clock) -> String {
    let reference = match clock.reference.as_str() {
        "" | "-" => String::new(),
        reference => format!(" to {reference}"),
    };
    let leap = match clock.leap {
        Leap::Normal | Leap::Unsynchronised => String::new(),
        leap => format!(", leap: {leap}"),
    };
    let stale = match clock.stale {
        true => format!(", not heard of for {:.0} s", clock.age_seconds),
        false => String::new(),
    };
    format!(
        "{}{reference}, stratum {}, offset {:+.3} ms, root distance {:.3} ms, {} of {}{leap}{stale}",
        clock.state,
        clock.stratum,
        clock.offset_seconds * 1e3,
        clock.root_distance_seconds * 1e3,
        clock.selectable_sources,
        counted(clock.sources, "source"),
    )
}

/// A decision in words: `192.0.2.13: drain until … by anna: a new disk`.
pub(crate) fn decision_words(decision: &Decision) -> String {
    format!("{}: {}{}", decision.place, decision.state, decision.terms)
}

fn row(target: &Target, width: usize) -> String {
    let admin = match target.admin {
        AdminState::Ready => String::new(),
        other => format!(", {other}"),
    };
    let warm = match target.warm {
        true => ", from before the restart",
        false => "",
    };
    format!(
        "  {:<7} {:<width$}  {:>8.1} ms  since {}  {}{admin}{warm}, generation {}\n",
        target.liveness.to_string(),
        target.target,
        target.latency_seconds * 1000.0,
        or_dash(target.since.as_deref()),
        target.reason,
        target.generation,
    )
}

/// A text, or `-` when there is none.
pub(crate) fn or_dash(text: Option<&str>) -> &str {
    text.unwrap_or("-")
}

#[cfg(test)]
mod tests {
    use api::Terms;
    use proto::health::{Basis, NodeFinding, Verdict};

    use super::*;

    #[test]
    fn a_decision_says_who_took_it_why_and_until_when() {
        let detail = Detail {
            serves: "0 targets, 0 up".to_owned(),
            decisions: vec![
                Decision {
                    place: "192.168.7.13".to_owned(),
                    state: AdminState::Drain,
                    terms: Terms {
                        since: Some("2026-11-21T09:31:00.000Z".to_owned()),
                        until: Some("2026-11-21T10:01:00.000Z".to_owned()),
                        reason: "a new disk".to_owned(),
                        by: "anna".to_owned(),
                    },
                },
                Decision {
                    place: "192.168.7.14:443".to_owned(),
                    state: AdminState::Maintenance,
                    terms: Terms::default(),
                },
            ],
            ..Detail::default()
        };
        let text = render(&Status::serving("healthd", detail));
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "  192.168.7.13: drain since 2026-11-21T09:31:00.000Z until 2026-11-21T10:01:00.000Z by anna: a new disk",
                "  192.168.7.14:443: maintenance",
            ]
        );
    }

    #[test]
    fn other_nodes_and_what_they_find_are_lines() {
        let peer = |name: &str, heard_seconds, error: &str| Peer {
            name: name.to_owned(),
            heard: error.is_empty(),
            heard_seconds,
            findings: 1,
            ignored: 0,
            error: error.to_owned(),
        };
        let exchange = Exchange {
            node: "master-0".to_owned(),
            contact: Contact::CutOff,
            contact_seconds: 9.0,
            peers: vec![
                Peer {
                    ignored: 2,
                    ..peer("master-1", Some(0.2), "")
                },
                peer("master-2", Some(9.0), "silent"),
                peer("master-3", None, "refused"),
            ],
            leases: Vec::new(),
        };
        assert_eq!(
            exchange_words(&exchange),
            "master-0 among 4 nodes: cut off for 9 s"
        );
        let peers: Vec<String> = exchange.peers.iter().map(peer_words).collect();
        assert_eq!(
            peers,
            [
                "master-1: heard, 1 finding, 2 ignored",
                "master-2: not heard for 9 s, 1 finding: silent",
                "master-3: not heard, 1 finding: refused",
            ]
        );
        let finding = |node: &str, reason: &str| NodeFinding {
            node: node.to_owned(),
            liveness: Liveness::Down,
            reason: reason.to_owned(),
        };
        let verdict = Verdict {
            basis: Basis::Site,
            findings: vec![
                finding("master-0", "connection refused"),
                finding("master-1", ""),
            ],
        };
        assert_eq!(
            verdict_words(&verdict),
            "by site: master-0 down (connection refused), master-1 down"
        );
    }

    #[test]
    fn the_status_is_a_table_of_targets() {
        let detail = Detail {
            serves: "1 target, 0 up".to_owned(),
            generation: 7,
            subscribers: vec![Subscriber {
                name: "dns-authd".to_owned(),
                targets: 1,
                since: Some("2026-11-21T09:30:00.000Z".to_owned()),
                waiting: 3,
                first_waiting: vec![
                    "tcp 192.168.7.14:1".to_owned(),
                    "ntp 192.168.7.14:123".to_owned(),
                ],
            }],
            targets: vec![Target {
                id: "1".to_owned(),
                target: "tcp 192.168.7.13:6443".to_owned(),
                kind: "tcp".to_owned(),
                address: "192.168.7.13:6443".to_owned(),
                liveness: Liveness::Down,
                warm: true,
                admin: AdminState::Drain,
                since: Some("2026-11-21T09:31:00.000Z".to_owned()),
                last_check: None,
                latency_seconds: 0.0123,
                interval: "2s".to_owned(),
                reason: "connection refused".to_owned(),
                transitions: 1,
                generation: 7,
                rise: 2,
                fall: 2,
                deviations: vec![Deviation {
                    schedule: "fall 9".to_owned(),
                    subscribers: 1,
                    liveness: Liveness::Up,
                    since: None,
                    generation: 5,
                }],
                verdict: None,
            }],
            ..Detail::default()
        };
        assert_eq!(
            render(&Status::serving("healthd", detail)),
            "healthd 0.1.0 (abc), serving, ready, up 9s\n\
             1 target, 0 up, generation 7\n  \
             watched by dns-authd: 1 target since 2026-11-21T09:30:00.000Z\n    \
             no room for 3 targets, unknown to it: tcp 192.168.7.14:1, ntp 192.168.7.14:123 and 1 more\n  \
             down    tcp 192.168.7.13:6443      12.3 ms  since 2026-11-21T09:31:00.000Z  \
             connection refused, drain, from before the restart, generation 7\n          \
             up to 1 subscriber with fall 9, since -, generation 5\n"
        );
        let starting = render(&Status {
            detail: None,
            ..Status::serving("healthd", Detail::default())
        });
        assert_eq!(starting, "healthd 0.1.0 (abc), serving, ready, up 9s\n");
    }
}
