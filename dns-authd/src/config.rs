//! The configuration, from either kind of file.
//!
//! [`v1`] is the TOML that people write; [`peer`] turns a pdns.conf into the same. Reads no file: the shell
//! does.

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
use daemon::config::Common;
use daemon::tls::CertificateFiles;
use dns_answer::Settings;
use dns_zone::parse::Options;
use peer_bind::ZoneDecl;
use proto::endpoint::Endpoint;

use crate::access::Access;
use crate::programs::LiveSettings;

/// The admin listener, unless the configuration says otherwise.
pub const DEFAULT_ADMIN: SocketAddr = loopback(9402);
/// The address to listen on, unless the configuration has another.
pub const DEFAULT_LISTEN: SocketAddr = loopback(5301);

/// The whole configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The settings that every daemon has.
    pub common: Common,
    /// How the network is used. Fixed for the life of the process.
    pub network: Network,
    /// Encrypted transports. Fixed, but for the certificate.
    pub tls: Option<Tls>,
    /// The zones, and the options for reading their files.
    pub zones: Zones,
    /// The limits of programs, and the answers while liveness is unknown.
    pub live: LiveSettings,
    /// Whether `LUA` records are answered.
    pub lua: bool,
    /// The address of healthd; `None` leaves every target unknown. Fixed.
    pub health: Option<Endpoint>,
    /// How answers are made.
    pub answers: Settings,
    /// The clients that may query, and those that may transfer zones.
    pub access: Access,
    /// Settings that are odd, or not carried over.
    pub warnings: Vec<Problem>,
}

/// How the network is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The addresses to listen on, over UDP and TCP.
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

impl Tls {
    /// The files of the certificate.
    #[must_use]
    pub fn files(&self) -> CertificateFiles {
        CertificateFiles::new(&self.certificate, &self.key)
    }

    /// Whether nothing but the certificate differs.
    fn is_alike(&self, other: &Self) -> bool {
        let doors = |tls: &Self| (tls.dot.clone(), tls.doh.clone(), tls.doq.clone());
        doors(self) == doors(other) && self.doh_path == other.doh_path
    }
}

/// The part that is fixed for the life of the process.
#[derive(Clone, Debug)]
pub struct Fixed {
    network: Network,
    tls: Option<Tls>,
    health: Option<Endpoint>,
    hold: Duration,
}

impl Fixed {
    /// The part that is fixed once this configuration is served.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self {
            network: config.network.clone(),
            tls: config.tls.clone(),
            health: config.health.clone(),
            hold: config.live.hold,
        }
    }

    /// The settings of another configuration that have no effect before the next restart.
    #[must_use]
    pub fn left_for_restart(&self, other: &Self) -> Vec<&'static str> {
        let is_same_tls = match (&self.tls, &other.tls) {
            (None, None) => true,
            (Some(ours), Some(theirs)) => ours.is_alike(theirs),
            (Some(_), None) | (None, Some(_)) => false,
        };
        let mut left = Vec::new();
        if self.network != other.network {
            left.push("Listen addresses and limits of TCP change with the next restart");
        }
        if !is_same_tls {
            left.push("[tls] changes with the next restart, except its certificate");
        }
        if self.health != other.health || self.hold != other.hold {
            left.push("The endpoint and hold of [health] change with the next restart");
        }
        left
    }
}

/// The zones, and the options for reading their files.
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
