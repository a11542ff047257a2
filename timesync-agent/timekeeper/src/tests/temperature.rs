//! A crystal that the temperature changes, and a thermometer that tells of it.

use super::*;

/// By how much true time gains on the crystal, in seconds, and by how much more once it is warm.
const CRYSTAL: f64 = 10e-6;
const WARM: f64 = 3e-6;
/// When it becomes warm, and cool again.
const WARM_FROM: f64 = 3000.0;
const WARM_UNTIL: f64 = 4000.0;

/// True time less raw time.
fn truth(seconds: f64) -> f64 {
    let warm = seconds.clamp(WARM_FROM, WARM_UNTIL) - WARM_FROM;
    CRYSTAL * seconds + WARM * warm
}

/// The worst error of the clock after the crystal became warm, and the clock in the end.
fn worst(is_told: bool) -> (f64, Bench) {
    let mut bench = Bench::new(&settings());
    bench.add(0, SelectOptions::default());
    let mut worst: f64 = 0.0;
    let start = bench.raw;
    let mut seconds = 0.0;
    while seconds < 5000.0 {
        bench.hear(0, truth(seconds), |_| {});
        if is_told {
            let is_warm = (WARM_FROM..WARM_UNTIL).contains(&seconds);
            let ppm = if is_warm { WARM * 1e6 } else { 0.0 };
            bench.timekeeper.temper(ppm, bench.now());
            bench.drain();
        }
        // An interval is a multiple of it, so that the crystal changes when a sample is taken.
        bench.pass(8.0);
        seconds = Span(bench.raw - start).seconds();
        if seconds > WARM_FROM {
            worst = worst.max((bench.offset() - truth(seconds)).abs());
        }
    }
    (worst, bench)
}

#[test]
fn a_temperature_that_is_told_moves_nothing() {
    let (without, _) = worst(false);
    let (with, bench) = worst(true);
    assert!(without > 10e-6, "the crystal does change: {without}");
    assert!(with < without / 20.0, "{with} {without}");
    let frequency = bench.timekeeper.tracking(bench.now()).frequency;
    assert!((frequency + CRYSTAL * 1e6).abs() < 0.01, "{frequency}");
}

#[test]
fn what_is_kept_is_the_crystal_without_its_temperature() {
    let (_, mut bench) = worst(true);
    bench.timekeeper.temper(5.0, bench.now());
    bench.drain();
    assert!((bench.rate - CRYSTAL - 5e-6).abs() < 1e-8, "{}", bench.rate);
    let frequency = bench.timekeeper.frequency();
    assert!((frequency - CRYSTAL - 5e-6).abs() < 1e-8, "{frequency}");
    let drift = bench.timekeeper.drift().unwrap();
    assert!((drift.ppm + 10.0).abs() < 0.01, "{drift:?}");
    // A source that is asked from here on begins with it, too.
    bench.add(1, SelectOptions::default());
    bench.timekeeper.temper(0.0, bench.now());
    bench.drain();
    assert!((bench.rate - CRYSTAL).abs() < 1e-8, "{}", bench.rate);
}
