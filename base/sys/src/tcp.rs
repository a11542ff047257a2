//! The state of a TCP connection as its kernel knows it: acknowledgements, window, silence.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use crate::{checked, length_of};

/// The octets of `struct tcp_info` (`linux/tcp.h`) that are read. An older kernel writes fewer.
const LENGTH: usize = 232;

/// The peer's part in a connection (`TCP_INFO`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerState {
    /// Segments that were sent and not acknowledged.
    pub segments_in_flight: u32,
    /// Probes of the peer's window, or of an idle connection, since its last segment.
    pub unanswered_probes: u8,
    /// Since the peer's last segment that acknowledged something.
    pub heard: Duration,
    /// Octets that the peer is ready to take; none when the kernel does not say.
    pub window: Option<u32>,
}

/// Octets in the socket's queue that the peer has not acknowledged, the end of the stream among them; none if
/// that cannot be told.
pub fn unacknowledged(socket: impl AsFd) -> usize {
    let mut queued: libc::c_int = 0;
    // SAFETY: The descriptor is borrowed, and SIOCOUTQ (the same number as TIOCOUTQ) writes one int.
    let result =
        unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut queued) };
    match checked(result) {
        Ok(_) => usize::try_from(queued).unwrap_or(0),
        Err(_) => 0,
    }
}

/// The peer's part in a connection.
///
/// # Errors
///
/// When the socket is none of TCP.
pub fn peer_state(socket: impl AsFd) -> io::Result<PeerState> {
    let mut octets = [0_u8; LENGTH];
    let mut length = length_of(LENGTH);
    // SAFETY: The descriptor is borrowed; the call writes no more octets than the length says, which is that of
    // the array, and the length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            octets.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    checked(result)?;
    let written = octets.get(..usize::try_from(length).unwrap_or(0));
    Ok(parse(written.unwrap_or(&octets)))
}

/// The fields of `struct tcp_info` by their offsets.
fn parse(octets: &[u8]) -> PeerState {
    let number = |at: usize| {
        let field = octets.get(at..).and_then(|rest| rest.first_chunk());
        field.map(|field| u32::from_ne_bytes(*field))
    };
    PeerState {
        // tcpi_unacked, tcpi_probes, tcpi_last_ack_recv, tcpi_snd_wnd
        segments_in_flight: number(24).unwrap_or(0),
        unanswered_probes: octets.get(3).copied().unwrap_or(0),
        heard: Duration::from_millis(u64::from(number(56).unwrap_or(0))),
        window: number(228),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn octets_that_the_peer_has_not_taken_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        assert_eq!(unacknowledged(&near), 0);
        near.set_nonblocking(true).unwrap();
        while near.write(&[0; 1 << 16]).is_ok() {}
        assert!(unacknowledged(&near) > 0);
        far.set_nonblocking(true).unwrap();
        let mut sink = [0; 1 << 16];
        while unacknowledged(&near) > 0 {
            let _taken = far.read(&mut sink).unwrap_or(0);
        }
    }

    #[test]
    fn a_peer_that_reads_nothing_closes_its_window_and_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_far, _) = listener.accept().unwrap();
        let fresh = peer_state(&near).unwrap();
        assert_eq!(fresh.segments_in_flight, 0);
        assert_ne!(fresh.window, Some(0));
        near.set_nonblocking(true).unwrap();
        // The kernel may merge what it holds, and take more after a moment.
        let is_paused = (0..1_000_000).any(|_| {
            while near.write(&[0; 1 << 16]).is_ok() {}
            std::thread::yield_now();
            let state = peer_state(&near).unwrap();
            state.segments_in_flight == 0 && state.window.is_none_or(|window| window < 1 << 16)
        });
        assert!(is_paused, "{:?}", peer_state(&near));
        assert!(unacknowledged(&near) > 0);
        assert!(peer_state(UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }

    #[test]
    fn a_shorter_answer_of_an_older_kernel_has_no_window() {
        let mut octets = [0; LENGTH];
        octets[3] = 2;
        octets[24] = 7;
        octets[56..60].copy_from_slice(&1500_u32.to_ne_bytes());
        let old = parse(&octets[..224]);
        let expected = PeerState {
            segments_in_flight: 7,
            unanswered_probes: 2,
            heard: Duration::from_millis(1500),
            window: None,
        };
        assert_eq!(old, expected);
        assert_eq!(parse(&octets).window, Some(0));
    }
}
