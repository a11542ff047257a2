//! Attackers against a legitimate client of another source, the node itself, and another node.
//!
//! | always |
//! | --- |
//! | the legitimate client, the node and the other node have a place within [`BOUND`] of wanting one, and keep it until they are served |
//! | no bound of the policy is exceeded |
//! | no stream ends for another one while its answer is in flight, and none of a proven node ends at all |

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use random::Random;

use super::*;

/// A step of the clock.
const STEP: Duration = Duration::from_millis(10);

/// The steps of a run: ten seconds, in which every phase can come to its end.
const STEPS: u32 = 1000;

/// The time that a served client has to wait at most.
const BOUND: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attack {
    /// Streams of one source that have asked once and are idle.
    Idle,
    /// The same, of all addresses of one network.
    Network,
    /// Handshakes that do not end.
    Handshakes,
    /// Streams that send nothing.
    Silent,
    /// A source for each stream.
    ManySources,
    /// A source that has a request answered all the time.
    Busy,
}

const ATTACKS: [Attack; 6] = [
    Attack::Idle,
    Attack::Network,
    Attack::Handshakes,
    Attack::Silent,
    Attack::ManySources,
    Attack::Busy,
];

#[derive(Clone, Copy, Debug)]
struct Seen {
    class: Class,
    source: IpAddr,
    is_answering: bool,
    is_proven: bool,
}

/// A client that has to be served: it wants a place, works a while, and goes.
#[derive(Debug)]
struct Client {
    name: &'static str,
    class: Class,
    source: IpAddr,
    opening: Opening,
    is_node: bool,
    id: Option<Id>,
    /// Steps until the next phase.
    steps: u32,
    phase: u32,
    wanted: Option<Instant>,
    n_served: u32,
}

struct Simulation {
    seed: u64,
    random: Random,
    places: Admission,
    now: Instant,
    streams: BTreeMap<Id, Seen>,
    /// Answers of attackers, and when they end.
    answers: Vec<(Instant, Id)>,
    attacks: Vec<Attack>,
    clients: Vec<Client>,
}

fn ip(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    Ipv4Addr::new(a, b, c, d).into()
}

impl Simulation {
    #[expect(
        clippy::disallowed_methods,
        reason = "an instant to begin with, whichever"
    )]
    fn new(seed: u64) -> Self {
        let mut random = Random::new(u128::from(seed).to_le_bytes());
        let sizes = [64, 100, 256];
        let size = sizes[pick(&mut random, sizes.len())];
        let policy = Policy::of(size).with_members();
        let mut attacks: Vec<Attack> = ATTACKS
            .into_iter()
            .filter(|_| random.bits() & 1 == 0)
            .collect();
        if attacks.is_empty() {
            attacks = ATTACKS.to_vec();
        }
        let client = |name, class, source, opening, is_node| Client {
            name,
            class,
            source,
            opening,
            is_node,
            id: None,
            steps: 0,
            phase: 0,
            wanted: None,
            n_served: 0,
        };
        let (plain, tls) = (Opening::Request, Opening::Handshake);
        let clients = vec![
            client("a client", Class::Other, ip(198, 51, 100, 7), plain, false),
            client(
                "a client in the attackers' network",
                Class::Other,
                ip(192, 0, 2, 250),
                plain,
                false,
            ),
            client(
                "a client with TLS",
                Class::Other,
                ip(203, 0, 113, 7),
                tls,
                false,
            ),
            client("the node", Class::Node, ip(127, 0, 0, 1), plain, false),
            client("another node", Class::Member, ip(10, 0, 0, 2), tls, true),
            client(
                "a node at another address",
                Class::Other,
                ip(10, 9, 0, 2),
                tls,
                true,
            ),
        ];
        Self {
            seed,
            random,
            places: Admission::new(policy),
            now: Instant::now(),
            streams: BTreeMap::new(),
            answers: Vec::new(),
            attacks,
            clients,
        }
    }

    fn run(mut self) {
        for step in 0..STEPS {
            self.now += STEP;
            let due = self.places.due(self.now);
            self.note(&due);
            self.attack();
            self.end_answers();
            for index in 0..self.clients.len() {
                self.serve(index);
            }
            if step % 8 == 0 {
                self.check();
            }
        }
        for client in &self.clients {
            assert!(client.n_served > 4, "seed {}: {client:?}", self.seed);
        }
    }

    //--- Attackers

    fn attack(&mut self) {
        // A client keeps its place until as many other sources have come as have room. So these come once a step, and
        // the client is done before.
        for attack in self.attacks.clone() {
            let n = match attack {
                Attack::Network | Attack::ManySources => 1,
                _ => 1 + pick(&mut self.random, 20),
            };
            for _ in 0..n {
                self.attack_once(attack);
            }
        }
    }

    fn attack_once(&mut self, attack: Attack) {
        let (source, opening) = match attack {
            Attack::Idle => (ip(192, 0, 2, 1), Opening::Request),
            Attack::Network => {
                let last = u8::try_from(pick(&mut self.random, 240)).unwrap();
                (ip(192, 0, 2, last), Opening::Request)
            }
            Attack::Handshakes => (ip(192, 0, 2, 2), Opening::Handshake),
            Attack::Silent => (ip(192, 0, 2, 3), Opening::Request),
            Attack::ManySources => {
                let bits = u32::try_from(self.random.bits() >> 32).unwrap();
                let opening = [Opening::Request, Opening::Handshake][pick(&mut self.random, 2)];
                (Ipv4Addr::from(bits | 0x8000_0000).into(), opening)
            }
            Attack::Busy => (ip(192, 0, 2, 5), Opening::Request),
        };
        let Some(id) = self.arrive(source, Class::Other, opening) else {
            return;
        };
        match attack {
            Attack::Silent => {}
            Attack::Handshakes => self.places.received(id, 1, self.now),
            Attack::ManySources => match pick(&mut self.random, 3) {
                0 => {}
                1 => self.places.received(id, 1, self.now),
                _ => self.places.idle(id, self.now),
            },
            Attack::Idle | Attack::Network => {
                self.places.received(id, 1, self.now);
                self.places.answer(id);
                self.places.answered(id, self.now);
            }
            Attack::Busy => {
                self.places.answer(id);
                self.streams.get_mut(&id).unwrap().is_answering = true;
                let lasts = STEP * u32::try_from(1 + pick(&mut self.random, 200)).unwrap();
                self.answers.push((self.now + lasts, id));
            }
        }
    }

    fn end_answers(&mut self) {
        let now = self.now;
        let (over, rest) = self.answers.drain(..).partition(|(at, _)| *at <= now);
        self.answers = rest;
        for (_, id) in Vec::from_iter::<Vec<(Instant, Id)>>(over) {
            self.places.answered(id, now);
            if let Some(seen) = self.streams.get_mut(&id) {
                seen.is_answering = false;
            }
        }
    }

    //--- Clients

    /// A step of a client: want, handshake or first octets, answer, gone.
    fn serve(&mut self, index: usize) {
        let client = &mut self.clients[index];
        if client.steps > 0 {
            client.steps -= 1;
            return;
        }
        let Some(id) = client.id.filter(|id| self.streams.contains_key(id)) else {
            let wanted = *client.wanted.get_or_insert(self.now);
            let (source, class, opening) = (client.source, client.class, client.opening);
            let waited = self.now.duration_since(wanted);
            let name = client.name;
            assert!(
                waited <= BOUND,
                "seed {}: {name} has waited {waited:?} for a place ({:?}, {:?})",
                self.seed,
                self.attacks,
                self.places.taken()
            );
            let id = self.arrive(source, class, opening);
            let client = &mut self.clients[index];
            (client.id, client.phase, client.steps) = (id, 0, 1);
            return;
        };
        let is_node = client.is_node;
        client.phase += 1;
        match client.phase {
            1 => self.places.received(id, 1, self.now),
            2 if is_node => {
                self.places.prove(id);
                self.streams.get_mut(&id).unwrap().is_proven = true;
            }
            2 => {
                self.places.answer(id);
                self.streams.get_mut(&id).unwrap().is_answering = true;
                client.steps = 5;
            }
            3 => {
                self.places.answered(id, self.now);
                self.streams.get_mut(&id).unwrap().is_answering = false;
                self.clients[index].steps = if is_node { 50 } else { 0 };
            }
            _ => {
                self.places.leave(id);
                self.streams.remove(&id);
                let pause = u32::try_from(pick(&mut self.random, 50)).unwrap();
                let client = &mut self.clients[index];
                client.n_served += 1;
                (client.id, client.wanted, client.steps) = (None, None, pause);
            }
        }
    }

    fn arrive(&mut self, source: IpAddr, class: Class, opening: Opening) -> Option<Id> {
        let decision = self
            .places
            .arrive(Source::Address(source), class, opening, self.now);
        self.note(&decision.ended);
        let id = decision.outcome.ok()?;
        let seen = Seen {
            class,
            source,
            is_answering: false,
            is_proven: false,
        };
        self.streams.insert(id, seen);
        Some(id)
    }

    fn note(&mut self, ended: &[Ended]) {
        for ended in ended {
            let seen = self.streams.remove(&ended.id).unwrap();
            let seed = self.seed;
            assert!(!seen.is_proven, "seed {seed}: {ended:?} of a node");
            assert!(!seen.is_answering, "seed {seed}: {ended:?} of {seen:?}");
        }
    }

    fn check(&self) {
        let (seed, policy) = (self.seed, self.places.policy());
        let taken = self.places.taken();
        assert_eq!(taken.all(), self.streams.len(), "seed {seed}");
        assert!(taken.all() <= policy.places(), "seed {seed}: {taken:?}");
        assert!(taken.others <= policy.for_all(), "seed {seed}: {taken:?}");
        let mut sources: BTreeMap<IpAddr, usize> = BTreeMap::new();
        let mut networks: BTreeMap<[u8; 3], usize> = BTreeMap::new();
        for seen in self.streams.values() {
            if seen.class == Class::Other && !seen.is_proven {
                *sources.entry(seen.source).or_default() += 1;
                if let IpAddr::V4(address) = seen.source {
                    let [a, b, c, _] = address.octets();
                    *networks.entry([a, b, c]).or_default() += 1;
                }
            }
        }
        let most = policy.source_most(Class::Other);
        assert!(sources.values().all(|n| *n <= most), "seed {seed}");
        let most = policy.network_most();
        assert!(networks.values().all(|n| *n <= most), "seed {seed}");
        let handshakes = self.places.handshakes.all();
        assert!(handshakes <= policy.handshakes_most(), "seed {seed}");
    }
}

fn pick(random: &mut Random, below: usize) -> usize {
    usize::try_from(random.bits() % u64::try_from(below).unwrap()).unwrap()
}

#[test]
fn attackers_keep_nobody_out() {
    for seed in 0..16 {
        Simulation::new(seed).run();
    }
}
