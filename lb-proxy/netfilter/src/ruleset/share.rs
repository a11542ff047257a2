//! How the servers of a frontend share new connections, as a rule.

use balance::pool::mix;

use super::{Family, KernelFrontend, KernelServer, Share};

/// Places of the hash of source addresses. A prime, so that servers share them evenly; many, so that
/// shares follow weights within a few percent.
const SOURCE_PLACES: u32 = 1021;

/// The longest round of turns; beyond, connections are shared by chance.
const MAX_ROUND: u32 = 256;

/// The same on every node, so that nodes agree about sources.
const SEED: u32 = 0x6f75_7470;

/// The rule that chooses a server; none when there is no server to choose.
pub(super) fn choice(frontend: &KernelFrontend, family: Family) -> Option<String> {
    let used: Vec<&KernelServer> = frontend.used_servers_of(family).collect();
    if let [only] = used.as_slice() {
        return Some(format!("goto {}", frontend.server_chain(only)));
    }
    let divisor = used
        .iter()
        .fold(0, |divisor, server| gcd(divisor, u32::from(server.weight)));
    if divisor == 0 {
        return None;
    }
    let weights: Vec<u32> = used
        .iter()
        .map(|server| u32::from(server.weight) / divisor)
        .collect();
    let total: u32 = weights.iter().sum();
    let elements = |places: &mut dyn Iterator<Item = (String, usize)>| -> String {
        let elements = places.filter_map(|(place, index)| {
            let chain = frontend.server_chain(used.get(index)?);
            Some(format!("{place} : goto {chain}"))
        });
        elements.collect::<Vec<_>>().join(", ")
    };
    let numbered = |places: Vec<usize>| {
        let mut numbered = (0..)
            .zip(places)
            .map(|(place, i): (u32, _)| (place.to_string(), i));
        elements(&mut numbered)
    };
    Some(match frontend.share {
        Share::Source => format!(
            "jhash {} saddr mod {SOURCE_PLACES} seed {SEED:#x} vmap {{ {} }}",
            family.word(),
            numbered(places_of_sources(&used))
        ),
        Share::RoundRobin if total <= MAX_ROUND => format!(
            "numgen inc mod {total} vmap {{ {} }}",
            numbered(round(&weights))
        ),
        Share::RoundRobin | Share::Random => {
            let mut ranges = ranges(&weights).into_iter().enumerate();
            let mut ranges = ranges.by_ref().map(|(index, range)| (range, index));
            format!(
                "numgen random mod {total} vmap {{ {} }}",
                elements(&mut ranges)
            )
        }
    })
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

/// Numbers from 0, as many for each server as it weighs.
fn ranges(weights: &[u32]) -> Vec<String> {
    let mut from = 0;
    weights
        .iter()
        .map(|weight| {
            let (first, last) = (from, from + weight.saturating_sub(1));
            from += weight;
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
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
