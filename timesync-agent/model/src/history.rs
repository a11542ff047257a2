//! The history of the clock: a bounded memory of offset and frequency.
//!
//! Two rings of slots, one fine and short, one coarse and long. A slot says between which values the offset moved
//! while it was open, and what the frequency was at its end. Slots are laid on the raw clock, so that a step of the
//! wall clock neither tears the memory nor folds it. A time without news leaves no slot, and so a gap in a plot.

use std::collections::VecDeque;

use crate::time::{SECOND, UnixTime};
use crate::view::{ClockState, View};

/// A stretch of time in a ring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    /// Its number: the raw clock divided by the length of a slot.
    pub number: i64,
    /// The wall clock at the last update in it.
    pub wall: UnixTime,
    /// The lowest offset of an update, in seconds; positive if the clock was slow.
    pub lowest: f64,
    /// The highest one.
    pub highest: f64,
    /// The last one.
    pub offset: f64,
    /// By how much the clock would gain without correction, in parts per million.
    pub frequency: f64,
    /// How good the time was.
    pub state: ClockState,
}

/// Slots of one length.
#[derive(Clone, Debug)]
pub struct Ring {
    /// How long a slot is, in seconds.
    pub seconds: u32,
    /// How many there may be.
    pub capacity: usize,
    /// The name of this stretch.
    pub title: &'static str,
    slots: VecDeque<Slot>,
}

impl Ring {
    fn new(title: &'static str, seconds: u32, capacity: usize) -> Self {
        Self {
            seconds,
            capacity,
            title,
            slots: VecDeque::with_capacity(capacity),
        }
    }

    /// The slots, the oldest first.
    pub fn slots(&self) -> impl DoubleEndedIterator<Item = &Slot> {
        self.slots.iter()
    }

    fn note(&mut self, view: &View) {
        let number = view.now.raw.0.div_euclid(i64::from(self.seconds) * SECOND);
        let offset = view.tracking.update_offset;
        let new = Slot {
            number,
            wall: view.now.wall,
            lowest: offset,
            highest: offset,
            offset,
            frequency: view.tracking.frequency,
            state: view.state,
        };
        match self.slots.back_mut() {
            Some(last) if last.number == number => {
                *last = Slot {
                    lowest: last.lowest.min(offset),
                    highest: last.highest.max(offset),
                    ..new
                };
            }
            _ => {
                if self.slots.len() == self.capacity {
                    self.slots.pop_front();
                }
                self.slots.push_back(new);
            }
        }
    }
}

/// The history of the clock, over an hour and over two days.
#[derive(Clone, Debug)]
pub struct History {
    /// Ten seconds a slot.
    pub hour: Ring,
    /// Eight minutes a slot.
    pub days: Ring,
    n_updates: Option<u64>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            hour: Ring::new("the last hour", 10, 360),
            days: Ring::new("the last two days", 480, 360),
            n_updates: None,
        }
    }
}

impl History {
    /// Takes in what is seen; only an update of the clock leaves something.
    pub fn note(&mut self, view: &View) {
        let tracking = &view.tracking;
        let is_news = tracking.n_updates > 0 && self.n_updates != Some(tracking.n_updates);
        if is_news && tracking.update_offset.is_finite() && tracking.frequency.is_finite() {
            self.n_updates = Some(tracking.n_updates);
            self.hour.note(view);
            self.days.note(view);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{RawTime, Reading};
    use crate::view::Tracking;

    fn view(seconds: i64, n_updates: u64, update_offset: f64) -> View {
        View {
            now: Reading {
                raw: RawTime(seconds * SECOND),
                wall: UnixTime((1_000_000 + seconds) * SECOND),
            },
            state: ClockState::Locked,
            tracking: Tracking {
                n_updates,
                update_offset,
                frequency: 1.5,
                ..Tracking::default()
            },
            ..View::default()
        }
    }

    #[test]
    fn updates_of_a_slot_are_kept_as_a_range() {
        let mut history = History::default();
        for (at, n_updates, offset) in [(0, 1, 1e-3), (3, 2, -1e-3), (9, 3, 2e-4), (10, 4, 5e-4)] {
            history.note(&view(at, n_updates, offset));
        }
        let slots: Vec<_> = history.hour.slots().copied().collect();
        assert_eq!(slots.len(), 2);
        let first = slots[0];
        assert_eq!(
            (first.lowest, first.highest, first.offset),
            (-1e-3, 1e-3, 2e-4)
        );
        assert_eq!(history.days.slots().count(), 1);
    }

    #[test]
    fn what_is_no_update_leaves_nothing() {
        let mut history = History::default();
        history.note(&view(0, 0, 1.0));
        assert_eq!(
            history.hour.slots().count(),
            0,
            "the clock was told nothing yet"
        );
        history.note(&view(0, 1, 1.0));
        history.note(&view(500, 1, 1.0));
        history.note(&view(600, 2, f64::NAN));
        assert_eq!(history.hour.slots().count(), 1);
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_goes() {
        let mut history = History::default();
        for update in 1..=1_000 {
            let at = i64::try_from(update).unwrap() * 10;
            history.note(&view(at, update, 0.0));
        }
        assert_eq!(history.hour.slots().count(), 360);
        assert_eq!(
            history.hour.slots().next().map(|slot| slot.number),
            Some(641)
        );
    }
}
