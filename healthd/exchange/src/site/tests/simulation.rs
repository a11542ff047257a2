//! Random networks, clocks and restarts under several nodes, one of which may lie.
//!
//! | always, at every node that does not lie |
//! | --- |
//! | a node that hears no majority says nothing for the site |
//! | what the site says, a node that does not lie has found, not longer ago than findings count |
//! | while all others agree and are heard, the verdict is theirs, whatever one node says |
//! | a last verdict holds for its time after the site spoke, and no longer |
//! | what is kept is bounded by the targets, and the next deadline lies ahead |
//! | at rest, the nodes of a group that is a majority and hear each other have the same verdicts |
//!
//! The transport delays messages, repeats them, delivers them late and in another order, and loses them with their
//! stream. The clock of each node has a rate of its own.

use std::collections::VecDeque;

use super::*;

const TICK: Duration = Duration::from_millis(50);
const HOLD: Duration = Duration::from_secs(6);
const N_TARGETS: usize = 3;
/// A message that is later than this is of an earlier stream, or is repeated.
const MAX_DELAY: Duration = Duration::from_millis(300);
/// The slowest clock.
const SLOWEST: f64 = 0.92;

/// How often each thing happened: a simulation in which nothing happens proves nothing.
#[derive(Default)]
struct Seen {
    bases: BTreeMap<Basis, usize>,
    n_cut_off: usize,
    n_alone: usize,
    n_gaps: usize,
    n_ignored: usize,
    n_at_rest: usize,
    n_outvoted: usize,
}

struct SimNode {
    exchange: Exchange,
    is_running: bool,
    /// Local seconds for a second.
    rate: f64,
    own: [Liveness; N_TARGETS],
    shown: [(Liveness, Basis); N_TARGETS],
    /// When the site last spoke here, on the local clock.
    spoke: [Option<Instant>; N_TARGETS],
    /// When it last found a target up, and down, in real time.
    found: [[Option<Duration>; 2]; N_TARGETS],
}

/// A stream of the messages of one node to another.
struct SimStream {
    id: StreamId,
    sequence: u64,
    sent: [Liveness; N_TARGETS],
    last_sent: Duration,
    last_heard: Duration,
}

struct Delivery {
    due: Duration,
    from: usize,
    to: usize,
    stream: StreamId,
    message: Message,
}

struct Simulation {
    seed: u64,
    random: u64,
    start: Instant,
    elapsed: Duration,
    nodes: Vec<SimNode>,
    liar: Option<usize>,
    /// Whether two nodes reach each other.
    links: Vec<Vec<bool>>,
    /// Whether a node reaches a target.
    reach: Vec<[bool; N_TARGETS]>,
    streams: BTreeMap<(usize, usize), SimStream>,
    queue: VecDeque<Delivery>,
    /// Since when, for each target, all nodes that do not lie run, hear each other, and find the same.
    agreed: [Option<(Duration, Liveness)>; N_TARGETS],
}

fn target_of(number: usize) -> Target {
    Target::tcp(([192, 168, 7, 13], 1 + u16::try_from(number).unwrap()).into())
}

fn bit(liveness: Liveness) -> usize {
    usize::from(liveness == Up)
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut simulation = Self {
            seed,
            random: seed,
            start: start(),
            elapsed: Duration::ZERO,
            nodes: Vec::new(),
            liar: None,
            links: Vec::new(),
            reach: Vec::new(),
            streams: BTreeMap::new(),
            queue: VecDeque::new(),
            agreed: [None; N_TARGETS],
        };
        let n_nodes = 3 + simulation.draw(3);
        simulation.links = vec![vec![true; n_nodes]; n_nodes];
        simulation.reach = vec![[true; N_TARGETS]; n_nodes];
        for number in 0..n_nodes {
            let rate = SLOWEST + f64::from(u32::try_from(simulation.draw(17)).unwrap()) / 100.0;
            let exchange = Exchange::new(settings(number, n_nodes), simulation.start);
            simulation.nodes.push(SimNode {
                exchange,
                is_running: true,
                rate,
                own: [Unknown; N_TARGETS],
                shown: [(Unknown, Own); N_TARGETS],
                spoke: [None; N_TARGETS],
                found: [[None; 2]; N_TARGETS],
            });
        }
        if simulation.draw(2) == 0 {
            simulation.liar = Some(simulation.draw(n_nodes));
        }
        simulation
    }

    fn draw(&mut self, below: usize) -> usize {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let below = u64::try_from(below).unwrap();
        usize::try_from((self.random >> 33) % below).unwrap()
    }

    fn liveness(&mut self) -> Liveness {
        [Up, Down, Unknown][self.draw(3)]
    }

    fn n_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The time on a node's own clock.
    fn local(&self, node: usize) -> Instant {
        self.start + self.elapsed.mul_f64(self.nodes[node].rate)
    }

    fn reaches(&self, one: usize, other: usize) -> bool {
        self.links[one][other]
    }

    /// The number of a peer at a node.
    fn peer(node: usize, peer: usize) -> PeerId {
        PeerId(if peer < node { peer } else { peer - 1 })
    }

    fn honest(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        let liar = self.liar;
        (0..self.n_nodes()).filter(move |node| Some(*node) != liar)
    }

    //--- What happens

    fn upset(&mut self) {
        let n_nodes = self.n_nodes();
        let (one, other) = (self.draw(n_nodes), self.draw(n_nodes));
        match self.draw(9) {
            0 | 1 => self.set_link(one, other, false),
            2 => self.set_link(one, other, true),
            3 => (0..n_nodes).for_each(|other| self.set_link(one, other, false)),
            4 => {
                let target = self.draw(N_TARGETS);
                self.reach[one][target] = !self.reach[one][target];
            }
            5 => {
                let (target, is_up) = (self.draw(N_TARGETS), self.draw(2) == 0);
                for reach in &mut self.reach {
                    reach[target] = is_up;
                }
            }
            6 => self.nodes[one].is_running = false,
            _ => {
                for node in 0..n_nodes {
                    self.start_again(node);
                    for other in 0..n_nodes {
                        self.set_link(node, other, true);
                    }
                }
            }
        }
    }

    fn set_link(&mut self, one: usize, other: usize, reaches: bool) {
        if one != other {
            self.links[one][other] = reaches;
            self.links[other][one] = reaches;
        }
    }

    /// A healthd that was away begins with what it showed last.
    fn start_again(&mut self, number: usize) {
        if self.nodes[number].is_running {
            return;
        }
        let now = self.local(number);
        let mut exchange = Exchange::new(settings(number, self.n_nodes()), now);
        let node = &mut self.nodes[number];
        for target in 0..N_TARGETS {
            let (liveness, _) = node.shown[target];
            exchange.restore(&target_of(target), liveness, now);
            node.spoke[target] = Some(now);
        }
        node.exchange = exchange;
        node.is_running = true;
        node.own = [Unknown; N_TARGETS];
        self.streams
            .retain(|(to, from), _| *to != number && *from != number);
    }

    //--- Messages

    fn connect(&mut self, to: usize, from: usize) {
        let peer = Self::peer(to, from);
        if !self.reaches(to, from) {
            return;
        }
        if !self.nodes[from].is_running {
            let now = self.local(to);
            self.nodes[to].exchange.refused(peer, now);
            return;
        }
        let stream = SimStream {
            id: self.nodes[to].exchange.begin(peer),
            sequence: 0,
            sent: [Unknown; N_TARGETS],
            last_sent: Duration::ZERO,
            last_heard: self.elapsed,
        };
        self.streams.insert((to, from), stream);
    }

    /// What a node sends on a stream now.
    fn next_message(&mut self, to: usize, from: usize) -> Option<(StreamId, Message)> {
        let (own, elapsed) = (self.nodes[from].own, self.elapsed);
        let lie = (self.liar == Some(from)).then(|| self.lie());
        let stream = self.streams.get_mut(&(to, from))?;
        let is_first = stream.sequence == 0;
        let is_due = elapsed >= stream.last_sent + Duration::from_millis(500);
        let changed: Vec<usize> = (0..N_TARGETS)
            .filter(|target| stream.sent[*target] != own[*target])
            .collect();
        if !is_first && !is_due && changed.is_empty() && lie.is_none() {
            return None;
        }
        stream.sequence += 1;
        stream.sent = own;
        stream.last_sent = elapsed;
        let findings = changed
            .into_iter()
            .map(|target| finding(target, own[target]));
        let honest = Message {
            sequence: stream.sequence,
            full: is_first,
            findings: findings.collect(),
        };
        let Some((offset, full, findings)) = lie else {
            return Some((stream.id, honest));
        };
        let sequence = match offset {
            0 => stream.sequence.saturating_sub(1),
            1 => u64::MAX,
            _ => stream.sequence,
        };
        let lie = Message {
            sequence,
            full: full || is_first,
            findings,
        };
        Some((stream.id, lie))
    }

    /// Which sequence number a liar takes, whether it says that this is all, and what it says.
    fn lie(&mut self) -> (usize, bool, Vec<Finding>) {
        let n_findings = self.draw(6);
        let findings = (0..n_findings).map(|_| {
            let target = self.draw(2 * N_TARGETS);
            finding(target, self.liveness())
        });
        let findings = findings.collect();
        (self.draw(40), self.draw(3) == 0, findings)
    }

    fn send(&mut self, to: usize, from: usize) {
        let Some((stream, message)) = self.next_message(to, from) else {
            return;
        };
        let n_copies = 1 + usize::from(self.draw(10) == 0) * 2;
        for copy in 0..n_copies {
            // A copy may come when its stream has ended long ago.
            let most = if copy == 0 { 300 } else { 8000 };
            let delay = Duration::from_millis(u64::try_from(self.draw(most)).unwrap());
            self.queue.push_back(Delivery {
                due: self.elapsed + delay.min(if copy == 0 { MAX_DELAY } else { delay }),
                from,
                to,
                stream,
                message: message.clone(),
            });
        }
    }

    fn deliver(&mut self, seen: &mut Seen) {
        let (due, rest): (VecDeque<_>, VecDeque<_>) = self
            .queue
            .drain(..)
            .partition(|one| one.due <= self.elapsed);
        self.queue = rest;
        for delivery in due {
            let Delivery { from, to, .. } = delivery;
            if !self.reaches(to, from) || !self.nodes[to].is_running {
                continue;
            }
            let now = self.local(to);
            let exchange = &mut self.nodes[to].exchange;
            let peer = Self::peer(to, from);
            match exchange.hear(peer, delivery.stream, delivery.message, now) {
                Heard::Taken(_) => {
                    if let Some(stream) = self.streams.get_mut(&(to, from)) {
                        stream.last_heard = self.elapsed;
                    }
                }
                Heard::Ignored => seen.n_ignored += 1,
                Heard::Gap => {
                    seen.n_gaps += 1;
                    self.connect(to, from);
                }
            }
        }
    }

    //--- A step

    fn tick(&mut self, seen: &mut Seen) {
        self.elapsed += TICK;
        for node in 0..self.n_nodes() {
            for target in 0..N_TARGETS {
                // A probe takes its time.
                if self.nodes[node].is_running && self.draw(4) == 0 {
                    let found = if self.reach[node][target] { Up } else { Down };
                    self.nodes[node].own[target] = found;
                    self.nodes[node].found[target][bit(found)] = Some(self.elapsed);
                }
            }
        }
        let pairs =
            (0..self.n_nodes()).flat_map(|to| (0..self.n_nodes()).map(move |from| (to, from)));
        let pairs: Vec<_> = pairs.filter(|(to, from)| to != from).collect();
        for (to, from) in pairs {
            if !self.nodes[to].is_running {
                continue;
            }
            let stream = self.streams.get(&(to, from));
            let silent = Duration::from_secs(1);
            let is_lost = stream.is_none_or(|stream| self.elapsed > stream.last_heard + silent);
            if is_lost || !self.nodes[from].is_running {
                self.streams.remove(&(to, from));
                self.connect(to, from);
            }
            if self.nodes[from].is_running {
                self.send(to, from);
            }
        }
        self.deliver(seen);
        self.note_agreement();
        for node in self.honest() {
            if self.nodes[node].is_running {
                self.judge(node, seen);
            }
        }
    }

    fn judge(&mut self, number: usize, seen: &mut Seen) {
        let now = self.local(number);
        let node = &mut self.nodes[number];
        node.exchange.advance(now);
        for target in 0..N_TARGETS {
            let own = node.own[target];
            let verdict = node.exchange.judge(&target_of(target), own, now);
            let shown = (verdict.liveness.unwrap_or(own), verdict.basis);
            node.shown[target] = shown;
            *seen.bases.entry(verdict.basis).or_default() += 1;
            if verdict.basis == Site {
                node.spoke[target] = Some(now);
                seen.n_outvoted += usize::from(shown.0 != own && own != Unknown);
            }
        }
        let contact = node.exchange.members().contact().0;
        seen.n_cut_off += usize::from(contact == Contact::CutOff);
        seen.n_alone += usize::from(contact == Contact::Alone);
        self.check(number, contact);
    }

    /// Since when the nodes that do not lie agree about each target, and all hear each other.
    fn note_agreement(&mut self) {
        let honest = self.honest();
        let all = |node: usize| self.nodes[node].is_running;
        let linked = honest.clone().all(|one| {
            all(one)
                && honest
                    .clone()
                    .all(|other| one == other || self.reaches(one, other))
        });
        for target in 0..N_TARGETS {
            let mut found = honest.clone().map(|node| self.nodes[node].own[target]);
            let first = found.next().unwrap_or_default();
            let agree = linked && first != Unknown && found.all(|other| other == first);
            self.agreed[target] = match self.agreed[target] {
                _ if !agree => None,
                Some((since, liveness)) if liveness == first => Some((since, liveness)),
                _ => Some((self.elapsed, first)),
            };
        }
    }

    //--- Invariants

    fn check(&self, number: usize, contact: Contact) {
        let (node, now) = (&self.nodes[number], self.local(number));
        let place = |target: usize| format!("target {target} at node {number}: seed {}", self.seed);
        let counts = SILENCE.div_f64(SLOWEST) + MAX_DELAY + 2 * TICK;
        for target in 0..N_TARGETS {
            let (liveness, basis) = node.shown[target];
            if contact != Contact::Connected {
                assert!(matches!(basis, Own | Last), "{basis} {}", place(target));
            }
            if basis == Site {
                let recent = |found: Option<Duration>| {
                    found.is_some_and(|found| self.elapsed <= found + counts)
                };
                let has_found = |other: usize| {
                    let found = self.nodes[other].found[target][bit(liveness)];
                    // A finding holds until the node makes another one.
                    recent(found) || self.nodes[other].own[target] == liveness
                };
                let mut honest = self.honest();
                assert!(honest.any(has_found), "{liveness} {}", place(target));
            }
            if basis == Last {
                let spoke = node.spoke[target].expect("the site has spoken");
                let age = now.saturating_duration_since(spoke);
                assert!(age <= HOLD + 2 * TICK, "{age:?} {}", place(target));
            }
            if let Some((since, agreed)) = self.agreed[target] {
                // The time to find each other again, and to hear.
                let rest = counts + Duration::from_millis(1500);
                if self.elapsed > since + rest {
                    let shown = (liveness, basis);
                    assert_eq!(shown, (agreed, Site), "{}", place(target));
                }
            }
        }
        let deadline = node.exchange.next_deadline();
        assert!(
            deadline.is_none_or(|deadline| deadline > now),
            "seed {}",
            self.seed
        );
        assert!(node.exchange.n_decided() <= N_TARGETS);
        for peer in node.exchange.members().peers() {
            assert!(peer.n_findings() <= 2 * N_TARGETS);
        }
    }

    /// The nodes are left in two groups for a while. The majority has one mind.
    fn rest_in_groups(&mut self, seen: &mut Seen) {
        let n_nodes = self.n_nodes();
        let majority = n_nodes / 2 + 1;
        let liar = self.liar;
        for one in 0..n_nodes {
            self.start_again(one);
            for other in 0..n_nodes {
                self.set_link(one, other, (one < majority) == (other < majority));
            }
        }
        let rest = (SILENCE + HOLD).div_f64(SLOWEST) + Duration::from_secs(3);
        let end = self.elapsed + rest;
        while self.elapsed < end {
            self.tick(seen);
        }
        // A liar tells each node something else.
        if liar.is_some_and(|liar| liar < majority) {
            return;
        }
        seen.n_at_rest += 1;
        let first = self.nodes[0].shown;
        for node in 0..n_nodes {
            let contact = self.nodes[node].exchange.members().contact().0;
            if node < majority {
                assert_eq!(contact, Contact::Connected, "seed {}", self.seed);
                assert_eq!(
                    self.nodes[node].shown, first,
                    "node {node}: seed {}",
                    self.seed
                );
            } else if liar != Some(node) {
                assert_eq!(contact, Contact::CutOff, "seed {}", self.seed);
            }
        }
    }
}

fn settings(number: usize, n_nodes: usize) -> Settings {
    let name = |number: usize| format!("node-{number}");
    Settings {
        node: name(number),
        peers: (0..n_nodes)
            .filter(|peer| *peer != number)
            .map(name)
            .collect(),
        silence: SILENCE,
        hold: HOLD,
        max_findings: 2 * N_TARGETS,
    }
}

fn finding(target: usize, liveness: Liveness) -> Finding {
    Finding {
        target: target_of(target),
        liveness,
        reason: String::new(),
    }
}

#[test]
fn whatever_happens_the_site_has_one_mind() {
    let mut seen = Seen::default();
    for seed in 0..256 {
        let mut simulation = Simulation::new(seed);
        for _ in 0..600 {
            if simulation.draw(25) == 0 {
                simulation.upset();
            }
            simulation.tick(&mut seen);
        }
        simulation.rest_in_groups(&mut seen);
    }
    for basis in Basis::ALL {
        assert!(seen.bases.contains_key(&basis), "never {basis}");
    }
    let happened = [
        seen.n_cut_off,
        seen.n_alone,
        seen.n_gaps,
        seen.n_ignored,
        seen.n_outvoted,
    ];
    assert!(happened.iter().all(|count| *count > 100), "{happened:?}");
    assert!(seen.n_at_rest > 50);
}
