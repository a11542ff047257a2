use std::collections::BTreeSet;

use super::*;

fn schedule(interval: u64, fast: u64) -> Schedule {
    Schedule {
        interval: Duration::from_millis(interval),
        fast_interval: Duration::from_millis(fast),
        ..Schedule::default()
    }
}

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[expect(
    clippy::disallowed_methods,
    reason = "an instant to count from, whichever it is"
)]
fn epoch() -> Instant {
    Instant::now()
}

const A: TargetId = TargetId(1);

#[test]
fn a_new_target_is_due_at_once_and_then_within_its_interval() {
    let now = epoch();
    let mut scheduler = Scheduler::new(4, 1);
    assert_eq!(scheduler.next_deadline(), None);
    scheduler.add(A, schedule(1000, 100), now);
    assert_eq!(
        scheduler.poll(now),
        Some(Start {
            id: A,
            late: Duration::ZERO
        })
    );
    assert_eq!(scheduler.poll(now + millis(9_000)), None, "it is in flight");
    let mut started = now;
    for round in 0..200 {
        scheduler.finish(A, Pace::Usual, started + millis(5));
        let due = scheduler.next_deadline().unwrap();
        let wait = due - started;
        let least = if round == 0 { 100 } else { 900 };
        assert!(wait >= millis(least) && wait <= millis(1000), "{wait:?}");
        let early = due.checked_sub(millis(1)).unwrap();
        assert_eq!(scheduler.poll(early), None);
        assert_eq!(
            scheduler.poll(due + millis(7)).unwrap().late,
            millis(7),
            "lateness counts from the due time"
        );
        started = due + millis(7);
    }
}

#[test]
fn another_schedule_brings_the_next_probe_forward_and_never_puts_it_off() {
    let now = epoch();
    let mut scheduler = Scheduler::new(4, 1);
    scheduler.add(A, schedule(10_000, 100), now);
    scheduler.poll(now).unwrap();
    scheduler.finish(A, Pace::Usual, now + millis(5));
    scheduler.set_schedule(A, schedule(300, 100), now + millis(10));
    let soon = scheduler.next_deadline().unwrap();
    assert!(soon <= now + millis(300), "{:?}", soon - now);
    scheduler.set_schedule(A, schedule(60_000, 100), now + millis(20));
    assert_eq!(scheduler.next_deadline(), Some(soon));
    // In flight it is taken up when the probe ends.
    scheduler.poll(soon).unwrap();
    scheduler.set_schedule(A, schedule(1000, 100), soon);
    scheduler.finish(A, Pace::Usual, soon);
    let wait = scheduler.next_deadline().unwrap() - soon;
    assert!(wait >= millis(900) && wait <= millis(1000), "{wait:?}");
}

#[test]
fn an_undecided_target_is_probed_at_the_fast_interval() {
    let now = epoch();
    let mut scheduler = Scheduler::new(4, 1);
    scheduler.add(A, schedule(5000, 250), now);
    scheduler.poll(now).unwrap();
    scheduler.finish(A, Pace::Fast, now + millis(20));
    assert_eq!(scheduler.next_deadline(), Some(now + millis(250)));
}

#[test]
fn a_probe_longer_than_the_interval_is_followed_at_once_and_not_overlapped() {
    let now = epoch();
    let mut scheduler = Scheduler::new(4, 1);
    scheduler.add(A, schedule(1000, 100), now);
    scheduler.poll(now).unwrap();
    assert_eq!(scheduler.next_deadline(), None);
    scheduler.finish(A, Pace::Usual, now + millis(2000));
    assert_eq!(scheduler.next_deadline(), Some(now + millis(2000)));
}

#[test]
fn evidence_brings_the_next_probe_forward_but_not_beyond_its_rate() {
    let now = epoch();
    let mut scheduler = Scheduler::new(4, 1);
    scheduler.add(A, schedule(5000, 1000), now);
    scheduler.poll(now).unwrap();
    scheduler.finish(A, Pace::Usual, now + millis(1));
    scheduler.hurry(A, now + millis(2));
    assert_eq!(scheduler.next_deadline(), Some(now + EVIDENCE_GAP));
    scheduler.hurry(A, now + millis(3));
    assert_eq!(scheduler.next_deadline(), Some(now + EVIDENCE_GAP));
    let again = now + EVIDENCE_GAP;
    scheduler.poll(again).unwrap();
    scheduler.finish(A, Pace::Usual, again + millis(1));
    scheduler.hurry(A, again + millis(3000));
    assert!(scheduler.poll(again + millis(3000)).is_some());
}

#[test]
fn evidence_during_a_probe_has_another_follow() {
    let now = epoch();
    let mut scheduler = Scheduler::new(4, 1);
    scheduler.add(A, schedule(5000, 1000), now);
    scheduler.poll(now).unwrap();
    scheduler.hurry(A, now + millis(400));
    scheduler.finish(A, Pace::Usual, now + millis(500));
    assert_eq!(scheduler.next_deadline(), Some(now + millis(500)));
    scheduler.poll(now + millis(500)).unwrap();
    scheduler.finish(A, Pace::Usual, now + millis(501));
    assert!(scheduler.next_deadline().unwrap() > now + millis(4000));
}

#[test]
fn a_removed_target_is_not_probed_and_its_probe_in_flight_makes_room() {
    let now = epoch();
    let mut scheduler = Scheduler::new(1, 1);
    scheduler.add(A, schedule(1000, 100), now);
    scheduler.add(TargetId(2), schedule(1000, 100), now);
    scheduler.poll(now).unwrap();
    scheduler.remove(A);
    scheduler.hurry(A, now);
    assert_eq!(scheduler.poll(now), None, "there is no room");
    scheduler.finish(A, Pace::Usual, now + millis(3));
    assert_eq!(scheduler.poll(now + millis(3)).unwrap().id, TargetId(2));
    scheduler.remove(TargetId(2));
    scheduler.finish(TargetId(2), Pace::Usual, now + millis(4));
    assert_eq!(scheduler.next_deadline(), None);
    assert_eq!(scheduler.n_in_flight(), 0);
}

#[test]
fn the_heap_does_not_grow_with_evidence() {
    let mut now = epoch();
    let mut scheduler = Scheduler::new(1, 1);
    scheduler.add(A, schedule(60_000, 1000), now);
    for _ in 0..10_000 {
        scheduler.poll(now);
        scheduler.finish(A, Pace::Usual, now);
        now += millis(200);
        scheduler.hurry(A, now);
        scheduler.add(TargetId(2), schedule(60_000, 1000), now);
        scheduler.remove(TargetId(2));
    }
    assert!(scheduler.due.len() < 100, "{}", scheduler.due.len());
}

//--- Simulation

/// A clock, thousands of targets that answer after a while, and what must hold at every step.
struct Simulation {
    seed: u64,
    scheduler: Scheduler,
    now: Instant,
    random: u64,
    running: BTreeSet<(Instant, TargetId)>,
    last_start: BTreeMap<TargetId, Instant>,
    worst_late: Duration,
    n_starts: u64,
}

impl Simulation {
    fn new(seed: u64, max_in_flight: usize) -> Self {
        Self {
            seed,
            scheduler: Scheduler::new(max_in_flight, seed),
            now: epoch(),
            random: seed,
            running: BTreeSet::new(),
            last_start: BTreeMap::new(),
            worst_late: Duration::ZERO,
            n_starts: 0,
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.random >> 33) % below
    }

    /// Runs until `end`; a probe takes 1 to 20 ms, and every `slow`th takes a whole second.
    fn run(&mut self, end: Instant, slow: u64) {
        while self.now < end {
            while let Some(start) = self.scheduler.poll(self.now) {
                self.n_starts += 1;
                self.worst_late = self.worst_late.max(start.late);
                self.last_start.insert(start.id, self.now);
                let takes = if self.random(slow) == 0 {
                    1000
                } else {
                    1 + self.random(20)
                };
                let fresh = self.running.insert((self.now + millis(takes), start.id));
                assert!(fresh, "probed twice at once: seed {}", self.seed);
                assert!(
                    self.running.len() <= self.scheduler.max_in_flight(),
                    "too many in flight: seed {}",
                    self.seed
                );
                assert_eq!(self.running.len(), self.scheduler.n_in_flight());
            }
            let ends = self.running.first().map(|(at, _)| *at);
            let next = [ends, self.scheduler.next_deadline()]
                .into_iter()
                .flatten()
                .min();
            self.now = next.unwrap_or(end).max(self.now);
            while let Some(&(at, id)) = self.running.first().filter(|(at, _)| *at <= self.now) {
                self.running.remove(&(at, id));
                let pace = if self.random(50) == 0 {
                    Pace::Fast
                } else {
                    Pace::Usual
                };
                self.scheduler.finish(id, pace, self.now);
            }
        }
    }
}

fn seeds() -> Vec<u64> {
    match std::env::var("SIM_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=4).collect(),
    }
}

#[test]
fn thousands_of_targets_are_all_probed_in_time() {
    for seed in seeds() {
        let mut simulation = Simulation::new(seed, 512);
        let begun = simulation.now;
        let n_targets = 5_000;
        for number in 0..n_targets {
            let interval = [1_000, 2_000, 5_000][usize::try_from(number % 3).unwrap()];
            simulation
                .scheduler
                .add(TargetId(number), schedule(interval, 500), begun);
        }
        simulation.run(begun + millis(3_000), 1_000_000);
        // The rush of the first round is over: from here on nobody is late by more than a moment.
        simulation.worst_late = Duration::ZERO;
        simulation.run(begun + millis(20_000), 1_000_000);
        assert!(
            simulation.worst_late <= millis(25),
            "late by {:?}: seed {seed}",
            simulation.worst_late
        );
        assert_eq!(simulation.last_start.len(), 5_000, "seed {seed}");
        for (id, started) in &simulation.last_start {
            let age = simulation.now - *started;
            assert!(age <= millis(5_050), "{id:?} starved: seed {seed}");
        }
    }
}

#[test]
fn with_too_much_to_do_everybody_is_late_and_nobody_starves() {
    for seed in seeds() {
        // One in ten takes a second: 2,000 targets need some 220 at a time and get 50.
        let mut simulation = Simulation::new(seed, 50);
        let begun = simulation.now;
        for number in 0..2_000 {
            simulation
                .scheduler
                .add(TargetId(number), schedule(1_000, 500), begun);
        }
        simulation.run(begun + millis(60_000), 10);
        assert!(simulation.worst_late > millis(1_000), "seed {seed}");
        for (id, started) in &simulation.last_start {
            let age = simulation.now - *started;
            assert!(age <= millis(8_000), "{id:?} starved {age:?}: seed {seed}");
        }
        assert_eq!(simulation.last_start.len(), 2_000, "seed {seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut simulation = Simulation::new(seed, 64);
        let begun = simulation.now;
        for number in 0..500 {
            simulation
                .scheduler
                .add(TargetId(number), schedule(1_000, 500), begun);
        }
        simulation.run(begun + millis(10_000), 100);
        simulation.n_starts
    };
    assert_eq!(run(7), run(7));
}
