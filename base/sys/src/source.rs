//! The local address of a reply: the one that the query was sent to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::control::{Parsed, messages, put_source};

/// The local address of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The one the socket is bound to, or the kernel's choice.
    Bound,
    /// The IPv4 address the query was sent to.
    V4(Ipv4Addr),
    /// The IPv6 address the query was sent to, with the interface if it is link-local.
    V6(Ipv6Addr, u32),
}

impl Source {
    /// The address; one of IPv4 mapped into IPv6 is given as IPv4.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        match *self {
            Self::Bound => None,
            Self::V4(address) => Some(address.into()),
            Self::V6(address, _) => Some(IpAddr::V6(address).to_canonical()),
        }
    }

    /// The source of a reply to a datagram that came to `address` over `interface`.
    fn of_destination(address: IpAddr, interface: u32) -> Self {
        let address = match address {
            IpAddr::V4(address) if address.is_unspecified() => return Self::Bound,
            IpAddr::V4(address) => return Self::V4(address),
            IpAddr::V6(address) => address,
        };
        let cannot_send = match address.to_ipv4_mapped() {
            Some(address) => address.is_multicast() || address.is_broadcast(),
            None => address.is_multicast() || address.is_unspecified(),
        };
        if cannot_send {
            return Self::Bound;
        }
        // The interface matters where the address means nothing without; elsewhere routing decides.
        let is_local = address.is_unicast_link_local();
        Self::V6(address, if is_local { interface } else { 0 })
    }

    /// Writes the control message that makes a reply leave from here behind the first `length` octets;
    /// gives the length of all.
    pub fn put(&self, room: &mut [u8], length: usize) -> usize {
        match *self {
            Self::Bound => length,
            Self::V4(address) => put_source(room, length, address.into(), 0),
            Self::V6(address, interface) => put_source(room, length, address.into(), interface),
        }
    }
}

/// The control messages of a datagram, read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ancillary {
    /// The local address of a reply.
    pub source: Source,
    /// The time of arrival or departure, since 1970.
    pub stamp: Option<Duration>,
    /// The length of each datagram, if the kernel merged several of them.
    pub merged: Option<u16>,
}

impl Ancillary {
    /// No control message was requested.
    pub const NONE: Self = Self {
        source: Source::Bound,
        stamp: None,
        merged: None,
    };

    /// Reads the control messages of a received datagram.
    #[must_use]
    pub fn read(control: &[u8]) -> Self {
        let mut ancillary = Self::NONE;
        for message in messages(control) {
            match message.parsed() {
                Parsed::Destination { address, interface } => {
                    ancillary.source = Source::of_destination(address, interface);
                }
                Parsed::Stamps { software, .. } => {
                    let nanoseconds = software.and_then(|stamp| u64::try_from(stamp).ok());
                    ancillary.stamp = nanoseconds.map(Duration::from_nanos);
                }
                Parsed::Merged(length) => {
                    ancillary.merged = Some(length).filter(|length| *length > 0);
                }
                _ => {}
            }
        }
        ancillary
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{put, put_stamp_request};

    const ROOM: usize = 160;

    fn only(source: Source) -> Ancillary {
        Ancillary {
            source,
            stamp: None,
            merged: None,
        }
    }

    #[test]
    fn a_stamp_is_read_beside_the_source() {
        let message = |seconds: i64, nanoseconds: i64| {
            let mut data = seconds.to_ne_bytes().to_vec();
            data.extend(nanoseconds.to_ne_bytes());
            data.extend([0xff; 32]);
            let mut message = [0; 64];
            let (level, kind) = (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING);
            let length = put(&mut message, 0, level, kind, &data);
            assert_eq!(length, message.len());
            message
        };
        let source = Source::V4(Ipv4Addr::new(127, 0, 0, 2));
        let mut rest = [0; ROOM];
        let length = source.put(&mut rest, 0);
        for (seconds, nanoseconds, stamp) in [
            (0, 1, Some(Duration::from_nanos(1))),
            (1_800_000_000, 7, Some(Duration::new(1_800_000_000, 7))),
            (0, 0, None),
            (-1, 999_999_999, None),
            (1, -1, None),
        ] {
            let control = [&message(seconds, nanoseconds), &rest[..length]].concat();
            let ancillary = Ancillary {
                stamp,
                ..only(source)
            };
            assert_eq!(Ancillary::read(&control), ancillary);
            let control = [&rest[..length], &message(seconds, nanoseconds)].concat();
            assert_eq!(Ancillary::read(&control), ancillary);
        }
    }

    #[test]
    fn asking_when_a_reply_leaves_leaves_its_source_as_it_is() {
        for source in [Source::Bound, Source::V6(Ipv6Addr::LOCALHOST, 0)] {
            let mut room = [0xaa; ROOM];
            let length = source.put(&mut room, 0);
            let both = put_stamp_request(&mut room, length, 2);
            assert_eq!(Ancillary::read(&room[..both]), only(source));
            let asked = messages(&room[length..both]).next().unwrap();
            assert_eq!((asked.data.len(), asked.level), (4, libc::SOL_SOCKET));
            assert_eq!(asked.kind, libc::SO_TIMESTAMPING);
        }
    }

    #[test]
    fn a_source_is_read_as_it_is_written() {
        for source in [
            Source::V4(Ipv4Addr::new(127, 0, 0, 2)),
            Source::V6("2001:db8::2".parse().unwrap(), 0),
            Source::V6("fe80::2".parse().unwrap(), 7),
            Source::V6("::ffff:10.0.0.1".parse().unwrap(), 0),
        ] {
            let mut control = [0xaa; ROOM];
            let length = source.put(&mut control, 0);
            assert_eq!(Ancillary::read(&control[..length]), only(source));
        }
        assert_eq!(Source::Bound.put(&mut [0; ROOM], 0), 0);
    }

    #[test]
    fn addresses_nothing_can_be_sent_from_are_left_to_the_kernel() {
        for address in [
            "ff02::1",
            "::",
            "::ffff:224.0.0.1",
            "::ffff:255.255.255.255",
        ] {
            let mut control = [0; ROOM];
            let length = Source::V6(address.parse().unwrap(), 3).put(&mut control, 0);
            let read = Ancillary::read(&control[..length]);
            assert_eq!(read, only(Source::Bound), "{address}");
        }
        let mut control = [0; ROOM];
        let length = Source::V4(Ipv4Addr::UNSPECIFIED).put(&mut control, 0);
        assert_eq!(Ancillary::read(&control[..length]), only(Source::Bound));
    }

    #[test]
    fn malformed_control_messages_end_the_search() {
        let mut control = [0; ROOM];
        let length = Source::V4(Ipv4Addr::LOCALHOST).put(&mut control, 0);
        for cut in 0..length - 4 {
            let read = Ancillary::read(&control[..cut]);
            assert_eq!(read, only(Source::Bound), "{cut}");
        }
        control[..8].copy_from_slice(&usize::MAX.to_ne_bytes());
        assert_eq!(Ancillary::read(&control), only(Source::Bound));
        assert_eq!(Ancillary::read(&[0; ROOM]), only(Source::Bound));
    }

    #[test]
    fn another_message_before_the_one_wanted_is_passed_over() {
        let mut first = [0; ROOM];
        let source = Source::V4(Ipv4Addr::new(10, 0, 0, 1));
        let length = source.put(&mut first, 0);
        let mut other = first;
        // The same length, of an unknown type.
        other[12..16].copy_from_slice(&99_i32.to_ne_bytes());
        let both = [&other[..length], &first[..length]].concat();
        assert_eq!(Ancillary::read(&both), only(source));
    }
}
