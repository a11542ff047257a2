//! The content of the page: sections of what is shown.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use api::healthd::{Clock, Exchange, Target};
use api::{Status, lb_proxy};
use config_text::{counted, counted_as};
use maud::{Markup, html};
use proto::health::{AdminState, ClockState, Liveness};

use super::nodes::{Nodes, Service};
use super::services::{Asked, Services};
use super::{Links, Shown, plot};
use crate::status::{
    clock_words, decision_words, deviation_words, exchange_words, lease_words, peer_words,
    verdict_words, without_room,
};
use crate::trail::Outcome;

/// Targets that are shown; those that are not up come first.
const TARGETS: usize = 300;

/// Changes that are shown.
const EVENTS: usize = 40;

/// Lines of any other list that are shown.
const LINES: usize = 50;

/// The whole content.
pub(super) fn content(shown: &Shown) -> Markup {
    let nothing = Services::default();
    let look = shown.look.as_deref();
    let services = look.map_or(&nothing, |look| &look.services);
    let lb_proxy = services.lb_proxy.as_ref().and_then(Asked::detail);
    let names = Names::new(&shown.nodes, lb_proxy);
    let detail = &shown.detail;
    html! {
        p { (summary(shown)) }
        @for subscriber in detail.subscribers.iter().filter(|one| one.waiting > 0) {
            p.down { (subscriber.name) ": " (without_room(subscriber)) "." }
        }
        @if !detail.decisions.is_empty() {
            section.wide {
                h2 { "Decisions of operators" }
                ul { @for decision in detail.decisions.iter().take(LINES) { li { (decision_words(decision)) } } }
            }
        }
        (targets(shown, &names))
        @if let Some(exchange) = &detail.exchange { (nodes(exchange, shown)) }
        (services_of_node(services, shown))
        @if let Some(others) = &shown.others { (services_of_others(others, shown)) }
        @if let Some(detail) = lb_proxy {
            (balancing(detail, look.map(|look| &look.rates)))
        }
        (live_sets(services))
        (registry(services))
        (clocks(shown))
        (events(shown, &names))
    }
}

fn summary(shown: &Shown) -> String {
    let detail = &shown.detail;
    let watchers: Vec<&str> = detail
        .subscribers
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    let watchers = match watchers.is_empty() {
        true => "nobody".to_owned(),
        false => watchers.join(", "),
    };
    format!(
        "{}. Generation {}, watched by {watchers}.",
        detail.serves, detail.generation
    )
}

//--- Names

/// The names of nodes by their addresses, and what servers are for.
struct Names<'a> {
    nodes: BTreeMap<IpAddr, &'a str>,
    /// Backends of the balancer by the address of a server.
    purposes: BTreeMap<&'a str, &'a str>,
}

impl<'a> Names<'a> {
    fn new(nodes: &'a BTreeMap<IpAddr, String>, balancer: Option<&'a lb_proxy::Detail>) -> Self {
        let mut names = Self {
            nodes: BTreeMap::new(),
            purposes: BTreeMap::new(),
        };
        for backend in balancer.into_iter().flat_map(|detail| &detail.backends) {
            for server in &backend.servers {
                names.purposes.insert(&server.address, &backend.name);
                if let Some(ip) = ip_of(&server.address) {
                    names.nodes.insert(ip, &server.name);
                }
            }
        }
        let known = nodes.iter().map(|(ip, name)| (*ip, name.as_str()));
        names.nodes.extend(known);
        names
    }

    /// The name of the node at an address with its port.
    fn node(&self, address: &str) -> Option<&'a str> {
        self.nodes.get(&ip_of(address)?).copied()
    }

    /// The purpose of a target: the backend that it is a server of, or else its kind and port.
    fn purpose(&self, target: &Target) -> String {
        if let Some(backend) = self.purposes.get(target.address.as_str()) {
            return (*backend).to_owned();
        }
        let port = target.address.rsplit_once(':').map_or("", |(_, port)| port);
        match target.kind.as_str() {
            "dns" => "names (DNS)".to_owned(),
            "ntp" => "time (NTP)".to_owned(),
            kind => format!("{kind}, port {port}"),
        }
    }
}

fn ip_of(address: &str) -> Option<IpAddr> {
    let address: SocketAddr = address.parse().ok()?;
    Some(address.ip().to_canonical())
}

/// A time without its milliseconds, for people: `2026-11-21 09:31:00Z`.
fn clock_time(time: Option<&str>) -> Markup {
    let Some(time) = time else {
        return html! { span.dim { "-" } };
    };
    let seconds = time.split_once('.').map_or(time, |(seconds, _)| seconds);
    html! { time datetime=(time) { (seconds.replacen('T', " ", 1)) "Z" } }
}

/// A span of time in its largest unit.
fn span(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds if seconds < 7_200.0 => format!("{:.0} min", seconds / 60.0),
        seconds if seconds < 172_800.0 => format!("{:.0} h", seconds / 3_600.0),
        seconds => format!("{:.0} d", seconds / 86_400.0),
    }
}

//--- Targets

fn targets(shown: &Shown, names: &Names<'_>) -> Markup {
    let all = &shown.detail.targets;
    let none = &Vec::new();
    let results = shown.results.iter().chain(std::iter::repeat(none));
    let mut chosen: Vec<(&Target, &Vec<Outcome>)> = all.iter().zip(results).collect();
    chosen.sort_by_key(|(target, _)| target.liveness == Liveness::Up);
    chosen.truncate(TARGETS);
    let mut groups: BTreeMap<String, Vec<(&Target, &Vec<Outcome>)>> = BTreeMap::new();
    for one in chosen {
        groups.entry(names.purpose(one.0)).or_default().push(one);
    }
    for group in groups.values_mut() {
        group.sort_by_key(|(target, _)| (names.node(&target.address), &target.target));
    }
    html! {
        section.wide {
            h2 { "Targets" }
            @if all.is_empty() { p { "No service asks for a target yet." } }
            @for (purpose, group) in &groups {
                h3 { (purpose) ": " (n_up(group)) " of " (group.len()) " up" }
                ul { @for (target, results) in group { (target_row(target, results, names, shown)) } }
            }
            @if all.len() > TARGETS {
                p.dim { (all.len() - TARGETS) " more; " code { "healthd status" } " shows all." }
            }
        }
    }
}

fn n_up(group: &[(&Target, &Vec<Outcome>)]) -> usize {
    let is_up = |(target, _): &&(&Target, &Vec<Outcome>)| target.liveness == Liveness::Up;
    group.iter().filter(is_up).count()
}

fn target_row(target: &Target, results: &[Outcome], names: &Names<'_>, shown: &Shown) -> Markup {
    let admin = Some(target.admin).filter(|admin| *admin != AdminState::Ready);
    let warm = if target.warm {
        ", from before the restart"
    } else {
        ""
    };
    let node = names.node(&target.address);
    html! {
        li.row.target {
            span.first {
                @match node {
                    Some(node) => { (node) " " small { (target.address) } }
                    None => (target.address)
                }
            }
            span class=(target.liveness.to_string()) {
                (target.liveness.to_string()) @if let Some(admin) = admin { ", " (admin.to_string()) }
            }
            (plot::results(results))
            span.n { (plot::time(target.latency_seconds)) }
            small { (clock_time(target.since.as_deref())) }
            span.reason { (target.reason) (warm) }
            @if let Some(verdict) = &target.verdict { span.why { (verdict_words(verdict)) } }
            (seen_by_others(target, shown))
            @for deviation in &target.deviations { span.why { (deviation_words(deviation)) } }
        }
    }
}

/// The last probes of the other nodes, a row of bars for each.
fn seen_by_others(target: &Target, shown: &Shown) -> Markup {
    let others = shown.others.iter().flat_map(|others| others.iter());
    let seen: Vec<(&String, &Vec<Outcome>)> = others
        .filter_map(|(name, node)| {
            let results = node.as_ref().ok()?.results.get(&target.target)?;
            Some((name, results))
        })
        .collect();
    html! {
        @if !seen.is_empty() {
            span.seen {
                @for (name, results) in seen { span { small { (name) } (plot::results(results)) } }
            }
        }
    }
}

//--- Nodes and services

/// The page that another node publishes, where this one is published too.
fn page_of_node(name: &str, shown: &Shown) -> Option<String> {
    let Links::Nodes(port) = shown.links else {
        return None;
    };
    let mut known = shown.nodes.iter();
    let (ip, _) = known.find(|(_, other)| *other == name)?;
    Some(format!("https://{}/", SocketAddr::new(*ip, port)))
}

fn nodes(exchange: &Exchange, shown: &Shown) -> Markup {
    html! {
        section {
            h2 { "Nodes" }
            p { (exchange_words(exchange)) "." }
            ul {
                @for peer in &exchange.peers {
                    li class=(if peer.heard { "heard" } else { "down" }) {
                        (peer_words(peer))
                        @if let Some(url) = page_of_node(&peer.name, shown) { ", " a href=(url) { "its page" } }
                    }
                }
                @for lease in exchange.leases.iter().take(LINES) { li { (lease_words(lease)) } }
            }
        }
    }
}

fn services_of_node(services: &Services, shown: &Shown) -> Markup {
    let at = &shown.listeners;
    let page_of = |place: Option<SocketAddr>| place.filter(|_| shown.links == Links::Services);
    html! {
        section {
            h2 { "Services of this node" }
            @if shown.look.is_none() { p.dim { "They are being asked." } }
            ul {
                (service("dns-authd", services.dns_authd.as_ref(), |detail| {
                    format!("{} loaded, {} failed, {} held", counted(detail.zones.loaded, "zone"), detail.zones.failed, detail.zones.held)
                }))
                (service("dns-recursor", services.dns_recursor.as_ref(), |detail| {
                    format!("{} asked, {} of them from the cache", counted(detail.queries, "question"), detail.answers.cache)
                }))
                (service("lb-proxy", services.lb_proxy.as_ref(), |detail| {
                    format!("{}, {} since the start", counted(detail.sessions, "session"), detail.accepted)
                }))
                (service("registry-svc", services.registry_svc.as_ref(), |detail| {
                    format!("{} answered", counted(detail.requests.answered, "request"))
                }))
                (service("timesync-agent", services.timesync_agent.as_ref(), |detail| detail.serves.clone()))
                (service("clusterd", services.clusterd.as_ref(), |detail| detail.serves.clone()))
            }
            // These two have pages of their own.
            @for (name, place) in [("registry-svc", at.registry_svc), ("timesync-agent", at.timesync_agent)] {
                @if let Some(place) = page_of(place) {
                    p { a href={ "http://" (place) "/" } { "The page of " (name) } }
                }
            }
        }
    }
}

/// The services of the other nodes, as these say it themselves.
fn services_of_others(others: &Nodes, shown: &Shown) -> Markup {
    html! {
        @if !others.is_empty() {
            section {
                h2 { "Services of the other nodes" }
                @for (name, node) in others {
                    h3 {
                        @match page_of_node(name, shown) {
                            Some(url) => a href=(url) { (name) },
                            None => (name),
                        }
                    }
                    @match node {
                        Ok(node) => ul { @for service in &node.services { (service_of_other(service)) } },
                        Err(reason) => p.unknown { "not asked: " (reason) }
                    }
                }
            }
        }
    }
}

fn service_of_other(service: &Service) -> Markup {
    let class = if service.ready { "up" } else { "down" };
    html! {
        li.row.service {
            span.first { (service.name) }
            @if service.failure.is_empty() {
                span class=(class) { (service.state) @if !service.ready { ", not ready" } }
                span { "for " (span(service.uptime_seconds)) }
                small {
                    (service.version)
                    @if !service.slot.is_empty() { ", slot " (service.slot) }
                }
                @for reason in &service.reasons { span.why.unknown { (reason) } }
            } @else {
                span.unknown { "not asked" }
                span {} span {}
                span.why { "could not ask: " (service.failure) }
            }
        }
    }
}

fn service<D>(name: &str, asked: Option<&Asked<D>>, words: impl Fn(&D) -> String) -> Markup {
    match asked {
        None => html! {},
        Some(Asked::Failed(reason)) => html! {
            li.row.service {
                span.first { (name) }
                span.unknown { "not asked" }
                span {} span {}
                span.why { "could not ask: " (reason) }
            }
        },
        Some(Asked::Answered(status)) => answered(name, status, words),
    }
}

fn answered<D>(name: &str, status: &Status<D>, words: impl Fn(&D) -> String) -> Markup {
    let class = if status.ready { "up" } else { "down" };
    html! {
        li.row.service {
            span.first { (name) }
            span class=(class) { (status.state.to_string()) @if !status.ready { ", not ready" } }
            span { "for " (span(status.uptime_seconds)) }
            small {
                (status.version) " (" (status.revision) ")"
                @if let Some(slot) = &status.slot { ", slot " (slot) }
            }
            @if let Some(detail) = &status.detail { span.why { (words(detail)) } }
            @for reason in status.reasons.iter().chain(&status.notes).take(LINES) { span.why.unknown { (reason) } }
        }
    }
}

//--- The work of services

fn balancing(detail: &lb_proxy::Detail, rates: Option<&BTreeMap<String, f64>>) -> Markup {
    let rate = |name: &str| match rates.and_then(|rates| rates.get(name)) {
        Some(rate) => format!("{rate:.1}/s"),
        None => "-".to_owned(),
    };
    html! {
        section {
            h2 { "Balancing" }
            ul {
                @for vip in detail.vips.iter().take(LINES) {
                    li {
                        "Virtual address " (vip.addresses.join(", ")) " (" (vip.name) "): "
                        span class=(if vip.faults.is_empty() { "heard" } else { "down" }) { (vip.state) " here" }
                        @if let Some(lease) = &vip.lease { ", lease " (lease) }
                        @for fault in &vip.faults { span.why { (fault) } }
                    }
                }
                @for frontend in detail.frontends.iter().take(LINES) {
                    li.row.pool {
                        span.first { (frontend.name) " " small { (frontend.listen.join(" ")) } }
                        @match frontend.able {
                            Some(true) => span.up { "able" }
                            Some(false) => span.down { "no server" }
                            None => span.unknown { "unknown" }
                        }
                        span.n { (sessions(frontend)) }
                        span.n { (rate(&frontend.name)) }
                    }
                }
                @for backend in detail.backends.iter().take(LINES) {
                    li.row.pool {
                        span.first { "backend " (backend.name) }
                        span class=(if backend.usable > 0 { "up" } else { "down" }) { (backend.usable) " of " (backend.servers.len()) }
                        span.n { (backend.servers.iter().map(|server| u64::from(server.sessions)).sum::<u64>()) " sessions" }
                        span.n { (backend.queued) " waiting" }
                    }
                }
            }
        }
    }
}

fn sessions(frontend: &lb_proxy::Frontend) -> String {
    match (frontend.tally, frontend.flows) {
        (Some(tally), _) => counted(tally.sessions, "session"),
        (None, Some(flows)) => counted(flows, "flow"),
        (None, None) => "-".to_owned(),
    }
}

/// The present answers of names that follow the health of targets.
fn live_sets(services: &Services) -> Markup {
    let detail = services.dns_authd.as_ref().and_then(Asked::detail);
    let zones = detail.into_iter().flat_map(|detail| &detail.zones.shown);
    let sets: Vec<_> = zones.flat_map(|zone| &zone.live).collect();
    html! {
        @if !sets.is_empty() {
            section {
                h2 { "Names that follow health" }
                ul {
                    @for set in sets.iter().take(LINES) {
                        li {
                            (set.owner) " " small { (set.rtype) ", TTL " (set.ttl) } ": "
                            span class=(if set.certainty == api::dns_authd::Certainty::Known { "up" } else { "unknown" }) {
                                (set.members.join(", "))
                            }
                            @if set.certainty != api::dns_authd::Certainty::Known { small { " (" (set.certainty.name()) ")" } }
                        }
                    }
                    @if sets.len() > LINES { li.dim { (sets.len() - LINES) " more" } }
                }
            }
        }
    }
}

fn registry(services: &Services) -> Markup {
    let Some(detail) = services.registry_svc.as_ref().and_then(Asked::detail) else {
        return html! {};
    };
    html! {
        section {
            h2 { "Registry" }
            @match &detail.held {
                Some(held) => p {
                    (counted_as(held.repositories, "repository", "repositories")) ", " (counted(held.sum.tags, "tag")) ", "
                    (counted(held.sum.blobs, "blob")) ", " (held.sum.bytes >> 20) " MiB."
                }
                None => p.dim { "The content is not counted yet." }
            }
            @if detail.damage.waiting > 0 { p.down { (counted(detail.damage.waiting, "blob")) " not whole." } }
            @if let Some(cluster) = &detail.cluster {
                ul {
                    @for peer in cluster.peers.iter().take(LINES) {
                        li {
                            (peer.name) ": "
                            @if peer.connected { span.up { "connected" } } @else { span.down { "not connected: " (peer.error) } }
                            ", this node lacks " (counted(peer.behind, "record"))
                            @if let Some(lacks) = peer.lacks { ", it lacks " (lacks) }
                            @if let Some(since) = &peer.behind_for { " for " (since) ": " (peer.behind_because) }
                        }
                    }
                }
            }
        }
    }
}

fn clocks(shown: &Shown) -> Markup {
    let clocks = &shown.detail.clocks;
    html! {
        @if !clocks.is_empty() {
            section {
                h2 { "Clocks" }
                ul { @for clock in clocks.iter().take(LINES) { (clock_row(clock, shown)) } }
            }
        }
    }
}

fn clock_row(clock: &Clock, shown: &Shown) -> Markup {
    let class = match clock.state {
        _ if clock.stale => "unknown",
        ClockState::Locked | ClockState::Local => "up",
        ClockState::Unsynchronised => "down",
        ClockState::Syncing | ClockState::Holdover => "unknown",
    };
    html! {
        li {
            (clock.reporter) ": " span class=(class) { (clock_words(clock)) }
            ", since " (clock_time(clock.since.as_deref()))
            @if let Some(offsets) = shown.offsets.get(&clock.reporter) { (plot::offsets(offsets)) }
        }
    }
}

//--- Changes

fn events(shown: &Shown, names: &Names<'_>) -> Markup {
    let node = |what: &str| names.node(what.rsplit(' ').next().unwrap_or_default());
    html! {
        section.wide {
            h2 { "Last changes" }
            @if shown.events.events.is_empty() { p { "Nothing has changed since the start." } }
            ul {
                @for event in shown.events.events.iter().take(EVENTS) {
                    li.row.event {
                        small { (clock_time(Some(&event.at))) }
                        span { (event.what) @if let Some(node) = node(&event.what) { " " small { (node) } } }
                        span class=(event.state.split(' ').next().unwrap_or_default()) { (event.state) }
                        span.dim {
                            (event.why)
                            @if !event.by.is_empty() { " by " (event.by) }
                        }
                    }
                }
            }
            @if shown.events.total > 0 {
                p.dim { (counted(shown.events.total, "change")) " since the start of healthd." }
            }
        }
    }
}
