//! The newest whole value: published by a writer, read without waiting, waited for by threads and tasks.
//!
//! A writer builds a new value and swaps it in; a reader holds one value for as long as it needs
//! it. Each published value has a generation, so a reader on a hot path finds out with one atomic
//! load that nothing has changed. A reader that was away sees the newest value and none between.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use crate::clock;

/// Holds the value that is current.
pub struct Latest<T> {
    generation: AtomicU64,
    value: Mutex<Arc<T>>,
    /// Wakes threads, with the lock of the value.
    published: Condvar,
    /// Wakes tasks.
    news: Notify,
    /// Wakes threads that also wait for something else.
    wakes: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
}

impl<T> Latest<T> {
    /// The first value, which has generation 1.
    pub fn new(value: T) -> Arc<Self> {
        Arc::new(Self {
            generation: AtomicU64::new(1),
            value: Mutex::new(Arc::new(value)),
            published: Condvar::new(),
            news: Notify::new(),
            wakes: Mutex::default(),
        })
    }

    /// The value that is current, to hold for a whole request.
    pub fn current(&self) -> Arc<T> {
        Arc::clone(&self.value.lock())
    }

    /// Makes `value` the current one and returns its generation.
    pub fn publish(&self, value: T) -> u64 {
        self.publish_shared(Arc::new(value))
    }

    /// Makes an already shared value the current one and returns its generation.
    pub fn publish_shared(&self, value: Arc<T>) -> u64 {
        let mut held = self.value.lock();
        let old = std::mem::replace(&mut *held, value);
        let generation = self.generation.fetch_add(1, Ordering::Release) + 1;
        drop(held);
        self.published.notify_all();
        self.news.notify_waiters();
        for wake in self.wakes.lock().iter() {
            wake();
        }
        // The old value may be large: it is freed outside the lock.
        drop(old);
        generation
    }

    /// Publishes `value` unless it equals the one that is current; true when it was published.
    pub fn publish_if_changed(&self, value: T) -> bool
    where
        T: PartialEq,
    {
        let is_new = *self.current() != value;
        if is_new {
            self.publish(value);
        }
        is_new
    }

    /// Calls `wake` after each publication. A thread that sleeps would otherwise keep an old value until its
    /// next event.
    pub fn on_publish(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.wakes.lock().push(Box::new(wake));
    }

    /// How many values were published, the first included.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// A reader that has seen the value that is current.
    pub fn reader(self: &Arc<Self>) -> Reader<T> {
        Reader::new(Arc::clone(self))
    }

    fn current_with_generation(&self) -> (Arc<T>, u64) {
        let held = self.value.lock();
        (Arc::clone(&held), self.generation())
    }
}

impl<T> fmt::Debug for Latest<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Latest")
            .field("generation", &self.generation())
            .finish_non_exhaustive()
    }
}

/// One thread's or task's view of a [`Latest`]: keeps the value it has seen until asked to look again.
pub struct Reader<T> {
    latest: Arc<Latest<T>>,
    value: Arc<T>,
    generation: u64,
}

impl<T> Reader<T> {
    /// A reader that has seen the value that is current.
    #[must_use]
    pub fn new(latest: Arc<Latest<T>>) -> Self {
        let (value, generation) = latest.current_with_generation();
        Self {
            latest,
            value,
            generation,
        }
    }

    /// Takes up the newest value; true when it is another than before.
    ///
    /// One atomic load while nothing was published.
    pub fn refresh(&mut self) -> bool {
        if self.latest.generation() == self.generation {
            return false;
        }
        (self.value, self.generation) = self.latest.current_with_generation();
        true
    }

    /// Waits in a task until there is another value than the one seen, and takes it up. Cancel safe.
    pub async fn changed(&mut self) {
        let latest = Arc::clone(&self.latest);
        loop {
            // Made before the look: it hears of what is published from here on.
            let news = latest.news.notified();
            if self.refresh() {
                return;
            }
            news.await;
        }
    }

    /// Waits in a task until the value is as wanted, and takes it up. Cancel safe.
    pub async fn wait_for(&mut self, is_wanted: impl Fn(&T) -> bool) -> Arc<T> {
        self.refresh();
        while !is_wanted(&self.value) {
            self.changed().await;
        }
        self.shared()
    }

    /// Waits in a thread, for at most `limit`, until there is another value than the one seen, and takes it
    /// up; true when there was one.
    pub fn wait(&mut self, limit: Duration) -> bool {
        let deadline = clock::now().checked_add(limit);
        let mut held = self.latest.value.lock();
        while self.latest.generation() == self.generation {
            let Some(deadline) = deadline else {
                self.latest.published.wait(&mut held);
                continue;
            };
            let waited = self.latest.published.wait_until(&mut held, deadline);
            if waited.timed_out() {
                break;
            }
        }
        drop(held);
        self.refresh()
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
            latest: Arc::clone(&self.latest),
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
        let cell = Latest::new("first");
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
        let cell = Latest::new(vec![1]);
        let held = cell.current();
        cell.publish(vec![2]);
        assert_eq!(*held, [1]);
        assert_eq!(*cell.current(), [2]);
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn a_value_never_comes_with_a_generation_older_than_its_own() {
        let cell = Latest::new(1_u64);
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

    #[test]
    fn a_thread_waits_for_what_is_published() {
        let latest = Latest::new(1);
        let mut reader = latest.reader();
        assert!(!reader.wait(Duration::from_millis(1)));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let mut reader = latest.reader();
                while *reader.get() < 3 {
                    assert!(reader.wait(Duration::from_secs(20)));
                }
            });
            latest.publish(2);
            latest.publish(3);
            waiting.join().unwrap();
        });
        assert!(reader.wait(Duration::ZERO), "it is there already");
        assert_eq!((*reader.get(), reader.generation()), (3, 3));
    }

    #[tokio::test]
    async fn a_task_waits_for_what_is_published() {
        let latest = Latest::new(1);
        let mut reader = latest.reader();
        let waiting = tokio::spawn(async move {
            reader.changed().await;
            *reader.get()
        });
        tokio::task::yield_now().await;
        assert!(!latest.publish_if_changed(1));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        assert!(latest.publish_if_changed(2));
        assert_eq!(waiting.await.unwrap(), 2);
        let mut late = Reader::new(Arc::clone(&latest));
        latest.publish(7);
        late.changed().await;
        assert_eq!(*late.get(), 7);
        let mut wanting = latest.reader();
        let eight = tokio::spawn(async move { *wanting.wait_for(|value| *value > 7).await });
        latest.publish(8);
        assert_eq!(eight.await.unwrap(), 8);
    }
}
