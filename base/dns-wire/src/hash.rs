//! Hashes of a name and of all its ancestors, in one pass from the right.
//!
//! A name's hash combines its leftmost label and its parent's hash, so a table with such keys answers "does
//! this ancestor exist" for each ancestor of a query name at the cost of hashing the name once. Letter case
//! does not count.
//!
//! The hash is seeded: without the seed, a client cannot send names that collide.

use crate::name::MAX_NAME;

/// The most labels a name can have, the root's not counted.
pub const MAX_LABELS: usize = 127;

/// The seed of one table of names.
#[derive(Clone, Copy, Debug)]
pub struct Seed(pub u64);

/// A query name in lower case with the places and hashes of its suffixes.
///
/// Index 0 is the root, index `n` the suffix of `n` labels. Made to be reused: reading a name
/// allocates nothing.
#[derive(Clone)]
pub struct Suffixes {
    lower: [u8; MAX_NAME],
    length: usize,
    /// The offset of the suffix of `n` labels.
    starts: [u8; MAX_LABELS + 1],
    hashes: [u64; MAX_LABELS + 1],
    n_labels: usize,
}

impl Default for Suffixes {
    fn default() -> Self {
        Self {
            lower: [0; MAX_NAME],
            length: 1,
            starts: [0; MAX_LABELS + 1],
            hashes: [0; MAX_LABELS + 1],
            n_labels: 0,
        }
    }
}

impl std::fmt::Debug for Suffixes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Suffixes")
            .field("n_labels", &self.n_labels)
            .finish_non_exhaustive()
    }
}

impl Suffixes {
    /// Reads a name in uncompressed wire form, one that [`crate::name::wire_length`] accepts.
    pub fn read(&mut self, seed: Seed, wire: &[u8]) {
        let length = wire.len().min(MAX_NAME);
        // Lower-casing length octets is harmless: they are below 64, letters above.
        for (to, from) in self.lower.iter_mut().zip(wire) {
            *to = from.to_ascii_lowercase();
        }
        self.length = length;
        let wire = wire.get(..length).unwrap_or_default();
        let mut places = [0_u8; MAX_LABELS + 1];
        let mut n_labels = 0;
        let mut at = 0_usize;
        while let Some(label) = wire.get(at).copied().filter(|label| *label != 0) {
            let Some(place) = places.get_mut(n_labels) else {
                break;
            };
            *place = u8::try_from(at).unwrap_or(u8::MAX);
            n_labels += 1;
            at += usize::from(label) + 1;
        }
        self.n_labels = n_labels.min(MAX_LABELS);
        let mut hash = seed.0;
        let mut end = length.saturating_sub(1);
        self.set(0, end, hash);
        for index in 1..=self.n_labels {
            let start = usize::from(places.get(self.n_labels - index).copied().unwrap_or(0));
            // The original octets: those just written in lower case cannot be read yet.
            hash = mix(hash, wire.get(start..end).unwrap_or_default());
            self.set(index, start, hash);
            end = start;
        }
    }

    #[inline]
    fn set(&mut self, index: usize, start: usize, hash: u64) {
        if let (Some(place), Some(slot)) = (self.starts.get_mut(index), self.hashes.get_mut(index))
        {
            *place = u8::try_from(start).unwrap_or(u8::MAX);
            *slot = hash;
        }
    }

    /// The number of labels of the name.
    #[inline]
    #[must_use]
    pub const fn n_labels(&self) -> usize {
        self.n_labels
    }

    /// The suffix of `n` labels, in lower case; the root's when there are fewer labels.
    #[inline]
    #[must_use]
    pub fn suffix(&self, n: usize) -> &[u8] {
        let start = usize::from(self.starts.get(n).copied().unwrap_or(0));
        self.lower.get(start..self.length).unwrap_or(&[0])
    }

    /// The hash of the suffix of `n` labels.
    #[inline]
    #[must_use]
    pub fn hash(&self, n: usize) -> u64 {
        self.hashes.get(n).copied().unwrap_or(0)
    }

    /// The whole name in lower case.
    #[inline]
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.lower.get(..self.length).unwrap_or(&[0])
    }

    /// The hash of a child `label` of the suffix with this hash; `label` in lower case.
    #[must_use]
    pub fn child_hash(parent: u64, label: &[u8]) -> u64 {
        let mut bytes = [0_u8; 64];
        if let (Ok(length), Some(to)) = (u8::try_from(label.len()), bytes.get_mut(1..=label.len()))
        {
            to.copy_from_slice(label);
            if let Some(first) = bytes.first_mut() {
                *first = length;
            }
        }
        mix(parent, bytes.get(..=label.len()).unwrap_or_default())
    }
}

/// Folds a label, its length octet included, into a hash: eight octets a step, each multiplied
/// into 128 bits and folded, as wyhash does.
#[inline]
fn mix(hash: u64, label: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = hash ^ ODD;
    let mut rest = label;
    while let Some((octets, more)) = rest.split_first_chunk::<8>()
        && !more.is_empty()
    {
        hash = fold(hash ^ lower(u64::from_le_bytes(*octets)));
        rest = more;
    }
    fold(hash ^ lower(last(rest)))
}

/// Up to eight octets as a number, different for each content of one length.
#[inline]
fn last(octets: &[u8]) -> u64 {
    if let (Some(head), Some(tail)) = (octets.first_chunk::<4>(), octets.last_chunk::<4>()) {
        // Between four and eight octets the two overlap, and still hold them all.
        return u64::from(u32::from_le_bytes(*head)) | u64::from(u32::from_le_bytes(*tail)) << 32;
    }
    match *octets {
        [a] => u64::from(a),
        [a, b] => u64::from(a) | u64::from(b) << 8,
        [a, b, c] => u64::from(a) | u64::from(b) << 8 | u64::from(c) << 16,
        _ => 0,
    }
}

/// Eight octets with the letters among them in lower case.
#[inline]
const fn lower(octets: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    let seven = octets & !HIGH;
    let from_a = seven + (0x80 - b'A' as u64) * EACH;
    let beyond_z = seven + (0x7f - b'Z' as u64) * EACH;
    // The high bit of each octet that is a capital letter, moved to the bit that makes it small.
    octets | ((from_a ^ beyond_z) & !octets & HIGH) >> 2
}

/// Multiplies into 128 bits and folds the halves.
fn fold(value: u64) -> u64 {
    const PRIME: u128 = 0xa076_1d64_78bd_642f;
    let wide = u128::from(value) * PRIME;
    #[expect(clippy::cast_possible_truncation, reason = "the two halves are wanted")]
    let folded = wide as u64 ^ (wide >> 64) as u64;
    folded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;

    fn read(text: &str) -> Suffixes {
        let mut suffixes = Suffixes::default();
        suffixes.read(Seed(7), text.parse::<Name>().unwrap().as_wire());
        suffixes
    }

    #[test]
    fn suffixes_are_the_ancestors() {
        let suffixes = read("C.Apps.Example.");
        assert_eq!(suffixes.n_labels(), 3);
        assert_eq!(suffixes.suffix(0), b"\0");
        assert_eq!(suffixes.suffix(1), b"\x07example\0");
        assert_eq!(suffixes.suffix(2), b"\x04apps\x07example\0");
        assert_eq!(suffixes.name(), suffixes.suffix(3));
        assert_eq!(read(".").n_labels(), 0);
        assert_eq!(read(".").suffix(0), b"\0");
    }

    #[test]
    fn an_ancestor_hashes_alike_in_every_name() {
        let (deep, other) = (read("a.apps.EXAMPLE."), read("b.b.Apps.example."));
        for n in 0..=2 {
            assert_eq!(deep.hash(n), other.hash(n));
        }
        assert_ne!(deep.hash(3), other.hash(3));
        assert_eq!(Suffixes::child_hash(deep.hash(2), b"a"), deep.hash(3));
    }

    #[test]
    fn the_longest_names_fit() {
        let longest = format!("{}a.", "a.".repeat(126));
        assert_eq!(read(&longest).n_labels(), MAX_LABELS);
        let long_label = format!("{0}.{0}.{0}.", "y".repeat(63));
        assert_eq!(read(&long_label).n_labels(), 3);
        let parent = read(&long_label).hash(2);
        assert_eq!(
            Suffixes::child_hash(parent, &[b'y'; 63]),
            read(&long_label).hash(3)
        );
    }

    #[test]
    fn eight_octets_at_a_time_are_lowered_as_one_at_a_time() {
        for octet in 0..=255_u8 {
            for place in 0..8 {
                let mut octets = [b'@', b'A', b'Z', b'[', 0xc1, b'z', 63, 0];
                octets[place] = octet;
                let wanted = u64::from_le_bytes(octets.map(|octet| octet.to_ascii_lowercase()));
                assert_eq!(lower(u64::from_le_bytes(octets)), wanted, "{octets:?}");
            }
        }
    }

    #[test]
    fn labels_of_every_length_differ_in_every_octet() {
        for length in 1..=63 {
            let plain = vec![b'x'; length];
            for place in 0..length {
                let mut other = plain.clone();
                other[place] = b'y';
                let hash = |label: &[u8]| Suffixes::child_hash(7, label);
                assert_ne!(hash(&plain), hash(&other), "{length} {place}");
            }
        }
    }

    #[test]
    fn hashes_of_near_names_differ() {
        let mut seen = std::collections::HashSet::new();
        for i in 0..50_000 {
            let text = format!("host-{i}.example.");
            let suffixes = read(&text);
            assert!(seen.insert(suffixes.hash(suffixes.n_labels())), "{text}");
        }
    }
}
