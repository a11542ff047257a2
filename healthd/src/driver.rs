//! Drives the monitor: tells it the time, starts the probes it asks for, hands back what they find.
//!
//! | task | does | ends |
//! | --- | --- | --- |
//! | driver | waits for the next due time or a wake-up, starts probes | with the runtime |
//! | a probe, at most as many as may be in flight | probes once, reports | at its timeout |
//!
//! A lock guards the monitor; it is held for one step and never across an await. The driver announces the
//! changes of a step as a generation; a follower asks for the changes that it has not seen.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::clock;
use daemon::run::Heartbeat;
use parking_lot::{Mutex, MutexGuard};
use proto::health::{AdminState, Liveness, Target, Terms};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::leases::LeaseTable;
use crate::metrics::Counters;
use crate::trail::{Change, Outcome, Trail};
use exchange::members::{Contact, PeerId, is_shared};
use health_probe::Prober;
use liveness::admin_rules::Decision;
use liveness::monitor::{Limits, Monitor, Probe, Restored, SiteChange};
use liveness::now::Now;
use liveness::schedule::TargetId;
use liveness::schedules::Schedules;
use liveness::table::Finding;
use liveness::target_state::Effect;

/// The monitor and all that shells need beside it; clones share it.
#[derive(Clone, Debug)]
pub struct Driver {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    monitor: Mutex<Monitor>,
    wake: Arc<Notify>,
    generation: watch::Sender<u64>,
    /// Whether this node is in contact with the others; `None` without an exchange.
    contact: watch::Sender<Option<Contact>>,
    leases: LeaseTable,
    /// Why each peer is not heard; empty while it is.
    peer_errors: Mutex<BTreeMap<PeerId, String>>,
    /// The generation that is on disk.
    saved: watch::Sender<u64>,
    prober: Prober,
    counters: Counters,
    heartbeat: Heartbeat,
    trail: Mutex<Trail>,
}

impl Driver {
    /// A driver that does nothing until [`run`](Self::run).
    #[must_use]
    pub fn new(
        limits: Limits,
        schedules: Schedules,
        restored: Restored,
        counters: Counters,
    ) -> Self {
        let seed = RandomState::new().hash_one(std::process::id());
        let monitor = Monitor::new(limits, schedules, seed, restored, now());
        let (generation, _) = watch::channel(monitor.generation());
        let (wake, heartbeat) = (Arc::new(Notify::new()), Heartbeat::default());
        let asked = Arc::clone(&wake);
        heartbeat.wake_by(move || asked.notify_one());
        Self {
            shared: Arc::new(Shared {
                monitor: Mutex::new(monitor),
                wake,
                generation,
                contact: watch::channel(None).0,
                leases: LeaseTable::new(),
                peer_errors: Mutex::default(),
                // Without a saver, there is nothing to wait for.
                saved: watch::channel(u64::MAX).0,
                prober: Prober::new(),
                counters,
                heartbeat,
                trail: Mutex::default(),
            }),
        }
    }

    /// Begins to probe; needs a tokio runtime.
    #[must_use]
    pub fn run(&self) -> JoinHandle<()> {
        tokio::spawn(Arc::clone(&self.shared).run())
    }

    /// Does one step with the monitor, and announces what it changed.
    pub fn step<R>(&self, step: impl FnOnce(&mut Monitor, Now) -> R) -> R {
        let mut monitor = self.shared.lock();
        let result = step(&mut monitor, now());
        let changes = self.shared.announce(&mut monitor);
        drop(monitor);
        self.shared.log_changes(changes);
        self.shared.wake.notify_one();
        result
    }

    /// Reads the recent past, or adds to it. A caller may hold the monitor; `look` must not take it.
    pub(crate) fn trail<R>(&self, look: impl FnOnce(&mut Trail) -> R) -> R {
        look(&mut self.shared.trail.lock())
    }

    /// Keeps a change.
    pub(crate) fn note(&self, change: Change) {
        self.shared.note(change);
    }

    /// Looks at the monitor.
    pub fn look<R>(&self, look: impl FnOnce(&Monitor) -> R) -> R {
        look(&self.shared.lock())
    }

    /// Looks at the monitor, with the time.
    pub fn look_now<R>(&self, look: impl FnOnce(&Monitor, Now) -> R) -> R {
        look(&self.shared.lock(), now())
    }

    /// The newest generation, waited for with `changed`.
    #[must_use]
    pub fn generations(&self) -> watch::Receiver<u64> {
        self.shared.generation.subscribe()
    }

    /// Whether this node is in contact with the others, waited for with `changed`.
    pub(crate) fn contacts(&self) -> watch::Receiver<Option<Contact>> {
        self.shared.contact.subscribe()
    }

    /// The leases of virtual addresses.
    pub(crate) fn leases(&self) -> &LeaseTable {
        &self.shared.leases
    }

    /// Keeps why a peer is not heard, empty if it is. Returns whether that is another reason than before.
    pub(crate) fn set_peer_error(&self, peer: PeerId, error: &str) -> bool {
        let mut errors = self.shared.peer_errors.lock();
        let before = errors.insert(peer, error.to_owned());
        before.as_deref() != Some(error)
    }

    /// Why peers are not heard; empty for those that are.
    pub(crate) fn peer_errors(&self) -> BTreeMap<PeerId, String> {
        self.shared.peer_errors.lock().clone()
    }

    /// Wakes those who wait for this generation to be on disk.
    pub fn note_saved(&self, generation: u64) {
        self.shared.saved.send_replace(generation);
    }

    /// Waits until a generation is on disk; false when it is not, `limit` later.
    pub async fn is_saved(&self, generation: u64, limit: Duration) -> bool {
        let mut saved = self.shared.saved.subscribe();
        let saved = saved.wait_for(|saved| *saved >= generation);
        matches!(tokio::time::timeout(limit, saved).await, Ok(Ok(_)))
    }

    /// A counter that rises as long as the driver runs.
    #[must_use]
    pub fn heartbeat(&self) -> Heartbeat {
        Heartbeat::clone(&self.shared.heartbeat)
    }

    /// The counters of all probes.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }
}

impl Shared {
    async fn run(self: Arc<Self>) {
        loop {
            self.heartbeat.beat();
            let (probes, deadline) = self.plan();
            for probe in probes {
                self.counters.lateness.observe(probe.late.as_secs_f64());
                let shared = Arc::clone(&self);
                tokio::spawn(async move {
                    let finding = Box::pin(shared.prober.probe(&probe.target, probe.timeout)).await;
                    shared.finish(probe.id, &probe.target, finding);
                });
            }
            let due = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.wake.notified() => {}
                () = due => {}
            }
        }
    }

    /// The probes to start, and the time to look again.
    fn plan(&self) -> (Vec<Probe>, Option<Instant>) {
        let mut monitor = self.lock();
        let now = now();
        let probes = std::iter::from_fn(|| monitor.poll(now)).collect();
        let deadline = monitor.next_deadline();
        let ended = monitor.take_ended();
        let changes = self.announce(&mut monitor);
        drop(monitor);
        self.log_changes(changes);
        for (scope, decision) in ended {
            let Decision {
                state,
                terms: Terms { reason, by, .. },
            } = decision;
            tracing::info!(%scope, %state, reason, by, "Administrative state has ended; probes decide again");
            self.note(Change {
                what: scope.to_string(),
                state: AdminState::Ready.to_string(),
                why: format!("{state} has ended"),
                by: String::new(),
            });
        }
        (probes, deadline)
    }

    fn finish(&self, id: TargetId, target: &Target, finding: Finding) {
        self.counters.count(target, &finding);
        let (reason, good) = (finding.reason.clone(), finding.good);
        let outcome = Outcome {
            good,
            seconds: finding.latency.as_secs_f32(),
        };
        let mut monitor = self.lock();
        let first = monitor
            .table()
            .get(id)
            .is_some_and(|entry| entry.state.liveness() == Liveness::Unknown);
        let effect = monitor.finish(id, finding, now());
        let is_known = |id| monitor.table().get(id).is_some();
        if is_known(id) {
            self.trail.lock().note_result(id, outcome, is_known);
        }
        let is_shared = monitor.exchanged().is_some() && is_shared(target);
        let changes = self.announce(&mut monitor);
        drop(monitor);
        self.wake.notify_one();
        let is_logged = changes.iter().any(|change| *change.target == *target);
        self.log_changes(changes);
        if effect == Effect::Flipped && !is_logged {
            let state = if good { Liveness::Up } else { Liveness::Down };
            self.note(Change {
                what: target.to_string(),
                state: match is_shared {
                    true => format!("{state} by this node"),
                    false => state.to_string(),
                },
                why: reason.clone(),
                by: String::new(),
            });
        }
        match (effect, good) {
            (Effect::Flipped, _) if is_logged => {}
            (Effect::Flipped, true) if is_shared => {
                tracing::info!(%target, reason, "Probes of this node find the target up");
            }
            (Effect::Flipped, false) if is_shared => {
                tracing::info!(%target, reason, "Probes of this node find the target down");
            }
            (Effect::Flipped, true) => tracing::info!(%target, reason, "Target is up"),
            (Effect::Flipped, false) if first => tracing::info!(%target, reason, "Target is down"),
            (Effect::Flipped, false) => tracing::warn!(%target, reason, "Target is down"),
            (Effect::Confirmed | Effect::None, _) => {}
        }
    }

    /// Announces what a step has changed. Returns what is to be logged.
    fn announce(&self, monitor: &mut Monitor) -> Vec<SiteChange> {
        let newest = monitor.generation();
        self.generation.send_if_modified(|generation| {
            let moved = *generation != newest;
            *generation = newest;
            moved
        });
        let contact = monitor.contact().map(|(contact, _)| contact);
        let moved = self.contact.send_if_modified(|known| {
            let moved = *known != contact;
            *known = contact;
            moved
        });
        if let Some(contact) = contact.filter(|_| moved) {
            self.note(Change {
                what: "this node".to_owned(),
                state: crate::status::contact_of(contact).to_string(),
                ..Change::default()
            });
        }
        monitor.take_site_changes()
    }

    fn lock(&self) -> MutexGuard<'_, Monitor> {
        self.monitor.lock()
    }

    fn note(&self, change: Change) {
        self.trail.lock().note(clock::since_1970(), change);
    }

    fn log_changes(&self, changes: Vec<SiteChange>) {
        for change in changes {
            self.note(Change {
                what: change.target.to_string(),
                state: change.after.to_string(),
                why: change.words.clone(),
                by: String::new(),
            });
            log_change(change);
        }
    }
}

fn log_change(change: SiteChange) {
    let SiteChange {
        target,
        before,
        after,
        own,
        words,
    } = change;
    let contradicts = own != after && own != Liveness::Unknown;
    match after {
        Liveness::Up if contradicts => {
            tracing::warn!(%target, words, "Target is up, and cannot be reached from this node");
        }
        Liveness::Down if contradicts => {
            tracing::warn!(%target, words, "Target is down, although this node reaches it");
        }
        Liveness::Down if before == Liveness::Up => {
            tracing::warn!(%target, words, "Target is down");
        }
        after => tracing::info!(%target, words, "Target is {after}"),
    }
}

fn now() -> Now {
    Now {
        steady: clock::now(),
        wall: clock::since_1970(),
    }
}
