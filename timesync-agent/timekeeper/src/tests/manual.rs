//! The time that an operator enters.

use super::*;

/// The clock that the operator reads gains so much on the raw clock, in a second.
const GAIN: f64 = -5e-5;

fn manual(makestep: bool) -> Bench {
    let mut settings = settings();
    settings.clock.manual = true;
    settings.clock.makestep = makestep.then_some(MakeStep {
        threshold: 1.0,
        limit: None,
    });
    Bench::new(&settings)
}

impl Bench {
    /// True time less wall time, if the operator's clock is `ahead` seconds ahead of the wall clock at the beginning.
    fn wrong(&self, ahead: f64) -> f64 {
        let since = (self.now().raw - RawTime(1000 * SECOND)).seconds();
        ahead + GAIN * since - self.offset()
    }

    /// The operator enters the time of a clock that is so much ahead of the wall clock, in seconds.
    fn enter(&mut self, ahead: f64) -> Result<Entered, NotEntered> {
        let now = self.now();
        let time = now.wall + Span::from_seconds(ahead);
        let entered = self.timekeeper.enter_time(time, now);
        self.drain();
        entered
    }

    fn entries(&self) -> Vec<ManualView> {
        self.timekeeper.manual_entries(self.now())
    }
}

fn near(value: f64, expected: f64, within: f64) {
    assert!((value - expected).abs() <= within, "{value} {expected}");
}

#[test]
fn a_time_is_taken_if_it_is_allowed_and_makes_sense() {
    let mut bench = Bench::new(&settings());
    assert_eq!(bench.enter(2.0), Err(NotEntered::Disabled));
    bench.timekeeper.enable_manual(true);
    let before_1970 = -2000.0;
    assert_eq!(bench.enter(before_1970), Err(NotEntered::Refused));
    assert_eq!(bench.enter(5e9), Err(NotEntered::Refused));
    let entered = bench.enter(2.0).unwrap();
    near(entered.offset, -2.0, 1e-6);
    near(entered.frequency_change, 0.0, 0.0);
    bench.pass(0.9);
    assert_eq!(bench.enter(2.0), Err(NotEntered::Refused), "too soon");
    bench.pass(0.2);
    bench.enter(0.0).unwrap();
    bench.timekeeper.enable_manual(false);
    bench.pass(2.0);
    assert_eq!(bench.enter(2.0), Err(NotEntered::Disabled));
    assert_eq!(bench.entries().len(), 2);
    bench.timekeeper.reset_manual();
    assert_eq!(bench.entries(), []);
}

#[test]
fn the_clock_is_stepped_where_makestep_says_so_and_else_slewed() {
    for (ahead, makestep, n_steps) in [(3600.0, true, 1), (0.5, true, 0), (3.0, false, 0)] {
        let mut bench = manual(makestep);
        bench.enter(ahead).unwrap();
        assert_eq!(bench.steps.len(), n_steps, "{ahead} {makestep}");
        bench.pass(60.0);
        near(bench.offset(), ahead, 1e-3);
        // No source stands behind it.
        assert!(!bench.timekeeper.reference(bench.now()).is_synchronised());
        assert!(!bench.status.unwrap().synchronised);
        let tracking = bench.timekeeper.tracking(bench.now());
        near(tracking.last_offset, ahead, 1e-6);
        assert_eq!((tracking.stratum, tracking.n_updates), (0, 1));
    }
}

#[test]
fn several_entries_give_the_frequency() {
    let mut bench = manual(true);
    let mut last = Entered::default();
    for _ in 0..20 {
        bench.pass(500.0);
        last = bench.enter(bench.wrong(10.0)).unwrap();
    }
    near(last.offset, 0.0, 1e-4);
    near(last.frequency, -GAIN * 1e6, 0.1);
    bench.pass(10_000.0);
    near(bench.wrong(10.0), 0.0, 1e-3);
    let entries = bench.entries();
    assert_eq!(entries.len(), 16, "the oldest have gone");
    for entry in &entries {
        near(entry.residual, 0.0, 1e-4);
        near(entry.offset, 0.0, 1e-3);
    }
    assert!(entries.is_sorted_by(|one, next| one.at < next.at));
    // The frequency is worth keeping, if not much.
    let drift = bench.timekeeper.drift().unwrap();
    near(drift.ppm, -GAIN * 1e6, 0.1);
    near(drift.skew, 1e6 / 7500.0, 1.0);
}

#[test]
fn a_wrong_entry_is_undone_by_its_deletion() {
    let mut bench = manual(true);
    for _ in 0..4 {
        bench.pass(500.0);
        bench.enter(bench.wrong(0.0)).unwrap();
    }
    bench.pass(500.0);
    let wrong = bench.wrong(0.0);
    let entered = bench.enter(wrong + 3600.0).unwrap();
    near(entered.offset, 0.0, 1e-3);
    near(bench.entries()[4].original_offset, -3600.0, 1e-3);
    near(bench.entries()[4].residual, -3600.0, 1e-3);
    bench.pass(10.0);
    near(bench.wrong(0.0), -3600.0, 0.1);
    let now = bench.now();
    assert!(!bench.timekeeper.delete_manual(5, now));
    assert!(bench.timekeeper.delete_manual(4, now));
    bench.drain();
    bench.pass(60.0);
    near(bench.wrong(0.0), 0.0, 0.01);
    assert_eq!(bench.entries().len(), 4);
    // Without any the clock stays as it is.
    for _ in 0..4 {
        let now = bench.now();
        assert!(bench.timekeeper.delete_manual(0, now));
        bench.drain();
    }
    assert!(!bench.timekeeper.delete_manual(0, bench.now()));
}

#[test]
fn a_source_that_speaks_leads_again() {
    let mut bench = manual(true);
    bench.add(0, SelectOptions::default());
    for _ in 0..4 {
        bench.hear(0, 0.0, |_| ());
        bench.pass(16.0);
    }
    assert!(bench.timekeeper.reference(bench.now()).is_synchronised());
    bench.enter(7.0).unwrap();
    assert_eq!(bench.timekeeper.leading(), None);
    bench.pass(16.0);
    bench.hear(0, 0.0, |_| ());
    assert_eq!(bench.timekeeper.leading(), Some(SourceId(0)));
    bench.pass(200.0);
    near(bench.offset(), 0.0, 1e-3);
}

#[test]
fn an_entry_beyond_maxchange_changes_nothing() {
    let mut settings = settings();
    settings.clock.manual = true;
    settings.clock.max_change = Some(MaxChange {
        offset: 100.0,
        delay: 0,
        ignore: Some(1),
    });
    let mut bench = Bench::new(&settings);
    bench.enter(200.0).unwrap();
    bench.pass(5.0);
    near(bench.offset(), 0.0, 0.0);
    assert!(!bench.gave_up);
    bench.enter(200.0).unwrap();
    assert!(bench.gave_up);
}

#[test]
fn an_operator_changes_frequency_and_offset() {
    let mut bench = manual(true);
    let now = bench.now();
    bench.timekeeper.change_frequency(100.0, now);
    bench.drain();
    near(bench.timekeeper.tracking(now).frequency, 100.0, 1e-6);
    bench.pass(100.0);
    near(bench.offset(), -0.01, 1e-6);
    bench.timekeeper.change_frequency(-100.0, bench.now());
    bench.drain();
    near(bench.timekeeper.tracking(now).frequency, 0.0, 0.02);
    for (fast, expected) in [(0.5, -0.51), (-2.0, 1.49)] {
        assert!(bench.timekeeper.change_offset(fast, bench.now()));
        bench.drain();
        near(bench.timekeeper.offset(bench.now()).unwrap(), -fast, 1e-4);
        bench.pass(120.0);
        near(bench.offset(), expected, 1e-3);
    }
    assert_eq!(bench.steps, [], "however large");
    for nonsense in [f64::NAN, f64::INFINITY, 5e9, 2e4] {
        assert!(!bench.timekeeper.change_offset(nonsense, bench.now()));
    }
}

#[test]
fn a_clock_that_is_let_alone_is_not_touched() {
    let mut bench = manual(true);
    bench.timekeeper.set_free_running(true);
    bench.enter(3.0).unwrap();
    near(bench.timekeeper.offset(bench.now()).unwrap(), 3.0, 1e-6);
    bench.pass(100.0);
    bench.timekeeper.change_frequency(10.0, bench.now());
    assert!(bench.timekeeper.change_offset(1.0, bench.now()));
    bench.drain();
    near(bench.timekeeper.offset(bench.now()).unwrap(), 2.0, 1e-6);
    bench.pass(100.0);
    bench.enter(bench.wrong(2.0)).unwrap();
    assert_eq!(bench.steps, []);
    near(bench.offset(), 0.0, 0.0);
}
