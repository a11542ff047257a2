//! Fields of packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::float;
use time_model::time::{SECOND, UnixTime};

/// The upper half of seconds in a packet of a program whose times have 32 bits.
const NO_HIGH_SECONDS: u32 = 0x7fff_ffff;

/// An address as packets have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Address {
    /// None.
    #[default]
    Unspecified,
    /// One.
    Ip(IpAddr),
    /// The number of a source that has none yet.
    Id(u32),
}

impl From<Option<IpAddr>> for Address {
    fn from(address: Option<IpAddr>) -> Self {
        address.map_or(Self::Unspecified, Self::Ip)
    }
}

/// Octets to read; a read beyond the end returns none.
pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[octet]| octet)
    }

    pub(super) fn i8(&mut self) -> Option<i8> {
        self.u8().map(u8::cast_signed)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    pub(super) fn i16(&mut self) -> Option<i16> {
        self.take().map(i16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    pub(super) fn float(&mut self) -> Option<f64> {
        self.u32().map(float::decode)
    }

    /// 16 octets, the family and two octets of nothing.
    pub(super) fn address(&mut self) -> Option<Address> {
        let octets = self.take::<16>()?;
        let family = self.u16()?;
        self.u16()?;
        let [a, b, c, d, ..] = octets;
        Some(match family {
            1 => Address::Ip(Ipv4Addr::new(a, b, c, d).into()),
            2 => Address::Ip(Ipv6Addr::from(octets).into()),
            3 => Address::Id(u32::from_be_bytes([a, b, c, d])),
            _ => Address::Unspecified,
        })
    }

    /// Seconds in two halves, and nanoseconds.
    pub(super) fn time(&mut self) -> Option<UnixTime> {
        let (high, low) = (self.u32()?, self.u32()?);
        // A client whose clock has 32 bits has nothing to say of the others.
        let high = if high == NO_HIGH_SECONDS { 0 } else { high };
        let seconds = (u64::from(high) << 32 | u64::from(low)).cast_signed();
        let nanoseconds = self.u32()?;
        let time = seconds.saturating_mul(SECOND);
        Some(UnixTime(time.saturating_add(nanoseconds.into())))
    }
}

/// Octets that are written.
#[derive(Default)]
pub(super) struct Output(pub(super) Vec<u8>);

impl Output {
    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.0.extend(value.to_be_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_be_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_be_bytes());
    }

    pub(super) fn float(&mut self, value: f64) {
        self.u32(float::encode(value));
    }

    pub(super) fn zeros(&mut self, n: usize) {
        self.0.resize(self.0.len() + n, 0);
    }

    pub(super) fn address(&mut self, address: Address) {
        let (octets, family) = match address {
            Address::Unspecified => ([0; 16], 0),
            Address::Ip(IpAddr::V4(v4)) => (front(v4.octets()), 1),
            Address::Ip(IpAddr::V6(v6)) => (v6.octets(), 2),
            Address::Id(id) => (front(id.to_be_bytes()), 3),
        };
        self.0.extend(octets);
        self.u16(family);
        self.u16(0);
    }

    pub(super) fn time(&mut self, time: UnixTime) {
        self.u64(time.0.div_euclid(SECOND).cast_unsigned());
        self.u32(u32::try_from(time.0.rem_euclid(SECOND)).unwrap_or_default());
    }
}

fn front([a, b, c, d]: [u8; 4]) -> [u8; 16] {
    [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}
