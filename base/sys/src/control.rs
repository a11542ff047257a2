//! Control messages of datagrams, read and written as octets (`cmsg(3)`), without unsafe code.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::copy;

/// Bytes before the data of a control message: length, level and type.
const HEADER: usize = size_of::<libc::cmsghdr>();

/// The control message that names the NIC whose timestamp a packet has (`linux/socket.h`).
const SCM_TIMESTAMPING_PKTINFO: i32 = 58;

const NANOSECONDS: i64 = 1_000_000_000;

/// Room for control messages in the kernel's alignment.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct Room<const N: usize>(pub [u8; N]);

impl<const N: usize> Room<N> {
    /// Nothing in it.
    pub const EMPTY: Self = Self([0; N]);
}

/// A control message as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The protocol it belongs to (`SOL_SOCKET`, `IPPROTO_IP`).
    pub level: i32,
    /// The type of the message, as the protocol numbers them.
    pub kind: i32,
    /// The data behind the header.
    pub data: &'a [u8],
}

/// The contents of a control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The own address that the datagram came to, and the interface (`IP_PKTINFO`, `IPV6_PKTINFO`).
    Destination {
        /// The own address.
        address: IpAddr,
        /// The interface; 0 for none.
        interface: u32,
    },
    /// The times of arrival or departure, in nanoseconds (`SCM_TIMESTAMPING`).
    Stamps {
        /// The kernel's timestamp, on the wall clock.
        software: Option<i64>,
        /// The NIC's timestamp, on its own clock.
        hardware: Option<i64>,
    },
    /// The NIC that took the hardware timestamp (`SCM_TIMESTAMPING_PKTINFO`).
    Card {
        /// The interface; none if it is gone.
        interface: Option<u32>,
        /// How long the frame was.
        frame_length: Option<u32>,
    },
    /// The timestamp is of a datagram that this socket sent, the one with this number (`IP_RECVERR`).
    Sent(u32),
    /// The hop limit of the datagram (`IPV6_HOPLIMIT`).
    HopLimit(u8),
    /// The type of service or traffic class (`IP_TOS`, `IPV6_TCLASS`); the last two bits are ECN.
    TrafficClass(u8),
    /// The kernel merged datagrams of this length, the last of which may be shorter (`UDP_GRO`).
    Merged(u16),
    /// Something else.
    Other,
}

/// Walks the control messages of a datagram, up to the first malformed one.
pub fn messages(control: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = control;
    std::iter::from_fn(move || {
        let (length, level, kind) = read_header(rest)?;
        let data = rest.get(HEADER..length)?;
        let next = length.next_multiple_of(size_of::<usize>());
        rest = rest.get(next..).unwrap_or_default();
        Some(Message { level, kind, data })
    })
}

/// Length, level and type of the first control message, if there is one.
fn read_header(control: &[u8]) -> Option<(usize, i32, i32)> {
    let (length, rest) = control.split_first_chunk::<{ size_of::<usize>() }>()?;
    let length = usize::from_ne_bytes(*length);
    let (level, kind) = (word(rest, 0)?, word(rest, 4)?);
    (length >= HEADER).then_some((length, level.cast_signed(), kind.cast_signed()))
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    let word = data.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*word))
}

impl Message<'_> {
    /// Reads the contents.
    #[must_use]
    pub fn parsed(&self) -> Parsed {
        self.read().unwrap_or(Parsed::Other)
    }

    fn read(&self) -> Option<Parsed> {
        let data = self.data;
        Some(match (self.level, self.kind) {
            // struct in_pktinfo: the interface, the own address, the address in the header (which may be
            // a broadcast).
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => Parsed::Destination {
                address: Ipv4Addr::from(*data.get(4..)?.first_chunk::<4>()?).into(),
                interface: word(data, 0)?,
            },
            // struct in6_pktinfo: the address in the header, and the interface.
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => Parsed::Destination {
                address: Ipv6Addr::from(*data.first_chunk::<16>()?).into(),
                interface: word(data, 16).unwrap_or(0),
            },
            // Three times: the kernel's own, one that is not used any more, the card's.
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => Parsed::Stamps {
                software: time(data, 0),
                hardware: time(data, 32),
            },
            // One time, the kernel's (SO_TIMESTAMPNS).
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => Parsed::Stamps {
                software: time(data, 0),
                hardware: None,
            },
            (libc::SOL_SOCKET, SCM_TIMESTAMPING_PKTINFO) => Parsed::Card {
                interface: word(data, 0).filter(|index| *index != 0),
                frame_length: word(data, 4).filter(|length| *length != 0),
            },
            // struct sock_extended_err: the fifth octet is the origin, the fourth word a number.
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                let is_stamp = data.get(4) == Some(&libc::SO_EE_ORIGIN_TIMESTAMPING);
                Parsed::Sent(word(data, 12).filter(|_| is_stamp)?)
            }
            (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                Parsed::HopLimit(u8::try_from(word(data, 0)?).ok()?)
            }
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                Parsed::TrafficClass(u8::try_from(word(data, 0)?).ok()?)
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => Parsed::TrafficClass(*data.first()?),
            (libc::SOL_UDP, libc::UDP_GRO) => Parsed::Merged(u16::try_from(word(data, 0)?).ok()?),
            _ => return None,
        })
    }
}

/// A `struct timespec` of a machine whose words have 64 bits, in nanoseconds. Zero is none.
fn time(data: &[u8], at: usize) -> Option<i64> {
    let number = |at: usize| -> Option<i64> {
        let octets = data.get(at..)?.first_chunk()?;
        Some(i64::from_ne_bytes(*octets))
    };
    let (seconds, nanoseconds) = (number(at)?, number(at + 8)?);
    let is_sound = (0..NANOSECONDS).contains(&nanoseconds);
    let time = seconds
        .saturating_mul(NANOSECONDS)
        .saturating_add(nanoseconds);
    (is_sound && time != 0).then_some(time)
}

//--- Written

/// Writes a control message behind the first `length` octets; returns the length of all. A message
/// that does not fit is left out.
pub fn put(room: &mut [u8], length: usize, level: i32, kind: i32, data: &[u8]) -> usize {
    let whole = HEADER + data.len();
    let next = length.saturating_add(whole.next_multiple_of(size_of::<usize>()));
    let Some(place) = room.get_mut(length..next) else {
        return length;
    };
    let (head, body) = place.split_at_mut(HEADER);
    let (size, rest) = head.split_at_mut(size_of::<usize>());
    copy(size, &whole.to_ne_bytes());
    copy(rest, &level.to_ne_bytes());
    copy(rest.get_mut(4..).unwrap_or_default(), &kind.to_ne_bytes());
    copy(body, data);
    next
}

/// Writes the control message that makes a datagram leave from `address`; `interface` is for one of IPv6
/// that means nothing without, otherwise 0: the route decides.
pub fn put_source(room: &mut [u8], length: usize, address: IpAddr, interface: u32) -> usize {
    let mut data = [0; 20];
    match address {
        IpAddr::V4(address) => {
            copy(data.get_mut(4..8).unwrap_or_default(), &address.octets());
            let data = data.get(..12).unwrap_or_default();
            put(room, length, libc::IPPROTO_IP, libc::IP_PKTINFO, data)
        }
        IpAddr::V6(address) => {
            copy(&mut data, &address.octets());
            copy(
                data.get_mut(16..).unwrap_or_default(),
                &interface.to_ne_bytes(),
            );
            put(room, length, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &data)
        }
    }
}

/// Writes the control message that makes the kernel cut what is sent into datagrams of `length_of_each`
/// octets, the last of what is left (`UDP_SEGMENT`).
pub fn put_segment(room: &mut [u8], length: usize, length_of_each: u16) -> usize {
    let (level, kind) = (libc::SOL_UDP, libc::UDP_SEGMENT);
    put(room, length, level, kind, &length_of_each.to_ne_bytes())
}

/// Writes the control message that asks when this datagram leaves: `flags` as for `SO_TIMESTAMPING`.
pub fn put_stamp_request(room: &mut [u8], length: usize, flags: u32) -> usize {
    let (level, kind) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
    put(room, length, level, kind, &flags.to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(control: &[u8]) -> Parsed {
        let all: Vec<_> = messages(control).collect();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].parsed()
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn a_source_is_read_as_it_is_written() {
        for (text, interface) in [("127.0.0.2", 0), ("2001:db8::2", 0), ("fe80::2", 7)] {
            let address = text.parse().unwrap();
            let mut room = [0xaa; 64];
            let length = put_source(&mut room, 0, address, interface);
            let told = Parsed::Destination { address, interface };
            assert_eq!(only(&room[..length]), told);
        }
    }

    #[test]
    fn stamps_are_the_kernels_and_the_cards() {
        let table = [
            ([0, 1, 0, 0, 0, 0], Some(1), None),
            ([0, 0, 0, 0, 3, 4], None, Some(3_000_000_004)),
            ([-1, 999_999_999, 0, 0, 0, 0], Some(-1), None),
            ([1, -1, 0, 0, 1, NANOSECONDS], None, None),
        ];
        for (times, software, hardware) in table {
            let data: Vec<u8> = times
                .iter()
                .flat_map(|time: &i64| time.to_ne_bytes())
                .collect();
            let mut room = [0; 80];
            let (level, kind) = (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING);
            let length = put(&mut room, 0, level, kind, &data);
            assert_eq!(only(&room[..length]), Parsed::Stamps { software, hardware });
        }
    }

    #[test]
    fn what_else_a_kernel_tells_is_read() {
        let stamping = u32::from_ne_bytes([libc::SO_EE_ORIGIN_TIMESTAMPING, 0, 0, 0]);
        let table = [
            ((41, libc::IPV6_HOPLIMIT), vec![255], Parsed::HopLimit(255)),
            ((41, libc::IPV6_HOPLIMIT), vec![256], Parsed::Other),
            ((41, libc::IPV6_TCLASS), vec![3], Parsed::TrafficClass(3)),
            (
                (1, 58),
                vec![2, 90],
                Parsed::Card {
                    interface: Some(2),
                    frame_length: Some(90),
                },
            ),
            (
                (1, 58),
                vec![0, 0],
                Parsed::Card {
                    interface: None,
                    frame_length: None,
                },
            ),
            (
                (0, libc::IP_RECVERR),
                vec![0, stamping, 0, 7],
                Parsed::Sent(7),
            ),
            ((0, libc::IP_RECVERR), vec![0, 0, 0, 7], Parsed::Other),
            (
                (libc::SOL_UDP, libc::UDP_GRO),
                vec![1200],
                Parsed::Merged(1200),
            ),
            ((libc::SOL_UDP, libc::UDP_GRO), vec![65_536], Parsed::Other),
            ((1, 99), vec![1], Parsed::Other),
        ];
        for ((level, kind), data, told) in table {
            let mut room = [0; 64];
            let length = put(&mut room, 0, level, kind, &words(&data));
            assert_eq!(only(&room[..length]), told, "{level} {kind}");
        }
        let mut room = [0; 64];
        let length = put(&mut room, 0, libc::IPPROTO_IP, libc::IP_TOS, &[2]);
        assert_eq!(only(&room[..length]), Parsed::TrafficClass(2));
    }

    #[test]
    fn messages_follow_each_other_and_half_a_one_ends_the_walk() {
        let mut room = [0; 96];
        let source = "10.0.0.1".parse().unwrap();
        let first = put_source(&mut room, 0, source, 0);
        let both = put_stamp_request(&mut room, first, 2);
        let kinds = |control: &[u8]| -> Vec<i32> {
            messages(control).map(|message| message.kind).collect()
        };
        let all = [libc::IP_PKTINFO, libc::SO_TIMESTAMPING];
        assert_eq!(kinds(&room[..both]), all);
        // The last is padded.
        for cut in first..both - 4 {
            assert_eq!(kinds(&room[..cut]), all[..1], "{cut}");
        }
        for cut in 0..first - 4 {
            assert_eq!(kinds(&room[..cut]), [], "{cut}");
        }
        room[..8].copy_from_slice(&usize::MAX.to_ne_bytes());
        assert_eq!(kinds(&room), []);
        assert_eq!(kinds(&[0; 96]), []);
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let mut room = [0; 32];
        assert_eq!(put_stamp_request(&mut room, 16, 2), 16);
        assert_eq!(put_stamp_request(&mut room, 8, 2), 32);
        assert_eq!(put_stamp_request(&mut room, usize::MAX, 2), usize::MAX);
    }
}
