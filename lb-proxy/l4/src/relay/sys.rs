//! System calls no safe wrapper offers, and the limit of open files.
#![expect(
    unsafe_code,
    reason = "IP_BIND_ADDRESS_NO_PORT, SO_RCVLOWAT and SIOCOUTQ"
)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::process::{Resource, Rlimit};

/// Descriptors kept for everything but sessions: logs, listeners, probes, the admin listener, swaps.
const RESERVED: u64 = 256;

/// Descriptors of one session: client and server.
const PER_SESSION: u64 = 2;

#[expect(clippy::cast_possible_truncation, reason = "the size of an int")]
const INT: libc::socklen_t = size_of::<libc::c_int>() as libc::socklen_t;

/// Asks for a port only when connecting, when it need be unique no more than with the destination.
///
/// # Errors
///
/// What the system says.
pub(super) fn bind_address_no_port(socket: impl AsFd) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// Sets how much must have arrived before the socket is reported as readable.
///
/// # Errors
///
/// What the system says.
pub(super) fn set_low_water_mark(socket: impl AsFd, octets: libc::c_int) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, octets)
}

fn set_option(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: The descriptor is borrowed, and the pointer is to a value of the length given, which the
    // call only reads.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            INT,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The mark that is set.
#[cfg(test)]
pub(super) fn low_water_mark(socket: impl AsFd) -> libc::c_int {
    let (mut octets, mut length): (libc::c_int, _) = (0, INT);
    // SAFETY: The descriptor is borrowed, and the call writes one int and its length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw mut octets).cast(),
            &raw mut length,
        )
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    octets
}

/// Bytes in the socket's queue that the peer has not acknowledged; none if that cannot be told.
pub(super) fn unsent(socket: impl AsFd) -> usize {
    let mut queued: libc::c_int = 0;
    // SAFETY: The descriptor is borrowed, and SIOCOUTQ (the same number as TIOCOUTQ) writes one int.
    let result =
        unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut queued) };
    if result == 0 {
        usize::try_from(queued).unwrap_or(0)
    } else {
        0
    }
}

/// How many files this process may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorLimit {
    /// The limit in force.
    pub descriptors: u64,
    /// Sessions it allows.
    pub sessions: u64,
}

/// Raises the soft limit of open files to the hard one, and says what that allows.
pub fn raise_descriptor_limit() -> DescriptorLimit {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        if let Err(error) = rustix::process::setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "Limit of open files stays as it is");
        }
    }
    let descriptors = rustix::process::getrlimit(Resource::Nofile)
        .current
        .unwrap_or(u64::MAX);
    DescriptorLimit {
        descriptors,
        sessions: sessions_within(descriptors, 0),
    }
}

/// How many sessions there may be: what is wanted, as far as descriptors go.
pub(super) fn most_sessions(wanted: Option<u64>, n_workers: usize) -> u64 {
    let limit = raise_descriptor_limit();
    let possible = sessions_within(limit.descriptors, n_workers);
    match wanted {
        Some(wanted) if wanted > possible => {
            tracing::warn!(
                wanted,
                possible,
                descriptors = limit.descriptors,
                "Fewer sessions than configured: raise LimitNOFILE"
            );
            possible
        }
        Some(wanted) => wanted,
        None => possible,
    }
}

fn sessions_within(descriptors: u64, n_workers: usize) -> u64 {
    let pipes = 2 * (super::pipes::MOST as u64) * (n_workers as u64);
    // With a limit as low as the reserve there is room for a few, or nothing would work at all.
    (descriptors.saturating_sub(RESERVED + pipes) / PER_SESSION).max(16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn what_the_peer_has_not_taken_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        assert_eq!(unsent(&near), 0);
        near.set_nonblocking(true).unwrap();
        while near.write(&[0; 1 << 16]).is_ok() {}
        assert!(unsent(&near) > 0);
        far.set_nonblocking(true).unwrap();
        let mut sink = [0; 1 << 16];
        while unsent(&near) > 0 {
            let _taken = far.read(&mut sink).unwrap_or(0);
        }
    }

    #[test]
    fn a_socket_binds_without_a_port() {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        bind_address_no_port(&socket).unwrap();
        let address: std::net::SocketAddr = "127.0.0.2:0".parse().unwrap();
        socket.bind(&address.into()).unwrap();
        let bound = socket.local_addr().unwrap().as_socket().unwrap();
        assert_eq!(bound.port(), 0);
    }

    #[test]
    fn sessions_are_what_descriptors_allow() {
        assert_eq!(sessions_within(20_000, 2), (20_000 - 256 - 128) / 2);
        assert_eq!(sessions_within(100, 2), 16);
        assert!(most_sessions(Some(3), 1) == 3);
        assert_eq!(most_sessions(None, 1), most_sessions(Some(u64::MAX), 1));
    }
}
