//! The order in which content is fetched.
//!
//! Small content is on its way within a round trip, so it never waits for a place that large content has. Within a
//! class the earlier goes first, but a digest lets one later digest pass for each mebibyte that it has: a large
//! one waits longer than a small one, and never for ever.

use std::collections::BTreeSet;

use oci::digest::Digest;

/// The size up to which content is small: its transfer takes no longer than a few round trips.
const SMALL: u64 = 1 << 20;

/// The size up to which it is of a middle size.
const MIDDLE: u64 = 64 << 20;

/// How large content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A manifest, a configuration, a small layer.
    Small,
    /// A layer as most are, and content of unknown size.
    Middle,
    /// A layer that takes long.
    Large,
}

impl Class {
    /// The class of content of this size.
    #[must_use]
    pub fn of(size: u64) -> Self {
        if size <= SMALL {
            Self::Small
        } else if size <= MIDDLE {
            Self::Middle
        } else {
            Self::Large
        }
    }
}

/// The digests to ask for, and the number of those that run.
#[derive(Debug, Default)]
pub(super) struct FetchQueue {
    small: Lane,
    middle: Lane,
    large: Lane,
    n_added: u64,
}

#[derive(Debug, Default)]
struct Lane {
    /// By their turns.
    waiting: BTreeSet<(u64, Digest)>,
    n_running: usize,
}

impl FetchQueue {
    pub(super) fn add(&mut self, digest: Digest, class: Class, size: Option<u64>) {
        self.n_added += 1;
        let turn = self.n_added.saturating_add(size.unwrap_or(0) / SMALL);
        self.lane(class).waiting.insert((turn, digest));
    }

    /// The next digest, when fewer than `most` run; a class leaves half of the places to the smaller ones.
    pub(super) fn next(&mut self, most: usize) -> Option<(Digest, Class)> {
        let large = self.large.n_running;
        let middle = large + self.middle.n_running;
        let all = middle + self.small.n_running;
        if all >= most {
            return None;
        }
        let lanes = [
            (&mut self.small, Class::Small, true),
            (&mut self.middle, Class::Middle, middle < (most / 2).max(1)),
            (&mut self.large, Class::Large, large < (most / 4).max(1)),
        ];
        for (lane, class, has_place) in lanes {
            if has_place && let Some((_, digest)) = lane.waiting.pop_first() {
                return Some((digest, class));
            }
        }
        None
    }

    /// One of a class runs now.
    pub(super) fn begun(&mut self, class: Class) {
        self.lane(class).n_running += 1;
    }

    pub(super) fn ended(&mut self, class: Class) {
        self.lane(class).n_running -= 1;
    }

    fn lane(&mut self, class: Class) -> &mut Lane {
        match class {
            Class::Small => &mut self.small,
            Class::Middle => &mut self.middle,
            Class::Large => &mut self.large,
        }
    }
}

#[cfg(test)]
mod tests {
    use oci::digest::Algorithm;

    use super::*;

    #[test]
    fn small_content_goes_first_and_large_content_waits_but_not_for_ever() {
        let digest = |name: u64| Digest::of(Algorithm::Sha256, &name.to_le_bytes());
        let mut wanted = FetchQueue::default();
        let mut add = |name: u64, size: u64| wanted.add(digest(name), Class::of(size), Some(size));
        add(0, 3 * MIDDLE);
        add(1, 2 * MIDDLE);
        add(2, 3 * SMALL);
        add(3, 2 * SMALL);
        (4..8).for_each(|name| add(name, SMALL));
        let mut started = Vec::new();
        while let Some((digest, class)) = wanted.next(4) {
            wanted.begun(class);
            started.push(digest);
        }
        assert_eq!(started, [4, 5, 6, 7].map(digest));
        (0..4).for_each(|_| wanted.ended(Class::Small));
        // Half of the places are for what is larger; the smaller of two that came together is first.
        for (name, class) in [(3, Class::Middle), (2, Class::Middle)] {
            assert_eq!(wanted.next(4), Some((digest(name), class)));
            wanted.begun(class);
        }
        wanted.ended(Class::Middle);
        wanted.ended(Class::Middle);
        assert_eq!(wanted.next(4), Some((digest(1), Class::Large)));
        // Later ones overtake a large one only so often.
        let mut wanted = FetchQueue::default();
        wanted.add(digest(0), Class::Middle, Some(5 * SMALL));
        let mut n_before = 0;
        loop {
            n_before += 1;
            wanted.add(digest(n_before), Class::Middle, Some(2 * SMALL));
            let (next, _) = wanted.next(4).unwrap();
            if next == digest(0) {
                break;
            }
        }
        assert!(n_before <= 5, "{n_before}");
    }
}
