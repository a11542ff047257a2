//! Asking a daemon, as chronyc does.

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chronyc::MAX_LENGTH;
use chronyc::reply::{Reply, Report, Status};
use chronyc::request::{Command, Request};
use daemon::clock;

/// Addresses of daemons, in the order of the attempts; chronyc's own.
pub const DEFAULT_HOSTS: &str = "/run/chrony/chronyd.sock,127.0.0.1,::1";

/// The address and the options of a query.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses, names and paths with commas between them.
    pub hosts: String,
    /// The port, over UDP.
    pub port: u16,
    /// Time to wait for the first reply; twice as long for each further attempt.
    pub timeout: Duration,
    /// How often a request is sent again.
    pub retries: u32,
}

/// The reason for a missing report.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// There is no socket.
    #[error("Could not open connection to daemon")]
    Connect,
    /// No daemon answers.
    #[error("506 Cannot talk to daemon")]
    Silence,
    /// The daemon answers with something else.
    #[error("508 Bad reply from daemon")]
    BadReply,
    /// It is refused.
    #[error("{}", .0.text())]
    Refused(Status),
}

/// A way to a daemon.
#[derive(Debug)]
enum Link {
    Udp(UdpSocket),
    /// The own socket has a name for the reply to go to.
    Unix(UnixDatagram, PathBuf),
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Self::Unix(_, own) = self {
            // It is of no use to anybody.
            let _removed = fs::remove_file(own);
        }
    }
}

impl Link {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        let timeout = Some(timeout.max(Duration::from_millis(1)));
        match self {
            Self::Udp(socket) => socket.set_read_timeout(timeout),
            Self::Unix(socket, _) => socket.set_read_timeout(timeout),
        }
    }

    fn send(&self, datagram: &[u8]) -> io::Result<usize> {
        match self {
            Self::Udp(socket) => socket.send(datagram),
            Self::Unix(socket, _) => socket.send(datagram),
        }
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Udp(socket) => socket.recv(buffer),
            Self::Unix(socket, _) => socket.recv(buffer),
        }
    }
}

/// A daemon to query.
#[derive(Debug)]
pub struct Client {
    options: Options,
    /// Ways that are left to be tried.
    hosts: Vec<String>,
    link: Option<Link>,
    sequence: u64,
}

impl Client {
    /// Nothing is opened before the first question.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let mut hosts: Vec<String> = options.hosts.split(',').map(str::to_owned).collect();
        hosts.reverse();
        Self {
            hosts,
            options,
            link: None,
            // Only a program that sees the request can know its number.
            sequence: RandomState::new().hash_one(0_u8),
        }
    }

    /// The reply.
    ///
    /// # Errors
    /// When no daemon answers, or the daemon refuses.
    pub fn ask(&mut self, command: &Command) -> Result<Report, QueryError> {
        let reply = self.exchange(command)?;
        if reply.status.is_success() {
            Ok(reply.report)
        } else {
            Err(QueryError::Refused(reply.status))
        }
    }

    /// How a command went.
    ///
    /// # Errors
    /// When no daemon answers.
    pub fn tell(&mut self, command: &Command) -> Result<Status, QueryError> {
        self.exchange(command).map(|reply| reply.status)
    }

    fn exchange(&mut self, command: &Command) -> Result<Reply, QueryError> {
        let mut error = QueryError::Connect;
        loop {
            if self.link.is_none() {
                let Some(host) = self.hosts.pop() else {
                    return Err(error);
                };
                self.link = open(&host, self.options.port);
                if self.link.is_none() {
                    continue;
                }
            }
            match self.attempts(command) {
                // After the first daemon that answers, the client queries no other.
                Ok(reply) => {
                    self.hosts.clear();
                    return Ok(reply);
                }
                Err(failed) => {
                    error = failed;
                    if self.hosts.is_empty() {
                        return Err(error);
                    }
                    self.link = None;
                }
            }
        }
    }

    fn attempts(&mut self, command: &Command) -> Result<Reply, QueryError> {
        let link = self.link.as_ref().ok_or(QueryError::Connect)?;
        let mut timeout = self.options.timeout;
        for attempt in 0..=self.options.retries {
            self.sequence = self
                .sequence
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(1);
            let sequence = u32::try_from(self.sequence >> 32).unwrap_or_default();
            let request = Request {
                sequence,
                attempt: u16::try_from(attempt).unwrap_or(u16::MAX),
                command: command.clone(),
            };
            if link.send(&request.to_octets()).is_ok()
                && let Some(reply) = wait(link, sequence, command, timeout)?
            {
                return Ok(reply);
            }
            timeout *= 2;
        }
        Err(QueryError::Silence)
    }
}

/// Waits for the reply to a request; `None` when the time is over or no daemon is there.
fn wait(
    link: &Link,
    sequence: u32,
    command: &Command,
    timeout: Duration,
) -> Result<Option<Reply>, QueryError> {
    let deadline = clock::now() + timeout;
    let mut buffer = [0; MAX_LENGTH];
    loop {
        let left = deadline.saturating_duration_since(clock::now());
        if left.is_zero() || link.set_timeout(left).is_err() {
            return Ok(None);
        }
        let Ok(length) = link.receive(&mut buffer) else {
            return Ok(None);
        };
        let datagram = buffer.get(..length).unwrap_or_default();
        match Reply::parse(datagram) {
            Some(reply) if reply.sequence == sequence => {
                return if reply.command == command.number() {
                    Ok(Some(reply))
                } else {
                    Err(QueryError::BadReply)
                };
            }
            // The reply to an earlier attempt, or something else.
            _ => {}
        }
    }
}

/// A way to a host, if there is one.
fn open(host: &str, port: u16) -> Option<Link> {
    if host.starts_with('/') {
        return open_unix(Path::new(host));
    }
    let addresses: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::new(address, port)],
        Err(_) => (host, port).to_socket_addrs().ok()?.collect(),
    };
    addresses.into_iter().find_map(|address| {
        let own: SocketAddr = if address.is_ipv4() {
            SocketAddr::from(([0, 0, 0, 0], 0))
        } else {
            SocketAddr::from(([0; 16], 0))
        };
        let socket = UdpSocket::bind(own).ok()?;
        socket.connect(address).ok()?;
        Some(Link::Udp(socket))
    })
}

fn open_unix(path: &Path) -> Option<Link> {
    // Beside the daemon's socket, as chronyc does it: a user who may write there may command.
    let own = path.with_file_name(format!("chronyc.{}.sock", std::process::id()));
    let _stale = fs::remove_file(&own);
    let socket = UnixDatagram::bind(&own).ok()?;
    let link = Link::Unix(socket, own);
    let Link::Unix(socket, own) = &link else {
        return None;
    };
    // The daemon may run as another user.
    fs::set_permissions(own, fs::Permissions::from_mode(0o666)).ok()?;
    socket.connect(path).ok()?;
    Some(link)
}
