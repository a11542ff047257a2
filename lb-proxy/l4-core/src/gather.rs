//! When what a bulk flow brings is gathered in the kernel, so that it is moved in fewer, larger rounds.
//!
//! A sender at full speed wakes its worker for every 64 KiB. With a low-water mark on the source
//! (`SO_RCVLOWAT`) the kernel reports only once that much has arrived, or the end, an error, or a window
//! that closes; the octets that arrived are acknowledged all the same. The worker itself fetches
//! octets below the mark after [`FETCH_DELAY`], and the mark is taken away: the flow was not as steady as it
//! seemed, and has to prove it for twice as long the next time. So a flow of messages waits a few times
//! in all, however long it lives, and one that is held up now and then is gathered most of the time.

use std::time::Duration;

/// The low-water mark, in octets: eight of the largest units the kernel passes on at once.
pub const MARK: i32 = 512 << 10;

/// How long what is below the mark may wait: a flow of a Gbit/s reaches the mark in that time.
pub const FETCH_DELAY: Duration = Duration::from_millis(5);

/// This many KiB through pipes prove a flow steady.
const STEADY: u32 = 16 << 10;

/// Octets moved with the mark make up for a miss once they are this many times those that proved it.
const REWARD: u32 = 16;

/// Proofs that failed after which it takes no longer: 16 GiB.
const MOST_MISSES: u8 = 10;

/// The pace of one flow, as far as it is known.
#[derive(Debug, Default)]
pub struct Gathering {
    /// KiB moved since the mark was last set or taken away.
    run: u32,
    is_on: bool,
    /// How often the mark was waited for in vain.
    misses: u8,
}

impl Gathering {
    /// Counts what one round brought; true when the mark is to be set now.
    #[inline]
    pub fn count(&mut self, octets: usize) -> bool {
        let kib = u32::try_from(octets >> 10).unwrap_or(u32::MAX);
        self.run = self.run.saturating_add(kib);
        if self.is_on || self.run < self.proof() {
            return false;
        }
        self.run = 0;
        self.is_on = true;
        true
    }

    /// KiB that prove it steady.
    fn proof(&self) -> u32 {
        STEADY << self.misses
    }

    /// True while the kernel reports only what reaches the mark.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Begins again, as the octets no longer come in bulk; true when the mark is to be taken away.
    #[inline]
    pub fn stop(&mut self) -> bool {
        self.run = 0;
        std::mem::take(&mut self.is_on)
    }

    /// The mark was not reached in time; true when it is to be taken away.
    #[inline]
    pub fn miss(&mut self) -> bool {
        if self.is_on && self.run < self.proof().saturating_mul(REWARD) {
            self.misses = MOST_MISSES.min(self.misses + 1);
        }
        self.stop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of 64 KiB until the mark is set.
    fn rounds(gathering: &mut Gathering) -> u32 {
        let mut rounds = 1;
        while !gathering.count(64 << 10) {
            rounds += 1;
        }
        rounds
    }

    #[test]
    fn each_miss_doubles_the_proof_up_to_a_bound() {
        let mut gathering = Gathering::default();
        let proofs: Vec<u32> = (0..13)
            .map(|_| {
                let proof = rounds(&mut gathering);
                assert!(gathering.is_on());
                assert!(!gathering.count(1 << 20), "set once");
                assert!(gathering.miss());
                assert!(!gathering.is_on());
                proof
            })
            .collect();
        let expected: Vec<u32> = (0..13).map(|miss: u32| 256 << miss.min(10)).collect();
        assert_eq!(proofs, expected);
    }

    #[test]
    fn a_long_run_with_the_mark_makes_up_for_a_miss() {
        let mut gathering = Gathering::default();
        for _ in 0..3 {
            assert_eq!(rounds(&mut gathering), 256);
            for _ in 0..256 {
                assert!(!gathering.count(1 << 20));
            }
            assert!(gathering.miss());
        }
        assert_eq!(rounds(&mut gathering), 256);
        assert!(!gathering.count(255 << 20));
        assert!(gathering.miss());
        assert_eq!(rounds(&mut gathering), 512);
    }

    #[test]
    fn a_flow_that_is_no_longer_bulk_begins_anew_without_a_miss() {
        let mut gathering = Gathering::default();
        assert!(!gathering.count(15 << 20));
        assert!(!gathering.stop(), "nothing was set");
        assert!(!gathering.count(15 << 20));
        assert!(gathering.count(1 << 20));
        assert!(gathering.stop());
        assert!(!gathering.miss(), "nothing was set");
        assert_eq!(rounds(&mut gathering), 256);
    }
}
