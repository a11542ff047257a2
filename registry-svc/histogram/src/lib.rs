//! Histograms with the bounds that distribution has: a fixed table of atomics, so that counting
//! neither allocates nor waits.
//!
//! Never reads a clock: callers say how long something took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of durations in seconds; those of distribution.
pub const SECONDS: [f64; 13] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0,
];

/// The bounds are those of distribution: powers of two from 1 KiB to 2 GiB.
pub const SIZES: usize = 22;

/// One more than the largest table of bounds, for what is beyond.
const BUCKETS: usize = SIZES + 1;

/// A histogram.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

/// The counts of a histogram at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// How many fell between a bound and the one before.
    pub buckets: [u64; BUCKETS],
    /// Their sum: octets, or microseconds.
    pub sum: u64,
}

impl Histogram {
    /// Counts a duration.
    pub fn time(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let at = SECONDS.iter().position(|bound| seconds <= *bound);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.add(at.unwrap_or(SECONDS.len()), micros);
    }

    /// Counts a size.
    pub fn size(&self, octets: u64) {
        // The bound of bucket n is 2^(10 + n).
        let bits = 64 - octets.saturating_sub(1).leading_zeros();
        let at = usize::try_from(bits.saturating_sub(10)).unwrap_or(SIZES);
        self.add(at.min(SIZES), octets);
    }

    fn add(&self, at: usize, value: u64) {
        if let Some(bucket) = self.buckets.get(at) {
            bucket.fetch_add(1, Ordering::Relaxed);
            self.sum.fetch_add(value, Ordering::Relaxed);
        }
    }

    /// The counts.
    #[must_use]
    pub fn read(&self) -> Distribution {
        let mut distribution = Distribution {
            sum: self.sum.load(Ordering::Relaxed),
            ..Distribution::default()
        };
        for (to, from) in distribution.buckets.iter_mut().zip(&self.buckets) {
            *to = from.load(Ordering::Relaxed);
        }
        distribution
    }
}

impl Distribution {
    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fall_below_their_bound() {
        for (octets, bucket) in [
            (0, 0),
            (1, 0),
            (1024, 0),
            (1025, 1),
            (2048, 1),
            (1 << 31, 21),
            ((1 << 31) + 1, 22),
            (u64::MAX, 22),
        ] {
            let histogram = Histogram::default();
            histogram.size(octets);
            assert_eq!(histogram.read().buckets[bucket], 1, "{octets}");
        }
        let histogram = Histogram::default();
        histogram.time(Duration::from_secs(61));
        histogram.time(Duration::from_millis(5));
        let read = histogram.read();
        assert_eq!((read.buckets[SECONDS.len()], read.buckets[0]), (1, 1));
    }
}
