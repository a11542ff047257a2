//! Writes the state to disk when it has changed.

use std::sync::Arc;
use std::time::Duration;

use daemon::drain::{Drain, Guard};
use daemon::readiness::Readiness;

use crate::driver::Driver;
use crate::state::{self, Store};
use liveness::monitor::Monitor;

/// Between two writes at least: a target that flaps must not wear out the disk. The first change after
/// a rest is written at once.
const REST: Duration = Duration::from_millis(250);

/// How long after a write that failed the next is tried, though nothing has changed: a disk that was full
/// has room again without telling.
const AGAIN: Duration = Duration::from_secs(1);

/// The task that writes.
#[derive(Debug)]
pub struct Saver {
    stop: Drain,
}

impl Saver {
    /// Writes once, and from here on whenever the generation moves, until what is known is on disk.
    #[must_use]
    pub fn start(store: Store, driver: Driver, readiness: Readiness) -> Self {
        let (stop, guard) = Drain::new();
        // Nothing is on disk yet.
        driver.note_saved(0);
        let task = Task {
            store: Arc::new(store),
            driver,
            readiness,
            guard,
        };
        tokio::spawn(task.run());
        Self { stop }
    }

    /// Writes a last time; true when that was done in time.
    pub async fn finish(self, limit: Duration) -> bool {
        self.stop.finish(limit).await
    }
}

struct Task {
    store: Arc<Store>,
    driver: Driver,
    readiness: Readiness,
    guard: Guard,
}

impl Task {
    async fn run(mut self) {
        let mut generations = self.driver.generations();
        loop {
            // Before the monitor is read: the last write has everything, and a write that began before the
            // drain is not the last.
            let is_last = self.guard.is_asked();
            generations.mark_unchanged();
            // Also without a change: a process killed twice must not use a generation twice.
            let is_saved = self.save().await;
            if is_last {
                return;
            }
            let change = async {
                tokio::time::sleep(REST).await;
                generations.changed().await
            };
            tokio::select! {
                () = self.guard.asked() => {}
                () = tokio::time::sleep(AGAIN), if !is_saved => {}
                moved = change => if moved.is_err() {
                    return;
                },
            }
        }
    }

    /// Writes what is known; says whether that is on disk.
    async fn save(&self) -> bool {
        let look = |monitor: &Monitor| (monitor.generation(), state::encode(monitor));
        let (generation, octets) = self.driver.look(look);
        let store = Arc::clone(&self.store);
        let saved = tokio::task::spawn_blocking(move || store.save(&octets)).await;
        let saved = saved.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        self.driver.counters().saved(&saved);
        let is_saved = saved.is_ok();
        if is_saved {
            self.driver.note_saved(generation);
        }
        let reason = saved.err().map(|error| {
            let path = self.store.path();
            tracing::error!(path = %path.display(), %error, "State cannot be written");
            format!("{} cannot be written: {error}", path.display())
        });
        self.readiness.set_reason("state", reason);
        is_saved
    }
}

#[cfg(test)]
mod tests {
    use durable::state::Loaded;
    use proto::health::AdminState;

    use super::*;
    use crate::metrics::Counters;
    use liveness::admin_rules::Scope;
    use liveness::monitor::{Limits, Restored};
    use liveness::schedules::Schedules;

    const SOON: Duration = Duration::from_secs(20);

    fn driver() -> Driver {
        let limits = Limits {
            in_flight: 1,
            targets: 1,
            grace: Duration::ZERO,
        };
        Driver::new(
            limits,
            Schedules::default(),
            Restored::default(),
            Counters::default(),
        )
    }

    #[tokio::test]
    async fn what_could_not_be_written_is_written_when_it_can_be() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        let store = state::open(&state).unwrap();
        std::fs::remove_dir(&state).unwrap();
        let (driver, readiness) = (driver(), Readiness::new());
        let scope = Scope::Address([192, 0, 2, 7].into());
        let generation = driver.step(|monitor, _| {
            monitor.set_admin(scope, AdminState::Maintenance.into());
            monitor.generation()
        });
        let saver = Saver::start(store, driver.clone(), readiness.clone());
        while readiness.details().is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(!driver.is_saved(generation, Duration::ZERO).await);
        std::fs::create_dir(&state).unwrap();
        // Nothing changes meanwhile.
        assert!(driver.is_saved(generation, SOON).await);
        assert!(saver.finish(SOON).await);
        assert_eq!(readiness.details(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn what_was_decided_during_a_write_is_in_the_last_one() {
        let directory = tempfile::tempdir().unwrap();
        let store = state::open(directory.path()).unwrap();
        let driver = driver();
        assert!(
            driver.is_saved(u64::MAX, Duration::ZERO).await,
            "nobody saves"
        );
        let saver = Saver::start(store.clone(), driver.clone(), Readiness::new());
        // The first write has looked, and goes on elsewhere: this runtime has one thread.
        tokio::task::yield_now().await;
        let scope = Scope::Address([192, 0, 2, 7].into());
        let generation = driver.step(|monitor, _| {
            monitor.set_admin(scope, AdminState::Maintenance.into());
            monitor.generation()
        });
        assert!(!driver.is_saved(generation, Duration::ZERO).await);
        assert!(saver.finish(SOON).await);
        assert!(driver.is_saved(generation, SOON).await);
        let Loaded::Restored(restored) = store.load() else {
            panic!("it was written");
        };
        let state = restored.rules.state(([192, 0, 2, 7], 6443).into());
        assert_eq!(state, AdminState::Maintenance);
    }
}
