//! Extension fields of version 4 (RFC 7822).

use super::{
    KEY_ID_LENGTH, LONGEST_DIGEST_V4, Malformed, SHORTEST_DIGEST, SHORTEST_EXTENSION,
    SHORTEST_LAST_EXTENSION,
};

/// Octets before the body: type and length.
const FIELD_HEADER: usize = 4;
/// Octets of the shortest MAC of version 4, with its key ID.
const SHORTEST_MAC: usize = KEY_ID_LENGTH + SHORTEST_DIGEST;
/// Octets of the longest one.
const LONGEST_MAC: usize = KEY_ID_LENGTH + LONGEST_DIGEST_V4;

/// One extension field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtensionField<'a> {
    /// The type.
    pub kind: u16,
    /// The value, with its padding.
    pub body: &'a [u8],
}

/// The extension fields of a packet, which are known to be well formed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtensionFields<'a> {
    octets: &'a [u8],
}

impl<'a> ExtensionFields<'a> {
    /// No fields.
    pub const NONE: Self = Self { octets: &[] };

    /// Splits what follows a header into fields and trailer.
    ///
    /// Whether octets are a MAC is decided by how many are left: from 20 to 24, or 4 for a crypto-NAK. A field that is the last of
    /// a packet without MAC is longer (RFC 7822 §7.5.1.1), and one that precedes a MAC leaves more than a MAC; so there is no
    /// field where no more is left than the longest MAC has.
    pub(super) fn split(octets: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        let mut rest = octets;
        while !is_trailer(rest) {
            if rest.len() <= LONGEST_MAC {
                return Err(Malformed::Extension);
            }
            let (_, after) = read(rest).ok_or(Malformed::Extension)?;
            rest = after;
        }
        let length = octets.len() - rest.len();
        let fields = octets.get(..length).ok_or(Malformed::Extension)?;
        Ok((Self { octets: fields }, rest))
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.octets.is_empty()
    }
}

impl<'a> Iterator for ExtensionFields<'a> {
    type Item = ExtensionField<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let (field, rest) = read(self.octets)?;
        self.octets = rest;
        Some(field)
    }
}

/// True for nothing, for what has the length of a MAC and for a crypto-NAK.
fn is_trailer(rest: &[u8]) -> bool {
    match rest.len() {
        0 | SHORTEST_MAC..=LONGEST_MAC => true,
        KEY_ID_LENGTH => rest == [0; KEY_ID_LENGTH],
        _ => false,
    }
}

/// The field that `octets` begin with, and what follows it.
fn read(octets: &[u8]) -> Option<(ExtensionField<'_>, &[u8])> {
    let ([kind @ .., l0, l1], _) = octets.split_first_chunk::<FIELD_HEADER>()?;
    let length = usize::from(u16::from_be_bytes([*l0, *l1]));
    if length < SHORTEST_EXTENSION || !length.is_multiple_of(4) {
        return None;
    }
    let (field, rest) = octets.split_at_checked(length)?;
    let kind = u16::from_be_bytes(*kind);
    let body = field.get(FIELD_HEADER..)?;
    Some((ExtensionField { kind, body }, rest))
}

/// Writes a field to the beginning of `room`; its length, or none when there is no room.
pub(super) fn write(room: &mut [u8], kind: u16, body: &[u8]) -> Option<usize> {
    let length = (FIELD_HEADER + body.len())
        .next_multiple_of(4)
        .max(SHORTEST_LAST_EXTENSION);
    let field = room.get_mut(..length)?;
    let ([k0, k1, l0, l1], rest) = field.split_first_chunk_mut::<FIELD_HEADER>()?;
    [*k0, *k1] = kind.to_be_bytes();
    [*l0, *l1] = u16::try_from(length).ok()?.to_be_bytes();
    let (start, padding) = rest.split_at_mut_checked(body.len())?;
    start.copy_from_slice(body);
    padding.fill(0);
    Some(length)
}
