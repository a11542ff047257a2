//! The system calls of virtual routers that no safe wrapper offers.
//!
//! One of the files with unsafe code: a link-layer address for `bind`, `recvmsg` with the control
//! message that tells the hop limit, and telling the runtime of a descriptor.
#![expect(
    unsafe_code,
    reason = "sockaddr_ll, recvmsg into ordinary buffers, AsyncFd"
)]

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

use socket2::{MaybeUninitSlice, MsgHdrMut, SockAddr, SockAddrStorage, Socket};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Room for the hop limit and for what else a kernel may tell.
const CONTROL_SIZE: usize = 128;

/// The header of a control message: length, level and type (`cmsg(3)`).
const CONTROL_HEADER: usize = 16;

/// One datagram, as far as the socket told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    pub(super) length: usize,
    pub(super) source: Ipv6Addr,
    pub(super) hop_limit: Option<u8>,
}

/// A socket that the runtime tells about when it has something to read.
pub(super) fn watched(socket: Socket) -> io::Result<AsyncFd<Socket>> {
    // SAFETY: A `Socket` owns one descriptor, which stays open and the same until it is dropped, with
    // the `AsyncFd`.
    let watched = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) };
    watched.map_err(Into::into)
}

/// All frames of one type on one interface, as an address to bind to (`packet(7)`).
pub(super) fn link_address(index: u32, ethertype: u16) -> SockAddr {
    let mut storage = SockAddrStorage::zeroed();
    let length = size_of::<libc::sockaddr_ll>();
    // SAFETY: A `sockaddr_ll` is plain data, smaller than the storage, and zero is a value of each field.
    let address = unsafe { storage.view_as::<libc::sockaddr_ll>() };
    address.sll_family = u16::try_from(libc::AF_PACKET).unwrap_or_default();
    address.sll_protocol = ethertype.to_be();
    address.sll_ifindex = index.cast_signed();
    let length = libc::socklen_t::try_from(length).unwrap_or_default();
    // SAFETY: The storage holds an address of this family and length, written above.
    unsafe { SockAddr::new(storage, length) }
}

/// Takes one datagram of IPv6 from a raw socket, with its hop limit.
pub(super) fn receive_v6(socket: &Socket, buffer: &mut [u8]) -> io::Result<Received> {
    let mut control = [0; CONTROL_SIZE];
    let unspecified = SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 0, 0, 0);
    let mut address = SockAddr::from(SocketAddr::V6(unspecified));
    let mut buffers = [MaybeUninitSlice::new(for_writing(buffer))];
    let mut message = MsgHdrMut::new()
        .with_addr(&mut address)
        .with_buffers(&mut buffers)
        .with_control(for_writing(&mut control));
    let length = socket.recvmsg(&mut message, libc::MSG_DONTWAIT)?;
    let control_length = message.control_len();
    let source = address.as_socket_ipv6();
    let source = source.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(Received {
        length,
        source: *source.ip(),
        hop_limit: control.get(..control_length).and_then(hop_limit),
    })
}

/// Initialised memory, for a call that writes to it and takes memory that need not be.
fn for_writing(buffer: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    let (first, length) = (buffer.as_mut_ptr(), buffer.len());
    // SAFETY: Same address, length and lifetime; the calls it is for write initialised octets only.
    unsafe { std::slice::from_raw_parts_mut(first.cast(), length) }
}

/// The hop limit among control messages.
fn hop_limit(mut control: &[u8]) -> Option<u8> {
    loop {
        let (header, data) = control.split_first_chunk::<CONTROL_HEADER>()?;
        let (length, kind) = header.split_first_chunk::<8>()?;
        let length = usize::from_ne_bytes(*length);
        let (level, kind) = kind.split_first_chunk::<4>()?;
        let (kind, _) = kind.split_first_chunk::<4>()?;
        let level = i32::from_ne_bytes(*level);
        if level == libc::IPPROTO_IPV6 && i32::from_ne_bytes(*kind) == libc::IPV6_HOPLIMIT {
            let (value, _) = data.split_first_chunk::<4>()?;
            return u8::try_from(i32::from_ne_bytes(*value)).ok();
        }
        let next = length
            .max(CONTROL_HEADER)
            .next_multiple_of(size_of::<usize>());
        control = control.get(next..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(level: i32, kind: i32, value: i32) -> Vec<u8> {
        let mut octets = 20_usize.to_ne_bytes().to_vec();
        octets.extend(level.to_ne_bytes());
        octets.extend(kind.to_ne_bytes());
        octets.extend(value.to_ne_bytes());
        octets.resize(24, 0);
        octets
    }

    #[test]
    fn the_hop_limit_is_found_behind_other_control_messages() {
        let mut octets = control(libc::SOL_SOCKET, libc::SO_TIMESTAMP, 7);
        octets.extend(control(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, 255));
        assert_eq!(hop_limit(&octets), Some(255));
        assert_eq!(hop_limit(&octets[..24]), None);
    }

    #[test]
    fn half_a_control_message_tells_nothing() {
        let octets = control(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, 255);
        for length in 0..20 {
            assert_eq!(hop_limit(&octets[..length]), None, "{length}");
        }
    }
}
