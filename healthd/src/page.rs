//! The site's page: every target that is probed, node by node, for a browser.
//!
//! Made from what `/status` says, so that the two cannot disagree. Plain HTML that asks for itself
//! again; it loads nothing else, because a site may be cut off from everything.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

use crate::status::{clock_words, rows, word};

/// How often a browser asks again, in seconds.
const REFRESH: u32 = 2;

const STYLE: &str = "\
:root{color-scheme:light dark;--up:#1a7f37;--down:#cf222e;--unknown:#9a6700;--line:#8884}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}
h1{font-size:1.3rem;margin:0}h2{font-size:1rem;margin:1.5rem 0 .3rem}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.25rem .8rem .25rem 0;border-top:1px solid var(--line)}
th{font-weight:600}td.number{text-align:right;font-variant-numeric:tabular-nums}
.up{color:var(--up)}.down{color:var(--down);font-weight:600}.unknown{color:var(--unknown)}
@media(prefers-color-scheme:dark){:root{--up:#3fb950;--down:#ff7b72;--unknown:#d29922}}";

/// The page, from the `detail` of the status.
#[must_use]
pub fn render(detail: &Value) -> String {
    let mut nodes: BTreeMap<Option<IpAddr>, Vec<&Value>> = BTreeMap::new();
    for target in rows(detail, "targets") {
        let address = word(target, "address").parse::<SocketAddr>().ok();
        let node = address.map(|address| address.ip().to_canonical());
        nodes.entry(node).or_default().push(target);
    }
    let serves = word(detail, "serves");
    let generation = detail.get("generation").and_then(Value::as_u64);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content=(REFRESH);
                meta name="viewport" content="width=device-width";
                title { (serves) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (serves) }
                p { "Generation " (generation.unwrap_or(0)) ", watched by " (watchers(detail)) "." }
                @for (node, targets) in &nodes { (of_node(*node, targets)) }
                @if nodes.is_empty() { p { "No service asks for a target yet." } }
                (clocks(detail))
            }
        }
    };
    page.into_string()
}

/// The subscribers that ask for targets.
fn watchers(detail: &Value) -> String {
    let names: Vec<&str> = rows(detail, "subscribers")
        .map(|subscriber| word(subscriber, "name"))
        .collect();
    match names.is_empty() {
        true => "nobody".to_owned(),
        false => names.join(", "),
    }
}

/// The targets of a node.
fn of_node(node: Option<IpAddr>, targets: &[&Value]) -> Markup {
    let name = node.map_or_else(|| "elsewhere".to_owned(), |node| node.to_string());
    let is_up = |target: &&&Value| word(target, "liveness") == "up";
    let n_up = targets.iter().filter(is_up).count();
    html! {
        h2 { (name) ": " (n_up) " of " (targets.len()) " up" }
        table {
            tr { th { "state" } th { "target" } th { "latency" } th { "since" } th { "reason" } }
            @for target in targets { (row(target)) }
        }
    }
}

fn row(target: &Value) -> Markup {
    let liveness = match word(target, "liveness") {
        "up" => "up",
        "down" => "down",
        _ => "unknown",
    };
    let admin = Some(word(target, "admin")).filter(|admin| *admin != "ready");
    let latency = target.get("latency_seconds").and_then(Value::as_f64);
    let latency = format!("{:.1} ms", latency.unwrap_or(0.0) * 1000.0);
    html! {
        tr {
            td class=(liveness) { (liveness) @if let Some(admin) = admin { ", " (admin) } }
            td { (word(target, "target")) }
            td.number { (latency) }
            td { (word(target, "since")) }
            td { (word(target, "reason")) }
        }
    }
}

/// The clocks of nodes, if any is reported.
fn clocks(detail: &Value) -> Markup {
    let clocks: Vec<&Value> = rows(detail, "clocks").collect();
    html! {
        @if !clocks.is_empty() {
            h2 { "Clocks" }
            table {
                tr { th { "node" } th { "clock" } th { "since" } }
                @for clock in clocks { (clock_row(clock)) }
            }
        }
    }
}

fn clock_row(clock: &Value) -> Markup {
    let is_stale = clock.get("stale").and_then(Value::as_bool) == Some(true);
    let class = match word(clock, "state") {
        _ if is_stale => "unknown",
        "locked" | "local" => "up",
        "unsynchronised" => "down",
        _ => "unknown",
    };
    html! {
        tr {
            td { (word(clock, "reporter")) }
            td class=(class) { (clock_words(clock)) }
            td { (word(clock, "since")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn target(address: &str, liveness: &str, reason: &str) -> Value {
        json!({
            "target": format!("tcp {address}"), "address": address, "liveness": liveness, "admin": "ready",
            "since": "2026-11-21T09:31:00.000Z", "latency_seconds": 0.0123, "reason": reason,
        })
    }

    #[test]
    fn targets_stand_under_their_node() {
        let detail = json!({
            "serves": "3 targets, 2 up", "generation": 7,
            "subscribers": [{"name": "dns-authd", "targets": 3}],
            "targets": [
                target("192.168.7.14:6443", "up", "connected"),
                target("192.168.7.13:6443", "up", "connected"),
                target("192.168.7.14:443", "down", "refused"),
            ],
        });
        let page = render(&detail);
        let places: Vec<usize> = [
            "<h1>3 targets, 2 up</h1>",
            "Generation 7, watched by dns-authd.",
            "<h2>192.168.7.13: 1 of 1 up</h2>",
            "<h2>192.168.7.14: 1 of 2 up</h2>",
            "<td class=\"down\">down</td><td>tcp 192.168.7.14:443</td><td class=\"number\">12.3 ms</td>",
        ]
        .into_iter()
        .map(|part| page.find(part).unwrap_or_else(|| panic!("no {part} in {page}")))
        .collect();
        assert!(places.is_sorted(), "{places:?}");
    }

    #[test]
    fn what_a_server_said_is_text() {
        let reason = "<script>alert(\"&\")</script>";
        let detail = json!({"targets": [target("192.0.2.1:80", "<b>", reason)]});
        let page = render(&detail);
        assert!(page.contains("&lt;script&gt;alert(&quot;&amp;&quot;)&lt;/script&gt;"));
        assert!(
            !page.contains("<script>") && !page.contains("<b>"),
            "{page}"
        );
    }

    #[test]
    fn clocks_stand_by_themselves() {
        let clock = json!({
            "reporter": "master-0", "state": "locked", "stale": false, "since": "2026-11-21T09:31:00.000Z",
            "offset_seconds": -0.000_012, "root_distance_seconds": 0.0015, "stratum": 3, "leap": "insert second",
            "sources": 4, "selectable_sources": 3, "reference": "<ntp>",
        });
        let page = render(&json!({"clocks": [clock]}));
        let words = "<td>master-0</td><td class=\"up\">locked to &lt;ntp&gt;, stratum 3, offset -0.012 ms, \
                     root distance 1.500 ms, 3 of 4 sources, leap: insert second</td>";
        assert!(page.contains(words), "{page}");
        assert!(!render(&Value::Null).contains("Clocks"));
    }

    #[test]
    fn an_idle_healthd_has_a_page() {
        assert!(render(&Value::Null).contains("No service asks for a target yet."));
    }
}
