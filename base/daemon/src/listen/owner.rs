//! The process that has a port: found in the kernel's socket tables and the processes' descriptors.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// UDP or TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

impl fmt::Display for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        })
    }
}

/// The process that holds a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The address it holds, which may be a wildcard.
    pub address: SocketAddr,
    /// The user it runs as.
    pub uid: u32,
    /// Its process id, if this process may see it.
    pub pid: Option<u32>,
    /// Its command name, if this process may see it.
    pub command: Option<String>,
}

impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.command, self.pid) {
            (Some(command), Some(pid)) => write!(formatter, "{command} (pid {pid})"),
            (None, Some(pid)) => write!(formatter, "pid {pid}"),
            _ => write!(
                formatter,
                "a process of user {} that cannot be seen from here",
                self.uid
            ),
        }
    }
}

/// The owner of a socket that keeps `address` from being bound, if there is one.
#[must_use]
pub fn owner(transport: Transport, address: SocketAddr) -> Option<Owner> {
    let tables = match transport {
        Transport::Udp => ["/proc/self/net/udp", "/proc/self/net/udp6"],
        Transport::Tcp => ["/proc/self/net/tcp", "/proc/self/net/tcp6"],
    };
    let row = tables.iter().find_map(|table| {
        let text = read(table, transport).ok()?;
        rows(&text, transport).find(|row| conflicts(row.address, address))
    })?;
    let pid = process_with_socket(row.inode);
    let command = pid.and_then(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        Some(name.trim_end().to_owned())
    });
    Some(Owner {
        address: row.address,
        uid: row.uid,
        pid,
        command,
    })
}

/// Reads a table, and only the listening sockets of TCP's. The kernel lists those first, and the rest is
/// long on a busy node: every connection, and those that ended a minute ago.
fn read(table: &str, transport: Transport) -> io::Result<String> {
    if transport == Transport::Udp {
        return fs::read_to_string(table);
    }
    let mut text = String::new();
    for (number, line) in BufReader::new(File::open(table)?).lines().enumerate() {
        let line = line?;
        if number > 0 && line.split_ascii_whitespace().nth(STATE_COLUMN) != Some(LISTENING) {
            break;
        }
        text.push_str(&line);
        text.push('\n');
    }
    Ok(text)
}

/// True when both cannot be bound: the same port, and one address or a wildcard over it.
fn conflicts(held: SocketAddr, wanted: SocketAddr) -> bool {
    if held.port() != wanted.port() {
        return false;
    }
    let (held, wanted) = (held.ip().to_canonical(), wanted.ip().to_canonical());
    match (held, wanted) {
        (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => {
            held == wanted || held.is_unspecified() || wanted.is_unspecified()
        }
        // A wildcard of IPv6 may hold IPv4 as well; it is the best guess there is.
        (IpAddr::V6(held), IpAddr::V4(_)) => held.is_unspecified(),
        (IpAddr::V4(_), IpAddr::V6(_)) => false,
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Row {
    address: SocketAddr,
    uid: u32,
    inode: u64,
    /// Datagrams the kernel dropped for want of room; UDP alone counts them.
    dropped: u64,
}

/// How many datagrams the kernel has dropped because the queue of one of these UDP sockets was full.
pub(crate) fn queue_drops(inodes: &[u64]) -> u64 {
    ["/proc/self/net/udp", "/proc/self/net/udp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .map(|text| {
            rows(&text, Transport::Udp)
                .filter(|row| inodes.contains(&row.inode))
                .map(|row| row.dropped)
                .sum::<u64>()
        })
        .sum()
}

/// The column of a row's state.
const STATE_COLUMN: usize = 3;
/// The socket listens (`TCP_LISTEN` of the kernel's `net/tcp_states.h`).
const LISTENING: &str = "0A";

/// Rows of `/proc/net/{udp,tcp}{,6}`: `sl local remote st queues timer retransmits uid timeout inode`,
/// and for UDP `ref pointer drops`.
fn rows(table: &str, transport: Transport) -> impl Iterator<Item = Row> {
    const DROPS_COLUMN: usize = 12;
    table.lines().skip(1).filter_map(move |line| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[_, local, _, state, _, _, _, uid, _, inode, ..] = columns.as_slice() else {
            return None;
        };
        if transport == Transport::Tcp && state != LISTENING {
            return None;
        }
        Some(Row {
            address: parse_address(local)?,
            uid: uid.parse().ok()?,
            inode: inode.parse().ok()?,
            dropped: columns
                .get(DROPS_COLUMN)
                .filter(|_| transport == Transport::Udp)
                .and_then(|column| column.parse().ok())
                .unwrap_or(0),
        })
    })
}

/// `0100007F:0035`: words of the address as they lie in memory, the port as a number.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |index: usize| {
        let digits = address.get(index * 8..index * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip: IpAddr = match address.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let mut octets = [0; 16];
            for (index, chunk) in octets.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(index)?);
            }
            Ipv6Addr::from(octets).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// The process one of whose descriptors is the socket with that inode.
fn process_with_socket(inode: u64) -> Option<u32> {
    let wanted = format!("socket:[{inode}]");
    fs::read_dir("/proc").ok()?.flatten().find_map(|process| {
        let pid: u32 = process.file_name().to_str()?.parse().ok()?;
        // Other users' descriptors cannot be read: they are passed over.
        let descriptors = fs::read_dir(process.path().join("fd")).ok()?;
        descriptors
            .flatten()
            .filter_map(|descriptor| fs::read_link(descriptor.path()).ok())
            .any(|target| target.as_os_str() == wanted.as_str())
            .then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
        0: 0100007F:0035 00000000:0000 0A 00000000:00000000 00:00000000 00000000   101        0 15432 1 0000 100 0 0 10 0\n   \
        1: 0100007F:D431 0100007F:0035 01 00000000:00000000 00:00000000 00000000     0        0 999 1 0000 20 4 30 10 -1\n  \
        broken\n";

    #[test]
    #[cfg(target_endian = "little")]
    fn rows_of_the_kernels_table_are_read() {
        let listening: Vec<Row> = rows(TABLE, Transport::Tcp).collect();
        assert_eq!(
            listening,
            [Row {
                address: "127.0.0.1:53".parse().unwrap(),
                uid: 101,
                inode: 15432,
                dropped: 0,
            }]
        );
        assert_eq!(rows(TABLE, Transport::Udp).count(), 2);
        assert_eq!(
            parse_address("00000000000000000000000001000000:0035"),
            "[::1]:53".parse().ok()
        );
        assert_eq!(parse_address("0100007F"), None);
        assert_eq!(parse_address("zz00007F:0035"), None);
    }

    #[test]
    fn a_full_queue_is_counted() {
        use std::os::fd::AsFd;
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let inode = rustix::fs::fstat(socket.as_fd()).unwrap().st_ino;
        assert_eq!(queue_drops(&[inode]), 0);
        socket2::SockRef::from(&socket)
            .set_recv_buffer_size(4096)
            .unwrap();
        let address = socket.local_addr().unwrap();
        for _ in 0..100 {
            socket.send_to(&[0; 512], address).unwrap();
        }
        let dropped = queue_drops(&[inode]);
        assert!(dropped > 50 && dropped < 100, "{dropped}");
        assert_eq!(queue_drops(&[]), 0);
    }

    #[test]
    fn a_wildcard_stands_in_the_way_of_every_address() {
        for (held, wanted, expected) in [
            ("127.0.0.1:53", "127.0.0.1:53", true),
            ("127.0.0.1:53", "127.0.0.2:53", false),
            ("127.0.0.1:53", "127.0.0.1:54", false),
            ("0.0.0.0:53", "127.0.0.1:53", true),
            ("127.0.0.1:53", "0.0.0.0:53", true),
            ("[::]:53", "127.0.0.1:53", true),
            ("[::1]:53", "127.0.0.1:53", false),
            ("127.0.0.1:53", "[::]:53", false),
        ] {
            let result = conflicts(held.parse().unwrap(), wanted.parse().unwrap());
            assert_eq!(result, expected, "{held} {wanted}");
        }
    }

    #[test]
    fn an_owner_out_of_sight_is_named_by_its_user() {
        let owner = Owner {
            address: "0.0.0.0:53".parse().unwrap(),
            uid: 101,
            pid: None,
            command: None,
        };
        assert_eq!(
            owner.to_string(),
            "a process of user 101 that cannot be seen from here"
        );
    }
}
