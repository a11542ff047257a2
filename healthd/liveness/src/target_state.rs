//! How results of probes make the liveness of one target: rise and fall.
//!
//! ```text
//!              first result good                     first result bad
//!            ┌───────────────────────  Unknown  ───────────────────────┐
//!            ▼                                                         ▼
//!           Up  ──────────── `fall` bad results in a row ──────────►  Down
//!               ◄─────────── `rise` good results in a row ───────────
//! ```
//!
//! A state taken over from before a restart is *warm* until a result agrees with it or flips it.
//! Never probes, never looks at a clock.

use health::Liveness;

/// The liveness of one target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetState {
    liveness: Liveness,
    /// Results in a row that contradict the liveness.
    against: u32,
    warm: bool,
}

/// The effect of a result on a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing to announce.
    None,
    /// A liveness from before the restart holds.
    Confirmed,
    /// The liveness is another one.
    Flipped,
}

impl TargetState {
    /// A liveness from before the restart.
    #[must_use]
    pub fn warm(liveness: Liveness) -> Self {
        Self {
            liveness,
            against: 0,
            warm: liveness != Liveness::Unknown,
        }
    }

    /// The liveness.
    #[must_use]
    pub fn liveness(self) -> Liveness {
        self.liveness
    }

    /// Whether the liveness is from before the restart and unconfirmed.
    #[must_use]
    pub fn is_warm(self) -> bool {
        self.warm
    }

    /// Whether the last results contradict the liveness but are too few to change it.
    #[must_use]
    pub fn is_undecided(self) -> bool {
        self.against > 0
    }

    /// Takes in one result.
    pub fn judge(&mut self, found: Liveness, rise: u32, fall: u32) -> Effect {
        if found == self.liveness {
            self.against = 0;
            let confirmed = std::mem::take(&mut self.warm);
            return if confirmed {
                Effect::Confirmed
            } else {
                Effect::None
            };
        }
        let needed = match self.liveness {
            Liveness::Unknown => 1,
            Liveness::Up => fall,
            Liveness::Down => rise,
        };
        self.against = self.against.saturating_add(1);
        if self.against < needed {
            return Effect::None;
        }
        *self = Self {
            liveness: found,
            against: 0,
            warm: false,
        };
        Effect::Flipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Liveness::{Down, Unknown, Up};

    /// The whole machine: every state it can be in with rise 2 and fall 3, and both results.
    #[test]
    fn every_state_goes_where_rise_and_fall_say() {
        let at = |liveness, against, warm| TargetState {
            liveness,
            against,
            warm,
        };
        let table = [
            (at(Unknown, 0, false), Up, at(Up, 0, false), Effect::Flipped),
            (
                at(Unknown, 0, false),
                Down,
                at(Down, 0, false),
                Effect::Flipped,
            ),
            (at(Up, 0, false), Up, at(Up, 0, false), Effect::None),
            (at(Up, 1, false), Up, at(Up, 0, false), Effect::None),
            (at(Up, 2, false), Up, at(Up, 0, false), Effect::None),
            (at(Up, 0, false), Down, at(Up, 1, false), Effect::None),
            (at(Up, 1, false), Down, at(Up, 2, false), Effect::None),
            (at(Up, 2, false), Down, at(Down, 0, false), Effect::Flipped),
            (at(Down, 0, false), Down, at(Down, 0, false), Effect::None),
            (at(Down, 1, false), Down, at(Down, 0, false), Effect::None),
            (at(Down, 0, false), Up, at(Down, 1, false), Effect::None),
            (at(Down, 1, false), Up, at(Up, 0, false), Effect::Flipped),
            (at(Up, 0, true), Up, at(Up, 0, false), Effect::Confirmed),
            (at(Up, 0, true), Down, at(Up, 1, true), Effect::None),
            (at(Up, 1, true), Down, at(Up, 2, true), Effect::None),
            (at(Up, 2, true), Down, at(Down, 0, false), Effect::Flipped),
            (at(Up, 2, true), Up, at(Up, 0, false), Effect::Confirmed),
            (
                at(Down, 0, true),
                Down,
                at(Down, 0, false),
                Effect::Confirmed,
            ),
            (at(Down, 0, true), Up, at(Down, 1, true), Effect::None),
            (at(Down, 1, true), Up, at(Up, 0, false), Effect::Flipped),
        ];
        for (before, result, after, effect) in table {
            let mut state = before;
            assert_eq!(state.judge(result, 2, 3), effect, "{before:?} + {result}");
            assert_eq!(state, after, "{before:?} + {result}");
            assert_eq!(state.is_undecided(), after.against > 0);
        }
    }

    #[test]
    fn with_a_rise_and_fall_of_one_each_result_decides() {
        let mut state = TargetState::default();
        for found in [Up, Down, Up, Up, Down] {
            state.judge(found, 1, 1);
            assert_eq!(state.liveness(), found);
            assert!(!state.is_undecided());
        }
    }

    #[test]
    fn what_was_never_probed_before_the_restart_is_not_warm() {
        assert!(!TargetState::warm(Unknown).is_warm());
        assert!(TargetState::warm(Down).is_warm());
    }
}
