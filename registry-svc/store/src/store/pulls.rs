//! Whether content is read through the page cache, or past it.
//!
//! Most content is pulled once by each node. The page cache would take memory from the node for it, at several times the cost of
//! the pull on a virtual machine whose host has yet to provide it. Content that is pulled again, or by several clients at once, is worth that.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use oci::digest::Digest;
use parking_lot::Mutex;

use super::cache::Cache;

/// Pulls of the same content that go past the page cache, before it is kept there.
const PAST_CACHE: u32 = 2;

/// Content whose pulls are counted, at most. Content that was pulled before that counts as never pulled.
const MOST_COUNTED: usize = 8192;

/// The reason of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A client pulls it.
    Pull,
    /// It is copied to another node or into an archive, once.
    Copy,
}

/// The pulls of a store.
#[derive(Debug)]
pub(super) struct Pulls(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Pulls that have not ended, of each content.
    under_way: HashMap<Digest, usize>,
    /// Pulls that began, of each content.
    begun: Cache<Digest, u32>,
}

/// A read that has not ended.
#[derive(Debug)]
pub(super) struct Pull {
    /// Whether it reads past the page cache.
    pub(super) is_past_cache: bool,
    /// Counts it; none for a copy.
    _in_flight: Option<InFlight>,
}

/// A pull among those of its content that have not ended.
#[derive(Debug)]
struct InFlight(Arc<Pulls>, Digest);

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        if let Some(number) = state.under_way.get_mut(&self.1) {
            *number -= 1;
            if *number == 0 {
                state.under_way.remove(&self.1);
            }
        }
    }
}

impl Pulls {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State {
            under_way: HashMap::new(),
            begun: Cache::new(MOST_COUNTED),
        }))
    }

    /// Begins to read a part of content.
    pub(super) fn begin(
        self: &Arc<Self>,
        digest: Digest,
        part: &Range<u64>,
        purpose: Purpose,
    ) -> Pull {
        let mut state = self.0.lock();
        let begun = state.begun.find(&digest).unwrap_or(0);
        let (mut is_past_cache, mut in_flight) = (begun < PAST_CACHE, None);
        if purpose == Purpose::Pull {
            let under_way = state.under_way.entry(digest).or_insert(0);
            is_past_cache &= *under_way == 0;
            *under_way += 1;
            // A pull that is resumed, or comes in parts, is one pull.
            if part.start == 0 {
                state.begun.insert(digest, begun.saturating_add(1), 1);
            }
            in_flight = Some(InFlight(Arc::clone(self), digest));
        }
        Pull {
            is_past_cache,
            _in_flight: in_flight,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Range<u64> = 0..1000;

    fn digest(text: &str) -> Digest {
        Digest::of(oci::digest::Algorithm::Sha256, text.as_bytes())
    }

    fn ways(pulls: &Arc<Pulls>, digest: Digest, part: &Range<u64>, purpose: Purpose) -> Vec<bool> {
        let way = |_| pulls.begin(digest, part, purpose).is_past_cache;
        (0..4).map(way).collect()
    }

    #[test]
    fn the_third_pull_brings_content_into_the_page_cache() {
        let pulls = Arc::new(Pulls::new());
        let (a, b) = (digest("a"), digest("b"));
        assert_eq!(
            ways(&pulls, a, &ALL, Purpose::Pull),
            [true, true, false, false]
        );
        assert_eq!(
            ways(&pulls, b, &ALL, Purpose::Pull),
            [true, true, false, false]
        );
        assert!(pulls.0.lock().under_way.is_empty());
    }

    #[test]
    fn parts_of_a_pull_and_copies_are_not_counted_as_pulls() {
        let pulls = Arc::new(Pulls::new());
        let a = digest("a");
        assert_eq!(ways(&pulls, a, &(5..1000), Purpose::Pull), [true; 4]);
        assert_eq!(ways(&pulls, a, &ALL, Purpose::Copy), [true; 4]);
        assert_eq!(
            ways(&pulls, a, &ALL, Purpose::Pull),
            [true, true, false, false]
        );
        assert_eq!(
            ways(&pulls, a, &ALL, Purpose::Copy),
            [false; 4],
            "it is in the page cache"
        );
    }

    #[test]
    fn pulls_at_once_share_the_page_cache() {
        let pulls = Arc::new(Pulls::new());
        let a = digest("a");
        let first = pulls.begin(a, &ALL, Purpose::Pull);
        let copy = pulls.begin(a, &ALL, Purpose::Copy);
        let second = pulls.begin(a, &ALL, Purpose::Pull);
        assert!(first.is_past_cache && copy.is_past_cache);
        assert!(!second.is_past_cache);
        let other = pulls.begin(digest("b"), &ALL, Purpose::Pull);
        assert!(other.is_past_cache);
    }
}
