//! Round trips of one source: the shortest, how much longer they usually are, and whether the way has changed.

use std::collections::VecDeque;

/// Round trips that are remembered one by one.
const RECENT: usize = 64;
/// Blocks of which the shortest round trip is remembered, so that the floor is known from a thousand of them.
const BLOCKS: usize = 16;
/// Pairs of a number of round trips and a number of spreads: this many round trips, all this far above the floor, mean a longer
/// path. Many for a little, few for a lot.
const CHANGES: [(usize, f64); 3] = [(4, 30.0), (16, 5.0), (RECENT, 1.5)];
/// Logarithm of the probability of a false alarm at one sample.
const CHANCE: f64 = -23.0;
/// Median excess of the sum of two exponential delays, in means of one of them.
const MEDIAN_OF_TWO: f64 = 1.678;
/// The assumed excess of a first round trip over the floor, as a part of it, before there is a second one to compare.
const FIRST_SPREAD: f64 = 0.1;

/// The floor has moved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moved {
    /// By how much the floor has moved.
    pub(super) by: f64,
    /// How many of the latest round trips are of another way; nothing if the way was only never known to be so short.
    pub(super) n: Option<usize>,
}

/// Round trips differ by as much, in seconds, whatever the way is like.
const LEAST_SPREAD: f64 = 1e-8;

/// Round trips of one source.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    /// The latest, the newest last.
    recent: VecDeque<f64>,
    /// Shortest few of each full block, the newest last.
    blocks: VecDeque<Shortest>,
    /// Shortest few of the block that is being filled, and how many it has.
    block: Option<(Shortest, usize)>,
    /// Given by the configuration.
    given: Option<f64>,
    /// The shortest of all that are remembered, but for those that have a wrong stamp.
    shortest: f64,
    /// How sure it is that one way alone waits.
    one_sided: f64,
    /// Their number.
    n: usize,
    /// Mean of what one of both ways adds, from the median.
    spread: f64,
    /// The floor before the latest few round trips, which may be of another path.
    usual: f64,
    /// The spread of the way that was taken before, until it is known of this one.
    carried: f64,
}

impl Path {
    pub(super) fn new(given: Option<f64>) -> Self {
        Self {
            given,
            ..Self::default()
        }
    }

    /// Takes a round trip. Says so if it shows that the way is another one, or that it was never known how short it is.
    /// `one_sided` is how sure it is that one way alone waits.
    pub(super) fn observe(&mut self, delay: f64, one_sided: f64) -> Option<Moved> {
        let before = (self.n > 0).then(|| (self.floor(), self.spread));
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        if self.n.is_multiple_of(16) {
            self.usual = self.spread;
        }
        self.recent.push_back(delay);
        self.one_sided = one_sided;
        let (mut shortest, n) = self.block.unwrap_or_default();
        let n = n + 1;
        shortest.take(delay);
        if n == RECENT {
            if self.blocks.len() == BLOCKS {
                self.blocks.pop_front();
            }
            self.blocks.push_back(shortest);
            self.block = None;
        } else {
            self.block = Some((shortest, n));
        }
        self.measure();
        let (before, spread) = before?;
        let changed = self.has_become_longer();
        let changed = changed.or_else(|| self.has_become_shorter(before, spread));
        if let Some(n) = changed {
            self.carried = spread;
            self.forget(n);
        }
        let by = self.floor() - before;
        let is_news = changed.is_some() || -by > 3.0 * self.floor_error();
        is_news.then_some(Moved { by, n: changed })
    }

    /// The way is shorter if the shortest round trips, which are no wrong stamps, are below the floor by more than they differ, and
    /// the latest is one of them. Gives how many of the latest say so.
    fn has_become_shorter(&self, before: f64, spread: f64) -> Option<usize> {
        let bound = before - GAP * spread.max(LEAST_SPREAD);
        if self.given.is_some() || self.n < TELLING || self.shortest > bound {
            return None;
        }
        let latest = self.recent.iter().rev();
        let n = latest.take_while(|delay| **delay <= bound).count();
        (n > 0).then_some(n)
    }

    /// The round trip without any waiting, estimated: the shortest of n is above it.
    pub(super) fn floor(&self) -> f64 {
        self.given
            .unwrap_or_else(|| (self.shortest - self.blend(FLOOR_SHIFT)).max(0.0))
    }

    /// Standard error of that.
    pub(super) fn floor_error(&self) -> f64 {
        if self.given.is_some() {
            return 0.0;
        }
        self.blend(FLOOR_ERROR)
    }

    /// Few round trips are near the floor if both ways wait, and distances are in spreads over the root of n. Most are if one
    /// does, and distances are in its mean over n.
    fn blend(&self, two: f64) -> f64 {
        let two = two * self.spread / self.count().sqrt();
        let one = MEDIAN_OF_TWO / std::f64::consts::LN_2 * self.spread / self.count();
        two + self.one_sided * (one.min(two) - two)
    }

    /// The floor that the configuration gives.
    pub(super) fn given(&self) -> Option<f64> {
        self.given
    }

    /// The shortest round trip.
    pub(super) fn shortest(&self) -> f64 {
        self.shortest
    }

    /// Mean of what one of both ways usually adds.
    pub(super) fn spread(&self) -> f64 {
        self.spread
    }

    /// The quantile of the round trips that are remembered one by one.
    fn quantile(&self, quantile: f64) -> f64 {
        let mut sorted: Vec<f64> = self.recent.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        nth(&sorted, quantile)
    }

    #[expect(clippy::cast_precision_loss, reason = "the number is below 2000")]
    fn count(&self) -> f64 {
        self.n.max(1) as f64
    }

    fn measure(&mut self) {
        let mut shortest = Shortest::default();
        for few in self
            .blocks
            .iter()
            .chain(self.block.as_ref().map(|(few, _)| few))
        {
            few.0.iter().for_each(|delay| shortest.take(*delay));
        }
        self.n = self.blocks.len() * RECENT + self.block.map_or(0, |(_, n)| n);
        let median = self.quantile(0.5);
        self.shortest = shortest.without_wrong(self.n, median);
        let spread = (median - self.shortest) / MEDIAN_OF_TWO;
        // One sample says nothing of the spread, a few say little.
        let first = FIRST_SPREAD * self.shortest / (self.count() * self.count());
        self.spread = spread.max(first);
        if self.n < TELLING {
            self.spread = self.spread.max(self.carried);
        }
    }

    /// The way is longer if round trips are above the floor together, which is no chance, and by more than they differ among
    /// themselves: soon if that is a lot, later if it is little. Congestion is not: it comes with round trips of all lengths.
    /// Gives how many of the latest say so.
    fn has_become_longer(&self) -> Option<usize> {
        if self.given.is_some() {
            return None;
        }
        CHANGES.into_iter().find_map(|(n, factor)| {
            if self.n < 2 * n || self.recent.len() < n {
                return None;
            }
            let mut last: Vec<f64> = self.recent.iter().rev().take(n).copied().collect();
            last.sort_by(f64::total_cmp);
            let shortest = nth(&last, 0.0);
            let own = ((nth(&last, 0.5) - shortest) / MEDIAN_OF_TWO).max(1e-9);
            let shift = shortest - self.shortest;
            // Two exponential delays are together above x means with probability (1 + x)·exp(−x).
            let x = shift / own.max(self.usual);
            #[expect(clippy::cast_precision_loss, reason = "a small number")]
            let chance = n as f64 * ((1.0 + x).ln() - x);
            (chance < CHANCE && shift > factor * own).then_some(n)
        })
    }

    /// Keeps what belongs to the way that is taken.
    fn forget(&mut self, kept: usize) {
        self.recent.drain(..self.recent.len().saturating_sub(kept));
        self.usual = 0.0;
        self.blocks.clear();
        let mut shortest = Shortest::default();
        self.recent.iter().for_each(|delay| shortest.take(*delay));
        self.block = Some((shortest, self.recent.len()));
        self.measure();
    }
}

/// The shortest that are remembered. All but the last may have a wrong stamp: one that is measured too short must not count for hours.
const FEW: usize = 3;
/// With fewer round trips than these, no gap between them says anything.
const TELLING: usize = 8;
/// The shortest of n is below the next one by more than this, in spreads over the root of n, with a probability of exp(−this²/2)
/// at most.
const GAP: f64 = 5.0;

/// The shortest few round trips, in order.
#[derive(Clone, Copy, Debug)]
struct Shortest([f64; FEW]);

impl Default for Shortest {
    fn default() -> Self {
        Self([f64::INFINITY; FEW])
    }
}

impl Shortest {
    fn take(&mut self, mut delay: f64) {
        for own in &mut self.0 {
            if delay < *own {
                std::mem::swap(own, &mut delay);
            }
        }
    }

    /// The shortest of `n`, but for those that the others are too far above: they have a wrong stamp, or are of a shorter way,
    /// of which more will come.
    #[expect(clippy::cast_precision_loss, reason = "the number is below 2000")]
    fn without_wrong(&self, n: usize, median: f64) -> f64 {
        let is_gap = |shorter: f64, longer: f64| {
            let spread = (median - longer) / MEDIAN_OF_TWO;
            longer - shorter > GAP * spread.max(LEAST_SPREAD) / (n as f64).sqrt()
        };
        let [first, second, third] = self.0;
        if n < TELLING {
            first
        } else if is_gap(second, third) {
            third
        } else if is_gap(first, second) {
            second
        } else {
            first
        }
    }
}

/// The shortest of n is above the floor by this, in spreads over the root of n: Γ(3/2)·√2.
const FLOOR_SHIFT: f64 = 1.253;
/// With this standard error: √(2 − π/2).
const FLOOR_ERROR: f64 = 0.655;

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "an index of a short list"
)]
fn nth(sorted: &[f64], quantile: f64) -> f64 {
    let index = (quantile * sorted.len() as f64) as usize;
    sorted
        .get(index.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0.0)
}
