//! A server, and all that a connection to it needs.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use dns_resolve::forward::Protocol;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;

use crate::trust::{Trust, TrustError};

/// A server: its address and transport.
pub type Place = (SocketAddr, Protocol);

/// The settings of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The address of the server.
    pub address: SocketAddr,
    /// The transport.
    pub protocol: Protocol,
    /// The address that connections leave from; none for the kernel's choice.
    pub source: Option<IpAddr>,
    /// The name that its certificate has to be for; none for its address.
    pub name: Option<String>,
    /// How it proves who it is.
    pub trust: Trust,
    /// The path of DNS over HTTPS.
    pub path: String,
}

/// Why there can be no connection to a server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Its name is not one that a certificate can have.
    #[error("`{0}` is not the name of a server")]
    Name(String),
    /// No certificate can be verified.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// TLS cannot be set up.
    #[error("TLS cannot be set up")]
    Tls(#[source] rustls::Error),
}

/// A server, and what TLS needs.
#[derive(Clone, Debug)]
pub struct Server {
    settings: Settings,
    pub(crate) name: ServerName<'static>,
    pub(crate) tls: Arc<ClientConfig>,
}

impl Server {
    /// The server with these settings.
    ///
    /// # Errors
    /// When TLS cannot be set up by them.
    pub fn new(settings: Settings) -> Result<Self, ServerError> {
        let name = match &settings.name {
            None => ServerName::IpAddress(settings.address.ip().into()),
            Some(name) => ServerName::try_from(name.trim_end_matches('.').to_owned())
                .map_err(|_| ServerError::Name(name.clone()))?,
        };
        let provider = Arc::new(ring::default_provider());
        let verifier = settings.trust.verifier(&provider)?;
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(ServerError::Tls)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        let protocol: &[u8] = match settings.protocol {
            Protocol::Https => b"h2",
            Protocol::Quic => b"doq",
            Protocol::Udp | Protocol::Tcp | Protocol::Tls => b"dot",
        };
        tls.alpn_protocols = vec![protocol.to_vec()];
        Ok(Self {
            settings,
            name,
            tls: Arc::new(tls),
        })
    }

    /// Its settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The authority of its URLs.
    pub(crate) fn authority(&self) -> String {
        let address = self.settings.address;
        match &self.settings.name {
            None => address.to_string(),
            Some(name) if address.port() == 443 => name.clone(),
            Some(name) => format!("{name}:{}", address.port()),
        }
    }
}
