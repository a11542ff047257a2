//! Nodes that are away for long, in one thread: what was deleted stays so, and no absent node holds deletions
//! up for ever. Three or five nodes: a minority is away, comes back while others begin, and loses its disks. All
//! chance comes from one seed; `SIM_SEED=17 cargo test -p registry-cluster-core members` replays it, and
//! `SIM_SEEDS=256` plays 256 seeds.

use oci::digest::{Algorithm, Digest};
use registry_facts::record::NodeId;

use super::*;

/// How long deletions are remembered, in rounds.
const AGE: u64 = 40;

/// Rounds with faults, and rounds that the nodes have to become equal.
const TROUBLE: u64 = 400;
const HEALING: u64 = 6 * AGE;

const SEEDS: u64 = 24;

/// How many rounds news take.
const NEWS: u64 = 2;

/// Numbers that a seed makes.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 += 1;
        let digest = Digest::of(Algorithm::Sha256, &self.0.to_be_bytes());
        let octets = digest.octets()[..8].try_into().unwrap();
        u64::from_be_bytes(octets) % bound
    }
}

/// A register: when it was stated, and whether the content is there.
type Register = (u64, bool);

#[derive(Clone)]
struct Node {
    up: bool,
    /// Since when it is up.
    since: u64,
    /// When it had been forgotten last before its journal began.
    began: u64,
    incarnation: u64,
    members: Members,
    stated: BTreeMap<NodeName, (u64, Membership)>,
    registers: BTreeMap<u64, Register>,
    vector: Vector,
}

struct World {
    seed: u64,
    chance: Chance,
    now: u64,
    nodes: Vec<Node>,
    /// Content that was deleted, and when: it must not come back unless it is pushed again.
    deleted: BTreeMap<u64, u64>,
    n_forgotten: u64,
    n_begun: u64,
    n_dropped: u64,
    n_wiped: u64,
    /// How often a node that begins took nothing of one that is not current.
    n_declined: u64,
}

fn node_name(at: usize) -> NodeName {
    format!("n{at}").parse().unwrap()
}

fn at_first(at: usize, n_nodes: usize) -> Members {
    let others = (0..n_nodes).filter(|other| *other != at).map(node_name);
    Members::new(node_name(at), others, BTreeMap::new(), 0, AGE)
}

#[test]
fn deleted_content_stays_deleted_and_no_absent_node_holds_deletions_up() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|it| it.parse::<u64>().ok())
    };
    let given = number("SIM_SEED");
    let seeds = match given {
        Some(seed) => seed..seed + 1,
        None => 0..number("SIM_SEEDS").unwrap_or(SEEDS),
    };
    for n_nodes in [3, 5] {
        let mut total = [0; 5];
        for seed in seeds.clone() {
            let mut world = World::new(seed, n_nodes);
            world.run();
            let counts = [
                world.n_forgotten,
                world.n_begun,
                world.n_dropped,
                world.n_wiped,
                world.n_declined,
            ];
            for (sum, count) in total.iter_mut().zip(counts) {
                *sum += count;
            }
        }
        // What never happens is not tested.
        let [n_forgotten, n_begun, n_dropped, n_wiped, n_declined] = total;
        if given.is_none() {
            assert!(n_forgotten > 10, "{n_forgotten}");
            assert!(n_begun > 2, "{n_begun}");
            assert!(n_dropped > 100, "{n_dropped}");
            assert!(n_wiped > 10, "{n_wiped}");
            assert!(n_declined > 0 || n_nodes == 3, "{n_declined}");
        }
    }
}

impl Node {
    fn rise(&mut self, now: u64) {
        if !self.up {
            (self.up, self.since) = (true, now);
        }
    }
}

impl World {
    fn new(seed: u64, n_nodes: usize) -> Self {
        let node = |at| Node {
            up: true,
            since: 0,
            began: 0,
            incarnation: 1,
            members: at_first(at, n_nodes),
            stated: BTreeMap::new(),
            registers: BTreeMap::new(),
            vector: Vector::default(),
        };
        Self {
            seed,
            chance: Chance(seed << 32),
            now: 1000,
            nodes: (0..n_nodes).map(node).collect(),
            deleted: BTreeMap::new(),
            n_forgotten: 0,
            n_begun: 0,
            n_dropped: 0,
            n_wiped: 0,
            n_declined: 0,
        }
    }

    fn run(&mut self) {
        let trouble_ends = self.now + TROUBLE;
        while self.now < trouble_ends {
            self.fault();
            self.client();
            self.round();
        }
        for node in &mut self.nodes {
            node.rise(self.now);
        }
        // One node never comes back: the others are not held up by it.
        let last = self.nodes.len() - 1;
        self.nodes[last].up = false;
        let end = self.now + HEALING;
        while self.now < end {
            self.round();
        }
        let seed = self.seed;
        assert!(
            !self.nodes[0].members.is_member(&node_name(last)),
            "seed {seed}"
        );
        let (first, rest) = self.nodes.split_first().unwrap();
        for node in &rest[..last - 1] {
            assert_eq!(first.registers, node.registers, "seed {seed}");
            assert!(
                node.registers.values().all(|(_, is_there)| *is_there),
                "seed {seed}"
            );
            assert_eq!(node.members.others().count(), last - 1, "seed {seed}");
        }
    }

    /// A node goes away or comes back; more than half stay.
    fn fault(&mut self) {
        if self.chance.below(12) > 0 {
            return;
        }
        let at = usize::try_from(self.chance.below(self.nodes.len() as u64)).unwrap();
        let n_up = self.nodes.iter().filter(|node| node.up).count();
        match self.nodes[at].up {
            true if 2 * (n_up - 1) > self.nodes.len() => self.nodes[at].up = false,
            true => {}
            false if self.chance.below(3) == 0 => self.nodes[at].rise(self.now),
            false => {}
        }
        self.wipe();
    }

    /// A node loses its disk, while a majority of others is up that knows all.
    fn wipe(&mut self) {
        let at = usize::try_from(self.chance.below(4 * self.nodes.len() as u64)).unwrap();
        let knowing = self.nodes.iter().enumerate().filter(|(other, node)| {
            *other != at && node.up && node.members.together() + 1 >= self.now
        });
        if at < self.nodes.len() && 2 * knowing.count() > self.nodes.len() {
            self.n_wiped += 1;
            self.begin(at);
            self.nodes[at].began = 0;
        }
    }

    fn begin(&mut self, at: usize) {
        let n_nodes = self.nodes.len();
        let node = &mut self.nodes[at];
        node.registers.clear();
        node.stated.clear();
        node.vector = Vector::default();
        node.incarnation += 1;
        node.members = at_first(at, n_nodes);
    }

    fn client(&mut self) {
        let up: Vec<usize> = (0..self.nodes.len())
            .filter(|at| self.nodes[*at].up)
            .collect();
        let at = up[usize::try_from(self.chance.below(up.len() as u64)).unwrap()];
        // A node that begins again loses its statements with its journal.
        if !self.is_taken(at) {
            return;
        }
        let content = self.chance.below(20);
        let is_pushed = self.chance.below(2) == 0;
        if !is_pushed && !self.nodes[at].registers.contains_key(&content) {
            return;
        }
        let id = self.id(at);
        let now = self.now;
        let node = &mut self.nodes[at];
        node.registers.insert(content, (now, is_pushed));
        let sequence = node.vector.of(&id) + 1;
        node.vector.advance(&id, sequence);
        match is_pushed {
            true => drop(self.deleted.remove(&content)),
            false => drop(self.deleted.insert(content, now)),
        }
    }

    fn id(&self, at: usize) -> NodeId {
        NodeId {
            name: node_name(at),
            incarnation: self.nodes[at].incarnation,
        }
    }

    /// Each pair of nodes that is up exchanges what it has; then each looks at who is away.
    fn round(&mut self) {
        self.now += 1;
        let n_nodes = self.nodes.len();
        for node in &mut self.nodes {
            let stated = node.stated.iter();
            let stated = stated.map(|(name, (_, membership))| (name.clone(), membership.clone()));
            node.members.state(stated.collect());
        }
        let mut connected = vec![BTreeSet::new(); n_nodes];
        let mut caught_up = vec![BTreeMap::new(); n_nodes];
        let mut refusing = vec![BTreeSet::new(); n_nodes];
        for at in 0..n_nodes {
            for with in (0..n_nodes).filter(|with| *with != at) {
                if !self.nodes[at].up || !self.nodes[with].up {
                    continue;
                }
                let (is_taken, together) = self.follow(at, with);
                match is_taken {
                    true => drop(connected[at].insert(node_name(with))),
                    false => drop(refusing[at].insert(node_name(with))),
                }
                caught_up[at].extend(together.map(|together| (node_name(with), together)));
            }
        }
        for at in (0..n_nodes)
            .filter(|at| self.nodes[*at].up)
            .collect::<Vec<_>>()
        {
            let now = self.now;
            self.nodes[at].members.catch_up(&caught_up[at], now);
            self.look(at, &connected[at], &refusing[at]);
        }
        self.check();
    }

    /// One node takes over what another one has: whether that one takes it, and if this one has caught up
    /// with it, when that one had with a majority.
    fn follow(&mut self, at: usize, with: usize) -> (bool, Option<u64>) {
        let there = self.nodes[with].clone();
        let (name, here) = (node_name(at), self.nodes[at].clone());
        let received = {
            let claim = here.members.claim(here.began);
            there
                .members
                .receive(&name, claim, &here.vector, &there.vector)
        };
        let told = there.members.forgotten(&name);
        match received {
            Reception::Refused => return (false, None),
            // One that was forgotten and begins is taken in, and counts from then on.
            Reception::Beginner | Reception::Member => {
                if let Some(membership) = there.members.add(&name, None).unwrap() {
                    let now = self.now;
                    self.nodes[with]
                        .stated
                        .insert(name.clone(), (now, membership));
                }
            }
        }
        let node = &mut self.nodes[at];
        node.began = node.began.max(told);
        let mirrored = here.members.receive(
            &node_name(with),
            there.members.claim(there.began),
            &there.vector,
            &here.vector,
        );
        if mirrored != Reception::Member {
            return (true, None);
        }
        let together = there.members.together();
        if !node
            .members
            .takes_from(&node_name(with), together, self.now)
        {
            self.n_declined += 1;
            return (true, None);
        }
        for (content, (stamp, is_there)) in &there.registers {
            let old = node.registers.get(content);
            // A journal also has the deletions that its reader has not heard of.
            if old.is_none_or(|(old, _)| stamp > old) {
                node.registers.insert(*content, (*stamp, *is_there));
            }
        }
        for (name, (stamp, membership)) in &there.stated {
            let old = node.stated.get(name);
            if old.is_none_or(|(old, _)| stamp > old) {
                node.stated
                    .insert(name.clone(), (*stamp, membership.clone()));
            }
        }
        for (origin, sequence) in there.vector.iter() {
            node.vector.advance(origin, sequence);
        }
        (true, Some(together))
    }

    fn look(&mut self, at: usize, connected: &BTreeSet<NodeName>, refusing: &BTreeSet<NodeName>) {
        let now = self.now;
        let node = &mut self.nodes[at];
        if node.members.has_to_begin(refusing, connected) {
            self.n_begun += 1;
            self.begin(at);
            return;
        }
        node.members.look(connected, now);
        for name in node.members.overdue(connected, now) {
            let membership = node.members.forget(&name, connected, false, now).unwrap();
            self.n_forgotten += 1;
            node.stated.insert(name, (now, membership.unwrap()));
        }
        let before = node.registers.len();
        let unheard = node.members.unheard_since().unwrap_or(u64::MAX);
        node.registers.retain(|_, (stamp, is_there)| {
            *is_there || *stamp + AGE > now || *stamp + NEWS > unheard
        });
        self.n_dropped += (before - node.registers.len()) as u64;
    }

    /// Whether all nodes that are up take what a node has.
    fn is_taken(&self, at: usize) -> bool {
        let (name, began) = (node_name(at), self.nodes[at].began);
        let mut up = self.nodes.iter().filter(|node| node.up);
        up.all(|other| began >= other.members.forgotten(&name))
    }

    /// No node that is one of the site's shows what was deleted, once it has heard of it.
    fn check(&self) {
        for (content, deleted) in &self.deleted {
            for (at, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.up) {
                let shown = node.registers.get(content);
                let is_shown = shown.is_some_and(|(stamp, is_there)| *is_there && stamp < deleted);
                assert!(
                    !(self.is_taken(at) && is_shown && self.now > deleted.max(&node.since) + NEWS),
                    "node {at} shows {content} again: seed {} round {}",
                    self.seed,
                    self.now
                );
            }
        }
    }
}
