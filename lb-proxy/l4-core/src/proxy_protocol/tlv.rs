//! The extensions of a version 2 header (proxy-protocol.txt §2.2.1 and on).

/// One extension: type, length, value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tlv {
    /// Its type, one of [`kind`] or another's.
    pub kind: u8,
    /// Its value. That of [`kind::CRC32C`] is computed when a header is written.
    pub value: Vec<u8>,
}

/// Types of extensions.
pub mod kind {
    /// The application protocol that TLS agreed on.
    pub const ALPN: u8 = 0x01;
    /// The host name the client asked for.
    pub const AUTHORITY: u8 = 0x02;
    /// A checksum of the whole header.
    pub const CRC32C: u8 = 0x03;
    /// Padding.
    pub const NOOP: u8 = 0x04;
    /// An opaque name of the connection, of at most 128 octets.
    pub const UNIQUE_ID: u8 = 0x05;
    /// TLS that ended before, with extensions of its own.
    pub const SSL: u8 = 0x20;
    /// Within [`SSL`]: the version of TLS, as text.
    pub const SSL_VERSION: u8 = 0x21;
    /// Within [`SSL`]: the common name in the client's certificate.
    pub const SSL_CN: u8 = 0x22;
    /// Within [`SSL`]: the cipher.
    pub const SSL_CIPHER: u8 = 0x23;
    /// Within [`SSL`]: the algorithm the server's certificate is signed with.
    pub const SSL_SIGNATURE: u8 = 0x24;
    /// Within [`SSL`]: the algorithm of the server's key.
    pub const SSL_KEY: u8 = 0x25;
    /// The network namespace the connection came through.
    pub const NETNS: u8 = 0x30;
}

/// The TLS connection that ended before (§2.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ssl<'a> {
    /// Bits: 1 over TLS, 2 certificate in this connection, 4 certificate in this session.
    pub client: u8,
    /// Zero when the client's certificate was verified.
    pub verify: u32,
    extensions: &'a [u8],
}

impl<'a> Ssl<'a> {
    pub(super) fn parse(value: &'a [u8]) -> Option<Self> {
        let (&[client, a, b, c, d], extensions) = value.split_first_chunk()?;
        Some(Self {
            client,
            verify: u32::from_be_bytes([a, b, c, d]),
            extensions,
        })
    }

    /// The first extension of a kind within.
    #[must_use]
    pub fn extension(&self, kind: u8) -> Option<&'a [u8]> {
        let mut extensions = Extensions(self.extensions);
        let found = extensions.find_map(|extension| match extension {
            Ok((found, value)) => (found == kind).then_some(Some(value)),
            Err(Truncated) => Some(None),
        });
        found.flatten()
    }
}

/// Appends those of `extensions` that are of the connection, as they are on the wire, and may come with
/// another header; not those that are of the header itself.
pub(super) fn put_lasting(extensions: &[Tlv], out: &mut Vec<u8>) {
    for Tlv { kind, value } in extensions {
        let Ok(length) = u16::try_from(value.len()) else {
            continue;
        };
        if !matches!(*kind, kind::CRC32C | kind::NOOP) {
            out.push(*kind);
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(value);
        }
    }
}

/// Goes through extensions as they are on the wire.
#[derive(Clone, Debug)]
pub(super) struct Extensions<'a>(pub(super) &'a [u8]);

/// An extension goes beyond the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Truncated;

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<(u8, &'a [u8]), Truncated>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let next = self
            .0
            .split_first_chunk()
            .and_then(|(&[kind, high, low], rest)| {
                let length = usize::from(u16::from_be_bytes([high, low]));
                let (value, rest) = rest.split_at_checked(length)?;
                Some((kind, value, rest))
            });
        match next {
            Some((kind, value, rest)) => {
                self.0 = rest;
                Some(Ok((kind, value)))
            }
            None => {
                self.0 = &[];
                Some(Err(Truncated))
            }
        }
    }
}
