//! Manifests in memory, within a bound.
//!
//! Two generations: a lookup moves its entry to the young one; when that is full it becomes the old
//! one, and entries without a lookup since then are dropped.

use std::collections::HashMap;
use std::hash::Hash;

/// Values that fit a bound.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    young: HashMap<K, (V, usize)>,
    old: HashMap<K, (V, usize)>,
    /// The weight of the young ones together.
    weight: usize,
    /// The most weight of one generation.
    most: usize,
}

impl<K: Eq + Hash + Clone, V: Clone> Cache<K, V> {
    /// Room for values that together weigh `most`.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            weight: 0,
            most: most / 2,
        }
    }

    /// A value that is there.
    pub(crate) fn find(&mut self, key: &K) -> Option<V> {
        if let Some((value, _)) = self.young.get(key) {
            return Some(value.clone());
        }
        let (value, weight) = self.old.remove(key)?;
        self.insert(key.clone(), value.clone(), weight);
        Some(value)
    }

    /// Adds a value; one too heavy to stand beside others is not kept.
    pub(crate) fn insert(&mut self, key: K, value: V, weight: usize) {
        if weight > self.most / 4 {
            return;
        }
        if self.weight + weight > self.most {
            self.old = std::mem::take(&mut self.young);
            self.weight = 0;
        }
        self.weight += weight;
        if let Some((_, old)) = self.young.insert(key, (value, weight)) {
            self.weight -= old;
        }
    }

    /// Takes a value away.
    pub(crate) fn remove(&mut self, key: &K) {
        if let Some((_, weight)) = self.young.remove(key) {
            self.weight -= weight;
        }
        self.old.remove(key);
    }

    /// Takes all away.
    pub(crate) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
        self.weight = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_up_stays_and_the_bound_holds() {
        let mut cache = Cache::new(200);
        for key in 0..1000 {
            cache.insert(key, key, 10);
            assert_eq!(cache.find(&0), Some(0));
            let weight = 10 * (cache.young.len() + cache.old.len());
            assert!(weight <= 200 + 10, "{weight} after {key}");
        }
        assert_eq!(cache.find(&1), None);
        cache.insert(7, 7, 26);
        assert_eq!(cache.find(&7), None, "too heavy");
        cache.remove(&0);
        assert_eq!(cache.find(&0), None);
        cache.clear();
        assert_eq!(cache.find(&999), None);
    }
}
