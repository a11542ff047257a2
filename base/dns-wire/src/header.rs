//! The twelve octets that begin every message (RFC 1035 §4.1.1).

use crate::code::{Opcode, Rcode};

/// The header's length.
pub const LENGTH: usize = 12;

/// The second pair of octets: flags, opcode and the low bits of the response code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// The message is a response.
    pub const QR: u16 = 0x8000;
    /// The answer is authoritative.
    pub const AA: u16 = 0x0400;
    /// The message was cut to fit its transport.
    pub const TC: u16 = 0x0200;
    /// Recursion is desired.
    pub const RD: u16 = 0x0100;
    /// Recursion is available.
    pub const RA: u16 = 0x0080;
    /// The data is authentic (RFC 4035 §3.2.3).
    pub const AD: u16 = 0x0020;
    /// Checking is disabled (RFC 4035 §3.2.2).
    pub const CD: u16 = 0x0010;

    /// Reads the flags of a message that has a header.
    #[must_use]
    pub fn read(message: &[u8]) -> Option<Self> {
        message
            .get(2..4)
            .and_then(|bytes| bytes.try_into().ok())
            .map(|b| Self(u16::from_be_bytes(b)))
    }

    /// Whether all of these bits are set.
    #[must_use]
    pub const fn has(self, bits: u16) -> bool {
        self.0 & bits == bits
    }

    /// These flags with more bits set.
    #[must_use]
    pub const fn with(self, bits: u16) -> Self {
        Self(self.0 | bits)
    }

    /// These flags with bits cleared.
    #[must_use]
    pub const fn without(self, bits: u16) -> Self {
        Self(self.0 & !bits)
    }

    /// The opcode.
    #[must_use]
    pub const fn opcode(self) -> Opcode {
        Opcode((self.0 >> 11 & 0x0f) as u8)
    }

    /// The low four bits of the response code.
    #[must_use]
    pub const fn rcode(self) -> Rcode {
        Rcode(self.0 & 0x0f)
    }

    /// These flags with the low four bits of a response code.
    #[must_use]
    pub const fn with_rcode(self, rcode: Rcode) -> Self {
        Self(self.0 & !0x0f | rcode.0 & 0x0f)
    }

    /// The initial flags of a response to this query: QR, with opcode, RD and CD of the query (RFC 1035
    /// §4.1.1, RFC 4035 §3.2.2).
    #[must_use]
    pub const fn of_response(self) -> Self {
        Self(Self::QR | self.0 & (0x7800 | Self::RD | Self::CD))
    }

    /// The same for a server that is queried as an authority, and does not validate: CD stays clear (RFC
    /// 4035 §3.1.6).
    #[must_use]
    pub const fn of_authority(self) -> Self {
        Self(self.of_response().0 & !Self::CD)
    }
}

/// The message's identifier.
#[must_use]
pub fn id(message: &[u8]) -> Option<u16> {
    word(message, 0)
}

/// The number of entries in the four sections: question, answer, authority, additional.
#[must_use]
pub fn counts(message: &[u8]) -> Option<[u16; 4]> {
    Some([
        word(message, 4)?,
        word(message, 6)?,
        word(message, 8)?,
        word(message, 10)?,
    ])
}

/// The 16 bits at an offset.
#[must_use]
pub fn word(message: &[u8], offset: usize) -> Option<u16> {
    let bytes = message.get(offset..offset.checked_add(2)?)?;
    Some(u16::from_be_bytes(bytes.try_into().ok()?))
}

/// Writes 16 bits at an offset; `false` when the message is shorter.
pub fn set_word(message: &mut [u8], offset: usize, value: u16) -> bool {
    match message.get_mut(offset..offset.saturating_add(2)) {
        Some(bytes) => {
            bytes.copy_from_slice(&value.to_be_bytes());
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_keeps_opcode_rd_and_cd_only() {
        let query = Flags(0x2000 | Flags::RD | Flags::CD | Flags::AD | Flags::AA | Flags::TC | 7);
        let response = query.of_response();
        assert_eq!(response.opcode(), Opcode::NOTIFY);
        assert_eq!(response.0, 0x8000 | 0x2000 | Flags::RD | Flags::CD);
        assert_eq!(response.with_rcode(Rcode::BADCOOKIE).rcode(), Rcode(7));
        assert_eq!(query.of_authority().0, 0x8000 | 0x2000 | Flags::RD);
    }

    #[test]
    fn short_messages_have_no_fields() {
        assert_eq!(
            (id(b"x"), counts(&[0; 11]), Flags::read(&[0; 3])),
            (None, None, None)
        );
        assert_eq!(counts(&[0; 12]), Some([0; 4]));
        assert!(!set_word(&mut [0; 3], 2, 1));
        assert!(!set_word(&mut [0; 3], usize::MAX, 1));
    }
}
