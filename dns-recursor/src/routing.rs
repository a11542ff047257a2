//! The routes in force: those of the configuration, and those of the cluster.
//!
//! Either side changes by itself; both changes pass through here one after the other, and each adopts the whole.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use daemon::latest::Latest;
use daemon::readiness::Readiness;
use dns_cache::cache::Cache;
use dns_front::front::View;
use dns_resolve::forward::Table;
use dns_resolve::resolver::Settings;
use dns_serve::rate::RateLimits;
use dns_wire::Name;
use query_watch::Watch;
use tokio::sync::Mutex;

use crate::cache_file::still_holds;
use crate::config::{Config, Followed, Learned};
use crate::driver::{Adopter, Plan};
use crate::healthd::Healthd;
use crate::load;
use crate::server::Snapshot;

/// The routes in force, and everything that follows from them.
#[derive(Debug)]
pub struct Routing {
    driver: Adopter,
    health: Arc<Healthd>,
    cell: Arc<Latest<Snapshot>>,
    cache: Arc<Cache>,
    limits: RateLimits,
    watch: Watch,
    readiness: Readiness,
    /// The addresses of this server.
    listening: Vec<SocketAddr>,
    learned: Arc<Latest<Learned>>,
    /// The trust anchors of zones whose keys are followed.
    followed: Arc<Latest<Followed>>,
    /// The zones of what was learned that are in force.
    joining: Arc<Latest<BTreeSet<Name>>>,
    /// The configuration without what was learned; held while another one is adopted.
    written: Mutex<Config>,
}

/// The parts that take up other routes.
#[derive(Debug)]
pub struct Parts {
    /// The resolver.
    pub driver: Adopter,
    /// The link to healthd.
    pub health: Arc<Healthd>,
    /// The snapshot that threads work by.
    pub cell: Arc<Latest<Snapshot>>,
    /// The cache.
    pub cache: Arc<Cache>,
    /// The limits of responses.
    pub limits: RateLimits,
    /// The query log.
    pub watch: Watch,
    /// Readiness.
    pub readiness: Readiness,
    /// The trust anchors of zones whose keys are followed, which are in force.
    pub followed: Followed,
}

impl Routing {
    /// The routes of a configuration, which is in force.
    #[must_use]
    pub fn new(parts: Parts, written: Config, listening: Vec<SocketAddr>) -> Self {
        let Parts {
            driver,
            health,
            cell,
            cache,
            limits,
            watch,
            readiness,
            followed,
        } = parts;
        Self {
            driver,
            health,
            cell,
            cache,
            limits,
            watch,
            readiness,
            listening,
            learned: Latest::new(Learned::default()),
            followed: Latest::new(followed),
            joining: Latest::new(BTreeSet::new()),
            written: Mutex::new(written),
        }
    }

    /// The addresses of this server.
    #[must_use]
    pub fn listening(&self) -> &[SocketAddr] {
        &self.listening
    }

    /// The part that the cluster has.
    #[must_use]
    pub fn learned(&self) -> Arc<Latest<Learned>> {
        Arc::clone(&self.learned)
    }

    /// The zones in force that were learned.
    #[must_use]
    pub fn joining(&self) -> Arc<BTreeSet<Name>> {
        self.joining.current()
    }

    /// Whether a zone in force was learned.
    #[must_use]
    pub fn is_learned(&self, zone: &Name) -> bool {
        self.joining.current().contains(zone)
    }

    /// Adopts another configuration; returns the number of cached answers that hold no more.
    pub async fn write(&self, config: Config, followed: Followed) -> usize {
        let mut written = self.written.lock().await;
        self.followed.publish(followed);
        *written = config;
        self.adopt(&written).await
    }

    /// Adopts another part of the cluster; returns the number of cached answers that hold no more.
    pub async fn learn(&self, learned: Learned) -> usize {
        let written = self.written.lock().await;
        self.learned.publish(learned);
        self.adopt(&written).await
    }

    /// Adopts other trust anchors of zones whose keys are followed; returns the number of cached answers that hold no more.
    pub async fn follow(&self, followed: Followed) -> usize {
        let written = self.written.lock().await;
        self.followed.publish(followed);
        self.adopt(&written).await
    }

    async fn adopt(&self, config: &Config) -> usize {
        let learned = self.learned.current();
        let table = Arc::new(config.table_with(&learned, &self.followed.current()));
        let joining = config.joining(&learned);
        self.joining
            .publish(joining.map(|forward| forward.zone.clone()).collect());
        let plan = plan(config, &learned, &table, &self.listening);
        self.driver.adopt(plan).await;
        self.health.adopt(&table);
        self.watch.adopt(config.query_log(&learned));
        note_forwards(&self.readiness, &table);
        let before = self.cell.current();
        self.cell.publish(snapshot(config, &table, &self.limits));
        self.drop_stale(&before.view.table, &table, config)
    }

    /// Drops the cached answers that other upstreams may answer otherwise.
    fn drop_stale(&self, before: &Table, table: &Table, config: &Config) -> usize {
        let local = config.local();
        self.cache
            .retain(|message| still_holds(message, before, table, &local))
    }
}

/// A server that forwards nothing answers nothing but its local names: it is not ready.
pub(crate) fn note_forwards(readiness: &Readiness, table: &Table) {
    let reason = "no zone is forwarded: every name but local ones is SERVFAIL";
    readiness.set_unready("forward", table.is_empty().then(|| reason.to_owned()));
}

/// The resolver's settings, given the addresses that this server listens on.
pub(crate) fn plan(
    config: &Config,
    learned: &Learned,
    table: &Arc<Table>,
    listening: &[SocketAddr],
) -> Plan {
    let mut file = config.file.clone();
    if let Some((positive, negative)) = learned.max_ttls {
        let cache = &mut file.cache;
        cache.max_ttl = cache.max_ttl.min(positive);
        cache.negative_max_ttl = cache.negative_max_ttl.min(negative);
    }
    Plan {
        settings: Settings::of(&file),
        table: Arc::clone(table),
        local: Arc::new(config.local()),
        own_addresses: load::own_addresses(listening)
            .and_barred(config.file.recursion.dont_query.0.clone()),
        recheck: *config.file.cache.failure_ttl,
        stale_ttl: config.file.stale.ttl.0,
        source: config.source,
        servers: config.servers_with(learned),
    }
}

/// The snapshot that threads work by.
pub(crate) fn snapshot(config: &Config, table: &Arc<Table>, limits: &RateLimits) -> Snapshot {
    Snapshot {
        view: Arc::new(View {
            table: Arc::clone(table),
            local: config.local(),
            outsiders: config.file.outsiders,
            stale_ttl: config.file.stale.ttl.0,
            prefetch: config.file.cache.prefetch,
            cookies: config.cookies.clone(),
            nocookie_limit: config.file.cookies.nocookie_udp_size.get().into(),
            dns64: config.dns64.clone(),
            rewrites: Arc::clone(&config.rewrites),
        }),
        allow: config.allow.networks(),
        notify: config.file.notify_from.0.clone(),
        limit: limits.of(&config.file.rate_limit),
    }
}
