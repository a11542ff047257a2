//! The one thread that publishes snapshots.
//!
//! Everything that can change an answer arrives here as a [`Command`], one after the other, and leaves as
//! one published [`Snapshot`]. The data path never waits for it, and it waits for no file: other threads read,
//! compile and evaluate zones, as many at once as the queue of loads allows, and this one adopts their results.
//! So answers follow liveness while zones load, and each zone answers as soon as it is loaded itself. A zone
//! whose new files are broken keeps the data it had; a zone without any data answers SERVFAIL. A file is read
//! when it is complete, and a doubtful version of a zone waits until an operator accepts it.
//!
//! ```text
//! SIGHUP, admin ──┐
//! inotify, timer ─┼─► Command ─► Publisher ─► Latest<Snapshot> ─► UDP and TCP threads
//! healthd ────────┤                 │ ▲  └─────► reports ─► status, metrics, /readyz
//! clusterd ───────┤                 │ │   (names, nodes of lists)
//! hold ───────────┘                 ▼ │
//!                         LoadQueue, Workers (zone-load-N)
//! ```

mod cluster_zones;
mod files;
mod loader;
mod publication;
mod quiet;
mod report;
mod rollback;
mod steps;
mod targets;
mod updates;
mod updating;
mod zone_state;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use api::dns_authd::{HeldVersion, ZoneState as State};
use daemon::clock;
use daemon::latest::Latest;
use daemon::readiness::Readiness;
use dns_answer::{Settings, Snapshot};
use dns_cluster::Rendered;
use dns_cluster::nodes::NodeLists;
use dns_flatten::Flat;
use dns_lua::LuaSettings;
use dns_views::{View, ZoneId};
use dns_wire::Rcode;
use dns_wire::hash::Seed;
use dns_zone::load_queue::{LoadQueue, Stage};
use proto::health::{Snapshot as Health, Watched};
use proto::link::Link;
use tokio::sync::{oneshot, watch};

use crate::config::catalogs::Origins;
use crate::config::{Config, Zones};
use dns_primary::histories::{Histories, Keeping, Writer};
use dns_programs::Message;

use cluster_zones::ClusterZones;
use files::Files;
pub use loader::Done;
use loader::{Load, MANY_RECORDS, Order, Product, Reading, Work, Workers};
pub use quiet::Events;
use quiet::Quiet;
pub use report::{Reports, ZoneReport, rollback_view};
pub use rollback::{NotRolledBack, RollbackDone, RolledBack};
use steps::Restoring;
use targets::liveness;
pub use updates::{NotSynced, SyncDone};
pub use updating::Asked;
use zone_state::{Adopted, Change, ZoneState};

/// The length of the command queue. When it is full, repeated commands are dropped, and senders of
/// other commands wait.
const QUEUE: usize = 256;
/// The most zones of a load that are logged one by one.
const LOGGED_ZONES: usize = 20;
/// The time in which loaded zones are gathered for one publication, while others load.
const GATHER: Duration = Duration::from_millis(50);
/// The time that a replaced snapshot is kept: idle threads of the data path look for a new one four times a
/// second.
const RETIREMENT: Duration = Duration::from_secs(1);

/// Everything that can change answers.
#[derive(Debug)]
pub enum Command {
    /// Adopt another configuration; the answer is a line for the log, when the zones that it changes are loaded.
    Configure(Box<Plan>, oneshot::Sender<String>),
    /// Load one zone, or all, whether or not their files changed; the answer comes after their loads.
    Reload(
        Option<ZoneId>,
        oneshot::Sender<Result<Vec<Outcome>, NoSuchZone>>,
    ),
    /// Files may have changed: load the zones whose changed files are complete.
    Look(Events),
    /// A load has ended.
    Loaded(Box<Done>),
    /// Publish the version of a zone that is held back.
    Accept(ZoneId, oneshot::Sender<Result<Outcome, NotHeld>>),
    /// Publish the version of this serial again.
    Rollback(ZoneId, u32, RollbackDone),
    /// Carry out an update; the code of the response comes when its version is published and on disk.
    Update(Box<Asked>, oneshot::Sender<Rcode>),
    /// Read the updates again that another process has carried out; the answer comes after that.
    Renew(oneshot::Sender<String>),
    /// Give out a zone that is to be written into its file.
    Sync(ZoneId, SyncDone),
    /// The data of a secondary zone has expired: its names get SERVFAIL. Or it is current again.
    Expire(ZoneId, bool),
    /// The flattened version of a zone; `None` if it has none any more.
    Flattened(ZoneId, Option<Arc<Flat>>),
    /// healthd has sent a snapshot.
    Liveness,
    /// The nodes of lists have changed.
    Nodes,
    /// The names of the cluster have changed.
    Cluster(Rendered),
    /// End the wait of queries for a live set.
    EndWait {
        /// The zone.
        zone: ZoneId,
        /// The live set's number.
        set: u32,
    },
    /// End the thread.
    Stop,
}

/// The part of the configuration that zones and their answers depend on.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The zones.
    pub zones: Zones,
    /// The views, in the order in which they are tried.
    pub views: Vec<View>,
    /// The options of the names of a cluster.
    pub kubernetes: Option<Arc<dns_kubernetes::Options>>,
    /// The settings of live sets, and whether there are any.
    pub lua: Arc<LuaSettings>,
    /// The settings of answers.
    pub answers: Settings,
    /// The zones that are catalogs, or that catalogs have added.
    pub origins: Origins,
    /// How histories are kept.
    pub history: Keeping,
    /// Whether another process keeps them when this one starts, until [`Command::Renew`].
    pub is_successor: bool,
}

impl Plan {
    /// The publisher's part of a configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self {
            zones: config.zones.clone(),
            views: config.views.clone(),
            kubernetes: config.kubernetes.clone(),
            lua: Arc::clone(&config.lua),
            answers: config.answers.clone(),
            origins: config.origins.clone(),
            history: config.history.clone(),
            is_successor: false,
        }
    }
}

/// The result of reloading one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The zone.
    pub name: ZoneId,
    /// Its serial and number of records, or the reason why it stays as it was.
    pub result: Result<(u32, usize), NotLoaded>,
}

/// Why a zone stays as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotLoaded {
    /// Its files have these errors.
    Broken(Vec<String>),
    /// The version of its files is held back.
    Held(HeldVersion),
}

/// There is nothing to accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotHeld {
    /// No zone of that name is served.
    NoSuchZone,
    /// No version of it is held back.
    Nothing,
}

/// No zone of that name is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchZone;

/// The publisher's inputs and outputs.
#[derive(Debug)]
pub struct Channels {
    /// Gets the snapshots.
    pub cell: Arc<Latest<Snapshot>>,
    /// Gets the reports.
    pub reports: Arc<Latest<Reports>>,
    /// The link to healthd.
    pub link: Link,
    /// The nodes of lists.
    pub nodes: Arc<Latest<NodeLists>>,
    /// Readiness: a broken zone is a reason here.
    pub readiness: Readiness,
    /// The directories to watch.
    pub directories: watch::Sender<BTreeSet<PathBuf>>,
    /// Gets the histories.
    pub histories: Histories,
}

/// The running thread.
#[derive(Debug)]
pub struct Handle {
    commands: SyncSender<Command>,
    thread: Option<JoinHandle<()>>,
}

/// The ends of a start.
#[derive(Debug)]
pub struct Starting {
    /// Comes when the first snapshot is published, with every zone still to be loaded.
    pub begun: oneshot::Sender<()>,
    /// The summary, when every zone is loaded or has failed.
    pub loaded: oneshot::Sender<String>,
}

/// The number of a request that waits for loads.
type Ticket = u64;

/// A request that waits for loads.
enum Pending {
    /// A configuration, or the start.
    Summary(oneshot::Sender<String>),
    /// A reload of these zones; each outcome comes with its load.
    Reload {
        names: Vec<ZoneId>,
        outcomes: HashMap<ZoneId, Outcome>,
        done: oneshot::Sender<Result<Vec<Outcome>, NoSuchZone>>,
    },
    /// A rollback.
    Rollback {
        zone: ZoneId,
        serial: u32,
        done: RollbackDone,
    },
}

impl Pending {
    /// Whether the asker has left.
    fn is_abandoned(&self) -> bool {
        match self {
            Self::Summary(done) => done.is_closed(),
            Self::Reload { done, .. } => done.is_closed(),
            Self::Rollback { done, .. } => done.is_closed(),
        }
    }
}

struct Publisher {
    channels: Channels,
    plan: Plan,
    seed: Seed,
    health: Arc<Health>,
    nodes: Arc<NodeLists>,
    zones: Vec<ZoneState>,
    cluster: ClusterZones,
    places: HashMap<ZoneId, usize>,
    files: Files,
    /// The files that are changing.
    quiet: Quiet,
    /// The time of the last look at all files.
    looked: Instant,
    /// The zones of each target.
    watched: HashMap<Watched, BTreeSet<usize>>,
    loads: LoadQueue<ZoneId, Ticket>,
    workers: Workers,
    writer: Writer,
    /// The zones whose histories are not written, since another process keeps them; `None` when there is none.
    unwritten: Option<BTreeSet<ZoneId>>,
    pending: BTreeMap<Ticket, Pending>,
    next_ticket: Ticket,
    /// The zones that are not loaded for the first time yet.
    unloaded: BTreeSet<usize>,
    /// The zones whose published answers or reports are not the newest.
    changed: BTreeSet<usize>,
    /// Whether the published loads are not the newest.
    is_report_old: bool,
    /// Whether healthd has other targets than the zones.
    has_other_targets: bool,
    /// The time of the last publication.
    published: Instant,
    /// Snapshots that the data path may still use, each with the time of its replacement.
    retired: Vec<(Instant, Arc<Snapshot>)>,
    /// Whether to trim the allocator's memory after they are freed.
    must_trim: bool,
}

//--- Handle

impl Handle {
    /// Starts the threads with the first configuration.
    pub fn start(
        channels: Channels,
        plan: Plan,
        seed: Seed,
        starting: Starting,
    ) -> std::io::Result<Self> {
        Self::start_with(channels, plan, seed, starting, &load())
    }

    fn start_with(
        channels: Channels,
        plan: Plan,
        seed: Seed,
        starting: Starting,
        load: &Load,
    ) -> std::io::Result<Self> {
        let (commands, queue) = sync_channel(QUEUE);
        let limits = loader::limits();
        let workers = Workers::start(limits.at_once, load, &commands)?;
        let loads = LoadQueue::new(limits);
        let threads = (workers, Writer::start()?);
        let mut publisher = Publisher::new(channels, plan.clone(), seed, loads, threads);
        let thread = thread::Builder::new()
            .name("zone-publisher".to_owned())
            .spawn(move || {
                publisher.configure(plan, Pending::Summary(starting.loaded));
                // The receiver may have given up.
                let _is_heard = starting.begun.send(());
                publisher.run(&queue);
            })?;
        Ok(Self {
            commands,
            thread: Some(thread),
        })
    }

    /// Passes a command on.
    ///
    /// # Errors
    /// Fails with the command when the queue is full, and with nothing when the publisher has ended.
    pub fn send(&self, command: Command) -> Result<(), Option<Command>> {
        self.commands
            .try_send(command)
            .map_err(|error| match error {
                TrySendError::Full(command) => Some(command),
                TrySendError::Disconnected(_) => None,
            })
    }

    /// A sender of commands.
    #[must_use]
    pub fn sender(&self) -> SyncSender<Command> {
        self.commands.clone()
    }

    /// Ends the thread.
    pub fn stop(mut self) {
        drop(self.commands.send(Command::Stop));
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("The zone publisher has panicked");
        }
    }
}

/// The way in which workers carry out loads.
fn load() -> Load {
    Arc::new(loader::carry_out)
}

//--- Commands

impl Publisher {
    fn new(
        channels: Channels,
        plan: Plan,
        seed: Seed,
        loads: LoadQueue<ZoneId, Ticket>,
        (workers, writer): (Workers, Writer),
    ) -> Self {
        Self {
            unwritten: plan.is_successor.then(BTreeSet::new),
            nodes: channels.nodes.current(),
            channels,
            plan,
            seed,
            health: Arc::default(),
            zones: Vec::new(),
            cluster: ClusterZones::default(),
            places: HashMap::new(),
            files: Files::default(),
            quiet: Quiet::default(),
            looked: clock::now(),
            watched: HashMap::new(),
            loads,
            workers,
            writer,
            pending: BTreeMap::new(),
            next_ticket: 0,
            unloaded: BTreeSet::new(),
            changed: BTreeSet::new(),
            is_report_old: false,
            has_other_targets: false,
            published: clock::now(),
            retired: Vec::new(),
            must_trim: false,
        }
    }

    fn run(&mut self, queue: &Receiver<Command>) {
        loop {
            let received = match self.timeout() {
                None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(timeout) => queue.recv_timeout(timeout),
            };
            match received {
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(command) => self.take_command(command),
                Err(RecvTimeoutError::Timeout) => self.free_retired(),
            }
            self.tick();
        }
    }

    fn take_command(&mut self, command: Command) {
        match command {
            Command::Configure(plan, done) => self.configure(*plan, Pending::Summary(done)),
            Command::Reload(name, done) => self.reload(name.as_ref(), done),
            Command::Look(events) => self.look(events),
            Command::Loaded(done) => self.finish(*done),
            Command::Accept(name, done) => {
                let outcome = self.accept(&name);
                drop(done.send(outcome));
            }
            Command::Rollback(name, serial, done) => self.roll_back(&name, serial, done),
            Command::Update(asked, done) => self.update(*asked, done),
            Command::Renew(done) => self.renew(done),
            Command::Sync(name, done) => drop(done.send(self.sync(&name))),
            Command::Expire(name, is_expired) => self.expire(&name, is_expired),
            Command::Flattened(name, flat) => self.take_flat(&name, flat),
            Command::Liveness => self.take_health(self.channels.link.current()),
            Command::Nodes => self.take_nodes(self.channels.nodes.current()),
            Command::Cluster(rendered) => {
                if self.cluster.take(rendered) {
                    self.send_targets();
                    self.is_report_old = true;
                }
                self.publish_changes();
            }
            Command::EndWait { zone, set } => self.end_wait(&zone, set),
            Command::Stop => {}
        }
    }

    /// Does what is due.
    fn tick(&mut self) {
        let due = self.quiet.due(self.plan.zones.quiet, self.looked);
        if due.is_some_and(|due| due <= clock::now()) {
            self.look(Events::default());
        }
        if self.publication().is_some_and(|due| due <= clock::now()) {
            self.publish();
        }
    }

    /// How long to wait for the next command.
    fn timeout(&self) -> Option<Duration> {
        let retired = (!self.retired.is_empty()).then_some(RETIREMENT);
        let quiet = self.quiet.due(self.plan.zones.quiet, self.looked);
        let due = [quiet, self.publication()];
        let due = due.into_iter().flatten().min();
        let due = due.map(|due| due.saturating_duration_since(clock::now()));
        [retired, due].into_iter().flatten().min()
    }

    /// When to publish what has changed.
    fn publication(&self) -> Option<Instant> {
        let has_changed = self.has_changes();
        has_changed.then(|| self.published + GATHER)
    }

    /// Adopts a configuration: zones that stay keep their data unless their files, or the options for
    /// reading them, have changed. New zones, and these, are loaded.
    fn configure(&mut self, plan: Plan, pending: Pending) {
        let same_reading = *self.plan.zones.options == *plan.zones.options
            && self.plan.lua.limits.enabled == plan.lua.limits.enabled;
        let same_live = self.plan.lua == plan.lua;
        self.plan = plan;
        // The new files may name new lists.
        self.take_nodes(self.channels.nodes.current());
        self.cluster.configure(self.plan.kubernetes.clone());
        let (declared_otherwise, complete) = self.declare();
        // A sender of SIGHUP has finished its files; only those that are seen open have to wait.
        let mut stale = Vec::new();
        let mut superseded = Vec::new();
        for (place, kept) in self.zones.iter_mut().enumerate() {
            let change = kept.change(|path, _| !self.quiet.is_open(path));
            let must_read = change == Change::Complete || (change == Change::None && !same_reading);
            // A load that runs has other options, or another file.
            let is_other = !same_reading || !same_live || declared_otherwise.contains(&place);
            let is_running = self.loads.stage(&kept.declared.id()) == Some(Stage::Running);
            if is_running && is_other || (!same_live && !kept.live.is_empty()) {
                kept.load.must_read |= must_read || (is_running && kept.load.is_reading);
                superseded.push(place);
            } else if is_running && kept.files.is_empty() {
                // This is its first load: its files are compared with what it read after that.
                kept.must_look = true;
            } else if must_read {
                stale.push(place);
            }
        }
        let ticket = self.open(pending);
        for place in superseded {
            if let Some(kept) = self.zones.get(place) {
                let (name, size) = (kept.declared.id(), kept.size());
                self.loads.supersede(&name, size, Some(ticket));
            }
        }
        self.request(&stale, Some(ticket));
        self.begin_loads();
        self.publish_all();
        self.answer_if_complete(ticket);
        for ticket in complete {
            self.answer(ticket);
        }
    }

    /// Takes the declared zones of the plan. Returns the places of those with another file than before, and the
    /// requests that wait for nothing more.
    fn declare(&mut self) -> (BTreeSet<usize>, Vec<Ticket>) {
        let mut complete = Vec::new();
        let mut old: HashMap<ZoneId, ZoneState> = self
            .zones
            .drain(..)
            .map(|kept| (kept.declared.id(), kept))
            .collect();
        let mut others = BTreeSet::new();
        for (place, declared) in self.plan.zones.declared.iter().cloned().enumerate() {
            let (before, kept) = match old.remove(&declared.id()) {
                Some(kept) => {
                    if kept.declared.file != declared.file {
                        others.insert(place);
                    }
                    (kept.paths(), kept.declare(declared))
                }
                None => (Vec::new(), ZoneState::new(declared)),
            };
            // The directory of a new file is watched before it is read: no change is missed.
            self.files.replace(&before, &kept.paths());
            self.zones.push(kept);
        }
        for (name, kept) in old {
            for path in self.files.replace(&kept.paths(), &[]) {
                self.quiet.forget(&path);
            }
            complete.extend(self.loads.remove(&name));
            self.forget_history(&name);
            self.channels.readiness.set_reason(reason_key(&name), None);
            tracing::info!(zone = %name, "Zone is no longer declared");
        }
        self.places.clear();
        self.unloaded.clear();
        self.watched.clear();
        for (place, kept) in self.zones.iter().enumerate() {
            self.places.insert(kept.declared.id(), place);
            if kept.report.state == State::Loading {
                self.unloaded.insert(place);
            }
            for target in &kept.watched {
                self.watched
                    .entry(target.clone())
                    .or_default()
                    .insert(place);
            }
        }
        self.has_other_targets = true;
        (others, complete)
    }

    /// Loads zones even if their files have not changed.
    fn reload(
        &mut self,
        name: Option<&ZoneId>,
        done: oneshot::Sender<Result<Vec<Outcome>, NoSuchZone>>,
    ) {
        let places = match name {
            Some(name) => match self.places.get(name) {
                Some(place) => vec![*place],
                None => {
                    self.publish_changes();
                    drop(done.send(Err(NoSuchZone)));
                    return;
                }
            },
            None => (0..self.zones.len()).collect(),
        };
        let zones = places.iter().filter_map(|place| self.zones.get(*place));
        let ticket = self.open(Pending::Reload {
            names: zones.map(|kept| kept.declared.id()).collect(),
            outcomes: HashMap::new(),
            done,
        });
        self.request(&places, Some(ticket));
        self.begin_loads();
        self.answer_if_complete(ticket);
    }

    /// Loads the zones whose changed files are complete.
    fn look(&mut self, events: Events) {
        self.looked = clock::now();
        let files = &self.files;
        self.quiet.note(
            events,
            |path| files.contains(path),
            |link| files.behind(link),
        );
        let stale: Vec<usize> = (0..self.zones.len())
            .filter(|place| self.is_stale(*place))
            .collect();
        self.request(&stale, None);
        self.begin_loads();
    }

    /// Whether some files of a zone have changed, and all of them are complete. The publisher
    /// looks again at a zone that is being loaded, after that.
    fn is_stale(&mut self, place: usize) -> bool {
        let Some(kept) = self.zones.get_mut(place) else {
            return false;
        };
        kept.must_look = self.loads.stage(&kept.declared.id()).is_some();
        if kept.must_look {
            return false;
        }
        let time = (clock::now(), self.plan.zones.quiet);
        let change = kept.change(|path, stamp| self.quiet.is_complete(path, stamp, time));
        change == Change::Complete
    }

    /// Publishes the version of a zone that is held back.
    fn accept(&mut self, name: &ZoneId) -> Result<Outcome, NotHeld> {
        let place = *self.places.get(name).ok_or(NotHeld::NoSuchZone)?;
        let kept = self.zones.get_mut(place).ok_or(NotHeld::NoSuchZone)?;
        let limits = self.plan.history.limits;
        let adopted = kept.accept(limits).ok_or(NotHeld::Nothing)?;
        let outcome = kept.report.outcome();
        if self.loads.stage(name) == Some(Stage::Running) {
            // It is compared with the version before.
            kept.load.must_read |= kept.load.is_reading;
            let size = kept.size();
            self.loads.supersede(name, size, None);
        }
        self.settle(place, Some(adopted));
        self.begin_loads();
        self.publish();
        Ok(outcome)
    }

    fn expire(&mut self, name: &ZoneId, is_expired: bool) {
        let Some(place) = self.places.get(name).copied() else {
            return;
        };
        if let Some(kept) = self.zones.get_mut(place) {
            kept.is_expired = is_expired;
        }
        self.changed.insert(place);
        self.publish();
    }

    fn take_flat(&mut self, name: &ZoneId, flat: Option<Arc<Flat>>) {
        let Some(place) = self.places.get(name).copied() else {
            return;
        };
        if let Some(kept) = self.zones.get_mut(place) {
            let serial = flat.as_ref().map(|flat| flat.serial());
            Arc::make_mut(&mut kept.report).flattened = serial;
            kept.flat = flat;
        }
        self.changed.insert(place);
        self.publish();
    }

    fn end_wait(&mut self, zone: &ZoneId, set: u32) {
        let Some(place) = self.places.get(zone).copied() else {
            return;
        };
        if let Some(kept) = self.zones.get_mut(place) {
            kept.live.end_wait(set);
        }
        self.changed.insert(place);
        self.publish();
    }

    //--- Loading

    /// Requests loads of these zones from their files.
    fn request(&mut self, places: &[usize], ticket: Option<Ticket>) {
        let mut zones = Vec::with_capacity(places.len());
        for place in places {
            if let Some(kept) = self.zones.get_mut(*place) {
                kept.load.must_read = true;
                kept.load.must_log = places.len() <= LOGGED_ZONES;
                zones.push((kept.declared.id(), kept.size()));
            }
        }
        self.loads.request(zones, ticket);
    }

    /// Begins the loads that may run now.
    fn begin_loads(&mut self) {
        while let Some((job, name)) = self.loads.begin() {
            let place = self.places.get(&name).copied();
            let Some(kept) = place.and_then(|place| self.zones.get_mut(place)) else {
                // A zone that is not declared has been removed from the queue.
                self.loads.finish(job);
                continue;
            };
            let restore = kept.load.restore.take().filter(|_| kept.zone.is_some());
            let must_read = kept.load.must_read || kept.zone.is_none();
            kept.load.is_reading = must_read && restore.is_none();
            // Behind a way back, files that have changed are still to be read.
            kept.load.must_read &= restore.is_some();
            let must_renew = kept.load.must_renew && kept.load.is_reading;
            kept.load.must_renew &= !must_renew;
            let is_update = restore.is_none() && !must_read && !kept.updates.is_empty();
            let updating = place.filter(|_| is_update);
            let updating = updating.and_then(|place| self.updating(place));
            let Some(kept) = place.and_then(|place| self.zones.get(place)) else {
                continue;
            };
            let work = match (&kept.zone, restore, updating) {
                (_, _, Some(updating)) => Work::Update(Box::new(updating)),
                (Some(zone), Some(serial), None) => Work::Restore(Box::new(Restoring {
                    served: Arc::clone(zone),
                    history: kept.history.clone(),
                    serial,
                    limits: self.plan.history.limits,
                    options: Arc::clone(&self.plan.zones.options),
                    seed: self.seed,
                })),
                (Some(zone), None, None) if !must_read => Work::Evaluate(Arc::clone(zone)),
                (served, ..) => Work::Read(Box::new(Reading {
                    options: Arc::clone(&self.plan.zones.options),
                    seed: self.seed,
                    guard: self.plan.zones.guard,
                    served: served.clone(),
                    known: kept.files.clone(),
                    is_held: kept.is_held(),
                    must_renew,
                    history: kept.history.clone(),
                    keeping: self.plan.history.clone(),
                })),
            };
            let order = Order {
                job,
                declared: kept.declared.clone(),
                lua: Arc::clone(&self.plan.lua),
                facts: self.facts(),
                work,
            };
            self.is_report_old = true;
            if !self.workers.begin(order) {
                tracing::error!(zone = %name, "Zone has no thread that loads it");
                return;
            }
        }
    }

    /// Takes the result of a load, if it counts, and answers those that waited for it.
    fn finish(&mut self, done: Done) {
        let Some(finished) = self.loads.finish(done.job) else {
            return;
        };
        self.is_report_old = true;
        let place = self.places.get(&finished.zone).copied();
        if let Some(place) = place {
            match done.result {
                result if finished.is_current => self.take(place, result),
                Product::Updated(_) => self.update_again(place),
                _ => {}
            }
            let (must_look, must_read, updates) = match self.zones.get(place) {
                Some(kept) => (
                    kept.must_look,
                    kept.load.must_read,
                    !kept.updates.is_empty(),
                ),
                None => (false, false, false),
            };
            if must_read || must_look && self.is_stale(place) {
                self.request(&[place], None);
            } else if updates {
                let kept = self.zones.get(place);
                let zone = kept.map(|kept| (kept.declared.id(), kept.size()));
                self.loads.request(zone, None);
            }
        } else if matches!(done.result, Product::Updated(_)) {
            // The updates of a zone that is declared no more must not come back with it.
            self.forget_history(&finished.zone);
        }
        self.begin_loads();
        let outcome = place.and_then(|place| self.zones.get(place));
        if let Some(outcome) = outcome.map(|kept| kept.report.outcome()) {
            for ticket in &finished.tickets {
                if let Some(Pending::Reload { outcomes, .. }) = self.pending.get_mut(ticket) {
                    outcomes.insert(finished.zone.clone(), outcome.clone());
                }
            }
        }
        if self.loads.is_idle() {
            self.publish();
        }
        for ticket in finished.complete {
            self.answer(ticket);
        }
    }

    /// Takes the result of a load of a zone.
    fn take(&mut self, place: usize, result: Product) {
        let Some(kept) = self.zones.get_mut(place) else {
            return;
        };
        let adopted = match result {
            Product::Evaluated(evaluation) => kept.take_live(evaluation),
            Product::Restored(restored) => kept.take_restored(restored, self.plan.history.limits),
            // Its clients wait for it.
            Product::Updated(updated) => return self.take_updated(place, updated),
            Product::Read {
                files,
                took,
                version,
            } => {
                for (path, stamp) in &files {
                    self.quiet.read(path, *stamp);
                }
                let before = kept.paths();
                kept.files = files;
                for path in self.files.replace(&before, &kept.paths()) {
                    self.quiet.forget(&path);
                }
                let adopted = kept.take(version, took, self.plan.history.limits);
                // The replaced zone is freed later.
                self.must_trim |= adopted.is_some() && kept.report.records >= MANY_RECORDS;
                adopted
            }
        };
        self.settle(place, adopted);
    }

    /// Brings a zone up to date after its state has changed: adopted live sets may be of earlier liveness.
    fn settle(&mut self, place: usize, adopted: Option<Adopted>) {
        if let Some((facts, messages)) = adopted {
            let (then, now) = (facts.health, Arc::clone(&self.health));
            let has_moved = |target: &Watched| liveness(&then, target) != liveness(&now, target);
            if let Some(kept) = self.zones.get_mut(place) {
                if facts.nodes != self.nodes {
                    kept.live.forget_nodes();
                }
                for message in messages {
                    log_message(&kept.declared.id(), &message);
                }
            }
            self.evaluate(place, &has_moved);
            self.watch(place);
            self.keep_history(place);
        }
        let Some(kept) = self.zones.get_mut(place) else {
            return;
        };
        if kept.live.settings() != &self.plan.lua && !kept.live.is_empty() {
            // A version that was held back while the settings changed.
            let (name, size) = (kept.declared.id(), kept.size());
            self.loads.request([(name, size)], None);
        }
        let key = reason_key(&kept.declared.id());
        self.channels
            .readiness
            .set_reason(key, kept.report.trouble());
        if kept.report.state != State::Loading {
            self.unloaded.remove(&place);
        }
        self.changed.insert(place);
    }

    /// Sends the directories of all files to the watch, if they are others than before.
    fn state_directories(&mut self) {
        if let Some(directories) = self.files.changed_directories() {
            self.channels.directories.send_replace(directories);
        }
    }

    //--- Requests that wait

    fn open(&mut self, pending: Pending) -> Ticket {
        // Askers that have left must not add up while a load runs.
        self.pending.retain(|_, pending| !pending.is_abandoned());
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.pending.insert(ticket, pending);
        ticket
    }

    /// Answers a request that has nothing to wait for.
    fn answer_if_complete(&mut self, ticket: Ticket) {
        if !self.loads.is_waiting(ticket) {
            self.answer(ticket);
        }
    }

    /// Answers a request. Its zones are served by then.
    fn answer(&mut self, ticket: Ticket) {
        let Some(pending) = self.pending.remove(&ticket) else {
            return;
        };
        self.publish_changes();
        // The asker may have left.
        match pending {
            Pending::Summary(done) => drop(done.send(self.summary())),
            Pending::Reload {
                names,
                mut outcomes,
                done,
            } => {
                let all = names.iter().filter_map(|name| outcomes.remove(name));
                let all: Vec<Outcome> = all.collect();
                // Its zones are not declared any more.
                let is_gone = all.is_empty() && !names.is_empty();
                drop(done.send(if is_gone { Err(NoSuchZone) } else { Ok(all) }));
            }
            Pending::Rollback { zone, serial, done } => self.answer_rollback(&zone, serial, done),
        }
    }
}

fn reason_key(name: &ZoneId) -> String {
    format!("zone {name}")
}

fn log_message(zone: &ZoneId, message: &Message) {
    let Message {
        is_failure,
        source,
        text,
    } = message;
    match is_failure {
        true => tracing::error!(%zone, source, "LUA record gives no answer: {text}"),
        false => tracing::info!(%zone, source, "LUA record says: {text}"),
    }
}

#[cfg(test)]
mod tests;
