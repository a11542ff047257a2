//! The heavy hitters of a stream, by the algorithm Space-Saving (Metwally, Agrawal and El Abbadi, 2005): an item without a
//! counter takes that with the lowest count, and keeps the count as its error.
//!
//! Every item whose share is more than one in [`CAPACITY`] has a counter. No count is too low, and none is too high by more than
//! its error.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::Row;

/// The counters of a sketch.
pub const CAPACITY: usize = 256;

#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    count: u64,
    error: u64,
}

/// The counters of one stream.
#[derive(Clone, Debug, Default)]
pub struct Sketch {
    places: HashMap<Box<[u8]>, usize>,
    /// The items of the counters, by place.
    items: Vec<Box<[u8]>>,
    counters: Vec<Counter>,
    /// No counter is below it, while all are in use.
    floor: u64,
    /// The place at which the search for one at the floor continues.
    next: usize,
}

impl Sketch {
    /// Counts an item as often as its weight says.
    pub fn add(&mut self, item: &[u8], weight: u64) {
        if let Some(counter) = self
            .places
            .get(item)
            .and_then(|it| self.counters.get_mut(*it))
        {
            counter.count += weight;
            return;
        }
        let counter = Counter {
            count: weight,
            error: 0,
        };
        if self.counters.len() < CAPACITY {
            self.places.insert(item.into(), self.counters.len());
            self.items.push(item.into());
            self.counters.push(counter);
            return;
        }
        let place = self.lowest();
        let (Some(counter), Some(old)) = (self.counters.get_mut(place), self.items.get_mut(place))
        else {
            return;
        };
        self.places.remove(old);
        *old = item.into();
        counter.error = counter.count;
        counter.count += weight;
        self.places.insert(item.into(), place);
    }

    /// The place of a counter with the lowest count. Counts only grow, so that a whole round finds none below the floor.
    fn lowest(&mut self) -> usize {
        for _ in 0..2 {
            let is_lowest = |counter: &Counter| counter.count <= self.floor;
            let rest = self.counters.get(self.next..).unwrap_or_default();
            let found = rest.iter().position(is_lowest).map(|at| self.next + at);
            let found = found.or_else(|| self.counters.iter().position(is_lowest));
            if let Some(place) = found {
                self.next = place;
                return place;
            }
            let counts = self.counters.iter().map(|counter| counter.count);
            self.floor = counts.min().unwrap_or_default();
        }
        0
    }

    /// The count that an item without a counter may have.
    fn unseen(&self) -> u64 {
        match self.counters.len() < CAPACITY {
            true => 0,
            false => {
                let counts = self.counters.iter().map(|counter| counter.count);
                counts.min().unwrap_or_default()
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.places.clear();
        self.items.clear();
        self.counters.clear();
        self.floor = 0;
        self.next = 0;
    }
}

/// The sum of sketches. An item without a counter in one of them counts there as often as the lowest one, at most.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    rows: HashMap<Box<[u8]>, (Counter, u64)>,
    unseen: u64,
}

impl Merged {
    pub(crate) fn add(&mut self, sketch: &Sketch) {
        let unseen = sketch.unseen();
        for (item, counter) in sketch.items.iter().zip(&sketch.counters) {
            match self.rows.entry(item.clone()) {
                Entry::Occupied(entry) => {
                    let (sum, seen) = entry.into_mut();
                    sum.count += counter.count;
                    sum.error += counter.error;
                    *seen += unseen;
                }
                Entry::Vacant(entry) => {
                    entry.insert((*counter, unseen));
                }
            }
        }
        self.unseen += unseen;
    }

    pub(crate) fn heaviest(self, n: usize) -> Vec<Row> {
        let rows = self.rows.into_iter().map(|(item, (counter, seen))| {
            let elsewhere = self.unseen.saturating_sub(seen);
            Row {
                item: item.into(),
                count: counter.count + elsewhere,
                error: counter.error + elsewhere,
            }
        });
        let mut rows: Vec<Row> = rows.collect();
        rows.sort_by(|one, other| {
            let by_count = other.count.cmp(&one.count);
            by_count.then_with(|| one.item.cmp(&other.item))
        });
        rows.truncate(n);
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(sketches: &[Sketch]) -> Vec<Row> {
        let mut merged = Merged::default();
        for sketch in sketches {
            merged.add(sketch);
        }
        merged.heaviest(usize::MAX)
    }

    #[test]
    fn few_items_are_counted_exactly() {
        let mut sketch = Sketch::default();
        for n in 0..100_u8 {
            for _ in 0..=n {
                sketch.add(&[n], 1);
            }
        }
        for (row, n) in merged(&[sketch]).iter().zip((0..100_u8).rev()) {
            assert_eq!(row.item, [n]);
            assert_eq!((row.count, row.error), (u64::from(n) + 1, 0));
        }
    }

    /// A stream of heavy items among items that come once, in an order that the seed decides.
    fn stream(seed: u64, n: u64, mut item: impl FnMut(&[u8])) -> [u64; 8] {
        let mut state = seed * 2 + 1;
        let mut heavy = [0; 8];
        for once in 0..n {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            match usize::try_from(state % 16)
                .ok()
                .and_then(|at| heavy.get_mut(at))
            {
                Some(count) => {
                    *count += 1;
                    item(&[u8::try_from(state % 16).unwrap()]);
                }
                None => item(&once.to_be_bytes()),
            }
        }
        heavy
    }

    #[test]
    fn heavy_items_are_found_in_a_flood_and_no_count_is_too_low_or_too_high() {
        for seed in 0..20 {
            let mut sketches = [Sketch::default(), Sketch::default(), Sketch::default()];
            let mut turn = 0;
            let heavy = stream(seed, 30_000, |item| {
                turn += 1;
                let at = turn % sketches.len();
                sketches[at].add(item, 1);
                assert!(sketches[at].counters.len() <= CAPACITY);
                assert_eq!(sketches[at].places.len(), sketches[at].items.len());
            });
            let rows = merged(&sketches);
            let first: Vec<&[u8]> = rows.iter().take(8).map(|row| &*row.item).collect();
            for (n, count) in (0_u8..).zip(heavy) {
                assert!(first.contains(&&[n][..]), "seed {seed}: {first:?}");
                let row = rows.iter().find(|row| row.item == [n]).unwrap();
                assert!(row.count >= count, "seed {seed}: {row:?} {count}");
                assert!(
                    row.count - row.error <= count,
                    "seed {seed}: {row:?} {count}"
                );
            }
        }
    }

    #[test]
    fn the_sum_of_counts_is_that_of_weights() {
        let mut sketch = Sketch::default();
        let mut sum = 0;
        for n in 0..5000_u64 {
            let weight = n % 17;
            sketch.add(&(n % 700).to_be_bytes(), weight);
            sum += weight;
        }
        let counts = sketch.counters.iter().map(|counter| counter.count);
        assert_eq!(counts.sum::<u64>(), sum);
        sketch.clear();
        assert_eq!(merged(&[sketch]), []);
    }
}
