//! The messages of an active router.

use std::net::IpAddr;
use std::time::Instant;

use super::{Action, Advertisement, Audience, Machine, PRIORITY_STOPPED, Phase};

impl Machine {
    /// To all, at what is its priority; the next follows an interval after.
    pub(super) fn advertise(&mut self, now: Instant) {
        self.send(self.advertised_priority());
        let interval = self.settings.interval;
        let again = self.goodbye_interval();
        if let Phase::Active(active) = &mut self.phase {
            active.sent = now;
            if active.going.is_some() {
                active.due = now + again;
                return;
            }
            // On the beat, unless that is past or something was sent beside it.
            let beat = active.due + interval;
            let on_beat = active.due <= now && beat > now;
            active.due = if on_beat { beat } else { now + interval };
        }
    }

    pub(super) fn send(&mut self, priority: u8) {
        self.counters.advert_sent += 1;
        if priority == PRIORITY_STOPPED {
            self.counters.pri_zero_sent += 1;
        }
        let guests: Vec<_> = self.guests.iter().copied().map(Audience::One).collect();
        let advertisement = Advertisement {
            version: self.settings.version,
            router_id: self.settings.router_id,
            priority,
            interval: self.settings.interval,
            addresses: self.all_addresses(),
        };
        let each = [Audience::All].into_iter().chain(guests);
        self.actions.extend(each.map(|to| Action::Send {
            advertisement: advertisement.clone(),
            to,
        }));
    }

    pub(super) fn announce(&mut self, count: u8) {
        let addresses = self.all_addresses();
        self.actions
            .push_back(Action::Announce { addresses, count });
    }

    pub(super) fn advertised_priority(&self) -> u8 {
        if self.is_handing_over() {
            PRIORITY_STOPPED
        } else {
            self.priority
        }
    }

    pub(super) fn all_addresses(&self) -> Vec<IpAddr> {
        let entries = self.settings.addresses.iter();
        entries.map(|entry| entry.address).collect()
    }

    pub(super) fn remove_all(&mut self) {
        let addresses = self.settings.addresses.clone();
        self.actions.push_back(Action::RemoveAddresses(addresses));
    }
}
