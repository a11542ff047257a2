//! How often one client is answered: chrony's `ratelimit`.
//!
//! A bucket holds time: an answer costs the interval, and the bucket holds as many intervals as a burst has answers. Requests
//! above the limit are dropped, but for a random part of them: otherwise a sender that forges the address of a client could
//! keep the client from every answer.

use random::Random;
use time_model::settings::RateLimit;
use time_model::time::{SECOND, Span};

/// The longest interval, as a power of two in seconds; with [`LONGEST_BURST`] a bucket still fits.
const LONGEST_INTERVAL: i8 = 12;
/// The shortest interval, as a power of two in seconds.
const SHORTEST_INTERVAL: i8 = -19;
/// The longest burst.
const LONGEST_BURST: u32 = 255;

/// The verdict on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// An answer.
    Answer,
    /// To be told to ask less often.
    Kiss,
    /// Nothing.
    Drop,
}

/// A limit in the units of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    cost: i64,
    capacity: i64,
    leak: u32,
    kod: u32,
}

/// The remaining allowance of a client, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bucket(i64);

impl Bucket {
    pub(super) const EMPTY: Self = Self(0);
}

impl Limit {
    /// `usual` is the interval of a limit that has none of its own.
    pub(super) fn new(limit: &RateLimit, usual: i8) -> Self {
        let interval = limit
            .interval
            .unwrap_or(usual)
            .clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
        let cost = if interval >= 0 {
            SECOND << interval
        } else {
            SECOND >> -interval
        };
        let burst = limit.burst.clamp(1, LONGEST_BURST);
        Self {
            cost,
            capacity: cost * i64::from(burst),
            leak: limit.leak,
            kod: limit.kod,
        }
    }

    /// The allowance of a new client.
    pub(super) fn full(&self) -> Bucket {
        Bucket(self.capacity)
    }

    /// Decides on a request that comes `elapsed` after the one before it. `is_impatient`: the client asks more often when it is not
    /// answered, so that it is cheaper to answer most of the time.
    pub(super) fn decide(
        &self,
        bucket: &mut Bucket,
        elapsed: Span,
        is_impatient: bool,
        random: &mut Random,
    ) -> Verdict {
        // A clock that was set back gives nothing.
        bucket.0 = bucket.0.saturating_add(elapsed.0.max(0)).min(self.capacity);
        if bucket.0 >= self.cost {
            bucket.0 -= self.cost;
            return Verdict::Answer;
        }
        if one_in(random, self.leak) != is_impatient {
            bucket.0 = 0;
            return Verdict::Answer;
        }
        if self.kod > 0 && one_in(random, self.kod) {
            return Verdict::Kiss;
        }
        Verdict::Drop
    }
}

/// True once in two to the power of `log2` times on average.
fn one_in(random: &mut Random, log2: u32) -> bool {
    let mask = 1_u64.checked_shl(log2).map_or(u64::MAX, |bound| bound - 1);
    random.bits() & mask == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: RateLimit = RateLimit {
        interval: Some(3),
        burst: 8,
        leak: 2,
        kod: 0,
    };

    /// How many of `n` requests, `gap` apart, are answered, told off, dropped.
    fn count(limit: &RateLimit, n: u32, gap: Span, is_impatient: bool) -> [u32; 3] {
        let limit = Limit::new(limit, RateLimit::REQUESTS);
        let mut bucket = limit.full();
        let mut random = Random::new([42; 16]);
        let mut counts = [0; 3];
        for _ in 0..n {
            let index = match limit.decide(&mut bucket, gap, is_impatient, &mut random) {
                Verdict::Answer => 0,
                Verdict::Kiss => 1,
                Verdict::Drop => 2,
            };
            counts[index] += 1;
        }
        counts
    }

    #[test]
    fn a_burst_is_answered_and_then_the_leak() {
        let never_leaks = RateLimit { leak: 40, ..LIMIT };
        assert_eq!(count(&never_leaks, 100, Span::ZERO, false), [8, 0, 92]);
        let [answered, _, dropped] = count(&LIMIT, 100_008, Span::ZERO, false);
        assert_eq!(answered + dropped, 100_008);
        assert!(
            (24_500..25_500).contains(&answered),
            "a quarter leaks: {answered}"
        );
    }

    #[test]
    fn whoever_keeps_to_the_interval_is_always_answered() {
        assert_eq!(count(&LIMIT, 1000, Span(8 * SECOND), false), [1000, 0, 0]);
        let never_leaks = RateLimit { leak: 40, ..LIMIT };
        // Twice as often: a burst of 8 is spent after 15, then each other one.
        let [answered, _, _] = count(&never_leaks, 1000, Span(4 * SECOND), false);
        assert_eq!(answered, 500 + 7);
        assert_eq!(
            count(&never_leaks, 100, Span(-SECOND), false),
            [8, 0, 92],
            "set back"
        );
    }

    #[test]
    fn the_impatient_are_answered_mostly() {
        let [answered, _, _] = count(&LIMIT, 100_008, Span::ZERO, true);
        assert!((74_500..75_500).contains(&answered), "{answered}");
    }

    #[test]
    fn some_of_the_dropped_get_a_kiss() {
        let limit = RateLimit {
            leak: 40,
            kod: 2,
            ..LIMIT
        };
        let [answered, kissed, dropped] = count(&limit, 100_008, Span::ZERO, false);
        assert_eq!(answered, 8);
        assert!((24_500..25_500).contains(&kissed), "{kissed}");
        assert_eq!(kissed + dropped, 100_000);
    }

    #[test]
    fn no_setting_is_out_of_range() {
        for interval in [i8::MIN, -20, 0, 12, i8::MAX] {
            for burst in [0, 1, 255, u32::MAX] {
                let limit = RateLimit {
                    interval: Some(interval),
                    burst,
                    leak: u32::MAX,
                    kod: u32::MAX,
                };
                let limit = Limit::new(&limit, RateLimit::REQUESTS);
                assert!(limit.cost > 0 && limit.capacity >= limit.cost);
                let mut bucket = limit.full();
                let mut random = Random::new([1; 16]);
                let verdict = limit.decide(&mut bucket, Span(i64::MAX), false, &mut random);
                assert_eq!(verdict, Verdict::Answer);
            }
        }
    }
}
