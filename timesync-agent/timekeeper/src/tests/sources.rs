//! Who is followed.

use super::*;

#[test]
fn the_root_distance_of_a_source_counts_the_whole_path() {
    // Delay, dispersion, root delay and root dispersion in seconds, and what chronyd makes of them.
    let table = [
        ([0.0, 1e-9, 0.0, 0.0], 1e-9),
        ([1e-3, 1e-7, 0.0, 0.0], 5.001e-4),
        ([0.0, 2e-4, 0.0, 0.0], 2e-4),
        ([0.0, 1e-6, 4.0, 0.0], 2.000_001),
        ([0.0, 1e-6, 0.0, 4.0], 4.000_001),
        ([1e-3, 2e-4, 4.0, 4.0], 6.0007),
        ([0.04, 1e-6, 0.016, 0.001], 0.029_001),
    ];
    for ([delay, dispersion, root_delay, root_dispersion], expected) in table {
        let mut bench = Bench::new(&settings());
        bench.add(0, SelectOptions::default());
        bench.hear(0, 0.0, |sample| {
            *sample = Sample {
                delay,
                dispersion,
                root_delay,
                root_dispersion,
                ..*sample
            };
        });
        let mut view = SourceView::default();
        bench.timekeeper.source(SourceId(0), bench.now(), &mut view);
        let difference = (view.root_distance - expected).abs();
        assert!(difference < 1e-12, "{expected}: {}", view.root_distance);
    }
}

#[test]
fn the_majority_decides_and_the_options_do() {
    let of = |options: [SelectOptions; 3], ahead: [f64; 3]| {
        let mut bench = Bench::new(&settings());
        for (id, options) in (0..).zip(options) {
            bench.add(id, options);
        }
        for _ in 0..6 {
            for (id, ahead) in (0..).zip(ahead) {
                bench.hear(id, ahead, |_| ());
                bench.pass(0.1);
            }
            bench.pass(16.0);
        }
        let states = [0, 1, 2].map(|id| bench.state(id));
        (bench, states)
    };
    let usual = SelectOptions::default();
    let (bench, states) = of([usual; 3], [0.3, 0.0, 0.0]);
    assert_eq!(states[0], SourceState::Falseticker);
    assert!(bench.offset().abs() < 1e-3, "{}", bench.offset());

    let trusted = SelectOptions {
        trust: true,
        ..usual
    };
    let (bench, states) = of([trusted, usual, usual], [0.3, 0.0, 0.0]);
    assert_eq!(
        states,
        [
            SourceState::Best,
            SourceState::Falseticker,
            SourceState::Falseticker
        ]
    );
    assert!((bench.offset() - 0.3).abs() < 1e-3, "{}", bench.offset());

    let preferred = SelectOptions {
        prefer: true,
        ..usual
    };
    let (_, states) = of([usual, preferred, usual], [0.0; 3]);
    assert_eq!(
        states,
        [
            SourceState::Outlier,
            SourceState::Best,
            SourceState::Outlier
        ]
    );

    let ignored = SelectOptions {
        noselect: true,
        ..usual
    };
    let (bench, states) = of([ignored, ignored, usual], [0.3, 0.3, 0.0]);
    assert_eq!(
        states,
        [
            SourceState::Unselectable,
            SourceState::Unselectable,
            SourceState::Best
        ]
    );
    assert!(bench.offset().abs() < 1e-3);

    let required = SelectOptions {
        require: true,
        ..usual
    };
    let (bench, states) = of([required, usual, usual], [0.3, 0.0, 0.0]);
    assert!(!states.contains(&SourceState::Best), "{states:?}");
    assert_eq!(bench.timekeeper.tracking(bench.now()).n_updates, 0);

    let (bench, states) = of([ignored, usual, usual], [0.0, 0.0, 0.3]);
    assert_eq!(states[1..], [SourceState::Falseticker; 2], "no majority");
    assert!(bench.notes.contains(&Note::NoMajority));
}

#[test]
fn too_few_sources_are_not_followed() {
    let mut settings = settings();
    settings.selection.min_sources = 2;
    let mut bench = Bench::new(&settings);
    bench.add(0, SelectOptions::default());
    bench.hear(0, 0.5, |_| ());
    assert_eq!(bench.state(0), SourceState::Outlier);
    assert!(bench.notes.contains(&Note::TooFewSources { n_agreeing: 1 }));
    bench.add(1, SelectOptions::default());
    bench.hear(1, 0.5, |_| ());
    bench.pass(10.0);
    assert!((bench.offset() - 0.5).abs() < 2e-3);
}

#[test]
fn a_source_that_is_far_or_has_no_time_is_of_no_use() {
    let changes: [fn(&mut Sample); 4] = [
        |sample| sample.root_dispersion = 3.1,
        |sample| sample.root_delay = 6.1,
        |sample| sample.stratum = 16,
        |sample| sample.leap = Leap::Unsynchronised,
    ];
    for change in changes {
        let mut bench = Bench::new(&settings());
        bench.add(0, SelectOptions::default());
        bench.hear(0, 0.5, change);
        assert_eq!(bench.state(0), SourceState::Unselectable);
        assert_eq!(
            bench.timekeeper.state(bench.now()),
            ClockState::Unsynchronised
        );
    }
}

#[test]
fn a_source_that_is_not_reached_or_follows_us_leads_no_more() {
    let mut bench = Bench::new(&settings());
    bench.add(0, SelectOptions::default());
    bench.hear(0, 0.0, |_| ());
    bench.timekeeper.reached(SourceId(0), 0, bench.now());
    bench.drain();
    assert_eq!(bench.timekeeper.state(bench.now()), ClockState::Holdover);
    bench.pass(16.0);
    bench.hear(0, 0.0, |_| ());
    assert_eq!(bench.state(0), SourceState::Best);
    bench.timekeeper.withdraw(SourceId(0), bench.now());
    assert_eq!(bench.timekeeper.leading(), None);
    assert!(bench.notes.contains(&Note::Holdover));
}

#[test]
fn choosing_anew_forgets_who_leads_and_not_what_time_it_is() {
    let mut settings = settings();
    settings.local = Some(Local {
        stratum: 8,
        ..Local::default()
    });
    let mut bench = Bench::new(&settings);
    bench.add(0, SelectOptions::default());
    bench.hear(0, 0.0, |_| ());
    bench.notes.clear();
    bench.timekeeper.reselect_now(bench.now());
    bench.drain();
    assert_eq!(bench.notes, [Note::Selected(SourceId(0))]);
    // Nobody can be chosen: the clock runs on as before.
    bench.timekeeper.reached(SourceId(0), 0, bench.now());
    bench.timekeeper.reselect_now(bench.now());
    bench.pass(600.0);
    assert_eq!(bench.timekeeper.state(bench.now()), ClockState::Holdover);
    let reference = bench.timekeeper.reference(bench.now());
    assert_eq!((reference.stratum, reference.reference_id), (2, SERVER));
}

#[test]
fn delays_beyond_the_configured_ratio_are_no_samples() {
    let mut bench = Bench::new(&settings());
    let options = Weighing {
        max_delay_ratio: Some(2.0),
        ..Weighing::default()
    };
    bench.timekeeper.add_source(SourceId(0), SERVER, options);
    for _ in 0..5 {
        bench.hear(0, 0.0, |_| ());
        bench.pass(16.0);
    }
    assert_eq!(
        bench.hear(0, 0.0, |sample| sample.delay = 2.1e-3),
        Verdict::DelayRatio
    );
    bench.pass(16.0);
    assert_eq!(bench.hear(0, 0.0, |_| ()), Verdict::Good);
    assert_eq!(
        bench.hear(0, 0.0, |_| ()),
        Verdict::Disordered,
        "the same moment again"
    );
    bench.pass(1.0);
    assert_eq!(
        bench.hear(0, 0.0, |sample| sample.delay = f64::NAN),
        Verdict::Disordered
    );
    assert_eq!(bench.hear(9, 0.0, |_| ()), Verdict::Unknown);
}

/// A source with such options, of which a few samples are known.
fn known_by_samples(options: Weighing) -> Bench {
    let mut bench = Bench::new(&settings());
    bench.timekeeper.add_source(SourceId(0), SERVER, options);
    for _ in 0..16 {
        assert_eq!(bench.hear(0, 0.0, |_| ()), Verdict::Good);
        bench.pass(64.0);
    }
    bench
}

/// Round trips from here on; true if one of them is admitted.
fn admits(bench: &mut Bench, n: usize, delay: f64) -> bool {
    (0..n).any(|_| {
        bench.pass(64.0);
        bench.hear(0, 0.0, |sample| sample.delay = delay) == Verdict::Good
    })
}

#[test]
fn a_way_that_has_become_longer_is_not_shut_for_good() {
    let ratio = |ratio| Weighing {
        max_delay_ratio: Some(ratio),
        ..Weighing::default()
    };
    let mut bench = known_by_samples(ratio(2.0));
    assert!(!admits(&mut bench, 3, 5e-3), "it is too long");
    assert!(admits(&mut bench, 100, 5e-3), "it is all there is");
    let quantile = Weighing {
        max_delay_quantile: Some(0.2),
        ..Weighing::default()
    };
    let mut bench = known_by_samples(quantile);
    assert!(!admits(&mut bench, 3, 5e-3), "it is too long");
    assert!(admits(&mut bench, 100, 5e-3), "it is all there is");
}

#[test]
fn a_ratio_below_one_is_none_and_mindelay_is_what_it_is_of() {
    let options = |ratio, min_delay| Weighing {
        max_delay_ratio: Some(ratio),
        min_delay,
        ..Weighing::default()
    };
    for (options, is_admitted) in [
        (options(0.5, None), true),
        (options(1.0, None), false),
        (options(5.0, None), true),
        (options(5.0, Some(5e-4)), false),
    ] {
        let mut bench = known_by_samples(options.clone());
        assert_eq!(admits(&mut bench, 1, 4e-3), is_admitted, "{options:?}");
    }
}

#[test]
fn the_quantile_is_one_of_all_round_trips_and_not_of_those_that_were_short() {
    let mut bench = Bench::new(&settings());
    let options = Weighing {
        max_delay_quantile: Some(0.5),
        ..Weighing::default()
    };
    bench.timekeeper.add_source(SourceId(0), SERVER, options);
    let mut random = Random::new(5);
    let mut n_good = 0;
    for _ in 0..1000 {
        let delay = 1e-3 * (1.0 + random.normal().abs());
        let verdict = bench.hear(0, 0.0, |sample| sample.delay = delay);
        n_good += u32::from(verdict == Verdict::Good);
        bench.pass(16.0);
    }
    assert!((450..550).contains(&n_good), "{n_good} of 1000");
}

#[test]
fn a_reference_clock_with_noise_is_averaged() {
    let mut bench = Bench::new(&settings());
    let options = Weighing {
        mode: SourceMode::ReferenceClock,
        minpoll: 2,
        maxpoll: 4,
        ..Weighing::default()
    };
    bench
        .timekeeper
        .add_source(SourceId(0), 0x5050_5300, options);
    let mut random = Random::new(3);
    let (mut squares, mut n) = (0.0, 0.0);
    for index in 0..400 {
        let noise = 20e-6 * random.normal();
        bench.hear(0, 0.01 + noise, |sample| {
            sample.delay = 0.0;
            sample.stratum = 0;
        });
        bench.pass(4.0);
        if index > 100 {
            squares += (bench.offset() - 0.01).powi(2);
            n += 1.0;
        }
    }
    let rms = f64::sqrt(squares / n);
    assert!(rms < 10e-6, "half of the noise of a sample: {rms}");
    assert_eq!(bench.timekeeper.reference(bench.now()).stratum, 1);
    assert!(!bench.notes.contains(&Note::SourceReset(SourceId(0))));
}

#[test]
fn who_copies_a_source_says_what_it_says() {
    let mut bench = Bench::new(&settings());
    let options = Weighing {
        copy: true,
        ..Weighing::default()
    };
    bench.timekeeper.add_source(SourceId(0), SERVER, options);
    for _ in 0..4 {
        // Its own stratum is 3: the association takes one off for the way.
        bench.hear(0, 0.0, |sample| {
            (sample.stratum, sample.reference_id) = (2, 0x4750_5300);
        });
        bench.pass(16.0);
    }
    let reference = bench.timekeeper.reference(bench.now());
    assert_eq!(
        (reference.stratum, reference.reference_id),
        (3, 0x4750_5300)
    );
}

#[test]
fn a_frequency_that_is_far_off_is_learned() {
    for frequency in [5e-2, -5e-2, 5e-3, -5e-3] {
        let mut bench = Bench::new(&settings());
        bench.add(1, SelectOptions::default());
        let mut seconds = 0.0;
        for _ in 0..40 {
            // True time by the raw clock.
            bench.hear(1, seconds * frequency, |_| {});
            bench.pass(16.0);
            seconds += 16.0;
        }
        assert_eq!(bench.state(1), SourceState::Best, "{frequency}");
        let off = bench.ahead / 1e9 - seconds * frequency;
        assert!(off.abs() < 1e-4, "{frequency}: off by {off}");
        let learned = bench.timekeeper.frequency();
        assert!((learned - frequency).abs() < 1e-6, "{frequency}: {learned}");
    }
}
