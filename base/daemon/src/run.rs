//! The one life of a process, the same for every daemon.
//!
//! ```text
//!            ┌───────────┐ start ok  ┌─────────┐ SIGHUP  ┌───────────┐
//! process ──►│ starting  ├──────────►│ serving │◄───────►│ reloading │
//!            └─────┬─────┘  READY=1  └────┬────┘         └─────┬─────┘
//!                  │ SIGTERM              │ SIGTERM, failure   │ SIGTERM
//!                  ▼                      ▼                    │
//!               exit 0               ┌──────────┐              │
//!                                    │ draining │◄─────────────┘   STOPPING=1, a second SIGTERM
//!                                    └────┬─────┘                  or the deadline ends it
//!                                         ▼
//!                            exit 0, 70 after a failure, or 75 when the successor that asked has gone
//! ```
//!
//! One thread runs everything that is not on a data path; data paths have threads of their own.
//!
//! A daemon declares its parts, and this module does the rest the same way for all:
//!
//! | declared | done with it |
//! | --- | --- |
//! | [`Service::common`] | log, admin listener, deadline of the drain |
//! | [`Service::file`] | a reload logs the keys that changed and wait for a restart |
//! | [`Service::warnings`] | logged at the start and at each reload |
//! | [`Service::status`], [`Context::admin`] | `/status`, the service's own paths and its self-check |
//! | [`Context::progress`] | `/livez`, readiness and the watchdog follow its heartbeats |
//! | [`Service::failure`], [`Service::drain`] | the end of the process and its exit code |

mod host;
mod predecessor;
mod verbs;

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::runtime::Builder;

use crate::admin::Routes;
use crate::args::{LogArgs, ServeArgs, SlotArgs, VERSION};
use crate::config::{Common, Problems};
use crate::connections::Table;
use crate::listen::path::SocketError;
use crate::listen::{Inherited, ListenError};
use crate::log::LogSettings;
use crate::metrics::Metrics;
use crate::promise::Promises;
use crate::readiness::Readiness;
use crate::signal::Signals;
use crate::{exit, log, notify};

use host::{Before, Host};

pub use crate::life::{Life, State};
pub use crate::progress::{Beats, Heartbeat, Progress};
pub use predecessor::Predecessor;
pub use verbs::{ask, check, explain, headline, import, import_text, status, verb};

/// The name of the admin listener among inherited sockets.
pub const ADMIN_SOCKET: &str = "admin";

/// A daemon, as the life of its process sees it.
pub trait Service: Sized + 'static {
    /// The name on the command line, in logs and in metrics: `dns-authd`.
    const NAME: &'static str;

    /// The parsed configuration file.
    type Config: 'static;

    /// The service's own part of `/status`: its module of `api`.
    type Status: Serialize;

    /// The configuration file as it was read. Its type says which keys only a restart takes up; `()` says none.
    type File: Clone + Serialize + JsonSchema;

    /// The part of the config that every daemon has.
    fn common(config: &Self::Config) -> &Common;

    /// The file of a config.
    fn file(config: &Self::Config) -> &Self::File;

    /// The parts of a config that are legal and likely wrong, a line each.
    fn warnings(_config: &Self::Config) -> Vec<String> {
        Vec::new()
    }

    /// True when another process of the service may be there, from which this one takes over: the admin
    /// address is its own until it has gone, and is taken over then.
    fn takes_over(_config: &Self::Config) -> bool {
        false
    }

    /// Opens sockets, loads data, starts to serve. When it has returned and the last latch is
    /// released, the daemon is ready and `READY=1` is sent.
    fn start(
        config: Self::Config,
        context: &mut Context,
    ) -> impl Future<Output = Result<Self, StartError>>;

    /// Takes up a new config as a whole, or changes nothing and says why. `Ok` holds a line for the
    /// log about the served data. The future may be dropped when the process has to end.
    fn reload(&self, config: Self::Config) -> impl Future<Output = Result<String, Problems>>;

    /// Returns the `detail` of `/status`.
    fn status(&self) -> Self::Status;

    /// Comes when the service cannot continue, with the reason: the process drains and ends with an
    /// error, so that its service manager starts another one. By default it never comes.
    fn failure(&self) -> impl Future<Output = Box<dyn Error + Send + Sync>> {
        std::future::pending()
    }

    /// Takes no new work, finishes what has begun; true when all of it was finished in time.
    fn drain(self, deadline: Duration) -> impl Future<Output = bool>;
}

/// The parts of the process that a starting service uses.
#[derive(Debug)]
pub struct Context {
    /// Sockets handed over by systemd; those not taken are warned about.
    pub inherited: Inherited,
    /// The metrics, to register them.
    pub metrics: Metrics,
    /// The reasons that readiness waits for.
    pub readiness: Readiness,
    /// The paths of the admin listener, to add to them.
    pub admin: Routes,
    /// The heartbeats of data paths, to register them.
    pub progress: Progress,
    /// The slot of this process.
    pub slot: SlotArgs,
    /// The state of this process's life.
    pub life: Life,
    /// Another process that may serve from the same sockets.
    pub predecessor: Predecessor,
    /// The promise to a successor, if one has asked.
    pub promises: Promises,
    /// The connections of listeners, to add them.
    pub connections: Table,
    /// The certificates in use, to add them.
    #[cfg(feature = "tls")]
    pub expiries: crate::expiry::Expiries,
}

impl Context {
    /// Whether this process takes over from one that still serves: both have the same sockets, or each a slot.
    pub(crate) fn takes_over(&self) -> bool {
        self.inherited.any() || self.slot.slot.is_some()
    }

    /// A context without a process around it: no admin listener, no inherited sockets. For tests.
    #[must_use]
    pub fn detached(service: &'static str) -> Self {
        Self {
            inherited: Inherited::none(),
            metrics: Metrics::new(service),
            readiness: Readiness::new(),
            admin: Routes::new(),
            progress: Progress::new(),
            slot: SlotArgs::default(),
            life: Life::new(),
            predecessor: Predecessor::none(),
            promises: Promises::default(),
            connections: Table::default(),
            #[cfg(feature = "tls")]
            expiries: crate::expiry::Expiries::default(),
        }
    }
}

/// Why a service could not start.
#[derive(Debug)]
pub struct StartError {
    /// The exit code.
    pub code: u8,
    /// The cause.
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

impl From<SocketError> for StartError {
    fn from(error: SocketError) -> Self {
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
/// `load` reads and parses the configuration that the arguments name: at the start, and again on every
/// reload.
pub fn serve<S: Service, C: clap::Args>(
    args: &ServeArgs<C>,
    load: impl Fn(&C) -> Result<S::Config, Problems>,
) -> ExitCode {
    let load = || load(&args.config);
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
    let code = runtime.block_on(live::<S>(config, inherited, (args.log, &args.slot), &load));
    // Blocking tasks that are left have had their deadline.
    runtime.shutdown_background();
    exit::code(code)
}

/// Raises the limit of open descriptors to the most that the system allows: each connection is one. The lower
/// limit protects programs that know only a few.
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
    (log, slot): (LogArgs, &SlotArgs),
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
        slot = slot.slot,
        "Starting {}",
        S::NAME
    );
    let common = *S::common(&config);
    let started_with = S::file(&config).clone();
    warn::<S>(&config);
    let takes_over = inherited.any() || slot.slot.is_some() || S::takes_over(&config);
    let mut host = match Host::open(S::NAME, &common, inherited, takes_over, slot) {
        Ok(host) => host,
        Err(error) => return failed(&error),
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
    let before = Before::<S> {
        common,
        started_with,
    };
    let end = host.serve(&service, before, log, &mut signals, load).await;
    host.drain(service, end, &mut signals).await
}

fn warn<S: Service>(config: &S::Config) {
    for warning in S::warnings(config) {
        tracing::warn!("{warning}");
    }
}

fn failed(error: &StartError) -> u8 {
    let told = match error.source.downcast_ref::<Problems>() {
        Some(problems) => {
            report_problems("Start failed", problems);
            problems
                .0
                .first()
                .map(ToString::to_string)
                .unwrap_or_default()
        }
        None => {
            let told = exit::chain(&*error.source);
            tracing::error!(error = told, "Start failed");
            told
        }
    };
    notify::status(&format!("start failed: {told}"));
    error.code
}

#[cfg(test)]
mod tests;
