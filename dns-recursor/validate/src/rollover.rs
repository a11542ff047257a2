//! The DNSKEY set of a zone whose keys are followed (RFC 5011): those of its keys that have signed it.

use dns_wire::{Name, Type};

use crate::budget::Budget;
use crate::keys::Key;
use crate::response::Response;
use crate::signature;
use crate::verdict::Why;

/// A DNSKEY set, with at least one good signature of a key in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySet {
    /// The data of its records.
    pub rdatas: Vec<Vec<u8>>,
    /// The places of those whose key has signed the set, revoked keys too.
    pub signers: Vec<usize>,
    /// Its original TTL, in seconds.
    pub ttl: u32,
    /// The seconds until the first of these signatures ends.
    pub signed_for: u32,
}

/// Reads the DNSKEY set of a zone, at a time in seconds since 1970, and verifies its signatures. Trusts no key.
///
/// # Errors
/// The reason when there is no set, or no key in it has signed it.
pub fn key_set(response: &Response, zone: &Name, now: u64) -> Result<KeySet, Why> {
    let zone = zone.to_lowercase();
    let set = response.answer(&zone, Type::DNSKEY).ok_or(Why::NoKey)?;
    let now = u32::try_from(now & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    let signers = signature::signers(set, &zone, now, &mut Budget::default())?;
    let least = |of: fn(&signature::Signer) -> u32| signers.iter().map(of).min().unwrap_or(0);
    Ok(KeySet {
        ttl: least(|signer| signer.original_ttl),
        signed_for: least(|signer| signer.left),
        signers: signers.iter().map(|signer| signer.place).collect(),
        rdatas: set.rdatas.clone(),
    })
}

/// The tag and the algorithm of a key, by the data of its record.
#[must_use]
pub fn tag_and_algorithm(rdata: &[u8]) -> Option<(u16, u8)> {
    Key::read(rdata).map(|key| (key.tag, key.algorithm))
}

#[cfg(test)]
mod tests;
