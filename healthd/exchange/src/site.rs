//! The verdict of the site about each target, from the findings of its nodes.
//!
//! | findings of the nodes that are heard | verdict | basis |
//! | --- | --- | --- |
//! | more than half of them agree, two at least | as they say | [`Basis::Site`] |
//! | none does, and there are two or more | the last verdict, while it holds | [`Basis::Last`] |
//! | the same, and it does not hold | up | [`Basis::Split`] |
//! | one or none | the finding of this node | [`Basis::Own`] |
//!
//! A last verdict holds from the instant at which its findings ceased to agree, or to count, for
//! [`Settings::hold`](crate::members::Settings::hold).

use std::collections::BTreeMap;
use std::time::Instant;

use health::{Basis, Liveness, Target};

use crate::members::{
    Contact, Heard, MIN_NODES, Members, Message, PeerId, Settings, StreamId, is_shared,
};

/// The exchange of one node, and the verdicts that follow from it.
#[derive(Debug)]
pub struct Exchange {
    members: Members,
    /// The last verdict about each target of this node that has one; targets without probes here have none.
    decided: BTreeMap<Target, Decided>,
    /// When the first last verdict ceases to hold.
    first_end: Option<Instant>,
}

/// The last verdict of the site about a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decided {
    liveness: Liveness,
    /// When it ceased to be said; `None` while it is.
    ended: Option<Instant>,
}

/// The site's verdict about a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The liveness; `None` where this node's probes decide.
    pub liveness: Option<Liveness>,
    /// The basis.
    pub basis: Basis,
}

impl Verdict {
    /// This node's probes decide.
    pub const OWN: Self = Self {
        liveness: None,
        basis: Basis::Own,
    };

    const fn new(liveness: Liveness, basis: Basis) -> Self {
        Self {
            liveness: Some(liveness),
            basis,
        }
    }
}

impl Exchange {
    /// Nothing is heard yet.
    #[must_use]
    pub fn new(settings: Settings, now: Instant) -> Self {
        Self {
            members: Members::new(settings, now),
            decided: BTreeMap::new(),
            first_end: None,
        }
    }

    /// The nodes.
    #[must_use]
    pub const fn members(&self) -> &Members {
        &self.members
    }

    /// This node begins a stream of a peer's messages.
    pub fn begin(&mut self, peer: PeerId) -> StreamId {
        self.members.begin(peer)
    }

    /// Takes in a message of a peer. The targets that have another finding want another [`judge`](Self::judge).
    pub fn hear(
        &mut self,
        peer: PeerId,
        stream: StreamId,
        message: Message,
        now: Instant,
    ) -> Heard {
        self.members.hear(peer, stream, message, now)
    }

    /// The machine of a peer refused a connection.
    pub fn refused(&mut self, peer: PeerId, now: Instant) {
        self.members.refused(peer, now);
    }

    /// Lets time pass. Returns whether every target wants another [`judge`](Self::judge).
    pub fn advance(&mut self, now: Instant) -> bool {
        let moved = self.members.advance(now);
        let ended = self.first_end.is_some_and(|end| end <= now);
        if ended {
            // Found again by the judgements that follow.
            self.first_end = None;
        }
        moved || ended
    }

    /// When to [`advance`](Self::advance) although nothing happens.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let members = self.members.next_deadline();
        members.into_iter().chain(self.first_end).min()
    }

    /// Takes up what the site said before a restart. It holds as a last verdict from now on.
    pub fn restore(&mut self, target: &Target, liveness: Liveness, now: Instant) {
        if self.has_verdicts_of(target) && liveness != Liveness::Unknown {
            let decided = Decided {
                liveness,
                ended: Some(now),
            };
            self.decided.insert(target.clone(), decided);
        }
    }

    /// Forgets a target that this node does not probe any more.
    pub fn forget(&mut self, target: &Target) {
        self.decided.remove(target);
    }

    /// How many last verdicts are kept: one a target of this node at most.
    #[must_use]
    pub fn n_decided(&self) -> usize {
        self.decided.len()
    }

    /// The verdict about a target of this node, which its own probes find so; unknown before their first result.
    pub fn judge(&mut self, target: &Target, own: Liveness, now: Instant) -> Verdict {
        if !self.has_verdicts_of(target) {
            return Verdict::OWN;
        }
        let (n_up, n_down) = match self.members.contact().0 {
            Contact::Connected => self.count(target, own),
            Contact::Joining | Contact::CutOff => {
                return self.last_verdict(target, now).unwrap_or(Verdict::OWN);
            }
            Contact::Alone => (0, 0),
        };
        if let Some(liveness) = agreed(n_up, n_down) {
            self.decide(target, liveness);
            return Verdict::new(liveness, Basis::Site);
        }
        let last = self.last_verdict(target, now);
        match n_up + n_down {
            0 | 1 => Verdict::OWN,
            _ => last.unwrap_or(Verdict::new(Liveness::Up, Basis::Split)),
        }
    }

    fn has_verdicts_of(&self, target: &Target) -> bool {
        self.members.n_nodes() >= MIN_NODES && is_shared(target)
    }

    /// How many nodes that are heard, this one included, find a target up, and how many down.
    fn count(&self, target: &Target, own: Liveness) -> (usize, usize) {
        let peers = self.members.findings(target).map(|(_, row)| row.liveness);
        let all = || peers.clone().chain([own]);
        let n_of = |wanted| all().filter(|liveness| *liveness == wanted).count();
        (n_of(Liveness::Up), n_of(Liveness::Down))
    }

    /// Keeps what the site says, as its last verdict for later.
    fn decide(&mut self, target: &Target, liveness: Liveness) {
        let decided = Decided {
            liveness,
            ended: None,
        };
        match self.decided.get_mut(target) {
            Some(known) => *known = decided,
            None => {
                self.decided.insert(target.clone(), decided);
            }
        }
    }

    /// The last verdict about a target, while it holds. The site has ceased to say it.
    fn last_verdict(&mut self, target: &Target, now: Instant) -> Option<Verdict> {
        let newest = self.members.newest_end();
        let hold = self.members.settings().hold;
        let decided = self.decided.get_mut(target)?;
        let ended = *decided.ended.get_or_insert_with(|| {
            // A process that was stopped learns late that the findings have ceased to count.
            newest.map_or(now, |newest| newest.min(now))
        });
        let end = ended.checked_add(hold).unwrap_or(ended);
        if now >= end {
            return None;
        }
        let liveness = decided.liveness;
        self.first_end = Some(self.first_end.map_or(end, |first| first.min(end)));
        Some(Verdict::new(liveness, Basis::Last))
    }
}

/// The liveness in more than half of the findings, two at least.
fn agreed(n_up: usize, n_down: usize) -> Option<Liveness> {
    let is_agreed = |count: usize| count >= 2 && count * 2 > n_up + n_down;
    let all = [(n_up, Liveness::Up), (n_down, Liveness::Down)];
    let agreed = all.into_iter().find(|(count, _)| is_agreed(*count));
    agreed.map(|(_, liveness)| liveness)
}

#[cfg(test)]
mod tests;
