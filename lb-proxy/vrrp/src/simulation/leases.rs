//! Virtual routers and the healthds that grant their lease, together: on a network that is cut in part and in one direction,
//! loses and forges, with clocks that drift, processes that stop and restart, and nodes that can and cannot serve.
//!
//! | always |
//! | --- |
//! | one router at most is active by a lease |
//! | two are active only if one of them goes by advertisements because healthds are away, or did moments ago |
//! | they are two no longer, once all reach each other |
//! | a majority of healthds that reach each other, one of them with a router that can serve, has an active one within the bound |
//! | no forged advertisement moves an address that a lease holds |
//!
//! The bound is RFC 9568's: three intervals and the skew time, by a clock that is right, however fast or slow those of the nodes
//! are. It is counted from when the address lost its holder, or from when the last of the majority was there. Two cases have
//! a longer one, [`Class::Silent`] and [`Class::Lossy`]. The gaps are printed; `VRRP_SIM_SEED=n` prints every message of a seed.
//!
//! Size: one simulation, its network and its rules; they share every field.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use exchange::lease::{self, Leases, Request, Response, Rule, round_time};
use exchange::members::{Members, Message, PeerId, Settings};

use super::Random;
use crate::machine::{Action, Demand, Departure, Eligibility, Input, Lease, Machine, Start, State};
use crate::packet::{Advertisement, Datagram, HOP_LIMIT, Version};
use crate::settings::{Preempt, RouterSettings, VirtualAddress};

const SEEDS: u64 = 256;
const TICK: Duration = Duration::from_millis(10);
const LENGTH: Duration = Duration::from_secs(45);
const INTERVAL: Duration = Duration::from_secs(1);
const TERM: Duration = Duration::from_millis(2_250);
/// How long healthd takes a demand to be there after the call.
const COUNTS: Duration = Duration::from_millis(250);
const BEAT: Duration = Duration::from_millis(500);
const LATENCY: Duration = Duration::from_millis(40);
/// Clocks are up to 8.3 % fast or slow: the fastest slew of the site's own time daemon.
const DRIFT: u64 = 83;
/// What a healthd that has just started is silent for, on a slow clock.
const QUIET: Duration = Duration::from_millis(3_930);
/// How much longer a gap may be where messages are lost: rounds are repeated, and where a release is lost, those that have
/// accepted its proposal keep the lease for a term.
const LOSSES: Duration = Duration::from_secs(3);
/// How long a router that was active by advertisements may take to get a lease.
const SETTLED: Duration = Duration::from_secs(7);
const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(224, 0, 0, 18));

/// How often each thing happened.
#[derive(Debug, Default)]
struct Seen {
    n_moves: usize,
    n_overruled: u64,
    n_lease_ends: usize,
    n_vrrp_alone: usize,
    n_preempted: usize,
    /// A process had the lease that the one before it had left.
    n_left: usize,
    gaps: BTreeMap<Class, Vec<Gap>>,
}

/// What the nodes that could have held the address suffered in a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// Nothing.
    Plain,
    /// One of their healthds had just started, and was silent.
    Silent,
    /// Messages were lost.
    Lossy,
}

/// A time in which no router served, although one could have had the lease.
#[derive(Clone, Debug)]
struct Gap {
    time: Duration,
    bound: Duration,
    seed: u64,
    end: Duration,
}

/// A majority of the nodes that is as small as can be, and one of them that could hold the address.
#[derive(Clone, Debug)]
struct Quorum {
    members: Vec<usize>,
    candidate: usize,
    /// Since when they reach each other, their healthds are up, and the candidate can serve with this priority.
    since: Option<(Duration, u8)>,
    /// When one of the healthds started last, and when a message could be lost.
    silent: Duration,
    lossy: Option<Duration>,
}

/// A process of healthd.
struct Healthd {
    leases: Leases,
    members: Members,
    beat: Duration,
}

/// A process of lb-proxy.
struct Proxy {
    machine: Machine,
    demand: Option<Demand>,
    lease: Lease,
    heard: Instant,
}

struct Node {
    /// Local microseconds for a thousand.
    rate: u64,
    settings: Arc<RouterSettings>,
    healthd: Option<Healthd>,
    proxy: Option<Proxy>,
    eligibility: Eligibility,
    paused: bool,
    /// What a paused process finds afterwards.
    buffer: Vec<(IpAddr, Arc<[u8]>)>,
    healthd_started: Duration,
    /// When its processes are there again.
    healthd_back: Option<Duration>,
    proxy_back: Option<Duration>,
    resumes: Option<Duration>,
    /// When advertisements decided here last.
    by_vrrp: Duration,
}

enum Parcel {
    Advertisement(IpAddr, Arc<[u8]>),
    Request(Request),
    Response(Response),
    Beat,
}

struct Simulation {
    seed: u64,
    random: Random,
    start: Instant,
    now: Duration,
    nodes: Vec<Node>,
    reach: Vec<Vec<bool>>,
    /// Of a hundred messages.
    loss: u64,
    queue: BTreeMap<(Duration, u64), (usize, usize, Parcel)>,
    n_queued: u64,
    disturbed: Duration,
    quorums: Vec<Quorum>,
    forging: bool,
    /// When the next advertisement is forged.
    next_forged: Duration,
    active: Option<usize>,
    /// Since when more than one is active.
    two_since: Option<Duration>,
    gap_since: Option<Duration>,
    /// Every message is printed.
    verbose: bool,
    trace: VecDeque<String>,
    seen: Seen,
}

#[test]
fn an_address_has_one_holder_while_leases_decide() {
    let number = |name| -> Option<u64> { std::env::var(name).ok()?.parse().ok() };
    let seeds = match number("VRRP_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("VRRP_SIM_SEEDS").unwrap_or(SEEDS),
    };
    let is_whole = seeds.end - seeds.start >= SEEDS;
    let mut all = Seen::default();
    for seed in seeds {
        let seen = Simulation::new(seed).run();
        all.n_moves += seen.n_moves;
        all.n_overruled += seen.n_overruled;
        all.n_lease_ends += seen.n_lease_ends;
        all.n_vrrp_alone += seen.n_vrrp_alone;
        all.n_preempted += seen.n_preempted;
        all.n_left += seen.n_left;
        for (class, gaps) in seen.gaps {
            all.gaps.entry(class).or_default().extend(gaps);
        }
    }
    println!(
        "{} moves; {} forged overruled, {} leases ended, {} preempted, {} left by a process before",
        all.n_moves, all.n_overruled, all.n_lease_ends, all.n_preempted, all.n_left,
    );
    for (class, gaps) in &mut all.gaps {
        gaps.sort_unstable_by_key(|gap| gap.time);
        let at = |part: usize| gaps[(gaps.len() * part / 100).min(gaps.len() - 1)].time;
        println!(
            "{class:?}: {} gaps: median {:?}, 90 % {:?}, longest {:?}",
            gaps.len(),
            at(50),
            at(90),
            at(100)
        );
        gaps.sort_by_key(|gap| gap.bound.saturating_sub(gap.time));
        for gap in gaps.iter().take(10) {
            let Gap {
                time,
                bound,
                seed,
                end,
            } = gap;
            println!("  {time:?} of {bound:?}, seed {seed} until {end:?}");
        }
    }
    if is_whole {
        let counts = [
            all.n_moves,
            all.n_lease_ends,
            all.n_vrrp_alone,
            all.n_preempted,
        ];
        assert!(counts.iter().all(|count| *count > 100), "{all:?}");
        assert!(all.n_left > 5, "{all:?}");
        assert!(all.n_overruled > 100, "{all:?}");
    }
}

fn source(node: usize) -> IpAddr {
    Ipv4Addr::new(192, 168, 7, u8::try_from(node + 13).unwrap()).into()
}

fn vip() -> IpAddr {
    Ipv4Addr::new(192, 168, 7, 100).into()
}

fn lease_name() -> Arc<str> {
    "VRID 51 IPv4".into()
}

fn node_name(node: usize) -> String {
    format!("node-{node}")
}

impl Node {
    fn new(random: &mut Random) -> Self {
        let entry = VirtualAddress {
            address: vip(),
            prefix_length: 32,
        };
        let mut settings = RouterSettings::new("vip", "eth0", 51, vec![entry]);
        settings.interval = INTERVAL;
        settings.priority = 2 + u8::try_from(random.below(249)).unwrap();
        settings.preempt = random.pick(&[
            Preempt::Never,
            Preempt::After(Duration::ZERO),
            Preempt::After(2 * INTERVAL),
        ]);
        Self {
            rate: 1000 - DRIFT + random.below(2 * DRIFT + 1),
            eligibility: Eligibility::Able(settings.priority),
            settings: Arc::new(settings),
            healthd: None,
            proxy: None,
            paused: false,
            buffer: Vec::new(),
            healthd_started: Duration::ZERO,
            healthd_back: None,
            proxy_back: None,
            resumes: None,
            by_vrrp: Duration::ZERO,
        }
    }

    fn state(&self) -> State {
        match &self.proxy {
            Some(proxy) if !self.paused => proxy.machine.state(),
            _ => State::Initialize,
        }
    }

    /// Whether it announces the address.
    fn holds(&self) -> bool {
        let is_going = self
            .proxy
            .as_ref()
            .is_some_and(|proxy| proxy.machine.is_going());
        self.state() == State::Active && !is_going
    }

    fn has_lease(&self) -> bool {
        self.holds()
            && self
                .proxy
                .as_ref()
                .is_some_and(|proxy| proxy.machine.has_lease())
    }

    fn goes_by_vrrp(&self) -> bool {
        let lease = self.proxy.as_ref().map(|proxy| proxy.lease);
        matches!(lease, Some(Lease::Unneeded | Lease::Awaited))
    }

    fn is_able(&self) -> bool {
        let can = matches!(self.eligibility, Eligibility::Able(_));
        can && self.proxy.is_some() && self.healthd.is_some() && !self.paused
    }
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let n_nodes = random.pick(&[3, 3, 3, 5]);
        let nodes = (0..n_nodes).map(|_| Node::new(&mut random)).collect();
        #[expect(clippy::disallowed_methods, reason = "where simulated time begins")]
        let start = Instant::now();
        let mut simulation = Self {
            seed,
            random,
            start,
            now: Duration::ZERO,
            nodes,
            reach: vec![vec![true; n_nodes]; n_nodes],
            loss: 0,
            queue: BTreeMap::new(),
            n_queued: 0,
            disturbed: Duration::ZERO,
            quorums: quorums(n_nodes),
            forging: false,
            next_forged: Duration::ZERO,
            active: None,
            two_since: None,
            gap_since: None,
            verbose: std::env::var("VRRP_SIM_SEED").is_ok(),
            trace: VecDeque::new(),
            seen: Seen::default(),
        };
        for node in 0..n_nodes {
            simulation.start_healthd(node);
            simulation.start_proxy(node);
        }
        simulation
    }

    fn run(mut self) -> Seen {
        let mut next = Duration::from_secs(10);
        while self.now < LENGTH {
            self.now += TICK;
            if next <= self.now {
                self.disturb();
                next = self.now
                    + Duration::from_secs(2)
                    + self.random.duration(Duration::from_secs(12));
            }
            self.step();
        }
        let proxies = self.nodes.iter().filter_map(|node| node.proxy.as_ref());
        self.seen.n_overruled = proxies
            .map(|proxy| proxy.machine.status().counters.overruled)
            .sum();
        self.seen
    }

    /// Everything that happens at the present time.
    fn step(&mut self) {
        if self.forging && self.next_forged <= self.now {
            self.forge();
            self.next_forged = self.now + INTERVAL;
        }
        self.revive();
        self.deliver();
        for node in 0..self.nodes.len() {
            self.turn(node);
        }
        self.check();
    }

    fn local(&self, node: usize) -> Instant {
        let micros = u64::try_from(self.now.as_micros()).unwrap();
        self.start + Duration::from_micros(micros * self.nodes[node].rate / 1000)
    }

    fn note(&mut self, line: &str) {
        if self.verbose {
            eprintln!("{:?} {line}", self.now);
        }
        if self.trace.len() == 60 {
            self.trace.pop_front();
        }
        self.trace.push_back(format!("{:?} {line}", self.now));
    }

    fn fail(&mut self, what: &str) -> ! {
        let states: Vec<_> = self
            .nodes
            .iter()
            .map(|node| {
                (
                    node.state(),
                    node.has_lease(),
                    node.proxy.as_ref().map(|proxy| proxy.lease),
                )
            })
            .collect();
        panic!(
            "{}\n{states:?}\n{what}: seed {} at {:?}",
            self.trace.make_contiguous().join("\n"),
            self.seed,
            self.now
        );
    }

    fn others(&self, node: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.nodes.len()).filter(move |other| *other != node)
    }

    //--- Processes

    fn start_healthd(&mut self, node: usize) {
        let now = self.local(node);
        let peers: Vec<String> = self.others(node).map(node_name).collect();
        let settings = Settings {
            node: node_name(node),
            peers: peers.clone(),
            silence: Duration::from_secs(2),
            hold: Duration::from_secs(60),
            max_findings: 1,
        };
        self.nodes[node].healthd = Some(Healthd {
            leases: Leases::new(&node_name(node), &peers, now),
            members: Members::new(settings, now),
            beat: self.now,
        });
        self.nodes[node].healthd_started = self.now;
    }

    fn start_proxy(&mut self, node: usize) {
        let now = self.local(node);
        let mut machine = Machine::new(Arc::clone(&self.nodes[node].settings));
        machine.handle(Input::Lease(Lease::Awaited), now);
        machine.handle(Input::Source(Some(source(node))), now);
        machine.handle(Input::Eligibility(self.nodes[node].eligibility), now);
        machine.handle(Input::Startup(Start::Fresh), now);
        self.nodes[node].proxy = Some(Proxy {
            machine,
            demand: None,
            lease: Lease::Awaited,
            heard: now,
        });
        self.nodes[node].paused = false;
        self.nodes[node].buffer.clear();
        self.act(node);
    }

    fn revive(&mut self) {
        for node in 0..self.nodes.len() {
            let is_due = |at: &mut Option<Duration>| at.take_if(|at| *at <= self.now).is_some();
            let entry = &mut self.nodes[node];
            let healthd = is_due(&mut entry.healthd_back);
            let proxy = is_due(&mut entry.proxy_back);
            let resumes = is_due(&mut entry.resumes) && entry.paused;
            if healthd && self.nodes[node].healthd.is_none() {
                self.note(&format!("node {node}: healthd starts"));
                self.start_healthd(node);
                self.disturbed = self.now;
            }
            if proxy && self.nodes[node].proxy.is_none() {
                self.note(&format!("node {node}: lb-proxy starts"));
                self.start_proxy(node);
                self.disturbed = self.now;
            }
            if resumes {
                self.note(&format!("node {node}: lb-proxy runs again"));
                self.nodes[node].paused = false;
                for (from, octets) in std::mem::take(&mut self.nodes[node].buffer) {
                    self.receive(node, from, &octets);
                }
                self.disturbed = self.now;
            }
        }
    }

    /// One step of both processes of a node.
    fn turn(&mut self, node: usize) {
        let now = self.local(node);
        let real = self.now;
        if let Some(healthd) = &mut self.nodes[node].healthd {
            healthd.members.advance(now);
            let rule = Rule::of(healthd.members.contact().0, healthd.members.n_nodes());
            healthd.leases.set_rule(rule, now);
            healthd.leases.advance(now);
            let beats = healthd.beat <= real;
            if beats {
                healthd.beat = real + BEAT;
            }
            let requests: Vec<_> = std::iter::from_fn(|| healthd.leases.poll_request()).collect();
            for (peer, request) in requests {
                let to = self.others(node).nth(peer.0).unwrap();
                if self.verbose && !request.holds {
                    let Request { kind, counter, .. } = request;
                    self.note(&format!("  {node} asks {to}: {kind:?} {counter}"));
                }
                self.send(node, to, Parcel::Request(request));
            }
            if beats {
                for to in self.others(node) {
                    self.send(node, to, Parcel::Beat);
                }
                self.refuse(node);
            }
        }
        if self.nodes[node].paused {
            return;
        }
        // A call to healthd takes its time.
        if self.random.percent(50) {
            self.call(node);
        }
        if let Some(proxy) = &mut self.nodes[node].proxy
            && proxy
                .machine
                .next_deadline()
                .is_some_and(|deadline| deadline <= now)
        {
            proxy.machine.handle(Input::Deadline, now);
        }
        self.act(node);
    }

    /// The machines of healthds that are away refuse.
    fn refuse(&mut self, node: usize) {
        let now = self.local(node);
        let others: Vec<usize> = self.others(node).collect();
        for (number, other) in others.into_iter().enumerate() {
            let is_reached = self.reach[node][other] && self.reach[other][node];
            if is_reached
                && self.nodes[other].healthd.is_none()
                && let Some(healthd) = &mut self.nodes[node].healthd
            {
                healthd.members.refused(PeerId(number), now);
            }
        }
    }

    /// lb-proxy says its demand, and hears of its lease.
    fn call(&mut self, node: usize) {
        let now = self.local(node);
        let entry = &mut self.nodes[node];
        let Some(proxy) = &mut entry.proxy else {
            return;
        };
        let lease = match &mut entry.healthd {
            None if now > proxy.heard + TERM => Lease::Unneeded,
            None => return,
            Some(healthd) => {
                proxy.heard = now;
                if let Some(demand) = proxy.demand
                    && demand != Demand::Wait
                {
                    let is_active = proxy.machine.state() == State::Active;
                    let holds_until = match (is_active, proxy.lease) {
                        (true, Lease::Own { until, .. }) => Some(until),
                        (true, Lease::Unneeded | Lease::Awaited) => Some(now + TERM),
                        _ => None,
                    };
                    let demand = lease::Demand {
                        wants: demand != Demand::Drop,
                        preempts: demand == Demand::PREEMPT,
                        priority: proxy.machine.priority(),
                        term: TERM,
                        holds_until,
                        counts_until: now + COUNTS,
                    };
                    healthd.leases.demand(&lease_name(), demand, now);
                }
                lease_of(healthd, proxy.lease, now)
            }
        };
        if lease != proxy.lease {
            self.seen.n_vrrp_alone += usize::from(lease == Lease::Unneeded);
            let is_renewed = proxy.lease.to_string() == lease.to_string();
            proxy.lease = lease;
            proxy.machine.handle(Input::Lease(lease), now);
            if !is_renewed {
                self.note(&format!("node {node}: lease {lease}"));
            }
            self.act(node);
        }
    }

    fn act(&mut self, node: usize) {
        while let Some(proxy) = &mut self.nodes[node].proxy
            && let Some(action) = proxy.machine.poll_action()
        {
            match action {
                Action::Lease(demand) => {
                    let is_left = proxy.demand == Some(Demand::Wait)
                        && matches!(proxy.lease, Lease::Own { .. });
                    self.seen.n_left += usize::from(is_left && demand == Demand::ASK);
                    proxy.demand = Some(demand);
                    self.note(&format!("node {node}: demands {demand:?}"));
                }
                Action::Send { advertisement, .. } => self.advertise(node, &advertisement),
                Action::StateChanged { from, to, reason } => {
                    let reason = reason.to_string();
                    self.seen.n_moves += usize::from(to == State::Active);
                    self.seen.n_lease_ends += usize::from(reason.contains("lease has ended"));
                    self.note(&format!("node {node}: {from} > {to}: {reason}"));
                }
                Action::Stopped => {
                    self.nodes[node].proxy = None;
                    return;
                }
                _ => {}
            }
        }
    }

    //--- The network

    fn send(&mut self, from: usize, to: usize, parcel: Parcel) {
        if !self.reach[from][to] || self.random.percent(self.loss) {
            return;
        }
        self.n_queued += 1;
        let at = self.now + self.random.duration(LATENCY);
        self.queue.insert((at, self.n_queued), (from, to, parcel));
    }

    fn advertise(&mut self, node: usize, advertisement: &Advertisement) {
        let settings = Arc::clone(&self.nodes[node].settings);
        let octets: Arc<[u8]> = advertisement
            .compose(
                settings.authentication,
                settings.checksum,
                source(node),
                GROUP,
            )
            .into();
        for to in self.others(node) {
            self.send(
                node,
                to,
                Parcel::Advertisement(source(node), Arc::clone(&octets)),
            );
        }
    }

    /// An attacker sends each node an advertisement of the highest priority, in the name of another.
    fn forge(&mut self) {
        let settings = Arc::clone(&self.nodes[0].settings);
        let forged = Advertisement {
            version: Version::V3,
            router_id: 51,
            priority: 255,
            interval: INTERVAL,
            addresses: vec![vip()],
        };
        for node in 0..self.nodes.len() {
            let from = self.others(node).next().unwrap();
            let octets = forged.compose(
                settings.authentication,
                settings.checksum,
                source(from),
                GROUP,
            );
            self.receive(node, source(from), &octets);
        }
    }

    fn deliver(&mut self) {
        while let Some(entry) = self.queue.first_entry()
            && entry.key().0 <= self.now
        {
            let (from, to, parcel) = entry.remove();
            let now = self.local(to);
            match parcel {
                Parcel::Advertisement(source, octets) => self.receive(to, source, &octets),
                Parcel::Request(request) => {
                    if let Some(healthd) = &mut self.nodes[to].healthd {
                        let response = healthd.leases.answer(&node_name(from), &request, now);
                        if self.verbose && !request.holds {
                            self.note(&format!("  {to} answers {from}: {:?}", response.answer));
                        }
                        self.send(to, from, Parcel::Response(response));
                    }
                }
                Parcel::Response(response) => {
                    let peer = PeerId(self.others(to).position(|other| other == from).unwrap());
                    if let Some(healthd) = &mut self.nodes[to].healthd {
                        healthd.leases.hear(peer, &response, now);
                    }
                }
                Parcel::Beat => {
                    let peer = PeerId(self.others(to).position(|other| other == from).unwrap());
                    if let Some(healthd) = &mut self.nodes[to].healthd {
                        let stream = healthd.members.begin(peer);
                        let message = Message {
                            sequence: 1,
                            full: true,
                            findings: Vec::new(),
                        };
                        healthd.members.hear(peer, stream, message, now);
                    }
                }
            }
        }
    }

    fn receive(&mut self, node: usize, from: IpAddr, octets: &[u8]) {
        let now = self.local(node);
        let entry = &mut self.nodes[node];
        if entry.paused {
            if entry.buffer.len() < 64 {
                entry.buffer.push((from, octets.into()));
            }
            return;
        }
        if let Some(proxy) = &mut entry.proxy {
            let datagram = Datagram {
                source: from,
                destination: GROUP,
                hop_limit: Some(HOP_LIMIT),
                octets,
            };
            proxy.machine.handle(Input::Datagram(datagram), now);
            self.act(node);
        }
    }

    //--- What happens

    #[expect(
        clippy::too_many_lines,
        reason = "a table of everything that may happen"
    )]
    fn disturb(&mut self) {
        let n_nodes = self.nodes.len();
        let holder = self.active.unwrap_or(0);
        let random = self.random.index(n_nodes);
        let node = if self.random.percent(50) {
            holder
        } else {
            random
        };
        let other = (node + 1 + self.random.index(n_nodes - 1)) % n_nodes;
        let time =
            self.now + Duration::from_millis(200) + self.random.duration(Duration::from_secs(9));
        let what = self.random.below(16);
        self.note(&format!("disturbance {what} of {node}, {other}"));
        self.disturbed = self.now;
        match what {
            0 => {
                self.nodes[node].proxy = None;
                self.nodes[node].proxy_back = Some(time);
            }
            1 => {
                self.nodes[node].paused = self.nodes[node].proxy.is_some();
                self.nodes[node].resumes = Some(time);
            }
            2 => {
                self.nodes[node].healthd = None;
                self.nodes[node].healthd_back = Some(time);
            }
            3 => {
                // Restarted by an upgrade.
                for node in 0..n_nodes {
                    self.nodes[node].healthd = None;
                    self.nodes[node].healthd_back =
                        Some(self.now + self.random.duration(Duration::from_millis(800)));
                }
            }
            4 => {
                for node in 0..n_nodes {
                    self.nodes[node].healthd = None;
                    self.nodes[node].healthd_back = Some(time + self.random.duration(INTERVAL));
                }
            }
            5 => self.reach[node][other] = false,
            6 | 7 => {
                self.reach[node][other] = false;
                self.reach[other][node] = false;
            }
            8 | 9 => {
                for other in 0..n_nodes {
                    self.reach[node][other] = false;
                    self.reach[other][node] = false;
                }
            }
            10 => self.loss = self.random.below(30),
            11 => self.forging = !self.forging,
            12 => {
                let priority = 2 + u8::try_from(self.random.below(249)).unwrap();
                let eligibility = match self.random.below(3) {
                    0 => Eligibility::Unable,
                    1 => Eligibility::Able(1),
                    _ => Eligibility::Able(priority),
                };
                let now = self.local(node);
                self.nodes[node].eligibility = eligibility;
                if !self.nodes[node].paused
                    && let Some(proxy) = &mut self.nodes[node].proxy
                {
                    proxy.machine.handle(Input::Eligibility(eligibility), now);
                    self.act(node);
                }
            }
            13 => {
                // A planned end.
                let now = self.local(node);
                if !self.nodes[node].paused
                    && let Some(proxy) = &mut self.nodes[node].proxy
                {
                    proxy
                        .machine
                        .handle(Input::Shutdown(Departure::HandOver), now);
                    self.act(node);
                }
                self.nodes[node].proxy_back = Some(time);
            }
            _ => {
                self.reach = vec![vec![true; n_nodes]; n_nodes];
                self.loss = 0;
            }
        }
    }

    //--- What holds

    fn check(&mut self) {
        let holders: Vec<usize> = (0..self.nodes.len())
            .filter(|node| self.nodes[*node].holds())
            .collect();
        let n_leased = holders
            .iter()
            .filter(|node| self.nodes[**node].has_lease())
            .count();
        if n_leased > 1 {
            self.fail("two hold the lease");
        }
        for node in 0..self.nodes.len() {
            if self.nodes[node].goes_by_vrrp() {
                self.nodes[node].by_vrrp = self.now;
            }
        }
        let lately = |node: &usize| self.now <= self.nodes[*node].by_vrrp + SETTLED;
        if holders.len() > 1 && !holders.iter().any(lately) {
            self.fail("two are active");
        }
        let is_whole = self.reach.iter().flatten().all(|reach| *reach) && self.loss == 0;
        let two_since = match holders.len() {
            0 | 1 => None,
            _ => Some(self.two_since.unwrap_or(self.now)),
        };
        self.two_since = two_since;
        // One that preempts by advertisements is active before the other has heard it.
        let stay = two_since.is_some_and(|since| self.now > since + 2 * LATENCY);
        if stay && is_whole && self.now > self.disturbed + SETTLED {
            self.fail("two stay active");
        }
        if let [holder] = holders[..]
            && self.active.is_some_and(|before| before != holder)
        {
            let lease = self.nodes[holder].proxy.as_ref().map(|proxy| proxy.lease);
            self.seen.n_preempted += usize::from(matches!(lease, Some(Lease::Own { .. })));
        }
        // A paused or departing router serves clients while its address is not announced elsewhere.
        let serves = (0..self.nodes.len()).any(|node| self.nodes[node].state() == State::Active);
        self.follow_quorums();
        match (serves, self.gap_since) {
            (true, Some(since)) => {
                self.end_gap(since);
                self.gap_since = None;
            }
            (false, None) => self.gap_since = Some(self.now),
            _ => {}
        }
        self.active = holders.first().copied().or(self.active);
        self.check_gap();
    }

    /// Looks which majorities could have a holder.
    fn follow_quorums(&mut self) {
        let nodes = &self.nodes;
        for quorum in &mut self.quorums {
            let members = &quorum.members;
            let is_there = nodes[quorum.candidate].is_able()
                && members.iter().all(|node| nodes[*node].healthd.is_some())
                && members.iter().all(|one| {
                    let mut others = members.iter();
                    others.all(|other| one == other || self.reach[*one][*other])
                });
            let priority = nodes[quorum.candidate].proxy.as_ref();
            let priority = priority.map_or(0, |proxy| proxy.machine.priority());
            quorum.since = match quorum.since {
                _ if !is_there => None,
                Some((since, before)) if before == priority => Some((since, priority)),
                _ => Some((self.now, priority)),
            };
            let started = members.iter().map(|node| nodes[*node].healthd_started);
            quorum.silent = started.max().unwrap_or_default();
            if self.loss > 0 {
                quorum.lossy = Some(self.now);
            }
        }
    }

    /// How long each majority has been without a holder in this gap, and how long it may be.
    fn gaps_of_quorums(&self, began: Duration) -> impl Iterator<Item = (Class, Gap)> {
        self.quorums.iter().filter_map(move |quorum| {
            let (since, priority) = quorum.since?;
            let begin = began.max(since);
            let skew = INTERVAL * (256 - u32::from(priority)) / 256;
            let bound = 3 * INTERVAL + skew;
            let quiet = quorum.silent + QUIET;
            let class = if quorum.lossy.is_some_and(|lossy| begin <= lossy) {
                Class::Lossy
            } else if begin < quiet {
                Class::Silent
            } else {
                Class::Plain
            };
            let silent = bound.max(quiet.saturating_sub(begin) + skew + INTERVAL / 2);
            let bound = match class {
                Class::Plain => bound,
                Class::Silent => silent,
                Class::Lossy => silent + LOSSES,
            };
            let gap = Gap {
                time: self.now.saturating_sub(begin),
                bound,
                seed: self.seed,
                end: self.now,
            };
            Some((class, gap))
        })
    }

    /// Keeps the gap of the majority that was there for the longest.
    fn end_gap(&mut self, began: Duration) {
        let longest = self.gaps_of_quorums(began).max_by_key(|(_, gap)| gap.time);
        if let Some((class, gap)) = longest {
            self.note(&format!("the gap ends: {class:?}, {gap:?}"));
            self.seen.gaps.entry(class).or_default().push(gap);
        }
    }

    fn check_gap(&mut self) {
        let Some(began) = self.gap_since else {
            return;
        };
        let mut gaps = self.gaps_of_quorums(began);
        let late = gaps.find(|(_, gap)| gap.time > gap.bound);
        drop(gaps);
        if let Some((class, gap)) = late {
            self.fail(&format!("no router is active: {class:?}, {gap:?}"));
        }
    }
}

/// Every smallest majority with each of its nodes as the candidate.
fn quorums(n_nodes: usize) -> Vec<Quorum> {
    let sets = (0..1_usize << n_nodes).map(|set| {
        let members = (0..n_nodes).filter(|node| set >> node & 1 == 1);
        members.collect::<Vec<usize>>()
    });
    let majorities = sets.filter(|members| members.len() == n_nodes / 2 + 1);
    let quorums = majorities.flat_map(|members| {
        members.clone().into_iter().map(move |candidate| Quorum {
            members: members.clone(),
            candidate,
            since: None,
            silent: Duration::ZERO,
            lossy: None,
        })
    });
    quorums.collect()
}

/// The lease as lb-proxy takes it from its healthd.
fn lease_of(healthd: &Healthd, known: Lease, now: Instant) -> Lease {
    let state = healthd.leases.state(&lease_name(), now);
    match (healthd.leases.rule(), state) {
        (Rule::FewNodes | Rule::Alone, _) => Lease::Unneeded,
        (_, lease::State::Own { until, preempting }) => Lease::Own { until, preempting },
        (Rule::Joining, _) if matches!(known, Lease::Own { .. }) => known,
        (Rule::Joining, _) => Lease::Awaited,
        (Rule::CutOff, _) => Lease::Withheld,
        (Rule::Leases, lease::State::Other { priority, .. }) => Lease::Other { priority },
        (Rule::Leases, lease::State::Free) => Lease::Free,
    }
}

mod tests;
