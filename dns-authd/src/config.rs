//! What the server is told to do, whichever file said so.
//!
//! [`v1`] is the TOML that people write; [`peer`] makes the same of a pdns.conf. Reads no file:
//! the shell does.

pub mod import;
pub mod peer;
#[cfg(test)]
mod tests;
pub mod v1;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use config_text::Problem;
use daemon_base::config::Common;
use proto::endpoint::Endpoint;

use crate::access::Access;
use crate::answer::Settings;
use crate::named_conf::ZoneDecl;
use crate::programs::LiveSettings;
use crate::zone::parse::Options;

/// The admin listener, unless the configuration says otherwise.
pub const DEFAULT_ADMIN: SocketAddr = loopback(9402);
/// Where queries are listened for, unless the configuration says otherwise.
pub const DEFAULT_LISTEN: SocketAddr = loopback(5301);

/// The whole configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// What every daemon has.
    pub common: Common,
    /// How the network is used. Fixed for the life of the process.
    pub network: Network,
    /// Encrypted transports. Fixed, but for the certificate.
    pub tls: Option<Tls>,
    /// Which zones are served, and how their files are read.
    pub zones: Zones,
    /// What programs may do, and what is answered while little is known.
    pub live: LiveSettings,
    /// Whether `LUA` records are answered.
    pub lua: bool,
    /// Where healthd listens; `None` leaves every target unknown. Fixed.
    pub health: Option<Endpoint>,
    /// How answers are made.
    pub answers: Settings,
    /// Who may ask, and who may transfer zones.
    pub access: Access,
    /// What is odd about the files, or not carried over.
    pub warnings: Vec<Problem>,
}

/// How the network is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Where queries are listened for, over UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// UDP threads and sockets for each address; 0 is one for each processor.
    pub threads: usize,
    /// `SO_RCVBUF` of UDP sockets, when it is not to be the system's.
    pub receive_buffer: Option<usize>,
    /// Bounds of TCP.
    pub tcp: TcpLimits,
}

/// Bounds of TCP (RFC 7766 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpLimits {
    /// Connections in all.
    pub connections: usize,
    /// Connections of one client address.
    pub per_client: usize,
    /// How long a connection may be idle.
    pub idle: Duration,
    /// Answers of one connection under way at a time.
    pub pipeline: usize,
}

impl Default for TcpLimits {
    fn default() -> Self {
        Self {
            connections: 512,
            per_client: 64,
            idle: Duration::from_secs(10),
            pipeline: 16,
        }
    }
}

/// Encrypted transports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificate chain, in PEM.
    pub certificate: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
    /// DNS over TLS (RFC 7858).
    pub dot: Vec<SocketAddr>,
    /// DNS over HTTPS (RFC 8484).
    pub doh: Vec<SocketAddr>,
    /// DNS over QUIC (RFC 9250).
    pub doq: Vec<SocketAddr>,
    /// The path of DNS over HTTPS.
    pub doh_path: String,
}

/// Which zones are served, and how their files are read.
#[derive(Clone, Debug)]
pub struct Zones {
    /// The zones, those that are not served from a file left out.
    pub declared: Vec<ZoneDecl>,
    /// How master files are read.
    pub options: Arc<Options>,
    /// How often files are looked at; `None` is never.
    pub check_interval: Option<Duration>,
    /// Whether changes of files are noticed at once.
    pub notify: bool,
}

const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::V4(std::net::SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
}
