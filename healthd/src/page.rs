//! The site's page: every target that is probed, node by node, for a browser.
//!
//! Made from what `/status` says, so that the two cannot disagree. Plain HTML that asks for itself
//! again; it loads nothing else, because a site may be cut off from everything.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use api::healthd::{Clock, Detail, Exchange, Target};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use proto::health::{AdminState, ClockState, Liveness};

use crate::status::{
    clock_words, decision_words, deviation_words, exchange_words, lease_words, or_dash, peer_words,
    verdict_words, without_room,
};

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
pub fn render(detail: &Detail) -> String {
    let mut nodes: BTreeMap<Option<IpAddr>, Vec<&Target>> = BTreeMap::new();
    for target in &detail.targets {
        let address = target.address.parse::<SocketAddr>().ok();
        let node = address.map(|address| address.ip().to_canonical());
        nodes.entry(node).or_default().push(target);
    }
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content=(REFRESH);
                meta name="viewport" content="width=device-width";
                title { (detail.serves) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (detail.serves) }
                p { "Generation " (detail.generation) ", watched by " (watchers(detail)) "." }
                @for subscriber in detail.subscribers.iter().filter(|one| one.waiting > 0) {
                    p.down { (subscriber.name) ": " (without_room(subscriber)) "." }
                }
                @if !detail.decisions.is_empty() {
                    h2 { "Decisions of operators" }
                    ul { @for decision in &detail.decisions { li { (decision_words(decision)) } } }
                }
                @for (node, targets) in &nodes { (of_node(*node, targets)) }
                @if nodes.is_empty() { p { "No service asks for a target yet." } }
                @if let Some(exchange) = &detail.exchange { (nodes_of(exchange)) }
                (clocks(&detail.clocks))
            }
        }
    };
    page.into_string()
}

/// The subscribers that ask for targets.
fn watchers(detail: &Detail) -> String {
    let names: Vec<&str> = detail
        .subscribers
        .iter()
        .map(|subscriber| subscriber.name.as_str())
        .collect();
    match names.is_empty() {
        true => "nobody".to_owned(),
        false => names.join(", "),
    }
}

/// The targets of a node.
fn of_node(node: Option<IpAddr>, targets: &[&Target]) -> Markup {
    let name = node.map_or_else(|| "elsewhere".to_owned(), |node| node.to_string());
    let is_up = |target: &&&Target| target.liveness == Liveness::Up;
    let n_up = targets.iter().filter(is_up).count();
    html! {
        h2 { (name) ": " (n_up) " of " (targets.len()) " up" }
        table {
            tr { th { "state" } th { "target" } th { "latency" } th { "since" } th { "generation" } th { "reason" } }
            @for target in targets { (row(target)) }
        }
    }
}

fn row(target: &Target) -> Markup {
    let liveness = target.liveness.to_string();
    let admin = Some(target.admin).filter(|admin| *admin != AdminState::Ready);
    let latency = format!("{:.1} ms", target.latency_seconds * 1000.0);
    html! {
        tr {
            td class=(liveness) { (liveness) @if let Some(admin) = admin { ", " (admin.to_string()) } }
            td { (target.target) }
            td.number { (latency) }
            td { (or_dash(target.since.as_deref())) }
            td.number { (target.generation) }
            td { (target.reason) }
        }
        @if let Some(verdict) = &target.verdict {
            tr { td {} td colspan="5" { (verdict_words(verdict)) } }
        }
        @for deviation in &target.deviations {
            tr { td {} td colspan="5" { (deviation_words(deviation)) } }
        }
    }
}

/// The other nodes.
fn nodes_of(exchange: &Exchange) -> Markup {
    html! {
        h2 { "Other nodes" }
        p { (exchange_words(exchange)) "." }
        ul {
            @for peer in &exchange.peers { li { (peer_words(peer)) } }
            @for lease in &exchange.leases { li { (lease_words(lease)) } }
        }
    }
}

/// The clocks of nodes, if any is reported.
fn clocks(clocks: &[Clock]) -> Markup {
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

fn clock_row(clock: &Clock) -> Markup {
    let class = match clock.state {
        _ if clock.stale => "unknown",
        ClockState::Locked | ClockState::Local => "up",
        ClockState::Unsynchronised => "down",
        ClockState::Syncing | ClockState::Holdover => "unknown",
    };
    html! {
        tr {
            td { (clock.reporter) }
            td class=(class) { (clock_words(clock)) }
            td { (or_dash(clock.since.as_deref())) }
        }
    }
}

#[cfg(test)]
mod tests {
    use api::healthd::Subscriber;
    use proto::health::Leap;

    use super::*;

    fn target(address: &str, liveness: Liveness, reason: &str) -> Target {
        Target {
            id: String::new(),
            target: format!("tcp {address}"),
            kind: "tcp".to_owned(),
            address: address.to_owned(),
            liveness,
            warm: false,
            admin: AdminState::Ready,
            since: Some("2026-11-21T09:31:00.000Z".to_owned()),
            last_check: None,
            latency_seconds: 0.0123,
            interval: "2s".to_owned(),
            reason: reason.to_owned(),
            transitions: 0,
            generation: 6,
            rise: 2,
            fall: 2,
            deviations: Vec::new(),
            verdict: None,
        }
    }

    #[test]
    fn targets_stand_under_their_node() {
        let subscriber = Subscriber {
            name: "dns-authd".to_owned(),
            targets: 3,
            since: None,
            waiting: 0,
            first_waiting: Vec::new(),
        };
        let detail = Detail {
            serves: "3 targets, 2 up".to_owned(),
            generation: 7,
            subscribers: vec![subscriber],
            targets: vec![
                target("192.168.7.14:6443", Liveness::Up, "connected"),
                target("192.168.7.13:6443", Liveness::Up, "connected"),
                target("192.168.7.14:443", Liveness::Down, "refused"),
            ],
            ..Detail::default()
        };
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
        let said = target("192.0.2.1:80", Liveness::Down, reason);
        let page = render(&Detail {
            targets: vec![said],
            ..Detail::default()
        });
        assert!(page.contains("&lt;script&gt;alert(&quot;&amp;&quot;)&lt;/script&gt;"));
        assert!(!page.contains("<script>"), "{page}");
    }

    #[test]
    fn clocks_stand_by_themselves() {
        let clock = Clock {
            reporter: "master-0".to_owned(),
            state: ClockState::Locked,
            stale: false,
            age_seconds: 1.0,
            since: Some("2026-11-21T09:31:00.000Z".to_owned()),
            offset_seconds: -0.000_012,
            root_distance_seconds: 0.0015,
            stratum: 3,
            leap: Leap::Insert,
            sources: 4,
            selectable_sources: 3,
            reference: "<ntp>".to_owned(),
        };
        let page = render(&Detail {
            clocks: vec![clock],
            ..Detail::default()
        });
        let words = "<td>master-0</td><td class=\"up\">locked to &lt;ntp&gt;, stratum 3, offset -0.012 ms, \
                     root distance 1.500 ms, 3 of 4 sources, leap: insert second</td>";
        assert!(page.contains(words), "{page}");
        assert!(!render(&Detail::default()).contains("Clocks"));
    }

    #[test]
    fn an_idle_healthd_has_a_page() {
        assert!(render(&Detail::default()).contains("No service asks for a target yet."));
    }
}
