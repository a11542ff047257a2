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

use super::ages::StoreAges;
use super::incoming::{Ended, Incoming, pump};
use super::layout::{Layout, read_whole, remove_if_there};
use super::{Inner, Pushed, Store, StoreError, Subject, blocking};
use crate::disk::{Access, Disk};

/// Sessions at once. One that was left costs a small file until it is a day old.
const MOST_SESSIONS: usize = 4096;

/// Sessions of one owner at once: a quarter, and more than any client pushes layers at a time.
const SHARE: usize = MOST_SESSIONS / 4;

/// How long a session without content may rest. A client that begins one writes to it at once; one that
/// retries after a failure waits a minute at most.
const EMPTY: Duration = Duration::from_mins(5);

/// How long a request waits for the one before it, whose client may have gone while its last
/// octets were written.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most bytes of a session's small file.
const LONGEST_NOTE: u64 = 1024;

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    repository: RepositoryName,
    /// The owner, whose share it takes; empty when it was begun before a restart.
    owner: Arc<str>,
    /// Its content is a blob already: the process ended before that was stated.
    settled: Option<Digest>,
    size: Arc<AtomicU64>,
    /// When it was begun or written to, in the time of the store.
    touched: AtomicU64,
    /// None when it has ended.
    slot: Arc<AsyncMutex<Option<Incoming>>>,
}

impl Session {
    fn new(repository: RepositoryName, owner: Arc<str>, incoming: Incoming, now: u64) -> Self {
        Self {
            repository,
            owner,
            settled: None,
            size: incoming.watched_size(),
            touched: AtomicU64::new(now),
            slot: Arc::new(AsyncMutex::new(Some(incoming))),
        }
    }

    fn is_empty(&self) -> bool {
        self.size.load(Ordering::Acquire) == 0
    }

    fn touched(&self) -> u64 {
        self.touched.load(Ordering::Relaxed)
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

    /// Whether an owner may begin no more.
    fn is_full_for(&self, owner: &str) -> bool {
        let table = self.table();
        let own = table.values().filter(|it| *it.owner == *owner);
        table.len() >= MOST_SESSIONS || own.count() >= SHARE
    }

    /// The oldest session without content of the owner that has the most, if that has more than `owner`.
    fn to_give_up(&self, owner: &str) -> Option<(UploadId, Arc<Session>)> {
        let table = self.table();
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for session in table.values() {
            *counts.entry(&session.owner).or_default() += 1;
        }
        let own = counts.get(owner).copied().unwrap_or(0);
        let (largest, _) = counts
            .into_iter()
            .filter(|(_, count)| *count > own + 1)
            .max_by_key(|(name, count)| (*count, *name))?;
        let theirs = table
            .iter()
            .filter(|(_, session)| *session.owner == *largest);
        theirs
            .filter(|(_, session)| session.is_empty())
            .min_by_key(|(_, session)| session.touched())
            .map(|(id, session)| (id.clone(), Arc::clone(session)))
    }

    /// Finds the sessions that were there before a restart, and takes away what is of none.
    pub(crate) fn recover(
        &self,
        disk: &Arc<dyn Disk>,
        layout: &Layout,
        node: &NodeName,
        ages: &StoreAges,
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
            let Some((
                id,
                Note {
                    algorithm,
                    repository,
                    digest,
                },
            )) = session
            else {
                remove_if_there(&**disk, &path)?;
                remove_if_there(&**disk, &layout.uploads().join(number))?;
                continue;
            };
            let file = layout.uploads().join(number);
            let content = disk.status(&file)?;
            let last = match content {
                Some(content) => Some(content),
                None => disk.status(&path)?,
            };
            let placed = match digest {
                Some(digest) if content.is_none() => {
                    let blob = disk.status(&layout.blob(&digest))?;
                    blob.map(|blob| (digest, blob.size))
                }
                _ => None,
            };
            let incoming = Incoming::resume(Arc::clone(disk), file, algorithm)?;
            let owner = Arc::from("");
            let touched = last.map_or(0, |file| ages.time_of(file.modified));
            let mut session = Session::new(repository, owner, incoming, touched);
            if let Some((digest, size)) = placed {
                session.settled = Some(digest);
                session.size.store(size, Ordering::Release);
            }
            self.table().insert(id, Arc::new(session));
        }
        Ok(())
    }
}

impl Store {
    /// Begins a session of an owner, which is any name.
    ///
    /// An owner that has fewer than others gets a place for one that is empty, so none takes them all.
    ///
    /// # Errors
    ///
    /// Fails when there are too many or the disk fails.
    pub async fn begin(
        &self,
        owner: &str,
        repository: &RepositoryName,
        algorithm: Algorithm,
    ) -> Result<UploadId, StoreError> {
        self.inner.writable()?;
        if self.inner.sessions.is_full_for(owner) {
            self.expire_empty_sessions().await;
            if self.inner.sessions.is_full_for(owner)
                && let Some((id, session)) = self.inner.sessions.to_give_up(owner)
            {
                self.end_unless_busy(&id, &session).await;
            }
            if self.inner.sessions.is_full_for(owner) {
                return Err(StoreError::TooMany);
            }
        }
        let id = self.inner.new_id()?;
        let inner = Arc::clone(&self.inner);
        let (name, repository) = (id.clone(), repository.clone());
        let owner = Arc::from(owner);
        blocking(move || {
            let path = note(&inner.layout, &name.number());
            let text = format!("{algorithm} {repository}\n");
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
            inner.note_jump();
            let session = Session::new(repository, owner, incoming, inner.now());
            inner.sessions.table().insert(name, Arc::new(session));
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
        // Nothing follows content that is a blob already.
        if session.settled.is_some() || at.is_some_and(|at| at != offset) {
            return Err(StoreError::OutOfOrder { offset });
        }
        let ended = pump(slot, length, body).await;
        session.touched.store(self.inner.now(), Ordering::Relaxed);
        if self.inner.has_jumped() {
            self.note_time().await?;
        }
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
        if let Some(settled) = session.settled {
            return self
                .finish_settled(repository, id, digest, settled, slot)
                .await;
        }
        self.clear_way(digest).await;
        let _lock = self.inner.digests.shared([digest]).await;
        let incoming = slot.take().ok_or(StoreError::Unknown(Subject::Upload))?;
        self.inner.sessions.table().remove(id);
        let inner = Arc::clone(&self.inner);
        let (digest, number) = (*digest, id.number());
        let size = blocking(move || {
            inner.note_digest(&number, &digest);
            let place = || incoming.publish(&inner.layout, &digest);
            let published = inner.naming.name(&digest, place);
            if published.is_err() {
                inner.drop_note(&number);
            }
            let size = published?;
            inner.arrived(&digest, size);
            Ok(size)
        })
        .await?;
        let pushed = self.state_blob(repository, &digest, size).await?;
        self.drop_note(id).await?;
        Ok(pushed)
    }

    /// Finishes a session whose content a process before this one made a blob.
    async fn finish_settled(
        &self,
        repository: &RepositoryName,
        id: &UploadId,
        digest: &Digest,
        settled: Digest,
        slot: OwnedMutexGuard<Option<Incoming>>,
    ) -> Result<Pushed, StoreError> {
        if settled != *digest {
            self.drop_session(id, slot).await?;
            return Err(StoreError::DigestMismatch { actual: settled });
        }
        let linked = self.link(repository, digest).await;
        self.drop_session(id, slot).await?;
        match linked {
            Err(StoreError::Unknown(_)) => Err(StoreError::Unknown(Subject::Upload)),
            linked => linked,
        }
    }

    async fn drop_note(&self, id: &UploadId) -> Result<(), StoreError> {
        let (inner, number) = (Arc::clone(&self.inner), id.number());
        blocking(move || {
            inner.drop_note(&number);
            Ok(())
        })
        .await
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
        self.expire(rest, |_| true).await
    }

    /// Ends sessions without content that have rested for minutes; returns how many.
    pub async fn expire_empty_sessions(&self) -> usize {
        self.expire(EMPTY, Session::is_empty).await
    }

    async fn expire(&self, rest: Duration, is_meant: impl Fn(&Session) -> bool) -> usize {
        let oldest = u64::try_from(rest.as_millis()).unwrap_or(u64::MAX);
        let before = self.inner.now().saturating_sub(oldest);
        let is_old = |session: &Session| session.touched() < before && is_meant(session);
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
            n_expired += usize::from(self.end_unless_busy(&id, &session).await);
        }
        n_expired
    }

    /// Ends a session that no request writes to; true when it did.
    async fn end_unless_busy(&self, id: &UploadId, session: &Session) -> bool {
        match Arc::clone(&session.slot).try_lock_owned() {
            Ok(slot) => self.drop_session(id, slot).await.is_ok(),
            Err(_) => false,
        }
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
    /// Notes the digest that a session's content is about to be stored under. Should the process end before
    /// that is stated, the session can be finished all the same.
    fn note_digest(&self, number: &str, digest: &Digest) {
        let noted = self
            .disk
            .open(&note(&self.layout, number), Access::Write)
            .and_then(|file| {
                let end = file.size()?;
                file.write_at(&[Bytes::from(format!("{digest}\n"))], end)
            });
        if let Err(error) = noted {
            tracing::debug!(%error, "The digest of an upload session cannot be noted");
        }
    }

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

/// A small file's content.
struct Note {
    algorithm: Algorithm,
    repository: RepositoryName,
    /// The digest that the content was about to be stored under.
    digest: Option<Digest>,
}

fn parse(note: &[u8]) -> Option<Note> {
    let text = std::str::from_utf8(note).ok()?;
    let (first, rest) = text.split_once('\n')?;
    let (algorithm, repository) = first.split_once(' ')?;
    // A line that a crash has torn says nothing.
    let digest = rest.strip_suffix('\n').and_then(|line| line.parse().ok());
    Some(Note {
        algorithm: algorithm.parse().ok()?,
        repository: repository.parse().ok()?,
        digest,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::disk::RealDisk;
    use crate::disk::faulty::{End, Faults, FaultyDisk};
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
        let id = store
            .begin("client", &repository, Algorithm::Sha256)
            .await
            .unwrap();
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

    async fn open_on(disk: &FaultyDisk) -> Store {
        let settings = Settings {
            index: crate::store::IndexKind::Memory,
            ..Settings::new("/store".into(), "node-0".parse().unwrap())
        };
        let opened = Store::open(settings, Arc::new(disk.clone())).await;
        opened.unwrap().0
    }

    #[tokio::test]
    async fn one_owner_takes_no_more_than_its_share_and_others_get_places() {
        let store = open_on(&FaultyDisk::new(1)).await;
        let repository: RepositoryName = "a".parse().unwrap();
        let begin = async |owner: &str| store.begin(owner, &repository, Algorithm::Sha256).await;
        for _ in 0..SHARE {
            begin("greedy").await.unwrap();
        }
        let more = begin("greedy").await;
        assert!(matches!(more, Err(StoreError::TooMany)), "{more:?}");
        // Many that are greedy fill the table, and another client pushes all the same.
        for number in 0..MOST_SESSIONS - SHARE {
            begin(&format!("greedy {}", number % 4)).await.unwrap();
        }
        for _ in 0..100 {
            let id = begin("modest").await.unwrap();
            let body = tokio_stream::iter([Ok(Bytes::from_static(b"layer"))]);
            let appended = store.append(&repository, &id, None, None, body).await;
            assert_eq!(appended.unwrap(), 5);
        }
        assert_eq!(store.n_sessions(), MOST_SESSIONS);
        let modest = store.inner.sessions.table();
        let modest = modest.values().filter(|it| &*it.owner == "modest");
        assert_eq!(modest.count(), 100);
    }

    #[tokio::test]
    async fn sessions_without_content_end_in_minutes() {
        let store = open_on(&FaultyDisk::new(2)).await;
        let repository: RepositoryName = "a".parse().unwrap();
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(
                store
                    .begin("a", &repository, Algorithm::Sha256)
                    .await
                    .unwrap(),
            );
        }
        let body = tokio_stream::iter([Ok(Bytes::from_static(b"layer"))]);
        let appended = store.append(&repository, &ids[0], None, None, body).await;
        appended.unwrap();
        let minutes = u64::try_from(EMPTY.as_millis()).unwrap() + 1;
        for id in &ids[..2] {
            let session = store.inner.sessions.find(&repository, id).unwrap();
            session.touched.fetch_sub(minutes, Ordering::Relaxed);
        }
        assert_eq!(store.expire_empty_sessions().await, 1);
        assert_eq!(store.offset(&repository, &ids[0]).await.unwrap(), 5);
        assert_eq!(store.offset(&repository, &ids[2]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_session_that_a_crash_ended_at_any_step_is_finished_by_the_next_request() {
        let repository: RepositoryName = "a".parse().unwrap();
        let digest = Digest::of(Algorithm::Sha256, b"layer");
        let mut n_settled = 0;
        for step in 1.. {
            let disk = FaultyDisk::new(3);
            let store = open_on(&disk).await;
            let begun = store.begin("a", &repository, Algorithm::Sha256).await;
            let id = begun.unwrap();
            let body = tokio_stream::iter([Ok(Bytes::from_static(b"layer"))]);
            let appended = store.append(&repository, &id, None, None, body).await;
            appended.unwrap();
            disk.set_faults(Faults {
                last_operation: Some(step),
                ..Faults::default()
            });
            let finished = store.finish(&repository, &id, &digest).await;
            if !disk.is_over() {
                finished.unwrap();
                break;
            }
            drop(store);
            let disk = disk.next_life(End::Kill, Faults::default());
            let store = open_on(&disk).await;
            // One that is not there was acknowledged, but for the answer.
            if let Ok(session) = store.inner.sessions.find(&repository, &id) {
                n_settled += usize::from(session.settled.is_some());
                assert_eq!(store.offset(&repository, &id).await.unwrap(), 5, "{step}");
                if session.settled.is_some() && step % 2 == 0 {
                    let other = Digest::of(Algorithm::Sha256, b"other");
                    let wrong = store.finish(&repository, &id, &other).await;
                    let is_wrong = matches!(wrong, Err(StoreError::DigestMismatch { .. }));
                    assert!(is_wrong, "{step}: {wrong:?}");
                    continue;
                }
                let pushed = store.finish(&repository, &id, &digest).await;
                assert_eq!(pushed.unwrap().size, 5, "{step}");
            }
            let size = store.blob(&repository, &digest).await.unwrap();
            assert_eq!(size, Some(5), "{step}");
            assert_eq!(store.n_sessions(), 0);
            let uploads = store.inner.disk.list(&store.inner.layout.uploads());
            assert_eq!(uploads.unwrap().unwrap(), Vec::<String>::new(), "{step}");
        }
        assert!(n_settled > 2, "{n_settled}");
    }
}
