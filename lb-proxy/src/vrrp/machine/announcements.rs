//! When an active router says again where its addresses are.

use std::time::Instant;

use crate::vrrp::settings::Announce;

/// Deadlines of what follows the announcement at a takeover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Announcements {
    again: Option<Instant>,
    refresh: Option<Instant>,
}

impl Announcements {
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
        [self.again, self.refresh].into_iter().flatten().min()
    }

    /// How many to send, if it is time to.
    pub(super) fn due(&mut self, settings: &Announce, now: Instant) -> Option<u8> {
        let is_due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        let again = is_due(self.again);
        let refresh = is_due(self.refresh);
        if again {
            self.again = None;
        }
        if refresh {
            self.refresh = settings.refresh.map(|every| now + every);
        }
        if again {
            Some(settings.count)
        } else {
            refresh.then_some(1)
        }
    }
}
