//! Whether the data paths make progress: the watchdog is fed only while they do.
//!
//! Every thread of a data path increments its [`Heartbeat`] on each turn. A thread that waits in the kernel says
//! so ([`Beats::rest`]) and is left alone. Any other thread is woken by each check of its heartbeat, and must have
//! incremented it by the next check. A heartbeat that has stalled makes the daemon unready, `/livez` fail, and the
//! service manager restart it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

use crate::clock;
use crate::notify;
use crate::readiness::Readiness;

/// The interval of the checks when no service manager sets one. Each wakes the process.
const DEFAULT_PERIOD: Duration = Duration::from_secs(60);

/// A probe has the heartbeats checked if the last check is as old as this.
const ASKED_PERIOD: Duration = Duration::from_secs(5);

/// The least time a woken thread has to increment its heartbeat: a busy machine may delay it.
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);

/// Counted up by a thread of a data path, for [`Progress`] to see.
pub type Heartbeat = Arc<Beats>;

/// The count, and a function that wakes the thread.
#[derive(Default)]
pub struct Beats {
    count: AtomicU64,
    rests: AtomicBool,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Beats {
    /// Increments the count. Only one thread or task calls this.
    pub fn beat(&self) {
        let count = self.count.load(Ordering::Relaxed).wrapping_add(1);
        self.count.store(count, Ordering::Relaxed);
        self.rests.store(false, Ordering::Relaxed);
    }

    /// Says that the thread waits in the kernel, until it next increments the count.
    pub fn rest(&self) {
        self.rests.store(true, Ordering::Relaxed);
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
    /// A probe asks whether there is progress.
    asked: Arc<Notify>,
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

    /// Looks at every heartbeat; true when each has moved since the last look, or rests. Wakes every other
    /// thread, so that it increments its heartbeat before the next look.
    pub fn look(&self) -> bool {
        let mut all = true;
        for heart in self.lock().values_mut() {
            let count = heart.beat.count();
            // No thread holds it any more: it has ended, as it does on a drain.
            let ended = Arc::strong_count(&heart.beat) == 1;
            let rests = heart.beat.rests.load(Ordering::Relaxed);
            heart.stalled = !ended && !rests && heart.last == Some(count);
            heart.last = Some(count);
            all &= !heart.stalled;
            if !rests {
                heart.beat.wake();
            }
        }
        all
    }

    /// Has the heartbeats looked at soon, unless they just were: a probe wants to know.
    pub(crate) fn ask(&self) {
        self.asked.notify_one();
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
    let mut looks = Looks::default();
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut moving = true;
    loop {
        let cause = tokio::select! {
            _ = ticks.tick() => Cause::Tick,
            () = progress.asked.notified() => Cause::Asked,
        };
        if looks.is_due(cause, clock::now()) {
            moving = progress.look();
            report(&progress.stalled(), &readiness);
        }
        if moving && limit.is_some() {
            notify::watchdog();
        }
    }
}

/// Why the heartbeats may be looked at.
#[derive(Debug, Clone, Copy)]
enum Cause {
    /// Time has passed.
    Tick,
    /// A probe asks.
    Asked,
}

/// When the heartbeats were looked at last.
#[derive(Debug, Default)]
struct Looks(Option<Instant>);

impl Looks {
    /// Whether they are to be looked at now, which the caller then does.
    fn is_due(&mut self, cause: Cause, now: Instant) -> bool {
        let least = match cause {
            Cause::Tick => SHORTEST_PERIOD,
            Cause::Asked => ASKED_PERIOD,
        };
        let is_due = self
            .0
            .is_none_or(|last| now.saturating_duration_since(last) >= least);
        if is_due {
            self.0 = Some(now);
        }
        is_due
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
    fn a_thread_that_waits_in_the_kernel_is_left_alone() {
        let progress = Progress::new();
        let beat = Heartbeat::default();
        let (ask, asked) = std::sync::mpsc::channel();
        beat.wake_by(move || ask.send(()).unwrap());
        progress.register("a", Arc::clone(&beat));
        beat.beat();
        beat.rest();
        for _ in 0..3 {
            assert!(progress.look());
        }
        assert!(asked.try_recv().is_err(), "it was woken");
        beat.beat();
        assert!(progress.look());
        asked.try_recv().unwrap();
        assert!(!progress.look(), "it was awake all the time");
    }

    #[test]
    fn a_probe_has_the_heartbeats_looked_at_unless_they_just_were() {
        let start = clock::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut looks = Looks::default();
        assert!(looks.is_due(Cause::Asked, at(0)));
        assert!(!looks.is_due(Cause::Asked, at(4)));
        assert!(looks.is_due(Cause::Tick, at(4)));
        assert!(!looks.is_due(Cause::Asked, at(8)));
        assert!(looks.is_due(Cause::Asked, at(9)));
        assert!(!looks.is_due(Cause::Tick, at(9)));
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
