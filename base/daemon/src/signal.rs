//! Signals as the daemon understands them: SIGHUP asks for a reload, SIGTERM and SIGINT for the end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The request that a signal makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Read the configuration again.
    Reload,
    /// Finish what has begun and end.
    Stop,
}

/// The signals of this process, caught from the moment this exists.
#[derive(Debug)]
pub struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts to catch signals; must be called on a runtime.
    ///
    /// # Errors
    ///
    /// When the system refuses a handler.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal. Cancel safe: a signal is not lost.
    pub async fn next(&mut self) -> Request {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Request::Stop,
            _ = self.interrupt.recv() => Request::Stop,
            _ = self.hangup.recv() => Request::Reload,
        }
    }

    /// Waits for a request to end, and lets reloads pass. Cancel safe.
    pub async fn stop(&mut self) {
        while self.next().await != Request::Stop {}
    }
}
