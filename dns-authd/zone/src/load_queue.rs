//! Decides which zones are loaded now, which wait for that, and which results count.
//!
//! ```text
//!           request            begin             finish
//!  unlisted ───────► waiting ───────► running ───────────► unlisted
//!                      ▲                 │ request meanwhile
//!                      └─────────────────┘ (once, behind its own run)
//! ```
//!
//! * A zone is loaded once at a time. A request during its load makes it wait for one more load: that request
//!   wants the files as they are now.
//! * A load is *superseded* when its result must not be taken, because the zone is declared otherwise now. Then
//!   its zone is loaded again, and those that wait for it wait for the later load.
//! * Only some loads run at once, and fewer large ones, so that a large zone takes neither every worker nor the
//!   memory of several. Among those that may run, the first that was requested is next; the smallest
//!   comes first in one request. So a zone waits for a bounded number of others.
//! * A *ticket* waits for a number of loads, each of which begins after its request.
//!
//! Starts no thread and reads no file: the caller runs the loads, and reports their ends in any order.

use std::collections::BTreeMap;

/// The bounds of loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most loads at once.
    pub at_once: usize,
    /// The most loads of large zones at once.
    pub large_at_once: usize,
    /// The size from which a zone is large, in octets of its files.
    pub large: u64,
}

/// The stage of a zone's load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It waits for its turn.
    Waiting,
    /// It runs.
    Running,
}

/// The number of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Job(u64);

/// The end of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished<Z, T> {
    /// The zone.
    pub zone: Z,
    /// Whether its result counts.
    pub is_current: bool,
    /// The tickets that waited for this load.
    pub tickets: Vec<T>,
    /// Those of them that wait for nothing more.
    pub complete: Vec<T>,
}

/// The loads of zones `Z`, and the tickets `T` that wait for them.
#[derive(Clone, Debug)]
pub struct LoadQueue<Z, T> {
    limits: Limits,
    loads: BTreeMap<Z, Load<T>>,
    /// Waiting zones in their order.
    small: BTreeMap<u64, Z>,
    large: BTreeMap<u64, Z>,
    running: BTreeMap<Job, Z>,
    n_running_large: usize,
    /// The number of loads that each ticket waits for.
    tickets: BTreeMap<T, usize>,
    next_number: u64,
}

/// The loads of one zone.
#[derive(Clone, Debug)]
struct Load<T> {
    running: Option<Running<T>>,
    waiting: Option<Waiting<T>>,
}

#[derive(Clone, Debug)]
struct Running<T> {
    is_large: bool,
    is_current: bool,
    tickets: Vec<T>,
}

#[derive(Clone, Debug)]
struct Waiting<T> {
    number: u64,
    is_large: bool,
    tickets: Vec<T>,
}

impl<Z: Clone + Ord, T: Copy + Ord> LoadQueue<Z, T> {
    /// No loads yet.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            loads: BTreeMap::new(),
            small: BTreeMap::new(),
            large: BTreeMap::new(),
            running: BTreeMap::new(),
            n_running_large: 0,
            tickets: BTreeMap::new(),
            next_number: 0,
        }
    }

    /// Requests a load of each of these zones, given with their sizes; the smallest comes first. The ticket
    /// waits for all of them.
    pub fn request(&mut self, zones: impl IntoIterator<Item = (Z, u64)>, ticket: Option<T>) {
        let mut zones: Vec<(Z, u64)> = zones.into_iter().collect();
        zones.sort_by_key(|(_, size)| *size);
        for (zone, size) in zones {
            self.want(zone, size, ticket);
        }
    }

    /// Requests the load of a zone like [`Self::request`], and drops the result of the load that runs, if one
    /// does.
    pub fn supersede(&mut self, zone: &Z, size: u64, ticket: Option<T>) {
        self.want(zone.clone(), size, ticket);
        let Some(load) = self.loads.get_mut(zone) else {
            return;
        };
        if let (Some(running), Some(waiting)) = (&mut load.running, &mut load.waiting) {
            running.is_current = false;
            waiting.tickets.append(&mut running.tickets);
        }
    }

    /// Forgets a zone: nothing is loaded for it any more. Returns the tickets that wait for nothing more.
    pub fn remove(&mut self, zone: &Z) -> Vec<T> {
        let Some(mut load) = self.loads.remove(zone) else {
            return Vec::new();
        };
        let mut tickets = Vec::new();
        if let Some(waiting) = load.waiting.take() {
            self.small.remove(&waiting.number);
            self.large.remove(&waiting.number);
            tickets = waiting.tickets;
        }
        if let Some(running) = &mut load.running {
            running.is_current = false;
            tickets.append(&mut running.tickets);
            // Its worker is busy until it ends.
            self.loads.insert(zone.clone(), load);
        }
        self.release(&tickets)
    }

    /// The next load that may run now; it runs from here on.
    pub fn begin(&mut self) -> Option<(Job, Z)> {
        if self.running.len() >= self.limits.at_once {
            return None;
        }
        let small = self.small.first_key_value().map(|(number, _)| *number);
        let large = self.large.first_key_value().map(|(number, _)| *number);
        let large = large.filter(|_| self.n_running_large < self.limits.large_at_once);
        let number = [small, large].into_iter().flatten().min()?;
        let zone = self.small.remove(&number);
        let zone = zone.or_else(|| self.large.remove(&number))?;
        let load = self.loads.get_mut(&zone)?;
        let waiting = load.waiting.take()?;
        load.running = Some(Running {
            is_large: waiting.is_large,
            is_current: true,
            tickets: waiting.tickets,
        });
        self.n_running_large += usize::from(waiting.is_large);
        let job = Job(number);
        self.running.insert(job, zone.clone());
        Some((job, zone))
    }

    /// Takes the end of a load; `None` if it does not run.
    pub fn finish(&mut self, job: Job) -> Option<Finished<Z, T>> {
        let zone = self.running.remove(&job)?;
        let load = self.loads.get_mut(&zone)?;
        let running = load.running.take()?;
        self.n_running_large -= usize::from(running.is_large);
        match &load.waiting {
            // It waited for its own run.
            Some(waiting) => {
                let queue = match waiting.is_large {
                    true => &mut self.large,
                    false => &mut self.small,
                };
                queue.insert(waiting.number, zone.clone());
            }
            None => drop(self.loads.remove(&zone)),
        }
        let complete = self.release(&running.tickets);
        Some(Finished {
            zone,
            is_current: running.is_current,
            tickets: running.tickets,
            complete,
        })
    }

    /// Whether a ticket waits for some load.
    #[must_use]
    pub fn is_waiting(&self, ticket: T) -> bool {
        self.tickets.contains_key(&ticket)
    }

    /// The stage of a zone's load; `None` if there is none. A load that runs counts before one that waits.
    #[must_use]
    pub fn stage(&self, zone: &Z) -> Option<Stage> {
        let load = self.loads.get(zone)?;
        match (&load.running, &load.waiting) {
            (Some(running), _) if running.is_current => Some(Stage::Running),
            (_, Some(_)) => Some(Stage::Waiting),
            _ => None,
        }
    }

    /// The zones whose loads run, superseded ones too.
    pub fn running(&self) -> impl Iterator<Item = &Z> {
        self.running.values()
    }

    /// The number of zones that wait for a load.
    #[must_use]
    pub fn n_waiting(&self) -> usize {
        let behind_their_own = self.running.values().filter(|zone| {
            let load = self.loads.get(zone);
            load.is_some_and(|load| load.waiting.is_some())
        });
        self.small.len() + self.large.len() + behind_their_own.count()
    }

    /// Whether nothing runs and nothing waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.loads.is_empty()
    }

    fn want(&mut self, zone: Z, size: u64, ticket: Option<T>) {
        let is_large = size >= self.limits.large;
        let load = self.loads.entry(zone.clone()).or_insert(Load {
            running: None,
            waiting: None,
        });
        let waiting = load.waiting.get_or_insert_with(|| {
            let number = self.next_number;
            self.next_number += 1;
            if load.running.is_none() {
                let queue = match is_large {
                    true => &mut self.large,
                    false => &mut self.small,
                };
                queue.insert(number, zone);
            }
            Waiting {
                number,
                is_large,
                tickets: Vec::new(),
            }
        });
        if let Some(ticket) = ticket.filter(|ticket| !waiting.tickets.contains(ticket)) {
            waiting.tickets.push(ticket);
            *self.tickets.entry(ticket).or_insert(0) += 1;
        }
    }

    /// Takes one load off each of these tickets; returns those that wait for nothing more.
    fn release(&mut self, tickets: &[T]) -> Vec<T> {
        let mut complete = Vec::new();
        for ticket in tickets {
            let Some(left) = self.tickets.get_mut(ticket) else {
                continue;
            };
            *left -= 1;
            if *left == 0 {
                self.tickets.remove(ticket);
                complete.push(*ticket);
            }
        }
        complete
    }
}

#[cfg(test)]
mod tests;
