//! The signals of `outpost up`.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The meaning of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Stop; a second signal stops at once.
    Interrupt,
    /// The terminal went away.
    HangUp,
    /// The terminal has another size.
    Resized,
}

/// The signals, caught from the moment this exists.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    window: Signal,
}

impl Signals {
    /// Starts to catch signals; has to run on a runtime.
    ///
    /// # Errors
    ///
    /// When the system refuses a handler.
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            window: signal(SignalKind::window_change())?,
        })
    }

    /// Waits for the next signal. Cancel safe: none is lost.
    pub(crate) async fn next(&mut self) -> Meaning {
        tokio::select! {
            _ = self.interrupt.recv() => Meaning::Interrupt,
            _ = self.terminate.recv() => Meaning::Interrupt,
            _ = self.hangup.recv() => Meaning::HangUp,
            _ = self.window.recv() => Meaning::Resized,
        }
    }
}
