//! Options of sockets that are numbers.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use socket2::SockRef;

use crate::{checked, length_of};

/// A value that the kernel may read and write as octets.
///
/// # Safety
///
/// Any octets are a value of the type, and it has no padding and no pointers.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: Any four octets are a number.
unsafe impl Plain for libc::c_int {}

// SAFETY: Numbers alone: 4 + 2 + 2 + 8 octets, without gaps.
unsafe impl Plain for libc::packet_mreq {}

/// Sets an option that is a number.
pub fn set(socket: impl AsFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    set_plain(socket, level, name, &value)
}

pub(crate) fn set_plain<T: Plain>(
    socket: impl AsFd,
    level: i32,
    name: i32,
    value: &T,
) -> io::Result<()> {
    // SAFETY: The descriptor is borrowed; the call reads as much as the length says, which is that of the
    // value.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            length_of(size_of::<T>()),
        )
    };
    checked(result).map(drop)
}

/// Reads an option that is a number.
pub fn get(socket: impl AsFd, level: i32, name: i32) -> io::Result<i32> {
    let mut value: libc::c_int = 0;
    let mut length = length_of(size_of::<libc::c_int>());
    // SAFETY: The descriptor is borrowed; the call writes no more than the length says, which is that of
    // the number, and the length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    checked(result).map(|_| value)
}

/// Binds a socket to an interface (`SO_BINDTODEVICE`).
pub fn bind_device(socket: impl AsFd, interface: &str) -> io::Result<()> {
    SockRef::from(&socket).bind_device(Some(interface.as_bytes()))
}

/// Asks for a port only when connecting, when it need be unique no more than with the destination.
pub fn bind_address_no_port(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// Sets how much must have arrived before the socket is reported as readable.
pub fn set_low_water_mark(socket: impl AsFd, octets: i32) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, octets)
}

/// How much must have arrived before the socket is reported as readable.
pub fn low_water_mark(socket: impl AsFd) -> io::Result<i32> {
    get(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT)
}

/// Asks for stamps of what comes and goes (`SO_TIMESTAMPING`, `linux/net_tstamp.h`).
pub fn ask_for_stamps(socket: impl AsFd, flags: u32) -> io::Result<()> {
    let (level, name) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
    set(socket, level, name, flags.cast_signed())
}

/// A socket that the runtime tells about when it has something to read.
#[cfg(feature = "tokio")]
pub fn watched(socket: socket2::Socket) -> io::Result<tokio::io::unix::AsyncFd<socket2::Socket>> {
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    // SAFETY: A `Socket` owns one descriptor, which stays open and the same until it is dropped, with the
    // `AsyncFd`.
    let watched = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) };
    watched.map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};

    use super::*;

    #[test]
    fn an_option_is_read_as_it_was_set() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        set_low_water_mark(&socket, 77).unwrap();
        assert_eq!(low_water_mark(&socket).unwrap(), 77);
        ask_for_stamps(&socket, libc::SOF_TIMESTAMPING_SOFTWARE).unwrap();
        let error = set(&socket, libc::SOL_SOCKET, -1, 1).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOPROTOOPT));
        let error = bind_device(&socket, "no-such-if").unwrap_err();
        assert!(error.raw_os_error().is_some());
    }

    #[test]
    fn a_socket_binds_without_a_port() {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        bind_address_no_port(&socket).unwrap();
        let address: SocketAddr = "127.0.0.2:0".parse().unwrap();
        socket.bind(&address.into()).unwrap();
        let bound = socket.local_addr().unwrap().as_socket().unwrap();
        assert_eq!(bound.port(), 0);
    }
}
