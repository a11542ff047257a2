//! Round trips of one source, for `maxdelayquant`: those of samples that were refused, too. If only those counted that it has let
//! pass, it would let pass ever fewer.

use std::collections::VecDeque;

/// This many are remembered.
const RECENT: usize = 64;

/// The latest round trips, in seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Delays(VecDeque<f64>);

impl Delays {
    pub(super) fn remember(&mut self, delay: f64) {
        if self.0.len() == RECENT {
            self.0.pop_front();
        }
        self.0.push_back(delay);
    }

    /// Whether more than such a part of them is shorter.
    #[expect(clippy::cast_precision_loss, reason = "numbers below a hundred")]
    pub(super) fn is_above(&self, quantile: f64, delay: f64) -> bool {
        let n_shorter = self.0.iter().filter(|other| **other < delay).count();
        n_shorter as f64 > quantile * self.0.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_latest_so_many_may_be_shorter() {
        let mut delays = Delays::default();
        assert!(!delays.is_above(0.05, 9.0));
        for delay in (0..1000).map(f64::from) {
            delays.remember(delay);
        }
        for (quantile, last) in [(0.05, 939.0), (0.5, 968.0), (0.95, 996.0)] {
            assert!(!delays.is_above(quantile, last), "{quantile}");
            assert!(delays.is_above(quantile, last + 1.0), "{quantile}");
        }
        // A path without jitter has nothing that is too long.
        for _ in 0..RECENT {
            delays.remember(7.0);
        }
        assert!(!delays.is_above(0.05, 7.0));
    }
}
