//! A world of upstreams that lose, delay, garble and refuse, run from one seed.
//!
//! `World` performs the resolver's outputs as the shell does, with a cache and a clock of its own.
//! `SIM_SEED=17 cargo test -p dns-resolve simulation` replays one seed.

use std::collections::BTreeMap;
use std::time::Duration;

use dns_cache::answer::{self, Asker, Transport, Ttls};
use dns_cache::cache::{Cache, CacheOptions, Capacity, Keep, State};
use dns_cache::key::Variant;
use dns_cache::message::Message;
use dns_cache::testing::{self, Random, Row};
use dns_wire::{Flags, Query, Rcode, Section, Type, header};

use super::*;
use crate::forward::{Fitness, Mode};

pub(super) const SEED: Seed = Seed(99);

/// How an upstream behaves; chances are in percent.
#[derive(Clone, Debug)]
pub(super) struct Behaviour {
    pub(super) presence: Presence,
    pub(super) delay: (u64, u64),
    /// How long probes take, when not as long as queries.
    pub(super) probe_delay: Option<u64>,
    pub(super) loss: u64,
    pub(super) wrong_id: u64,
    pub(super) wrong_question: u64,
    pub(super) truncated: u64,
    pub(super) failing: u64,
    pub(super) rcode: Rcode,
    pub(super) lower_case: bool,
    pub(super) refuses_edns: bool,
    /// Whether its referrals have AA set.
    pub(super) boasts: bool,
    /// Names with this in them get no answer.
    pub(super) deaf_to: Option<&'static str>,
    /// How often it adds records of names that are not its own.
    pub(super) lying: u64,
    /// Its port of TCP, while it is here.
    pub(super) tcp: Presence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Here,
    Silent,
    Closed,
    Unreachable,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            presence: Presence::Here,
            delay: (1, 2),
            probe_delay: None,
            loss: 0,
            wrong_id: 0,
            wrong_question: 0,
            truncated: 0,
            failing: 0,
            rcode: Rcode::SERVFAIL,
            lower_case: false,
            refuses_edns: false,
            boasts: false,
            deaf_to: None,
            lying: 0,
            tcp: Presence::Here,
        }
    }
}

/// What a client got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Got {
    Address(String),
    Denied,
    Stale(String),
    Failed(Reason),
}

enum Event {
    Arrives(ExchangeId, Vec<u8>),
    Lost(ExchangeId, Loss),
}

/// How records are made up for a name: by default one address, derived from the name.
pub(super) type Zone = fn(&str, Type) -> (Rcode, Vec<OwnedRow>);

/// A record made up for a name.
pub(super) type OwnedRow = (Section, String, Type, u32, String);

pub(super) struct World {
    pub(super) now: u64,
    pub(super) resolver: Resolver<u64, Random>,
    pub(super) cache: Cache,
    pub(super) upstreams: BTreeMap<SocketAddr, Behaviour>,
    pub(super) zone: Zone,
    /// Upstreams that have records of their own.
    pub(super) zones: BTreeMap<SocketAddr, Zone>,
    /// When a client asked, what and when it got.
    pub(super) clients: BTreeMap<u64, (u64, Option<(u64, Got)>)>,
    /// What reached each upstream, probes not counted.
    pub(super) asked: BTreeMap<SocketAddr, Vec<String>>,
    pub(super) probed: u64,
    pub(super) health: Vec<(u64, SocketAddr, Fitness)>,
    /// The zones whose upstreams were absent and are back, and since when these were sick.
    pub(super) recovered: Vec<(u64, Name, Instant)>,
    pub(super) loops: u64,
    pub(super) settings: Settings,
    /// The client that asks.
    origin: Option<Origin>,
    random: Random,
    events: BTreeMap<(u64, u64), Event>,
    open: BTreeMap<ExchangeId, SocketAddr>,
    n_events: u64,
}

pub(super) fn address(n: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, n], 53))
}

/// The address that a name has.
pub(super) fn expected(name: &str) -> String {
    let sum: u32 = name.bytes().fold(7, |sum: u32, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    format!("10.0.{}.{}", sum >> 8 & 0xff, sum & 0xff)
}

fn derived(name: &str, _: Type) -> (Rcode, Vec<OwnedRow>) {
    let row = (Section::Answer, name.to_owned(), Type::A, 5, expected(name));
    (Rcode::NOERROR, vec![row])
}

impl World {
    pub(super) fn new(seed: u64, table: Table) -> Self {
        let capacity = Capacity {
            entries: 10_000,
            octets: 10 << 20,
        };
        let options = CacheOptions {
            positive: capacity,
            negative: capacity,
            stale: Duration::from_secs(86_400),
        };
        let upstreams = table
            .routes()
            .flat_map(|route| route.upstreams.clone())
            .map(|upstream| (upstream, Behaviour::default()))
            .collect();
        let now = Instant::START;
        let resolver = Resolver::new(
            Settings::default(),
            Arc::new(table),
            SEED,
            Random(seed),
            now,
        );
        Self {
            now: 0,
            resolver,
            cache: Cache::new(&options, SEED),
            upstreams,
            zone: derived,
            zones: BTreeMap::new(),
            clients: BTreeMap::new(),
            asked: BTreeMap::new(),
            probed: 0,
            health: Vec::new(),
            recovered: Vec::new(),
            loops: 0,
            settings: Settings::default(),
            origin: None,
            random: Random(seed ^ 0x5555),
            events: BTreeMap::new(),
            open: BTreeMap::new(),
            n_events: 0,
        }
    }

    pub(super) fn behave(&mut self, upstream: u8, change: impl FnOnce(&mut Behaviour)) {
        change(self.upstreams.get_mut(&address(upstream)).unwrap());
    }

    /// A reload: other routes.
    pub(super) fn adopt(&mut self, table: Table) {
        let now = self.instant();
        let settings = self.settings;
        self.resolver.reconfigure(settings, Arc::new(table), now);
        self.drain();
    }

    pub(super) fn instant(&self) -> Instant {
        Instant::from_millis(self.now)
    }

    /// A client asks, through the cache as the server does it.
    pub(super) fn ask(&mut self, name: &str) -> u64 {
        self.ask_type(name, Type::A)
    }

    /// Another client asks.
    pub(super) fn ask_from(&mut self, origin: Origin, name: &str) -> u64 {
        self.origin = Some(origin);
        let client = self.ask(name);
        self.origin = None;
        client
    }

    pub(super) fn ask_type(&mut self, name: &str, qtype: Type) -> u64 {
        let client = self.clients.len() as u64;
        self.clients.insert(client, (self.now, None));
        let question = testing::question(name, qtype);
        let key = Key::new(SEED, &question, Variant::default());
        let down = self
            .resolver
            .table
            .find(key.name(), qtype)
            .is_some_and(|route| route.is_down());
        let kept = self.cache.look_up(&key, self.instant(), |found| {
            (found.state, found.message.clone())
        });
        let mut has_stale = false;
        match kept {
            Some((State::Fresh, message)) => {
                self.deliver(client, read(&message));
                return client;
            }
            Some((State::Failed, _)) => {
                self.deliver(client, Got::Failed(Reason::Refused));
                return client;
            }
            Some((State::Ending, message)) => {
                self.deliver(client, read(&message));
                let ask = ResolveRequest {
                    key: &key,
                    question: &question,
                    client: None,
                    origin: None,
                    has_stale: true,
                };
                self.resolver.ask(ask, Instant::from_millis(self.now));
                self.drain();
                return client;
            }
            Some((State::Held, message)) => {
                self.deliver(client, stale(&message));
                return client;
            }
            Some((State::Expired, message)) if down => {
                self.deliver(client, stale(&message));
                return client;
            }
            Some((State::Expired, _)) => has_stale = true,
            None => {}
        }
        let ask = ResolveRequest {
            key: &key,
            question: &question,
            client: Some(client),
            origin: self.origin,
            has_stale,
        };
        self.resolver.ask(ask, Instant::from_millis(self.now));
        self.drain();
        client
    }

    fn deliver(&mut self, client: u64, got: Got) {
        let now = self.now;
        let (_, answer) = self.clients.get_mut(&client).unwrap();
        assert_eq!(*answer, None, "client {client} was answered twice");
        *answer = Some((now, got));
    }

    /// What a client got, and after how long.
    pub(super) fn got(&self, client: u64) -> Option<(u64, Got)> {
        let (asked, answer) = self.clients[&client].clone();
        answer.map(|(at, got)| (at - asked, got))
    }

    pub(super) fn run_for(&mut self, millis: u64) {
        let end = self.now + millis;
        loop {
            // Timers of the system go off late rather than early.
            let timer = self.resolver.next_deadline().map(|at| {
                let micros = at.since(Instant::START).as_micros();
                u64::try_from(micros.div_ceil(1000)).unwrap()
            });
            let event = self.events.keys().next().map(|(at, _)| *at);
            let Some(next) = [timer, event]
                .into_iter()
                .flatten()
                .min()
                .filter(|at| *at <= end)
            else {
                break;
            };
            self.now = self.now.max(next);
            let now = self.instant();
            if event.is_some_and(|at| at <= next) {
                match self.events.pop_first().unwrap().1 {
                    Event::Arrives(x, bytes) if self.open.contains_key(&x) => {
                        self.resolver.received(x, &bytes, now);
                    }
                    Event::Lost(x, loss) if self.open.remove(&x).is_some() => {
                        self.resolver.lost(x, loss, now);
                    }
                    _ => {}
                }
            } else {
                self.resolver.tick(now);
            }
            self.drain();
        }
        self.now = end;
    }

    pub(super) fn drain(&mut self) {
        while let Some(output) = self.resolver.poll_output() {
            self.perform(output);
        }
        self.resolver.check_invariants();
    }

    fn perform(&mut self, output: Output<u64>) {
        let now = self.instant();
        match output {
            Output::Send {
                exchange,
                to,
                protocol,
                message,
            } => {
                self.open.insert(exchange, to);
                self.send(exchange, to, protocol, &message);
            }
            Output::Close(exchange) => {
                self.open.remove(&exchange).unwrap();
            }
            Output::Answer {
                key,
                answer,
                clients,
            } => {
                if answer.lifetime > 0 {
                    let keep = Keep {
                        pool: answer.pool,
                        lifetime: Duration::from_secs(answer.lifetime.into()),
                    };
                    self.cache.store(&key, answer.message.clone(), keep, now);
                }
                for client in clients {
                    self.deliver(client, read(&answer.message));
                }
            }
            Output::Stale { key, clients } => {
                self.fail(&key, Reason::Unanswered, &clients);
            }
            Output::Fail {
                key,
                reason,
                clients,
            } => {
                if reason.is_costly() {
                    let failure = Message::empty(key.question(), Rcode::SERVFAIL);
                    self.cache
                        .note_failure(&key, failure, Duration::from_secs(1), now);
                }
                self.fail(&key, reason, &clients);
            }
            Output::LookUp { flight, key } => {
                let kept = CacheResult::look_up(&self.cache, &key, now);
                self.resolver.looked_up(flight, &key, kept, now);
            }
            Output::Health {
                upstream, change, ..
            } => self.health.push((self.now, upstream, change.to)),
            Output::Recovered { zone, since } => self.recovered.push((self.now, zone, since)),
            Output::Loop { .. } => self.loops += 1,
        }
    }

    fn fail(&mut self, key: &Key, reason: Reason, clients: &[u64]) {
        let kept = self.cache.look_up(key, self.instant(), |found| {
            (found.state != State::Failed).then(|| stale(found.message))
        });
        let got = kept.flatten().unwrap_or(Got::Failed(reason));
        for client in clients {
            self.deliver(*client, got.clone());
        }
    }

    fn send(&mut self, exchange: ExchangeId, to: SocketAddr, protocol: Protocol, message: &[u8]) {
        let query = Query::parse(message).unwrap();
        let (name, _) = Name::from_wire(query.qname).unwrap();
        let name = name.to_string().to_lowercase();
        let behaviour = self.upstreams[&to].clone();
        let (least, most) = behaviour.delay;
        let mut delay = least + self.random.below(most + 1 - least);
        if matches!(query.qtype, Type::NS | Type::SOA) {
            self.probed += 1;
            delay = behaviour.probe_delay.unwrap_or(delay);
        } else {
            self.asked.entry(to).or_default().push(name.clone());
        }
        if behaviour.deaf_to.is_some_and(|part| name.contains(part)) {
            return;
        }
        let event = match (behaviour.presence, protocol) {
            (Presence::Silent, _) => return,
            (Presence::Here, Protocol::Tcp) if behaviour.tcp == Presence::Silent => return,
            (Presence::Closed, _) => Event::Lost(exchange, Loss::Refused),
            (Presence::Unreachable, _) => Event::Lost(exchange, Loss::Unreachable),
            (Presence::Here, Protocol::Tcp) if behaviour.tcp != Presence::Here => {
                Event::Lost(exchange, Loss::Refused)
            }
            (Presence::Here, Protocol::Udp) if self.random.chance(behaviour.loss) => return,
            (Presence::Here, _) => {
                let name = match name.trim_end_matches('.') {
                    "" => ".",
                    name => name,
                };
                let message = self.respond(to, (&behaviour, protocol), name, message);
                Event::Arrives(exchange, message)
            }
        };
        let at = match behaviour.presence {
            Presence::Unreachable => self.now,
            _ => self.now + delay,
        };
        self.n_events += 1;
        self.events.insert((at, self.n_events), event);
    }

    fn respond(
        &mut self,
        at: SocketAddr,
        (how, protocol): (&Behaviour, Protocol),
        name: &str,
        message: &[u8],
    ) -> Vec<u8> {
        let query = Query::parse(message).unwrap();
        if how.refuses_edns && query.edns.is_some() {
            let mut error = message[..12].to_vec();
            error[2..12].copy_from_slice(&[0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
            return error;
        }
        let is_probe = matches!(query.qtype, Type::NS | Type::SOA);
        let udp = protocol == Protocol::Udp;
        let mut response = if !is_probe && self.random.chance(how.failing) {
            testing::response(message, 0, how.rcode, &[])
        } else if udp && self.random.chance(how.truncated) {
            testing::response(message, Flags::TC, Rcode::NOERROR, &[])
        } else {
            let zone = self.zones.get(&at).unwrap_or(&self.zone);
            let (rcode, mut rows) = zone(name, query.qtype);
            if !is_probe && self.random.chance(how.lying) {
                lie(&mut self.random, name, &mut rows);
            }
            let refers = rows.iter().any(|(section, _, rtype, ..)| {
                *section == Section::Authority && *rtype == Type::NS
            });
            let authoritative = if refers && !how.boasts { 0 } else { Flags::AA };
            let rows: Vec<Row<'_>> = rows
                .iter()
                .map(|(section, owner, rtype, ttl, text)| {
                    (*section, &**owner, *rtype, *ttl, &**text)
                })
                .collect();
            testing::response(message, authoritative, rcode, &rows)
        };
        if udp && how.lower_case {
            let end = header::LENGTH + query.qname.len();
            response[header::LENGTH..end].make_ascii_lowercase();
        }
        if udp && self.random.chance(how.wrong_id) {
            response[0] ^= 0x55;
        }
        if udp && self.random.chance(how.wrong_question) {
            response[13] ^= 0x04;
        }
        response
    }
}

/// The address that liars give to names of others.
pub(super) const LIE: &str = "10.66.66.66";

/// Mixes records into an answer that are not the responder's to give: about the name in the other zone of [`live`].
fn lie(random: &mut Random, name: &str, rows: &mut Vec<OwnedRow>) {
    let (host, zone) = name.split_once('.').unwrap_or((name, ""));
    let (other, apex) = match zone {
        "site.example" => (format!("{host}.example"), "example".to_owned()),
        _ => (format!("{host}.site.example"), "site.example".to_owned()),
    };
    let row = |section, owner: &str, rtype, text: &str| {
        (section, owner.to_owned(), rtype, 60, text.to_owned())
    };
    if random.chance(30) {
        *rows = vec![row(Section::Answer, name, Type::CNAME, &other)];
    }
    let lies = [
        row(Section::Answer, &other, Type::A, LIE),
        row(Section::Authority, &apex, Type::NS, name),
        row(Section::Authority, &apex, Type::SOA, "3600"),
        row(Section::Additional, &other, Type::A, LIE),
    ];
    rows.extend(lies.into_iter().filter(|_| random.chance(60)));
    rows.sort_by_key(|row| row.0);
}

/// What a message gives a client, through the same rendering as the server's.
fn read(message: &Message) -> Got {
    let query = testing::query(1, message.question(), None);
    let asker = Asker::new(&Query::parse(&query).unwrap(), Transport::Udp);
    let mut out = [0; 1232];
    let length = answer::send(message, &asker, Ttls::Aged(0), None, &mut out).unwrap();
    match testing::addresses(&out[..length]).into_iter().next() {
        Some(address) => Got::Address(address),
        None => Got::Denied,
    }
}

fn stale(message: &Message) -> Got {
    match read(message) {
        Got::Address(address) => Got::Stale(address),
        other => other,
    }
}

impl<C, E> Resolver<C, E> {
    /// Asserts that every table tells the same story.
    pub(super) fn check_invariants(&self) {
        self.flights.check_questions();
        self.flights.check_shares();
        let mut n_clients = 0;
        let mut n_exchanges = 0;
        for (id, flight) in self.flights.iter() {
            let route = self.table.find(flight.key.name(), flight.key.qtype());
            if flight.is_outdated {
                assert!(
                    !self.flights.is_joined(id),
                    "a client would get an old answer"
                );
            } else if route.is_some_and(|route| Arc::ptr_eq(route, &flight.route)) {
                assert!(self.flights.is_joined(id));
            }
            n_clients += flight.clients.len();
            for exchange in flight.exchanges() {
                n_exchanges += 1;
                let pending = self.exchanges.get(exchange).unwrap();
                assert!(matches!(pending.purpose, Purpose::Flight(owner) if owner == id));
            }
            let armed = flight
                .armed
                .expect("a flight always has something to wait for");
            assert!(self.timers.has(armed, Timer::Flight(id)));
            assert!(flight.depth <= flights::MAX_DEPTH);
            let link = flight.link.as_ref();
            if let Some(awaited) = link.and_then(|link| self.flights.get(link.awaits?)) {
                assert!(
                    awaited.depth > flight.depth,
                    "more lead here than are counted"
                );
                assert!(awaited.awaited_by.contains(&id));
            }
            let waits = flight.exchanges().next().is_some() || flight.link.is_some();
            assert!(waits, "a flight that waits for nothing");
        }
        assert_eq!(n_clients, self.flights.n_clients());
        assert_eq!(
            self.exchanges.len(),
            n_exchanges + self.exchanges.n_probes()
        );
        let flight_timers = self
            .timers
            .iter()
            .filter(|(_, t)| matches!(t, Timer::Flight(_)));
        assert_eq!(flight_timers.count(), self.flights.len());
    }
}

/// One seeded life of a resolver with three upstreams for everything and one for a zone of its own.
fn live(seed: u64) {
    let route = |zone: &str, mode, upstreams: &[u8]| {
        let upstreams = upstreams.iter().map(|n| address(*n)).collect();
        Route::new(Name::parse(zone).unwrap(), mode, upstreams)
    };
    let table = |upstreams: &[u8]| {
        Table::new([
            route(".", Mode::Recursive, upstreams),
            route("site.example", Mode::Authoritative, &[4]),
        ])
    };
    let all = [1, 2, 3];
    let mut world = World::new(seed, table(&all));
    if seed % 2 == 1 {
        // So little room that questions are displaced.
        (world.settings.max_flights, world.settings.max_clients) = (6, 16);
        world.adopt(table(&all));
    }
    let mut random = Random(seed);
    let mut asked: Vec<(u64, String)> = Vec::new();
    for _ in 0..400 {
        if random.chance(15) {
            disturb(&mut world, &mut random);
        }
        if random.chance(2) {
            let used = if random.chance(50) { &all } else { &all[1..] };
            world.adopt(table(used));
        }
        for _ in 0..random.below(4) {
            let zone = if random.chance(40) {
                "site.example"
            } else {
                "example"
            };
            let name = format!("host-{}.{zone}", random.below(25));
            let host = u8::try_from(random.below(3)).unwrap();
            let client = world.ask_from(Origin::of([10, 0, 0, host].into()), &name);
            asked.push((client, name));
        }
        world.run_for(random.below(120));
    }
    world.run_for(4_500);
    for (client, name) in &asked {
        let (_, got) = world.got(*client).unwrap_or_else(|| {
            panic!("client {client} of {name} waits: seed {seed}");
        });
        // A liar may lead to the name in the other zone, but not say where that is.
        let host = name.split('.').next().unwrap();
        let both = ["example", "site.example"].map(|zone| expected(&format!("{host}.{zone}")));
        if let Got::Address(address) | Got::Stale(address) = got {
            assert!(both.contains(&address), "{name} {address}: seed {seed}");
        }
    }
    assert_nothing_foreign(&world, seed);
    // A question may have led to another one just before its deadline, and that one to a third.
    for _ in 0..flights::MAX_DEPTH {
        if world.resolver.n_flights() > 0 {
            world.run_for(4_500);
        }
    }
    assert_eq!(world.resolver.n_flights(), 0, "seed {seed}");
    let counts = world.resolver.counts();
    let bound = u64::from(MAX_SENDS) * world.resolver.flights.n_begun();
    assert!(
        counts.sent <= bound,
        "{} > {bound}: seed {seed}",
        counts.sent
    );
    world.adopt(table(&all));
    recover(&mut world, seed);
}

/// Asserts that each cached answer has only records of the question's chain, and no liar's address.
fn assert_nothing_foreign(world: &World, seed: u64) {
    let lie: [u8; 4] = LIE.parse::<std::net::Ipv4Addr>().unwrap().octets();
    world.cache.visit(world.instant(), |entry| {
        let bytes = entry.message.bytes();
        let (mut name, _) = Name::from_wire(entry.message.question()).unwrap();
        for record in dns_wire::Records::new(bytes).unwrap().map(Result::unwrap) {
            let (owner, _) = Name::read(bytes, record.name_offset).unwrap();
            assert_eq!(record.section, Section::Answer, "{name}: seed {seed}");
            assert_eq!(owner, name, "seed {seed}");
            match record.rtype {
                Type::CNAME => {
                    (name, _) = Name::read(bytes, record.rdata.start).unwrap();
                }
                _ => assert_ne!(bytes[record.rdata], lie, "{name}: seed {seed}"),
            }
        }
    });
}

/// Everything comes back: within a second all names are good again.
fn recover(world: &mut World, seed: u64) {
    for behaviour in world.upstreams.values_mut() {
        *behaviour = Behaviour::default();
    }
    // What was learnt of letter case and the like may take a round of its own.
    world.run_for(1_000);
    let names = ["late.example", "late.site.example"];
    let clients = names.map(|name| world.ask(name));
    world.run_for(500);
    for (client, name) in clients.into_iter().zip(names) {
        let got = world.got(client).map(|(_, got)| got);
        assert_eq!(got, Some(Got::Address(expected(name))), "seed {seed}");
    }
    let absent = world
        .resolver
        .upstreams()
        .find(|u| u.fitness == Fitness::Absent);
    assert_eq!(absent, None, "seed {seed}");
    let probes_before = world.probed;
    world.run_for(5_000);
    assert_eq!(
        world.probed, probes_before,
        "healthy upstreams are probed: seed {seed}"
    );
}

fn disturb(world: &mut World, random: &mut Random) {
    let upstream = u8::try_from(1 + random.below(4)).unwrap();
    let pick = random.below(16);
    let percent = random.below(101);
    if random.below(8) == 0 {
        world.resolver.zone_changed(&Name::root());
    }
    world.behave(upstream, |how| match pick {
        0 => how.presence = Presence::Silent,
        1 => how.presence = Presence::Closed,
        2 => how.presence = Presence::Unreachable,
        3 => (how.delay, how.probe_delay) = ((1, 1 + percent * 10), (percent > 50).then_some(1)),
        4 => how.loss = percent,
        5 => how.wrong_id = percent,
        6 => how.wrong_question = percent,
        7 => how.truncated = percent,
        8 => (how.failing, how.rcode) = (percent, Rcode::SERVFAIL),
        9 => (how.failing, how.rcode) = (percent, Rcode::REFUSED),
        10 => how.lower_case = !how.lower_case,
        11 => how.refuses_edns = !how.refuses_edns,
        12 => how.tcp = Presence::Closed,
        13 => how.tcp = Presence::Silent,
        14 => how.lying = percent,
        _ => *how = Behaviour::default(),
    });
}

#[test]
fn every_client_is_answered_once_whatever_upstreams_do() {
    let seeds = match std::env::var("SIM_SEED") {
        Ok(seed) => {
            let seed = seed.parse().unwrap();
            seed..seed + 1
        }
        Err(_) => 0..256,
    };
    for seed in seeds {
        live(seed);
    }
}
