//! Any bytes as what reference clocks leave: a datagram, shared memory, answers of hardware clocks; and any times to the filter.

use clocks::refclock::{
    Context, Observation, Observed, ReferenceClock, Scale, phc, pps, shm, sock,
};
use time_model::settings::{RefclockDriver, RefclockOptions, RefclockSettings};
use time_model::time::{RawTime, Reading, UnixTime};
use time_model::view::Leap;

pub(super) fn body(data: &[u8]) {
    if let Some(sample) = sock::decode(data) {
        // A writer that writes it as it was read is read the same way.
        let again = sock::decode(&sample.encode()).expect("it was one");
        assert_eq!((again.local, again.leap), (sample.local, sample.leap));
        assert_eq!(again.clock(), sample.clock());
    }
    let mut segment = [0; shm::SIZE];
    let n = data.len().min(shm::SIZE);
    segment[..n].copy_from_slice(&data[..n]);
    let count = i32::from_ne_bytes(segment[shm::COUNT..][..4].try_into().expect("four"));
    let shared = shm::decode(&segment, count);
    assert_ne!(shared, Err(shm::NoSample::Torn), "nobody wrote meanwhile");
    let pairs = [
        phc::precise(&filled(data)),
        phc::extended(&filled(data)),
        phc::plain(&filled(data)),
    ];
    for pair in pairs.into_iter().flatten() {
        assert!(pair.took.0 >= 0);
    }
    for clear in [false, true] {
        let pulse = pps::decode(&filled(data), clear);
        assert!(pulse.is_none_or(|pulse| pulse.sequence != 0));
    }
    tell(data);
}

/// As much of it as there is, and zeros.
fn filled<const N: usize>(data: &[u8]) -> [u8; N] {
    let mut octets = [0; N];
    let n = data.len().min(N);
    octets[..n].copy_from_slice(&data[..n]);
    octets
}

/// Sixteen octets at a time: when, and what.
fn tell(data: &[u8]) {
    let way = data.first().copied().unwrap_or(0);
    let options = RefclockOptions {
        filter: u32::from(way >> 4),
        pulses: way & 1 != 0,
        tai: way & 2 != 0,
        lock: (way & 4 != 0).then_some(1),
        rate: u32::from(way & 8),
        ..RefclockOptions::default()
    };
    let driver = RefclockDriver::Shm {
        segment: 0,
        mode: 0,
    };
    let reading = |raw| Reading {
        raw: RawTime(raw),
        wall: UnixTime(raw),
    };
    let mut clock = ReferenceClock::new(RefclockSettings::new(driver, options, 0), reading(0));
    for (octets, n) in data.chunks_exact(16).zip(0_u32..) {
        let at = i64::from_ne_bytes(octets[..8].try_into().expect("eight"));
        let time = i64::from_ne_bytes(octets[8..].try_into().expect("eight"));
        let what = match n % 3 {
            0 => Observed::Pulse {
                time: UnixTime(time),
            },
            1 => Observed::Time {
                time: UnixTime(time),
                scale: Scale::Tai(Some(37)),
            },
            _ => Observed::Time {
                time: UnixTime(time),
                scale: Scale::Configured,
            },
        };
        let told = Observation {
            at: RawTime(at),
            what,
            dispersion: 1e-9,
            leap: Leap::Normal,
        };
        let context = Context {
            tai_offset: Some(37),
            estimate: Some((time.wrapping_sub(at), 1e-3)),
            ..Context::default()
        };
        let before = clock.last();
        if clock
            .tell(&told, Some((RawTime(at), time)), &context, reading(at))
            .is_err()
        {
            assert_eq!(clock.last(), before, "what is of no use changes nothing");
        }
    }
    if let Some(made) = clock.make() {
        assert!(made.dispersion >= 0.0);
    }
}
