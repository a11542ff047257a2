//! All of healthd's decisions: the targets of each subscriber, the time of each probe, the liveness.
//!
//! ```text
//! statements ──► holders ──► scheduler ──► probes to start
//!                   │            ▲ evidence, ends of probes
//!                   ▼            │
//!               table ◄──────────┘ ──► snapshots and changes for each subscriber
//! ```
//!
//! A target that no subscriber holds any longer is probed for a grace period before it is forgotten, so
//! that a restarted subscriber, and a restarted healthd, find it as it was.
//!
//! Pure: the shell says what time it is, starts probes and carries answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use health::{AdminState, Liveness, Target};

use crate::admin_rules::{AdminRules, Scope};
use crate::clocks::Clocks;
use crate::now::Now;
use crate::schedule::{Pace, Scheduler, TargetId};
use crate::table::{Entry, Finding, Known, LivenessTable};
use crate::target_state::Effect;

/// Bounds of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Probes in flight at a time.
    pub in_flight: usize,
    /// Targets known at a time, of all subscribers together.
    pub targets: usize,
    /// How long a target without a subscriber is still probed.
    pub grace: Duration,
}

/// The state that a restarted healthd begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Changes get generations above this one.
    pub generation: u64,
    /// The targets.
    pub known: Vec<Known>,
    /// The decisions of operators.
    pub rules: AdminRules,
}

/// Names a subscriber for as long as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubscriberId(u64);

/// The targets that a subscriber asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statement {
    /// The subscriber's name.
    pub subscriber: String,
    /// The statement's number.
    pub number: u64,
    /// The targets, each with its place in the statement, counted from 1.
    pub targets: Vec<(u32, Target)>,
    /// Whether all other targets are shown besides.
    pub all: bool,
}

/// A statement asks for more targets than there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no more than {limit} targets can be watched")]
pub struct TooMany {
    /// How many there may be.
    pub limit: usize,
}

/// A probe to start.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The target's number, to report the end with.
    pub id: TargetId,
    /// The target.
    pub target: Arc<Target>,
    /// How long after its due time it starts.
    pub late: Duration,
}

/// The changes that a subscriber has not seen yet.
#[derive(Debug)]
pub struct Changes<'a> {
    /// The generation it brings the subscriber to.
    pub generation: u64,
    /// Whether it is everything the subscriber asked for.
    pub full: bool,
    /// The number of the statement it answers.
    pub statement: u64,
    /// Entries, each with its place in the statement; 0 for those that are only shown.
    pub entries: Vec<(u32, &'a Entry)>,
}

/// A subscriber, as healthd lists it.
#[derive(Clone, Debug)]
pub struct Subscriber {
    /// The name it gave.
    pub name: String,
    /// When it came, since 1970.
    pub since: Duration,
    statement: u64,
    all: bool,
    /// The targets it holds in the order of their numbers, each with its place in the statement.
    held: Vec<(TargetId, u32)>,
}

/// Everything healthd knows and plans.
#[derive(Debug)]
pub struct Monitor {
    limits: Limits,
    table: LivenessTable,
    clocks: Clocks,
    scheduler: Scheduler,
    subscribers: BTreeMap<SubscriberId, Subscriber>,
    next_subscriber: u64,
    /// How many subscribers hold each target that is held.
    holders: BTreeMap<TargetId, usize>,
    /// When each target that is not held is forgotten.
    released: BTreeMap<TargetId, Instant>,
    /// The same, the next to be forgotten first.
    expiry: BTreeSet<(Instant, TargetId)>,
}

impl Monitor {
    /// Begins with what was known before; all of it is probed at once, whether or not anybody asks.
    #[must_use]
    pub fn new(limits: Limits, seed: u64, restored: Restored, now: Now) -> Self {
        let mut monitor = Self {
            limits,
            table: LivenessTable::new(restored.generation, restored.rules),
            clocks: Clocks::default(),
            scheduler: Scheduler::new(limits.in_flight, seed),
            subscribers: BTreeMap::new(),
            next_subscriber: 0,
            holders: BTreeMap::new(),
            released: BTreeMap::new(),
            expiry: BTreeSet::new(),
        };
        for known in restored.known.into_iter().take(limits.targets) {
            let schedule = known.target.schedule;
            let id = monitor.table.add_known(known);
            monitor.scheduler.add(id, schedule, now.steady);
            monitor.release(id, now.steady);
        }
        monitor
    }

    /// The bounds of the work.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Takes up other limits. Targets that are already known stay.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.scheduler.set_max_in_flight(limits.in_flight);
    }

    /// The clocks of nodes.
    #[must_use]
    pub fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    /// The clocks of nodes, to take in what is reported.
    pub fn clocks_mut(&mut self) -> &mut Clocks {
        &mut self.clocks
    }

    //--- Subscribers

    /// A subscriber comes.
    pub fn open(&mut self, now: Now) -> SubscriberId {
        let id = SubscriberId(self.next_subscriber);
        self.next_subscriber += 1;
        let subscriber = Subscriber {
            name: String::new(),
            since: now.wall,
            statement: 0,
            all: false,
            held: Vec::new(),
        };
        self.subscribers.insert(id, subscriber);
        id
    }

    /// A subscriber goes; its targets are released.
    pub fn close(&mut self, id: SubscriberId, now: Now) {
        if let Some(subscriber) = self.subscribers.remove(&id) {
            self.let_go(&subscriber.held, now.steady);
        }
    }

    /// A subscriber says what it needs, in place of what it said before.
    ///
    /// # Errors
    /// When there would be too many targets. The subscriber then keeps the targets that it held.
    pub fn state(
        &mut self,
        id: SubscriberId,
        statement: Statement,
        now: Now,
    ) -> Result<(), TooMany> {
        let Some(subscriber) = self.subscribers.get(&id) else {
            return Ok(());
        };
        let before = subscriber.held.clone();
        let (old, new): (Vec<_>, Vec<_>) = statement
            .targets
            .into_iter()
            .partition(|(_, target)| self.table.find(target).is_some());
        let mut held = Vec::with_capacity(old.len() + new.len());
        // Those that are there are held first, so that room is not made at their cost.
        for (place, target) in old {
            held.push((self.hold(target, now.steady), place));
        }
        let n_new = new
            .iter()
            .map(|(_, target)| target)
            .collect::<BTreeSet<_>>()
            .len();
        let n_held = self.holders.len() - self.n_only_in(&before);
        let limit = self.limits.targets;
        if n_held + n_new > limit {
            self.let_go(&held, now.steady);
            return Err(TooMany { limit });
        }
        self.let_go(&before, now.steady);
        self.make_room(n_new);
        for (place, target) in new {
            held.push((self.hold(target, now.steady), place));
        }
        held.sort_unstable();
        if let Some(subscriber) = self.subscribers.get_mut(&id) {
            subscriber.name = statement.subscriber;
            subscriber.statement = statement.number;
            subscriber.all = statement.all;
            subscriber.held = held;
        }
        Ok(())
    }

    /// The number of targets that one subscriber alone holds; `held` is in the order of their numbers.
    fn n_only_in(&self, held: &[(TargetId, u32)]) -> usize {
        let same = held.chunk_by(|(one, _), (other, _)| one == other);
        let only = same.filter(|places| {
            let id = places.first().map(|(id, _)| id);
            id.and_then(|id| self.holders.get(id)) == Some(&places.len())
        });
        only.count()
    }

    /// Those who are there.
    pub fn subscribers(&self) -> impl Iterator<Item = &Subscriber> {
        self.subscribers.values()
    }

    fn hold(&mut self, target: Target, now: Instant) -> TargetId {
        let schedule = target.schedule;
        let id = match self.table.find(&target) {
            Some(id) => id,
            None => {
                let id = self.table.add(target);
                self.scheduler.add(id, schedule, now);
                id
            }
        };
        *self.holders.entry(id).or_default() += 1;
        if let Some(end) = self.released.remove(&id) {
            self.expiry.remove(&(end, id));
        }
        id
    }

    fn let_go(&mut self, held: &[(TargetId, u32)], now: Instant) {
        for &(id, _) in held {
            let Some(n_holders) = self.holders.get_mut(&id) else {
                continue;
            };
            *n_holders -= 1;
            if *n_holders == 0 {
                self.holders.remove(&id);
                self.release(id, now);
            }
        }
    }

    fn release(&mut self, id: TargetId, now: Instant) {
        let end = now.checked_add(self.limits.grace).unwrap_or(now);
        self.released.insert(id, end);
        self.expiry.insert((end, id));
    }

    /// Forgets targets without a holder when new ones need their places.
    fn make_room(&mut self, n_new: usize) {
        while self.table.len() + n_new > self.limits.targets {
            let Some(&(_, id)) = self.expiry.first() else {
                return;
            };
            self.forget(id);
        }
    }

    /// Forgets a target without a holder.
    fn forget(&mut self, id: TargetId) {
        if let Some(end) = self.released.remove(&id) {
            self.expiry.remove(&(end, id));
        }
        self.table.remove(id);
        self.scheduler.remove(id);
    }

    //--- Changes

    /// The newest generation.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.table.generation()
    }

    /// Everything a subscriber asked for.
    #[must_use]
    pub fn full(&self, id: SubscriberId) -> Option<Changes<'_>> {
        let subscriber = self.subscribers.get(&id)?;
        let mut entries = self.held_entries(subscriber);
        if subscriber.all {
            let held: BTreeSet<&Target> = entries.iter().map(|(_, entry)| &*entry.target).collect();
            let shown = self.table.entries();
            let shown: Vec<_> = shown
                .filter(|entry| !held.contains(&*entry.target))
                .collect();
            entries.extend(shown.into_iter().map(|entry| (0, entry)));
        }
        Some(Changes {
            generation: self.table.generation(),
            full: true,
            statement: subscriber.statement,
            entries,
        })
    }

    /// The changes for a subscriber after a generation; `None` without any.
    #[must_use]
    pub fn changes(&self, id: SubscriberId, since: u64) -> Option<Changes<'_>> {
        let subscriber = self.subscribers.get(&id)?;
        if subscriber.all && self.table.membership() > since {
            // A subscriber of everything must also see removals.
            return self.full(id);
        }
        let mut entries = Vec::new();
        for changed in self.table.changed_since(since) {
            let Some(entry) = self.table.get(changed) else {
                continue;
            };
            let from = subscriber.held.partition_point(|(held, _)| *held < changed);
            let held = subscriber.held.iter().skip(from);
            let places = held.take_while(|(held, _)| *held == changed);
            let before = entries.len();
            entries.extend(places.map(|(_, place)| (*place, entry)));
            if subscriber.all && entries.len() == before {
                entries.push((0, entry));
            }
        }
        (!entries.is_empty()).then(|| Changes {
            generation: self.table.generation(),
            full: false,
            statement: subscriber.statement,
            entries,
        })
    }

    fn held_entries(&self, subscriber: &Subscriber) -> Vec<(u32, &Entry)> {
        let held = subscriber.held.iter();
        held.filter_map(|(id, place)| Some((*place, self.table.get(*id)?)))
            .collect()
    }

    /// The table of all targets.
    #[must_use]
    pub fn table(&self) -> &LivenessTable {
        &self.table
    }

    //--- Probes

    /// The next probe to start, if one is due and there is room.
    pub fn poll(&mut self, now: Now) -> Option<Probe> {
        self.expire(now.steady);
        while let Some(start) = self.scheduler.poll(now.steady) {
            if let Some(entry) = self.table.get(start.id) {
                return Some(Probe {
                    id: start.id,
                    target: Arc::clone(&entry.target),
                    late: start.late,
                });
            }
            self.scheduler.remove(start.id);
            self.scheduler.finish(start.id, Pace::Usual, now.steady);
        }
        None
    }

    /// When to poll next.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        let forget = self.expiry.first().map(|(end, _)| *end);
        let probe = self.scheduler.next_deadline();
        forget.into_iter().chain(probe).min()
    }

    /// A probe that was started has ended.
    pub fn finish(&mut self, id: TargetId, finding: Finding, now: Now) -> Effect {
        let effect = self.table.judge(id, finding, now);
        let entry = self.table.get(id);
        let pace = match entry.is_some_and(|entry| entry.state.is_undecided()) {
            true => Pace::Fast,
            false => Pace::Usual,
        };
        self.scheduler.finish(id, pace, now.steady);
        effect
    }

    /// A service's own use of a target went well or not. Returns whether a probe follows from it.
    pub fn report(&mut self, target: &Target, success: bool, now: Now) -> bool {
        let Some(id) = self.table.find(target) else {
            return false;
        };
        let liveness = self.table.get(id).map(|entry| entry.state.liveness());
        let agrees = match liveness {
            None | Some(Liveness::Unknown) => false,
            Some(Liveness::Up) => success,
            Some(Liveness::Down) => !success,
        };
        if !agrees {
            self.scheduler.hurry(id, now.steady);
        }
        !agrees
    }

    /// How many probes are in flight, and how many may be.
    #[must_use]
    pub fn in_flight(&self) -> (usize, usize) {
        (self.scheduler.n_in_flight(), self.scheduler.max_in_flight())
    }

    fn expire(&mut self, now: Instant) {
        while let Some(&(_, id)) = self.expiry.first().filter(|(end, _)| *end <= now) {
            self.forget(id);
        }
    }

    //--- Operators

    /// Takes an operator's decision; says how many targets it covers.
    pub fn set_admin(&mut self, scope: Scope, state: AdminState) -> usize {
        self.table.set_admin(scope, state)
    }
}

impl Subscriber {
    /// How many targets it holds.
    #[must_use]
    pub fn n_targets(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests;
