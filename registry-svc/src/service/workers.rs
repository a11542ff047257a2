//! The runtime that clients wait for, apart from the thread of the process's life.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use daemon::run::Heartbeat;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;

/// Threads for work that blocks: reads and writes of files. More than disks do at once; each idles
/// away after some seconds.
const BLOCKING: usize = 128;

/// A runtime.
#[derive(Debug)]
pub(crate) struct Workers {
    /// Taken when it ends.
    runtime: Option<Runtime>,
    handle: Handle,
    beat: Heartbeat,
}

impl Workers {
    /// Starts `n` threads.
    pub(super) fn start(n: usize) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(n.max(1))
            .max_blocking_threads(BLOCKING)
            .thread_name("registry")
            .enable_all()
            .build()?;
        let beat = Heartbeat::default();
        let beating = Arc::clone(&beat);
        let asked = Arc::new(Notify::new());
        let wake = Arc::clone(&asked);
        beat.wake_by(move || wake.notify_one());
        runtime.spawn(async move {
            loop {
                beating.beat();
                asked.notified().await;
            }
        });
        Ok(Self {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
            beat,
        })
    }

    /// Counts up for as long as tasks are run.
    pub(super) fn heartbeat(&self) -> Heartbeat {
        Arc::clone(&self.beat)
    }

    /// The runtime that tasks are spawned on.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs a future there.
    ///
    /// # Panics
    /// When the future does.
    pub(crate) async fn run<F>(&self, future: F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match self.handle.spawn(future).await {
            Ok(output) => output,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Ends what is left, some of which may be given up after `limit`.
    pub(super) async fn end(mut self, limit: Duration) {
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        let ended = tokio::task::spawn_blocking(move || runtime.shutdown_timeout(limit));
        drop(ended.await);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A start that failed half-way is on a runtime, which may not wait for another.
            runtime.shutdown_background();
        }
    }
}
