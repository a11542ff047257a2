//! The threads that load zones: they read, compile and evaluate, and publish nothing.
//!
//! A load is given everything that it needs, and its result is whole: the publisher only adopts it. How many run
//! at once is for the queue of loads to say.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use config_text::Problem;
use daemon::clock;
use daemon::disk::Stamp;
use dns_answer::live::View;
use dns_cluster::nodes::Facts;
use dns_history::{History, Making, Version};
use dns_lua::LuaSettings;
use dns_update::Refusal;
use dns_wire::hash::Seed;
use dns_zone::load_queue::{Job, Limits};
use dns_zone::parse::{LeftOut, Options};
use dns_zone::{Doubt, Guard, Zone};
use parking_lot::Mutex;
use peer_bind::ZoneDecl;

use super::Command;
use super::steps::{self, Restoring, Step};
use super::updating::{self, Updating};
use crate::load::{self, Fresh};
use dns_primary::histories::Keeping;
use dns_programs::{LiveZone, Message};

/// The most threads that load. Each may need twenty-five times the size of its zone's files.
const MAX_WORKERS: usize = 8;
/// The size from which a zone is large: one large zone is loaded at a time.
pub(super) const LARGE: u64 = 4 << 20;
/// A load of this many records leaves behind enough freed memory to give it back.
pub(super) const MANY_RECORDS: usize = 50_000;

/// The bounds of loads on this machine: one for each processor, and one that is left for small zones.
pub(super) fn limits() -> Limits {
    let n_processors = thread::available_parallelism().map_or(1, usize::from);
    Limits {
        at_once: n_processors.clamp(2, MAX_WORKERS),
        large_at_once: 1,
        large: LARGE,
    }
}

/// A load.
#[derive(Debug)]
pub(super) struct Order {
    /// Its number.
    pub(super) job: Job,
    /// The zone.
    pub(super) declared: ZoneDecl,
    /// The settings of live sets.
    pub(super) lua: Arc<LuaSettings>,
    /// The facts that programs see.
    pub(super) facts: Facts,
    /// The work.
    pub(super) work: Work,
}

/// The work of a load.
#[derive(Debug)]
pub(super) enum Work {
    /// To read the files.
    Read(Box<Reading>),
    /// To evaluate the programs of a zone with other settings.
    Evaluate(Arc<Zone>),
    /// To go back to an older version.
    Restore(Box<Restoring>),
    /// To carry out updates.
    Update(Box<Updating>),
}

/// The way in which files are read, and a new version is judged.
#[derive(Debug)]
pub(super) struct Reading {
    /// The options.
    pub(super) options: Arc<Options>,
    /// The seed by which names are hashed.
    pub(super) seed: Seed,
    /// The rules for new versions.
    pub(super) guard: Guard,
    /// The zone in service.
    pub(super) served: Option<Arc<Zone>>,
    /// The files of the zone in service or of the version that is held back, with their states.
    pub(super) known: Vec<(PathBuf, Stamp)>,
    /// Whether a version is held back.
    pub(super) is_held: bool,
    /// Whether the history on disk counts, and not the one in memory: another process has written it.
    pub(super) must_renew: bool,
    /// The history of the zone in service.
    pub(super) history: History,
    /// How histories are kept.
    pub(super) keeping: Keeping,
}

/// The result of a load.
#[derive(Debug)]
pub struct Done {
    /// Its number.
    pub(super) job: Job,
    /// The result.
    pub(super) result: Product,
}

/// The result of the work.
#[derive(Debug)]
pub(super) enum Product {
    /// The files were read.
    Read {
        /// The files, with their states before they were read.
        files: Vec<(PathBuf, Stamp)>,
        /// The time that it took.
        took: Duration,
        /// The zone with the reasons to doubt it, or the errors of its files.
        version: Result<(Box<Prepared>, Vec<Doubt>), Vec<Problem>>,
    },
    /// The programs were evaluated.
    Evaluated(Evaluation),
    /// The older version, or the reason why there is none.
    Restored(Result<Box<Prepared>, String>),
    /// The updates were carried out or refused.
    Updated(Updated),
}

/// The results of updates.
#[derive(Debug)]
pub(super) struct Updated {
    /// The end of each.
    pub(super) results: Vec<Result<(), Refusal>>,
    /// The next version; `None` if nothing changes.
    pub(super) next: Option<Box<Prepared>>,
}

/// A zone that can be published.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The zone.
    pub(super) fresh: Fresh,
    /// The time that its load took.
    pub(super) took: Duration,
    /// Its live sets.
    pub(super) evaluation: Evaluation,
    /// The step that leads to it.
    pub(super) step: Step,
}

/// Live sets as of some facts.
#[derive(Debug)]
pub(super) struct Evaluation {
    /// The live sets.
    pub(super) live: LiveZone,
    /// The facts.
    pub(super) facts: Facts,
    /// Messages of the programs.
    pub(super) messages: Vec<Message>,
}

/// Carries out loads.
pub(super) type Load = Arc<dyn Fn(Order) -> Done + Send + Sync>;

/// The threads. They end with this value, each after its load.
#[derive(Debug)]
pub(super) struct Workers {
    orders: SyncSender<Order>,
}

impl Workers {
    /// Starts `n` threads, which send their results as commands.
    pub(super) fn start(
        n: usize,
        load: &Load,
        commands: &SyncSender<Command>,
    ) -> std::io::Result<Self> {
        let (orders, queue) = sync_channel(n);
        let queue = Arc::new(Mutex::new(queue));
        for number in 1..=n {
            let (queue, load, commands) = (Arc::clone(&queue), Arc::clone(load), commands.clone());
            thread::Builder::new()
                .name(format!("zone-load-{number}"))
                .spawn(move || work(&queue, &load, &commands))?;
        }
        Ok(Self { orders })
    }

    /// Passes a load to a thread; there are never more of them than threads. `false` when the threads have ended.
    pub(super) fn begin(&self, order: Order) -> bool {
        match self.orders.try_send(order) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }
}

fn work(queue: &Mutex<Receiver<Order>>, load: &Load, commands: &SyncSender<Command>) {
    loop {
        // A statement of its own: the lock is free while this thread loads.
        let order = queue.lock().recv();
        let Ok(order) = order else { return };
        let done = load(order);
        if commands.send(Command::Loaded(Box::new(done))).is_err() {
            return;
        }
    }
}

/// Carries out a load.
pub(super) fn carry_out(order: Order) -> Done {
    let Order {
        job,
        declared,
        lua,
        facts,
        work,
    } = order;
    let result = match work {
        Work::Read(reading) => read(&declared, &reading, &lua, facts),
        Work::Evaluate(zone) => Product::Evaluated(evaluate(&zone, &lua, facts)),
        Work::Restore(restoring) => {
            Product::Restored(restore(&declared, &restoring, &lua, facts).map(Box::new))
        }
        Work::Update(updating) => Product::Updated(update(&declared, &updating, &lua, facts)),
    };
    Done { job, result }
}

fn read(declared: &ZoneDecl, reading: &Reading, lua: &Arc<LuaSettings>, facts: Facts) -> Product {
    let loaded = load::zone(declared, &reading.options, reading.seed, lua.limits.enabled);
    if loaded.n_records() >= MANY_RECORDS {
        // Parsing takes several times the memory that is kept.
        daemon::memory::trim();
    }
    let took = loaded.took;
    let limits = reading.keeping.limits;
    let making = Making {
        name: &declared.name,
        path: declared.file.as_deref(),
        options: &reading.options,
        has_programs: lua.limits.enabled,
        seed: reading.seed,
    };
    let version = loaded.result.and_then(|mut fresh| {
        let is_new = reading.is_held || has_changed(&reading.known, &loaded.files);
        let set_aside = reading.history.set_aside();
        let is_set_aside = set_aside.is_some_and(|set_aside| {
            !is_new || Version::of(&fresh.zone).as_ref() == Some(set_aside)
        });
        let served = reading.served.as_ref().filter(|_| !reading.must_renew);
        let (doubts, step) = match (served, reading.history.updates()) {
            (Some(served), _) if is_set_aside => {
                fresh.zone = Arc::clone(served);
                (Vec::new(), Step::Stay(Arc::clone(served)))
            }
            (Some(served), Some(updates)) => {
                let history = (&reading.history, &updates);
                let both = steps::under_updates(served, &fresh.zone, history, &making, limits);
                let (zone, step) = both.map_err(|error| {
                    vec![Problem {
                        position: None,
                        message: format!("the updates cannot be laid over the new file: {error}"),
                    }]
                })?;
                fresh.zone = Arc::new(zone);
                (reading.guard.doubts(served, &fresh.zone), step)
            }
            (Some(served), None) => {
                let doubts = match is_new {
                    true => reading.guard.doubts(served, &fresh.zone),
                    false => Vec::new(),
                };
                let oddity = reading.guard.oddity(served, &fresh.zone);
                fresh.warnings.extend(oddity);
                (doubts, Step::between(served, &fresh.zone, limits))
            }
            (None, _) => {
                let step = steps::first(declared, &mut fresh.zone, &reading.keeping, &making);
                (Vec::new(), step)
            }
        };
        let evaluation = evaluate(&fresh.zone, lua, facts);
        let prepared = Prepared {
            fresh,
            took,
            evaluation,
            step,
        };
        Ok((Box::new(prepared), doubts))
    });
    Product::Read {
        files: loaded.files,
        took,
        version,
    }
}

fn update(
    declared: &ZoneDecl,
    updating: &Updating,
    lua: &Arc<LuaSettings>,
    facts: Facts,
) -> Updated {
    let begun = clock::now();
    let (results, next) = updating::carry_out(declared, updating, lua.limits.enabled);
    let next = next.map(|(zone, step)| prepare(zone, step, begun, (lua, facts)));
    Updated {
        results,
        next: next.map(Box::new),
    }
}

fn restore(
    declared: &ZoneDecl,
    restoring: &Restoring,
    lua: &Arc<LuaSettings>,
    facts: Facts,
) -> Result<Prepared, String> {
    let begun = clock::now();
    let (zone, step) = steps::restore(declared, restoring, lua)?;
    Ok(prepare(zone, step, begun, (lua, facts)))
}

/// A zone that comes from no file.
fn prepare(
    zone: Zone,
    step: Step,
    begun: Instant,
    (lua, facts): (&Arc<LuaSettings>, Facts),
) -> Prepared {
    let zone = Arc::new(zone);
    Prepared {
        evaluation: evaluate(&zone, lua, facts),
        fresh: Fresh {
            zone,
            warnings: Vec::new(),
            left_out: LeftOut::default(),
        },
        took: begun.elapsed(),
        step,
    }
}

/// Whether the files are others or in another state than those that are known. Otherwise only other options
/// apply, and nothing is doubtful.
fn has_changed(known: &[(PathBuf, Stamp)], files: &[(PathBuf, Stamp)]) -> bool {
    let main = |files: &[(PathBuf, Stamp)]| files.first().map(|(path, _)| path.clone());
    let now: HashMap<&PathBuf, Stamp> = files.iter().map(|(path, stamp)| (path, *stamp)).collect();
    let is_same = |(path, stamp): &(PathBuf, Stamp)| match now.get(path) {
        Some(now) => now == stamp,
        None => Stamp::of(path) == *stamp,
    };
    main(known) != main(files) || !known.iter().all(is_same)
}

fn evaluate(zone: &Arc<Zone>, lua: &Arc<LuaSettings>, facts: Facts) -> Evaluation {
    let mut live = LiveZone::new(zone, lua);
    let view = View(Arc::new(facts.clone()));
    let evaluated = live.evaluate(zone, &view, &|_| false);
    Evaluation {
        live,
        facts,
        messages: evaluated.messages,
    }
}
