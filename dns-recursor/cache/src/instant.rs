//! Points in time for the cores: microseconds since a point before the service started.
//!
//! Never reads a clock: shells do, and pass the result in.

use std::time::Duration;

/// A point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The first point. The clock of the service begins later, so that entries of its predecessor have a time too.
    pub const START: Self = Self(0);

    /// The point this many microseconds after the start.
    #[must_use]
    #[inline]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// The point this many milliseconds after the start.
    #[must_use]
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1000))
    }

    /// Milliseconds since the start.
    #[must_use]
    #[inline]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1000
    }

    /// The point this much later.
    #[must_use]
    #[inline]
    pub fn after(self, span: Duration) -> Self {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// The point this much earlier; the start at the earliest.
    #[must_use]
    #[inline]
    pub fn before(self, span: Duration) -> Self {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(micros))
    }

    /// The time since `earlier`; zero when that is in the future.
    #[must_use]
    #[inline]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// Whole seconds since `earlier`, as TTLs count.
    #[must_use]
    #[inline]
    pub fn seconds_since(self, earlier: Self) -> u32 {
        let seconds = self.0.saturating_sub(earlier.0) / 1_000_000;
        u32::try_from(seconds).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let late = Instant::from_millis(u64::MAX);
        assert_eq!(late.after(Duration::MAX), late);
        assert_eq!(Instant::START.since(late), Duration::ZERO);
        assert_eq!(late.seconds_since(Instant::START), u32::MAX);
        assert_eq!(Instant::START.before(Duration::MAX), Instant::START);
        let then = Instant::from_millis(1500);
        assert_eq!(
            then.after(Duration::from_millis(1499)).seconds_since(then),
            1
        );
    }
}
