//! Another process of the same service, from which this one takes over.
//!
//! Sockets that systemd holds may be read by two processes at a time. As long as the other is there, a client's
//! query is better left to it than answered with an error.

use tokio::sync::watch;

/// Another process that may serve from the same sockets.
#[derive(Clone, Debug)]
pub struct Predecessor {
    /// Whether it may be there.
    is_there: watch::Receiver<bool>,
}

impl Predecessor {
    /// There is none.
    #[must_use]
    pub fn none() -> Self {
        Self::new(false).1
    }

    /// Whether there may be one, until its end is sent.
    pub(super) fn new(is_there: bool) -> (watch::Sender<bool>, Self) {
        let (sender, is_there) = watch::channel(is_there);
        (sender, Self { is_there })
    }

    /// Whether it may serve now.
    #[must_use]
    pub fn may_serve(&self) -> bool {
        *self.is_there.borrow()
    }

    /// Waits for its end; forever if the end does not show.
    pub async fn end(&self) {
        let mut is_there = self.is_there.clone();
        if is_there.wait_for(|is_there| !is_there).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_comes_when_it_is_sent_and_not_when_it_can_be_sent_no_more() {
        assert!(!Predecessor::none().may_serve());
        Predecessor::none().end().await;
        let (sender, predecessor) = Predecessor::new(true);
        assert!(predecessor.may_serve());
        sender.send_replace(false);
        predecessor.end().await;
        assert!(!predecessor.may_serve());
        let (sender, predecessor) = Predecessor::new(true);
        drop(sender);
        tokio::select! {
            biased;
            () = predecessor.end() => panic!("it may still be there"),
            () = tokio::task::yield_now() => {}
        }
    }
}
