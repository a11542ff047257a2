//! Listening sockets: one for each worker where this process binds them, one for all workers where it
//! was given one.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use daemon::listen::{ListenError, Transport};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// Connections the kernel may hold until they are accepted; a burst of clients after a restart.
const BACKLOG: i32 = 4096;

/// The sockets of one address of one frontend.
#[derive(Debug)]
pub struct Listener {
    /// The frontend's name.
    pub frontend: Arc<str>,
    /// The address.
    pub address: SocketAddr,
    /// Its sockets. With as many as there are workers each has its own, and the kernel spreads clients
    /// among them; fewer are watched by every worker, and the kernel wakes one.
    pub sockets: Vec<TcpListener>,
}

/// How to bind listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BindOptions {
    /// Sockets of one address: as many as there are workers.
    pub per_address: usize,
    /// Bind addresses the node does not have yet, such as a virtual IP (`IP_FREEBIND`).
    pub freebind: bool,
}

/// Binds the sockets of one address. With port 0 they share the port the first one got.
///
/// # Errors
///
/// When the address cannot be bound.
pub fn bind(
    frontend: &Arc<str>,
    address: SocketAddr,
    options: BindOptions,
) -> Result<Listener, ListenError> {
    bind_group(address, options)
        .map(|sockets| Listener {
            frontend: Arc::clone(frontend),
            address,
            sockets,
        })
        .map_err(|source| refused(address, source))
}

pub(super) fn refused(address: SocketAddr, source: io::Error) -> ListenError {
    let owner = (source.kind() == io::ErrorKind::AddrInUse)
        .then(|| daemon::listen::owner(Transport::Tcp, address))
        .flatten();
    ListenError {
        transport: Transport::Tcp,
        address,
        owner,
        source,
    }
}

fn bind_group(address: SocketAddr, options: BindOptions) -> io::Result<Vec<TcpListener>> {
    let first = open(address, options)?;
    first.bind(&address.into())?;
    let address = first
        .local_addr()?
        .as_socket()
        .ok_or(io::ErrorKind::Unsupported)?;
    let mut sockets = vec![first];
    if options.per_address > 1 {
        // The group forms around a socket that was bound alone: strangers are kept out.
        for socket in &sockets {
            socket.set_reuse_port(true)?;
        }
        for _ in 1..options.per_address {
            let socket = open(address, options)?;
            socket.set_reuse_port(true)?;
            socket.bind(&address.into())?;
            sockets.push(socket);
        }
    }
    // Each joins the group as it begins to listen.
    for socket in &sockets {
        socket.listen(BACKLOG)?;
    }
    Ok(sockets.into_iter().map(TcpListener::from).collect())
}

fn open(address: SocketAddr, options: BindOptions) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if options.freebind {
        match address {
            SocketAddr::V4(_) => socket.set_freebind_v4(true)?,
            SocketAddr::V6(_) => socket.set_freebind_v6(true)?,
        }
    }
    // Connections of an earlier process in TIME_WAIT do not hold the port.
    socket.set_reuse_address(true)?;
    Ok(socket)
}

//--- In the engine

/// A listener that is served.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) id: u64,
    pub(super) frontend: Arc<str>,
    /// The address as configured; the port it got, if that was 0.
    pub(super) address: SocketAddr,
    pub(super) sockets: Vec<Arc<TcpListener>>,
}

impl Open {
    pub(super) fn new(id: u64, listener: Listener) -> io::Result<Self> {
        let mut address = listener.address;
        for socket in &listener.sockets {
            socket.set_nonblocking(true)?;
            // Accepted sockets inherit it, which spares a call for each.
            SockRef::from(socket).set_tcp_nodelay(true)?;
            if address.port() == 0 {
                address.set_port(socket.local_addr()?.port());
            }
        }
        Ok(Self {
            id,
            frontend: listener.frontend,
            address,
            sockets: listener.sockets.into_iter().map(Arc::new).collect(),
        })
    }

    pub(super) fn serves(&self, address: SocketAddr) -> bool {
        self.address == address
    }
}

/// One socket as a worker serves it.
#[derive(Debug, Clone)]
pub(super) struct Share {
    /// Its number, among all that were ever opened.
    pub(super) id: (u64, usize),
    pub(super) frontend: Arc<str>,
    pub(super) socket: Arc<TcpListener>,
    /// Watched by other workers too.
    pub(super) shared: bool,
}

/// The sockets that worker `number` of `n_workers` serves.
pub(super) fn share(open: &[Open], number: usize, n_workers: usize) -> Vec<Share> {
    let mut shares = Vec::new();
    for open in open {
        let shared = open.sockets.len() < n_workers;
        for (index, socket) in open.sockets.iter().enumerate() {
            if shared || index % n_workers == number {
                shares.push(Share {
                    id: (open.id, index),
                    frontend: Arc::clone(&open.frontend),
                    socket: Arc::clone(socket),
                    shared,
                });
            }
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    fn options(per_address: usize) -> BindOptions {
        BindOptions {
            per_address,
            freebind: false,
        }
    }

    fn name() -> Arc<str> {
        "api".into()
    }

    #[test]
    fn every_socket_of_a_group_gets_clients() {
        let listener = bind(&name(), "127.0.0.1:0".parse().unwrap(), options(2)).unwrap();
        let open = Open::new(0, listener).unwrap();
        let clients: Vec<_> = (0..64)
            .map(|_| TcpStream::connect(open.address).unwrap())
            .collect();
        let counts: Vec<usize> = open
            .sockets
            .iter()
            .map(|socket| std::iter::from_fn(|| socket.accept().ok()).count())
            .collect();
        assert_eq!(counts.iter().sum::<usize>(), clients.len());
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    }

    #[test]
    fn a_taken_address_names_its_owner_even_within_a_group() {
        let held = bind(&name(), "127.0.0.1:0".parse().unwrap(), options(2)).unwrap();
        let address = held.sockets[0].local_addr().unwrap();
        let error = bind(&name(), address, options(2)).unwrap_err();
        assert_eq!(error.owner.unwrap().pid, Some(std::process::id()));
    }

    #[test]
    fn sockets_are_spread_and_too_few_are_shared() {
        let open = |n_sockets| {
            let listener = bind(&name(), "127.0.0.1:0".parse().unwrap(), options(n_sockets));
            Open::new(7, listener.unwrap()).unwrap()
        };
        let ids = |open: &[Open], number| -> Vec<_> {
            share(open, number, 2)
                .iter()
                .map(|share| (share.id.1, share.shared))
                .collect()
        };
        let three = [open(3)];
        assert_eq!(ids(&three, 0), [(0, false), (2, false)]);
        assert_eq!(ids(&three, 1), [(1, false)]);
        let one = [open(1)];
        assert_eq!(ids(&one, 0), [(0, true)]);
        assert_eq!(ids(&one, 1), [(0, true)]);
    }
}
