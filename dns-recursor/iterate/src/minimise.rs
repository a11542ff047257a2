//! How much of a name a server learns (RFC 9156): the servers of a zone get a query for one label more than the zone has,
//! until the servers of the whole name are found.
//!
//! Relaxed: a response that is neither a referral nor an ordinary answer makes the resolver ask for the whole name, for there are servers
//! that deny names with nothing but other names below them (RFC 9156 §3).

/// The most queries before that for the whole name (RFC 9156 §2.3).
const MAX_STEPS: usize = 10;
/// The first of these, which add one label each.
const SINGLE_STEPS: usize = 4;

/// The number of labels of the next query, when the zone of the servers has `zone` labels, the query before had `asked`
/// (as many as the zone when there was none), it is the query number `step` from 0 for the name, and the name has `all`
/// labels. Never fewer than one more than `asked`, and never more than `all`.
#[must_use]
pub fn next(zone: usize, asked: usize, step: usize, all: usize) -> usize {
    let asked = asked.max(zone);
    let left = all.saturating_sub(asked);
    let more = match step {
        step if step < SINGLE_STEPS => 1,
        step if step < MAX_STEPS => left.div_ceil(MAX_STEPS - step),
        _ => left,
    };
    (asked + more.max(1)).min(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The labels of all queries for a name when no server refers any further.
    fn all_steps(zone: usize, all: usize) -> Vec<usize> {
        let mut steps = Vec::new();
        let mut asked = zone;
        while asked < all {
            asked = next(zone, asked, steps.len(), all);
            steps.push(asked);
        }
        steps
    }

    #[test]
    fn one_label_is_added_at_a_time_and_the_rest_in_few_steps() {
        for (zone, all, expected) in [
            (0, 1, vec![1]),
            (0, 3, vec![1, 2, 3]),
            (2, 3, vec![3]),
            (1, 6, vec![2, 3, 4, 5, 6]),
        ] {
            assert_eq!(all_steps(zone, all), expected, "{zone} {all}");
        }
        let deep = all_steps(2, 34);
        assert_eq!(deep[..4], [3, 4, 5, 6]);
        assert_eq!((deep.len(), deep.last()), (10, Some(&34)));
    }

    #[test]
    fn every_name_ends_within_the_bound() {
        for zone in 0..127 {
            for all in zone..128 {
                let steps = all_steps(zone, all);
                assert!(steps.len() <= MAX_STEPS, "{zone} {all}: {steps:?}");
                assert!(steps.windows(2).all(|pair| pair[0] < pair[1]));
                assert!(all == zone || steps.last() == Some(&all));
            }
        }
    }
}
