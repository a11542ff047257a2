//! The daemon: it opens listeners and the state at the start, applies a reload, and saves at the end.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ::config::healthd::Healthd as HealthdFile;
use api::healthd::Detail;
use config_text::{counted, counted_as};
use daemon::admin::Routes;
use daemon::clock;
use daemon::config::{Common, Problem, Problems};
use daemon::drain::Drain;
use daemon::listen::path::Bound;
use daemon::readiness::Readiness;
use daemon::run::{Context, Service, StartError};
use daemon::succession::{self, Lock, LockError};
use durable::state::Loaded;
use parking_lot::Mutex;
use proto::health::{Target, Watched};
use proto::wire::{self, health_server::Health as _};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::collector::TargetCollector;
use crate::config::{Config, ExchangeConfig};
use crate::driver::Driver;
use crate::grpc::{HealthApi, warn_of_waiting};
use crate::listener::Listeners;
use crate::metrics::Counters;
use crate::page::Page;
use crate::page::nodes::NodeView;
use crate::page::published::Published;
use crate::page::services::{Asker, Listeners as ServiceListeners};
use crate::peers::{Exchange, NodeCertificate};
use crate::saver::Saver;
use crate::state::{self, Store};
use crate::{explain, marks, status, view};
use liveness::monitor::{Limits, Restored, Statement, SubscriberId};

/// Descriptors that are not probes': listeners, subscribers, files.
const SPARE_DESCRIPTORS: u64 = 256;

/// The name that healthd lists for the targets of its own file.
const CONFIGURATION: &str = "configuration";

/// How much of the drain is the last write's, of half of it at most: a disk that others write to as well takes
/// seconds, and what it does not take is forgotten.
const LAST_SAVE: Duration = Duration::from_secs(5);

/// healthd while it runs.
#[derive(Debug)]
pub struct Healthd {
    driver: Driver,
    saver: Saver,
    drain: Drain,
    /// Holds the configured targets.
    configured: SubscriberId,
    certificate: NodeCertificate,
    /// The number of the last statement of configured targets.
    n_statements: Mutex<u64>,
    max_series: Arc<AtomicUsize>,
    names: Vec<String>,
    bound: Vec<Bound>,
    /// The state directory, which one process writes; none where it cannot be written anyway.
    lock: Option<Lock>,
}

impl Service for Healthd {
    const NAME: &'static str = "healthd";

    type Config = Config;
    type Status = Detail;
    type File = HealthdFile;

    fn common(config: &Config) -> &Common {
        &config.common
    }

    fn file(config: &Config) -> &HealthdFile {
        &config.file
    }

    async fn start(config: Config, context: &mut Context) -> Result<Self, StartError> {
        let lock = take_state(&config, context).await?;
        // Its predecessor holds the socket and the port until then, where systemd does not.
        let listeners = Listeners::open(&mut context.inherited, &config.file.listen)?;
        let services = ServiceListeners::of(&config.file, config.common.admin);
        let asker = Arc::new(Asker::new(services));
        let node_names = node_names(config.exchange.as_ref());
        let peers = peer_names(config.exchange.as_ref());
        let exchange = config.exchange.clone();
        let exchange = exchange.map(|exchange| Exchange::open(exchange, context));
        let exchange = exchange.transpose()?;
        let published = config.file.page.tls.clone();
        let published = published
            .map(|tls| Published::open(tls, config.file.renewal.clone(), context))
            .transpose()?;
        let store = open_store(&config.file.state)?;
        let limits = within_descriptors(config.limits());
        let restored = restore(&store, &context.readiness);
        let counters = Counters::default();
        counters.register(&context.metrics);
        let driver = Driver::new(limits, config.schedules, restored, counters);
        let (configured, n_waiting) = driver.step(|monitor, now| {
            let id = monitor.open(now);
            (id, monitor.state(id, statement(1, config.targets), now))
        });
        warn_of_waiting(&driver, configured, CONFIGURATION, n_waiting);
        let (drain, guard) = Drain::new();
        let readiness = context.readiness.clone();
        let certificate = exchange.map(|exchange| {
            let view = NodeView::new(driver.clone(), Arc::clone(&asker), readiness);
            exchange.start(&driver, view, context, &guard)
        });
        drop(driver.run());
        context.progress.register("engine", driver.heartbeat());
        let max_series = Arc::new(AtomicUsize::new(config.file.metrics.targets));
        let collector = TargetCollector::new(driver.clone(), Arc::clone(&max_series));
        context.metrics.register_collector(Box::new(collector));
        let saver = Saver::start(store, driver.clone(), context.readiness.clone());
        let names = listeners.names();
        let page = Page::new(driver.clone(), &names, node_names, asker, peers);
        page.add_to(&context.admin);
        if let Some(published) = published {
            let counters = driver.counters().clone();
            published.start(page, counters, context, &guard);
        }
        marks::add(&context.admin, &driver);
        explain::add(&context.admin, &driver);
        succession::offer(context, lock.as_ref());
        check_self(&context.admin, &driver);
        let bound = listeners.serve(&driver, &context.connections, &guard)?;
        tracing::info!(
            listeners = names.join(" "),
            "Serving {}",
            driver.look(status::serves)
        );
        Ok(Self {
            driver,
            saver,
            drain,
            configured,
            certificate: certificate.unwrap_or_default(),
            n_statements: Mutex::new(1),
            max_series,
            names,
            bound,
            lock,
        })
    }

    async fn reload(&self, config: Config) -> Result<String, Problems> {
        // First, as it may be refused: then nothing is changed.
        self.certificate
            .reload()
            .map_err(|error| Problem::new(daemon::exit::chain(&error)))?;
        let limits = within_descriptors(config.limits());
        let n_targets = config.targets.len();
        let mut number = self.n_statements.lock();
        *number += 1;
        let n_waiting = self.driver.step(|monitor, now| {
            monitor.set_limits(limits, now);
            monitor.set_schedules(config.schedules, now);
            monitor.state(self.configured, statement(*number, config.targets), now)
        });
        drop(number);
        warn_of_waiting(&self.driver, self.configured, CONFIGURATION, n_waiting);
        self.max_series
            .store(config.file.metrics.targets, Ordering::Relaxed);
        let serves = self.driver.look(status::serves);
        let configured = counted_as(n_targets, "target configured", "targets configured");
        Ok(match n_waiting {
            0 => format!("{configured}, {serves} in all"),
            _ => format!("{configured}, {n_waiting} of them without room, {serves} in all"),
        })
    }

    fn status(&self) -> Detail {
        view::detail(&self.driver, &self.names).0
    }

    async fn drain(self, deadline: Duration) -> bool {
        // A successor reads the state once this process has ended, and not before: a write that has begun
        // continues although no task waits for it.
        if let Some(lock) = self.lock {
            lock.keep();
        }
        let last_save = LAST_SAVE.min(deadline / 2);
        let left = self.drain.finish(deadline.saturating_sub(last_save)).await;
        let saved = self.saver.finish(last_save).await;
        drop(self.bound);
        left && saved
    }
}

impl Healthd {
    /// The addresses that subscribers connect to.
    #[must_use]
    pub fn listeners(&self) -> &[String] {
        &self.names
    }
}

/// Lets the process be asked whether it works: whether it lists what it knows, as it would to anybody.
fn check_self(admin: &Routes, driver: &Driver) {
    let driver = driver.clone();
    admin.self_check(move || {
        let (_drain, guard) = Drain::new();
        let api = HealthApi::new(driver.clone(), guard);
        async move {
            let listed = api.list(tonic::Request::new(wire::ListRequest::default()));
            let listed = listed.await.map_err(|status| status.to_string())?;
            let listed = listed.into_inner();
            Ok(format!(
                "lists {} of generation {}",
                counted(listed.targets.len(), "target"),
                listed.generation
            ))
        }
    });
}

fn open_store(directory: &Path) -> Result<Store, StartError> {
    state::open(directory).map_err(|error| {
        let what = format!("cannot make {}", directory.display());
        StartError::io(what, &error)
    })
}

/// The names of the other nodes, in the order of the exchange.
fn peer_names(exchange: Option<&ExchangeConfig>) -> Vec<String> {
    let peers = exchange.into_iter().flat_map(|exchange| &exchange.peers);
    peers.map(|peer| peer.name.to_string()).collect()
}

/// The names of the other nodes by their addresses, as far as the file has addresses.
fn node_names(exchange: Option<&ExchangeConfig>) -> BTreeMap<IpAddr, String> {
    let peers = exchange.into_iter().flat_map(|exchange| &exchange.peers);
    let named = peers.filter_map(|peer| {
        let address: SocketAddr = peer.address.to_string().parse().ok()?;
        Some((address.ip(), peer.name.to_string()))
    });
    named.collect()
}

/// Takes over the state directory: two healthds would probe everything twice, and each would overwrite the
/// states of the other.
async fn take_state(config: &Config, context: &Context) -> Result<Option<Lock>, StartError> {
    match succession::take(&config.file.state, &config.common, context).await {
        Ok(lock) => Ok(Some(lock)),
        Err(error @ LockError::Held { .. }) => Err(StartError::new(daemon::exit::SOFTWARE, error)),
        Err(error @ LockError::Io { .. }) => {
            let error = daemon::exit::chain(&error);
            tracing::warn!(error, "The state directory is not locked");
            Ok(None)
        }
    }
}

fn statement(number: u64, targets: Vec<Target>) -> Statement {
    Statement {
        subscriber: CONFIGURATION.to_owned(),
        number,
        targets: (1..).zip(targets.into_iter().map(Watched::from)).collect(),
        all: false,
    }
}

/// Takes up what was known before the restart, and says loudly when that cannot be read.
fn restore(store: &Store, readiness: &Readiness) -> Restored {
    let mut restored = match store.load() {
        Loaded::Restored(restored) => {
            let n_targets = restored.known.len();
            tracing::info!(n_targets, "Going on from the states on disk");
            restored
        }
        Loaded::Absent => {
            tracing::info!("No state on disk; nothing is known yet");
            Restored::default()
        }
        Loaded::Refused(refused) => {
            let (path, reason, aside) = (refused.path.display(), &refused.reason, refused.moved());
            tracing::error!(%path, reason, aside, "The state on disk is refused; nothing is known yet");
            readiness.set_reason("old state", Some(refused.to_string()));
            Restored::default()
        }
    };
    restored.generation = clock::first_generation(restored.generation, clock::since_1970());
    restored
}

/// Raises the bound on descriptors as far as the system allows, and keeps probes below it.
fn within_descriptors(limits: Limits) -> Limits {
    let wanted = u64::try_from(limits.in_flight)
        .unwrap_or(u64::MAX)
        .saturating_add(SPARE_DESCRIPTORS);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let mut allowed = current.unwrap_or(u64::MAX);
    if allowed < wanted {
        let raised = maximum.unwrap_or(u64::MAX).min(wanted);
        let limit = Rlimit {
            current: Some(raised),
            maximum,
        };
        if setrlimit(Resource::Nofile, limit).is_ok() {
            allowed = raised;
        }
    }
    let in_flight = allowed.saturating_sub(SPARE_DESCRIPTORS).max(1);
    let in_flight = usize::try_from(in_flight).unwrap_or(usize::MAX);
    if in_flight < limits.in_flight {
        tracing::warn!(
            in_flight,
            allowed,
            "Fewer probes run at a time than configured: file descriptors are limited"
        );
    }
    Limits {
        in_flight: limits.in_flight.min(in_flight),
        ..limits
    }
}

#[cfg(test)]
mod tests;
