//! Messages: requests as they are sent, answers taken apart (IEEE 1588-2008 clause 15).

use super::data_set::{
    ClockQuality, CurrentDataSet, DefaultDataSet, ParentDataSet, PortDataSet, PortIdentity,
    PortProperties, PortState, TimeProperties, TimeStatus,
};
use time_model::view::Leap;

/// Length of the common header (§13.3).
const HEADER: usize = 34;

/// The offset of the TLV in a management message (§15.4.1).
const TLV: usize = 48;

/// messageType of management messages.
const MANAGEMENT: u8 = 0xd;

/// The reason of a TLV: MANAGEMENT (§14.1.1).
const TLV_MANAGEMENT: u16 = 1;

/// actionField: RESPONSE (§15.4.1.6).
const RESPONSE: u8 = 2;

/// The readable data sets (managementId, §15.5.2.3), with ptp4l's own from 0xc000 on.
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

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The clock itself.
    Default(DefaultDataSet),
    /// How far it is from its master.
    Current(CurrentDataSet),
    /// Its parent.
    Parent(ParentDataSet),
    /// How its master counts seconds.
    TimeProperties(TimeProperties),
    /// One port.
    Port(PortDataSet),
    /// The last measurement.
    TimeStatus(TimeStatus),
    /// More of one port.
    PortProperties(PortProperties),
}

/// Why a datagram is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// It is shorter than it says, or than what it says it is.
    Short,
    /// No management message of version 2.
    Foreign,
    /// No response: ptp4l refuses (`MANAGEMENT_ERROR_STATUS`), or it is a request of another program.
    NoResponse,
    /// The response has a data set that this client does not use.
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

/// The rest of a message.
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
