//! Plain lines on standard output, from a thread of its own.
//!
//! A reader that does not read (a pager, a stopped terminal) must not stop the site, so lines that
//! find the queue full are dropped.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use daemon::outln;

/// The way to print lines.
#[derive(Debug)]
pub(crate) struct Printer {
    lines: SyncSender<String>,
    done: Receiver<()>,
}

impl Printer {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub(crate) fn start() -> std::io::Result<Self> {
        let (lines, queue) = sync_channel::<String>(QUEUE);
        let (finished, done) = sync_channel(1);
        thread::Builder::new()
            .name("printer".to_owned())
            .spawn(move || {
                for line in queue {
                    outln!("{line}");
                }
                let _nobody = finished.send(());
            })?;
        Ok(Self { lines, done })
    }

    /// Prints a line, soon.
    pub(crate) fn print(&self, line: String) {
        drop(self.lines.try_send(line));
    }

    /// Waits until everything is printed, but not for ever.
    pub(crate) fn finish(self) {
        let Self { lines, done } = self;
        drop(lines);
        let _late = done.recv_timeout(LAST_LINES);
    }
}

/// Lines that wait for the reader.
const QUEUE: usize = 1024;
/// How long the last lines may take.
const LAST_LINES: Duration = Duration::from_secs(1);
