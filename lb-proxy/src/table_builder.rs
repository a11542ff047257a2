//! Makes tables: from the configuration, what healthd found and what operators said.
//!
//! ```text
//! configuration ─┐                            ┌─► workers, balancers of datagrams
//! healthd ───────┼─► builder ─► table, whole ──┼─► the kernel's rules
//! operator ──────┘      │                     └─► priorities of virtual IPs
//!                       └─ keeps by name: loads, queues, counters, limits, histories
//! ```
//!
//! Every change makes a new table; the unchanged parts keep their counters, their sessions and their
//! place. Never asks healthd itself, and never touches a socket.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use balance::limits::Limits;
use balance::pool::{Registry, ServerSettings, Settings};
use balance::table::{Backend, Frontend, FrontendTally, Route, Table};
use daemon::clock;
use daemon::decision;
use daemon::latest::{Latest, Reader};
use parking_lot::Mutex;
use proto::health::{AdminState, Liveness, Snapshot, Terms, Watched};
use tls_routes::Routes;

use crate::config::{self, Config, Path};
use crate::server_state::{Decided, History, Override, Verdict};

/// The servers that can be reported to healthd, by backend and server.
pub type Targets = HashMap<(Arc<str>, Arc<str>), Watched>;

/// A server by name: its backend and its own.
pub type ServerKey = (Arc<str>, Arc<str>);

/// Keeps the table up to date.
pub struct TableBuilder {
    inner: Mutex<Inner>,
    cell: Arc<Latest<Table>>,
    targets: Arc<Latest<Targets>>,
    view: Arc<Latest<View>>,
}

/// The sources of a table, and what follows from it.
#[derive(Debug, Default)]
pub struct View {
    /// The table.
    pub table: Arc<Table>,
    /// Each frontend's and backend's name as virtual IPs track it (`frontend:api`), and whether it has
    /// a server to choose.
    pub abilities: BTreeMap<Arc<str>, bool>,
    /// The history of each server.
    pub histories: BTreeMap<ServerKey, History>,
    /// The history of each backend: up as long as it has a server to choose, else down.
    pub backends: BTreeMap<Arc<str>, History>,
    /// The operators' overrides.
    pub overrides: BTreeMap<ServerKey, Override>,
    /// healthd's last findings.
    pub snapshot: Arc<Snapshot>,
    /// The configuration.
    pub config: Option<Arc<Config>>,
}

struct Inner {
    config: Arc<Config>,
    snapshot: Arc<Snapshot>,
    overrides: BTreeMap<ServerKey, Override>,
    registry: Registry,
    histories: BTreeMap<ServerKey, History>,
    /// healthd is connected: its word is the result of its probes now.
    has_healthd: bool,
    /// The servers of which it says something.
    probed: BTreeSet<ServerKey>,
    backends: BTreeMap<Arc<str>, History>,
    frontends: HashMap<Arc<str>, SharedFrontend>,
    /// Secret: decides where sources are in the tables of limits.
    seed: u64,
}

/// The shared parts of successive frontends of one name.
#[derive(Clone, Default)]
struct SharedFrontend {
    tally: Arc<FrontendTally>,
    limits: Option<Arc<Limits>>,
}

/// There is no such server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no server {0}/{1}")]
pub struct NoSuchServer(pub String, pub String);

impl TableBuilder {
    /// Makes the first table. `seed` is secret and random.
    #[must_use]
    pub fn new(config: Config, snapshot: Arc<Snapshot>, seed: u64) -> Arc<Self> {
        let mut inner = Inner::new(config, snapshot, seed);
        let view = inner.make();
        Arc::new(Self {
            cell: Latest::new(Table {
                frontends: view.table.frontends.clone(),
                backends: view.table.backends.clone(),
                generation: view.table.generation,
            }),
            targets: Latest::new(inner.targets()),
            view: Latest::new(view),
            inner: Mutex::new(inner),
        })
    }

    /// The published table.
    #[must_use]
    pub fn cell(&self) -> Arc<Latest<Table>> {
        Arc::clone(&self.cell)
    }

    /// The published targets of servers.
    #[must_use]
    pub fn targets(&self) -> Arc<Latest<Targets>> {
        Arc::clone(&self.targets)
    }

    /// The views; a new one with every table.
    #[must_use]
    pub fn reader(&self) -> Reader<View> {
        self.view.reader()
    }

    /// The current view.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        self.view.current()
    }

    /// Takes up another configuration; an operator's override for a server that stays is kept.
    pub fn adopt(&self, config: Config) {
        let mut inner = self.inner.lock();
        inner.config = Arc::new(config);
        self.targets.publish(inner.targets());
        self.publish(&mut inner);
    }

    /// Takes up what healthd says. Nothing is published when it changes nothing.
    pub fn observe(&self, snapshot: Arc<Snapshot>) {
        let mut inner = self.inner.lock();
        // A table that is of none of healthd's generations says so.
        let has_switched = snapshot.stands_in != inner.snapshot.stands_in;
        inner.snapshot = snapshot;
        if has_switched || inner.would_change() {
            self.publish(&mut inner);
        } else {
            // The reasons and latencies in it are for status alone.
            let view = self.view.current();
            let view = View {
                table: Arc::clone(&view.table),
                abilities: view.abilities.clone(),
                histories: view.histories.clone(),
                backends: view.backends.clone(),
                overrides: view.overrides.clone(),
                snapshot: Arc::clone(&inner.snapshot),
                config: view.config.clone(),
            };
            self.view.publish(view);
        }
    }

    /// healthd came or went. Without it, its last word stays in force for a while, and servers that fail are avoided besides.
    pub fn note_healthd(&self, is_there: bool) {
        let mut inner = self.inner.lock();
        inner.has_healthd = is_there;
        if inner.would_change() {
            self.publish(&mut inner);
        }
    }

    /// Takes up what an operator says of a server.
    ///
    /// # Errors
    /// When there is no such server.
    pub fn set_state(
        &self,
        backend: &str,
        server: &str,
        state: AdminState,
        terms: Terms,
    ) -> Result<(), NoSuchServer> {
        self.change(backend, server, |said, otherwise| {
            // Ready is nothing said, unless the configuration or the cluster says otherwise.
            let is_said = state != AdminState::Ready || otherwise != AdminState::Ready;
            said.state = is_said.then_some(Decided {
                value: state,
                terms,
            });
        })
    }

    /// Gives a server another weight, or the configured one.
    ///
    /// # Errors
    /// When there is no such server.
    pub fn set_weight(
        &self,
        backend: &str,
        server: &str,
        weight: Option<u16>,
        terms: Terms,
    ) -> Result<(), NoSuchServer> {
        self.change(backend, server, |said, _| {
            said.weight = weight.map(|value| Decided { value, terms });
        })
    }

    /// Gives a server another number of sessions at a time, zero for any, or the configured one.
    ///
    /// # Errors
    /// When there is no such server.
    pub fn set_max_connections(
        &self,
        backend: &str,
        server: &str,
        most: Option<u32>,
        terms: Terms,
    ) -> Result<(), NoSuchServer> {
        self.change(backend, server, |said, _| {
            said.max_connections = most.map(|value| Decided { value, terms });
        })
    }

    /// Takes back the decisions of operators that have ended by this time; true when there were any.
    pub fn end(&self, now: Duration) -> bool {
        let mut inner = self.inner.lock();
        let mut has_ended = false;
        for ((backend, server), said) in &mut inner.overrides {
            for (decided, Terms { reason, by, .. }) in said.end(now).decisions() {
                has_ended = true;
                tracing::info!(
                    backend = &**backend,
                    server = &**server,
                    decided,
                    reason,
                    by,
                    "An operator's decision has ended"
                );
            }
        }
        inner.overrides.retain(|_, said| !said.is_empty());
        if has_ended {
            self.publish(&mut inner);
        }
        has_ended
    }

    /// Takes over what operators told a predecessor, in place of all that is known; servers that are not
    /// here are passed over. Returns of how many servers something is known.
    pub fn take_over(&self, overrides: impl IntoIterator<Item = (ServerKey, Override)>) -> usize {
        let mut inner = self.inner.lock();
        let config = Arc::clone(&inner.config);
        let is_here = |key: &ServerKey| config.server(&key.0, &key.1).is_some();
        inner.overrides = overrides
            .into_iter()
            .filter(|(key, _)| is_here(key))
            .collect();
        self.publish(&mut inner);
        inner.overrides.len()
    }

    fn change(
        &self,
        backend: &str,
        server: &str,
        change: impl FnOnce(&mut Override, AdminState),
    ) -> Result<(), NoSuchServer> {
        let mut inner = self.inner.lock();
        let Some(configured) = inner.config.server(backend, server) else {
            return Err(NoSuchServer(backend.to_owned(), server.to_owned()));
        };
        let otherwise = configured.admin_state();
        let key = (backend.into(), server.into());
        let mut said = inner.overrides.get(&key).cloned().unwrap_or_default();
        change(&mut said, otherwise);
        let decisions: Vec<String> = said.decisions().map(in_words).collect();
        let decisions = match decisions.is_empty() {
            true => "none".to_owned(),
            false => decisions.join("; "),
        };
        tracing::info!(backend, server, decisions, "An operator has decided");
        match said.is_empty() {
            true => inner.overrides.remove(&key),
            false => inner.overrides.insert(key, said),
        };
        self.publish(&mut inner);
        Ok(())
    }

    fn publish(&self, inner: &mut Inner) {
        let view = Arc::new(inner.make());
        self.cell.publish_shared(Arc::clone(&view.table));
        self.view.publish_shared(view);
    }
}

impl fmt::Debug for TableBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TableBuilder")
            .field("cell", &self.cell)
            .finish_non_exhaustive()
    }
}

//--- Table

/// The table of a configuration while nothing is known of its servers.
#[must_use]
pub fn as_configured(config: &Config) -> Arc<Table> {
    Inner::new(config.clone(), Arc::default(), 0).make().table
}

impl Inner {
    fn new(config: Config, snapshot: Arc<Snapshot>, seed: u64) -> Self {
        Self {
            config: Arc::new(config),
            snapshot,
            overrides: BTreeMap::new(),
            registry: Registry::new(),
            histories: BTreeMap::new(),
            has_healthd: false,
            probed: BTreeSet::new(),
            backends: BTreeMap::new(),
            frontends: HashMap::new(),
            seed,
        }
    }

    fn make(&mut self) -> View {
        let now = clock::now();
        let config = Arc::clone(&self.config);
        self.forget();
        self.registry.sweep();
        let mut backends = Vec::with_capacity(config.backends.len());
        for backend in &config.backends {
            backends.push(Arc::new(self.backend(backend, now)));
        }
        let places: HashMap<Arc<str>, usize> = config
            .backends
            .iter()
            .enumerate()
            .map(|(place, backend)| (Arc::clone(&backend.name), place))
            .collect();
        let frontends = config
            .frontends
            .iter()
            .filter(|frontend| frontend.path == Path::User)
            .map(|frontend| Arc::new(self.frontend(frontend, &places, now)))
            .collect();
        let table = Arc::new(Table {
            frontends,
            backends,
            generation: self.snapshot.generation,
        });
        View {
            abilities: abilities(&config, &table),
            table,
            histories: self.histories.clone(),
            backends: self.backends.clone(),
            overrides: self.overrides.clone(),
            snapshot: Arc::clone(&self.snapshot),
            config: Some(config),
        }
    }

    fn backend(&mut self, backend: &config::Backend, now: Instant) -> Backend {
        let mut servers = Vec::with_capacity(backend.servers.len());
        for server in &backend.servers {
            let key = (Arc::clone(&backend.name), Arc::clone(&server.name));
            let verdict = self.verdict(&key, server);
            match self.is_probed(server) {
                true => self.probed.insert(key.clone()),
                false => self.probed.remove(&key),
            };
            let reason = server.target.as_ref().and_then(|target| {
                let status = self.snapshot.watched(target)?;
                Some(status.reason.as_str())
            });
            let history = self.histories.entry(key.clone());
            let history = history.or_insert_with(|| History::new(verdict, now));
            if let Some(before) = history.follow(verdict, now) {
                tell(&key, before, verdict, reason.unwrap_or_default());
            }
            let eligibility = history.eligibility();
            let said = self.overrides.get(&key).cloned().unwrap_or_default();
            servers.push(ServerSettings {
                name: Arc::clone(&server.name),
                address: server.address,
                weight: said.weight.map_or(server.weight, |weight| weight.value),
                backup: server.backup,
                max_connections: match said.max_connections {
                    None => server.max_connections,
                    Some(most) => (most.value > 0).then_some(most.value),
                },
                slow_start: server.slow_start,
                eligibility,
                is_probed: self.probed.contains(&key),
            });
        }
        let pool = self.registry.pool(Settings {
            name: Arc::clone(&backend.name),
            algorithm: backend.algorithm,
            fail_open: backend.fail_open,
            all_backups: backend.all_backups,
            queue: backend.queue,
            servers,
        });
        let verdict = match pool.n_usable() {
            0 => Verdict::Down,
            _ => Verdict::Up,
        };
        let history = self.backends.entry(Arc::clone(&backend.name));
        let history = history.or_insert_with(|| History::new(verdict, now));
        history.follow(verdict, now);
        Backend {
            pool,
            policy: backend.policy.clone(),
        }
    }

    fn verdict(&self, key: &ServerKey, server: &config::Server) -> Verdict {
        let said = self.overrides.get(key).and_then(|said| said.state.as_ref());
        let said = said.map(|state| state.value);
        let target = server.target.as_ref();
        let status = target.and_then(|target| self.snapshot.watched(target));
        Verdict::of(said, server.admin_state(), status)
    }

    /// Whether healthd probes a server now, or this service in its place.
    fn is_probed(&self, server: &config::Server) -> bool {
        let target = server.target.as_ref();
        let status = target.and_then(|target| self.snapshot.watched(target));
        let has_probes = self.has_healthd || self.snapshot.stands_in;
        has_probes && status.is_some_and(|status| status.liveness != Liveness::Unknown)
    }

    /// Whether the snapshot makes another table than the last.
    fn would_change(&self) -> bool {
        self.config.backends.iter().any(|backend| {
            backend.servers.iter().any(|server| {
                let key = (Arc::clone(&backend.name), Arc::clone(&server.name));
                let verdict = self.verdict(&key, server);
                let known = self.histories.get(&key);
                known.is_none_or(|known| known.verdict != verdict)
                    || self.probed.contains(&key) != self.is_probed(server)
            })
        })
    }

    fn frontend(
        &mut self,
        frontend: &config::Frontend,
        places: &HashMap<Arc<str>, usize>,
        now: Instant,
    ) -> Frontend {
        let kept = self
            .frontends
            .entry(Arc::clone(&frontend.name))
            .or_default();
        match frontend.limits {
            None => kept.limits = None,
            Some(wanted) => {
                let known = kept
                    .limits
                    .take()
                    .filter(|limits| limits.fits(wanted.sources));
                let limits = known
                    .unwrap_or_else(|| Limits::new(wanted.rules, wanted.sources, self.seed, now));
                limits.set_rules(wanted.rules);
                kept.limits = Some(limits);
            }
        }
        Frontend {
            name: Arc::clone(&frontend.name),
            listen: frontend.listen.clone(),
            accept_proxy: frontend.accept_proxy,
            sources: frontend.sources.clone(),
            limits: kept.limits.clone(),
            max_connections: frontend.max_connections,
            route: Route {
                routes: Routes::new(&frontend.routes, |backend| places.get(backend).copied()),
                default: frontend
                    .backend
                    .as_ref()
                    .and_then(|backend| places.get(backend).copied()),
                inspect_timeout: frontend.inspect_timeout,
            },
            client: frontend.client,
            log: frontend.log,
            tally: Arc::clone(&kept.tally),
        }
    }

    /// Lets go of what is not configured any more.
    fn forget(&mut self) {
        let config = &self.config;
        let is_there = |key: &ServerKey| config.server(&key.0, &key.1).is_some();
        self.histories.retain(|key, _| is_there(key));
        self.probed.retain(|key| is_there(key));
        self.backends
            .retain(|name, _| config.backends.iter().any(|b| b.name == *name));
        self.overrides.retain(|key, _| is_there(key));
        self.frontends
            .retain(|name, _| config.frontends.iter().any(|f| f.name == *name));
    }

    fn targets(&self) -> Targets {
        let mut targets = Targets::new();
        for backend in &self.config.backends {
            for server in &backend.servers {
                if let Some(target) = &server.target {
                    let key = (Arc::clone(&backend.name), Arc::clone(&server.name));
                    targets.insert(key, target.clone());
                }
            }
        }
        targets
    }
}

/// A decision and its terms in words.
fn in_words((decided, terms): (String, &Terms)) -> String {
    format!("{decided}{}", decision::shown(terms))
}

/// The things virtual IPs may track, and whether each has a server to choose.
fn abilities(config: &Config, table: &Table) -> BTreeMap<Arc<str>, bool> {
    let usable: BTreeMap<&str, bool> = table
        .backends
        .iter()
        .map(|backend| (&*backend.pool.name, backend.pool.n_usable() > 0))
        .collect();
    let backends = usable
        .iter()
        .map(|(name, able)| (format!("backend:{name}").into(), *able));
    let frontends = config.frontends.iter().map(|frontend| {
        let mut leads_to = frontend.backends();
        let able = leads_to.any(|backend| usable.get(&**backend).copied().unwrap_or(false));
        (format!("frontend:{}", frontend.name).into(), able)
    });
    backends.chain(frontends).collect()
}

fn tell(key: &ServerKey, before: Verdict, verdict: Verdict, reason: &str) {
    let (backend, server) = (&*key.0, &*key.1);
    match (before, verdict) {
        (_, Verdict::Down) => tracing::warn!(backend, server, reason, "Server is down"),
        (Verdict::Down, Verdict::Up) => tracing::info!(backend, server, reason, "Server is up"),
        _ => {
            let (before, after) = (before.name(), verdict.name());
            tracing::info!(
                backend,
                server,
                before,
                after,
                "Server is taken out or back"
            );
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
