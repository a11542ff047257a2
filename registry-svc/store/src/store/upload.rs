//! Upload sessions: content that comes in several requests.
//!
//! A session's file is as long as its content, and a small file beside it says whose it is; so a
//! session is found again after a restart, and hashed again from the disk when it ends. One request
//! at a time writes to a session.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use oci::digest::{Algorithm, Digest};
use oci::reference::RepositoryName;
use parking_lot::{Mutex, MutexGuard};
use registry_facts::name::{NodeName, UploadId};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio_stream::Stream;

use super::incoming::{Ended, Incoming, pump};
use super::layout::{Layout, read_whole, remove_if_there};
use super::{Inner, Pushed, Store, StoreError, Subject, blocking};
use crate::disk::Disk;

/// Sessions at once. One that was left costs a small file until it is a day old.
const MOST_SESSIONS: usize = 4096;

/// How long a request waits for the one before it, whose client may have gone while its last
/// octets were written.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most bytes of a session's small file.
const LONGEST_NOTE: u64 = 1024;

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    repository: RepositoryName,
    size: Arc<AtomicU64>,
    /// When it was begun or written to, in milliseconds since 1970.
    touched: AtomicU64,
    /// None when it has ended.
    slot: Arc<AsyncMutex<Option<Incoming>>>,
}

impl Session {
    fn new(repository: RepositoryName, incoming: Incoming, now: u64) -> Arc<Self> {
        Arc::new(Self {
            repository,
            size: incoming.watched_size(),
            touched: AtomicU64::new(now),
            slot: Arc::new(AsyncMutex::new(Some(incoming))),
        })
    }
}

/// The sessions of a store.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    table: Mutex<HashMap<UploadId, Arc<Session>>>,
}

impl Sessions {
    fn table(&self) -> MutexGuard<'_, HashMap<UploadId, Arc<Session>>> {
        self.table.lock()
    }

    fn find(&self, repository: &RepositoryName, id: &UploadId) -> Result<Arc<Session>, StoreError> {
        let session = self.table().get(id).cloned();
        session
            .filter(|session| session.repository == *repository)
            .ok_or(StoreError::Unknown(Subject::Upload))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.table().len()
    }

    /// Finds the sessions that were there before a restart, and takes away what is of none.
    pub(crate) fn recover(
        &self,
        disk: &Arc<dyn Disk>,
        layout: &Layout,
        node: &NodeName,
        now: u64,
    ) -> io::Result<()> {
        let names = disk.list(&layout.uploads())?.unwrap_or_default();
        for name in names {
            let path = layout.uploads().join(&name);
            let Some(number) = name.strip_suffix(NOTE) else {
                let is_of_a_session = UploadId::from_number(node.clone(), &name).is_ok()
                    && disk.status(&note(layout, &name))?.is_some();
                if !is_of_a_session {
                    remove_if_there(&**disk, &path)?;
                }
                continue;
            };
            let octets = read_whole(&**disk, &path, LONGEST_NOTE)?.unwrap_or_default();
            let session = UploadId::from_number(node.clone(), number)
                .ok()
                .zip(parse(&octets));
            let Some((id, (algorithm, repository))) = session else {
                remove_if_there(&**disk, &path)?;
                remove_if_there(&**disk, &layout.uploads().join(number))?;
                continue;
            };
            let file = layout.uploads().join(number);
            let incoming = Incoming::resume(Arc::clone(disk), file, algorithm)?;
            let session = Session::new(repository, incoming, now.min(id.begun()));
            self.table().insert(id, session);
        }
        Ok(())
    }
}

impl Store {
    /// Begins a session.
    ///
    /// # Errors
    ///
    /// Fails when there are too many or the disk fails.
    pub async fn begin(
        &self,
        repository: &RepositoryName,
        algorithm: Algorithm,
    ) -> Result<UploadId, StoreError> {
        self.inner.writable()?;
        if self.inner.sessions.len() >= MOST_SESSIONS {
            return Err(StoreError::TooMany);
        }
        let id = self.inner.new_id()?;
        let inner = Arc::clone(&self.inner);
        let (name, owner) = (id.clone(), repository.clone());
        blocking(move || {
            let path = note(&inner.layout, &name.number());
            let text = format!("{algorithm} {owner}\n");
            let work = || {
                let file = inner.disk.create(&path)?;
                file.write_at(&[Bytes::from(text)], 0)
            };
            if let Err(error) = work() {
                drop(inner.disk.remove(&path));
                return Err(StoreError::io("begin an upload session")(error));
            }
            let file = inner.layout.uploads().join(name.number());
            let incoming = Incoming::new(Arc::clone(&inner.disk), file, algorithm);
            let session = Session::new(owner, incoming, inner.now());
            inner.sessions.table().insert(name, session);
            Ok(())
        })
        .await?;
        Ok(id)
    }

    /// How many octets a session has.
    ///
    /// # Errors
    ///
    /// Fails when there is no such session.
    #[expect(clippy::unused_async, reason = "other kinds of store may have to ask")]
    pub async fn offset(
        &self,
        repository: &RepositoryName,
        id: &UploadId,
    ) -> Result<u64, StoreError> {
        let session = self.inner.sessions.find(repository, id)?;
        Ok(session.size.load(Ordering::Acquire))
    }

    /// Adds a body to a session, at its end if `at` is not said; room for its `length` octets is made
    /// ahead of them. Returns how many octets the session has. When the body ends early, what came
    /// stays; when the disk fails, the session ends.
    ///
    /// # Errors
    ///
    /// Fails when there is no such session, another request writes to it, `at` is not its end, or
    /// the body or the disk fails.
    pub async fn append(
        &self,
        repository: &RepositoryName,
        id: &UploadId,
        at: Option<u64>,
        length: Option<u64>,
        body: impl Stream<Item = io::Result<Bytes>> + Send,
    ) -> Result<u64, StoreError> {
        self.inner.writable()?;
        let session = self.inner.sessions.find(repository, id)?;
        let slot = hold(&session).await?;
        let offset = session.size.load(Ordering::Acquire);
        if at.is_some_and(|at| at != offset) {
            return Err(StoreError::OutOfOrder { offset });
        }
        let ended = pump(slot, length, body).await;
        session.touched.store(self.inner.now(), Ordering::Relaxed);
        match ended {
            Ended::Well(_) => Ok(session.size.load(Ordering::Acquire)),
            Ended::Early(_, error) => Err(StoreError::Body(error)),
            Ended::Badly(slot, error) => {
                self.drop_session(id, slot).await?;
                Err(StoreError::io("write an upload")(error))
            }
            Ended::Lost => Err(StoreError::io("write an upload")(
                io::ErrorKind::Other.into(),
            )),
        }
    }

    /// Makes a session's content a blob of its repository. The session ends, also when its content
    /// has another digest.
    ///
    /// # Errors
    ///
    /// Fails when there is no such session, another request writes to it, its content has another
    /// digest, or the disk fails.
    pub async fn finish(
        &self,
        repository: &RepositoryName,
        id: &UploadId,
        digest: &Digest,
    ) -> Result<Pushed, StoreError> {
        self.inner.writable()?;
        let session = self.inner.sessions.find(repository, id)?;
        let mut slot = hold(&session).await?;
        self.clear_way(digest).await;
        let _lock = self.inner.digests.shared([digest]).await;
        let incoming = slot.take().ok_or(StoreError::Unknown(Subject::Upload))?;
        self.inner.sessions.table().remove(id);
        let inner = Arc::clone(&self.inner);
        let (digest, number) = (*digest, id.number());
        let size = blocking(move || {
            let place = || incoming.publish(&inner.layout, &digest);
            let published = inner.naming.name(&digest, place);
            inner.drop_note(&number);
            let size = published?;
            inner.arrived(&digest, size);
            Ok(size)
        })
        .await?;
        self.state_blob(repository, &digest, size).await
    }

    /// Ends a session and drops its content.
    ///
    /// # Errors
    ///
    /// Fails when there is no such session or another request writes to it.
    pub async fn cancel(
        &self,
        repository: &RepositoryName,
        id: &UploadId,
    ) -> Result<(), StoreError> {
        let session = self.inner.sessions.find(repository, id)?;
        let slot = hold(&session).await?;
        self.drop_session(id, slot).await
    }

    /// Ends sessions without a write for this long; returns how many.
    pub async fn expire_sessions(&self, rest: Duration) -> usize {
        let oldest = u64::try_from(rest.as_millis()).unwrap_or(u64::MAX);
        let before = self.inner.now().saturating_sub(oldest);
        let is_old = |session: &Session| session.touched.load(Ordering::Relaxed) < before;
        let old: Vec<(UploadId, Arc<Session>)> = self
            .inner
            .sessions
            .table()
            .iter()
            .filter(|(_, session)| is_old(session))
            .map(|(id, session)| (id.clone(), Arc::clone(session)))
            .collect();
        let mut n_expired = 0;
        for (id, session) in old {
            if let Ok(slot) = Arc::clone(&session.slot).try_lock_owned()
                && self.drop_session(&id, slot).await.is_ok()
            {
                n_expired += 1;
            }
        }
        n_expired
    }

    /// How many sessions there are.
    #[must_use]
    pub fn n_sessions(&self) -> usize {
        self.inner.sessions.len()
    }

    async fn drop_session(
        &self,
        id: &UploadId,
        mut slot: OwnedMutexGuard<Option<Incoming>>,
    ) -> Result<(), StoreError> {
        self.inner.sessions.table().remove(id);
        let incoming = slot.take();
        let inner = Arc::clone(&self.inner);
        let number = id.number();
        blocking(move || {
            if let Some(mut incoming) = incoming {
                incoming.remove();
            }
            inner.drop_note(&number);
            Ok(())
        })
        .await
    }
}

impl Inner {
    fn drop_note(&self, number: &str) {
        if let Err(error) = remove_if_there(&*self.disk, &note(&self.layout, number)) {
            tracing::warn!(%error, "An upload session's note cannot be removed");
        }
    }
}

/// Waits for the request before, and then keeps others away.
async fn hold(session: &Session) -> Result<OwnedMutexGuard<Option<Incoming>>, StoreError> {
    let lock = Arc::clone(&session.slot).lock_owned();
    let slot = tokio::time::timeout(PATIENCE, lock)
        .await
        .map_err(|_| StoreError::Busy)?;
    if slot.is_none() {
        return Err(StoreError::Unknown(Subject::Upload));
    }
    Ok(slot)
}

/// The suffix of the small files.
const NOTE: &str = ".session";

fn note(layout: &Layout, number: &str) -> std::path::PathBuf {
    layout.uploads().join(format!("{number}{NOTE}"))
}

fn parse(note: &[u8]) -> Option<(Algorithm, RepositoryName)> {
    let text = std::str::from_utf8(note).ok()?;
    let (algorithm, repository) = text.strip_suffix('\n')?.split_once(' ')?;
    Some((algorithm.parse().ok()?, repository.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::disk::{Access, RealDisk};
    use crate::store::Settings;

    /// What a client claims, and more than room is ever made for ahead.
    const CLAIMED: u64 = 256 << 20;

    async fn open(scratch: &tempfile::TempDir) -> Store {
        let root = scratch.path().join("store");
        let settings = Settings::new(root, "node-0".parse().unwrap());
        Store::open(settings, Arc::new(RealDisk)).await.unwrap().0
    }

    /// What a session's file takes on the disk.
    fn taken(store: &Store, id: &UploadId) -> u64 {
        let path = store.layout().uploads().join(id.number());
        512 * std::fs::metadata(path).unwrap().blocks()
    }

    #[tokio::test]
    async fn a_session_keeps_no_room_for_what_was_only_claimed() {
        let scratch = tempfile::tempdir().unwrap();
        let store = open(&scratch).await;
        let repository: RepositoryName = "a".parse().unwrap();
        let id = store.begin(&repository, Algorithm::Sha256).await.unwrap();
        let piece = Bytes::from(vec![7; 700_000]);
        let body = [Ok(piece.clone()), Err(io::ErrorKind::BrokenPipe.into())];
        let appended = store
            .append(
                &repository,
                &id,
                None,
                Some(CLAIMED),
                tokio_stream::iter(body),
            )
            .await;
        assert!(matches!(appended, Err(StoreError::Body(_))), "{appended:?}");
        assert_eq!(store.offset(&repository, &id).await.unwrap(), 700_000);
        assert!(taken(&store, &id) < 2 << 20);

        // And one that was killed meanwhile gives it back with the next start.
        let path = store.layout().uploads().join(id.number());
        let file = RealDisk.open(&path, Access::Write).unwrap();
        file.allocate(CLAIMED).unwrap();
        drop(file);
        store.close().await;
        drop(store);
        let store = open(&scratch).await;
        assert!(taken(&store, &id) < 2 << 20);
        let digest = Digest::of(Algorithm::Sha256, &piece);
        let pushed = store.finish(&repository, &id, &digest).await.unwrap();
        assert_eq!(pushed.size, 700_000);
    }
}
