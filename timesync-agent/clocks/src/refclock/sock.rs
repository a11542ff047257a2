//! Samples of reference clocks over a datagram socket, as chrony's SOCK driver takes them; gpsd writes them.
//!
//! Only the decoding. The layout is that of the C compiler of this machine: 64-bit `time_t`.

use time_model::time::{SECOND, Span, UnixTime};
use time_model::view::Leap;

use super::shm::leap;

/// Length of the structure.
pub const SIZE: usize = 40;

/// `SOCK`.
const MAGIC: i32 = 0x534f_434b;

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Time of this machine's clock when it was taken.
    pub local: UnixTime,
    /// True time − that, in seconds.
    pub offset: f64,
    /// It is the begin of a second, not a time of day.
    pub is_pulse: bool,
    /// Leap second at hand.
    pub leap: Leap,
}

impl Sample {
    /// A sample of the reference clock.
    #[must_use]
    pub fn clock(&self) -> UnixTime {
        self.local + Span::from_seconds(self.offset)
    }

    /// The structure, as a writer sends it.
    #[must_use]
    pub fn encode(&self) -> [u8; SIZE] {
        let seconds = self.local.0.div_euclid(SECOND);
        let microseconds = self.local.0.rem_euclid(SECOND) / 1000;
        let leap: i32 = match self.leap {
            Leap::Normal => 0,
            Leap::Insert => 1,
            Leap::Delete => 2,
            Leap::Unsynchronised => 3,
        };
        let mut octets = [0; SIZE];
        let fields: [&[u8]; 7] = [
            &seconds.to_ne_bytes(),
            &microseconds.to_ne_bytes(),
            &self.offset.to_ne_bytes(),
            &i32::from(self.is_pulse).to_ne_bytes(),
            &leap.to_ne_bytes(),
            &[0; 4],
            &MAGIC.to_ne_bytes(),
        ];
        for (octet, value) in octets.iter_mut().zip(fields.concat()) {
            *octet = value;
        }
        octets
    }
}

/// Decodes a datagram; nothing if it is no sample.
#[must_use]
pub fn decode(datagram: &[u8]) -> Option<Sample> {
    let datagram: &[u8; SIZE] = datagram.try_into().ok()?;
    let (seconds, rest) = datagram.split_first_chunk()?;
    let (microseconds, rest) = rest.split_first_chunk()?;
    let (offset, rest) = rest.split_first_chunk()?;
    let (pulse, rest) = rest.split_first_chunk()?;
    let (code, rest) = rest.split_first_chunk()?;
    let (_, magic) = rest.split_first_chunk::<4>()?;
    if i32::from_ne_bytes(*magic.first_chunk()?) != MAGIC {
        return None;
    }
    let microseconds = i64::from_ne_bytes(*microseconds);
    let offset = f64::from_ne_bytes(*offset);
    if !(0..1_000_000).contains(&microseconds) || !offset.is_finite() {
        return None;
    }
    let seconds = i64::from_ne_bytes(*seconds).checked_mul(SECOND)?;
    Some(Sample {
        local: UnixTime(seconds) + Span(microseconds * 1000),
        offset,
        is_pulse: i32::from_ne_bytes(*pulse) != 0,
        leap: leap(i32::from_ne_bytes(*code)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_come_back() {
        let sample = Sample {
            local: UnixTime(1_700_000_000_123_456_000),
            offset: -0.25,
            is_pulse: true,
            leap: Leap::Delete,
        };
        let octets = sample.encode();
        assert_eq!(decode(&octets), Some(sample));
        assert_eq!(sample.clock(), UnixTime(1_699_999_999_873_456_000));
        // Where the C compiler puts them.
        assert_eq!(octets[16..24], (-0.25_f64).to_ne_bytes());
        assert_eq!(octets[24..28], 1_i32.to_ne_bytes());
        assert_eq!(octets[36..40], 0x534f_434b_i32.to_ne_bytes());
    }

    #[test]
    fn what_is_no_sample_is_refused() {
        let good = Sample {
            local: UnixTime(SECOND),
            offset: 0.0,
            is_pulse: false,
            leap: Leap::Normal,
        };
        let octets = good.encode();
        assert!(decode(&octets).is_some());
        assert_eq!(decode(&octets[..39]), None);
        assert_eq!(decode(&[&octets[..], &[0]].concat()), None);
        for (at, value) in [(36, 0_u64), (8, 1_000_000), (16, f64::NAN.to_bits())] {
            let mut bad = octets;
            let end = SIZE.min(at + 8);
            bad[at..end].copy_from_slice(&value.to_ne_bytes()[..end - at]);
            assert_eq!(decode(&bad), None, "{at}");
        }
        assert_eq!(
            decode(
                &Sample {
                    offset: f64::INFINITY,
                    ..good
                }
                .encode()
            ),
            None
        );
    }
}
