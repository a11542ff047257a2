//! Records that are applied ahead of others of their origin.

use std::collections::BTreeSet;

use oci::reference::RepositoryName;
use registry_facts::record::{Fact, NodeId, Record};

use super::fetch_queue::Class;
use super::{Ahead, Intake, Pending};
use crate::ahead;

impl Intake {
    /// The records of an origin that are safe here although others before them are not.
    #[must_use]
    pub fn ahead(&self, origin: &NodeId) -> Option<ahead::Ahead> {
        let queue = self.queues.get(origin).filter(|queue| queue.n_ahead > 0)?;
        let pending = queue.tickets.iter();
        let pending = pending.filter_map(|ticket| self.pending.get(ticket));
        let applied = pending.filter(|pending| pending.ahead == Ahead::Applied);
        let sequences = applied.map(|pending| pending.record.sequence);
        Some(ahead::Ahead::new(origin.clone(), sequences))
    }

    /// Applies what is complete while the first records of an origin are held up. Those of one repository stay
    /// in their order.
    pub(super) fn go_ahead(&mut self, origin: &NodeId) {
        let Some(queue) = self.queues.get(origin) else {
            return;
        };
        let pending = queue.tickets.iter();
        let mut pending = pending.filter_map(|ticket| Some((*ticket, self.pending.get(ticket)?)));
        // Those at the front are on their way to the disk.
        let applying = pending.by_ref().take(queue.applying);
        let mut blocked: BTreeSet<&RepositoryName> =
            applying.flat_map(|(_, one)| repositories(one)).collect();
        match pending.next() {
            Some((_, first)) if self.is_held_up(first) => blocked.extend(repositories(first)),
            Some(_) | None => return,
        }
        let mut tickets = Vec::new();
        let mut records = Vec::new();
        for (ticket, pending) in pending {
            if pending.ahead == Ahead::Applied {
                continue;
            }
            let is_free = pending.ahead == Ahead::No
                && pending.open.is_empty()
                && !repositories(pending).any(|repository| blocked.contains(repository));
            if !is_free {
                blocked.extend(repositories(pending));
            } else if !pending.record.facts.is_empty() {
                tickets.push(ticket);
                // As a repair: without a place in the sequence.
                records.push(Record {
                    sequence: 0,
                    ..pending.record.clone()
                });
            }
            if tickets.len() >= self.limits.batch {
                break;
            }
        }
        if tickets.is_empty() {
            return;
        }
        for ticket in &tickets {
            if let Some(pending) = self.pending.get_mut(ticket) {
                pending.ahead = Ahead::Applying;
            }
        }
        self.apply(tickets, records, Some(origin.clone()));
    }

    /// A batch has been applied ahead, or has not; some of it may have taken its place meanwhile.
    pub(super) fn applied_ahead(&mut self, origin: &NodeId, tickets: &[u64], done: bool) {
        let mut n_ahead = 0;
        for ticket in tickets {
            if let Some(pending) = self.pending.get_mut(ticket) {
                n_ahead += usize::from(done);
                pending.ahead = match done {
                    true => Ahead::Applied,
                    // It is tried again at the next tick.
                    false => Ahead::No,
                };
            }
        }
        if let Some(queue) = self.queues.get_mut(origin) {
            queue.n_ahead += n_ahead;
        }
        if done {
            self.go_ahead(origin);
            self.make_room(origin);
        }
    }

    /// Whether a record waits for more than a moment.
    fn is_held_up(&self, pending: &Pending) -> bool {
        let needs = pending.open.iter();
        let mut needs = needs.filter_map(|digest| self.needs.get(digest));
        needs.any(|need| need.failures > 0 || need.class() != Class::Small)
    }
}

fn repositories(pending: &Pending) -> impl Iterator<Item = &RepositoryName> {
    pending.record.facts.iter().filter_map(Fact::repository)
}
