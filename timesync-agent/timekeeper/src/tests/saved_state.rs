//! A process that takes over from another.

use super::*;
use time_model::settings::Local;

/// Another process on the machine of `bench`, whose clock runs on as it was left.
fn succeed(bench: &mut Bench, settings: &Settings, pause: f64) -> Option<SavedState> {
    let state = bench.timekeeper.saved_state(bench.now());
    // The kernel goes on with the frequency alone.
    if let Some(drift) = bench.timekeeper.drift() {
        bench.rate = -drift.ppm * 1e-6;
    }
    let passed = Span::from_seconds(pause).0;
    bench.ahead += bench.rate * passed as f64;
    bench.raw += passed;
    bench.timekeeper = Timekeeper::new(settings, None, bench.now());
    state
}

fn synchronised(settings: &Settings) -> Bench {
    let mut bench = Bench::new(settings);
    bench.add(1, SelectOptions::default());
    // The crystal loses 20 ppm, and the clock began 3 ms behind.
    let begin = bench.raw;
    for _ in 0..60 {
        let ahead = 0.003 + 20e-6 * (bench.raw - begin) as f64 * 1e-9;
        bench.hear(1, ahead, |sample| sample.root_delay = 0.004);
        bench.pass(16.0);
    }
    assert_eq!(bench.timekeeper.state(bench.now()), ClockState::Locked);
    bench
}

#[test]
fn an_heir_is_synchronised_from_the_first_moment_and_less_sure_with_time() {
    let settings = settings();
    let mut bench = synchronised(&settings);
    let left = bench.timekeeper.reference(bench.now());
    let expected = bench.timekeeper.time_at(bench.now().raw).unwrap();
    let at = bench.now();
    let state = succeed(&mut bench, &settings, 1.5).expect("there is time to give");
    let now = bench.now();
    assert!(!bench.timekeeper.reference(now).is_synchronised());
    assert_eq!(
        state.reference(&settings, false, now).stratum,
        2,
        "before there is an heir"
    );
    assert!(bench.timekeeper.inherit(&state, now));
    bench.drain();
    assert!(matches!(bench.notes.last(), Some(Note::Inherited { .. })));
    let told = bench.timekeeper.reference(now);
    assert!(told.is_synchronised());
    assert_eq!(
        (told.stratum, told.reference_id, told.reference_time),
        (left.stratum, left.reference_id, left.reference_time)
    );
    assert!((told.root_delay - left.root_delay).abs() < 1e-12);
    let grown = told.root_dispersion - left.root_dispersion_at(now.wall);
    assert!(grown.abs() < 1e-6, "{grown}");
    assert!(told.root_dispersion > left.root_dispersion);
    // The same time, gone on at the frequency that was learned.
    let gained = (bench.timekeeper.time_at(now.raw).unwrap() - expected).seconds();
    let passed = (now.raw - at.raw).seconds() * (1.0 + 20e-6);
    assert!((gained - passed).abs() < 1e-6, "{gained} {passed}");
    assert!((bench.rate - 20e-6).abs() < 1e-7, "{}", bench.rate);
    assert_eq!(bench.timekeeper.state(now), ClockState::Holdover);
    // Nobody answers: as with any source that is gone.
    bench.pass(100.0);
    let later = bench.timekeeper.reference(bench.now());
    let grown = later.root_dispersion - told.root_dispersion;
    assert!((100e-6..1e-3).contains(&grown), "{grown}");
}

#[test]
fn an_heir_that_hears_its_source_goes_on_without_a_step() {
    let mut settings = settings();
    settings.clock.makestep = Some(MakeStep {
        threshold: 1e-6,
        limit: Some(3),
    });
    let mut bench = synchronised(&settings);
    let n_steps = bench.steps.len();
    let begin = bench.now();
    let before = bench.timekeeper.time_at(begin.raw).unwrap();
    let state = succeed(&mut bench, &settings, 2.0).unwrap();
    assert!(bench.timekeeper.inherit(&state, bench.now()));
    bench.add(1, SelectOptions::default());
    // What it hears is half a millisecond off.
    let true_ahead = |bench: &Bench| {
        let passed = (bench.now().raw - begin.raw).seconds();
        (before.0 - begin.raw.0) as f64 * 1e-9 + 20e-6 * passed + 500e-6
    };
    for _ in 0..6 {
        let ahead = true_ahead(&bench);
        bench.hear(1, ahead, |_| ());
        bench.pass(2.0);
    }
    assert_eq!(bench.timekeeper.state(bench.now()), ClockState::Locked);
    assert_eq!(bench.steps.len(), n_steps, "steps were used up before");
}

#[test]
fn what_is_old_or_of_another_clock_is_not_taken() {
    let settings = settings();
    let bench = synchronised(&settings);
    let now = bench.now();
    let state = bench.timekeeper.saved_state(now).unwrap();
    let later = |raw: i64, wall: i64| Reading {
        raw: now.raw + Span(raw),
        wall: now.wall + Span(wall),
    };
    for (then, is_taken) in [
        (later(0, 0), true),
        (later(300 * SECOND, 300 * SECOND), true),
        (later(301 * SECOND, 301 * SECOND), false),
        // Written by a machine that has started since.
        (later(-SECOND, SECOND), false),
        // It slept, or somebody set its clock.
        (later(SECOND, 60 * SECOND), false),
        (later(60 * SECOND, SECOND), false),
    ] {
        let mut heir = Timekeeper::new(&settings, None, then);
        assert_eq!(heir.inherit(&state, then), is_taken, "{then:?}");
        assert_eq!(heir.reference(then).is_synchronised(), is_taken);
    }
    assert_eq!(
        Timekeeper::new(&settings, None, now).saved_state(now),
        None,
        "there is nothing to leave"
    );
}

#[test]
fn nonsense_is_refused_whatever_it_says() {
    let settings = settings();
    let bench = synchronised(&settings);
    let now = bench.now();
    let state = bench.timekeeper.saved_state(now).unwrap();
    let text = serde_json::to_value(state).unwrap();
    let mut dice = Random::new(7);
    let numbers = [-1e300, -1.0, 0.0, 1e-300, 0.7, 1e300];
    let places = [
        "/raw",
        "/started",
        "/frequency/0",
        "/frequency/1",
        "/lead/frequency",
        "/lead/deviation",
        "/lead/delay",
        "/lead/dispersion",
        "/lead/stratum",
        "/lead/ahead",
        "/lead/at",
        "/lead/raw",
    ];
    let mut values: Vec<serde_json::Value> = numbers.map(Into::into).into();
    values.extend([i64::MIN, i64::MAX].map(Into::into));
    let mut pick = |n: usize| usize::try_from(dice.bits() % n as u64).unwrap();
    for step in 0..2000 {
        let mut odd = text.clone();
        let place = places[pick(places.len())];
        *odd.pointer_mut(place).unwrap() = values[pick(values.len())].clone();
        let Ok(odd) = serde_json::from_value::<SavedState>(odd) else {
            continue;
        };
        let mut heir = Timekeeper::new(&settings, None, now);
        heir.inherit(&odd, now);
        let told = heir.reference(now);
        assert!(
            told.root_dispersion >= 0.0 && !told.root_dispersion.is_nan(),
            "step {step}: {told:?} by {odd:?}"
        );
        assert!(told.stratum <= 16);
    }
}

#[test]
fn an_island_keeps_its_leader_while_it_is_replaced() {
    let mut settings = settings();
    settings.local = Some(Local {
        orphan: true,
        wait_unsynchronised: 300.0,
        ..Local::default()
    });
    let mut bench = Bench::new(&settings);
    bench.pass(301.0);
    assert_eq!(bench.timekeeper.state(bench.now()), ClockState::Local);
    let state = succeed(&mut bench, &settings, 1.0).expect("it gives its own time");
    assert_eq!(
        bench.timekeeper.state(bench.now()),
        ClockState::Unsynchronised
    );
    assert!(bench.timekeeper.inherit(&state, bench.now()));
    assert_eq!(bench.timekeeper.state(bench.now()), ClockState::Local);
    assert_eq!(bench.timekeeper.reference(bench.now()).stratum, 10);
    // And an heir without a time of its own to give does not.
    let mut heir = Timekeeper::new(&Settings::default(), None, bench.now());
    heir.inherit(&state, bench.now());
    assert_eq!(heir.state(bench.now()), ClockState::Unsynchronised);
}

#[test]
fn a_follower_of_an_island_does_not_claim_to_lead_it_before_it_has_listened() {
    let mut settings = settings();
    settings.local = Some(Local {
        orphan: true,
        ..Local::default()
    });
    let mut bench = Bench::new(&settings);
    bench.add(1, SelectOptions::default());
    for _ in 0..8 {
        bench.hear(1, 0.0, |sample| {
            sample.stratum = 10;
            sample.local_reference_id = SERVER + 9;
        });
        bench.pass(16.0);
    }
    assert_eq!(bench.timekeeper.reference(bench.now()).stratum, 11);
    let state = succeed(&mut bench, &settings, 1.0).unwrap();
    // A process that knows nothing leads at once.
    let stratum = |bench: &Bench| bench.timekeeper.reference(bench.now()).stratum;
    assert_eq!(stratum(&bench), 10);
    assert!(bench.timekeeper.inherit(&state, bench.now()));
    assert_eq!(stratum(&bench), 11);
    bench.pass(7.0);
    assert_eq!(stratum(&bench), 11);
    bench.pass(2.0);
    assert_eq!(stratum(&bench), 10, "nobody answered");
}
