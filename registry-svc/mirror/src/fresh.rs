//! The memory of an upstream: when a tag was last found current, and when no response came.
//!
//! Decides from the time that it is given, and never looks at a clock.

use std::collections::BTreeMap;
use std::time::Duration;

use daemon::Backoff;
use oci::digest::Digest;
use oci::reference::{RepositoryName, Tag};
use tokio::time::Instant;

/// The most tags in memory. The mirror requests a forgotten one again.
const MAX_TAGS: usize = 100_000;
/// How long an upstream that did not answer is left alone.
const PAUSES: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(60));

/// Tags by when they were last found to be current.
#[derive(Debug, Default)]
pub(super) struct Tags {
    seen: BTreeMap<(RepositoryName, Tag), Seen>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// The tag's target.
    pub(super) digest: Digest,
    /// When.
    pub(super) at: Instant,
}

impl Tags {
    /// Notes what a tag points to now.
    pub(super) fn note(
        &mut self,
        repository: &RepositoryName,
        tag: &Tag,
        digest: Digest,
        now: Instant,
    ) {
        if self.seen.len() >= MAX_TAGS {
            self.seen.clear();
        }
        let key = (repository.clone(), tag.clone());
        self.seen.insert(key, Seen { digest, at: now });
    }

    /// The last target of a tag, if it is not older than `ttl`.
    pub(super) fn current(
        &self,
        repository: &RepositoryName,
        tag: &Tag,
        ttl: Duration,
        now: Instant,
    ) -> Option<Digest> {
        let seen = self.last(repository, tag)?;
        (now.saturating_duration_since(seen.at) < ttl).then_some(seen.digest)
    }

    /// The last known target of a tag.
    pub(super) fn last(&self, repository: &RepositoryName, tag: &Tag) -> Option<Seen> {
        self.seen.get(&(repository.clone(), tag.clone())).copied()
    }
}

/// Whether an upstream answers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UpstreamState {
    n_failures: u32,
    until: Option<Instant>,
}

impl UpstreamState {
    /// Whether it is worth asking.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now >= until)
    }

    /// It answered.
    pub(super) fn answered(&mut self) {
        *self = Self::default();
    }

    /// The upstream did not answer, which may continue: clients should not wait for that again and
    /// again.
    pub(super) fn failed(&mut self, now: Instant) {
        self.n_failures = self.n_failures.saturating_add(1);
        // All clients of the mirror share the pause: there is nothing to spread.
        self.until = Some(now + PAUSES.after(self.n_failures, 0.0));
    }
}

#[cfg(test)]
mod tests {
    use oci::digest::Algorithm;

    use super::*;

    #[test]
    fn a_tag_is_current_for_a_time() {
        let mut tags = Tags::default();
        let name: RepositoryName = "a".parse().unwrap();
        let tag: Tag = "1".parse().unwrap();
        let digest = Digest::of(Algorithm::Sha256, b"");
        let start = Instant::now();
        let ttl = Duration::from_secs(10);
        assert_eq!(tags.current(&name, &tag, ttl, start), None);
        tags.note(&name, &tag, digest, start);
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(tags.current(&name, &tag, ttl, after(9)), Some(digest));
        assert_eq!(tags.current(&name, &tag, ttl, after(10)), None);
        assert_eq!(tags.last(&name, &tag).map(|seen| seen.digest), Some(digest));
        assert_eq!(tags.current(&name, &tag, Duration::ZERO, start), None);
    }

    #[test]
    fn who_does_not_answer_is_left_alone_for_longer_each_time() {
        let mut state = UpstreamState::default();
        let start = Instant::now();
        assert!(state.is_open(start));
        let mut pauses = Vec::new();
        for _ in 0..8 {
            state.failed(start);
            let pause = (0..=120)
                .find(|seconds| state.is_open(start + Duration::from_secs(*seconds)))
                .unwrap();
            pauses.push(pause);
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60, 60]);
        state.answered();
        assert!(state.is_open(start));
    }
}
