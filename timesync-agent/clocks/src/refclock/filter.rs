//! Many samples of a reference clock made to one, so that a few wild ones do not count.
//!
//! Samples lie on the raw clock, which drifts: over sixteen seconds by more than a good clock jitters. So the drift is estimated
//! first (the median of the slopes of pairs that are half of the samples apart), and what is sorted is what remains.

use time_model::time::RawTime;

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
    /// For at most `capacity` samples; the oldest go first. A reading worse than `max_dispersion` is no sample.
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
        if point.dispersion.is_nan() || point.dispersion > self.max_dispersion {
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

    /// Keeps only those of a moment or later.
    pub(crate) fn forget_before(&mut self, at: RawTime) {
        self.points.retain(|point| point.at >= at);
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

#[cfg(test)]
mod tests {
    use super::*;
    use time_model::time::SECOND;

    const AHEAD: i64 = 1_700_000_000 * SECOND;

    /// Samples a second apart on a clock that drifts by 50 ppm, each off by something.
    fn made(offs: &[i64]) -> Option<(i64, i64)> {
        let mut filter = Filter::new(64, None);
        for (second, off) in (0..).zip(offs) {
            let at = second * SECOND;
            filter.put(Point {
                at: RawTime(at),
                ahead: AHEAD - at / 20_000 + off,
                dispersion: 1e-9,
            });
        }
        let made = filter.make()?;
        // How far from the truth it is at its own moment.
        Some((made.at.0, made.ahead - (AHEAD - made.at.0 / 20_000)))
    }

    #[test]
    fn the_drift_of_the_raw_clock_is_no_noise() {
        let (_, off) = made(&[0; 16]).unwrap();
        assert!(off.abs() <= 1, "{off}");
    }

    #[test]
    fn wild_samples_do_not_count() {
        let mut offs = [0; 16];
        offs[3] = 1_000_000;
        offs[7] = -2_000_000_000;
        offs[11] = 5_000_000;
        let (_, off) = made(&offs).unwrap();
        assert!(off.abs() <= 1, "{off}");
        // More than half of them are the truth.
        offs[..7].fill(1_000_000);
        offs[7..].fill(0);
        let (_, off) = made(&offs).unwrap();
        assert!(off.abs() < 1_000_000, "{off}");
    }

    #[test]
    fn two_samples_are_averaged_where_the_filter_is_so_small() {
        let mut filter = Filter::new(2, None);
        for (at, ahead) in [(0, 10), (2, 30)] {
            filter.put(Point {
                at: RawTime(at),
                ahead,
                dispersion: 0.0,
            });
        }
        let made = filter.make().unwrap();
        assert_eq!((made.at, made.ahead), (RawTime(1), 20));
    }

    #[test]
    fn the_oldest_go_and_nothing_counts_twice() {
        let mut filter = Filter::new(1, Some(1e-6));
        let point = |at, dispersion| Point {
            at: RawTime(at),
            ahead: at,
            dispersion,
        };
        for at in [1, 2, 3, 3] {
            filter.put(point(at, 0.0));
        }
        assert_eq!(filter.make().map(|made| made.ahead), Some(3));
        assert_eq!(filter.make(), None);
        filter.put(point(4, 1e-5));
        filter.put(point(5, f64::NAN));
        assert_eq!(filter.make(), None, "too coarse");
    }

    #[test]
    fn imprecise_samples_give_way_to_precise_ones() {
        let mut filter = Filter::new(64, None);
        for at in 0..16 {
            let coarse = at % 2 == 1;
            filter.put(Point {
                at: RawTime(at * SECOND),
                ahead: if coarse { 700 } else { 0 },
                dispersion: if coarse { 1e-6 } else { 1e-9 },
            });
        }
        assert_eq!(filter.make().unwrap().ahead, 0);
    }
}
