//! statime's ordinary clock, with its timers, and what it measures.
//!
//! The machine gets messages with their timestamps and the time, and returns messages to send and the master's time. It never
//! waits, nor reads a clock; statime's clock is the raw clock of the last call, far enough from zero that no correction gets
//! below it.

mod adapter;

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;

use statime::PtpInstance;
use statime::config::{
    AcceptAnyMaster, ClockIdentity, DelayMechanism, InstanceConfig, LeapIndicator, PortConfig,
    PtpMinorVersion, SdoId, TimePropertiesDS, TimeSource,
};
use statime::observability::port::PortState;
use statime::port::{Measurement, Port, PortAction, PortActionIterator, Running, TimestampContext};
use statime::time::{Duration, Interval};

use self::adapter::{Chance, EPOCH, RawClock, Recorded, nanoseconds, offset, span, time};
pub use self::adapter::{Queue, Recorder};
use super::path::Path;
use crate::refclock::{Observation, Observed, Scale};
use random::Random;
use time_model::settings::{PtpDelay, PtpSettings};
use time_model::time::{RawTime, Reading, SECOND, Span, UnixTime};
use time_model::view::{Leap, PtpRole, PtpState, PtpView};

/// Messages that were sent and whose stamps have not come: more only if the card has none to give.
const MOST_SENT: usize = 16;

/// Measurements that were not fetched; each call returns one at most.
const MOST_TOLD: usize = 64;

/// messageType of Announce (table 36).
const ANNOUNCE: u8 = 0xb;

/// `FOREIGN_MASTER_THRESHOLD`: this many Announce messages qualify a master (§9.3.2.4.5).
const QUALIFIED: u8 = 2;

/// Ports whose Announce messages are counted: as many as statime remembers.
const MOST_MASTERS: usize = 8;

/// Without a measurement for so long, nothing is followed any longer; and for so long again it is held over
/// (`holdOverTimeout` of the PTP operator).
const PATIENCE: Span = Span(5 * SECOND);

/// A slave never says of itself what it is worth; slaveOnly (§7.6.2.5).
const SLAVE_ONLY: u8 = 255;

/// The clock of which a [`Machine`] is the port.
pub type Instance = PtpInstance<Recorder>;

/// A clock with an identity, for one port.
#[must_use]
pub fn instance(settings: &PtpSettings, identity: [u8; 8]) -> Instance {
    let config = InstanceConfig {
        clock_identity: ClockIdentity(identity),
        priority_1: 255,
        priority_2: 255,
        domain_number: settings.domain,
        sdo_id: SdoId::default(),
        slave_only: true,
        path_trace: false,
    };
    let properties =
        TimePropertiesDS::new_arbitrary_time(false, false, TimeSource::InternalOscillator);
    PtpInstance::new(config, properties)
}

/// A message to be sent.
#[derive(Debug)]
pub struct Message {
    /// It.
    pub octets: Vec<u8>,
    /// It is stamped, and goes to the port of event messages.
    pub is_event: bool,
    /// It goes to neighbours only.
    pub is_peer: bool,
    /// To be given back with what it can be known by, when it was sent.
    pub context: Option<TimestampContext>,
}

type RunningPort<'a> = Port<'a, Running, AcceptAnyMaster, Chance, RawClock, Recorder>;

/// A port that follows a master.
pub struct Machine<'a> {
    instance: &'a Instance,
    /// Taken only while it works.
    port: Option<RunningPort<'a>>,
    now: Rc<Cell<RawTime>>,
    recorded: Queue,
    timers: Timers,
    /// Announce messages of each port since the last election.
    announced: BTreeMap<[u8; 10], u8>,
    sent: VecDeque<(u32, TimestampContext)>,
    messages: VecDeque<Message>,
    path: Path,
    told: VecDeque<Observation>,
    utc_offset: Option<i32>,
    last: Option<Last>,
    max_offset: f64,
    n_measured: u64,
}

/// The last measurement.
#[derive(Clone, Copy, Debug)]
struct Last {
    at: RawTime,
    /// The master's time in UTC − raw time, where it is known.
    ahead: Option<i64>,
    delay: f64,
}

/// When something is due.
#[derive(Debug)]
struct Timers {
    election: RawTime,
    announce_receipt: Option<RawTime>,
    delay_request: Option<RawTime>,
    filter: Option<RawTime>,
}

impl<'a> Machine<'a> {
    /// A port that listens for a master.
    #[must_use]
    pub fn new(
        instance: &'a Instance,
        settings: &PtpSettings,
        random: Random,
        now: RawTime,
    ) -> Self {
        let recorded = Queue::default();
        let clock = RawClock(Rc::new(Cell::new(now)));
        let time = Rc::clone(&clock.0);
        let interval = Interval::from_log_2(settings.delay_interval);
        let config = PortConfig {
            acceptable_master_list: AcceptAnyMaster,
            delay_mechanism: match settings.delay {
                PtpDelay::EndToEnd => DelayMechanism::E2E { interval },
                PtpDelay::PeerToPeer => DelayMechanism::P2P { interval },
            },
            announce_interval: Interval::from_log_2(settings.announce_interval),
            announce_receipt_timeout: settings.announce_timeout,
            // The messages of masters.
            sync_interval: Interval::ONE_SECOND,
            master_only: false,
            delay_asymmetry: Duration::from_nanos(Span::from_seconds(settings.asymmetry).0),
            minor_ptp_version: PtpMinorVersion::One,
        };
        let port = instance.add_port(config, recorded.clone(), clock, Chance(random));
        let (port, actions) = port.end_bmca();
        let mut machine = Self {
            instance,
            port: None,
            now: time,
            recorded,
            timers: Timers {
                election: now + span(instance.bmca_interval()),
                announce_receipt: None,
                delay_request: None,
                filter: None,
            },
            announced: BTreeMap::new(),
            sent: VecDeque::new(),
            messages: VecDeque::new(),
            path: Path::default(),
            told: VecDeque::new(),
            utc_offset: settings.utc_offset,
            last: None,
            max_offset: 0.0,
            n_measured: 0,
        };
        machine.perform(actions);
        machine.port = Some(port);
        machine
    }

    /// When something is due.
    #[must_use]
    pub fn poll_timeout(&self) -> RawTime {
        let timers = [
            self.timers.announce_receipt,
            self.timers.delay_request,
            self.timers.filter,
        ];
        let timers = timers.into_iter().flatten();
        timers.fold(self.timers.election, RawTime::min)
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: RawTime) {
        self.now.set(now);
        if now >= self.timers.election {
            self.timers.election = now + span(self.instance.bmca_interval());
            if self.may_elect() {
                self.elect();
            }
        }
        if due(&mut self.timers.announce_receipt, now) {
            self.lose();
        }
        if due(&mut self.timers.delay_request, now) {
            self.drive(Port::handle_delay_request_timer);
        }
        if due(&mut self.timers.filter, now) {
            self.drive(Port::handle_filter_update_timer);
        }
    }

    /// A message came to the port of event messages, at `at`.
    pub fn handle_event(&mut self, message: &[u8], at: RawTime, now: RawTime) {
        self.receive(message, now, |port, message| {
            port.handle_event_receive(message, time(at))
        });
    }

    /// A message came to the port of general messages.
    pub fn handle_general(&mut self, message: &[u8], now: RawTime) {
        self.receive(message, now, |port, message| {
            port.handle_general_receive(message)
        });
    }

    fn receive(
        &mut self,
        message: &[u8],
        now: RawTime,
        call: impl for<'p> FnOnce(&'p mut RunningPort<'a>, &'p [u8]) -> PortActionIterator<'p>,
    ) {
        self.now.set(now);
        let source = message.get(20..).and_then(<[u8]>::first_chunk::<10>);
        let own = self.instance.default_ds().clock_identity.0;
        if source.is_some_and(|source| source.starts_with(&own)) {
            // Its own message, returned by the network, or forged.
            return;
        }
        let Some(mut port) = self.port.take() else {
            return;
        };
        // A message that statime ignores, such as one of another domain, changes nothing.
        let is_heard = self.perform(call(&mut port, message));
        self.port = Some(port);
        let is_announce = message.first().is_some_and(|kind| kind & 0xf == ANNOUNCE);
        if let (true, true, Some(source)) = (is_heard, is_announce, source) {
            self.count(*source);
        }
        self.record();
    }

    /// A message of [`Self::poll_transmit`] was sent; its stamp will come under `key`.
    pub fn sent(&mut self, key: u32, context: TimestampContext) {
        if self.sent.len() == MOST_SENT {
            self.sent.pop_front();
        }
        self.sent.push_back((key, context));
    }

    /// The stamp of a message that was sent.
    pub fn handle_sent(&mut self, key: u32, at: RawTime, now: RawTime) {
        self.now.set(now);
        let position = self.sent.iter().position(|(sent, _)| *sent == key);
        if let Some((_, context)) = position.and_then(|position| self.sent.remove(position)) {
            self.drive(|port| port.handle_send_timestamp(context, time(at)));
        }
    }

    /// The next message to be sent.
    pub fn poll_transmit(&mut self) -> Option<Message> {
        self.messages.pop_front()
    }

    /// The next time that the master told.
    pub fn poll_observation(&mut self) -> Option<Observation> {
        self.told.pop_front()
    }

    /// The view for people.
    #[must_use]
    pub fn view(&mut self, clock: usize, settings: &PtpSettings, now: Reading) -> PtpView {
        let parent = self.instance.parent_ds();
        let follows = self.port.as_ref().is_some_and(Port::is_steering);
        let state = match self.last.map(|last| now.raw - last.at) {
            Some(age) if age < PATIENCE && follows => PtpState::Locked,
            Some(age) if age < PATIENCE + PATIENCE => PtpState::Holdover,
            Some(_) | None => PtpState::FreeRun,
        };
        let is_ahead = |last: Last| Some(Span(now.wall.0 - now.raw.0 - last.ahead?).seconds());
        let offset = self.last.and_then(is_ahead);
        self.max_offset = self.max_offset.max(offset.unwrap_or(0.0).abs());
        PtpView {
            clock,
            process: "timesync-agent",
            interface: settings.interface.clone(),
            role: self.role(),
            state,
            offset,
            max_offset: self.max_offset,
            delay: self.last.map(|last| last.delay),
            frequency: self.path.frequency(),
            class: if follows {
                parent.grandmaster_clock_quality.clock_class
            } else {
                SLAVE_ONLY
            },
            grandmaster: follows.then_some(parent.grandmaster_identity.0),
            domain: settings.domain,
            steps_removed: self.instance.current_ds(None).steps_removed,
            utc_offset: self
                .instance
                .time_properties_ds()
                .current_utc_offset
                .map(i32::from),
            n_measured: self.n_measured,
        }
    }

    fn role(&self) -> PtpRole {
        let Some(port) = &self.port else {
            return PtpRole::Unknown;
        };
        match port.port_ds().port_state {
            PortState::Slave | PortState::Uncalibrated => PtpRole::Slave,
            PortState::Master | PortState::PreMaster => PtpRole::Master,
            PortState::Passive => PtpRole::Passive,
            PortState::Faulty | PortState::Disabled => PtpRole::Faulty,
            PortState::Listening => PtpRole::Listening,
            PortState::Initializing => PtpRole::Unknown,
        }
    }

    /// Whether an election can have a result.
    ///
    /// Two Announce messages qualify a master (§9.3.2.5), and statime forgets all but one of them with each election. So while
    /// there is a master, the next election waits until a master has qualified again; an election without one would lose the
    /// master for no other reason than that two intervals do not begin together. The timer of Announce messages notices a lost
    /// master, and so does another that qualifies.
    fn may_elect(&self) -> bool {
        let follows = self.port.as_ref().is_some_and(Port::is_steering);
        !follows || self.announced.values().any(|&n| n >= QUALIFIED)
    }

    /// Counts an Announce message of a port.
    fn count(&mut self, source: [u8; 10]) {
        if self.announced.len() < MOST_MASTERS || self.announced.contains_key(&source) {
            let n = self.announced.entry(source).or_default();
            *n = n.saturating_add(1);
        }
    }

    /// No Announce message came for long.
    fn lose(&mut self) {
        self.drive(Port::handle_announce_receipt_timer);
        // Remembered messages of the lost master would qualify it once more.
        self.elect();
        if self.port.as_ref().is_some_and(Port::is_steering) {
            self.drive(Port::handle_announce_receipt_timer);
        }
    }

    /// The best master (§9.3).
    fn elect(&mut self) {
        let Some(port) = self.port.take() else {
            return;
        };
        self.announced.clear();
        let mut electing = port.start_bmca();
        self.instance.bmca(&mut [&mut electing]);
        let (port, actions) = electing.end_bmca();
        self.perform(actions);
        self.port = Some(port);
        self.record();
    }

    /// Makes a call of the port, and does what it asks for.
    fn drive(
        &mut self,
        call: impl for<'p> FnOnce(&'p mut RunningPort<'a>) -> PortActionIterator<'p>,
    ) {
        if let Some(mut port) = self.port.take() {
            self.perform(call(&mut port));
            self.port = Some(port);
            self.record();
        }
    }

    /// Executes the actions of the port; returns whether it waits for the next Announce message again.
    fn perform(&mut self, actions: PortActionIterator<'_>) -> bool {
        let now = self.now.get();
        let mut waits_anew = false;
        for action in actions {
            match action {
                PortAction::SendEvent {
                    context,
                    data,
                    link_local,
                } => self.messages.push_back(Message {
                    octets: data.to_vec(),
                    is_event: true,
                    is_peer: link_local,
                    context: Some(context),
                }),
                PortAction::SendGeneral { data, link_local } => self.messages.push_back(Message {
                    octets: data.to_vec(),
                    is_event: false,
                    is_peer: link_local,
                    context: None,
                }),
                PortAction::ResetAnnounceReceiptTimer { duration } => {
                    self.timers.announce_receipt = Some(now + span(duration));
                    waits_anew = true;
                }
                PortAction::ResetDelayRequestTimer { duration } => {
                    self.timers.delay_request = Some(now + span(duration));
                }
                PortAction::ResetFilterUpdateTimer { duration } => {
                    self.timers.filter = Some(now + span(duration));
                }
                // Those are of masters, and of clocks with more than one port.
                PortAction::ResetAnnounceTimer { .. }
                | PortAction::ResetSyncTimer { .. }
                | PortAction::ForwardTLV { .. } => {}
            }
        }
        waits_anew
    }

    /// Takes up what statime has measured.
    fn record(&mut self) {
        loop {
            let next = self.recorded.0.borrow_mut().pop_front();
            let Some(recorded) = next else {
                return;
            };
            match recorded {
                Recorded::Reset => self.path.reset(),
                Recorded::Measured(measurement) => self.measured(&measurement),
            }
        }
    }

    fn measured(&mut self, measurement: &Measurement) {
        let at = RawTime(nanoseconds(measurement.event_time).saturating_sub(EPOCH));
        if let Some(delay) = measurement.peer_delay {
            self.path.peer(delay.nanos_lossy());
        }
        if let Some(offset) = measurement.raw_delay_offset.and_then(offset) {
            self.path.delay(at, offset);
        }
        let sync = measurement.raw_sync_offset.and_then(offset);
        let Some(measured) = sync.and_then(|offset| self.path.sync(at, offset)) else {
            return;
        };
        self.n_measured += 1;
        let properties = self.instance.time_properties_ds();
        let scale = scale(&properties, self.utc_offset);
        let time = UnixTime(at.0.saturating_sub(measured.offset));
        let utc = match scale {
            Scale::Configured => Some(0),
            Scale::Tai(offset) => offset,
        };
        self.last = Some(Last {
            at,
            ahead: utc.map(|utc| -measured.offset - i64::from(utc) * SECOND),
            delay: measured.delay,
        });
        if self.told.len() == MOST_TOLD {
            self.told.pop_front();
        }
        self.told.push_back(Observation {
            at: measured.at,
            what: Observed::Time { time, scale },
            dispersion: measured.dispersion,
            leap: match properties.leap_indicator {
                LeapIndicator::NoLeap => Leap::Normal,
                LeapIndicator::Leap61 => Leap::Insert,
                LeapIndicator::Leap59 => Leap::Delete,
            },
        });
    }
}

/// How the master counts seconds (§8.2.4): TAI, or as it likes, which we take for UTC.
fn scale(properties: &TimePropertiesDS, configured: Option<i32>) -> Scale {
    if !properties.ptp_timescale {
        return Scale::Configured;
    }
    Scale::Tai(properties.current_utc_offset.map(i32::from).or(configured))
}

fn due(timer: &mut Option<RawTime>, now: RawTime) -> bool {
    let due = timer.is_some_and(|timer| timer <= now);
    if due {
        *timer = None;
    }
    due
}

impl fmt::Debug for Machine<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Machine")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
