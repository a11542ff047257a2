//! The keys of zones, as validations have found them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use dns_wire::Name;

use crate::keys::{Ds, Key};
use crate::verdict::Why;

/// The most zones that are remembered; the oldest makes room.
const MAX_ZONES: usize = 10_000;
/// The longest time that a state is remembered, in seconds.
const MAX_KEPT: u32 = 86_400;
/// The shortest time: as long as the validation that has asked for it takes, whatever the TTL.
const MIN_KEPT: u32 = 10;
/// The time that bogus keys are remembered: as long as unbound does it.
pub(crate) const BOGUS_KEPT: u32 = 60;

/// The states of zones, for all validations of one set of anchors.
#[derive(Debug, Default)]
pub struct Zones {
    entries: HashMap<Name, Entry>,
    order: VecDeque<Name>,
}

#[derive(Debug)]
struct Entry {
    state: State,
    until: u64,
}

/// The state of a zone that begins at a name.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// The zone above vouches for keys that these records name.
    Delegated(Arc<[Ds]>),
    /// Its keys.
    Keys(Arc<[Key]>),
    /// It and all below it is not signed, as far as can be proven.
    Insecure(Why),
    /// Its keys are bogus.
    Bogus(Why),
}

impl Zones {
    /// The number of zones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no zone is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets all, as when the anchors change.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
    }

    pub(crate) fn get(&self, zone: &Name, now: u64) -> Option<&State> {
        let entry = self.entries.get(zone).filter(|entry| now < entry.until)?;
        Some(&entry.state)
    }

    pub(crate) fn put(&mut self, zone: &Name, state: State, lifetime: u32, now: u64) {
        let until = now + u64::from(lifetime.clamp(MIN_KEPT, MAX_KEPT));
        let entry = Entry { state, until };
        if self.entries.insert(zone.clone(), entry).is_none() {
            self.order.push_back(zone.clone());
            if self.entries.len() > MAX_ZONES
                && let Some(oldest) = self.order.pop_front()
            {
                self.entries.remove(&oldest);
            }
        }
    }
}
