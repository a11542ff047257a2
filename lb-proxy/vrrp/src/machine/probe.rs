//! A holder of the addresses that does not advertise them: probed for once, after a start, while the
//! router listens for others anyway (RFC 5227 §2.1.1, RFC 4862 §5.4).
//!
//! A start is when addresses clash: a host was given one manually, another virtual router has another
//! number. A router that listens loses nothing by probing meanwhile. A holder that is heard to advertise explains
//! itself, and the probes stop: a takeover never waits for an answer.
//!
//! A holder that does not advertise may be the kernel of a node whose process has died, and then the
//! addresses are needed here. So it is reported and waited for, within a bound.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::event::{Action, Event};
use super::{Machine, Phase, ReportKind, Wait};

/// Questions in the first down interval, all in its first half: the last one has the other half for
/// its answer.
const QUESTIONS: u8 = 3;

/// How many intervals to wait for a silent holder, besides the first down interval: it is reported, and
/// a process that was started again has removed what the one before left. Not more, as the holder may be
/// the kernel of a node that hangs.
const MAX_WAITS: u8 = 3;

/// The probes so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// When the next question is due, if there is one.
    next: Option<Instant>,
    /// Between questions.
    gap: Duration,
    n_left: u8,
    /// The node that has answered the last one.
    holder: Option<(IpAddr, [u8; 6])>,
    /// How often the router waited for a holder.
    n_waits: u8,
}

impl Probe {
    /// When the next question is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }
}

impl Machine {
    /// Whether it asks who has the addresses.
    #[cfg(test)]
    pub(super) fn is_asking(&self) -> bool {
        matches!(&self.phase, Phase::Backup(backup) if backup.probe.is_some())
    }

    /// Begins to ask, as a backup that has just been started.
    pub(super) fn begin_probe(&mut self, now: Instant) {
        if !self.settings.probe {
            return;
        }
        let gap = self.active_down_interval() / 4;
        if let Phase::Backup(backup) = &mut self.phase {
            backup.probe = Some(Probe {
                next: Some(now),
                gap,
                n_left: QUESTIONS,
                holder: None,
                n_waits: 0,
            });
        }
        self.ask(now);
    }

    /// Asks, if it is time to.
    pub(super) fn ask(&mut self, now: Instant) {
        let Phase::Backup(backup) = &mut self.phase else {
            return;
        };
        let Some(probe) = &mut backup.probe else {
            return;
        };
        if probe.next.is_none_or(|next| now < next) {
            return;
        }
        probe.n_left = probe.n_left.saturating_sub(1);
        probe.next = (probe.n_left > 0).then(|| now + probe.gap);
        // A node that answered before may be gone.
        probe.holder = None;
        let addresses = self.all_addresses();
        self.actions.push_back(Action::Probe(addresses));
    }

    /// A node says to have an address.
    pub(super) fn note_holder(&mut self, address: IpAddr, by: [u8; 6]) {
        if let Phase::Backup(backup) = &mut self.phase
            && let Some(probe) = &mut backup.probe
        {
            probe.holder = Some((address, by));
        }
    }

    /// No router was heard: true when a holder is there nevertheless, to wait for.
    pub(super) fn waits_for_holder(&mut self, now: Instant) -> bool {
        let Phase::Backup(backup) = &mut self.phase else {
            return false;
        };
        let Some(probe) = &mut backup.probe else {
            return false;
        };
        let Some((address, by)) = probe.holder else {
            return false;
        };
        probe.n_waits += 1;
        let is_waited_for = probe.n_waits <= MAX_WAITS;
        if is_waited_for {
            probe.n_left = 1;
            probe.next = Some(now);
            backup.set = now;
            backup.wait = Wait::Listen;
        }
        self.counters.duplicates += 1;
        let event = Event::AddressTaken {
            address,
            by,
            is_waited_for,
        };
        let kind = match is_waited_for {
            true => ReportKind::Taken,
            false => ReportKind::Duplicate,
        };
        self.report(kind, event, now);
        self.ask(now);
        is_waited_for
    }
}
