//! Points in time as the cores see them: microseconds since the service started.
//!
//! Never read from a clock here; shells do that and pass the result in.

use std::time::Duration;

/// A point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// When the service started.
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

    /// How long ago `earlier` was; zero when it is yet to come.
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
        let late = Moment::from_millis(u64::MAX);
        assert_eq!(late.after(Duration::MAX), late);
        assert_eq!(Moment::START.since(late), Duration::ZERO);
        assert_eq!(late.seconds_since(Moment::START), u32::MAX);
        let then = Moment::from_millis(1500);
        assert_eq!(
            then.after(Duration::from_millis(1499)).seconds_since(then),
            1
        );
    }
}
