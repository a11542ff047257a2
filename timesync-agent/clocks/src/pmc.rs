//! Management messages of PTP (IEEE 1588-2008 clause 15), as ptp4l answers them on its Unix socket.
//!
//! Only GET requests are made, so the read-only socket (`/var/run/ptp4lro`) is enough. [`Client`] puts the answers together; it
//! never opens a socket nor reads a clock.

mod data_set;
mod message;

use std::collections::BTreeMap;

use time_model::time::UnixTime;
use time_model::view::{Leap, PtpRole, PtpState, PtpView};

pub use data_set::{
    ClockQuality, CurrentDataSet, DefaultDataSet, ParentDataSet, PortDataSet, PortIdentity,
    PortProperties, PortState, TimeProperties, TimeStatus,
};
pub use message::{Answer, Id, NoAnswer, parse, request};

/// The longest message that is read: ptp4l's own limit.
pub const LONGEST: usize = 1500;

/// Ports that are remembered; a boundary clock has fewer.
const MOST_PORTS: usize = 64;

/// Rounds of requests without an answer after which nothing is known any longer.
const SILENCE: u32 = 4;

/// Rounds for which a grandmaster that is gone is held over: five seconds, asked once a second, as the PTP operator has it.
const HOLDOVER: u32 = 5;

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// When, on the wall clock.
    pub local: UnixTime,
    /// The time of the master, in UTC, at that moment.
    pub master: UnixTime,
    /// Leap second at hand.
    pub leap: Leap,
}

/// The combined state of one ptp4l.
#[derive(Debug)]
pub struct Client {
    identity: PortIdentity,
    domain: u8,
    sequence: u16,
    /// Rounds of requests since the last answer.
    silent: u32,
    default: Option<DefaultDataSet>,
    current: Option<CurrentDataSet>,
    parent: Option<ParentDataSet>,
    properties: Option<TimeProperties>,
    status: Option<TimeStatus>,
    ports: BTreeMap<u16, (PortState, Option<PortProperties>)>,
    max_offset: f64,
    n_measured: u64,
    /// Rounds of requests since a grandmaster was followed, if ever.
    lost: Option<u32>,
}

impl Client {
    /// The requests of each round; the measurement is last, so that it is understood when it comes.
    pub const WANTED: [Id; 7] = [
        Id::Default,
        Id::Parent,
        Id::TimeProperties,
        Id::Port,
        Id::PortProperties,
        Id::Current,
        Id::TimeStatus,
    ];

    /// A client that knows nothing yet.
    #[must_use]
    pub fn new(domain: u8) -> Self {
        Self {
            // An identity that no clock has: it is in no message to others.
            identity: PortIdentity::default(),
            domain,
            sequence: 0,
            silent: 0,
            default: None,
            current: None,
            parent: None,
            properties: None,
            status: None,
            ports: BTreeMap::new(),
            max_offset: 0.0,
            n_measured: 0,
            lost: None,
        }
    }

    /// Returns whether no answer came for some rounds; true once in a number of rounds.
    #[must_use]
    pub const fn is_unheard(&self) -> bool {
        self.silent > 0 && self.silent.is_multiple_of(SILENCE)
    }

    /// A request. A round of them without an answer ages the known values.
    pub fn request(&mut self, id: Id) -> Vec<u8> {
        if id == Self::WANTED[0] {
            self.silent = self.silent.saturating_add(1);
            self.lost = self.lost.map(|lost| lost.saturating_add(1));
            if self.silent > SILENCE {
                self.forget();
            }
        }
        self.sequence = self.sequence.wrapping_add(1);
        request(id, self.domain, self.identity, self.sequence)
    }

    fn forget(&mut self) {
        (self.default, self.current, self.parent) = (None, None, None);
        (self.properties, self.status) = (None, None);
        self.ports.clear();
    }

    /// Takes up an answer; gives what was measured, if that is news.
    pub fn handle(&mut self, datagram: &[u8]) -> Option<Measured> {
        let (_, answer) = parse(datagram).ok()?;
        self.silent = 0;
        match answer {
            Answer::Default(set) => self.default = Some(set),
            Answer::Current(set) => self.current = Some(set),
            Answer::Parent(set) => self.parent = Some(set),
            Answer::TimeProperties(set) => self.properties = Some(set),
            Answer::Port(set) => self.port(set.identity.port, set.state, None),
            Answer::PortProperties(set) => self.port(set.identity.port, set.state, Some(set)),
            Answer::TimeStatus(status) => return self.measured(status),
        }
        None
    }

    fn port(&mut self, number: u16, state: PortState, properties: Option<PortProperties>) {
        if self.ports.len() >= MOST_PORTS && !self.ports.contains_key(&number) {
            return;
        }
        let port = self.ports.entry(number).or_default();
        port.0 = state;
        if properties.is_some() {
            port.1 = properties;
        }
    }

    fn measured(&mut self, status: TimeStatus) -> Option<Measured> {
        let before = self.status.replace(status);
        if !status.present || before.is_some_and(|before| before.ingress == status.ingress) {
            return None;
        }
        // By the card's clock it says nothing about ours.
        let slave = self.slave()?;
        if !slave.1.as_ref()?.software {
            return None;
        }
        let leap = self.properties.map_or(Leap::Normal, |set| set.leap);
        self.n_measured += 1;
        self.lost = Some(0);
        let offset = seconds(status.offset).abs();
        self.max_offset = self.max_offset.max(offset);
        let local = UnixTime(status.ingress);
        Some(Measured {
            local,
            // ptp4l has made UTC of it: its clock is the wall clock, which keeps UTC.
            master: UnixTime(status.ingress.saturating_sub(status.offset)),
            leap,
        })
    }

    /// The port that has a master.
    fn slave(&self) -> Option<&(PortState, Option<PortProperties>)> {
        let mut ports = self.ports.values();
        ports.find(|(state, _)| matches!(state, PortState::Slave | PortState::Uncalibrated))
    }

    /// TAI − UTC of the grandmaster, in seconds; a hardware clock that ptp4l sets needs it.
    #[must_use]
    pub fn utc_offset(&self) -> Option<i32> {
        let valid = |set: &TimeProperties| set.utc_offset_valid;
        let set = self.properties.filter(valid)?;
        Some(set.utc_offset.into())
    }

    /// The view for people. `clock` is its place among the reference clocks.
    #[must_use]
    pub fn view(&self, clock: usize) -> PtpView {
        let slave = self.slave();
        let port = slave.or_else(|| self.ports.values().next());
        let follows = slave.is_some() && self.status.is_some_and(|status| status.present);
        let state = match self.lost {
            _ if follows => PtpState::Locked,
            // Without new answers, the values become unknown.
            Some(lost) if lost <= HOLDOVER && self.status.is_some() => PtpState::Holdover,
            Some(_) | None => PtpState::FreeRun,
        };
        let class = if follows {
            self.parent.map(|set| set.quality.class)
        } else {
            self.default.map(|set| set.quality.class)
        };
        PtpView {
            clock,
            process: "ptp4l",
            interface: port
                .and_then(|port| port.1.as_ref())
                .map(|properties| properties.interface.clone())
                .unwrap_or_default(),
            role: port.map_or(PtpRole::Unknown, |port| port.0.role()),
            state,
            offset: self.status.map(|status| seconds(status.offset)),
            max_offset: self.max_offset,
            delay: self.current.map(|set| set.delay),
            frequency: self
                .status
                .map(|status| -f64::from(status.rate) / (1_u64 << 41) as f64 * 1e6),
            class: class.unwrap_or(255),
            grandmaster: self
                .status
                .filter(|_| follows)
                .map(|status| status.grandmaster),
            domain: self.domain,
            steps_removed: self.current.map_or(0, |set| set.steps_removed),
            utc_offset: self.utc_offset(),
            n_measured: self.n_measured,
        }
    }
}

/// From nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "exact for a hundred days")]
fn seconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[cfg(test)]
mod tests;
