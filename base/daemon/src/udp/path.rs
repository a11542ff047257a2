//! The way back to who sent a datagram.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

use sys::address::RawAddress;
use sys::control::Room;
use sys::message;
use sys::source::Source;

/// The way back to who sent a datagram: from the same socket and the same address.
///
/// Cheap to clone and to keep: holds no memory of its own but a count on the socket.
#[derive(Clone)]
pub struct ReturnPath {
    socket: Option<Arc<UdpSocket>>,
    peer: RawAddress,
    source: Source,
}

impl ReturnPath {
    pub(super) fn new(socket: Option<Arc<UdpSocket>>, peer: RawAddress, source: Source) -> Self {
        Self {
            socket,
            peer,
            source,
        }
    }

    /// The way from `socket` back to `peer`, who has sent something to `local`: as
    /// [`Datagram::return_path`](super::Datagram::return_path) has given it to another process, or to
    /// an engine before this one.
    ///
    /// # Errors
    ///
    /// When the socket does not say what it is bound to.
    pub fn restored(
        socket: Arc<UdpSocket>,
        peer: SocketAddr,
        local: Option<IpAddr>,
    ) -> io::Result<Self> {
        let bound = socket.local_addr()?;
        // A socket of IPv6 sends to IPv4 by mapped addresses.
        let mapped = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let peer_address = match (bound, peer) {
            (SocketAddr::V6(_), SocketAddr::V4(peer)) => {
                SocketAddr::new(mapped((*peer.ip()).into()).into(), peer.port())
            }
            _ => peer,
        };
        let source = match local {
            Some(_) if !bound.ip().is_unspecified() => Source::Bound,
            None => Source::Bound,
            Some(IpAddr::V4(local)) if bound.is_ipv4() => Source::V4(local),
            Some(local) => {
                let local = mapped(local);
                let interface = match peer {
                    SocketAddr::V6(peer) if local.is_unicast_link_local() => peer.scope_id(),
                    _ => 0,
                };
                Source::V6(local, interface)
            }
        };
        Ok(Self::new(
            Some(socket),
            RawAddress::new(peer_address),
            source,
        ))
    }

    /// The receiver of the reply.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer.address()
    }

    /// Sends a reply, from any thread.
    ///
    /// # Errors
    ///
    /// The error of the kernel, or `NotConnected` for a datagram that came from nowhere.
    pub fn send(&self, payload: &[u8]) -> io::Result<()> {
        let Some(socket) = &self.socket else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let mut control = Room::<64>::EMPTY;
        let length = self.source.put(&mut control.0, 0);
        let control = control.0.get(..length).unwrap_or_default();
        loop {
            match message::send(socket, payload, Some(self.peer.exact()), control) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                sent => return sent.map(drop),
            }
        }
    }

    /// Sends replies of `length_of_each` bytes that lie behind one another, the last of what is left; gives each error
    /// of the kernel to `failed`.
    pub fn send_merged(
        &self,
        payload: &[u8],
        length_of_each: u16,
        mut failed: impl FnMut(&io::Error),
    ) {
        let Some(socket) = &self.socket else {
            return failed(&io::ErrorKind::NotConnected.into());
        };
        let (to, source) = (Some(self.peer.exact()), &self.source);
        let each = |sent: io::Result<usize>| {
            if let Err(error) = &sent {
                failed(error);
            }
        };
        let sent = message::send_merged(socket, payload, length_of_each, to, source, each);
        if let Err(error) = &sent {
            failed(error);
        }
    }
}

impl fmt::Debug for ReturnPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ReturnPath")
            .field("peer", &self.peer())
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_from_nowhere_leads_nowhere() {
        let peer = RawAddress::new("127.0.0.1:9".parse().unwrap());
        let error = ReturnPath::new(None, peer, Source::Bound)
            .send(b"x")
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    }
}
