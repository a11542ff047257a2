//! Virtual routers on a network that loses, delays, parts and heals, with nodes that crash, hang, lose
//! their link, change their minds and are edited; all decided by one seed.
//!
//! [`network`] runs the machines on a clock of its own, through real packets. [`scenario`] decides what
//! the nodes are and what happens to them. [`invariants`] watches what clients would see. [`leases`] is a simulation of its
//! own, with the healthds that grant leases.
//!
//! A failure prints seed, step and what happened last; `VRRP_SIM_SEED=17 cargo test -p vrrp
//! simulation -- --nocapture` replays one with everything printed, `VRRP_SIM_SEEDS=5000` sweeps more.

mod invariants;
mod leases;
mod network;
mod nodes;
mod scenario;

use std::time::Instant;

use self::scenario::Scenario;

/// Seeds of an ordinary run.
const SEEDS: u64 = 300;

#[test]
fn addresses_have_one_holder_whatever_happens() {
    let number = |name| -> Option<u64> { std::env::var(name).ok()?.parse().ok() };
    let (seeds, verbose) = match number("VRRP_SIM_SEED") {
        Some(seed) => (seed..seed + 1, true),
        None => (0..number("VRRP_SIM_SEEDS").unwrap_or(SEEDS), false),
    };
    #[expect(clippy::disallowed_methods, reason = "where simulated time begins")]
    let start = Instant::now();
    let mut seen = scenario::Seen::default();
    for seed in seeds {
        seen.add(&Scenario::run(seed, start, verbose));
    }
    if !verbose {
        // What never happened was not tested.
        seen.assert_everything_happened();
    }
}

/// Numbers that look random (`SplitMix64`).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// True so many times in a hundred.
    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    fn duration(&mut self, most: std::time::Duration) -> std::time::Duration {
        most * u32::try_from(self.below(1001)).unwrap_or(0) / 1000
    }
}
