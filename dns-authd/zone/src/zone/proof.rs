//! The proofs that a response from a signed zone needs: RFC 4035 §3.1.3 with NSEC, RFC 5155 §7.2 with NSEC3.

use dns_wire::hash::Suffixes;
use dns_wire::name::labels;

use super::Zone;
use super::denial::{Denial, Nsec3, nsec_before, wildcard_of};
use crate::name_table::Index;

/// The fact to prove.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fact {
    /// The name does not exist, nor does a wildcard match it.
    NoName,
    /// The name exists without the type.
    NoType(Index),
    /// The name does not exist itself: this wildcard matches it.
    Wildcard,
    /// The name does not exist itself, and the wildcard that matches it has not the type.
    WildcardNoType(Index),
    /// The delegation is not signed.
    NoDs(Index),
}

impl Zone {
    /// The owners of the NSEC or NSEC3 records that prove a fact about a name.
    pub(super) fn proof(&self, name: &Suffixes, fact: Fact) -> Vec<Index> {
        let mut proof = Proof {
            zone: self,
            name,
            owners: Vec::new(),
        };
        match &self.denial {
            None | Some(Denial::None) => {}
            Some(Denial::Nsec(owners)) => proof.by_nsec(owners, fact),
            Some(Denial::Nsec3(chain)) => proof.by_nsec3(chain, fact),
        }
        proof.owners
    }
}

struct Proof<'z, 'n> {
    zone: &'z Zone,
    name: &'n Suffixes,
    owners: Vec<Index>,
}

impl Proof<'_, '_> {
    fn push(&mut self, owner: Option<Index>) {
        if let Some(owner) = owner
            && !self.owners.contains(&owner)
        {
            self.owners.push(owner);
        }
    }

    fn name_at(&self, index: Index) -> &[u8] {
        let node = self.zone.node(index);
        node.map_or(&[0], |node| self.zone.name_of(node))
    }

    /// How many labels the closest encloser has that the zone knows.
    fn encloser(&self) -> usize {
        let encloser = self.zone.closest_encloser(self.name);
        labels(self.name_at(encloser)).count()
    }

    fn by_nsec(&mut self, owners: &[Index], fact: Fact) {
        let zone = self.zone;
        let before = |name: &[u8]| nsec_before(zone, owners, name);
        match fact {
            Fact::NoName => {
                self.push(before(self.name.name()));
                let wildcard = wildcard_of(self.name.suffix(self.encloser()));
                self.push(wildcard.and_then(|wildcard| before(wildcard.as_wire())));
            }
            Fact::Wildcard => self.push(before(self.name.name())),
            Fact::WildcardNoType(index) => {
                self.push(before(self.name.name()));
                self.push(before(self.name_at(index)));
            }
            // An empty non-terminal has no NSEC of its own: the one before it leads to a name below it.
            Fact::NoType(index) | Fact::NoDs(index) => self.push(before(self.name_at(index))),
        }
    }

    fn by_nsec3(&mut self, chain: &Nsec3, fact: Fact) {
        match fact {
            Fact::NoName => {
                let encloser = self.push_encloser(chain, self.encloser());
                let wildcard = wildcard_of(self.name.suffix(encloser));
                let hash = wildcard.map(|wildcard| chain.hash(wildcard.as_wire()));
                self.push(hash.and_then(|hash| chain.covering(&hash)));
            }
            Fact::Wildcard => {
                let next_closer = self.name.suffix(self.encloser() + 1);
                self.push(chain.covering(&chain.hash(next_closer)));
            }
            Fact::WildcardNoType(index) => {
                self.push_encloser(chain, self.encloser());
                self.push(chain.matching(&chain.hash(self.name_at(index))));
            }
            Fact::NoType(index) | Fact::NoDs(index) => {
                let name = self.name_at(index);
                let n_labels = labels(name).count();
                match chain.matching(&chain.hash(name)) {
                    Some(owner) => self.push(Some(owner)),
                    // Left out of the chain: an unsigned delegation, or what leads to such only (RFC 5155 §6).
                    None => drop(self.push_encloser(chain, n_labels.saturating_sub(1))),
                }
            }
        }
    }

    /// Proves that the closest encloser exists, or the closest one that has a record, and that the name one
    /// label longer has not (RFC 5155 §7.2.1). Returns how many labels the encloser has.
    fn push_encloser(&mut self, chain: &Nsec3, n_labels: usize) -> usize {
        let mut n = n_labels;
        loop {
            if let Some(owner) = chain.matching(&chain.hash(self.name.suffix(n))) {
                self.push(Some(owner));
                break;
            }
            if n <= self.zone.apex_labels {
                break;
            }
            n -= 1;
        }
        let next_closer = self.name.suffix(n + 1);
        self.push(chain.covering(&chain.hash(next_closer)));
        n
    }
}
