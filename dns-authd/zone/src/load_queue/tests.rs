//! Loads in a table of steps, and in random orders.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const LIMITS: Limits = Limits {
    at_once: 2,
    large_at_once: 1,
    large: 100,
};

type Queue = LoadQueue<char, u32>;

/// A step of a table: what happens, and what comes of it in words.
enum Step {
    /// Zones in capitals are large; a later letter is a larger zone.
    Request(&'static str, u32),
    Supersede(char, u32),
    Remove(char, &'static [u32]),
    /// The zones that begin now.
    Next(&'static str),
    /// The zone whose load ends, whether its result counts, and the tickets that are complete.
    Finish(char, bool, &'static [u32]),
}

fn size(zone: char) -> u64 {
    match zone.is_ascii_uppercase() {
        true => 100 + u64::from(u32::from(zone)),
        false => u64::from(u32::from(zone) - u32::from('a')),
    }
}

fn check(steps: &[Step]) {
    let mut queue = Queue::new(LIMITS);
    let mut jobs = BTreeMap::new();
    for (place, step) in steps.iter().enumerate() {
        match step {
            Step::Request(zones, ticket) => {
                let zones = zones.chars().map(|zone| (zone, size(zone)));
                queue.request(zones, Some(*ticket));
            }
            Step::Supersede(zone, ticket) => queue.supersede(zone, size(*zone), Some(*ticket)),
            Step::Remove(zone, complete) => {
                assert_eq!(queue.remove(zone), *complete, "step {place}");
            }
            Step::Next(zones) => {
                let mut begun = String::new();
                while let Some((job, zone)) = queue.begin() {
                    begun.push(zone);
                    jobs.insert(zone, job);
                }
                assert_eq!(begun, *zones, "step {place}");
            }
            Step::Finish(zone, is_current, complete) => {
                let finished = queue.finish(jobs[zone]).unwrap();
                assert_eq!(finished.zone, *zone, "step {place}");
                assert_eq!(finished.is_current, *is_current, "step {place}");
                assert_eq!(finished.complete, *complete, "step {place}");
                assert_eq!(queue.finish(jobs[zone]), None, "step {place}");
            }
        }
    }
    assert!(queue.is_idle());
    assert!(queue.tickets.is_empty());
}

#[test]
fn the_smallest_of_a_request_comes_first_and_no_more_than_the_limit_run() {
    use Step::{Finish, Next, Request};
    check(&[
        Request("cab", 1),
        Next("ab"),
        Finish('b', true, &[]),
        Next("c"),
        Finish('c', true, &[]),
        Finish('a', true, &[1]),
    ]);
}

#[test]
fn a_large_zone_leaves_a_worker_to_the_others_and_waits_for_no_later_one() {
    use Step::{Finish, Next, Request};
    check(&[
        Request("AB", 1),
        Next("A"),
        Request("a", 2),
        Next("a"),
        Request("b", 3),
        Next(""),
        Finish('a', true, &[2]),
        // B is first, but A is large too.
        Next("b"),
        Finish('A', true, &[]),
        Next("B"),
        Request("c", 4),
        Finish('b', true, &[3]),
        Next("c"),
        Finish('c', true, &[4]),
        Finish('B', true, &[1]),
    ]);
}

#[test]
fn a_zone_that_loads_is_queued_once_and_later_requests_wait_for_the_later_load() {
    use Step::{Finish, Next, Request};
    check(&[
        Request("a", 1),
        Next("a"),
        Request("a", 2),
        Request("ab", 3),
        // Never two loads of one zone.
        Next("b"),
        Finish('a', true, &[1]),
        Next("a"),
        Finish('b', true, &[]),
        Finish('a', true, &[2, 3]),
    ]);
}

#[test]
fn the_result_of_a_superseded_load_does_not_count_and_its_tickets_wait_on() {
    use Step::{Finish, Next, Request, Supersede};
    check(&[
        Request("a", 1),
        Next("a"),
        Supersede('a', 2),
        Next(""),
        Finish('a', false, &[]),
        Next("a"),
        Finish('a', true, &[2, 1]),
        // Without a load there is nothing to supersede.
        Supersede('b', 3),
        Next("b"),
        Finish('b', true, &[3]),
    ]);
}

#[test]
fn a_zone_that_is_removed_is_waited_for_no_longer() {
    use Step::{Finish, Next, Remove, Request};
    check(&[
        Request("abc", 1),
        Next("ab"),
        Remove('c', &[]),
        Remove('a', &[]),
        Remove('d', &[]),
        Finish('b', true, &[1]),
        // Declared again while its former load still runs.
        Request("a", 2),
        Next(""),
        Finish('a', false, &[]),
        Next("a"),
        Remove('a', &[2]),
        Finish('a', false, &[]),
    ]);
}

//--- Simulation

/// Small numbers from a seed (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// The world around a queue: files that change, and what is in service of them.
#[derive(Default)]
struct World {
    /// The version of each declared zone's files.
    files: BTreeMap<u32, u64>,
    /// The version in service.
    served: BTreeMap<u32, u64>,
    /// The running loads: job, zone, version read, and whether the declaration was changed since.
    running: Vec<(Job, u32, u64, bool)>,
    /// For each ticket the versions that it wants served, by zone.
    tickets: BTreeMap<u32, BTreeMap<u32, u64>>,
    next_ticket: u32,
    version: u64,
    /// The most other loads that began while a zone waited.
    waits: BTreeMap<u32, usize>,
}

const ZONES: u64 = 12;

fn large(zone: u32) -> bool {
    zone.is_multiple_of(4)
}

fn zone_size(zone: u32) -> u64 {
    u64::from(zone) + if large(zone) { 100 } else { 0 }
}

impl World {
    fn step(&mut self, queue: &mut LoadQueue<u32, u32>, dice: &mut Dice) {
        let zone = u32::try_from(dice.roll(ZONES)).unwrap();
        match dice.roll(10) {
            0..4 => self.request(queue, dice),
            4 => self.supersede(queue, zone),
            5 => self.remove(queue, zone),
            // Ends in any order.
            _ if !self.running.is_empty() => {
                let place = dice.roll(self.running.len() as u64);
                self.finish(queue, usize::try_from(place).unwrap());
            }
            _ => {}
        }
        self.begin(queue);
    }

    fn request(&mut self, queue: &mut LoadQueue<u32, u32>, dice: &mut Dice) {
        let zones: BTreeSet<u32> = (0..=dice.roll(3))
            .map(|_| u32::try_from(dice.roll(ZONES)).unwrap())
            .collect();
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let mut wanted = BTreeMap::new();
        for zone in &zones {
            self.version += 1;
            self.files.insert(*zone, self.version);
            wanted.insert(*zone, self.version);
        }
        self.tickets.insert(ticket, wanted);
        let zones = zones.into_iter().map(|zone| (zone, zone_size(zone)));
        queue.request(zones, Some(ticket));
        assert!(queue.is_waiting(ticket));
    }

    fn supersede(&mut self, queue: &mut LoadQueue<u32, u32>, zone: u32) {
        self.version += 1;
        self.files.insert(zone, self.version);
        queue.supersede(&zone, zone_size(zone), None);
        for load in &mut self.running {
            load.3 |= load.1 == zone;
        }
    }

    fn remove(&mut self, queue: &mut LoadQueue<u32, u32>, zone: u32) {
        self.files.remove(&zone);
        self.served.remove(&zone);
        self.waits.remove(&zone);
        for load in &mut self.running {
            load.3 |= load.1 == zone;
        }
        for wanted in self.tickets.values_mut() {
            wanted.remove(&zone);
        }
        let complete = queue.remove(&zone);
        self.complete(&complete);
    }

    fn begin(&mut self, queue: &mut LoadQueue<u32, u32>) {
        while let Some((job, zone)) = queue.begin() {
            let is_running = self.running.iter().any(|load| load.1 == zone);
            assert!(!is_running, "two loads of zone {zone}");
            self.running.push((job, zone, self.files[&zone], false));
            self.waits.remove(&zone);
            for waiting in (0..u32::try_from(ZONES).unwrap())
                .filter(|zone| queue.stage(zone) == Some(Stage::Waiting))
            {
                let n = self.waits.entry(waiting).or_insert(0);
                *n += 1;
                // Each other zone stands before it at most twice: in the queue, and behind its own run.
                assert!(*n <= 2 * usize::try_from(ZONES).unwrap(), "{waiting}");
            }
        }
        let n_large = self.running.iter().filter(|load| large(load.1)).count();
        assert!(self.running.len() <= LIMITS.at_once && n_large <= LIMITS.large_at_once);
        let is_full = self.running.len() == LIMITS.at_once;
        assert!(is_full || queue.small.is_empty(), "a worker is idle");
    }

    fn finish(&mut self, queue: &mut LoadQueue<u32, u32>, place: usize) {
        let (job, zone, version, is_superseded) = self.running.swap_remove(place);
        let finished = queue.finish(job).unwrap();
        assert_eq!((finished.zone, finished.is_current), (zone, !is_superseded));
        if finished.is_current {
            self.served.insert(zone, version);
        } else {
            assert!(finished.tickets.is_empty());
        }
        self.complete(&finished.complete);
    }

    /// Each ticket is complete once, when every zone that it is for is served as it was then, or later.
    fn complete(&mut self, tickets: &[u32]) {
        for ticket in tickets {
            let wanted = self.tickets.remove(ticket).expect("complete twice");
            for (zone, version) in wanted {
                let served = self.served.get(&zone).copied().unwrap_or_default();
                assert!(served >= version, "ticket {ticket}, zone {zone}");
            }
        }
    }
}

#[test]
fn every_request_is_answered_and_the_newest_files_are_served_in_any_order_of_ends() {
    for seed in 1_u64..=400 {
        println!("seed {seed}");
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut queue = LoadQueue::new(LIMITS);
        let mut world = World::default();
        for _ in 0..300 {
            world.step(&mut queue, &mut dice);
        }
        while !world.running.is_empty() {
            let place = dice.roll(world.running.len() as u64);
            world.finish(&mut queue, usize::try_from(place).unwrap());
            world.begin(&mut queue);
        }
        assert!(queue.is_idle());
        assert_eq!(queue.n_waiting(), 0);
        assert!(world.tickets.is_empty(), "unanswered");
        assert_eq!(world.served, world.files);
    }
}
