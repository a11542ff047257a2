//! Content on its way out: read off the runtime's threads, one piece ahead of the one that is sent.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_stream::Stream;

use crate::disk::File;

/// A piece: large enough that the hop to another thread and a write to a socket are nothing beside
/// it, small enough that many readers fit in memory.
pub(crate) const PIECE: usize = 256 << 10;

/// Buffers that are kept for the next reader: for some dozens at once.
const MOST_KEPT: usize = 32;

/// Buffers of one piece that are used again.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    free: Mutex<Vec<Vec<u8>>>,
}

impl Buffers {
    fn take(&self) -> Vec<u8> {
        let kept = self.free.lock().pop();
        kept.unwrap_or_else(|| vec![0; PIECE])
    }

    fn give(&self, buffer: Vec<u8>) {
        let mut free = self.free.lock();
        if free.len() < MOST_KEPT {
            free.push(buffer);
        }
    }
}

/// A buffer that goes back when the last of its octets was sent.
struct Lent {
    buffer: Vec<u8>,
    length: usize,
    buffers: Arc<Buffers>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.buffer.get(..self.length).unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.buffers.give(std::mem::take(&mut self.buffer));
    }
}

/// Reads a piece of at most `wanted` octets, as long as there are any.
pub(crate) fn read_piece(
    file: &dyn File,
    at: u64,
    wanted: u64,
    buffers: &Arc<Buffers>,
) -> io::Result<Bytes> {
    let length = usize::try_from(wanted).unwrap_or(usize::MAX).min(PIECE);
    // A small blob needs no buffer of a whole piece.
    let is_small = length <= PIECE / 8;
    let mut buffer = if is_small {
        vec![0; length]
    } else {
        buffers.take()
    };
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..length)
        && !rest.is_empty()
    {
        match file.read_at(rest, at + filled as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n_read => filled += n_read,
        }
    }
    if is_small {
        return Ok(buffer.into());
    }
    Ok(Bytes::from_owner(Lent {
        buffer,
        length,
        buffers: Arc::clone(buffers),
    }))
}

/// The content of a blob in pieces of at most 256 KiB.
pub struct BlobReader {
    file: Arc<dyn File>,
    /// The bytes that were read when it was opened.
    first: Option<Bytes>,
    next: Option<JoinHandle<io::Result<Bytes>>>,
    /// The offset of the piece after the next.
    at: u64,
    end: u64,
    buffers: Arc<Buffers>,
}

impl BlobReader {
    /// Continues behind `first`, which ends at `at`.
    pub(crate) fn new(
        file: Arc<dyn File>,
        first: Bytes,
        at: u64,
        end: u64,
        buffers: Arc<Buffers>,
    ) -> Self {
        let mut reader = Self {
            file,
            first: Some(first),
            next: None,
            at,
            end,
            buffers,
        };
        reader.read_ahead();
        reader
    }

    fn read_ahead(&mut self) {
        let wanted = (self.end - self.at).min(PIECE as u64);
        if wanted == 0 {
            self.next = None;
            return;
        }
        let (file, at) = (Arc::clone(&self.file), self.at);
        let buffers = Arc::clone(&self.buffers);
        self.next = Some(spawn_blocking(move || {
            read_piece(&*file, at, wanted, &buffers)
        }));
        self.at += wanted;
    }
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
        let piece = ready!(Pin::new(next).poll(context));
        let piece = piece.unwrap_or_else(|error| Err(io::Error::other(error)));
        if piece.is_ok() {
            reader.read_ahead();
        } else {
            reader.next = None;
            reader.at = reader.end;
        }
        Poll::Ready(Some(piece))
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
