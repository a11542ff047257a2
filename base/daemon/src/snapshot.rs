//! A value that is published whole and read without waiting.
//!
//! A writer builds a new value and swaps it in; a reader holds one value for as long as it needs
//! it. Each published value has a generation, so a reader on a hot path finds out with one atomic
//! load that nothing has changed.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Holds the value that is current.
pub struct Cell<T> {
    generation: AtomicU64,
    value: Mutex<Arc<T>>,
}

impl<T> Cell<T> {
    /// A cell whose first value has generation 1.
    pub fn new(value: T) -> Arc<Self> {
        Arc::new(Self {
            generation: AtomicU64::new(1),
            value: Mutex::new(Arc::new(value)),
        })
    }

    /// The value that is current, to hold for a whole request.
    pub fn current(&self) -> Arc<T> {
        Arc::clone(&self.lock())
    }

    /// Makes `value` the current one and returns its generation.
    pub fn publish(&self, value: T) -> u64 {
        self.publish_shared(Arc::new(value))
    }

    /// Makes an already shared value the current one and returns its generation.
    pub fn publish_shared(&self, value: Arc<T>) -> u64 {
        let mut held = self.lock();
        let old = std::mem::replace(&mut *held, value);
        let generation = self.generation.fetch_add(1, Ordering::Release) + 1;
        drop(held);
        // The old value may be large: it is freed outside the lock.
        drop(old);
        generation
    }

    /// How many values were published, the first included.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Arc<T>> {
        // The value is replaced in one step, so a panic elsewhere cannot have left it half made.
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current_with_generation(&self) -> (Arc<T>, u64) {
        let held = self.lock();
        (Arc::clone(&held), self.generation())
    }
}

impl<T> fmt::Debug for Cell<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Cell")
            .field("generation", &self.generation())
            .finish_non_exhaustive()
    }
}

/// One thread's view of a [`Cell`]: keeps the value it has seen until asked to look again.
pub struct Reader<T> {
    cell: Arc<Cell<T>>,
    value: Arc<T>,
    generation: u64,
}

impl<T> Reader<T> {
    /// A reader that has seen the value that is current.
    #[must_use]
    pub fn new(cell: Arc<Cell<T>>) -> Self {
        let (value, generation) = cell.current_with_generation();
        Self {
            cell,
            value,
            generation,
        }
    }

    /// Takes up the newest value; true when it is another than before.
    ///
    /// One atomic load while nothing was published.
    pub fn refresh(&mut self) -> bool {
        if self.cell.generation() == self.generation {
            return false;
        }
        (self.value, self.generation) = self.cell.current_with_generation();
        true
    }

    /// The value as of the last refresh.
    #[must_use]
    pub fn get(&self) -> &T {
        &self.value
    }

    /// The value as of the last refresh, to share.
    #[must_use]
    pub fn shared(&self) -> Arc<T> {
        Arc::clone(&self.value)
    }

    /// The generation of that value.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl<T> Clone for Reader<T> {
    fn clone(&self) -> Self {
        Self {
            cell: Arc::clone(&self.cell),
            value: Arc::clone(&self.value),
            generation: self.generation,
        }
    }
}

impl<T> fmt::Debug for Reader<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Reader")
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_reader_sees_a_new_value_only_when_it_looks() {
        let cell = Cell::new("first");
        let mut reader = Reader::new(Arc::clone(&cell));
        assert!(!reader.refresh());
        assert_eq!(cell.publish("second"), 2);
        assert_eq!(*reader.get(), "first");
        assert!(reader.refresh());
        assert_eq!((*reader.get(), reader.generation()), ("second", 2));
        assert!(!reader.refresh());
    }

    #[test]
    fn an_old_value_lives_as_long_as_it_is_held() {
        let cell = Cell::new(vec![1]);
        let held = cell.current();
        cell.publish(vec![2]);
        assert_eq!(*held, [1]);
        assert_eq!(*cell.current(), [2]);
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn a_value_never_comes_with_a_generation_older_than_its_own() {
        let cell = Cell::new(1_u64);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut reader = Reader::new(Arc::clone(&cell));
                    while *reader.get() < 2_000 {
                        reader.refresh();
                        assert_eq!(*reader.get(), reader.generation());
                    }
                });
            }
            for value in 2..=2_000 {
                assert_eq!(cell.publish(value), value);
            }
        });
    }
}
