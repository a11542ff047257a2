//! The services: when to ask for their addresses again, and the last good ones.
//!
//! ```text
//!            addresses                       ┌── after min(TTL, 60 s), at least 5 s
//! asked ───► SERVFAIL, silence, nonsense ───►┤   after 5 s, doubled to 60 s; the addresses stay
//!            NXDOMAIN, no such records       └── after 15 s; the addresses stay, or go when it lasts
//! ```

use std::net::IpAddr;
use std::time::Duration;

use random::Random;

use crate::Service;
use crate::answer::{Failure, Family, Outcome};
use crate::block::Entry;

/// The most services: their lines fit into the block.
pub const MAX_SERVICES: usize = 32;
/// The shortest time between two lookups of a family.
pub const SHORTEST: Duration = Duration::from_secs(5);
/// The longest time between two lookups of a family.
pub const LONGEST: Duration = Duration::from_mins(1);
/// The time from a denial to the next lookup.
pub const AFTER_DENIAL: Duration = Duration::from_secs(15);
/// The denials in a row that remove addresses.
pub const DENIALS: u32 = 3;
/// How long a family has to be denied whose service has addresses of the other one.
pub const OTHER_FAMILY: Duration = LONGEST;
/// The part of a wait that is left to chance, so that the nodes of a cluster do not ask at the same time.
const JITTER: f64 = 0.1;

/// The services of a node.
#[derive(Debug)]
pub struct Services {
    states: Vec<State>,
    /// How long a service has to be denied until its lines go; never without it.
    remove_after: Option<Duration>,
    random: Random,
}

#[derive(Debug)]
struct State {
    service: Service,
    families: [Known; 2],
}

/// The knowledge of a family of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The last good addresses.
    pub addresses: Vec<IpAddr>,
    /// The time of the last answer, or denial; none before the first one.
    pub answered: Option<Duration>,
    /// The last failure, when nothing better came after it.
    pub failure: Option<Failure>,
    /// The time of the next lookup.
    due: Duration,
    is_asked: bool,
    /// The failures in a row.
    n_failures: u32,
    /// The denials in a row, and the time of the first one.
    denied: Option<(u32, Duration)>,
}

impl Services {
    /// Services of which nothing is known; all are due at once.
    #[must_use]
    pub fn new(services: Vec<Service>, remove_after: Option<Duration>, random: Random) -> Self {
        let state = |service| State {
            service,
            families: <[Known; 2]>::default(),
        };
        Self {
            states: services.into_iter().map(state).collect(),
            remove_after,
            random,
        }
    }

    /// Takes the entries of a former process as the last good addresses.
    pub fn adopt(&mut self, entries: &[Entry]) {
        for state in &mut self.states {
            let names = &state.service.names;
            let own = entries.iter().filter(|entry| entry.names == *names);
            let addresses: Vec<IpAddr> = own.map(|entry| entry.address).collect();
            for (family, known) in Family::ALL.iter().zip(&mut state.families) {
                let of_family = addresses.iter().filter(|address| family.has(**address));
                known.addresses = of_family.copied().collect();
                known.addresses.sort_unstable();
                known.addresses.dedup();
            }
        }
    }

    /// The lookups that are due, by the number of the service; each is given once until it was answered.
    pub fn take_due(&mut self, now: Duration) -> Vec<(usize, Family)> {
        let mut due = Vec::new();
        for (index, state) in self.states.iter_mut().enumerate() {
            for (family, known) in Family::ALL.into_iter().zip(&mut state.families) {
                if !known.is_asked && known.due <= now {
                    known.is_asked = true;
                    due.push((index, family));
                }
            }
        }
        due
    }

    /// The time of the next lookup; none while all are under way.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        let known = self.states.iter().flat_map(|state| &state.families);
        let waiting = known.filter(|known| !known.is_asked);
        waiting.map(|known| known.due).min()
    }

    /// Makes all lookups due: the server is back, or an operator wants it.
    pub fn ask_now(&mut self, now: Duration) {
        for known in self.states.iter_mut().flat_map(|state| &mut state.families) {
            known.due = known.due.min(now);
        }
    }

    /// Takes what a lookup came to; true when the entries may be others.
    pub fn answered(
        &mut self,
        (index, family): (usize, Family),
        outcome: Outcome,
        now: Duration,
    ) -> bool {
        let chance = self.random.unit();
        let Some(state) = self.states.get_mut(index) else {
            return false;
        };
        let [v4, v6] = &mut state.families;
        let (known, other) = match family {
            Family::V4 => (v4, v6),
            Family::V6 => (v6, v4),
        };
        known.is_asked = false;
        let before = known.addresses.clone();
        let wait = match outcome {
            Outcome::Addresses { addresses, ttl } => {
                known.addresses = addresses;
                known.denied = None;
                known.good(now);
                ttl
            }
            Outcome::Empty | Outcome::Denied => {
                known.good(now);
                let has_other = outcome == Outcome::Empty
                    && !other.addresses.is_empty()
                    && other.denied.is_none()
                    && other.failure.is_none();
                let lasts = match has_other {
                    true => Some(
                        self.remove_after
                            .map_or(OTHER_FAMILY, |it| it.min(OTHER_FAMILY)),
                    ),
                    false => self.remove_after,
                };
                known.denied(lasts, now);
                match known.addresses.is_empty() && has_other {
                    // As expected: most services have one family.
                    true => LONGEST,
                    false => AFTER_DENIAL,
                }
            }
            Outcome::Failed(failure) => {
                known.failure = Some(failure);
                let doubled = SHORTEST.saturating_mul(1 << known.n_failures.min(8));
                known.n_failures = known.n_failures.saturating_add(1);
                doubled
            }
        };
        let wait = wait.min(LONGEST).mul_f64(1.0 - JITTER * chance);
        known.due = now + wait.max(SHORTEST);
        known.addresses != before
    }

    /// The lines of the block, in the order of the services.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for state in &self.states {
            for address in state.families.iter().flat_map(|known| &known.addresses) {
                entries.push(Entry {
                    address: *address,
                    names: state.service.names.clone(),
                });
            }
        }
        entries
    }

    /// The service with this number.
    #[must_use]
    pub fn service(&self, index: usize) -> Option<&Service> {
        self.states.get(index).map(|state| &state.service)
    }

    /// The services, and what is known of their families: IPv4, IPv6.
    pub fn all(&self) -> impl Iterator<Item = (&Service, &[Known; 2])> {
        self.states
            .iter()
            .map(|state| (&state.service, &state.families))
    }
}

impl Known {
    fn good(&mut self, now: Duration) {
        self.answered = Some(now);
        self.failure = None;
        self.n_failures = 0;
    }

    /// Counts a denial; removes the addresses when it has lasted.
    fn denied(&mut self, lasts: Option<Duration>, now: Duration) {
        let (n_before, since) = self.denied.unwrap_or((0, now));
        let n_denials = n_before.saturating_add(1);
        self.denied = Some((n_denials, since));
        let has_lasted = lasts.is_some_and(|lasts| now.saturating_sub(since) >= lasts);
        if has_lasted && n_denials >= DENIALS {
            self.addresses.clear();
        }
    }

    /// Whether the last answer was a denial.
    #[must_use]
    pub const fn is_denied(&self) -> bool {
        self.denied.is_some()
    }
}

#[cfg(test)]
mod tests;
