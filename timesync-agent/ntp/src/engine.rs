//! The whole of the client: hosts, associations, reference clocks and the timekeeper, put together.
//!
//! ```text
//!   Resolved ─► pool ─► associations ◄── Datagram, Sent        ReferenceClock
//!                         │ samples ──► timekeeper ◄──────────────┘
//!                         ▼                 ▼
//!               Send, Close, Resolve      Clock(effect)             View, Reference
//! ```
//!
//! Does no I/O: after each call, take [`Engine::poll_output`] until it is empty, and do what it says in that order.

mod command;
mod exchange;
mod show;
#[cfg(test)]
mod tests;

pub use crate::association::Tuning;
pub use exchange::{
    Command, Input, Measurement, Output, Record, ReferenceClockRecord, Reply, SmoothTime, SocketId,
    SourceMatch,
};

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use crate::association::{Association, Context, Due, Outcome, PollRequest, RawStamp, reference_id};
use crate::keys::KeyRing;
use crate::pool::{Change, Pool};
use random::Random;
use time_model::sample::{ClockSample, Stamp};
use time_model::settings::{self, LogFile, LogSettings, RefclockSettings, SelectOptions, Settings};
use time_model::time::{RawTime, Reading, Span};
use time_model::view::{Reason, SourceMode, SourceState, SourceView};
use timekeeper::{
    Drift, Effect, LeapSecond, Reference, Sample, SavedState, SourceId, Timekeeper, Verdict,
    Weighing,
};

/// Precision of a wall clock of which nothing is known, in seconds: that of Linux, read by a process.
const DEFAULT_PRECISION: f64 = 1e-7;
/// The least time between requests to two servers, in seconds, so that their packets do not disturb each other; chrony's.
const SEPARATION: f64 = 0.2;
/// Shorter intervals have room for requests to this many servers.
const SERVERS_AT_LEAST: f64 = 8.0;
/// Bound on the error of a frequency of which nothing is known, in seconds per second: crystals are better.
const UNKNOWN_SKEW: f64 = 100e-6;
/// Polls in a row that brought nothing to use after which a source is to be replaced: the whole reach register.
const UNREACHED: u32 = 8;
/// Samples in a row by which it was a falseticker, too far or too variable, after which it is.
const BAD_SELECTIONS: u32 = 4;
/// Numbers of reference clocks begin here, far above those of servers.
const FIRST_REFCLOCK: u32 = 1 << 31;

/// The client.
#[derive(Debug)]
pub struct Engine {
    random: Random,
    keys: KeyRing,
    /// Precision of the wall clock in seconds: as configured, and as measured.
    given_precision: Option<f64>,
    measured_precision: f64,
    /// Clients may have their time from here.
    is_server: bool,
    /// By how much the wall clock gains on the raw clock, in parts per billion.
    rate: f64,
    defaults: settings::ClientSettings,
    logs: LogSettings,
    pool: Pool,
    members: BTreeMap<SourceId, Member>,
    clocks: Vec<Clock>,
    sockets: BTreeMap<SocketId, SourceId>,
    last_socket: u64,
    /// The last request.
    last_request: Option<LastRequest>,
    timekeeper: Timekeeper,
    outputs: VecDeque<Output>,
}

/// A polled server.
#[derive(Debug)]
struct Member {
    name: String,
    association: Association,
    socket: Option<SocketId>,
    n_bad: u32,
    /// The kiss-o'-death that it answered with last, until it answers with anything else.
    kiss: Option<[u8; 4]>,
}

impl Member {
    /// Its polling interval, in seconds.
    fn interval(&self) -> f64 {
        f64::from(self.association.poll()).exp2()
    }

    /// The least time between a request to it and one to another server, in seconds.
    fn separation(&self) -> f64 {
        SEPARATION.min(self.interval() / SERVERS_AT_LEAST)
    }
}

/// A request to a server.
#[derive(Clone, Copy, Debug)]
struct LastRequest {
    to: SourceId,
    at: RawTime,
    /// The least time before one to another server, in seconds.
    separation: f64,
}

/// A reference clock.
#[derive(Debug)]
struct Clock {
    id: SourceId,
    settings: RefclockSettings,
    reach: u8,
}

impl Engine {
    /// Begins with the frequency that was learned earlier.
    #[must_use]
    pub fn new(
        settings: &Settings,
        keys: KeyRing,
        drift: Option<Drift>,
        random: Random,
        now: Reading,
    ) -> Self {
        let mut engine = Self {
            random,
            keys: KeyRing::new(),
            given_precision: None,
            measured_precision: DEFAULT_PRECISION,
            is_server: false,
            rate: 0.0,
            defaults: settings::ClientSettings::default(),
            logs: LogSettings::default(),
            pool: Pool::default(),
            members: BTreeMap::new(),
            clocks: Vec::new(),
            sockets: BTreeMap::new(),
            last_socket: 0,
            last_request: None,
            timekeeper: Timekeeper::new(settings, drift, now),
            outputs: VecDeque::new(),
        };
        engine.take_up(settings, keys, now);
        engine
    }

    /// Continues from the state of another process, as a timekeeper [does](Timekeeper::inherit).
    pub fn inherit(&mut self, state: &SavedState, now: Reading) -> bool {
        let is_taken = self.timekeeper.inherit(state, now);
        self.settle(now);
        is_taken
    }

    /// Changes the settings. Sources that are in both continue undisturbed.
    pub fn configure(&mut self, settings: &Settings, keys: KeyRing, now: Reading) {
        self.timekeeper.configure(settings, now);
        self.take_up(settings, keys, now);
    }

    fn take_up(&mut self, settings: &Settings, keys: KeyRing, now: Reading) {
        self.keys = keys;
        self.given_precision = settings.clock.precision;
        self.is_server = settings.server.is_open();
        self.defaults = settings.client.clone();
        self.logs = settings.logs.clone();
        self.pool.configure(&settings.sources, now.raw);
        self.set_clocks(&settings.refclocks, now);
        self.settle(now);
    }

    /// The clock is let alone.
    pub fn set_free_running(&mut self, free_running: bool) {
        self.timekeeper.set_free_running(free_running);
    }

    /// Leap seconds that are known.
    pub fn set_leap_table(&mut self, table: &[LeapSecond], now: Reading) {
        self.timekeeper.set_leap_table(table, now);
        self.settle(now);
    }

    /// Other keys.
    pub fn set_keys(&mut self, keys: KeyRing) {
        self.keys = keys;
    }

    /// The measured precision of the wall clock, in seconds. The configured precision overrides it.
    pub fn set_precision(&mut self, precision: f64) {
        self.measured_precision = precision;
    }

    fn precision(&self) -> f64 {
        self.given_precision.unwrap_or(self.measured_precision)
    }

    //--- Events

    /// Something happened.
    pub fn handle(&mut self, input: Input<'_>, now: Reading) {
        match input {
            Input::Datagram {
                socket,
                octets,
                stamp,
            } => self.datagram(socket, octets, stamp, now),
            Input::Sent {
                socket,
                stamp,
                local,
            } => self.sent(socket, stamp, local, now),
            Input::Failed { socket } => self.drop_request(socket, Association::failed),
            Input::Refused { socket } => self.drop_request(socket, Association::forget_request),
            Input::Resolved { name, addresses } => {
                self.pool.resolved(name, addresses, now.raw);
                self.outputs.push_back(Output::Log(Record::Resolved {
                    name: name.to_owned(),
                    n_addresses: addresses.len(),
                }));
            }
            Input::ReferenceClock { index, made } => self.reference_clock(index, made, now),
            Input::Temperature(reading) => {
                self.timekeeper.temper(reading.compensation, now);
                if self.logs.has(LogFile::Tempcomp) {
                    self.outputs
                        .push_back(Output::Log(Record::Temperature(reading)));
                }
            }
        }
        self.settle(now);
    }

    /// When [`Self::handle_timeout`] is to be called.
    #[must_use]
    pub fn poll_timeout(&self, now: Reading) -> Option<RawTime> {
        let members = self.members.iter();
        members
            .filter_map(|(id, member)| self.member_due(*id, member))
            .chain(self.pool.poll_timeout())
            .chain(self.timekeeper.poll_timeout(now))
            .min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Reading) {
        self.pool.handle_timeout(now.raw);
        let mut due: Vec<(RawTime, SourceId)> = self
            .members
            .iter()
            .filter_map(|(id, member)| Some((member.association.poll_timeout()?, *id)))
            .filter(|(at, _)| *at <= now.raw)
            .collect();
        due.sort_unstable();
        for (_, id) in due {
            // A request to one makes the others wait.
            let member = self.members.get(&id);
            let due = member.and_then(|member| self.member_due(id, member));
            if due.is_some_and(|at| at <= now.raw) {
                self.source_due(id, now);
            }
        }
        self.timekeeper.handle_timeout(now);
        self.settle(now);
    }

    /// The next action; call again until there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// A rate that [`Effect::SetRate`] asked for is in force, in parts per billion as the kernel took it.
    pub fn applied(&mut self, parts_per_billion: f64, now: Reading) {
        self.rate = parts_per_billion;
        self.timekeeper.applied(parts_per_billion, now);
    }

    /// That rate.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The temperature is not followed any more.
    pub fn forget_temperature(&mut self, now: Reading) {
        self.timekeeper.temper(0.0, now);
        self.settle(now);
    }

    /// The time for clients.
    #[must_use]
    pub fn reference(&self, now: Reading) -> Reference {
        self.timekeeper.reference(now)
    }

    /// The time of day.
    #[must_use]
    pub fn timekeeper(&self) -> &Timekeeper {
        &self.timekeeper
    }

    //--- Servers

    /// When something is due for a server, some time after the last request to another one.
    fn member_due(&self, id: SourceId, member: &Member) -> Option<RawTime> {
        let timeout = member.association.poll_timeout()?;
        let Some(last) = self.last_request.filter(|last| last.to != id) else {
            return Some(timeout);
        };
        let separation = member.separation().min(last.separation);
        let free = last.at + Span::from_seconds(separation);
        // With more servers than fit into an interval, none waits longer than its own interval.
        let latest = timeout + Span::from_seconds(member.interval());
        Some(timeout.max(free).min(latest))
    }

    fn source_due(&mut self, id: SourceId, now: Reading) {
        let precision = self.precision();
        let told = self.told(id, now);
        let (frequency, skew) = self.frequency();
        let Some(member) = self.members.get_mut(&id) else {
            return;
        };
        let context = Context {
            now,
            rate: self.rate,
            frequency,
            skew,
            precision,
            keys: &self.keys,
            told: told.as_ref(),
        };
        let due = member.association.handle_timeout(&context);
        let to = member.association.address();
        let reach = member.association.reach();
        let n_useless = member.association.n_useless();
        let is_peer = member.association.is_peer();
        match due {
            Some(Due::Request(octets)) => {
                // The address from which the socket of a lost peer sends may not be this node's any more.
                if !is_peer || n_useless >= UNREACHED {
                    self.close(id);
                }
                let socket = self.socket_of(id);
                self.last_request = self.members.get(&id).map(|member| LastRequest {
                    to: id,
                    at: now.raw,
                    separation: member.separation(),
                });
                self.outputs.push_back(Output::Send {
                    socket,
                    to,
                    is_peer,
                    octets,
                });
            }
            Some(Due::GiveUp) | None => self.close(id),
        }
        self.timekeeper.reached(id, reach, now);
        if n_useless >= UNREACHED {
            self.pool.complain(id, now.raw);
        }
    }

    /// The open socket of a server, or the number of a new one.
    fn socket_of(&mut self, id: SourceId) -> SocketId {
        let next = SocketId(self.last_socket + 1);
        let Some(member) = self.members.get_mut(&id) else {
            return next;
        };
        let socket = *member.socket.get_or_insert(next);
        if socket == next {
            self.last_socket = next.0;
            self.sockets.insert(socket, id);
        }
        socket
    }

    /// The time for clients, if one may ask this node. A peer gets it in any case.
    fn told(&self, id: SourceId, now: Reading) -> Option<Reference> {
        let member = self.members.get(&id);
        let is_peer = member.is_some_and(|member| member.association.is_peer());
        (self.is_server || is_peer).then(|| self.timekeeper.reference(now))
    }

    /// The learned frequency of the wall clock against the raw one, in parts per billion, and its uncertainty in seconds per second.
    fn frequency(&self) -> (f64, f64) {
        let drift = self.timekeeper.drift();
        let skew = drift.map_or(UNKNOWN_SKEW, |drift| drift.skew * 1e-6);
        (self.timekeeper.frequency() * 1e9, skew.min(UNKNOWN_SKEW))
    }

    fn sent(&mut self, socket: SocketId, stamp: Stamp, local: Option<IpAddr>, now: Reading) {
        let stamp = self.raw(stamp, now);
        if let Some(member) = self.member_of(socket) {
            member.association.sent(stamp, local);
        }
    }

    /// There will be no answer.
    fn drop_request(&mut self, socket: SocketId, tell: fn(&mut Association)) {
        let Some(id) = self.sockets.get(&socket).copied() else {
            return;
        };
        if let Some(member) = self.members.get_mut(&id) {
            tell(&mut member.association);
        }
        self.end_request(id);
    }

    fn datagram(&mut self, socket: SocketId, octets: &[u8], stamp: Stamp, now: Reading) {
        let precision = self.precision();
        let arrived = self.raw(stamp, now);
        let Some(id) = self.sockets.get(&socket).copied() else {
            return;
        };
        let told = self.told(id, now);
        let (frequency, skew) = self.frequency();
        let Some(member) = self.members.get_mut(&id) else {
            return;
        };
        let context = Context {
            now,
            rate: self.rate,
            frequency,
            skew,
            precision,
            keys: &self.keys,
            told: told.as_ref(),
        };
        let outcome = member
            .association
            .handle_response(octets, arrived, &context);
        let reach = member.association.reach();
        let has_no_time = member.association.has_no_time();
        let address = member.association.address().ip();
        let kissed = match outcome {
            // Another host may have sent it: the answer can still come.
            Outcome::Ignored(_) => return,
            Outcome::KissOfDeath(code) => Some(code),
            Outcome::Answered(_) => None,
        };
        let before = std::mem::replace(&mut member.kiss, kissed);
        match outcome {
            Outcome::KissOfDeath(code) if before != kissed => self
                .outputs
                .push_back(Output::Log(Record::KissOfDeath { address, code })),
            Outcome::Answered(sample) => {
                // A source without time is not selectable.
                if reach & 1 != 0 {
                    self.pool.confirm(id);
                }
                self.timekeeper.reached(id, reach, now);
                if let Some(sample) = sample {
                    self.take(id, sample, now);
                } else if has_no_time {
                    self.timekeeper.withdraw(id, now);
                }
                self.record_measurement(id, now);
            }
            // The log has this kiss already.
            Outcome::KissOfDeath(_) | Outcome::Ignored(_) => {}
        }
        self.end_request(id);
    }

    /// A sample of a server.
    fn take(&mut self, id: SourceId, sample: Sample, now: Reading) {
        let verdict = self.timekeeper.sample(id, sample, now);
        let wish = PollRequest {
            poll: self.timekeeper.advise_poll(id),
            wants_more: self.timekeeper.wants_more(id),
            is_contradicted: self.timekeeper.is_contradicted(id),
        };
        let mut view = SourceView::default();
        self.timekeeper.source(id, now, &mut view);
        if let Some(member) = self.members.get_mut(&id) {
            member.association.judge(verdict, wish, now.raw);
            let is_far = matches!(
                view.selection.reason,
                Reason::Distance | Reason::Jitter | Reason::Impossible
            );
            member.n_bad = if is_far || view.state == SourceState::Falseticker {
                member.n_bad + 1
            } else {
                0
            };
            if member.n_bad >= BAD_SELECTIONS {
                member.n_bad = 0;
                self.pool.complain(id, now.raw);
            }
        }
        if verdict == Verdict::Good {
            self.record_update(id, now);
        }
    }

    fn raw(&self, stamp: Stamp, now: Reading) -> RawStamp {
        let (frequency, skew) = self.frequency();
        let context = Context {
            now,
            rate: self.rate,
            frequency,
            skew,
            precision: self.precision(),
            keys: &self.keys,
            told: None,
        };
        RawStamp {
            at: stamp.raw.unwrap_or_else(|| context.raw(stamp.wall)),
            by: stamp.by,
            error: stamp.error,
        }
    }

    fn member_of(&mut self, socket: SocketId) -> Option<&mut Member> {
        let id = self.sockets.get(&socket)?;
        self.members.get_mut(id)
    }

    /// A request is answered, or will not be. The socket of a peer stays: the next packet of the other side comes when that likes.
    fn end_request(&mut self, id: SourceId) {
        let member = self.members.get(&id);
        if member.is_none_or(|member| !member.association.is_peer()) {
            self.close(id);
        }
    }

    fn close(&mut self, id: SourceId) {
        let Some(member) = self.members.get_mut(&id) else {
            return;
        };
        if let Some(socket) = member.socket.take() {
            self.sockets.remove(&socket);
            self.outputs.push_back(Output::Close(socket));
        }
    }

    //--- Reference clocks

    fn set_clocks(&mut self, refclocks: &[RefclockSettings], now: Reading) {
        let unchanged = self.clocks.len() == refclocks.len()
            && self
                .clocks
                .iter()
                .zip(refclocks)
                .all(|(clock, settings)| clock.settings == *settings);
        if unchanged {
            return;
        }
        for clock in std::mem::take(&mut self.clocks) {
            self.timekeeper.remove_source(clock.id, now);
        }
        for (id, settings) in (FIRST_REFCLOCK..).map(SourceId).zip(refclocks) {
            let options = self.clock_options(settings);
            self.timekeeper
                .add_source(id, settings.reference_id, options);
            self.clocks.push(Clock {
                id,
                settings: settings.clone(),
                reach: 0,
            });
        }
    }

    fn reference_clock(&mut self, index: usize, made: Option<ClockSample>, now: Reading) {
        let Some(clock) = self.clocks.get_mut(index) else {
            return;
        };
        clock.reach = (clock.reach << 1) | u8::from(made.is_some());
        let id = clock.id;
        self.timekeeper.reached(id, clock.reach, now);
        let Some(made) = made else {
            return;
        };
        self.record_reference_clock(&made, now);
        let sample = Sample {
            at: made.at,
            ahead: made.ahead,
            delay: made.delay,
            dispersion: made.dispersion + made.precision,
            root_delay: 0.0,
            root_dispersion: 0.0,
            stratum: made.stratum,
            leap: made.leap,
            reference_id: made.reference_id,
            reference_time: now.wall,
            local_reference_id: 0,
        };
        if self.timekeeper.sample(id, sample, now) == Verdict::Good {
            self.record_update(id, now);
        }
    }

    //--- Consequences

    /// Does what the pool decided, and passes on what the timekeeper did.
    fn settle(&mut self, now: Reading) {
        while let Some(change) = self.pool.poll_change() {
            match change {
                Change::Resolve(name) => self.outputs.push_back(Output::Resolve(name)),
                Change::Add {
                    id,
                    name,
                    address,
                    is_peer,
                    options,
                } => self.add(id, name, (address, is_peer), &options, now),
                Change::Replaced { name, old, new } => {
                    let record = Record::Replaced { name, old, new };
                    self.outputs.push_back(Output::Log(record));
                }
                Change::Remove(id) => {
                    self.close(id);
                    self.members.remove(&id);
                    self.timekeeper.remove_source(id, now);
                }
            }
        }
        while let Some(effect) = self.timekeeper.poll_effect() {
            if matches!(effect, Effect::Step(_)) {
                self.forget_requests();
            }
            self.outputs.push_back(Output::Clock(effect));
        }
    }

    /// Requests that are out when the clock is stepped: their stamps are of the time before.
    fn forget_requests(&mut self) {
        let out: Vec<SourceId> = self.sockets.values().copied().collect();
        for id in out {
            if let Some(member) = self.members.get_mut(&id) {
                member.association.forget_request();
            }
            self.end_request(id);
        }
    }

    fn add(
        &mut self,
        id: SourceId,
        name: String,
        (address, is_peer): (IpAddr, bool),
        options: &settings::SourceOptions,
        now: Reading,
    ) {
        let random = self.random.fork();
        let weighed = self.server_options(options, is_peer);
        self.timekeeper
            .add_source(id, reference_id(address), weighed);
        let member = Member {
            name,
            association: match is_peer {
                true => Association::peer(address, options, random, now.raw),
                false => Association::new(address, options, random, now.raw),
            },
            socket: None,
            n_bad: 0,
            kiss: None,
        };
        self.members.insert(id, member);
    }

    fn server_options(&self, options: &settings::SourceOptions, is_peer: bool) -> Weighing {
        Weighing {
            mode: match is_peer {
                true => SourceMode::Peer,
                false => SourceMode::Server,
            },
            select: options.select(),
            authenticated: options.key.is_some(),
            minpoll: options.minpoll,
            maxpoll: options.maxpoll,
            polltarget: options.polltarget,
            max_delay_ratio: options.max_delay_ratio,
            max_delay_quantile: options.max_delay_quantile,
            min_delay: options.min_delay,
            asymmetry: options.asymmetry,
            offset: options.offset,
            max_samples: options.max_samples.or(self.defaults.max_samples),
            stratum: 0,
            copy: options.copy,
        }
    }

    fn clock_options(&self, settings: &RefclockSettings) -> Weighing {
        let options = &settings.options;
        Weighing {
            mode: SourceMode::ReferenceClock,
            select: SelectOptions {
                // It is steady and not right: no client may take the time from it.
                noselect: options.noselect || options.local,
                ..options.select()
            },
            minpoll: options.poll,
            maxpoll: options.poll,
            // The offset is in the sample already.
            offset: 0.0,
            max_samples: options.max_samples.or(self.defaults.max_samples),
            // So is the stratum.
            ..Weighing::default()
        }
    }
}
