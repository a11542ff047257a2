//! The questions in flight of each client and of each zone, and which of them makes room for another.
//!
//! While there is room every client may ask as much as it likes. When there is none, the client with the most questions
//! in flight loses its oldest one to a client with fewer; between clients with equally many, the zone with the most
//! loses to a zone with fewer. So n clients have an n-th of the room each, whatever one of them asks.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};

use dns_wire::name;

use super::FlightId;
use crate::suffixes::parent;

/// The labels below a route's apex by which zones are told apart: `example.org` below the root.
const ZONE_LABELS: usize = 2;
/// The bits of an IPv6 address that tell clients apart: a host has its whole /64.
const IPV6_PREFIX: u32 = 64;

/// A client, as far as budgets go: an IPv4 address or an IPv6 /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(IpAddr);

impl Origin {
    /// The origin of a client at this address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => {
                let host = u128::MAX >> IPV6_PREFIX;
                Ipv6Addr::from_bits(address.to_bits() & !host).into()
            }
            v4 @ IpAddr::V4(_) => v4,
        })
    }
}

/// The zone that a name counts for, below a route's apex of this many labels; in wire form.
pub(super) fn zone_of(name: &[u8], n_apex_labels: usize) -> Box<[u8]> {
    let mut zone = name;
    for _ in n_apex_labels + ZONE_LABELS..name::labels(name).count() {
        zone = parent(zone).unwrap_or(zone);
    }
    zone.into()
}

/// The flights of each owner.
pub(super) struct Shares<K> {
    flights: HashMap<K, BTreeSet<FlightId>>,
    /// The owners by their number of flights.
    by_count: BTreeSet<(usize, K)>,
}

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Self {
            flights: HashMap::new(),
            by_count: BTreeSet::new(),
        }
    }
}

impl<K: Clone + Ord + Hash> Shares<K> {
    pub(super) fn add(&mut self, owner: &K, flight: FlightId) {
        self.change(owner, |flights| {
            flights.insert(flight);
        });
    }

    pub(super) fn remove(&mut self, owner: &K, flight: FlightId) {
        self.change(owner, |flights| {
            flights.remove(&flight);
        });
    }

    fn change(&mut self, owner: &K, change: impl FnOnce(&mut BTreeSet<FlightId>)) {
        let flights = self.flights.entry(owner.clone()).or_default();
        let before = flights.len();
        change(flights);
        let after = flights.len();
        self.by_count.remove(&(before, owner.clone()));
        if after > 0 {
            self.by_count.insert((after, owner.clone()));
        } else {
            self.flights.remove(owner);
        }
    }

    /// The oldest flight of the owner with the most, when it would still have as many as `other` after it made room.
    pub(super) fn room_for(&self, other: Option<&K>) -> Option<FlightId> {
        let (most, owner) = self.by_count.last()?;
        let others = other.and_then(|other| self.flights.get(other));
        if *most <= others.map_or(0, BTreeSet::len) + 1 {
            return None;
        }
        self.flights.get(owner)?.first().copied()
    }

    /// The number of flights of all owners.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let counts = self.flights.values().map(BTreeSet::len);
        let sum = counts.sum();
        assert_eq!(self.by_count.iter().map(|(n, _)| n).sum::<usize>(), sum);
        assert_eq!(self.by_count.len(), self.flights.len());
        sum
    }
}

#[cfg(test)]
mod tests {
    use dns_wire::Name;

    use super::*;

    #[test]
    fn the_oldest_of_the_largest_share_makes_room_for_a_smaller_one() {
        let mut shares = Shares::default();
        assert_eq!(shares.room_for(Some(&'a')), None);
        for (owner, id) in [('a', 1), ('a', 2), ('a', 3), ('b', 4)] {
            shares.add(&owner, FlightId(id));
        }
        assert_eq!(shares.room_for(Some(&'c')), Some(FlightId(1)));
        assert_eq!(shares.room_for(Some(&'b')), Some(FlightId(1)));
        assert_eq!(shares.room_for(Some(&'a')), None);
        shares.remove(&'a', FlightId(1));
        // One more would only turn the two about.
        assert_eq!(shares.room_for(Some(&'b')), None);
        assert_eq!(shares.room_for(None), Some(FlightId(2)));
        for id in [2, 3, 4] {
            shares.remove(&'a', FlightId(id));
            shares.remove(&'b', FlightId(id));
        }
        assert_eq!(shares.len(), 0);
    }

    #[test]
    fn a_host_is_one_client_however_many_addresses_it_has() {
        let origin = |text: &str| Origin::of(text.parse().unwrap());
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::ffff:2"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_eq!(origin("192.0.2.1"), origin("::ffff:192.0.2.1"));
        assert_ne!(origin("192.0.2.1"), origin("192.0.2.2"));
    }

    #[test]
    fn names_count_for_the_zone_below_their_route() {
        for (name, n_apex, expected) in [
            ("x.y.dead.test", 0, "dead.test"),
            ("dead.test", 0, "dead.test"),
            ("test", 0, "test"),
            (".", 0, "."),
            ("a.b.c.site.test", 2, "b.c.site.test"),
        ] {
            let [name, expected] = [name, expected].map(|text| Name::parse(text).unwrap());
            assert_eq!(*zone_of(name.as_wire(), n_apex), *expected.as_wire());
        }
    }
}
