//! A list whose changed copies share what has not changed.
//!
//! The items are in chunks. A copy with other items has new chunks for them only, so that a change of one zone
//! among ten thousand copies two hundred pointers.

use std::sync::Arc;

/// The items of a chunk.
const CHUNK: usize = 64;

/// An immutable list of shared items.
#[derive(Debug)]
pub struct SharedList<T> {
    chunks: Arc<[Arc<[Arc<T>]>]>,
    length: usize,
}

impl<T> Clone for SharedList<T> {
    fn clone(&self) -> Self {
        Self {
            chunks: Arc::clone(&self.chunks),
            length: self.length,
        }
    }
}

impl<T> Default for SharedList<T> {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl<T> SharedList<T> {
    /// A list of these items.
    #[must_use]
    pub fn new(items: &[Arc<T>]) -> Self {
        Self {
            length: items.len(),
            chunks: items.chunks(CHUNK).map(Arc::from).collect(),
        }
    }

    /// The item at a place.
    #[inline]
    #[must_use]
    pub fn get(&self, place: usize) -> Option<&Arc<T>> {
        self.chunks.get(place / CHUNK)?.get(place % CHUNK)
    }

    /// The number of items.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// All items.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// This list with other items at some places; those beyond the end are left out.
    #[must_use]
    pub fn replace(&self, items: impl IntoIterator<Item = (usize, Arc<T>)>) -> Self {
        let mut chunks = self.chunks.to_vec();
        for (place, item) in items.into_iter().filter(|(place, _)| *place < self.length) {
            let Some(chunk) = chunks.get_mut(place / CHUNK) else {
                continue;
            };
            if let Some(slot) = Arc::make_mut(chunk).get_mut(place % CHUNK) {
                *slot = item;
            }
        }
        Self {
            chunks: chunks.into(),
            length: self.length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(list: &SharedList<usize>) -> Vec<usize> {
        list.iter().map(|item| **item).collect()
    }

    #[test]
    fn a_copy_differs_where_it_was_changed_and_shares_the_rest() {
        for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
            let items: Vec<Arc<usize>> = (0..length).map(Arc::new).collect();
            let list = SharedList::new(&items);
            assert_eq!((list.len(), list.is_empty()), (length, length == 0));
            assert_eq!(numbers(&list), (0..length).collect::<Vec<_>>());
            assert!(list.get(length).is_none());
            for place in 0..length {
                let copy = list.replace([(place, Arc::new(9_999)), (length, Arc::new(1))]);
                let mut expected: Vec<usize> = (0..length).collect();
                expected[place] = 9_999;
                assert_eq!(numbers(&copy), expected);
                assert_eq!(copy.get(place).map(|item| **item), Some(9_999));
                let n_shared = copy.chunks.iter().zip(list.chunks.iter());
                let n_shared = n_shared.filter(|(a, b)| Arc::ptr_eq(a, b)).count();
                assert_eq!(n_shared, list.chunks.len() - 1);
            }
            assert_eq!(numbers(&list), (0..length).collect::<Vec<_>>());
        }
    }
}
