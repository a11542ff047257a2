//! When a write is safe on enough nodes to tell the client so.
//!
//! Each peer that follows this node's journal says how far it is on disk. A write is acknowledged
//! when a majority of the known nodes has it. A site must take pushes when two of its three
//! nodes are dead, so by default fewer do when no more can be reached, and the answer says so; a site
//! that prefers consistency has such writes refused.
//!
//! Never waits and never reads a clock; the shell asks again when something has changed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use registry_facts::name::NodeName;
use registry_facts::record::{Position, Vector};

use super::ahead::Ahead;

pub use config::registry_svc::Acknowledge as Mode;

/// A follower says what it holds every second; after this silence it does not count as reachable.
/// Long enough for a node that is busy, short enough that a write does not wait long for a dead one.
pub const SILENCE: Duration = Duration::from_secs(4);

/// The number of nodes that have a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Nodes that have it on disk, this one included.
    pub held: usize,
    /// Nodes that can be reached, this one included.
    pub reachable: usize,
    /// Nodes there should be, this one included.
    pub configured: usize,
    /// The result for the client.
    pub outcome: Outcome,
}

/// The result of a write for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is safe.
    Enough,
    /// It is stored on fewer nodes than it should be.
    Fewer,
    /// It has to be repeated later.
    Refused,
}

impl Acknowledgement {
    /// The text of a `Warning: 299` header, when the client should hear one.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let Self {
            held, configured, ..
        } = self;
        (self.outcome == Outcome::Fewer)
            .then(|| format!("299 - \"stored on {held} of {configured} nodes\""))
    }
}

/// The nodes that follow this one, and how far they are.
#[derive(Debug)]
pub struct Followers {
    mode: Mode,
    configured: usize,
    followers: BTreeMap<NodeName, Follower>,
}

/// The last message of a follower.
#[derive(Clone, Debug)]
pub struct Follower {
    /// The records that are safe on its disk.
    pub holds: Vector,
    /// Records of this node that are safe there too, although others before them are not.
    pub ahead: Option<Ahead>,
    /// Records that wait there for what they need.
    pub waiting: u64,
    /// When it said so.
    pub heard: Instant,
}

impl Follower {
    fn has(&self, position: &Position) -> bool {
        let ahead = self.ahead.as_ref();
        self.holds.covers(position) || ahead.is_some_and(|ahead| ahead.covers(position))
    }
}

impl Followers {
    /// No node follows yet; `peers` nodes should.
    #[must_use]
    pub fn new(mode: Mode, peers: usize) -> Self {
        Self {
            mode,
            configured: peers + 1,
            followers: BTreeMap::new(),
        }
    }

    /// This many other nodes should follow from now on.
    pub fn set_peers(&mut self, peers: usize) {
        self.configured = peers + 1;
    }

    /// A peer has said how far it is.
    pub fn heard(&mut self, name: NodeName, follower: Follower) {
        self.followers.insert(name, follower);
    }

    /// A peer follows no longer.
    pub fn gone(&mut self, name: &NodeName) {
        self.followers.remove(name);
    }

    /// Those that have been heard of lately.
    pub fn reachable(&self, now: Instant) -> impl Iterator<Item = (&NodeName, &Follower)> {
        self.followers
            .iter()
            .filter(move |(_, follower)| now.saturating_duration_since(follower.heard) < SILENCE)
    }

    /// Counts the nodes that have a write. `None`: wait, because a peer that can be reached may
    /// still confirm; never when `last`, because the time to wait is over.
    #[must_use]
    pub fn decide(&self, position: &Position, now: Instant, last: bool) -> Option<Acknowledgement> {
        let reachable = 1 + self.reachable(now).count();
        let holding = self.reachable(now);
        let held = 1 + holding
            .filter(|(_, follower)| follower.has(position))
            .count();
        let majority = self.majority();
        let outcome = match self.mode {
            _ if held >= majority => Outcome::Enough,
            Mode::Strict if last || reachable < majority => Outcome::Refused,
            Mode::MajorityOfReachable if last || held >= reachable => Outcome::Fewer,
            Mode::Strict | Mode::MajorityOfReachable => return None,
        };
        Some(Acknowledgement {
            held,
            reachable,
            configured: self.configured,
            outcome,
        })
    }

    /// Whether a write can be acknowledged at all: asked before it is made, so that what is refused
    /// is not stored either.
    #[must_use]
    pub fn admits(&self, now: Instant) -> bool {
        self.mode == Mode::MajorityOfReachable || self.reachable(now).count() + 1 >= self.majority()
    }

    fn majority(&self) -> usize {
        self.configured / 2 + 1
    }
}

#[cfg(test)]
mod tests {
    use registry_facts::record::NodeId;

    use super::*;

    /// The mode, how many peers there are, what each follower holds, and what is decided at once and
    /// at last.
    type Case = (
        Mode,
        usize,
        &'static [u64],
        Option<Outcome>,
        Option<Outcome>,
    );

    fn position(sequence: u64) -> Position {
        let origin = NodeId {
            name: "a".parse().unwrap(),
            incarnation: 1,
        };
        Position { origin, sequence }
    }

    fn followers(mode: Mode, peers: usize, holds: &[u64], now: Instant) -> Followers {
        let mut followers = Followers::new(mode, peers);
        for (name, holds) in ["b", "c", "d", "e"].iter().zip(holds) {
            let follower = Follower {
                holds: [(position(0).origin, *holds)].into_iter().collect(),
                ahead: None,
                waiting: 0,
                heard: now,
            };
            followers.heard(name.parse().unwrap(), follower);
        }
        followers
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant does")]
    fn a_write_is_acknowledged_as_the_mode_says() {
        use Mode::{MajorityOfReachable, Strict};
        let now = Instant::now();
        let enough = Some(Outcome::Enough);
        let fewer = Some(Outcome::Fewer);
        let refused = Some(Outcome::Refused);
        // Of a write at 5.
        let table: &[Case] = &[
            (MajorityOfReachable, 0, &[], enough, enough),
            (Strict, 0, &[], enough, enough),
            (MajorityOfReachable, 2, &[], fewer, fewer),
            (Strict, 2, &[], refused, refused),
            (MajorityOfReachable, 2, &[4], None, fewer),
            (MajorityOfReachable, 2, &[5], enough, enough),
            (MajorityOfReachable, 2, &[4, 9], enough, enough),
            (MajorityOfReachable, 2, &[4, 4], None, fewer),
            (Strict, 2, &[4, 4], None, refused),
            (Strict, 2, &[4, 5], enough, enough),
            (MajorityOfReachable, 4, &[5], fewer, fewer),
            (MajorityOfReachable, 4, &[5, 0], None, fewer),
            (MajorityOfReachable, 4, &[5, 5], enough, enough),
            (Strict, 4, &[5], refused, refused),
            // Of two nodes both are the majority.
            (MajorityOfReachable, 1, &[], fewer, fewer),
            (Strict, 1, &[5], enough, enough),
        ];
        for (mode, peers, holds, at_once, at_last) in table {
            let followers = followers(*mode, *peers, holds, now);
            let decide = |last| {
                followers
                    .decide(&position(5), now, last)
                    .map(|ack| ack.outcome)
            };
            assert_eq!(decide(false), *at_once, "{mode:?} {peers} {holds:?}");
            assert_eq!(decide(true), *at_last, "{mode:?} {peers} {holds:?} at last");
            if *at_once == refused {
                assert!(!followers.admits(now), "{mode:?} {peers} {holds:?}");
            }
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant does")]
    fn a_silent_follower_is_not_waited_for() {
        let now = Instant::now();
        let mut followers = followers(Mode::MajorityOfReachable, 2, &[4, 4], now);
        assert_eq!(followers.decide(&position(5), now, false), None);
        let later = now + SILENCE;
        let ack = followers.decide(&position(5), later, false).unwrap();
        assert_eq!(
            (ack.held, ack.reachable, ack.outcome),
            (1, 1, Outcome::Fewer)
        );
        assert_eq!(ack.warning().unwrap(), "299 - \"stored on 1 of 3 nodes\"");
        followers.gone(&"b".parse().unwrap());
        assert_eq!(followers.reachable(now).count(), 1);
        // Both others were forgotten.
        followers.set_peers(0);
        let ack = followers.decide(&position(5), later, false).unwrap();
        assert_eq!(ack.outcome, Outcome::Enough);
    }
}
