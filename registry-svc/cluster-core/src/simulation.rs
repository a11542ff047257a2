//! A network of nodes in one thread: the cores of replication with everything around them played.
//!
//! Messages are delayed, repeated and overtake each other, links break, nodes crash and lose what was
//! not on their disks, disks are wiped or restored from old copies, clocks step by days. In every second seed content is
//! long on its way, so that nearly everything happens while some is. All chance comes from one seed; a failure names it, and
//! `SIM_SEED=17 cargo test -p registry-cluster-core simulation` replays it.

mod chance;
mod checks;
mod clients;
mod disk;
mod faults;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use oci::digest::Digest;
use registry_facts::continuity::Continuity;
use registry_facts::hlc::{Hlc, Stamps};
use registry_facts::name::NodeName;
use registry_facts::record::{Key, NodeId, Position, Record, Stamped, Vector};
use retry::Backoff;

use self::chance::Random;
use self::disk::{Disk, sums};
use super::acknowledge::{Follower, Followers, Mode};
use super::ahead::Ahead;
use super::buckets::{self, Registers, bucket_of};
use super::clocks::Clocks;
use super::intake::{Class, Intake, Kind, Limits, Outcome, Output};
use super::wire as form;

/// How many seeds a run tries.
const SEEDS: u64 = 30;

/// Seeds beyond these that found a fault once.
const FOUND: [u64; 1] = [93];

/// How long the faults last, in simulated milliseconds, and how long the network has to become equal.
const TROUBLE: u64 = 90_000;
const HEALING: u64 = 90_000;

/// How long the network has at most in a seed with a slow one: a node fetches large content piece after piece.
const LONGEST_HEALING: u64 = 1_800_000;

/// How often it is looked then whether the nodes are equal.
const LOOK: u64 = 10_000;

/// The time at the beginning: clocks that are wrong by days show no time before 1970.
const BEGIN: u64 = 100 * 24 * 3_600_000;

/// How far clocks may differ.
const CLOCK_BOUND: Duration = Duration::from_hours(1);

/// How long content that nothing refers to stays.
const GRACE: u64 = 20_000;

#[test]
fn nodes_become_equal_and_lose_nothing_acknowledged() {
    let given = std::env::var("SIM_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seeds = given.map_or_else(|| (0..SEEDS).chain(FOUND).collect(), |seed| vec![seed]);
    let mut sum = Tally::default();
    for seed in seeds {
        let n_nodes = 2 + usize::try_from(seed % 3).unwrap();
        let mut world = World::new(seed, n_nodes);
        world.run();
        sum.add(&world.tally);
    }
    if given.is_none() {
        // What never happens is not tested.
        assert!(sum.acknowledged > 1000, "{sum:?}");
        assert!(sum.fewer > 50, "{sum:?}");
        assert!(sum.crashes > 100 && sum.wipes > 20, "{sum:?}");
        assert!(sum.partitions > 50 && sum.repairs > 20, "{sum:?}");
        assert!(
            sum.set_aside > 0 && sum.sparse > 20 && sum.swept > 100,
            "{sum:?}"
        );
        assert!(sum.restarts > 10, "{sum:?}");
        assert!(sum.ahead > 100 && sum.acknowledged_ahead > 20, "{sum:?}");
        assert!(sum.broken > 50 && sum.renewed_senders > 50, "{sum:?}");
        assert!(sum.restores > 10 && sum.clock_steps > 30, "{sum:?}");
        assert!(sum.lost_ends > 5 && sum.renewals > 50, "{sum:?}");
        assert!(sum.clamped > 50, "{sum:?}");
    }
}

/// What happened, so that a run that tests nothing shows.
#[derive(Debug, Default)]
struct Tally {
    acknowledged: u64,
    fewer: u64,
    crashes: u64,
    wipes: u64,
    partitions: u64,
    repairs: u64,
    set_aside: u64,
    sparse: u64,
    swept: u64,
    restarts: u64,
    /// Batches that were applied ahead of others.
    ahead: u64,
    /// Writes that were acknowledged because others had them ahead.
    acknowledged_ahead: u64,
    restores: u64,
    clock_steps: u64,
    /// Nodes that heard of records of their own that they lacked.
    lost_ends: u64,
    renewals: u64,
    /// Transfers whose source went away in the middle.
    broken: u64,
    /// Times that a node heard of another incarnation of one that it follows.
    renewed_senders: u64,
    /// Statements that were stamped with another time than the clock's.
    clamped: u64,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.fewer += other.fewer;
        self.crashes += other.crashes;
        self.wipes += other.wipes;
        self.partitions += other.partitions;
        self.repairs += other.repairs;
        self.set_aside += other.set_aside;
        self.sparse += other.sparse;
        self.swept += other.swept;
        self.restarts += other.restarts;
        self.ahead += other.ahead;
        self.acknowledged_ahead += other.acknowledged_ahead;
        self.restores += other.restores;
        self.clock_steps += other.clock_steps;
        self.lost_ends += other.lost_ends;
        self.renewals += other.renewals;
        self.broken += other.broken;
        self.renewed_senders += other.renewed_senders;
        self.clamped += other.clamped;
    }
}

#[derive(Debug)]
struct Node {
    id: NodeId,
    disk: Disk,
    /// An old copy of the disk, with the incarnation that is noted on it.
    copy: Option<(Disk, NodeId)>,
    /// How far its clock is ahead, in milliseconds.
    ahead: i64,
    stamps: Stamps,
    continuity: Continuity,
    clocks: Clocks,
    intake: Intake,
    followers: Followers,
    /// Since the last crash; what belongs to an earlier life is dropped.
    life: u64,
    up: bool,
    /// The incarnations of the other nodes, as far as it has heard them.
    known: BTreeMap<NodeName, NodeId>,
    /// Writes whose acknowledgement is awaited, and until when.
    writes: Vec<(Position, Vec<Stamped>, u64)>,
}

#[derive(Clone, Debug)]
enum Event {
    Ask {
        from: usize,
        to: usize,
    },
    Asked {
        from: usize,
        to: usize,
        life: u64,
        begin: Vector,
        holds: Vector,
        ahead: Option<Ahead>,
    },
    Answered {
        from: usize,
        to: usize,
        life: u64,
        /// The life of the answering node: what is on its way from a process that has ended is lost.
        other_life: u64,
        entries: Vec<(Record, u64)>,
        /// The answering node, what it holds, and its time.
        node: NodeId,
        holds: Vector,
        clock: u64,
    },
    Ensure {
        at: usize,
        life: u64,
        digest: Digest,
        kind: Kind,
        class: Class,
        first: NodeName,
    },
    Settle {
        at: usize,
        life: u64,
        digest: Digest,
        outcome: Outcome,
        /// The node that sends the content, in its life.
        source: Option<(usize, u64)>,
    },
    Apply {
        at: usize,
        life: u64,
        batch: u64,
        records: Vec<Record>,
    },
    Tick {
        at: usize,
    },
    Client,
    Compare {
        at: usize,
        with: usize,
    },
    Sweep {
        at: usize,
    },
    Fault,
    Return {
        at: usize,
    },
}

struct World {
    seed: u64,
    /// Whether content is long on its way.
    is_slow: bool,
    random: Random,
    base: Instant,
    time: u64,
    next: u64,
    events: BTreeMap<(u64, u64), Event>,
    nodes: Vec<Node>,
    /// Links that are cut.
    cut: BTreeSet<(usize, usize)>,
    /// What manifests refer to.
    content: BTreeMap<Digest, Vec<(Digest, Kind)>>,
    /// What was never pushed anywhere.
    nowhere: BTreeSet<Digest>,
    /// What clients were told is safe.
    acknowledged: Vec<Stamped>,
    /// The stamp of the record that each position names.
    positions: BTreeMap<Position, Hlc>,
    tally: Tally,
}

impl World {
    #[expect(
        clippy::disallowed_methods,
        reason = "any instant does as the beginning"
    )]
    fn new(seed: u64, n_nodes: usize) -> Self {
        let mut world = Self {
            seed,
            is_slow: seed % 2 == 1,
            random: Random(seed),
            base: Instant::now(),
            time: BEGIN,
            next: 0,
            events: BTreeMap::new(),
            nodes: Vec::new(),
            cut: BTreeSet::new(),
            content: BTreeMap::new(),
            nowhere: BTreeSet::new(),
            acknowledged: Vec::new(),
            positions: BTreeMap::new(),
            tally: Tally::default(),
        };
        for at in 0..n_nodes {
            let id = NodeId {
                name: format!("node-{at}").parse().unwrap(),
                incarnation: world.random.next(),
            };
            world.nodes.push(Node {
                id,
                disk: Disk::default(),
                copy: None,
                ahead: 0,
                stamps: Stamps::default(),
                continuity: Continuity::new(others(at, n_nodes)),
                clocks: Clocks::new(CLOCK_BOUND),
                intake: Intake::new(limits(), Vector::default()),
                followers: Followers::new(Mode::MajorityOfReachable, n_nodes - 1),
                life: 0,
                up: true,
                known: BTreeMap::new(),
                writes: Vec::new(),
            });
            world.after(100, Event::Tick { at });
            world.after(5_000, Event::Sweep { at });
            for other in (0..n_nodes).filter(|other| *other != at) {
                world.after(
                    200,
                    Event::Ask {
                        from: at,
                        to: other,
                    },
                );
                world.after(8_000, Event::Compare { at, with: other });
            }
        }
        world.after(100, Event::Client);
        world.after(1_000, Event::Fault);
        world
    }

    fn run(&mut self) {
        let trouble_ends = self.time + TROUBLE;
        while self.time < trouble_ends {
            self.step();
        }
        self.cut.clear();
        for at in 0..self.nodes.len() {
            self.nodes[at].up = true;
        }
        let end = self.time + LONGEST_HEALING;
        self.heal(HEALING);
        while self.is_slow && self.time < end && !self.is_equal() {
            self.heal(LOOK);
        }
        self.check_equal();
    }

    /// Lets time pass without clients and faults.
    fn heal(&mut self, length: u64) {
        let end = self.time + length;
        while self.time < end {
            let ((time, _), event) = self.events.pop_first().unwrap();
            self.time = time;
            if !matches!(event, Event::Client | Event::Fault) {
                self.perform(event);
            }
        }
    }

    fn step(&mut self) {
        let ((time, _), event) = self.events.pop_first().unwrap();
        self.time = time;
        self.perform(event);
    }

    fn now(&self) -> Instant {
        self.base + Duration::from_millis(self.time)
    }

    /// Has something happen within so many milliseconds.
    fn after(&mut self, within: u64, event: Event) {
        let time = self.time + 1 + self.random.below(within);
        self.next += 1;
        self.events.insert((time, self.next), event);
    }

    fn linked(&self, one: usize, other: usize) -> bool {
        let link = (one.min(other), one.max(other));
        self.nodes[one].up && self.nodes[other].up && !self.cut.contains(&link)
    }

    fn alive(&self, at: usize, life: u64) -> bool {
        self.nodes[at].up && self.nodes[at].life == life
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each event")]
    fn perform(&mut self, event: Event) {
        match event {
            Event::Ask { from, to } => {
                if self.nodes[from].up {
                    let node = &self.nodes[from];
                    let asked = Event::Asked {
                        from,
                        to,
                        life: node.life,
                        begin: node.intake.expected(),
                        holds: node.disk.vector.clone(),
                        ahead: node.intake.ahead(&self.nodes[to].id),
                    };
                    self.after(50, asked.clone());
                    if self.random.chance(10) {
                        self.after(3_000, asked);
                    }
                }
                self.after(400, Event::Ask { from, to });
            }
            Event::Asked {
                from,
                to,
                life,
                begin,
                holds,
                ahead,
            } => {
                let now = self.now();
                let follower = Follower {
                    holds,
                    ahead,
                    waiting: 0,
                    heard: now,
                };
                self.asked(from, to, life, begin, follower);
            }
            Event::Answered {
                from,
                to,
                life,
                other_life,
                entries,
                node,
                holds,
                clock,
            } => {
                let is_heard = self.alive(from, life) && self.alive(to, other_life);
                if is_heard && self.linked(from, to) {
                    self.learn_incarnation(from, &node);
                    self.heard(from, to, &holds, clock);
                    let name = self.nodes[to].id.name.clone();
                    for (record, previous) in entries {
                        self.nodes[from].intake.receive(&name, record, previous);
                    }
                    self.outputs(from);
                }
            }
            Event::Ensure {
                at,
                life,
                digest,
                kind,
                class,
                first,
            } => self.ensure(at, life, digest, kind, class, &first),
            Event::Settle {
                at,
                life,
                digest,
                outcome,
                source,
            } => {
                if self.alive(at, life) {
                    let outcome = self.transferred(at, source, outcome);
                    let (now, spread) = (self.now(), u8::try_from(self.random.below(256)).unwrap());
                    // What was fetched is on the disk.
                    if matches!(outcome, Outcome::Held(_)) {
                        self.nodes[at].disk.held.insert(digest, self.time);
                    }
                    self.nodes[at].intake.settle(&digest, outcome, spread, now);
                    self.outputs(at);
                }
            }
            Event::Apply {
                at,
                life,
                batch,
                records,
            } => {
                if self.alive(at, life) {
                    let done = !self.random.chance(5);
                    if done {
                        for record in records {
                            let named = record.position().map(|it| self.positions[&it]);
                            assert!(
                                named.is_none_or(|stamp| stamp == record.stamp),
                                "a position names two records: seed {}",
                                self.seed
                            );
                            self.nodes[at].disk.apply(record);
                        }
                        self.check(at);
                    }
                    let is_ahead = self.nodes[at].intake.applied(batch, done);
                    self.tally.ahead += u64::from(is_ahead);
                    self.outputs(at);
                }
            }
            Event::Tick { at } => {
                if self.nodes[at].up {
                    let now = self.now();
                    let vector = self.nodes[at].disk.vector.clone();
                    self.nodes[at].intake.advance(&vector);
                    self.nodes[at].intake.tick(now);
                    self.outputs(at);
                    self.acknowledge(at);
                }
                self.after(1_000, Event::Tick { at });
            }
            Event::Client => {
                self.client();
                self.after(1_500, Event::Client);
            }
            Event::Compare { at, with } => {
                self.compare(at, with);
                self.after(15_000, Event::Compare { at, with });
            }
            Event::Sweep { at } => {
                if self.nodes[at].up {
                    self.sweep(at);
                    self.check(at);
                }
                self.after(8_000, Event::Sweep { at });
            }
            Event::Fault => {
                self.fault();
                self.after(4_500, Event::Fault);
            }
            Event::Return { at } => self.nodes[at].up = true,
        }
    }

    //--- Replication

    fn asked(&mut self, from: usize, to: usize, life: u64, begin: Vector, follower: Follower) {
        if !self.alive(from, life) || !self.linked(from, to) {
            return;
        }
        let name = self.nodes[from].id.name.clone();
        self.nodes[to].followers.heard(name, follower);
        self.acknowledge(to);
        let known = begin.of(&self.nodes[to].id);
        self.learn_of_own_records(to, from, known);
        let own = self.nodes[from].id.clone();
        let mut sent = begin;
        let mut entries = Vec::new();
        let n_entries = 1 + usize::try_from(self.random.below(8)).unwrap();
        let disk = &self.nodes[to].disk;
        for record in &disk.journal {
            if entries.len() >= n_entries {
                break;
            }
            if record.sequence == 0 || record.sequence <= sent.of(&record.origin) {
                continue;
            }
            let previous = sent.of(&record.origin);
            sent.advance(&record.origin, record.sequence);
            if record.origin != own {
                entries.push((disk.live(record), previous));
            }
        }
        let answered = Event::Answered {
            from,
            to,
            life,
            other_life: self.nodes[to].life,
            entries,
            node: self.nodes[to].id.clone(),
            holds: self.nodes[to].disk.vector.clone(),
            clock: self.wall(to),
        };
        self.after(50, answered);
    }

    /// A node takes note of the incarnation of one that it follows.
    fn learn_incarnation(&mut self, at: usize, other: &NodeId) {
        let node = &mut self.nodes[at];
        let before = node.known.insert(other.name.clone(), other.clone());
        if before.is_some_and(|before| before != *other) {
            self.tally.renewed_senders += 1;
            node.intake.sender_renewed(&other.name);
        }
    }

    /// A node takes note of what another one holds, and of its time.
    fn heard(&mut self, at: usize, from: usize, holds: &Vector, clock: u64) {
        let now = self.now();
        let name = self.nodes[from].id.name.clone();
        let node = &mut self.nodes[at];
        node.clocks.heard(name, clock, now);
        let here = node.disk.vector.of(&node.id);
        let there = holds.of(&node.id);
        if there > here {
            self.learn_of_own_records(at, from, there);
        }
    }

    /// A node learns of the last record of its own that another one knows.
    fn learn_of_own_records(&mut self, at: usize, from: usize, known: u64) {
        let name = self.nodes[from].id.name.clone();
        let node = &mut self.nodes[at];
        let here = node.disk.vector.of(&node.id);
        node.continuity.heard(&name, known, here);
        if node.continuity == Continuity::Lost {
            self.tally.lost_ends += 1;
            self.renew(at);
        }
    }

    /// What the clock of a node shows.
    fn wall(&self, at: usize) -> u64 {
        self.time.saturating_add_signed(self.nodes[at].ahead)
    }

    /// A node begins a new incarnation.
    fn renew(&mut self, at: usize) {
        self.tally.renewals += 1;
        let node = &mut self.nodes[at];
        node.id.incarnation = self.random.next();
        node.stamps = Stamps::default();
        node.continuity.renewed();
    }

    fn outputs(&mut self, at: usize) {
        let life = self.nodes[at].life;
        while let Some(output) = self.nodes[at].intake.poll_output() {
            match output {
                Output::Ensure {
                    digest,
                    kind,
                    class,
                    from,
                } => {
                    let within = match class {
                        Class::Small => 200,
                        Class::Middle => 200,
                        Class::Large => 600,
                    };
                    self.after(
                        within,
                        Event::Ensure {
                            at,
                            life,
                            digest,
                            kind,
                            class,
                            first: from,
                        },
                    );
                }
                Output::Look { digest } => match self.nodes[at].disk.held.get_mut(&digest) {
                    Some(touched) => *touched = self.time,
                    None => {
                        self.nodes[at].intake.lost(&digest);
                    }
                },
                Output::Apply { batch, records } => {
                    self.after(
                        100,
                        Event::Apply {
                            at,
                            life,
                            batch,
                            records,
                        },
                    );
                }
                Output::SetAside { .. } => self.tally.set_aside += 1,
                Output::Restart => self.tally.restarts += 1,
            }
        }
    }

    fn ensure(
        &mut self,
        at: usize,
        life: u64,
        digest: Digest,
        kind: Kind,
        class: Class,
        first: &NodeName,
    ) {
        if !self.alive(at, life) {
            return;
        }
        let refers = match kind {
            Kind::Blob => Vec::new(),
            Kind::Manifest => self.content.get(&digest).cloned().unwrap_or_default(),
        };
        let peers: Vec<usize> = (0..self.nodes.len()).filter(|peer| *peer != at).collect();
        let holder = |peer: &&usize| self.nodes[**peer].disk.held.contains_key(&digest);
        let reachable: Vec<usize> = peers
            .iter()
            .copied()
            .filter(|peer| self.linked(at, *peer))
            .collect();
        // A denial of an incarnation that was not heard of counts for nothing.
        let is_known = |id: &NodeId| self.nodes[at].known.get(&id.name) == Some(id);
        let first_denies = reachable
            .iter()
            .map(|peer| &self.nodes[*peer].id)
            .any(|id| id.name == *first && is_known(id));
        let source = reachable.iter().copied().find(|peer| holder(&peer));
        let is_here = self.nodes[at].disk.held.contains_key(&digest);
        let source = source.filter(|_| !is_here);
        let outcome = if is_here {
            self.nodes[at].disk.held.insert(digest, self.time);
            Outcome::Held(refers)
        } else if self.random.chance(5) {
            Outcome::Unreachable
        } else if source.is_some() {
            Outcome::Held(refers)
        } else if first_denies {
            Outcome::Denied
        } else {
            Outcome::Unreachable
        };
        let within = match (self.is_slow && source.is_some(), class) {
            (false, _) => 500,
            (true, Class::Small | Class::Middle) => 5_000,
            (true, Class::Large) => 40_000,
        };
        let source = source.map(|source| (source, self.nodes[source].life));
        let settle = Event::Settle {
            at,
            life,
            digest,
            outcome,
            source,
        };
        self.after(within, settle);
    }

    /// The outcome of a transfer that is at its end, if its source is still there.
    fn transferred(
        &mut self,
        at: usize,
        source: Option<(usize, u64)>,
        outcome: Outcome,
    ) -> Outcome {
        match source {
            Some((source, life)) if !self.alive(source, life) || !self.linked(at, source) => {
                self.tally.broken += u64::from(matches!(outcome, Outcome::Held(_)));
                Outcome::Unreachable
            }
            _ => outcome,
        }
    }

    fn compare(&mut self, at: usize, with: usize) {
        if !self.linked(at, with) {
            return;
        }
        let (here, there) = (
            &self.nodes[at].disk.registers,
            &self.nodes[with].disk.registers,
        );
        let differing = sums(here).differing(&sums(there));
        let part = |registers: &Registers| -> Registers {
            let is_in = |(key, _): &(&Key, &Stamped)| differing.contains(&bucket_of(key));
            registers
                .iter()
                .filter(is_in)
                .map(|(key, one)| (key.clone(), one.clone()))
                .collect()
        };
        let repairs = buckets::repairs(&part(here), &part(there));
        self.tally.repairs += repairs.len() as u64;
        let name = self.nodes[with].id.name.clone();
        for record in form::repairs(repairs) {
            self.nodes[at].intake.repair(&name, record);
        }
        self.outputs(at);
    }

    //--- Sweep and faults

    /// Takes away what nothing visible refers to and nobody asked for lately.
    fn sweep(&mut self, at: usize) {
        let mut marked = BTreeSet::new();
        let mut todo: Vec<Digest> = self.nodes[at].disk.live_content();
        while let Some(digest) = todo.pop() {
            if marked.insert(digest) {
                let refers = self.content.get(&digest).into_iter().flatten();
                todo.extend(refers.map(|(digest, _)| *digest));
            }
        }
        let time = self.time;
        let held = &mut self.nodes[at].disk.held;
        let before = held.len();
        held.retain(|digest, touched| marked.contains(digest) || *touched + GRACE > time);
        self.tally.swept += (before - held.len()) as u64;
    }
}

/// The names of all other nodes.
fn others(at: usize, n_nodes: usize) -> impl Iterator<Item = NodeName> {
    let others = (0..n_nodes).filter(move |other| *other != at);
    others.map(|other| format!("node-{other}").parse().unwrap())
}

fn limits() -> Limits {
    Limits {
        queue: 8,
        parallel: 6,
        batch: 3,
        patience: Duration::from_secs(12),
        keep: Duration::from_secs(4),
        backoff: Backoff::new(Duration::from_millis(200), Duration::from_secs(3)),
    }
}
