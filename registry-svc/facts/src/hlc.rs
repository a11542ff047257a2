//! Hybrid logical clock: stamps that rise on every node and that follow what a node has seen.
//!
//! A stamp is the wall clock in milliseconds and a counter for what falls into one of them. A
//! statement made after another was seen has the greater stamp, whatever the two wall clocks say;
//! so of two statements about one tag the later one holds. See Kulkarni et al., "Logical Physical
//! Clocks", 2014.
//!
//! Never reads a clock: the wall clock's milliseconds are handed in.

use std::fmt;

/// A stamp: milliseconds since 1970 in the upper 48 bits, a counter in the lower 16.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hlc(u64);

impl Hlc {
    /// How many bits count inside of a millisecond.
    const COUNTER: u32 = 16;

    /// Those bits.
    const COUNTED: u64 = (1 << Self::COUNTER) - 1;

    /// The stamp that travels as this number.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The number it travels as.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The first stamp of a millisecond.
    #[must_use]
    pub fn at(milliseconds: u64) -> Self {
        Self(milliseconds.min(u64::MAX >> Self::COUNTER) << Self::COUNTER)
    }

    /// The last stamp before a millisecond, for what is stated as of then: whatever was stated from that
    /// millisecond on is greater. A [`Clock`] gives one out itself only after 65,535 others in one
    /// millisecond, so it says [how it was made](Self::is_last).
    #[must_use]
    pub fn last_before(milliseconds: u64) -> Self {
        Self(Self::at(milliseconds).0.saturating_sub(1))
    }

    /// Whether it is the last one of its millisecond.
    #[must_use]
    pub fn is_last(self) -> bool {
        self.0 & Self::COUNTED == Self::COUNTED
    }

    /// The wall clock's part, in milliseconds since 1970.
    #[must_use]
    pub fn milliseconds(self) -> u64 {
        self.0 >> Self::COUNTER
    }

    /// The next one; a full counter carries into the milliseconds.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Debug for Hlc {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counter = self.0 & Self::COUNTED;
        write!(formatter, "{}.{counter}", self.milliseconds())
    }
}

/// Gives out the stamps of one node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    last: Hlc,
}

impl Clock {
    /// A stamp greater than every one given out or seen, and not before the wall clock.
    pub fn tick(&mut self, milliseconds: u64) -> Hlc {
        self.last = self.last.next().max(Hlc::at(milliseconds));
        self.last
    }

    /// Takes note of a stamp from elsewhere, however far ahead it is: later statements here must
    /// win against it.
    pub fn observe(&mut self, stamp: Hlc) {
        self.last = self.last.max(stamp);
    }

    /// The greatest stamp given out or seen.
    #[must_use]
    pub fn last(&self) -> Hlc {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_rise_while_the_wall_clock_stands_or_steps_back() {
        let mut clock = Clock::default();
        let mut last = Hlc::default();
        for milliseconds in [5, 5, 5, 9, 3, 0, 9, 10] {
            let stamp = clock.tick(milliseconds);
            assert!(stamp > last, "{stamp:?} after {last:?}");
            assert!(stamp.milliseconds() >= milliseconds);
            last = stamp;
        }
    }

    #[test]
    fn a_stamp_made_after_another_was_seen_is_greater() {
        let mut behind = Clock::default();
        let ahead = Hlc::at(1_000_000);
        behind.observe(ahead);
        assert!(behind.tick(10) > ahead);
        behind.observe(Hlc::at(5));
        assert!(behind.tick(10) > ahead);
    }

    #[test]
    fn a_full_counter_carries_into_the_next_millisecond() {
        let mut clock = Clock::default();
        clock.observe(Hlc::from_bits(7 << 16 | 0xffff));
        assert_eq!(clock.tick(7), Hlc::at(8));
        clock.observe(Hlc::from_bits(u64::MAX));
        assert_eq!(clock.tick(7).to_bits(), u64::MAX);
        assert_eq!(Hlc::at(u64::MAX).milliseconds(), u64::MAX >> 16);
    }

    #[test]
    fn the_last_stamp_before_a_millisecond_is_known_from_those_of_a_clock() {
        let last = Hlc::last_before(8);
        assert!(last < Hlc::at(8) && last.next() == Hlc::at(8));
        assert!(last.is_last());
        assert_eq!(last.milliseconds(), 7);
        assert!(Hlc::from_bits(last.to_bits()).is_last());
        let mut clock = Clock::default();
        for _ in 0..0xffff {
            assert!(!clock.tick(7).is_last());
        }
        // One that has seen it goes on after it.
        clock.observe(last);
        assert!(!clock.tick(7).is_last() && clock.last() > last);
        assert!(!Hlc::last_before(0).is_last());
    }
}
