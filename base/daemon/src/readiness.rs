//! Whether the daemon is ready to serve, and what keeps it from that.
//!
//! A part that has to come up holds a [`Latch`]; the daemon is ready when every latch is released
//! and no reason with [`Severity::Unready`] stands. Reasons come and go by key while it runs; those
//! with [`Severity::Detail`] are shown and change nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// The effect of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The daemon is not ready while it stands.
    Unready,
    /// It is worth knowing.
    Detail,
}

/// The readiness of one daemon; clones share it.
#[derive(Clone, Default)]
pub struct Readiness {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Told when the last latch is released.
    released: Notify,
}

#[derive(Default)]
struct State {
    next_latch: u64,
    latches: BTreeMap<u64, String>,
    reasons: BTreeMap<String, (Severity, String)>,
}

/// Keeps the daemon unready until it is released or dropped.
#[must_use = "a latch that is dropped at once holds nothing"]
pub struct Latch {
    readiness: Readiness,
    number: u64,
}

impl Readiness {
    /// Ready, until a reason says otherwise.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Not ready until the latch is released; `what` says what has to come: "zones loaded".
    pub fn latch(&self, what: impl Into<String>) -> Latch {
        let mut state = self.lock();
        let number = state.next_latch;
        state.next_latch += 1;
        state.latches.insert(number, what.into());
        Latch {
            readiness: self.clone(),
            number,
        }
    }

    /// Sets or clears the detail line called `key`.
    pub fn set_reason(&self, key: impl Into<String>, reason: Option<String>) {
        self.set(key, Severity::Detail, reason);
    }

    /// Sets or clears the reason called `key` for not being ready.
    pub fn set_unready(&self, key: impl Into<String>, reason: Option<String>) {
        self.set(key, Severity::Unready, reason);
    }

    /// Sets or clears the reason called `key`.
    pub fn set(&self, key: impl Into<String>, severity: Severity, reason: Option<String>) {
        let key = key.into();
        let mut state = self.lock();
        match reason {
            Some(reason) => state.reasons.insert(key, (severity, reason)),
            None => state.reasons.remove(&key),
        };
    }

    /// True when nothing keeps the daemon from serving.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let state = self.lock();
        state.latches.is_empty()
            && !state
                .reasons
                .values()
                .any(|(severity, _)| *severity == Severity::Unready)
    }

    /// Waits until no latch is held. Cancel safe.
    pub async fn released(&self) {
        loop {
            // Made before the look, so that a release in between is not missed.
            let released = self.shared.released.notified();
            if self.lock().latches.is_empty() {
                return;
            }
            released.await;
        }
    }

    /// Why it is not ready, one line a reason.
    #[must_use]
    pub fn unready_reasons(&self) -> Vec<String> {
        let state = self.lock();
        let waiting = state
            .latches
            .values()
            .map(|what| format!("waiting: {what}"));
        waiting.chain(state.lines(Severity::Unready)).collect()
    }

    /// The details, one line each.
    #[must_use]
    pub fn details(&self) -> Vec<String> {
        self.lock().lines(Severity::Detail).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let state = &self.shared.state;
        state.lock()
    }
}

impl State {
    fn lines(&self, wanted: Severity) -> impl Iterator<Item = String> {
        self.reasons
            .iter()
            .filter(move |(_, (severity, _))| *severity == wanted)
            .map(|(key, (_, reason))| format!("{key}: {reason}"))
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Readiness")
            .field("unready_reasons", &self.unready_reasons())
            .finish_non_exhaustive()
    }
}

impl Latch {
    /// Releases it: the event has come.
    pub fn release(self) {
        drop(self);
    }
}

impl Drop for Latch {
    fn drop(&mut self) {
        let mut state = self.readiness.lock();
        state.latches.remove(&self.number);
        if state.latches.is_empty() {
            self.readiness.shared.released.notify_waiters();
        }
    }
}

impl fmt::Debug for Latch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Latch")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_when_the_last_latch_is_gone() {
        let readiness = Readiness::new();
        assert!(readiness.is_ready());
        let zones = readiness.latch("zones loaded");
        let sockets = readiness.latch("sockets open");
        assert_eq!(
            readiness.unready_reasons(),
            ["waiting: zones loaded", "waiting: sockets open"]
        );
        zones.release();
        assert!(!readiness.is_ready());
        drop(sockets);
        assert!(readiness.is_ready());
    }

    #[test]
    fn who_waits_is_told_when_the_last_latch_is_gone() {
        let readiness = Readiness::new();
        let (first, second) = (readiness.latch("a"), readiness.latch("b"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let waiting = tokio::spawn({
                let readiness = readiness.clone();
                async move { readiness.released().await }
            });
            tokio::task::yield_now().await;
            first.release();
            tokio::task::yield_now().await;
            assert!(!waiting.is_finished());
            second.release();
            waiting.await.unwrap();
            readiness.released().await;
        });
    }

    #[test]
    fn latches_of_one_name_are_told_apart() {
        let readiness = Readiness::new();
        let first = readiness.latch("x");
        let second = readiness.latch("x");
        drop(first);
        assert!(!readiness.is_ready());
        drop(second);
        assert!(readiness.is_ready());
    }

    #[test]
    fn reasons_come_and_go_and_details_do_not_count() {
        let readiness = Readiness::new();
        readiness.set_reason("zone a.", Some("new file is broken".to_owned()));
        assert!(readiness.is_ready());
        assert_eq!(readiness.details(), ["zone a.: new file is broken"]);
        readiness.set_unready("upstream", Some("none answers".to_owned()));
        assert!(!readiness.is_ready());
        assert_eq!(readiness.unready_reasons(), ["upstream: none answers"]);
        readiness.set_unready("upstream", None);
        readiness.set_reason("zone a.", None);
        assert!(readiness.is_ready() && readiness.details().is_empty());
    }
}
