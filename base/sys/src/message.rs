//! One datagram with its control messages: `recvmsg` and `sendmsg` with one vector.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd;

use socket2::{MaybeUninitSlice, MsgHdr, MsgHdrMut, SockAddr, SockRef};

use crate::control::{Room, put_segment};
use crate::source::Source;

/// A received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Octets in the buffer.
    pub length: usize,
    /// It was longer than the buffer.
    pub is_cut: bool,
    /// Octets in the room for [control messages](crate::control::messages).
    pub control_length: usize,
    /// The sender, if it has an address of IP.
    pub from: Option<SocketAddr>,
}

/// Receives a datagram, or with `MSG_ERRQUEUE` the kernel's report on one that was sent. `control` is in a
/// [`Room`], or empty.
pub fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
    control: &mut [u8],
    flags: i32,
) -> io::Result<Received> {
    // Room for any address of IP; stays as it is when the kernel writes none.
    let nobody = SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 0, 0, 0));
    let mut from = SockAddr::from(nobody);
    let mut buffers = [MaybeUninitSlice::new(for_writing(buffer))];
    let mut message = MsgHdrMut::new()
        .with_addr(&mut from)
        .with_buffers(&mut buffers)
        .with_control(for_writing(control));
    let length = SockRef::from(&socket).recvmsg(&mut message, flags)?;
    let (is_cut, control_length) = (message.flags().is_truncated(), message.control_len());
    Ok(Received {
        length,
        is_cut,
        control_length,
        from: from.as_socket().filter(|from| *from != nobody),
    })
}

/// Sends a datagram: to an address, or without one to the other side of a connected socket.
pub fn send(
    socket: impl AsFd,
    octets: &[u8],
    to: Option<SocketAddr>,
    control: &[u8],
) -> io::Result<usize> {
    let to = to.map(SockAddr::from);
    let buffers = [IoSlice::new(octets)];
    let mut message = MsgHdr::new().with_buffers(&buffers);
    if let Some(to) = &to {
        message = message.with_addr(to);
    }
    if !control.is_empty() {
        message = message.with_control(control);
    }
    SockRef::from(&socket).sendmsg(&message, 0)
}

/// Sends datagrams of `length_of_each` octets that lie behind one another, the last of what is left: with one call
/// where kernel and link cut them (`UDP_SEGMENT`), otherwise with a call each. `each` gets the result of each call that
/// was final: the number of octets, or the error of one datagram.
///
/// # Errors
///
/// The error of an earlier datagram that the connected socket had still to report; nothing is sent then, or only
/// some datagrams. Other errors concern a datagram and go to `each`.
pub fn send_merged(
    socket: impl AsFd,
    octets: &[u8],
    length_of_each: u16,
    to: Option<SocketAddr>,
    source: &Source,
    mut each: impl FnMut(io::Result<usize>),
) -> io::Result<()> {
    let mut room = Room::<64>::EMPTY;
    let length = source.put(&mut room.0, 0);
    let each_length = usize::from(length_of_each).max(1);
    if octets.len() > each_length {
        let both = put_segment(&mut room.0, length, length_of_each);
        let control = room.0.get(..both).unwrap_or_default();
        match send_uninterrupted(&socket, octets, to, control) {
            Ok(sent) => {
                each(Ok(sent));
                return Ok(());
            }
            Err(error) if is_unreachable(&error) => return Err(error),
            // This kernel or this link cannot cut them.
            Err(_) => {}
        }
    }
    let control = room.0.get(..length).unwrap_or_default();
    // A datagram without octets is one, too.
    let mut rest = octets;
    loop {
        let (first, others) = rest.split_at(each_length.min(rest.len()));
        rest = others;
        let mut sent = send_uninterrupted(&socket, first, to, control);
        // The path became narrower for an earlier one: the kernel knows its width now.
        if sent.as_ref().is_err_and(is_too_long) {
            sent = send_uninterrupted(&socket, first, to, control);
        }
        match sent {
            Err(error) if is_unreachable(&error) => return Err(error),
            sent => each(sent),
        }
        if rest.is_empty() {
            return Ok(());
        }
    }
}

fn send_uninterrupted(
    socket: impl AsFd,
    octets: &[u8],
    to: Option<SocketAddr>,
    control: &[u8],
) -> io::Result<usize> {
    loop {
        match send(&socket, octets, to, control) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            sent => return sent,
        }
    }
}

/// The error of an earlier datagram, which came back by ICMP (`ip(7)`, RFC 1122 §4.1.3.3): no process listens there, a
/// firewall rejects it, or there is no route.
#[must_use]
pub fn is_unreachable(error: &io::Error) -> bool {
    let unreachable = [
        libc::ECONNREFUSED,
        libc::EHOSTUNREACH,
        libc::ENETUNREACH,
        libc::EACCES,
        libc::ENOPROTOOPT,
    ];
    let code = error.raw_os_error();
    code.is_some_and(|code| unreachable.contains(&code))
}

/// The datagram is too long for UDP or for the path.
#[must_use]
pub fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// Initialised memory, for a call that writes to it and takes memory that need not be.
fn for_writing(buffer: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    let (first, length) = (buffer.as_mut_ptr(), buffer.len());
    // SAFETY: Same address, length and lifetime; the call it is for writes initialised octets only.
    unsafe { std::slice::from_raw_parts_mut(first.cast(), length) }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, UdpSocket};

    use super::*;
    use crate::control::{Parsed, Room, messages, put_source};
    use crate::option;

    #[test]
    fn a_datagram_tells_who_sent_it_from_where_to_where() {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind("0.0.0.0:0").unwrap();
        option::set(&far, libc::IPPROTO_IP, libc::IP_PKTINFO, 1).unwrap();
        let port = far.local_addr().unwrap().port();
        let mut control = Room::<64>::EMPTY;
        let source: IpAddr = "127.0.0.3".parse().unwrap();
        let to = SocketAddr::from(([127, 0, 0, 2], port));
        // A socket that is bound to an address may still send from another of the host.
        let length = put_source(&mut control.0, 0, source, 0);
        send(&near, b"query", Some(to), &control.0[..length]).unwrap();
        let mut buffer = [0; 3];
        let received = receive(&far, &mut buffer, &mut control.0, 0).unwrap();
        assert_eq!((received.length, received.is_cut), (3, true));
        let from = received.from.unwrap();
        assert_eq!(from.ip(), source);
        assert_eq!(from.port(), near.local_addr().unwrap().port());
        let told = messages(&control.0[..received.control_length]).next();
        let Some(Parsed::Destination { address, interface }) = told.map(|message| message.parsed())
        else {
            panic!("{told:?}");
        };
        assert_eq!(address, to.ip());
        assert!(interface > 0);
    }

    #[test]
    fn datagrams_that_were_merged_arrive_as_they_were() {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(far.local_addr().unwrap()).unwrap();
        let octets: Vec<u8> = (0..2500_u16)
            .map(|number| number.to_be_bytes()[1])
            .collect();
        let whole = u16::try_from(octets.len()).unwrap();
        // One beyond the number that a kernel cuts with one call: they leave one by one.
        for (octets, each, n_datagrams) in [
            (&octets[..], 1000, 3),
            (&octets[..], whole, 1),
            (&octets[..2000], 1000, 2),
            (&octets[..260], 2, 130),
            (&[], 1, 1),
        ] {
            let mut refused = 0;
            let count = |sent: io::Result<usize>| refused += usize::from(sent.is_err());
            let source = Source::Bound;
            let mut received = Vec::new();
            let sent = std::thread::scope(|scope| {
                let send = || send_merged(&near, octets, each, None, &source, count);
                let sender = scope.spawn(send);
                for _ in 0..n_datagrams {
                    let mut buffer = [0; 3000];
                    let length = far.recv(&mut buffer).unwrap();
                    assert!(length <= usize::from(each));
                    received.extend_from_slice(&buffer[..length]);
                }
                sender.join().unwrap()
            });
            sent.unwrap();
            assert_eq!(refused, 0);
            assert!(received == octets, "{each}");
        }
    }

    #[test]
    fn a_datagram_that_is_too_long_concerns_itself_alone() {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(far.local_addr().unwrap()).unwrap();
        let octets = vec![7; 65_508 + 3];
        let mut results = Vec::new();
        let each =
            |sent: io::Result<usize>| results.push(sent.map_err(|error| is_too_long(&error)));
        send_merged(&near, &octets, 65_508, None, &Source::Bound, each).unwrap();
        assert_eq!(results, [Err(true), Ok(3)]);
        assert_eq!(far.recv(&mut [0; 9]).unwrap(), 3);
    }

    #[test]
    fn who_is_connected_needs_no_address() {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(far.local_addr().unwrap()).unwrap();
        assert_eq!(send(&near, b"x", None, &[]).unwrap(), 1);
        let received = receive(&far, &mut [0; 9], &mut [], 0).unwrap();
        assert_eq!(received.from, Some(near.local_addr().unwrap()));
        let empty = receive(&far, &mut [0; 9], &mut [], libc::MSG_DONTWAIT);
        assert_eq!(empty.unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
