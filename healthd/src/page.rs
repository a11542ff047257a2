//! The site's page: every target that is probed, node by node, for a browser.
//!
//! Made from what `/status` says, so that the two cannot disagree. Plain HTML that asks for itself
//! again; it loads nothing else, because a site may be cut off from everything.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use config_text::web::markup;
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
    let mut body = String::new();
    for (node, targets) in &nodes {
        let name = node.map_or_else(|| "elsewhere".to_owned(), |node| node.to_string());
        let n_up = targets
            .iter()
            .filter(|target| word(target, "liveness") == "up")
            .count();
        body.push_str(&format!(
            "<h2>{name}: {n_up} of {} up</h2>\n<table>\n<tr><th>state</th><th>target</th><th>latency</th>\
             <th>since</th><th>reason</th></tr>\n",
            targets.len()
        ));
        body.extend(targets.iter().map(|target| row(target)));
        body.push_str("</table>\n");
    }
    if nodes.is_empty() {
        body.push_str("<p>Nobody asks for a target yet.</p>\n");
    }
    body.push_str(&clocks(detail));
    let subscribers: Vec<String> = rows(detail, "subscribers")
        .map(|subscriber| markup(word(subscriber, "name")))
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"refresh\" content=\"{REFRESH}\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{serves}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n<h1>{serves}</h1>\n\
         <p>Generation {generation}, watched by {watchers}.</p>\n{body}</body>\n</html>\n",
        serves = markup(word(detail, "serves")),
        generation = detail
            .get("generation")
            .and_then(Value::as_u64)
            .unwrap_or(0),
        watchers = match subscribers.is_empty() {
            true => "nobody".to_owned(),
            false => subscribers.join(", "),
        },
    )
}

/// The clocks of nodes, if any is reported.
fn clocks(detail: &Value) -> String {
    let mut rows = rows(detail, "clocks").map(clock_row).peekable();
    if rows.peek().is_none() {
        return String::new();
    }
    let rows: String = rows.collect();
    format!(
        "<h2>Clocks</h2>\n<table>\n<tr><th>node</th><th>clock</th><th>since</th></tr>\n{rows}</table>\n"
    )
}

fn clock_row(clock: &Value) -> String {
    let is_stale = clock.get("stale").and_then(Value::as_bool) == Some(true);
    let class = match word(clock, "state") {
        _ if is_stale => "unknown",
        "locked" | "local" => "up",
        "unsynchronised" => "down",
        _ => "unknown",
    };
    format!(
        "<tr><td>{}</td><td class=\"{class}\">{}</td><td>{}</td></tr>\n",
        markup(word(clock, "reporter")),
        markup(&clock_words(clock)),
        markup(word(clock, "since")),
    )
}

fn row(target: &Value) -> String {
    let liveness = match word(target, "liveness") {
        "up" => "up",
        "down" => "down",
        _ => "unknown",
    };
    let admin = match word(target, "admin") {
        "ready" => String::new(),
        other => format!(", {}", markup(other)),
    };
    let latency = target.get("latency_seconds").and_then(Value::as_f64);
    format!(
        "<tr><td class=\"{liveness}\">{liveness}{admin}</td><td>{}</td><td class=\"number\">{:.1} ms</td>\
         <td>{}</td><td>{}</td></tr>\n",
        markup(word(target, "target")),
        latency.unwrap_or(0.0) * 1000.0,
        markup(word(target, "since")),
        markup(word(target, "reason")),
    )
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
        assert!(render(&Value::Null).contains("Nobody asks for a target yet."));
    }
}
