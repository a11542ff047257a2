//! Services come, change and go in any order; several clusterds decide in turn, and restart at any time.
//!
//! `SIM_SEED=17 cargo test -p cluster-addresses` replays one seed.

use std::collections::BTreeMap;

use cluster::Protocol;
use random::Random;

use super::*;
use crate::tests::{port, service};

const SEEDS: u64 = 256;
const STEPS: usize = 60;

struct World {
    random: Random,
    services: BTreeMap<String, Service>,
    settings: Settings,
    born: u32,
}

impl World {
    fn new(seed: u64) -> Self {
        let pool = |name: &str, ranges: &[&str], automatic| Pool {
            name: name.to_owned(),
            ranges: ranges.iter().map(|range| range.parse().unwrap()).collect(),
            automatic,
            namespaces: Vec::new(),
            avoid_buggy: false,
        };
        Self {
            random: Random::new(u128::from(seed).to_be_bytes()),
            services: BTreeMap::new(),
            settings: Settings {
                pools: vec![
                    pool(
                        "one",
                        &["192.0.2.1-192.0.2.4", "2001:db8::1-2001:db8::3"],
                        true,
                    ),
                    pool("two", &["192.0.2.10-192.0.2.12"], false),
                ],
                class: None,
            },
            born: 0,
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.bits() % n
    }

    fn name(&mut self) -> String {
        let n = self.below(12);
        format!("s{n}")
    }

    /// One change by a user.
    fn change(&mut self) {
        let name = self.name();
        match self.below(10) {
            0..=3 => {
                self.born += 1;
                let mut made = service(&name);
                made.meta.created = format!("{:06}", self.born);
                made.external_local = self.below(4) == 0;
                made.ports = vec![match self.below(3) {
                    0 => port(Protocol::Udp, 53),
                    1 => port(Protocol::Tcp, 53),
                    _ => port(Protocol::Tcp, 80),
                }];
                if self.below(3) == 0 {
                    made.ip_families.push(IpFamily::V6);
                    made.ip_family_policy = match self.below(2) {
                        0 => "RequireDualStack".to_owned(),
                        _ => "PreferDualStack".to_owned(),
                    };
                }
                if self.below(3) == 0 {
                    let key = "metallb.io/allow-shared-ip".to_owned();
                    let value = format!("k{}", self.below(2));
                    made.meta.annotations.insert(key, value);
                }
                self.services.insert(name, made);
            }
            4 | 5 => drop(self.services.remove(&name)),
            6 => {
                let address = format!("192.0.2.{}", self.below(14));
                if let Some(service) = self.services.get_mut(&name) {
                    service.load_balancer_ip = address;
                }
            }
            7 => {
                let pool = ["one", "two", "three"][usize::try_from(self.below(3)).unwrap()];
                if let Some(service) = self.services.get_mut(&name) {
                    let key = "metallb.io/address-pool".to_owned();
                    service.meta.annotations.insert(key, pool.to_owned());
                }
            }
            8 => {
                if let Some(service) = self.services.get_mut(&name) {
                    service.load_balancer_ip.clear();
                    service.meta.annotations.remove("metallb.io/address-pool");
                }
            }
            _ => {
                if let Some(service) = self.services.get_mut(&name) {
                    service.kind = match service.kind {
                        ServiceType::LoadBalancer => ServiceType::ClusterIP,
                        _ => ServiceType::LoadBalancer,
                    };
                }
            }
        }
    }

    /// One clusterd writes a part of what it has decided, and dies there or continues.
    fn write(&mut self) {
        let decisions = decide(&self.settings, self.services.values());
        let n = usize::try_from(1 + self.below(6)).unwrap();
        let skipped = usize::try_from(self.below(6)).unwrap();
        for ((_, name), decision) in decisions.into_iter().skip(skipped).take(n) {
            let service = self.services.get_mut(&name).unwrap();
            service.ingress = ingress(&decision, "VIP");
        }
    }

    fn check(&self, when: &str) {
        // Two Services that may not share never have one address in their status, and never get one.
        let decisions = decide(&self.settings, self.services.values());
        let mut had: Vec<(IpAddr, &Service)> = Vec::new();
        for service in self.services.values() {
            had.extend(addresses(service).map(|address| (address, service)));
        }
        let of = |service: &Service| match decisions.get(&key(service)) {
            Some(Decision::Has { given, .. }) => {
                given.iter().map(|given| given.address).collect::<Vec<_>>()
            }
            _ => addresses(service).collect(),
        };
        let all: Vec<&Service> = self.services.values().collect();
        for (place, one) in all.iter().enumerate() {
            for other in all.iter().skip(place + 1) {
                let both = of(one)
                    .into_iter()
                    .find(|address| of(other).contains(address));
                let may = Holder::of(one).shares_with(&Holder::of(other));
                assert!(
                    both.is_none() || may,
                    "{when}: {both:?} for {one:?} and {other:?}"
                );
            }
        }
        // The order in which they are known changes nothing.
        let backwards = decide(&self.settings, self.services.values().rev());
        assert_eq!(decisions, backwards, "{when}");
    }
}

/// A Service keeps its addresses, as long as nothing about it or its pool is changed.
fn stays(world: &World, before: &BTreeMap<String, Service>, when: &str) {
    for (name, service) in &world.services {
        let Some(known) = before.get(name) else {
            continue;
        };
        let is_same = Service {
            ingress: Vec::new(),
            ..known.clone()
        } == Service {
            ingress: Vec::new(),
            ..service.clone()
        };
        let asks = Request::of(service).ok();
        let asks = asks.is_some_and(|it| it != Request::default());
        let is_own = service.kind == ServiceType::LoadBalancer;
        if !is_same || asks || !is_own {
            continue;
        }
        for address in addresses(known) {
            let still = addresses(service).any(|it| it == address);
            assert!(still, "{when}: {name} lost {address}");
        }
    }
}

#[test]
fn no_address_is_given_twice_and_none_moves() {
    let only = std::env::var("SIM_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seeds = only.map_or(0..SEEDS, |seed| seed..seed + 1);
    for seed in seeds {
        let mut world = World::new(seed);
        for step in 0..STEPS {
            let when = format!("seed {seed} step {step}");
            match world.below(2) {
                0 => world.change(),
                _ => {
                    let before = world.services.clone();
                    world.write();
                    stays(&world, &before, &when);
                }
            }
            world.check(&when);
        }
        // In the end every decision is carried out, and a further one changes nothing.
        for _ in 0..4 {
            let decisions = decide(&world.settings, world.services.values());
            for ((_, name), decision) in decisions {
                let service = world.services.get_mut(&name).unwrap();
                service.ingress = ingress(&decision, "VIP");
            }
        }
        let decisions = decide(&world.settings, world.services.values());
        for service in world.services.values() {
            if let Some(decision) = decisions.get(&key(service)) {
                let wanted = ingress(decision, "VIP");
                assert_eq!(service.ingress, wanted, "seed {seed}: {decision:?}");
            }
        }
    }
}
