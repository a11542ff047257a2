//! The machine against a grandmaster of a few lines, on clocks of their own.

use super::*;

const GRANDMASTER: [u8; 8] = [0, 0x1b, 0x19, 0xff, 0xfe, 1, 2, 3];
const OWN: [u8; 8] = [2, 0, 0, 0xff, 0xfe, 0, 0, 1];
/// The master's time − raw time.
const AHEAD: i64 = 1_700_000_000 * SECOND;
const DELAY: i64 = 2_000;
const MILLISECOND: i64 = 1_000_000;

fn header(kind: u8, length: usize, sequence: u16, flags: [u8; 2]) -> Vec<u8> {
    let mut message = vec![kind, 0x12];
    message.extend(u16::try_from(length).unwrap().to_be_bytes());
    message.extend([0, 0]);
    message.extend(flags);
    message.resize(20, 0);
    message.extend(GRANDMASTER);
    message.extend(1_u16.to_be_bytes());
    message.extend(sequence.to_be_bytes());
    message.extend([0, 0]);
    message
}

fn put_time(message: &mut Vec<u8>, time: i64) {
    let seconds = u64::try_from(time / SECOND).unwrap();
    message.extend(&seconds.to_be_bytes()[2..]);
    message.extend(u32::try_from(time % SECOND).unwrap().to_be_bytes());
}

/// An Announce message; `flags` are those of the time properties.
fn announce(sequence: u16, flags: u8, utc_offset: i16) -> Vec<u8> {
    let mut message = header(0xb, 64, sequence, [0, flags]);
    message.resize(44, 0);
    message.extend(utc_offset.to_be_bytes());
    // Reserved, priority1, clockClass, clockAccuracy, variance, priority2.
    message.extend([0, 128, 6, 0x21, 0x4e, 0x5d, 128]);
    message.extend(GRANDMASTER);
    message.extend([0, 0, 0x20]);
    message
}

fn sync(sequence: u16) -> Vec<u8> {
    let mut message = header(0x0, 44, sequence, [2, 0]);
    message.resize(44, 0);
    message
}

fn follow_up(sequence: u16, time: i64) -> Vec<u8> {
    let mut message = header(0x8, 44, sequence, [0, 0]);
    put_time(&mut message, time);
    message
}

/// The answer to a request of ours.
fn delay_response(request: &[u8], time: i64) -> Vec<u8> {
    let sequence = u16::from_be_bytes([request[30], request[31]]);
    let mut message = header(0x9, 54, sequence, [0, 0]);
    put_time(&mut message, time);
    message.extend(&request[20..30]);
    message
}

/// A grandmaster on the other end of a wire.
struct World<'a> {
    machine: Machine<'a>,
    now: i64,
    sequence: u16,
    flags: u8,
    utc_offset: i16,
    n_requests: u32,
    told: Vec<Observation>,
}

impl<'a> World<'a> {
    fn new(instance: &'a Instance, settings: &PtpSettings) -> Self {
        let now = 5 * SECOND;
        Self {
            machine: Machine::new(instance, settings, Random::new([1; 16]), RawTime(now)),
            now,
            sequence: 0,
            flags: 0,
            utc_offset: 0,
            n_requests: 0,
            told: Vec::new(),
        }
    }

    /// Some seconds; with a grandmaster that speaks once in each, or without.
    fn seconds(&mut self, n: u32, speaks: bool) {
        for _ in 0..n {
            if speaks {
                self.speak();
            }
            for _ in 0..100 {
                self.now += 10 * MILLISECOND;
                self.machine.handle_timeout(RawTime(self.now));
                self.answer();
            }
        }
    }

    fn speak(&mut self) {
        let now = RawTime(self.now);
        self.sequence += 1;
        let announce = announce(self.sequence, self.flags, self.utc_offset);
        self.machine.handle_general(&announce, now);
        self.machine.handle_event(&sync(self.sequence), now, now);
        let departed = self.now + AHEAD - DELAY;
        self.machine
            .handle_general(&follow_up(self.sequence, departed), now);
        self.answer();
    }

    fn answer(&mut self) {
        let now = RawTime(self.now);
        while let Some(message) = self.machine.poll_transmit() {
            assert!(message.is_event, "a slave says nothing but requests");
            assert_eq!(message.octets[0] & 0xf, 1, "Delay_Req");
            self.n_requests += 1;
            let arrived = self.now + AHEAD + DELAY;
            let response = delay_response(&message.octets, arrived);
            self.machine.sent(self.n_requests, message.context.unwrap());
            self.machine.handle_sent(self.n_requests, now, now);
            self.machine.handle_general(&response, now);
        }
        self.told
            .extend(std::iter::from_fn(|| self.machine.poll_observation()));
    }

    fn view(&mut self, settings: &PtpSettings) -> PtpView {
        let now = Reading {
            raw: RawTime(self.now),
            // A local clock that is 500 ns ahead.
            wall: UnixTime(self.now + AHEAD + 500),
        };
        self.machine.view(3, settings, now)
    }
}

fn settings() -> PtpSettings {
    PtpSettings {
        announce_interval: 0,
        ..PtpSettings::new("eth0")
    }
}

/// Time of day that was told − the truth.
fn off(told: &Observation) -> (i64, Scale) {
    let Observed::Time { time, scale } = told.what else {
        panic!("{told:?}");
    };
    (time.0 - told.at.0 - AHEAD, scale)
}

#[test]
fn a_master_is_found_followed_and_lost() {
    let settings = settings();
    let instance = instance(&settings, OWN);
    let mut world = World::new(&instance, &settings);
    world.seconds(3, false);
    let view = world.view(&settings);
    assert_eq!(
        (view.role, view.state),
        (PtpRole::Listening, PtpState::FreeRun)
    );
    assert_eq!((view.class, view.grandmaster), (255, None));
    world.seconds(12, true);
    assert!(world.told.len() >= 5, "{}", world.told.len());
    for told in &world.told {
        let (off, scale) = off(told);
        assert!(off.abs() <= 1, "{off} ns");
        assert_eq!(scale, Scale::Configured);
    }
    let view = world.view(&settings);
    assert_eq!((view.role, view.state), (PtpRole::Slave, PtpState::Locked));
    assert_eq!((view.class, view.grandmaster), (6, Some(GRANDMASTER)));
    assert_eq!((view.clock, view.steps_removed), (3, 1));
    assert!((view.offset.unwrap() - 500e-9).abs() < 2e-9, "{view:?}");
    assert!((view.max_offset - 500e-9).abs() < 2e-9, "{view:?}");
    assert!((view.delay.unwrap() - 2e-6).abs() < 1e-9, "{view:?}");
    assert!(view.frequency.unwrap().abs() < 1e-3, "{view:?}");
    assert_eq!(usize::try_from(view.n_measured).unwrap(), world.told.len());
    // The last Sync message is a second old already.
    world.seconds(7, false);
    assert_eq!(world.view(&settings).state, PtpState::Holdover);
    world.seconds(10, false);
    let view = world.view(&settings);
    assert_eq!(
        (view.role, view.state),
        (PtpRole::Listening, PtpState::FreeRun)
    );
    let n_requests = world.n_requests;
    world.seconds(10, false);
    assert_eq!(world.n_requests, n_requests, "nobody is there to be asked");
    world.seconds(12, true);
    assert_eq!(world.view(&settings).state, PtpState::Locked);
}

#[test]
fn a_master_that_keeps_tai_says_how_far_it_is_from_utc() {
    for (flags, offset, configured, expected) in [
        (0x08 | 0x04, 37, None, Scale::Tai(Some(37))),
        (0x08 | 0x04, 37, Some(36), Scale::Tai(Some(37))),
        // It does not know (currentUtcOffsetValid).
        (0x08, 37, None, Scale::Tai(None)),
        (0x08, 37, Some(36), Scale::Tai(Some(36))),
        // An arbitrary timescale, which we take for UTC.
        (0x04, 37, None, Scale::Configured),
    ] {
        let settings = PtpSettings {
            utc_offset: configured,
            ..settings()
        };
        let instance = instance(&settings, OWN);
        let mut world = World::new(&instance, &settings);
        (world.flags, world.utc_offset) = (flags, offset);
        world.seconds(12, true);
        assert_eq!(off(world.told.last().unwrap()).1, expected, "{flags:#x}");
        let known = match expected {
            Scale::Tai(offset) => offset,
            Scale::Configured => Some(0),
        };
        let seconds = world.view(&settings).offset.map(f64::round);
        assert_eq!(
            seconds,
            known.map(f64::from),
            "the local clock has not that offset"
        );
    }
}

#[test]
fn a_leap_second_is_announced() {
    let settings = settings();
    let instance = instance(&settings, OWN);
    let mut world = World::new(&instance, &settings);
    world.seconds(8, true);
    assert_eq!(world.told.last().unwrap().leap, Leap::Normal);
    for (flags, leap) in [(1, Leap::Insert), (2, Leap::Delete)] {
        world.flags = flags;
        world.seconds(3, true);
        assert_eq!(world.told.last().unwrap().leap, leap);
    }
}

#[test]
fn another_domain_is_not_heard() {
    let settings = PtpSettings {
        domain: 24,
        ..settings()
    };
    let instance = instance(&settings, OWN);
    let mut world = World::new(&instance, &settings);
    world.seconds(8, true);
    assert!(world.told.is_empty());
    assert_eq!(world.view(&settings).role, PtpRole::Listening);
}

#[test]
fn the_asymmetry_of_the_path_is_taken_out() {
    let settings = PtpSettings {
        // The way from the master takes so much longer than the mean.
        asymmetry: 300e-9,
        ..settings()
    };
    let instance = instance(&settings, OWN);
    let mut world = World::new(&instance, &settings);
    world.seconds(12, true);
    assert_eq!(off(world.told.last().unwrap()).0, 300);
}

#[test]
fn a_master_whose_messages_are_lost_now_and_then_is_kept() {
    let settings = settings();
    let instance = instance(&settings, OWN);
    let mut world = World::new(&instance, &settings);
    world.seconds(8, true);
    for _ in 0..20 {
        world.seconds(1, true);
        // Two of three are lost.
        world.seconds(2, false);
        let view = world.view(&settings);
        assert_eq!((view.role, view.state), (PtpRole::Slave, PtpState::Locked));
    }
}

#[test]
fn a_better_master_is_followed_instead() {
    let settings = settings();
    let instance = instance(&settings, OWN);
    let mut world = World::new(&instance, &settings);
    world.seconds(10, true);
    let better = [0, 0, 0, 0xff, 0xfe, 0, 0, 9];
    for sequence in 0..10 {
        let mut message = announce(sequence, 0, 0);
        message[20..28].copy_from_slice(&better);
        message[53..61].copy_from_slice(&better);
        // priority1.
        message[47] = 1;
        world.machine.handle_general(&message, RawTime(world.now));
        world.seconds(1, true);
    }
    let view = world.view(&settings);
    assert_eq!(view.grandmaster, Some(better));
    // It says what time it is to nobody.
    let n_told = world.told.len();
    world.seconds(1, true);
    assert_eq!(world.told.len(), n_told);
}
