//! Digests: the names of blobs and manifests (image-spec, descriptor §Digests).
//!
//! Two algorithms are registered and taken, SHA-256 and SHA-512; content is kept under the one it
//! was pushed with and never converted. A [`Hasher`] counts the octets besides hashing them.
//!
//! Never reads files or bodies; the caller feeds the bytes.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// An algorithm that content may be addressed by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// The algorithm that every client uses.
    #[default]
    Sha256,
    /// The other one the image-spec registers.
    Sha512,
}

impl Algorithm {
    /// Both, in the order of their strength.
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    /// Its name in digests, in `digest-algorithm=` and on disk.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    /// How many octets a digest has.
    #[must_use]
    pub fn n_octets(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    fn of_ring(self) -> &'static ring::digest::Algorithm {
        match self {
            Self::Sha256 => &ring::digest::SHA256,
            Self::Sha512 => &ring::digest::SHA512,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let named = |algorithm: &Self| algorithm.name() == text;
        Self::ALL
            .into_iter()
            .find(named)
            .ok_or(DigestError::Unsupported)
    }
}

/// The address of content: an algorithm and the hash by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Digest {
    /// By SHA-256.
    Sha256([u8; 32]),
    /// By SHA-512.
    Sha512([u8; 64]),
}

impl Digest {
    /// The digest of octets that are at hand.
    #[must_use]
    pub fn of(algorithm: Algorithm, octets: &[u8]) -> Self {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(octets);
        hasher.finish()
    }

    /// By what it was computed.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Self::Sha256(_) => Algorithm::Sha256,
            Self::Sha512(_) => Algorithm::Sha512,
        }
    }

    /// The hash.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        match self {
            Self::Sha256(octets) => octets,
            Self::Sha512(octets) => octets,
        }
    }

    /// A digest of octets as [`octets`](Self::octets) gives them; none when their number is wrong.
    #[must_use]
    pub fn from_octets(algorithm: Algorithm, octets: &[u8]) -> Option<Self> {
        match algorithm {
            Algorithm::Sha256 => octets.try_into().ok().map(Self::Sha256),
            Algorithm::Sha512 => octets.try_into().ok().map(Self::Sha512),
        }
    }

    /// The part after the colon.
    #[must_use]
    pub fn hex(&self) -> String {
        let mut text = String::with_capacity(2 * self.octets().len());
        for &octet in self.octets() {
            text.push(hex_digit(octet >> 4));
            text.push(hex_digit(octet & 0xf));
        }
        text
    }

    /// The first octet, by which content is spread over directories and locks.
    #[must_use]
    pub fn shard(&self) -> u8 {
        self.octets().first().copied().unwrap_or(0)
    }

    /// The tag under which clients without the referrers API keep what refers to this digest
    /// (distribution-spec, "Referrers Tag Schema": the encoded part is cut at 64 characters).
    #[must_use]
    pub fn fallback_tag(&self) -> String {
        let mut hex = self.hex();
        hex.truncate(64);
        format!("{}-{hex}", self.algorithm())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.algorithm(), self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let (algorithm, hex) = text.split_once(':').ok_or(DigestError::Malformed)?;
        if !is_algorithm(algorithm) || hex.is_empty() {
            return Err(DigestError::Malformed);
        }
        let algorithm: Algorithm = algorithm.parse()?;
        let mut octets = [0; 64];
        let (octets, _) = octets
            .split_at_mut_checked(algorithm.n_octets())
            .ok_or(DigestError::Malformed)?;
        let digits = hex.as_bytes();
        if digits.len() != 2 * octets.len() {
            return Err(DigestError::Malformed);
        }
        let (pairs, _) = digits.as_chunks::<2>();
        for (octet, [high, low]) in octets.iter_mut().zip(pairs) {
            *octet = value(*high)? << 4 | value(*low)?;
        }
        Self::from_octets(algorithm, octets).ok_or(DigestError::Malformed)
    }
}

/// Why a text is no digest that can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DigestError {
    /// Not of the grammar.
    #[error("not a digest")]
    Malformed,
    /// The algorithm is not registered or not supported.
    #[error("the algorithm of the digest is neither sha256 nor sha512")]
    Unsupported,
}

/// Computes a digest while octets pass.
#[derive(Clone)]
pub struct Hasher {
    algorithm: Algorithm,
    context: ring::digest::Context,
    n_octets: u64,
}

impl Hasher {
    /// Nothing has passed yet.
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            context: ring::digest::Context::new(algorithm.of_ring()),
            n_octets: 0,
        }
    }

    /// By what it hashes.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// How many octets have passed.
    #[must_use]
    pub fn n_octets(&self) -> u64 {
        self.n_octets
    }

    /// The next octets.
    pub fn update(&mut self, octets: &[u8]) {
        self.context.update(octets);
        self.n_octets += octets.len() as u64;
    }

    /// The digest of all that passed.
    ///
    /// # Panics
    ///
    /// Never: an algorithm's digest has the length of that algorithm.
    #[must_use]
    pub fn finish(self) -> Digest {
        let digest = self.context.finish();
        Digest::from_octets(self.algorithm, digest.as_ref())
            .expect("a digest has as many octets as its algorithm gives")
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Hasher")
            .field("algorithm", &self.algorithm)
            .field("n_octets", &self.n_octets)
            .finish_non_exhaustive()
    }
}

/// The grammar of an algorithm's name: components of lower-case letters and digits, joined by one
/// of `+._-`.
fn is_algorithm(text: &str) -> bool {
    text.split(['+', '.', '_', '-']).all(|component| {
        let is_word = |octet: u8| octet.is_ascii_lowercase() || octet.is_ascii_digit();
        !component.is_empty() && component.bytes().all(is_word)
    })
}

fn hex_digit(value: u8) -> char {
    char::from(if value < 10 {
        b'0' + value
    } else {
        b'a' + value - 10
    })
}

/// Only lower case: the image-spec has one spelling for each digest.
fn value(digit: u8) -> Result<u8, DigestError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(DigestError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_digest_reads_and_writes_the_same() {
        let digest: Digest = ABC.parse().unwrap();
        assert_eq!(digest.to_string(), ABC);
        assert_eq!(digest, Digest::of(Algorithm::Sha256, b"abc"));
        let long = Digest::of(Algorithm::Sha512, b"abc");
        assert_eq!(long.to_string().parse(), Ok(long));
        assert_eq!(long.hex().len(), 128);
        assert_eq!(
            Digest::from_octets(long.algorithm(), long.octets()),
            Some(long)
        );
        assert_eq!(Digest::from_octets(Algorithm::Sha256, long.octets()), None);
    }

    #[test]
    fn what_is_no_digest_is_refused() {
        use DigestError::{Malformed, Unsupported};
        let short = ABC.get(..ABC.len() - 1).unwrap();
        let upper = ABC.replace("ba", "BA");
        let of_other = ABC.replace("sha256", "sha512");
        let unknown = ABC.replace("sha256", "blake3");
        for (text, error) in [
            ("", Malformed),
            ("sha256", Malformed),
            ("sha256:", Malformed),
            ("sha256:zz", Malformed),
            (short, Malformed),
            (&upper, Malformed),
            (&of_other, Malformed),
            ("SHA256:ab", Malformed),
            ("sha256/../:ab", Malformed),
            (&unknown, Unsupported),
            (
                "multihash+base58:QmRZxt2b1FVZPNqd8hsiykDL3TdBDeTSPX9Kv46HmX4Gx8",
                Unsupported,
            ),
        ] {
            assert_eq!(text.parse::<Digest>(), Err(error), "{text}");
        }
    }

    #[test]
    fn pieces_give_the_digest_of_the_whole() {
        let mut hasher = Hasher::new(Algorithm::Sha256);
        for piece in [b"a".as_slice(), b"", b"bc"] {
            hasher.update(piece);
        }
        assert_eq!(hasher.n_octets(), 3);
        assert_eq!(hasher.finish().to_string(), ABC);
    }

    #[test]
    fn a_fallback_tag_fits_a_tag() {
        let short: Digest = ABC.parse().unwrap();
        assert_eq!(short.fallback_tag(), ABC.replace(':', "-"));
        let long = Digest::of(Algorithm::Sha512, b"abc");
        assert_eq!(long.fallback_tag().len(), "sha512-".len() + 64);
    }
}
