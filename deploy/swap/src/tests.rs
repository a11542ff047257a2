use std::collections::{BTreeMap, BTreeSet};

use super::*;

const PLANS: [With; 2] = [With::Archive, With::Nothing];

fn start(with: With) -> Swap {
    Swap::new(Plan { old: Slot::A, with })
}

fn bad() -> Event {
    Event::Failed("no".to_owned())
}

/// The state by its name alone.
fn name(swap: &Swap) -> String {
    let text = format!("{:?}", swap.state);
    match &swap.state {
        State::Ended(outcome) => {
            let outcome = format!("{outcome:?}");
            outcome.split('(').next().unwrap().to_uppercase()
        }
        _ => text.split('(').next().unwrap().to_owned(),
    }
}

/// Every state that can be reached, with what each event makes of it: `state: done | failed | interrupted`.
fn table(with: With) -> Vec<String> {
    let mut rows = BTreeMap::new();
    let mut waiting = vec![start(with)];
    let mut order = Vec::new();
    while let Some(swap) = waiting.pop() {
        let from = name(&swap);
        if rows.contains_key(&from) {
            continue;
        }
        let next = [Event::Done, bad(), Event::Interrupted].map(|event| {
            let mut next = swap.clone();
            next.handle(event);
            next
        });
        let [done, failed, interrupted] = next.each_ref().map(name);
        let row = format!("{from}: {done} | {failed} | {interrupted}");
        order.push(from.clone());
        rows.insert(from, row);
        waiting.extend(next.into_iter().rev());
    }
    order.iter().map(|name| rows[name].clone()).collect()
}

#[test]
fn every_event_in_every_state_leads_where_it_should() {
    let expected = [
        "Verifying: Settling | KEPT | KEPT",
        "Settling: Clearing | Rescuing | KEPT",
        "Clearing: Confirming | RestoringAgain | RestoringAgain",
        "Confirming: Loading | Loading | RestoringAgain",
        "Loading: Permitting | Abandoning | Abandoning",
        "Permitting: Starting | Abandoning | Abandoning",
        "Starting: Watching | Restoring | Restoring",
        "Watching: Recording | Restoring | Restoring",
        "Recording: StoppingOld | Reverting | Recording",
        "StoppingOld: Closing | Closing | StoppingOld",
        "Closing: SWAPPED | SWAPPED | Closing",
        "SWAPPED: SWAPPED | SWAPPED | SWAPPED",
        "Reverting: Restoring | Restoring | Reverting",
        "Restoring: Discarding | Evicting | Restoring",
        "Discarding: RestoringAgain | RestoringAgain | Discarding",
        "RestoringAgain: Abandoning | Despairing | RestoringAgain",
        "Abandoning: KEPT | KEPT | Abandoning",
        "KEPT: KEPT | KEPT | KEPT",
        "Despairing: DOWN | DOWN | Despairing",
        "DOWN: DOWN | DOWN | DOWN",
        "Evicting: RestoringAgain | RestoringAgain | Evicting",
        "Rescuing: Recording | Clearing | KEPT",
    ];
    assert_eq!(table(With::Archive), expected);
    let settle = table(With::Nothing);
    for row in [
        "Settling: Clearing | Rescuing | KEPT",
        "Confirming: Closing | Despairing | RestoringAgain",
        "Rescuing: Recording | Evicting | KEPT",
        "Closing: SETTLED | SETTLED | Closing",
    ] {
        assert!(
            settle.iter().any(|found| found == row),
            "{row}\n{settle:#?}"
        );
    }
}

#[test]
fn a_swap_takes_its_steps_in_order() {
    let mut swap = start(With::Archive);
    let mut taken = Vec::new();
    while let Some(action) = swap.action() {
        taken.push(action);
        swap.handle(Event::Done);
    }
    let (old, new) = (Slot::A, Slot::B);
    assert_eq!(
        taken,
        [
            Action::Verify,
            Action::Serve(old),
            Action::Stop(new),
            Action::Serve(old),
            Action::Load(new),
            Action::Permit(new),
            Action::Start(new),
            Action::Watch(new),
            Action::Record(new),
            Action::Stop(old),
            Action::Forbid(new),
        ]
    );
    assert_eq!(swap.outcome(), Some(&Outcome::Swapped(None)));
}

#[test]
fn a_failure_is_told_with_what_came_of_the_way_out() {
    let mut swap = start(With::Archive);
    while swap.action() != Some(Action::Watch(Slot::B)) {
        swap.handle(Event::Done);
    }
    swap.handle(Event::Failed("the canary died".to_owned()));
    assert_eq!(swap.action(), Some(Action::Serve(Slot::A)));
    swap.handle(Event::Done);
    swap.handle(Event::Failed("it does not stop".to_owned()));
    assert_eq!(swap.action(), Some(Action::Serve(Slot::A)));
    swap.handle(Event::Done);
    swap.handle(Event::Done);
    let told = "the canary died; then it does not stop".to_owned();
    assert_eq!(swap.outcome(), Some(&Outcome::Kept(told)));
}

//--- A node to swap on

/// A seeded source of luck (xorshift64*).
struct Luck(u64);

impl Luck {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// How good a version is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Build {
    Good,
    /// Ends at its start.
    Broken,
    /// Says that it is ready and does not work.
    Lies,
    /// Works, and does not let go when it is asked to.
    Hangs,
    /// Ends soon after it was ready; its manager starts it again and again.
    Flaps,
}

/// A node with one service, as systemd and the services behave.
#[derive(Clone, Debug)]
struct Node {
    /// Whether a slot that starts makes the other one end.
    hands_over: bool,
    builds: BTreeMap<Slot, Build>,
    running: BTreeSet<Slot>,
    permitted: BTreeSet<Slot>,
    /// What its manager starts again when it fails.
    wanted: BTreeSet<Slot>,
    record: Slot,
    /// What was watched and has passed since it was started.
    passed: BTreeSet<Slot>,
}

impl Node {
    fn may_run(&self, slot: Slot) -> bool {
        self.record == slot || self.permitted.contains(&slot)
    }

    fn serves(&self, slot: Slot) -> bool {
        let is_good = matches!(self.builds[&slot], Build::Good | Build::Hangs);
        self.running.contains(&slot) && is_good
    }

    fn start(&mut self, slot: Slot) -> bool {
        if self.running.contains(&slot) {
            return true;
        }
        let other = slot.other();
        let is_blocked =
            self.hands_over && self.running.contains(&other) && self.builds[&other] == Build::Hangs;
        if !self.may_run(slot) || self.builds[&slot] == Build::Broken || is_blocked {
            return false;
        }
        self.running.insert(slot);
        self.wanted.insert(slot);
        self.passed.remove(&slot);
        if self.hands_over {
            // Having given away what it had it ends by itself, and stays away.
            self.running.remove(&other);
            if self.builds[&other] != Build::Flaps {
                self.wanted.remove(&other);
            }
        }
        true
    }

    /// What its manager has not been told to stop comes back, and takes over if it does that.
    fn come_back(&mut self, luck: &mut Luck) {
        for slot in Slot::ALL {
            let is_flapping = self.wanted.contains(&slot) && self.builds[&slot] == Build::Flaps;
            if is_flapping && luck.one_in(2) {
                self.running.remove(&slot);
                self.start(slot);
            }
        }
    }

    /// Takes a step as the shell would; false when it fails.
    fn take(&mut self, action: Action, brought: Build) -> bool {
        match action {
            Action::Verify => true,
            Action::Serve(slot) | Action::Start(slot) => self.start(slot),
            Action::Stop(slot) => {
                self.running.remove(&slot);
                self.wanted.remove(&slot);
                true
            }
            Action::Load(slot) => {
                self.builds.insert(slot, brought);
                true
            }
            Action::Permit(slot) => {
                self.permitted.insert(slot);
                true
            }
            Action::Watch(slot) => {
                let is_good = self.serves(slot);
                if is_good {
                    self.passed.insert(slot);
                }
                is_good
            }
            Action::Record(slot) => {
                self.record = slot;
                true
            }
            Action::Forbid(slot) => {
                self.permitted.remove(&slot);
                true
            }
        }
    }

    /// The power goes and comes back: only what is on record starts.
    fn lose_power(&mut self) {
        self.running.clear();
        self.permitted.clear();
        self.wanted.clear();
        let record = self.record;
        self.start(record);
    }

    fn n_serving(&self) -> usize {
        Slot::ALL.iter().filter(|slot| self.serves(**slot)).count()
    }
}

/// What is to go wrong, and when.
struct World {
    node: Node,
    luck: Luck,
    told: String,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut luck = Luck::new(seed);
        let builds = BTreeMap::from([(Slot::A, Build::Good), (Slot::B, Build::Good)]);
        let mut node = Node {
            hands_over: luck.one_in(2),
            builds,
            running: BTreeSet::new(),
            permitted: BTreeSet::new(),
            wanted: BTreeSet::new(),
            record: if luck.one_in(2) { Slot::A } else { Slot::B },
            passed: BTreeSet::new(),
        };
        let record = node.record;
        node.start(record);
        node.passed.insert(record);
        Self {
            node,
            luck,
            told: format!("seed {seed}: "),
        }
    }

    /// Runs a swap to its end, or until it is killed or the power goes (none).
    fn swap(&mut self, with: With, faults: u64) -> Option<Outcome> {
        let brought = [
            Build::Good,
            Build::Broken,
            Build::Lies,
            Build::Hangs,
            Build::Flaps,
        ][usize::try_from(self.luck.below(5)).unwrap()];
        let mut swap = Swap::new(Plan {
            old: self.node.record,
            with,
        });
        self.told.push_str(&format!(
            "[{with:?} {brought:?} on {:?}] ",
            self.node.record
        ));
        while let Some(action) = swap.action() {
            self.node.come_back(&mut self.luck);
            self.check_stop(action);
            self.told.push_str(&format!("{action:?} "));
            let is_faulty = faults > 0 && self.luck.one_in(faults);
            if is_faulty && self.luck.one_in(3) {
                // Killed before the step, or after it.
                if self.luck.one_in(2) {
                    self.node.take(action, brought);
                }
                self.told.push_str("killed ");
                if self.luck.one_in(2) {
                    self.told.push_str("power ");
                    self.node.lose_power();
                }
                return None;
            }
            if is_faulty && swap.can_be_interrupted() && self.luck.one_in(3) {
                self.told.push_str("interrupted ");
                swap.handle(Event::Interrupted);
                continue;
            }
            // A step that fails may have been taken all the same, but for what brings the old one back.
            // A disk that refuses the record twice in a row is not played.
            let is_sound = matches!(action, Action::Serve(_) | Action::Stop(_))
                || action == Action::Record(swap.plan.old);
            let spoils = is_faulty && !is_sound;
            let worked = if spoils {
                if self.luck.one_in(2) && !matches!(action, Action::Watch(_)) {
                    self.node.take(action, brought);
                }
                false
            } else {
                self.node.take(action, brought)
            };
            self.told.push_str(if worked { "" } else { "(failed) " });
            swap.handle(if worked { Event::Done } else { bad() });
        }
        swap.outcome().cloned()
    }

    /// The slot on record is stopped by nobody; what was on record before, once the other has passed.
    fn check_stop(&self, action: Action) {
        let Action::Stop(slot) = action else { return };
        assert_ne!(slot, self.node.record, "{}", self.told);
        if self.node.serves(slot) && !self.node.serves(slot.other()) {
            let hangs = self.node.builds[&slot] == Build::Hangs;
            assert!(hangs, "stops the only one that serves: {}", self.told);
        }
    }

    fn check_end(&self, outcome: &Outcome) {
        let node = &self.node;
        assert_eq!(node.n_serving(), 1, "{outcome:?}: {}\n{node:?}", self.told);
        assert!(
            node.serves(node.record),
            "{outcome:?}: {}\n{node:?}",
            self.told
        );
        assert_eq!(
            node.running.len(),
            1,
            "{outcome:?}: {}\n{node:?}",
            self.told
        );
    }
}

fn seeds() -> std::ops::Range<u64> {
    match std::env::var("SIM_SEED")
        .ok()
        .and_then(|it| it.parse().ok())
    {
        Some(seed) => seed..seed + 1,
        None => 0..20_000,
    }
}

#[test]
fn without_faults_a_good_version_serves_and_a_bad_one_changes_nothing() {
    for seed in seeds().take(2_000) {
        let mut world = World::new(seed);
        let old = world.node.record;
        let outcome = world.swap(With::Archive, 0).unwrap();
        let node = &world.node;
        match node.builds[&old.other()] {
            Build::Good | Build::Hangs => {
                assert_eq!(outcome, Outcome::Swapped(None), "{}", world.told);
                assert_eq!(node.record, old.other());
            }
            Build::Broken | Build::Lies | Build::Flaps => {
                assert!(matches!(outcome, Outcome::Kept(_)), "{}", world.told);
                assert_eq!(node.record, old);
            }
        }
        world.check_end(&outcome);
    }
}

#[test]
fn whatever_fails_one_slot_serves_and_it_is_the_one_on_record() {
    for seed in seeds() {
        let mut world = World::new(seed);
        for _ in 0..4 {
            let with = PLANS[usize::from(world.luck.one_in(3))];
            match world.swap(with, 6) {
                Some(outcome) => {
                    let is_old_bad = world.node.builds[&world.node.record] != Build::Good;
                    if matches!(outcome, Outcome::Down(_)) {
                        panic!("{}: {:?}", world.told, world.node);
                    }
                    if !is_old_bad || world.node.n_serving() == 1 {
                        // One that has failed half-way leaves the rest to the next.
                        let settled = world.swap(With::Nothing, 0).unwrap();
                        world.check_end(&settled);
                    }
                }
                None => {
                    let settled = world.swap(With::Nothing, 0).unwrap();
                    world.check_end(&settled);
                }
            }
        }
    }
}
