//! The stream from healthd: wakes the publisher when a target changes.
//!
//! Decides nothing. Without healthd its last snapshot stays; [`Link`] has its age.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use proto::watch::{State, Watcher};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::publisher::Command;

/// The state of the stream from healthd; clones share it.
#[derive(Clone)]
pub struct Link {
    watcher: Option<Arc<Watcher>>,
}

impl Link {
    #[must_use]
    pub const fn new(watcher: Option<Arc<Watcher>>) -> Self {
        Self { watcher }
    }

    /// The state of the stream; `None` when there is no stream by configuration.
    #[must_use]
    pub fn state(&self) -> Option<State> {
        self.watcher.as_ref().map(|watcher| watcher.state())
    }

    /// The age of the last snapshot; `None` before the first one.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.state().and_then(|state| state.age(now()))
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

/// Wakes the publisher with every snapshot.
pub fn follow(watcher: &Watcher, commands: SyncSender<Command>) -> JoinHandle<()> {
    let mut snapshots = watcher.subscribe();
    tokio::spawn(async move {
        while snapshots.changed().await.is_ok() {
            drop(snapshots.borrow_and_update());
            // The publisher reads the newest snapshot, so a queued wake-up is enough; but when the queue is
            // full of other commands, this one must not be lost.
            while let Err(error) = commands.try_send(Command::Liveness) {
                if matches!(error, std::sync::mpsc::TrySendError::Disconnected(_)) {
                    return;
                }
                tokio::time::sleep(RETRY).await;
            }
        }
    })
}

/// The time between attempts to reach a publisher with a full queue.
const RETRY: Duration = Duration::from_millis(5);

fn now() -> Instant {
    Instant::now()
}
