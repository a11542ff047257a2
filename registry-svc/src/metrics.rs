//! Names of metrics, and what they are read from.
//!
//! Dashboards for distribution find their metrics by distribution's names (`registry_*`); all
//! others are `registry_svc_*`.

pub mod cluster;
mod page;

use std::fmt;
use std::sync::Arc;

use daemon::metrics::{Page, float};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use registry_facts::usage::Usage;
use registry_http::counts::Http;
use registry_mirror::Mirrors;
use registry_store::Store;
use registry_store::disk::Actions;
use registry_webhook::EndpointStatus;

use page::{Unit, histogram};

pub use daemon::metrics::{Labels, labels};
pub use page::{Sample, Value};

/// Requests by handler, method and status.
pub const REQUESTS: &str = "registry_http_requests";
/// How long requests took, by handler and method.
pub const REQUEST_DURATION: &str = "registry_http_request_duration_seconds";
/// Requests under way, by handler.
pub const IN_FLIGHT: &str = "registry_http_in_flight_requests";
/// Octets of requests' bodies, by handler.
pub const REQUEST_SIZE: &str = "registry_http_request_size_bytes";
/// Octets of responses' bodies, by handler.
pub const RESPONSE_SIZE: &str = "registry_http_response_size_bytes";
/// Connections that were closed because of their PROXY header, or for want of one.
pub const PROXY_HEADERS_REFUSED: &str = "registry_svc_proxy_headers_refused";
/// Requests to mirrors, by type: manifest or blob.
pub const PROXY_REQUESTS: &str = "registry_proxy_requests";
/// Answered from what is here.
pub const PROXY_HITS: &str = "registry_proxy_hits";
/// Fetched from an upstream.
pub const PROXY_MISSES: &str = "registry_proxy_misses";
/// Octets that came from upstreams.
pub const PROXY_PULLED: &str = "registry_proxy_pulled_bytes";
/// Events by what became of them.
pub const EVENTS: &str = "registry_notifications_events";
/// Events that wait, by endpoint.
pub const EVENTS_PENDING: &str = "registry_notifications_pending";
/// Answers of endpoints by status.
pub const EVENTS_STATUS: &str = "registry_notifications_status";
/// Events that no endpoint's queue has seen because too many came at once.
pub const EVENTS_DROPPED: &str = "registry_svc_events_dropped";

/// Repositories that hold anything.
pub const REPOSITORIES: &str = "registry_svc_repositories";
/// Tags.
pub const TAGS: &str = "registry_svc_tags";
/// Manifests, with a tag or without.
pub const MANIFESTS: &str = "registry_svc_manifests";
/// Octets of manifests and blobs that repositories name, what is shared counted once.
pub const CONTENT: &str = "registry_svc_content_bytes";
/// Octets that one repository names.
pub const REPOSITORY_CONTENT: &str = "registry_svc_repository_content_bytes";
/// Repositories that have no series of their own, for there are too many.
pub const REPOSITORIES_WITHOUT: &str = "registry_svc_repositories_without_series";
/// How long operations on the disk took.
pub const STORAGE_ACTION: &str = "registry_storage_action_seconds";
/// Octets of the disk that the root is on.
pub const DISK_SIZE: &str = "registry_svc_disk_size_bytes";
/// Octets of it that are free.
pub const DISK_FREE: &str = "registry_svc_disk_free_bytes";
/// 1 when the journal has failed and nothing is taken until the next start.
pub const JOURNAL_FAILED: &str = "registry_svc_journal_failed";
/// 1 while the disk has the journal twice.
pub const JOURNAL_COPIED: &str = "registry_svc_journal_copied";
/// Blobs that were found damaged or missing since the start.
pub const DAMAGE_FOUND: &str = "registry_svc_damage_found_blobs";
/// Damaged files that went to the quarantine since the start.
pub const DAMAGE_QUARANTINED: &str = "registry_svc_damage_quarantined_blobs";
/// Damaged files in the quarantine.
pub const QUARANTINE_BLOBS: &str = "registry_svc_quarantine_blobs";
/// Their octets.
pub const QUARANTINE_BYTES: &str = "registry_svc_quarantine_bytes";
/// Damaged or missing blobs that are whole again.
pub const DAMAGE_HEALED: &str = "registry_svc_damage_healed_blobs";
/// Damaged or missing blobs that are not whole yet.
pub const DAMAGE_WAITING: &str = "registry_svc_damage_waiting_blobs";
/// Upload sessions that have begun and not ended.
pub const UPLOADS: &str = "registry_svc_upload_sessions";
/// Sweeps since the start.
pub const SWEEPS: &str = "registry_svc_sweeps";
/// How long the last one took.
pub const SWEEP_DURATION: &str = "registry_svc_sweep_duration_seconds";
/// Blobs that sweeps moved to the trash.
pub const SWEEP_TRASHED: &str = "registry_svc_sweep_trashed_blobs";
/// Blobs that sweeps deleted.
pub const SWEEP_DELETED: &str = "registry_svc_sweep_deleted_blobs";
/// Their octets.
pub const SWEEP_DELETED_BYTES: &str = "registry_svc_sweep_deleted_bytes";
/// Manifests that the last sweep could not read.
pub const SWEEP_UNREADABLE: &str = "registry_svc_sweep_unreadable_manifests";
/// Scrubs since the start.
pub const SCRUBS: &str = "registry_svc_scrubs";
/// Octets that scrubs read.
pub const SCRUB_READ: &str = "registry_svc_scrub_read_bytes";
/// Blobs that scrubs found damaged.
pub const SCRUB_DAMAGED: &str = "registry_svc_scrub_damaged_blobs";
/// Blobs that scrubs fetched again from other nodes.
pub const SCRUB_REPAIRED: &str = "registry_svc_scrub_repaired_blobs";

/// Repositories with series of their own; a scraper that keeps more of them has other troubles.
const MOST_REPOSITORIES: usize = 1000;

/// Reads the samples of a part of the registry at each scrape.
pub type Source = Box<dyn Fn() -> Vec<Sample> + Send + Sync>;

/// Parts of the registry that have samples of their own; clones share them.
#[derive(Clone, Default)]
pub struct Sources(Arc<Mutex<Vec<Source>>>);

impl Sources {
    /// Asks `source` at each scrape.
    pub fn add(&self, source: impl Fn() -> Vec<Sample> + Send + Sync + 'static) {
        let mut all = self.0.lock();
        all.push(Box::new(source));
    }

    /// The samples of all sources, grouped by name.
    #[must_use]
    pub fn read(&self) -> Vec<Sample> {
        let all = self.0.lock();
        let mut samples: Vec<Sample> = all.iter().flat_map(|source| source()).collect();
        drop(all);
        samples.sort_by_key(|sample| sample.name);
        samples
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sources").finish_non_exhaustive()
    }
}

/// Shows the registry to a scraper.
#[derive(Debug)]
pub struct Scrape {
    /// Requests.
    pub http: Http,
    /// Operations on the disk, and what it is.
    pub disk: (&'static str, Actions),
    /// Everything else.
    pub sources: Sources,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page::new(&mut encoder);
        requests(&mut page, &self.http)?;
        let (driver, actions) = &self.disk;
        let took = actions.read().map(|(action, distribution)| {
            let of = labels(&[("action", action.name()), ("driver", driver)]);
            (of, histogram(&distribution, Unit::Seconds))
        });
        let help = "How long operations on the disk took";
        page.histograms(STORAGE_ACTION, help, took.collect::<Vec<_>>())?;
        page::samples(&mut page, &self.sources.read())
    }
}

fn requests(page: &mut Page<'_, '_>, http: &Http) -> fmt::Result {
    let mut counts = Vec::new();
    let mut durations = Vec::new();
    for one in http.methods() {
        let of = [("handler", one.handler), ("method", one.method)];
        for (code, count) in one.codes {
            let code = code.to_string();
            let mut all = vec![("code", code.as_str())];
            all.extend(of);
            counts.push((labels(&all), count));
        }
        durations.push((labels(&of), histogram(&one.durations, Unit::Seconds)));
    }
    let (mut in_flight, mut received, mut sent) = (Vec::new(), Vec::new(), Vec::new());
    for one in http.sizes() {
        let of = || labels(&[("handler", one.handler)]);
        in_flight.push((of(), float(one.in_flight)));
        if one.received.count() > 0 {
            received.push((of(), histogram(&one.received, Unit::Bytes)));
            sent.push((of(), histogram(&one.sent, Unit::Bytes)));
        }
    }
    page.counters(REQUESTS, "Requests", counts)?;
    page.histograms(REQUEST_DURATION, "How long requests took", durations)?;
    page.gauges(IN_FLIGHT, "Requests under way", in_flight)?;
    let help = "Octets of bodies of requests";
    page.histograms(REQUEST_SIZE, help, received)?;
    let help = "Octets of bodies of responses";
    page.histograms(RESPONSE_SIZE, help, sent)?;
    let help = "Connections closed because of their PROXY header, or for want of one";
    let refused = vec![(Vec::new(), http.proxy_headers_refused())];
    page.counters(PROXY_HEADERS_REFUSED, help, refused)
}

/// The content of the registry, as last counted.
#[must_use]
pub fn held(survey: &Usage) -> Vec<Sample> {
    let total = survey.total();
    let n = u64::try_from(survey.n_repositories()).unwrap_or(u64::MAX);
    let mut samples = Vec::new();
    for (name, help, value) in [
        (REPOSITORIES, "Repositories that hold anything", n),
        (TAGS, "Tags", total.tags),
        (MANIFESTS, "Manifests", total.manifests),
        (CONTENT, "Octets that repositories name", total.octets),
    ] {
        samples.push(Sample::count(name, help, Vec::new(), value));
    }
    let most = u64::try_from(MOST_REPOSITORIES).unwrap_or(u64::MAX);
    samples.push(Sample::count(
        REPOSITORIES_WITHOUT,
        "Repositories without series of their own",
        Vec::new(),
        n.saturating_sub(most),
    ));
    for (name, holding) in survey.repositories().take(MOST_REPOSITORIES) {
        samples.push(Sample::count(
            REPOSITORY_CONTENT,
            "Octets that a repository names",
            labels(&[("repository", name.as_str())]),
            holding.octets,
        ));
    }
    samples
}

/// The disk and the store at the moment of the scrape.
#[must_use]
pub fn store(store: &Store) -> Vec<Sample> {
    let none = Vec::new;
    let mut samples = Vec::new();
    if let Ok(room) = store.disk().room(store.layout().root()) {
        let help = "Octets of the disk";
        samples.push(Sample::count(DISK_SIZE, help, none(), room.total));
        let help = "Octets of the disk that are free";
        samples.push(Sample::count(DISK_FREE, help, none(), room.free));
    }
    let sessions = u64::try_from(store.n_sessions()).unwrap_or(u64::MAX);
    samples.push(Sample::count(UPLOADS, "Upload sessions", none(), sessions));
    let help = "1 when the journal has failed and nothing is taken until the next start";
    let failed = u64::from(store.is_in_doubt());
    samples.push(Sample::count(JOURNAL_FAILED, help, none(), failed));
    let help = "1 while the disk has the journal twice";
    let copied = u64::from(store.is_journal_copied());
    samples.push(Sample::count(JOURNAL_COPIED, help, none(), copied));
    let damaged = store.damaged();
    for (name, help, value) in [
        (
            DAMAGE_FOUND,
            "Blobs found damaged or missing",
            damaged.n_found,
        ),
        (
            DAMAGE_QUARANTINED,
            "Damaged files that went to the quarantine",
            damaged.n_quarantined,
        ),
        (
            DAMAGE_HEALED,
            "Damaged or missing blobs that are whole again",
            damaged.n_healed,
        ),
    ] {
        samples.push(Sample::counter(name, help, none(), value));
    }
    if let Some(quarantined) = store.quarantined() {
        let n = u64::try_from(quarantined.n).unwrap_or(u64::MAX);
        let help = "Damaged files in the quarantine";
        samples.push(Sample::count(QUARANTINE_BLOBS, help, none(), n));
        let help = "Octets of the damaged files in the quarantine";
        let octets = quarantined.octets;
        samples.push(Sample::count(QUARANTINE_BYTES, help, none(), octets));
    }
    let waiting = u64::try_from(damaged.n_waiting).unwrap_or(u64::MAX);
    let help = "Damaged or missing blobs that are not whole yet";
    samples.push(Sample::count(DAMAGE_WAITING, help, none(), waiting));
    samples
}

/// Mirrors of upstreams.
#[must_use]
pub fn mirrors(mirrors: &Mirrors) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (kind, asked) in [("manifest", mirrors.manifests()), ("blob", mirrors.blobs())] {
        let of = || labels(&[("type", kind)]);
        let hits = asked.requests.saturating_sub(asked.misses);
        for (name, help, count) in [
            (PROXY_REQUESTS, "Requests to mirrors", asked.requests),
            (PROXY_HITS, "Requests to mirrors answered from here", hits),
            (
                PROXY_MISSES,
                "Requests to mirrors answered by an upstream",
                asked.misses,
            ),
        ] {
            samples.push(Sample::counter(name, help, of(), count));
        }
    }
    let of = labels(&[("type", "blob")]);
    samples.push(Sample::counter(
        PROXY_PULLED,
        "Octets from upstreams",
        of,
        mirrors.octets(),
    ));
    samples
}

/// Deliveries to endpoints, under distribution's names.
#[must_use]
pub fn notifications(endpoints: &[EndpointStatus]) -> Vec<Sample> {
    let mut samples = Vec::new();
    for endpoint in endpoints {
        let of = |what| labels(&[("endpoint", endpoint.name.as_str()), ("type", what)]);
        for (what, count) in [
            ("Successes", endpoint.delivered),
            ("Failures", endpoint.failures),
            ("Dropped", endpoint.dropped),
        ] {
            samples.push(Sample::counter(EVENTS, "Events", of(what), count));
        }
        let waiting = u64::try_from(endpoint.waiting).unwrap_or(u64::MAX);
        let name = labels(&[("endpoint", endpoint.name.as_str())]);
        samples.push(Sample::gauge(
            EVENTS_PENDING,
            "Events that wait",
            name,
            float(waiting),
        ));
        for (code, count) in &endpoint.answers {
            let code = code.to_string();
            let of = labels(&[("endpoint", endpoint.name.as_str()), ("code", &code)]);
            let help = "Answers of endpoints";
            samples.push(Sample::counter(EVENTS_STATUS, help, of, *count));
        }
    }
    if !endpoints.is_empty() {
        samples.push(Sample::counter(
            EVENTS_DROPPED,
            "Events dropped before any queue",
            Vec::new(),
            registry_webhook::n_dropped(),
        ));
    }
    samples
}

#[cfg(test)]
mod tests;
