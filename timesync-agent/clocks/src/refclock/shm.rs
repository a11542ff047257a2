//! Shared memory of reference clocks, as ntpd's type 28 driver laid it out (`struct shmTime`); gpsd and many others write it.
//!
//! Only the decoding. The layout is that of the C compiler of this machine: 64-bit `time_t`.

use time_model::time::{SECOND, Span, UnixTime};
use time_model::view::Leap;

/// Key of segment 0: `NTP0`.
pub const FIRST_KEY: u32 = 0x4e54_5030;

/// Length of the structure.
pub const SIZE: usize = 96;

/// The offset of `count`.
pub const COUNT: usize = 4;

/// The offset of `valid`.
pub const VALID: usize = 48;

/// A sample of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time of the reference clock.
    pub clock: UnixTime,
    /// Time of this machine's clock at that moment.
    pub received: UnixTime,
    /// Leap second at hand.
    pub leap: Leap,
}

/// Why there is no sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSample {
    /// Nothing was written since the last one.
    NotValid,
    /// It was written to while it was read.
    Torn,
    /// Neither mode 0 nor mode 1.
    UnknownMode,
    /// The times are none.
    OutOfRange,
}

/// Decodes a copy of the segment. `count_after` is `count`, read once more after the copy was made.
///
/// # Errors
///
/// There is none in it.
pub fn decode(copy: &[u8; SIZE], count_after: i32) -> Result<Sample, NoSample> {
    if int(copy, VALID) == 0 {
        return Err(NoSample::NotValid);
    }
    match int(copy, 0) {
        // The writer counts before and after.
        1 if int(copy, COUNT) != count_after => return Err(NoSample::Torn),
        0 | 1 => {}
        _ => return Err(NoSample::UnknownMode),
    }
    let clock = moment(long(copy, 8), int(copy, 16), int(copy, 52));
    let received = moment(long(copy, 24), int(copy, 32), int(copy, 56));
    Ok(Sample {
        clock: clock.ok_or(NoSample::OutOfRange)?,
        received: received.ok_or(NoSample::OutOfRange)?,
        leap: leap(int(copy, 36)),
    })
}

/// LI as a number.
pub(super) const fn leap(code: i32) -> Leap {
    match code {
        1 => Leap::Insert,
        2 => Leap::Delete,
        3 => Leap::Unsynchronised,
        _ => Leap::Normal,
    }
}

/// Seconds and microseconds, and nanoseconds where the writer knows of them: it does if both agree.
fn moment(seconds: i64, microseconds: i32, nanoseconds: i32) -> Option<UnixTime> {
    let below = if nanoseconds / 1000 == microseconds {
        i64::from(nanoseconds)
    } else {
        i64::from(microseconds).checked_mul(1000)?
    };
    if !(0..SECOND).contains(&below) {
        return None;
    }
    Some(UnixTime(seconds.checked_mul(SECOND)?) + Span(below))
}

fn int(copy: &[u8; SIZE], at: usize) -> i32 {
    let field = copy.get(at..).and_then(<[u8]>::first_chunk);
    field.copied().map_or(0, i32::from_ne_bytes)
}

fn long(copy: &[u8; SIZE], at: usize) -> i64 {
    let field = copy.get(at..).and_then(<[u8]>::first_chunk);
    field.copied().map_or(0, i64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(mode: i32, clock: (i64, i32, i32), received: (i64, i32, i32)) -> [u8; SIZE] {
        let mut octets = [0; SIZE];
        let mut put = |at: usize, value: &[u8]| octets[at..at + value.len()].copy_from_slice(value);
        put(0, &mode.to_ne_bytes());
        put(4, &7_i32.to_ne_bytes());
        put(8, &clock.0.to_ne_bytes());
        put(16, &clock.1.to_ne_bytes());
        put(24, &received.0.to_ne_bytes());
        put(32, &received.1.to_ne_bytes());
        put(36, &1_i32.to_ne_bytes());
        put(48, &1_i32.to_ne_bytes());
        put(52, &clock.2.to_ne_bytes());
        put(56, &received.2.to_ne_bytes());
        octets
    }

    #[test]
    fn nanoseconds_count_where_the_writer_knows_them() {
        let octets = segment(1, (1_700_000_000, 5, 5_678), (1_700_000_001, 9, 0));
        let sample = decode(&octets, 7).unwrap();
        assert_eq!(sample.clock, UnixTime(1_700_000_000_000_005_678));
        assert_eq!(sample.received, UnixTime(1_700_000_001_000_009_000));
        assert_eq!(sample.leap, Leap::Insert);
    }

    #[test]
    fn what_is_being_written_is_not_read() {
        let octets = segment(1, (1, 0, 0), (1, 0, 0));
        assert_eq!(decode(&octets, 8), Err(NoSample::Torn));
        let octets = segment(0, (1, 0, 0), (1, 0, 0));
        assert!(decode(&octets, 8).is_ok(), "mode 0 does not count");
        let octets = segment(2, (1, 0, 0), (1, 0, 0));
        assert_eq!(decode(&octets, 7), Err(NoSample::UnknownMode));
        let mut octets = segment(1, (1, 0, 0), (1, 0, 0));
        octets[VALID..VALID + 4].fill(0);
        assert_eq!(decode(&octets, 7), Err(NoSample::NotValid));
    }

    #[test]
    fn times_that_are_none_are_refused() {
        for (seconds, micro, nano) in [
            (i64::MAX, 0, 0),
            (0, 1_000_000, 0),
            (0, -1, 0),
            (0, i32::MAX, 0),
        ] {
            let octets = segment(0, (seconds, micro, nano), (0, 0, 0));
            assert_eq!(
                decode(&octets, 7),
                Err(NoSample::OutOfRange),
                "{seconds} {micro}"
            );
        }
    }
}
