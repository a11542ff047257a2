//! A model of some nodes that go by the table, explored exhaustively within bounds: one blob, one manifest that refers to it, one
//! repository; pushes, deletions, sweeps in their steps, crashes, clocks that jump, links that are cut, a disk that damages a file.
//!
//! Every state that can be reached is checked:
//!
//! - a manifest that was acknowledged is on the disk, with what it refers to (invariant 12 of ARCHITECTURE.md);
//! - what a visible manifest refers to can be served by the same node: it is here, and linked, or a sweep states the
//!   link again (invariant 13);
//! - content that a client was promised is in its place.
//!
//! What the disk itself has damaged is excused until it is healed; that no wrong byte leaves is the table's own test.
//! A rule at a time is broken, and the same exploration has to find it.
//!
//! `LIFE_CYCLE_MODEL=large cargo test -p registry-life-cycle` explores wider bounds.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::io::Write as _;

use super::*;

/// The number of times that a clock can show. Each time is further from the next than the graces, the leases and the time in which
/// connected nodes hear of each other.
const TIMES: u8 = 3;

/// The bump of a stamp that a sweep takes links back with: greater than those of all others of the time.
const LAST: u8 = u8::MAX;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Stamp {
    time: u8,
    bump: u8,
    node: u8,
}

/// The last statement about a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Register {
    stamp: Stamp,
    is_stated: bool,
}

impl Register {
    fn merge(&mut self, other: Self) {
        if other.stamp > self.stamp {
            *self = other;
        }
    }
}

/// What a node has stated at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Record {
    blob: Option<Register>,
    manifest: Option<Register>,
    /// It may be on its way still, also to nodes that are connected.
    is_fresh: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Node<const N: usize> {
    file: File,
    /// Whether the name of the file outlives a loss of power.
    is_durable: bool,
    /// When the file was written, or moved to the trash.
    written: u8,
    /// When the last lease was taken.
    lease: Option<u8>,
    blob: Register,
    manifest: Register,
    stated: Vec<Record>,
    /// How many records of each node are applied here.
    applied: [u8; N],
    clock: u8,
    /// The sweep has marked; whether it found a manifest that needs the blob.
    marked: Option<bool>,
    is_cut_off: bool,
    /// The disk has damaged the file, and it is not whole again.
    is_damaged: bool,
    /// The manifest that this node has acknowledged last.
    acknowledged: Option<Stamp>,
}

/// How often what costs states may happen yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Budget {
    uploads: u8,
    links: u8,
    manifests: u8,
    deletions: u8,
    crashes: u8,
    jumps: u8,
    cuts: u8,
    damages: u8,
    /// All clocks go forward together, so no link is ever taken from a visible manifest.
    has_honest_clocks: bool,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    /// A client's upload gets its name, which is not durable yet.
    Name(usize),
    /// The name becomes durable, and the client is promised it.
    Place(usize),
    /// A client has the blob linked: at the end of its upload, or by a mount.
    Link(usize),
    PutManifest(usize),
    DeleteManifest(usize),
    /// A node has the content of the next record of another here.
    Ensure(usize, usize),
    Apply(usize, usize),
    Mark(usize),
    /// The sweep looks at the file, where it lies then.
    Sweep(usize),
    Kill(usize),
    LosePower(usize),
    SetClock(usize, u8),
    /// Time passes for all.
    Tick,
    /// Cuts a node off, or connects it again.
    Cut(usize),
    Damage(usize),
    Heal(usize),
}

/// The rules that the nodes go by: the table, or a broken one.
#[derive(Clone, Copy)]
struct Rules {
    step: fn(State, Event) -> Step,
    claim: fn(Proof) -> Claim,
    visit: fn(Since, Holders) -> Visit,
}

const TABLE: Rules = Rules {
    step,
    claim: Proof::claim,
    visit: Visit::to_trash,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World<const N: usize> {
    nodes: [Node<N>; N],
    budget: Budget,
    /// A sweep has moved or deleted what it may not.
    is_betrayed: bool,
}

impl<const N: usize> World<N> {
    fn new(budget: Budget) -> Self {
        let node = Node {
            file: File::None,
            is_durable: false,
            written: 0,
            lease: None,
            blob: Register::default(),
            manifest: Register::default(),
            stated: Vec::new(),
            applied: [0; N],
            clock: 0,
            marked: None,
            is_cut_off: false,
            is_damaged: false,
            acknowledged: None,
        };
        Self {
            nodes: std::array::from_fn(|_| node.clone()),
            budget,
            is_betrayed: false,
        }
    }

    fn are_connected(&self, one: usize, other: usize) -> bool {
        one != other && !self.nodes[one].is_cut_off && !self.nodes[other].is_cut_off
    }

    /// The next record of another node.
    fn next_record(&self, at: usize, of: usize) -> Option<Record> {
        let n_applied = self.nodes[at].applied[of];
        self.nodes[of].stated.get(usize::from(n_applied)).copied()
    }

    fn has_heard_all(&self, at: usize) -> bool {
        (0..N).filter(|of| *of != at).all(|of| {
            let n_applied = usize::from(self.nodes[at].applied[of]);
            let mut rest = self.nodes[of].stated.iter().skip(n_applied);
            self.are_connected(at, of) && rest.all(|record| record.is_fresh)
        })
    }

    /// Time passes: whatever was on its way has come, or is late.
    fn age(&mut self) {
        for node in &mut self.nodes {
            node.stated
                .iter_mut()
                .for_each(|record| record.is_fresh = false);
        }
    }

    fn actions(&self) -> Vec<Action> {
        let budget = &self.budget;
        let mut actions = Vec::new();
        if budget.has_honest_clocks && budget.jumps > 0 {
            actions.push(Action::Tick);
        }
        for at in 0..N {
            let node = &self.nodes[at];
            let holds = matches!(node.file, File::InPlace | File::InTrash);
            if budget.uploads > 0 && !holds {
                actions.push(Action::Name(at));
            }
            if node.file == File::InPlace && !node.is_durable {
                actions.push(Action::Place(at));
            }
            if holds && budget.links > 0 {
                actions.push(Action::Link(at));
            }
            if holds && budget.damages > 0 {
                actions.push(Action::Damage(at));
            }
            if budget.manifests > 0 && node.blob.is_stated {
                actions.push(Action::PutManifest(at));
            }
            if budget.deletions > 0 && node.manifest.is_stated {
                actions.push(Action::DeleteManifest(at));
            }
            for of in (0..N).filter(|of| self.are_connected(at, *of)) {
                if self.next_record(at, of).is_some() {
                    actions.push(Action::Ensure(at, of));
                    actions.push(Action::Apply(at, of));
                }
            }
            if holds {
                actions.push(match node.marked {
                    None => Action::Mark(at),
                    Some(_) => Action::Sweep(at),
                });
            }
            if budget.crashes > 0 {
                actions.extend([Action::Kill(at), Action::LosePower(at)]);
            }
            if !budget.has_honest_clocks && budget.jumps > 0 {
                let times = (0..TIMES).filter(|time| *time != node.clock);
                actions.extend(times.map(|time| Action::SetClock(at, time)));
            }
            if budget.cuts > 0 || node.is_cut_off {
                actions.push(Action::Cut(at));
            }
            if node.is_damaged {
                actions.push(Action::Heal(at));
            }
        }
        actions
    }

    /// The world after an action; none when it does nothing.
    fn after(&self, action: Action, rules: &Rules) -> Option<Self> {
        let mut world = self.clone();
        world.act(action, rules);
        (world != *self).then_some(world)
    }

    fn act(&mut self, action: Action, rules: &Rules) {
        match action {
            Action::Name(at) => {
                self.budget.uploads -= 1;
                self.nodes[at].arrive(false);
            }
            Action::Place(at) => {
                let arrived = (rules.step)(State::Part, Event::Arrived);
                let node = &mut self.nodes[at];
                node.is_durable = true;
                if arrived.asks_for(Duty::Lease) {
                    node.lease = Some(node.clock);
                }
            }
            Action::Link(at) => self.link(at, rules),
            Action::PutManifest(at) => {
                if self.nodes[at].is_present(rules) {
                    self.budget.manifests -= 1;
                    let node = &mut self.nodes[at];
                    let blob = node.next_stamp(at, &[node.blob.stamp, node.manifest.stamp]);
                    node.state(Some((blob, true)), Some((blob, true)));
                    node.acknowledged = Some(blob);
                }
            }
            Action::DeleteManifest(at) => {
                self.budget.deletions -= 1;
                let node = &mut self.nodes[at];
                let stamp = node.next_stamp(at, &[node.manifest.stamp]);
                node.state(None, Some((stamp, false)));
            }
            Action::Ensure(at, of) => {
                if self.next_record(at, of).is_some() {
                    self.has_content(at, rules);
                }
            }
            Action::Apply(at, of) => self.apply(at, of, rules),
            Action::Mark(at) => self.mark(at, rules),
            Action::Sweep(at) => self.sweep(at, rules),
            fault => self.fail(fault, rules),
        }
    }

    /// What machines, clocks, disks and links do.
    fn fail(&mut self, fault: Action, rules: &Rules) {
        match fault {
            Action::Kill(at) => {
                self.budget.crashes -= 1;
                self.nodes[at].crash();
            }
            Action::LosePower(at) => {
                self.budget.crashes -= 1;
                let node = &mut self.nodes[at];
                node.crash();
                if node.file == File::InPlace && !node.is_durable {
                    node.file = File::None;
                }
            }
            Action::SetClock(at, time) => {
                self.budget.jumps -= 1;
                self.nodes[at].clock = time;
                self.age();
            }
            Action::Tick => {
                self.budget.jumps -= 1;
                self.nodes.iter_mut().for_each(|node| node.clock += 1);
                self.age();
            }
            Action::Cut(at) => {
                let node = &mut self.nodes[at];
                self.budget.cuts -= u8::from(!node.is_cut_off);
                node.is_cut_off = !node.is_cut_off;
                self.age();
            }
            Action::Damage(at) => {
                self.budget.damages -= 1;
                let node = &mut self.nodes[at];
                let damaged = (rules.step)(State::of(node.file, Claim::None), Event::Damaged);
                if damaged.asks_for(Duty::EndLease) {
                    node.lease = None;
                }
                node.is_damaged = true;
                node.file = File::None;
            }
            Action::Heal(at) => {
                let node = &self.nodes[at];
                let claim = match node.blob.is_stated || node.manifest.is_stated {
                    true => Claim::Linked,
                    false => Claim::None,
                };
                let due = (rules.step)(State::of(node.file, claim), Event::Due);
                if due.asks_for(Duty::Fetch) {
                    self.has_content(at, rules);
                }
                if due.asks_for(Duty::Settle) {
                    self.nodes[at].is_damaged = false;
                }
            }
            _ => {}
        }
    }

    /// Whether content is here, fetched from another node if it has to be.
    fn has_content(&mut self, at: usize, rules: &Rules) -> bool {
        if self.nodes[at].is_present(rules) {
            return true;
        }
        for of in 0..N {
            if self.are_connected(at, of) && self.nodes[of].is_present(rules) {
                let node = &mut self.nodes[at];
                node.arrive(true);
                if (rules.step)(State::Part, Event::Arrived).asks_for(Duty::Lease) {
                    node.lease = Some(node.clock);
                }
                return true;
            }
        }
        false
    }

    fn link(&mut self, at: usize, rules: &Rules) {
        let node = &mut self.nodes[at];
        if !node.is_present(rules) || node.blob.is_stated && node.is_late(node.blob.stamp) {
            return;
        }
        let stamp = node.next_stamp(at, &[node.blob.stamp]);
        node.state(Some((stamp, true)), None);
        self.budget.links -= 1;
    }

    fn apply(&mut self, at: usize, of: usize, rules: &Rules) {
        let Some(record) = self.next_record(at, of) else {
            return;
        };
        let wins = |own: Register, other: Option<Register>| {
            other.is_some_and(|other| other.is_stated && other.stamp > own.stamp)
        };
        let node = &self.nodes[at];
        let needs = wins(node.manifest, record.manifest);
        // A link alone may name what no node has any more.
        let wishes = wins(node.blob, record.blob) && self.nodes[of].is_here();
        let node = &mut self.nodes[at];
        // It was brought before, and is looked for once more.
        if (needs || wishes) && !node.is_present(rules) {
            return;
        }
        record.blob.iter().for_each(|blob| node.blob.merge(*blob));
        record
            .manifest
            .iter()
            .for_each(|manifest| node.manifest.merge(*manifest));
        node.applied[of] += 1;
    }

    fn mark(&mut self, at: usize, rules: &Rules) {
        let node = &mut self.nodes[at];
        let is_marked = node.manifest.is_stated;
        if is_marked
            && !node.blob.is_stated
            && node.blob.stamp.bump == LAST
            && node.is_present(rules)
        {
            let stamp = node.next_stamp(at, &[node.blob.stamp]);
            node.state(Some((stamp, true)), None);
        }
        node.marked = Some(is_marked);
    }

    fn sweep(&mut self, at: usize, rules: &Rules) {
        let Some(is_marked) = self.nodes[at].marked.take() else {
            return;
        };
        match self.nodes[at].file {
            File::InTrash => self.sweep_trash(at, is_marked, rules),
            File::InPlace => {
                self.is_betrayed |= self.nodes[at].sweep_blob(is_marked, rules);
            }
            _ => {}
        }
    }

    fn sweep_trash(&mut self, at: usize, is_marked: bool, rules: &Rules) {
        let has_heard_all = self.has_heard_all(at);
        let node = &mut self.nodes[at];
        let since = match node.written >= node.clock {
            true => Since::WithinGrace,
            false => Since::Long,
        };
        if since == Since::Long && node.claim(is_marked, rules) != Claim::None {
            node.is_present(rules);
            return;
        }
        let holders = match (node.blob.is_stated, has_heard_all) {
            (false, _) => Holders::None,
            (true, true) => Holders::Heard,
            (true, false) => Holders::UnheardNodes,
        };
        let visit = (rules.visit)(since, holders);
        let swept = (rules.step)(State::Trashed, Event::Swept(visit));
        if swept.asks_for(Duty::TakeLinksBack) && !node.take_link_back(at) {
            node.is_present(rules);
            return;
        }
        if swept.asks_for(Duty::Delete) {
            self.is_betrayed |= node.blob.is_stated;
            node.file = File::None;
        }
    }

    /// The invariants.
    fn violation(&self) -> Option<String> {
        for (at, node) in self.nodes.iter().enumerate() {
            let is_on_disk = match node.file {
                File::InPlace => node.is_durable,
                file => file == File::InTrash,
            };
            if let Some(acknowledged) = node.acknowledged {
                if node.manifest.stamp < acknowledged {
                    return Some(format!("n{at} has lost an acknowledged manifest"));
                }
                let stands = node.manifest.is_stated && node.manifest.stamp == acknowledged;
                if stands && !is_on_disk && !node.is_damaged {
                    return Some(format!("n{at} lacks what it has acknowledged"));
                }
            }
            if node.manifest.is_stated && !node.is_here() && !node.is_damaged {
                return Some(format!("n{at} shows a manifest that is not whole"));
            }
            let is_stated_again = !self.budget.has_honest_clocks && node.blob.stamp.bump == LAST;
            let is_linked = node.blob.is_stated || is_stated_again;
            if node.manifest.is_stated && !is_linked {
                return Some(format!("n{at} shows a manifest whose blob has no link"));
            }
            if node.is_leased() && node.file != File::InPlace {
                return Some(format!("n{at} has promised what is not in its place"));
            }
        }
        let betrayal = "a node has swept what was promised or linked";
        self.is_betrayed.then(|| betrayal.to_owned())
    }
}

impl<const N: usize> Node<N> {
    fn is_here(&self) -> bool {
        matches!(self.file, File::InPlace | File::InTrash)
    }

    fn is_leased(&self) -> bool {
        self.lease.is_some_and(|taken| self.clock <= taken)
    }

    /// A file with the right digest is in its place.
    fn arrive(&mut self, is_durable: bool) {
        self.file = File::InPlace;
        self.is_durable = is_durable;
        self.written = self.clock;
        self.is_damaged = false;
    }

    /// Sweeps a blob in its place; true when it was promised.
    fn sweep_blob(&mut self, is_marked: bool, rules: &Rules) -> bool {
        let mut claim = self.claim(is_marked, rules);
        if self.written >= self.clock {
            claim = claim.max((rules.claim)(Proof::Young));
        }
        let swept = (rules.step)(State::of(self.file, claim), Event::Swept(Visit::Due));
        let is_moved = swept.asks_for(Duty::MoveToTrash);
        let is_betrayed = is_moved && self.is_leased();
        if is_moved {
            self.file = File::InTrash;
            self.written = self.clock;
        }
        if swept.asks_for(Duty::EndLease) {
            self.lease = None;
        }
        is_betrayed
    }

    /// Whether content is here for somebody who wants it.
    fn is_present(&mut self, rules: &Rules) -> bool {
        let wanted = (rules.step)(State::of(self.file, Claim::None), Event::Wanted);
        for duty in wanted.duties {
            match duty {
                Duty::TakeBack => {
                    self.file = File::InPlace;
                    self.is_durable = true;
                }
                Duty::SyncName => self.is_durable = true,
                Duty::Lease => self.lease = Some(self.clock),
                _ => {}
            }
        }
        self.file == File::InPlace
    }

    /// The claim on content, as the sweep finds it.
    fn claim(&self, is_marked: bool, rules: &Rules) -> Claim {
        let is_linked_of_late = self.blob.is_stated && self.is_late(self.blob.stamp);
        let proofs = [
            is_marked.then_some(Proof::Marked),
            is_linked_of_late.then_some(Proof::LateLink),
            self.is_leased().then_some(Proof::Lease),
        ];
        let claims = proofs.into_iter().flatten().map(rules.claim);
        claims.max().unwrap_or_default()
    }

    fn is_late(&self, stamp: Stamp) -> bool {
        stamp.time >= self.clock && !self.is_far_ahead(stamp)
    }

    fn is_far_ahead(&self, stamp: Stamp) -> bool {
        stamp.time > self.clock + 1
    }

    /// A stamp after those of what it changes.
    fn next_stamp(&self, node: usize, changed: &[Stamp]) -> Stamp {
        let last = changed.iter().copied().max().unwrap_or_default();
        let (time, bump) = match (self.clock > last.time, last.bump == LAST) {
            (true, _) => (self.clock, 0),
            (false, true) => (last.time + 1, 0),
            (false, false) => (last.time, last.bump + 1),
        };
        let node = u8::try_from(node).unwrap();
        Stamp { time, bump, node }
    }

    fn state(&mut self, blob: Option<(Stamp, bool)>, manifest: Option<(Stamp, bool)>) {
        let register = |(stamp, is_stated)| Register { stamp, is_stated };
        let record = Record {
            blob: blob.map(register),
            manifest: manifest.map(register),
            is_fresh: true,
        };
        record.blob.iter().for_each(|it| self.blob.merge(*it));
        record
            .manifest
            .iter()
            .for_each(|it| self.manifest.merge(*it));
        self.stated.push(record);
    }

    /// Takes the link back as of the time before; false when it holds.
    fn take_link_back(&mut self, node: usize) -> bool {
        if self.blob.is_stated {
            let time = match self.is_far_ahead(self.blob.stamp) {
                true => Some(self.blob.stamp.time),
                false => self.clock.checked_sub(1),
            };
            let node = u8::try_from(node).unwrap();
            let stamp = time.map(|time| Stamp {
                time,
                bump: LAST,
                node,
            });
            if let Some(stamp) = stamp.filter(|stamp| *stamp > self.blob.stamp) {
                self.state(Some((stamp, false)), None);
            }
        }
        !self.blob.is_stated
    }

    fn crash(&mut self) {
        self.lease = None;
        self.marked = None;
    }
}

//--- Exploring

/// Says a figure past what the test's runner captures.
fn say(text: &str) {
    std::io::stderr()
        .write_all(format!("{text}\n").as_bytes())
        .unwrap();
}

struct Explored {
    n_states: usize,
    /// The invariant that a state breaks, and the actions that lead there.
    violation: Option<String>,
}

fn fingerprint(world: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

/// Explores every state that the bounds allow, nearest first, until one breaks an invariant.
fn explore<const N: usize>(budget: Budget, rules: &Rules) -> Explored {
    let first = World::<N>::new(budget);
    let mut seen = HashSet::from([fingerprint(&first)]);
    // Each with the one before it and the action between the two.
    let mut origins: Vec<Option<(usize, Action)>> = vec![None];
    let mut queue = VecDeque::from([(first, 0)]);
    while let Some((world, number)) = queue.pop_front() {
        for action in world.actions() {
            let Some(next) = world.after(action, rules) else {
                continue;
            };
            if !seen.insert(fingerprint(&next)) {
                continue;
            }
            origins.push(Some((number, action)));
            if let Some(violation) = next.violation() {
                let mut way = Vec::new();
                let mut at = origins.len() - 1;
                while let Some((before, action)) = origins[at] {
                    way.push(format!("{action:?}"));
                    at = before;
                }
                way.reverse();
                return Explored {
                    n_states: seen.len(),
                    violation: Some(format!("{violation}: {}\n{next:#?}", way.join(", "))),
                };
            }
            queue.push_back((next, origins.len() - 1));
        }
    }
    Explored {
        n_states: seen.len(),
        violation: None,
    }
}

/// Clocks jump, and processes are killed.
const JUMPS: Budget = Budget {
    uploads: 1,
    links: 1,
    manifests: 1,
    deletions: 1,
    crashes: 1,
    jumps: 2,
    cuts: 0,
    damages: 0,
    has_honest_clocks: false,
};

/// A node is cut off for a while.
const CUTS: Budget = Budget {
    deletions: 0,
    crashes: 0,
    cuts: 1,
    has_honest_clocks: true,
    ..JUMPS
};

/// A disk damages a file.
const DAMAGE: Budget = Budget {
    deletions: 0,
    damages: 1,
    ..JUMPS
};

const THREE: Budget = Budget {
    uploads: 1,
    links: 1,
    manifests: 1,
    deletions: 0,
    crashes: 0,
    jumps: 1,
    cuts: 0,
    damages: 0,
    has_honest_clocks: false,
};

fn is_large() -> bool {
    std::env::var("LIFE_CYCLE_MODEL").is_ok_and(|value| value == "large")
}

fn holds<const N: usize>(name: &str, budget: Budget) {
    let Explored {
        n_states,
        violation,
    } = explore::<N>(budget, &TABLE);
    say(&format!("{name}: {n_states} states explored"));
    assert_eq!(violation, None, "{name}");
}

/// The bounds of a run: those of every run, or with more of everything.
fn wider(budget: Budget) -> Budget {
    match is_large() {
        true => Budget {
            links: 2,
            deletions: 1,
            crashes: 1,
            ..budget
        },
        false => budget,
    }
}

#[test]
fn two_nodes_whose_clocks_jump() {
    holds::<2>("two nodes, clocks jump", wider(JUMPS));
}

#[test]
fn two_nodes_that_are_cut_off_from_each_other() {
    holds::<2>("two nodes, one is cut off", wider(CUTS));
}

#[test]
fn two_nodes_of_which_one_has_a_bad_disk() {
    holds::<2>("two nodes, one damage", wider(DAMAGE));
}

#[test]
fn three_nodes() {
    let budget = match is_large() {
        true => Budget {
            crashes: 1,
            jumps: 2,
            ..THREE
        },
        false => THREE,
    };
    holds::<3>("three nodes, clocks jump", budget);
}

//--- Broken rules

fn without_leases(proof: Proof) -> Claim {
    match proof {
        Proof::Lease => Claim::None,
        proof => proof.claim(),
    }
}

fn without_marks(proof: Proof) -> Claim {
    match proof {
        Proof::Marked => Claim::None,
        proof => proof.claim(),
    }
}

fn without(state: State, event: Event, left_out: Duty, duties: &'static [Duty]) -> Step {
    let right = step(state, event);
    match right.asks_for(left_out) {
        true => Step { duties, ..right },
        false => right,
    }
}

fn without_durable_names(state: State, event: Event) -> Step {
    without(state, event, Duty::SyncName, &[Duty::Lease])
}

fn without_the_way_back(state: State, event: Event) -> Step {
    without(state, event, Duty::TakeBack, &[Duty::Lease])
}

fn links_stay(state: State, event: Event) -> Step {
    without(state, event, Duty::TakeLinksBack, &[Duty::Delete])
}

fn leases_outlive_damage(state: State, event: Event) -> Step {
    without(state, event, Duty::EndLease, &[Duty::Heal])
}

fn without_hearing(since: Since, _: Holders) -> Visit {
    Visit::to_trash(since, Holders::Heard)
}

/// Each rule that is broken is found: the exploration can fail.
#[test]
fn a_broken_rule_is_found() {
    let claims = |claim| Rules { claim, ..TABLE };
    let steps = |step| Rules { step, ..TABLE };
    let broken = [
        (
            "the sweep ignores leases",
            claims(without_leases as fn(_) -> _),
            JUMPS,
        ),
        ("the sweep ignores marks", claims(without_marks), JUMPS),
        (
            "names need not be durable",
            steps(without_durable_names as fn(_, _) -> _),
            JUMPS,
        ),
        (
            "nothing comes back from the trash",
            steps(without_the_way_back),
            JUMPS,
        ),
        ("links stay when content goes", steps(links_stay), JUMPS),
        (
            "leases outlive damage",
            steps(leases_outlive_damage),
            DAMAGE,
        ),
        (
            "the sweep does not wait for the others",
            Rules {
                visit: without_hearing,
                ..TABLE
            },
            CUTS,
        ),
    ];
    for (name, rules, budget) in broken {
        let explored = explore::<2>(budget, &rules);
        say(&format!("{name}: found after {} states", explored.n_states));
        assert!(
            explored.violation.is_some(),
            "{name}: not found in {} states",
            explored.n_states
        );
    }
}
