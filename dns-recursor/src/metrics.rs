//! The names of metrics, and their sources.
//!
//! The `coredns_*` metrics are those that dashboards and alerts for `CoreDNS` read, with its labels and
//! meaning; metrics that `CoreDNS` does not have are named `dns_recursor_*`.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::dns_recursor::ManagedZone;
use daemon::metrics::{Histogram, Labels, Page, float, labels};
use dns_cache::cache::Cache;
use dns_front::front::Source;
use dns_resolve::forward::Fitness;
use dns_serve::Counters;
use dns_wire::Rcode;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use proto::link::Link;
use query_watch::Watch;

use crate::anchors::ManagedKeys;
use crate::driver::{Latency, Observed};
use crate::names::Shared;
use crate::own_health::Seen;
use crate::totals::{ARRIVALS, BUCKETS, COOKIES, SOURCES, Sum, TYPES, Totals, bucket_bound};

/// Queries by `proto`, `family` and `type`.
pub const REQUESTS: &str = "coredns_dns_requests";
/// Responses by `rcode` and `plugin`, which is their source.
pub const RESPONSES: &str = "coredns_dns_responses";
/// Time that clients waited.
pub const REQUEST_DURATION: &str = "coredns_dns_request_duration_seconds";
/// Entries by `type`: success or denial.
pub const CACHE_ENTRIES: &str = "coredns_cache_entries";
/// Answers from the cache by `type`.
pub const CACHE_HITS: &str = "coredns_cache_hits";
/// Queries that came to the cache.
pub const CACHE_REQUESTS: &str = "coredns_cache_requests";
/// Queries that the cache could not answer.
pub const CACHE_MISSES: &str = "coredns_cache_misses";
/// Stale answers.
pub const CACHE_STALE: &str = "coredns_cache_served_stale";
/// Entries evicted before their time by `type`.
pub const CACHE_EVICTIONS: &str = "coredns_cache_evictions";
/// Entries refreshed before they expired.
pub const CACHE_PREFETCHES: &str = "coredns_cache_prefetch";
/// Queries turned away because too many wait.
pub const MAX_CONCURRENT: &str = "coredns_forward_max_concurrent_rejects";
/// Response times of upstreams by `to` and `rcode`.
pub const PROXY_DURATION: &str = "coredns_proxy_request_duration_seconds";
/// The times that an upstream became absent, by `to`.
pub const PROXY_FAILURES: &str = "coredns_proxy_healthcheck_failures";
/// Names of hosts files.
pub const HOSTS_ENTRIES: &str = "coredns_hosts_entries";
/// When a hosts file was last read, in seconds since 1970.
pub const HOSTS_RELOAD: &str = "coredns_hosts_reload_timestamp_seconds";
/// Rules of a response policy, by `file`.
pub const POLICY_RULES: &str = "dns_recursor_response_policy_rules";
/// Whether the last content of a file with names or rules could not be read, by `file`.
pub const NAME_FILE_FAILED: &str = "dns_recursor_name_file_failed";
/// The time that the server takes to answer itself.
pub const HEALTH_DURATION: &str = "coredns_health_request_duration_seconds";
/// The times that it did not.
pub const HEALTH_FAILURES: &str = "coredns_health_request_failures";
/// Panics; always zero, because a panic ends the process.
pub const PANICS: &str = "coredns_panics";
/// Octets of the cache by `type`.
pub const CACHE_OCTETS: &str = "dns_recursor_cache_bytes";
/// The fitness of an upstream, by `to`: 1 good, 0.5 in doubt, 0 absent.
pub const UPSTREAM_FITNESS: &str = "dns_recursor_upstream_fitness";
/// Usual round-trip time to an upstream by `to`.
pub const UPSTREAM_ROUND_TRIP: &str = "dns_recursor_upstream_round_trip_seconds";
/// Exchanges that ended without a response by `to`.
pub const UPSTREAM_LOSSES: &str = "dns_recursor_upstream_losses";
/// Questions in flight.
pub const QUESTIONS: &str = "dns_recursor_questions_under_way";
/// Events in the resolver, by `event`.
pub const EVENTS: &str = "dns_recursor_resolver_events";
/// Answers that were validated, by `state`.
pub const VALIDATED: &str = "dns_recursor_validated_answers";
/// Keys of zones whose keys are followed, by `zone` and `state`.
pub const ANCHOR_KEYS: &str = "dns_recursor_trust_anchor_keys";
/// When the last set of keys with a trusted signature came, in seconds since 1970, by `zone`.
pub const ANCHOR_SET: &str = "dns_recursor_trust_anchor_last_set_timestamp_seconds";
/// Questions for the keys of zones, by `zone` and `result`.
pub const ANCHOR_QUESTIONS: &str = "dns_recursor_trust_anchor_questions";
/// Queries beyond the limit of responses, by `action`.
pub const RATE_LIMITED: &str = "dns_recursor_rate_limited_queries";
/// Queries with a cookie, by what it `proves`.
pub const COOKIE_QUERIES: &str = "dns_recursor_cookie_queries";
/// Open connections.
pub const TCP_CONNECTIONS: &str = "dns_recursor_tcp_connections";
/// Connections refused because of a limit.
pub const TCP_REFUSED: &str = "dns_recursor_tcp_refused_connections";
/// Lines of the query log.
pub const QUERY_LOG_LINES: &str = "dns_recursor_query_log_lines";
/// Queries that the query log has left out.
pub const QUERY_LOG_LEFT_OUT: &str = "dns_recursor_query_log_left_out_queries";
/// Messages that were written for dnstap.
pub const DNSTAP_MESSAGES: &str = "dns_recursor_dnstap_messages";
/// Messages for dnstap that were lost.
pub const DNSTAP_DROPPED: &str = "dns_recursor_dnstap_dropped_messages";
/// Whether dnstap's socket or file takes messages; absent without it.
pub const DNSTAP_OPEN: &str = "dns_recursor_dnstap_open";
/// Whether healthd is connected; absent when it is not used.
pub const HEALTHD_CONNECTED: &str = "dns_recursor_healthd_connected";

/// The pools by `CoreDNS`'s names, in the order of [`dns_cache::cache::Usage`].
const POOLS: [&str; 2] = ["success", "denial"];

/// Shows the server to a scraper.
pub struct Scrape {
    /// The counters of the threads.
    pub totals: Totals,
    /// The cache.
    pub cache: Arc<Cache>,
    /// The counters of the driver.
    pub observed: Arc<Mutex<Observed>>,
    /// The counters of connections.
    pub connections: Counters,
    /// The times of its own questions.
    pub(crate) own_health: Arc<Mutex<Seen>>,
    /// The stream from healthd.
    pub link: Link,
    /// The names of the configuration and of files.
    pub names: Arc<Shared>,
    /// The query log and dnstap.
    pub watch: Watch,
    /// The zones whose keys are followed.
    pub managed_keys: Arc<ManagedKeys>,
    /// The `server` label: the addresses that the server listens on.
    pub server: String,
}

impl fmt::Debug for Scrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scrape").finish_non_exhaustive()
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page::new(&mut encoder);
        let sum = self.totals.sum();
        self.traffic(&mut page, &sum)?;
        self.cache(&mut page, &sum)?;
        self.names(&mut page)?;
        let observed = self.observed.lock().clone();
        upstreams(&mut page, &observed)?;
        events(&mut page, &observed, &sum)?;
        anchors(&mut page, &self.managed_keys.report())?;
        self.watched(&mut page)?;
        self.connections(&mut page)
    }
}

impl Scrape {
    /// Labels, with those that every metric of `CoreDNS`'s server has.
    fn labels(&self, more: &[(&'static str, &str)]) -> Labels {
        let own = [
            ("server", self.server.as_str()),
            ("zone", "."),
            ("view", ""),
        ];
        labels(&[own.as_slice(), more].concat())
    }

    fn traffic(&self, page: &mut Page<'_, '_>, sum: &Sum) -> fmt::Result {
        let mut requests = Vec::new();
        let types = || TYPES.iter().map(|(_, name)| *name).chain(["other"]);
        for ((proto, family), row) in ARRIVALS.iter().zip(sum.requests) {
            for (qtype, count) in types().zip(row).filter(|(_, count)| *count > 0) {
                let more = [("proto", *proto), ("family", *family), ("type", qtype)];
                requests.push((self.labels(&more), count));
            }
        }
        page.counters(REQUESTS, "Queries received", requests)?;
        let mut responses = Vec::new();
        for ((_, plugin), row) in SOURCES.iter().zip(sum.responses) {
            for (rcode, count) in (0_u16..).zip(row).filter(|(_, count)| *count > 0) {
                let more = [("rcode", &*Rcode(rcode).to_string()), ("plugin", plugin)];
                responses.push((self.labels(&more), count));
            }
        }
        page.counters(RESPONSES, "Responses sent", responses)?;
        let latency = Latency {
            buckets: sum.latency,
            micros: sum.latency_micros,
        };
        let all = vec![(self.labels(&[]), histogram(&latency))];
        page.histograms(REQUEST_DURATION, "Time that clients waited", all)?;
        let seen = self.own_health.lock().clone();
        let server = labels(&[("server", &self.server)]);
        let own = vec![(server, histogram(&seen.latency))];
        page.histograms(HEALTH_DURATION, "Time that it takes to answer itself", own)?;
        page.counter(
            HEALTH_FAILURES,
            "Own questions without an answer",
            seen.failures,
        )?;
        page.counter(PANICS, "Panics", 0)
    }

    fn cache(&self, page: &mut Page<'_, '_>, sum: &Sum) -> fmt::Result {
        let usage = self.cache.usage();
        let by_pool = |values: [u64; 2]| {
            let pools = POOLS.iter().zip(values);
            pools
                .map(|(pool, value)| (self.labels(&[("type", pool)]), value))
                .collect()
        };
        let size = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let entries = by_pool(usage.entries.map(size));
        page.gauges(CACHE_ENTRIES, "Entries in the cache", floats(entries))?;
        let octets = by_pool(usage.octets.map(size));
        page.gauges(CACHE_OCTETS, "Memory of the cache", floats(octets))?;
        let hits = [Source::Positive, Source::Negative].map(|source| sum.from_source(source));
        page.counters(CACHE_HITS, "Answers from the cache", by_pool(hits))?;
        page.counters(CACHE_EVICTIONS, "Entries evicted", by_pool(usage.evictions))?;
        let one = |value| vec![(self.labels(&[]), value)];
        let stale = sum.from_source(Source::Stale);
        let known = hits.iter().sum::<u64>() + stale + sum.from_source(Source::Failure);
        let resolved = sum.from_source(Source::Resolver);
        page.counters(
            CACHE_REQUESTS,
            "Queries to the cache",
            one(known + resolved),
        )?;
        page.counters(
            CACHE_MISSES,
            "Queries not answered from the cache",
            one(resolved),
        )?;
        page.counters(CACHE_STALE, "Stale answers", one(stale))?;
        page.counters(
            CACHE_PREFETCHES,
            "Entries refreshed ahead",
            one(sum.prefetches),
        )?;
        let cookies = COOKIES.iter().zip(sum.cookies);
        let cookies = cookies.map(|((_, proves), count)| (labels(&[("proves", proves)]), count));
        page.counters(
            COOKIE_QUERIES,
            "Queries with a DNS cookie by what it proves",
            cookies.collect(),
        )?;
        let limited = self.totals.limits.counts();
        let limited = limited.map(|(action, count)| (labels(&[("action", action)]), count));
        page.counters(
            RATE_LIMITED,
            "Queries beyond the limit of responses by what was done",
            limited.into(),
        )
    }

    fn names(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let Some(names) = self.names.report() else {
            return Ok(());
        };
        let size = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let hosts = vec![(self.labels(&[]), size(names.hosts))];
        page.gauges(HOSTS_ENTRIES, "Names of hosts files", floats(hosts))?;
        let files = names.files.iter();
        let read = files.clone().filter(|file| !file.is_policy);
        let read = read
            .map(|file| (self.labels(&[]), file.read_at))
            .max_by_key(|it| it.1);
        let help = "Time of the last reading of a hosts file";
        page.gauges(HOSTS_RELOAD, help, floats(read.into_iter().collect()))?;
        let rules = files.clone().filter(|file| file.is_policy);
        let rules = rules.map(|file| (labels(&[("file", &*file.path)]), size(file.entries)));
        let help = "Rules of a response policy";
        page.gauges(POLICY_RULES, help, floats(rules.collect()))?;
        let failed = files.map(|file| {
            let failed = u64::from(file.problem.is_some());
            (labels(&[("file", &*file.path)]), failed)
        });
        let help = "Whether the last content of a file with names could not be read";
        page.gauges(NAME_FILE_FAILED, help, floats(failed.collect()))
    }

    fn watched(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let (log, dnstap) = self.watch.report();
        page.counter(QUERY_LOG_LINES, "Lines of the query log", log.lines)?;
        let help = "Queries that the query log has left out";
        page.counter(QUERY_LOG_LEFT_OUT, help, log.left_out)?;
        let Some(dnstap) = dnstap else {
            return Ok(());
        };
        page.counter(DNSTAP_MESSAGES, "dnstap messages written", dnstap.written)?;
        page.counter(DNSTAP_DROPPED, "dnstap messages lost", dnstap.dropped)?;
        let open = f64::from(u8::from(dnstap.open));
        page.gauge(DNSTAP_OPEN, "Whether dnstap messages are taken", open)
    }

    fn connections(&self, page: &mut Page<'_, '_>) -> fmt::Result {
        let open = self.connections.tcp.open();
        let refused = self.connections.tcp.refused();
        page.gauge(TCP_CONNECTIONS, "Open connections", float(open))?;
        page.counter(TCP_REFUSED, "Connections turned away", refused)?;
        match self.link.state() {
            None => Ok(()),
            Some(state) => {
                let connected = f64::from(u8::from(state.connected));
                page.gauge(HEALTHD_CONNECTED, "Whether healthd is connected", connected)
            }
        }
    }
}

fn to(upstream: SocketAddr) -> Labels {
    vec![
        ("proxy_name", "forward".to_owned()),
        ("to", upstream.to_string()),
    ]
}

fn upstreams(page: &mut Page<'_, '_>, observed: &Observed) -> fmt::Result {
    let durations = observed
        .responses
        .iter()
        .map(|((upstream, rcode), latency)| {
            let mut labels = to(*upstream);
            labels.push(("rcode", Rcode(*rcode).to_string()));
            (labels, histogram(latency))
        });
    page.histograms(
        PROXY_DURATION,
        "Time that upstreams took",
        durations.collect(),
    )?;
    let absences = observed
        .absences
        .iter()
        .map(|(u, n)| (to(*u), *n))
        .collect();
    page.counters(
        PROXY_FAILURES,
        "Times that upstreams became absent",
        absences,
    )?;
    let losses = observed.losses.iter().map(|(u, n)| (to(*u), *n)).collect();
    page.counters(UPSTREAM_LOSSES, "Exchanges without a response", losses)?;
    let fitness = observed.upstreams.iter().map(|view| {
        let value = match view.fitness {
            Fitness::Good => 1.0,
            Fitness::Doubtful => 0.5,
            Fitness::Absent => 0.0,
        };
        (to(view.address), value)
    });
    page.gauges(
        UPSTREAM_FITNESS,
        "Whether upstreams answer",
        fitness.collect(),
    )?;
    let round_trips = observed.upstreams.iter().filter_map(|view| {
        let round_trip = view.round_trip?;
        Some((to(view.address), round_trip.as_secs_f64()))
    });
    let help = "Usual time to an upstream and back";
    page.gauges(UPSTREAM_ROUND_TRIP, help, round_trips.collect())
}

fn events(page: &mut Page<'_, '_>, observed: &Observed, sum: &Sum) -> fmt::Result {
    let counts = observed.counts;
    let events = [
        ("sent", counts.sent),
        ("sent-tcp", counts.sent_tcp),
        ("sent-again", counts.sent_again),
        ("probes", counts.probes),
        ("joined", counts.joined),
        ("overdue", counts.overdue),
        ("near-misses", counts.near_misses),
        ("denied", counts.denied),
        ("other-case", counts.other_case),
        ("truncated", counts.truncated),
        ("unusable", counts.unusable),
        ("loops", counts.loops),
        ("notified", observed.notified),
        ("denials-outlasted", observed.outlasted),
        ("sick-entries-dropped", observed.forgotten),
    ];
    let events = events.map(|(event, n)| (vec![("event", event.to_owned())], n));
    page.counters(EVENTS, "Events in the resolver", events.into())?;
    let validated = [
        ("secure", counts.validated.secure),
        ("insecure", counts.validated.insecure),
        ("bogus", counts.validated.bogus),
        ("indeterminate", counts.validated.indeterminate),
    ];
    let validated = validated.map(|(state, n)| (vec![("state", state.to_owned())], n));
    let help = "Answers of upstreams by what DNSSEC validation found";
    page.counters(VALIDATED, help, validated.into())?;
    let rejects = counts.overload + sum.overload;
    page.counter(MAX_CONCURRENT, "Queries turned away", rejects)?;
    let under_way = u64::try_from(observed.n_flights).unwrap_or(u64::MAX);
    page.gauge(QUESTIONS, "Questions in flight", float(under_way))
}

/// The states of keys; one that the configuration has, and that was not seen yet, is initial.
const KEY_STATES: [&str; 6] = [
    "initial", "pending", "valid", "missing", "revoked", "removed",
];

fn anchors(page: &mut Page<'_, '_>, zones: &[ManagedZone]) -> fmt::Result {
    if zones.is_empty() {
        return Ok(());
    }
    let size = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let keys = zones.iter().flat_map(|zone| {
        KEY_STATES.iter().map(|state| {
            let count = zone.keys.iter().filter(|key| key.state == **state).count();
            let labels = labels(&[("zone", &*zone.zone), ("state", state)]);
            (labels, size(count))
        })
    });
    let help = "Keys of zones whose keys are followed";
    page.gauges(ANCHOR_KEYS, help, floats(keys.collect()))?;
    let heard = zones.iter().filter_map(|zone| {
        let at = zone.heard_at?;
        Some((labels(&[("zone", &*zone.zone)]), at))
    });
    let help = "Time of the last keys that a trusted key has signed";
    page.gauges(ANCHOR_SET, help, floats(heard.collect()))?;
    let questions = zones.iter().flat_map(|zone| {
        [("good", zone.good), ("failed", zone.failed)].map(|(result, count)| {
            let labels = labels(&[("zone", &*zone.zone), ("result", result)]);
            (labels, count)
        })
    });
    let help = "Questions for the keys of zones by what they brought";
    page.counters(ANCHOR_QUESTIONS, help, questions.collect())
}

/// A histogram in the form of scrapers.
fn histogram(latency: &Latency) -> Histogram {
    let bounds = (0..BUCKETS).map(bucket_bound).chain([f64::INFINITY]);
    Histogram {
        sum: Duration::from_micros(latency.micros).as_secs_f64(),
        buckets: bounds.zip(latency.buckets).collect(),
    }
}

fn floats(values: Vec<(Labels, u64)>) -> Vec<(Labels, f64)> {
    values
        .into_iter()
        .map(|(labels, value)| (labels, float(value)))
        .collect()
}
