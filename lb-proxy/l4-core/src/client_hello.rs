//! The server name in a TLS ClientHello, read without decrypting anything (RFC 8446 §4.1.2, RFC 6066 §3).
//!
//! [`peek`] is given everything received so far, as often as something is added. The hello may come
//! in segments of any size, and in any number of TLS records (RFC 8446 §5.1). Octets that do not parse are
//! not TLS: a connection is never refused here, it has no name. Never reads a socket.

mod wire;

use std::borrow::Cow;
use std::net::Ipv4Addr;

use wire::Reader;

/// A longer handshake message is not looked into. Keys of post-quantum key exchange and a full session
/// ticket together stay far below.
pub const LONGEST_HELLO: usize = 16 * 1024;

/// More octets are never asked for: a hello of the usual size may come in records of a few octets each.
pub const LONGEST: usize = 2 * LONGEST_HELLO;

/// The meaning of the first octets of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peeked {
    /// The beginning of a hello: come back with more.
    More,
    /// A hello.
    Hello(Hello),
    /// Not TLS, or a hello that breaks its rules. SSLv2's is one of these.
    NotTls,
    /// A hello longer than anybody has reason to send.
    TooLong,
}

/// The facts in a client's first message, before anything is encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The host name it asks for, in lower case and without a dot at its end; none when it sent none,
    /// or something that is no host name.
    pub name: Option<String>,
    /// The application protocols it offers (RFC 7301), in its order.
    pub protocols: Vec<Box<[u8]>>,
}

/// Reads `octets`, the first of a connection.
#[must_use]
pub fn peek(octets: &[u8]) -> Peeked {
    let octets = octets.get(..LONGEST).unwrap_or(octets);
    let message = match message(octets) {
        Ok(message) => message,
        Err(Unfinished::More) if octets.len() == LONGEST => return Peeked::TooLong,
        Err(Unfinished::More) => return Peeked::More,
        Err(Unfinished::TooLong) => return Peeked::TooLong,
        Err(Unfinished::NotTls) => return Peeked::NotTls,
    };
    hello(&message).map_or(Peeked::NotTls, Peeked::Hello)
}

/// True for what can be the name of a host: letters, digits, hyphens and underscores in labels of at
/// most 63 octets, at most 253 in all, and no IPv4 address (RFC 6066 §3).
#[must_use]
pub fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_letter = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
        (1..=63).contains(&label.len()) && label.bytes().all(is_letter)
    };
    name.len() <= 253 && name.split('.').all(is_label) && name.parse::<Ipv4Addr>().is_err()
}

//--- Records

/// Why there is no message to look into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unfinished {
    More,
    NotTls,
    TooLong,
}

/// The body of the ClientHello, out of as many records as it takes. Copied only if it is more than one.
fn message(octets: &[u8]) -> Result<Cow<'_, [u8]>, Unfinished> {
    let mut records = Records(octets);
    let mut gathered: Cow<'_, [u8]> = Cow::Borrowed(&[]);
    let mut wanted = None;
    loop {
        let record = records.next_record()?;
        if gathered.is_empty() {
            gathered = Cow::Borrowed(record.fragment);
        } else {
            gathered.to_mut().extend_from_slice(record.fragment);
        }
        // The type is judged as soon as it is there, the length as soon as it is whole.
        if gathered.first().is_some_and(|first| *first != CLIENT_HELLO) {
            return Err(Unfinished::NotTls);
        }
        if wanted.is_none()
            && let Some(&[_, a, b, c]) = gathered.first_chunk()
        {
            let length = usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap_or(usize::MAX);
            if length > LONGEST_HELLO {
                return Err(Unfinished::TooLong);
            }
            wanted = Some(HEADER + length);
        }
        if let Some(end) = wanted.filter(|wanted| gathered.len() >= *wanted) {
            return Ok(slice(gathered, HEADER, end));
        }
        if !record.is_whole {
            return Err(Unfinished::More);
        }
    }
}

/// Type and length of a handshake message.
const HEADER: usize = 4;

const CLIENT_HELLO: u8 = 1;

fn slice(octets: Cow<'_, [u8]>, start: usize, end: usize) -> Cow<'_, [u8]> {
    match octets {
        Cow::Borrowed(octets) => Cow::Borrowed(octets.get(start..end).unwrap_or_default()),
        Cow::Owned(mut octets) => {
            octets.truncate(end);
            drop(octets.drain(..start.min(octets.len())));
            Cow::Owned(octets)
        }
    }
}

/// The rest of the stream.
struct Records<'a>(&'a [u8]);

/// A record of the handshake.
struct Record<'a> {
    fragment: &'a [u8],
    /// All of it is there.
    is_whole: bool,
}

impl<'a> Records<'a> {
    /// The next record, as far as it is there.
    fn next_record(&mut self) -> Result<Record<'a>, Unfinished> {
        // Octet by octet, so that what is not TLS is known at the first that cannot be.
        let [kind, major] = [self.0.first(), self.0.get(1)];
        if kind.is_some_and(|kind| *kind != HANDSHAKE) || major.is_some_and(|major| *major != 3) {
            return Err(Unfinished::NotTls);
        }
        let Some((&[_, _, _, high, low], rest)) = self.0.split_first_chunk() else {
            return Err(Unfinished::More);
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        // RFC 8446 §5.1: no fragment of a handshake is empty, and none longer than 2^14.
        if length == 0 || length > LONGEST_FRAGMENT {
            return Err(Unfinished::NotTls);
        }
        let (fragment, rest) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        self.0 = rest;
        Ok(Record {
            fragment,
            is_whole: fragment.len() == length,
        })
    }
}

const HANDSHAKE: u8 = 22;

const LONGEST_FRAGMENT: usize = 1 << 14;

//--- Hello

/// RFC 8446 §4.1.2, and RFC 5246 §7.4.1.2 for hellos without extensions.
fn hello(message: &[u8]) -> Option<Hello> {
    let mut reader = Reader(message);
    let [major, _minor] = *reader.array()?;
    let _random: &[u8; 32] = reader.array()?;
    let session = reader.counted_8()?;
    let suites = reader.counted_16()?;
    let compressions = reader.counted_8()?;
    let is_sound = major == 3
        && session.len() <= 32
        && !suites.is_empty()
        && suites.len().is_multiple_of(2)
        && !compressions.is_empty();
    if !is_sound {
        return None;
    }
    let mut hello = Hello::default();
    if reader.is_empty() {
        return Some(hello);
    }
    let mut extensions = Reader(reader.counted_16()?);
    if !reader.is_empty() {
        return None;
    }
    let mut seen = [false; 2];
    while !extensions.is_empty() {
        let kind = u16::from_be_bytes(*extensions.array()?);
        let data = extensions.counted_16()?;
        // RFC 8446 §4.2: no extension comes twice.
        match kind {
            SERVER_NAME if !std::mem::replace(&mut seen[0], true) => {
                hello.name = server_name(data)?;
            }
            PROTOCOLS if !std::mem::replace(&mut seen[1], true) => {
                hello.protocols = protocols(data)?;
            }
            SERVER_NAME | PROTOCOLS => return None,
            _ => {}
        }
    }
    Some(hello)
}

const SERVER_NAME: u16 = 0;

const PROTOCOLS: u16 = 16;

/// RFC 6066 §3: a list of names of different types, of which there is one. `None` when it is broken.
fn server_name(data: &[u8]) -> Option<Option<String>> {
    let mut reader = Reader(data);
    let mut list = Reader(reader.counted_16()?);
    if list.is_empty() || !reader.is_empty() {
        return None;
    }
    let mut name = None;
    while !list.is_empty() {
        let [kind] = *list.array()?;
        let value = list.counted_16()?;
        if kind == HOST_NAME {
            // "MUST NOT contain more than one name of the same name_type".
            if name.is_some() || value.is_empty() {
                return None;
            }
            name = Some(value);
        }
    }
    Some(name.and_then(host_name))
}

const HOST_NAME: u8 = 0;

fn host_name(octets: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(octets).ok()?;
    let name = text.strip_suffix('.').unwrap_or(text);
    is_host_name(name).then(|| name.to_ascii_lowercase())
}

/// RFC 7301 §3.1.
fn protocols(data: &[u8]) -> Option<Vec<Box<[u8]>>> {
    let mut reader = Reader(data);
    let mut list = Reader(reader.counted_16()?);
    if list.is_empty() || !reader.is_empty() {
        return None;
    }
    let mut protocols = Vec::new();
    while !list.is_empty() {
        let protocol = list.counted_8()?;
        if protocol.is_empty() {
            return None;
        }
        protocols.push(protocol.into());
    }
    Some(protocols)
}

#[cfg(test)]
mod tests;
