//! A list of members of both address families, each node with a number that stays its own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Instant;

use cluster::Snapshot;

use crate::{Bounds, Held, Member, Membership, Origin, Refused, Written};

/// A member with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The member.
    pub member: Member,
    /// The number of its node: the place of the name among those that are written, and for a node that joins the lowest that no
    /// other has. It stays while the node is in the list.
    pub number: u32,
}

/// A node that has joined, as it is kept beyond the end of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The name.
    pub name: String,
    /// The address.
    pub address: IpAddr,
    /// The number.
    pub number: u32,
}

/// Members of both families. A node has one member in each family in which it has an address that may join.
#[derive(Clone, Debug)]
pub struct NodeList {
    ipv4: Membership,
    ipv6: Membership,
    /// The names that are written, each once.
    written: Vec<String>,
    /// The numbers of nodes that have joined.
    numbers: BTreeMap<String, u32>,
}

impl NodeList {
    /// Begins with the written members.
    #[must_use]
    pub fn new(written: Vec<Written>, bounds: &Bounds) -> Self {
        let names = names(&written);
        let (ipv4, ipv6) = apart(written);
        Self {
            ipv4: Membership::new(ipv4, of_family(bounds, true)),
            ipv6: Membership::new(ipv6, of_family(bounds, false)),
            written: names,
            numbers: BTreeMap::new(),
        }
    }

    /// Takes up another configuration. Nodes that had joined stay, as far as the new bounds allow them.
    pub fn adopt(&mut self, written: Vec<Written>, bounds: &Bounds) {
        self.written = names(&written);
        let (ipv4, ipv6) = apart(written);
        self.ipv4.adopt(ipv4, of_family(bounds, true));
        self.ipv6.adopt(ipv6, of_family(bounds, false));
        self.number();
    }

    /// Takes up nodes that had joined when the process before ended, as far as the bounds allow them.
    pub fn restore(&mut self, kept: impl IntoIterator<Item = Joined>) {
        for Joined {
            name,
            address,
            number,
        } in kept
        {
            self.numbers.insert(name.clone(), number);
            self.of(address).restore(address, name);
        }
        self.number();
    }

    /// Takes up a snapshot.
    pub fn observe(&mut self, snapshot: &Snapshot, now: Instant) {
        for membership in self.both() {
            membership.observe(snapshot, now);
        }
        self.number();
    }

    /// Notes that clusterd is away.
    pub fn lose_sight(&mut self) {
        for membership in self.both() {
            membership.lose_sight();
        }
    }

    /// Lets losses count that have lasted long enough.
    pub fn tick(&mut self, now: Instant) {
        for membership in self.both() {
            membership.tick(now);
        }
        self.number();
    }

    /// When [`Self::tick`] wants to be called.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let deadlines = [self.ipv4.deadline(), self.ipv6.deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// The members: the written ones, then those that have joined, by their numbers; IPv4 comes first.
    #[must_use]
    pub fn members(&self) -> Vec<Listed> {
        let all = [&self.ipv4, &self.ipv6].into_iter();
        let mut listed: Vec<Listed> = all
            .flat_map(Membership::members)
            .filter_map(|member| {
                let number = self.number_of(&member)?;
                Some(Listed { member, number })
            })
            .collect();
        listed.sort_by_key(|one| one.number);
        listed
    }

    /// The nodes that have joined, to be kept.
    #[must_use]
    pub fn kept(&self) -> Vec<Joined> {
        let learned = self.members().into_iter();
        learned
            .filter(|listed| listed.member.origin == Origin::Learned)
            .map(|Listed { member, number }| Joined {
                name: member.name,
                address: member.address,
                number,
            })
            .collect()
    }

    /// The nodes of the last snapshot that may not join with any address.
    #[must_use]
    pub fn refused(&self) -> Vec<Refused> {
        let of_ipv4 = self.ipv4.refused().iter();
        let is_in = |list: &Membership, node: &str| list.refused().iter().any(|it| it.node == node);
        match (self.ipv4.is_closed(), self.ipv6.is_closed()) {
            (_, true) => of_ipv4.cloned().collect(),
            (true, false) => self.ipv6.refused().to_vec(),
            (false, false) => of_ipv4
                .filter(|refused| is_in(&self.ipv6, &refused.node))
                .cloned()
                .collect(),
        }
    }

    /// The loss that waits for its confirmation, of the family for which it comes first.
    #[must_use]
    pub fn held(&self) -> Option<&Held> {
        let held = [self.ipv4.held(), self.ipv6.held()];
        held.into_iter().flatten().min_by_key(|held| held.until)
    }

    fn both(&mut self) -> [&mut Membership; 2] {
        [&mut self.ipv4, &mut self.ipv6]
    }

    fn of(&mut self, address: IpAddr) -> &mut Membership {
        match address.is_ipv4() {
            true => &mut self.ipv4,
            false => &mut self.ipv6,
        }
    }

    fn number_of(&self, member: &Member) -> Option<u32> {
        match member.origin {
            Origin::Learned => self.numbers.get(&member.name).copied(),
            Origin::Written | Origin::Both => {
                let place = self.written.iter().position(|name| *name == member.name)?;
                u32::try_from(place).ok()
            }
        }
    }

    /// Gives numbers to nodes that have none, by their names, and takes those of nodes that have left.
    fn number(&mut self) {
        let members = [&self.ipv4, &self.ipv6].into_iter();
        let learned: BTreeSet<String> = members
            .flat_map(Membership::members)
            .filter(|member| member.origin == Origin::Learned)
            .map(|member| member.name)
            .collect();
        let first = u32::try_from(self.written.len()).unwrap_or(u32::MAX);
        let mut taken = BTreeSet::new();
        self.numbers.retain(|name, number| {
            learned.contains(name) && *number >= first && taken.insert(*number)
        });
        for name in learned {
            if self.numbers.contains_key(&name) {
                continue;
            }
            let free = (first..).find(|number| !taken.contains(number));
            if let Some(number) = free {
                taken.insert(number);
                self.numbers.insert(name, number);
            }
        }
    }
}

/// The names of members, each once, in their order.
fn names(written: &[Written]) -> Vec<String> {
    let mut names = Vec::new();
    for one in written {
        if !names.contains(&one.name) {
            names.push(one.name.clone());
        }
    }
    names
}

fn apart(written: Vec<Written>) -> (Vec<Written>, Vec<Written>) {
    written.into_iter().partition(|one| one.address.is_ipv4())
}

/// The bounds of one family.
fn of_family(bounds: &Bounds, is_ipv4: bool) -> Bounds {
    let networks = bounds.networks.iter().copied();
    Bounds {
        networks: networks
            .filter(|network| network.addr().is_ipv4() == is_ipv4)
            .collect(),
        ..bounds.clone()
    }
}

#[cfg(test)]
mod tests;
