//! Moments, spans and the forms that NTP gives them.

use std::ops::{Add, Sub};

/// Nanoseconds of a second.
pub const SECOND: i64 = 1_000_000_000;
/// Seconds from 1900-01-01, where the first era of NTP begins, to 1970-01-01 (RFC 5905 §6).
const UNIX_IN_NTP: i64 = 2_208_988_800;

/// A span in nanoseconds, positive or negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub i64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// The nearest whole nanosecond; out of range goes to the end of the range, and NaN is nothing.
    #[inline]
    #[must_use]
    pub fn from_seconds(seconds: f64) -> Self {
        Self(nanoseconds(seconds))
    }

    /// In seconds. Exact below 104 days.
    #[inline]
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "the loss is below a nanosecond for a hundred days"
    )]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add for Span {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Span {
    type Output = Self;

    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// A reading of the raw clock (`CLOCK_MONOTONIC_RAW`), in nanoseconds: no step, no slew, the crystal alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RawTime(pub i64);

/// A reading of the wall clock (`CLOCK_REALTIME`) or of another's, in nanoseconds since 1970-01-01T00:00:00Z without leap seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixTime(pub i64);

/// Both clocks, read at one instant; the `now` of this crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The clock that measures.
    pub raw: RawTime,
    /// The clock that is corrected and shown.
    pub wall: UnixTime,
}

impl Reading {
    /// The wall time of a raw time, if the wall clock was not touched since and gains this many parts per billion on the raw
    /// clock.
    #[inline]
    #[must_use]
    pub fn wall_at(self, raw: RawTime, rate: f64) -> UnixTime {
        let elapsed = self.raw - raw;
        let gained = Span::from_seconds(elapsed.seconds() * rate * 1e-9);
        self.wall - elapsed - gained
    }

    /// The raw time of a wall time.
    #[inline]
    #[must_use]
    pub fn raw_at(self, wall: UnixTime, rate: f64) -> RawTime {
        let elapsed = self.wall - wall;
        let relative = rate * 1e-9;
        let gained = Span::from_seconds(elapsed.seconds() * relative / (1.0 + relative));
        self.raw - elapsed + gained
    }
}

macro_rules! moment {
    ($name:ident) => {
        impl Add<Span> for $name {
            type Output = Self;

            #[inline]
            fn add(self, span: Span) -> Self {
                Self(self.0.saturating_add(span.0))
            }
        }

        impl Sub<Span> for $name {
            type Output = Self;

            #[inline]
            fn sub(self, span: Span) -> Self {
                Self(self.0.saturating_sub(span.0))
            }
        }

        impl Sub for $name {
            type Output = Span;

            #[inline]
            fn sub(self, other: Self) -> Span {
                Span(self.0.saturating_sub(other.0))
            }
        }
    };
}

moment!(RawTime);
moment!(UnixTime);

/// A timestamp as packets have it: seconds since the beginning of an era and 2⁻³² fractions (RFC 5905 §6). Zero is "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NtpTimestamp(pub u64);

impl NtpTimestamp {
    /// "None".
    pub const ZERO: Self = Self(0);

    /// The moment in its own era.
    #[inline]
    #[must_use]
    #[expect(
        clippy::cast_sign_loss,
        reason = "the era is what falls off, as RFC 5905 §6 has it"
    )]
    pub fn of(time: UnixTime) -> Self {
        // Each request that is answered comes through here three times, so that it is done without wide divisions.
        let seconds = time.0.div_euclid(SECOND) + UNIX_IN_NTP;
        let nanoseconds = time.0.rem_euclid(SECOND);
        // The nearest fraction; the last nanosecond of a second does not reach the next.
        let fraction = ((nanoseconds << 32) + SECOND / 2) / SECOND;
        Self((seconds as u64) << 32 | fraction as u64)
    }

    /// The moment within 68 years of `pivot` that this stands for.
    #[inline]
    #[must_use]
    #[expect(
        clippy::cast_possible_wrap,
        reason = "a difference of timestamps is signed, RFC 5905 §6"
    )]
    pub fn near(self, pivot: UnixTime) -> UnixTime {
        let difference = i128::from(self.0.wrapping_sub(Self::of(pivot).0) as i64);
        let nanoseconds = (difference * i128::from(SECOND) + (1 << 31)) >> 32;
        let time = i128::from(pivot.0) + nanoseconds;
        UnixTime(i64::try_from(time).unwrap_or(if time < 0 { i64::MIN } else { i64::MAX }))
    }
}

/// A span as packets have it for root delay and root dispersion: 16 bits of seconds, 16 of fractions (RFC 5905 §6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NtpShort(pub u32);

impl NtpShort {
    /// Not less than `seconds`, as a bound on an error has to be; from 0 to 65,536 s.
    #[inline]
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, which is what is wanted"
    )]
    pub fn from_seconds(seconds: f64) -> Self {
        // Twice for each request that is answered: without a function of the mathematical library.
        let fractions = seconds * 65_536.0;
        let whole = fractions as u32;
        Self(whole.saturating_add(u32::from(f64::from(whole) < fractions)))
    }

    /// In seconds.
    #[inline]
    #[must_use]
    pub fn seconds(self) -> f64 {
        f64::from(self.0) / 65_536.0
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the cast saturates, which is what is wanted"
)]
fn nanoseconds(seconds: f64) -> i64 {
    let nanoseconds = seconds * 1e9;
    (nanoseconds + 0.5_f64.copysign(nanoseconds)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_come_back_in_every_era() {
        for time in [
            UnixTime(0),
            UnixTime(1_795_229_845_598_817_733),
            // The second era of NTP begins.
            UnixTime(2_085_978_496 * SECOND),
            UnixTime(2_085_978_495_999_999_999),
            UnixTime(4_102_444_800 * SECOND),
            UnixTime(-1),
        ] {
            for pivot in [-2_000_000_000, -1, 0, 1, 2_000_000_000] {
                let pivot = time + Span(pivot * SECOND);
                assert_eq!(NtpTimestamp::of(time).near(pivot), time, "{time:?}");
            }
        }
        assert_eq!(
            NtpTimestamp::of(UnixTime(0)).0,
            2_208_988_800 << 32,
            "RFC 5905 figure 4"
        );
    }

    #[test]
    fn bounds_on_errors_are_rounded_up() {
        assert_eq!(NtpShort::from_seconds(0.0), NtpShort(0));
        assert_eq!(NtpShort::from_seconds(1e-9), NtpShort(1));
        assert_eq!(NtpShort::from_seconds(-1.0), NtpShort(0));
        assert_eq!(NtpShort::from_seconds(1.5), NtpShort(0x1_8000));
        assert_eq!(NtpShort::from_seconds(1e9), NtpShort(u32::MAX));
    }

    #[test]
    fn spans_have_an_end() {
        assert_eq!(Span::from_seconds(1e300), Span(i64::MAX));
        assert_eq!(Span::from_seconds(f64::NAN), Span(0));
        assert_eq!(Span::from_seconds(-0.25), Span(-250_000_000));
    }
}
