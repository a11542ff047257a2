//! Writes dnstap messages to a Unix socket or a file, in a thread of its own.
//!
//! ```text
//! threads of the server ── Writer::send ──► queue (bounded) ── one thread ──► socket | file
//!                              └── full: dropped, counted
//! ```
//!
//! A sender never waits for the reader: a message without room is dropped and counted. A socket that is not there is tried again every
//! second, and so is a file that cannot be written.

#![warn(missing_docs)]

mod output;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dnstap::message::Server;
use dnstap::{Event, frames};
use parking_lot::{Condvar, Mutex};

use crate::output::Output;

/// The most octets that wait: a second of a busy server.
const MAX_QUEUE: usize = 8 << 20;
/// The time between two attempts to reach the socket or the file.
const RETRY: Duration = Duration::from_secs(1);

/// The place of the messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A Unix socket on which a program listens.
    Socket(PathBuf),
    /// A file; one that was there before, or is full, is moved to `FILE.1`.
    File {
        /// Its path.
        path: PathBuf,
        /// The octets at which it is full.
        max_size: u64,
    },
}

/// Figures of a writer.
#[derive(Debug, Default)]
pub struct Counts {
    written: AtomicU64,
    dropped: AtomicU64,
    is_open: AtomicBool,
}

impl Counts {
    /// Messages that were written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Messages that had no room, or were lost with their stream.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether the socket or the file takes messages.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    fn add(counter: &AtomicU64, n: usize) {
        counter.fetch_add(u64::try_from(n).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct Queue {
    /// Data frames, one behind the other.
    octets: Vec<u8>,
    n_messages: usize,
    is_stopping: bool,
}

#[derive(Debug)]
struct Shared {
    server: Server,
    queue: Mutex<Queue>,
    ready: Condvar,
    counts: Arc<Counts>,
}

/// A running writer. Dropping it stops it.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(destination: Destination, server: Server) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            server,
            queue: Mutex::default(),
            ready: Condvar::new(),
            counts: Arc::default(),
        });
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("dnstap".to_owned())
            .spawn(move || of_thread.run(&destination))?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Passes on a message, if there is room.
    pub fn send(&self, event: &Event<'_>) {
        let message = event.encode(&self.shared.server);
        let mut queue = self.shared.queue.lock();
        if queue.is_stopping || queue.octets.len() + message.len() > MAX_QUEUE {
            Counts::add(&self.shared.counts.dropped, 1);
            return;
        }
        frames::append_data(&message, &mut queue.octets);
        queue.n_messages += 1;
        let is_first = queue.n_messages == 1;
        drop(queue);
        if is_first {
            self.shared.ready.notify_one();
        }
    }

    /// Writes what waits, and ends the stream. Later messages are lost.
    pub fn stop(&self) {
        self.shared.queue.lock().is_stopping = true;
        self.shared.ready.notify_one();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("The thread of dnstap has panicked");
        }
    }

    /// Its figures.
    #[must_use]
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.shared.counts)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn run(&self, destination: &Destination) {
        let mut is_failing = false;
        loop {
            match Output::open(destination) {
                Ok(mut output) => {
                    tracing::info!(to = %output, "Writing dnstap messages");
                    is_failing = false;
                    self.counts.is_open.store(true, Ordering::Relaxed);
                    let ended = self.pump(&mut output);
                    self.counts.is_open.store(false, Ordering::Relaxed);
                    match ended {
                        Ok(()) => return,
                        Err(error) => tracing::warn!(to = %output, %error, "dnstap is interrupted"),
                    }
                }
                Err(error) if is_failing => tracing::debug!(%error, "dnstap is still away"),
                Err(error) => {
                    is_failing = true;
                    tracing::warn!(%error, "dnstap messages cannot be written: trying again");
                }
            }
            if self.rest() {
                let lost = self.queue.lock().n_messages;
                Counts::add(&self.counts.dropped, lost);
                return;
            }
        }
    }

    /// Waits before the next attempt; true when the writer is to stop.
    fn rest(&self) -> bool {
        let mut queue = self.queue.lock();
        self.ready
            .wait_while_for(&mut queue, |queue| !queue.is_stopping, RETRY);
        queue.is_stopping
    }

    /// Writes what comes until the writer is to stop.
    fn pump(&self, output: &mut Output) -> io::Result<()> {
        let mut batch = Vec::new();
        loop {
            let mut queue = self.queue.lock();
            while queue.octets.is_empty() && !queue.is_stopping {
                self.ready.wait(&mut queue);
            }
            let n_messages = std::mem::take(&mut queue.n_messages);
            std::mem::swap(&mut queue.octets, &mut batch);
            drop(queue);
            if n_messages == 0 {
                return output.finish();
            }
            match output.write(&batch) {
                Ok(()) => Counts::add(&self.counts.written, n_messages),
                Err(error) => {
                    Counts::add(&self.counts.dropped, n_messages);
                    return Err(error);
                }
            }
            batch.clear();
        }
    }
}

#[cfg(test)]
mod tests;
