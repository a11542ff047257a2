//! The signature of a request, and the check of its responses.

use super::key::{Hash, Key};
use super::{FUDGE, LONGEST_MAC, Made, Tsig, TsigError, prior, time_field, variables};
use crate::header;

/// The most messages of a transfer in a row without a signature (RFC 8945 §5.3.1).
const MOST_UNSIGNED: usize = 99;

/// The check of the responses to a signed request, in their order.
#[derive(Debug)]
pub struct Responses {
    key: Key,
    /// The MAC under way: the one before, and what came since.
    hash: Hash,
    is_first: bool,
    n_unsigned: usize,
}

impl Key {
    /// Signs a request, which has no signature yet. Returns what checks the responses; `None` if the request is no
    /// message.
    #[must_use]
    pub fn sign(&self, message: &mut Vec<u8>, now: u64) -> Option<Responses> {
        let id = header::id(message)?;
        let n_additionals = header::word(message, 10)?.checked_add(1)?;
        let (name, algorithm) = (self.name().as_wire(), self.algorithm().name());
        let time = time_field(now, FUDGE);
        let mut hash = self.hash();
        hash.update(message);
        hash.update(&variables(name, algorithm, &time, 0, &[]));
        let mac = hash.finish();
        let made = Made {
            key: name,
            algorithm,
            time,
            mac: &mac,
            original_id: id,
            error: 0,
            other: &[],
        };
        let start = message.len();
        message.resize(start + 2 * 255 + 64 + LONGEST_MAC, 0);
        let length = made.write(message.get_mut(start..)?)?;
        message.truncate(start + length);
        header::set_word(message, 10, n_additionals);
        let mut hash = self.hash();
        hash.update(&prior(&mac));
        Some(Responses {
            key: self.clone(),
            hash,
            is_first: true,
            n_unsigned: 0,
        })
    }
}

impl Responses {
    /// Checks the next response. The first and the last one must have a signature; [`Responses::is_complete`] tells
    /// whether the last one had.
    ///
    /// # Errors
    /// When the signature is missing, wrong, or reports an error.
    pub fn check(&mut self, message: &[u8], now: u64) -> Result<(), TsigError> {
        let Some(tsig) = Tsig::find(message) else {
            self.n_unsigned += 1;
            if self.is_first || self.n_unsigned > MOST_UNSIGNED {
                return Err(TsigError::Malformed);
            }
            self.hash.update(message);
            return Ok(());
        };
        if !self.key.is_named(&tsig) {
            return Err(TsigError::BadKey);
        }
        match tsig.error {
            // These have no signature that could be checked (RFC 8945 §5.3.2).
            16 => return Err(TsigError::BadSig),
            17 => return Err(TsigError::BadKey),
            _ => {}
        }
        let (head, body) = (tsig.signed_header(message), tsig.signed_body(message));
        let mut hash = std::mem::replace(&mut self.hash, self.key.hash());
        hash.update(&head.ok_or(TsigError::Malformed)?);
        hash.update(body.ok_or(TsigError::Malformed)?);
        match self.is_first {
            true => hash.update(&variables(
                tsig.key,
                tsig.algorithm,
                tsig.time,
                tsig.error,
                tsig.other,
            )),
            false => hash.update(tsig.time),
        }
        hash.check(&self.key, &tsig, now)?;
        match tsig.error {
            0 => {}
            18 => return Err(TsigError::BadTime),
            22 => return Err(TsigError::BadTrunc),
            _ => return Err(TsigError::Malformed),
        }
        self.hash.update(&prior(tsig.mac));
        self.is_first = false;
        self.n_unsigned = 0;
        Ok(())
    }

    /// Whether the response that came last had a signature.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        !self.is_first && self.n_unsigned == 0
    }
}
