//! The drivers against what they are for: a segment and a socket of this machine.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use super::*;
use time_model::settings::RefclockOptions;
use time_model::time::{SECOND, Span};

fn no_seed() -> io::Result<[u8; 16]> {
    Err(io::ErrorKind::Unsupported.into())
}

fn settings(driver: RefclockDriver) -> RefclockSettings {
    let options = RefclockOptions {
        filter: 1,
        ..RefclockOptions::default()
    };
    RefclockSettings::new(driver, options, 0)
}

fn open(driver: RefclockDriver) -> Clocks {
    let (clocks, failures) = Clocks::open(&[settings(driver)], reading(), no_seed);
    assert!(failures.is_empty(), "{failures:?}");
    clocks
}

/// Reads until a sample is made.
fn sample(clocks: &mut Clocks) -> Option<ClockSample> {
    for step in 0..16 {
        let mut now = reading();
        now.raw = now.raw + Span(step * SECOND);
        if let Some(output) = clocks.handle_timeout(&Context::default(), now).first() {
            return output.sample;
        }
    }
    None
}

/// By how much a sample puts the clock of this machine behind, in nanoseconds.
fn behind(made: &ClockSample) -> i64 {
    let now = reading();
    made.ahead - (now.wall.0 - now.raw.0)
}

/// Far above what a second reading of both clocks differs from the first, far below what the tests put in.
const NOISE: i64 = 50_000_000;

#[test]
fn samples_come_through_a_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gps.sock");
    // What is left of an earlier run is in the way, and goes.
    drop(UnixDatagram::bind(&path).unwrap());
    let mut clocks = open(RefclockDriver::Sock { path: path.clone() });
    let descriptors: Vec<usize> = clocks.descriptors().map(|(clock, _)| clock).collect();
    assert_eq!(descriptors, [0]);
    let writer = UnixDatagram::unbound().unwrap();
    let told = |offset| sock::Sample {
        local: reading().wall,
        offset,
        is_pulse: false,
        leap: Leap::Normal,
    };
    writer.send_to(b"nonsense", &path).unwrap();
    let long = [&told(1.0).encode()[..], &[0]].concat();
    writer.send_to(&long, &path).unwrap();
    clocks.handle_readable(0, &Context::default());
    assert_eq!(clocks.cores().next().unwrap().counts(), (0, 0));
    writer.send_to(&told(2.5).encode(), &path).unwrap();
    clocks.handle_readable(0, &Context::default());
    let made = sample(&mut clocks).unwrap();
    let off = behind(&made) - 2_500_000_000;
    assert!(off.abs() < NOISE, "{off} ns");
    drop(clocks);
    assert!(!path.exists(), "a writer would wait for nobody");
}

#[test]
fn the_phase_of_a_pulse_comes_through_a_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pps.sock");
    let mut clocks = open(RefclockDriver::Sock { path: path.clone() });
    let now = reading();
    let pulse = sock::Sample {
        local: now.wall,
        // And any number of seconds.
        offset: 7.25,
        is_pulse: true,
        leap: Leap::Normal,
    };
    let writer = UnixDatagram::unbound().unwrap();
    writer.send_to(&pulse.encode(), &path).unwrap();
    let context = Context {
        estimate: Some((now.wall.0 - now.raw.0, 0.01)),
        ..Context::default()
    };
    clocks.handle_readable(0, &context);
    let off = behind(&sample(&mut clocks).unwrap()) - 250_000_000;
    assert!(off.abs() < NOISE, "{off} ns");
}

#[test]
fn an_old_stamp_is_put_on_the_raw_clock_by_the_rate_in_force() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gps.sock");
    let mut clocks = open(RefclockDriver::Sock { path: path.clone() });
    let before = reading();
    let stamp = before.wall - Span(10 * SECOND);
    let told = sock::Sample {
        local: stamp,
        offset: 0.0,
        is_pulse: false,
        leap: Leap::Normal,
    };
    let writer = UnixDatagram::unbound().unwrap();
    writer.send_to(&told.encode(), &path).unwrap();
    // As in a slew: ten seconds of the wall clock are eight of the raw clock.
    let context = Context {
        rate: 250_000_000.0,
        ..Context::default()
    };
    clocks.handle_readable(0, &context);
    let after = reading();
    let at = sample(&mut clocks).unwrap().at;
    let earliest = before.raw - Span(8 * SECOND);
    let latest = after.raw - Span::from_seconds((after.wall - stamp).seconds() / 1.25);
    let noise = Span(NOISE);
    assert!(
        earliest - noise < at && at < latest + noise,
        "{earliest:?} {at:?} {latest:?}"
    );
}

#[test]
fn samples_come_through_shared_memory() {
    // Nobody else uses segments so high.
    let segment = 0x0100_0000 + std::process::id();
    let writer = Segment::attach(shm::FIRST_KEY.wrapping_add(segment), 0o600).unwrap();
    let mut clocks = open(RefclockDriver::Shm {
        segment,
        mode: 0o600,
    });
    assert_eq!(sample(&mut clocks), None, "nothing was written");
    let mut octets = [0; shm::SIZE];
    let now = reading().wall.0;
    let put = |octets: &mut [u8], at: usize, time: i64| {
        octets[at..at + 8].copy_from_slice(&(time / SECOND).to_ne_bytes());
        let below = i32::try_from(time % SECOND / 1000).unwrap();
        octets[at + 8..at + 12].copy_from_slice(&below.to_ne_bytes());
    };
    put(&mut octets, 8, now - 3 * SECOND);
    put(&mut octets, 24, now);
    octets[..4].copy_from_slice(&1_i32.to_ne_bytes());
    octets[shm::VALID..shm::VALID + 4].copy_from_slice(&1_i32.to_ne_bytes());
    for (index, word) in octets.chunks(4).enumerate() {
        writer.set_word(index, u32::from_ne_bytes(word.try_into().unwrap()));
    }
    let mut clocks = open(RefclockDriver::Shm {
        segment,
        mode: 0o600,
    });
    let made = sample(&mut clocks).unwrap();
    let off = behind(&made) + 3 * SECOND;
    assert!(off.abs() < NOISE, "{off} ns");
    assert_eq!(
        writer.word(shm::VALID / 4),
        0,
        "it is told that it was read"
    );
    assert_eq!(sample(&mut clocks), None, "nothing counts twice");
    Segment::remove(shm::FIRST_KEY.wrapping_add(segment)).unwrap();
}

#[test]
fn a_clock_that_is_not_there_is_told_of_and_stays_silent() {
    let missing = PathBuf::from("/dev/no-such-clock");
    let drivers = [
        RefclockDriver::Phc {
            device: missing.clone(),
            options: time_model::settings::PhcOptions::default(),
        },
        RefclockDriver::Pps {
            device: missing.clone(),
            clear: false,
        },
        RefclockDriver::Sock {
            path: missing.join("sock"),
        },
        // A device, and no clock.
        RefclockDriver::Phc {
            device: PathBuf::from("/dev/null"),
            options: time_model::settings::PhcOptions::default(),
        },
    ];
    let settings = drivers.map(settings);
    let (mut clocks, failures) = Clocks::open(&settings, reading(), no_seed);
    let failed: Vec<usize> = failures.iter().map(|failure| failure.clock).collect();
    assert_eq!(failed, [0, 1, 2, 3]);
    assert_eq!(clocks.descriptors().count(), 0);
    assert_eq!(sample(&mut clocks), None);
}

#[test]
fn a_device_that_has_nothing_is_not_waited_for() {
    let (reader, writer) = UnixDatagram::pair().unwrap();
    let device = OwnedFd::from(reader);
    let mut buffer = [0; 8];
    let nothing = device::read(&device, &mut buffer).unwrap_err();
    assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    writer.send(b"pulse").unwrap();
    assert_eq!(device::read(&device, &mut buffer).unwrap(), 5);
}

#[test]
fn a_clock_that_has_failed_is_waited_for_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let paths = ["a.sock", "b.sock"].map(|name| directory.path().join(name));
    let drivers = paths.clone().map(|path| RefclockDriver::Sock { path });
    let (mut clocks, _) = Clocks::open(&drivers.map(settings), reading(), no_seed);
    clocks.close(0);
    let descriptors: Vec<usize> = clocks.descriptors().map(|(clock, _)| clock).collect();
    assert_eq!(descriptors, [1], "the other one keeps its place");
    assert!(!paths[0].exists(), "it is closed");
}
