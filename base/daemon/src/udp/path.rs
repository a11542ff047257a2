//! Addresses of a datagram as the kernel writes them, and the way back to who sent it. No system
//! calls.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use super::sys;

/// Room for `sockaddr_in` (16 bytes) or `sockaddr_in6` (28 bytes).
pub(super) const PEER_SIZE: usize = 28;

/// Room for one control message with the larger `in6_pktinfo` (40 bytes), one with timestamps (64 bytes)
/// and, with a reply that comes back from the error queue, one that says why (48 bytes with an address).
pub(super) const CONTROL_SIZE: usize = 160;

/// Address families as the first two bytes of a socket address hold them.
const FAMILY_V4: [u8; 2] = family(libc::AF_INET);
const FAMILY_V6: [u8; 2] = family(libc::AF_INET6);

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "families are small positive numbers"
)]
const fn family(number: i32) -> [u8; 2] {
    (number as u16).to_ne_bytes()
}

/// Bytes before the data of a control message: length, level and type (cmsg(3)).
const HEADER: usize = size_of::<libc::cmsghdr>();

/// A socket address in the kernel's form.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, align(4))]
pub(super) struct Peer {
    pub(super) bytes: [u8; PEER_SIZE],
    pub(super) length: u32,
}

impl Peer {
    /// No address, for the kernel to write into.
    pub(super) const EMPTY: Self = Self {
        bytes: [0; PEER_SIZE],
        length: 0,
    };

    pub(super) fn new(address: SocketAddr) -> Self {
        let mut bytes = [0; PEER_SIZE];
        let (head, rest) = bytes.split_at_mut(8);
        let port = address.port().to_be_bytes();
        let length = match address {
            SocketAddr::V4(address) => {
                copy(head, &[FAMILY_V4, port].concat());
                copy(rest, &address.ip().octets());
                16
            }
            SocketAddr::V6(address) => {
                copy(head, &[FAMILY_V6, port].concat());
                let (ip, scope) = rest.split_at_mut(16);
                copy(ip, &address.ip().octets());
                copy(scope, &address.scope_id().to_ne_bytes());
                28
            }
        };
        // `sockaddr_in` has the address right after the port, `sockaddr_in6` after the flow label.
        if length == 16 {
            bytes.copy_within(8..12, 4);
            bytes.get_mut(8..).unwrap_or_default().fill(0);
        }
        Self { bytes, length }
    }

    pub(super) fn address(&self) -> SocketAddr {
        let [f0, f1, p0, p1, a0, a1, a2, a3, ip6 @ ..] = self.bytes;
        let port = u16::from_be_bytes([p0, p1]);
        if [f0, f1] == FAMILY_V4 {
            return SocketAddr::new(Ipv4Addr::new(a0, a1, a2, a3).into(), port);
        }
        let (Some(ip), Some(scope)) = (ip6.first_chunk::<16>(), ip6.last_chunk::<4>()) else {
            return SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
        };
        let ip = Ipv6Addr::from(*ip);
        match ip.to_ipv4_mapped() {
            Some(ip) => SocketAddr::new(ip.into(), port),
            None => SocketAddrV6::new(ip, port, 0, u32::from_ne_bytes(*scope)).into(),
        }
    }
}

fn copy(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

/// Which address a reply leaves from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The one the socket is bound to, or the kernel's choice.
    Bound,
    /// The IPv4 address the query was sent to.
    V4(Ipv4Addr),
    /// The IPv6 address the query was sent to, with the interface if it is link-local.
    V6(Ipv6Addr, u32),
}

impl Source {
    pub(super) fn address(&self) -> Option<IpAddr> {
        match *self {
            Self::Bound => None,
            Self::V4(address) => Some(address.into()),
            Self::V6(address, _) => Some(IpAddr::V6(address).to_canonical()),
        }
    }

    /// `struct in_pktinfo`: interface, the local address that a reply has, the address in the header
    /// (which may be a broadcast).
    fn from_v4_info(data: &[u8]) -> Self {
        match data.get(4..8).and_then(<[u8]>::first_chunk::<4>) {
            Some(octets) if *octets != [0; 4] => Self::V4(Ipv4Addr::from(*octets)),
            _ => Self::Bound,
        }
    }

    /// `struct in6_pktinfo`: the address in the header, and the interface.
    fn from_v6_info(data: &[u8]) -> Self {
        let Some((octets, rest)) = data.split_first_chunk::<16>() else {
            return Self::Bound;
        };
        let address = Ipv6Addr::from(*octets);
        let cannot_send = match address.to_ipv4_mapped() {
            Some(address) => address.is_multicast() || address.is_broadcast(),
            None => address.is_multicast() || address.is_unspecified(),
        };
        if cannot_send {
            return Self::Bound;
        }
        // The interface matters where the address means nothing without; elsewhere routing decides.
        let interface = match rest.first_chunk::<4>() {
            Some(bytes) if address.is_unicast_link_local() => u32::from_ne_bytes(*bytes),
            _ => 0,
        };
        Self::V6(address, interface)
    }

    /// Writes the control message that makes a reply leave from here; returns its length.
    pub(super) fn write(&self, control: &mut [u8; CONTROL_SIZE]) -> usize {
        let (level, kind, data, length) = match *self {
            Self::Bound => return 0,
            Self::V4(address) => {
                let mut data = [0; 20];
                copy(data.get_mut(4..8).unwrap_or_default(), &address.octets());
                (libc::IPPROTO_IP, libc::IP_PKTINFO, data, 12)
            }
            Self::V6(address, interface) => {
                let mut data = [0; 20];
                copy(&mut data, &address.octets());
                let end = data.get_mut(16..).unwrap_or_default();
                copy(end, &interface.to_ne_bytes());
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, data, 20)
            }
        };
        let (head, body) = control.split_at_mut(HEADER);
        let (size, rest) = head.split_at_mut(size_of::<usize>());
        copy(size, &(HEADER + length).to_ne_bytes());
        copy(rest, &level.to_ne_bytes());
        copy(rest.get_mut(4..).unwrap_or_default(), &kind.to_ne_bytes());
        copy(body, &data);
        (HEADER + length).next_multiple_of(size_of::<usize>())
    }
}

/// What the kernel says of a datagram besides who sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ancillary {
    pub(super) source: Source,
    /// When it came or left, since 1970.
    pub(super) stamp: Option<Duration>,
}

impl Ancillary {
    /// Nothing was asked.
    pub(super) const NONE: Self = Self {
        source: Source::Bound,
        stamp: None,
    };

    /// Reads the control messages of a received datagram.
    pub(super) fn read(mut control: &[u8]) -> Self {
        let mut ancillary = Self::NONE;
        while let Some((length, level, kind)) = read_header(control) {
            let Some(data) = control.get(HEADER..length) else {
                break;
            };
            match (level, kind) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    ancillary.source = Source::from_v4_info(data);
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    ancillary.source = Source::from_v6_info(data);
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => ancillary.stamp = since_1970(data),
                _ => {}
            }
            let next = length.next_multiple_of(size_of::<usize>());
            control = control.get(next..).unwrap_or_default();
        }
        ancillary
    }
}

/// The first of three `struct timespec`, which is the kernel's own (the others are the network card's), of a
/// machine whose words have 64 bits. Zero is none.
fn since_1970(data: &[u8]) -> Option<Duration> {
    let (seconds, rest) = data.split_first_chunk::<8>()?;
    let nanoseconds = i64::from_ne_bytes(*rest.first_chunk::<8>()?);
    let seconds = u64::try_from(i64::from_ne_bytes(*seconds)).ok()?;
    let stamp = Duration::new(seconds, u32::try_from(nanoseconds).ok()?);
    (!stamp.is_zero()).then_some(stamp)
}

/// Writes behind the first `length` bytes the control message that asks when a reply leaves; returns the
/// length of both.
pub(super) fn ask_departure(control: &mut [u8; CONTROL_SIZE], length: usize) -> usize {
    let whole = HEADER + size_of::<u32>();
    let next = length + whole.next_multiple_of(size_of::<usize>());
    let Some(room) = control.get_mut(length..next) else {
        return length;
    };
    let parts: [&[u8]; 4] = [
        &whole.to_ne_bytes(),
        &libc::SOL_SOCKET.to_ne_bytes(),
        &libc::SO_TIMESTAMPING.to_ne_bytes(),
        &libc::SOF_TIMESTAMPING_TX_SOFTWARE.to_ne_bytes(),
    ];
    copy(room, &parts.concat());
    next
}

/// Length, level and type of the first control message, if there is one.
fn read_header(control: &[u8]) -> Option<(usize, i32, i32)> {
    let (length, rest) = control.split_first_chunk::<{ size_of::<usize>() }>()?;
    let (level, rest) = rest.split_first_chunk::<4>()?;
    let (kind, _) = rest.split_first_chunk::<4>()?;
    let length = usize::from_ne_bytes(*length);
    let (level, kind) = (i32::from_ne_bytes(*level), i32::from_ne_bytes(*kind));
    (length >= HEADER).then_some((length, level, kind))
}

/// The way back to who sent a datagram: from the same socket and the same address.
///
/// Cheap to clone and to keep: holds no memory of its own but a count on the socket.
#[derive(Clone)]
pub struct ReturnPath {
    socket: Option<Arc<UdpSocket>>,
    peer: Peer,
    source: Source,
}

impl ReturnPath {
    pub(super) fn new(socket: Option<Arc<UdpSocket>>, peer: Peer, source: Source) -> Self {
        Self {
            socket,
            peer,
            source,
        }
    }

    /// The way from `socket` back to `peer`, who has sent something to `local`: as
    /// [`Datagram::return_path`](super::Datagram::return_path) has given it to another process, or to
    /// an engine before this one.
    ///
    /// # Errors
    ///
    /// When the socket does not say what it is bound to.
    pub fn restored(
        socket: Arc<UdpSocket>,
        peer: SocketAddr,
        local: Option<IpAddr>,
    ) -> io::Result<Self> {
        let bound = socket.local_addr()?;
        // A socket of IPv6 sends to IPv4 by mapped addresses.
        let mapped = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let peer_address = match (bound, peer) {
            (SocketAddr::V6(_), SocketAddr::V4(peer)) => {
                SocketAddr::new(mapped((*peer.ip()).into()).into(), peer.port())
            }
            _ => peer,
        };
        let source = match local {
            Some(_) if !bound.ip().is_unspecified() => Source::Bound,
            None => Source::Bound,
            Some(IpAddr::V4(local)) if bound.is_ipv4() => Source::V4(local),
            Some(local) => {
                let local = mapped(local);
                let interface = match peer {
                    SocketAddr::V6(peer) if local.is_unicast_link_local() => peer.scope_id(),
                    _ => 0,
                };
                Source::V6(local, interface)
            }
        };
        Ok(Self::new(Some(socket), Peer::new(peer_address), source))
    }

    /// Who gets the reply.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer.address()
    }

    /// Sends a reply, from any thread.
    ///
    /// # Errors
    ///
    /// What the kernel says, or `NotConnected` for a datagram that came from nowhere.
    pub fn send(&self, payload: &[u8]) -> io::Result<()> {
        let Some(socket) = &self.socket else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        sys::send_from(socket, payload, &self.peer, self.source)
    }
}

impl fmt::Debug for ReturnPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ReturnPath")
            .field("peer", &self.peer())
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(source: Source) -> Ancillary {
        Ancillary {
            source,
            stamp: None,
        }
    }

    #[test]
    fn a_stamp_is_read_beside_the_source() {
        let message = |seconds: i64, nanoseconds: i64| {
            let mut message = (HEADER + 48).to_ne_bytes().to_vec();
            message.extend(libc::SOL_SOCKET.to_ne_bytes());
            message.extend(libc::SCM_TIMESTAMPING.to_ne_bytes());
            message.extend(seconds.to_ne_bytes());
            message.extend(nanoseconds.to_ne_bytes());
            message.extend([0xff; 32]);
            message
        };
        let source = Source::V4(Ipv4Addr::new(127, 0, 0, 2));
        let mut rest = [0; CONTROL_SIZE];
        let length = source.write(&mut rest);
        for (seconds, nanoseconds, stamp) in [
            (0, 1, Some(Duration::from_nanos(1))),
            (1_800_000_000, 7, Some(Duration::new(1_800_000_000, 7))),
            (0, 0, None),
            (-1, 999_999_999, None),
            (1, -1, None),
        ] {
            let control = [&message(seconds, nanoseconds), &rest[..length]].concat();
            let ancillary = Ancillary { source, stamp };
            assert_eq!(Ancillary::read(&control), ancillary);
            let control = [&rest[..length], &message(seconds, nanoseconds)].concat();
            assert_eq!(Ancillary::read(&control), ancillary);
        }
    }

    #[test]
    fn asking_when_a_reply_leaves_leaves_its_source_as_it_is() {
        for source in [Source::Bound, Source::V6(Ipv6Addr::LOCALHOST, 0)] {
            let mut control = [0xaa; CONTROL_SIZE];
            let length = source.write(&mut control);
            let both = ask_departure(&mut control, length);
            assert_eq!(Ancillary::read(&control[..both]), only(source));
            let (asked, level, kind) = read_header(&control[length..both]).unwrap();
            assert_eq!((asked, level), (HEADER + 4, libc::SOL_SOCKET));
            assert_eq!(kind, libc::SO_TIMESTAMPING);
        }
        let mut control = [0; CONTROL_SIZE];
        assert_eq!(
            ask_departure(&mut control, CONTROL_SIZE - 8),
            CONTROL_SIZE - 8
        );
    }

    #[test]
    fn addresses_survive_the_kernels_form() {
        for text in [
            "127.0.0.2:53",
            "255.254.253.252:65535",
            "[2001:db8::1]:53",
            "[fe80::1%3]:5353",
        ] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(Peer::new(address).address(), address);
        }
        let mapped = Peer::new("[::ffff:10.0.0.1]:53".parse().unwrap());
        assert_eq!(mapped.address(), "10.0.0.1:53".parse().unwrap());
        assert_eq!(
            (
                mapped.length,
                Peer::new("1.2.3.4:5".parse().unwrap()).length
            ),
            (28, 16)
        );
    }

    #[test]
    fn a_source_is_read_as_it_is_written() {
        for source in [
            Source::V4(Ipv4Addr::new(127, 0, 0, 2)),
            Source::V6("2001:db8::2".parse().unwrap(), 0),
            Source::V6("fe80::2".parse().unwrap(), 7),
            Source::V6("::ffff:10.0.0.1".parse().unwrap(), 0),
        ] {
            let mut control = [0xaa; CONTROL_SIZE];
            let length = source.write(&mut control);
            assert_eq!(Ancillary::read(&control[..length]), only(source));
        }
        assert_eq!(Source::Bound.write(&mut [0; CONTROL_SIZE]), 0);
    }

    #[test]
    fn addresses_nothing_can_be_sent_from_are_left_to_the_kernel() {
        for address in [
            "ff02::1",
            "::",
            "::ffff:224.0.0.1",
            "::ffff:255.255.255.255",
        ] {
            let mut control = [0; CONTROL_SIZE];
            let length = Source::V6(address.parse().unwrap(), 3).write(&mut control);
            assert_eq!(
                Ancillary::read(&control[..length]),
                only(Source::Bound),
                "{address}"
            );
        }
        let mut control = [0; CONTROL_SIZE];
        let length = Source::V4(Ipv4Addr::UNSPECIFIED).write(&mut control);
        assert_eq!(Ancillary::read(&control[..length]), only(Source::Bound));
    }

    #[test]
    fn malformed_control_messages_end_the_search() {
        let mut control = [0; CONTROL_SIZE];
        let length = Source::V4(Ipv4Addr::LOCALHOST).write(&mut control);
        for cut in 0..length - 4 {
            assert_eq!(
                Ancillary::read(&control[..cut]),
                only(Source::Bound),
                "{cut}"
            );
        }
        control[..8].copy_from_slice(&usize::MAX.to_ne_bytes());
        assert_eq!(Ancillary::read(&control), only(Source::Bound));
        assert_eq!(Ancillary::read(&[0; CONTROL_SIZE]), only(Source::Bound));
    }

    #[test]
    fn another_message_before_the_one_wanted_is_passed_over() {
        let mut first = [0; CONTROL_SIZE];
        let source = Source::V4(Ipv4Addr::new(10, 0, 0, 1));
        let length = source.write(&mut first);
        let mut other = first;
        // The same length, of a type nobody asked for.
        other[12..16].copy_from_slice(&99_i32.to_ne_bytes());
        let both = [&other[..length], &first[..length]].concat();
        assert_eq!(Ancillary::read(&both), only(source));
    }

    #[test]
    fn a_path_from_nowhere_leads_nowhere() {
        let peer = Peer::new("127.0.0.1:9".parse().unwrap());
        let error = ReturnPath::new(None, peer, Source::Bound)
            .send(b"x")
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    }
}
