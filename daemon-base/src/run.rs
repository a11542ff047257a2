//! The one life of a process, the same for every daemon.
//!
//! ```text
//!            ┌───────────┐ start ok  ┌─────────┐ SIGHUP  ┌───────────┐
//! process ──►│ starting  ├──────────►│ serving │◄───────►│ reloading │
//!            └─────┬─────┘  READY=1  └────┬────┘         └─────┬─────┘
//!                  │ SIGTERM              │ SIGTERM            │ SIGTERM
//!                  ▼                      ▼                    │
//!               exit 0               ┌──────────┐              │
//!                                    │ draining │◄─────────────┘   STOPPING=1, a second SIGTERM
//!                                    └────┬─────┘                  or the deadline ends it
//!                                         ▼
//!                                       exit 0
//! ```
//!
//! One thread runs everything that is not on a data path; data paths have threads of their own.

mod life;
mod progress;
mod verbs;

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};

use crate::admin::{Routes, Server, Shared};
use crate::args::{LogArgs, ServeArgs, VERSION};
use crate::config::{Common, Problems};
use crate::listen::{Inherited, ListenError};
use crate::log::LogSettings;
use crate::metrics::{self, Metrics};
use crate::readiness::Readiness;
use crate::signal::{Request, Signals};
use crate::{exit, listen, log, notify};

pub use life::{Life, State};
pub use progress::{Heartbeat, Progress};
pub use verbs::{check, headline, status};

/// The name of the admin listener among inherited sockets.
pub const ADMIN_SOCKET: &str = "admin";

/// Requests for the service's status that may wait; each is one HTTP connection.
const STATUS_QUEUE: usize = 64;

/// How long the outer loop waits for a drain that ignores its deadline.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// How often a slot that shares its sockets tries to take over the admin address.
const ADMIN_RETRY: Duration = Duration::from_millis(500);

/// A daemon, as the life of its process sees it.
pub trait Service: Sized + 'static {
    /// The name on the command line, in logs and in metrics: `dns-authd`.
    const NAME: &'static str;

    /// What the configuration file is parsed into.
    type Config: 'static;

    /// The part of the config that every daemon has.
    fn common(config: &Self::Config) -> &Common;

    /// Opens sockets, loads data, starts to serve. When it returns, the daemon is ready but for the
    /// latches it still holds.
    fn start(
        config: Self::Config,
        context: &mut Context,
    ) -> impl Future<Output = Result<Self, StartError>>;

    /// Takes up a new config as a whole, or changes nothing and says why. `Ok` holds a line for the
    /// log: what is served. The future may be dropped when the process is told to end.
    fn reload(&self, config: Self::Config) -> impl Future<Output = Result<String, Problems>>;

    /// What `/status` shows as `detail`.
    fn status(&self) -> Value {
        Value::Null
    }

    /// Takes no new work, finishes what has begun; true when all of it was finished in time.
    fn drain(self, deadline: Duration) -> impl Future<Output = bool>;
}

/// What a starting service is given.
#[derive(Debug)]
pub struct Context {
    /// Sockets handed over by systemd; those not taken are warned about.
    pub inherited: Inherited,
    /// Where to register metrics.
    pub metrics: Metrics,
    /// Where to say what readiness waits for.
    pub readiness: Readiness,
    /// Where to add paths to the admin listener.
    pub admin: Routes,
    /// Where data paths register their heartbeats.
    pub progress: Progress,
}

impl Context {
    /// A context without a process around it: no admin listener, no inherited sockets. For tests.
    #[must_use]
    pub fn detached(service: &'static str) -> Self {
        Self {
            inherited: Inherited::none(),
            metrics: Metrics::new(service),
            readiness: Readiness::new(),
            admin: Routes::new(),
            progress: Progress::new(),
        }
    }
}

/// Why a service could not start.
#[derive(Debug)]
pub struct StartError {
    /// The exit code.
    pub code: u8,
    /// What went wrong.
    pub source: Box<dyn Error + Send + Sync>,
}

impl StartError {
    /// An error with its exit code.
    pub fn new(code: u8, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            code,
            source: source.into(),
        }
    }

    /// A failure of the system: 77 when it refused, 70 otherwise.
    #[must_use]
    pub fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        Self::new(exit::code_of_io(error), format!("{what}: {error}"))
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("cannot start")
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}

impl From<ListenError> for StartError {
    fn from(error: ListenError) -> Self {
        Self::new(error.code(), error)
    }
}

impl From<Problems> for StartError {
    fn from(problems: Problems) -> Self {
        Self::new(exit::CONFIG, problems)
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::new(exit::code_of_io(&error), error)
    }
}

//--- Serve

/// Lives the whole life of a daemon in the foreground, and returns its exit code.
///
/// `load` reads and parses the configuration: at the start, and again on every reload.
pub fn serve<S: Service>(
    args: &ServeArgs,
    load: impl Fn() -> Result<S::Config, Problems>,
) -> ExitCode {
    log::start(settings(LogSettings::default(), args.log));
    // Before anything else opens a descriptor.
    let inherited = match Inherited::from_env() {
        Ok(inherited) => inherited,
        Err(error) => {
            tracing::error!(%error, "Inherited sockets cannot be taken");
            return exit::code(exit::SOFTWARE);
        }
    };
    let config = match load() {
        Ok(config) => config,
        Err(problems) => {
            report_problems("Configuration refused", &problems);
            return exit::code(exit::CONFIG);
        }
    };
    log::apply(settings(S::common(&config).log, args.log));
    raise_descriptor_limit();
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "Runtime did not start");
            return exit::code(exit::SOFTWARE);
        }
    };
    let code = runtime.block_on(live::<S>(config, inherited, args.log, &load));
    // Blocking tasks that are left have had their deadline.
    runtime.shutdown_background();
    exit::code(code)
}

/// A connection is a descriptor: what the system allows is used, not the lower limit that protects
/// programs that know only a few.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(%error, "The limit of open descriptors stays as it is");
    }
}

/// The command line wins over the file.
fn settings(file: LogSettings, args: LogArgs) -> LogSettings {
    LogSettings {
        level: args.log_level.unwrap_or(file.level),
        format: args.log_format.unwrap_or(file.format),
    }
}

fn report_problems(sentence: &'static str, problems: &Problems) {
    for problem in &problems.0 {
        tracing::error!(%problem, "{sentence}");
    }
}

async fn live<S: Service>(
    config: S::Config,
    inherited: Inherited,
    log_args: LogArgs,
    load: &impl Fn() -> Result<S::Config, Problems>,
) -> u8 {
    let mut signals = match Signals::catch() {
        Ok(signals) => signals,
        Err(error) => {
            tracing::error!(%error, "Signals cannot be caught");
            return exit::SOFTWARE;
        }
    };
    tracing::info!(
        version = VERSION,
        pid = std::process::id(),
        "Starting {}",
        S::NAME
    );
    let common = *S::common(&config);
    let mut host = match Host::open(S::NAME, &common, inherited) {
        Ok(host) => host,
        Err(error) => return failed(&error.into()),
    };
    let starting = host.context.readiness.latch("start");
    let started = tokio::select! {
        biased;
        () = signals.stop() => {
            tracing::info!("Stopped before the start was complete");
            notify::stopping();
            return exit::OK;
        }
        started = S::start(config, &mut host.context) => started,
    };
    let service = match started {
        Ok(service) => service,
        Err(error) => return failed(&error),
    };
    for socket in host.context.inherited.unclaimed() {
        tracing::warn!(socket, "Inherited socket is not served");
    }
    starting.release();
    host.life.set(State::Serving);
    tracing::info!(admin = host.admin.map(tracing::field::display), "Ready");
    notify::ready();
    let deadline = host
        .serve(&service, common, log_args, &mut signals, load)
        .await;
    host.drain(service, deadline, &mut signals).await
}

fn failed(error: &StartError) -> u8 {
    tracing::error!(error = exit::chain(&*error.source), "Start failed");
    notify::status(&format!("start failed: {}", exit::chain(&*error.source)));
    error.code
}

/// The parts of a running daemon that are not the service's own.
struct Host {
    context: Context,
    life: Life,
    admin: Option<SocketAddr>,
    status: mpsc::Receiver<oneshot::Sender<Value>>,
    reloads: Counter<u64>,
    reloads_failed: Counter<u64>,
}

impl Host {
    /// Brings the admin listener up, not ready, and begins to watch for progress.
    fn open(
        name: &'static str,
        common: &Common,
        mut inherited: Inherited,
    ) -> Result<Self, ListenError> {
        let metrics = Metrics::new(name);
        let readiness = Readiness::new();
        let (reloads, reloads_failed) = register(&metrics, &readiness);
        let routes = Routes::new();
        let life = Life::new();
        let progress = Progress::new();
        let (sender, status) = mpsc::channel(STATUS_QUEUE);
        let shared = Arc::new(Shared {
            service: name,
            started: now(),
            life: life.clone(),
            readiness: readiness.clone(),
            metrics: metrics.clone(),
            progress: progress.clone(),
            routes: routes.clone(),
            status: sender,
        });
        let admin = open_admin(shared, common.admin, &mut inherited)?;
        tokio::spawn(progress::watch(progress.clone(), readiness.clone()));
        Ok(Self {
            context: Context {
                inherited,
                metrics,
                readiness,
                admin: routes,
                progress,
            },
            life,
            admin,
            status,
            reloads,
            reloads_failed,
        })
    }

    /// Serves until asked to stop; returns how long the drain may take.
    async fn serve<S: Service>(
        &mut self,
        service: &S,
        mut common: Common,
        log_args: LogArgs,
        signals: &mut Signals,
        load: &impl Fn() -> Result<S::Config, Problems>,
    ) -> Duration {
        loop {
            tokio::select! {
                biased;
                request = signals.next() => match request {
                    Request::Stop => return common.drain,
                    Request::Reload => {
                        self.life.set(State::Reloading);
                        notify::reloading();
                        let reloaded = self.reload(service, &mut common, log_args, load);
                        let stopped = tokio::select! {
                            biased;
                            () = signals.stop() => true,
                            () = reloaded => false,
                        };
                        if stopped {
                            return common.drain;
                        }
                        self.life.set(State::Serving);
                        notify::ready();
                    }
                },
                Some(asked) = self.status.recv() => {
                    // Who asked may have gone.
                    drop(asked.send(service.status()));
                }
            }
        }
    }

    /// Reads everything again and swaps once, or keeps what is.
    async fn reload<S: Service>(
        &mut self,
        service: &S,
        common: &mut Common,
        log_args: LogArgs,
        load: &impl Fn() -> Result<S::Config, Problems>,
    ) {
        let begun = now();
        let config = match load() {
            Ok(config) => config,
            Err(problems) => return self.refuse_reload(&problems),
        };
        let new = *S::common(&config);
        let mut reloading = pin!(service.reload(config));
        let reloaded = loop {
            tokio::select! {
                biased;
                reloaded = &mut reloading => break reloaded,
                Some(asked) = self.status.recv() => drop(asked.send(service.status())),
            }
        };
        match reloaded {
            Ok(summary) => {
                log::apply(settings(new.log, log_args));
                if new.admin != common.admin {
                    tracing::warn!("The admin listener's address changes with the next restart");
                }
                *common = Common {
                    admin: common.admin,
                    ..new
                };
                self.reloads.inc();
                self.context.readiness.set_reason("reload", None);
                let took = begun.elapsed();
                tracing::info!(?took, "Reloaded: {summary}");
            }
            Err(problems) => self.refuse_reload(&problems),
        }
    }

    fn refuse_reload(&self, problems: &Problems) {
        self.reloads_failed.inc();
        report_problems("Reload refused, nothing has changed", problems);
        let first = problems.0.first().map(ToString::to_string);
        self.context.readiness.set_reason(
            "reload",
            Some(format!(
                "refused, {} problems, the first: {}",
                problems.0.len(),
                first.unwrap_or_default()
            )),
        );
    }

    /// Ends the service within its deadline.
    async fn drain<S: Service>(
        &mut self,
        service: S,
        deadline: Duration,
        signals: &mut Signals,
    ) -> u8 {
        self.life.set(State::Draining);
        let latch = self.context.readiness.latch("end of the process");
        notify::stopping();
        tracing::info!(?deadline, "Draining");
        let begun = now();
        let drained = tokio::time::timeout(deadline + DRAIN_GRACE, service.drain(deadline));
        tokio::select! {
            biased;
            () = signals.stop() => tracing::warn!("Asked again to stop; ending at once"),
            drained = drained => match drained {
                Ok(true) => tracing::info!(took = ?begun.elapsed(), "Drained"),
                Ok(false) | Err(_) => tracing::warn!(?deadline, "Drain ran out of time"),
            },
        }
        latch.release();
        exit::OK
    }
}

fn register(metrics: &Metrics, readiness: &Readiness) -> (Counter<u64>, Counter<u64>) {
    let reloads = Counter::default();
    let reloads_failed = Counter::default();
    metrics.register(metrics::RELOADS, "Reloads taken up", reloads.clone());
    metrics.register(
        metrics::RELOADS_FAILED,
        "Reloads refused because of a problem",
        reloads_failed.clone(),
    );
    metrics.register_collector(Box::new(metrics::ReadinessCollector::new(
        readiness.clone(),
    )));
    (reloads, reloads_failed)
}

//--- Admin

/// Opens the admin listener. Two slots of one service overlap while one takes over from the other:
/// then the address may still be taken, and the newcomer goes on without until it is free.
fn open_admin(
    shared: Arc<Shared>,
    address: Option<SocketAddr>,
    inherited: &mut Inherited,
) -> Result<Option<SocketAddr>, ListenError> {
    let Some(address) = address else {
        return Ok(None);
    };
    match listen::tcp(inherited, ADMIN_SOCKET, &[address]) {
        Ok(listeners) => {
            let local = listeners
                .first()
                .and_then(|listener| listener.local_addr().ok());
            if local.is_some_and(|local| !local.ip().is_loopback()) {
                tracing::warn!(?local, "The admin listener can be reached from other nodes");
            }
            for listener in listeners {
                let listener = tokio::net::TcpListener::from_std(listener);
                let listener = listener.map_err(|source| ListenError {
                    transport: listen::Transport::Tcp,
                    address,
                    owner: None,
                    source,
                })?;
                tokio::spawn(Server::new(Arc::clone(&shared)).serve(listener));
            }
            Ok(local)
        }
        Err(error) if inherited.any() && error.source.kind() == io::ErrorKind::AddrInUse => {
            tracing::info!(%error, "The admin address is taken over when it is free");
            tokio::spawn(async move {
                let listener = loop {
                    tokio::time::sleep(ADMIN_RETRY).await;
                    if let Ok(listener) = tokio::net::TcpListener::bind(address).await {
                        break listener;
                    }
                };
                tracing::info!(%address, "Admin listener is up");
                Server::new(shared).serve(listener).await;
            });
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the life of a process is measured"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests;
