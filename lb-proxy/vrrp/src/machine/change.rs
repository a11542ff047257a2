//! The machine's reactions to faults, to another eligibility and to other settings.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use super::event::{Action, Demand, Event, Fault, Reason, Start};
use super::{DEFENCE_TIME, DEFENCES, FinalAdvertisement, Machine, Phase, ReportKind, are_unknown};
use crate::packet::{PRIORITY_OWNER, Version};
use crate::settings::{RouterSettings, VirtualAddress};

impl Machine {
    pub(super) fn hear_claim(&mut self, address: IpAddr, by: [u8; 6], now: Instant) {
        if !self.all_addresses().contains(&address) || self.note_announced(address, now) {
            return;
        }
        if let Phase::Backup(backup) = &mut self.phase
            && let Some(probe) = &mut backup.probe
        {
            probe.note_holder(address, by);
        }
        if self.is_settling(now) {
            return;
        }
        let Phase::Active(active) = &mut self.phase else {
            return;
        };
        self.counters.duplicates += 1;
        let before = active.defended;
        let lately = before.filter(|(since, _)| now < *since + DEFENCE_TIME);
        let (since, n_answers) = lately.unwrap_or((now, 0));
        let answer = n_answers < DEFENCES;
        active.defended = Some((since, n_answers.saturating_add(1)));
        self.report(ReportKind::Duplicate, Event::Duplicate { address, by }, now);
        if lately.is_none() {
            self.advertise(now);
        }
        if answer {
            let addresses = vec![address];
            self.actions.push_back(Action::Announce {
                addresses,
                count: 1,
            });
        }
    }

    /// Whether its predecessor may still say to have the addresses, while it waits until this node's kernel
    /// has them. That takes a quarter of an interval, and messages.
    fn is_settling(&self, now: Instant) -> bool {
        let lately = |since: Instant| now < since + self.settings.interval / 2;
        let is_active = matches!(self.phase, Phase::Active(_));
        is_active && self.settings.is_ipv6() && self.since.is_some_and(lately)
    }

    pub(super) fn find_fault(&mut self, fault: Fault, now: Instant) {
        if !self.faults.insert(fault) {
            return;
        }
        match &self.phase {
            Phase::Initialize | Phase::Fault => {}
            Phase::Backup(_) => self.fail(fault, now),
            Phase::Active(_) => {
                let leaving = self.is_handing_over();
                let goodbye = match fault {
                    // There is no way to say it.
                    Fault::Link | Fault::Source => FinalAdvertisement::Silent,
                    Fault::PeersUnknown | Fault::Unable | Fault::Kernel | Fault::Group => {
                        self.goodbye()
                    }
                };
                self.release(goodbye);
                if leaving {
                    self.stop(Reason::Fault(fault), now);
                } else {
                    self.fail(fault, now);
                }
            }
        }
    }

    fn fail(&mut self, fault: Fault, now: Instant) {
        let from = self.state();
        self.phase = Phase::Fault;
        self.demand(Demand::Drop);
        self.changed(from, Reason::Fault(fault), now);
    }

    pub(super) fn clear_fault(&mut self, fault: Fault, now: Instant) {
        self.faults.remove(&fault);
        if matches!(self.phase, Phase::Fault) && self.faults.is_empty() {
            self.active_interval = self.settings.interval;
            self.begin(Reason::FaultsCleared, now);
        }
    }

    pub(super) fn set_source(&mut self, source: Option<IpAddr>, now: Instant) {
        if source.is_none() {
            self.find_fault(Fault::Source, now);
            self.source = None;
            return;
        }
        let changed = self.source != source;
        self.source = source;
        if changed && matches!(&self.phase, Phase::Active(active) if active.going.is_none()) {
            self.advertise(now);
        }
        self.clear_fault(Fault::Source, now);
    }

    pub(super) fn set_priority(&mut self, priority: u8, now: Instant) {
        if self.priority == priority {
            return;
        }
        self.priority = priority;
        match &self.phase {
            Phase::Active(active) if active.going.is_none() => self.advertise(now),
            Phase::Backup(_) if priority == PRIORITY_OWNER => self.claim(Reason::Owner, now),
            _ => self.catch_up(now),
        }
    }

    pub(super) fn reconfigure(&mut self, settings: Arc<RouterSettings>, now: Instant) {
        if !self.settings.is_same_router(&settings) {
            self.replace(settings, now);
            return;
        }
        if are_unknown(&settings.peers) {
            // The former peers hear that this router stops.
            self.find_fault(Fault::PeersUnknown, now);
        }
        let before = std::mem::replace(&mut self.settings, settings);
        if before.peers != self.settings.peers {
            self.guests.clear();
        }
        let removed = missing_from(&before.addresses, &self.settings.addresses);
        let added = missing_from(&self.settings.addresses, &before.addresses);
        if before.priority != self.settings.priority {
            self.priority = self.settings.priority.max(1);
        }
        if self.active_interval == before.interval || self.settings.version == Version::V2 {
            self.active_interval = self.settings.interval;
        }
        match &mut self.phase {
            Phase::Initialize | Phase::Fault => {}
            Phase::Backup(backup) => {
                // Its timer has run out: outside a group it claims at once.
                backup.would_claim &= self.settings.group.is_some();
                self.catch_up(now);
            }
            Phase::Active(active) => {
                if before.announce != self.settings.announce && active.going.is_none() {
                    active
                        .announcements
                        .reconfigure(&self.settings.announce, now);
                }
                self.edit_while_active(removed, added, now);
            }
        }
        if !are_unknown(&self.settings.peers) {
            self.clear_fault(Fault::PeersUnknown, now);
        }
    }

    /// The addresses that stay do not move.
    fn edit_while_active(
        &mut self,
        removed: Vec<VirtualAddress>,
        added: Vec<VirtualAddress>,
        now: Instant,
    ) {
        // Another one is about to have them: nothing is said of those that are new.
        let is_going = self.purpose().is_some();
        if !is_going {
            self.advertise(now);
        }
        self.remove(removed);
        if !added.is_empty() {
            let addresses = added.iter().map(|entry| entry.address).collect();
            let count = self.settings.announce.count;
            self.actions.push_back(Action::AddAddresses(added));
            if !is_going {
                self.actions
                    .push_back(Action::Announce { addresses, count });
            }
        }
    }

    fn remove(&mut self, removed: Vec<VirtualAddress>) {
        if !removed.is_empty() {
            let addresses = removed.iter().map(|entry| entry.address).collect();
            self.actions.push_back(Action::ResetFlows(addresses));
            self.actions.push_back(Action::RemoveAddresses(removed));
        }
    }

    /// Another virtual router in the place of this one.
    fn replace(&mut self, settings: Arc<RouterSettings>, now: Instant) {
        let running = !matches!(self.phase, Phase::Initialize);
        let leaving = self.is_handing_over();
        if matches!(self.phase, Phase::Active(_)) {
            self.release(self.goodbye());
        }
        if leaving {
            self.stop(Reason::Stopped, now);
            return;
        }
        if running {
            let from = self.state();
            self.phase = Phase::Initialize;
            self.changed(from, Reason::Stopped, now);
        }
        self.priority = settings.priority.max(1);
        self.settings = settings;
        self.guests.clear();
        self.faults.remove(&Fault::PeersUnknown);
        if are_unknown(&self.settings.peers) {
            self.faults.insert(Fault::PeersUnknown);
        }
        if running {
            self.start(Start::Fresh, now);
        }
    }
}

/// The items of `list` that `other` lacks.
fn missing_from(list: &[VirtualAddress], other: &[VirtualAddress]) -> Vec<VirtualAddress> {
    let missing = list.iter().filter(|entry| !other.contains(entry));
    missing.copied().collect()
}
