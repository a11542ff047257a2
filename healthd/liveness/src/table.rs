//! The state of every target, and the order of its changes.
//!
//! Each change of a target's liveness, warmth, schedule or administrative state gets the next generation, and
//! so does a target that comes or goes. The table remembers for each target the generation of its
//! last change, so a reader that has seen generation `n` gets exactly the changes since, however late
//! it asks, and a target that flipped twice in between only once.
//!
//! A subscriber with a deviation sees a *view* of a target: a second state, which the same results make by
//! another rise, fall and timeout. Views have generations of their own.
//!
//! If nodes exchange findings, a target has the verdict of the site besides ([`SiteVerdict`]). It is what subscribers see. A
//! view sees it too while the results of this node contradict it: they are the odd ones then, whatever the rise and fall.
//!
//! Pure: never probes, sends or reads a clock.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use health::{
    AdminState, Basis, Deviation, Liveness, NodeFinding, Schedule, Target, Verdict, Watched,
};

use crate::admin_rules::{AdminRules, Decision, Scope};
use crate::counts::Counts;
use crate::now::Now;
use crate::schedule::TargetId;
use crate::schedules::Schedules;
use crate::target_state::{Effect, TargetState};

/// The table of all targets.
#[derive(Debug)]
pub struct LivenessTable {
    generation: u64,
    /// The generation in which a target last came or went.
    membership: u64,
    next_id: u64,
    next_view: u64,
    n_views: usize,
    ids: BTreeMap<Arc<Target>, TargetId>,
    entries: BTreeMap<TargetId, Entry>,
    /// Each target, and each view, under the generation of its last change.
    changes: BTreeMap<u64, Key>,
    rules: AdminRules,
    schedules: Schedules,
}

/// Names a target, or a view of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The target.
    pub target: TargetId,
    /// The view of it; 0 is the target itself.
    view: u64,
}

impl Key {
    /// The target itself.
    #[must_use]
    pub const fn of(target: TargetId) -> Self {
        Self { target, view: 0 }
    }

    /// Whether it names a view.
    #[must_use]
    pub const fn is_view(self) -> bool {
        self.view != 0
    }
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
    /// The site's schedule for this target.
    pub schedule: Schedule,
    /// The generation of its last change.
    pub changed: u64,
    /// The verdict of the site, where nodes exchange findings about the target.
    pub site: Option<SiteVerdict>,
    /// When the liveness that subscribers see last changed, where that is not by this node's results alone.
    seen_since: Option<Duration>,
    /// The liveness that subscribers saw when the verdict of the site was last made, and whether it was against this node's
    /// probes.
    settled: (Liveness, bool),
    /// The schedule of probes: the site's with the shortest intervals that subscribers state.
    in_force: Schedule,
    views: BTreeMap<u64, View>,
}

/// The verdict of the site about a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteVerdict {
    /// The liveness; `None` where the results of this node decide.
    pub liveness: Option<Liveness>,
    /// The basis.
    pub basis: Basis,
    /// The name of this node.
    pub node: Arc<str>,
    /// The findings of the other nodes that are heard.
    pub findings: Vec<NodeFinding>,
}

/// A target as subscribers with one deviation see it.
#[derive(Clone, Debug)]
pub struct View {
    /// The deviation.
    pub deviation: Deviation,
    /// The site's schedule with the deviation.
    pub schedule: Schedule,
    /// The liveness.
    pub state: TargetState,
    /// When the liveness last changed, since 1970.
    pub since: Option<Duration>,
    /// The generation of its last change.
    pub changed: u64,
    /// The last probe was good, but took longer than this view allows.
    late: bool,
}

/// A target as one subscriber sees it: by the site's schedule, or by its own.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The target.
    pub entry: &'a Entry,
    /// The view, for a subscriber with a deviation.
    pub view: Option<&'a View>,
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
    pub fn new(generation: u64, rules: AdminRules, schedules: Schedules) -> Self {
        Self {
            generation,
            membership: generation,
            next_id: 1,
            next_view: 1,
            n_views: 0,
            ids: BTreeMap::new(),
            entries: BTreeMap::new(),
            changes: BTreeMap::new(),
            rules,
            schedules,
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
        let schedule = self.schedules.of(&known.target);
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
            schedule,
            changed: 0,
            site: None,
            seen_since: None,
            settled: (known.liveness, false),
            in_force: schedule,
            views: BTreeMap::new(),
        };
        self.entries.insert(id, entry);
        self.membership = self.change(Key::of(id));
        id
    }

    /// Forgets a target and all views of it.
    pub fn remove(&mut self, id: TargetId) {
        let Some(entry) = self.entries.remove(&id) else {
            return;
        };
        self.ids.remove(&entry.target);
        self.changes.remove(&entry.changed);
        for view in entry.views.values() {
            self.changes.remove(&view.changed);
        }
        self.n_views -= entry.views.len();
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

    /// How many views there are, of all targets together.
    #[must_use]
    pub fn n_views(&self) -> usize {
        self.n_views
    }

    //--- Views

    /// The number of a target as a subscriber with this deviation sees it.
    #[must_use]
    pub fn find_watched(&self, watched: &Watched) -> Option<Key> {
        let target = self.find(&watched.target)?;
        if watched.deviation.is_none() {
            return Some(Key::of(target));
        }
        let mut views = self.entries.get(&target)?.views.iter();
        let (view, _) = views.find(|(_, view)| view.deviation == watched.deviation)?;
        Some(Key {
            target,
            view: *view,
        })
    }

    /// Adds a target as a subscriber sees it, or finds the one there is.
    ///
    /// A view begins as its target is, and is from then on what the results make of it.
    pub fn add_watched(&mut self, watched: Watched) -> Key {
        if let Some(key) = self.find_watched(&watched) {
            return key;
        }
        let Watched { target, deviation } = watched;
        let target = self.add(target);
        if deviation.is_none() {
            return Key::of(target);
        }
        let key = Key {
            target,
            view: self.next_view,
        };
        if let Some(entry) = self.entries.get_mut(&target) {
            self.next_view += 1;
            self.n_views += 1;
            let view = View {
                deviation,
                schedule: entry.schedule.with(&deviation),
                state: entry.state,
                since: entry.since,
                changed: 0,
                late: false,
            };
            entry.views.insert(key.view, view);
        }
        self.change(key);
        key
    }

    /// Forgets a view.
    pub fn remove_view(&mut self, key: Key) {
        let entry = self.entries.get_mut(&key.target);
        if let Some(view) = entry.and_then(|entry| entry.views.remove(&key.view)) {
            self.n_views -= 1;
            self.changes.remove(&view.changed);
        }
    }

    /// A target as a subscriber sees it.
    #[must_use]
    pub fn seen(&self, key: Key) -> Option<Seen<'_>> {
        let entry = self.entries.get(&key.target)?;
        let view = match key.is_view() {
            true => Some(entry.views.get(&key.view)?),
            false => None,
        };
        Some(Seen { entry, view })
    }

    /// The views of a target.
    pub fn views(&self, target: TargetId) -> impl Iterator<Item = (Key, Seen<'_>)> {
        let entry = self.entries.get(&target).into_iter();
        entry.flat_map(move |entry| {
            entry.views.iter().map(move |(view, seen)| {
                let key = Key {
                    target,
                    view: *view,
                };
                let seen = Seen {
                    entry,
                    view: Some(seen),
                };
                (key, seen)
            })
        })
    }

    //--- Schedules

    /// Takes up other schedules of the site; states stay. Returns the targets that have another one now.
    pub fn set_schedules(&mut self, schedules: Schedules) -> Vec<TargetId> {
        self.schedules = schedules;
        let mut changed = Vec::new();
        for (id, entry) in &mut self.entries {
            let schedule = self.schedules.of(&entry.target);
            if entry.schedule != schedule {
                entry.schedule = schedule;
                for view in entry.views.values_mut() {
                    view.schedule = schedule.with(&view.deviation);
                }
                changed.push(*id);
            }
        }
        for id in &changed {
            self.change_all(*id);
        }
        changed
    }

    /// Sets by which intervals a target is probed: the shortest of the site's and of those that the given views
    /// state. Returns the schedule of its probes.
    pub fn tighten(&mut self, id: TargetId, is_held: impl Fn(Key) -> bool) -> Option<Schedule> {
        let entry = self.entries.get_mut(&id)?;
        let mut in_force = entry.schedule;
        for (view, stated) in &entry.views {
            let key = Key {
                target: id,
                view: *view,
            };
            if is_held(key) {
                let Schedule {
                    interval,
                    fast_interval,
                    ..
                } = stated.schedule;
                in_force.interval = in_force.interval.min(interval);
                in_force.fast_interval = in_force.fast_interval.min(fast_interval);
            }
        }
        if entry.in_force != in_force {
            entry.in_force = in_force;
            self.change_all(id);
        }
        Some(in_force)
    }

    //--- Changes

    /// Takes in the result of a probe. Returns its effect on the target itself.
    pub fn judge(&mut self, id: TargetId, finding: Finding, now: Now) -> Effect {
        let Some(entry) = self.entries.get_mut(&id) else {
            return Effect::None;
        };
        entry.counts.count(finding.latency);
        entry.last_check = Some(now.wall);
        entry.latency = finding.latency;
        entry.reason = finding.reason;
        let mut changed = Vec::new();
        for (number, view) in &mut entry.views {
            view.late = finding.good && finding.latency > view.schedule.timeout;
            let found = liveness(finding.good && !view.late);
            let effect = view
                .state
                .judge(found, view.schedule.rise, view.schedule.fall);
            if effect == Effect::Flipped {
                view.since = view.since.max(Some(now.wall));
            }
            if effect != Effect::None {
                changed.push(Key {
                    target: id,
                    view: *number,
                });
            }
        }
        let Schedule { rise, fall, .. } = entry.schedule;
        let effect = entry.state.judge(liveness(finding.good), rise, fall);
        if effect == Effect::Flipped {
            entry.counts.n_transitions += 1;
            // A wall clock that was set back does not make the change older than the one before.
            entry.since = entry.since.max(Some(now.wall));
        }
        if effect != Effect::None {
            changed.push(Key::of(id));
        }
        for key in changed {
            self.change(key);
        }
        effect
    }

    /// Takes up the verdict of the site about a target. Returns the liveness that subscribers saw before, if it is another
    /// one now or the site now overrules this node.
    pub fn set_site(
        &mut self,
        id: TargetId,
        verdict: SiteVerdict,
        wall: Duration,
    ) -> Option<Liveness> {
        let entry = self.entries.get_mut(&id)?;
        let is_other = entry.site.as_ref() != Some(&verdict);
        if is_other {
            let (before, since) = (entry.liveness(), entry.seen_since());
            entry.site = Some(verdict);
            entry.seen_since = match entry.liveness() == before {
                true => since,
                false => since.max(Some(wall)),
            };
        }
        let is_known = entry.finding() != Liveness::Unknown;
        let settled = (entry.liveness(), is_known && entry.overruling().is_some());
        let before = std::mem::replace(&mut entry.settled, settled);
        if is_other {
            self.change_all(id);
        }
        (before != settled).then_some(before.0)
    }

    /// Takes an operator's decision; says how many targets it covers.
    pub fn set_admin(&mut self, scope: Scope, decision: Decision) -> usize {
        let rules = self.rules.clone();
        self.rules.set(scope, decision);
        if self.rules != rules {
            // Also when there is no such target yet: the rules on disk have changed.
            self.generation += 1;
        }
        self.apply_rules();
        let covered = |entry: &&Entry| scope.covers(entry.target.address);
        self.entries.values().filter(covered).count()
    }

    /// Takes back the decisions that have ended by this time, since 1970; returns them.
    pub fn end_admin(&mut self, now: Duration) -> Vec<(Scope, Decision)> {
        let ended = self.rules.end(now);
        if !ended.is_empty() {
            self.generation += 1;
            self.apply_rules();
        }
        ended
    }

    fn apply_rules(&mut self) {
        let mut changed = Vec::new();
        for (id, entry) in &mut self.entries {
            let state = self.rules.state(entry.target.address);
            if entry.admin != state {
                entry.admin = state;
                changed.push(*id);
            }
        }
        for id in changed {
            self.change_all(id);
        }
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

    /// The targets and views that changed after this generation.
    pub fn changed_since(&self, generation: u64) -> impl Iterator<Item = Key> {
        let range = (Bound::Excluded(generation), Bound::Unbounded);
        self.changes.range(range).map(|(_, key)| *key)
    }

    /// Gives the change of a target and of all views of it the next generations.
    fn change_all(&mut self, id: TargetId) {
        let views = self.entries.get(&id).map(|entry| &entry.views);
        let views: Vec<u64> = views
            .into_iter()
            .flat_map(BTreeMap::keys)
            .copied()
            .collect();
        for view in [0].into_iter().chain(views) {
            self.change(Key { target: id, view });
        }
    }

    /// Gives the change of a target or view the next generation.
    fn change(&mut self, key: Key) -> u64 {
        self.generation += 1;
        let Some(entry) = self.entries.get_mut(&key.target) else {
            return self.generation;
        };
        let changed = match key.is_view() {
            true => entry.views.get_mut(&key.view).map(|view| &mut view.changed),
            false => Some(&mut entry.changed),
        };
        if let Some(changed) = changed {
            self.changes.remove(changed);
            *changed = self.generation;
            self.changes.insert(self.generation, key);
        }
        self.generation
    }
}

impl SiteVerdict {
    /// Why the liveness is what it is: `down for 2 of 3 nodes`.
    #[must_use]
    pub fn words(&self, own: Liveness) -> String {
        let findings = self.findings.iter().map(|finding| finding.liveness);
        let known = findings
            .chain([own])
            .filter(|one| *one != Liveness::Unknown);
        let known: Vec<Liveness> = known.collect();
        let n_up = known.iter().filter(|one| **one == Liveness::Up).count();
        let n_nodes = known.len();
        match (self.basis, self.liveness) {
            (Basis::Site, Some(Liveness::Down)) => {
                format!("down for {} of {n_nodes} nodes", n_nodes - n_up)
            }
            (Basis::Site | Basis::Split, _) => format!("up for {n_up} of {n_nodes} nodes"),
            (Basis::Last, _) => "the last verdict of the site".to_owned(),
            (Basis::Own, _) => "by the probes of this node".to_owned(),
        }
    }
}

/// The liveness that a single result stands for.
const fn liveness(good: bool) -> Liveness {
    match good {
        true => Liveness::Up,
        false => Liveness::Down,
    }
}

impl Entry {
    /// The liveness that subscribers see: the site's where it has a verdict, else that of this node's probes.
    #[must_use]
    pub fn liveness(&self) -> Liveness {
        let site = self.site.as_ref().and_then(|site| site.liveness);
        site.unwrap_or_else(|| self.state.liveness())
    }

    /// The finding of this node's probes, for other nodes; unknown until a probe has ended since the start.
    #[must_use]
    pub fn finding(&self) -> Liveness {
        match self.state.is_warm() {
            true => Liveness::Unknown,
            false => self.state.liveness(),
        }
    }

    /// The verdict of the site where it is another one than that of this node's probes.
    #[must_use]
    pub fn overruling(&self) -> Option<&SiteVerdict> {
        let differs = |site: &&SiteVerdict| {
            let own = self.state.liveness();
            site.liveness.is_some_and(|liveness| liveness != own)
        };
        self.site.as_ref().filter(differs)
    }

    fn seen_since(&self) -> Option<Duration> {
        match self.site.as_ref().and_then(|site| site.liveness) {
            Some(_) => self.seen_since,
            None => self.seen_since.max(self.since),
        }
    }

    /// The liveness that choosers of targets use: that of probes, unless an operator took the target out.
    #[must_use]
    pub fn effective(&self) -> Liveness {
        match self.admin {
            AdminState::Ready => self.liveness(),
            AdminState::Drain | AdminState::Maintenance => Liveness::Down,
        }
    }

    /// Whether the last results contradict its liveness, or that of a view, but are too few to change it.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        let undecided = |view: &View| view.state.is_undecided();
        self.state.is_undecided() || self.views.values().any(undecided)
    }

    /// Whether this liveness is that of the target and of each view.
    #[must_use]
    pub fn agrees(&self, with: Liveness) -> bool {
        let views = self.views.values().map(|view| view.state);
        let mut all = views.chain([self.state]);
        all.all(|state| state.liveness() == with)
    }
}

impl<'a> From<&'a Entry> for Seen<'a> {
    fn from(entry: &'a Entry) -> Self {
        Self { entry, view: None }
    }
}

impl Seen<'_> {
    /// The state that the results of this node make.
    #[must_use]
    pub fn state(&self) -> TargetState {
        self.view.map_or(self.entry.state, |view| view.state)
    }

    /// The liveness.
    #[must_use]
    pub fn liveness(&self) -> Liveness {
        match self.view {
            Some(view) if self.entry.overruling().is_none() => view.state.liveness(),
            _ => self.entry.liveness(),
        }
    }

    /// Whether the liveness is from before a restart and unconfirmed.
    #[must_use]
    pub fn is_warm(&self) -> bool {
        let basis = self.entry.site.as_ref().map(|site| site.basis);
        let is_new = matches!(basis, Some(Basis::Site | Basis::Split));
        !is_new && self.state().is_warm()
    }

    /// When the liveness last changed, since 1970.
    #[must_use]
    pub fn since(&self) -> Option<Duration> {
        match self.view {
            Some(view) if self.entry.overruling().is_none() => view.since,
            _ => self.entry.seen_since(),
        }
    }

    /// Why the liveness is what it is, where nodes exchange findings about the target.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        let site = self.entry.site.as_ref()?;
        let own = NodeFinding {
            node: site.node.to_string(),
            liveness: self.entry.state.liveness(),
            reason: self.entry.reason.clone(),
        };
        let findings = [own].into_iter().chain(site.findings.iter().cloned());
        Some(Verdict {
            basis: site.basis,
            findings: findings.collect(),
        })
    }

    /// The generation of the last change.
    #[must_use]
    pub fn changed(&self) -> u64 {
        self.view.map_or(self.entry.changed, |view| view.changed)
    }

    /// The deviation of the subscribers that see it so.
    #[must_use]
    pub fn deviation(&self) -> Deviation {
        self.view.map_or(Deviation::NONE, |view| view.deviation)
    }

    /// The schedule that makes the liveness, by the intervals of the probes that there are.
    #[must_use]
    pub fn schedule(&self) -> Schedule {
        let Self { entry, view } = self;
        let stated = view.map_or(entry.schedule, |view| view.schedule);
        Schedule {
            // A longer one than that of the probe changes nothing.
            timeout: stated.timeout.min(entry.schedule.timeout),
            rise: stated.rise,
            fall: stated.fall,
            ..entry.in_force
        }
    }

    /// The reason that the last probe gave, after that of the site if the site overrules it.
    #[must_use]
    pub fn reason(&self) -> String {
        let reason = self.entry.reason.clone();
        if let Some(site) = self.entry.overruling() {
            let words = site.words(self.entry.finding());
            return match reason.is_empty() {
                true => words,
                false => format!("{words}; here: {reason}"),
            };
        }
        match self.view {
            Some(view) if view.late => {
                let limit = view.schedule.timeout.as_millis();
                format!("{reason}, but not within {limit}ms")
            }
            _ => reason,
        }
    }
}

#[cfg(test)]
mod tests;
