//! Management messages of PTP (IEEE 1588-2008 clause 15), as ptp4l answers them on its Unix socket.
//!
//! Only GET requests are made, so the read-only socket (`/var/run/ptp4lro`) is enough. [`Client`] puts the answers together; it
//! never opens a socket nor reads a clock.

use std::collections::BTreeMap;

use crate::time::UnixTime;
use crate::view::{Leap, PtpRole, PtpState, PtpView};

/// The longest message that is read: ptp4l's own limit.
pub const LONGEST: usize = 1500;

/// Ports that are remembered; a boundary clock has fewer.
const MOST_PORTS: usize = 64;

/// Rounds of requests without an answer after which nothing is known any longer.
const SILENCE: u32 = 4;

/// Rounds for which a grandmaster that is gone is held over: five seconds, asked once a second, as the PTP operator has it.
const HOLDOVER: u32 = 5;

/// Length of the common header (§13.3).
const HEADER: usize = 34;

/// Where the TLV of a management message begins (§15.4.1).
const TLV: usize = 48;

/// messageType of management messages.
const MANAGEMENT: u8 = 0xd;

/// The reason of a TLV: MANAGEMENT (§14.1.1).
const TLV_MANAGEMENT: u16 = 1;

/// actionField: RESPONSE (§15.4.1.6).
const RESPONSE: u8 = 2;

/// What can be asked for (managementId, §15.5.2.3), with ptp4l's own from 0xc000 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub enum Id {
    /// `DEFAULT_DATA_SET`.
    Default = 0x2000,
    /// `CURRENT_DATA_SET`.
    Current = 0x2001,
    /// `PARENT_DATA_SET`.
    Parent = 0x2002,
    /// `TIME_PROPERTIES_DATA_SET`.
    TimeProperties = 0x2003,
    /// `PORT_DATA_SET`.
    Port = 0x2004,
    /// `TIME_STATUS_NP`.
    TimeStatus = 0xc000,
    /// `PORT_PROPERTIES_NP`.
    PortProperties = 0xc004,
}

/// clockIdentity and portNumber (§5.3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortIdentity {
    /// clockIdentity.
    pub clock: [u8; 8],
    /// portNumber.
    pub port: u16,
}

/// clockQuality (§5.3.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockQuality {
    /// clockClass.
    pub class: u8,
    /// clockAccuracy.
    pub accuracy: u8,
    /// offsetScaledLogVariance.
    pub variance: u16,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Of the clock itself.
    Default(DefaultDataSet),
    /// How far it is from its master.
    Current(CurrentDataSet),
    /// Whom it follows.
    Parent(ParentDataSet),
    /// How its master counts seconds.
    TimeProperties(TimeProperties),
    /// Of one port.
    Port(PortDataSet),
    /// What was measured last.
    TimeStatus(TimeStatus),
    /// More of one port.
    PortProperties(PortProperties),
}

/// defaultDS (§15.5.3.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultDataSet {
    /// slaveOnly.
    pub slave_only: bool,
    /// numberPorts.
    pub n_ports: u16,
    /// priority1.
    pub priority_1: u8,
    /// clockQuality.
    pub quality: ClockQuality,
    /// priority2.
    pub priority_2: u8,
    /// clockIdentity.
    pub identity: [u8; 8],
    /// domainNumber.
    pub domain: u8,
}

/// currentDS (§15.5.3.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CurrentDataSet {
    /// stepsRemoved.
    pub steps_removed: u16,
    /// offsetFromMaster, in seconds.
    pub offset: f64,
    /// meanPathDelay, in seconds.
    pub delay: f64,
}

/// parentDS (§15.5.3.5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParentDataSet {
    /// parentPortIdentity.
    pub port: PortIdentity,
    /// grandmasterPriority1.
    pub priority_1: u8,
    /// grandmasterClockQuality.
    pub quality: ClockQuality,
    /// grandmasterPriority2.
    pub priority_2: u8,
    /// grandmasterIdentity.
    pub grandmaster: [u8; 8],
}

/// timePropertiesDS (§15.5.3.6.1).
#[expect(
    clippy::struct_excessive_bools,
    reason = "the flags of the data set, each under its own name"
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeProperties {
    /// currentUtcOffset, in seconds.
    pub utc_offset: i16,
    /// leap61, leap59.
    pub leap: Leap,
    /// currentUtcOffsetValid.
    pub utc_offset_valid: bool,
    /// ptpTimescale: TAI.
    pub ptp_timescale: bool,
    /// timeTraceable.
    pub time_traceable: bool,
    /// frequencyTraceable.
    pub frequency_traceable: bool,
    /// timeSource.
    pub source: u8,
}

/// portDS (§15.5.3.7.1).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PortDataSet {
    /// portIdentity.
    pub identity: PortIdentity,
    /// portState.
    pub state: PortState,
    /// peerMeanPathDelay, in seconds.
    pub peer_delay: f64,
    /// logSyncInterval.
    pub log_sync_interval: i8,
    /// delayMechanism: 1 end-to-end, 2 peer-to-peer.
    pub delay_mechanism: u8,
}

/// `TIME_STATUS_NP`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeStatus {
    /// How far the local clock is ahead of the master, in nanoseconds.
    pub offset: i64,
    /// When the message that said so came, on the clock that stamps.
    pub ingress: i64,
    /// cumulativeScaledRateOffset: rate of the grandmaster to the local clock − 1, times 2⁴¹.
    pub rate: i32,
    /// A grandmaster is followed.
    pub present: bool,
    /// gmIdentity.
    pub grandmaster: [u8; 8],
}

/// `PORT_PROPERTIES_NP`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortProperties {
    /// portIdentity.
    pub identity: PortIdentity,
    /// portState.
    pub state: PortState,
    /// The kernel stamps, by the wall clock, not the card.
    pub software: bool,
    /// Name of the interface.
    pub interface: String,
}

/// portState (§8.2.5.3.1, table 10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortState {
    /// INITIALIZING, and what is no state.
    #[default]
    Initializing,
    /// FAULTY.
    Faulty,
    /// DISABLED.
    Disabled,
    /// LISTENING.
    Listening,
    /// `PRE_MASTER`.
    PreMaster,
    /// MASTER.
    Master,
    /// PASSIVE.
    Passive,
    /// UNCALIBRATED: it has a master, and no servo follows it (yet).
    Uncalibrated,
    /// SLAVE.
    Slave,
}

impl PortState {
    /// The state of a number.
    #[must_use]
    pub const fn of(number: u8) -> Self {
        match number {
            2 => Self::Faulty,
            3 => Self::Disabled,
            4 => Self::Listening,
            5 => Self::PreMaster,
            6 => Self::Master,
            7 => Self::Passive,
            8 => Self::Uncalibrated,
            9 => Self::Slave,
            _ => Self::Initializing,
        }
    }

    /// As metrics name it.
    #[must_use]
    pub const fn role(self) -> PtpRole {
        match self {
            Self::Faulty | Self::Disabled => PtpRole::Faulty,
            Self::Listening => PtpRole::Listening,
            Self::PreMaster | Self::Master => PtpRole::Master,
            Self::Passive => PtpRole::Passive,
            // Without a servo of ptp4l's own, that is as far as a slave gets.
            Self::Uncalibrated | Self::Slave => PtpRole::Slave,
            Self::Initializing => PtpRole::Unknown,
        }
    }
}

/// Why a datagram is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// It is shorter than it says, or than what it says it is.
    Short,
    /// No management message of version 2.
    Foreign,
    /// No response: ptp4l refuses (`MANAGEMENT_ERROR_STATUS`), or it is somebody's request.
    NoResponse,
    /// Of a data set that is not ours to know.
    Unknown,
}

//--- Requests

/// A GET request (§15.4.1), to every port of the clock.
#[must_use]
pub fn request(id: Id, domain: u8, from: PortIdentity, sequence: u16) -> Vec<u8> {
    let mut message = Vec::with_capacity(TLV + 6);
    message.extend([MANAGEMENT, 2]);
    message.extend(54_u16.to_be_bytes());
    // domainNumber, minorSdoId, flagField, correctionField, messageTypeSpecific.
    message.push(domain);
    message.resize(20, 0);
    message.extend(from.clock);
    message.extend(from.port.to_be_bytes());
    message.extend(sequence.to_be_bytes());
    // controlField of management messages, and no interval.
    message.extend([4, 0x7f]);
    // targetPortIdentity: all.
    message.extend([0xff; 10]);
    // startingBoundaryHops, boundaryHops, actionField GET, reserved.
    message.extend([0; 4]);
    message.extend(TLV_MANAGEMENT.to_be_bytes());
    message.extend(2_u16.to_be_bytes());
    message.extend((id as u16).to_be_bytes());
    message
}

//--- Answers

/// Takes an answer apart.
///
/// # Errors
///
/// It is none.
pub fn parse(datagram: &[u8]) -> Result<(u16, Answer), NoAnswer> {
    let header = datagram.get(..TLV).ok_or(NoAnswer::Short)?;
    let mut fields = Fields(header);
    let kind = fields.octet()?;
    let version = fields.octet()?;
    if kind & 0xf != MANAGEMENT || version & 0xf != 2 {
        return Err(NoAnswer::Foreign);
    }
    let length = usize::from(fields.short()?);
    let mut fields = Fields(header.get(30..).ok_or(NoAnswer::Short)?);
    let sequence = fields.short()?;
    let action = header.get(HEADER + 12).copied().unwrap_or_default() & 0xf;
    let body = datagram.get(TLV..length).ok_or(NoAnswer::Short)?;
    let mut fields = Fields(body);
    let reason = fields.short()?;
    let length = usize::from(fields.short()?);
    if action != RESPONSE || reason != TLV_MANAGEMENT {
        return Err(NoAnswer::NoResponse);
    }
    let mut fields = Fields(fields.0.get(..length).ok_or(NoAnswer::Short)?);
    let id = fields.short()?;
    Ok((sequence, answer(id, fields)?))
}

fn answer(id: u16, mut fields: Fields<'_>) -> Result<Answer, NoAnswer> {
    const DEFAULT: u16 = Id::Default as u16;
    const CURRENT: u16 = Id::Current as u16;
    const PARENT: u16 = Id::Parent as u16;
    const TIME_PROPERTIES: u16 = Id::TimeProperties as u16;
    const PORT: u16 = Id::Port as u16;
    const TIME_STATUS: u16 = Id::TimeStatus as u16;
    const PORT_PROPERTIES: u16 = Id::PortProperties as u16;
    let fields = &mut fields;
    Ok(match id {
        DEFAULT => Answer::Default(default_data_set(fields)?),
        CURRENT => Answer::Current(CurrentDataSet {
            steps_removed: fields.short()?,
            offset: fields.interval()?,
            delay: fields.interval()?,
        }),
        PARENT => Answer::Parent(parent_data_set(fields)?),
        TIME_PROPERTIES => Answer::TimeProperties(time_properties(fields)?),
        PORT => Answer::Port(port_data_set(fields)?),
        TIME_STATUS => Answer::TimeStatus(time_status(fields)?),
        PORT_PROPERTIES => Answer::PortProperties(port_properties(fields)?),
        _ => return Err(NoAnswer::Unknown),
    })
}

fn default_data_set(fields: &mut Fields<'_>) -> Result<DefaultDataSet, NoAnswer> {
    let flags = fields.octet()?;
    fields.octet()?;
    Ok(DefaultDataSet {
        slave_only: flags & 2 != 0,
        n_ports: fields.short()?,
        priority_1: fields.octet()?,
        quality: fields.quality()?,
        priority_2: fields.octet()?,
        identity: fields.take()?,
        domain: fields.octet()?,
    })
}

fn parent_data_set(fields: &mut Fields<'_>) -> Result<ParentDataSet, NoAnswer> {
    let port = fields.port()?;
    // parentStats, reserved, observedParentOffsetScaledLogVariance, observedParentClockPhaseChangeRate.
    fields.take::<8>()?;
    Ok(ParentDataSet {
        port,
        priority_1: fields.octet()?,
        quality: fields.quality()?,
        priority_2: fields.octet()?,
        grandmaster: fields.take()?,
    })
}

fn time_properties(fields: &mut Fields<'_>) -> Result<TimeProperties, NoAnswer> {
    let utc_offset = i16::from_be_bytes(fields.take()?);
    let flags = fields.octet()?;
    Ok(TimeProperties {
        utc_offset,
        leap: match flags & 3 {
            1 => Leap::Insert,
            2 => Leap::Delete,
            _ => Leap::Normal,
        },
        utc_offset_valid: flags & 4 != 0,
        ptp_timescale: flags & 8 != 0,
        time_traceable: flags & 16 != 0,
        frequency_traceable: flags & 32 != 0,
        source: fields.octet()?,
    })
}

fn port_data_set(fields: &mut Fields<'_>) -> Result<PortDataSet, NoAnswer> {
    let identity = fields.port()?;
    let state = PortState::of(fields.octet()?);
    // logMinDelayReqInterval.
    fields.octet()?;
    let peer_delay = fields.interval()?;
    // logAnnounceInterval, announceReceiptTimeout.
    fields.take::<2>()?;
    Ok(PortDataSet {
        identity,
        state,
        peer_delay,
        log_sync_interval: fields.octet()?.cast_signed(),
        delay_mechanism: fields.octet()?,
    })
}

fn time_status(fields: &mut Fields<'_>) -> Result<TimeStatus, NoAnswer> {
    let offset = i64::from_be_bytes(fields.take()?);
    let ingress = i64::from_be_bytes(fields.take()?);
    let rate = i32::from_be_bytes(fields.take()?);
    // scaledLastGmPhaseChange, gmTimeBaseIndicator, lastGmPhaseChange.
    fields.take::<18>()?;
    Ok(TimeStatus {
        offset,
        ingress,
        rate,
        present: fields.take::<4>()? != [0; 4],
        grandmaster: fields.take()?,
    })
}

fn port_properties(fields: &mut Fields<'_>) -> Result<PortProperties, NoAnswer> {
    let identity = fields.port()?;
    let state = PortState::of(fields.octet()?);
    let software = fields.octet()? == 0;
    let length = usize::from(fields.octet()?);
    let name = fields.0.get(..length).ok_or(NoAnswer::Short)?;
    Ok(PortProperties {
        identity,
        state,
        software,
        // It becomes a label of metrics.
        interface: String::from_utf8_lossy(name)
            .chars()
            .filter(|letter| !letter.is_control())
            .collect(),
    })
}

/// What is left of a message.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], NoAnswer> {
        let (field, rest) = self.0.split_first_chunk().ok_or(NoAnswer::Short)?;
        self.0 = rest;
        Ok(*field)
    }

    fn octet(&mut self) -> Result<u8, NoAnswer> {
        self.take().map(|[octet]| octet)
    }

    fn short(&mut self) -> Result<u16, NoAnswer> {
        self.take().map(u16::from_be_bytes)
    }

    fn port(&mut self) -> Result<PortIdentity, NoAnswer> {
        Ok(PortIdentity {
            clock: self.take()?,
            port: self.short()?,
        })
    }

    fn quality(&mut self) -> Result<ClockQuality, NoAnswer> {
        Ok(ClockQuality {
            class: self.octet()?,
            accuracy: self.octet()?,
            variance: self.short()?,
        })
    }

    /// A `TimeInterval` (§5.3.2): nanoseconds times 2¹⁶. In seconds.
    #[expect(
        clippy::cast_precision_loss,
        reason = "exact to a nanosecond for a day and a half"
    )]
    fn interval(&mut self) -> Result<f64, NoAnswer> {
        Ok(i64::from_be_bytes(self.take()?) as f64 / 65_536.0 / 1e9)
    }
}

//--- Client

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// When, on the wall clock.
    pub local: UnixTime,
    /// The time of the master, in UTC, at that moment.
    pub master: UnixTime,
    /// Leap second at hand.
    pub leap: Leap,
}

/// What one ptp4l says, put together.
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
    /// What is asked for in each round; what is measured last, so that it is understood when it comes.
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

    /// Whether nobody has answered for some rounds; true once in so many.
    #[must_use]
    pub const fn is_unheard(&self) -> bool {
        self.silent > 0 && self.silent.is_multiple_of(SILENCE)
    }

    /// A request. A round of them that nobody answers makes what is known older.
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

    /// TAI − UTC as the grandmaster says, in seconds; what a hardware clock that ptp4l sets needs.
    #[must_use]
    pub fn utc_offset(&self) -> Option<i32> {
        let valid = |set: &TimeProperties| set.utc_offset_valid;
        let set = self.properties.filter(valid)?;
        Some(set.utc_offset.into())
    }

    /// What others see of it. `clock` is its place among the reference clocks.
    #[must_use]
    pub fn view(&self, clock: usize) -> PtpView {
        let slave = self.slave();
        let port = slave.or_else(|| self.ports.values().next());
        let follows = slave.is_some() && self.status.is_some_and(|status| status.present);
        let state = match self.lost {
            _ if follows => PtpState::Locked,
            // As soon as nobody says anything any longer, nobody knows.
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

/// Of nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "exact for a hundred days")]
fn seconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[cfg(test)]
mod tests;
