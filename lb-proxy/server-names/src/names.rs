//! The entries of a configuration that have names, and the servers that they stand for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dns_wire::Name;

use crate::lookup::{Lookup, Settings, State};
use crate::message::{Kind, Outcome, Place, Question, Record};

/// The most queries under way; the others wait for their turn.
pub const MOST_IN_FLIGHT: usize = 32;

/// A server of the configuration that has a name, or a group of such servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its backend. Servers of one backend do not share an address.
    pub backend: Arc<str>,
    /// Its name in the configuration.
    pub server: Arc<str>,
    /// The DNS name that it has for an address.
    pub source: Source,
    /// The most servers that it stands for.
    pub most: usize,
    /// The addresses that it takes.
    pub families: Families,
}

/// A DNS name for servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The addresses of a host, at a port.
    Host(Name, u16),
    /// The places of a service, from SRV records.
    Service(Name),
}

/// The addresses that servers take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Families {
    /// Those of a family; if there is none, those of the other one.
    Prefer(Family),
    /// Those of a family alone.
    Only(Family),
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A server that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its address.
    pub address: SocketAddr,
    /// Whether a place of a better priority is there.
    pub is_backup: bool,
    /// Its share.
    pub share: Share,
    priority: u16,
}

/// The share of a server in the connections, in proportion to the heaviest of its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    weight: u16,
    heaviest: u16,
}

impl Share {
    /// The weight of a server that is the heaviest.
    const WHOLE: Self = Self {
        weight: 1,
        heaviest: 1,
    };

    /// The weight, where the heaviest has this one. A record without weight has a small share, as RFC 2782 asks.
    #[must_use]
    pub fn of(self, heaviest: u16) -> u16 {
        if self.weight == self.heaviest || heaviest == 0 {
            return heaviest;
        }
        let weight = u32::from(heaviest) * u32::from(self.weight) / u32::from(self.heaviest);
        u16::try_from(weight).unwrap_or(heaviest).max(1)
    }
}

/// An entry, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The entry.
    pub entry: Entry,
    /// How many servers it stands for now.
    pub servers: usize,
    /// The state of its lookups: a failure of any, else that of the best.
    pub state: State,
    /// The time since the last answer or denial of its name; none before the first.
    pub age: Option<Duration>,
}

/// Entries, and the servers that they stand for.
#[derive(Clone, Debug)]
pub struct Names {
    settings: Settings,
    entries: Vec<Entry>,
    pub(crate) lookups: BTreeMap<Question, Lookup>,
    /// The servers of each entry.
    found: Vec<Vec<Found>>,
}

impl Names {
    /// Entries of which nothing is known.
    #[must_use]
    pub fn new(settings: Settings, entries: Vec<Entry>, now: Instant) -> Self {
        let mut names = Self {
            settings,
            found: vec![Vec::new(); entries.len()],
            entries,
            lookups: BTreeMap::new(),
        };
        names.settle(now);
        names
    }

    /// Takes up another configuration. The answers of names that stay are kept.
    pub fn adopt(&mut self, settings: Settings, entries: Vec<Entry>, now: Instant) {
        let found = entries.iter().map(|entry| {
            let mut known = self.entries.iter().zip(&self.found);
            let known = known
                .find(|(known, _)| known.backend == entry.backend && known.server == entry.server);
            known.map_or_else(Vec::new, |(_, found)| found.clone())
        });
        self.found = found.collect();
        (self.settings, self.entries) = (settings, entries);
        self.settle(now);
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The questions to ask now; each counts as sent.
    pub fn due(&mut self, now: Instant) -> Vec<Question> {
        let room = self.room();
        let due = self.lookups.iter_mut();
        let due = due.filter(|(_, lookup)| lookup.is_due(now)).take(room);
        due.map(|(question, lookup)| {
            lookup.send();
            question.clone()
        })
        .collect()
    }

    /// Takes up the outcome of a question; true when the servers are others.
    pub fn take(&mut self, question: &Question, outcome: Outcome, now: Instant) -> bool {
        let Some(lookup) = self.lookups.get_mut(question) else {
            return false;
        };
        lookup.take(outcome, &self.settings, now);
        self.settle(now)
    }

    /// Lets hold times end; true when the servers are others.
    pub fn tick(&mut self, now: Instant) -> bool {
        for lookup in self.lookups.values_mut() {
            lookup.tick(&self.settings, now);
        }
        self.settle(now)
    }

    /// No response will come to what was sent: all that is due will be sent again.
    pub fn give_up(&mut self) {
        for lookup in self.lookups.values_mut() {
            lookup.give_up();
        }
    }

    /// When [`Self::due`] or [`Self::tick`] has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let may_ask = self.room() > 0;
        let lookups = self.lookups.values();
        lookups
            .filter_map(|lookup| lookup.deadline(&self.settings, may_ask))
            .min()
    }

    /// How many more queries may be under way.
    fn room(&self) -> usize {
        let in_flight = self.lookups.values().filter(|lookup| lookup.is_in_flight());
        MOST_IN_FLIGHT.saturating_sub(in_flight.count())
    }

    /// Whether every question has had an answer, or none in time.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.lookups.values().all(Lookup::is_settled)
    }

    /// The servers that an entry stands for: by priority, then by address.
    #[must_use]
    pub fn servers(&self, backend: &str, server: &str) -> &[Found] {
        let mut all = self.entries.iter().zip(&self.found);
        let found = all.find(|(entry, _)| *entry.backend == *backend && *entry.server == *server);
        found.map_or(&[], |(_, found)| found)
    }

    /// All servers: backend, entry and address.
    #[must_use]
    pub fn all(&self) -> BTreeSet<(Arc<str>, Arc<str>, SocketAddr)> {
        let entries = self.entries.iter().zip(&self.found);
        let of_entry = |(entry, found): (&Entry, &Vec<Found>)| {
            let one = |one: &Found| {
                let (backend, server) = (&entry.backend, &entry.server);
                (Arc::clone(backend), Arc::clone(server), one.address)
            };
            found.iter().map(one).collect::<Vec<_>>()
        };
        entries.flat_map(of_entry).collect()
    }

    /// The entries, for people.
    #[must_use]
    pub fn reports(&self, now: Instant) -> Vec<Report> {
        let entries = self.entries.iter().zip(&self.found);
        let report = |(entry, found): (&Entry, &Vec<Found>)| {
            let questions = self.questions(entry);
            let lookups = || {
                let all = questions.iter();
                all.filter_map(|question| self.lookups.get(question))
            };
            let states = lookups().map(Lookup::state);
            let name = questions.first().map(|question| &question.name);
            let of_name = questions
                .iter()
                .filter(|question| Some(&question.name) == name);
            let answered = of_name
                .filter_map(|question| self.lookups.get(question)?.answered())
                .max();
            Report {
                entry: entry.clone(),
                servers: found.len(),
                state: states.max_by_key(weight_of_state).unwrap_or(State::Asking),
                age: answered.map(|at| now.saturating_duration_since(at)),
            }
        };
        entries.map(report).collect()
    }

    //--- Questions

    /// The questions of an entry: first that for its name.
    fn questions(&self, entry: &Entry) -> Vec<Question> {
        let of_host = |name: &Name| {
            let kinds = entry.families.kinds().iter();
            let name = name.clone();
            kinds.map(move |kind| Question {
                name: name.clone(),
                kind: *kind,
            })
        };
        match &entry.source {
            Source::Host(name, _) => of_host(name).collect(),
            Source::Service(name) => {
                let places = Question {
                    name: name.clone(),
                    kind: Kind::Service,
                };
                let places_of: Vec<&Place> = self.places(&places).collect();
                let targets: BTreeSet<&Name> =
                    places_of.into_iter().map(|place| &place.target).collect();
                let of_targets: Vec<Question> = targets.into_iter().flat_map(of_host).collect();
                [places].into_iter().chain(of_targets).collect()
            }
        }
    }

    fn places(&self, question: &Question) -> impl Iterator<Item = &Place> {
        let records = self.lookups.get(question).into_iter();
        records
            .flat_map(Lookup::records)
            .filter_map(|record| match record {
                Record::Place(place) => Some(place),
                Record::Address(_) => None,
            })
    }

    /// Asks what the entries need, and nothing else.
    fn follow(&mut self, now: Instant) {
        let entries = self.entries.iter();
        let needed: BTreeSet<Question> = entries.flat_map(|entry| self.questions(entry)).collect();
        self.lookups.retain(|question, _| needed.contains(question));
        for question in needed {
            let lookups = self.lookups.entry(question);
            lookups.or_insert_with(|| Lookup::new(now));
        }
    }

    //--- Servers

    /// Follows what is known; true when the servers are others.
    pub(crate) fn settle(&mut self, now: Instant) -> bool {
        self.follow(now);
        let candidates: Vec<Vec<Found>> = self
            .entries
            .iter()
            .map(|entry| self.candidates(entry))
            .collect();
        // The addresses that are in use by entries of a backend, and stay.
        let mut users: BTreeMap<(Arc<str>, SocketAddr), usize> = BTreeMap::new();
        let stay = |at: usize, candidates: &[Found]| -> Vec<SocketAddr> {
            let before = self.found.get(at).into_iter().flatten();
            let is_there = |one: &&Found| candidates.iter().any(|it| it.address == one.address);
            before.filter(is_there).map(|one| one.address).collect()
        };
        for (at, (entry, candidates)) in self.entries.iter().zip(&candidates).enumerate() {
            for address in stay(at, candidates) {
                users
                    .entry((Arc::clone(&entry.backend), address))
                    .or_insert(at);
            }
        }
        let mut found = Vec::with_capacity(self.entries.len());
        for (at, (entry, mut candidates)) in self.entries.iter().zip(candidates).enumerate() {
            let mut own: BTreeSet<SocketAddr> = BTreeSet::new();
            users.retain(|(_, address), user| {
                let is_own = *user == at;
                if is_own {
                    own.insert(*address);
                }
                !is_own
            });
            candidates.sort_by_key(|one| (one.priority, !own.contains(&one.address), one.address));
            let mut picked = Vec::new();
            for one in candidates {
                let key = (Arc::clone(&entry.backend), one.address);
                if picked.len() < entry.most && !users.contains_key(&key) {
                    users.insert(key, at);
                    picked.push(one);
                }
            }
            picked.sort_by_key(|one| (one.priority, one.address));
            let best = picked.first().map(|one| one.priority);
            for one in &mut picked {
                one.is_backup = Some(one.priority) > best;
            }
            found.push(picked);
        }
        let is_other = found != self.found;
        self.found = found;
        is_other
    }

    /// Everything that an entry could stand for.
    fn candidates(&self, entry: &Entry) -> Vec<Found> {
        let mut all = BTreeMap::new();
        match &entry.source {
            Source::Host(name, port) => {
                for ip in self.addresses(name, entry.families) {
                    let address = SocketAddr::new(ip, *port);
                    all.insert(address, (0, Share::WHOLE));
                }
            }
            Source::Service(name) => {
                let question = Question {
                    name: name.clone(),
                    kind: Kind::Service,
                };
                let mut heaviest: BTreeMap<u16, u16> = BTreeMap::new();
                for place in self.places(&question) {
                    let known = heaviest.entry(place.priority).or_default();
                    *known = place.weight.max(*known);
                }
                for place in self.places(&question) {
                    let share = Share {
                        weight: place.weight,
                        heaviest: heaviest.get(&place.priority).copied().unwrap_or_default(),
                    };
                    for ip in self.addresses(&place.target, entry.families) {
                        let address = SocketAddr::new(ip, place.port);
                        // The places come by priority: the best one of an address counts.
                        all.entry(address).or_insert((place.priority, share));
                    }
                }
            }
        }
        let found = |(address, (priority, share))| Found {
            address,
            is_backup: false,
            share,
            priority,
        };
        all.into_iter().map(found).collect()
    }

    /// The addresses of a host. While it is open whether the preferred family has some, there are none.
    fn addresses(&self, name: &Name, families: Families) -> Vec<IpAddr> {
        for kind in families.kinds() {
            let question = Question {
                name: name.clone(),
                kind: *kind,
            };
            let Some(lookup) = self.lookups.get(&question) else {
                continue;
            };
            let addresses = lookup.records().filter_map(|record| match record {
                Record::Address(address) => Some(*address),
                Record::Place(_) => None,
            });
            let addresses: Vec<IpAddr> = addresses.collect();
            if !addresses.is_empty() || lookup.is_open() {
                return addresses;
            }
        }
        Vec::new()
    }
}

impl Families {
    /// The records to ask for, the preferred ones first.
    const fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Prefer(Family::V4) => &[Kind::V4, Kind::V6],
            Self::Prefer(Family::V6) => &[Kind::V6, Kind::V4],
            Self::Only(Family::V4) => &[Kind::V4],
            Self::Only(Family::V6) => &[Kind::V6],
        }
    }
}

/// The weight of a state for an entry with several lookups.
const fn weight_of_state(state: &State) -> u8 {
    match state {
        State::Asking => 0,
        State::Denied { exists: false } => 1,
        State::Denied { exists: true } => 2,
        State::Found => 3,
        State::Failed(_) => 4,
    }
}

#[cfg(test)]
mod tests;
