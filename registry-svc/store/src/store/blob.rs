//! Blobs: content of repositories, and content of none.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use oci::digest::Digest;
use oci::reference::RepositoryName;
use parking_lot::Mutex;
use registry_facts::hlc::Hlc;
use registry_facts::index::key::BLOB;
use registry_facts::index::view::View;
use registry_facts::record::{Fact, Key, Position};
use registry_life_cycle::{Claim, Duty, Event, File, State, step};
use tokio::sync::Mutex as AsyncMutex;
use tokio_stream::Stream;

use super::incoming::{Ended, Incoming, TempBlob, pump};
use super::layout::Layout;
use super::{Inner, Pushed, Store, StoreError, Subject, blocking};
use crate::disk::{Disk, Status};

/// Repositories that are looked through for one a client may mount from.
const MOST_HOLDERS: usize = 100;

/// The age up to which a standing link answers another push without a new
/// statement. The sweep of another node, which does not know the leases taken here, takes back
/// links that are older than its grace, a day among nodes: a link acknowledged now has most of that
/// before it.
const RECENT: Duration = Duration::from_hours(1);

impl Store {
    /// The size of a blob that a repository has; takes a lease on it.
    ///
    /// # Errors
    ///
    /// Fails when the disk does.
    pub async fn blob(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
    ) -> Result<Option<u64>, StoreError> {
        let is_linked = self.inner.read(|view| view.blob(repository, digest))?;
        if is_linked.is_none() {
            return Ok(None);
        }
        let held = self.held(digest).await?;
        if held.is_none() {
            let (inner, digest) = (Arc::clone(&self.inner), *digest);
            let lost = move || {
                inner.lose(&digest);
                Ok(())
            };
            blocking(lost).await?;
        }
        Ok(held)
    }

    /// The size of content that is on the disk, whatever repositories say; takes a lease on it.
    ///
    /// # Errors
    ///
    /// Fails when the disk does.
    pub async fn held(&self, digest: &Digest) -> Result<Option<u64>, StoreError> {
        if let Some(size) = self.inner.renew(digest) {
            return Ok(Some(size));
        }
        let _lock = self.inner.digests.shared([digest]).await;
        let inner = Arc::clone(&self.inner);
        let digest = *digest;
        blocking(move || inner.present(&digest)).await
    }

    /// Adds content that is on the disk to a repository.
    ///
    /// # Errors
    ///
    /// Fails when the content is not there or the disk fails.
    pub async fn link(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
    ) -> Result<Pushed, StoreError> {
        self.inner.writable()?;
        let _lock = self.inner.digests.shared([digest]).await;
        let inner = Arc::clone(&self.inner);
        let wanted = *digest;
        let size = match self.inner.renew(digest) {
            Some(size) => Some(size),
            None => blocking(move || inner.present(&wanted)).await?,
        };
        let size = size.ok_or(StoreError::Unknown(Subject::Blob))?;
        self.state_blob(repository, digest, size).await
    }

    /// Takes a blob from a repository; the content stays for the sweep.
    ///
    /// # Errors
    ///
    /// Fails when the repository does not have it or the journal fails.
    pub async fn unlink(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
    ) -> Result<Position, StoreError> {
        let _lock = self.inner.repositories.alone(repository).await;
        if self
            .inner
            .read(|view| view.blob(repository, digest))?
            .is_none()
        {
            return Err(StoreError::Unknown(Subject::Blob));
        }
        let fact = Fact::Blob {
            repository: repository.clone(),
            digest: *digest,
            size: None,
        };
        Ok(self.inner.writer.state(vec![fact]).await?)
    }

    /// Takes a blob from every repository, for a caller that holds its digest [alone](Self::alone):
    /// a push that links a blob holds the digest too, so no lock of a repository is needed, and the
    /// caller must not wait for one, because a push with that lock may wait for the caller.
    ///
    /// It is taken as of a moment in the past: a link stated since, by this node or by one that this
    /// node has not heard yet, holds against it on every node. False when there is one.
    ///
    /// # Errors
    ///
    /// Fails when the index or the journal does.
    pub async fn unlink_everywhere(&self, digest: &Digest, as_of: Hlc) -> Result<bool, StoreError> {
        let mut before = Vec::new();
        loop {
            let ask = |view: &View| view.holders(digest, BLOB, MOST_HOLDERS);
            let holders = self.inner.read(ask)?;
            if holders.is_empty() || holders == before {
                return Ok(holders.is_empty());
            }
            let mut facts = Vec::new();
            for repository in &holders {
                let fact = Fact::Blob {
                    repository: repository.clone(),
                    digest: *digest,
                    size: None,
                };
                let link = self.register(&fact.key())?;
                match link.filter(|link| self.is_far_ahead(link.stamp)) {
                    None => facts.push(fact),
                    // A link of a clock that was wrong would hold against every sweep until that time.
                    Some(link) => {
                        let as_of = Hlc::last_before(link.stamp.milliseconds() + 1);
                        self.inner.writer.state_as_of(vec![fact], as_of).await?;
                    }
                }
            }
            if !facts.is_empty() {
                self.inner.writer.state_as_of(facts, as_of).await?;
            }
            before = holders;
        }
    }

    /// The content among `digests` that is on the disk and not known to be damaged, in the trash too, in
    /// the same order. Takes no lease: a look promises nothing.
    ///
    /// # Errors
    ///
    /// Fails when the disk does.
    pub async fn lie_here(&self, digests: Vec<Digest>) -> Result<Vec<bool>, StoreError> {
        let inner = Arc::clone(&self.inner);
        self.on_disk("look for blobs", move |disk, layout| {
            let lies = |digest: &Digest| -> io::Result<bool> {
                let is_fit = |file: &Status| !inner.damage.is_refused(digest, file);
                let (file, _) = find(disk, layout, digest, is_fit)?;
                Ok(State::of(file, Claim::None).is_here())
            };
            digests.iter().map(lies).collect()
        })
        .await
    }

    /// Restores content from the trash, for a caller that holds its digest.
    ///
    /// # Errors
    ///
    /// Fails when the disk does.
    pub async fn take_back(&self, digest: &Digest) -> Result<(), StoreError> {
        let (inner, digest) = (Arc::clone(&self.inner), *digest);
        blocking(move || inner.present(&digest)).await.map(drop)
    }

    /// Repositories that have a blob, the first hundred.
    #[must_use]
    pub fn repositories_with(&self, digest: &Digest) -> Vec<RepositoryName> {
        let holders = self
            .inner
            .read(|view| view.holders(digest, BLOB, MOST_HOLDERS));
        holders.unwrap_or_default()
    }

    /// Takes content that is whole in one body to a repository.
    ///
    /// # Errors
    ///
    /// Fails when the body ends early or has another digest, or the disk fails; nothing of it is
    /// left then.
    pub async fn push(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
        length: Option<u64>,
        body: impl Stream<Item = io::Result<Bytes>> + Send,
    ) -> Result<Pushed, StoreError> {
        self.inner.writable()?;
        let passing = self.receive(digest, length, body).await?;
        self.clear_way(digest).await;
        let _lock = self.inner.digests.shared([digest]).await;
        let size = self.publish(passing, digest).await?;
        self.state_blob(repository, digest, size).await
    }

    /// Takes content to no repository, as from a peer or an archive; returns its size. When it is
    /// there already the body is not read, and two that bring it at once are one.
    ///
    /// # Errors
    ///
    /// Fails when the body ends early or has another digest, or the disk fails; nothing of it is
    /// left then.
    pub async fn ingest(
        &self,
        digest: &Digest,
        length: Option<u64>,
        body: impl Stream<Item = io::Result<Bytes>> + Send,
    ) -> Result<u64, StoreError> {
        let flight = self.inner.flights.join(digest);
        let _first = flight.lock().await;
        if let Some(size) = self.held(digest).await? {
            return Ok(size);
        }
        if self.inner.is_on_read_only_disk {
            return Err(StoreError::ReadOnly);
        }
        let passing = self.receive(digest, length, body).await?;
        self.clear_way(digest).await;
        let _lock = self.inner.digests.shared([digest]).await;
        self.publish(passing, digest).await
    }

    pub(super) async fn receive(
        &self,
        digest: &Digest,
        length: Option<u64>,
        body: impl Stream<Item = io::Result<Bytes>> + Send,
    ) -> Result<TempBlob, StoreError> {
        let incoming = self.inner.part(digest)?;
        match pump(TempBlob::new(incoming), length, body).await {
            Ended::Well(passing) => Ok(passing),
            Ended::Early(_, error) => Err(StoreError::Body(error)),
            Ended::Badly(_, error) => Err(StoreError::io("write a blob")(error)),
            Ended::Lost => Err(StoreError::io("write a blob")(io::ErrorKind::Other.into())),
        }
    }

    async fn publish(&self, passing: TempBlob, digest: &Digest) -> Result<u64, StoreError> {
        let inner = Arc::clone(&self.inner);
        let wanted = *digest;
        let publish = move || {
            let place = || passing.publish(&inner.layout, &wanted);
            let size = inner.naming.name(&wanted, place)?;
            inner.arrived(&wanted, size);
            Ok(size)
        };
        blocking(publish).await
    }

    /// States that a repository has a blob, unless that was stated of late.
    pub(crate) async fn state_blob(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
        size: u64,
    ) -> Result<Pushed, StoreError> {
        let key = Key::Blob {
            repository: repository.clone(),
            digest: *digest,
        };
        let fact = Fact::Blob {
            repository: repository.clone(),
            digest: *digest,
            size: Some(size),
        };
        if let Some(standing) = self.inner.read(|view| view.register(&key))?
            && standing.fact == fact
            && self.is_of_late(standing.stamp, RECENT)
        {
            // Nothing is written, so nothing else would say that the journal has failed meanwhile.
            self.inner.writable()?;
            let position = (standing.sequence != 0).then_some(Position {
                origin: standing.origin,
                sequence: standing.sequence,
            });
            return Ok(Pushed { size, position });
        }
        let position = self.inner.writer.state(vec![fact]).await?;
        Ok(Pushed {
            size,
            position: Some(position),
        })
    }
}

impl Inner {
    /// The size of content that is on the disk, under a name that is durable, taken back from the trash
    /// if it is there; takes a lease on it. Blocks; the digest's lock is held.
    pub(crate) fn present(&self, digest: &Digest) -> Result<Option<u64>, StoreError> {
        loop {
            let (mut file, status) = self.find(digest)?;
            if self.is_on_read_only_disk && file == File::InTrash {
                // Nothing can be taken back.
                file = File::None;
            }
            let wanted = step(State::of(file, Claim::None), Event::Wanted);
            if wanted.asks_for(Duty::TakeBack) {
                self.take_back(digest)?;
                continue;
            }
            let size = status.filter(|_| wanted.asks_for(Duty::Lease));
            let Some(size) = size.map(|status| status.size) else {
                return Ok(None);
            };
            // Every name on a read-only disk is durable, and nothing there is swept.
            if !self.is_on_read_only_disk {
                self.naming
                    .ensure(digest, || self.sync_shard(digest))
                    .map_err(StoreError::io("make the name of a blob durable"))?;
                self.lease(digest, size);
            }
            return Ok(Some(size));
        }
    }

    /// The place of content, and the status of the file there.
    fn find(&self, digest: &Digest) -> Result<(File, Option<Status>), StoreError> {
        let is_fit = |file: &Status| self.is_fit(digest, file);
        let found = find(&*self.disk, &self.layout, digest, is_fit);
        found.map_err(StoreError::io("look for a blob"))
    }

    /// Moves content from the trash to its place, durably, unless another request has done so.
    fn take_back(&self, digest: &Digest) -> Result<(), StoreError> {
        let path = self.layout.blob(digest);
        let resurrect = || -> io::Result<()> {
            match self.disk.rename(&self.layout.trashed(digest), &path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
                Ok(()) => self.sync_shard(digest),
            }
        };
        let resurrected = self.naming.name(digest, resurrect);
        resurrected.map_err(StoreError::io("take a blob back from the trash"))
    }

    fn sync_shard(&self, digest: &Digest) -> io::Result<()> {
        let shard = self.layout.shard(digest.algorithm(), digest.shard());
        self.disk.sync_directory(&shard)
    }

    /// A file for content of no session.
    pub(crate) fn part(&self, digest: &Digest) -> Result<Incoming, StoreError> {
        let number = self.new_id()?.number();
        let path = self.layout.uploads().join(format!("{number}.part"));
        Ok(Incoming::new(
            Arc::clone(&self.disk),
            path,
            digest.algorithm(),
        ))
    }
}

/// The place of content, and the status of the file there; `is_fit` says whether that may be served.
fn find(
    disk: &dyn Disk,
    layout: &Layout,
    digest: &Digest,
    is_fit: impl Fn(&Status) -> bool,
) -> io::Result<(File, Option<Status>)> {
    let path = layout.blob(digest);
    let mut status = disk.status(&path)?;
    if status.is_none() {
        if disk.status(&layout.trashed(digest))?.is_some() {
            return Ok((File::InTrash, None));
        }
        // It may have been taken back from the trash between the two.
        status = disk.status(&path)?;
    }
    let file = match &status {
        Some(status) if is_fit(status) => File::InPlace,
        Some(_) => File::Refused,
        None => File::None,
    };
    Ok((file, status))
}

/// Content that is being brought: one at a time for each digest.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    flights: Mutex<HashMap<Digest, Weak<AsyncMutex<()>>>>,
}

impl Flights {
    /// The lock that a caller holds while it brings a digest.
    fn join(&self, digest: &Digest) -> Arc<AsyncMutex<()>> {
        let mut flights = self.flights.lock();
        if let Some(flight) = flights.get(digest).and_then(Weak::upgrade) {
            return flight;
        }
        // Those that landed are few, and gone with the next.
        flights.retain(|_, flight| flight.strong_count() > 0);
        let flight = Arc::new(AsyncMutex::new(()));
        flights.insert(*digest, Arc::downgrade(&flight));
        flight
    }
}
