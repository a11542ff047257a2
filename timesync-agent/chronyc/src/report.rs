//! Reports, field by field. The names are chrony's, and so are the signs.

use super::wire::{Address, Input, Output};
use time_model::time::UnixTime;

/// Clients in a reply.
pub const MAX_CLIENTS: usize = 8;
/// "Never", where seconds are counted.
pub const NEVER: u32 = u32::MAX;

/// `SOURCE_DATA`. Offsets are positive if the local clock is ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
pub struct Activity {
    pub online: u32,
    pub offline: u32,
    pub burst_online: u32,
    pub burst_offline: u32,
    pub unresolved: u32,
}

/// `SMOOTHING`. The offset is positive if the time for clients is ahead of the local clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Smoothing {
    pub active: bool,
    pub leap_only: bool,
    pub offset: f64,
    pub frequency: f64,
    pub wander: f64,
    pub last_update_ago: f64,
    pub remaining_time: f64,
}

/// `NTP_DATA`. The offset is positive if the local clock is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
pub struct AuthData {
    /// 0 none, 1 symmetric key, 2 NTS.
    pub mode: u16,
    pub key_type: u16,
    pub key_id: u32,
    pub key_length: u16,
}

/// `CLIENT_ACCESSES_BY_INDEX3`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clients {
    pub n_indices: u32,
    pub next_index: u32,
    pub clients: Vec<Client>,
}

/// A client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Timestamps of requests by the process, by the kernel and by the NIC; the same for responses.
    pub received_by: [u64; 3],
    pub transmitted_by: [u64; 3],
}

/// `SELECT_DATA`
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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

impl SourceData {
    pub(super) fn write(&self, to: &mut Output) {
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

    pub(super) fn read(from: &mut Input<'_>) -> Option<Self> {
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
    pub(super) fn write(&self, to: &mut Output) {
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

    pub(super) fn read(from: &mut Input<'_>) -> Option<Self> {
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

impl Smoothing {
    const ACTIVE: u32 = 1;
    const LEAP_ONLY: u32 = 2;

    pub(super) fn write(&self, to: &mut Output) {
        let flag = |is: bool, flag| if is { flag } else { 0 };
        to.u32(flag(self.active, Self::ACTIVE) | flag(self.leap_only, Self::LEAP_ONLY));
        to.float(self.offset);
        to.float(self.frequency);
        to.float(self.wander);
        to.float(self.last_update_ago);
        to.float(self.remaining_time);
    }

    pub(super) fn read(from: &mut Input<'_>) -> Option<Self> {
        let flags = from.u32()?;
        Some(Self {
            active: flags & Self::ACTIVE != 0,
            leap_only: flags & Self::LEAP_ONLY != 0,
            offset: from.float()?,
            frequency: from.float()?,
            wander: from.float()?,
            last_update_ago: from.float()?,
            remaining_time: from.float()?,
        })
    }
}

impl SourceStats {
    pub(super) fn write(&self, to: &mut Output) {
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

    pub(super) fn read(from: &mut Input<'_>) -> Option<Self> {
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
    pub(super) fn write(&self, to: &mut Output) {
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

    pub(super) fn read(from: &mut Input<'_>) -> Option<Self> {
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
    pub(super) fn write(&self, to: &mut Output) {
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

    pub(super) fn read(from: &mut Input<'_>) -> Option<Self> {
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
    pub(super) fn in_order(&self) -> [u64; 11] {
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

    pub(super) fn read(mut next: impl FnMut() -> Option<u64>) -> Option<Self> {
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
    pub(super) fn write(&self, to: &mut Output) {
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

    pub(super) fn read(from: &mut Input<'_>) -> Option<Self> {
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
