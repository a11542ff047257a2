//! Sockets handed over by systemd (`sd_listen_fds(3)`), found by the name of their unit.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;

use socket2::{Domain, Socket, Type};

use crate::environment::Environment;

/// The inherited sockets that no listener has claimed yet.
#[derive(Debug, Default)]
pub struct Inherited {
    sockets: Vec<Named>,
    n_inherited: usize,
}

#[derive(Debug)]
struct Named {
    name: String,
    kind: Kind,
    socket: Socket,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Udp,
    Tcp,
    Unix,
    Other,
}

impl Inherited {
    /// No sockets, as when started manually.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Takes the sockets that `LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES` announce.
    ///
    /// Must run before the process opens descriptors of its own. A second call finds none.
    ///
    /// # Errors
    ///
    /// When an announced descriptor is not open, or not a socket.
    pub fn from_env() -> io::Result<Self> {
        let environment = Environment::current();
        let descriptors = sys::inherit::take(environment.listen_pid, environment.listen_fds)?;
        let names = environment.listen_names.iter().map(String::as_str);
        let names = names.chain(std::iter::repeat("unknown"));
        let named = names.map(ToOwned::to_owned).zip(descriptors);
        Self::from_descriptors(named.collect())
    }

    /// Sorts descriptors by what kind of socket they are.
    ///
    /// # Errors
    ///
    /// When one is not a socket.
    pub fn from_descriptors(descriptors: Vec<(String, OwnedFd)>) -> io::Result<Self> {
        let sockets = descriptors
            .into_iter()
            .map(|(name, descriptor)| {
                let socket = Socket::from(descriptor);
                let kind = kind_of(&socket).map_err(|error| {
                    io::Error::new(error.kind(), format!("inherited `{name}`: {error}"))
                })?;
                Ok(Named { name, kind, socket })
            })
            .collect::<io::Result<Vec<_>>>()?;
        Ok(Self {
            n_inherited: sockets.len(),
            sockets,
        })
    }

    /// True when sockets were handed over at all, claimed or not.
    #[must_use]
    pub fn any(&self) -> bool {
        self.n_inherited > 0
    }

    /// True when a socket of that name is unclaimed.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.sockets.iter().any(|socket| socket.name == name)
    }

    /// Takes the UDP sockets of that name, in blocking mode.
    pub fn udp(&mut self, name: &str) -> Vec<UdpSocket> {
        self.take(name, Kind::Udp, Mode::Blocking)
    }

    /// Takes the TCP listeners of that name, in non-blocking mode.
    pub fn tcp(&mut self, name: &str) -> Vec<TcpListener> {
        self.take(name, Kind::Tcp, Mode::NonBlocking)
    }

    /// Takes the Unix stream listeners of that name, in non-blocking mode.
    pub fn unix(&mut self, name: &str) -> Vec<UnixListener> {
        self.take(name, Kind::Unix, Mode::NonBlocking)
    }

    /// The unclaimed sockets: each as name and address, to warn about.
    #[must_use]
    pub fn unclaimed(&self) -> Vec<String> {
        self.sockets.iter().map(Named::describe).collect()
    }

    fn take<T: From<Socket>>(&mut self, name: &str, kind: Kind, mode: Mode) -> Vec<T> {
        self.sockets
            .extract_if(.., |socket| socket.name == name && socket.kind == kind)
            .filter_map(
                |named| match named.socket.set_nonblocking(mode == Mode::NonBlocking) {
                    Ok(()) => Some(T::from(named.socket)),
                    Err(error) => {
                        tracing::error!(name, %error, "Inherited socket cannot be used");
                        None
                    }
                },
            )
            .collect()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Blocking,
    NonBlocking,
}

impl Named {
    fn describe(&self) -> String {
        let address = self
            .socket
            .local_addr()
            .ok()
            .and_then(|address| address.as_socket());
        let kind = match self.kind {
            Kind::Udp => "udp",
            Kind::Tcp => "tcp",
            Kind::Unix => "unix",
            Kind::Other => "socket of another kind",
        };
        match address {
            Some(address) => format!("{} ({kind} {address})", self.name),
            None => format!("{} ({kind})", self.name),
        }
    }
}

/// Asks the socket itself: a unit may carry several kinds under one name.
fn kind_of(socket: &Socket) -> io::Result<Kind> {
    let kind = socket.r#type()?;
    let domain = socket.domain()?;
    Ok(match (domain, kind) {
        (Domain::IPV4 | Domain::IPV6, Type::DGRAM) => Kind::Udp,
        (Domain::IPV4 | Domain::IPV6, Type::STREAM) => Kind::Tcp,
        (Domain::UNIX, Type::STREAM) => Kind::Unix,
        _ => Kind::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::os::unix::net::UnixDatagram;

    fn loopback() -> SocketAddr {
        "127.0.0.1:0".parse().unwrap()
    }

    fn three() -> Inherited {
        let udp = |address: &str| UdpSocket::bind(address).unwrap();
        let tcp = TcpListener::bind(loopback()).unwrap();
        Inherited::from_descriptors(vec![
            ("dns".to_owned(), udp("127.0.0.1:0").into()),
            ("dns".to_owned(), tcp.into()),
            ("dns".to_owned(), udp("127.0.0.2:0").into()),
            (
                "admin".to_owned(),
                TcpListener::bind(loopback()).unwrap().into(),
            ),
        ])
        .unwrap()
    }

    #[test]
    fn one_name_may_carry_several_kinds() {
        let mut inherited = three();
        assert!(inherited.any());
        assert_eq!(inherited.udp("dns").len(), 2);
        assert_eq!(inherited.tcp("dns").len(), 1);
        assert!(inherited.udp("dns").is_empty());
        assert!(inherited.unix("dns").is_empty());
        let unclaimed = inherited.unclaimed();
        assert_eq!(unclaimed.len(), 1);
        assert!(
            unclaimed[0].starts_with("admin (tcp 127.0.0.1:"),
            "{unclaimed:?}"
        );
        assert!(inherited.any());
    }

    #[test]
    fn inherited_sockets_win_over_addresses() {
        let mut inherited = three();
        let address = "127.0.0.1:1".parse().unwrap();
        let sockets =
            crate::listen::udp(&mut inherited, "dns", &[address], Default::default()).unwrap();
        assert_eq!(sockets.len(), 2);
        let listeners = crate::listen::tcp(&mut inherited, "admin", &[address]).unwrap();
        assert_eq!(listeners.len(), 1);
    }

    #[test]
    fn a_listener_is_made_non_blocking_and_a_udp_socket_blocking() {
        let udp = UdpSocket::bind(loopback()).unwrap();
        udp.set_nonblocking(true).unwrap();
        let tcp = TcpListener::bind(loopback()).unwrap();
        let mut inherited = Inherited::from_descriptors(vec![
            ("x".to_owned(), udp.into()),
            ("x".to_owned(), tcp.into()),
        ])
        .unwrap();
        let flags = |fd: &dyn std::os::fd::AsFd| rustix::fs::fcntl_getfl(fd.as_fd()).unwrap();
        let udp = inherited.udp("x").remove(0);
        assert!(!flags(&udp).contains(rustix::fs::OFlags::NONBLOCK));
        let tcp = inherited.tcp("x").remove(0);
        assert!(flags(&tcp).contains(rustix::fs::OFlags::NONBLOCK));
    }

    #[test]
    fn what_is_no_listener_stays_unclaimed_and_what_is_no_socket_is_an_error() {
        let (datagram, _other) = UnixDatagram::pair().unwrap();
        let inherited =
            Inherited::from_descriptors(vec![("log".to_owned(), datagram.into())]).unwrap();
        assert_eq!(inherited.unclaimed(), ["log (socket of another kind)"]);
        let file = std::fs::File::open("/dev/null").unwrap();
        let error = Inherited::from_descriptors(vec![("x".to_owned(), file.into())]).unwrap_err();
        assert!(error.to_string().contains("inherited `x`"), "{error}");
    }

    #[test]
    fn started_by_hand_there_are_none() {
        assert!(!Inherited::from_env().unwrap().any());
    }
}
