//! Small drawings of the page, as SVG.

use std::fmt::Write as _;

use maud::{Markup, html};

use crate::trail::{OFFSETS, Outcome, RESULTS};

/// The height of a row of bars.
const BARS: f32 = 18.0;

/// The results of a target: a bar for each probe, as high as it took long; a bad one is red and of full height.
pub(super) fn results(results: &[Outcome]) -> Markup {
    let slowest = results.iter().filter(|one| one.good);
    let slowest = slowest.map(|one| one.seconds).fold(0.000_1, f32::max);
    let (mut good, mut bad) = (String::new(), String::new());
    for (place, one) in (RESULTS.saturating_sub(results.len())..).zip(results) {
        let x = place * 2 + 1;
        // Writing to a string cannot fail.
        let _written = match one.good {
            true => {
                let height = 3.0 + one.seconds / slowest * (BARS - 6.0);
                write!(good, "M{x} {BARS}v-{height:.0}")
            }
            false => write!(bad, "M{x} {BARS}v-{BARS}"),
        };
    }
    let n_bad = results.iter().filter(|one| !one.good).count();
    let words = format!("{} probes, {n_bad} of them bad", results.len());
    html! {
        svg.bars viewBox={ "0 0 " (RESULTS * 2) " " (BARS) } role="img" aria-label=(words) preserveAspectRatio="none" {
            path.good d=(good) {}
            path.bad d=(bad) {}
        }
    }
}

/// The offsets of a clock, in seconds: a line around zero, as high as the largest of them.
pub(super) fn offsets(offsets: &[f64]) -> Markup {
    let largest = offsets.iter().map(|offset| offset.abs());
    let largest = largest.filter(|one| one.is_finite()).fold(1e-9, f64::max);
    let mut line = String::new();
    for (place, offset) in (OFFSETS.saturating_sub(offsets.len())..).zip(offsets) {
        let y = 20.0 - offset / largest * 18.0;
        let letter = if line.is_empty() { 'M' } else { 'L' };
        let _written = write!(line, "{letter}{} {y:.1}", place * 2);
    }
    html! {
        svg.plot viewBox={ "0 0 " (OFFSETS * 2) " 40" } role="img" aria-label={ "offsets within " (time(largest)) } preserveAspectRatio="none" {
            path.zero d={ "M0 20H" (OFFSETS * 2) } {}
            path.line d=(line) {}
        }
        span.dim { "± " (time(largest)) }
    }
}

/// A time in the unit that suits it.
pub(super) fn time(seconds: f64) -> String {
    match seconds.abs() {
        size if size < 1e-3 => format!("{:.1} µs", seconds * 1e6),
        size if size < 1.0 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_result_is_at_the_right_and_a_bad_one_apart() {
        let one = |good, seconds| Outcome { good, seconds };
        let drawn = results(&[one(true, 0.001), one(false, 0.0), one(true, 0.002)]).into_string();
        assert!(drawn.contains("M115 18v-9M119 18v-15"), "{drawn}");
        assert!(drawn.contains("M117 18v-18"), "{drawn}");
        assert!(drawn.contains("3 probes, 1 of them bad"), "{drawn}");
    }

    #[test]
    fn offsets_stay_within_the_plot() {
        let drawn = offsets(&[0.001, -0.002, f64::NAN]).into_string();
        assert!(drawn.contains("M234 11.0L236 38.0"), "{drawn}");
        assert!(drawn.contains("± 2.0 ms"), "{drawn}");
    }

    #[test]
    fn times_have_the_unit_that_suits_them() {
        let cases = [
            (0.000_012, "12.0 µs"),
            (-0.0123, "-12.3 ms"),
            (2.0, "2.00 s"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(time(seconds), expected);
        }
    }
}
