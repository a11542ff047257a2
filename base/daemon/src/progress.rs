//! Whether the data paths make progress: the watchdog is fed only while they do.
//!
//! Every thread of a data path increments its [`Heartbeat`] on each turn. A thread with nothing to do
//! sleeps: each check of its heartbeat wakes it, and it must have incremented it by the next check.
//! A heartbeat that has stalled makes the daemon unready, `/livez` fail, and the service manager
//! restart it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::MissedTickBehavior;

use crate::notify;
use crate::readiness::Readiness;

/// The interval of the checks when no service manager sets one.
const DEFAULT_PERIOD: Duration = Duration::from_secs(5);

/// The least time a woken thread has to increment its heartbeat: a busy machine may delay it.
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);

/// Counted up by a thread of a data path, for [`Progress`] to see.
pub type Heartbeat = Arc<Beats>;

/// The count, and a function that wakes the thread.
#[derive(Default)]
pub struct Beats {
    count: AtomicU64,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Beats {
    /// Increments the count. Only one thread or task calls this.
    pub fn beat(&self) {
        let count = self.count.load(Ordering::Relaxed).wrapping_add(1);
        self.count.store(count, Ordering::Relaxed);
    }

    /// The number of calls of [`Self::beat`].
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Sets the function that wakes the thread; only the first call has an effect. `wake` must not hold a
    /// [`Heartbeat`]: the number of owners shows whether the thread still runs.
    pub fn wake_by(&self, wake: impl Fn() + Send + Sync + 'static) {
        // A second caller would wake the same thread.
        let _is_first = self.wake.set(Box::new(wake));
    }

    /// Wakes the thread, so that it increments the count.
    pub fn wake(&self) {
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }
}

impl fmt::Debug for Beats {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Beats")
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

/// The heartbeats of one daemon; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    hearts: Arc<Mutex<BTreeMap<String, Heart>>>,
}

#[derive(Debug)]
struct Heart {
    beat: Heartbeat,
    last: Option<u64>,
    stalled: bool,
}

impl Progress {
    /// No data path yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Watches a heartbeat under a name: "dns-udp-0".
    pub fn register(&self, name: impl Into<String>, beat: Heartbeat) {
        let heart = Heart {
            beat,
            last: None,
            stalled: false,
        };
        self.lock().insert(name.into(), heart);
    }

    /// Watches several heartbeats, as an engine has them.
    pub fn register_all(&self, beats: impl IntoIterator<Item = (String, Heartbeat)>) {
        for (name, beat) in beats {
            self.register(name, beat);
        }
    }

    /// Forgets a heartbeat whose thread is meant to end.
    pub fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    /// Names of those that stood still between the last two looks.
    #[must_use]
    pub fn stalled(&self) -> Vec<String> {
        self.lock()
            .iter()
            .filter(|(_, heart)| heart.stalled)
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Looks at every heartbeat; true when each has moved since the last look. Wakes every thread, so
    /// that it increments its heartbeat before the next look.
    pub fn look(&self) -> bool {
        let mut all = true;
        for heart in self.lock().values_mut() {
            let count = heart.beat.count();
            // No thread holds it any more: it has ended, as it does on a drain.
            let ended = Arc::strong_count(&heart.beat) == 1;
            heart.stalled = !ended && heart.last == Some(count);
            heart.last = Some(count);
            all &= !heart.stalled;
            heart.beat.wake();
        }
        all
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Heart>> {
        self.hearts.lock()
    }
}

/// Feeds the watchdog for as long as there is progress.
pub(crate) async fn watch(progress: Progress, readiness: Readiness) {
    let limit = notify::watchdog_interval();
    // Twice within the manager's limit, so that one late look does not kill the daemon.
    let period = limit.map_or(DEFAULT_PERIOD, |limit| limit / 2);
    let mut look_due = Duration::ZERO;
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut moving = true;
    loop {
        ticks.tick().await;
        look_due += period;
        if look_due >= SHORTEST_PERIOD {
            look_due = Duration::ZERO;
            moving = progress.look();
            report(&progress.stalled(), &readiness);
        }
        if moving && limit.is_some() {
            notify::watchdog();
        }
    }
}

fn report(stalled: &[String], readiness: &Readiness) {
    let reason = (!stalled.is_empty()).then(|| format!("no progress in {}", stalled.join(", ")));
    if let Some(reason) = &reason {
        tracing::error!(reason, "Data path stalled");
    }
    readiness.set_unready("progress", reason);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_that_stands_still_is_named() {
        let progress = Progress::new();
        assert!(progress.look());
        let (first, second) = (Heartbeat::default(), Heartbeat::default());
        progress.register_all([
            ("a".to_owned(), Arc::clone(&first)),
            ("b".to_owned(), Arc::clone(&second)),
        ]);
        assert!(
            progress.look(),
            "the first look has nothing to compare with"
        );
        first.beat();
        assert!(!progress.look());
        assert_eq!(progress.stalled(), ["b"]);
        first.beat();
        second.beat();
        assert!(progress.look());
        assert!(progress.stalled().is_empty());
    }

    #[test]
    fn a_look_wakes_the_thread_that_counts() {
        let progress = Progress::new();
        let beat = Heartbeat::default();
        let (ask, asked) = std::sync::mpsc::channel();
        beat.wake_by(move || ask.send(()).unwrap());
        progress.register("a", Arc::clone(&beat));
        for _ in 0..3 {
            assert!(progress.look());
            asked.try_recv().unwrap();
            beat.beat();
        }
        assert!(progress.look());
        asked.try_recv().unwrap();
        assert!(!progress.look(), "asked, and did not count");
        assert_eq!(progress.stalled(), ["a"]);
    }

    #[test]
    fn a_thread_that_has_ended_is_not_waited_for() {
        let progress = Progress::new();
        let beat = Heartbeat::default();
        progress.register("a", Arc::clone(&beat));
        progress.look();
        drop(beat);
        assert!(progress.look());
        progress.forget("a");
        assert!(progress.lock().is_empty());
    }
}
