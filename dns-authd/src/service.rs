//! Starts the parts of the server in order, reloads them, and ends them.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use daemon::config::{Common, Problem, Problems};
use daemon::exit;
use daemon::listen::{self, UdpOptions};
use daemon::run::{Context, Service, StartError};
use daemon::snapshot::Cell;
use daemon::tls::{CertificateError, Certificates};
use daemon::udp::{self, Engine};
use dns_answer::Snapshot;
use dns_answer::table::Table;
use dns_wire::hash::Seed;
use proto::watch::Watcher;
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tokio_rustls::TlsAcceptor;

use crate::access::Access;
use crate::config::{Config, Fixed, Network, Tls};
use crate::health::{self, Link};
use crate::hold::Hold;
use crate::https::{self, Site};
use crate::metrics::{Scrape, Totals};
use crate::programs::LiveSettings;
use crate::publisher::{self, Channels, Command, Plan, Reports};
use crate::quic::Quic;
use crate::reload::{self, Pace};
use crate::server::Supply;
use crate::shared::{self, Shared};
use crate::tcp::{self, Spoken};
use crate::{random, routes, self_check, server, status};

/// The name of the DNS sockets among inherited ones.
const SOCKETS: &str = "dns";
/// The ALPN name of DNS over TLS (RFC 7858's entry in the IANA registry).
const DOT: &[u8] = b"dot";
/// The time between attempts to reach a publisher with a full queue.
const RETRY: Duration = Duration::from_millis(5);
/// The part of the drain that QUIC connections have to end, when no query is held for longer.
const QUIC_DRAIN: Duration = Duration::from_secs(1);
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
    access: Arc<Cell<Access>>,
    fixed: Fixed,
}

/// The published zones, and the threads that update them.
#[derive(Debug)]
struct Stock {
    cell: Arc<Cell<Snapshot>>,
    reports: Arc<Cell<Reports>>,
    publisher: publisher::Handle,
    link: Link,
    pace: watch::Sender<Pace>,
}

/// The thread of all stream transports.
#[derive(Debug)]
struct Streams {
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
    certificates: Option<Certificates>,
}

impl Service for Authd {
    const NAME: &'static str = "dns-authd";
    type Config = Config;

    fn common(config: &Config) -> &Common {
        &config.common
    }

    async fn start(config: Config, context: &mut Context) -> Result<Self, StartError> {
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        let fixed = Fixed::of(&config);
        let listeners = Listeners::open(&config, context)?;
        // The zones come first: without them there are no answers.
        let stock = Stock::fill(&config, context).await?;
        let totals = Totals::default();
        let (hold, waiting) = Hold::start(
            Arc::clone(&stock.cell),
            stock.publisher.sender(),
            hold_time(&config),
            &totals,
        )
        .map_err(|error| StartError::io("hold does not start", &error))?;
        let access = Cell::new(config.access.clone());
        let shared = Shared::new(
            Arc::clone(&stock.cell),
            config.network.tcp,
            hold_time(&config),
            Arc::clone(&access),
            totals.clone(),
        );
        let (asked, cell) = (Arc::clone(&shared), Arc::clone(&stock.cell));
        context.admin.self_check(move || {
            let checked = self_check::run(&asked, &cell.current().table);
            async move { checked }
        });
        let connections = shared.connections();
        let streams = Streams::start(listeners.tcp, listeners.encrypted, shared)?;
        let supply = Supply {
            cell: Arc::clone(&stock.cell),
            access: Arc::clone(&access),
            hold,
            totals: totals.clone(),
        };
        let engine = server::start(listeners.udp, threads(&config.network), &supply)
            .map_err(|error| StartError::io("UDP does not start", &error))?;
        context.progress.register_all(engine.heartbeats());
        let counters = udp::Collector::new("dns_authd", engine.counters());
        context.metrics.register_collector(counters);
        context.metrics.register_collector(Box::new(Scrape {
            totals: totals.clone(),
            connections,
            reports: Arc::clone(&stock.reports),
            link: stock.link.clone(),
        }));
        routes::add(
            &context.admin,
            &stock.cell,
            &stock.reports,
            &stock.publisher.sender(),
        );
        Ok(Self {
            engine,
            waiting,
            streams,
            stock,
            totals,
            access,
            fixed,
        })
    }

    async fn reload(&self, config: Config) -> Result<String, Problems> {
        // First of all, so that a configuration is adopted as a whole, or not at all.
        self.streams
            .take_certificate(config.tls.as_ref())
            .map_err(|error| Problem::new(exit::chain(&error)))?;
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        for left in self.fixed.left_for_restart(&Fixed::of(&config)) {
            tracing::warn!("{left}");
        }
        self.stock.pace.send_replace(pace(&config));
        self.access.publish(config.access.clone());
        let (done, summary) = oneshot::channel();
        let mut command = Command::Configure(Box::new(plan(&config)), done);
        while let Err(returned) = self.stock.publisher.send(command) {
            let Some(returned) = returned else {
                return Ok("the zone publisher has ended".to_owned());
            };
            command = returned;
            tokio::time::sleep(RETRY).await;
        }
        Ok(summary.await.unwrap_or_default())
    }

    fn status(&self) -> Value {
        status::value(
            &self.stock.reports.current(),
            &self.totals,
            &self.stock.link,
        )
    }

    async fn drain(self, deadline: Duration) -> bool {
        // UDP answers the queued queries and ends, and then the waiting ones; connections end when they
        // have nothing to answer. The publisher continues until then: it publishes the snapshots that those
        // wait for.
        self.engine.ask_to_stop();
        self.streams.stop.send_replace(true);
        let ended = tokio::time::timeout(deadline, async {
            while !(self.streams.thread.is_finished() && self.waiting.is_finished()) {
                tokio::time::sleep(DRAIN_POLL).await;
            }
        });
        let is_drained = ended.await.is_ok();
        let stopped = tokio::task::spawn_blocking(move || {
            self.engine.stop();
            self.stock.publisher.stop();
        });
        stopped.await.is_ok() && is_drained
    }
}

impl Stock {
    /// Loads the zones, and begins to follow files and healthd.
    async fn fill(config: &Config, context: &Context) -> Result<Self, StartError> {
        let plan = plan(config);
        let seed = Seed(random::seed());
        let cell = Cell::new(Snapshot {
            table: Table::new(seed, Vec::new()),
            settings: plan.answers.clone(),
        });
        let reports = Cell::new(Reports::default());
        let endpoint = config.health.clone();
        let watcher =
            endpoint.map(|endpoint| Arc::new(Watcher::start(endpoint, Authd::NAME, Vec::new())));
        let (directories, watched) = watch::channel(BTreeSet::new());
        let channels = Channels {
            cell: Arc::clone(&cell),
            reports: Arc::clone(&reports),
            watcher: watcher.clone(),
            readiness: context.readiness.clone(),
            directories,
        };
        let (ready, loaded) = oneshot::channel();
        let publisher = publisher::Handle::start(channels, plan, seed, ready)
            .map_err(|error| StartError::io("zone publisher does not start", &error))?;
        let summary = loaded.await.unwrap_or_default();
        tracing::info!("Zones are loaded: {summary}");
        if let Some(watcher) = &watcher {
            health::follow(watcher, publisher.sender());
        }
        let (pace, paces) = watch::channel(pace(config));
        reload::watch(paces, watched, publisher.sender())
            .map_err(|error| StartError::io("zone watch does not start", &error))?;
        Ok(Self {
            cell,
            reports,
            publisher,
            link: Link::new(watcher),
            pace,
        })
    }
}

const fn pace(config: &Config) -> Pace {
    Pace {
        interval: config.zones.check_interval,
        notify: config.zones.notify,
    }
}

/// The time that queries wait for first results: zero when none will come.
fn hold_time(config: &Config) -> Duration {
    match config.health {
        Some(_) => config.live.hold,
        None => Duration::ZERO,
    }
}

/// The publisher's part of a configuration.
fn plan(config: &Config) -> Plan {
    Plan {
        zones: config.zones.clone(),
        live: LiveSettings {
            hold: hold_time(config),
            ..config.live.clone()
        },
        lua: config.lua,
        answers: config.answers.clone(),
    }
}

fn threads(network: &Network) -> usize {
    match network.threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    }
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
        let network = &config.network;
        let options = UdpOptions {
            per_address: threads(network),
            receive_buffer: network.receive_buffer,
            ..UdpOptions::default()
        };
        let inherited = &mut context.inherited;
        let udp = listen::udp(inherited, SOCKETS, &network.listen, options)?;
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
        let tls = config.tls.clone();
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
        let dot = listen::tcp(inherited, "dns-tls", &tls.dot)?;
        let doh = listen::tcp(inherited, "dns-https", &tls.doh)?;
        let doq = listen::udp(inherited, "dns-quic", &tls.doq, UdpOptions::default())?;
        let streams = dot.iter().chain(&doh);
        let addresses = streams.map(std::net::TcpListener::local_addr);
        let datagrams = doq.iter().map(std::net::UdpSocket::local_addr);
        for address in addresses.chain(datagrams) {
            tracing::info!(address = %address?, "Listening, encrypted");
        }
        Ok(Self { tls, dot, doh, doq })
    }
}

/// A listener and its protocol.
type Door = (tokio::net::TcpListener, Spoken);

fn door(listener: std::net::TcpListener, spoken: &Spoken) -> io::Result<Door> {
    Ok((tokio::net::TcpListener::from_std(listener)?, spoken.clone()))
}

/// The listeners of encrypted transports.
#[derive(Default)]
struct Secured {
    certificates: Option<Certificates>,
    doors: Vec<Door>,
    quic: Option<Quic>,
}

impl Secured {
    fn start(listeners: EncryptedListeners, shared: &Arc<Shared>) -> Result<Self, StartError> {
        let EncryptedListeners { tls, dot, doh, doq } = listeners;
        let certificates = Certificates::read(&[tls.files()])
            .map_err(|error| StartError::new(exit::CONFIG, error))?;
        let acceptor = |protocols: &[&[u8]]| match certificates.server_config(protocols) {
            Ok(config) => Ok(TlsAcceptor::from(Arc::new(config))),
            Err(error) => Err(StartError::new(exit::CONFIG, error)),
        };
        let spoken = Spoken::Tls(acceptor(&[DOT])?);
        let dot = dot.into_iter().map(|listener| door(listener, &spoken));
        let spoken = Spoken::Https(Site {
            tls: acceptor(&https::PROTOCOLS)?,
            path: tls.doh_path.into(),
        });
        let doh = doh.into_iter().map(|listener| door(listener, &spoken));
        let doors = dot.chain(doh).collect::<io::Result<_>>()?;
        let quic = match doq.is_empty() {
            true => None,
            false => Some(Quic::start(
                &certificates,
                doq,
                shared::ask(Arc::clone(shared)),
            )?),
        };
        tokio::spawn(certificates.clone().follow());
        Ok(Self {
            certificates: Some(certificates),
            doors,
            quic,
        })
    }
}

impl Streams {
    /// Starts the thread that runs all connections.
    fn start(
        listeners: Vec<std::net::TcpListener>,
        encrypted: Option<EncryptedListeners>,
        shared: Arc<Shared>,
    ) -> Result<Self, StartError> {
        let (stop, mut stopped) = watch::channel(false);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let guard = runtime.enter();
        let plain = listeners.into_iter();
        let plain = plain.map(|listener| door(listener, &Spoken::Plain));
        let mut all: Vec<Door> = plain.collect::<io::Result<_>>()?;
        let secured = encrypted.map(|encrypted| Secured::start(encrypted, &shared));
        let Secured {
            certificates,
            doors,
            quic,
        } = secured.transpose()?.unwrap_or_default();
        all.extend(doors);
        drop(guard);
        let run = async move {
            let mut tasks = tokio::task::JoinSet::new();
            for (listener, spoken) in all {
                let shared = Arc::clone(&shared);
                tasks.spawn(tcp::serve(listener, spoken, shared, stopped.clone()));
            }
            while tasks.join_next().await.is_some() {}
            // An error means that the sender is gone, and with it the service.
            drop(stopped.wait_for(|stop| *stop).await);
            if let Some(quic) = quic {
                quic.drain(QUIC_DRAIN.max(shared.last_answer())).await;
            }
            shared.wait_until_closed().await;
        };
        let thread = thread::Builder::new()
            .name("dns-streams".to_owned())
            .spawn(move || runtime.block_on(run))?;
        Ok(Self {
            stop,
            thread,
            certificates,
        })
    }

    /// Adopts the certificate that a configuration names, perhaps from other files than before.
    fn take_certificate(&self, tls: Option<&Tls>) -> Result<(), CertificateError> {
        match (&self.certificates, tls) {
            (Some(certificates), Some(tls)) => certificates.replace(&[tls.files()]),
            // The next start must find the files that it needs.
            (None, Some(tls)) => Certificates::read(&[tls.files()]).map(drop),
            (_, None) => Ok(()),
        }
    }
}
