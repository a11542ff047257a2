use std::collections::BTreeSet;

use health::{AdminState, Liveness};

use super::*;

const AFTER: Duration = Duration::from_secs(10);

const LIMITS: Limits = Limits {
    in_flight: 4,
    targets: 8,
    grace: Duration::from_secs(10),
};

fn target(port: u16) -> Target {
    Target::tcp(([192, 168, 7, 13], port).into())
}

fn watched(ports: &[u16]) -> Arc<[Watched]> {
    ports.iter().map(|port| target(*port).into()).collect()
}

/// A machine, a clock, the last snapshot of its subscriber and which ports answer.
struct Subscriber {
    machine: Machine,
    now: Now,
    shown: Arc<Snapshot>,
    open: BTreeSet<u16>,
    /// The ports that were probed.
    probed: Vec<u16>,
}

impl Subscriber {
    #[expect(
        clippy::disallowed_methods,
        reason = "an instant to count from, whichever it is"
    )]
    fn new(ports: &[u16]) -> Self {
        let now = Now {
            steady: Instant::now(),
            wall: Duration::from_secs(1_000_000),
        };
        let mut machine = Machine::new(AFTER, LIMITS, 7, now.steady);
        machine.set_targets(watched(ports), now);
        Self {
            machine,
            now,
            shown: Arc::default(),
            open: BTreeSet::new(),
            probed: Vec::new(),
        }
    }

    /// healthd is connected and says this.
    fn hears(&mut self, states: &[(u16, Liveness)], schedule: Schedule) {
        self.machine.set_connected(true, self.now.steady);
        let status = |liveness| TargetStatus {
            liveness,
            schedule,
            ..TargetStatus::default()
        };
        let targets = states
            .iter()
            .map(|(port, liveness)| (target(*port), status(*liveness)));
        self.shown = Arc::new(Snapshot {
            generation: 77,
            targets: targets.collect(),
            ..Snapshot::default()
        });
    }

    fn loses_healthd(&mut self) {
        self.machine.set_connected(false, self.now.steady);
    }

    /// Runs for so long; each probe is answered at once.
    fn run(&mut self, time: Duration) {
        let end = self.now.steady + time;
        loop {
            let shown = Arc::clone(&self.shown);
            self.machine.advance(|| shown, self.now);
            while let Some((id, probe)) = self.machine.poll(self.now) {
                let port = probe.target.address.port();
                self.probed.push(port);
                let good = self.open.contains(&port);
                self.machine.finish(id, found(good), self.now);
            }
            if let Some(snapshot) = self.machine.take_snapshot() {
                self.shown = Arc::new(snapshot);
            }
            let next = self.machine.next_deadline();
            let next = next.filter(|next| *next < end).unwrap_or(end);
            let step = next - self.now.steady;
            self.now.steady += step;
            self.now.wall += step;
            if next == end {
                return;
            }
        }
    }

    fn states(&self, ports: &[u16]) -> Vec<Liveness> {
        let targets = ports.iter().map(|port| target(*port));
        targets.map(|it| self.shown.liveness(&it)).collect()
    }
}

fn found(good: bool) -> Finding {
    Finding {
        good,
        reason: if good { "connected" } else { "refused" }.to_owned(),
        latency: Duration::from_millis(1),
    }
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn the_last_states_hold_for_a_while_and_then_own_probes_decide_until_healthd_is_back() {
    use Liveness::{Down, Up};
    let mut subscriber = Subscriber::new(&[1, 2]);
    subscriber.hears(&[(1, Up), (2, Down)], Schedule::default());
    subscriber.run(seconds(100));
    assert_eq!(subscriber.machine.source(), Source::Healthd);
    subscriber.loses_healthd();
    // Both change while no one probes them.
    subscriber.open = [2].into();
    subscriber.run(Duration::from_millis(9_999));
    assert_eq!(subscriber.machine.source(), Source::LastStates);
    assert_eq!(subscriber.states(&[1, 2]), [Up, Down]);
    assert_eq!(
        (subscriber.probed.len(), subscriber.shown.generation),
        (0, 77)
    );
    // One result flips nothing: they continue from what healthd said.
    subscriber.run(Duration::from_millis(2));
    assert_eq!(subscriber.machine.source(), Source::OwnProbes);
    assert_eq!(subscriber.states(&[1, 2]), [Up, Down]);
    assert!(subscriber.shown.stands_in && subscriber.shown.generation == 0);
    subscriber.run(Schedule::default().interval);
    assert_eq!(subscriber.states(&[1, 2]), [Down, Up]);
    // Another loss of the connection does not matter to it, and healthd's return ends it at once.
    subscriber.loses_healthd();
    assert_eq!(subscriber.machine.source(), Source::OwnProbes);
    subscriber.hears(&[(1, Up), (2, Up)], Schedule::default());
    subscriber.probed.clear();
    subscriber.run(seconds(100));
    assert_eq!(subscriber.states(&[1, 2]), [Up, Up]);
    assert!(subscriber.probed.is_empty() && subscriber.machine.next_deadline().is_none());
}

#[test]
fn a_healthd_that_was_never_there_is_replaced_too() {
    let mut subscriber = Subscriber::new(&[1, 2]);
    subscriber.open = [2].into();
    subscriber.run(AFTER + Duration::from_millis(1));
    let found = subscriber.states(&[1, 2]);
    assert_eq!(found, [Liveness::Down, Liveness::Up]);
}

#[test]
fn schedules_and_decisions_of_operators_are_those_that_healthd_said_last() {
    let slow = Schedule {
        interval: seconds(30),
        fall: 4,
        ..Schedule::default()
    };
    let mut subscriber = Subscriber::new(&[1, 2]);
    subscriber.hears(&[(1, Liveness::Up), (2, Liveness::Up)], slow);
    let mut shown = Snapshot::clone(&subscriber.shown);
    if let Some(status) = shown.targets.get_mut(&target(2)) {
        status.admin = AdminState::Maintenance;
    }
    subscriber.shown = Arc::new(shown);
    subscriber.loses_healthd();
    subscriber.open = [2].into();
    subscriber.run(AFTER + Duration::from_millis(350));
    // Three of the four results that it takes.
    let of_first = subscriber.probed.iter().filter(|port| **port == 1).count();
    let states = subscriber.states(&[1, 2]);
    assert_eq!((of_first, states), (2, vec![Liveness::Up, Liveness::Down]));
    subscriber.run(seconds(1));
    assert_eq!(subscriber.states(&[1]), [Liveness::Down]);
    let status = subscriber.shown.status(&target(2)).cloned().unwrap();
    assert_eq!(
        (status.liveness, status.admin, status.schedule),
        (Liveness::Up, AdminState::Maintenance, slow)
    );
    // The one that is as it was is probed no more often.
    subscriber.probed.clear();
    subscriber.run(seconds(90));
    let of_second = subscriber.probed.iter().filter(|port| **port == 2).count();
    assert!((2..=4).contains(&of_second), "{of_second}");
}

#[test]
fn a_result_of_an_earlier_stand_in_has_no_effect() {
    let mut subscriber = Subscriber::new(&[1]);
    subscriber.run(AFTER);
    let shown = Arc::clone(&subscriber.shown);
    subscriber.machine.advance(|| shown, subscriber.now);
    let (late, _) = subscriber.machine.poll(subscriber.now).expect("a probe");
    subscriber.hears(&[(1, Liveness::Unknown)], Schedule::default());
    subscriber.loses_healthd();
    subscriber.run(AFTER);
    let shown = Arc::clone(&subscriber.shown);
    subscriber.machine.advance(|| shown, subscriber.now);
    let first = subscriber.machine.take_snapshot().expect("the last states");
    assert_eq!(first.liveness(&target(1)), Liveness::Unknown);
    subscriber.machine.finish(late, found(true), subscriber.now);
    assert!(subscriber.machine.take_snapshot().is_none());
    let (current, _) = subscriber.machine.poll(subscriber.now).expect("a probe");
    subscriber
        .machine
        .finish(current, found(false), subscriber.now);
    let second = subscriber.machine.take_snapshot().expect("a result");
    assert_eq!(second.liveness(&target(1)), Liveness::Down);
}

#[test]
fn targets_beyond_the_bound_are_unknown_and_named_and_others_come_in_time() {
    let ports: Vec<u16> = (1..=10).collect();
    let mut subscriber = Subscriber::new(&ports);
    subscriber.open = ports.iter().copied().collect();
    subscriber.run(AFTER + seconds(1));
    assert_eq!(subscriber.machine.n_targets(), (8, 2));
    assert_eq!(
        subscriber.states(&[8, 9, 10]),
        [Liveness::Up, Liveness::Unknown, Liveness::Unknown]
    );
    let status = subscriber.shown.status(&target(10));
    assert!(status.is_some_and(|status| status.reason.contains("8 targets")));
    // The subscriber needs others, which are probed at once.
    subscriber
        .machine
        .set_targets(watched(&[9, 10]), subscriber.now);
    subscriber.run(Duration::from_millis(1));
    assert_eq!(subscriber.machine.n_targets(), (2, 0));
    assert_eq!(subscriber.states(&[9, 10]), [Liveness::Up, Liveness::Up]);
    assert_eq!(subscriber.shown.targets.len(), 2);
}

#[test]
fn a_failed_connection_has_a_target_probed_at_once_only_while_healthd_is_replaced() {
    let mut subscriber = Subscriber::new(&[1]);
    subscriber.open = [1].into();
    let now = subscriber.now;
    assert!(!subscriber.machine.report(&target(1), false, now));
    subscriber.run(AFTER + seconds(3));
    let now = subscriber.now;
    assert!(subscriber.machine.report(&target(1), false, now));
    assert!(!subscriber.machine.report(&target(1), true, now));
    subscriber.open.clear();
    subscriber.run(Duration::from_millis(300));
    assert_eq!(subscriber.states(&[1]), [Liveness::Down]);
}
