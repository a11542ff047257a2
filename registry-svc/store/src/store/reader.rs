//! Content on its way out: read off the runtime's threads, one piece ahead of the one that is sent.

use std::fmt;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use oci::digest::{Digest, Hasher};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_stream::Stream;

use super::damage::{Reason, Verdict};
use super::pulls::Pull;
use super::{Inner, Purpose, Store, StoreError, Subject, blocking};
use crate::disk::{ALIGNMENT, Access, Aligned, File, Status};

/// A piece: large enough that the hop to another thread and a write to a socket are nothing beside
/// it, small enough that many readers fit in memory.
const PIECE: usize = 256 << 10;

/// Buffers that are kept for the next reader: for some dozens at once.
const MOST_KEPT: usize = 32;

/// Buffers of one piece that are used again.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    free: Mutex<Vec<Aligned>>,
}

impl Buffers {
    fn take(&self) -> Aligned {
        let kept = self.free.lock().pop();
        kept.unwrap_or_else(|| Aligned::new(PIECE))
    }

    fn give(&self, buffer: Aligned) {
        let mut free = self.free.lock();
        if free.len() < MOST_KEPT {
            free.push(buffer);
        }
    }
}

/// A buffer that goes back when the last of its octets was sent.
struct Lent {
    buffer: Aligned,
    length: usize,
    buffers: Arc<Buffers>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.buffer.octets().get(..self.length).unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.buffers.give(std::mem::take(&mut self.buffer));
    }
}

/// The end of the piece that begins at `at`: at a multiple of its length, where reads past the page cache can continue.
fn piece_end(at: u64, end: u64) -> u64 {
    let piece = PIECE as u64;
    end.min((at / piece + 1) * piece)
}

/// Reads all of `piece`, which is no longer than a buffer.
fn read_piece(
    file: &dyn File,
    piece: Range<u64>,
    is_past_cache: bool,
    buffers: &Arc<Buffers>,
) -> io::Result<Bytes> {
    let length = piece.end.saturating_sub(piece.start);
    let length = usize::try_from(length).unwrap_or(usize::MAX).min(PIECE);
    // A small blob needs no buffer of a whole piece, and no disk is slow with it.
    if length <= PIECE / 8 {
        let mut buffer = vec![0; length];
        fill(&mut buffer, length, |rest, filled| {
            file.read_at(rest, piece.start + filled as u64)
        })?;
        return Ok(buffer.into());
    }
    let mut buffer = buffers.take();
    // Past the page cache whole blocks are read; the last one of a file may be a part of one.
    let blocks = length.next_multiple_of(ALIGNMENT).min(PIECE);
    let memory = buffer.octets_mut().get_mut(..blocks).unwrap_or_default();
    fill(memory, length, |rest, filled| {
        let at = piece.start + filled as u64;
        match is_past_cache {
            true => file.read_block(rest, at),
            false => file.read_at(rest, at),
        }
    })?;
    Ok(Bytes::from_owner(Lent {
        buffer,
        length,
        buffers: Arc::clone(buffers),
    }))
}

/// Reads until at least `length` octets are there.
fn fill(
    buffer: &mut [u8],
    length: usize,
    read: impl Fn(&mut [u8], usize) -> io::Result<usize>,
) -> io::Result<()> {
    let mut filled = 0;
    while filled < length {
        let rest = buffer.get_mut(filled..).unwrap_or_default();
        match read(rest, filled)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n_read => filled += n_read,
        }
    }
    Ok(())
}

//--- The care for what is sent

/// The longest file that is hashed before the first part of it is sent: some milliseconds of work, also
/// on a slow disk.
const SMALL: u64 = 4 << 20;

/// An open file of content.
#[derive(Debug)]
struct Source {
    inner: Arc<Inner>,
    digest: Digest,
    status: Status,
    file: Box<dyn File>,
    pull: Pull,
}

impl Source {
    /// Reads a piece; a file that cannot be read is not read for clients after that.
    fn read(&self, piece: Range<u64>) -> io::Result<Bytes> {
        let Self { inner, digest, .. } = self;
        let piece = read_piece(&*self.file, piece, self.pull.is_past_cache, &inner.buffers);
        if piece.is_err() {
            inner.refuse(digest, Reason::Unreadable, Some(self.status));
        }
        piece
    }

    /// Whether the file was hashed, and is whole.
    fn is_verified(&self) -> bool {
        self.inner.damage.is_verified(&self.digest, &self.status)
    }
}

/// The care that a read takes not to send damaged content as whole.
enum Care {
    /// The file is whole, or nothing of it is read.
    Judged,
    /// The read is of the whole file, and hashes it: the last piece comes if the digest is right.
    Hashed(Box<Hasher>),
    /// A task hashes the file; the last piece waits for its verdict.
    Checked(watch::Receiver<Option<Verdict>>),
}

impl Care {
    /// Takes a piece on its way out; fails with the last one if the file is not what its digest says.
    fn pass(self, piece: &Bytes, source: &Source) -> io::Result<Self> {
        let Self::Hashed(mut hasher) = self else {
            return Ok(self);
        };
        hasher.update(piece);
        if hasher.n_octets() < source.status.size {
            return Ok(Self::Hashed(hasher));
        }
        let Source { inner, digest, .. } = source;
        if hasher.finish() == *digest {
            inner.verify(digest, source.status);
            return Ok(Self::Judged);
        }
        inner.refuse(digest, Reason::Digest, Some(source.status));
        Err(io::ErrorKind::InvalidData.into())
    }
}

impl Store {
    /// A part of content that is on the disk; the caller has asked for its size. The last piece of a
    /// file that was not hashed since the start comes only if the file has the digest.
    ///
    /// # Errors
    ///
    /// Fails when the content is not there whole, or the disk fails.
    pub async fn read(
        &self,
        digest: &Digest,
        part: Range<u64>,
        purpose: Purpose,
    ) -> Result<BlobReader, StoreError> {
        let (store, digest) = (self.clone(), *digest);
        blocking(move || store.begin_read(digest, part, purpose)).await
    }

    /// Opens the file of content and reads the first piece; blocks.
    fn begin_read(
        &self,
        digest: Digest,
        part: Range<u64>,
        purpose: Purpose,
    ) -> Result<BlobReader, StoreError> {
        let inner = &self.inner;
        let unknown = || StoreError::Unknown(Subject::Blob);
        let unreadable = |error| {
            inner.refuse(&digest, Reason::Unreadable, None);
            StoreError::io("open a blob")(error)
        };
        let path = inner.layout.blob(&digest);
        let file = match inner.disk.open(&path, Access::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                inner.end_lease(&digest);
                inner.lose(&digest);
                return Err(unknown());
            }
            file => file.map_err(unreadable)?,
        };
        let status = file.status().map_err(unreadable)?;
        if !inner.is_fit(&digest, &status) {
            inner.end_lease(&digest);
            return Err(unknown());
        }
        if part.end > status.size {
            // The caller knows the size of the content.
            inner.refuse(&digest, Reason::Size, Some(status));
            return Err(unknown());
        }
        let source = Arc::new(Source {
            inner: Arc::clone(inner),
            digest,
            status,
            file,
            pull: inner.pulls.begin(digest, &part, purpose),
        });
        let care = self.care(&source, &part)?;
        let Range { start: at, end } = part;
        let first_end = match care {
            // All of a small part may have to wait.
            Care::Checked(_) => at,
            Care::Judged | Care::Hashed(_) => piece_end(at, end),
        };
        let first = source
            .read(at..first_end)
            .map_err(StoreError::io("read a blob"))?;
        let care = care.pass(&first, &source).map_err(|_| unknown())?;
        Ok(BlobReader::new(source, first, first_end..end, care))
    }

    /// Decides on the care of a read.
    ///
    /// A part cannot be hashed as it passes. The whole of a small file is hashed before its first part.
    /// A part of a large one is sent at once, but for its last piece, while a task hashes the file: a
    /// client that resumes a pull would else wait for a whole disk read, or the part would come from
    /// another node after each start, though nearly every file is whole.
    fn care(&self, source: &Source, part: &Range<u64>) -> Result<Care, StoreError> {
        let Source { digest, status, .. } = source;
        if source.is_verified() || part.is_empty() {
            return Ok(Care::Judged);
        }
        if *part == (0..status.size) {
            let hasher = Hasher::new(digest.algorithm());
            return Ok(Care::Hashed(Box::new(hasher)));
        }
        if status.size > SMALL {
            return Ok(Care::Checked(self.check(digest)));
        }
        self.inner.judge(digest);
        match source.is_verified() {
            true => Ok(Care::Judged),
            false => Err(StoreError::Unknown(Subject::Blob)),
        }
    }
}

//--- Reading

/// The content of a blob in pieces of at most 256 KiB.
pub struct BlobReader {
    source: Arc<Source>,
    /// The bytes that were read when it was opened.
    first: Option<Bytes>,
    next: Option<JoinHandle<io::Result<(Bytes, Care)>>>,
    /// The offset of the piece after the next.
    at: u64,
    end: u64,
}

impl BlobReader {
    /// Continues behind `first` with `rest`.
    fn new(source: Arc<Source>, first: Bytes, rest: Range<u64>, care: Care) -> Self {
        let mut reader = Self {
            source,
            first: Some(first),
            next: None,
            at: rest.start,
            end: rest.end,
        };
        reader.read_ahead(care);
        reader
    }

    fn read_ahead(&mut self, care: Care) {
        if self.at >= self.end {
            self.next = None;
            return;
        }
        let source = Arc::clone(&self.source);
        let range = self.at..piece_end(self.at, self.end);
        self.at = range.end;
        let is_last = self.at == self.end;
        let reading = move || {
            let piece = source.read(range)?;
            let care = care.pass(&piece, &source)?;
            Ok((piece, care))
        };
        self.next = Some(match is_last {
            true => tokio::spawn(last(Arc::clone(&self.source), reading)),
            false => spawn_blocking(reading),
        });
    }

    fn give_up(&mut self, error: io::Error) -> io::Result<Bytes> {
        self.next = None;
        self.at = self.end;
        Err(error)
    }
}

/// Reads the last piece, and waits for the verdict of a task that hashes the file.
async fn last(
    source: Arc<Source>,
    reading: impl FnOnce() -> io::Result<(Bytes, Care)> + Send + 'static,
) -> io::Result<(Bytes, Care)> {
    let read = spawn_blocking(reading).await.map_err(io::Error::other)??;
    if let (_, Care::Checked(verdict)) = &read {
        let mut verdict = verdict.clone();
        // A check that ended without a verdict has verified nothing.
        drop(verdict.wait_for(Option::is_some).await);
        if !source.is_verified() {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(read)
}

impl Stream for BlobReader {
    type Item = io::Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let reader = self.get_mut();
        if let Some(first) = reader.first.take()
            && !first.is_empty()
        {
            return Poll::Ready(Some(Ok(first)));
        }
        let Some(next) = &mut reader.next else {
            return Poll::Ready(None);
        };
        let read = ready!(Pin::new(next).poll(context));
        Poll::Ready(Some(match read {
            Ok(Ok((piece, care))) => {
                reader.read_ahead(care);
                Ok(piece)
            }
            Ok(Err(error)) => reader.give_up(error),
            Err(error) => reader.give_up(io::Error::other(error)),
        }))
    }
}

impl fmt::Debug for BlobReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("BlobReader")
            .field("at", &self.at)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}
