//! A service's link to healthd: the targets that it watches, the last snapshot, and the state of the stream.
//!
//! A service that runs without healthd has a link too: its snapshot stays empty, and it has no state. When
//! healthd goes, its last snapshot stays until something stands in for healthd; the log says so once, and once when it is back.

use std::sync::Arc;
use std::time::Duration;

use daemon::clock;
use daemon::latest::Reader;
use tokio::task::JoinHandle;

use crate::endpoint::Endpoint;
use crate::health::{Snapshot, Watched};
use crate::watch::{Subscription, Watcher};

pub use crate::connection::State;

/// The link of one service; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Link {
    watcher: Option<Arc<Watcher>>,
}

impl Link {
    /// Begins to watch targets, if there is a healthd; needs a tokio runtime.
    #[must_use]
    pub fn start(
        endpoint: Option<Endpoint>,
        service: &str,
        targets: Vec<impl Into<Watched>>,
    ) -> Self {
        let watcher = endpoint.map(|endpoint| Watcher::start(endpoint, service, targets));
        Self {
            watcher: watcher.map(Arc::new),
        }
    }

    /// Watches these targets, and no others any more.
    pub fn set_targets(&self, targets: Vec<impl Into<Watched>>) {
        if let Some(watcher) = &self.watcher {
            watcher.set_targets(targets);
        }
    }

    /// The last snapshot; empty before the first one.
    #[must_use]
    pub fn current(&self) -> Arc<Snapshot> {
        let watcher = self.watcher.as_ref();
        watcher.map(|watcher| watcher.current()).unwrap_or_default()
    }

    /// Reads the snapshots; to this reader, the first from healthd is a change, even one that is there already.
    #[must_use]
    pub fn reader(&self) -> Option<Reader<Snapshot>> {
        self.watcher.as_ref().map(|watcher| watcher.subscribe())
    }

    /// Waits for the first snapshot, at most this long; false when none has come. Does not wait without healthd.
    pub async fn has_heard_within(&self, limit: Duration) -> bool {
        let Some(mut snapshots) = self.reader() else {
            return true;
        };
        let first = snapshots.wait_for(|snapshot| snapshot.generation > 0);
        tokio::time::timeout(limit, first).await.is_ok()
    }

    /// Passes each snapshot on, until the task is aborted.
    #[must_use]
    pub fn follow(
        &self,
        mut observe: impl FnMut(Arc<Snapshot>) + Send + 'static,
    ) -> Option<JoinHandle<()>> {
        let mut snapshots = self.reader()?;
        Some(tokio::spawn(async move {
            loop {
                snapshots.changed().await;
                observe(snapshots.shared());
            }
        }))
    }

    /// Reads the targets that are stated; `None` without healthd.
    #[must_use]
    pub fn stated(&self) -> Option<Reader<Subscription>> {
        self.watcher.as_ref().map(|watcher| watcher.stated())
    }

    /// Publishes states that the service has found itself, unless healthd is connected; true when it did.
    pub fn stand_in(&self, snapshot: Snapshot) -> bool {
        let watcher = self.watcher.as_ref();
        watcher.is_some_and(|watcher| watcher.stand_in(snapshot))
    }

    /// Reads whether healthd is connected, and waits for changes of it; `None` without healthd.
    #[must_use]
    pub fn is_connected(&self) -> Option<Reader<bool>> {
        self.watcher.as_ref().map(|watcher| watcher.is_connected())
    }

    /// The state of the stream; `None` without healthd.
    #[must_use]
    pub fn state(&self) -> Option<State> {
        self.watcher.as_ref().map(|watcher| watcher.state())
    }

    /// The age of the last snapshot; `None` before the first one, and without healthd.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.state()?.age(clock::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_service_without_healthd_waits_for_nothing() {
        let link = Link::start(None, "test", Vec::<Watched>::new());
        assert!(link.has_heard_within(Duration::from_secs(60)).await);
        assert_eq!(*link.current(), Snapshot::default());
        assert!(link.state().is_none() && link.age().is_none());
        assert!(link.follow(|_| ()).is_none());
    }

    #[tokio::test]
    async fn states_of_the_service_itself_count_only_where_there_is_a_healthd_that_is_away() {
        let own = || Snapshot {
            stands_in: true,
            ..Snapshot::default()
        };
        let without = Link::start(None, "test", Vec::<Watched>::new());
        assert!(!without.stand_in(own()) && without.stated().is_none());
        let nowhere = "unix:/nonexistent/healthd.sock".parse().ok();
        let away = Link::start(nowhere, "test", Vec::<Watched>::new());
        assert!(away.stand_in(own()) && away.current().stands_in);
    }

    #[tokio::test]
    async fn a_healthd_that_is_away_leaves_the_snapshot_empty() {
        let nowhere = "unix:/nonexistent/healthd.sock".parse().ok();
        let link = Link::start(nowhere, "test", Vec::<Watched>::new());
        assert!(!link.has_heard_within(Duration::from_millis(5)).await);
        let failed = async {
            while link.state().unwrap().error.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let failed = tokio::time::timeout(Duration::from_secs(20), failed).await;
        assert!(failed.is_ok() && !link.state().unwrap().connected);
        assert_eq!((link.age(), link.current().generation), (None, 0));
    }
}
