//! The time that the resolver takes to answer this server itself, once a second, as `health` of `CoreDNS` asks itself: a server that
//! has too much to do is slow here before its clients give up.

use std::sync::Arc;
use std::time::Duration;

use daemon::clock;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::driver::{Echo, Latency};

/// The interval of questions.
const INTERVAL: Duration = Duration::from_secs(1);
/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The times of its own questions so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The times.
    pub(crate) latency: Latency,
    /// The questions without an answer.
    pub(crate) failures: u64,
}

/// The task that asks, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct OwnHealth {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

impl OwnHealth {
    /// Begins to ask.
    pub(crate) fn start(echo: Echo) -> Self {
        let seen = Arc::default();
        let task = tokio::spawn(ask(echo, Arc::clone(&seen)));
        Self { seen, task }
    }

    /// The times so far.
    pub(crate) fn seen(&self) -> Arc<Mutex<Seen>> {
        Arc::clone(&self.seen)
    }
}

impl Drop for OwnHealth {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn ask(echo: Echo, seen: Arc<Mutex<Seen>>) {
    loop {
        let begun = clock::now();
        let answered = timeout(PATIENCE, echo.answer()).await;
        seen.lock().note(clock::now() - begun, answered == Ok(true));
        tokio::time::sleep(INTERVAL).await;
    }
}

impl Seen {
    fn note(&mut self, took: Duration, is_answered: bool) {
        self.latency.add(took);
        self.failures += u64::from(!is_answered);
    }
}
