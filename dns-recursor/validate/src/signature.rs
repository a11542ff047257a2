//! Whether a set's signature is that of a zone (RFC 4035 §5.3).

use dns_cache::message::canonical_rdata;
use dns_wire::{Class, Name, Type};

use crate::budget::{Budget, MAX_KEYS, MAX_SAME_TAG, Spent};
use crate::crypto;
use crate::keys::Key;
use crate::response::{Set, Signature};
use crate::verdict::Why;

/// Part of a signature's validity by which clocks may differ, and the bounds of that (as unbound has them).
const SKEW_PART: u32 = 10;
const MIN_SKEW: u32 = 3_600;
const MAX_SKEW: u32 = 86_400;

/// A set that has a good signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signed {
    /// The seconds that it may be kept.
    pub(crate) lifetime: u32,
    /// The number of labels of the wildcard's parent, when the set was made from a wildcard (RFC 4035 §5.3.4).
    pub(crate) wildcard: Option<usize>,
}

/// Checks the signatures of a set against the keys of a zone; one good signature is enough.
pub(crate) fn check(
    set: &Set,
    zone: &Name,
    keys: &[Key],
    now: u32,
    budget: &mut Budget,
) -> Result<Signed, Why> {
    let mut worst = Why::NoSignature;
    for signature in &set.signatures {
        match check_one(set, signature, zone, keys, now, budget) {
            Ok(signed) => return Ok(signed),
            Err(Why::TooMuch) => return Err(Why::TooMuch),
            // A signature that another zone or an unknown algorithm has made says nothing.
            Err(Why::NoSignature) => {}
            Err(why) => worst = why,
        }
    }
    Err(worst)
}

fn check_one(
    set: &Set,
    signature: &Signature,
    zone: &Name,
    keys: &[Key],
    now: u32,
    budget: &mut Budget,
) -> Result<Signed, Why> {
    if signature.signer != *zone || !crypto::knows_algorithm(signature.algorithm) {
        return Err(Why::NoSignature);
    }
    let is_above = set.owner.is_within(zone) && (set.rtype != Type::DS || set.owner != *zone);
    let labels = usize::from(signature.labels);
    let owner_labels = set.owner.n_labels() - usize::from(set.owner.is_wildcard());
    // Fewer labels than the zone's name has would be a wildcard above the zone.
    let is_within = zone.n_labels() <= labels && labels <= owner_labels;
    // A denial speaks of its owner, and a delegation is not made from a wildcard.
    let is_fixed = matches!(
        set.rtype,
        Type::NSEC | Type::NSEC3 | Type::DS | Type::DNSKEY | Type::SOA
    );
    if !is_above || !is_within || is_fixed && labels != owner_labels {
        return Err(Why::Signature);
    }
    let lifetime = lifetime(signature, now)?;
    let mut fit = keys
        .iter()
        .filter(|key| key.tag == signature.tag && key.algorithm == signature.algorithm);
    let data = signed_data(set, signature, labels).ok_or(Why::Signature)?;
    let mut why = Why::NoKey;
    for key in fit.by_ref().take(MAX_SAME_TAG) {
        if !key.is_zone_key() {
            why = Why::NoZoneKey;
            continue;
        }
        budget.verification().map_err(|Spent| Why::TooMuch)?;
        if crypto::verifies(key.algorithm, key.public(), &data, &signature.signature) {
            let wildcard = (labels < owner_labels).then_some(labels);
            return Ok(Signed { lifetime, wildcard });
        }
        budget.failed();
        why = Why::Signature;
    }
    Err(why)
}

/// The places of those DNSKEY records of a zone's set whose key has signed the set, revoked keys too (RFC 5011 §2.1); and for each signature
/// the seconds until it ends, and the original TTL.
pub(crate) fn signers(
    set: &Set,
    zone: &Name,
    now: u32,
    budget: &mut Budget,
) -> Result<Vec<Signer>, Why> {
    let keys = set.rdatas.iter().enumerate();
    let keys = keys.filter_map(|(place, rdata)| Some((place, Key::read(rdata)?)));
    let keys: Vec<(usize, Key)> = keys.take(MAX_KEYS).collect();
    let mut found = Vec::new();
    let mut worst = Why::NoSignature;
    for signature in &set.signatures {
        let is_whole = usize::from(signature.labels) == zone.n_labels();
        let is_ours = signature.signer == *zone && set.owner == *zone && is_whole;
        if !is_ours || !crypto::knows_algorithm(signature.algorithm) {
            continue;
        }
        if let Err(why) = lifetime(signature, now) {
            worst = why;
            continue;
        }
        let fit = keys.iter().filter(|(_, key)| {
            key.tag == signature.tag && key.algorithm == signature.algorithm && key.is_of_a_zone()
        });
        let data = signed_data(set, signature, zone.n_labels()).ok_or(Why::Signature)?;
        for (place, key) in fit.take(MAX_SAME_TAG) {
            budget.verification().map_err(|Spent| Why::TooMuch)?;
            if crypto::verifies(key.algorithm, key.public(), &data, &signature.signature) {
                let left = signature.expiration.wrapping_sub(now);
                found.push(Signer {
                    place: *place,
                    left: if is_negative(left) { 0 } else { left },
                    original_ttl: signature.original_ttl,
                });
                break;
            }
            budget.failed();
            worst = Why::Signature;
        }
    }
    match found.is_empty() {
        true => Err(worst),
        false => Ok(found),
    }
}

/// A key that has signed its own set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signer {
    pub(crate) place: usize,
    /// The seconds until its signature ends.
    pub(crate) left: u32,
    pub(crate) original_ttl: u32,
}

/// The seconds that a signature lets its set live: serial numbers, as they wrap (RFC 4034 §3.1.5, RFC 1982).
fn lifetime(signature: &Signature, now: u32) -> Result<u32, Why> {
    let validity = signature.expiration.wrapping_sub(signature.inception);
    if is_negative(validity) {
        return Err(Why::Expired);
    }
    let skew = (validity / SKEW_PART).clamp(MIN_SKEW, MAX_SKEW);
    let left = signature.expiration.wrapping_sub(now);
    let passed = now.wrapping_sub(signature.inception);
    if is_negative(left.wrapping_add(skew)) {
        return Err(Why::Expired);
    }
    if is_negative(passed.wrapping_add(skew)) {
        return Err(Why::NotYet);
    }
    let left = match is_negative(left) {
        true => 0,
        false => left,
    };
    Ok(left.min(signature.original_ttl))
}

const fn is_negative(difference: u32) -> bool {
    difference >> 31 == 1
}

/// The data that a signature signs (RFC 4034 §3.1.8.1), for an owner of which this many labels count.
fn signed_data(set: &Set, signature: &Signature, labels: usize) -> Option<Vec<u8>> {
    let mut rdatas: Vec<Vec<u8>> = set
        .rdatas
        .iter()
        .map(|rdata| canonical_rdata(set.rtype, rdata))
        .collect();
    rdatas.sort_unstable();
    rdatas.dedup();
    let owner = match labels < set.owner.n_labels() && !set.owner.is_wildcard() {
        true => set.owner.suffix(labels).prepend(b"*").ok()?,
        false => set.owner.clone(),
    };
    let mut data = Vec::new();
    data.extend_from_slice(&signature.fixed);
    data.extend_from_slice(signature.signer.as_wire());
    for rdata in rdatas {
        data.extend_from_slice(owner.as_wire());
        data.extend_from_slice(&set.rtype.0.to_be_bytes());
        data.extend_from_slice(&Class::IN.0.to_be_bytes());
        data.extend_from_slice(&signature.original_ttl.to_be_bytes());
        data.extend_from_slice(&u16::try_from(rdata.len()).ok()?.to_be_bytes());
        data.extend_from_slice(&rdata);
    }
    Some(data)
}

/// The data that a test signs.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn signed_data_of(set: &Set, signature: &Signature) -> Option<Vec<u8>> {
    signed_data(set, signature, signature.labels.into())
}

#[cfg(test)]
mod tests;
