//! Pulses that the kernel stamps (RFC 2783, linux/pps.h).
//!
//! Only the layout and the decoding.

use time_model::time::{SECOND, UnixTime};

/// Length of `struct pps_fdata`: the last pulses, and the time to wait for more.
pub const SIZE: usize = 64;

/// `PPS_FETCH`, whose number has the size of a pointer in it.
pub const FETCH: u32 = 3 << 30 | 8 << 16 | (b'p' as u32) << 8 | 0xa4;

/// Length of `struct pps_kparams`.
pub const PARAMETERS_SIZE: usize = 40;

/// `PPS_SETPARAMS`.
pub const SET_PARAMETERS: u32 = 1 << 30 | 8 << 16 | (b'p' as u32) << 8 | 0xa2;

/// A pulse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// The number of the pulse; another number is another pulse.
    pub sequence: u32,
    /// When, on the wall clock.
    pub at: UnixTime,
}

/// A request for the last pulses. The time to wait is zero and valid, so the kernel returns at once.
#[must_use]
pub const fn request() -> [u8; SIZE] {
    [0; SIZE]
}

/// Rising edges are wanted, or with `clear` falling ones.
#[must_use]
pub fn parameters(clear: bool) -> [u8; PARAMETERS_SIZE] {
    // Version 1 of the interface, times in seconds and nanoseconds, one edge.
    let mode: u32 = 0x1000 | if clear { 0x2 } else { 0x1 };
    let mut parameters = [0; PARAMETERS_SIZE];
    let fields = 1_u32.to_ne_bytes().into_iter().chain(mode.to_ne_bytes());
    for (octet, value) in parameters.iter_mut().zip(fields) {
        *octet = value;
    }
    parameters
}

/// The last rising edge, or with `clear` the last falling one; nothing if there was none.
#[must_use]
pub fn decode(answer: &[u8; SIZE], clear: bool) -> Option<Pulse> {
    let (sequence, time) = if clear { (4, 24) } else { (0, 8) };
    let sequence = u32::from_ne_bytes(*answer.get(sequence..)?.first_chunk()?);
    let (seconds, rest) = answer.get(time..)?.split_first_chunk()?;
    let nanoseconds = i64::from(i32::from_ne_bytes(*rest.first_chunk()?));
    if sequence == 0 || !(0..SECOND).contains(&nanoseconds) {
        return None;
    }
    let seconds = i64::from_ne_bytes(*seconds).checked_mul(SECOND)?;
    Some(Pulse {
        sequence,
        at: UnixTime(seconds.checked_add(nanoseconds)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_edge_can_be_the_one_that_counts() {
        let mut answer = request();
        assert_eq!((FETCH, SET_PARAMETERS), (0xc008_70a4, 0x4008_70a2));
        assert_eq!(decode(&answer, false), None, "no pulse yet");
        answer[0..4].copy_from_slice(&3_u32.to_ne_bytes());
        answer[4..8].copy_from_slice(&2_u32.to_ne_bytes());
        answer[8..16].copy_from_slice(&10_i64.to_ne_bytes());
        answer[16..20].copy_from_slice(&5_i32.to_ne_bytes());
        answer[24..32].copy_from_slice(&9_i64.to_ne_bytes());
        answer[32..36].copy_from_slice(&6_i32.to_ne_bytes());
        let assert = Pulse {
            sequence: 3,
            at: UnixTime(10_000_000_005),
        };
        assert_eq!(decode(&answer, false), Some(assert));
        let clear = Pulse {
            sequence: 2,
            at: UnixTime(9_000_000_006),
        };
        assert_eq!(decode(&answer, true), Some(clear));
        answer[16..20].copy_from_slice(&(-1_i32).to_ne_bytes());
        assert_eq!(decode(&answer, false), None);
    }
}
