//! Trust anchors that follow the keys of their zones (RFC 5011).
//!
//! ```text
//! resolver ─► DNSKEY set ─► dns_validate::rollover: who has signed ─► anchor_rollover: states ─┬─► anchor_store ─► disk
//!     ▲ question, when it is due                                                               └─► Routing: table, resolver, cache
//! ```
//!
//! The question asks for the set as it is, without validation (CD): the states say who is trusted. A set that no trusted key has signed
//! changes nothing, and neither does a zone that does not answer. The keys that are trusted are in force before they are on disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anchor_rollover::schedule::{Now, Zone};
use anchor_rollover::{Key, Refused, Rules, Set, State};
use anchor_store::{Known, Loaded, Store};
use api::dns_recursor::{ManagedKey, ManagedZone};
use daemon::clock;
use daemon::exit;
use daemon::readiness::Readiness;
use daemon::run::StartError;
use dns_cache::instant::Instant;
use dns_cache::key::Variant;
use dns_cache::message::MAX_MESSAGE;
use dns_validate::rollover::{KeySet, key_set, tag_and_algorithm};
use dns_validate::{Anchor, Response};
use dns_wire::{Flags, Name, Rcode, Type};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::config::{Followed, Managed};
use crate::driver::Job;
use crate::own_question::Asked;
use crate::routing::Routing;

/// The key of the reason on `/readyz` for a zone that has lost its trust anchors.
const REASON: &str = "trust anchors";
/// The key of the reason about the file.
const STORE_REASON: &str = "trust anchors on disk";

/// The zones whose keys are followed.
#[derive(Debug)]
pub struct ManagedKeys {
    state: Mutex<ManagedState>,
    store: Option<Arc<Store>>,
    clock: Clock,
    adopted: Notify,
    readiness: Readiness,
}

/// The states of the zones, and the plan by which they are followed.
#[derive(Debug)]
struct ManagedState {
    plan: Managed,
    zones: BTreeMap<Name, ManagedZoneState>,
}

/// A zone.
#[derive(Debug)]
struct ManagedZoneState {
    zone: Zone,
    good: u64,
    failed: u64,
    problem: Option<String>,
}

impl ManagedZoneState {
    const fn new(zone: Zone) -> Self {
        Self {
            zone,
            good: 0,
            failed: 0,
            problem: None,
        }
    }
}

/// The running follower; it ends when this is dropped.
#[derive(Debug)]
pub struct Following(JoinHandle<()>);

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ManagedKeys {
    /// Reads what was learned of the zones.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub async fn open(
        plan: &Managed,
        clock: Clock,
        readiness: Readiness,
    ) -> Result<Arc<Self>, StartError> {
        let (store, known) = match plan.directory.clone() {
            None => (None, Known::new()),
            Some(directory) => {
                let opened = tokio::task::spawn_blocking(move || read(&directory)).await;
                let failed = |error| StartError::io("managed-keys-directory is not used", &error);
                let (store, known) = opened
                    .map_err(std::io::Error::other)
                    .and_then(|opened| opened)
                    .map_err(failed)?;
                (Some(Arc::new(store)), known)
            }
        };
        let managed = Self {
            state: Mutex::new(ManagedState {
                plan: plan.clone(),
                zones: BTreeMap::new(),
            }),
            store,
            clock,
            adopted: Notify::new(),
            readiness,
        };
        managed.state.lock().take_plan(plan, known, now(clock));
        Ok(Arc::new(managed))
    }

    /// Follows other zones, or others keys to begin with; returns the trust anchors.
    pub fn adopt(&self, plan: &Managed) -> Followed {
        let mut state = self.state.lock();
        state.take_plan(plan, Known::new(), now(self.clock));
        self.adopted.notify_one();
        state.followed()
    }

    /// The trust anchors of the zones, as they are.
    #[must_use]
    pub fn followed(&self) -> Followed {
        self.state.lock().followed()
    }

    /// Begins to ask for keys.
    pub fn start(
        self: &Arc<Self>,
        jobs: mpsc::WeakSender<Job>,
        routing: &Arc<Routing>,
    ) -> Option<Following> {
        self.store.as_ref()?;
        let (managed, routing) = (Arc::clone(self), Arc::clone(routing));
        Some(Following(tokio::spawn(managed.run(jobs, routing))))
    }

    /// The zones, for the status.
    #[must_use]
    pub fn report(&self) -> Vec<ManagedZone> {
        let now = now(self.clock);
        let state = self.state.lock();
        let zones = state.zones.iter();
        zones
            .map(|(name, kept)| ManagedZone {
                zone: name.to_string(),
                keys: state.keys(name, &kept.zone),
                heard_at: kept.zone.heard().map(|heard| heard.wall),
                next_in_seconds: kept.zone.due().saturating_sub(now.steady).as_secs(),
                good: kept.good,
                failed: kept.failed,
                problem: match kept.zone.is_given_up() {
                    true => Some(
                        "all its keys are revoked or removed: it has no trust anchor".to_owned(),
                    ),
                    false => kept.problem.clone(),
                },
            })
            .collect()
    }

    async fn run(self: Arc<Self>, jobs: mpsc::WeakSender<Job>, routing: Arc<Routing>) {
        self.show_state();
        loop {
            let next = self.state.lock().next_due();
            tokio::select! {
                () = self.adopted.notified() => continue,
                () = wait(next, self.clock) => {}
            }
            let due = self.state.lock().due_zones(now(self.clock));
            let mut is_heard = false;
            for zone in due {
                let Some(jobs) = jobs.upgrade() else {
                    return;
                };
                let set = ask(&zone, &jobs, self.clock).await;
                drop(jobs);
                let before = self.followed();
                is_heard |= self.take(&zone, &set);
                let followed = self.followed();
                if followed != before {
                    let n_dropped = routing.follow(followed).await;
                    tracing::info!(%zone, n_dropped, "The trust anchors have changed");
                }
            }
            self.show_state();
            if is_heard {
                self.save().await;
            }
        }
    }

    /// Takes the answer to a question for the keys of a zone; whether a set counts.
    fn take(&self, name: &Name, set: &Result<KeySet, String>) -> bool {
        let now = now(self.clock);
        let mut state = self.state.lock();
        let ManagedState { plan, zones } = &mut *state;
        let Some(kept) = zones.get_mut(name) else {
            return false;
        };
        let is_initial = |key: &Key| plan.begins_with(name, key);
        let rules = rules(plan, &is_initial);
        let taken = match set {
            Ok(set) => {
                let set = Set {
                    rdatas: &set.rdatas,
                    signers: &set.signers,
                    ttl: Duration::from_secs(set.ttl.into()),
                    signed_for: Duration::from_secs(set.signed_for.into()),
                };
                let taken = kept.zone.take(set, rules, now);
                taken.map_err(|Refused::Unsigned| "no trusted key has signed the keys".to_owned())
            }
            Err(problem) => {
                kept.zone.failed(rules, now);
                Err(problem.clone())
            }
        };
        match taken {
            Ok(changes) => {
                for change in &changes {
                    let word = |state: Option<State>| {
                        state.map_or_else(|| "unknown".to_owned(), |state| state.to_string())
                    };
                    let (tag, algorithm) = label(&change.key);
                    let (before, after) = (word(change.before), word(change.after));
                    tracing::info!(zone = %name, tag, algorithm, before, after, "Key of a zone has changed its state");
                }
                if kept.zone.is_given_up() {
                    tracing::error!(zone = %name, "Zone has no trust anchor any more: all its keys are revoked or removed");
                }
                kept.good += 1;
                kept.problem = None;
                true
            }
            Err(problem) => {
                if kept.problem.as_ref() != Some(&problem) {
                    tracing::warn!(zone = %name, problem, "Keys of a zone are not taken; its trust anchors stay");
                }
                kept.failed += 1;
                kept.problem = Some(problem);
                false
            }
        }
    }

    /// Says on `/readyz` that a zone has lost its trust anchors.
    fn show_state(&self) {
        let state = self.state.lock();
        let lost = state.zones.iter().find(|(_, kept)| kept.zone.is_given_up());
        let reason = lost.map(|(zone, _)| {
            format!("all keys of {zone} are revoked or removed: names below it are not validated")
        });
        self.readiness.set_reason(REASON, reason);
    }

    async fn save(&self) {
        let Some(store) = self.store.clone() else {
            return;
        };
        let known = self.state.lock().known();
        let written =
            tokio::task::spawn_blocking(move || store.save(&anchor_store::encode(&known))).await;
        let reason = match written.map_err(std::io::Error::other).and_then(|it| it) {
            Ok(()) => None,
            Err(error) => Some(format!(
                "the keys of zones cannot be kept: {}",
                exit::chain(&error)
            )),
        };
        if let Some(reason) = &reason {
            tracing::warn!(reason, "A restart begins with older keys");
        }
        self.readiness.set_reason(STORE_REASON, reason);
    }
}

impl Managed {
    /// Whether trust begins with a key.
    fn begins_with(&self, zone: &Name, key: &Key) -> bool {
        let initial = self.initial.get(zone);
        initial.is_some_and(|all| all.iter().any(|anchor| anchor.names(key.rdata())))
    }
}

impl ManagedState {
    /// Takes the zones of a configuration; those that are followed stay as they are.
    fn take_plan(&mut self, plan: &Managed, mut known: Known, now: Now) {
        let mut before = std::mem::take(&mut self.zones);
        for name in plan.initial.keys() {
            let kept = match (before.remove(name), known.remove(name)) {
                (Some(kept), _) => kept,
                (None, Some((anchors, heard))) => {
                    let is_initial = |key: &Key| plan.begins_with(name, key);
                    let rules = rules(plan, &is_initial);
                    ManagedZoneState::new(Zone::restored(anchors, heard, rules, now))
                }
                (None, None) => ManagedZoneState::new(Zone::new(now)),
            };
            self.zones.insert(name.clone(), kept);
        }
        self.plan = plan.clone();
    }

    /// The trust anchors: the keys that are trusted, and those that trust begins with of which no set has shown anything.
    fn followed(&self) -> Followed {
        let zones = self.zones.iter();
        zones
            .map(|(name, kept)| {
                let trusted = kept.zone.anchors().trusted();
                let trusted = trusted.filter_map(|key| Anchor::of_key(name, key.rdata()));
                let standing = self.standing(name, &kept.zone).cloned();
                (name.clone(), trusted.chain(standing).collect())
            })
            .collect()
    }

    /// The keys of the configuration of which no set has shown anything.
    fn standing<'a>(&'a self, name: &Name, zone: &'a Zone) -> impl Iterator<Item = &'a Anchor> {
        let initial = self.plan.initial.get(name).into_iter().flatten();
        initial.filter(|anchor| {
            let mut known = zone.anchors().keys();
            !known.any(|(key, _)| anchor.names(key.rdata()))
        })
    }

    fn keys(&self, name: &Name, zone: &Zone) -> Vec<ManagedKey> {
        let known = zone.anchors().keys().map(|(key, state)| {
            let (tag, algorithm) = label(key);
            let left = match state {
                State::Pending { held, until } => Some(until.saturating_sub(held).as_secs()),
                _ => None,
            };
            ManagedKey {
                tag,
                algorithm,
                state: state.to_string(),
                left_seconds: left,
            }
        });
        let standing = self.standing(name, zone).map(|anchor| ManagedKey {
            tag: anchor.tag(),
            algorithm: anchor.algorithm(),
            state: "initial".to_owned(),
            left_seconds: None,
        });
        known.chain(standing).collect()
    }

    /// The content of the file.
    fn known(&self) -> Known {
        let heard = self.zones.iter().filter_map(|(name, kept)| {
            let heard = kept.zone.heard()?;
            Some((name.clone(), (kept.zone.anchors().clone(), heard)))
        });
        heard.collect()
    }

    fn next_due(&self) -> Option<Duration> {
        self.zones.values().map(|kept| kept.zone.due()).min()
    }

    fn due_zones(&self, now: Now) -> Vec<Name> {
        let zones = self.zones.iter();
        let due = zones.filter(|(_, kept)| kept.zone.due() <= now.steady);
        due.map(|(name, _)| name.clone()).collect()
    }
}

/// Opens the directory, and reads the file in it. One that cannot be read counts for nothing.
fn read(directory: &Path) -> std::io::Result<(Store, Known)> {
    let store = anchor_store::open(directory)?;
    let known = match store.load() {
        Loaded::Restored(known) => known,
        Loaded::Absent => Known::new(),
        Loaded::Refused(refused) => {
            tracing::error!(%refused, "The keys of zones cannot be read; trust begins again with those of the configuration");
            Known::new()
        }
    };
    Ok((store, known))
}

/// Asks for the keys of a zone, and verifies who has signed them.
async fn ask(zone: &Name, jobs: &mpsc::Sender<Job>, clock: Clock) -> Result<KeySet, String> {
    let question = Asked {
        name: zone,
        rtype: Type::DNSKEY,
        variant: Variant::new(true, true),
        limit: MAX_MESSAGE,
    };
    let reply = question.ask(jobs, clock).await?;
    let rcode = Flags::read(&reply).unwrap_or_default().rcode();
    if rcode != Rcode::NOERROR {
        return Err(format!("the answer is {rcode}"));
    }
    let response = Response::read_whole(&reply).ok_or("the answer cannot be read")?;
    let now = clock::since_1970().as_secs();
    key_set(&response, zone, now).map_err(|why| why.to_string())
}

const fn rules<'a>(plan: &Managed, is_initial: &'a dyn Fn(&Key) -> bool) -> Rules<'a> {
    Rules {
        add_hold_down: plan.add_holddown,
        del_hold_down: plan.del_holddown,
        keep_missing: plan.keep_missing,
        is_initial,
    }
}

/// The tag and the algorithm of a key.
fn label(key: &Key) -> (u16, u8) {
    tag_and_algorithm(key.rdata()).unwrap_or_default()
}

fn now(clock: Clock) -> Now {
    Now {
        wall: clock::since_1970().as_secs(),
        steady: Duration::from_millis(clock.now().as_millis()),
    }
}

/// Waits until a time of the clock; without one, forever.
async fn wait(until: Option<Duration>, clock: Clock) {
    let Some(until) = until else {
        return std::future::pending().await;
    };
    let until = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
    tokio::time::sleep_until(clock.instant(Instant::from_millis(until))).await;
}
