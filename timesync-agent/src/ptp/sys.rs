//! The system calls of PTP's sockets and cards that no safe wrapper offers.
//!
//! One of the files with unsafe code.
#![expect(
    unsafe_code,
    reason = "stamps, link-layer addresses, and requests about cards"
)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use socket2::{MaybeUninitSlice, MsgHdrMut, SockAddr, SockAddrStorage, Socket};

/// Longest name of an interface, with the zero at its end.
const NAME: usize = libc::IFNAMSIZ;

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

//--- Cards

/// `struct ifreq`, with what we use of its union.
#[repr(C)]
struct Request<T> {
    name: [libc::c_char; NAME],
    value: Value<T>,
}

/// As long as the union is.
#[repr(C)]
union Value<T> {
    value: std::mem::ManuallyDrop<T>,
    _room: [u64; 3],
}

impl<T> Request<T> {
    fn new(interface: &str, value: T) -> io::Result<Self> {
        let mut name = [0; NAME];
        if interface.len() >= NAME || interface.as_bytes().contains(&0) {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        for (letter, octet) in name.iter_mut().zip(interface.as_bytes()) {
            *letter = octet.cast_signed();
        }
        let mut request = Self {
            name,
            value: Value { _room: [0; 3] },
        };
        request.value.value = std::mem::ManuallyDrop::new(value);
        Ok(request)
    }

    fn make(&mut self, socket: &Socket, number: libc::c_ulong) -> io::Result<()> {
        // SAFETY: The kernel reads and writes an `ifreq`, which this is as long as; each caller's value is what the request is for.
        let result = unsafe { libc::ioctl(socket.as_raw_fd(), number as libc::Ioctl, self) };
        checked(result)
    }
}

/// The number of an interface.
pub(super) fn index(socket: &Socket, interface: &str) -> io::Result<u32> {
    let mut request = Request::new(interface, 0_i32)?;
    request.make(socket, libc::SIOCGIFINDEX)?;
    // SAFETY: The kernel has written a number there.
    let index = unsafe { *request.value.value };
    Ok(index.cast_unsigned())
}

/// The link-layer address of an interface.
pub(super) fn hardware_address(socket: &Socket, interface: &str) -> io::Result<[u8; 6]> {
    let mut request = Request::new(interface, [0_u8; 16])?;
    request.make(socket, libc::SIOCGIFHWADDR)?;
    // SAFETY: The kernel has written a `sockaddr` there: a family, and an address.
    let address = unsafe { *request.value.value };
    let [_, _, a, b, c, d, e, f, ..] = address;
    Ok([a, b, c, d, e, f])
}

/// `struct ethtool_ts_info`, where it begins with what is asked for.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct StampInfo {
    command: u32,
    /// `SOF_TIMESTAMPING_*`.
    pub(super) flags: u32,
    /// Number of the card's clock; −1 for none.
    pub(super) clock: i32,
    /// Bits of `HWTSTAMP_TX_*`.
    pub(super) transmit: u32,
    _more: [u32; 3],
    /// Bits of `HWTSTAMP_FILTER_*`.
    pub(super) filters: u32,
    _rest: [u32; 3],
}

/// `ETHTOOL_GET_TS_INFO`.
const GET_STAMP_INFO: u32 = 0x41;

/// What a card can stamp.
pub(super) fn stamp_info(socket: &Socket, interface: &str) -> io::Result<StampInfo> {
    let mut info = StampInfo {
        command: GET_STAMP_INFO,
        ..StampInfo::default()
    };
    let mut request = Request::new(interface, &raw mut info)?;
    request.make(socket, libc::SIOCETHTOOL)?;
    Ok(info)
}

/// `struct hwtstamp_config`.
#[repr(C)]
struct StampConfig {
    flags: i32,
    transmit: i32,
    filter: i32,
}

/// Tells a card to stamp what it sends, and of what comes that which a filter says.
pub(super) fn make_stamp(socket: &Socket, interface: &str, filter: u8) -> io::Result<()> {
    let mut config = StampConfig {
        flags: 0,
        // HWTSTAMP_TX_ON.
        transmit: 1,
        filter: filter.into(),
    };
    let mut request = Request::new(interface, &raw mut config)?;
    request.make(socket, libc::SIOCSHWTSTAMP)
}

fn checked(result: i32) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_long_as_the_kernels() {
        assert_eq!(size_of::<StampInfo>(), 44);
        assert_eq!(size_of::<StampConfig>(), 12);
        assert_eq!(size_of::<Request<i32>>(), size_of::<libc::ifreq>());
        assert_eq!(size_of::<Request<[u8; 16]>>(), size_of::<libc::ifreq>());
    }

    #[test]
    fn the_loopback_interface_is_one() {
        let socket = Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
        assert!(index(&socket, "lo").unwrap() > 0);
        assert_eq!(hardware_address(&socket, "lo").unwrap(), [0; 6]);
        let info = stamp_info(&socket, "lo").unwrap();
        assert_eq!(info.clock, -1);
        for name in ["no-such-if", "an-interface-with-too-long-a-name", "a\0b"] {
            let error = index(&socket, name).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENODEV), "{name}");
        }
    }
}
