//! The UDP sockets towards upstreams: each bound to a random port and connected, so that the kernel drops datagrams from
//! others than the upstream (RFC 5452 §9.2) and reports a closed port at once.
//!
//! [`Ports`] picks the port of a query. One thread waits for an epoll set with all sockets ([`Waiter`]); a datagram costs one
//! receive.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use dns_cache::instant::Instant;
use dns_cache::message::MAX_MESSAGE;
use dns_resolve::exchange::Entropy;
use dns_resolve::ports::{Owner, Pick, PortId, Ports};
use dns_resolve::resolver::{ExchangeId, Loss};
use dns_wire::header;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, recv, send,
    socket_with,
};
use rustix::time::Timespec;

use super::loss;
use crate::config::Source;
use crate::entropy::SystemEntropy;

/// Attempts to bind a random port before the kernel chooses one.
const PORT_ATTEMPTS: usize = 8;
/// The lowest source port of queries; lower ports belong to services.
const MIN_PORT: u16 = 1024;
/// Sockets that one call reports.
const READY: usize = 64;
/// The number that stands for no port, but for the descriptor that ends the wait.
const ENDED: PortId = PortId(u64::MAX);

/// An event of a socket.
#[derive(Debug)]
pub enum Arrival {
    /// A message, of this length in [`Sockets::inbox`], that belongs to a query.
    Message(ExchangeId, usize),
    /// A message that belongs to no query: it may be a forged response to any of these.
    Strange(Vec<ExchangeId>, usize),
    /// These queries get no response.
    Lost(Vec<ExchangeId>, Loss),
}

/// A query that could not be sent.
#[derive(Debug)]
pub struct Unsent(pub Loss);

/// A query on its way out.
#[derive(Debug)]
pub struct Outgoing {
    socket: Arc<OwnedFd>,
    message: Vec<u8>,
    pub port: PortId,
    pub exchange: ExchangeId,
}

impl Outgoing {
    /// Sends it, from any thread.
    ///
    /// # Errors
    /// Those of the kernel; [`Sockets::send_again`] deals with them.
    pub fn send(&self) -> Result<(), Errno> {
        send(&self.socket, &self.message, SendFlags::NOSIGNAL).map(|_| ())
    }
}

/// All sockets.
#[derive(Debug)]
pub struct Sockets {
    waiter: Waiter,
    ports: Ports<Arc<OwnedFd>>,
    entropy: SystemEntropy,
    inbox: Vec<u8>,
    /// Queries that lost their socket while another one was sent.
    lost: Vec<(Vec<ExchangeId>, Loss)>,
}

/// Waits for the sockets; clones wait for the same.
#[derive(Clone, Debug)]
pub struct Waiter {
    epoll: Arc<OwnedFd>,
    end: Arc<OwnedFd>,
}

impl Waiter {
    fn new() -> io::Result<Self> {
        let (epoll, end) = (epoll::create(CreateFlags::CLOEXEC)?, sys::wait::counter()?);
        let data = EventData::new_u64(ENDED.0);
        epoll::add(&epoll, &end, data, EventFlags::IN)?;
        Ok(Self {
            epoll: Arc::new(epoll),
            end: Arc::new(end),
        })
    }

    /// Waits until ports have something to read, and gives these. None of them when a signal or [`Self::end`] ends the wait.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn wait(&self, ready: &mut Vec<PortId>) -> io::Result<()> {
        self.look(ready, None)
    }

    /// Ends this wait and all later ones.
    pub fn end(&self) {
        sys::wait::count(&self.end);
    }

    fn look(&self, ready: &mut Vec<PortId>, limit: Option<&Timespec>) -> io::Result<()> {
        let mut room = [const { MaybeUninit::<Event>::uninit() }; READY];
        ready.clear();
        match epoll::wait(&self.epoll, &mut room, limit) {
            Ok((events, _)) => ready.extend(events.iter().map(|event| PortId(event.data.u64()))),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        ready.retain(|port| *port != ENDED);
        Ok(())
    }
}

impl Sockets {
    /// An empty set.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            waiter: Waiter::new()?,
            ports: Ports::default(),
            entropy: SystemEntropy::default(),
            inbox: vec![0; MAX_MESSAGE],
            lost: Vec::new(),
        })
    }

    /// Picks the port that a query leaves from, and waits for its response. The caller sends it by [`Outgoing::send`].
    ///
    /// # Errors
    /// When it cannot be sent.
    pub fn address(
        &mut self,
        to: SocketAddr,
        from: Source,
        message: Vec<u8>,
        exchange: ExchangeId,
        now: Instant,
    ) -> Result<Outgoing, Unsent> {
        let unsent = |error: Errno| Unsent(loss(&error.into()));
        let id = header::id(&message).unwrap_or_default();
        let port = match self.ports.pick(to, id, &mut self.entropy) {
            Pick::Use(port) => port,
            Pick::Open(place) => {
                let socket = open(to, from, &mut self.entropy).map_err(unsent)?;
                let data = EventData::new_u64(self.ports.next_id().0);
                epoll::add(&self.waiter.epoll, &socket, data, EventFlags::IN).map_err(unsent)?;
                self.ports.add(place, Arc::new(socket), now)
            }
            Pick::Full => return Err(Unsent(Loss::Broken)),
        };
        let socket = self.ports.socket(port).map(Arc::clone);
        let socket = socket.ok_or(Unsent(Loss::Broken))?;
        self.ports.begin(port, id, exchange);
        Ok(Outgoing {
            socket,
            message,
            port,
            exchange,
        })
    }

    /// Sends a query again that could not be sent.
    ///
    /// # Errors
    /// When it cannot be sent now either.
    pub fn send_again(&mut self, outgoing: &Outgoing, error: Errno) -> Result<(), Unsent> {
        let (port, exchange) = (outgoing.port, outgoing.exchange);
        let others = |mut all: Vec<ExchangeId>| {
            all.retain(|it| *it != exchange);
            all
        };
        // An ICMP error of an earlier query comes first.
        let earlier = others(self.ports.waiting(port));
        if !earlier.is_empty() {
            self.lost.push((earlier, loss(&error.into())));
        }
        outgoing.send().map_err(|error| {
            // The socket may have a source address that this host has lost.
            let also_lost = others(self.ports.close(port));
            if !also_lost.is_empty() {
                self.lost.push((also_lost, Loss::Broken));
            }
            Unsent(loss(&error.into()))
        })
    }

    /// Forgets a query: it has its response, or needs none.
    pub fn end(&mut self, port: PortId, exchange: ExchangeId) {
        self.ports.end(port, exchange);
    }

    /// A handle that waits for datagrams, on another thread.
    #[must_use]
    pub fn waiter(&self) -> Waiter {
        self.waiter.clone()
    }

    /// The ports that have something to read now.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn look(&self, ready: &mut Vec<PortId>) -> io::Result<()> {
        self.waiter.look(ready, Some(&Timespec::default()))
    }

    /// Queries that lost their socket while another one was sent.
    pub fn next_lost(&mut self) -> Option<(Vec<ExchangeId>, Loss)> {
        self.lost.pop()
    }

    /// Reads one datagram of a port, if there is one.
    pub fn read(&mut self, port: PortId) -> Option<Arrival> {
        let socket = self.ports.socket(port)?;
        let inbox = self.inbox.as_mut_slice();
        let length = match recv(socket, inbox, RecvFlags::DONTWAIT) {
            Ok((length, _)) => length,
            Err(Errno::AGAIN | Errno::INTR) => return None,
            Err(error) => {
                let exchanges = self.ports.waiting(port);
                return Some(Arrival::Lost(exchanges, loss(&error.into())));
            }
        };
        let id = header::id(self.inbox());
        let id = id.filter(|_| length >= 2);
        match self.ports.owner(port, id) {
            Owner::Exchange(exchange) => Some(Arrival::Message(exchange, length)),
            Owner::Nobody(exchanges) => Some(Arrival::Strange(exchanges, length)),
            Owner::Flood(exchanges) => Some(Arrival::Lost(exchanges, Loss::Broken)),
            Owner::Ended => None,
        }
    }

    /// The buffer of the message that arrived last.
    #[must_use]
    pub fn inbox(&self) -> &[u8] {
        &self.inbox
    }

    /// Closes ports that are old enough.
    pub fn expire(&mut self, now: Instant) {
        self.ports.expire(now);
    }

    /// Uses no port any more for further queries: their source address may be another one.
    pub fn renew(&mut self) {
        self.ports.retire_all();
    }

    /// The time of the next [`Sockets::expire`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.ports.next_deadline()
    }
}

fn open(to: SocketAddr, from: Source, entropy: &mut impl Entropy) -> Result<OwnedFd, Errno> {
    let (family, address) = match to.ip() {
        IpAddr::V4(_) => (AddressFamily::INET, IpAddr::V4(from.v4)),
        IpAddr::V6(_) => (AddressFamily::INET6, IpAddr::V6(from.v6)),
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::DGRAM, flags, None)?;
    for attempt in 1.. {
        let port = match attempt {
            1..=PORT_ATTEMPTS => random_port(entropy),
            _ => 0,
        };
        match bind(&socket, &SocketAddr::new(address, port)) {
            Ok(()) => break,
            Err(Errno::ADDRINUSE | Errno::ACCESS) if port != 0 => {}
            Err(error) => return Err(error),
        }
    }
    connect(&socket, &to)?;
    Ok(socket)
}

/// A port from 1024 up; all are equally likely, to within one part in 2^48.
fn random_port(entropy: &mut impl Entropy) -> u16 {
    let span = u64::from(u16::MAX - MIN_PORT) + 1;
    let offset = entropy.next() % span;
    u16::try_from(offset).map_or(MIN_PORT, |offset| MIN_PORT.saturating_add(offset))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::{Ipv4Addr, UdpSocket};
    use std::time::Duration;

    use super::*;

    const NOW: Instant = Instant::START;

    fn server() -> (UdpSocket, SocketAddr) {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = server.local_addr().unwrap();
        (server, address)
    }

    /// A query of nothing but an id.
    fn query(id: u16) -> Vec<u8> {
        let mut query = vec![0; header::LENGTH];
        query[..2].copy_from_slice(&id.to_be_bytes());
        query
    }

    fn send_from(sockets: &mut Sockets, to: SocketAddr, from: Source, id: u16) -> PortId {
        let exchange = ExchangeId(id.into());
        let outgoing = sockets.address(to, from, query(id), exchange, NOW).unwrap();
        outgoing.send().unwrap();
        outgoing.port
    }

    fn send(sockets: &mut Sockets, to: SocketAddr, id: u16) -> PortId {
        send_from(sockets, to, Source::default(), id)
    }

    /// The next event, behind those in `ready`.
    fn next_arrival(sockets: &mut Sockets, ready: &mut Vec<PortId>) -> Arrival {
        loop {
            while let Some(port) = ready.pop() {
                if let Some(arrival) = sockets.read(port) {
                    return arrival;
                }
            }
            sockets.waiter().wait(ready).unwrap();
        }
    }

    fn arrival(sockets: &mut Sockets) -> Arrival {
        next_arrival(sockets, &mut Vec::new())
    }

    #[test]
    fn queries_leave_from_many_random_ports_and_each_serves_few() {
        let (server, to) = server();
        let mut sockets = Sockets::new().unwrap();
        let mut ports = Vec::new();
        for id in 0..10_000 {
            let port = send(&mut sockets, to, id);
            let (_, peer) = server.recv_from(&mut [0; 64]).unwrap();
            sockets.end(port, ExchangeId(id.into()));
            ports.push(peer.port());
        }
        let distinct: BTreeSet<u16> = ports.iter().copied().collect();
        assert!(distinct.len() > 100, "{}", distinct.len());
        assert!(distinct.iter().all(|port| *port >= MIN_PORT));
        // Spread over all ports, not over the kernel's ephemeral ones.
        assert!(distinct.iter().any(|port| *port < 30_000));
        assert!(distinct.iter().any(|port| *port > 61_000));
        // The next query leaves from another port nearly always.
        let repeats = ports.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!(repeats < 400, "{repeats}");
    }

    #[test]
    fn each_response_finds_its_query_and_strangers_are_not_heard() {
        let (server, to) = server();
        let (stranger, _) = self::server();
        let mut sockets = Sockets::new().unwrap();
        let mut asked = Vec::new();
        for id in 1..=300 {
            send(&mut sockets, to, id);
            let mut message = [0; header::LENGTH];
            let (_, peer) = server.recv_from(&mut message).unwrap();
            stranger.send_to(&query(id), peer).unwrap();
            asked.push((message, peer));
        }
        // The last query is answered first.
        for (message, peer) in asked.iter().rev() {
            server.send_to(message, peer).unwrap();
        }
        let mut left: BTreeSet<u64> = (1..=300).collect();
        while !left.is_empty() {
            match arrival(&mut sockets) {
                Arrival::Message(ExchangeId(id), length) => {
                    assert_eq!(length, header::LENGTH);
                    assert_eq!(sockets.inbox()[..length], query(u16::try_from(id).unwrap()));
                    assert!(left.remove(&id));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_wrong_id_is_strange_and_a_late_response_is_ignored() {
        let (server, to) = server();
        let mut sockets = Sockets::new().unwrap();
        let port = send(&mut sockets, to, 7);
        let (_, peer) = server.recv_from(&mut [0; 64]).unwrap();
        for forged in [&query(8)[..], &[1][..]] {
            server.send_to(forged, peer).unwrap();
            match arrival(&mut sockets) {
                Arrival::Strange(exchanges, length) => {
                    assert_eq!((exchanges, length), (vec![ExchangeId(7)], forged.len()));
                }
                other => panic!("{other:?}"),
            }
        }
        sockets.end(port, ExchangeId(7));
        server.send_to(&query(7), peer).unwrap();
        let later = send(&mut sockets, to, 9);
        let (_, peer) = server.recv_from(&mut [0; 64]).unwrap();
        server.send_to(&query(9), peer).unwrap();
        assert!(matches!(
            arrival(&mut sockets),
            Arrival::Message(ExchangeId(9), _)
        ));
        sockets.end(later, ExchangeId(9));
    }

    #[test]
    fn a_closed_port_is_known_at_once() {
        let (server, to) = server();
        drop(server);
        let mut sockets = Sockets::new().unwrap();
        send(&mut sockets, to, 1);
        match arrival(&mut sockets) {
            Arrival::Lost(exchanges, Loss::Refused) => assert_eq!(exchanges, [ExchangeId(1)]),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_query_behind_the_error_of_another_is_sent() {
        let (server, to) = server();
        drop(server);
        let mut sockets = Sockets::new().unwrap();
        // More than there are places, so that ports are used again.
        let mut lost = Vec::new();
        for id in 0..1000 {
            let exchange = ExchangeId(id.into());
            let sent = sockets.address(to, Source::default(), query(id), exchange, NOW);
            let outgoing = sent.unwrap();
            // Over loopback, ICMP is there before the call returns.
            if let Err(error) = outgoing.send() {
                sockets.send_again(&outgoing, error).unwrap();
                while let Some((exchanges, loss)) = sockets.next_lost() {
                    assert_eq!(loss, Loss::Refused);
                    assert!(!exchanges.contains(&exchange));
                    lost.extend(exchanges);
                }
            }
        }
        assert!(!lost.is_empty());
    }

    #[test]
    fn a_new_source_address_uses_new_ports() {
        let (server, to) = server();
        let mut sockets = Sockets::new().unwrap();
        let mut before = BTreeSet::new();
        for id in 0..500 {
            send(&mut sockets, to, id);
            before.insert(server.recv_from(&mut [0; 64]).unwrap().1);
        }
        sockets.renew();
        let from = Source {
            v4: Ipv4Addr::new(127, 0, 0, 9),
            ..Source::default()
        };
        for id in 500..700 {
            send_from(&mut sockets, to, from, id);
            let (_, peer) = server.recv_from(&mut [0; 64]).unwrap();
            assert_eq!(peer.ip(), IpAddr::V4(from.v4));
        }
        // The ports before are still open for their responses, and close when those are no longer wanted.
        let peer = *before.first().unwrap();
        server.send_to(&query(0), peer).unwrap();
        assert!(matches!(
            arrival(&mut sockets),
            Arrival::Message(ExchangeId(0), _) | Arrival::Strange(..)
        ));
        assert!(sockets.next_deadline().is_some());
        sockets.expire(NOW.after(Duration::from_secs(60)));
        assert!(sockets.next_deadline().is_none());
    }
}
