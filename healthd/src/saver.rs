//! Writes the state to disk when it has changed.

use std::sync::Arc;
use std::time::Duration;

use daemon_base::drain::{Drain, Guard};
use daemon_base::readiness::Readiness;

use crate::engine::Engine;
use crate::state::{self, Store};

/// Between two writes at least: a target that flaps must not wear out the disk. The first change after
/// a rest is written at once.
const REST: Duration = Duration::from_millis(250);

/// The task that writes.
#[derive(Debug)]
pub struct Saver {
    stop: Drain,
}

impl Saver {
    /// Writes once, and from here on whenever the generation moves.
    #[must_use]
    pub fn start(store: Store, engine: Engine, readiness: Readiness) -> Self {
        let (stop, guard) = Drain::new();
        let task = Task {
            store: Arc::new(store),
            engine,
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
    engine: Engine,
    readiness: Readiness,
    guard: Guard,
}

impl Task {
    async fn run(mut self) {
        let mut generations = self.engine.generations();
        loop {
            generations.mark_unchanged();
            // Also without a change: a process killed twice must not use a generation twice.
            self.save().await;
            if self.guard.is_asked() {
                return;
            }
            let change = async {
                tokio::time::sleep(REST).await;
                generations.changed().await
            };
            tokio::select! {
                () = self.guard.asked() => {}
                moved = change => if moved.is_err() {
                    return;
                },
            }
        }
    }

    async fn save(&self) {
        let octets = self.engine.look(state::encode);
        let store = Arc::clone(&self.store);
        let saved = tokio::task::spawn_blocking(move || store.save(&octets)).await;
        let saved = saved.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        self.engine.counters().saved(&saved);
        let reason = saved.err().map(|error| {
            let path = self.store.path();
            tracing::error!(path = %path.display(), %error, "State cannot be written");
            format!("{} cannot be written: {error}", path.display())
        });
        self.readiness.set_reason("state", reason);
    }
}
