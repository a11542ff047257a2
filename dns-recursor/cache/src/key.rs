//! The key of a cacheable question: its name without regard to letter case, type, class, and the DO and CD
//! bits, each of which can change the answer (RFC 4035 §3.2).
//!
//! A [`Key`] lives on the stack of the query's reader, which refills it for the next query.

use dns_wire::{Class, Type, header, name};

/// The longest question: a name of 255 octets, type and class.
const MAX_QUESTION: usize = name::MAX_NAME + 4;

/// The bits of a question that change its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Variant(u8);

impl Variant {
    /// The variant of a question with these bits.
    #[must_use]
    #[inline]
    pub const fn new(dnssec_ok: bool, checking_disabled: bool) -> Self {
        Self(dnssec_ok as u8 | (checking_disabled as u8) << 1)
    }

    /// The bits as a number.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The variant of a number; `None` for one that [`Variant::bits`] does not return.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0..=3 => Some(Self(bits)),
            _ => None,
        }
    }

    /// Whether DNSSEC records were asked for (DO).
    #[must_use]
    #[inline]
    pub const fn dnssec_ok(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether the client asks the upstream not to validate (CD).
    #[must_use]
    #[inline]
    pub const fn checking_disabled(self) -> bool {
        self.0 & 2 != 0
    }
}

/// The seed of the cache's hash: without it, a client cannot pick names that collide.
#[derive(Clone, Copy, Debug)]
pub struct Seed(pub u64);

/// A question in canonical form, with its hash.
#[derive(Clone)]
pub struct Key {
    /// The question, and behind it the variant.
    bytes: [u8; MAX_QUESTION + 1],
    length: usize,
    variant: Variant,
    hash: u64,
}

impl Default for Key {
    fn default() -> Self {
        Self {
            bytes: [0; MAX_QUESTION + 1],
            length: 0,
            variant: Variant::default(),
            hash: 0,
        }
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key")
            .field("question", &self.question())
            .field("variant", &self.variant)
            .finish_non_exhaustive()
    }
}

impl Key {
    /// Reads a question as [`dns_wire::Query`] gives it: name in wire form, type, class.
    pub fn read(&mut self, seed: Seed, question: &[u8], variant: Variant) {
        let length = question.len().min(MAX_QUESTION);
        let Some(bytes) = self.bytes.get_mut(..length) else {
            return;
        };
        for (to, from) in bytes.iter_mut().zip(question) {
            *to = *from;
        }
        // Length octets are below 64 and so never letters; type and class may look like some.
        if let Some(name) = bytes.get_mut(..length.saturating_sub(4)) {
            name.make_ascii_lowercase();
        }
        if let Some(last) = self.bytes.get_mut(length) {
            *last = variant.0;
        }
        self.length = length;
        self.variant = variant;
        self.hash = hash(seed.0 ^ u64::from(variant.0), self.question());
    }

    /// A copy of the key on the heap.
    #[must_use]
    pub fn new(seed: Seed, question: &[u8], variant: Variant) -> Self {
        let mut key = Self::default();
        key.read(seed, question, variant);
        key
    }

    /// The question, its name in lower case.
    #[must_use]
    #[inline]
    pub fn question(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Question and variant: equal for equal keys.
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..=self.length).unwrap_or_default()
    }

    /// The question's name in lower case.
    #[must_use]
    #[inline]
    pub fn name(&self) -> &[u8] {
        self.bytes
            .get(..self.length.saturating_sub(4))
            .unwrap_or_default()
    }

    /// The question's type.
    #[must_use]
    #[inline]
    pub fn qtype(&self) -> Type {
        qtype(self.question())
    }

    /// The bits that change the answer.
    #[must_use]
    #[inline]
    pub const fn variant(&self) -> Variant {
        self.variant
    }

    /// The seeded hash of question and variant.
    #[must_use]
    #[inline]
    pub const fn hash(&self) -> u64 {
        self.hash
    }
}

/// The type that ends a question, in front of the class.
#[must_use]
#[inline]
pub fn qtype(question: &[u8]) -> Type {
    Type(header::word(question, question.len().saturating_sub(4)).unwrap_or(0))
}

/// The class that ends a question.
#[must_use]
#[inline]
pub fn qclass(question: &[u8]) -> Class {
    Class(header::word(question, question.len().saturating_sub(2)).unwrap_or(0))
}

/// Eight octets a step, each multiplied into 128 bits and folded, as wyhash does.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let mut hash = fold(seed ^ bytes.len() as u64);
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        hash = fold(hash ^ chunk.try_into().map_or(0, u64::from_le_bytes));
    }
    let mut tail = [0_u8; 8];
    for (to, from) in tail.iter_mut().zip(chunks.remainder()) {
        *to = *from;
    }
    fold(hash ^ u64::from_le_bytes(tail))
}

/// Multiplies into 128 bits and folds the halves.
fn fold(value: u64) -> u64 {
    const PRIME: u128 = 0xa076_1d64_78bd_642f;
    let wide = u128::from(value ^ 0x9e37_79b9_7f4a_7c15) * PRIME;
    #[expect(clippy::cast_possible_truncation, reason = "the two halves are wanted")]
    let folded = wide as u64 ^ (wide >> 64) as u64;
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(question: &[u8], variant: Variant) -> Key {
        Key::new(Seed(7), question, variant)
    }

    #[test]
    fn letter_case_of_the_name_does_not_count_but_type_and_class_do() {
        let plain = Variant::default();
        let upper = key(b"\x03WWW\x01x\0\0\x41\0\x01", plain);
        let lower = key(b"\x03www\x01x\0\0\x41\0\x01", plain);
        assert_eq!(upper.hash(), lower.hash());
        assert_eq!(upper.question(), lower.question());
        assert_eq!(upper.name(), b"\x03www\x01x\0");
        assert_eq!(upper.qtype(), Type::HTTPS);
        let other = key(b"\x03www\x01x\0\0\x61\0\x01", plain);
        assert_ne!(lower.question(), other.question());
        assert_ne!(lower.hash(), other.hash());
    }

    #[test]
    fn every_variant_is_its_own_key() {
        let mut hashes = std::collections::BTreeSet::new();
        for (dnssec_ok, checking_disabled) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let variant = Variant::new(dnssec_ok, checking_disabled);
            assert_eq!(variant.dnssec_ok(), dnssec_ok);
            assert_eq!(variant.checking_disabled(), checking_disabled);
            assert!(hashes.insert(key(b"\x01x\0\0\x01\0\x01", variant).hash()));
        }
    }

    #[test]
    fn a_reused_key_forgets_the_longer_question_before_it() {
        let mut reused = key(b"\x03www\x07example\0\0\x01\0\x01", Variant::default());
        reused.read(Seed(7), b"\x01x\0\0\x01\0\x01", Variant::default());
        let fresh = key(b"\x01x\0\0\x01\0\x01", Variant::default());
        assert_eq!(reused.hash(), fresh.hash());
        assert_eq!(reused.question(), fresh.question());
    }

    #[test]
    fn short_questions_have_no_type() {
        assert_eq!(qtype(b""), Type(0));
        assert_eq!(key(b"\0", Variant::default()).name(), b"");
    }
}
