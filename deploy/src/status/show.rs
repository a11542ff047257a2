//! The status of nodes as text, made from the answer that a node gives of itself.

use std::fmt::Write as _;

use api::outpost::{Node, Service};
use config_text::counted;

/// One node: a line for each service, and lines for what is wrong with it.
pub(crate) fn node(status: &Node) -> String {
    let mut out = status.node.clone();
    if let Some(bundle) = status.bundle {
        let _done = write!(out, "  bundle of generation {}", bundle.generation);
    }
    out.push('\n');
    if let Some(bundle) = status
        .bundle
        .filter(|bundle| bundle.generation < bundle.highest)
    {
        let _done = writeln!(
            out,
            "  ! the bundle is older than one this node has had, of generation {}",
            bundle.highest
        );
    }
    for service in &status.services {
        out.push_str(&service_lines(service));
    }
    for unknown in &status.unknown {
        let _done = writeln!(
            out,
            "  ! {}: state unknown: {}",
            unknown.service, unknown.error
        );
    }
    for down in &status.down {
        let target = down.target.as_deref().unwrap_or("?");
        let _done = writeln!(out, "  ! {target}: {}", down.reason);
    }
    if let Some(reason) = &status.healthd_error {
        let _done = writeln!(out, "  ! liveness unknown: {reason}");
    }
    out
}

/// A line where the nodes of a site have bundles of different generations.
pub(crate) fn mixed<'a>(nodes: impl Iterator<Item = (&'a str, u64)>) -> Option<String> {
    let nodes: Vec<(&str, u64)> = nodes.collect();
    let (_, first) = nodes.first()?;
    let differs = nodes.iter().any(|(_, generation)| generation != first);
    differs.then(|| {
        let each = nodes
            .iter()
            .map(|(node, generation)| format!("{node} {generation}"));
        let each: Vec<String> = each.collect();
        format!(
            "! the nodes have bundles of different generations: {}\n",
            each.join(", ")
        )
    })
}

fn service_lines(service: &Service) -> String {
    let mut out = String::new();
    let live = &service.live;
    let serving = service.slots.iter().find(|slot| slot.slot == *live);
    let state = serving.map_or("?", |slot| slot.active.as_str());
    let ready = match service.ready {
        Some(true) => "ready",
        Some(false) => "not ready",
        None => "does not answer",
    };
    let _done = write!(
        out,
        "  {:<15} {live}  {:<10} {state}, {ready}, {}",
        service.service,
        service.version.as_deref().unwrap_or("?"),
        counted(serving.map_or(0, |slot| slot.restarts), "restart"),
    );
    if let Some(age) = serving.and_then(|slot| slot.watchdog_age_seconds) {
        let _done = write!(out, ", heard of {age:.1} s ago");
    }
    if !service.queues.is_empty() {
        let waiting: u64 = service.queues.iter().map(|queue| queue.waiting).sum();
        let dropped: u64 = service.queues.iter().map(|queue| queue.dropped).sum();
        let _done = write!(out, ", queued {waiting}, dropped {dropped}");
    }
    out.push('\n');
    for reason in &service.reasons {
        let _done = writeln!(out, "    ! {reason}");
    }
    for slot in service.slots.iter().filter(|slot| slot.slot != *live) {
        let name = &slot.slot;
        if slot.active != "inactive" {
            let active = &slot.active;
            let _done = writeln!(out, "    ! slot {name} is {active} and not on record");
        }
        if let Some(version) = &slot.version {
            let _done = writeln!(out, "    - slot {name} has {version}");
        }
    }
    if let Some(last) = &service.last
        && last.outcome != "swapped"
        && let Some(reason) = &last.reason
    {
        let _done = writeln!(out, "    - last swap: {}: {reason}", last.outcome);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_is_shown_with_what_is_wrong() {
        let status = serde_json::from_value(json!({
            "node": "master-0",
            "bundle": { "generation": 3, "highest": 7 },
            "services": [{
                "service": "dns-authd", "live": "b", "version": "0.2.0", "ready": true,
                "reasons": [],
                "slots": [
                    { "slot": "a", "active": "active", "version": "0.1.0" },
                    { "slot": "b", "active": "active", "restarts": 2, "watchdog_age_seconds": 0.84 },
                ],
                "queues": [
                    { "kind": "udp", "address": "127.0.0.1:53", "waiting": 3, "dropped": 1 },
                    { "kind": "tcp", "address": "127.0.0.1:53", "waiting": 0, "dropped": 4 },
                ],
                "last": { "outcome": "kept", "reason": "it was not ready", "ended": 1 },
            }, {
                "service": "healthd", "live": "a", "ready": null, "reasons": ["state: full"],
                "slots": [{ "slot": "a", "active": "failed" }, { "slot": "b", "active": "inactive" }],
            }],
            "down": [{ "target": "tcp 192.168.7.14:6443", "reason": "connection refused" }],
        }));
        assert_eq!(
            node(&status.unwrap()),
            "master-0  bundle of generation 3\n  \
             ! the bundle is older than one this node has had, of generation 7\n  \
             dns-authd       b  0.2.0      active, ready, 2 restarts, heard of 0.8 s ago, queued 3, dropped 5\n    \
             ! slot a is active and not on record\n    \
             - slot a has 0.1.0\n    \
             - last swap: kept: it was not ready\n  \
             healthd         a  ?          failed, does not answer, 0 restarts\n    \
             ! state: full\n  \
             ! tcp 192.168.7.14:6443: connection refused\n"
        );
    }
    #[test]
    fn different_generations_are_named() {
        assert_eq!(mixed([("a", 7), ("b", 7)].into_iter()), None);
        assert_eq!(
            mixed([("a", 7), ("b", 6)].into_iter()).unwrap(),
            "! the nodes have bundles of different generations: a 7, b 6\n"
        );
    }
}
