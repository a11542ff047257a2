//! Many samples of a reference clock made to one, so that a few wild ones do not count.
//!
//! Samples lie on the raw clock, which drifts: over sixteen seconds by more than a good clock jitters. So the drift is estimated
//! first (the median of the slopes of pairs that are half of the samples apart), and what is sorted is what remains.

use crate::time::RawTime;

/// The most samples that are kept, whatever `filter` says: 16 s of a thousand a second.
const MOST: usize = 16_384;

/// With fewer there is no middle: unless `filter` itself is smaller, there is no result.
const FEWEST: usize = 4;

/// A sample whose dispersion is above the smallest by more than this is left out, if enough are left.
const WORSE: f64 = 1.5;

/// Median absolute deviation to standard deviation, of normal noise.
const DEVIATION: f64 = 1.4826;

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// When.
    pub(crate) at: RawTime,
    /// Wall time − raw time, in nanoseconds.
    pub(crate) ahead: i64,
    /// In seconds.
    pub(crate) dispersion: f64,
}

/// Samples since the last result, oldest first.
#[derive(Debug)]
pub(crate) struct Filter {
    points: std::collections::VecDeque<Point>,
    capacity: usize,
    max_dispersion: f64,
}

impl Filter {
    /// For at most `capacity` samples, of which the oldest go; what is worse than `max_dispersion` is no sample.
    pub(crate) fn new(capacity: u32, max_dispersion: Option<f64>) -> Self {
        let capacity = usize::try_from(capacity).unwrap_or(MOST).clamp(1, MOST);
        Self {
            points: std::collections::VecDeque::new(),
            capacity,
            max_dispersion: max_dispersion.unwrap_or(f64::INFINITY),
        }
    }

    /// Takes one up.
    pub(crate) fn put(&mut self, point: Point) {
        // Not a number is too much.
        if !(point.dispersion <= self.max_dispersion) {
            return;
        }
        // A clock that did not tell anything new.
        if self.points.back().is_some_and(|last| point.at <= last.at) {
            return;
        }
        if self.points.len() == self.capacity {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    /// The middle of them, and forgets them; nothing if they are too few.
    pub(crate) fn make(&mut self) -> Option<Point> {
        if self.points.len() < FEWEST.min(self.capacity) {
            return None;
        }
        let points: Vec<Point> = self.points.drain(..).collect();
        let first = *points.first()?;
        let chosen = precise(&points);
        let line: Vec<(f64, f64)> = chosen.iter().map(|point| relative(point, &first)).collect();
        let slope = slope(&line);
        let mut rests: Vec<(f64, usize)> = line
            .iter()
            .enumerate()
            .map(|(index, (at, ahead))| (ahead - slope * at, index))
            .collect();
        rests.sort_by(|one, other| one.0.total_cmp(&other.0));
        let deviation = deviation(&rests);
        let left_out = left_out(rests.len());
        let kept = rests.get(left_out..rests.len() - left_out)?;
        let n = count(kept.len());
        let sum = kept
            .iter()
            .filter_map(|(_, index)| Some((line.get(*index)?, chosen.get(*index)?)))
            .fold((0.0, 0.0, 0.0), |sum, ((at, ahead), point)| {
                (sum.0 + at, sum.1 + ahead, sum.2 + point.dispersion)
            });
        let result = Point {
            at: RawTime(first.at.0.saturating_add(nearest(sum.0 / n))),
            ahead: first.ahead.saturating_add(nearest(sum.1 / n)),
            dispersion: sum.2 / n + deviation / 1e9 / n.sqrt(),
        };
        (result.dispersion <= self.max_dispersion).then_some(result)
    }
}

/// Those that are about as precise as the best, or all if those are too few.
fn precise(points: &[Point]) -> Vec<Point> {
    let best = points
        .iter()
        .fold(f64::INFINITY, |best, point| best.min(point.dispersion));
    let chosen: Vec<Point> = points
        .iter()
        .filter(|point| point.dispersion <= WORSE * best)
        .copied()
        .collect();
    if chosen.len() < FEWEST {
        points.to_vec()
    } else {
        chosen
    }
}

/// In nanoseconds from the first, where floating point is exact enough.
#[expect(
    clippy::cast_precision_loss,
    reason = "differences within one filter are below 2^53 ns, or the clock has jumped"
)]
fn relative(point: &Point, first: &Point) -> (f64, f64) {
    (
        (point.at - first.at).0 as f64,
        point.ahead.saturating_sub(first.ahead) as f64,
    )
}

/// Median of the slopes of pairs: one wild sample spoils one pair.
fn slope(line: &[(f64, f64)]) -> f64 {
    if line.len() < FEWEST {
        // The mean of so few is right whatever the slope.
        return 0.0;
    }
    let (early, late) = line.split_at(line.len() / 2);
    let mut slopes: Vec<f64> = early
        .iter()
        .zip(late)
        .map(|(early, late)| (late.1 - early.1) / (late.0 - early.0))
        .collect();
    median(&mut slopes)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let upper = values.get(half).copied().unwrap_or(0.0);
    if values.len() % 2 == 1 {
        return upper;
    }
    let lower = half.checked_sub(1).and_then(|index| values.get(index));
    f64::midpoint(lower.copied().unwrap_or(upper), upper)
}

/// Standard deviation, estimated so that wild samples do not count.
fn deviation(rests: &[(f64, usize)]) -> f64 {
    let mut values: Vec<f64> = rests.iter().map(|rest| rest.0).collect();
    let middle = median(&mut values);
    for value in &mut values {
        *value = (*value - middle).abs();
    }
    DEVIATION * median(&mut values)
}

/// How many are left out on either side: a fifth, at least one of three or more.
fn left_out(n: usize) -> usize {
    if n < 3 {
        return 0;
    }
    (n / 5).clamp(1, (n - 1) / 2)
}

#[expect(clippy::cast_precision_loss, reason = "below MOST")]
fn count(n: usize) -> f64 {
    n as f64
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the cast saturates, and NaN cannot be: there is at least one"
)]
fn nearest(value: f64) -> i64 {
    value.round() as i64
}
