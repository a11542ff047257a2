//! Resets of clients whose connections the kernel has forgotten.
//!
//! A client that sends hears at once that its connection is gone; one that waits for data would wait
//! for its keep-alive. So it gets a probe: a segment from the address it is connected to, far outside of
//! its window, which it has to answer with where it stands (RFC 9293 §3.10.7.4). The kernel knows no
//! such connection any more, and the rule for strays answers with a reset that fits exactly.
//!
//! ```text
//!  this node                          client
//!     ACK, sequence 0 ─────────────────▶     (not tracked, or it would be a connection again)
//!     ◀───────────── ACK, its own numbers
//!     RST with those ──────────────────▶     connection reset
//! ```
//!
//! A client behind a firewall that drops the question learns it as before.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};

use super::conntrack::Entry;
use super::ruleset::QUESTION_MARK;

/// A TCP header without options.
const SEGMENT: usize = 20;

/// The protocol's number.
const TCP: u8 = 6;

/// Asks clients of connections that were forgotten. Keeps the socket of the last address: entries of
/// one frontend mostly follow one another.
#[derive(Debug, Default)]
pub(super) struct ChallengeSender {
    socket: Option<(IpAddr, Socket)>,
}

impl ChallengeSender {
    /// Asks the client of `entry` where it stands.
    pub(super) fn ask(&mut self, entry: &Entry) -> io::Result<()> {
        if entry.protocol != TCP {
            return Ok(());
        }
        let from = entry.destination.ip();
        let socket = match self.socket.take() {
            Some((address, socket)) if address == from => socket,
            _ => open(from)?,
        };
        // Raw sockets name no port.
        let to = SocketAddr::new(entry.client.ip(), 0);
        let sent = socket.send_to(&question(entry.destination, entry.client), &to.into());
        self.socket = Some((from, socket));
        sent.map(drop)
    }
}

fn open(from: IpAddr) -> io::Result<Socket> {
    let address = SocketAddr::new(from, 0);
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::RAW.nonblocking(), Some(Protocol::TCP))?;
    socket.set_mark(QUESTION_MARK)?;
    // Nothing is ever read: the kernel's queue of other connections stays small.
    socket.set_recv_buffer_size(0)?;
    // The address may have left this node a moment ago.
    match from {
        IpAddr::V4(_) => socket.set_freebind_v4(true)?,
        IpAddr::V6(_) => socket.set_freebind_v6(true)?,
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

/// An acknowledgement of nothing, with its checksum.
fn question(from: SocketAddr, to: SocketAddr) -> [u8; SEGMENT] {
    let [from0, from1] = from.port().to_be_bytes();
    let [to0, to1] = to.port().to_be_bytes();
    let mut segment = [0; SEGMENT];
    // Ports, sequence and acknowledgement 0, five words of header, ACK, no window.
    let head = [from0, from1, to0, to1, 0, 0, 0, 0, 0, 0, 0, 0, 5 << 4, 0x10];
    for (octet, value) in segment.iter_mut().zip(head) {
        *octet = value;
    }
    let sum = checksum(from.ip(), to.ip(), &segment).to_be_bytes();
    for (octet, value) in segment.iter_mut().skip(16).zip(sum) {
        *octet = value;
    }
    segment
}

/// The checksum of a segment between two addresses (RFC 9293 §3.1).
fn checksum(from: IpAddr, to: IpAddr, segment: &[u8]) -> u16 {
    let mut sum = u32::from(TCP) + u32::try_from(segment.len()).unwrap_or(0);
    for address in [from, to] {
        sum += match address {
            IpAddr::V4(address) => words(&Ipv4Addr::octets(&address)),
            IpAddr::V6(address) => words(&Ipv6Addr::octets(&address)),
        };
    }
    sum += words(segment);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(0)
}

fn words(octets: &[u8]) -> u32 {
    octets
        .chunks(2)
        .map(|pair| {
            let high = pair.first().copied().unwrap_or(0);
            let low = pair.get(1).copied().unwrap_or(0);
            u32::from(u16::from_be_bytes([high, low]))
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_adds_up() {
        for (from, to) in [
            ("192.0.2.1:6443", "198.51.100.7:40000"),
            ("[2001:db8::1]:443", "[2001:db8::ffff]:65535"),
        ] {
            let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
            let segment = question(from, to);
            // With its checksum in place, the sum is that of nothing.
            assert_eq!(checksum(from.ip(), to.ip(), &segment), 0);
            assert_eq!(segment[..2], from.port().to_be_bytes());
            assert_eq!(segment[2..4], to.port().to_be_bytes());
            assert_eq!(segment[12..14], [0x50, 0x10]);
        }
    }
}
