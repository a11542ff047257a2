//! Looks after the room of the disk: how much there is, what repositories hold, and a reserve.
//!
//! The reserve is a file that the registry gives up when the disk is nearly full, whatever has
//! filled it: then the journal can still be written, and so clients can delete.

use std::cmp::Reverse;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use daemon::latest::Latest;
use oci::digest::Digest;
use oci::reference::RepositoryName;
use parking_lot::Mutex;
use registry_facts::record::{Fact, Key};

use super::{FillLevel, Full, Quota, Settings, within_quota};
use crate::disk::{Access, Room};
use crate::store::Store;

/// The interval of checks of the disk beside those before pushes.
const LOOK: Duration = Duration::from_secs(5);

/// The reserve is given up when less than this is free: the journal writes a few records a second.
const LAST: u64 = 16 << 20;

/// The reserve's file.
const RESERVE: &str = "reserve";

/// Facts that are looked at in one go.
const STEP: usize = 1_000;

/// The room of one store; clones share it.
#[derive(Clone, Debug)]
pub struct Space(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    settings: Arc<Latest<Settings>>,
    /// Octets that are free as soon as the trash is emptied.
    freeable: AtomicU64,
    told: Mutex<FillLevel>,
}

impl Space {
    /// The room of `store`.
    #[must_use]
    pub fn new(store: Store, settings: Settings) -> Self {
        Self(Arc::new(Inner {
            store,
            settings: Latest::new(settings),
            freeable: AtomicU64::new(0),
            told: Mutex::new(FillLevel::Ample),
        }))
    }

    /// Takes up other bounds.
    pub fn adopt(&self, settings: Settings) {
        self.0.settings.publish(settings);
    }

    /// Sets how much will be free once unneeded content is removed: a client that is refused for
    /// that much may come again.
    pub fn expect(&self, freeable: u64) {
        self.0.freeable.store(freeable, Ordering::Relaxed);
    }

    /// Whether `wanted` octets may be pushed to a repository.
    ///
    /// # Errors
    /// When there is no room for them.
    pub fn admit(&self, repository: &RepositoryName, wanted: u64) -> Result<(), Full> {
        self.admit_room(wanted)?;
        self.admit_quota(repository, wanted)
    }

    /// Whether the disk has room for `wanted` octets.
    ///
    /// # Errors
    /// When it has not.
    pub fn admit_room(&self, wanted: u64) -> Result<(), Full> {
        let settings = self.0.settings.current();
        // A disk that does not say how full it is says so when it is written to.
        if let Ok(room) = self.room() {
            let freeable = self.0.freeable.load(Ordering::Relaxed);
            settings
                .watermarks
                .admit(room.total, room.free, freeable, wanted)?;
        }
        Ok(())
    }

    /// Whether a repository may hold `wanted` octets more.
    ///
    /// # Errors
    /// When it may not.
    pub fn admit_quota(&self, repository: &RepositoryName, wanted: u64) -> Result<(), Full> {
        let settings = self.0.settings.current();
        let name = repository.as_str();
        match quota(&settings.quotas, name) {
            Some(most) => within_quota(most, self.held(repository), wanted),
            None => Ok(()),
        }
    }

    /// How full the disk is.
    #[must_use]
    pub fn standing(&self) -> FillLevel {
        self.room().map_or(FillLevel::Ample, |room| {
            self.0
                .settings
                .current()
                .watermarks
                .standing(room.total, room.free)
        })
    }

    /// The room on the disk as operators see it.
    #[must_use]
    pub fn status(&self) -> api::registry_svc::Space {
        let room = self.room().ok();
        api::registry_svc::Space {
            standing: self.standing().name().to_owned(),
            free_bytes: room.map(|room| room.free),
            total_bytes: room.map(|room| room.total),
        }
    }

    /// Looks after the disk for as long as it is polled.
    pub async fn run(self) {
        loop {
            let space = self.clone();
            let looked = tokio::task::spawn_blocking(move || space.look()).await;
            if let Err(error) = looked {
                tracing::error!(%error, "The disk is not looked after");
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Tells of a change, and keeps or gives up the reserve.
    fn look(&self) {
        let standing = self.standing();
        let before = {
            let mut told = self.0.told.lock();
            std::mem::replace(&mut *told, standing)
        };
        if standing != before {
            match standing {
                FillLevel::Ample => tracing::info!("The disk has room again"),
                FillLevel::Scarce => tracing::warn!("The disk is filling up"),
                FillLevel::Full => tracing::error!("The disk is full: nothing is pushed any more"),
            }
        }
        let kept = self.0.settings.current().reserve;
        if let Err(error) = self.look_after_reserve(kept) {
            tracing::debug!(%error, "The reserve is not as it should be");
        }
    }

    fn look_after_reserve(&self, wanted: u64) -> io::Result<()> {
        let (disk, path) = (self.0.store.disk(), self.0.store.layout().mark(RESERVE));
        let is_there = match disk.open(&path, Access::Read) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        let room = self.room()?;
        if is_there && (room.free < LAST || wanted == 0) {
            tracing::warn!("The reserve is given up: deletions still work");
            return disk.remove(&path);
        }
        // Not while that would make the disk full, or it would be given up at once.
        let has_room = self.standing() != FillLevel::Full && room.free / 2 > wanted.max(LAST);
        if is_there || wanted == 0 || !has_room {
            return Ok(());
        }
        let file = disk.create(&path)?;
        file.allocate(wanted)
            .or_else(|error| disk.remove(&path).and(Err(error)))
    }

    fn room(&self) -> io::Result<Room> {
        self.0.store.disk().room(self.0.store.layout().root())
    }

    /// Octets of a repository's blobs and manifests.
    fn held(&self, repository: &RepositoryName) -> u64 {
        let lowest = Digest::Sha256([0; 32]);
        let blobs = Key::Blob {
            repository: repository.clone(),
            digest: lowest,
        };
        let manifests = Key::Manifest {
            repository: repository.clone(),
            digest: lowest,
        };
        self.sum(repository, blobs) + self.sum(repository, manifests)
    }

    /// Octets of one kind, from its first key on.
    fn sum(&self, repository: &RepositoryName, mut after: Key) -> u64 {
        let kind = std::mem::discriminant(&after);
        let mut sum = 0;
        loop {
            // A disk that cannot be read refuses no push.
            let step = self
                .0
                .store
                .registers(Some(&after), STEP)
                .unwrap_or_default();
            let is_last = step.len() < STEP;
            for stamped in step {
                let key = stamped.fact.key();
                let is_of_it = stamped.fact.repository() == Some(repository)
                    && std::mem::discriminant(&key) == kind;
                if !is_of_it {
                    return sum;
                }
                sum += octets(&stamped.fact);
                after = key;
            }
            if is_last {
                return sum;
            }
        }
    }
}

fn octets(fact: &Fact) -> u64 {
    match fact {
        Fact::Blob { size, .. } => size.unwrap_or(0),
        Fact::Manifest { link, .. } => link.as_ref().map_or(0, |link| link.size),
        Fact::Tag { .. } | Fact::Node { .. } => 0,
    }
}

/// The most that a repository may hold: the longest pattern that matches decides, wildcards not counted,
/// and of equals the smallest size.
fn quota(quotas: &[Quota], repository: &str) -> Option<u64> {
    let matching = quotas
        .iter()
        .filter(|quota| quota.repositories.matches(repository));
    let decides = matching.max_by_key(|quota| (quota.repositories.weight(), Reverse(quota.size)));
    decides.map(|quota| quota.size)
}
