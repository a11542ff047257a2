//! Any bytes as messages of PTP, one after the other, to a slave that follows a master.
//!
//! Each begins with an octet that says how long it is, and how much time has passed.

use clocks::ptp::guard::admits;
use clocks::ptp::machine::{Machine, instance};
use random::Random;
use time_model::settings::{PtpDelay, PtpSettings};
use time_model::time::{RawTime, Reading, SECOND, UnixTime};

pub(super) fn body(data: &[u8]) {
    let Some((&way, mut rest)) = data.split_first() else {
        return;
    };
    let settings = PtpSettings {
        announce_interval: 0,
        delay: if way & 1 == 0 {
            PtpDelay::EndToEnd
        } else {
            PtpDelay::PeerToPeer
        },
        ..PtpSettings::new("eth0")
    };
    let instance = instance(&settings, [2, 0, 0, 0xff, 0xfe, 0, 0, 1]);
    let mut now = 5 * SECOND;
    let mut machine = Machine::new(&instance, &settings, Random::new([way; 16]), RawTime(now));
    let mut n_sent = 0;
    while let Some((&length, after)) = rest.split_first() {
        let (message, after) = after.split_at(usize::from(length).min(after.len()));
        rest = after;
        now += i64::from(length) * SECOND / 64;
        let at = RawTime(now);
        machine.handle_timeout(at);
        if admits(message) {
            machine.handle_event(message, at, at);
            machine.handle_general(message, at);
        }
        while let Some(message) = machine.poll_transmit() {
            // It says nothing that it would not let in, but for its own requests of delay.
            assert!(message.octets[0] & 0xf == 1 || admits(&message.octets));
            if let Some(context) = message.context {
                n_sent += 1;
                machine.sent(n_sent, context);
                machine.handle_sent(n_sent, at, at);
            }
        }
        while let Some(told) = machine.poll_observation() {
            assert!(told.dispersion >= 0.0);
        }
        assert!(machine.poll_timeout() > RawTime(0));
    }
    let reading = Reading {
        raw: RawTime(now),
        wall: UnixTime(now),
    };
    let view = machine.view(0, &settings, reading);
    assert_eq!(view.domain, 0);
}
