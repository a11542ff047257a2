//! The check of a signed query, and the signatures of its response.

use super::key::{Key, Keys};
use super::{FIXED, FUDGE, Made, TIME, Tsig, TsigError, prior, time_field, variables};
use crate::Rcode;
use crate::header;

/// A query whose signature is right: it signs the response, message by message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    key: Key,
    /// The key's name as the query spells it.
    spelled: Box<[u8]>,
    /// The MAC of the message before.
    mac: Box<[u8]>,
    original_id: u16,
    /// Whether no message was signed yet.
    is_first: bool,
}

/// A query whose signature is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Why.
    pub error: TsigError,
    /// The signer of the response, if the key proved right (RFC 8945 §5.3.2), and the time of the query.
    signer: Option<(Session, [u8; TIME])>,
}

impl Keys {
    /// Checks the signature of a message.
    ///
    /// # Errors
    /// A [`Rejection`], from which comes the response.
    pub fn check(&self, message: &[u8], tsig: &Tsig<'_>, now: u64) -> Result<Session, Rejection> {
        let reject = |error| Rejection {
            error,
            signer: None,
        };
        let Some(key) = self.named(tsig) else {
            return Err(reject(TsigError::BadKey));
        };
        let (Some(head), Some(body)) = (tsig.signed_header(message), tsig.signed_body(message))
        else {
            return Err(reject(TsigError::Malformed));
        };
        let mut hash = key.hash();
        hash.update(&head);
        hash.update(body);
        hash.update(&variables(
            tsig.key,
            tsig.algorithm,
            tsig.time,
            tsig.error,
            tsig.other,
        ));
        let session = Session {
            key: key.clone(),
            spelled: tsig.key.into(),
            mac: tsig.mac.into(),
            original_id: tsig.original_id,
            is_first: true,
        };
        match hash.check(key, tsig, now) {
            Ok(()) => Ok(session),
            Err(error @ (TsigError::BadTime | TsigError::BadTrunc)) => Err(Rejection {
                error,
                signer: Some((session, *tsig.time)),
            }),
            Err(error) => Err(reject(error)),
        }
    }
}

impl Session {
    /// The key.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// The octets that a signature adds to a message.
    #[must_use]
    pub fn length(&self) -> usize {
        let algorithm = self.key.algorithm();
        self.spelled.len() + FIXED + algorithm.name().len() + TIME + 8 + algorithm.mac_length()
    }

    /// Signs the next message of the response, which has this length; returns its new length, or `None` when the
    /// signature does not fit.
    #[must_use]
    pub fn sign(&mut self, out: &mut [u8], length: usize, now: u64) -> Option<usize> {
        self.append(out, length, time_field(now, FUDGE), (0, &[]))
    }

    fn append(
        &mut self,
        out: &mut [u8],
        length: usize,
        time: [u8; TIME],
        (error, other): (u16, &[u8]),
    ) -> Option<usize> {
        let algorithm = self.key.algorithm().name();
        let mut hash = self.key.hash();
        hash.update(&prior(&self.mac));
        hash.update(out.get(..length)?);
        match self.is_first {
            true => hash.update(&variables(&self.spelled, algorithm, &time, error, other)),
            // RFC 8945 §5.3.1: later messages of a transfer sign the time alone.
            false => hash.update(&time),
        }
        let mac = hash.finish();
        let made = Made {
            key: &self.spelled,
            algorithm,
            time,
            mac: &mac,
            original_id: self.original_id,
            error,
            other,
        };
        let end = length + made.write(out.get_mut(length..)?)?;
        add_record(out)?;
        self.mac = mac.into();
        self.is_first = false;
        Some(end)
    }
}

impl Rejection {
    /// The response code of the refusal (RFC 8945 §5.2).
    pub(crate) const fn rcode(&self) -> Rcode {
        match self.error {
            TsigError::Malformed => Rcode::FORMERR,
            _ => Rcode::NOTAUTH,
        }
    }

    /// Appends the record with the error to a refusal that ends at `end`; returns its new end.
    pub(crate) fn append(
        mut self,
        tsig: &Tsig<'_>,
        (out, end): (&mut [u8], usize),
        now: u64,
    ) -> Option<usize> {
        if self.error == TsigError::Malformed {
            return Some(end);
        }
        // RFC 8945 §5.2.3: the time here goes along with the client's own time.
        let here = now.to_be_bytes();
        let other = match self.error {
            TsigError::BadTime => here.get(2..)?,
            _ => &[],
        };
        if let Some((session, time)) = &mut self.signer {
            return session.append(out, end, *time, (self.error.code(), other));
        }
        let made = Made {
            key: tsig.key,
            algorithm: tsig.algorithm,
            time: *tsig.time,
            mac: &[],
            original_id: tsig.original_id,
            error: self.error.code(),
            other,
        };
        let length = made.write(out.get_mut(end..)?)?;
        add_record(out)?;
        Some(end + length)
    }

    /// The refusal of a server that has no keys.
    pub(crate) const fn without_keys() -> Self {
        Self {
            error: TsigError::BadKey,
            signer: None,
        }
    }
}

/// Counts one more additional record.
fn add_record(message: &mut [u8]) -> Option<()> {
    let n = header::word(message, 10)?.checked_add(1)?;
    header::set_word(message, 10, n).then_some(())
}
