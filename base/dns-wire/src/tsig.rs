//! Transaction signatures (RFC 8945), for a server without keys: it answers that it does not know the key.
//!
//! Never checks a signature, and never makes one.

use crate::header;
use crate::name;
use crate::rtype::{Class, Type};

/// The error of a TSIG record whose key the server does not know (RFC 8945 §5.2.1).
const BADKEY: u16 = 17;
/// Octets between a record's owner and its data: type, class, TTL, length.
const FIXED: usize = 10;
/// The time of the signature and how far clocks may differ.
const TIME: usize = 8;

/// The TSIG record of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tsig<'a> {
    /// The name of the key.
    key: &'a [u8],
    /// The name of the algorithm.
    algorithm: &'a [u8],
    /// The time of the signature, and the tolerance for clocks.
    time: &'a [u8],
    /// The identifier that was signed.
    original_id: u16,
}

impl<'a> Tsig<'a> {
    /// Reads a record that is exactly `record`; `None` when it breaks RFC 8945 §4.2, which demands
    /// uncompressed names.
    pub(crate) fn parse(record: &'a [u8]) -> Option<Self> {
        let key_length = name::wire_length(record).ok()?;
        let (key, rest) = record.split_at_checked(key_length)?;
        let rdata = rest.get(FIXED..)?;
        let algorithm_length = name::wire_length(rdata).ok()?;
        let (algorithm, rest) = rdata.split_at_checked(algorithm_length)?;
        let (time, rest) = rest.split_at_checked(TIME)?;
        let mac_length = usize::from(header::word(rest, 0)?);
        let rest = rest.get(2..)?.get(mac_length..)?;
        let other_length = usize::from(header::word(rest, 4)?);
        (rest.len() == 6 + other_length).then_some(Self {
            key,
            algorithm,
            time,
            original_id: header::word(rest, 0)?,
        })
    }

    /// Writes the unsigned record with the error BADKEY at the start of `out`; returns its length.
    pub(crate) fn write_unknown_key(&self, out: &mut [u8]) -> Option<usize> {
        let rdata_length = self.algorithm.len() + TIME + 8;
        let [t1, t0] = Type::TSIG.0.to_be_bytes();
        let [c1, c0] = Class::ANY.0.to_be_bytes();
        let [l1, l0] = u16::try_from(rdata_length).ok()?.to_be_bytes();
        let [i1, i0] = self.original_id.to_be_bytes();
        let [e1, e0] = BADKEY.to_be_bytes();
        let pieces: [&[u8]; 5] = [
            self.key,
            &[t1, t0, c1, c0, 0, 0, 0, 0, l1, l0],
            self.algorithm,
            self.time,
            // No MAC, and no other data.
            &[0, 0, i1, i0, e1, e0, 0, 0],
        ];
        let mut end = 0;
        for piece in pieces {
            let start = end;
            end += piece.len();
            out.get_mut(start..end)?.copy_from_slice(piece);
        }
        Some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &[u8] = b"\x03key\0\0\xfa\0\xff\0\0\0\0\0\x16\x01h\0\0\0\x12\x34\x56\x78\x01\x2c\
        \0\x02mm\xab\xcd\0\0\0\x01o";

    #[test]
    fn a_record_is_read_and_its_key_disowned() {
        let tsig = Tsig::parse(RECORD).unwrap();
        let mut out = [0xff; 64];
        let length = tsig.write_unknown_key(&mut out).unwrap();
        assert_eq!(
            &out[..length],
            b"\x03key\0\0\xfa\0\xff\0\0\0\0\0\x13\x01h\0\0\0\x12\x34\x56\x78\x01\x2c\0\0\xab\xcd\0\x11\0\0"
        );
        assert!(length < RECORD.len(), "an answer is never the longer one");
        assert_eq!(tsig.write_unknown_key(&mut out[..length - 1]), None);
    }

    #[test]
    fn a_record_that_is_cut_or_too_long_is_none() {
        for cut in 0..RECORD.len() {
            assert_eq!(Tsig::parse(&RECORD[..cut]), None, "{cut}");
        }
        assert_eq!(Tsig::parse(&[RECORD, b"x"].concat()), None);
        let compressed = [b"\xc0\x0c", &RECORD[5..]].concat();
        assert_eq!(Tsig::parse(&compressed), None);
    }
}
