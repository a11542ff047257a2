//! Stop taking new work, wait for what has begun, give up at a deadline.
//!
//! A [`Drain`] begins once; every task that serves holds a [`Guard`] while it has work in hand and
//! looks at [`Guard::asked`] or [`Guard::is_asked`] before it takes more.

use std::time::Duration;

use tokio::sync::watch;

/// The side that asks for the end.
#[derive(Debug)]
pub struct Drain {
    asked: watch::Sender<bool>,
}

/// The side that works: the drain is complete when every guard is dropped.
#[derive(Debug, Clone)]
pub struct Guard {
    asked: watch::Receiver<bool>,
}

impl Drain {
    /// A drain that has not begun, and the guard to clone for each task.
    #[must_use]
    pub fn new() -> (Self, Guard) {
        let (sender, receiver) = watch::channel(false);
        (Self { asked: sender }, Guard { asked: receiver })
    }

    /// Asks all tasks to finish and waits for them; true when they did so within `limit`.
    pub async fn finish(self, limit: Duration) -> bool {
        self.asked.send_replace(true);
        tokio::time::timeout(limit, self.asked.closed())
            .await
            .is_ok()
    }

    /// Another guard, for a task that begins later.
    #[must_use]
    pub fn guard(&self) -> Guard {
        Guard {
            asked: self.asked.subscribe(),
        }
    }

    /// How many tasks have work in hand.
    #[must_use]
    pub fn n_guards(&self) -> usize {
        self.asked.receiver_count()
    }
}

impl Guard {
    /// Whether the drain has begun.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        *self.asked.borrow()
    }

    /// Waits until the drain begins. Cancel safe.
    pub async fn asked(&mut self) {
        // An error means that the drain itself is gone, which asks for the same.
        drop(self.asked.wait_for(|asked| *asked).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(future)
    }

    #[test]
    fn a_drain_waits_for_every_guard() {
        block_on(async {
            let (drain, guard) = Drain::new();
            let mut second = guard.clone();
            drop(guard);
            let task = tokio::spawn(async move {
                second.asked().await;
                assert!(second.is_asked());
            });
            assert!(drain.finish(Duration::from_secs(10)).await);
            task.await.unwrap();
        });
    }

    #[test]
    fn a_task_that_does_not_end_is_left_at_the_deadline() {
        block_on(async {
            let (drain, guard) = Drain::new();
            assert!(!guard.is_asked());
            assert!(!drain.finish(Duration::from_millis(10)).await);
            drop(guard);
        });
    }

    #[test]
    fn a_drain_without_work_is_complete() {
        block_on(async {
            let (drain, guard) = Drain::new();
            drop(guard);
            assert_eq!(drain.n_guards(), 0);
            assert!(drain.finish(Duration::ZERO).await);
        });
    }
}
