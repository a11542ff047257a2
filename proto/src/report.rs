//! One `Report` stream, kept alive: observations from a subscriber's own use of targets.
//!
//! [`Reporter`] takes observations from any thread without waiting and passes them on to healthd,
//! which probes at once the targets that they contradict. Only fresh evidence is worth something: an
//! observation that cannot be sent now is dropped and counted, never kept for later.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;

use crate::endpoint::{self, Endpoint};
use crate::health::Target;
use crate::reconnect::{backoff, chain};
use crate::wire;
use crate::wire::health_client::HealthClient;

/// Observations that wait: a burst of failed connects to a few servers. healthd needs one of each.
const QUEUE: usize = 256;

/// Keeps one `Report` stream; dropping it ends the stream.
#[derive(Debug)]
pub struct Reporter {
    observations: mpsc::Sender<wire::Observation>,
    dropped: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Reporter {
    /// Connects when there is something to tell; needs a tokio runtime.
    #[must_use]
    pub fn start(endpoint: Endpoint) -> Self {
        let (observations, queue) = mpsc::channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let stream = Stream {
            endpoint,
            queue,
            dropped: Arc::clone(&dropped),
        };
        Self {
            observations,
            dropped,
            task: tokio::spawn(stream.run()),
        }
    }

    /// Tells that a use of `target` has succeeded or failed, and what happened. Never waits.
    pub fn report(&self, target: &Target, success: bool, reason: impl Into<String>) {
        let observation = wire::Observation {
            target: Some(target.into()),
            success,
            reason: reason.into(),
        };
        if self.observations.try_send(observation).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many observations healthd was never told.
    #[must_use]
    pub fn n_dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task behind a [`Reporter`].
struct Stream {
    endpoint: Endpoint,
    queue: mpsc::Receiver<wire::Observation>,
    dropped: Arc<AtomicU64>,
}

impl Stream {
    async fn run(mut self) {
        let mut wait = backoff();
        while let Some(first) = self.queue.recv().await {
            match self.pass_on(first).await {
                Ok(()) => wait = backoff(),
                Err(error) => {
                    tracing::debug!(endpoint = %self.endpoint, error, "Evidence does not reach healthd");
                    tokio::time::sleep(wait.next_wait()).await;
                    self.discard();
                }
            }
        }
    }

    /// Passes observations on until the stream ends. `Ok` if it began.
    async fn pass_on(&mut self, first: wire::Observation) -> Result<(), String> {
        let channel = endpoint::connect(&self.endpoint).await.map_err(|error| {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            chain(&error)
        })?;
        let (passed, queue) = mpsc::channel(QUEUE);
        let mut client = HealthClient::new(channel);
        // The only response comes when the stream ends.
        let mut call = std::pin::pin!(client.report(ReceiverStream::new(queue)));
        let mut next = Some(first);
        loop {
            if let Some(observation) = next.take()
                && passed.try_send(observation).is_err()
            {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
            tokio::select! {
                ended = &mut call => match ended {
                    Ok(_) => return Ok(()),
                    Err(status) => return Err(status.message().to_owned()),
                },
                observation = self.queue.recv() => match observation {
                    Some(observation) => next = Some(observation),
                    None => return Ok(()),
                },
            }
        }
    }

    /// Lets go of what has become old.
    fn discard(&mut self) {
        while self.queue.try_recv().is_ok() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_nobody_hears_is_counted_and_never_waited_for() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let nowhere: Endpoint = "unix:/nonexistent/healthd.sock".parse().unwrap();
            let reporter = Reporter::start(nowhere);
            let target = Target::tcp(([192, 0, 2, 1], 6443).into());
            // More than fit, before the task has run even once.
            for _ in 0..QUEUE + 10 {
                reporter.report(&target, false, "refused");
            }
            assert_eq!(reporter.n_dropped(), 10);
            let all = async {
                while reporter.n_dropped() < QUEUE as u64 + 10 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(5), all)
                .await
                .unwrap();
        });
    }
}
