//! The loop: waits, hands what happened to the engine, and does what the engine says.

mod commands;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use daemon::latest::Latest;
use daemon::run::Heartbeat;

use crate::resolver::Resolver;
use crate::state_file::StateFile;
use crate::system::clock::{self, Clock};
use crate::system::socket::{self, Departure, Socket};
use crate::system::timer::{Timer, Waker};
use crate::system::{self, Events};
use crate::thermometer::Thermometer;
use clock_drivers::Clocks;
use clocks::nic::{Exchange, Ready};
use clocks::refclock::Context;
use ntp::engine::{Engine, Input, Output, SocketId};
use ntp::responder::{LONGEST_ANSWER, asks};
use ntp::wire::LONGEST_PACKET;
use time_model::labels;
use time_model::sample::{Stamp, root_distance};
use time_model::settings::{HardwareStamps, RefclockSettings, Settings};
use time_model::time::{RawTime, Reading, SECOND, Span};
use time_model::view::{ClockState, View};
use timekeeper::Effect;

use super::answer::{Answerer, Listeners};
use super::file_writer::FileWriter;
use super::leaps::Leaps;
use super::nics::{Direction, Nics};
use super::report::Reporter;
use super::{AgentError, Parts, Request, Seen};

/// The longest interval between two published views while the time is on the move. Checks of the clock for changes by other
/// programs are no closer together.
const PUBLISH: Span = Span(SECOND);
/// The same at rest: longer than most polling intervals, so that it costs no wake-up between two polls. A client that asks
/// gets a view of the moment.
const REST: Span = Span(256 * SECOND);
/// The longest interval between two published references of a clock that is left alone: another program corrects it unseen.
const SERVE_UNCORRECTED: Span = Span(2 * SECOND);
/// Datagrams that are taken from one socket before others have their turn.
const AT_ONCE: usize = 16;

/// The thread.
pub(super) struct Run {
    engine: Engine,
    clock: Clock,
    sockets: BTreeMap<SocketId, Asking>,
    socket_options: SocketOptions,
    timer: Timer,
    waker: Arc<Waker>,
    requests: Receiver<Request>,
    resolver: Resolver,
    clocks: Clocks,
    refclocks: Vec<RefclockSettings>,
    cards: Nics,
    hardware_stamps: Vec<HardwareStamps>,
    /// Answers those who ask a socket of the loop.
    answerer: Option<Answerer>,
    /// The sockets that clients ask, if the loop answers all of them.
    listeners: Option<Listeners>,
    file_writer: FileWriter,
    leaps: Leaps,
    thermometer: Thermometer,
    reporter: Reporter,
    views: Arc<Latest<View>>,
    leaves: Option<StateFile>,
    heartbeat: Heartbeat,
    stop: Arc<AtomicBool>,
    /// The caller looks at each turn, which has to come within [`PUBLISH`].
    is_watched: bool,
    /// Clients may ask for the time.
    is_serving: bool,
    published: Option<Published>,
    /// Something happened since.
    has_changed: bool,
}

/// The last publication.
#[derive(Clone, Copy, Debug)]
struct Published {
    view: RawTime,
    reference: RawTime,
    state: ClockState,
}

/// The socket of a request, and what is known of when it left.
#[derive(Debug)]
struct Asking {
    socket: Socket,
    /// The other side.
    to: SocketAddr,
    is_peer: bool,
    /// It has the port that clients ask: those at the address and port of the other side reach no other socket.
    takes_requests: bool,
    sent: Stamp,
    exchange: Exchange,
}

impl Run {
    /// Opens what the loop waits for.
    pub(super) fn open(parts: Parts) -> Result<Self, AgentError> {
        let Parts {
            engine,
            clock,
            settings,
            options,
            requests,
            waker,
            heartbeat,
            stop,
            random,
            resolver,
            file_writer,
            leaps,
            thermometer,
        } = parts;
        let now = clock::read();
        let cards = Nics::open(&settings.client.hardware_stamps, now);
        let has_clients = settings.server.is_open() || !options.inherited.is_empty();
        let listeners = match (options.answers_all, has_clients) {
            (true, true) => Some(Listeners::open(&settings.server, options.inherited)?),
            (true, false) => Some(Listeners::default()),
            (false, _) => None,
        };
        let answerer = options.supply.map(|supply| Answerer::new(supply, random));
        let mut run = Self {
            engine,
            clock,
            sockets: BTreeMap::new(),
            socket_options: SocketOptions::new(&settings, &cards),
            timer: Timer::new().map_err(super::system("make a timer"))?,
            resolver,
            waker,
            requests,
            clocks: open_clocks(&settings.refclocks, now),
            refclocks: settings.refclocks.clone(),
            cards,
            hardware_stamps: settings.client.hardware_stamps,
            answerer,
            listeners,
            file_writer,
            leaps,
            thermometer,
            reporter: Reporter::default(),
            views: options.views,
            leaves: options.leaves,
            heartbeat,
            stop,
            is_watched: false,
            is_serving: settings.server.is_open(),
            published: None,
            has_changed: false,
        };
        let rate = run.clock.rate().map_err(AgentError::Clock)?;
        run.engine.applied(rate, now);
        Ok(run)
    }

    /// Keeps the time until it is stopped.
    pub(super) fn until_stopped(&mut self) -> Result<(), AgentError> {
        self.keep(|_| None::<()>).map(drop)
    }

    /// Keeps the time until `end` returns something.
    pub(super) fn until<T>(
        &mut self,
        end: impl FnMut(&Seen<'_>) -> Option<T>,
    ) -> Result<Option<T>, AgentError> {
        self.is_watched = true;
        self.keep(end)
    }

    fn keep<T>(
        &mut self,
        end: impl FnMut(&Seen<'_>) -> Option<T>,
    ) -> Result<Option<T>, AgentError> {
        let ended = self.turns(end);
        let left = self.leave();
        // The first error says more than the errors that follow it.
        ended.and_then(|ended| left.map(|()| ended))
    }

    fn turns<T>(
        &mut self,
        mut end: impl FnMut(&Seen<'_>) -> Option<T>,
    ) -> Result<Option<T>, AgentError> {
        let mut ended = None;
        while ended.is_none() && !self.stop.load(Ordering::Acquire) {
            let now = self.turn()?;
            ended = end(&Seen {
                engine: &self.engine,
                now,
            });
            if ended.is_none() {
                self.sleep(now)?;
            }
        }
        Ok(ended)
    }

    /// Keeps what was learned, whatever the end was.
    fn leave(&mut self) -> Result<(), AgentError> {
        let mut left = Ok(());
        let state = self.engine.timekeeper().saved_state(clock::read());
        if let Some((file, state)) = self.leaves.take().zip(state) {
            self.file_writer.leave(file, state);
        }
        if let Some(drift) = self.engine.timekeeper().drift() {
            self.file_writer.save(drift);
            // No process will end the current slew: let the clock run with its frequency alone.
            let frequency = self.engine.timekeeper().frequency();
            let set = self.clock.set_rate(frequency * 1e9);
            left = set.map(drop).map_err(AgentError::Clock);
        }
        self.file_writer.finish();
        left
    }

    /// Handles the timeouts, and the actions that follow from them.
    fn turn(&mut self) -> Result<Reading, AgentError> {
        self.heartbeat.beat();
        let now = clock::read();
        let is_due = |timeout: Option<RawTime>| timeout.is_some_and(|at| at <= now.raw);
        if is_due(self.clocks.poll_timeout()) {
            let context = self.context(now);
            for output in self.clocks.handle_timeout(&context, now) {
                let input = Input::ReferenceClock {
                    index: output.clock,
                    made: output.sample,
                };
                self.engine.handle(input, now);
            }
            self.has_changed = true;
        }
        if is_due(self.cards.poll_timeout()) {
            self.cards.handle_timeout(now);
        }
        if is_due(self.next_ready()) {
            let ids: Vec<SocketId> = self.sockets.keys().copied().collect();
            ids.into_iter().for_each(|id| self.pass_on(id));
        }
        if is_due(self.engine.poll_timeout(now)) {
            self.engine.handle_timeout(now);
        }
        self.perform()?;
        let now = clock::read();
        let is_stale = self
            .published
            .is_none_or(|published| now.raw - published.view >= PUBLISH);
        if is_stale {
            self.clock.look().map_err(AgentError::Clock)?;
            if !self.clock.corrects() {
                // The program that corrects the clock changes its rate.
                let rate = self.clock.rate().map_err(AgentError::Clock)?;
                self.engine.applied(rate, now);
            }
        }
        let has_changed = self.has_changed
            || self
                .published
                .is_none_or(|published| published.state != self.state(now));
        if has_changed || self.view_due().is_none_or(|at| at <= now.raw) {
            self.publish(now);
        } else if self.reference_due().is_some_and(|at| at <= now.raw) {
            self.serve(now);
        }
        Ok(now)
    }

    fn state(&self, now: Reading) -> ClockState {
        self.engine.timekeeper().state(now)
    }

    /// When the next view is to be published, if nothing happens before; at once if there is none yet.
    fn view_due(&self) -> Option<RawTime> {
        let published = self.published?;
        let is_moving = published.state == ClockState::Syncing
            || self.engine.timekeeper().is_smoothing(published.view);
        let interval = if is_moving || self.is_watched {
            PUBLISH
        } else {
            REST
        };
        Some(published.view + interval)
    }

    /// The same of the time for clients, where it has to come more often than the view.
    fn reference_due(&self) -> Option<RawTime> {
        let published = self.published?;
        let is_wanted = self.is_serving && !self.clock.corrects();
        is_wanted.then(|| published.reference + SERVE_UNCORRECTED)
    }

    /// Tells clients the time from here on.
    fn serve(&mut self, now: Reading) {
        if let Some(published) = &mut self.published {
            published.reference = now.raw;
        }
        if let Some(answerer) = &mut self.answerer {
            answerer.tell(self.engine.reference(now));
        }
    }

    fn publish(&mut self, now: Reading) {
        self.published = Some(Published {
            view: now.raw,
            reference: now.raw,
            state: self.state(now),
        });
        self.has_changed = false;
        self.serve(now);
        let view = self.engine.view(self.clocks.ptp().collect(), now);
        self.reporter.state(&view);
        self.views.publish(view);
    }

    /// The time as reference clocks need it.
    fn context(&self, now: Reading) -> Context {
        let timekeeper = self.engine.timekeeper();
        let is_known = matches!(
            timekeeper.state(now),
            ClockState::Locked | ClockState::Syncing
        );
        let estimate = timekeeper.time_at(now.raw).filter(|_| is_known);
        let tracking = timekeeper.tracking(now);
        Context {
            rate: self.engine.rate(),
            tai_offset: timekeeper.tai_offset(now.wall),
            estimate: estimate.map(|time| {
                let ahead = time.0.saturating_sub(now.raw.0);
                let distance = root_distance(tracking.root_delay, tracking.root_dispersion);
                (ahead, distance)
            }),
            leap_passed: timekeeper.leap_passed(),
        }
    }

    //--- Outputs

    /// Does what the engine says, in its order, until it says nothing more.
    fn perform(&mut self) -> Result<(), AgentError> {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Send {
                    socket,
                    to,
                    is_peer,
                    octets,
                } => {
                    let opened = match self.sockets.remove(&socket) {
                        Some(asking) => Ok(asking),
                        None => self.asking(to, is_peer),
                    };
                    match opened {
                        Ok(asking) => self.send(socket, asking, &octets),
                        Err(error) => {
                            tracing::debug!(%to, %error, "There is no way to a source");
                            self.fail(socket);
                        }
                    }
                }
                Output::Close(socket) => drop(self.sockets.remove(&socket)),
                Output::Resolve(name) => self.resolver.ask(name),
                Output::Clock(effect) => {
                    self.has_changed = true;
                    self.correct(effect)?;
                }
                Output::Log(record) => {
                    self.has_changed = true;
                    self.reporter.record(&record);
                    self.file_writer.record(&record, clock::wall());
                }
            }
        }
        Ok(())
    }

    fn asking(&self, to: SocketAddr, is_peer: bool) -> io::Result<Asking> {
        Ok(Asking {
            socket: Socket::open(to, self.socket_options.of(is_peer))?,
            to,
            is_peer,
            takes_requests: self.socket_options.take_requests(is_peer),
            sent: Stamp::default(),
            exchange: Exchange::default(),
        })
    }

    fn send(&mut self, id: SocketId, asking: Asking, octets: &[u8]) {
        match asking.socket.send(octets) {
            Ok(stamp) => {
                let local = asking.socket.local_address();
                let asking = Asking {
                    sent: stamp,
                    exchange: Exchange::default(),
                    ..asking
                };
                let input = Input::Sent {
                    socket: id,
                    stamp,
                    local,
                };
                self.sockets.insert(id, asking);
                self.engine.handle(input, clock::read());
            }
            Err(error) => {
                tracing::debug!(%error, "A request cannot be sent");
                self.fail(id);
            }
        }
    }

    fn fail(&mut self, socket: SocketId) {
        self.engine.handle(Input::Failed { socket }, clock::read());
    }

    fn correct(&mut self, effect: Effect) -> Result<(), AgentError> {
        match effect {
            Effect::SetRate(wanted) => {
                let rate = self.clock.set_rate(wanted).map_err(AgentError::Clock)?;
                self.engine.applied(rate, clock::read());
            }
            Effect::Step(span) => {
                self.clock.step(span).map_err(AgentError::Clock)?;
                if let Some(answerer) = &self.answerer {
                    answerer.forget_stamps();
                }
            }
            Effect::SetStatus(status) => {
                self.clock.set_status(&status).map_err(AgentError::Clock)?;
            }
            Effect::SaveDrift(drift) => self.file_writer.save(drift),
            Effect::Note(note) => self.reporter.note(note, &self.engine),
            Effect::GiveUp(span) => return Err(AgentError::GivenUp(span)),
        }
        Ok(())
    }

    //--- Inputs

    /// Waits for something to happen, and hands it on.
    fn sleep(&mut self, now: Reading) -> Result<(), AgentError> {
        let timeouts = [
            self.engine.poll_timeout(now),
            self.clocks.poll_timeout(),
            self.cards.poll_timeout(),
            self.next_ready(),
            self.reference_due(),
        ];
        let until_view = self.view_due().map_or(Span(0), |at| at - now.raw);
        let timeout = timeouts
            .into_iter()
            .flatten()
            .map(|at| at - now.raw)
            .fold(until_view, Ord::min);
        self.timer
            .set(on_monotonic_clock(timeout, self.engine.rate()))
            .map_err(super::system("set a timer"))?;
        let mut descriptors: Vec<(RawFd, Events)> = Vec::new();
        let mut wait_for = |descriptor| descriptors.push((descriptor, Events::default()));
        wait_for(self.timer.descriptor());
        wait_for(self.waker.descriptor());
        let clocks: Vec<usize> = self
            .clocks
            .descriptors()
            .map(|(clock, descriptor)| {
                wait_for(descriptor);
                clock
            })
            .collect();
        let ids: Vec<SocketId> = self.sockets.keys().copied().collect();
        for asking in self.sockets.values() {
            wait_for(asking.socket.descriptor());
        }
        if let Some(listeners) = &self.listeners {
            listeners.descriptors().for_each(wait_for);
        }
        self.heartbeat.rest();
        system::wait(&mut descriptors).map_err(super::system("wait"))?;
        let mut events = descriptors.into_iter().map(|(_, events)| events);
        let mut next = || events.next().unwrap_or_default();
        if next().readable {
            self.timer.clear();
        }
        let is_woken = next().readable;
        for clock in clocks {
            self.reference_clock(clock, next());
        }
        // After the clocks: with other settings they may be others.
        if is_woken {
            self.waker.clear();
            self.awake();
            self.has_changed = true;
        }
        for id in ids {
            let events = next();
            if events.readable || events.error {
                self.socket(id, events);
            }
        }
        if let (Some(listeners), Some(answerer)) = (&mut self.listeners, &mut self.answerer) {
            events.enumerate().for_each(|(place, events)| {
                listeners.handle(place, events, answerer);
            });
        }
        Ok(())
    }

    /// A reference clock has something to read, or an error.
    fn reference_clock(&mut self, clock: usize, events: Events) {
        if events.readable {
            let context = self.context(clock::read());
            self.clocks.handle_readable(clock, &context);
        } else if events.error {
            // Its device is gone: no wait would be one any more.
            tracing::error!(
                clock,
                "A reference clock has failed, and is not read any more"
            );
            self.clocks.close(clock);
        }
    }

    /// A socket has an answer, a stamp or an error.
    fn socket(&mut self, id: SocketId, events: Events) {
        let Some(asking) = self.sockets.get_mut(&id) else {
            return;
        };
        // First: an answer is of more worth once it is known when the request left.
        if events.error && asking.look(&mut self.cards) {
            let input = Input::Sent {
                socket: id,
                stamp: asking.sent,
                local: None,
            };
            self.engine.handle(input, clock::read());
        }
        let mut buffer = [0; LONGEST_PACKET + 1];
        for _ in 0..AT_ONCE {
            self.pass_on(id);
            let Some(asking) = self.sockets.get_mut(&id) else {
                return;
            };
            let arrival = match asking.socket.receive(&mut buffer) {
                Ok(Some(arrival)) => arrival,
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(%error, "A request was refused");
                    if events.error {
                        let input = Input::Refused { socket: id };
                        self.engine.handle(input, clock::read());
                    }
                    return;
                }
            };
            let octets = buffer.get(..arrival.length).unwrap_or_default();
            if asking.takes_requests && asks(octets, asking.to, asking.is_peer) {
                if let Some(answerer) = &mut self.answerer {
                    asking.answer(octets, &arrival.stamp, answerer);
                }
                continue;
            }
            let by_card = arrival
                .card
                .and_then(|stamp| self.cards.stamp(&stamp, Direction::In, &arrival.stamp));
            let now = clock::read();
            let ready = asking
                .exchange
                .arrived(octets, arrival.stamp, by_card, now.raw);
            if let Some(ready) = ready {
                self.answered(id, &ready);
            }
        }
    }

    /// When an answer has waited long enough for what a card says of its request.
    fn next_ready(&self) -> Option<RawTime> {
        let asking = self.sockets.values();
        asking.filter_map(|one| one.exchange.poll_timeout()).min()
    }

    /// Tells the engine of answers that waited.
    fn pass_on(&mut self, id: SocketId) {
        let now = clock::read();
        while let Some(asking) = self.sockets.get_mut(&id)
            && let Some(ready) = asking.exchange.poll_ready(now.raw)
        {
            self.answered(id, &ready);
        }
    }

    fn answered(&mut self, socket: SocketId, ready: &Ready) {
        if let Some(stamp) = ready.sent {
            let input = Input::Sent {
                socket,
                stamp,
                local: None,
            };
            self.engine.handle(input, clock::read());
        }
        let input = Input::Datagram {
            socket,
            octets: &ready.octets,
            stamp: ready.arrived,
        };
        self.engine.handle(input, clock::read());
        self.has_changed = true;
    }
}

impl Asking {
    /// Answers a request of the other side. It is a client then, as any.
    fn answer(&self, request: &[u8], arrived: &Stamp, answerer: &mut Answerer) {
        let mut answer = [0; LONGEST_ANSWER];
        let answered = answerer.answer(request, self.to, arrived, &mut answer);
        let octets = answered.and_then(|(length, _)| answer.get(..length));
        if let Some(Err(error)) = octets.map(|octets| self.socket.answer(octets)) {
            tracing::debug!(to = %self.to, %error, "An answer cannot be sent");
        }
    }

    /// Takes what the kernel or the card says of when the request left; true if it is the kernel. While the other has something
    /// to say, `poll` reports the socket again.
    fn look(&mut self, cards: &mut Nics) -> bool {
        match self.socket.sent() {
            Some(Departure::Kernel(stamp)) => {
                self.sent = stamp;
                true
            }
            Some(Departure::Card(stamp)) => {
                if let Some(stamp) = cards.stamp(&stamp, Direction::Out, &self.sent) {
                    self.exchange.sent(stamp);
                }
                false
            }
            None => false,
        }
    }
}

/// A span of the raw clock on the monotonic one, which the timer runs by and which gains this many parts per billion: a slew changes
/// its rate, too. Else the end of a slew by 1 s at a twelfth is noticed up to a second late, and the clock is 80 ms beyond it.
fn on_monotonic_clock(span: Span, rate: f64) -> Span {
    span + Span::from_seconds(span.seconds() * rate * 1e-9)
}

/// How sockets are made.
#[derive(Debug)]
struct SocketOptions {
    client: socket::Options,
    peer: socket::Options,
    /// The port that clients ask.
    asked: u16,
}

impl SocketOptions {
    fn new(settings: &Settings, cards: &Nics) -> Self {
        let (client, server) = (&settings.client, &settings.server);
        Self {
            client: socket::Options::from(client).with_cards(cards.is_any()),
            peer: socket::Options::from((client, server)).with_cards(cards.is_any()),
            asked: server.port,
        }
    }

    fn of(&self, is_peer: bool) -> &socket::Options {
        match is_peer {
            true => &self.peer,
            false => &self.client,
        }
    }

    /// Whether requests of clients come to such sockets.
    fn take_requests(&self, is_peer: bool) -> bool {
        self.asked != 0 && self.of(is_peer).port() == self.asked
    }
}

/// Opens reference clocks; logs those that fail to open.
fn open_clocks(refclocks: &[RefclockSettings], now: Reading) -> Clocks {
    let (clocks, failures) = Clocks::open(refclocks, now, system::seed);
    for failure in failures {
        let clock = failure.clock;
        tracing::error!(clock, error = %failure.error, "Cannot open a reference clock");
    }
    clocks
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let view = self.engine.view(Vec::new(), clock::read());
        f.debug_struct("Run")
            .field("summary", &labels::summary(&view))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_as_long_as_the_clock_that_it_runs_by() {
        let twelve = Span(12 * SECOND);
        assert_eq!(on_monotonic_clock(twelve, 0.0), twelve);
        // maxslewrate, forwards and back.
        assert_eq!(on_monotonic_clock(twelve, -1e9 / 12.0), Span(11 * SECOND));
        assert_eq!(on_monotonic_clock(twelve, 1e9 / 12.0), Span(13 * SECOND));
    }
}
