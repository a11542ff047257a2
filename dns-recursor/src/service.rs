//! The life of the process: starts the parts of the server in order, and ends them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::config::Address;
use ::config::dns_recursor::{DnsRecursor, LISTEN, Tls};
use api::dns_recursor::Detail;
use daemon::config::{Common, Problems};
use daemon::exit;
use daemon::latest::Latest;
use daemon::listen::{self, Inherited, ListenError, UdpOptions};
use daemon::run::{Context, Service, StartError};
use daemon::tls::Certificates;
use daemon::udp::{self, Engine, EngineOptions};
use dns_cache::cache::{Cache, CacheOptions};
use dns_cache::key::Seed;
use dns_resolve::exchange::Entropy as _;
use dns_resolve::forward::Table;
use dns_serve::{Counters, DOQ, DOT, HTTPS_PROTOCOLS, Listeners, Protocol, Site, Streams};
use parking_lot::Mutex;
use query_watch::Watch;
use rustix::io::Errno;
use tokio::task::JoinHandle;

use crate::anchors::{Following, ManagedKeys};
use crate::cache_file::FollowedFile;
use crate::clock::Clock;
use crate::config::{Allow, Config, Learned, certificate};
use crate::driver;
use crate::entropy::SystemEntropy;
use crate::healthd::Healthd;
use crate::learned::Follower;
use crate::metrics::Scrape;
use crate::names::FollowedNames;
use crate::own_health::OwnHealth;
use crate::routing::{self, Routing, note_forwards, plan, snapshot};
use crate::server::{Resources, Responder, Snapshot};
use crate::status::Report;
use crate::totals::Totals;
use crate::{explain, load, routes, self_check, tcp};

/// The name of the DNS sockets among inherited ones.
const SOCKETS: &str = "dns";
/// The name of the sockets of DNS over TLS.
const TLS_SOCKETS: &str = "dns-tls";
/// The name of those of DNS over HTTPS.
const HTTPS_SOCKETS: &str = "dns-https";
/// The name of those of DNS over QUIC.
const QUIC_SOCKETS: &str = "dns-quic";
/// The interval of lookups of the node's own networks, for the default of `allow-from`.
const NETWORKS_LOOK: Duration = Duration::from_secs(60);
/// The interval of checks of the certificate's files.
const CERTIFICATE_LOOK: Duration = match cfg!(test) {
    true => Duration::from_millis(5),
    false => Duration::from_secs(60),
};
/// The interval of checks for open connections while draining.
const DRAIN_POLL: Duration = Duration::from_millis(10);

/// A running dns-recursor.
#[derive(Debug)]
pub struct Recursor {
    engine: Engine,
    streams: Streams,
    connections: Counters,
    driver: driver::Handle,
    cell: Arc<Latest<Snapshot>>,
    cache: Arc<Cache>,
    totals: Totals,
    clock: Clock,
    health: Arc<Healthd>,
    watch: Watch,
    routing: Arc<Routing>,
    /// The zones whose keys are followed.
    managed_keys: Arc<ManagedKeys>,
    asking: Option<Following>,
    /// The forwards of the cluster.
    learner: Option<Follower>,
    names: FollowedNames,
    networks: JoinHandle<()>,
    /// The cache on disk.
    file: Option<FollowedFile>,
    /// Reads the certificate again when its files change.
    following: Option<JoinHandle<()>>,
    allow: Arc<Mutex<Allow>>,
    /// The addresses of the UDP sockets.
    addresses: Vec<SocketAddr>,
    certificates: Option<Certificates>,
    /// How long it keeps answering when it stops.
    lameduck: Mutex<Duration>,
    /// Whether the sockets stay open when it ends.
    is_inherited: bool,
    own_health: OwnHealth,
}

impl Service for Recursor {
    const NAME: &'static str = "dns-recursor";
    type Config = Config;
    type Status = Detail;
    type File = DnsRecursor;

    fn common(config: &Config) -> &Common {
        &config.common
    }

    fn file(config: &Config) -> &DnsRecursor {
        &config.file
    }

    fn warnings(config: &Config) -> Vec<String> {
        config.warnings.iter().map(ToString::to_string).collect()
    }

    #[expect(
        clippy::too_many_lines,
        reason = "the order of the parts, in one place"
    )]
    async fn start(mut config: Config, context: &mut Context) -> Result<Self, StartError> {
        let sockets = Sockets::open(&config, context)?;
        load::forwards_to_itself(&config, &sockets.addresses).unless_empty(())?;
        let (clock, mut entropy) = (Clock::start(), SystemEntropy::default());
        let cache = empty_cache(&config, &mut entropy);
        let totals = Totals::default();
        let watch = Watch::start(&config.file, move || clock.now().as_millis() / 1000)
            .map_err(|error| StartError::io("query log does not start", &error))?;
        let names = start_names(&mut config);
        let managed_keys =
            ManagedKeys::open(&config.managed, clock, context.readiness.clone()).await?;
        let followed = managed_keys.followed();
        let table = Arc::new(config.table_with(&Learned::default(), &followed));
        let parts = driver::Resources {
            cache: Arc::clone(&cache),
            clock,
            names: names.shared().cell(),
            totals: totals.clone(),
            watch: watch.clone(),
            readiness: context.readiness.clone(),
        };
        let driver = start_driver(parts, &config, &table, &sockets.addresses)?;
        let cell = Latest::new(snapshot(&config, &table, &totals.limits));
        // Before the first query: a name that was known before the restart is known at once.
        let settings = &config.file.cache;
        let file = FollowedFile::start(settings, &cache, clock, &cell, entropy.next()).await?;
        let resources = Resources {
            cell: Arc::clone(&cell),
            names: names.shared().cell(),
            cache: Arc::clone(&cache),
            clock,
            questions: driver.questions(),
            notices: driver.notices(),
            totals: totals.clone(),
            watch: watch.clone(),
        };
        let tcp = tcp::start(sockets.streams, config.file.tcp, &resources, context);
        let (streams, connections) = tcp.map_err(|it| StartError::io("TCP does not start", &it))?;
        let engine = start_engine(sockets.udp, config.threads(), &resources)?;
        let health = start_health(&config, &table, &names, &driver);
        let allow = Arc::new(Mutex::new(config.allow.clone()));
        note_forwards(&context.readiness, &table);
        let lameduck = config.file.lameduck.0;
        let parts = routing::Parts {
            driver: driver.adopter(),
            health: Arc::clone(&health),
            cell: Arc::clone(&cell),
            cache: Arc::clone(&cache),
            limits: totals.limits.clone(),
            watch: watch.clone(),
            readiness: context.readiness.clone(),
            followed,
        };
        let (routing, learner) = start_routing(parts, config, &sockets.addresses).await;
        let recursor = Self {
            asking: managed_keys.start(driver.jobs().downgrade(), &routing),
            managed_keys,
            routing,
            learner,
            file,
            following: follow_certificate(sockets.certificates.as_ref(), context),
            networks: tokio::spawn(follow_networks(Arc::clone(&cell), Arc::clone(&allow))),
            engine,
            streams,
            connections,
            own_health: OwnHealth::start(driver.echo()),
            driver,
            cell,
            cache,
            totals,
            clock,
            health,
            watch,
            names,
            allow,
            addresses: sockets.addresses,
            certificates: sockets.certificates,
            lameduck: Mutex::new(lameduck),
            is_inherited: sockets.is_inherited,
        };
        recursor.show(context);
        Ok(recursor)
    }

    async fn reload(&self, mut config: Config) -> Result<String, Problems> {
        load::forwards_to_itself(&config, &self.addresses).unless_empty(())?;
        load::certificate(&config).unless_empty(())?;
        if let Some(certificates) = &self.certificates {
            certificates.reload();
        }
        let contents = std::mem::take(&mut config.contents);
        self.names.adopt(config.names.clone(), contents);
        let allow = config.allow.clone();
        *self.allow.lock() = allow;
        *self.lameduck.lock() = config.file.lameduck.0;
        let summary = config.summary();
        let followed = self.managed_keys.adopt(&config.managed);
        let n_dropped = self.routing.write(config, followed).await;
        Ok(format!("{summary}; {n_dropped} cached answers dropped"))
    }

    fn status(&self) -> Detail {
        let snapshot = self.cell.current();
        let learned = self.routing.learned().current();
        let report = Report {
            sum: self.totals.sum(),
            usage: self.cache.usage(),
            observed: self.driver.observed().lock().clone(),
            table: &snapshot.view.table,
            joining: &self.routing.joining(),
            cluster: self
                .learner
                .as_ref()
                .and_then(|learner| learner.status(&learned)),
            healthd: self.health.link().state().map(|state| state.connected),
            file: self.file.as_ref().map(FollowedFile::report),
            names: self.names.shared().report(),
            watch: self.watch.report(),
            managed: self.managed_keys.report(),
            now: self.clock.now(),
        };
        report.detail()
    }

    async fn drain(self, deadline: Duration) -> bool {
        let lameduck = match self.is_inherited {
            true => Duration::ZERO,
            false => (*self.lameduck.lock()).min(deadline),
        };
        if !lameduck.is_zero() {
            tracing::info!(?lameduck, "Answering on for a while");
            tokio::time::sleep(lameduck).await;
        }
        let deadline = deadline.saturating_sub(lameduck);
        self.networks.abort();
        drop(self.learner);
        drop(self.asking);
        if let Some(following) = &self.following {
            following.abort();
        }
        if let Some(file) = &self.file {
            file.stop();
        }
        // Threads answer the queries that they have read, or pass them to the resolver; connections end
        // when their last answer is written.
        self.streams.ask_to_stop();
        let engine = self.engine;
        let stopped = tokio::task::spawn_blocking(move || engine.stop()).await;
        let ended = tokio::time::timeout(deadline, async {
            self.driver.wait_until_idle().await;
            while !self.streams.is_finished() {
                tokio::time::sleep(DRAIN_POLL).await;
            }
        });
        let is_drained = ended.await.is_ok();
        let (driver, file, watch) = (self.driver, self.file, self.watch);
        let joined = tokio::task::spawn_blocking(move || {
            drop(driver);
            watch.stop();
            if let Some(file) = file {
                file.save();
            }
        })
        .await;
        stopped.is_ok() && joined.is_ok() && is_drained
    }
}

impl Recursor {
    /// Adds metrics, heartbeats and paths to the admin listener.
    fn show(&self, context: &Context) {
        // A thread that sleeps must not keep an old snapshot.
        let waker = self.engine.waker();
        self.cell.on_publish(move || waker.wake());
        let waker = self.engine.waker();
        self.names.shared().cell().on_publish(move || waker.wake());
        context.progress.register_all(self.engine.heartbeats());
        context.progress.register_all(self.driver.heartbeats());
        let counters = udp::Collector::new("dns_recursor", self.engine.counters());
        context.metrics.register_collector(counters);
        let first = self.addresses.first();
        context.metrics.register_collector(Box::new(Scrape {
            totals: self.totals.clone(),
            cache: Arc::clone(&self.cache),
            observed: self.driver.observed(),
            connections: self.connections.clone(),
            own_health: self.own_health.seen(),
            link: self.health.link().clone(),
            names: self.names.shared(),
            watch: self.watch.clone(),
            managed_keys: Arc::clone(&self.managed_keys),
            server: first.map_or_else(String::new, |address| format!("dns://{address}")),
        }));
        routes::add(&context.admin, &self.cache, self.clock);
        self.watch.add_routes(&context.admin);
        explain::add(
            &context.admin,
            &explain::Sources {
                cell: Arc::clone(&self.cell),
                names: self.names.shared().cell(),
                cache: Arc::clone(&self.cache),
                observed: self.driver.observed(),
                clock: self.clock,
                routing: Arc::clone(&self.routing),
            },
        );
        // The resolver ends when the last sender of questions is dropped.
        let (cell, jobs, clock) = (Arc::clone(&self.cell), self.driver.jobs(), self.clock);
        let jobs = jobs.downgrade();
        context.admin.self_check(move || {
            let (snapshot, jobs) = (cell.current(), jobs.upgrade());
            async move {
                let jobs = jobs.ok_or("the resolver has ended")?;
                self_check::run(&snapshot.view.table, &jobs, clock).await
            }
        });
    }
}

/// Starts the thread that asks upstreams.
fn start_driver(
    parts: driver::Resources,
    config: &Config,
    table: &Arc<Table>,
    addresses: &[SocketAddr],
) -> Result<driver::Handle, StartError> {
    let plan = plan(config, &Learned::default(), table, addresses);
    driver::Handle::start(parts, &plan)
        .map_err(|error| StartError::io("resolver does not start", &error))
}

/// Begins to watch upstreams and names, if there is a healthd.
fn empty_cache(config: &Config, entropy: &mut SystemEntropy) -> Arc<Cache> {
    let options = CacheOptions::of(&config.file.cache, &config.file.stale);
    Arc::new(Cache::new(&options, Seed(entropy.next())))
}

fn start_names(config: &mut Config) -> FollowedNames {
    let contents = std::mem::take(&mut config.contents);
    FollowedNames::start(config.names.clone(), contents)
}

fn start_health(
    config: &Config,
    table: &Table,
    names: &FollowedNames,
    driver: &driver::Handle,
) -> Arc<Healthd> {
    let endpoint = config.file.health.endpoint.0.clone();
    let (name, shared) = (Recursor::NAME, names.shared());
    Arc::new(Healthd::start(
        endpoint,
        name,
        table,
        shared,
        driver.reporter(),
    ))
}

/// Begins to follow the cluster, if the configuration says so; its forwards are in force before this returns, if clusterd has them.
async fn start_routing(
    parts: routing::Parts,
    config: Config,
    addresses: &[SocketAddr],
) -> (Arc<Routing>, Option<Follower>) {
    tracing::info!("Forwarding: {}", config.summary());
    let (cluster, readiness) = (config.file.cluster.clone(), parts.readiness.clone());
    let routing = Arc::new(Routing::new(parts, config, addresses.to_vec()));
    let learner = match cluster {
        Some(cluster) => {
            let name = Recursor::NAME;
            Some(Follower::start(&cluster, name, &routing, readiness).await)
        }
        None => None,
    };
    (routing, learner)
}

/// Reads the certificate again when its files change.
fn follow_certificate(
    certificates: Option<&Certificates>,
    context: &Context,
) -> Option<JoinHandle<()>> {
    let certificates = certificates?.clone();
    context
        .expiries
        .set("clients", Arc::new(certificates.clone()));
    Some(tokio::spawn(certificates.follow_every(CERTIFICATE_LOOK)))
}

/// Starts the threads that answer datagrams.
fn start_engine(
    sockets: Vec<std::net::UdpSocket>,
    threads: usize,
    resources: &Resources,
) -> Result<Engine, StartError> {
    let options = EngineOptions {
        name: "dns",
        ..EngineOptions::default()
    };
    Engine::start(sockets, threads, options, |_| Responder::new(resources))
        .map_err(|error| StartError::io("UDP does not start", &error))
}

/// Looks up the node's networks at intervals, when the access list depends on them.
async fn follow_networks(cell: Arc<Latest<Snapshot>>, allow: Arc<Mutex<Allow>>) {
    loop {
        tokio::time::sleep(NETWORKS_LOOK).await;
        let allow = allow.lock().clone();
        let networks = allow.networks();
        let current = cell.current();
        if networks != current.allow {
            tracing::info!(allow_from = %networks, "The networks of this node have changed");
            cell.publish(Snapshot {
                view: Arc::clone(&current.view),
                allow: networks,
                notify: current.notify.clone(),
                limit: current.limit.clone(),
            });
        }
    }
}

/// The sockets that receive queries.
struct Sockets {
    udp: Vec<std::net::UdpSocket>,
    streams: Listeners,
    /// The addresses of the UDP sockets.
    addresses: Vec<SocketAddr>,
    certificates: Option<Certificates>,
    /// Whether systemd holds them too.
    is_inherited: bool,
}

impl Sockets {
    fn open(config: &Config, context: &mut Context) -> Result<Self, StartError> {
        let options = UdpOptions {
            per_address: config.threads(),
            ..UdpOptions::default()
        };
        let inherited = &mut context.inherited;
        let is_inherited = inherited.has(SOCKETS);
        let udp = open_what_there_is(&config.listen(), |listen| {
            listen::udp(inherited, SOCKETS, listen, options)
        })?;
        // With port 0, TCP listens on the port that UDP got.
        let mut addresses = Vec::new();
        for socket in &udp {
            let address = socket.local_addr()?;
            if !addresses.contains(&address) {
                tracing::info!(%address, "Listening");
                addresses.push(address);
            }
        }
        let tcp = listen::tcp(inherited, SOCKETS, &addresses)?;
        let plain = tcp.into_iter().map(|listener| (listener, Protocol::Plain));
        let mut streams = Listeners {
            tcp: plain.collect(),
            ..Listeners::default()
        };
        let encrypted = config.file.tls.as_ref();
        let encrypted = encrypted.map(|tls| open_encrypted(tls, inherited, &mut streams));
        let certificates = encrypted.transpose()?;
        Ok(Self {
            udp,
            streams,
            addresses,
            certificates,
            is_inherited,
        })
    }
}

/// Opens the listeners of encrypted transports, and adds each with its protocol; gives the certificates that they show.
fn open_encrypted(
    tls: &Tls,
    inherited: &mut Inherited,
    streams: &mut Listeners,
) -> Result<Certificates, StartError> {
    let certificates = Certificates::read(&[certificate(tls)])
        .map_err(|error| StartError::new(exit::CONFIG, error))?;
    let config = |protocols: &[&[u8]]| match certificates.server_config(protocols) {
        Ok(config) => Ok(Arc::new(config)),
        Err(error) => Err(StartError::new(exit::CONFIG, error)),
    };
    let addresses = |listed: &[Address]| -> Vec<SocketAddr> {
        listed.iter().map(|address| address.0).collect()
    };
    let dot = Protocol::Tls(config(&[DOT])?.into());
    for listener in listen::tcp(inherited, TLS_SOCKETS, &addresses(&tls.listen))? {
        tracing::info!(address = %listener.local_addr()?, "Listening (TLS)");
        streams.tcp.push((listener, dot.clone()));
    }
    let doh = Protocol::Https(Site {
        tls: config(&HTTPS_PROTOCOLS)?.into(),
        path: tls.doh_path.as_str().into(),
    });
    for listener in listen::tcp(inherited, HTTPS_SOCKETS, &addresses(&tls.doh))? {
        tracing::info!(address = %listener.local_addr()?, "Listening (HTTPS)");
        streams.tcp.push((listener, doh.clone()));
    }
    let quic = config(&[DOQ])?;
    let options = UdpOptions::default();
    for socket in listen::udp(inherited, QUIC_SOCKETS, &addresses(&tls.doq), options)? {
        tracing::info!(address = %socket.local_addr()?, "Listening (QUIC)");
        streams.quic.push((socket, Arc::clone(&quic)));
    }
    Ok(certificates)
}

/// Opens all listeners. When the operator chose no addresses and the kernel has no IPv6 (`ipv6.disable=1`),
/// opens those of IPv4 only.
fn open_what_there_is<T>(
    listen: &[SocketAddr],
    mut open: impl FnMut(&[SocketAddr]) -> Result<T, ListenError>,
) -> Result<T, ListenError> {
    let is_unknown = |error: &ListenError| {
        error.address.is_ipv6()
            && error.source.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error())
    };
    match open(listen) {
        Err(error) if listen == LISTEN && is_unknown(&error) => {
            tracing::warn!("The kernel has no IPv6: listening on IPv4 only");
            let of_ipv4: Vec<SocketAddr> =
                listen.iter().copied().filter(SocketAddr::is_ipv4).collect();
            open(&of_ipv4)
        }
        opened => opened,
    }
}

#[cfg(test)]
mod tests;
