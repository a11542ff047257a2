//! The processors that a service may keep busy.

use std::fs;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::thread::available_parallelism;

use rustix::thread::{CpuSet, sched_getaffinity};

/// Processors that the kernel keeps free of everything that is not put there on purpose.
const ISOLATED: &str = "/sys/devices/system/cpu/isolated";

/// The number of processors that this process may use and that are not isolated, at least one.
#[must_use]
pub fn usable() -> usize {
    let allowed = available_parallelism().map_or(1, NonZeroUsize::get);
    // Without the file, or the answer, nothing is isolated.
    let isolated = fs::read_to_string(ISOLATED).unwrap_or_default();
    let Ok(set) = sched_getaffinity(None) else {
        return allowed;
    };
    let own = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    allowed.min(n_shared(own, &isolated))
}

/// The number of processors that are not in a list, at least one.
fn n_shared(own: impl Iterator<Item = usize>, isolated: &str) -> usize {
    let isolated: Vec<RangeInclusive<usize>> = isolated.split(',').filter_map(range).collect();
    let is_shared = |cpu: &usize| !isolated.iter().any(|range| range.contains(cpu));
    own.filter(is_shared).count().max(1)
}

/// `3` or `2-5`.
fn range(text: &str) -> Option<RangeInclusive<usize>> {
    let text = text.trim();
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isolated_processors_are_left_out() {
        for (isolated, expected) in [
            ("", 8),
            ("\n", 8),
            ("2-5\n", 4),
            ("1,3-4,7\n", 4),
            ("8-63\n", 8),
            ("0-7\n", 1),
            ("x,2\n", 7),
        ] {
            assert_eq!(n_shared(0..8, isolated), expected, "{isolated:?}");
        }
        assert_eq!(n_shared([0, 2, 4].into_iter(), "1-2"), 2);
    }

    #[test]
    fn there_is_always_one() {
        let allowed = available_parallelism().map_or(1, NonZeroUsize::get);
        assert!((1..=allowed).contains(&usable()));
    }
}
