//! SHA-256, as hexadecimal digits and as OCI's digests.

use std::fmt;
use std::io::{self, Read, Write};
use std::str::FromStr;

use ring::digest::{Context, SHA256};

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256([u8; 32]);

/// Text that is no digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a SHA-256 digest is 64 hexadecimal digits in lower case")]
pub struct NoDigest;

impl Sha256 {
    /// The digest of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_ring(&ring::digest::digest(&SHA256, bytes))
    }

    /// The digest of what is read until the end, and how many bytes that was.
    ///
    /// # Errors
    ///
    /// When reading fails.
    pub fn of_reader(mut reader: impl Read) -> io::Result<(Self, u64)> {
        let mut hashing = Hashing::new(io::sink());
        let length = io::copy(&mut reader, &mut hashing)?;
        Ok((hashing.finish().1, length))
    }

    /// `sha256:…`.
    #[must_use]
    pub fn to_oci(self) -> String {
        format!("sha256:{self}")
    }

    /// Reads `sha256:…`.
    ///
    /// # Errors
    ///
    /// When it is anything else.
    pub fn from_oci(text: &str) -> Result<Self, NoDigest> {
        text.strip_prefix("sha256:").ok_or(NoDigest)?.parse()
    }

    /// The first digits, for people.
    #[must_use]
    pub fn short(self) -> String {
        self.to_string().chars().take(12).collect()
    }

    fn from_ring(digest: &ring::digest::Digest) -> Self {
        let mut bytes = [0; 32];
        // A SHA-256 digest has 32 bytes; zip takes what both have.
        for (to, from) in bytes.iter_mut().zip(digest.as_ref()) {
            *to = *from;
        }
        Self(bytes)
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha256({self})")
    }
}

impl FromStr for Sha256 {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Self, NoDigest> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != 32 || !rest.is_empty() {
            return Err(NoDigest);
        }
        let mut bytes = [0; 32];
        for (to, &[high, low]) in bytes.iter_mut().zip(pairs) {
            *to = digit(high).ok_or(NoDigest)? << 4 | digit(low).ok_or(NoDigest)?;
        }
        Ok(Self(bytes))
    }
}

impl serde::Serialize for Sha256 {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Sha256 {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// Passes bytes on and digests them.
pub struct Hashing<T> {
    inner: T,
    context: Context,
    length: u64,
}

impl<T> Hashing<T> {
    /// Digests what goes through to or from `inner`.
    pub fn new(inner: T) -> Self {
        Self {
            inner,
            context: Context::new(&SHA256),
            length: 0,
        }
    }

    /// Returns the inner value, the digest of the bytes that passed, and their number.
    pub fn finish(self) -> (T, Sha256, u64) {
        let digest = Sha256::from_ring(&self.context.finish());
        (self.inner, digest, self.length)
    }

    fn take_in(&mut self, bytes: &[u8]) {
        self.context.update(bytes);
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.length = self.length.saturating_add(length);
    }
}

impl<T> fmt::Debug for Hashing<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hashing")
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.take_in(bytes.get(..written).unwrap_or(bytes));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.take_in(buffer.get(..read).unwrap_or_default());
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_digest_is_what_sha256sum_says() {
        assert_eq!(Sha256::of(b"abc").to_string(), ABC);
        assert_eq!(Sha256::of(b"abc").short(), "ba7816bf8f01");
        let (digest, length) = Sha256::of_reader(&b"abc"[..]).unwrap();
        assert_eq!((digest.to_string().as_str(), length), (ABC, 3));
    }

    #[test]
    fn only_64_digits_in_lower_case_are_a_digest() {
        assert_eq!(ABC.parse(), Ok(Sha256::of(b"abc")));
        let oci = format!("sha256:{ABC}");
        assert_eq!(Sha256::from_oci(&oci), Ok(Sha256::of(b"abc")));
        let longer = format!("{ABC}0");
        for wrong in [
            "",
            "ba",
            &ABC.to_uppercase(),
            &longer,
            &oci,
            &ABC.replace('b', "g"),
        ] {
            assert_eq!(wrong.parse::<Sha256>(), Err(NoDigest), "{wrong}");
        }
        assert_eq!(Sha256::from_oci(ABC), Err(NoDigest));
    }

    #[test]
    fn bytes_are_digested_on_their_way() {
        let mut to = Hashing::new(Vec::new());
        to.write_all(b"a").unwrap();
        to.write_all(b"bc").unwrap();
        assert_eq!(to.finish(), (b"abc".to_vec(), Sha256::of(b"abc"), 3));
        let mut from = Hashing::new(&b"abc"[..]);
        io::copy(&mut from, &mut io::sink()).unwrap();
        assert_eq!(from.finish().1, Sha256::of(b"abc"));
    }
}
