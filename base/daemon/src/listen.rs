//! Sockets to listen on: those systemd hands over by name, else bound here.
//!
//! A swap of one process for the next loses nothing when both serve the same inherited sockets, so
//! inherited ones always win over configured addresses. A port that another process has is an error that names that
//! process, even where `SO_REUSEPORT` would let two strangers share it: the first socket of an address is bound alone, and shares only afterwards.

mod inherit;
mod owner;
pub mod path;

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

pub use inherit::Inherited;
pub(crate) use owner::queue_drops;
pub use owner::{Owner, Transport, owner};

/// Connections the kernel may hold until they are accepted; a burst of clients after a restart.
const BACKLOG: i32 = 4096;

/// The receive buffer of a UDP socket: some two thousand small queries, a burst that the system's
/// own default of a few hundred loses. Name servers have long asked for as much.
const RECEIVE_BUFFER: usize = 1 << 20;

/// How to bind UDP sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpOptions {
    /// Sockets of one address, among which the kernel spreads clients (`SO_REUSEPORT`); at least 1.
    pub per_address: usize,
    /// Whether more sockets of the same address may [join](join_udp) later.
    pub grows: bool,
    /// The receive buffer in bytes; 1 MiB, as far as the system grants it, unless given. Beyond
    /// `net.core.rmem_max` it takes `CAP_NET_ADMIN`.
    pub receive_buffer: Option<usize>,
    /// Bind addresses the node does not have yet, such as a virtual IP (`IP_FREEBIND`).
    pub freebind: bool,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            per_address: 1,
            grows: false,
            receive_buffer: None,
            freebind: false,
        }
    }
}

/// How to bind TCP listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpOptions {
    /// Bind addresses the node does not have yet, such as a virtual IP (`IP_FREEBIND`).
    pub freebind: bool,
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {transport} {address}{}", taken(owner.as_ref()))]
pub struct ListenError {
    /// UDP or TCP.
    pub transport: Transport,
    /// The address asked for.
    pub address: SocketAddr,
    /// The process that has it, if it is taken and that can be found out.
    pub owner: Option<Owner>,
    /// The system's error.
    #[source]
    pub source: io::Error,
}

impl ListenError {
    /// The exit code for this error: 77 when the port needs a privilege, 70 otherwise.
    #[must_use]
    pub fn code(&self) -> u8 {
        crate::exit::code_of_io(&self.source)
    }

    fn new(transport: Transport, address: SocketAddr, source: io::Error) -> Self {
        let owner = (source.kind() == io::ErrorKind::AddrInUse)
            .then(|| owner(transport, address))
            .flatten();
        Self {
            transport,
            address,
            owner,
            source,
        }
    }
}

fn taken(owner: Option<&Owner>) -> String {
    owner.map_or_else(String::new, |owner| format!(", taken by {owner}"))
}

//--- Open

/// The UDP sockets called `name` that were inherited, else new ones on `addresses`.
///
/// All are in blocking mode.
///
/// # Errors
///
/// The first address that cannot be bound.
pub fn udp(
    inherited: &mut Inherited,
    name: &str,
    addresses: &[SocketAddr],
    options: UdpOptions,
) -> Result<Vec<UdpSocket>, ListenError> {
    let sockets = inherited.udp(name);
    if !sockets.is_empty() {
        for socket in &sockets {
            raise_receive_buffer(socket, options.receive_buffer);
        }
        return Ok(sockets);
    }
    let mut sockets = Vec::new();
    for &address in addresses {
        let bound = bind_group(address, options)
            .map_err(|source| ListenError::new(Transport::Udp, address, source))?;
        sockets.extend(bound);
    }
    Ok(sockets)
}

/// One more socket for each of `addresses`, of which this process has one that [grows](UdpOptions::grows): the kernel spreads
/// clients among all.
///
/// # Errors
///
/// The first address that cannot be bound.
pub fn join_udp(
    addresses: &[SocketAddr],
    options: UdpOptions,
) -> Result<Vec<UdpSocket>, ListenError> {
    addresses
        .iter()
        .map(|&address| {
            bind_udp(address, options, Sharing::Group)
                .map_err(|source| ListenError::new(Transport::Udp, address, source))
        })
        .collect()
}

/// The TCP listeners called `name` that were inherited, else new ones on `addresses`.
///
/// All are in non-blocking mode, as tokio wants them.
///
/// # Errors
///
/// The first address that cannot be bound.
pub fn tcp(
    inherited: &mut Inherited,
    name: &str,
    addresses: &[SocketAddr],
) -> Result<Vec<TcpListener>, ListenError> {
    tcp_with(inherited, name, addresses, TcpOptions::default())
}

/// As [`tcp`], with options.
///
/// # Errors
///
/// The first address that cannot be bound.
pub fn tcp_with(
    inherited: &mut Inherited,
    name: &str,
    addresses: &[SocketAddr],
    options: TcpOptions,
) -> Result<Vec<TcpListener>, ListenError> {
    let listeners = inherited.tcp(name);
    if !listeners.is_empty() {
        return Ok(listeners);
    }
    addresses
        .iter()
        .map(|&address| {
            listen_tcp(address, options)
                .map_err(|source| ListenError::new(Transport::Tcp, address, source))
        })
        .collect()
}

//--- Bind

/// Binds all sockets of one address. With port 0 they share the port the first one got.
fn bind_group(address: SocketAddr, options: UdpOptions) -> io::Result<Vec<UdpSocket>> {
    let first = bind_udp(address, options, Sharing::Alone)?;
    let address = first.local_addr()?;
    let mut sockets = vec![first];
    if options.per_address > 1 || options.grows {
        // The group forms around a socket that was bound alone: strangers are kept out.
        socket2::SockRef::from(sockets.as_slice().first().ok_or(io::ErrorKind::NotFound)?)
            .set_reuse_port(true)?;
        for _ in 1..options.per_address {
            sockets.push(bind_udp(address, options, Sharing::Group)?);
        }
    }
    Ok(sockets)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Alone,
    Group,
}

fn bind_udp(address: SocketAddr, options: UdpOptions, sharing: Sharing) -> io::Result<UdpSocket> {
    let socket = open(address, Type::DGRAM, Protocol::UDP, options.freebind)?;
    if sharing == Sharing::Group {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&address.into())?;
    let socket = UdpSocket::from(socket);
    raise_receive_buffer(&socket, options.receive_buffer);
    Ok(socket)
}

fn listen_tcp(address: SocketAddr, options: TcpOptions) -> io::Result<TcpListener> {
    let socket = open(address, Type::STREAM, Protocol::TCP, options.freebind)?;
    // Connections of an earlier process in TIME_WAIT do not hold the port.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn open(address: SocketAddr, kind: Type, protocol: Protocol, freebind: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if freebind {
        match address {
            SocketAddr::V4(_) => socket.set_freebind_v4(true)?,
            SocketAddr::V6(_) => socket.set_freebind_v6(true)?,
        }
    }
    Ok(socket)
}

/// Makes the receive buffer as large as wished for, or as the system allows; never smaller.
fn raise_receive_buffer(socket: &UdpSocket, wanted: Option<usize>) {
    let size = wanted.unwrap_or(RECEIVE_BUFFER);
    let options = socket2::SockRef::from(socket);
    // The kernel reports twice what can be used.
    let held = || options.recv_buffer_size().unwrap_or(0) / 2;
    if held() >= size {
        return;
    }
    // Beyond the system's bound only the privileged get, so the plain call comes second.
    let forced = rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, size);
    if forced.is_err()
        && let Err(error) = options.set_recv_buffer_size(size)
    {
        tracing::debug!(%error, "Receive buffer stays as it is");
    }
    if wanted.is_some() && held() < size {
        tracing::warn!(
            wanted = size,
            got = held(),
            "Receive buffer is smaller than configured; raise net.core.rmem_max or use a socket unit"
        );
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// False on machines whose kernel was told to do without.
    pub(crate) fn has_ipv6() -> bool {
        UdpSocket::bind("[::1]:0").is_ok()
    }

    fn loopback() -> SocketAddr {
        "127.0.0.1:0".parse().unwrap()
    }

    fn open_udp(address: SocketAddr, options: UdpOptions) -> Result<Vec<UdpSocket>, ListenError> {
        udp(&mut Inherited::none(), "dns", &[address], options)
    }

    #[test]
    fn a_group_shares_one_port() {
        let options = UdpOptions {
            per_address: 3,
            ..UdpOptions::default()
        };
        let sockets = open_udp(loopback(), options).unwrap();
        let ports: Vec<_> = sockets
            .iter()
            .map(|s| s.local_addr().unwrap().port())
            .collect();
        assert_eq!(ports.len(), 3);
        assert!(ports.iter().all(|port| *port == ports[0] && *port != 0));
    }

    #[test]
    fn every_socket_of_a_group_is_served() {
        let options = UdpOptions {
            per_address: 2,
            ..UdpOptions::default()
        };
        let sockets = open_udp(loopback(), options).unwrap();
        let address = sockets[0].local_addr().unwrap();
        let mut served = [0; 2];
        for socket in &sockets {
            socket.set_nonblocking(true).unwrap();
        }
        for _ in 0..64 {
            let client = UdpSocket::bind(loopback()).unwrap();
            client.send_to(b"?", address).unwrap();
            for (count, socket) in served.iter_mut().zip(&sockets) {
                *count += usize::from(socket.recv(&mut [0; 8]).is_ok());
            }
        }
        assert!(served[0] > 0 && served[1] > 0, "{served:?}");
        assert_eq!(served[0] + served[1], 64);
    }

    #[test]
    fn a_taken_udp_port_names_its_owner_even_if_it_could_be_shared() {
        let options = UdpOptions {
            per_address: 2,
            ..UdpOptions::default()
        };
        let sockets = open_udp(loopback(), options).unwrap();
        let address = sockets[0].local_addr().unwrap();
        let error = open_udp(address, options).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::AddrInUse);
        let text = error.to_string();
        let us = format!("(pid {})", std::process::id());
        assert!(
            text.contains(&format!("udp {address}, taken by ")),
            "{text}"
        );
        assert!(text.contains(&us), "{text}");
    }

    #[test]
    fn a_taken_tcp_port_names_its_owner() {
        let mut none = Inherited::none();
        let listeners = tcp(&mut none, "dns", &[loopback()]).unwrap();
        let address = listeners[0].local_addr().unwrap();
        let error = tcp(&mut none, "dns", &[address]).unwrap_err();
        let owner = error.owner.as_ref().unwrap();
        assert_eq!(owner.pid, Some(std::process::id()));
        // A wildcard conflicts with every address of the port.
        let wildcard = SocketAddr::from(([0, 0, 0, 0], address.port()));
        let error = tcp(&mut none, "dns", &[wildcard]).unwrap_err();
        assert_eq!(error.owner.unwrap().pid, Some(std::process::id()));
    }

    #[test]
    fn both_wildcards_of_one_port_can_be_bound() {
        if !has_ipv6() {
            return;
        }
        let sockets = open_udp("[::]:0".parse().unwrap(), UdpOptions::default()).unwrap();
        let port = sockets[0].local_addr().unwrap().port();
        let both = open_udp(
            SocketAddr::from(([0, 0, 0, 0], port)),
            UdpOptions::default(),
        );
        assert!(both.is_ok(), "{both:?}");
    }

    #[test]
    fn an_address_the_node_does_not_have_needs_freebind() {
        let address = "192.0.2.77:0".parse().unwrap();
        let error = open_udp(address, UdpOptions::default()).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::AddrNotAvailable);
        let options = UdpOptions {
            freebind: true,
            ..UdpOptions::default()
        };
        assert!(open_udp(address, options).is_ok());
        let mut none = Inherited::none();
        let listener = tcp_with(&mut none, "x", &[address], TcpOptions { freebind: true });
        assert!(listener.is_ok(), "{listener:?}");
    }

    #[test]
    fn the_receive_buffer_is_raised_and_never_lowered() {
        let options = UdpOptions {
            receive_buffer: Some(32 << 10),
            ..UdpOptions::default()
        };
        let sockets = open_udp(loopback(), options).unwrap();
        let size = socket2::SockRef::from(&sockets[0])
            .recv_buffer_size()
            .unwrap();
        assert!(size >= 64 << 10, "{size}");
    }
}
