//! The own time, given when there is no other (`local`), and which of several orphans leads.
//!
//! Orphans query each other and all have `local stratum N orphan`. The one with the smallest reference ID among those that are
//! reached gives its own time at stratum N; the others follow it, at N + 1, and a server of stratum N or above counts for
//! nothing else.

use super::Timekeeper;
use super::terms::Note;
use time_model::sample::root_distance;
use time_model::time::{RawTime, Reading, SECOND, Span};

/// An orphan that led for so long had followers, and they have clients. A node that has just started has none, and is stepped.
const ISLAND: Span = Span(300 * SECOND);

impl Timekeeper {
    /// Whether the own time is given; gives it or ceases to.
    pub(super) fn review_local(&mut self, now: Reading) {
        let due = self.local_due(now).is_some_and(|at| at <= now.raw);
        if due == self.local_active {
            return;
        }
        self.local_active = due;
        let is_orphan = self.local.is_some_and(|local| local.orphan);
        if due {
            self.local_since = now.raw;
        } else if is_orphan && now.raw - self.local_since > ISLAND {
            self.discipline.forbid_steps();
        }
        match self.local {
            Some(local) if due => self.note(Note::LocalActivated {
                stratum: local.stratum,
            }),
            _ => self.note(Note::LocalEnded),
        }
        // Since a source was heard the kernel counts on by itself, and that the own time is given by now does not concern it.
        if self.root.is_none() {
            self.tell_kernel(now);
        }
    }

    /// When the own time is to be given, if nothing changes until then.
    fn local_due(&self, now: Reading) -> Option<RawTime> {
        let local = self.local?;
        if local.activate > 0.0 && !self.local_allowed {
            return None;
        }
        let Some(root) = &self.root else {
            return Some(self.started + Span::from_seconds(local.wait_unsynchronised));
        };
        let mut waited = root.at.raw + Span::from_seconds(local.wait_synchronised);
        // A node that has just taken over has not had the time to hear it.
        if !self.following {
            waited = waited.max(self.heard_by.unwrap_or(waited));
        }
        // Behind an orphan there is nothing but its crystal, and so there is nothing to wait for once it is gone.
        if root.orphan && !self.following {
            return Some(now.raw.max(waited));
        }
        // Nor where strata have counted up to that of the own time: orphans whose server is gone have followed each other in a ring.
        let told = root.stratum.saturating_add(1);
        if local.orphan && told >= local.stratum && !self.following {
            return Some(now.raw.max(waited));
        }
        let distance = root_distance(root.delay, root.dispersion);
        let left = (local.distance - distance).max(0.0) / self.dispersion_rate().max(1e-12);
        Some((root.at.raw + Span::from_seconds(left)).max(waited))
    }

    /// The root distance has a say in whether the own time may be given at all (`activate`).
    pub(super) fn allow_local(&mut self, distance: f64) {
        self.local_allowed |= self.local.is_some_and(|local| distance < local.activate);
    }

    pub(super) fn local_timeout(&self, now: Reading) -> Option<RawTime> {
        if self.local_active {
            return None;
        }
        self.local_due(now)
    }
}
