//! The choice of a zone's server for the first query: one of the fast ones, at random, so that it cannot be foretold. One of
//! unknown speed counts as fast: the first query shows it.

use std::time::Duration;

/// Servers that are this much slower than the fastest are still among the fast ones.
const BAND: Duration = Duration::from_millis(20);
/// One query in this many goes to any server, so that one that has become faster is found.
const EXPLORATION: u64 = 16;

/// The order of servers with these usual round trips, best first. `chance` is random.
#[must_use]
pub fn by_speed(round_trips: &[Option<Duration>], chance: u64) -> Vec<usize> {
    let usual = |server: &usize| round_trips.get(*server).copied().flatten();
    let mut order: Vec<usize> = (0..round_trips.len()).collect();
    let mut random = chance / EXPLORATION;
    for left in (2..=order.len()).rev() {
        let pick = usize::try_from(random % left as u64).unwrap_or(0);
        random = random.rotate_right(13).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        order.swap(left - 1, pick);
    }
    if chance.is_multiple_of(EXPLORATION) {
        return order;
    }
    let best = order.iter().filter_map(usual).min().unwrap_or_default();
    let fast = (2 * best).max(best + BAND);
    // The sort is stable: among the fast ones chance decides.
    order.sort_by_key(|server| usual(server).filter(|time| *time > fast));
    order
}

#[cfg(test)]
mod tests {
    use dns_cache::testing::Random;

    use super::*;

    #[test]
    fn the_fast_ones_share_the_queries_and_the_slow_ones_get_few() {
        let times = [Some(300), Some(12), Some(30), None, Some(2_000)];
        let times = times.map(|time| time.map(Duration::from_millis));
        let mut random = Random(5);
        let mut firsts = [0; 5];
        for _ in 0..4_000 {
            let order = by_speed(&times, random.next());
            let mut all = order.clone();
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4]);
            firsts[order[0]] += 1;
        }
        for fast in [1, 2, 3] {
            assert!((1_000..1_600).contains(&firsts[fast]), "{firsts:?}");
        }
        for slow in [0, 4] {
            assert!((20..120).contains(&firsts[slow]), "{firsts:?}");
        }
    }

    #[test]
    fn there_may_be_none_or_one() {
        for chance in 0..40 {
            assert_eq!(by_speed(&[], chance), [0_usize; 0]);
            assert_eq!(by_speed(&[None], chance), [0]);
        }
    }
}
