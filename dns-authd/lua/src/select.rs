//! Draws an answer from a set of members: `random`, `all`, `hashed` and the weighted picks of `PowerDNS`.
//!
//! The caller passes in everything that a draw depends on: the client's address, the question's name and a
//! seed. The same three give the same answer, on every thread and after every restart. Nothing here
//! allocates once the caller's list of picks has grown to the size of the set.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use crate::hash;

/// One possible answer, with the weight that weighted draws give it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// The answer as text: an address, or the rdata of another type.
    pub value: String,
    /// Its weight in a draw; 1 for functions without weights.
    pub weight: u32,
}

/// The way in which members become an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Select {
    /// Every member, in the order written.
    All,
    /// One member; all are equally likely.
    Random,
    /// This many different members in random order, or all of them if there are fewer.
    Sample(usize),
    /// One member by the hash of the client's address.
    Hashed,
    /// One member, with a probability by its weight.
    WeightedRandom,
    /// One member by the hash of the client's address, over the weights.
    WeightedHashed,
    /// One member by the hash of the question's name, over the weights.
    NameHashed,
    /// One member by the client's place on a ring, so that a change of members moves few clients.
    ConsistentHashed(Arc<Ring>),
}

/// The inputs of a draw.
#[derive(Clone, Copy, Debug)]
pub struct Draw<'a> {
    /// The address hashed: that of the client subnet if the query names one, else the sender's.
    pub client: IpAddr,
    /// The question's name, in wire form.
    pub qname: &'a [u8],
    /// A number no client can guess, new for every query.
    pub seed: u64,
}

impl Select {
    /// Writes the positions of the drawn members into `picks`, in the order of the answer.
    ///
    /// An empty set draws nothing.
    #[inline]
    pub fn draw(&self, members: &[Member], draw: &Draw<'_>, picks: &mut Vec<usize>) {
        picks.clear();
        match self {
            Self::All => picks.extend(0..members.len()),
            Self::Sample(n) => {
                picks.extend(0..members.len());
                shuffle_front(picks, *n, &mut Random::new(draw.seed));
                picks.truncate(*n);
            }
            _ => picks.extend(self.draw_one(members, draw)),
        }
    }

    /// The position of the single drawn member, for ways that draw one; `None` for the others and for an
    /// empty set.
    #[inline]
    #[must_use]
    pub fn draw_one(&self, members: &[Member], draw: &Draw<'_>) -> Option<usize> {
        let among = u64::try_from(members.len()).ok().filter(|n| *n > 0)?;
        let position = match self {
            Self::All | Self::Sample(_) => return None,
            Self::Random => Random::new(draw.seed).below(among),
            Self::Hashed => u64::from(hash::address(draw.client)).checked_rem(among)?,
            Self::WeightedRandom => {
                let part = Random::new(draw.seed).below(parts(members));
                return holder(members, part);
            }
            Self::WeightedHashed => {
                let part = u64::from(hash::address(draw.client)).checked_rem(parts(members))?;
                return holder(members, part);
            }
            Self::NameHashed => {
                let part = u64::from(hash::name(draw.qname)).checked_rem(parts(members))?;
                return holder(members, part);
            }
            Self::ConsistentHashed(ring) => return ring.successor(hash::address(draw.client)),
        };
        usize::try_from(position).ok()
    }

    /// Whether the answer depends on the client's address, so that it holds only for that client's network
    /// (RFC 7871 §7.2.1).
    #[must_use]
    pub const fn reads_client(&self) -> bool {
        matches!(
            self,
            Self::Hashed | Self::WeightedHashed | Self::ConsistentHashed(_)
        )
    }

    /// Whether the answer can differ between two queries at the same moment.
    #[must_use]
    pub fn varies(&self, members: &[Member]) -> bool {
        members.len() > 1 && *self != Self::All
    }
}

/// The sum of all weights.
#[inline]
fn parts(members: &[Member]) -> u64 {
    members.iter().map(|member| u64::from(member.weight)).sum()
}

/// The member whose share of the weights holds part number `part`.
#[inline]
fn holder(members: &[Member], part: u64) -> Option<usize> {
    let mut end = 0;
    members.iter().position(|member| {
        end += u64::from(member.weight);
        part < end
    })
}

/// The first `n` steps of a Fisher-Yates shuffle: the front is a fair sample in random order.
#[inline]
fn shuffle_front(positions: &mut [usize], n: usize, random: &mut Random) {
    let length = positions.len();
    for front in 0..n.min(length) {
        let rest = u64::try_from(length - front).unwrap_or(1);
        let other = usize::try_from(random.below(rest)).unwrap_or(0);
        positions.swap(front, front + other);
    }
}

//--- Ring

/// The points that members own on a circle of hashes (`pickchashed`): each member has as many points as its
/// weight, and a client belongs to the first point at or after its own hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    points: Box<[(u32, usize)]>,
}

impl Ring {
    /// The most points a ring may have: each is computed, sorted and kept at load.
    pub const MAX_POINTS: u64 = 65_536;

    /// The ring of these members, or `None` if their weights sum to more than
    /// [`MAX_POINTS`](Self::MAX_POINTS).
    #[must_use]
    pub fn new(members: &[Member]) -> Option<Self> {
        if parts(members) > Self::MAX_POINTS {
            return None;
        }
        let mut points: Vec<(u32, usize)> = members
            .iter()
            .enumerate()
            .flat_map(|(position, member)| {
                (0..member.weight).map(move |part| {
                    let label = format!("{}-{part}", member.value);
                    (hash::bytes(label.as_bytes()), position)
                })
            })
            .collect();
        points.sort_unstable();
        Some(Self {
            points: points.into_boxed_slice(),
        })
    }

    #[inline]
    fn successor(&self, hash: u32) -> Option<usize> {
        let at = self.points.partition_point(|(point, _)| *point < hash);
        let (_, position) = self.points.get(at).or_else(|| self.points.first())?;
        Some(*position)
    }
}

//--- Order of weighted members

/// The order in which `PowerDNS` arranges `n` weighted members before it hashes over them.
///
/// `PowerDNS` keeps them in a hash map from their positions, whose iteration order in the GNU library is
/// fixed: a new entry goes to the front, and growing the map reverses the order. The same arrangement here
/// lets a client that moves from `PowerDNS` keep its answer.
#[must_use]
pub fn hash_map_order(n: usize) -> Vec<usize> {
    let mut order = VecDeque::with_capacity(n);
    for position in 0..n {
        if MAP_SIZES.contains(&position) {
            order.make_contiguous().reverse();
        }
        order.push_front(position);
    }
    order.into()
}

/// The sizes at which the map is full and grows: primes a little above twice the one before.
const MAP_SIZES: [usize; 10] = [13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10_273];

//--- Random numbers

/// `SplitMix64` (Steele, Lea, Flood 2014): a small generator that is good from any seed.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator that starts at `seed`.
    #[inline]
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, all equally likely to within 2⁻³²; 0 if `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        let scaled = (u128::from(self.bits()) * u128::from(bound)) >> 64;
        u64::try_from(scaled).unwrap_or(0)
    }

    /// A number at or above 0 and below 1.
    pub fn fraction(&mut self) -> f64 {
        let bits = u32::try_from(self.bits() >> 32).unwrap_or(0);
        f64::from(bits) / 4_294_967_296.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn members(weights: &[u32]) -> Vec<Member> {
        weights
            .iter()
            .enumerate()
            .map(|(position, weight)| Member {
                value: format!("192.0.2.{position}"),
                weight: *weight,
            })
            .collect()
    }

    fn draw_with(seed: u64) -> Draw<'static> {
        Draw {
            client: IpAddr::from([192, 0, 2, 200]),
            qname: b"\x01a\0",
            seed,
        }
    }

    /// How often each member is drawn over `rounds` seeds.
    fn tally(select: &Select, members: &[Member], rounds: u64) -> Vec<u64> {
        let mut tally = vec![0; members.len()];
        let mut picks = Vec::new();
        for seed in 0..rounds {
            select.draw(members, &draw_with(seed), &mut picks);
            for pick in &picks {
                tally[*pick] += 1;
            }
        }
        tally
    }

    #[test]
    fn an_empty_set_draws_nothing() {
        let ring = Arc::new(Ring::new(&[]).unwrap());
        for select in [
            Select::All,
            Select::Random,
            Select::Sample(3),
            Select::Hashed,
            Select::WeightedRandom,
            Select::WeightedHashed,
            Select::NameHashed,
            Select::ConsistentHashed(ring),
        ] {
            let mut picks = vec![7];
            select.draw(&[], &draw_with(1), &mut picks);
            assert!(picks.is_empty(), "{select:?}");
        }
    }

    #[test]
    fn weights_that_are_all_zero_draw_nothing() {
        let members = members(&[0, 0]);
        for select in [
            Select::WeightedRandom,
            Select::WeightedHashed,
            Select::NameHashed,
        ] {
            assert_eq!(select.draw_one(&members, &draw_with(1)), None, "{select:?}");
        }
    }

    #[test]
    fn random_is_fair() {
        let members = members(&[1; 5]);
        for count in tally(&Select::Random, &members, 50_000) {
            assert!((9_500..10_500).contains(&count), "{count}");
        }
    }

    #[test]
    fn weighted_random_follows_the_weights() {
        let members = members(&[1, 0, 9, 90]);
        let tally = tally(&Select::WeightedRandom, &members, 100_000);
        for (count, expected) in tally.iter().zip([1_000_i64, 0, 9_000, 90_000]) {
            let count = i64::try_from(*count).unwrap();
            assert!((count - expected).abs() <= 400, "{tally:?}");
        }
        assert_eq!(tally[1], 0);
    }

    #[test]
    fn a_sample_is_fair_and_has_no_duplicates() {
        let members = members(&[1; 7]);
        let mut picks = Vec::new();
        for seed in 0..2_000 {
            for n in 0..10 {
                Select::Sample(n).draw(&members, &draw_with(seed), &mut picks);
                let different: BTreeSet<_> = picks.iter().collect();
                assert_eq!(picks.len(), n.min(7), "seed {seed}");
                assert_eq!(different.len(), picks.len(), "seed {seed}");
            }
        }
        for count in tally(&Select::Sample(3), &members, 70_000) {
            assert!((29_000..31_000).contains(&count), "{count}");
        }
    }

    #[test]
    fn hashed_draws_stay_with_the_client_and_use_every_member() {
        let members = members(&[3, 1, 5]);
        let ring = Arc::new(Ring::new(&members).unwrap());
        for select in [
            Select::Hashed,
            Select::WeightedHashed,
            Select::ConsistentHashed(ring),
        ] {
            let mut seen = BTreeSet::new();
            for host in 0..=255 {
                let of = |seed| Draw {
                    client: IpAddr::from([10, 0, 3, host]),
                    ..draw_with(seed)
                };
                let first = select.draw_one(&members, &of(1));
                assert_eq!(first, select.draw_one(&members, &of(2)));
                seen.insert(first);
            }
            assert_eq!(seen.len(), 3, "{select:?}");
        }
    }

    #[test]
    fn a_ring_moves_only_the_clients_of_the_member_that_left() {
        let all = members(&[40, 40, 40, 40]);
        let fewer = all[..3].to_vec();
        let before = Ring::new(&all).unwrap();
        let after = Ring::new(&fewer).unwrap();
        let mut moved = 0;
        for host in 0..10_000_u32 {
            let hash = hash::bytes(&host.to_be_bytes());
            let (old, new) = (before.successor(hash), after.successor(hash));
            if old != Some(3) {
                assert_eq!(old, new);
            } else {
                moved += 1;
            }
        }
        assert!((1_000..4_500).contains(&moved), "{moved}");
    }

    #[test]
    fn a_ring_too_large_to_keep_is_refused() {
        assert_eq!(Ring::new(&members(&[65_536, 1])), None);
    }

    #[test]
    fn clients_get_the_answers_that_powerdns_gives_them() {
        let vectors = include_str!("select_vectors.txt");
        let mut checked = 0;
        for line in vectors.lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<&str> = line.split(' ').collect();
            let n: usize = fields[1].parse().unwrap();
            let draw = Draw {
                client: fields[2].parse().unwrap(),
                ..draw_with(0)
            };
            let (order, select) = match fields[0] {
                "pickhashed" => ((0..n).collect(), Select::Hashed),
                _ => (hash_map_order(n), Select::WeightedHashed),
            };
            let members: Vec<Member> = order
                .into_iter()
                .map(|position: usize| Member {
                    value: (position + 1).to_string(),
                    weight: u32::try_from(1 + ((position + 1) * 7) % 11).unwrap(),
                })
                .collect();
            let drawn = select.draw_one(&members, &draw).unwrap();
            assert_eq!(members[drawn].value, fields[3], "{line}");
            checked += 1;
        }
        assert!(checked > 200, "{checked}");
    }
}
