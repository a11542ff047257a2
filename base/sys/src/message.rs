//! One datagram with its control messages: `recvmsg` and `sendmsg` with one vector.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd;

use socket2::{MaybeUninitSlice, MsgHdr, MsgHdrMut, SockAddr, SockRef};

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
/// [`Room`](crate::control::Room), or empty.
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
