//! The PROXY protocol, versions 1 and 2 (haproxy.org, proxy-protocol.txt): the header in which a
//! proxy says where a connection really comes from.
//!
//! [`parse`] is given everything received so far, as often as something is added: a header may come
//! in segments of any size. [`write_v1`] and [`write_v2`] make one. Never reads or writes a socket.

mod crc32c;
mod tlv;
mod v1;
mod v2;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use tlv::Extensions;

pub use crc32c::crc32c;
pub use tlv::{Ssl, Tlv, kind};
pub use v1::write_v1;
pub use v2::write_v2;

/// A longer header is refused. Version 2 could say 65,551 octets, which is a way to make a proxy hold
/// memory; this is what fits the buffer of other proxies.
pub const LONGEST: usize = 16 * 1024;

/// The meaning of the first octets of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The beginning of a header: come back with more.
    More,
    /// A header, and how many octets it takes; the octets behind it are the connection's own.
    Header {
        /// The contents.
        header: Header,
        /// The octets it takes.
        length: usize,
    },
    /// Not a header: the first octets are those of neither version.
    Absent,
    /// A header that breaks the protocol; the connection has to be closed.
    Invalid(&'static str),
}

/// The contents of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Text or binary.
    pub version: Version,
    /// On whose behalf the connection was made.
    pub command: Command,
    /// The client's address; none when it is unknown or not an Internet stream's, and then the
    /// connection's own counts.
    pub source: Option<SocketAddr>,
    /// The address the client connected to; given whenever `source` is.
    pub destination: Option<SocketAddr>,
    /// The extensions; version 2 only, without padding.
    pub tlvs: Vec<Tlv>,
}

impl Header {
    /// A header for a connection that is relayed.
    #[must_use]
    pub fn relayed(version: Version, source: SocketAddr, destination: SocketAddr) -> Self {
        Self {
            version,
            command: Command::Proxy,
            source: Some(source),
            destination: Some(destination),
            tlvs: Vec::new(),
        }
    }

    /// A header for a connection that the proxy makes for itself, such as a probe.
    #[must_use]
    pub fn local(version: Version) -> Self {
        Self {
            version,
            command: Command::Local,
            source: None,
            destination: None,
            tlvs: Vec::new(),
        }
    }

    /// The value of the first TLV of a kind.
    #[must_use]
    pub fn tlv(&self, kind: u8) -> Option<&[u8]> {
        let tlv = self.tlvs.iter().find(|tlv| tlv.kind == kind);
        tlv.map(|tlv| tlv.value.as_slice())
    }

    /// The host name the client asked for (`PP2_TYPE_AUTHORITY`): the SNI where TLS ended before.
    #[must_use]
    pub fn authority(&self) -> Option<&str> {
        std::str::from_utf8(self.tlv(kind::AUTHORITY)?).ok()
    }

    /// An opaque name of the connection (`PP2_TYPE_UNIQUE_ID`).
    #[must_use]
    pub fn unique_id(&self) -> Option<&[u8]> {
        self.tlv(kind::UNIQUE_ID)
    }

    /// The TLS connection that ended before.
    #[must_use]
    pub fn ssl(&self) -> Option<Ssl<'_>> {
        Ssl::parse(self.tlv(kind::SSL)?)
    }

    /// The connection's extensions, as they are on the wire, for a header that is written later; no
    /// longer than [`LONGEST`], as all of a header.
    #[must_use]
    pub fn extensions(&self) -> Vec<u8> {
        let mut octets = Vec::new();
        tlv::put_lasting(&self.tlvs, &mut octets);
        octets
    }

    /// Tells what [another header](Self::extensions) has told of the connection.
    #[must_use]
    pub fn with_extensions(mut self, octets: &[u8]) -> Self {
        let known = Extensions(octets).filter_map(Result::ok);
        self.tlvs.extend(known.map(|(kind, value)| Tlv {
            kind,
            value: value.to_vec(),
        }));
        self
    }

    /// Both addresses in one family, IPv4 wherever both can be.
    fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        if self.command == Command::Local {
            return None;
        }
        let canonical = |address: SocketAddr| (address.ip().to_canonical(), address.port());
        let (source, source_port) = canonical(self.source?);
        let (destination, destination_port) = canonical(self.destination?);
        let (source, destination) = if source.is_ipv4() == destination.is_ipv4() {
            (source, destination)
        } else {
            (IpAddr::V6(mapped(source)), IpAddr::V6(mapped(destination)))
        };
        Some((
            SocketAddr::new(source, source_port),
            SocketAddr::new(destination, destination_port),
        ))
    }
}

/// The two forms of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A line of text.
    V1,
    /// Binary, with TLVs.
    V2,
}

/// On whose behalf a connection was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// The proxy's own, such as a probe: its addresses are the real ones.
    Local,
    /// A client's. In version 1 always.
    Proxy,
}

/// Reads `octets`, the first of a connection.
#[must_use]
pub fn parse(octets: &[u8]) -> Parsed {
    match octets.first() {
        None => Parsed::More,
        Some(b'P') => v1::parse(octets),
        Some(b'\r') => v2::parse(octets),
        Some(_) => Parsed::Absent,
    }
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// True when `octets` agree with `signature` as far as both go.
fn agree(octets: &[u8], signature: &[u8]) -> bool {
    octets.iter().zip(signature).all(|(a, b)| a == b)
}

#[cfg(test)]
mod tests;
