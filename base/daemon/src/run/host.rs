//! A running daemon but for its service: the admin listener, signals, reloads and the drain.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::{
    ADMIN_SOCKET, Context, Life, Predecessor, Progress, Service, StartError, State,
    report_problems, settings,
};
use crate::accept::Peer;
use crate::admin::{Caller, Routes, Server, Shared};
use crate::args::{LogArgs, SlotArgs};
use crate::caller::Access;
use crate::clock;
use crate::config::{Common, Problems, warn_of_restart};
use crate::connections::{StreamsCollector, Table};
use crate::listen::path::{self, Bound};
use crate::listen::{Inherited, ListenError};
use crate::metrics::{self, Metrics};
use crate::promise::Promises;
use crate::readiness::Readiness;
use crate::signal::{Request, Signals};
use crate::{exit, listen, log, notify, progress};

/// Requests for the service's status that may wait; each is one HTTP connection.
const STATUS_QUEUE: usize = 64;

/// How long the outer loop waits for a drain that ignores its deadline.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// How often a slot that shares its sockets tries to take over the admin address.
const ADMIN_RETRY: Duration = Duration::from_millis(500);

/// How long a process with inherited sockets takes it that another one serves, when none has the admin address: one
/// that has just taken over itself tries for it only now and then.
const UNSEEN_PREDECESSOR: Duration = Duration::from_secs(5);

/// The parts of a running daemon that are not the service's own.
pub(super) struct Host {
    pub(super) context: Context,
    admin: Option<SocketAddr>,
    /// True once start-up is complete.
    announced: bool,
    status: mpsc::Receiver<oneshot::Sender<Value>>,
    reloads: Counter<u64>,
    reloads_failed: Counter<u64>,
    /// The socket of this process's own; its file goes with it.
    _own: Option<Bound>,
}

/// The configuration before a reload.
pub(super) struct Before<S: Service> {
    /// The newest one that is served.
    pub(super) common: Common,
    /// That of the start, for the keys that a reload cannot change.
    pub(super) started_with: S::File,
}

/// How the process is to end.
pub(super) struct End {
    /// How long the drain may take.
    pub(super) deadline: Duration,
    /// The exit code.
    pub(super) code: u8,
}

impl Host {
    /// Brings the admin listener up, not ready, and begins to watch for progress.
    pub(super) fn open(
        name: &'static str,
        common: &Common,
        mut inherited: Inherited,
        takes_over: bool,
        slot: &SlotArgs,
    ) -> Result<Self, StartError> {
        let metrics = Metrics::new(name);
        let readiness = Readiness::new();
        let (reloads, reloads_failed) = register(&metrics, &readiness);
        let routes = Routes::new();
        let life = Life::new();
        let progress = Progress::new();
        let (sender, status) = mpsc::channel(STATUS_QUEUE);
        let connections = Table::default();
        metrics.register_collector(Box::new(StreamsCollector(connections.clone())));
        #[cfg(feature = "tls")]
        let expiries = watch_expiries(&metrics, &readiness);
        let refused = Counter::default();
        metrics.register(
            metrics::ADMIN_REFUSED,
            "Changes that the caller had no right to",
            refused.clone(),
        );
        let slot = SlotArgs {
            slot: slot.slot.clone(),
            admin_socket: absolute(slot.admin_socket.as_deref())?,
        };
        let own = slot.admin_socket.as_deref();
        let shared = Arc::new(Shared {
            service: name,
            slot: slot.slot.clone(),
            socket: own.map(|path| path.display().to_string()),
            started: clock::now(),
            life: life.clone(),
            readiness: readiness.clone(),
            metrics: metrics.clone(),
            progress: progress.clone(),
            routes: routes.clone(),
            refused,
            connections: connections.clone(),
            status: sender,
        });
        let own = own.map(|path| open_own(&shared, path)).transpose()?;
        let (admin, predecessor) = open_admin(shared, common.admin, &mut inherited, takes_over)?;
        tokio::spawn(progress::watch(progress.clone(), readiness.clone()));
        Ok(Self {
            context: Context {
                inherited,
                metrics,
                readiness,
                admin: routes,
                progress,
                slot,
                life,
                predecessor,
                promises: Promises::default(),
                connections,
                #[cfg(feature = "tls")]
                expiries,
            },
            admin,
            announced: false,
            status,
            reloads,
            reloads_failed,
            _own: own,
        })
    }

    /// Serves until a signal tells it to stop or the service has failed.
    pub(super) async fn serve<S: Service>(
        &mut self,
        service: &S,
        mut before: Before<S>,
        log_args: LogArgs,
        signals: &mut Signals,
        load: &impl Fn() -> Result<S::Config, Problems>,
    ) -> End {
        let mut failure = pin!(service.failure());
        loop {
            let request = tokio::select! {
                biased;
                request = signals.next() => request,
                error = &mut failure => {
                    let told = exit::chain(&*error);
                    tracing::error!(error = told, "The service cannot continue");
                    notify::status(&format!("failed: {told}"));
                    let (deadline, code) = (before.common.drain, exit::SOFTWARE);
                    return End { deadline, code };
                }
                () = self.context.readiness.released(), if !self.announced => {
                    self.announce();
                    continue;
                }
                Some(asked) = self.status.recv() => {
                    // The client may have gone.
                    answer(asked, service);
                    continue;
                }
            };
            match request {
                Request::Stop => return End::asked(&before.common),
                Request::Reload => {}
            }
            loop {
                self.context.life.set(State::Reloading);
                notify::reloading();
                let reloading = self.reload(service, &mut before, log_args, load);
                let meanwhile = listen_while(signals, reloading).await;
                if meanwhile == Some(Request::Stop) {
                    return End::asked(&before.common);
                }
                self.reloaded();
                // Another SIGHUP came meanwhile: the files may have changed since.
                if meanwhile.is_none() {
                    break;
                }
            }
        }
    }

    /// Start-up is complete: tells the service manager.
    fn announce(&mut self) {
        self.announced = true;
        self.context.life.set(State::Serving);
        tracing::info!(admin = self.admin.map(tracing::field::display), "Ready");
        notify::ready();
        self.look_at_expiries();
    }

    /// A reload has come to its end, whichever.
    fn reloaded(&self) {
        if self.announced {
            self.context.life.set(State::Serving);
            notify::ready();
            self.look_at_expiries();
        } else {
            self.context.life.set(State::Starting);
        }
    }

    /// Warns of certificates that end soon: those that have just been read are among them.
    fn look_at_expiries(&self) {
        #[cfg(feature = "tls")]
        self.context.expiries.warn(&self.context.readiness);
    }

    /// Reads everything again and swaps once, or keeps what is.
    async fn reload<S: Service>(
        &mut self,
        service: &S,
        before: &mut Before<S>,
        log_args: LogArgs,
        load: &impl Fn() -> Result<S::Config, Problems>,
    ) {
        let begun = clock::now();
        let config = match load() {
            Ok(config) => config,
            Err(problems) => return self.refuse_reload(&problems),
        };
        super::warn::<S>(&config);
        let (new, file) = (*S::common(&config), S::file(&config).clone());
        let mut reloading = pin!(service.reload(config));
        let reloaded = loop {
            tokio::select! {
                biased;
                reloaded = &mut reloading => break reloaded,
                Some(asked) = self.status.recv() => answer(asked, service),
            }
        };
        match reloaded {
            Ok(summary) => {
                log::apply(settings(new.log, log_args));
                warn_of_restart(&before.started_with, &file);
                if new.admin != before.common.admin {
                    tracing::warn!("The admin listener's address changes with the next restart");
                }
                before.common = Common {
                    admin: before.common.admin,
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
        let reason = match problems.0.len() {
            0 | 1 => format!("refused, {}", first.unwrap_or_default()),
            n => format!(
                "refused, {n} problems, the first: {}",
                first.unwrap_or_default()
            ),
        };
        self.context.readiness.set_reason("reload", Some(reason));
    }

    /// Ends the service within its deadline, and gives the exit code.
    pub(super) async fn drain<S: Service>(
        &mut self,
        service: S,
        end: End,
        signals: &mut Signals,
    ) -> u8 {
        let End { deadline, code } = end;
        self.context.life.set(State::Draining);
        let latch = self.context.readiness.latch("end of the process");
        notify::stopping();
        tracing::info!(?deadline, "Draining");
        let begun = clock::now();
        let drained = tokio::time::timeout(deadline + DRAIN_GRACE, service.drain(deadline));
        let code = tokio::select! {
            biased;
            () = signals.stop() => {
                tracing::warn!("Asked again to stop; ending at once");
                code
            }
            drained = drained => {
                match drained {
                    Ok(true) => tracing::info!(took = ?begun.elapsed(), "Drained"),
                    Ok(false) | Err(_) => tracing::warn!(?deadline, "Drain ran out of time"),
                }
                self.context.promises.end(code)
            }
        };
        latch.release();
        code
    }
}

impl End {
    /// A signal asked for it.
    fn asked(common: &Common) -> Self {
        Self {
            deadline: common.drain,
            code: exit::OK,
        }
    }
}

/// The certificates of a process: shown in its metrics, and warned of.
#[cfg(feature = "tls")]
fn watch_expiries(metrics: &Metrics, readiness: &Readiness) -> crate::expiry::Expiries {
    use crate::expiry::{Expiries, ExpiriesCollector};
    let expiries = Expiries::default();
    metrics.register_collector(Box::new(ExpiriesCollector(expiries.clone())));
    tokio::spawn(expiries.clone().watch(readiness.clone()));
    expiries
}

/// Waits for a reload to end and hears signals meanwhile: at once a request to stop, at the end one
/// for another reload.
async fn listen_while(
    signals: &mut Signals,
    reloading: impl Future<Output = ()>,
) -> Option<Request> {
    let mut reloading = pin!(reloading);
    let mut meanwhile = None;
    loop {
        tokio::select! {
            biased;
            request = signals.next() => match request {
                Request::Stop => return Some(Request::Stop),
                Request::Reload => meanwhile = Some(Request::Reload),
            },
            () = &mut reloading => return meanwhile,
        }
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

/// Opens the listener of this very process, which answers whichever process has the admin address.
fn open_own(shared: &Arc<Shared>, path: &Path) -> Result<Bound, StartError> {
    let (listener, bound) = path::listen(path)?;
    let access = Access::to(path)?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let identify =
        move |stream: &tokio::net::UnixStream, _: Peer| Caller::Process(access.role(stream));
    tokio::spawn(Server::new(Arc::clone(shared), "admin-socket").serve(listener, identify));
    Ok(bound)
}

/// The path for other processes, which work in other directories.
fn absolute(path: Option<&Path>) -> io::Result<Option<PathBuf>> {
    path.map(std::path::absolute).transpose()
}

fn from_network(_: &tokio::net::TcpStream, peer: Peer) -> Caller {
    Caller::Network(peer)
}

/// Opens the admin listener. Two slots of one service overlap while one takes over from the other:
/// then the address may still be taken, and the newcomer continues without it until it is free. The address
/// also tells whether another process serves from inherited sockets: that one has it, unless it is inherited too.
fn open_admin(
    shared: Arc<Shared>,
    address: Option<SocketAddr>,
    inherited: &mut Inherited,
    takes_over: bool,
) -> Result<(Option<SocketAddr>, Predecessor), ListenError> {
    let shares = inherited.any();
    let Some(address) = address else {
        return Ok((None, Predecessor::new(shares).1));
    };
    let is_inherited = inherited.has(ADMIN_SOCKET);
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
                tokio::spawn(
                    Server::new(Arc::clone(&shared), "admin").serve(listener, from_network),
                );
            }
            let (end, predecessor) = Predecessor::new(shares);
            if shares && !is_inherited {
                tokio::spawn(async move {
                    tokio::time::sleep(UNSEEN_PREDECESSOR).await;
                    end.send_replace(false);
                });
            }
            Ok((local, predecessor))
        }
        Err(error) if takes_over && error.source.kind() == io::ErrorKind::AddrInUse => {
            tracing::info!(%error, "The admin address is taken over when it is free");
            let (end, predecessor) = Predecessor::new(shares);
            tokio::spawn(async move {
                let listener = loop {
                    tokio::time::sleep(ADMIN_RETRY).await;
                    if let Ok(listener) = tokio::net::TcpListener::bind(address).await {
                        break listener;
                    }
                };
                tracing::info!(%address, "Admin listener is up");
                end.send_replace(false);
                Server::new(shared, "admin")
                    .serve(listener, from_network)
                    .await;
            });
            Ok((None, predecessor))
        }
        Err(error) => Err(error),
    }
}

/// Answers `/status`.
fn answer<S: Service>(asked: oneshot::Sender<Value>, service: &S) {
    // A status that is no JSON is none: the rest of the answer still says what runs.
    let detail = serde_json::to_value(service.status()).unwrap_or_default();
    // The client may have left.
    drop(asked.send(detail));
}
