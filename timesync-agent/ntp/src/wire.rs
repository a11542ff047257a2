//! NTP packets of versions 1 to 4 (RFC 1059, 1119, 1305, 5905), extension fields and what authenticates them (RFC 7822, 8573).
//!
//! ```text
//! ┌──────────────┬───────────────────────────────┬──────────────┐
//! │ header, 48   │ extension fields, version 4   │ MAC, 4 to 68 │
//! └──────────────┴───────────────────────────────┴──────────────┘
//!  Packet          ExtensionFields                 Trailer
//! ```
//!
//! Reading borrows and never fails halfway: a [`Message`] is a whole datagram that is well formed. Writing never writes beyond
//! what it is given.

mod extension;
mod packet;
#[cfg(test)]
mod tests;

pub use extension::{ExtensionField, ExtensionFields};
pub use packet::{Mode, Packet};

use std::fmt;

/// Octets of the header, which is all that most packets have (RFC 5905 §7.3).
pub const HEADER_LENGTH: usize = 48;
/// The longest packet that is read: extension fields of 1 KiB, as chronyd has room for, and the longest MAC.
pub const LONGEST_PACKET: usize = HEADER_LENGTH + 1024 + KEY_ID_LENGTH + LONGEST_DIGEST;
/// Octets of the key ID that a MAC begins with.
pub const KEY_ID_LENGTH: usize = 4;
/// The shortest digest that is taken for one: MD5's.
pub const SHORTEST_DIGEST: usize = 16;
/// The longest digest of a version 4 packet: a longer one is cut, so that a MAC differs from an extension field (RFC 7822
/// §7.5.1.4).
pub const LONGEST_DIGEST_V4: usize = 20;
/// The longest digest of all: that of SHA-512.
pub const LONGEST_DIGEST: usize = 64;
/// The shortest extension field (RFC 7822 §7.5).
pub const SHORTEST_EXTENSION: usize = 16;
/// The shortest last extension field of a packet without MAC (RFC 7822 §7.5.1.1).
pub const SHORTEST_LAST_EXTENSION: usize = 28;

/// An extension field that a request has and the response repeats (RFC 8915 §5.3).
pub const UNIQUE_IDENTIFIER: u16 = 0x0104;
/// The shortest body of that (RFC 8915 §5.3).
pub const SHORTEST_UNIQUE_IDENTIFIER: usize = 32;
/// An extension field that only packets secured by NTS have (RFC 8915 §5.4).
pub const NTS_COOKIE: u16 = 0x0204;
/// An extension field that only packets secured by NTS have (RFC 8915 §5.6).
pub const NTS_AUTHENTICATOR: u16 = 0x0404;

/// Why octets are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than a header, longer than any packet, or not of whole words.
    Length(usize),
    /// Version 0, or newer than 4.
    Version(u8),
    /// The octets behind the header of version 4 are neither extension field nor MAC.
    Extension,
}

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(length) => write!(formatter, "{length} octets are no NTP packet"),
            Self::Version(version) => write!(formatter, "version {version} is not supported"),
            Self::Extension => formatter.write_str("malformed extension field or MAC"),
        }
    }
}

impl std::error::Error for Malformed {}

/// A datagram that is a packet.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The header.
    pub packet: Packet,
    /// The octets between header and trailer; empty below version 4.
    pub extensions: ExtensionFields<'a>,
    /// How it ends.
    pub trailer: Trailer<'a>,
    /// Octets of the whole.
    pub length: usize,
}

/// How a packet ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trailer<'a> {
    /// With its last extension field, or its header.
    None,
    /// With a key ID of zero and nothing else: the server could not verify what it was asked (RFC 5905 §9.2).
    CryptoNak,
    /// With a key ID and a digest, which may be of any length that a version 3 packet has.
    Mac(Mac<'a>),
    /// With the authenticator of a Windows domain, whose digest is zero until the server fills it.
    MsSntp,
}

/// A message authentication code (RFC 5905 §7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac<'a> {
    /// The number of the key.
    pub key: u32,
    /// The digest.
    pub digest: &'a [u8],
    /// Over what: all that stands before.
    pub covered: &'a [u8],
    /// The version of the packet, which says how long a digest may be.
    pub version: u8,
}

impl<'a> Message<'a> {
    /// Reads a whole datagram.
    ///
    /// The octets behind the header of a version 4 packet are a MAC if they have the length of one (20 or 24 octets with the
    /// key ID), else an extension field: RFC 7822 §7.5.1 makes both readings possible, and forbids ambiguous lengths.
    ///
    /// # Errors
    ///
    /// When it is no packet.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, Malformed> {
        let length = datagram.len();
        let Some((header, rest)) = datagram.split_first_chunk::<HEADER_LENGTH>() else {
            return Err(Malformed::Length(length));
        };
        if length > LONGEST_PACKET || !length.is_multiple_of(4) {
            return Err(Malformed::Length(length));
        }
        let packet = Packet::decode(header);
        let (extensions, trailer) = match packet.version {
            // Below version 4 there are no extension fields: all that follows is a MAC.
            1..=3 => (
                ExtensionFields::NONE,
                Trailer::read(&packet, datagram, rest)?,
            ),
            4 => {
                let (extensions, rest) = ExtensionFields::split(rest)?;
                (extensions, Trailer::read(&packet, datagram, rest)?)
            }
            version => return Err(Malformed::Version(version)),
        };
        Ok(Self {
            packet,
            extensions,
            trailer,
            length,
        })
    }

    /// The MAC, if it ends with one.
    #[must_use]
    pub fn mac(&self) -> Option<&Mac<'a>> {
        match &self.trailer {
            Trailer::Mac(mac) => Some(mac),
            Trailer::None | Trailer::CryptoNak | Trailer::MsSntp => None,
        }
    }

    /// The body of the first extension field of a type.
    #[must_use]
    pub fn extension(&self, kind: u16) -> Option<&'a [u8]> {
        self.extensions
            .into_iter()
            .find(|field| field.kind == kind)
            .map(|field| field.body)
    }
}

impl<'a> Trailer<'a> {
    /// Reads `rest`, the end of `datagram`.
    fn read(packet: &Packet, datagram: &'a [u8], rest: &'a [u8]) -> Result<Self, Malformed> {
        let Some((key, digest)) = rest.split_first_chunk::<KEY_ID_LENGTH>() else {
            return Ok(Self::None);
        };
        let key = u32::from_be_bytes(*key);
        if digest.is_empty() && key == 0 {
            return Ok(Self::CryptoNak);
        }
        let is_zero = |octets: &[u8]| octets.iter().all(|octet| *octet == 0);
        if packet.version == 3 && key != 0 {
            // MS-SNTP 2.2.1 and 2.2.2: the authenticator, and the extended one after key flags and so on.
            let after = match digest.len() {
                16 => Some(digest),
                68 => digest.get(4..),
                _ => None,
            };
            if after.is_some_and(is_zero) {
                return Ok(Self::MsSntp);
            }
        }
        let covered = datagram
            .len()
            .checked_sub(rest.len())
            .and_then(|end| datagram.get(..end))
            .ok_or(Malformed::Extension)?;
        Ok(Self::Mac(Mac {
            key,
            digest,
            covered,
            version: packet.version,
        }))
    }
}

/// Writes a packet into a given buffer; refuses a part that does not fit, and leaves the buffer as it was.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    length: usize,
}

impl<'a> Writer<'a> {
    /// Begins with the header; none when the buffer is too short for it.
    #[must_use]
    pub fn new(buffer: &'a mut [u8], packet: &Packet) -> Option<Self> {
        *buffer.first_chunk_mut::<HEADER_LENGTH>()? = packet.encode();
        Some(Self {
            buffer,
            length: HEADER_LENGTH,
        })
    }

    /// Appends an extension field, padded to whole words and at least [`SHORTEST_LAST_EXTENSION`] long, so that it may be the last
    /// one with and without MAC (RFC 7822 §7.5.1). False when there is no room.
    pub fn extension(&mut self, kind: u16, body: &[u8]) -> bool {
        let Some(length) = extension::write(self.rest(), kind, body) else {
            return false;
        };
        self.length += length;
        true
    }

    /// Appends a key ID and the digest from `sign`, which gets all octets before it and room for the digest, and returns the
    /// digest's length. False when there is no room or no digest.
    pub fn mac(&mut self, key: u32, sign: impl FnOnce(&[u8], &mut [u8]) -> Option<usize>) -> bool {
        let Some((covered, rest)) = self.buffer.split_at_mut_checked(self.length) else {
            return false;
        };
        let Some((id, digest)) = rest.split_first_chunk_mut::<KEY_ID_LENGTH>() else {
            return false;
        };
        let Some(length) = sign(covered, digest) else {
            return false;
        };
        *id = key.to_be_bytes();
        self.length += KEY_ID_LENGTH + length.min(digest.len());
        true
    }

    /// Octets that were written.
    #[must_use]
    pub fn finish(self) -> usize {
        self.length
    }

    fn rest(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.length..).unwrap_or_default()
    }
}
