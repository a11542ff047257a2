//! The status of nodes as text, made from the JSON that a node gives of itself.

use std::fmt::Write as _;

use config_text::counted;
use serde_json::Value;

/// One node: a line for each service, and lines for what is wrong with it.
pub(crate) fn node(status: &Value) -> String {
    let mut out = format!("{}\n", text(status, "node"));
    for service in array(status, "services") {
        out.push_str(&service_lines(service));
    }
    for service in array(status, "unknown") {
        let _done = writeln!(
            out,
            "  ! {}: state unknown: {}",
            text(service, "service"),
            text(service, "error")
        );
    }
    let down = array(status, "down");
    for target in down {
        let _done = writeln!(
            out,
            "  ! {}: {}",
            text(target, "target"),
            text(target, "reason")
        );
    }
    if let Some(reason) = status.get("healthd_error").and_then(Value::as_str) {
        let _done = writeln!(out, "  ! liveness unknown: {reason}");
    }
    out
}

/// A node that cannot be asked.
pub(crate) fn unreachable(name: &str, reason: &str) -> String {
    format!("{name}\n  ! it cannot be asked: {reason}\n")
}

fn service_lines(service: &Value) -> String {
    let mut out = String::new();
    let live = text(service, "live");
    let slots = array(service, "slots");
    let serving = slots.iter().find(|slot| text(slot, "slot") == live);
    let state = serving.map_or("?", |slot| text(slot, "active"));
    let ready = match service.get("ready").and_then(Value::as_bool) {
        Some(true) => "ready",
        Some(false) => "not ready",
        None => "does not answer",
    };
    let number = |key: &str| {
        serving
            .and_then(|slot| slot.get(key))
            .and_then(Value::as_u64)
    };
    let _done = write!(
        out,
        "  {:<15} {live}  {:<10} {state}, {ready}, {}",
        text(service, "service"),
        text(service, "version"),
        counted(number("restarts").unwrap_or(0), "restart"),
    );
    let watchdog = serving.and_then(|slot| slot.get("watchdog_age_seconds"));
    if let Some(age) = watchdog.and_then(Value::as_f64) {
        let _done = write!(out, ", heard of {age:.1} s ago");
    }
    let queues = array(service, "queues");
    let sum = |key: &str| -> u64 {
        let values = queues.iter().filter_map(|queue| queue.get(key)?.as_u64());
        values.sum()
    };
    if !queues.is_empty() {
        let _done = write!(
            out,
            ", queued {}, dropped {}",
            sum("waiting"),
            sum("dropped")
        );
    }
    out.push('\n');
    for reason in array(service, "reasons") {
        let _done = writeln!(out, "    ! {}", reason.as_str().unwrap_or_default());
    }
    for slot in slots.iter().filter(|slot| text(slot, "slot") != live) {
        if text(slot, "active") != "inactive" {
            let (name, active) = (text(slot, "slot"), text(slot, "active"));
            let _done = writeln!(out, "    ! slot {name} is {active} and not on record");
        }
        if let Some(version) = slot.get("version").and_then(Value::as_str) {
            let name = text(slot, "slot");
            let _done = writeln!(out, "    - slot {name} has {version}");
        }
    }
    if let Some(last) = service
        .get("last")
        .filter(|last| text(last, "outcome") != "swapped")
        && let Some(reason) = last.get("reason").and_then(Value::as_str)
    {
        let _done = writeln!(out, "    - last swap: {}: {reason}", text(last, "outcome"));
    }
    out
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("?")
}

fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    let array = value.get(key).and_then(Value::as_array);
    array.map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_is_shown_with_what_is_wrong() {
        let status = json!({
            "node": "master-0",
            "services": [{
                "service": "dns-authd", "live": "b", "version": "0.2.0", "ready": true,
                "reasons": [],
                "slots": [
                    { "slot": "a", "active": "active", "version": "0.1.0" },
                    { "slot": "b", "active": "active", "restarts": 2, "watchdog_age_seconds": 0.84 },
                ],
                "queues": [{ "waiting": 3, "dropped": 1 }, { "waiting": 0, "dropped": 4 }],
                "last": { "outcome": "kept", "reason": "it was not ready" },
            }, {
                "service": "healthd", "live": "a", "ready": null, "reasons": ["state: full"],
                "slots": [{ "slot": "a", "active": "failed" }, { "slot": "b", "active": "inactive" }],
            }],
            "down": [{ "target": "tcp 192.168.7.14:6443", "reason": "connection refused" }],
        });
        assert_eq!(
            node(&status),
            "master-0\n  \
             dns-authd       b  0.2.0      active, ready, 2 restarts, heard of 0.8 s ago, queued 3, dropped 5\n    \
             ! slot a is active and not on record\n    \
             - slot a has 0.1.0\n    \
             - last swap: kept: it was not ready\n  \
             healthd         a  ?          failed, does not answer, 0 restarts\n    \
             ! state: full\n  \
             ! tcp 192.168.7.14:6443: connection refused\n"
        );
        assert_eq!(node(&json!({})), "?\n");
        assert!(unreachable("master-1", "no route").contains("cannot be asked: no route"));
    }
}
