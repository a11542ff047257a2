//! Exchanges with upstreams: the sockets behind [`dns_resolve::resolver`].
//!
//! Every query over UDP has a socket of its own, bound to a random port and connected, so that the kernel
//! drops datagrams from others than the upstream (RFC 5452 §9.2) and reports a closed port at once. Over
//! TCP a query has a connection of its own: truncation is rare, and a fresh connection cannot be stuck
//! behind another answer. The resolver decides about the messages.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use dns_cache::message::MAX_MESSAGE;
use dns_resolve::exchange::Entropy;
use dns_resolve::resolver::{ExchangeId, Loss};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, recv, send,
    socket_with,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::config::Source;

/// The most datagrams that one exchange reads: a flood ends it.
const MAX_DATAGRAMS: usize = 32;
/// Attempts to bind a random port before the kernel chooses one.
const PORT_ATTEMPTS: usize = 8;
/// The lowest source port of queries; lower ports belong to services.
const MIN_PORT: u16 = 1024;
/// The limit of an exchange over TCP: longer than any question's deadline.
const TCP_LIMIT: Duration = Duration::from_secs(10);

thread_local! {
    /// The receive buffer, for messages of unknown length.
    static INBOX: RefCell<Vec<u8>> = RefCell::new(vec![0; MAX_MESSAGE]);
}

/// The outcome of an exchange.
#[derive(Debug)]
pub enum Event {
    /// A message came in.
    Received(ExchangeId, Vec<u8>),
    /// It has ended without a response.
    Lost(ExchangeId, Loss),
}

/// Sends a query from a fresh random port.
///
/// # Errors
/// Fails at once when the query cannot be sent.
pub fn send_udp(
    to: SocketAddr,
    from: Source,
    message: &[u8],
    entropy: &mut impl Entropy,
) -> Result<UdpSocket, Loss> {
    let socket = open(to, from, entropy).map_err(|error| loss(&error.into()))?;
    send(&socket, message, SendFlags::NOSIGNAL).map_err(|error| loss(&error.into()))?;
    Ok(UdpSocket::from(socket))
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

/// Reports the messages from a query's socket, until the task is aborted.
pub async fn listen(socket: UdpSocket, exchange: ExchangeId, events: mpsc::Sender<Event>) {
    let Ok(socket) = tokio::net::UdpSocket::from_std(socket) else {
        report(&events, Event::Lost(exchange, Loss::Broken)).await;
        return;
    };
    // A closed port is an error only, with nothing to read.
    let interest = Interest::READABLE | Interest::ERROR;
    for _ in 0..MAX_DATAGRAMS {
        let take = || {
            INBOX.with_borrow_mut(|inbox| {
                let (message, _) = recv(&socket, inbox.as_mut_slice(), RecvFlags::empty())?;
                Ok(inbox.get(..message).unwrap_or_default().to_vec())
            })
        };
        let received = socket.async_io(interest, take).await;
        match received {
            Ok(message) => report(&events, Event::Received(exchange, message)).await,
            Err(error) => {
                report(&events, Event::Lost(exchange, loss(&error))).await;
                return;
            }
        }
    }
    report(&events, Event::Lost(exchange, Loss::Broken)).await;
}

/// Sends a query over a TCP connection of its own, and reports the response.
pub async fn ask_tcp(
    to: SocketAddr,
    from: Source,
    message: Vec<u8>,
    exchange: ExchangeId,
    events: mpsc::Sender<Event>,
) {
    let event = match timeout(TCP_LIMIT, exchange_tcp(to, from, &message)).await {
        Ok(Ok(response)) => Event::Received(exchange, response),
        Ok(Err(error)) => Event::Lost(exchange, loss(&error)),
        Err(_) => Event::Lost(exchange, Loss::Broken),
    };
    report(&events, event).await;
}

async fn exchange_tcp(to: SocketAddr, from: Source, message: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = connect_tcp(to, from).await?;
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    // RFC 7766 §8: send length and message together.
    let framed = [&length.to_be_bytes(), message].concat();
    let broken = |error: io::Error| io::Error::other(error);
    stream.write_all(&framed).await.map_err(broken)?;
    let length = stream.read_u16().await.map_err(broken)?;
    let mut response = vec![0; usize::from(length)];
    stream.read_exact(&mut response).await.map_err(broken)?;
    Ok(response)
}

async fn connect_tcp(to: SocketAddr, from: Source) -> io::Result<TcpStream> {
    let (socket, local) = match to.ip() {
        IpAddr::V4(_) => (TcpSocket::new_v4()?, IpAddr::V4(from.v4)),
        IpAddr::V6(_) => (TcpSocket::new_v6()?, IpAddr::V6(from.v6)),
    };
    if !local.is_unspecified() {
        socket.bind(SocketAddr::new(local, 0))?;
    }
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The resolver may have ended: then the event is dropped.
async fn report(events: &mpsc::Sender<Event>, event: Event) {
    if events.send(event).await.is_err() {
        tracing::debug!("An exchange outlived the resolver");
    }
}

/// The state of the upstream that an error points to.
fn loss(error: &io::Error) -> Loss {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Loss::Refused,
        io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::AddrNotAvailable
        | io::ErrorKind::NetworkDown
        // A firewall on this node denies it.
        | io::ErrorKind::PermissionDenied => Loss::Unreachable,
        _ => Loss::Broken,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    use super::*;
    use crate::entropy::SystemEntropy;

    fn server() -> (UdpSocket, SocketAddr) {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = server.local_addr().unwrap();
        (server, address)
    }

    #[test]
    fn every_query_leaves_from_another_random_port() {
        let (server, address) = server();
        let mut entropy = SystemEntropy::default();
        let mut ports = BTreeSet::new();
        for _ in 0..200 {
            let socket = send_udp(address, Source::default(), b"q", &mut entropy).unwrap();
            let (_, peer) = server.recv_from(&mut [0; 8]).unwrap();
            assert_eq!(peer.port(), socket.local_addr().unwrap().port());
            ports.insert(peer.port());
        }
        assert!(ports.len() > 190, "{}", ports.len());
        assert!(ports.iter().all(|port| *port >= MIN_PORT));
        // Spread over all ports, not over the kernel's ephemeral ones.
        assert!(ports.iter().any(|port| *port < 30_000) && ports.iter().any(|port| *port > 61_000));
    }

    #[tokio::test]
    async fn what_comes_in_is_reported_and_strangers_are_not_heard() {
        let (server, address) = server();
        let (stranger, _) = self::server();
        let mut entropy = SystemEntropy::default();
        let socket = send_udp(address, Source::default(), b"q", &mut entropy).unwrap();
        let own = socket.local_addr().unwrap();
        let (events, mut heard) = mpsc::channel(8);
        tokio::spawn(listen(socket, ExchangeId(7), events));
        stranger.send_to(b"forged", own).unwrap();
        server.send_to(b"first", own).unwrap();
        server.send_to(b"second", own).unwrap();
        for expected in [&b"first"[..], b"second"] {
            match heard.recv().await.unwrap() {
                Event::Received(ExchangeId(7), message) => assert_eq!(message, expected),
                other => panic!("{other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn a_closed_port_is_known_at_once() {
        let (server, address) = server();
        drop(server);
        let mut entropy = SystemEntropy::default();
        let (events, mut heard) = mpsc::channel(8);
        let socket = send_udp(address, Source::default(), b"q", &mut entropy).unwrap();
        tokio::spawn(listen(socket, ExchangeId(1), events.clone()));
        assert!(matches!(
            heard.recv().await,
            Some(Event::Lost(ExchangeId(1), Loss::Refused))
        ));
        ask_tcp(
            address,
            Source::default(),
            b"q".to_vec(),
            ExchangeId(2),
            events,
        )
        .await;
        assert!(matches!(
            heard.recv().await,
            Some(Event::Lost(ExchangeId(2), Loss::Refused))
        ));
    }

    #[tokio::test]
    async fn a_connection_brings_one_response_or_breaks() {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let length = stream.read_u16().await.unwrap();
            let mut query = vec![0; length.into()];
            stream.read_exact(&mut query).await.unwrap();
            stream.write_all(&[0, 3]).await.unwrap();
            stream.write_all(b"yes").await.unwrap();
            // The next one is hung up on.
            drop(listener.accept().await.unwrap());
        });
        let (events, mut heard) = mpsc::channel(8);
        for exchange in [ExchangeId(1), ExchangeId(2)] {
            let asking = ask_tcp(
                address,
                Source::default(),
                b"q".to_vec(),
                exchange,
                events.clone(),
            );
            asking.await;
        }
        assert!(matches!(
            heard.recv().await,
            Some(Event::Received(ExchangeId(1), message)) if message == b"yes"
        ));
        assert!(matches!(
            heard.recv().await,
            Some(Event::Lost(ExchangeId(2), Loss::Broken))
        ));
    }

    #[test]
    fn errors_say_what_is_wrong_with_the_upstream() {
        for (errno, expected) in [
            (Errno::CONNREFUSED, Loss::Refused),
            (Errno::NETUNREACH, Loss::Unreachable),
            (Errno::HOSTUNREACH, Loss::Unreachable),
            (Errno::ADDRNOTAVAIL, Loss::Unreachable),
            (Errno::PERM, Loss::Unreachable),
            (Errno::MFILE, Loss::Broken),
            (Errno::NOBUFS, Loss::Broken),
        ] {
            assert_eq!(loss(&errno.into()), expected, "{errno}");
        }
    }
}
