//! Deadlines of sessions: a hashed wheel with links in an array, so that arming, moving and
//! disarming cost a few stores, and a session without a deadline costs nothing.
//!
//! Time is counted in ticks of [`TICK`]. A deadline beyond one turn of the wheel stays in its slot
//! and is passed over until its turn comes. Never reads a clock.

use std::time::Duration;

/// How fine deadlines are. A timeout of a proxy is a bound, not an appointment.
pub const TICK: Duration = Duration::from_millis(8);

/// Ticks in a second.
const PER_SECOND: u64 = 125;

/// Nanoseconds in a tick.
const NANOS: u32 = 8_000_000;

/// Slots of the wheel: one turn takes half a minute, longer than most deadlines.
const SLOTS: u32 = 4096;

/// No entry.
const NONE: u32 = u32::MAX;

/// A session's place in the wheel.
#[derive(Debug, Clone, Copy)]
struct Link {
    previous: u32,
    next: u32,
    /// The tick at which it is due; meaningless while `slot` is [`NONE`].
    due: u64,
    slot: u32,
}

impl Link {
    const FREE: Self = Self {
        previous: NONE,
        next: NONE,
        due: 0,
        slot: NONE,
    };
}

/// Deadlines by index, at most one each.
#[derive(Debug)]
pub struct Wheel {
    heads: Vec<u32>,
    /// One bit for each slot that is not empty.
    occupied: Vec<u64>,
    links: Vec<Link>,
    /// Every deadline up to this tick has been given out.
    now: u64,
    n_armed: usize,
}

impl Default for Wheel {
    fn default() -> Self {
        Self::new()
    }
}

impl Wheel {
    pub fn new() -> Self {
        Self {
            heads: vec![NONE; SLOTS as usize],
            occupied: vec![0; SLOTS as usize / 64],
            links: Vec::new(),
            now: 0,
            n_armed: 0,
        }
    }

    /// Sets the deadline of `index`, in place of the one it may have. One that has passed is due at
    /// the next tick.
    #[inline]
    pub fn arm(&mut self, index: u32, due: u64) {
        self.disarm(index);
        let due = due.max(self.now.saturating_add(1));
        let place = index as usize;
        if self.links.len() <= place {
            self.links.resize(place + 1, Link::FREE);
        }
        let slot = slot_of(due);
        let head = self.heads.get(slot as usize).copied().unwrap_or(NONE);
        if let Some(link) = self.links.get_mut(place) {
            *link = Link {
                previous: NONE,
                next: head,
                due,
                slot,
            };
        }
        if let Some(link) = self.links.get_mut(head as usize) {
            link.previous = index;
        }
        self.set_head(slot, index);
        self.n_armed += 1;
    }

    /// Takes the deadline of `index` away, if it has one.
    #[inline]
    pub fn disarm(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index as usize) else {
            return;
        };
        if link.slot == NONE {
            return;
        }
        let Link {
            previous,
            next,
            slot,
            ..
        } = std::mem::replace(link, Link::FREE);
        if let Some(link) = self.links.get_mut(next as usize) {
            link.previous = previous;
        }
        match self.links.get_mut(previous as usize) {
            Some(link) => link.next = next,
            None => self.set_head(slot, next),
        }
        self.n_armed -= 1;
    }

    /// The tick at which `index` is due.
    #[inline]
    pub fn due(&self, index: u32) -> Option<u64> {
        self.links
            .get(index as usize)
            .filter(|link| link.slot != NONE)
            .map(|link| link.due)
    }

    /// Moves the time on to `now` and gives out every index whose deadline has come, disarmed.
    #[inline]
    pub fn advance(&mut self, now: u64, due: &mut Vec<u32>) {
        if now <= self.now {
            return;
        }
        let first = self.now + 1;
        self.now = now;
        if self.n_armed == 0 {
            return;
        }
        let found = due.len();
        let turn = u64::from(SLOTS) - 1;
        for tick in first..=now.min(first.saturating_add(turn)) {
            self.collect(slot_of(tick), now, due);
        }
        for index in due.iter().skip(found) {
            self.disarm(*index);
        }
    }

    /// The first of the next `within` ticks at which something may be due.
    #[inline]
    pub fn next(&self, within: u64) -> Option<u64> {
        if self.n_armed == 0 {
            return None;
        }
        (1..=within.min(u64::from(SLOTS)))
            .map(|ahead| self.now.saturating_add(ahead))
            .find(|tick| self.is_occupied(slot_of(*tick)))
    }

    fn collect(&self, slot: u32, now: u64, due: &mut Vec<u32>) {
        if !self.is_occupied(slot) {
            return;
        }
        let mut index = self.heads.get(slot as usize).copied().unwrap_or(NONE);
        while let Some(link) = self.links.get(index as usize) {
            if link.due <= now {
                due.push(index);
            }
            index = link.next;
        }
    }

    fn is_occupied(&self, slot: u32) -> bool {
        self.occupied
            .get(slot as usize / 64)
            .is_some_and(|word| word & (1 << (slot % 64)) != 0)
    }

    fn set_head(&mut self, slot: u32, index: u32) {
        if let Some(head) = self.heads.get_mut(slot as usize) {
            *head = index;
        }
        if let Some(word) = self.occupied.get_mut(slot as usize / 64) {
            let bit = 1 << (slot % 64);
            if index == NONE {
                *word &= !bit;
            } else {
                *word |= bit;
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "below the number of slots")]
fn slot_of(tick: u64) -> u32 {
    (tick % u64::from(SLOTS)) as u32
}

/// The number of ticks that cover `duration`; never zero.
#[inline]
pub fn ticks(duration: Duration) -> u64 {
    let whole = duration.as_secs().saturating_mul(PER_SECOND);
    let rest = u64::from(duration.subsec_nanos().div_ceil(NANOS));
    whole.saturating_add(rest).clamp(1, u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn advance(wheel: &mut Wheel, now: u64) -> Vec<u32> {
        let mut due = Vec::new();
        wheel.advance(now, &mut due);
        due.sort_unstable();
        due
    }

    #[test]
    fn deadlines_come_in_their_tick_and_once() {
        let mut wheel = Wheel::new();
        wheel.arm(3, 5);
        wheel.arm(1, 5);
        wheel.arm(2, 7);
        assert_eq!(wheel.next(100), Some(5));
        assert!(advance(&mut wheel, 4).is_empty());
        assert_eq!(advance(&mut wheel, 5), [1, 3]);
        assert_eq!(wheel.due(1), None);
        assert_eq!(wheel.due(2), Some(7));
        assert_eq!(advance(&mut wheel, 100), [2]);
        assert_eq!(wheel.next(100), None);
        assert!(advance(&mut wheel, 10_000).is_empty());
    }

    #[test]
    fn a_deadline_beyond_a_turn_waits_for_its_turn() {
        let mut wheel = Wheel::new();
        let far = 3 * u64::from(SLOTS) + 17;
        wheel.arm(0, far);
        wheel.arm(1, 17);
        let mut now = 0;
        let mut seen = Vec::new();
        while wheel.n_armed > 0 {
            now = wheel.next(u64::MAX).unwrap();
            for index in advance(&mut wheel, now) {
                seen.push((index, now));
            }
        }
        assert_eq!(seen, [(1, 17), (0, far)]);
        assert_eq!(now, far);
    }

    #[test]
    fn a_deadline_in_the_past_is_due_at_the_next_tick() {
        let mut wheel = Wheel::new();
        assert!(advance(&mut wheel, 50).is_empty());
        wheel.arm(9, 3);
        assert_eq!(wheel.next(100), Some(51));
        assert_eq!(advance(&mut wheel, 51), [9]);
    }

    #[test]
    fn a_wheel_agrees_with_a_sorted_map() {
        let mut wheel = Wheel::new();
        let mut model = BTreeMap::new();
        let mut state = 17_u64;
        let mut random = move |below: u32| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            ((state >> 33) as u32) % below
        };
        let mut now = 0;
        for step in 0..20_000 {
            let index = random(64);
            match random(3) {
                0 => {
                    let due = now + 1 + u64::from(random(3 * SLOTS));
                    wheel.arm(index, due);
                    model.insert(index, due);
                }
                1 => {
                    wheel.disarm(index);
                    model.remove(&index);
                }
                _ => {
                    now += u64::from(random(200));
                    let due = advance(&mut wheel, now);
                    let expected: Vec<u32> = model
                        .iter()
                        .filter(|(_, due)| **due <= now)
                        .map(|(i, _)| *i)
                        .collect();
                    assert_eq!(due, expected, "step {step}");
                    model.retain(|_, due| *due > now);
                }
            }
            assert_eq!(wheel.n_armed, model.len(), "step {step}");
            for (index, due) in &model {
                assert_eq!(wheel.due(*index), Some(*due));
            }
        }
    }

    #[test]
    fn every_duration_is_some_ticks() {
        assert_eq!(ticks(Duration::ZERO), 1);
        assert_eq!(ticks(TICK), 1);
        assert_eq!(TICK.as_nanos(), u128::from(NANOS));
        assert_eq!(ticks(Duration::from_secs(1)), PER_SECOND);
        assert_eq!(ticks(TICK + Duration::from_millis(1)), 2);
        assert!(ticks(Duration::MAX) > 1 << 30);
    }
}
