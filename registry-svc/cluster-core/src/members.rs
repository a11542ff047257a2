//! The nodes that a site has, as its journal says, and which of them a deletion waits for.
//!
//! A deletion is remembered for a time. A node that is away for longer would bring back what was deleted
//! meanwhile, so the others wait for it before they take anything away. They do not wait for ever: once a
//! node has been away for as long as deletions are remembered, a majority of the known nodes *forgets* it.
//! An operator can do so earlier. That is a statement in the journal like any other, and reaches all nodes.
//! Until then deletions that it has not heard of are remembered for longer.
//!
//! A node that was forgotten may come back with a journal that *began* since. Each disk notes when
//! its node had been forgotten last by then; the others take nothing from one that notes an earlier time, unless
//! they know no record that it holds: then it is new, and receives that time before anything else.
//! A node that is refused by a majority sets its journal aside and begins again.
//!
//! A node with an empty journal knows no deletion and no node that was forgotten. Until it has caught up with a node
//! that is *current*, it takes else only of nodes that have begun as well and have taken nothing of a node that
//! had: such nodes have only later pushes. A node is current when it had caught up with a majority no longer ago than deletions are remembered.
//! It hands the time on to those that catch up with it, and never makes it later without a majority, so that
//! a minority that was forgotten does not keep itself current.
//!
//! Never reads a clock: milliseconds since 1970 are handed in, of the time that statements are stamped with.

use std::collections::{BTreeMap, BTreeSet};

use registry_facts::name::NodeName;
use registry_facts::record::{FILLING, Membership, Vector};

/// The known nodes.
#[derive(Clone, Debug)]
pub struct Members {
    own: NodeName,
    /// Those that the configuration names beside this one.
    configured: BTreeSet<NodeName>,
    /// The statements of the journal.
    stated: BTreeMap<NodeName, Membership>,
    /// When each was connected last.
    seen: BTreeMap<NodeName, u64>,
    /// When this node had last caught up with a majority; 0 or [`FILLING`] when it never had.
    together: u64,
    /// The same of the other nodes, as each said last since the start.
    told: BTreeMap<NodeName, u64>,
    /// How long deletions are remembered, in milliseconds.
    age: u64,
}

/// The statement of a node about itself when it connects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// When it had been forgotten last before its journal began.
    pub began: u64,
    /// Whether its own journal says that it was taken in again.
    pub is_taken_in: bool,
}

/// How a node is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reception {
    /// It is one of the site's.
    Member,
    /// It begins: it is taken in and then told when it was forgotten, and nothing is taken from it before it
    /// has noted that.
    Beginner,
    /// It may bring back what was deleted: it has not begun, or has and was not taken in by the time that the
    /// node that told it went away.
    Refused,
}

/// Why the membership of a node stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It is this node.
    Own,
    /// No configuration and no statement names it.
    Unknown,
    /// Fewer nodes than a majority are connected.
    NoMajority,
    /// No node would know its address.
    NoAddress,
}

impl Members {
    /// The nodes of a configuration; `age` is how long deletions are remembered, in milliseconds.
    #[must_use]
    pub fn new(
        own: NodeName,
        configured: impl IntoIterator<Item = NodeName>,
        seen: BTreeMap<NodeName, u64>,
        together: u64,
        age: u64,
    ) -> Self {
        Self {
            own,
            configured: configured.into_iter().collect(),
            stated: BTreeMap::new(),
            seen,
            together,
            told: BTreeMap::new(),
            age,
        }
    }

    /// Takes over what the journal says; true when that is news.
    pub fn state(&mut self, stated: BTreeMap<NodeName, Membership>) -> bool {
        let is_news = self.stated != stated;
        // A node that was taken in again is away from the next look on.
        for (name, before) in &self.stated {
            let is_member = stated.get(name).is_some_and(|it| it.is_member);
            if is_member && !before.is_member {
                self.seen.remove(name);
            }
        }
        self.stated = stated;
        is_news
    }

    /// The other nodes that count.
    pub fn others(&self) -> impl Iterator<Item = &NodeName> {
        let stated = self.stated.iter();
        let added = stated.filter(|(name, membership)| {
            membership.is_member && !self.configured.contains(*name) && **name != self.own
        });
        let configured = self.configured.iter().filter(|name| self.is_member(name));
        configured.chain(added.map(|(name, _)| name))
    }

    /// Every other node that was ever named, and what the journal says of it.
    pub fn all(&self) -> impl Iterator<Item = (&NodeName, Option<&Membership>)> {
        let names: BTreeSet<&NodeName> = self.configured.iter().chain(self.stated.keys()).collect();
        let others = names.into_iter().filter(|name| **name != self.own);
        others.map(|name| (name, self.stated.get(name)))
    }

    /// Whether the configuration or the journal has a node.
    #[must_use]
    pub fn is_member(&self, name: &NodeName) -> bool {
        match self.stated.get(name) {
            Some(membership) => membership.is_member,
            None => self.configured.contains(name),
        }
    }

    /// Whether a node may connect: one that the configuration names, but was forgotten, may begin again.
    #[must_use]
    pub fn may_connect(&self, name: &NodeName) -> bool {
        self.configured.contains(name) || self.is_member(name)
    }

    /// When a node was forgotten last; 0 when it never was.
    #[must_use]
    pub fn forgotten(&self, name: &NodeName) -> u64 {
        self.stated
            .get(name)
            .map_or(0, |membership| membership.forgotten)
    }

    /// When a node was connected last.
    #[must_use]
    pub fn seen(&self, name: &NodeName) -> Option<u64> {
        self.seen.get(name).copied()
    }

    /// The statement of this node about itself, when it had been forgotten at `began` before its journal began.
    #[must_use]
    pub fn claim(&self, began: u64) -> Claim {
        let own = self.stated.get(&self.own);
        Claim {
            began,
            is_taken_in: own.is_some_and(|own| own.is_member && own.forgotten <= began),
        }
    }

    /// How to receive a node that says this of itself and `holds` these records; `known` are the records here.
    #[must_use]
    pub fn receive(
        &self,
        name: &NodeName,
        claim: Claim,
        holds: &Vector,
        known: &Vector,
    ) -> Reception {
        let has_begun = claim.began >= self.forgotten(name);
        if has_begun && (claim.is_taken_in || self.is_member(name)) {
            return Reception::Member;
        }
        let is_known = |(origin, sequence)| sequence > 0 && known.of(origin) > 0;
        match holds.iter().any(is_known) {
            true => Reception::Refused,
            false => Reception::Beginner,
        }
    }

    /// Whether this node takes records of another, which had last caught up with a majority at `together`; begins to
    /// fill when it is the first that had.
    ///
    /// A node that fills takes nothing of one that fills, as a third may know what both have yet to hear. When all others have said
    /// that they are no further, such as after a power cut soon after the first start, they know everything together.
    pub fn takes_from(&mut self, name: &NodeName, together: u64, now: u64) -> bool {
        self.told.insert(name.clone(), together);
        let is_current = together > FILLING && now.saturating_sub(together) < self.age;
        if self.together == 0 && is_current {
            self.together = FILLING;
        }
        let mut others = self.others();
        let none_is_further =
            others.all(|other| self.told.get(other).is_some_and(|told| *told <= FILLING));
        self.together > FILLING || together == 0 || is_current || none_is_further
    }

    /// When this node had last caught up with a majority; 0 or [`FILLING`] when it never had.
    #[must_use]
    pub fn together(&self) -> u64 {
        self.together
    }

    /// The values for the disk to note: when each other node was connected last, and [`together`](Self::together).
    #[must_use]
    pub fn to_note(&self) -> (BTreeMap<NodeName, u64>, u64) {
        let seen = self
            .others()
            .filter_map(|name| Some((name.clone(), self.seen(name)?)));
        (seen.collect(), self.together)
    }

    /// This node has caught up with these, which say when they had last caught up with a majority.
    pub fn catch_up(&mut self, caught_up: &BTreeMap<NodeName, u64>, now: u64) {
        let n_others = self.others().count();
        let heard: Vec<u64> = self
            .others()
            .filter_map(|name| caught_up.get(name).copied())
            .collect();
        let n_established = heard.iter().filter(|together| **together > FILLING).count();
        // Nodes that begin know nothing: they are no majority beside one that does, and are the site
        // when all of them begin.
        let is_majority = match self.together > FILLING {
            true => 2 * (n_established + 1) > n_others + 1,
            false => n_established == 0 && 2 * (heard.len() + 1) > n_others + 1,
        };
        let told = heard.iter().copied().filter(|together| *together > FILLING);
        let told = told.max().unwrap_or(0).min(now);
        self.together = match heard.len() == n_others || is_majority {
            true => now,
            // A clock that was ahead once must not keep this node current.
            false => self.together.min(now).max(told),
        };
    }

    /// Some nodes are connected. A node that is not is away from the first look on, or since it was.
    pub fn look(&mut self, connected: &BTreeSet<NodeName>, now: u64) {
        let others: Vec<NodeName> = self.others().cloned().collect();
        for name in others {
            let is_here = connected.contains(&name);
            let seen = self.seen.entry(name).or_insert(now);
            // A clock that was ahead once must not keep a node from being forgotten.
            if is_here || *seen > now {
                *seen = now;
            }
        }
    }

    /// Whether the connected nodes and this one are more than half of the known ones.
    #[must_use]
    pub fn is_majority(&self, connected: &BTreeSet<NodeName>) -> bool {
        let n_connected = self
            .others()
            .filter(|name| connected.contains(*name))
            .count();
        2 * (n_connected + 1) > self.others().count() + 1
    }

    /// Since when deletions have to be remembered, whatever their age: some node that counts may not have
    /// heard of them. `None`: no other node counts.
    #[must_use]
    pub fn unheard_since(&self) -> Option<u64> {
        self.others().map(|name| self.seen(name).unwrap_or(0)).min()
    }

    /// The nodes to forget, because they have been away for as long as deletions are remembered: only a
    /// majority forgets.
    #[must_use]
    pub fn overdue(&self, connected: &BTreeSet<NodeName>, now: u64) -> BTreeSet<NodeName> {
        let is_overdue = |name: &&NodeName| {
            let away = self.seen(name).map(|seen| now.saturating_sub(seen));
            !connected.contains(*name) && away.is_some_and(|away| away >= self.age)
        };
        match self.is_majority(connected) {
            true => self.others().filter(is_overdue).cloned().collect(),
            false => BTreeSet::new(),
        }
    }

    /// The statement that forgets a node; none when it was forgotten. Without a majority only when
    /// `forced`.
    ///
    /// # Errors
    ///
    /// When the node must not be forgotten.
    pub fn forget(
        &self,
        name: &NodeName,
        connected: &BTreeSet<NodeName>,
        forced: bool,
        now: u64,
    ) -> Result<Option<Membership>, Obstacle> {
        if *name == self.own {
            return Err(Obstacle::Own);
        }
        if !self.is_member(name) {
            return match self.stated.contains_key(name) {
                true => Ok(None),
                false => Err(Obstacle::Unknown),
            };
        }
        if !forced && !self.is_majority(connected) {
            return Err(Obstacle::NoMajority);
        }
        Ok(Some(Membership {
            is_member: false,
            address: self.stated.get(name).and_then(|it| it.address.clone()),
            // Nodes that cannot hear each other may say so both: the later time holds.
            forgotten: now.max(self.forgotten(name) + 1),
        }))
    }

    /// The statement that takes a node in; none when it is one of the site's with this address.
    ///
    /// # Errors
    ///
    /// When it cannot be taken in.
    pub fn add(
        &self,
        name: &NodeName,
        address: Option<&str>,
    ) -> Result<Option<Membership>, Obstacle> {
        if *name == self.own {
            return Err(Obstacle::Own);
        }
        let before = self.stated.get(name);
        let known = before.and_then(|membership| membership.address.clone());
        let address = address.map(Into::into).or(known);
        if address.is_none() && !self.configured.contains(name) {
            return Err(Obstacle::NoAddress);
        }
        let is_there = self.is_member(name)
            && before.map_or_else(
                || address.is_none(),
                |membership| membership.address == address,
            );
        Ok((!is_there).then_some(Membership {
            is_member: true,
            address,
            forgotten: self.forgotten(name),
        }))
    }

    /// Whether this node has to begin again: some nodes refuse it, and the rest, which are connected, are no
    /// majority with it.
    #[must_use]
    pub fn has_to_begin(
        &self,
        refusing: &BTreeSet<NodeName>,
        connected: &BTreeSet<NodeName>,
    ) -> bool {
        let others = connected.difference(refusing).cloned().collect();
        !refusing.is_empty() && !self.is_majority(&others)
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
