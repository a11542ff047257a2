//! The replies to chronyc.

use std::net::IpAddr;

use super::request::name_length;
use super::wire::{Input, Output};
use super::{REPLY_HEADING, VERSION};
use time_model::view::ManualView;
use timekeeper::Entered;

pub use super::report::{
    Activity, AuthData, Client, Clients, MAX_CLIENTS, NEVER, NtpData, SelectData, ServerStats,
    Smoothing, SourceData, SourceStats, Tracking,
};
pub use super::status::Status;
pub use super::wire::Address;

const IS_REPLY: u8 = 2;
/// Octets of `NTP_DATA` with what chrony 4.4 added.
const NTP_DATA_2: usize = 144;
/// Octets of `SERVER_STATS` as chrony 4.4 has it.
const SERVER_STATS_4: usize = 168;
/// Entries in a reply to `MANUAL_LIST`, and octets of each.
const MAX_ENTRIES: usize = 16;
const ENTRY: usize = 24;

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The command of the request.
    pub command: u16,
    /// The number of the request.
    pub sequence: u32,
    /// How it went.
    pub status: Status,
    /// The report.
    pub report: Report,
}

/// The report; the names are chrony's, and so are the signs.
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
    /// The result of a time that was entered.
    ManualTimestamp(Entered),
    /// Times that were entered.
    ManualList(Vec<ManualView>),
    /// How many sources do what.
    Activity(Activity),
    /// The time for clients, if it is smoothed.
    Smoothing(Smoothing),
    /// The last packet of a source.
    NtpData(Box<NtpData>),
    /// The name of a source.
    SourceName(String),
    /// How a source is authenticated.
    AuthData(AuthData),
    /// Clients.
    Clients(Clients),
    /// The counters of the server.
    ServerStats(ServerStats),
    /// The result of selection for a source.
    SelectData(SelectData),
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
        // Parsing has checked the length; a reply is never longer than its request all the same.
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
    #[expect(clippy::too_many_lines, reason = "a line or two for each field")]
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
            Self::Smoothing(smoothing) => {
                smoothing.write(to);
                13
            }
            Self::NtpData(data) => {
                data.write(to);
                // A client that left more room knows the fields of chrony 4.4: the sources of timestamps.
                if room > to.0.len() {
                    to.0.resize(NTP_DATA_2.min(room), 0);
                    return 26;
                }
                16
            }
            Self::ManualTimestamp(entered) => {
                to.float(entered.offset);
                to.float(entered.frequency_change);
                to.float(entered.frequency);
                17
            }
            Self::ManualList(entries) => {
                write_manual_list(entries, to);
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
                stats
                    .in_order()
                    .map(narrow)
                    .into_iter()
                    .for_each(|n| to.u32(n));
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
            13 => Self::Smoothing(Smoothing::read(input)?),
            16 | 26 => Self::NtpData(Box::new(NtpData::read(input)?)),
            17 => Self::ManualTimestamp(Entered {
                offset: input.float()?,
                frequency_change: input.float()?,
                frequency: input.float()?,
            }),
            18 => Self::ManualList(read_manual_list(input)?),
            19 => {
                let name = input.0.get(..name_length())?;
                let end = name
                    .iter()
                    .position(|octet| *octet == 0)
                    .unwrap_or(name.len());
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

/// The number of entries, and places for all that there may be.
fn write_manual_list(entries: &[ManualView], to: &mut Output) {
    let shown = entries.len().min(MAX_ENTRIES);
    to.u32(u32::try_from(shown).unwrap_or_default());
    for entry in entries.iter().take(shown) {
        to.time(entry.at);
        to.float(entry.offset);
        to.float(entry.original_offset);
        to.float(entry.residual);
    }
    to.zeros((MAX_ENTRIES - shown) * ENTRY);
}

fn read_manual_list(input: &mut Input<'_>) -> Option<Vec<ManualView>> {
    let n = usize::try_from(input.u32()?).ok()?.min(MAX_ENTRIES);
    (0..n)
        .map(|_| {
            Some(ManualView {
                at: input.time()?,
                offset: input.float()?,
                original_offset: input.float()?,
                residual: input.float()?,
            })
        })
        .collect()
}

/// The address of a source as reports have it: a reference clock has its ID there, as an IPv4 address.
#[must_use]
pub fn clock_address(reference_id: u32) -> Address {
    Address::Ip(IpAddr::V4(reference_id.into()))
}
