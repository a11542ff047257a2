//! Maglev hashing: assigns each source to a server.
//!
//! After "Maglev: A Fast and Reliable Software Network Load Balancer" (NSDI 2016, §3.4), with
//! weights. The table depends on the names and weights of servers alone, neither on their order nor
//! on who is up: every node that knows the same servers sends a source to the same one, and a server
//! that fails moves none but its own sources.

use super::hash;

/// Places in the table: a prime, and the one everybody uses. With a hundred servers their shares
/// differ by 1 %.
pub(crate) const SIZE: usize = 65_537;

/// A server's index for each place.
#[derive(Debug)]
pub(crate) struct Maglev {
    places: Box<[u16]>,
}

/// A server with a share in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// The inputs of its places.
    pub(crate) name: std::sync::Arc<str>,
    /// Its share; not zero.
    pub(crate) weight: u16,
    /// The servers in its places.
    pub(crate) index: u16,
}

impl Maglev {
    /// The table for `members`; none without any.
    pub(crate) fn new(members: &[Member]) -> Option<Self> {
        let heaviest = members.iter().map(|member| member.weight).max()?;
        let mut turns: Vec<Preferences<'_>> = members.iter().map(Preferences::new).collect();
        // The order in which servers take turns is part of the result.
        turns.sort_by(|one, other| one.name.cmp(other.name));

        let mut places: Vec<Option<u16>> = vec![None; SIZE];
        let mut free = SIZE;
        let mut round: u64 = 0;
        'rounds: loop {
            round += 1;
            for server in &mut turns {
                // The heaviest moves in every round, the others in proportion.
                if round * u64::from(server.weight) < server.due {
                    continue;
                }
                server.due += u64::from(heaviest);
                server.take(&mut places);
                free -= 1;
                if free == 0 {
                    break 'rounds;
                }
            }
        }
        let places = places.into_iter().map(Option::unwrap_or_default).collect();
        Some(Self { places })
    }

    /// The server at the place that `hash` stands for.
    pub(crate) fn look_up(&self, hash: u64) -> Option<u16> {
        self.places
            .get(hash::below(hash, self.places.len()))
            .copied()
    }
}

/// The places a server would like, in order.
struct Preferences<'a> {
    name: &'a str,
    index: u16,
    weight: u16,
    due: u64,
    next: usize,
    skip: usize,
}

impl<'a> Preferences<'a> {
    fn new(member: &'a Member) -> Self {
        let name = member.name.as_bytes();
        Self {
            name: &member.name,
            index: member.index,
            weight: member.weight.max(1),
            due: 0,
            next: hash::below(hash::of(name, 0), SIZE),
            skip: 1 + hash::below(hash::of(name, 1), SIZE - 1),
        }
    }

    /// Takes the first of them that is free; there must be one.
    fn take(&mut self, places: &mut [Option<u16>]) {
        // SIZE is prime, so that every place comes up once in SIZE steps.
        for _ in 0..SIZE {
            let at = self.next;
            self.next += self.skip;
            if self.next >= SIZE {
                self.next -= SIZE;
            }
            if let Some(place @ None) = places.get_mut(at) {
                *place = Some(self.index);
                return;
            }
        }
    }
}
