//! Metrics: names, help and sources.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use daemon::latest::Latest;
use daemon::metrics::{Page, float, labels};
use dns_answer::tally::{COOKIES, FAMILIES, RCODES, TRANSPORTS, TYPES, Tally};
use dns_cluster::Findings;
use dns_lua::Certainty;
use dns_primary::{flattening, notify, transfers};
use dns_serve::Counters;
use dns_serve::rate::RateLimits;
use parking_lot::RwLock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use proto::cluster::link::Link as ClusterLink;
use proto::link::Link;

use api::dns_authd::ZoneState;

use crate::publisher::{Reports, ZoneReport};
use crate::{catalogs, secondary, updates};

/// Queries by `transport` and `family`.
pub const QUERIES: &str = "dns_authd_queries";
/// Queries by `type`.
pub const QUERY_TYPES: &str = "dns_authd_query_types";
/// Responses by `rcode`.
pub const RESPONSES: &str = "dns_authd_responses";
/// Responses with TC set.
pub const TRUNCATED: &str = "dns_authd_truncated_responses";
/// Messages that got no response.
pub const IGNORED: &str = "dns_authd_ignored_messages";
/// Messages of clients without access.
pub const OUTSIDERS: &str = "dns_authd_outsider_messages";
/// NOTIFY messages sent to secondaries.
pub const NOTIFY_SENT: &str = "dns_authd_notify_messages";
/// Versions of which a secondary was notified, or not.
pub const NOTIFIED: &str = "dns_authd_notifications";
/// Questions to the primaries of secondary zones, by result.
pub const REFRESHES: &str = "dns_authd_refreshes";
/// Secondary zones that have expired.
pub const EXPIRED: &str = "dns_authd_expired_zones";
/// Zones of catalogs by `role` of the catalog.
pub const CATALOG_ZONES: &str = "dns_authd_catalog_zones";
/// Zones that a catalog lists and that are not served from it.
pub const CATALOG_CONFLICTS: &str = "dns_authd_catalog_conflicts";
/// Catalogs whose newest version is broken.
pub const BROKEN_CATALOGS: &str = "dns_authd_broken_catalogs";
/// Transfers by `kind`.
pub const TRANSFERS: &str = "dns_authd_transfers";
/// Flattened versions of zones.
pub const FLATTENED: &str = "dns_authd_flattened_versions";
/// Changes of liveness that waited for the next flattened version.
pub const FLATTENED_DELAYED: &str = "dns_authd_flattened_delays";
/// Updates by `result`.
pub const UPDATES: &str = "dns_authd_updates";
/// Signed queries (TSIG) whose signature was refused.
pub const SIGNATURES_REFUSED: &str = "dns_authd_signatures_refused";
/// Queries with a cookie, by what it `proves`.
pub const COOKIE_QUERIES: &str = "dns_authd_cookie_queries";
/// Queries beyond the limit of responses, by `action`.
pub const RATE_LIMITED: &str = "dns_authd_rate_limited_queries";
/// Answers drawn from live sets.
pub const LIVE_ANSWERS: &str = "dns_authd_live_answers";
/// Queries that waited for first results.
pub const HELD: &str = "dns_authd_held_queries";
/// Open connections.
pub const TCP_CONNECTIONS: &str = "dns_authd_tcp_connections";
/// Connections refused because of a limit.
pub const TCP_REFUSED: &str = "dns_authd_tcp_refused_connections";
/// Zones by `state`.
pub const ZONES: &str = "dns_authd_zones";
/// Zones that are being loaded, by `stage`.
pub const LOADING_ZONES: &str = "dns_authd_loading_zones";
/// The serial of each `zone`.
pub const ZONE_SERIAL: &str = "dns_authd_zone_serial";
/// The number of records of each `zone`.
pub const ZONE_RECORDS: &str = "dns_authd_zone_records";
/// The duration of the last load of each `zone`.
pub const ZONE_LOAD: &str = "dns_authd_zone_load_duration_seconds";
/// The number of loads of each `zone`.
pub const ZONE_LOADS: &str = "dns_authd_zone_loads";
/// The number of refused loads of each `zone`.
pub const ZONE_REFUSED: &str = "dns_authd_zone_failed_loads";
/// The number of records of each `zone` that are left out because something in them is unknown.
pub const ZONE_LEFT_OUT: &str = "dns_authd_zone_left_out_records";
/// Live sets by `certainty`.
pub const LIVE_SETS: &str = "dns_authd_live_sets";
/// Targets in the list for healthd.
pub const TARGETS: &str = "dns_authd_health_targets";
/// Whether healthd is connected.
pub const HEALTH_CONNECTED: &str = "dns_authd_health_connected";
/// Whether dns-authd probes the targets itself.
pub const HEALTH_STAND_IN: &str = "dns_authd_health_stand_in";
/// The age of the last snapshot from healthd; absent before the first.
pub const HEALTH_AGE: &str = "dns_authd_health_snapshot_age_seconds";

/// Whether clusterd is connected.
pub const CLUSTER_CONNECTED: &str = "dns_authd_cluster_connected";
/// The generation of clusterd's last snapshot.
pub const CLUSTER_GENERATION: &str = "dns_authd_cluster_generation";
/// The age of the last snapshot from clusterd; absent before the first.
pub const CLUSTER_AGE: &str = "dns_authd_cluster_snapshot_age_seconds";
/// The names that Services ask for by annotations, by whether they have them.
pub const CLUSTER_HOSTNAMES: &str = "dns_authd_cluster_hostnames";
/// The endpoints of the cluster, by whether healthd probes them for dns-authd.
pub const CLUSTER_ENDPOINTS: &str = "dns_authd_cluster_endpoints";

/// The most zones with metrics of their own: more would overload a scraper.
const SINGLE_ZONES: usize = 1000;

/// The counts of all threads together.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    threads: Arc<RwLock<Vec<Arc<ThreadTotals>>>>,
    /// Queries that waited.
    pub held: Arc<AtomicU64>,
    /// Connections from senders outside the access list.
    pub outsiders: Arc<AtomicU64>,
    /// NOTIFY.
    pub notify: Arc<notify::Counts>,
    /// Secondary zones.
    pub secondary: Arc<secondary::Counts>,
    /// Transfers.
    pub transfers: Arc<transfers::Counts>,
    /// Flattened versions.
    pub flattened: Arc<flattening::Counts>,
    /// Updates.
    pub updates: Arc<updates::Counts>,
    /// The limit of responses.
    pub limits: RateLimits,
}

/// The counts of one thread; no other thread writes here.
#[derive(Debug)]
#[repr(align(128))]
pub struct ThreadTotals {
    queries: [[AtomicU64; FAMILIES.len()]; TRANSPORTS.len()],
    types: [AtomicU64; TYPES.len() + 1],
    rcodes: [AtomicU64; RCODES.len() + 1],
    truncated: AtomicU64,
    live: AtomicU64,
    ignored: AtomicU64,
    outsiders: AtomicU64,
    rejected: AtomicU64,
    cookies: [AtomicU64; COOKIES.len()],
}

impl Default for ThreadTotals {
    fn default() -> Self {
        Self {
            queries: Default::default(),
            types: Default::default(),
            rcodes: Default::default(),
            truncated: AtomicU64::new(0),
            live: AtomicU64::new(0),
            ignored: AtomicU64::new(0),
            outsiders: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            cookies: Default::default(),
        }
    }
}

impl Totals {
    /// Adds the counters of one more thread.
    #[must_use]
    pub fn add_thread(&self) -> Arc<ThreadTotals> {
        let totals = Arc::new(ThreadTotals::default());
        let mut threads = self.threads.write();
        threads.push(Arc::clone(&totals));
        totals
    }

    /// Everything counted so far.
    #[must_use]
    pub fn sum(&self) -> Tally {
        let mut sum = Tally::default();
        let threads = self.threads.read();
        for thread in threads.iter() {
            thread.add_to(&mut sum);
        }
        sum
    }
}

impl ThreadTotals {
    /// Adds the counts since the last call. Only one thread may call this.
    pub fn add(&self, tally: &Tally) {
        let queries = self.queries.iter().flatten();
        for (total, count) in queries.zip(tally.queries.iter().flatten()) {
            add(total, *count);
        }
        for (total, count) in self.types.iter().zip(tally.types) {
            add(total, count);
        }
        for (total, count) in self.rcodes.iter().zip(tally.rcodes) {
            add(total, count);
        }
        add(&self.truncated, tally.truncated);
        add(&self.live, tally.live);
        add(&self.ignored, tally.ignored);
        add(&self.outsiders, tally.outsiders);
        add(&self.rejected, tally.rejected);
        for (total, count) in self.cookies.iter().zip(tally.cookies) {
            add(total, count);
        }
    }

    fn add_to(&self, sum: &mut Tally) {
        let read = |total: &AtomicU64| total.load(Ordering::Relaxed);
        let queries = sum.queries.iter_mut().flatten();
        for (sum, total) in queries.zip(self.queries.iter().flatten()) {
            *sum += read(total);
        }
        for (sum, total) in sum.types.iter_mut().zip(&self.types) {
            *sum += read(total);
        }
        for (sum, total) in sum.rcodes.iter_mut().zip(&self.rcodes) {
            *sum += read(total);
        }
        sum.truncated += read(&self.truncated);
        sum.live += read(&self.live);
        sum.ignored += read(&self.ignored);
        sum.outsiders += read(&self.outsiders);
        sum.rejected += read(&self.rejected);
        for (sum, total) in sum.cookies.iter_mut().zip(&self.cookies) {
            *sum += read(total);
        }
    }
}

/// Adds without a locked instruction: a single writer does not need one.
fn add(total: &AtomicU64, count: u64) {
    if count > 0 {
        let value = total.load(Ordering::Relaxed).wrapping_add(count);
        total.store(value, Ordering::Relaxed);
    }
}

/// Shows the server to a scraper.
pub struct Scrape {
    /// The counts.
    pub totals: Totals,
    /// Connections.
    pub connections: Counters,
    /// The zones.
    pub reports: Arc<Latest<Reports>>,
    /// The catalogs.
    pub catalogs: Arc<Latest<catalogs::Views>>,
    /// The stream from healthd.
    pub link: Link,
    /// The stream from clusterd.
    pub cluster: Arc<Latest<ClusterLink>>,
    /// The last rendering of the names of the cluster.
    pub findings: Arc<Latest<Findings>>,
}

impl fmt::Debug for Scrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scrape").finish_non_exhaustive()
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut page = Page::new(&mut encoder);
        traffic(&mut page, &self.totals, &self.connections)?;
        demands(&mut page, &self.totals)?;
        exchanges(&mut page, &self.totals)?;
        of_catalogs(&mut page, &self.catalogs.current())?;
        let reports = self.reports.current();
        zones(&mut page, &reports)?;
        live(&mut page, &reports)?;
        health(&mut page, &reports, &self.link)?;
        cluster(&mut page, &self.cluster.current(), &self.findings.current())
    }
}

fn traffic(page: &mut Page<'_, '_>, totals: &Totals, connections: &Counters) -> fmt::Result {
    let sum = totals.sum();
    let mut queries = Vec::new();
    for ((_, transport), row) in TRANSPORTS.iter().zip(sum.queries) {
        for (family, count) in FAMILIES.iter().zip(row) {
            let names = labels(&[("transport", transport), ("family", family)]);
            queries.push((names, count));
        }
    }
    page.counters(QUERIES, "Queries received", queries)?;
    let names = TYPES.iter().map(|(_, name)| *name).chain(["other"]);
    let types = names.zip(sum.types);
    let types = types.map(|(name, count)| (labels(&[("type", name)]), count));
    page.counters(QUERY_TYPES, "Queries by type", types.collect())?;
    let names = RCODES.iter().map(|(_, name)| *name).chain(["other"]);
    let rcodes = names.zip(sum.rcodes);
    let rcodes = rcodes.map(|(name, count)| (labels(&[("rcode", name)]), count));
    page.counters(RESPONSES, "Responses sent", rcodes.collect())?;
    page.counter(TRUNCATED, "Responses with TC set", sum.truncated)?;
    page.counter(IGNORED, "Messages that got no response", sum.ignored)?;
    page.counter(
        OUTSIDERS,
        "Messages and connections of clients without access",
        sum.outsiders + totals.outsiders.load(Ordering::Relaxed),
    )?;
    page.counter(LIVE_ANSWERS, "Answers drawn by liveness", sum.live)?;
    page.counter(
        HELD,
        "Queries that waited for first results",
        totals.held.load(Ordering::Relaxed),
    )?;
    page.counter(
        TCP_REFUSED,
        "Connections refused because of a limit",
        connections.tcp.refused(),
    )?;
    page.gauge(
        TCP_CONNECTIONS,
        "Open connections",
        float(connections.tcp.open()),
    )
}

/// Signed queries, cookies, limits and updates.
fn demands(page: &mut Page<'_, '_>, totals: &Totals) -> fmt::Result {
    page.counter(
        SIGNATURES_REFUSED,
        "Signed queries whose signature was refused",
        totals.sum().rejected,
    )?;
    let cookies = COOKIES.iter().zip(totals.sum().cookies);
    let cookies = cookies.map(|((_, proves), count)| (labels(&[("proves", proves)]), count));
    page.counters(
        COOKIE_QUERIES,
        "Queries with a DNS cookie by what it proves",
        cookies.collect(),
    )?;
    let limited = totals.limits.counts();
    let limited = limited.map(|(action, count)| (labels(&[("action", action)]), count));
    page.counters(
        RATE_LIMITED,
        "Queries beyond the limit of responses by what was done",
        limited.into(),
    )?;
    let updates = &totals.updates;
    page.labelled_counters(
        UPDATES,
        "Updates (RFC 2136) by what became of them",
        "result",
        &[
            ("carried-out", &updates.carried_out),
            ("unmet-prerequisite", &updates.unmet),
            ("refused", &updates.refused),
            ("failed", &updates.failed),
        ],
    )
}

/// The exchanges with primaries and secondaries.
fn exchanges(page: &mut Page<'_, '_>, totals: &Totals) -> fmt::Result {
    let notify = &totals.notify;
    page.counter(
        NOTIFY_SENT,
        "NOTIFY messages sent to secondaries",
        notify.sent.load(Ordering::Relaxed),
    )?;
    page.labelled_counters(
        NOTIFIED,
        "New versions of zones by whether a secondary responded to NOTIFY",
        "result",
        &[("answered", &notify.answered), ("failed", &notify.failed)],
    )?;
    let transfers = &totals.transfers;
    page.labelled_counters(
        TRANSFERS,
        "Transfers of zones by what they sent",
        "kind",
        &[
            ("whole", &transfers.whole),
            ("differences", &transfers.differences),
            ("current", &transfers.current),
        ],
    )?;
    page.counter(
        FLATTENED,
        "Flattened versions of zones with LUA records",
        totals.flattened.made.load(Ordering::Relaxed),
    )?;
    page.counter(
        FLATTENED_DELAYED,
        "Changes of liveness that waited for the next flattened version",
        totals.flattened.delayed.load(Ordering::Relaxed),
    )?;
    let refreshes = &totals.secondary;
    page.labelled_counters(
        REFRESHES,
        "Questions to the primaries of secondary zones",
        "result",
        &[
            ("current", &refreshes.current),
            ("transferred", &refreshes.transferred),
            ("failed", &refreshes.failed),
        ],
    )?;
    page.gauge(
        EXPIRED,
        "Secondary zones that have expired",
        float(refreshes.expired.load(Ordering::Relaxed)),
    )
}

fn of_catalogs(page: &mut Page<'_, '_>, views: &catalogs::Views) -> fmt::Result {
    let roles = [("consumer", true), ("producer", false)];
    let zones = roles.map(|(role, is_read)| {
        let its = views.iter().filter(|view| view.is_read == is_read);
        let zones: usize = its.map(|view| view.members).sum();
        (labels(&[("role", role)]), float(zones as u64))
    });
    page.gauges(
        CATALOG_ZONES,
        "Zones that are served from catalogs, or that catalogs of this server list",
        zones.into(),
    )?;
    let conflicts: usize = views.iter().map(|view| view.n_conflicts).sum();
    page.gauge(
        CATALOG_CONFLICTS,
        "Zones that a catalog lists and that are not served from it",
        float(conflicts as u64),
    )?;
    let broken = views.iter().filter(|view| view.error.is_some()).count();
    page.gauge(
        BROKEN_CATALOGS,
        "Catalogs whose newest version is broken and changes nothing",
        float(broken as u64),
    )
}

fn zones(page: &mut Page<'_, '_>, reports: &Reports) -> fmt::Result {
    let states = [
        ZoneState::Loaded,
        ZoneState::Stale,
        ZoneState::Failed,
        ZoneState::Held,
        ZoneState::Loading,
    ];
    let states = states.map(|state| {
        let zones = reports.zones.iter();
        let count = zones.filter(|zone| zone.state == state).count();
        (labels(&[("state", state.name())]), float(count as u64))
    });
    page.gauges(ZONES, "Zones by the state of their files", states.into())?;
    let loads = [
        ("running", reports.loads.running.len()),
        ("waiting", reports.loads.waiting),
    ];
    let loads = loads.map(|(stage, count)| (labels(&[("stage", stage)]), float(count as u64)));
    page.gauges(LOADING_ZONES, "Zones that are being loaded", loads.into())?;
    if reports.zones.len() > SINGLE_ZONES {
        return Ok(());
    }
    let named = |zone: &ZoneReport| vec![("zone", zone.name.to_string())];
    let gauges: [Reading<f64>; 4] = [
        (ZONE_SERIAL, "Serial in service", |zone| {
            f64::from(zone.serial)
        }),
        (ZONE_RECORDS, "Records in service", |zone| {
            float(zone.records as u64)
        }),
        (ZONE_LOAD, "Duration of the last load", |zone| {
            zone.took.as_secs_f64()
        }),
        (
            ZONE_LEFT_OUT,
            "Records left out because something in them is unknown",
            |zone| float(zone.left_out.count as u64),
        ),
    ];
    for (name, help, value) in gauges {
        let zones = reports.zones.iter();
        let values = zones.map(|zone| (named(zone), value(zone)));
        page.gauges(name, help, values.collect())?;
    }
    let counters: [Reading<u64>; 2] = [
        (ZONE_LOADS, "Loads", |zone| zone.n_loads),
        (
            ZONE_REFUSED,
            "Loads refused because of broken files",
            |zone| zone.n_refused,
        ),
    ];
    for (name, help, value) in counters {
        let zones = reports.zones.iter();
        let values = zones.map(|zone| (named(zone), value(zone)));
        page.counters(name, help, values.collect())?;
    }
    Ok(())
}

fn live(page: &mut Page<'_, '_>, reports: &Reports) -> fmt::Result {
    let kinds = [
        (Some(Certainty::Known), "known"),
        (Some(Certainty::AllDown), "all-down"),
        (Some(Certainty::Unknown), "unknown"),
        (None, "failed"),
    ];
    let sets = kinds.map(|(certainty, name)| {
        let sets = reports.zones.iter().flat_map(|zone| &zone.live);
        let count = sets.filter(|set| set.certainty == certainty).count();
        (labels(&[("certainty", name)]), float(count as u64))
    });
    page.gauges(LIVE_SETS, "Live sets by certainty", sets.into())
}

fn health(page: &mut Page<'_, '_>, reports: &Reports, link: &Link) -> fmt::Result {
    let targets = float(reports.n_targets as u64);
    page.gauge(TARGETS, "Targets in the list for healthd", targets)?;
    let state = link.state();
    let connected = state.as_ref().is_some_and(|state| state.connected);
    let connected = f64::from(u8::from(connected));
    page.gauge(HEALTH_CONNECTED, "Whether healthd is connected", connected)?;
    let stands_in = f64::from(u8::from(link.current().stands_in));
    let help = "Whether dns-authd probes the targets itself, because healthd is away";
    page.gauge(HEALTH_STAND_IN, help, stands_in)?;
    match link.age() {
        Some(age) => page.gauge(
            HEALTH_AGE,
            "How old what is known of targets may be",
            age.as_secs_f64(),
        ),
        None => Ok(()),
    }
}

/// The names of a cluster; nothing without them.
fn cluster(page: &mut Page<'_, '_>, link: &ClusterLink, findings: &Findings) -> fmt::Result {
    let Some(state) = link.state() else {
        return Ok(());
    };
    let connected = f64::from(u8::from(state.connected));
    page.gauge(
        CLUSTER_CONNECTED,
        "Whether clusterd is connected",
        connected,
    )?;
    page.gauge(
        CLUSTER_GENERATION,
        "Generation of the last snapshot of the cluster",
        float(link.current().generation),
    )?;
    let states = [
        ("served", findings.hostnames),
        ("refused", findings.n_refused),
    ];
    let states = states.map(|(state, count)| (labels(&[("state", state)]), float(count as u64)));
    page.gauges(
        CLUSTER_HOSTNAMES,
        "Names that Services ask for by annotations",
        states.into(),
    )?;
    let states = [("probed", findings.probed), ("unprobed", findings.unprobed)];
    let states = states.map(|(state, count)| (labels(&[("state", state)]), float(count as u64)));
    page.gauges(
        CLUSTER_ENDPOINTS,
        "Endpoints of the Services whose endpoints healthd probes",
        states.into(),
    )?;
    match link.age() {
        Some(age) => page.gauge(
            CLUSTER_AGE,
            "How old what is known of the cluster may be",
            age.as_secs_f64(),
        ),
        None => Ok(()),
    }
}

/// A metric of a zone: name, help and value.
type Reading<T> = (&'static str, &'static str, fn(&ZoneReport) -> T);
