//! Transaction signatures (RFC 8945): keys, the check of a signed message, and the signature of a response or of a
//! request.
//!
//! ```text
//! Query::parse ─► Tsig ─► Keys::check ─► Session ─► sign, sign … (a response, or the messages of a transfer)
//!                                 └────► Rejection ─► query::reply_to_rejected
//! Key::sign ─► Responses::check, check … (the client's side)
//! ```
//!
//! Never reads a clock: the caller says how late it is, in seconds since 1970.

mod key;
mod request;
mod session;

use crate::header;
use crate::name;
use crate::rtype::{Class, Type};

pub use key::{Algorithm, Key, KeyError, Keys};
pub use request::Responses;
pub use session::{Rejection, Session};

/// Octets between a record's owner and its data: type, class, TTL, length.
const FIXED: usize = 10;
/// The time of the signature and how far clocks may differ.
const TIME: usize = 8;
/// How far clocks may differ, in seconds, in signatures made here (RFC 8945 §10).
const FUDGE: u16 = 300;
/// The shortest part of a MAC that is a MAC (RFC 8945 §5.2.2.1).
const SHORTEST_MAC: usize = 10;
/// The longest MAC, that of SHA-512.
const LONGEST_MAC: usize = 64;

/// The error of a signature, by its code in the record (RFC 8945 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TsigError {
    /// The message has no signature where it needs one, or the record breaks the format.
    Malformed,
    /// The signature is not that of the key.
    BadSig,
    /// The key is unknown here, or has another algorithm.
    BadKey,
    /// The time of the signature is too far from the time here.
    BadTime,
    /// The signature was cut: keys here take whole ones only.
    BadTrunc,
}

impl TsigError {
    /// The code in the record.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Malformed => 1,
            Self::BadSig => 16,
            Self::BadKey => 17,
            Self::BadTime => 18,
            Self::BadTrunc => 22,
        }
    }
}

impl std::fmt::Display for TsigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the TSIG record is missing or malformed",
            Self::BadSig => "the signature is wrong (BADSIG)",
            Self::BadKey => "the key is unknown (BADKEY)",
            Self::BadTime => "the clocks differ too much (BADTIME)",
            Self::BadTrunc => "the signature was cut (BADTRUNC)",
        })
    }
}

impl std::error::Error for TsigError {}

/// The TSIG record of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tsig<'a> {
    /// The place of the record in its message.
    at: usize,
    /// The name of the key.
    key: &'a [u8],
    /// The name of the algorithm.
    algorithm: &'a [u8],
    /// The time of the signature, and the tolerance for clocks.
    time: &'a [u8; TIME],
    mac: &'a [u8],
    /// The identifier that was signed.
    original_id: u16,
    error: u16,
    other: &'a [u8],
}

impl<'a> Tsig<'a> {
    /// Reads a record that is exactly `record`, at this place in its message; `None` when it breaks RFC 8945 §4.2,
    /// which demands uncompressed names.
    pub(crate) fn parse(record: &'a [u8], at: usize) -> Option<Self> {
        let key_length = name::wire_length(record).ok()?;
        let (key, rest) = record.split_at_checked(key_length)?;
        let (fixed, rdata) = rest.split_first_chunk::<FIXED>()?;
        // The class is ANY and the TTL 0; both are signed.
        if !matches!(fixed, [_, _, 0, 255, 0, 0, 0, 0, _, _]) {
            return None;
        }
        let algorithm_length = name::wire_length(rdata).ok()?;
        let (algorithm, rest) = rdata.split_at_checked(algorithm_length)?;
        let (time, rest) = rest.split_first_chunk::<TIME>()?;
        let mac_length = usize::from(header::word(rest, 0)?);
        let (mac, rest) = rest.get(2..)?.split_at_checked(mac_length)?;
        let other = rest.get(6..)?;
        (other.len() == usize::from(header::word(rest, 4)?)).then_some(Self {
            at,
            key,
            algorithm,
            time,
            mac,
            original_id: header::word(rest, 0)?,
            error: header::word(rest, 2)?,
            other,
        })
    }

    /// Finds the signature of any message: its last record (RFC 8945 §5.1). `None` if it has none, or cannot be read.
    #[must_use]
    pub fn find(message: &'a [u8]) -> Option<Self> {
        let [n_questions, n_answers, n_authorities, n_additionals] = header::counts(message)?;
        let mut at = header::LENGTH;
        for _ in 0..n_questions {
            at = name::skip(message, at).ok()? + 4;
        }
        let n_records = u32::from(n_answers) + u32::from(n_authorities) + u32::from(n_additionals);
        let mut last = None;
        for _ in 0..n_records {
            let behind_owner = name::skip(message, at).ok()?;
            let length = usize::from(header::word(message, behind_owner + 8)?);
            last = Some((at, behind_owner));
            at = behind_owner + FIXED + length;
        }
        let (start, behind_owner) = last.filter(|_| n_additionals > 0)?;
        if Type(header::word(message, behind_owner)?) != Type::TSIG || at != message.len() {
            return None;
        }
        Self::parse(message.get(start..at)?, start)
    }

    /// The name of the key, in wire form.
    #[must_use]
    pub const fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The code of the error that the record reports.
    #[must_use]
    pub const fn error(&self) -> u16 {
        self.error
    }

    /// The time of the signature, in seconds since 1970.
    fn signed_at(&self) -> u64 {
        let [t5, t4, t3, t2, t1, t0, ..] = *self.time;
        u64::from_be_bytes([0, 0, t5, t4, t3, t2, t1, t0])
    }

    /// Whether the clocks agree (RFC 8945 §5.2.3).
    fn is_timely(&self, now: u64) -> bool {
        let [.., f1, f0] = *self.time;
        self.signed_at().abs_diff(now) <= u64::from(u16::from_be_bytes([f1, f0]))
    }

    /// The beginning of the signed message: the identifier that was signed, and the number of records without this
    /// one. The rest of what was signed stands in the message, from the first answer on.
    fn signed_header(&self, message: &[u8]) -> Option<[u8; header::LENGTH]> {
        let mut head = *message.first_chunk::<{ header::LENGTH }>()?;
        let n_additionals = header::word(&head, 10)?.checked_sub(1)?;
        header::set_word(&mut head, 0, self.original_id);
        header::set_word(&mut head, 10, n_additionals);
        Some(head)
    }

    /// The signed message behind its header.
    fn signed_body<'m>(&self, message: &'m [u8]) -> Option<&'m [u8]> {
        message.get(header::LENGTH..self.at)
    }
}

/// A record to be written.
struct Made<'a> {
    key: &'a [u8],
    algorithm: &'a [u8],
    time: [u8; TIME],
    mac: &'a [u8],
    original_id: u16,
    error: u16,
    other: &'a [u8],
}

impl Made<'_> {
    /// Writes the record at the start of `out`; returns its length.
    fn write(&self, out: &mut [u8]) -> Option<usize> {
        let rdata_length = self.algorithm.len() + TIME + 2 + self.mac.len() + 6 + self.other.len();
        let [t1, t0] = Type::TSIG.0.to_be_bytes();
        let [c1, c0] = Class::ANY.0.to_be_bytes();
        let [l1, l0] = u16::try_from(rdata_length).ok()?.to_be_bytes();
        let [m1, m0] = u16::try_from(self.mac.len()).ok()?.to_be_bytes();
        let [i1, i0] = self.original_id.to_be_bytes();
        let [e1, e0] = self.error.to_be_bytes();
        let [o1, o0] = u16::try_from(self.other.len()).ok()?.to_be_bytes();
        let pieces: [&[u8]; 8] = [
            self.key,
            &[t1, t0, c1, c0, 0, 0, 0, 0, l1, l0],
            self.algorithm,
            &self.time,
            &[m1, m0],
            self.mac,
            &[i1, i0, e1, e0, o1, o0],
            self.other,
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

/// A time and the tolerance for clocks, as the record has them.
fn time_field(now: u64, fudge: u16) -> [u8; TIME] {
    let [_, _, t5, t4, t3, t2, t1, t0] = now.to_be_bytes();
    let [f1, f0] = fudge.to_be_bytes();
    [t5, t4, t3, t2, t1, t0, f1, f0]
}

/// The fields of a record that are signed (RFC 8945 §4.3.3); names in lower case.
fn variables(key: &[u8], algorithm: &[u8], time: &[u8], error: u16, other: &[u8]) -> Vec<u8> {
    let mut variables = key.to_ascii_lowercase();
    variables.extend(Class::ANY.0.to_be_bytes());
    variables.extend([0; 4]);
    variables.extend(algorithm.to_ascii_lowercase());
    variables.extend_from_slice(time);
    variables.extend(error.to_be_bytes());
    // Other data is six octets at most, or was refused.
    variables.extend(u16::try_from(other.len()).unwrap_or(0).to_be_bytes());
    variables.extend_from_slice(other);
    variables
}

/// A MAC behind its length, as the signature of a response begins (RFC 8945 §4.3.1).
fn prior(mac: &[u8]) -> Vec<u8> {
    let length = u16::try_from(mac.len()).unwrap_or(0);
    [&length.to_be_bytes()[..], mac].concat()
}

#[cfg(test)]
mod tests;
