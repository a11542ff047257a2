//! The system calls of PTP's sockets that no safe wrapper offers.
//!
//! One of the files with unsafe code.
#![expect(unsafe_code, reason = "stamps and link-layer addresses")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use socket2::{MaybeUninitSlice, MsgHdrMut, SockAddr, SockAddrStorage, Socket};

/// Asks for stamps (`SO_TIMESTAMPING`, `linux/net_tstamp.h`).
pub(super) fn ask_for_stamps(socket: &Socket, flags: u32) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<u32>()).unwrap_or_default();
    // SAFETY: The option is a number, as long as is said.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const flags).cast(),
            length,
        )
    };
    checked(result)
}

/// Frames of one type on one interface, to one address or, without, from any (`packet(7)`).
pub(super) fn link_address(index: u32, ethertype: u16, to: Option<[u8; 6]>) -> SockAddr {
    let mut storage = SockAddrStorage::zeroed();
    let length = size_of::<libc::sockaddr_ll>();
    // SAFETY: A `sockaddr_ll` is plain data, smaller than the storage, and zero is a value of each field.
    let address = unsafe { storage.view_as::<libc::sockaddr_ll>() };
    address.sll_family = u16::try_from(libc::AF_PACKET).unwrap_or_default();
    address.sll_protocol = ethertype.to_be();
    address.sll_ifindex = index.cast_signed();
    if let Some(to) = to {
        address.sll_halen = 6;
        for (octet, value) in address.sll_addr.iter_mut().zip(to) {
            *octet = value;
        }
    }
    let length = libc::socklen_t::try_from(length).unwrap_or_default();
    // SAFETY: The storage holds an address of this family and length, written above.
    unsafe { SockAddr::new(storage, length) }
}

/// Hears frames to a group (`PACKET_ADD_MEMBERSHIP`).
pub(super) fn join(socket: &Socket, index: u32, group: [u8; 6]) -> io::Result<()> {
    let mut request = libc::packet_mreq {
        mr_ifindex: index.cast_signed(),
        mr_type: u16::try_from(libc::PACKET_MR_MULTICAST).unwrap_or_default(),
        mr_alen: 6,
        mr_address: [0; 8],
    };
    for (octet, value) in request.mr_address.iter_mut().zip(group) {
        *octet = value;
    }
    let length = libc::socklen_t::try_from(size_of::<libc::packet_mreq>()).unwrap_or_default();
    // SAFETY: The option is that structure, as long as is said.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            (&raw const request).cast(),
            length,
        )
    };
    checked(result)
}

/// Takes a message, or with `MSG_ERRQUEUE` what the kernel says of one that was sent. Gives its length, and that of the control
/// messages.
pub(super) fn receive(
    socket: &Socket,
    buffer: &mut [u8],
    control: &mut [u8],
    flags: i32,
) -> io::Result<(usize, usize)> {
    let mut buffers = [MaybeUninitSlice::new(for_writing(buffer))];
    let mut message = MsgHdrMut::new()
        .with_buffers(&mut buffers)
        .with_control(for_writing(control));
    let length = socket.recvmsg(&mut message, flags | libc::MSG_DONTWAIT)?;
    Ok((length, message.control_len()))
}

/// Initialised memory, for a call that writes to it and takes memory that need not be.
fn for_writing(buffer: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    let (first, length) = (buffer.as_mut_ptr(), buffer.len());
    // SAFETY: Same address, length and lifetime; the call it is for writes initialised octets only.
    unsafe { std::slice::from_raw_parts_mut(first.cast(), length) }
}

fn checked(result: i32) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
