//! Whatever comes, by seeds.

use super::*;
use crate::filter::Filter;

/// Sources that lie, jump, come and go, with any delay: nothing becomes infinite, time does not go back, and no step comes after the
/// limit, which begins again once with the first majority.
#[test]
fn sim_nothing_that_sources_say_breaks_the_clock() {
    let seeds = std::env::var("SIM_SEEDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(24);
    let first = std::env::var("SIM_SEED").ok().and_then(|n| n.parse().ok());
    let seeds = first.map_or(0..seeds, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let mut random = Random::new(seed);
        let mut bench = Bench::new(&settings());
        let n = 1 + u32::try_from(random.bits() % 4).unwrap();
        // makestep's three. A single source is the majority of all from its first sample on; several may step the clock three
        // times without one, when their first burst is over.
        let most_steps = if n == 1 { 3 } else { 2 * 3 };
        for id in 0..n {
            bench.add(id, SelectOptions::default());
        }
        for step in 0..300 {
            let what = format!("seed {seed} step {step}");
            let id = u32::try_from(random.bits() % u64::from(n)).unwrap();
            let size = 10_f64.powf(random.uniform() * 12.0 - 9.0);
            let ahead = size * random.normal();
            let delay = 10_f64.powf(random.uniform() * 9.0 - 7.0);
            let stratum = u8::try_from(random.bits() % 18).unwrap();
            bench.hear(id, ahead, |sample| {
                sample.delay = delay;
                sample.stratum = stratum;
                sample.dispersion = delay * 0.01;
            });
            let now = bench.now();
            match random.bits() % 16 {
                0 => bench.timekeeper.reached(SourceId(id), 0, now),
                1 => bench.timekeeper.withdraw(SourceId(id), now),
                2 => bench.timekeeper.reset_source(None, now),
                3 => bench.timekeeper.reselect_now(now),
                _ => {}
            }
            bench.drain();
            bench.pass(10_f64.powf(random.uniform() * 5.0 - 2.0));
            let tracking = bench.timekeeper.tracking(bench.now());
            let numbers = [
                tracking.correction,
                tracking.frequency,
                tracking.skew,
                tracking.root_delay,
                tracking.root_dispersion,
                tracking.rms_offset,
                bench.rate,
            ];
            assert!(
                numbers.iter().all(|number| number.is_finite()),
                "{what}: {tracking:?}"
            );
            assert!(bench.rate.abs() < 0.7, "{what}: {}", bench.rate);
            assert!(bench.steps.len() <= most_steps, "{what}: {:?}", bench.steps);
            let poll = bench.timekeeper.advise_poll(SourceId(id));
            assert!((4..=6).contains(&poll), "{what}: {poll}");
        }
    }
}

/// The RMS of the error of the estimate from sample 300 on, of 500 samples in 16 s each. `more` is what the way there and the way back
/// take longer at a sample, and how late the stamp of the request is.
fn error_with(more: impl Fn(usize) -> (f64, f64, f64)) -> f64 {
    let (mut n, mut squares) = (0.0, 0.0);
    for seed in 0..4 {
        let mut random = Random::new(seed);
        let mut filter = Filter::new(None, None);
        let mut clock = LocalClock::new(0.0, 30e-6, 1e-9);
        let mut now = 0.0;
        for index in 0..500 {
            for _ in 0..16 {
                clock.run(1.0);
                now += 1.0;
                clock.wander(now, &mut random);
            }
            let reading = clock.reading();
            let (more_there, more_back, late) = more(index);
            let there = 5e-5 + more_there + random.exponential() * 1e-5;
            let back = 5e-5 + more_back + random.exponential() * 1e-5;
            let truth = -clock.offset(now);
            let ahead = Span::from_seconds(truth + (there - back - late) / 2.0);
            filter.sample(reading.raw, ahead.0, there + back - late, 1e-7);
            if index >= 300 {
                let estimate = filter.estimate(reading.raw).unwrap();
                let error = Span(filter.base()).seconds() + estimate.offset - truth;
                n += 1.0;
                squares += error * error;
            }
        }
    }
    f64::sqrt(squares / n)
}

#[test]
fn sim_one_round_trip_that_is_too_short_is_forgotten() {
    let usual = error_with(|_| (0.0, 0.0, 0.0));
    // One, and two.
    for last in [100, 101] {
        for late in [35e-6, 70e-6] {
            let wrong = |index| {
                if (100..=last).contains(&index) {
                    late
                } else {
                    0.0
                }
            };
            let after = error_with(|index| (0.0, 0.0, wrong(index)));
            assert!(
                after < 1.3 * usual,
                "{late} until {last}: {after} after, {usual} without"
            );
        }
    }
}

#[test]
fn sim_a_direction_that_becomes_longer_does_not_move_the_clock() {
    const MORE: f64 = 1e-3;
    let usual = error_with(|_| (0.0, 0.0, 0.0));
    // What each way takes longer before and after, and the greatest error in usual ones: a few samples say how long the detour is.
    let cases = [
        ("there", (0.0, 0.0), (MORE, 0.0), 8.0),
        ("back", (0.0, 0.0), (0.0, MORE), 8.0),
        (
            "one more than the other",
            (0.0, 0.0),
            (0.8 * MORE, 0.2 * MORE),
            8.0,
        ),
        ("both", (0.0, 0.0), (MORE, MORE), 2.0),
        ("there is shorter", (MORE, 0.0), (0.0, 0.0), 2.0),
        ("both are shorter", (MORE, MORE), (0.0, 0.0), 2.0),
    ];
    for (name, before, after, most) in cases {
        let error = error_with(|index| {
            let (there, back) = if index < 150 { before } else { after };
            (there, back, 0.0)
        });
        assert!(error < most * usual, "{name}: {error}, {usual} without");
    }
    // There and home again, seven times: nothing adds up.
    let error = error_with(|index| (if index / 60 % 2 == 1 { MORE } else { 0.0 }, 0.0, 0.0));
    assert!(error < 8.0 * usual, "to and fro: {error}, {usual} without");
}

#[test]
fn sim_the_estimate_is_as_good_as_it_says() {
    let (mut n, mut inside) = (0, 0);
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let mut filter = Filter::new(None, None);
        let mut clock = LocalClock::new(0.0, 30e-6, 1e-9);
        let mut now = 0.0;
        for index in 0..120 {
            for _ in 0..16 {
                clock.run(1.0);
                now += 1.0;
                clock.wander(now, &mut random);
            }
            let reading = clock.reading();
            let (there, back) = (random.exponential() * 1e-4, random.exponential() * 1e-4);
            // True time less raw time, which is what the wall clock of a perfect one would show.
            let truth = -clock.offset(now);
            let ahead = Span::from_seconds(truth + (there - back) / 2.0);
            filter.sample(reading.raw, ahead.0, 2e-4 + there + back, 1e-7);
            if index > 10 {
                let estimate = filter.estimate(reading.raw).unwrap();
                let offset = Span(filter.base()).seconds() + estimate.offset;
                let error = (offset - truth).abs();
                n += 1;
                inside += u32::from(error < 2.0 * estimate.offset_variance.sqrt());
            }
        }
    }
    // Of a normal distribution 95 % are within two deviations.
    assert!(inside * 100 > n * 85, "{inside} of {n}");
}
