//! Starts the parts of the server in order, reloads them, and ends them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ::config::Address;
use ::config::dns_authd::{DnsAuthd, Tls};
use api::dns_authd::Detail;
use daemon::config::{Common, Problem, Problems};
use daemon::exit;
use daemon::expiry::Expiries;
use daemon::latest::Latest;
use daemon::listen::{self, UdpOptions};
use daemon::random;
use daemon::run::{Context, Predecessor, Service, StartError};
use daemon::tls::{CertificateError, Certificates};
use daemon::udp::{self, Engine};
use dns_answer::Snapshot;
use dns_answer::table::Table;
use dns_catalog::Members;
use dns_cluster::nodes::{self, Follower};
use dns_serve::rate::RateLimit;
use dns_serve::{DOQ, DOT, HTTPS_PROTOCOLS, Protocol, Service as _, Site};
use dns_wire::hash::Seed;
use proto::health::Watched;
use proto::link::Link;
use stand_in::StandIn;
use tokio::sync::{oneshot, watch};

use crate::access::Access;
use crate::config::{Config, certificate};
use crate::hold::Hold;
use crate::metrics::{Scrape, Totals};
use crate::publisher::{self, Channels, Command, Plan, Reports, Starting};
use crate::reload::{self, Pace};
use crate::server::WorkerParts;
use crate::shared::Shared;
use crate::updates::Updates;
use crate::{catalogs, explain, health, routes, secondary, self_check, server, status};
use dns_primary::histories::Histories;
use dns_primary::notify::Notify;
use dns_primary::transfers::Transfers;
use dns_primary::{flattening, notify};

/// The name of the DNS sockets among inherited ones.
const SOCKETS: &str = "dns";
/// The longest wait for the first names of the cluster before another process hands its sockets over.
const FIRST_NAMES: Duration = Duration::from_secs(5);
/// The interval of checks for open connections while draining.
const DRAIN_POLL: Duration = Duration::from_millis(10);

/// A running dns-authd.
#[derive(Debug)]
pub struct Authd {
    engine: Engine,
    /// The thread of queries that wait. It ends after those of the engine, when every query has its answer.
    waiting: JoinHandle<()>,
    streams: Streams,
    stock: Stock,
    totals: Totals,
    access: Arc<Latest<Access>>,
    limit: Arc<Latest<Option<RateLimit>>>,
    notify: watch::Sender<Arc<Notify>>,
    secondaries: secondary::Handle,
    catalogs: catalogs::Handle,
    updates: Updates,
    flattening: Arc<Latest<flattening::Settings>>,
}

/// The published zones, and the threads that update them.
#[derive(Debug)]
struct Stock {
    cell: Arc<Latest<Snapshot>>,
    reports: Arc<Latest<Reports>>,
    histories: Histories,
    publisher: publisher::Handle,
    link: Link,
    stand_in: StandIn,
    kubernetes: dns_cluster::Handle,
    nodes: Follower,
    pace: watch::Sender<Pace>,
}

/// All stream transports.
#[derive(Debug)]
struct Streams {
    running: dns_serve::Streams,
    certificates: Option<Certificates>,
}

impl Service for Authd {
    const NAME: &'static str = "dns-authd";
    type Config = Config;
    type Status = Detail;
    type File = DnsAuthd;

    fn common(config: &Config) -> &Common {
        &config.common
    }

    fn file(config: &Config) -> &DnsAuthd {
        &config.file
    }

    fn warnings(config: &Config) -> Vec<String> {
        config.warnings.iter().map(ToString::to_string).collect()
    }

    async fn start(config: Config, context: &mut Context) -> Result<Self, StartError> {
        let listeners = Listeners::open(&config, context)?;
        let (config, base) = catalogs::begin(config);
        // The zones come first: without them there are no answers.
        let stock = Stock::fill(&config, context).await?;
        let totals = Totals::default();
        let (secondaries, notify) = start_exchanges(&stock, &config, &listeners.udp, &totals)?;
        let catalogs = stock.start_catalogs(&secondaries, context, base);
        let (hold, waiting) = stock.start_hold(&config, &totals)?;
        let access = Latest::new(config.access.clone());
        let limit = Latest::new(totals.limits.of(&config.file.rate_limit));
        let histories = stock.histories.clone();
        let flattening = stock.start_flattening(&config, &context.predecessor, &totals)?;
        let counts = Arc::clone(&totals.transfers);
        let transfers = Transfers::new(&config.file.transfers, histories, counts);
        let updates = Updates::start(
            stock.publisher.sender(),
            &context.predecessor,
            &totals.updates,
        );
        let shared = Shared::new(
            Arc::clone(&stock.cell),
            (
                config.file.tcp,
                transfers,
                secondaries.notified(),
                updates.clone(),
            ),
            config.hold(),
            Arc::clone(&access),
            totals.clone(),
        );
        check_self(context, &shared, &stock.cell);
        let connections = connections(context, &shared, listeners.encrypted.as_ref());
        let streams = Streams::start(
            listeners.tcp,
            listeners.encrypted,
            shared,
            &context.expiries,
        )?;
        let parts = WorkerParts {
            cell: Arc::clone(&stock.cell),
            access: Arc::clone(&access),
            limit: Arc::clone(&limit),
            hold,
            notified: secondaries.notified(),
            updates: updates.clone(),
            histories: stock.histories.clone(),
            totals: totals.clone(),
        };
        let engine = start_engine(listeners.udp, threads(&config.file), &parts, context)?;
        let scrape = stock.scrape(&totals, connections, catalogs.views());
        context.metrics.register_collector(Box::new(scrape));
        stock.add_routes(context, &secondaries, &access);
        Ok(Self {
            engine,
            waiting,
            streams,
            stock,
            totals,
            access,
            limit,
            notify,
            secondaries,
            catalogs,
            updates,
            flattening,
        })
    }

    async fn reload(&self, config: Config) -> Result<String, Problems> {
        // First of all, so that a configuration is adopted as a whole, or not at all.
        self.streams
            .take_certificate(config.file.tls.as_ref())
            .map_err(|error| Problem::new(exit::chain(&error)))?;
        self.stock.pace.send_replace(pace(&config));
        let after = config.file.health.stand_in_after.get();
        self.stock.stand_in.set_after(after);
        self.access.publish(config.access.clone());
        self.limit
            .publish(self.totals.limits.of(&config.file.rate_limit));
        self.notify.send_replace(Arc::new(config.notify.clone()));
        self.flattening.publish(flattening(&config));
        // The lists come before the zones that name them.
        self.stock.nodes.configure(node_settings(&config));
        let cluster = cluster_settings(&config);
        let summary = self.catalogs.adopt(config).await;
        self.stock.kubernetes.configure(cluster);
        Ok(summary)
    }

    fn status(&self) -> Detail {
        let detail = status::detail(
            &self.stock.reports.current(),
            &self.secondaries.views().current(),
            &self.catalogs.views().current(),
            &self.totals,
            &self.stock.link,
            (
                &self.stock.kubernetes.link().current(),
                &self.stock.kubernetes.findings().current(),
            ),
        );
        Detail {
            nodes: self.stock.nodes.status(),
            ..detail
        }
    }

    async fn drain(self, deadline: Duration) -> bool {
        // UDP answers the queued queries and ends, and then the waiting ones; connections end when they
        // have nothing to answer. The publisher continues until then: it publishes the snapshots that those
        // wait for.
        self.engine.ask_to_stop();
        self.streams.running.ask_to_stop();
        let ended = tokio::time::timeout(deadline, async {
            while !(self.streams.running.is_finished() && self.waiting.is_finished()) {
                tokio::time::sleep(DRAIN_POLL).await;
            }
        });
        let is_drained = ended.await.is_ok();
        let (engine, publisher) = (self.engine, self.stock.publisher);
        let stopped = tokio::task::spawn_blocking(move || engine.stop()).await;
        // The last datagrams may have brought updates, which the publisher carries out.
        let answered = tokio::time::timeout(deadline, async {
            while !self.updates.is_idle() {
                tokio::time::sleep(DRAIN_POLL).await;
            }
        });
        let is_answered = answered.await.is_ok();
        let ended = tokio::task::spawn_blocking(move || publisher.stop()).await;
        stopped.is_ok() && ended.is_ok() && is_drained && is_answered
    }
}

/// Wakes the threads for every new value: one that sleeps must not keep an old one.
fn wake_for<T: Send + Sync + 'static>(cell: &Latest<T>, engine: &Engine) {
    let waker = engine.waker();
    cell.on_publish(move || waker.wake());
}

/// Lets the process be asked whether it works: it answers a client of its own.
fn check_self(context: &Context, shared: &Arc<Shared>, cell: &Arc<Latest<Snapshot>>) {
    let (shared, cell) = (Arc::clone(shared), Arc::clone(cell));
    context.admin.self_check(move || {
        let checked = self_check::run(&shared, &cell.current());
        async move { checked }
    });
}

impl Stock {
    /// Starts the hold of answers.
    fn start_hold(
        &self,
        config: &Config,
        totals: &Totals,
    ) -> Result<(Hold, JoinHandle<()>), StartError> {
        let (cell, publisher) = (Arc::clone(&self.cell), self.publisher.sender());
        Hold::start(cell, publisher, config.hold(), totals)
            .map_err(|error| StartError::io("hold does not start", &error))
    }

    /// Starts to flatten zones for secondaries that cannot run their programs.
    fn start_flattening(
        &self,
        config: &Config,
        predecessor: &Predecessor,
        totals: &Totals,
    ) -> Result<Arc<Latest<flattening::Settings>>, StartError> {
        let settings = Latest::new(flattening(config));
        let publisher = self.publisher.sender();
        let take = move |zone, flat| publisher.send(Command::Flattened(zone, flat)).is_ok();
        flattening::start(
            &self.cell,
            &settings,
            predecessor,
            &totals.flattened,
            Box::new(take),
        )
        .map_err(|error| StartError::io("flattening of zones does not start", &error))?;
        Ok(settings)
    }

    /// Starts to follow catalogs.
    fn start_catalogs(
        &self,
        secondaries: &secondary::Handle,
        context: &Context,
        base: (Config, Members),
    ) -> catalogs::Handle {
        let publisher = self.publisher.sender();
        catalogs::start(
            (&self.cell, publisher),
            secondaries,
            &context.readiness,
            base,
        )
    }

    /// Adds what operators ask and tell about zones.
    fn add_routes(
        &self,
        context: &Context,
        secondaries: &secondary::Handle,
        access: &Arc<Latest<Access>>,
    ) {
        routes::add(
            &context.admin,
            (&self.cell, &self.histories),
            &self.reports,
            &self.publisher.sender(),
            secondaries,
        );
        explain::add(&context.admin, &self.explained(access));
    }

    /// The sources of explanations.
    fn explained(&self, access: &Arc<Latest<Access>>) -> explain::Sources {
        explain::Sources {
            cell: Arc::clone(&self.cell),
            reports: Arc::clone(&self.reports),
            histories: self.histories.clone(),
            access: Arc::clone(access),
            link: self.link.clone(),
        }
    }

    fn scrape(
        &self,
        totals: &Totals,
        connections: dns_serve::Counters,
        catalogs: &Arc<Latest<catalogs::Views>>,
    ) -> Scrape {
        Scrape {
            catalogs: Arc::clone(catalogs),
            totals: totals.clone(),
            connections,
            reports: Arc::clone(&self.reports),
            link: self.link.clone(),
            cluster: self.kubernetes.link(),
            findings: self.kubernetes.findings(),
        }
    }

    /// Begins to load the zones, and to follow files and healthd. Returns before they are loaded: each answers
    /// when it is. Only while another process answers from the same sockets, it waits for all of them.
    async fn fill(config: &Config, context: &Context) -> Result<Self, StartError> {
        let plan = Plan {
            is_successor: context.predecessor.may_serve(),
            ..Plan::of(config)
        };
        let seed = Seed(random::seed());
        let cell = Latest::new(Snapshot {
            table: Table::new(seed, &[]),
            views: dns_answer::ViewTables::default(),
            settings: plan.answers.clone(),
        });
        let reports = Latest::new(Reports::default());
        let endpoint = config.file.health.endpoint.0.clone();
        let link = Link::start(endpoint, Authd::NAME, Vec::<Watched>::new());
        let (directories, watched) = watch::channel(BTreeSet::new());
        let histories = Histories::default();
        let nodes = Follower::start(Authd::NAME, node_settings(config));
        let channels = Channels {
            histories: histories.clone(),
            nodes: nodes.lists(),
            cell: Arc::clone(&cell),
            reports: Arc::clone(&reports),
            link: link.clone(),
            readiness: context.readiness.clone(),
            directories,
        };
        let (begun, has_begun) = oneshot::channel();
        let (loaded, summary) = oneshot::channel();
        let starting = Starting { begun, loaded };
        let publisher = publisher::Handle::start(channels, plan, seed, starting)
            .map_err(|error| StartError::io("zone publisher does not start", &error))?;
        // It ends before only if the thread has.
        drop(has_begun.await);
        let latch = context.readiness.latch("first load of every zone");
        let loading = tokio::spawn(async move {
            if let Ok(summary) = summary.await {
                tracing::info!("Zones are loaded: {summary}");
            }
            latch.release();
        });
        health::follow_both(&link, &nodes.lists(), &publisher.sender());
        let after = config.file.health.stand_in_after.get();
        let stand_in = StandIn::start(Authd::NAME, &link, after, context.readiness.clone());
        let renderings = publisher.sender();
        let kubernetes = dns_cluster::start(
            cluster_settings(config),
            seed,
            move |rendered| renderings.send(Command::Cluster(rendered)).is_ok(),
            (link.clone(), context.readiness.clone()),
        )
        .map_err(|error| StartError::io("thread of cluster names does not start", &error))?;
        let (pace, paces) = watch::channel(pace(config));
        reload::watch(paces, watched, publisher.sender())
            .map_err(|error| StartError::io("zone watch does not start", &error))?;
        wait_for_all(loading, &cell, config, context).await;
        Ok(Self {
            cell,
            reports,
            histories,
            publisher,
            link,
            stand_in,
            kubernetes,
            nodes,
            pace,
        })
    }
}

/// Waits until every zone is loaded while another process answers from the same sockets; else each zone answers when it is.
async fn wait_for_all(
    loading: tokio::task::JoinHandle<()>,
    cell: &Arc<Latest<Snapshot>>,
    config: &Config,
    context: &Context,
) {
    if !context.predecessor.may_serve() {
        return;
    }
    tracing::info!("Another process may answer from the same sockets until all zones are loaded");
    let all = async {
        drop(loading.await);
        first_names(cell, config).await;
    };
    tokio::select! {
        () = all => {}
        () = context.predecessor.end() => {}
    }
}

/// Waits until the names of the cluster are served. While clusterd is away there are none, and the zones of files must not wait
/// for them.
async fn first_names(cell: &Arc<Latest<Snapshot>>, config: &Config) {
    let Some(options) = &config.kubernetes else {
        return;
    };
    let mut snapshots = cell.reader();
    let has_names = |snapshot: &Snapshot| {
        let served = snapshot.table.zone(&options.domain);
        served.is_some_and(|served| served.zone.is_some())
    };
    let waited = snapshots.wait_for(has_names);
    drop(tokio::time::timeout(FIRST_NAMES, waited).await);
}

const fn pace(config: &Config) -> Pace {
    Pace {
        interval: config.file.zones.check_interval.0,
        notify: config.file.zones.notify,
    }
}

/// The part of a configuration that is for flattened versions of zones.
fn flattening(config: &Config) -> flattening::Settings {
    let transfers = &config.file.transfers;
    flattening::Settings {
        pace: dns_flatten::Pace {
            interval: transfers.flatten_interval.0,
            per_minute: transfers.flatten_rate.get(),
        },
        limits: config.history.limits,
        directory: config.history.directory.clone(),
    }
}

/// Starts to follow primaries, and to notify secondaries.
fn start_exchanges(
    stock: &Stock,
    config: &Config,
    listeners: &[std::net::UdpSocket],
    totals: &Totals,
) -> Result<(secondary::Handle, watch::Sender<Arc<Notify>>), StartError> {
    let publisher = stock.publisher.sender();
    let plan = secondary::plan(config);
    let secondaries = secondary::start(&stock.cell, publisher, plan, &totals.secondary);
    let (notify, settings) = watch::channel(Arc::new(config.notify.clone()));
    let own = listeners.iter().map(std::net::UdpSocket::local_addr);
    let own = own.collect::<Result<Vec<_>, _>>()?;
    notify::start(&stock.cell, settings, own, &totals.notify)
        .map_err(|error| StartError::io("NOTIFY does not start", &error))?;
    Ok((secondaries, notify))
}

/// The part of a configuration that is for the names of a cluster.
fn cluster_settings(config: &Config) -> dns_cluster::Settings {
    let table = config.file.kubernetes.as_ref();
    dns_cluster::Settings {
        options: config.kubernetes.clone(),
        socket: table.map(|table| table.socket.clone()).unwrap_or_default(),
    }
}

fn node_settings(config: &Config) -> Option<nodes::Settings> {
    config.file.cluster.as_ref().map(nodes::settings)
}

fn threads(file: &DnsAuthd) -> usize {
    match file.threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    }
}

fn addresses(listed: &[Address]) -> Vec<SocketAddr> {
    listed.iter().map(|address| address.0).collect()
}

/// Starts the threads that answer over UDP, which wake up for what they are to answer from.
fn start_engine(
    sockets: Vec<std::net::UdpSocket>,
    threads: usize,
    parts: &WorkerParts,
    context: &Context,
) -> Result<Engine, StartError> {
    let engine = server::start(sockets, threads, parts)
        .map_err(|error| StartError::io("UDP does not start", &error))?;
    wake_for(&parts.cell, &engine);
    wake_for(&parts.access, &engine);
    wake_for(&parts.limit, &engine);
    context.progress.register_all(engine.heartbeats());
    let counters = udp::Collector::new("dns_authd", engine.counters());
    context.metrics.register_collector(counters);
    Ok(engine)
}

/// The connections, which metrics and status show.
fn connections(
    context: &Context,
    shared: &Shared,
    encrypted: Option<&EncryptedListeners>,
) -> dns_serve::Counters {
    let connections = shared.counters().clone();
    context.connections.add(&connections.tcp);
    if encrypted.is_some_and(|encrypted| !encrypted.doq.is_empty()) {
        context.connections.add(&connections.quic);
    }
    connections
}

/// The sockets for queries.
struct Listeners {
    udp: Vec<std::net::UdpSocket>,
    tcp: Vec<std::net::TcpListener>,
    encrypted: Option<EncryptedListeners>,
}

/// The sockets of encrypted transports.
struct EncryptedListeners {
    tls: Tls,
    dot: Vec<std::net::TcpListener>,
    doh: Vec<std::net::TcpListener>,
    doq: Vec<std::net::UdpSocket>,
}

impl Listeners {
    fn open(config: &Config, context: &mut Context) -> Result<Self, StartError> {
        let file = &config.file;
        let buffer = file.receive_buffer.map(|size| usize::try_from(size.0));
        let options = UdpOptions {
            per_address: threads(file),
            receive_buffer: buffer.and_then(Result::ok),
            ..UdpOptions::default()
        };
        let inherited = &mut context.inherited;
        let udp = listen::udp(inherited, SOCKETS, &addresses(&file.listen), options)?;
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
        let tls = file.tls.clone();
        let encrypted = tls.map(|tls| EncryptedListeners::open(tls, context));
        Ok(Self {
            udp,
            tcp,
            encrypted: encrypted.transpose()?,
        })
    }
}

impl EncryptedListeners {
    fn open(tls: Tls, context: &mut Context) -> Result<Self, StartError> {
        let inherited = &mut context.inherited;
        let dot = listen::tcp(inherited, "dns-tls", &addresses(&tls.dot))?;
        let doh = listen::tcp(inherited, "dns-https", &addresses(&tls.doh))?;
        let doq = listen::udp(
            inherited,
            "dns-quic",
            &addresses(&tls.doq),
            UdpOptions::default(),
        )?;
        let streams = dot.iter().chain(&doh);
        let addresses = streams.map(std::net::TcpListener::local_addr);
        let datagrams = doq.iter().map(std::net::UdpSocket::local_addr);
        for address in addresses.chain(datagrams) {
            tracing::info!(address = %address?, "Listening, encrypted");
        }
        Ok(Self { tls, dot, doh, doq })
    }
}

impl EncryptedListeners {
    /// Adds each listener with its protocol, and gives the certificates that they show.
    fn add_to(self, listeners: &mut dns_serve::Listeners) -> Result<Certificates, StartError> {
        let certificates = Certificates::read(&[certificate(&self.tls)])
            .map_err(|error| StartError::new(exit::CONFIG, error))?;
        let config = |protocols: &[&[u8]]| match certificates.server_config(protocols) {
            Ok(config) => Ok(Arc::new(config)),
            Err(error) => Err(StartError::new(exit::CONFIG, error)),
        };
        let dot = Protocol::Tls(config(&[DOT])?.into());
        let doh = Protocol::Https(Site {
            tls: config(&HTTPS_PROTOCOLS)?.into(),
            path: self.tls.doh_path.into(),
        });
        let quic = config(&[DOQ])?;
        let dot = self.dot.into_iter().map(|listener| (listener, dot.clone()));
        let doh = self.doh.into_iter().map(|listener| (listener, doh.clone()));
        listeners.tcp.extend(dot.chain(doh));
        let doq = self.doq.into_iter();
        let doq = doq.map(|socket| (socket, Arc::clone(&quic)));
        listeners.quic.extend(doq);
        Ok(certificates)
    }
}

impl Streams {
    /// Starts the thread that runs all connections.
    fn start(
        tcp: Vec<std::net::TcpListener>,
        encrypted: Option<EncryptedListeners>,
        shared: Arc<Shared>,
        expiries: &Expiries,
    ) -> Result<Self, StartError> {
        let plain = tcp.into_iter().map(|listener| (listener, Protocol::Plain));
        let mut listeners = dns_serve::Listeners {
            tcp: plain.collect(),
            ..dns_serve::Listeners::default()
        };
        let certificates = encrypted
            .map(|encrypted| encrypted.add_to(&mut listeners))
            .transpose()?;
        let running = dns_serve::Streams::start("dns-streams", listeners, shared)?;
        if let Some(certificates) = &certificates {
            expiries.set("clients", Arc::new(certificates.clone()));
            tokio::spawn(certificates.clone().follow());
        }
        Ok(Self {
            running,
            certificates,
        })
    }

    /// Adopts the certificate that a configuration names, perhaps from other files than before.
    fn take_certificate(&self, tls: Option<&Tls>) -> Result<(), CertificateError> {
        match (&self.certificates, tls) {
            (Some(certificates), Some(tls)) => certificates.replace(&[certificate(tls)]),
            // The next start must find the files that it needs.
            (None, Some(tls)) => Certificates::read(&[certificate(tls)]).map(drop),
            (_, None) => Ok(()),
        }
    }
}
