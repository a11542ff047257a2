//! Stamps: the order of statements about one key, of which the greatest holds.
//!
//! A stamp is the wall clock in milliseconds and a counter for what falls into one of them. A
//! statement has a greater stamp than all that it changes, whatever the wall clocks say; so a
//! statement holds against everything that its node had seen about the same keys. This is kept for
//! each key and not for the node as a whole: a statement of a clock that was far ahead lifts the stamps
//! of later statements about its own keys alone.
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
    /// millisecond on is greater. [`Stamps`] give one out only after 65,535 others in one
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

    /// The next one that is not the last of its millisecond.
    fn following(self) -> Self {
        match self.next() {
            next if next.is_last() => next.next(),
            next => next,
        }
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
pub struct Stamps {
    /// The last one made of the wall clock.
    last: Hlc,
}

impl Stamps {
    /// A wall clock that steps back by no more than this many milliseconds repeats no stamp.
    const STEADY: u64 = 1000;

    /// The stamp of a statement at a time of the wall clock. It is greater than `overwritten`, the
    /// greatest stamp of what the statement changes here.
    pub fn state(&mut self, milliseconds: u64, overwritten: Option<Hlc>) -> Hlc {
        let at = Hlc::at(milliseconds);
        let is_steady = self.last.milliseconds() <= milliseconds.saturating_add(Self::STEADY);
        // Statements about different keys may share a stamp. They rarely do, so that a repair brings
        // each as it was stated.
        self.last = match is_steady {
            true => at.max(self.last.following()),
            false => at,
        };
        overwritten.map_or(self.last, |stamp| self.last.max(stamp.following()))
    }

    /// The last stamp that was made of the wall clock, with nothing overwritten.
    #[must_use]
    pub fn last(&self) -> Hlc {
        self.last
    }
}

/// The times that a node may stamp its statements with, in milliseconds since 1970. A clock that is
/// far from those of the other nodes is not followed beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// The earliest.
    pub earliest: u64,
    /// The latest.
    pub latest: u64,
}

impl Default for TimeRange {
    /// Any time.
    fn default() -> Self {
        Self {
            earliest: 0,
            latest: u64::MAX,
        }
    }
}

impl TimeRange {
    /// The time in the range that is nearest to that of the wall clock; the range was made `elapsed`
    /// milliseconds ago.
    #[must_use]
    pub fn nearest(self, milliseconds: u64, elapsed: u64) -> u64 {
        let latest = self.latest.saturating_add(elapsed);
        let earliest = match self.earliest {
            0 => 0,
            earliest => earliest.saturating_add(elapsed),
        };
        milliseconds.max(earliest).min(latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_rise_with_the_wall_clock_and_while_it_stands() {
        let mut stamps = Stamps::default();
        let mut last = Hlc::default();
        for milliseconds in [5, 5, 5, 9, 3, 0, 9, 10, 5000, 4500] {
            let stamp = stamps.state(milliseconds, None);
            assert!(stamp > last, "{stamp:?} after {last:?}");
            assert!(stamp.milliseconds() >= milliseconds);
            last = stamp;
        }
    }

    #[test]
    fn a_statement_is_greater_than_what_it_overwrites_and_lifts_no_other() {
        let mut stamps = Stamps::default();
        let ahead = Hlc::at(1_000_000_000);
        assert!(stamps.state(10, Some(ahead)) > ahead);
        assert!(stamps.state(11, Some(Hlc::at(5))) < Hlc::at(12));
        assert!(stamps.state(12, None) < Hlc::at(13));
        // The end of all stamps is no panic.
        let end = Hlc::from_bits(u64::MAX);
        assert_eq!(stamps.state(13, Some(end)), end);
    }

    #[test]
    fn stamps_come_down_with_a_clock_that_was_ahead() {
        let mut stamps = Stamps::default();
        assert_eq!(stamps.state(1_000_000_000, None), Hlc::at(1_000_000_000));
        assert_eq!(stamps.state(7, None), Hlc::at(7));
        assert_eq!(stamps.last(), Hlc::at(7));
    }

    #[test]
    fn a_full_counter_carries_into_the_next_millisecond() {
        let mut stamps = Stamps::default();
        let full = Hlc::from_bits(7 << 16 | 0xfffe);
        assert_eq!(stamps.state(7, Some(full)), Hlc::at(8));
        assert_eq!(stamps.state(7, Some(full.next())), Hlc::at(8));
        assert_eq!(Hlc::at(u64::MAX).milliseconds(), u64::MAX >> 16);
    }

    #[test]
    fn the_last_stamp_before_a_millisecond_is_known_from_those_of_a_statement() {
        let last = Hlc::last_before(8);
        assert!(last < Hlc::at(8) && last.next() == Hlc::at(8));
        assert!(last.is_last());
        assert_eq!(last.milliseconds(), 7);
        assert!(Hlc::from_bits(last.to_bits()).is_last());
        let mut stamps = Stamps::default();
        for _ in 0..0x1_0002 {
            assert!(!stamps.state(7, None).is_last());
        }
        assert_eq!(stamps.state(7, Some(last)).milliseconds(), 8);
        assert!(!Hlc::last_before(0).is_last());
    }
}
