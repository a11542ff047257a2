//! DNS over QUIC (RFC 9250): one query on each stream of a connection.
//!
//! A client beyond a bound is refused before any cryptography. While half of the room is taken, a client proves
//! its address first (RFC 9000 §8.1.2), so that forged addresses do not take the rest.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::QuicServerConfig;
use quinn::{
    Connection, Endpoint, EndpointConfig, IdleTimeout, Incoming, RecvStream, SendStream,
    ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::service::{Admission, Client, Limits, MAX_QUERY, Replies, Service, Transport, ask};

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
    let mut connections = JoinSet::new();
    let stopped = stop.clone();
    loop {
        let incoming = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            Some(_) = connections.join_next() => continue,
            incoming = endpoint.accept() => incoming,
        };
        let Some(incoming) = incoming else { break };
        let peer = incoming.remote_address();
        if is_busy(&*service) && incoming.may_retry() && !incoming.remote_address_validated() {
            if let Err(error) = incoming.retry() {
                tracing::debug!(%peer, %error, "Client cannot be asked to prove its address");
            }
            continue;
        }
        match service.admit(peer.ip(), &service.counters().quic) {
            Some(admission) => {
                let arrival = (incoming, peer, admission);
                connections.spawn(begin(arrival, Arc::clone(&service), stopped.clone()));
            }
            None => incoming.refuse(),
        }
    }
    endpoint.set_server_config(None);
    while connections.join_next().await.is_some() {}
    if timeout(CLOSING, endpoint.wait_idle()).await.is_err() {
        tracing::debug!("QUIC connections are left to time out at their clients");
    }
}

fn is_busy<S: Service>(service: &S) -> bool {
    let room = u64::try_from(service.limits().connections).unwrap_or(u64::MAX);
    service.counters().quic.open() >= room / 2
}

/// Serves one connection, from its handshake to its end.
async fn begin<S: Service>(
    (incoming, peer, admission): (Incoming, SocketAddr, Admission),
    service: Arc<S>,
    stop: watch::Receiver<bool>,
) {
    let _place = admission.place;
    match timeout(service.limits().handshake, incoming).await {
        Ok(Ok(connection)) => {
            converse(&connection, peer, service, stop).await;
            connection.close(NO_ERROR, b"");
        }
        Ok(Err(error)) => tracing::debug!(%peer, %error, "QUIC handshake failed"),
        Err(_) => tracing::debug!(%peer, "QUIC handshake timed out"),
    }
}

/// Answers the streams of a connection until it ends, is idle, or `stop` is set.
async fn converse<S: Service>(
    connection: &Connection,
    peer: SocketAddr,
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
                    streams.spawn(exchange(send, receive, client, Arc::clone(&service)));
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
                        streams.spawn(exchange(send, receive, client, Arc::clone(&service)));
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
    mut send: SendStream,
    mut receive: RecvStream,
    client: Client,
    service: Arc<S>,
) {
    let limits = service.limits();
    let peer = client.peer;
    let Ok(Some(query)) = timeout(limits.quic_idle, read_query(&mut receive)).await else {
        tracing::debug!(%peer, "Stream holds no DNS query");
        drop(send.reset(PROTOCOL_ERROR));
        return;
    };
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
