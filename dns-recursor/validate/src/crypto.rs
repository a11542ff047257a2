//! Signatures and digests, as `ring` makes them, of the forms that DNSSEC has.

use ring::digest::{self, Context};
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};

/// RSA with SHA-256 (RFC 5702).
pub(crate) const RSASHA256: u8 = 8;
/// RSA with SHA-512 (RFC 5702).
pub(crate) const RSASHA512: u8 = 10;
/// ECDSA with P-256 and SHA-256 (RFC 6605).
pub(crate) const ECDSAP256SHA256: u8 = 13;
/// ECDSA with P-384 and SHA-384 (RFC 6605).
pub(crate) const ECDSAP384SHA384: u8 = 14;
/// Ed25519 (RFC 8080).
pub(crate) const ED25519: u8 = 15;

/// SHA-256 (RFC 4509).
pub(crate) const SHA256: u8 = 2;
/// SHA-384 (RFC 6605).
pub(crate) const SHA384: u8 = 4;

/// The longest exponent of an RSA key, in octets: no zone has a longer one, and work grows with it.
const MAX_EXPONENT: usize = 8;

/// Whether signatures of an algorithm can be verified. SHA-1 is out of use (RFC 9905), so zones with nothing else count
/// as unsigned.
pub(crate) const fn knows_algorithm(algorithm: u8) -> bool {
    matches!(
        algorithm,
        RSASHA256 | RSASHA512 | ECDSAP256SHA256 | ECDSAP384SHA384 | ED25519
    )
}

/// Whether a digest of DS records can be made.
pub(crate) const fn knows_digest(digest: u8) -> bool {
    matches!(digest, SHA256 | SHA384)
}

/// Whether a signature of `data` is that of a public key, in the form of DNSKEY records.
pub(crate) fn verifies(algorithm: u8, key: &[u8], data: &[u8], signature: &[u8]) -> bool {
    match algorithm {
        RSASHA256 => rsa(
            &signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
            key,
            data,
            signature,
        ),
        RSASHA512 => rsa(
            &signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
            key,
            data,
            signature,
        ),
        ECDSAP256SHA256 => {
            let point = uncompressed(key);
            let key = UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point);
            key.verify(data, signature).is_ok()
        }
        ECDSAP384SHA384 => {
            let point = uncompressed(key);
            let key = UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, point);
            key.verify(data, signature).is_ok()
        }
        ED25519 => {
            let key = UnparsedPublicKey::new(&signature::ED25519, key);
            key.verify(data, signature).is_ok()
        }
        _ => false,
    }
}

/// A point of an elliptic curve as `ring` reads it: DNSKEY records leave out the first octet, which says that the point
/// is not compressed (RFC 6605 §4).
fn uncompressed(key: &[u8]) -> Vec<u8> {
    [&[4], key].concat()
}

fn rsa(parameters: &signature::RsaParameters, key: &[u8], data: &[u8], signature: &[u8]) -> bool {
    // RFC 3110 §2: the exponent's length in one octet, or a zero and two.
    let split = match key {
        [0, high, low, rest @ ..] => Some((u16::from_be_bytes([*high, *low]), rest)),
        [length, rest @ ..] => Some((u16::from(*length), rest)),
        [] => None,
    };
    let Some((length, rest)) = split else {
        return false;
    };
    let Some((e, n)) = rest.split_at_checked(length.into()) else {
        return false;
    };
    e.len() <= MAX_EXPONENT
        && RsaPublicKeyComponents { n, e }
            .verify(parameters, data, signature)
            .is_ok()
}

/// The digest of data in two parts.
pub(crate) fn digest(kind: u8, first: &[u8], second: &[u8]) -> Option<digest::Digest> {
    let algorithm = match kind {
        SHA256 => &digest::SHA256,
        SHA384 => &digest::SHA384,
        _ => return None,
    };
    Some(hash(algorithm, first, second))
}

/// The hash of a name for NSEC3 (RFC 5155 §5), in lower case.
pub(crate) fn nsec3(name: &[u8], salt: &[u8], iterations: u16) -> digest::Digest {
    let algorithm = &digest::SHA1_FOR_LEGACY_USE_ONLY;
    let mut hashed = hash(algorithm, name, salt);
    for _ in 0..iterations {
        hashed = hash(algorithm, hashed.as_ref(), salt);
    }
    hashed
}

fn hash(algorithm: &'static digest::Algorithm, first: &[u8], second: &[u8]) -> digest::Digest {
    let mut context = Context::new(algorithm);
    context.update(first);
    context.update(second);
    context.finish()
}
