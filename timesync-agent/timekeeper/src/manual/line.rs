//! A line through a few points of which some may be wrong by much: the line with the least sum of distances.
//!
//! It is what chronyd has for the times that are entered. Old points that bend the line are left out: those whose residuals
//! change their sign too rarely for a straight line, by the distribution of the number of runs.

/// A line through fewer points than these is not doubted.
const LEAST_POINTS: usize = 3;
/// With this many points, by their number, residuals of a straight line have more runs of one sign than this in 19 of 20 cases.
/// The table is chronyd's.
const FEWEST_RUNS: [usize; 17] = [0, 0, 0, 0, 0, 0, 0, 0, 2, 3, 3, 3, 4, 4, 5, 5, 5];

/// A point so near is on the line, in seconds.
const ON_THE_LINE: f64 = 1e-9;

/// A line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    /// Its value at 0.
    pub(super) offset: f64,
    /// Its slope.
    pub(super) slope: f64,
}

impl Line {
    pub(super) fn at(&self, x: f64) -> f64 {
        self.offset + self.slope * x
    }

    /// The sum of the distances of points from it.
    fn distance(&self, points: &[(f64, f64)]) -> f64 {
        points.iter().map(|(x, y)| (y - self.at(*x)).abs()).sum()
    }

    /// Whether the residuals have as many runs of one sign as those of a straight line. Points on the line have no sign.
    fn is_straight(&self, points: &[(f64, f64)]) -> bool {
        let residuals = points.iter().map(|(x, y)| y - self.at(*x));
        let off: Vec<f64> = residuals.filter(|it| it.abs() > ON_THE_LINE).collect();
        let pairs = off.iter().zip(off.iter().skip(1));
        let n_runs = 1 + pairs.filter(|(one, next)| *one * *next < 0.0).count();
        let fewest = FEWEST_RUNS.get(off.len()).or(FEWEST_RUNS.last());
        fewest.is_none_or(|fewest| n_runs > *fewest)
    }
}

/// The line through points, the oldest first; none through fewer than two, or where all are at the same place.
pub(super) fn fit(points: &[(f64, f64)]) -> Option<Line> {
    let mut rest = points;
    loop {
        let line = nearest(rest)?;
        if rest.len() <= LEAST_POINTS || line.is_straight(rest) {
            return Some(line);
        }
        rest = rest.split_first()?.1;
    }
}

/// The line with the least sum of distances. One such line goes through two of the points, and so these are tried; its height
/// is the median that its slope leaves.
fn nearest(points: &[(f64, f64)]) -> Option<Line> {
    let mut best: Option<(f64, Line)> = None;
    for (index, (x, y)) in points.iter().enumerate() {
        for (other_x, other_y) in points.iter().skip(index + 1) {
            let slope = (other_y - y) / (other_x - x);
            if !slope.is_finite() {
                continue;
            }
            let line = Line {
                offset: median(points.iter().map(|(x, y)| y - slope * x)),
                slope,
            };
            let distance = line.distance(points);
            if best.is_none_or(|(least, _)| distance < least) {
                best = Some((distance, line));
            }
        }
    }
    best.map(|(_, line)| line)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let middle = |at: usize| values.get(at).copied().unwrap_or_default();
    let half = values.len() / 2;
    match values.len() % 2 {
        1 => middle(half),
        _ => f64::midpoint(middle(half.saturating_sub(1)), middle(half)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(line: Option<Line>, offset: f64, slope: f64) {
        let line = line.expect("there is a line");
        assert!((line.offset - offset).abs() < 1e-9, "{line:?}");
        assert!((line.slope - slope).abs() < 1e-9, "{line:?}");
    }

    #[test]
    fn a_line_takes_two_points_at_two_places() {
        assert_eq!(fit(&[]), None);
        assert_eq!(fit(&[(0.0, 1.0)]), None);
        assert_eq!(fit(&[(5.0, 1.0), (5.0, 2.0)]), None);
        near(fit(&[(10.0, 3.0), (0.0, 1.0)]), 1.0, 0.2);
    }

    #[test]
    fn one_wrong_point_does_not_bend_it() {
        let mut points: Vec<(f64, f64)> = (0..9)
            .rev()
            .map(|n| (f64::from(n), 2.0 - 0.5 * f64::from(n)))
            .collect();
        near(fit(&points), 2.0, -0.5);
        for wrong in 0..points.len() {
            let was = points[wrong].1;
            points[wrong].1 = 1000.0;
            let line = nearest(&points).unwrap();
            assert!((line.slope + 0.5).abs() < 1e-9, "{wrong}: {line:?}");
            points[wrong].1 = was;
        }
    }

    #[test]
    fn old_points_of_another_line_are_left_out() {
        // The clock gained one second in ten, and after a repair one in a hundred.
        let points: Vec<(f64, f64)> = (0..16)
            .rev()
            .map(|n| {
                let ago = f64::from(n) * 10.0;
                let noise = if n % 2 == 0 { 1e-3 } else { -1e-3 };
                let bent = (ago - 80.0).max(0.0) * 0.09;
                (ago, noise - 0.01 * ago - bent)
            })
            .collect();
        let line = fit(&points).unwrap();
        assert!((line.slope + 0.01).abs() < 1e-3, "{line:?}");
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        for (values, expected) in [
            (&[3.0, 1.0, 2.0][..], 2.0),
            (&[4.0, 1.0, 2.0, 3.0], 2.5),
            (&[7.0], 7.0),
        ] {
            assert!((median(values.iter().copied()) - expected).abs() < 1e-12);
        }
    }
}
