//! The one thread that loads zones, evaluates their programs and publishes snapshots.
//!
//! Everything that can change an answer arrives here as a [`Command`], one after the other, and leaves as
//! one published [`Snapshot`]. The data path never waits for it. A zone whose new files are broken keeps
//! the data it had; a zone without any data answers SERVFAIL. A file is read when it is complete, and a doubtful
//! version of a zone waits until an operator accepts it.
//!
//! ```text
//! SIGHUP, admin ──┐
//! inotify, timer ─┼─► Command ─► Publisher ─► Latest<Snapshot> ─► UDP and TCP threads
//! healthd ────────┤                └─────► reports ─► status, metrics, /readyz
//! hold ───────────┘
//! ```

mod quiet;
mod report;
mod zone_state;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use api::dns_authd::{HeldVersion, ZoneState as State};
use config_text::counted;
use daemon::clock;
use daemon::disk::Stamp;
use daemon::latest::Latest;
use daemon::readiness::Readiness;
use dns_answer::live::{LiveSets, View};
use dns_answer::table::{Served, Table};
use dns_answer::{Settings, Snapshot};
use dns_lua::{LivenessView, LuaSettings};
use dns_wire::Name;
use dns_wire::hash::Seed;
use dns_zone::Zone;
use peer_bind::ZoneDecl;
use proto::health::{Liveness, Snapshot as Health, Watched};
use proto::link::Link;
use tokio::sync::{oneshot, watch};

use crate::config::Zones;
use crate::load::{self, Loaded};
use crate::programs::Message;

pub use quiet::Events;
use quiet::Quiet;
pub use report::{Reports, ZoneReport};
use zone_state::{Change, ZoneState};

/// The length of the command queue. When it is full, repeated commands are dropped, and senders of
/// other commands wait.
const QUEUE: usize = 256;
/// The most zones of a load that are logged one by one.
const LOGGED_ZONES: usize = 20;

/// A load of this many records leaves behind enough freed memory to give it back.
const MANY_RECORDS: usize = 50_000;
/// The time that a replaced snapshot is kept: idle threads of the data path look for a new one four times a
/// second.
const RETIREMENT: Duration = Duration::from_secs(1);

/// Everything that can change answers.
#[derive(Debug)]
pub enum Command {
    /// Adopt another configuration; the answer is a line for the log.
    Configure(Box<Plan>, oneshot::Sender<String>),
    /// Load one zone, or all, whether or not their files changed.
    Reload(
        Option<Name>,
        oneshot::Sender<Result<Vec<Outcome>, NoSuchZone>>,
    ),
    /// Files may have changed: load the zones whose changed files are complete.
    Look(Events),
    /// Publish the version of a zone that is held back.
    Accept(Name, oneshot::Sender<Result<Outcome, NotHeld>>),
    /// healthd has sent a snapshot.
    Liveness,
    /// End the wait of queries for a live set.
    EndWait {
        /// The zone.
        apex: Name,
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
    /// The settings of live sets, and whether there are any.
    pub lua: Arc<LuaSettings>,
    /// The settings of answers.
    pub answers: Settings,
}

/// The result of reloading one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The zone.
    pub name: Name,
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
    /// Readiness: a broken zone is a reason here.
    pub readiness: Readiness,
    /// The directories to watch.
    pub directories: watch::Sender<BTreeSet<PathBuf>>,
}

/// The running thread.
#[derive(Debug)]
pub struct Handle {
    commands: SyncSender<Command>,
    thread: Option<JoinHandle<()>>,
}

struct Publisher {
    channels: Channels,
    plan: Plan,
    seed: Seed,
    health: Arc<Health>,
    zones: Vec<ZoneState>,
    places: HashMap<Name, usize>,
    /// The files that are changing.
    quiet: Quiet,
    /// The zones of each target.
    watched: HashMap<Watched, BTreeSet<usize>>,
    /// Snapshots that the data path may still use, each with the time of its replacement.
    retired: Vec<(Instant, Arc<Snapshot>)>,
    /// Whether to trim the allocator's memory after they are freed.
    must_trim: bool,
}

//--- Handle

impl Handle {
    /// Starts the thread with the first configuration; `ready` gets the summary of the first snapshot.
    pub fn start(
        channels: Channels,
        plan: Plan,
        seed: Seed,
        ready: oneshot::Sender<String>,
    ) -> std::io::Result<Self> {
        let (commands, queue) = sync_channel(QUEUE);
        let mut publisher = Publisher {
            channels,
            plan: plan.clone(),
            seed,
            health: Arc::default(),
            zones: Vec::new(),
            places: HashMap::new(),
            quiet: Quiet::default(),
            watched: HashMap::new(),
            retired: Vec::new(),
            must_trim: false,
        };
        let thread = thread::Builder::new()
            .name("zone-publisher".to_owned())
            .spawn(move || {
                let summary = publisher.configure(plan);
                // The receiver may have given up.
                drop(ready.send(summary));
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

//--- Commands

impl Publisher {
    fn run(&mut self, queue: &Receiver<Command>) {
        loop {
            // Only retired snapshots and files that may still be written need a timeout.
            let received = match self.timeout() {
                None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(timeout) => queue.recv_timeout(timeout),
            };
            let command = match received {
                Ok(command) => command,
                Err(RecvTimeoutError::Timeout) => {
                    self.free_retired();
                    if self
                        .quiet
                        .due(self.plan.zones.quiet)
                        .is_some_and(|due| due <= clock::now())
                    {
                        self.look(Events::default());
                    }
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            match command {
                Command::Configure(plan, done) => {
                    let summary = self.configure(*plan);
                    drop(done.send(summary));
                }
                Command::Reload(name, done) => {
                    let outcome = self.reload(name.as_ref());
                    drop(done.send(outcome));
                }
                Command::Look(events) => self.look(events),
                Command::Accept(name, done) => {
                    let outcome = self.accept(&name);
                    drop(done.send(outcome));
                }
                Command::Liveness => self.take_liveness(),
                Command::EndWait { apex, set } => self.end_wait(&apex, set),
                Command::Stop => return,
            }
        }
    }

    /// How long to wait for the next command.
    fn timeout(&self) -> Option<Duration> {
        let retired = (!self.retired.is_empty()).then_some(RETIREMENT);
        let due = self.quiet.due(self.plan.zones.quiet);
        let due = due.map(|due| due.saturating_duration_since(clock::now()));
        [retired, due].into_iter().flatten().min()
    }

    /// Adopts a configuration: zones that stay keep their data unless their files, or the options for
    /// reading them, have changed.
    fn configure(&mut self, plan: Plan) -> String {
        let same_reading = *self.plan.zones.options == *plan.zones.options
            && self.plan.lua.limits.enabled == plan.lua.limits.enabled;
        let same_live = self.plan.lua == plan.lua;
        self.plan = plan;
        let mut old: HashMap<Name, ZoneState> = self
            .zones
            .drain(..)
            .map(|kept| (kept.declared.name.clone(), kept))
            .collect();
        let declared = self.plan.zones.declared.clone();
        self.zones = declared
            .into_iter()
            .map(|declared| match old.remove(&declared.name) {
                Some(kept) => kept.declare(declared),
                None => ZoneState::new(declared),
            })
            .collect();
        for name in old.keys() {
            self.channels.readiness.set_reason(reason_key(name), None);
            tracing::info!(zone = %name, "Zone is no longer declared");
        }
        self.places = self
            .zones
            .iter()
            .enumerate()
            .map(|(place, kept)| (kept.declared.name.clone(), place))
            .collect();
        // A sender of SIGHUP has finished its files; only those that are seen open have to wait.
        let stale: Vec<usize> = self.places_where(|kept| {
            let change = kept.change(|path, _| !self.quiet.is_open(path));
            change == Change::Complete || (change == Change::None && !same_reading)
        });
        self.load(&stale);
        if !same_live {
            for kept in &mut self.zones {
                kept.renew_live();
            }
        }
        self.evaluate(&|_| !same_live);
        self.publish_all();
        self.summary()
    }

    /// Loads zones even if their files have not changed.
    fn reload(&mut self, name: Option<&Name>) -> Result<Vec<Outcome>, NoSuchZone> {
        let places = match name {
            Some(name) => vec![*self.places.get(name).ok_or(NoSuchZone)?],
            None => (0..self.zones.len()).collect(),
        };
        self.load(&places);
        self.settle(&places);
        let reports = places.iter().filter_map(|place| self.zones.get(*place));
        Ok(reports.map(|kept| kept.report.outcome()).collect())
    }

    /// Loads the zones whose changed files are complete.
    fn look(&mut self, events: Events) {
        let zones = self.zones.iter().flat_map(|kept| &kept.files);
        let files: HashSet<&Path> = zones.map(|(path, _)| path.as_path()).collect();
        self.quiet.note(
            events,
            |path| files.contains(path),
            |link| behind(link, &files),
        );
        let time = (clock::now(), self.plan.zones.quiet);
        let mut stale = Vec::new();
        for (place, kept) in self.zones.iter().enumerate() {
            let change = kept.change(|path, stamp| self.quiet.is_complete(path, stamp, time));
            if change == Change::Complete {
                stale.push(place);
            }
        }
        if !stale.is_empty() {
            self.load(&stale);
            self.settle(&stale);
        }
    }

    /// Publishes the version of a zone that is held back.
    fn accept(&mut self, name: &Name) -> Result<Outcome, NotHeld> {
        let place = *self.places.get(name).ok_or(NotHeld::NoSuchZone)?;
        let kept = self.zones.get_mut(place).ok_or(NotHeld::NoSuchZone)?;
        if !kept.accept() {
            return Err(NotHeld::Nothing);
        }
        let outcome = kept.report.outcome();
        let key = reason_key(&kept.declared.name);
        self.channels
            .readiness
            .set_reason(key, kept.report.trouble());
        self.settle(&[place]);
        Ok(outcome)
    }

    /// Takes the newest snapshot of healthd, and evaluates the programs that depend on its changes.
    fn take_liveness(&mut self) {
        self.take_health(self.channels.link.current());
    }

    fn take_health(&mut self, new: Arc<Health>) {
        let old = std::mem::replace(&mut self.health, new);
        let moved: BTreeSet<Watched> = self
            .watched
            .keys()
            .filter(|target| liveness(&old, target) != liveness(&self.health, target))
            .cloned()
            .collect();
        if moved.is_empty() {
            // Clients may ask which generation the answers are of.
            if old.generation != self.health.generation {
                self.publish(&[]);
            }
            return;
        }
        let places: BTreeSet<usize> = moved
            .iter()
            .filter_map(|target| self.watched.get(target))
            .flatten()
            .copied()
            .collect();
        for target in &moved {
            log_target(target, &old, &self.health);
        }
        let is_affected = |target: &Watched| moved.contains(target);
        for place in &places {
            self.evaluate_zone(*place, &is_affected);
        }
        // The result of a program may name further targets.
        self.state_targets();
        self.publish(&places.into_iter().collect::<Vec<_>>());
    }

    fn end_wait(&mut self, apex: &Name, set: u32) {
        let Some(place) = self.places.get(apex).copied() else {
            return;
        };
        if let Some(kept) = self.zones.get_mut(place) {
            kept.live.end_wait(set);
        }
        self.publish(&[place]);
    }

    fn places_where(&self, is: impl Fn(&ZoneState) -> bool) -> Vec<usize> {
        let zones = self.zones.iter().enumerate();
        zones
            .filter(|(_, kept)| is(kept))
            .map(|(place, _)| place)
            .collect()
    }

    //--- Loading

    /// Loads these zones from their files; nothing is published yet.
    fn load(&mut self, places: &[usize]) {
        let declared: Vec<&ZoneDecl> = places
            .iter()
            .filter_map(|place| self.zones.get(*place))
            .map(|kept| &kept.declared)
            .collect();
        let loaded = load::all(
            &declared,
            &self.plan.zones,
            self.seed,
            self.plan.lua.limits.enabled,
        );
        let n_records: usize = loaded.iter().map(Loaded::n_records).sum();
        if n_records >= MANY_RECORDS {
            // Parsing takes several times the memory that is kept.
            daemon::memory::trim();
            // The replaced zones are freed later.
            self.must_trim = true;
        }
        for (place, loaded) in places.iter().zip(loaded) {
            if let Some(kept) = self.zones.get_mut(*place) {
                for (path, _) in &loaded.files {
                    self.quiet.forget(path);
                }
                let guard = kept.needs_guard().then_some(&self.plan.zones.guard);
                kept.take(loaded, guard, places.len() <= LOGGED_ZONES);
                let trouble = kept.report.trouble();
                let key = reason_key(&kept.declared.name);
                self.channels.readiness.set_reason(key, trouble);
            }
        }
        let zones = self.zones.iter().flat_map(|kept| &kept.files);
        let files: HashSet<&Path> = zones.map(|(path, _)| path.as_path()).collect();
        self.quiet.retain(|path| files.contains(path));
        self.state_directories();
    }

    /// Evaluates and publishes zones that were loaded again.
    fn settle(&mut self, places: &[usize]) {
        for place in places {
            self.evaluate_zone(*place, &|_| false);
        }
        self.state_targets();
        self.publish(places);
    }

    fn state_directories(&self) {
        let files = self.zones.iter().flat_map(|kept| &kept.files);
        let directories: BTreeSet<PathBuf> = files
            .filter_map(|(path, _)| path.parent())
            .map(|parent| match parent.as_os_str().is_empty() {
                true => PathBuf::from("."),
                false => parent.to_owned(),
            })
            .collect();
        self.channels.directories.send_if_modified(|stated| {
            let changed = *stated != directories;
            if changed {
                *stated = directories;
            }
            changed
        });
    }

    //--- Liveness

    fn evaluate(&mut self, is_affected: &dyn Fn(&Watched) -> bool) {
        for place in 0..self.zones.len() {
            self.evaluate_zone(place, is_affected);
        }
        self.state_targets();
    }

    fn evaluate_zone(&mut self, place: usize, is_affected: &dyn Fn(&Watched) -> bool) {
        let view = View(Arc::clone(&self.health) as _);
        let Some(kept) = self.zones.get_mut(place) else {
            return;
        };
        let Some(zone) = kept.zone.clone() else {
            return;
        };
        if kept.live.is_empty() {
            return;
        }
        for message in kept
            .live
            .evaluate(&zone, &view, &self.plan.lua, is_affected)
        {
            log_message(&zone, &message);
        }
        kept.report = Arc::new(kept.report.with_live(kept.live.report(&zone)));
    }

    /// Sends all targets to healthd.
    fn state_targets(&mut self) {
        let mut watched: HashMap<Watched, BTreeSet<usize>> = HashMap::new();
        for (place, kept) in self.zones.iter().enumerate() {
            for target in kept.live.targets() {
                watched.entry(target.clone()).or_default().insert(place);
            }
        }
        let targets: BTreeSet<Watched> = watched.keys().cloned().collect();
        let link = &self.channels.link;
        link.set_targets(targets.into_iter().collect());
        self.watched = watched;
    }

    //--- Publishing

    /// Frees snapshots that no thread uses any more. A large zone is freed here, where no query waits for
    /// it.
    fn free_retired(&mut self) {
        let now = clock::now();
        let before = self.retired.len();
        self.retired
            .retain(|(since, _)| now.duration_since(*since) < RETIREMENT);
        if self.must_trim && self.retired.len() < before {
            self.must_trim = !self.retired.is_empty();
            daemon::memory::trim();
        }
    }

    fn publish_all(&mut self) {
        let served = self.zones.iter().map(|kept| self.served(kept)).collect();
        let table = Table::new(self.seed, served);
        self.publish_table(table);
    }

    fn publish(&mut self, places: &[usize]) {
        let current = self.channels.cell.current();
        let served = places
            .iter()
            .filter_map(|place| self.zones.get(*place))
            .map(|kept| self.served(kept));
        let table = current.table.replace(served);
        self.publish_table(table);
    }

    fn publish_table(&mut self, table: Table) {
        self.free_retired();
        self.retired
            .push((clock::now(), self.channels.cell.current()));
        self.channels.cell.publish(Snapshot {
            table,
            settings: self.answers(),
        });
        let zones = self.zones.iter().map(|kept| Arc::clone(&kept.report));
        self.channels.reports.publish(Reports {
            zones: zones.collect(),
            n_targets: self.watched.len(),
        });
        let loaded = self.zones.iter().any(|kept| kept.zone.is_some());
        let none = (!loaded && !self.zones.is_empty()).then(|| "not one is loaded".to_owned());
        self.channels.readiness.set_unready("zones", none);
    }

    /// The settings of answers, with the generation of liveness that they are of.
    fn answers(&self) -> Settings {
        let mut answers = self.plan.answers.clone();
        let generation = self.health.generation;
        if generation > 0
            && let Ok(name) = GENERATION.parse()
        {
            answers.chaos.push((name, generation.to_string()));
        }
        answers
    }

    fn served(&self, kept: &ZoneState) -> Arc<Served> {
        let view = View(Arc::clone(&self.health) as _);
        let live = match kept.live.is_empty() {
            true => LiveSets::default(),
            false => kept.live.serve(&view, &self.plan.lua),
        };
        Arc::new(Served {
            apex: kept.declared.name.clone(),
            zone: kept.zone.clone(),
            live: Arc::new(live),
        })
    }

    fn summary(&self) -> String {
        let n_loaded = self.zones.iter().filter(|kept| kept.zone.is_some()).count();
        let reports = self.zones.iter().map(|kept| &kept.report);
        let n_broken = reports
            .filter(|report| !matches!(report.state, State::Loaded | State::Held))
            .count();
        let zones = counted(self.zones.len(), "zone");
        let targets = counted(self.watched.len(), "target");
        match n_broken {
            0 => format!("{zones}, {targets}"),
            _ => format!("{n_loaded} of {zones}, {n_broken} with broken files, {targets}"),
        }
    }
}

/// The CHAOS TXT name that answers which generation of healthd's the answers are of.
const GENERATION: &str = "generation.outpost.";

/// The files among these that are reached through a symbolic link at this path, with their states.
fn behind(link: &Path, files: &HashSet<&Path>) -> Vec<(PathBuf, Stamp)> {
    if !link.is_symlink() {
        return Vec::new();
    }
    let is_behind = |file: &&&Path| links(file).iter().any(|it| it == link);
    let behind = files.iter().filter(is_behind);
    behind
        .map(|file| ((*file).to_owned(), Stamp::of(file)))
        .collect()
}

/// The most symbolic links on the way to a file, as in the kernel.
const MAX_LINKS: usize = 40;

/// The symbolic links on the way to a file, from its own path on.
fn links(file: &Path) -> Vec<PathBuf> {
    let mut links = Vec::new();
    let mut rest = file.to_owned();
    'next: while links.len() < MAX_LINKS {
        for part in rest.ancestors() {
            let Ok(target) = std::fs::read_link(part) else {
                continue;
            };
            let parent = part.parent().unwrap_or_else(|| Path::new(""));
            let behind = rest.strip_prefix(part).unwrap_or_else(|_| Path::new(""));
            let target = parent.join(target);
            links.push(part.to_owned());
            rest = match behind.as_os_str().is_empty() {
                true => target,
                false => target.join(behind),
            };
            continue 'next;
        }
        break;
    }
    links
}

fn reason_key(name: &Name) -> String {
    format!("zone {name}")
}

fn log_message(zone: &Zone, message: &Message) {
    let Message {
        is_failure,
        source,
        text,
    } = message;
    match is_failure {
        true => tracing::error!(zone = %zone.apex(), source, "LUA record gives no answer: {text}"),
        false => tracing::info!(zone = %zone.apex(), source, "LUA record says: {text}"),
    }
}

fn liveness(health: &Health, target: &Watched) -> Liveness {
    LivenessView::liveness(health, target)
}

fn log_target(target: &Watched, old: &Health, new: &Health) {
    let (before, after) = (liveness(old, target), liveness(new, target));
    let reason = new
        .watched(target)
        .map_or("", |status| status.reason.as_str());
    match after {
        Liveness::Down => tracing::warn!(%target, %before, reason, "Target is down"),
        Liveness::Up | Liveness::Unknown => tracing::info!(%target, %before, "Target is {after}"),
    }
}

#[cfg(test)]
mod tests;
