//! When an active router says again where its addresses are.

use std::time::{Duration, Instant};

use crate::settings::Announce;

/// How soon after a takeover one more follows, at most: the router before may have said something in its
/// last moments that no other node has seen.
const SOON: Duration = Duration::from_millis(100);

/// Deadlines of what follows the announcement at a takeover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Announcements {
    soon: Option<Instant>,
    again: Option<Instant>,
    refresh: Option<Instant>,
}

impl Announcements {
    /// All has just been announced, at a takeover.
    pub(super) fn begin(&mut self, settings: &Announce, interval: Duration, now: Instant) {
        self.restart(settings, now);
        self.soon = Some(now + SOON.min(interval / 2));
    }

    /// All has just been announced.
    pub(super) fn restart(&mut self, settings: &Announce, now: Instant) {
        self.again = settings.again_after.map(|after| now + after);
        self.refresh = settings.refresh.map(|every| now + every);
    }

    /// Takes up other settings.
    pub(super) fn reconfigure(&mut self, settings: &Announce, now: Instant) {
        self.refresh = settings.refresh.map(|every| now + every);
    }

    pub(super) fn next(&self) -> Option<Instant> {
        let all = [self.soon, self.again, self.refresh];
        all.into_iter().flatten().min()
    }

    /// How many to send, if it is time to.
    pub(super) fn due(&mut self, settings: &Announce, now: Instant) -> Option<u8> {
        let is_due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        let soon = is_due(self.soon);
        let again = is_due(self.again);
        let refresh = is_due(self.refresh);
        if soon {
            self.soon = None;
        }
        if again {
            self.again = None;
        }
        if refresh {
            self.refresh = settings.refresh.map(|every| now + every);
        }
        if again {
            Some(settings.count)
        } else {
            (soon || refresh).then_some(1)
        }
    }
}
