//! How the servers of a frontend share new connections.
//!
//! A rule draws a number, and a map leads from ranges of numbers to servers. As many numbers as a server has, as large is its
//! share. When a server goes or comes, or its weight changes, the others keep their numbers as far as they can: the map changes by a few elements,
//! however many servers there are.

use std::collections::{BTreeMap, VecDeque};

use balance::pool::mix;

use super::elements::Element;
use super::{Family, KernelFrontend, KernelServer, Share};

/// Places of the hash of source addresses. A prime, so that servers share them evenly; many, so that
/// shares follow weights within a few percent.
const SOURCE_PLACES: u32 = 1021;

/// The longest round of turns; beyond, connections are shared by chance.
const MAX_ROUND: u32 = 256;

/// So few turns are always in the order of the servers, whatever it was before.
const FEW_TURNS: u32 = 32;

/// The same on every node, so that nodes agree about sources.
const SEED: u32 = 0x6f75_7470;

/// How a number is drawn for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Draw {
    /// One after the other, below this number.
    Turn(u32),
    /// By chance, below this number.
    Chance(u32),
    /// By the client's address.
    Source(Family),
}

/// How one frontend's servers of one family share connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) draw: Draw,
    /// In the order of their numbers, without gaps.
    ranges: Vec<Range>,
}

/// The server of some numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    first: u32,
    last: u32,
    /// The server's chain.
    chain: String,
}

impl Choice {
    /// Among the servers in use; `before` is how they did it until now.
    pub(super) fn new(frontend: &KernelFrontend, family: Family, before: Option<&Self>) -> Self {
        let used: Vec<&KernelServer> = frontend.used_servers_of(family).collect();
        let weights: Vec<u32> = used.iter().map(|server| server.weight.into()).collect();
        let divisor = weights.iter().copied().fold(0, gcd).max(1);
        let turns: Vec<u32> = weights.iter().map(|weight| weight / divisor).collect();
        let n_turns = turns.iter().copied().fold(0, u32::saturating_add);
        let chain = |index: usize| used.get(index).map(|server| frontend.server_chain(server));
        let placed = |places: Vec<usize>| {
            let numbered = (0..).zip(places);
            joined(numbered.filter_map(|(number, index)| Range::one(number, chain(index)?)))
        };
        let before = before.map_or(&[][..], |before| &before.ranges);
        let following = |shares: Vec<u32>| {
            let chains = (0..).map_while(chain);
            follow(before, &chains.zip(shares).collect::<Vec<_>>())
        };
        match frontend.share {
            Share::Source => Self {
                draw: Draw::Source(family),
                ranges: match used.is_empty() {
                    true => Vec::new(),
                    false => placed(places_of_sources(&used)),
                },
            },
            Share::RoundRobin if n_turns <= MAX_ROUND => Self {
                draw: Draw::Turn(n_turns.max(1)),
                // If each has one turn, any order is even.
                ranges: match n_turns > FEW_TURNS && turns.iter().all(|turns| *turns == 1) {
                    true => following(turns),
                    false => placed(round(&turns)),
                },
            },
            Share::RoundRobin | Share::Random => {
                let total = weights.iter().copied().fold(0, u32::saturating_add);
                Self {
                    draw: Draw::Chance(total.max(1)),
                    ranges: following(weights),
                }
            }
        }
    }

    /// The elements of the map.
    pub(super) fn elements(&self) -> impl Iterator<Item = Element> {
        self.ranges.iter().map(|range| Element::Numbers {
            first: range.first,
            last: range.last,
            chain: range.chain.clone(),
        })
    }
}

impl Draw {
    /// The rule that draws, and looks the number up in `map`.
    pub(super) fn rule(self, map: &str) -> String {
        match self {
            Self::Turn(below) => format!("numgen inc mod {below} vmap @{map}"),
            Self::Chance(below) => format!("numgen random mod {below} vmap @{map}"),
            Self::Source(family) => format!(
                "jhash {} saddr mod {SOURCE_PLACES} seed {SEED:#x} vmap @{map}",
                family.word()
            ),
        }
    }
}

impl Range {
    fn one(number: u32, chain: String) -> Option<Self> {
        Some(Self {
            first: number,
            last: number,
            chain,
        })
    }

    fn length(&self) -> u32 {
        self.last - self.first + 1
    }
}

/// Ranges in a row, with those of one server that meet made one.
fn joined(ranges: impl IntoIterator<Item = Range>) -> Vec<Range> {
    let mut all: Vec<Range> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if last.chain == range.chain && last.last + 1 == range.first => {
                last.last = range.last;
            }
            _ => all.push(range),
        }
    }
    all
}

/// As many numbers for each server as its share, from 0 on and without gaps. A server keeps the numbers that it had `before` as
/// far as that goes.
fn follow(before: &[Range], shares: &[(String, u32)]) -> Vec<Range> {
    let ranges = fill(before, shares);
    // Many changes cut ranges into pieces; at some point a new beginning is cheaper than the pieces.
    match ranges.len() > 2 * shares.len() + 16 {
        true => fill(&[], shares),
        false => ranges,
    }
}

fn fill(before: &[Range], shares: &[(String, u32)]) -> Vec<Range> {
    let total = shares
        .iter()
        .fold(0_u32, |total, (_, share)| total.saturating_add(*share));
    let mut open: BTreeMap<&str, u32> = shares
        .iter()
        .map(|(chain, share)| (chain.as_str(), *share))
        .collect();
    let mut kept = VecDeque::new();
    for range in before.iter().filter(|range| range.first < total) {
        let Some(open) = open.get_mut(range.chain.as_str()) else {
            continue;
        };
        let length = range.length().min(total - range.first).min(*open);
        *open -= length;
        if length > 0 {
            kept.push_back(Range {
                last: range.first + length - 1,
                ..range.clone()
            });
        }
    }
    let mut waiting = shares.iter().map(|(chain, _)| chain.as_str());
    let mut next = waiting.next();
    let mut ranges: Vec<Range> = Vec::new();
    let mut at = 0;
    while at < total {
        let until = match kept.front() {
            Some(range) if range.first == at => {
                at = range.last + 1;
                ranges.extend(kept.pop_front());
                continue;
            }
            Some(range) => range.first,
            None => total,
        };
        // A gap: first the server before it, so that its range grows.
        let neighbour = ranges.last().map(|range| range.chain.clone());
        let chain = match neighbour {
            Some(chain) if open.get(chain.as_str()).is_some_and(|open| *open > 0) => chain,
            _ => match next {
                Some(chain) if open.get(chain).is_some_and(|open| *open > 0) => chain.to_owned(),
                Some(_) => {
                    next = waiting.next();
                    continue;
                }
                None => break,
            },
        };
        let Some(open) = open.get_mut(chain.as_str()) else {
            break;
        };
        let length = (until - at).min(*open);
        *open -= length;
        let last = at + length - 1;
        ranges.push(Range {
            first: at,
            last,
            chain,
        });
        at = last + 1;
    }
    joined(ranges)
}

/// The server's turn in each place of a round: the heaviest turn by turn, spread evenly.
fn round(weights: &[u32]) -> Vec<usize> {
    let total: u32 = weights.iter().sum();
    let mut credit: Vec<i64> = vec![0; weights.len()];
    (0..total)
        .map(|_| {
            let mut best = (0, i64::MIN);
            for (index, (credit, weight)) in credit.iter_mut().zip(weights).enumerate() {
                *credit += i64::from(*weight);
                if *credit > best.1 {
                    best = (index, *credit);
                }
            }
            if let Some(credit) = credit.get_mut(best.0) {
                *credit -= i64::from(total);
            }
            best.0
        })
        .collect()
}

/// The server of each place: the one with the highest hash together with the place (weighted
/// rendezvous hashing). When a server goes, only its own places change hands.
pub(super) fn places_of_sources(servers: &[&KernelServer]) -> Vec<usize> {
    let hashes: Vec<(u64, f64)> = servers
        .iter()
        .map(|server| {
            let hash = server
                .name
                .bytes()
                .fold(0, |hash, octet| mix(hash ^ u64::from(octet)));
            (hash, f64::from(server.weight))
        })
        .collect();
    (0..u64::from(SOURCE_PLACES))
        .map(|place| {
            let mut best = (0, f64::NEG_INFINITY);
            for (index, (hash, weight)) in hashes.iter().enumerate() {
                let score = weight / -unit(mix(hash ^ mix(place))).ln();
                if score > best.1 {
                    best = (index, score);
                }
            }
            best.0
        })
        .collect()
}

/// A hash as a number between 0 and 1, both excluded.
fn unit(hash: u64) -> f64 {
    let high = u32::try_from(hash >> 32).unwrap_or(0);
    (f64::from(high) + 0.5) / 4_294_967_296.0
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(shares: &[(u32, u32)]) -> Vec<(String, u32)> {
        let named = |(server, share): &(u32, u32)| (format!("server/api/{server}"), *share);
        shares.iter().map(named).collect()
    }

    /// Ranges as elements that are in one list and not in the other.
    fn difference(one: &[Range], other: &[Range]) -> usize {
        one.iter().filter(|range| !other.contains(range)).count()
    }

    #[track_caller]
    fn check(ranges: &[Range], wanted: &[(String, u32)]) {
        let mut at = 0;
        let mut found: BTreeMap<&str, u32> = BTreeMap::new();
        for range in ranges {
            assert_eq!(range.first, at, "{ranges:?}");
            at = range.last + 1;
            *found.entry(range.chain.as_str()).or_default() += range.length();
        }
        let wanted: BTreeMap<&str, u32> = wanted
            .iter()
            .filter(|(_, share)| *share > 0)
            .map(|(chain, share)| (chain.as_str(), *share))
            .collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_change_of_one_server_in_a_thousand_changes_a_few_ranges() {
        let all: Vec<(u32, u32)> = (0..1001).map(|server| (server, 100)).collect();
        let before = follow(&[], &shares(&all));
        for weight in [0, 37, 99, 101, 1000] {
            let changed = all.iter().map(|(server, share)| match server {
                500 => (500, weight),
                _ => (*server, *share),
            });
            let changed = shares(&changed.collect::<Vec<_>>());
            let after = follow(&before, &changed);
            check(&after, &changed);
            let n_gone = difference(&before, &after);
            let n_new = difference(&after, &before);
            assert!(n_gone <= 14 && n_new <= 14, "{weight}: {n_gone} {n_new}");
            let back = follow(&after, &shares(&all));
            check(&back, &shares(&all));
            assert!(difference(&back, &after) <= 14, "{weight}");
        }
    }

    #[test]
    fn shares_are_exact_after_any_changes_and_the_map_stays_small() {
        let mut seed = 1_u64;
        let mut random = |below: u32| {
            seed = mix(seed.wrapping_add(1));
            u32::try_from(seed % u64::from(below)).unwrap()
        };
        let mut ranges = Vec::new();
        let mut weights: Vec<(u32, u32)> = (0..40).map(|server| (server, 1)).collect();
        for _ in 0..5_000 {
            for _ in 0..=random(3) {
                let index = usize::try_from(random(40)).unwrap();
                let weight = [0, 1, 100, random(256)][usize::try_from(random(4)).unwrap()];
                if let Some((_, share)) = weights.get_mut(index) {
                    *share = weight;
                }
            }
            let wanted = shares(&weights);
            ranges = follow(&ranges, &wanted);
            check(&ranges, &wanted);
            assert!(ranges.len() <= 2 * 40 + 16);
        }
    }
}
