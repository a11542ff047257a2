mod chance;
mod manual;
mod saved_state;
mod smoothing;
mod sources;
mod temperature;

use super::*;
use ntp_sim::oscillator::LocalClock;
use ntp_sim::random::Random;
use time_model::settings::{FallbackDrift, MakeStep, MaxChange, SelectOptions};
use time_model::time::SECOND;
use time_model::view::{ClockState, Leap, ManualView, SourceMode, SourceState, SourceView};

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
    /// What the kernel was told last.
    status: Option<Status>,
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
            status: None,
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
                Effect::SetStatus(status) => {
                    assert!(status.max_error.is_finite());
                    self.status = Some(status);
                }
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
fn what_maxchange_refuses_uses_up_no_step() {
    let mut settings = settings();
    settings.clock.max_change = Some(MaxChange {
        offset: 100.0,
        delay: 1,
        ignore: None,
    });
    let mut bench = Bench::new(&settings);
    bench.add(0, SelectOptions::default());
    bench.hear(0, 0.0, |_| ());
    let left = bench.timekeeper.discipline.steps_left();
    assert_eq!(left, Some(2), "one was for the first update");
    for _ in 0..12 {
        bench.pass(16.0);
        bench.hear(0, 700.0, |_| ());
    }
    let is_refused = |note: &&Note| matches!(note, Note::ChangeIgnored(_));
    assert!(bench.notes.iter().filter(is_refused).count() > 3);
    assert_eq!(bench.timekeeper.discipline.steps_left(), left);
}

#[test]
fn what_is_left_of_a_slew_is_no_change() {
    let mut settings = settings();
    settings.clock.makestep = None;
    settings.clock.max_change = Some(MaxChange {
        offset: 1000.0,
        delay: 1,
        ignore: Some(2),
    });
    settings.clock.log_change = 1.0;
    let mut bench = Bench::new(&settings);
    bench.add(0, SelectOptions::default());
    // Hours of slewing.
    for _ in 0..12 {
        bench.hear(0, 2000.0, |_| ());
        bench.pass(64.0);
    }
    assert!(bench.offset() < 1000.0, "{}", bench.offset());
    let told: Vec<&Note> = bench
        .notes
        .iter()
        .filter(|note| matches!(note, Note::ChangeIgnored(_) | Note::Offset(_)))
        .collect();
    assert!(matches!(told[..], [Note::Offset(_)]), "{told:?}");
    let tracking = bench.timekeeper.tracking(bench.now());
    assert!(!bench.gave_up && tracking.last_offset.abs() < 1e-3);
    assert!(tracking.update_offset > 1000.0, "{tracking:?}");
    // Somebody sets the clock, and that is one.
    bench.ahead += 2000e9;
    for _ in 0..3 {
        bench.hear(0, 2000.0, |_| ());
        bench.pass(64.0);
    }
    assert!(bench.gave_up);
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
fn the_kernel_hears_of_sources_and_never_of_the_own_time() {
    let mut settings = settings();
    settings.local = Some(Local {
        stratum: 8,
        ..Local::default()
    });
    let mut bench = Bench::new(&settings);
    let told = |bench: &Bench| {
        let status = bench.status.expect("the kernel was told");
        (status.synchronised, status.max_error)
    };
    assert_eq!(bench.timekeeper.state(bench.now()), ClockState::Local);
    assert_eq!(told(&bench), (false, 16.0), "nobody was ever heard");
    bench.add(0, SelectOptions::default());
    bench.hear(0, 0.0, |_| ());
    let (is_synchronised, error) = told(&bench);
    assert!(is_synchronised && error < 0.01, "{error}");
    // Without sources the kernel's own bound grows, whatever clients are told.
    bench.status = None;
    bench.timekeeper.reached(SourceId(0), 0, bench.now());
    bench.pass(13.0 * 86_400.0);
    assert_eq!(bench.timekeeper.state(bench.now()), ClockState::Local);
    assert_eq!(bench.status, None);
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

//--- Left alone, or without sources

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
