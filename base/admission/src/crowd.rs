//! Streams by source, ranked: the source with the most first, and in it the stream that has waited longest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::Id;
use crate::source::Key;

/// A stream that may end, and since when.
pub(crate) type Victim = (Instant, Id);

#[derive(Debug, Default)]
struct Own {
    /// All streams.
    total: usize,
    /// Those that may end, the oldest first.
    victims: BTreeSet<Victim>,
}

impl Own {
    fn rank(&self, key: Key) -> Option<Rank> {
        let oldest = self.victims.first()?;
        Some((self.total, Reverse(*oldest), key))
    }
}

/// The order of sources: the most streams, then the oldest that may end.
type Rank = (usize, Reverse<Victim>, Key);

/// The share of a source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) most: usize,
    pub(crate) sources: usize,
    /// The streams of the newcomer's source. One that has more gives way, whatever the share: sources whose answers are all
    /// in flight may hold so much that no other one has its share.
    pub(crate) own: usize,
}

impl Share {
    pub(crate) const fn is_below(self, total: usize) -> bool {
        total > self.own || total * self.sources > self.most
    }
}

#[derive(Debug)]
pub(crate) struct Crowd {
    all: usize,
    sources: BTreeMap<Key, Own>,
    /// The sources of which a stream may end.
    ranking: BTreeSet<Rank>,
}

impl Crowd {
    pub(crate) const fn new() -> Self {
        Self {
            all: 0,
            sources: BTreeMap::new(),
            ranking: BTreeSet::new(),
        }
    }

    /// All streams.
    pub(crate) const fn all(&self) -> usize {
        self.all
    }

    pub(crate) fn n_sources(&self) -> usize {
        self.sources.len()
    }

    /// The streams of a source.
    pub(crate) fn total(&self, key: Key) -> usize {
        self.sources.get(&key).map_or(0, |own| own.total)
    }

    /// The oldest stream of a source that may end.
    pub(crate) fn oldest_of(&self, key: Key) -> Option<Id> {
        let own = self.sources.get(&key)?;
        own.victims.first().map(|(_, id)| *id)
    }

    /// The oldest stream that may end of the source with the most streams, and how many it has.
    pub(crate) fn of_most(&self) -> Option<(usize, Id)> {
        let (total, Reverse((_, id)), _) = self.ranking.last()?;
        Some((*total, *id))
    }

    /// The same, if that source has more than its share of `most`, or than the newcomer's.
    pub(crate) fn above_share(&self, most: usize, newcomer: Key) -> Option<(usize, Id)> {
        let own = self.total(newcomer);
        let share = Share {
            most,
            sources: self.n_sources() + usize::from(own == 0),
            own,
        };
        self.of_most().filter(|(total, _)| share.is_below(*total))
    }

    pub(crate) fn enter(&mut self, key: Key, victim: Option<Victim>) {
        self.all += 1;
        self.with(key, |own| {
            own.total += 1;
            own.victims.extend(victim);
        });
    }

    pub(crate) fn leave(&mut self, key: Key, victim: Option<Victim>) {
        self.all = self.all.saturating_sub(1);
        self.with(key, |own| {
            own.total = own.total.saturating_sub(1);
            if let Some(victim) = victim {
                own.victims.remove(&victim);
            }
        });
    }

    fn with(&mut self, key: Key, change: impl FnOnce(&mut Own)) {
        let own = self.sources.entry(key).or_default();
        if let Some(rank) = own.rank(key) {
            self.ranking.remove(&rank);
        }
        change(own);
        match own.total {
            0 => drop(self.sources.remove(&key)),
            _ => self.ranking.extend(own.rank(key)),
        }
    }
}
