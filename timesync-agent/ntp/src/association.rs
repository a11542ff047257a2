//! NTP client of one server (RFC 5905 §8 and §9.1, RFC 9769 for interleaved mode), or one side of [symmetric mode](peering).
//!
//! ```text
//!   T1 ──── request: random numbers, no time ────► T2      basic: the response has T2 and T3 as the server guessed it
//!   T4 ◄─── response: our number, T2, T3 ───────── T3      interleaved: the next response has T3 as the server measured it
//! ```
//!
//! T1 and T4 are on the raw clock, so that a correction of the wall clock between them does not matter. Never sends, and never
//! reads a clock: [`Association::handle_timeout`] returns the octets, and the caller reports the time of departure.

mod context;
mod measure;
mod peering;
mod poll;
mod request;
#[cfg(test)]
mod tests;
mod tuning;

use std::net::{IpAddr, SocketAddr};

use crate::keys::KeyRing;
use crate::wire::{Message, Mode, Packet, Trailer};
use random::Random;
use time_model::sample::root_distance;
use time_model::settings::{Connectivity, SourceOptions};
use time_model::time::{NtpTimestamp, RawTime, SECOND, UnixTime};
use time_model::view::{Leap, PacketView, SourceView};
use timekeeper::{Sample, Verdict};

use measure::{Measured, Times, is_loop, test};
use peering::Peering;
use poll::Schedule;

pub use context::{Context, RawStamp};
pub use measure::reference_id;
pub use tuning::Tuning;
pub(crate) use tuning::reselected;

/// The longest that a server may take to answer, in seconds; chrony's, and RFC 9769's for interleaved mode.
const LONGEST_SERVICE: f64 = 4.0;
/// The longest root distance that a server may tell (RFC 5905 §7.2, MAXDISP), in seconds.
const LONGEST_DISTANCE: f64 = 16.0;
/// The lowest stratum that is not valid (RFC 5905 §7.2, MAXSTRAT).
const NO_STRATUM: u8 = 16;
/// No clock that was ever set is before this, 2026-01-01: if the own clock is, timestamps are read as from that date on.
const EPOCH: UnixTime = UnixTime(1_767_225_600 * SECOND);

/// Why a datagram is no answer. Nothing is changed by it, and the answer is still waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// It is no packet, or not from a server.
    Malformed,
    /// Nothing was asked.
    Unexpected,
    /// It does not have our random number, or it has no timestamps (tests 1 to 3).
    Bogus,
    /// It is not signed with the key of this source (test 5).
    Unauthenticated,
}

/// The result of a datagram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// Nothing.
    Ignored(Ignored),
    /// It answers the request, and gives a sample unless a test failed. The caller passes the timekeeper's verdict to
    /// [`Association::judge`].
    Answered(Option<Sample>),
    /// The server wants to be asked less or not at all (RFC 5905 §7.4).
    KissOfDeath([u8; 4]),
}

/// How often the timekeeper wants a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollRequest {
    /// Polling interval, as a power of two in seconds.
    pub poll: i8,
    /// Continue a burst.
    pub wants_more: bool,
    /// The last sample contradicts what was known: more of them show soon which is wrong.
    pub is_contradicted: bool,
}

/// Due actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Send this from a socket of its own.
    Request(Vec<u8>),
    /// The request is not answered any more.
    GiveUp,
}

/// One server, as a client sees it.
#[derive(Debug)]
pub struct Association {
    address: SocketAddr,
    options: SourceOptions,
    random: Random,
    schedule: Schedule,
    /// In symmetric mode, the other side.
    peering: Option<Peering>,
    pending: Option<Pending>,
    last: Option<Exchange>,
    /// Requests since the last valid response.
    n_unanswered: u32,
    reach: u8,
    /// Polls in a row that brought nothing to use.
    n_useless: u32,
    /// The shortest round trip so far, in seconds.
    shortest: f64,
    packet: Option<PacketView>,
    /// The last valid response told of an exchange that no sample was taken from before.
    has_measured: bool,
    counters: Counters,
    filtered: Vec<Sample>,
    /// Polls since the first of these that brought no sample.
    n_unfiltered: usize,
}

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug)]
struct Pending {
    /// The timestamps that a basic response repeats.
    transmit: NtpTimestamp,
    /// The timestamps that an interleaved response repeats, if one was requested.
    receive: Option<NtpTimestamp>,
    /// When it left, as far as that is known.
    sent: RawStamp,
    local: Option<IpAddr>,
    /// Until when; that of a peer until the next one.
    until: Option<RawTime>,
}

/// An answered request; interleaved mode needs its times.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    sent: RawStamp,
    /// The server's T2.
    receive: NtpTimestamp,
    /// T3, as the response had it.
    transmit: NtpTimestamp,
    arrived: RawStamp,
    root_delay: f64,
    root_dispersion: f64,
    /// Its sample was taken: the measured T3 comes too late.
    is_used: bool,
}

/// `ntpdata`'s.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    n_sent: u32,
    n_received: u32,
    n_valid: u32,
    n_good: u32,
}

impl Association {
    /// A server that is polled from `start` on, if it is to be online.
    #[must_use]
    pub fn new(address: IpAddr, options: &SourceOptions, random: Random, start: RawTime) -> Self {
        Self::begin(address, options, None, random, start)
    }

    /// A peer: both sides poll each other in symmetric active mode, from `start` on. As with chronyd there are no bursts, which
    /// would upset the polls of the other side, and no interleaved mode.
    #[must_use]
    pub fn peer(address: IpAddr, options: &SourceOptions, random: Random, start: RawTime) -> Self {
        Self::begin(address, options, Some(Peering::default()), random, start)
    }

    fn begin(
        address: IpAddr,
        options: &SourceOptions,
        peering: Option<Peering>,
        mut random: Random,
        start: RawTime,
    ) -> Self {
        let jitter = random.fork();
        let mut schedule = match peering {
            None => Schedule::new(options, jitter),
            Some(_) => Schedule::of_peer(options, jitter),
        };
        if options.connectivity() != Connectivity::Offline {
            schedule.go_online(start);
        }
        Self {
            address: SocketAddr::new(address, options.port),
            options: options.clone(),
            random,
            schedule,
            peering,
            pending: None,
            last: None,
            n_unanswered: 0,
            reach: 0,
            n_useless: 0,
            shortest: f64::INFINITY,
            packet: None,
            has_measured: false,
            counters: Counters::default(),
            filtered: Vec::new(),
            n_unfiltered: 0,
        }
    }

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The polling options.
    #[must_use]
    pub fn options(&self) -> &SourceOptions {
        &self.options
    }

    /// Whether its last response said that it has no time, or that it has it from this node.
    #[must_use]
    pub fn has_no_time(&self) -> bool {
        let needed = test::SYNCHRONISED | test::LOOP;
        let packet = self.packet.as_ref();
        packet.is_some_and(|packet| packet.tests & needed != needed)
    }

    /// Whether its last response told a time that a client may use.
    fn is_usable(&self) -> bool {
        let packet = self.packet.as_ref();
        packet.is_none_or(|packet| packet.tests & test::USABLE == test::USABLE)
    }

    /// The last eight polls, the newest in the lowest bit.
    #[must_use]
    pub fn reach(&self) -> u8 {
        self.reach
    }

    /// Polls in a row that brought nothing to use: no answer, one without time, or a kiss-o'-death.
    #[must_use]
    pub fn n_useless(&self) -> u32 {
        self.n_useless
    }

    /// Whether this is one side of symmetric mode.
    #[must_use]
    pub fn is_peer(&self) -> bool {
        self.peering.is_some()
    }

    /// Whether there ever was a valid response.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.counters.n_valid > 0
    }

    /// Returns whether it is polled.
    #[must_use]
    pub fn is_online(&self) -> bool {
        self.schedule.is_online()
    }

    /// Returns whether a burst is running.
    #[must_use]
    pub fn is_bursting(&self) -> bool {
        self.schedule.is_bursting()
    }

    /// The last valid response.
    #[must_use]
    pub fn packet(&self) -> Option<&PacketView> {
        self.packet.as_ref()
    }

    /// Whether the last valid response brought a measurement; in interleaved mode it may tell of one that was taken already.
    #[must_use]
    pub fn has_measured(&self) -> bool {
        self.has_measured
    }

    /// Polling interval, as a power of two in seconds.
    #[must_use]
    pub fn poll(&self) -> i8 {
        self.schedule.poll()
    }

    //--- Timeouts

    /// When [`Self::handle_timeout`] is to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<RawTime> {
        let wait = self.pending.and_then(|pending| pending.until);
        [self.schedule.next(), wait].into_iter().flatten().min()
    }

    /// Something may be due.
    pub fn handle_timeout(&mut self, context: &Context<'_>) -> Option<Due> {
        let now = context.now.raw;
        if self.schedule.next().is_some_and(|next| next <= now) {
            return self.request(context).map(Due::Request);
        }
        self.pending
            .take_if(|pending| pending.until.is_some_and(|until| until <= now))
            .map(|_| Due::GiveUp)
    }

    /// The request has left, and from where. A better stamp may follow a worse one, until the answer is there.
    pub fn sent(&mut self, stamp: RawStamp, local: Option<IpAddr>) {
        if let Some(pending) = &mut self.pending {
            pending.sent = stamp;
            pending.local = local.or(pending.local);
        }
    }

    /// An answer to the request that is out would be of no use, or there will be none.
    pub fn forget_request(&mut self) {
        self.pending = None;
        if let Some(peering) = &mut self.peering {
            peering.forget();
        }
    }

    /// The request that is out was never sent: the network has no way to the server.
    pub fn failed(&mut self) {
        self.pending = None;
        if self.options.connectivity() == Connectivity::AutoOffline {
            self.schedule.go_offline();
        }
    }

    //--- Answers

    /// A datagram came from the server.
    pub fn handle_response(
        &mut self,
        datagram: &[u8],
        arrived: RawStamp,
        context: &Context<'_>,
    ) -> Outcome {
        self.counters.n_received = self.counters.n_received.saturating_add(1);
        let Ok(message) = Message::parse(datagram) else {
            return Outcome::Ignored(Ignored::Malformed);
        };
        let packet = &message.packet;
        match (packet.mode, self.is_peer()) {
            (Mode::SymmetricActive | Mode::SymmetricPassive, true) => {
                return self.handle_peer(&message, arrived, context);
            }
            (Mode::Server, false) => {}
            _ => return Outcome::Ignored(Ignored::Malformed),
        }
        let Some(pending) = self.pending else {
            return Outcome::Ignored(Ignored::Unexpected);
        };
        let is_interleaved = pending.receive == Some(packet.origin);
        // Tests 1 to 3. A sender that does not see our requests cannot guess the number, and each request has one response.
        if !(is_interleaved || packet.origin == pending.transmit)
            || packet.receive == NtpTimestamp::ZERO
            || packet.transmit == NtpTimestamp::ZERO
            || self.last.is_some_and(|last| last.repeats(packet))
        {
            return Outcome::Ignored(Ignored::Bogus);
        }
        if !self.is_authentic(&message, context.keys) {
            return Outcome::Ignored(Ignored::Unauthenticated);
        }
        self.pending = None;
        self.count_valid();
        if let Some(code) = measure::kiss_code(packet) {
            return self.kissed(code, packet, context);
        }
        let is_ahead = self.schedule.is_ahead();
        let times = self
            .times(packet, &pending, arrived, is_interleaved, context)
            .filter(|_| !is_ahead);
        let sample = self.weigh(&message, &pending, times.as_ref(), context);
        self.last = Some(Exchange {
            sent: pending.sent,
            receive: packet.receive,
            transmit: packet.transmit,
            arrived,
            root_delay: packet.root_delay.seconds(),
            root_dispersion: packet.root_dispersion.seconds(),
            is_used: !is_interleaved && !is_ahead,
        });
        self.plan_after_answer(context.now.raw);
        Outcome::Answered(sample)
    }

    /// A valid response came.
    fn count_valid(&mut self) {
        self.n_unanswered = 0;
        self.counters.n_valid = self.counters.n_valid.saturating_add(1);
    }

    fn plan_after_answer(&mut self, now: RawTime) {
        // A peer that has its time from here needs none of its polls.
        let is_of_use = self.is_usable() && !(self.is_peer() && self.has_no_time());
        match is_of_use {
            true => self.schedule.answered(now),
            false => self.schedule.answered_without_time(now),
        }
    }

    /// A poll is over.
    fn count_poll(&mut self, is_usable: bool) {
        self.reach = (self.reach << 1) | u8::from(is_usable);
        self.n_useless = match is_usable {
            true => 0,
            false => self.n_useless.saturating_add(1),
        };
    }

    fn is_authentic(&self, message: &Message<'_>, keys: &KeyRing) -> bool {
        match (self.options.key, &message.trailer) {
            (None, _) => true,
            (Some(key), Trailer::Mac(mac)) => keys.verify_with(key, mac),
            (Some(_), Trailer::None | Trailer::CryptoNak | Trailer::MsSntp) => false,
        }
    }

    /// RFC 5905 §7.4. It repeats the request, so its sender has seen that.
    fn kissed(&mut self, code: [u8; 4], packet: &Packet, context: &Context<'_>) -> Outcome {
        self.count_poll(false);
        match &code {
            b"RATE" => self.schedule.slow_down(packet.poll, context.now.raw),
            // Any attacker on the path could send it, to cut us off from a server permanently.
            b"DENY" | b"RSTR" if self.options.key.is_some() => self.schedule.go_offline(),
            _ => self.schedule.refused(context.now.raw),
        }
        Outcome::KissOfDeath(code)
    }

    /// The exchange that a response reports; none if its sample was taken when it was less exact.
    fn times(
        &self,
        packet: &Packet,
        pending: &Pending,
        arrived: RawStamp,
        is_interleaved: bool,
        context: &Context<'_>,
    ) -> Option<Times> {
        let pivot = context.now.wall.max(EPOCH);
        let transmit = packet.transmit.near(pivot);
        let (root_delay, root_dispersion) = (
            packet.root_delay.seconds(),
            packet.root_dispersion.seconds(),
        );
        if !is_interleaved {
            return Some(Times {
                sent: pending.sent,
                receive: packet.receive.near(pivot),
                transmit,
                arrived,
                root_delay,
                root_dispersion,
            });
        }
        self.last.filter(|last| !last.is_used).map(|last| Times {
            sent: last.sent,
            receive: last.receive.near(pivot),
            transmit,
            arrived: last.arrived,
            root_delay: root_delay.max(last.root_delay),
            root_dispersion: root_dispersion.max(last.root_dispersion),
        })
    }

    /// Tests 6, 7, A and D, and the sample if all are passed.
    fn weigh(
        &mut self,
        message: &Message<'_>,
        pending: &Pending,
        times: Option<&Times>,
        context: &Context<'_>,
    ) -> Option<Sample> {
        let packet = &message.packet;
        let mut tests = test::VALID | test::DELAY_RATIO | test::DELAY_DEVIATION;
        let mut pass = |bit, passed| {
            if passed {
                tests |= bit;
            }
        };
        pass(
            test::SYNCHRONISED,
            packet.leap != Leap::Unsynchronised && (1..NO_STRATUM).contains(&packet.stratum),
        );
        let distance = root_distance(
            packet.root_delay.seconds(),
            packet.root_dispersion.seconds(),
        );
        pass(test::DISTANCE, distance < LONGEST_DISTANCE);
        pass(test::LOOP, !is_loop(packet, pending.local, context.told));
        let is_peer = self.is_peer();
        let measured = times.map(|times| match is_peer {
            true => Measured::between_peers(times, packet, context),
            false => Measured::of(times, packet, context),
        });
        pass(
            test::DELAY,
            measured.is_none_or(|measured| {
                measured.delay - measured.dispersion <= self.options.max_delay
                    && (is_peer || measured.response_time <= LONGEST_SERVICE)
            }),
        );
        let is_usable = tests & test::USABLE == test::USABLE;
        self.count_poll(is_usable);
        let view = self.describe(message, pending, times, measured, tests, context);
        self.packet = Some(view);
        self.has_measured = measured.is_some();
        let (times, measured) = times.zip(measured)?;
        if tests & test::GOOD != test::GOOD {
            self.count_unfiltered();
            return None;
        }
        // A source with `copy` passes its own source off as this node's.
        let stratum = packet.stratum.saturating_sub(self.options.copy.into());
        self.shortest = self.shortest.min(measured.delay);
        self.schedule.is_near(self.shortest);
        self.filter(Sample {
            at: measured.at,
            ahead: measured.ahead,
            delay: measured.delay,
            dispersion: measured.dispersion,
            root_delay: times.root_delay,
            root_dispersion: times.root_dispersion,
            stratum: stratum.max(self.options.min_stratum),
            leap: packet.leap,
            reference_id: packet.reference_id,
            reference_time: packet.reference_time.near(context.now.wall.max(EPOCH)),
            local_reference_id: pending.local.map_or(0, reference_id),
        })
    }

    fn describe(
        &self,
        message: &Message<'_>,
        pending: &Pending,
        times: Option<&Times>,
        measured: Option<Measured>,
        tests: u16,
        context: &Context<'_>,
    ) -> PacketView {
        let packet = &message.packet;
        // This response gave nothing new; the last measurement is still valid.
        let before = self.packet.unwrap_or_default();
        PacketView {
            port: self.address.port(),
            local_address: pending.local,
            leap: packet.leap,
            version: packet.version,
            mode: packet.mode.bits(),
            stratum: packet.stratum,
            poll: packet.poll,
            precision: packet.precision,
            root_delay: packet.root_delay.seconds(),
            root_dispersion: packet.root_dispersion.seconds(),
            reference_id: packet.reference_id,
            reference_time: if packet.reference_time == NtpTimestamp::ZERO {
                UnixTime(0)
            } else {
                packet.reference_time.near(context.now.wall.max(EPOCH))
            },
            offset: measured.map_or(before.offset, |measured| measured.offset),
            delay: measured.map_or(before.delay, |measured| measured.delay),
            dispersion: measured.map_or(before.dispersion, |measured| measured.dispersion),
            response_time: measured.map_or(before.response_time, |measured| measured.response_time),
            jitter_asymmetry: self.options.asymmetry.unwrap_or_default(),
            tests,
            interleaved: packet.origin != pending.transmit,
            authenticated: self.options.key.is_some(),
            transmit_stamp: times.map_or(before.transmit_stamp, |times| times.sent.by),
            receive_stamp: times.map_or(before.receive_stamp, |times| times.arrived.by),
            ..PacketView::default()
        }
    }

    /// `filter`: the sample with the shortest round trip among this many (RFC 5905 §10), not chronyd's median: queueing on
    /// the path is most of the error of a sample, and half of them queued for longer than the median. A poll without a sample
    /// counts: loss makes no sample come later.
    fn filter(&mut self, sample: Sample) -> Option<Sample> {
        self.filtered.push(sample);
        let n = self.options.filter.unwrap_or(1) as usize;
        if self.filtered.len() + self.n_unfiltered < n {
            return None;
        }
        self.n_unfiltered = 0;
        self.filtered
            .drain(..)
            .min_by(|one, other| one.delay.total_cmp(&other.delay))
    }

    /// A poll brought no sample.
    fn count_unfiltered(&mut self) {
        if !self.filtered.is_empty() {
            self.n_unfiltered = self.n_unfiltered.saturating_add(1);
        }
    }

    /// The timekeeper's verdict on a sample (tests B and C), and its wish for the poll interval.
    pub fn judge(&mut self, verdict: Verdict, wish: PollRequest, now: RawTime) {
        self.schedule.advise(wish.poll);
        let failed = match verdict {
            Verdict::DelayRatio => test::DELAY_RATIO,
            Verdict::DelayDeviation => test::DELAY_DEVIATION,
            _ => 0,
        };
        if let Some(packet) = &mut self.packet {
            packet.tests &= !failed;
        }
        if verdict == Verdict::Good {
            self.counters.n_good = self.counters.n_good.saturating_add(1);
            self.schedule.satisfied(wish, now);
        } else {
            self.schedule.answered(now);
        }
    }

    //--- Commands

    /// Ask from here on.
    pub fn go_online(&mut self, now: RawTime) {
        self.schedule.go_online(now);
    }

    /// Do not ask any more; an answer that is out may still come.
    pub fn go_offline(&mut self) {
        self.schedule.go_offline();
    }

    /// Ask many times in a row, until `good` answers were good or `total` were asked for.
    pub fn burst(&mut self, good: u32, total: u32, now: RawTime) {
        self.schedule.burst(good, total, now);
    }

    /// Other limits of the polling interval. One that goes beyond the other takes it along, as in chrony.
    pub fn limit(&mut self, minpoll: Option<i8>, maxpoll: Option<i8>) {
        let options = &mut self.options;
        if let Some(minpoll) = minpoll {
            options.minpoll = minpoll;
            options.maxpoll = options.maxpoll.max(minpoll);
        }
        if let Some(maxpoll) = maxpoll {
            options.maxpoll = maxpoll;
            options.minpoll = options.minpoll.min(maxpoll);
        }
        self.schedule.limit(options.minpoll, options.maxpoll);
    }

    /// The view for people.
    pub fn show(&self, view: &mut SourceView) {
        view.address = Some(self.address.ip());
        view.reference_id = reference_id(self.address.ip());
        view.poll = self.schedule.poll();
        view.reach = self.reach;
        view.online = self.schedule.is_online();
        view.burst = self.schedule.is_bursting();
        view.packet = self.packet_with_counters();
    }

    fn packet_with_counters(&self) -> Option<PacketView> {
        self.packet.map(|packet| PacketView {
            n_sent: self.counters.n_sent,
            n_received: self.counters.n_received,
            n_valid: self.counters.n_valid,
            n_good: self.counters.n_good,
            ..packet
        })
    }
}

impl Exchange {
    /// A response that says the same again.
    fn repeats(&self, packet: &Packet) -> bool {
        self.receive == packet.receive && self.transmit == packet.transmit
    }
}
