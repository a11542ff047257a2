//! A primary, and how it is reached.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls::version::TLS13;
use tls_trust::{Trust, TrustError, server_name};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The ALPN name of transfers over TLS (RFC 9103 §7.1).
const DOT: &[u8] = b"dot";

/// A server that zones are transferred from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    address: SocketAddr,
    tls: Option<Arc<Tls>>,
}

/// How a primary is reached over TLS. The settings also keep the sessions of former connections, for shorter handshakes.
pub(crate) struct Tls {
    trust: Trust,
    name: ServerName<'static>,
    client: Arc<ClientConfig>,
}

impl Primary {
    /// A primary over UDP and TCP.
    #[must_use]
    pub const fn plain(address: SocketAddr) -> Self {
        Self { address, tls: None }
    }

    /// A primary over TLS, with a certificate for this name, or for its address.
    ///
    /// # Errors
    /// When no certificate can have the name, or the authorities cannot be used.
    pub fn over_tls(
        address: SocketAddr,
        name: Option<&str>,
        trust: Trust,
    ) -> Result<Self, TrustError> {
        // RFC 9103 §7.2: no older version.
        let client = trust.client(&[&TLS13], &[DOT])?;
        let tls = Tls {
            name: server_name(name, address.ip())?,
            client: Arc::new(client),
            trust,
        };
        Ok(Self {
            address,
            tls: Some(Arc::new(tls)),
        })
    }

    /// Its address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.tls.as_deref()
    }
}

impl fmt::Display for Primary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tls {
            None => self.address.fmt(f),
            Some(_) => write!(f, "{} (TLS)", self.address),
        }
    }
}

impl Tls {
    /// Makes the handshake.
    pub(crate) async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let connector = TlsConnector::from(Arc::clone(&self.client));
        connector.connect(self.name.clone(), stream).await
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("trust", &self.trust)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        (&self.trust, &self.name) == (&other.trust, &other.name)
    }
}

impl Eq for Tls {}
