//! The machine's reactions to a datagram (RFC 9568 §6.4.2, §6.4.3, §7.1).

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::event::{Action, Event};
use super::{MAX_GUESTS, Machine, PRIORITY_LEAVING, Phase, REPORT_GAP, ReportKind};
use crate::packet::{Advertisement, Datagram, PRIORITY_OWNER, PRIORITY_STOPPED, Refusal, parse};
use crate::settings::Peers;

impl Machine {
    pub(super) fn receive(&mut self, datagram: &Datagram<'_>, now: Instant) {
        let source = datagram.source;
        // A multicast datagram may come back to its sender.
        if Some(source) == self.source {
            return;
        }
        let Some(advertisement) = self.accept(datagram, now) else {
            return;
        };
        match self.phase {
            Phase::Initialize | Phase::Fault => {}
            Phase::Backup(_) => self.receive_as_backup(source, &advertisement, now),
            Phase::Active(_) => self.receive_as_active(source, &advertisement, now),
        }
    }

    /// RFC 9568 §7.1.
    fn accept(&mut self, datagram: &Datagram<'_>, now: Instant) -> Option<Advertisement> {
        let source = datagram.source;
        let settings = Arc::clone(&self.settings);
        let parsed = parse(datagram, &settings.expected()).and_then(|accepted| {
            let sent = &accepted.advertisement.addresses;
            let ours = &settings.addresses;
            let common = ours.iter().any(|entry| sent.contains(&entry.address));
            let stranger = !is_known(&settings.peers, source);
            if !common {
                return Err(Refusal::AddressList);
            }
            if stranger && settings.peers_only {
                return Err(Refusal::Peer);
            }
            Ok((accepted, stranger))
        });
        let (accepted, stranger) = match parsed {
            Ok(accepted) => accepted,
            Err(refusal) => {
                self.counters.count_refused(refusal);
                let event = Event::Refused { source, refusal };
                self.report(ReportKind::Refused(refusal), event, now);
                return None;
            }
        };
        let advertisement = accepted.advertisement;
        self.counters.advert_rcvd += 1;
        self.heard_at = Some(now);
        if advertisement.priority == PRIORITY_STOPPED {
            self.counters.pri_zero_rcvd += 1;
        }
        if stranger {
            self.remember_guest(source);
            let event = Event::UnknownPeer { source };
            self.report(ReportKind::UnknownPeer, event, now);
        }
        if accepted
            .checksum
            .is_some_and(|form| form != settings.checksum)
        {
            let event = Event::ChecksumDiffers { source };
            self.report(ReportKind::ChecksumDiffers, event, now);
        }
        let sent: BTreeSet<_> = advertisement.addresses.iter().copied().collect();
        if sent != self.all_addresses().into_iter().collect() {
            let addresses = advertisement.addresses.clone();
            let event = Event::AddressesDiffer { source, addresses };
            self.report(ReportKind::AddressesDiffer, event, now);
        }
        if self.priority == PRIORITY_OWNER && advertisement.priority == PRIORITY_OWNER {
            let event = Event::TwoOwners { source };
            self.report(ReportKind::TwoOwners, event, now);
        }
        Some(advertisement)
    }

    /// RFC 9568 §6.4.2.
    fn receive_as_backup(&mut self, source: IpAddr, heard: &Advertisement, now: Instant) {
        let (priority, preempt) = (self.priority, self.settings.preempt);
        if let Phase::Backup(backup) = &mut self.phase
            && backup.hear(source, heard.priority, priority, preempt, now)
        {
            self.learn_interval(source, heard.interval, now);
        }
    }

    /// RFC 9568 §6.4.3, with erratum 8298: an owner hears other owners.
    fn receive_as_active(&mut self, source: IpAddr, heard: &Advertisement, now: Instant) {
        if self.purpose().is_some() {
            self.receive_while_going(source, heard, now);
            return;
        }
        if self.has_lease() {
            self.overrule(source, heard.priority, now);
            return;
        }
        if heard.priority == PRIORITY_STOPPED {
            // One that hands over and has missed what came before goes by both.
            self.advertise(now);
            self.announce(self.settings.announce.count);
            return;
        }
        if (heard.priority, Some(source)) > (self.priority, self.source) {
            self.begin_yield(source, heard, now);
            return;
        }
        self.counters.lower_rcvd += 1;
        if let Phase::Active(active) = &mut self.phase {
            active.rivalled = now;
        }
        let priority = heard.priority;
        // The last word of one that has handed over, or has just yielded, is no sign of trouble.
        let lately = |since: Instant| now < since + self.settings.interval;
        if priority != PRIORITY_LEAVING && !self.since.is_some_and(lately) {
            let event = Event::LowerHeard { source, priority };
            self.report(ReportKind::LowerHeard, event, now);
        }
        self.advertise(now);
        self.announce(self.settings.announce.count);
        if let Phase::Active(active) = &mut self.phase {
            active.announcements.restart(&self.settings.announce, now);
        }
    }

    /// Version 3: backups go by the active router's interval.
    pub(super) fn learn_interval(&mut self, source: IpAddr, interval: Duration, now: Instant) {
        self.active_interval = interval;
        if interval != self.settings.interval {
            let event = Event::IntervalLearnt { source, interval };
            self.report(ReportKind::IntervalLearnt, event, now);
        }
    }

    /// A router that does not hear of an active one becomes active as well, again and again.
    fn remember_guest(&mut self, source: IpAddr) {
        self.guests.retain(|guest| *guest != source);
        if self.guests.len() == MAX_GUESTS {
            self.guests.pop_front();
        }
        self.guests.push_back(source);
    }

    pub(super) fn report(&mut self, kind: ReportKind, event: Event, now: Instant) {
        let last = self.reported.get(&kind);
        if last.is_none_or(|last| now >= *last + REPORT_GAP) {
            self.reported.insert(kind, now);
            self.actions.push_back(Action::Report(event));
        }
    }
}

/// True for a router among the peers; on a multicast link every router is.
fn is_known(peers: &Peers, source: IpAddr) -> bool {
    match peers {
        Peers::Multicast => true,
        Peers::Unicast(peers) => peers.contains(&source),
    }
}
