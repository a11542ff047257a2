//! Counters of one target's probes.

use std::time::Duration;

/// Upper bounds of the buckets of probe durations, in seconds; longer ones are in the bucket `+Inf`.
pub const BOUNDS: [f64; 9] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 2.5];

/// Counts of probes, since healthd started or the target was first stated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Probes by duration; the last bucket holds those beyond every bound.
    pub buckets: [u64; BOUNDS.len() + 1],
    /// The sum of all durations.
    pub total: Duration,
    /// Changes of liveness.
    pub n_transitions: u64,
}

impl Counts {
    /// Counts a probe that took so long.
    pub fn count(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        let place = BOUNDS.iter().position(|bound| seconds <= *bound);
        let place = place.unwrap_or(BOUNDS.len());
        if let Some(bucket) = self.buckets.get_mut(place) {
            *bucket += 1;
        }
        self.total = self.total.saturating_add(took);
    }

    /// How many probes there were.
    #[must_use]
    pub fn n_probes(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_falls_into_the_first_bucket_that_holds_it() {
        let mut counts = Counts::default();
        for micros in [0, 1_000, 1_001, 2_500_000, 2_500_001, u64::MAX] {
            counts.count(Duration::from_micros(micros));
        }
        assert_eq!(counts.buckets, [2, 1, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(counts.n_probes(), 6);
    }
}
