//! A hash table from names to indices; the caller keeps the names.
//!
//! Maps the hash of a name (see [`dns_wire::hash`]) to an index into the caller's own array; the
//! caller compares names, since it has them. Nothing is taken out.

use std::num::NonZeroU32;

/// A place in the caller's array. An absent one takes no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Index(NonZeroU32);

impl Index {
    /// The first place.
    pub const FIRST: Self = Self(NonZeroU32::MIN);

    /// The index of a place; `None` beyond 2^32 - 2.
    pub fn new(place: usize) -> Option<Self> {
        let number = u32::try_from(place).ok()?.checked_add(1)?;
        NonZeroU32::new(number).map(Self)
    }

    /// The place.
    #[inline]
    pub const fn get(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// An open-addressed table from hashes of names to indices.
#[derive(Clone, Debug, Default)]
pub struct NameTable {
    slots: Box<[Slot]>,
    n_taken: usize,
    filter: Filter,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// The upper half of the hash; the lower half chose the slot.
    tag: u32,
    index: Option<Index>,
}

impl NameTable {
    /// A table of these entries; at most half its slots are taken, so searches end.
    pub fn new(entries: &[(u64, Index)]) -> Self {
        if entries.is_empty() {
            return Self::default();
        }
        let size = (entries.len() * 2).next_power_of_two();
        let mut slots = vec![Slot::default(); size].into_boxed_slice();
        for (hash, index) in entries {
            put(&mut slots, *hash, *index);
        }
        let filter = match entries.len() > SMALL {
            true => Filter::new(entries),
            false => Filter::default(),
        };
        Self {
            slots,
            n_taken: entries.len(),
            filter,
        }
    }

    /// Adds an entry; `false` when there is no room, and it changes nothing.
    #[must_use]
    pub fn insert(&mut self, hash: u64, index: Index) -> bool {
        let size = self.slots.len();
        if (self.n_taken + 1) * 2 > size {
            return false;
        }
        put(&mut self.slots, hash, index);
        self.n_taken += 1;
        self.filter.add(hash);
        true
    }

    /// The entry under this hash that `is` the right one.
    #[inline]
    pub fn find(&self, hash: u64, mut is: impl FnMut(Index) -> bool) -> Option<Index> {
        if !self.filter.may_have(hash) {
            return None;
        }
        let size = self.slots.len();
        let mut at = start(hash, size);
        loop {
            let slot = self.slots.get(at)?;
            let index = slot.index?;
            if slot.tag == tag(hash) && is(index) {
                return Some(index);
            }
            at = (at + 1) & (size - 1);
        }
    }

    /// The octets it takes.
    pub fn memory(&self) -> usize {
        size_of_val(&*self.slots) + size_of_val(&*self.filter.words)
    }
}

/// Puts an entry into the first free slot behind the one that its hash starts at.
fn put(slots: &mut [Slot], hash: u64, index: Index) {
    let size = slots.len();
    let mut at = start(hash, size);
    while let Some(slot) = slots.get_mut(at) {
        if slot.index.is_none() {
            *slot = Slot {
                tag: tag(hash),
                index: Some(index),
            };
            return;
        }
        at = (at + 1) & (size - 1);
    }
}

/// The most entries of a table that stays in the processor's cache and needs no filter.
const SMALL: usize = 1 << 14;

/// Entries to a word of the filter. With two bits each, one absent name in twenty costs a lookup in the
/// table, and half a million names take 512 KiB.
const PER_WORD: usize = 8;

/// Answers most lookups of absent hashes from a sixteenth of the table's memory, so that an attack with
/// random names stays in the processor's cache, however large the zone is.
///
/// A Bloom filter whose bits for one hash are in one word.
#[derive(Clone, Debug, Default)]
struct Filter {
    words: Box<[u64]>,
}

impl Filter {
    fn new(entries: &[(u64, Index)]) -> Self {
        let size = entries.len().div_ceil(PER_WORD).next_power_of_two();
        let mut filter = Self {
            words: vec![0; size].into_boxed_slice(),
        };
        for (hash, _) in entries {
            filter.add(*hash);
        }
        filter
    }

    fn add(&mut self, hash: u64) {
        let size = self.words.len();
        if let Some(word) = self.words.get_mut(start(hash, size)) {
            *word |= bits(hash);
        }
    }

    #[inline]
    fn may_have(&self, hash: u64) -> bool {
        self.words
            .get(start(hash, self.words.len()))
            .is_none_or(|word| word & bits(hash) == bits(hash))
    }
}

/// Two bits of a word, from parts of the hash that choose no slot in a table of any likely size.
#[inline]
const fn bits(hash: u64) -> u64 {
    1 << (hash >> 58) | 1 << (hash >> 52 & 63)
}

#[inline]
const fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// The slot that a hash starts at; `size` is a power of two, or zero.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low bits are wanted")]
const fn start(hash: u64, size: usize) -> usize {
    hash as usize & size.wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_hashes_are_told_apart_by_the_caller() {
        let entries: Vec<(u64, Index)> = (0..100_usize)
            .map(|place| (u64::from(place % 3 == 0), Index::new(place).unwrap()))
            .collect();
        let table = NameTable::new(&entries);
        for (hash, index) in &entries {
            assert_eq!(table.find(*hash, |found| found == *index), Some(*index));
            assert_eq!(table.find(*hash | 1 << 40, |_| true), None);
        }
        assert_eq!(table.find(0, |_| false), None);
    }

    #[test]
    fn a_large_table_finds_all_it_has_and_turns_away_most_of_the_rest_at_its_filter() {
        // The odd multiplier spreads numbers over all bits, each to another hash.
        let hash = |number: usize| (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let n = 4 * SMALL;
        let entries: Vec<(u64, Index)> = (0..n)
            .map(|place| (hash(place), Index::new(place).unwrap()))
            .collect();
        let table = NameTable::new(&entries);
        for (hash, index) in &entries {
            assert_eq!(table.find(*hash, |found| found == *index), Some(*index));
        }
        let absent = n..2 * n;
        let let_by = absent
            .filter(|number| table.filter.may_have(hash(*number)))
            .count();
        assert!(let_by < n / 10, "{let_by} of {n}");
    }

    #[test]
    fn an_entry_is_added_while_there_is_room() {
        let index = |place: usize| Index::new(place).unwrap();
        let entries: Vec<(u64, Index)> = (0..5).map(|place| (7, index(place))).collect();
        let mut table = NameTable::new(&entries);
        // Sixteen slots, of which half may be taken.
        for place in 5..8 {
            assert!(table.insert(7, index(place)));
        }
        assert!(!table.insert(7, index(8)));
        for place in 0..8 {
            assert_eq!(
                table.find(7, |found| found == index(place)),
                Some(index(place))
            );
        }
        assert_eq!(table.find(7, |_| false), None);
        assert!(!NameTable::default().insert(7, Index::FIRST));
        // The filter of a large table lets it by.
        let entries: Vec<(u64, Index)> = (0..5 * SMALL / 4)
            .map(|place| (place as u64, index(place)))
            .collect();
        let mut table = NameTable::new(&entries);
        let added = (0xdead_beef_1234_5678, index(entries.len()));
        assert!(table.insert(added.0, added.1));
        assert_eq!(table.find(added.0, |_| true), Some(added.1));
    }

    #[test]
    fn an_empty_table_finds_nothing() {
        assert_eq!(NameTable::default().find(7, |_| true), None);
    }

    #[test]
    fn indices_reach_from_the_first_place_to_the_last_that_fits() {
        assert_eq!(Index::new(0), Some(Index::FIRST));
        assert_eq!(Index::FIRST.get(), 0);
        assert_eq!(
            Index::new(u32::MAX as usize - 1).map(Index::get),
            Some(u32::MAX as usize - 1)
        );
        assert_eq!(Index::new(u32::MAX as usize), None);
    }
}
