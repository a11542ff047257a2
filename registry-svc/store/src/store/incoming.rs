//! Content on its way in: hashed while it is written, in batches, off the runtime's threads.
//!
//! Gathers pieces of a body until they are worth a hop to a blocking thread, which hashes them and
//! writes them, whole blocks past the page cache, while the next are gathered. The bytes are in the
//! file of a session, or in one that is deleted with its [`Incoming`].

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use oci::digest::{Algorithm, Digest, Hasher};
use tokio::sync::OwnedMutexGuard;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_stream::{Stream, StreamExt as _};

use super::StoreError;
use super::block::Block;
use super::layout::{Layout, remove_if_there};
use crate::disk::{ALIGNMENT, Access, Disk, File};

/// The size of one batch: large enough that the hop to another thread costs little beside hashing
/// it, small enough to stay in the processor's cache.
const BATCH: usize = 512 << 10;

/// Pieces that are gathered at most, however small.
const BATCH_PIECES: usize = 1024;

/// How far ahead of what has come room is made: enough that files are in few pieces, and no more than
/// a client may well claim and never send.
const AHEAD: u64 = 16 << 20;

/// The size of one read when content on the disk is hashed.
const CHUNK: usize = 256 << 10;

/// A file that content is written to.
#[derive(Debug)]
pub(crate) struct Incoming {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// None until the first octet comes.
    file: Option<Arc<dyn File>>,
    /// How many octets there are, in the file and in the block; others may look.
    size: Arc<AtomicU64>,
    /// How many of them are in the file.
    n_written: u64,
    /// The bytes behind them.
    block: Option<Block>,
    /// The hash of all bytes; none when some came before a restart.
    hasher: Option<Hasher>,
    algorithm: Algorithm,
    /// How many octets there will be, as far as it is said.
    expected: u64,
    /// Octets that room was made for.
    allocated: u64,
}

impl Incoming {
    /// Nothing has come yet.
    pub(crate) fn new(disk: Arc<dyn Disk>, path: PathBuf, algorithm: Algorithm) -> Self {
        Self {
            disk,
            path,
            file: None,
            size: Arc::default(),
            n_written: 0,
            block: None,
            hasher: Some(Hasher::new(algorithm)),
            algorithm,
            expected: 0,
            allocated: 0,
        }
    }

    /// A file that was begun before a restart.
    pub(crate) fn resume(
        disk: Arc<dyn Disk>,
        path: PathBuf,
        algorithm: Algorithm,
    ) -> io::Result<Self> {
        let mut incoming = Self::new(disk, path, algorithm);
        match incoming.disk.open(&incoming.path, Access::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            file => {
                let file: Arc<dyn File> = file?.into();
                let size = file.size()?;
                // Room may have been made for what did not come.
                file.truncate(size)?;
                incoming.size.store(size, Ordering::Release);
                incoming.n_written = size;
                incoming.file = Some(file);
                incoming.hasher = (size == 0).then(|| Hasher::new(algorithm));
            }
        }
        Ok(incoming)
    }

    /// How many octets there are.
    pub(crate) fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    /// The same, to look at while they come.
    pub(crate) fn watched_size(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.size)
    }

    /// `more` octets are said to come: room is made for them little by little.
    fn expect(&mut self, more: u64) {
        self.expected = self.size().saturating_add(more);
    }

    /// Makes room for `more` octets, and for some of those that are expected after them.
    fn make_room(&mut self, more: u64) -> io::Result<()> {
        let needed = self.size().saturating_add(more);
        if needed > self.allocated && needed <= self.expected {
            let wanted = needed.saturating_add(AHEAD).min(self.expected);
            self.file()?.allocate(wanted)?;
            self.allocated = wanted;
        }
        Ok(())
    }

    /// Gives back room that was made and is not used; everything is in the file.
    fn trim(&mut self) -> io::Result<()> {
        let size = self.size();
        if self.allocated > size {
            self.file()?.truncate(size)?;
            self.allocated = size;
        }
        Ok(())
    }

    /// Adds pieces. When that fails, those of them that are in the file stay.
    pub(crate) fn write(&mut self, pieces: &[Bytes]) -> io::Result<()> {
        let more = pieces.iter().map(|piece| piece.len() as u64).sum();
        let room = self.make_room(more);
        let mut pieces = pieces.iter();
        let result = room.and_then(|()| {
            pieces.try_for_each(|piece| {
                if let Some(hasher) = &mut self.hasher {
                    hasher.update(piece);
                }
                self.put(piece)
            })
        });
        self.settle(result)
    }

    /// Has everything in the file, and holds no memory any more.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let result = match self.block.take() {
            Some(block) => self.write_out(block.octets()),
            None => Ok(()),
        };
        self.settle(result)
    }

    fn put(&mut self, mut octets: &[u8]) -> io::Result<()> {
        let past = self.n_written % ALIGNMENT as u64;
        if past != 0 && self.block.is_none() {
            let to_go = usize::try_from(ALIGNMENT as u64 - past).unwrap_or(ALIGNMENT);
            let (first, rest) = octets.split_at(to_go.min(octets.len()));
            self.write_out(first)?;
            octets = rest;
        }
        while !octets.is_empty() {
            let mut block = self.block.take().unwrap_or_else(Block::new);
            octets = block.take(octets);
            if block.is_full() {
                self.write_out(block.octets())?;
                block.clear();
            }
            self.block = Some(block);
        }
        Ok(())
    }

    fn write_out(&mut self, octets: &[u8]) -> io::Result<()> {
        let at = self.n_written;
        self.file()?.write_block(octets, at)?;
        self.n_written = at + octets.len() as u64;
        Ok(())
    }

    /// Counts the bytes in the file. After a failure the file has to be hashed again.
    fn settle(&mut self, result: io::Result<()>) -> io::Result<()> {
        if result.is_err() {
            self.block = None;
            self.hasher = None;
        }
        let gathered = self.block.as_ref().map_or(0, |block| block.octets().len());
        let size = self.n_written + gathered as u64;
        self.size.store(size, Ordering::Release);
        result
    }

    /// Names the content by its digest, durably; returns its size. Afterwards there is no file
    /// under the old name, also when it failed.
    pub(crate) fn publish(mut self, layout: &Layout, digest: &Digest) -> Result<u64, StoreError> {
        let result = self
            .flush()
            .map_err(StoreError::io("store content"))
            .and_then(|()| self.check(digest))
            .and_then(|()| {
                self.place(layout, digest)
                    .map_err(StoreError::io("store content"))
            });
        if result.is_err() {
            self.remove();
        }
        result
    }

    /// Compares the content with a digest and closes its file, which is not durable yet and has no name; returns its
    /// size. Nothing is left of it when that fails.
    pub(crate) fn close(mut self, digest: &Digest) -> Result<(PathBuf, u64), StoreError> {
        let sealed = |incoming: &mut Self| {
            incoming.trim()?;
            incoming.file()?.seal()
        };
        let result = self
            .flush()
            .map_err(StoreError::io("store content"))
            .and_then(|()| self.check(digest))
            .and_then(|()| sealed(&mut self).map_err(StoreError::io("store content")));
        match result {
            Ok(()) => Ok((self.path.clone(), self.size())),
            Err(error) => {
                self.remove();
                Err(error)
            }
        }
    }

    /// The order is what makes the name stand for whole content, whenever the power goes.
    fn place(&mut self, layout: &Layout, digest: &Digest) -> io::Result<u64> {
        let size = self.size();
        self.trim()?;
        let file = self.file()?;
        file.seal()?;
        file.sync()?;
        self.disk.rename(&self.path, &layout.blob(digest))?;
        let shard = layout.shard(digest.algorithm(), digest.shard());
        self.disk.sync_directory(&shard)?;
        Ok(size)
    }

    /// Compares the content with a digest.
    fn check(&mut self, digest: &Digest) -> Result<(), StoreError> {
        let algorithm = digest.algorithm();
        let hasher = match self.hasher.take() {
            Some(hasher) if algorithm == self.algorithm => hasher,
            _ => self
                .hash(algorithm)
                .map_err(StoreError::io("read an upload"))?,
        };
        let actual = hasher.finish();
        if actual == *digest {
            Ok(())
        } else {
            Err(StoreError::DigestMismatch { actual })
        }
    }

    fn hash(&mut self, algorithm: Algorithm) -> io::Result<Hasher> {
        let size = self.size();
        hash_file(&**self.file()?, size, algorithm)
    }

    fn file(&mut self) -> io::Result<&Arc<dyn File>> {
        match &mut self.file {
            Some(file) => Ok(file),
            file @ None => Ok(file.insert(self.disk.create(&self.path)?.into())),
        }
    }

    /// Takes the file away.
    pub(crate) fn remove(&mut self) {
        self.file = None;
        if let Err(error) = remove_if_there(&*self.disk, &self.path) {
            tracing::warn!(%error, "An upload's file cannot be removed");
        }
    }
}

/// Hashes the first `size` octets of a file.
pub(crate) fn hash_file(file: &dyn File, size: u64, algorithm: Algorithm) -> io::Result<Hasher> {
    let mut hasher = Hasher::new(algorithm);
    let mut buffer = vec![0; CHUNK];
    while hasher.n_octets() < size {
        let left = usize::try_from(size - hasher.n_octets()).unwrap_or(usize::MAX);
        let part = buffer.get_mut(..left.min(CHUNK)).unwrap_or_default();
        match file.read_at(part, hasher.n_octets())? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n_read => hasher.update(part.get(..n_read).unwrap_or_default()),
        }
    }
    Ok(hasher)
}

/// An [`Incoming`] of no session: its file goes with it unless it was published.
#[derive(Debug)]
pub(crate) struct TempBlob(Option<Incoming>);

impl TempBlob {
    pub(crate) fn new(incoming: Incoming) -> Self {
        Self(Some(incoming))
    }

    /// See [`Incoming::publish`].
    pub(crate) fn publish(mut self, layout: &Layout, digest: &Digest) -> Result<u64, StoreError> {
        match self.0.take() {
            Some(incoming) => incoming.publish(layout, digest),
            None => Err(StoreError::Busy),
        }
    }

    /// See [`Incoming::close`].
    pub(crate) fn close(mut self, digest: &Digest) -> Result<(PathBuf, u64), StoreError> {
        match self.0.take() {
            Some(incoming) => incoming.close(digest),
            None => Err(StoreError::Busy),
        }
    }
}

impl Drop for TempBlob {
    fn drop(&mut self) {
        let Some(mut incoming) = self.0.take() else {
            return;
        };
        if incoming.file.is_none() {
            return;
        }
        // Taking a large file away takes its time, and this may be a thread that serves others.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || incoming.remove())),
            Err(_) => incoming.remove(),
        }
    }
}

/// Lends out what is written to.
pub(crate) trait Slot: Send + 'static {
    /// The content that is written to.
    fn incoming(&mut self) -> Option<&mut Incoming>;
}

impl Slot for TempBlob {
    fn incoming(&mut self) -> Option<&mut Incoming> {
        self.0.as_mut()
    }
}

impl Slot for OwnedMutexGuard<Option<Incoming>> {
    fn incoming(&mut self) -> Option<&mut Incoming> {
        self.as_mut()
    }
}

/// How a body ended.
pub(crate) enum Ended<S> {
    /// At its end.
    Well(S),
    /// Its sender failed: all earlier bytes are written.
    Early(S, io::Error),
    /// The disk failed.
    Badly(S, io::Error),
    /// The thread that wrote is gone, and what it held.
    Lost,
}

/// Writes a body to a slot; room for its `length` is made ahead of what has come.
///
/// When the future is dropped, what is being written is written to its end, and the slot is free
/// again then.
pub(crate) async fn pump<S: Slot>(
    slot: S,
    length: Option<u64>,
    body: impl Stream<Item = io::Result<Bytes>> + Send,
) -> Ended<S> {
    tokio::pin!(body);
    let mut at_work = AtWork::Idle(slot, length);
    let mut gathered = Vec::new();
    let mut weight = 0;
    let failure = loop {
        let piece = match body.next().await {
            Some(Ok(piece)) => piece,
            Some(Err(error)) => break Some(error),
            None => break None,
        };
        if piece.is_empty() {
            continue;
        }
        weight += piece.len();
        gathered.push(piece);
        if weight >= BATCH || gathered.len() >= BATCH_PIECES {
            at_work = match at_work.next(std::mem::take(&mut gathered)).await {
                Ok(at_work) => at_work,
                Err(ended) => return ended,
            };
            weight = 0;
        }
    };
    let at_work = match at_work.last(gathered).await {
        Ok(at_work) => at_work,
        Err(ended) => return ended,
    };
    match (at_work.idle().await, failure) {
        (Ok((slot, _)), None) => Ended::Well(slot),
        (Ok((slot, _)), Some(error)) => Ended::Early(slot, error),
        (Err(ended), _) => ended,
    }
}

/// The slot, or the task that writes to it.
enum AtWork<S> {
    /// No task does; the length that the slot does not have yet.
    Idle(S, Option<u64>),
    Writing(JoinHandle<(S, io::Result<()>)>),
}

impl<S: Slot> AtWork<S> {
    /// Begins to write pieces when those before are written.
    async fn next(self, pieces: Vec<Bytes>) -> Result<Self, Ended<S>> {
        self.write(pieces, Incoming::write).await
    }

    /// The same with the last of them: acknowledged bytes are in the file.
    async fn last(self, pieces: Vec<Bytes>) -> Result<Self, Ended<S>> {
        let write = |incoming: &mut Incoming, pieces: &[Bytes]| {
            incoming.write(pieces)?;
            incoming.flush()?;
            incoming.trim()
        };
        self.write(pieces, write).await
    }

    async fn write(
        self,
        pieces: Vec<Bytes>,
        write: impl FnOnce(&mut Incoming, &[Bytes]) -> io::Result<()> + Send + 'static,
    ) -> Result<Self, Ended<S>> {
        let (mut slot, length) = self.idle().await?;
        Ok(Self::Writing(spawn_blocking(move || {
            let result = match slot.incoming() {
                Some(incoming) => {
                    if let Some(length) = length {
                        incoming.expect(length);
                    }
                    write(incoming, &pieces)
                }
                None => Err(io::ErrorKind::NotFound.into()),
            };
            (slot, result)
        })))
    }

    async fn idle(self) -> Result<(S, Option<u64>), Ended<S>> {
        match self {
            Self::Idle(slot, length) => Ok((slot, length)),
            Self::Writing(writing) => match writing.await {
                Ok((slot, Ok(()))) => Ok((slot, None)),
                Ok((slot, Err(error))) => Err(Ended::Badly(slot, error)),
                Err(_) => Err(Ended::Lost),
            },
        }
    }
}
