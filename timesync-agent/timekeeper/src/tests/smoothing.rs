//! Served time that changes slowly.

use super::super::smoothing::Smoothing;
use super::*;
use time_model::settings::{LeapMode, SmoothTime};

/// What chrony's manual has for a leap second.
const SMEAR: SmoothTime = SmoothTime {
    max_frequency: 400.0,
    max_wander: 0.001_024,
    leap_only: true,
};

fn active(settings: SmoothTime) -> Smoothing {
    let mut smoothing = Smoothing::new(Some(settings)).unwrap();
    smoothing.settle(0.0);
    smoothing
}

fn at(seconds: f64) -> RawTime {
    RawTime(0) + Span::from_seconds(seconds)
}

#[test]
fn a_leap_second_takes_as_long_as_chrony_says() {
    let mut smoothing = active(SMEAR);
    smoothing.moved(-1.0, 0.0, at(0.0));
    assert!((smoothing.left(at(0.0)) - 62_500.0).abs() < 1e-6);
    for (seconds, offset, rate) in [
        (0.0, 1.0, 0.0),
        (15_625.0, 0.875, 16e-6),
        (31_250.0, 0.5, 32e-6),
        (46_875.0, 0.125, 16e-6),
        (62_500.0, 0.0, 0.0),
        (1e6, 0.0, 0.0),
    ] {
        let moment = smoothing.at(at(seconds));
        assert!(
            (moment.offset - offset).abs() < 1e-9,
            "{seconds} {moment:?}"
        );
        assert!((moment.rate - rate).abs() < 1e-12, "{seconds} {moment:?}");
    }
    // A deleted one is the same the other way round.
    let mut smoothing = active(SMEAR);
    smoothing.moved(1.0, 0.0, at(0.0));
    let moment = smoothing.at(at(31_250.0));
    assert!((moment.offset + 0.5).abs() < 1e-9 && (moment.rate + 32e-6).abs() < 1e-12);
}

#[test]
fn whatever_happens_to_the_clock_what_is_served_keeps_its_limits() {
    for seed in 0..200 {
        let mut dice = Random::new(seed);
        let settings = SmoothTime {
            max_frequency: 1.0 + 500.0 * dice.uniform(),
            max_wander: 1e-3 + dice.uniform(),
            leap_only: false,
        };
        let (limit, wander) = (settings.max_frequency * 1e-6, settings.max_wander * 1e-6);
        let mut smoothing = active(settings);
        let mut now = 0.0;
        for step in 0..40 {
            let before = smoothing.at(at(now));
            let (offset, frequency) = (0.2 * dice.normal(), 1e-6 * dice.normal());
            smoothing.moved(offset, frequency, at(now));
            let after = smoothing.at(at(now));
            let context = format!("seed {seed} step {step} {smoothing:?}");
            assert!(
                (after.offset + offset - before.offset).abs() < 1e-12,
                "{context}"
            );
            assert!(
                (after.rate - frequency - before.rate).abs() < 1e-15,
                "{context}"
            );
            let bound = limit.max(after.rate.abs()) * (1.0 + 1e-9);
            let (whole, mut last) = (smoothing.left(at(now)), after);
            assert!(whole.is_finite(), "{context}");
            for part in 1..=50 {
                let seconds = whole / 50.0;
                let moment = smoothing.at(at(now + seconds * f64::from(part)));
                assert!(moment.rate.abs() <= bound, "{context}");
                let change = (moment.rate - last.rate).abs();
                assert!(
                    change <= wander * seconds * (1.0 + 1e-6) + 1e-12,
                    "{context}"
                );
                last = moment;
            }
            // In nanoseconds of the clock the last stage may end a little early.
            let end = smoothing.at(at(now + whole - 1e-6));
            assert!(
                end.offset.abs() < 1e-9 && end.rate.abs() < 1e-9,
                "{context} {end:?}"
            );
            now += whole * 1.2 * dice.uniform();
        }
    }
}

#[test]
fn chronyc_is_told_how_smooth_time_is() {
    let mut settings = Settings::default();
    let now = |seconds: f64| at(seconds);
    let mut bench = Timekeeper::new(&settings, None, Reading::default());
    assert_eq!(bench.smoothing(now(0.0)), None);
    assert!(!bench.reset_smoothing(now(0.0)) && !bench.activate_smoothing(now(0.0)));
    settings.clock.smoothtime = Some(SMEAR);
    bench.configure(&settings, Reading::default());
    let view = bench.smoothing(now(10.0)).unwrap();
    assert!(view.leap_only && !view.active, "the frequency is not known");
    assert!(bench.activate_smoothing(now(10.0)));
    bench.smear(
        Span(-SECOND),
        Reading {
            raw: now(100.0),
            ..Reading::default()
        },
    );
    let view = bench.smoothing(now(100.0 + 46_875.0)).unwrap();
    assert!(
        view.active && (view.offset - 0.125).abs() < 1e-9,
        "{view:?}"
    );
    assert!((view.frequency - 16.0).abs() < 1e-6 && (view.wander + 0.001_024).abs() < 1e-9);
    assert!((view.since - 46_875.0).abs() < 1e-6 && (view.left - 15_625.0).abs() < 1e-6);
    // Active already: nothing that is on its way jumps.
    assert!(bench.activate_smoothing(now(50_000.0)));
    assert!(bench.smoothing(now(50_000.0)).unwrap().offset > 0.0);
    assert!(bench.reset_smoothing(now(50_000.0)));
    let view = bench.smoothing(now(50_000.0)).unwrap();
    assert!(
        view.active && view.offset == 0.0 && view.left == 0.0,
        "{view:?}"
    );
}

#[test]
fn limits_of_nothing_are_none() {
    for (max_frequency, max_wander) in [(0.0, 1.0), (1.0, 0.0)] {
        let settings = SmoothTime {
            max_frequency,
            max_wander,
            leap_only: false,
        };
        assert!(Smoothing::new(Some(settings)).is_none());
    }
    assert!(Smoothing::new(None).is_none());
}

/// The largest jump of what is served, while the source itself jumps by 20 ms and is believed at last.
fn largest_jump(smoothtime: Option<SmoothTime>) -> (f64, Bench) {
    let mut settings = settings();
    settings.clock.makestep = None;
    settings.clock.smoothtime = smoothtime;
    let mut bench = Bench::new(&settings);
    bench.add(1, SelectOptions::default());
    let mut largest: f64 = 0.0;
    for round in 0..120 {
        let ahead = if round < 60 { 0.0 } else { 0.02 };
        let now = bench.now();
        let served = |bench: &Bench| bench.timekeeper.reference(now).time_at(now.wall);
        let before = served(&bench);
        bench.hear(1, ahead, |_| ());
        let jump = (served(&bench) - before).seconds().abs();
        if round > 30 {
            largest = largest.max(jump);
        }
        bench.pass(16.0);
    }
    (largest, bench)
}

#[test]
fn clients_do_not_see_a_correction_but_its_slow_end() {
    let (plain, _) = largest_jump(None);
    assert!(plain > 0.01, "{plain}");
    let (smeared, _) = largest_jump(Some(SMEAR));
    assert!(
        (smeared - plain).abs() < 1e-9,
        "leap seconds alone: {smeared}"
    );
    let slow = SmoothTime {
        max_frequency: 100.0,
        max_wander: 0.01,
        leap_only: false,
    };
    let (smooth, mut bench) = largest_jump(Some(slow));
    assert!(smooth < 1e-6, "{smooth}");
    let now = bench.now();
    let told = bench.timekeeper.reference(now);
    assert_eq!(told.reference_id, SMOOTHED_REFERENCE_ID);
    assert_eq!(bench.timekeeper.tracking(now).reference_id, SERVER + 1);
    // What another process takes over goes on where it was.
    let state = bench.timekeeper.saved_state(now).unwrap();
    let mut settings = settings();
    settings.clock.smoothtime = Some(slow);
    let heir = state.reference(&settings, false, now);
    let apart = (heir.time_at(now.wall) - told.time_at(now.wall)).seconds();
    assert!(apart.abs() < 1e-4, "{apart}");
    assert_eq!(heir.reference_id, SMOOTHED_REFERENCE_ID);
    bench.pass(3000.0);
    let told = bench.timekeeper.reference(bench.now());
    assert_eq!(told.reference_id, SERVER + 1, "it is over");
}

#[test]
fn a_leap_second_that_is_smeared_is_not_announced() {
    let mut settings = settings();
    settings.leap.mode = LeapMode::Slew;
    settings.clock.smoothtime = Some(SMEAR);
    settings.clock.max_slew_rate = 1000.0;
    let mut bench = Bench::new(&settings);
    bench.add(1, SelectOptions::default());
    // An hour before the end of 2016.
    let midnight = 1_483_228_800 * SECOND;
    bench.raw = midnight - 3600 * SECOND;
    let leaps = [(midnight - 47_304_000 * SECOND, 36), (midnight, 37)];
    let table = leaps.map(|(at, tai_offset)| LeapSecond {
        at: UnixTime(at),
        tai_offset,
    });
    bench.timekeeper.set_leap_table(&table, bench.now());
    let mut last: Option<(Reading, UnixTime)> = None;
    for _ in 0..800 {
        let now = bench.now();
        let is_over = now.raw.0 > midnight + 60 * SECOND;
        bench.hear(1, if is_over { -1.0 } else { 0.0 }, |sample| {
            sample.leap = if is_over { Leap::Normal } else { Leap::Insert };
        });
        let told = bench.timekeeper.reference(now);
        assert_eq!(told.leap, Leap::Normal);
        let served = told.time_at(now.wall);
        if let Some((then, before)) = last {
            let passed = (now.raw - then.raw).seconds();
            let rate = (served - before).seconds() / passed - 1.0;
            assert!(rate.abs() < 40e-6, "{rate} at {now:?}");
        }
        last = Some((now, served));
        bench.pass(16.0);
    }
    // Two and a half hours after it a twentieth is gone.
    let (now, served) = last.unwrap();
    let behind = (served.0 - now.raw.0) as f64 * 1e-9;
    let seconds = (now.raw.0 - midnight) as f64 * 1e-9;
    let expected = -0.5 * 1.024e-9 * seconds * seconds;
    assert!((behind - expected).abs() < 1e-3, "{behind} {expected}");
}
