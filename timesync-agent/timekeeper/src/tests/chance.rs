//! Whatever comes, by seeds.

use super::*;
use crate::filter::Filter;

/// Sources that lie, jump, come and go, with any delay: nothing becomes infinite, time does not go back, and no step comes after the
/// limit.
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
            assert!(bench.steps.len() <= 3, "{what}: {:?}", bench.steps);
            let poll = bench.timekeeper.advise_poll(SourceId(id));
            assert!((4..=6).contains(&poll), "{what}: {poll}");
        }
    }
}

/// The RMS of the error of the estimate from sample 300 on, of samples in 16 s each; sample 100 has a stamp that is late by this.
fn error_after(late: f64) -> f64 {
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
            let (there, back) = (random.exponential() * 1e-5, random.exponential() * 1e-5);
            let wrong = if index == 100 { late } else { 0.0 };
            let truth = -clock.offset(now);
            let ahead = Span::from_seconds(truth + (there - back - wrong) / 2.0);
            let delay = 1e-4 + there + back - wrong;
            filter.sample(reading.raw, ahead.0, delay, 1e-7);
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
    let usual = error_after(0.0);
    for late in [35e-6, 70e-6] {
        let after = error_after(late);
        assert!(
            after < 1.3 * usual,
            "{late}: {after} after, {usual} without"
        );
    }
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
