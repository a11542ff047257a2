//! Version 2: sixteen octets, the addresses, and extensions (§2.2).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::tlv::{Extensions, Truncated};
use super::{Command, Header, LONGEST, Parsed, Tlv, Version, agree, crc32c, kind};

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Signature, version and command, family and transport, length of the rest.
const FIXED: usize = 16;

pub(super) fn parse(octets: &[u8]) -> Parsed {
    if !agree(octets, SIGNATURE) {
        return Parsed::Absent;
    }
    // Each octet is judged as it comes, so that no connection waits for the rest of a refused header.
    let after = octets.get(SIGNATURE.len()..).unwrap_or_default();
    let command = match after.first() {
        None => return Parsed::More,
        Some(0x20) => Command::Local,
        Some(0x21) => Command::Proxy,
        Some(_) => return Parsed::Invalid("unknown version or command in a PROXY header"),
    };
    let family = match after.get(1) {
        None => return Parsed::More,
        // The family of LOCAL is ignored (§2.2).
        Some(_) if command == Command::Local => Family::Unspecified,
        Some(&octet) => match Family::from_wire(octet) {
            Some(family) => family,
            None => return Parsed::Invalid("unknown family or transport in a PROXY header"),
        },
    };
    let Some(&[high, low]) = after.get(2..4).and_then(<[u8]>::first_chunk) else {
        return Parsed::More;
    };
    let length = FIXED + usize::from(u16::from_be_bytes([high, low]));
    if length > LONGEST {
        return Parsed::Invalid("a PROXY header is too long");
    }
    if length < FIXED + family.addresses_length() {
        return Parsed::Invalid("a PROXY header is too short for its addresses");
    }
    let Some(whole) = octets.get(..length) else {
        return Parsed::More;
    };
    match read(whole, command, family) {
        Ok(header) => Parsed::Header { header, length },
        Err(reason) => Parsed::Invalid(reason),
    }
}

/// A header that is there whole.
fn read(whole: &[u8], command: Command, family: Family) -> Result<Header, &'static str> {
    let body = whole.get(FIXED..).unwrap_or_default();
    let (addresses, extensions) = body
        .split_at_checked(family.addresses_length())
        .unwrap_or_default();
    let (source, destination) = family.addresses(addresses).unzip();
    let tlvs = match (command, family) {
        // LOCAL: the whole block is to be discarded.
        (Command::Local, _) => Vec::new(),
        // Octets behind an unspecified family are to be skipped: the standard does not say that they are extensions.
        (Command::Proxy, Family::Unspecified) => tlvs(whole, extensions).unwrap_or_default(),
        (Command::Proxy, _) => tlvs(whole, extensions)?,
    };
    Ok(Header {
        version: Version::V2,
        command,
        source,
        destination,
        tlvs,
    })
}

fn tlvs(whole: &[u8], extensions: &[u8]) -> Result<Vec<Tlv>, &'static str> {
    let mut tlvs = Vec::new();
    let mut rest = Extensions(extensions);
    let mut is_checked = false;
    while let Some(extension) = rest.next() {
        let Ok((kind, value)) = extension else {
            let Err(Truncated) = extension else { continue };
            return Err("an extension of a PROXY header is truncated");
        };
        match kind {
            kind::NOOP => continue,
            kind::CRC32C => {
                if is_checked || !is_intact(whole, value, rest.0.len()) {
                    return Err("the checksum of a PROXY header is wrong");
                }
                is_checked = true;
            }
            kind::UNIQUE_ID if value.len() > LONGEST_UNIQUE_ID => {
                return Err("the unique id of a PROXY header is too long");
            }
            _ => {}
        }
        let value = value.to_vec();
        tlvs.push(Tlv { kind, value });
    }
    Ok(tlvs)
}

/// §2.2.5.
const LONGEST_UNIQUE_ID: usize = 128;

/// §2.2.3: the checksum is that of the whole header with the checksum itself set to zero.
///
/// `n_after` octets follow it.
fn is_intact(whole: &[u8], checksum: &[u8], n_after: usize) -> bool {
    let Ok(expected) = <[u8; 4]>::try_from(checksum) else {
        return false;
    };
    let before = whole.len().checked_sub(n_after + 4);
    let Some((before, rest)) = before.and_then(|at| whole.split_at_checked(at)) else {
        return false;
    };
    let after = rest.get(4..).unwrap_or_default();
    crc32c(&[before, &[0; 4], after]) == u32::from_be_bytes(expected)
}

//--- Families

/// The family of the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// None that can be used.
    Unspecified,
    /// IPv4.
    Inet {
        /// Those of a stream; others are skipped.
        is_stream: bool,
    },
    /// IPv6.
    Inet6 {
        /// Those of a stream; others are skipped.
        is_stream: bool,
    },
    /// Paths: skipped, as a receiver may whose clients have none.
    Unix,
}

impl Family {
    fn from_wire(octet: u8) -> Option<Self> {
        let is_stream = octet & 0x0f == 1;
        match (octet >> 4, octet & 0x0f) {
            (0, 0..=2) => Some(Self::Unspecified),
            (1, 0..=2) => Some(Self::Inet { is_stream }),
            (2, 0..=2) => Some(Self::Inet6 { is_stream }),
            (3, 0..=2) => Some(Self::Unix),
            _ => None,
        }
    }

    fn addresses_length(self) -> usize {
        match self {
            Self::Unspecified => 0,
            Self::Inet { .. } => 12,
            Self::Inet6 { .. } => 36,
            Self::Unix => 216,
        }
    }

    fn addresses(self, octets: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
        match self {
            Self::Inet { is_stream: true } => {
                let (source, rest) = octets.split_first_chunk::<4>()?;
                let (destination, ports) = rest.split_first_chunk::<4>()?;
                let [a, b, c, d] = *ports.first_chunk()?;
                Some((
                    (Ipv4Addr::from(*source), u16::from_be_bytes([a, b])).into(),
                    (Ipv4Addr::from(*destination), u16::from_be_bytes([c, d])).into(),
                ))
            }
            Self::Inet6 { is_stream: true } => {
                let (source, rest) = octets.split_first_chunk::<16>()?;
                let (destination, ports) = rest.split_first_chunk::<16>()?;
                let [a, b, c, d] = *ports.first_chunk()?;
                Some((
                    (Ipv6Addr::from(*source), u16::from_be_bytes([a, b])).into(),
                    (Ipv6Addr::from(*destination), u16::from_be_bytes([c, d])).into(),
                ))
            }
            _ => None,
        }
    }
}

//--- Writing

/// Appends `header` in binary. Extensions that would make it longer than [`LONGEST`] are left out;
/// the value of [`kind::CRC32C`] is computed.
pub fn write_v2(header: &Header, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(SIGNATURE);
    out.push(match header.command {
        Command::Local => 0x20,
        Command::Proxy => 0x21,
    });
    let addresses = header.addresses();
    out.push(match addresses {
        Some((SocketAddr::V4(_), _)) => 0x11,
        Some((SocketAddr::V6(_), _)) => 0x21,
        None => 0,
    });
    let length_at = out.len();
    out.extend_from_slice(&[0; 2]);
    if let Some((source, destination)) = addresses {
        for address in [source, destination] {
            match address {
                SocketAddr::V4(address) => out.extend_from_slice(&address.ip().octets()),
                SocketAddr::V6(address) => out.extend_from_slice(&address.ip().octets()),
            }
        }
        for address in [source, destination] {
            out.extend_from_slice(&address.port().to_be_bytes());
        }
    }
    let checksum_at = write_tlvs(header, start, out);
    let length = u16::try_from(out.len() - start - FIXED).unwrap_or(u16::MAX);
    put(out, length_at, &length.to_be_bytes());
    if let Some(at) = checksum_at {
        let checksum = crc32c(&[out.get(start..).unwrap_or_default()]);
        put(out, at, &checksum.to_be_bytes());
    }
}

/// The place of the checksum's value, set to zero.
fn write_tlvs(header: &Header, start: usize, out: &mut Vec<u8>) -> Option<usize> {
    let mut checksum_at = None;
    for tlv in &header.tlvs {
        let value: &[u8] = match tlv.kind {
            kind::CRC32C if checksum_at.is_some() => continue,
            kind::CRC32C => &[0; 4],
            _ => &tlv.value,
        };
        let Ok(length) = u16::try_from(value.len()) else {
            continue;
        };
        if out.len() - start + 3 + value.len() > LONGEST {
            continue;
        }
        out.push(tlv.kind);
        out.extend_from_slice(&length.to_be_bytes());
        if tlv.kind == kind::CRC32C {
            checksum_at = Some(out.len());
        }
        out.extend_from_slice(value);
    }
    checksum_at
}

fn put(out: &mut [u8], at: usize, octets: &[u8]) {
    if let Some(place) = out.get_mut(at..at + octets.len()) {
        place.copy_from_slice(octets);
    }
}
