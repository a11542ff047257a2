//! The state of every target, and the order of its changes.
//!
//! Each change of a target's liveness, warmth or administrative state gets the next generation, and
//! so does a target that comes or goes. The table remembers for each target the generation of its
//! last change, so a reader that has seen generation `n` gets exactly the changes since, however late
//! it asks, and a target that flipped twice in between only once.
//!
//! Pure: never probes, sends or reads a clock.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use health::{AdminState, Liveness, Target};

use crate::admin_rules::{AdminRules, Scope};
use crate::counts::Counts;
use crate::now::Now;
use crate::schedule::TargetId;
use crate::target_state::{Effect, TargetState};

/// The table of all targets.
#[derive(Debug)]
pub struct LivenessTable {
    generation: u64,
    /// The generation in which a target last came or went.
    membership: u64,
    next_id: u64,
    ids: BTreeMap<Arc<Target>, TargetId>,
    entries: BTreeMap<TargetId, Entry>,
    /// Each target under the generation of its last change.
    changes: BTreeMap<u64, TargetId>,
    rules: AdminRules,
}

/// The state of one target.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The target.
    pub target: Arc<Target>,
    /// Its liveness.
    pub state: TargetState,
    /// The decision of an operator.
    pub admin: AdminState,
    /// When the liveness last changed, since 1970.
    pub since: Option<Duration>,
    /// When the last probe ended, since 1970.
    pub last_check: Option<Duration>,
    /// How long the last probe took.
    pub latency: Duration,
    /// The reason that the last probe gave.
    pub reason: String,
    pub counts: Counts,
    /// The generation of its last change.
    changed: u64,
}

/// The result of one probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether it found what it expected.
    pub good: bool,
    /// The observation, in words.
    pub reason: String,
    /// How long it took.
    pub latency: Duration,
}

/// The state of a target before a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The target.
    pub target: Target,
    pub liveness: Liveness,
    /// When the liveness last changed, since 1970.
    pub since: Option<Duration>,
    /// When the last probe ended, since 1970.
    pub last_check: Option<Duration>,
    /// How long the last probe took.
    pub latency: Duration,
    /// The reason that the last probe gave.
    pub reason: String,
}

impl LivenessTable {
    /// An empty table, whose changes get generations above this one.
    #[must_use]
    pub fn new(generation: u64, rules: AdminRules) -> Self {
        Self {
            generation,
            membership: generation,
            next_id: 1,
            ids: BTreeMap::new(),
            entries: BTreeMap::new(),
            changes: BTreeMap::new(),
            rules,
        }
    }

    //--- Targets

    /// Adds a target of which nothing is known, or finds the one there is.
    pub fn add(&mut self, target: Target) -> TargetId {
        self.add_known(Known {
            target,
            liveness: Liveness::Unknown,
            since: None,
            last_check: None,
            latency: Duration::ZERO,
            reason: String::new(),
        })
    }

    /// Adds a target with what was known of it before a restart, or finds the one there is.
    pub fn add_known(&mut self, known: Known) -> TargetId {
        if let Some(id) = self.ids.get(&known.target) {
            return *id;
        }
        let id = TargetId(self.next_id);
        self.next_id += 1;
        let target = Arc::new(known.target);
        self.ids.insert(Arc::clone(&target), id);
        let entry = Entry {
            admin: self.rules.state(target.address),
            target,
            state: TargetState::warm(known.liveness),
            since: known.since,
            last_check: known.last_check,
            latency: known.latency,
            reason: known.reason,
            counts: Counts::default(),
            changed: 0,
        };
        self.entries.insert(id, entry);
        self.membership = self.change(id);
        id
    }

    /// Forgets a target.
    pub fn remove(&mut self, id: TargetId) {
        let Some(entry) = self.entries.remove(&id) else {
            return;
        };
        self.ids.remove(&entry.target);
        self.changes.remove(&entry.changed);
        self.generation += 1;
        self.membership = self.generation;
    }

    /// The number of a target.
    #[must_use]
    pub fn find(&self, target: &Target) -> Option<TargetId> {
        self.ids.get(target).copied()
    }

    /// The entry of a target.
    #[must_use]
    pub fn get(&self, id: TargetId) -> Option<&Entry> {
        self.entries.get(&id)
    }

    /// All targets in their own order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.ids.values().filter_map(|id| self.entries.get(id))
    }

    /// How many targets there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no targets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    //--- Changes

    /// Takes in the result of a probe.
    pub fn judge(&mut self, id: TargetId, finding: Finding, now: Now) -> Effect {
        let Some(entry) = self.entries.get_mut(&id) else {
            return Effect::None;
        };
        entry.counts.count(finding.latency);
        entry.last_check = Some(now.wall);
        entry.latency = finding.latency;
        entry.reason = finding.reason;
        let found = if finding.good {
            Liveness::Up
        } else {
            Liveness::Down
        };
        let schedule = &entry.target.schedule;
        let effect = entry.state.judge(found, schedule.rise, schedule.fall);
        if effect == Effect::Flipped {
            entry.counts.n_transitions += 1;
            // A wall clock that was set back does not make the change older than the one before.
            entry.since = entry.since.max(Some(now.wall));
        }
        if effect != Effect::None {
            self.change(id);
        }
        effect
    }

    /// Takes an operator's decision; says how many targets it covers.
    pub fn set_admin(&mut self, scope: Scope, state: AdminState) -> usize {
        let rules = self.rules.clone();
        self.rules.set(scope, state);
        if self.rules != rules {
            // Also when there is no such target yet: the rules on disk have changed.
            self.generation += 1;
        }
        let covered = |entry: &Entry| scope.covers(entry.target.address);
        let n_covered = self.entries.values().filter(|entry| covered(entry)).count();
        let mut changed = Vec::new();
        for (id, entry) in &mut self.entries {
            if covered(entry) && entry.admin != state {
                entry.admin = state;
                changed.push(*id);
            }
        }
        for id in changed {
            self.change(id);
        }
        n_covered
    }

    /// The operators' decisions.
    #[must_use]
    pub fn rules(&self) -> &AdminRules {
        &self.rules
    }

    /// The newest generation.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The generation in which a target last came or went.
    #[must_use]
    pub fn membership(&self) -> u64 {
        self.membership
    }

    /// The targets that changed after this generation.
    pub fn changed_since(&self, generation: u64) -> impl Iterator<Item = TargetId> {
        let range = (Bound::Excluded(generation), Bound::Unbounded);
        self.changes.range(range).map(|(_, id)| *id)
    }

    /// Gives the change of a target the next generation.
    fn change(&mut self, id: TargetId) -> u64 {
        self.generation += 1;
        if let Some(entry) = self.entries.get_mut(&id) {
            self.changes.remove(&entry.changed);
            entry.changed = self.generation;
            self.changes.insert(self.generation, id);
        }
        self.generation
    }
}

impl Entry {
    /// The liveness that choosers of targets use: that of probes, unless an operator took the target out.
    #[must_use]
    pub fn effective(&self) -> Liveness {
        match self.admin {
            AdminState::Ready => self.state.liveness(),
            AdminState::Drain | AdminState::Maintenance => Liveness::Down,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use health::Schedule;

    fn target(port: u16) -> Target {
        let mut target = Target::tcp(([192, 168, 7, 13], port).into());
        target.schedule = Schedule {
            fall: 2,
            ..Schedule::default()
        };
        target
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "an instant to count from, whichever it is"
    )]
    fn at(seconds: u64) -> Now {
        Now {
            steady: Instant::now(),
            wall: Duration::from_secs(seconds),
        }
    }

    fn finding(good: bool) -> Finding {
        Finding {
            good,
            reason: "x".to_owned(),
            latency: Duration::from_millis(3),
        }
    }

    fn table() -> LivenessTable {
        LivenessTable::new(100, AdminRules::default())
    }

    #[test]
    fn only_what_changed_is_told_and_each_target_once() {
        let mut table = table();
        let (a, b) = (table.add(target(1)), table.add(target(2)));
        assert_eq!(table.add(target(1)), a, "one target, one number");
        let seen = table.generation();
        let steps = [
            (a, true, Effect::Flipped),
            (b, true, Effect::Flipped),
            (a, true, Effect::None),
            (a, false, Effect::None),
            (a, false, Effect::Flipped),
        ];
        for (id, good, effect) in steps {
            assert_eq!(table.judge(id, finding(good), at(5)), effect);
        }
        assert_eq!(table.generation(), seen + 3);
        let changed = |since| table.changed_since(since).collect::<Vec<_>>();
        assert_eq!(changed(seen), [b, a]);
        assert_eq!(changed(seen + 2), [a]);
        assert_eq!(changed(table.generation()), []);
        assert_eq!(changed(0), [b, a]);
    }

    #[test]
    fn the_same_result_again_is_no_change_but_is_remembered() {
        let mut table = table();
        let id = table.add(target(1));
        table.judge(id, finding(true), at(5));
        let generation = table.generation();
        table.judge(id, finding(true), at(9));
        assert_eq!(table.generation(), generation);
        let entry = table.get(id).unwrap();
        assert_eq!(entry.since, Some(Duration::from_secs(5)));
        assert_eq!(entry.last_check, Some(Duration::from_secs(9)));
        assert_eq!(entry.counts.n_probes(), 2);
    }

    #[test]
    fn since_does_not_go_back_with_the_wall_clock() {
        let mut table = table();
        let id = table.add(target(1));
        for (good, wall, since) in [
            (true, 100, 100),
            (false, 40, 100),
            (false, 41, 100),
            (true, 110, 110),
        ] {
            table.judge(id, finding(good), at(wall));
            let entry = table.get(id).unwrap();
            assert_eq!(entry.since, Some(Duration::from_secs(since)));
        }
    }

    #[test]
    fn a_target_from_before_the_restart_is_warm_until_confirmed() {
        let mut table = table();
        let known = Known {
            target: target(1),
            liveness: Liveness::Up,
            since: Some(Duration::from_secs(3)),
            last_check: None,
            latency: Duration::ZERO,
            reason: "connected".to_owned(),
        };
        let id = table.add_known(known);
        assert!(table.get(id).unwrap().state.is_warm());
        let generation = table.generation();
        assert_eq!(
            table.judge(id, finding(true), at(50)),
            Effect::Confirmed,
            "subscribers are told"
        );
        assert_eq!(table.generation(), generation + 1);
        assert_eq!(table.get(id).unwrap().since, Some(Duration::from_secs(3)));
    }

    #[test]
    fn a_decision_covers_targets_that_come_later() {
        let mut table = table();
        let id = table.add(target(1));
        let scope = Scope::Address([192, 168, 7, 13].into());
        let generation = table.generation();
        assert_eq!(table.set_admin(scope, AdminState::Drain), 1);
        let drained = table.generation();
        assert!(drained > generation);
        assert_eq!(table.set_admin(scope, AdminState::Drain), 1);
        assert_eq!(table.generation(), drained, "nothing changed");
        let elsewhere = Scope::Address([192, 168, 7, 99].into());
        assert_eq!(table.set_admin(elsewhere, AdminState::Drain), 0);
        assert!(table.generation() > drained, "there is something to keep");
        table.judge(id, finding(true), at(1));
        assert_eq!(table.get(id).unwrap().effective(), Liveness::Down);
        let later = table.add(target(2));
        assert_eq!(table.get(later).unwrap().admin, AdminState::Drain);
        table.set_admin(scope, AdminState::Ready);
        assert_eq!(table.get(id).unwrap().effective(), Liveness::Up);
    }

    #[test]
    fn coming_and_going_moves_the_membership() {
        let mut table = table();
        let id = table.add(target(1));
        let joined = table.membership();
        table.judge(id, finding(true), at(1));
        assert_eq!(table.membership(), joined);
        table.remove(id);
        assert!(table.membership() > joined);
        assert_eq!(table.changed_since(0).count(), 0);
        assert_eq!(table.find(&target(1)), None);
        assert_eq!(table.judge(id, finding(true), at(1)), Effect::None);
        assert!(table.is_empty());
    }
}
