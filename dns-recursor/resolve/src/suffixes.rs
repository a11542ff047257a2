//! Values by zone: the deepest zone that a name lies in decides.

use std::collections::BTreeMap;

use dns_wire::{Name, name};

/// Values by apex.
#[derive(Debug, Clone)]
pub struct Suffixes<T> {
    /// By apex in wire form and lower case.
    by_apex: BTreeMap<Box<[u8]>, T>,
    /// The number of labels of the deepest apex, which bounds the search.
    deepest: usize,
}

impl<T> Default for Suffixes<T> {
    fn default() -> Self {
        Self {
            by_apex: BTreeMap::new(),
            deepest: 0,
        }
    }
}

impl<T> Suffixes<T> {
    /// Sets the value of a zone.
    pub fn insert(&mut self, zone: &Name, value: T) {
        self.deepest = self.deepest.max(zone.n_labels());
        let apex = zone.as_wire().to_ascii_lowercase();
        self.by_apex.insert(apex.into(), value);
    }

    /// The value of a zone with this apex, in wire form and lower case.
    pub fn get_mut(&mut self, apex: &[u8]) -> Option<&mut T> {
        self.by_apex.get_mut(apex)
    }

    /// The value of the deepest zone with a name, in wire form and lower case.
    #[must_use]
    pub fn longest(&self, name: &[u8]) -> Option<&T> {
        let mut rest = name;
        for _ in self.deepest..name::labels(name).count() {
            rest = parent(rest)?;
        }
        loop {
            if let Some(value) = self.by_apex.get(rest) {
                return Some(value);
            }
            rest = parent(rest)?;
        }
    }

    /// The values, in the order of their apexes' wire form.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.by_apex.values()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_apex.is_empty()
    }
}

impl<T> FromIterator<(Name, T)> for Suffixes<T> {
    /// When two are for one zone the later counts.
    fn from_iter<I: IntoIterator<Item = (Name, T)>>(zones: I) -> Self {
        let mut suffixes = Self::default();
        for (zone, value) in zones {
            suffixes.insert(&zone, value);
        }
        suffixes
    }
}

/// A name without its first label, in wire form; `None` for the root.
#[must_use]
pub fn parent(name: &[u8]) -> Option<&[u8]> {
    match name.first().copied()? {
        0 => None,
        length => name.get(usize::from(length) + 1..),
    }
}
