//! The registry's life in its process: it starts the parts in order and ends them.
//!
//! ```text
//! sockets → root (taken over from a predecessor, if there is one) → store → access, TLS, webhooks
//!         → cluster, mirrors → API on its listeners → sweep, scrub, files that are followed
//! ```
//!
//! Requests of clients run on a runtime of their own with one thread per worker; the process's main
//! thread only decides.

mod access;
pub(crate) mod cluster;
mod storage;
mod workers;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use ::config::registry_svc::{RegistrySvc, Webhook};
use api::registry_svc::{Detail, Journal, Recovered, Requests};
use config_text::{counted, counted_as};
use daemon::clock;
use daemon::config::{Common, Problem, Problems};
use daemon::drain::Drain;
use daemon::expiry::Expiries;
use daemon::latest::Latest;
use daemon::listen::{self, Inherited};
use daemon::run::{Context, Service, StartError};
use daemon::succession::{self, Lock, LockError};
use daemon::{exit, readiness::Readiness};
use node_certificate::RenewalCollector;
use registry_auth::Access;
use registry_cluster::Cluster;
use registry_facts::ages::NOTED_EVERY;
use registry_facts::name::NodeName;
use registry_http::counts::Http;
use registry_http::server;
use registry_http::server::Server;
use registry_http::{Api, Limits, Parts};
use registry_mirror::Mirrors;
use registry_store::disk::{Actions, Disk, TimedDisk};
use registry_store::heal;
use registry_store::others::Others;
use registry_store::space::Space;
use registry_store::{Settings, Store, StoreError};
use registry_webhook::Webhooks;
use rustix::process::{Signal, getpid, kill_process};
use rustls::ServerConfig;
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::maintenance::Maintenance;
use crate::metrics::{self, Scrape, Sources, notifications};
use crate::views::Looker;
use crate::{routes, self_check, tls};

use workers::Workers;

pub(crate) use access::{check as check_access, policy};
pub(crate) use cluster::check as check_cluster;
pub(crate) use storage::check as check_storage;

/// How soon `/readyz` tells that the journal has failed.
const LOOK_AT_JOURNAL: Duration = Duration::from_secs(1);

/// The interval of looks for upload sessions without content.
const LOOK_AT_SESSIONS: Duration = Duration::from_mins(1);

/// The interval of notes of the time that ages go by.
const NOTE_TIME: Duration = Duration::from_millis(NOTED_EVERY / 2);

/// How soon `/readyz` tells that content is damaged, or whole again.
const LOOK_AT_DAMAGE: Duration = Duration::from_secs(1);

/// How soon `/readyz` tells that the clock of this node is wrong, or right again.
const LOOK_AT_CLOCK: Duration = Duration::from_secs(1);

/// The interval of looks whether the other nodes have forgotten this one.
const LOOK_AT_STANDING: Duration = Duration::from_secs(1);

/// The name of the listeners among inherited sockets.
pub const SOCKET: &str = "registry";

/// A running registry.
#[derive(Debug)]
pub struct Registry {
    server: Server,
    store: Store,
    /// Records that the start put back from the journal's copy.
    n_put_back: u64,
    /// The damaged journal that was replaced at the start.
    recovered: Option<Recovered>,
    cluster: Option<Cluster>,
    /// Ends what other nodes are served.
    nodes: Drain,
    access: Access,
    limits: Arc<Latest<Limits>>,
    space: Space,
    tls: Option<Arc<Latest<ServerConfig>>>,
    webhooks: Arc<Webhooks>,
    mirrors: Option<Mirrors>,
    http: Http,
    actions: Actions,
    looker: Looker,
    upkeep: Maintenance,
    shown: Arc<Latest<Config>>,
    readiness: Readiness,
    expiries: Expiries,
    followed: Arc<Latest<Vec<JoinHandle<()>>>>,
    /// Dropped last: all its tasks have ended by then.
    workers: Workers,
    /// None on a read-only file system.
    root: Option<Lock>,
}

impl Service for Registry {
    const NAME: &'static str = "registry-svc";
    type Config = Config;
    type Status = Detail;
    type File = RegistrySvc;

    fn common(config: &Config) -> &Common {
        &config.common
    }

    fn file(config: &Config) -> &RegistrySvc {
        &config.file
    }

    fn warnings(config: &Config) -> Vec<String> {
        config.warnings.iter().map(ToString::to_string).collect()
    }

    async fn start(config: Config, context: &mut Context) -> Result<Self, StartError> {
        let listeners = listeners(&config, &mut context.inherited)?;
        let for_nodes = cluster::listeners(&config, &mut context.inherited)?;
        let root = root(&config, context).await?;
        let workers = Workers::start(config.workers())
            .map_err(|error| StartError::io("the data path does not start", &error))?;
        let (http, actions) = (Http::default(), Actions::default());
        let (store, n_put_back, recovered) = open(&workers, &config, &actions).await?;
        let access = Access::new(policy(&config)?);
        let loaded = tls::configured(&config.file);
        let loaded = loaded.map_err(|error| StartError::new(exit::CONFIG, error))?;
        let (tls, certificates) = loaded
            .map(|loaded| (Latest::new(loaded.config), loaded.certificates))
            .unzip();
        let webhooks = webhooks(&config)?;
        let cluster = cluster::start(&config, &store, &workers).await?;
        let limits = Latest::new(limits(&config, &store));
        let parts = Parts {
            store: store.clone(),
            access: access.clone(),
            cluster: cluster.clone(),
            events: webhooks.events(),
            metrics: http.clone(),
        };
        let mirrors = Mirrors::new(parts.store.clone(), &config.file.mirror)
            .map_err(|error| StartError::new(exit::CONFIG, exit::chain(&error)))?;
        let space = Space::new(store.clone(), config.space());
        let api = Api::new(parts, Arc::clone(&limits))
            .mirroring(mirrors.clone())
            .within(space.clone());
        let api = Arc::new(api);
        let (nodes, guard) = Drain::new();
        if let Some(cluster) = &cluster {
            cluster::serve(cluster, for_nodes, &api, guard, &workers).await?;
        }
        check_self(context, &store, &api, &workers);
        let server = serve(&workers, listeners, api, tls.clone(), &config).await?;
        add_connections(context, &server, cluster.as_ref());
        let shown = Latest::new(config);
        let registry = Self {
            server,
            looker: Looker::new(store.clone()),
            upkeep: Maintenance::new(&store, cluster.as_ref(), Some(&space), &shown),
            store,
            n_put_back,
            recovered,
            cluster,
            nodes,
            access,
            limits,
            space,
            tls,
            webhooks: Arc::new(webhooks),
            mirrors,
            http,
            actions,
            readiness: context.readiness.clone(),
            expiries: context.expiries.clone(),
            followed: Latest::new(Vec::new()),
            shown,
            workers,
            root,
        };
        registry.follow(certificates);
        registry.survey();
        registry.tend();
        registry.show(context);
        tracing::info!("Serving: {}", registry.shown.current().summary());
        Ok(registry)
    }

    async fn reload(&self, config: Config) -> Result<String, Problems> {
        let before = self.shown.current();
        // Everything that can be refused is made before anything is taken up.
        let policy = policy(&config)?;
        let loaded = match &self.tls {
            Some(_) => tls::configured(&config.file),
            None => Ok(None),
        };
        let loaded = loaded.map_err(|error| Problem::new(exit::chain(&error)))?;
        if let Some(cluster) = &self.cluster {
            cluster
                .check()
                .map_err(|error| Problem::new(exit::chain(&error)))?;
        }
        if before.file.webhook != config.file.webhook {
            self.tell(config.file.webhook.clone()).await?;
        }
        self.access.adopt(policy);
        let mut certificates = None;
        if let (Some(loaded), Some(cell)) = (loaded, &self.tls) {
            cell.publish(loaded.config);
            certificates = Some(loaded.certificates);
        }
        if let Some(cluster) = &self.cluster {
            cluster::reload(cluster);
        }
        self.limits.publish(limits(&config, &self.store));
        say_read_only(&self.readiness, &self.store, &config);
        self.space.adopt(config.space());
        let summary = config.summary();
        self.shown.publish(config);
        self.follow(certificates);
        Ok(summary)
    }

    fn status(&self) -> Detail {
        let config = self.shown.current();
        let addresses = self.server.addresses();
        Detail {
            listen: addresses.iter().map(ToString::to_string).collect(),
            tls: self.tls.is_some(),
            root: config.file.root.display().to_string(),
            node: node(&config).as_str().to_owned(),
            read_only: self.limits.current().read_only,
            read_only_disk: self.store.is_on_read_only_disk(),
            requests: requests(&self.http),
            held: self
                .looker
                .last()
                .map(|survey| crate::status::held(&survey)),
            cluster: self.cluster.as_ref().map(crate::status::cluster),
            upkeep: self.upkeep.status(),
            damage: crate::status::damage(&self.store),
            journal: Journal {
                kept_twice: self.store.is_journal_copied(),
                records_put_back: self.n_put_back,
            },
            recovered: self.recovered.clone(),
            space: self.space.status(),
            webhooks: crate::status::webhooks(&self.webhooks.status()),
        }
    }

    async fn drain(self, deadline: Duration) -> bool {
        let begun = clock::now();
        for task in self.followed.current().iter() {
            task.abort();
        }
        let Self {
            server,
            store,
            cluster,
            nodes,
            webhooks,
            workers,
            root,
            ..
        } = self;
        let is_drained = workers
            .run(async move { server.drain(deadline).await })
            .await;
        // Other nodes last: they also get the last pushes of clients.
        let left = deadline.saturating_sub(begun.elapsed());
        let is_drained = nodes.finish(left).await && is_drained;
        drop(cluster);
        drop(tokio::task::spawn_blocking(move || drop(webhooks)).await);
        // Acknowledged writes are durable already; this saves the next start some work.
        workers.run(async move { store.close().await }).await;
        let left = deadline.saturating_sub(begun.elapsed()).max(GRACE);
        workers.end(left).await;
        // A process that waits for the root gets it when this process has ended, and nothing of the
        // store is open any more.
        if let Some(root) = root {
            root.keep();
        }
        is_drained
    }
}

/// How often the store's content is added up, when it has changed: every fact is read for it.
const SURVEY: Duration = Duration::from_secs(30);

/// How long blocking work may take after a drain that has used all its time.
const GRACE: Duration = Duration::from_millis(200);

impl Registry {
    /// Follows the files that the configuration names, those of before no longer.
    fn follow(&self, certificates: Option<daemon::tls::Certificates>) {
        let mut tasks = Vec::new();
        if let Some(certificates) = certificates {
            let shown = Arc::new(certificates.clone());
            self.expiries.set("clients", shown);
            tasks.push(tokio::spawn(certificates.follow()));
        }
        let config = self.shown.current();
        if let Some(users) = config.file.access.htpasswd.clone() {
            let followed = access::follow(self.access.clone(), users);
            tasks.push(tokio::spawn(followed));
        }
        if let (Some(cluster), Some(of)) = (&self.cluster, &self.shown.current().file.cluster) {
            let followed = cluster::follow(cluster.clone(), of.files());
            tasks.push(tokio::spawn(followed));
        }
        let before = self.followed.current();
        self.followed.publish(tasks);
        for task in before.iter() {
            task.abort();
        }
    }

    /// Takes up other endpoints.
    async fn tell(&self, settings: Vec<Webhook>) -> Result<(), Problems> {
        let webhooks = Arc::clone(&self.webhooks);
        // Wait for requests that are being written.
        let told = tokio::task::spawn_blocking(move || webhooks.configure(&settings)).await;
        match told {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Problem::new(exit::chain(&error)).into()),
            Err(error) => Err(Problem::new(error.to_string()).into()),
        }
    }

    /// Keeps what is shown of the store's content from growing old.
    fn survey(&self) {
        let looker = self.looker.clone();
        // It ends with the runtime.
        drop(self.workers.handle().spawn(async move {
            loop {
                if let Err(error) = looker.survey().await {
                    tracing::debug!(%error, "The content cannot be added up");
                }
                tokio::time::sleep(SURVEY).await;
            }
        }));
    }

    /// Looks at the room of the disk, and runs what is due, from here on.
    fn tend(&self) {
        let workers = self.workers.handle();
        drop(workers.spawn(self.upkeep.clone().run()));
        drop(workers.spawn(say_failed(self.store.clone(), self.readiness.clone())));
        drop(workers.spawn(say_damaged(self.store.clone(), self.readiness.clone())));
        if let Some(recovered) = &self.recovered {
            let reason = format!(
                "{}; {} were read from it, and {}",
                recovered.damage,
                counted(recovered.records, "record"),
                match self.cluster.is_some() {
                    true => "the rest comes from other nodes",
                    false => "`registry-svc recover` lists what has lost its name",
                },
            );
            self.readiness.set_reason("journal-damaged", Some(reason));
        }
        if let Some(cluster) = &self.cluster {
            drop(workers.spawn(say_clock(cluster.clone(), self.readiness.clone())));
            drop(workers.spawn(say_forgotten(cluster.clone(), self.readiness.clone())));
        }
        // A read-only disk takes no reserve, has no sessions, and nothing on it can be healed.
        if !self.store.is_on_read_only_disk() {
            drop(workers.spawn(expire_sessions(self.store.clone())));
            drop(workers.spawn(note_time(self.store.clone())));
            drop(workers.spawn(self.space.clone().run()));
            let others = self
                .cluster
                .clone()
                .map(|it| Arc::new(it) as Arc<dyn Others>);
            drop(workers.spawn(heal::run(self.store.clone(), others)));
        }
    }

    /// Adds metrics and paths to what the admin listener shows.
    fn show(&self, context: &Context) {
        for address in self.server.addresses() {
            tracing::info!(%address, "Listening");
        }
        let sources = Sources::default();
        let webhooks = Arc::clone(&self.webhooks);
        sources.add(move || notifications(&webhooks.status()));
        if let Some(mirrors) = self.mirrors.clone() {
            sources.add(move || metrics::mirrors(&mirrors));
        }
        let looker = self.looker.clone();
        sources.add(move || looker.last().map_or_else(Vec::new, |it| metrics::held(&it)));
        let store = self.store.clone();
        sources.add(move || metrics::store(&store));
        let upkeep = self.upkeep.clone();
        sources.add(move || upkeep.samples());
        // Distribution's names of its drivers.
        let driver = match self.shown.current().file.s3 {
            Some(_) => "s3aws",
            None => "filesystem",
        };
        context.metrics.register_collector(Box::new(Scrape {
            http: self.http.clone(),
            disk: (driver, self.actions.clone()),
            sources,
        }));
        if let Some(cluster) = &self.cluster {
            metrics::cluster::register(cluster.counters(), &context.metrics);
            if let Some(renewal) = cluster.renewal() {
                let collector = Box::new(RenewalCollector(Arc::clone(renewal)));
                context.metrics.register_collector(collector);
            }
        }
        let heart = self.workers.heartbeat();
        context.progress.register("data path", heart);
        let shown = routes::Shown {
            store: self.store.clone(),
            looker: self.looker.clone(),
            cluster: self.cluster.clone(),
            upkeep: self.upkeep.clone(),
            workers: self.workers.handle().clone(),
        };
        routes::add(&context.admin, &shown);
        succession::offer(context, self.root.as_ref());
        say_read_only(&self.readiness, &self.store, &self.shown.current());
    }
}

/// Takes the root for this process alone; none on a read-only file system, where any number may serve.
async fn root(config: &Config, context: &Context) -> Result<Option<Lock>, StartError> {
    match succession::take(&config.file.root, &config.common, context).await {
        Ok(root) => Ok(Some(root)),
        Err(LockError::Io { source, .. }) if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            tracing::warn!("The root is on a read-only file system: nothing can be pushed");
            Ok(None)
        }
        Err(error) => Err(StartError::new(exit::SOFTWARE, error)),
    }
}

/// The bounds of a configuration for a store, which may be on a read-only file system.
fn limits(config: &Config, store: &Store) -> Limits {
    let mut limits = Limits::of(&config.file);
    limits.read_only |= store.is_on_read_only_disk();
    limits
}

/// Lets the process be asked whether it works: reads its store, and answers a client of its own.
fn check_self(context: &Context, store: &Store, api: &Arc<Api>, workers: &Workers) {
    let (store, api) = (store.clone(), Arc::clone(api));
    let workers = workers.handle().clone();
    context.admin.self_check(move || {
        let checking = self_check::run(store.clone(), Arc::clone(&api));
        let checking = workers.spawn(checking);
        async move { checking.await.map_err(|error| error.to_string())? }
    });
}

fn say_read_only(readiness: &Readiness, store: &Store, config: &Config) {
    let reason = match (store.is_on_read_only_disk(), config.file.read_only) {
        (true, _) => Some("the disk is read-only: ready for pulls, nothing can be pushed"),
        (false, true) => Some("nothing can be pushed"),
        (false, false) => None,
    };
    readiness.set_reason("read-only", reason.map(str::to_owned));
}

/// Says that the journal has failed, once it has. A node that can only be pulled from is better than
/// none, so it stays ready.
async fn say_failed(store: Store, readiness: Readiness) {
    while !store.is_in_doubt() {
        tokio::time::sleep(LOOK_AT_JOURNAL).await;
    }
    let reason = "the journal has failed: nothing is taken until the next start";
    readiness.set_reason("journal", Some(reason.to_owned()));
}

/// Notes how dates of files relate to the time that ages go by.
async fn note_time(store: Store) {
    loop {
        tokio::time::sleep(NOTE_TIME).await;
        if let Err(error) = store.note_time().await {
            tracing::debug!(%error, "The time of the store cannot be noted");
        }
    }
}

/// Ends upload sessions that were begun and have no content. The sweep ends the others.
async fn expire_sessions(store: Store) {
    loop {
        tokio::time::sleep(LOOK_AT_SESSIONS).await;
        store.expire_empty_sessions().await;
    }
}

/// Says how much content is damaged. The rest can be pulled, and other nodes have what is damaged, so
/// the node stays ready.
async fn say_damaged(store: Store, readiness: Readiness) {
    let mut shown = 0;
    loop {
        let n_waiting = store.damaged().n_waiting;
        if n_waiting != shown {
            shown = n_waiting;
            let blobs = counted_as(n_waiting, "blob is", "blobs are");
            let reason = format!("{blobs} damaged or missing, and no other node has given it yet");
            readiness.set_reason("damage", (n_waiting > 0).then_some(reason));
        }
        tokio::time::sleep(LOOK_AT_DAMAGE).await;
    }
}

/// Says that the clock of this node is wrong. Everything works all the same, so the node stays ready.
async fn say_clock(cluster: Cluster, readiness: Readiness) {
    let mut was_wrong = false;
    loop {
        let fault = cluster.clock_fault().map(crate::status::clock);
        let is_wrong = fault.is_some();
        if is_wrong && !was_wrong {
            tracing::error!(
                fault,
                "A clock is wrong; this node dates its records by those of the others"
            );
        } else if was_wrong && !is_wrong {
            tracing::info!("The clocks of the nodes agree again");
        }
        was_wrong = is_wrong;
        readiness.set_reason("clock", fault);
        tokio::time::sleep(LOOK_AT_CLOCK).await;
    }
}

/// Says that the other nodes have forgotten this one, and ends the process so that its next start begins again.
async fn say_forgotten(cluster: Cluster, readiness: Readiness) {
    while !cluster.has_to_begin() {
        tokio::time::sleep(LOOK_AT_STANDING).await;
    }
    let reason = "the other nodes have forgotten this one: it begins again at its next start";
    readiness.set_reason("forgotten", Some(reason.to_owned()));
    if let Err(error) = kill_process(getpid(), Signal::TERM) {
        tracing::error!(%error, "This process cannot be ended: restart it");
    }
}

/// The listeners that were inherited, else new ones.
fn listeners(config: &Config, inherited: &mut Inherited) -> Result<Vec<TcpListener>, StartError> {
    Ok(listen::tcp(inherited, SOCKET, &config.listen())?)
}

/// Has metrics and status show the connections of clients and of nodes, and the end of the node's certificate.
fn add_connections(context: &Context, server: &Server, cluster: Option<&Cluster>) {
    context.connections.add(server.connections());
    if let Some(cluster) = cluster {
        context.connections.add(cluster.connections());
        if let Some(identity) = cluster.identity() {
            context.expiries.set("nodes", Arc::clone(identity) as _);
        }
    }
}

/// Serves clients until the drain.
async fn serve(
    workers: &Workers,
    listeners: Vec<TcpListener>,
    api: Arc<Api>,
    tls: Option<Arc<Latest<ServerConfig>>>,
    config: &Config,
) -> Result<Server, StartError> {
    let settings = server::Settings {
        load_balancers: config.file.accept_proxy_from.0.clone(),
        ..server::Settings::of(&config.file.limits)
    };
    workers
        .run(async move { Server::start(listeners, api, tls, settings) })
        .await
        .map_err(|error| StartError::io("the listeners cannot be served", &error))
}

async fn open(
    workers: &Workers,
    config: &Config,
    actions: &Actions,
) -> Result<(Store, u64, Option<Recovered>), StartError> {
    let settings = store_settings(config);
    let disk = Arc::new(TimedDisk::new(disk(config)?, actions.clone()));
    let opened = workers.run(async move { Store::open(settings, disk).await });
    let (store, recovery) = opened.await.map_err(store_error)?;
    tracing::info!(
        records = recovery.n_records,
        sessions = recovery.n_sessions,
        "The store is open"
    );
    if recovery.has_begun_anew {
        tracing::warn!(
            set_aside = %store.layout().set_aside().display(),
            "The other nodes had forgotten this one, so it begins again: `registry-svc recover` lists images that only this node had"
        );
    }
    // A store that is new has nothing that an index could have been made of.
    if let Some(reason) = recovery.rebuilt.as_ref().filter(|_| recovery.n_records > 0) {
        tracing::info!(reason, "The index was made again from the journal");
    }
    if recovery.n_truncated > 0 {
        let octets = recovery.n_truncated;
        tracing::warn!(
            octets,
            "The journal ended in a torn record, which no client had an acknowledgement of"
        );
    }
    if !recovery.missing.is_empty() {
        let blobs = recovery.missing.len();
        tracing::error!(
            blobs,
            "Blobs are damaged or missing on the disk; registry-svc takes them from other nodes"
        );
    }
    let recovered = recovery.damaged_journal.map(|(damage, salvaged)| {
        tracing::error!(
            damage,
            records = salvaged.n_records,
            lost_bytes = salvaged.n_lost,
            "The journal is damaged: another was made of its whole records"
        );
        Recovered {
            damage,
            set_aside: store.layout().set_aside().display().to_string(),
            records: salvaged.n_records,
        }
    });
    Ok((store, recovery.n_put_back, recovered))
}

/// The disk that a configuration keeps its store on: a directory, or an object store with its
/// listing.
#[cfg(feature = "s3")]
pub(crate) fn disk(config: &Config) -> Result<Arc<dyn Disk>, StartError> {
    let Some(s3) = &config.file.s3 else {
        return Ok(Arc::clone(&config.machine.disk));
    };
    let opened = registry_object_store::ObjectDisk::open(&config.file.root, s3);
    let disk = opened.map_err(|error| StartError::new(exit::SOFTWARE, error))?;
    Ok(Arc::new(disk))
}

/// The disk that a configuration keeps its store on.
#[cfg(not(feature = "s3"))]
pub(crate) fn disk(config: &Config) -> Result<Arc<dyn Disk>, StartError> {
    match &config.file.s3 {
        None => Ok(Arc::clone(&config.machine.disk)),
        Some(_) => {
            let reason = "[s3]: this registry-svc is built without object stores";
            Err(StartError::new(exit::CONFIG, reason))
        }
    }
}

fn webhooks(config: &Config) -> Result<Webhooks, StartError> {
    let instance: Arc<str> = node(config).as_str().into();
    Webhooks::start(&config.file.webhook, &config.file.root, &instance)
        .map_err(|error| StartError::new(exit::SOFTWARE, error))
}

/// How the store of a configuration is opened.
pub(crate) fn store_settings(config: &Config) -> Settings {
    let file = &config.file;
    let peers = config.cluster.iter().flat_map(|cluster| &cluster.peers);
    Settings {
        others: peers.map(|peer| peer.name.clone()).collect(),
        index: file.index.kind,
        index_memory: file.index.cache.get(),
        trial: std::env::current_exe().ok(),
        lease: file.sweep.grace.get(),
        wall: config.machine.wall,
        steady: config.machine.steady,
        ..Settings::new(file.root.clone(), node(config))
    }
}

/// The name of a node without a cluster.
pub(crate) const ALONE: &str = "node";

/// The name of this node; one that stands alone needs none.
pub(crate) fn node(config: &Config) -> NodeName {
    match &config.cluster {
        Some(cluster) => cluster.node.clone(),
        None => ALONE.parse().expect("it is a name"),
    }
}

fn store_error(error: StoreError) -> StartError {
    let code = match &error {
        StoreError::Io { source, .. } => exit::code_of_io(source),
        _ => exit::SOFTWARE,
    };
    StartError::new(code, error)
}

fn requests(http: &Http) -> Requests {
    let (answered, received_bytes, sent_bytes) = http.totals();
    Requests {
        answered,
        received_bytes,
        sent_bytes,
    }
}

#[cfg(test)]
mod tests;
