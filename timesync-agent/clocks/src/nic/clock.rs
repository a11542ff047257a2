//! The clock of a card beside the raw clock: a line through the last readings of both.
//!
//! Another program may set that clock, or run it at another rate (ptp4l does both): a reading off the line starts a new one.

use std::collections::VecDeque;

use time_model::time::{RawTime, SECOND, Span, UnixTime};

/// The two clocks were read so far apart that anything may have happened between.
const GAP: i64 = 10 * SECOND;
/// The most readings that are kept, whatever the configuration says.
const MOST: usize = 64;
/// A card's clock may gain or lose a thousandth.
const MOST_DRIFT: f64 = 1e-3;
/// A reading further off the line than this, in nanoseconds, and than it took itself, is of a clock that was set.
const SET: f64 = 10_000.0;
/// By how much a rate may change between readings, of one second per second: a card that becomes warm, or that is steered.
const STEERED: f64 = 2e-6;
/// A reading is as exact as this at best, in nanoseconds: the way to the card and back is not the same both ways.
const FLOOR: f64 = 20.0;

/// How a clock is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// With fewer readings there is no line.
    pub min_readings: usize,
    /// The oldest above this go.
    pub max_readings: usize,
    /// A stamp is as exact as this at best, in seconds.
    pub precision: f64,
}

/// One reading of both clocks.
#[derive(Clone, Copy, Debug)]
struct Reading {
    card: UnixTime,
    raw: RawTime,
    /// The weight of the reading: one over its variance.
    weight: f64,
}

/// Raw time by the card's, around the last reading.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// The distance of the last reading from the line, in nanoseconds.
    offset: f64,
    /// Raw nanoseconds for each of the card's, less one.
    drift: f64,
    /// Standard deviation of the readings around it, in nanoseconds.
    deviation: f64,
}

/// The clock of a card.
#[derive(Clone, Debug)]
pub struct NicClock {
    rules: Rules,
    readings: VecDeque<Reading>,
    line: Line,
}

impl NicClock {
    /// Nothing is known of it yet.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        let max_readings = rules.max_readings.clamp(1, MOST);
        Self {
            rules: Rules {
                min_readings: rules.min_readings.clamp(1, max_readings),
                max_readings,
                ..rules
            },
            readings: VecDeque::new(),
            line: Line::default(),
        }
    }

    /// Both were read at one moment, which took so long.
    pub fn put(&mut self, card: UnixTime, raw: RawTime, took: Span) {
        let took = float(took.0.max(0));
        if let Some(last) = self.readings.back() {
            let (of_card, of_raw) = ((card - last.card).0, (raw - last.raw).0);
            let is_ordered = (1..GAP).contains(&of_card) && (1..GAP).contains(&of_raw);
            let missed = float(of_raw.saturating_sub(of_card))
                - self.line.drift * float(of_card)
                - self.line.offset;
            let free = if self.readings.len() > 1 {
                STEERED
            } else {
                MOST_DRIFT
            };
            let bound = SET + took + free * float(of_card);
            if !is_ordered || missed.abs() > bound {
                self.readings.clear();
            }
        }
        // Uniform between the moments before and after: a twelfth of the square.
        let variance = took * took / 12.0 + FLOOR * FLOOR;
        self.readings.push_back(Reading {
            card,
            raw,
            weight: 1.0 / variance,
        });
        while self.readings.len() > self.rules.max_readings {
            self.readings.pop_front();
        }
        self.fit();
    }

    /// The raw time of a timestamp of the NIC, and a bound on its error, in seconds; nothing if it is far from every reading.
    #[must_use]
    pub fn raw(&self, card: UnixTime) -> Option<(RawTime, f64)> {
        let last = self.readings.back()?;
        let since = (card - last.card).0;
        if self.readings.len() < self.rules.min_readings || since.saturating_abs() > GAP {
            return None;
        }
        let rest = nearest(self.line.drift * float(since) + self.line.offset);
        let raw = last.raw.0.checked_add(since)?.checked_add(rest)?;
        let error = (self.line.deviation * 1e-9).max(self.rules.precision);
        Some((RawTime(raw), error))
    }

    /// Weighted least squares, in nanoseconds from the last reading.
    fn fit(&mut self) {
        self.line = Line::default();
        let Some(last) = self.readings.back().copied() else {
            return;
        };
        let points: Vec<(f64, f64, f64)> = self
            .readings
            .iter()
            .map(|reading| {
                let (of_card, of_raw) = ((reading.card - last.card).0, (reading.raw - last.raw).0);
                (
                    float(of_card),
                    float(of_raw.saturating_sub(of_card)),
                    reading.weight,
                )
            })
            .collect();
        let weight: f64 = points.iter().map(|(.., weight)| weight).sum();
        let mean = |value: fn(&(f64, f64, f64)) -> f64| {
            let sum: f64 = points.iter().map(|point| value(point) * point.2).sum();
            sum / weight
        };
        let (at, ahead) = (mean(|point| point.0), mean(|point| point.1));
        let (mut squares, mut products) = (0.0, 0.0);
        for (x, y, weight) in &points {
            squares += weight * (x - at) * (x - at);
            products += weight * (x - at) * (y - ahead);
        }
        if squares > 0.0 {
            self.line.drift = (products / squares).clamp(-MOST_DRIFT, MOST_DRIFT);
        }
        self.line.offset = ahead - self.line.drift * at;
        let off = |(x, y, weight): &(f64, f64, f64)| {
            let rest = y - self.line.offset - self.line.drift * x;
            weight * rest * rest
        };
        let squares: f64 = points.iter().map(off).sum();
        self.line.deviation = (squares / weight).sqrt();
    }
}

#[expect(clippy::cast_precision_loss, reason = "below some minutes")]
fn float(value: i64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a thousandth of ten seconds"
)]
fn nearest(value: f64) -> i64 {
    value.round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::Random;

    const RULES: Rules = Rules {
        min_readings: 1,
        max_readings: 16,
        precision: 0.0,
    };

    #[test]
    fn stamps_lie_between_readings() {
        let mut clock = NicClock::new(RULES);
        let raw = |clock: &NicClock, card| clock.raw(UnixTime(card)).map(|(raw, _)| raw.0);
        assert_eq!(raw(&clock, 0), None);
        // The card loses 100 ppm.
        let read = |clock: &mut NicClock, card, raw| {
            clock.put(UnixTime(card), RawTime(raw), Span::ZERO);
        };
        read(&mut clock, 1_000 * SECOND, 5 * SECOND);
        read(&mut clock, 1_001 * SECOND, 6 * SECOND + 100_000);
        for (card, expected) in [
            (SECOND / 2, SECOND / 2 + 50_000),
            (SECOND, SECOND + 100_000),
            (SECOND + SECOND / 2, SECOND + SECOND / 2 + 150_000),
        ] {
            let stamp = raw(&clock, 1_000 * SECOND + card);
            assert_eq!(stamp, Some(5 * SECOND + expected), "{card}");
        }
        assert_eq!(raw(&clock, 1_012 * SECOND), None);
        // It was set.
        read(&mut clock, 7, 7 * SECOND);
        assert_eq!(raw(&clock, 1_007), Some(7 * SECOND + 1_000));
        assert_eq!(raw(&clock, i64::MIN), None);
    }

    #[test]
    fn fewer_readings_than_wanted_make_no_line() {
        let mut clock = NicClock::new(Rules {
            min_readings: 2,
            precision: 1e-7,
            ..RULES
        });
        clock.put(UnixTime(SECOND), RawTime(0), Span(300));
        assert_eq!(clock.raw(UnixTime(SECOND)), None);
        clock.put(UnixTime(2 * SECOND), RawTime(SECOND), Span(300));
        assert_eq!(
            clock.raw(UnixTime(2 * SECOND)),
            Some((RawTime(SECOND), 1e-7))
        );
    }

    /// A card of some frequency that wanders, read once a second by a machine that is busy now and then.
    struct World {
        dice: Random,
        raw: i64,
        card: f64,
        drift: f64,
        /// Seconds that somebody has set the card by.
        set: i64,
    }

    impl World {
        fn new(seed: u8) -> Self {
            let mut dice = Random::new([seed; 16]);
            let drift = (dice.unit() - 0.5) * 2e-4;
            Self {
                dice,
                raw: 0,
                card: 0.0,
                drift,
                set: 1_000,
            }
        }

        fn go_on(&mut self, nanoseconds: i64) {
            self.drift += (self.dice.unit() - 0.5) * 1e-9;
            self.raw += nanoseconds;
            self.card += float(nanoseconds) * self.drift;
        }

        fn card(&self) -> UnixTime {
            UnixTime(self.set * SECOND + self.raw + nearest(self.card))
        }

        /// A reading that takes 600 ns and sometimes much longer, on one side of it.
        fn read(&mut self, clock: &mut NicClock) {
            let late = -self.dice.unit().max(1e-9).ln() * 150.0;
            let took = 600.0 + late;
            // The card was latched after 300 ns; its time is taken for that of the middle.
            let middle = nearest(took / 2.0 - 300.0);
            clock.put(self.card(), RawTime(self.raw + middle), Span(nearest(took)));
        }
    }

    #[test]
    fn a_line_is_nearer_than_a_reading() {
        for seed in 0..64 {
            let mut world = World::new(seed);
            let mut clock = NicClock::new(RULES);
            let (mut squares, mut n) = (0.0, 0.0);
            for second in 0..120 {
                world.read(&mut clock);
                for _ in 0..4 {
                    world.go_on(SECOND / 4);
                    let (raw, _) = clock.raw(world.card()).expect("a reading is near");
                    let error = float(raw.0 - world.raw);
                    assert!(
                        second < 3 || error.abs() < 400.0,
                        "{error} ns: seed {seed} second {second}"
                    );
                    if second >= 16 {
                        squares += error * error;
                        n += 1.0;
                    }
                }
            }
            let rms = f64::sqrt(squares / n);
            // The mean of what makes readings late, 75 ns, stays; of its spread, as much again, a third.
            assert!(rms < 130.0, "{rms} ns: seed {seed}");
        }
    }

    #[test]
    fn a_clock_that_is_set_is_believed_from_its_next_reading_on() {
        for seed in 0..64 {
            let mut world = World::new(seed);
            let mut clock = NicClock::new(RULES);
            for _ in 0..20 {
                world.read(&mut clock);
                world.go_on(SECOND);
            }
            // By 37 s forwards, as of a card that goes from UTC to TAI, or by 2 ms backwards.
            if seed % 2 == 0 {
                world.set += 37;
            } else {
                world.card -= 2e6;
            }
            world.read(&mut clock);
            let (raw, _) = clock.raw(world.card()).expect("it was just read");
            let error = float(raw.0 - world.raw).abs();
            assert!(error < 2_000.0, "{error} ns: seed {seed}");
        }
    }
}
