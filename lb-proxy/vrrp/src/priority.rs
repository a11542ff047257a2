//! The priority of a node for a virtual router, from the known facts about its proxy.
//!
//! Every move of an address resets the connections to it, and those who lose them come back at once. So
//! a priority follows facts that last, and rests after a move:
//!
//! - something **required** says whether this node's proxy can serve at all; while it cannot, the
//!   router yields to any that can, or lets go altogether;
//! - something **weighed** makes this node a better or a worse place than others;
//! - a change for the better counts when it has lasted (`rise`), one for the worse likewise (`fall`);
//! - for a time after a move (`hold_down`) only "cannot serve" counts.
//!
//! Nothing known is not bad: a proxy that has heard nothing serves. Never asks anybody, never looks at
//! a clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::machine::{Eligibility, PRIORITY_LEAVING};
use super::packet::PRIORITY_OWNER;

/// How long something has to be good before it counts, where nothing is written.
pub const DEFAULT_RISE: Duration = Duration::from_secs(10);

/// How long something has to be bad before it counts: the prober has counted failures already.
pub const DEFAULT_FALL: Duration = Duration::ZERO;

/// How long priorities rest after a move, where nothing is written.
pub const DEFAULT_HOLD_DOWN: Duration = Duration::from_secs(30);

/// The settings of a priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrioritySettings {
    /// The priority when nothing is good or bad.
    pub base: u8,
    /// The tracked things.
    pub tracked: Vec<Tracked>,
    /// How long the priority rests after a move.
    pub hold_down: Duration,
    /// The reaction when something required is bad.
    pub when_unable: WhenUnable,
}

/// One tracked thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracked {
    /// Its name.
    pub name: Arc<str>,
    /// Its effect.
    pub effect: Effect,
    /// How long it has to be good before it counts as good.
    pub rise: Duration,
    /// How long it has to be bad before it counts as bad.
    pub fall: Duration,
}

/// The effect of something tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Whether this node can serve.
    Required,
    /// As keepalived's weight: above zero added while good, below zero while bad.
    Weight(i16),
}

/// A node's behaviour when it cannot serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenUnable {
    /// Asks the others to take over, and keeps the addresses if none does: when all are unable, an
    /// address that answers beats none. Peers have to preempt.
    #[default]
    Yield,
    /// Lets go of them.
    Release,
}

/// Follows what is tracked.
#[derive(Debug)]
pub struct Priority {
    settings: PrioritySettings,
    /// One for each of `settings.tracked`.
    seen: Vec<Seen>,
    hold_until: Option<Instant>,
    standing: Eligibility,
}

/// The known facts about one thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// The state that counts.
    counts: Option<bool>,
    /// The last observation, and since when it is the same.
    said: Option<(bool, Instant)>,
}

impl Priority {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(settings: PrioritySettings) -> Self {
        let seen = vec![Seen::default(); settings.tracked.len()];
        let mut priority = Self {
            standing: Eligibility::Able(settings.base.max(1)),
            seen,
            settings,
            hold_until: None,
        };
        priority.standing = priority.wanted();
        priority
    }

    /// Takes up other settings; the known facts about things that stay are kept. A base that was edited counts
    /// at once.
    pub fn reconfigure(&mut self, settings: PrioritySettings) {
        let before = std::mem::replace(&mut self.settings, settings);
        let find = |name: &Arc<str>| before.tracked.iter().position(|old| old.name == *name);
        let kept = self.settings.tracked.iter().map(|tracked| {
            let known = find(&tracked.name).and_then(|index| self.seen.get(index));
            known.copied().unwrap_or_default()
        });
        self.seen = kept.collect();
        self.standing = self.wanted();
    }

    /// Something tracked is good, or bad.
    pub fn observe(&mut self, name: &str, good: bool, now: Instant) {
        self.advance(now);
        let named = |tracked: &Tracked| *tracked.name == *name;
        let entries = self.settings.tracked.iter().zip(&mut self.seen);
        for (_, seen) in entries.filter(|(tracked, _)| named(tracked)) {
            // The first observation counts at once.
            seen.counts.get_or_insert(good);
            if seen.said.is_none_or(|(said, _)| said != good) {
                seen.said = Some((good, now));
            }
        }
    }

    /// The router became active, or ceased to be.
    pub fn moved(&mut self, now: Instant) {
        self.hold_until = Some(now + self.settings.hold_down);
    }

    /// The eligibility of this node.
    pub fn standing(&mut self, now: Instant) -> Eligibility {
        self.advance(now);
        let held = self.hold_until.is_some_and(|until| now < until);
        if !held {
            self.hold_until = None;
        }
        if !held || !self.is_able() {
            self.standing = self.wanted();
        }
        self.standing
    }

    /// When the standing may be another without anything being observed.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let entries = self.settings.tracked.iter().zip(&self.seen);
        let settling = entries.filter_map(|(tracked, seen)| seen.settles(tracked));
        let hold = self.hold_until.filter(|_| self.standing != self.wanted());
        settling.chain(hold).min()
    }

    /// Whether everything required is good, or unknown.
    #[must_use]
    pub fn is_able(&self) -> bool {
        let mut entries = self.settings.tracked.iter().zip(&self.seen);
        entries
            .all(|(tracked, seen)| tracked.effect != Effect::Required || seen.counts != Some(false))
    }

    fn advance(&mut self, now: Instant) {
        for (tracked, seen) in self.settings.tracked.iter().zip(&mut self.seen) {
            if seen.settles(tracked).is_some_and(|at| at <= now) {
                seen.counts = seen.said.map(|(said, _)| said);
            }
        }
    }

    fn wanted(&self) -> Eligibility {
        if !self.is_able() {
            return match self.settings.when_unable {
                WhenUnable::Yield => Eligibility::Able(PRIORITY_LEAVING),
                WhenUnable::Release => Eligibility::Unable,
            };
        }
        let base = self.settings.base.max(1);
        // The owner's priority is what makes it the owner.
        if base == PRIORITY_OWNER {
            return Eligibility::Able(base);
        }
        let entries = self.settings.tracked.iter().zip(&self.seen);
        let weights = entries.map(|(tracked, seen)| match (tracked.effect, seen.counts) {
            (Effect::Weight(weight), Some(true)) => i32::from(weight.max(0)),
            (Effect::Weight(weight), Some(false)) => i32::from(weight.min(0)),
            _ => 0,
        });
        let priority = i32::from(base) + weights.sum::<i32>();
        let highest = i32::from(PRIORITY_OWNER - 1);
        // 1 is for who cannot serve.
        let lowest = i32::from(base.min(PRIORITY_LEAVING + 1));
        Eligibility::Able(u8::try_from(priority.clamp(lowest, highest)).unwrap_or(base))
    }
}

impl Seen {
    /// When what is said will count, if it does not.
    fn settles(&self, tracked: &Tracked) -> Option<Instant> {
        let (said, since) = self.said?;
        let lasts = if said { tracked.rise } else { tracked.fall };
        (self.counts != Some(said)).then(|| since + lasts)
    }
}

#[cfg(test)]
mod tests;
