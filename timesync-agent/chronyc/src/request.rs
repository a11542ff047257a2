//! The requests of chronyc.

use std::net::IpAddr;

use super::report::MAX_CLIENTS;
use super::source::NewSource;
use super::status::Status;
use super::wire::{Address, Input, Output};
use super::{REPLY_HEADING, VERSION};
use time_model::time::UnixTime;

/// Octets of the heading of a request.
const HEADING: usize = 20;
/// The first octets say what a packet is.
const IS_REQUEST: u8 = 1;
/// The version from which on a reply is understood that says so.
const OLDEST_TOLD: u8 = 5;
/// One more than the last command of chrony 4.8.
const N_COMMANDS: u16 = 75;
/// Commands of releases before chrony 4: `LOGON`, and earlier forms of others. No release since takes them.
const RETIRED: [u16; 13] = [10, 12, 27, 28, 32, 38, 39, 40, 55, 58, 59, 60, 61];
/// Octets of a name.
const NAME: usize = 256;

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// A number that comes back in the reply.
    pub sequence: u32,
    /// How often it was sent before.
    pub attempt: u16,
    /// The command.
    pub command: Command,
}

/// The selection of sources for a command, by an address and a mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Bits of the address that count.
    pub mask: Address,
    /// Unspecified is every source.
    pub address: Address,
}

/// The command; the names are chrony's.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// `NULL`
    Null,
    /// `ONLINE`
    Online(Sources),
    /// `OFFLINE`
    Offline(Sources),
    /// `BURST`
    Burst {
        /// The sources.
        sources: Sources,
        /// Good samples that are enough.
        good: i32,
        /// Requests at most.
        total: i32,
    },
    /// `MODIFY_MINPOLL`
    MinPoll(Address, i32),
    /// `MODIFY_MAXPOLL`
    MaxPoll(Address, i32),
    /// Another `MODIFY_…` of one source.
    Tune(Address, Tuning),
    /// `MODIFY_SELECTOPTS`
    SelectOptions {
        /// The source.
        source: Source,
        /// The options that change, as flags of [`NewSource`].
        mask: u32,
        /// Those of them that are set from now on.
        set: u32,
    },
    /// `MODIFY_OFFSET`, in seconds.
    Offset(Source, f64),
    /// `MODIFY_MAXUPDATESKEW`
    MaxUpdateSkew(f64),
    /// `DUMP`
    Dump,
    /// `N_SOURCES`
    NSources,
    /// `SOURCE_DATA`
    SourceData(u32),
    /// `REKEY`
    Rekey,
    /// `ALLOW`, `ALLOWALL`, `DENY`, `DENYALL`, and the same with `CMD`.
    Access {
        /// `CMD…`: to chronyc's protocol, not to the time.
        commands: bool,
        /// `ALLOW`.
        allow: bool,
        /// `…ALL`.
        all: bool,
        /// The address; unspecified means all.
        address: Address,
        /// Bits that count.
        bits: i32,
    },
    /// `ACCHECK`
    AccessCheck(Address),
    /// `CMDACCHECK`
    CommandAccessCheck(Address),
    /// `ADD_SOURCE`
    AddSource(Box<NewSource>),
    /// `DEL_SOURCE`
    DeleteSource(Address),
    /// `TRACKING`
    Tracking,
    /// `SOURCESTATS`
    SourceStats(u32),
    /// `RTCREPORT`
    RtcReport,
    /// `CYCLELOGS`
    CycleLogs,
    /// `SETTIME`
    SetTime(UnixTime),
    /// `DFREQ`, in parts per million.
    ChangeFrequency(f64),
    /// `DOFFSET2`, in seconds.
    ChangeOffset(f64),
    /// `MANUAL`: 0 is off, 1 on, and 2 forgets what was given.
    Manual(i32),
    /// `MANUAL_LIST`
    ManualList,
    /// `MANUAL_DELETE`
    ManualDelete(i32),
    /// `TRIMRTC`
    TrimRtc,
    /// `WRITERTC`
    WriteRtc,
    /// `MAKESTEP`
    MakeStep,
    /// `ACTIVITY`
    Activity,
    /// `RESELECT`
    Reselect,
    /// `RESELECTDISTANCE`, in seconds.
    ReselectDistance(f64),
    /// `MODIFY_MAKESTEP`
    SetMakeStep {
        /// Updates in which it steps; negative is always.
        limit: i32,
        /// In seconds.
        threshold: f64,
    },
    /// `SMOOTHING`
    Smoothing,
    /// `SMOOTHTIME`: 0 starts again, 1 smooths from now on.
    SmoothTime(i32),
    /// `REFRESH`
    Refresh,
    /// `SERVER_STATS`
    ServerStats,
    /// `LOCAL2`, `LOCAL3`
    Local {
        /// Whether there is one.
        on: bool,
        /// Its stratum.
        stratum: i32,
        /// The distance from which on it is used, in seconds.
        distance: f64,
        /// One of several leads.
        orphan: bool,
        /// `activate`, `waitsynced` and `waitunsynced` in seconds, which `LOCAL3` has.
        conditions: Option<[f64; 3]>,
    },
    /// `NTP_DATA`
    NtpData(Address),
    /// `SHUTDOWN`
    Shutdown,
    /// `ONOFFLINE`
    OnOffline,
    /// `NTP_SOURCE_NAME`
    SourceName(Address),
    /// `RESET_SOURCES`
    ResetSources,
    /// `AUTH_DATA`
    AuthData(Address),
    /// `CLIENT_ACCESSES_BY_INDEX3`
    Clients {
        /// First place to look at.
        first: u32,
        /// How many at most.
        count: u32,
        /// Requests that a client made at least.
        min_hits: u32,
        /// Reset the counters.
        reset: bool,
    },
    /// `SELECT_DATA`
    SelectData(u32),
    /// `RELOAD_SOURCES`
    ReloadSources,
}

/// The source of a command: a server by its address, or with [`Address::Unspecified`] a reference clock by its reference ID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The address.
    pub address: Address,
    /// The reference ID.
    pub reference_id: u32,
}

/// A value that changes of a source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tuning {
    /// `MODIFY_MAXDELAY`, in seconds.
    MaxDelay(f64),
    /// `MODIFY_MAXDELAYRATIO`
    MaxDelayRatio(f64),
    /// `MODIFY_MAXDELAYDEVRATIO`
    MaxDelayDeviationRatio(f64),
    /// `MODIFY_MINSTRATUM`
    MinStratum(i32),
    /// `MODIFY_POLLTARGET`
    PollTarget(i32),
}

impl Tuning {
    fn number(self) -> u16 {
        match self {
            Self::MaxDelay(_) => number::MAX_DELAY,
            Self::MaxDelayRatio(_) => number::MAX_DELAY_RATIO,
            Self::MaxDelayDeviationRatio(_) => number::MAX_DELAY_DEVIATION_RATIO,
            Self::MinStratum(_) => number::MIN_STRATUM,
            Self::PollTarget(_) => number::POLL_TARGET,
        }
    }
}

/// Numbers of commands.
#[rustfmt::skip]
mod number {
    pub(super) const ONLINE: u16 = 1;
    pub(super) const OFFLINE: u16 = 2;
    pub(super) const BURST: u16 = 3;
    pub(super) const MIN_POLL: u16 = 4;
    pub(super) const MAX_POLL: u16 = 5;
    pub(super) const DUMP: u16 = 6;
    pub(super) const MAX_DELAY: u16 = 7;
    pub(super) const MAX_DELAY_RATIO: u16 = 8;
    pub(super) const MAX_UPDATE_SKEW: u16 = 9;
    pub(super) const SET_TIME: u16 = 11;
    pub(super) const MANUAL: u16 = 13;
    pub(super) const N_SOURCES: u16 = 14;
    pub(super) const SOURCE_DATA: u16 = 15;
    pub(super) const REKEY: u16 = 16;
    pub(super) const ALLOW: u16 = 17;
    pub(super) const ALLOW_ALL: u16 = 18;
    pub(super) const DENY: u16 = 19;
    pub(super) const DENY_ALL: u16 = 20;
    pub(super) const COMMAND_ALLOW: u16 = 21;
    pub(super) const COMMAND_ALLOW_ALL: u16 = 22;
    pub(super) const COMMAND_DENY: u16 = 23;
    pub(super) const COMMAND_DENY_ALL: u16 = 24;
    pub(super) const ACCHECK: u16 = 25;
    pub(super) const CMDACCHECK: u16 = 26;
    pub(super) const DELETE_SOURCE: u16 = 29;
    pub(super) const WRITE_RTC: u16 = 30;
    pub(super) const CHANGE_FREQUENCY: u16 = 31;
    pub(super) const TRACKING: u16 = 33;
    pub(super) const SOURCESTATS: u16 = 34;
    pub(super) const RTCREPORT: u16 = 35;
    pub(super) const TRIM_RTC: u16 = 36;
    pub(super) const CYCLELOGS: u16 = 37;
    pub(super) const MANUAL_LIST: u16 = 41;
    pub(super) const MANUAL_DELETE: u16 = 42;
    pub(super) const MAKESTEP: u16 = 43;
    pub(super) const ACTIVITY: u16 = 44;
    pub(super) const MIN_STRATUM: u16 = 45;
    pub(super) const POLL_TARGET: u16 = 46;
    pub(super) const MAX_DELAY_DEVIATION_RATIO: u16 = 47;
    pub(super) const RESELECT: u16 = 48;
    pub(super) const RESELECT_DISTANCE: u16 = 49;
    pub(super) const SET_MAKESTEP: u16 = 50;
    pub(super) const SMOOTHING: u16 = 51;
    pub(super) const SMOOTHTIME: u16 = 52;
    pub(super) const REFRESH: u16 = 53;
    pub(super) const SERVER_STATS: u16 = 54;
    pub(super) const LOCAL: u16 = 56;
    pub(super) const NTP_DATA: u16 = 57;
    pub(super) const SHUTDOWN: u16 = 62;
    pub(super) const ONOFFLINE: u16 = 63;
    pub(super) const ADD_SOURCE: u16 = 64;
    pub(super) const SOURCE_NAME: u16 = 65;
    pub(super) const RESET_SOURCES: u16 = 66;
    pub(super) const AUTH_DATA: u16 = 67;
    pub(super) const CLIENTS: u16 = 68;
    pub(super) const SELECT_DATA: u16 = 69;
    pub(super) const RELOAD_SOURCES: u16 = 70;
    pub(super) const CHANGE_OFFSET: u16 = 71;
    pub(super) const SELECT_OPTIONS: u16 = 72;
    pub(super) const OFFSET: u16 = 73;
    pub(super) const LOCAL_WITH_CONDITIONS: u16 = 74;
}

/// Faults of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is no request; nothing is said.
    Silently,
    /// This is said.
    With {
        /// The command as it was given.
        command: u16,
        /// The number that comes back.
        sequence: u32,
        /// Why.
        status: Status,
    },
}

impl Request {
    /// Takes a datagram apart.
    ///
    /// # Errors
    /// When it is no request, or one that makes no sense.
    pub fn parse(datagram: &[u8]) -> Result<Self, Refused> {
        let mut input = Input(datagram);
        let head = (|| {
            let version = input.u8()?;
            let kind = input.u8()?;
            let nothing = input.u16()?;
            let command = input.u16()?;
            let attempt = input.u16()?;
            let sequence = input.u32()?;
            input.u64()?;
            Some((version, kind, nothing, command, attempt, sequence))
        })();
        // A datagram shorter than an empty reply gets no answer.
        let Some((version, IS_REQUEST, 0, command, attempt, sequence)) =
            head.filter(|_| datagram.len() >= REPLY_HEADING)
        else {
            return Err(Refused::Silently);
        };
        let refused = |status| Refused::With {
            command,
            sequence,
            status,
        };
        if version != VERSION {
            return Err(if version >= OLDEST_TOLD {
                refused(Status::BadPacketVersion)
            } else {
                Refused::Silently
            });
        }
        if command >= N_COMMANDS || RETIRED.contains(&command) {
            return Err(refused(Status::Invalid));
        }
        let Some(parsed) = arguments(command, &mut input) else {
            return Err(refused(Status::BadPacketLength));
        };
        let request = Self {
            sequence,
            attempt,
            command: parsed,
        };
        if datagram.len() < request.least_length() {
            return Err(refused(Status::BadPacketLength));
        }
        Ok(request)
    }

    /// The packet, padded to the length that its reply may have.
    #[must_use]
    pub fn to_octets(&self) -> Vec<u8> {
        let mut output = Output::default();
        output.u8(VERSION);
        output.u8(IS_REQUEST);
        output.u16(0);
        output.u16(self.command.number());
        output.u16(self.attempt);
        output.u32(self.sequence);
        output.u64(0);
        self.command.write(&mut output);
        let length = output.0.len().max(self.least_length());
        output.0.resize(length, 0);
        output.0
    }

    /// The length that its reply may have. A request is no shorter.
    fn least_length(&self) -> usize {
        REPLY_HEADING + longest_report(&self.command)
    }
}

fn arguments(command: u16, input: &mut Input<'_>) -> Option<Command> {
    Some(match command {
        0 => Command::Null,
        number::ONLINE => Command::Online(sources(input)?),
        number::OFFLINE => Command::Offline(sources(input)?),
        number::BURST => Command::Burst {
            sources: sources(input)?,
            good: input.i32()?,
            total: input.i32()?,
        },
        number::MAX_UPDATE_SKEW => Command::MaxUpdateSkew(input.float()?),
        number::DUMP => Command::Dump,
        number::N_SOURCES => Command::NSources,
        number::SOURCE_DATA => Command::SourceData(input.u32()?),
        number::REKEY => Command::Rekey,
        number::ALLOW..=number::COMMAND_DENY_ALL => {
            // Allow, allow all, deny, deny all; to the time, then to commands.
            let place = command - number::ALLOW;
            Command::Access {
                commands: place >= 4,
                allow: place % 4 < 2,
                all: place % 2 == 1,
                address: input.address()?,
                bits: input.i32()?,
            }
        }
        number::ACCHECK => Command::AccessCheck(input.address()?),
        number::CMDACCHECK => Command::CommandAccessCheck(input.address()?),
        number::TRACKING => Command::Tracking,
        number::SOURCESTATS => Command::SourceStats(input.u32()?),
        number::RTCREPORT => Command::RtcReport,
        number::CYCLELOGS => Command::CycleLogs,
        number::SET_TIME => Command::SetTime(input.time()?),
        number::CHANGE_FREQUENCY => Command::ChangeFrequency(input.float()?),
        number::CHANGE_OFFSET => Command::ChangeOffset(input.float()?),
        number::MANUAL => Command::Manual(input.i32()?),
        number::MANUAL_LIST => Command::ManualList,
        number::MANUAL_DELETE => Command::ManualDelete(input.i32()?),
        number::TRIM_RTC => Command::TrimRtc,
        number::WRITE_RTC => Command::WriteRtc,
        number::MAKESTEP => Command::MakeStep,
        number::ACTIVITY => Command::Activity,
        number::RESELECT => Command::Reselect,
        number::RESELECT_DISTANCE => Command::ReselectDistance(input.float()?),
        number::SET_MAKESTEP => Command::SetMakeStep {
            limit: input.i32()?,
            threshold: input.float()?,
        },
        number::SMOOTHING => Command::Smoothing,
        number::SMOOTHTIME => Command::SmoothTime(input.i32()?),
        number::REFRESH => Command::Refresh,
        number::SERVER_STATS => Command::ServerStats,
        number::NTP_DATA => Command::NtpData(input.address()?),
        number::SHUTDOWN => Command::Shutdown,
        number::ONOFFLINE => Command::OnOffline,
        number::SOURCE_NAME => Command::SourceName(input.address()?),
        number::RESET_SOURCES => Command::ResetSources,
        number::AUTH_DATA => Command::AuthData(input.address()?),
        number::CLIENTS => Command::Clients {
            first: input.u32()?,
            count: input.u32()?,
            min_hits: input.u32()?,
            reset: input.u32()? != 0,
        },
        number::SELECT_DATA => Command::SelectData(input.u32()?),
        number::RELOAD_SOURCES => Command::ReloadSources,
        _ => return arguments_of_change(command, input),
    })
}

/// The arguments of a command that changes one source, or the own time for clients.
fn arguments_of_change(command: u16, input: &mut Input<'_>) -> Option<Command> {
    Some(match command {
        number::MIN_POLL => Command::MinPoll(input.address()?, input.i32()?),
        number::MAX_POLL => Command::MaxPoll(input.address()?, input.i32()?),
        number::MAX_DELAY => Command::Tune(input.address()?, Tuning::MaxDelay(input.float()?)),
        number::MAX_DELAY_RATIO => {
            Command::Tune(input.address()?, Tuning::MaxDelayRatio(input.float()?))
        }
        number::MAX_DELAY_DEVIATION_RATIO => Command::Tune(
            input.address()?,
            Tuning::MaxDelayDeviationRatio(input.float()?),
        ),
        number::MIN_STRATUM => Command::Tune(input.address()?, Tuning::MinStratum(input.i32()?)),
        number::POLL_TARGET => Command::Tune(input.address()?, Tuning::PollTarget(input.i32()?)),
        number::SELECT_OPTIONS => Command::SelectOptions {
            source: source(input)?,
            mask: input.u32()?,
            set: input.u32()?,
        },
        number::OFFSET => Command::Offset(source(input)?, input.float()?),
        number::ADD_SOURCE => Command::AddSource(Box::new(NewSource::read(input)?)),
        number::DELETE_SOURCE => Command::DeleteSource(input.address()?),
        number::LOCAL | number::LOCAL_WITH_CONDITIONS => Command::Local {
            on: input.i32()? != 0,
            stratum: input.i32()?,
            distance: input.float()?,
            orphan: input.i32()? != 0,
            conditions: match command {
                number::LOCAL => None,
                _ => Some([input.float()?, input.float()?, input.float()?]),
            },
        },
        _ => return None,
    })
}

fn source(input: &mut Input<'_>) -> Option<Source> {
    Some(Source {
        address: input.address()?,
        reference_id: input.u32()?,
    })
}

fn sources(input: &mut Input<'_>) -> Option<Sources> {
    Some(Sources {
        mask: input.address()?,
        address: input.address()?,
    })
}

impl Command {
    /// Its number in packets.
    #[must_use]
    pub fn number(&self) -> u16 {
        match self {
            Self::Null => 0,
            Self::Online(_) => number::ONLINE,
            Self::Offline(_) => number::OFFLINE,
            Self::Burst { .. } => number::BURST,
            Self::MinPoll(..) => number::MIN_POLL,
            Self::MaxPoll(..) => number::MAX_POLL,
            Self::Tune(_, tuning) => tuning.number(),
            Self::SelectOptions { .. } => number::SELECT_OPTIONS,
            Self::Offset(..) => number::OFFSET,
            Self::MaxUpdateSkew(_) => number::MAX_UPDATE_SKEW,
            Self::Dump => number::DUMP,
            Self::NSources => number::N_SOURCES,
            Self::SourceData(_) => number::SOURCE_DATA,
            Self::Rekey => number::REKEY,
            Self::Access {
                commands,
                allow,
                all,
                ..
            } => match (commands, allow, all) {
                (false, true, false) => number::ALLOW,
                (false, true, true) => number::ALLOW_ALL,
                (false, false, false) => number::DENY,
                (false, false, true) => number::DENY_ALL,
                (true, true, false) => number::COMMAND_ALLOW,
                (true, true, true) => number::COMMAND_ALLOW_ALL,
                (true, false, false) => number::COMMAND_DENY,
                (true, false, true) => number::COMMAND_DENY_ALL,
            },
            Self::AddSource(_) => number::ADD_SOURCE,
            Self::DeleteSource(_) => number::DELETE_SOURCE,
            Self::AccessCheck(_) => number::ACCHECK,
            Self::CommandAccessCheck(_) => number::CMDACCHECK,
            Self::Tracking => number::TRACKING,
            Self::SourceStats(_) => number::SOURCESTATS,
            Self::RtcReport => number::RTCREPORT,
            Self::CycleLogs => number::CYCLELOGS,
            Self::SetTime(_) => number::SET_TIME,
            Self::ChangeFrequency(_) => number::CHANGE_FREQUENCY,
            Self::ChangeOffset(_) => number::CHANGE_OFFSET,
            Self::Manual(_) => number::MANUAL,
            Self::ManualList => number::MANUAL_LIST,
            Self::ManualDelete(_) => number::MANUAL_DELETE,
            Self::TrimRtc => number::TRIM_RTC,
            Self::WriteRtc => number::WRITE_RTC,
            Self::MakeStep => number::MAKESTEP,
            Self::Activity => number::ACTIVITY,
            Self::Reselect => number::RESELECT,
            Self::ReselectDistance(_) => number::RESELECT_DISTANCE,
            Self::SetMakeStep { .. } => number::SET_MAKESTEP,
            Self::Smoothing => number::SMOOTHING,
            Self::SmoothTime(_) => number::SMOOTHTIME,
            Self::Refresh => number::REFRESH,
            Self::ServerStats => number::SERVER_STATS,
            Self::Local {
                conditions: None, ..
            } => number::LOCAL,
            Self::Local { .. } => number::LOCAL_WITH_CONDITIONS,
            Self::NtpData(_) => number::NTP_DATA,
            Self::Shutdown => number::SHUTDOWN,
            Self::OnOffline => number::ONOFFLINE,
            Self::SourceName(_) => number::SOURCE_NAME,
            Self::ResetSources => number::RESET_SOURCES,
            Self::AuthData(_) => number::AUTH_DATA,
            Self::Clients { .. } => number::CLIENTS,
            Self::SelectData(_) => number::SELECT_DATA,
            Self::ReloadSources => number::RELOAD_SOURCES,
        }
    }

    fn write(&self, output: &mut Output) {
        match self {
            Self::Online(sources) | Self::Offline(sources) => write_sources(output, *sources),
            Self::Burst {
                sources,
                good,
                total,
            } => {
                write_sources(output, *sources);
                output.u32(good.cast_unsigned());
                output.u32(total.cast_unsigned());
            }
            Self::MinPoll(address, poll) | Self::MaxPoll(address, poll) => {
                output.address(*address);
                output.u32(poll.cast_unsigned());
            }
            Self::MaxUpdateSkew(value)
            | Self::ReselectDistance(value)
            | Self::ChangeFrequency(value)
            | Self::ChangeOffset(value) => output.float(*value),
            Self::SetTime(time) => output.time(*time),
            Self::SmoothTime(option) | Self::Manual(option) | Self::ManualDelete(option) => {
                output.u32(option.cast_unsigned());
            }
            Self::SourceData(index) | Self::SourceStats(index) | Self::SelectData(index) => {
                output.u32(*index);
            }
            Self::Access { address, bits, .. } => {
                output.address(*address);
                output.u32(bits.cast_unsigned());
            }
            Self::AccessCheck(address)
            | Self::CommandAccessCheck(address)
            | Self::NtpData(address)
            | Self::SourceName(address)
            | Self::DeleteSource(address)
            | Self::AuthData(address) => output.address(*address),
            Self::SetMakeStep { limit, threshold } => {
                output.u32(limit.cast_unsigned());
                output.float(*threshold);
            }
            Self::Clients {
                first,
                count,
                min_hits,
                reset,
            } => {
                output.u32(*first);
                output.u32(*count);
                output.u32(*min_hits);
                output.u32((*reset).into());
            }
            _ => self.write_change(output),
        }
    }

    /// A command that changes one source, or the own time for clients.
    fn write_change(&self, output: &mut Output) {
        match self {
            Self::Tune(address, tuning) => {
                output.address(*address);
                match tuning {
                    Tuning::MaxDelay(value)
                    | Tuning::MaxDelayRatio(value)
                    | Tuning::MaxDelayDeviationRatio(value) => output.float(*value),
                    Tuning::MinStratum(value) | Tuning::PollTarget(value) => {
                        output.u32(value.cast_unsigned());
                    }
                }
            }
            Self::SelectOptions { source, mask, set } => {
                write_source(output, *source);
                output.u32(*mask);
                output.u32(*set);
            }
            Self::Offset(source, offset) => {
                write_source(output, *source);
                output.float(*offset);
            }
            Self::Local {
                on,
                stratum,
                distance,
                orphan,
                conditions,
            } => {
                output.u32((*on).into());
                output.u32(stratum.cast_unsigned());
                output.float(*distance);
                output.u32((*orphan).into());
                let conditions = conditions.iter().flatten();
                conditions.for_each(|value| output.float(*value));
            }
            Self::AddSource(source) => source.write(output),
            _ => {}
        }
    }
}

fn write_source(output: &mut Output, source: Source) {
    output.address(source.address);
    output.u32(source.reference_id);
}

fn write_sources(output: &mut Output, sources: Sources) {
    output.address(sources.mask);
    output.address(sources.address);
}

impl Sources {
    /// Every source.
    pub const ALL: Self = Self {
        mask: Address::Unspecified,
        address: Address::Unspecified,
    };

    /// The source of an address.
    #[must_use]
    pub fn one(address: IpAddr) -> Self {
        let mask: IpAddr = match address {
            IpAddr::V4(_) => [0xff; 4].into(),
            IpAddr::V6(_) => [0xff; 16].into(),
        };
        Self {
            mask: Address::Ip(mask),
            address: Address::Ip(address),
        }
    }
}

/// The longest name of a source in a packet.
pub(super) const fn name_length() -> usize {
    NAME
}

/// Octets of the heading, for who looks at packets.
#[must_use]
pub const fn heading() -> usize {
    HEADING
}

/// Octets of the longest report that a command may have; the shorter form if there are two.
fn longest_report(command: &Command) -> usize {
    match command {
        Command::NSources => 4,
        Command::SourceData(_) | Command::SelectData(_) => 48,
        Command::Tracking => 76,
        Command::SourceStats(_) => 56,
        Command::RtcReport => 28,
        Command::SetTime(_) => 12,
        Command::ManualList => 388,
        Command::Activity => 20,
        Command::Smoothing => 24,
        Command::ServerStats => 44,
        Command::NtpData(_) => 124,
        Command::SourceName(_) => name_length(),
        Command::AuthData(_) => 24,
        Command::Clients { .. } => 12 + MAX_CLIENTS * 60,
        _ => 0,
    }
}
