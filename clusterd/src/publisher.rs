//! Publishes the picture: sources change it, a task makes snapshots of it, subscribers and the saver read them.

use std::sync::Arc;
use std::time::Duration;

use cluster::{Freshness, Kind, Snapshot};
use cluster_snapshot::Picture;
use daemon::latest::{Latest, Reader};
use daemon::readiness::Readiness;
use daemon::run::Heartbeat;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Changes this close together make one generation: a deployment changes many slices at once.
const GATHER: Duration = Duration::from_millis(20);

/// The picture and its snapshots; clones share them.
#[derive(Clone, Debug)]
pub struct Publisher {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    picture: Mutex<Picture>,
    changed: Arc<Notify>,
    snapshots: Arc<Latest<Snapshot>>,
    readiness: Readiness,
    heartbeat: Heartbeat,
}

impl Publisher {
    /// Begins to publish; needs a tokio runtime.
    #[must_use]
    pub fn start(picture: Picture, readiness: Readiness) -> Self {
        let snapshots = Latest::new(Snapshot::clone(&picture.current()));
        let (changed, heartbeat) = (Arc::new(Notify::new()), Heartbeat::default());
        let asked = Arc::clone(&changed);
        heartbeat.wake_by(move || asked.notify_one());
        let shared = Arc::new(Shared {
            picture: Mutex::new(picture),
            changed,
            snapshots,
            readiness,
            heartbeat,
        });
        shared.report();
        tokio::spawn(Arc::clone(&shared).run());
        Self { shared }
    }

    /// Changes the picture; the change is in a snapshot soon.
    pub fn change(&self, change: impl FnOnce(&mut Picture)) {
        change(&mut self.shared.picture.lock());
        self.shared.changed.notify_one();
    }

    /// The last snapshot.
    #[must_use]
    pub fn current(&self) -> Arc<Snapshot> {
        self.shared.snapshots.current()
    }

    /// Reads the snapshots.
    #[must_use]
    pub fn reader(&self) -> Reader<Snapshot> {
        self.shared.snapshots.reader()
    }

    /// For how many objects of a kind there is no room.
    #[must_use]
    pub fn without_room(&self, kind: Kind) -> usize {
        self.shared.picture.lock().without_room(kind)
    }

    /// A counter that rises as long as the task runs.
    #[must_use]
    pub fn heartbeat(&self) -> Heartbeat {
        Heartbeat::clone(&self.shared.heartbeat)
    }
}

impl Shared {
    async fn run(self: Arc<Self>) {
        loop {
            self.heartbeat.beat();
            self.changed.notified().await;
            tokio::time::sleep(GATHER).await;
            let published = self.picture.lock().publish();
            if let Some(snapshot) = published {
                self.snapshots.publish_shared(snapshot);
            }
            self.report();
        }
    }

    /// Says in the readiness what is missing from the snapshot.
    fn report(&self) {
        let snapshot = self.snapshots.current();
        let named = |freshness: Freshness| -> Vec<&'static str> {
            snapshot.kinds_of(freshness).map(Kind::resource).collect()
        };
        let reason = |kinds: Vec<&str>, words: &str| {
            (!kinds.is_empty()).then(|| format!("{words}: {}", kinds.join(", ")))
        };
        let unread = reason(named(Freshness::Unread), "never read from the source");
        self.readiness.set_unready("source", unread);
        let old = reason(
            named(Freshness::Old),
            "from before the start, and not read since",
        );
        self.readiness.set_reason("old snapshot", old);
        let picture = self.picture.lock();
        let full = Kind::ALL.map(|kind| (kind, picture.without_room(kind)));
        drop(picture);
        let full = full.into_iter().filter(|(_, n)| *n > 0);
        let full: Vec<String> = full
            .map(|(kind, n)| format!("{n} {}", kind.resource()))
            .collect();
        let full =
            (!full.is_empty()).then(|| format!("`objects` leaves no room for {}", full.join(", ")));
        self.readiness.set_reason("room", full);
    }
}
