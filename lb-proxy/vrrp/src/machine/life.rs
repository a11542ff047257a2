//! From a start to a stop, and how states are entered (RFC 9568 §6.4.1).

use std::time::Instant;

use super::announcements::Announcements;
use super::{
    Action, Active, Backup, Departure, Machine, PRIORITY_OWNER, PRIORITY_STOPPED, Phase, Reason,
    Start, State, Wait,
};

impl Machine {
    pub(super) fn start(&mut self, start: Start, now: Instant) {
        if !matches!(self.phase, Phase::Initialize) {
            return;
        }
        self.active_interval = self.settings.interval;
        if let Some(fault) = self.faults.first().copied() {
            if start == Start::Resume {
                let addresses = self.all_addresses();
                self.actions.push_back(Action::ResetFlows(addresses));
            }
            self.remove_all();
            self.phase = Phase::Fault;
            self.changed(State::Initialize, Reason::Fault(fault), now);
        } else if start == Start::Resume {
            self.become_active(Reason::Resumed, now);
        } else {
            // An owner's addresses are the node's own, and it needs them.
            if self.priority != PRIORITY_OWNER {
                self.remove_all();
            }
            self.begin(Reason::Started, now);
        }
    }

    /// RFC 9568 §6.4.1: the owner is active at once, everybody else listens first.
    pub(super) fn begin(&mut self, reason: Reason, now: Instant) {
        if self.priority == PRIORITY_OWNER && self.settings.group.is_none() {
            self.become_active(Reason::Owner, now);
            return;
        }
        self.become_backup(reason, Wait::Down, now);
        if self.priority == PRIORITY_OWNER {
            self.claim(Reason::Owner, now);
        } else if reason == Reason::Started {
            self.begin_probe(now);
        }
    }

    pub(super) fn shut_down(&mut self, departure: Departure, now: Instant) {
        if !matches!(self.phase, Phase::Active(_)) {
            self.stop(Reason::Stopped, now);
            return;
        }
        match departure {
            Departure::HandOver => self.begin_hand_over(now),
            Departure::Release => {
                self.release(self.goodbye());
                self.stop(Reason::Stopped, now);
            }
            Departure::Swap => self.stop(Reason::Stopped, now),
        }
    }

    pub(super) fn stop(&mut self, reason: Reason, now: Instant) {
        let from = self.state();
        self.phase = Phase::Initialize;
        if from != State::Initialize {
            self.changed(from, reason, now);
        }
        self.actions.push_back(Action::Stopped);
    }

    pub(super) fn become_active(&mut self, reason: Reason, now: Instant) {
        let from = self.state();
        self.active_interval = self.settings.interval;
        let mut announcements = Announcements::default();
        announcements.begin(&self.settings.announce, self.settings.interval, now);
        self.phase = Phase::Active(Active {
            sent: now,
            due: now,
            announcements,
            defended: None,
            rivalled: now,
            going: None,
        });
        self.counters.become_master += 1;
        let addresses = self.settings.addresses.clone();
        self.actions.push_back(Action::AddAddresses(addresses));
        self.advertise(now);
        self.announce(self.settings.announce.count);
        self.changed(from, reason, now);
    }

    /// Backup, once addresses have been released.
    pub(super) fn become_backup(&mut self, reason: Reason, wait: Wait, now: Instant) {
        let from = self.state();
        self.phase = Phase::Backup(Backup {
            set: now,
            wait,
            active: None,
            leaving: None,
            preempt_from: None,
            would_claim: false,
            probe: None,
        });
        self.changed(from, reason, now);
    }

    /// Gives up the addresses. The caller says what comes after.
    pub(super) fn release(&mut self, goodbye: FinalAdvertisement) {
        self.counters.release_master += 1;
        match goodbye {
            FinalAdvertisement::Advertised => self.send(PRIORITY_STOPPED),
            FinalAdvertisement::Silent => {}
        }
        let addresses = self.all_addresses();
        self.actions.push_back(Action::ResetFlows(addresses));
        self.remove_all();
    }

    /// The last advertisement when addresses are given up at once. A router on the way out has sent it, and sending it
    /// again would have the others wait again.
    pub(super) fn goodbye(&self) -> FinalAdvertisement {
        match self.purpose() {
            None => FinalAdvertisement::Advertised,
            Some(_) => FinalAdvertisement::Silent,
        }
    }

    pub(super) fn changed(&mut self, from: State, reason: Reason, now: Instant) {
        let to = self.state();
        self.since = Some(now);
        self.actions
            .push_back(Action::StateChanged { from, to, reason });
    }
}

/// Whether a router says that it stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FinalAdvertisement {
    Advertised,
    Silent,
}
