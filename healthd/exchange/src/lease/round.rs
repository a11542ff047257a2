//! One round: a request to every voter, and what they have answered.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Answer, Kind, LONGEST_TERM, Voter, round_time};

/// The request of a candidate to every voter, and their answers.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) number: u64,
    pub(super) kind: Kind,
    pub(super) counter: u64,
    pub(super) term: Duration,
    pub(super) sent: Instant,
    pub(super) answers: BTreeMap<Voter, Vote>,
    /// When the first grant to another node ends, of those that voters have named.
    pub(super) free_at: Option<Instant>,
}

/// A voter's answer, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vote {
    Granted,
    /// A higher ballot could have it.
    Outbid,
    Held,
    Abstained,
}

impl Round {
    pub(super) fn note(&mut self, voter: Voter, answer: &Answer, now: Instant) {
        let vote = match answer {
            Answer::Granted { .. } => Vote::Granted,
            Answer::Held { left, .. } => {
                let soonest = now + round_time(self.term) / 16;
                let end = soonest.max(now + (*left).min(LONGEST_TERM));
                self.free_at = Some(self.free_at.map_or(end, |known| known.min(end)));
                Vote::Held
            }
            Answer::Outbid { .. } => Vote::Outbid,
            Answer::Abstained => Vote::Abstained,
        };
        self.answers.insert(voter, vote);
    }

    pub(super) fn count(&self, vote: Vote) -> usize {
        self.answers.values().filter(|of| **of == vote).count()
    }

    /// How many voters could grant this, or a higher ballot.
    pub(super) fn n_open(&self) -> usize {
        self.count(Vote::Granted) + self.count(Vote::Outbid)
    }
}
