//! The server as the life of its process sees it: what is started, in which order, and ended.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use daemon_base::config::{Common, Problems};
use daemon_base::exit;
use daemon_base::listen::{self, UdpOptions};
use daemon_base::run::{Context, Service, StartError};
use daemon_base::snapshot::Cell;
use daemon_base::tls::Certificates;
use daemon_base::udp::{self, Engine};
use dns_wire::hash::Seed;
use proto::watch::Watcher;
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};

use crate::access::Access;
use crate::answer::Snapshot;
use crate::config::{Config, Network, Tls};
use crate::encrypted::{Encrypted, EncryptedError, Sockets};
use crate::health::{self, Link};
use crate::hold::Hold;
use crate::keeper::{self, Command, Outfit, Plan, Reports};
use crate::metrics::{Scrape, Totals};
use crate::programs::LiveSettings;
use crate::reload::{self, Pace};
use crate::server::Supply;
use crate::table::Table;
use crate::tcp::{self, Shared};
use crate::{random, routes, self_check, server, status};

/// The name of the DNS sockets among inherited ones.
const SOCKETS: &str = "dns";
/// Between attempts to reach a keeper with a full queue.
const RETRY: Duration = Duration::from_millis(5);
/// How long encrypted connections may take to end, of the whole drain.
const ENCRYPTED_DRAIN: Duration = Duration::from_secs(1);
/// How often draining looks whether connections have ended.
const DRAIN_POLL: Duration = Duration::from_millis(10);

/// A running dns-authd.
#[derive(Debug)]
pub struct Authd {
    engine: Engine,
    streams: Streams,
    stock: Stock,
    totals: Totals,
    access: Arc<Cell<Access>>,
    network: Network,
}

/// What is served, and who keeps it as it should be.
#[derive(Debug)]
struct Stock {
    cell: Arc<Cell<Snapshot>>,
    reports: Arc<Cell<Reports>>,
    keeper: keeper::Handle,
    link: Link,
    pace: watch::Sender<Pace>,
}

/// The thread of TCP and what is built on it.
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
        let listeners = Listeners::open(&config, context)?;
        // The zones come first: nothing is answered before they are there.
        let stock = Stock::fill(&config, context).await?;
        let totals = Totals::default();
        let held = Hold::start(
            Arc::clone(&stock.cell),
            stock.keeper.sender(),
            hold(&config),
            &totals,
        )
        .map_err(|error| StartError::io("hold does not start", &error))?;
        let access = Cell::new(config.access.clone());
        let shared = Shared::new(
            Arc::clone(&stock.cell),
            config.network.tcp,
            hold(&config),
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
            hold: held,
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
            &stock.keeper.sender(),
        );
        Ok(Self {
            engine,
            streams,
            stock,
            totals,
            access,
            network: config.network,
        })
    }

    async fn reload(&self, config: Config) -> Result<String, Problems> {
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        if config.network != self.network {
            tracing::warn!("What is listened on, and bounds of TCP, change with the next restart");
        }
        self.stock.pace.send_replace(pace(&config));
        if let Some(certificates) = &self.streams.certificates {
            certificates.reload();
        }
        self.access.publish(config.access.clone());
        let (done, summary) = oneshot::channel();
        let mut command = Command::Configure(Box::new(plan(&config)), done);
        while let Err(returned) = self.stock.keeper.send(command) {
            let Some(returned) = returned else {
                return Ok("the zone keeper has ended".to_owned());
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
        // UDP answers what is queued and ends; connections end when they have nothing to answer.
        self.engine.ask_to_stop();
        self.streams.stop.send_replace(true);
        let ended = tokio::time::timeout(deadline, async {
            while !self.streams.thread.is_finished() {
                tokio::time::sleep(DRAIN_POLL).await;
            }
        });
        let is_drained = ended.await.is_ok();
        let stopped = tokio::task::spawn_blocking(move || {
            self.engine.stop();
            self.stock.keeper.stop();
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
        let outfit = Outfit {
            cell: Arc::clone(&cell),
            reports: Arc::clone(&reports),
            watcher: watcher.clone(),
            readiness: context.readiness.clone(),
            directories,
        };
        let (ready, loaded) = oneshot::channel();
        let keeper = keeper::Handle::start(outfit, plan, seed, ready)
            .map_err(|error| StartError::io("zone keeper does not start", &error))?;
        let summary = loaded.await.unwrap_or_default();
        tracing::info!("Zones are loaded: {summary}");
        if let Some(watcher) = &watcher {
            health::follow(watcher, keeper.sender());
        }
        let (pace, paces) = watch::channel(pace(config));
        reload::watch(paces, watched, keeper.sender())
            .map_err(|error| StartError::io("zone watch does not start", &error))?;
        Ok(Self {
            cell,
            reports,
            keeper,
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

/// How long queries wait for first results: not at all when none will come.
fn hold(config: &Config) -> Duration {
    match config.health {
        Some(_) => config.live.hold,
        None => Duration::ZERO,
    }
}

/// What the keeper carries out.
fn plan(config: &Config) -> Plan {
    Plan {
        zones: config.zones.clone(),
        live: LiveSettings {
            hold: hold(config),
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

/// The sockets that queries come to.
struct Listeners {
    udp: Vec<std::net::UdpSocket>,
    tcp: Vec<std::net::TcpListener>,
    encrypted: Option<(Tls, Sockets)>,
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
        // With port 0 TCP listens where UDP happened to be put.
        let mut addresses = Vec::new();
        for socket in &udp {
            let address = socket.local_addr()?;
            if !addresses.contains(&address) {
                tracing::info!(%address, "Listening");
                addresses.push(address);
            }
        }
        let tcp = listen::tcp(inherited, SOCKETS, &addresses)?;
        let encrypted = config.tls.clone();
        let encrypted = encrypted
            .map(|tls| Ok::<_, StartError>((open_encrypted(&tls, context)?, tls)))
            .transpose()?
            .map(|(sockets, tls)| (tls, sockets));
        Ok(Self {
            udp,
            tcp,
            encrypted,
        })
    }
}

fn open_encrypted(tls: &Tls, context: &mut Context) -> Result<Sockets, StartError> {
    let inherited = &mut context.inherited;
    let sockets = Sockets {
        dot: listen::tcp(inherited, "dns-tls", &tls.dot)?,
        doh: listen::tcp(inherited, "dns-https", &tls.doh)?,
        doq: listen::udp(inherited, "dns-quic", &tls.doq, UdpOptions::default())?,
    };
    let streams = sockets.dot.iter().chain(&sockets.doh);
    let addresses = streams.map(std::net::TcpListener::local_addr);
    let datagrams = sockets.doq.iter().map(std::net::UdpSocket::local_addr);
    for address in addresses.chain(datagrams) {
        tracing::info!(address = %address?, "Listening, encrypted");
    }
    Ok(sockets)
}

impl Streams {
    /// Starts the thread that runs all connections.
    fn start(
        listeners: Vec<std::net::TcpListener>,
        encrypted: Option<(Tls, Sockets)>,
        shared: Arc<Shared>,
    ) -> Result<Self, StartError> {
        let (stop, mut stopped) = watch::channel(false);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let guard = runtime.enter();
        let listeners: Vec<tokio::net::TcpListener> = listeners
            .into_iter()
            .map(tokio::net::TcpListener::from_std)
            .collect::<io::Result<_>>()?;
        let encrypted = match encrypted {
            Some((tls, sockets)) => {
                let started = Encrypted::start(&tls, sockets, tcp::ask(Arc::clone(&shared)));
                let encrypted = started.map_err(|error| match error {
                    EncryptedError::Certificate(error) => StartError::new(exit::CONFIG, error),
                    EncryptedError::Listen(error) => error.into(),
                })?;
                tokio::spawn(encrypted.certificates().follow());
                Some(encrypted)
            }
            None => None,
        };
        drop(guard);
        let certificates = encrypted.as_ref().map(Encrypted::certificates);
        let run = async move {
            let mut tasks = tokio::task::JoinSet::new();
            for listener in listeners {
                tasks.spawn(tcp::serve(listener, Arc::clone(&shared), stopped.clone()));
            }
            while tasks.join_next().await.is_some() {}
            // An error means that the sender is gone, and with it the service.
            drop(stopped.wait_for(|stop| *stop).await);
            if let Some(encrypted) = encrypted {
                encrypted.drain(ENCRYPTED_DRAIN).await;
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
}
