//! The Internet checksum (RFC 1071) and the two ways to apply it to VRRP over IPv4.
//!
//! RFC 9568 §5.2.8 counts a pseudo-header for IPv6 only. keepalived counts one for version 3 over
//! IPv4 as well, and drops what was summed without it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::PROTOCOL;

/// The octets that the checksum of a version 3 advertisement over IPv4 covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChecksumForm {
    /// A pseudo-header and the message, as keepalived has it.
    #[default]
    PseudoHeader,
    /// The message alone (RFC 9568 §5.2.8).
    Rfc,
}

impl ChecksumForm {
    /// The other form.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::PseudoHeader => Self::Rfc,
            Self::Rfc => Self::PseudoHeader,
        }
    }
}

/// A sum of 16-bit words in ones' complement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum(u32);

impl Sum {
    /// The pseudo-header of a message of `length` octets between two addresses of one family
    /// (RFC 793 §3.1, RFC 8200 §8.1).
    pub(super) fn pseudo_header(source: IpAddr, destination: IpAddr, length: u16) -> Self {
        let mut sum = Self::default();
        sum.add_address(source);
        sum.add_address(destination);
        sum.add_word(u16::from(PROTOCOL));
        sum.add_word(length);
        sum
    }

    /// Adds octets; an odd one at the end counts as followed by a zero.
    pub(super) fn add(&mut self, octets: &[u8]) {
        let (words, rest) = octets.as_chunks::<2>();
        for word in words {
            self.add_word(u16::from_be_bytes(*word));
        }
        if let &[last] = rest {
            self.add_word(u16::from_be_bytes([last, 0]));
        }
    }

    /// The checksum; zero if the octets held a correct one.
    pub(super) fn finish(self) -> u16 {
        let folded = (self.0 & 0xffff) + (self.0 >> 16);
        let folded = (folded & 0xffff) + (folded >> 16);
        #[expect(clippy::cast_possible_truncation, reason = "two folds leave 16 bits")]
        let sum = folded as u16;
        !sum
    }

    fn add_address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.add(&Ipv4Addr::octets(&address)),
            IpAddr::V6(address) => self.add(&Ipv6Addr::octets(&address)),
        }
    }

    fn add_word(&mut self, word: u16) {
        // A message has at most 4 + 255 * 8 + 20 words: 32 bits do not overflow.
        self.0 += u32::from(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_as_rfc_1071_shows() {
        let mut sum = Sum::default();
        sum.add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.finish(), !0xddf2);
    }

    #[test]
    fn an_odd_octet_counts_as_high_half() {
        let mut odd = Sum::default();
        odd.add(&[0x12, 0x34, 0x56]);
        let mut even = Sum::default();
        even.add(&[0x12, 0x34, 0x56, 0x00]);
        assert_eq!(odd.finish(), even.finish());
    }

    #[test]
    fn carries_fold_twice() {
        let mut sum = Sum::default();
        sum.add(&[0xff; 4096]);
        assert_eq!(sum.finish(), 0);
    }
}
