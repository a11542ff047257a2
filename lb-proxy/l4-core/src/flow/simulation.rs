//! Seeded runs over clients, servers and faults. `SIM_SEED=17 cargo test flow` replays one.

use std::collections::BTreeMap;

use balance::pool::Eligibility;

use super::tests::{World, address};
use super::*;

const SEEDS: u64 = 64;
const STEPS: u32 = 1_500;

/// The outside as the shell would have it: ways that are open, by flow.
#[derive(Default)]
struct Outside {
    ways: BTreeMap<FlowId, Arc<Server>>,
    forwarded: u64,
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = mix(self.0);
        self.0 % bound
    }

    fn small(&mut self, bound: u64) -> u16 {
        u16::try_from(self.below(bound)).unwrap()
    }
}

impl Outside {
    /// Does what the flows say; one open in `faults` fails, as without descriptors or a route.
    fn perform(&mut self, world: &mut World, chance: &mut Chance, faults: u64) {
        while let Some(output) = world.flows.poll_output() {
            match output {
                Output::Open { flow, server } => {
                    match chance.below(faults) {
                        0 => world.flows.handle_no_way(flow, world.now),
                        1 => world.flows.handle_exhausted(flow),
                        _ => {}
                    }
                    let before = self.ways.insert(flow, server);
                    assert!(before.is_none(), "opened twice");
                }
                Output::Forward { flow } => {
                    self.forwarded += u64::from(self.ways.contains_key(&flow));
                }
                Output::Close { flow, .. } => {
                    assert!(
                        self.ways.remove(&flow).is_some(),
                        "closed what was not open"
                    );
                }
                Output::Drop(_) | Output::Refused { .. } => {}
            }
        }
        world.flows.check_invariants();
        assert_eq!(self.ways.len(), world.flows.len(), "a way for each flow");
    }

    fn any(&self, chance: &mut Chance) -> Option<FlowId> {
        let n_ways = self.ways.len() as u64;
        let index = usize::try_from(chance.below(n_ways.max(1))).unwrap();
        self.ways.keys().nth(index).copied()
    }
}

fn run(seed: u64) {
    let mut chance = Chance(mix(seed));
    let settings = Settings {
        idle_timeout: Duration::from_millis(1 + chance.below(500)),
        max_flows: 1 + usize::from(chance.small(40)),
        requests: [None, Some(3)][usize::from(chance.small(2))],
        responses: [None, Some(1), Some(2)][usize::from(chance.small(3))],
    };
    let mut world = World::new(settings, seed);
    let mut outside = Outside::default();
    for _ in 0..STEPS {
        match chance.below(20) {
            0 => {
                let n_servers = chance.small(4);
                let eligibilities: Vec<Eligibility> = (0..n_servers)
                    .map(|_| match chance.below(4) {
                        0 => Eligibility::Down,
                        1 => Eligibility::Drain,
                        _ => Eligibility::Up { since: None },
                    })
                    .collect();
                world.serve(&eligibilities);
                outside.perform(&mut world, &mut chance, u64::MAX);
                for server in outside.ways.values() {
                    let eligibility = eligibilities.get(usize::from(server.address.port()) - 1);
                    assert!(
                        eligibility.is_some_and(Eligibility::keeps_sessions),
                        "moved at once"
                    );
                }
            }
            1..=8 => {
                let client = address(chance.small(60));
                world.flows.handle_request(client, None, 1, world.now);
            }
            9..=13 => {
                if let Some(flow) = outside.any(&mut chance) {
                    world.flows.handle_response(flow, 1, world.now);
                }
            }
            14 => {
                if let Some(flow) = outside.any(&mut chance) {
                    world.flows.handle_refused(flow, world.now);
                }
            }
            15 => {
                // A name from long ago, or of nobody.
                let flow = FlowId::from_bits(chance.below(u64::MAX));
                world.flows.handle_response(flow, 1, world.now);
                world.flows.handle_refused(flow, world.now);
                world.flows.handle_kill(flow);
            }
            16 => {
                // A thread that read the clock before another.
                let before = world.now.checked_sub(Duration::from_millis(5)).unwrap();
                let client = address(chance.small(60));
                world.flows.handle_request(client, None, 1, before);
            }
            _ => {
                world.now += Duration::from_millis(chance.below(40));
                world.flows.handle_timeout(world.now);
                assert!(world.flows.poll_timeout().is_none_or(|due| due > world.now));
            }
        }
        outside.perform(&mut world, &mut chance, 50);
    }
    assert!(outside.forwarded > 0, "nothing happened");
    world.now += settings.idle_timeout;
    world.flows.handle_timeout(world.now);
    outside.perform(&mut world, &mut chance, u64::MAX);
    assert!(world.flows.is_empty(), "all that is idle ends");
}

#[test]
fn flows_and_ways_agree_whatever_happens() {
    let replay = std::env::var("SIM_SEED").ok();
    let seeds = match replay.and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..SEEDS,
    };
    for seed in seeds {
        let outcome = std::panic::catch_unwind(|| run(seed));
        assert!(outcome.is_ok(), "failed with SIM_SEED={seed}");
    }
}
