//! Runs the resolver, with its timers and the sockets to upstreams.
//!
//! ```text
//! UDP threads ─┐ questions                              answers ─► client's own socket
//! TCP thread ──┴──────────────► driver ── outputs ──┬─► cache
//! healthd, reload ─ commands ─►   ▲ ▲               ├─► UDP ports to upstreams
//!                                 │ └── datagrams ──┤
//!                                 │                 └─► connections, pooled; TCP exchanges, a task each
//!                                 └───── events (bounded) ──────┘
//! ```
//!
//! [`dns_resolve::resolver`] decides. A thread that has received a question asks the upstream itself, and the thread that receives
//! the response sends the answer: no thread is woken only to hand something over ([`shared`]).

mod handle;
mod job;
mod observed;
mod shared;

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use daemon::latest::{Latest, Reader};
use daemon::readiness::Readiness;
use daemon::udp::ReturnPath;
use dns_cache::answer::{self, Ttls};
use dns_cache::cache::{Cache, Found, Keep, State};
use dns_cache::instant::Instant;
use dns_cache::key::{self, Key};
use dns_cache::message::{Answer, Message, Pool};
use dns_front::front::{self, Source as From};
use dns_front::local::Local;
use dns_names::{Names, Reply};
use dns_resolve::forward::{Fitness, Protocol, Table};
use dns_resolve::own_addresses::OwnAddresses;
use dns_resolve::ports::PortId;
use dns_resolve::resolver::{
    CacheResult, ExchangeId, Loss, Output, Reason, ResolveRequest, Resolver, Settings,
};
use dns_resolve::upstream_state::Report;
use dns_upstream::{Outcome, Pools};
use dns_validate::Why;
use dns_wire::edns::extended_error;
use dns_wire::{Flags, Name, Rcode};
use parking_lot::Mutex;
use query_watch::{Exchanged, QueryFlags, Seen, Transport, Watch, Watcher};
use rustix::io::Errno;
use tokio::runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::clock::Clock;
use crate::config::{Servers, Source};
use crate::entropy::SystemEntropy;
use crate::totals::{self, Totals};
use crate::upstream::udp::{Arrival, Outgoing, Sockets, Unsent};
use crate::upstream::{self, Event};
pub use handle::{Adopter, Echo, Handle, Notices, Reporter};
pub use job::{Client, Job, ReturnTo, Waiter};
pub use observed::{Latency, Observed};
pub use shared::Questions;

/// The longest delay of published counters while the driver is idle.
const SHOW: Duration = Duration::from_millis(250);
/// The longest time for which the last good answer serves over a denial without another try.
const LONGEST_HOLD: Duration = Duration::from_secs(30);
/// The least time between two log lines about the same loop.
const LOOP_LOG: Duration = Duration::from_secs(60);
/// The least time between two log lines about bogus answers for one name.
const BOGUS_LOG: Duration = Duration::from_secs(60);
/// The most names with bogus answers that are logged in that time.
const MAX_LOGGED: usize = 256;

/// The parts of a driver.
#[derive(Debug)]
pub struct Resources {
    /// The cache.
    pub cache: Arc<Cache>,
    /// The clock of the whole service.
    pub clock: Clock,
    /// The names of the configuration.
    pub names: Arc<Latest<Names>>,
    /// Its counters.
    pub totals: Totals,
    /// Shows queries to operators.
    pub watch: Watch,
    /// Gets the zones without upstreams.
    pub readiness: Readiness,
}

/// The part of a configuration that is about resolving.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The settings of the resolver.
    pub settings: Settings,
    pub table: Arc<Table>,
    /// The names that the server itself answers.
    pub local: Arc<Local>,
    /// Addresses of this server: no referral is followed there.
    pub own_addresses: OwnAddresses,
    /// The settings of stale answers and failures.
    /// How long a failure is remembered, and a stale answer serves without another try.
    pub recheck: Duration,
    /// The TTL of stale answers.
    pub stale_ttl: Duration,
    /// Source addresses of queries.
    pub source: Source,
    /// The upstreams with connections.
    pub servers: Servers,
}

#[derive(Debug)]
enum Command {
    Adopt(Box<Plan>, oneshot::Sender<()>),
    Report {
        upstream: SocketAddr,
        report: Report,
    },
    /// A zone has changed.
    Changed(Name),
    Echo(oneshot::Sender<()>),
    WhenIdle(oneshot::Sender<()>),
    Stop,
}

struct Exchange {
    flow: Flow,
    to: SocketAddr,
    protocol: Protocol,
    /// The upstream; `None` for a server that a referral names. Counters for those would grow without bound.
    upstream: Option<SocketAddr>,
    sent: Instant,
}

/// The transport of an exchange.
enum Flow {
    Udp(PortId),
    /// A task that has a connection.
    Tcp(AbortHandle),
    /// A connection that others use too.
    Pooled,
}

/// A message from an upstream.
enum Inbox {
    /// It has this length in the buffer of the sockets.
    Udp(usize),
    Tcp(Vec<u8>),
}

struct Driver {
    resolver: Resolver<Client, SystemEntropy>,
    resources: Resources,
    plan: Plan,
    names: Reader<Names>,
    counts: Arc<totals::Counts>,
    watcher: Watcher,
    /// The server whose response is being dealt with.
    answering: Option<SocketAddr>,
    sockets: Sockets,
    pools: Pools<Event>,
    exchanges: HashMap<ExchangeId, Exchange>,
    events: mpsc::Sender<Event>,
    seen: Observed,
    /// The flushes of the cache that the resolver knows of.
    flushes: u64,
    observed: Arc<Mutex<Observed>>,
    /// The time of the last look at `seen` for others, and whether that was all of it.
    shown: Instant,
    is_shown: bool,
    /// Runs the tasks of connections.
    runtime: runtime::Handle,
    /// Zones without an upstream that answers.
    down: BTreeSet<String>,
    logged_loops: HashMap<SocketAddr, Instant>,
    /// Names with bogus answers, and when they were last logged.
    logged_bogus: HashMap<Box<[u8]>, Instant>,
    /// Gets a message when no client waits any more.
    idle: Option<oneshot::Sender<()>>,
    out: Vec<u8>,
    outbox: Outbox,
}

/// Datagrams to be sent when the driver is free for other threads: a system call takes longer than the rest.
#[derive(Default)]
struct Outbox {
    queries: Vec<Outgoing>,
    replies: Vec<(ReturnPath, Vec<u8>)>,
}

/// The entry of the cache for a client whose question has no other answer.
enum FoundEntry {
    /// A response of this length, and its source.
    Sent(Option<usize>, From),
    /// A response policy has this in its place.
    Policy(Reply),
    /// A denial of AAAA records, in whose place A records are looked for.
    Denial(Message),
}

impl Driver {
    /// The time of the next [`Self::settle`].
    fn next_deadline(&self) -> Option<Instant> {
        let show = (!self.is_shown).then(|| self.shown.after(SHOW));
        let deadlines = [
            self.resolver.next_deadline(),
            self.sockets.next_deadline(),
            self.pools.next_deadline(),
            show,
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Does what is due.
    fn settle(&mut self, now: Instant) {
        if self.resolver.next_deadline().is_some_and(|at| at <= now) {
            // A response that has come is not late because this process was.
            let mut ready = Vec::new();
            match self.sockets.look(&mut ready) {
                Ok(()) => self.receive(&ready, now),
                Err(error) => tracing::error!(%error, "Cannot look for responses"),
            }
        }
        self.sockets.expire(now);
        self.pools.expire(now);
        self.resolver.tick(now);
        self.drain(now);
        self.take_outcomes(now);
    }

    /// Shows the counters to others, at intervals.
    fn show_at_times(&mut self, now: Instant) {
        self.is_shown = now >= self.shown.after(SHOW / 10);
        if self.is_shown {
            self.shown = now;
            self.show(now);
        }
    }

    /// Whether no client waits any more, as a caller wants to know.
    fn is_idle_at_last(&self) -> bool {
        self.idle.is_some() && self.resolver.n_clients() == 0
    }

    /// Tells the caller that waits for it that no client waits any more.
    fn tell_idle(&mut self) {
        if !self.is_idle_at_last() {
            return;
        }
        let told = self.idle.take().map(|idle| idle.send(()));
        if told == Some(Err(())) {
            tracing::debug!("The caller no longer waits for the resolver to become idle");
        }
    }

    /// Carries out a command; true when the driver must end.
    fn obey(&mut self, command: Command) -> bool {
        let now = self.resources.clock.now();
        match command {
            Command::Stop => return true,
            Command::Adopt(plan, told) => {
                let table = Arc::clone(&plan.table);
                self.resolver.reconfigure(plan.settings, table, now);
                self.resolver.set_own_addresses(plan.own_addresses.clone());
                self.plan = *plan;
                self.pools.adopt(&self.plan.servers);
                self.sockets.renew();
                self.note_routes();
                if told.send(()).is_err() {
                    tracing::debug!("The caller no longer waits for the new configuration");
                }
            }
            Command::Report { upstream, report } => {
                self.resolver.reported(upstream, report, now);
            }
            Command::Changed(zone) => {
                // Before the entries go: answers to later questions stay.
                self.resolver.zone_changed(&zone);
                let n_dropped = self.resources.cache.flush_zone(&zone);
                self.seen.notified += 1;
                tracing::debug!(%zone, n_dropped, "Zone has changed");
            }
            Command::Echo(told) => {
                if told.send(()).is_err() {
                    tracing::debug!("The caller no longer waits for the resolver's answer");
                }
            }
            Command::WhenIdle(told) => self.idle = Some(told),
        }
        false
    }

    fn take(&mut self, job: Job, now: Instant) {
        // Denials are made from answers that were in the cache.
        let flushes = self.resources.cache.n_flushes();
        if self.flushes != flushes {
            self.flushes = flushes;
            self.resolver.forget_denials();
        }
        let key = Key::new(self.resources.cache.seed(), &job.question, job.variant);
        let question = job.question.clone();
        let client = job.waiter.map(|waiter| Client {
            question: job.asked.unwrap_or(job.question),
            waiter,
        });
        self.resolver.ask(
            ResolveRequest {
                key: &key,
                question: &question,
                origin: client.as_ref().and_then(Client::origin),
                client,
                has_stale: job.has_stale,
            },
            now,
        );
        self.drain(now);
    }

    /// Takes one datagram of each of these ports.
    fn receive(&mut self, ready: &[PortId], now: Instant) {
        for port in ready {
            match self.sockets.read(*port) {
                Some(Arrival::Message(exchange, length)) => {
                    self.received(exchange, &Inbox::Udp(length), now);
                }
                Some(Arrival::Strange(exchanges, length)) => {
                    for exchange in exchanges {
                        self.received(exchange, &Inbox::Udp(length), now);
                    }
                }
                Some(Arrival::Lost(exchanges, loss)) => self.all_lost(&exchanges, loss, now),
                None => {}
            }
        }
    }

    /// Takes the queries that lost their socket while another one was sent.
    fn take_lost(&mut self, now: Instant) {
        while let Some((exchanges, loss)) = self.sockets.next_lost() {
            self.all_lost(&exchanges, loss, now);
        }
    }

    fn all_lost(&mut self, exchanges: &[ExchangeId], loss: Loss, now: Instant) {
        for exchange in exchanges {
            self.lost(*exchange, loss, now);
        }
    }

    fn happened(&mut self, event: Event, now: Instant) {
        match event {
            Event::Received(id, message) => self.received(id, &Inbox::Tcp(message), now),
            Event::Lost(id, loss) => self.lost(id, loss, now),
            Event::Connection(report) => {
                self.pools.arrived(report, now);
                self.take_outcomes(now);
            }
        }
    }

    /// Takes what has become of queries over connections.
    fn take_outcomes(&mut self, now: Instant) {
        while let Some(outcome) = self.pools.next_outcome() {
            match outcome {
                Outcome::Received(id, message) => self.received(id, &Inbox::Tcp(message), now),
                Outcome::Lost(id, loss) => self.lost(id, loss, now),
            }
        }
    }

    fn received(&mut self, id: ExchangeId, inbox: &Inbox, now: Instant) {
        let Some(exchange) = self.exchanges.get(&id) else {
            return;
        };
        let message = match inbox {
            Inbox::Udp(length) => self.sockets.inbox().get(..*length).unwrap_or_default(),
            Inbox::Tcp(message) => message,
        };
        if let Some(upstream) = exchange.upstream {
            let rcode = Flags::read(message).unwrap_or_default().rcode();
            let responses = &mut self.seen.responses;
            let latency = responses.entry((upstream, rcode.0)).or_default();
            latency.add(now.since(exchange.sent));
        }
        if self.watcher.wants_upstreams() {
            let exchanged = exchange.exchanged(message);
            self.watcher.received(&exchanged, now.since(exchange.sent));
        }
        self.answering = Some(exchange.to);
        self.resolver.received(id, message, now);
        self.drain(now);
        self.answering = None;
    }

    fn lost(&mut self, id: ExchangeId, loss: Loss, now: Instant) {
        if let Some(exchange) = self.exchanges.remove(&id) {
            self.end(id, &exchange);
            self.count_loss(exchange.upstream);
            self.resolver.lost(id, loss, now);
        }
        self.drain(now);
    }

    /// Frees what an exchange went over.
    fn end(&mut self, id: ExchangeId, exchange: &Exchange) {
        match &exchange.flow {
            Flow::Udp(port) => self.sockets.end(*port, id),
            Flow::Tcp(task) => task.abort(),
            Flow::Pooled => self.pools.end(id),
        }
    }

    fn drain(&mut self, now: Instant) {
        while let Some(output) = self.resolver.poll_output() {
            self.perform(output, now);
        }
    }

    fn perform(&mut self, output: Output<Client>, now: Instant) {
        match output {
            Output::Send {
                exchange,
                to,
                protocol,
                message,
            } => self.send(exchange, to, protocol, message, now),
            Output::Close(id) => {
                if let Some(exchange) = self.exchanges.remove(&id) {
                    self.end(id, &exchange);
                }
            }
            Output::Answer {
                key,
                answer,
                clients,
            } => self.answer(&key, &answer, clients, now),
            Output::Stale { key, clients } => {
                self.fail(&key, Reason::Unanswered, clients, now);
            }
            Output::Fail {
                key,
                reason,
                clients,
            } => {
                if reason.is_costly() {
                    let failure = Message::empty(key.question(), Rcode::SERVFAIL);
                    let said = match reason {
                        Reason::Bogus(why) => why.info_code(),
                        _ => None,
                    };
                    let failure = failure.map(|failure| failure.with_info_code(said));
                    let recheck = self.plan.recheck;
                    self.resources
                        .cache
                        .note_failure(&key, failure, recheck, now);
                }
                if let Reason::Bogus(why) = reason {
                    self.log_bogus(&key, why, now);
                }
                self.fail(&key, reason, clients, now);
            }
            Output::LookUp { flight, key } => {
                let kept = self.look_up(&key, now);
                self.resolver.looked_up(flight, &key, kept, now);
            }
            Output::Health {
                upstream,
                change,
                why,
            } => {
                match change.to {
                    to if to == change.from => {}
                    Fitness::Absent => {
                        *self.seen.absences.entry(upstream).or_default() += 1;
                        let why = why.map(|why| why.to_string());
                        tracing::warn!(%upstream, why, "Upstream does not answer");
                    }
                    Fitness::Good if change.from == Fitness::Absent => {
                        tracing::info!(%upstream, "Upstream answers again");
                    }
                    to => tracing::debug!(%upstream, ?to, "Upstream fitness has changed"),
                }
                self.note_routes();
            }
            Output::Recovered { zone, since } => self.forget_learned(&zone, since),
            Output::Loop { upstream } => self.log_loop(upstream, now),
        }
    }

    /// Drops what names of a zone have got while its upstream was sick.
    fn forget_learned(&mut self, zone: &Name, since: Instant) {
        let table = &self.plan.table;
        let n_dropped = self.resources.cache.forget_learned(since, |message| {
            let question = message.question();
            let name = question.get(..question.len().saturating_sub(4));
            let route = table.find(name.unwrap_or_default(), key::qtype(question));
            route.is_some_and(|route| route.zone == *zone)
        });
        if n_dropped > 0 {
            self.seen.forgotten += u64::try_from(n_dropped).unwrap_or(0);
            tracing::debug!(%zone, n_dropped, "Denials and failures of a sick upstream are dropped");
        }
    }

    /// The answer that this server has to a question of the resolver's own.
    fn look_up(&mut self, key: &Key, now: Instant) -> CacheResult {
        self.names.refresh();
        let names = self.names.get();
        if let Some(message) = names.end_of_chain(key.question(), &self.plan.table) {
            return CacheResult::of_local(message);
        }
        let is_local = self.plan.table.is_local(key.name());
        let local = self.plan.local.answer(key.question());
        match local.filter(|_| is_local) {
            Some(message) => CacheResult::of_local(message),
            None => CacheResult::look_up(&self.resources.cache, key, now),
        }
    }

    //--- Exchanges

    fn send(
        &mut self,
        id: ExchangeId,
        to: SocketAddr,
        protocol: Protocol,
        message: Vec<u8>,
        now: Instant,
    ) {
        let source = self.plan.source;
        let upstream = Some(to).filter(|to| self.resolver.is_upstream(*to));
        if self.watcher.wants_upstreams() {
            self.watcher.asks(&Exchanged {
                to,
                is_forwarder: upstream.is_some(),
                transport: transport(protocol),
                message: &message,
            });
        }
        let flow = match protocol {
            Protocol::Udp => match self.sockets.address(to, source, message, id, now) {
                Ok(outgoing) => {
                    let port = outgoing.port;
                    self.outbox.queries.push(outgoing);
                    Flow::Udp(port)
                }
                Err(Unsent(loss)) => {
                    self.count_loss(upstream);
                    self.resolver.lost(id, loss, now);
                    return;
                }
            },
            Protocol::Tcp if !self.pools.has((to, protocol)) => {
                let asking = upstream::ask_tcp(to, source, message, id, self.events.clone());
                Flow::Tcp(self.runtime.spawn(asking).abort_handle())
            }
            Protocol::Tcp | Protocol::Tls | Protocol::Https | Protocol::Quic => {
                let _inside = self.runtime.enter();
                self.pools.ask((to, protocol), id, message, now);
                Flow::Pooled
            }
        };
        let exchange = Exchange {
            to,
            protocol,
            flow,
            upstream,
            sent: now,
        };
        self.exchanges.insert(id, exchange);
    }

    /// Sends a query again that could not be sent.
    fn send_again(&mut self, outgoing: &Outgoing, error: Errno, now: Instant) {
        if let Err(Unsent(loss)) = self.sockets.send_again(outgoing, error) {
            self.lost(outgoing.exchange, loss, now);
        }
    }

    fn count_loss(&mut self, upstream: Option<SocketAddr>) {
        if let Some(upstream) = upstream {
            *self.seen.losses.entry(upstream).or_default() += 1;
        }
    }

    //--- Clients

    fn answer(&mut self, key: &Key, answer: &Answer, clients: Vec<Client>, now: Instant) {
        if answer.pool == Pool::Negative && self.is_outlasted(key, answer, now) {
            self.seen.outlasted += 1;
            // Sends what is there.
            self.fail(key, Reason::Unanswered, clients, now);
            return;
        }
        if answer.lifetime > 0 {
            let keep = Keep {
                pool: answer.pool,
                lifetime: Duration::from_secs(answer.lifetime.into()),
            };
            // Stored first, so that a client's next query finds it at once.
            let message = answer.message.clone();
            self.resources.cache.store(key, message, keep, now);
        }
        for client in clients {
            if let Some(reply) = self.policy_reply(&client, key, &answer.message) {
                self.forge(client, reply, key, now);
                continue;
            }
            if client.wants_addresses(&answer.message) {
                self.ask_for_addresses(client, key, Some(&answer.message), now);
                continue;
            }
            let asker = client.asker();
            let sent = match client.whole(&answer.message) {
                Some(whole) => answer::send(&whole, &asker, Ttls::Aged(0), None, &mut self.out),
                None => answer::error(&asker, Rcode::SERVFAIL, None, &mut self.out),
            };
            self.deliver(&client, sent, From::Resolver, now);
        }
    }

    /// The reply of a response policy in the place of an answer.
    fn policy_reply(&mut self, client: &Client, key: &Key, answer: &Message) -> Option<Reply> {
        self.names.refresh();
        client.policy_reply(self.names.get(), key, answer)
    }

    /// Answers a client with what a response policy puts in the place of an answer.
    fn forge(&mut self, mut client: Client, reply: Reply, key: &Key, now: Instant) {
        let (first, target) = match reply {
            Reply::Answer(message) => {
                let asker = client.asker();
                let sent = match client.whole(&message) {
                    Some(whole) => answer::send(&whole, &asker, Ttls::Aged(0), None, &mut self.out),
                    None => answer::error(&asker, Rcode::SERVFAIL, None, &mut self.out),
                };
                return self.deliver(&client, sent, From::Policy, now);
            }
            Reply::Truncated => {
                let sent = answer::truncated(&client.asker(), &mut self.out);
                return self.deliver(&client, sent, From::Policy, now);
            }
            Reply::Drop => return client.drop_query(),
            Reply::Alias { first, target } => (first, target),
        };
        if !client.follow(first) {
            let sent = answer::error(&client.asker(), Rcode::SERVFAIL, None, &mut self.out);
            return self.deliver(&client, sent, From::Policy, now);
        }
        let question = front::question_for(&target, key.question());
        let seed = self.resources.cache.seed();
        self.ask_again(client, &Key::new(seed, &question, key.variant()), now);
    }

    /// Whether the last good answer wins over a denial.
    fn is_outlasted(&self, key: &Key, denial: &Answer, now: Instant) -> bool {
        let route = self.plan.table.find(key.name(), key.qtype());
        let most = route.map_or(Duration::ZERO, |route| route.keep_last_good);
        if most.is_zero() {
            return false;
        }
        let lifetime = Duration::from_secs(denial.lifetime.into());
        let hold = lifetime.min(LONGEST_HOLD).max(self.plan.recheck);
        self.resources.cache.outlast(key, most, hold, now)
    }

    /// Asks for the A records in the place of AAAA records that there are none of, for a client behind a NAT64; without a
    /// denial, their question has failed.
    fn ask_for_addresses(
        &mut self,
        mut client: Client,
        key: &Key,
        denial: Option<&Message>,
        now: Instant,
    ) {
        let seed = self.resources.cache.seed();
        let Some(derived) = &mut client.waiter.derived else {
            return;
        };
        let key = derived.ask_for_addresses(key, denial, seed);
        self.ask_again(client, &key, now);
    }

    /// Asks another question for a client.
    fn ask_again(&mut self, client: Client, key: &Key, now: Instant) {
        let state = self.resources.cache.peek(key, now, |entry| entry.state);
        if state.is_some_and(|state| state != State::Expired) {
            // Sends what is there.
            self.fail(key, Reason::Unanswered, vec![client], now);
            return;
        }
        let origin = client.origin();
        self.resolver.ask(
            ResolveRequest {
                key,
                question: key.question(),
                client: Some(client),
                origin,
                has_stale: state.is_some(),
            },
            now,
        );
    }

    /// Sends what the cache has, whether stale or not, or a failure when there is nothing.
    fn fail(&mut self, key: &Key, reason: Reason, clients: Vec<Client>, now: Instant) {
        self.names.refresh();
        for client in clients {
            let stale_ttl = self.plan.stale_ttl;
            let names = self.names.get();
            let out = &mut self.out;
            let kept = self.resources.cache.look_up(key, now, |found| {
                if found.state == State::Failed {
                    return None;
                }
                if let Some(reply) = client.policy_reply(names, key, found.message) {
                    return Some(FoundEntry::Policy(reply));
                }
                if client.wants_addresses(found.message) {
                    return Some(FoundEntry::Denial(found.message.aged(found.age)));
                }
                let asker = client.asker();
                let whole = client.whole(found.message)?;
                Some(match found.state {
                    State::Fresh | State::Ending => {
                        let ttls = Ttls::Aged(found.age);
                        let sent = answer::send(&whole, &asker, ttls, None, out);
                        FoundEntry::Sent(sent, From::Resolver)
                    }
                    _ => {
                        let message = &*whole;
                        let found = Found { message, ..found };
                        FoundEntry::Sent(front::stale(&found, &asker, stale_ttl, out), From::Stale)
                    }
                })
            });
            match kept.flatten() {
                Some(FoundEntry::Denial(denial)) => {
                    self.ask_for_addresses(client, key, Some(&denial), now);
                }
                Some(FoundEntry::Policy(reply)) => self.forge(client, reply, key, now),
                Some(FoundEntry::Sent(length, source)) => {
                    self.deliver(&client, length, source, now);
                }
                None if client.wants_addresses_after(reason) => {
                    self.ask_for_addresses(client, key, None, now);
                }
                None => {
                    let why = extended_error(reason);
                    let asker = client.asker();
                    let sent = answer::error(&asker, Rcode::SERVFAIL, why, &mut self.out);
                    self.deliver(&client, sent, From::Resolver, now);
                }
            }
        }
    }

    fn deliver(&mut self, client: &Client, length: Option<usize>, source: From, now: Instant) {
        let Some(reply) = length.and_then(|length| self.out.get(..length)) else {
            return;
        };
        let waiter = &client.waiter;
        let rcode = Flags::read(reply).unwrap_or_default().rcode();
        let source = client.source(source);
        self.counts.response(source, rcode);
        self.counts.latency(now.since(waiter.asked));
        self.watch(client, reply, source, now);
        match &waiter.to {
            ReturnTo::Datagram(path) => {
                self.outbox.replies.push((path.clone(), reply.to_vec()));
            }
            ReturnTo::Stream(stream) => {
                if stream.try_send(reply.to_vec()).is_err() {
                    tracing::debug!("The client closed its connection before its answer");
                }
            }
        }
    }

    /// Shows the outcome of a query to operators.
    fn watch(&self, client: &Client, reply: &[u8], source: From, now: Instant) {
        let waiter = &client.waiter;
        let Some(peer) = waiter.from else {
            return;
        };
        let seen = Seen {
            peer,
            question: Some(&client.question),
            flags: QueryFlags {
                header: waiter.flags,
                dnssec_ok: waiter.edns.is_some_and(|edns| edns.0),
            },
            response: Some(reply),
            answer: totals::source_name(source),
            is_miss: true,
            upstream: self.answering,
            took: now.since(waiter.asked),
            second: now.as_millis() / 1000,
        };
        let table = &self.plan.table;
        self.watcher.answered(&seen, |name| table.zone_of(name));
    }

    //--- - Views

    fn show(&mut self, now: Instant) {
        self.seen.counts = self.resolver.counts();
        self.seen.n_flights = self.resolver.n_flights();
        self.seen.known = self.resolver.known(now);
        self.seen.upstreams = self.resolver.upstreams().collect();
        self.observed.lock().clone_from(&self.seen);
    }

    /// Logs zones that have lost their last upstream or have one again, and tells readiness.
    fn note_routes(&mut self) {
        let routes = self.plan.table.routes();
        let down: BTreeSet<String> = routes
            .filter(|route| route.is_down())
            .map(|route| route.zone.to_string())
            .collect();
        for zone in down.difference(&self.down) {
            tracing::warn!(
                zone,
                "No upstream of the zone answers: serving stale answers from the cache"
            );
            let reason = Some("no upstream answers".to_owned());
            self.resources
                .readiness
                .set_reason(format!("zone {zone}"), reason);
        }
        for zone in self.down.difference(&down) {
            tracing::info!(zone, "An upstream of the zone answers again");
            self.resources
                .readiness
                .set_reason(format!("zone {zone}"), None);
        }
        self.down = down;
    }

    /// Logs the reason for a bogus answer, each name once in a while.
    fn log_bogus(&mut self, key: &Key, why: Why, now: Instant) {
        if self.logged_bogus.len() >= MAX_LOGGED {
            self.logged_bogus.retain(|_, at| now < at.after(BOGUS_LOG));
        }
        let is_known = self.logged_bogus.contains_key(key.name());
        let last = self.logged_bogus.get(key.name());
        let is_due = last.is_none_or(|last| now >= last.after(BOGUS_LOG));
        if is_due && (is_known || self.logged_bogus.len() < MAX_LOGGED) {
            self.logged_bogus.insert(key.name().into(), now);
            let name = Name::from_wire(key.name()).map(|(name, _)| name.to_string());
            let name = name.unwrap_or_default();
            let rtype = key.qtype();
            tracing::warn!(name, %rtype, reason = %why, "Answer is bogus");
        }
    }

    fn log_loop(&mut self, upstream: SocketAddr, now: Instant) {
        let last = self.logged_loops.get(&upstream).copied();
        if last.is_none_or(|last| now >= last.after(LOOP_LOG)) {
            self.logged_loops.insert(upstream, now);
            tracing::warn!(%upstream, "Forwarding loop: the upstream sends this server's own queries back");
        }
    }
}

impl Exchange {
    const fn exchanged<'m>(&self, message: &'m [u8]) -> Exchanged<'m> {
        Exchanged {
            to: self.to,
            is_forwarder: self.upstream.is_some(),
            transport: transport(self.protocol),
            message,
        }
    }
}

const fn transport(protocol: Protocol) -> Transport {
    match protocol {
        Protocol::Udp => Transport::Udp,
        Protocol::Tcp => Transport::Tcp,
        Protocol::Tls => Transport::Tls,
        Protocol::Https => Transport::Https,
        Protocol::Quic => Transport::Quic,
    }
}

/// The extended error (RFC 8914) for a reason.
const fn extended_error(reason: Reason) -> Option<u16> {
    match reason {
        Reason::Bogus(why) => why.info_code(),
        Reason::NoRoute | Reason::Absent | Reason::Unanswered | Reason::Refused => {
            Some(extended_error::NO_REACHABLE_AUTHORITY)
        }
        Reason::Overload | Reason::Loop | Reason::Chain => None,
    }
}
