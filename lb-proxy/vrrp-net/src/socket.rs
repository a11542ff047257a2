//! The raw sockets of one virtual router: advertisements in and out.
//!
//! One socket is bound to the router's own address, sends everything and receives what peers send to
//! this node; another, where the router is on a multicast group, is bound to the group. So each
//! datagram's destination is known by where it came in, as the checksum wants it.
//!
//! Never decides what a datagram means.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::task::{Context, Poll};

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockAddr, Socket, Type};
use sys::control::{Parsed, Room, messages};
use sys::option::watched;
use tokio::io::unix::AsyncFd;
use vrrp::PROTOCOL;
use vrrp::packet::{Datagram, GROUP_V4, GROUP_V6, HOP_LIMIT};
use vrrp::settings::{Peers, RouterSettings};

/// The longest header of IPv4, in front of every datagram that a raw socket gives.
pub(super) const LONGEST_HEADER: usize = 60;

/// DSCP CS6, network control (RFC 4594 §3.1): a full queue drops other things first.
const NETWORK_CONTROL: u32 = 0xc0;

/// The queue of interfaces that is served first without privileges beyond ours (`socket(7)`).
const PRIORITY: u32 = 6;

/// Room for the hop limit and other control messages.
const CONTROL_SIZE: usize = 128;

/// More than come in the moment between opening a socket and binding it.
const STRAYS: usize = 256;

/// How advertisements travel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// The interface's name.
    interface: String,
    /// Its number: an interface that was made again has another.
    index: u32,
    /// This node's address there.
    source: IpAddr,
    is_multicast: bool,
}

impl Path {
    pub(super) fn new(settings: &RouterSettings, index: u32, source: IpAddr) -> Self {
        Self {
            interface: settings.interface.as_ref().to_owned(),
            index,
            source,
            is_multicast: matches!(settings.peers, Peers::Multicast),
        }
    }

    pub(super) fn source(&self) -> IpAddr {
        self.source
    }
}

/// Open sockets on a path.
#[derive(Debug)]
pub(super) struct Sockets {
    path: Path,
    own: AsyncFd<Socket>,
    group: Option<AsyncFd<Socket>>,
}

impl Sockets {
    /// Opens them.
    pub(super) fn open(path: Path) -> io::Result<Self> {
        let own = open(&path)?;
        own.bind(&endpoint(path.source, path.index))?;
        forget_strays(&own);
        let group = path.is_multicast.then(|| join(&path)).transpose()?;
        Ok(Self {
            own: watched(own)?,
            group: group.map(watched).transpose()?,
            path,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Sends a message, without waiting.
    pub(super) fn send(&self, octets: &[u8], to: IpAddr) -> io::Result<()> {
        let to = endpoint(to, self.path.index);
        self.own.get_ref().send_to(octets, &to).map(drop)
    }

    /// Whether something may have come since the last call. Everything that has is to be received.
    pub(super) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        let sockets = [Some(&self.own), self.group.as_ref()];
        poll_any(sockets.into_iter().flatten(), context)
    }

    /// The next datagram that has come, if one has.
    pub(super) fn receive<'b>(&self, buffer: &'b mut [u8]) -> Option<Datagram<'b>> {
        let from_group = self.group.as_ref().and_then(|group| {
            let destination = group_of(self.path.source);
            Some((
                receive(group.get_ref(), self.path.source, buffer)?,
                destination,
            ))
        });
        let (received, destination) = match from_group {
            Some(received) => received,
            None => {
                let received = receive(self.own.get_ref(), self.path.source, buffer)?;
                (received, self.path.source)
            }
        };
        Some(Datagram {
            source: received.source,
            destination,
            hop_limit: received.hop_limit,
            octets: buffer.get(received.start..received.end)?,
        })
    }
}

/// Ready when one of the sockets may have something to read; read each to the end then.
pub(super) fn poll_any<'s>(
    sockets: impl Iterator<Item = &'s AsyncFd<Socket>>,
    context: &mut Context<'_>,
) -> Poll<()> {
    let mut result = Poll::Pending;
    for socket in sockets {
        // Ready again at once, should something have come between.
        while let Poll::Ready(Ok(mut guard)) = socket.poll_read_ready(context) {
            guard.clear_ready();
            result = Poll::Ready(());
        }
    }
    result
}

/// The place of a message in the buffer, and the facts in its IP header.
struct Received {
    source: IpAddr,
    hop_limit: Option<u8>,
    start: usize,
    end: usize,
}

fn receive(mut socket: &Socket, like: IpAddr, buffer: &mut [u8]) -> Option<Received> {
    if like.is_ipv6() {
        return receive_v6(socket, buffer).ok();
    }
    // An error is one of the link, which netlink tells about.
    let length = socket.read(buffer).ok()?;
    let header = buffer.get(..length)?.first_chunk::<20>()?;
    let &[first, .., ttl, _protocol, _, _, a, b, c, d, _, _, _, _] = header;
    Some(Received {
        source: Ipv4Addr::new(a, b, c, d).into(),
        hop_limit: Some(ttl),
        start: usize::from(first & 0x0f) * 4,
        end: length,
    })
}

fn receive_v6(socket: &Socket, buffer: &mut [u8]) -> io::Result<Received> {
    let mut control = Room::<CONTROL_SIZE>::EMPTY;
    let received = sys::message::receive(socket, buffer, &mut control.0, libc::MSG_DONTWAIT)?;
    let control = control.0.get(..received.control_length);
    // A sender without an address is not the end of the queue: the protocol refuses its datagram.
    let source = received.from.map(|from| from.ip());
    Ok(Received {
        source: source.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        hop_limit: control.and_then(hop_limit),
        start: 0,
        end: received.length,
    })
}

fn hop_limit(control: &[u8]) -> Option<u8> {
    messages(control).find_map(|message| match message.parsed() {
        Parsed::HopLimit(limit) => Some(limit),
        _ => None,
    })
}

fn open(path: &Path) -> io::Result<Socket> {
    let ipv6 = path.source.is_ipv6();
    let domain = if ipv6 { Domain::IPV6 } else { Domain::IPV4 };
    let protocol = Protocol::from(i32::from(PROTOCOL));
    let socket = Socket::new(domain, Type::RAW.nonblocking(), Some(protocol))?;
    socket.bind_device(Some(path.interface.as_bytes()))?;
    let hops = u32::from(HOP_LIMIT);
    if ipv6 {
        socket.set_unicast_hops_v6(hops)?;
        socket.set_multicast_hops_v6(hops)?;
        socket.set_multicast_if_v6(path.index)?;
        socket.set_multicast_loop_v6(false)?;
        // Or the socket of the own address would be given what is sent to the group as well.
        socket.set_multicast_all_v6(false)?;
        socket.set_tclass_v6(NETWORK_CONTROL)?;
        socket.set_recv_hoplimit_v6(true)?;
    } else {
        socket.set_ttl_v4(hops)?;
        socket.set_multicast_ttl_v4(hops)?;
        socket.set_multicast_loop_v4(false)?;
        socket.set_multicast_all_v4(false)?;
        socket.set_tos_v4(NETWORK_CONTROL)?;
    }
    socket.set_priority(PRIORITY)?;
    Ok(socket)
}

/// A socket that hears the group.
fn join(path: &Path) -> io::Result<Socket> {
    let socket = open(path)?;
    let group = group_of(path.source);
    socket.bind(&endpoint(group, path.index))?;
    forget_strays(&socket);
    if path.source.is_ipv6() {
        socket.join_multicast_v6(&GROUP_V6, path.index)?;
    } else {
        let interface = InterfaceIndexOrAddress::Index(path.index);
        socket.join_multicast_v4_n(&GROUP_V4, &interface)?;
    }
    Ok(socket)
}

/// Throws away what came before the socket was bound: it may have been to any address, and where a
/// datagram came in is taken for where it was sent to.
fn forget_strays(mut socket: &Socket) {
    let mut buffer = [0; 1];
    for _ in 0..STRAYS {
        if socket.read(&mut buffer).is_err() {
            return;
        }
    }
}

fn group_of(source: IpAddr) -> IpAddr {
    if source.is_ipv6() {
        GROUP_V6.into()
    } else {
        GROUP_V4.into()
    }
}

/// An address on the interface, as a raw socket wants it.
fn endpoint(address: IpAddr, index: u32) -> SockAddr {
    match address {
        IpAddr::V4(_) => SocketAddr::new(address, 0).into(),
        IpAddr::V6(address) => {
            let on_link = address.is_unicast_link_local() || address.is_multicast();
            let scope = if on_link { index } else { 0 };
            SocketAddr::V6(SocketAddrV6::new(address, 0, 0, scope)).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::control::put;

    const LIMIT: (i32, i32) = (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT);

    #[test]
    fn the_hop_limit_is_found_behind_other_control_messages() {
        let mut room = [0; CONTROL_SIZE];
        let stamp = 7_i32.to_ne_bytes();
        let first = put(&mut room, 0, libc::SOL_SOCKET, libc::SO_TIMESTAMP, &stamp);
        let both = put(&mut room, first, LIMIT.0, LIMIT.1, &255_i32.to_ne_bytes());
        assert_eq!(hop_limit(&room[..both]), Some(255));
        assert_eq!(hop_limit(&room[..first]), None);
    }

    #[test]
    fn half_a_control_message_tells_nothing() {
        let mut room = [0; CONTROL_SIZE];
        put(&mut room, 0, LIMIT.0, LIMIT.1, &255_i32.to_ne_bytes());
        for length in 0..20 {
            assert_eq!(hop_limit(&room[..length]), None, "{length}");
        }
    }
}
