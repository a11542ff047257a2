//! Version 1: `PROXY TCP4 192.0.2.1 192.0.2.9 40000 443`, a line that ends in CR LF (§2.1).

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

use super::{Command, Header, Parsed, Version, agree};

/// With CR LF; the longest is `PROXY UNKNOWN` with two IPv6 addresses.
const LONGEST_LINE: usize = 107;

const SIGNATURE: &[u8] = b"PROXY ";

pub(super) fn parse(octets: &[u8]) -> Parsed {
    if !agree(octets, SIGNATURE) {
        return Parsed::Absent;
    }
    if octets.len() < SIGNATURE.len() {
        return Parsed::More;
    }
    let line = octets.get(..LONGEST_LINE).unwrap_or(octets);
    let Some(end) = line.iter().position(|octet| !matches!(octet, b' '..=b'~')) else {
        return if line.len() < LONGEST_LINE {
            Parsed::More
        } else {
            Parsed::Invalid("the line of a PROXY header does not end")
        };
    };
    match line.get(end..) {
        Some([b'\r', b'\n', ..]) => {}
        Some([b'\r']) if line.len() < LONGEST_LINE => return Parsed::More,
        _ => return Parsed::Invalid("the line of a PROXY header has an odd character"),
    }
    let text = line.get(SIGNATURE.len()..end).unwrap_or_default();
    // Nothing but ASCII got this far.
    let text = std::str::from_utf8(text).unwrap_or_default();
    let Some((source, destination)) = addresses(text) else {
        return Parsed::Invalid("the line of a PROXY header does not have two addresses and ports");
    };
    Parsed::Header {
        header: Header {
            version: Version::V1,
            command: Command::Proxy,
            source,
            destination,
            tlvs: Vec::new(),
        },
        length: end + 2,
    }
}

type Addresses = (Option<SocketAddr>, Option<SocketAddr>);

fn addresses(text: &str) -> Option<Addresses> {
    let mut words = text.split(' ');
    let is_v4 = match words.next()? {
        "TCP4" => true,
        "TCP6" => false,
        // The text behind UNKNOWN is to be ignored, whatever it is.
        "UNKNOWN" => return Some((None, None)),
        _ => return None,
    };
    let [source, destination] = [words.next()?, words.next()?].map(|word| {
        let address: IpAddr = word.parse().ok()?;
        (address.is_ipv4() == is_v4).then_some(address)
    });
    let [source_port, destination_port] = [words.next()?, words.next()?].map(port);
    if words.next().is_some() {
        return None;
    }
    Some((
        Some(SocketAddr::new(source?, source_port?)),
        Some(SocketAddr::new(destination?, destination_port?)),
    ))
}

/// Digits alone, without a leading zero.
fn port(word: &str) -> Option<u16> {
    let is_canonical = word == "0" || !word.starts_with(['0', '+']);
    word.parse().ok().filter(|_| is_canonical)
}

/// Appends `header` as a line; fields that a line has no place for are left out.
pub fn write_v1(header: &Header, out: &mut Vec<u8>) {
    // Writing to a vector does not fail.
    let _written = match header.addresses() {
        None => out.write_all(b"PROXY UNKNOWN\r\n"),
        Some((source, destination)) => write!(
            out,
            "PROXY {} {} {} {} {}\r\n",
            if source.is_ipv4() { "TCP4" } else { "TCP6" },
            source.ip(),
            destination.ip(),
            source.port(),
            destination.port(),
        ),
    };
}
