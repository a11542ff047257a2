//! The frequency of long intervals, for when sources are gone for as long: `fallbackdrift`.
//!
//! A frequency that was learned over an hour is best for an hour. A day later its error is that of the crystal's day, and a mean
//! over a day is nearer. So for each power of two of seconds a mean is kept, and once nothing was heard for so long, it is taken.

use time_model::settings::FallbackDrift;

/// Longer powers of two than this are centuries.
const LONGEST: i8 = 40;

/// Means over powers of two of seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Fallback {
    means: Vec<Mean>,
    /// How many of them were taken since the last update.
    n_taken: usize,
}

/// A mean.
#[derive(Clone, Copy, Debug)]
struct Mean {
    /// The length of the interval, in seconds.
    seconds: f64,
    frequency: f64,
    /// It was filled for so long.
    filled: f64,
}

impl Fallback {
    /// Means that are wanted; those that there were before are not kept.
    pub(super) fn new(settings: Option<FallbackDrift>) -> Self {
        let powers = settings
            .into_iter()
            .flat_map(|settings| settings.min.clamp(0, LONGEST)..=settings.max.clamp(0, LONGEST));
        let mean = |power: i8| Mean {
            seconds: f64::from(power).exp2(),
            frequency: 0.0,
            filled: 0.0,
        };
        Self {
            means: powers.map(mean).collect(),
            n_taken: 0,
        }
    }

    /// The clock was updated: for this many seconds the frequency was this.
    pub(super) fn update(&mut self, frequency: f64, seconds: f64) {
        self.n_taken = 0;
        if seconds <= 0.0 {
            return;
        }
        for mean in &mut self.means {
            // A plain mean until there is enough, then one that forgets.
            let filled = (mean.filled + seconds).min(mean.seconds);
            let part = if filled < mean.seconds {
                seconds / filled
            } else {
                1.0 - (-seconds / mean.seconds).exp()
            };
            mean.frequency += part.min(1.0) * (frequency - mean.frequency);
            mean.filled = filled;
        }
    }

    /// The frequency to continue with after this many seconds without a sample, if it differs from the one before.
    pub(super) fn take(&mut self, silent: f64) -> Option<f64> {
        let due = |mean: &&Mean| mean.seconds <= silent;
        let n_due = self.means.iter().take_while(due).count();
        if n_due <= self.n_taken {
            return None;
        }
        let fresh = self.means.get(self.n_taken..n_due)?;
        self.n_taken = n_due;
        // The longest interval with as much data.
        let whole = fresh.iter().rev().find(|mean| mean.filled >= mean.seconds);
        whole.map(|mean| mean.frequency)
    }

    /// After how many seconds of silence there is one.
    pub(super) fn next(&self) -> Option<f64> {
        self.means.get(self.n_taken).map(|mean| mean.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR_TO_SIX: Option<FallbackDrift> = Some(FallbackDrift { min: 4, max: 6 });

    #[test]
    fn without_it_the_last_frequency_stays() {
        let mut fallback = Fallback::new(None);
        fallback.update(1e-6, 1000.0);
        assert_eq!((fallback.next(), fallback.take(1e9)), (None, None));
    }

    #[test]
    fn the_longer_it_is_silent_the_longer_is_the_mean() {
        let mut fallback = Fallback::new(FOUR_TO_SIX);
        // A quarter of an hour of one, and at last half a minute of another.
        for _ in 0..450 {
            fallback.update(1e-6, 2.0);
        }
        for _ in 0..16 {
            fallback.update(3e-6, 2.0);
        }
        assert_eq!(fallback.next(), Some(16.0));
        assert_eq!(fallback.take(15.9), None);
        let taken: Vec<f64> = [16.0, 32.0, 64.0]
            .map(|silent| {
                let taken = fallback.take(silent).expect("it is due");
                assert_eq!(fallback.take(silent), None, "once");
                taken
            })
            .into();
        // What is left of the first after 32 s: e⁻², e⁻¹, e^-½.
        for (taken, left) in taken.iter().zip([0.1353, 0.3679, 0.6065]) {
            let expected = 3e-6 - 2e-6 * left;
            assert!((taken - expected).abs() < 1e-9, "{taken} {expected}");
        }
        assert_eq!(fallback.next(), None);
        // The next update begins anew.
        fallback.update(3e-6, 2.0);
        assert_eq!(fallback.next(), Some(16.0));
    }

    #[test]
    fn a_mean_that_has_not_seen_enough_is_not_taken() {
        let mut fallback = Fallback::new(FOUR_TO_SIX);
        for _ in 0..20 {
            fallback.update(1e-6, 2.0);
        }
        let taken = fallback.take(1000.0).expect("that of 32 s");
        assert!((taken - 1e-6).abs() < 1e-12, "{taken}");
        assert_eq!(fallback.take(2000.0), None);
    }
}
