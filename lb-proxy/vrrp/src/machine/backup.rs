//! A router that listens to the active one (RFC 9568 §6.4.2).

use std::net::IpAddr;
use std::time::Instant;

use super::PRIORITY_LEAVING;
use super::event::Reason;
use super::probe::Probe;
use super::status::Heard;
use crate::packet::PRIORITY_STOPPED;
use crate::settings::Preempt;

#[derive(Debug)]
pub(super) struct Backup {
    /// `Active_Down_Timer`: when it was set, and to what.
    pub(super) set: Instant,
    pub(super) wait: Wait,
    /// The active router.
    pub(super) active: Option<Heard>,
    /// The one that asks to be relieved.
    pub(super) leaving: Option<IpAddr>,
    /// When an active router of lower priority may be preempted.
    pub(super) preempt_from: Option<Instant>,
    /// The timer ran out in a group that is not ready.
    pub(super) would_claim: bool,
    /// Since it was started, as long as no other router was heard.
    pub(super) probe: Option<Probe>,
}

/// The length of `Active_Down_Timer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// `Active_Down_Interval`.
    Down,
    /// `Skew_Time`: the active router stops, or asks to be relieved.
    Skew(Reason),
    /// One interval: the timer ran out while this node did not run, and what was sent meanwhile is
    /// yet to be read.
    Listen,
    /// An interval and a half: the lease of this node ended because no healthd renewed it. A node that has it by then has
    /// advertised, and the others wait longer.
    Regain,
}

impl Backup {
    /// A backup whose timer is set now.
    pub(super) fn new(wait: Wait, now: Instant) -> Self {
        Self {
            set: now,
            wait,
            active: None,
            leaving: None,
            preempt_from: None,
            would_claim: false,
            probe: None,
        }
    }

    /// Takes in an advertisement. True when its sender is the active router from now on, for the whole
    /// `Active_Down_Interval`.
    pub(super) fn hear(
        &mut self,
        source: IpAddr,
        priority: u8,
        own: u8,
        preempt: Preempt,
        now: Instant,
    ) -> bool {
        // The holder of the addresses is explained.
        self.probe = None;
        if priority == PRIORITY_STOPPED {
            self.hear_stop(source, now);
            return false;
        }
        let before = self.active.replace(Heard {
            source,
            priority,
            at: now,
        });
        let fell = before
            .is_some_and(|before| before.source == source && before.priority > PRIORITY_LEAVING);
        if priority != PRIORITY_LEAVING {
            self.leaving = None;
        } else if fell && own > PRIORITY_LEAVING && self.leaving != Some(source) {
            self.leaving = Some(source);
            self.set = now;
            self.wait = Wait::Skew(Reason::Preempted);
        }
        if self.leaving == Some(source) {
            return false;
        }
        let is_lower = priority < own;
        let may_preempt = match preempt {
            Preempt::Never => false,
            Preempt::After(delay) => now >= *self.preempt_from.get_or_insert(now + delay),
        };
        if is_lower && may_preempt {
            // Discarded: the timer runs on.
            return false;
        }
        if !is_lower {
            self.preempt_from = None;
        }
        self.set = now;
        self.wait = Wait::Down;
        self.would_claim = false;
        true
    }

    /// RFC 9568 lets any router send priority 0; the active router's own advertisement counts, or this one
    /// would become active beside it.
    fn hear_stop(&mut self, source: IpAddr, now: Instant) {
        if self.active.is_some_and(|active| active.source != source) {
            return;
        }
        self.set = now;
        self.wait = Wait::Skew(Reason::ActiveStopped);
        self.active = None;
        self.leaving = None;
    }
}
