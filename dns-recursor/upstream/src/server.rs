//! A server, and all that a connection to it needs.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use dns_resolve::forward::Protocol;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, DEFAULT_VERSIONS};
use tls_trust::{Trust, TrustError, server_name};

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
    pub fn new(settings: Settings) -> Result<Self, TrustError> {
        let name = server_name(settings.name.as_deref(), settings.address.ip())?;
        let protocol: &[u8] = match settings.protocol {
            Protocol::Https => b"h2",
            Protocol::Quic => b"doq",
            Protocol::Udp | Protocol::Tcp | Protocol::Tls => b"dot",
        };
        let tls = settings.trust.client(DEFAULT_VERSIONS, &[protocol])?;
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
