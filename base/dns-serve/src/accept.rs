//! Accepts connections over TCP within the bounds of a service, and makes their handshakes.
//!
//! A connection without a place is closed at once: a resolver that is turned away asks the next server sooner.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use daemon::accept::{Acceptor, Peer};
use daemon::connections::{Opening, Placed};
use rustls::ProtocolVersion;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::DOT;
use crate::framed::converse;
use crate::https::{self, Site};
use crate::service::{Client, Service, Transport};

/// The protocol of a listener's connections.
#[derive(Clone)]
pub enum Protocol {
    /// DNS.
    Plain,
    /// DNS over TLS.
    Tls(TlsAcceptor),
    /// DNS over HTTPS.
    Https(Site),
}

impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => f.write_str("Plain"),
            Self::Tls(_) => f.write_str("Tls"),
            Self::Https(site) => f.debug_tuple("Https").field(site).finish(),
        }
    }
}

/// Accepts connections until `stop` is set.
pub async fn serve<S: Service>(
    listener: TcpListener,
    protocol: Protocol,
    service: Arc<S>,
    mut stop: watch::Receiver<bool>,
) {
    let opening = match &protocol {
        Protocol::Plain => Opening::Request,
        Protocol::Tls(_) | Protocol::Https(_) => Opening::Handshake,
    };
    let acceptor = Acceptor::new(Arc::clone(&service.counters().tcp), opening);
    let admit = |peer: Peer| {
        let peer = peer.address()?;
        let admission = service.admit(peer.ip(), &service.counters().tcp)?;
        Some((admission.connections, (peer, admission.is_refusal)))
    };
    loop {
        let (stream, _, (peer, is_refusal)) = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            accepted = acceptor.admit(&listener, admit) => accepted,
        };
        let arrival = (stream, peer, is_refusal);
        let (protocol, service) = (protocol.clone(), Arc::clone(&service));
        tokio::spawn(begin(arrival, protocol, service, stop.clone()));
    }
}

/// Serves one connection, from its handshake to its end.
async fn begin<S: Service>(
    (mut stream, peer, is_refusal): (Placed<TcpStream>, SocketAddr, bool),
    protocol: Protocol,
    service: Arc<S>,
    stop: watch::Receiver<bool>,
) {
    if let Err(error) = stream.get_ref().set_nodelay(true) {
        tracing::debug!(%peer, %error, "Connection cannot be set up");
    }
    let mut client = Client {
        peer,
        local: stream.get_ref().local_addr().ok(),
        transport: Transport::Tcp,
    };
    let place = stream.place().clone();
    let (acceptor, site) = match &protocol {
        Protocol::Plain => {
            stream.tell_first_octet_only();
            return converse(stream, &place, client, is_refusal, service, stop).await;
        }
        Protocol::Tls(acceptor) => (acceptor, None),
        Protocol::Https(site) => (&site.tls, Some(site)),
    };
    let handshake = acceptor.accept(stream);
    let mut stream = match timeout(service.limits().handshake, handshake).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "TLS handshake failed");
            return;
        }
        Err(_) => {
            tracing::debug!(%peer, "TLS handshake timed out");
            return;
        }
    };
    place.idle();
    stream.get_mut().0.tell_nothing();
    match site {
        Some(site) => https::serve(stream, peer, Arc::clone(&site.path), service, stop).await,
        None => {
            let (_, session) = stream.get_ref();
            client.transport = Transport::Tls {
                may_transfer: session.protocol_version() == Some(ProtocolVersion::TLSv1_3)
                    && session.alpn_protocol() == Some(DOT),
            };
            converse(stream, &place, client, is_refusal, service, stop).await;
        }
    }
}
