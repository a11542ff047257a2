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
//! that a restarted subscriber, and a restarted healthd, find it as it was. A view of it is kept as long.
//!
//! A statement of more targets than there is room for is served for those that fit. The others wait, are shown as
//! unknown by their names, and are taken in as soon as there is room.
//!
//! Pure: the shell says what time it is, starts probes and carries answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use exchange::members::{
    Contact, Finding as SharedFinding, Heard, Message, PeerId, Settings, StreamId, is_shared,
};
use exchange::site::Exchange;
use health::{Basis, Liveness, NodeFinding, Target, Watched};

use crate::admin_rules::{AdminRules, Decision, Scope};
use crate::clocks::Clocks;
use crate::now::Now;
use crate::schedule::{Pace, Scheduler, TargetId};
use crate::schedules::Schedules;
use crate::table::{Entry, Finding, Key, Known, LivenessTable, Seen, SiteVerdict};
use crate::target_state::Effect;

/// Bounds of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Probes in flight at a time.
    pub in_flight: usize,
    /// Targets known at a time, of all subscribers together; a view counts as one.
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

/// The owner of a subscriber. One user's targets never leave all others without room: beyond half of all targets, a user gets
/// no new one in the last quarter of the places, nor in place of a target of another one that is kept for its grace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// This node's configuration, or a question about one target; without a share.
    Node,
    /// A user of this node, by number.
    User(u32),
    /// Clients over a network, all together.
    Network,
}

/// The targets that a subscriber asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statement {
    /// The subscriber's name.
    pub subscriber: String,
    /// The statement's number.
    pub number: u64,
    /// The targets, each with its place in the statement, counted from 1.
    pub targets: Vec<(u32, Watched)>,
    /// Whether all other targets are shown besides.
    pub all: bool,
}

/// Targets of one statement that wait for room. Those beyond are counted and not kept: they are thousands more
/// than healthd can probe.
const MAX_WAITING: usize = 16_384;

/// A probe to start.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The target's number, to report the end with.
    pub id: TargetId,
    /// The target.
    pub target: Arc<Target>,
    /// How long it may take.
    pub timeout: Duration,
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
    /// Targets as the subscriber sees them, each with its place in the statement; 0 for those that are only shown.
    pub entries: Vec<(u32, Seen<'a>)>,
    /// The targets for which there is no room, each with its place; only beside everything.
    pub waiting: &'a [(u32, Watched)],
}

/// The findings of this node's probes that another node has not heard yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnFindings {
    /// The generation it brings the other node to.
    pub generation: u64,
    /// Whether these are all.
    pub full: bool,
    /// The findings; unknown takes one back.
    pub findings: Vec<SharedFinding>,
}

/// The verdict of the site about a target has become another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteChange {
    /// The target.
    pub target: Arc<Target>,
    /// The liveness that subscribers saw before.
    pub before: Liveness,
    /// The one that they see now.
    pub after: Liveness,
    /// The finding of this node's own probes.
    pub own: Liveness,
    /// Why it is so, in words.
    pub words: String,
}

/// A subscriber, as healthd lists it.
#[derive(Clone, Debug)]
pub struct Subscriber {
    /// The name it gave.
    pub name: String,
    /// When it came, since 1970.
    pub since: Duration,
    /// Its owner.
    pub owner: Owner,
    statement: u64,
    all: bool,
    /// The targets and views it holds in the order of their numbers, each with its place in the statement.
    held: Vec<(Key, u32)>,
    /// Targets for which there is no room.
    waiting: Vec<(u32, Watched)>,
    /// Further ones, beyond those that are kept.
    n_dropped: usize,
}

/// A target or view without a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Released {
    /// When it is forgotten.
    end: Instant,
    /// Its last holder; the node for one from before a restart.
    by: Owner,
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
    /// How many subscribers hold each target and view that is held. One that holds a view holds its target too.
    holders: BTreeMap<Key, usize>,
    /// The targets and views that are not held.
    released: BTreeMap<Key, Released>,
    /// The same, the next to be forgotten first.
    expiry: BTreeSet<(Instant, Key)>,
    /// When the first decision of an operator ends.
    first_end: Option<Instant>,
    /// Decisions that have ended and are not reported yet.
    ended: Vec<(Scope, Decision)>,
    /// The name of this node and the findings of others, if nodes exchange them.
    exchange: Option<(Arc<str>, Exchange)>,
    /// Verdicts of the site that have changed and are not reported yet.
    site_changes: Vec<SiteChange>,
}

impl Monitor {
    /// Begins with what was known before; all of it is probed at once, whether or not anybody asks.
    #[must_use]
    pub fn new(
        limits: Limits,
        schedules: Schedules,
        seed: u64,
        restored: Restored,
        now: Now,
    ) -> Self {
        let mut monitor = Self {
            limits,
            table: LivenessTable::new(restored.generation, restored.rules, schedules),
            clocks: Clocks::default(),
            scheduler: Scheduler::new(limits.in_flight, seed),
            subscribers: BTreeMap::new(),
            next_subscriber: 0,
            holders: BTreeMap::new(),
            released: BTreeMap::new(),
            expiry: BTreeSet::new(),
            first_end: None,
            ended: Vec::new(),
            exchange: None,
            site_changes: Vec::new(),
        };
        for known in restored.known.into_iter().take(limits.targets) {
            if monitor.table.find(&known.target).is_some() {
                // A version that had schedules in the identity kept a state for each of them.
                continue;
            }
            let id = monitor.table.add_known(known);
            monitor.schedule(id, now.steady);
            monitor.release(Key::of(id), Owner::Node, now.steady);
        }
        monitor
    }

    /// The bounds of the work.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Takes up other limits. Targets that are already known stay.
    pub fn set_limits(&mut self, limits: Limits, now: Now) {
        self.limits = limits;
        self.scheduler.set_max_in_flight(limits.in_flight);
        self.admit_waiting(now);
    }

    /// Takes up other schedules of the site. States stay, and the results so far count.
    pub fn set_schedules(&mut self, schedules: Schedules, now: Now) {
        for id in self.table.set_schedules(schedules) {
            self.reschedule(id, now.steady);
        }
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

    /// A subscriber of the node itself comes.
    pub fn open(&mut self, now: Now) -> SubscriberId {
        self.open_of(Owner::Node, now)
    }

    /// A subscriber comes.
    pub fn open_of(&mut self, owner: Owner, now: Now) -> SubscriberId {
        let id = SubscriberId(self.next_subscriber);
        self.next_subscriber += 1;
        let subscriber = Subscriber {
            name: String::new(),
            since: now.wall,
            owner,
            statement: 0,
            all: false,
            held: Vec::new(),
            waiting: Vec::new(),
            n_dropped: 0,
        };
        self.subscribers.insert(id, subscriber);
        id
    }

    /// A subscriber goes; its targets are released.
    pub fn close(&mut self, id: SubscriberId, now: Now) {
        if let Some(subscriber) = self.subscribers.remove(&id) {
            self.let_go(&subscriber.held, subscriber.owner, now.steady);
            self.admit_waiting(now);
        }
    }

    /// A subscriber says what it needs, in place of what it said before. Returns for how many of the targets there is
    /// no room.
    ///
    /// Targets that are known already are served in any case, then new ones in the order of the statement.
    pub fn state(&mut self, id: SubscriberId, statement: Statement, now: Now) -> usize {
        let Some(subscriber) = self.subscribers.get_mut(&id) else {
            return 0;
        };
        let owner = subscriber.owner;
        subscriber.name = statement.subscriber;
        subscriber.statement = statement.number;
        subscriber.all = statement.all;
        let before = std::mem::take(&mut subscriber.held);
        subscriber.waiting.clear();
        subscriber.n_dropped = 0;
        let mut held = Vec::with_capacity(statement.targets.len());
        let mut new = Vec::new();
        // Those that are there are held first, so that room is not made at their cost.
        for (place, watched) in statement.targets {
            match self.table.find_watched(&watched) {
                Some(key) => {
                    self.hold(key, now.steady);
                    held.push((key, place));
                }
                None => new.push((place, watched)),
            }
        }
        self.let_go(&before, owner, now.steady);
        let of_others = self.held_by(owner);
        let mut waiting = Vec::new();
        for (place, watched) in new {
            match self.admit(&watched, (owner, of_others + held.len()), now) {
                Some(key) => held.push((key, place)),
                None => waiting.push((place, watched)),
            }
        }
        held.sort_unstable();
        let n_waiting = waiting.len();
        waiting.truncate(MAX_WAITING);
        if let Some(subscriber) = self.subscribers.get_mut(&id) {
            subscriber.held = held;
            subscriber.n_dropped = n_waiting - waiting.len();
            subscriber.waiting = waiting;
        }
        // It may have let go of some that others wait for.
        self.admit_waiting(now);
        n_waiting
    }

    /// Those who are there.
    pub fn subscribers(&self) -> impl Iterator<Item = &Subscriber> {
        self.subscribers.values()
    }

    /// One of them.
    #[must_use]
    pub fn subscriber(&self, id: SubscriberId) -> Option<&Subscriber> {
        self.subscribers.get(&id)
    }

    /// The views of a target, each with how many subscribers hold it.
    pub fn views(&self, target: &Target) -> impl Iterator<Item = (Seen<'_>, usize)> {
        let id = self.table.find(target).into_iter();
        id.flat_map(|id| self.table.views(id)).map(|(key, seen)| {
            let n_holders = self.holders.get(&key);
            (seen, n_holders.copied().unwrap_or_default())
        })
    }

    /// The subscribers that ask for a target.
    pub fn watchers(&self, target: &Target) -> impl Iterator<Item = &Subscriber> {
        let id = self.table.find(target);
        let holds = move |subscriber: &&Subscriber| {
            let mut held = subscriber.held.iter();
            held.any(|(key, _)| Some(key.target) == id)
        };
        self.subscribers.values().filter(holds)
    }

    //--- Holding

    /// Holds a target that may be new, for an owner that holds that many; `None` when there is no room for it.
    fn admit(
        &mut self,
        watched: &Watched,
        (owner, n_held): (Owner, usize),
        now: Now,
    ) -> Option<Key> {
        let all = self.limits.targets;
        let n_missing = self.n_missing(watched);
        let is_within_share = owner == Owner::Node || n_held + n_missing <= all / 2;
        let n_places = match is_within_share {
            true => all,
            false => all - all / 4,
        };
        // A target without a holder makes room.
        while self.table.len() + self.table.n_views() + self.n_missing(watched) > n_places {
            let mut without_holder = self.expiry.iter();
            let &(_, key) = without_holder.find(|(_, key)| {
                let released = self.released.get(key);
                is_within_share || released.is_some_and(|it| it.by == owner)
            })?;
            self.forget(key);
        }
        let is_new = self.table.find(&watched.target).is_none();
        let key = self.table.add_watched(watched.clone());
        if is_new {
            self.schedule(key.target, now.steady);
            self.settle(key.target, now);
        }
        self.hold(key, now.steady);
        Some(key)
    }

    /// The number of targets and views that the subscribers of an owner hold.
    fn held_by(&self, owner: Owner) -> usize {
        let of = self.subscribers.values();
        let of = of.filter(|subscriber| subscriber.owner == owner);
        of.map(|subscriber| subscriber.held.len()).sum()
    }

    /// How much room it takes to watch a target.
    fn n_missing(&self, watched: &Watched) -> usize {
        let target = usize::from(self.table.find(&watched.target).is_none());
        let seen = usize::from(self.table.find_watched(watched).is_none());
        match watched.deviation.is_none() {
            true => target,
            false => target + seen,
        }
    }

    /// Takes in targets that wait for room, as far as there is some.
    fn admit_waiting(&mut self, now: Now) {
        let waiting = self.subscribers.iter();
        let waiting: Vec<SubscriberId> = waiting
            .filter(|(_, subscriber)| !subscriber.waiting.is_empty())
            .map(|(id, _)| *id)
            .collect();
        for id in waiting {
            let Some(subscriber) = self.subscribers.get_mut(&id) else {
                continue;
            };
            let owner = subscriber.owner;
            let mut waiting = std::mem::take(&mut subscriber.waiting);
            let n_held = self.held_by(owner);
            let mut admitted = Vec::new();
            for (place, watched) in &waiting {
                match self.admit(watched, (owner, n_held + admitted.len()), now) {
                    Some(key) => admitted.push((key, *place)),
                    None => break,
                }
            }
            waiting.drain(..admitted.len());
            if let Some(subscriber) = self.subscribers.get_mut(&id) {
                subscriber.waiting = waiting;
                subscriber.held.extend(admitted);
                subscriber.held.sort_unstable();
            }
        }
    }

    fn hold(&mut self, key: Key, now: Instant) {
        for key in with_target(key) {
            *self.holders.entry(key).or_default() += 1;
            if let Some(released) = self.released.remove(&key) {
                self.expiry.remove(&(released.end, key));
            }
        }
        if key.is_view() {
            self.reschedule(key.target, now);
        }
    }

    fn let_go(&mut self, held: &[(Key, u32)], owner: Owner, now: Instant) {
        for key in held.iter().flat_map(|(key, _)| with_target(*key)) {
            let Some(n_holders) = self.holders.get_mut(&key) else {
                continue;
            };
            *n_holders -= 1;
            if *n_holders == 0 {
                self.holders.remove(&key);
                self.release(key, owner, now);
                if key.is_view() {
                    self.reschedule(key.target, now);
                }
            }
        }
    }

    fn release(&mut self, key: Key, by: Owner, now: Instant) {
        let end = now.checked_add(self.limits.grace).unwrap_or(now);
        self.released.insert(key, Released { end, by });
        self.expiry.insert((end, key));
    }

    /// Forgets a target, with all views of it, or one view, that has no holder.
    fn forget(&mut self, key: Key) {
        let of_target = |(other, _): &(&Key, &Released)| other.target == key.target;
        let with_views = self.released.range(key..).take_while(of_target);
        let forgotten: Vec<(Key, Instant)> = match key.is_view() {
            true => self.released.get_key_value(&key).into_iter().collect(),
            false => with_views.collect::<Vec<_>>(),
        }
        .into_iter()
        .map(|(key, released)| (*key, released.end))
        .collect();
        for (key, end) in forgotten {
            self.released.remove(&key);
            self.expiry.remove(&(end, key));
        }
        match key.is_view() {
            true => self.table.remove_view(key),
            false => {
                if let (Some((_, exchange)), Some(entry)) =
                    (&mut self.exchange, self.table.get(key.target))
                {
                    exchange.forget(&entry.target);
                }
                self.table.remove(key.target);
                self.scheduler.remove(key.target);
            }
        }
    }

    /// Begins to probe a target.
    fn schedule(&mut self, id: TargetId, now: Instant) {
        if let Some(entry) = self.table.get(id) {
            self.scheduler.add(id, entry.schedule, now);
        }
    }

    /// Probes a target as the site and those who hold it want now.
    fn reschedule(&mut self, id: TargetId, now: Instant) {
        let holders = &self.holders;
        let in_force = self.table.tighten(id, |key| holders.contains_key(&key));
        if let Some(in_force) = in_force {
            self.scheduler.set_schedule(id, in_force, now);
        }
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
        let held = subscriber.held.iter();
        let mut entries: Vec<(u32, Seen<'_>)> = held
            .filter_map(|(key, place)| Some((*place, self.table.seen(*key)?)))
            .collect();
        if subscriber.all {
            let held = subscriber.held.iter().filter(|(key, _)| !key.is_view());
            let held: BTreeSet<TargetId> = held.map(|(key, _)| key.target).collect();
            let others = self.table.entries().filter(|entry| {
                let id = self.table.find(&entry.target);
                id.is_some_and(|id| !held.contains(&id))
            });
            entries.extend(others.map(|entry| (0, Seen::from(entry))));
        }
        Some(Changes {
            generation: self.table.generation(),
            full: true,
            statement: subscriber.statement,
            entries,
            waiting: &subscriber.waiting,
        })
    }

    /// The changes for a subscriber after a generation; `None` when it is the newest.
    ///
    /// There may be none for this subscriber: then it learns the generation alone.
    #[must_use]
    pub fn changes(&self, id: SubscriberId, since: u64) -> Option<Changes<'_>> {
        let subscriber = self.subscribers.get(&id)?;
        if subscriber.all && self.table.membership() > since {
            // A subscriber of everything must also see removals.
            return self.full(id);
        }
        let mut entries = Vec::new();
        for changed in self.table.changed_since(since) {
            let Some(seen) = self.table.seen(changed) else {
                continue;
            };
            let from = subscriber.held.partition_point(|(held, _)| *held < changed);
            let held = subscriber.held.iter().skip(from);
            let places = held.take_while(|(held, _)| *held == changed);
            let before = entries.len();
            entries.extend(places.map(|(_, place)| (*place, seen)));
            if subscriber.all && !changed.is_view() && entries.len() == before {
                entries.push((0, seen));
            }
        }
        let generation = self.table.generation();
        (generation > since).then_some(Changes {
            generation,
            full: false,
            statement: subscriber.statement,
            entries,
            waiting: &[],
        })
    }

    /// The table of all targets.
    #[must_use]
    pub fn table(&self) -> &LivenessTable {
        &self.table
    }

    //--- Probes

    /// The next probe to start, if one is due and there is room.
    pub fn poll(&mut self, now: Now) -> Option<Probe> {
        self.expire(now);
        self.end_decisions(now);
        self.advance_exchange(now);
        while let Some(start) = self.scheduler.poll(now.steady) {
            if let Some(entry) = self.table.get(start.id) {
                return Some(Probe {
                    id: start.id,
                    target: Arc::clone(&entry.target),
                    timeout: entry.schedule.timeout,
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
        let exchange = self.exchange.as_ref();
        let exchange = exchange.and_then(|(_, exchange)| exchange.next_deadline());
        let others = probe.into_iter().chain(exchange);
        forget.into_iter().chain(others).chain(self.first_end).min()
    }

    /// A probe that was started has ended.
    pub fn finish(&mut self, id: TargetId, finding: Finding, now: Now) -> Effect {
        let effect = self.table.judge(id, finding, now);
        let entry = self.table.get(id);
        let pace = match entry.is_some_and(Entry::is_undecided) {
            true => Pace::Fast,
            false => Pace::Usual,
        };
        self.scheduler.finish(id, pace, now.steady);
        if effect != Effect::None {
            self.settle(id, now);
        }
        effect
    }

    /// A service's own use of a target went well or not. Returns whether a probe follows from it.
    pub fn report(&mut self, target: &Target, success: bool, now: Now) -> bool {
        let Some(id) = self.table.find(target) else {
            return false;
        };
        let liveness = match success {
            true => Liveness::Up,
            false => Liveness::Down,
        };
        let entry = self.table.get(id);
        let agrees = entry.is_some_and(|entry| entry.agrees(liveness));
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

    fn expire(&mut self, now: Now) {
        let before = self.expiry.len();
        while let Some(&(_, key)) = self.expiry.first().filter(|(end, _)| *end <= now.steady) {
            self.forget(key);
        }
        if self.expiry.len() < before {
            self.admit_waiting(now);
        }
    }

    //--- Other nodes

    /// Exchanges findings with other nodes from now on. The states from before the restart are the last verdicts of the site.
    pub fn exchange(&mut self, settings: Settings, now: Now) {
        let node = settings.node.as_str().into();
        let mut exchange = Exchange::new(settings, now.steady);
        let restored = self.table.entries();
        for entry in restored.filter(|entry| entry.state.is_warm()) {
            exchange.restore(&entry.target, entry.state.liveness(), now.steady);
        }
        self.exchange = Some((node, exchange));
        self.advance_exchange(now);
        self.settle_all(now);
    }

    /// The exchange, if there is one.
    #[must_use]
    pub fn exchanged(&self) -> Option<&Exchange> {
        self.exchange.as_ref().map(|(_, exchange)| exchange)
    }

    /// Whether this node is in contact with the others, and since when.
    #[must_use]
    pub fn contact(&self) -> Option<(Contact, Instant)> {
        self.exchanged()
            .map(|exchange| exchange.members().contact())
    }

    /// This node begins a stream of a peer's messages.
    pub fn begin_stream(&mut self, peer: PeerId) -> StreamId {
        let exchange = self.exchange.as_mut();
        exchange.map_or_else(StreamId::default, |(_, exchange)| exchange.begin(peer))
    }

    /// Takes in a message of a peer. Returns whether its stream is of use still.
    ///
    /// A finding that contradicts this node's has the target probed at once.
    pub fn hear(&mut self, peer: PeerId, stream: StreamId, message: Message, now: Now) -> bool {
        let Some((_, exchange)) = &mut self.exchange else {
            return false;
        };
        let changed = match exchange.hear(peer, stream, message, now.steady) {
            Heard::Taken(changed) => changed,
            Heard::Ignored => return true,
            Heard::Gap => return false,
        };
        if !self.advance_exchange(now) {
            for target in &changed {
                if let Some(id) = self.table.find(target) {
                    self.settle(id, now);
                }
            }
        }
        for target in &changed {
            if self.is_contradicted(target)
                && let Some(id) = self.table.find(target)
            {
                self.scheduler.hurry(id, now.steady);
            }
        }
        true
    }

    /// The machine of a peer refused a connection.
    pub fn refused(&mut self, peer: PeerId, now: Now) {
        if let Some((_, exchange)) = &mut self.exchange {
            exchange.refused(peer, now.steady);
            self.advance_exchange(now);
        }
    }

    /// The findings of this node for another one that has heard a generation, or nothing yet.
    #[must_use]
    pub fn own_findings(&self, heard: Option<u64>) -> OwnFindings {
        let finding = |entry: &Entry| SharedFinding {
            target: Target::clone(&entry.target),
            liveness: entry.finding(),
            reason: entry.reason.clone(),
        };
        let shared = |entry: &&Entry| is_shared(&entry.target);
        let delta = heard.filter(|heard| self.table.membership() <= *heard);
        let findings = match delta {
            Some(heard) => {
                let changed = self.table.changed_since(heard);
                let changed = changed.filter(|key| !key.is_view());
                let changed = changed.filter_map(|key| self.table.get(key.target));
                changed.filter(shared).map(finding).collect()
            }
            None => {
                let known = |entry: &&Entry| entry.finding() != Liveness::Unknown;
                let all = self.table.entries().filter(shared).filter(known);
                all.map(finding).collect()
            }
        };
        OwnFindings {
            generation: self.table.generation(),
            full: delta.is_none(),
            findings,
        }
    }

    /// The verdicts of the site that have changed since the last call.
    pub fn take_site_changes(&mut self) -> Vec<SiteChange> {
        std::mem::take(&mut self.site_changes)
    }

    /// Whether a peer that is heard finds otherwise than this node.
    fn is_contradicted(&self, target: &Target) -> bool {
        let own = self.table.find(target).and_then(|id| self.table.get(id));
        let own = own.map_or(Liveness::Unknown, |entry| entry.state.liveness());
        let others = self.exchanged().into_iter();
        let mut others = others.flat_map(|exchange| exchange.members().findings(target));
        own != Liveness::Unknown && others.any(|(_, row)| row.liveness != own)
    }

    /// Lets time pass for the exchange. Returns whether all targets were judged again.
    fn advance_exchange(&mut self, now: Now) -> bool {
        let exchange = self.exchange.as_mut();
        let moved = exchange.is_some_and(|(_, exchange)| exchange.advance(now.steady));
        if moved {
            self.settle_all(now);
        }
        moved
    }

    fn settle_all(&mut self, now: Now) {
        let all = self.table.entries();
        let all = all.filter_map(|entry| self.table.find(&entry.target));
        for id in all.collect::<Vec<_>>() {
            self.settle(id, now);
        }
    }

    /// Makes the verdict of the site about a target.
    fn settle(&mut self, id: TargetId, now: Now) {
        let (Some((node, exchange)), Some(entry)) = (&mut self.exchange, self.table.get(id)) else {
            return;
        };
        let target = Arc::clone(&entry.target);
        if !is_shared(&target) {
            return;
        }
        let own = entry.finding();
        let verdict = exchange.judge(&target, own, now.steady);
        let findings = exchange.members().findings(&target);
        let findings = findings.map(|(node, row)| NodeFinding {
            node: node.to_owned(),
            liveness: row.liveness,
            reason: row.reason.clone(),
        });
        let site = SiteVerdict {
            liveness: verdict.liveness,
            basis: verdict.basis,
            node: Arc::clone(node),
            findings: findings.collect(),
        };
        let words = match site.basis {
            Basis::Own => entry.reason.clone(),
            _ => site.words(own),
        };
        let before = self.table.set_site(id, site, now.wall);
        let after = self.table.get(id).map(Entry::liveness);
        if let (Some(before), Some(after)) = (before, after) {
            self.site_changes.push(SiteChange {
                target,
                before,
                after,
                own,
                words,
            });
        }
    }

    //--- Operators

    /// Ends decisions by the wall clock, since they outlive restarts. A clock that was set counts from the next poll on.
    fn end_decisions(&mut self, now: Now) {
        let ended = self.table.end_admin(now.wall);
        self.ended.extend(ended);
        let first_end = self.table.rules().first_end();
        self.first_end = first_end.map(|until| now.steady + until.saturating_sub(now.wall));
    }

    /// Takes an operator's decision; says how many targets it covers.
    pub fn set_admin(&mut self, scope: Scope, decision: Decision) -> usize {
        self.table.set_admin(scope, decision)
    }

    /// The decisions that have ended since the last call.
    pub fn take_ended(&mut self) -> Vec<(Scope, Decision)> {
        std::mem::take(&mut self.ended)
    }
}

impl Subscriber {
    /// How many targets it holds.
    #[must_use]
    pub fn n_targets(&self) -> usize {
        self.held.len()
    }

    /// For how many targets there is no room.
    #[must_use]
    pub fn n_waiting(&self) -> usize {
        self.waiting.len() + self.n_dropped
    }

    /// The targets for which there is no room, in the order of the statement; some of them, if they are thousands.
    pub fn waiting(&self) -> impl Iterator<Item = &Watched> {
        self.waiting.iter().map(|(_, watched)| watched)
    }
}

/// A target, or a view before its target.
fn with_target(key: Key) -> impl Iterator<Item = Key> {
    let view = key.is_view().then_some(key);
    view.into_iter().chain([Key::of(key.target)])
}

#[cfg(test)]
mod tests;
