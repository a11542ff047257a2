mod heir;
mod smoothing;
mod temperature;

use super::*;
use crate::settings::{FallbackDrift, MaxChange, SelectOptions};
use crate::simulation::oscillator::LocalClock;
use crate::simulation::random::Random;
use crate::time::SECOND;
use crate::view::{Leap, SourceMode};

const SERVER: u32 = 0x0A00_0001;

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.clock.makestep = Some(MakeStep {
        threshold: 1.0,
        limit: Some(3),
    });
    settings
}

/// A sample of a server whose clock shows `wall`, when the raw clock shows that of `now`.
fn sample(now: Reading, wall: UnixTime, delay: f64) -> Sample {
    Sample {
        at: now.raw,
        ahead: wall.0 - now.raw.0,
        delay,
        dispersion: 1e-7,
        stratum: 1,
        root_dispersion: 1e-6,
        reference_time: wall,
        ..Sample::default()
    }
}

/// A timekeeper and the clock that it corrects, without a network.
struct Bench {
    timekeeper: Timekeeper,
    raw: i64,
    /// Wall time less raw time, in nanoseconds.
    ahead: f64,
    rate: f64,
    steps: Vec<Span>,
    notes: Vec<Note>,
    gave_up: bool,
}

impl Bench {
    fn new(settings: &Settings) -> Self {
        let now = Reading::default();
        let mut bench = Self {
            timekeeper: Timekeeper::new(settings, None, now),
            raw: 1000 * SECOND,
            ahead: 0.0,
            rate: 0.0,
            steps: Vec::new(),
            notes: Vec::new(),
            gave_up: false,
        };
        bench.drain();
        bench
    }

    fn add(&mut self, id: u32, select: SelectOptions) {
        let options = Weighing {
            select,
            minpoll: 4,
            maxpoll: 6,
            ..Weighing::default()
        };
        self.timekeeper
            .add_source(SourceId(id), SERVER + id, options);
    }

    fn now(&self) -> Reading {
        Reading {
            raw: RawTime(self.raw),
            wall: UnixTime(self.raw) + Span::from_seconds(self.ahead / 1e9),
        }
    }

    fn drain(&mut self) {
        let now = self.now();
        while let Some(effect) = self.timekeeper.poll_effect() {
            match effect {
                Effect::SetRate(rate) => {
                    assert!(rate.is_finite() && rate > -1e9, "{rate}");
                    self.rate = rate * 1e-9;
                    self.timekeeper.applied(rate, now);
                }
                Effect::Step(span) => {
                    self.ahead += span.0 as f64;
                    self.steps.push(span);
                }
                Effect::Note(note) => self.notes.push(note),
                Effect::GiveUp(_) => self.gave_up = true,
                Effect::SetStatus(status) => assert!(status.max_error.is_finite()),
                Effect::SaveDrift(drift) => assert!(drift.ppm.is_finite() && drift.skew >= 0.0),
            }
        }
    }

    /// Time passes, timers and all. Wall time never goes back.
    fn pass(&mut self, seconds: f64) {
        let end = self.raw + Span::from_seconds(seconds).0;
        while self.raw < end {
            let timer = self.timekeeper.poll_timeout(self.now());
            let next = timer.map_or(end, |at| at.0.clamp(self.raw + 1, end));
            let before = self.now().wall;
            self.ahead += self.rate * (next - self.raw) as f64;
            self.raw = next;
            assert!(self.now().wall >= before, "time went back");
            if timer.is_some_and(|at| at.0 <= self.raw) {
                self.timekeeper.handle_timeout(self.now());
                self.drain();
            }
        }
    }

    /// A source says that true time is ahead of raw time by so many seconds.
    fn hear(&mut self, id: u32, ahead: f64, change: impl FnOnce(&mut Sample)) -> Verdict {
        let now = self.now();
        let wall = UnixTime(now.raw.0) + Span::from_seconds(ahead);
        let mut sample = sample(now, wall, 1e-3);
        change(&mut sample);
        let verdict = self.timekeeper.sample(SourceId(id), sample, now);
        self.drain();
        verdict
    }

    fn offset(&self) -> f64 {
        self.ahead / 1e9
    }

    fn state(&self, id: u32) -> SourceState {
        let mut view = SourceView::default();
        self.timekeeper.source(SourceId(id), self.now(), &mut view);
        view.state
    }
}

//--- Correcting

#[test]
fn the_first_good_sample_corrects_the_clock() {
    for (ahead, steps) in [(0.5, 0), (5.0, 1), (-3.0, 1)] {
        let mut bench = Bench::new(&settings());
        bench.add(0, SelectOptions::default());
        assert_eq!(bench.hear(0, ahead, |_| ()), Verdict::Good);
        assert_eq!(bench.steps.len(), steps, "{ahead}");
        bench.pass(20.0);
        assert!(
            (bench.offset() - ahead).abs() < 2e-3,
            "{ahead}: {}",
            bench.offset()
        );
    }
}

#[test]
fn after_its_limit_makestep_steps_no_more() {
    let mut bench = Bench::new(&settings());
    bench.add(0, SelectOptions::default());
    for _ in 0..3 {
        bench.hear(0, 0.0, |_| ());
        bench.pass(16.0);
    }
    // The server jumps by 3 s: four samples until that is believed, and then a slew.
    for _ in 0..10 {
        bench.hear(0, 3.0, |_| ());
        bench.pass(16.0);
    }
    assert_eq!(bench.steps, []);
    assert!((bench.offset() - 3.0).abs() < 1e-2, "{}", bench.offset());
    assert!(bench.notes.contains(&Note::SourceReset(SourceId(0))));
    bench.timekeeper.allow_steps(Some(MakeStep {
        threshold: 0.5,
        limit: Some(1),
    }));
    let verdicts: Vec<Verdict> = (0..10)
        .map(|_| {
            bench.pass(16.0);
            bench.hear(0, 5.0, |_| ())
        })
        .collect();
    assert_eq!(
        verdicts[..4],
        [Verdict::Contradiction; 3]
            .into_iter()
            .chain([Verdict::Good])
            .collect::<Vec<_>>()[..]
    );
    assert!(bench.steps.len() <= 1);
}

#[test]
fn slews_keep_to_maxslewrate() {
    let mut settings = settings();
    settings.clock.max_slew_rate = 500.0;
    let mut bench = Bench::new(&settings);
    bench.add(0, SelectOptions::default());
    bench.hear(0, 0.1, |_| ());
    assert!(bench.rate.abs() <= 501e-6, "{}", bench.rate);
    bench.pass(100.0);
    assert!((bench.offset() - 0.05).abs() < 1e-3, "{}", bench.offset());
    bench.pass(120.0);
    assert!((bench.offset() - 0.1).abs() < 1e-3, "{}", bench.offset());
    assert!(
        bench.rate.abs() < 1e-6,
        "the slew ends by itself: {}",
        bench.rate
    );
}

#[test]
fn maxchange_ignores_and_gives_up() {
    let mut settings = settings();
    settings.clock.makestep = None;
    settings.clock.max_change = Some(MaxChange {
        offset: 1.0,
        delay: 1,
        ignore: Some(2),
    });
    let mut bench = Bench::new(&settings);
    bench.add(0, SelectOptions::default());
    bench.hear(0, 0.0, |_| ());
    for _ in 0..12 {
        bench.pass(16.0);
        bench.hear(0, 7.0, |_| ());
    }
    let n_ignored = bench
        .notes
        .iter()
        .filter(|note| matches!(note, Note::ChangeIgnored(_)))
        .count();
    assert_eq!(n_ignored, 2);
    assert!(bench.gave_up);
    assert!(bench.offset().abs() < 1e-2);
}

#[test]
fn a_clock_that_is_let_alone_is_let_alone() {
    let mut bench = Bench::new(&settings());
    bench.timekeeper.set_free_running(true);
    bench.add(0, SelectOptions::default());
    for _ in 0..20 {
        bench.hear(0, 5.0, |_| ());
        bench.pass(16.0);
    }
    assert!(bench.steps.is_empty() && bench.rate.abs() < 1e-12);
    let now = bench.now();
    let reference = bench.timekeeper.reference(now);
    assert!((reference.offset - 5.0).abs() < 1e-3);
    let served = reference.time_at(now.wall);
    assert!(((served - now.wall).seconds() - 5.0).abs() < 1e-3);
    assert_eq!(reference.stratum, 2);
}

#[test]
fn what_is_left_of_a_slew_is_served_already() {
    let mut bench = Bench::new(&settings());
    bench.add(0, SelectOptions::default());
    bench.hear(0, 0.8, |_| ());
    let reference = bench.timekeeper.reference(bench.now());
    for _ in 0..30 {
        let now = bench.now();
        let served = (reference.time_at(now.wall).0 - now.raw.0) as f64 / 1e9;
        assert!((served - 0.8).abs() < 1e-3, "{served} {reference:?}");
        bench.pass(1.0);
    }
}

//--- Sources

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

//--- Local

#[test]
fn the_own_time_is_given_while_there_is_no_other() {
    let mut settings = settings();
    settings.local = Some(Local {
        stratum: 8,
        ..Local::default()
    });
    let mut bench = Bench::new(&settings);
    let reference = bench.timekeeper.reference(bench.now());
    assert_eq!(
        (reference.stratum, reference.reference_id),
        (8, LOCAL_REFERENCE_ID)
    );
    assert_eq!(bench.timekeeper.state(bench.now()), ClockState::Local);
    bench.add(0, SelectOptions::default());
    bench.hear(0, 0.0, |_| ());
    assert_eq!(bench.timekeeper.reference(bench.now()).stratum, 2);
    // Root distance grows by the skew and 1 ppm: after 12 days it is above a second.
    bench.timekeeper.reached(SourceId(0), 0, bench.now());
    bench.pass(600.0);
    assert_eq!(
        bench.timekeeper.reference(bench.now()).stratum,
        2,
        "holdover"
    );
    bench.pass(12.0 * 86_400.0);
    assert_eq!(bench.timekeeper.reference(bench.now()).stratum, 8);
}

#[test]
fn a_drift_file_is_where_the_frequency_begins() {
    let drift = Drift {
        ppm: 42.0,
        skew: 0.1,
    };
    let mut timekeeper = Timekeeper::new(&settings(), Some(drift), Reading::default());
    assert_eq!(timekeeper.poll_effect(), Some(Effect::SetRate(-42_000.0)));
    let kept = timekeeper.drift().unwrap();
    assert!((kept.ppm - 42.0).abs() < 1e-9);
}

//--- Whatever comes

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

#[test]
fn a_clock_that_is_let_alone_is_not_stepped_on_demand() {
    let mut bench = Bench::new(&settings());
    bench.add(0, SelectOptions::default());
    bench.hear(0, 0.5, |_| ());
    let now = bench.now();
    assert!(bench.timekeeper.clone().makestep(now));
    bench.timekeeper.set_free_running(true);
    assert!(!bench.timekeeper.makestep(now));
    assert!(bench.steps.is_empty());
}

#[test]
fn of_a_clock_that_is_let_alone_it_is_the_change_that_maxchange_bounds() {
    let mut settings = settings();
    settings.clock.max_change = Some(MaxChange {
        offset: 1.0,
        delay: 1,
        ignore: Some(0),
    });
    let mut bench = Bench::new(&settings);
    bench.timekeeper.set_free_running(true);
    bench.add(0, SelectOptions::default());
    for _ in 0..12 {
        bench.hear(0, 7.0, |_| ());
        bench.pass(16.0);
    }
    assert!(!bench.gave_up, "nobody corrects what is off from the start");
    for _ in 0..12 {
        bench.hear(0, 70.0, |_| ());
        bench.pass(16.0);
    }
    assert!(bench.gave_up);
}

#[test]
fn without_sources_for_long_the_clock_goes_on_with_the_frequency_of_as_long() {
    let mut settings = settings();
    settings.clock.fallback_drift = Some(FallbackDrift { min: 8, max: 9 });
    let mut bench = Bench::new(&settings);
    bench.add(0, SelectOptions::default());
    // True time gains a microsecond a second on this clock.
    let start = bench.raw;
    let hear = |bench: &mut Bench| {
        let since = Span(bench.raw - start).seconds();
        bench.hear(0, 1e-6 * since, |_| ());
    };
    for _ in 0..64 {
        hear(&mut bench);
        bench.pass(16.0);
    }
    let learned = bench.timekeeper.drift().expect("a frequency").ppm;
    assert!((learned + 1.0).abs() < 0.1, "{learned}");
    let now = bench.now();
    bench.timekeeper.reached(SourceId(0), 0, now);
    let fell_back = |bench: &Bench| {
        let is = |note: &&Note| matches!(note, Note::FellBack { .. });
        bench.notes.iter().filter(is).count()
    };
    let before = bench.timekeeper.offset(bench.now()).expect("an offset");
    bench.pass(200.0);
    assert_eq!(fell_back(&bench), 0);
    bench.pass(100.0);
    assert_eq!(fell_back(&bench), 1);
    bench.pass(300.0);
    assert_eq!(fell_back(&bench), 2);
    let after = bench.timekeeper.drift().expect("a frequency").ppm;
    assert!((after + 1.0).abs() < 0.2, "{after}");
    let offset = bench.timekeeper.offset(bench.now()).expect("an offset");
    assert!(
        (offset - before).abs() < 1e-3,
        "what time it is does not jump"
    );
    // The next sample begins anew.
    hear(&mut bench);
    bench.pass(300.0);
    assert_eq!(fell_back(&bench), 2);
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
