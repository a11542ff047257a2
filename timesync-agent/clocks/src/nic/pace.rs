//! The interval between readings of a NIC's clock: short while it takes timestamps, long while it is idle, as in chronyd.
//!
//! A reading keeps the bus of the card busy for microseconds, on some for a fraction of a millisecond, for nothing if no packet was
//! stamped since the one before.

use time_model::time::{RawTime, Span};

/// A card is read as often as this at most, as a power of two in seconds.
const FASTEST: i8 = -6;
/// And as seldom: a stamp is worth something within ten seconds of a reading, and the first one after a pause may not be lost.
const SLOWEST: i8 = 2;

/// When a card is read next.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Between readings while it stamps.
    busy: Span,
    /// And while it does not.
    idle: Span,
    read: RawTime,
    /// It has stamped since the last reading.
    has_stamped: bool,
}

impl Pace {
    /// A card that is due at once. `minpoll` and `maxpoll` are powers of two in seconds; without the latter it is twice as long.
    #[must_use]
    pub fn new(minpoll: i8, maxpoll: Option<i8>, now: RawTime) -> Self {
        let minpoll = minpoll.clamp(FASTEST, SLOWEST);
        let maxpoll = maxpoll.unwrap_or(minpoll + 1).clamp(minpoll, SLOWEST);
        let seconds = |poll: i8| Span::from_seconds(f64::from(poll).exp2());
        let idle = seconds(maxpoll);
        Self {
            busy: seconds(minpoll),
            idle,
            read: now - idle,
            has_stamped: false,
        }
    }

    /// When it is to be read.
    #[must_use]
    pub fn next(&self) -> RawTime {
        self.read
            + match self.has_stamped {
                true => self.busy,
                false => self.idle,
            }
    }

    /// It was read.
    pub fn read(&mut self, now: RawTime) {
        self.read = now;
        self.has_stamped = false;
    }

    /// It has stamped a packet.
    pub fn stamped(&mut self) {
        self.has_stamped = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time_model::time::SECOND;

    #[test]
    fn a_card_is_read_often_only_while_it_stamps() {
        for (minpoll, maxpoll, busy, idle) in [
            (0, None, SECOND, 2 * SECOND),
            (0, Some(2), SECOND, 4 * SECOND),
            (0, Some(10), SECOND, 4 * SECOND),
            (-2, Some(-2), SECOND / 4, SECOND / 4),
            (-2, Some(-5), SECOND / 4, SECOND / 4),
            (-20, None, SECOND / 64, SECOND / 32),
            (10, None, 4 * SECOND, 4 * SECOND),
            (i8::MAX, Some(i8::MIN), 4 * SECOND, 4 * SECOND),
        ] {
            let now = RawTime(77 * SECOND);
            let mut pace = Pace::new(minpoll, maxpoll, now);
            assert_eq!(pace.next(), now, "{minpoll} {maxpoll:?}");
            pace.read(now);
            assert_eq!(pace.next() - now, Span(idle), "{minpoll} {maxpoll:?}");
            pace.stamped();
            pace.stamped();
            assert_eq!(pace.next() - now, Span(busy), "{minpoll} {maxpoll:?}");
            pace.read(now + Span(busy));
            assert_eq!(pace.next() - now, Span(busy + idle));
        }
    }
}
