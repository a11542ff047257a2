//! The master's time out of messages that went both ways.
//!
//! A Sync message says when it left the master and comes after the delay of the path, a `Delay_Req` message the other way round. Both
//! are some time apart, while which the raw clock drifts against the master: by more than the path has jitter. So the drift is
//! estimated from the Sync messages, and taken out before both are compared.

use std::collections::VecDeque;

use time_model::time::{RawTime, Span};

/// Messages that are remembered of each kind: enough for a median, few enough to notice another path.
const MEMORY: usize = 15;

/// With fewer Sync messages nothing is known of the drift.
const FEWEST: usize = 4;

/// Sync messages further apart belong to different times: a new beginning.
const GAP: Span = Span(60 * time_model::time::SECOND);

/// The raw clock may drift so much; anything more is noise.
const MOST_DRIFT: f64 = 1e-3;

/// Median absolute deviation to standard deviation, of normal noise.
const DEVIATION: f64 = 1.4826;

/// The state at a Sync message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    /// When it came.
    pub(super) at: RawTime,
    /// Raw time − the master's time, in nanoseconds.
    pub(super) offset: i64,
    /// The delay of the path, in seconds.
    pub(super) delay: f64,
    /// The uncertainty of the delay, in seconds.
    pub(super) dispersion: f64,
}

/// The path to one master.
#[derive(Debug, Default)]
pub(super) struct Path {
    /// When each came, and its time of arrival − its time of departure.
    syncs: VecDeque<(RawTime, i64)>,
    /// Delays, in nanoseconds.
    delays: VecDeque<f64>,
    drift: f64,
}

impl Path {
    /// Forgets it: there is another master.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// A Sync message. Gives the master's time, if the delay is known.
    pub(super) fn sync(&mut self, at: RawTime, offset: i64) -> Option<Measured> {
        if let Some((last, _)) = self.syncs.back()
            && !(Span(1)..GAP).contains(&(at - *last))
        {
            self.syncs.clear();
        }
        keep(&mut self.syncs, (at, offset));
        self.drift = drift(&self.syncs);
        self.measured(at, offset)
    }

    /// A `Delay_Req` message that left at `at`: its time of departure − its time of arrival.
    pub(super) fn delay(&mut self, at: RawTime, offset: i64) {
        let Some((sync, there)) = self.syncs.back() else {
            return;
        };
        if (at - *sync).0.abs() > GAP.0 {
            return;
        }
        // The hypothetical correction of a Sync message at that moment.
        let there = *there + nearest(self.drift * float((at - *sync).0));
        self.peer(float(there.saturating_sub(offset)) / 2.0);
    }

    /// The delay itself, in nanoseconds, where neighbours measure it.
    pub(super) fn peer(&mut self, delay: f64) {
        keep(&mut self.delays, delay);
    }

    /// By how much the raw clock gains on the master, in parts per million.
    pub(super) fn frequency(&self) -> Option<f64> {
        (self.syncs.len() >= FEWEST).then_some(self.drift * 1e6)
    }

    fn measured(&self, at: RawTime, offset: i64) -> Option<Measured> {
        let mut delays: Vec<f64> = self.delays.iter().copied().collect();
        let delay = median(&mut delays)?;
        for value in &mut delays {
            *value = (*value - delay).abs();
        }
        let deviation = DEVIATION * median(&mut delays)?;
        Some(Measured {
            at,
            offset: offset.saturating_sub(nearest(delay)),
            delay: delay / 1e9,
            dispersion: deviation / float(i64::try_from(delays.len()).ok()?).sqrt() / 1e9,
        })
    }
}

/// The median of the slopes of pairs.
fn drift(syncs: &VecDeque<(RawTime, i64)>) -> f64 {
    if syncs.len() < FEWEST {
        return 0.0;
    }
    let half = syncs.len() / 2;
    let mut slopes: Vec<f64> = syncs
        .iter()
        .zip(syncs.iter().skip(half))
        .map(|(early, late)| float(late.1.saturating_sub(early.1)) / float((late.0 - early.0).0))
        .collect();
    median(&mut slopes)
        .unwrap_or(0.0)
        .clamp(-MOST_DRIFT, MOST_DRIFT)
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let upper = *values.get(half)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = half.checked_sub(1).and_then(|index| values.get(index))?;
    Some(f64::midpoint(*lower, upper))
}

fn keep<T>(memory: &mut VecDeque<T>, value: T) {
    if memory.len() == MEMORY {
        memory.pop_front();
    }
    memory.push_back(value);
}

#[expect(
    clippy::cast_precision_loss,
    reason = "spans within a path are below 2^53 ns; a clock that jumped is noise"
)]
fn float(value: i64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the cast saturates, and NaN is nothing"
)]
fn nearest(value: f64) -> i64 {
    value.round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use time_model::time::SECOND;

    /// The raw clock gains 80 ppm, and is behind the master by that much at 0.
    const BEHIND: i64 = -700_000_000 * SECOND;
    const DELAY: i64 = 1_500;

    /// Raw time − the master's time.
    fn truth(at: i64) -> i64 {
        BEHIND + at / 1_000_000 * 80
    }

    fn sync(path: &mut Path, at: i64, jitter: i64) -> Option<Measured> {
        path.sync(RawTime(at), truth(at) + DELAY + jitter)
    }

    fn request(path: &mut Path, at: i64, jitter: i64) {
        path.delay(RawTime(at), truth(at) - DELAY - jitter);
    }

    #[test]
    fn the_drift_of_the_raw_clock_is_no_delay() {
        let mut path = Path::default();
        assert_eq!(path.frequency(), None);
        for second in 0..30 {
            let measured = sync(&mut path, second * SECOND, 0);
            // Nearly a second later, when the raw clock has gained 72 µs.
            request(&mut path, second * SECOND + 900_000_000, 0);
            if second > 20 {
                let measured = measured.unwrap();
                let off = measured.offset - truth(measured.at.0);
                assert!(off.abs() <= 5, "{off} ns at {second}");
                assert!((measured.delay - 1.5e-6).abs() < 5e-9, "{measured:?}");
            }
        }
        let frequency = path.frequency().unwrap();
        assert!((frequency - 80.0).abs() < 0.01, "{frequency}");
    }

    #[test]
    fn a_delayed_request_is_one_of_many() {
        let mut path = Path::default();
        let mut last = None;
        for second in 0..30 {
            let wild = if second % 4 == 0 { 2_000_000 } else { 0 };
            last = sync(&mut path, second * SECOND, 0);
            request(&mut path, second * SECOND + 100_000_000, wild);
        }
        let last = last.unwrap();
        assert!((last.offset - truth(last.at.0)).abs() <= 5, "{last:?}");
    }

    #[test]
    fn nothing_is_known_before_the_delay_is() {
        let mut path = Path::default();
        request(&mut path, 5, 0);
        assert_eq!(sync(&mut path, SECOND, 0), None);
        path.peer(1_500.0);
        let delay = sync(&mut path, 2 * SECOND, 0).unwrap().delay;
        assert!((delay - 1.5e-6).abs() < 1e-12, "{delay}");
        path.reset();
        assert_eq!(sync(&mut path, 3 * SECOND, 0), None);
    }

    #[test]
    fn a_clock_that_has_jumped_begins_anew() {
        let mut path = Path::default();
        for second in 0..10 {
            sync(&mut path, second * SECOND, 0);
        }
        assert!(path.frequency().is_some());
        sync(&mut path, 100 * SECOND, 0);
        assert_eq!(path.frequency(), None);
        path.sync(RawTime(i64::MIN), i64::MIN);
        path.sync(RawTime(i64::MAX), i64::MAX);
        path.delay(RawTime(i64::MAX), i64::MIN);
        path.peer(f64::NAN);
        path.sync(RawTime(0), i64::MAX);
    }
}
