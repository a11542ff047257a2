use super::*;
use time_model::settings::{RefclockDriver, RefclockOptions};

const HOUR: i64 = 3_600 * SECOND;
/// Wall time − raw time of the clock in these tests.
const AHEAD: i64 = 1_700_000_000 * SECOND;

fn clock(options: RefclockOptions) -> ReferenceClock {
    let driver = RefclockDriver::Shm {
        segment: 0,
        mode: 0o600,
    };
    ReferenceClock::new(RefclockSettings::new(driver, options, 0), reading(HOUR))
}

fn reading(raw: i64) -> Reading {
    Reading {
        raw: RawTime(raw),
        wall: UnixTime(raw + AHEAD),
    }
}

/// The clock says, at `raw`, a time that is `off` from the truth.
fn time(raw: i64, off: i64) -> Observation {
    Observation {
        at: RawTime(raw),
        what: Observed::Time {
            time: UnixTime(raw + AHEAD + off),
            scale: Scale::Configured,
        },
        dispersion: 0.0,
        leap: Leap::Normal,
    }
}

fn pulse(raw: i64) -> Observation {
    Observation {
        what: Observed::Pulse { time: UnixTime(0) },
        ..time(raw, 0)
    }
}

fn tell(clock: &mut ReferenceClock, told: &Observation, context: &Context) -> Result<(), Unusable> {
    clock.tell(told, None, context, reading(told.at.0))
}

#[test]
fn a_sample_is_made_in_every_polling_interval() {
    let mut clock = clock(RefclockOptions {
        poll: 2,
        ..RefclockOptions::default()
    });
    let mut made = Vec::new();
    for second in 0..12 {
        let now = HOUR + second * SECOND;
        assert_eq!(clock.poll_timeout(), RawTime(now));
        assert_eq!(clock.handle_timeout(reading(now - 1)), Due::default());
        let due = clock.handle_timeout(reading(now));
        assert!(due.read);
        tell(&mut clock, &time(now, 250), &Context::default()).unwrap();
        if due.make {
            made.push((second, clock.make().unwrap()));
        }
    }
    let seconds: Vec<i64> = made.iter().map(|(second, _)| *second).collect();
    assert_eq!(seconds, [3, 7, 11]);
    for (second, made) in made {
        // The middle of the four that were read.
        let middle = HOUR + second * SECOND - 3 * SECOND / 2;
        assert_eq!((made.at, made.ahead), (RawTime(middle), AHEAD + 250));
    }
}

#[test]
fn after_a_pause_nothing_is_made_up_for() {
    let mut clock = clock(RefclockOptions::default());
    assert!(clock.handle_timeout(reading(HOUR)).read);
    assert!(clock.handle_timeout(reading(3 * HOUR)).read);
    assert_eq!(clock.poll_timeout(), RawTime(3 * HOUR + SECOND));
}

#[test]
fn a_clock_that_says_too_little_makes_no_sample() {
    let mut clock = clock(RefclockOptions::default());
    for second in 0..3 {
        tell(
            &mut clock,
            &time(HOUR + second * SECOND, 0),
            &Context::default(),
        )
        .unwrap();
    }
    assert_eq!(clock.make(), None);
    // They are kept, and count with the next.
    tell(&mut clock, &time(HOUR + 3 * SECOND, 0), &Context::default()).unwrap();
    assert!(clock.make().is_some());
    assert_eq!(clock.make(), None, "made from what was told since");
}

#[test]
fn options_correct_what_is_told() {
    let mut clock = clock(RefclockOptions {
        filter: 1,
        offset: 0.5,
        tai: true,
        stratum: 3,
        delay: 1e-3,
        precision: Some(1e-4),
        ..RefclockOptions::default()
    });
    let told = time(HOUR, 37 * SECOND);
    let unknown = tell(&mut clock, &told, &Context::default());
    assert_eq!(unknown, Err(Unusable::UnknownTai));
    let context = Context {
        tai_offset: Some(37),
        ..Context::default()
    };
    tell(&mut clock, &told, &context).unwrap();
    let made = clock.make().unwrap();
    assert_eq!(made.ahead, AHEAD + SECOND / 2);
    assert_eq!((made.stratum, made.delay), (3, 1e-3));
    assert!(made.dispersion >= 1e-4);
    assert_eq!(clock.counts(), (2, 1));
    // What the clock says of its own scale counts more.
    let told = Observation {
        at: RawTime(HOUR + 1),
        what: Observed::Time {
            time: UnixTime(HOUR + 1 + AHEAD + 36 * SECOND),
            scale: Scale::Tai(Some(36)),
        },
        ..told
    };
    tell(&mut clock, &told, &context).unwrap();
    assert_eq!(clock.make().unwrap().ahead, AHEAD + SECOND / 2);
}

#[test]
fn what_is_old_or_from_the_future_is_no_sample() {
    let mut clock = clock(RefclockOptions::default());
    let context = Context::default();
    let told = time(HOUR, 0);
    // Twice the polling interval of 16 s.
    for (now, expected) in [
        (HOUR - 1, Err(Unusable::Stale)),
        (HOUR + 32 * SECOND, Ok(())),
        (HOUR + 32 * SECOND + 1, Err(Unusable::Stale)),
    ] {
        assert_eq!(
            clock.tell(&told, None, &context, reading(now)),
            expected,
            "{now}"
        );
    }
    let unsynchronised = Observation {
        leap: Leap::Unsynchronised,
        ..told
    };
    assert_eq!(
        tell(&mut clock, &unsynchronised, &context),
        Err(Unusable::Unsynchronised)
    );
}

#[test]
fn a_leap_second_is_passed_on() {
    let mut clock = clock(RefclockOptions {
        filter: 1,
        ..RefclockOptions::default()
    });
    let told = Observation {
        leap: Leap::Insert,
        ..time(HOUR, 0)
    };
    tell(&mut clock, &told, &Context::default()).unwrap();
    assert_eq!(clock.make().unwrap().leap, Leap::Insert);
}

#[test]
fn pulses_are_counted_by_the_other_sources() {
    let options = RefclockOptions {
        filter: 1,
        ..RefclockOptions::default()
    };
    // The pulse comes when a second begins; the other sources are wrong by `off`, and know that they are not by more than 0.1 s.
    for (off, expected) in [
        (0, Some(AHEAD)),
        (SECOND / 5, Some(AHEAD)),
        (-SECOND / 3, Some(AHEAD)),
        (SECOND * 9 / 20, None),
    ] {
        let mut clock = clock(options.clone());
        let context = Context {
            estimate: Some((AHEAD + off, 0.1)),
            ..Context::default()
        };
        let result = tell(&mut clock, &pulse(HOUR), &context);
        assert_eq!(result.is_ok(), expected.is_some(), "{off}");
        assert_eq!(clock.make().map(|made| made.ahead), expected, "{off}");
    }
    let alone = tell(&mut clock(options), &pulse(HOUR), &Context::default());
    assert_eq!(alone, Err(Unusable::UnknownSecond));
}

#[test]
fn pulses_are_counted_by_the_clock_that_lock_names() {
    let mut clock = clock(RefclockOptions {
        filter: 1,
        lock: Some(1),
        rate: 5,
        ..RefclockOptions::default()
    });
    let context = Context {
        // Not asked.
        estimate: Some((0, 0.0)),
        ..Context::default()
    };
    let now = reading(HOUR);
    let mut tell = |seconds| clock.tell(&pulse(HOUR), seconds, &context, now);
    assert_eq!(tell(None), Err(Unusable::UnknownSecond));
    let old = HOUR - 2 * SECOND / 5 - 1;
    assert_eq!(
        tell(Some((RawTime(old), AHEAD))),
        Err(Unusable::UnknownSecond)
    );
    // A fifth of what pulses are apart is the most that it may be wrong.
    let off = SECOND / 25;
    assert_eq!(
        tell(Some((RawTime(HOUR), AHEAD + off))),
        Err(Unusable::OutOfPhase)
    );
    assert_eq!(tell(Some((RawTime(HOUR - 1), AHEAD - off + 1))), Ok(()));
    assert_eq!(clock.make().map(|made| made.ahead), Some(AHEAD));
}

#[test]
fn of_pulses_with_a_width_the_other_edge_does_not_count() {
    let mut clock = clock(RefclockOptions {
        filter: 1,
        width: 0.2,
        ..RefclockOptions::default()
    });
    let mut tell = |at: i64, error| {
        let context = Context {
            estimate: Some((AHEAD, error)),
            ..Context::default()
        };
        tell(&mut clock, &pulse(at), &context)
    };
    assert_eq!(tell(HOUR, 0.01), Ok(()));
    // A fifth of a second later it ends; up to half of that is the beginning still.
    let end = HOUR + SECOND / 5;
    assert_eq!(tell(end, 0.01), Err(Unusable::OutOfPhase));
    assert_eq!(tell(end + SECOND, 0.01), Err(Unusable::OutOfPhase));
    assert_eq!(tell(HOUR + 2 * SECOND + SECOND / 11, 0.01), Ok(()));
    assert_eq!(
        tell(HOUR + 3 * SECOND, 0.11),
        Err(Unusable::UnknownSecond),
        "it may be either edge"
    );
    for (width, beginning) in [(0.9, SECOND / 25), (0.9, -SECOND / 25)] {
        let mut clock = ReferenceClock::new(
            RefclockSettings::new(
                clock.settings().driver.clone(),
                RefclockOptions {
                    filter: 1,
                    width,
                    lock: Some(1),
                    ..RefclockOptions::default()
                },
                0,
            ),
            reading(HOUR),
        );
        let now = reading(HOUR + SECOND);
        let lock = Some((RawTime(HOUR), AHEAD));
        let mut tell = |at| clock.tell(&pulse(at), lock, &Context::default(), now);
        assert_eq!(tell(HOUR + beginning), Ok(()));
        assert_eq!(tell(HOUR + SECOND * 9 / 10), Err(Unusable::OutOfPhase));
    }
}

#[test]
fn of_a_clock_with_wrong_seconds_the_phase_counts() {
    let mut clock = clock(RefclockOptions {
        filter: 1,
        pulses: true,
        ..RefclockOptions::default()
    });
    let context = Context {
        estimate: Some((AHEAD + 1_000_000, 0.001)),
        ..Context::default()
    };
    tell(&mut clock, &time(HOUR, 37 * SECOND + 250), &context).unwrap();
    assert_eq!(clock.make().unwrap().ahead, AHEAD + 250);
}

#[test]
fn every_time_that_a_clock_can_say_is_survived() {
    let extremes = [i64::MIN, -1, 0, 1, HOUR, i64::MAX];
    let estimates = extremes.map(|ahead| Some((ahead, f64::MAX)));
    for at in extremes {
        for value in extremes {
            for estimate in estimates.into_iter().chain([None]) {
                for pulses in [false, true] {
                    let mut clock = clock(RefclockOptions {
                        filter: 1,
                        pulses,
                        tai: true,
                        offset: 1e300,
                        rate: u32::MAX,
                        ..RefclockOptions::default()
                    });
                    let context = Context {
                        tai_offset: Some(i32::MIN),
                        estimate,
                        ..Context::default()
                    };
                    let what = Observed::Time {
                        time: UnixTime(value),
                        scale: Scale::Configured,
                    };
                    let told = Observation {
                        at: RawTime(at),
                        what,
                        dispersion: f64::NAN,
                        leap: Leap::Normal,
                    };
                    let told = clock.tell(&told, None, &context, reading(at / 2));
                    assert_eq!(told.is_ok(), clock.make().is_some());
                }
            }
        }
    }
}

#[test]
fn a_sample_is_of_one_side_of_a_leap_second() {
    for tai in [false, true] {
        let mut clock = clock(RefclockOptions {
            poll: 4,
            tai,
            ..RefclockOptions::default()
        });
        // A second is inserted in the middle of what would be a sample.
        let leap = HOUR + 9 * SECOND + SECOND / 2;
        for second in 0..16 {
            let at = HOUR + second * SECOND;
            let is_over = at > leap;
            let context = Context {
                tai_offset: Some(if is_over { 38 } else { 37 }),
                leap_passed: is_over.then_some(RawTime(leap)),
                ..Context::default()
            };
            let utc = if is_over { -SECOND } else { 0 };
            let shown = if tai { 37 * SECOND } else { utc };
            tell(&mut clock, &time(at, shown), &context).unwrap();
        }
        let sample = clock.make().expect("six are enough");
        assert_eq!(sample.ahead, AHEAD - SECOND, "{tai}");
        assert!(sample.at > RawTime(leap));
    }
}
