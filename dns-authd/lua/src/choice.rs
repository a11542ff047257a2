//! The decision of a health or pick function, as far as it needs no query.

use std::time::Duration;

use crate::select::{Draw, Member, Select};

/// A set of possible answers and the way one query's answer is drawn from it.
///
/// Without members the answer is empty: the name exists and has no data of this type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The possible answers, as text of the record's type.
    pub members: Vec<Member>,
    /// How a query's answer is drawn from them.
    pub select: Select,
    /// The certainty of the health behind the choice.
    pub certainty: Certainty,
    /// The time in which nothing can change the choice; `None` if it does not depend on health.
    ///
    /// The rule is gdnsd's: a target that is up stays so until enough probes have failed, and the other way
    /// round, so the bound is the shortest such time over all targets whose state decided the choice. Never
    /// less than the configured minimum.
    pub ttl_bound: Option<Duration>,
}

/// The certainty of the health behind an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// The answer is final: it does not depend on health, or a member of the deciding set is up and every
    /// set before it is known to be down.
    Known,
    /// Every target has been probed, and none is up.
    AllDown,
    /// The deciding set, or one before it, has no member known to be up, and one or more that
    /// have not been probed: the next results may turn the answer into another.
    Unknown,
}

impl Choice {
    /// Writes the positions of the members that answer this query into `picks`.
    pub fn draw(&self, draw: &Draw<'_>, picks: &mut Vec<usize>) {
        self.select.draw(&self.members, draw, picks);
    }
}
