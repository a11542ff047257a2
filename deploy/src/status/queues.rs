//! The queues in the sockets of a node, and the datagrams that the kernel has dropped for want of room: the kernel's
//! own tables, as `ss -uam` shows them.
//!
//! Reads nothing; the tables are given as text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The protocol of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Datagrams.
    Udp,
    /// Connections; only sockets that listen are of interest.
    Tcp,
}

impl Kind {
    /// In a word.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

/// A socket that clients ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    /// The kind of socket.
    pub(crate) kind: Kind,
    /// The address.
    pub(crate) address: SocketAddr,
    /// Octets of datagrams that wait, or connections that wait to be accepted.
    pub(crate) waiting: u64,
    /// Datagrams that were dropped because the queue was full; TCP does not count them by socket.
    pub(crate) dropped: u64,
}

/// The columns: local address, state, queues; for UDP the drops at the end.
const ADDRESS: usize = 1;
const STATE: usize = 3;
const QUEUES: usize = 4;
const DROPS: usize = 12;

/// The state of a socket that listens (`TCP_LISTEN` of the kernel's `net/tcp_states.h`).
const LISTENING: &str = "0A";

/// The sockets of a table (`/proc/net/udp` and its like) at these ports.
pub(crate) fn of(table: &str, kind: Kind, ports: &[u16]) -> Vec<Queue> {
    let rows = table.lines().skip(1).filter_map(|line| row(line, kind));
    rows.filter(|queue| ports.contains(&queue.address.port()))
        .collect()
}

fn row(line: &str, kind: Kind) -> Option<Queue> {
    let columns: Vec<&str> = line.split_ascii_whitespace().collect();
    if kind == Kind::Tcp && *columns.get(STATE)? != LISTENING {
        return None;
    }
    let (_, waiting) = columns.get(QUEUES)?.split_once(':')?;
    let dropped = columns.get(DROPS).and_then(|text| text.parse().ok());
    Some(Queue {
        kind,
        address: address(columns.get(ADDRESS)?)?,
        waiting: u64::from_str_radix(waiting, 16).ok()?,
        dropped: dropped.filter(|_| kind == Kind::Udp).unwrap_or(0),
    })
}

/// `0100007F:0035`: 32-bit words in this machine's order, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |index: usize| {
        let digits = address.get(index * 8..index * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut octets = [0; 16];
            for (index, chunk) in octets.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(index)?);
            }
            IpAddr::V6(Ipv6Addr::from(octets))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UDP: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  386: 0100007F:14B5 00000000:0000 07 00000000:00000180 00:00000000 00000000     0        0 4711 2 0000000000000000 12
  387: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4712 2 0000000000000000 0
  nonsense
";
    const TCP: &str = "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000001000000:1543 00000000000000000000000000000000:0000 0A 00000000:00000003 00:00000000 00000000     0        0 20592 1 0000000000000000 100 0 0 10 0
   1: 00000000000000000000000001000000:1543 00000000000000000000000001000000:D431 01 00000000:00000000 00:00000000 00000000     0        0 20593 1 0000000000000000 100 0 0 10 0
";

    #[test]
    #[cfg(target_endian = "little")]
    fn queues_and_drops_of_a_port_are_found() {
        let found = of(UDP, Kind::Udp, &[5301]);
        let expected = Queue {
            kind: Kind::Udp,
            address: "127.0.0.1:5301".parse().unwrap(),
            waiting: 384,
            dropped: 12,
        };
        assert_eq!(found, [expected]);
        assert_eq!(of(UDP, Kind::Udp, &[53, 5301]).len(), 2);
        let found = of(TCP, Kind::Tcp, &[5443]);
        let expected = Queue {
            kind: Kind::Tcp,
            address: "[::1]:5443".parse().unwrap(),
            waiting: 3,
            dropped: 0,
        };
        assert_eq!(found, [expected], "connections are not sockets that listen");
        assert_eq!(of("", Kind::Udp, &[53]), []);
    }
}
