//! The state of a stream to healthd, and the log of its changes: each is logged once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::clock;
use daemon::latest::{Latest, Reader};
use parking_lot::Mutex;

use crate::endpoint::Endpoint;

/// How the stream is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Whether healthd is connected.
    pub connected: bool,
    /// When healthd was last heard of; `None` before the first time.
    pub heard: Option<Instant>,
    /// How often a connection was made.
    pub connections: u64,
    /// Why the last attempt failed; empty while connected.
    pub error: String,
}

impl State {
    /// How old the last value of healthd may be: nothing while connected, for healthd would have sent a new one.
    #[must_use]
    pub fn age(&self, now: Instant) -> Option<Duration> {
        match self.connected {
            true => Some(Duration::ZERO),
            false => self.heard.map(|heard| now.saturating_duration_since(heard)),
        }
    }
}

/// The two sentences that a stream logs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sentences {
    /// healthd is there.
    pub(crate) connected: &'static str,
    /// healthd is away.
    pub(crate) lost: &'static str,
}

/// The shared state of one stream.
#[derive(Debug)]
pub(crate) struct Connection {
    endpoint: Endpoint,
    sentences: Sentences,
    state: Mutex<State>,
    /// Whether healthd is connected.
    is_connected: Arc<Latest<bool>>,
}

impl Connection {
    pub(crate) fn new(endpoint: Endpoint, sentences: Sentences) -> Self {
        Self {
            endpoint,
            sentences,
            state: Mutex::default(),
            is_connected: Latest::new(false),
        }
    }

    pub(crate) const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) fn state(&self) -> State {
        self.state.lock().clone()
    }

    /// Reads whether healthd is connected, and waits for changes of it.
    pub(crate) fn is_connected(&self) -> Reader<bool> {
        self.is_connected.reader()
    }

    /// healthd has answered; logged when it had not before.
    pub(crate) fn connected(&self) {
        let mut state = self.state.lock();
        if state.connected {
            return;
        }
        state.connected = true;
        self.is_connected.publish_if_changed(true);
        state.connections += 1;
        state.error.clear();
        tracing::info!(endpoint = %self.endpoint, "{}", self.sentences.connected);
    }

    /// Does something unless healthd is connected; it does not connect meanwhile. Returns whether it was done.
    pub(crate) fn while_lost(&self, then: impl FnOnce()) -> bool {
        let state = self.state.lock();
        if !state.connected {
            then();
        }
        !state.connected
    }

    /// healthd has sent a value.
    pub(crate) fn heard(&self) {
        self.state.lock().heard = Some(clock::now());
    }

    /// An attempt has failed, or the stream has ended; logged at the first time, and when the reason changes.
    pub(crate) fn lost(&self, error: &str) {
        let mut state = self.state.lock();
        if state.connected || state.error != error {
            tracing::warn!(endpoint = %self.endpoint, error, "{}", self.sentences.lost);
        }
        if state.connected {
            state.heard = Some(clock::now());
        }
        state.connected = false;
        self.is_connected.publish_if_changed(false);
        error.clone_into(&mut state.error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_counts_from_when_healthd_was_last_heard() {
        let heard = clock::now();
        let later = heard + Duration::from_secs(9);
        let state = |connected, heard| State {
            connected,
            heard,
            connections: 1,
            error: String::new(),
        };
        assert_eq!(state(true, Some(heard)).age(later), Some(Duration::ZERO));
        assert_eq!(
            state(false, Some(heard)).age(later),
            Some(Duration::from_secs(9))
        );
        assert_eq!(state(false, None).age(later), None);
    }

    #[test]
    fn a_connection_that_is_lost_keeps_when_healthd_was_heard() {
        let sentences = Sentences {
            connected: "there",
            lost: "away",
        };
        let connection = Connection::new("unix:/run/h.sock".parse().unwrap(), sentences);
        connection.lost("refused");
        let before = connection.state();
        assert_eq!((before.error.as_str(), before.heard), ("refused", None));
        connection.connected();
        connection.connected();
        let state = connection.state();
        assert_eq!((state.connected, state.connections), (true, 1));
        assert!(!connection.while_lost(|| panic!("healthd is connected")));
        assert!(state.error.is_empty());
        connection.lost("ended");
        let state = connection.state();
        assert!(!state.connected && state.heard.is_some());
        let heard = state.heard;
        connection.lost("refused");
        assert_eq!(
            connection.state().heard,
            heard,
            "only the end of a stream is a sign of life"
        );
    }
}
