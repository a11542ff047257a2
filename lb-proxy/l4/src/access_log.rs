//! The writer of session records.
//!
//! Workers pass records to a bounded channel and never wait; one thread writes them. Records that do not
//! fit the channel, or cannot be written, is counted and gone: sessions are worth more than their log.
//!
//! The thread formats what the channel has into one buffer and writes it at once, so that a busy proxy
//! makes few system calls. It ends when the [`Writer`] is closed and what was handed over is written.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use l4_core::access_log::{Format, Record, Settings, Target, write};
use parking_lot::Mutex;

/// Records that wait for the writer. At 20,000 sessions a second it is what ends in 400 ms, longer than
/// a disk that is well takes for anything.
const CHANNEL: usize = 8192;

/// As much is gathered before it is written.
const BUFFER: usize = 64 * 1024;

/// A worker's end of the channel. Cheap to clone; each worker has its own.
#[derive(Clone, Debug)]
pub struct Log {
    sender: SyncSender<Message>,
    shared: Arc<Shared>,
}

impl Log {
    /// Leaves a record to the writer, or counts that there was no room for it. Never waits.
    pub fn write(&self, record: Record) {
        if !self.is_on() {
            return;
        }
        if self
            .sender
            .try_send(Message::Record(Box::new(record)))
            .is_err()
        {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// True when records go anywhere: a caller that checks first need not make one.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.shared.is_on.load(Ordering::Relaxed)
    }

    /// Records that were lost, because the channel was full or a write failed.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Records that were written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Relaxed)
    }

    /// Changes where and how records are written, from the next one on; a file is opened again even if
    /// it is the same, so that a rotated one is let go.
    ///
    /// # Errors
    ///
    /// When a file cannot be opened; everything stays as it was.
    pub fn configure(&self, settings: &Settings) -> io::Result<()> {
        let sink = Sink::open(settings)?;
        self.shared.is_on.store(sink.is_on(), Ordering::Relaxed);
        let mut next = self.shared.next.lock();
        *next = Some(sink);
        drop(next);
        // A full channel has a writer that is awake, and looks for itself.
        let _is_full = self.sender.try_send(Message::Look);
        Ok(())
    }
}

/// The thread that writes.
#[derive(Debug)]
pub struct Writer {
    log: Log,
    thread: JoinHandle<()>,
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// When a file cannot be opened, or there can be no further thread.
    pub fn start(settings: &Settings) -> io::Result<Self> {
        Self::start_with(Sink::open(settings)?)
    }

    fn start_with(sink: Sink) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(CHANNEL);
        let shared = Arc::new(Shared {
            is_on: AtomicBool::new(sink.is_on()),
            ..Shared::default()
        });
        let log = Log {
            sender,
            shared: Arc::clone(&shared),
        };
        let thread = thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || run(&receiver, sink, &shared))?;
        Ok(Self { log, thread })
    }

    /// The channel's end for records.
    #[must_use]
    pub fn log(&self) -> Log {
        self.log.clone()
    }

    /// Writes what has been handed over, and ends the thread. Later records are lost.
    pub fn close(self) {
        let Self { log, thread } = self;
        log.shared.is_on.store(false, Ordering::Relaxed);
        // Waits for room: the writer is at work, and everything before has its turn.
        let is_there = log.sender.send(Message::Close).is_ok();
        if is_there && thread.join().is_err() {
            tracing::error!("The access log's writer panicked");
        }
    }
}

/// A message in the channel.
#[derive(Debug)]
enum Message {
    Record(Box<Record>),
    /// There is another place to write to.
    Look,
    Close,
}

/// The state that both sides of the channel see.
#[derive(Debug, Default)]
struct Shared {
    is_on: AtomicBool,
    dropped: AtomicU64,
    written: AtomicU64,
    /// Taken by the writer before it writes.
    next: Mutex<Option<Sink>>,
}

/// An open place to write to, and the form.
#[derive(Debug)]
struct Sink {
    place: Place,
    format: Format,
}

#[derive(Debug)]
enum Place {
    Off,
    Stdout,
    File(File),
}

impl Sink {
    fn open(settings: &Settings) -> io::Result<Self> {
        let place = match &settings.target {
            Target::Off => Place::Off,
            Target::Stdout => Place::Stdout,
            Target::File(path) => {
                let file = OpenOptions::new().create(true).append(true).open(path)?;
                Place::File(file)
            }
        };
        let format = settings.format;
        Ok(Self { place, format })
    }

    fn is_on(&self) -> bool {
        !matches!(self.place, Place::Off)
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match &mut self.place {
            Place::Off => Ok(()),
            Place::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(lines)?;
                stdout.flush()
            }
            Place::File(file) => file.write_all(lines),
        }
    }
}

//--- The thread

fn run(receiver: &Receiver<Message>, mut sink: Sink, shared: &Shared) {
    let mut lines = Vec::with_capacity(BUFFER);
    let mut is_broken = false;
    let mut is_open = true;
    while is_open {
        let Ok(first) = receiver.recv() else { break };
        if let Some(next) = take_next(shared) {
            sink = next;
            is_broken = false;
        }
        let mut n_records = 0;
        let mut message = Some(first);
        while let Some(this) = message {
            match this {
                Message::Record(record) => {
                    write(sink.format, &record, &mut lines);
                    n_records += 1;
                }
                Message::Look => break,
                Message::Close => {
                    is_open = false;
                    break;
                }
            }
            message = (lines.len() < BUFFER)
                .then(|| receiver.try_recv().ok())
                .flatten();
        }
        let counter = match sink.write(&lines) {
            Ok(()) => {
                is_broken = false;
                &shared.written
            }
            Err(error) => {
                // Once, not for every buffer: a full disk stays full for long.
                if !is_broken {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "The access log cannot be written");
                }
                is_broken = true;
                &shared.dropped
            }
        };
        counter.fetch_add(n_records, Ordering::Relaxed);
        lines.clear();
    }
}

fn take_next(shared: &Shared) -> Option<Sink> {
    shared.next.lock().take()
}

#[cfg(test)]
mod tests;
