//! The life of the proxy's process: the order in which its parts start and end.

mod swap;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::config::lb_proxy::LbProxy;
use api::lb_proxy::Detail;
use daemon::clock;
use daemon::config::{Common, Problem, Problems};
use daemon::exit;
use daemon::readiness::Readiness;
use daemon::run::{Context, Service, StartError};
use l4::access_log::Writer;
use l4::datagram::IncomingFlow;
use l4::handover::{self, HandoverSender, Others, Predecessor, State};
use l4::relay::{self, Engine, Report};
use proto::cluster::link::Link as ClusterLink;
use proto::link::Link;
use stand_in::StandIn;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use vrrp::machine::Departure;
use vrrp_net::routers::check_capabilities;

use crate::cluster::{self, ClusterServers, Members};
use crate::config::Config;
use crate::datagrams::Datagrams;
use crate::decisions::Decisions;
use crate::explain;
use crate::health::{self, FailureReports};
use crate::host;
use crate::kernel_path::{self, KernelPath};
use crate::leases::VipLeases;
use crate::metrics::Scrape;
use crate::monitor;
use crate::routes;
use crate::sockets::Sockets;
use crate::stats_socket::{self, Board, Subject};
use crate::status;
use crate::table_builder::TableBuilder;
use crate::vips::Vips;

use swap::PredecessorState;

/// The pause before places of Services that could not be taken are tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// A running lb-proxy.
#[derive(Debug)]
pub struct Proxy {
    /// Gone before the engine that it gives away.
    giver: Option<HandoverSender>,
    is_handed_over: Arc<AtomicBool>,
    engine: Arc<Engine>,
    builder: Arc<TableBuilder>,
    decisions: Decisions,
    cluster: Arc<ClusterServers>,
    link: Link,
    reports: Arc<FailureReports>,
    log: Writer,
    bindings: Arc<Bindings>,
    datagrams: Datagrams,
    kernel: KernelPath,
    vips: Arc<Vips>,
    /// HAProxy's runtime commands.
    stats: Arc<Board>,
    tasks: Vec<JoinHandle<()>>,
}

impl Service for Proxy {
    const NAME: &'static str = "lb-proxy";
    type Config = Config;
    type Status = Detail;
    type File = LbProxy;

    fn common(config: &Config) -> &Common {
        &config.common
    }

    fn file(config: &Config) -> &LbProxy {
        &config.file
    }

    fn warnings(config: &Config) -> Vec<String> {
        let mut warnings = config.warnings.clone();
        warnings.extend(host::lacks(config, &host::Host::look()));
        warnings
    }

    fn takes_over(config: &Config) -> bool {
        config.file.swap.socket().is_some_and(Path::exists)
    }

    async fn start(mut config: Config, context: &mut Context) -> Result<Self, StartError> {
        kernel_path::settle(&mut config);
        // Services of the cluster have listeners and addresses, which a predecessor hands over with its own.
        let (clusterd, mut members) = cluster::first_report(config).await;
        let config = members.config();
        if !config.vips.is_empty() || config.serves_cluster() {
            check_capabilities().map_err(|error| StartError::new(error.code(), error))?;
        }
        let mut predecessor = find_predecessor(config.file.swap.socket().map(Path::to_owned)).await;
        let (listeners, mut others) = match &mut predecessor {
            Some(predecessor) => (predecessor.take_listeners(), predecessor.take_others()),
            None => (Vec::new(), Vec::new()),
        };
        let left = PredecessorState::read(&mut others);
        // Their places are taken one by one after the start, so that one that something else has costs its Service alone.
        members.leave_out(|frontend| {
            let mut known = listeners.iter();
            known.all(|listener| listener.frontend != frontend.name)
        });
        let config = members.config();
        let mut sockets = Sockets::default();
        let listeners = sockets.open(&config, &mut context.inherited, listeners)?;
        let log = open_log(&config)?;
        let (link, builder, cluster) = first_table(&config, clusterd, members).await;
        let decisions = Decisions::new(&config.file.state, &builder);
        let active = decided_before(left, &decisions, &builder);
        let stand_in = stand_in(&config, &link, context);
        let reports = FailureReports::start(config.health(), stand_in, builder.targets());
        let passive: Arc<dyn Report> = Arc::<FailureReports>::clone(&reports);
        let (report, options) = (Arc::clone(&passive), relay_options(&config));
        // A predecessor's sockets accept here once it has let go: a start that fails half-way
        // then loses no client.
        let (at_once, once_taken) = match predecessor {
            Some(_) => (Vec::new(), listeners),
            None => (listeners, Vec::new()),
        };
        let engine = Engine::start(at_once, builder.cell(), log.log(), report, options)
            .map_err(|error| StartError::io("the data path does not start", &error))?;
        let engine = Arc::new(engine);
        let datagrams = Datagrams::new(builder.cell(), passive, context.progress.clone());
        datagrams.bind(&config, &mut context.inherited, others)?;
        // A predecessor that has let go does not come back: everything that may fail must fail before.
        let kernel = KernelPath::default();
        let leases = VipLeases::start(config.health(), context.readiness.clone());
        let vips = Vips::prepare(&config, active, &builder, &engine, &kernel, leases).await?;
        kernel.start(&config, &builder.view().table)?;
        let taken = match predecessor {
            Some(predecessor) => take_over(predecessor, &engine).await,
            None => Ok((Vec::new(), None)),
        };
        // After an error it serves on, by these very rules.
        let (flows, left) = taken.inspect_err(|_| kernel.leave())?;
        let at_last = left.map(|left| left.tell(&builder));
        datagrams.run(flows)?;
        engine
            .add_listeners(once_taken)
            .map_err(|error| StartError::io("a listener cannot be served", &error))?;
        let bindings = Bindings {
            engine,
            builder,
            sockets,
            datagrams,
            kernel,
            vips: Arc::new(vips.begin(at_last).await),
            is_handed_over: Arc::default(),
            turn: Mutex::new(()),
        };
        let stats = Board::new(&config.file.stats_socket);
        let mut proxy = Self::of(bindings, (decisions, cluster, link, reports, log), stats);
        proxy.follow(context);
        proxy.show(context);
        proxy.stand_in_for_haproxy(&config, context);
        proxy.offer(config.file.swap.socket());
        tracing::info!("Balancing: {}", config.summary());
        Ok(proxy)
    }

    async fn reload(&self, mut config: Config) -> Result<String, Problems> {
        kernel_path::settle(&mut config);
        let _turn = self.bindings.turn.lock().await;
        // Addresses that cannot be listened on, or held, are detected before anything is touched.
        let whole = self.cluster.whole_of(config.clone());
        self.bindings.try_to_listen(&whole)?;
        let first_vips = self.vips.prepare_first(&whole).await?;
        let before = self.cluster.written();
        let names = self.cluster.resolved(&config).await;
        // First the table, so that a listener never accepts for a frontend that is not in it.
        self.cluster.adopt(config.clone(), Some(names));
        self.engine.notice();
        if let Err(problem) = self.bindings.listen(&self.cluster.whole()) {
            self.cluster.adopt(before, None);
            self.engine.notice();
            // The others were there before: only the new ones have failed.
            drop(self.bindings.listen(&self.cluster.whole()));
            return Err(problem.into());
        }
        let after = config.file.health.stand_in_after.get();
        self.reports.stand_in().set_after(after);
        self.vips.apply(&self.cluster.whole(), first_vips).await;
        if let Err(error) = self.log.log().configure(&config.file.access_log) {
            let target = &config.file.access_log.target;
            tracing::error!(%target, %error, "The access log stays as it was");
        }
        Ok(config.summary())
    }

    fn status(&self) -> Detail {
        self.report().detail()
    }

    async fn drain(self, deadline: Duration) -> bool {
        let begun = clock::now();
        if self.is_handed_over.load(Ordering::Acquire) {
            self.leave().await;
            return true;
        }
        // No Service moves anything from here on.
        let bindings = Arc::clone(&self.bindings);
        let _turn = bindings.turn.lock().await;
        // Addresses first: while the next node takes them over, this one serves on.
        let departure = self.vips.shut_down(Departure::HandOver);
        let are_addresses_gone = tokio::time::timeout(deadline, departure).await.is_ok();
        for task in &self.tasks {
            task.abort();
        }
        let left = deadline.saturating_sub(begun.elapsed());
        let engine = Arc::clone(&self.engine);
        let datagrams = self.datagrams.clone();
        let drained = tokio::task::spawn_blocking(move || {
            let is_drained = engine.drain(left);
            datagrams.stop(left.saturating_sub(begun.elapsed()));
            is_drained
        });
        let is_drained = drained.await.unwrap_or(false);
        let counters = self.engine.counters();
        let sessions = counters.sessions.load(Ordering::Relaxed);
        if sessions > 0 {
            tracing::warn!(sessions, "Sessions are reset: they did not end in time");
        }
        self.end(KernelPath::clear).await && is_drained && are_addresses_gone
    }
}

impl Proxy {
    /// The service, before it follows anything.
    fn of(
        bindings: Bindings,
        (decisions, cluster, link, reports, log): (
            Decisions,
            Arc<ClusterServers>,
            Link,
            Arc<FailureReports>,
            Writer,
        ),
        stats: Arc<Board>,
    ) -> Self {
        Self {
            giver: None,
            is_handed_over: Arc::clone(&bindings.is_handed_over),
            engine: Arc::clone(&bindings.engine),
            builder: Arc::clone(&bindings.builder),
            decisions,
            cluster,
            link,
            reports,
            log,
            datagrams: bindings.datagrams.clone(),
            kernel: bindings.kernel.clone(),
            vips: Arc::clone(&bindings.vips),
            bindings: Arc::new(bindings),
            stats,
            tasks: Vec::new(),
        }
    }

    /// Answers those who ask HAProxy: its runtime commands, and its monitors.
    fn stand_in_for_haproxy(&mut self, config: &Config, context: &Context) {
        let table = &context.connections;
        let subject = Subject {
            engine: Arc::clone(&self.engine),
            builder: Arc::clone(&self.builder),
            datagrams: self.datagrams.clone(),
            kernel: self.kernel.clone(),
            decisions: self.decisions.clone(),
            log: self.log.log(),
            life: context.life.clone(),
            board: Arc::clone(&self.stats),
            started: clock::now(),
        };
        self.tasks.extend(stats_socket::serve(subject, table));
        let sources = monitor::Sources {
            builder: Arc::clone(&self.builder),
            life: context.life.clone(),
        };
        let monitors = monitor::serve(&config.file.monitor, sources, table);
        self.tasks.extend(monitors);
    }

    fn report(&self) -> status::Report {
        status::Report {
            engine: Arc::clone(&self.engine),
            view: self.builder.view(),
            link: self.link.clone(),
            cluster: self.cluster.status(),
            resolving: self.cluster.resolving(),
            datagrams: self.datagrams.clone(),
            kernel: self.kernel.status(),
            routers: self.vips.routers(),
            leases: self.vips.leases().shared(),
        }
    }

    /// A successor serves: nothing here may be touched but what is this process's own.
    async fn leave(self) {
        let bindings = Arc::clone(&self.bindings);
        let _turn = bindings.turn.lock().await;
        self.vips.shut_down(Departure::Swap).await;
        for task in &self.tasks {
            task.abort();
        }
        if !self.end(KernelPath::leave).await {
            tracing::error!("Not everything could be left to the successor");
        }
    }

    /// Ends what has threads of its own, each while what it writes to is there; true when all of it
    /// ended. `rules` says what becomes of the kernel's.
    async fn end(self, rules: fn(&KernelPath)) -> bool {
        let Self {
            engine,
            log,
            kernel,
            giver,
            ..
        } = self;
        let ended = tokio::task::spawn_blocking(move || {
            drop(giver);
            rules(&kernel);
            drop(engine);
            log.close();
        });
        ended.await.is_ok()
    }

    /// Waits for a successor.
    fn offer(&mut self, path: Option<&Path>) {
        let Some(path) = path else { return };
        let datagrams = self.datagrams.clone();
        let builder = Arc::clone(&self.builder);
        let shown = self.vips.board();
        let others: Others = Box::new(move || datagrams.for_successor());
        let state: State = Box::new(move || swap::state(&builder.view(), &shown.routers()));
        let is_handed_over = Arc::clone(&self.is_handed_over);
        let gone = Box::new(move || {
            is_handed_over.store(true, Ordering::Release);
            // The end of a process begins in one place.
            let own = rustix::process::getpid();
            if rustix::process::kill_process(own, rustix::process::Signal::TERM).is_err() {
                tracing::error!("This process cannot end itself; its successor serves");
            }
        });
        let flows = Box::new(self.datagrams.clone());
        match HandoverSender::start(path, Arc::clone(&self.engine), others, state, flows, gone) {
            Ok(giver) => self.giver = Some(giver),
            Err(error) => {
                let path = path.display();
                tracing::warn!(%path, %error, "No successor can take connections over");
            }
        }
    }

    /// Keeps what depends on the table up to date.
    fn follow(&mut self, context: &Context) {
        let builder = Arc::clone(&self.builder);
        self.tasks
            .extend(self.link.follow(move |snapshot| builder.observe(snapshot)));
        if let Some(mut is_connected) = self.link.is_connected() {
            let builder = Arc::clone(&self.builder);
            self.tasks.push(tokio::spawn(async move {
                loop {
                    builder.note_healthd(*is_connected.shared());
                    is_connected.changed().await;
                }
            }));
        }
        self.tasks.extend(self.cluster.follow());
        self.tasks.push(self.cluster.follow_names());
        let (bindings, cluster) = (Arc::clone(&self.bindings), Arc::clone(&self.cluster));
        let readiness = context.readiness.clone();
        self.tasks
            .push(tokio::spawn(follow_bindings(bindings, cluster, readiness)));
        let decisions = self.decisions.clone();
        self.tasks.push(tokio::spawn(async move {
            // Those of a predecessor of an earlier version are on no disk.
            decisions.save_soon().await.ok();
            decisions.end_those_that_are_over().await;
        }));
        let engine = Arc::clone(&self.engine);
        let readiness = context.readiness.clone();
        let kernel = self.kernel.clone();
        let mut views = self.builder.reader();
        self.tasks.push(tokio::spawn(async move {
            let mut told = Vec::new();
            loop {
                let view = views.shared();
                engine.notice();
                kernel.apply(&view);
                let unable: Vec<Arc<str>> = view
                    .abilities
                    .iter()
                    .filter(|(name, able)| !**able && name.starts_with("frontend:"))
                    .map(|(name, _)| Arc::clone(name))
                    .collect();
                for gone in told.iter().filter(|name| !unable.contains(name)) {
                    readiness.set_reason(&**gone, None);
                }
                for name in &unable {
                    let reason = "no server may be chosen".to_owned();
                    readiness.set_reason(&**name, Some(reason));
                }
                told = unable;
                views.changed().await;
            }
        }));
    }

    /// Adds metrics, heartbeats and paths to what the admin listener shows.
    fn show(&self, context: &Context) {
        for (frontend, address) in self.engine.listening() {
            tracing::info!(frontend = &*frontend, %address, "Listening");
        }
        context.progress.register_all(self.engine.heartbeats());
        context.metrics.register_collector(Box::new(Scrape {
            engine: Arc::clone(&self.engine),
            builder: Arc::clone(&self.builder),
            cluster: Arc::clone(&self.cluster),
            link: self.link.clone(),
            reports: Arc::clone(&self.reports),
            log: self.log.log(),
            datagrams: self.datagrams.clone(),
            kernel: self.kernel.clone(),
            routers: self.vips.board(),
            leases: self.vips.leases(),
            stats: Arc::clone(&self.stats),
        }));
        routes::add(
            &context.admin,
            &self.engine,
            &self.builder,
            &self.datagrams,
            &self.kernel,
            &self.decisions,
        );
        explain::add(
            &context.admin,
            &explain::Sources {
                engine: Arc::clone(&self.engine),
                builder: Arc::clone(&self.builder),
                cluster: Arc::clone(&self.cluster),
                link: self.link.clone(),
                datagrams: self.datagrams.clone(),
                kernel: self.kernel.clone(),
                routers: self.vips.board(),
                leases: self.vips.leases(),
            },
        );
    }
}

//--- Bindings

/// The listeners and virtual routers: a reload changes it, and so do Services of the cluster.
#[derive(Debug)]
struct Bindings {
    engine: Arc<Engine>,
    builder: Arc<TableBuilder>,
    sockets: Sockets,
    datagrams: Datagrams,
    kernel: KernelPath,
    vips: Arc<Vips>,
    is_handed_over: Arc<AtomicBool>,
    /// Held during a change.
    turn: Mutex<()>,
}

impl Bindings {
    /// Whether everything that is not there yet could be bound.
    fn try_to_listen(&self, config: &Config) -> Result<(), Problem> {
        let refused = |error: &dyn std::error::Error| Problem::new(exit::chain(error));
        let listening = self.engine.listening();
        let options = Sockets::options(config);
        for (frontend, address) in self.sockets.wanted(config, &listening) {
            let is_there = listening.iter().any(|(_, bound)| *bound == address);
            if !is_there && address.port() != 0 {
                let bound = relay::bind(&frontend, address, options);
                drop(bound.map_err(|error| refused(&error))?);
            }
        }
        let datagrams = self.datagrams.try_to_listen(config);
        datagrams.map_err(|error| refused(&*error.source))
    }

    /// Listens where a configuration says, in place.
    fn listen(&self, config: &Config) -> Result<(), Problem> {
        let refused = |error: &dyn std::error::Error| Problem::new(exit::chain(error));
        let wanted = self.sockets.wanted(config, &self.engine.listening());
        let options = Sockets::options(config);
        let listening = self.engine.set_listeners(&wanted, options);
        listening.map_err(|error| refused(&error))?;
        let datagrams = self.datagrams.adopt(config);
        datagrams.map_err(|error| refused(&*error.source))?;
        let ruled = self.kernel.start(config, &self.builder.view().table);
        ruled.map_err(|error| refused(&*error.source))
    }

    /// Listens and holds addresses as the Services of the cluster say. A place that something else has costs its Service alone.
    async fn follow(&self, cluster: &ClusterServers) -> Result<(), Problem> {
        let _turn = self.turn.lock().await;
        if self.is_handed_over.load(Ordering::Acquire) {
            return Ok(());
        }
        let listening = self.engine.listening();
        let mut unbound = BTreeSet::new();
        for frontend in cluster.learned_frontends() {
            let mut alone = cluster.written();
            alone.frontends = vec![frontend.clone()];
            let is_there = |address| {
                let mut known = listening.iter();
                known.any(|(name, bound)| *name == frontend.name && bound == address)
            };
            let is_all_there = frontend.listen.iter().all(is_there);
            if !is_all_there && self.try_to_listen(&alone).is_err() {
                unbound.insert(Arc::clone(&frontend.name));
            }
        }
        cluster.set_unbound(unbound);
        let whole = cluster.whole();
        let first = self.vips.prepare_first(&whole).await?;
        self.engine.notice();
        self.listen(&whole)?;
        self.vips.apply(&whole, first).await;
        Ok(())
    }
}

/// Follows the Services of the cluster.
async fn follow_bindings(
    bindings: Arc<Bindings>,
    cluster: Arc<ClusterServers>,
    readiness: Readiness,
) {
    let (mut has_served, mut is_good) = (false, true);
    loop {
        // A proxy that serves no Service is as its start, or a reload, has made it.
        has_served |= cluster.serves_any();
        if has_served {
            let result = bindings.follow(&cluster).await;
            let problem = result.err().map(|problem| problem.to_string());
            is_good = problem.is_none();
            readiness.set_reason("services of the cluster", problem);
        }
        tokio::select! {
            () = cluster.places_change() => {}
            () = tokio::time::sleep(AGAIN), if !is_good || cluster.has_unbound() => {}
        }
    }
}

/// Begins to watch whether healthd is there, to probe in its place when it is not.
fn stand_in(config: &Config, link: &Link, context: &Context) -> StandIn {
    let after = config.file.health.stand_in_after.get();
    StandIn::start(Proxy::NAME, link, after, context.readiness.clone())
}

/// The link to healthd, the first table, and what follows clusterd for it.
async fn first_table(
    config: &Config,
    clusterd: ClusterLink,
    members: Members,
) -> (Link, Arc<TableBuilder>, Arc<ClusterServers>) {
    let link = Link::start(config.health(), Proxy::NAME, config.targets());
    let builder = TableBuilder::new(config.clone(), health::first_word(&link).await, secret());
    let servers = ClusterServers::new(members, clusterd, link.clone(), Arc::clone(&builder));
    (link, builder, servers)
}

/// Takes up the decisions of operators, from a predecessor or, without one, from the disk; returns the virtual routers
/// that the predecessor has active.
fn decided_before(
    left: Option<PredecessorState>,
    decisions: &Decisions,
    builder: &TableBuilder,
) -> BTreeSet<Arc<str>> {
    match left {
        Some(left) => left.tell(builder),
        None => {
            decisions.restore();
            BTreeSet::new()
        }
    }
}

/// The process that this one takes over from, if there is one.
async fn find_predecessor(path: Option<PathBuf>) -> Option<Predecessor> {
    let path = path?;
    let asked = tokio::task::spawn_blocking(move || handover::ask(&path)).await;
    match asked {
        Ok(Ok(predecessor)) => predecessor,
        Ok(Err(error)) => {
            tracing::warn!(%error, "The process at the swap socket hands nothing over");
            None
        }
        Err(_) => None,
    }
}

fn open_log(config: &Config) -> Result<Writer, StartError> {
    Writer::start(&config.file.access_log).map_err(|error| {
        let target = &config.file.access_log.target;
        StartError::io(format_args!("access log to {target}"), &error)
    })
}

/// Takes the connections, and the flows of datagrams; the predecessor ends then. It served on
/// while this process started: its last state, if it sends one, is what counts.
async fn take_over(
    predecessor: Predecessor,
    engine: &Arc<Engine>,
) -> Result<(Vec<IncomingFlow>, Option<PredecessorState>), StartError> {
    let engine = Arc::clone(engine);
    let taken = tokio::task::spawn_blocking(move || predecessor.take(&engine)).await;
    match taken {
        Ok(Ok(mut taken)) => {
            let sessions = taken.sessions;
            tracing::info!(sessions, "Took over from the predecessor");
            Ok((taken.flows, PredecessorState::read(&mut taken.state)))
        }
        Ok(Err(error)) => Err(StartError::new(exit::SOFTWARE, error)),
        Err(error) => Err(StartError::new(exit::SOFTWARE, error)),
    }
}

fn relay_options(config: &Config) -> relay::Options {
    relay::Options {
        workers: config.workers(),
        max_connections: config.max_connections(),
        receive_buffer: config.receive_buffer(),
    }
}

/// A number that no client can guess.
fn secret() -> u64 {
    let mut octets = [0; 8];
    // Before the kernel has gathered randomness there is no client to guess it either.
    let _n = rustix::rand::getrandom(&mut octets, rustix::rand::GetRandomFlags::NONBLOCK);
    u64::from_ne_bytes(octets)
}

#[cfg(test)]
mod tests;
