//! Exchanges with upstreams: the sockets behind [`dns_resolve::resolver`].
//!
//! Over UDP, [`udp`]. After a truncated response over UDP, a query has a TCP connection of its own: truncation is rare, and a
//! fresh connection cannot be stuck behind another answer. Upstreams that are never asked over UDP have connections that
//! queries share ([`dns_upstream`]). The resolver decides about the messages.

pub mod udp;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use dns_resolve::resolver::{ExchangeId, Loss};
use dns_upstream::Report;
use dns_upstream::connection::{self, loss};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::config::Source;

/// The limit of an exchange over TCP: longer than any question's deadline.
const TCP_LIMIT: Duration = Duration::from_secs(10);

/// The outcome of an exchange over TCP, or the news of a connection.
#[derive(Debug)]
pub enum Event {
    /// A message came in.
    Received(ExchangeId, Vec<u8>),
    /// It has ended without a response.
    Lost(ExchangeId, Loss),
    /// A connection has news.
    Connection(Report),
}

impl From<Report> for Event {
    fn from(report: Report) -> Self {
        Self::Connection(report)
    }
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
    let own = match to {
        SocketAddr::V4(_) => IpAddr::V4(from.v4),
        SocketAddr::V6(_) => IpAddr::V6(from.v6),
    };
    let own = Some(own).filter(|own| !own.is_unspecified());
    let mut stream = connection::connect(to, own).await?;
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

/// The resolver may have ended: then the event is dropped.
async fn report(events: &mpsc::Sender<Event>, event: Event) {
    if events.send(event).await.is_err() {
        tracing::debug!("An exchange outlived the resolver");
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use rustix::io::Errno;

    use super::*;

    #[tokio::test]
    async fn a_closed_port_is_known_at_once() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let (events, mut heard) = mpsc::channel(8);
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
