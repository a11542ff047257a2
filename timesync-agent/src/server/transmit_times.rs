//! When the answers of a batch leave.
//!
//! ```text
//!   received ┊ made 1 2 3 4 ┊ sent  1   2   3   4
//!            begin          one system call, in which each waits for those before it
//! ```
//!
//! An answer holds the time at which it leaves, and has to be signed before. So the time is foretold, from what making and sending
//! one has taken lately. Never does an answer say that it left much later than it did: its round trip would seem short, and
//! those are what clients believe most. So both are learned quickly where they are less and slowly where they are more.
//!
//! Reads no clock but through the function that it is given.

use daemon::udp::Turn;

use time_model::time::{Span, UnixTime};

/// Making or sending one takes no longer than this, in nanoseconds: a thread that lost its core says nothing of the next batch.
const LONGEST: i64 = 20_000;
/// The part of a difference to the last value that is adopted, one in this many, for a smaller and for a larger one.
const DOWN: i64 = 4;
const UP: i64 = 32;

/// The time that one takes, in 1/256 ns so that small steps are not lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost(i64);

impl Cost {
    /// This many together took this long.
    fn learn(&mut self, count: usize, elapsed: Span) {
        let count = i64::try_from(count).unwrap_or(i64::MAX).max(1);
        let one = (elapsed.0 / count).clamp(0, LONGEST) << 8;
        let difference = one - self.0;
        self.0 += difference / if difference < 0 { DOWN } else { UP };
    }

    fn of(self, count: usize) -> Span {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        Span(self.0.saturating_mul(count) >> 8)
    }
}

/// The averages of batches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TransmitTimes {
    /// When the first answer of this batch was made, and how many were since.
    begin: Option<(UnixTime, usize)>,
    /// Since when the kernel has the batch.
    handed_over: Option<UnixTime>,
    making: Cost,
    sending: Cost,
}

impl TransmitTimes {
    /// When an answer leaves that is made now. The clock is read once in a batch.
    pub(super) fn foretell(&mut self, turn: Turn, clock: impl FnOnce() -> UnixTime) -> UnixTime {
        let (begin, made) = self.begin.unwrap_or_else(|| (clock(), 0));
        self.begin = Some((begin, made + 1));
        let to_make = made.saturating_add(turn.to_answer);
        begin + self.making.of(to_make) + self.sending.of(turn.before)
    }

    /// This many are ready, and the kernel gets them now.
    pub(super) fn made(&mut self, now: UnixTime) {
        if let Some((begin, made)) = self.begin.take() {
            self.making.learn(made, now - begin);
        }
        self.handed_over = Some(now);
    }

    /// The kernel has sent this many.
    pub(super) fn sent(&mut self, count: usize, now: UnixTime) {
        if let Some(handed_over) = self.handed_over.take() {
            self.sending.learn(count, now - handed_over);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time_model::time::SECOND;

    const START: UnixTime = UnixTime(1_800_000_000 * SECOND);

    /// One batch in which making and sending one takes so many nanoseconds; how much later than foretold each left.
    fn batch(leaving: &mut TransmitTimes, n: usize, making: i64, sending: i64) -> Vec<i64> {
        let at = |made: usize, sent: usize| {
            let [made, sent] = [made, sent].map(|count| i64::try_from(count).unwrap());
            START + Span(made * making + sent * sending)
        };
        let foretold: Vec<UnixTime> = (0..n)
            .map(|before| {
                let turn = Turn {
                    before,
                    to_answer: n - before,
                };
                leaving.foretell(turn, || START)
            })
            .collect();
        leaving.made(at(n, 0));
        leaving.sent(n, at(n, n));
        let late = |(before, foretold): (usize, UnixTime)| (at(n, before) - foretold).0;
        foretold.into_iter().enumerate().map(late).collect()
    }

    #[test]
    fn what_batches_take_is_learned() {
        let mut leaving = TransmitTimes::default();
        let late = batch(&mut leaving, 64, 200, 4_000);
        assert_eq!(late.first(), Some(&(64 * 200)));
        assert_eq!(
            late.last(),
            Some(&(64 * 200 + 63 * 4_000)),
            "nothing is known"
        );
        for _ in 0..400 {
            batch(&mut leaving, 64, 200, 4_000);
        }
        for n in [1, 16, 64] {
            let late = batch(&mut leaving, n, 200, 4_000);
            assert!(late.iter().all(|late| (0..400).contains(late)), "{late:?}");
        }
    }

    #[test]
    fn noise_makes_it_early_rather_than_late() {
        let mut leaving = TransmitTimes::default();
        let mut late = Vec::new();
        for round in 0..2000_i64 {
            // From 3 to 7 µs, and one in a hundred loses its core for 2 ms.
            let sending = 3_000 + round * 7919 % 4_000;
            let sending = if round % 100 == 7 { 31_250 } else { sending };
            let batch = batch(&mut leaving, 64, 200, sending);
            if round >= 1000 {
                late.extend(batch.last().copied());
            }
        }
        late.sort_unstable();
        let [few, median] = [late[late.len() / 10], late[late.len() / 2]];
        // Without foretelling it would be 315 µs.
        assert!((0..100_000).contains(&median), "{median}");
        assert!(few > -60_000, "{few}");
    }

    #[test]
    fn no_batch_is_foretold_far_ahead() {
        let mut leaving = TransmitTimes::default();
        for _ in 0..1000 {
            batch(&mut leaving, 64, SECOND, SECOND);
        }
        let turn = Turn {
            before: 63,
            to_answer: 64,
        };
        let ahead = leaving.foretell(turn, || START) - START;
        assert!(ahead <= Span(127 * LONGEST), "{ahead:?}");
        // A clock that is set back takes all of it away.
        for _ in 0..100 {
            batch(&mut leaving, 64, -SECOND, -SECOND);
        }
        assert_eq!(leaving.foretell(turn, || START), START);
    }

    #[test]
    fn the_clock_is_read_once_in_a_batch() {
        let mut leaving = TransmitTimes::default();
        let turn = Turn::default();
        let mut readings = 0;
        for _ in 0..10 {
            leaving.foretell(turn, || {
                readings += 1;
                START
            });
        }
        leaving.made(START);
        leaving.sent(10, START);
        leaving.foretell(turn, || {
            readings += 1;
            START
        });
        assert_eq!(readings, 2);
    }
}
