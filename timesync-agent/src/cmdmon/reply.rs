//! What chronyc is told.

use std::net::IpAddr;

use super::request::{Command, name_length};
use super::wire::{Input, Output};
use super::{REPLY_HEADING, VERSION};
use crate::time::UnixTime;

pub use super::wire::Address;

const IS_REPLY: u8 = 2;
/// Clients in a reply.
pub const MAX_CLIENTS: usize = 8;
/// "Never", where seconds are counted.
pub const NEVER: u32 = u32::MAX;
/// Octets of `NTP_DATA` with what chrony 4.4 added.
const NTP_DATA_2: usize = 144;
/// Octets of `SERVER_STATS` as chrony 4.4 has it.
const SERVER_STATS_4: usize = 168;

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are chrony's, and the sentences are in `text`")]
#[repr(u16)]
pub enum Status {
    Success = 0,
    Failed = 1,
    Unauthorised = 2,
    Invalid = 3,
    NoSuchSource = 4,
    NotEnabled = 6,
    BadSubnet = 7,
    AccessAllowed = 8,
    AccessDenied = 9,
    SourceAlreadyKnown = 11,
    TooManySources = 12,
    NoRtc = 13,
    BadRtcFile = 14,
    Inactive = 15,
    BadSample = 16,
    InvalidFamily = 17,
    BadPacketVersion = 18,
    BadPacketLength = 19,
    InvalidName = 21,
}

impl Status {
    const ALL: [Self; 19] = [
        Self::Success,
        Self::Failed,
        Self::Unauthorised,
        Self::Invalid,
        Self::NoSuchSource,
        Self::NotEnabled,
        Self::BadSubnet,
        Self::AccessAllowed,
        Self::AccessDenied,
        Self::SourceAlreadyKnown,
        Self::TooManySources,
        Self::NoRtc,
        Self::BadRtcFile,
        Self::Inactive,
        Self::BadSample,
        Self::InvalidFamily,
        Self::BadPacketVersion,
        Self::BadPacketLength,
        Self::InvalidName,
    ];

    fn of(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|status| *status as u16 == number)
    }

    /// As chronyc prints it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Success => "200 OK",
            Self::AccessAllowed => "208 Access allowed",
            Self::AccessDenied => "209 Access denied",
            Self::Failed => "500 Failure",
            Self::Unauthorised => "501 Not authorised",
            Self::Invalid => "502 Invalid command",
            Self::NoSuchSource => "503 No such source",
            Self::NotEnabled => "505 Facility not enabled in daemon",
            Self::BadSubnet => "507 Bad subnet",
            Self::SourceAlreadyKnown => "511 Source already present",
            Self::TooManySources => "512 Too many sources present",
            Self::NoRtc => "513 RTC driver not running",
            Self::BadRtcFile => "514 Can't write RTC parameters",
            Self::InvalidFamily => "515 Invalid address family",
            Self::BadSample => "516 Sample index out of range",
            Self::BadPacketVersion => "517 Protocol version mismatch",
            Self::BadPacketLength => "518 Packet length mismatch",
            Self::Inactive => "519 Client logging is not active in the daemon",
            Self::InvalidName => "521 Invalid name",
        }
    }

    /// Whether chronyc ends well.
    #[must_use]
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Success | Self::AccessAllowed | Self::AccessDenied)
    }
}

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// What was asked.
    pub command: u16,
    /// The number of the request.
    pub sequence: u32,
    /// How it went.
    pub status: Status,
    /// What is told.
    pub report: Report,
}

/// What is told; the names are chrony's, and so are the signs.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// Nothing.
    Null,
    /// How many sources there are.
    NSources(u32),
    /// A source.
    SourceData(SourceData),
    /// The clock.
    Tracking(Tracking),
    /// Statistics of a source.
    SourceStats(SourceStats),
    /// Times set by hand, of which there are none.
    ManualList,
    /// How many sources do what.
    Activity(Activity),
    /// The last packet of a source.
    NtpData(Box<NtpData>),
    /// The name of a source.
    SourceName(String),
    /// How a source is authenticated.
    AuthData(AuthData),
    /// Clients.
    Clients(Clients),
    /// What the server did.
    ServerStats(ServerStats),
    /// What selection made of a source.
    SelectData(SelectData),
}

/// `SOURCE_DATA`. Offsets are positive if the local clock is ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names are chrony's")]
pub struct SourceData {
    pub address: Address,
    pub poll: i16,
    pub stratum: u16,
    /// Index into `*?x~+-`.
    pub state: u16,
    /// Index into `^=#`.
    pub mode: u16,
    pub flags: u16,
    pub reachability: u16,
    pub since_sample: u32,
    pub original_offset: f64,
    pub offset: f64,
    pub error: f64,
}

/// `TRACKING`. The correction is positive if the clock is behind, the last offset if it is ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names are chrony's")]
pub struct Tracking {
    pub reference_id: u32,
    pub address: Address,
    pub stratum: u16,
    pub leap: u16,
    pub reference_time: UnixTime,
    pub current_correction: f64,
    pub last_offset: f64,
    pub rms_offset: f64,
    pub frequency: f64,
    pub residual_frequency: f64,
    pub skew: f64,
    pub root_delay: f64,
    pub root_dispersion: f64,
    pub last_update_interval: f64,
}

/// `SOURCESTATS`. The offset is positive if the local clock is ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names are chrony's")]
pub struct SourceStats {
    pub reference_id: u32,
    pub address: Address,
    pub n_samples: u32,
    pub n_runs: u32,
    pub span: u32,
    pub deviation: f64,
    pub residual_frequency: f64,
    pub skew: f64,
    pub offset: f64,
    pub offset_error: f64,
}

/// `ACTIVITY`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are chrony's")]
pub struct Activity {
    pub online: u32,
    pub offline: u32,
    pub burst_online: u32,
    pub burst_offline: u32,
    pub unresolved: u32,
}

/// `NTP_DATA`. The offset is positive if the local clock is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names are chrony's")]
pub struct NtpData {
    pub remote_address: Address,
    pub local_address: Address,
    pub remote_port: u16,
    pub leap: u8,
    pub version: u8,
    pub mode: u8,
    pub stratum: u8,
    pub poll: i8,
    pub precision: i8,
    pub root_delay: f64,
    pub root_dispersion: f64,
    pub reference_id: u32,
    pub reference_time: UnixTime,
    pub offset: f64,
    pub peer_delay: f64,
    pub peer_dispersion: f64,
    pub response_time: f64,
    pub jitter_asymmetry: f64,
    /// Tests in the lower ten bits, interleaved 0x4000, authenticated 0x8000.
    pub flags: u16,
    pub transmit_stamp: u8,
    pub receive_stamp: u8,
    pub total_sent: u32,
    pub total_received: u32,
    pub total_valid: u32,
    pub total_good: u32,
}

/// `AUTH_DATA`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are chrony's")]
pub struct AuthData {
    /// 0 none, 1 symmetric key, 2 NTS.
    pub mode: u16,
    pub key_type: u16,
    pub key_id: u32,
    pub key_length: u16,
}

/// `CLIENT_ACCESSES_BY_INDEX3`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are chrony's")]
pub struct Clients {
    pub n_indices: u32,
    pub next_index: u32,
    pub clients: Vec<Client>,
}

/// A client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are chrony's")]
pub struct Client {
    pub address: Address,
    pub ntp_hits: u32,
    pub command_hits: u32,
    pub ntp_drops: u32,
    pub command_drops: u32,
    pub ntp_interval: i8,
    pub command_interval: i8,
    pub ntp_timeout_interval: i8,
    pub last_ntp_hit: u32,
    pub last_command_hit: u32,
}

/// `SERVER_STATS3` and, where it was asked for, `SERVER_STATS4`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are chrony's")]
pub struct ServerStats {
    pub ntp_hits: u64,
    pub command_hits: u64,
    pub ntp_drops: u64,
    pub command_drops: u64,
    pub log_drops: u64,
    pub ntp_auth_hits: u64,
    pub ntp_interleaved_hits: u64,
    pub ntp_timestamps: u64,
    pub ntp_span: u64,
    /// Stamps of requests by the process, by the kernel and by the card; of answers the same.
    pub received_by: [u64; 3],
    pub transmitted_by: [u64; 3],
}

/// `SELECT_DATA`
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names are chrony's")]
pub struct SelectData {
    pub reference_id: u32,
    pub address: Address,
    pub state: u8,
    pub authentication: u8,
    pub leap: u8,
    pub configured_options: u16,
    pub effective_options: u16,
    pub since_sample: u32,
    pub score: f64,
    pub low: f64,
    pub high: f64,
}

/// Octets of the longest report that a command may have; of those with two forms, of the shorter.
pub(super) fn longest_report(command: &Command) -> usize {
    match command {
        Command::NSources => 4,
        Command::SourceData(_) | Command::SelectData(_) => 48,
        Command::Tracking => 76,
        Command::SourceStats(_) => 56,
        Command::RtcReport => 28,
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

impl Reply {
    /// The packet, never longer than the request was.
    #[must_use]
    pub fn to_octets(&self, request_length: usize) -> Vec<u8> {
        let room = request_length.saturating_sub(REPLY_HEADING);
        let mut body = Output::default();
        let kind = self.report.write(&mut body, room);
        let mut output = Output::default();
        output.u8(VERSION);
        output.u8(IS_REPLY);
        output.u16(0);
        output.u16(self.command);
        output.u16(kind);
        output.u16(self.status as u16);
        output.zeros(6);
        output.u32(self.sequence);
        output.zeros(8);
        output.0.append(&mut body.0);
        // Parsing has seen to it; whatever happens, nobody is sent more than came from them.
        output.0.truncate(request_length);
        output.0
    }

    /// Takes a datagram apart.
    #[must_use]
    pub fn parse(datagram: &[u8]) -> Option<Self> {
        let mut input = Input(datagram);
        let (version, packet) = (input.u8()?, input.u8()?);
        input.u16()?;
        let (command, kind) = (input.u16()?, input.u16()?);
        let status = Status::of(input.u16()?)?;
        input.u16()?;
        input.u32()?;
        let sequence = input.u32()?;
        input.u64()?;
        if version != VERSION || packet != IS_REPLY {
            return None;
        }
        Some(Self {
            command,
            sequence,
            status,
            report: Report::read(kind, &mut input)?,
        })
    }
}

impl Report {
    /// Writes it, and gives its number.
    fn write(&self, to: &mut Output, room: usize) -> u16 {
        match self {
            Self::Null => 1,
            Self::NSources(n) => {
                to.u32(*n);
                2
            }
            Self::SourceData(data) => {
                data.write(to);
                3
            }
            Self::Tracking(tracking) => {
                tracking.write(to);
                5
            }
            Self::SourceStats(stats) => {
                stats.write(to);
                6
            }
            Self::Activity(activity) => {
                to.u32(activity.online);
                to.u32(activity.offline);
                to.u32(activity.burst_online);
                to.u32(activity.burst_offline);
                to.u32(activity.unresolved);
                12
            }
            Self::NtpData(data) => {
                data.write(to);
                // Who left more room knows what chrony 4.4 added: by whom stamps were taken.
                if room > to.0.len() {
                    to.0.resize(NTP_DATA_2.min(room), 0);
                    return 26;
                }
                16
            }
            Self::ManualList => {
                to.zeros(388);
                18
            }
            Self::SourceName(name) => {
                let bytes = name.as_bytes();
                let length = bytes.len().min(name_length() - 1);
                to.0.extend(bytes.get(..length).unwrap_or_default());
                to.zeros(name_length() - length);
                19
            }
            Self::AuthData(data) => {
                to.u16(data.mode);
                to.u16(data.key_type);
                to.u32(data.key_id);
                to.u16(data.key_length);
                to.u16(0);
                to.u32(NEVER);
                to.zeros(8);
                20
            }
            Self::Clients(clients) => {
                clients.write(to);
                21
            }
            Self::SelectData(data) => {
                data.write(to);
                23
            }
            Self::ServerStats(stats) if room < SERVER_STATS_4 => {
                let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
                stats.in_order().map(narrow).into_iter().for_each(|n| to.u32(n));
                24
            }
            Self::ServerStats(stats) => {
                stats.in_order().into_iter().for_each(|n| to.u64(n));
                let [d, k, h] = stats.received_by;
                let [e, l, i] = stats.transmitted_by;
                [d, e, k, l, h, i].into_iter().for_each(|n| to.u64(n));
                to.zeros(32);
                25
            }
        }
    }

    fn read(kind: u16, input: &mut Input<'_>) -> Option<Self> {
        Some(match kind {
            1 => Self::Null,
            2 => Self::NSources(input.u32()?),
            3 => Self::SourceData(SourceData::read(input)?),
            5 => Self::Tracking(Tracking::read(input)?),
            6 => Self::SourceStats(SourceStats::read(input)?),
            12 => Self::Activity(Activity {
                online: input.u32()?,
                offline: input.u32()?,
                burst_online: input.u32()?,
                burst_offline: input.u32()?,
                unresolved: input.u32()?,
            }),
            16 | 26 => Self::NtpData(Box::new(NtpData::read(input)?)),
            18 => Self::ManualList,
            19 => {
                let name = input.0.get(..name_length())?;
                let end = name.iter().position(|octet| *octet == 0).unwrap_or(name.len());
                let name = name.get(..end).unwrap_or_default();
                Self::SourceName(String::from_utf8_lossy(name).into_owned())
            }
            20 => Self::AuthData(AuthData {
                mode: input.u16()?,
                key_type: input.u16()?,
                key_id: input.u32()?,
                key_length: input.u16()?,
            }),
            21 => Self::Clients(Clients::read(input)?),
            23 => Self::SelectData(SelectData::read(input)?),
            24 => Self::ServerStats(ServerStats::read(|| input.u32().map(u64::from))?),
            25 => {
                let mut stats = ServerStats::read(|| input.u64())?;
                for index in 0..3 {
                    *stats.received_by.get_mut(index)? = input.u64()?;
                    *stats.transmitted_by.get_mut(index)? = input.u64()?;
                }
                Self::ServerStats(stats)
            }
            _ => return None,
        })
    }
}

impl SourceData {
    fn write(&self, to: &mut Output) {
        to.address(self.address);
        to.u16(self.poll.cast_unsigned());
        to.u16(self.stratum);
        to.u16(self.state);
        to.u16(self.mode);
        to.u16(self.flags);
        to.u16(self.reachability);
        to.u32(self.since_sample);
        to.float(self.original_offset);
        to.float(self.offset);
        to.float(self.error);
    }

    fn read(from: &mut Input<'_>) -> Option<Self> {
        Some(Self {
            address: from.address()?,
            poll: from.i16()?,
            stratum: from.u16()?,
            state: from.u16()?,
            mode: from.u16()?,
            flags: from.u16()?,
            reachability: from.u16()?,
            since_sample: from.u32()?,
            original_offset: from.float()?,
            offset: from.float()?,
            error: from.float()?,
        })
    }
}

impl Tracking {
    fn write(&self, to: &mut Output) {
        to.u32(self.reference_id);
        to.address(self.address);
        to.u16(self.stratum);
        to.u16(self.leap);
        to.time(self.reference_time);
        to.float(self.current_correction);
        to.float(self.last_offset);
        to.float(self.rms_offset);
        to.float(self.frequency);
        to.float(self.residual_frequency);
        to.float(self.skew);
        to.float(self.root_delay);
        to.float(self.root_dispersion);
        to.float(self.last_update_interval);
    }

    fn read(from: &mut Input<'_>) -> Option<Self> {
        Some(Self {
            reference_id: from.u32()?,
            address: from.address()?,
            stratum: from.u16()?,
            leap: from.u16()?,
            reference_time: from.time()?,
            current_correction: from.float()?,
            last_offset: from.float()?,
            rms_offset: from.float()?,
            frequency: from.float()?,
            residual_frequency: from.float()?,
            skew: from.float()?,
            root_delay: from.float()?,
            root_dispersion: from.float()?,
            last_update_interval: from.float()?,
        })
    }
}

impl SourceStats {
    fn write(&self, to: &mut Output) {
        to.u32(self.reference_id);
        to.address(self.address);
        to.u32(self.n_samples);
        to.u32(self.n_runs);
        to.u32(self.span);
        to.float(self.deviation);
        to.float(self.residual_frequency);
        to.float(self.skew);
        to.float(self.offset);
        to.float(self.offset_error);
    }

    fn read(from: &mut Input<'_>) -> Option<Self> {
        Some(Self {
            reference_id: from.u32()?,
            address: from.address()?,
            n_samples: from.u32()?,
            n_runs: from.u32()?,
            span: from.u32()?,
            deviation: from.float()?,
            residual_frequency: from.float()?,
            skew: from.float()?,
            offset: from.float()?,
            offset_error: from.float()?,
        })
    }
}

impl NtpData {
    fn write(&self, to: &mut Output) {
        to.address(self.remote_address);
        to.address(self.local_address);
        to.u16(self.remote_port);
        to.u8(self.leap);
        to.u8(self.version);
        to.u8(self.mode);
        to.u8(self.stratum);
        to.u8(self.poll.cast_unsigned());
        to.u8(self.precision.cast_unsigned());
        to.float(self.root_delay);
        to.float(self.root_dispersion);
        to.u32(self.reference_id);
        to.time(self.reference_time);
        to.float(self.offset);
        to.float(self.peer_delay);
        to.float(self.peer_dispersion);
        to.float(self.response_time);
        to.float(self.jitter_asymmetry);
        to.u16(self.flags);
        to.u8(self.transmit_stamp);
        to.u8(self.receive_stamp);
        to.u32(self.total_sent);
        to.u32(self.total_received);
        to.u32(self.total_valid);
        to.u32(self.total_good);
        to.zeros(12);
    }

    fn read(from: &mut Input<'_>) -> Option<Self> {
        Some(Self {
            remote_address: from.address()?,
            local_address: from.address()?,
            remote_port: from.u16()?,
            leap: from.u8()?,
            version: from.u8()?,
            mode: from.u8()?,
            stratum: from.u8()?,
            poll: from.i8()?,
            precision: from.i8()?,
            root_delay: from.float()?,
            root_dispersion: from.float()?,
            reference_id: from.u32()?,
            reference_time: from.time()?,
            offset: from.float()?,
            peer_delay: from.float()?,
            peer_dispersion: from.float()?,
            response_time: from.float()?,
            jitter_asymmetry: from.float()?,
            flags: from.u16()?,
            transmit_stamp: from.u8()?,
            receive_stamp: from.u8()?,
            total_sent: from.u32()?,
            total_received: from.u32()?,
            total_valid: from.u32()?,
            total_good: from.u32()?,
        })
    }
}

impl Clients {
    fn write(&self, to: &mut Output) {
        to.u32(self.n_indices);
        to.u32(self.next_index);
        to.u32(u32::try_from(self.clients.len().min(MAX_CLIENTS)).unwrap_or_default());
        for client in self.clients.iter().take(MAX_CLIENTS) {
            to.address(client.address);
            to.u32(client.ntp_hits);
            to.u32(0);
            to.u32(client.command_hits);
            to.u32(client.ntp_drops);
            to.u32(0);
            to.u32(client.command_drops);
            to.u8(client.ntp_interval.cast_unsigned());
            to.u8(i8::MAX.cast_unsigned());
            to.u8(client.command_interval.cast_unsigned());
            to.u8(client.ntp_timeout_interval.cast_unsigned());
            to.u32(client.last_ntp_hit);
            to.u32(NEVER);
            to.u32(client.last_command_hit);
        }
        to.zeros(MAX_CLIENTS.saturating_sub(self.clients.len()) * 60);
    }

    fn read(from: &mut Input<'_>) -> Option<Self> {
        let (n_indices, next_index, n) = (from.u32()?, from.u32()?, from.u32()?);
        let mut clients = Vec::new();
        for _ in 0..(n as usize).min(MAX_CLIENTS) {
            let mut client = Client {
                address: from.address()?,
                ntp_hits: from.u32()?,
                ..Client::default()
            };
            from.u32()?;
            client.command_hits = from.u32()?;
            client.ntp_drops = from.u32()?;
            from.u32()?;
            client.command_drops = from.u32()?;
            client.ntp_interval = from.i8()?;
            from.i8()?;
            client.command_interval = from.i8()?;
            client.ntp_timeout_interval = from.i8()?;
            client.last_ntp_hit = from.u32()?;
            from.u32()?;
            client.last_command_hit = from.u32()?;
            clients.push(client);
        }
        Some(Self {
            n_indices,
            next_index,
            clients,
        })
    }
}

impl ServerStats {
    /// The counters of `SERVER_STATS3`; those of NTS are 0.
    fn in_order(&self) -> [u64; 11] {
        [
            self.ntp_hits,
            0,
            self.command_hits,
            self.ntp_drops,
            0,
            self.command_drops,
            self.log_drops,
            self.ntp_auth_hits,
            self.ntp_interleaved_hits,
            self.ntp_timestamps,
            self.ntp_span,
        ]
    }

    fn read(mut next: impl FnMut() -> Option<u64>) -> Option<Self> {
        let mut stats = Self {
            ntp_hits: next()?,
            ..Self::default()
        };
        next()?;
        stats.command_hits = next()?;
        stats.ntp_drops = next()?;
        next()?;
        stats.command_drops = next()?;
        stats.log_drops = next()?;
        stats.ntp_auth_hits = next()?;
        stats.ntp_interleaved_hits = next()?;
        stats.ntp_timestamps = next()?;
        stats.ntp_span = next()?;
        Some(stats)
    }
}

impl SelectData {
    fn write(&self, to: &mut Output) {
        to.u32(self.reference_id);
        to.address(self.address);
        to.u8(self.state);
        to.u8(self.authentication);
        to.u8(self.leap);
        to.u8(0);
        to.u16(self.configured_options);
        to.u16(self.effective_options);
        to.u32(self.since_sample);
        to.float(self.score);
        to.float(self.low);
        to.float(self.high);
    }

    fn read(from: &mut Input<'_>) -> Option<Self> {
        let (reference_id, address) = (from.u32()?, from.address()?);
        let (state, authentication, leap) = (from.u8()?, from.u8()?, from.u8()?);
        from.u8()?;
        Some(Self {
            reference_id,
            address,
            state,
            authentication,
            leap,
            configured_options: from.u16()?,
            effective_options: from.u16()?,
            since_sample: from.u32()?,
            score: from.float()?,
            low: from.float()?,
            high: from.float()?,
        })
    }
}

/// The address of a source as reports have it: a reference clock has its ID there, as an IPv4 address.
#[must_use]
pub fn clock_address(reference_id: u32) -> Address {
    Address::Ip(IpAddr::V4(reference_id.into()))
}
