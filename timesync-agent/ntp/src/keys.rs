//! Symmetric keys, which sign packets and verify them (RFC 5905 §7.3, RFC 8573; chrony's `keyfile`).
//!
//! A hash signs by hashing key and packet together; AES signs by CMAC (RFC 4493). A digest of more than 160 bits is cut to that in
//! version 4, so that a MAC is never taken for an extension field (RFC 7822 §7.5.1.4); in version 3 it is whole.

use std::collections::BTreeMap;
use std::fmt;
use std::hint;

use aes::{Aes128, Aes256};
use cmac::{Cmac, Mac as _};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};

use crate::wire::{LONGEST_DIGEST, LONGEST_DIGEST_V4, Mac, SHORTEST_DIGEST};

/// How a key signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// MD5, which RFC 8573 deprecates.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
    /// SHA3-224.
    Sha3_224,
    /// SHA3-256.
    Sha3_256,
    /// SHA3-384.
    Sha3_384,
    /// SHA3-512.
    Sha3_512,
    /// AES-CMAC with a key of 128 bits (RFC 8573).
    Aes128,
    /// AES-CMAC with a key of 256 bits.
    Aes256,
}

impl Algorithm {
    /// Every one.
    pub const ALL: [Self; 11] = [
        Self::Md5,
        Self::Sha1,
        Self::Sha256,
        Self::Sha384,
        Self::Sha512,
        Self::Sha3_224,
        Self::Sha3_256,
        Self::Sha3_384,
        Self::Sha3_512,
        Self::Aes128,
        Self::Aes256,
    ];

    /// The name that key files have.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
            Self::Sha384 => "SHA384",
            Self::Sha512 => "SHA512",
            Self::Sha3_224 => "SHA3-224",
            Self::Sha3_256 => "SHA3-256",
            Self::Sha3_384 => "SHA3-384",
            Self::Sha3_512 => "SHA3-512",
            Self::Aes128 => "AES128",
            Self::Aes256 => "AES256",
        }
    }

    /// The number that chrony has for it.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::Md5 => 1,
            Self::Sha1 => 2,
            Self::Sha256 => 3,
            Self::Sha384 => 4,
            Self::Sha512 => 5,
            Self::Sha3_224 => 6,
            Self::Sha3_256 => 7,
            Self::Sha3_384 => 8,
            Self::Sha3_512 => 9,
            Self::Aes128 => 13,
            Self::Aes256 => 14,
        }
    }

    /// The algorithm of that name, in any case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
    }

    /// Octets of a whole digest.
    #[must_use]
    pub fn digest_length(self) -> usize {
        match self {
            Self::Md5 | Self::Aes128 | Self::Aes256 => 16,
            Self::Sha1 => 20,
            Self::Sha3_224 => 28,
            Self::Sha256 | Self::Sha3_256 => 32,
            Self::Sha384 | Self::Sha3_384 => 48,
            Self::Sha512 | Self::Sha3_512 => 64,
        }
    }

    /// The one length of key that it takes, if it does not take any.
    #[must_use]
    pub fn key_length(self) -> Option<usize> {
        match self {
            Self::Aes128 => Some(16),
            Self::Aes256 => Some(32),
            Self::Md5
            | Self::Sha1
            | Self::Sha256
            | Self::Sha384
            | Self::Sha512
            | Self::Sha3_224
            | Self::Sha3_256
            | Self::Sha3_384
            | Self::Sha3_512 => None,
        }
    }
}

/// Why a key is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// Key 0 stands for no key (RFC 5905 §9.2).
    Zero,
    /// No octets at all.
    Empty,
    /// Not the length that the algorithm wants.
    Length {
        /// The expected form.
        wanted: usize,
        /// The found form.
        found: usize,
    },
}

impl fmt::Display for KeyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => formatter.write_str("0 is no key ID"),
            Self::Empty => formatter.write_str("the key is empty"),
            Self::Length { wanted, found } => {
                write!(
                    formatter,
                    "the key has {found} octets where {wanted} are wanted"
                )
            }
        }
    }
}

impl std::error::Error for KeyError {}

/// A secret that two nodes share.
#[derive(Clone)]
pub struct Key {
    algorithm: Algorithm,
    secret: Secret,
}

/// AES keys are expanded once.
#[derive(Clone)]
enum Secret {
    Plain(Box<[u8]>),
    Aes128(Box<Cmac<Aes128>>),
    Aes256(Box<Cmac<Aes256>>),
}

impl Key {
    /// A key of octets.
    ///
    /// # Errors
    ///
    /// When they are none, or not as many as the algorithm wants.
    pub fn new(algorithm: Algorithm, secret: &[u8]) -> Result<Self, KeyError> {
        use cmac::KeyInit as _;
        if secret.is_empty() {
            return Err(KeyError::Empty);
        }
        let wrong = || KeyError::Length {
            wanted: algorithm.key_length().unwrap_or_default(),
            found: secret.len(),
        };
        let secret = match algorithm {
            Algorithm::Aes128 => {
                Secret::Aes128(Box::new(Cmac::new_from_slice(secret).map_err(|_| wrong())?))
            }
            Algorithm::Aes256 => {
                Secret::Aes256(Box::new(Cmac::new_from_slice(secret).map_err(|_| wrong())?))
            }
            _ => Secret::Plain(secret.into()),
        };
        Ok(Self { algorithm, secret })
    }

    /// How it signs.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The length of its secret.
    #[must_use]
    pub fn bits(&self) -> usize {
        match &self.secret {
            Secret::Plain(octets) => octets.len() * 8,
            Secret::Aes128(_) => 128,
            Secret::Aes256(_) => 256,
        }
    }

    /// The version that a client asks with unless one is configured: 3 if version 4 would cut the digest (as chronyd does).
    #[must_use]
    pub fn suggested_version(&self) -> u8 {
        if self.algorithm.digest_length() > LONGEST_DIGEST_V4 {
            3
        } else {
            4
        }
    }

    /// The whole digest of `message`, and how long it is.
    fn digest(&self, message: &[u8]) -> Digested {
        let hash = |octets: &[u8]| Digested::new(octets);
        match (&self.secret, self.algorithm) {
            (Secret::Aes128(mac), _) => {
                let mut mac = (**mac).clone();
                mac.update(message);
                hash(&mac.finalize().into_bytes())
            }
            (Secret::Aes256(mac), _) => {
                let mut mac = (**mac).clone();
                mac.update(message);
                hash(&mac.finalize().into_bytes())
            }
            (Secret::Plain(key), algorithm) => match algorithm {
                Algorithm::Md5 => keyed::<Md5>(key, message),
                Algorithm::Sha1 => keyed::<Sha1>(key, message),
                Algorithm::Sha256 => keyed::<Sha256>(key, message),
                Algorithm::Sha384 => keyed::<Sha384>(key, message),
                Algorithm::Sha512 => keyed::<Sha512>(key, message),
                Algorithm::Sha3_224 => keyed::<Sha3_224>(key, message),
                Algorithm::Sha3_256 => keyed::<Sha3_256>(key, message),
                Algorithm::Sha3_384 => keyed::<Sha3_384>(key, message),
                Algorithm::Sha3_512 => keyed::<Sha3_512>(key, message),
                // `new` makes no such key.
                Algorithm::Aes128 | Algorithm::Aes256 => Digested::new(&[]),
            },
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Key")
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

/// A hash over key and message (RFC 5905 §A.2).
fn keyed<H: Digest>(key: &[u8], message: &[u8]) -> Digested {
    let digest = H::new().chain_update(key).chain_update(message).finalize();
    Digested::new(&digest)
}

/// A digest of any length.
struct Digested {
    octets: [u8; LONGEST_DIGEST],
    length: usize,
}

impl Digested {
    fn new(digest: &[u8]) -> Self {
        let mut octets = [0; LONGEST_DIGEST];
        for (to, from) in octets.iter_mut().zip(digest) {
            *to = *from;
        }
        Self {
            octets,
            length: digest.len().min(LONGEST_DIGEST),
        }
    }

    /// The part of it that a packet of `version` has.
    fn of_version(&self, version: u8) -> &[u8] {
        let longest = if version >= 4 {
            LONGEST_DIGEST_V4
        } else {
            LONGEST_DIGEST
        };
        self.octets
            .get(..self.length.min(longest))
            .unwrap_or_default()
    }
}

/// The keys of a node, by their IDs.
#[derive(Clone, Debug, Default)]
pub struct KeyRing {
    keys: BTreeMap<u32, Key>,
}

impl KeyRing {
    /// No keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key; the one it replaces, if there was one of that ID.
    ///
    /// # Errors
    ///
    /// When the ID is zero.
    pub fn insert(&mut self, id: u32, key: Key) -> Result<Option<Key>, KeyError> {
        if id == 0 {
            return Err(KeyError::Zero);
        }
        Ok(self.keys.insert(id, key))
    }

    /// The key of an ID.
    #[must_use]
    pub fn get(&self, id: u32) -> Option<&Key> {
        self.keys.get(&id)
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Each with its ID, the lowest first.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Key)> {
        self.keys.iter().map(|(id, key)| (*id, key))
    }

    /// Signs `message`, a packet of `version`: writes the digest to the beginning of `digest` and returns its length; none without
    /// that key or room. Fits [`Writer::mac`](crate::wire::Writer::mac).
    #[must_use]
    pub fn sign(&self, id: u32, version: u8, message: &[u8], digest: &mut [u8]) -> Option<usize> {
        let digested = self.get(id)?.digest(message);
        let signature = digested.of_version(version);
        digest
            .get_mut(..signature.len())?
            .copy_from_slice(signature);
        Some(signature.len())
    }

    /// True if `mac` was made with the key that it names. For a server, which accepts any of its keys.
    #[must_use]
    pub fn verify(&self, mac: &Mac<'_>) -> bool {
        let Some(key) = self.get(mac.key) else {
            return false;
        };
        let digested = key.digest(mac.covered);
        let wanted = digested.of_version(mac.version);
        wanted.len() >= SHORTEST_DIGEST && is_same(wanted, mac.digest)
    }

    /// True if `mac` was made with key `id` and no other: a source is bound to its key, since the holder of another key of this
    /// node could otherwise speak for it.
    #[must_use]
    pub fn verify_with(&self, id: u32, mac: &Mac<'_>) -> bool {
        mac.key == id && self.verify(mac)
    }
}

/// Compares in a time that does not depend on where they differ.
fn is_same(ours: &[u8], theirs: &[u8]) -> bool {
    if ours.len() != theirs.len() {
        return false;
    }
    let difference = ours.iter().zip(theirs).fold(0, |all, (ours, theirs)| {
        hint::black_box(all | (ours ^ theirs))
    });
    difference == 0
}

#[cfg(test)]
mod tests;
