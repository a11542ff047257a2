//! Keys, and the MACs that they make.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};

use super::{Tsig, TsigError};
use crate::name::Name;
use crate::rdata::base64_word;

/// The algorithm of a key (RFC 8945 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC-MD5, for old peers only.
    Md5,
    /// HMAC-SHA1.
    Sha1,
    /// HMAC-SHA224.
    Sha224,
    /// HMAC-SHA256.
    Sha256,
    /// HMAC-SHA384.
    Sha384,
    /// HMAC-SHA512.
    Sha512,
}

impl Algorithm {
    /// The algorithm's name, in wire form.
    #[must_use]
    pub const fn name(self) -> &'static [u8] {
        match self {
            Self::Md5 => b"\x08hmac-md5\x07sig-alg\x03reg\x03int\0",
            Self::Sha1 => b"\x09hmac-sha1\0",
            Self::Sha224 => b"\x0bhmac-sha224\0",
            Self::Sha256 => b"\x0bhmac-sha256\0",
            Self::Sha384 => b"\x0bhmac-sha384\0",
            Self::Sha512 => b"\x0bhmac-sha512\0",
        }
    }

    /// The octets of a whole MAC.
    #[must_use]
    pub const fn mac_length(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha224 => 28,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }
}

/// A secret that two servers share, with its name and its algorithm.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Arc<Shared>);

#[derive(PartialEq, Eq)]
struct Shared {
    /// In lower case.
    name: Name,
    algorithm: Algorithm,
    secret: Box<[u8]>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret stays out of logs.
        write!(f, "Key({} {:?})", self.0.name, self.0.algorithm)
    }
}

/// The reason why a text is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The secret is not base 64.
    Base64,
    /// The secret is empty.
    Empty,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Base64 => "the secret is not base 64",
            Self::Empty => "the secret is empty",
        })
    }
}

impl std::error::Error for KeyError {}

impl Key {
    /// A key whose secret is written in base 64.
    ///
    /// # Errors
    /// When the secret is empty, or not base 64.
    pub fn new(name: &Name, algorithm: Algorithm, secret: &str) -> Result<Self, KeyError> {
        let secret = base64_word(secret.trim().as_bytes()).ok_or(KeyError::Base64)?;
        if secret.is_empty() {
            return Err(KeyError::Empty);
        }
        Ok(Self(Arc::new(Shared {
            name: name.to_lowercase(),
            algorithm,
            secret: secret.into(),
        })))
    }

    /// The name, in lower case.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.0.name
    }

    /// The algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.0.algorithm
    }

    /// Whether the record names this key with its algorithm.
    pub(super) fn is_named(&self, tsig: &Tsig<'_>) -> bool {
        self.name().as_wire().eq_ignore_ascii_case(tsig.key)
            && self.algorithm().name().eq_ignore_ascii_case(tsig.algorithm)
    }

    /// Begins a MAC.
    pub(super) fn hash(&self) -> Hash {
        let secret = &self.0.secret;
        // An HMAC takes a key of any length.
        let hash = match self.algorithm() {
            Algorithm::Md5 => Hmac::new_from_slice(secret).map(Hash::Md5),
            Algorithm::Sha1 => Hmac::new_from_slice(secret).map(Hash::Sha1),
            Algorithm::Sha224 => Hmac::new_from_slice(secret).map(Hash::Sha224),
            Algorithm::Sha256 => Hmac::new_from_slice(secret).map(Hash::Sha256),
            Algorithm::Sha384 => Hmac::new_from_slice(secret).map(Hash::Sha384),
            Algorithm::Sha512 => Hmac::new_from_slice(secret).map(Hash::Sha512),
        };
        hash.unwrap_or(Hash::None)
    }
}

/// A MAC under way.
#[derive(Clone)]
pub(super) enum Hash {
    Md5(Hmac<Md5>),
    Sha1(Hmac<Sha1>),
    Sha224(Hmac<Sha224>),
    Sha256(Hmac<Sha256>),
    Sha384(Hmac<Sha384>),
    Sha512(Hmac<Sha512>),
    /// Nothing is its MAC.
    None,
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash")
    }
}

impl Hash {
    pub(super) fn update(&mut self, octets: &[u8]) {
        match self {
            Self::Md5(hash) => hash.update(octets),
            Self::Sha1(hash) => hash.update(octets),
            Self::Sha224(hash) => hash.update(octets),
            Self::Sha256(hash) => hash.update(octets),
            Self::Sha384(hash) => hash.update(octets),
            Self::Sha512(hash) => hash.update(octets),
            Self::None => {}
        }
    }

    /// The MAC.
    pub(super) fn finish(self) -> Vec<u8> {
        match self {
            Self::Md5(hash) => hash.finalize().into_bytes().to_vec(),
            Self::Sha1(hash) => hash.finalize().into_bytes().to_vec(),
            Self::Sha224(hash) => hash.finalize().into_bytes().to_vec(),
            Self::Sha256(hash) => hash.finalize().into_bytes().to_vec(),
            Self::Sha384(hash) => hash.finalize().into_bytes().to_vec(),
            Self::Sha512(hash) => hash.finalize().into_bytes().to_vec(),
            Self::None => Vec::new(),
        }
    }

    /// Whether the MAC begins with these octets; the time that this takes does not depend on where they differ.
    fn begins_with(self, mac: &[u8]) -> bool {
        let result = match self {
            Self::Md5(hash) => hash.verify_truncated_left(mac),
            Self::Sha1(hash) => hash.verify_truncated_left(mac),
            Self::Sha224(hash) => hash.verify_truncated_left(mac),
            Self::Sha256(hash) => hash.verify_truncated_left(mac),
            Self::Sha384(hash) => hash.verify_truncated_left(mac),
            Self::Sha512(hash) => hash.verify_truncated_left(mac),
            Self::None => return false,
        };
        result.is_ok()
    }

    /// Checks the MAC of a record: whether it is one, whether it is right, whether the time is, and whether it is
    /// whole, in the order of RFC 8945 §5.2.
    pub(super) fn check(self, key: &Key, tsig: &Tsig<'_>, now: u64) -> Result<(), TsigError> {
        let whole = key.algorithm().mac_length();
        let shortest = super::SHORTEST_MAC.max(whole / 2);
        if tsig.mac.len() > whole || tsig.mac.len() < shortest {
            return Err(TsigError::Malformed);
        }
        if !self.begins_with(tsig.mac) {
            return Err(TsigError::BadSig);
        }
        if !tsig.is_timely(now) {
            return Err(TsigError::BadTime);
        }
        if tsig.mac.len() < whole {
            return Err(TsigError::BadTrunc);
        }
        Ok(())
    }
}

/// The keys of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys(Arc<[Key]>);

impl Keys {
    /// These keys.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = Key>) -> Self {
        Self(keys.into_iter().collect())
    }

    /// The key of this name.
    #[must_use]
    pub fn get(&self, name: &Name) -> Option<&Key> {
        self.0.iter().find(|key| key.name() == name)
    }

    /// The key that a record names.
    pub(super) fn named(&self, tsig: &Tsig<'_>) -> Option<&Key> {
        self.0.iter().find(|key| key.is_named(tsig))
    }
}
