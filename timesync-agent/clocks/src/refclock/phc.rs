//! PTP hardware clocks: answers to the kernel's `PTP_SYS_OFFSET*` requests, and pulses that they timestamp
//! (`linux/ptp_clock.h`).
//!
//! Only layouts and decoding. There are three requests, in the order of how exact they are: both clocks latched at one moment by
//! the hardware; the wall clock read right before and right after the register of the hardware clock; and the wall clock read
//! between whole requests.

use time_model::settings::ExternalPulses;
use time_model::time::{RawTime, SECOND, Span, UnixTime};

/// Readings in one request: enough that one of them was not disturbed.
pub const READINGS: usize = 10;

/// The most readings of one request (`PTP_MAX_SAMPLES`).
const MOST: usize = 25;

/// A time of the kernel: seconds, nanoseconds, and four octets that are kept free.
const TIME: usize = 16;

/// The number of readings, and twelve octets that are kept free.
const HEAD: usize = 16;

/// Length of `struct ptp_sys_offset`.
pub const PLAIN_SIZE: usize = HEAD + (2 * MOST + 1) * TIME;

/// Length of `struct ptp_sys_offset_extended`.
pub const EXTENDED_SIZE: usize = HEAD + 3 * MOST * TIME;

/// Length of `struct ptp_sys_offset_precise`.
pub const PRECISE_SIZE: usize = 3 * TIME + 16;

/// Length of `struct ptp_extts_request`.
pub const PULSES_SIZE: usize = 16;

/// Length of `struct ptp_pin_desc`.
pub const PIN_SIZE: usize = 96;

/// Length of `struct ptp_extts_event`.
pub const PULSE_SIZE: usize = TIME + 16;

/// `PTP_EXTTS_REQUEST`.
pub const PULSES: u32 = request(WRITE, 2, PULSES_SIZE);

/// `PTP_PIN_SETFUNC`.
pub const PIN: u32 = request(WRITE, 7, PIN_SIZE);

/// The offset of a pin's number, after its name; its use and its channel follow.
const PIN_INDEX: usize = 64;

/// `PTP_ENABLE_FEATURE`, and `PTP_RISING_EDGE` or `PTP_FALLING_EDGE`.
const ENABLE: u32 = 1;
const RISING: u32 = 2;
const FALLING: u32 = 4;

/// `PTP_SYS_OFFSET`.
pub const PLAIN: u32 = request(WRITE, 5, PLAIN_SIZE);

/// `PTP_SYS_OFFSET_PRECISE`.
pub const PRECISE: u32 = request(READ | WRITE, 8, PRECISE_SIZE);

/// `PTP_SYS_OFFSET_EXTENDED`.
pub const EXTENDED: u32 = request(READ | WRITE, 9, EXTENDED_SIZE);

/// The program gives.
const WRITE: u32 = 1;

/// The kernel gives.
const READ: u32 = 2;

/// The number of an `ioctl` (asm-generic/ioctl.h) of PTP clocks, whose letter is `=`.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the field of the size has 14 bits, and all of ours are below 2 KiB"
)]
const fn request(direction: u32, number: u8, size: usize) -> u32 {
    direction << 30 | (size as u32 & 0x3fff) << 16 | (b'=' as u32) << 8 | number as u32
}

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// This machine's.
    pub system: System,
    /// The hardware clock.
    pub clock: UnixTime,
    /// How long it took: half of it bounds the error.
    pub took: Span,
}

/// A time of this machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// `CLOCK_REALTIME`.
    Wall(UnixTime),
    /// `CLOCK_MONOTONIC_RAW`.
    Raw(RawTime),
}

/// The beginning of a request: how many readings are wanted.
#[must_use]
pub fn head() -> [u8; HEAD] {
    let mut head = [0; HEAD];
    let wanted = u32::try_from(READINGS).unwrap_or(1).to_ne_bytes();
    for (octet, value) in head.iter_mut().zip(wanted) {
        *octet = value;
    }
    head
}

/// Decodes the answer to [`PRECISE`].
#[must_use]
pub fn precise(answer: &[u8; PRECISE_SIZE]) -> Option<Pair> {
    // The wall clock in the middle is of no use: the raw clock is what we want.
    Some(Pair {
        clock: moment(answer, 0)?,
        system: System::Raw(RawTime(moment(answer, 2 * TIME)?.0)),
        took: Span::ZERO,
    })
}

/// Decodes the answer to [`EXTENDED`]: the reading that took least.
#[must_use]
pub fn extended(answer: &[u8; EXTENDED_SIZE]) -> Option<Pair> {
    let n = n_readings(answer);
    let triples = (0..n).filter_map(|index| {
        let at = HEAD + index * 3 * TIME;
        between(
            moment(answer, at)?,
            moment(answer, at + TIME)?,
            moment(answer, at + 2 * TIME)?,
        )
    });
    triples.min_by_key(|pair| pair.took)
}

/// Decodes the answer to [`PLAIN`]: the reading that took least.
#[must_use]
pub fn plain(answer: &[u8; PLAIN_SIZE]) -> Option<Pair> {
    let n = n_readings(answer);
    let triples = (0..n).filter_map(|index| {
        // The wall clock after one reading is that before the next.
        let at = HEAD + index * 2 * TIME;
        between(
            moment(answer, at)?,
            moment(answer, at + TIME)?,
            moment(answer, at + 2 * TIME)?,
        )
    });
    triples.min_by_key(|pair| pair.took)
}

/// A request that pulses of a channel are stamped, or that they are no more.
#[must_use]
pub fn pulses(pulses: &ExternalPulses, on: bool) -> [u8; PULSES_SIZE] {
    let edge = if pulses.clear { FALLING } else { RISING };
    let mut request = [0; PULSES_SIZE];
    numbers(
        &mut request,
        [pulses.channel, if on { ENABLE | edge } else { 0 }],
    );
    request
}

/// A request that a pin feeds a channel, or is free again; nothing if there is nothing to set up.
#[must_use]
pub fn pin(pulses: &ExternalPulses, on: bool) -> Option<[u8; PIN_SIZE]> {
    let index = u32::try_from(pulses.pin).ok()?;
    let mut request = [0; PIN_SIZE];
    // `PTP_PF_NONE`, `PTP_PF_EXTTS`.
    let used = [index, u32::from(on), pulses.channel];
    numbers(request.get_mut(PIN_INDEX..)?, used);
    Some(request)
}

/// Decodes what a device has of pulses: when each came, by the hardware clock, and in which channel.
pub fn stamps(octets: &[u8]) -> impl Iterator<Item = (UnixTime, u32)> {
    octets.chunks_exact(PULSE_SIZE).filter_map(|event| {
        let channel = event.get(TIME..)?.first_chunk()?;
        Some((moment(event, 0)?, u32::from_ne_bytes(*channel)))
    })
}

fn numbers<const N: usize>(to: &mut [u8], numbers: [u32; N]) {
    let octets = numbers.into_iter().flat_map(u32::to_ne_bytes);
    for (to, octet) in to.iter_mut().zip(octets) {
        *to = octet;
    }
}

/// How many readings the kernel says that it made, and not more than there can be.
fn n_readings(answer: &[u8]) -> usize {
    let n = answer.first_chunk().copied().map_or(0, u32::from_ne_bytes);
    usize::try_from(n).unwrap_or(0).min(MOST)
}

/// The hardware clock was read in the middle of both; nothing if the wall clock was set back meanwhile.
fn between(before: UnixTime, clock: UnixTime, after: UnixTime) -> Option<Pair> {
    let took = after - before;
    (took >= Span::ZERO).then(|| Pair {
        system: System::Wall(before + Span(took.0 / 2)),
        clock,
        took,
    })
}

/// A time of the kernel; nothing if it is none.
fn moment(answer: &[u8], at: usize) -> Option<UnixTime> {
    let (seconds, rest) = answer.get(at..)?.split_first_chunk()?;
    let nanoseconds = i64::from(u32::from_ne_bytes(*rest.first_chunk()?));
    if nanoseconds >= SECOND {
        return None;
    }
    let seconds = i64::from_ne_bytes(*seconds).checked_mul(SECOND)?;
    Some(UnixTime(seconds.checked_add(nanoseconds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time at its place.
    fn put(octets: &mut [u8], at: usize, seconds: i64, nanoseconds: u32) {
        octets[at..at + 8].copy_from_slice(&seconds.to_ne_bytes());
        octets[at + 8..at + 12].copy_from_slice(&nanoseconds.to_ne_bytes());
    }

    #[test]
    fn requests_have_the_kernels_numbers() {
        // As `_IOW` and `_IOWR` of linux/ptp_clock.h give them on every 64-bit machine.
        assert_eq!((PLAIN_SIZE, PLAIN), (832, 0x4340_3d05));
        assert_eq!((EXTENDED_SIZE, EXTENDED), (1216, 0xc4c0_3d09));
        assert_eq!((PRECISE_SIZE, PRECISE), (64, 0xc040_3d08));
        assert_eq!((PULSES_SIZE, PULSES), (16, 0x4010_3d02));
        assert_eq!((PIN_SIZE, PIN), (96, 0x4060_3d07));
    }

    #[test]
    fn a_pin_is_set_up_and_let_go() {
        let wanted = ExternalPulses {
            pin: 3,
            channel: 2,
            clear: false,
        };
        let at =
            |request: &[u8], at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        let (on, off) = (pin(&wanted, true).unwrap(), pin(&wanted, false).unwrap());
        assert_eq!([64, 68, 72, 76].map(|place| at(&on, place)), [3, 1, 2, 0]);
        assert_eq!([64, 68, 72, 76].map(|place| at(&off, place)), [3, 0, 2, 0]);
        let (on, off) = (pulses(&wanted, true), pulses(&wanted, false));
        assert_eq!([0, 4, 8].map(|place| at(&on, place)), [2, 1 | 2, 0]);
        assert_eq!([0, 4, 8].map(|place| at(&off, place)), [2, 0, 0]);
        let falling = ExternalPulses {
            pin: -1,
            clear: true,
            ..wanted
        };
        assert_eq!(pin(&falling, true), None);
        assert_eq!(at(&pulses(&falling, true), 4), 1 | 4);
    }

    #[test]
    fn pulses_have_their_time_and_channel() {
        let mut octets = [0; 3 * PULSE_SIZE + 5];
        put(&mut octets, 0, 40, 5);
        octets[16] = 2;
        // No time at all.
        put(&mut octets, 32, 41, u32::MAX);
        put(&mut octets, 64, 42, 7);
        let all: Vec<(UnixTime, u32)> = stamps(&octets).collect();
        assert_eq!(
            all,
            [
                (UnixTime(40_000_000_005), u32::from_ne_bytes([2, 0, 0, 0])),
                (UnixTime(42_000_000_007), 0)
            ]
        );
        assert_eq!(stamps(&octets[..31]).count(), 0);
    }

    #[test]
    fn the_reading_that_took_least_counts() {
        let mut answer = [0; EXTENDED_SIZE];
        answer[..4].copy_from_slice(&3_u32.to_ne_bytes());
        for (index, took) in [900, 400, 700].into_iter().enumerate() {
            let at = HEAD + index * 48;
            let second = 100 + i64::try_from(index).unwrap();
            put(&mut answer, at, second, 1_000);
            put(&mut answer, at + 16, second + 37, 5);
            put(&mut answer, at + 32, second, 1_000 + took);
        }
        let pair = extended(&answer).unwrap();
        assert_eq!(pair.system, System::Wall(UnixTime(101_000_001_200)));
        assert_eq!(pair.clock, UnixTime(138_000_000_005));
        assert_eq!(pair.took, Span(400));
        // What the kernel did not write is not read.
        answer[..4].copy_from_slice(&1_u32.to_ne_bytes());
        assert_eq!(extended(&answer).unwrap().took, Span(900));
        answer[..4].copy_from_slice(&0_u32.to_ne_bytes());
        assert_eq!(extended(&answer), None);
        answer[..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert!(extended(&answer).is_some());
    }

    #[test]
    fn plain_readings_share_the_wall_clock_between_them() {
        let mut answer = [0; PLAIN_SIZE];
        answer[..4].copy_from_slice(&2_u32.to_ne_bytes());
        for (index, nanoseconds) in [0, 50, 1_000, 1_020, 1_300].into_iter().enumerate() {
            put(&mut answer, HEAD + index * 16, 7, nanoseconds);
        }
        let pair = plain(&answer).unwrap();
        assert_eq!(pair.took, Span(300));
        assert_eq!(pair.system, System::Wall(UnixTime(7_000_001_150)));
        assert_eq!(pair.clock, UnixTime(7_000_001_020));
    }

    #[test]
    fn a_latched_reading_is_of_the_raw_clock() {
        let mut answer = [0; PRECISE_SIZE];
        put(&mut answer, 0, 10, 1);
        put(&mut answer, 16, 20, 2);
        put(&mut answer, 32, 30, 3);
        let pair = precise(&answer).unwrap();
        assert_eq!(pair.clock, UnixTime(10_000_000_001));
        assert_eq!(pair.system, System::Raw(RawTime(30_000_000_003)));
        put(&mut answer, 0, 10, 1_000_000_000);
        assert_eq!(precise(&answer), None);
    }
}
