//! DNS over QUIC (RFC 9250): one query on each stream of a connection.
//!
//! A client without a place is refused before any cryptography. While half of the places are taken, or when the client
//! would replace another one, it proves its address first (RFC 9000 §8.1.2): forged addresses take nothing.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use daemon::connections::{Connections, Opening, Place, Source};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{
    Connection, Endpoint, EndpointConfig, IdleTimeout, Incoming, RecvStream, SendStream,
    ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::service::{Client, Limits, MAX_QUERY, Replies, Service, Transport, ask};

/// Codes that end connections and streams (RFC 9250 §4.3).
const NO_ERROR: VarInt = VarInt::from_u32(0);
const PROTOCOL_ERROR: VarInt = VarInt::from_u32(2);

/// Octets of a stream that may arrive before they are read: more than a query.
const STREAM_WINDOW: u32 = 8 << 10;
/// Octets of a connection that may arrive before they are read.
const WINDOW: u32 = 64 << 10;
/// Octets of a connection that are kept until the client has them.
const SEND_WINDOW: u64 = 256 << 10;
/// Octets of all connections that arrive before they are accepted.
const EARLY_WINDOW: u64 = 1 << 20;
/// The time for the last packets of closed connections to leave.
const CLOSING: Duration = Duration::from_millis(100);

/// An endpoint on a bound socket; needs a tokio runtime.
pub(crate) fn endpoint(
    socket: UdpSocket,
    tls: Arc<rustls::ServerConfig>,
    limits: &Limits,
) -> io::Result<Endpoint> {
    socket.set_nonblocking(true)?;
    let crypto = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
    let mut transport = TransportConfig::default();
    let streams = u32::try_from(limits.pipeline).unwrap_or(u32::MAX);
    transport
        .max_concurrent_bidi_streams(streams.into())
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .stream_receive_window(STREAM_WINDOW.into())
        .receive_window(WINDOW.into())
        .send_window(SEND_WINDOW)
        .max_idle_timeout(IdleTimeout::try_from(limits.quic_idle).ok());
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config
        .transport_config(Arc::new(transport))
        .max_incoming(limits.connections)
        .incoming_buffer_size(WINDOW.into())
        .incoming_buffer_size_total(EARLY_WINDOW);
    let runtime = Arc::new(TokioRuntime);
    Endpoint::new(EndpointConfig::default(), Some(config), socket, runtime)
}

/// Accepts connections until `stop` is set, and waits until they have ended.
pub(crate) async fn serve<S: Service>(
    endpoint: Endpoint,
    service: Arc<S>,
    mut stop: watch::Receiver<bool>,
) {
    let mut tasks = JoinSet::new();
    let stopped = stop.clone();
    loop {
        let incoming = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            Some(_) = tasks.join_next() => continue,
            incoming = endpoint.accept() => incoming,
        };
        let Some(incoming) = incoming else { break };
        let peer = incoming.remote_address();
        let Some(admission) = service.admit(peer.ip(), &service.counters().quic) else {
            incoming.refuse();
            continue;
        };
        let connections = admission.connections;
        let class = connections.class(peer.ip(), incoming.local_ip());
        let source = Source::Address(peer.ip());
        let has_free = connections.has_free(source, class, Opening::Handshake);
        let must_prove = !has_free || is_busy(&connections);
        if must_prove && incoming.may_retry() && !incoming.remote_address_validated() {
            if let Err(error) = incoming.retry() {
                tracing::debug!(%peer, %error, "Client cannot be asked to prove its address");
            }
            continue;
        }
        match connections.admit(source, class, Opening::Handshake) {
            Ok(place) => {
                let arrival = (incoming, peer, place);
                tasks.spawn(begin(arrival, Arc::clone(&service), stopped.clone()));
            }
            Err(_) => incoming.refuse(),
        }
    }
    endpoint.set_server_config(None);
    while tasks.join_next().await.is_some() {}
    if timeout(CLOSING, endpoint.wait_idle()).await.is_err() {
        tracing::debug!("QUIC connections are left to time out at their clients");
    }
}

fn is_busy(connections: &Connections) -> bool {
    connections.taken().all() >= connections.policy().places() / 2
}

/// Serves one connection, from its handshake to its end.
async fn begin<S: Service>(
    (incoming, peer, place): (Incoming, SocketAddr, Place),
    service: Arc<S>,
    stop: watch::Receiver<bool>,
) {
    // A packet of the client began it.
    place.received(0);
    match timeout(service.limits().handshake, incoming).await {
        Ok(Ok(connection)) => {
            place.idle();
            tokio::select! {
                () = converse(&connection, (peer, &place), service, stop) => {}
                () = place.ended() => tracing::debug!(%peer, "QUIC connection has to end"),
            }
            connection.close(NO_ERROR, b"");
        }
        Ok(Err(error)) => tracing::debug!(%peer, %error, "QUIC handshake failed"),
        Err(_) => tracing::debug!(%peer, "QUIC handshake timed out"),
    }
}

/// Answers the streams of a connection until it ends, is idle, or `stop` is set.
async fn converse<S: Service>(
    connection: &Connection,
    (peer, place): (SocketAddr, &Place),
    service: Arc<S>,
    mut stop: watch::Receiver<bool>,
) {
    let limits = *service.limits();
    let mut streams = JoinSet::new();
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            Some(_) = streams.join_next() => {}
            stream = connection.accept_bi(), if streams.len() < limits.pipeline => match stream {
                Ok((send, receive)) => {
                    let client = Client { peer, local: None, transport: Transport::Quic };
                    streams.spawn(exchange((send, receive), client, place.clone(), Arc::clone(&service)));
                }
                Err(error) => {
                    tracing::debug!(%peer, %error, "QUIC connection ended");
                    return;
                }
            },
            () = sleep(limits.quic_idle), if streams.is_empty() => return,
        }
    }
    // Queries on their way are answered still.
    let last = async {
        loop {
            tokio::select! {
                stream = connection.accept_bi(), if streams.len() < limits.pipeline => match stream {
                    Ok((send, receive)) => {
                        let client = Client { peer, local: None, transport: Transport::Quic };
                        streams.spawn(exchange((send, receive), client, place.clone(), Arc::clone(&service)));
                    }
                    Err(_) => return,
                },
                Some(_) = streams.join_next() => {}
            }
        }
    };
    drop(timeout(limits.last, last).await);
    let answered = async { while streams.join_next().await.is_some() {} };
    if timeout(limits.answer, answered).await.is_err() {
        tracing::debug!(%peer, "QUIC connection does not end, and is closed");
    }
}

/// Reads the query of a stream, and writes its reply.
async fn exchange<S: Service>(
    (mut send, mut receive): (SendStream, RecvStream),
    client: Client,
    place: Place,
    service: Arc<S>,
) {
    let limits = service.limits();
    let peer = client.peer;
    let Ok(Some(query)) = timeout(limits.quic_idle, read_query(&mut receive)).await else {
        tracing::debug!(%peer, "Stream holds no DNS query");
        drop(send.reset(PROTOCOL_ERROR));
        return;
    };
    let _answer = place.answer();
    let Some(mut reply) = ask(&service, &query, &client).await else {
        drop(send.reset(PROTOCOL_ERROR));
        return;
    };
    // RFC 9250 §4.2.1.
    if let Some(id) = reply.first_chunk_mut::<2>() {
        *id = [0; 2];
    }
    let mut replies = Replies::default();
    replies.push(&reply);
    let write = async {
        send.write_all(replies.octets()).await?;
        drop(send.finish());
        // A connection that is closed before the client has the reply takes the reply along.
        drop(send.stopped().await);
        Ok::<_, quinn::WriteError>(())
    };
    match timeout(limits.write, write).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%peer, %error, "Reply was not sent"),
        Err(_) => tracing::debug!(%peer, "Client does not read its reply"),
    }
}

async fn read_query(receive: &mut RecvStream) -> Option<Vec<u8>> {
    let mut length = [0; 2];
    receive.read_exact(&mut length).await.ok()?;
    let length = usize::from(u16::from_be_bytes(length));
    if length > MAX_QUERY {
        return None;
    }
    let mut query = vec![0; length];
    receive.read_exact(&mut query).await.ok()?;
    Some(query)
}

#[cfg(test)]
mod tests;
