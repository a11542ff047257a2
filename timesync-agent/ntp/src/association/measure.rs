//! The contents of a response: four times, the offset and the delay from them, and the tests that it passes.

use std::net::IpAddr;

use md5::{Digest as _, Md5};

use super::{Context, RawStamp};
use crate::wire::Packet;
use time_model::time::{NtpTimestamp, RawTime, Span, UnixTime};
use time_model::view::Leap;
use timekeeper::Reference;

/// The assumed drift between two clocks during a round trip (RFC 5905 §7.2, PHI), in seconds per second.
const DRIFT: f64 = 15e-6;

/// The tests that a response passes; chrony's, as bits from the highest of ten.
pub(super) mod test {
    pub(in crate::association) const DUPLICATE: u16 = 1 << 9;
    pub(in crate::association) const BOGUS: u16 = 1 << 8;
    pub(in crate::association) const TIMESTAMPS: u16 = 1 << 7;
    pub(in crate::association) const AUTHENTICATION: u16 = 1 << 6;
    pub(in crate::association) const SYNCHRONISED: u16 = 1 << 5;
    pub(in crate::association) const DISTANCE: u16 = 1 << 4;
    pub(in crate::association) const DELAY: u16 = 1 << 3;
    pub(in crate::association) const DELAY_RATIO: u16 = 1 << 2;
    pub(in crate::association) const DELAY_DEVIATION: u16 = 1 << 1;
    pub(in crate::association) const LOOP: u16 = 1;
    /// 1, 2, 3 and 5.
    pub(in crate::association) const VALID: u16 = DUPLICATE | BOGUS | TIMESTAMPS | AUTHENTICATION;
    /// 6 and 7.
    pub(in crate::association) const USABLE: u16 = SYNCHRONISED | DISTANCE;
    /// All.
    pub(in crate::association) const GOOD: u16 =
        VALID | USABLE | DELAY | DELAY_RATIO | DELAY_DEVIATION | LOOP;
}

/// T1 to T4 of an exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) sent: RawStamp,
    pub(super) receive: UnixTime,
    pub(super) transmit: UnixTime,
    pub(super) arrived: RawStamp,
    pub(super) root_delay: f64,
    pub(super) root_dispersion: f64,
}

/// The measurement from four times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) at: RawTime,
    pub(super) ahead: i64,
    pub(super) offset: f64,
    pub(super) delay: f64,
    pub(super) dispersion: f64,
    pub(super) response_time: f64,
}

impl Measured {
    /// RFC 5905 §8, with the local times on the raw clock.
    pub(super) fn of(times: &Times, packet: &Packet, context: &Context<'_>) -> Self {
        let local = times.arrived.at - times.sent.at;
        let drift = DRIFT * local.seconds().abs();
        Self::with(times, packet, context, local, drift)
    }

    /// The same between peers, where most of a polling interval passes between the packets: the crystal's gain in that time is
    /// taken out as far as it is known. The unknown rest makes the round trip longer and never shorter, so that the
    /// offset is right within it.
    pub(super) fn between_peers(times: &Times, packet: &Packet, context: &Context<'_>) -> Self {
        let raw = times.arrived.at - times.sent.at;
        let local = raw + Span::from_seconds(raw.seconds() * context.frequency * 1e-9);
        let drift = context.skew * raw.seconds().abs();
        let measured = Self::with(times, packet, context, local, drift);
        Self {
            delay: measured.delay + drift,
            ..measured
        }
    }

    /// `local` is the time between the own packet and the other one, in seconds of true time, and `drift` how far that may be off.
    fn with(
        times: &Times,
        packet: &Packet,
        context: &Context<'_>,
        local: Span,
        drift: f64,
    ) -> Self {
        let remote = times.transmit - times.receive;
        let at = times.sent.at + Span((times.arrived.at - times.sent.at).0 / 2);
        let server = times.receive + Span(remote.0 / 2);
        let precision = context.precision + f64::from(packet.precision).exp2();
        let errors = precision.max(times.sent.error).max(times.arrived.error);
        Self {
            at,
            ahead: server.0.saturating_sub(at.0),
            offset: (server - context.wall(at)).seconds(),
            delay: (local - remote).seconds().abs().max(precision),
            dispersion: errors + drift,
            response_time: remote.seconds().abs(),
        }
    }
}

/// The code of a kiss-o'-death: up to four letters, then zeros (RFC 5905 §7.4). A server that has no time to give has a stratum
/// of 0 as well, and no code, or an address in its place.
pub(super) fn kiss_code(packet: &Packet) -> Option<[u8; 4]> {
    let code = packet.reference_id.to_be_bytes();
    let n_letters = code.iter().take_while(|octet| octet.is_ascii_graphic());
    let n_letters = n_letters.count();
    let is_padded = code.iter().skip(n_letters).all(|octet| *octet == 0);
    let is_kiss = packet.stratum == 0 && packet.leap == Leap::Unsynchronised;
    (is_kiss && n_letters > 0 && is_padded).then_some(code)
}

/// Test D: whether a server has its time from us, or is us.
pub(super) fn is_loop(packet: &Packet, local: Option<IpAddr>, told: Option<&Reference>) -> bool {
    let Some(told) = told else {
        return false;
    };
    let follows_us =
        packet.stratum > 1 && local.is_some_and(|local| reference_id(local) == packet.reference_id);
    let is_us = packet.stratum == told.stratum
        && packet.reference_id == told.reference_id
        && packet.reference_time != NtpTimestamp::ZERO
        && packet.reference_time == NtpTimestamp::of(told.reference_time);
    follows_us || is_us
}

/// The reference ID of a server by its address (RFC 5905 §7.3): IPv4's as it is, of IPv6's the beginning of its MD5 hash.
#[must_use]
pub fn reference_id(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => {
            let digest = Md5::digest(address.octets());
            digest
                .first_chunk()
                .map_or(0, |first| u32::from_be_bytes(*first))
        }
    }
}
